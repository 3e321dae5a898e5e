//! The recorder's functions of sessions: a system whose sessions are kept in a list and whose traces are played by the tests.
//!
//! Structures are those of `windows-sys`.

use std::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, PoisonError};

use etw::Guid;
use windows_sys::Win32::System::Diagnostics::Etw::{
    ENABLE_TRACE_PARAMETERS, EVENT_FILTER_DESCRIPTOR, EVENT_RECORD, EVENT_TRACE_LOGFILEW,
    EVENT_TRACE_PROPERTIES_V2, PAYLOAD_FILTER_PREDICATE,
};

/// The functions that old versions of the system lack.
pub const OPTIONAL: [&CStr; 5] = [
    c"TraceSetInformation",
    c"EnumerateTraceGuidsEx",
    c"TdhEnumerateProviders",
    c"TdhCreatePayloadFilter",
    c"TdhAggregatePayloadFilters",
];

/// One call.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    Start { name: String, properties: Vec<u8>, file: String },
    Control { name: String, code: u32, file: String, properties: Vec<u8> },
    Enable(Box<Enable>),
    SetInformation { handle: u64, class: u32, bytes: Vec<u8> },
    Open { name: String, mode: u32 },
    Close,
}

/// The arguments of `EnableTraceEx2`.
#[derive(Clone, Debug, PartialEq)]
pub struct Enable {
    pub handle: u64,
    pub provider: Guid,
    pub code: u32,
    pub level: u8,
    pub any: u64,
    pub all: u64,
    pub timeout: u32,
    pub version: u32,
    pub property: u32,
    /// Types and bytes.
    pub filters: Vec<(u32, Vec<u8>)>,
}

/// A running session, as `StartTraceW` made it.
struct Running {
    handle: u64,
    name: String,
    file: String,
    properties: EVENT_TRACE_PROPERTIES_V2,
}

// SAFETY: the pointers in the properties are null.
unsafe impl Send for Running {}

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    running: Vec<Running>,
    /// The status of the next `StartTraceW`.
    refusal: u32,
    /// Texts of payload filters: field, operator, value.
    predicates: Vec<(String, u16, String)>,
    /// The callbacks of the open trace.
    trace: Option<Trace>,
    is_closed: bool,
}

/// The callbacks that `OpenTraceW` was given.
#[derive(Clone, Copy)]
struct Trace {
    event: unsafe extern "system" fn(*mut EVENT_RECORD),
    buffer: unsafe extern "system" fn(*mut EVENT_TRACE_LOGFILEW) -> u32,
    context: usize,
}

/// Plays a trace: `ProcessTrace` calls it with two functions, of which one delivers a record, the other ends a buffer with the number of
/// lost events. The second returns what the program's callback returned.
pub type Script = fn(&mut dyn FnMut(&mut EVENT_RECORD), &mut dyn FnMut(u32) -> u32);

static STATE: Mutex<Option<State>> = Mutex::new(None);
static SCRIPT: Mutex<Option<Script>> = Mutex::new(None);

fn with<R>(f: impl FnOnce(&mut State) -> R) -> R {
    f(STATE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(State::default))
}

pub fn clear() {
    with(|state| *state = State::default());
}

pub fn take_calls() -> Vec<Call> {
    with(|state| std::mem::take(&mut state.calls))
}

pub fn take_predicates() -> Vec<(String, u16, String)> {
    with(|state| std::mem::take(&mut state.predicates))
}

/// The next `StartTraceW` returns this status.
pub fn refuse_start(status: u32) {
    with(|state| state.refusal = status);
}

/// The next `ProcessTrace` plays this.
pub fn play(script: Script) {
    *SCRIPT.lock().unwrap_or_else(PoisonError::into_inner) = Some(script);
}

/// Whether the program has closed the trace.
pub fn is_closed() -> bool {
    with(|state| state.is_closed)
}

