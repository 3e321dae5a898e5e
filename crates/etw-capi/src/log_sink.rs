//! `c_logging/log_sink_etw.h`: c-logging's ETW sink, with the layouts of its contexts on 64-bit Linux.
//!
//! The sink has three forms: today's, where `init` registers; that of May 2023, where the first log does; and one for programs without
//! c-logging. `csrc/log_sink.c` has the variadic functions, and the weak symbols by which it recognises the program's c-logging.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use etw_api::Status;
use etw_api::rt::Room;
use etw_log_sink::encode::{self, Field, MAX_PAIRS, Message, Parts, Properties, Text};
use etw_log_sink::{EtwSink, LogLevel, Pair, Value};

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

impl RawPair {
    /// The first bytes of the value.
    ///
    /// # Safety
    /// BYTES: the value has as many.
    #[inline(always)]
    unsafe fn bytes<const N: usize>(&self) -> [u8; N] {
        // SAFETY: BYTES; bytes have no alignment.
        unsafe { self.value.cast::<[u8; N]>().read() }
    }

    /// Puts the value if its type is one of this kind. Wide texts have to be converted first.
    ///
    /// # Safety
    /// TEXT for a value of type number 1, else BYTES for the value.
    #[inline(always)]
    unsafe fn put(self, number: u32, kind: u16, room: Room<'_>) -> Option<Room<'_>> {
        // SAFETY: TEXT, BYTES.
        unsafe {
            let (in_type, room) = match number {
                1 => {
                    let text = CStr::from_ptr(self.value.cast()).to_bytes_with_nul();
                    (encode::ANSI_STRING, room.put_short(text))
                }
                2 => {
                    let value = i32::from(self.bytes() != [0]);
                    (encode::BOOL32, room.put(&value.to_le_bytes()))
                }
                3 => (encode::INT64, room.put(&self.bytes::<8>())),
                4 => (encode::UINT64, room.put(&self.bytes::<8>())),
                5 => (encode::INT32, room.put(&self.bytes::<4>())),
                6 => (encode::UINT32, room.put(&self.bytes::<4>())),
                7 => (encode::INT16, room.put(&self.bytes::<2>())),
                8 => (encode::UINT16, room.put(&self.bytes::<2>())),
                9 => (encode::INT8, room.put(&self.bytes::<1>())),
                10 => (encode::UINT8, room.put(&self.bytes::<1>())),
                11 => {
                    let [count] = self.bytes();
                    return (encode::kind_of(encode::STRUCT, count) == kind).then_some(room);
                }
                _ => return None,
            };
            (u16::from(in_type) == kind).then_some(room)
        }
    }
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

/// A text of a C program, as a log's arguments have it. NULL is an empty text.
#[derive(Clone, Copy)]
struct RawText(*const c_char);

impl Text for RawText {
    #[inline(always)]
    fn address(self) -> usize {
        self.0.addr()
    }

    #[inline(always)]
    fn is(self, known: &CStr) -> bool {
        if self.0.is_null() {
            return known.is_empty();
        }
        // SAFETY: TEXT, which `etw_log_sink_emit` has for each text that it makes.
        unsafe { is_text(self.0, known) }
    }

    fn bytes<'a>(self) -> &'a [u8]
    where
        Self: 'a,
    {
        // SAFETY: TEXT, which `etw_log_sink_emit` has until it returns.
        unsafe { text_of(self.0) }.unwrap_or_default()
    }
}

/// Whether a text is the known one.
///
/// # Safety
/// TEXT `text`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn is_text(text: *const c_char, known: &CStr) -> bool {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_movemask_epi8};
    const PAGE: usize = 4096;

    /// Loads a register from a text that may be shorter. An instruction of its own, because the language knows only loads from within one
    /// object.
    macro_rules! load {
        ($move:literal, $register:ident, $from:expr) => {{
            let value;
            let from = $from;
            std::arch::asm!(
                concat!($move, " [{1}]"), out($register) value, in(reg) from,
                options(nostack, preserves_flags, readonly)
            );
            value
        }};
    }

    let text = text.cast::<u8>();
    let known = known.to_bytes_with_nul();
    let (size, known) = (known.len(), known.as_ptr());
    if text.addr() % PAGE + size > PAGE {
        // SAFETY: TEXT; the known text ends with a NUL, too.
        return unsafe { libc::strcmp(text.cast(), known.cast()) == 0 };
    }
    // SAFETY: the page in which the text begins has `size` bytes from there on, so no load faults; each ends with them at most.
    unsafe {
        match size {
            16.. => {
                let tail = size - 16;
                let mut at = 0;
                loop {
                    let part: __m128i = load!("movdqu {0},", xmm_reg, text.wrapping_add(at));
                    let other = known.add(at).cast::<__m128i>().read_unaligned();
                    if _mm_movemask_epi8(_mm_cmpeq_epi8(part, other)) != 0xffff {
                        return false;
                    }
                    if at == tail {
                        return true;
                    }
                    at = (at + 16).min(tail);
                }
            }
            8.. => {
                let first: u64 = load!("mov {0},", reg, text);
                let last: u64 = load!("mov {0},", reg, text.wrapping_add(size - 8));
                first == known.cast::<u64>().read_unaligned()
                    && last == known.add(size - 8).cast::<u64>().read_unaligned()
            }
            4.. => {
                let first: u32 = load!("mov {0:e},", reg, text);
                let last: u32 = load!("mov {0:e},", reg, text.wrapping_add(size - 4));
                first == known.cast::<u32>().read_unaligned()
                    && last == known.add(size - 4).cast::<u32>().read_unaligned()
            }
            2.. => {
                let first: u32 = load!("movzx {0:e}, word ptr", reg, text);
                let last: u32 = load!("movzx {0:e}, word ptr", reg, text.wrapping_add(size - 2));
                first == u32::from(known.cast::<u16>().read_unaligned())
                    && last == u32::from(known.add(size - 2).cast::<u16>().read_unaligned())
            }
            _ => *text == 0,
        }
    }
}

/// Whether a text is the known one.
///
/// # Safety
/// TEXT `text`.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn is_text(text: *const c_char, known: &CStr) -> bool {
    // SAFETY: TEXT; the known text ends with a NUL, too.
    unsafe { libc::strcmp(text, known.as_ptr()) == 0 }
}

