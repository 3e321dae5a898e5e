//! Small files with numbered events, and what reading them gives.

use etw_etl::read::{Records, RecordsOptions, Totals, TraceFile};
use etw_etl::write::{FileBuilder, encode};
use etw_etl::{DamageKind, Error};
use etw_types::{EventRecord, Guid, HeaderType};
use std::io::{self, Seek, SeekFrom, Write};

/// xorshift64*.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Less than `end`, or 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end.max(1)
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill_with(|| (self.next() >> 32) as u8);
    }
}

/// One record as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub file: u32,
    pub buffer: u64,
    pub offset: u32,
    pub cpu: u16,
    pub header: HeaderType,
    pub order_time: i64,
    pub has_time: bool,
    pub payload: Vec<u8>,
    pub stored: Vec<u8>,
}

impl Row {
    /// The number that [`event`] put into it; `None` for the logfile header.
    pub fn number(&self) -> Option<u32> {
        let bytes = self.payload.first_chunk().filter(|_| self.header == HeaderType::Event64)?;
        Some(u32::from_le_bytes(*bytes))
    }
}

/// All that reading gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub rows: Vec<Row>,
    pub damage: Vec<(u64, DamageKind)>,
    pub out_of_order: Vec<u64>,
    pub totals: Totals,
}

impl Outcome {
    /// The numbers of the events, as they came.
    pub fn numbers(&self) -> Vec<u32> {
        self.rows.iter().filter_map(Row::number).collect()
    }
}

pub fn open(bytes: &[u8]) -> Result<TraceFile, Error> {
    TraceFile::from_bytes("test.etl", bytes.to_vec())
}

pub fn options(threads: usize) -> RecordsOptions {
    let mut options = RecordsOptions::default();
    options.read_ahead_threads = threads;
    options
}

pub fn read_files(files: Vec<TraceFile>, options: RecordsOptions) -> Outcome {
    let count = files.len() as u32;
    let totals = files.first().map_or(Totals::default(), |file| *file.totals());
    drain(&mut Records::with_options(files, options), count, totals)
}

pub fn drain(records: &mut Records, files: u32, totals: Totals) -> Outcome {
    let mut rows = Vec::new();
    while let Some(record) = records.next() {
        let mut row = Row {
            file: record.position.file_index,
            buffer: record.position.buffer_index,
            offset: record.position.offset,
            cpu: record.cpu,
            header: record.header,
            order_time: record.order_time,
            has_time: record.has_time,
            payload: record.payload.to_vec(),
            stored: Vec::new(),
        };
        row.stored = records.stored_bytes().to_vec();
        rows.push(row);
    }
    assert!(records.next().is_none(), "the end is the end");
    let damage: Vec<_> =
        records.damage().kept().iter().map(|damage| (damage.offset, damage.kind.clone())).collect();
    for (_, kind) in &damage {
        assert!(!kind.to_string().is_empty());
    }
    let out_of_order = (0..files).map(|file| records.out_of_order(file)).collect();
    Outcome { rows, damage, out_of_order, totals }
}

/// Reads one file, with threads and without, which must be the same.
pub fn read(bytes: &[u8]) -> Outcome {
    let outcome = read_once(bytes);
    let file = open(bytes).unwrap();
    assert_eq!(read_files(vec![file], options(2)), outcome, "read ahead");
    outcome
}

/// Reads one file on this thread.
pub fn read_once(bytes: &[u8]) -> Outcome {
    let file = open(bytes).unwrap();
    let outcome = read_files(vec![file], options(0));
    for (number, damage) in outcome.damage.iter().enumerate() {
        assert!(damage.0 <= bytes.len() as u64, "{damage:?} is outside the file");
        assert!(!outcome.damage[..number].contains(damage), "{damage:?} is reported twice");
    }
    outcome
}

/// Event `number`, `10 * (number + 1)` after the start, of a size of its own.
pub fn event<R>(number: u32, start: i64, then: impl FnOnce(&EventRecord<'_>) -> R) -> R {
    let mut payload = number.to_le_bytes().to_vec();
    payload.extend((0..number % 41).map(|at| (at + number) as u8));
    let mut record = EventRecord::new(HeaderType::Event64, &payload);
    record.provider = Some(Guid::from_u128(0x5eed));
    record.descriptor.id = number as u16;
    record.order_time = start + 10 * (i64::from(number) + 1);
    (record.process_id, record.thread_id) = (Some(1), Some(2));
    then(&record)
}

/// The on-disk form of an event at a time of its own.
pub fn event_bytes(number: u32, time: i64) -> Vec<u8> {
    event(number, 0, |record| {
        let mut record = *record;
        record.order_time = time;
        let mut bytes = Vec::new();
        encode(&record, &mut bytes).unwrap();
        bytes
    })
}

/// A builder with small buffers.
pub fn builder(buffer_size: u32) -> FileBuilder {
    let mut file = FileBuilder::new();
    file.header.logfile.buffer_size = buffer_size;
    file
}

/// Pushes events `0..count`, event `n` to CPU `n % cpus`.
pub fn push_numbered(file: &mut FileBuilder, cpus: u32, count: u32) {
    let start = file.header.start_raw;
    for number in 0..count {
        event(number, start, |record| file.push((number % cpus) as u16, record)).unwrap();
    }
}

/// A file of numbered events.
pub fn numbered(buffer_size: u32, cpus: u32, count: u32) -> Vec<u8> {
    let mut file = builder(buffer_size);
    push_numbered(&mut file, cpus, count);
    file.finish()
}

/// The same, compressed.
pub fn numbered_compressed(buffer_size: u32, cpus: u32, count: u32) -> Vec<u8> {
    let mut file = builder(buffer_size);
    file.compressed = true;
    push_numbered(&mut file, cpus, count);
    file.finish()
}

/// The offsets of a sound file's buffers, and of its end.
pub fn buffer_offsets(bytes: &[u8]) -> Vec<usize> {
    let mut offsets = vec![0];
    let mut at = 0;
    while at < bytes.len() {
        at += u32_at(bytes, at) as usize;
        offsets.push(at);
    }
    assert_eq!(at, bytes.len());
    offsets
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

pub fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Counts what is written and keeps none of it.
#[derive(Default)]
pub struct Sink(pub u64);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Sink {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        Ok(0)
    }
}
