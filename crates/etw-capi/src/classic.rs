//! Classic providers of `evntrace.h`: registration, events, instance events and messages.
//!
//! A callback receives a `WNODE_HEADER` whose `HistoricalContext` is the handle of the session for this provider. Events need that handle:
//! a handle of `StartTrace` is invalid for them. The handles of classes, in `TRACE_GUID_REGISTRATION`, are numbers.

use std::ffi::c_void;
use std::mem::{MaybeUninit, offset_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use etw_api::evntrace::{
    self, ClassHandle, ClassicRegistration, ControlRequest, LoggerHandle, MessageFlags, MessageId,
    TraceClasses, TraceHandle,
};
use etw_api::rt::{FillRoom, Room};
use etw_api::{EventClass, Guid, Level, Status};

use crate::abi::{CallbackContext, RawGuid, array, bytes, guarded, guid_of, pointer, read, store};
use crate::last_error::SetLastError;
use crate::status::ERROR_INVALID_FLAG_NUMBER;

/// `MAX_MOF_FIELDS`
const MAX_MOF_FIELDS: usize = 16;
const TRACED_GUID: u32 = 0x0002_0000;
const USE_TIMESTAMP: u32 = 0x0000_0200;
const USE_GUID_PTR: u32 = 0x0008_0000;
const USE_MOF_PTR: u32 = 0x0010_0000;
/// `WNODE_FLAG_LOG_WNODE` and `WNODE_FLAG_NO_HEADER`: records of forms that are not supported.
const OTHER_FORMS: u32 = 0x0004_0000 | 0x0020_0000;

const TRACE_MESSAGE_GUID: u32 = 0x02;
const TRACE_MESSAGE_COMPONENT_ID: u32 = 0x04;
const TRACE_MESSAGE_TIMESTAMP: u32 = 0x08;
const TRACE_MESSAGE_PERFORMANCE_TIMESTAMP: u32 = 0x10;

/// `WNODE_HEADER`
#[repr(C)]
struct RawWnode {
    buffer_size: u32,
    provider_id: u32,
    historical_context: u64,
    time: i64,
    guid: RawGuid,
    client_context: u32,
    flags: u32,
}

/// The members with which `EVENT_TRACE_HEADER` and `EVENT_INSTANCE_HEADER` start.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawHeaderStart {
    size: u16,
    field_types: u16,
    kind: u8,
    level: u8,
    version: u16,
    thread: u32,
    process: u32,
    time: i64,
}

/// `EVENT_TRACE_HEADER`, as a provider fills it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawTraceHeader {
    start: RawHeaderStart,
    /// With `USE_GUID_PTR`, the first half is the address of the GUID.
    guid: RawGuid,
    client_context: u32,
    flags: u32,
}

/// `EVENT_INSTANCE_HEADER`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawInstanceHeader {
    start: RawHeaderStart,
    class: u64,
    instance: u32,
    parent_instance: u32,
    event_id: u32,
    flags: u32,
    parent_class: u64,
}

/// `MOF_FIELD`
#[repr(C)]
#[derive(Clone, Copy)]
struct RawMofField {
    address: u64,
    size: u32,
    kind: u32,
}

/// `EVENT_INSTANCE_INFO`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawInstanceInfo {
    class: *mut c_void,
    instance: u32,
}

/// `TRACE_GUID_REGISTRATION`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawClassRegistration {
    guid: *const RawGuid,
    handle: *mut c_void,
}

const _: () = {
    assert!(size_of::<RawWnode>() == 0x30 && offset_of!(RawWnode, guid) == 0x18);
    assert!(offset_of!(RawWnode, historical_context) == 8 && offset_of!(RawWnode, flags) == 0x2c);
    assert!(size_of::<RawHeaderStart>() == 0x18 && offset_of!(RawHeaderStart, time) == 0x10);
    assert!(size_of::<RawTraceHeader>() == 0x30 && offset_of!(RawTraceHeader, guid) == 0x18);
    assert!(offset_of!(RawTraceHeader, flags) == 0x2c);
    assert!(size_of::<RawInstanceHeader>() == 0x38 && offset_of!(RawInstanceHeader, class) == 0x18);
    assert!(offset_of!(RawInstanceHeader, flags) == 0x2c);
    assert!(size_of::<RawMofField>() == 16 && offset_of!(RawMofField, size) == 8);
};

