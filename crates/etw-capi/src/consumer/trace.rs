//! Traces that `OpenTrace` has opened, by their handles.

use std::collections::HashMap;
use std::ffi::c_void;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use etw_api::Status;
use etw_etl::Error;
use etw_etl::header::LogfileHeader;
use etw_etl::read::TraceFile;
use etw_types::LogFileMode;

use super::real_time::Live;
use crate::abi::RawGuid;
use crate::status::{ERROR_CTX_CLOSE_PENDING, ERROR_FILE_CORRUPT};
use etw_types::raw::{
    ProcessTraceMode, RawBufferContext, RawLogfile, RawLogfileHeader, RawTrace, RawTraceHeader,
};

/// The source of a trace's events.
pub enum Input {
    File(TraceFile),
    RealTime(Box<Live>),
    /// A real-time session that did not run when the trace was opened, by its name. `ProcessTrace` looks for it again.
    NotStarted(String),
}

impl Input {
    /// The file; for a session its header, as a file without events.
    pub fn file(&self) -> Option<&TraceFile> {
        match self {
            Input::File(file) => Some(file),
            Input::RealTime(live) => Some(live.trace()),
            Input::NotStarted(_) => None,
        }
    }

    pub fn is_real_time(&self) -> bool {
        !matches!(self, Input::File(_))
    }
}

/// An opened trace.
pub struct Trace {
    pub input: Input,
    /// As the program filled it, with names that live as long as this does: what `BufferCallback` sees.
    logfile: Mutex<Logfile>,
    /// `CloseTrace` was called; `ProcessTrace` ends.
    closed: AtomicBool,
    /// A `ProcessTrace` reads it.
    busy: AtomicBool,
    /// `PROCESS_TRACE_MODE_…`
    pub mode: ProcessTraceMode,
    pub context: Context,
}

/// The program's pointer. The library passes it back and never follows it.
#[derive(Clone, Copy)]
pub struct Context(pub *mut c_void);

// SAFETY: the pointer is not followed here.
unsafe impl Send for Context {}
// SAFETY: a shared reference gives only a copy of the pointer, which is not followed here.
unsafe impl Sync for Context {}

/// The structure and the texts that it points to.
pub struct Logfile {
    pub raw: RawLogfile,
    /// `LoggerName` and `LogFileName` of the header; of the structure itself, UTF-16 or bytes as it came.
    _texts: [Box<[u16]>; 2],
    names: [Option<Box<[u16]>>; 2],
}

// SAFETY: its pointers lead to its own texts, or are the program's and not followed here.
unsafe impl Send for Logfile {}

impl Trace {
    /// `names`: `LogFileName` and `LoggerName` as they came, with their NUL, in units that are aligned for either form.
    pub fn new(input: Input, mut raw: RawLogfile, names: [Option<Box<[u16]>>; 2]) -> Trace {
        let header = input.file().and_then(TraceFile::header).cloned();
        let utf16 = |text: &str| text.encode_utf16().chain([0]).collect::<Box<[u16]>>();
        let text = |of: fn(&LogfileHeader) -> &str| utf16(header.as_ref().map_or("", of));
        let texts = [text(|header| &header.logger_name), text(|header| &header.log_file_name)];
        raw.header = match &header {
            Some(header) => raw_header(header, &texts),
            None => RawLogfileHeader {
                logger_name: texts[0].as_ptr(),
                log_file_name: texts[1].as_ptr(),
                ..NO_HEADER
            },
        };
        let name = |name: &Option<Box<[u16]>>| {
            name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr().cast())
        };
        raw.log_file_name = name(&names[0]);
        raw.logger_name = name(&names[1]);
        raw.current_event = NO_EVENT;
        raw.current_time = 0;
        raw.buffers_read = 0;
        raw.buffer_size = raw.header.buffer_size;
        raw.filled = 0;
        raw.events_lost = 0;
        raw.is_kernel_trace = u32::from(header.is_some_and(|header| is_kernel(&header)));
        Trace {
            input,
            closed: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            mode: raw.mode,
            context: Context(raw.context),
            logfile: Mutex::new(Logfile { raw, _texts: texts, names }),
        }
    }

    /// The same trace with the session, if it has started in the meantime. The trace keeps its handle.
    ///
    /// # Errors
    /// 4201: the session does not run.
    pub fn started(self: Arc<Trace>, handle: u64) -> Result<Arc<Trace>, Status> {
        let Input::NotStarted(session) = &self.input else { return Ok(self) };
        let live = super::real_time::open(session)?;
        let logfile = self.logfile();
        let input = Input::RealTime(Box::new(live));
        let started = Arc::new(Trace::new(input, logfile.raw, logfile.names.clone()));
        drop(logfile);
        // The trace may have been closed in the meantime.
        let is_open = handles(|handles| {
            handles.open.get_mut(&handle).map(|trace| *trace = Arc::clone(&started)).is_some()
        });
        if is_open { Ok(started) } else { Err(Status::ERROR_INVALID_HANDLE) }
    }

    pub fn logfile(&self) -> MutexGuard<'_, Logfile> {
        self.logfile.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Locks the trace for one `ProcessTrace`; `false` if another one has locked it.
    pub fn take(&self) -> bool {
        self.busy.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub fn give_back(&self) {
        self.busy.store(false, Ordering::Release);
    }
}

