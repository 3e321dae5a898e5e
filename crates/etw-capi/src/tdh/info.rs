//! `TRACE_EVENT_INFO` of an event, from whatever schema it has.
//!
//! Layout as in `etw_decode::event_info`: fixed part, properties, texts. If a trace contains the structure and all its offsets are
//! valid, the program gets that one. Otherwise the structure is built anew, since programs follow offsets without checks.

use etw_api::{Guid, Status};
use etw_decode::event_info::EventInfoParts;
use etw_decode::{Decoded, Names, Schema, Source};
use etw_types::{EventRecord, le};

use super::places::Places;
use crate::status::{ERROR_EVT_INVALID_EVENT_DATA, ERROR_INVALID_DATA, ERROR_NOT_FOUND};

const FIXED_SIZE: usize = 0x70;
const PROPERTY_SIZE: usize = 24;

const STRUCT: u32 = 0x01;
const HAS_CUSTOM_SCHEMA: u32 = 0x80;

/// The provider of the system's classic events.
const SYSTEM_TRACE: Guid = Guid::from_u128(0x9e814aad_3204_11d2_9a82_006008a86939);

/// The structure's bytes.
///
/// # Errors
/// `ERROR_NOT_FOUND` without a schema; `ERROR_EVT_INVALID_EVENT_DATA` if the schema describes more values than an event can hold.
pub fn event_info(record: &EventRecord<'_>, decoded: &Decoded<'_>) -> Result<Vec<u8>, Status> {
    let schema = decoded.schema().ok_or(ERROR_NOT_FOUND)?;
    let places = Places::find(record, decoded)?;
    if places.is_bad {
        return Err(ERROR_EVT_INVALID_EVENT_DATA);
    }
    if let Some(blob) = decoded.event_info()
        && is_sound(blob)
    {
        return Ok(blob.to_vec());
    }
    let number: u32 = match decoded.source() {
        Some(Source::Kernel | Source::Mof | Source::Header) => 1,
        Some(Source::Wpp) => 2,
        Some(Source::TraceLogging) => 3,
        // Manifests from any source, and string events, which have no schema source.
        _ => 0,
    };
    // A structure of the trace with invalid offsets keeps its schema source.
    let blob = decoded.event_info();
    let number = blob.and_then(|blob| le::u32(blob, 0x30)).filter(|n| *n <= 3).unwrap_or(number);
    let provider = record.provider.unwrap_or_default();
    let (provider, class) = match decoded.source() {
        Some(Source::Kernel | Source::Header) => (SYSTEM_TRACE, provider),
        Some(Source::Mof | Source::Wpp) => (provider, provider),
        _ if number == 1 => (provider, provider),
        _ => (provider, Guid::ZERO),
    };
    let rest_counts: Vec<usize> = (0..schema.top_level).map(|index| places.count(index)).collect();
    let provider_name = decoded.provider_name();
    let parts = EventInfoParts {
        provider,
        class,
        descriptor: record.descriptor,
        source: number,
        names: &names(decoded, schema, number),
        provider_name: provider_name.as_deref(),
        schema,
        pointer_size: decoded.pointer_size(record),
        // A kernel event may end before its class does: the other fields are absent.
        top_level: if places.is_short { schema.top_level } else { places.top_level() },
        rest_counts: &rest_counts,
    };
    parts.write().ok_or(ERROR_INVALID_DATA)
}

/// Whether every offset of a TRACE_EVENT_INFO, whose properties were read, is valid.
fn is_sound(blob: &[u8]) -> bool {
    let u32_at = |at: usize| le::u32(blob, at).unwrap_or(u32::MAX);
    let text = |offset: u32| {
        let rest = blob.get(offset as usize..);
        offset.is_multiple_of(2) && rest.and_then(le::utf16_z).is_some()
    };
    let is_text = |offset: u32| offset == 0 || text(offset);
    let keywords = u32_at(0x40);
    let is_list = keywords == 0 || {
        let mut rest = blob.get(keywords as usize..);
        keywords.is_multiple_of(2)
            && loop {
                let Some((text, taken)) = rest.and_then(le::utf16_z) else { break false };
                if text.is_empty() {
                    break true;
                }
                rest = rest.and_then(|rest| rest.get(taken..));
            }
    };
    let xml = u64::from(u32_at(0x54)) + u64::from(u32_at(0x58));
    let names = [0x34, 0x38, 0x3c, 0x44, 0x48, 0x4c, 0x50, 0x5c, 0x60];
    let is_property = |number: usize| {
        let at = FIXED_SIZE + number * PROPERTY_SIZE;
        let (flags, name, other) = (u32_at(at), u32_at(at + 4), u32_at(at + 0x0c));
        name != 0
            && text(name)
            && match flags {
                flags if flags & STRUCT != 0 => true,
                flags if flags & HAS_CUSTOM_SCHEMA != 0 => {
                    let size = le::u16(blob, (other as usize).saturating_add(2)).map(usize::from);
                    let end = size.map(|size| other as usize + 4 + size);
                    other.is_multiple_of(2) && end.is_some_and(|end| end <= blob.len())
                }
                _ => is_text(other),
            }
    };
    u32_at(0x30) <= 3
        && is_list
        && xml <= blob.len() as u64
        && names.into_iter().all(|at| is_text(u32_at(at)))
        && (0..u32_at(0x64) as usize).all(is_property)
}

/// The schema's names that TDH has, too. An event's name is present only if the schema names the event itself, and not only its task
/// and opcode.
fn names(decoded: &Decoded<'_>, schema: &Schema, source: u32) -> Names {
    let mut names = schema.names.without_made_event();
    let event = decoded.event_name().map(str::to_owned);
    match source {
        // Class and type.
        1 => {
            let parts = event.as_deref().and_then(|event| event.split_once('/'));
            if let (Some((class, kind)), None, None) = (parts, &names.task, &names.opcode) {
                names.task = Some(class.to_owned());
                names.opcode = Some(kind.to_owned());
            }
            // It has the offset of an activity id's name.
            names.event = None;
        }
        // The file and line of the code.
        2 => {
            names.task = names.event.take();
        }
        // Older programs look for it here.
        3 => {
            names.event = names.event.or(event);
            names.task = names.task.or_else(|| names.event.clone());
        }
        _ => {}
    }
    names
}
