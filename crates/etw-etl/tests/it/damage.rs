//! Every damage is local and told once, and the rest of the file is read.

use crate::support::{
    Outcome, Rng, Row, buffer_offsets, builder, event, event_bytes, numbered, numbered_compressed,
    open, options, push_numbered, put_u32, read, read_files, read_once, u32_at,
};
use etw_etl::read::{ByteSource, Records, TraceFile};
use etw_etl::write::{BufferBuilder, FileBuilder};
use etw_etl::{DamageKind, Error};
use etw_types::{BufferHeader, ExtType, ExtendedItemsBuf, LogFileMode};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

mod changing;
mod circular;
mod overwritten;
mod sparse;
mod truncated;

const HEAD: usize = BufferHeader::SIZE;
const GRID: usize = 0x400;

fn truncated(missing_bytes: usize, missing_buffers: usize) -> DamageKind {
    DamageKind::Truncated {
        missing_bytes: missing_bytes as u64,
        missing_buffers: missing_buffers as u64,
    }
}

fn no_buffer(length: usize, zeros: bool) -> DamageKind {
    DamageKind::NoBuffer { length: length as u64, zeros }
}

fn damages<const N: usize>(list: [(usize, DamageKind); N]) -> Vec<(u64, DamageKind)> {
    list.map(|(offset, kind)| (offset as u64, kind)).to_vec()
}

/// A sound file, what is in it, and where.
struct Sound {
    bytes: Vec<u8>,
    rows: Vec<Row>,
    offsets: Vec<usize>,
}

impl Sound {
    fn new(bytes: Vec<u8>) -> Sound {
        let outcome = read(&bytes);
        assert_eq!(outcome.damage, []);
        assert_eq!(outcome.out_of_order, [0]);
        let offsets = buffer_offsets(&bytes);
        assert!(offsets.len() > 6, "enough buffers to damage");
        Sound { bytes, rows: outcome.rows, offsets }
    }

    fn uniform() -> Sound {
        Sound::new(numbered(GRID as u32, 2, 60))
    }

    fn compressed() -> Sound {
        Sound::new(numbered_compressed(GRID as u32, 2, 60))
    }

    /// Offset of buffer `number` and its length.
    fn buffer(&self, number: usize) -> (usize, usize) {
        (self.offsets[number], self.offsets[number + 1] - self.offsets[number])
    }

    fn damaged(&self, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        change(&mut bytes);
        bytes
    }

    /// All rows but those that `lost` picks.
    fn without(&self, lost: impl Fn(&Row) -> bool) -> Vec<Row> {
        self.rows.iter().filter(|row| !lost(row)).cloned().collect()
    }

    /// Reads a damaged copy: exactly this damage, and all rows but these.
    fn check(
        &self,
        what: &str,
        bytes: &[u8],
        damage: Vec<(u64, DamageKind)>,
        lost: impl Fn(&Row) -> bool,
    ) {
        let outcome = read(bytes);
        assert_eq!(outcome.damage, damage, "{what}");
        assert_same(what, &outcome.rows, &self.without(lost));
    }
}

/// Compares like [`assert_same`], in any order, since a damaged time moves a record.
fn assert_same_set(what: &str, rows: &[Row], expected: &[Row]) {
    let sorted = |rows: &[Row]| {
        let mut rows = rows.to_vec();
        rows.sort_by(|a, b| a.stored.cmp(&b.stored));
        rows
    };
    assert_same(what, &sorted(rows), &sorted(expected));
}

/// Equal but for buffer numbers and offsets, which damage can shift.
fn assert_same(what: &str, rows: &[Row], expected: &[Row]) {
    let key = |row: &Row| (row.order_time, row.number(), row.stored.clone());
    for (at, (row, expected)) in rows.iter().zip(expected).enumerate() {
        assert!(key(row) == key(expected), "{what}: record {at} is {row:?}, not {expected:?}");
    }
    let rest = rows.get(expected.len()).or(expected.get(rows.len()));
    assert!(rest.is_none(), "{what}: {} records, not {}: {rest:?}", rows.len(), expected.len());
}

