//! `TRACE_EVENT_INFO` of an event, from whatever schema it has.
//!
//! Layout as in `etw_decode::event_info`: fixed part, properties, texts. What a trace says of its events is given as it is, where every
//! offset in it leads to what it should; else it is made anew, since programs follow offsets without a look.

use std::collections::{HashMap, VecDeque};

use etw_api::{Guid, Status};
use etw_decode::{Count, Decoded, Field, InType, Kind, Length, Names, OutType, Schema, Source};
use etw_types::{EventRecord, le};

use super::places::{Companion, Places, is_split_binary};
use crate::status::{ERROR_EVT_INVALID_EVENT_DATA, ERROR_INVALID_DATA, ERROR_NOT_FOUND};

const FIXED_SIZE: usize = 0x70;
const PROPERTY_SIZE: usize = 24;

const STRUCT: u32 = 0x01;
const PARAM_LENGTH: u32 = 0x02;
const PARAM_COUNT: u32 = 0x04;
const FIXED_LENGTH: u32 = 0x10;
const FIXED_COUNT: u32 = 0x20;
const HAS_TAGS: u32 = 0x40;
const HAS_CUSTOM_SCHEMA: u32 = 0x80;

/// The provider of the system's classic events.
const SYSTEM_TRACE: Guid = Guid::from_u128(0x9e814aad_3204_11d2_9a82_006008a86939);

/// The structure's bytes.
///
/// # Errors
/// `ERROR_NOT_FOUND` without a schema; `ERROR_EVT_INVALID_EVENT_DATA` where the schema makes more of the payload than an event holds.
pub fn event_info(record: &EventRecord<'_>, decoded: &Decoded<'_>) -> Result<Vec<u8>, Status> {
    let schema = decoded.schema().ok_or(ERROR_NOT_FOUND)?;
    let places = Places::find(record, decoded)?;
    if places.is_bad {
        return Err(ERROR_EVT_INVALID_EVENT_DATA);
    }
    if let Some(blob) = decoded.event_info()
        && is_sound(blob)
    {
        return Ok(blob.to_vec());
    }
    Builder::new(decoded.pointer_size(record)).build(record, decoded, schema, &places)
}

/// Whether every offset of a TRACE_EVENT_INFO, whose properties were read, leads to what it should.
fn is_sound(blob: &[u8]) -> bool {
    let u32_at = |at: usize| le::u32(blob, at).unwrap_or(u32::MAX);
    let text = |offset: u32| {
        let rest = blob.get(offset as usize..);
        offset.is_multiple_of(2) && rest.and_then(le::utf16_z).is_some()
    };
    let is_text = |offset: u32| offset == 0 || text(offset);
    let keywords = u32_at(0x40);
    let is_list = keywords == 0 || {
        let mut rest = blob.get(keywords as usize..);
        keywords.is_multiple_of(2)
            && loop {
                let Some((text, taken)) = rest.and_then(le::utf16_z) else { break false };
                if text.is_empty() {
                    break true;
                }
                rest = rest.and_then(|rest| rest.get(taken..));
            }
    };
    let xml = u64::from(u32_at(0x54)) + u64::from(u32_at(0x58));
    let names = [0x34, 0x38, 0x3c, 0x44, 0x48, 0x4c, 0x50, 0x5c, 0x60];
    let is_property = |number: usize| {
        let at = FIXED_SIZE + number * PROPERTY_SIZE;
        let (flags, name, other) = (u32_at(at), u32_at(at + 4), u32_at(at + 0x0c));
        name != 0
            && text(name)
            && match flags {
                flags if flags & STRUCT != 0 => true,
                flags if flags & HAS_CUSTOM_SCHEMA != 0 => {
                    let size = le::u16(blob, (other as usize).saturating_add(2)).map(usize::from);
                    let end = size.map(|size| other as usize + 4 + size);
                    other.is_multiple_of(2) && end.is_some_and(|end| end <= blob.len())
                }
                _ => is_text(other),
            }
    };
    u32_at(0x30) <= 3
        && is_list
        && xml <= blob.len() as u64
        && names.into_iter().all(|at| is_text(u32_at(at)))
        && (0..u32_at(0x64) as usize).all(is_property)
}

