//! Classic registrations, and the requests that their callbacks get.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use etw_types::{Guid, Level, Status};

use super::class::TraceClasses;
use super::handle::{LoggerHandle, MAX_REGISTRATIONS, TraceHandle};
#[cfg(any(target_os = "linux", all(unix, feature = "session")))]
use crate::fork;
use crate::lock::ForkLock;
use crate::provider::{ClassicEnable, ControlCode, EnableChange, Following, Provider, ProviderRef};
use crate::registration::{self, Registration};
use crate::registry;

/// The kind of a [`ControlRequest`].
#[doc(alias = "WMIDPREQUESTCODE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum RequestCode {
    /// A session enabled the provider, or changed level or flags.
    #[doc(alias = "WMI_ENABLE_EVENTS")]
    EnableEvents = 4,
    /// The session disabled the provider. The handle is that session's.
    #[doc(alias = "WMI_DISABLE_EVENTS")]
    DisableEvents = 5,
    /// The session asks for the provider's state, on which its later events build.
    #[doc(alias = "WMI_CAPTURE_STATE")]
    CaptureState = 10,
}

/// One call of a control callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlRequest {
    /// The kind of request.
    pub code: RequestCode,
    /// The provider.
    pub control: Guid,
    /// The session.
    pub logger: LoggerHandle,
    /// The level that the session asks for; for `CaptureState`, the level of that request.
    pub level: Level,
    /// The flags, likewise: the low half of the session's any-keywords.
    pub flags: u32,
}

/// A classic provider's callback. Its result counts only if it is called within [`register_trace_guids`].
#[doc(alias = "WMIDPREQUEST")]
pub type ControlCallback = dyn Fn(&ControlRequest) -> Status + Send + Sync;

struct Entry {
    /// Odd while the entry is used: the upper bits of the handle.
    sequence: AtomicU32,
    provider: AtomicPtr<Provider>,
}

static ENTRIES: [Entry; MAX_REGISTRATIONS] = [const {
    Entry { sequence: AtomicU32::new(0), provider: AtomicPtr::new(std::ptr::null_mut()) }
}; MAX_REGISTRATIONS];

struct Table {
    /// The registrations by entry. `None` means that the entry is free or is being freed.
    registered: Vec<Option<Registered>>,
    free: Vec<usize>,
    /// Providers that are not registered now. They are never freed, since a write may hold one, and serve the next registration of
    /// the same GUID.
    idle: Vec<&'static Provider>,
}

struct Registered {
    registration: Registration,
    _classes: TraceClasses,
    provider: &'static Provider,
}

static TABLE: ForkLock<Table> =
    ForkLock::new(Table { registered: Vec::new(), free: Vec::new(), idle: Vec::new() });

fn table() -> MutexGuard<'static, Table> {
    #[cfg(any(target_os = "linux", all(unix, feature = "session")))]
    fork::hold(fork::Place::ClassicHandles, &TABLE);
    TABLE.lock()
}

/// The last request that a provider's callback got, and its answer. Callbacks of one provider run one at a time.
struct LastRequest {
    /// The number of the enablement; 0: no session.
    number: AtomicU64,
    logger: AtomicU64,
    answer: AtomicU32,
}

/// The registration of a classic provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassicRegistration {
    /// Its handle.
    pub handle: TraceHandle,
    /// The callback's answer, if a session had enabled the provider already; else success.
    pub answer: Status,
}

/// Registers a classic provider by its control GUID. If a session has it enabled already, the callback runs before this returns.
///
/// # Errors
/// `ERROR_NO_SYSTEM_RESOURCES` when the process has 1024 classic registrations.
#[doc(alias = "RegisterTraceGuids")]
pub fn register_trace_guids(
    control: &Guid,
    classes: TraceClasses,
    callback: Arc<ControlCallback>,
) -> Result<ClassicRegistration, Status> {
    let (index, provider) = {
        let mut table = self::table();
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
    let entry = &ENTRIES[index];
    entry.provider.store(std::ptr::from_ref(provider).cast_mut(), Ordering::Release);
    let sequence = entry.sequence.fetch_add(1, Ordering::AcqRel) + 1;
    let last_request = Arc::new(LastRequest {
        number: AtomicU64::new(0),
        logger: AtomicU64::new(0),
        answer: AtomicU32::new(0),
    });
    let callback = {
        let last_request = last_request.clone();
        move |change: &EnableChange<'_>| {
            if let Some(request) = request_of(change, provider, index, &last_request) {
                last_request.answer.store(callback(&request).0, Ordering::Relaxed);
            }
        }
    };
    let following = Following::callback(Some(Arc::new(callback)));
    // The callback runs within and may write, so the entry is valid by now.
    let registration = registration::register(ProviderRef::Static(provider), following, None);
    table().registered[index] = Some(Registered { registration, _classes: classes, provider });
    let handle = TraceHandle((index as u64 + 1) | u64::from(sequence as u16) << 48);
    let answer = Status(last_request.answer.load(Ordering::Relaxed));
    Ok(ClassicRegistration { handle, answer })
}