fn end_of(sound: &Sound, row: &Row) -> usize {
    sound.offsets[row.buffer as usize] + HEAD + row.offset as usize + row.stored.len()
}

// ---------------------------------------------------------------- truncation

// ---------------------------------------------------------------- ranges overwritten

// ---------------------------------------------------------------- lying buffer headers

#[test]
fn malicious_buffer_size_in_a_uniform_file() {
    let sound = Sound::uniform();
    let grid = GRID as u32;
    for number in 0..sound.offsets.len() - 1 {
        let start = sound.offsets[number];
        for lie in [0, 1, 0x48, 0x90, 0x3f8, 0x408, 2 * grid, 3 * grid, 1 << 24, u32::MAX] {
            let bytes = sound.damaged(|bytes| put_u32(bytes, start, lie));
            let kind = DamageKind::BufferSize { found: lie, expected: grid };
            let what = format!("size {lie:#x} in buffer {number}");
            sound.check(&what, &bytes, damages([(start, kind)]), |_| false);
        }
    }
}

#[test]
fn a_buffer_size_of_two_before_a_buffer_that_is_gone() {
    let sound = Sound::uniform();
    let bytes = sound.damaged(|bytes| {
        put_u32(bytes, 3 * GRID, 2 * GRID as u32);
        bytes[4 * GRID..5 * GRID].fill(0);
    });
    let lie = DamageKind::BufferSize { found: 2 * GRID as u32, expected: GRID as u32 };
    let expected = damages([(3 * GRID, lie), (4 * GRID, no_buffer(GRID, true))]);
    sound.check("both", &bytes, expected, |row| row.buffer == 4);
}

#[test]
fn malicious_buffer_size_in_a_compressed_file() {
    let sound = Sound::compressed();
    for number in 0..sound.offsets.len() - 1 {
        let (start, size) = sound.buffer(number);
        let size = size as u32;
        for lie in [0, 1, 0x48, 0x60, size - 40, size - 9, size + 1, size + 60, 1 << 25, u32::MAX] {
            if number == 0 && lie < size && lie > size - 100 {
                // Only the filler behind the records of the header buffer is cut off.
                continue;
            }
            let bytes = sound.damaged(|bytes| put_u32(bytes, start, lie));
            let kind = DamageKind::BufferSize { found: lie, expected: size };
            let what = format!("size {lie:#x} in buffer {number} of {size:#x} bytes");
            sound.check(&what, &bytes, damages([(start, kind)]), |_| false);
        }
    }
}

#[test]
fn a_malicious_filled_length_costs_only_its_buffer() {
    let sound = Sound::uniform();
    let number = 3;
    let start = number * GRID;
    let filled = u32_at(&sound.bytes, start + 0x30);
    for lie in [0, 0x47, GRID as u32 + 1, u32::MAX] {
        // One of the two lengths is enough.
        let bytes = sound.damaged(|bytes| put_u32(bytes, start + 0x30, lie));
        sound.check("offset", &bytes, vec![], |_| false);
        let bytes = sound.damaged(|bytes| put_u32(bytes, start + 0x04, lie));
        sound.check("saved offset", &bytes, vec![], |_| false);
        let bytes = sound.damaged(|bytes| {
            put_u32(bytes, start + 0x30, lie);
            put_u32(bytes, start + 0x04, lie);
        });
        let kind = DamageKind::FilledLength { found: lie, limit: GRID as u32 };
        sound.check("both", &bytes, damages([(start, kind)]), |_| false);
    }
    // More than is there: up to the filler.
    let bytes = sound.damaged(|bytes| put_u32(bytes, start + 0x30, GRID as u32));
    let at = filled as usize - HEAD;
    let kind = DamageKind::UnknownRecord {
        marker: u32::MAX,
        at: at as u32,
        skipped: GRID as u32 - filled,
    };
    sound.check("filler", &bytes, damages([(start + filled as usize, kind)]), |_| false);
}

