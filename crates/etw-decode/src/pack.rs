//! Schema packs: what describes events, gathered into one file.
//!
//! ```text
//! "ETWPACK1"   u64 offset of the index   u64 size of the index
//! data: each source once, deflated
//! index: u32 entries, each
//!   u8 kind   u64 offset   u64 stored size   u64 size   [32] SHA-256 of the source   u16 name size, name (UTF-8)
//!   u32 GUIDs, each 16 bytes: providers, classes or messages that it describes
//!   behind the entries: u32 names of providers, each its GUID, u16 size, name (UTF-8); packs of earlier versions end without them
//! kinds: 1 manifest (XML)   2 PE file's WEVT_TEMPLATE and message tables   3 TMF   4 MOF   5 schemas of a trace
//!   6 a program's TraceLogging metadata   7 the Windows that the sources are of
//! kinds 2 and 5: parts, each u8 kind, u32 size, bytes
//! ```
//!
//! A source is named by what it contains: the same one twice is kept once. Opening reads the index alone; a source is read when an event of
//! one of its GUIDs comes, and its hash is checked then. The names in the index find a provider without reading the sources.

mod contents;
mod program;
mod windows;

pub use contents::{EventContents, ProviderContents};
pub use program::ProgramSources;
pub use windows::WindowsVersion;

use crate::event_info::{EventInfo, map};
use crate::parsed::Parsed;
use crate::provider::{KeywordName, Manifest, ManifestProvider, ProviderDescription};
use crate::schema::Schema;
use crate::schemas::{DescribedEvent, Schemas};
use crate::store::part;
use crate::tracelogging::program::ProgramMetadata;
use crate::wevt::{self, Messages};
use crate::{manifest, mof, wpp};
use etw_types::{EVENT_INFO, Guid, MAP_INFO, SchemaBlob, SchemaRecordRef, le};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::io::{Read, Write};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

const MAGIC: &[u8; 8] = b"ETWPACK1";
/// A source, inflated.
const SOURCE_LIMIT: u64 = 256 << 20;
/// Characters of a provider's name in an index.
const NAME_LIMIT: usize = 250;
/// Entries and GUIDs of an index.
const INDEX_LIMIT: usize = 64 << 20;

/// The kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum SourceKind {
    Manifest,
    Compiled,
    Tmf,
    Mof,
    Trace,
    TraceLogging,
    Windows,
}

impl SourceKind {
    fn number(self) -> u8 {
        match self {
            SourceKind::Manifest => 1,
            SourceKind::Compiled => 2,
            SourceKind::Tmf => 3,
            SourceKind::Mof => 4,
            SourceKind::Trace => 5,
            SourceKind::TraceLogging => 6,
            SourceKind::Windows => 7,
        }
    }

    fn of(number: u8) -> Option<SourceKind> {
        use SourceKind::{Compiled, Manifest, Mof, Tmf, Trace, TraceLogging, Windows};
        let kinds = [Manifest, Compiled, Tmf, Mof, Trace, TraceLogging, Windows];
        kinds.into_iter().find(|kind| kind.number() == number)
    }

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            SourceKind::Manifest => "manifest",
            SourceKind::Compiled => "compiled manifest",
            SourceKind::Tmf => "TMF",
            SourceKind::Mof => "MOF",
            SourceKind::Trace => "trace",
            SourceKind::TraceLogging => "TraceLogging",
            SourceKind::Windows => "Windows",
        }
    }
}

/// Why a file is not a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PackError {
    /// It does not begin with the signature of a pack.
    NotAPack,
    /// Cut, or its index refers beyond its end.
    Bad {
        /// The offset in the file.
        offset: u64,
    },
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PackError::NotAPack => f.write_str("not a schema pack"),
            PackError::Bad { offset } => {
                write!(f, "a damaged schema pack: bad at offset {offset:#x}")
            }
        }
    }
}

impl std::error::Error for PackError {}

