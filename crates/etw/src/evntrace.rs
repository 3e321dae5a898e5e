//! Classic providers, with the calls of `evntrace.h`: events of classes that are described elsewhere (MOF), and messages whose texts are
//! (WPP).
//!
//! ```
//! use std::sync::Arc;
//! use etw::evntrace::*;
//! use etw::{EventClass, Guid, Status};
//!
//! let class = Guid::from_u128(2);
//! let callback = Arc::new(move |request: &ControlRequest| {
//!     if request.code == RequestCode::EnableEvents {
//!         let class = EventClass { guid: class, kind: 1, ..EventClass::default() };
//!         trace_event(request.logger, class, None, &[b"payload"]);
//!     }
//!     Status::ERROR_SUCCESS
//! });
//! let (handle, _) = register_trace_guids(&Guid::from_u128(1), TraceClasses::default(), callback).unwrap();
//! assert_eq!(unregister_trace_guids(handle), Status::ERROR_SUCCESS);
//! ```
//!
//! A classic provider has one session: the one that was last to enable it. A session that another took the provider from gets it back only by
//! enabling it again. The provider is told by its callback, with a [`LoggerHandle`] that every event names; what the session's level and
//! flags mean is the provider's own affair, nothing is filtered by them.
//!
//! Statuses of events, in the order in which they are found: `ERROR_INVALID_HANDLE` for a handle whose session no longer has the provider;
//! `ERROR_INVALID_PARAMETER` for the handle of a class that is none; `ERROR_ACCESS_DENIED` for a class of the system's own events;
//! `ERROR_MORE_DATA` above 64 KiB or a session's buffer;
//! `ERROR_NOT_ENOUGH_MEMORY` where the session has no room. Writing neither locks nor allocates, and may be done in a signal handler.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use etw_ring::classic::ClassicBytes;
use etw_ring::prefix::Prefix;
use etw_types::{Classic, ClassicHeader, EventClass, Guid, LevelKeyword, Status, is_system_class};
pub use etw_types::{MessageFlags, MessageId};

use crate::provider::{
    ClassicWish, ControlCode, EnableChange, Provider, ProviderRef, Registration,
};
use crate::registry;
use crate::write::{Event, TOO_LARGE, write_any};

/// Classic registrations that a process may have at a time.
pub const MAX_REGISTRATIONS: usize = 1024;
/// Event classes that a process may have registered at a time.
pub const MAX_CLASSES: usize = 4096;

/// A registration: the number of its place in the low 48 bits, and above it how often that place was used before.
#[doc(alias = "TRACEHANDLE")]
#[doc(alias = "TRACEGUID_HANDLE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceHandle(pub u64);

/// A session, as one provider knows it: the same for as long as the session has the provider, whatever else it asks for meanwhile.
///
/// ```text
/// 0 u16, 3 u8: which registration, and which of its sessions    2 u8 level    4 u32 flags
/// ```
///
/// Level and flags are those with which the session took the provider, where Microsoft's `TRACE_ENABLE_CONTEXT` has them; those that hold now
/// are told by [`enable_info`]. The sessions of all providers count up to 8191; then their numbers come again.
#[doc(alias = "TRACELOGGER_HANDLE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoggerHandle(pub u64);

/// The low bits of what tells a registration and its session, 24 in all: the registration's place, counted from 1.
const PLACE_BITS: u32 = 11;
const _: () = assert!(MAX_REGISTRATIONS < 1 << PLACE_BITS);
const _: () = assert!((crate::provider::MAX_SERIAL as u64) << PLACE_BITS < 1 << 24);

impl LoggerHandle {
    fn new(index: usize, serial: u32, wanted: &LevelKeyword) -> LoggerHandle {
        let id = (index as u64 + 1) | u64::from(serial) << PLACE_BITS;
        let flags = wanted.any as u32;
        LoggerHandle(
            id & 0xffff | u64::from(wanted.level) << 16 | id >> 16 << 24 | u64::from(flags) << 32,
        )
    }

