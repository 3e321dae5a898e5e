//! A record of a log as `ReadEventLog` returns it: an `EVENTLOGRECORD` and the data behind it.

use etw_evtx::Record;
use etw_evtx::fields::{DataField, FieldContent};
use etw_types::FileTime;

/// The text of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    Utf8,
    Utf16,
}

/// Bytes in front of a record's texts.
const HEAD: usize = 56;
/// "LfLe"
const SIGNATURE: u32 = 0x654c_664c;
/// Keywords of records that are audits.
const AUDIT_FAILURE: u64 = 0x0010_0000_0000_0000;
const AUDIT_SUCCESS: u64 = 0x0020_0000_0000_0000;

/// The bytes of a record, as documented for `EVENTLOGRECORD`.
///
/// ```text
/// 0 u32 size   4 "LfLe"   8 u32 number   12 u32 generated   16 u32 written   20 u32 event id   24 u16 type
/// 26 u16 strings   28 u16 category   30 u16 0   32 u32 0   36 u32 offset of the strings
/// 40 u32 size of the SID   44 u32 its offset   48 u32 size of the data   52 u32 its offset
/// 56 source NUL, computer NUL, padding, SID, strings, data, padding, u32 size
/// ```
pub fn eventlog_record(record: &Record<'_>, text: Text) -> Vec<u8> {
    let system = record.system();
    let mut strings = Vec::new();
    let mut data = Vec::new();
    // A record that would expand without end has no strings.
    for field in record.fields().unwrap_or_default() {
        add_field(&field, &mut strings, &mut data);
    }
    let source = system.event_source_name().or_else(|| system.provider_name());
    let id = u32::from(system.event_id().unwrap_or(0));
    let id = u32::from(system.qualifiers().unwrap_or(0)) << 16 | id;
    let mut out = vec![0; HEAD];
    push_text(&mut out, &source.unwrap_or_default(), text);
    push_text(&mut out, &system.computer().unwrap_or_default(), text);
    // As Windows 10 aligns what follows the names.
    out.resize(out.len().next_multiple_of(8), 0);
    let sid = system.user_sid().unwrap_or_default();
    let sid_at = out.len();
    out.extend_from_slice(&sid);
    let strings_at = out.len();
    for string in &strings {
        push_text(&mut out, string, text);
    }
    let data_at = out.len();
    out.extend_from_slice(&data);
    out.resize(out.len().next_multiple_of(4), 0);
    let size = (out.len() + 4) as u32;
    out.extend_from_slice(&size.to_le_bytes());
    let mut put = |at: usize, value: u32| out[at..at + 4].copy_from_slice(&value.to_le_bytes());
    put(0, size);
    put(4, SIGNATURE);
    put(8, system.record_id().unwrap_or(record.id()) as u32);
    put(12, seconds(system.time().unwrap_or(record.time())));
    put(16, seconds(record.time()));
    put(20, id);
    put(24, u32::from(kind(system.level(), system.keywords())) | (strings.len() as u32) << 16);
    put(28, u32::from(system.task().unwrap_or(0)));
    put(36, strings_at as u32);
    put(40, sid.len() as u32);
    put(44, sid_at as u32);
    put(48, data.len() as u32);
    put(52, data_at as u32);
    out
}

/// `EVENTLOG_ERROR_TYPE` and so on.
fn kind(level: Option<u8>, keywords: Option<u64>) -> u16 {
    let keywords = keywords.unwrap_or(0);
    match level {
        Some(1 | 2) => 1,
        Some(3) => 2,
        _ if keywords & AUDIT_FAILURE != 0 => 16,
        _ if keywords & AUDIT_SUCCESS != 0 => 8,
        _ => 4,
    }
}

/// Seconds since 1970.
fn seconds(time: FileTime) -> u32 {
    u32::try_from((time.0 - FileTime::UNIX_EPOCH.0) / 10_000_000).unwrap_or(0)
}

/// A field's text is a string of the record; that of `Binary` is its data.
fn add_field(field: &DataField<'_>, strings: &mut Vec<String>, data: &mut Vec<u8>) {
    match &field.content {
        FieldContent::Value(value) if field.name == "Binary" => data.extend_from_slice(value.bytes),
        FieldContent::Value(value) => {
            let mut text = String::new();
            for (number, item) in value.items().enumerate() {
                if number > 0 {
                    text.push(',');
                }
                if let Some(scalar) = item.scalar() {
                    scalar.push_text(&mut text);
                }
            }
            strings.push(text);
        }
        FieldContent::Text(text) => strings.push(text.clone()),
        FieldContent::Fields(fields) => {
            for field in fields {
                add_field(field, strings, data);
            }
        }
        _ => {}
    }
}

/// Appends a text and its NUL. A NUL inside ends it.
fn push_text(out: &mut Vec<u8>, text: &str, form: Text) {
    let text = text.split('\0').next().unwrap_or_default();
    match form {
        Text::Utf8 => out.extend(text.bytes().chain([0])),
        Text::Utf16 => out.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes)),
    }
}
