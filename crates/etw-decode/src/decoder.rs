//! Which schema a record has.

use crate::catalog::Catalog;
use crate::event_info::{self, EventInfo, EventInfoError, EventKey};
use crate::event_trace;
use crate::eventsource;
use crate::kernel;
use crate::schema::{Field, Names, Schema};
use crate::store::{MAP_INFO, Store};
use crate::tracelogging::{self, SchemaError};
use crate::value::{Style, Value};
use crate::walk::{PayloadError, Visitor, walk};
use etw_tracelogging::ProviderTraits;
use etw_tracelogging::{Show, Wire};
use etw_types::{
    Channel, EVENT_TRACE, EventFlags, EventProperty, EventRecord, ExtType, Guid, HeaderType,
};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Where a record's schema came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// Known of the EventTrace group.
    Header,
    /// The event's own metadata.
    TraceLogging,
    /// A TRACE_EVENT_INFO in the trace.
    EventInfo,
    /// A manifest that the user named.
    Manifest,
    /// A manifest that an EventSource wrote into the trace.
    EventSource,
    /// The table of the kernel's classes.
    Kernel,
    /// A MOF class that the user named.
    Mof,
    /// The format of a WPP message.
    Wpp,
    /// The payload is one string.
    String,
}

impl Source {
    /// The value of `decoded` in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Source::Header => "header",
            Source::TraceLogging => "tracelogging",
            Source::EventInfo => "event_info",
            Source::Manifest => "manifest",
            Source::EventSource => "eventsource",
            Source::Kernel => "kernel",
            Source::Mof => "mof",
            Source::Wpp => "wpp",
            Source::String => "string",
        }
    }
}

/// Why a record is not decoded, and what would help. The texts of variants without a cause are stable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// An event of `EventWrite` without a schema.
    NoManifest,
    /// An event that its provider's manifest does not have.
    NotInManifest,
    /// An event on the TraceLogging channel without its metadata.
    NoMetadata,
    /// A WPP message.
    NoMessageFormat,
    /// A WPP message that is in none of so many formats.
    NotInFormats(usize),
    /// A kernel record.
    NoKernelClass,
    /// A kernel record of a group that no source names.
    UnknownGroup,
    /// A classic event.
    NoClass,
    /// A record that stands for one that could not be written.
    ErrorRecord,
    /// An obsolete record.
    Wnode,
    /// The event's own metadata is bad.
    TraceLogging(SchemaError),
    /// The TRACE_EVENT_INFO in the trace is bad.
    EventInfo(EventInfoError),
    /// The payload does not fit the schema.
    Payload(PayloadError),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoManifest => f.write_str("no schema: the provider's manifest is needed"),
            Reason::NotInManifest => f.write_str(
                "no schema: the provider's manifest has no event of this id and version",
            ),
            Reason::NoMetadata => {
                f.write_str("no schema: a TraceLogging event without its metadata")
            }
            Reason::NoMessageFormat => {
                f.write_str("no schema: the TMF of this WPP message is needed")
            }
            Reason::NotInFormats(count) => write!(
                f,
                "no schema: the TMF of this WPP message is needed; it is not among the {count} messages of those given"
            ),
            Reason::NoKernelClass => f.write_str("no schema: kernel class not known"),
            Reason::UnknownGroup => f.write_str("no schema: unknown kernel event group"),
            Reason::NoClass => f.write_str("no schema: the MOF class of this GUID is needed"),
            Reason::ErrorRecord => f.write_str("error record: an event could not be written"),
            Reason::Wnode => f.write_str("obsolete WNODE record"),
            Reason::TraceLogging(error) => write!(f, "bad TraceLogging metadata: {error}"),
            Reason::EventInfo(error) => write!(f, "bad TRACE_EVENT_INFO: {error}"),
            Reason::Payload(error) => write!(f, "payload does not fit the schema: {error}"),
        }
    }
}

impl std::error::Error for Reason {}

/// Bytes of compiled schemas that are kept, of either source; past this they are compiled again.
const CACHE_LIMIT: usize = 8 << 20;