#[test]
fn malicious_filled_length_of_a_compressed_buffer() {
    let sound = Sound::compressed();
    let (start, _) = sound.buffer(3);
    for lie in [0, 0x47, GRID as u32 + 1, 16 << 20] {
        let bytes = sound.damaged(|bytes| {
            put_u32(bytes, start + 0x30, lie);
            put_u32(bytes, start + 0x04, lie);
        });
        let kind = DamageKind::FilledLength { found: lie, limit: GRID as u32 };
        sound.check(&format!("{lie:#x}"), &bytes, damages([(start, kind)]), |_| false);
    }
}

#[test]
fn the_logfile_headers_buffer_size_lies() {
    let sound = Sound::uniform();
    let at = HEAD + 0x20;
    for lie in [0, 1, 0x100, 0x800, 0x404, 1 << 24, u32::MAX] {
        let bytes = sound.damaged(|bytes| put_u32(bytes, at, lie));
        let outcome = read(&bytes);
        assert_eq!(outcome.damage, [], "{lie:#x}");
        let rows = sound.without(|row| row.number().is_none());
        let found: Vec<Row> =
            outcome.rows.into_iter().filter(|row| row.number().is_some()).collect();
        assert_same(&format!("{lie:#x}"), &found, &rows);
    }
}

#[test]
fn the_count_of_buffers_lies() {
    let sound = Sound::uniform();
    let buffers = sound.offsets.len() - 1;
    let at = HEAD + 0x20 + 0x24;
    for lie in [0, 1, buffers as u32 - 1] {
        let bytes = sound.damaged(|bytes| put_u32(bytes, at, lie));
        let outcome = read(&bytes);
        assert_eq!(outcome.damage, []);
        assert_eq!(outcome.numbers().len(), 60);
    }
    let bytes = sound.damaged(|bytes| put_u32(bytes, at, u32::MAX));
    let missing = truncated(0, u32::MAX as usize - buffers);
    assert_eq!(read(&bytes).damage, damages([(bytes.len(), missing)]));
}

// ---------------------------------------------------------------- lying records

/// A file with one buffer of `bytes` between numbered ones.
fn with_buffer(records: &[&[u8]]) -> (Vec<u8>, usize) {
    let mut file = builder(GRID as u32);
    push_numbered(&mut file, 1, 10);
    file.flush(0);
    let mut buffer = BufferBuilder::new(GRID as u32, 7);
    buffer.header.sequence_number = 900;
    for bytes in records {
        buffer.push_bytes(bytes);
    }
    let start = file.clone().finish().len();
    file.push_buffer(buffer);
    let raw = file.header.start_raw;
    for number in 10..20 {
        event(number, raw, |record| file.push(0, record)).unwrap();
    }
    (file.finish(), start)
}

fn start_raw() -> i64 {
    FileBuilder::new().header.start_raw
}

#[test]
fn malicious_record_sizes_cost_only_their_buffer() {
    let good = event_bytes(500, start_raw() + 5);
    let behind = event_bytes(501, start_raw() + 6);
    let at = good.len().next_multiple_of(8);
    for size in [0, 1, 0x4f, 0x3b9, 0xffff] {
        let mut bad = event_bytes(502, start_raw() + 5);
        bad[..2].copy_from_slice(&(size as u16).to_le_bytes());
        let room = (bad.len().next_multiple_of(8) + behind.len().next_multiple_of(8)) as u32;
        let (bytes, start) = with_buffer(&[&good, &bad, &behind]);
        let outcome = read(&bytes);
        let kind = DamageKind::RecordSize { size, room, at: at as u32 };
        assert_eq!(outcome.damage, damages([(start + HEAD + at, kind)]), "{size:#x}");
        let mut expected: Vec<u32> = (0..20).collect();
        expected.insert(0, 500);
        assert_eq!(outcome.numbers(), expected);
    }
}

