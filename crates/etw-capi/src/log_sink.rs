//! `c_logging/log_sink_etw.h`: c-logging's ETW sink, with the layouts of its contexts on x86-64 and other 64-bit Linux.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use etw_api::Status;
use etw_log_sink::encode::MAX_PAIRS;
use etw_log_sink::{Emit, EtwSink, LogLevel, Pair, Value};

use crate::abi::{RawGuid, guarded, guid_of, text_of};

static SINK: EtwSink = EtwSink::new();

/// `LOG_SINK_IF` of today's c-logging.
#[repr(C)]
pub struct LogSinkIf {
    init: extern "C" fn() -> c_int,
    log: Log,
    deinit: extern "C" fn(),
}

/// The last parameter is a `va_list`: only C looks at it, and only C calls it.
type Log = unsafe extern "C" fn(
    u32,
    *const c_void,
    *const c_char,
    *const c_char,
    c_int,
    *const c_char,
    *mut c_void,
);

/// `LOG_SINK_IF` of May 2023: one variadic function.
#[repr(C)]
pub struct SeedLogSinkIf {
    log: unsafe extern "C" fn(
        u32,
        *const c_void,
        *const c_char,
        *const c_char,
        c_int,
        *const c_char,
        ...
    ),
}

unsafe extern "C" {
    fn etw_log_sink_log(
        level: u32,
        context: *const c_void,
        file: *const c_char,
        func: *const c_char,
        line: c_int,
        format: *const c_char,
        arguments: *mut c_void,
    );
    fn etw_log_sink_seed_log(
        level: u32,
        context: *const c_void,
        file: *const c_char,
        func: *const c_char,
        line: c_int,
        format: *const c_char,
        ...
    );
}

/// The sink.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static log_sink_etw: LogSinkIf =
    LogSinkIf { init: initialize, log: etw_log_sink_log, deinit: deinitialize };

/// The sink in its older form.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static log_sink_etw_seed: SeedLogSinkIf = SeedLogSinkIf { log: etw_log_sink_seed_log };

/// Nobody is there to hear that standard output is closed.
fn print(line: &str) {
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}

extern "C" fn initialize() -> c_int {
    let status = guarded(|| {
        if SINK.is_registered() {
            print("log_sink_etw already initialized\r\n");
            return Status::ERROR_ALREADY_EXISTS;
        }
        // What went wrong has been printed.
        match SINK.ensure_registered() {
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

/// Another provider than the default one, from the next registration on: to be called before the first log.
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

/// For the C side, which thus need not ask while nobody listens; null while the sink is not registered.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static etw_log_sink_gate: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// For the C side: is an event of this level wanted?
#[unsafe(no_mangle)]
extern "C" fn etw_log_sink_wants(level: u32) -> c_int {
    let wants = std::panic::catch_unwind(|| {
        let wants = SINK.wants(LogLevel(level));
        if let Some(gate) = SINK.gate() {
            etw_log_sink_gate.store(std::ptr::from_ref(gate).cast_mut(), Ordering::Release);
        }
        wants
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
    is_seed: c_int,
    file: *const c_char,
    func: *const c_char,
    line: c_int,
    message: *const c_char,
    length: usize,
) {
    guarded(|| {
        let count = match count as usize {
            _ if pairs.is_null() => 0,
            // Too many, and none: the event goes without them.
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
            unsafe { pair_of(pairs.cast::<RawPair>().add(n).read_unaligned(), is_seed != 0) }
        });
        let mut few = [const { MaybeUninit::uninit() }; 8];
        let mut many = Vec::new();
        // Few are the usual case, and need no memory of their own. They are made where they stay: a copy would wait for its parts.
        let list: &mut [Pair<'_>] = match count {
            ..=8 => {
                for (room, pair) in few.iter_mut().zip(pairs) {
                    room.write(pair);
                }
                // SAFETY: so many have been written.
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
        let emit = Emit { level: LogLevel(level), file, func, line, pairs: list, is_text: false };
        SINK.emit(&emit, |to| to.extend_from_slice(message));
        if count <= 8 {
            // SAFETY: so many have been written, and nothing uses them after. A panic before this leaks them.
            unsafe { few[..count].assume_init_drop() };
        }
        Status::ERROR_SUCCESS
    });
}

/// # Safety
/// CODE: a pair of c-logging, whose function `get_type` may be called; TEXT for its name and ONE for its value, for as long as `'a`.
#[inline(always)]
unsafe fn pair_of<'a>(pair: RawPair, is_seed: bool) -> Pair<'a> {
    // SAFETY: TEXT.
    unsafe {
        let name = Cow::Borrowed(text_of(pair.name).unwrap_or_default());
        let number = match pair.kind.is_null() {
            false => (*pair.kind).get_type.map_or(0, |get_type| get_type()),
            true => 0,
        };
        Pair { name, value: value_of(pair.value, today(number, is_seed)) }
    }
}

/// The seed's numbers of types as today's: `bool` came between the first and the second.
fn today(number: u32, is_seed: bool) -> u32 {
    match number {
        2..=10 if is_seed => number + 1,
        11.. if is_seed => 0,
        _ => number,
    }
}

/// # Safety
/// ONE `value`, of type `number`, at any alignment, for as long as `'a`.
#[inline(always)]
unsafe fn value_of<'a>(value: *const u8, number: u32) -> Value<'a> {
    if value.is_null() {
        // Of a text a lone NUL; nothing else can be nothing.
        return match number {
            1 => Value::Ansi(Cow::Borrowed(&[])),
            12 => Value::Wide(Cow::Borrowed(&[])),
            _ => Value::Unknown,
        };
    }
    // SAFETY: TEXT.
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
            12 => Value::Wide(Cow::Owned(wide(value))),
            _ => Value::Unknown,
        }
    }
}

/// UTF-16 of a text of `wchar_t`: 32 bits here. What is no scalar value becomes U+FFFD.
///
/// # Safety
/// Units up to a zero one, at any address.
unsafe fn wide(text: *const u8) -> Vec<u16> {
    let text = text.cast::<u32>();
    let mut units = Vec::new();
    for n in 0.. {
        // SAFETY: ARRAY.
        match unsafe { text.add(n).read_unaligned() } {
            0 => break,
            unit => {
                let character = char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER);
                units.extend_from_slice(character.encode_utf16(&mut [0; 2]));
            }
        }
    }
    units
}
