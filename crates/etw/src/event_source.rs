//! EventSource: providers that write their manifest into the trace, and providers whose events describe themselves.

mod manifest;
mod value;

use std::collections::BTreeMap;
use std::sync::Arc;

use etw_ring::prefix::Prefix;
use etw_types::{Channel, EventDescriptor, Guid, Keyword, Level, Opcode, Status};

use crate::provider::{EnableCallback, EnableChange};
use crate::write::{Event, TOO_LARGE, size_on_disk, write_any};
use crate::{EventBuilder, Provider, Registration, activity};

pub use value::{SourceType, SourceValue};

/// Bytes of a manifest in one event; .NET writes as many.
const LARGEST_CHUNK: usize = 0xff00 - 8 - 1024;
/// Sessions with buffers that hold no smaller chunk get no manifest.
const SMALLEST_CHUNK: usize = 256;
/// Chunks of one manifest.
const MOST_CHUNKS: usize = 1024;

/// A provider in the form of .NET's `EventSource`. Its events have ids and plain payloads, and the provider writes its own
/// manifest into each session: PerfView, TraceEvent and `etw dump` decode the events by name, without any file.
///
/// ```
/// use etw::{EventSource, Keyword, Level, SourceEvent, SourceType, SourceValue};
///
/// let source = EventSource::builder("MyCompany-Shop")
///     .keyword("Orders", Keyword(1))
///     .event(
///         SourceEvent::new(1, "OrderPlaced")
///             .keyword(Keyword(1))
///             .message("{1} of {0}")
///             .field("item", SourceType::String)
///             .field("count", SourceType::Int32),
///     )
///     .register()?;
/// if source.is_enabled(Level::INFO, Keyword(1)) {
///     source.write(1, &["tea".into(), 3i32.into()]);
/// }
/// # Ok::<(), etw::Status>(())
/// ```
///
/// The manifest is written whenever a session enables the provider, changes its enablement, disables it while others stay, or
/// asks for the provider's state. [`write_manifest`](Self::write_manifest) writes it at any other time.
///
/// # Loss
/// A session that enables the provider and stops before the callback has run has events without their manifest.
///
/// The last session gets no manifest when it disables the provider: its enablement has ended when the callback runs, and a daemon
/// refuses the provider's events before the program hears of it. A session whose buffers are a ring can lose the manifest that it got
/// at its start: call [`write_manifest`](Self::write_manifest) before it is flushed, or request the provider's state.
#[doc(alias = "System.Diagnostics.Tracing.EventSource")]
#[derive(Debug)]
pub struct EventSource {
    shape: Arc<Shape>,
    _registration: Registration,
}

/// The state that the callback and the writers share.
#[derive(Debug)]
struct Shape {
    provider: Arc<Provider>,
    events: BTreeMap<u16, SourceEvent>,
    /// `None`: the events describe themselves.
    manifest: Option<String>,
}

/// An event of an [`EventSource`].
#[derive(Clone, Debug)]
pub struct SourceEvent {
    descriptor: EventDescriptor,
    name: String,
    message: Option<String>,
    fields: Vec<(String, SourceType)>,
    /// Maps of fields, by the field's index.
    maps: BTreeMap<usize, String>,
}

impl SourceEvent {
    /// An event with an id from 1 to 65533, of level Informational. Its task is its name, as in .NET.
    pub fn new(id: u16, name: &str) -> SourceEvent {
        let descriptor = EventDescriptor {
            id,
            level: Level::INFO,
            task: 0xfffe - id.min(0xfffd),
            ..EventDescriptor::default()
        };
        SourceEvent {
            descriptor,
            name: name.to_owned(),
            message: None,
            fields: Vec::new(),
            maps: BTreeMap::new(),
        }
    }

    /// Sets the level.
    #[must_use]
    pub fn level(mut self, level: Level) -> SourceEvent {
        self.descriptor.level = level;
        self
    }

    /// Sets the keywords.
    #[must_use]
    pub fn keyword(mut self, keyword: Keyword) -> SourceEvent {
        self.descriptor.keyword = keyword;
        self
    }

    /// Sets the opcode.
    #[must_use]
    pub fn opcode(mut self, opcode: Opcode) -> SourceEvent {
        self.descriptor.opcode = opcode;
        self
    }

