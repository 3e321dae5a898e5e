//! The blocks of a WEVT_TEMPLATE resource: from bytes to providers.

use super::WevtError;
use super::messages::Messages;
use crate::field::{Count, Field, Kind, Length};
use crate::known_providers::known_provider_name;
use crate::layout::{sized_part, unsized_field, whole_part};
use crate::map::{Map, MapKind};
use crate::message::Message;
use crate::provider::{
    ChannelConfig, KeywordName, Manifest, ManifestChannel, ManifestProvider, NamedValue,
    NamedValueKind,
};
use crate::schema::{Names, Schema};
use etw_tracelogging::tdh::{InType, OutType};
use etw_tracelogging::{Show, Wire};
use etw_types::{EventDescriptor, Guid, Keyword, le};
use std::collections::HashMap;
use std::sync::Arc;

/// Events, fields and texts of all providers of a file together; Windows' largest binaries have a tenth of it.
const ITEM_LIMIT: usize = 1 << 20;
/// Bytes of everything that is compiled.
const COMPILED_LIMIT: usize = 256 << 20;

/// Flags of a property. They differ from those of EVENT_PROPERTY_INFO.
mod property {
    pub const STRUCT: u32 = 1;
    pub const FIXED_LENGTH: u32 = 2;
    pub const LENGTH_OF_FIELD: u32 = 4;
    pub const FIXED_COUNT: u32 = 8;
    pub const COUNT_OF_FIELD: u32 = 0x10;
}

/// Kinds of provider attributes (PRVA) and event attributes (EVTA).
const PROVIDER_NAME: u32 = 0x1000_0001;
const CONTROL_GUID: u32 = 0x2000_0001;
const EVENT_NAME: u8 = 0x11;

/// Reads the providers of a resource.
///
/// # Errors
/// `Bad` if the resource does not begin as one; `TooMuch`. Other damage costs the block or the item that has it, and a warning
/// names it.
pub(super) fn read(blob: &[u8], messages: &Messages) -> Result<Manifest, WevtError> {
    let mut reader = Reader {
        blob,
        messages,
        items: 0,
        size: 0,
        out: Manifest::default(),
        name: String::new(),
        language: None,
    };
    reader.signature(0, b"CRIM")?;
    let mut first_error = None;
    for number in 0..reader.u32(12)? as usize {
        reader.charge(1)?;
        let at = 16 + number * 20;
        let Some(guid) = Guid::read(blob, at) else {
            first_error = first_error.or(Some(bad(at, "the GUID of a provider")));
            break;
        };
        reader.name = guid.to_string();
        let read = reader.u32(at + 16).and_then(|offset| reader.provider(guid, offset as usize));
        if let Err(error @ WevtError::Bad { .. }) = &read {
            first_error = first_error.or_else(|| Some(error.clone()));
        }
        reader.tolerate("this provider is left out", read)?;
    }
    if let (Some(error), true) = (first_error, reader.out.providers.is_empty()) {
        return Err(error);
    }
    reader.out.size = reader.size;
    Ok(reader.out)
}

fn bad(offset: usize, what: &'static str) -> WevtError {
    WevtError::Bad { offset, what }
}

struct Reader<'b> {
    blob: &'b [u8],
    messages: &'b Messages,
    items: usize,
    size: usize,
    out: Manifest,
    /// The provider that is being read, for warnings.
    name: String,
    /// The language of the first text of the provider.
    language: Option<Arc<str>>,
}

/// A block of a provider.
#[derive(Clone, Copy)]
struct Block<'b> {
    kind: &'b [u8],
    at: usize,
    count: usize,
}

fn named(kind: NamedValueKind, value: u64) -> NamedValue {
    let (name, message) = (String::new(), String::new());
    NamedValue { kind, value, task: 0, name, message, event_guid: Guid::ZERO }
}

/// A template's fields, in the order of a TRACE_EVENT_INFO.
struct Template {
    fields: Vec<Field>,
    top_level: usize,
    /// Why fields are missing at its end.
    incomplete: Option<String>,
    is_reported: bool,
}

