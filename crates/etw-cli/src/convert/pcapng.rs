//! Captured packets as pcapng: those of Microsoft-Windows-NDIS-PacketCapture, in fragments, and of Microsoft-Windows-PktMon.
//!
//! ```text
//! NDIS event 1001   u32 miniport interface   u32 lower interface   u32 size   fragment
//!   keyword 40000000 first fragment, 80000000 last, 1_0000_0000 sent, 2_0000_0000 received; media: 10000 native 802.11, 200 mobile
//! PktMon event 160  fields of its manifest; Payload
//! ```
//!
//! Source: Microsoft's documentation of netsh trace and pktmon, and of etl2pcapng; pcapng as drafted at the IETF.

use super::{Event, Target};
use crate::join::Names;
use etw_decode::{Field, Value, Visitor};
use etw_types::{Guid, le};
use std::collections::HashMap;
use std::io::{self, Write};

const NDIS: Guid = Guid::from_u128(0x2ed6006e_4729_4609_b423_3ee7bcd678ef);
const PKTMON: Guid = Guid::from_u128(0x4d4f80d9_c8bd_4d73_bb5b_19c90402c5ac);
const FIRST: u64 = 0x4000_0000;
const LAST: u64 = 0x8000_0000;
const SENT: u64 = 0x1_0000_0000;
const RECEIVED: u64 = 0x2_0000_0000;
const MOBILE: u64 = 0x200;
const WIFI: u64 = 0x1_0000;
const ETHERNET_LINK: u16 = 1;
const RAW_LINK: u16 = 101;
const WIFI_LINK: u16 = 105;
/// Bytes of a packet; larger ones are no packets.
const LARGEST: usize = 256 << 10;
/// Interfaces of a file.
const INTERFACES: usize = 1 << 12;

pub struct Pcapng<W: Write> {
    out: W,
    count: u64,
    /// By miniport, lower interface and link type.
    interfaces: HashMap<(u32, u32, u16), u32>,
    /// Fragments of a packet, by CPU and interface.
    pending: HashMap<(u16, u32), Vec<u8>>,
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let size = (12 + body.len().next_multiple_of(4)) as u32;
    let mut block = Vec::with_capacity(size as usize);
    block.extend(kind.to_le_bytes());
    block.extend(size.to_le_bytes());
    block.extend(body);
    block.resize(size as usize - 4, 0);
    block.extend(size.to_le_bytes());
    block
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

impl<W: Write> Pcapng<W> {
    pub fn new(mut out: W) -> io::Result<Pcapng<W>> {
        let mut body = 0x1a2b_3c4du32.to_le_bytes().to_vec();
        body.extend([1, 0, 0, 0]);
        body.extend((-1i64).to_le_bytes());
        option(&mut body, 4, b"etw convert");
        option(&mut body, 0, b"");
        out.write_all(&block(0x0a0d_0d0a, &body))?;
        Ok(Pcapng { out, count: 0, interfaces: HashMap::new(), pending: HashMap::new() })
    }

    fn interface(&mut self, miniport: u32, lower: u32, link: u16) -> io::Result<u32> {
        let key = (miniport, lower, link);
        if let Some(known) = self.interfaces.get(&key) {
            return Ok(*known);
        }
        let number = self.interfaces.len().min(INTERFACES) as u32;
        if number as usize == INTERFACES {
            return Ok(0);
        }
        self.interfaces.insert(key, number);
        let mut body = link.to_le_bytes().to_vec();
        body.extend([0; 6]);
        let name = match lower {
            0 => format!("interface {miniport}"),
            _ => format!("interface {miniport}, lower {lower}"),
        };
        option(&mut body, 2, name.as_bytes());
        // Times in nanoseconds.
        option(&mut body, 9, &[9]);
        option(&mut body, 0, b"");
        self.out.write_all(&block(1, &body))?;
        Ok(number)
    }

