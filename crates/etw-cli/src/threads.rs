//! `--threads`, and reading in parts by that many threads.

use crate::output::Progress;
use crate::stored_records::StoredRecords;
use clap::Args;
use etw_etl::read::{Part, PartsOptions, Records, StoredRecord, TraceFile, read_in_parts};
use etw_types::EventRecord;
use std::sync::OnceLock;

/// `--threads`
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct ThreadsOption {
    /// Threads that read, decode and format [default: one a CPU]; the output is the same for any number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
}

/// To count them takes some reads of the system's files.
static CPUS: OnceLock<usize> = OnceLock::new();

impl ThreadsOption {
    /// The number of threads.
    pub fn count(self) -> usize {
        match self.threads {
            Some(threads) => usize::from(threads),
            None => {
                *CPUS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
            }
        }
    }

    /// The number of threads, at most `most`. For one, the CPUs are not counted: that takes a twentieth of a small trace's dump.
    pub fn count_up_to(self, most: usize) -> usize {
        if most > 1 { self.count().min(most) } else { 1 }
    }

    /// Reading in parts by that many threads.
    pub fn parts(self) -> PartsOptions {
        let mut options = PartsOptions::default();
        options.threads = self.count();
        options
    }
}

/// Reads traces in parts, and shows the progress. `read` adds a record, with its stored bytes, to the value of its part; `fold` gets the
/// values in the order of the parts. Returns the number of records, and the reader behind the last one.
pub fn read_all<T: Default + Send>(
    traces: Vec<TraceFile>,
    options: PartsOptions,
    read: impl Fn(&mut T, &EventRecord<'_>, StoredRecord<'_>) + Sync,
    mut fold: impl FnMut(T) + Send,
) -> (u64, Records) {
    let mut progress = Progress::of(&traces);
    let mut records = 0;
    let read_part = |part: &mut Part<'_>| {
        let (mut value, mut count, mut last) = (T::default(), 0, None);
        while let Some(stored) = part.next_stored() {
            let mut place = None;
            let record = &*stored.record(&mut place);
            count += 1;
            last = Some(record.position);
            read(&mut value, record, stored);
        }
        (value, count, last)
    };
    let ended = read_in_parts(traces, options, read_part, |(value, count, last)| {
        fold(value);
        records += count;
        progress.update_at(records, last);
    });
    drop(progress);
    (records, ended.records)
}