/// # Safety
/// A text that ends with NUL.
unsafe fn text(start: *const u16) -> String {
    let mut units = Vec::new();
    // SAFETY: the caller promises it.
    unsafe {
        while start.add(units.len()).read_unaligned() != 0 {
            units.push(start.add(units.len()).read_unaligned());
        }
    }
    String::from_utf16(&units).unwrap()
}

/// The bytes of a structure.
pub fn bytes_of<T>(value: &T) -> Vec<u8> {
    let start = std::ptr::from_ref(value).cast::<u8>();
    // SAFETY: structures of these tests have no padding that was never written: they begin as zeros.
    unsafe { std::slice::from_raw_parts(start, size_of::<T>()) }.to_vec()
}

/// The structure and the file's name behind it.
///
/// # Safety
/// Properties with names at their offsets.
unsafe fn read(at: *const EVENT_TRACE_PROPERTIES_V2) -> (EVENT_TRACE_PROPERTIES_V2, String) {
    // SAFETY: the caller promises it.
    unsafe {
        let properties = at.read_unaligned();
        assert!(properties.Wnode.BufferSize as usize >= size_of::<EVENT_TRACE_PROPERTIES_V2>());
        let file = match properties.LogFileNameOffset {
            0 => String::new(),
            offset => text(at.cast::<u8>().add(offset as usize).cast()),
        };
        (properties, file)
    }
}

/// # Safety
/// Space for 1024 units at the offset.
unsafe fn put(at: *mut EVENT_TRACE_PROPERTIES_V2, offset: u32, name: &str) {
    if offset == 0 {
        return;
    }
    for (number, unit) in name.encode_utf16().chain([0]).enumerate() {
        // SAFETY: the caller promises it.
        unsafe {
            at.cast::<u8>().add(offset as usize).cast::<u16>().add(number).write_unaligned(unit)
        };
    }
}

/// Fills in a session as the system does.
///
/// # Safety
/// Properties with space for both names.
unsafe fn fill(at: *mut EVENT_TRACE_PROPERTIES_V2, running: &Running) {
    // SAFETY: the caller promises it.
    unsafe {
        let offsets = ((*at).LoggerNameOffset, (*at).LogFileNameOffset);
        let mut filled = running.properties;
        filled.Wnode.BufferSize = (*at).Wnode.BufferSize;
        filled.Wnode.Anonymous1.HistoricalContext = running.handle;
        (filled.LoggerNameOffset, filled.LogFileNameOffset) = offsets;
        filled.NumberOfBuffers = running.properties.MinimumBuffers;
        (filled.FreeBuffers, filled.BuffersWritten, filled.EventsLost) = (3, 7, 2);
        at.write_unaligned(filled);
        put(at, offsets.0, &running.name);
        put(at, offsets.1, &running.file);
    }
}

unsafe extern "system" fn start_trace(
    handle: *mut u64,
    name: *const u16,
    at: *mut EVENT_TRACE_PROPERTIES_V2,
) -> u32 {
    // SAFETY: the arguments of the call.
    let (name, (properties, file)) = unsafe { (text(name), read(at)) };
    with(|state| {
        let refusal = std::mem::take(&mut state.refusal);
        if refusal != 0 {
            return refusal;
        }
        if state.running.iter().any(|running| running.name.eq_ignore_ascii_case(&name)) {
            return 183;
        }
        let number = 0x0102_0000_0000_0010 + state.running.len() as u64;
        let call = Call::Start {
            name: name.clone(),
            properties: bytes_of(&properties),
            file: file.clone(),
        };
        state.calls.push(call);
        state.running.push(Running { handle: number, name, file, properties });
        // SAFETY: the arguments of the call.
        unsafe { handle.write_unaligned(number) };
        0
    })
}

/// `EVENT_TRACE_PRIVATE_LOGGER_MODE | EVENT_TRACE_PRIVATE_IN_PROC`
pub const PRIVATE: u32 = 0x0002_0800;

