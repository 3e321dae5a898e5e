//! [`Inserts`]: the message of an event, made of what a visitor writes.

use crate::block_text::{put_part, repeat_part};
use crate::decoded::{Decoded, Visited};
use crate::field::Field;
use crate::integers::Integers;
use crate::message::{Message, SIZE_LIMIT};
use crate::reason::Reason;
use crate::text::Escape;
use crate::value::{Style, Value};
use etw_types::EventRecord;
use std::ops::Range;

/// The inserts of an event's message, gathered while a visitor writes the event's fields: most of them are written already, in the
/// form that the message needs. That saves a second walk over the payload.
///
/// A visitor calls these methods with all that it is called with. One is kept for many events, for its memory.
#[derive(Debug, Default)]
pub struct Inserts {
    /// Whether the event's message needs its fields.
    is_wanted: bool,
    /// One bit for each of the first 64 fields: whether it is an insert.
    needed: u64,
    /// Open arrays and structs.
    depth: usize,
    /// Whether a bracket was opened last.
    opened: bool,
    /// The open array or struct is no insert.
    is_skipped: bool,
    /// The text of each top-level field.
    places: Vec<Place>,
    /// Escaped texts that the output does not have.
    own: Vec<u8>,
    scratch: Vec<u8>,
}

/// The place of a field's text.
#[derive(Clone, Debug)]
struct Place {
    /// Whether it is in `own`, not in the output.
    is_own: bool,
    range: Range<usize>,
}

impl Inserts {
    /// Begins an event. Returns whether its message needs its fields; if not, no visitor has to call [`value`](Inserts::value) and its like.
    pub fn start(&mut self, record: &EventRecord<'_>, decoded: &Decoded<'_>) -> bool {
        let message = decoded.template(record).filter(|message| message.has_inserts());
        self.is_wanted = message.is_some();
        if let Some(message) = message {
            self.needed = message.inserts();
            self.depth = 0;
            self.is_skipped = false;
            self.places.clear();
            self.own.clear();
        }
        self.is_wanted
    }

    /// Begins an event of which only some fields are written, so that its message cannot be made of them. Returns false, as
    /// [`start`](Inserts::start) does for events without inserts.
    pub fn start_none(&mut self) -> bool {
        self.is_wanted = false;
        self.is_wanted
    }

    /// A value. `written`: the range of `out` with its escaped text, with or without quotes; empty if `out` does not have that text.
    #[inline]
    pub fn value(
        &mut self,
        field: &Field,
        value: &Value<'_>,
        (out, written): (&[u8], Range<usize>),
        style: &Style,
        escape: Escape,
    ) {
        if self.is_wanted && !self.is_skipped {
            self.add(field, value, (out, written), style, escape);
        }
    }

    /// All elements of the array begun last, which are integers.
    #[inline]
    pub fn integers(
        &mut self,
        field: &Field,
        integers: &Integers<'_>,
        style: &Style,
        escape: Escape,
    ) {
        if self.is_wanted && !self.is_skipped {
            self.add_integers(field, integers.clone(), style, escape);
        }
    }

    #[inline(never)]
    fn add_integers(
        &mut self,
        field: &Field,
        mut integers: Integers<'_>,
        style: &Style,
        escape: Escape,
    ) {
        let Some((first, _)) = integers.next() else { return };
        self.add(field, &first, (&[], 0..0), style, escape);
        if integers.rest_size() > 0 {
            // Digits and signs need no escape.
            self.own.extend_from_slice(b", ");
            integers.write_text(&mut self.own, b", ");
        }
    }

    #[inline(never)]
    fn add(
        &mut self,
        field: &Field,
        value: &Value<'_>,
        (out, written): (&[u8], Range<usize>),
        style: &Style,
        escape: Escape,
    ) {
        // The length of a custom field keeps its number, so that inserts count as TDH counts.
        if field.is_custom_length && self.depth > 0 {
            return;
        }
        let is_top = self.depth == 0;
        if !self.is_needed() {
            if is_top {
                self.places.push(Place { is_own: true, range: 0..0 });
            }
            return;
        }
        let is_written = !written.is_empty() && value.has_same_text_in_messages();
        let written = match out.get(written.clone()) {
            Some([b'"', .., b'"']) => written.start + 1..written.end - 1,
            _ => written,
        };
        match (is_written, is_top) {
            (true, true) => self.places.push(Place { is_own: false, range: written }),
            (true, false) => {
                self.separate();
                self.own.extend_from_slice(out.get(written).unwrap_or_default());
            }
            (false, _) => {
                let start = self.own.len();
                if !is_top {
                    self.separate();
                }
                self.scratch.clear();
                value.write_message(&mut self.scratch, style);
                escape.put(&mut self.own, &String::from_utf8_lossy(&self.scratch));
                if is_top {
                    self.places.push(Place { is_own: true, range: start..self.own.len() });
                }
            }
        }
    }