/// `WMIDPREQUEST`
type RawCallback = unsafe extern "C" fn(
    code: u32,
    context: *mut c_void,
    size: *mut u32,
    buffer: *mut c_void,
) -> u32;

static REGISTERED: AtomicUsize = AtomicUsize::new(0);

/// Whether a program has registered a classic provider through this library.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub fn has_registered() -> bool {
    REGISTERED.load(Ordering::Relaxed) > 0
}

// ---- registration ---------------------------------------------------------------------------------------------------------

macro_rules! register {
    ($($name:ident $unit:ty)*) => {$(
        /// # Safety
        /// CALLBACK `callback`, `context`; ONE `control`; ARRAY and OUT `classes`, `class_count`; OUT `handle`. The names of the MOF resource
        /// are not read: decoders have schemas of their own.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            callback: Option<RawCallback>,
            context: *mut c_void,
            control: *const RawGuid,
            class_count: u32,
            classes: *mut RawClassRegistration,
            _mof_image_path: *const $unit,
            _mof_resource_name: *const $unit,
            handle: *mut u64,
        ) -> u32 {
            let registration = Registration { callback, context, control, classes, class_count };
            // SAFETY: CALLBACK, ONE, ARRAY, OUT.
            guarded(|| unsafe { register(&registration, handle) })
        }
    )*};
}

register! {
    RegisterTraceGuidsW u16
    RegisterTraceGuidsA std::ffi::c_char
}

/// The arguments of `RegisterTraceGuids`, aside from the resulting handle.
struct Registration {
    callback: Option<RawCallback>,
    context: *mut c_void,
    control: *const RawGuid,
    classes: *mut RawClassRegistration,
    class_count: u32,
}

/// # Safety
/// CALLBACK `callback`, `context`; ONE `control`; ARRAY and OUT `classes`, `class_count`; OUT `handle`.
unsafe fn register(registration: &Registration, handle: *mut u64) -> Status {
    let Registration { callback, context, control, classes, class_count } = *registration;
    let Some(callback) = callback else { return Status::ERROR_INVALID_PARAMETER };
    // SAFETY: ONE.
    let Some(control) = (unsafe { guid_of(control) }) else {
        return Status::ERROR_INVALID_PARAMETER;
    };
    if handle.is_null() || (classes.is_null() && class_count > 0) {
        return Status::ERROR_INVALID_PARAMETER;
    }
    // SAFETY: ARRAY, and ONE for the GUID of each class.
    let guids: Option<Vec<Guid>> =
        unsafe { array(classes, class_count).map(|class| guid_of(class.guid)).collect() };
    let Some(guids) = guids else { return Status::ERROR_INVALID_PARAMETER };
    let registered = match TraceClasses::register(&guids) {
        Ok(registered) => registered,
        Err(status) => return status,
    };
    for (n, class) in registered.handles().iter().enumerate() {
        let number = std::ptr::without_provenance_mut(class.0 as usize);
        // SAFETY: ARRAY, OUT. The handle is there before the callback, which may write events of the class.
        unsafe { (&raw mut (*classes.add(n)).handle).write_unaligned(number) };
    }
    let context = CallbackContext(context);
    let notify = move |request: &ControlRequest| {
        let mut wnode = RawWnode {
            buffer_size: size_of::<RawWnode>() as u32,
            provider_id: 0,
            historical_context: request.logger.0,
            time: 0,
            guid: RawGuid::from_guid(&request.control),
            client_context: 0,
            flags: TRACED_GUID,
        };
        let mut size = wnode.buffer_size;
        let code = request.code as u32;
        // SAFETY: CALLBACK; the other arguments live until it returns.
        Status(unsafe { callback(code, context.get(), &raw mut size, (&raw mut wnode).cast()) })
    };
    match evntrace::register_trace_guids(&control, registered, Arc::new(notify)) {
        Ok(ClassicRegistration { handle: registration, answer }) => {
            REGISTERED.fetch_add(1, Ordering::Relaxed);
            // SAFETY: OUT.
            unsafe { store(handle, registration.0) };
            // If a session had enabled the provider already, the status is that of the callback, as documented.
            answer
        }
        Err(status) => status,
    }
}

