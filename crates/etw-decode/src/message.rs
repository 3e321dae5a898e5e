//! Message texts with inserts, in the syntax of message tables.

use crate::block_text::BlockText;
use crate::text::{Escape, write_json_text};
use crate::value::write_uint;
use std::fmt::Write;

/// A message text: `%1` stands for the first field, `%n` for a line break, `%%` for a percent sign.
///
/// Syntax as documented for FormatMessage; of `%1!fmt!` the format is dropped, as in event messages. Inserts that do
/// not exist, and `%%1` (a parameter of a message table), are left as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    template: Box<str>,
    parts: Vec<Part>,
    has_inserts: bool,
    /// See [`inserts`](Message::inserts).
    inserts: u64,
}

/// Bytes of a formatted message, past which inserts are left out: a short template can name a long field often.
pub(crate) const SIZE_LIMIT: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Fixed),
    /// Number of a top-level field, from 1.
    Insert(usize),
}

/// A text between inserts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fixed {
    text: String,
    /// As in a JSON string, if that is another one or short.
    json: Option<BlockText>,
}

impl Fixed {
    fn new(text: String) -> Fixed {
        let mut json = Vec::new();
        write_json_text(&mut json, text.as_bytes());
        let is_kept = json != text.as_bytes() || BlockText::is_block(&json);
        Fixed { text, json: is_kept.then(|| BlockText::new(&json)) }
    }

    fn size(&self) -> usize {
        self.text.len() + self.json.as_ref().map_or(0, |json| json.len())
    }
}

impl Message {
    /// Reads a template. Trailing line breaks and spaces, which message tables add, are dropped.
    pub fn parse(template: &str) -> Message {
        let mut parser = Parser { parts: Vec::new(), text: String::new() };
        let template = template.trim_end();
        let mut rest = template;
        while let Some(at) = rest.find('%') {
            parser.text.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            match parser.escape(rest) {
                Some(taken) => rest = &rest[taken..],
                None => {
                    rest = "";
                    break;
                }
            }
        }
        parser.text.push_str(rest);
        parser.flush();
        let parts = parser.parts;
        let has_inserts = parts.iter().any(|part| matches!(part, Part::Insert(_)));
        let inserts = parts.iter().fold(0, |bits, part| match part {
            Part::Insert(number @ 1..=64) => bits | 1 << (number - 1),
            _ => bits,
        });
        Message { template: template.into(), parts, has_inserts, inserts }
    }

    /// The text as it was read.
    pub fn template(&self) -> &str {
        &self.template
    }

    /// Approximate bytes of memory it takes.
    pub(crate) fn size(&self) -> usize {
        let texts = self.parts.iter().map(|part| match part {
            Part::Text(text) => text.size(),
            Part::Insert(_) => 0,
        });
        self.template.len() + self.parts.len() * size_of::<Part>() + texts.sum::<usize>()
    }

    /// How many texts and inserts it has.
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Whether it needs the event's fields.
    pub fn has_inserts(&self) -> bool {
        self.has_inserts
    }

    /// One bit for each of the event's first 64 fields: whether it is an insert.
    pub(crate) fn inserts(&self) -> u64 {
        self.inserts
    }

    /// The text with its inserts; `field` gives the text of the event's top-level field with a number from 0.
    ///
    /// Inserts that would make it longer than a mebibyte become `…`.
    pub fn format<T: AsRef<str>>(&self, field: impl Fn(usize) -> Option<T>) -> String {
        self.format_sized(0, field)
    }

