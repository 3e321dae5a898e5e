//! Reading in parts: the same records, damage and counts as on one thread, whatever the headers of buffers say.

use crate::support::{
    Rng, builder, event_bytes, numbered, numbered_compressed, open, options, put_u32,
};
use etw_etl::read::{Part, PartsOptions, Records, TraceFile, read_in_parts};
use etw_etl::write::{BufferBuilder, encode};
use etw_etl::{Damage, DamageLog};
use etw_types::{EventRecord, HeaderType, LogFileMode, MessageFlags, Position};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

/// All that reading gives.
#[derive(Debug, PartialEq)]
struct Outcome {
    rows: Vec<(Position, i64, i64, u16)>,
    damage: Vec<Damage>,
    damage_count: u64,
    out_of_order: Vec<u64>,
}

impl Outcome {
    fn new(rows: Vec<(Position, i64, i64, u16)>, records: &Records) -> Outcome {
        let log: &DamageLog = records.damage();
        Outcome {
            rows,
            damage: log.kept().to_vec(),
            damage_count: log.count(),
            out_of_order: (0..records.files().len() as u32)
                .map(|file| records.out_of_order(file))
                .collect(),
        }
    }
}

fn whole(files: &[TraceFile]) -> Outcome {
    let mut records = Records::with_options(files.to_vec(), options(0));
    let mut rows = Vec::new();
    while let Some(record) = records.next() {
        let row = (record.position, record.order_time, record.cpu);
        rows.push((row.0, row.1, records.order_time().unwrap(), row.2));
    }
    Outcome::new(rows, &records)
}

fn rows_of(part: &mut Part<'_>) -> Vec<(Position, i64, i64, u16)> {
    let mut rows = Vec::new();
    while let Some(record) = part.next() {
        let row = (record.position, record.order_time, record.cpu);
        assert!(!part.stored_bytes().is_empty());
        rows.push((row.0, row.1, part.order_time().unwrap(), row.2));
    }
    rows
}

fn parts_options(threads: usize, part_bytes: u64) -> PartsOptions {
    let mut options = PartsOptions::default();
    (options.threads, options.part_bytes) = (threads, Some(part_bytes));
    options
}

/// Reads in parts; returns the number of parts, and of those that were read again.
fn compare(files: &[TraceFile], threads: usize, part_bytes: u64, what: &str) -> (u64, u64) {
    let mut rows = Vec::new();
    let options = parts_options(threads, part_bytes);
    let read = read_in_parts(files.to_vec(), options, rows_of, |part| rows.extend(part));
    let found = Outcome::new(rows, &read.records);
    let expected = whole(files);
    assert!(found == expected, "{what}, {threads} threads: other than on one thread");
    (read.parts, read.repeated)
}

fn untimed() -> Vec<u8> {
    let mut record = EventRecord::new(HeaderType::Message, b"text");
    record.message_flags = MessageFlags::SYSTEM_INFO;
    let mut bytes = Vec::new();
    encode(&record, &mut bytes).unwrap();
    bytes
}

/// A trace with most of what can make boundaries difficult. `oddity` is the percentage of odd times and headers.
fn odd_trace(rng: &mut Rng, oddity: usize) -> Vec<u8> {
    let mut file = builder(0x400);
    let start = file.header.start_raw;
    let streams = 1 + rng.below(8);
    if rng.below(4) == 0 {
        file.header.logfile.log_file_mode = LogFileMode::CIRCULAR;
    }
    file.compressed = rng.below(3) == 0;
    let step = 1 + rng.below(20);
    let mut now = vec![start; streams];
    for sequence in 1..=60 + rng.below(60) {
        let stream = rng.below(streams);
        let mut buffer = BufferBuilder::new(0x400, stream as u16);
        buffer.header.sequence_number = sequence as i64;
        for number in 0..rng.below(6) {
            // Few different times: many are equal.
            now[stream] += (rng.below(step) / 2) as i64;
            let odd = rng.below(100) < oddity;
            match (odd, rng.below(3)) {
                (true, 0) => buffer.push_bytes(&untimed()),
                (true, _) => {
                    let time = now[stream] + rng.below(200) as i64 - 150;
                    buffer.push_bytes(&event_bytes(number as u32, time));
                }
                _ => buffer.push_bytes(&event_bytes(number as u32, now[stream])),
            }
        }
        // Streams keep up with each other.
        let latest = now.iter().copied().max().unwrap_or(start);
        now[stream] = now[stream].max(latest - 30);
        if rng.below(100) < oddity / 2 {
            buffer.header.time_stamp = start + rng.below(1000) as i64 - 200;
        }
        file.push_buffer(buffer);
    }
    let mut bytes = file.finish();
    if rng.below(2) == 0 {
        for _ in 0..rng.below(6) * usize::from(oddity > 0) {
            let at = 0x400 + rng.below(bytes.len() - 0x404);
            put_u32(&mut bytes, at, rng.next() as u32);
        }
    }
    bytes
}

