//! Event logs: `etw-evtx` beside the `evtx` crate. Prints one figure a line: a name, a tab, and a number.
//!
//! `etw-bench-evtx FILE ROUNDS` writes a log to FILE, unless it exists, and measures. The two readers take turns, so that other
//! users of the machine slow both.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use etw_evtx::Log;
use etw_evtx::chunk::Chunk;
use etw_evtx::layout::{CHUNK_SIZE, FILE_HEADER_SIZE, FLAGS, header_checksum};
use etw_evtx::query::Selector;
use etw_evtx::tree::{Argument, Fragment, Instance, Node, Template};
use etw_evtx::value::{Value, ValueType};
use etw_evtx::write::{LogWriter, Retention};
use etw_types::{FileTime, Guid};
use evtx::{EvtxParser, ParserSettings};

const RECORDS: u64 = 100_000;
/// One record of so many has an event id of its own, 1102.
const RARE: u64 = 5000;
const START: i64 = 133_288_864_000_000_000;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, path, rounds] = &arguments[..] else { panic!("name a file and a number of rounds") };
    let (path, rounds) = (Path::new(path), rounds.parse::<usize>().expect("a number of rounds"));
    let write = write(path);
    let plain = path.with_extension("plain.evtx");
    write_plain(path, &plain);
    let mut best: [Option<Duration>; 13] = [None; 13];
    let mut records = 0;
    for _ in 0..rounds {
        let id = "*[System[EventID=4607]]";
        let time = "*[System[TimeCreated[@SystemTime>='2023-05-18T13:00:00Z' and @SystemTime<'2023-05-18T13:00:01Z']]]";
        let mut measure = |number: usize, run: &mut dyn FnMut() -> u64| {
            let start = Instant::now();
            let found = run();
            let took = start.elapsed();
            best[number] = Some(best[number].map_or(took, |best| best.min(took)));
            found
        };
        records = measure(0, &mut || peer(path));
        assert_eq!(measure(1, &mut || json(path, 1)), records);
        assert_eq!(measure(2, &mut || json(path, 2)), records);
        assert!(measure(3, &mut || select(path, id)) > 100);
        assert!(measure(4, &mut || select(path, time)) > 0);
        assert_eq!(measure(5, &mut || select(path, "*[System[EventRecordID=5000]]")), 1);
        measure(6, &mut || peer_chunks(path));
        assert_eq!(measure(7, &mut || select(path, "*[System[EventID=1102]]")), RECORDS / RARE);
        measure(8, &mut || read(path));
        assert_eq!(measure(9, &mut || json(&plain, 1)), records);
        assert!(measure(10, &mut || select(&plain, id)) > 100);
        assert!(measure(11, &mut || select(&plain, time)) > 0);
        measure(12, &mut || read(&plain));
    }
    let names = [
        "peer_json",
        "json",
        "json_two_threads",
        "by_id",
        "by_time",
        "by_record_id",
        "peer_chunks",
        "by_rare_id",
        "read",
        "plain_json",
        "plain_by_id",
        "plain_by_time",
        "plain_read",
    ];
    for (name, best) in names.into_iter().zip(best) {
        let rate = records as f64 / best.expect("a round").as_secs_f64();
        println!("{name}\t{rate:.0}");
    }
    println!("write_ns\t{write:.0}");
    println!("records\t{records}");
    println!("peak_kb\t{}", peak_kb());
}

/// The peer's JSON of every record, on one thread.
fn peer(path: &Path) -> u64 {
    let settings = ParserSettings::default().num_threads(1).indent(false);
    let parser = EvtxParser::from_path(path).expect("a log");
    let mut parser = parser.with_configuration(settings);
    let mut count = 0;
    for record in parser.records_json() {
        count += u64::from(!record.expect("a record").data.is_empty());
    }
    count
}

/// The peer's JSON of every record, a chunk at a time, as its own command writes it. Returns the bytes.
fn peer_chunks(path: &Path) -> u64 {
    let settings = ParserSettings::default().num_threads(1).indent(false);
    let parser = EvtxParser::from_path(path).expect("a log");
    let mut parser = parser.with_configuration(settings);
    parser.chunks_json_bytes(false).map(|chunk| chunk.data.len() as u64).sum()
}