    /// Sets the task. [`EventSourceBuilder::task`] names it; several events may have it.
    #[must_use]
    pub fn task(mut self, task: u16) -> SourceEvent {
        self.descriptor.task = task;
        self
    }

    /// Sets the version: increase it if fields are added.
    #[must_use]
    pub fn version(mut self, version: u8) -> SourceEvent {
        self.descriptor.version = version;
        self
    }

    /// Sets the text that readers show; `{0}` is the first field.
    #[must_use]
    pub fn message(mut self, message: &str) -> SourceEvent {
        self.message = Some(message.to_owned());
        self
    }

    /// Adds a field.
    #[must_use]
    pub fn field(mut self, name: &str, kind: SourceType) -> SourceEvent {
        self.fields.push((name.to_owned(), kind));
        self
    }

    /// Adds a field of an integer type whose values have names: those of a map that
    /// [`EventSourceBuilder::value_map`] or [`bit_map`](EventSourceBuilder::bit_map) describes.
    #[must_use]
    pub fn mapped_field(mut self, name: &str, kind: SourceType, map: &str) -> SourceEvent {
        self.maps.insert(self.fields.len(), map.to_owned());
        self.field(name, kind)
    }
}

/// Names of values or bits.
#[derive(Clone, Debug)]
struct SourceMap {
    name: String,
    is_bits: bool,
    entries: Vec<(u32, String)>,
}

/// Describes an [`EventSource`].
#[derive(Clone, Debug)]
pub struct EventSourceBuilder {
    name: String,
    id: Guid,
    keywords: Vec<(String, Keyword)>,
    tasks: BTreeMap<u16, String>,
    opcodes: BTreeMap<u8, String>,
    maps: Vec<SourceMap>,
    events: Vec<SourceEvent>,
    is_self_describing: bool,
}

impl EventSourceBuilder {
    /// Sets the GUID; by default it is made of the name, as in .NET.
    #[must_use]
    pub fn id(mut self, id: Guid) -> EventSourceBuilder {
        self.id = id;
        self
    }

    /// Names a keyword.
    #[must_use]
    pub fn keyword(mut self, name: &str, keyword: Keyword) -> EventSourceBuilder {
        self.keywords.push((name.to_owned(), keyword));
        self
    }

    /// Names a task. A task without a name has that of its first event.
    #[must_use]
    pub fn task(mut self, name: &str, task: u16) -> EventSourceBuilder {
        self.tasks.insert(task, name.to_owned());
        self
    }

    /// Names an opcode of the source's own, from 11 to 239.
    #[must_use]
    pub fn opcode(mut self, name: &str, opcode: Opcode) -> EventSourceBuilder {
        self.opcodes.insert(opcode.0, name.to_owned());
        self
    }

    /// Names values, as an enum of .NET does.
    #[must_use]
    pub fn value_map(self, name: &str, entries: &[(u32, &str)]) -> EventSourceBuilder {
        self.map(name, false, entries)
    }

    /// Names bits, as an enum with `[Flags]` does.
    #[must_use]
    pub fn bit_map(self, name: &str, entries: &[(u32, &str)]) -> EventSourceBuilder {
        self.map(name, true, entries)
    }

    fn map(mut self, name: &str, is_bits: bool, entries: &[(u32, &str)]) -> EventSourceBuilder {
        let entries = entries.iter().map(|(value, text)| (*value, (*text).to_owned())).collect();
        self.maps.push(SourceMap { name: name.to_owned(), is_bits, entries });
        self
    }

    /// Adds an event.
    #[must_use]
    pub fn event(mut self, event: SourceEvent) -> EventSourceBuilder {
        self.events.push(event);
        self
    }

    /// Writes events that describe themselves (TraceLogging), and no manifest: `EtwSelfDescribingEventFormat` of .NET.
    #[must_use]
    pub fn self_describing(mut self) -> EventSourceBuilder {
        self.is_self_describing = true;
        self
    }

    /// The manifest, as XML.
    ///
    /// # Errors
    /// `ERROR_INVALID_PARAMETER`: as [`register`](Self::register).
    pub fn manifest(&self) -> Result<String, Status> {
        self.check()?;
        Ok(manifest::xml(self))
    }