/// Unregisters a provider. No callback runs any more when it returns.
#[unsafe(no_mangle)]
pub extern "C" fn UnregisterTraceGuids(handle: u64) -> u32 {
    guarded(|| {
        if handle == 0 {
            return Status::ERROR_INVALID_PARAMETER;
        }
        let status = evntrace::unregister_trace_guids(TraceHandle(handle));
        if status.is_success() {
            REGISTERED.fetch_sub(1, Ordering::Relaxed);
        }
        status
    })
}

/// The session handle in the buffer of a callback.
///
/// # Safety
/// ONE `buffer`, as a `WNODE_HEADER`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GetTraceLoggerHandle(buffer: *const c_void) -> u64 {
    if buffer.is_null() {
        SetLastError(Status::ERROR_INVALID_PARAMETER.0);
        return u64::MAX;
    }
    // SAFETY: ONE; not NULL.
    let wnode = unsafe { buffer.cast::<RawWnode>().read_unaligned() };
    if (wnode.buffer_size as usize) < size_of::<RawWnode>() {
        SetLastError(Status::ERROR_BAD_LENGTH.0);
        return u64::MAX;
    }
    wnode.historical_context
}

/// Level and flags of the session's enablement. If the session no longer enables the provider, both are 0 and the last error is 6.
fn enable_info(session: u64) -> (u8, u32) {
    let Some(enable) = evntrace::enable_info(LoggerHandle(session)) else {
        SetLastError(Status::ERROR_INVALID_HANDLE.0);
        return (0, 0);
    };
    (enable.level.0, enable.flags)
}

/// The level of the session's enablement.
#[unsafe(no_mangle)]
pub extern "C" fn GetTraceEnableLevel(session: u64) -> u8 {
    enable_info(session).0
}

/// The flags of the session's enablement.
#[unsafe(no_mangle)]
pub extern "C" fn GetTraceEnableFlags(session: u64) -> u32 {
    enable_info(session).1
}

/// The class with the handle that a program holds; an invalid handle becomes 0.
fn class_of(handle: *const c_void) -> ClassHandle {
    ClassHandle(u32::try_from(handle.addr()).unwrap_or(0))
}

/// # Safety
/// OUT `info`. `class` is a number, which is not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn CreateTraceInstanceId(
    class: *mut c_void,
    info: *mut RawInstanceInfo,
) -> u32 {
    guarded(|| {
        if class.is_null() || info.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        match evntrace::create_trace_instance_id(class_of(class)) {
            Ok(instance) => {
                // SAFETY: OUT. The padding between the members stays unchanged.
                unsafe {
                    (&raw mut (*info).class).write_unaligned(class);
                    (&raw mut (*info).instance).write_unaligned(instance);
                }
                Status::ERROR_SUCCESS
            }
            Err(status) => status,
        }
    })
}

// ---- events ---------------------------------------------------------------------------------------------------------------

/// The size of an event's fixed header, and the members of the header that say what follows it.
struct Extent {
    header_size: usize,
    size: u16,
    flags: u32,
}

