//! Children and attributes of a manifest's elements.

use std::borrow::Cow;

use etw_types::Guid;
use roxmltree::Node;

use crate::diagnostic::Diagnostics;

/// The namespace of manifests' elements.
pub const EVENTS: &str = "http://schemas.microsoft.com/win/2004/08/events";

/// The namespace of predefined levels, tasks, opcodes, keywords and types.
const WINDOWS_EVENTS: &str = "http://manifests.microsoft.com/win/2004/08/windows/events";

/// The namespace of most out-types.
const XML_SCHEMA: &str = "http://www.w3.org/2001/XMLSchema";

/// Child elements in the namespace of manifests.
pub fn elements<'a, 'i>(node: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(|child| child.tag_name().namespace() == Some(EVENTS))
}

/// Child elements of a name.
pub fn children<'a, 'i>(
    node: Node<'a, 'i>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'i>> {
    elements(node).filter(move |child| child.tag_name().name() == name)
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
pub fn qualified<'a>(
    node: Node<'_, '_>,
    name: &'a str,
    diagnostics: &mut Diagnostics,
) -> Cow<'a, str> {
    let Some((prefix, local)) = name.split_once(':') else { return name.into() };
    let namespace = node.lookup_namespace_uri(Some(prefix));
    let own = match namespace {
        Some(WINDOWS_EVENTS) => Some("win"),
        Some(XML_SCHEMA) => Some("xs"),
        _ => None,
    };
    let expected = match prefix {
        "win" => WINDOWS_EVENTS,
        "xs" => XML_SCHEMA,
        _ => "its namespace",
    };
    match (namespace, own) {
        // The documentation wants the declaration. A guess: mc may know the prefixes without it.
        (None, _) => {
            let message = format!(
                "prefix `{prefix}` of `{name}` is not declared: add xmlns:{prefix}=\"{expected}\""
            );
            diagnostics.warn(node, message);
        }
        (Some(other), None) if matches!(prefix, "win" | "xs") => {
            let message = format!(
                "prefix `{prefix}` of `{name}` stands for `{other}`: expected `{expected}`"
            );
            diagnostics.error(node, message);
        }
        _ => {}
    }
    match own {
        Some(own) if own != prefix => format!("{own}:{local}").into(),
        _ => name.into(),
    }
}

pub fn owned(node: Node<'_, '_>, name: &str) -> Option<String> {
    attribute(node, name).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The `symbol` of an element, a name in C and Rust.
pub fn symbol(node: Node<'_, '_>, diagnostics: &mut Diagnostics) -> Option<String> {
    let symbol = owned(node, "symbol")?;
    let is_name = symbol.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name || symbol.starts_with(|c: char| c.is_ascii_digit()) {
        let message = format!(
            "`symbol` is `{symbol}`: expected letters, digits and `_`, and no digit at its beginning"
        );
        diagnostics.error(node, message);
    }
    Some(symbol)
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
        Ok(guid) if text.starts_with('{') => Some(guid),
        _ => {
            if !text.is_empty() {
                let message = format!(
                    "`{name}` is `{text}`, which is not a GUID in braces, as in {{00000000-0000-0000-0000-000000000000}}"
                );
                diagnostics.error(node, message);
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
