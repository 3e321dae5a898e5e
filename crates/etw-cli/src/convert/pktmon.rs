//! Packets and components of Microsoft-Windows-PktMon.
//!
//! ```text
//! event 20   u16 component   u16 type   name   description
//! event 70   u16 component   u16 type   u32 size   value: six bytes are a MAC address
//! event 160  u64 group   u16 number, appearance, direction, type, component, edge, filter   u32 drop reason, drop location
//!            u16 original size   u16 logged size   payload
//! event 170  the same, for a packet that was dropped
//! ```
//!
//! The fields are those of its manifest; these layouts serve where the trace has none.

use super::Event;
use crate::join::Picked;
use etw_decode::{Decoder, Field, Value, Visitor};
use etw_etl::read::Records;
use etw_types::{Guid, le};
use std::collections::HashMap;

pub const PKTMON: Guid = Guid::from_u128(0x4d4f80d9_c8bd_4d73_bb5b_19c90402c5ac);
static DROP_REASONS: &str = include_str!("drop_reasons.txt");
/// Components of a trace; only a hostile one has more.
const LIMIT: usize = 1 << 12;

/// Why and where a packet was dropped, as numbers of Windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drop {
    pub reason: u32,
    pub location: u32,
}

impl Drop {
    /// The published name of the reason, without its prefix `PktMonDrop_`.
    pub fn reason_name(&self) -> Option<&'static str> {
        let lines = DROP_REASONS.lines().filter(|line| !line.starts_with('#'));
        lines.filter_map(|line| line.split_once(' ')).find_map(|(first, names)| {
            let place = self.reason.checked_sub(first.parse().ok()?)?;
            names.split(' ').nth(place as usize)
        })
    }
}

/// A part of the network stack.
#[derive(Debug, Default)]
pub struct Component {
    pub name: String,
    pub description: String,
    pub mac: Option<[u8; 6]>,
}

/// The components of a trace by their number.
#[derive(Debug, Default)]
pub struct Components(HashMap<u32, Component>);

impl Components {
    /// Gathers the components of a whole trace: their names may be behind their packets.
    pub fn gather(mut records: Records, mut decoder: Decoder) -> Components {
        let mut components = Components::default();
        while let Some(record) = records.next() {
            if record.provider != Some(PKTMON) || !record.header.is_event() {
                continue;
            }
            let payload = record.payload;
            match record.descriptor.id {
                20 => {
                    const FIELDS: &[&str] = &["Id", "Name", "Description"];
                    let picked = Picked::of(FIELDS, &record, &decoder.decode(&record));
                    let text = |number| picked.as_ref()?.text(number).map(str::to_owned);
                    let number = picked.as_ref().and_then(|picked| picked.number(0));
                    let mut texts = payload.get(4..).unwrap_or_default();
                    let name = text(1).unwrap_or_else(|| wide_text(&mut texts));
                    let description = text(2).unwrap_or_else(|| wide_text(&mut texts));
                    let number = number.or_else(|| le::u16(payload, 0).map(u32::from));
                    if let Some(component) = number.and_then(|number| components.entry(number)) {
                        (component.name, component.description) = (name, description);
                    }
                }
                70 => {
                    let (Some(number), Some(6)) = (le::u16(payload, 0), le::u32(payload, 4)) else {
                        continue;
                    };
                    let mac = payload.get(8..14).and_then(|mac| mac.try_into().ok());
                    if let Some(component) = components.entry(number.into()) {
                        component.mac = component.mac.or(mac);
                    }
                }
                _ => {}
            }
        }
        components
    }

    fn entry(&mut self, number: u32) -> Option<&mut Component> {
        let has_space = self.0.len() < LIMIT || self.0.contains_key(&number);
        has_space.then(|| self.0.entry(number).or_default())
    }

    /// A component with a name.
    pub fn get(&self, number: u32) -> Option<&Component> {
        self.0.get(&number).filter(|component| !component.name.is_empty())
    }
}

/// NUL-terminated UTF-16 text, which is taken from `bytes`.
fn wide_text(bytes: &mut &[u8]) -> String {
    let units: Vec<u16> =
        bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
    let length = units.iter().position(|unit| *unit == 0).unwrap_or(units.len());
    *bytes = bytes.get(2 * length + 2..).unwrap_or_default();
    String::from_utf16_lossy(&units[..length])
}

