//! [`FieldTexts`]: the texts of an event's fields, for messages.

use crate::field::Field;
use crate::value::{Style, Value};
use crate::visitor::Visitor;
use std::borrow::Cow;

/// Collects one text a top-level field.
pub(crate) struct FieldTexts<'s> {
    style: &'s Style,
    as_inserts: bool,
    /// One bit for each of the first 64 fields: whether its text is needed.
    needed: u64,
    depth: usize,
    text: Vec<u8>,
    /// The end of each field's text.
    ends: Vec<usize>,
    /// Whether a bracket was opened last.
    opened: bool,
}

impl FieldTexts<'_> {
    pub fn new(style: &Style) -> FieldTexts<'_> {
        FieldTexts {
            style,
            as_inserts: false,
            needed: u64::MAX,
            depth: 0,
            text: Vec::new(),
            ends: Vec::new(),
            opened: false,
        }
    }

    /// Texts as Windows inserts them into messages. `needed`: one bit for each of the first 64 fields; the others stay empty.
    pub fn inserts(style: &Style, needed: u64) -> FieldTexts<'_> {
        let (text, ends) = (Vec::with_capacity(256), Vec::with_capacity(16));
        FieldTexts { as_inserts: true, needed, text, ends, ..FieldTexts::new(style) }
    }

    /// Bytes of all texts.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    fn is_needed(&self) -> bool {
        let number = self.ends.len() as u32;
        1u64.checked_shl(number).is_none_or(|bit| self.needed & bit != 0)
    }

    pub fn get(&self, number: usize) -> Option<Cow<'_, str>> {
        let end = *self.ends.get(number)?;
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        // Nearly all texts are valid; the check is cheaper than a conversion.
        let text = &self.text[start..end];
        Some(match std::str::from_utf8(text) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(text),
        })
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
        if !self.is_needed() {
            return self.end();
        }
        self.separate();
        match self.as_inserts {
            true => value.write_message(&mut self.text, self.style),
            false => value.write_text(&mut self.text, self.style),
        }
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

#[cfg(test)]
mod tests {
    use crate::{Catalog, Decoder, Style};
    use etw_types::{EventRecord, HeaderType};
    use std::sync::Arc;

    #[test]
    fn messages_show_guids_in_braces_and_bytes_in_upper_case_hex() {
        let manifest = r#"<m><provider name="P" guid="{00000000-0000-0000-0000-000000000001}"><templates><template tid="T">
          <data name="g" inType="win:GUID"/><data name="b" inType="win:Binary" length="2"/></template></templates>
          <events><event value="1" template="T" message="%1 %2"/></events></provider></m>"#;
        let mut catalog = Catalog::default();
        catalog.add_manifest(manifest.as_bytes()).unwrap();
        let mut decoder = Decoder::new();
        decoder.set_catalog(Arc::new(catalog));
        let payload = [&[0xab; 16][..], &[0xcd, 1]].concat();
        let mut record = EventRecord::new(HeaderType::Event64, &payload);
        record.provider = "00000000-0000-0000-0000-000000000001".parse().ok();
        record.descriptor.id = 1;
        let decoded = decoder.decode(&record);
        let message = decoded.message(&record, &Style::default());
        assert_eq!(message.as_deref(), Some("{ABABABAB-ABAB-ABAB-ABAB-ABABABABABAB} 0xCD01"));
        let fields = decoded.fields_text(&record, &Style::default()).unwrap();
        assert_eq!(fields[1].1, "cd01");
    }
}
