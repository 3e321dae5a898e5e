//! Schemas from TRACE_EVENT_INFO and EVENT_MAP_INFO, which merged files carry inside.
//!
//! ```text
//! TRACE_EVENT_INFO, offsets from its start, strings UTF-16 with a NUL, offset 0 = absent
//! 00 GUID provider    10 GUID event    20 EVENT_DESCRIPTOR    30 u32 decoding source (0 XML, 1 MOF, 2 WPP, 3 TL)
//! 34 u32 offsets of the names of provider, level, channel, keywords, task, opcode; 4C message; 50 provider message
//! 54 u32 binary XML offset, size    5C event name    60 attributes
//! 64 u32 property count    68 u32 top-level property count    6C u32 flags and tags
//! 70 EVENT_PROPERTY_INFO[property count], 24 bytes each:
//!    00 u32 flags   04 u32 name   08 u16 in-type or first member   0A u16 out-type or members
//!    0C u32 map name or custom schema   10 u16 count or its property   12 u16 length or its property   14 u32 tags
//!
//! EVENT_MAP_INFO: u32 name, u32 flags, u32 entries, u32 value type; per entry u32 text, u32 value
//! ```
//!
//! Source: Microsoft's tdh.h documentation; layouts checked against merged traces of Windows 8 to 11.

mod describe;
mod writer;

pub use describe::{event_record, map_record, map_records_of, provider_records};
pub use writer::{Companion, EventInfoParts, is_split_binary, utf16_z};

use crate::field::{Count, Field, Kind, Length};
use crate::layout::{sized_part, whole_part};
use crate::map::{Map, MapKind};
use crate::message::Message;
use crate::schema::{Names, Schema};
use etw_tracelogging::tdh::{InType, OutType};
use etw_tracelogging::{Show, Wire};
use etw_types::{EventDescriptor, Guid, le};
use std::fmt;
use std::sync::Arc;

const FIXED_SIZE: usize = 0x70;
const PROPERTY_SIZE: usize = 24;

/// Bytes of the names in one schema or map. Offsets may all point to one long text, so the blob's size does not bound them.
const TEXT_LIMIT: usize = 1 << 20;
/// Members of all structs of a schema together. Windows gives each struct its own, so a blob of 64 KiB holds at most 2,700.
const MEMBER_LIMIT: usize = 1 << 16;

const STRUCT: u32 = 0x01;
const PARAM_LENGTH: u32 = 0x02;
const PARAM_COUNT: u32 = 0x04;
const FIXED_COUNT: u32 = 0x20;
const HAS_CUSTOM_SCHEMA: u32 = 0x80;

/// Why a blob gives no schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventInfoError {
    /// Shorter than the fixed part or than its properties.
    Short,
    /// A struct or a reference names a property that is not there.
    Index {
        /// The number of the property.
        property: usize,
    },
    /// An in-type without a known encoding.
    Type {
        /// The number of the property.
        property: usize,
        /// The in-type.
        in_type: u16,
    },
    /// Names or members overlap, and would fill more memory than any schema does.
    TooMuch,
}

impl fmt::Display for EventInfoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventInfoError::Short => f.write_str("it is shorter than its properties"),
            EventInfoError::Index { property } => {
                write!(f, "property {property} refers to one that is not there")
            }
            EventInfoError::TooMuch => f.write_str(
                "its names or structs overlap and would fill more memory than any schema does",
            ),
            EventInfoError::Type { property, in_type } => {
                write!(
                    f,
                    "property {property} has the in-type {in_type}, which has no known encoding"
                )
            }
        }
    }
}

impl std::error::Error for EventInfoError {}

/// The events that a TRACE_EVENT_INFO describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKey {
    /// An event of `EventWrite`.
    Event {
        /// The provider.
        provider: Guid,
        /// The event's id.
        id: u16,
        /// Its version.
        version: u8,
    },
    /// A classic event.
    Classic {
        /// The class.
        class: Guid,
        /// The event's type.
        kind: u8,
        /// Its version.
        version: u8,
    },
}

