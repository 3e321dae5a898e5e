//! `storport_etw.h`.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, PoisonError};

use etw_storport::{
    Address, Device, EventChannel, EventLevel, EventOpcode, MAX_BYTE_STREAM_LENGTH,
    MAX_DESCRIPTION_LENGTH, MAX_PARAM_NAME_LENGTH, Parameter, StorStatus,
};

/// `STOR_ADDRESS` with the only addresses that are known here, `STOR_ADDR_BTL8`.
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

/// Adapters by their device extension.
static ADAPTERS: Mutex<Option<HashMap<usize, Device>>> = Mutex::new(None);

/// A device extension that was not told of is an adapter of this program's, numbered as it comes.
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
    // The panic has been printed.
    result.unwrap_or(StorStatus::UNSUCCESSFUL).0
}

/// Tells what the events of a device extension say of their adapter.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_storport_set_adapter(
    extension: *const c_void,
    port_number: u32,
    name: *const c_char,
) -> u32 {
    guarded(|| {
        if extension.is_null() || name.is_null() {
            return StorStatus::INVALID_PARAMETER;
        }
        // SAFETY: the caller's promise.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        let mut adapters = ADAPTERS.lock().unwrap_or_else(PoisonError::into_inner);
        let adapters = adapters.get_or_insert_with(HashMap::new);
        adapters.insert(extension.addr(), Device::new(port_number, &name));
        StorStatus::SUCCESS
    })
}

/// At most `longest` units and one more: what is too long is seen to be, and not read to its end.
///
/// # Safety
/// NULL, or UTF-16 up to a zero unit.
unsafe fn text_of(text: *const u16, longest: usize) -> Option<String> {
    if text.is_null() {
        return None;
    }
    let mut units = Vec::new();
    while units.len() <= longest {
        // SAFETY: the caller's promise: no unit so far was zero.
        match unsafe { text.add(units.len()).read_unaligned() } {
            0 => break,
            unit => units.push(unit),
        }
    }
    Some(String::from_utf16_lossy(&units))
}

/// What all functions are given.
struct Common {
    device: Device,
    address: Option<Address>,
    description: String,
}

/// # Safety
/// As the header says.
unsafe fn common_of(
    extension: *const c_void,
    address: *const RawAddress,
    description: *const u16,
) -> Option<Common> {
    let address = match address.is_null() {
        true => None,
        false => {
            // SAFETY: the caller's promise; type and length stand in all addresses.
            let raw = unsafe { address.read_unaligned() };
            if raw.kind != BTL8 || raw.length != BTL8_LENGTH {
                return None;
            }
            Some(Address { path: raw.path, target: raw.target, lun: raw.lun })
        }
    };
    // SAFETY: the caller's promise.
    let description = unsafe { text_of(description, MAX_DESCRIPTION_LENGTH) }?;
    Some(Common { device: device_of(extension)?, address, description })
}

/// # Safety
/// As the header says.
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
    guarded(|| {
        // SAFETY: the caller's promise.
        let Some(common) = (unsafe { common_of(extension, address, description) }) else {
            return StorStatus::INVALID_PARAMETER;
        };
        if data.is_null() || length == 0 {
            return StorStatus::INVALID_PARAMETER;
        }
        // SAFETY: the caller's promise.
        let data = unsafe { std::slice::from_raw_parts(data, usize::from(length)) };
        etw_storport::log_byte_stream(
            Some(&common.device),
            common.address.as_ref(),
            EventChannel(channel),
            event_id,
            &common.description,
            keywords,
            EventLevel(level),
            EventOpcode(opcode),
            data,
        )
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn StorPortEtwLogError(
    extension: *const c_void,
    address: *const RawAddress,
    id: u32,
    description: *const u16,
    length: u32,
    data: *const u8,
) -> u32 {
    guarded(|| {
        // SAFETY: the caller's promise.
        let Some(common) = (unsafe { common_of(extension, address, description) }) else {
            return StorStatus::INVALID_PARAMETER;
        };
        if (data.is_null() && length > 0) || length as usize > MAX_BYTE_STREAM_LENGTH {
            return StorStatus::INVALID_PARAMETER;
        }
        let data = match length {
            0 => &[],
            // SAFETY: the caller's promise.
            _ => unsafe { std::slice::from_raw_parts(data, length as usize) },
        };
        let address = common.address.as_ref();
        etw_storport::log_error(Some(&common.device), address, id, &common.description, data)
    })
}

/// For the functions of named parameters, which are inline in the header: so many names and values.
///
/// # Safety
/// As the header says.
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
    guarded(|| {
        // SAFETY: the caller's promise.
        let Some(common) = (unsafe { common_of(extension, address, description) }) else {
            return StorStatus::INVALID_PARAMETER;
        };
        if count > 8 || names.is_null() || values.is_null() {
            return StorStatus::INVALID_PARAMETER;
        }
        // SAFETY: the caller's promise.
        let pairs: Vec<(Option<String>, u64)> = unsafe {
            (0..count as usize)
                .map(|n| (text_of(*names.add(n), MAX_PARAM_NAME_LENGTH), *values.add(n)))
                .collect()
        };
        let parameters: Vec<Parameter<'_>> = pairs
            .iter()
            .map(|(name, value)| Parameter { name: name.as_deref(), value: *value })
            .collect();
        etw_storport::log_channel_event(
            Some(&common.device),
            common.address.as_ref(),
            EventChannel(channel),
            event_id,
            &common.description,
            keywords,
            EventLevel(level),
            EventOpcode(opcode),
            (!srb.is_null()).then(|| srb.addr() as u64),
            &parameters,
        )
    })
}