/// The enablement of a classic provider, which is read with the registry's lock: a fork waits for that.
fn classic_enable(provider: &Provider) -> Option<ClassicEnable> {
    let _registry = registry::lock();
    provider.classic_enable()
}

/// The request that a change gives a provider's callback. `None`: the callback has had it.
fn request_of(
    change: &EnableChange<'_>,
    provider: &Provider,
    index: usize,
    last_request: &LastRequest,
) -> Option<ControlRequest> {
    let enable = classic_enable(provider);
    let request = |code, logger, level, any: u64| {
        let flags = any as u32;
        Some(ControlRequest { code, control: provider.id(), logger, level, flags })
    };
    let handle =
        |enable: &ClassicEnable| LoggerHandle::new(index, provider.serial(), &enable.first);
    if change.control == ControlCode::CaptureState {
        return request(RequestCode::CaptureState, handle(&enable?), change.level, change.any.0);
    }
    let number = enable.map_or(0, |enable| enable.number);
    if last_request.number.swap(number, Ordering::Relaxed) == number {
        return None;
    }
    let Some(enable) = enable else {
        let last = LoggerHandle(last_request.logger.load(Ordering::Relaxed));
        return request(RequestCode::DisableEvents, last, Level(0), 0);
    };
    let logger = handle(&enable);
    last_request.logger.store(logger.0, Ordering::Relaxed);
    request(RequestCode::EnableEvents, logger, enable.wanted.level, enable.wanted.any.0)
}

/// The level and flags with which a session enables a classic provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEnable {
    /// The level.
    pub level: Level,
    /// The flags: the low half of the session's any-keywords.
    pub flags: u32,
}

/// The level and flags that the handle's session asks for now; `None` if it no longer has the provider.
#[doc(alias = "GetTraceEnableLevel")]
#[doc(alias = "GetTraceEnableFlags")]
pub fn enable_info(logger: LoggerHandle) -> Option<TraceEnable> {
    let (provider, _) = provider_of(logger)?;
    let wanted = classic_enable(provider)?.wanted;
    // Another session may have taken the provider in between.
    provider_of(logger).map(|_| TraceEnable { level: wanted.level, flags: wanted.any.0 as u32 })
}

/// Unregisters. When it returns, no callback of the registration runs any more. `ERROR_INVALID_HANDLE`: it was unregistered before.
#[doc(alias = "UnregisterTraceGuids")]
pub fn unregister_trace_guids(handle: TraceHandle) -> Status {
    let index = (handle.0 & 0xffff_ffff_ffff).wrapping_sub(1) as usize;
    let Some(entry) = ENTRIES.get(index) else { return Status::ERROR_INVALID_HANDLE };
    let mut table = self::table();
    let sequence = entry.sequence.load(Ordering::Acquire);
    if sequence & 1 == 0 || u64::from(sequence as u16) != handle.0 >> 48 {
        return Status::ERROR_INVALID_HANDLE;
    }
    // A registration that another thread is still making has no entry yet.
    let Some(registered) = table.registered[index].take() else {
        return Status::ERROR_INVALID_HANDLE;
    };
    drop(table);
    entry.sequence.fetch_add(1, Ordering::AcqRel);
    entry.provider.store(std::ptr::null_mut(), Ordering::Release);
    let Registered { registration, provider, _classes } = registered;
    // Dropped before the classes: a running callback may use them.
    drop(registration);
    let mut table = self::table();
    table.idle.push(provider);
    table.free.push(index);
    Status::ERROR_SUCCESS
}

/// Whether the handle's session still has the provider. For callers that inspect an event's data before they write it.
#[doc(hidden)]
pub fn is_enabled(logger: LoggerHandle) -> bool {
    provider_of(logger).is_some()
}

/// The provider of a handle and the route to its session, if the session still has the provider. Async-signal-safe.
#[inline(always)]
pub(super) fn provider_of(logger: LoggerHandle) -> Option<(&'static Provider, u64)> {
    let (index, serial) = logger.parts();
    // SAFETY: null, or a provider that is never freed.
    let provider = unsafe { ENTRIES.get(index)?.provider.load(Ordering::Acquire).as_ref() }?;
    let routes = provider.classic_route();
    (provider.serial() == serial && routes != 0).then_some((provider, routes))
}
