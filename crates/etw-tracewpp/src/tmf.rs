//! TMF and TMC: the texts from which readers decode messages.

use crate::config::{Config, Function};
use crate::message::{Facts, Message};
use std::fmt::Write;

/// The formats of a source's messages, a line each.
pub fn lines(messages: &[Message], config: &Config, facts: &Facts<'_>, guid: &str) -> Vec<String> {
    let mut lines = vec![format!("{guid} {} // SRC={} MJ= MN=", facts.component, facts.file)];
    for message in messages {
        let function = &config.functions[message.function];
        let trailer = trailer(message, function);
        let place = place(facts.file, message.call.line);
        let text = line_text(&message.text);
        let number = message.number;
        lines.push(format!("#typev {place} {number} \"{text}\" //   {trailer}"));
        lines.push("{".to_owned());
        for argument in &message.arguments {
            let expression = argument.expression.replace(',', ".");
            let item = &argument.kind.item;
            lines.push(format!("{expression}, {item} -- {}", argument.number));
        }
        lines.push("}".to_owned());
    }
    lines
}

/// `LEVEL=… FLAGS=… FUNC=…`
fn trailer(message: &Message, function: &Function) -> String {
    let mut trailer = pairs(message, function);
    if let Some(name) = &message.call.enclosing {
        let separator = if trailer.is_empty() { "" } else { " " };
        // Writing to a String cannot fail.
        let _ = write!(trailer, "{separator}FUNC={name}");
    }
    trailer
}

/// `LEVEL=… FLAGS=…`
pub fn pairs(message: &Message, function: &Function) -> String {
    let pairs = message.named(function).map(|(key, value)| format!("{key}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}

/// The source's name, its last dot replaced, and the line.
fn place(file: &str, line: u32) -> String {
    let name = match file.rsplit_once('.') {
        Some((stem, extension)) => format!("{stem}_{extension}"),
        None => file.to_owned(),
    };
    // Words of a TMF line have no blanks.
    format!("{}{line}", name.replace(char::is_whitespace, "_"))
}

/// A text between the quotes of a TMF line. Quotes stand for themselves, as in the files of Windows' tools.
fn line_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // Readers take these pairs for escapes.
            '\\' if matches!(rest.peek(), Some('n' | 't' | '"' | '\\' | '\n' | '\t') | None) => {
                out.push_str("\\\\");
            }
            control if control.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

/// A text as a part of a string literal in C.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if control.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

/// The names of a provider and its flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGuid {
    pub guid: String,
    pub name: String,
    pub flags: Vec<String>,
}

impl ControlGuid {
    /// The text of its TMC file.
    pub fn tmc(&self) -> String {
        let mut text = format!("{} {}\n", self.guid, self.name);
        for flag in &self.flags {
            text.push_str(flag);
            text.push('\n');
        }
        text
    }
}
