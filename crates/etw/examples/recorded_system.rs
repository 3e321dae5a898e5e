//! A library with the functions of `advapi32.dll` that the command `etw` calls: it writes each call to the file that the variable
//! `ETW_RECORDED_CALLS` names, reports success, and delivers one event to consumers. For tests of the command under Wine, whose own
//! functions do nothing.
#![cfg(windows)]
// The functions have the names and parameters of Windows.
#![allow(non_snake_case, clippy::too_many_arguments, missing_docs)]

use std::ffi::c_void;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Mutex;

use windows_sys::Win32::System::Diagnostics::Etw::{
    ENABLE_TRACE_PARAMETERS, EVENT_HEADER_EXTENDED_DATA_ITEM, EVENT_RECORD, EVENT_TRACE_LOGFILEW,
    EVENT_TRACE_PROPERTIES_V2,
};
use windows_sys::core::GUID;

const HANDLE: u64 = 0x77;
/// The callbacks of the trace that was opened: for events, for buffers, and their context.
static TRACE: Mutex<Option<(usize, usize, usize)>> = Mutex::new(None);

fn record(line: &str) {
    let Some(path) = std::env::var_os("ETW_RECORDED_CALLS") else { return };
    if let Ok(mut file) = std::fs::File::options().append(true).create(true).open(path) {
        let _ = writeln!(file, "{line}");
    }
}

/// # Safety
/// Null, or a text that ends with NUL.
unsafe fn text(start: *const u16) -> String {
    let mut units = Vec::new();
    // SAFETY: the caller promises it.
    unsafe {
        while !start.is_null() && start.add(units.len()).read_unaligned() != 0 {
            units.push(start.add(units.len()).read_unaligned());
        }
    }
    String::from_utf16_lossy(&units)
}

fn guid(id: &GUID) -> String {
    let GUID { data1, data2, data3, data4 } = id;
    let rest: String = data4.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    format!("{data1:08x}-{data2:04x}-{data3:04x}-{}-{}", &rest[..4], &rest[4..])
}

/// # Safety
/// Properties with names at their offsets.
unsafe fn file_of(at: *const EVENT_TRACE_PROPERTIES_V2) -> String {
    // SAFETY: the caller promises it.
    unsafe {
        match (*at).LogFileNameOffset {
            0 => String::new(),
            offset => text(at.cast::<u8>().add(offset as usize).cast()),
        }
    }
}

/// Fills in a running session for consumers.
///
/// # Safety
/// Properties with space for a name.
unsafe fn fill(at: *mut EVENT_TRACE_PROPERTIES_V2, name: &str) {
    // SAFETY: the caller promises it.
    unsafe {
        (*at).LogFileMode = 0x100;
        (*at).Wnode.Anonymous1.HistoricalContext = HANDLE;
        (*at).BuffersWritten = 7;
        (*at).EventsLost = 2;
        let place: *mut u16 = at.cast::<u8>().add((*at).LoggerNameOffset as usize).cast();
        for (number, unit) in name.encode_utf16().chain([0]).enumerate() {
            place.add(number).write_unaligned(unit);
        }
    }
}

/// # Safety
/// As Windows' function.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn StartTraceW(
    handle: *mut u64,
    name: *const u16,
    at: *mut EVENT_TRACE_PROPERTIES_V2,
) -> u32 {
    // SAFETY: the caller promises it.
    unsafe {
        let (name, file, of) = (text(name), file_of(at), &*at);
        record(&format!(
            "StartTraceW {name} file={file} mode={:#x} flags={:#x} size={} guid={}",
            of.LogFileMode,
            of.EnableFlags,
            of.MaximumFileSize,
            guid(&of.Wnode.Guid)
        ));
        handle.write(HANDLE);
    }
    0
}

/// # Safety
/// As Windows' function.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn ControlTraceW(
    handle: u64,
    name: *const u16,
    at: *mut EVENT_TRACE_PROPERTIES_V2,
    code: u32,
) -> u32 {
    // SAFETY: the caller promises it.
    unsafe {
        let name = text(name);
        record(&format!(
            "ControlTraceW {name} handle={handle:#x} code={code} file={}",
            file_of(at)
        ));
        fill(at, &name);
    }
    0
}

/// # Safety
/// As Windows' function.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn QueryAllTracesW(
    all: *const *mut EVENT_TRACE_PROPERTIES_V2,
    _count: u32,
    found: *mut u32,
) -> u32 {
    record("QueryAllTracesW");
    // SAFETY: the caller promises it.
    unsafe {
        fill(all.read(), "listed");
        found.write(1);
    }
    0
}

/// # Safety
/// As Windows' function.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn EnableTraceEx2(
    handle: u64,
    provider: *const GUID,
    code: u32,
    level: u8,
    any: u64,
    all: u64,
    _timeout: u32,
    parameters: *const ENABLE_TRACE_PARAMETERS,
) -> u32 {
    let mut line = format!("EnableTraceEx2 {handle:#x}");
    // SAFETY: the caller promises it.
    unsafe {
        let parameters = &*parameters;
        let property = parameters.EnableProperty;
        let id = guid(&*provider);
        let _ = write!(
            line,
            " {id} code={code} level={level} any={any:#x} all={all:#x} property={property:#x}"
        );
        for number in 0..parameters.FilterDescCount as usize {
            let filter = &*parameters.EnableFilterDesc.add(number);
            let start: *const u8 = std::ptr::with_exposed_provenance(filter.Ptr as usize);
            let _ = write!(line, " {:#x}=", filter.Type);
            for byte in std::slice::from_raw_parts(start, filter.Size as usize) {
                let _ = write!(line, "{byte:02x}");
            }
        }
    }
    record(&line);
    0
}

