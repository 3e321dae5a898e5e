//! Registrations by handle.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use etw_types::{EventDescriptor, Guid, Keyword, Level, Status, Wanted};

#[cfg(any(target_os = "linux", all(unix, feature = "session")))]
use crate::fork;
use crate::lock::ForkLock;
use crate::provider::{EnableCallback, Following, ProgramGate, Provider, ProviderRef};
use crate::registration::{self, Registration};

/// The number of registrations that a process can have at a time through these calls.
pub const MAX_REGISTRATIONS: usize = 2048;

/// A registration: the number of its entry in the low 11 bits, and above them a count of registrations from 1, so that a handle that
/// was unregistered differs from all later ones.
#[doc(alias = "REGHANDLE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegHandle(pub u64);

/// The settings of [`event_set_information`].
#[doc(alias = "EVENT_INFO_CLASS")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[non_exhaustive]
pub enum EventInfoClass {
    /// Path of the provider's binary. Accepted without data, and without effect: the process id leads to the binary.
    BinaryTrackInfo = 0,
    /// Reserved.
    SetReserved1 = 1,
    /// The traits: name and group.
    SetTraits = 2,
    /// Whether the types of data descriptors count.
    UseDescriptorType = 3,
}

pub(super) struct Entry {
    /// The handle while it is used, 0 before and after.
    pub(super) handle: AtomicU64,
    pub(super) provider: AtomicPtr<Provider>,
    pub(super) has_types: AtomicBool,
}

static ENTRIES: [Entry; MAX_REGISTRATIONS] = [const {
    Entry {
        handle: AtomicU64::new(0),
        provider: AtomicPtr::new(std::ptr::null_mut()),
        has_types: AtomicBool::new(false),
    }
}; MAX_REGISTRATIONS];

struct Table {
    states: Vec<State>,
    /// Free entries, in the order in which they became free.
    free: VecDeque<usize>,
    /// The count of registrations.
    uses: u64,
    /// Providers that are not registered now. They are never freed, since a write may hold one, and serve the next registration of
    /// the same GUID.
    idle: Vec<&'static Provider>,
}

/// The state of an entry.
enum State {
    Free,
    /// A thread registers, changes or unregisters it without the lock, since callbacks run meanwhile.
    Changing,
    Taken(Registered),
}

impl State {
    /// Takes the registration out of the entry, for a change.
    fn take(&mut self) -> Option<Registered> {
        match std::mem::replace(self, State::Changing) {
            State::Taken(registered) => Some(registered),
            other => {
                *self = other;
                None
            }
        }
    }
}

struct Registered {
    registration: Registration,
    provider: &'static Provider,
    following: Following,
    has_traits: bool,
}

static TABLE: ForkLock<Table> =
    ForkLock::new(Table { states: Vec::new(), free: VecDeque::new(), uses: 0, idle: Vec::new() });

/// So many entries stay free if others were never used. A write that has found its handle valid loads the entry's provider next, and
/// must not find that of the next registration.
const RESTING: usize = 64;

impl Table {
    fn free_entry(&mut self) -> Option<usize> {
        let count = self.states.len();
        if self.free.len() <= RESTING && count < MAX_REGISTRATIONS {
            self.states.push(State::Free);
            return Some(count);
        }
        self.free.pop_front()
    }
}

fn table() -> MutexGuard<'static, Table> {
    #[cfg(any(target_os = "linux", all(unix, feature = "session")))]
    fork::hold(fork::Place::Handles, &TABLE);
    TABLE.lock()
}

#[inline]
fn entry_of(handle: RegHandle) -> Option<(usize, &'static Entry)> {
    let index = (handle.0 % MAX_REGISTRATIONS as u64) as usize;
    let entry = &ENTRIES[index];
    // No handle is 0, the value of an unused entry.
    (entry.handle.load(Ordering::Acquire) == handle.0 && handle.0 != 0).then_some((index, entry))
}

