//! Message text files (`.mc`): messages with ids, severities and texts in one or more languages.
//!
//! ```text
//! SeverityNames=(Error=0x3:STATUS_SEVERITY_ERROR)      the header section, optional
//! ; a line for the header
//! MessageId=0x100 Severity=Error SymbolicName=MSG_BAD  a message
//! Language=English
//! You have chosen an incorrect command.
//! .                                                    the end of the text
//! ```
//!
//! An id is `severity << 30 | customer << 29 | facility << 16 | code`. Statements and defaults are those that Microsoft documents for
//! `mc`. Two defaults are those of files that it made: facility 0, and English as 0x409 (`pgmsgevent.rc` of PostgreSQL).

use std::collections::{BTreeMap, BTreeSet};

use crate::Severity;
use crate::diagnostic::{Diagnostic, LIMIT};
use crate::manifest::Place;
use crate::messages::{MAX_TEXT, too_long};

mod output;

/// Options of the outputs.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Set the customer bit of all ids.
    pub is_customer: bool,
    /// Write facilities and severities in decimal.
    pub has_decimal_names: bool,
    /// End texts with NUL alone, not with a line end.
    pub ends_with_nul: bool,
}

/// A language and its message table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Language {
    /// The name that messages use.
    pub name: String,
    /// The language's id: primary in the low ten bits, then the sub language.
    pub id: u16,
    /// The table's file name without extension.
    pub file: String,
}

/// A facility or a severity.
#[derive(Clone, Debug)]
struct Named {
    name: String,
    value: u32,
    /// The constant of the header.
    symbol: Option<String>,
}

#[derive(Clone, Debug)]
struct Message {
    symbol: String,
    /// Without the customer bit.
    id: u32,
    is_decimal: bool,
    typedef: String,
    /// By the index of the language.
    texts: BTreeMap<usize, Text>,
}

/// A message in one language.
#[derive(Clone, Debug)]
struct Text {
    /// Line of its `Language`, from 1.
    line: u32,
    /// Each line with its end; the end of the last belongs to the message table.
    lines: String,
}

impl Text {
    /// The text without the end of its last line.
    fn text(&self) -> &str {
        self.lines.strip_suffix("\r\n").unwrap_or(&self.lines)
    }
}

/// A part of the header, in the order of the file.
#[derive(Clone, Debug)]
enum Item {
    Comment(String),
    Message(Message),
}

/// A parsed message text file.
#[derive(Clone, Debug)]
pub struct MessageText {
    severities: Vec<Named>,
    facilities: Vec<Named>,
    languages: Vec<Language>,
    items: Vec<Item>,
    /// Warnings.
    pub warnings: Vec<Diagnostic>,
}

impl MessageText {
    /// Parses a file: UTF-8 or UTF-16 with a byte order mark; otherwise UTF-8, or Windows-1252 if it is none.
    ///
    /// # Errors
    /// Everything that is wrong, with its line.
    pub fn parse(bytes: &[u8]) -> Result<MessageText, Vec<Diagnostic>> {
        let text = decode(bytes);
        let mut parser = Parser::new(&text);
        parser.read();
        let Parser { mut file, problems, .. } = parser;
        if problems.iter().any(|one| one.severity == Severity::Error) {
            return Err(problems);
        }
        file.warnings = problems;
        Ok(file)
    }

    /// A warning of each text that has more UTF-16 units than `most`, without the end of its last line: `-m` of mc.
    pub fn longer_than(&self, most: usize) -> Vec<Diagnostic> {
        let texts = self.messages().flat_map(|message| message.texts.values());
        let place = |text: &Text| Place { line: text.line, column: 1 };
        texts.filter_map(|text| too_long("the text", text.text(), most, place(text))).collect()
    }

    fn messages(&self) -> impl Iterator<Item = &Message> {
        self.items.iter().filter_map(|item| match item {
            Item::Message(message) => Some(message),
            Item::Comment(_) => None,
        })
    }

    /// The languages in which there are messages, in the order of the file.
    pub fn languages(&self) -> impl Iterator<Item = &Language> {
        let used: BTreeSet<usize> =
            self.messages().flat_map(|one| one.texts.keys().copied()).collect();
        self.languages
            .iter()
            .enumerate()
            .filter(move |(index, _)| used.contains(index))
            .map(|(_, one)| one)
    }
}

/// The number of a line with this index.
fn line_number(index: usize) -> u32 {
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}

