//! TMF and TMC: the texts from which readers decode messages.

use crate::config::{Config, Function};
use crate::message::{Facts, Message};
use std::fmt::Write;

/// The formats of a source's messages, a line each.
pub fn lines(messages: &[Message], config: &Config, facts: &Facts<'_>, guid: &str) -> Vec<String> {
    let mut lines = vec![head(facts.component, facts.file, guid)];
    lines.extend(messages.iter().flat_map(|message| message_lines(message, config, facts)));
    lines
}

/// Formats for the program's section.
pub struct Block {
    /// Flag of `PUBLIC_FILTER`: where `WPP_PUBLIC_flag` is defined, `public` takes the place of `lines`.
    pub flag: String,
    pub lines: Vec<String>,
    pub public: Vec<String>,
}

/// The formats of a source's messages for the program's section. A message with a `PUBLIC_FILTER` has a block of its own, which names no
/// file, line or expression where the program asks for public formats.
pub fn blocks(messages: &[Message], config: &Config, facts: &Facts<'_>, guid: &str) -> Vec<Block> {
    let flag = |message: &&Message| config.functions[message.function].public_flag.clone();
    let unfiltered: Vec<&Message> = messages.iter().filter(|one| flag(one).is_none()).collect();
    let head_of = |file| head(facts.component, file, guid);
    let mut blocks = Vec::new();
    if !unfiltered.is_empty() {
        let mut lines = vec![head_of(facts.file)];
        lines.extend(unfiltered.iter().flat_map(|message| message_lines(message, config, facts)));
        blocks.push(Block { flag: String::new(), lines, public: Vec::new() });
    }
    for (message, flag) in messages.iter().filter_map(|one| Some((one, flag(&one)?))) {
        let mut lines = vec![head_of(facts.file)];
        lines.extend(message_lines(message, config, facts));
        let mut public = vec![head_of(UNKNOWN)];
        let trailer = pairs(message, &config.functions[message.function]);
        public.extend(format_of(message, UNKNOWN, &trailer, |_| "Arg".to_owned()));
        blocks.push(Block { flag, lines, public });
    }
    blocks
}

/// The name of a file, and of a line, that public formats do not show.
const UNKNOWN: &str = "Unknown_cxx00";

fn head(component: &str, file: &str, guid: &str) -> String {
    format!("{guid} {component} // SRC={file} MJ= MN=")
}

fn message_lines(message: &Message, config: &Config, facts: &Facts<'_>) -> Vec<String> {
    let trailer = trailer(message, &config.functions[message.function]);
    let place = place(facts.file, message.call.line);
    format_of(message, &place, &trailer, |expression| expression.replace(',', "."))
}

/// The lines of one message.
fn format_of(
    message: &Message,
    place: &str,
    trailer: &str,
    shown: impl Fn(&str) -> String,
) -> Vec<String> {
    let text = line_text(&message.text);
    let number = message.number;
    let mut lines = vec![format!("#typev {place} {number} \"{text}\" //   {trailer}")];
    lines.push("{".to_owned());
    for argument in &message.arguments {
        let item = &argument.kind.item;
        let expression = shown(&argument.expression);
        lines.push(format!("{expression}, {item} -- {}", argument.number));
    }
    lines.push("}".to_owned());
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
