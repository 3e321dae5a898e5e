//! Registrations by handle.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use etw_types::{EventDescriptor, Guid, Keyword, Level, Status};

use crate::lock::lock;
use crate::provider::{EnableCallback, Provider, ProviderRef};
use crate::registration::{self, Registration};

/// Registrations that a process may have at a time through these calls.
pub const MAX_REGISTRATIONS: usize = 2048;

/// A registration: the number of its place in the low 11 bits, and above them that of the registration, from 1, so that a handle that
/// was unregistered is told from all later ones.
#[doc(alias = "REGHANDLE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegHandle(pub u64);

/// What [`event_set_information`] sets.
#[doc(alias = "EVENT_INFO_CLASS")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum EventInfoClass {
    /// The provider's binary is to be recorded.
    BinaryTrackInfo = 0,
    /// Reserved.
    SetReserved1 = 1,
    /// Name and group.
    SetTraits = 2,
    /// Whether data descriptors have types.
    UseDescriptorType = 3,
}

pub(super) struct Place {
    /// The handle while it is used, 0 before and after.
    pub(super) handle: AtomicU64,
    pub(super) provider: AtomicPtr<Provider>,
    pub(super) has_types: AtomicBool,
}

static PLACES: [Place; MAX_REGISTRATIONS] = [const {
    Place {
        handle: AtomicU64::new(0),
        provider: AtomicPtr::new(std::ptr::null_mut()),
        has_types: AtomicBool::new(false),
    }
}; MAX_REGISTRATIONS];

struct Table {
    seats: Vec<Seat>,
    /// Registrations so far.
    uses: u64,
    /// Providers that are not registered now. They are never freed, since a write may be on its way with one, and so are
    /// used again for the same GUID.
    idle: Vec<&'static Provider>,
}

/// What is behind a place.
enum Seat {
    Free,
    /// Somebody registers, changes or unregisters it, without the lock: callbacks run meanwhile.
    Changing,
    Taken(Registered),
}