unsafe extern "system" fn control_trace(
    handle: u64,
    name: *const u16,
    at: *mut EVENT_TRACE_PROPERTIES_V2,
    code: u32,
) -> u32 {
    // SAFETY: the arguments of the call.
    let (name, (properties, file)) = unsafe { ((!name.is_null()).then(|| text(name)), read(at)) };
    assert_eq!(name.is_some(), handle == 0, "a session is named or has a handle");
    with(|state| {
        let is_it = |running: &Running| match &name {
            Some(name) => running.name.eq_ignore_ascii_case(name),
            None => running.handle == handle,
        };
        let Some(index) = state.running.iter().position(is_it) else { return 4201 };
        // The system finds private loggers with their GUID and modes only.
        let running = &state.running[index].properties;
        let guids = [running.Wnode.Guid, properties.Wnode.Guid].map(|guid| bytes_of(&guid));
        if running.LogFileMode & PRIVATE != 0
            && (guids[0] != guids[1] || properties.LogFileMode & PRIVATE != PRIVATE)
        {
            return 4201;
        }
        let name = state.running[index].name.clone();
        let properties_bytes = if code == 2 { bytes_of(&properties) } else { Vec::new() };
        state.calls.push(Call::Control { name, code, file, properties: properties_bytes });
        // SAFETY: the arguments of the call.
        unsafe { fill(at, &state.running[index]) };
        if code == 1 {
            state.running.remove(index);
        }
        0
    })
}

unsafe extern "system" fn query_all(
    all: *const *mut EVENT_TRACE_PROPERTIES_V2,
    count: u32,
    found: *mut u32,
) -> u32 {
    with(|state| {
        assert!(state.running.len() <= count as usize);
        for (number, running) in state.running.iter().enumerate() {
            // SAFETY: the arguments of the call.
            unsafe { fill(all.add(number).read(), running) };
        }
        // SAFETY: `found` is an argument of the call.
        unsafe { found.write(state.running.len() as u32) };
        0
    })
}

unsafe extern "system" fn enable_trace(
    handle: u64,
    provider: *const Guid,
    code: u32,
    level: u8,
    any: u64,
    all: u64,
    timeout: u32,
    parameters: *const ENABLE_TRACE_PARAMETERS,
) -> u32 {
    // SAFETY: the arguments of the call.
    let (provider, parameters, filters) = unsafe {
        let parameters = parameters.read_unaligned();
        let filters = (0..parameters.FilterDescCount as usize).map(|number| {
            let filter = parameters.EnableFilterDesc.add(number).read_unaligned();
            let start: *const u8 = std::ptr::with_exposed_provenance(filter.Ptr as usize);
            (filter.Type, std::slice::from_raw_parts(start, filter.Size as usize).to_vec())
        });
        (provider.read_unaligned(), parameters, filters.collect())
    };
    let (version, property) = (parameters.Version, parameters.EnableProperty);
    let enable =
        Enable { handle, provider, code, level, any, all, timeout, version, property, filters };
    with(|state| state.calls.push(Call::Enable(Box::new(enable))));
    0
}

unsafe extern "system" fn set_information(
    handle: u64,
    class: u32,
    data: *const u8,
    size: u32,
) -> u32 {
    // SAFETY: the arguments of the call.
    let bytes = unsafe { std::slice::from_raw_parts(data, size as usize) }.to_vec();
    with(|state| state.calls.push(Call::SetInformation { handle, class, bytes }));
    0
}

const TRACE: u64 = 0x77;