    /// Place and serial number.
    fn parts(self) -> (usize, u32) {
        let id = self.0 & 0xffff | (self.0 >> 24 & 0xff) << 16;
        let place = (id & ((1 << PLACE_BITS) - 1)) as usize;
        (place.wrapping_sub(1), (id >> PLACE_BITS) as u32)
    }
}

/// What a provider is told.
#[doc(alias = "WMIDPREQUESTCODE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum RequestCode {
    /// A session has the provider now, or asks for something else than before.
    #[doc(alias = "WMI_ENABLE_EVENTS")]
    EnableEvents = 4,
    /// No session has it any more. The handle is that of the last one.
    #[doc(alias = "WMI_DISABLE_EVENTS")]
    DisableEvents = 5,
    /// The session asks for the state that its later events build on; with the level and flags of the request.
    #[doc(alias = "WMI_CAPTURE_STATE")]
    CaptureState = 10,
}

/// One call of a control callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlRequest {
    /// What happened.
    pub code: RequestCode,
    /// The provider.
    pub control: Guid,
    /// The session.
    pub logger: LoggerHandle,
    /// The level that the session asked for; of `CaptureState` that of the request.
    pub level: u8,
    /// As `level`, the flags: the low half of its any-keywords.
    pub flags: u32,
}

/// What a control callback is. What it returns is looked at only when it is called within [`register_trace_guids`].
#[doc(alias = "WMIDPREQUEST")]
pub type ControlCallback = dyn Fn(&ControlRequest) -> Status + Send + Sync;

// ---- classes --------------------------------------------------------------------------------------------------------------

/// A registered event class: the number of its place in the low bits, and above it how often that place was used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClassHandle(pub u32);

const CLASS_BITS: u32 = 13;
const _: () = assert!(MAX_CLASSES < 1 << CLASS_BITS);

/// A class's place: read without a lock, changed under that of `FREE_CLASSES`.
struct Class {
    /// Odd while it is used.
    sequence: AtomicU32,
    guid: [AtomicU64; 2],
    /// The last instance.
    instances: AtomicU32,
}

static CLASSES: [Class; MAX_CLASSES] = [const {
    Class {
        sequence: AtomicU32::new(0),
        guid: [const { AtomicU64::new(0) }; 2],
        instances: AtomicU32::new(0),
    }
}; MAX_CLASSES];

/// Places that were used before; how many were ever used.
static FREE_CLASSES: Mutex<(Vec<usize>, usize)> = Mutex::new((Vec::new(), 0));

fn handle_of(index: usize, sequence: u32) -> ClassHandle {
    ClassHandle((index as u32 + 1) | sequence << CLASS_BITS)
}

fn class_of(handle: ClassHandle) -> Option<&'static Class> {
    let index = (handle.0 & ((1 << CLASS_BITS) - 1)).checked_sub(1)? as usize;
    let class = CLASSES.get(index)?;
    let sequence = class.sequence.load(Ordering::Acquire);
    (sequence & 1 == 1 && handle_of(index, sequence) == handle).then_some(class)
}

/// The GUID of a class. Async-signal-safe.
fn guid_of(handle: ClassHandle) -> Option<Guid> {
    let class = class_of(handle)?;
    let mut guid = [0; 16];
    for (half, bytes) in class.guid.iter().zip(guid.chunks_mut(8)) {
        bytes.copy_from_slice(&half.load(Ordering::Relaxed).to_le_bytes());
    }
    // Pairs with the fence of `register`: a GUID of a later registration comes with its sequence number.
    fence(Ordering::Acquire);
    class_of(handle).map(|_| Guid(guid))
}

/// Event classes, as long as this lives: for [instances](trace_event_instance).
#[doc(alias = "TRACE_GUID_REGISTRATION")]
#[derive(Debug, Default)]
pub struct TraceClasses(Vec<ClassHandle>);