/// The items that events refer to, mostly by offset.
#[derive(Default)]
struct Known {
    /// Levels, opcodes, tasks and keywords.
    names: HashMap<usize, String>,
    channels: HashMap<u8, String>,
    maps: HashMap<usize, Arc<Map>>,
    templates: HashMap<usize, Template>,
    /// Names of events by id and version.
    events: HashMap<(u16, u8), String>,
}

impl<'b> Reader<'b> {
    fn u32(&self, at: usize) -> Result<u32, WevtError> {
        le::u32(self.blob, at).ok_or(bad(at, "a number"))
    }

    fn u16(&self, at: usize) -> Result<u16, WevtError> {
        le::u16(self.blob, at).ok_or(bad(at, "a number"))
    }

    fn u8(&self, at: usize) -> Result<u8, WevtError> {
        le::u8(self.blob, at).ok_or(bad(at, "a number"))
    }

    fn charge(&mut self, items: usize) -> Result<(), WevtError> {
        self.items += items;
        if self.items > ITEM_LIMIT { Err(WevtError::TooMuch) } else { Ok(()) }
    }

    fn charge_bytes(&mut self, bytes: usize) -> Result<(), WevtError> {
        self.size += bytes;
        if self.size > COMPILED_LIMIT { Err(WevtError::TooMuch) } else { Ok(()) }
    }

    fn signature(&self, at: usize, expected: &'static [u8; 4]) -> Result<(), WevtError> {
        match self.blob.get(at..at.saturating_add(4)) {
            Some(found) if found == expected => Ok(()),
            _ => Err(bad(at, std::str::from_utf8(expected).unwrap_or("a block"))),
        }
    }

    fn warn(&mut self, what: &str) {
        self.out.warn(format!("{}: {what}", self.name));
    }

    /// Turns damage into a warning; only `TooMuch` ends the reading.
    fn tolerate(&mut self, what: &str, result: Result<(), WevtError>) -> Result<(), WevtError> {
        match result {
            Err(WevtError::Bad { offset, what: expected }) => {
                self.warn(&format!("{what}: {expected} was expected at offset {offset:#x}"));
                Ok(())
            }
            other => other,
        }
    }

    /// A UTF-16 text up to its NUL.
    fn text_z(&mut self, at: usize) -> Result<String, WevtError> {
        let (text, size) =
            self.blob.get(at..).and_then(le::utf16_z).ok_or(bad(at, "a text with its NUL"))?;
        self.charge_bytes(size)?;
        Ok(le::utf16_lossy(text))
    }

    /// A text with its size before it; offset 0 stands for none.
    fn name(&mut self, at: u32) -> Result<Option<String>, WevtError> {
        if at == 0 {
            return Ok(None);
        }
        let at = at as usize;
        let size = self.u32(at)? as usize;
        let bytes = size.checked_sub(4).and_then(|size| self.blob.get(at + 4..at + 4 + size));
        let bytes = bytes.ok_or(bad(at, "a text"))?;
        self.charge_bytes(size)?;
        let text = le::utf16_z(bytes).map_or(bytes, |(text, _)| text);
        Ok(Some(le::utf16_lossy(text)).filter(|text| !text.is_empty()))
    }

    /// The message, else the name: what Windows shows.
    fn shown(&mut self, message: u32, name: u32) -> Result<Option<String>, WevtError> {
        match self.messages.get(message).map(str::to_owned) {
            Some(text) => {
                if self.language.is_none() {
                    self.language = self.messages.language(message).map(Arc::from);
                }
                self.charge_bytes(text.len())?;
                Ok(Some(text))
            }
            None => self.name(name),
        }
    }