    /// Registers the provider, until the source is dropped.
    ///
    /// # Errors
    /// `ERROR_INVALID_PARAMETER`: an empty name or one with a control character, an id or a name that two events have, an id
    /// outside of 1 to 65533, a keyword of several bits, an opcode outside of 11 to 239, a map that is not described or not of an
    /// integer, or one that names several bits at once.
    pub fn register(self) -> Result<EventSource, Status> {
        self.check()?;
        let provider = Provider::dynamic(&self.name, self.id, None)?;
        let manifest = match self.is_self_describing {
            true => None,
            false => Some(self.manifest()?),
        };
        let events = self.events.into_iter().map(|event| (event.descriptor.id, event)).collect();
        let shape = Arc::new(Shape { provider: Arc::clone(&provider), events, manifest });
        let of_callback = Arc::downgrade(&shape);
        let callback: Arc<EnableCallback> = Arc::new(move |_: &EnableChange<'_>| {
            if let Some(shape) = of_callback.upgrade() {
                // A manifest that does not fit is counted as lost by its session.
                let _ = shape.write_manifest();
            }
        });
        let registration = provider.register_shared(Some(callback));
        Ok(EventSource { shape, _registration: registration })
    }

    fn check(&self) -> Result<(), Status> {
        let is_name = |name: &str| !name.is_empty() && !name.contains(char::is_control);
        let mut ids: Vec<u16> = self.events.iter().map(|event| event.descriptor.id).collect();
        let mut names: Vec<&str> = self.events.iter().map(|event| event.name.as_str()).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        names.sort_unstable();
        names.dedup();
        let are_sound = self.events.iter().all(|event| {
            (1..=0xfffd).contains(&event.descriptor.id)
                && is_name(&event.name)
                && event.fields.iter().all(|(name, _)| is_name(name))
        });
        let keywords = self
            .keywords
            .iter()
            .all(|(name, keyword)| is_name(name) && keyword.0.count_ones() == 1);
        let opcodes = self.opcodes.keys().all(|opcode| (11..240).contains(opcode));
        let names_of_own = self.tasks.values().chain(self.opcodes.values());
        let is_sound = is_name(&self.name)
            && are_sound
            && keywords
            && opcodes
            && names_of_own.into_iter().all(|name| is_name(name))
            && self.has_sound_maps();
        match is_sound && ids.len() == count && names.len() == count {
            true => Ok(()),
            false => Err(Status::ERROR_INVALID_PARAMETER),
        }
    }
}

impl EventSourceBuilder {
    fn has_sound_maps(&self) -> bool {
        let mut names: Vec<&str> = self.maps.iter().map(|map| map.name.as_str()).collect();
        names.sort_unstable();
        let are_single = names.windows(2).all(|pair| pair[0] != pair[1]);
        let are_sound = self.maps.iter().all(|map| {
            let is_entry = |(value, text): &(u32, String)| {
                !text.contains(char::is_control) && (!map.is_bits || value.count_ones() == 1)
            };
            !map.name.is_empty()
                && !map.name.contains(char::is_control)
                && map.entries.iter().all(is_entry)
        });
        let are_known = self.events.iter().all(|event| {
            let is_known = |(index, map): (&usize, &String)| {
                event.fields[*index].1.can_have_map() && names.binary_search(&map.as_str()).is_ok()
            };
            event.maps.iter().all(is_known)
        });
        are_single && are_sound && are_known
    }
}

impl EventSource {
    /// Starts the description of a source.
    pub fn builder(name: &str) -> EventSourceBuilder {
        EventSourceBuilder {
            name: name.to_owned(),
            id: Guid::from_name(name),
            keywords: Vec::new(),
            tasks: BTreeMap::new(),
            opcodes: BTreeMap::new(),
            maps: Vec::new(),
            events: Vec::new(),
            is_self_describing: false,
        }
    }

    /// The provider.
    pub fn provider(&self) -> &Provider {
        &self.shape.provider
    }

    /// Whether any session wants events of this level and keyword.
    pub fn is_enabled(&self, level: Level, keyword: Keyword) -> bool {
        self.shape.provider.is_enabled(level, keyword)
    }

