//! Symbols that one header cannot define twice.

use std::collections::HashMap;

use roxmltree::Node;

use super::element::{EVENTS, attribute, number};
use crate::diagnostic::Diagnostics;

/// The definition of a symbol in a header.
#[derive(Clone, Copy, PartialEq)]
enum Definition {
    /// A constant in memory: an event's descriptor or a provider's GUID.
    Object,
    /// A macro with this value, if the manifest gives one. The same macro twice is fine.
    Macro(Option<u64>),
}

/// Warns of symbols whose definitions in one header contradict each other. mc compiles such manifests: two providers may have
/// events of one symbol; only the compiler of the header rejects them.
pub fn check(root: Node<'_, '_>, diagnostics: &mut Diagnostics) {
    let mut known: HashMap<&str, (Definition, &str)> = HashMap::new();
    for node in root.descendants().filter(|node| node.tag_name().namespace() == Some(EVENTS)) {
        let element = node.tag_name().name();
        let value = |name| Definition::Macro(attribute(node, name).and_then(number));
        let definition = match element {
            // An event that is not logged has no descriptor.
            "event" if matches!(attribute(node, "notLogged"), Some("true" | "1")) => continue,
            "provider" | "event" => Definition::Object,
            "keyword" => value("mask"),
            "channel" | "level" | "task" | "opcode" => value("value"),
            _ => continue,
        };
        let Some(symbol) = attribute(node, "symbol").filter(|symbol| !symbol.is_empty()) else {
            continue;
        };
        match known.get(symbol) {
            Some((other, _)) if *other == definition && definition != Definition::Object => {}
            Some((_, first)) => {
                let message = format!(
                    "symbol `{symbol}` of this {element} is also that of a {first}: the header does not compile"
                );
                diagnostics.warn(node, message);
            }
            None => {
                known.insert(symbol, (definition, element));
            }
        }
    }
}
