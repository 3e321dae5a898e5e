//! Classic providers of `evntrace.h`.
//!
//! What a callback gets is a `WNODE_HEADER` whose `HistoricalContext` is the session's handle, as this provider knows the session. A handle of `StartTrace` is none for events. Handles of classes, in `TRACE_GUID_REGISTRATION`, are numbers.

use std::ffi::c_void;
use std::mem::{MaybeUninit, offset_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use etw_api::evntrace::{
    self, ClassHandle, ControlRequest, LoggerHandle, MessageFlags, MessageId, TraceClasses,
    TraceHandle,
};
use etw_api::{EventClass, Guid, Status};

use crate::abi::{RawGuid, guarded};
use crate::last_error::SetLastError;
use crate::status::ERROR_INVALID_FLAG_NUMBER;

/// `MAX_MOF_FIELDS`
const MAX_MOF_FIELDS: usize = 16;
const TRACED_GUID: u32 = 0x0002_0000;
const USE_TIMESTAMP: u32 = 0x0000_0200;
const USE_GUID_PTR: u32 = 0x0008_0000;
const USE_MOF_PTR: u32 = 0x0010_0000;
/// Records of other forms: `WNODE_FLAG_LOG_WNODE`, `WNODE_FLAG_NO_HEADER`.
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

/// `EVENT_TRACE_HEADER`, as a provider fills it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawTraceHeader {
    size: u16,
    field_types: u16,
    kind: u8,
    level: u8,
    version: u16,
    thread: u32,
    process: u32,
    time: i64,
    /// Or the GUID's address in its first half.
    guid: RawGuid,
    client_context: u32,
    flags: u32,
}

/// `EVENT_INSTANCE_HEADER`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawInstanceHeader {
    size: u16,
    field_types: u16,
    kind: u8,
    level: u8,
    version: u16,
    thread: u32,
    process: u32,
    time: i64,
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

/// An argument of a message, as `csrc/classic.c` collects them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawArgument {
    data: *const u8,
    size: usize,
}

const _: () = {
    assert!(size_of::<RawWnode>() == 0x30 && offset_of!(RawWnode, guid) == 0x18);
    assert!(offset_of!(RawWnode, historical_context) == 8 && offset_of!(RawWnode, flags) == 0x2c);
    assert!(size_of::<RawTraceHeader>() == 0x30 && offset_of!(RawTraceHeader, guid) == 0x18);
    assert!(offset_of!(RawTraceHeader, time) == 0x10);
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

/// The context that a program gave: handed back to it and never looked at.
struct Context(*mut c_void);

// SAFETY: the pointer is not followed here; the program, as on Windows, is told by another thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

static REGISTERED: AtomicUsize = AtomicUsize::new(0);

/// Is a classic provider registered by this library's calls?
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub fn has_registered() -> bool {
    REGISTERED.load(Ordering::Relaxed) > 0
}

// ---- registration ---------------------------------------------------------------------------------------------------------

macro_rules! register {
    ($($name:ident $unit:ty)*) => {$(
        /// # Safety
        /// As the header says. The names of MOF resources are not looked at: decoders are given their schemas.
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
            // SAFETY: the caller's promise.
            guarded(|| unsafe { register(callback, context, control, (classes, class_count), handle) })
        }
    )*};
}

register! {
    RegisterTraceGuidsW u16
    RegisterTraceGuidsA std::ffi::c_char
}

/// # Safety
/// NULL, or what the header says.
unsafe fn register(
    callback: Option<RawCallback>,
    context: *mut c_void,
    control: *const RawGuid,
    (classes, class_count): (*mut RawClassRegistration, u32),
    handle: *mut u64,
) -> Status {
    let Some(callback) = callback else { return Status::ERROR_INVALID_PARAMETER };
    if control.is_null() || handle.is_null() || (classes.is_null() && class_count > 0) {
        return Status::ERROR_INVALID_PARAMETER;
    }
    // SAFETY: the caller's promise: so many registrations, each with the address of a GUID or NULL.
    let guids: Option<Vec<Guid>> = (0..class_count as usize)
        .map(|n| unsafe {
            let guid = classes.add(n).read_unaligned().guid;
            (!guid.is_null()).then(|| guid.read_unaligned().guid())
        })
        .collect();
    let Some(guids) = guids else { return Status::ERROR_INVALID_PARAMETER };
    let registered = match TraceClasses::register(&guids) {
        Ok(registered) => registered,
        Err(status) => return status,
    };
    for (n, class) in registered.handles().iter().enumerate() {
        let number = std::ptr::without_provenance_mut(class.0 as usize);
        // SAFETY: as above. Before the callback, which may write events of the class.
        unsafe { (&raw mut (*classes.add(n)).handle).write_unaligned(number) };
    }
    let context = Context(context);
    let told = move |request: &ControlRequest| {
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
        // SAFETY: the program's own function, with arguments that live as long as the call.
        Status(unsafe { callback(code, context.get(), &raw mut size, (&raw mut wnode).cast()) })
    };
    // SAFETY: the caller's promise.
    let control = unsafe { control.read_unaligned() }.guid();
    match evntrace::register_trace_guids(&control, registered, Arc::new(told)) {
        Ok((registration, answer)) => {
            REGISTERED.fetch_add(1, Ordering::Relaxed);
            // SAFETY: the caller's promise.
            unsafe { handle.write_unaligned(registration.0) };
            // Of a provider that is enabled already, what its callback said, as documented.
            answer
        }
        Err(status) => status,
    }
}

