//! The configuration language: functions, prefixes, types and options, in `.ini` files and between `begin_wpp config` and
//! `end_wpp` in comments of sources.
//!
//! A statement is written like a call, `NAME(arguments);`. `#` starts a comment. A name that is no command declares a trace function.
//! Source: Microsoft's documentation of the WPP preprocessor.

use crate::diagnostic::{Diagnostic, shown};
use crate::types::{Form, Type, Types};
use std::collections::HashMap;

/// Bytes of one configuration; the default one has 10 KB.
const SIZE_LIMIT: usize = 16 << 20;

/// `NAME{defaults}(arguments);`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub line: u32,
    pub name: String,
    /// Text between the braces.
    pub defaults: Option<String>,
    pub arguments: Vec<String>,
}

/// How a call of a function is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallForm {
    /// `F(A, "text", …)`, or `F(A)` for a function without a message.
    #[default]
    Plain,
    /// `F((A, "text", …))`
    DoubleParentheses,
    /// `F(A, ("text", …))`
    MessageInParentheses,
}

/// A trace function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    /// Arguments in braces with their values; they come first in the names of macros.
    pub defaults: Vec<(String, String)>,
    /// Arguments before the message.
    pub fixed: Vec<String>,
    pub has_message: bool,
    /// `...`
    pub is_variadic: bool,
    pub form: CallForm,
    /// Flag of PUBLIC_FILTER.
    pub public_flag: Option<String>,
}

/// Text before or behind a function's messages, and the arguments that it shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affix {
    pub text: String,
    pub arguments: Vec<String>,
}

/// All that configurations say.
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub functions: Vec<Function>,
    by_name: HashMap<String, usize>,
    prefixes: HashMap<String, Affix>,
    suffixes: HashMap<String, Affix>,
    pub types: Types,
    /// Whether each source has a message GUID of its own.
    pub shares_guid: bool,
    /// Smallest and largest message number.
    pub range: Option<(u16, u16)>,
}

/// A statement that the caller has to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Include(String),
    Sources(Vec<String>),
    Scan(Vec<String>),
    Options(Vec<String>),
}