#[test]
fn an_unknown_record_type_ends_its_buffer() {
    let good = event_bytes(500, start_raw() + 5);
    let behind = event_bytes(501, start_raw() + 6);
    let at = good.len().next_multiple_of(8);
    let markers = [
        0xc00c_0040,
        0xc00e_0040,
        0xc016_0040,
        0xc055_0040,
        0xb000_0040,
        0x8000_0040,
        0xa000_0040,
        0x0000_0040,
        0xc000_0040,
        0xc0ff_0040,
        0,
    ];
    for marker in markers {
        let mut bad = vec![0x40; 0x40];
        put_u32(&mut bad, 0, marker);
        put_u32(&mut bad, 0x2c, 0);
        let skipped = (0x40 + behind.len().next_multiple_of(8)) as u32;
        let (bytes, start) = with_buffer(&[&good, &bad, &behind]);
        let outcome = read(&bytes);
        let kind = DamageKind::UnknownRecord { marker, at: at as u32, skipped };
        assert_eq!(outcome.damage, damages([(start + HEAD + at, kind)]), "{marker:#x}");
        assert_eq!(outcome.numbers().len(), 21);
    }
}

#[test]
fn malicious_extended_items_are_reported_as_damage() {
    let good = event_bytes(500, start_raw() + 5);
    let behind = event_bytes(501, start_raw() + 7);
    let items = ExtendedItemsBuf::from_items(&[(ExtType::RELATED_ACTIVITYID, &[7; 16])]).unwrap();
    let bad = event(502, start_raw(), |record| {
        let mut record = *record;
        record.extended = items.as_items();
        record.order_time = start_raw() + 6;
        let mut bytes = Vec::new();
        etw_etl::write::encode(&record, &mut bytes).unwrap();
        bytes
    });
    // Total size, linkage, data size.
    let lies: [(usize, u16); 9] =
        [(0, 0), (0, 8), (0, 25), (0, 0xffff), (4, 1), (4, 0xffff), (6, 17), (6, 0xffff), (0, 1)];
    for (at, lie) in lies {
        let mut bad = bad.clone();
        bad[0x50 + at..0x52 + at].copy_from_slice(&lie.to_le_bytes());
        let (bytes, start) = with_buffer(&[&good, &bad, &behind]);
        let outcome = read(&bytes);
        let at = good.len().next_multiple_of(8);
        let kind = DamageKind::RecordParts { at: at as u32 };
        assert_eq!(outcome.damage, damages([(start + HEAD + at, kind)]), "{lie:#x}");
        let mut expected: Vec<u32> = (0..20).collect();
        expected.splice(0..0, [500, 501]);
        assert_eq!(outcome.numbers(), expected, "what is behind it is read");
    }
}

#[test]
fn record_damage_in_a_compressed_buffer_is_reported_at_the_buffer() {
    let mut buffer = BufferBuilder::new(GRID as u32, 7);
    for number in 500..503 {
        buffer.push_bytes(&event_bytes(number, start_raw() + i64::from(number)));
    }
    let at = buffer.len();
    buffer.push_bytes(&[0; 64]);
    let mut file = builder(GRID as u32);
    file.compressed = true;
    push_numbered(&mut file, 1, 10);
    file.flush(0);
    let start = file.clone().finish().len();
    file.push_buffer(buffer);
    let outcome = read(&file.finish());
    let kind = DamageKind::UnknownRecord { marker: 0, at: at as u32, skipped: 64 };
    assert_eq!(outcome.damage, damages([(start, kind)]));
    assert_eq!(outcome.numbers().len(), 13);
}

#[test]
fn flipped_bytes_cost_only_their_compressed_buffer() {
    let sound = Sound::compressed();
    let (start, size) = sound.buffer(4);
    for at in start + HEAD..start + size {
        let bytes = sound.damaged(|bytes| bytes[at] ^= 0x55);
        let outcome = read_once(&bytes);
        let kept: Vec<Row> = outcome.rows.iter().filter(|row| row.buffer != 4).cloned().collect();
        assert_same_set(&format!("flip at {at}"), &kept, &sound.without(|row| row.buffer == 4));
        // Matches spread a flip over many records of the buffer, but not out of it.
        assert!(outcome.damage.iter().all(|damage| damage.0 == start as u64), "flip at {at}");
    }
}

