//! Providers and their enable state, which every write reads and which changes under the registry's lock.
//!
//! ```text
//! gate     0, or the most verbose level plus one: the one word that a disabled event loads
//! only     the same for a first slot that is the only one, and whose level and any-mask say all that it wants; else 0
//! active   a bit for each of the 8 slots in use
//! slots    level and masks, the filter of call stacks, and the routes of all sessions that ask for just these
//! ```
//!
//! A slot's level and masks change only while its bit in `active` is clear. A write that loaded the bit before the change may
//! still combine an old field with a new one, and write one event too many or too few. Hosts test the enablement again, so
//! nothing unwanted is stored.
//!
//! A classic provider has one session at a time: the one that enabled it last. Its slot lets every event pass, since level and
//! flags mean what the provider defines; its callback gets them.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use etw_ring::MAX_ATTACHMENTS;
use etw_types::{EventDescriptor, Guid, Keyword, Level, Status};

mod callback;
mod classic;
mod enablement;
mod listener;
mod reference;
mod slot;

pub use callback::{ControlCode, EnableCallback, EnableChange};
pub(crate) use classic::{ClassicEnable, MAX_SERIAL};
use listener::Listener;
pub use listener::ProgramGate;
pub(crate) use listener::{Begun, Entered, Following, Listeners};
pub(crate) use reference::ProviderRef;
use slot::Slot;

/// Size of `EVENT_HEADER` on disk.
pub(crate) const EVENT_HEADER_SIZE: u32 = 0x50;

/// The number of sessions that can have one provider enabled at a time.
pub const MAX_SESSIONS: usize = 8;

/// A source of events with a name and a GUID. [`define_provider!`](crate::define_provider) makes a static one.
///
/// A provider writes nothing before it is [registered](Provider::register). Any thread may call any method.
#[derive(Debug)]
pub struct Provider {
    gate: AtomicU32,
    only: AtomicU32,
    active: AtomicU32,
    slots: [Slot; MAX_SESSIONS],
    /// The number by which each attached host knows the provider.
    pub(crate) registrations: [AtomicU32; MAX_ATTACHMENTS],
    #[cfg(windows)]
    pub(crate) system: crate::system::handles::Handles,
    /// The size on disk of a TraceLogging event without its own metadata and payload: header and the provider's traits. With
    /// [`STACKS`].
    described_size: AtomicU32,
    /// The size on disk of any other event without its payload: the header. With [`STACKS`].
    header_size: AtomicU32,
    id: Guid,
    name: Cow<'static, str>,
    traits: Cow<'static, [u8]>,
    /// A [`SchemaBlob`](etw_types::SchemaBlob), or nothing.
    schema: &'static [u8],
    is_classic: bool,
    /// The number of a classic provider's session, 1 to [`MAX_SERIAL`]; each session that takes the provider gets the next.
    serial: AtomicU32,
    state: Mutex<State>,
}

/// A bit in both sizes: a session wants call stacks. No event is so large, so the simple paths refuse it before anything is
/// counted, and the general path captures the stack. A provider without such a session pays nothing.
pub(crate) const STACKS: u32 = 1 << 24;

#[derive(Debug, Default)]
pub(super) struct State {
    registered: usize,
    listeners: Vec<Listener>,
    next_listener: u64,
    /// Counts the changes of the enable state.
    changes: u64,
    classic: ClassicEnable,
}

/// The header's size and that of the traits' item: eight bytes and the blob, padded.
const fn described_size(traits: usize) -> AtomicU32 {
    AtomicU32::new(EVENT_HEADER_SIZE + (8 + traits as u32).next_multiple_of(8))
}

impl Provider {
    /// A static provider. `traits` is the blob that [`etw_tracelogging::provider_traits`] makes from name and group.
    pub const fn new(name: &'static str, id: Guid, traits: &'static [u8]) -> Provider {
        Provider {
            gate: AtomicU32::new(0),
            only: AtomicU32::new(0),
            active: AtomicU32::new(0),
            slots: [const { Slot::new() }; MAX_SESSIONS],
            registrations: [const { AtomicU32::new(0) }; MAX_ATTACHMENTS],
            #[cfg(windows)]
            system: crate::system::handles::Handles::new(),
            described_size: described_size(traits.len()),
            header_size: AtomicU32::new(EVENT_HEADER_SIZE),
            id,
            name: Cow::Borrowed(name),
            traits: Cow::Borrowed(traits),
            schema: &[],
            is_classic: false,
            serial: AtomicU32::new(0),
            state: Mutex::new(State {
                registered: 0,
                listeners: Vec::new(),
                next_listener: 0,
                changes: 0,
                classic: ClassicEnable::NONE,
            }),
        }
    }

    /// A provider without name and GUID whose gate lets every level pass although no session has it enabled. For
    /// [`CurrentProvider`](crate::evntprov::CurrentProvider).
    pub(crate) const fn with_open_gate() -> Provider {
        let mut provider = Provider::new("", Guid::ZERO, &[]);
        provider.gate = AtomicU32::new(u32::MAX);
        provider
    }

    /// The provider with the schemas of its events, which sessions write into their traces. `etw mc --rust` makes the blob.
    pub const fn with_schema(mut self, blob: &'static [u8]) -> Provider {
        self.schema = blob;
        self
    }

