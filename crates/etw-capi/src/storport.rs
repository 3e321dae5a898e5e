//! `storport_etw.h`: events of storage drivers.

use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::sync::{Mutex, PoisonError};

use etw_api::Keyword;
use etw_storport::{
    Address, Device, EventChannel, EventLevel, EventOpcode, MAX_BYTE_STREAM_LENGTH,
    MAX_DESCRIPTION_LENGTH, MAX_PARAM_NAME_LENGTH, MiniportEvent, Parameter, StorStatus,
};

use crate::abi::{bytes, read, text_of};

/// `STOR_ADDRESS` with an address of type `STOR_ADDR_BTL8`, the only supported type.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawAddress {
    kind: u16,
    port: u16,
    length: u32,
    path: u8,
    target: u8,
    lun: u8,
    reserved: u8,
}

const BTL8: u16 = 1;
const BTL8_LENGTH: u32 = 4;

/// Adapters by the address of their device extension.
static ADAPTERS: Mutex<Option<HashMap<usize, Device>>> = Mutex::new(None);

/// The adapter of a device extension. An extension that `etw_storport_set_adapter` has not named becomes an adapter with the next number and
/// the name of the program.
fn device_of(extension: *const c_void) -> Option<Device> {
    if extension.is_null() {
        return None;
    }
    let mut adapters = ADAPTERS.lock().unwrap_or_else(PoisonError::into_inner);
    let adapters = adapters.get_or_insert_with(HashMap::new);
    let number = adapters.len() as u32;
    let device = adapters.entry(extension.addr()).or_insert_with(|| {
        let program = std::env::current_exe().ok();
        let name = program.as_deref().and_then(|path| path.file_name());
        Device::new(number, &name.map(|name| name.to_string_lossy()).unwrap_or_default())
    });
    Some(device.clone())
}

fn guarded(call: impl FnOnce() -> StorStatus) -> u32 {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
    // The panic hook has printed the panic.
    result.unwrap_or(StorStatus::UNSUCCESSFUL).0
}

/// Sets the port number and the name that events of a device extension carry.
///
/// # Safety
/// TEXT `name`. `extension` is a key, which is not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_storport_set_adapter(
    extension: *const c_void,
    port_number: u32,
    name: *const c_char,
) -> u32 {
    guarded(|| {
        // SAFETY: TEXT.
        let Some(name) = (unsafe { text_of(name) }).filter(|_| !extension.is_null()) else {
            return StorStatus::INVALID_PARAMETER;
        };
        let name = String::from_utf8_lossy(name);
        let mut adapters = ADAPTERS.lock().unwrap_or_else(PoisonError::into_inner);
        let adapters = adapters.get_or_insert_with(HashMap::new);
        adapters.insert(extension.addr(), Device::new(port_number, &name));
        StorStatus::SUCCESS
    })
}

/// Sets the channel of the descriptors of an event channel's later events.
#[unsafe(no_mangle)]
pub extern "C" fn etw_storport_set_channel(events: u32, channel: u8) -> u32 {
    guarded(|| etw_storport::set_channel(EventChannel(events), etw_api::Channel(channel)))
}

/// A text of at most `longest` units, or its first `longest` + 1: enough to reject a text that is too long.
///
/// # Safety
/// TEXT `text`.
unsafe fn limited_text_of(text: *const u16, longest: usize) -> Option<String> {
    if text.is_null() {
        return None;
    }
    let mut units = Vec::new();
    while units.len() <= longest {
        // SAFETY: TEXT: no unit so far was zero.
        match unsafe { text.add(units.len()).read_unaligned() } {
            0 => break,
            unit => units.push(unit),
        }
    }
    Some(String::from_utf16_lossy(&units))
}

/// The arguments that all events share.
struct Common {
    device: Device,
    address: Option<Address>,
    description: String,
}

impl Common {
    fn event(
        &self,
        id: u32,
        channel: u32,
        keywords: u64,
        level: u32,
        opcode: u32,
    ) -> MiniportEvent<'_> {
        MiniportEvent {
            id,
            description: &self.description,
            channel: EventChannel(channel),
            keywords: Keyword(keywords),
            level: EventLevel(level),
            opcode: EventOpcode(opcode),
        }
    }
}