/// A source as a pack keeps it.
#[derive(Clone, Debug)]
struct Source {
    kind: SourceKind,
    hash: [u8; 32],
    deflated: Vec<u8>,
    /// Bytes of the source itself.
    size: usize,
    guids: BTreeSet<Guid>,
    /// Names of those that are providers.
    names: BTreeMap<Guid, String>,
}

impl Source {
    fn new(kind: SourceKind, source: &[u8], guids: BTreeSet<Guid>) -> Source {
        let hash = Sha256::new().chain_update([kind.number()]).chain_update(source).finalize();
        let mut deflated =
            flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(6));
        // Into memory: it cannot fail.
        let _ = deflated.write_all(source);
        let deflated = deflated.finish().unwrap_or_default();
        let schemas = schemas_of(kind, source);
        let name = |guid: &Guid| Some((*guid, schemas.provider_name(guid)?.to_owned()));
        let names = guids.iter().filter_map(name).collect();
        Source { kind, hash: hash.into(), deflated, size: source.len(), guids, names }
    }
}

/// Sources to be written.
#[derive(Debug, Default)]
pub struct PackBuilder {
    /// Name and source, by its hash.
    sources: BTreeMap<[u8; 32], (String, Source)>,
}

impl PackBuilder {
    /// Adds a source: a manifest in XML, a PE file with a compiled manifest or TraceLogging metadata, an ELF file with schemas, a TMF or MOF
    /// file, or a further pack; gives warnings.
    ///
    /// # Errors
    /// It is none of these, or describes nothing.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Result<Vec<String>, String> {
        if bytes.starts_with(MAGIC) {
            let pack = Pack::open(bytes.into()).map_err(|error| error.to_string())?;
            for entry in &pack.entries {
                let source = pack.source(entry).ok_or("a damaged source in the pack")?;
                self.put(entry.kind, &entry.name, source, entry.guids.iter().copied().collect());
            }
            return Ok(Vec::new());
        }
        if is_elf(bytes) {
            let (joined, guids) = carried(bytes);
            if guids.is_empty() {
                return Err(manifest::ManifestError::NoCarriedSchemas.to_string());
            }
            self.put(SourceKind::Trace, name, joined, guids);
            return Ok(Vec::new());
        }
        if bytes.starts_with(b"MZ") || wevt::is_bare(bytes) {
            return self.add_compiled(name, bytes, &[]);
        }
        let lower = name.to_ascii_lowercase();
        if lower.ends_with(".tmf") {
            let Parsed { value: messages, warnings } = wpp::parse_tmf(&wpp::text_of(bytes));
            if messages.is_empty() {
                return Err("no messages in it".to_owned());
            }
            let guids = messages.iter().map(|message| message.guid).collect();
            self.put(SourceKind::Tmf, name, bytes.to_vec(), guids);
            return Ok(warnings);
        }
        if lower.ends_with(".mof") || mof::is_binary(bytes) {
            let Parsed { value: events, warnings } = mof::parse(bytes);
            if events.is_empty() {
                return Err("no classes of events in it".to_owned());
            }
            let guids = events.iter().map(|event| event.class).collect();
            self.put(SourceKind::Mof, name, bytes.to_vec(), guids);
            return Ok(warnings);
        }
        let parsed = manifest::parse(bytes).map_err(|error| error.to_string())?;
        let guids = parsed
            .providers
            .iter()
            .flat_map(|provider| [Some(provider.guid), provider.control_guid]);
        self.put(SourceKind::Manifest, name, bytes.to_vec(), guids.flatten().collect());
        Ok(parsed.warnings)
    }

    /// Adds a PE file or a bare WEVT_TEMPLATE, as [`ProgramSources::read`] reads them. Returns warnings.
    ///
    /// # Errors
    /// It describes no events, or has a damaged manifest.
    pub fn add_compiled(
        &mut self,
        name: &str,
        bytes: &[u8],
        texts: &[Vec<u8>],
    ) -> Result<Vec<String>, String> {
        let program =
            ProgramSources::read(bytes, texts, None).map_err(|error| error.to_string())?;
        let warnings = program.warnings().to_vec();
        self.add_program(name, program);
        Ok(warnings)
    }

    /// Adds the schemas that a trace described.
    pub fn add_trace(&mut self, name: &str, learnt: &crate::Store) {
        for (guid, parts) in learnt.parts() {
            let joined = join(parts.iter().map(|(kind, part)| (*kind, &part[..])));
            self.put(SourceKind::Trace, name, joined, BTreeSet::from([guid]));
        }
    }

    /// Adds the WPP messages of a PDB, as the TMF that it stands for.
    #[cfg(feature = "pdb")]
    pub fn add_pdb(&mut self, name: &str, bytes: &[u8]) -> Result<Vec<String>, String> {
        let Parsed { value: text, warnings } = wpp::pdb::to_tmf(std::io::Cursor::new(bytes))?;
        let mut more = self.add(&format!("{name}.tmf"), text.as_bytes())?;
        more.extend(warnings);
        Ok(more)
    }

    fn put(&mut self, kind: SourceKind, name: &str, source: Vec<u8>, guids: BTreeSet<Guid>) {
        self.put_source(name, Source::new(kind, &source, guids));
    }

    fn put_source(&mut self, name: &str, source: Source) {
        self.sources.entry(source.hash).or_insert_with(|| (name.to_owned(), source));
    }

    /// Sources.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// The names of providers, as the index has them; the first source that names a provider decides.
    fn names(&self) -> Vec<u8> {
        let mut names: BTreeMap<Guid, &str> = BTreeMap::new();
        for (guid, name) in self.sources.values().flat_map(|(_, source)| &source.names) {
            names.entry(*guid).or_insert(name);
        }
        let mut out = (names.len() as u32).to_le_bytes().to_vec();
        for (guid, name) in names {
            let name: String = name.chars().take(NAME_LIMIT).collect();
            out.extend(guid.0);
            out.extend((name.len() as u16).to_le_bytes());
            out.extend(name.as_bytes());
        }
        out
    }

    /// The pack. The same sources give the same bytes.
    pub fn finish(&self) -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        file.extend([0; 16]);
        let mut index = (self.sources.len() as u32).to_le_bytes().to_vec();
        for (hash, (name, Source { kind, deflated, size, guids, .. })) in &self.sources {
            index.push(kind.number());
            for number in [file.len(), deflated.len(), *size] {
                index.extend((number as u64).to_le_bytes());
            }
            index.extend(hash);
            let name = name.get(..name.len().min(1000)).unwrap_or_default();
            index.extend((name.len() as u16).to_le_bytes());
            index.extend(name.as_bytes());
            index.extend((guids.len() as u32).to_le_bytes());
            guids.iter().for_each(|guid| index.extend(guid.0));
            file.extend(deflated);
        }
        index.extend(self.names());
        let at = (file.len() as u64).to_le_bytes();
        file[8..16].copy_from_slice(&at);
        file[16..24].copy_from_slice(&(index.len() as u64).to_le_bytes());
        file.extend(index);
        file
    }
}