impl TraceClasses {
    /// Registers classes by their GUIDs; [`handles`](Self::handles) are in the same order.
    ///
    /// # Errors
    /// `ERROR_NO_SYSTEM_RESOURCES` for more than 4096 in a process.
    pub fn register(guids: &[Guid]) -> Result<TraceClasses, Status> {
        let mut free = lock(&FREE_CLASSES);
        if guids.len() > free.0.len() + (MAX_CLASSES - free.1) {
            return Err(Status::ERROR_NO_SYSTEM_RESOURCES);
        }
        let mut handles = Vec::with_capacity(guids.len());
        for guid in guids {
            let index = free.0.pop().unwrap_or_else(|| {
                free.1 += 1;
                free.1 - 1
            });
            let class = &CLASSES[index];
            // Pairs with the fence of `guid_of`: who finds part of this GUID finds that the place was let go.
            fence(Ordering::Release);
            for (half, bytes) in class.guid.iter().zip(guid.0.as_chunks::<8>().0) {
                half.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
            }
            class.instances.store(0, Ordering::Relaxed);
            let sequence = class.sequence.fetch_add(1, Ordering::Release) + 1;
            handles.push(handle_of(index, sequence));
        }
        Ok(TraceClasses(handles))
    }

    /// The handles.
    pub fn handles(&self) -> &[ClassHandle] {
        &self.0
    }
}

impl Drop for TraceClasses {
    fn drop(&mut self) {
        let mut free = lock(&FREE_CLASSES);
        for handle in &self.0 {
            let index = (handle.0 & ((1 << CLASS_BITS) - 1)) as usize - 1;
            CLASSES[index].sequence.fetch_add(1, Ordering::AcqRel);
            free.0.push(index);
        }
    }
}

/// A number for a transaction of a class, unlike its last four billion ones; never 0.
///
/// # Errors
/// `ERROR_INVALID_PARAMETER` for a handle that is none.
#[doc(alias = "CreateTraceInstanceId")]
pub fn create_trace_instance_id(class: ClassHandle) -> Result<u32, Status> {
    let class = class_of(class).ok_or(Status::ERROR_INVALID_PARAMETER)?;
    loop {
        let instance = class.instances.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if instance != 0 {
            return Ok(instance);
        }
    }
}

// ---- registrations --------------------------------------------------------------------------------------------------------

struct Place {
    /// Odd while it is used: the upper bits of the handle.
    sequence: AtomicU32,
    provider: AtomicPtr<Provider>,
}

static PLACES: [Place; MAX_REGISTRATIONS] = [const {
    Place { sequence: AtomicU32::new(0), provider: AtomicPtr::new(std::ptr::null_mut()) }
}; MAX_REGISTRATIONS];

struct Table {
    /// By place; `None`: free, or about to be.
    registered: Vec<Option<Registered>>,
    free: Vec<usize>,
    /// Providers that are not registered now. They are never freed, since a write may be on its way with one, and so are used again for the
    /// same GUID.
    idle: Vec<&'static Provider>,
}

struct Registered {
    registration: Registration,
    _classes: TraceClasses,
    provider: &'static Provider,
}

static TABLE: Mutex<Table> =
    Mutex::new(Table { registered: Vec::new(), free: Vec::new(), idle: Vec::new() });

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a provider has been told, and what it answered. Callbacks of one provider run one at a time.
struct Told {
    /// The wish; 0: that there is none.
    number: AtomicU64,
    logger: AtomicU64,
    answer: AtomicU32,
}

/// Registers a classic provider by its control GUID; with the answer of the callback where a session has it enabled already, which is called
/// before this returns.
///
/// # Errors
/// `ERROR_NO_SYSTEM_RESOURCES` when the process has 1024 classic registrations.
#[doc(alias = "RegisterTraceGuids")]
pub fn register_trace_guids(
    control: &Guid,
    classes: TraceClasses,
    callback: Arc<ControlCallback>,
) -> Result<(TraceHandle, Status), Status> {
    let (index, provider) = {
        let mut table = lock(&TABLE);
        let index = match table.free.pop() {
            Some(index) => index,
            None if table.registered.len() < MAX_REGISTRATIONS => {
                table.registered.push(None);
                table.registered.len() - 1
            }
            None => return Err(Status::ERROR_NO_SYSTEM_RESOURCES),
        };
        let idle = table.idle.iter().position(|provider| provider.id() == *control);
        let provider = match idle {
            Some(idle) => table.idle.swap_remove(idle),
            None => Box::leak(Box::new(Provider::classic(*control))),
        };
        (index, provider)
    };
    let place = &PLACES[index];
    place.provider.store(std::ptr::from_ref(provider).cast_mut(), Ordering::Release);
    let sequence = place.sequence.fetch_add(1, Ordering::AcqRel) + 1;
    let told = Arc::new(Told {
        number: AtomicU64::new(0),
        logger: AtomicU64::new(0),
        answer: AtomicU32::new(0),
    });
    let callback = {
        let told = told.clone();
        move |change: &EnableChange<'_>| {
            if let Some(request) = news(change, provider, index, &told) {
                told.answer.store(callback(&request).0, Ordering::Relaxed);
            }
        }
    };
    // The callback runs within, and may write: so the place is taken by now.
    let registration = registry::register(ProviderRef::Static(provider), Some(Arc::new(callback)));
    lock(&TABLE).registered[index] = Some(Registered { registration, _classes: classes, provider });
    let handle = TraceHandle((index as u64 + 1) | u64::from(sequence as u16) << 48);
    Ok((handle, Status(told.answer.load(Ordering::Relaxed))))
}

