//! [`Screen`]: a quick test of a record's `System` fields, which rejects most records before they are read whole.
//!
//! A query has no negation, so each of its conditions on `System` that stands alone or is joined by `and` is necessary for a
//! match. The screen holds these conditions; any other condition counts as true. A record that passes is then read and
//! compared with the query itself.

use etw_types::FileTime;

use super::eval::{Atom, atom_of, band, compare, parse_time, time_difference};
use super::list::Select;
use super::{Comparison, Expression, Path, Query, QueryList, Step, Test};
use crate::parse::Outline;
use crate::system::field_of;
use crate::system_plan::{Field, Source};

/// The conditions on `System` that every match of a query meets.
#[derive(Clone, Debug)]
pub(crate) struct Screen {
    check: Check,
    now: FileTime,
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
        Screen { check: Check::of(query), now }
    }

    /// The screen of a list: a match is selected by at least one query of it.
    pub fn of_list(list: &QueryList, now: FileTime) -> Screen {
        let selects = list.queries.iter().flat_map(|one| &one.select);
        Screen { check: any(selects.map(|Select { query, .. }| Check::of(query)).collect()), now }
    }

    /// Whether the screen may reject a record.
    pub fn is_useful(&self) -> bool {
        !matches!(self.check, Check::Maybe)
    }

    /// Whether a record may match, by its template and its values.
    pub fn may_match(&self, record: &Outline<'_>) -> bool {
        let plan = record.template.plan();
        !plan.is_plain || self.check.may_hold(&|field| record.atom(plan.get(field)), self.now)
    }
}

impl Outline<'_> {
    /// The value of a field, if it is one typed value.
    fn atom(&self, source: Option<&Source>) -> Result<Option<Atom>, Unknown> {
        match source {
            Some(Source::Constant(text)) => Ok(Some(Atom::Text(text.clone()))),
            Some(Source::Argument(index)) => {
                let value = self.value(*index).ok_or(Unknown)?;
                match value.is_null() || value.value_type.is_array() || value.scalar().is_none() {
                    true => Err(Unknown),
                    false => Ok(Some(atom_of(value))),
                }
            }
            None => Err(Unknown),
        }
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

    fn may_hold(
        &self,
        value: &impl Fn(Field) -> Result<Option<Atom>, Unknown>,
        now: FileTime,
    ) -> bool {
        let atom = |operand: &Operand| operand.atom(value, now);
        match self {
            Check::Maybe => true,
            Check::All(checks) => checks.iter().all(|check| check.may_hold(value, now)),
            Check::Any(checks) => checks.iter().any(|check| check.may_hold(value, now)),
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
    fn atom(
        &self,
        value: &impl Fn(Field) -> Result<Option<Atom>, Unknown>,
        now: FileTime,
    ) -> Result<Option<Atom>, Unknown> {
        Ok(match self {
            Operand::Field(field) => value(*field)?,
            Operand::Atom(atom) => Some(atom.clone()),
            Operand::Band(a, b) => {
                let (a, b) = (a.atom(value, now)?, b.atom(value, now)?);
                band(a.as_ref(), b.as_ref())
            }
            Operand::TimeDifference(a, b) => {
                let a = a.atom(value, now)?;
                let b = match b {
                    Some(b) => b.atom(value, now)?,
                    None => Some(Atom::Time(now)),
                };
                time_difference(a.as_ref(), b.as_ref())
            }
        })
    }
}
