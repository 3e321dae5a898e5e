//! `#if` inside of a call: which of its tokens the compiler sees.

use crate::lexer::{Kind, Token, Tokens};
use std::collections::HashMap;

/// Nested parentheses and `!` of a condition.
const DEPTH_LIMIT: usize = 64;

/// Removes the directives of a call, and the branches that do not hold. Returns the indices of the other tokens, and the lines of
/// conditions that depend on macros of headers or of the compiler's options: their first branch stays.
pub fn remaining(
    tokens: &Tokens<'_>,
    definitions: &Definitions<'_>,
    call: std::ops::Range<usize>,
) -> (Vec<usize>, Vec<u32>) {
    let own = tokens.list.get(call.start).map_or(0, |token| token.directive);
    let mut remaining = Vec::new();
    let mut unknown = Vec::new();
    // For each open #if: whether this branch counts, and whether one of its branches did.
    let mut branches: Vec<(bool, bool)> = Vec::new();
    for index in call.clone() {
        let token = &tokens.list[index];
        if token.directive == own {
            if branches.iter().all(|(counts, _)| *counts) {
                remaining.push(index);
            }
            continue;
        }
        if tokens.directives.get((token.directive as usize).wrapping_sub(1)) != Some(&index) {
            continue;
        }
        let end = tokens.list[index..].iter().position(|one| one.directive != token.directive);
        let words = &tokens.list[index + 1..end.map_or(tokens.list.len(), |size| index + size)];
        let mut holds = |is_name: bool| {
            let mut condition =
                Condition { tokens, words, definitions, before: call.start, depth: 0 };
            let value = if is_name { condition.name() } else { condition.any() };
            let value = value.ok().filter(|_| condition.words.is_empty()).flatten();
            if value.is_none() {
                unknown.push(token.line);
            }
            value.map(|value| value != 0)
        };
        match tokens.text_of(token) {
            "if" => {
                let holds = holds(false).unwrap_or(true);
                branches.push((holds, holds));
            }
            "ifdef" => {
                let holds = holds(true).unwrap_or(true);
                branches.push((holds, holds));
            }
            "ifndef" => {
                let holds = !holds(true).unwrap_or(false);
                branches.push((holds, holds));
            }
            "elif" => {
                if let Some((counts, did)) = branches.last_mut() {
                    *counts = !*did && holds(false).unwrap_or(true);
                    *did |= *counts;
                }
            }
            "else" => {
                if let Some((counts, did)) = branches.last_mut() {
                    (*counts, *did) = (!*did, true);
                }
            }
            "endif" => drop(branches.pop()),
            _ => {}
        }
    }
    (remaining, unknown)
}

/// Macros of the options and of the source, with their values.
pub struct Definitions<'a> {
    /// The tokens of each name where its value changes, in order. `None`: it is no macro from there on.
    changes: HashMap<&'a str, Vec<(usize, Option<&'a str>)>>,
}

impl<'a> Definitions<'a> {
    pub fn new(tokens: &Tokens<'a>, macros: &'a [(String, String)]) -> Definitions<'a> {
        let mut changes: HashMap<_, Vec<_>> = HashMap::new();
        for (name, value) in macros {
            changes.entry(name.as_str()).or_default().push((0, Some(value.as_str())));
        }
        for start in tokens.directives.iter().copied().filter(|at| *at < tokens.list.len()) {
            let directive = tokens.list[start].directive;
            let word = |at: usize| {
                let token = tokens.list.get(at).filter(|token| token.directive == directive);
                token.map_or("", |token| tokens.text_of(token))
            };
            let value = match word(start) {
                "define" => Some(word(start + 2)),
                "undef" => None,
                _ => continue,
            };
            changes.entry(word(start + 1)).or_default().push((start, value));
        }
        Definitions { changes }
    }

    /// The value of a macro before a token; `Some(None)`: it is no macro there. `None`: the source does not say.
    fn value(&self, name: &str, before: usize) -> Option<Option<&'a str>> {
        let changes = self.changes.get(name)?;
        let count = changes.partition_point(|(at, _)| *at < before);
        changes[..count].last().map(|(_, value)| *value)
    }
}

