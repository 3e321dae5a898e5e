//! The `.evt` format of Windows XP and before, as Microsoft documents it: `EVENTLOGHEADER`, `EVENTLOGRECORD`, `EVENTLOGEOF`.
//!
//! ```text
//! header    0 u32 48   4 "LfLe"   8 u32 1   12 u32 1   16 u32 start   20 u32 end   24 u32 next number   28 u32 oldest number
//!           32 u32 size   36 u32 flags (1 dirty, 2 wrapped, 4 full)   40 u32 retention   44 u32 48
//! record    0 u32 size   4 "LfLe"   8 u32 number   12 u32 generated   16 u32 written   20 u32 event id   24 u16 type
//!           26 u16 strings   28 u16 category   30 u16 flags   32 u32 closing number   36 u32 offset of the strings
//!           40 u32 size of the SID   44 u32 its offset   48 u32 size of the data   52 u32 its offset
//!           56 source NUL, computer NUL, SID, strings, data, padding, u32 size
//! end mark  0 u32 40   4 u32 0x11111111   8 u32 0x22222222   12 u32 0x33333333   16 u32 0x44444444   20 u32 begin   24 u32 end
//!           28 u32 next number   32 u32 oldest number   36 u32 40
//! ```
//!
//! Records follow each other from offset 48. Where a log has wrapped, one record may begin at the end of the file and continue at
//! offset 48; a rest of less than a record's head is filled with 0x27. The header of a log in use is stale: the end mark, which is
//! written with each record, counts then.

use std::path::Path;
use std::sync::Arc;

use etw_types::{FileTime, Guid, le};

use crate::tree::{Argument, Element, Fragment, Instance, Node, Template};
use crate::value::{Value, ValueType};
use crate::{Damage, DamageKind, Error, Record};

const HEADER_SIZE: usize = 48;
const SIGNATURE: &[u8; 4] = b"LfLe";
const RECORD_HEAD: usize = 56;
const END_MARK_SIZE: usize = 40;
/// `0x28, 0x11111111, 0x22222222`: the start of the end mark.
const END_MARK: [u8; 12] = [0x28, 0, 0, 0, 0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x22, 0x22];
const FILLER: [u8; 4] = [0x27, 0, 0, 0];
/// Bytes of a log; Windows' own limit is below.
const MAX_SIZE: u64 = 1 << 30;
const DIRTY: u32 = 1;

/// Whether a file begins like an `.evt` log.
pub fn is_evt(start: &[u8]) -> bool {
    le::u32(start, 0) == Some(HEADER_SIZE as u32) && start.get(4..8) == Some(SIGNATURE)
}

/// An `.evt` log in memory.
#[derive(Debug)]
pub struct EvtLog {
    bytes: Vec<u8>,
    /// Oldest first.
    records: Vec<Extent>,
    damage: Vec<Damage>,
    channel: &'static str,
    template: Arc<Template>,
}

/// The position of a record, and its number.
#[derive(Clone, Copy, Debug)]
struct Extent {
    at: usize,
    size: usize,
    number: u32,
}

/// The numbers of the records that belong to the log.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    oldest: u32,
    next: u32,
}

impl Numbers {
    fn read(bytes: &[u8], next: usize, oldest: usize) -> Option<Numbers> {
        Some(Numbers { next: le::u32(bytes, next)?, oldest: le::u32(bytes, oldest)? })
    }
}

