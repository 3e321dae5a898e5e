//! Children and attributes of a manifest's elements.

use std::borrow::Cow;

use etw_types::Guid;
use roxmltree::Node;

use crate::diagnostic::Diagnostics;

/// The namespace of predefined levels, tasks, opcodes, keywords and types.
const WINDOWS_EVENTS: &str = "http://manifests.microsoft.com/win/2004/08/windows/events";

/// The namespace of most out-types.
const XML_SCHEMA: &str = "http://www.w3.org/2001/XMLSchema";

/// Child elements of a name, whatever their namespace.
pub fn children<'a, 'i>(
    node: Node<'a, 'i>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |child| child.is_element() && child.tag_name().name() == name)
}

/// Children of a list: `list(provider, "tasks", "task")`.
pub fn list<'a, 'i>(
    node: Node<'a, 'i>,
    list: &'static str,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'i>> {
    children(node, list).flat_map(move |one| children(one, name))
}

/// An attribute without white space around it.
pub fn attribute<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.attribute(name).map(str::trim)
}

/// A name as Windows' own manifests write it: with `win` or `xs` before it, whatever prefix this manifest has for that namespace.
pub fn qualified<'a>(node: Node<'_, '_>, name: &'a str) -> Cow<'a, str> {
    let Some((prefix, local)) = name.split_once(':') else { return name.into() };
    match node.lookup_namespace_uri(Some(prefix)) {
        Some(WINDOWS_EVENTS) if prefix != "win" => format!("win:{local}").into(),
        Some(XML_SCHEMA) if prefix != "xs" => format!("xs:{local}").into(),
        _ => name.into(),
    }
}

pub fn owned(node: Node<'_, '_>, name: &str) -> Option<String> {
    attribute(node, name).filter(|text| !text.is_empty()).map(str::to_owned)
}

pub fn required<'a>(node: Node<'a, '_>, name: &str, diagnostics: &mut Diagnostics) -> &'a str {
    match attribute(node, name).filter(|text| !text.is_empty()) {
        Some(text) => text,
        None => {
            let element = node.tag_name().name();
            diagnostics.error(node, format!("`{element}` has no `{name}`"));
            ""
        }
    }
}

pub fn flag(node: Node<'_, '_>, name: &str, diagnostics: &mut Diagnostics) -> bool {
    match attribute(node, name) {
        None | Some("false" | "0") => false,
        Some("true" | "1") => true,
        Some(other) => {
            diagnostics.error(node, format!("`{name}` is `{other}`: expected true or false"));
            false
        }
    }
}

pub fn guid(node: Node<'_, '_>, name: &str, diagnostics: &mut Diagnostics) -> Option<Guid> {
    let text = required(node, name, diagnostics);
    match text.parse() {
        Ok(guid) => Some(guid),
        Err(_) => {
            if !text.is_empty() {
                diagnostics.error(node, format!("`{name}` is `{text}`, which is not a GUID"));
            }
            None
        }
    }
}

/// A number, decimal or hex; `None` if the text is none.
pub fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A number in a range, from an attribute that must be there.
pub fn number_in(
    node: Node<'_, '_>,
    name: &str,
    range: std::ops::RangeInclusive<u64>,
    diagnostics: &mut Diagnostics,
) -> u64 {
    let text = required(node, name, diagnostics);
    match number(text) {
        Some(value) if range.contains(&value) => value,
        _ => {
            if !text.is_empty() {
                let (low, high) = (range.start(), range.end());
                let message =
                    format!("`{name}` is `{text}`: expected a number from {low} to {high}");
                diagnostics.error(node, message);
            }
            *range.start()
        }
    }
}
