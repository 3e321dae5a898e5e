//! Classic registrations, and what their callbacks are called with.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use etw_types::{Guid, Level, Status};

use super::class::TraceClasses;
use super::handle::{LoggerHandle, MAX_REGISTRATIONS, TraceHandle};
use crate::lock::lock;
use crate::provider::{ClassicWish, ControlCode, EnableChange, Provider, ProviderRef};
use crate::registration::{self, Registration};

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
    pub level: Level,
    /// As `level`, the flags: the low half of its any-keywords.
    pub flags: u32,
}

/// What a control callback is. What it returns is looked at only when it is called within [`register_trace_guids`].
#[doc(alias = "WMIDPREQUEST")]
pub type ControlCallback = dyn Fn(&ControlRequest) -> Status + Send + Sync;

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
    let registration =
        registration::register(ProviderRef::Static(provider), Some(Arc::new(callback)));
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
        let flags = any as u32;
        Some(ControlRequest { code, control: provider.id(), logger, level, flags })
    };
    let handle = |wish: &ClassicWish| LoggerHandle::new(index, provider.serial(), &wish.first);
    if change.control == ControlCode::CaptureState {
        return request(RequestCode::CaptureState, handle(&wish?), change.level, change.any.0);
    }
    let number = wish.map_or(0, |wish| wish.number);
    if told.number.swap(number, Ordering::Relaxed) == number {
        return None;
    }
    let Some(wish) = wish else {
        let last = LoggerHandle(told.logger.load(Ordering::Relaxed));
        return request(RequestCode::DisableEvents, last, Level(0), 0);
    };
    let logger = handle(&wish);
    told.logger.store(logger.0, Ordering::Relaxed);
    request(RequestCode::EnableEvents, logger, Level(wish.wanted.level), wish.wanted.any)
}

/// The level and flags with which a session enables a classic provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEnable {
    /// The level.
    pub level: Level,
    /// The flags: the low half of the session's any-keywords.
    pub flags: u32,
}

/// Level and flags that the handle's session asks for now; `None` where it no longer has the provider.
#[doc(alias = "GetTraceEnableLevel")]
#[doc(alias = "GetTraceEnableFlags")]
pub fn enable_info(logger: LoggerHandle) -> Option<TraceEnable> {
    let (provider, _) = provider_of(logger)?;
    let wanted = provider.classic_wish()?.wanted;
    // It may have gone to another session in between.
    provider_of(logger)
        .map(|_| TraceEnable { level: Level(wanted.level), flags: wanted.any as u32 })
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

/// Has the handle's session the provider still? For callers that look at an event's data before they write it.
#[doc(hidden)]
pub fn is_enabled(logger: LoggerHandle) -> bool {
    provider_of(logger).is_some()
}

/// The provider of a handle and the route to its session, if that still has it. Async-signal-safe.
pub(super) fn provider_of(logger: LoggerHandle) -> Option<(&'static Provider, u64)> {
    let (index, serial) = logger.parts();
    // SAFETY: null, or a provider that is never freed.
    let provider = unsafe { PLACES.get(index)?.provider.load(Ordering::Acquire).as_ref() }?;
    let routes = provider.routes(0, 0);
    (provider.serial() == serial && routes != 0).then_some((provider, routes))
}