// ---------------------------------------------------------------- bombs

#[test]
fn a_tiny_buffer_that_claims_sixteen_megabytes() {
    let mut bomb = BufferBuilder::new(GRID as u32, 9);
    for number in 0..400 {
        bomb.push_bytes(&event_bytes(41 * number, start_raw() + 7));
    }
    let mut bytes = bomb.finish_compressed();
    put_u32(&mut bytes, 0x30, 16 << 20);
    put_u32(&mut bytes, 0x04, 16 << 20);
    let mut file = builder(0x10000);
    file.compressed = true;
    push_numbered(&mut file, 2, 100);
    file.flush(0);
    file.flush(1);
    let start = file.clone().finish().len();
    file.push_raw(bytes);
    let bytes = file.finish();
    let (outcome, peak) = crate::alloc::peak(|| read_once(&bytes));
    let kind = DamageKind::FilledLength { found: 16 << 20, limit: 0x10000 };
    assert_eq!(outcome.damage, damages([(start, kind)]));
    assert_eq!(outcome.rows.len(), 1 + 100 + 400);
    assert!(peak < 2 << 20, "{peak} bytes");
}

#[test]
fn thousands_of_cpus_with_bombs_stay_within_the_limit() {
    let mut bomb = BufferBuilder::new(16 << 20, 0);
    bomb.push_bytes(&event_bytes(1, start_raw() + 7));
    bomb.push_bytes(&vec![0; 1 << 20]);
    let bomb = bomb.finish_compressed();
    assert!(bomb.len() < 400);
    let mut file = builder(0x10000);
    file.compressed = true;
    for cpu in 0..2048u16 {
        let mut bytes = bomb.clone();
        bytes[0x28..0x2a].copy_from_slice(&cpu.to_le_bytes());
        bytes[0x18] = 1;
        file.push_raw(bytes);
    }
    file.header.logfile.buffer_size = 16 << 20;
    let mut bytes = file.finish();
    // The header buffer itself need not be that large on disk.
    let header = u32_at(&bytes, 0x30);
    bytes.drain(header as usize..16 << 20);
    put_u32(&mut bytes, 0, header);

    let mut options = options(0);
    options.open_buffer_limit = 20 << 20;
    let file = open(&bytes).unwrap();
    let (outcome, peak) = crate::alloc::peak(|| read_files(vec![file], options));
    assert!(peak < 32 << 20, "{peak} bytes");
    assert_eq!(outcome.totals.streams, 2048);
    let skipped = |(_, kind): &&(u64, DamageKind)| matches!(kind, DamageKind::OpenBuffers { .. });
    let skipped = outcome.damage.iter().filter(skipped).count();
    assert_eq!(skipped + outcome.numbers().len(), 2048);
    assert!(outcome.numbers().len() >= 17, "{}", outcome.numbers().len());
}

#[test]
fn one_large_buffer_does_not_swell_the_others() {
    let mut file = builder(1 << 20);
    file.compressed = true;
    let mut number = 0;
    // Each CPU in turn has a large buffer, the others small ones.
    for cpu in 0..32 {
        for (other, count) in [(cpu, 5000), ((cpu + 1) % 32, 1)] {
            for _ in 0..count {
                event(number, start_raw(), |record| file.push(other, record)).unwrap();
                number += 1;
            }
            file.flush(other);
        }
    }
    let bytes = file.finish();
    let file = open(&bytes).unwrap();
    let mut records = Records::new(vec![file]);
    let (count, peak) = crate::alloc::peak(|| {
        let mut count = 0;
        while records.next().is_some() {
            count += 1;
        }
        count
    });
    assert_eq!(count, number + 1);
    assert!(records.damage().is_empty());
    assert!(peak < 8 << 20, "{peak} bytes");
}

// ---------------------------------------------------------------- more or other bytes

