//! The write calls of `evntprov.h`, for programs that build their events by hand: same parameters, same statuses.
//!
//! ```
//! use etw::evntprov::*;
//! use etw::{EventDescriptor, Guid, Level, Status};
//!
//! let handle = event_register(&Guid::from_u128(99), None).unwrap();
//! let descriptor = EventDescriptor { id: 7, level: Level::INFO, ..EventDescriptor::default() };
//! // Nobody listens: success at once.
//! let status = event_write(handle, Some(&descriptor), &[EventDataDescriptor::new(b"payload")]);
//! assert_eq!(status, Status::ERROR_SUCCESS);
//! assert_eq!(event_unregister(handle), Status::ERROR_SUCCESS);
//! assert_eq!(event_write(handle, Some(&descriptor), &[]), Status::ERROR_INVALID_HANDLE);
//! ```
//!
//! Statuses, in the order in which they are found: `ERROR_INVALID_PARAMETER` without a descriptor; `ERROR_INVALID_HANDLE`;
//! success when no session wants the event; `ERROR_INVALID_PARAMETER` for more than 128 data descriptors, or a type that is
//! none; `ERROR_ARITHMETIC_OVERFLOW` above 64 KiB, `ERROR_MORE_DATA` above a session's buffer, `ERROR_NOT_ENOUGH_MEMORY`
//! where a session has no room.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use etw_ring::prefix::{self, Prefix};
use etw_types::{EventDescriptor, EventFlags, EventProperty, Guid, Status};

use crate::provider::{EnableCallback, Provider, ProviderRef, Registration};
use crate::write::{Event, Extras, Fill, Routes, size_on_disk, write_any, write_site_with};
use crate::{activity, registry};

/// Registrations that a process may have at a time through these calls.
pub const MAX_REGISTRATIONS: usize = 2048;
/// Data descriptors that an event may have.
#[doc(alias = "MAX_EVENT_DATA_DESCRIPTORS")]
pub const MAX_DATA_DESCRIPTORS: usize = 128;

/// A registration: the number of its place in the low 11 bits, and above them that of the registration, from 1, so that a handle that
/// was unregistered is told from all later ones.
#[doc(alias = "REGHANDLE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegHandle(pub u64);

/// A piece of an event's data.
#[doc(alias = "EVENT_DATA_DESCRIPTOR")]
#[derive(Clone, Copy, Debug)]
pub struct EventDataDescriptor<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// What they are: [`USER_DATA`](Self::USER_DATA), …. Looked at only for registrations with traits or with
    /// `EventProviderUseDescriptorType`.
    pub kind: u8,
}

impl<'a> EventDataDescriptor<'a> {
    /// Payload.
    pub const USER_DATA: u8 = 0;
    /// TraceLogging metadata of the event.
    pub const EVENT_METADATA: u8 = 1;
    /// Traits of the provider.
    pub const PROVIDER_METADATA: u8 = 2;
    /// Eight bytes that are shown in place of the time of the write, in the session's clock.
    pub const TIMESTAMP_OVERRIDE: u8 = 3;

    /// A piece of payload.
    #[doc(alias = "EventDataDescCreate")]
    pub const fn new(data: &'a [u8]) -> EventDataDescriptor<'a> {
        EventDataDescriptor { data, kind: EventDataDescriptor::USER_DATA }
    }

    /// A piece of another kind.
    pub const fn of_kind(data: &'a [u8], kind: u8) -> EventDataDescriptor<'a> {
        EventDataDescriptor { data, kind }
    }
}

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

struct Place {
    /// The handle while it is used, 0 before and after.
    handle: AtomicU64,
    provider: AtomicPtr<Provider>,
    has_types: AtomicBool,
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
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
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
fn provider_of(handle: RegHandle) -> Option<(&'static Place, &'static Provider)> {
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
    registry::register(ProviderRef::Static(provider), callback)
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
    event_provider_enabled(handle, descriptor.level.0, descriptor.keyword.0)
}

/// Does a session want events of this level and keyword?
#[doc(alias = "EventProviderEnabled")]
pub fn event_provider_enabled(handle: RegHandle, level: u8, keyword: u64) -> bool {
    provider_of(handle)
        .is_some_and(|(_, provider)| provider.is_enabled(etw_types::Level(level), keyword))
}

/// The word of a registration that is larger than every level of which some session may want events; for C's side of a gate. It is
/// never freed, but no longer the registration's once that has ended or got other traits.
#[doc(hidden)]
pub fn event_gate(handle: RegHandle) -> Option<&'static AtomicU32> {
    provider_of(handle).map(|(_, provider)| provider.gate())
}

/// Writes an event whose descriptor and metadata were put together before, in the thread's current activity.
#[doc(hidden)]
pub fn event_write_site(
    handle: RegHandle,
    site: &'static crate::rt::Site,
    payload: &[u8],
) -> Status {
    let Some((_, provider)) = provider_of(handle) else { return Status::ERROR_INVALID_HANDLE };
    let (level, keyword) = site.level_and_keyword();
    if !provider.has_level(level) {
        return Status::ERROR_SUCCESS;
    }
    let routes = crate::rt::routes(provider, level, keyword);
    if !routes.any() {
        return Status::ERROR_SUCCESS;
    }
    crate::rt::write_site(provider, site, routes, payload.len(), &|room| room.put(payload))
}

/// The provider of a handle: one that is never freed, but no longer the registration's once that has ended or got other traits.
#[doc(hidden)]
#[inline(always)]
pub fn provider_of_handle(handle: RegHandle) -> Option<&'static Provider> {
    provider_of(handle).map(|(_, provider)| provider)
}

/// The options of [`event_write_ex`], for a site.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SiteOptions {
    /// Sessions that do not get the event.
    pub filter: u64,
    /// 1: no faulting, 2: in-private.
    pub flags: u32,
    /// Activity ids.
    pub ids: Extras,
}

