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
    pub schema: Result<SchemaRef, EventInfoError>,
    pub source: Source,
    /// The TRACE_EVENT_INFO that the schema was compiled from.
    pub event_info: Option<Arc<[u8]>>,
}

impl Candidate {
    pub fn shared(schema: &Arc<Schema>, source: Source) -> Candidate {
        let schema = Ok(SchemaRef::Shared(Arc::clone(schema)));
        Candidate { schema, source, event_info: None }
    }

    /// Whether it describes only payloads that its fields fill.
    #[inline]
    pub fn needs_exact_fit(&self) -> bool {
        self.schema.as_ref().is_ok_and(|schema| schema.needs_exact_fit)
    }

    #[inline]
    pub fn decoded(&self) -> Decoded<'_> {
        match &self.schema {
            Ok(schema) => {
                let mut decoded = Decoded::with(schema, self.source);
                decoded.event_info = self.event_info.as_deref();
                decoded
            }
            Err(error) => Decoded::undecoded(Reason::EventInfo(*error)),
        }
    }
}

/// The schemas of all sources for an event.
pub(crate) struct CachedEvent {
    /// The generation of the trace's schemas when the sources were asked.
    pub generation: u64,
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
    events: Vec<CachedEvent>,
    size: usize,
}

impl SchemaCache {
    /// The place of an event, if it is cached and up to date.
    #[inline]
    pub fn find(&self, id: &EventId, generation: u64) -> Option<usize> {
        let place = *self.places.get(id)? as usize;
        (self.events[place].generation == generation).then_some(place)
    }

    #[inline]
    pub fn event(&self, place: usize) -> &CachedEvent {
        &self.events[place]
    }

    /// Caches an event; returns its place.
    pub fn put(&mut self, id: EventId, event: CachedEvent) -> usize {
        if self.size > SIZE_LIMIT {
            self.clear();
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
        *self = SchemaCache::default();
    }
}