    /// As [`format`](Message::format), with the length of all inserts together, as far as it is known.
    pub(crate) fn format_sized<T: AsRef<str>>(
        &self,
        inserts_len: usize,
        field: impl Fn(usize) -> Option<T>,
    ) -> String {
        let mut out = String::with_capacity(self.template.len() + inserts_len);
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(&text.text),
                Part::Insert(number) => match field(number - 1) {
                    Some(text) if out.len() + text.as_ref().len() > SIZE_LIMIT => out.push('…'),
                    Some(text) => out.push_str(text.as_ref()),
                    // Writing to a String cannot fail.
                    None => drop(write!(out, "%{number}")),
                },
            }
        }
        out
    }

    /// Appends the text, escaped; `insert` appends the escaped text of the event's top-level field with a number from 0, and returns
    /// whether there is one.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        escape: Escape,
        insert: impl Fn(&mut Vec<u8>, usize) -> bool,
    ) {
        for part in &self.parts {
            match (part, escape) {
                (Part::Text(text), Escape::Json) => match &text.json {
                    Some(json) => json.put(out),
                    None => out.extend_from_slice(text.text.as_bytes()),
                },
                (Part::Text(text), Escape::With(escape)) => escape(out, &text.text),
                (Part::Insert(number), _) => {
                    if !insert(out, number - 1) {
                        out.push(b'%');
                        write_uint(out, *number as u64);
                    }
                }
            }
        }
    }
}

struct Parser {
    parts: Vec<Part>,
    text: String,
}

impl Parser {
    fn flush(&mut self) {
        if !self.text.is_empty() {
            self.parts.push(Part::Text(Fixed::new(std::mem::take(&mut self.text))));
        }
    }

    /// Reads the escape behind a percent sign: returns the bytes it takes, or `None` if the message ends there.
    fn escape(&mut self, rest: &str) -> Option<usize> {
        let bytes = rest.as_bytes();
        let digits = bytes.iter().take(2).take_while(|byte| byte.is_ascii_digit()).count();
        match bytes.first() {
            Some(b'0') if digits == 1 => return None,
            Some(b'1'..=b'9') => {
                let number = rest[..digits].parse().unwrap_or(0);
                self.flush();
                self.parts.push(Part::Insert(number));
                return Some(digits + format_length(&rest[digits..]));
            }
            Some(b'%') if bytes.get(1).is_some_and(u8::is_ascii_digit) => {
                self.text.push_str("%%");
                return Some(1);
            }
            _ => {}
        }
        if rest.starts_with("space") {
            self.text.push(' ');
            return Some(5);
        }
        let (text, taken) = match bytes.first() {
            Some(b'%') => ("%", 1),
            Some(b'n') => ("\n", 1),
            Some(b'r') => ("\r", 1),
            Some(b't') => ("\t", 1),
            Some(b'b') => (" ", 1),
            Some(b'.') => (".", 1),
            Some(b'!') => ("!", 1),
            _ => ("%", 0),
        };
        self.text.push_str(text);
        Some(taken)
    }
}

/// Length of `!fmt!` at the front.
fn format_length(rest: &str) -> usize {
    match rest.strip_prefix('!').and_then(|format| format.find('!')) {
        Some(end) if end > 0 && !rest[1..=end].contains(char::is_whitespace) => end + 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malicious_repeats_of_a_long_field() {
        let message = Message::parse(&"%1".repeat(20_000));
        let text = message.format(|_| Some("x".repeat(60_000)));
        assert!(text.len() < SIZE_LIMIT + 60_000);
        assert!(text.ends_with('…'));
    }

    #[test]
    fn a_message_takes_inserts_and_escapes() {
        let fields: Vec<String> = (1..=12).map(|n| format!("<{n}>")).collect();
        for (template, expected) in [
            ("Interface: %1 has %2!s!. ", "Interface: <1> has <2>."),
            ("%10%11 %1!d! %2! really", "<10><11> <1> <2>! really"),
            ("100%% %n%t%bx%.%!%space|%r", "100% \n\t x.! |\r"),
            ("cut%0 here", "cut"),
            ("%99 %%1 %q %", "%99 %%1 %q %"),
            ("line\r\n", "line"),
        ] {
            assert_eq!(
                Message::parse(template).format(|at| fields.get(at)),
                expected,
                "{template}"
            );
        }
    }
}
