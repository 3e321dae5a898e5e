//! What is loaded into the process, and what it says of providers.

use std::ffi::c_void;

use etw_api::{Guid, Status};
use etw_decode::Source;

use super::info::event_info;
use super::places::utf16_z;
use super::put_bytes;
use crate::abi::{RawDescriptor, RawGuid, guarded, utf16_of, utf32_of};
use crate::decoding::{self, Event};
use crate::loaded::{self, Key, Provider};
use crate::status::ERROR_NOT_FOUND;

/// `EventKeywordInformation`
const KEYWORDS: u32 = 0;
/// `EventInformationMax`
const FIELD_TYPES: u32 = 5;

fn load(path: Option<String>) -> Status {
    path.map_or(Status::ERROR_INVALID_PARAMETER, |path| loaded::load_file(&path))
}

fn unload(path: Option<String>) -> Status {
    path.map_or(Status::ERROR_INVALID_PARAMETER, |path| loaded::unload(&Key::Path(path)))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhLoadManifest(path: *const u16) -> u32 {
    // SAFETY: the caller's promise.
    guarded(|| load(unsafe { utf16_of(path) }))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_tdh_load_wide(path: *const u32) -> u32 {
    // SAFETY: the caller's promise.
    guarded(|| load(unsafe { utf32_of(path) }))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhLoadManifestFromBinary(path: *const u16) -> u32 {
    // SAFETY: the caller's promise.
    guarded(|| load(unsafe { utf16_of(path) }))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_tdh_load_binary_wide(path: *const u32) -> u32 {
    // SAFETY: the caller's promise.
    guarded(|| load(unsafe { utf32_of(path) }))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhUnloadManifest(path: *const u16) -> u32 {
    // SAFETY: the caller's promise.
    guarded(|| unload(unsafe { utf16_of(path) }))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_tdh_unload_wide(path: *const u32) -> u32 {
    // SAFETY: the caller's promise.
    guarded(|| unload(unsafe { utf32_of(path) }))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhLoadManifestFromMemory(data: *const c_void, size: u32) -> u32 {
    guarded(|| {
        if data.is_null() || size == 0 {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: the caller's promise.
        loaded::load_bytes(unsafe { std::slice::from_raw_parts(data.cast(), size as usize) })
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhUnloadManifestFromMemory(data: *const c_void, size: u32) -> u32 {
    guarded(|| {
        if data.is_null() || size == 0 {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: the caller's promise.
        let bytes: &[u8] = unsafe { std::slice::from_raw_parts(data.cast(), size as usize) };
        loaded::unload(&Key::Bytes(bytes.into()))
    })
}

/// PROVIDER_ENUMERATION_INFO: a count, then `{ GUID, u32 source, u32 offset of the name }` each, then the names.
fn enumeration() -> Vec<u8> {
    let mut providers: Vec<Provider> = Vec::new();
    for provider in loaded::providers() {
        if !providers.iter().any(|known| known.guid == provider.guid) {
            providers.push(provider);
        }
    }
    let base = 8 + providers.len() * 24;
    let mut out = Vec::with_capacity(base);
    out.extend((providers.len() as u32).to_le_bytes());
    out.extend([0; 4]);
    let mut names = Vec::new();
    for provider in &providers {
        out.extend(provider.guid.0);
        // A manifest.
        out.extend(0u32.to_le_bytes());
        out.extend(((base + names.len()) as u32).to_le_bytes());
        names.extend(utf16_z(&provider.name));
    }
    out.extend(names);
    out
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhEnumerateProviders(buffer: *mut u8, size: *mut u32) -> u32 {
    guarded(|| {
        if size.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: the caller's promise.
        unsafe { put_bytes(&enumeration(), buffer, size) }
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhEnumerateProvidersForDecodingSource(
    source: u32,
    buffer: *mut u8,
    size: u32,
    needed: *mut u32,
) -> u32 {
    guarded(|| {
        if needed.is_null() || source > 3 {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // Nothing but manifests is registered with a name.
        let bytes = if source == 0 { enumeration() } else { vec![0; 8] };
        let mut room = size;
        // SAFETY: the caller's promise.
        unsafe {
            needed.write_unaligned(bytes.len() as u32);
            put_bytes(&bytes, buffer, &raw mut room)
        }
    })
}

/// PROVIDER_FIELD_INFOARRAY of the keywords that `wanted` wants.
///
/// # Safety
/// The GUID is one or NULL; the buffer has the room that `size` says.
unsafe fn fields(
    guid: *const RawGuid,
    kind: u32,
    buffer: *mut u8,
    size: *mut u32,
    wanted: impl Fn(u64) -> bool,
) -> Status {
    if guid.is_null() || size.is_null() || kind >= FIELD_TYPES {
        return Status::ERROR_INVALID_PARAMETER;
    }
    if kind != KEYWORDS {
        return Status::ERROR_NOT_SUPPORTED;
    }
    // SAFETY: the caller's promise.
    let guid: Guid = unsafe { guid.read_unaligned() }.guid();
    let mut keywords: Vec<(u64, String)> = Vec::new();
    for provider in loaded::providers().into_iter().filter(|provider| provider.guid == guid) {
        keywords.extend(provider.keywords.into_iter().filter(|(mask, _)| wanted(*mask)));
    }
    if keywords.is_empty() {
        return ERROR_NOT_FOUND;
    }
    let base = 8 + keywords.len() * 16;
    let mut out = Vec::with_capacity(base);
    out.extend((keywords.len() as u32).to_le_bytes());
    out.extend(kind.to_le_bytes());
    let mut names = Vec::new();
    for (mask, name) in &keywords {
        out.extend(((base + names.len()) as u32).to_le_bytes());
        out.extend(0u32.to_le_bytes());
        out.extend(mask.to_le_bytes());
        names.extend(utf16_z(name));
    }
    out.extend(names);
    // SAFETY: the caller's promise.
    unsafe { put_bytes(&out, buffer, size) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhEnumerateProviderFieldInformation(
    guid: *const RawGuid,
    kind: u32,
    buffer: *mut u8,
    size: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { fields(guid, kind, buffer, size, |_| true) })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhQueryProviderFieldInformation(
    guid: *const RawGuid,
    value: u64,
    kind: u32,
    buffer: *mut u8,
    size: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { fields(guid, kind, buffer, size, |mask| mask & value != 0) })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetManifestEventInformation(
    guid: *const RawGuid,
    descriptor: *const RawDescriptor,
    buffer: *mut u8,
    size: *mut u32,
) -> u32 {
    guarded(|| {
        if guid.is_null() || descriptor.is_null() || size.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: the caller's promise.
        let (guid, descriptor) =
            unsafe { (guid.read_unaligned().guid(), descriptor.read_unaligned().descriptor()) };
        let record = Event::of_descriptor(guid, descriptor);
        let info = decoding::decode(&record, None, |decoded| match decoded.source() {
            Some(Source::Manifest) => event_info(&record, decoded),
            _ => Err(ERROR_NOT_FOUND),
        });
        match info {
            // SAFETY: the caller's promise.
            Ok(info) => unsafe { put_bytes(&info, buffer, size) },
            Err(status) => status,
        }
    })
}

/// A manifest's events are known by id and version alone: nothing has the rest of their descriptors.
#[unsafe(no_mangle)]
pub extern "C" fn TdhEnumerateManifestProviderEvents(
    _guid: *const RawGuid,
    _buffer: *mut c_void,
    _size: *mut u32,
) -> u32 {
    Status::ERROR_NOT_SUPPORTED.0
}

/// Filters that manifests define are read by nothing here.
#[unsafe(no_mangle)]
pub extern "C" fn TdhEnumerateProviderFilters(
    _guid: *const RawGuid,
    _context_count: u32,
    _contexts: *const c_void,
    _count: *mut u32,
    _buffer: *mut *mut c_void,
    _size: *mut u32,
) -> u32 {
    Status::ERROR_NOT_SUPPORTED.0
}