    fn provider(&mut self, guid: Guid, at: usize) -> Result<(), WevtError> {
        self.signature(at, b"WEVT")?;
        let message = self.u32(at + 8)?;
        let mut provider = ManifestProvider { guid, ..ManifestProvider::default() };
        // Compilers before Windows 8 left the name to the registry, and the message is a description.
        let name = known_provider_name(&guid).or(self.messages.get(message));
        provider.name = name.map_or_else(|| guid.to_string(), str::to_owned);
        provider.texts.message = self.messages.get(message).unwrap_or_default().trim().to_owned();
        self.name.clone_from(&provider.name);
        self.language = None;
        let mut blocks = Vec::new();
        for number in 0..self.u32(at + 12)? as usize {
            self.charge(1)?;
            let slot = at + 20 + number * 8;
            let Some(block) = le::u32(self.blob, slot) else {
                self.tolerate("the rest of its blocks is left out", Err(bad(slot, "a block")))?;
                break;
            };
            let block = block as usize;
            // Unused slots are zero.
            if block == 0 {
                continue;
            }
            match (self.blob.get(block..block.saturating_add(4)), le::u32(self.blob, block + 8)) {
                // Blocks that are not read have letters for their names, too.
                (Some(kind), Some(count)) if kind.iter().all(u8::is_ascii_alphanumeric) => {
                    blocks.push(Block { kind, at: block, count: count as usize });
                }
                _ => self.tolerate("a block is left out", Err(bad(block, "a block")))?,
            }
        }
        let mut known = Known::default();
        // Templates name maps, events name templates and everything else.
        for stage in [
            &[&b"PRVA"[..]][..],
            &[b"CHAN", b"LEVL", b"OPCO", b"TASK", b"KEYW", b"MAPS", b"EVTA"],
            &[b"EVNT"],
        ] {
            for block in blocks.iter().filter(|block| stage.contains(&block.kind)) {
                let read = self.block(*block, &mut known, &mut provider);
                let kind = String::from_utf8_lossy(block.kind);
                self.tolerate(&format!("the rest of its {kind} is left out"), read)?;
            }
        }
        provider.channels.sort_by_key(|channel| channel.value);
        provider.maps = known.maps.into_values().collect();
        provider.maps.sort_by(|a, b| a.name.cmp(&b.name));
        provider.keywords.sort();
        provider.named_values.sort();
        self.out.providers.push(provider);
        Ok(())
    }

    fn block(
        &mut self,
        block: Block<'b>,
        known: &mut Known,
        provider: &mut ManifestProvider,
    ) -> Result<(), WevtError> {
        let Block { kind, at, count } = block;
        match kind {
            b"PRVA" => self.rows(block, 8, |reader, at| reader.provider_attribute(at, provider)),
            b"CHAN" => self.rows(block, 16, |reader, at| reader.channel(at, known, provider)),
            b"LEVL" => self.rows(block, 12, |reader, at| {
                let value = u64::from(reader.u32(at)?);
                let level = named(NamedValueKind::Level, value);
                reader.named(at, reader.u32(at + 8)?, known, level, provider)
            }),
            b"OPCO" => self.rows(block, 12, |reader, at| {
                let value = u64::from(reader.u16(at + 2)?);
                let task = reader.u16(at)?;
                let opcode = NamedValue { task, ..named(NamedValueKind::Opcode, value) };
                reader.named(at, reader.u32(at + 8)?, known, opcode, provider)
            }),
            b"TASK" => self.rows(block, 28, |reader, at| {
                let value = u64::from(reader.u32(at)?);
                let event_guid = Guid::read(reader.blob, at + 8).unwrap_or(Guid::ZERO);
                let task = NamedValue { event_guid, ..named(NamedValueKind::Task, value) };
                reader.named(at, reader.u32(at + 24)?, known, task, provider)
            }),
            b"KEYW" => self.rows(block, 16, |reader, at| reader.keyword(at, known, provider)),
            b"MAPS" => self.rows(block, 4, |reader, at| reader.map_at(at, known)),
            b"EVTA" => self.rows(block, 8, |reader, at| reader.event_attribute(at, known)),
            _ => {
                for number in 0..count {
                    self.charge(1)?;
                    self.event(at + 16 + number * 48, known, provider)?;
                }
                Ok(())
            }
        }
    }

