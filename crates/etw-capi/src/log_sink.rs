//! `c_logging/log_sink_etw.h`: c-logging's ETW sink, with the layouts of its contexts on 64-bit Linux.
//!
//! The sink has three forms: today's, where `init` registers; that of May 2023, where the first log does; and one for programs without
//! c-logging. `csrc/log_sink.c` has the variadic functions, and the weak symbols by which it recognises the program's c-logging.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use etw_api::Status;
use etw_log_sink::encode::MAX_PAIRS;
use etw_log_sink::{Emit, EtwSink, LogLevel, Message, Pair, Value};

use crate::abi::{RawGuid, guarded, guid_of, text_of, utf16_units_of, utf32_of};

static SINK: EtwSink = EtwSink::new();

/// `LOG_SINK_IF` of today's c-logging. The parameters of each function are C's alone: only C calls them.
#[repr(C)]
pub struct LogSinkIf {
    init: unsafe extern "C" fn(),
    log: unsafe extern "C" fn(),
    deinit: extern "C" fn(),
}

/// `LOG_SINK_IF` of May 2023: one variadic function.
#[repr(C)]
pub struct SeedLogSinkIf {
    log: unsafe extern "C" fn(),
}

/// The form of the caller's contexts; `csrc/log_sink.c` has the same structure.
#[repr(C)]
struct Form {
    is_seed: c_int,
    wchar_size: u32,
}

// `csrc/log_sink.c` defines these. Their parameters are left out, since Rust takes only the addresses.
unsafe extern "C" {
    fn etw_log_sink_init_or_log();
    fn etw_log_sink_log();
    fn etw_log_sink_auto_log();
    fn etw_log_sink_variadic_log();
    fn etw_log_sink_seed_log();
}

unsafe extern "C" {
    safe fn etw_log_sink_program_id() -> *const RawGuid;
    safe fn etw_log_sink_program_name() -> *const c_char;
}

/// The sink: as in c-logging, `init` registers, and a log before it writes nothing.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static log_sink_etw: LogSinkIf =
    LogSinkIf { init: etw_log_sink_init_or_log, log: etw_log_sink_log, deinit: deinitialize };

/// The sink for c-logging's form with three members and a variadic `log`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static log_sink_etw_variadic: LogSinkIf = LogSinkIf {
    init: etw_log_sink_init_or_log,
    log: etw_log_sink_variadic_log,
    deinit: deinitialize,
};

/// The sink for programs without c-logging: the first log registers.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static log_sink_etw_auto: LogSinkIf =
    LogSinkIf { init: etw_log_sink_init_or_log, log: etw_log_sink_auto_log, deinit: deinitialize };

/// The sink in the form of May 2023: the first log registers.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static log_sink_etw_seed: SeedLogSinkIf = SeedLogSinkIf { log: etw_log_sink_seed_log };

/// Prints a line, as c-logging does. If standard output is closed, the line is dropped.
fn print(line: &str) {
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}

/// Registers, with the provider of the program's compilation unless something more specific names one.
fn register() -> bool {
    if !SINK.is_registered() {
        // SAFETY: ONE, TEXT: `log_sink_etw.h` defines both, or neither.
        let (id, name) =
            unsafe { (guid_of(etw_log_sink_program_id()), text_of(etw_log_sink_program_name())) };
        SINK.set_built_provider(id, name.map(|name| String::from_utf8_lossy(name).into_owned()));
    }
    SINK.ensure_registered()
}

/// `init`, called by the C side.
#[unsafe(no_mangle)]
extern "C" fn etw_log_sink_init() -> c_int {
    let status = guarded(|| {
        if SINK.is_registered() {
            print("log_sink_etw already initialized\r\n");
            return Status::ERROR_ALREADY_EXISTS;
        }
        // `EtwSink` has printed the cause of a failure.
        match register() {
            true => Status::ERROR_SUCCESS,
            false => Status::ERROR_NO_SYSTEM_RESOURCES,
        }
    });
    status as c_int
}

