//! The headers of classic events in the form of records, in place of TraceLogging metadata
//! ([`prefix::CLASSIC`](crate::prefix::CLASSIC)):
//!
//! ```text
//! 00 u16 size of the header   02 u8 form: 1 event, 2 instance, 3 message; bit 80: a program with pointers of 32 bits
//! event     03 u8 type   04 u8 level   05 u8 0        06 u16 version   08 GUID of the class
//! instance  as an event, then 18 u32 instance   1C u32 its parent   20 GUID of the parent's class
//! message   03 u8 id: 0 none, 1 GUID, 2 component   04 u16 flags   06 u16 number   08 GUID, or u32 component and zeros
//! ```

use etw_types::{Classic, ClassicHeader, EventClass, Guid, Level, MessageFlags, MessageId, le};

/// The size of the longest header.
pub const MAX_SIZE: usize = 0x30;
const SHORT: usize = 0x18;
const IS_32_BIT: u8 = 0x80;
/// The flags of parts that a message may have before its arguments; its id has a field of its own.
const PARTS: u16 =
    MessageFlags::SEQUENCE.0 | MessageFlags::TIMESTAMP.0 | MessageFlags::SYSTEM_INFO.0;

/// A header in the form of records.
#[derive(Clone, Copy, Debug)]
pub struct ClassicBytes([u8; MAX_SIZE]);

impl ClassicBytes {
    /// The header's bytes. Of a message's flags, only those for sequence number, time and system information are kept.
    pub fn new(classic: &Classic) -> ClassicBytes {
        let mut out = [0; MAX_SIZE];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        let of_class = |put: &mut dyn FnMut(usize, &[u8]), class: &EventClass| {
            put(3, &[class.kind, class.level.0]);
            put(6, &class.version.to_le_bytes());
            put(8, &class.guid.0);
        };
        let (form, size) = match &classic.header {
            ClassicHeader::Trace(class) => {
                of_class(&mut put, class);
                (1, SHORT)
            }
            ClassicHeader::Instance { class, instance, parent_instance, parent } => {
                of_class(&mut put, class);
                put(0x18, &instance.to_le_bytes());
                put(0x1c, &parent_instance.to_le_bytes());
                put(0x20, &parent.0);
                (2, MAX_SIZE)
            }
            // Only hosts write kernel events: a reader refuses this form.
            ClassicHeader::System(_) | ClassicHeader::PerfInfo(_) => (0, SHORT),
            ClassicHeader::Message { flags, id, number } => {
                let id = match id {
                    MessageId::None => 0,
                    MessageId::Guid(guid) => {
                        put(MESSAGE_START_SIZE, &guid.0);
                        1
                    }
                    MessageId::Component(component) => {
                        put(MESSAGE_START_SIZE, &component.to_le_bytes());
                        2
                    }
                };
                put(0, &message_start(*flags, id, *number, classic.is_32_bit).to_le_bytes());
                (3, SHORT)
            }
        };
        put(0, &(size as u16).to_le_bytes());
        put(2, &[form | if classic.is_32_bit { IS_32_BIT } else { 0 }]);
        ClassicBytes(out)
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0[..usize::from(self.0[0])]
    }
}

/// The number of bytes in front of a message's GUID.
pub const MESSAGE_START_SIZE: usize = 8;

/// The start of a message's header in the form of records, as [`ClassicBytes::new`] makes it: a little-endian word, behind which the GUID
/// follows. `id`: 0 for none, 1 for a GUID, 2 for a component.
#[inline(always)]
pub fn message_start(flags: MessageFlags, id: u8, number: u16, is_32_bit: bool) -> u64 {
    let form = 3 | if is_32_bit { IS_32_BIT } else { 0 };
    SHORT as u64
        | u64::from(form) << 16
        | u64::from(id) << 24
        | u64::from(flags.0 & PARTS) << 32
        | u64::from(number) << 48
}

/// Reads a header. `None` unless the bytes are exactly those that [`ClassicBytes::new`] makes.
pub fn parse(bytes: &[u8]) -> Option<Classic> {
    let form = *bytes.get(2)?;
    let class = || {
        (bytes[5] == 0).then_some(())?;
        let (kind, level, version) = (bytes[3], Level(bytes[4]), le::u16(bytes, 6)?);
        Some(EventClass { guid: Guid::read(bytes, 8)?, kind, level, version })
    };
    let size = if form & !IS_32_BIT == 2 { MAX_SIZE } else { SHORT };
    if bytes.len() != size || usize::from(le::u16(bytes, 0)?) != size {
        return None;
    }
    let header = match form & !IS_32_BIT {
        1 => ClassicHeader::Trace(class()?),
        2 => ClassicHeader::Instance {
            class: class()?,
            instance: le::u32(bytes, 0x18)?,
            parent_instance: le::u32(bytes, 0x1c)?,
            parent: Guid::read(bytes, 0x20)?,
        },
        3 => {
            let guid = Guid::read(bytes, 8)?;
            let id = match bytes[3] {
                0 if guid.is_zero() => MessageId::None,
                1 => MessageId::Guid(guid),
                2 if bytes[12..24].iter().all(|byte| *byte == 0) => {
                    MessageId::Component(le::u32(bytes, 8)?)
                }
                _ => return None,
            };
            let flags = le::u16(bytes, 4).filter(|flags| flags & !PARTS == 0)?;
            ClassicHeader::Message { flags: MessageFlags(flags), id, number: le::u16(bytes, 6)? }
        }
        _ => return None,
    };
    Some(Classic { header, is_32_bit: form & IS_32_BIT != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OV-12: each header can be read again, and no other bytes are accepted as a header.
    #[test]
    fn headers_come_back_and_nothing_else_does() {
        let class =
            EventClass { guid: Guid::from_u128(7), kind: 1, level: Level(2), version: 0x304 };
        let message = |flags, id| {
            let flags = MessageFlags(flags);
            ClassicHeader::Message { flags, id, number: 0x1234 }
        };
        let headers = [
            ClassicHeader::Trace(class),
            ClassicHeader::Instance {
                class,
                instance: 5,
                parent_instance: 6,
                parent: Guid::from_u128(8),
            },
            message(0, MessageId::None),
            message(PARTS, MessageId::Guid(Guid::from_u128(9))),
            message(8, MessageId::Component(u32::MAX)),
        ];
        for (header, is_32_bit) in headers.into_iter().flat_map(|h| [(h, false), (h, true)]) {
            let classic = Classic { header, is_32_bit };
            let bytes = ClassicBytes::new(&classic);
            let bytes = bytes.as_slice();
            assert_eq!(parse(bytes), Some(classic));
            for size in 0..bytes.len() {
                assert_eq!(parse(&bytes[..size]), None);
            }
            assert_eq!(parse(&[bytes, &[0]].concat()), None);
            // Each change of one bit gives another header or none.
            for bit in 0..bytes.len() * 8 {
                let mut other = bytes.to_vec();
                other[bit / 8] ^= 1 << (bit % 8);
                if let Some(parsed) = parse(&other) {
                    assert_ne!(parsed, classic);
                    assert_eq!(ClassicBytes::new(&parsed).as_slice(), other);
                }
            }
        }
    }
}