impl Seat {
    /// Takes the registration out, for a change.
    fn take(&mut self) -> Option<Registered> {
        match std::mem::replace(self, Seat::Changing) {
            Seat::Taken(registered) => Some(registered),
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

static TABLE: Mutex<Table> = Mutex::new(Table { seats: Vec::new(), uses: 0, idle: Vec::new() });

fn table() -> std::sync::MutexGuard<'static, Table> {
    lock(&TABLE)
}

#[inline]
fn place_of(handle: RegHandle) -> Option<(usize, &'static Place)> {
    let index = (handle.0 % MAX_REGISTRATIONS as u64) as usize;
    let place = &PLACES[index];
    // No handle is 0, which a place has that nobody uses.
    (place.handle.load(Ordering::Acquire) == handle.0 && handle.0 != 0).then_some((index, place))
}

/// The provider of a handle. Async-signal-safe.
#[inline]
pub(super) fn provider_of(handle: RegHandle) -> Option<(&'static Place, &'static Provider)> {
    let place = &PLACES[(handle.0 % MAX_REGISTRATIONS as u64) as usize];
    if place.handle.load(Ordering::Acquire) != handle.0 {
        return None;
    }
    // A place that nobody uses has handle 0 and no provider.
    // SAFETY: null, or a provider that is never freed.
    let provider = unsafe { place.provider.load(Ordering::Acquire).as_ref() }?;
    Some((place, provider))
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
        let index = match table.seats.iter().position(|seat| matches!(seat, Seat::Free)) {
            Some(index) => index,
            None if table.seats.len() < MAX_REGISTRATIONS => {
                table.seats.push(Seat::Free);
                table.seats.len() - 1
            }
            None => return Err(Status::ERROR_NO_SYSTEM_RESOURCES),
        };
        table.seats[index] = Seat::Changing;
        table.uses += 1;
        let handle = RegHandle(table.uses * MAX_REGISTRATIONS as u64 + index as u64);
        (index, handle, provider_for(&mut table, *id, &[]))
    };
    let place = &PLACES[index];
    place.provider.store(std::ptr::from_ref(provider).cast_mut(), Ordering::Release);
    place.has_types.store(false, Ordering::Relaxed);
    place.handle.store(handle.0, Ordering::Release);
    // The callback runs within, and may write through the handle: so the place is taken by now.
    let registration = register(provider, callback.clone());
    table().seats[index] =
        Seat::Taken(Registered { registration, provider, callback, has_traits: false });
    Ok(handle)
}

/// Unregisters; a callback that is running has ended when it returns.
#[doc(alias = "EventUnregister")]
pub fn event_unregister(handle: RegHandle) -> Status {
    let Some((index, place)) = place_of(handle) else { return Status::ERROR_INVALID_HANDLE };
    let mut table = table();
    // Once more, with the lock: another thread may have ended it.
    let taken = place_of(handle).and_then(|_| table.seats[index].take());
    let Some(registered) = taken else { return Status::ERROR_INVALID_HANDLE };
    drop(table);
    place.handle.store(0, Ordering::Release);
    place.provider.store(std::ptr::null_mut(), Ordering::Release);
    let provider = registered.provider;
    drop(registered);
    let mut table = self::table();
    table.idle.push(provider);
    table.seats[index] = Seat::Free;
    Status::ERROR_SUCCESS
}

/// Sets what [`EventInfoClass`] names; `class` is its number.
///
/// Returns `ERROR_NOT_SUPPORTED` for a class that is none, `ERROR_INVALID_PARAMETER` for data that does not fit it, and
/// for traits that were set before.
#[doc(alias = "EventSetInformation")]
pub fn event_set_information(handle: RegHandle, class: u32, data: &[u8]) -> Status {
    let Some((index, place)) = place_of(handle) else { return Status::ERROR_INVALID_HANDLE };
    match class {
        // A provider's binary is found through the process here.
        0 if data.is_empty() => Status::ERROR_SUCCESS,
        0 => Status::ERROR_INVALID_PARAMETER,
        2 => set_traits(index, place, data),
        3 => match data {
            [0] => {
                place.has_types.store(false, Ordering::Relaxed);
                Status::ERROR_SUCCESS
            }
            [_] => {
                place.has_types.store(true, Ordering::Relaxed);
                Status::ERROR_SUCCESS
            }
            _ => Status::ERROR_INVALID_PARAMETER,
        },
        _ => Status::ERROR_NOT_SUPPORTED,
    }
}

/// The registration goes on with a provider that has the traits.
fn set_traits(index: usize, place: &Place, traits: &[u8]) -> Status {
    let is_whole = etw_tracelogging::ProviderTraits::parse(traits).is_ok();
    if !is_whole {
        return Status::ERROR_INVALID_PARAMETER;
    }
    let mut table = table();
    let Some(registered) = table.seats[index].take() else {
        return Status::ERROR_INVALID_HANDLE;
    };
    if registered.has_traits {
        table.seats[index] = Seat::Taken(registered);
        return Status::ERROR_INVALID_PARAMETER;
    }
    let provider = provider_for(&mut table, registered.provider.id(), traits);
    let callback = registered.callback.clone();
    drop(table);
    let registration = register(provider, callback.clone());
    let before = registered.provider;
    drop(registered.registration);
    place.provider.store(std::ptr::from_ref(provider).cast_mut(), Ordering::Release);
    place.has_types.store(true, Ordering::Relaxed);
    let mut table = self::table();
    table.seats[index] =
        Seat::Taken(Registered { registration, provider, callback, has_traits: true });
    table.idle.push(before);
    Status::ERROR_SUCCESS
}

/// Does a session want events like this one?
#[doc(alias = "EventEnabled")]
pub fn event_enabled(handle: RegHandle, descriptor: &EventDescriptor) -> bool {
    event_provider_enabled(handle, descriptor.level, descriptor.keyword)
}

/// Does a session want events of this level and keyword?
#[doc(alias = "EventProviderEnabled")]
pub fn event_provider_enabled(handle: RegHandle, level: Level, keyword: Keyword) -> bool {
    provider_of(handle).is_some_and(|(_, provider)| provider.is_enabled(level, keyword))
}

/// The word of a registration that is larger than every level of which some session may want events; for C's side of a gate. It is
/// never freed, but no longer the registration's once that has ended or got other traits.
#[doc(hidden)]
pub fn event_gate(handle: RegHandle) -> Option<&'static AtomicU32> {
    provider_of(handle).map(|(_, provider)| provider.gate())
}

/// The provider of a handle: one that is never freed, but no longer the registration's once that has ended or got other traits.
#[doc(hidden)]
#[inline(always)]
pub fn provider_of_handle(handle: RegHandle) -> Option<&'static Provider> {
    provider_of(handle).map(|(_, provider)| provider)
}