/// # Safety
/// As Windows' function.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn TraceSetInformation(
    handle: u64,
    class: u32,
    data: *const u8,
    size: u32,
) -> u32 {
    let mut line = format!("TraceSetInformation {handle:#x} class={class} ");
    // SAFETY: the caller promises it.
    for byte in unsafe { std::slice::from_raw_parts(data, size as usize) } {
        let _ = write!(line, "{byte:02x}");
    }
    record(&line);
    0
}

/// Two providers: the first with one process and one session, the second without any.
///
/// # Safety
/// As Windows' function.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn EnumerateTraceGuidsEx(
    class: u32,
    input: *const u8,
    _input_size: u32,
    buffer: *mut u8,
    room: u32,
    size: *mut u32,
) -> u32 {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let bytes: Vec<u8> = match class {
        0 => [[0xa1; 16], [0xb2; 16]].concat(),
        // SAFETY: the caller passes a GUID.
        _ if unsafe { *input } == 0xa1 => {
            // One registration of process 100, enabled at level 5 in session 0x77.
            words(&[1, 0, 0, 1, 100, 0, 1, 5 | 0x77 << 16, 0, 0, 0, 0, 0, 0])
        }
        _ => words(&[0, 0]),
    };
    // SAFETY: the caller promises so many bytes.
    unsafe {
        size.write(bytes.len() as u32);
        if (room as usize) < bytes.len() {
            return 122;
        }
        buffer.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
    }
    0
}

/// # Safety
/// As Windows' function.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn OpenTraceW(logfile: *mut EVENT_TRACE_LOGFILEW) -> u64 {
    // SAFETY: the caller promises it.
    unsafe {
        let logfile = &mut *logfile;
        record(&format!(
            "OpenTraceW {} mode={:#x}",
            text(logfile.LoggerName),
            logfile.Anonymous1.ProcessTraceMode
        ));
        let header = &mut logfile.LogfileHeader;
        (header.BufferSize, header.NumberOfProcessors) = (0x10000, 4);
        (header.TimerResolution, header.PerfFreq) = (156_250, 10_000_000);
        header.StartTime = 133_444_736_000_000_000;
        header.Anonymous2.Anonymous.PointerSize = 8;
        let event = logfile.Anonymous2.EventRecordCallback.map_or(0, |f| f as usize);
        let buffer = logfile.BufferCallback.map_or(0, |f| f as usize);
        let context = logfile.Context.expose_provenance();
        *TRACE.lock().unwrap_or_else(|error| error.into_inner()) = Some((event, buffer, context));
    }
    HANDLE
}

/// Delivers one event, `Numbered` with `Number` 7, and ends.
///
/// # Safety
/// As Windows' function.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn ProcessTrace(
    _handles: *const u64,
    _count: u32,
    _start: *const c_void,
    _end: *const c_void,
) -> u32 {
    record("ProcessTrace");
    let trace = *TRACE.lock().unwrap_or_else(|error| error.into_inner());
    let Some((event, buffer, context)) = trace else { return 6 };
    let context: *mut c_void = std::ptr::with_exposed_provenance_mut(context);
    let mut schema = *b"\0\0\0Numbered\0Number\0\x08";
    schema[0] = schema.len() as u8;
    let mut item = EVENT_HEADER_EXTENDED_DATA_ITEM {
        ExtType: 11,
        DataSize: schema.len() as u16,
        DataPtr: schema.as_ptr().expose_provenance() as u64,
        ..Default::default()
    };
    let mut number = 7u32;
    // SAFETY: numbers, pointers and optional functions, for which zero is valid; callbacks that `OpenTraceW` was given.
    unsafe {
        let mut record: EVENT_RECORD = std::mem::zeroed();
        let header = &mut record.EventHeader;
        header.Size = 80;
        header.Flags = 0x40;
        (header.ProcessId, header.ThreadId) = (100, 101);
        header.TimeStamp = 133_444_736_000_000_001;
        header.ProviderId = GUID::from_u128(0xa1);
        (header.EventDescriptor.Channel, header.EventDescriptor.Level) = (11, 4);
        (record.ExtendedDataCount, record.ExtendedData) = (1, &mut item);
        (record.UserDataLength, record.UserData) = (4, std::ptr::from_mut(&mut number).cast());
        record.UserContext = context;
        let event: unsafe extern "system" fn(*mut EVENT_RECORD) =
            std::mem::transmute::<*const c_void, _>(std::ptr::with_exposed_provenance(event));
        event(&mut record);
        let mut logfile: EVENT_TRACE_LOGFILEW = std::mem::zeroed();
        (logfile.Context, logfile.Filled) = (context, 200);
        let buffer: unsafe extern "system" fn(*mut EVENT_TRACE_LOGFILEW) -> u32 =
            std::mem::transmute::<*const c_void, _>(std::ptr::with_exposed_provenance(buffer));
        buffer(&mut logfile);
    }
    0
}

#[unsafe(no_mangle)]
pub extern "system" fn CloseTrace(_handle: u64) -> u32 {
    record("CloseTrace");
    0
}

/// Functions of providers, which the command does not need: they only report success.
macro_rules! succeed {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "system" fn $name() -> u64 {
            0
        }
    )*};
}

succeed! {
    EventRegister EventUnregister EventWriteTransfer EventWriteString EventActivityIdControl
    RegisterTraceGuidsW UnregisterTraceGuids GetTraceLoggerHandle GetTraceEnableLevel
    GetTraceEnableFlags TraceEvent TraceMessageVa EventSetInformation EventWriteEx
}
