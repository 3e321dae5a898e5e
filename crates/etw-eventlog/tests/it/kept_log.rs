//! Logs that a session's host appends to.

use etw_etl::write::BufferBuilder;
use etw_eventlog::kept_log::{KeptLog, KeptSession};
use etw_evtx::Log;
use etw_types::{Clock, ClockType, EventRecord, FileTime, Guid, HeaderType};
use std::path::{Path, PathBuf};

fn path(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.evtx"));
    let _ = std::fs::remove_file(&path);
    path
}

fn open(path: &Path, session: u64) -> KeptLog {
    let clock =
        Clock { kind: ClockType::SYSTEM, start: FileTime(0), raw_start: 0, frequency: 10_000_000 };
    let session =
        KeptSession { session, clock, channel: "Test".to_owned(), schemas: Default::default() };
    KeptLog::open(path, u64::MAX, session).unwrap()
}

/// A buffer with `events` events, whose ids count from `first`.
fn buffer(sequence: i64, first: u16, events: u16) -> Vec<u8> {
    let mut buffer = BufferBuilder::new(64 << 10, 0);
    buffer.header.sequence_number = sequence;
    for id in first..first + events {
        let mut event = EventRecord::new(HeaderType::Event64, b"payload");
        event.provider = Some(Guid::from_name("OpenEtw.Test"));
        event.descriptor.id = id;
        event.order_time = 133_000_000_000_000_000 + i64::from(id);
        buffer.push(&event).unwrap();
    }
    buffer.finish()
}

fn ids(path: &Path) -> Vec<u16> {
    let log = Log::open(path).unwrap();
    let mut records = log.records();
    let mut ids = Vec::new();
    while let Some(record) = records.next().unwrap() {
        assert_eq!(record.id(), ids.len() as u64 + 1);
        ids.push(record.system().event_id().unwrap());
    }
    assert_eq!(records.damage(), []);
    ids
}

/// P3: a host that is killed while it stores a buffer has stored none, some or all of its records. The next host stores them
/// again, and the log has each once.
#[test]
fn a_buffer_that_comes_again_is_stored_once() {
    let path = path("again");
    let mut log = open(&path, 1);
    log.store(&buffer(1, 0, 10)).unwrap();
    log.store(&buffer(2, 10, 10)).unwrap();
    drop(log);
    let mut log = open(&path, 1);
    for sequence in 1..=3 {
        log.store(&buffer(sequence, 10 * (sequence as u16 - 1), 10)).unwrap();
    }
    // Another host than the one that was killed finds the first four records of a longer buffer.
    drop(log);
    let mut log = open(&path, 1);
    log.store(&buffer(3, 20, 14)).unwrap();
    log.finish().unwrap();
    assert_eq!(ids(&path), (0..34).collect::<Vec<_>>());
    // Numbers of another session's buffers say nothing.
    let mut log = open(&path, 2);
    log.store(&buffer(1, 34, 6)).unwrap();
    log.finish().unwrap();
    assert_eq!(ids(&path), (0..40).collect::<Vec<_>>());
}

/// Buffers that fill many chunks.
#[test]
fn a_log_goes_on_over_its_chunks() {
    let path = path("chunks");
    let mut log = open(&path, 1);
    for number in 0..40 {
        log.store(&buffer(i64::from(number) + 1, number * 300, 300)).unwrap();
    }
    assert_eq!(log.next_id(), Some(12_001));
    // Readers find every record of a log that is in use.
    assert_eq!(ids(&path), (0..12_000).collect::<Vec<_>>());
    log.finish().unwrap();
    assert_eq!(ids(&path), (0..12_000).collect::<Vec<_>>());
}
