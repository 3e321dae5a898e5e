//! Logs that a session's host appends to.

use etw_etl::write::BufferBuilder;
use etw_eventlog::kept_log::{KeptLog, KeptSession, Limit, WhenFull};
use etw_eventlog::subscription::{Start, Subscription, Watch};
use etw_evtx::Log;
use etw_evtx::query::Selector;
use etw_types::{Clock, ClockType, EventRecord, FileTime, Guid, HeaderType};
use std::path::{Path, PathBuf};

fn path(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.evtx"));
    let _ = std::fs::remove_file(&path);
    path
}

fn open(path: &Path, session: u64) -> KeptLog {
    open_limited(path, session, Limit { max_size: u64::MAX, when_full: WhenFull::Refuse })
}

fn open_limited(path: &Path, session: u64, limit: Limit) -> KeptLog {
    let clock =
        Clock { kind: ClockType::SYSTEM, start: FileTime(0), raw_start: 0, frequency: 10_000_000 };
    let session =
        KeptSession { session, clock, channel: "Test".to_owned(), schemas: Default::default() };
    KeptLog::open(path, limit, session).unwrap()
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
    let (first, ids) = records(path);
    assert_eq!(first, 1);
    ids
}

/// The id of a log's oldest record, and the events' ids. Record ids rise by one.
fn records(path: &Path) -> (u64, Vec<u16>) {
    let log = Log::open(path).unwrap();
    let mut records = log.records();
    let (mut first, mut ids) = (None, Vec::new());
    while let Some(record) = records.next().unwrap() {
        let first = *first.get_or_insert(record.id());
        assert_eq!(record.id(), first + ids.len() as u64);
        ids.push(record.system().event_id().unwrap());
    }
    assert_eq!(records.damage(), []);
    (first.unwrap_or(0), ids)
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

/// A log whose oldest records are overwritten never exceeds its size, also if its host is killed after each buffer.
#[test]
fn a_circular_log_keeps_its_newest_records_within_its_size() {
    let path = path("circular");
    let limit = Limit { max_size: 1 << 20, when_full: WhenFull::Overwrite };
    for number in 0..100 {
        let mut log = open_limited(&path, 1, limit);
        // The host before stored this buffer, and was killed before it said so.
        if number > 0 {
            log.store(&buffer(i64::from(number), (number - 1) * 300, 300)).unwrap();
        }
        log.store(&buffer(i64::from(number) + 1, number * 300, 300)).unwrap();
        assert_eq!(log.next_id(), Some(u64::from(number + 1) * 300 + 1));
        assert!(std::fs::metadata(&path).unwrap().len() <= 1 << 20);
    }
    let (first, ids) = records(&path);
    assert!(first > 1 && ids.len() > 2000, "{first} {}", ids.len());
    assert_eq!(ids, (first as u16 - 1..30_000).collect::<Vec<_>>());
}

/// A log that refuses records holds whole buffers: those whose storing succeeded.
#[test]
fn a_full_log_holds_the_buffers_that_were_stored() {
    let path = path("full");
    let limit = Limit { max_size: 1 << 20, when_full: WhenFull::Refuse };
    let mut log = open_limited(&path, 1, limit);
    // No whole number of buffers fills a chunk.
    let stored = (0..100).filter(|number| {
        let stored = log.store(&buffer(i64::from(*number) + 1, number * 307, 307));
        if let Err(error) = &stored {
            assert!(error.to_string().contains("the log is full"), "{error}");
            // A smaller buffer that would fit is refused, too.
            assert!(log.store(&buffer(200 + i64::from(*number), 0, 1)).is_err());
        }
        stored.is_ok()
    });
    let stored = stored.count() as u16;
    assert!((1..99).contains(&stored), "{stored}");
    assert_eq!(ids(&path), (0..stored * 307).collect::<Vec<_>>());
    log.finish().unwrap();
    assert!(Log::open(&path).unwrap().is_full());
    assert_eq!(ids(&path), (0..stored * 307).collect::<Vec<_>>());
    // With a larger size it takes records again.
    let mut log = open_limited(&path, 2, Limit { max_size: 2 << 20, ..limit });
    log.store(&buffer(1, stored * 307, 307)).unwrap();
    log.finish().unwrap();
    assert_eq!(ids(&path), (0..(stored + 1) * 307).collect::<Vec<_>>());
}

/// P3: no record is lost or stored twice over archives, whichever step a kill leaves undone.
#[test]
fn a_log_is_archived_when_it_is_full_and_ids_continue() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("archived");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    let (path, new) = (folder.join("app.evtx"), folder.join("app.evtx.new"));
    let limit = Limit { max_size: 1 << 20, when_full: WhenFull::Archive };
    for number in 0..100 {
        let mut log = open_limited(&path, 1, limit);
        if number > 0 {
            log.store(&buffer(i64::from(number), (number - 1) * 307, 307)).unwrap();
        }
        log.store(&buffer(i64::from(number) + 1, number * 307, 307)).unwrap();
        drop(log);
        match number % 3 {
            // Killed when the new log had not got its name, but the old one had lost it; or before that.
            0 => std::fs::rename(&path, &new).unwrap(),
            1 => std::fs::write(&new, "begun").unwrap(),
            _ => {}
        }
    }
    open_limited(&path, 1, limit).finish().unwrap();
    assert!(!new.exists());
    let logs = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut parts: Vec<_> = logs.map(|log| (records(&log), log)).collect();
    parts.sort();
    assert!(parts.len() > 4, "{parts:?}");
    let mut all: Vec<u16> = Vec::new();
    for (index, ((first, ids), log)) in parts.iter().enumerate() {
        assert_eq!(*first, all.len() as u64 + 1);
        all.extend(ids);
        let name = log.file_name().unwrap().to_str().unwrap();
        let is_archive = name.starts_with("Archive-app-20") && name.ends_with(".evtx");
        assert_eq!(
            (is_archive, name == "app.evtx"),
            (index + 1 < parts.len(), index + 1 == parts.len())
        );
        assert!(std::fs::metadata(log).unwrap().len() <= 1 << 20);
    }
    assert_eq!(all, (0..30_700).collect::<Vec<_>>());
}