fn decode(bytes: &[u8]) -> String {
    let units = |of: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes[2..].chunks_exact(2).map(|two| of([two[0], two[1]])).collect();
        String::from_utf16_lossy(&units)
    };
    match bytes {
        [0xff, 0xfe, ..] => units(u16::from_le_bytes),
        [0xfe, 0xff, ..] => units(u16::from_be_bytes),
        _ => {
            let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
            match std::str::from_utf8(bytes) {
                Ok(text) => text.to_owned(),
                // Bytes 0x80 to 0x9f are control characters in both readings that programs' texts use.
                Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
            }
        }
    }
}

struct Parser<'t> {
    lines: Vec<&'t str>,
    /// Index of the current line, and the rest of it.
    line: usize,
    rest: &'t str,
    file: MessageText,
    problems: Vec<Diagnostic>,
    typedef: String,
    is_decimal: bool,
    severity: u32,
    facility: u32,
    /// The last code of each facility.
    codes: BTreeMap<u32, u32>,
    current: Option<Definition>,
    symbols: BTreeSet<String>,
    ids: BTreeSet<u32>,
    /// Languages in which there were texts.
    used: BTreeSet<usize>,
}

/// A message under construction: its id is known when its first text begins.
#[derive(Default)]
struct Definition {
    code: Code,
    symbol: String,
    is_decimal: Option<bool>,
    texts: BTreeMap<usize, Text>,
    line: usize,
}

#[derive(Clone, Copy, Default)]
enum Code {
    #[default]
    Next,
    After(u32),
    Is(u32),
}

fn named(list: &[(&str, u32)]) -> Vec<Named> {
    let one = |(name, value): &(&str, u32)| Named {
        name: (*name).to_owned(),
        value: *value,
        symbol: None,
    };
    list.iter().map(one).collect()
}

fn number(text: &str) -> Option<u32> {
    let lower = text.to_ascii_lowercase();
    match lower.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => lower.parse().ok(),
    }
}