/// Opens a file, with the statuses of `OpenTrace`.
pub fn open_file(path: &Path) -> Result<Input, Status> {
    match TraceFile::open(path) {
        Ok(file) => Ok(Input::File(file)),
        Err(Error::Io { source, .. }) => Err(match source.kind() {
            std::io::ErrorKind::NotFound => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let is_there = folder.is_none_or(Path::is_dir);
                if is_there { Status::ERROR_FILE_NOT_FOUND } else { Status::ERROR_PATH_NOT_FOUND }
            }
            std::io::ErrorKind::PermissionDenied => Status::ERROR_ACCESS_DENIED,
            _ => Status::ERROR_BAD_PATHNAME,
        }),
        Err(Error::NotAnEtl { .. }) => Err(ERROR_FILE_CORRUPT),
        Err(_) => Err(Status::ERROR_BAD_PATHNAME),
    }
}

/// Windows' kernel session by its name, or by the mode of later ones.
fn is_kernel(header: &LogfileHeader) -> bool {
    header.logger_name == "NT Kernel Logger"
        || header.log_file_mode.contains(LogFileMode::SYSTEM_LOGGER)
}

fn raw_header(header: &LogfileHeader, texts: &[Box<[u16]>; 2]) -> RawLogfileHeader {
    RawLogfileHeader {
        buffer_size: header.buffer_size,
        version: header.version,
        provider_version: header.provider_version,
        number_of_processors: header.number_of_processors,
        end_time: header.end_time.0,
        timer_resolution: header.timer_resolution,
        maximum_file_size: header.maximum_file_size,
        log_file_mode: header.log_file_mode,
        buffers_written: header.buffers_written,
        start_buffers: header.start_buffers,
        pointer_size: header.pointer_size,
        events_lost: header.events_lost,
        cpu_speed_mhz: header.cpu_speed_mhz,
        logger_name: texts[0].as_ptr(),
        log_file_name: texts[1].as_ptr(),
        time_zone: header.time_zone,
        boot_time: header.boot_time.0,
        perf_freq: header.perf_freq,
        start_time: header.start_time.0,
        reserved_flags: header.clock_type.0,
        buffers_lost: header.buffers_lost,
    }
}

/// The header in place of one that cannot be read.
pub const NO_HEADER: RawLogfileHeader = RawLogfileHeader {
    buffer_size: 0,
    version: [0; 4],
    provider_version: 0,
    number_of_processors: 0,
    end_time: 0,
    timer_resolution: 0,
    maximum_file_size: 0,
    log_file_mode: LogFileMode::NONE,
    buffers_written: 0,
    start_buffers: 0,
    pointer_size: 0,
    events_lost: 0,
    cpu_speed_mhz: 0,
    logger_name: std::ptr::null(),
    log_file_name: std::ptr::null(),
    time_zone: [0; LogfileHeader::TIME_ZONE_SIZE],
    boot_time: 0,
    perf_freq: 0,
    start_time: 0,
    reserved_flags: 0,
    buffers_lost: 0,
};

pub const NO_EVENT: RawTrace = RawTrace {
    header: RawTraceHeader {
        size: 0,
        header_type: 0,
        marker: 0,
        kind: 0,
        level: 0,
        version: 0,
        thread_id: 0,
        process_id: 0,
        time: 0,
        guid: RawGuid::ZERO,
        kernel_time: 0,
        user_time: 0,
    },
    instance: 0,
    parent_instance: 0,
    parent: RawGuid::ZERO,
    data: std::ptr::null(),
    data_size: 0,
    buffer: RawBufferContext { cpu: 0, logger_id: 0 },
};

#[derive(Default)]
struct Handles {
    /// Handles are never reused, so a closed one is never confused with another.
    last: u64,
    open: HashMap<u64, Arc<Trace>>,
}

static HANDLES: Mutex<Option<Handles>> = Mutex::new(None);

fn handles<T>(with: impl FnOnce(&mut Handles) -> T) -> T {
    let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    with(handles.get_or_insert_default())
}

/// Gives it a handle.
pub fn add(trace: Arc<Trace>) -> u64 {
    handles(|handles| {
        handles.last += 1;
        handles.open.insert(handles.last, trace);
        handles.last
    })
}

pub fn find(handle: u64) -> Option<Arc<Trace>> {
    handles(|handles| handles.open.get(&handle).cloned())
}

/// Invalidates the handle; a `ProcessTrace` that reads the trace ends.
pub fn close(handle: u64) -> Status {
    let Some(trace) = handles(|handles| handles.open.remove(&handle)) else {
        return Status::ERROR_INVALID_HANDLE;
    };
    // Read first: a `ProcessTrace` that notices the change may end before a later read.
    let is_busy = trace.busy.load(Ordering::Acquire);
    trace.closed.store(true, Ordering::Release);
    if let Input::RealTime(live) = &trace.input {
        live.close();
    }
    if is_busy { ERROR_CTX_CLOSE_PENDING } else { Status::ERROR_SUCCESS }
}