/// A condition that is being read.
struct Condition<'a, 's> {
    tokens: &'a Tokens<'s>,
    words: &'a [Token],
    definitions: &'a Definitions<'a>,
    /// The first token of the call.
    before: usize,
    depth: usize,
}

/// The text is no condition that [`Condition`] reads.
struct Unreadable;

/// A value; `None`: it depends on macros that the source does not define.
type Value = Result<Option<i128>, Unreadable>;

impl Condition<'_, '_> {
    fn take(&mut self, punctuation: &[u8]) -> bool {
        let starts = self.words.len() >= punctuation.len()
            && self.words.iter().zip(punctuation).all(|(word, byte)| word.is(*byte));
        if starts {
            self.words = &self.words[punctuation.len()..];
        }
        starts
    }

    /// `a || b`
    fn any(&mut self) -> Value {
        let mut value = self.all()?;
        while self.take(b"||") {
            value = match (value, self.all()?) {
                (Some(0), Some(0)) => Some(0),
                (Some(0), None) | (None, Some(0) | None) => None,
                _ => Some(1),
            };
        }
        Ok(value)
    }

    /// `a && b`
    fn all(&mut self) -> Value {
        let mut value = self.comparison()?;
        while self.take(b"&&") {
            value = match (value, self.comparison()?) {
                (Some(0), _) | (_, Some(0)) => Some(0),
                (Some(_), Some(_)) => Some(1),
                _ => None,
            };
        }
        Ok(value)
    }

    /// `a >= b`
    fn comparison(&mut self) -> Value {
        let value = self.one()?;
        let signs: [&[u8]; 6] = [b"==", b"!=", b"<=", b">=", b"<", b">"];
        let Some(sign) = signs.into_iter().position(|sign| self.take(sign)) else {
            return Ok(value);
        };
        let both = value.zip(self.one()?);
        Ok(both.map(|(value, other)| {
            let order = value.cmp(&other);
            i128::from(match sign {
                0 => order.is_eq(),
                1 => order.is_ne(),
                2 => order.is_le(),
                3 => order.is_ge(),
                4 => order.is_lt(),
                _ => order.is_gt(),
            })
        }))
    }

    fn one(&mut self) -> Value {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return Err(Unreadable);
        }
        let value = if self.take(b"!") {
            self.one()?.map(|value| i128::from(value == 0))
        } else if self.take(b"(") {
            let value = self.any()?;
            self.closed(value)?
        } else {
            let (word, rest) = self.words.split_first().ok_or(Unreadable)?;
            let text = self.tokens.text_of(word);
            self.words = rest;
            match word.kind {
                Kind::Name if text == "defined" => {
                    let is_enclosed = self.take(b"(");
                    let value = self.name()?;
                    if is_enclosed { self.closed(value)? } else { value }
                }
                Kind::Name => match self.definitions.value(text, self.before) {
                    Some(Some(value)) => Some(number(value).ok_or(Unreadable)?),
                    // As in C, a name that is no macro is 0.
                    Some(None) => Some(0),
                    None => None,
                },
                Kind::Number => Some(number(text).ok_or(Unreadable)?),
                _ => return Err(Unreadable),
            }
        };
        self.depth -= 1;
        Ok(value)
    }

    fn closed(&mut self, value: Option<i128>) -> Value {
        if self.take(b")") { Ok(value) } else { Err(Unreadable) }
    }

    /// Whether a name is a macro's.
    fn name(&mut self) -> Value {
        let (word, rest) = self.words.split_first().ok_or(Unreadable)?;
        self.words = rest;
        let value = self.definitions.value(self.tokens.text_of(word), self.before);
        match word.kind {
            Kind::Name => Ok(value.map(|value| i128::from(value.is_some()))),
            _ => Err(Unreadable),
        }
    }
}

/// A number in C.
fn number(text: &str) -> Option<i128> {
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None if digits.len() > 1 && digits.starts_with('0') => {
            u64::from_str_radix(digits, 8).ok()?
        }
        None => digits.parse().ok()?,
    };
    Some(value.into())
}
