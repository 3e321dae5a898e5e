//! `tdh.h`: names and values of events. The submodules hold manifests, WPP, maps, formats and payload filters.

mod context;
mod format;
mod info;
mod map;
pub mod payload_filter;
pub(crate) mod places;
mod providers;
mod wpp;

use std::rc::Rc;

use etw_api::Status;
use etw_decode::Decoded;
use etw_types::EventRecord;

use crate::abi::{bytes, guarded, pointer, put_bytes, store, utf16_of, utf32_of};
use crate::consumer::RawRecord;
use crate::decoding::{self, Event, Remembered};
use crate::status::ERROR_NOT_FOUND;
use context::{Contexts, RawContext};
use places::{Found, Places, Step};

/// `PROPERTY_DATA_DESCRIPTOR`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawProperty {
    name: u64,
    element: u32,
    reserved: u32,
}

/// The longest path of names to a property; TraceLogging nests no deeper.
const DEPTH: u32 = 128;

/// Decodes an event of the program and calls `call` with the result.
///
/// # Safety
/// ONE `record`, with ARRAY for its extended items and BYTES for its payload; ARRAY `contexts`, `context_count`.
unsafe fn decoded<T>(
    record: *const RawRecord,
    context_count: u32,
    contexts: *const RawContext,
    call: impl FnOnce(&EventRecord<'_>, &Decoded<'_>) -> Result<T, Status>,
) -> Result<T, Status> {
    // SAFETY: ONE, ARRAY, BYTES.
    let (event, contexts) =
        unsafe { (Event::new(record), Contexts::read(context_count, contexts)?) };
    event.ok_or(Status::ERROR_INVALID_PARAMETER)?.decode(&contexts, call)
}

impl Event {
    fn decode<T>(
        &self,
        contexts: &Contexts,
        call: impl FnOnce(&EventRecord<'_>, &Decoded<'_>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let mut record = self.record();
        if let Some(size) = contexts.pointer_size
            && self.has_no_pointer_size()
        {
            record.pointer_size = size;
        }
        let formats = contexts.formats(&record);
        decoding::decode(&record, formats, |decoded| call(&record, decoded))
    }
}

fn status(result: Result<Status, Status>) -> Status {
    result.unwrap_or_else(|status| status)
}

/// # Safety
/// ONE `record`; ARRAY `contexts`, `context_count`; SIZED `buffer`, `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetEventInformation(
    record: *const RawRecord,
    context_count: u32,
    contexts: *const RawContext,
    buffer: *mut u8,
    size: *mut u32,
) -> u32 {
    guarded(|| {
        if size.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: ONE, ARRAY.
        let info = unsafe {
            decoded(record, context_count, contexts, |record, decoded| {
                info::event_info(record, decoded)
            })
        };
        // SAFETY: SIZED.
        status(info.map(|info| unsafe { put_bytes(&info, buffer, size) }))
    })
}

/// # Safety
/// ONE `record`; SIZED `buffer`, `size`.
unsafe fn map_information(
    record: *const RawRecord,
    name: Option<String>,
    buffer: *mut u8,
    size: *mut u32,
) -> Status {
    let Some(name) = name.filter(|_| !size.is_null()) else {
        return Status::ERROR_INVALID_PARAMETER;
    };
    // SAFETY: ONE.
    let info = unsafe {
        decoded(record, 0, std::ptr::null(), |_, decoded| {
            let schema = decoded.schema().ok_or(ERROR_NOT_FOUND)?;
            let wanted = name.trim_end();
            let mut maps = schema.fields.iter().filter_map(|field| field.map.as_ref());
            let map = maps.find(|map| map.name == wanted).ok_or(ERROR_NOT_FOUND)?;
            Ok(map::map_info(map, decoded.source()))
        })
    };
    // SAFETY: SIZED.
    status(info.map(|info| unsafe { put_bytes(&info, buffer, size) }))
}

/// # Safety
/// ONE `record`; TEXT `name`; SIZED `buffer`, `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetEventMapInformation(
    record: *const RawRecord,
    name: *const u16,
    buffer: *mut u8,
    size: *mut u32,
) -> u32 {
    // SAFETY: TEXT.
    guarded(|| unsafe { map_information(record, utf16_of(name), buffer, size) })
}

/// `TdhGetEventMapInformation` with a name in UTF-32.
///
/// # Safety
/// ONE `record`; TEXT `name`; SIZED `buffer`, `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_tdh_map_wide(
    record: *const RawRecord,
    name: *const u32,
    buffer: *mut u8,
    size: *mut u32,
) -> u32 {
    // SAFETY: TEXT.
    guarded(|| unsafe { map_information(record, utf32_of(name), buffer, size) })
}

