//! Compiled manifests: the WEVT_TEMPLATE resource of programs and libraries, and their message tables.
//!
//! ```text
//! "CRIM" u32 size, u16 major, u16 minor, u32 providers, each { GUID, u32 offset of WEVT }
//! "WEVT" u32 size, u32 message, u32 elements, u32 more, each element { u32 offset, u32 } of a block:
//!   "CHAN" "LEVL" "OPCO" "TASK" "KEYW" "MAPS" "EVNT" "TTBL"
//! event, 48 bytes: u16 id, u8 version, channel, level, opcode, u16 task, u64 keywords, u32 message,
//!   u32 offsets of template, opcode, level, task, u32 keywords, u32 offset of theirs, u32
//! "TEMP" u32 size, u32 items, u32 names, u32 offset of the items, u32 kind, GUID, binary XML
//! item, 20 bytes: u32 flags, u8 in-type, u8 out-type (of a struct: first member, members), u16, u32 map, u16 count, u16 length, u32 name
//! ```
//!
//! Offsets count from CRIM; texts are u32 size with itself, UTF-16, NUL. Source: the format as documented by the libfwevt project and
//! Microsoft's manifest schema; flags of items and the bytes of structs are a guess by TRACE_EVENT_INFO, which has the same.

use crate::field::{Count, Field, Kind, Length};
use crate::map::{Map, MapKind};
use crate::message::Message;
use crate::provider::ManifestProvider;
use crate::schema::{Names, Schema};
use etw_tracelogging::tdh::{InType, OutType};
use etw_tracelogging::{Show, Wire};
use etw_types::{Guid, le};
use object::LittleEndian as LE;
use object::read::pe::{ImageNtHeaders, ResourceDirectoryEntryData, ResourceNameOrId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Events, fields and texts of all of a file's providers together; Windows' largest binaries have a tenth of it.
const ITEM_LIMIT: usize = 1 << 20;
/// Bytes of all that is compiled.
const COMPILED_LIMIT: usize = 256 << 20;
/// Bytes of texts.
const TEXT_LIMIT: usize = 64 << 20;
/// No message.
const NONE: u32 = u32::MAX;

/// Why a file has no schemas.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WevtError {
    /// It is no PE file; what its reader says.
    NotPe(String),
    /// It has no WEVT_TEMPLATE resource.
    NoTemplates,
    /// The resource is cut or refers beyond its end.
    Bad {
        /// Bytes from the resource's beginning.
        offset: usize,
        /// What was to be there.
        what: &'static str,
    },
    /// More of it than any program has: blocks that overlap.
    TooMuch,
}

impl fmt::Display for WevtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WevtError::NotPe(what) => write!(f, "neither a manifest nor a PE file: {what}"),
            WevtError::NoTemplates => f.write_str("a PE file without a WEVT_TEMPLATE resource"),
            WevtError::Bad { offset, what } => {
                write!(f, "bad WEVT_TEMPLATE resource at offset {offset:#x}: {what}")
            }
            WevtError::TooMuch => {
                f.write_str("bad WEVT_TEMPLATE resource: its parts overlap without measure")
            }
        }
    }
}

impl std::error::Error for WevtError {}

/// Texts of message tables by number.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    texts: HashMap<u32, String>,
}

impl Messages {
    fn get(&self, id: u32) -> Option<&str> {
        let text = self.texts.get(&id).filter(|_| id != NONE)?.trim_end();
        (!text.is_empty()).then_some(text)
    }

    /// Adds those of a message table resource; what is there stays.
    pub fn add_table(&mut self, table: &[u8]) {
        let blocks = le::u32(table, 0).unwrap_or(0) as usize;
        let mut size = 0;
        for block in 0..blocks.min(table.len() / 12) {
            let at = 4 + block * 12;
            let (Some(low), Some(high), Some(offset)) =
                (le::u32(table, at), le::u32(table, at + 4), le::u32(table, at + 8))
            else {
                return;
            };
            let mut at = offset as usize;
            for id in low..=high {
                let Some(length) =
                    le::u16(table, at).map(usize::from).filter(|length| *length >= 4)
                else {
                    break;
                };
                let Some(bytes) = table.get(at + 4..at + length) else { break };
                let is_wide = le::u16(table, at + 2) == Some(1);
                let text = match is_wide {
                    true => le::utf16_lossy(bytes),
                    false => String::from_utf8_lossy(bytes).into_owned(),
                };
                size += text.len();
                if size > TEXT_LIMIT {
                    return;
                }
                self.texts.entry(id).or_insert_with(|| text.trim_end_matches('\0').to_owned());
                at += length;
            }
        }
    }