impl Config {
    /// The function of a name.
    pub fn function(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub fn prefix(&self, function: &str) -> Option<&Affix> {
        self.prefixes.get(function).or_else(|| self.prefixes.get("*"))
    }

    pub fn suffix(&self, function: &str) -> Option<&Affix> {
        self.suffixes.get(function).or_else(|| self.suffixes.get("*"))
    }

    /// Applies a statement.
    pub fn apply(
        &mut self,
        statement: &Statement,
        file: &str,
    ) -> Result<Option<Request>, Diagnostic> {
        let wrong = |what: String| Diagnostic::error(file, statement.line, what);
        let arguments = &statement.arguments;
        let argument = |index: usize| arguments.get(index).map_or("", String::as_str);
        let unquoted = |index: usize| unquote(argument(index)).to_owned();
        let words = || arguments.iter().map(|word| unquote(word).to_owned()).collect();
        match statement.name.as_str() {
            "NOPREFIX" => {
                for name in arguments {
                    self.prefixes.insert(name.clone(), Affix::default());
                }
            }
            name @ ("USEPREFIX" | "USESUFFIX") => {
                // Windows' preprocessor drops the blanks at the end, too: %!SPACE! keeps one.
                let affix = Affix {
                    text: unescape(unquote(argument(1)).trim_end()),
                    arguments: arguments.iter().skip(2).cloned().collect(),
                };
                let list =
                    if name == "USEPREFIX" { &mut self.prefixes } else { &mut self.suffixes };
                list.insert(argument(0).to_owned(), affix);
            }
            "PUBLIC_FILTER" => {
                let Some(index) = self.function(argument(0)) else {
                    let name = shown(argument(0));
                    return Err(wrong(format!("PUBLIC_FILTER: there is no function {name}")));
                };
                self.functions[index].public_flag = Some(argument(1).to_owned());
            }
            "INCLUDE" => return Ok(Some(Request::Include(unquoted(0)))),
            "PROCESSFILES" => return Ok(Some(Request::Sources(words()))),
            "SCANFORMACROS" => return Ok(Some(Request::Scan(words()))),
            "WPP_FLAGS" => return Ok(Some(Request::Options(words()))),
            "SEPARATE_TRACE_GUID_PER_FILE" => {
                self.shares_guid = matches!(argument(0), "0" | "false" | "FALSE");
            }
            "TRACERANGE" => {
                let range = number(argument(0)).zip(number(argument(1)));
                let Some(range) = range.filter(|(first, last)| *first > 0 && first <= last) else {
                    return Err(wrong("TRACERANGE: two numbers from 1 to 65535 are needed".into()));
                };
                self.range = Some(range);
            }
            "CUSTOM_TYPE" | "TYPEMACRO" => {
                self.types.add_custom(argument(0), argument(1), &unquoted(2)).map_err(wrong)?;
            }
            "DEFINE_SIMPLE_TYPE" => self.add_simple(arguments, Form::Value),
            "DEFINE_SIMPLE_TYPE_PTR" => self.add_simple(arguments, Form::Pointer),
            "DEFINE_FLAVOR" => {
                let spec = argument(3);
                let spec = (!spec.is_empty()).then(|| unquote(spec));
                self.types
                    .add_flavor(argument(0), argument(1), argument(2), spec)
                    .map_err(wrong)?;
            }
            "DEFINE_CPLX_TYPE" => {
                let form = Form::Macro(argument(1).to_owned());
                let rest: Vec<String> = [argument(0)]
                    .into_iter()
                    .map(str::to_owned)
                    .chain(arguments.iter().skip(2).cloned())
                    .collect();
                self.add_simple(&rest, form);
            }
            name if name.starts_with("MANIFEST_") || name.starts_with("DEFINE_") => {
                // Statements of manifest mode; the formats of messages do not need them.
            }
            name => self.add_function(name, statement).map_err(wrong)?,
        }
        Ok(None)
    }

    /// `NAME, C type, item, "spec", signature, priority`
    fn add_simple(&mut self, arguments: &[String], form: Form) {
        let argument = |index: usize| arguments.get(index).map_or("", String::as_str);
        self.types.add(Type {
            name: argument(0).to_owned(),
            c_type: argument(1).to_owned(),
            item: argument(2).to_owned(),
            spec: unquote(argument(3)).to_owned(),
            signature: argument(4).to_owned(),
            priority: argument(5).parse().unwrap_or(0),
            form,
        });
    }

    fn add_function(&mut self, name: &str, statement: &Statement) -> Result<(), String> {
        if !is_name(name) {
            return Err(format!("{} is not a name of a trace function", shown(name)));
        }
        let mut function = Function { name: name.to_owned(), ..Function::default() };
        for part in split(statement.defaults.as_deref().unwrap_or("")) {
            let Some((key, value)) = part.split_once('=') else {
                let part = shown(&part);
                return Err(format!("{name}: {part} in braces has no value; write NAME=VALUE"));
            };
            function.defaults.push((key.trim().to_owned(), value.trim().to_owned()));
        }
        let mut arguments = statement.arguments.clone();
        if let [all] = &arguments[..]
            && let Some(inner) = in_parentheses(all)
        {
            function.form = CallForm::DoubleParentheses;
            arguments = split(inner);
        } else if let Some(last) = arguments.last()
            && let Some(inner) = in_parentheses(last)
        {
            function.form = CallForm::MessageInParentheses;
            let inner = split(inner);
            arguments.pop();
            arguments.extend(inner);
        }
        for argument in arguments {
            match argument.as_str() {
                "MSG" if !function.has_message => function.has_message = true,
                "..." => function.is_variadic = true,
                name if is_name(name) && !function.has_message => {
                    function.fixed.push(name.to_owned());
                }
                other => {
                    let other = shown(other);
                    return Err(format!("{name}: {other} cannot be an argument here"));
                }
            }
        }
        if function.defaults.iter().any(|(key, _)| !is_name(key)) {
            return Err(format!("{name}: an argument in braces has no valid name"));
        }
        match self.by_name.get(name) {
            Some(index) => self.functions[*index] = function,
            None => {
                self.by_name.insert(name.to_owned(), self.functions.len());
                self.functions.push(function);
            }
        }
        Ok(())
    }
}

fn number(text: &str) -> Option<u16> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u16::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Whether a text is a name in C.
pub fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.bytes().all(is_part) && text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}

