//! [`Screen`]: a quick test of a record's `System` fields, which rejects most records before they are read whole.
//!
//! A query has no negation, so each of its conditions on `System` that stands alone or is joined by `and` is necessary for a
//! match. The screen holds these conditions; any other condition counts as true. A record that passes is then read and
//! compared with the query itself.

use etw_types::FileTime;

use super::eval::{Atom, atom_of, band, compare, parse_time, time_difference};
use super::list::Select;
use super::{Comparison, Expression, Path, Query, QueryList, Step, Test};
use crate::facts::Facts;
use crate::outline::Outline;
use crate::summary::Summary;
use crate::system::field_of;
use crate::system_plan::{Field, Plan, Source};
use crate::value::ValueType;

/// The conditions on `System` that every match of a query meets.
#[derive(Clone, Debug)]
pub(crate) struct Screen {
    /// Tests of numbers and times that every match passes. Most records fail one of them.
    ranges: Vec<Range>,
    check: Check,
    now: FileTime,
}

/// The values of a field that a match can have.
#[derive(Clone, Copy, Debug)]
struct Range {
    field: Field,
    is_time: bool,
    first: i128,
    last: i128,
}

#[derive(Clone, Debug)]
enum Check {
    /// Nothing is known.
    Maybe,
    All(Vec<Check>),
    Any(Vec<Check>),
    Compare(Comparison, Operand, Operand),
    /// An operand that is true alone: `band(Keywords, 1)`.
    Truth(Operand),
}

#[derive(Clone, Debug)]
enum Operand {
    Field(Field),
    Atom(Atom),
    Band(Box<Operand>, Box<Operand>),
    TimeDifference(Box<Operand>, Option<Box<Operand>>),
}

/// The record must be read to know the value.
struct Unknown;

impl Screen {
    pub fn of(query: &Query, now: FileTime) -> Screen {
        Screen::new(Check::of(query), now)
    }

    fn new(check: Check, now: FileTime) -> Screen {
        let mut ranges = Vec::new();
        check.add_ranges(&mut ranges);
        Screen { ranges, check, now }
    }

    /// The screen of a list: a match is selected by at least one query of it.
    pub fn of_list(list: &QueryList, now: FileTime) -> Screen {
        let selects = list.queries.iter().flat_map(|one| &one.select);
        Screen::new(any(selects.map(|Select { query, .. }| Check::of(query)).collect()), now)
    }

    /// Whether the screen may reject a record.
    pub fn is_useful(&self) -> bool {
        !matches!(self.check, Check::Maybe)
    }

    /// Whether a record of a chunk may match, by the values of a template with these facts.
    #[inline]
    pub fn may_match(&self, chunk: &[u8], record: &Outline, facts: &Facts) -> bool {
        let Some(plan) = facts.system.get().filter(|plan| plan.is_plain) else { return true };
        let fields = Fields { chunk, record, plan };
        let is_outside = |range: &Range| {
            let value = match range.is_time {
                true => fields.time(range.field).map(|time| i128::from(time.0)),
                false => fields.number(range.field),
            };
            value.is_some_and(|value| value < range.first || value > range.last)
        };
        !self.ranges.iter().any(is_outside) && self.check.may_hold(&fields, self.now)
    }

    /// Whether a record of a chunk with this summary may match.
    pub fn may_match_chunk(&self, summary: &Summary) -> bool {
        self.check.may_hold_in(summary, self.now)
    }
}

/// The fields of `System` of a record.
struct Fields<'r> {
    chunk: &'r [u8],
    record: &'r Outline,
    plan: &'r Plan,
}

impl Fields<'_> {
    /// The value of a field, if it is one typed value.
    fn atom(&self, field: Field) -> Result<Option<Atom>, Unknown> {
        match self.plan.get(field) {
            Some(Source::Constant(text)) => Ok(Some(Atom::Text(text.clone()))),
            Some(Source::Argument(index)) => {
                let value = self.record.value(self.chunk, *index).ok_or(Unknown)?;
                match value.is_null() || value.value_type.is_array() || value.scalar().is_none() {
                    true => Err(Unknown),
                    false => Ok(Some(atom_of(value))),
                }
            }
            None => Err(Unknown),
        }
    }

    /// The value of a field that is an unsigned number or a time, as a number.
    #[inline]
    fn number(&self, field: Field) -> Option<i128> {
        let Some(Source::Argument(index)) = self.plan.get(field) else { return None };
        let value = self.record.value(self.chunk, *index)?;
        let bytes = value.bytes;
        Some(match value.value_type {
            ValueType::UINT8 => i128::from(*bytes.first()?),
            ValueType::UINT16 => i128::from(u16::from_le_bytes(*bytes.first_chunk()?)),
            ValueType::UINT32 => i128::from(u32::from_le_bytes(*bytes.first_chunk()?)),
            ValueType::UINT64 => i128::from(u64::from_le_bytes(*bytes.first_chunk()?)),
            _ => return None,
        })
    }

    /// The value of a field that is a `FILETIME`.
    #[inline]
    fn time(&self, field: Field) -> Option<FileTime> {
        let Some(Source::Argument(index)) = self.plan.get(field) else { return None };
        let value = self.record.value(self.chunk, *index)?;
        let is_time = value.value_type == ValueType::FILETIME;
        is_time.then(|| Some(FileTime(i64::from_le_bytes(*value.bytes.first_chunk()?))))?
    }
}