/// What a provider is to be told of a change; nothing that it has been told before.
fn news(
    change: &EnableChange<'_>,
    provider: &Provider,
    index: usize,
    told: &Told,
) -> Option<ControlRequest> {
    let wish = provider.classic_wish();
    let request = |code, logger, level, any: u64| {
        Some(ControlRequest { code, control: provider.id(), logger, level, flags: any as u32 })
    };
    let handle = |wish: &ClassicWish| LoggerHandle::new(index, provider.serial(), &wish.first);
    if change.control == ControlCode::CaptureState {
        return request(RequestCode::CaptureState, handle(&wish?), change.level, change.any);
    }
    let number = wish.map_or(0, |wish| wish.number);
    if told.number.swap(number, Ordering::Relaxed) == number {
        return None;
    }
    let Some(wish) = wish else {
        let last = LoggerHandle(told.logger.load(Ordering::Relaxed));
        return request(RequestCode::DisableEvents, last, 0, 0);
    };
    let logger = handle(&wish);
    told.logger.store(logger.0, Ordering::Relaxed);
    request(RequestCode::EnableEvents, logger, wish.wanted.level, wish.wanted.any)
}

/// Level and flags that the handle's session asks for now; `None` where it no longer has the provider.
#[doc(alias = "GetTraceEnableLevel")]
#[doc(alias = "GetTraceEnableFlags")]
pub fn enable_info(logger: LoggerHandle) -> Option<(u8, u32)> {
    let (provider, _) = provider_of(logger)?;
    let wanted = provider.classic_wish()?.wanted;
    // It may have gone to another session in between.
    provider_of(logger).map(|_| (wanted.level, wanted.any as u32))
}

/// Unregisters; a callback that is running has ended when it returns. `ERROR_INVALID_HANDLE`: it was unregistered before.
#[doc(alias = "UnregisterTraceGuids")]
pub fn unregister_trace_guids(handle: TraceHandle) -> Status {
    let index = (handle.0 & 0xffff_ffff_ffff).wrapping_sub(1) as usize;
    let Some(place) = PLACES.get(index) else { return Status::ERROR_INVALID_HANDLE };
    let mut table = lock(&TABLE);
    let sequence = place.sequence.load(Ordering::Acquire);
    if sequence & 1 == 0 || u64::from(sequence as u16) != handle.0 >> 48 {
        return Status::ERROR_INVALID_HANDLE;
    }
    // One that is being registered is nobody's yet.
    let Some(registered) = table.registered[index].take() else {
        return Status::ERROR_INVALID_HANDLE;
    };
    drop(table);
    place.sequence.fetch_add(1, Ordering::AcqRel);
    place.provider.store(std::ptr::null_mut(), Ordering::Release);
    let Registered { registration, provider, _classes } = registered;
    // Before the classes: a callback that is running may name them.
    drop(registration);
    let mut table = lock(&TABLE);
    table.idle.push(provider);
    table.free.push(index);
    Status::ERROR_SUCCESS
}

// ---- events ---------------------------------------------------------------------------------------------------------------