fn in_parentheses(text: &str) -> Option<&str> {
    text.trim().strip_prefix('(')?.strip_suffix(')')
}

/// A text without its quotes.
pub fn unquote(text: &str) -> &str {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.unwrap_or(text)
}

/// Escapes of a text in quotes.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, character == '\\') {
            (_, true) => match characters.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            (other, false) => out.push(other),
        }
    }
    out
}

/// Cuts a list at the commas outside of quotes and brackets; an empty list has no parts.
pub fn split(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let (mut depth, mut start, mut quote) = (0usize, 0, false);
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quote => escaped = true,
            b'"' => quote = !quote,
            _ if quote => {}
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(text[start..at].trim().to_owned());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() || !parts.is_empty() {
        parts.push(last.to_owned());
    }
    parts
}

/// The statements of a configuration; `first_line` is the line of its first one.
pub fn parse(text: &str, file: &str, first_line: u32) -> Result<Vec<Statement>, Diagnostic> {
    if text.len() > SIZE_LIMIT {
        return Err(Diagnostic::error(file, 0, "the configuration is larger than 16 MB"));
    }
    let mut reader = Reader { text: text.as_bytes(), at: 0, line: first_line, file };
    let mut statements = Vec::new();
    while let Some(statement) = reader.statement(text)? {
        statements.push(statement);
    }
    Ok(statements)
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    line: u32,
    file: &'t str,
}

impl Reader<'_> {
    fn error(&self, line: u32, what: &str) -> Diagnostic {
        Diagnostic::error(self.file, line, what)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        self.line += u32::from(byte == b'\n');
        Some(byte)
    }

    fn skip_blanks(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b'#' => {
                    while self.peek().is_some_and(|byte| byte != b'\n') {
                        self.at += 1;
                    }
                }
                b';' => drop(self.next()),
                byte if byte.is_ascii_whitespace() => drop(self.next()),
                _ => return,
            }
        }
    }

    fn statement(&mut self, text: &str) -> Result<Option<Statement>, Diagnostic> {
        self.skip_blanks();
        let (line, start) = (self.line, self.at);
        if self.peek().is_none() {
            return Ok(None);
        }
        while self.peek().is_some_and(|byte| !matches!(byte, b'(' | b'{' | b';' | b'\n' | b'"')) {
            self.at += 1;
        }
        let head = text[start..self.at].trim();
        let name = match head.split_once(char::is_whitespace) {
            Some(("FUNC", name)) => name.trim(),
            _ => head,
        };
        let name = name.to_owned();
        self.skip_white_space();
        let defaults = match self.peek() {
            Some(b'{') => Some(self.group(text, line)?.to_owned()),
            _ => None,
        };
        self.skip_white_space();
        if self.peek() != Some(b'(') || name.is_empty() {
            let what = format!("{} is not a statement; write NAME(arguments);", shown(head));
            return Err(self.error(line, &what));
        }
        let arguments = split(self.group(text, line)?);
        self.skip_white_space();
        if self.peek() != Some(b';') {
            return Err(self.error(line, &format!("{}: no ; ends the statement", shown(&name))));
        }
        self.at += 1;
        Ok(Some(Statement { line, name, defaults, arguments }))
    }

    fn skip_white_space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.next();
        }
    }

    /// The text inside of a pair of brackets.
    fn group<'t>(&mut self, text: &'t str, line: u32) -> Result<&'t str, Diagnostic> {
        let start = self.at + 1;
        let (mut depth, mut quote) = (0usize, false);
        while let Some(byte) = self.next() {
            match byte {
                b'\\' if quote => drop(self.next()),
                b'"' => quote = !quote,
                _ if quote => {}
                b'(' | b'{' | b'[' => depth += 1,
                b')' | b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(&text[start..self.at - 1]);
                    }
                }
                _ => {}
            }
        }
        Err(self.error(line, "a bracket of the statement is never closed"))
    }
}

