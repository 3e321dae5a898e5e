//! Traces opened with `etw::open`: the events that a decoder over the container gives, and what it says where it cannot.
use crate::session::{greet, provider};
use crate::support::{TempPath, session_permits};
use etw::*;
use std::path::Path;

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/sample.etl");

fn names(mut trace: Trace) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(event) = trace.next().unwrap() {
        names.push(event.name().unwrap_or("-").to_owned());
    }
    assert!(trace.damage().is_empty() && trace.part_files().is_empty());
    names
}

#[test]
fn a_trace_gives_its_events_in_order_with_typed_fields() {
    let mut trace = etw::open(SAMPLE).unwrap();
    let (mut last, mut items) = (None, 0);
    while let Some(event) = trace.next().unwrap() {
        let time = event.timestamp();
        assert!(time >= last, "in order of time");
        last = time;
        if event.name() == Some("Cart") {
            items += u32::from(event.get::<u32>("Items[0].Sku").is_ok());
            assert!(event.get::<u32>("NoSuchField").is_err());
        }
    }
    assert!(items > 0 && last.is_some());
}

#[test]
fn several_files_are_merged() {
    let once = names(etw::open(SAMPLE).unwrap());
    let mut merged = etw::open_all([SAMPLE, SAMPLE]).unwrap();
    let mut by_file = [Vec::new(), Vec::new()];
    let mut last = (i64::MIN, 0);
    while let Some(event) = merged.next().unwrap() {
        let record = event.record();
        let key = (record.order_time, record.position.file_index);
        assert!(key >= last, "by time, then by number of the file");
        last = key;
        by_file[key.1 as usize].push(event.name().unwrap_or("-").to_owned());
    }
    assert_eq!(by_file, [once.clone(), once]);
}

/// The part file of a running session is read with the trace.
#[test]
fn a_running_sessions_events_are_part_of_its_trace() {
    let _permits = session_permits(1);
    provider!(PROVIDER, 0x77_0001);
    let path = TempPath::new("running.etl");
    let _registration = PROVIDER.register();
    let session = Session::builder("running").file(&path).start().unwrap();
    session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
    for n in 0..10 {
        assert_eq!(greet(&PROVIDER, n), Status::ERROR_SUCCESS);
    }
    let mut trace = etw::open(&path).unwrap();
    let [part] = trace.part_files() else { panic!("{:?}", trace.part_files()) };
    // A process does not see its own lock on the part file: to this one the session seems to be killed.
    assert!(part.error.is_none());
    assert_eq!((part.trace.as_path(), part.damaged), (&*path, 0));
    let mut seen = Vec::new();
    while let Some(event) = trace.next().unwrap() {
        if event.name() == Some("Greeting") {
            seen.push(event.get::<u32>("n").unwrap());
        }
    }
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
    session.stop().unwrap();
    assert!(etw::open(&path).unwrap().part_files().is_empty());
}

#[test]
fn errors_name_the_file_and_keep_their_source() {
    let error = etw::open("/no/such/file.etl").unwrap_err();
    assert!(error.to_string().contains("/no/such/file.etl"), "{error}");
    let source = std::error::Error::source(&error).unwrap();
    assert!(source.is::<std::io::Error>());
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let ReadError::File(error) = etw::open(text).unwrap_err() else { panic!() };
    assert!(matches!(error, etw_etl::Error::NotAnEtl { .. }), "{error:?}");
    // An event log is named as one.
    let log = TempPath::new("log.evtx");
    std::fs::write(&log, [&b"ElfFile\0"[..], &[0; 4088]].concat()).unwrap();
    let error = etw::open(&log).unwrap_err().to_string();
    assert!(error.contains("event log") && error.contains("etw_eventlog"), "{error}");
}
