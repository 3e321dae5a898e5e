//! Events as JSON.
//!
//! An element is an object of its attributes (`#attributes`), its elements by name, and its text (`#text`); an element
//! of nothing but text is that text, an empty one `null`. Names that come again are numbered: `Data`, `Data#2`. `Data`
//! elements of `EventData` go by their `Name`. Integers are numbers; hex, GUIDs, SIDs, times and binary are strings.

mod planned;
mod utf16;

use std::borrow::Cow;

pub(crate) use self::planned::push_record;
use self::planned::{GAP, Recording};
use self::utf16::push_utf16_content;
use crate::Error;
use crate::json_plan::{Plans, Repeated};
use crate::tree::{
    Argument, Attribute, Budget, Content, Element, Fragment, Instance, MAX_WORK, Node, entity,
};
use crate::value::{Scalar, Text, Value, push_decimal, push_guid, push_hex};

/// Appends a fragment as one object.
///
/// # Errors
/// [`Error::TooLarge`] where it expands beyond [`MAX_WORK`].
pub fn push(out: &mut String, fragment: &Fragment<'_>) -> Result<(), Error> {
    if let Fragment::Instance(event) = fragment {
        let plans = &planned::home(event).json;
        if let Some(json) = planned::render(plans, event) {
            match out.is_empty() {
                true => *out = json,
                false => out.push_str(&json),
            }
            return Ok(());
        }
        if plans.wants_plan() {
            make_plan(fragment, event, plans);
        }
    }
    out.reserve(1024);
    push_walked(out, fragment, &mut Work::new())
}

fn push_walked<'f, 'a>(
    out: &mut String,
    fragment: &'f Fragment<'a>,
    work: &mut Work<'f, 'a>,
) -> Result<(), Error> {
    let mut object = Object::open(out);
    push_members(&mut object, fragment.content(), work)?;
    object.close();
    Ok(())
}

/// Makes the plan for the shape of an event, unless the event is too large.
fn make_plan(fragment: &Fragment<'_>, event: &Instance<'_>, plans: &Plans) {
    let mut work = Work { recording: Some(Recording::new(event)), ..Work::new() };
    let mut text = String::with_capacity(1024);
    if push_walked(&mut text, fragment, &mut work).is_err() {
        return;
    }
    if let Some(recording) = work.recording {
        recording.finish(plans, &text, MAX_WORK - work.budget.left());
    }
}

/// The work that is left, and the plan that is being made.
struct Work<'f, 'a> {
    budget: Budget,
    recording: Option<Recording<'f, 'a>>,
}

impl Work<'_, '_> {
    fn new() -> Self {
        Work { budget: Budget::new(), recording: None }
    }

    fn spend(&mut self, work: usize) -> Result<(), Error> {
        self.budget.spend(work)
    }

    /// Values are rendered in a way that no plan has.
    fn give_up_plan(&mut self) {
        if let Some(recording) = &mut self.recording {
            recording.give_up();
        }
    }
}

/// Appends the members of an element's content as one object, `Data` elements by their `Name`.
///
/// # Errors
/// As [`push`].
pub fn push_data(
    out: &mut String,
    element: &Element,
    content: Content<'_, '_>,
) -> Result<(), Error> {
    let mut work = Work::new();
    let mut object = Object::open(out);
    for node in &element.children {
        push_member(&mut object, node, content, &mut work)?;
    }
    object.close();
    Ok(())
}

/// Stands for the number of members with a name, where each event of a shape has its own.
const UNKNOWN: usize = usize::MAX;

/// An object under construction: knows the names it has.
struct Object<'o, 'n> {
    out: &'o mut String,
    names: Vec<(Cow<'n, str>, usize)>,
}

impl<'o, 'n> Object<'o, 'n> {
    fn open(out: &'o mut String) -> Object<'o, 'n> {
        out.push('{');
        Object { out, names: Vec::with_capacity(16) }
    }

    /// Writes a name and a colon.
    fn name(&mut self, name: impl Into<Cow<'n, str>>) {
        let name = name.into();
        if !self.names.is_empty() {
            self.out.push(',');
        }
        match self.names.iter_mut().find(|(known, _)| *known == name) {
            // There is no plan for a gap without a value.
            Some((_, UNKNOWN)) => self.out.push(GAP),
            Some((_, count)) => {
                *count += 1;
                let numbered = format!("{name}#{count}");
                push_string(self.out, &numbered);
            }
            None => {
                push_string(self.out, &name);
                self.names.push((name, 1));
            }
        }
        self.out.push(':');
    }

    /// Returns the number of members that have a name. From now on, it is unknown.
    fn repeat(&mut self, name: &'n str) -> usize {
        match self.names.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => std::mem::replace(count, UNKNOWN),
            None => {
                self.names.push((name.into(), UNKNOWN));
                0
            }
        }
    }

