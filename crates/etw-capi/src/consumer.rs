//! `evntrace.h` for consumers: traces are opened, files or sessions, read in order of time, and closed.

mod arrival;
mod event;
mod from_options;
mod process;
#[cfg_attr(not(target_os = "linux"), path = "consumer/no_real_time.rs")]
mod real_time;
mod trace;

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::path::PathBuf;
use std::sync::Arc;

use etw_api::Status;

use crate::abi::{array, guarded, read, utf16_of};
use crate::last_error::SetLastError;
use crate::status::{ERROR_INVALID_TIME, ERROR_WMI_ALREADY_ENABLED};
pub use etw_types::raw::RawRecord;
use etw_types::raw::{ProcessTraceMode, RawLogfile};
use process::{Processing, Taken};
use trace::{Input, Trace};

/// `INVALID_PROCESSTRACE_HANDLE`
const INVALID: u64 = u64::MAX;
/// Traces that one `ProcessTrace` reads together.
const HANDLE_LIMIT: u32 = 64;

/// # Safety
/// ONE and OUT `logfile`, with TEXT for its names and CALLBACK for its callbacks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OpenTraceW(logfile: *mut RawLogfile) -> u64 {
    // SAFETY: ONE, OUT, and TEXT for both names.
    unsafe { open(logfile, |name| wide_name(name)) }
}

/// # Safety
/// TEXT `name`, in UTF-16.
unsafe fn wide_name(name: *const c_void) -> Option<Name> {
    // SAFETY: TEXT.
    let text = unsafe { utf16_of(name.cast()) }?;
    let units = text.encode_utf16().chain([0]).collect();
    Some(Name { path: PathBuf::from(&text), text, units })
}

/// # Safety
/// ONE and OUT `logfile`, with TEXT for its names and CALLBACK for its callbacks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OpenTraceA(logfile: *mut RawLogfile) -> u64 {
    // SAFETY: ONE, OUT, and TEXT for both names.
    unsafe {
        open(logfile, |name| {
            if name.is_null() {
                return None;
            }
            let bytes = CStr::from_ptr(name.cast::<c_char>()).to_bytes();
            #[cfg(unix)]
            let path = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes).into();
            #[cfg(not(unix))]
            let path = OsStr::new(&*String::from_utf8_lossy(bytes)).into();
            // Bytes in the order in which they lie, a NUL behind them.
            let padded = [bytes, &[0, 0]].concat();
            let units = padded.as_chunks::<2>().0.iter().map(|unit| u16::from_ne_bytes(*unit));
            Some(Name {
                path,
                text: String::from_utf8_lossy(bytes).into_owned(),
                units: units.collect(),
            })
        })
    }
}

/// A name as a path, as text, and as it came.
struct Name {
    path: PathBuf,
    text: String,
    units: Box<[u16]>,
}

/// # Safety
/// ONE and OUT `logfile`; `name` is safe for both names of the structure.
unsafe fn open(logfile: *mut RawLogfile, name: impl Fn(*const c_void) -> Option<Name>) -> u64 {
    handle_of(|| {
        if logfile.is_null() {
            return Err(Status::ERROR_INVALID_PARAMETER);
        }
        // SAFETY: ONE.
        let raw = unsafe { logfile.read_unaligned() };
        let names = [name(raw.log_file_name), name(raw.logger_name)];
        let trace = open_trace(raw, names)?;
        let with_own_names = RawLogfile {
            log_file_name: raw.log_file_name,
            logger_name: raw.logger_name,
            ..trace.logfile().raw
        };
        // SAFETY: OUT.
        unsafe { logfile.write_unaligned(with_own_names) };
        Ok(trace)
    })
}

/// The handle of the trace that a call opens; `INVALID` if it fails, with its status as the last error.
fn handle_of(open: impl FnOnce() -> Result<Arc<Trace>, Status>) -> u64 {
    let mut handle = INVALID;
    let status = guarded(|| match open() {
        Ok(trace) => {
            handle = trace::add(trace);
            Status::ERROR_SUCCESS
        }
        Err(status) => status,
    });
    if status != Status::ERROR_SUCCESS.0 {
        SetLastError(status);
    }
    handle
}

/// Opens the file or the session of a structure that has these names.
fn open_trace(raw: RawLogfile, names: [Option<Name>; 2]) -> Result<Arc<Trace>, Status> {
    let has_callback = raw.event_callback.is_some() || raw.buffer_callback.is_some();
    let input = match &names {
        _ if !has_callback => return Err(Status::ERROR_INVALID_PARAMETER),
        [_, Some(session)] if raw.mode.contains(ProcessTraceMode::REAL_TIME) => {
            match real_time::open(&session.text) {
                Ok(live) => Input::RealTime(Box::new(live)),
                // As on Windows, only `ProcessTrace` fails.
                Err(Status::ERROR_WMI_INSTANCE_NOT_FOUND) => {
                    Input::NotStarted(session.text.clone())
                }
                Err(status) => return Err(status),
            }
        }
        [Some(file), _] if !raw.mode.contains(ProcessTraceMode::REAL_TIME) => {
            trace::open_file(&file.path)?
        }
        _ => return Err(Status::ERROR_INVALID_PARAMETER),
    };
    Ok(Arc::new(Trace::new(input, raw, names.map(|name| Some(name?.units)))))
}

/// # Safety
/// ARRAY `handles`, `count`; ONE `start`; ONE `end`; CALLBACK, from `OpenTrace`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ProcessTrace(
    handles: *const u64,
    count: u32,
    start: *const i64,
    end: *const i64,
) -> u32 {
    let mut taken = None;
    let mut processing = None;
    let status = guarded(|| {
        if count == 0 || count > HANDLE_LIMIT {
            return Status::ERROR_BAD_LENGTH;
        }
        if handles.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: ARRAY, ONE.
        let (traces, times) = unsafe {
            let traces = array(handles, count).map(|handle| Some((handle, trace::find(handle)?)));
            (traces.collect::<Option<Vec<_>>>(), (read(start), read(end)))
        };
        let Some(traces) = traces else { return Status::ERROR_INVALID_HANDLE };
        if let (Some(start), Some(end)) = times
            && end < start
        {
            return ERROR_INVALID_TIME;
        }
        match traces.iter().filter(|(_, trace)| trace.input.is_real_time()).count() {
            0 => {}
            1 if traces.len() == 1 => {}
            // A session with files: their order could not be told (a guess: no status is documented).
            1 => return Status::ERROR_INVALID_PARAMETER,
            _ => return ERROR_WMI_ALREADY_ENABLED,
        }
        let started = traces.into_iter().map(|(handle, trace)| trace.started(handle));
        let traces = match started.collect::<Result<Vec<_>, _>>() {
            Ok(traces) => traces,
            Err(status) => return status,
        };
        taken = Taken::take(&traces);
        if taken.is_none() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        processing = Some(Processing::new(traces, times.0, times.1));
        Status::ERROR_SUCCESS
    });
    match processing {
        Some(processing) => processing.run().0,
        None => status,
    }
}

/// Closes a trace; one that is being read ends.
#[unsafe(no_mangle)]
pub extern "C" fn CloseTrace(handle: u64) -> u32 {
    guarded(|| trace::close(handle))
}