impl EvtLog {
    /// Opens a log.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::NotEvtx`] if the file is not an `.evt` log; [`Error::TooLarge`] above 1 GiB.
    pub fn open(path: impl AsRef<Path>) -> Result<EvtLog, Error> {
        let path = path.as_ref();
        if std::fs::metadata(path)?.len() > MAX_SIZE {
            return Err(Error::TooLarge);
        }
        let mut log = EvtLog::from_bytes(std::fs::read(path)?)?;
        let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase());
        // The file does not name its channel; these are the names that Windows gives.
        log.channel = match name.as_deref() {
            Some("appevent.evt") => "Application",
            Some("sysevent.evt") => "System",
            Some("secevent.evt") => "Security",
            _ => "",
        };
        Ok(log)
    }

    /// Reads a log that is in memory.
    ///
    /// # Errors
    /// [`Error::NotEvtx`] if it is not an `.evt` log.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<EvtLog, Error> {
        if !is_evt(&bytes) {
            return Err(Error::NotEvtx);
        }
        let template = template();
        let mut log =
            EvtLog { bytes, records: Vec::new(), damage: Vec::new(), channel: "", template };
        log.find();
        Ok(log)
    }

    /// Whether the log is in use, or was not closed.
    pub fn is_dirty(&self) -> bool {
        le::u32(&self.bytes, 36).is_some_and(|flags| flags & DIRTY != 0)
    }

    /// Bytes that belong to no record.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Walks the file, and keeps the records that belong to the log.
    fn find(&mut self) {
        let mut at = HEADER_SIZE;
        // The end of the last record or mark: bytes between two of them are one damage.
        let mut known = at;
        let mut end_mark = None;
        let mut skipped: Vec<(usize, usize)> = Vec::new();
        // Bytes at the start that belong to the record at the end.
        let mut straddling = HEADER_SIZE;
        while at + 4 <= self.bytes.len() {
            let rest = &self.bytes[at..];
            if let Some(extent) = self.extent(at) {
                self.records.push(extent);
                if at + extent.size > self.bytes.len() {
                    straddling = HEADER_SIZE + (at + extent.size - self.bytes.len());
                    break;
                }
                at += extent.size;
                known = at;
            } else if rest.starts_with(&END_MARK) {
                end_mark = Numbers::read(rest, 28, 32).or(end_mark);
                at += END_MARK_SIZE;
                known = at;
            } else {
                if !rest.starts_with(&FILLER) && rest[..4] != [0; 4] {
                    match skipped.last_mut() {
                        Some((start, end)) if *start >= known => *end = at + 4,
                        _ => skipped.push((at, at + 4)),
                    }
                }
                at += 4;
            }
        }
        let header = Numbers::read(&self.bytes, 24, 28).filter(|_| !self.is_dirty());
        let numbers = header.filter(|numbers| numbers.next != 0).or(end_mark);
        if let Some(Numbers { oldest, next }) = numbers {
            let count = next.wrapping_sub(oldest);
            self.records.retain(|record| record.number.wrapping_sub(oldest) < count);
            self.records.sort_by_key(|record| record.number.wrapping_sub(oldest));
        } else {
            self.records.sort_by_key(|record| record.number);
        }
        for (start, end) in skipped {
            let start = start.max(straddling);
            if start < end {
                let kind = DamageKind::Skipped { size: end - start };
                self.damage.push(Damage { offset: start as u64, kind });
            }
        }
    }

    /// A record at an offset: its size stands at both ends, the second one perhaps behind the header.
    fn extent(&self, at: usize) -> Option<Extent> {
        let size = le::u32(&self.bytes, at)? as usize;
        let is_head = self.bytes.get(at + 4..at + 8) == Some(SIGNATURE);
        let most = self.bytes.len() - HEADER_SIZE;
        if !is_head || size < RECORD_HEAD + 4 || !size.is_multiple_of(4) || size > most {
            return None;
        }
        let end = self.wrapped(at + size - 4);
        let is_closed = le::u32(&self.bytes, end)? as usize == size;
        let number = le::u32(&self.bytes, self.wrapped(at + 8))?;
        is_closed.then_some(Extent { at, size, number })
    }

    /// An offset that continues behind the header at the file's end.
    fn wrapped(&self, at: usize) -> usize {
        match at < self.bytes.len() {
            true => at,
            false => at - self.bytes.len() + HEADER_SIZE,
        }
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Gives each record, oldest first, to `then`, until that fails. A record is as Windows shows it since Vista: `System`, and
    /// `EventData` with the strings and the data.
    ///
    /// # Errors
    /// Those of `then`.
    pub fn for_each<E>(&self, mut then: impl FnMut(&Record<'_>) -> Result<(), E>) -> Result<(), E> {
        for extent in &self.records {
            let end = extent.at + extent.size;
            let mut bytes = self.bytes[extent.at..end.min(self.bytes.len())].to_vec();
            if end > self.bytes.len() {
                let rest = HEADER_SIZE + (end - self.bytes.len());
                bytes.extend_from_slice(&self.bytes[HEADER_SIZE..rest]);
            }
            let values = Values::of(&bytes, self.channel);
            let instance = Instance {
                template: Arc::clone(&self.template),
                arguments: values.arguments(),
                has_header: true,
            };
            let record = Record {
                id: u64::from(extent.number),
                time: values.time,
                offset: extent.at as u64,
                fragment: Fragment::Instance(instance),
            };
            then(&record)?;
        }
        Ok(())
    }
}

/// The values of a record, by the numbers of the template.
struct Values {
    list: [(ValueType, Vec<u8>); 13],
    time: FileTime,
}

impl Values {
    fn of(bytes: &[u8], channel: &str) -> Values {
        let u16_at = |at: usize| le::u16(bytes, at).unwrap_or(0);
        let u32_at = |at: usize| le::u32(bytes, at).unwrap_or(0);
        let time = FileTime(FileTime::UNIX_EPOCH.0 + i64::from(u32_at(12)) * 10_000_000);
        let (level, audit) = match u16_at(24) {
            1 => (2u8, 0u64),
            2 => (3, 0),
            // Audits have keywords in place of a level.
            8 => (0, 1 << 53),
            16 => (0, 1 << 52),
            _ => (4, 0),
        };
        // Every classic event has this one.
        let keywords = (1u64 << 55) | audit;
        let source = text_at(bytes, RECORD_HEAD);
        let computer = text_at(bytes, RECORD_HEAD + source.len() + 2);
        let mut strings = Vec::new();
        let mut at = u32_at(36) as usize;
        for _ in 0..u16_at(26) {
            let text = text_at(bytes, at);
            at = at.saturating_add(text.len() + 2);
            if at > bytes.len() {
                break;
            }
            strings.extend_from_slice(text);
            strings.extend_from_slice(&[0, 0]);
        }
        let part = |offset: u32, size: u32| -> &[u8] {
            let start = offset as usize;
            bytes.get(start..start.saturating_add(size as usize)).unwrap_or_default()
        };
        let or_null = |value_type, bytes: &[u8]| match bytes.is_empty() {
            true => (ValueType::NULL, Vec::new()),
            false => (value_type, bytes.to_vec()),
        };
        let utf16 =
            |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let list = [
            (ValueType::STRING, source.to_vec()),
            (ValueType::UINT16, bytes.get(22..24).unwrap_or_default().to_vec()),
            (ValueType::UINT16, bytes.get(20..22).unwrap_or_default().to_vec()),
            (ValueType::UINT8, vec![level]),
            (ValueType::UINT16, u16_at(28).to_le_bytes().to_vec()),
            (ValueType::HEX64, keywords.to_le_bytes().to_vec()),
            (ValueType::FILETIME, time.0.to_le_bytes().to_vec()),
            (ValueType::UINT64, u64::from(u32_at(8)).to_le_bytes().to_vec()),
            or_null(ValueType::STRING, &utf16(channel)),
            (ValueType::STRING, computer.to_vec()),
            or_null(ValueType::SID, part(u32_at(44), u32_at(40))),
            or_null(ValueType::BINARY, part(u32_at(52), u32_at(48))),
            or_null(ValueType(0x81), &strings),
        ];
        Values { list, time }
    }

    fn arguments(&self) -> Vec<Argument<'_>> {
        self.list
            .iter()
            .map(|(value_type, bytes)| Argument::Value(Value { value_type: *value_type, bytes }))
            .collect()
    }
}