/// OV-22: a subscription that is slower than its log returns the records that were archived meanwhile.
#[test]
fn a_subscription_loses_no_record_when_its_log_is_archived() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("archived_behind");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("app.evtx");
    let mut log = open_limited(&path, 1, Limit { max_size: 1 << 20, when_full: WhenFull::Archive });
    let mut store = |numbers: std::ops::Range<u16>| {
        for number in numbers {
            log.store(&buffer(i64::from(number) + 1, number * 307, 307)).unwrap();
        }
    };
    let archives = || std::fs::read_dir(&folder).unwrap().count() - 1;
    // Records that were archived before a subscription began, and archives of a log with a similar name, are not its records.
    store(0..40);
    assert!(archives() > 1);
    std::fs::copy(&path, folder.join("Archive-app-2-2026-01-31-23-59-59-123.evtx")).unwrap();
    let subscribe = |start: &Start| {
        let selector = Selector::query("*".parse().unwrap(), FileTime(0));
        let watch = Watch { name: "Test".to_owned(), path: path.clone(), selector };
        Subscription::new(vec![watch], start).unwrap()
    };
    let poll = |subscription: &mut Subscription| -> Vec<u64> {
        subscription.poll().unwrap().iter().map(|record| record.record_id()).collect()
    };
    let (mut future, mut oldest) = (subscribe(&Start::Future), subscribe(&Start::Oldest));
    let first = records(&path).0;
    assert_eq!(poll(&mut oldest), (first..=40 * 307).collect::<Vec<_>>());
    let before = archives();
    store(40..100);
    assert!(archives() > before + 1);
    let wanted: Vec<u64> = (40 * 307 + 1..=100 * 307).collect();
    assert_eq!(poll(&mut future), wanted);
    assert_eq!(poll(&mut oldest), wanted);
    assert!(future.take_gaps().is_empty() && oldest.take_gaps().is_empty());
}