/// The provider of a handle. Async-signal-safe.
#[inline]
pub(super) fn provider_of(handle: RegHandle) -> Option<(&'static Entry, &'static Provider)> {
    let entry = &ENTRIES[(handle.0 % MAX_REGISTRATIONS as u64) as usize];
    if entry.handle.load(Ordering::Acquire) != handle.0 {
        return None;
    }
    // An unused entry has handle 0 and no provider.
    // SAFETY: null, or a provider that is never freed.
    let provider = unsafe { entry.provider.load(Ordering::Acquire).as_ref() }?;
    Some((entry, provider))
}

fn provider_for(table: &mut Table, id: Guid, traits: &[u8]) -> &'static Provider {
    let fits = |provider: &&'static Provider| provider.id() == id && provider.traits() == traits;
    match table.idle.iter().position(fits) {
        Some(index) => table.idle.swap_remove(index),
        None => Box::leak(Box::new(Provider::with_traits(id, traits))),
    }
}

/// `known`: the enable state that the callback knows.
fn register(
    provider: &'static Provider,
    following: Following,
    known: Option<Wanted>,
) -> Registration {
    registration::register(ProviderRef::Static(provider), following, known)
}

/// Registers a provider by its GUID.
///
/// # Errors
/// `ERROR_NO_SYSTEM_RESOURCES` when the process has 2048 registrations.
#[doc(alias = "EventRegister")]
pub fn event_register(
    id: &Guid,
    callback: Option<Arc<EnableCallback>>,
) -> Result<RegHandle, Status> {
    event_register_new(id, NewRegistration { callback, ..NewRegistration::default() }, |_| ())
}

/// A registration besides its GUID, for [`event_register_new`].
#[doc(hidden)]
#[derive(Clone, Default)]
pub struct NewRegistration<'a> {
    pub callback: Option<Arc<EnableCallback>>,
    /// Empty without traits.
    pub traits: &'a [u8],
    /// Follows the enable state until the provider is unregistered.
    pub gate: Option<&'static ProgramGate>,
}

impl std::fmt::Debug for NewRegistration<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewRegistration").field("traits", &self.traits).finish_non_exhaustive()
    }
}

/// Registers a provider with its traits at once, so that no event is without them. `announce` gets the handle before the callback can
/// be called, the gate can open or any session can want an event.
///
/// # Errors
/// `ERROR_NO_SYSTEM_RESOURCES` when the process has 2048 registrations; `ERROR_INVALID_PARAMETER`: damaged traits, or a gate without any.
#[doc(hidden)]
pub fn event_register_new(
    id: &Guid,
    new: NewRegistration<'_>,
    announce: impl FnOnce(RegHandle),
) -> Result<RegHandle, Status> {
    let NewRegistration { callback, traits, gate } = new;
    let has_traits = !traits.is_empty();
    let is_whole = !has_traits || etw_tracelogging::ProviderTraits::parse(traits).is_ok();
    // A gate follows one registration, which traits that are set later would replace.
    if !is_whole || (gate.is_some() && !has_traits) {
        return Err(Status::ERROR_INVALID_PARAMETER);
    }
    let (index, handle, provider) = {
        let mut table = table();
        let index = table.free_entry().ok_or(Status::ERROR_NO_SYSTEM_RESOURCES)?;
        table.states[index] = State::Changing;
        table.uses += 1;
        let handle = RegHandle(table.uses * MAX_REGISTRATIONS as u64 + index as u64);
        (index, handle, provider_for(&mut table, *id, traits))
    };
    let entry = &ENTRIES[index];
    entry.has_types.store(has_traits, Ordering::Relaxed);
    // An entry with handle 0 never has a provider: a write with handle 0 would find it.
    entry.handle.store(handle.0, Ordering::Release);
    entry.provider.store(std::ptr::from_ref(provider).cast_mut(), Ordering::Release);
    // The callback runs within and may write through the handle, so the entry is valid by now.
    announce(handle);
    let following = Following { callback, gate };
    let registration = register(provider, following.clone(), None);
    table().states[index] =
        State::Taken(Registered { registration, provider, following, has_traits });
    Ok(handle)
}

