//! `TdhFormatProperty`: one value as TDH writes it.

use etw_api::Status;
use etw_decode::{
    CodePage, Field, InType, Length, Names, OutType, PayloadError, Schema, StatusKind, Style,
    Value, Visitor, Wire, status_name, status_text, walk,
};
use etw_types::{FileTime, Guid};

use crate::status::ERROR_EVT_INVALID_EVENT_DATA;

/// The type of a property, from EVENT_PROPERTY_INFO.
pub struct Kind {
    pub in_type: u16,
    pub out_type: u16,
    /// Characters of a text, bytes of a binary value; 0 if the value contains its length.
    pub length: u16,
    pub pointer_size: u8,
}

/// The text of the value at the front of `data`, and the size of the value. `name`: the name of an integer.
///
/// # Errors
/// `ERROR_INVALID_PARAMETER` for an unknown type, `ERROR_EVT_INVALID_EVENT_DATA` if `data` ends inside the value.
pub fn format(
    kind: &Kind,
    data: &[u8],
    name: impl Fn(u64) -> Option<String>,
) -> Result<(String, usize), Status> {
    let (in_type, out_type) = (InType(kind.in_type), OutType(kind.out_type));
    let wire = in_type.wire().ok_or(Status::ERROR_INVALID_PARAMETER)?;
    let mut field = Field::new("", wire, in_type.show(out_type));
    let has_length = matches!(wire, Wire::Utf16 | Wire::Ansi | Wire::Binary);
    if has_length && kind.length > 0 {
        field.length = Length::Fixed(kind.length);
    }
    let schema = Schema::new(Names::default(), vec![field], 1);
    let mut text = Text { name, text: String::new() };
    match walk(&schema, data, kind.pointer_size, &mut text) {
        Ok(taken) => Ok((text.text, taken)),
        Err(PayloadError::Short { .. }) => Err(ERROR_EVT_INVALID_EVENT_DATA),
        Err(_) => Err(Status::ERROR_INVALID_PARAMETER),
    }
}

struct Text<N> {
    name: N,
    text: String,
}

impl<N: Fn(u64) -> Option<String>> Visitor for Text<N> {
    fn value(&mut self, _: &Field, value: Value<'_>) {
        let named = match value {
            Value::Int(_) | Value::UInt(_) | Value::Hex(_) => {
                number_of(&value).and_then(&self.name)
            }
            _ => None,
        };
        self.text = named.unwrap_or_else(|| text_of(&value));
    }
    fn begin_array(&mut self, _: &Field, _: usize) {}
    fn end_array(&mut self, _: &Field) {}
    fn begin_struct(&mut self, _: &Field) {}
    fn end_struct(&mut self, _: &Field) {}
}

/// The bits of an integer; of a negative one the lower 32, as in maps.
fn number_of(value: &Value<'_>) -> Option<u64> {
    match value {
        Value::Int(value) => Some(u64::try_from(*value).unwrap_or(u64::from(*value as u32))),
        other => other.as_u64(),
    }
}

fn text_of(value: &Value<'_>) -> String {
    match *value {
        Value::Hex(value) => format!("0x{value:X}"),
        Value::F32(value) => format!("{value:.6}"),
        Value::F64(value) => format!("{value:.6}"),
        Value::Guid(guid) => guid_text(&guid),
        Value::Binary(bytes) => {
            bytes.iter().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02X}"))
        }
        Value::FileTime(time) => time_text(time, value),
        Value::SystemTime(time) => match FileTime::from_system_time(&time) {
            Some(time) => time_text(time, value),
            None => plain(value),
        },
        Value::Text(text) => text.to_str(CodePage::default()).into_owned(),
        Value::Status { value, kind, .. } => status(value as u32, kind),
        _ => plain(value),
    }
}

fn plain(value: &Value<'_>) -> String {
    let mut text = Vec::new();
    value.write_text(&mut text, &Style::default());
    String::from_utf8_lossy(&text).into_owned()
}

fn guid_text(guid: &Guid) -> String {
    format!("{{{}}}", guid.to_string().to_ascii_uppercase())
}

/// With nine digits, as in the XML of events; Windows' form depends on the user's settings.
fn time_text(time: FileTime, value: &Value<'_>) -> String {
    let text = plain(value);
    match time.to_ascii() {
        Some(_) => format!("{}00Z", text.trim_end_matches('Z')),
        None => text,
    }
}

/// Windows has a text for each, which depends on its version; here the number and the constant's name.
fn status(code: u32, kind: StatusKind) -> String {
    if status_name(kind, code).is_some() {
        return status_text(kind, code);
    }
    let what = match kind {
        StatusKind::NtStatus => "NTSTATUS",
        StatusKind::HResult => "HResult",
        _ => "Win32",
    };
    format!("Unknown {what} Error code: 0x{code:08x}")
}