struct Property {
    flags: u32,
    name: String,
    /// In- and out-type; of a struct filled in when its members have their place.
    types: (u16, u16),
    other: Other,
    count: Number,
    length: Number,
    tag: u32,
}

enum Other {
    None,
    Map(String),
    Custom(u8, Box<[u8]>),
}

/// A number, or the field that has it.
#[derive(Clone, Copy)]
enum Number {
    Is(u16),
    Field(usize),
    /// The property before this one.
    Before,
}

struct Builder {
    properties: Vec<Property>,
    /// Property of each field of the schema.
    of_field: HashMap<usize, usize>,
    texts: Vec<u8>,
    known: HashMap<String, u32>,
    pointer_size: u8,
}

impl Builder {
    fn new(pointer_size: u8) -> Builder {
        Builder {
            properties: Vec::new(),
            of_field: HashMap::new(),
            texts: Vec::new(),
            known: HashMap::new(),
            pointer_size,
        }
    }

    fn build(
        mut self,
        record: &EventRecord<'_>,
        decoded: &Decoded<'_>,
        schema: &Schema,
        places: &Places,
    ) -> Result<Vec<u8>, Status> {
        let top_level = self.properties(schema, places)?;
        let source = decoded.source();
        let number: u32 = match source {
            Some(Source::Kernel | Source::Mof | Source::Header) => 1,
            Some(Source::Wpp) => 2,
            Some(Source::TraceLogging) => 3,
            // Manifests, wherever they are from; strings, which are nobody's.
            _ => 0,
        };
        // An unsound structure of the trace's keeps what it says that it is.
        let told = decoded.event_info();
        let number =
            told.and_then(|blob| le::u32(blob, 0x30)).filter(|n| *n <= 3).unwrap_or(number);
        let provider = record.provider.unwrap_or_default();
        let guids = match source {
            Some(Source::Kernel | Source::Header) => [SYSTEM_TRACE, provider],
            Some(Source::Mof | Source::Wpp) => [provider, provider],
            _ if number == 1 => [provider, provider],
            _ => [provider, Guid::ZERO],
        };
        let names = names(decoded, schema, number);
        let provider_name = decoded.provider_name();
        let message = schema.message.as_ref().map(etw_decode::Message::template);
        let offsets = [
            (0x34, provider_name.as_deref()),
            (0x38, names.level.as_deref()),
            (0x3c, names.channel.as_deref()),
            (0x44, names.task.as_deref()),
            (0x48, names.opcode.as_deref()),
            (0x4c, message),
            (0x5c, names.event.as_deref()),
        ];
        let mut out = vec![0; FIXED_SIZE + self.properties.len() * PROPERTY_SIZE];
        let base = out.len();
        out[..0x10].copy_from_slice(&guids[0].0);
        out[0x10..0x20].copy_from_slice(&guids[1].0);
        let d = &record.descriptor;
        put(&mut out, 0x20, &d.id.to_le_bytes());
        put(&mut out, 0x22, &[d.version, d.channel.0, d.level.0, d.opcode.0]);
        put(&mut out, 0x26, &d.task.to_le_bytes());
        put(&mut out, 0x28, &d.keyword.0.to_le_bytes());
        put(&mut out, 0x30, &number.to_le_bytes());
        for (at, text) in offsets {
            let offset = self.text(base, text);
            put(&mut out, at, &offset.to_le_bytes());
        }
        // An empty text ends the list.
        let keywords = || names.keywords.iter().filter(|keyword| !keyword.is_empty());
        if keywords().next().is_some() {
            let offset = (base + self.texts.len()) as u32;
            for keyword in keywords() {
                self.texts.extend(super::places::utf16_z(keyword));
            }
            self.texts.extend([0, 0]);
            put(&mut out, 0x40, &offset.to_le_bytes());
        }
        put(&mut out, 0x64, &(self.properties.len() as u32).to_le_bytes());
        put(&mut out, 0x68, &(top_level as u32).to_le_bytes());
        // TEMPLATE_EVENT_DATA
        put(&mut out, 0x6c, &(1 | schema.tag << 4).to_le_bytes());
        for number in 0..self.properties.len() {
            self.put_property(&mut out, base, number);
        }
        out.extend(&self.texts);
        Ok(out)
    }

