//! Schemas that were learnt from a trace.

use crate::event_info::{self, EventInfo, EventKey};
use crate::eventsource::{self, EventSources};
use crate::map::Map;
use crate::schemas::Schemas;
use etw_types::{EVENT_INFO, EVENT_METADATA, EventRecord, Guid, MAP_INFO};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Kinds of the parts in which a pack keeps what a trace described.
pub(crate) mod part {
    pub const EVENT_INFO: u8 = 1;
    pub const MAP_INFO: u8 = 2;
    pub const SOURCE_MANIFEST: u8 = 3;
}

/// Bytes of schemas that are kept; a trace that describes more is not a trace of one machine.
const SIZE_LIMIT: usize = 16 << 20;

/// Schemas from a trace's EventMetadata records and EventSource manifests. Clones share the blobs.
#[derive(Clone, Debug, Default)]
pub struct Store {
    events: HashMap<EventKey, Arc<[u8]>, foldhash::fast::RandomState>,
    maps: HashMap<Guid, HashMap<String, Arc<Map>>>,
    sources: EventSources,
    /// Counts changes to maps, so that compiled schemas know when theirs may have come.
    pub(crate) map_generation: u64,
    /// Changes with each change of the store. Stores of the same generation describe the same events, whoever has them.
    generation: u64,
    size: usize,
    refused: u64,
}

impl Store {
    /// Whether a record describes other events.
    #[inline]
    pub fn is_schema_record(record: &EventRecord<'_>) -> bool {
        Store::is_metadata_record(record) || eventsource::is_manifest(record)
    }

    #[inline]
    pub(crate) fn is_metadata_record(record: &EventRecord<'_>) -> bool {
        record.header.is_classic()
            && record.provider == Some(EVENT_METADATA)
            && matches!(record.descriptor.opcode.0, EVENT_INFO | MAP_INFO)
    }

    /// Learns from a record that describes other events; a later record replaces an earlier one.
    ///
    /// # Loss
    /// Past 16 MiB further schema records are dropped and counted in [`refused`](Store::refused).
    pub fn learn(&mut self, record: &EventRecord<'_>) {
        if eventsource::is_manifest(record) {
            match self.sources.learn(record, SIZE_LIMIT.saturating_sub(self.size)) {
                Some(0) => {}
                Some(size) => {
                    self.size += size;
                    self.start_generation();
                }
                None => self.refused += 1,
            }
            return;
        }
        if !Store::is_metadata_record(record) {
            return;
        }
        if self.size + record.payload.len() + 64 > SIZE_LIMIT {
            self.refused += 1;
            return;
        }
        if record.descriptor.opcode.0 == MAP_INFO {
            let Some((provider, map)) = event_info::map(record.payload) else { return };
            if self
                .maps
                .get(&provider)
                .and_then(|maps| maps.get(&map.name))
                .is_some_and(|known| **known == map)
            {
                return;
            }
            self.size += map.size();
            self.map_generation += 1;
            self.start_generation();
            self.maps.entry(provider).or_default().insert(map.name.clone(), Arc::new(map));
            return;
        }
        let Some(key) = EventInfo::parse(record.payload).ok().and_then(|info| info.key()) else {
            return;
        };
        if self.events.get(&key).is_some_and(|known| **known == *record.payload) {
            return;
        }
        self.size += record.payload.len() + 64;
        self.events.insert(key, record.payload.into());
        self.start_generation();
    }

    fn start_generation(&mut self) {
        static LAST: AtomicU64 = AtomicU64::new(0);
        self.generation = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    }

    /// Changes whenever the store does; 0 if nothing was learnt.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The TRACE_EVENT_INFO of an event.
    pub(crate) fn event(&self, key: &EventKey) -> Option<&Arc<[u8]>> {
        self.events.get(key)
    }

    /// Whether the trace describes an event of `EventWrite`.
    pub fn describes(&self, provider: Guid, id: u16, version: u8) -> bool {
        self.events.contains_key(&EventKey::Event { provider, id, version })
    }

    pub(crate) fn map(&self, provider: Guid, name: &str) -> Option<Arc<Map>> {
        self.maps.get(&provider)?.get(name).cloned()
    }

    /// The events that an EventSource described in the trace.
    #[inline]
    pub(crate) fn source(&self, provider: &Guid) -> Option<&Schemas> {
        self.sources.catalog(provider)
    }

    /// The learnt schemas by provider or class, as parts of a pack's source.
    pub(crate) fn parts(&self) -> std::collections::BTreeMap<Guid, Vec<(u8, Vec<u8>)>> {
        let mut parts: std::collections::BTreeMap<Guid, Vec<(u8, Vec<u8>)>> = Default::default();
        let mut add = |guid, kind, bytes| parts.entry(guid).or_default().push((kind, bytes));
        for (key, blob) in &self.events {
            let guid = match key {
                EventKey::Event { provider, .. } => *provider,
                EventKey::Classic { class, .. } => *class,
            };
            add(guid, part::EVENT_INFO, blob.to_vec());
        }
        for (guid, maps) in &self.maps {
            maps.values()
                .for_each(|map| add(*guid, part::MAP_INFO, event_info::map_blob(*guid, map)));
        }
        for (guid, text) in self.sources.texts() {
            add(guid, part::SOURCE_MANIFEST, [&guid.0, text].concat());
        }
        // The same trace gives the same bytes.
        parts.values_mut().for_each(|parts| parts.sort());
        parts
    }

    /// Whether nothing was learnt.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.sources.is_empty()
    }

    /// How many schema records were dropped because the store was full.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}