unsafe extern "system" fn open_trace(logfile: *mut EVENT_TRACE_LOGFILEW) -> u64 {
    // SAFETY: the arguments of the call.
    unsafe {
        let logfile = &mut *logfile;
        let name = text(logfile.LoggerName);
        let mode = logfile.Anonymous1.ProcessTraceMode;
        let header = &mut logfile.LogfileHeader;
        header.BufferSize = 0x10000;
        header.NumberOfProcessors = 4;
        header.TimerResolution = 156_250;
        header.PerfFreq = 10_000_000;
        header.StartTime = START_TIME;
        header.Anonymous2.Anonymous.PointerSize = 8;
        let event = logfile.Anonymous2.EventRecordCallback.unwrap();
        let context = logfile.Context.expose_provenance();
        let trace = Trace { event, buffer: logfile.BufferCallback.unwrap(), context };
        with(|state| {
            state.calls.push(Call::Open { name, mode });
            state.trace = Some(trace);
        });
    }
    TRACE
}

/// `StartTime` of played traces: 2023-11-14T22:13:20Z.
pub const START_TIME: i64 = 133_444_736_000_000_000;

unsafe extern "system" fn process_trace(
    handles: *const u64,
    count: u32,
    start: *const c_void,
    end: *const c_void,
) -> u32 {
    // SAFETY: the arguments of the call.
    assert_eq!(
        (unsafe { *handles }, count, start.is_null(), end.is_null()),
        (TRACE, 1, true, true)
    );
    let trace = with(|state| state.trace).unwrap();
    let context = std::ptr::with_exposed_provenance_mut(trace.context);
    let script = SCRIPT.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap();
    let mut record = |record: &mut EVENT_RECORD| {
        record.UserContext = context;
        // SAFETY: a record with the context of `OpenTraceW`.
        unsafe { (trace.event)(record) };
    };
    let mut buffer = |lost: u32| {
        // SAFETY: numbers, pointers and optional functions.
        let mut logfile: EVENT_TRACE_LOGFILEW = unsafe { std::mem::zeroed() };
        logfile.Context = context;
        (logfile.Filled, logfile.EventsLost) = (4096, lost);
        // SAFETY: a structure with the context of `OpenTraceW`.
        unsafe { (trace.buffer)(&mut logfile) }
    };
    script(&mut record, &mut buffer);
    0
}

unsafe extern "system" fn close_trace(handle: u64) -> u32 {
    assert_eq!(handle, TRACE);
    with(|state| {
        state.is_closed = true;
        state.calls.push(Call::Close);
    });
    0
}

/// The providers of the system: GUID and name.
pub const PROVIDERS: [(u128, &str); 2] = [(0xa1, "Windows-Kernel-Test"), (0xa2, "Straße")];

