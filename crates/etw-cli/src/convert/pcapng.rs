//! Captured packets as pcapng: those of Microsoft-Windows-NDIS-PacketCapture, in fragments, and of Microsoft-Windows-PktMon.
//!
//! ```text
//! NDIS event 1001   u32 miniport interface   u32 lower interface   u32 size   fragment
//!   keyword 40000000 first fragment, 80000000 last, 1_0000_0000 sent, 2_0000_0000 received; media: 10000 native 802.11, 200 mobile
//! PktMon event 160  a packet at a component; 170: a packet that it dropped
//! ```
//!
//! Source: Microsoft's documentation of netsh trace and pktmon, and of etl2pcapng; pcapng as drafted at the IETF.

use super::pktmon::{Components, Drop, PKTMON, Sighting};
use super::{Event, Target, Written};
use crate::join::Names;
use etw_types::{Guid, le};
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

const NDIS: Guid = Guid::from_u128(0x2ed6006e_4729_4609_b423_3ee7bcd678ef);
const FIRST: u64 = 0x4000_0000;
const LAST: u64 = 0x8000_0000;
const SENT: u64 = 0x1_0000_0000;
const RECEIVED: u64 = 0x2_0000_0000;
const MOBILE: u64 = 0x200;
const WIFI: u64 = 0x1_0000;
const ETHERNET_LINK: u16 = 1;
const RAW_LINK: u16 = 101;
const WIFI_LINK: u16 = 105;
/// Bytes of a packet without its link layer, which Wireshark shows as data.
const USER_LINK: u16 = 147;
/// Largest size of a packet; longer ones are cut.
const LARGEST: usize = 256 << 10;
/// Interfaces of a file.
const INTERFACES: usize = 1 << 12;
/// Packets that `--once` remembers.
const SEEN_LIMIT: usize = 1 << 22;

pub struct Pcapng<W: Write> {
    out: W,
    count: u64,
    interfaces: HashMap<InterfaceKey, u32>,
    /// Fragments of a packet, by CPU and interface.
    pending: HashMap<(u16, u32), Vec<u8>>,
    components: Components,
    /// Each packet at its first component alone.
    once: bool,
    seen: HashSet<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct InterfaceKey {
    /// A miniport of NDIS or a component of PktMon.
    number: u32,
    lower: u32,
    link: u16,
    is_component: bool,
}

/// A packet and what is known of it.
struct Packet<'p> {
    interface: InterfaceKey,
    bytes: &'p [u8],
    original_size: usize,
    direction: Option<Direction>,
    /// The same packet at several components has one id.
    id: Option<u64>,
    drop: Option<Drop>,
}

/// The values of pcapng's flags.
#[derive(Clone, Copy)]
enum Direction {
    In = 1,
    Out = 2,
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
    let value = &value[..value.len().min(0xfff0)];
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

impl<W: Write> Pcapng<W> {
    /// Starts a file. `components`: of PktMon, which a trace may name behind their packets.
    pub fn new(mut out: W, components: Components, once: bool) -> io::Result<Pcapng<W>> {
        let mut body = 0x1a2b_3c4du32.to_le_bytes().to_vec();
        body.extend([1, 0, 0, 0]);
        body.extend((-1i64).to_le_bytes());
        option(&mut body, 4, b"etw convert");
        option(&mut body, 0, b"");
        out.write_all(&block(0x0a0d_0d0a, &body))?;
        let (interfaces, pending, seen) = (HashMap::new(), HashMap::new(), HashSet::new());
        Ok(Pcapng { out, count: 0, interfaces, pending, components, once, seen })
    }

    /// The number of an interface in the file; `None` if there are too many.
    fn interface(&mut self, key: InterfaceKey) -> io::Result<Option<u32>> {
        if let Some(known) = self.interfaces.get(&key) {
            return Ok(Some(*known));
        }
        if self.interfaces.len() == INTERFACES {
            return Ok(None);
        }
        let number = self.interfaces.len() as u32;
        self.interfaces.insert(key, number);
        let mut body = key.link.to_le_bytes().to_vec();
        body.extend([0; 6]);
        let component = self.components.get(key.number).filter(|_| key.is_component);
        let name = match (component, key.is_component, key.lower) {
            (Some(component), ..) => component.name.clone(),
            (None, true, _) => format!("component {}", key.number),
            (None, false, 0) => format!("interface {}", key.number),
            (None, false, lower) => format!("interface {}, lower {lower}", key.number),
        };
        option(&mut body, 2, name.as_bytes());
        if let Some(component) = component {
            let number = format!("component {}", key.number);
            let description = match component.description.is_empty() {
                true => number,
                false => format!("{} ({number})", component.description),
            };
            option(&mut body, 3, description.as_bytes());
            if let Some(mac) = component.mac {
                option(&mut body, 6, &mac);
            }
        }
        // Times in nanoseconds.
        option(&mut body, 9, &[9]);
        option(&mut body, 0, b"");
        self.out.write_all(&block(1, &body))?;
        Ok(Some(number))
    }

