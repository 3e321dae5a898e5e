//! The text of a message: its format and its arguments.

use super::prefix::{PrefixFacts, short_time};
use super::printf::{Spec, float, integer};
use crate::field::Field;
use crate::status::status_text;
use crate::value::{Style, Value};
use crate::visitor::Visitor;
use etw_tracelogging::StatusKind;
use etw_types::FileTime;
use std::borrow::Cow;
use std::fmt::Write;

/// Bytes of a formatted message, past which the rest is left out: a width can ask for any number of blanks.
const SIZE_LIMIT: usize = 1 << 20;

/// How the text of an argument is made, beyond what its format asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Plain,
    /// A signed number with this many bits.
    Small(u8),
    Pointer,
    Status(StatusKind),
    Timestamp,
    TimeDelta,
    WaitTime,
    Set,
    MacAddress,
    Guid,
    /// Control characters become blanks.
    Tidy,
}

/// The text of a message and its arguments.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WppFormat {
    pub(super) parts: Vec<Part>,
    /// For each field, its number in the text and how it is written.
    pub(super) items: Vec<(usize, Item)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Text(String),
    /// A field, by its index.
    Argument(usize, Spec),
    /// A variable of the prefix that differs from message to message, by its number.
    Fact(u8, Spec),
}

/// Cuts a format at its inserts.
pub(super) fn parts(
    format: &str,
    items: &[(usize, Item)],
    named: impl Fn(&str) -> String,
    component: &str,
    place: &str,
) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = format;
    while let Some(at) = rest.find(['%', '\\']) {
        text.push_str(&rest[..at]);
        let escape = &rest[at..];
        rest = &rest[at + 1..];
        if escape.starts_with('\\') {
            let escaped = escaped(rest);
            text.push(escaped.unwrap_or('\\'));
            rest = if escaped.is_some() { &rest[1..] } else { rest };
            continue;
        }
        let digits = match rest.starts_with('0') {
            // %0 is the prefix, and digits behind it are text: "%0100 of %10!d!".
            true => 1,
            false => rest.bytes().take(3).take_while(u8::is_ascii_digit).count(),
        };
        if digits > 0 {
            let number: usize = rest[..digits].parse().unwrap_or(0);
            rest = &rest[digits..];
            let spec = match rest.strip_prefix('!').and_then(|spec| spec.split_once('!')) {
                Some((spec, behind)) => {
                    rest = behind;
                    Some(Spec::parse(spec))
                }
                None => None,
            };
            let field = items.iter().position(|(index, _)| *index == number && number >= 10);
            let spec = spec.unwrap_or(Spec { conversion: b's', ..Spec::default() });
            let insert = match (number, field) {
                // The prefix stands in columns of its own.
                (0, _) => continue,
                (1, _) => {
                    spec.pad(&mut text, component);
                    continue;
                }
                (2, _) => {
                    spec.pad(&mut text, place);
                    continue;
                }
                (3..=9, _) => Part::Fact(number as u8, spec),
                (_, Some(field)) => Part::Argument(field, spec),
                (_, None) => {
                    // Writing to a String cannot fail.
                    let _ = write!(text, "%{number}");
                    continue;
                }
            };
            parts.push(Part::Text(std::mem::take(&mut text)));
            parts.push(insert);
        } else if let Some((name, behind)) =
            rest.strip_prefix('!').and_then(|rest| rest.split_once('!'))
        {
            rest = behind;
            match name {
                "STDPREFIX" => {}
                _ => match fact(name) {
                    Some(part) => {
                        parts.push(Part::Text(std::mem::take(&mut text)));
                        parts.push(part);
                    }
                    None => text.push_str(&named(name)),
                },
            }
        } else {
            match rest.as_bytes().first() {
                Some(b'%') => text.push('%'),
                Some(b'n') => text.push('\n'),
                _ => {
                    text.push('%');
                    continue;
                }
            }
            rest = &rest[1..];
        }
    }
    text.push_str(rest);
    parts.push(Part::Text(text));
    // Blanks set the text off from the prefix.
    if let Some(Part::Text(first)) = parts.first_mut() {
        let trimmed = first.trim_start().len();
        first.drain(..first.len() - trimmed);
    }
    parts.retain(|part| *part != Part::Text(String::new()));
    parts
}

/// The character that a backslash before `rest` makes of its first one.
fn escaped(rest: &str) -> Option<char> {
    match rest.as_bytes().first()? {
        b'n' => Some('\n'),
        b't' => Some('\t'),
        b'"' => Some('"'),
        b'\\' => Some('\\'),
        _ => None,
    }
}

/// The variable of the prefix that a name stands for, where a preprocessor has left it.
fn fact(name: &str) -> Option<Part> {
    let number = match name {
        "TID" => 3,
        "NOW" => return Some(Part::Fact(4, Spec::parse("s"))),
        "SEQ" => 7,
        "PID" => 8,
        "CPU" => 9,
        _ => return None,
    };
    Some(Part::Fact(number, Spec::parse("x")))
}

impl WppFormat {
    /// A collector of arguments. `facts`: of the record, for variables of the prefix in the text.
    pub fn writer<'f>(
        &'f self,
        style: &'f Style,
        pointer_size: u8,
        facts: PrefixFacts<'f>,
    ) -> WppText<'f> {
        let texts = self.items.iter().map(|_| Vec::new()).collect();
        WppText { format: self, style, pointer_size, facts, place: 0, texts }
    }

    pub fn size(&self) -> usize {
        let parts = self.parts.iter().map(|part| match part {
            Part::Text(text) => text.len(),
            Part::Argument(..) | Part::Fact(..) => 0,
        });
        parts.sum::<usize>() + self.parts.len() * size_of::<Part>() + self.items.len() * 16
    }
}