#[test]
fn bytes_appended_to_a_file_are_reported_as_damage() {
    for sound in [Sound::uniform(), Sound::compressed()] {
        let length = sound.bytes.len();
        for count in [1, 8, 71, 72, 100, GRID - 1, GRID, 5 * GRID + 3] {
            let bytes = sound.damaged(|bytes| {
                bytes.resize(length + count, 0);
                Rng::new(count as u64).fill(&mut bytes[length..]);
            });
            let expected = damages([(length, no_buffer(count, false))]);
            sound.check(&format!("{count} bytes"), &bytes, expected, |_| false);
            let bytes = sound.damaged(|bytes| bytes.resize(length + count, 0));
            let expected = damages([(length, no_buffer(count, true))]);
            sound.check(&format!("{count} zeros"), &bytes, expected, |_| false);
        }
    }
}

#[test]
fn reserved_zeros_are_not_damage() {
    for (preallocate, finalised) in [(true, true), (true, false), (false, false)] {
        for compressed in [false, true] {
            let mut file = builder(GRID as u32);
            (file.finalised, file.compressed) = (finalised, compressed);
            if preallocate {
                file.header.logfile.log_file_mode |= LogFileMode::PREALLOCATE;
            }
            push_numbered(&mut file, 2, 60);
            let sound = Sound::new(file.finish());
            for count in [1, 71, 100, 3 * GRID, 3 * GRID + 5] {
                let bytes = sound.damaged(|bytes| bytes.resize(bytes.len() + count, 0));
                sound.check("reserved", &bytes, vec![], |_| false);
                assert_eq!(open(&bytes).unwrap().totals().reserved_bytes, count as u64);
            }
        }
    }
}

#[test]
fn buffers_behind_inserted_or_removed_bytes_are_found() {
    for sound in [Sound::uniform(), Sound::compressed()] {
        let (start, _) = sound.buffer(3);
        let (next, _) = sound.buffer(4);
        for count in [1, 8, 100, 2000] {
            let bytes = sound.damaged(|bytes| {
                let mut garbage = vec![0; count];
                Rng::new(count as u64).fill(&mut garbage);
                bytes.splice(start..start, garbage);
            });
            let outcome = read(&bytes);
            let expected = damages([(start, no_buffer(count, false))]);
            assert_eq!(outcome.damage, expected, "{count}");
            assert_same("inserted", &outcome.rows, &sound.rows);
        }
        for count in [1, 8, 40] {
            let bytes = sound.damaged(|bytes| drop(bytes.drain(next - count..next)));
            let outcome = read(&bytes);
            let lost = |row: &Row| row.buffer == 3;
            let rows: Vec<Row> = outcome.rows.iter().filter(|row| !lost(row)).cloned().collect();
            assert_same("removed", &rows, &sound.without(lost));
            assert!((1..=2).contains(&outcome.damage.len()), "{:?}", outcome.damage);
        }
    }
}

#[test]
fn bytes_before_a_file_are_reported_as_damage() {
    for sound in [Sound::uniform(), Sound::compressed()] {
        for count in [1, 100, 3 * GRID] {
            let mut bytes = vec![0; count];
            Rng::new(3).fill(&mut bytes);
            bytes.extend(&sound.bytes);
            assert!(open(&bytes).unwrap().header().is_some());
            let expected = damages([(0, no_buffer(count, false))]);
            sound.check(&format!("{count} bytes"), &bytes, expected, |_| false);
        }
    }
}

#[test]
fn concatenated_files_are_all_read() {
    let all = [
        numbered(0x400, 2, 60),
        numbered(0x1000, 3, 400),
        numbered_compressed(0x400, 2, 60),
        numbered_compressed(0x2000, 1, 700),
    ];
    for first in &all {
        for second in &all {
            let mut bytes = first.clone();
            bytes.extend(second);
            let outcome = read(&bytes);
            let second_header = (first.len() as u64, DamageKind::SecondHeader);
            assert!(outcome.damage.contains(&second_header), "{:?}", outcome.damage);
            let mut expected = Sound::new(first.clone()).rows;
            expected.extend(Sound::new(second.clone()).rows);
            assert_eq!(outcome.rows.len(), expected.len());
            let mut found: Vec<_> = outcome.rows.into_iter().map(|row| row.stored).collect();
            let mut expected: Vec<_> = expected.into_iter().map(|row| row.stored).collect();
            found.sort();
            expected.sort();
            assert_eq!(found, expected);
        }
    }
}

