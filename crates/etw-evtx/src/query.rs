//! Queries: the subset of XPath 1.0 that the Event Log accepts.
//!
//! ```text
//! query      = "*" or "Event", with predicates; steps may follow: Event/System[EventID=7]
//! step       = name, "*", "@name", "@*", "text()" or ".", with predicates
//! predicate  = "[" expression "]", or "[" number "]" for a position
//! expression = comparisons (= != < <= > >=) joined by "and" and "or", parentheses, literals, numbers (decimal or 0x…)
//! functions  = position(), band(a, b), timediff(t), timediff(t1, t2) in milliseconds
//! ```
//!
//! A path is true if it finds a node; a comparison with a path is true if one of its nodes makes it true. Values keep
//! their types: numbers and hex compare as numbers, times as times, GUIDs without regard to case and braces, everything
//! else as text.
//!
//! ```
//! use etw_evtx::query::Query;
//!
//! let query: Query = "*[System[(EventID=4624 or EventID=4625) and Level <= 3]]".parse()?;
//! let error = "*[System[Level ~ 3]]".parse::<Query>().unwrap_err();
//! assert_eq!(error.column(), 16);
//! # drop(query);
//! # Ok::<(), etw_evtx::query::QueryError>(())
//! ```

mod eval;
mod lexer;
mod list;
mod parser;
mod screen;
mod selector;
mod value_path;

use std::fmt;
use std::str::FromStr;

use etw_types::FileTime;

use crate::{Error, Record};

pub(crate) use eval::parse_time;
pub(crate) use screen::Screen;

pub use list::{ListError, QueryList, Select, Selection};
pub use selector::Selector;
pub use value_path::{NodeValue, ValuePath};

/// An XPath expression that was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    path: Path,
    text: String,
}

/// Steps from a node.
#[derive(Clone, Debug, PartialEq)]
struct Path {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
struct Step {
    test: Test,
    predicates: Vec<Expression>,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    /// Elements; `None`: any.
    Element(Option<String>),
    /// Attributes; `None`: any.
    Attribute(Option<String>),
    /// The text of an element.
    Text,
    /// The node itself.
    Itself,
}

#[derive(Clone, Debug, PartialEq)]
enum Expression {
    Or(Box<Expression>, Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Compare(Comparison, Box<Expression>, Box<Expression>),
    Path(Path),
    Text(String),
    Number(f64),
    /// An integer: exact, where an XPath number is not.
    Integer(i128),
    Position,
    Band(Box<Expression>, Box<Expression>),
    /// Milliseconds from the first to the second time; from the first to now.
    TimeDifference(Box<Expression>, Option<Box<Expression>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A query that is not one: where, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueryError {
    column: usize,
    expected: &'static str,
    found: String,
}

impl QueryError {
    /// The character of the query, counted from 1, at which it stops making sense.
    pub fn column(&self) -> usize {
        self.column
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: expected {}, found {}", self.column, self.expected, self.found)
    }
}

impl std::error::Error for QueryError {}

impl FromStr for Query {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Query, QueryError> {
        Ok(Query { path: parser::parse(text)?, text: text.to_owned() })
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Query {
    /// Whether a record satisfies the query. `now` is the time that `timediff` with one argument counts to.
    ///
    /// # Errors
    /// [`Error::TooLarge`]: deciding it would take more work than is allowed.
    pub fn matches(&self, record: &Record<'_>, now: FileTime) -> Result<bool, Error> {
        eval::matches(&self.path, record.fragment(), now)
    }

    /// The range of `EventRecordID` that a match must lie in. In a log that was not exported this is also the record's
    /// own id, so that [`Log::candidates`](crate::Log::candidates) can skip chunks; exported logs number records anew.
    pub fn record_ids(&self) -> std::ops::RangeInclusive<u64> {
        bounds(&self.path)
    }
}

/// The range of `EventRecordID` that every match lies in: from conditions that are joined by `and` only.
fn bounds(path: &Path) -> std::ops::RangeInclusive<u64> {
    let mut range = (0, u64::MAX);
    if let [Step { predicates, .. }] = &path.steps[..] {
        for predicate in predicates {
            narrow(predicate, &[], &mut range);
        }
    }
    range.0..=range.1
}

fn narrow(expression: &Expression, within: &[&str], range: &mut (u64, u64)) {
    match expression {
        Expression::And(a, b) => {
            narrow(a, within, range);
            narrow(b, within, range);
        }
        Expression::Path(Path { steps }) => {
            let names: Option<Vec<&str>> = steps.iter().map(element_name).collect();
            let (Some(names), Some((last, before))) = (names, steps.split_last()) else { return };
            if before.iter().all(|step| step.predicates.is_empty()) {
                let within = [within, &names].concat();
                for predicate in &last.predicates {
                    narrow(predicate, &within, range);
                }
            }
        }
        Expression::Compare(comparison, a, b) => {
            let (Expression::Path(Path { steps }), Expression::Integer(id)) = (&**a, &**b) else {
                return;
            };
            let names: Option<Vec<&str>> = steps.iter().map(element_name).collect();
            let is_plain = steps.iter().all(|step| step.predicates.is_empty());
            let Some(names) = names.filter(|_| is_plain) else { return };
            let Ok(id) = u64::try_from(*id) else { return };
            if [within, &names].concat() != ["System", "EventRecordID"] {
                return;
            }
            let (low, high) = match comparison {
                Comparison::Equal => (id, id),
                Comparison::Less => (0, id.saturating_sub(1)),
                Comparison::LessOrEqual => (0, id),
                Comparison::Greater => (id.saturating_add(1), u64::MAX),
                Comparison::GreaterOrEqual => (id, u64::MAX),
                Comparison::NotEqual => return,
            };
            *range = (range.0.max(low), range.1.min(high));
        }
        _ => {}
    }
}

fn element_name(step: &Step) -> Option<&str> {
    match &step.test {
        Test::Element(Some(name)) => Some(name),
        _ => None,
    }
}