fn join<'p>(parts: impl Iterator<Item = (u8, &'p [u8])>) -> Vec<u8> {
    let mut joined = Vec::new();
    for (kind, part) in parts {
        joined.push(kind);
        joined.extend((part.len() as u32).to_le_bytes());
        joined.extend(part);
    }
    joined
}

/// Kind and bytes of each part, as far as they are whole.
fn split(mut joined: &[u8]) -> Vec<(u8, &[u8])> {
    let mut parts = Vec::new();
    while let (Some(kind), Some(size)) = (le::u8(joined, 0), le::u32(joined, 1)) {
        let Some(part) = joined.get(5..5 + size as usize) else { break };
        parts.push((kind, part));
        joined = &joined[5 + size as usize..];
    }
    parts
}

fn compiled(joined: &[u8]) -> Result<Manifest, wevt::WevtError> {
    let parts = split(joined);
    let mut messages = Messages::default();
    let mut language = None;
    for (kind, part) in &parts {
        match *kind {
            wevt::LANGUAGE => language = le::u16(part, 0),
            wevt::MESSAGES => messages.add_table_of(language, part),
            _ => {}
        }
    }
    let templates = parts.iter().filter(|(kind, _)| *kind == wevt::TEMPLATES);
    wevt::parse_all(templates.map(|(_, blob)| *blob), &messages)
}