/// A buffer that was written twice: its records are there once, and the second one is damage.
#[test]
fn a_repeated_buffer_is_read_once() {
    for sound in [Sound::uniform(), Sound::compressed()] {
        let [start, end] = [sound.offsets[3], sound.offsets[4]];
        let mut bytes = sound.bytes.clone();
        bytes.splice(end..end, sound.bytes[start..end].to_vec());
        let outcome = read(&bytes);
        let told = DamageKind::RepeatedBuffer { first: start as u64 };
        assert_eq!(outcome.damage, damages([(end, told)]));
        let stored = |rows: &[Row]| rows.iter().map(|row| row.stored.clone()).collect::<Vec<_>>();
        assert_eq!(stored(&outcome.rows), stored(&sound.rows));
    }
}

// ---------------------------------------------------------------- no trace at all

#[test]
fn a_file_that_is_not_a_trace_is_an_error() {
    let sound = Sound::uniform();
    let mut random = vec![0; 100_000];
    Rng::new(4).fill(&mut random);
    let text = b"PK not an etl, but some text that goes on for a while\n".repeat(50);
    let cases: [(&str, Vec<u8>, &str); 7] = [
        ("empty", vec![], "0 bytes"),
        ("one byte", vec![1], "1 bytes"),
        ("text", text, "text"),
        ("zeros", vec![0; 3 << 20], "zeros"),
        ("ones", vec![0xff; 100_000], "bytes ffffffffffffffff"),
        ("random", random, "bytes"),
        ("half a header", sound.bytes[..36].to_vec(), "36 bytes"),
    ];
    for (what, bytes, found) in cases {
        match open(&bytes) {
            Err(error @ Error::NotAnEtl { .. }) => {
                let text = error.to_string();
                assert!(text.contains(found), "{what}: {text}");
            }
            other => panic!("{what}: {:?}", other.err()),
        }
    }
}

/// Programs and archives have bytes that look like buffers.
#[test]
fn files_of_other_formats_are_no_damaged_traces() {
    let sound = Sound::uniform();
    let with_start = |start: &[u8]| {
        let mut bytes = sound.bytes.clone();
        bytes[..GRID].fill(0xee);
        bytes[..start.len()].copy_from_slice(start);
        open(&bytes)
    };
    let mut pe = b"MZ".to_vec();
    pe.resize(0x3c, 0);
    pe.extend([0x80, 0, 0, 0]);
    pe.resize(0x80, 0);
    let dos = pe.clone();
    pe.extend(b"PE\0\0");
    for (start, format) in [
        (&b"\x7fELF\x02\x01\x01\0"[..], "(ELF)"),
        (&pe, "(PE)"),
        (b"\x1f\x8b\x08\0", "gzip"),
        (b"PK\x03\x04", "ZIP"),
        (b"PERFILE2", "perf"),
    ] {
        let error = with_start(start).err().expect("another format").to_string();
        assert!(error.contains(format), "{error}");
    }
    for start in [&b""[..], &dos, b"\x7fEL", b"PK"] {
        assert!(with_start(start).is_ok(), "a trace whose first buffer is destroyed: {start:?}");
    }
    let mut header = sound.bytes.clone();
    header[..4].copy_from_slice(b"\x7fELF");
    assert!(open(&header).is_ok(), "its logfile header can be read");
}

