//! The words of an expression: marks, names, texts, GUIDs and values.

use super::ExprError;
use etw_types::Guid;

/// A position in the text of an expression.
pub(super) struct Lexer<'t> {
    pub text: &'t str,
    /// Bytes that are read.
    pub at: usize,
}

impl<'t> Lexer<'t> {
    pub fn error<T>(&self, what: impl Into<String>) -> Result<T, ExprError> {
        self.error_at(self.at, what)
    }

    pub fn error_at<T>(&self, at: usize, what: impl Into<String>) -> Result<T, ExprError> {
        Err(ExprError { at, what: what.into() })
    }

    pub fn skip_blank(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    pub fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Takes a mark, if it is next.
    pub fn take(&mut self, mark: &str) -> bool {
        self.skip_blank();
        let found = self.rest().starts_with(mark);
        if found {
            self.at += mark.len();
        }
        found
    }

    /// Takes a word of the language, in any case, if it is next.
    pub fn take_word(&mut self, word: &str) -> bool {
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

    /// A name, split at its dots.
    pub fn name(&mut self) -> Result<Vec<String>, ExprError> {
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

    /// A text in quotes, if one is next.
    pub fn quoted(&mut self) -> Result<Option<String>, ExprError> {
        let rest = self.rest();
        let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
            return Ok(None);
        };
        let mut text = String::new();
        let mut chars = rest.char_indices().skip(1);
        while let Some((index, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.at += index + 1;
                    return Ok(Some(text));
                }
                // `\` escapes only itself and the quote: patterns keep their own escapes.
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
        self.error("a text without its end")
    }

    /// A GUID, in braces or not, or `*Name`, if one is next.
    pub fn guid(&mut self) -> Result<Option<Guid>, ExprError> {
        let rest = self.rest();
        let size = match rest.chars().next() {
            Some('{') => 38,
            Some('*') => {
                rest.find(|c: char| c.is_whitespace() || "(),".contains(c)).unwrap_or(rest.len())
            }
            _ if is_guid(rest) => 36,
            _ => return Ok(None),
        };
        let Some(word) = rest.get(..size) else { return self.error("no GUID") };
        let guid = match word.strip_prefix('*') {
            Some(name) => Some(Guid::from_name(name)),
            None => word.parse().ok(),
        };
        let Some(guid) = guid else { return self.error("no GUID") };
        self.at += size;
        Ok(Some(guid))
    }

    /// The characters of a number, a time or a word; they are not taken.
    pub fn value_word(&self) -> &'t str {
        let rest = self.rest();
        let end = rest
            .char_indices()
            .find(|(index, c)| {
                !(c.is_alphanumeric() || "_-+:.".contains(*c)) || rest[*index..].starts_with("..")
            })
            .map_or(rest.len(), |(index, _)| index);
        &rest[..end]
    }
}

/// Whether the text begins with a GUID.
fn is_guid(text: &str) -> bool {
    text.get(..36).is_some_and(|word| word.parse::<Guid>().is_ok())
}