    /// An array, or a struct, begins.
    #[inline]
    pub fn begin(&mut self, is_array: bool) {
        if self.is_wanted {
            if self.depth == 0 {
                let start = self.own.len();
                self.is_skipped = !self.is_needed();
                self.places.push(Place { is_own: true, range: start..start });
            } else if !self.is_skipped {
                self.separate();
            }
            self.depth += 1;
            if !self.is_skipped {
                self.own.push(if is_array { b'[' } else { b'{' });
                self.opened = true;
            }
        }
    }

    /// The array or struct begun last is complete.
    #[inline]
    pub fn end(&mut self, is_array: bool) {
        if self.is_wanted {
            if !self.is_skipped {
                self.own.push(if is_array { b']' } else { b'}' });
                self.opened = false;
            }
            self.depth -= 1;
            if self.depth == 0 {
                self.is_skipped = false;
                if let Some(place) = self.places.last_mut() {
                    place.range.end = self.own.len();
                }
            }
        }
    }

    /// Appends the event's message to the output of its fields, which `visited` is the result of, with `before` and `after` around it.
    /// Nothing if the event has no message.
    pub fn put_message(
        &self,
        out: &mut Vec<u8>,
        (record, decoded, visited): (&EventRecord<'_>, &Decoded<'_>, Option<&Visited<'_>>),
        (before, after): (&[u8], &[u8]),
        style: &Style,
        escape: Escape,
    ) {
        match (decoded.template(record), visited) {
            (Some(message), Some(visited))
                if (self.is_wanted || !message.has_inserts())
                    && visited.failure().is_none()
                    && self.fits(message) =>
            {
                if self.is_wanted && matches!(visited.reason, Some(Reason::Payload(_))) {
                    return;
                }
                out.extend_from_slice(before);
                message.write(out, escape, |out, number| self.put(out, number));
                out.extend_from_slice(after);
            }
            _ => {
                if let Some(message) = decoded.message(record, style) {
                    out.extend_from_slice(before);
                    escape.put(out, &message);
                    out.extend_from_slice(after);
                }
            }
        }
    }

    /// Whether the message is so short that no insert is left out.
    fn fits(&self, message: &Message) -> bool {
        let longest = self.places.iter().map(|place| place.range.len()).max().unwrap_or(0);
        let most = longest.checked_mul(message.parts());
        !self.is_wanted
            || most.is_some_and(|most| most.saturating_add(message.template().len()) <= SIZE_LIMIT)
    }

    /// Appends the text of a field; false if there is none.
    fn put(&self, out: &mut Vec<u8>, number: usize) -> bool {
        match self.places.get(number) {
            Some(Place { is_own: true, range }) => put_part(out, &self.own, range.start, range.end),
            Some(Place { range, .. }) => repeat_part(out, range.start, range.end),
            None => return false,
        }
        true
    }

    fn is_needed(&self) -> bool {
        // The last one is the open array or struct.
        let number = self.places.len() - usize::from(self.depth > 0);
        1u64.checked_shl(number as u32).is_none_or(|bit| self.needed & bit != 0)
    }

    /// Inside brackets everything but the first is set off.
    fn separate(&mut self) {
        if !std::mem::take(&mut self.opened) {
            self.own.extend_from_slice(b", ");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, Decoder, Visitor, write_json_string};
    use etw_types::HeaderType;
    use std::sync::Arc;

    /// Writes values as JSON, one behind the other, and every third one not at all.
    struct Values<'v> {
        out: &'v mut Vec<u8>,
        inserts: &'v mut Inserts,
        count: usize,
    }

    impl Visitor for Values<'_> {
        fn value(&mut self, field: &Field, value: Value<'_>) {
            let start = self.out.len();
            self.count += 1;
            if !self.count.is_multiple_of(3) {
                value.write_json(self.out, &Style::default());
            }
            let written = (&self.out[..], start..self.out.len());
            self.inserts.value(field, &value, written, &Style::default(), Escape::Json);
        }
        fn begin_array(&mut self, _: &Field, _: usize) {
            self.inserts.begin(true);
        }
        fn integers(&mut self, field: &Field, integers: &mut Integers<'_>) {
            self.inserts.integers(field, integers, &Style::default(), Escape::Json);
            integers.write_json(self.out, &Style::default());
        }
        fn end_array(&mut self, _: &Field) {
            self.inserts.end(true);
        }
        fn begin_struct(&mut self, _: &Field) {
            self.inserts.begin(false);
        }
        fn end_struct(&mut self, _: &Field) {
            self.inserts.end(false);
        }
    }

