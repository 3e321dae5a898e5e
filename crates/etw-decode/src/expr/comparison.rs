//! One test of an expression: an operator, literals, and the values that are compared with them.

use etw_types::Guid;
use regex_lite::Regex;

#[derive(Debug)]
pub(super) enum Test {
    /// It is there, and neither zero nor empty.
    Is,
    Compare(Operator, Literal),
    Bits(i128),
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
    Float(f64),
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
    Float(f64),
    Text(&'s str),
    /// A number that has a name.
    Named(i128, &'s str),
    Guid(Guid),
}

impl Operator {
    pub fn holds(self, ordering: Option<std::cmp::Ordering>) -> bool {
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
            Subject::Number(number) | Subject::Unsigned(number, _) => with(&number.to_string()),
            Subject::Float(number) => with(&number.to_string()),
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