    /// All properties, the event's own first; how many these are.
    fn properties(&mut self, schema: &Schema, places: &Places) -> Result<usize, Status> {
        // A kernel's event may end before its class does; then there is no more of it.
        let told = if places.is_short { schema.top_level } else { places.top_level() };
        let mut queue = VecDeque::new();
        self.range(schema, 0..told.min(schema.top_level), Some(places), &mut queue)?;
        let top_level = self.properties.len();
        // Structs may share their members.
        let mut ranges: HashMap<(usize, usize), (u16, u16)> = HashMap::new();
        while let Some((property, first, count)) = queue.pop_front() {
            let types = match ranges.get(&(first, count)) {
                Some(types) => *types,
                None => {
                    let start = self.properties.len();
                    self.range(schema, first..first + count, None, &mut queue)?;
                    let number =
                        |value: usize| u16::try_from(value).map_err(|_| ERROR_INVALID_DATA);
                    let types = (number(start)?, number(self.properties.len() - start)?);
                    ranges.insert((first, count), types);
                    types
                }
            };
            self.properties[property].types = types;
        }
        Ok(top_level)
    }

    /// Fields side by side. `places`: of the event's own.
    fn range(
        &mut self,
        schema: &Schema,
        range: std::ops::Range<usize>,
        places: Option<&Places>,
        queue: &mut VecDeque<(usize, usize, usize)>,
    ) -> Result<(), Status> {
        for index in range {
            let Some(field) = schema.fields.get(index) else { return Err(ERROR_INVALID_DATA) };
            // No bytes of the payload: asked for by name.
            if matches!(field.kind, Kind::Constant(_)) {
                continue;
            }
            if let Some(companion) = Companion::of(field) {
                self.properties.push(Property {
                    flags: 0,
                    name: companion.name(&field.name),
                    types: (InType::UINT16.0, OutType::UNSIGNEDSHORT.0),
                    other: Other::None,
                    count: Number::Is(1),
                    length: Number::Is(2),
                    tag: 0,
                });
            }
            let rest = places.map_or(0, |places| places.count(index));
            self.of_field.entry(index).or_insert(self.properties.len());
            if let Kind::Struct { first, count } = field.kind {
                if first <= index {
                    return Err(ERROR_INVALID_DATA);
                }
                queue.push_back((self.properties.len(), first, count));
            }
            self.field(field, rest);
            // Their numbers have sixteen bits.
            if self.properties.len() > usize::from(u16::MAX) {
                return Err(ERROR_INVALID_DATA);
            }
        }
        Ok(())
    }

    fn field(&mut self, field: &Field, rest: usize) {
        let mut flags = if field.tag != 0 { HAS_TAGS } else { 0 };
        let count = match field.count {
            Count::Fixed(count) => {
                flags |= FIXED_COUNT;
                Number::Is(count)
            }
            Count::Prefixed => {
                flags |= PARAM_COUNT;
                Number::Before
            }
            Count::Field(source) => {
                flags |= PARAM_COUNT;
                Number::Field(source)
            }
            Count::Rest => {
                flags |= FIXED_COUNT;
                Number::Is(u16::try_from(rest).unwrap_or(u16::MAX))
            }
            // `One`; TDH can express no other counts.
            _ => Number::Is(1),
        };
        let (mut in_type, out_type) = field.types;
        let is_counted = matches!(&field.kind, Kind::Scalar { wire, .. }
            if *wire == etw_decode::Wire::CountedBinary);
        let is_split = is_split_binary(field);
        if is_counted && in_type == InType::BINARY && !is_split {
            in_type = InType::MANIFEST_COUNTEDBINARY;
        }
        let length = match field.length {
            _ if is_split => {
                flags |= PARAM_LENGTH;
                Number::Before
            }
            Length::Fixed(length) => {
                flags |= FIXED_LENGTH;
                Number::Is(length)
            }
            Length::Field(source) => {
                flags |= PARAM_LENGTH;
                Number::Field(source)
            }
            // `Own`; TDH can express no other lengths.
            _ => {
                let size = in_type.fixed_size(self.pointer_size).unwrap_or(0);
                Number::Is(if field.is_struct() { 0 } else { size as u16 })
            }
        };
        let other = match (&field.kind, &field.map) {
            (Kind::Struct { .. }, _) => {
                flags |= STRUCT;
                Other::None
            }
            (Kind::Custom { protocol, schema }, _) => {
                flags |= HAS_CUSTOM_SCHEMA;
                Other::Custom(*protocol, schema.clone())
            }
            (_, Some(map)) => Other::Map(map.name.clone()),
            _ => Other::None,
        };
        self.properties.push(Property {
            flags,
            name: field.name.clone(),
            types: (in_type.0, out_type.0),
            other,
            count,
            length,
            tag: field.tag,
        });
    }

