//! The system's functions for consumers.

use std::ffi::c_void;

use etw_types::raw::{ProcessTraceMode, RawLogfile};

use super::Callbacks;

/// `INVALID_PROCESSTRACE_HANDLE`
pub const INVALID_HANDLE: u64 = u64::MAX;

/// A real-time session, with the callbacks of a stream. Times are those that the system has converted to system time.
pub fn real_time(name: &mut [u16], callbacks: &Callbacks) -> RawLogfile {
    // SAFETY: numbers, pointers and optional functions, for which zero is valid.
    let mut logfile: RawLogfile = unsafe { std::mem::zeroed() };
    logfile.logger_name = name.as_mut_ptr().cast();
    logfile.mode = ProcessTraceMode::REAL_TIME | ProcessTraceMode::EVENT_RECORD;
    logfile.buffer_callback = Some(super::buffer_callback);
    logfile.event_callback = Some(super::event_callback);
    logfile.context = std::ptr::from_ref(callbacks).cast_mut().cast();
    logfile
}

#[link(name = "advapi32")]
unsafe extern "system" {
    pub fn OpenTraceW(logfile: *mut RawLogfile) -> u64;
    pub fn ProcessTrace(
        handles: *const u64,
        count: u32,
        start: *const c_void,
        end: *const c_void,
    ) -> u32;
    pub fn CloseTrace(handle: u64) -> u32;
}