    /// Adds the message tables of a PE file: a library or its `.mui`.
    ///
    /// # Errors
    /// `NotPe`.
    pub fn add_pe(&mut self, file: &[u8]) -> Result<(), WevtError> {
        for table in resources(file, &Kinds::Id(11))? {
            self.add_table(table);
        }
        Ok(())
    }
}

enum Kinds {
    Id(u16),
    Name(&'static str),
}

/// The resources of a kind, those in English first.
fn resources<'f>(file: &'f [u8], kind: &Kinds) -> Result<Vec<&'f [u8]>, WevtError> {
    let not_pe = |error: object::Error| WevtError::NotPe(error.to_string());
    match object::FileKind::parse(file).map_err(not_pe)? {
        object::FileKind::Pe32 => of_image::<object::pe::ImageNtHeaders32>(file, kind),
        object::FileKind::Pe64 => of_image::<object::pe::ImageNtHeaders64>(file, kind),
        _ => Err(WevtError::NotPe("another kind of binary".to_owned())),
    }
}

fn of_image<'f, Pe: ImageNtHeaders>(
    file: &'f [u8],
    kind: &Kinds,
) -> Result<Vec<&'f [u8]>, WevtError> {
    let not_pe = |error: object::Error| WevtError::NotPe(error.to_string());
    let image = object::read::pe::PeFile::<Pe>::parse(file).map_err(not_pe)?;
    let sections = image.section_table();
    let Some(directory) =
        image.data_directories().resource_directory(file, &sections).map_err(not_pe)?
    else {
        return Ok(Vec::new());
    };
    let mut found: Vec<(bool, &[u8])> = Vec::new();
    let root = directory.root().map_err(not_pe)?;
    for entry in root.entries {
        let is_kind = match (entry.name_or_id(), kind) {
            (ResourceNameOrId::Id(id), Kinds::Id(wanted)) => id == *wanted,
            (ResourceNameOrId::Name(name), Kinds::Name(wanted)) => {
                name.to_string_lossy(directory).is_ok_and(|name| name.eq_ignore_ascii_case(wanted))
            }
            _ => false,
        };
        // Kind, name, language.
        let (true, Ok(ResourceDirectoryEntryData::Table(names))) = (is_kind, entry.data(directory))
        else {
            continue;
        };
        for name in names.entries {
            let Ok(ResourceDirectoryEntryData::Table(languages)) = name.data(directory) else {
                continue;
            };
            for language in languages.entries {
                let Ok(ResourceDirectoryEntryData::Data(data)) = language.data(directory) else {
                    continue;
                };
                let (at, size) = (data.offset_to_data.get(LE), data.size.get(LE) as usize);
                let bytes = sections.pe_data_at(file, at).and_then(|bytes| bytes.get(..size));
                let is_english = language.name_or_id().id().is_some_and(|id| id & 0x3ff == 9);
                if found.len() < 4096 {
                    found.extend(bytes.map(|bytes| (!is_english, bytes)));
                }
            }
        }
    }
    found.sort_by_key(|(later, _)| *later);
    Ok(found.into_iter().map(|(_, bytes)| bytes).collect())
}

/// The providers of a PE file; `messages`: texts of other files, used where its own has none.
///
/// # Errors
/// [`WevtError`].
pub fn parse_pe(file: &[u8], messages: &Messages) -> Result<Vec<ManifestProvider>, WevtError> {
    let mut texts = Messages::default();
    texts.add_pe(file)?;
    for (id, text) in &messages.texts {
        texts.texts.entry(*id).or_insert_with(|| text.clone());
    }
    let mut providers = Vec::new();
    for blob in resources(file, &Kinds::Name("WEVT_TEMPLATE"))? {
        providers.extend(parse(blob, &texts)?);
    }
    if providers.is_empty() { Err(WevtError::NoTemplates) } else { Ok(providers) }
}

