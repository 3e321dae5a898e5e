//! The grammar: from text to a tree.

use super::comparison::{Literal, Operator, Test};
use super::lexer::Lexer;
use super::node::{GuidName, Node, NumberName, TextName};
use super::pattern::with_all_cases;
use super::{DEPTH, ExprError, FieldTest};
use etw_types::{FileTime, Guid, Level, fold_case};
use regex_lite::Regex;
use std::sync::atomic::AtomicBool;

/// Builds the tree of an expression.
pub(super) struct Parser<'t> {
    pub lexer: Lexer<'t>,
    depth: usize,
    /// Tests of fields.
    pub fields: Vec<FieldTest>,
    /// Names of header values, in lower case.
    pub headers: Vec<String>,
    time: &'t dyn Fn(&str) -> Result<FileTime, String>,
}

/// The kind of values that a name can be compared with.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Number,
    Level,
    Time,
    Guid,
    Text,
    /// Known only with the event.
    Any,
}

impl<'t> Parser<'t> {
    pub fn new(text: &'t str, time: &'t dyn Fn(&str) -> Result<FileTime, String>) -> Parser<'t> {
        Parser {
            lexer: Lexer { text, at: 0 },
            depth: 0,
            fields: Vec::new(),
            headers: Vec::new(),
            time,
        }
    }

    pub fn or(&mut self) -> Result<Node, ExprError> {
        let mut parts = vec![self.and()?];
        while self.lexer.take("||") || self.lexer.take_word("or") {
            parts.push(self.and()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Node::Or(parts) })
    }

    fn and(&mut self) -> Result<Node, ExprError> {
        let mut parts = vec![self.not()?];
        while self.lexer.take("&&") || self.lexer.take_word("and") {
            parts.push(self.not()?);
        }
        // Tests of the header come first: they are cheap.
        parts.sort_by_key(|part| matches!(part, Node::Field(_) | Node::Text(..)));
        Ok(if parts.len() == 1 { parts.remove(0) } else { Node::And(parts) })
    }

    fn not(&mut self) -> Result<Node, ExprError> {
        self.lexer.skip_blank();
        self.depth += 1;
        if self.depth > DEPTH {
            return self.lexer.error("nested too deeply");
        }
        let is_not = !self.lexer.rest().starts_with("!=")
            && (self.lexer.take("!") || self.lexer.take_word("not"));
        let node = if is_not {
            Node::Not(Box::new(self.not()?))
        } else if self.lexer.take("(") {
            let inner = self.or()?;
            if !self.lexer.take(")") {
                return self.lexer.error("`)` was expected");
            }
            inner
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn test(&mut self) -> Result<Node, ExprError> {
        self.lexer.skip_blank();
        let start = self.lexer.at;
        let mut name = self.lexer.name()?;
        let is_field = name.len() > 1 && name[0].eq_ignore_ascii_case("fields");
        if is_field {
            name.remove(0);
        }
        let number = |name: NumberName| (Kind::Number, Some(name));
        let mut lower = name[0].to_ascii_lowercase();
        // The header's own ids are its members.
        if !is_field && lower == "header" && name.len() == 2 {
            let member = format!("header.{}", name[1].to_ascii_lowercase());
            if matches!(member.as_str(), "header.pid" | "header.tid") {
                name.truncate(1);
                lower = member;
            }
        }
        let (kind, header) = match lower.as_str() {
            _ if is_field || name.len() > 1 => (Kind::Any, None),
            "pid" => number(NumberName::Pid),
            "tid" => number(NumberName::Tid),
            "header.pid" => number(NumberName::HeaderPid),
            "header.tid" => number(NumberName::HeaderTid),
            "cpu" => number(NumberName::Cpu),
            "id" => number(NumberName::Id),
            "version" => number(NumberName::Version),
            "level" => (Kind::Level, Some(NumberName::Level)),
            "opcode" => number(NumberName::Opcode),
            "channel" => number(NumberName::Channel),
            "task" => number(NumberName::Task),
            "keyword" => number(NumberName::Keyword),
            "raw_timestamp" => number(NumberName::RawTimestamp),
            "size" => number(NumberName::Size),
            "record_id" => number(NumberName::RecordId),
            "time" | "timestamp" => (Kind::Time, None),
            "activity_id" | "activity" | "related_activity_id" => (Kind::Guid, None),
            "provider_name" | "event" | "decoded" | "message" | "header" | "channel_name" => {
                (Kind::Text, None)
            }
            _ => (Kind::Any, None),
        };
        let is_header = !is_field && name.len() == 1;
        if is_header && lower == "process" {
            let test = self.operator(Kind::Any, false)?;
            self.headers.push(lower);
            return Ok(Node::Process(test));
        }
        let kind = if is_header && lower == "provider" { Kind::Text } else { kind };
        let test = self.operator(kind, is_header && lower == "provider")?;
        if is_header && kind != Kind::Any {
            self.headers.push(lower.clone());
        }
        if let Some(name) = header {
            return Ok(Node::Number(name, test));
        }
        if is_header {
            match lower.as_str() {
                "time" | "timestamp" => return Ok(Node::Time(test)),
                "provider" => return Ok(Node::Provider(test)),
                "header" => return Ok(Node::Header(test)),
                "activity_id" | "activity" => return Ok(Node::Guid(GuidName::Activity, test)),
                "related_activity_id" => return Ok(Node::Guid(GuidName::Related, test)),
                "provider_name" => return Ok(Node::Text(TextName::ProviderName, test)),
                "event" => return Ok(Node::Text(TextName::Event, test)),
                "decoded" => return Ok(Node::Text(TextName::Decoded, test)),
                "message" => return Ok(Node::Text(TextName::Message, test)),
                "channel_name" => return Ok(Node::Text(TextName::ChannelName, test)),
                _ => {}
            }
        }
        if self.fields.len() >= 1000 {
            return self.lexer.error_at(start, "more than 1000 tests of fields");
        }
        let written = name.join(".");
        let is_numbered = name.last().is_some_and(|name| name.contains('#'));
        let is_of_file = is_header && matches!(lower.as_str(), "file" | "file_name");
        if let Some((_, above)) = name.split_last_mut() {
            above.iter_mut().for_each(|part| *part = part.to_ascii_lowercase());
        }
        let was_found = AtomicBool::new(false);
        let path = name;
        self.fields.push(FieldTest {
            name: written,
            path,
            is_numbered,
            is_of_file,
            test,
            was_found,
        });
        Ok(Node::Field(self.fields.len() - 1))
    }

    fn operator(&mut self, kind: Kind, is_provider: bool) -> Result<Test, ExprError> {
        self.lexer.skip_blank();
        let at = self.lexer.at;
        for (mark, operator) in [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
            ("=", Operator::Equal),
        ] {
            if self.lexer.take(mark) {
                return Ok(Test::Compare(operator, self.literal(kind, is_provider)?));
            }
        }
        if !self.lexer.rest().starts_with("&&") && self.lexer.take("&") {
            if matches!(kind, Kind::Text | Kind::Time | Kind::Guid) {
                return self.lexer.error_at(at, "`&` asks for bits of a number");
            }
            return match self.literal(Kind::Number, false)? {
                Literal::Number(bits) => Ok(Test::Bits(bits)),
                _ => self.lexer.error_at(at, "`&` asks for bits of a number"),
            };
        }
        let is_like = self.lexer.take_word("like");
        if is_like || self.lexer.take("~") {
            if matches!(kind, Kind::Number | Kind::Level | Kind::Time) {
                return self.lexer.error_at(at, "this is a number: patterns are of texts");
            }
            self.lexer.skip_blank();
            let from = self.lexer.at;
            let Literal::Text(pattern) = self.literal(Kind::Any, false)? else {
                return self.lexer.error_at(from, "a text was expected");
            };
            if is_like {
                return Ok(Test::Like(pattern.chars().map(fold_case).collect()));
            }
            let regex = with_all_cases(&pattern)
                .and_then(|pattern| Regex::new(&pattern).map_err(|error| error.to_string()));
            return match regex {
                Ok(regex) => Ok(Test::Matches(regex)),
                Err(error) => self.lexer.error_at(from, format!("no regular expression: {error}")),
            };
        }
        if self.lexer.take_word("in") {
            let in_brackets = self.lexer.take("(");
            let mut members = Vec::new();
            loop {
                let first = self.literal(kind, is_provider)?;
                let last = match self.lexer.take("..") {
                    true => Some(self.literal(kind, is_provider)?),
                    false => None,
                };
                members.push((first, last));
                if !in_brackets {
                    break;
                }
                if self.lexer.take(")") {
                    break;
                }
                if !self.lexer.take(",") {
                    return self.lexer.error("`,` or `)` was expected");
                }
            }
            return Ok(Test::In(members));
        }
        Ok(Test::Is)
    }

    /// A value that the name can be compared with.
    fn literal(&mut self, kind: Kind, is_provider: bool) -> Result<Literal, ExprError> {
        self.lexer.skip_blank();
        let at = self.lexer.at;
        let literal = match self.any_literal(kind)? {
            // A provider's GUID may stand in quotes.
            Literal::Text(text) if is_provider && text.parse::<Guid>().is_ok() => {
                Literal::Guid(text.parse().unwrap_or_default())
            }
            other => other,
        };
        match (kind, &literal) {
            (Kind::Any, _)
            | (Kind::Number | Kind::Level | Kind::Time, Literal::Number(_) | Literal::Float(..))
            | (Kind::Guid, Literal::Guid(_))
            | (Kind::Text, Literal::Text(_)) => Ok(literal),
            (Kind::Text, Literal::Guid(_)) if is_provider => Ok(literal),
            (Kind::Text, _) => self.lexer.error_at(at, "this is a text: give one in quotes"),
            (Kind::Guid, _) => self.lexer.error_at(at, "this is a GUID: give one"),
            _ => self.lexer.error_at(at, "this is a number: give one"),
        }
    }

    fn any_literal(&mut self, kind: Kind) -> Result<Literal, ExprError> {
        let at = self.lexer.at;
        if let Some(text) = self.lexer.quoted()? {
            return self.text_literal(kind, text, at);
        }
        if let Some(guid) = self.lexer.guid()? {
            return Ok(Literal::Guid(guid));
        }
        let word = self.lexer.value_word();
        if word.is_empty() {
            return self.lexer.error("a value was expected");
        }
        match self.word_literal(kind, word) {
            Ok(literal) => {
                self.lexer.at += word.len();
                Ok(literal)
            }
            Err(what) => self.lexer.error(what),
        }
    }

    fn text_literal(&self, kind: Kind, text: String, at: usize) -> Result<Literal, ExprError> {
        match kind {
            Kind::Time => match (self.time)(&text) {
                Ok(time) => Ok(Literal::Number(time.0.into())),
                Err(what) => self.lexer.error_at(at, what),
            },
            Kind::Guid => match text.parse() {
                Ok(guid) => Ok(Literal::Guid(guid)),
                Err(_) => self.lexer.error_at(at, "no GUID"),
            },
            _ => Ok(Literal::Text(text)),
        }
    }

    fn word_literal(&self, kind: Kind, word: &str) -> Result<Literal, String> {
        if kind == Kind::Time {
            return (self.time)(word).map(|time| Literal::Number(time.0.into()));
        }
        let (negative, digits) = match word.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, word),
        };
        let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(hex) => i128::from_str_radix(hex, 16).ok(),
            None => digits
                .parse::<i128>()
                .ok()
                .filter(|_| digits.starts_with(|c: char| c.is_ascii_digit())),
        };
        if let Some(number) = number {
            return Ok(Literal::Number(if negative { -number } else { number }));
        }
        if digits.starts_with(|c: char| c.is_ascii_digit()) {
            if let (Ok(double), Ok(single)) = (word.parse(), word.parse()) {
                return Ok(Literal::Float(double, single));
            }
        }
        let level = match word.to_ascii_lowercase().as_str() {
            "critical" => Some(Level::CRITICAL),
            "error" => Some(Level::ERROR),
            "warning" => Some(Level::WARNING),
            "info" | "information" | "informational" => Some(Level::INFO),
            "verbose" => Some(Level::VERBOSE),
            "true" => return Ok(Literal::Bool(true)),
            "false" => return Ok(Literal::Bool(false)),
            _ => None,
        };
        match (kind, level) {
            (Kind::Level, Some(level)) => Ok(Literal::Number(level.0.into())),
            // Header types and sources are words; other texts are distinguished from names by quotes.
            (Kind::Text, _) if word.chars().all(|c| c.is_alphanumeric() || c == '_') => {
                Ok(Literal::Text(word.to_owned()))
            }
            (Kind::Level, None) => Err(format!("{word:?} is not a level")),
            _ => Err(format!("{word:?} is not a value: texts stand in quotes")),
        }
    }
}