/// An open pack.
pub struct Pack {
    bytes: Box<[u8]>,
    entries: Vec<Entry>,
    by_guid: HashMap<Guid, Vec<u32>, foldhash::fast::RandomState>,
    /// Names of providers, by GUID; `None` in packs of earlier versions, whose sources have them.
    names: Option<Vec<NamedProvider>>,
    windows: OnceLock<Option<WindowsVersion>>,
}

/// The name of a provider, as a range of the pack's bytes that is valid UTF-8.
struct NamedProvider {
    guid: Guid,
    name: Range<usize>,
}

struct Entry {
    kind: SourceKind,
    name: String,
    offset: usize,
    stored: usize,
    size: u64,
    hash: [u8; 32],
    guids: Vec<Guid>,
    parsed: OnceLock<Schemas>,
}

impl fmt::Debug for Pack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pack").field("sources", &self.entries.len()).finish_non_exhaustive()
    }
}

/// A source of a pack.
#[derive(Clone, Copy, Debug)]
pub struct PackSource<'p> {
    /// Its kind.
    pub kind: SourceKind,
    /// The name of its file.
    pub name: &'p str,
    /// Its size in bytes.
    pub size: u64,
    /// Providers and classes that it describes.
    pub guids: &'p [Guid],
}

impl Pack {
    /// Reads the index.
    ///
    /// # Errors
    /// [`PackError`].
    pub fn open(bytes: Box<[u8]>) -> Result<Pack, PackError> {
        if !bytes.starts_with(MAGIC) {
            return Err(PackError::NotAPack);
        }
        let bad = |offset: usize| PackError::Bad { offset: offset as u64 };
        let (at, size) = (le::u64(&bytes, 8).ok_or(bad(8))?, le::u64(&bytes, 16).ok_or(bad(16))?);
        let at = usize::try_from(at).map_err(|_| bad(8))?;
        let size = usize::try_from(size).ok().filter(|size| *size <= INDEX_LIMIT).ok_or(bad(16))?;
        let index = bytes.get(at..).and_then(|rest| rest.get(..size)).ok_or(bad(8))?;
        let mut pack = Pack {
            bytes: Box::default(),
            entries: Vec::new(),
            by_guid: HashMap::default(),
            names: None,
            windows: OnceLock::new(),
        };
        let mut place = 4;
        for number in 0..le::u32(index, 0).ok_or(bad(at))? {
            let error = bad(at + place);
            let mut take = |count: usize| {
                let part = index.get(place..place.checked_add(count)?)?;
                place += count;
                Some(part)
            };
            let mut entry = || -> Option<Entry> {
                let kind = SourceKind::of(take(1)?[0])?;
                let mut number = || le::u64(take(8)?, 0);
                let (offset, stored, size) = (number()?, number()?, number()?);
                let hash = take(32)?.try_into().ok()?;
                let name = le::u16(take(2)?, 0)?;
                let name = String::from_utf8_lossy(take(name.into())?).into_owned();
                let count = le::u32(take(4)?, 0)? as usize;
                let guids = take(count.checked_mul(16)?)?.chunks_exact(16);
                let guids = guids.filter_map(|guid| Guid::read(guid, 0)).collect();
                let (offset, stored) =
                    (usize::try_from(offset).ok()?, usize::try_from(stored).ok()?);
                bytes.get(offset..offset.checked_add(stored)?)?;
                let parsed = OnceLock::new();
                Some(Entry { kind, name, offset, stored, size, hash, guids, parsed })
            };
            let entry = entry().ok_or(error)?;
            for guid in &entry.guids {
                pack.by_guid.entry(*guid).or_default().push(number);
            }
            pack.entries.push(entry);
        }
        if place < index.len() {
            pack.names = Some(names(index, place, at).ok_or(bad(at + place))?);
        }
        pack.bytes = bytes;
        Ok(pack)
    }