/// Kinds of the parts of a PE file that describe events.
pub(crate) const TEMPLATES: u8 = 1;
pub(crate) const MESSAGES: u8 = 2;

/// The resources of a PE file that describe events.
pub(crate) fn parts(file: &[u8]) -> Result<Vec<(u8, Vec<u8>)>, WevtError> {
    let templates = resources(file, &Kinds::Name("WEVT_TEMPLATE"))?;
    if templates.is_empty() {
        return Err(WevtError::NoTemplates);
    }
    let tables = resources(file, &Kinds::Id(11))?;
    let templates = templates.into_iter().map(|blob| (TEMPLATES, blob.to_vec()));
    Ok(templates.chain(tables.into_iter().map(|table| (MESSAGES, table.to_vec()))).collect())
}

/// The providers of a WEVT_TEMPLATE resource.
///
/// # Errors
/// `Bad` and `TooMuch`.
pub fn parse(blob: &[u8], messages: &Messages) -> Result<Vec<ManifestProvider>, WevtError> {
    let mut reader = Reader { blob, messages, items: 0, text: 0 };
    reader.signature(0, b"CRIM")?;
    let count = reader.u32(12)? as usize;
    let mut providers = Vec::new();
    for number in 0..count {
        reader.charge(1)?;
        let at = 16 + number * 20;
        let guid = Guid::read(blob, at).ok_or(reader.bad(at, "a provider"))?;
        let offset = reader.u32(at + 16)? as usize;
        providers.push(reader.provider(guid, offset)?);
    }
    Ok(providers)
}

struct Reader<'b> {
    blob: &'b [u8],
    messages: &'b Messages,
    items: usize,
    text: usize,
}

/// What events of a provider refer to, by offset.
#[derive(Default)]
struct Known {
    names: HashMap<usize, String>,
    channels: HashMap<u32, String>,
    maps: HashMap<usize, Arc<Map>>,
    templates: HashMap<usize, (Vec<Field>, usize)>,
}