#[test]
fn a_path_that_is_not_a_file_is_an_error_at_once() {
    let directory = std::env::temp_dir();
    assert!(matches!(TraceFile::open(&directory), Err(Error::NotAFile { .. })));
    assert!(matches!(TraceFile::open(directory.join("no such.etl")), Err(Error::Io { .. })));
    #[cfg(unix)]
    {
        assert!(matches!(TraceFile::open("/dev/zero"), Err(Error::NotAFile { .. })));
        let pipe = directory.join(format!("etw-etl-{}.fifo", std::process::id()));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        if made.is_ok_and(|status| status.success()) {
            let result = TraceFile::open(&pipe);
            std::fs::remove_file(&pipe).unwrap();
            assert!(matches!(result, Err(Error::NotAFile { .. })));
        }
    }
}

// ---------------------------------------------------------------- much damage

#[test]
fn damage_without_end_is_counted_and_kept_in_bounds() {
    // A compressed file in which every other buffer lies about its size.
    let mut file = builder(GRID as u32);
    file.compressed = true;
    let mut bytes = file.finish();
    let event = event_bytes(1, start_raw() + 1);
    let mut piece = BufferBuilder::new(0, 0);
    piece.push_bytes(&event);
    let piece = piece.finish();
    let mut piece = [piece.clone(), piece].concat();
    let half = piece.len() / 2;
    put_u32(&mut piece, 0, 0x50);
    put_u32(&mut piece, half, half as u32);
    let count = 30_000;
    for _ in 0..count {
        bytes.extend(&piece);
    }
    let size = bytes.len();
    let (records, peak) = crate::alloc::peak(|| {
        let mut records = Records::new(vec![open(&bytes).unwrap()]);
        while records.next().is_some() {}
        records
    });
    assert_eq!(records.damage().count(), count);
    assert_eq!(records.damage().kept().len(), etw_etl::DamageLog::KEPT);
    assert!(peak < size + (8 << 20), "{peak} bytes for a file of {size}");
}

#[test]
fn a_plausible_header_every_few_bytes_does_not_stall() {
    // Headers that overlap: every sixteen bytes, one that claims sixteen megabytes, compressed.
    let mut file = builder(16 << 10);
    file.compressed = true;
    push_numbered(&mut file, 1, 10);
    let mut bytes = file.finish();
    let mut word = Vec::new();
    for value in [16u32 << 20, 0x40, 0x0f0f_0f0f, 3] {
        word.extend(value.to_le_bytes());
    }
    bytes.extend(word.repeat(1 << 14));
    let started = std::time::Instant::now();
    let outcome = read_once(&bytes);
    assert_eq!(outcome.numbers().len(), 10);
    assert!(started.elapsed().as_secs() < 120);
}

#[test]
fn malicious_headers_that_point_back_at_each_other() {
    // Two that look like buffers but are none on the file's grid, the second in the place of one: once, the search
    // behind the second went back to the first, and from there to the second.
    let sound = Sound::uniform();
    let last = sound.offsets[sound.offsets.len() - 2];
    let mut fake = BufferBuilder::new(0x900, 1);
    fake.push_bytes(&event_bytes(900, start_raw() + 5));
    fake.header.offset = 0x800;
    fake.header.saved_offset = 0x800;
    let fake = &fake.bytes()[..HEAD + 0x60];
    for back in [0x100, 0x1f8, 0x200, 0x300] {
        let bytes = sound.damaged(|bytes| {
            for at in [last - back, last] {
                bytes[at..at + fake.len()].copy_from_slice(fake);
            }
        });
        let outcome = read(&bytes);
        let before = |row: &Row| (row.buffer as usize) < last / GRID - 1;
        let rows: Vec<Row> = outcome.rows.iter().filter(|row| before(row)).cloned().collect();
        assert_same("before", &rows, &sound.without(|row| !before(row)));
    }
}

#[test]
fn records_too_small_for_their_buffer_size() {
    // The smallest buffer that there can be.
    let mut file = builder(0x400);
    file.push_raw(BufferBuilder::new(HEAD as u32, 0).finish());
    let bytes = file.finish();
    let outcome = read(&bytes);
    assert_eq!(outcome.rows.len(), 1);
}