extern "C" fn deinitialize() {
    guarded(|| {
        etw_log_sink_gate.store(std::ptr::null_mut(), Ordering::Release);
        if !SINK.unregister() {
            print("log_sink_etw not initialized\r\n");
        }
        Status::ERROR_SUCCESS
    });
}

/// Sets the provider. The program calls it before the first log.
///
/// # Safety
/// ONE `id`; TEXT `name`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_log_sink_set_provider(id: *const RawGuid, name: *const c_char) -> u32 {
    guarded(|| {
        // SAFETY: ONE, TEXT.
        let (Some(id), Some(name)) = (unsafe { (guid_of(id), text_of(name)) }) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        if SINK.is_registered() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        SINK.set_provider(id, &String::from_utf8_lossy(name));
        Status::ERROR_SUCCESS
    })
}

/// Sets the channel of all events. The program calls it before the first log.
#[unsafe(no_mangle)]
pub extern "C" fn etw_log_sink_set_channel(channel: u8) -> u32 {
    guarded(|| {
        if channel == 0 || SINK.is_registered() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        SINK.set_channel(etw_api::Channel(channel));
        Status::ERROR_SUCCESS
    })
}

/// For the C side, which reads it instead of calling when no session enables the sink. Null while the sink is not registered.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static etw_log_sink_gate: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// For the C side: whether a session enabled events of this level. `registers`: a sink that is not registered yet registers first.
#[unsafe(no_mangle)]
extern "C" fn etw_log_sink_wants(level: u32, registers: c_int) -> c_int {
    let wants = std::panic::catch_unwind(|| {
        if !SINK.is_registered() && (registers == 0 || !register()) {
            return false;
        }
        if etw_log_sink_gate.load(Ordering::Relaxed).is_null()
            && let Some(gate) = SINK.gate()
        {
            etw_log_sink_gate.store(std::ptr::from_ref(gate).cast_mut(), Ordering::Release);
        }
        SINK.wants(LogLevel(level))
    });
    c_int::from(wants.unwrap_or(false))
}

/// For the C side: a message could not be formatted.
#[unsafe(no_mangle)]
extern "C" fn etw_log_sink_failed() {
    print("Error emitting ETW event\r\n");
}

/// `LOG_CONTEXT_PROPERTY_VALUE_PAIR`, 24 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawPair {
    name: *const c_char,
    value: *const u8,
    kind: *const RawType,
}

/// `LOG_CONTEXT_PROPERTY_TYPE_IF`, 32 bytes.
#[repr(C)]
struct RawType {
    to_string: *const c_void,
    copy: *const c_void,
    free: *const c_void,
    get_type: Option<unsafe extern "C" fn() -> u32>,
}

const _: () = {
    assert!(size_of::<LogSinkIf>() == 24 && size_of::<SeedLogSinkIf>() == 8);
    assert!(size_of::<RawPair>() == 24 && size_of::<RawType>() == 32);
};

