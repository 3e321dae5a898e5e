//! The words of a query.

use super::{Comparison, QueryError};

/// A word and the byte at which it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    pub at: usize,
    pub token: Token,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    Name(String),
    Text(String),
    Integer(i128),
    Number(f64),
    Compare(Comparison),
    /// One of `* / @ . ( ) [ ] ,`
    Sign(char),
    End,
}

/// Splits a query into words; the last one is [`Token::End`].
pub fn words(text: &str) -> Result<Vec<Word>, QueryError> {
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let at = text.len() - rest.len();
        let Some(first) = rest.chars().next() else {
            words.push(Word { at, token: Token::End });
            return Ok(words);
        };
        let (token, size) = match first {
            '\'' | '"' => {
                let Some(end) = rest[1..].find(first) else {
                    return Err(error(text, at, "a closing quote"));
                };
                (Token::Text(rest[1..1 + end].to_owned()), end + 2)
            }
            '*' | '/' | '@' | '(' | ')' | '[' | ']' | ',' => (Token::Sign(first), 1),
            '=' | '!' | '<' | '>' => comparison(rest).ok_or_else(|| error(text, at, "!="))?,
            '0'..='9' | '-' => {
                number(rest).ok_or_else(|| error(text, at, "a number of 64 bits"))?
            }
            '.' => (Token::Sign('.'), 1),
            _ if is_name_start(first) => {
                let end = rest.find(|c| !is_name_part(c)).unwrap_or(rest.len());
                (Token::Name(rest[..end].to_owned()), end)
            }
            _ => return Err(error(text, at, "a name, a number, a quote or an operator")),
        };
        words.push(Word { at, token });
        rest = &rest[size..];
    }
}

fn comparison(rest: &str) -> Option<(Token, usize)> {
    let table = [
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("=", Comparison::Equal),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    let (sign, comparison) = table.into_iter().find(|(sign, _)| rest.starts_with(sign))?;
    Some((Token::Compare(comparison), sign.len()))
}

/// Decimal, with or without a fraction, or hex behind `0x`.
fn number(rest: &str) -> Option<(Token, usize)> {
    if let Some(digits) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
        let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        let value = u64::from_str_radix(&digits[..end], 16).ok()?;
        return Some((Token::Integer(i128::from(value)), end + 2));
    }
    let sign = usize::from(rest.starts_with('-'));
    let digits = &rest[sign..];
    let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
    let end = sign + end;
    let digits = &rest[..end];
    let token = match digits.contains('.') {
        true => Token::Number(digits.parse().ok()?),
        false => {
            let value: i128 = digits.parse().ok()?;
            let is_known = i128::from(i64::MIN) <= value && value <= i128::from(u64::MAX);
            Token::Integer(Some(value).filter(|_| is_known)?)
        }
    };
    Some((token, end))
}

fn is_name_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_name_part(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':')
}

/// An error at a byte of the query.
pub fn error(text: &str, at: usize, expected: &'static str) -> QueryError {
    let found = match text[at..].chars().next() {
        Some(_) => {
            let end = text[at..].char_indices().nth(12).map_or(text.len(), |(end, _)| at + end);
            format!("`{}`", &text[at..end])
        }
        None => "the end of the query".to_owned(),
    };
    QueryError { column: text[..at].chars().count() + 1, expected, found }
}
