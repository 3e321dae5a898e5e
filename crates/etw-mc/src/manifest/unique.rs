//! Names, values and symbols that one element of a list may have.

use std::collections::HashSet;

use roxmltree::Node;

use super::element::attribute;
use crate::diagnostic::Diagnostics;

/// The names, values and symbols of the elements of a list that were read so far.
#[derive(Default)]
pub struct Unique<'a> {
    names: HashSet<&'a str>,
    values: HashSet<u64>,
    symbols: HashSet<&'a str>,
}

impl<'a> Unique<'a> {
    /// Reports an element whose `name` or `symbol` an earlier one has.
    pub fn check(&mut self, node: Node<'a, '_>, diagnostics: &mut Diagnostics) {
        self.check_name(node, attribute(node, "name"), diagnostics);
        self.check_symbol(node, diagnostics);
    }

    /// Reports an element whose `name` an earlier one has.
    pub fn check_name(
        &mut self,
        node: Node<'a, '_>,
        name: Option<&'a str>,
        diagnostics: &mut Diagnostics,
    ) {
        if let Some(name) = name.filter(|name| !self.names.insert(name)) {
            let element = node.tag_name().name();
            diagnostics.error(node, format!("{element} `{name}` is defined twice"));
        }
    }

    /// Reports an element whose `symbol` an earlier one has.
    pub fn check_symbol(&mut self, node: Node<'a, '_>, diagnostics: &mut Diagnostics) {
        let symbol = attribute(node, "symbol").filter(|symbol| !symbol.is_empty());
        if let Some(symbol) = symbol.filter(|symbol| !self.symbols.insert(symbol)) {
            let element = node.tag_name().name();
            diagnostics.error(node, format!("two {element}s have symbol `{symbol}`"));
        }
    }

    /// Reports an element whose value, in the attribute of this name, an earlier one has.
    pub fn check_value(
        &mut self,
        node: Node<'a, '_>,
        name: &str,
        value: u64,
        diagnostics: &mut Diagnostics,
    ) {
        if !self.values.insert(value) {
            let element = node.tag_name().name();
            let text = attribute(node, name).unwrap_or_default();
            diagnostics.error(node, format!("two {element}s have {name} {text}"));
        }
    }
}
