//! [`Cell`]: the value of a column, in the forms of text, CSV and JSON.

use crate::format::{is_safe, put_escaped};
use etw_decode::{Style, Value, write_json_string};

/// The form of values that have another one in JSON than in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As in lines of text.
    Text,
    /// As in JSON.
    Json,
}

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// An integer, a floating-point number, or true or false.
    Scalar(Value<'static>),
    /// A text as it is, and every other value that JSON has in quotes.
    Text(String),
    /// JSON of another value.
    Json(String),
    /// All values of an array or a struct, in a row's form.
    Many {
        shown: String,
        /// The numbers among them, if they are summed.
        numbers: Vec<Value<'static>>,
    },
}

impl Cell {
    /// A value in the form of a row.
    pub(super) fn of(value: Value<'_>, form: Form, style: &Style) -> Cell {
        if let Some(scalar) = scalar(value) {
            return Cell::Scalar(scalar);
        }
        let mut out = Vec::new();
        let is_json = form == Form::Json;
        match value {
            Value::Null | Value::Status { .. } | Value::Mapped { .. } | Value::Custom { .. }
                if is_json =>
            {
                value.write_json(&mut out, style);
                Cell::Json(into_text(out))
            }
            _ => {
                value.write_text(&mut out, style);
                Cell::Text(into_text(out))
            }
        }
    }

    /// The cell without the numbers that a sum needs.
    pub fn without_numbers(self) -> Cell {
        match self {
            Cell::Many { shown, .. } => Cell::Many { shown, numbers: Vec::new() },
            other => other,
        }
    }

    /// The text of a line or of a table's cell, without characters that break it.
    pub fn to_text(&self) -> String {
        let mut out = Vec::new();
        self.put_text(&mut out);
        into_text(out)
    }

    /// Appends that text.
    pub fn put_text(&self, out: &mut Vec<u8>) {
        match self {
            Cell::Text(text) => put_shown(out, text),
            other => other.put_plain(out),
        }
    }

    /// Appends the text with all its characters.
    pub fn put_plain(&self, out: &mut Vec<u8>) {
        match self {
            Cell::Scalar(value) => value.write_text(out, &Style::default()),
            Cell::Text(text) | Cell::Json(text) | Cell::Many { shown: text, .. } => {
                out.extend_from_slice(text.as_bytes());
            }
        }
    }

    /// Appends the value as JSON, if the row's form is that.
    pub fn put_json(&self, out: &mut Vec<u8>, style: &Style) {
        match self {
            Cell::Scalar(value) => value.write_json(out, style),
            Cell::Text(text) => write_json_string(out, text),
            Cell::Json(json) | Cell::Many { shown: json, .. } => {
                out.extend_from_slice(json.as_bytes());
            }
        }
    }
}

/// The value, if it is one of [`Cell::Scalar`].
pub(super) fn scalar(value: Value<'_>) -> Option<Value<'static>> {
    Some(match value {
        Value::Int(value) => Value::Int(value),
        Value::UInt(value) => Value::UInt(value),
        Value::Hex(value) => Value::Hex(value),
        Value::Bool(value) => Value::Bool(value),
        Value::F32(value) => Value::F32(value),
        Value::F64(value) => Value::F64(value),
        _ => return None,
    })
}

pub(super) fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Appends a text of the trace: as it is, or in quotes and with escapes, as a line of text has it, if characters of it break lines or if it
/// begins with a quote.
pub fn put_shown(out: &mut Vec<u8>, text: &str) {
    match is_safe(text) && !text.starts_with('"') {
        true => out.extend_from_slice(text.as_bytes()),
        false => put_escaped(out, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_break_lines_stand_in_quotes() {
        for (text, expected) in [
            ("", ""),
            (r"C:\new", r"C:\new"),
            ("grün €", "grün €"),
            ("a\tb\n\"c\"\\", r#""a\tb\n\"c\"\\""#),
            ("\u{1b}[31m\u{7f}\u{9b}", r#""\u001b[31m\u007f\u009b""#),
            ("user\u{202e}txt", r#""user\u202etxt""#),
            ("\"a\"", r#""\"a\"""#),
        ] {
            assert_eq!(Cell::Text(text.to_owned()).to_text(), expected);
        }
    }

    #[test]
    fn scalars_have_the_form_of_the_usual_output() {
        let style = Style { json_strings64: true, ..Style::default() };
        for (value, text, json) in [
            (Value::F32(0.1), "0.1", "0.1"),
            (Value::F64(f64::NEG_INFINITY), "-Infinity", "\"-Infinity\""),
            (Value::F32(f32::NAN), "NaN", "\"NaN\""),
            (Value::UInt(u64::MAX), "18446744073709551615", "\"18446744073709551615\""),
            (Value::Hex(10), "0xa", "\"0xa\""),
            (Value::Bool(true), "true", "true"),
        ] {
            let cell = Cell::of(value, Form::Json, &style);
            let mut out = Vec::new();
            cell.put_json(&mut out, &style);
            assert_eq!((&*cell.to_text(), &*into_text(out)), (text, json));
        }
    }
}