/// A TRACE_EVENT_INFO, checked as far as its fixed part.
#[derive(Clone, Copy, Debug)]
pub struct EventInfo<'a> {
    bytes: &'a [u8],
}

impl<'a> EventInfo<'a> {
    /// # Errors
    /// `Short` where the fixed part or the property array is cut.
    pub fn parse(bytes: &'a [u8]) -> Result<EventInfo<'a>, EventInfoError> {
        let info = EventInfo { bytes };
        let room = bytes.len().checked_sub(FIXED_SIZE).ok_or(EventInfoError::Short)?;
        if info.property_count() > room / PROPERTY_SIZE {
            return Err(EventInfoError::Short);
        }
        Ok(info)
    }

    fn u32(&self, at: usize) -> u32 {
        le::u32(self.bytes, at).unwrap_or(0)
    }

    fn property_count(&self) -> usize {
        self.u32(0x64) as usize
    }

    /// The provider.
    pub fn provider(&self) -> Guid {
        Guid::read(self.bytes, 0).unwrap_or_default()
    }

    /// The event that it describes; `None` for WPP and TraceLogging, whose events are not distinguished by number.
    pub fn key(&self) -> Option<EventKey> {
        let descriptor = EventDescriptor::read(self.bytes, 0x20)?;
        match self.u32(0x30) {
            0 => Some(EventKey::Event {
                provider: self.provider(),
                id: descriptor.id,
                version: descriptor.version,
            }),
            1 => {
                let class = Guid::read(self.bytes, 0x10)?;
                let (kind, version) = (descriptor.opcode.0, descriptor.version);
                Some(EventKey::Classic { class, kind, version })
            }
            _ => None,
        }
    }

    /// A name; text from message tables ends in spaces and line breaks, which are dropped.
    fn string(&self, offset: u32) -> Option<String> {
        string(self.bytes, offset)
    }

    /// The names.
    pub fn names(&self) -> Names {
        let source = self.u32(0x30);
        // Before Windows 10 this offset named an activity id; only these sources have an event name.
        let event = if matches!(source, 0 | 3) { self.string(self.u32(0x5c)) } else { None };
        let mut names = Names {
            provider: self.string(self.u32(0x34)),
            event,
            level: self.string(self.u32(0x38)),
            channel: self.string(self.u32(0x3c)),
            task: self.string(self.u32(0x44)),
            opcode: self.string(self.u32(0x48)),
            keywords: self.string_list(self.u32(0x40)),
        };
        names.resolve_event();
        names
    }

    fn string_list(&self, offset: u32) -> Vec<String> {
        let mut rest = if offset == 0 { None } else { self.bytes.get(offset as usize..) };
        let mut list = Vec::new();
        while let Some((text, taken)) = rest.and_then(le::utf16_z) {
            // 64 keywords are all there can be.
            if text.is_empty() || list.len() == 64 {
                break;
            }
            list.push(le::utf16_lossy(text).trim_end().to_string());
            rest = rest.and_then(|rest| rest.get(taken..));
        }
        list
    }

    /// Names of the maps that its properties use.
    pub fn map_names(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.property_count()).filter_map(|index| self.map_name(index))
    }

    /// Whether properties name maps, known or not.
    pub(crate) fn has_maps(&self) -> bool {
        (0..self.property_count()).any(|index| self.map_offset(index) != 0)
    }

    fn map_name(&self, index: usize) -> Option<String> {
        self.string(self.map_offset(index))
    }

    /// 0 for none.
    fn map_offset(&self, index: usize) -> u32 {
        let at = FIXED_SIZE + index * PROPERTY_SIZE;
        let other = self.u32(at) & (STRUCT | HAS_CUSTOM_SCHEMA) != 0;
        if other { 0 } else { self.u32(at + 0x0c) }
    }