/// A packet at a component.
#[derive(Debug, Default, PartialEq)]
pub struct Sighting {
    pub group: u64,
    pub number: u16,
    pub direction: u16,
    pub kind: u16,
    pub component: u16,
    pub original_size: u16,
    pub drop: Option<Drop>,
    pub payload: Vec<u8>,
}

impl Sighting {
    /// The packet of an event, by its schema or by the layout above.
    pub fn of(event: &Event<'_>) -> Option<Sighting> {
        let mut fields =
            Fields { found: Sighting { kind: 1, ..Sighting::default() }, reason: 0, location: 0 };
        let visited = event.decoded.visit_part(event.record, &mut fields);
        let Fields { mut found, reason, location } = fields;
        let is_dropped = event.record.descriptor.id == 170 || reason != 0;
        found.drop = is_dropped.then_some(Drop { reason, location });
        if visited.is_some_and(|visited| visited.reason.is_none()) && !found.payload.is_empty() {
            return Some(found);
        }
        Sighting::read(event.record.descriptor.id, event.record.payload)
    }

    fn read(id: u16, payload: &[u8]) -> Option<Sighting> {
        if !matches!(id, 160 | 170) {
            return None;
        }
        let (reason, location) = (le::u32(payload, 22)?, le::u32(payload, 26)?);
        let logged = usize::from(le::u16(payload, 32)?);
        let bytes = payload.get(34..)?;
        // Another length shows another layout.
        if bytes.len() != logged || logged == 0 {
            return None;
        }
        Some(Sighting {
            group: le::u64(payload, 0)?,
            number: le::u16(payload, 8)?,
            direction: le::u16(payload, 12)?,
            kind: le::u16(payload, 14)?,
            component: le::u16(payload, 16)?,
            original_size: le::u16(payload, 30)?,
            drop: (id == 170 || reason != 0).then_some(Drop { reason, location }),
            payload: bytes.to_vec(),
        })
    }
}

struct Fields {
    found: Sighting,
    reason: u32,
    location: u32,
}

impl Visitor for Fields {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        if let ("Payload", Value::Binary(bytes)) = (field.name.as_str(), value) {
            self.found.payload = bytes.to_vec();
            return;
        }
        let number = value.as_u64().unwrap_or(0);
        match field.name.as_str() {
            "PktGroupId" => self.found.group = number,
            "PktNumber" => self.found.number = number as u16,
            "DirTag" => self.found.direction = number as u16,
            "PacketType" => self.found.kind = number as u16,
            "Component" | "ComponentId" => self.found.component = number as u16,
            "OriginalPayloadSize" => self.found.original_size = number as u16,
            "DropReason" => self.reason = number as u32,
            "DropLocation" => self.location = number as u32,
            _ => {}
        }
    }

    fn begin_array(&mut self, _: &Field, _: usize) {}
    fn end_array(&mut self, _: &Field) {}
    fn begin_struct(&mut self, _: &Field) {}
    fn end_struct(&mut self, _: &Field) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_reasons_have_their_published_names() {
        let name = |reason| Drop { reason, location: 0 }.reason_name();
        let names = [0, 23, 201, 228, 1002, 1224, 1507].map(|reason| name(reason).unwrap_or("-"));
        let expected = ["Unknown", "MTUMismatch", "Pause", "SteeringMismatch", "NL_SwUsoFailure"];
        assert_eq!(names[..5], expected);
        let rest = ["INET_TcbNotInTcbTable", "NetCx_BufferBounceFailureAndPacketIgnore"];
        assert_eq!(names[5..], rest);
        assert_eq!([62, 224, 1508, u32::MAX].map(name), [None; 4]);
    }

    #[test]
    fn malicious_packets_are_none() {
        let mut whole = vec![0; 34];
        whole[32] = 2;
        whole.extend(b"ab");
        assert_eq!(Sighting::read(160, &whole).unwrap().payload, b"ab");
        for size in 0..whole.len() {
            assert_eq!(Sighting::read(160, &whole[..size]), None);
        }
        assert_eq!(Sighting::read(180, &whole), None);
        let mut odd: &[u8] = b"a\0b";
        assert_eq!((wide_text(&mut odd), odd), ("a".to_owned(), &b""[..]));
    }
}