/// Collects the texts of the arguments as the format asks for them.
pub(crate) struct WppText<'f> {
    format: &'f WppFormat,
    style: &'f Style,
    pointer_size: u8,
    facts: PrefixFacts<'f>,
    place: usize,
    /// For each field, a text for each of its inserts.
    texts: Vec<Vec<String>>,
}

impl WppText<'_> {
    /// The message.
    pub fn finish(self) -> String {
        let mut out = String::new();
        let mut used = vec![0; self.texts.len()];
        for part in &self.format.parts {
            let text = match part {
                Part::Text(text) => Cow::Borrowed(text.as_str()),
                Part::Argument(field, _) => {
                    used[*field] += 1;
                    let text = self.texts[*field].get(used[*field] - 1);
                    Cow::Borrowed(text.map_or("", String::as_str))
                }
                // Without a time, the text says that there is one to know.
                Part::Fact(4, _) if self.facts.time.is_none() => Cow::Borrowed("%4"),
                Part::Fact(number, spec) => {
                    let mut text = String::new();
                    self.facts.put(&mut text, *number, spec);
                    Cow::Owned(text)
                }
            };
            if out.len() + text.len() > SIZE_LIMIT {
                out.push('…');
                break;
            }
            out.push_str(&text);
        }
        out
    }
}

impl Visitor for WppText<'_> {
    fn value(&mut self, _: &Field, value: Value<'_>) {
        let place = self.place;
        self.place += 1;
        let Some((_, item)) = self.format.items.get(place) else { return };
        for part in &self.format.parts {
            if let Part::Argument(field, spec) = part {
                if *field == place {
                    let mut text = String::new();
                    write_argument(&mut text, *item, spec, value, self.style, self.pointer_size);
                    self.texts[place].push(text);
                }
            }
        }
    }

    fn begin_array(&mut self, _: &Field, _: usize) {}
    fn end_array(&mut self, _: &Field) {}
    fn begin_struct(&mut self, _: &Field) {}
    fn end_struct(&mut self, _: &Field) {}
}

fn write_argument(
    out: &mut String,
    item: Item,
    spec: &Spec,
    value: Value<'_>,
    style: &Style,
    pointer_size: u8,
) {
    // The formats of %f ask for a text.
    let is_float = matches!(value, Value::F32(_) | Value::F64(_));
    let spec = &match spec.is_float() {
        false if is_float => Spec { conversion: b'f', ..*spec },
        _ => *spec,
    };
    let number = match value {
        Value::Bool(_) | Value::Mapped { .. } => None,
        value => value.as_integer(),
    };
    let text = match (item, value, number) {
        (Item::Status(kind), _, Some(code))
            if !matches!(spec.conversion, b'x' | b'X' | b'd' | b'u') =>
        {
            status_text(kind, code as u32)
        }
        (Item::Pointer, _, Some(address)) if matches!(spec.conversion, b'p' | b's') => {
            let width = usize::from(pointer_size) * 2;
            format!("{address:0width$X}")
        }
        (Item::Timestamp, Value::FileTime(time), _) => short_time(time),
        (Item::TimeDelta, _, Some(milliseconds)) => {
            let (days, rest) = (milliseconds / 86_400_000, milliseconds % 86_400_000);
            let (hours, minutes) = (rest / 3_600_000, rest / 60_000 % 60);
            format!("{days}~{hours}:{minutes}:{}", rest / 1000 % 60)
        }
        (Item::WaitTime, _, Some(ticks)) if ticks < 0 => format!("{} ms from now", -ticks / 10_000),
        (Item::WaitTime, _, Some(ticks)) => short_time(FileTime(ticks as i64)),
        (Item::Set, Value::Mapped { value, map }, _) => {
            let names = map.entries.iter().filter(|entry| u64::from(entry.0) & value != 0);
            format!("[{}]", names.map(|entry| entry.1.as_str()).collect::<Vec<_>>().join(","))
        }
        (Item::Set, _, Some(_)) => "[]".to_owned(),
        (Item::Guid, Value::Guid(guid), _) => format!("{{{guid}}}"),
        (Item::MacAddress, Value::Binary(bytes), _) => {
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join("-")
        }
        (_, Value::Mapped { value, map }, _) => match map.name_of(value) {
            Some(name) => name.into_owned(),
            None => value.to_string(),
        },
        (_, Value::F32(value), _) => float(f64::from(value), spec),
        (_, Value::F64(value), _) => float(value, spec),
        (Item::Tidy, value, _) => {
            let text = plain(value, style);
            text.replace(['\t', '\r', '\n'], " ").trim().to_owned()
        }
        (Item::Small(bits), _, Some(number)) if spec.bits == 0 => {
            integer(number, value, &Spec { bits, ..*spec })
        }
        (_, _, Some(number)) => integer(number, value, spec),
        (_, value, None) => plain(value, style),
    };
    // A precision cuts texts.
    let text = match spec.precision {
        Some(precision) if number.is_none() && !is_float => text.chars().take(precision).collect(),
        _ => text,
    };
    spec.pad(out, &text);
}

fn plain(value: Value<'_>, style: &Style) -> String {
    let mut out = Vec::new();
    value.write_text(&mut out, style);
    String::from_utf8_lossy(&out).into_owned()
}