/// Finds schemas, learning them from the records that describe others.
///
/// What a record decodes to depends on the records given before it, in their order, and on nothing else: two decoders
/// that begin with equal stores and are given the same records agree.
pub struct Decoder {
    store: Arc<Store>,
    named: Arc<Catalog>,
    own: Arc<Catalog>,
    learning: bool,
    tracelogging: HashMap<Box<[u8]>, Result<Schema, SchemaError>, foldhash::fast::RandomState>,
    tracelogging_size: usize,
    described: HashMap<EventKey, Described, foldhash::fast::RandomState>,
    described_size: usize,
    event_trace: HashMap<(u8, usize, u8), Option<Schema>, foldhash::fast::RandomState>,
}

struct Described {
    blob: Arc<[u8]>,
    map_generation: u64,
    has_maps: bool,
    schema: Result<Schema, EventInfoError>,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

impl Decoder {
    /// Knows nothing of the trace yet.
    pub fn new() -> Decoder {
        Decoder::with_store(Arc::default())
    }

    /// Begins with what was learnt elsewhere.
    pub fn with_store(store: Arc<Store>) -> Decoder {
        Decoder {
            store,
            named: Arc::default(),
            own: Arc::default(),
            learning: true,
            tracelogging: HashMap::default(),
            tracelogging_size: 0,
            described: HashMap::default(),
            described_size: 0,
            event_trace: HashMap::default(),
        }
    }

    /// Replaces what was learnt from the trace.
    pub fn set_store(&mut self, store: Arc<Store>) {
        self.store = store;
    }

    /// Schemas that the user named: they go before what the trace says of its events, but for TraceLogging.
    pub fn set_catalog(&mut self, named: Arc<Catalog>) {
        self.named = named;
    }

    /// Schemas that the user keeps: for what the trace says nothing of.
    pub fn set_own_catalog(&mut self, own: Arc<Catalog>) {
        self.own = own;
    }

    /// Whether [`decode`](Decoder::decode) learns from the records it is given; it does unless told otherwise.
    pub fn set_learning(&mut self, learning: bool) {
        self.learning = learning;
    }

    /// What was learnt so far.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Finds the record's schema.
    pub fn decode<'d>(&'d mut self, record: &EventRecord<'d>) -> Decoded<'d> {
        match record.header {
            HeaderType::Event32 | HeaderType::Event64 => self.event(record),
            HeaderType::Message => self.message(record),
            HeaderType::Error => Decoded::undecoded(Reason::ErrorRecord),
            HeaderType::Wnode => Decoded::undecoded(Reason::Wnode),
            header if header.is_classic() => self.classic(record),
            _ => match record.hook {
                Some(hook) if hook.group() == 0 => {
                    self.event_trace(hook.kind(), record, Reason::NoKernelClass)
                }
                Some(hook) => match hook.class_guid() {
                    Some(class) => self.class(class, hook.kind(), record, Reason::NoKernelClass),
                    None => Decoded::undecoded(Reason::UnknownGroup),
                },
                None => Decoded::undecoded(Reason::NoKernelClass),
            },
        }
    }

    /// Finds the record's schema and joins the two, for [typed access](crate::Event::get) to fields.
    pub fn decode_event<'d>(&'d mut self, record: &EventRecord<'d>) -> crate::Event<'d> {
        crate::Event::new(*record, self.decode(record))
    }

    fn message<'d>(&'d self, record: &EventRecord<'d>) -> Decoded<'d> {
        let guid = record.provider.unwrap_or_default();
        let catalogs = [&self.named, &self.own];
        let found = catalogs.iter().find_map(|catalog| catalog.message(guid, record.descriptor.id));
        let count = || catalogs.iter().map(|catalog| catalog.message_count()).sum();
        match (found, count()) {
            (Some(schema), _) => Decoded::with(schema, Source::Wpp),
            (None, 0) => Decoded::undecoded(Reason::NoMessageFormat),
            (None, count) => Decoded::undecoded(Reason::NotInFormats(count)),
        }
    }

    fn event<'d>(&'d mut self, record: &EventRecord<'d>) -> Decoded<'d> {
        if record.extended.is_empty() {
            return self.described_event(record, record.provider.unwrap_or_default());
        }
        let traits = record.extended.find(ExtType::PROV_TRAITS);
        let traits = traits.and_then(|blob| ProviderTraits::parse(blob).ok());
        let mut decoded = match record.extended.find(ExtType::EVENT_SCHEMA_TL) {
            Some(blob) => self.self_described(blob),
            None => {
                let decode_guid = traits.and_then(|traits| traits.decode_guid());
                self.described_event(record, decode_guid.or(record.provider).unwrap_or_default())
            }
        };
        decoded.traits = traits;
        decoded
    }