/// Calls `write` with an event's data: the bytes behind its header or, with `USE_MOF_PTR`, the memory that the `MOF_FIELD`s there describe.
///
/// # Safety
/// BYTES `header`, of `extent.size` bytes; with `USE_MOF_PTR`, BYTES for each `MOF_FIELD`.
unsafe fn with_data(
    header: *const u8,
    extent: Extent,
    write: impl FnOnce(&[&[u8]]) -> Status,
) -> Status {
    let Extent { header_size, size, flags } = extent;
    let Some(size) = usize::from(size).checked_sub(header_size) else {
        return Status::ERROR_INVALID_PARAMETER;
    };
    if flags & TRACED_GUID == 0 || flags & OTHER_FORMS != 0 {
        return ERROR_INVALID_FLAG_NUMBER;
    }
    // SAFETY: BYTES: `extent.size` is at least `header_size`.
    let data = unsafe { header.add(header_size) };
    if flags & USE_MOF_PTR == 0 {
        // SAFETY: BYTES.
        let data = unsafe { bytes(data, size) };
        return write(&[data.unwrap_or_default()]);
    }
    let count = size / size_of::<RawMofField>();
    if size % size_of::<RawMofField>() != 0 || count > MAX_MOF_FIELDS {
        return Status::ERROR_INVALID_PARAMETER;
    }
    let mut pieces = [MaybeUninit::<&[u8]>::uninit(); MAX_MOF_FIELDS];
    for (n, piece) in pieces[..count].iter_mut().enumerate() {
        // SAFETY: BYTES of `header` contain `count` fields, and BYTES for each field.
        let bytes = unsafe {
            let field = data.cast::<RawMofField>().add(n).read_unaligned();
            bytes(pointer(field.address), field.size as usize)
        };
        let Some(bytes) = bytes else { return Status::ERROR_INVALID_PARAMETER };
        piece.write(bytes);
    }
    // SAFETY: the loop initialised the first `count` elements.
    write(unsafe { pieces[..count].assume_init_ref() })
}

/// # Safety
/// BYTES `event`, of the size in the header; with `WNODE_FLAG_USE_GUID_PTR`, ONE for the GUID; with `WNODE_FLAG_USE_MOF_PTR`, BYTES for each field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TraceEvent(session: u64, event: *const RawTraceHeader) -> u32 {
    guarded(|| {
        if session == 0 || event.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        let session = LoggerHandle(session);
        if !evntrace::is_enabled(session) {
            return Status::ERROR_INVALID_HANDLE;
        }
        // SAFETY: BYTES: the size covers the header itself.
        let raw = unsafe { event.read_unaligned() };
        let extent = Extent {
            header_size: size_of::<RawTraceHeader>(),
            size: raw.start.size,
            flags: raw.flags,
        };
        // SAFETY: BYTES, ONE.
        unsafe {
            with_data(event.cast(), extent, |data| {
                let guid = if raw.flags & USE_GUID_PTR == 0 {
                    raw.guid
                } else {
                    let address = (&raw const raw.guid).cast::<u64>().read_unaligned();
                    let Some(guid) = read(pointer::<RawGuid>(address)) else {
                        return Status::ERROR_INVALID_PARAMETER;
                    };
                    guid
                };
                let RawHeaderStart { kind, level, version, .. } = raw.start;
                let class = EventClass { guid: guid.guid(), kind, level: Level(level), version };
                evntrace::trace_event(session, class, time(raw.flags, raw.start.time), data)
            })
        }
    })
}

fn time(flags: u32, time: i64) -> Option<i64> {
    (flags & USE_TIMESTAMP != 0).then_some(time)
}

/// # Safety
/// BYTES `event`, of the size in the header; with `WNODE_FLAG_USE_MOF_PTR`, BYTES for each field; ONE `info`; ONE `parent`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TraceEventInstance(
    session: u64,
    event: *const RawInstanceHeader,
    info: *const RawInstanceInfo,
    parent: *const RawInstanceInfo,
) -> u32 {
    guarded(|| {
        if session == 0 || event.is_null() || info.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        let session = LoggerHandle(session);
        if !evntrace::is_enabled(session) {
            return Status::ERROR_INVALID_HANDLE;
        }
        // SAFETY: BYTES, ONE.
        let (raw, info) = unsafe { (event.read_unaligned(), read_info(info)) };
        // SAFETY: ONE.
        let parent = (!parent.is_null()).then(|| unsafe { read_info(parent) });
        let extent = Extent {
            header_size: size_of::<RawInstanceHeader>(),
            size: raw.start.size,
            flags: raw.flags,
        };
        let RawHeaderStart { kind, level, version, .. } = raw.start;
        let class = EventClass { kind, level: Level(level), version, ..EventClass::default() };
        // SAFETY: BYTES.
        unsafe {
            with_data(event.cast(), extent, |data| {
                let time = time(raw.flags, raw.start.time);
                evntrace::trace_event_instance(session, class, info, parent, time, data)
            })
        }
    })
}