/// Reads traces in parts, and visits the records that are picked, in the order of one thread. Returns what the reader found: damage and notes.
pub fn visit_picked(
    traces: &[TraceFile],
    options: PartsOptions,
    is_picked: impl Fn(&EventRecord<'_>) -> bool + Sync,
    mut visit: impl FnMut(&EventRecord<'_>) + Send,
) -> Records {
    let pick = |picked: &mut StoredRecords, record: &EventRecord<'_>, stored: StoredRecord<'_>| {
        if is_picked(record) {
            picked.push(record, stored);
        }
    };
    read_all(traces.to_vec(), options, pick, |picked| picked.each(traces, &mut visit)).1
}

#[cfg(test)]
pub mod samples {
    //! Traces of all kinds, for tests that compare one thread with several.

    use etw_etl::read::{PartsOptions, TraceFile};
    use etw_etl::write::{FileBuilder, sample};
    use etw_types::{EVENT_METADATA, EventRecord, Guid, HeaderType, Hook, LogFileMode, Opcode};
    use std::path::Path;

    pub const PROVIDER: Guid = Guid::from_u128(0x5eed);

    /// The description of an event.
    pub fn description(id: u16, name: &str) -> Vec<u8> {
        let mut info = vec![0; 0x70];
        info[..16].copy_from_slice(&PROVIDER.0);
        info[0x20..0x22].copy_from_slice(&id.to_le_bytes());
        info[0x44..0x48].copy_from_slice(&0x70u32.to_le_bytes());
        info.extend(name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        info
    }

    /// Pushes a description, `after` the start.
    pub fn push_description(file: &mut FileBuilder, after: i64, id: u16, name: &str) {
        let info = description(id, name);
        let mut record = EventRecord::new(HeaderType::Full64, &info);
        record.provider = Some(EVENT_METADATA);
        record.descriptor.opcode = Opcode(32);
        record.order_time = file.header.start_raw + after;
        file.push((after % 3) as u16, &record).unwrap();
    }

    /// Events with and without a description before them, CPU samples, DPCs, threads, activities and losses; an event is described
    /// every `every` records.
    fn mixed(file: &mut FileBuilder, every: i64) {
        file.header.logfile.buffer_size = 0x400;
        for number in 0..2000i64 {
            let payload: Vec<u8> = (0..number % 40).map(|byte| byte as u8).collect();
            let thread = (1 + number / 100 % 7) as u32;
            let sample = [&8u64.to_le_bytes()[..], &thread.to_le_bytes(), &[0; 4]].concat();
            let start = (file.header.start_raw + number - 3).to_le_bytes();
            let life =
                [&(100 + thread + number as u32 / 900).to_le_bytes()[..], &thread.to_le_bytes()];
            let life = [&life.concat()[..], &[0; 80]].concat();
            let kernel = |hook, payload| {
                let mut record = EventRecord::new(HeaderType::PerfInfo64, payload);
                (record.hook, record.descriptor.version) = (Some(Hook(hook)), 2);
                record
            };
            let mut record = match number % 11 {
                0 | 1 => kernel(0x0f2e, &sample[..]),
                2 => kernel(0x0f44, &start[..]),
                3 => kernel(0x0501, &life[..]),
                4 => kernel(0x0524, &sample[..]),
                _ => EventRecord::new(HeaderType::Event64, &payload),
            };
            if record.hook.is_none() {
                record.provider = Some(PROVIDER);
                record.descriptor.id = (number % 5) as u16;
                (record.process_id, record.thread_id) = (Some(number as u32 % 9), Some(thread));
                record.activity_id = Guid::from_u128(number as u128 / 7 % 50);
            }
            record.order_time = file.header.start_raw + number;
            file.push((number % 3) as u16, &record).unwrap();
            if number % every == every / 2 {
                push_description(
                    file,
                    number,
                    (number / every % 5) as u16,
                    &format!("Name{number}"),
                );
            }
        }
    }

    /// Whole, circular, compressed and damaged traces, and the corpus where it is present.
    pub fn traces() -> Vec<TraceFile> {
        let open = |name: &str, bytes: Vec<u8>| TraceFile::from_bytes(name, bytes).unwrap();
        let mut traces = vec![open("headers.etl", sample::trace())];
        for (name, every) in [("often.etl", 50), ("seldom.etl", 900), ("never.etl", 5000)] {
            let mut file = FileBuilder::new();
            mixed(&mut file, every);
            let bytes = file.finish();
            let mut damaged = bytes.clone();
            for at in (0x900..bytes.len() - 4).step_by(0x1501) {
                damaged[at..at + 4].fill(0xee);
            }
            traces.push(open(name, bytes));
            traces.push(open(&format!("damaged-{name}"), damaged));
            let mut file = FileBuilder::new();
            file.compressed = true;
            mixed(&mut file, every);
            traces.push(open(&format!("compressed-{name}"), file.finish()));
        }
        let mut file = FileBuilder::new();
        file.header.logfile.log_file_mode = LogFileMode::CIRCULAR;
        mixed(&mut file, 700);
        let mut buffers = file.finish_buffers();
        buffers.remove(1);
        let third = buffers.len() / 3;
        buffers[1..].rotate_left(third);
        traces.push(open("circular.etl", buffers.concat()));
        assert!(traces.last().unwrap().totals().wrapped);
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/etl");
        let Ok(files) = std::fs::read_dir(&corpus) else {
            println!("skipped: ../shared/corpus is absent");
            return traces;
        };
        for file in files {
            let path = file.unwrap().path();
            // The large ones take long in a debug build.
            if path.metadata().unwrap().len() < 5 << 20 {
                traces.push(TraceFile::open(&path).unwrap());
            }
        }
        traces
    }

    /// Options for one thread, and for several with small parts.
    pub fn options(threads: usize, part_bytes: u64) -> PartsOptions {
        let mut options = PartsOptions::default();
        (options.threads, options.part_bytes) = (threads, Some(part_bytes));
        options
    }
}
