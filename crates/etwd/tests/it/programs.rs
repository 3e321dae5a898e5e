//! Programs connect, register providers, receive enablements, and end.

use etw_session::{
    EnableInfo, EnableProperties, Enablement, Filters, IdFilter, NameFilter, SessionConfig,
};
use etw_types::{Keyword, Level, LevelKeyword};
use etw_wire::requests::{Request, Response};

use crate::daemon::Daemon;
use crate::rig::*;

/// Registration under a running host is synchronous: the first event of a program that lives for 2 ms is recorded. OV-2
#[test]
fn every_one_of_many_short_programs_is_recorded() {
    let rig = Rig::new();
    let file = rig.start("short");
    let count = std::env::var("ETW_SHORT").map_or(100, |count| count.parse().unwrap());
    let mut expected = Vec::new();
    for _ in 0..count / 10 {
        let programs: Vec<_> = (0..10).map(|_| rig.program("count", &[1, 0])).collect();
        for program in programs {
            expected.push((program.id(), 0));
            program.end();
        }
    }
    let status = rig.stop("short");
    assert_eq!((status.stored, status.lost), (count, 0), "{status:?}");
    let seen = contiguous(&events(&file));
    expected.sort();
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), expected);
}

/// Providers register without any right, before there is a host, and attach when one starts. OV-3
#[test]
fn programs_that_wait_attach_when_a_host_starts() {
    let mut rig = Rig::without_host();
    std::fs::create_dir(rig.runtime()).unwrap();
    let mut programs: Vec<_> = (0..5).map(|_| rig.program("wait", &[])).collect();
    for program in &mut programs {
        program.expect("ready");
    }
    rig.begin();
    let file = rig.start("waited-for");
    for program in programs {
        program.end();
    }
    assert_eq!(rig.stop("waited-for").stored, 10);
    assert_eq!(contiguous(&events(&file)).len(), 5);
}

/// A program that a stopped host has not answered in time attaches when the host continues.
#[test]
fn a_program_attaches_to_a_host_that_answers_late() {
    let daemon = Daemon::new();
    let file = daemon.start("late", SessionConfig::default());
    let worker = daemon.worker().unwrap() as libc::pid_t;
    // SAFETY: numbers; a process of this test.
    let signal = |signal| assert_eq!(unsafe { libc::kill(worker, signal) }, 0);
    signal(libc::SIGSTOP);
    let mut program = daemon.rig.program("wait", &[]);
    program.expect("ready");
    // Longer than the program's threads wait for a host that is not busy.
    std::thread::sleep(std::time::Duration::from_secs(1));
    signal(libc::SIGCONT);
    daemon.rig.wait_until(|_| {
        let query = daemon.ask(&Request::Query { session: "late".to_owned() });
        matches!(query, Response::Session(status) if status.stored == 2)
    });
    program.end();
    daemon.stop("late");
    assert_eq!(events(&file).len(), 2);
    daemon.end();
}

/// When a host ends, its programs wait for the next one.
#[test]
fn programs_find_the_next_host() {
    let mut rig = Rig::new();
    let mut program = rig.program("endless", &[50]);
    program.expect("ready");
    for round in 0..3 {
        let file = rig.start(&format!("round{round}"));
        rig.wait_until(|rig| rig.query(&format!("round{round}")).stored > 500);
        rig.host = None;
        let events = events(&file);
        assert!(events.len() > 500);
        assert!(events.windows(2).all(|pair| pair[1].number == pair[0].number + 1));
        rig.begin();
    }
    program.kill();
}

/// A program that closes all its descriptors attaches to a host that starts later, whether it waited for one or had one before,
/// and keeps the files that it has opened instead.
#[test]
fn programs_that_close_all_descriptors_attach_again() {
    for files in [0, 1, 400] {
        for had_one in [false, true] {
            let mut rig = Rig::without_host();
            std::fs::create_dir(rig.runtime()).unwrap();
            if had_one {
                rig.begin();
            }
            let mut program = rig.program("closes", &[files]);
            program.expect("ready");
            rig.host = None;
            rig.begin();
            let file = rig.start("closed");
            program.end();
            assert_eq!(rig.stop("closed").stored, 2, "{files} {had_one}");
            assert_eq!(contiguous(&events(&file)).values().sum::<u64>(), 2);
        }
    }
}

