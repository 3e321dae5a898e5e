//! Files broken at random: reading ends, stays in bounds and never panics.
//!
//! `ETW_MUTATE_SECONDS=600 cargo test --release -p etw-etl --test it mutants` goes on for longer.

use crate::alloc::peak;
use crate::support::{Rng, builder, numbered, numbered_compressed, push_numbered};
use etw_etl::read::{Records, TraceFile};
use etw_etl::write::sample;
use etw_types::{BufferHeader, LogFileMode};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The time limit on a slow machine; later rounds are skipped.
const TIME_LIMIT: Duration = Duration::from_secs(12);
const ROUNDS: u64 = 400;

fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut circular = builder(0x400);
    circular.header.logfile.log_file_mode = LogFileMode::CIRCULAR;
    push_numbered(&mut circular, 3, 100);
    let mut sample_compressed = sample::builder();
    sample_compressed.compressed = true;
    let mut sample_small = sample::builder();
    sample_small.header.logfile.buffer_size = 0x1000;
    let mut files: Vec<(String, Vec<u8>)> = [
        ("sample", sample_small.finish()),
        ("compressed sample", sample_compressed.finish()),
        ("uniform", numbered(0x400, 3, 100)),
        ("many CPUs", numbered(0x400, 40, 80)),
        ("compressed", numbered_compressed(0x1000, 2, 300)),
        ("circular", circular.finish()),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .to_vec();
    let small = |path: &PathBuf| path.metadata().is_ok_and(|file| file.len() < 2 << 20);
    for path in crate::corpus::files().into_iter().filter(small) {
        files.push((path.display().to_string(), std::fs::read(path).unwrap()));
    }
    files
}

/// Somewhere, rather near the start of a record or buffer than not.
fn place(rng: &mut Rng, bytes: &[u8]) -> usize {
    let at = rng.below(bytes.len());
    match rng.below(4) {
        0 => at,
        1 => at & !7,
        2 => at & !0x3ff,
        _ => (at & !0x3ff) + rng.below(0x90),
    }
    .min(bytes.len().saturating_sub(1))
}

const WORDS: [u32; 12] = [
    0,
    1,
    0x48,
    0x50,
    0x400,
    0xffff,
    0x10000,
    16 << 20,
    0x7fff_ffff,
    0x8000_0000,
    0xc013_0050,
    u32::MAX,
];

fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..1 + rng.below(6) {
        if bytes.is_empty() {
            return;
        }
        let at = place(rng, bytes);
        let scale = 1 << rng.below(12);
        let length = (1 + rng.below(scale)).min(bytes.len() - at);
        let other = place(rng, bytes);
        let source = bytes[other..].iter().copied().take(length).collect::<Vec<u8>>();
        match rng.below(9) {
            0 | 1 => bytes[at] ^= 1 << rng.below(8),
            2 => bytes[at..at + length].fill([0, 0xff, rng.next() as u8][rng.below(3)]),
            3 => rng.fill(&mut bytes[at..at + length]),
            4 => drop(bytes.drain(at..at + length)),
            5 => drop(bytes.splice(at..at, source)),
            6 => bytes[at..at + source.len().min(length)].copy_from_slice(&source),
            7 => {
                let word = WORDS[rng.below(WORDS.len())].to_le_bytes();
                let count = word.len().min(bytes.len() - at);
                bytes[at..at + count].copy_from_slice(&word[..count]);
            }
            _ if rng.below(4) == 0 => bytes.truncate(at),
            _ => {
                let sum = (u16::from(bytes[at]) + [1, 8, 0xff, 0xf8][rng.below(4)]) as u8;
                bytes[at] = sum;
            }
        }
    }
}

/// Reads a file and checks that its records, payloads and damage stay within what its size allows.
fn check(bytes: Vec<u8>) {
    let size = bytes.len() as u64;
    let Ok(file) = TraceFile::from_bytes("mutant", bytes) else { return };
    let totals = *file.totals();
    let limit = file.header().map_or(0, |header| u64::from(header.buffer_size));
    let limit = if limit <= u64::from(BufferHeader::MAX_BUFFER_SIZE) { limit } else { 0 };
    assert!(totals.buffers <= size / BufferHeader::SIZE as u64);
    let mut records = Records::new(vec![file]);
    let mut count = 0;
    let mut payload = 0;
    while let Some(record) = records.next() {
        count += 1;
        payload += record.payload.len() as u64;
        assert!(record.position.offset % 8 == 0);
        std::hint::black_box(record.extended.into_iter().count());
        assert!(!records.stored_bytes().is_empty());
    }
    // The shortest record is a message of eight bytes; a compressed buffer holds what the header allows.
    let compressed = totals.compressed_buffers * limit.max(u64::from(totals.largest_buffer));
    assert!(count <= (size + compressed) / 8, "{count} records");
    assert!(payload <= size + compressed, "{payload} bytes of payload");
    for damage in records.damage().kept() {
        assert!(damage.offset <= size, "{damage:?} is not in a file of {size}");
    }
    let kept = records.damage().kept();
    assert!(kept.len() as u64 <= records.damage().count());
}

/// P5
#[test]
fn mutants_are_read_to_the_end_in_bounded_memory() {
    let seeds = seeds();
    let longer = std::env::var("ETW_MUTATE_SECONDS").ok().and_then(|text| text.parse().ok());
    let (limit, rounds) = match longer {
        Some(seconds) => (Duration::from_secs(seconds), u64::MAX / 1000),
        None => (TIME_LIMIT, ROUNDS),
    };
    let started = Instant::now();
    for round in 0..rounds {
        for (number, (name, bytes)) in seeds.iter().enumerate() {
            // Large files take longer and have the same structure.
            if bytes.len() > 100_000 && !(round + number as u64).is_multiple_of(16) {
                continue;
            }
            let seed = round * 1000 + number as u64;
            let mut rng = Rng::new(seed);
            let mut mutant = bytes.clone();
            mutate(&mut rng, &mut mutant);
            let size = mutant.len();
            let copy = mutant.clone();
            let result = std::panic::catch_unwind(|| peak(|| check(copy)));
            let Ok(((), peak)) = result else { panic!("seed {seed} of {name}") };
            // Open buffers, decompressed, of a file whose header may claim 16 MiB for them.
            let bound = size * 2 + (128 << 20);
            assert!(peak <= bound, "seed {seed} of {name}: {peak} bytes for {size}");
        }
        if started.elapsed() > limit {
            return;
        }
    }
}

#[test]
fn two_halves_of_different_files() {
    let seeds: Vec<_> = seeds().into_iter().filter(|seed| seed.1.len() < 100_000).collect();
    let mut rng = Rng::new(9);
    for (_, front) in &seeds {
        for (_, back) in &seeds {
            let mut bytes = front[..rng.below(front.len())].to_vec();
            bytes.extend(&back[rng.below(back.len())..]);
            check(bytes);
        }
    }
}