    /// Writes an event with the values of its fields.
    ///
    /// # Errors
    /// `ERROR_INVALID_PARAMETER`: there is no such event, or the values are not those of its fields. Otherwise as
    /// [`EventBuilder::write`].
    pub fn write(&self, id: u16, values: &[SourceValue<'_>]) -> Status {
        self.write_transfer(id, None, None, values)
    }

    /// [`write`](Self::write) for an activity, with the activity that it comes from.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_transfer(
        &self,
        id: u16,
        activity_id: Option<&Guid>,
        related_activity_id: Option<&Guid>,
        values: &[SourceValue<'_>],
    ) -> Status {
        let shape = &*self.shape;
        let Some(event) = shape.events.get(&id) else { return Status::ERROR_INVALID_PARAMETER };
        let types = event.fields.iter().map(|(_, kind)| *kind);
        if !types.eq(values.iter().map(SourceValue::kind)) {
            return Status::ERROR_INVALID_PARAMETER;
        }
        let EventDescriptor { level, keyword, .. } = event.descriptor;
        if !shape.provider.is_enabled(level, keyword) {
            return Status::ERROR_SUCCESS;
        }
        if shape.manifest.is_none() {
            let mut builder = EventBuilder::new();
            builder
                .reset(&event.name, level, keyword, 0)
                .opcode(event.descriptor.opcode)
                .task(event.descriptor.task)
                .id_version(id, event.descriptor.version);
            for ((name, _), value) in event.fields.iter().zip(values) {
                value.add_to(&mut builder, name);
            }
            return builder.write(&shape.provider, activity_id, related_activity_id);
        }
        let mut payload = Vec::new();
        values.iter().for_each(|value| value.put(&mut payload));
        let activity_id = activity_id.copied().unwrap_or_else(activity::current);
        let prefix = Prefix {
            descriptor: Some(event.descriptor),
            activity_id: (!activity_id.is_zero()).then_some(activity_id),
            related_activity_id: related_activity_id.copied(),
            ..Prefix::default()
        };
        shape.write_plain(prefix, &[&payload])
    }

    /// Writes the manifest to all sessions that have the provider enabled.
    ///
    /// # Errors
    /// As [`EventBuilder::write`]; `ERROR_INVALID_FUNCTION` (1) if the events describe themselves.
    pub fn write_manifest(&self) -> Status {
        self.shape.write_manifest()
    }
}

impl Shape {
    /// An event with a plain payload, in several pieces.
    fn write_plain(&self, prefix: Prefix<'_>, pieces: &[&[u8]]) -> Status {
        let descriptor = prefix.descriptor.unwrap_or_default();
        let routes = self.provider.routes(descriptor.level, descriptor.keyword);
        if routes == 0 {
            return Status::ERROR_SUCCESS;
        }
        let size: usize = pieces.iter().map(|piece| piece.len()).sum();
        let event = Event {
            site: None,
            prefix,
            user: 0,
            payload_size: size.min(TOO_LARGE as usize) as u32,
            event_size: size_on_disk(self.provider.traits().len(), 0),
        };
        write_any(&self.provider, routes, &event, &|mut room| {
            for piece in pieces {
                room = room.put(piece);
            }
            room
        })
    }

    /// Writes the manifest in the largest chunks that all sessions take.
    fn write_manifest(&self) -> Status {
        let Some(manifest) = &self.manifest else { return Status(1) };
        // Event, task and opcode of manifests, as .NET writes them.
        let descriptor = EventDescriptor {
            id: 0xfffe,
            version: 1,
            channel: Channel(0),
            level: Level(0),
            opcode: Opcode(0xfe),
            task: 0xfffe,
            keyword: Keyword(u64::MAX),
        };
        let mut size = LARGEST_CHUNK;
        loop {
            let chunks: Vec<&[u8]> = manifest.as_bytes().chunks(size).collect();
            let count = chunks.len();
            if count > MOST_CHUNKS {
                return Status::ERROR_MORE_DATA;
            }
            let mut status = Status::ERROR_SUCCESS;
            for (number, chunk) in chunks.into_iter().enumerate() {
                let [low, high] = (count as u16).to_le_bytes();
                let [number_low, number_high] = (number as u16).to_le_bytes();
                // Format 1 (XML), version 1.0, and the mark.
                let head = [1, 1, 0, 0x5b, low, high, number_low, number_high];
                let prefix = Prefix { descriptor: Some(descriptor), ..Prefix::default() };
                status = self.write_plain(prefix, &[&head, chunk]);
                if !status.is_success() {
                    break;
                }
            }
            let is_too_large =
                matches!(status, Status::ERROR_MORE_DATA | Status::ERROR_ARITHMETIC_OVERFLOW);
            if !is_too_large || size / 2 < SMALLEST_CHUNK {
                return status;
            }
            size /= 2;
        }
    }
}