/// The properties of a context of c-logging.
struct RawProperties<'a> {
    pairs: *const RawPair,
    count: usize,
    form: &'a Form,
}

impl RawProperties<'_> {
    #[inline(always)]
    fn pair(&self, index: usize) -> RawPair {
        debug_assert!(index < self.count);
        // SAFETY: ARRAY, which `etw_log_sink_emit` has for the pairs.
        unsafe { self.pairs.add(index).read_unaligned() }
    }
}

impl Properties for RawProperties<'_> {
    #[inline(always)]
    fn count(&self) -> usize {
        self.count
    }

    #[inline(always)]
    fn put_all<'r>(&self, fields: &[Field], room: Room<'r>) -> Option<Room<'r>> {
        let mut room = room;
        let mut next = self.pairs;
        for field in &fields[..self.count.min(fields.len())] {
            // SAFETY: ARRAY, which `etw_log_sink_emit` has for the pairs.
            let pair = unsafe { next.read_unaligned() };
            next = next.wrapping_add(1);
            if pair.value.is_null() || !RawText(pair.name).is(field.name) {
                return None;
            }
            // SAFETY: CODE; TEXT and BYTES, by the property's type.
            room = unsafe { pair.put(number_of(&pair, self.form), field.kind, room) }?;
        }
        Some(room)
    }

    fn pairs(&self) -> Cow<'_, [Pair<'_>]> {
        // SAFETY: CODE.
        let pairs = (0..self.count).map(|index| unsafe { pair_of(self.pair(index), self.form) });
        Cow::Owned(pairs.collect())
    }
}