impl Reader<'_> {
    fn bad(&self, offset: usize, what: &'static str) -> WevtError {
        WevtError::Bad { offset, what }
    }

    fn u32(&self, at: usize) -> Result<u32, WevtError> {
        le::u32(self.blob, at).ok_or(self.bad(at, "a number"))
    }

    fn u16(&self, at: usize) -> Result<u16, WevtError> {
        le::u16(self.blob, at).ok_or(self.bad(at, "a number"))
    }

    fn u8(&self, at: usize) -> Result<u8, WevtError> {
        le::u8(self.blob, at).ok_or(self.bad(at, "a number"))
    }

    fn charge(&mut self, items: usize) -> Result<(), WevtError> {
        self.items += items;
        if self.items > ITEM_LIMIT { Err(WevtError::TooMuch) } else { Ok(()) }
    }

    fn signature(&self, at: usize, expected: &'static [u8; 4]) -> Result<(), WevtError> {
        match self.blob.get(at..at + 4) {
            Some(found) if found == expected => Ok(()),
            _ => Err(self.bad(at, std::str::from_utf8(expected).unwrap_or("a block"))),
        }
    }

    /// A text with its size before it.
    fn name(&mut self, at: u32) -> Result<Option<String>, WevtError> {
        if at == 0 {
            return Ok(None);
        }
        let at = at as usize;
        let size = self.u32(at)? as usize;
        let bytes = size.checked_sub(4).and_then(|size| self.blob.get(at + 4..at + 4 + size));
        let bytes = bytes.ok_or(self.bad(at, "a text"))?;
        self.text += size;
        if self.text > TEXT_LIMIT {
            return Err(WevtError::TooMuch);
        }
        let text = le::utf16_z(bytes).map_or(bytes, |(text, _)| text);
        Ok(Some(le::utf16_lossy(text)).filter(|text| !text.is_empty()))
    }

    /// The message, else the name.
    fn shown(&mut self, message: u32, name: u32) -> Result<Option<String>, WevtError> {
        match self.messages.get(message) {
            Some(text) => {
                self.text += text.len();
                Ok(Some(text.to_owned()))
            }
            None => self.name(name),
        }
    }

    fn provider(&mut self, guid: Guid, at: usize) -> Result<ManifestProvider, WevtError> {
        self.signature(at, b"WEVT")?;
        let message = self.u32(at + 8)?;
        let count = self.u32(at + 12)? as usize;
        let mut blocks = Vec::new();
        for number in 0..count {
            self.charge(1)?;
            let block = self.u32(at + 20 + number * 8)? as usize;
            let kind = self.blob.get(block..block + 4).ok_or(self.bad(block, "a block"))?;
            blocks.push((kind, block));
        }
        let mut known = Known::default();
        let mut provider = ManifestProvider { guid, ..ManifestProvider::default() };
        provider.name = self.messages.get(message).map_or_else(|| guid.to_string(), str::to_owned);
        for &(kind, block) in &blocks {
            let count = self.u32(block + 8)? as usize;
            match kind {
                b"CHAN" => self.channels(block, count, &mut known)?,
                b"LEVL" | b"OPCO" => {
                    for number in 0..count {
                        self.charge(1)?;
                        let at = block + 12 + number * 12;
                        let (message, name) = (self.u32(at + 4)?, self.u32(at + 8)?);
                        known.names.extend(self.shown(message, name)?.map(|name| (at, name)));
                    }
                }
                b"TASK" => {
                    for number in 0..count {
                        self.charge(1)?;
                        let at = block + 12 + number * 28;
                        let (message, name) = (self.u32(at + 4)?, self.u32(at + 24)?);
                        known.names.extend(self.shown(message, name)?.map(|name| (at, name)));
                    }
                }
                b"KEYW" => {
                    for number in 0..count {
                        self.charge(1)?;
                        let at = block + 12 + number * 16;
                        let mask = le::u64(self.blob, at).ok_or(self.bad(at, "a mask"))?;
                        let (message, name) = (self.u32(at + 8)?, self.u32(at + 12)?);
                        if let Some(name) = self.shown(message, name)? {
                            provider.keywords.push((mask, name.clone()));
                            known.names.insert(at, name);
                        }
                    }
                }
                b"MAPS" => self.maps(block, count, &mut known)?,
                _ => {}
            }
        }
        // Templates name maps, and events templates.
        for &(kind, block) in &blocks {
            if kind == b"TTBL" {
                let count = self.u32(block + 8)? as usize;
                let mut at = block + 12;
                for _ in 0..count {
                    self.charge(1)?;
                    let size = self.u32(at + 4)? as usize;
                    if let Some(template) = self.template(at, &known)? {
                        known.templates.insert(at, template);
                    }
                    at += size.max(8);
                }
            }
        }
        for &(kind, block) in &blocks {
            if kind == b"EVNT" {
                for number in 0..self.u32(block + 8)? as usize {
                    self.charge(1)?;
                    self.event(block + 16 + number * 48, &known, &mut provider)?;
                }
            }
        }
        Ok(provider)
    }

    fn channels(&mut self, block: usize, count: usize, known: &mut Known) -> Result<(), WevtError> {
        for number in 0..count {
            self.charge(1)?;
            let at = block + 12 + number * 16;
            let (id, name) = (self.u32(at)?, self.u32(at + 4)?);
            known.channels.extend(self.name(name)?.map(|name| (id, name)));
        }
        Ok(())
    }

    /// The first map stands behind the offsets of the others.
    fn maps(&mut self, block: usize, count: usize, known: &mut Known) -> Result<(), WevtError> {
        for number in 0..count {
            let at = match number {
                0 => block + 12 + (count - 1) * 4,
                _ => self.u32(block + 12 + (number - 1) * 4)? as usize,
            };
            let kind = match self.blob.get(at..at + 4) {
                Some(b"VMAP") => MapKind::Value,
                Some(b"BMAP") => MapKind::Bits,
                _ => continue,
            };
            let name = self.u32(at + 8)?;
            let name = self.name(name)?.unwrap_or_default();
            let mut entries = Vec::new();
            for entry in 0..self.u32(at + 12)? as usize {
                self.charge(1)?;
                let at = at + 16 + entry * 8;
                let (value, message) = (self.u32(at)?, self.u32(at + 4)?);
                if let Some(text) = self.messages.get(message) {
                    entries.push((value, text.to_owned()));
                }
            }
            known.maps.insert(at, Arc::new(Map { name, kind, entries }));
        }
        Ok(())
    }

    /// `None` where a type is not known.
    fn template(
        &mut self,
        at: usize,
        known: &Known,
    ) -> Result<Option<(Vec<Field>, usize)>, WevtError> {
        self.signature(at, b"TEMP")?;
        let (count, top_level) = (self.u32(at + 8)? as usize, self.u32(at + 12)? as usize);
        let first = self.u32(at + 16)? as usize;
        if top_level > count {
            return Err(self.bad(at + 12, "fewer names than items"));
        }
        let mut fields = Vec::new();
        for number in 0..count {
            self.charge(1)?;
            let at = first + number * 20;
            let flags = self.u32(at)?;
            let types = (self.u8(at + 4)?, self.u8(at + 5)?);
            let map = self.u32(at + 8)? as usize;
            let (values, length) = (self.u16(at + 12)?, self.u16(at + 14)?);
            let name = self.u32(at + 16)?;
            let name = self.name(name)?.unwrap_or_else(|| format!("Property{number}"));
            let reference = |index: u16| {
                let index = usize::from(index);
                (index < count && index != number).then_some(index).ok_or(self.bad(at, "an item"))
            };
            let mut field = Field::new(name, Wire::Nothing, Show::Plain);
            field.count = match flags {
                flags if flags & 4 != 0 => Count::Field(reference(values)?),
                _ if flags & 0x20 != 0 || values > 1 => Count::Fixed(values),
                _ => Count::One,
            };
            if flags & 1 != 0 {
                let (first, members) = (usize::from(types.0), usize::from(types.1));
                if first <= number || first + members > count {
                    return Err(self.bad(at + 4, "members of a struct"));
                }
                field.kind = Kind::Struct { first, count: members };
                fields.push(field);
                continue;
            }
            let (in_type, out_type) = (InType(u16::from(types.0)), OutType(u16::from(types.1)));
            let Some(wire) = in_type.wire() else { return Ok(None) };
            field.kind = Kind::Scalar { wire, show: in_type.show(out_type) };
            field.types = (in_type, out_type);
            if matches!(wire, Wire::Utf16 | Wire::Ansi | Wire::Binary) {
                if flags & 2 != 0 {
                    field.length = Length::Field(reference(length)?);
                } else if length > 0 {
                    field.length = Length::Fixed(length);
                }
            }
            field.map = known.maps.get(&map).filter(|_| map != 0).cloned();
            fields.push(field);
        }
        Ok(Some((fields, top_level)))
    }

    fn event(
        &mut self,
        at: usize,
        known: &Known,
        provider: &mut ManifestProvider,
    ) -> Result<(), WevtError> {
        let (id, version) = (self.u16(at)?, self.u8(at + 2)?);
        let channel = self.u8(at + 3)?;
        let (message, template) = (self.u32(at + 16)?, self.u32(at + 20)? as usize);
        let [opcode, level, task] = [self.u32(at + 24)?, self.u32(at + 28)?, self.u32(at + 32)?]
            .map(|offset| known.names.get(&(offset as usize)).cloned());
        let (keywords, list) = (self.u32(at + 36)? as usize, self.u32(at + 40)? as usize);
        let (fields, top_level) = match template {
            0 => (Vec::new(), 0),
            template => match known.templates.get(&template) {
                Some(template) => template.clone(),
                // A type that nobody knows: the event stays raw.
                None => return Ok(()),
            },
        };
        self.charge(fields.len())?;
        let keywords = (0..keywords.min(64)).filter_map(|number| {
            let offset = le::u32(self.blob, list + number * 4)?;
            known.names.get(&(offset as usize)).cloned()
        });
        let mut names = Names {
            provider: Some(provider.name.clone()),
            event: None,
            level,
            channel: known.channels.get(&u32::from(channel)).cloned(),
            task,
            opcode,
            keywords: keywords.collect(),
        };
        names.resolve_event();
        let mut schema = Schema::new(names, fields, top_level);
        self.text += schema.size();
        if let Some(text) = self.messages.get(message) {
            self.text += text.len();
            schema.message = Some(Message::parse(text));
        }
        if self.text > COMPILED_LIMIT {
            return Err(WevtError::TooMuch);
        }
        provider.events.entry((id, version)).or_insert(schema);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