    /// The schemas of its events: a blob as in [`with_schema`](Self::with_schema), or nothing.
    pub fn schema(&self) -> &'static [u8] {
        self.schema
    }

    /// A provider whose name is known only at run time.
    ///
    /// # Errors
    /// `ERROR_INVALID_PARAMETER` for a name that holds a NUL or is longer than 32767 bytes.
    pub fn dynamic(name: &str, id: Guid, group: Option<Guid>) -> Result<Arc<Provider>, Status> {
        let traits = etw_tracelogging::provider_traits(name, group)
            .map_err(|_| Status::ERROR_INVALID_PARAMETER)?;
        let mut provider = Provider::new("", id, &[]);
        provider.described_size = described_size(traits.len());
        provider.name = Cow::Owned(name.to_owned());
        provider.traits = Cow::Owned(traits);
        Ok(Arc::new(provider))
    }

    /// A provider with the name in its traits, or with none.
    pub(crate) fn with_traits(id: Guid, traits: &[u8]) -> Provider {
        let mut provider = Provider::new("", id, &[]);
        if let Ok(parsed) = etw_tracelogging::ProviderTraits::parse(traits) {
            provider.name = Cow::Owned(String::from_utf8_lossy(parsed.name()).into_owned());
        }
        provider.described_size = described_size(traits.len());
        provider.traits = Cow::Owned(traits.to_vec());
        provider
    }

    /// The GUID by which sessions enable the provider.
    pub fn id(&self) -> Guid {
        self.id
    }

    /// The name; empty for a provider registered by GUID alone.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The blob of name and group that each TraceLogging event carries; empty without them.
    pub fn traits(&self) -> &[u8] {
        &self.traits
    }

    /// The provider group that the provider belongs to.
    pub fn group(&self) -> Option<Guid> {
        etw_tracelogging::ProviderTraits::parse(self.traits()).ok()?.group()
    }

    /// The gate of every event: whether some session wants events of this level.
    #[inline(always)]
    pub fn has_level(&self, level: Level) -> bool {
        u32::from(level.0) < self.gate.load(Ordering::Relaxed)
    }

    pub(crate) fn gate(&self) -> &AtomicU32 {
        &self.gate
    }

    /// Whether some session wants events of this level and keyword (OV-16).
    #[doc(alias = "EventProviderEnabled")]
    #[inline]
    pub fn is_enabled(&self, level: Level, keyword: Keyword) -> bool {
        self.has_level(level) && self.routes(level, keyword) != 0
    }

    /// The sessions that want events of this level and keyword, as a mask over all attachments.
    #[inline(always)]
    pub(crate) fn routes(&self, level: Level, keyword: Keyword) -> u64 {
        match u32::from(level.0) < self.only.load(Ordering::Acquire) {
            true => self.slots[0].simple_route_of(keyword),
            false => self.routes_of_any(level, keyword),
        }
    }

    /// [`routes`](Self::routes) if at most the first slot is in use, the usual case.
    #[inline(always)]
    pub(crate) fn only_route(&self, level: Level, keyword: Keyword) -> Option<u64> {
        if u32::from(level.0) < self.only.load(Ordering::Acquire) {
            return Some(self.slots[0].simple_route_of(keyword));
        }
        // One test for the usual case.
        etw_types::cold_path();
        match self.active.load(Ordering::Acquire) {
            0 => Some(0),
            1 => Some(self.slots[0].route_of(level, keyword)),
            _ => None,
        }
    }

    /// [`only_route`](Self::only_route) of an event whose level and keyword passed a gate that has the level and masks of all sessions
    /// together, as [`aggregate`](Self::aggregate) returns them. `None`: the provider has to look at the event's level and keyword.
    #[inline(always)]
    pub(crate) fn route_behind_gate(&self) -> Option<u64> {
        let is_simple = self.only.load(Ordering::Acquire) != 0;
        is_simple.then(|| self.slots[0].route.load(Ordering::Relaxed))
    }

    #[cold]
    #[inline(never)]
    fn routes_of_any(&self, level: Level, keyword: Keyword) -> u64 {
        let mut left = self.active.load(Ordering::Acquire);
        let mut routes = 0;
        while left != 0 {
            let slot = &self.slots[left.trailing_zeros() as usize % MAX_SESSIONS];
            left &= left - 1;
            routes |= slot.route_of(level, keyword);
        }
        routes
    }

    /// The size on disk of an event without its payload; with [`STACKS`] while a session wants call stacks. `metadata_size`: the bytes
    /// that its TraceLogging metadata takes on disk, 0 without any.
    #[inline(always)]
    pub(crate) fn size_of_static(&self, metadata_size: u32) -> u32 {
        match metadata_size {
            0 => {
                etw_types::cold_path();
                self.header_size.load(Ordering::Relaxed)
            }
            size => self.described_size.load(Ordering::Relaxed) + size,
        }
    }

    /// Whether a session of `routes` wants the call stack of such an event. `name`: the name of a TraceLogging event.
    pub(crate) fn wants_stack(
        &self,
        routes: u64,
        descriptor: &EventDescriptor,
        name: Option<&[u8]>,
    ) -> bool {
        let active = self.active.load(Ordering::Acquire);
        let slots = self.slots.iter().enumerate().filter(|(slot, _)| active & 1 << slot != 0);
        slots
            .filter(|(_, slot)| slot.route.load(Ordering::Relaxed) & routes != 0)
            .filter_map(|(_, slot)| slot.stacks())
            .any(|filter| filter.passes(descriptor, name))
    }
}