#[test]
fn parts_are_what_one_thread_reads() {
    let (mut parts, mut repeated) = (0, 0);
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let oddity = [0, 5, 30][rng.below(3)];
        let mut files = vec![open(&odd_trace(&mut rng, oddity)).unwrap()];
        if rng.below(3) == 0 {
            files.push(open(&odd_trace(&mut rng, oddity)).unwrap());
        }
        let part_bytes = [1, 0x800, 0x2000][rng.below(3)];
        for threads in 1..=5 {
            let what = format!("seed {seed}");
            let counts = compare(&files, threads, part_bytes, &what);
            parts += counts.0;
            repeated += counts.1;
        }
    }
    assert!(parts > 4_000, "only {parts} parts");
    assert!(repeated > 20, "only {repeated} wrong guesses");
}

#[test]
fn guesses_in_sound_traces_are_right() {
    for bytes in [numbered(0x400, 4, 3000), numbered_compressed(0x400, 4, 3000)] {
        let file = open(&bytes).unwrap();
        for threads in 2..=3 {
            let (parts, repeated) =
                compare(std::slice::from_ref(&file), threads, 0x4000, "a sound trace");
            assert!(parts > 3, "{parts} parts");
            assert_eq!(repeated, 0);
        }
    }
}

#[test]
fn wrapped_files_are_read_in_parts() {
    let mut file = builder(0x400);
    file.header.logfile.log_file_mode = LogFileMode::CIRCULAR;
    crate::support::push_numbered(&mut file, 3, 1000);
    let mut buffers = file.finish_buffers();
    buffers.remove(1);
    let third = buffers.len() / 3;
    buffers[1..].rotate_left(third);
    let file = open(&buffers.concat()).unwrap();
    assert!(file.totals().wrapped);
    let (parts, repeated) = compare(&[file], 2, 0x2000, "a wrapped file");
    assert!(parts > 3, "{parts} parts");
    assert_eq!(repeated, 0);
}

#[test]
fn real_traces_are_read_in_parts() {
    for path in crate::corpus::files() {
        let file = TraceFile::open(&path).unwrap();
        let what = path.display().to_string();
        for part_bytes in [1 << 18, 1 << 20] {
            compare(std::slice::from_ref(&file), 2, part_bytes, &what);
        }
        if what.contains("net45-x86") {
            let (parts, repeated) = compare(&[file], 3, 1 << 20, &what);
            assert!(parts > 5 && repeated == 0, "{repeated} of {parts} parts again");
        }
    }
}

#[test]
fn records_that_a_part_leaves_are_passed_over() {
    let file = open(&numbered(0x400, 2, 1000)).unwrap();
    let mut firsts = Vec::new();
    let first = |part: &mut Part<'_>| part.next().map(|record| record.order_time);
    let read = read_in_parts(vec![file], parts_options(2, 0x1000), first, |time| {
        firsts.push(time.unwrap());
    });
    assert_eq!(read.parts, firsts.len() as u64);
    assert!(read.parts > 3 && firsts.is_sorted());
    assert_eq!(read.repeated, 0);
}

#[test]
fn a_small_limit_of_memory_leaves_one_thread() {
    let file = open(&numbered(0x400, 4, 3000)).unwrap();
    let seen = AtomicU32::new(0);
    let caller = std::thread::current().id();
    let mut options = parts_options(4, 0x1000);
    options.open_buffer_limit = 4 << 20;
    let read = |part: &mut Part<'_>| {
        assert_eq!(std::thread::current().id(), caller);
        while part.next().is_some() {
            seen.fetch_add(1, Ordering::Relaxed);
        }
    };
    let read = read_in_parts(vec![file], options, read, |()| ());
    assert!(read.parts > 3 && read.records.damage().is_empty());
    assert_eq!(seen.into_inner(), 3001);
}

#[test]
fn a_panic_of_one_thread_ends_all() {
    let file = open(&numbered(0x400, 4, 3000)).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let read = |part: &mut Part<'_>| {
            let time = part.next().map_or(0, |record| record.order_time);
            assert!(time < 10_000, "on purpose");
        };
        read_in_parts(vec![file], parts_options(3, 0x1000), read, |()| ());
    }));
    assert!(panicked.is_err());
}