/// [`event_write_ex`] of a site.
#[doc(hidden)]
pub fn event_write_site_ex(
    handle: RegHandle,
    site: &'static crate::rt::Site,
    options: SiteOptions,
    payload_size: usize,
    fill: &Fill<'_>,
) -> Status {
    let SiteOptions { filter, flags, ids } = options;
    if flags & !3 != 0 {
        return Status::ERROR_INVALID_PARAMETER;
    }
    let Some((_, provider)) = provider_of(handle) else { return Status::ERROR_INVALID_HANDLE };
    let (level, keyword) = site.level_and_keyword();
    if !provider.has_level(level) {
        return Status::ERROR_SUCCESS;
    }
    match provider.routes(level, keyword) & !private_routes(filter) {
        0 => Status::ERROR_SUCCESS,
        routes => {
            let user = if flags & 2 != 0 { prefix::IN_PRIVATE } else { 0 };
            write_site_with(
                provider,
                site,
                Routes(routes),
                Extras { user, ..ids },
                payload_size,
                fill,
            )
        }
    }
}

/// The routes of a filter: the provider's private sessions from bit 32 on.
fn private_routes(filter: u64) -> u64 {
    let excluded = (0..8).filter(|private| filter >> (32 + private) & 1 != 0);
    excluded.fold(0, |routes, private| routes | registry::routes(private))
}