/// For the C side: writes an event.
///
/// # Safety
/// ARRAY `pairs`, `count`, of pairs as c-logging makes them; TEXT `file`; TEXT `func`; BYTES `message`, `capacity`, which may be written
/// to. The first `length` bytes are the message, and a NUL follows them.
#[unsafe(no_mangle)]
unsafe extern "C" fn etw_log_sink_emit(
    level: u32,
    pairs: *const c_void,
    count: u32,
    form: &Form,
    file: *const c_char,
    func: *const c_char,
    line: c_int,
    message: *mut c_char,
    length: usize,
    capacity: usize,
) {
    guarded(|| {
        // An event with too many properties has none.
        let is_sound = !pairs.is_null() && count as usize <= MAX_PAIRS;
        let count = if is_sound { count as usize } else { 0 };
        // SAFETY: BYTES.
        let memory = unsafe { std::slice::from_raw_parts_mut(message.cast::<u8>(), capacity) };
        let parts = Parts {
            level: LogLevel(level),
            file: RawText(file),
            func: RawText(func),
            line,
            properties: &RawProperties { pairs: pairs.cast(), count, form },
        };
        SINK.emit(&parts, Message { memory, size: length, is_text: false });
        Status::ERROR_SUCCESS
    });
}

/// # Safety
/// CODE: a pair of c-logging, whose function `get_type` may be called.
#[inline(always)]
unsafe fn number_of(pair: &RawPair, form: &Form) -> u32 {
    if pair.kind.is_null() {
        return todays_number(0, form);
    }
    // SAFETY: CODE.
    let number = unsafe { (*pair.kind).get_type.map_or(0, |get_type| get_type()) };
    todays_number(number, form)
}

/// # Safety
/// CODE, as in [`number_of`]; TEXT for the pair's name and ONE for its value, for as long as `'a`.
unsafe fn pair_of<'a>(pair: RawPair, form: &Form) -> Pair<'a> {
    // SAFETY: CODE, TEXT, ONE.
    unsafe {
        let name = Cow::Borrowed(text_of(pair.name).unwrap_or_default());
        let number = number_of(&pair, form);
        Pair { name, value: value_of(pair.value, number, form.wchar_size) }
    }
}

/// Today's number of a property type. The types of May 2023 have no `bool`, which is the second one today, and no `wchar_t_ptr`.
#[inline(always)]
fn todays_number(number: u32, form: &Form) -> u32 {
    if form.is_seed == 0 {
        return number;
    }
    match number {
        2..=10 => number + 1,
        11.. => 0,
        _ => number,
    }
}

/// # Safety
/// ONE `value`, of type `number`, at any alignment, for as long as `'a`.
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::ffi::CString;

    /// Two pages, of which the second cannot be read.
    fn page_before_a_hole() -> *mut u8 {
        let (size, none) = (2 * 4096, std::ptr::null_mut());
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: memory of its own, which stays mapped.
        unsafe {
            let page = libc::mmap(none, size, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(page, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(page.wrapping_byte_add(4096), 4096, libc::PROT_NONE), 0);
            page.cast()
        }
    }

    #[test]
    fn texts_are_compared_whole_and_not_behind_their_page() {
        let page = page_before_a_hole();
        let is = |text: &[u8], known: &CStr| {
            // SAFETY: the page has space for the text and its NUL, and nothing else uses it.
            unsafe {
                let start = page.add(4096 - text.len() - 1);
                std::ptr::copy_nonoverlapping(text.as_ptr(), start, text.len());
                *start.add(text.len()) = 0;
                let at_end = is_text(start.cast(), known);
                // In the middle of a page, with other bytes behind it.
                let start = page.add(100);
                std::ptr::write_bytes(start, 0x55, 300);
                std::ptr::copy_nonoverlapping(text.as_ptr(), start, text.len());
                *start.add(text.len()) = 0;
                assert_eq!(is_text(start.cast(), known), at_end, "{text:?} {known:?}");
                at_end
            }
        };
        for size in 0..80u8 {
            let text: Vec<u8> = (1..=size).collect();
            let known = CString::new(text.clone()).unwrap();
            assert!(is(&text, &known), "{size}");
            assert!(!is(&[&text[..], b"x"].concat(), &known), "{size}");
            for at in 0..text.len() {
                assert!(!is(&text[..at], &known), "{size} {at}");
                let mut other = text.clone();
                other[at] ^= 0x80;
                assert!(!is(&other, &known), "{size} {at}");
            }
        }
    }
}
