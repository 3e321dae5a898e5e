//! [`Decoder`]: finds the schema of a record.

use crate::cache_bound::CacheBound;
use crate::catalog::Catalog;
use crate::clr::{self, with_all_frames};
use crate::decoded::{Decoded, Fit};
use crate::event_info::{self, EventInfo, EventInfoError, EventKey};
use crate::event_trace;
use crate::eventsource;
use crate::kernel::{self, KernelEvent};
use crate::known_providers::known_provider_name;
use crate::measure::measure;
use crate::pointer_width::fitting_pointer_size;
use crate::reason::{Reason, Source};
use crate::schema::Schema;
use crate::schema_cache::{CachedEvent, Candidate, EventForm, EventId, SchemaCache, SchemaRef};
use crate::store::Store;
use crate::string_event::{is_string_event, string_schema};
use crate::tracelogging::{self, SchemaError};
use crate::universal;
use etw_tracelogging::ProviderTraits;
use etw_types::{
    Channel, EVENT_TRACE, EventRecord, ExtType, ExtendedItem, Guid, HeaderType, MAP_INFO,
};
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};

/// Finds schemas, learning them from the records that describe others.
///
/// The result for a record depends only on the records decoded before it, in their order: two decoders
/// that begin with equal stores and are given the same records agree.
pub struct Decoder {
    store: Arc<Store>,
    named: Arc<Catalog>,
    own: Arc<Catalog>,
    learning: bool,
    /// By metadata: the place in `tracelogging_schemas`.
    tracelogging: HashMap<Box<[u8]>, usize, foldhash::fast::RandomState>,
    tracelogging_schemas: Vec<Result<Schema, SchemaError>>,
    /// Schemas that `tracelogging_schemas` has had before.
    tracelogging_dropped: u64,
    tracelogging_bound: CacheBound,
    described: HashMap<EventKey, Described, foldhash::fast::RandomState>,
    described_bound: CacheBound,
    cache: SchemaCache,
    event_trace: HashMap<(u8, usize, u8), Option<Schema>, foldhash::fast::RandomState>,
}

/// Those of a record's extended items that decide how it is decoded, the first of each type.
#[derive(Default)]
struct Items<'a> {
    traits: Option<&'a [u8]>,
    metadata: Option<&'a [u8]>,
    /// Whether the record comes from an event log.
    is_logged: bool,
}

impl<'a> Items<'a> {
    #[inline]
    fn take(&mut self, item: ExtendedItem<'a>) {
        match item.ext_type {
            ExtType::PROV_TRAITS => self.traits = self.traits.or(Some(item.data)),
            ExtType::EVENT_SCHEMA_TL => self.metadata = self.metadata.or(Some(item.data)),
            ExtType::EVENT_LOG => self.is_logged = true,
            _ => {}
        }
    }
}

/// Set in the numbers of answers that come from an event's own metadata.
const SELF_DESCRIBED: u64 = 1 << 63;

