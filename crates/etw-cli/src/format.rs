//! Formats of output, and one record in each of them.

mod columns;
mod csv;
mod heads;
mod json;
mod text;
mod view;
mod xml;

pub use crate::safe_text::{is_safe, safe, shown_path};
pub use heads::Heads;
pub use text::{put_escaped, put_value};
pub use view::View;

use crate::join::Names;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use etw_decode::{Decoded, Inserts, Reason, Style, Visited, Visitor, write_int, write_uint};
use etw_types::{Clock, EventRecord, Guid};
use std::borrow::Cow;
use view::Chosen;

/// The format of a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A line for people
    #[default]
    Text,
    /// A JSON object a line
    Json,
    /// tracerpt's columns
    Csv,
    /// tracerpt's elements
    Xml,
}

/// `--format` and `--json` of commands that show text or JSON.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct TextOrJson {
    /// Format of the output
    #[arg(long = "format", value_parser = text_or_json(), default_value = "text", global = true)]
    format: Format,
    /// Short for --format json
    #[arg(long, conflicts_with = "format", global = true)]
    json: bool,
}

impl TextOrJson {
    /// Whether the output is JSON.
    pub fn is_json(self) -> bool {
        self.json || self.format == Format::Json
    }

    /// The format.
    pub fn format(self) -> Format {
        if self.is_json() { Format::Json } else { Format::Text }
    }
}

fn text_or_json() -> impl TypedValueParser<Value = Format> {
    // Some commands print an object a line, others an array.
    let json = PossibleValue::new("json").help("JSON");
    let values = Format::Text.to_possible_value().into_iter().chain([json]);
    PossibleValuesParser::new(values).try_map(|name| Format::from_str(&name, true))
}

/// How records are written.
#[derive(Clone, Debug)]
pub struct Options {
    /// The format.
    pub format: Format,
    /// Payload and place of every record, not only of those that are not decoded.
    pub raw: bool,
    /// Numbers and encodings.
    pub style: Style,
    /// Names for `--join`.
    pub names: Option<std::sync::Arc<Names>>,
    /// Times, colours, fields and columns.
    pub view: View,
}

/// Facts of a record's file.
#[derive(Clone, Copy, Debug)]
pub struct FileFacts {
    /// The clock of raw timestamps.
    pub clock: Clock,
    /// 100 ns units of CPU times.
    pub timer_resolution: u32,
}

impl Options {
    /// The options of commands that have none but the format.
    pub fn of(format: Format) -> Options {
        Options { format, raw: false, style: Style::default(), names: None, view: View::default() }
    }

    /// The text before the first record.
    pub fn prologue(&self) -> String {
        if !self.view.columns.is_empty() {
            return columns::heading(self.format, &self.view.columns);
        }
        let text = match self.format {
            Format::Csv => csv::PROLOGUE,
            Format::Xml => xml::PROLOGUE,
            Format::Text | Format::Json => "",
        };
        text.to_owned()
    }

    /// How messages are written, which may name the time of their record.
    fn message_style(&self, file: &FileFacts) -> Style {
        Style { clock: Some(file.clock), ..self.style }
    }

    /// Visits the fields that are shown, as far as the payload goes.
    fn visit<'p>(
        &self,
        record: &EventRecord<'p>,
        decoded: &Decoded<'_>,
        visitor: &mut impl Visitor,
    ) -> Option<Visited<'p>> {
        match self.view.fields.is_empty() {
            true => decoded.visit_part(record, visitor),
            false => decoded.visit_part(record, &mut Chosen::new(visitor, &self.view)),
        }
    }

    /// Begins to gather the message of a record whose fields are visited next. Returns whether the message needs them.
    fn start_message(
        &self,
        inserts: &mut Inserts,
        record: &EventRecord<'_>,
        decoded: &Decoded<'_>,
    ) -> bool {
        match self.view.fields.is_empty() {
            true => inserts.start(record, decoded),
            // A message is made of all fields.
            false => inserts.start_none(),
        }
    }

    /// The text behind the last record.
    pub fn epilogue(&self) -> &'static str {
        if self.format == Format::Xml { xml::EPILOGUE } else { "" }
    }

    /// Appends one record. `heads`: of the thread that formats, for these options alone.
    pub fn write(
        &self,
        heads: &mut Heads,
        out: &mut Vec<u8>,
        record: &EventRecord<'_>,
        decoded: &Decoded<'_>,
        file: &FileFacts,
    ) {
        if !self.view.columns.is_empty() {
            return columns::write(self, &self.view.columns, out, record, decoded, file);
        }
        match self.format {
            Format::Json => json::write(self, heads, out, record, decoded, file),
            Format::Text => text::write(self, heads, out, record, decoded, file),
            Format::Csv => csv::write(self, heads, out, record, decoded, file),
            Format::Xml => xml::write(self, heads, out, record, decoded, file),
        }
    }
}

/// Why the record is shown undecoded. `visited`: its fields, if there is a schema.
fn failure_text<'d>(decoded: &Decoded<'d>, visited: Option<&Visited<'_>>) -> Option<Cow<'d, str>> {
    match visited {
        Some(visited) => visited.failure().map(Reason::text),
        None => decoded.reason_text(),
    }
}

/// Whether an event is of a class: of the kernel, or of a program that writes classic events.
fn is_classic(record: &EventRecord<'_>) -> bool {
    record.header.is_classic() || record.hook.is_some()
}

/// The text of a GUID, which is zero for most events' activity.
fn guid_text(guid: &Guid) -> [u8; 36] {
    match guid.is_zero() {
        true => *b"00000000-0000-0000-0000-000000000000",
        false => guid.to_ascii(),
    }
}

/// A decimal number.
#[inline]
fn put_number(out: &mut Vec<u8>, value: impl Number) {
    value.put(out);
}

/// An integer that is written as a decimal number.
trait Number {
    fn put(self, out: &mut Vec<u8>);
}

macro_rules! numbers {
    ($write:path: $($integer:ty),+) => {
        $(impl Number for $integer {
            #[inline]
            fn put(self, out: &mut Vec<u8>) {
                $write(out, self.into());
            }
        })+
    };
}

numbers!(write_uint: u8, u16, u32, u64);
numbers!(write_int: i64);

/// Two digits a byte.
fn put_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    // A value of bytes is written as its hex digits.
    etw_decode::Value::Binary(bytes).write_text(out, &Style::default());
}

/// `0x` and sixteen digits.
fn put_hex16(out: &mut Vec<u8>, value: u64) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = *b"0x0000000000000000";
    for (at, digit) in text[2..].iter_mut().enumerate() {
        *digit = DIGITS[(value >> (60 - 4 * at) & 15) as usize];
    }
    out.extend_from_slice(&text);
}
