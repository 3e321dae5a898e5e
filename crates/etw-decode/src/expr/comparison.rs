//! One test of an expression: an operator, literals, and the values that are compared with them.

use crate::value::{Style, Value};
use etw_types::{Guid, fold_case};
use regex_lite::Regex;
use std::cmp::Ordering;

#[derive(Debug)]
pub(super) enum Test {
    /// It is there, and neither zero nor empty.
    Is,
    Compare(Operator, Literal),
    Bits(i128),
    /// The pattern, folded.
    Like(Vec<char>),
    Matches(Regex),
    In(Vec<(Literal, Option<Literal>)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    Number(i128),
    /// As a double and as a single, each of which is the nearest to the number.
    Float(f64, f32),
    Text(String),
    Guid(Guid),
    Bool(bool),
}

/// A value that is compared with literals.
#[derive(Clone, Copy)]
pub(super) enum Subject<'s> {
    Number(i128),
    /// An unsigned integer, and what its bits are as a signed one of its size.
    Unsigned(i128, i128),
    Single(f32),
    Float(f64),
    Text(&'s str),
    /// A number that has a name.
    Named(i128, &'s str),
    Guid(Guid),
}

impl Operator {
    pub fn holds(self, ordering: Option<Ordering>) -> bool {
        use Ordering::{Equal, Greater, Less};
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
    /// The number that is compared with a literal, and in a range with its ends: beside a negative one, an unsigned integer is read as a signed one.
    fn beside(self, literal: &Literal) -> Self {
        match (self, literal) {
            (Subject::Unsigned(_, signed), Literal::Number(..0)) => Subject::Number(signed),
            (Subject::Unsigned(number, _), _) => Subject::Number(number),
            (other, _) => other,
        }
    }

    fn number(&self) -> Option<i128> {
        match self {
            Subject::Number(number) | Subject::Unsigned(number, _) | Subject::Named(number, _) => {
                Some(*number)
            }
            _ => None,
        }
    }

    fn compare(&self, literal: &Literal) -> Option<Ordering> {
        match (self, literal) {
            (Subject::Number(a) | Subject::Named(a, _), Literal::Number(b)) => Some(a.cmp(b)),
            (Subject::Number(a) | Subject::Named(a, _), Literal::Float(b, _)) => {
                compare_integer(*a, *b)
            }
            (Subject::Number(a) | Subject::Named(a, _), Literal::Bool(b)) => Some((*a != 0).cmp(b)),
            (Subject::Single(a), Literal::Number(b)) => compare_single(*a, *b as f64, *b as f32),
            (Subject::Single(a), Literal::Float(b, single)) => compare_single(*a, *b, *single),
            (Subject::Float(a), Literal::Number(b)) => a.partial_cmp(&(*b as f64)),
            (Subject::Float(a), Literal::Float(b, _)) => a.partial_cmp(b),
            (Subject::Text(a) | Subject::Named(_, a), Literal::Text(b)) => {
                Some((**a).cmp(b.as_str()))
            }
            (Subject::Guid(a), Literal::Guid(b)) => Some(a.0.cmp(&b.0)),
            (Subject::Text(a), Literal::Guid(b)) => {
                Some(a.parse::<Guid>().map_or(Ordering::Less, |a| a.0.cmp(&b.0)))
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
            Subject::Number(number) | Subject::Unsigned(number, _) => with(&number.to_string()),
            Subject::Single(number) => with(&text_of(Value::F32(*number))),
            Subject::Float(number) => with(&text_of(Value::F64(*number))),
            Subject::Guid(guid) => with(&guid.to_string()),
        }
    }
}

impl Test {
    /// Whether a number that has a name may be another subject than the number alone.
    pub fn needs_name(&self) -> bool {
        let is_text = |literal: &Literal| matches!(literal, Literal::Text(_));
        match self {
            Test::Is | Test::Bits(_) => false,
            Test::Compare(_, literal) => is_text(literal),
            Test::Like(_) | Test::Matches(_) => true,
            Test::In(members) => members
                .iter()
                .any(|(first, last)| is_text(first) || last.as_ref().is_some_and(is_text)),
        }
    }

    pub fn holds(&self, subject: Subject<'_>) -> bool {
        match self {
            Test::Is => match subject {
                Subject::Number(number)
                | Subject::Unsigned(number, _)
                | Subject::Named(number, _) => number != 0,
                Subject::Single(number) => number != 0.0,
                Subject::Float(number) => number != 0.0,
                Subject::Text(text) => !text.is_empty(),
                Subject::Guid(guid) => !guid.is_zero(),
            },
            Test::Compare(operator, literal) => {
                operator.holds(subject.beside(literal).compare(literal))
            }
            Test::Bits(bits) => subject.number().is_some_and(|number| number & bits != 0),
            Test::Like(pattern) => subject.text(|text| like(pattern, text)),
            Test::Matches(regex) => subject.text(|text| regex.is_match(text)),
            Test::In(members) => members.iter().any(|(first, last)| {
                let subject = subject.beside(first);
                let from = subject.compare(first);
                match last {
                    None => from == Some(Ordering::Equal),
                    Some(last) => {
                        Operator::GreaterOrEqual.holds(from)
                            && Operator::LessOrEqual.holds(subject.compare(last))
                    }
                }
            }),
        }
    }
}

/// A number as it is shown.
fn text_of(value: Value<'_>) -> String {
    let mut text = Vec::new();
    value.write_text(&mut text, &Style::default());
    String::from_utf8_lossy(&text).into_owned()
}

/// Compares an integer with a double, exactly: not every integer is a double.
fn compare_integer(integer: i128, double: f64) -> Option<Ordering> {
    let limit = 2f64.powi(127);
    match double {
        _ if double.is_nan() => None,
        _ if double >= limit => Some(Ordering::Less),
        _ if double < -limit => Some(Ordering::Greater),
        _ => {
            // A conversion cuts the fraction off.
            let ordering = integer.cmp(&(double as i128));
            Some(ordering.then(0.0f64.partial_cmp(&double.fract())?))
        }
    }
}

/// Compares a single with a number that was written: with the single that is nearest to it, which a field has that is shown as this
/// number. A number that no single is near to is compared as a double.
fn compare_single(field: f32, double: f64, single: f32) -> Option<Ordering> {
    let is_far = single.is_infinite() && double.is_finite() || single == 0.0 && double != 0.0;
    match is_far {
        true => f64::from(field).partial_cmp(&double),
        false => field.partial_cmp(&single),
    }
}

/// `*` any characters, `?` one; in any case. Time grows with the product of the lengths at worst.
fn like(pattern: &[char], text: &str) -> bool {
    let text: Vec<char> = text.chars().map(fold_case).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use Ordering::{Equal, Greater, Less};

    #[test]
    fn integers_and_doubles_compare_exactly() {
        for (integer, double, expected) in [
            (5, 5.0, Equal),
            (5, 5.5, Less),
            (-5, -5.5, Greater),
            (0, -0.0, Equal),
            (0, 0.5, Less),
            (0, -0.5, Greater),
            (u64::MAX.into(), 18_446_744_073_709_551_616.0, Less),
            ((1 << 53) + 1, 9_007_199_254_740_992.0, Greater),
            (i128::MAX, 1e39, Less),
            (i128::MIN, f64::NEG_INFINITY, Greater),
        ] {
            assert_eq!(compare_integer(integer, double), Some(expected), "{integer} {double}");
        }
        assert_eq!(compare_integer(0, f64::NAN), None);
    }

    #[test]
    fn singles_compare_as_they_are_shown() {
        for (single, text, expected) in [
            (0.1f32, "0.1", Equal),
            (0.1, "0.10000001", Less),
            (0.1, "0.10000000001", Equal),
            (123_456_790.0, "123456790", Equal),
            (f32::MAX, "1e300", Less),
            (f32::INFINITY, "1e300", Greater),
            (0.0, "1e-300", Less),
            (f32::from_bits(1), "1e-300", Greater),
            (-0.0, "0", Equal),
        ] {
            let (double, nearest) = (text.parse().unwrap(), text.parse().unwrap());
            assert_eq!(compare_single(single, double, nearest), Some(expected), "{single} {text}");
        }
        assert_eq!(compare_single(f32::NAN, 1.0, 1.0), None);
    }
}
