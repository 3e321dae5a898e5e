//! Queries on records, without rendering them.

use std::cmp::Ordering;

use etw_types::{FileTime, Guid};

use super::{Comparison, Expression, NodeValue, Path, Step, Test};
use crate::Error;
use crate::tree::{Argument, Attribute, Budget, Content, Element, Fragment, Node, entity};
use crate::value::{Scalar, Value};

/// A node of an event.
#[derive(Clone, Copy)]
enum At<'f, 'a> {
    Element(ElementAt<'f, 'a>),
    Attribute(&'f Attribute, Content<'f, 'a>),
    /// The text of an element.
    Text(ElementAt<'f, 'a>),
}

#[derive(Clone, Copy)]
struct ElementAt<'f, 'a> {
    element: &'f Element,
    content: Content<'f, 'a>,
    /// The item of an array that this repetition of the element shows.
    item: Option<Value<'a>>,
}

pub fn matches(path: &Path, fragment: &Fragment<'_>, now: FileTime) -> Result<bool, Error> {
    let mut evaluation = Evaluation { now, budget: Budget::new() };
    Ok(!evaluation.find(path, fragment)?.is_empty())
}

/// The content of the first node that a path leads to.
pub fn first_value<'a>(
    path: &Path,
    fragment: &Fragment<'a>,
) -> Result<Option<NodeValue<'a>>, Error> {
    let mut evaluation = Evaluation { now: FileTime(0), budget: Budget::new() };
    let found = evaluation.find(path, fragment)?;
    let Some(node) = found.first() else { return Ok(None) };
    Ok(Some(match evaluation.content_of(*node)? {
        Found::Value(value) => NodeValue::Value(value),
        Found::Text(text) => NodeValue::Text(text),
    }))
}

impl Evaluation {
    /// The nodes that a path leads to from the event.
    fn find<'f, 'a>(
        &mut self,
        path: &Path,
        fragment: &'f Fragment<'a>,
    ) -> Result<Vec<At<'f, 'a>>, Error> {
        let content = fragment.content();
        let mut roots = Vec::new();
        for node in content.nodes {
            if let Node::Element(element) = node {
                roots.push(At::Element(ElementAt { element, content, item: None }));
            }
        }
        let Some((first, rest)) = path.steps.split_first() else { return Ok(Vec::new()) };
        let roots = roots.into_iter().filter(|root| match (&first.test, root) {
            (Test::Element(Some(name)), At::Element(at)) => *at.element.name == **name,
            _ => true,
        });
        let found = self.filter(roots.collect(), first)?;
        self.follow(found, rest)
    }
}

/// The content of a node: one value alone keeps its type, anything else is text.
enum Found<'a> {
    Value(Value<'a>),
    Text(String),
}

struct Evaluation {
    now: FileTime,
    budget: Budget,
}

/// The value of an expression.
enum Outcome<'f, 'a> {
    Nodes(Vec<At<'f, 'a>>),
    Atom(Atom),
    Bool(bool),
}

impl Outcome<'_, '_> {
    /// The value of a function; without one, no node.
    fn of(atom: Option<Atom>) -> Self {
        atom.map_or(Outcome::Nodes(Vec::new()), Outcome::Atom)
    }
}

/// A typed value.
#[derive(Clone, Debug)]
pub(super) enum Atom {
    Integer(i128),
    Number(f64),
    Time(FileTime),
    Guid(Guid),
    Bool(bool),
    Text(String),
}

impl Evaluation {
    fn follow<'f, 'a>(
        &mut self,
        mut nodes: Vec<At<'f, 'a>>,
        steps: &[Step],
    ) -> Result<Vec<At<'f, 'a>>, Error> {
        for step in steps {
            let mut next = Vec::new();
            for node in nodes {
                let found = self.children(node, &step.test)?;
                next.extend(self.filter(found, step)?);
            }
            nodes = next;
        }
        Ok(nodes)
    }

    fn filter<'f, 'a>(
        &mut self,
        mut nodes: Vec<At<'f, 'a>>,
        step: &Step,
    ) -> Result<Vec<At<'f, 'a>>, Error> {
        for predicate in &step.predicates {
            let mut kept = Vec::new();
            for (index, node) in nodes.into_iter().enumerate() {
                let is_kept = match predicate {
                    Expression::Integer(position) => *position == index as i128 + 1,
                    _ => self.is_true(predicate, node, index + 1)?,
                };
                if is_kept {
                    kept.push(node);
                }
            }
            nodes = kept;
        }
        Ok(nodes)
    }