    /// Compiles the schema; `map` gives the maps of the provider by name.
    ///
    /// # Errors
    /// `Index`, `Type` and `TooMuch`.
    pub fn schema(
        &self,
        mut map: impl FnMut(&str) -> Option<Arc<Map>>,
    ) -> Result<Schema, EventInfoError> {
        let mut fields = Vec::with_capacity(self.property_count());
        let (mut text, mut members) = (0, 0);
        for index in 0..self.property_count() {
            let name = self.u32(FIXED_SIZE + index * PROPERTY_SIZE + 4);
            text += string_size(self.bytes, name);
            text += string_size(self.bytes, self.map_offset(index));
            if text > TEXT_LIMIT {
                return Err(EventInfoError::TooMuch);
            }
            let mut field = match self.field(index) {
                Ok(field) => field,
                Err(error @ EventInfoError::Type { .. }) => {
                    fields.push(Err(error.to_string()));
                    continue;
                }
                Err(error) => return Err(error),
            };
            match &field.kind {
                Kind::Struct { count, .. } => members += count,
                Kind::Custom { schema, .. } => text += schema.len(),
                Kind::Scalar { .. } | Kind::Constant(_) => {}
            }
            if text > TEXT_LIMIT || members > MEMBER_LIMIT {
                return Err(EventInfoError::TooMuch);
            }
            field.map = self.map_name(index).and_then(|name| map(&name));
            fields.push(Ok(field));
        }
        let top_level = self.u32(0x68) as usize;
        if top_level > fields.len() {
            return Err(EventInfoError::Index { property: top_level });
        }
        // A property of an unknown type costs the properties behind it.
        let mut whole = sized_part(whole_part(fields, top_level));
        self.mark_custom_lengths(&mut whole.fields);
        let mut schema = Schema::new(self.names(), whole.fields, whole.top_level);
        schema.incomplete = whole.incomplete.map(String::into_boxed_str);
        schema.message = self.string(self.u32(0x4c)).map(|text| Message::parse(&text));
        schema.tag = self.u32(0x6c) >> 4;
        Ok(schema)
    }

    fn field(&self, index: usize) -> Result<Field, EventInfoError> {
        let at = FIXED_SIZE + index * PROPERTY_SIZE;
        let flags = self.u32(at);
        let u16_at = |offset: usize| le::u16(self.bytes, at + offset).unwrap_or(0);
        let (count, length) = (u16_at(0x10), u16_at(0x12));
        let name = self.string(self.u32(at + 4)).unwrap_or_else(|| format!("Property{index}"));
        let mut field = Field::new(name, Wire::Nothing, Show::Plain);
        field.tag = self.u32(at + 0x14) & 0x0fff_ffff;
        field.count = if flags & PARAM_COUNT != 0 {
            Count::Field(self.index(index, count)?)
        } else if flags & FIXED_COUNT != 0 || count > 1 {
            Count::Fixed(count)
        } else {
            Count::One
        };
        if flags & STRUCT != 0 {
            let (first, members) = (usize::from(u16_at(0x08)), usize::from(u16_at(0x0a)));
            if first <= index || first + members > self.property_count() {
                return Err(EventInfoError::Index { property: index });
            }
            field.kind = Kind::Struct { first, count: members };
            return Ok(field);
        }
        let (in_type, out_type) = (InType(u16_at(0x08)), OutType(u16_at(0x0a)));
        let error = EventInfoError::Type { property: index, in_type: in_type.0 };
        let mut wire = in_type.wire().ok_or(error)?;
        let show = in_type.show(out_type);
        // An array of characters is text of that length.
        let characters = match field.count {
            Count::Fixed(characters) => Some(Length::Fixed(characters)),
            Count::Field(source) => Some(Length::Field(source)),
            Count::One | Count::Prefixed | Count::Rest => None,
        };
        let text = match in_type {
            InType::UNICODECHAR => Some(Wire::Utf16),
            InType::ANSICHAR => Some(Wire::Ansi),
            _ => None,
        };
        let is_text = characters.is_some() && text.is_some();
        if let (Some(text), Some(characters)) = (text, characters) {
            wire = text;
            field.count = Count::One;
            field.length = characters;
        }
        // The length of a character is that of one, not of the text.
        if matches!(wire, Wire::Utf16 | Wire::Ansi | Wire::Binary) && !is_text {
            if flags & PARAM_LENGTH != 0 {
                field.length = Length::Field(self.index(index, length)?);
            } else if length > 0 {
                field.length = Length::Fixed(length);
            }
        }
        field.types = (in_type, out_type);
        field.no_print = out_type == OutType::NOPRINT;
        let custom = self.custom_schema(flags, at);
        field.kind = match custom.filter(|_| matches!(wire, Wire::Binary | Wire::CountedBinary)) {
            Some((protocol, schema)) => {
                if wire == Wire::Binary && field.length == Length::Own {
                    field.length = Length::Fixed(0);
                }
                Kind::Custom { protocol, schema: schema.into() }
            }
            None => Kind::Scalar { wire, show },
        };
        Ok(field)
    }

