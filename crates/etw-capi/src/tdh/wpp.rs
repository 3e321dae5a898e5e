//! Properties of WPP messages, and decoding handles, which keep the location of their formats.
//!
//! A decoding handle is a number that this module looks up, so an invalid one is rejected.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use etw_api::Status;
use etw_decode::{Decoded, Kind, Source, Style};
use etw_types::{Clock, ClockType, EventRecord};

use super::context::{
    Contexts, PDB_PATH, POINTER_SIZE, RawContext, TMF_FILE, TMF_SEARCH_PATH, WPP_GMT,
};
use crate::abi::{guarded, put_bytes, read, store, utf16_of, utf32_of};
use crate::consumer::RawRecord;
use crate::decoding::{self, Event};
use crate::status::ERROR_NOT_FOUND;
use etw_decode::event_info::utf16_z;

/// A property of a message by its documented name; `None` for other names and other events.
pub fn property(record: &EventRecord<'_>, decoded: &Decoded<'_>, name: &str) -> Option<Vec<u8>> {
    if decoded.source() != Some(Source::Wpp) {
        return None;
    }
    match name {
        "FormattedString" => {
            // Times of delivered records are FILETIMEs.
            let clock = Clock { kind: ClockType::SYSTEM, ..Clock::UNUSABLE };
            let style = Style { clock: Some(clock), ..Style::default() };
            decoded.message(record, &style).map(|text| utf16_z(&text))
        }
        "TraceGuid" => Some(record.provider.unwrap_or_default().0.to_vec()),
        "SystemTime" => Some(record.order_time.to_le_bytes().to_vec()),
        // These are texts of the format. A missing text is empty.
        "FunctionName" | "ComponentName" | "SubComponentName" | "GuidTypeName" | "FlagsName"
        | "LevelName" => {
            let fields = &decoded.schema()?.fields;
            let text = fields.iter().find_map(|field| match &field.kind {
                Kind::Constant(text) if field.name == name => Some(text.as_ref()),
                _ => None,
            });
            Some(utf16_z(text.unwrap_or_default()))
        }
        _ => None,
    }
}

/// The parameters of a decoding handle.
#[derive(Default)]
struct Settings {
    contexts: Contexts,
    /// The texts to which the results of `TdhGetDecodingParameter` point.
    texts: HashMap<u32, Arc<[u16]>>,
}

#[derive(Default)]
struct Handles {
    /// The last number given to a handle; numbers are not used twice.
    last: usize,
    open: HashMap<usize, Settings>,
}

static HANDLES: Mutex<Option<Handles>> = Mutex::new(None);

fn with<T>(handle: *mut c_void, call: impl FnOnce(&mut Settings) -> T) -> Result<T, Status> {
    let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    let settings = handles.get_or_insert_default().open.get_mut(&handle.addr());
    settings.map(call).ok_or(Status::ERROR_INVALID_PARAMETER)
}

/// # Safety
/// OUT `handle`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhOpenDecodingHandle(handle: *mut *mut c_void) -> u32 {
    guarded(|| {
        if handle.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
        let handles = handles.get_or_insert_default();
        handles.last += 1;
        handles.open.insert(handles.last, Settings::default());
        // SAFETY: OUT.
        unsafe { store(handle, std::ptr::without_provenance_mut(handles.last)) };
        Status::ERROR_SUCCESS
    })
}

/// Closes a decoding handle.
#[unsafe(no_mangle)]
pub extern "C" fn TdhCloseDecodingHandle(handle: *mut c_void) -> u32 {
    guarded(|| {
        let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
        match handles.get_or_insert_default().open.remove(&handle.addr()) {
            Some(_) => Status::ERROR_SUCCESS,
            None => Status::ERROR_INVALID_PARAMETER,
        }
    })
}