/// Writes an event in the thread's current activity.
#[doc(alias = "EventWrite")]
pub fn event_write(
    handle: RegHandle,
    descriptor: Option<&EventDescriptor>,
    data: &[EventDataDescriptor<'_>],
) -> Status {
    write(handle, descriptor, 0, 0, (None, None), data)
}

/// Writes an event of an activity (`None`: the thread's), with the one that it comes from.
#[doc(alias = "EventWriteTransfer")]
pub fn event_write_transfer(
    handle: RegHandle,
    descriptor: Option<&EventDescriptor>,
    activity_id: Option<&Guid>,
    related_activity_id: Option<&Guid>,
    data: &[EventDataDescriptor<'_>],
) -> Status {
    write(handle, descriptor, 0, 0, (activity_id, related_activity_id), data)
}

/// As [`event_write_transfer`], but not to the sessions whose bits are set in `filter`: the provider's private sessions from
/// bit 32 on. `flags`: 1 (no faulting) changes nothing here; 2 (in-private) keeps the event from sessions that exclude such events
/// (`EnableProperties::EXCLUDE_INPRIVATE`); others are refused with
/// `ERROR_INVALID_PARAMETER`.
#[doc(alias = "EventWriteEx")]
pub fn event_write_ex(
    handle: RegHandle,
    descriptor: Option<&EventDescriptor>,
    filter: u64,
    flags: u32,
    activity_id: Option<&Guid>,
    related_activity_id: Option<&Guid>,
    data: &[EventDataDescriptor<'_>],
) -> Status {
    if descriptor.is_some() && flags & !3 != 0 {
        return Status::ERROR_INVALID_PARAMETER;
    }
    let user = if flags & 2 != 0 { prefix::IN_PRIVATE } else { 0 };
    write(handle, descriptor, user, filter, (activity_id, related_activity_id), data)
}

/// Writes a text: an event without an id, with the property `EVENT_HEADER_PROPERTY_LEGACY_EVENTLOG` and
/// the flag `EVENT_HEADER_FLAG_STRING_ONLY`.
#[doc(alias = "EventWriteString")]
pub fn event_write_string(handle: RegHandle, level: u8, keyword: u64, text: &str) -> Status {
    event_write_units(handle, level, keyword, &text.encode_utf16().collect::<Vec<u16>>())
}

/// [`event_write_string`] of UTF-16 units, which need not be valid; the zero unit at the end is added.
pub fn event_write_units(handle: RegHandle, level: u8, keyword: u64, text: &[u16]) -> Status {
    let units: Vec<u8> = text.iter().copied().chain([0]).flat_map(u16::to_le_bytes).collect();
    let descriptor = EventDescriptor {
        level: etw_types::Level(level),
        keyword: etw_types::Keyword(keyword),
        ..EventDescriptor::default()
    };
    let user =
        u32::from(EventProperty::LEGACY_EVENTLOG.0) | u32::from(EventFlags::STRING_ONLY.0) << 16;
    write(handle, Some(&descriptor), user, 0, (None, None), &[EventDataDescriptor::new(&units)])
}

/// The call on which the others rest, with the header's `EventProperty`: XML 1, forwarded XML 2, legacy event log 4,
/// reloggable 8.
#[doc(alias = "EtwEventWriteFull")]
pub fn etw_event_write_full(
    handle: RegHandle,
    descriptor: Option<&EventDescriptor>,
    event_property: u16,
    activity_id: Option<&Guid>,
    related_activity_id: Option<&Guid>,
    data: &[EventDataDescriptor<'_>],
) -> Status {
    let user = u32::from(event_property);
    write(handle, descriptor, user, 0, (activity_id, related_activity_id), data)
}

#[inline]
fn write(
    handle: RegHandle,
    descriptor: Option<&EventDescriptor>,
    user: u32,
    exclude: u64,
    (activity_id, related): (Option<&Guid>, Option<&Guid>),
    data: &[EventDataDescriptor<'_>],
) -> Status {
    let Some(descriptor) = descriptor else { return Status::ERROR_INVALID_PARAMETER };
    let Some((place, provider)) = provider_of(handle) else { return Status::ERROR_INVALID_HANDLE };
    if !provider.has_level(descriptor.level.0) {
        return Status::ERROR_SUCCESS;
    }
    let mut routes = provider.routes(descriptor.level.0, descriptor.keyword.0);
    if exclude != 0 {
        routes &= !private_routes(exclude);
    }
    if routes == 0 {
        return Status::ERROR_SUCCESS;
    }
    let has_types = place.has_types.load(Ordering::Relaxed);
    let mut prefix = Prefix { descriptor: Some(*descriptor), ..Prefix::default() };
    let mut size = 0usize;
    if data.len() > MAX_DATA_DESCRIPTORS {
        return Status::ERROR_INVALID_PARAMETER;
    }
    for piece in data {
        match if has_types { piece.kind } else { EventDataDescriptor::USER_DATA } {
            EventDataDescriptor::USER_DATA => size = size.saturating_add(piece.data.len()),
            EventDataDescriptor::EVENT_METADATA => prefix.metadata = piece.data,
            EventDataDescriptor::PROVIDER_METADATA => prefix.traits = piece.data,
            EventDataDescriptor::TIMESTAMP_OVERRIDE => match piece.data.try_into() {
                Ok(bytes) => prefix.time = Some(i64::from_le_bytes(bytes)),
                Err(_) => return Status::ERROR_INVALID_PARAMETER,
            },
            _ => return Status::ERROR_INVALID_PARAMETER,
        }
    }
    for blob in [prefix.traits, prefix.metadata] {
        // Each tells its own size; one that does not would be read past its end.
        let told = blob.first_chunk().map(|size| usize::from(u16::from_le_bytes(*size)));
        if !blob.is_empty() && (blob.len() < 4 || told != Some(blob.len())) {
            return Status::ERROR_INVALID_PARAMETER;
        }
    }
    // (Not for empty ones: comparing no bytes at an address of nothing costs 100 ns where it is done by masked loads.)
    if !prefix.traits.is_empty() && prefix.traits == provider.traits() {
        prefix.traits = &[];
    }
    let current = activity::current();
    prefix.activity_id = Some(*activity_id.unwrap_or(&current)).filter(|id| !id.is_zero());
    prefix.related_activity_id = related.copied();
    let traits = match (prefix.metadata.is_empty(), prefix.traits.is_empty()) {
        (true, _) => 0,
        (false, true) => provider.traits().len(),
        (false, false) => prefix.traits.len(),
    };
    let event = Event {
        site: None,
        prefix,
        user,
        payload_size: size.min(1 << 24) as u32,
        event_size: size_on_disk(traits, prefix.metadata.len()),
    };
    write_any(provider, routes, &event, &|mut room| {
        for piece in data {
            if !has_types || piece.kind == EventDataDescriptor::USER_DATA {
                room = room.put(piece.data);
            }
        }
        room
    })
}