    fn index(&self, property: usize, other: u16) -> Result<usize, EventInfoError> {
        let other = usize::from(other);
        let known = other < self.property_count() && other != property;
        if known { Ok(other) } else { Err(EventInfoError::Index { property }) }
    }

    fn custom_schema(&self, flags: u32, at: usize) -> Option<(u8, &'a [u8])> {
        if flags & HAS_CUSTOM_SCHEMA == 0 {
            return None;
        }
        let offset = self.u32(at + 0x0c) as usize;
        let protocol = le::u16(self.bytes, offset)?;
        let size = usize::from(le::u16(self.bytes, offset + 2)?);
        Some((u8::try_from(protocol).ok()?, self.bytes.get(offset + 4..offset + 4 + size)?))
    }

    fn mark_custom_lengths(&self, fields: &mut [Field]) {
        for index in 0..fields.len() {
            if let (Kind::Custom { .. }, Length::Field(length)) =
                (&fields[index].kind, fields[index].length)
            {
                let expected = format!("{}.Length", fields[index].name);
                if fields[length].name == expected {
                    fields[length].is_custom_length = true;
                }
            }
        }
    }
}

/// Bytes of a string as it is stored.
fn string_size(bytes: &[u8], offset: u32) -> usize {
    let rest = if offset == 0 { None } else { bytes.get(offset as usize..) };
    rest.and_then(le::utf16_z).map_or(0, |(text, _)| text.len())
}

fn string(bytes: &[u8], offset: u32) -> Option<String> {
    let text = whole_string(bytes, offset)?;
    let trimmed = text.trim_end();
    (!trimmed.is_empty()).then(|| trimmed.to_string())
}

/// A string with the space that ends texts of message tables.
fn whole_string(bytes: &[u8], offset: u32) -> Option<String> {
    if offset == 0 {
        return None;
    }
    let (text, _) = le::utf16_z(bytes.get(offset as usize..)?)?;
    Some(le::utf16_lossy(text).trim_end_matches(['\r', '\n']).to_owned())
}

/// Reads the payload of a map record: provider GUID and EVENT_MAP_INFO.
///
/// `None` where it is cut, a map of patterns, which name no integers, or one whose names overlap without measure.
pub fn map(payload: &[u8]) -> Option<(Guid, Map)> {
    const PATTERN_MAP: u32 = 0x04;
    const BITMAPS: u32 = 0x02 | 0x10 | 0x20;
    let provider = Guid::read(payload, 0)?;
    let info = payload.get(16..)?;
    let flags = le::u32(info, 4)?;
    if flags & PATTERN_MAP != 0 {
        return None;
    }
    let count = le::u32(info, 8)? as usize;
    let entries = info.get(16..16usize.checked_add(count.checked_mul(8)?)?)?;
    let mut names = Vec::with_capacity(count);
    let mut text_size = 0;
    for entry in entries.chunks_exact(8) {
        let offset = le::u32(entry, 0)?;
        text_size += string_size(info, offset);
        if text_size > TEXT_LIMIT {
            return None;
        }
        if let Some(text) = whole_string(info, offset).filter(|text| !text.trim().is_empty()) {
            names.push((le::u32(entry, 4)?, text));
        }
    }
    let kind = if flags & BITMAPS != 0 { MapKind::Bits } else { MapKind::Value };
    Some((provider, Map { name: string(info, le::u32(info, 0)?)?, kind, entries: names }))
}