    fn self_described<'d>(&'d mut self, blob: &'d [u8]) -> Decoded<'d> {
        if self.tracelogging_size > CACHE_LIMIT {
            self.tracelogging.clear();
            self.tracelogging_size = 0;
        }
        if !self.tracelogging.contains_key(blob) {
            let schema = tracelogging::schema(blob);
            self.tracelogging_size += blob.len() + schema.as_ref().map_or(64, Schema::size);
            self.tracelogging.insert(blob.into(), schema);
        }
        match &self.tracelogging[blob] {
            Ok(schema) => Decoded::with(schema, Source::TraceLogging),
            Err(error) => Decoded::undecoded(Reason::TraceLogging(error.clone())),
        }
    }

    fn described_event<'d>(&'d mut self, record: &EventRecord<'d>, provider: Guid) -> Decoded<'d> {
        let descriptor = &record.descriptor;
        let (id, version) = (descriptor.id, descriptor.version);
        // What changes the decoder comes first.
        let is_manifest = eventsource::is_manifest(record);
        if is_manifest && self.learning {
            Arc::make_mut(&mut self.store).learn(record);
        }
        let key = EventKey::Event(provider, id, version);
        let is_named = self.named.event(provider, id, version).is_some();
        let is_described = !is_named && !self.store.is_empty() && self.compile(&key);
        if let Some(schema) = self.named.event(provider, id, version) {
            return Decoded::with(schema, Source::Manifest);
        }
        if is_described {
            return self.described(&key);
        }
        let source = self.store.source(&provider);
        if is_manifest {
            let mut decoded = Decoded::with(eventsource::chunk_schema(), Source::EventSource);
            decoded.provider_name = source.and_then(|source| source.provider_name(&provider));
            return decoded;
        }
        if let Some(schema) = source.and_then(|source| source.event(provider, id, version)) {
            return Decoded::with(schema, Source::EventSource);
        }
        if let Some(schema) = self.own.event(provider, id, version) {
            return Decoded::with(schema, Source::Manifest);
        }
        if is_string_event(record) {
            return Decoded::with(string_schema(), Source::String);
        }
        let name = [Some(&*self.named), source, Some(&*self.own)]
            .into_iter()
            .flatten()
            .find_map(|catalog| catalog.provider_name(&provider));
        let channel = descriptor.channel == Channel::TRACE_LOGGING && descriptor.id == 0;
        let reason = match (channel, name) {
            (true, _) => Reason::NoMetadata,
            (false, Some(_)) => Reason::NotInManifest,
            (false, None) => Reason::NoManifest,
        };
        Decoded { provider_name: name, ..Decoded::undecoded(reason) }
    }

    fn classic<'d>(&'d mut self, record: &EventRecord<'d>) -> Decoded<'d> {
        let Some(class) = record.provider else { return Decoded::undecoded(Reason::NoClass) };
        let (kind, version) = (record.descriptor.opcode.0, record.descriptor.version);
        if class == EVENT_TRACE {
            return self.event_trace(kind, record, Reason::NoClass);
        }
        if Store::is_metadata_record(record) {
            if self.learning {
                Arc::make_mut(&mut self.store).learn(record);
            }
            return schema_record(record);
        }
        let is_named = self.named.class(class, kind, version).is_some();
        if !is_named && !self.store.is_empty() {
            let key = EventKey::Classic(class, kind, version);
            if self.compile(&key) {
                return self.described(&key);
            }
        }
        let mut decoded = self.class(class, kind, record, Reason::NoClass);
        decoded.pointer_size = decoded.schema.and_then(|schema| pointer_size(schema, record));
        decoded
    }