/// UTF-16 from an offset to its NUL.
fn text_at(bytes: &[u8], at: usize) -> &[u8] {
    let rest = bytes.get(at..).unwrap_or_default();
    let units = rest.chunks_exact(2);
    let length = units.clone().position(|unit| unit == [0, 0]).unwrap_or(units.len());
    &rest[..length * 2]
}

/// The template of classic events.
fn template() -> Arc<Template> {
    let value = |index, value_type| vec![Node::value(index, value_type)];
    let of = |name: &str, index, value_type| Node::element(name, vec![], value(index, value_type));
    // Hidden if its value is absent.
    let optional = |name: &str, index, value_type| {
        let mut element = Element::new(name, vec![], value(index, value_type));
        element.dependency = Some(index);
        Node::Element(element)
    };
    let qualifiers = ("Qualifiers", Node::optional_value(1, ValueType::UINT16));
    let time = ("SystemTime", Node::value(6, ValueType::FILETIME));
    let user = ("UserID", Node::optional_value(10, ValueType::SID));
    let system = vec![
        Node::element("Provider", vec![("Name", Node::value(0, ValueType::STRING))], vec![]),
        Node::element("EventID", vec![qualifiers], value(2, ValueType::UINT16)),
        of("Level", 3, ValueType::UINT8),
        of("Task", 4, ValueType::UINT16),
        of("Keywords", 5, ValueType::HEX64),
        Node::element("TimeCreated", vec![time], vec![]),
        of("EventRecordID", 7, ValueType::UINT64),
        optional("Channel", 8, ValueType::STRING),
        of("Computer", 9, ValueType::STRING),
        Node::element("Security", vec![user], vec![]),
    ];
    let data =
        vec![optional("Data", 12, ValueType(0x81)), optional("Binary", 11, ValueType::BINARY)];
    let event =
        vec![Node::element("System", vec![], system), Node::element("EventData", vec![], data)];
    Arc::new(Template::new(
        Guid::from_name("openetw classic event"),
        vec![Node::element("Event", vec![], event)],
    ))
}
