//! Windows: the system's own ETW, as one more host of the process, which needs no pool, and as the host of global sessions.
//!
//! ```text
//!  registry ── settle, ended ───────────► EventRegister, EventSetInformation(traits), EventUnregister
//!  registry ◄─ enable, disable, capture ─ the system's callback, on any thread
//!  write_any ── write ──────────────────► EventWriteTransfer: traits, metadata, payload as data descriptors
//!  Session ───── private_logger ────────► StartTraceW, ControlTraceW, EnableTraceEx2 of sessions in this process
//!  Controller ── control ───────────────► the same of the machine's sessions, and QueryAllTracesW
//!  Consumer ◄─── live_stream ─────────── OpenTraceW, ProcessTrace: each EVENT_RECORD as the record that decoders take
//! ```
//!
//! The system takes the last attachment, so private sessions that this crate hosts keep the first ones. Its one route stands for all of the
//! system's sessions: the callback's level and keywords are those of all of them together.
//!
//! Calls and structures are those of `evntprov.h` and `evntrace.h`. What a real system does with them is not tested here: the tests
//! put a recorder in place of the system's functions.

mod api;
mod classic;
#[cfg(feature = "control")]
pub(crate) mod control;
mod exit;
pub(crate) mod handles;
#[cfg(feature = "consumer")]
pub(crate) mod live_stream;
mod notification;
#[cfg(feature = "session")]
pub(crate) mod private_logger;
#[cfg(any(feature = "session", feature = "control"))]
pub(crate) mod trace_session;
mod write;

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use etw_ring::MAX_ATTACHMENTS;
use etw_types::Status;

use crate::diagnose::report;
use crate::lock::lock;
use crate::provider::Provider;
use crate::registry::{self, Enable, Host, HostRegistration};
pub(crate) use api::{activity_id, set_activity_id};
#[cfg(feature = "session")]
pub(crate) use exit::at_exit;
use notification::Notification;
pub(crate) use write::{write, write_site};

/// The attachment that the system takes.
pub(crate) const ATTACHMENT: usize = MAX_ATTACHMENTS - 1;
/// The route of all sessions of the system.
pub(crate) const ROUTE: u64 = 1 << (ATTACHMENT * 8);

/// Registrations whose call has not returned yet, with what the system said meanwhile. The call's own callback must not take the
/// registry's lock twice in one thread, and the provider's callbacks run once for a registration.
static SETTLING: Mutex<Vec<(u32, Option<Enable>)>> = Mutex::new(Vec::new());

struct System;

/// Makes the system a host of this process.
pub(crate) fn begin() {
    if registry::attach_system(ATTACHMENT, || Arc::new(System)) {
        exit::install();
    }
}

impl Host for System {
    fn register(&self, _provider: &Provider) -> HostRegistration {
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed) + 1;
        HostRegistration { number, enables: Vec::new() }
    }

    fn unregister(&self, _registration: u32) {}

    fn settle(&self, provider: &Provider, registration: u32) -> Vec<Enable> {
        lock(&SETTLING).push((registration, None));
        let status = match provider.is_classic() {
            true => classic::register(provider, registration),
            false => register(provider, registration),
        };
        if !status.is_success() {
            report(|| format!("the system refused the provider {}: {status}", provider.id()));
        }
        let mut settling = lock(&SETTLING);
        let index = settling.iter().position(|(number, _)| *number == registration);
        index.and_then(|index| settling.swap_remove(index).1).into_iter().collect()
    }

    fn ended(&self, provider: &Provider) {
        unregister(provider.is_classic(), provider.system.take());
    }
}

fn register(provider: &Provider, number: u32) -> Status {
    let handle = &provider.system.registration;
    // SAFETY: the GUID lives through the call. The system writes the handle through the pointer before the call returns, perhaps
    // before the first callback; nobody else writes it, since a provider is registered once at a time. The context is a number.
    let status = unsafe {
        api::EventRegister(
            &provider.id(),
            Some(on_change),
            std::ptr::without_provenance_mut(number as usize),
            handle.as_ptr(),
        )
    };
    if status == 0 && !provider.traits().is_empty() {
        let status = api::set_traits(handle.load(Ordering::Acquire), provider.traits());
        if !status.is_success() {
            // Events carry the traits themselves, so only groups are lost.
            report(|| format!("the system did not take the group of {}: {status}", provider.id()));
        }
    }
    Status(status)
}

fn unregister(is_classic: bool, handle: u64) {
    if handle == 0 {
        return;
    }
    // SAFETY: calls with a number that the system checks. When they return, no callback of the registration runs.
    unsafe {
        match is_classic {
            true => api::UnregisterTraceGuids(handle),
            false => api::EventUnregister(handle),
        };
    }
}

/// Passes a change to the provider, or keeps it for the registration that is still being made.
fn notify(number: u32, notification: Notification) {
    {
        let mut settling = lock(&SETTLING);
        if let Some((_, kept)) = settling.iter_mut().find(|(settling, _)| *settling == number) {
            notification.keep(kept);
            return;
        }
    }
    notification.apply(number);
}

/// The system's `ENABLECALLBACK`. A panic of the provider's callback ends the process: it cannot pass through the system.
unsafe extern "system" fn on_change(
    source: *const etw_types::Guid,
    code: u32,
    level: u8,
    any: u64,
    all: u64,
    filter: *const etw_types::raw::RawFilterDescriptor,
    context: *mut c_void,
) {
    // SAFETY: the system passes null or a readable GUID and filter descriptor, whose data lives through the call.
    let notification = unsafe { Notification::read(source, code, (level, any, all), filter) };
    if let Some(notification) = notification {
        notify(context.addr() as u32, notification);
    }
}