/// # Safety
/// ONE `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhSetDecodingParameter(
    handle: *mut c_void,
    context: *const RawContext,
) -> u32 {
    guarded(|| {
        // SAFETY: ONE.
        let Some(context) = (unsafe { read(context) }) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        let set = with(handle, |settings| {
            // SAFETY: TEXT.
            unsafe { settings.contexts.set(&context)? };
            let contexts = &settings.contexts;
            let text = match context.kind {
                TMF_FILE => &contexts.tmf_file,
                TMF_SEARCH_PATH => &contexts.search_path,
                PDB_PATH => &contexts.pdb_path,
                _ => &None,
            };
            if let Some(text) = text {
                settings.texts.insert(context.kind, text.encode_utf16().chain([0]).collect());
            }
            Ok(())
        });
        set.and_then(|set| set).map_or_else(|status| status, |()| Status::ERROR_SUCCESS)
    })
}

/// # Safety
/// ONE `context`; OUT `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetDecodingParameter(
    handle: *mut c_void,
    context: *mut RawContext,
) -> u32 {
    guarded(|| {
        // SAFETY: ONE.
        let Some(request) = (unsafe { read(context) }) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        let found = with(handle, |settings| {
            let number = |value: u64| Ok((value, 4));
            match request.kind {
                WPP_GMT => number(u64::from(settings.contexts.is_gmt)),
                POINTER_SIZE => match settings.contexts.pointer_size {
                    Some(size) => number(u64::from(size)),
                    None => Err(ERROR_NOT_FOUND),
                },
                TMF_FILE | TMF_SEARCH_PATH | PDB_PATH => match settings.texts.get(&request.kind) {
                    Some(text) => Ok((
                        text.as_ptr().expose_provenance() as u64,
                        size_of_val(&text[..]) as u32,
                    )),
                    None => Err(ERROR_NOT_FOUND),
                },
                _ => Err(Status::ERROR_INVALID_PARAMETER),
            }
        });
        match found.and_then(|found| found) {
            Ok((value, size)) => {
                // SAFETY: OUT.
                unsafe { store(context, RawContext { value, kind: request.kind, size }) };
                Status::ERROR_SUCCESS
            }
            Err(status) => status,
        }
    })
}

/// # Safety
/// ONE `record`; SIZED `buffer`, `size`.
unsafe fn wpp_property(
    handle: *mut c_void,
    record: *const RawRecord,
    name: Option<String>,
    size: *mut u32,
    buffer: *mut u8,
) -> Status {
    let Some(name) = name else { return Status::ERROR_INVALID_PARAMETER };
    if size.is_null() {
        return Status::ERROR_INVALID_PARAMETER;
    }
    let contexts = match with(handle, |settings| settings.contexts.clone()) {
        Ok(contexts) => contexts,
        Err(status) => return status,
    };
    // SAFETY: ONE.
    let Some(event) = (unsafe { Event::new(record) }) else {
        return Status::ERROR_INVALID_PARAMETER;
    };
    let record = event.record();
    let found = decoding::decode(&record, contexts.formats(&record), |decoded| {
        property(&record, decoded, &name)
    });
    match found {
        // SAFETY: SIZED.
        Some(bytes) => unsafe { put_bytes(&bytes, buffer, size) },
        None => ERROR_NOT_FOUND,
    }
}

/// # Safety
/// ONE `record`; TEXT `name`; SIZED `buffer`, `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetWppProperty(
    handle: *mut c_void,
    record: *const RawRecord,
    name: *const u16,
    size: *mut u32,
    buffer: *mut u8,
) -> u32 {
    // SAFETY: TEXT.
    guarded(|| unsafe { wpp_property(handle, record, utf16_of(name), size, buffer) })
}

/// `TdhGetWppProperty` with a name in UTF-32.
///
/// # Safety
/// ONE `record`; TEXT `name`; SIZED `buffer`, `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_tdh_wpp_property_wide(
    handle: *mut c_void,
    record: *const RawRecord,
    name: *const u32,
    size: *mut u32,
    buffer: *mut u8,
) -> u32 {
    // SAFETY: TEXT.
    guarded(|| unsafe { wpp_property(handle, record, utf32_of(name), size, buffer) })
}

/// # Safety
/// ONE `record`; SIZED `buffer`, `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetWppMessage(
    handle: *mut c_void,
    record: *const RawRecord,
    size: *mut u32,
    buffer: *mut u8,
) -> u32 {
    let name = Some("FormattedString".to_owned());
    // SAFETY: ONE, SIZED.
    guarded(|| unsafe { wpp_property(handle, record, name, size, buffer) })
}
