//! [`SchemaCache`]: the schemas that the sources have for each event, looked up once.

use crate::decoded::Decoded;
use crate::event_info::{EventInfoError, EventKey};
use crate::reason::{Reason, Source};
use crate::schema::Schema;
use etw_types::Guid;
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Bytes of cached events; past this the cache starts over.
const SIZE_LIMIT: usize = 8 << 20;

/// The headers that number their events differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventForm {
    /// Numbered by id and version.
    Event,
    /// A class with a type and a version.
    Classic,
    /// As `Classic`, from a record with a hook.
    Kernel,
}

/// The numbers that decide which schemas describe an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventId {
    pub form: EventForm,
    /// Provider or class.
    pub guid: Guid,
    /// Id or type.
    pub number: u16,
    pub version: u8,
}

impl EventId {
    /// The key of an event of `EventWrite`.
    pub fn event_key(self) -> EventKey {
        EventKey::Event { provider: self.guid, id: self.number, version: self.version }
    }

    /// A slot of [`RECENT`].
    #[inline(always)]
    fn slot(&self) -> usize {
        let guid = u128::from_ne_bytes(self.guid.0);
        let numbers =
            u64::from(self.number) << 16 | u64::from(self.version) << 8 | self.form as u64;
        let mixed = guid as u64 ^ (guid >> 64) as u64 ^ numbers;
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT.ilog2())) as usize
    }
}

impl Hash for EventId {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(u128::from_ne_bytes(self.guid.0));
        let numbers = u32::from(self.number) << 16 | u32::from(self.version) << 8;
        state.write_u32(numbers | self.form as u32);
    }
}

/// A schema of a source, or of a table of this crate.
pub(crate) enum SchemaRef {
    Shared(Arc<Schema>),
    Static(&'static Schema),
}

impl Deref for SchemaRef {
    type Target = Schema;

    #[inline]
    fn deref(&self) -> &Schema {
        match self {
            SchemaRef::Shared(schema) => schema,
            SchemaRef::Static(schema) => schema,
        }
    }
}

/// A schema that a source has for an event.
pub(crate) struct Candidate {
    /// The number of the answer that it gives; the cache sets it.
    pub answer: u64,
    pub schema: Result<SchemaRef, EventInfoError>,
    pub source: Source,
    /// The TRACE_EVENT_INFO that the schema was compiled from.
    pub event_info: Option<Arc<[u8]>>,
}

impl Candidate {
    pub fn shared(schema: &Arc<Schema>, source: Source) -> Candidate {
        let schema = Ok(SchemaRef::Shared(Arc::clone(schema)));
        Candidate { answer: 0, schema, source, event_info: None }
    }

    /// Whether it describes only payloads that its fields fill.
    #[inline]
    pub fn needs_exact_fit(&self) -> bool {
        self.schema.as_ref().is_ok_and(|schema| schema.needs_exact_fit)
    }

    #[inline]
    pub fn decoded(&self) -> Decoded<'_> {
        let mut decoded = match &self.schema {
            Ok(schema) => Decoded::with(schema, self.source),
            Err(error) => Decoded::undecoded(Reason::EventInfo(*error)),
        };
        if self.schema.is_ok() {
            decoded.event_info = self.event_info.as_deref();
        }
        decoded.answer = self.answer;
        decoded
    }
}

/// The schemas of all sources for an event.
pub(crate) struct CachedEvent {
    /// The generation of the trace's schemas when the sources were asked.
    pub generation: u64,
    /// The number of the answer that there is no schema; the cache sets it.
    pub answer: u64,
    /// In order of precedence.
    pub candidates: Vec<Candidate>,
    /// Why there is no schema, if there is none.
    pub reason: Reason,
    /// The text of a reason that has to be formatted.
    pub reason_text: Option<Box<str>>,
    /// The name of an event without a schema.
    pub event_name: Option<&'static str>,
    /// The name of its provider.
    pub provider_name: Option<Box<str>>,
}

impl CachedEvent {
    /// The answer for an event without a schema.
    pub fn undecoded(&self) -> Decoded<'_> {
        Decoded {
            answer: self.answer,
            reason_text: self.reason_text.as_deref(),
            event_name: self.event_name.map(Cow::Borrowed),
            provider_name: self.provider_name.as_deref(),
            ..Decoded::undecoded(self.reason.clone())
        }
    }
}

