//! `OpenTraceFromFile` and its siblings of Windows 11: traces that are opened with `ETW_OPEN_TRACE_OPTIONS`.

use std::ffi::c_void;

use etw_api::Status;
use etw_types::raw::{ProcessTraceMode, RawLogfile, RawLogfileHeader, RawOpenOptions};

use super::trace::{self, NO_EVENT, NO_HEADER};
use super::{INVALID, Name, handle_of, open_trace, wide_name};
use crate::abi::{guarded, read};
use crate::last_error::SetLastError;
use crate::status::ERROR_INSUFFICIENT_BUFFER;

/// `ETW_PROCESS_TRACE_MODE_RAW_TIMESTAMP`
const RAW_TIMESTAMP: i32 = 1;
/// `EtwQueryLogFileHeader`
const QUERY_HEADER: i32 = 4;

/// # Safety
/// TEXT `name`; ONE `options`, with CALLBACK for its callback; OUT `header`, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OpenTraceFromFile(
    name: *const u16,
    options: *const RawOpenOptions,
    header: *mut RawLogfileHeader,
) -> u64 {
    // SAFETY: TEXT, ONE and OUT.
    unsafe { open(options, header, ProcessTraceMode::NONE, || [wide_name(name.cast()), None]) }
}

/// # Safety
/// TEXT `name`; ONE `options`, with CALLBACK for its callback; OUT `header`, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OpenTraceFromRealTimeLogger(
    name: *const u16,
    options: *const RawOpenOptions,
    header: *mut RawLogfileHeader,
) -> u64 {
    // SAFETY: TEXT, ONE and OUT.
    unsafe { open(options, header, ProcessTraceMode::REAL_TIME, || [None, wide_name(name.cast())]) }
}

/// The size and the memory partition have no effect: the consumer allocates what it needs.
///
/// # Safety
/// TEXT `name`; ONE `options`, with CALLBACK for its callback; OUT `header`, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OpenTraceFromRealTimeLoggerWithAllocationOptions(
    name: *const u16,
    options: *const RawOpenOptions,
    _size: usize,
    _partition: *mut c_void,
    header: *mut RawLogfileHeader,
) -> u64 {
    // SAFETY: TEXT, ONE and OUT.
    unsafe { OpenTraceFromRealTimeLogger(name, options, header) }
}

/// Not supported: 50.
#[unsafe(no_mangle)]
pub extern "C" fn OpenTraceFromBufferStream(
    _options: *const RawOpenOptions,
    _completion: *const c_void,
    _context: *mut c_void,
) -> u64 {
    SetLastError(Status::ERROR_NOT_SUPPORTED.0);
    INVALID
}

/// # Safety
/// ONE `options`; OUT `header`, or NULL; `names` is safe to call.
unsafe fn open(
    options: *const RawOpenOptions,
    header: *mut RawLogfileHeader,
    mode: ProcessTraceMode,
    names: impl FnOnce() -> [Option<Name>; 2],
) -> u64 {
    handle_of(|| {
        // SAFETY: ONE.
        let options = unsafe { read(options) }.ok_or(Status::ERROR_INVALID_PARAMETER)?;
        if !options.buffer_callback.is_null() {
            return Err(Status::ERROR_NOT_SUPPORTED);
        }
        let raw_times = match options.modes & RAW_TIMESTAMP {
            0 => ProcessTraceMode::NONE,
            _ => ProcessTraceMode::RAW_TIMESTAMP,
        };
        let raw = RawLogfile {
            log_file_name: std::ptr::null(),
            logger_name: std::ptr::null(),
            current_time: 0,
            buffers_read: 0,
            mode: mode | raw_times | ProcessTraceMode::EVENT_RECORD,
            current_event: NO_EVENT,
            header: NO_HEADER,
            buffer_callback: None,
            buffer_size: 0,
            filled: 0,
            events_lost: 0,
            event_callback: options.event_callback,
            is_kernel_trace: 0,
            context: options.event_context,
        };
        let trace = open_trace(raw, names())?;
        if !header.is_null() {
            // SAFETY: OUT.
            unsafe { header.write_unaligned(trace.logfile().raw.header) };
        }
        Ok(trace)
    })
}

/// Class 4, the header of a trace; other classes: 50.
///
/// # Safety
/// OUT `size`, or NULL; `to` is writable for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn QueryTraceProcessingHandle(
    handle: u64,
    class: i32,
    _input: *const c_void,
    _input_size: u32,
    to: *mut c_void,
    room: u32,
    size: *mut u32,
) -> u32 {
    const SIZE: u32 = size_of::<RawLogfileHeader>() as u32;
    guarded(|| {
        if class != QUERY_HEADER {
            return Status::ERROR_NOT_SUPPORTED;
        }
        let Some(trace) = trace::find(handle) else { return Status::ERROR_INVALID_HANDLE };
        if !size.is_null() {
            // SAFETY: OUT.
            unsafe { size.write_unaligned(SIZE) };
        }
        if to.is_null() || room < SIZE {
            return ERROR_INSUFFICIENT_BUFFER;
        }
        // SAFETY: `to` is writable for `room` bytes.
        unsafe { to.cast::<RawLogfileHeader>().write_unaligned(trace.logfile().raw.header) };
        Status::ERROR_SUCCESS
    })
}