/// Calls `log` with the arguments that all events share. Returns the status "invalid parameter" if one of them is wrong.
///
/// # Safety
/// ONE `address`; TEXT `description`. `extension` is a key, which is not followed.
unsafe fn with_common(
    extension: *const c_void,
    address: *const RawAddress,
    description: *const u16,
    log: impl FnOnce(&Common) -> StorStatus,
) -> u32 {
    let common = || -> Option<Common> {
        // SAFETY: ONE. Every address starts with its type and length, and the shortest is as long as this type.
        let address = match unsafe { read(address) } {
            None => None,
            Some(raw) if raw.kind != BTL8 || raw.length != BTL8_LENGTH => return None,
            Some(raw) => Some(Address { path: raw.path, target: raw.target, lun: raw.lun }),
        };
        // SAFETY: TEXT.
        let description = unsafe { limited_text_of(description, MAX_DESCRIPTION_LENGTH) }?;
        Some(Common { device: device_of(extension)?, address, description })
    };
    guarded(|| common().map_or(StorStatus::INVALID_PARAMETER, |common| log(&common)))
}

/// # Safety
/// ONE `address`; TEXT `description`; BYTES `data`, `length`. `extension` is a key, which is not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn StorPortEtwLogByteStream(
    extension: *const c_void,
    address: *const RawAddress,
    channel: u32,
    event_id: u32,
    description: *const u16,
    keywords: u64,
    level: u32,
    opcode: u32,
    length: u16,
    data: *const u8,
) -> u32 {
    let log = |common: &Common| {
        // SAFETY: BYTES.
        let data = unsafe { bytes(data, usize::from(length)) };
        let Some(data) = data.filter(|data| !data.is_empty()) else {
            return StorStatus::INVALID_PARAMETER;
        };
        let event = common.event(event_id, channel, keywords, level, opcode);
        etw_storport::log_byte_stream(Some(&common.device), common.address.as_ref(), event, data)
    };
    // SAFETY: ONE, TEXT.
    unsafe { with_common(extension, address, description, log) }
}

/// # Safety
/// ONE `address`; TEXT `description`; BYTES `data`, `length`. `extension` is a key, which is not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn StorPortEtwLogError(
    extension: *const c_void,
    address: *const RawAddress,
    id: u32,
    description: *const u16,
    length: u32,
    data: *const u8,
) -> u32 {
    let log = |common: &Common| {
        if length as usize > MAX_BYTE_STREAM_LENGTH {
            return StorStatus::INVALID_PARAMETER;
        }
        // SAFETY: BYTES.
        let Some(data) = (unsafe { bytes(data, length as usize) }) else {
            return StorStatus::INVALID_PARAMETER;
        };
        let address = common.address.as_ref();
        etw_storport::log_error(Some(&common.device), address, id, &common.description, data)
    };
    // SAFETY: ONE, TEXT.
    unsafe { with_common(extension, address, description, log) }
}

/// Writes the event of `StorPortEtwEvent2`, `4` and `8`, which are inline functions of the header.
///
/// # Safety
/// ONE `address`; TEXT `description`; ARRAY `names`, `count`, and TEXT for each; ARRAY `values`, `count`.
/// `extension` and `srb` are not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_storport_event(
    extension: *const c_void,
    address: *const RawAddress,
    channel: u32,
    event_id: u32,
    description: *const u16,
    keywords: u64,
    level: u32,
    opcode: u32,
    srb: *const c_void,
    count: u32,
    names: *const *const u16,
    values: *const u64,
) -> u32 {
    let log = |common: &Common| {
        if count > 8 || names.is_null() || values.is_null() {
            return StorStatus::INVALID_PARAMETER;
        }
        // SAFETY: TEXT, ARRAY.
        let pairs: Vec<(Option<String>, u64)> = unsafe {
            (0..count as usize)
                .map(|n| (limited_text_of(*names.add(n), MAX_PARAM_NAME_LENGTH), *values.add(n)))
                .collect()
        };
        let parameters: Vec<Parameter<'_>> = pairs
            .iter()
            .map(|(name, value)| Parameter { name: name.as_deref(), value: *value })
            .collect();
        let event = common.event(event_id, channel, keywords, level, opcode);
        let srb = (!srb.is_null()).then(|| srb.addr() as u64);
        let address = common.address.as_ref();
        etw_storport::log_event(Some(&common.device), address, event, srb, &parameters)
    };
    // SAFETY: ONE, TEXT.
    unsafe { with_common(extension, address, description, log) }
}
