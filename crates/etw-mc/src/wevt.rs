//! The WEVT_TEMPLATE resource: a manifest in binary form, as decoders read it from a program's file.
//!
//! ```text
//! CRIM    u32 size   u16 major   u16 minor 1   u32 n   n × { GUID, u32 offset of WEVT }
//! WEVT    u32 size   u32 message   u32 n   slots × { u32 kind, u32 offset }   blocks
//! blocks  CHAN, MAPS, QTAB, TTBL, PRVA, OPCO, LEVL, TASK, KEYW, EVNT (8-aligned), EVTA, FLTR
//! name    u32 size, UTF-16, NUL, zeros to a multiple of four
//! ```
//!
//! Offsets count from CRIM. Each block begins with a signature and its size; names follow the entries that refer to
//! them. Source: outputs of `mc` of SDK 15063 and 18362, and of the .NET runtime's build.

use etw_tracelogging::tdh::InType;
use etw_types::Guid;

use crate::Manifest;
use crate::manifest::{Event, Extent, Field, Filter, Provider, Template};
use crate::messages::{MessageIds, ProviderIds};
use crate::template;

/// The two layouts in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Version {
    /// The layout of `mc` up to SDK 15063: without the provider's name and without attributes of events.
    V3,
    /// The layout of `mc` from SDK 18362 on.
    #[default]
    V5,
}

/// Kinds of blocks.
mod kind {
    pub const LEVELS: u32 = 0;
    pub const TASKS: u32 = 1;
    pub const OPCODES: u32 = 2;
    pub const KEYWORDS: u32 = 3;
    pub const EVENTS: u32 = 4;
    pub const CHANNELS: u32 = 5;
    pub const MAPS: u32 = 6;
    pub const TEMPLATES: u32 = 7;
    pub const PATTERN_MAPS: u32 = 8;
    pub const FILTERS: u32 = 9;
    pub const EVENT_ATTRIBUTES: u32 = 12;
    pub const PROVIDER_ATTRIBUTES: u32 = 13;
}

/// Slots of the list of blocks in version 3: those that are not in use are zero.
const V3_SLOTS: usize = 11;

/// The resource's bytes, two zeros behind the length that its header gives, as `mc` leaves them.
pub fn write(manifest: &Manifest, version: Version) -> Vec<u8> {
    let ids = MessageIds::new(manifest);
    let major = match version {
        Version::V3 => 3u16,
        Version::V5 => 5,
    };
    let mut out = Writer { bytes: Vec::new() };
    out.signature(b"CRIM");
    out.u16(major);
    out.u16(1);
    out.u32(manifest.providers.len() as u32);
    let list = out.bytes.len();
    for provider in &manifest.providers {
        out.bytes.extend_from_slice(&provider.guid.0);
        out.u32(0);
    }
    for (index, (provider, ids)) in manifest.providers.iter().zip(&ids.providers).enumerate() {
        let offset = out.at();
        out.put(list + 20 * index + 16, offset);
        ProviderWriter { out: &mut out, provider, ids, version }.write();
    }
    out.close(0);
    out.bytes.extend_from_slice(&[0, 0]);
    out.bytes
}

/// Bytes under construction; offsets are positions in them.
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn at(&self) -> u32 {
        self.bytes.len() as u32
    }

    fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    fn put(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// A signature and a size that is still open.
    fn signature(&mut self, signature: &[u8; 4]) -> usize {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(signature);
        self.u32(0);
        at
    }

    /// Sets the size of the block that begins at an offset.
    fn close(&mut self, at: usize) {
        self.put(at + 4, (self.bytes.len() - at) as u32);
    }

    fn align(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    fn utf16z(&mut self, text: &str) {
        self.bytes.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
    }

    /// A name; gives its offset.
    fn name(&mut self, name: &str) -> u32 {
        let at = self.bytes.len();
        self.u32(0);
        self.utf16z(name);
        self.align(4);
        self.put(at, (self.bytes.len() - at) as u32);
        at as u32
    }
}

struct ProviderWriter<'w> {
    out: &'w mut Writer,
    provider: &'w Provider,
    ids: &'w ProviderIds,
    version: Version,
}