/// # Safety
/// ONE `info`; not NULL.
unsafe fn read_info(info: *const RawInstanceInfo) -> (ClassHandle, u32) {
    // SAFETY: ONE.
    let info = unsafe { info.read_unaligned() };
    (class_of(info.class), info.instance)
}

// ---- messages -------------------------------------------------------------------------------------------------------------

/// More arguments than this are an error.
const MOST_ARGUMENTS: usize = 128;

/// An argument of a message, as it lies in variable arguments of 64 bits each: an address, and a `size_t`. NULL ends them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Argument {
    data: *const u8,
    size: usize,
}

/// The arguments of a message. The first one may have come in registers, so it is not in front of the others.
#[derive(Clone, Copy)]
struct Arguments {
    first: Argument,
    others: *const Argument,
}

impl Arguments {
    /// All arguments behind the first one.
    ///
    /// # Safety
    /// CODE: `first` is NULL, or `others` leads to readable arguments up to one of NULL, until the iterator is dropped.
    #[inline(always)]
    unsafe fn others(self) -> impl Iterator<Item = (*const u8, usize)> + Clone {
        let mut next = self.others;
        std::iter::from_fn(move || {
            // SAFETY: CODE. The size behind NULL is not read: nobody has put it there.
            unsafe {
                let data = (&raw const (*next).data).read();
                if data.is_null() {
                    return None;
                }
                let size = (&raw const (*next).size).read();
                next = next.add(1);
                Some((data, size))
            }
        })
    }

    /// The size of all of them; `None` if there are too many.
    ///
    /// # Safety
    /// CODE, as for [`others`](Self::others).
    #[inline(always)]
    unsafe fn size(self) -> Option<usize> {
        if self.first.data.is_null() {
            return Some(0);
        }
        let (mut left, mut total) = (MOST_ARGUMENTS, self.first.size);
        // SAFETY: CODE.
        for (_, size) in unsafe { self.others() } {
            left -= 1;
            if left == 0 {
                etw_types::cold_path();
                return None;
            }
            total = total.saturating_add(size);
        }
        Some(total)
    }
}

impl FillRoom for Arguments {
    #[inline(always)]
    fn fill<'r>(self, room: Room<'r>) -> Room<'r> {
        let Argument { data, size } = self.first;
        if data.is_null() {
            return room;
        }
        // SAFETY: CODE of `etw_classic_message`, until that function returns, and BYTES for each argument.
        unsafe { room.put_pieces(std::iter::once((data, size))).put_pieces(self.others()) }
    }
}

/// Writes a message: `TraceMessage` with its number in the upper half of `flags`, and with the arguments behind the first one in memory.
///
/// # Safety
/// ONE `id`, as a GUID or a component id, depending on `flags`; CODE: `first` is NULL, or `others` leads to further arguments up to one of
/// NULL; BYTES for each argument.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_classic_message(
    session: u64,
    flags: u64,
    id: *const c_void,
    others: *const Argument,
    first: *const u8,
    first_size: usize,
) -> u32 {
    let (flags, number) = (flags as u32, (flags >> 32) as u16);
    let arguments = Arguments { first: Argument { data: first, size: first_size }, others };
    // The session has one clock, so a message that asks for another one gets the session's (a guess).
    let has_time = flags & (TRACE_MESSAGE_TIMESTAMP | TRACE_MESSAGE_PERFORMANCE_TIMESTAMP) != 0;
    let parts = MessageFlags(flags as u16 | if has_time { MessageFlags::TIMESTAMP.0 } else { 0 });
    let session = LoggerHandle(session);
    // SAFETY: CODE.
    let size = unsafe { arguments.size() };
    // If both flags are set, the component id wins, as it does for readers of the record.
    let ids = flags & (TRACE_MESSAGE_GUID | TRACE_MESSAGE_COMPONENT_ID);
    if let Some(size) = size
        && ids == TRACE_MESSAGE_GUID
        && !id.is_null()
    {
        let guid = id.cast();
        // SAFETY: ONE.
        let written = unsafe {
            evntrace::try_trace_message_inline(session, parts, guid, number, size, arguments)
        };
        if let Some(status) = written {
            return status.0;
        }
    }
    // SAFETY: ONE.
    unsafe { message_anywhere(session, Start { parts, ids, id, number }, size, arguments) }
}