    /// The sources, in their order.
    pub fn sources(&self) -> impl Iterator<Item = PackSource<'_>> {
        self.entries.iter().map(|entry| PackSource {
            kind: entry.kind,
            name: &entry.name,
            size: entry.size,
            guids: &entry.guids,
        })
    }

    /// The source, if its hash is the one that the index has.
    fn source(&self, entry: &Entry) -> Option<Vec<u8>> {
        let stored = self.bytes.get(entry.offset..entry.offset + entry.stored)?;
        if entry.size > SOURCE_LIMIT {
            return None;
        }
        let mut source = Vec::new();
        let mut reader = flate2::read::DeflateDecoder::new(stored).take(entry.size + 1);
        reader.read_to_end(&mut source).ok()?;
        let hash: [u8; 32] = Sha256::new()
            .chain_update([entry.kind.number()])
            .chain_update(&source)
            .finalize()
            .into();
        (hash == entry.hash).then_some(source)
    }

    /// A damaged source describes nothing.
    fn catalog(&self, number: u32) -> &Schemas {
        let entry = &self.entries[number as usize];
        entry.parsed.get_or_init(|| {
            let Some(source) = self.source(entry) else { return Schemas::default() };
            let mut schemas = schemas_of(entry.kind, &source);
            schemas.set_origin(&entry.name);
            schemas
        })
    }

    fn catalogs(&self, guid: &Guid) -> impl Iterator<Item = &Schemas> {
        let numbers = self.by_guid.get(guid).map_or(&[][..], Vec::as_slice);
        numbers.iter().map(|number| self.catalog(*number))
    }

    pub(crate) fn event(&self, provider: Guid, id: u16, version: u8) -> Option<&Arc<Schema>> {
        self.catalogs(&provider).find_map(|catalog| catalog.event(provider, id, version))
    }

    /// All schemas of an event, in the order of the sources.
    pub(crate) fn event_schemas(
        &self,
        provider: Guid,
        id: u16,
        version: u8,
    ) -> impl Iterator<Item = &Arc<Schema>> {
        let numbers = self.by_guid.get(&provider).map_or(&[][..], Vec::as_slice);
        numbers
            .iter()
            .flat_map(move |number| self.catalog(*number).event_schemas(provider, id, version))
    }

    pub(crate) fn class(&self, class: Guid, kind: u8, version: u8) -> Option<&Arc<Schema>> {
        self.catalogs(&class).find_map(|catalog| catalog.class(class, kind, version))
    }

    pub(crate) fn message(&self, guid: Guid, number: u16) -> Option<&Arc<Schema>> {
        self.catalogs(&guid).find_map(|catalog| catalog.message(guid, number))
    }

    pub(crate) fn events_of(&self, provider: &Guid) -> Vec<DescribedEvent> {
        self.catalogs(provider).flat_map(|catalog| catalog.events_of(provider)).collect()
    }

    pub(crate) fn keywords_of(&self, provider: &Guid) -> Vec<KeywordName> {
        self.catalogs(provider).flat_map(|catalog| catalog.keywords_of(provider).to_vec()).collect()
    }

    pub(crate) fn description_of(&self, provider: &Guid) -> Option<&ProviderDescription> {
        self.catalogs(provider).find_map(|catalog| catalog.description_of(provider))
    }

    pub(crate) fn provider_name(&self, provider: &Guid) -> Option<&str> {
        if let Some(names) = &self.names {
            let found = names.binary_search_by_key(provider, |named| named.guid).ok()?;
            return std::str::from_utf8(&self.bytes[names[found].name.clone()]).ok();
        }
        self.catalogs(provider).find_map(|catalog| catalog.provider_name(provider))
    }
}

