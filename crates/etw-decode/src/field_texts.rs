//! [`FieldTexts`]: the texts of an event's fields, for messages.

use crate::field::Field;
use crate::value::{Style, Value};
use crate::visitor::Visitor;
use std::borrow::Cow;

/// Collects one text a top-level field.
pub(crate) struct FieldTexts<'s> {
    style: &'s Style,
    depth: usize,
    text: Vec<u8>,
    /// Where the text of each field ends.
    ends: Vec<usize>,
    /// Whether a bracket was opened last.
    opened: bool,
}

impl FieldTexts<'_> {
    pub fn new(style: &Style) -> FieldTexts<'_> {
        FieldTexts { style, depth: 0, text: Vec::new(), ends: Vec::new(), opened: false }
    }

    pub fn get(&self, number: usize) -> Option<Cow<'_, str>> {
        let end = *self.ends.get(number)?;
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        Some(String::from_utf8_lossy(&self.text[start..end]))
    }

    /// Inside brackets everything but the first is set off.
    fn separate(&mut self) {
        if self.depth > 0 && !std::mem::take(&mut self.opened) {
            self.text.extend_from_slice(b", ");
        }
    }

    fn end(&mut self) {
        if self.depth == 0 {
            self.ends.push(self.text.len());
        }
    }

    fn open(&mut self, bracket: u8) {
        self.separate();
        self.text.push(bracket);
        self.depth += 1;
        self.opened = true;
    }

    fn close(&mut self, bracket: u8) {
        self.text.push(bracket);
        self.depth -= 1;
        self.opened = false;
        self.end();
    }
}

impl Visitor for FieldTexts<'_> {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        // The length of a custom field keeps its number, so that inserts count as TDH counts.
        if field.is_custom_length && self.depth > 0 {
            return;
        }
        self.separate();
        value.write_text(&mut self.text, self.style);
        self.end();
    }

    fn begin_array(&mut self, _field: &Field, _count: usize) {
        self.open(b'[');
    }

    fn end_array(&mut self, _field: &Field) {
        self.close(b']');
    }

    fn begin_struct(&mut self, _field: &Field) {
        self.open(b'{');
    }

    fn end_struct(&mut self, _field: &Field) {
        self.close(b'}');
    }
}