    fn close(self) {
        self.out.push('}');
    }
}

fn push_members<'f, 'a>(
    object: &mut Object<'_, 'f>,
    content: Content<'f, 'a>,
    work: &mut Work<'f, 'a>,
) -> Result<(), Error> {
    for node in content.nodes {
        match node {
            Node::Element(element) => push_element(object, element, content, None, work)?,
            _ => push_member(object, node, content, work)?,
        }
    }
    Ok(())
}

/// Elements only: an element's text is collected by [`push_text_of`].
fn push_member<'f, 'a>(
    object: &mut Object<'_, 'f>,
    node: &'f Node,
    content: Content<'f, 'a>,
    work: &mut Work<'f, 'a>,
) -> Result<(), Error> {
    work.spend(1)?;
    match node {
        Node::Element(element) if !content.is_hidden(element) => match content.repeated(element) {
            Some(array) if work.recording.is_some() => {
                record_members(object, element, content, array, work);
            }
            Some(array) => {
                for item in array.items() {
                    push_element(object, element, content, Some(item), work)?;
                }
            }
            None => push_element(object, element, content, None, work)?,
        },
        Node::Substitution(one) => {
            if let Some(Argument::Fragment(fragment)) = content.argument(one.index) {
                if let Some(recording) = &mut work.recording {
                    recording.enter(content, one.index, fragment);
                }
                push_members(object, fragment.content(), work)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Leaves a gap in a plan for the members that an element makes of an array.
fn record_members<'f, 'a>(
    object: &mut Object<'_, 'f>,
    element: &'f Element,
    content: Content<'f, 'a>,
    array: Value<'a>,
    work: &mut Work<'f, 'a>,
) {
    if array.bytes.is_empty() {
        return;
    }
    let attributes: Vec<&Attribute> = content.attributes(element).collect();
    let name = match &attributes[..] {
        [] => &*element.name,
        [one] if &*element.name == "Data" && &*one.name == "Name" => match &one.value[..] {
            [Node::Text(name)] => name.as_str(),
            _ => return work.give_up_plan(),
        },
        _ => return work.give_up_plan(),
    };
    let ([Node::Substitution(one)], Some(recording)) = (&element.children[..], &mut work.recording)
    else {
        return;
    };
    let is_first = object.names.is_empty();
    let known = object.repeat(name);
    if known == UNKNOWN {
        return recording.give_up();
    }
    let mut escaped = Vec::new();
    push_escaped(&mut escaped, name);
    let repeated = Repeated { name: escaped, known, is_first, value_type: array.value_type };
    recording.members(content, one.index, object.out.len(), repeated);
    object.out.push(GAP);
}

fn push_element<'f, 'a>(
    object: &mut Object<'_, 'f>,
    element: &'f Element,
    content: Content<'f, 'a>,
    item: Option<Value<'_>>,
    work: &mut Work<'f, 'a>,
) -> Result<(), Error> {
    work.spend(1)?;
    let attributes: Vec<&Attribute> = content.attributes(element).collect();
    let is_named =
        &*element.name == "Data" && attributes.len() == 1 && &*attributes[0].name == "Name";
    if is_named {
        match &attributes[0].value[..] {
            [Node::Text(name)] => object.name(name.as_str()),
            pieces => {
                let mut name = String::new();
                push_mixed(&mut name, pieces, content, work)?;
                object.name(name);
            }
        }
    } else {
        object.name(&*element.name);
    }
    let has_attributes = !is_named && !attributes.is_empty();
    let has_elements = item.is_none()
        && element.children.iter().any(|node| match node {
            Node::Element(_) => true,
            Node::Substitution(one) => {
                matches!(content.argument(one.index), Some(Argument::Fragment(_)))
            }
            _ => false,
        });
    if !has_attributes && !has_elements {
        return push_text_of(object.out, element, content, item, work);
    }
    let mut inner = Object::open(object.out);
    if has_attributes {
        inner.name("#attributes");
        let mut values = Object::open(inner.out);
        for attribute in attributes {
            values.name(&*attribute.name);
            push_pieces(values.out, &attribute.value, content, work)?;
        }
        values.close();
    }
    if has_elements {
        for node in &element.children {
            push_member(&mut inner, node, content, work)?;
        }
    } else if !element.children.is_empty() {
        inner.name("#text");
        push_text_of(inner.out, element, content, item, work)?;
    }
    inner.close();
    Ok(())
}

fn push_text_of(
    out: &mut String,
    element: &Element,
    content: Content<'_, '_>,
    item: Option<Value<'_>>,
    work: &mut Work<'_, '_>,
) -> Result<(), Error> {
    match item {
        Some(item) => push_value(out, item, work),
        None => push_pieces(out, &element.children, content, work),
    }
}

/// Text and values: one value alone keeps its type, anything else is a string, nothing is `null`.
fn push_pieces(
    out: &mut String,
    nodes: &[Node],
    content: Content<'_, '_>,
    work: &mut Work<'_, '_>,
) -> Result<(), Error> {
    match nodes {
        [] => out.push_str("null"),
        [Node::Substitution(one)] => match content.argument(one.index) {
            Some(Argument::Value(value)) => match &mut work.recording {
                Some(recording) => {
                    recording.gap(content, one.index, out.len());
                    out.push(GAP);
                    work.spend(1)?;
                }
                None => push_value(out, *value, work)?,
            },
            _ => out.push_str("null"),
        },
        _ => {
            let mut text = String::new();
            push_mixed(&mut text, nodes, content, work)?;
            push_string(out, &text);
        }
    }
    Ok(())
}

/// Text and values as one text.
fn push_mixed(
    text: &mut String,
    nodes: &[Node],
    content: Content<'_, '_>,
    work: &mut Work<'_, '_>,
) -> Result<(), Error> {
    if nodes.iter().any(|node| matches!(node, Node::Substitution(_))) {
        work.give_up_plan();
    }
    push_plain(text, nodes, content, &mut work.budget)
}

pub(crate) fn push_plain(
    text: &mut String,
    nodes: &[Node],
    content: Content<'_, '_>,
    budget: &mut Budget,
) -> Result<(), Error> {
    for node in nodes {
        budget.spend(1)?;
        match node {
            Node::Text(part) | Node::CData(part) => text.push_str(part),
            Node::CharacterReference(code) => text.extend(char::from_u32(u32::from(*code))),
            Node::EntityReference(name) => text.extend(entity(name)),
            Node::Substitution(one) => {
                let Some(Argument::Value(value)) = content.argument(one.index) else { continue };
                budget.spend(value.bytes.len() / 16)?;
                if let Some(scalar) = value.scalar() {
                    scalar.push_text(text);
                }
            }
            Node::Element(_) | Node::Instruction(..) => {}
        }
    }
    Ok(())
}

fn push_value(out: &mut String, value: Value<'_>, work: &mut Work<'_, '_>) -> Result<(), Error> {
    work.spend(1 + value.bytes.len() / 16)?;
    match value.value_type.is_array() {
        true => push_items(out, value),
        false => push_item(out, value),
    }
    Ok(())
}

/// Appends the items of an array.
fn push_items(out: &mut impl Text, array: Value<'_>) {
    out.push_ascii(b"[");
    for (index, item) in array.items().enumerate() {
        if index > 0 {
            out.push_ascii(b",");
        }
        push_item(out, item);
    }
    out.push_ascii(b"]");
}

/// Appends a value that is no array.
#[inline]
pub(crate) fn push_item(out: &mut impl Text, value: Value<'_>) {
    let Some(scalar) = value.scalar().filter(|_| !value.is_null()) else {
        return out.push_text("null");
    };
    match scalar {
        Scalar::Unsigned(number) => push_decimal(out, number),
        Scalar::Signed(_) | Scalar::Bool(_) => scalar.push_to(out),
        Scalar::Float(number) if number.is_finite() => scalar.push_to(out),
        Scalar::Guid(guid) => {
            out.push_ascii(b"\"");
            push_guid(out, &guid.0);
            out.push_ascii(b"\"");
        }
        Scalar::Utf16(units) => {
            out.push_ascii(b"\"");
            push_utf16_content(out, units);
            out.push_ascii(b"\"");
        }
        Scalar::FileTime(_) | Scalar::SystemTime(_) | Scalar::Sid(_) | Scalar::Hex(_) => {
            out.push_ascii(b"\"");
            scalar.push_to(out);
            out.push_ascii(b"\"");
        }
        Scalar::Binary(bytes) => {
            out.push_ascii(b"\"");
            push_hex(out, bytes, b"0123456789abcdef");
            out.push_ascii(b"\"");
        }
        other => {
            let mut text = String::new();
            other.push_text(&mut text);
            push_string(out, &text);
        }
    }
}

/// A JSON string.
fn push_string(out: &mut impl Text, text: &str) {
    out.push_ascii(b"\"");
    push_escaped(out, text);
    out.push_ascii(b"\"");
}

/// The content of a JSON string.
fn push_escaped(out: &mut impl Text, text: &str) {
    // Without a branch in it, the loop is one of vectors.
    let is_special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    if !text.bytes().fold(false, |any, byte| any | is_special(byte)) {
        return out.push_text(text);
    }
    let mut start = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..0x20 => "",
            _ => continue,
        };
        out.push_text(&text[start..at]);
        start = at + 1;
        match escape {
            "" => out.push_text(&format!("\\u{byte:04x}")),
            _ => out.push_text(escape),
        }
    }
    out.push_text(&text[start..]);
}
