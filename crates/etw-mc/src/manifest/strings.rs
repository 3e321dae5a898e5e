//! Localised strings and references to them.

use std::collections::{HashMap, HashSet};

use etw_decode::wevt::Language;
use roxmltree::Node;

use super::element::{attribute, children, number, required, symbol};
use super::source::{Places, Source};
use super::{Culture, Message, TableMessage};
use crate::diagnostic::Diagnostics;
use crate::messages::MAX_TEXT;

/// Reads `localization`.
pub fn cultures(
    root: Node<'_, '_>,
    places: &Places,
    diagnostics: &mut Diagnostics,
) -> Vec<Culture> {
    let mut cultures: Vec<Culture> = Vec::new();
    for resources in children(root, "localization").flat_map(|one| children(one, "resources")) {
        let Some(name) = attribute(resources, "culture") else {
            diagnostics.error(resources, "`resources` has no `culture`, like \"en-US\"");
            continue;
        };
        match name.parse::<Language>() {
            Ok(language) if language.id().is_some() => {}
            // A guess: mc takes the names of languages that its Windows knows.
            Ok(_) => {
                let message = format!(
                    "culture `{name}` has no number here: the resource script names no language for it"
                );
                diagnostics.warn(resources, message);
            }
            Err(message) => diagnostics.error(resources, format!("`culture`: {message}")),
        }
        if cultures.iter().any(|known| known.name.eq_ignore_ascii_case(name)) {
            diagnostics.error(resources, format!("culture `{name}` is defined twice"));
        }
        let mut culture = Culture { name: name.to_owned(), ..Culture::default() };
        let mut known = HashSet::new();
        for string in children(resources, "stringTable").flat_map(|one| children(one, "string")) {
            match (attribute(string, "id"), string.attribute("value")) {
                (Some(id), Some(value)) => {
                    if !known.insert(id) {
                        diagnostics.error(string, format!("string `{id}` is defined twice"));
                    }
                    if value.encode_utf16().count() > MAX_TEXT {
                        let message = format!(
                            "string `{id}` is longer than the {MAX_TEXT} characters of a message"
                        );
                        diagnostics.error(string, message);
                    }
                    culture.add(id, value, places.of(string));
                }
                _ => diagnostics.error(string, "`string` needs `id` and `value`"),
            }
        }
        cultures.push(culture);
    }
    cultures
}

/// The message that an element's `message` attribute refers to.
pub fn message(
    node: Node<'_, '_>,
    source: &Source<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Message> {
    let text = attribute(node, "message")?;
    let Some(reference) = text.strip_prefix("$(").and_then(|text| text.strip_suffix(')')) else {
        // The schema has references here. A guess: mc may take a text all the same.
        let message = format!(
            "`message` is the text `{text}`, which no culture translates: use $(string.ID)"
        );
        diagnostics.warn(node, message);
        return Some(Message::Text(text.to_owned()));
    };
    let reference = reference.trim();
    if let Some(symbol) = reference.strip_prefix("mc.").or_else(|| reference.strip_prefix("Mc.")) {
        let found = source.table.get(symbol).cloned();
        if found.is_none() {
            diagnostics.error(node, format!("no message of `messageTable` has symbol `{symbol}`"));
        }
        return found;
    }
    let id = reference.strip_prefix("string.").or_else(|| reference.strip_prefix("String."));
    let Some(id) = id else {
        let message = format!("`{text}` refers to no string: expected $(string.ID)");
        diagnostics.error(node, message);
        return None;
    };
    let cultures = source.cultures;
    if cultures.is_empty() {
        diagnostics
            .error(node, format!("string `{id}` is not defined: there is no `localization`"));
        return None;
    }
    for culture in cultures {
        if culture.string(id).is_none() {
            let message = format!("string `{id}` is not defined for culture {}", culture.name);
            diagnostics.error(node, message);
            return None;
        }
    }
    Some(Message::String(id.to_owned()))
}

/// The messages of `messageTable`, and the names by which `$(mc.SYMBOL)` refers to them.
pub fn table(
    root: Node<'_, '_>,
    cultures: &[Culture],
    diagnostics: &mut Diagnostics,
) -> (Vec<TableMessage>, HashMap<String, Message>) {
    let (mut messages, mut names) = (Vec::new(), HashMap::new());
    let (places, none) = (Places::default(), HashMap::new());
    let source = Source { cultures, table: &none, places: &places };
    let mut ids = HashSet::new();
    let lists = children(root, "instrumentation").flat_map(|one| children(one, "events"));
    let tables = lists.flat_map(|events| children(events, "messageTable"));
    for node in tables.flat_map(|table| children(table, "message")) {
        let text = required(node, "value", diagnostics);
        let Some(id) = number(text).and_then(|value| u32::try_from(value).ok()) else {
            if !text.is_empty() {
                diagnostics.error(node, format!("`value` is `{text}`: expected 32 bits"));
            }
            continue;
        };
        required(node, "message", diagnostics);
        let Some(message) = message(node, &source, diagnostics) else { continue };
        if !ids.insert(id) {
            diagnostics.error(node, format!("two messages have value {text}"));
        }
        let symbol = symbol(node, diagnostics);
        for name in symbol.iter().map(String::as_str).chain(attribute(node, "mid")) {
            names.insert(name.to_owned(), message.clone());
        }
        messages.push(TableMessage { id, symbol, message });
    }
    (messages, names)
}