    fn put_property(&mut self, out: &mut [u8], base: usize, number: usize) {
        let resolve = |builder: &Builder, value: Number| match value {
            Number::Is(value) => value,
            Number::Before => number as u16 - 1,
            // A field that no property stands for has no value: neither has this.
            Number::Field(field) => {
                builder.of_field.get(&field).map_or(number as u16, |place| *place as u16)
            }
        };
        let property = &self.properties[number];
        let (count, length) = (resolve(self, property.count), resolve(self, property.length));
        let (flags, types, tag) = (property.flags, property.types, property.tag);
        let name = property.name.clone();
        let name = self.text(base, Some(&name));
        let other = match std::mem::replace(&mut self.properties[number].other, Other::None) {
            Other::None => 0,
            Other::Map(map) => self.text(base, Some(&map)),
            Other::Custom(protocol, schema) => {
                let offset = (base + self.texts.len()) as u32;
                self.texts.extend(u16::from(protocol).to_le_bytes());
                // It came from metadata of 64 KiB.
                self.texts.extend((schema.len() as u16).to_le_bytes());
                self.texts.extend(&schema);
                self.texts.resize(self.texts.len().next_multiple_of(2), 0);
                offset
            }
        };
        let at = FIXED_SIZE + number * PROPERTY_SIZE;
        put(out, at, &flags.to_le_bytes());
        put(out, at + 4, &name.to_le_bytes());
        put(out, at + 8, &types.0.to_le_bytes());
        put(out, at + 10, &types.1.to_le_bytes());
        put(out, at + 12, &other.to_le_bytes());
        put(out, at + 16, &count.to_le_bytes());
        put(out, at + 18, &length.to_le_bytes());
        put(out, at + 20, &(tag & 0x0fff_ffff).to_le_bytes());
    }

    /// The offset of a text, each kept once; 0 for none.
    fn text(&mut self, base: usize, text: Option<&str>) -> u32 {
        let Some(text) = text else { return 0 };
        if let Some(offset) = self.known.get(text) {
            return *offset;
        }
        let offset = (base + self.texts.len()) as u32;
        self.texts.extend(super::places::utf16_z(text));
        self.known.insert(text.to_owned(), offset);
        offset
    }
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

/// The names that TDH has, of those that the schema has: an event's name is there only where the schema names the event, and not its task
/// and opcode.
fn names(decoded: &Decoded<'_>, schema: &Schema, source: u32) -> Names {
    let mut names = schema.names.clone();
    let mut made = Names { event: None, ..names.clone() };
    made.resolve_event();
    if made.event == names.event {
        names.event = None;
    }
    let event = decoded.event_name().map(str::to_owned);
    match source {
        // Class and type.
        1 => {
            let parts = event.as_deref().and_then(|event| event.split_once('/'));
            if let (Some((class, kind)), None, None) = (parts, &names.task, &names.opcode) {
                names.task = Some(class.to_owned());
                names.opcode = Some(kind.to_owned());
            }
            // Its place is that of an activity id's name.
            names.event = None;
        }
        // The place and line of the code.
        2 => {
            names.task = names.event.take();
        }
        // Older programs look for it here.
        3 => {
            names.event = names.event.or(event);
            names.task = names.task.or_else(|| names.event.clone());
        }
        _ => {}
    }
    names
}