    /// A class that the user named, that the table knows, or that the user keeps.
    fn class<'d>(
        &'d self,
        class: Guid,
        kind: u8,
        record: &EventRecord<'d>,
        missing: Reason,
    ) -> Decoded<'d> {
        let version = record.descriptor.version;
        if let Some(schema) = self.named.class(class, kind, version) {
            return Decoded::with(schema, Source::Mof);
        }
        // WPP wrote classic events before there were messages: their type is the message's number.
        if let Some(schema) = self.named.message(class, u16::from(kind)) {
            return Decoded::with(schema, Source::Wpp);
        }
        let known = kernel_event(class, kind, version, missing);
        match (&known.schema, self.own.class(class, kind, version)) {
            (None, Some(schema)) => Decoded::with(schema, Source::Mof),
            _ => known,
        }
    }

    /// Brings the compiled schema of a key up to date with the store; whether there is one.
    fn compile(&mut self, key: &EventKey) -> bool {
        let Some(blob) = self.store.event(key) else { return false };
        if let Some(known) = self.described.get(key) {
            let maps_changed = known.has_maps && known.map_generation != self.store.map_generation;
            if Arc::ptr_eq(&known.blob, blob) && !maps_changed {
                return true;
            }
        }
        if self.described_size > CACHE_LIMIT {
            self.described.clear();
            self.described_size = 0;
        }
        let compiled = EventInfo::parse(blob).and_then(|info| {
            let provider = info.provider();
            info.schema(|name| self.store.map(provider, name))
        });
        let has_maps = EventInfo::parse(blob).is_ok_and(|info| info.has_maps());
        self.described_size += compiled.as_ref().map_or(64, Schema::size);
        let described = Described {
            blob: Arc::clone(blob),
            map_generation: self.store.map_generation,
            has_maps,
            schema: compiled,
        };
        self.described.insert(*key, described);
        true
    }

    fn described(&self, key: &EventKey) -> Decoded<'_> {
        let Some(described) = self.described.get(key) else {
            return Decoded::undecoded(Reason::NoManifest);
        };
        match &described.schema {
            Ok(schema) => Decoded {
                event_info: Some(&described.blob),
                ..Decoded::with(schema, Source::EventInfo)
            },
            Err(error) => Decoded::undecoded(Reason::EventInfo(*error)),
        }
    }

    fn event_trace<'d>(
        &'d mut self,
        kind: u8,
        record: &EventRecord<'d>,
        missing: Reason,
    ) -> Decoded<'d> {
        // Few lengths matter; a hostile file must not make an entry for each.
        let length = record.payload.len().min(0x200);
        let schema = self
            .event_trace
            .entry((kind, length, record.pointer_size))
            .or_insert_with(|| event_trace::schema(kind, length, record.pointer_size));
        match schema {
            Some(schema) => Decoded::with(schema, Source::Header),
            None => {
                let mut decoded = Decoded::undecoded(missing);
                decoded.event_name = event_trace::event_name(kind).map(Cow::Borrowed);
                decoded
            }
        }
    }
}

/// A program may log a class as a machine of the other width would, which its flags do not tell: where the payload fits only the other
/// width, to the last byte, that is it.
fn pointer_size(schema: &Schema, record: &EventRecord<'_>) -> Option<u8> {
    let fits = |size| {
        walk(schema, record.payload, size, &mut ()).is_ok_and(|taken| taken == record.payload.len())
    };
    let other = if record.pointer_size == 4 { 8 } else { 4 };
    (!fits(record.pointer_size) && fits(other)).then_some(other)
}

/// An event of a class that the table knows.
fn kernel_event<'d>(class: Guid, kind: u8, version: u8, missing: Reason) -> Decoded<'d> {
    match kernel::event(class, kind, version) {
        Some(event) => match &event.schema {
            Some(schema) => Decoded::with(schema, Source::Kernel),
            None => Decoded {
                event_name: Some(Cow::Borrowed(&event.name)),
                ..Decoded::undecoded(missing)
            },
        },
        None => Decoded {
            event_name: kernel::name(class, kind).map(Cow::Borrowed),
            ..Decoded::undecoded(missing)
        },
    }
}