/// Unregisters; a callback that is running has ended when it returns.
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

/// The session of a callback's buffer.
///
/// # Safety
/// NULL, or a `WNODE_HEADER`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GetTraceLoggerHandle(buffer: *const c_void) -> u64 {
    if buffer.is_null() {
        SetLastError(Status::ERROR_INVALID_PARAMETER.0);
        return u64::MAX;
    }
    // SAFETY: the caller's promise.
    let wnode = unsafe { buffer.cast::<RawWnode>().read_unaligned() };
    if (wnode.buffer_size as usize) < size_of::<RawWnode>() {
        SetLastError(Status::ERROR_BAD_LENGTH.0);
        return u64::MAX;
    }
    wnode.historical_context
}

/// Level and flags, if the handle's session still has its provider; where 0 is no answer, the last error says so.
fn enable_info(session: u64) -> (u8, u32) {
    evntrace::enable_info(LoggerHandle(session)).unwrap_or_else(|| {
        SetLastError(Status::ERROR_INVALID_HANDLE.0);
        (0, 0)
    })
}

/// The level that the session asks for.
#[unsafe(no_mangle)]
pub extern "C" fn GetTraceEnableLevel(session: u64) -> u8 {
    enable_info(session).0
}

/// The flags that the session asks for.
#[unsafe(no_mangle)]
pub extern "C" fn GetTraceEnableFlags(session: u64) -> u32 {
    enable_info(session).1
}

/// A class's handle as the program has it; one that is none is 0.
fn class_of(handle: *const c_void) -> ClassHandle {
    ClassHandle(u32::try_from(handle.addr()).unwrap_or(0))
}

/// # Safety
/// As the header says.
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
                // SAFETY: the caller's promise. What lies between the members is the program's.
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

/// Bytes of the program's.
///
/// # Safety
/// So many bytes are there and stay unchanged for `'a`.
unsafe fn bytes<'a>(data: *const u8, size: usize) -> &'a [u8] {
    match size {
        0 => &[],
        // SAFETY: the caller's promise.
        _ => unsafe { std::slice::from_raw_parts(data, size) },
    }
}

/// Gives an event's data to `write`: what follows its header or, with `USE_MOF_PTR`, what the fields there lead to.
///
/// # Safety
/// A header of `header_size` bytes, and behind it what its size and flags say.
unsafe fn with_data(
    header: *const u8,
    (header_size, size, flags): (usize, u16, u32),
    write: impl FnOnce(&[&[u8]]) -> Status,
) -> Status {
    let Some(size) = usize::from(size).checked_sub(header_size) else {
        return Status::ERROR_INVALID_PARAMETER;
    };
    if flags & TRACED_GUID == 0 || flags & OTHER_FORMS != 0 {
        return ERROR_INVALID_FLAG_NUMBER;
    }
    // SAFETY: the caller's promise: the header is that long.
    let data = unsafe { header.add(header_size) };
    if flags & USE_MOF_PTR == 0 {
        // SAFETY: the caller's promise.
        return write(&[unsafe { bytes(data, size) }]);
    }
    let count = size / size_of::<RawMofField>();
    if size % size_of::<RawMofField>() != 0 || count > MAX_MOF_FIELDS {
        return Status::ERROR_INVALID_PARAMETER;
    }
    let mut pieces = [MaybeUninit::<&[u8]>::uninit(); MAX_MOF_FIELDS];
    for (n, piece) in pieces[..count].iter_mut().enumerate() {
        // SAFETY: the caller's promise: so many fields.
        let field = unsafe { data.cast::<RawMofField>().add(n).read_unaligned() };
        if field.address == 0 && field.size > 0 {
            return Status::ERROR_INVALID_PARAMETER;
        }
        let address = std::ptr::with_exposed_provenance(field.address as usize);
        // SAFETY: the caller's promise.
        piece.write(unsafe { bytes(address, field.size as usize) });
    }
    // SAFETY: so many have just been written.
    write(unsafe { pieces[..count].assume_init_ref() })
}