/// Our JSON of every record.
fn json(path: &Path, threads: usize) -> u64 {
    let log = Log::open(path).expect("a log");
    let next = AtomicUsize::new(0);
    let run = || {
        let mut count = 0;
        let mut chunk = Chunk::default();
        let mut out = Vec::new();
        while let Some(location) = log.chunks().get(next.fetch_add(1, Ordering::Relaxed)) {
            log.load(location, &mut chunk).expect("a chunk");
            while let Some(record) = chunk.next_json(&mut out) {
                record.expect("a record");
                count += u64::from(!out.is_empty());
                out.clear();
            }
        }
        count
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).sum()
    })
}

/// The records that a query selects, as JSON.
fn select(path: &Path, query: &str) -> u64 {
    let log = Log::open(path).expect("a log");
    let selector = Selector::query(query.parse().expect("a query"), FileTime(START));
    let mut count = 0;
    let mut chunk = Chunk::default();
    for index in log.candidate_chunks(&selector) {
        log.load(&log.chunks()[index], &mut chunk).expect("a chunk");
        while let Some(record) = chunk.next_candidate(&selector) {
            if selector.matches(&record).expect("a record") {
                count += u64::from(!record.to_json().expect("a record").is_empty());
            }
        }
    }
    count
}

/// The bytes of every chunk, without a look at them: the least time of a query that skips no chunk.
fn read(path: &Path) -> u64 {
    let log = Log::open(path).expect("a log");
    let mut chunk = Chunk::default();
    for location in log.chunks() {
        log.load(location, &mut chunk).expect("a chunk");
    }
    log.chunks().len() as u64
}

/// Copies the log to `plain` as Windows would have it: without the summaries that let a query skip chunks.
fn write_plain(path: &Path, plain: &Path) {
    /// Offset of the bytes of a chunk's header that Windows leaves zero.
    const SUMMARY: usize = 56;
    let mut bytes = std::fs::read(path).expect("a log");
    for chunk in bytes[FILE_HEADER_SIZE..].chunks_exact_mut(CHUNK_SIZE) {
        if chunk.starts_with(b"ElfChnk") {
            chunk[SUMMARY..FLAGS].fill(0);
            let checksum = header_checksum(chunk);
            chunk[FLAGS + 4..FLAGS + 8].copy_from_slice(&checksum.to_le_bytes());
        }
    }
    std::fs::write(plain, bytes).expect("a copy of the log");
}

/// Peak memory of this process in KiB; 0 where the system does not say.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// `System` with the values that Windows has there.
fn system() -> Arc<Template> {
    let of = |name: &str, index, value_type| {
        Node::element(name, vec![], vec![Node::value(index, value_type)])
    };
    let system = vec![
        Node::element(
            "Provider",
            vec![
                ("Name", Node::value(14, ValueType::STRING)),
                ("Guid", Node::value(15, ValueType::GUID)),
            ],
            vec![],
        ),
        of("EventID", 3, ValueType::UINT16),
        of("Version", 11, ValueType::UINT8),
        of("Level", 0, ValueType::UINT8),
        of("Task", 2, ValueType::UINT16),
        of("Opcode", 1, ValueType::UINT8),
        of("Keywords", 5, ValueType::HEX64),
        Node::element(
            "TimeCreated",
            vec![("SystemTime", Node::value(6, ValueType::FILETIME))],
            vec![],
        ),
        of("EventRecordID", 10, ValueType::UINT64),
        Node::element("Correlation", vec![("ActivityID", Node::value(7, ValueType::GUID))], vec![]),
        Node::element(
            "Execution",
            vec![
                ("ProcessID", Node::value(8, ValueType::UINT32)),
                ("ThreadID", Node::value(9, ValueType::UINT32)),
            ],
            vec![],
        ),
        of("Channel", 16, ValueType::STRING),
        Node::element("Computer", vec![], vec![Node::Text("host".into())]),
        Node::element("Security", vec![("UserID", Node::value(12, ValueType::SID))], vec![]),
    ];
    let event = vec![Node::element("System", vec![], system), Node::value(17, ValueType::FRAGMENT)];
    let event = Node::element("Event", vec![], event);
    Arc::new(Template::new(Guid::from_name("bench system"), vec![event]))
}