/// Writes an event of a class. `time`: in place of that of the write, in the session's clock.
#[doc(alias = "TraceEvent")]
pub fn trace_event(
    logger: LoggerHandle,
    class: EventClass,
    time: Option<i64>,
    data: &[&[u8]],
) -> Status {
    match provider_of(logger) {
        Some(to) => write(to, ClassicHeader::Trace(class), time, data),
        None => Status::ERROR_INVALID_HANDLE,
    }
}

/// Writes an event of a transaction: a class and a number of [`create_trace_instance_id`]'s, and those of its parent, if it has one. The
/// class's GUID is that of `instance`, not that of `class`.
#[doc(alias = "TraceEventInstance")]
pub fn trace_event_instance(
    logger: LoggerHandle,
    class: EventClass,
    instance: (ClassHandle, u32),
    parent: Option<(ClassHandle, u32)>,
    time: Option<i64>,
    data: &[&[u8]],
) -> Status {
    let Some(to) = provider_of(logger) else { return Status::ERROR_INVALID_HANDLE };
    let Some(guid) = guid_of(instance.0) else { return Status::ERROR_INVALID_PARAMETER };
    let (parent, parent_instance) = match parent {
        None => (Guid::ZERO, 0),
        Some((class, number)) => match guid_of(class) {
            Some(guid) => (guid, number),
            None => return Status::ERROR_INVALID_PARAMETER,
        },
    };
    let class = EventClass { guid, ..class };
    let header = ClassicHeader::Instance { class, instance: instance.1, parent_instance, parent };
    write(to, header, time, data)
}

/// Writes a message. Of `flags`, sequence number, time and system information (thread and process) count; the session gives the sequence
/// numbers, from 1 on.
#[doc(alias = "TraceMessage")]
pub fn trace_message(
    logger: LoggerHandle,
    flags: MessageFlags,
    id: MessageId,
    number: u16,
    data: &[&[u8]],
) -> Status {
    let parts = MessageFlags::SEQUENCE.0 | MessageFlags::TIMESTAMP.0 | MessageFlags::SYSTEM_INFO.0;
    let flags = MessageFlags(flags.0 & parts);
    match provider_of(logger) {
        Some(to) => write(to, ClassicHeader::Message { flags, id, number }, None, data),
        None => Status::ERROR_INVALID_HANDLE,
    }
}

/// Has the handle's session the provider still? For callers that look at an event's data before they write it.
#[doc(hidden)]
pub fn is_enabled(logger: LoggerHandle) -> bool {
    provider_of(logger).is_some()
}

/// The provider of a handle and the route to its session, if that still has it. Async-signal-safe.
fn provider_of(logger: LoggerHandle) -> Option<(&'static Provider, u64)> {
    let (index, serial) = logger.parts();
    // SAFETY: null, or a provider that is never freed.
    let provider = unsafe { PLACES.get(index)?.provider.load(Ordering::Acquire).as_ref() }?;
    let routes = provider.routes(0, 0);
    (provider.serial() == serial && routes != 0).then_some((provider, routes))
}

fn write(
    (provider, routes): (&Provider, u64),
    header: ClassicHeader,
    time: Option<i64>,
    data: &[&[u8]],
) -> Status {
    if let ClassicHeader::Trace(class) | ClassicHeader::Instance { class, .. } = &header
        && is_system_class(&class.guid)
    {
        return Status::ERROR_ACCESS_DENIED;
    }
    let classic = Classic { header, is_32_bit: cfg!(target_pointer_width = "32") };
    let bytes = ClassicBytes::new(&classic);
    let size = data.iter().fold(0usize, |size, piece| size.saturating_add(piece.len()));
    let event = Event {
        site: None,
        prefix: Prefix { metadata: bytes.as_slice(), is_classic: true, time, ..Prefix::default() },
        user: 0,
        payload_size: size.min(TOO_LARGE as usize) as u32,
        event_size: classic.size() as u32,
    };
    let written = write_any(provider, routes, &event, &|mut room| {
        for piece in data {
            room = room.put(piece);
        }
        room
    });
    match written {
        // Classic events know one status for both.
        Status::ERROR_ARITHMETIC_OVERFLOW => Status::ERROR_MORE_DATA,
        status => status,
    }
}