fn any(checks: Vec<Check>) -> Check {
    match checks.iter().any(|check| matches!(check, Check::Maybe)) {
        true => Check::Maybe,
        false => Check::Any(checks),
    }
}

fn all(mut checks: Vec<Check>) -> Check {
    checks.retain(|check| !matches!(check, Check::Maybe));
    match checks.is_empty() {
        true => Check::Maybe,
        false => Check::All(checks),
    }
}

impl Check {
    fn of(query: &Query) -> Check {
        let mut checks = Vec::new();
        let Some((event, rest)) = query.path.steps.split_first() else { return Check::Maybe };
        checks.extend(event.predicates.iter().map(|one| Check::of_predicate(one, &[])));
        Check::add_steps(&mut checks, &[], rest);
        all(checks)
    }

    /// The conditions of the steps of a path that begins at the element `within`. Only `System` has known fields.
    fn add_steps(checks: &mut Vec<Check>, within: &[&str], steps: &[Step]) {
        let mut names = within.to_vec();
        for step in steps {
            match &step.test {
                Test::Element(Some(name)) => names.push(name),
                Test::Itself => {}
                _ => return,
            }
            if names.first() != Some(&"System") {
                return;
            }
            let predicates = step.predicates.iter();
            checks.extend(predicates.map(|one| Check::of_predicate(one, &names)));
        }
    }

    fn of_predicate(expression: &Expression, within: &[&str]) -> Check {
        match expression {
            Expression::Or(a, b) => {
                any(vec![Check::of_predicate(a, within), Check::of_predicate(b, within)])
            }
            Expression::And(a, b) => {
                all(vec![Check::of_predicate(a, within), Check::of_predicate(b, within)])
            }
            Expression::Path(Path { steps }) => {
                let mut checks = Vec::new();
                Check::add_steps(&mut checks, within, steps);
                all(checks)
            }
            Expression::Compare(comparison, a, b) => {
                match (Operand::of(a, within), Operand::of(b, within)) {
                    (Some(mut a), Some(mut b)) => {
                        if a.is_time() || b.is_time() {
                            a.read_time();
                            b.read_time();
                        }
                        Check::Compare(*comparison, a, b)
                    }
                    _ => Check::Maybe,
                }
            }
            Expression::Band(..) => {
                Operand::of(expression, within).map_or(Check::Maybe, Check::Truth)
            }
            // A number alone is a position.
            _ => Check::Maybe,
        }
    }

    /// The ranges of fields that are necessary for this condition.
    fn add_ranges(&self, ranges: &mut Vec<Range>) {
        let (comparison, field, other) = match self {
            Check::All(checks) => return checks.iter().for_each(|check| check.add_ranges(ranges)),
            Check::Compare(comparison, Operand::Field(field), Operand::Atom(other)) => {
                (comparison, *field, other)
            }
            _ => return,
        };
        let (value, is_time) = match other {
            Atom::Integer(value) => (*value, false),
            Atom::Time(time) => (i128::from(time.0), true),
            _ => return,
        };
        let (first, last) = match comparison {
            Comparison::Equal => (value, value),
            Comparison::Less => (i128::MIN, value.saturating_sub(1)),
            Comparison::LessOrEqual => (i128::MIN, value),
            Comparison::Greater => (value.saturating_add(1), i128::MAX),
            Comparison::GreaterOrEqual => (value, i128::MAX),
            Comparison::NotEqual => return,
        };
        ranges.push(Range { field, is_time, first, last });
    }

