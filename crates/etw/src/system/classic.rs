//! Classic providers: `RegisterTraceGuids`, `TraceEvent`, `TraceMessage`.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use etw_ring::classic;
use etw_ring::prefix::Prefix;
use etw_types::{ClassicHeader, EventClass, Guid, MessageFlags, MessageId, Status};

use super::api;
use super::notification::Notification;
use crate::provider::Provider;
use crate::registry;

/// `EVENT_TRACE_HEADER`:
///
/// ```text
/// 00 u16 size   04 u8 type   05 u8 level   06 u16 version   10 i64 time   18 GUID of the class   2C u32 flags
/// ```
const HEADER_SIZE: usize = 0x30;
/// `WNODE_FLAG_TRACED_GUID`.
const TRACED_GUID: u32 = 0x2_0000;
/// The largest classic event.
const MAX_SIZE: usize = u16::MAX as usize;

/// `WMI_ENABLE_EVENTS`, `WMI_DISABLE_EVENTS`, `WMI_CAPTURE_STATE`, and the control code of each.
const CODES: [(u32, u32); 3] = [(4, 1), (5, 0), (10, 2)];

pub(super) fn register(provider: &Provider, number: u32) -> Status {
    // The system wants at least one class; events of other classes are written all the same.
    let mut class = ClassRegistration { guid: &provider.id(), handle: std::ptr::null_mut() };
    // SAFETY: the GUID and the class live through the call, which writes the handle; the context is a number.
    Status(unsafe {
        api::RegisterTraceGuidsW(
            Some(on_request),
            std::ptr::without_provenance_mut(number as usize),
            &provider.id(),
            1,
            (&raw mut class).cast(),
            std::ptr::null(),
            std::ptr::null(),
            provider.system.registration.as_ptr(),
        )
    })
}

/// `TRACE_GUID_REGISTRATION`.
#[repr(C)]
struct ClassRegistration {
    guid: *const Guid,
    handle: *mut c_void,
}

/// The system's `WMIDPREQUEST`.
unsafe extern "system" fn on_request(
    code: u32,
    context: *mut c_void,
    size: *mut u32,
    buffer: *mut c_void,
) -> u32 {
    let Some((_, control)) = CODES.iter().find(|(request, _)| *request == code) else {
        return Status::ERROR_INVALID_PARAMETER.0;
    };
    // SAFETY: the buffer is the system's, for the call; the size is null or writable. No filter is passed.
    let notification = unsafe {
        let logger = api::GetTraceLoggerHandle(buffer);
        if let Some(size) = size.as_mut() {
            *size = 0;
        }
        let (level, flags) = (api::GetTraceEnableLevel(logger), api::GetTraceEnableFlags(logger));
        registry::set_system_logger(super::ATTACHMENT, context.addr() as u32, logger);
        let wanted = (level, flags.into(), 0);
        Notification::read(std::ptr::null(), *control, wanted, std::ptr::null())
    };
    if let Some(notification) = notification {
        super::notify(context.addr() as u32, notification);
    }
    0
}

/// Writes a classic event or a message to the session that enabled the provider.
///
/// Returns `ERROR_NOT_SUPPORTED` for events of transactions: the system numbers those of classes that it knows itself.
pub(super) fn write(provider: &Provider, prefix: &Prefix<'_>, payload: &[u8]) -> Status {
    let logger = provider.system.logger.load(Ordering::Acquire);
    let Some(parsed) = classic::parse(prefix.metadata) else {
        return Status::ERROR_INVALID_PARAMETER;
    };
    match parsed.header {
        ClassicHeader::Trace(class) => write_event(logger, &class, prefix.time, payload),
        ClassicHeader::Message { flags, id, number } => {
            write_message(logger, flags, id, number, payload)
        }
        ClassicHeader::Instance { .. } | ClassicHeader::System(_) | ClassicHeader::PerfInfo(_) => {
            Status::ERROR_NOT_SUPPORTED
        }
    }
}

fn write_event(logger: u64, class: &EventClass, time: Option<i64>, payload: &[u8]) -> Status {
    let size = HEADER_SIZE + payload.len();
    if size > MAX_SIZE {
        return Status::ERROR_ARITHMETIC_OVERFLOW;
    }
    let mut header = [0; HEADER_SIZE];
    header[..2].copy_from_slice(&(size as u16).to_le_bytes());
    header[4] = class.kind;
    header[5] = class.level.0;
    header[6..8].copy_from_slice(&class.version.to_le_bytes());
    header[0x10..0x18].copy_from_slice(&time.unwrap_or(0).to_le_bytes());
    header[0x18..0x28].copy_from_slice(&class.guid.0);
    header[0x2c..].copy_from_slice(&TRACED_GUID.to_le_bytes());
    // The system fills in the rest of the header where it lies, so header and payload are put together in aligned memory.
    let mut memory = [const { MaybeUninit::<u64>::uninit() }; MAX_SIZE.div_ceil(8)];
    let start = memory.as_mut_ptr().cast::<u8>();
    // SAFETY: `size` bytes fit into the memory.
    unsafe {
        start.copy_from_nonoverlapping(header.as_ptr(), HEADER_SIZE);
        start.add(HEADER_SIZE).copy_from_nonoverlapping(payload.as_ptr(), payload.len());
        Status(api::TraceEvent(logger, start.cast()))
    }
}

fn write_message(
    logger: u64,
    flags: MessageFlags,
    id: MessageId,
    number: u16,
    payload: &[u8],
) -> Status {
    /// `TRACE_MESSAGE_COMPONENTID`, `TRACE_MESSAGE_GUID`.
    const COMPONENT_ID: u32 = 4;
    const GUID: u32 = 2;
    let (id_flag, id) = match id {
        MessageId::None => (0, Guid::ZERO),
        MessageId::Guid(guid) => (GUID, guid),
        MessageId::Component(component) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&component.to_le_bytes());
            (COMPONENT_ID, Guid(bytes))
        }
    };
    // A `va_list` of Windows on 64-bit processors is a pointer to words: pairs of address and size, and a null address.
    let arguments = [payload.as_ptr().expose_provenance(), payload.len(), 0];
    let arguments = if payload.is_empty() { &arguments[2..] } else { &arguments[..] };
    // SAFETY: the arguments end with a null address, and the payload lives through the call.
    Status(unsafe {
        api::TraceMessageVa(logger, u32::from(flags.0) | id_flag, &id, number, arguments.as_ptr())
    })
}
