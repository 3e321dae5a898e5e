//! Manifests that the process has loaded, and queries about their providers.

use std::ffi::c_void;

use etw_api::{EventDescriptor, Guid, Status};
use etw_decode::Source;
use etw_decode::manifest::{NamedValue, NamedValueKind};

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

/// The name, description and value of an element.
type Field = (String, String, u64);

/// The elements of a provider: those of loaded manifests, else those of registered ones.
fn elements(guid: Guid, kind: u32) -> Vec<Field> {
    let catalogs = [loaded::catalog().1, loaded::registered()];
    let found = catalogs.iter().find_map(|catalog| catalog.description_of(&guid));
    let Some(description) = found else { return Vec::new() };
    let of_kind = match kind {
        KEYWORDS => NamedValueKind::Keyword,
        1 => NamedValueKind::Level,
        3 => NamedValueKind::Task,
        4 => NamedValueKind::Opcode,
        _ => {
            let channels = description.channels.iter();
            return channels
                .map(|one| (one.name.clone(), String::new(), one.value.into()))
                .collect();
        }
    };
    let values = description.named_values.iter().filter(|one| one.kind == of_kind);
    let value = |one: &NamedValue| match one.kind {
        // A guess, after EvtPublisherMetadataOpcodeValue: the opcode above its task.
        NamedValueKind::Opcode => one.value << 16 | u64::from(one.task),
        _ => one.value,
    };
    values.map(|one| (one.name.clone(), one.message.clone(), value(one))).collect()
}

/// PROVIDER_FIELD_INFOARRAY of the elements whose value `includes` accepts.
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
    let mut fields = elements(guid, kind);
    fields.retain(|(_, _, value)| includes(*value));
    if fields.is_empty() {
        return ERROR_NOT_FOUND;
    }
    let base = 8 + fields.len() * 16;
    let mut out = Vec::with_capacity(base);
    out.extend((fields.len() as u32).to_le_bytes());
    out.extend(kind.to_le_bytes());
    let mut texts = Vec::new();
    let put = |text: &str, texts: &mut Vec<u8>| match text.is_empty() {
        true => 0,
        false => {
            let offset = base + texts.len();
            texts.extend(utf16_z(text));
            offset as u32
        }
    };
    for (name, description, value) in &fields {
        out.extend(put(name, &mut texts).to_le_bytes());
        out.extend(put(description, &mut texts).to_le_bytes());
        out.extend(value.to_le_bytes());
    }
    out.extend(texts);
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
    let includes = |one: u64| if kind == KEYWORDS { one & value != 0 } else { one == value };
    // SAFETY: ONE, SIZED.
    guarded(|| unsafe { fields(guid, kind, buffer, size, includes) })
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

/// PROVIDER_EVENT_INFO: a count, four reserved bytes, and the descriptors of a provider's events.
///
/// # Safety
/// ONE `guid`; SIZED `buffer`, `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhEnumerateManifestProviderEvents(
    guid: *const RawGuid,
    buffer: *mut u8,
    size: *mut u32,
) -> u32 {
    guarded(|| {
        // SAFETY: ONE.
        let guid = unsafe { guid_of(guid) };
        let Some(guid) = guid.filter(|_| !size.is_null()) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        let catalogs = [loaded::catalog().1, loaded::registered()];
        let described = catalogs.iter().find(|catalog| catalog.description_of(&guid).is_some());
        let Some(catalog) = described else { return ERROR_NOT_FOUND };
        let mut out = vec![0; 8];
        let mut count = 0u32;
        for event in catalog.events_of(&guid) {
            let schema = catalog.event(guid, event.id, event.version);
            if let Some(descriptor) = schema.and_then(|schema| schema.descriptor) {
                let descriptor =
                    EventDescriptor { id: event.id, version: event.version, ..descriptor };
                out.extend(descriptor.to_bytes());
                count += 1;
            }
        }
        out[..4].copy_from_slice(&count.to_le_bytes());
        // SAFETY: SIZED.
        unsafe { put_bytes(&out, buffer, size) }
    })
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
