//! Providers: what is enabled for whom, read by every write and changed under the registry's lock.
//!
//! ```text
//! gate     0, or the most verbose level plus one: the one word that a disabled event loads
//! active   a bit for each of the 8 slots in use
//! slots    level and masks, which events get a call stack, and the routes of all sessions that want just these
//! ```
//!
//! A slot's level and masks are changed only while its bit in `active` is clear. A write that loaded the bit before may still
//! combine an old field with a new one and send one event too many or too few in the moment of a change; hosts check the
//! enablement again, so nothing unwanted is stored.
//!
//! A classic provider has one session at a time, the one that was last to ask for it. Its slot lets everything pass: what level and flags
//! mean is the provider's own affair, which is told them.

use std::borrow::Cow;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use etw_ring::MAX_ATTACHMENTS;
use etw_types::{EventDescriptor, Guid, Level, LevelKeyword, StackFilter, Status, Wanted};

use crate::write::EVENT_HEADER_SIZE;
use crate::{registry, stacks};

/// Sessions that may have one provider enabled at a time.
pub const MAX_SESSIONS: usize = 8;

/// A source of events with a name and a GUID. [`define_provider!`](crate::define_provider) makes a static one.
///
/// Nothing happens before it is [registered](Provider::register). All methods may be called from any thread.
#[derive(Debug)]
pub struct Provider {
    gate: AtomicU32,
    active: AtomicU32,
    slots: [Slot; MAX_SESSIONS],
    /// The number by which each attached host knows it.
    pub(crate) registrations: [AtomicU32; MAX_ATTACHMENTS],
    /// What a TraceLogging event takes on disk without its own metadata and payload: header and the provider's traits. And [`STACKS`].
    described_size: AtomicU32,
    /// What any other event does: the header. And [`STACKS`].
    header_size: AtomicU32,
    id: Guid,
    name: Cow<'static, str>,
    traits: Cow<'static, [u8]>,
    is_classic: bool,
    /// Of a classic provider: the number of its session, 1 to [`MAX_SERIAL`]; another one for each session that takes it.
    serial: AtomicU32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct Slot {
    /// Level, and 0x100 for `ignore_keyword_0`.
    level: AtomicU32,
    any: AtomicU64,
    all: AtomicU64,
    /// A bit for each session: attachment × 8 + session slot.
    route: AtomicU64,
    /// Which events get a call stack; null: none.
    stacks: AtomicPtr<StackFilter>,
}

/// In these sizes: some session wants call stacks. No event is so large, so its simple write is refused before anything is
/// counted, and the general one looks closer: a provider without such a session pays nothing.
pub(crate) const STACKS: u32 = 1 << 24;

/// What a slot is for.
type Wish = (Wanted, Option<&'static StackFilter>);

#[derive(Debug, Default)]
struct State {
    registered: usize,
    callbacks: Vec<(u64, Callback)>,
    next_callback: u64,
    classic: ClassicWish,
}

/// What the session of a classic provider asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassicWish {
    /// As it was asked for.
    pub wanted: LevelKeyword,
    /// What the same session asked for when it took the provider.
    pub first: LevelKeyword,
    /// In nanoseconds of `CLOCK_MONOTONIC`.
    since: u64,
    /// Another number for each wish.
    pub number: u64,
}

impl Default for ClassicWish {
    fn default() -> ClassicWish {
        ClassicWish::NONE
    }
}

impl ClassicWish {
    const NONE: ClassicWish =
        ClassicWish { wanted: LevelKeyword::ALL, first: LevelKeyword::ALL, since: 0, number: 0 };
}

/// Numbers of sessions of classic providers begin again after this.
pub(crate) const MAX_SERIAL: u32 = (1 << 13) - 1;

/// What an enable callback is.
#[doc(alias = "PENABLECALLBACK")]
pub type EnableCallback = dyn Fn(&EnableChange<'_>) + Send + Sync;

#[derive(Clone)]
struct Callback(Arc<EnableCallback>);

impl std::fmt::Debug for Callback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("callback")
    }
}

/// What changed, as an enable callback is told.
#[doc(alias = "PENABLECALLBACK")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnableChange<'a> {
    /// What happened.
    pub control: ControlCode,
    /// For `Enable`: the most verbose level of all sessions (255: all). For `CaptureState`: as requested.
    pub level: u8,
    /// For `Enable`: the masks of all sessions together, all ones for "every keyword".
    pub any: u64,
    /// For `Enable`: the bits that every session wants.
    pub all: u64,
    /// The session that caused it, or zero where the provider was enabled before it registered.
    pub source: Guid,
    /// The session's schematised filter, empty without one.
    pub filter_data: &'a [u8],
}

