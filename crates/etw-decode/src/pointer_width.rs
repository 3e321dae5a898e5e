//! [`fitting_pointer_size`]: the pointer width that a payload was written with, where the record's header names another one.
//!
//! Merged traces and providers of 2007 have classic records whose header says 32 bits and whose payload has 64-bit pointers. Where
//! only one width makes the fields end with the payload, that width is right. Where both do, as with an address and a text behind
//! it, or with a list of addresses, the values decide: half of an address is neither an address nor text.

use crate::field::{Field, Kind};
use crate::kernel::{self, KernelEvent};
use crate::measure::measure;
use crate::schema::Schema;
use crate::text::Text;
use crate::value::Value;
use crate::visitor::Visitor;
use crate::walk::walk_part;
use etw_tracelogging::Wire;
use etw_types::{EventRecord, le};

/// How badly a width fits a payload; smaller is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Misfit {
    /// The payload ends inside a field.
    is_cut: bool,
    /// Bytes behind the last field.
    rest: usize,
}

/// The other pointer width, if the payload fits it better than the record's.
pub(crate) fn fitting_pointer_size(schema: &Schema, record: &EventRecord<'_>) -> Option<u8> {
    if !schema.has_pointers() {
        return None;
    }
    let (own_size, payload) = (record.pointer_size, record.payload);
    let other_size = if own_size == 4 { 8 } else { 4 };
    let misfit = |size| {
        let measured = measure(schema, payload, size);
        Misfit { is_cut: measured.is_cut, rest: payload.len() - measured.used }
    };
    let (own, other) = (misfit(own_size), misfit(other_size));
    if other != own {
        return (other < own).then_some(other_size);
    }
    let own_oddities = oddities(schema, payload, own_size);
    let is_better = own_oddities > 0 && oddities(schema, payload, other_size) < own_oddities;
    is_better.then_some(other_size)
}

/// The pointer width of a record with one of the kernel's own headers: its header's, unless the built-in class fits its payload better with
/// 64-bit pointers. What [`Decoder`](crate::Decoder) decodes with that class has this width, too.
pub fn kernel_pointer_size(record: &EventRecord<'_>) -> u8 {
    let own = record.pointer_size;
    let Some(hook) = record.hook.filter(|_| own == 4) else { return own };
    let class = hook.class_guid().unwrap_or_default();
    let rows = kernel::events(class, hook.kind(), record.descriptor.version);
    let schema = rows.iter().filter_map(KernelEvent::schema).find(|row| !row.needs_exact_fit);
    schema.and_then(|schema| fitting_pointer_size(schema, record)).unwrap_or(own)
}

/// Addresses and texts that no system has.
fn oddities(schema: &Schema, payload: &[u8], pointer_size: u8) -> usize {
    let mut counter = OddityCounter { pointer_size, count: 0 };
    walk_part(schema, payload, pointer_size, &mut counter);
    counter.count
}

struct OddityCounter {
    pointer_size: u8,
    count: usize,
}

impl Visitor for OddityCounter {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        let is_odd = match (&field.kind, value) {
            (Kind::Scalar { wire: Wire::Pointer, .. }, value) => {
                value.as_u64().is_some_and(|address| is_odd_address(address, self.pointer_size))
            }
            (_, Value::Text(Text::Utf16(text))) => is_odd_text(text),
            (_, Value::Text(Text::Ansi(text))) => {
                text.iter().any(|byte| matches!(byte, 1..=8 | 0xb | 0xc | 0xe..=0x1f | 0x7f))
            }
            _ => false,
        };
        self.count += usize::from(is_odd);
    }
    fn begin_array(&mut self, _: &Field, _: usize) {}
    fn end_array(&mut self, _: &Field) {}
    fn begin_struct(&mut self, _: &Field) {}
    fn end_struct(&mut self, _: &Field) {}
}

fn is_odd_address(address: u64, pointer_size: u8) -> bool {
    match pointer_size {
        // The upper half of a 64-bit address, in user or kernel mode. Status codes and handles may have such values, too: the caller
        // compares the counts of both widths.
        4 => matches!(address, 1..0x1_0000 | 0xffff_0000..0xffff_ffff),
        // Bits 47 to 63 of an address are equal.
        _ => !matches!(address >> 47, 0 | 0x1_ffff),
    }
}

/// Whether UTF-16 has characters that no text has: control characters, noncharacters, surrogates without their other half.
fn is_odd_text(text: &[u8]) -> bool {
    let units = text.chunks_exact(2).filter_map(|unit| le::u16(unit, 0));
    char::decode_utf16(units).any(|unit| match unit {
        Ok(unit) => {
            let is_control = unit.is_control() && !matches!(unit, '\t' | '\n' | '\r');
            is_control || matches!(unit, '\u{fdd0}'..='\u{fdef}' | '\u{fffe}' | '\u{ffff}')
        }
        Err(_) => true,
    })
}

#[cfg(test)]
mod tests {
    use super::kernel_pointer_size;
    use crate::Decoder;
    use crate::value::Style;
    use etw_types::{EventRecord, HeaderType, Hook};

    const KERNEL_ADDRESS: u64 = 0xffff_fa80_0123_4560;