    /// Reads each row of a block of rows of `size` bytes; `read` gets its offset. A damaged row costs that row.
    fn rows(
        &mut self,
        block: Block<'b>,
        size: usize,
        mut read: impl FnMut(&mut Self, usize) -> Result<(), WevtError>,
    ) -> Result<(), WevtError> {
        for number in 0..block.count {
            self.charge(1)?;
            let at = block.at + 12 + number * size;
            if self.blob.len() < at + size {
                return Err(bad(at, "an entry"));
            }
            let result = read(self, at);
            let kind = String::from_utf8_lossy(block.kind);
            self.tolerate(&format!("an entry of its {kind} is left out"), result)?;
        }
        Ok(())
    }

    fn provider_attribute(
        &mut self,
        at: usize,
        provider: &mut ManifestProvider,
    ) -> Result<(), WevtError> {
        let value = self.u32(at + 4)? as usize;
        match self.u32(at)? {
            PROVIDER_NAME => {
                provider.name = self.text_z(value)?;
                self.name.clone_from(&provider.name);
            }
            CONTROL_GUID => {
                let guid = Guid::read(self.blob, value).ok_or(bad(value, "a GUID"))?;
                provider.control_guid = Some(guid);
            }
            _ => {}
        }
        Ok(())
    }

    fn channel(
        &mut self,
        at: usize,
        known: &mut Known,
        provider: &mut ManifestProvider,
    ) -> Result<(), WevtError> {
        let (name, value) = (self.u32(at + 4)?, self.u32(at + 8)?);
        if let (Some(name), Ok(value)) = (self.name(name)?, u8::try_from(value)) {
            known.channels.insert(value, name.clone());
            let is_imported = self.u32(at)? & 1 != 0;
            let config = ChannelConfig { is_imported, ..ChannelConfig::default() };
            let message_id = Some(self.u32(at + 12)?).filter(|id| *id != u32::MAX);
            let message = message_id.and_then(|id| self.messages.get(id)).unwrap_or_default();
            let message = message.trim().to_owned();
            self.charge_bytes(message.len())?;
            provider.channels.push(ManifestChannel { value, name, message, message_id, config });
        }
        Ok(())
    }

    /// A level, opcode or task in the row at `at`, whose name is at the offset `name`.
    fn named(
        &mut self,
        at: usize,
        name: u32,
        known: &mut Known,
        value: NamedValue,
        provider: &mut ManifestProvider,
    ) -> Result<(), WevtError> {
        let message = self.u32(at + 4)?;
        known.names.extend(self.shown(message, name)?.map(|name| (at, name)));
        self.add_named(value, message, name, provider)
    }

    /// Adds a level, opcode, task or keyword with its own name and message.
    fn add_named(
        &mut self,
        value: NamedValue,
        message: u32,
        name: u32,
        provider: &mut ManifestProvider,
    ) -> Result<(), WevtError> {
        let name = self.name(name)?.unwrap_or_default();
        let message = self.messages.get(message).unwrap_or_default().trim().to_owned();
        self.charge_bytes(name.len() + message.len())?;
        provider.named_values.push(NamedValue { name, message, ..value });
        Ok(())
    }

    fn keyword(
        &mut self,
        at: usize,
        known: &mut Known,
        provider: &mut ManifestProvider,
    ) -> Result<(), WevtError> {
        let mask = le::u64(self.blob, at).ok_or(bad(at, "a mask"))?;
        let (message, name) = (self.u32(at + 8)?, self.u32(at + 12)?);
        self.add_named(named(NamedValueKind::Keyword, mask), message, name, provider)?;
        if let Some(name) = self.shown(message, name)? {
            provider.keywords.push(KeywordName { mask: Keyword(mask), name: name.clone() });
            known.names.insert(at, name);
        }
        Ok(())
    }

    /// The map whose offset is at `at`.
    fn map_at(&mut self, at: usize, known: &mut Known) -> Result<(), WevtError> {
        let at = self.u32(at)? as usize;
        let read = self.map(at, known);
        self.tolerate(&format!("the map at offset {at:#x} is left out"), read)
    }