/// Calls `call` with the bytes of a property. If a text should end with a NUL and does not, it gets one.
///
/// # Safety
/// ONE `record`; ARRAY `contexts`, `context_count`; ARRAY `properties`, `count`, and TEXT for each name.
unsafe fn property(
    record: *const RawRecord,
    context_count: u32,
    contexts: *const RawContext,
    count: u32,
    properties: *const RawProperty,
    call: impl FnOnce(&[u8]) -> Status,
) -> Status {
    if count == 0 || count > DEPTH || properties.is_null() {
        return Status::ERROR_INVALID_PARAMETER;
    }
    let mut path = Vec::new();
    for number in 0..count as usize {
        // SAFETY: ARRAY, TEXT.
        let (name, element) = unsafe {
            let raw = properties.add(number).read_unaligned();
            (utf16_of(pointer(raw.name)), raw.element)
        };
        let Some(name) = name else { return Status::ERROR_INVALID_PARAMETER };
        path.push(Step { name, element: (element != u32::MAX).then_some(element as usize) });
    }
    // SAFETY: ONE, ARRAY.
    let read = unsafe { (Event::new(record), Contexts::read(context_count, contexts)) };
    let (event, contexts) = match read {
        (Some(event), Ok(contexts)) => (event, contexts),
        (_, Err(status)) => return status,
        (None, _) => return Status::ERROR_INVALID_PARAMETER,
    };
    let remembered = decoding::remembered(&event);
    let found = event.decode(&contexts, |record, decoded| {
        let schema = decoded.schema().ok_or(ERROR_NOT_FOUND)?;
        if let [step] = &path[..]
            && let Some(bytes) = wpp::property(record, decoded, &step.name)
        {
            return Ok((bytes, None));
        }
        let known = remembered.filter(|known| known.schema == std::ptr::from_ref(schema).addr());
        let known = match known {
            Some(known) => known,
            None => Remembered {
                schema: std::ptr::from_ref(schema).addr(),
                places: Rc::new(Places::find(record, decoded)?),
            },
        };
        let bytes = match known.places.property(schema, &path)? {
            Found::Own(bytes) => bytes,
            Found::Payload(range, end) => {
                let mut bytes = record.payload.get(range).unwrap_or_default().to_vec();
                // The last text of an event may lack its NUL, and programs print texts up to the NUL.
                let units: &[u8] = &[0, 0][..end];
                if !bytes.ends_with(units) || (end == 2 && bytes.len() % 2 == 1) {
                    bytes.resize(bytes.len().next_multiple_of(end.max(1)), 0);
                    bytes.extend(units);
                }
                bytes
            }
        };
        Ok((bytes, Some(known)))
    });
    match found {
        Ok((bytes, known)) => {
            if let Some(known) = known {
                decoding::remember(&event, known);
            }
            call(&bytes)
        }
        Err(status) => status,
    }
}

/// # Safety
/// ONE `record`; ARRAY `contexts`, `context_count`; ARRAY `properties`, `count`; OUT `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetPropertySize(
    record: *const RawRecord,
    context_count: u32,
    contexts: *const RawContext,
    count: u32,
    properties: *const RawProperty,
    size: *mut u32,
) -> u32 {
    guarded(|| {
        if size.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: OUT.
        unsafe {
            property(record, context_count, contexts, count, properties, |bytes| {
                // An event has at most 64 KiB.
                store(size, bytes.len() as u32);
                Status::ERROR_SUCCESS
            })
        }
    })
}

/// # Safety
/// ONE `record`; ARRAY `contexts`, `context_count`; ARRAY `properties`, `count`; SIZED `buffer`, `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetProperty(
    record: *const RawRecord,
    context_count: u32,
    contexts: *const RawContext,
    count: u32,
    properties: *const RawProperty,
    size: u32,
    buffer: *mut u8,
) -> u32 {
    guarded(|| {
        if buffer.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: SIZED.
        unsafe {
            property(record, context_count, contexts, count, properties, |bytes| {
                let mut capacity = size;
                put_bytes(bytes, buffer, &raw mut capacity)
            })
        }
    })
}

/// # Safety
/// ONE `map`; BYTES `data`, `data_size`; SIZED `buffer`, `size`; OUT `taken`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhFormatProperty(
    _info: *const u8,
    map: *const u8,
    pointer_size: u32,
    in_type: u16,
    out_type: u16,
    length: u16,
    data_size: u16,
    data: *const u8,
    size: *mut u32,
    buffer: *mut u8,
    taken: *mut u16,
) -> u32 {
    guarded(|| {
        let pointer_size = match pointer_size {
            4 => 4,
            8 => 8,
            _ => return Status::ERROR_INVALID_PARAMETER,
        };
        // SAFETY: BYTES.
        let data = unsafe { bytes(data, usize::from(data_size)) };
        let Some(data) = data.filter(|_| !size.is_null() && !taken.is_null()) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        let kind = format::Kind { in_type, out_type, length, pointer_size };
        // SAFETY: ONE, as `TdhGetEventMapInformation` has written it.
        match format::format(&kind, data, |value| unsafe { map::name_in(map, value) }) {
            Ok((text, bytes)) => {
                let text = etw_decode::event_info::utf16_z(&text);
                // SAFETY: SIZED.
                let status = unsafe { put_bytes(&text, buffer, size) };
                if status.is_success() {
                    // SAFETY: OUT. The number fits: it is at most `data_size`.
                    unsafe { store(taken, bytes as u16) };
                }
                status
            }
            Err(status) => status,
        }
    })
}