    /// Whether the condition may hold for a record of a chunk with this summary.
    fn may_hold_in(&self, summary: &Summary, now: FileTime) -> bool {
        match self {
            Check::All(checks) => checks.iter().all(|check| check.may_hold_in(summary, now)),
            Check::Any(checks) => checks.iter().any(|check| check.may_hold_in(summary, now)),
            Check::Compare(
                Comparison::Equal,
                Operand::Field(Field::EventId),
                Operand::Atom(Atom::Integer(id)),
            ) => u16::try_from(*id).is_ok_and(|id| summary.may_have_id(id)),
            Check::Compare(
                comparison,
                Operand::Field(Field::TimeCreated),
                Operand::Atom(Atom::Time(time)),
            ) => {
                let (first, last) = (summary.first_time, summary.last_time);
                match comparison {
                    Comparison::Equal => first <= *time && *time <= last,
                    Comparison::Less => first < *time,
                    Comparison::LessOrEqual => first <= *time,
                    Comparison::Greater => last > *time,
                    Comparison::GreaterOrEqual => last >= *time,
                    Comparison::NotEqual => true,
                }
            }
            // The difference to now falls as the time rises.
            Check::Compare(
                comparison,
                Operand::TimeDifference(time, None),
                Operand::Atom(Atom::Integer(limit)),
            ) if time.is_time() => {
                let to_now = |time: FileTime| {
                    let difference =
                        time_difference(Some(&Atom::Time(time)), Some(&Atom::Time(now)));
                    difference.is_some_and(|one| compare(*comparison, &one, &Atom::Integer(*limit)))
                };
                match comparison {
                    Comparison::Less | Comparison::LessOrEqual => to_now(summary.last_time),
                    Comparison::Greater | Comparison::GreaterOrEqual => to_now(summary.first_time),
                    _ => true,
                }
            }
            _ => true,
        }
    }

    fn may_hold(&self, fields: &Fields<'_>, now: FileTime) -> bool {
        let atom = |operand: &Operand| operand.atom(fields, now);
        match self {
            Check::Maybe => true,
            Check::All(checks) => checks.iter().all(|check| check.may_hold(fields, now)),
            Check::Any(checks) => checks.iter().any(|check| check.may_hold(fields, now)),
            Check::Compare(comparison, a, b) => match (atom(a), atom(b)) {
                (Ok(Some(a)), Ok(Some(b))) => compare(*comparison, &a, &b),
                (Err(Unknown), _) | (_, Err(Unknown)) => true,
                _ => false,
            },
            Check::Truth(operand) => match atom(operand) {
                Ok(Some(Atom::Integer(number))) => number != 0,
                Ok(None) => false,
                _ => true,
            },
        }
    }
}

impl Operand {
    /// The operand, if it needs nothing but literals and fields of `System`.
    fn of(expression: &Expression, within: &[&str]) -> Option<Operand> {
        let boxed = |one: &Expression| Operand::of(one, within).map(Box::new);
        Some(match expression {
            Expression::Text(text) => Operand::Atom(Atom::Text(text.clone())),
            Expression::Integer(number) => Operand::Atom(Atom::Integer(*number)),
            Expression::Number(number) => Operand::Atom(Atom::Number(*number)),
            Expression::Band(a, b) => Operand::Band(boxed(a)?, boxed(b)?),
            Expression::TimeDifference(a, None) => Operand::TimeDifference(boxed(a)?, None),
            Expression::TimeDifference(a, Some(b)) => {
                Operand::TimeDifference(boxed(a)?, Some(boxed(b)?))
            }
            Expression::Path(Path { steps }) => {
                let mut names = within.to_vec();
                let mut attribute = "";
                for step in steps {
                    match &step.test {
                        _ if !step.predicates.is_empty() || !attribute.is_empty() => return None,
                        Test::Element(Some(name)) => names.push(name),
                        Test::Attribute(Some(name)) => attribute = name,
                        Test::Itself => {}
                        _ => return None,
                    }
                }
                let ["System", element] = names[..] else { return None };
                Operand::Field(field_of(element, attribute)?)
            }
            _ => return None,
        })
    }

    fn is_time(&self) -> bool {
        matches!(self, Operand::Field(Field::TimeCreated))
    }

    /// Reads a literal that is compared with a time, once for all records.
    fn read_time(&mut self) {
        if let Operand::Atom(Atom::Text(text)) = self
            && let Some(time) = parse_time(text)
        {
            *self = Operand::Atom(Atom::Time(time));
        }
    }

    /// The value; `None`: it has none, like `band` of a text.
    fn atom(&self, fields: &Fields<'_>, now: FileTime) -> Result<Option<Atom>, Unknown> {
        Ok(match self {
            Operand::Field(field) => fields.atom(*field)?,
            Operand::Atom(atom) => Some(atom.clone()),
            Operand::Band(a, b) => {
                let (a, b) = (a.atom(fields, now)?, b.atom(fields, now)?);
                band(a.as_ref(), b.as_ref())
            }
            Operand::TimeDifference(a, b) => {
                let a = a.atom(fields, now)?;
                let b = match b {
                    Some(b) => b.atom(fields, now)?,
                    None => Some(Atom::Time(now)),
                };
                time_difference(a.as_ref(), b.as_ref())
            }
        })
    }
}