    fn map(&mut self, at: usize, known: &mut Known) -> Result<(), WevtError> {
        let kind = match self.blob.get(at..at.saturating_add(4)) {
            Some(b"VMAP") => MapKind::Value,
            Some(b"BMAP") => MapKind::Bits,
            _ => return Err(bad(at, "VMAP or BMAP")),
        };
        let name = self.u32(at + 8)?;
        let name = self.name(name)?.unwrap_or_default();
        let mut entries = Vec::new();
        let mut unnamed = 0;
        for entry in 0..self.u32(at + 16)? as usize {
            self.charge(1)?;
            let at = at + 20 + entry * 8;
            let (value, message) = (self.u32(at)?, self.u32(at + 4)?);
            match self.messages.get(message).map(str::to_owned) {
                Some(text) => {
                    self.charge_bytes(text.len())?;
                    entries.push((value, text));
                }
                None => unnamed += 1,
            }
        }
        if unnamed > 0 {
            self.warn(&format!(
                "map {name:?}: {unnamed} values have no text: the message table lacks them"
            ));
        }
        known.maps.insert(at, Arc::new(Map { name, kind, entries }));
        Ok(())
    }

    fn event_attribute(&mut self, at: usize, known: &mut Known) -> Result<(), WevtError> {
        if self.u8(at)? == EVENT_NAME {
            let (version, id) = (self.u8(at + 1)?, self.u16(at + 2)?);
            let text = self.u32(at + 4)? as usize;
            known.events.insert((id, version), self.text_z(text)?);
        }
        Ok(())
    }

    /// Reads the template at an offset when the first event refers to it: a damaged one costs itself alone.
    fn need_template(&mut self, at: usize, known: &mut Known) -> Result<(), WevtError> {
        if at == 0 || known.templates.contains_key(&at) {
            return Ok(());
        }
        self.charge(1)?;
        let read = self.signature(at, b"TEMP").and_then(|()| self.template(at, &known.maps));
        let template = match read {
            Err(WevtError::Bad { offset, what }) => Template {
                fields: Vec::new(),
                top_level: 0,
                incomplete: Some(format!("{what} was expected at offset {offset:#x}")),
                is_reported: false,
            },
            other => other?,
        };
        known.templates.insert(at, template);
        Ok(())
    }

    fn template(
        &mut self,
        at: usize,
        maps: &HashMap<usize, Arc<Map>>,
    ) -> Result<Template, WevtError> {
        let (top_level, count) = (self.u32(at + 8)? as usize, self.u32(at + 12)? as usize);
        let first = self.u32(at + 16)? as usize;
        if top_level > count {
            return Err(bad(at + 8, "fewer top-level properties than properties"));
        }
        // Looked at before anything of that size is made.
        if self.blob.len().saturating_sub(first) / 20 < count {
            return Err(bad(first, "the properties"));
        }
        let mut items = Vec::with_capacity(count);
        for number in 0..count {
            self.charge(1)?;
            items.push(match self.property(first + number * 20, number, maps) {
                Err(WevtError::Bad { offset, what }) => {
                    Err(format!("{what} was expected at offset {offset:#x}"))
                }
                other => other?,
            });
        }
        let whole = whole_part(items, top_level);
        if let Some(name) = unsized_field(&whole) {
            let name = name.to_owned();
            self.warn(&format!(
                "the template at offset {at:#x}: the binary field {name:?} has no length, so what follows it cannot be decoded"
            ));
        }
        let whole = sized_part(whole);
        Ok(Template {
            fields: whole.fields,
            top_level: whole.top_level,
            incomplete: whole.incomplete,
            is_reported: false,
        })
    }