unsafe extern "system" fn enumerate_providers(buffer: *mut u8, size: *mut u32) -> u32 {
    let mut bytes = (PROVIDERS.len() as u64).to_le_bytes().to_vec();
    let mut names = Vec::new();
    for (id, name) in PROVIDERS {
        let offset = 8 + 24 * PROVIDERS.len() + names.len();
        bytes.extend(Guid::from_u128(id).0);
        bytes.extend(0u32.to_le_bytes());
        bytes.extend((offset as u32).to_le_bytes());
        names.extend(name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
    }
    bytes.extend(names);
    // SAFETY: the arguments of the call.
    unsafe { answer(&bytes, buffer, *size, size) }
}

/// # Safety
/// So many bytes at `buffer`.
unsafe fn answer(bytes: &[u8], buffer: *mut u8, room: u32, size: *mut u32) -> u32 {
    // SAFETY: the caller promises it.
    unsafe {
        *size = bytes.len() as u32;
        if (room as usize) < bytes.len() {
            return 122;
        }
        buffer.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
    }
    0
}

unsafe extern "system" fn enumerate_guids(
    class: u32,
    input: *const Guid,
    input_size: u32,
    buffer: *mut u8,
    room: u32,
    size: *mut u32,
) -> u32 {
    let bytes = match class {
        0 => [Guid::from_u128(0xa1).0, Guid::from_u128(0xb1).0].concat(),
        _ => {
            // SAFETY: the arguments of the call.
            assert_eq!((input_size, unsafe { *input }.is_zero()), (16, false));
            let logger = with(|state| state.running.first().map_or(9, |it| it.handle as u16));
            let mut bytes = Vec::new();
            let words = |bytes: &mut Vec<u8>, words: &[u32]| {
                bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            };
            // TRACE_GUID_INFO, then two TRACE_PROVIDER_INSTANCE_INFO, the first with one TRACE_ENABLE_INFO.
            words(&mut bytes, &[2, 0, 48, 1, 100, 0, 1]);
            bytes.extend([5, 0]);
            bytes.extend(logger.to_le_bytes());
            words(&mut bytes, &[0, 0, 0, 0, 0, 0, 0, 0, 200, 0]);
            bytes
        }
    };
    // SAFETY: the arguments of the call.
    unsafe { answer(&bytes, buffer, room, size) }
}

unsafe extern "system" fn create_filter(
    _provider: *const Guid,
    descriptor: *const [u8; 16],
    _any: u8,
    count: u32,
    predicates: *const PAYLOAD_FILTER_PREDICATE,
    filter: *mut usize,
) -> u32 {
    // SAFETY: the arguments of the call.
    unsafe {
        for number in 0..count as usize {
            let one = predicates.add(number).read();
            let texts = (text(one.FieldName), one.CompareOp, text(one.Value));
            with(|state| state.predicates.push(texts));
        }
        filter.write(0x1000 + usize::from((*descriptor)[0]));
    }
    0
}

unsafe extern "system" fn delete_filter(_filter: *mut usize) -> u32 {
    0
}

/// The bytes of every payload filter.
pub static PAYLOAD_FILTER: [u8; 3] = [1, 2, 3];

unsafe extern "system" fn aggregate_filters(
    count: u32,
    filters: *const usize,
    _match_all: *const u8,
    descriptor: *mut EVENT_FILTER_DESCRIPTOR,
) -> u32 {
    let address = PAYLOAD_FILTER.as_ptr().expose_provenance() as u64;
    // SAFETY: the arguments of the call.
    unsafe {
        assert!((0..count as usize).all(|number| *filters.add(number) >= 0x1000));
        descriptor.write(EVENT_FILTER_DESCRIPTOR { Ptr: address, Size: 3, Type: 0x8000_0100 });
    }
    0
}

unsafe extern "system" fn clean_up_filters(_descriptor: *mut EVENT_FILTER_DESCRIPTOR) -> u32 {
    0
}

unsafe extern "system" fn load_library(
    name: *const c_char,
    _file: *mut c_void,
    _flags: u32,
) -> *mut c_void {
    // SAFETY: a name that ends with NUL.
    assert_eq!(
        unsafe { CStr::from_ptr(name) },
        c"tdh.dll",
        "nothing else is loaded by this function"
    );
    // Its functions come from `GetProcAddress`, which is replaced, too.
    std::ptr::without_provenance_mut(1)
}

/// The function of a name.
pub fn replacement(name: &str) -> Option<usize> {
    let address: *const () = match name {
        "StartTraceW" => start_trace as *const (),
        "ControlTraceW" => control_trace as *const (),
        "QueryAllTracesW" => query_all as *const (),
        "EnableTraceEx2" => enable_trace as *const (),
        "TraceSetInformation" => set_information as *const (),
        "OpenTraceW" => open_trace as *const (),
        "ProcessTrace" => process_trace as *const (),
        "CloseTrace" => close_trace as *const (),
        "TdhEnumerateProviders" => enumerate_providers as *const (),
        "EnumerateTraceGuidsEx" => enumerate_guids as *const (),
        "TdhCreatePayloadFilter" => create_filter as *const (),
        "TdhDeletePayloadFilter" => delete_filter as *const (),
        "TdhAggregatePayloadFilters" => aggregate_filters as *const (),
        "TdhCleanupPayloadEventFilterDescriptor" => clean_up_filters as *const (),
        "LoadLibraryExA" => load_library as *const (),
        _ => return None,
    };
    Some(address.expose_provenance())
}