    fn children<'f, 'a>(
        &mut self,
        node: At<'f, 'a>,
        test: &Test,
    ) -> Result<Vec<At<'f, 'a>>, Error> {
        self.budget.spend(1)?;
        let mut found = Vec::new();
        match (test, node) {
            (Test::Itself, _) => found.push(node),
            (Test::Text, At::Element(at)) => {
                // An element without text has no text node.
                let is_empty =
                    matches!(self.atom(At::Text(at))?, Atom::Text(text) if text.is_empty());
                if !is_empty {
                    found.push(At::Text(at));
                }
            }
            (Test::Element(name), At::Element(at)) if at.item.is_none() => {
                self.elements(&at.element.children, at.content, name.as_deref(), &mut found)?;
            }
            (Test::Attribute(name), At::Element(at)) => {
                let all = at.content.attributes(at.element);
                let of_name =
                    all.filter(|one| name.as_deref().is_none_or(|name| *one.name == *name));
                found.extend(of_name.map(|one| At::Attribute(one, at.content)));
            }
            _ => {}
        }
        Ok(found)
    }

    /// Elements among nodes, with those of fragments that are substituted there.
    fn elements<'f, 'a>(
        &mut self,
        nodes: &'f [Node],
        content: Content<'f, 'a>,
        name: Option<&str>,
        found: &mut Vec<At<'f, 'a>>,
    ) -> Result<(), Error> {
        for node in nodes {
            self.budget.spend(1)?;
            match node {
                Node::Element(element) => {
                    if name.is_some_and(|name| *element.name != *name) || content.is_hidden(element)
                    {
                        continue;
                    }
                    match content.repeated(element) {
                        Some(array) => found.extend(array.items().map(|item| {
                            At::Element(ElementAt { element, content, item: Some(item) })
                        })),
                        None => {
                            found.push(At::Element(ElementAt { element, content, item: None }));
                        }
                    }
                }
                Node::Substitution(one) => {
                    if let Some(Argument::Fragment(fragment)) = content.argument(one.index) {
                        let inner = fragment.content();
                        self.elements(inner.nodes, inner, name, found)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn is_true(
        &mut self,
        expression: &Expression,
        node: At<'_, '_>,
        position: usize,
    ) -> Result<bool, Error> {
        Ok(match expression {
            Expression::Or(a, b) => {
                self.is_true(a, node, position)? || self.is_true(b, node, position)?
            }
            Expression::And(a, b) => {
                self.is_true(a, node, position)? && self.is_true(b, node, position)?
            }
            _ => match self.value(expression, node, position)? {
                Outcome::Nodes(nodes) => !nodes.is_empty(),
                Outcome::Bool(value) => value,
                Outcome::Atom(Atom::Integer(value)) => value != 0,
                Outcome::Atom(Atom::Number(value)) => value != 0.0,
                Outcome::Atom(Atom::Text(text)) => !text.is_empty(),
                Outcome::Atom(Atom::Bool(value)) => value,
                Outcome::Atom(_) => true,
            },
        })
    }

    fn value<'f, 'a>(
        &mut self,
        expression: &Expression,
        node: At<'f, 'a>,
        position: usize,
    ) -> Result<Outcome<'f, 'a>, Error> {
        self.budget.spend(1)?;
        Ok(match expression {
            Expression::Path(path) => Outcome::Nodes(self.follow(vec![node], &path.steps)?),
            Expression::Text(text) => Outcome::Atom(Atom::Text(text.clone())),
            Expression::Integer(value) => Outcome::Atom(Atom::Integer(*value)),
            Expression::Number(value) => Outcome::Atom(Atom::Number(*value)),
            Expression::Position => Outcome::Atom(Atom::Integer(position as i128)),
            Expression::Or(..) | Expression::And(..) => {
                Outcome::Bool(self.is_true(expression, node, position)?)
            }
            Expression::Compare(comparison, a, b) => {
                let left = self.atoms(a, node, position)?;
                let right = self.atoms(b, node, position)?;
                let is_true = left
                    .iter()
                    .any(|left| right.iter().any(|right| compare(*comparison, left, right)));
                Outcome::Bool(is_true)
            }
            Expression::Band(a, b) => {
                let left = self.atoms(a, node, position)?;
                let right = self.atoms(b, node, position)?;
                Outcome::of(band(left.first(), right.first()))
            }
            Expression::TimeDifference(a, b) => {
                let first = self.atoms(a, node, position)?;
                let second = match b {
                    Some(b) => self.atoms(b, node, position)?,
                    None => vec![Atom::Time(self.now)],
                };
                Outcome::of(time_difference(first.first(), second.first()))
            }
        })
    }

    fn atoms(
        &mut self,
        expression: &Expression,
        node: At<'_, '_>,
        position: usize,
    ) -> Result<Vec<Atom>, Error> {
        Ok(match self.value(expression, node, position)? {
            Outcome::Atom(atom) => vec![atom],
            Outcome::Bool(value) => vec![Atom::Bool(value)],
            Outcome::Nodes(nodes) => {
                let mut atoms = Vec::with_capacity(nodes.len());
                for node in nodes {
                    atoms.push(self.atom(node)?);
                }
                atoms
            }
        })
    }

    /// The value of a node.
    fn atom(&mut self, node: At<'_, '_>) -> Result<Atom, Error> {
        match self.content_of(node)? {
            Found::Value(value) => self.atom_of(value),
            Found::Text(text) => Ok(Atom::Text(text)),
        }
    }

    fn content_of<'a>(&mut self, node: At<'_, 'a>) -> Result<Found<'a>, Error> {
        let (nodes, content) = match node {
            At::Attribute(attribute, content) => (&attribute.value[..], content),
            At::Element(at) | At::Text(at) => match at.item {
                Some(item) => return Ok(Found::Value(item)),
                None => (&at.element.children[..], at.content),
            },
        };
        if let [Node::Substitution(one)] = nodes
            && let Some(Argument::Value(value)) = content.argument(one.index)
        {
            return Ok(Found::Value(*value));
        }
        let mut text = String::new();
        self.push_text(&mut text, nodes, content)?;
        Ok(Found::Text(text))
    }

    fn atom_of(&mut self, value: Value<'_>) -> Result<Atom, Error> {
        self.budget.spend(1 + value.bytes.len() / 16)?;
        Ok(atom_of(value))
    }

    /// All text inside of nodes, that of elements in them too.
    fn push_text(
        &mut self,
        out: &mut String,
        nodes: &[Node],
        content: Content<'_, '_>,
    ) -> Result<(), Error> {
        for node in nodes {
            self.budget.spend(1)?;
            match node {
                Node::Text(text) | Node::CData(text) => out.push_str(text),
                Node::CharacterReference(code) => out.extend(char::from_u32(u32::from(*code))),
                Node::EntityReference(name) => out.extend(entity(name)),
                Node::Element(element) => {
                    if !content.is_hidden(element) {
                        self.push_text(out, &element.children, content)?;
                    }
                }
                Node::Substitution(one) => match content.argument(one.index) {
                    Some(Argument::Value(value)) => {
                        self.budget.spend(value.bytes.len() / 16)?;
                        for item in value.items() {
                            if let Some(scalar) = item.scalar() {
                                scalar.push_text(out);
                            }
                        }
                    }
                    Some(Argument::Fragment(fragment)) => {
                        let inner = fragment.content();
                        self.push_text(out, inner.nodes, inner)?;
                    }
                    None => {}
                },
                Node::Instruction(..) => {}
            }
        }
        Ok(())
    }
}

/// The typed value of a value; text of an absent one is empty.
pub(super) fn atom_of(value: Value<'_>) -> Atom {
    match value.scalar().filter(|_| !value.is_null()) {
        Some(Scalar::Signed(number)) => Atom::Integer(i128::from(number)),
        Some(Scalar::Unsigned(number) | Scalar::Hex(number)) => Atom::Integer(i128::from(number)),
        Some(Scalar::Float(number)) => Atom::Number(number),
        Some(Scalar::Bool(value)) => Atom::Bool(value),
        Some(Scalar::Guid(guid)) => Atom::Guid(guid),
        Some(Scalar::FileTime(time)) => Atom::Time(time),
        Some(Scalar::SystemTime(time)) => match FileTime::from_system_time(&time) {
            Some(time) => Atom::Time(time),
            None => Atom::Text(String::new()),
        },
        Some(other) => {
            let mut text = String::new();
            other.push_text(&mut text);
            Atom::Text(text)
        }
        None => Atom::Text(String::new()),
    }
}

/// `band`: the bits that two numbers share; `None` unless both are integers.
pub(super) fn band(left: Option<&Atom>, right: Option<&Atom>) -> Option<Atom> {
    Some(Atom::Integer(integer(left?)? & integer(right?)?))
}

/// `timediff`: milliseconds from the first to the second time; `None` unless both are times.
pub(super) fn time_difference(first: Option<&Atom>, second: Option<&Atom>) -> Option<Atom> {
    let ticks = i128::from(time(second?)?.0) - i128::from(time(first?)?.0);
    Some(Atom::Integer(ticks / 10_000))
}

fn integer(atom: &Atom) -> Option<i128> {
    match atom {
        Atom::Integer(value) => Some(*value),
        Atom::Number(value) if value.fract() == 0.0 => Some(*value as i128),
        Atom::Text(text) => {
            let text = text.trim();
            match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
                Some(digits) => i128::from_str_radix(digits, 16).ok(),
                None => text.parse().ok(),
            }
        }
        _ => None,
    }
}

fn number(atom: &Atom) -> Option<f64> {
    match atom {
        Atom::Number(value) => Some(*value),
        Atom::Text(text) => text.trim().parse().ok(),
        other => integer(other).map(|value| value as f64),
    }
}

fn time(atom: &Atom) -> Option<FileTime> {
    match atom {
        Atom::Time(time) => Some(*time),
        Atom::Text(text) => parse_time(text),
        _ => None,
    }
}

/// `2017-07-12T17:16:28.214161600Z`: to nine decimals, with or without `Z`, a date alone too.
pub(crate) fn parse_time(text: &str) -> Option<FileTime> {
    let text = text.trim();
    let (date, clock) = text.split_once(['T', ' ']).unwrap_or((text, "00:00:00"));
    let mut parts = date.split('-').map(|part| part.parse::<u16>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let clock = clock.trim_end_matches('Z');
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut parts = clock.split(':').map(|part| part.parse::<u16>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) || fraction.len() > 9 {
        return None;
    }
    let time = etw_types::SystemTime {
        year,
        month,
        day,
        hour,
        minute,
        second,
        ..etw_types::SystemTime::default()
    };
    let ticks: i64 = format!("{fraction:0<9}").parse::<i64>().ok()? / 100;
    Some(FileTime(FileTime::from_system_time(&time)?.0 + ticks))
}

/// Both sides in the type of the more specific one; text where neither has one. What cannot be compared is not equal.
pub(super) fn compare(comparison: Comparison, left: &Atom, right: &Atom) -> bool {
    let order = match (left, right) {
        (Atom::Time(_), _) | (_, Atom::Time(_)) => {
            time(left).zip(time(right)).map(|(left, right)| left.cmp(&right))
        }
        (Atom::Guid(guid), Atom::Text(text)) | (Atom::Text(text), Atom::Guid(guid)) => {
            text.trim().parse().ok().map(|other: Guid| guid.cmp(&other))
        }
        (Atom::Guid(left), Atom::Guid(right)) => Some(left.cmp(right)),
        (Atom::Bool(_), _) | (_, Atom::Bool(_)) => {
            truth(left).zip(truth(right)).map(|(left, right)| left.cmp(&right))
        }
        (Atom::Number(_), _) | (_, Atom::Number(_)) => {
            number(left).zip(number(right)).and_then(|(left, right)| left.partial_cmp(&right))
        }
        (Atom::Integer(_), _) | (_, Atom::Integer(_)) => match integer(left).zip(integer(right)) {
            Some((left, right)) => Some(left.cmp(&right)),
            None => {
                number(left).zip(number(right)).and_then(|(left, right)| left.partial_cmp(&right))
            }
        },
        (Atom::Text(left), Atom::Text(right)) => match comparison {
            Comparison::Equal | Comparison::NotEqual => Some(left.cmp(right)),
            // XPath orders numbers only.
            _ => parse_time(left)
                .zip(parse_time(right))
                .map(|(left, right)| left.cmp(&right))
                .or_else(|| {
                    let left = number(&Atom::Text(left.clone()))?;
                    left.partial_cmp(&number(&Atom::Text(right.clone()))?)
                }),
        },
    };
    let Some(order) = order else { return comparison == Comparison::NotEqual };
    match comparison {
        Comparison::Equal => order == Ordering::Equal,
        Comparison::NotEqual => order != Ordering::Equal,
        Comparison::Less => order == Ordering::Less,
        Comparison::LessOrEqual => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::GreaterOrEqual => order != Ordering::Less,
    }
}

fn truth(atom: &Atom) -> Option<bool> {
    match atom {
        Atom::Bool(value) => Some(*value),
        Atom::Text(text) => match text.trim() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        },
        other => integer(other).map(|value| value != 0),
    }
}