/// The configurations in a source's comments, each with the line of its first statement.
pub fn blocks(source: &str) -> Vec<(String, u32)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, u32)> = None;
    for (index, line) in source.lines().enumerate() {
        let bare = line.trim().trim_start_matches(['/', '*']).trim_end_matches("*/").trim();
        match &mut open {
            None if is_start(bare) => open = Some((String::new(), index as u32 + 2)),
            None => {}
            Some(_) if bare.starts_with("end_wpp") => blocks.extend(open.take()),
            Some((text, _)) => {
                text.push_str(bare);
                text.push('\n');
            }
        }
    }
    blocks.extend(open);
    blocks
}

/// `begin_wpp config`, with any blanks between.
fn is_start(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("begin_wpp") && words.next() == Some("config")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<Config, Diagnostic> {
        let mut config = Config::default();
        for statement in parse(text, "x.ini", 1)? {
            config.apply(&statement, "x.ini")?;
        }
        Ok(config)
    }

    #[test]
    fn functions_have_three_forms_and_defaults() {
        let text = "FUNC A{LEVEL=2, FLAGS=(1,2)}(CTX, MSG, ...); # one\nB((LEVEL,MSG,...));\nC(L,(MSG,...));\nFUNC D(FLAGS, EXP);";
        let config = config(text).unwrap();
        let [a, b, c, d] = &config.functions[..] else { panic!("{config:?}") };
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(a.defaults, [pair("LEVEL", "2"), pair("FLAGS", "(1,2)")]);
        assert_eq!(
            (&a.fixed[..], a.has_message, a.is_variadic),
            (&["CTX".to_owned()][..], true, true)
        );
        assert_eq!((b.form, c.form), (CallForm::DoubleParentheses, CallForm::MessageInParentheses));
        assert_eq!((c.fixed.len(), d.has_message, d.fixed.len()), (1, false, 2));
    }

    #[test]
    fn errors_name_their_line() {
        for (text, line, what) in [
            ("A(MSG);\n\nB(MSG", 3, "never closed"),
            ("\nA(MSG)\nB(MSG);", 2, "no ; ends"),
            ("nonsense", 1, "is not a statement"),
            ("A{X}(MSG);", 1, "has no value"),
            ("A(MSG, B);", 1, "cannot be an argument here"),
            ("TRACERANGE(5,2);", 1, "two numbers"),
            ("DEFINE_FLAVOR(a, b,,);", 1, "there is no type"),
            ("PUBLIC_FILTER(a, b);", 1, "there is no function"),
        ] {
            let error = config(text).unwrap_err();
            assert_eq!((error.line, error.message.contains(what)), (line, true), "{error}");
        }
    }

    #[test]
    fn sources_hold_configurations_in_comments() {
        let source = "int a;\n// begin_wpp config\n// FUNC A(MSG, ...);\n// end_wpp\n/*\n * begin_wpp   config\n * B(MSG);\n * end_wpp */\n";
        let found = blocks(source);
        assert_eq!(found, [("FUNC A(MSG, ...);\n".to_owned(), 3), ("B(MSG);\n".to_owned(), 7)]);
    }
}