/// An EventMetadata record: named like the event or map that it describes.
fn schema_record<'d>(record: &EventRecord<'d>) -> Decoded<'d> {
    static EVENT_INFO_RECORD: OnceLock<Schema> = OnceLock::new();
    static MAP_INFO_RECORD: OnceLock<Schema> = OnceLock::new();
    if record.descriptor.opcode.0 == MAP_INFO {
        let schema = MAP_INFO_RECORD.get_or_init(event_info::map_info_record);
        let mut decoded = Decoded::with(schema, Source::EventInfo);
        decoded.event_name = event_info::map(record.payload).map(|(_, map)| Cow::Owned(map.name));
        return decoded;
    }
    match EventInfo::parse(record.payload) {
        Ok(info) => {
            let schema = EVENT_INFO_RECORD.get_or_init(event_info::event_info_record);
            let mut decoded = Decoded::with(schema, Source::EventInfo);
            decoded.event_name = info.names().event.map(Cow::Owned);
            decoded
        }
        Err(error) => Decoded::undecoded(Reason::EventInfo(error)),
    }
}

/// Whether `EventWriteString` wrote it: marked so, or all that such an event has is level and keyword and the payload
/// is exactly one string. Windows leaves no mark on disk, so the second is a guess by form.
pub fn is_string_event(record: &EventRecord<'_>) -> bool {
    if !record.header.is_event() {
        return false;
    }
    if record.flags.contains(EventFlags::STRING_ONLY) {
        return true;
    }
    let descriptor = &record.descriptor;
    let bare = descriptor.id == 0
        && descriptor.version == 0
        && descriptor.channel.0 == 0
        && descriptor.opcode.0 == 0
        && descriptor.task == 0;
    let payload = record.payload;
    let one_string = payload.len() >= 2
        && payload.len().is_multiple_of(2)
        && etw_types::le::utf16_z(payload).is_some_and(|(_, taken)| taken == payload.len());
    if bare && record.property.contains(EventProperty::LEGACY_EVENTLOG) {
        return one_string;
    }
    let text = &payload[..payload.len().saturating_sub(2)];
    let printable = || {
        char::decode_utf16(text.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])))
            .all(|unit| unit.is_ok_and(|c| !c.is_control() || c.is_whitespace()))
    };
    bare && one_string && printable()
}

fn string_schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let names = Names { event: Some("EventWriteString".into()), ..Names::default() };
        Schema::new(names, vec![Field::new("Message", Wire::Utf16, Show::Plain)], 1)
    })
}

/// A record's schema, or the reason why it has none.
pub struct Decoded<'d> {
    schema: Option<&'d Schema>,
    source: Option<Source>,
    reason: Option<Reason>,
    traits: Option<ProviderTraits<'d>>,
    event_name: Option<Cow<'d, str>>,
    /// Known though the event's schema does not tell it.
    provider_name: Option<&'d str>,
    /// Other than the record's.
    pointer_size: Option<u8>,
    event_info: Option<&'d [u8]>,
}

impl<'d> Decoded<'d> {
    fn with(schema: &'d Schema, source: Source) -> Decoded<'d> {
        Decoded {
            schema: Some(schema),
            source: Some(source),
            reason: None,
            traits: None,
            event_name: None,
            provider_name: None,
            pointer_size: None,
            event_info: None,
        }
    }

    fn undecoded(reason: Reason) -> Decoded<'d> {
        Decoded {
            schema: None,
            source: None,
            reason: Some(reason),
            traits: None,
            event_name: None,
            provider_name: None,
            pointer_size: None,
            event_info: None,
        }
    }

