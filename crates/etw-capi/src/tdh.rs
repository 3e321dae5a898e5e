//! `tdh.h`: names and values of events.

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

use crate::abi::{guarded, utf16_of, utf32_of};
use crate::consumer::RawRecord;
use crate::decoding::{self, Event, Remembered};
use crate::status::{ERROR_INSUFFICIENT_BUFFER, ERROR_NOT_FOUND};
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

/// Names of structs in structs that a path may have; TraceLogging nests no deeper.
const DEPTH: u32 = 128;

/// Gives a structure to a program: its size where the buffer is too small for it.
///
/// # Safety
/// `size` leads to the room at `buffer`; this may be NULL.
unsafe fn put_bytes(bytes: &[u8], buffer: *mut u8, size: *mut u32) -> Status {
    let Ok(needed) = u32::try_from(bytes.len()) else { return Status::ERROR_NOT_ENOUGH_MEMORY };
    // SAFETY: the caller's promise.
    unsafe {
        let room = size.read_unaligned();
        size.write_unaligned(needed);
        if buffer.is_null() || room < needed {
            return ERROR_INSUFFICIENT_BUFFER;
        }
        buffer.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
    }
    Status::ERROR_SUCCESS
}

/// Decodes a program's event and calls with it.
///
/// # Safety
/// NULL, or a record that leads to its items and data; so many contexts.
unsafe fn decoded<T>(
    record: *const RawRecord,
    context_count: u32,
    contexts: *const RawContext,
    call: impl FnOnce(&EventRecord<'_>, &Decoded<'_>) -> Result<T, Status>,
) -> Result<T, Status> {
    // SAFETY: the caller's promise.
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
/// As the header says.
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
        // SAFETY: the caller's promise.
        let info = unsafe {
            decoded(record, context_count, contexts, |record, decoded| {
                info::event_info(record, decoded)
            })
        };
        // SAFETY: the caller's promise.
        status(info.map(|info| unsafe { put_bytes(&info, buffer, size) }))
    })
}

/// # Safety
/// As for `TdhGetEventMapInformation`, with the name read.
unsafe fn map_information(
    record: *const RawRecord,
    name: Option<String>,
    buffer: *mut u8,
    size: *mut u32,
) -> Status {
    let Some(name) = name.filter(|_| !size.is_null()) else {
        return Status::ERROR_INVALID_PARAMETER;
    };
    // SAFETY: the caller's promise.
    let info = unsafe {
        decoded(record, 0, std::ptr::null(), |_, decoded| {
            let schema = decoded.schema().ok_or(ERROR_NOT_FOUND)?;
            let wanted = name.trim_end();
            let mut maps = schema.fields.iter().filter_map(|field| field.map.as_ref());
            let map = maps.find(|map| map.name == wanted).ok_or(ERROR_NOT_FOUND)?;
            Ok(map::map_info(map, decoded.source()))
        })
    };
    // SAFETY: the caller's promise.
    status(info.map(|info| unsafe { put_bytes(&info, buffer, size) }))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetEventMapInformation(
    record: *const RawRecord,
    name: *const u16,
    buffer: *mut u8,
    size: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { map_information(record, utf16_of(name), buffer, size) })
}

/// The same of UTF-32.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_tdh_map_wide(
    record: *const RawRecord,
    name: *const u32,
    buffer: *mut u8,
    size: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { map_information(record, utf32_of(name), buffer, size) })
}

/// The bytes of a property, for `call`; a text that has no NUL of its own and should have gets one.
///
/// # Safety
/// As the header says of `TdhGetProperty`.
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
        // SAFETY: the caller's promise.
        let (name, element) = unsafe {
            let raw = properties.add(number).read_unaligned();
            let name = std::ptr::with_exposed_provenance::<u16>(raw.name as usize);
            (utf16_of(name), raw.element)
        };
        let Some(name) = name else { return Status::ERROR_INVALID_PARAMETER };
        path.push(Step { name, element: (element != u32::MAX).then_some(element as usize) });
    }
    // SAFETY: the caller's promise.
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
                // A last text may lack its NUL, and programs print texts.
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
/// As the header says.
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
        // SAFETY: the caller's promise.
        unsafe {
            property(record, context_count, contexts, count, properties, |bytes| {
                // An event has at most 64 KiB.
                size.write_unaligned(bytes.len() as u32);
                Status::ERROR_SUCCESS
            })
        }
    })
}

/// # Safety
/// As the header says.
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
        // SAFETY: the caller's promise.
        unsafe {
            property(record, context_count, contexts, count, properties, |bytes| {
                let mut room = size;
                put_bytes(bytes, buffer, &raw mut room)
            })
        }
    })
}

/// # Safety
/// As the header says.
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
        if size.is_null() || taken.is_null() || (data.is_null() && data_size > 0) {
            return Status::ERROR_INVALID_PARAMETER;
        }
        let data = match data_size {
            0 => &[][..],
            // SAFETY: the caller's promise.
            _ => unsafe { std::slice::from_raw_parts(data, usize::from(data_size)) },
        };
        let kind = format::Kind { in_type, out_type, length, pointer_size };
        // SAFETY: the caller's promise.
        match format::format(&kind, data, |value| unsafe { map::name_in(map, value) }) {
            Ok((text, bytes)) => {
                let text = places::utf16_z(&text);
                // SAFETY: the caller's promise.
                let status = unsafe { put_bytes(&text, buffer, size) };
                if status.is_success() {
                    // SAFETY: the caller's promise; a part of what has a size of sixteen bits.
                    unsafe { taken.write_unaligned(bytes as u16) };
                }
                status
            }
            Err(status) => status,
        }
    })
}