/// Events by their numbers. Entries are replaced when the trace's schemas have changed since.
#[derive(Default)]
pub(crate) struct SchemaCache {
    places: HashMap<EventId, u32, foldhash::fast::RandomState>,
    /// Events that were found last, with their places, by a cheap hash; empty before the first one.
    recent: Vec<Option<(EventId, u32)>>,
    events: Vec<CachedEvent>,
    size: usize,
    /// Numbers of answers that were given out. No number is given out twice.
    answers: u64,
}

/// Events that are remembered, a power of two.
const RECENT: usize = 256;

impl SchemaCache {
    /// The place of an event, if it is cached and up to date.
    #[inline]
    pub fn find(&mut self, id: &EventId, generation: u64) -> Option<usize> {
        let slot = id.slot();
        let place = match self.recent.get(slot) {
            Some(Some((recent, place))) if recent == id => *place,
            _ => self.find_forgotten(id, slot)?,
        };
        let place = place as usize;
        (self.events[place].generation == generation).then_some(place)
    }

    #[inline(never)]
    fn find_forgotten(&mut self, id: &EventId, slot: usize) -> Option<u32> {
        let place = *self.places.get(id)?;
        self.recent.resize(RECENT, None);
        self.recent[slot] = Some((*id, place));
        Some(place)
    }

    #[inline]
    pub fn event(&self, place: usize) -> &CachedEvent {
        &self.events[place]
    }

    /// Caches an event; returns its place.
    pub fn put(&mut self, id: EventId, mut event: CachedEvent) -> usize {
        if self.size > SIZE_LIMIT {
            self.clear();
        }
        self.answers += 1;
        event.answer = self.answers;
        for candidate in &mut event.candidates {
            self.answers += 1;
            candidate.answer = self.answers;
        }
        self.size += size_of::<CachedEvent>()
            + event.candidates.len() * size_of::<Candidate>()
            + event.provider_name.as_ref().map_or(0, |name| name.len())
            + event.reason_text.as_ref().map_or(0, |text| text.len());
        let next = self.events.len();
        let place = *self.places.entry(id).or_insert(next as u32) as usize;
        match self.events.get_mut(place) {
            Some(known) => *known = event,
            None => self.events.push(event),
        }
        place
    }

    pub fn clear(&mut self) {
        *self = SchemaCache { answers: self.answers, ..SchemaCache::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(generation: u64) -> CachedEvent {
        let candidate = || Candidate {
            answer: 0,
            schema: Ok(SchemaRef::Shared(Arc::default())),
            source: Source::Manifest,
            event_info: None,
        };
        CachedEvent {
            generation,
            answer: 0,
            candidates: vec![candidate(), candidate()],
            reason: Reason::NoManifest,
            reason_text: None,
            event_name: None,
            provider_name: None,
        }
    }

    #[test]
    fn no_two_answers_have_one_number() {
        let mut cache = SchemaCache::default();
        let mut numbers = Vec::new();
        let id = |number| EventId {
            form: EventForm::Event,
            guid: Guid::from_u128(7),
            number,
            version: 0,
        };
        for round in 0..3 {
            for number in [1, 2, 1, 3] {
                let place = cache.put(id(number), event(round));
                let event = cache.event(place);
                numbers.push(event.undecoded().answer);
                numbers.extend(event.candidates.iter().map(|candidate| candidate.decoded().answer));
            }
            cache.clear();
        }
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!((count, numbers.len(), numbers[0]), (36, 36, 1));
    }

    #[test]
    fn a_remembered_event_is_forgotten_with_the_cache_and_outdated_with_the_trace() {
        let mut cache = SchemaCache::default();
        for number in 0..600 {
            for version in 0..2 {
                let guid = Guid::from_u128(7);
                let id = EventId { form: EventForm::Event, guid, number, version };
                assert_eq!(cache.find(&id, 0), None);
                let place = cache.put(id, event(0));
                for _ in 0..2 {
                    assert_eq!((cache.find(&id, 0), cache.find(&id, 1)), (Some(place), None));
                    let other = EventId { form: EventForm::Classic, ..id };
                    assert_eq!(cache.find(&other, 0), None);
                }
            }
        }
        let id =
            EventId { form: EventForm::Event, guid: Guid::from_u128(7), number: 5, version: 1 };
        assert!(cache.find(&id, 0).is_some());
        cache.clear();
        assert_eq!(cache.find(&id, 0), None);
    }
}
