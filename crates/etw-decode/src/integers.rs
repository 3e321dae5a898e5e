//! [`Integers`]: the elements of an array of integers, which a visitor can take all at once.

use crate::field::{Field, Kind};
use crate::hex::{Front, write_hex_all};
use crate::value::{Integer, Style, Value, write_int, write_uint};
use etw_tracelogging::{Show, Wire};
use etw_types::le;
use std::ops::Range;

/// The form of an integer without names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    show: Show,
    is_signed: bool,
    /// 1, 2, 4 or 8 bytes.
    pub size: usize,
}

impl Number {
    /// The form of a field's values, if they are integers without names.
    pub fn of(field: &Field, pointer_size: u8) -> Option<Number> {
        let Kind::Scalar { wire, show } = field.kind else { return None };
        let size = match wire {
            // As `read` does.
            Wire::Pointer => Some(if pointer_size == 4 { 4 } else { 8 }),
            _ if wire.is_integer() => wire.fixed_size(pointer_size),
            _ => None,
        };
        let is_signed = wire.is_signed();
        let is_shown = field.map.is_none() && !field.is_custom_length;
        size.filter(|_| is_shown).map(|size| Number { show, is_signed, size })
    }

    /// Whether the values are shown as numbers.
    pub fn is_plain(self) -> bool {
        matches!(self.show, Show::Plain | Show::Signed | Show::Unsigned | Show::Hex)
    }

    /// The integer in as many bytes as it has, without its sign.
    #[inline(always)]
    fn unsigned(bytes: &[u8]) -> u64 {
        match *bytes {
            [byte] => u64::from(byte),
            [a, b] => u64::from(u16::from_le_bytes([a, b])),
            [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
            _ => le::u64(bytes, 0).unwrap_or_default(),
        }
    }

    #[inline(always)]
    fn signed(self, unsigned: u64) -> i64 {
        let unused = 64 - 8 * self.size as u32;
        (unsigned << unused) as i64 >> unused
    }

    #[inline(always)]
    fn value(self, bytes: &[u8]) -> Value<'_> {
        let unsigned = Number::unsigned(bytes);
        let signed = self.signed(unsigned);
        let integer = Integer { bytes, is_signed: self.is_signed, signed, unsigned };
        Value::of_integer(integer, self.show)
    }
}

/// The elements of an array of integers: an iterator over the value of each and the payload bytes that it takes.
///
/// Whoever writes all of them calls [`write_json`](Integers::write_json) or [`write_text`](Integers::write_text): the form of
/// the elements is looked at once, which makes it several times as fast.
#[derive(Clone, Debug)]
pub struct Integers<'p> {
    number: Number,
    /// Whole elements.
    rest: &'p [u8],
    /// The place of `rest` in the payload.
    at: usize,
}

impl<'p> Integers<'p> {
    /// `rest`: whole elements, which begin at byte `at` of the payload.
    pub(crate) fn new(number: Number, rest: &'p [u8], at: usize) -> Integers<'p> {
        Integers { number, rest, at }
    }

    /// Bytes of the elements that were not taken.
    pub(crate) fn rest_size(&self) -> usize {
        self.rest.len()
    }

    /// Takes all elements; appends them as [`Value::write_json`] would, with a comma between two of them.
    pub fn write_json(&mut self, out: &mut Vec<u8>, style: &Style) {
        if style.json_strings64 {
            for (number, (value, _)) in self.enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                value.write_json(out, style);
            }
            return;
        }
        let Some((first, _)) = self.next() else { return };
        first.write_json(out, style);
        self.write_others(out, b",", (b"\"0x", Some(b'"')));
    }

    /// Takes all elements; appends them as [`Value::write_text`] would, with `between`, of at most four bytes, between
    /// two of them.
    pub fn write_text<const N: usize>(&mut self, out: &mut Vec<u8>, between: &[u8; N]) {
        let style = Style::default();
        let Some((first, _)) = self.next() else { return };
        first.write_text(out, &style);
        self.write_others(out, between, (b"0x", None));
    }

    /// Appends all elements with `between` before each; `before` and `after` are around hex digits.
    fn write_others<const N: usize, const M: usize>(
        &mut self,
        out: &mut Vec<u8>,
        between: &[u8; N],
        (before, after): (&[u8; M], Option<u8>),
    ) {
        let number = self.number;
        let is_signed = match number.show {
            Show::Plain => number.is_signed,
            show => show == Show::Signed,
        };
        // A loop for each form.
        if number.show == Show::Hex {
            self.at += self.rest.len();
            let elements = (std::mem::take(&mut self.rest), number.size);
            write_hex_all(out, elements, Front::of(between, before), after);
        } else if is_signed {
            self.each_unsigned(|value| {
                out.extend_from_slice(between);
                write_int(out, number.signed(value));
            });
        } else {
            self.each_unsigned(|value| {
                out.extend_from_slice(between);
                write_uint(out, value);
            });
        }
    }

    #[inline(always)]
    fn each_unsigned(&mut self, visit: impl FnMut(u64)) {
        self.at += self.rest.len();
        let rest = std::mem::take(&mut self.rest);
        rest.chunks_exact(self.number.size).map(Number::unsigned).for_each(visit);
    }
}