/// The names behind the entries of an index, sorted; `None` if they do not end with it. `start` is the offset of the index in the pack.
fn names(index: &[u8], offset: usize, start: usize) -> Option<Vec<NamedProvider>> {
    let mut names = Vec::new();
    let mut at = offset + 4;
    for _ in 0..le::u32(index, offset)? {
        let guid = Guid::read(index, at)?;
        let size = usize::from(le::u16(index, at + 16)?);
        let name = at + 18..at + 18 + size;
        std::str::from_utf8(index.get(name.clone())?).ok()?;
        at = name.end;
        names.push(NamedProvider { guid, name: start + name.start..start + name.end });
    }
    // Packs that we write are sorted.
    names.sort_by_key(|named| named.guid);
    (at == index.len()).then_some(names)
}

/// The providers and events of a source; a damaged source has none.
fn schemas_of(kind: SourceKind, source: &[u8]) -> Schemas {
    let mut schemas = Schemas::default();
    match kind {
        SourceKind::Manifest => {
            let parsed = manifest::parse(source).unwrap_or_default();
            parsed.providers.into_iter().for_each(|one| schemas.add_provider(one));
        }
        SourceKind::Compiled => {
            for provider in compiled(source).unwrap_or_default().providers {
                schemas.add_provider(provider);
            }
        }
        SourceKind::Tmf => schemas.add_messages(wpp::parse_tmf(&wpp::text_of(source)).value),
        SourceKind::Mof => drop(schemas.add_mof(source)),
        SourceKind::Trace => add_trace(&mut schemas, source),
        SourceKind::TraceLogging => schemas.add_program(&ProgramMetadata::find(source)),
        SourceKind::Windows => {}
    }
    schemas
}

/// Whether bytes are an ELF file.
pub(crate) fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// Bytes of schemas that one program may carry.
const CARRIED_LIMIT: usize = 16 << 20;

/// The schemas that a program carries ([`SchemaBlob`]), as the source of a trace, and their providers.
fn carried(program: &[u8]) -> (Vec<u8>, BTreeSet<Guid>) {
    let mut guids = BTreeSet::new();
    let mut size = 0;
    let mut parts = Vec::new();
    for blob in SchemaBlob::find(program) {
        guids.insert(blob.provider);
        for SchemaRecordRef { kind, payload } in blob.records() {
            let kind = match kind {
                EVENT_INFO => part::EVENT_INFO,
                MAP_INFO => part::MAP_INFO,
                _ => continue,
            };
            size += payload.len();
            if size <= CARRIED_LIMIT {
                parts.push((kind, payload));
            }
        }
    }
    (join(parts.into_iter()), guids)
}

/// Adds the schemas that a program carries; whether there are any.
pub(crate) fn add_carried(schemas: &mut Schemas, program: &[u8]) -> bool {
    let (joined, guids) = carried(program);
    add_trace(schemas, &joined);
    !guids.is_empty()
}

