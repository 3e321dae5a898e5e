//! Private sessions: those with a file are private loggers of the system, the others are hosted by this crate.

use std::time::Duration;

use etw::{
    Guid, Keyword, Level, Session, SessionConfig, SessionError, Status, define_provider,
    write_event,
};

use crate::recorder::Recorder;
use crate::recorder::sessions::{self, Call, PRIVATE, bytes_of};
use crate::sessions::{HANDLE, enable_of, expected, start_of};

define_provider!(SHOP, "Windows.PrivateLoggers");

const ID: u128 = 0x7e57;
const FILE: &str = r"C:\traces\private.etl";

fn file_session() -> etw::SessionBuilder {
    let config =
        SessionConfig { name: "Läden".into(), guid: Guid::from_u128(ID), ..Default::default() };
    Session::with_config(config).file(FILE)
}

/// The bytes of `StartTraceW`, and the calls that follow.
#[test]
fn a_session_with_a_file_is_a_private_logger_of_the_system() {
    let recorder = Recorder::start();
    let _registration = SHOP.register();
    let timer = Duration::from_millis(1500);
    let session = file_session().circular(10 << 20).flush_timer(timer).start().unwrap();
    session.enable(&SHOP, Level(4), Keyword(6)).unwrap();
    let calls = sessions::take_calls();
    let bytes = expected(|properties| {
        properties.Wnode.Guid = windows_sys::core::GUID::from_u128(ID);
        properties.MaximumFileSize = 10 << 10;
        // Circular, kilobytes, milliseconds.
        properties.LogFileMode = PRIVATE | 0x2 | 0x2000 | 0x10;
        properties.FlushTimer = 1500;
    });
    assert_eq!(start_of(&calls), ("Läden", &bytes[..], FILE));
    let enable = enable_of(&calls[1]);
    assert_eq!((enable.handle, enable.provider, enable.code), (HANDLE, SHOP.id(), 1));
    assert_eq!((enable.level, enable.any, enable.filters.len()), (4, 6, 0));

    // The system calls the provider back, and gets its events.
    recorder.enable(SHOP.id(), 4, 6, 0);
    write_event!(SHOP, "Sold", level(Informational), keyword(2), u32("Count", &1));
    assert_eq!(recorder.take_written().len(), 1);

    session.capture_state(&SHOP, Level(3), Keyword(2));
    session.flush().unwrap();
    let statistics = session.statistics().unwrap();
    assert_eq!((statistics.ledger.lost_total(), statistics.facts.buffers), (2, 7));
    assert!(statistics.ledger.is_balanced());
    session.disable(&SHOP);
    assert!(matches!(session.snapshot(FILE), Err(SessionError::NotInMemory)));
    assert_eq!(session.stop().unwrap().facts.buffers, 7);
    let calls: Vec<(&str, u32)> = sessions::take_calls()
        .iter()
        .map(|call| match call {
            Call::Control { code, name, .. } if name == "Läden" => ("control", *code),
            Call::Enable(enable) if enable.provider == SHOP.id() => ("enable", enable.code),
            other => panic!("{other:?}"),
        })
        .collect();
    // Capture state, flush, query, disable, stop: once, though the session is also dropped.
    let expected = [("enable", 2), ("control", 3), ("control", 0), ("enable", 0), ("control", 1)];
    assert_eq!(calls, expected);
}

#[test]
fn options_that_private_loggers_lack_are_refused_by_name() {
    let _recorder = Recorder::start();
    let system = SessionConfig {
        name: "system".into(),
        file: Some(FILE.into()),
        system: Some(etw_session::SystemConfig::default()),
        ..SessionConfig::default()
    };
    for (builder, part) in [
        (file_session().append(), "append"),
        (Session::builder("a").file(r"C:\a%d.etl").new_file(1 << 20), "series"),
        (Session::with_config(system), "events of the system"),
    ] {
        let error = builder.start().unwrap_err();
        assert_eq!(error.status(), Status::ERROR_NOT_SUPPORTED, "{error}");
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.to_string().contains("portable()"), "{error}");
    }
    // Rules of ETW have their own error on every system.
    let error = file_session().buffers(0).start().unwrap_err();
    assert!(matches!(error, SessionError::Start(_)), "{error}");
    sessions::refuse_start(5);
    let error = file_session().start().unwrap_err();
    assert_eq!(error.status(), Status::ERROR_ACCESS_DENIED, "{error}");
    assert_eq!(sessions::take_calls(), []);
    // None of them keeps one of the process's four sessions.
    let all: Vec<_> =
        (0..4).map(|n| Session::builder(&format!("s{n}")).file(FILE).start()).collect();
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert!(matches!(file_session().start(), Err(SessionError::Limit(_))));
}

#[test]
fn a_dropped_session_stops_its_private_logger() {
    let _recorder = Recorder::start();
    drop(file_session().start().unwrap());
    let calls = sessions::take_calls();
    assert!(matches!(&calls[1..], [Call::Control { code: 1, .. }]), "{calls:?}");
    // Without a GUID each session gets its own.
    let guid_of = |calls: &[Call]| start_of(calls).1[24..40].to_vec();
    let ids: Vec<Vec<u8>> = (0..2)
        .map(|_| {
            drop(Session::builder("own").file(FILE).start().unwrap());
            guid_of(&sessions::take_calls())
        })
        .collect();
    assert!(ids[0] != ids[1] && ids.iter().all(|id| *id != bytes_of(&[0u8; 16])), "{ids:?}");
}

#[test]
fn portable_sessions_and_those_in_memory_need_nothing_of_the_system() {
    let recorder = Recorder::start();
    let _registration = SHOP.register();
    let folder = std::env::temp_dir();
    let name = |kind: &str| folder.join(format!("etw-{kind}-{}.etl", std::process::id()));
    let (file, snapshot) = (name("portable"), name("snapshot"));
    let to_file = Session::builder("file").file(&file).portable().start().unwrap();
    let memory = Session::builder("memory").memory().start().unwrap();
    for session in [&to_file, &memory] {
        session.enable(&SHOP, Level::VERBOSE, Keyword(0)).unwrap();
    }
    assert!(write_event!(SHOP, "Sold", u32("Count", &7)).is_success());
    memory.snapshot(&snapshot).unwrap();
    for session in [to_file, memory] {
        assert_eq!(session.stop().unwrap().ledger.stored, 1);
    }
    for path in [file, snapshot] {
        let mut trace = etw::open(&path).unwrap();
        let mut count = 0;
        while let Some(event) = trace.next().unwrap() {
            count += usize::from(event.name() == Some("Sold"));
        }
        assert_eq!(count, 1, "{}", path.display());
        std::fs::remove_file(path).unwrap();
    }
    assert_eq!(sessions::take_calls(), []);
    assert_eq!(recorder.take_written(), [], "no session of the system has enabled the provider");
}