    /// A field; the inner error says why it cannot be decoded.
    fn property(
        &mut self,
        at: usize,
        number: usize,
        maps: &HashMap<usize, Arc<Map>>,
    ) -> Result<Result<Field, String>, WevtError> {
        let flags = self.u32(at)?;
        let map = self.u32(at + 8)? as usize;
        let (count, length) = (self.u16(at + 12)?, self.u16(at + 14)?);
        let name = self.u32(at + 16)?;
        let name = self.name(name)?.unwrap_or_else(|| format!("Property{number}"));
        let mut field = Field::new(name, Wire::Nothing, Show::Plain);
        field.count = match flags {
            _ if flags & property::COUNT_OF_FIELD != 0 => Count::Field(count.into()),
            _ if flags & property::FIXED_COUNT != 0 && count > 1 => Count::Fixed(count),
            _ => Count::One,
        };
        if flags & property::STRUCT != 0 {
            let (first, count) = (self.u16(at + 4)?.into(), self.u16(at + 6)?.into());
            field.kind = Kind::Struct { first, count };
            return Ok(Ok(field));
        }
        let in_type = InType(self.u8(at + 4)?.into());
        let out_type = OutType(self.u8(at + 5)?.into());
        let Some(wire) = in_type.wire() else {
            return Ok(Err(format!("{:?} has the unknown in-type {}", field.name, in_type.0)));
        };
        field.kind = Kind::Scalar { wire, show: in_type.show(out_type) };
        field.types = (in_type, out_type);
        if matches!(wire, Wire::Utf16 | Wire::Ansi | Wire::Binary) {
            field.length = match flags {
                _ if flags & property::LENGTH_OF_FIELD != 0 => Length::Field(length.into()),
                _ if flags & property::FIXED_LENGTH != 0 => Length::Fixed(length),
                _ => Length::Own,
            };
        }
        field.map = maps.get(&map).filter(|_| map != 0).cloned();
        Ok(Ok(field))
    }

    fn event(
        &mut self,
        at: usize,
        known: &mut Known,
        provider: &mut ManifestProvider,
    ) -> Result<(), WevtError> {
        let descriptor = EventDescriptor::read(self.blob, at).ok_or(bad(at, "an event"))?;
        let (id, version) = (descriptor.id, descriptor.version);
        let (message, template) = (self.u32(at + 16)?, self.u32(at + 20)? as usize);
        let [opcode, level, task] = [self.u32(at + 24)?, self.u32(at + 28)?, self.u32(at + 32)?]
            .map(|offset| known.names.get(&(offset as usize)).cloned());
        let (keyword_count, list) = (self.u32(at + 36)? as usize, self.u32(at + 40)? as usize);
        let mut first_use = None;
        self.need_template(template, known)?;
        let (fields, top_level, incomplete) = match known.templates.get_mut(&template) {
            None => (Vec::new(), 0, None),
            Some(known) => {
                if !std::mem::replace(&mut known.is_reported, true) {
                    first_use.clone_from(&known.incomplete);
                }
                (known.fields.clone(), known.top_level, known.incomplete.clone())
            }
        };
        if let Some(what) = first_use {
            self.warn(&format!(
                "the template of event {id} version {version} is cut behind {top_level} fields: {what}"
            ));
        }
        self.charge(fields.len())?;
        let keywords = (0..keyword_count.min(64)).filter_map(|number| {
            let offset = le::u32(self.blob, list + number * 4)?;
            known.names.get(&(offset as usize)).cloned()
        });
        let mut names = Names {
            provider: Some(provider.name.clone()),
            event: known.events.get(&(id, version)).cloned(),
            level,
            channel: known.channels.get(&descriptor.channel.0).cloned(),
            task,
            opcode,
            keywords: keywords.collect(),
        };
        names.resolve_event();
        let mut schema = Schema::new(names, fields, top_level);
        schema.descriptor = Some(descriptor);
        schema.incomplete = incomplete.map(String::into_boxed_str);
        schema.message = self.messages.get(message).map(Message::parse);
        schema.language = match self.messages.language(message) {
            Some(language) if self.language.as_deref() != Some(language) => Some(language.into()),
            _ => self.language.clone(),
        };
        self.charge_bytes(schema.size())?;
        provider.events.entry((id, version)).or_insert(schema);
        Ok(())
    }
}