/// OV-15: callbacks receive every change, with the settings of all sessions together; programs answer capture state with
/// events.
#[test]
fn callbacks_receive_the_settings_of_all_sessions() {
    let rig = Rig::new();
    let mut program = rig.program("listen", &[]);
    program.expect("ready");
    let wanted = |level, any, all| EnableInfo {
        wanted: LevelKeyword {
            level: Level(level),
            any: Keyword(any),
            all: Keyword(all),
            ignore_keyword_0: false,
        },
        ..EnableInfo::default()
    };
    let enable = |session: &str, info| {
        let warnings = rig.done(Request::Enable {
            session: session.to_owned(),
            provider: provider().into(),
            info,
            timeout_ms: 5000,
        });
        assert!(warnings.is_empty(), "{warnings:?}");
    };
    let other = vec![Enablement::new(etw::Guid::from_name("OpenEtw.Other"), all())];
    for name in ["one", "two"] {
        rig.start_with(name, SessionConfig { enable: other.clone(), ..SessionConfig::default() });
    }
    enable("one", wanted(4, 0x30, 0x10));
    program.expect("Enable 4 0x30 0x10");
    enable("two", wanted(2, 0x50, 0x11));
    program.expect("Enable 4 0x70 0x10");
    enable("one", wanted(1, 0x30, 0x30));
    program.expect("Enable 2 0x70 0x10");
    rig.done(Request::CaptureState {
        session: "two".to_owned(),
        provider: provider(),
        level: Level(3),
        any: Keyword(9),
        all: Keyword(1),
    });
    program.expect("CaptureState 3 0x9 0x1");
    rig.done(Request::Disable { session: "two".to_owned(), provider: provider().into() });
    program.expect("Enable 1 0x30 0x30");
    assert_eq!(rig.stop("one").lost, 0);
    program.expect("Disable 0 0x0 0x0");

    let Response::Providers { providers } = rig.ask(Request::Providers) else { panic!() };
    let found = providers.iter().find(|found| found.id == provider()).unwrap();
    assert_eq!((found.name.as_str(), &found.pids[..]), ("OpenEtw.Test", &[program.id()][..]));
}

/// A child registers anew with its first event, which is recorded as its own.
#[test]
fn children_of_a_fork_are_programs_of_their_own() {
    let rig = Rig::new();
    let file = rig.start("fork");
    let program = rig.program("fork", &[20]);
    let parent = program.id();
    program.end();
    let status = rig.stop("fork");
    let events = events(&file);
    assert_eq!((events.len(), status.lost), (2 + 2 * 20, 0), "{status:?}");
    for event in events {
        match event.thread {
            0 => assert_eq!(event.process, parent),
            _ => assert_eq!(u64::from(event.process), event.number),
        }
    }
}

/// OV-17: process ids, names of programs, event ids and names; OV-7: what is added to each event.
#[test]
fn sessions_filter_events_and_add_items() {
    let rig = Rig::new();
    let filtered = |filters: Filters| EnableInfo {
        filters: Some(Box::new(filters)),
        properties: EnableProperties(
            EnableProperties::SID.0 | EnableProperties::PROCESS_START_KEY.0,
        ),
        ..all()
    };
    let executable = std::env::current_exe().unwrap();
    let executable = executable.file_name().unwrap().to_string_lossy().into_owned();
    let names = |include, name: &str| {
        Some(NameFilter { of: LevelKeyword::ALL, include, names: vec![name.to_owned()] })
    };
    let cases = [
        ("this-exe", Filters { executables: vec![executable], ..Filters::default() }, 10),
        ("other-exe", Filters { executables: vec!["sh".to_owned()], ..Filters::default() }, 0),
        ("other-pid", Filters { process_ids: vec![1], ..Filters::default() }, 0),
        ("this-name", Filters { event_names: names(true, "Counted"), ..Filters::default() }, 10),
        ("not-name", Filters { event_names: names(false, "Counted"), ..Filters::default() }, 0),
        (
            "ids",
            // TraceLogging events pass a filter by event id.
            Filters {
                event_ids: Some(IdFilter { include: true, ids: vec![7] }),
                ..Filters::default()
            },
            10,
        ),
    ];
    let mut files = Vec::new();
    for (name, filters, _) in &cases {
        let enable = vec![Enablement::new(provider(), filtered(filters.clone()))];
        files.push(rig.start_with(name, SessionConfig { enable, ..SessionConfig::default() }));
    }
    rig.program("count", &[10, 0]).end();
    for ((name, _, expected), file) in cases.iter().zip(files) {
        let status = rig.stop(name);
        assert_eq!((status.stored, status.filtered), (*expected, 10 - expected), "{name}");
        assert_eq!(events(&file).len() as u64, *expected, "{name}");
        let file = etw_etl::read::TraceFile::open(&file).unwrap();
        let mut records = etw_etl::read::Records::new(vec![file]);
        while let Some(record) = records.next() {
            if record.provider == Some(provider()) {
                use etw_types::ExtType;
                let sid = record.extended.find(ExtType::SID).unwrap();
                // SAFETY: takes nothing and returns a number.
                let user = unsafe { libc::geteuid() };
                assert_eq!(sid[12..16], user.to_le_bytes());
                assert!(record.extended.find(ExtType::PROCESS_START_KEY).is_some());
            }
        }
    }
}

/// P2: a program that finds one host twice attaches to it once, and has each event once.
#[test]
fn a_host_that_is_found_twice_is_attached_once() {
    let rig = Rig::new();
    let file = rig.start("two");
    let again = rig.runtime().join("");
    Program::start(
        rig.command("count", &[10, 0]).env(etw_wire::runtime_directory::RECORD_VARIABLE, again),
    )
    .end();
    assert_eq!((rig.stop("two").stored, events(&file).len()), (10, 10));
}