fn add_trace(catalog: &mut Schemas, joined: &[u8]) {
    let parts = split(joined);
    let maps: HashMap<(Guid, String), Arc<crate::Map>> = parts
        .iter()
        .filter(|(kind, _)| *kind == part::MAP_INFO)
        .filter_map(|(_, part)| map(part))
        .map(|(guid, map)| ((guid, map.name.clone()), Arc::new(map)))
        .collect();
    for (kind, part) in parts {
        match kind {
            part::EVENT_INFO => {
                let Ok(info) = EventInfo::parse(part) else { continue };
                let provider = info.provider();
                let find = |name: &str| maps.get(&(provider, name.to_owned())).cloned();
                if let (Some(key), Ok(schema)) = (info.key(), info.schema(find)) {
                    catalog.add_described(key, schema);
                }
            }
            part::SOURCE_MANIFEST => {
                let Some(guid) = Guid::read(part, 0) else { continue };
                let Ok(parsed) = manifest::parse(&part[16..]) else { continue };
                for provider in parsed.providers {
                    catalog.add_provider(ManifestProvider { guid, ..provider });
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "<m><provider name='Maker' guid='{11111111-2222-3333-4444-555555555555}'>\
        <events><event value='7' symbol='Made'/></events></provider></m>";
    const TMF: &str = "00112233-4455-6677-8899-aabbccddeeff Driver // SRC=a.c\n#typev a_c1 10 \"%0said\" // FUNC=f\n{\n}\n";

    fn pack() -> Vec<u8> {
        let mut builder = PackBuilder::default();
        builder.add("maker.man", MANIFEST.as_bytes()).unwrap();
        builder.add("copy.man", MANIFEST.as_bytes()).unwrap();
        builder.add("a.tmf", TMF.as_bytes()).unwrap();
        assert!(builder.add("x.man", b"no manifest").is_err());
        assert_eq!(builder.len(), 2, "one source is kept once");
        builder.finish()
    }

    #[test]
    fn a_pack_has_the_sources_that_were_put_in() {
        let pack = Pack::open(pack().into()).unwrap();
        let maker: Guid = "11111111-2222-3333-4444-555555555555".parse().unwrap();
        let driver: Guid = "00112233-4455-6677-8899-aabbccddeeff".parse().unwrap();
        assert_eq!(pack.provider_name(&maker), Some("Maker"));
        assert_eq!(pack.event(maker, 7, 0).unwrap().names.event.as_deref(), Some("Made"));
        assert!(pack.event(maker, 8, 0).is_none() && pack.event(driver, 7, 0).is_none());
        assert!(pack.message(driver, 10).is_some());
        let mut again = PackBuilder::default();
        again.add("p.etwpack", &pack.bytes).unwrap();
        assert_eq!(again.finish(), self::pack());
    }

    /// The index names providers, so that a name is found without reading the sources; a pack without names has them in its sources.
    #[test]
    fn a_provider_is_found_by_name_without_reading_sources() {
        let whole = pack();
        let maker: Guid = "11111111-2222-3333-4444-555555555555".parse().unwrap();
        let is_read = |pack: &Pack| pack.entries.iter().any(|entry| entry.parsed.get().is_some());
        let named = Pack::open(whole.clone().into()).unwrap();
        assert_eq!(named.provider_name(&maker), Some("Maker"));
        assert!(!is_read(&named));
        // One name: a count, a GUID, a size and five letters.
        let size = 4 + 16 + 2 + 5;
        let mut earlier = whole[..whole.len() - size].to_vec();
        let index = le::u64(&earlier, 16).unwrap() - size as u64;
        earlier[16..24].copy_from_slice(&index.to_le_bytes());
        let earlier = Pack::open(earlier.into()).unwrap();
        assert!(earlier.names.is_none());
        assert_eq!(earlier.provider_name(&maker), Some("Maker"));
        assert!(is_read(&earlier));
    }

    /// Cut or changed anywhere: an error, or sources that describe nothing.
    #[test]
    fn damaged_packs_give_an_error_or_describe_nothing() {
        let whole = pack();
        for at in 0..whole.len() {
            assert!(Pack::open(whole[..at].into()).is_err());
            let mut changed = whole.clone();
            changed[at] ^= 0x55;
            let Ok(pack) = Pack::open(changed.into()) else { continue };
            for number in 0..pack.entries.len() as u32 {
                assert!(pack.catalog(number).len() <= 1);
            }
        }
    }
}