/// Unregisters. When it returns, no callback of the registration runs any more.
#[doc(alias = "EventUnregister")]
pub fn event_unregister(handle: RegHandle) -> Status {
    let Some((index, entry)) = entry_of(handle) else { return Status::ERROR_INVALID_HANDLE };
    let mut table = table();
    // Tested again with the lock: another thread may have unregistered it.
    let taken = entry_of(handle).and_then(|_| table.states[index].take());
    let Some(registered) = taken else { return Status::ERROR_INVALID_HANDLE };
    drop(table);
    entry.provider.store(std::ptr::null_mut(), Ordering::Release);
    entry.handle.store(0, Ordering::Release);
    let provider = registered.provider;
    drop(registered);
    let mut table = self::table();
    table.idle.push(provider);
    table.states[index] = State::Free;
    table.free.push_back(index);
    Status::ERROR_SUCCESS
}

/// Sets what [`EventInfoClass`] names; `class` is its number.
///
/// Returns `ERROR_NOT_SUPPORTED` for an unknown class, and `ERROR_INVALID_PARAMETER` for data that does not fit the class and for
/// traits that were set before.
#[doc(alias = "EventSetInformation")]
pub fn event_set_information(handle: RegHandle, class: u32, data: &[u8]) -> Status {
    let Some((index, entry)) = entry_of(handle) else { return Status::ERROR_INVALID_HANDLE };
    match class {
        0 if data.is_empty() => Status::ERROR_SUCCESS,
        0 => Status::ERROR_INVALID_PARAMETER,
        2 => set_traits(index, entry, data),
        3 => match data {
            [0] => {
                entry.has_types.store(false, Ordering::Relaxed);
                Status::ERROR_SUCCESS
            }
            [_] => {
                entry.has_types.store(true, Ordering::Relaxed);
                Status::ERROR_SUCCESS
            }
            _ => Status::ERROR_INVALID_PARAMETER,
        },
        _ => Status::ERROR_NOT_SUPPORTED,
    }
}

/// Replaces the registration's provider by one that has the traits.
fn set_traits(index: usize, entry: &Entry, traits: &[u8]) -> Status {
    let is_whole = etw_tracelogging::ProviderTraits::parse(traits).is_ok();
    if !is_whole {
        return Status::ERROR_INVALID_PARAMETER;
    }
    let mut table = table();
    let Some(registered) = table.states[index].take() else {
        return Status::ERROR_INVALID_HANDLE;
    };
    if registered.has_traits {
        table.states[index] = State::Taken(registered);
        return Status::ERROR_INVALID_PARAMETER;
    }
    let provider = provider_for(&mut table, registered.provider.id(), traits);
    let following = registered.following.clone();
    drop(table);
    let before = registered.provider;
    // The callback is called for the new registration only if that has other sessions, by its group.
    let registration = register(provider, following.clone(), before.aggregate());
    entry.provider.store(std::ptr::from_ref(provider).cast_mut(), Ordering::Release);
    entry.has_types.store(true, Ordering::Relaxed);
    drop(registered.registration);
    let mut table = self::table();
    table.states[index] =
        State::Taken(Registered { registration, provider, following, has_traits: true });
    table.idle.push(before);
    Status::ERROR_SUCCESS
}

/// Whether a session wants events with this descriptor.
#[doc(alias = "EventEnabled")]
pub fn event_enabled(handle: RegHandle, descriptor: &EventDescriptor) -> bool {
    event_provider_enabled(handle, descriptor.level, descriptor.keyword)
}

/// Whether a session wants events of this level and keyword.
#[doc(alias = "EventProviderEnabled")]
pub fn event_provider_enabled(handle: RegHandle, level: Level, keyword: Keyword) -> bool {
    provider_of(handle).is_some_and(|(_, provider)| provider.is_enabled(level, keyword))
}

/// The gate word of a registration: larger than every level of which some session may want events. For the gate on C's side. The
/// word is never freed, but it is no longer the registration's once that has ended or got traits.
#[doc(hidden)]
pub fn event_gate(handle: RegHandle) -> Option<&'static AtomicU32> {
    provider_of(handle).map(|(_, provider)| provider.gate())
}

/// The provider of a handle. It is never freed, but it is no longer the registration's once that has ended or got traits.
#[doc(hidden)]
#[inline(always)]
pub fn provider_of_handle(handle: RegHandle) -> Option<&'static Provider> {
    provider_of(handle).map(|(_, provider)| provider)
}
