//! Messages: the calls of a source with their numbers, texts and types.

use crate::config::{Config, Function};
use crate::diagnostic::{Diagnostic, shown};
use crate::scan::Call;
use crate::types::{Form, Type};

/// Bytes of one message's text.
const TEXT_LIMIT: usize = 32 << 10;

/// An argument of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The expression in the source.
    pub expression: String,
    /// Name of the macro's parameter that holds it.
    pub parameter: String,
    /// Whether the call itself gives the value, and no prefix or suffix.
    pub is_own: bool,
    pub number: u32,
    pub kind: Type,
}

/// A message.
#[derive(Clone, Debug)]
pub struct Message {
    /// File and line as one name in C.
    pub name: String,
    pub number: u16,
    /// Index of the function in the configuration.
    pub function: usize,
    pub call: Call,
    /// The text, with prefix, suffix and numbered inserts.
    pub text: String,
    /// In the order of the payload.
    pub arguments: Vec<Argument>,
}

/// Facts of the source that texts name.
pub struct Facts<'a> {
    pub file: &'a str,
    /// Path in messages to the user.
    pub path: &'a str,
    /// File name as a part of a name in C.
    pub identifier: &'a str,
    pub component: &'a str,
    pub first_argument: u32,
    pub has_shrieks: bool,
    pub reorders: bool,
}

/// Makes a message of a call.
pub fn message(
    call: Call,
    number: u16,
    config: &Config,
    facts: &Facts<'_>,
) -> Result<Message, Diagnostic> {
    let function = &config.functions[call.function];
    let mut text =
        Text { config, facts, line: call.line, out: String::new(), arguments: Vec::new() };
    let mut rewrite = || -> Result<(), String> {
        if let Some(prefix) = config.prefix(&function.name) {
            text.add(&prefix.text, &affix_values(function, &call, &prefix.arguments))?;
        }
        let values = call.arguments.iter().enumerate();
        let values: Vec<Value> = values
            .map(|(index, expression)| Value {
                expression: expression.clone(),
                parameter: format!("_a{}", index + 1),
                is_own: true,
            })
            .collect();
        text.add(&call.message, &values)?;
        if let Some(suffix) = config.suffix(&function.name) {
            text.add(&suffix.text, &affix_values(function, &call, &suffix.arguments))?;
        }
        match text.out.len() > TEXT_LIMIT {
            true => Err("its text is longer than 32 KB".into()),
            false => Ok(()),
        }
    };
    let outcome = rewrite();
    let Text { out, mut arguments, .. } = text;
    outcome.map_err(|what| {
        Diagnostic::error(facts.path, call.line, format!("{}: {what}", function.name))
    })?;
    if facts.reorders {
        arguments.sort_by_key(|argument| -argument.kind.priority);
    }
    Ok(Message {
        name: format!("{}{}", facts.identifier, call.line),
        number,
        function: call.function,
        call,
        text: out,
        arguments,
    })
}

/// A value that an insert can show.
struct Value {
    expression: String,
    parameter: String,
    is_own: bool,
}

/// The values that a prefix or suffix shows: arguments of the function by their names, and other expressions, such as `__LINE__`.
fn affix_values(function: &Function, call: &Call, names: &[String]) -> Vec<Value> {
    let value = |name: &String| {
        if let Some(index) = function.fixed.iter().position(|fixed| fixed == name) {
            return Value {
                expression: call.fixed[index].clone(),
                parameter: name.clone(),
                is_own: false,
            };
        }
        let default = function.defaults.iter().find(|(key, _)| key == name);
        let value = default.map_or(name, |(_, value)| value);
        Value { expression: value.clone(), parameter: value.clone(), is_own: false }
    };
    names.iter().map(value).collect()
}

struct Text<'a> {
    config: &'a Config,
    facts: &'a Facts<'a>,
    line: u32,
    out: String,
    arguments: Vec<Argument>,
}

