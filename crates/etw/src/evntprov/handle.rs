//! Registrations by handle.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use etw_types::{EventDescriptor, Guid, Keyword, Level, Status};

use crate::lock::lock;
use crate::provider::{EnableCallback, Provider, ProviderRef};
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
    callback: Option<Arc<EnableCallback>>,
    has_traits: bool,
}

static TABLE: Mutex<Table> = Mutex::new(Table { states: Vec::new(), uses: 0, idle: Vec::new() });

fn table() -> std::sync::MutexGuard<'static, Table> {
    lock(&TABLE)
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

fn register(provider: &'static Provider, callback: Option<Arc<EnableCallback>>) -> Registration {
    registration::register(ProviderRef::Static(provider), callback)
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
    let (index, handle, provider) = {
        let mut table = table();
        let index = match table.states.iter().position(|state| matches!(state, State::Free)) {
            Some(index) => index,
            None if table.states.len() < MAX_REGISTRATIONS => {
                table.states.push(State::Free);
                table.states.len() - 1
            }
            None => return Err(Status::ERROR_NO_SYSTEM_RESOURCES),
        };
        table.states[index] = State::Changing;
        table.uses += 1;
        let handle = RegHandle(table.uses * MAX_REGISTRATIONS as u64 + index as u64);
        (index, handle, provider_for(&mut table, *id, &[]))
    };
    let entry = &ENTRIES[index];
    entry.provider.store(std::ptr::from_ref(provider).cast_mut(), Ordering::Release);
    entry.has_types.store(false, Ordering::Relaxed);
    entry.handle.store(handle.0, Ordering::Release);
    // The callback runs within and may write through the handle, so the entry is valid by now.
    let registration = register(provider, callback.clone());
    table().states[index] =
        State::Taken(Registered { registration, provider, callback, has_traits: false });
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
    entry.handle.store(0, Ordering::Release);
    entry.provider.store(std::ptr::null_mut(), Ordering::Release);
    let provider = registered.provider;
    drop(registered);
    let mut table = self::table();
    table.idle.push(provider);
    table.states[index] = State::Free;
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
    let callback = registered.callback.clone();
    drop(table);
    let registration = register(provider, callback.clone());
    let before = registered.provider;
    drop(registered.registration);
    entry.provider.store(std::ptr::from_ref(provider).cast_mut(), Ordering::Release);
    entry.has_types.store(true, Ordering::Relaxed);
    let mut table = self::table();
    table.states[index] =
        State::Taken(Registered { registration, provider, callback, has_traits: true });
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