fn is_identifier(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|one| one.is_ascii_alphanumeric() || one == '_')
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Parser<'t> {
        let lines: Vec<&str> = text.lines().collect();
        Parser {
            rest: lines.first().copied().unwrap_or_default(),
            lines,
            line: 0,
            file: MessageText {
                severities: named(&[
                    ("Success", 0),
                    ("Informational", 1),
                    ("Warning", 2),
                    ("Error", 3),
                ]),
                facilities: named(&[("System", 0xff), ("Application", 0xfff)]),
                languages: vec![Language {
                    name: "English".to_owned(),
                    id: 0x409,
                    file: "MSG00001".to_owned(),
                }],
                items: Vec::new(),
                warnings: Vec::new(),
            },
            problems: Vec::new(),
            typedef: String::new(),
            is_decimal: false,
            severity: 0,
            facility: 0,
            codes: BTreeMap::new(),
            current: None,
            symbols: BTreeSet::new(),
            ids: BTreeSet::new(),
            used: BTreeSet::new(),
        }
    }

    fn error(&mut self, message: impl Into<String>) {
        self.problem(Severity::Error, self.line, message.into());
    }

    fn problem(&mut self, severity: Severity, line: usize, message: String) {
        if self.problems.len() < LIMIT {
            let line = line_number(line);
            self.problems.push(Diagnostic { severity, line, column: 1, message });
        }
    }

    fn next_line(&mut self) -> bool {
        self.line += 1;
        self.rest = self.lines.get(self.line).copied().unwrap_or_default();
        self.line < self.lines.len()
    }

    fn read(&mut self) {
        while self.line < self.lines.len() {
            if let Some(comment) = self.lines[self.line].strip_prefix(';') {
                self.finish_message();
                self.file.items.push(Item::Comment(comment.to_owned()));
                self.next_line();
                continue;
            }
            self.rest = self.rest.trim_start();
            if self.rest.is_empty() {
                self.next_line();
                continue;
            }
            self.statement();
        }
        self.finish_message();
    }

    /// `NAME=value`, `NAME=(…)`, or `Language=NAME` with the text behind it.
    fn statement(&mut self) {
        let Some((name, rest)) = self.rest.split_once('=').map(|(name, rest)| (name.trim(), rest))
        else {
            self.error(format!(
                "{:?} is not a statement; a text begins behind Language=NAME and ends with a line that is a dot",
                shortened(self.rest)
            ));
            self.next_line();
            return;
        };
        if !is_identifier(name) {
            self.error(format!("{:?} is not the name of a statement", shortened(name)));
            self.next_line();
            return;
        }
        self.rest = rest.trim_start();
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "severitynames" | "facilitynames" | "languagenames" => self.names(&lower),
            "messageid" => {
                self.finish_message();
                let word = self.word();
                let code = match (word.strip_prefix('+'), word) {
                    (_, "") => Some(Code::Next),
                    (Some(more), _) => number(more).map(Code::After),
                    (None, word) => number(word).map(Code::Is),
                };
                if code.is_none() {
                    self.error(format!(
                        "MessageId={:?} is not a number; 16 bits, or +N",
                        shortened(word)
                    ));
                }
                let code = code.unwrap_or_default();
                self.current = Some(Definition { code, line: self.line, ..Definition::default() });
            }
            "severity" | "facility" => self.choose(&lower),
            "symbolicname" => {
                let word = self.word();
                if !is_identifier(word) {
                    self.error(format!("SymbolicName={:?} is not a name in C", shortened(word)));
                } else if !self.symbols.insert(word.to_owned()) {
                    self.error(format!(
                        "two messages have SymbolicName={word}; give one another name"
                    ));
                }
                match &mut self.current {
                    Some(current) => current.symbol = word.to_owned(),
                    None => self.error("SymbolicName stands before MessageId"),
                }
            }
            "outputbase" => {
                let is_decimal = match self.word() {
                    "10" => true,
                    "16" => false,
                    _ => return self.error("OutputBase is 10 or 16"),
                };
                match &mut self.current {
                    Some(current) => current.is_decimal = Some(is_decimal),
                    None => self.is_decimal = is_decimal,
                }
            }
            "messageidtypedef" => {
                let word = self.word();
                if word.is_empty() || is_identifier(word) {
                    self.typedef = word.to_owned();
                } else {
                    self.error(format!(
                        "MessageIdTypedef={:?} is not the name of a type",
                        shortened(word)
                    ));
                }
            }
            "messageidtypedefmacro" => drop(self.word()),
            "language" => self.text(),
            _ => {
                self.error(format!(
                    "{:?} is not a statement of message text files",
                    shortened(name)
                ));
                self.next_line();
            }
        }
    }

    /// The word behind the equals sign. An empty value is followed by the next statement.
    fn word(&mut self) -> &'t str {
        let end = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        if word.contains('=') {
            return "";
        }
        self.rest = rest;
        word
    }

    fn choose(&mut self, list: &str) {
        let word = self.word();
        let names = if list == "severity" { &self.file.severities } else { &self.file.facilities };
        let found = names.iter().find(|one| one.name.eq_ignore_ascii_case(word));
        match found.map(|one| one.value) {
            Some(value) if list == "severity" => self.severity = value,
            Some(value) => self.facility = value,
            None => {
                let known: Vec<&str> = names.iter().map(|one| one.name.as_str()).collect();
                let known = known.join(", ");
                self.error(format!("{list} {:?} is not among {known}", shortened(word)));
            }
        }
    }

    /// `(NAME=NUMBER[:SYMBOL] …)`, which may go over several lines.
    fn names(&mut self, list: &str) {
        let Some(rest) = self.rest.strip_prefix('(') else {
            return self.error("names stand in parentheses: (NAME=NUMBER:SYMBOL …)");
        };
        self.rest = rest;
        let first = self.line;
        let mut words = String::new();
        loop {
            if let Some((inside, behind)) = self.rest.split_once(')') {
                words.push_str(inside);
                self.rest = behind;
                break;
            }
            words.push_str(self.rest);
            words.push(' ');
            if !self.next_line() {
                let text = "the parenthesis of these names is not closed".to_owned();
                return self.problem(Severity::Error, first, text);
            }
        }
        // Spaces around the equals sign are allowed.
        let words = words.replace('=', " = ");
        let mut words = words.split_whitespace();
        while let Some(name) = words.next() {
            let value = words.next().filter(|word| *word == "=").and_then(|_| words.next());
            let (value, symbol) = match value.map(|text| text.split_once(':').unwrap_or((text, "")))
            {
                Some((value, symbol)) => (number(value), symbol),
                None => (None, ""),
            };
            let (most, what) = match list {
                "severitynames" => (3, "a severity"),
                "facilitynames" => (0xfff, "a facility"),
                _ => (0xffff, "a language"),
            };
            let Some(value) = value.filter(|value| *value <= most) else {
                self.error(format!(
                    "{:?} needs NAME=NUMBER, at most {most:#x} for {what}",
                    shortened(name)
                ));
                continue;
            };
            self.add_name(list, name, value, symbol);
        }
    }

    fn add_name(&mut self, list: &str, name: &str, value: u32, symbol: &str) {
        if list == "languagenames" {
            let is_file = |one: char| one.is_ascii_alphanumeric() || matches!(one, '_' | '-');
            if symbol.is_empty() || !symbol.chars().all(is_file) {
                let shown = shortened(symbol);
                return self.error(format!(
                    "language {name}: {shown:?} is not a file name (letters, digits, _ and -)"
                ));
            }
            let id = value as u16;
            let language = Language { name: name.to_owned(), id, file: symbol.to_owned() };
            let known = &mut self.file.languages;
            match known.iter_mut().find(|one| one.name.eq_ignore_ascii_case(name)) {
                Some(one) => *one = language,
                None => known.push(language),
            }
            return;
        }
        if !symbol.is_empty() && !is_identifier(symbol) {
            return self.error(format!("{:?} is not a name in C", shortened(symbol)));
        }
        let symbol = Some(symbol.to_owned()).filter(|symbol| !symbol.is_empty());
        let one = Named { name: name.to_owned(), value, symbol };
        let known = if list == "severitynames" {
            &mut self.file.severities
        } else {
            &mut self.file.facilities
        };
        match known.iter_mut().find(|one| one.name.eq_ignore_ascii_case(name)) {
            Some(before) => *before = one,
            None => known.push(one),
        }
    }

    /// The text in one language, up to a line that is a dot.
    fn text(&mut self) {
        let word = self.word();
        let known = self.file.languages.iter().position(|one| one.name.eq_ignore_ascii_case(word));
        if known.is_none() {
            self.error(format!("language {:?} is not in LanguageNames", shortened(word)));
        }
        let first = self.line;
        let mut lines = String::new();
        loop {
            if !self.next_line() {
                return self.problem(
                    Severity::Error,
                    first,
                    "the text behind this line has no end: a line that is a dot".to_owned(),
                );
            }
            if self.rest.trim_end() == "." {
                self.next_line();
                break;
            }
            lines.push_str(self.rest);
            lines.push_str("\r\n");
        }
        let text = Text { line: line_number(first), lines };
        if text.text().encode_utf16().count() > MAX_TEXT {
            let message = format!("the text has more than the {MAX_TEXT} characters of a message");
            return self.problem(Severity::Error, first, message);
        }
        let Some(current) = &mut self.current else {
            return self.problem(
                Severity::Error,
                first,
                "Language stands before MessageId".to_owned(),
            );
        };
        let is_second = known.is_some_and(|index| current.texts.insert(index, text).is_some());
        if is_second {
            self.problem(Severity::Error, first, format!("a second text in {word}"));
        }
    }

    fn finish_message(&mut self) {
        let Some(current) = self.current.take() else { return };
        let last = self.codes.get(&self.facility).copied();
        let code = match current.code {
            Code::Is(code) => Some(code),
            Code::Next => Some(last.map_or(0, |last| last + 1)),
            Code::After(more) => last.unwrap_or(0).checked_add(more),
        };
        let Some(code) = code.filter(|code| *code <= 0xffff) else {
            return self.problem(
                Severity::Error,
                current.line,
                "an id has at most 16 bits".to_owned(),
            );
        };
        self.codes.insert(self.facility, code);
        let id = self.severity << 30 | self.facility << 16 | code;
        if current.texts.is_empty() {
            let text = "the message has no text; Language=NAME begins one".to_owned();
            self.problem(Severity::Error, current.line, text);
        }
        if !self.ids.insert(id) {
            self.problem(Severity::Error, current.line, format!("two messages have id {id:#010x}"));
        }
        if let Some(index) = self.used.iter().find(|index| !current.texts.contains_key(index)) {
            let text = format!("the message has no text in {}", self.file.languages[*index].name);
            self.problem(Severity::Warning, current.line, text);
        }
        self.used.extend(current.texts.keys());
        self.file.items.push(Item::Message(Message {
            symbol: current.symbol,
            id,
            is_decimal: current.is_decimal.unwrap_or(self.is_decimal),
            typedef: self.typedef.clone(),
            texts: current.texts,
        }));
    }
}

/// The beginning of hostile text, for a message.
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}
