//! Events as XML, in the form that Windows gives them.
//!
//! One line; attributes in single quotes; `<Security/>` where the template closes an element at once; an element whose
//! content is an array is repeated for each item.

use crate::Error;
use crate::tree::{Argument, Budget, Content, Element, Fragment, Node, entity};
use crate::value::Value;

/// Appends a fragment.
///
/// # Errors
/// [`Error::TooLarge`] where it expands beyond [`MAX_WORK`](crate::tree::MAX_WORK).
pub fn push(out: &mut String, fragment: &Fragment<'_>) -> Result<(), Error> {
    push_fragment(out, fragment, &mut Budget::new())
}

fn push_fragment(
    out: &mut String,
    fragment: &Fragment<'_>,
    budget: &mut Budget,
) -> Result<(), Error> {
    let content = fragment.content();
    for node in content.nodes {
        match node {
            // The outermost element stays, whatever it depends on.
            Node::Element(element) => push_element(out, element, content, None, budget)?,
            _ => push_node(out, node, content, budget)?,
        }
    }
    Ok(())
}

fn push_node(
    out: &mut String,
    node: &Node,
    content: Content<'_, '_>,
    budget: &mut Budget,
) -> Result<(), Error> {
    budget.spend(1)?;
    match node {
        Node::Element(element) => {
            if content.is_hidden(element) {
                return Ok(());
            }
            match content.repeated(element) {
                Some(array) => {
                    for item in array.items() {
                        push_element(out, element, content, Some(item), budget)?;
                    }
                }
                None => push_element(out, element, content, None, budget)?,
            }
        }
        Node::Text(text) | Node::CData(text) => push_escaped(out, text),
        Node::CharacterReference(code) => {
            if let Some(character) = char::from_u32(u32::from(*code)) {
                push_escaped(out, character.encode_utf8(&mut [0; 4]));
            }
        }
        Node::EntityReference(name) => match entity(name) {
            Some(character) => push_escaped(out, character.encode_utf8(&mut [0; 4])),
            None => {
                out.push('&');
                out.push_str(name);
                out.push(';');
            }
        },
        Node::Instruction(target, data) => {
            for part in ["<?", target, " ", data, "?>"] {
                out.push_str(part);
            }
        }
        Node::Substitution(one) => match content.argument(one.index) {
            Some(Argument::Value(value)) => push_value(out, *value, budget)?,
            Some(Argument::Fragment(fragment)) => push_fragment(out, fragment, budget)?,
            None => {}
        },
    }
    Ok(())
}

/// Appends an element; `item` replaces its content.
fn push_element(
    out: &mut String,
    element: &Element,
    content: Content<'_, '_>,
    item: Option<Value<'_>>,
    budget: &mut Budget,
) -> Result<(), Error> {
    budget.spend(1)?;
    out.push('<');
    out.push_str(&element.name);
    for attribute in content.attributes(element) {
        out.push(' ');
        out.push_str(&attribute.name);
        out.push_str("='");
        let start = out.len();
        for node in &attribute.value {
            push_node(out, node, content, budget)?;
        }
        // Text is escaped for content; in single quotes only these are left.
        if out[start..].contains('\'') {
            let value = out.split_off(start).replace('\'', "&apos;");
            out.push_str(&value);
        }
        out.push('\'');
    }
    if element.is_empty {
        out.push_str("/>");
        return Ok(());
    }
    out.push('>');
    match item {
        Some(item) => push_value(out, item, budget)?,
        None => {
            for node in &element.children {
                push_node(out, node, content, budget)?;
            }
        }
    }
    out.push_str("</");
    out.push_str(&element.name);
    out.push('>');
    Ok(())
}

/// A value; the items of an array that stands beside other content are divided by commas.
fn push_value(out: &mut String, value: Value<'_>, budget: &mut Budget) -> Result<(), Error> {
    budget.spend(1 + value.bytes.len() / 16)?;
    let mut text = String::new();
    for (index, item) in value.items().enumerate() {
        if index > 0 {
            text.push(',');
        }
        if let Some(scalar) = item.scalar() {
            scalar.push_text(&mut text);
        }
    }
    push_escaped(out, &text);
    Ok(())
}

/// Text with `&`, `<` and `>` as entities. Characters that XML does not allow are left out.
fn push_escaped(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\u{fffe}' | '\u{ffff}' => {}
            other => out.push(other),
        }
    }
}
