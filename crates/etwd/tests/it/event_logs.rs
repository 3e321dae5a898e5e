//! Sessions whose file is an event log (`.evtx`).

use std::path::{Path, PathBuf};

use etw_evtx::Log;
use etw_evtx::fields::FieldContent;
use etw_evtx::value::Scalar;
use etw_session::{Compression, Enablement, LogMode, SessionClock, SessionConfig};
use etw_types::Status;
use etw_wire::requests::{Request, Response};

use crate::daemon::Daemon;
use crate::rig::*;

fn request(name: &str, file: &Path) -> Request {
    Request::start(config(name, file))
}

fn config(name: &str, file: &Path) -> SessionConfig {
    SessionConfig {
        name: name.to_owned(),
        file: Some(file.to_owned()),
        buffer_size: 8192,
        enable: vec![Enablement::new(provider(), all())],
        ..SessionConfig::default()
    }
}

/// The events of the tests' provider in a log, whose records have rising ids without a gap.
fn logged(path: &Path) -> Vec<Counted> {
    let log = Log::open(path).unwrap();
    let mut records = log.records();
    let mut counted = Vec::new();
    let mut last = None;
    while let Some(record) = records.next().unwrap() {
        let id = last.map_or(record.id(), |last: u64| last + 1);
        assert_eq!((record.id(), record.system().record_id()), (id, Some(id)));
        last = Some(id);
        assert_eq!(record.system().provider(), Some(provider()));
        let mut bytes = Vec::new();
        for field in record.fields().unwrap() {
            let FieldContent::Value(value) = field.content else { continue };
            match value.scalar() {
                // The payload of an event without a schema.
                Some(Scalar::Binary(payload)) => bytes.extend_from_slice(payload),
                Some(Scalar::Unsigned(number)) => bytes.extend_from_slice(&number.to_le_bytes()),
                _ => {}
            }
        }
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        counted.push(Counted {
            process: record.system().process_id().unwrap(),
            thread: number(0),
            number: number(8),
        });
    }
    assert_eq!(records.damage(), []);
    counted
}

/// OV-22: a session with an event log stores its events as records.
#[test]
fn a_session_keeps_its_events_in_an_event_log() {
    let rig = Rig::new();
    let file = rig.file("kept.evtx");
    rig.session(request("kept", &file));
    rig.program("count", &[1000, 0]).end();
    let status = rig.stop("kept");
    assert_eq!((status.stored, status.lost), (1000, 0), "{status:?}");
    assert_eq!(contiguous(&logged(&file)).into_values().collect::<Vec<_>>(), [1000]);
    assert!(!Log::open(&file).unwrap().is_dirty());
    // A later session appends, and record ids rise.
    rig.session(request("kept", &file));
    rig.program("count", &[500, 0]).end();
    rig.stop("kept");
    let counts: Vec<u64> = contiguous(&logged(&file)).into_values().collect();
    assert_eq!(counts.iter().sum::<u64>(), 1500);
}

/// OV-22, P3: every event is a record once, also if workers are killed while they store buffers.
#[test]
fn kill_9_of_the_worker_loses_and_repeats_no_record() {
    let kills = std::env::var("ETW_KILLS").map_or(4, |kills| kills.parse().unwrap());
    let daemon = Daemon::new();
    let file = daemon.rig.file("killed.evtx");
    assert!(matches!(daemon.ask(&request("killed", &file)), Response::Session(_)));
    for _ in 0..kills {
        let mut program = daemon.rig.program("linger", &[20_000]);
        program.expect("written");
        daemon.kill_worker();
        program.kill();
    }
    let status = daemon.stop("killed");
    let logged = logged(&file);
    assert_eq!(logged.len() as u64, status.stored, "{status:?}");
    contiguous(&logged);
    daemon.end();
}