fn data() -> Arc<Template> {
    let of = |name: &str, index, value_type| {
        let name = ("Name", Node::Text(name.into()));
        Node::element("Data", vec![name], vec![Node::value(index, value_type)])
    };
    let data = vec![
        of("UserName", 0, ValueType::STRING),
        of("Address", 1, ValueType::STRING),
        of("Port", 2, ValueType::UINT16),
        of("Session", 3, ValueType::GUID),
        of("Status", 4, ValueType::HEX32),
        of("Count", 5, ValueType::UINT64),
    ];
    let data = Node::element("EventData", vec![], data);
    Arc::new(Template::new(Guid::from_name("bench data"), vec![data]))
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Writes the log, unless it exists. Returns the nanoseconds for a record.
fn write(path: &Path) -> f64 {
    let _ = std::fs::remove_file(path);
    let (system, data) = (system(), data());
    let (provider, channel) = (utf16("OpenEtw-Bench-Provider"), utf16("OpenEtw/Operational"));
    let (user, address) = (utf16("somebody@example.org"), utf16("192.0.2.17"));
    let guid = Guid::from_name("bench").0;
    let sid = [1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];
    let mut writer = LogWriter::open(path, u64::MAX, Retention::Keep).expect("a log");
    let start = Instant::now();
    for id in 1..=RECORDS {
        let time = START + id as i64 * 1_000_000;
        let event_id: u16 = if id.is_multiple_of(RARE) { 1102 } else { 4600 + (id % 200) as u16 };
        let event_id = event_id.to_le_bytes();
        let (time_bytes, id_bytes) = (time.to_le_bytes(), id.to_le_bytes());
        let pair = |value_type, bytes| Argument::Value(Value { value_type, bytes });
        let inner = Instance {
            template: data.clone(),
            arguments: vec![
                pair(ValueType::STRING, &user),
                pair(ValueType::STRING, &address),
                pair(ValueType::UINT16, &id_bytes[..2]),
                pair(ValueType::GUID, &guid),
                pair(ValueType::HEX32, &id_bytes[..4]),
                pair(ValueType::UINT64, &id_bytes),
            ],
            has_header: true,
        };
        let arguments = vec![
            pair(ValueType::UINT8, &[4]),
            pair(ValueType::UINT8, &[0]),
            pair(ValueType::UINT16, &[3, 0]),
            pair(ValueType::UINT16, &event_id),
            pair(ValueType::NULL, &[]),
            pair(ValueType::HEX64, &[0, 0, 0, 0, 0, 0, 0, 0x80]),
            pair(ValueType::FILETIME, &time_bytes),
            pair(ValueType::GUID, &guid),
            pair(ValueType::UINT32, &id_bytes[..4]),
            pair(ValueType::UINT32, &id_bytes[..4]),
            pair(ValueType::UINT64, &id_bytes),
            pair(ValueType::UINT8, &[0]),
            pair(ValueType::SID, &sid),
            pair(ValueType::NULL, &[]),
            pair(ValueType::STRING, &provider),
            pair(ValueType::GUID, &guid),
            pair(ValueType::STRING, &channel),
            Argument::Fragment(Box::new(Fragment::Instance(inner))),
        ];
        let record = Instance { template: system.clone(), arguments, has_header: true };
        writer.append(FileTime(time), &Fragment::Instance(record)).expect("a record");
        // A host stores a buffer of records at once.
        if id % 100 == 0 {
            writer.sync().expect("a write");
        }
    }
    let took = start.elapsed();
    writer.close().expect("the end of the log");
    took.as_nanos() as f64 / RECORDS as f64
}