/// Offsets of what events refer to, in the order of the provider's lists.
#[derive(Default)]
struct Offsets {
    channels: Vec<u32>,
    levels: Vec<u32>,
    tasks: Vec<u32>,
    opcodes: Vec<u32>,
    keywords: Vec<u32>,
    maps: Vec<u32>,
    templates: Vec<u32>,
}

impl ProviderWriter<'_> {
    fn write(mut self) {
        let start = self.out.signature(b"WEVT");
        self.out.u32(self.ids.provider);
        let provider = self.provider;
        let attributes = self.event_attributes();
        let (is_v5, mut kinds) = (self.version == Version::V5, Vec::new());
        let mut want = |kind, is_there| kinds.extend(Some(kind).filter(|_| is_there));
        want(kind::CHANNELS, !provider.channels.is_empty());
        want(kind::MAPS, !provider.maps.is_empty());
        want(kind::PATTERN_MAPS, !provider.pattern_maps.is_empty());
        want(kind::TEMPLATES, !provider.templates.is_empty());
        want(kind::PROVIDER_ATTRIBUTES, is_v5);
        want(kind::OPCODES, true);
        want(kind::LEVELS, true);
        want(kind::TASKS, true);
        want(kind::KEYWORDS, true);
        want(kind::EVENTS, !provider.events.is_empty());
        want(kind::EVENT_ATTRIBUTES, is_v5 && !attributes.is_empty());
        want(kind::FILTERS, !provider.filters.is_empty());
        self.out.u32(kinds.len() as u32);
        let list = self.out.bytes.len();
        let slots = if is_v5 { kinds.len() } else { V3_SLOTS.max(kinds.len()) };
        self.out.bytes.resize(list + 8 * slots, 0);
        let mut offsets = Offsets::default();
        for (index, kind) in kinds.into_iter().enumerate() {
            if kind == kind::EVENTS {
                self.out.align(8);
            }
            self.out.put(list + 8 * index, kind);
            let at = self.out.at();
            self.out.put(list + 8 * index + 4, at);
            match kind {
                kind::CHANNELS => self.channels(&mut offsets),
                kind::MAPS => self.maps(&mut offsets),
                kind::PATTERN_MAPS => self.pattern_maps(),
                kind::TEMPLATES => self.templates(&mut offsets),
                kind::PROVIDER_ATTRIBUTES => self.provider_attributes(),
                kind::OPCODES => self.opcodes(&mut offsets),
                kind::LEVELS => self.levels(&mut offsets),
                kind::TASKS => self.tasks(&mut offsets),
                kind::KEYWORDS => self.keywords(&mut offsets),
                kind::EVENTS => self.events(&offsets),
                kind::EVENT_ATTRIBUTES => self.event_attribute_block(&attributes),
                _ => self.filters(&offsets),
            }
        }
        self.out.close(start);
    }

    /// A block of entries that end with, or hold, the offset of a name: entries in the order of their keys, then the
    /// names in the same order. Empty, it has size 0. Gives each entry's offset, in the order of the provider's list.
    fn named<K: Ord>(
        &mut self,
        signature: &[u8; 4],
        keys: Vec<K>,
        entry: impl Fn(&mut Writer, usize) -> usize,
        name: impl Fn(usize) -> String,
    ) -> Vec<u32> {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by_key(|index| &keys[*index]);
        let start = self.out.signature(signature);
        self.out.u32(keys.len() as u32);
        let mut offsets = vec![0; keys.len()];
        let mut open = Vec::new();
        for index in order {
            offsets[index] = self.out.at();
            open.push((index, entry(self.out, index)));
        }
        for (index, at) in open {
            let offset = self.out.name(&name(index));
            self.out.put(at, offset);
        }
        if !keys.is_empty() {
            self.out.close(start);
        }
        offsets
    }

    fn channels(&mut self, offsets: &mut Offsets) {
        let (list, ids) = (&self.provider.channels, &self.ids.channels);
        offsets.channels = self.named(
            b"CHAN",
            vec![0; list.len()],
            |out, index| {
                out.u32(u32::from(list[index].is_imported));
                let name = out.bytes.len();
                out.u32(0);
                out.u32(u32::from(list[index].value));
                out.u32(ids[index]);
                name
            },
            |index| list[index].name.clone(),
        );
    }

    fn levels(&mut self, offsets: &mut Offsets) {
        let (list, ids) = (&self.provider.levels, &self.ids.levels);
        offsets.levels = self.named(
            b"LEVL",
            list.iter().map(|one| one.value).collect(),
            |out, index| {
                out.u32(u32::from(list[index].value));
                out.u32(ids[index]);
                out.u32(0);
                out.bytes.len() - 4
            },
            |index| list[index].name.clone(),
        );
    }

    fn opcodes(&mut self, offsets: &mut Offsets) {
        let (list, ids) = (&self.provider.opcodes, &self.ids.opcodes);
        offsets.opcodes = self.named(
            b"OPCO",
            list.iter().map(|one| (one.value, one.task)).collect(),
            |out, index| {
                out.u16(list[index].task);
                out.u16(u16::from(list[index].value));
                out.u32(ids[index]);
                out.u32(0);
                out.bytes.len() - 4
            },
            |index| list[index].name.clone(),
        );
    }

    fn tasks(&mut self, offsets: &mut Offsets) {
        let (list, ids) = (&self.provider.tasks, &self.ids.tasks);
        offsets.tasks = self.named(
            b"TASK",
            list.iter().map(|one| one.value).collect(),
            |out, index| {
                out.u32(u32::from(list[index].value));
                out.u32(ids[index]);
                out.bytes.extend_from_slice(&list[index].guid.unwrap_or(Guid::ZERO).0);
                out.u32(0);
                out.bytes.len() - 4
            },
            |index| list[index].name.clone(),
        );
    }

    fn keywords(&mut self, offsets: &mut Offsets) {
        let (list, ids) = (&self.provider.keywords, &self.ids.keywords);
        offsets.keywords = self.named(
            b"KEYW",
            list.iter().map(|one| one.mask.0).collect(),
            |out, index| {
                out.bytes.extend_from_slice(&list[index].mask.0.to_le_bytes());
                out.u32(ids[index]);
                out.u32(0);
                out.bytes.len() - 4
            },
            |index| list[index].name.clone(),
        );
    }

    /// ```text
    /// MAPS  u32 size   u32 n   n × u32 offset, by name   maps, in order   names, sorted
    /// VMAP or BMAP  u32 size   u32 name   u32 flags (1: bit map)   u32 n   n × { u32 value, u32 message }
    /// ```
    fn maps(&mut self, offsets: &mut Offsets) {
        let list = &self.provider.maps;
        let mut by_name: Vec<usize> = (0..list.len()).collect();
        by_name.sort_by_key(|index| list[*index].name.as_str());
        let start = self.out.signature(b"MAPS");
        self.out.u32(list.len() as u32);
        let table = self.out.bytes.len();
        self.out.bytes.resize(table + 4 * list.len(), 0);
        for (map, ids) in list.iter().zip(&self.ids.maps) {
            let at = self.out.signature(if map.is_bitmap { b"BMAP" } else { b"VMAP" });
            self.out.u32(0);
            self.out.u32(u32::from(map.is_bitmap));
            self.out.u32(map.items.len() as u32);
            let mut items: Vec<_> = map.items.iter().zip(ids).collect();
            items.sort_by_key(|(item, _)| item.value);
            for (item, id) in items {
                self.out.u32(item.value);
                self.out.u32(*id);
            }
            self.out.close(at);
            offsets.maps.push(at as u32);
        }
        for (slot, index) in by_name.into_iter().enumerate() {
            let at = offsets.maps[index];
            self.out.put(table + 4 * slot, at);
            let name = self.out.name(&list[index].name);
            self.out.put(at as usize + 8, name);
        }
        self.out.close(start);
    }

    /// ```text
    /// QTAB  u32 size   u32 n   n × u32 offset   maps, in order   texts, in the order of what refers to them
    /// QUER  u32 size up to the end of its texts   u32 name   u32 format   u32 n   n × { u32 name, u32 value }
    /// ```
    fn pattern_maps(&mut self) {
        let list = &self.provider.pattern_maps;
        let start = self.out.signature(b"QTAB");
        self.out.u32(list.len() as u32);
        let table = self.out.bytes.len();
        self.out.bytes.resize(table + 4 * list.len(), 0);
        let mut maps = Vec::new();
        for (index, map) in list.iter().enumerate() {
            let at = self.out.signature(b"QUER");
            self.out.put(table + 4 * index, at as u32);
            let first = self.out.bytes.len();
            self.out.bytes.resize(first + 12 + 8 * map.items.len(), 0);
            self.out.put(first + 8, map.items.len() as u32);
            maps.push((map, at, first));
        }
        for (map, at, first) in maps {
            let (name, format) = (self.out.name(&map.name), self.out.name(&map.format));
            self.out.put(first, name);
            self.out.put(first + 4, format);
            for (index, item) in map.items.iter().enumerate() {
                let (name, value) = (self.out.name(&item.name), self.out.name(&item.value));
                self.out.put(first + 12 + 8 * index, name);
                self.out.put(first + 16 + 8 * index, value);
            }
            self.out.close(at);
        }
        self.out.close(start);
    }

    fn templates(&mut self, offsets: &mut Offsets) {
        let start = self.out.signature(b"TTBL");
        self.out.u32(self.provider.templates.len() as u32);
        for template in &self.provider.templates {
            offsets.templates.push(self.out.at());
            self.template(template, &offsets.maps);
        }
        self.out.close(start);
    }

    /// ```text
    /// TEMP  u32 size   u32 top-level fields   u32 all fields   u32 offset of descriptors   u32 kind   GUID
    /// binary XML, zeros to a multiple of four   descriptors, 20 bytes each   names
    /// ```
    fn template(&mut self, template: &Template, maps: &[u32]) {
        let start = self.out.signature(b"TEMP");
        let members: usize = template.fields.iter().map(|field| field.members.len()).sum();
        self.out.u32(template.fields.len() as u32);
        self.out.u32((template.fields.len() + members) as u32);
        let descriptors = self.out.bytes.len();
        self.out.u32(0);
        self.out.u32(match template.user_data {
            Some(_) => template::USER_DATA,
            None => template::EVENT_DATA,
        });
        self.out.bytes.extend_from_slice(&template::guid(template).0);
        self.out.bytes.extend_from_slice(&template::fragment(template));
        self.out.align(4);
        let at = self.out.at();
        self.out.put(descriptors, at);
        // Members follow all top-level fields, and refer to each other by their index in this list.
        let mut next_member = template.fields.len();
        let mut fields = Vec::new();
        for field in &template.fields {
            fields.push((field, 0, next_member));
            next_member += field.members.len();
        }
        let mut first = template.fields.len();
        for field in &template.fields {
            fields.extend(field.members.iter().map(|member| (member, first, 0)));
            first += field.members.len();
        }
        let names: Vec<usize> = fields
            .iter()
            .map(|(field, base, members)| self.field(field, *base, *members, maps))
            .collect();
        for ((field, ..), at) in fields.iter().zip(names) {
            let offset = self.out.name(&field.name);
            self.out.put(at, offset);
        }
        self.out.close(start);
    }

    /// ```text
    /// u32 flags   u8 in-type   u8 out-type   u16 0   u32 map   u16 count   u16 length   u32 name
    /// struct: u16 first member and u16 member count in the place of the types
    /// flags: 1 struct, 2 fixed length, 4 length by field, 8 fixed count, 16 count by field
    /// ```
    /// `base` is the index of the first field of the same list, `members` that of the struct's first member.
    fn field(&mut self, field: &Field, base: usize, members: usize, maps: &[u32]) -> usize {
        let is_struct = !field.members.is_empty();
        // A SID has its own length: one that the manifest gives stands there without its flag.
        let fixed_length = if field.in_type == InType::SID { 0 } else { 2 };
        let (length_flag, length) = flagged(field.length, base, fixed_length, 4);
        let (count_flag, count) = match field.has_count_of_one {
            true => (8, 1),
            false => flagged(field.count, base, 8, 16),
        };
        self.out.u32(u32::from(is_struct) | length_flag | count_flag);
        if is_struct {
            self.out.u16(members as u16);
            self.out.u16(field.members.len() as u16);
        } else {
            self.out.bytes.extend_from_slice(&[
                field.in_type.0 as u8,
                field.out_type.0 as u8,
                0,
                0,
            ]);
        }
        self.out.u32(field.map.map_or(0, |index| maps[index]));
        self.out.u16(count);
        self.out.u16(length);
        self.out.u32(0);
        self.out.bytes.len() - 4
    }

    fn provider_attributes(&mut self) {
        let provider = self.provider;
        let start = self.out.signature(b"PRVA");
        let guids = [(0x2000_0001, provider.control_guid), (0x2000_0002, provider.group_guid)];
        let guids: Vec<(u32, Guid)> =
            guids.into_iter().filter_map(|(kind, guid)| Some((kind, guid?))).collect();
        self.out.u32(1 + guids.len() as u32);
        let first = self.out.bytes.len();
        self.out.bytes.resize(first + 8 * (1 + guids.len()), 0);
        let entry = |out: &mut Writer, index: usize, kind| {
            let at = out.at();
            out.put(first + 8 * index, kind);
            out.put(first + 8 * index + 4, at);
        };
        entry(self.out, 0, 0x1000_0001);
        self.out.utf16z(&provider.name);
        self.out.align(4);
        for (index, (kind, guid)) in guids.into_iter().enumerate() {
            entry(self.out, index + 1, kind);
            self.out.bytes.extend_from_slice(&guid.0);
        }
        self.out.close(start);
    }

    /// Events by id; events with the same id stay in their order.
    fn in_order(&self) -> Vec<usize> {
        let events = &self.provider.events;
        let mut order: Vec<usize> = (0..events.len()).collect();
        order.sort_by_key(|index| events[*index].id);
        order
    }

    /// ```text
    /// EVNT  u32 size   u32 n   u32 0   n × 48 bytes   lists of u32 offsets of keywords
    /// event  u16 id   u8 version   u8 channel   u8 level   u8 opcode   u16 task   u64 keyword   u32 message
    ///        u32 template   u32 opcode   u32 level   u32 task   u32 keywords   u32 their list   u32 channel
    /// ```
    fn events(&mut self, offsets: &Offsets) {
        let start = self.out.signature(b"EVNT");
        let provider = self.provider;
        self.out.u32(provider.events.len() as u32);
        self.out.u32(0);
        let mut lists: Vec<(usize, &Event)> = Vec::new();
        for index in self.in_order() {
            let event = &provider.events[index];
            let numbers = provider.numbers_of(event);
            self.out.u16(event.id);
            let bytes = [event.version, numbers.channel, numbers.level.0, numbers.opcode];
            self.out.bytes.extend_from_slice(&bytes);
            self.out.u16(numbers.task);
            self.out.bytes.extend_from_slice(&provider.keyword_of(event).0.to_le_bytes());
            self.out.u32(self.ids.events[index]);
            let of = |list: &[u32], index: Option<usize>| index.map_or(0, |index| list[index]);
            self.out.u32(of(&offsets.templates, event.template));
            self.out.u32(of(&offsets.opcodes, event.opcode));
            self.out.u32(of(&offsets.levels, event.level));
            self.out.u32(of(&offsets.tasks, event.task));
            self.out.u32(event.keywords.len() as u32);
            lists.push((self.out.bytes.len(), event));
            self.out.u32(0);
            self.out.u32(of(&offsets.channels, event.channel));
        }
        for (at, event) in lists.into_iter().filter(|(_, event)| !event.keywords.is_empty()) {
            let offset = self.out.at();
            self.out.put(at, offset);
            for keyword in &event.keywords {
                self.out.u32(offsets.keywords[*keyword]);
            }
        }
        self.out.close(start);
    }

    /// Names and attributes of events, in the order of their ids and versions: kind, version, id, text.
    fn event_attributes(&self) -> Vec<(u8, u8, u16, String)> {
        let mut all = Vec::new();
        let mut events: Vec<&Event> = self.provider.events.iter().collect();
        events.sort_by_key(|event| (event.id, event.version));
        for event in events {
            let name = event.name.iter().map(|name| (0x11, name.clone()));
            let attributes = event.attributes.iter().map(|text| (0x12, text.clone()));
            all.extend(
                name.chain(attributes).map(|(kind, text)| (kind, event.version, event.id, text)),
            );
        }
        all
    }

    /// ```text
    /// EVTA  u32 size   u32 n   n × { u8 kind, u8 version, u16 id, u32 text }   texts, each once, sorted
    /// ```
    fn event_attribute_block(&mut self, attributes: &[(u8, u8, u16, String)]) {
        let start = self.out.signature(b"EVTA");
        self.out.u32(attributes.len() as u32);
        let first = self.out.bytes.len();
        for (kind, version, id, _) in attributes {
            self.out.bytes.extend_from_slice(&[*kind, *version]);
            self.out.u16(*id);
            self.out.u32(0);
        }
        let mut texts: Vec<&str> = attributes.iter().map(|(.., text)| text.as_str()).collect();
        texts.sort_unstable();
        texts.dedup();
        for text in texts {
            let at = self.out.at();
            self.out.utf16z(text);
            for (index, _) in attributes.iter().enumerate().filter(|(_, one)| one.3 == text) {
                self.out.put(first + 8 * index + 4, at);
            }
        }
        self.out.align(4);
        self.out.close(start);
    }

    /// ```text
    /// FLTR  u32 size   u32 n   u32 template of the last filter   n × { u8 value, u8 version, u16 0, u32 message, u32 name, u32 template }
    /// ```
    fn filters(&mut self, offsets: &Offsets) {
        let (list, ids) = (&self.provider.filters, &self.ids.filters);
        let template = |filter: &Filter| filter.template.map_or(0, |at| offsets.templates[at]);
        let start = self.out.signature(b"FLTR");
        self.out.u32(list.len() as u32);
        self.out.u32(list.last().map_or(0, template));
        let mut names = Vec::new();
        for (filter, id) in list.iter().zip(ids) {
            self.out.bytes.extend_from_slice(&[filter.value, filter.version, 0, 0]);
            self.out.u32(*id);
            names.push(self.out.bytes.len());
            self.out.u32(0);
            self.out.u32(template(filter));
        }
        for (filter, at) in list.iter().zip(names) {
            let offset = self.out.name(&filter.name);
            self.out.put(at, offset);
        }
        self.out.close(start);
    }
}

/// An extent as a flag and a number.
fn flagged(extent: Extent, base: usize, fixed: u32, by_field: u32) -> (u32, u16) {
    match extent {
        Extent::None => (0, 0),
        Extent::Fixed(value) => (fixed, value),
        Extent::Field(index) => (by_field, base as u16 + index),
    }
}