    fn utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
    }

    /// The fields of a classic record, as texts.
    fn fields(
        header: HeaderType,
        class: &str,
        kind: u8,
        version: u8,
        payload: &[u8],
    ) -> Vec<String> {
        let mut record = EventRecord::new(header, payload);
        record.provider = class.parse().ok();
        record.descriptor.opcode.0 = kind;
        record.descriptor.version = version;
        texts(&record)
    }

    /// The fields of a record whose pointers have the width that its header says.
    fn texts(record: &EventRecord<'_>) -> Vec<String> {
        let mut record = *record;
        record.pointer_size = record.header.pointer_size().unwrap();
        let mut decoder = Decoder::new();
        let decoded = decoder.decode(&record);
        let fields = decoded.fields_text(&record, &Style::default()).unwrap();
        let values = fields.into_iter().map(|(_, value)| value);
        // A stack has fields for more addresses than it has.
        values.filter(|value| !value.is_empty()).collect()
    }

    const FILE_IO: &str = "90cbdc39-4a3e-11d1-84f4-0000f80464e3";
    const IMAGE: &str = "2cb15d1d-5fc1-11d2-abe1-00a0c911f518";
    const DISK_IO: &str = "3d6fa8d4-fe05-11d0-9dda-00c04fd7ba7c";
    const PROCESS: &str = "3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c";
    const STACK: &str = "def2fe46-7bd6-4b80-bd94-f57fe20d0ce3";

    /// Both widths make these fields end with the payload.
    #[test]
    fn an_address_and_a_text_are_read_with_the_width_that_gives_neither_garbage() {
        let name = utf16(r"\Device\HarddiskVolume1\a.txt");
        let wide = [&KERNEL_ADDRESS.to_le_bytes()[..], &name].concat();
        let narrow = [&0x8712_3456u32.to_le_bytes()[..], &name].concat();
        for header in [HeaderType::Full32, HeaderType::Full64] {
            let wide = fields(header, FILE_IO, 0, 2, &wide);
            assert_eq!(wide, ["0xfffffa8001234560", r"\Device\HarddiskVolume1\a.txt"]);
            let narrow = fields(header, FILE_IO, 0, 2, &narrow);
            assert_eq!(narrow, ["0x87123456", r"\Device\HarddiskVolume1\a.txt"]);
        }
        let image =
            [&0x7_fef0_0000u64.to_le_bytes()[..], &0x12000u32.to_le_bytes(), &utf16(r"C:\a.dll")]
                .concat();
        let image = fields(HeaderType::Full32, IMAGE, 10, 0, &image);
        assert_eq!(image, ["0x7fef00000", "73728", r"C:\a.dll"]);
    }

    #[test]
    fn a_wide_payload_of_a_narrow_record_is_read_whole_whatever_its_class() {
        let disk: Vec<u8> = [
            &[1u32, 0x43, 4096, 0].map(u32::to_le_bytes).concat()[..],
            &[0x1_0000_0000, KERNEL_ADDRESS, KERNEL_ADDRESS + 0x100, 77]
                .map(u64::to_le_bytes)
                .concat(),
        ]
        .concat();
        let disk = fields(HeaderType::Full32, DISK_IO, 10, 2, &disk);
        assert_eq!(disk[4..], ["4294967296", "0xfffffa8001234560", "0xfffffa8001234660", "77"]);
        // A TOKEN_USER of 64 bits in front of the SID.
        let process: Vec<u8> = [
            &KERNEL_ADDRESS.to_le_bytes()[..],
            &[4u32, 8, 1, 259].map(u32::to_le_bytes).concat(),
            &[KERNEL_ADDRESS, 0].map(u64::to_le_bytes).concat(),
            &[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0],
            b"cmd.exe\0",
            &utf16("cmd /c"),
        ]
        .concat();
        let process = fields(HeaderType::Full32, PROCESS, 1, 2, &process);
        assert_eq!(process[1..], ["4", "8", "1", "259", "S-1-5-18", "cmd.exe", "cmd /c"]);
    }

    #[test]
    fn the_addresses_of_a_stack_are_not_cut_into_halves() {
        let head = [&5u64.to_le_bytes()[..], &[8u32, 12].map(u32::to_le_bytes).concat()].concat();
        let frames =
            [KERNEL_ADDRESS, 0x7_7712_3456, 0x7ff6_1234_5678].map(u64::to_le_bytes).concat();
        let wide = [head.clone(), frames].concat();
        let narrow = [head, [0x8712_3456u32, 0x7712_3456].map(u32::to_le_bytes).concat()].concat();
        for header in [HeaderType::Full32, HeaderType::Full64] {
            let found = fields(header, STACK, 32, 2, &wide);
            assert_eq!(found[3..], ["0xfffffa8001234560", "0x777123456", "0x7ff612345678"]);
            assert_eq!(fields(header, STACK, 32, 2, &narrow)[3..], ["0x87123456", "0x77123456"]);
        }
    }

    /// The kernel's own headers, too.
    #[test]
    fn a_wide_payload_behind_a_narrow_kernel_header_is_read_whole() {
        let payload = [&KERNEL_ADDRESS.to_le_bytes()[..], &utf16(r"C:\a.txt")].concat();
        let mut record = EventRecord::new(HeaderType::System32, &payload);
        record.hook = Some(Hook(0x0424));
        record.descriptor.version = 2;
        assert_eq!(texts(&record), ["0xfffffa8001234560", r"C:\a.txt"]);
        record.pointer_size = 4;
        assert_eq!(kernel_pointer_size(&record), 8);
        let narrow = [&0x8712_3456u32.to_le_bytes()[..], &utf16(r"C:\a.txt")].concat();
        record.payload = &narrow;
        assert_eq!(kernel_pointer_size(&record), 4);
    }
}