    fn packet(
        &mut self,
        event: &Event<'_>,
        interface: u32,
        bytes: &[u8],
        keyword: u64,
    ) -> io::Result<()> {
        let time = u64::try_from(event.time).unwrap_or(0);
        let mut body = interface.to_le_bytes().to_vec();
        body.extend(((time >> 32) as u32).to_le_bytes());
        body.extend((time as u32).to_le_bytes());
        body.extend((bytes.len() as u32).to_le_bytes());
        body.extend((bytes.len() as u32).to_le_bytes());
        body.extend(bytes);
        body.resize(body.len().next_multiple_of(4), 0);
        let direction: u32 = match keyword {
            keyword if keyword & RECEIVED != 0 => 1,
            keyword if keyword & SENT != 0 => 2,
            _ => 0,
        };
        if direction != 0 {
            option(&mut body, 2, &direction.to_le_bytes());
        }
        if let (Some(process), Some(thread)) = (event.record.process_id, event.record.thread_id) {
            option(&mut body, 1, format!("PID={process} TID={thread}").as_bytes());
        }
        option(&mut body, 0, b"");
        self.count += 1;
        self.out.write_all(&block(6, &body))
    }

    fn ndis(&mut self, event: &Event<'_>) -> io::Result<()> {
        let payload = event.record.payload;
        let (Some(miniport), Some(lower), Some(size)) =
            (le::u32(payload, 0), le::u32(payload, 4), le::u32(payload, 8))
        else {
            return Ok(());
        };
        let Some(fragment) = payload.get(12..).and_then(|rest| rest.get(..size as usize)) else {
            return Ok(());
        };
        let keyword = event.record.descriptor.keyword.0;
        let key = (event.record.cpu, miniport);
        if keyword & FIRST != 0 {
            self.pending.insert(key, Vec::new());
        }
        if self.pending.len() > INTERFACES {
            self.pending.clear();
        }
        // A message whose start was lost is omitted.
        let Some(packet) = self.pending.get_mut(&key) else { return Ok(()) };
        if packet.len() + fragment.len() <= LARGEST {
            packet.extend_from_slice(fragment);
        }
        if keyword & LAST == 0 {
            return Ok(());
        }
        let packet = self.pending.remove(&key).unwrap_or_default();
        let link = match keyword {
            keyword if keyword & WIFI != 0 => WIFI_LINK,
            keyword if keyword & MOBILE != 0 => RAW_LINK,
            _ => ETHERNET_LINK,
        };
        let interface = self.interface(miniport, lower, link)?;
        self.packet(event, interface, &packet, keyword)
    }

    fn pktmon(&mut self, event: &Event<'_>) -> io::Result<()> {
        let mut found = Packet::default();
        if event.decoded.visit(event.record, &mut found).is_err() {
            return Ok(());
        }
        let Some(bytes) = found.payload.filter(|bytes| !bytes.is_empty()) else { return Ok(()) };
        let link = match found.kind {
            2 => WIFI_LINK,
            3 | 4 => RAW_LINK,
            _ => ETHERNET_LINK,
        };
        let interface = self.interface(found.component, 0, link)?;
        self.packet(event, interface, &bytes[..bytes.len().min(LARGEST)], 0)
    }
}

impl<W: Write> Target for Pcapng<W> {
    fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        match (event.record.provider, event.record.descriptor.id) {
            (Some(NDIS), 1001) => self.ndis(event),
            (Some(PKTMON), _) => self.pktmon(event),
            _ => Ok(()),
        }
    }

    fn finish(&mut self, _: &Names) -> io::Result<()> {
        self.out.flush()
    }

    fn told(&self) -> (u64, &'static str) {
        (self.count, "packets")
    }
}

/// The fields of PktMon's events that matter here.
#[derive(Default)]
struct Packet {
    payload: Option<Vec<u8>>,
    component: u32,
    kind: u64,
}

impl Visitor for Packet {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        match (field.name.as_str(), value) {
            ("Payload", Value::Binary(bytes)) => self.payload = Some(bytes.to_vec()),
            ("PacketType", value) => self.kind = value.as_u64().unwrap_or(0),
            ("Component" | "ComponentId", value) => {
                self.component = value.as_u64().unwrap_or(0) as u32;
            }
            _ => {}
        }
    }

    fn begin_array(&mut self, _: &Field, _: usize) {}
    fn end_array(&mut self, _: &Field) {}
    fn begin_struct(&mut self, _: &Field) {}
    fn end_struct(&mut self, _: &Field) {}
}