    #[test]
    fn a_message_of_written_values_is_that_of_a_second_walk() {
        let manifest = r#"<m><provider name="P" guid="{00000000-0000-0000-0000-000000000001}"><maps><valueMap name="M">
          <map value="1" message="one &quot;1&quot; "/></valueMap></maps><templates><template tid="T">
          <data name="text" inType="win:UnicodeString"/><data name="number" inType="win:Int32"/>
          <data name="hex" inType="win:HexInt64"/><data name="guid" inType="win:GUID"/>
          <data name="bytes" inType="win:Binary" length="2"/><data name="double" inType="win:Double"/>
          <data name="mapped" inType="win:UInt8" map="M"/><data name="many" inType="win:UInt8" count="3"/>
          <data name="texts" inType="win:UnicodeString" count="2"/><data name="flag" inType="win:Boolean"/>
          <data name="address" inType="win:UInt32" outType="win:IPv4"/><data name="status" inType="win:UInt32" outType="win:NTSTATUS"/>
          <struct name="parts" count="2"><data name="a" inType="win:UInt8"/><data name="b" inType="win:AnsiString"/></struct>
          </template></templates><events>
          <event value="1" template="T" message="%13, %2 &quot;%1&quot;%n%3 %4 %5 %6 %7 %8%n%9 %10 %11 %12 %1%99"/>
          <event value="2" template="T" message="100%% \ &quot;plain&quot;"/><event value="3" template="T"/>
          <event value="4" template="T" message="%10 %2"/></events></provider></m>"#;
        let mut catalog = Catalog::default();
        catalog.add_manifest(manifest.as_bytes()).unwrap();
        let mut decoder = Decoder::new();
        decoder.set_catalog(Arc::new(catalog));
        let wide =
            |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
        let mut inserts = Inserts::default();
        let mut messages = 0;
        for text in
            ["", "plain", "a \"quoted\\ one\"\n", "\"", "grün €😀", "long enough for several words"]
        {
            let payload = [
                &wide(&format!("{text}\0"))[..],
                &(-7i32).to_le_bytes(),
                &0xabcu64.to_le_bytes(),
                &[0xab; 16],
                &[0xcd, 1],
                &f64::NAN.to_le_bytes(),
                &[1, 4, 5, 6],
                &wide(&format!("x\0{text}\0")),
                &1u32.to_le_bytes(),
                &[127, 0, 0, 1],
                &0xc000_0005u32.to_le_bytes(),
                b"\x01one\0\x02t\"wo\0",
            ]
            .concat();
            for length in [payload.len(), payload.len() - 12, 0] {
                for id in 1..=4 {
                    let mut record = EventRecord::new(HeaderType::Event64, &payload[..length]);
                    record.provider = "00000000-0000-0000-0000-000000000001".parse().ok();
                    record.descriptor.id = id;
                    let decoded = decoder.decode(&record);
                    let mut out = Vec::new();
                    inserts.start(&record, &decoded);
                    let mut values = Values { out: &mut out, inserts: &mut inserts, count: 0 };
                    let visited = decoded.visit_part(&record, &mut values);
                    let start = out.len();
                    let style = Style::default();
                    let event = (&record, &decoded, visited.as_ref());
                    inserts.put_message(&mut out, event, (b"\"", b"\""), &style, Escape::Json);
                    let mut expected = Vec::new();
                    if let Some(message) = decoded.message(&record, &style) {
                        write_json_string(&mut expected, &message);
                        messages += 1;
                    }
                    let written = String::from_utf8(out[start..].to_vec()).unwrap();
                    assert_eq!(
                        written,
                        String::from_utf8(expected).unwrap(),
                        "{text:?} {length} {id}"
                    );
                }
            }
        }
        // Each text has the first and the last message where the payload is whole, and the second always.
        assert_eq!(messages, 6 + 6 + 18);
    }
}