/// Why an enable callback is called.
#[doc(alias = "EVENT_CONTROL_CODE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ControlCode {
    /// The last session is gone.
    Disable = 0,
    /// A session was added or changed, or one of several has gone.
    Enable = 1,
    /// A session asks for the state that its later events build on: answer with rundown events.
    CaptureState = 2,
}

/// Keeps a provider registered; dropping it unregisters.
///
/// A provider may be registered from several places: it stays registered until the last of them is dropped.
#[derive(Debug)]
#[must_use = "the provider is unregistered when this is dropped"]
pub struct Registration {
    provider: ProviderRef,
    callback: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) enum ProviderRef {
    Static(&'static Provider),
    Shared(Arc<Provider>),
}

impl std::ops::Deref for ProviderRef {
    type Target = Provider;
    fn deref(&self) -> &Provider {
        match self {
            ProviderRef::Static(provider) => provider,
            ProviderRef::Shared(provider) => provider,
        }
    }
}

impl Slot {
    const fn new() -> Slot {
        Slot {
            level: AtomicU32::new(0),
            any: AtomicU64::new(0),
            all: AtomicU64::new(0),
            route: AtomicU64::new(0),
            stacks: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    fn stacks(&self) -> Option<&'static StackFilter> {
        // SAFETY: null, or a filter that is kept for ever.
        unsafe { self.stacks.load(Ordering::Acquire).as_ref() }
    }

    fn is_for(&self, (wanted, stacks): &Wish) -> bool {
        self.load() == *wanted && self.stacks() == *stacks
    }

    #[inline(always)]
    fn load(&self) -> Wanted {
        let level = self.level.load(Ordering::Relaxed);
        Wanted {
            level: level as u8,
            any: self.any.load(Ordering::Relaxed),
            all: self.all.load(Ordering::Relaxed),
            ignore_keyword_0: level & 0x100 != 0,
        }
    }

    /// The session's route if it wants such an event, else 0.
    #[inline(always)]
    fn route_of(&self, level: u8, keyword: u64) -> u64 {
        match self.load().matches(level, keyword) {
            true => self.route.load(Ordering::Relaxed),
            false => 0,
        }
    }

    fn store(&self, (wanted, stacks): &Wish, route: u64) {
        let stacks =
            stacks.map_or(std::ptr::null_mut(), |filter| std::ptr::from_ref(filter).cast_mut());
        self.stacks.store(stacks, Ordering::Release);
        let flag = u32::from(wanted.ignore_keyword_0) << 8;
        self.level.store(u32::from(wanted.level) | flag, Ordering::Relaxed);
        self.any.store(wanted.any, Ordering::Relaxed);
        self.all.store(wanted.all, Ordering::Relaxed);
        self.route.store(route, Ordering::Relaxed);
    }
}

/// With the traits' item: eight bytes and the blob, padded.
const fn described_size(traits: usize) -> AtomicU32 {
    AtomicU32::new(EVENT_HEADER_SIZE + (8 + traits as u32).next_multiple_of(8))
}

impl Provider {
    /// A static provider; `traits` is the blob that [`etw_tracelogging::provider_traits`] makes of name and group.
    pub const fn new(name: &'static str, id: Guid, traits: &'static [u8]) -> Provider {
        Provider {
            gate: AtomicU32::new(0),
            active: AtomicU32::new(0),
            slots: [const { Slot::new() }; MAX_SESSIONS],
            registrations: [const { AtomicU32::new(0) }; MAX_ATTACHMENTS],
            described_size: described_size(traits.len()),
            header_size: AtomicU32::new(EVENT_HEADER_SIZE),
            id,
            name: Cow::Borrowed(name),
            traits: Cow::Borrowed(traits),
            is_classic: false,
            serial: AtomicU32::new(0),
            state: Mutex::new(State {
                registered: 0,
                callbacks: Vec::new(),
                next_callback: 0,
                classic: ClassicWish::NONE,
            }),
        }
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

    /// A provider without a name, or with the one in its traits.
    pub(crate) fn with_traits(id: Guid, traits: &[u8]) -> Provider {
        let mut provider = Provider::new("", id, &[]);
        if let Ok(parsed) = etw_tracelogging::ProviderTraits::parse(traits) {
            provider.name = Cow::Owned(String::from_utf8_lossy(parsed.name()).into_owned());
        }
        provider.described_size = described_size(traits.len());
        provider.traits = Cow::Owned(traits.to_vec());
        provider
    }

    /// A classic provider.
    pub(crate) fn classic(id: Guid) -> Provider {
        Provider { is_classic: true, ..Provider::new("", id, &[]) }
    }

    /// The GUID by which sessions enable it.
    pub fn id(&self) -> Guid {
        self.id
    }

    /// The name, empty for one registered by GUID alone.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name and group as each TraceLogging event carries them; empty without any.
    pub fn traits(&self) -> &[u8] {
        &self.traits
    }

    /// The provider group it belongs to.
    pub fn group(&self) -> Option<Guid> {
        etw_tracelogging::ProviderTraits::parse(self.traits()).ok()?.group()
    }

    /// Registers the provider, so that sessions can enable it. May be called from several places.
    pub fn register(&'static self) -> Registration {
        registry::register(ProviderRef::Static(self), None)
    }

    /// As [`register`](Self::register), with a callback for every change of the enablement (OV-15): at once when it is
    /// enabled already.
    ///
    /// The callback may write events. It may run at the same time as writes of other threads, and must not register or
    /// unregister its own provider.
    pub fn register_with(
        &'static self,
        callback: impl Fn(&EnableChange<'_>) + Send + Sync + 'static,
    ) -> Registration {
        registry::register(ProviderRef::Static(self), Some(Arc::new(callback)))
    }

    /// Registers a provider made at run time.
    pub fn register_shared(
        self: &Arc<Self>,
        callback: Option<Arc<EnableCallback>>,
    ) -> Registration {
        registry::register(ProviderRef::Shared(self.clone()), callback)
    }

    /// The gate of every event: does some session want events of this level?
    #[inline(always)]
    pub fn has_level(&self, level: u8) -> bool {
        u32::from(level) < self.gate.load(Ordering::Relaxed)
    }

    pub(crate) fn gate(&self) -> &AtomicU32 {
        &self.gate
    }

    /// Does some session want events of this level and keyword? (OV-16)
    #[doc(alias = "EventProviderEnabled")]
    #[inline]
    pub fn is_enabled(&self, level: Level, keyword: u64) -> bool {
        self.has_level(level.0) && self.routes(level.0, keyword) != 0
    }

    /// The sessions that want such an event, as a mask over all attachments.
    #[inline(always)]
    pub(crate) fn routes(&self, level: u8, keyword: u64) -> u64 {
        self.only_route(level, keyword).unwrap_or_else(|| self.routes_of_any(level, keyword))
    }

    /// The same where one session is all that there is, which is the usual case: a slot that need not be searched is read before it is
    /// known to be the one.
    #[inline(always)]
    pub(crate) fn only_route(&self, level: u8, keyword: u64) -> Option<u64> {
        let active = self.active.load(Ordering::Acquire);
        match active {
            0 => Some(0),
            1 => Some(self.slots[0].route_of(level, keyword)),
            _ => None,
        }
    }

    #[cold]
    #[inline(never)]
    fn routes_of_any(&self, level: u8, keyword: u64) -> u64 {
        let mut left = self.active.load(Ordering::Acquire);
        let mut routes = 0;
        while left != 0 {
            let slot = &self.slots[left.trailing_zeros() as usize % MAX_SESSIONS];
            left &= left - 1;
            routes |= slot.route_of(level, keyword);
        }
        routes
    }

    /// On-disk size of an event without its payload; with [`STACKS`] added while a session wants call stacks. `metadata_room`: what its
    /// TraceLogging metadata takes, 0 without any.
    #[inline(always)]
    pub(crate) fn size_of_static(&self, metadata_room: u32) -> u32 {
        match metadata_room {
            0 => self.header_size.load(Ordering::Relaxed),
            room => self.described_size.load(Ordering::Relaxed) + room,
        }
    }

    /// Does a session of `routes` want the call stack of such an event? `name`: that of a TraceLogging event.
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

    // ---- changes: under the registry's lock -----------------------------------------------------------------------

    fn state(&self) -> MutexGuard<'_, State> {
        // A callback that panicked leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slots in use, in their order.
    fn used(&self) -> impl Iterator<Item = (usize, &Slot)> {
        let active = self.active.load(Ordering::Relaxed);
        self.slots.iter().enumerate().filter(move |(slot, _)| active & 1 << slot != 0)
    }

    fn use_slot(&self, slot: usize, wish: &Wish, route: u64) {
        self.active.fetch_and(!(1 << slot), Ordering::Relaxed);
        self.slots[slot].store(wish, route);
        // Release: a write that sees the bit sees the fields.
        self.active.fetch_or(1 << slot, Ordering::Release);
    }

    /// Takes sessions out of a slot; whether any was there. The fields of a slot without sessions stay as they are: a write that has
    /// loaded `active` before finds them.
    fn leave_slot(&self, slot: usize, routes: u64) -> bool {
        let before = self.slots[slot].route.load(Ordering::Relaxed);
        if before & routes == 0 {
            return false;
        }
        match before & !routes {
            0 => self.active.fetch_and(!(1 << slot), Ordering::Release) & 1 << slot != 0,
            _ => self.slots[slot].route.fetch_and(!routes, Ordering::Relaxed) & routes != 0,
        }
    }

    /// Sets what the session behind `route` wants, and of which events it wants the call stack.
    ///
    /// # Errors
    /// `ERROR_NO_SYSTEM_RESOURCES` for a ninth session.
    pub(crate) fn set_slot(
        &self,
        route: u64,
        wanted: &LevelKeyword,
        stacks: Option<&StackFilter>,
    ) -> Result<(), Status> {
        let wish = (wanted.wanted(), stacks.map(stacks::intern));
        let of = |slot: &Slot| slot.route.load(Ordering::Relaxed);
        let old = self.used().find(|(_, slot)| of(slot) & route != 0).map(|(old, _)| old);
        let sessions: u32 = self.used().map(|(_, slot)| of(slot).count_ones()).sum();
        if old.is_none() && sessions as usize >= MAX_SESSIONS {
            return Err(Status::ERROR_NO_SYSTEM_RESOURCES);
        }
        let same = self.used().find(|(_, slot)| slot.is_for(&wish)).map(|(same, _)| same);
        if same.is_some() && same == old {
            return Ok(());
        }
        let active = self.active.load(Ordering::Relaxed);
        let free = (0..MAX_SESSIONS).find(|slot| active & 1 << slot == 0);
        match (same, free, old) {
            // Sessions that want the same share a slot: a write asks once for all of them.
            (Some(same), ..) => {
                self.slots[same].route.fetch_or(route, Ordering::Release);
                old.map(|old| self.leave_slot(old, route));
            }
            // What is changed goes by way of another slot, and then back, since the first slot is the fastest: writes meanwhile find the
            // old wish or the new one.
            (None, Some(free), _) => {
                self.use_slot(free, &wish, route);
                if let Some(old) = old {
                    self.leave_slot(old, route);
                    if old < free && self.active.load(Ordering::Relaxed) & 1 << old == 0 {
                        self.use_slot(old, &wish, route);
                        self.leave_slot(free, route);
                    }
                }
            }
            // Eight sessions with a wish of their own each: in place.
            (None, None, Some(old)) => self.use_slot(old, &wish, route),
            (None, None, None) => return Err(Status::ERROR_NO_SYSTEM_RESOURCES),
        }
        self.set_gate();
        Ok(())
    }

    /// As [`set_slot`](Self::set_slot), for a wish that is as old as it says; whether that changed anything. Of a classic provider, the
    /// newest wish holds.
    ///
    /// # Errors
    /// `ERROR_NO_SYSTEM_RESOURCES` for a ninth session.
    pub(crate) fn want(
        &self,
        route: u64,
        wanted: &LevelKeyword,
        stacks: Option<&StackFilter>,
        since: u64,
    ) -> Result<bool, Status> {
        if !self.is_classic {
            return self.set_slot(route, wanted, stacks).map(|()| true);
        }
        let mut state = self.state();
        let wish = &mut state.classic;
        if since < wish.since {
            return Ok(false);
        }
        let is_there = self.routes(0, 0) == route;
        // One that is told again, by a host that has been replaced.
        if is_there && since == wish.since && *wanted == wish.wanted {
            return Ok(false);
        }
        let first = if is_there { wish.first } else { *wanted };
        *wish = ClassicWish { wanted: *wanted, first, since, number: wish.number + 1 };
        if !is_there {
            static LAST: AtomicU32 = AtomicU32::new(0);
            let serial = LAST.fetch_add(1, Ordering::Relaxed) % MAX_SERIAL + 1;
            self.clear_slots(u64::MAX);
            self.serial.store(serial, Ordering::Release);
            self.set_slot(route, &LevelKeyword::ALL, None)?;
        }
        Ok(true)
    }

    pub(crate) fn is_classic(&self) -> bool {
        self.is_classic
    }

    /// Of a classic provider: the number of its session.
    #[inline]
    pub(crate) fn serial(&self) -> u32 {
        self.serial.load(Ordering::Acquire)
    }

    /// Of a classic provider: what its session wants; `None` without one.
    pub(crate) fn classic_wish(&self) -> Option<ClassicWish> {
        let state = self.state();
        (self.routes(0, 0) != 0).then_some(state.classic)
    }

    /// The sessions of `routes` want nothing more. Whether any of them was there.
    pub(crate) fn clear_slots(&self, routes: u64) -> bool {
        let active = self.active.load(Ordering::Relaxed);
        let mut any = false;
        for slot in (0..MAX_SESSIONS).filter(|slot| active & 1 << slot != 0) {
            any |= self.leave_slot(slot, routes);
        }
        self.set_gate();
        any
    }

    /// The sessions of hosts that this process is not attached to (any more) want nothing. Lock-free; only the slots
    /// change, so the registry's own record is as it was.
    pub(crate) fn forget_detached(&self) {
        let mut gone = 0;
        for attachment in 0..MAX_ATTACHMENTS {
            if !registry::is_attached(attachment) {
                gone |= registry::routes(attachment);
            }
        }
        self.clear_slots(gone);
    }

    fn active_slots(&self) -> impl Iterator<Item = Wanted> {
        self.used().map(|(_, slot)| slot.load())
    }

    fn set_gate(&self) {
        let gate = self.active_slots().map(|wanted| u32::from(wanted.level) + 1).max();
        let any_stacks = self.used().any(|(_, slot)| slot.stacks().is_some());
        for size in [&self.described_size, &self.header_size] {
            match any_stacks {
                true => size.fetch_or(STACKS, Ordering::Relaxed),
                false => size.fetch_and(!STACKS, Ordering::Relaxed),
            };
        }
        self.gate.store(gate.unwrap_or(0), Ordering::Relaxed);
    }

    /// Does a session of the attachment want call stacks?
    pub(crate) fn wants_stacks(&self, attachment: usize) -> bool {
        let routes = registry::routes(attachment);
        self.used().any(|(_, slot)| {
            slot.route.load(Ordering::Relaxed) & routes != 0 && slot.stacks().is_some()
        })
    }

    /// All sessions together, as callbacks are told: `None` when there is none.
    pub(crate) fn aggregate(&self) -> Option<(u8, u64, u64)> {
        self.active_slots()
            .map(|wanted| (wanted.level, wanted.any, wanted.all))
            .reduce(|a, b| (a.0.max(b.0), a.1 | b.1, a.2 & b.2))
    }

    /// One registration more; whether it is the first, and the callback's number.
    pub(crate) fn enter(&self, callback: Option<Arc<EnableCallback>>) -> (bool, Option<u64>) {
        let mut state = self.state();
        state.registered += 1;
        if state.registered == 1 {
            // Whose wish was the newest says nothing any more.
            state.classic.since = 0;
        }
        let number = callback.map(|callback| {
            state.next_callback += 1;
            let number = state.next_callback;
            state.callbacks.push((number, Callback(callback)));
            number
        });
        (state.registered == 1, number)
    }

    /// One registration less; whether it was the last.
    pub(crate) fn leave(&self) -> bool {
        let mut state = self.state();
        state.registered -= 1;
        state.registered == 0
    }

    /// The callbacks to call, or that one.
    pub(crate) fn callbacks(&self, only: Option<u64>) -> Vec<Arc<EnableCallback>> {
        let state = self.state();
        let wanted = state.callbacks.iter().filter(|(number, _)| only.is_none_or(|n| n == *number));
        wanted.map(|(_, callback)| callback.0.clone()).collect()
    }

    pub(crate) fn remove_callback(&self, number: u64) {
        self.state().callbacks.retain(|(n, _)| *n != number);
    }
}

impl Registration {
    pub(crate) fn new(provider: ProviderRef, callback: Option<u64>) -> Registration {
        Registration { provider, callback }
    }

    /// The provider.
    pub fn provider(&self) -> &Provider {
        &self.provider
    }

    /// Keeps it registered for as long as the process lives.
    pub fn forever(self) {
        std::mem::forget(self);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        registry::unregister(&self.provider, self.callback);
    }
}
