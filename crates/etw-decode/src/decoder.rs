//! [`Decoder`]: finds the schema of a record.

use crate::catalog::Catalog;
use crate::decoded::Decoded;
use crate::event_info::{self, EventInfo, EventInfoError, EventKey};
use crate::event_trace;
use crate::eventsource;
use crate::kernel;
use crate::known_providers::known_provider_name;
use crate::reason::{Reason, Source};
use crate::schema::Schema;
use crate::store::{MAP_INFO, Store};
use crate::string_event::{is_string_event, string_schema};
use crate::tracelogging::{self, SchemaError};
use crate::walk::walk_part;
use etw_tracelogging::ProviderTraits;
use etw_types::{Channel, EVENT_TRACE, EventRecord, ExtType, Guid, HeaderType};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Bytes of compiled schemas that are kept, of either source; past this they are compiled again.
const CACHE_LIMIT: usize = 8 << 20;

/// Finds schemas, learning them from the records that describe others.
///
/// The result for a record depends only on the records decoded before it, in their order: two decoders
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
    /// Creates a decoder that has learnt nothing.
    pub fn new() -> Decoder {
        Decoder::with_store(Arc::default())
    }

    /// Creates a decoder that starts with schemas learnt elsewhere.
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

    /// Replaces the schemas learnt from the trace.
    pub fn set_store(&mut self, store: Arc<Store>) {
        self.store = store;
    }

    /// Sets the schemas that the user named. They take precedence over schemas in the trace, except TraceLogging metadata.
    pub fn set_catalog(&mut self, named: Arc<Catalog>) {
        self.named = named;
    }

    /// Sets the schemas that the user registered, for events that nothing else describes.
    pub fn set_own_catalog(&mut self, own: Arc<Catalog>) {
        self.own = own;
    }

    /// Sets whether [`decode`](Decoder::decode) learns from the records it is given; by default it does.
    pub fn set_learning(&mut self, learning: bool) {
        self.learning = learning;
    }

    /// The schemas learnt so far.
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
        let is_manifest = eventsource::is_manifest(record);
        if is_manifest && self.learning {
            Arc::make_mut(&mut self.store).learn(record);
        }
        let key = EventKey::Event(provider, id, version);
        if !self.store.is_empty() {
            self.compile(&key);
        }
        if !is_manifest {
            if let Some(decoded) = self.best(record, (provider, id, version)) {
                return decoded;
            }
        } else if let Some(schema) = self.named.event(provider, id, version) {
            return Decoded::with(schema, Source::Manifest);
        } else if self.store.event(&key).is_some() {
            return self.described(&key);
        }
        let source = self.store.source(&provider);
        if is_manifest {
            let mut decoded = Decoded::with(eventsource::chunk_schema(), Source::EventSource);
            decoded.provider_name = source.and_then(|source| source.provider_name(&provider));
            return decoded;
        }
        if is_string_event(record) {
            return Decoded::with(string_schema(), Source::String);
        }
        let in_source = || source.and_then(|source| source.provider_name(&provider));
        let in_own = || self.own.provider_name(&provider);
        let name = self.named.provider_name(&provider).or_else(in_source).or_else(in_own);
        let channel = descriptor.channel == Channel::TRACE_LOGGING && descriptor.id == 0;
        let known = known_provider_name(&provider);
        let reason = match (channel, name, known) {
            (true, ..) => Reason::NoMetadata,
            (false, Some(_), _) => Reason::NotInManifest,
            // A name of the table comes without a manifest.
            (false, None, Some(known)) => Reason::NoManifestOf(known),
            (false, None, None) => Reason::NoManifest,
        };
        Decoded { provider_name: name.or(known), ..Decoded::undecoded(reason) }
    }

    /// The schema of highest precedence that fits the payload; if none does, the schema of highest precedence.
    fn best<'d>(&'d self, record: &EventRecord<'d>, key: (Guid, u16, u8)) -> Option<Decoded<'d>> {
        let (provider, id, version) = key;
        let with = |source| move |schema| Decoded::with(schema, source);
        let described = || {
            let key = EventKey::Event(provider, id, version);
            self.store.event(&key).map(|_| self.described(&key))
        };
        let in_trace = || self.store.source(&provider)?.event(provider, id, version);
        let mut candidates = self
            .named
            .event_schemas(key)
            .map(with(Source::Manifest))
            .chain(std::iter::once_with(described).flatten())
            .chain(std::iter::once_with(in_trace).flatten().map(with(Source::EventSource)))
            .chain(self.own.event_schemas(key).map(with(Source::Manifest)));
        let first = candidates.next()?;
        let Some(second) = candidates.next() else { return Some(first) };
        let fits = |decoded: &Decoded<'_>| {
            let visited = decoded.visit_part(record, &mut ());
            visited.is_some_and(|visited| visited.rest.is_empty() && visited.reason.is_none())
        };
        if fits(&first) {
            return Some(first);
        }
        let others = std::iter::once(second).chain(candidates);
        let fitting = others.enumerate().find(|(_, decoded)| fits(decoded));
        match fitting {
            None => Some(first),
            Some((number, decoded)) => Some(Decoded { passed_over: number + 1, ..decoded }),
        }
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
                let mut decoded = self.described(&key);
                decoded.pointer_size =
                    decoded.schema.and_then(|schema| pointer_size(schema, record));
                return decoded;
            }
        }
        let mut decoded = self.class(class, kind, record, Reason::NoClass);
        decoded.pointer_size = decoded.schema.and_then(|schema| pointer_size(schema, record));
        decoded
    }

    /// The schema of a class: from what the user named, the table of kernel classes, or what the user registered.
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
        // Lengths above this do not matter: a hostile file must not add an entry for each.
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

/// The other pointer width, if the payload fits it better than the record's: a program may log a class as a machine of the other
/// width would, which the record's flags do not say.
fn pointer_size(schema: &Schema, record: &EventRecord<'_>) -> Option<u8> {
    // Smaller is better: an error, then the bytes that are left.
    let misfit = |size| {
        let walked = walk_part(schema, record.payload, size, &mut ());
        (walked.error.is_some(), record.payload.len() - walked.used)
    };
    let own = misfit(record.pointer_size);
    let other = if record.pointer_size == 4 { 8 } else { 4 };
    (own != (false, 0) && misfit(other) < own).then_some(other)
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
            provider_name: known_provider_name(&class),
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