/// For the C side: writes an event.
///
/// # Safety
/// ARRAY `pairs`, `count`, of pairs as c-logging makes them; TEXT `file`; TEXT `func`; BYTES `message`, `length`.
#[unsafe(no_mangle)]
unsafe extern "C" fn etw_log_sink_emit(
    level: u32,
    pairs: *const c_void,
    count: u32,
    form: &Form,
    file: *const c_char,
    func: *const c_char,
    line: c_int,
    message: *const c_char,
    length: usize,
) {
    guarded(|| {
        let count = match count as usize {
            _ if pairs.is_null() => 0,
            // An event with too many properties has none.
            count => {
                if count <= MAX_PAIRS {
                    count
                } else {
                    0
                }
            }
        };
        let pairs = (0..count).map(|n| {
            // SAFETY: ARRAY.
            unsafe { pair_of(pairs.cast::<RawPair>().add(n).read_unaligned(), form) }
        });
        let mut few = [const { MaybeUninit::uninit() }; 8];
        let mut many = Vec::new();
        let mut owns_text = false;
        // Most events have few properties, which need no allocation. Each is written in place: a copy would wait for the stores.
        let list: &mut [Pair<'_>] = match count {
            ..=8 => {
                for (room, pair) in few.iter_mut().zip(pairs) {
                    owns_text |= matches!(pair.value, Value::Wide(Cow::Owned(_)));
                    room.write(pair);
                }
                // SAFETY: the loop initialised the first `count` elements.
                unsafe { few[..count].assume_init_mut() }
            }
            _ => {
                many.extend(pairs);
                &mut many
            }
        };
        // SAFETY: BYTES, TEXT.
        let (message, file, func) = unsafe {
            let message = std::slice::from_raw_parts(message.cast::<u8>(), length);
            (message, text_of(file), text_of(func))
        };
        let message = Message::Bytes(message);
        SINK.emit(&Emit { level: LogLevel(level), message, file, func, line, pairs: list });
        if owns_text {
            // SAFETY: the first `count` elements are initialised, and nothing uses them afterwards. A panic before this leaks them.
            unsafe { few[..count].assume_init_drop() };
        }
        Status::ERROR_SUCCESS
    });
}

/// # Safety
/// CODE: a pair of c-logging, whose function `get_type` may be called; TEXT for its name and ONE for its value, for as long as `'a`.
#[inline(always)]
unsafe fn pair_of<'a>(pair: RawPair, form: &Form) -> Pair<'a> {
    // SAFETY: TEXT.
    unsafe {
        let name = Cow::Borrowed(text_of(pair.name).unwrap_or_default());
        let number = match pair.kind.is_null() {
            false => (*pair.kind).get_type.map_or(0, |get_type| get_type()),
            true => 0,
        };
        Pair { name, value: value_of(pair.value, todays_number(number, form), form.wchar_size) }
    }
}

/// Today's number of a property type. The types of May 2023 have no `bool`, which is the second one today, and no `wchar_t_ptr`.
fn todays_number(number: u32, form: &Form) -> u32 {
    match number {
        2..=10 if form.is_seed != 0 => number + 1,
        11.. if form.is_seed != 0 => 0,
        _ => number,
    }
}

/// # Safety
/// ONE `value`, of type `number`, at any alignment, for as long as `'a`.
#[inline(always)]
unsafe fn value_of<'a>(value: *const u8, number: u32, wchar_size: u32) -> Value<'a> {
    if value.is_null() {
        // A text without a value is empty; other types cannot lack a value.
        return match number {
            1 => Value::Ansi(Cow::Borrowed(&[])),
            12 => Value::Wide(Cow::Borrowed(&[])),
            _ => Value::Unknown,
        };
    }
    // SAFETY: ONE, TEXT: the number says which type it is.
    unsafe {
        match number {
            1 => Value::Ansi(Cow::Borrowed(CStr::from_ptr(value.cast()).to_bytes())),
            2 => Value::Bool(*value != 0),
            3 => Value::Int64(value.cast::<i64>().read_unaligned()),
            4 => Value::Uint64(value.cast::<u64>().read_unaligned()),
            5 => Value::Int32(value.cast::<i32>().read_unaligned()),
            6 => Value::Uint32(value.cast::<u32>().read_unaligned()),
            7 => Value::Int16(value.cast::<i16>().read_unaligned()),
            8 => Value::Uint16(value.cast::<u16>().read_unaligned()),
            9 => Value::Int8(value.cast::<i8>().read_unaligned()),
            10 => Value::Uint8(*value),
            11 => Value::Struct(*value),
            12 if wchar_size == 2 => {
                Value::Wide(utf16_units_of(value.cast()).unwrap_or_default().into())
            }
            12 => {
                let text = utf32_of(value.cast()).unwrap_or_default();
                Value::Wide(text.encode_utf16().collect())
            }
            _ => Value::Unknown,
        }
    }
}