    /// The schema.
    pub fn schema(&self) -> Option<&'d Schema> {
        self.schema
    }

    /// Where the schema came from.
    pub fn source(&self) -> Option<Source> {
        self.source
    }

    /// The TRACE_EVENT_INFO of the trace that the schema comes from.
    pub fn event_info(&self) -> Option<&'d [u8]> {
        self.event_info
    }

    /// The width of the record's pointers: its header's, unless its payload has the other.
    pub fn pointer_size(&self, record: &EventRecord<'_>) -> u8 {
        self.pointer_size.unwrap_or(record.pointer_size)
    }

    /// Why there is no schema.
    pub fn reason(&self) -> Option<&Reason> {
        self.reason.as_ref()
    }

    /// The provider's name: from the event's traits, else from the schema.
    pub fn provider_name(&self) -> Option<Cow<'d, str>> {
        if let Some(traits) = &self.traits {
            let name = traits.name();
            if !name.is_empty() {
                return Some(String::from_utf8_lossy(name));
            }
        }
        let name = self.schema.and_then(|schema| schema.names.provider.as_deref());
        name.or(self.provider_name).map(Cow::Borrowed)
    }

    /// The provider group in the event's traits.
    pub fn provider_group(&self) -> Option<Guid> {
        self.traits.as_ref()?.group()
    }

    /// The event's name.
    pub fn event_name(&self) -> Option<&str> {
        match &self.event_name {
            Some(name) => Some(name),
            None => self.schema?.names.event.as_deref(),
        }
    }

    /// Tells `visitor` the fields; `Ok(false)` where there is no schema.
    ///
    /// # Errors
    /// The payload does not fit the schema; the fields before have been told.
    pub fn visit(
        &self,
        record: &EventRecord<'_>,
        visitor: &mut impl Visitor,
    ) -> Result<bool, PayloadError> {
        let Some(schema) = self.schema else { return Ok(false) };
        walk(schema, record.payload, self.pointer_size(record), visitor)?;
        Ok(true)
    }

    /// The top-level fields and their texts; arrays and structs in brackets.
    ///
    /// # Errors
    /// As [`visit`](Decoded::visit).
    pub fn fields_text(
        &self,
        record: &EventRecord<'_>,
        style: &Style,
    ) -> Result<Vec<(String, String)>, PayloadError> {
        let mut texts = FieldTexts::new(style);
        self.visit(record, &mut texts)?;
        let names = self.schema.map_or(&[][..], |schema| &schema.fields[..schema.top_level]);
        let pairs = names.iter().enumerate().map(|(number, field)| {
            (field.name.clone(), texts.get(number).unwrap_or_default().into_owned())
        });
        Ok(pairs.collect())
    }

    /// The message with its inserts, where the schema has one and the payload fits it.
    pub fn message(&self, record: &EventRecord<'_>, style: &Style) -> Option<String> {
        let schema = self.schema?;
        if let Some(format) = &schema.wpp {
            let mut text = format.writer(style, record.pointer_size);
            self.visit(record, &mut text).ok()?;
            return Some(text.finish());
        }
        let message = schema.message.as_ref()?;
        let mut texts = FieldTexts::new(style);
        if message.has_inserts() {
            self.visit(record, &mut texts).ok()?;
        }
        Some(message.format(|number| texts.get(number)))
    }
}

/// Collects one text a top-level field.
struct FieldTexts<'s> {
    style: &'s Style,
    depth: usize,
    text: Vec<u8>,
    /// Where the text of each field ends.
    ends: Vec<usize>,
    /// Whether a bracket was opened last.
    opened: bool,
}

impl FieldTexts<'_> {
    fn new(style: &Style) -> FieldTexts<'_> {
        FieldTexts { style, depth: 0, text: Vec::new(), ends: Vec::new(), opened: false }
    }

    fn get(&self, number: usize) -> Option<Cow<'_, str>> {
        let end = *self.ends.get(number)?;
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        Some(String::from_utf8_lossy(&self.text[start..end]))
    }

    /// Inside brackets everything but the first is set off.
    fn separate(&mut self) {
        if self.depth > 0 && !std::mem::take(&mut self.opened) {
            self.text.extend_from_slice(b", ");
        }
    }

    fn end(&mut self) {
        if self.depth == 0 {
            self.ends.push(self.text.len());
        }
    }

    fn open(&mut self, bracket: u8) {
        self.separate();
        self.text.push(bracket);
        self.depth += 1;
        self.opened = true;
    }

    fn close(&mut self, bracket: u8) {
        self.text.push(bracket);
        self.depth -= 1;
        self.opened = false;
        self.end();
    }
}

impl Visitor for FieldTexts<'_> {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        // The length of a custom field keeps its number, so that inserts count as TDH counts.
        if field.is_custom_length && self.depth > 0 {
            return;
        }
        self.separate();
        value.write_text(&mut self.text, self.style);
        self.end();
    }

    fn begin_array(&mut self, _field: &Field, _count: usize) {
        self.open(b'[');
    }

    fn end_array(&mut self, _field: &Field) {
        self.close(b']');
    }

    fn begin_struct(&mut self, _field: &Field) {
        self.open(b'{');
    }

    fn end_struct(&mut self, _field: &Field) {
        self.close(b'}');
    }
}
