//! TRACE_EVENT_INFO from a schema: what a trace carries of its events, and what TDH returns.

use std::collections::{HashMap, VecDeque};

use etw_tracelogging::Wire;
use etw_tracelogging::tdh::{InType, OutType};
use etw_types::{EventDescriptor, Guid};

use super::{
    FIXED_COUNT, FIXED_SIZE, HAS_CUSTOM_SCHEMA, PARAM_COUNT, PARAM_LENGTH, PROPERTY_SIZE, STRUCT,
};
use crate::field::{Count, Field, Kind, Length};
use crate::schema::{Names, Schema};

const FIXED_LENGTH: u32 = 0x10;
const HAS_TAGS: u32 = 0x40;

/// The contents of a TRACE_EVENT_INFO.
#[derive(Clone, Copy, Debug)]
pub struct EventInfoParts<'a> {
    /// The provider.
    pub provider: Guid,
    /// The class of a classic event; zero for others.
    pub class: Guid,
    /// The event's numbers.
    pub descriptor: EventDescriptor,
    /// The decoding source: 0 a manifest, 1 MOF, 2 WPP, 3 TraceLogging.
    pub source: u32,
    /// Names of the event's parts; that of the provider is `provider_name`.
    pub names: &'a Names,
    /// The provider's name.
    pub provider_name: Option<&'a str>,
    /// Fields, message and tag.
    pub schema: &'a Schema,
    /// Bytes of a pointer.
    pub pointer_size: u8,
    /// How many of the event's own fields it has: classic events may end before their class does.
    pub top_level: usize,
    /// The number of elements of each own field whose count the payload's end decides.
    pub rest_counts: &'a [usize],
}

impl EventInfoParts<'_> {
    /// The structure's bytes; `None` if the schema has more fields than its numbers can express.
    pub fn write(&self) -> Option<Vec<u8>> {
        Builder::new(self.pointer_size).build(self)
    }
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

    fn build(mut self, parts: &EventInfoParts<'_>) -> Option<Vec<u8>> {
        let (schema, names) = (parts.schema, parts.names);
        let top_level = self.properties(parts)?;
        let message = schema.message.as_ref().map(crate::Message::template);
        let offsets = [
            (0x34, parts.provider_name),
            (0x38, names.level.as_deref()),
            (0x3c, names.channel.as_deref()),
            (0x44, names.task.as_deref()),
            (0x48, names.opcode.as_deref()),
            (0x4c, message),
            (0x5c, names.event.as_deref()),
        ];
        let mut out = vec![0; FIXED_SIZE + self.properties.len() * PROPERTY_SIZE];
        let base = out.len();
        out[..0x10].copy_from_slice(&parts.provider.0);
        out[0x10..0x20].copy_from_slice(&parts.class.0);
        let d = &parts.descriptor;
        put(&mut out, 0x20, &d.id.to_le_bytes());
        put(&mut out, 0x22, &[d.version, d.channel.0, d.level.0, d.opcode.0]);
        put(&mut out, 0x26, &d.task.to_le_bytes());
        put(&mut out, 0x28, &d.keyword.0.to_le_bytes());
        put(&mut out, 0x30, &parts.source.to_le_bytes());
        for (at, text) in offsets {
            let offset = self.text(base, text);
            put(&mut out, at, &offset.to_le_bytes());
        }
        // An empty text ends the list.
        let keywords = || names.keywords.iter().filter(|keyword| !keyword.is_empty());
        if keywords().next().is_some() {
            let offset = (base + self.texts.len()) as u32;
            for keyword in keywords() {
                self.texts.extend(utf16_z(keyword));
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
        Some(out)
    }

    /// All properties, the event's own first; how many these are.
    fn properties(&mut self, parts: &EventInfoParts<'_>) -> Option<usize> {
        let schema = parts.schema;
        let mut queue = VecDeque::new();
        let own = 0..parts.top_level.min(schema.top_level);
        self.range(schema, own, parts.rest_counts, &mut queue)?;
        let top_level = self.properties.len();
        // Structs may share their members.
        let mut ranges: HashMap<(usize, usize), (u16, u16)> = HashMap::new();
        while let Some((property, first, count)) = queue.pop_front() {
            let types = match ranges.get(&(first, count)) {
                Some(types) => *types,
                None => {
                    let start = self.properties.len();
                    self.range(schema, first..first + count, &[], &mut queue)?;
                    let number = |value: usize| u16::try_from(value).ok();
                    let types = (number(start)?, number(self.properties.len() - start)?);
                    ranges.insert((first, count), types);
                    types
                }
            };
            self.properties[property].types = types;
        }
        Some(top_level)
    }

    /// Fields side by side. `rest_counts`: of the event's own.
    fn range(
        &mut self,
        schema: &Schema,
        range: std::ops::Range<usize>,
        rest_counts: &[usize],
        queue: &mut VecDeque<(usize, usize, usize)>,
    ) -> Option<()> {
        for index in range {
            let field = schema.fields.get(index)?;
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
            let rest = rest_counts.get(index).copied().unwrap_or(0);
            self.of_field.entry(index).or_insert(self.properties.len());
            if let Kind::Struct { first, count } = field.kind {
                if first <= index {
                    return None;
                }
                queue.push_back((self.properties.len(), first, count));
            }
            self.field(field, rest);
            // Their numbers have sixteen bits.
            if self.properties.len() > usize::from(u16::MAX) {
                return None;
            }
        }
        Some(())
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
            if *wire == Wire::CountedBinary);
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
        self.texts.extend(utf16_z(text));
        self.known.insert(text.to_owned(), offset);
        offset
    }
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A property that stands before a field and has no field of its own in the schema.
#[derive(Clone, Copy)]
pub enum Companion {
    /// `<name>.Count`: elements of an array that has them before it.
    Count,
    /// `<name>.Length`: bytes of a binary value that has them before it.
    Length,
}

impl Companion {
    /// The companion of a field, if TDH puts one before it.
    pub fn of(field: &Field) -> Option<Companion> {
        match field.count {
            Count::Prefixed => Some(Companion::Count),
            _ if is_split_binary(field) => Some(Companion::Length),
            _ => None,
        }
    }

    /// The name of the property.
    pub fn name(self, field: &str) -> String {
        match self {
            Companion::Count => format!("{field}.Count"),
            Companion::Length => format!("{field}.Length"),
        }
    }
}

/// A binary value that carries its length, told as a length and TDH_INTYPE_BINARY: TraceLogging's, by analogy to its custom fields (a
/// guess). In arrays there is no place for the length, and TDH_INTYPE_MANIFEST_COUNTEDBINARY has it inside.
pub fn is_split_binary(field: &Field) -> bool {
    let is_own = field.length == Length::Own && field.count == Count::One;
    match &field.kind {
        Kind::Scalar { wire, .. } => {
            is_own && *wire == Wire::CountedBinary && field.types.0 == InType::BINARY
        }
        Kind::Custom { .. } => is_own,
        _ => false,
    }
}

/// A text of its own, with its NUL.
pub fn utf16_z(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}
