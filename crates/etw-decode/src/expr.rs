//! Expressions that select events: one language for every command.
//!
//! ```text
//! provider == "Microsoft-Windows-Kernel-Process" and event like "ProcessStart*" and ImageName ~ "(?i)notepad"
//! level <= warning or keyword & 0x10
//! pid in (4, 100..200) and not (Status == 0) and time >= +1.5s
//! ```
//!
//! ```text
//! or      := and { ("or" | "||") and }
//! and     := not { ("and" | "&&") not }
//! not     := ("not" | "!") not | "(" or ")" | test
//! test    := name [ operator value | "in" set ]          a name alone: the event has it, and it is neither zero nor empty
//! operator:= "==" | "=" | "!=" | "<" | "<=" | ">" | ">="
//!          | "&" a bit of it is set | "like" with * and ?, in any case | "~" regular expression
//! set     := "(" member { "," member } ")" | member ; member := value [ ".." value ], ends included
//! name    := word { "." word } | "fields." name | `any characters`
//! value   := number | 0xhex | "text" | 'text' | GUID | true | false | level | header type | time
//! ```
//!
//! Names of every record: `provider` (a GUID or a name) `provider_name` `event` `id` `version` `level` `opcode` `channel` `task`
//! `keyword` `process` (an id, or a name where it is known) `pid` `tid` `cpu` `time` `raw_timestamp` `header` `decoded` `message`
//! `activity_id` `related_activity_id` `size`. `file` (also `file_name`) is the event's file where it is known, else a field. Every other name is a field of the event, at any depth, in any case; an array has a value if one of its elements has. Texts are those of JSON
//! without their quotes. Case is ignored as [`fold_case`](etw_types::fold_case) does, in names for ASCII letters. A number is compared in the
//! precision of the field: 0.1 is a single that is shown so. A test of what an event lacks is false.

mod comparison;
mod lexer;
mod node;
mod parser;
mod pattern;

use crate::decoded::Decoded;
use crate::value::Style;
use comparison::{Literal, Subject, Test};
use etw_types::{EventRecord, FileTime};
use node::{Context, Finder, Node, TextName};
use parser::Parser;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why a text is not an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExprError {
    /// Bytes from the start of the text.
    pub at: usize,
    /// The mistake.
    pub what: String,
}

impl fmt::Display for ExprError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at character {}: {}", self.at + 1, self.what)
    }
}

impl std::error::Error for ExprError {}

/// Deeper than anyone writes, shallow enough for the stack.
const DEPTH: usize = 100;
/// Bytes of a text.
const SIZE_LIMIT: usize = 64 << 10;

/// A compiled expression.
#[derive(Debug)]
pub struct Expr {
    root: Node,
    needs_time: bool,
    /// Tests of fields, by number.
    fields: Vec<FieldTest>,
    /// Names of header values, in lower case.
    headers: Vec<String>,
}

/// A test of a field.
#[derive(Debug)]
struct FieldTest {
    /// The path as it was written.
    name: String,
    /// Names of the structs around it, in lower case, then its own.
    path: Vec<String>,
    /// It may be the second field of a name, or one behind that: `Id#2`.
    is_numbered: bool,
    /// If the event's file is known, the test is of that: `file`, `file_name`.
    is_of_file: bool,
    test: Test,
    /// Whether a record had such a field.
    was_found: AtomicBool,
}

/// A record, with the process and thread to which its event belongs.
#[derive(Clone, Copy, Debug)]
pub struct Owned<'r> {
    /// With the ids of the owner in place of the stored ones: those of `pid`, `tid` and `process`.
    pub record: &'r EventRecord<'r>,
    /// As it is stored: `header.pid` and `header.tid`.
    pub stored: &'r EventRecord<'r>,
    /// The name of the process, which `process` can be compared with, too.
    pub process_name: Option<&'r str>,
    /// The event's file, for `file` and `file_name`.
    pub file: Option<&'r str>,
}

impl<'r> Owned<'r> {
    /// A record whose owner is the one that its header stores.
    pub fn stored(record: &'r EventRecord<'r>) -> Owned<'r> {
        Owned { record, stored: record, process_name: None, file: None }
    }

    fn process_id(self) -> Option<u32> {
        self.record.process_id.or(self.stored.process_id.filter(is_no_id))
    }

    fn thread_id(self) -> Option<u32> {
        self.record.thread_id.or(self.stored.thread_id.filter(is_no_id))
    }
}

/// Whether a stored id stands for none. It is compared as it is, whether a command looks for owners or not.
fn is_no_id(id: &u32) -> bool {
    *id == u32::MAX
}

