//! The outputs of message text files: header, resource script, message tables.

use std::fmt::Write;

use super::{Item, Language, Message, MessageText, Named, Options};
use crate::messages;

impl MessageText {
    /// The header for C and C++: constants of facilities and severities, and of each message with its text as a comment.
    pub fn header(&self, options: &Options) -> String {
        let mut out = String::new();
        let mut has_names = false;
        for item in &self.items {
            match item {
                Item::Comment(line) => line_of(&mut out, line),
                Item::Message(message) => {
                    if !std::mem::replace(&mut has_names, true) {
                        self.names(&mut out, options);
                    }
                    self.message(&mut out, message, options);
                }
            }
        }
        out
    }

    fn names(&self, out: &mut String, options: &Options) {
        line_of(out, "//");
        line_of(
            out,
            "// An id has 32 bits: severity (31, 30), customer (29), reserved (28), facility (27 to 16), code (15 to 0).",
        );
        line_of(out, "//");
        for (what, names) in [("facilities", &self.facilities), ("severities", &self.severities)] {
            let with_symbol = |one: &Named| Some((one.symbol.clone()?, one.value));
            for (number, (symbol, value)) in names.iter().filter_map(with_symbol).enumerate() {
                if number == 0 {
                    line_of(out, "");
                    line_of(out, &format!("// Codes of {what}"));
                }
                line_of(
                    out,
                    &match options.has_decimal_names {
                        true => format!("#define {symbol:<32} {value}"),
                        false => format!("#define {symbol:<32} {value:#x}"),
                    },
                );
            }
        }
        line_of(out, "");
    }

    fn message(&self, out: &mut String, message: &Message, options: &Options) {
        let Message { symbol, typedef, texts, .. } = message;
        let id = self.id(message, options);
        line_of(out, "//");
        line_of(
            out,
            &format!("// MessageId: {}", if symbol.is_empty() { "(no name)" } else { symbol }),
        );
        line_of(out, "//");
        line_of(out, "// MessageText:");
        line_of(out, "//");
        for line in texts.values().next().into_iter().flat_map(|text| text.lines.lines()) {
            // A backslash at its end would continue the comment.
            let line = line.trim_end_matches('\\');
            line_of(out, format!("// {line}").trim_end());
        }
        line_of(out, "//");
        if !symbol.is_empty() {
            let number = if message.is_decimal { format!("{id}L") } else { format!("0x{id:08X}L") };
            line_of(
                out,
                &match typedef.is_empty() {
                    true => format!("#define {symbol:<32} {number}"),
                    false => format!("#define {symbol:<32} (({typedef}){number})"),
                },
            );
        }
        line_of(out, "");
    }

    fn id(&self, message: &Message, options: &Options) -> u32 {
        message.id | u32::from(options.is_customer) << 29
    }

    /// The resource script. `file`: the name of a language's table.
    pub fn script(&self, file: impl Fn(&Language) -> String) -> String {
        let mut out = String::new();
        for language in self.languages() {
            let (primary, sub) = (language.id & 0x3ff, language.id >> 10);
            line_of(&mut out, &format!("LANGUAGE {primary:#x},{sub:#x}"));
            line_of(&mut out, &format!("1 11 \"{}\"", file(language)));
        }
        out
    }

    /// The message table of a language.
    pub fn table(&self, language: &Language, options: &Options) -> Vec<u8> {
        let index = self.languages.iter().position(|one| one == language);
        let mut texts: Vec<(u32, &str)> = self
            .messages()
            .filter_map(|one| Some((self.id(one, options), one.texts.get(&index?)?.text())))
            .collect();
        texts.sort_by_key(|(id, _)| *id);
        let end = if options.ends_with_nul { "" } else { "\r\n" };
        messages::blocks(texts.into_iter(), end)
    }
}

fn line_of(out: &mut String, line: &str) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{line}\r\n");
}
