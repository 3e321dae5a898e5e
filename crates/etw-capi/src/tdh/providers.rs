//! Manifests that the process has loaded, and queries about their providers.

use std::ffi::c_void;

use etw_api::Status;
use etw_decode::Source;
use etw_decode::manifest::KeywordName;

use super::info::event_info;
use crate::abi::{
    RawDescriptor, RawGuid, bytes, descriptor_of, guarded, guid_of, put_bytes, store, utf16_of,
    utf32_of,
};
use crate::decoding::{self, Event};
use crate::loaded::{self, Key, Provider};
use crate::status::ERROR_NOT_FOUND;
use etw_decode::event_info::utf16_z;

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

macro_rules! path_functions {
    ($($name:ident $unit:ident $text_of:ident $act:ident;)*) => {$(
        /// # Safety
        /// TEXT `path`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const $unit) -> u32 {
            // SAFETY: TEXT.
            guarded(|| $act(unsafe { $text_of(path) }))
        }
    )*};
}

path_functions! {
    TdhLoadManifest u16 utf16_of load;
    etw_tdh_load_wide u32 utf32_of load;
    TdhLoadManifestFromBinary u16 utf16_of load;
    etw_tdh_load_binary_wide u32 utf32_of load;
    TdhUnloadManifest u16 utf16_of unload;
    etw_tdh_unload_wide u32 utf32_of unload;
}

/// The bytes of a manifest; `None` if there are none.
///
/// # Safety
/// BYTES `data`, `size`, for as long as `'a`.
unsafe fn manifest<'a>(data: *const c_void, size: u32) -> Option<&'a [u8]> {
    // SAFETY: BYTES.
    unsafe { bytes(data.cast(), size as usize) }.filter(|bytes| !bytes.is_empty())
}

/// # Safety
/// BYTES `data`, `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhLoadManifestFromMemory(data: *const c_void, size: u32) -> u32 {
    guarded(|| {
        // SAFETY: BYTES.
        unsafe { manifest(data, size) }.map_or(Status::ERROR_INVALID_PARAMETER, loaded::load_bytes)
    })
}

/// # Safety
/// BYTES `data`, `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhUnloadManifestFromMemory(data: *const c_void, size: u32) -> u32 {
    guarded(|| {
        // SAFETY: BYTES.
        let bytes = unsafe { manifest(data, size) };
        let key = bytes.map(|bytes| Key::Bytes(bytes.into()));
        key.map_or(Status::ERROR_INVALID_PARAMETER, |key| loaded::unload(&key))
    })
}

/// PROVIDER_ENUMERATION_INFO: a count, `{ GUID, u32 source, u32 offset of the name }` for each provider, and the names.
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
        // The source 0 is a manifest.
        out.extend(0u32.to_le_bytes());
        out.extend(((base + names.len()) as u32).to_le_bytes());
        names.extend(utf16_z(&provider.name));
    }
    out.extend(names);
    out
}

/// # Safety
/// SIZED `buffer`, `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhEnumerateProviders(buffer: *mut u8, size: *mut u32) -> u32 {
    guarded(|| {
        if size.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: SIZED.
        unsafe { put_bytes(&enumeration(), buffer, size) }
    })
}

/// # Safety
/// SIZED `buffer`, `size`; OUT `needed`.
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
        // Only providers with a manifest have a name here.
        let bytes = if source == 0 { enumeration() } else { vec![0; 8] };
        let mut capacity = size;
        // SAFETY: OUT, SIZED.
        unsafe {
            store(needed, bytes.len() as u32);
            put_bytes(&bytes, buffer, &raw mut capacity)
        }
    })
}

/// PROVIDER_FIELD_INFOARRAY of the keywords that `includes` accepts.
///
/// # Safety
/// ONE `guid`; SIZED `buffer`, `size`.
unsafe fn fields(
    guid: *const RawGuid,
    kind: u32,
    buffer: *mut u8,
    size: *mut u32,
    includes: impl Fn(u64) -> bool,
) -> Status {
    // SAFETY: ONE.
    let guid = unsafe { guid_of(guid) };
    let Some(guid) = guid.filter(|_| !size.is_null() && kind < FIELD_TYPES) else {
        return Status::ERROR_INVALID_PARAMETER;
    };
    if kind != KEYWORDS {
        return Status::ERROR_NOT_SUPPORTED;
    }
    let mut keywords: Vec<KeywordName> = Vec::new();
    for provider in loaded::providers().into_iter().filter(|provider| provider.guid == guid) {
        keywords.extend(provider.keywords.into_iter().filter(|keyword| includes(keyword.mask.0)));
    }
    if keywords.is_empty() {
        return ERROR_NOT_FOUND;
    }
    let base = 8 + keywords.len() * 16;
    let mut out = Vec::with_capacity(base);
    out.extend((keywords.len() as u32).to_le_bytes());
    out.extend(kind.to_le_bytes());
    let mut names = Vec::new();
    for KeywordName { mask, name } in &keywords {
        out.extend(((base + names.len()) as u32).to_le_bytes());
        out.extend(0u32.to_le_bytes());
        out.extend(mask.0.to_le_bytes());
        names.extend(utf16_z(name));
    }
    out.extend(names);
    // SAFETY: SIZED.
    unsafe { put_bytes(&out, buffer, size) }
}

/// # Safety
/// ONE `guid`; SIZED `buffer`, `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhEnumerateProviderFieldInformation(
    guid: *const RawGuid,
    kind: u32,
    buffer: *mut u8,
    size: *mut u32,
) -> u32 {
    // SAFETY: ONE, SIZED.
    guarded(|| unsafe { fields(guid, kind, buffer, size, |_| true) })
}

/// # Safety
/// ONE `guid`; SIZED `buffer`, `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhQueryProviderFieldInformation(
    guid: *const RawGuid,
    value: u64,
    kind: u32,
    buffer: *mut u8,
    size: *mut u32,
) -> u32 {
    // SAFETY: ONE, SIZED.
    guarded(|| unsafe { fields(guid, kind, buffer, size, |mask| mask & value != 0) })
}

/// # Safety
/// ONE `guid`; ONE `descriptor`; SIZED `buffer`, `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetManifestEventInformation(
    guid: *const RawGuid,
    descriptor: *const RawDescriptor,
    buffer: *mut u8,
    size: *mut u32,
) -> u32 {
    guarded(|| {
        // SAFETY: ONE.
        let (guid, descriptor) = unsafe { (guid_of(guid), descriptor_of(descriptor)) };
        let (Some(guid), Some(descriptor), false) = (guid, descriptor, size.is_null()) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        let record = Event::of_descriptor(guid, descriptor);
        let info = decoding::decode(&record, None, |decoded| match decoded.source() {
            Some(Source::Manifest) => event_info(&record, decoded),
            _ => Err(ERROR_NOT_FOUND),
        });
        match info {
            // SAFETY: SIZED.
            Ok(info) => unsafe { put_bytes(&info, buffer, size) },
            Err(status) => status,
        }
    })
}

/// Returns 50: this library knows a manifest's events by id and version, without the rest of their descriptors.
#[unsafe(no_mangle)]
pub extern "C" fn TdhEnumerateManifestProviderEvents(
    _guid: *const RawGuid,
    _buffer: *mut c_void,
    _size: *mut u32,
) -> u32 {
    Status::ERROR_NOT_SUPPORTED.0
}

/// Returns 50: this library does not read the filters that manifests define.
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