struct Described {
    blob: Arc<[u8]>,
    map_generation: u64,
    has_maps: bool,
    schema: Result<Arc<Schema>, EventInfoError>,
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
            tracelogging_schemas: Vec::new(),
            tracelogging_dropped: 0,
            tracelogging_bound: CacheBound::default(),
            described: HashMap::default(),
            described_bound: CacheBound::default(),
            cache: SchemaCache::default(),
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
        self.cache.clear();
    }

    /// Sets the schemas that the user registered, for events that nothing else describes.
    pub fn set_own_catalog(&mut self, own: Arc<Catalog>) {
        self.own = own;
        self.cache.clear();
    }

    /// Sets whether [`decode`](Decoder::decode) learns from the records it is given; by default it does.
    pub fn set_learning(&mut self, learning: bool) {
        self.learning = learning;
    }

    /// Sets how many bytes of compiled schemas the decoder keeps at most, of each of two sources: 32 MiB unless it is set. It keeps 8 MiB as
    /// long as events do not use more schemas again and again.
    pub fn set_cache_limit(&mut self, bytes: usize) {
        self.tracelogging_bound.set_most(bytes);
        self.described_bound.set_most(bytes);
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
                    Some(class) => self.class(EventForm::Kernel, class, hook.kind(), record),
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

    #[inline(never)]
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
        let mut items = Items::default();
        record.extended.into_iter().for_each(|item| items.take(item));
        let traits = items.traits.and_then(|blob| ProviderTraits::parse(blob).ok());
        let mut decoded = match items.metadata {
            Some(blob) if items.is_logged => self.logged(record, blob),
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
        let place = self.self_described_place(blob);
        let mut decoded = match &self.tracelogging_schemas[place] {
            Ok(schema) => Decoded::with(schema, Source::TraceLogging),
            Err(error) => Decoded::undecoded(Reason::TraceLogging(error.clone())),
        };
        decoded.answer = SELF_DESCRIBED | (self.tracelogging_dropped + place as u64);
        decoded
    }

    /// A record of an event log: it has the types of its fields; other sources may have its name and message.
    #[inline(never)]
    fn logged<'d>(&'d mut self, record: &EventRecord<'d>, blob: &'d [u8]) -> Decoded<'d> {
        let descriptor = &record.descriptor;
        let id = EventId {
            form: EventForm::Event,
            guid: record.provider.unwrap_or_default(),
            number: descriptor.id,
            version: descriptor.version,
        };
        let fields = self.self_described_place(blob);
        let event = self.cached_place(id);
        let described = self.cache.event(event).candidates.first();
        match &self.tracelogging_schemas[fields] {
            Ok(schema) => Decoded {
                described: described.and_then(|described| described.schema.as_deref().ok()),
                ..Decoded::with(schema, Source::EventLog)
            },
            Err(error) => Decoded::undecoded(Reason::TraceLogging(error.clone())),
        }
    }

    /// The place of the compiled schema of a metadata blob.
    fn self_described_place(&mut self, blob: &[u8]) -> usize {
        match self.tracelogging.get(blob) {
            Some(place) => *place,
            None => {
                let hasher = self.tracelogging.hasher();
                let known = self.tracelogging.keys().map(|blob| hasher.hash_one(blob));
                let starts_over = self.tracelogging_bound.starts_over(known);
                let schema = tracelogging::schema(blob);
                let size = blob.len() + schema.as_ref().map_or(64, Schema::size);
                self.tracelogging_bound.add(hasher.hash_one(blob), size);
                if starts_over {
                    self.tracelogging.clear();
                    self.tracelogging_dropped += self.tracelogging_schemas.len() as u64;
                    self.tracelogging_schemas.clear();
                }
                let place = self.tracelogging_schemas.len();
                self.tracelogging_schemas.push(schema);
                self.tracelogging.insert(blob.into(), place);
                place
            }
        }
    }

    fn described_event<'d>(&'d mut self, record: &EventRecord<'d>, provider: Guid) -> Decoded<'d> {
        let descriptor = &record.descriptor;
        let id = EventId {
            form: EventForm::Event,
            guid: provider,
            number: descriptor.id,
            version: descriptor.version,
        };
        if eventsource::is_manifest(record) {
            return self.manifest_chunk(record, id);
        }
        let event = self.cached(id);
        if let Some(decoded) = best(&event.candidates, record) {
            return decoded;
        }
        if is_string_event(record) {
            return Decoded::with(string_schema(), Source::String);
        }
        let is_self_described = descriptor.channel == Channel::TRACE_LOGGING && descriptor.id == 0;
        if is_self_described {
            let provider_name = event.provider_name.as_deref();
            return Decoded { provider_name, ..Decoded::undecoded(Reason::NoMetadata) };
        }
        event.undecoded()
    }

    /// A part of the manifest that an EventSource writes.
    fn manifest_chunk<'d>(&'d mut self, record: &EventRecord<'d>, id: EventId) -> Decoded<'d> {
        if self.learning {
            Arc::make_mut(&mut self.store).learn(record);
        }
        let key = id.event_key();
        self.compile(&key);
        if let Some(schema) = self.named.event(id.guid, id.number, id.version) {
            return Decoded::with(schema, Source::Manifest);
        }
        if self.store.event(&key).is_some() {
            return self.described(&key);
        }
        let mut decoded = Decoded::with(eventsource::chunk_schema(), Source::EventSource);
        let source = self.store.source(&id.guid);
        decoded.provider_name = source.and_then(|source| source.provider_name(&id.guid));
        decoded
    }

    fn classic<'d>(&'d mut self, record: &EventRecord<'d>) -> Decoded<'d> {
        let Some(class) = record.provider else { return Decoded::undecoded(Reason::NoClass) };
        if class == EVENT_TRACE {
            return self.event_trace(record.descriptor.opcode.0, record, Reason::NoClass);
        }
        if Store::is_metadata_record(record) {
            if self.learning {
                Arc::make_mut(&mut self.store).learn(record);
            }
            return schema_record(record);
        }
        self.class(EventForm::Classic, class, record.descriptor.opcode.0, record)
    }

    /// The schema of a class's event.
    #[inline(never)]
    fn class<'d>(
        &'d mut self,
        form: EventForm,
        class: Guid,
        kind: u8,
        record: &EventRecord<'d>,
    ) -> Decoded<'d> {
        let version = record.descriptor.version;
        let id = EventId { form, guid: class, number: u16::from(kind), version };
        let event = self.cached(id);
        let mut decoded = match &event.candidates[..] {
            [] => event.undecoded(),
            [only] if !only.needs_exact_fit() => only.decoded(),
            candidates => {
                let found = of_class(candidates, form, record);
                found.map_or_else(|| event.undecoded(), |place| chosen(candidates, place))
            }
        };
        // A 64-bit kernel gives some records a header of 32 bits.
        if form == EventForm::Classic || record.pointer_size == 4 {
            decoded.pointer_size =
                decoded.schema.and_then(|schema| fitting_pointer_size(schema, record));
        }
        decoded
    }

    /// The schemas of all sources for an event.
    #[inline]
    fn cached(&mut self, id: EventId) -> &CachedEvent {
        let place = self.cached_place(id);
        self.cache.event(place)
    }

    #[inline]
    fn cached_place(&mut self, id: EventId) -> usize {
        match self.cache.find(&id, self.store.generation()) {
            Some(place) => place,
            None => {
                let event = self.gather(id);
                self.cache.put(id, event)
            }
        }
    }

    /// Asks every source for an event.
    fn gather(&mut self, id: EventId) -> CachedEvent {
        let mut event = match id.form {
            EventForm::Event => self.gather_event(id),
            EventForm::Classic | EventForm::Kernel => self.gather_class(id),
        };
        event.generation = self.store.generation();
        event
    }

    fn gather_event(&mut self, id: EventId) -> CachedEvent {
        let EventId { guid: provider, number, version, .. } = id;
        let described = self.gather_described(id);
        let source = self.store.source(&provider);
        let in_source = source.and_then(|source| source.event(provider, number, version));
        let of_manifest = |schema| Candidate::shared(schema, Source::Manifest);
        let mut candidates: Vec<Candidate> =
            self.named.event_schemas(provider, number, version).map(of_manifest).collect();
        candidates.extend(described);
        candidates.extend(in_source.map(|schema| Candidate::shared(schema, Source::EventSource)));
        candidates.extend(self.own.event_schemas(provider, number, version).map(of_manifest));
        if candidates.is_empty() && clr::only_adds_fields(&provider) {
            candidates.extend(self.of_older_version(provider, number, version));
        }
        candidates.extend(universal::event(&provider, number).map(|schema| Candidate {
            answer: 0,
            schema: Ok(SchemaRef::Static(schema)),
            source: Source::Universal,
            event_info: None,
        }));
        for place in (0..candidates.len()).rev() {
            let (schema, source) = (&candidates[place].schema, candidates[place].source);
            let cut = schema.as_ref().ok().and_then(|schema| schema.without_lost_struct());
            if let Some(cut) = cut {
                candidates.insert(place + 1, Candidate::shared(&Arc::new(cut), source));
            }
        }
        for candidate in &mut candidates {
            let whole = candidate.schema.as_ref().ok();
            if let Some(whole) = whole.and_then(|schema| with_all_frames(&provider, schema)) {
                candidate.schema = Ok(SchemaRef::Shared(Arc::new(whole)));
            }
        }
        let name = self
            .named
            .provider_name(&provider)
            .or_else(|| source.and_then(|source| source.provider_name(&provider)))
            .or_else(|| self.own.provider_name(&provider));
        let known = known_provider_name(&provider);
        let reason = match (name, known) {
            (Some(_), _) => Reason::NotInManifest,
            // A name of the table comes without a manifest.
            (None, Some(known)) => Reason::NoManifestOf(known),
            (None, None) => Reason::NoManifest,
        };
        let provider_name = name.or(known).filter(|_| candidates.is_empty()).map(Box::from);
        let is_named = matches!(reason, Reason::NoManifestOf(_)) && candidates.is_empty();
        let reason_text = is_named.then(|| reason.to_string().into_boxed_str());
        CachedEvent {
            generation: 0,
            answer: 0,
            candidates,
            reason,
            reason_text,
            event_name: None,
            provider_name,
        }
    }

    /// The schema of the newest version before that of an event, of a provider whose new versions only add fields.
    fn of_older_version(&self, provider: Guid, number: u16, version: u8) -> Option<Candidate> {
        let catalogs = [&self.named, &self.own];
        let of = |older| catalogs.iter().find_map(|one| one.event(provider, number, older));
        let (older, schema) = (0..version).rev().find_map(|older| Some((older, of(older)?)))?;
        let schema = Arc::new(clr::as_newer_version(schema, older));
        Some(Candidate::shared(&schema, Source::Manifest))
    }

    /// Sources of a class, in order: what the user named, the trace, the table of kernel classes, what the user registered. The latter come
    /// first if the table has only rows that need an exact fit.
    fn gather_class(&mut self, id: EventId) -> CachedEvent {
        let (class, kind, version) = (id.guid, id.number as u8, id.version);
        let is_classic = id.form == EventForm::Classic;
        let mut event = CachedEvent {
            generation: 0,
            answer: 0,
            candidates: Vec::new(),
            reason: if is_classic { Reason::NoClass } else { Reason::NoKernelClass },
            reason_text: None,
            event_name: None,
            provider_name: None,
        };
        let of_mof = |schema: &Arc<Schema>| Candidate::shared(schema, Source::Mof);
        event.candidates.extend(self.named.class(class, kind, version).map(of_mof));
        if is_classic {
            event.candidates.extend(self.gather_described(id));
        }
        // WPP wrote classic events before there were messages: their type is the message's number.
        if let (Some(schema), true) =
            (self.named.message(class, id.number), event.candidates.is_empty())
        {
            event.candidates.push(Candidate::shared(schema, Source::Wpp));
            return event;
        }
        let known = kernel::events(class, kind, version);
        let in_table = known.iter().filter_map(KernelEvent::schema).map(|schema| Candidate {
            answer: 0,
            schema: Ok(SchemaRef::Static(schema)),
            source: Source::Kernel,
            event_info: None,
        });
        let before_table = event.candidates.len();
        event.candidates.extend(in_table);
        if let Some(own) = self.own.class(class, kind, version).map(of_mof) {
            let of_table = &event.candidates[before_table..];
            let is_last = !of_table.iter().all(Candidate::needs_exact_fit);
            let place = if is_last { event.candidates.len() } else { before_table };
            event.candidates.insert(place, own);
        }
        match known.first() {
            Some(known) => event.event_name = Some(&known.name),
            None => event.event_name = kernel::name(class, kind).or(kernel::class_name(&class)),
        }
        let of_kernel = || kernel::class_name(&class).map(|_| kernel::PROVIDER);
        event.provider_name = known_provider_name(&class).or_else(of_kernel).map(Box::from);
        event
    }

    /// The schema that the trace describes, compiled.
    fn gather_described(&mut self, id: EventId) -> Option<Candidate> {
        let key = match id.form {
            EventForm::Event => id.event_key(),
            _ => EventKey::Classic { class: id.guid, kind: id.number as u8, version: id.version },
        };
        if !self.compile(&key) {
            return None;
        }
        let described = self.described.get(&key)?;
        Some(Candidate {
            answer: 0,
            schema: described.schema.clone().map(SchemaRef::Shared),
            source: Source::EventInfo,
            event_info: described.schema.is_ok().then(|| Arc::clone(&described.blob)),
        })
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
        let hasher = self.described.hasher();
        let hash = hasher.hash_one(key);
        let known = self.described.keys().map(|key| hasher.hash_one(key));
        if self.described_bound.starts_over(known) {
            self.described.clear();
            // It shares the schemas.
            self.cache.clear();
        }
        let compiled = EventInfo::parse(blob).and_then(|info| {
            let provider = info.provider();
            info.schema(|name| self.store.map(provider, name))
        });
        let has_maps = EventInfo::parse(blob).is_ok_and(|info| info.has_maps());
        self.described_bound.add(hash, compiled.as_ref().map_or(64, Schema::size));
        let compiled = compiled.map(Arc::new);
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

/// The first schema that fits the payload; if none does, the first one that needs no exact fit.
#[inline]
fn best<'d>(candidates: &'d [Candidate], record: &EventRecord<'_>) -> Option<Decoded<'d>> {
    let (first, others) = candidates.split_first()?;
    let fits = |candidate: &Candidate| match &candidate.schema {
        Ok(schema) => {
            let decoded = Decoded::with(schema, candidate.source);
            decoded.fit(record).is_some_and(Fit::is_exact)
        }
        Err(_) => false,
    };
    if others.is_empty() || fits(first) {
        return Some(first.decoded());
    }
    match others.iter().position(fits) {
        None => {
            let needs_no_fit = |candidate: &&Candidate| !candidate.needs_exact_fit();
            Some(candidates.iter().find(needs_no_fit).unwrap_or(first).decoded())
        }
        Some(place) => Some(Decoded { passed_over: place + 1, ..others[place].decoded() }),
    }
}

/// The place of the first schema of a class whose fields fill the payload, with the pointer width that the record may have; else of the
/// first one that needs no such fit.
#[cold]
fn of_class(candidates: &[Candidate], form: EventForm, record: &EventRecord<'_>) -> Option<usize> {
    let is_filled = |schema: &Schema, pointer_size: u8| {
        let measured = measure(schema, record.payload, pointer_size);
        !measured.is_cut && measured.used == record.payload.len()
    };
    let fits = |candidate: &Candidate| {
        let Ok(schema) = &candidate.schema else { return false };
        let own = record.pointer_size;
        // A 64-bit record with one of the kernel's own headers has wide pointers.
        let other = if own == 4 { 8 } else { 4 };
        let may_be_other = own == 4 || form == EventForm::Classic;
        is_filled(schema, own) || may_be_other && is_filled(schema, other)
    };
    let needs_no_fit = |candidate: &Candidate| !candidate.needs_exact_fit();
    candidates.iter().position(fits).or_else(|| candidates.iter().position(needs_no_fit))
}

/// The answer of the candidate at a place. It has passed over those of other sources before it.
fn chosen(candidates: &[Candidate], place: usize) -> Decoded<'_> {
    let candidate = &candidates[place];
    let others = candidates[..place].iter().filter(|other| other.source != candidate.source);
    Decoded { passed_over: others.count(), ..candidate.decoded() }
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
