//! Localised strings and references to them.

use roxmltree::Node;

use super::element::{attribute, children};
use super::{Culture, Message};
use crate::diagnostic::Diagnostics;

/// Reads `localization`.
pub fn cultures(root: Node<'_, '_>, diagnostics: &mut Diagnostics) -> Vec<Culture> {
    let mut cultures: Vec<Culture> = Vec::new();
    for resources in children(root, "localization").flat_map(|one| children(one, "resources")) {
        let Some(name) = attribute(resources, "culture") else {
            diagnostics.error(resources, "`resources` has no `culture`, like \"en-US\"");
            continue;
        };
        let mut culture = Culture { name: name.to_owned(), ..Culture::default() };
        let mut known = std::collections::HashSet::new();
        for string in children(resources, "stringTable").flat_map(|one| children(one, "string")) {
            match (attribute(string, "id"), string.attribute("value")) {
                (Some(id), Some(value)) => {
                    if !known.insert(id) {
                        diagnostics.error(string, format!("string `{id}` is defined twice"));
                    }
                    culture.add(id, value);
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
    cultures: &[Culture],
    diagnostics: &mut Diagnostics,
) -> Option<Message> {
    let text = attribute(node, "message")?;
    let Some(reference) = text.strip_prefix("$(").and_then(|text| text.strip_suffix(')')) else {
        return Some(Message::Text(text.to_owned()));
    };
    let Some(id) = reference.trim().strip_prefix("string.") else {
        let message = format!("`{text}` refers to no string: expected $(string.ID)");
        diagnostics.error(node, message);
        return None;
    };
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