/// Names in an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExprNames {
    /// Fields, with a dot between their parts.
    pub fields: Vec<String>,
    /// Fields that no record had for which the expression was evaluated.
    pub missing_fields: Vec<String>,
    /// Header values, in lower case.
    pub headers: Vec<String>,
    /// Names of providers.
    pub providers: Vec<String>,
}

impl Expr {
    /// Compiles an expression. `time` reads points in time: 100 ns units since 1601.
    ///
    /// # Errors
    /// [`ExprError`]: the mistake, and at which character it is.
    pub fn parse(
        text: &str,
        time: impl Fn(&str) -> Result<FileTime, String>,
    ) -> Result<Expr, ExprError> {
        if text.len() > SIZE_LIMIT {
            return Err(ExprError { at: SIZE_LIMIT, what: "longer than 64 KiB".to_owned() });
        }
        let mut parser = Parser::new(text, &time);
        let root = parser.or()?;
        parser.lexer.skip_blank();
        if parser.lexer.at < text.len() {
            return parser.lexer.error("an operator or the end was expected");
        }
        let needs_time = root.any(&|node| matches!(node, Node::Time(_)));
        Ok(Expr { root, needs_time, fields: parser.fields, headers: parser.headers })
    }

    /// The names in the expression.
    pub fn names(&self) -> ExprNames {
        let mut names = ExprNames { headers: self.headers.clone(), ..ExprNames::default() };
        for field in &self.fields {
            if !field.was_found.load(Ordering::Relaxed) {
                names.missing_fields.push(field.name.clone());
            }
            names.fields.push(field.name.clone());
        }
        self.root.put_providers(&mut names.providers);
        names
    }

    /// Whether a field of the expression was in no record for which the expression was evaluated.
    #[inline]
    pub fn misses_fields(&self) -> bool {
        self.fields.iter().any(|field| !field.was_found.load(Ordering::Relaxed))
    }

    /// Whether a test is of the event's file.
    pub fn tests_file(&self) -> bool {
        self.fields.iter().any(|field| field.is_of_file)
    }

    /// Whether a test needs the time of the record.
    #[inline]
    pub fn needs_time(&self) -> bool {
        self.needs_time
    }

    /// Whether a test needs the names of processes: one of their ids alone does not.
    pub fn names_processes(&self) -> bool {
        self.root.any(&|node| matches!(node, Node::Process(test) if test.needs_name()))
    }

    /// Whether a test needs the name of the provider.
    pub fn names_providers(&self) -> bool {
        self.root.any(&|node| match node {
            Node::Text(TextName::ProviderName, _) => true,
            Node::Provider(test) => !matches!(test, Test::Compare(_, Literal::Guid(_)) | Test::Is),
            _ => false,
        })
    }

    /// Whether a test needs the schema of the record.
    pub fn needs_schema(&self) -> bool {
        self.root.any(&|node| matches!(node, Node::Field(_) | Node::Text(..)))
            || self.names_providers()
    }

    /// Whether a record matches, if its header alone decides. `time`: the time of the record.
    #[inline]
    pub fn by_header(&self, record: &EventRecord<'_>, time: Option<FileTime>) -> Option<bool> {
        self.root.by_header(Owned::stored(record), time)
    }

    /// As [`by_header`](Expr::by_header) for a record with the process and thread to which its event belongs.
    pub fn by_owned_header(&self, owned: Owned<'_>, time: Option<FileTime>) -> Option<bool> {
        self.root.by_header(owned, time)
    }

    /// Whether a record matches.
    pub fn matches(
        &self,
        record: &EventRecord<'_>,
        decoded: &Decoded<'_>,
        time: Option<FileTime>,
        style: &Style,
    ) -> bool {
        self.matches_owned(Owned::stored(record), decoded, time, style)
    }

    /// As [`matches`](Expr::matches) for a record with the process and thread to which its event belongs.
    pub fn matches_owned(
        &self,
        owned: Owned<'_>,
        decoded: &Decoded<'_>,
        time: Option<FileTime>,
        style: &Style,
    ) -> bool {
        if let Some(known) = self.root.by_header(owned, time) {
            return known;
        }
        let mut found = vec![false; self.fields.len()];
        if !self.fields.is_empty() {
            let mut finder =
                Finder { fields: &self.fields, found: &mut found, path: Vec::new(), style };
            // A payload that does not fit its schema still has the fields before the error.
            let _ = decoded.visit(owned.record, &mut finder);
        }
        if let Some(file) = owned.file {
            for (field, found) in self.fields.iter().zip(&mut found) {
                if field.is_of_file {
                    field.was_found.store(true, Ordering::Relaxed);
                    *found = field.test.holds(Subject::Text(file));
                }
            }
        }
        let context = Context { owned, decoded, time, style, found: &found };
        self.root.holds(&context)
    }
}

#[cfg(test)]
mod tests;