impl<'p> Iterator for Integers<'p> {
    type Item = (Value<'p>, Range<usize>);

    #[inline(always)]
    fn next(&mut self) -> Option<(Value<'p>, Range<usize>)> {
        let (bytes, rest) = self.rest.split_at_checked(self.number.size)?;
        let start = self.at;
        self.rest = rest;
        self.at += bytes.len();
        Some((self.number.value(bytes), start..self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visitor::{Visitor, visit_each};
    use crate::{Catalog, Decoder};
    use etw_types::{EventRecord, HeaderType};
    use std::sync::Arc;

    /// The texts of arrays: as JSON and as text, an element at a time or all at once.
    #[derive(Default)]
    struct Texts {
        at_once: bool,
        text: Vec<u8>,
        /// Elements of an array to write, after which the walk ends.
        limit: Option<usize>,
    }

    impl Visitor for Texts {
        fn value(&mut self, _: &Field, value: Value<'_>) {
            if !matches!(self.text.last(), Some(b'[')) {
                self.text.push(b',');
            }
            value.write_json(&mut self.text, &Style::default());
            self.limit = self.limit.map(|limit| limit - 1);
        }
        fn begin_array(&mut self, _: &Field, _: usize) {
            self.text.push(b'[');
        }
        fn end_array(&mut self, _: &Field) {
            self.text.push(b']');
        }
        fn begin_struct(&mut self, _: &Field) {}
        fn end_struct(&mut self, _: &Field) {}
        fn integers(&mut self, field: &Field, integers: &mut Integers<'_>) {
            match self.at_once {
                true => integers.write_json(&mut self.text, &Style::default()),
                false => visit_each(integers, field, self),
            }
        }
        fn is_done(&self) -> bool {
            self.limit == Some(0)
        }
    }

    fn walked(payload: &[u8], mut texts: Texts) -> (String, usize, bool) {
        let types = [
            "Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "HexInt32",
            "HexInt64", "Pointer", "Boolean",
        ];
        let fields =
            types.map(|name| format!("<data name='{name}' inType='win:{name}' count='3'/>"));
        let manifest = format!(
            "<m><provider name='P' guid='{{00000000-0000-0000-0000-000000000001}}'><templates><template tid='T'>{}\
             </template></templates><events><event value='1' template='T'/></events></provider></m>",
            fields.concat()
        );
        let mut catalog = Catalog::default();
        catalog.add_manifest(manifest.as_bytes()).unwrap();
        let mut decoder = Decoder::new();
        decoder.set_catalog(Arc::new(catalog));
        let mut record = EventRecord::new(HeaderType::Event64, payload);
        record.provider = "00000000-0000-0000-0000-000000000001".parse().ok();
        record.descriptor.id = 1;
        let visited = decoder.decode(&record).visit_part(&record, &mut texts).unwrap();
        (String::from_utf8(texts.text).unwrap(), visited.rest.len(), visited.reason.is_some())
    }

    #[test]
    fn elements_written_at_once_are_those_written_one_by_one() {
        let mut state = 1u64;
        for shift in 0..8 {
            let payload: Vec<u8> = (0..200)
                .map(|_| {
                    state =
                        state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (state >> 56 >> shift) as u8
                })
                .collect();
            for length in [0, 1, 2, 3, 7, 30, 63, 100, 155, 177, 200] {
                let [one, all] = [false, true].map(|at_once| {
                    walked(&payload[..length], Texts { at_once, ..Texts::default() })
                });
                assert_eq!(one, all, "{length}");
            }
        }
        let all = walked(&[0xff; 200], Texts { at_once: true, ..Texts::default() });
        let start = "[-1,-1,-1],[255,255,255],[-1,-1,-1],[65535,65535,65535]";
        assert!(all.0.replace("][", "],[").starts_with(start), "{}", all.0);
    }

    #[test]
    fn a_walk_ends_inside_an_array_where_the_visitor_is_done() {
        for limit in 1..12 {
            let texts = Texts { limit: Some(limit), ..Texts::default() };
            let (text, rest, _) = walked(&[1; 200], texts);
            let count = text.split(['[', ',', ']']).filter(|part| !part.is_empty()).count();
            let taken = [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16][limit];
            assert_eq!((count, 200 - rest), (limit, taken), "{text}");
        }
    }

    #[test]
    fn texts_are_separated_as_asked() {
        let number = Number { show: Show::Hex, is_signed: false, size: 2 };
        let mut out = Vec::new();
        let mut integers = Integers::new(number, &[1, 0, 0, 0xab, 2, 0], 0);
        integers.write_text(&mut out, b", ");
        assert_eq!((out, integers.rest_size()), (b"0x1, 0xab00, 0x2".to_vec(), 0));
        let number = Number { show: Show::Plain, is_signed: true, size: 1 };
        let mut out = Vec::new();
        Integers::new(number, &[], 0).write_text(&mut out, b" ");
        Integers::new(number, &[7, 0xff], 0).write_text(&mut out, b" ");
        assert_eq!(out, b"7 -1");
    }
}