/// The payload of a map record: the other way of [`map`].
pub fn map_blob(provider: Guid, map: &Map) -> Vec<u8> {
    let mut info = vec![0; 16 + map.entries.len() * 8];
    let put = |info: &mut Vec<u8>, at: usize, value: u32| {
        info[at..at + 4].copy_from_slice(&value.to_le_bytes());
    };
    let text = |info: &mut Vec<u8>, text: &str| {
        let at = info.len() as u32;
        info.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        at
    };
    let name = text(&mut info, &map.name);
    let flags = if map.kind == MapKind::Bits { 2 } else { 1 };
    for (at, value) in [(0, name), (4, flags), (8, map.entries.len() as u32)] {
        put(&mut info, at, value);
    }
    for (number, (value, name)) in map.entries.iter().enumerate() {
        let name = text(&mut info, name);
        put(&mut info, 16 + number * 8, name);
        put(&mut info, 20 + number * 8, *value);
    }
    [&provider.0[..], &info].concat()
}

/// The fields of an EventInfo record itself.
pub(crate) fn event_info_record() -> Schema {
    let plain = |name: &str, wire| Field::new(name, wire, Show::Plain);
    let hex = |name: &str, wire| Field::new(name, wire, Show::Hex);
    let mut fields = vec![
        plain("ProviderGuid", Wire::Guid),
        plain("EventGuid", Wire::Guid),
        plain("Id", Wire::U16),
        plain("Version", Wire::U8),
        plain("Channel", Wire::U8),
        plain("Level", Wire::U8),
        plain("Opcode", Wire::U8),
        plain("Task", Wire::U16),
        hex("Keyword", Wire::U64),
        plain("DecodingSource", Wire::U32),
    ];
    let offsets = [
        "ProviderNameOffset",
        "LevelNameOffset",
        "ChannelNameOffset",
        "KeywordsNameOffset",
        "TaskNameOffset",
        "OpcodeNameOffset",
        "EventMessageOffset",
        "ProviderMessageOffset",
        "BinaryXMLOffset",
        "BinaryXMLSize",
        "EventNameOffset",
        "EventAttributesOffset",
    ];
    fields.extend(offsets.map(|name| plain(name, Wire::U32)));
    let property_count = fields.len();
    fields.push(plain("PropertyCount", Wire::U32));
    fields.push(plain("TopLevelPropertyCount", Wire::U32));
    fields.push(hex("Flags", Wire::U32));
    let members = [
        hex("Flags", Wire::U32),
        plain("NameOffset", Wire::U32),
        plain("InType", Wire::U16),
        plain("OutType", Wire::U16),
        plain("MapNameOffset", Wire::U32),
        plain("Count", Wire::U16),
        plain("Length", Wire::U16),
        hex("Tags", Wire::U32),
    ];
    with_array("Properties", property_count, fields, members.to_vec())
}

/// The fields of a MapInfo record itself.
pub(crate) fn map_info_record() -> Schema {
    let plain = |name: &str, wire| Field::new(name, wire, Show::Plain);
    let fields = vec![
        plain("ProviderGuid", Wire::Guid),
        plain("NameOffset", Wire::U32),
        Field::new("Flag", Wire::U32, Show::Hex),
        plain("EntryCount", Wire::U32),
        plain("MapEntryValueType", Wire::U32),
    ];
    let members = vec![plain("OutputOffset", Wire::U32), plain("Value", Wire::U32)];
    with_array("Entries", 3, fields, members)
}

fn with_array(name: &str, count: usize, mut fields: Vec<Field>, members: Vec<Field>) -> Schema {
    let mut array = Field::new(name, Wire::Nothing, Show::Plain);
    array.count = Count::Field(count);
    array.kind = Kind::Struct { first: fields.len() + 1, count: members.len() };
    fields.push(array);
    let top_level = fields.len();
    fields.extend(members);
    let names = Names { provider: Some("EventMetadata".into()), ..Names::default() };
    Schema::new(names, fields, top_level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_come_back() {
        for kind in [MapKind::Value, MapKind::Bits] {
            let entries = vec![(1, "one".to_owned()), (4, "vier".to_owned())];
            let known = Map { name: "M".into(), kind, entries };
            let guid = Guid::from_u128(7);
            assert_eq!(map(&map_blob(guid, &known)), Some((guid, known)));
        }
    }
}