/// The arguments of `TraceMessage` in front of those of the message. `ids`: the flags that say which id it has.
#[derive(Clone, Copy)]
struct Start {
    parts: MessageFlags,
    ids: u32,
    id: *const c_void,
    number: u16,
}

/// Writes a message that the fast path has refused. `size`: of all arguments; `None` if there are too many.
///
/// # Safety
/// As [`etw_classic_message`].
#[cold]
#[inline(never)]
unsafe fn message_anywhere(
    session: LoggerHandle,
    Start { parts, ids, id, number }: Start,
    size: Option<usize>,
    arguments: Arguments,
) -> u32 {
    guarded(|| {
        if !evntrace::is_enabled(session) {
            return Status::ERROR_INVALID_HANDLE;
        }
        let Some(size) = size.filter(|_| ids == 0 || !id.is_null()) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        // SAFETY: ONE.
        let id = unsafe {
            match ids {
                0 => MessageId::None,
                TRACE_MESSAGE_GUID => MessageId::Guid(id.cast::<RawGuid>().read_unaligned().guid()),
                _ => MessageId::Component(id.cast::<u32>().read_unaligned()),
            }
        };
        evntrace::trace_message_filled(session, parts, id, number, size, &|room: Room<'_>| {
            arguments.fill(room)
        })
    })
}

/// Exports of the variadic functions: a shared library exports only the symbols that Rust defines.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod variadic {
    use std::arch::naked_asm;

    unsafe extern "C" {
        #[cfg(not(all(target_arch = "x86_64", unix)))]
        fn etw_classic_message_variadic();
        fn etw_classic_message_va();
    }

    /// `TraceMessage(session, flags, id, number, ...)`. The first argument of the message comes in registers, and the others lie on the
    /// stack behind the return address, each as an [`Argument`](super::Argument): nothing has to be copied.
    ///
    /// # Safety
    /// As [`etw_classic_message`](super::etw_classic_message): the arguments are pairs of an address and a `size_t`, up to a NULL.
    #[cfg(all(target_arch = "x86_64", unix))]
    #[unsafe(naked)]
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn TraceMessage() {
        // The number is a USHORT, so the upper half of its register is undefined.
        naked_asm!(
            "movzx ecx, cx",
            "shl rcx, 32",
            "mov esi, esi",
            "or rsi, rcx",
            "lea rcx, [rsp + 8]",
            "jmp {}",
            sym super::etw_classic_message,
        );
    }

    macro_rules! jumps {
        ($($(#[$cfg:meta])* $name:ident $to:ident)*) => {$(
            /// # Safety
            /// CODE: the function jumps to its C definition with the arguments unchanged.
            $(#[$cfg])*
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() {
                #[cfg(target_arch = "x86_64")]
                naked_asm!("jmp {}", sym $to);
                #[cfg(target_arch = "aarch64")]
                naked_asm!("b {}", sym $to);
            }
        )*};
    }

    jumps! {
        #[cfg(not(all(target_arch = "x86_64", unix)))]
        TraceMessage etw_classic_message_variadic
        TraceMessageVa etw_classic_message_va
    }
}
