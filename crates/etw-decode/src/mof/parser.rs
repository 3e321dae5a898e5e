//! The text of MOF: classes, their properties and qualifiers.

use std::collections::HashMap;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Number(i64),
    List(Vec<Value>),
    None,
}

impl Value {
    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            Value::List(list) => list.first()?.text(),
            _ => None,
        }
    }

    pub fn numbers(&self) -> Vec<i64> {
        match self {
            Value::Number(number) => vec![*number],
            Value::List(list) => list.iter().flat_map(Value::numbers).collect(),
            Value::Text(text) => parse_number(text).into_iter().collect(),
            Value::None => Vec::new(),
        }
    }

    pub fn texts(&self) -> Vec<String> {
        match self {
            Value::Text(text) => vec![text.clone()],
            Value::List(list) => list.iter().flat_map(Value::texts).collect(),
            Value::Number(number) => vec![number.to_string()],
            Value::None => Vec::new(),
        }
    }
}

pub(super) fn parse_number(text: &str) -> Option<i64> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => i64::try_from(u64::from_str_radix(hex, 16).ok()?).ok()?,
        None => digits.parse().ok()?,
    };
    if negative { value.checked_neg() } else { Some(value) }
}

/// By name in lower case.
pub(super) type Qualifiers = HashMap<String, Value>;

#[derive(Debug)]
pub(super) struct Class {
    pub name: String,
    pub parent: Option<String>,
    pub qualifiers: Qualifiers,
    pub properties: Vec<Property>,
}

#[derive(Debug)]
pub(super) struct Property {
    pub name: String,
    pub kind: String,
    /// Elements, if the property is an array of constant length.
    pub count: Option<u16>,
    pub qualifiers: Qualifiers,
}

pub(super) struct Parser<'t> {
    pub text: &'t str,
    pub at: usize,
    pub warnings: Vec<String>,
}

impl<'t> Parser<'t> {
    pub fn warn(&mut self, at: usize, what: &str) {
        if self.warnings.len() < 100 {
            let line = self.text[..at].matches('\n').count() + 1;
            self.warnings.push(format!("line {line}: {what}"));
        }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Blanks, comments and `#pragma` lines; whether anything follows.
    pub fn skip_blank(&mut self) -> bool {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            self.at += blank;
            let rest = self.rest();
            let skipped = if rest.starts_with("//") || rest.starts_with('#') {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").map_or(rest.len(), |end| end + 2)
            } else {
                return !rest.is_empty();
            };
            self.at += skipped;
        }
    }

    fn take(&mut self, mark: char) -> bool {
        self.skip_blank();
        let found = self.rest().starts_with(mark);
        if found {
            self.at += mark.len_utf8();
        }
        found
    }

    fn word(&mut self) -> Option<&'t str> {
        self.skip_blank();
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'));
        let word = &rest[..end.unwrap_or(rest.len())];
        self.at += word.len();
        (!word.is_empty()).then_some(word)
    }

    /// Behind the next `};`, or the next `;` where there is none.
    pub fn resync(&mut self, start: usize) {
        self.at = self.at.max(start + 1);
        while !self.text.is_char_boundary(self.at) {
            self.at += 1;
        }
        let rest = self.rest();
        self.at += rest.find(';').map_or(rest.len(), |end| end + 1);
    }

    /// A class; `Some(None)` for another declaration, which is skipped.
    pub fn class(&mut self) -> Option<Option<Class>> {
        let qualifiers = self.qualifiers()?;
        if !self.word()?.eq_ignore_ascii_case("class") {
            let rest = self.rest();
            self.at += rest.find(';').map_or(rest.len(), |end| end + 1);
            return Some(None);
        }
        let name = self.word()?.to_owned();
        let parent = match self.take(':') {
            true => Some(self.word()?.to_owned()),
            false => None,
        };
        let mut class = Class { name, parent, qualifiers, properties: Vec::new() };
        if self.take(';') {
            return Some(Some(class));
        }
        if !self.take('{') {
            return None;
        }
        while !self.take('}') {
            let property = self.property()?;
            class.properties.push(property);
        }
        self.take(';');
        Some(Some(class))
    }

    fn property(&mut self) -> Option<Property> {
        let qualifiers = self.qualifiers()?;
        let kind = self.word()?.to_ascii_lowercase();
        let name = self.word()?.to_owned();
        let mut count = None;
        if self.take('[') {
            self.skip_blank();
            if !self.take(']') {
                let size = self.value()?;
                count = size.numbers().first().and_then(|size| u16::try_from(*size).ok());
                if !self.take(']') {
                    return None;
                }
            } else {
                count = Some(0);
            }
        }
        if self.take('=') {
            self.value()?;
        }
        self.take(';').then_some(Property { name, kind, count, qualifiers })
    }

    fn qualifiers(&mut self) -> Option<Qualifiers> {
        let mut qualifiers = Qualifiers::new();
        if !self.take('[') {
            return Some(qualifiers);
        }
        loop {
            if self.take(']') {
                return Some(qualifiers);
            }
            let name = self.word()?.to_ascii_lowercase();
            let value = if self.take('(') {
                let value = self.value()?;
                if !self.take(')') {
                    return None;
                }
                value
            } else if self.text[self.at..].starts_with('{') {
                self.value()?
            } else {
                Value::None
            };
            // Flavours.
            if self.take(':') {
                while let Some(_flavour) = self.word() {}
            }
            qualifiers.insert(name, value);
            self.take(',');
        }
    }

    fn value(&mut self) -> Option<Value> {
        let mut list: Option<Vec<Value>> = None;
        loop {
            self.skip_blank();
            match self.rest().chars().next()? {
                '{' if list.is_none() => {
                    self.at += 1;
                    list = Some(Vec::new());
                    continue;
                }
                '}' if list.is_some() => {
                    self.at += 1;
                    return list.map(Value::List);
                }
                ',' if list.is_some() => {
                    self.at += 1;
                    continue;
                }
                _ => {}
            }
            let value = self.single()?;
            match &mut list {
                Some(list) => list.push(value),
                None => return Some(value),
            }
        }
    }

    fn single(&mut self) -> Option<Value> {
        if self.rest().starts_with('"') {
            let mut text = String::new();
            // Texts one behind the other are one.
            while self.take('"') {
                loop {
                    let c = self.rest().chars().next()?;
                    self.at += c.len_utf8();
                    match c {
                        '"' => break,
                        '\\' => {
                            let escaped = self.rest().chars().next()?;
                            self.at += escaped.len_utf8();
                            text.push(match escaped {
                                'n' => '\n',
                                't' => '\t',
                                other => other,
                            });
                        }
                        c => text.push(c),
                    }
                }
            }
            return Some(Value::Text(text));
        }
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || "_-+.$".contains(c)));
        let word = &rest[..end.unwrap_or(rest.len())];
        if word.is_empty() {
            return None;
        }
        self.at += word.len();
        Some(parse_number(word).map_or_else(|| Value::Text(word.to_owned()), Value::Number))
    }
}
