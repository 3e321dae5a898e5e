//! Which events: one expression language for every command.
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
//! `keyword` `pid` `tid` `cpu` `time` `raw_timestamp` `header` `decoded` `message` `activity_id` `related_activity_id` `size`. Every other
//! name is a field of the event, at any depth, in any case; an array has a value if one of its elements has. Texts are those of JSON
//! without their quotes. A test of what an event lacks is false.

use crate::decoder::Decoded;
use crate::schema::Field;
use crate::value::{Style, Value};
use crate::walk::Visitor;
use etw_types::{EventRecord, FileTime, Guid, HeaderType, Level};
use regex_lite::Regex;
use std::fmt;

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExprError {
    /// Bytes from the beginning of the text.
    pub at: usize,
    /// What is wrong there.
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
    fields: Vec<(Vec<String>, Test)>,
}

#[derive(Debug)]
enum Node {
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Number(NumberName, Test),
    Time(Test),
    Provider(Test),
    Guid(GuidName, Test),
    Header(Test),
    Text(TextName, Test),
    Field(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum NumberName {
    Pid,
    Tid,
    Cpu,
    Id,
    Version,
    Level,
    Opcode,
    Channel,
    Task,
    Keyword,
    RawTimestamp,
    Size,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum GuidName {
    Activity,
    Related,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum TextName {
    ProviderName,
    Event,
    Decoded,
    Message,
}

#[derive(Debug)]
enum Test {
    /// It is there, and neither zero nor empty.
    Is,
    Compare(Operator, Literal),
    Bits(i128),
    Like(Vec<char>),
    Matches(Regex),
    In(Vec<(Literal, Option<Literal>)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
enum Literal {
    Number(i128),
    Float(f64),
    Text(String),
    Guid(Guid),
    Bool(bool),
}

/// What is compared with literals.
#[derive(Clone, Copy)]
enum Subject<'s> {
    Number(i128),
    Float(f64),
    Text(&'s str),
    /// A number that has a name.
    Named(i128, &'s str),
    Guid(Guid),
}

impl Operator {
    fn holds(self, ordering: Option<std::cmp::Ordering>) -> bool {
        use std::cmp::Ordering::{Equal, Greater, Less};
        match (self, ordering) {
            (Operator::NotEqual, ordering) => ordering != Some(Equal),
            (_, None) => false,
            (Operator::Equal, Some(ordering)) => ordering == Equal,
            (Operator::Less, Some(ordering)) => ordering == Less,
            (Operator::LessOrEqual, Some(ordering)) => ordering != Greater,
            (Operator::Greater, Some(ordering)) => ordering == Greater,
            (Operator::GreaterOrEqual, Some(ordering)) => ordering != Less,
        }
    }
}

impl Subject<'_> {
    fn compare(&self, literal: &Literal) -> Option<std::cmp::Ordering> {
        match (self, literal) {
            (Subject::Number(a) | Subject::Named(a, _), Literal::Number(b)) => Some(a.cmp(b)),
            (Subject::Number(a) | Subject::Named(a, _), Literal::Float(b)) => {
                (*a as f64).partial_cmp(b)
            }
            (Subject::Number(a) | Subject::Named(a, _), Literal::Bool(b)) => Some((*a != 0).cmp(b)),
            (Subject::Float(a), Literal::Number(b)) => a.partial_cmp(&(*b as f64)),
            (Subject::Float(a), Literal::Float(b)) => a.partial_cmp(b),
            (Subject::Text(a) | Subject::Named(_, a), Literal::Text(b)) => {
                Some((**a).cmp(b.as_str()))
            }
            (Subject::Guid(a), Literal::Guid(b)) => Some(a.0.cmp(&b.0)),
            (Subject::Text(a), Literal::Guid(b)) => {
                Some(a.parse::<Guid>().map_or(std::cmp::Ordering::Less, |a| a.0.cmp(&b.0)))
            }
            (Subject::Text(a), Literal::Number(b)) => {
                // A text that is a number, as addresses are.
                let (digits, radix) = match a.strip_prefix("0x") {
                    Some(digits) => (digits, 16),
                    None => (*a, 10),
                };
                i128::from_str_radix(digits, radix).ok().map(|a| a.cmp(b))
            }
            _ => None,
        }
    }

    fn text<R>(&self, with: impl FnOnce(&str) -> R) -> R {
        match self {
            Subject::Text(text) | Subject::Named(_, text) => with(text),
            Subject::Number(number) => with(&number.to_string()),
            Subject::Float(number) => with(&number.to_string()),
            Subject::Guid(guid) => with(&guid.to_string()),
        }
    }
}

impl Test {
    fn holds(&self, subject: Subject<'_>) -> bool {
        match self {
            Test::Is => match subject {
                Subject::Number(number) | Subject::Named(number, _) => number != 0,
                Subject::Float(number) => number != 0.0,
                Subject::Text(text) => !text.is_empty(),
                Subject::Guid(guid) => !guid.is_zero(),
            },
            Test::Compare(operator, literal) => operator.holds(subject.compare(literal)),
            Test::Bits(bits) => match subject {
                Subject::Number(number) | Subject::Named(number, _) => number & bits != 0,
                _ => false,
            },
            Test::Like(pattern) => subject.text(|text| like(pattern, text)),
            Test::Matches(regex) => subject.text(|text| regex.is_match(text)),
            Test::In(members) => members.iter().any(|(first, last)| {
                let from = subject.compare(first);
                match last {
                    None => from == Some(std::cmp::Ordering::Equal),
                    Some(last) => {
                        Operator::GreaterOrEqual.holds(from)
                            && Operator::LessOrEqual.holds(subject.compare(last))
                    }
                }
            }),
        }
    }
}

/// `*` any characters, `?` one; in any case. Time grows with the product of the lengths at worst.
fn like(pattern: &[char], text: &str) -> bool {
    let text: Vec<char> = text.chars().flat_map(char::to_lowercase).collect();
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// The number of a header; `None` where the record has none.
#[inline(always)]
fn number(name: NumberName, record: &EventRecord<'_>) -> Option<i128> {
    let descriptor = &record.descriptor;
    let is_event = record.header.is_event();
    let is_message = record.header == HeaderType::Message;
    Some(match name {
        NumberName::Pid => record.process_id?.into(),
        NumberName::Tid => record.thread_id?.into(),
        NumberName::Cpu => record.cpu.into(),
        NumberName::Id => (is_event || is_message).then_some(descriptor.id)?.into(),
        NumberName::Version => (!is_message).then_some(descriptor.version)?.into(),
        NumberName::Level => {
            (is_event || record.header.is_classic()).then_some(descriptor.level.0)?.into()
        }
        NumberName::Opcode => (!is_message).then_some(descriptor.opcode.0)?.into(),
        NumberName::Channel => is_event.then_some(descriptor.channel.0)?.into(),
        NumberName::Task => is_event.then_some(descriptor.task)?.into(),
        NumberName::Keyword => is_event.then_some(descriptor.keyword.0)?.into(),
        NumberName::RawTimestamp => record.raw_timestamp()?.into(),
        NumberName::Size => record.payload.len() as i128,
    })
}

impl Expr {
    /// Compiles an expression. `time` reads points in time: 100 ns units since 1601.
    ///
    /// # Errors
    /// What is wrong, and at which character.
    pub fn parse(
        text: &str,
        time: impl Fn(&str) -> Result<FileTime, String>,
    ) -> Result<Expr, ExprError> {
        if text.len() > SIZE_LIMIT {
            return Err(ExprError { at: SIZE_LIMIT, what: "longer than 64 KiB".to_owned() });
        }
        let mut parser = Parser { text, at: 0, depth: 0, fields: Vec::new(), time: &time };
        let root = parser.or()?;
        parser.skip_blank();
        if parser.at < text.len() {
            return parser.error("an operator or the end was expected");
        }
        let needs_time = root.any(&|node| matches!(node, Node::Time(_)));
        Ok(Expr { root, needs_time, fields: parser.fields })
    }

    /// Whether it asks for times.
    #[inline]
    pub fn needs_time(&self) -> bool {
        self.needs_time
    }

    /// Whether it asks for what only schemas tell.
    pub fn needs_schema(&self) -> bool {
        self.root.any(&|node| match node {
            Node::Field(_) | Node::Text(..) => true,
            Node::Provider(test) => !matches!(test, Test::Compare(_, Literal::Guid(_)) | Test::Is),
            _ => false,
        })
    }

    /// Whether a record is wanted, if its header alone tells; `time`: the record's.
    #[inline]
    pub fn by_header(&self, record: &EventRecord<'_>, time: Option<FileTime>) -> Option<bool> {
        self.root.by_header(record, time)
    }

    /// Whether a record is wanted.
    pub fn matches(
        &self,
        record: &EventRecord<'_>,
        decoded: &Decoded<'_>,
        time: Option<FileTime>,
        style: &Style,
    ) -> bool {
        if let Some(known) = self.by_header(record, time) {
            return known;
        }
        let mut found = vec![false; self.fields.len()];
        if !self.fields.is_empty() {
            let mut finder =
                Finder { fields: &self.fields, found: &mut found, path: Vec::new(), style };
            // What does not fit its schema has the fields before the error.
            let _ = decoded.visit(record, &mut finder);
        }
        let context = Context { record, decoded, time, style, found: &found };
        self.root.holds(&context)
    }
}

struct Context<'c> {
    record: &'c EventRecord<'c>,
    decoded: &'c Decoded<'c>,
    time: Option<FileTime>,
    style: &'c Style,
    found: &'c [bool],
}

impl Node {
    fn any(&self, is: &impl Fn(&Node) -> bool) -> bool {
        is(self)
            || match self {
                Node::And(parts) | Node::Or(parts) => parts.iter().any(|part| part.any(is)),
                Node::Not(inner) => inner.any(is),
                _ => false,
            }
    }

    fn by_header(&self, record: &EventRecord<'_>, time: Option<FileTime>) -> Option<bool> {
        match self {
            Node::And(parts) => {
                let mut all = Some(true);
                for part in parts {
                    match part.by_header(record, time) {
                        Some(false) => return Some(false),
                        None => all = None,
                        Some(true) => {}
                    }
                }
                all
            }
            Node::Or(parts) => {
                let mut any = Some(false);
                for part in parts {
                    match part.by_header(record, time) {
                        Some(true) => return Some(true),
                        None => any = None,
                        Some(false) => {}
                    }
                }
                any
            }
            Node::Not(inner) => inner.by_header(record, time).map(|known| !known),
            // The usual test, without what others need.
            Node::Number(name, Test::Compare(operator, Literal::Number(wanted))) => {
                let ordering = number(*name, record).map(|number| number.cmp(wanted));
                Some(ordering.is_some() && operator.holds(ordering))
            }
            Node::Number(name, test) => Some(
                number(*name, record).is_some_and(|number| test.holds(Subject::Number(number))),
            ),
            Node::Time(test) => {
                Some(time.is_some_and(|time| test.holds(Subject::Number(time.0.into()))))
            }
            Node::Guid(name, test) => {
                let id = match name {
                    GuidName::Activity => Some(record.activity_id).filter(|id| !id.is_zero()),
                    GuidName::Related => record.related_activity_id(),
                };
                Some(id.is_some_and(|id| test.holds(Subject::Guid(id))))
            }
            Node::Header(test) => Some(test.holds(Subject::Text(record.header.name()))),
            Node::Provider(test) => match test {
                // A GUID tells by itself, a name only with the schema.
                Test::Compare(_, Literal::Guid(_)) | Test::Is => {
                    Some(provider(record).is_some_and(|guid| test.holds(Subject::Guid(guid))))
                }
                _ => None,
            },
            Node::Text(..) | Node::Field(_) => None,
        }
    }

    fn holds(&self, context: &Context<'_>) -> bool {
        match self {
            Node::And(parts) => parts.iter().all(|part| part.holds(context)),
            Node::Or(parts) => parts.iter().any(|part| part.holds(context)),
            Node::Not(inner) => !inner.holds(context),
            Node::Field(number) => context.found[*number],
            Node::Provider(test) => {
                let guid = provider(context.record);
                let by_guid = guid.map(|guid| test.holds(Subject::Guid(guid)));
                let name = context.decoded.provider_name();
                let by_name = name.as_deref().map(|name| test.holds(Subject::Text(name)));
                match test {
                    // A name is other if every name of it is.
                    Test::Compare(Operator::NotEqual, _) => {
                        by_guid.unwrap_or(true) && by_name.unwrap_or(true)
                    }
                    _ => by_guid == Some(true) || by_name == Some(true),
                }
            }
            Node::Text(name, test) => {
                let text = match name {
                    TextName::ProviderName => context.decoded.provider_name(),
                    TextName::Event => context.decoded.event_name().map(Into::into),
                    TextName::Decoded => {
                        context.decoded.source().map(|source| source.name().into())
                    }
                    TextName::Message => {
                        context.decoded.message(context.record, context.style).map(Into::into)
                    }
                };
                text.is_some_and(|text| test.holds(Subject::Text(&text)))
            }
            known => known.by_header(context.record, context.time).unwrap_or(false),
        }
    }
}

/// The provider as shown: of kernel records their class.
fn provider(record: &EventRecord<'_>) -> Option<Guid> {
    record.provider.or_else(|| record.hook?.class_guid())
}

/// Looks for the fields that are asked about.
struct Finder<'f> {
    fields: &'f [(Vec<String>, Test)],
    found: &'f mut [bool],
    /// Names of the structs that are open, in lower case.
    path: Vec<String>,
    style: &'f Style,
}

impl Finder<'_> {
    fn asks(&self, number: usize, name: &str) -> bool {
        let path = &self.fields[number].0;
        let Some((last, above)) = path.split_last() else { return false };
        name.eq_ignore_ascii_case(last) && self.path.ends_with(above)
    }
}

impl Visitor for Finder<'_> {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        for number in 0..self.fields.len() {
            if self.found[number] || !self.asks(number, &field.name) {
                continue;
            }
            let test = &self.fields[number].1;
            let holds = match value {
                Value::F32(value) => test.holds(Subject::Float(value.into())),
                Value::F64(value) => test.holds(Subject::Float(value)),
                Value::Guid(guid) => test.holds(Subject::Guid(guid)),
                Value::Mapped { value, map } => match map.name_of(value) {
                    Some(name) => test.holds(Subject::Named(value.into(), &name)),
                    None => test.holds(Subject::Number(value.into())),
                },
                value => match value.as_integer() {
                    Some(integer) => test.holds(Subject::Number(integer)),
                    None => {
                        let mut text = Vec::new();
                        value.write_text(&mut text, self.style);
                        test.holds(Subject::Text(&String::from_utf8_lossy(&text)))
                    }
                },
            };
            self.found[number] = holds;
        }
    }

    fn begin_array(&mut self, _: &Field, _: usize) {}
    fn end_array(&mut self, _: &Field) {}

    fn begin_struct(&mut self, field: &Field) {
        self.path.push(field.name.to_ascii_lowercase());
    }

    fn end_struct(&mut self, _: &Field) {
        self.path.pop();
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    fields: Vec<(Vec<String>, Test)>,
    time: &'t dyn Fn(&str) -> Result<FileTime, String>,
}

/// What values a name can be compared with.
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
    fn error<T>(&self, what: impl Into<String>) -> Result<T, ExprError> {
        self.error_at(self.at, what)
    }

    fn error_at<T>(&self, at: usize, what: impl Into<String>) -> Result<T, ExprError> {
        Err(ExprError { at, what: what.into() })
    }

    fn skip_blank(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn take(&mut self, mark: &str) -> bool {
        self.skip_blank();
        let found = self.rest().starts_with(mark);
        if found {
            self.at += mark.len();
        }
        found
    }

    /// A word of the language, in any case.
    fn take_word(&mut self, word: &str) -> bool {
        self.skip_blank();
        let rest = self.rest();
        let found = rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
            && !rest[word.len()..]
                .starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.');
        if found {
            self.at += word.len();
        }
        found
    }

    fn or(&mut self) -> Result<Node, ExprError> {
        let mut parts = vec![self.and()?];
        while self.take("||") || self.take_word("or") {
            parts.push(self.and()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Node::Or(parts) })
    }

    fn and(&mut self) -> Result<Node, ExprError> {
        let mut parts = vec![self.not()?];
        while self.take("&&") || self.take_word("and") {
            parts.push(self.not()?);
        }
        // What the header tells is asked first.
        parts.sort_by_key(|part| matches!(part, Node::Field(_) | Node::Text(..)));
        Ok(if parts.len() == 1 { parts.remove(0) } else { Node::And(parts) })
    }

    fn not(&mut self) -> Result<Node, ExprError> {
        self.skip_blank();
        self.depth += 1;
        if self.depth > DEPTH {
            return self.error("nested too deeply");
        }
        let is_not = !self.rest().starts_with("!=") && (self.take("!") || self.take_word("not"));
        let node = if is_not {
            Node::Not(Box::new(self.not()?))
        } else if self.take("(") {
            let inner = self.or()?;
            if !self.take(")") {
                return self.error("`)` was expected");
            }
            inner
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(node)
    }

    /// A name, in parts.
    fn name(&mut self) -> Result<Vec<String>, ExprError> {
        self.skip_blank();
        let mut parts = Vec::new();
        loop {
            let rest = self.rest();
            if let Some(quoted) = rest.strip_prefix('`') {
                let Some(end) = quoted.find('`') else {
                    return self.error("a name without its end");
                };
                parts.push(quoted[..end].to_owned());
                self.at += end + 2;
            } else {
                let end = rest.find(|c: char| !(c.is_alphanumeric() || "_$#@".contains(c)));
                let word = &rest[..end.unwrap_or(rest.len())];
                if word.is_empty() || word.starts_with(|c: char| c.is_ascii_digit()) {
                    return self.error("a name was expected");
                }
                parts.push(word.to_owned());
                self.at += word.len();
            }
            // A range stands behind a value, not behind a name.
            if !self.rest().starts_with('.') || self.rest().starts_with("..") {
                return Ok(parts);
            }
            self.at += 1;
        }
    }

    fn test(&mut self) -> Result<Node, ExprError> {
        self.skip_blank();
        let start = self.at;
        let mut name = self.name()?;
        let is_field = name.len() > 1 && name[0].eq_ignore_ascii_case("fields");
        if is_field {
            name.remove(0);
        }
        let number = |name: NumberName| (Kind::Number, Some(name));
        let lower = name[0].to_ascii_lowercase();
        let (kind, header) = match lower.as_str() {
            _ if is_field || name.len() > 1 => (Kind::Any, None),
            "pid" => number(NumberName::Pid),
            "tid" => number(NumberName::Tid),
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
            "time" | "timestamp" => (Kind::Time, None),
            "activity_id" | "activity" | "related_activity_id" => (Kind::Guid, None),
            "provider_name" | "event" | "decoded" | "message" | "header" => (Kind::Text, None),
            _ => (Kind::Any, None),
        };
        let is_header = !is_field && name.len() == 1;
        let kind = if is_header && lower == "provider" { Kind::Text } else { kind };
        let test = self.operator(kind, is_header && lower == "provider")?;
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
                _ => {}
            }
        }
        if self.fields.len() >= 1000 {
            return self.error_at(start, "more than 1000 tests of fields");
        }
        if let Some((_, above)) = name.split_last_mut() {
            above.iter_mut().for_each(|part| *part = part.to_ascii_lowercase());
        }
        self.fields.push((name, test));
        Ok(Node::Field(self.fields.len() - 1))
    }

    fn operator(&mut self, kind: Kind, is_provider: bool) -> Result<Test, ExprError> {
        self.skip_blank();
        let at = self.at;
        for (mark, operator) in [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
            ("=", Operator::Equal),
        ] {
            if self.take(mark) {
                return Ok(Test::Compare(operator, self.literal(kind, is_provider)?));
            }
        }
        if !self.rest().starts_with("&&") && self.take("&") {
            if matches!(kind, Kind::Text | Kind::Time | Kind::Guid) {
                return self.error_at(at, "`&` asks for bits of a number");
            }
            return match self.literal(Kind::Number, false)? {
                Literal::Number(bits) => Ok(Test::Bits(bits)),
                _ => self.error_at(at, "`&` asks for bits of a number"),
            };
        }
        let is_like = self.take_word("like");
        if is_like || self.take("~") {
            if matches!(kind, Kind::Number | Kind::Level | Kind::Time) {
                return self.error_at(at, "this is a number: patterns are of texts");
            }
            self.skip_blank();
            let from = self.at;
            let Literal::Text(pattern) = self.literal(Kind::Any, false)? else {
                return self.error_at(from, "a text was expected");
            };
            if is_like {
                return Ok(Test::Like(pattern.chars().flat_map(char::to_lowercase).collect()));
            }
            return match Regex::new(&pattern) {
                Ok(regex) => Ok(Test::Matches(regex)),
                Err(error) => self.error_at(from, format!("no regular expression: {error}")),
            };
        }
        if self.take_word("in") {
            let in_brackets = self.take("(");
            let mut members = Vec::new();
            loop {
                let first = self.literal(kind, is_provider)?;
                let last = match self.take("..") {
                    true => Some(self.literal(kind, is_provider)?),
                    false => None,
                };
                members.push((first, last));
                if !in_brackets {
                    break;
                }
                if self.take(")") {
                    break;
                }
                if !self.take(",") {
                    return self.error("`,` or `)` was expected");
                }
            }
            return Ok(Test::In(members));
        }
        Ok(Test::Is)
    }

    /// A value that the name can be compared with.
    fn literal(&mut self, kind: Kind, is_provider: bool) -> Result<Literal, ExprError> {
        self.skip_blank();
        let at = self.at;
        let literal = match self.any_literal(kind)? {
            // A provider's GUID may stand in quotes.
            Literal::Text(text) if is_provider && text.parse::<Guid>().is_ok() => {
                Literal::Guid(text.parse().unwrap_or_default())
            }
            other => other,
        };
        match (kind, &literal) {
            (Kind::Any, _)
            | (Kind::Number | Kind::Level | Kind::Time, Literal::Number(_) | Literal::Float(_))
            | (Kind::Guid, Literal::Guid(_))
            | (Kind::Text, Literal::Text(_)) => Ok(literal),
            (Kind::Text, Literal::Guid(_)) if is_provider => Ok(literal),
            (Kind::Text, _) => self.error_at(at, "this is a text: give one in quotes"),
            (Kind::Guid, _) => self.error_at(at, "this is a GUID: give one"),
            _ => self.error_at(at, "this is a number: give one"),
        }
    }

    fn any_literal(&mut self, kind: Kind) -> Result<Literal, ExprError> {
        let rest = self.rest();
        let at = self.at;
        if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'')) {
            let mut text = String::new();
            let mut chars = rest.char_indices().skip(1);
            while let Some((index, c)) = chars.next() {
                match c {
                    c if c == quote => {
                        self.at += index + 1;
                        return self.text_literal(kind, text, at);
                    }
                    // Of `\` only what would end the text: patterns keep theirs.
                    '\\' => match chars.clone().next() {
                        Some((_, next)) if next == quote || next == '\\' => {
                            chars.next();
                            text.push(next);
                        }
                        _ => text.push('\\'),
                    },
                    c => text.push(c),
                }
            }
            return self.error("a text without its end");
        }
        if rest.starts_with(['{', '*']) || is_guid(rest) {
            let size = match rest.chars().next() {
                Some('{') => 38,
                Some('*') => rest
                    .find(|c: char| c.is_whitespace() || "(),".contains(c))
                    .unwrap_or(rest.len()),
                _ => 36,
            };
            let Some(word) = rest.get(..size) else { return self.error("no GUID") };
            let guid = match word.strip_prefix('*') {
                Some(name) => Some(Guid::from_name(name)),
                None => word.parse().ok(),
            };
            let Some(guid) = guid else { return self.error("no GUID") };
            self.at += size;
            return Ok(Literal::Guid(guid));
        }
        let end = rest
            .char_indices()
            .find(|(index, c)| {
                !(c.is_alphanumeric() || "_-+:.".contains(*c)) || rest[*index..].starts_with("..")
            })
            .map_or(rest.len(), |(index, _)| index);
        let word = &rest[..end];
        if word.is_empty() {
            return self.error("a value was expected");
        }
        let literal = self.word_literal(kind, word);
        match literal {
            Ok(literal) => {
                self.at += word.len();
                Ok(literal)
            }
            Err(what) => self.error(what),
        }
    }

    fn text_literal(&self, kind: Kind, text: String, at: usize) -> Result<Literal, ExprError> {
        match kind {
            Kind::Time => match (self.time)(&text) {
                Ok(time) => Ok(Literal::Number(time.0.into())),
                Err(what) => self.error_at(at, what),
            },
            Kind::Guid => match text.parse() {
                Ok(guid) => Ok(Literal::Guid(guid)),
                Err(_) => self.error_at(at, "no GUID"),
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
        if digits.starts_with(|c: char| c.is_ascii_digit())
            && let Ok(number) = word.parse::<f64>()
        {
            return Ok(Literal::Float(number));
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
            // Header types and sources are words; other texts are told from names by their quotes.
            (Kind::Text, _) if word.chars().all(|c| c.is_alphanumeric() || c == '_') => {
                Ok(Literal::Text(word.to_owned()))
            }
            (Kind::Level, None) => Err(format!("{word:?} is no level")),
            _ => Err(format!("{word:?} is no value: texts stand in quotes")),
        }
    }
}

/// Whether a GUID stands at the front.
fn is_guid(text: &str) -> bool {
    text.get(..36).is_some_and(|word| word.parse::<Guid>().is_ok())
}

#[cfg(test)]
mod tests;