/// # Safety
/// As the header says.
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
        // SAFETY: the caller's promise.
        let raw = unsafe { event.read_unaligned() };
        let facts = (size_of::<RawTraceHeader>(), raw.size, raw.flags);
        // SAFETY: the caller's promise.
        unsafe {
            with_data(event.cast(), facts, |data| {
                let guid = if raw.flags & USE_GUID_PTR == 0 {
                    raw.guid
                } else {
                    let address = (&raw const raw.guid).cast::<u64>().read_unaligned();
                    let address: *const RawGuid =
                        std::ptr::with_exposed_provenance(address as usize);
                    if address.is_null() {
                        return Status::ERROR_INVALID_PARAMETER;
                    }
                    address.read_unaligned()
                };
                let (kind, level, version) = (raw.kind, raw.level, raw.version);
                let class = EventClass { guid: guid.guid(), kind, level, version };
                evntrace::trace_event(session, class, time(raw.flags, raw.time), data)
            })
        }
    })
}

fn time(flags: u32, time: i64) -> Option<i64> {
    (flags & USE_TIMESTAMP != 0).then_some(time)
}

/// # Safety
/// As the header says.
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
        // SAFETY: the caller's promise.
        let (raw, info) = unsafe { (event.read_unaligned(), read_info(info)) };
        // SAFETY: the caller's promise.
        let parent = (!parent.is_null()).then(|| unsafe { read_info(parent) });
        let facts = (size_of::<RawInstanceHeader>(), raw.size, raw.flags);
        let (kind, level, version) = (raw.kind, raw.level, raw.version);
        let class = EventClass { kind, level, version, ..EventClass::default() };
        // SAFETY: the caller's promise.
        unsafe {
            with_data(event.cast(), facts, |data| {
                let time = time(raw.flags, raw.time);
                evntrace::trace_event_instance(session, class, info, parent, time, data)
            })
        }
    })
}

/// # Safety
/// An `EVENT_INSTANCE_INFO`.
unsafe fn read_info(info: *const RawInstanceInfo) -> (ClassHandle, u32) {
    // SAFETY: the caller's promise.
    let info = unsafe { info.read_unaligned() };
    (class_of(info.class), info.instance)
}

// ---- messages -------------------------------------------------------------------------------------------------------------

/// Whether a message could be written: asked before its arguments are looked at.
#[unsafe(no_mangle)]
pub extern "C" fn etw_classic_message_status(session: u64, flags: u32, id: *const c_void) -> u32 {
    let wants_id = flags & (TRACE_MESSAGE_GUID | TRACE_MESSAGE_COMPONENT_ID) != 0;
    if session == 0 || !evntrace::is_enabled(LoggerHandle(session)) {
        Status::ERROR_INVALID_HANDLE.0
    } else if wants_id && id.is_null() {
        Status::ERROR_INVALID_PARAMETER.0
    } else {
        Status::ERROR_SUCCESS.0
    }
}

/// # Safety
/// `id`: a GUID or a component id, as the flags say. So many arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_classic_message_write(
    session: u64,
    flags: u32,
    id: *const c_void,
    number: u16,
    arguments: *const RawArgument,
    count: u32,
) -> u32 {
    guarded(|| {
        // As many as `csrc/classic.c` collects.
        const MOST: usize = 128;
        let count = (count as usize).min(MOST);
        let mut pieces = [MaybeUninit::<&[u8]>::uninit(); MOST];
        for (n, piece) in pieces[..count].iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let argument = arguments.add(n).read_unaligned();
                piece.write(bytes(argument.data, argument.size));
            }
        }
        // SAFETY: so many have just been written.
        let pieces = unsafe { pieces[..count].assume_init_ref() };
        // SAFETY: the caller's promise. A component id wins over a GUID, as it does for those who read the record.
        let id = unsafe {
            if flags & TRACE_MESSAGE_COMPONENT_ID != 0 {
                MessageId::Component(id.cast::<u32>().read_unaligned())
            } else if flags & TRACE_MESSAGE_GUID != 0 {
                MessageId::Guid(id.cast::<RawGuid>().read_unaligned().guid())
            } else {
                MessageId::None
            }
        };
        // Another clock for the time is none that the session has: what asks for it gets the session's (a guess).
        let has_time = flags & (TRACE_MESSAGE_TIMESTAMP | TRACE_MESSAGE_PERFORMANCE_TIMESTAMP) != 0;
        let flags = flags as u16 | if has_time { MessageFlags::TIMESTAMP.0 } else { 0 };
        evntrace::trace_message(LoggerHandle(session), MessageFlags(flags), id, number, pieces)
    })
}

/// The names under which C's functions are seen outside of a shared library.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod variadic {
    use std::arch::naked_asm;

    unsafe extern "C" {
        fn etw_classic_message();
        fn etw_classic_message_va();
    }

    macro_rules! jumps {
        ($($name:ident $to:ident)*) => {$(
            /// # Safety
            /// As the header says: its arguments are C's affair.
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
        TraceMessage etw_classic_message
        TraceMessageVa etw_classic_message_va
    }
}
