//! Types of arguments: `%!NAME!` and the conversions of `printf`.

use crate::diagnostic::shown;
use std::collections::HashMap;

/// How an argument reaches `TraceMessage`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// Its own bytes.
    Value,
    /// The bytes that it points to.
    Pointer,
    /// A macro makes pairs of size and address.
    Macro(String),
}

/// A type of arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    pub name: String,
    /// Parameter type of the helper function; empty for a constant text.
    pub c_type: String,
    /// Item in the TMF, with its list.
    pub item: String,
    /// Conversion in the text of the message.
    pub spec: String,
    /// Letters in the name of the helper function.
    pub signature: String,
    pub priority: i32,
    pub form: Form,
}

/// Types by name; a later one replaces an earlier one.
#[derive(Clone, Debug, Default)]
pub struct Types {
    by_name: HashMap<String, Type>,
}

impl Types {
    pub fn get(&self, name: &str) -> Option<&Type> {
        self.by_name.get(name)
    }

    pub fn add(&mut self, kind: Type) {
        self.by_name.insert(kind.name.clone(), kind);
    }

    /// A type like another one, with its own item and conversion.
    pub fn add_flavor(
        &mut self,
        name: &str,
        base: &str,
        item: &str,
        spec: Option<&str>,
    ) -> Result<(), String> {
        let mut kind = self.base(name, base)?.clone();
        kind.name = name.to_owned();
        if !item.is_empty() {
            kind.item = item.to_owned();
        }
        if let Some(spec) = spec {
            kind.spec = spec.to_owned();
        }
        self.add(kind);
        Ok(())
    }

    /// `NAME, BASE(list)`
    pub fn add_custom(&mut self, name: &str, extended: &str, spec: &str) -> Result<(), String> {
        let mut kind = self.extended(name, extended)?;
        kind.name = name.to_owned();
        if !spec.is_empty() {
            kind.spec = spec.to_owned();
        }
        self.add(kind);
        Ok(())
    }

    /// The type that `BASE(list)` describes.
    pub fn extended(&self, name: &str, extended: &str) -> Result<Type, String> {
        let (base, list) = match extended.split_once('(') {
            Some((base, list)) => (base.trim(), list.trim_end().trim_end_matches(')')),
            None => (extended.trim(), ""),
        };
        let mut kind = self.base(name, base)?.clone();
        if !list.is_empty() {
            let names: Vec<&str> = list.split(',').map(str::trim).collect();
            kind.item = format!("{}({})", kind.item, names.join(","));
        }
        Ok(kind)
    }

    fn base(&self, name: &str, base: &str) -> Result<&Type, String> {
        self.get(base).ok_or_else(|| format!("{}: there is no type {}", shown(name), shown(base)))
    }

    /// The longest type whose name starts `text` and is no word, such as `.*ls`.
    pub fn odd_prefix(&self, text: &str) -> Option<&Type> {
        const LONGEST: usize = 16;
        if text.bytes().next().is_none_or(|byte| byte.is_ascii_alphanumeric()) {
            return None;
        }
        let ends = (1..=LONGEST.min(text.len())).rev().filter(|end| text.is_char_boundary(*end));
        ends.filter_map(|end| self.get(&text[..end])).next()
    }
}
