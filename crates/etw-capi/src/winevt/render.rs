//! Values and XML of events and bookmarks: `EvtCreateRenderContext`, `EvtRender`, `EvtGetEventInfo`.

use std::ffi::c_void;

use etw_eventlog::stored_record::StoredRecord;
use etw_evtx::Record;
use etw_evtx::fields::{DataField, FieldContent};
use etw_evtx::query::{NodeValue, ValuePath};
use etw_evtx::value::{Value, ValueType};

use super::variant::Variants;
use super::{
    ERROR_EVT_INVALID_QUERY, Failure, Object, boolean, handle, lock, object, optional, wrong_kind,
};
use crate::abi::{array, store};
use crate::status::{ERROR_EVT_INVALID_EVENT_DATA, ERROR_INSUFFICIENT_BUFFER};

/// The values that a context asks for.
pub enum Context {
    Paths(Vec<ValuePath>),
    System,
    User,
}

/// # Safety
/// ARRAY `paths`, `count`, of TEXT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtCreateRenderContext(
    count: u32,
    paths: *const *const u16,
    flags: u32,
) -> *mut c_void {
    handle(|| match flags {
        0 => {
            if count == 0 || paths.is_null() {
                return Err(Failure::invalid("a context of values requires their paths"));
            }
            let mut parsed = Vec::new();
            // SAFETY: ARRAY, TEXT.
            for path in unsafe { array(paths, count) } {
                // SAFETY: TEXT.
                let text = unsafe { optional(path) };
                let text = text.ok_or_else(|| Failure::invalid("a path is NULL"))?;
                let path = text.parse().map_err(|error| {
                    Failure::new(ERROR_EVT_INVALID_QUERY, format!("{text}: {error}"))
                })?;
                parsed.push(path);
            }
            Ok(Object::Context(Context::Paths(parsed)))
        }
        1 => Ok(Object::Context(Context::System)),
        2 => Ok(Object::Context(Context::User)),
        _ => Err(Failure::invalid("the kind of a context is 0 to 2")),
    })
}

/// # Safety
/// HANDLE `context`, `fragment`; OUT `buffer`, `size` bytes; OUT `used`, `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtRender(
    context: *mut c_void,
    fragment: *mut c_void,
    flags: u32,
    size: u32,
    buffer: *mut u8,
    used: *mut u32,
    count: *mut u32,
) -> i32 {
    boolean(|| {
        let fragment = object(fragment)?;
        if !count.is_null() {
            // SAFETY: OUT.
            unsafe { store(count, 0) };
        }
        let text = match (flags, &*fragment) {
            (0, Object::Event(record)) => {
                let context = object(context)?;
                let Object::Context(context) = &*context else { return wrong_kind() };
                let variants = values(record, context)?;
                // SAFETY: OUT.
                unsafe {
                    variants.put_into(buffer, size, used)?;
                    if !count.is_null() {
                        store(count, variants.len() as u32);
                    }
                }
                return Ok(());
            }
            (1, Object::Event(record)) => read(record, |record| record.to_xml())?,
            (2, Object::Bookmark(list)) => lock(list).to_string(),
            (0..=2, _) => return wrong_kind(),
            _ => return Err(Failure::invalid("an event is rendered as 0, 1 or 2")),
        };
        let bytes: Vec<u8> = text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
        if used.is_null() {
            return Err(Failure::invalid("the pointer for the required size is NULL"));
        }
        // SAFETY: OUT.
        unsafe { store(used, bytes.len() as u32) };
        if buffer.is_null() || (size as usize) < bytes.len() {
            return Err(Failure::from(ERROR_INSUFFICIENT_BUFFER));
        }
        // SAFETY: OUT: the buffer has as many bytes.
        unsafe { buffer.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    })
}

/// Reads an event.
pub fn read<T>(
    record: &StoredRecord,
    then: impl FnOnce(&Record<'_>) -> Result<T, etw_evtx::Error>,
) -> Result<T, Failure> {
    let result = record.with(then).and_then(Result::ok);
    result.ok_or_else(|| Failure::new(ERROR_EVT_INVALID_EVENT_DATA, "the event cannot be read"))
}

fn values(record: &StoredRecord, context: &Context) -> Result<Variants, Failure> {
    read(record, |record| {
        let mut out = Variants::default();
        match context {
            Context::System => system(record, &mut out),
            Context::User => {
                for field in record.fields()? {
                    push_field(&mut out, &field);
                }
            }
            Context::Paths(paths) => {
                for path in paths {
                    let value: Option<NodeValue<'_>> = path.value(record)?;
                    out.node(value.as_ref());
                }
            }
        }
        Ok(out)
    })
}

/// A field, and those inside of it.
fn push_field(out: &mut Variants, field: &DataField<'_>) {
    match &field.content {
        FieldContent::Value(value) => out.value(*value),
        FieldContent::Text(text) => out.text(Some(text)),
        FieldContent::Fields(fields) => fields.iter().for_each(|field| push_field(out, field)),
        _ => out.null(),
    }
}

/// The eighteen values of `EVT_SYSTEM_PROPERTY_ID`.
fn system(record: &Record<'_>, out: &mut Variants) {
    let system = record.system();
    out.text(system.provider_name().as_deref());
    out.guid(system.provider());
    out.number(ValueType::UINT16, system.event_id());
    out.number(ValueType::UINT16, system.qualifiers());
    out.number(ValueType::UINT8, system.level());
    out.number(ValueType::UINT16, system.task());
    out.number(ValueType::UINT8, system.opcode());
    out.number(ValueType::HEX64, system.keywords());
    out.time(system.time().unwrap_or(record.time()));
    out.number(ValueType::UINT64, Some(system.record_id().unwrap_or(record.id())));
    out.guid(system.activity());
    out.guid(system.related_activity());
    out.number(ValueType::UINT32, system.process_id());
    out.number(ValueType::UINT32, system.thread_id());
    out.text(system.channel().as_deref());
    out.text(system.computer().as_deref());
    match system.user_sid() {
        Some(bytes) => out.value(Value { value_type: ValueType::SID, bytes: &bytes }),
        None => out.null(),
    }
    out.number(ValueType::UINT8, system.version());
}

/// # Safety
/// HANDLE `event`; OUT `buffer`, `size` bytes; OUT `used`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtGetEventInfo(
    event: *mut c_void,
    property: i32,
    size: u32,
    buffer: *mut u8,
    used: *mut u32,
) -> i32 {
    boolean(|| {
        let event = object(event)?;
        let Object::Event(record) = &*event else { return wrong_kind() };
        let variants = match property {
            0 => Variants::of(|out| out.numbers(ValueType::UINT32, &[0])),
            1 => Variants::of(|out| out.text(Some(record.source()))),
            _ => return Err(Failure::invalid("there is no such property of an event")),
        };
        // SAFETY: OUT.
        unsafe { variants.put_into(buffer, size, used) }
    })
}