/// OV-22, P3: the oldest records of a log of limited size are overwritten; workers that are killed lose and repeat none.
#[test]
fn a_circular_event_log_keeps_the_newest_records_over_kills() {
    const MAX_SIZE: u64 = 1 << 20;
    let daemon = Daemon::new();
    let file = daemon.rig.file("circular.evtx");
    let mode = LogMode::Circular { max_size: MAX_SIZE };
    let start = Request::start(SessionConfig { mode, ..config("circular", &file) });
    assert!(matches!(daemon.ask(&start), Response::Session(_)));
    for _ in 0..3 {
        let mut program = daemon.rig.program("linger", &[8_000]);
        program.expect("written");
        daemon.kill_worker();
        program.kill();
    }
    let status = daemon.stop("circular");
    assert_eq!(status.max_size, MAX_SIZE);
    assert!(std::fs::metadata(&file).unwrap().len() <= MAX_SIZE);
    let log = Log::open(&file).unwrap();
    assert_eq!(log.header().next_record_id - 1, status.stored, "{status:?}");
    let logged = logged(&file);
    assert!((2_000..status.stored as usize).contains(&logged.len()), "{}", logged.len());
    daemon.end();
}

/// OV-22: events that a full log refuses are counted as lost, and each of the others is a record.
#[test]
fn a_full_event_log_loses_new_events_and_counts_them() {
    let rig = Rig::new();
    let file = rig.file("full.evtx");
    let mode = LogMode::Sequential { max_size: Some(1 << 20) };
    rig.session(Request::start(SessionConfig { mode, ..config("full", &file) }));
    rig.program("count", &[20_000, 0]).end();
    let status = rig.stop("full");
    assert_eq!(status.stored + status.lost, 20_000, "{status:?}");
    assert!(status.lost > 10_000, "{status:?}");
    assert_eq!(logged(&file).len() as u64, status.stored);
    assert!(Log::open(&file).unwrap().is_full());
}

/// OV-22: a log of a session in new-file mode is archived when it is full, and no record is lost.
#[test]
fn a_full_event_log_of_a_new_file_session_is_archived() {
    let rig = Rig::new();
    let file = rig.file("archived.evtx");
    let mode = LogMode::NewFile { max_size: 1 << 20 };
    // Every event has space in memory, however slow the disk is.
    let config = SessionConfig { mode, buffer_count: 512, ..config("archived", &file) };
    rig.session(Request::start(config));
    rig.program("count", &[10_000, 0]).end();
    let status = rig.stop("archived");
    assert_eq!((status.stored, status.lost), (10_000, 0), "{status:?}");
    let files = std::fs::read_dir(file.parent().unwrap()).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let logs: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|end| end == "evtx")).collect();
    assert!(logs.len() > 2, "{logs:?}");
    let all: Vec<Counted> = logs.iter().flat_map(|log| logged(log)).collect();
    assert_eq!(all.len(), 10_000);
}

#[test]
fn an_event_log_excludes_options_of_trace_files() {
    let rig = Rig::new();
    let file = rig.file("unfit.evtx");
    for config in [
        SessionConfig {
            mode: LogMode::Append,
            clock: SessionClock::System,
            ..SessionConfig::default()
        },
        SessionConfig { mode: LogMode::Circular { max_size: 1 << 19 }, ..SessionConfig::default() },
        SessionConfig {
            mode: LogMode::Circular { max_size: 1 << 20 },
            preallocate: true,
            ..SessionConfig::default()
        },
        SessionConfig { compression: Compression::On, ..SessionConfig::default() },
    ] {
        let config = SessionConfig { name: "unfit".into(), file: Some(file.clone()), ..config };
        let status = rig.refused(Request::start(config));
        assert_eq!(status, Status::ERROR_INVALID_PARAMETER.0);
    }
    assert!(!file.exists());
    // A file that is no event log stays as it is.
    let other: PathBuf = rig.file("other.evtx");
    std::fs::write(&other, "text").unwrap();
    rig.refused(request("other", &other));
    assert_eq!(std::fs::read(&other).unwrap(), b"text");
}