    fn packet(&mut self, event: &Event<'_>, packet: &Packet<'_>) -> io::Result<()> {
        let Some(interface) = self.interface(packet.interface)? else { return Ok(()) };
        let bytes = &packet.bytes[..packet.bytes.len().min(LARGEST)];
        let original = packet.original_size.max(packet.bytes.len());
        let time = u64::try_from(event.time).unwrap_or(0);
        let mut body = interface.to_le_bytes().to_vec();
        body.extend(((time >> 32) as u32).to_le_bytes());
        body.extend((time as u32).to_le_bytes());
        body.extend((bytes.len() as u32).to_le_bytes());
        body.extend((original as u32).to_le_bytes());
        body.extend(bytes);
        body.resize(body.len().next_multiple_of(4), 0);
        if let Some(direction) = packet.direction {
            option(&mut body, 2, &(direction as u32).to_le_bytes());
        }
        if let Some(id) = packet.id {
            option(&mut body, 5, &id.to_le_bytes());
        }
        if let Some(drop) = &packet.drop {
            let Drop { reason, location } = drop;
            let name = drop.reason_name().map(|name| format!(" ({name})")).unwrap_or_default();
            let comment = format!("dropped: reason {reason}{name} at location {location:#x}");
            option(&mut body, 1, comment.as_bytes());
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
        // A packet without its first fragment is not complete.
        let Some(packet) = self.pending.get_mut(&key) else { return Ok(()) };
        if packet.len() + fragment.len() <= LARGEST {
            packet.extend_from_slice(fragment);
        }
        if keyword & LAST == 0 {
            return Ok(());
        }
        let bytes = self.pending.remove(&key).unwrap_or_default();
        let link = match keyword {
            keyword if keyword & WIFI != 0 => WIFI_LINK,
            keyword if keyword & MOBILE != 0 => RAW_LINK,
            _ => ETHERNET_LINK,
        };
        let packet = Packet {
            interface: InterfaceKey { number: miniport, lower, link, is_component: false },
            bytes: &bytes,
            original_size: size_by_ip(link, &bytes),
            direction: match keyword {
                keyword if keyword & RECEIVED != 0 => Some(Direction::In),
                keyword if keyword & SENT != 0 => Some(Direction::Out),
                _ => None,
            },
            id: None,
            drop: None,
        };
        self.packet(event, &packet)
    }

    fn pktmon(&mut self, event: &Event<'_>) -> io::Result<()> {
        let Some(seen) = Sighting::of(event) else { return Ok(()) };
        let id = seen.group.rotate_left(16) ^ u64::from(seen.number);
        if self.once && self.seen.len() < SEEN_LIMIT && !self.seen.insert(id) {
            return Ok(());
        }
        let link = match seen.kind {
            1 => ETHERNET_LINK,
            2 => WIFI_LINK,
            3 => RAW_LINK,
            // HTTP, TCP, UDP, …: without the layers below.
            _ => USER_LINK,
        };
        let number = seen.component.into();
        let packet = Packet {
            interface: InterfaceKey { number, lower: 0, link, is_component: true },
            bytes: &seen.payload,
            original_size: seen.original_size.into(),
            direction: match seen.direction {
                // In, received, ingress; out, sent, egress.
                1 | 3 | 5 => Some(Direction::In),
                2 | 4 | 6 => Some(Direction::Out),
                _ => None,
            },
            id: Some(id),
            drop: seen.drop,
        };
        self.packet(event, &packet)
    }
}

/// The size of a packet that the capture may have cut, by its IP header; 0 if it has none.
fn size_by_ip(link: u16, bytes: &[u8]) -> usize {
    let be16 =
        |at: usize| Some(usize::from(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?)));
    let ip = match link {
        RAW_LINK => 0,
        ETHERNET_LINK if matches!(be16(12), Some(0x0800 | 0x86dd)) => 14,
        _ => return 0,
    };
    let size = match bytes.get(ip).map(|byte| byte >> 4) {
        Some(4) => be16(ip + 2),
        Some(6) => be16(ip + 4).map(|size| size + 40),
        _ => None,
    };
    size.map_or(0, |size| ip + size)
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

    fn written(&self) -> Option<Written> {
        Some(Written { count: self.count, unit: "packet" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_that_was_cut_has_the_size_in_its_ip_header() {
        let mut frame = [0; 34];
        (frame[12], frame[14]) = (8, 0x45);
        frame[16..18].copy_from_slice(&1500u16.to_be_bytes());
        assert_eq!(size_by_ip(ETHERNET_LINK, &frame), 1514);
        assert_eq!(size_by_ip(RAW_LINK, &frame[14..]), 1500);
        assert_eq!(size_by_ip(WIFI_LINK, &frame), 0);
        for size in 0..frame.len() {
            let _ = size_by_ip(ETHERNET_LINK, &frame[..size]);
        }
    }
}