impl Text<'_> {
    /// Adds a text, whose inserts show `values` in turn.
    fn add(&mut self, text: &str, values: &[Value]) -> Result<(), String> {
        let mut values = values.iter();
        let mut count = 0;
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            self.out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(behind) = rest.strip_prefix('%') {
                self.out.push_str("%%");
                rest = behind;
                continue;
            }
            let (flags, kind, behind) = self.insert(rest)?;
            rest = behind;
            if kind.c_type.is_empty() {
                self.add_constant(&kind.spec);
                continue;
            }
            count += 1;
            let Some(value) = values.next() else {
                return Err(format!("its text has {count} inserts or more, and fewer values"));
            };
            let number = self.facts.first_argument + self.arguments.len() as u32;
            self.out.push_str(&format!("%{number}!{flags}{}!", kind.spec));
            self.arguments.push(Argument {
                expression: value.expression.clone(),
                parameter: value.parameter.clone(),
                is_own: value.is_own,
                number,
                kind,
            });
        }
        self.out.push_str(rest);
        match values.next() {
            Some(value) => {
                Err(format!("its text has {count} inserts, none for {}", shown(&value.expression)))
            }
            None => Ok(()),
        }
    }

    /// The flags and the type of an insert, and the text behind it.
    fn insert<'t>(&self, text: &'t str) -> Result<(&'t str, Type, &'t str), String> {
        let types = &self.config.types;
        let is_flag = |c: char| matches!(c, '-' | '+' | ' ' | '#' | '.') || c.is_ascii_digit();
        if let Some(kind) = types.odd_prefix(text) {
            return Ok(("", kind.clone(), &text[kind.name.len()..]));
        }
        let behind = text.trim_start_matches(is_flag);
        let flags = &text[..text.len() - behind.len()];
        if !self.facts.has_shrieks
            && let Some(kind) = types.get(word_of(behind))
        {
            return Ok((flags, kind.clone(), &behind[kind.name.len()..]));
        }
        if let Some((name, rest)) = behind.strip_prefix('!').and_then(|b| b.split_once('!')) {
            let kind = match name.contains('(') {
                true => types.extended(name, name)?,
                false => types
                    .get(name)
                    .cloned()
                    .ok_or_else(|| format!("there is no type %!{}!", name.escape_debug()))?,
            };
            return Ok((flags, kind, rest));
        }
        let size = conversion_size(behind);
        let Some(name) = size.map(|size| &behind[..size]) else {
            let start: String = text.chars().take(8).collect();
            return Err(format!("%{} is not a conversion; write %% for %", start.escape_debug()));
        };
        match types.get(name).or_else(|| types.get(base_conversion(name))) {
            Some(kind) => Ok((flags, kind.clone(), &behind[name.len()..])),
            None => Err(format!("there is no type for the conversion %{name}")),
        }
    }

    fn add_constant(&mut self, spec: &str) {
        match spec {
            "__COMPNAME__" => self.out.push_str(&self.facts.component.replace('%', "%%")),
            "__FILE__" => self.out.push_str(&self.facts.file.replace('%', "%%")),
            "__LINE__" => self.out.push_str(&self.line.to_string()),
            // The prefix stands only at the start.
            "%0" if !self.out.is_empty() => {}
            other => self.out.push_str(other),
        }
    }
}

/// The word that a text starts with: letters, digits and `_`.
fn word_of(text: &str) -> &str {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    &text[..text.bytes().take_while(|byte| is_part(byte)).count()]
}

/// Bytes of a conversion of `printf` with its size.
fn conversion_size(text: &str) -> Option<usize> {
    const SIZES: [&str; 12] = ["I64", "I32", "ll", "hh", "I", "h", "l", "w", "L", "z", "j", "t"];
    let is_conversion = |text: &str| {
        text.starts_with([
            'd', 'i', 'o', 'u', 'x', 'X', 'c', 'C', 's', 'S', 'p', 'e', 'E', 'f', 'F', 'g', 'G',
            'a', 'A', 'Z',
        ])
    };
    for size in SIZES {
        if let Some(behind) = text.strip_prefix(size)
            && is_conversion(behind)
            // %z alone is a counted string, and text may follow it.
            && (size != "z" || behind.starts_with(['d', 'i', 'u', 'x', 'X', 'o']))
        {
            return Some(size.len() + 1);
        }
    }
    // %z is a counted string.
    (is_conversion(text) || text.starts_with('z')).then_some(1)
}

/// The conversion for one that the configuration does not name: `%Lf` is `%f`.
fn base_conversion(name: &str) -> &str {
    match name {
        "I32d" | "I32i" => "d",
        "I32u" => "u",
        "I32x" => "x",
        "I32X" => "X",
        "I32o" => "o",
        "zi" => "zd",
        "zX" => "IX",
        "zo" => "Io",
        "I64i" | "ji" => "I64d",
        "jx" => "I64x",
        "lf" | "Lf" | "F" | "a" | "A" => "f",
        "le" | "Le" => "e",
        "lE" | "LE" => "E",
        "lg" | "Lg" => "g",
        "lG" | "LG" => "G",
        "hhi" => "hhd",
        other => other,
    }
}

impl Argument {
    /// The macro call that passes a variable to the helper function.
    pub fn pairs(&self, variable: &str) -> String {
        match &self.kind.form {
            Form::Value => format!("WPP_LOGTYPEVAL({}, {variable}) ", c_type(&self.kind.c_type)),
            Form::Pointer => format!("WPP_LOGTYPEPTR({variable}) "),
            Form::Macro(name) => format!("{name}({variable}) "),
        }
    }
}

/// A type as the generated code names it: Windows' `long` has 32 bits everywhere.
pub fn c_type(name: &str) -> &str {
    match name {
        "signed long" | "long" => "LONG",
        "unsigned long" => "ULONG",
        "signed __int64" | "__int64" => "LONGLONG",
        "unsigned __int64" => "ULONGLONG",
        other => other,
    }
}

impl Message {
    /// The letters in the name of its helper function.
    pub fn signature(&self) -> String {
        self.arguments.iter().map(|argument| argument.kind.signature.as_str()).collect()
    }

    /// Names and values of the arguments that have names, defaulted ones first.
    pub fn named<'a>(&'a self, function: &'a Function) -> impl Iterator<Item = (&'a str, &'a str)> {
        let defaults = function.defaults.iter().map(|(key, value)| (&**key, &**value));
        let fixed = function.fixed.iter().zip(&self.call.fixed);
        defaults.chain(fixed.map(|(key, value)| (&**key, &**value)))
    }
}
