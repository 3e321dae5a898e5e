//! Sessions: limits, modes, changes, leases.

use etw_etl::read::{Records, TraceFile};
use etw_session::{Compression, Enablement, LogMode, SessionClock, SessionConfig};
use etw_wire::host_client::Client;
use etw_wire::requests::{Request, Response, StartRequest, Update};

use crate::rig::*;

/// OV-2: a host has 64 sessions. The next one fails as documented, and so does a session with a used name or file.
#[test]
fn a_host_has_at_most_64_sessions() {
    let rig = Rig::new();
    let small = || SessionConfig { buffer_size: 4096, buffer_count: 2, ..SessionConfig::default() };
    for number in 0..64 {
        let enable = vec![Enablement::new(etw::Guid::from_u128(number + 1), all())];
        rig.start_with(&format!("session{number}"), SessionConfig { enable, ..small() });
    }
    let start = |name: &str, file: &str| {
        let file = Some(rig.file(file));
        Request::start(SessionConfig { name: name.to_owned(), file, ..small() })
    };
    assert_eq!(rig.refused(start("one more", "more.etl")), 1450);
    rig.stop("session5");
    assert_eq!(rig.refused(start("SESSION6", "more.etl")), 183);
    assert_eq!(rig.refused(start("one more", "session6.etl")), 161);
    assert_eq!(rig.refused(Request::Stop { session: "session5".to_owned() }), 4201);
    rig.session(start("one more", "more.etl"));
    let Response::Sessions { sessions } = rig.ask(Request::List) else { panic!() };
    assert_eq!(sessions.len(), 64);
}

/// OV-12: a provider has up to eight sessions; the ninth is refused with its status. Each of the eight has every event.
#[test]
fn a_provider_has_at_most_eight_sessions_of_a_host() {
    let rig = Rig::new();
    let files: Vec<_> = (0..8).map(|number| rig.start(&format!("session{number}"))).collect();
    let start = SessionConfig {
        name: "ninth".to_owned(),
        file: Some(rig.file("ninth.etl")),
        enable: vec![Enablement::new(provider(), all())],
        ..SessionConfig::default()
    };
    assert_eq!(rig.refused(Request::start(start)), 1450);
    rig.wait_until(|rig| rig.ask(Request::Query { session: "ninth".to_owned() }).is_error());
    rig.program("threads", &[2, 5000]).end();
    for (number, file) in files.iter().enumerate() {
        let status = rig.stop(&format!("session{number}"));
        assert_eq!((status.stored, status.lost), (10_000, 0), "{status:?}");
        assert!(contiguous(&events(file)).values().all(|count| *count == 5000));
    }
}

trait IsError {
    fn is_error(&self) -> bool;
}

impl IsError for Response {
    fn is_error(&self) -> bool {
        matches!(self, Response::Error { .. })
    }
}

/// OV-4, OV-5: global sessions have every log mode of private sessions.
#[test]
fn global_sessions_have_every_log_mode() {
    let rig = Rig::new();
    // One by one: a session that is full or waits for its disk would affect the others.
    let small = |start: SessionConfig| SessionConfig {
        buffer_size: 4096,
        buffer_count: 256,
        independent: true,
        ..start
    };
    let with_size = |mode| small(SessionConfig { mode, ..SessionConfig::default() });
    let circular = rig.start_with("circular", with_size(LogMode::Circular { max_size: 64 << 10 }));
    let full = rig.start_with("full", with_size(LogMode::Sequential { max_size: Some(64 << 10) }));
    let compressed = rig.start_with(
        "compressed",
        small(SessionConfig { compression: Compression::On, ..SessionConfig::default() }),
    );
    let memory = SessionConfig {
        buffer_count: 32,
        ..small(SessionConfig { mode: LogMode::Buffering, ..SessionConfig::default() })
    };
    rig.start_with("memory", memory);
    let series = rig.file("series%d.etl");
    let start = SessionConfig {
        name: "series".to_owned(),
        file: Some(series),
        enable: vec![Enablement::new(provider(), all())],
        ..with_size(LogMode::NewFile { max_size: 64 << 10 })
    };
    rig.session(Request::start(start));
    let append = SessionConfig {
        clock: SessionClock::System,
        mode: LogMode::Append,
        ..small(SessionConfig::default())
    };
    let appended = rig.start_with("append", append.clone());

    rig.program("threads", &[1, 5000]).end();
    let snapshot = rig.file("snapshot.etl");
    rig.done(Request::Snapshot { session: "memory".to_owned(), file: snapshot.clone() });
    let memory = rig.query("memory");
    assert_eq!(memory.stored + memory.overwritten, 5000, "{memory:?}");
    let last = |events: &[Counted]| events.last().map(|event| event.number);
    let kept = events(&snapshot);
    assert_eq!((last(&kept), kept.len() as u64), (Some(4999), memory.stored));
    let stopped = rig.stop("memory");
    assert_eq!((stopped.stored, stopped.overwritten), (memory.stored, memory.overwritten));

    let status = rig.stop("circular");
    let kept = events(&circular);
    assert_eq!((last(&kept), status.lost), (Some(4999), 0));
    assert_eq!(kept.len() as u64, status.stored);
    assert!(status.stored < 5000 && status.stored + status.overwritten == 5000, "{status:?}");
    // It is independent: its loss is its own.
    assert_eq!(rig.query("full").state, "file-full");
    let status = rig.stop("full");
    let kept = events(&full);
    assert_eq!((kept.len() as u64, status.stored + status.lost), (status.stored, 5000));
    // Regression: by the file's size, which can be a buffer less than the maximum.
    assert!(status.file_full && !stopped.file_full, "{status:?}");
    assert!(status.lost > 0 && std::fs::metadata(&full).unwrap().len() <= 64 << 10);
    assert_eq!(rig.stop("compressed").stored, 5000);
    assert_eq!(contiguous(&events(&compressed)).values().sum::<u64>(), 5000);
    assert_eq!(rig.stop("series").stored, 5000);
    let numbered = |number: u32| rig.file(&format!("series{number}.etl"));
    let series: Vec<_> = (1..).map(numbered).take_while(|path| path.exists()).collect();
    let series = events_of(&series);
    assert_eq!(contiguous(&series).values().sum::<u64>(), 5000);

    assert_eq!(rig.stop("append").stored, 5000);
    rig.start_with("append", append);
    rig.program("count", &[10, 0]).end();
    rig.stop("append");
    assert_eq!(events(&appended).len(), 5010);
}

/// P10: a series continues with the next file if somebody removes or cuts the file that it writes.
#[test]
fn a_series_continues_behind_a_removed_or_cut_file() {
    let rig = Rig::new();
    let start = SessionConfig {
        name: "series".to_owned(),
        file: Some(rig.file("series%d.etl")),
        mode: LogMode::NewFile { max_size: 128 << 10 },
        buffer_size: 4096,
        buffer_count: 8,
        enable: vec![Enablement::new(provider(), all())],
        ..SessionConfig::default()
    };
    rig.session(Request::start(start));
    let path = |number: u32| rig.file(&format!("series{number}.etl"));
    let write = |count: u64| {
        rig.program("count", &[count, 0]).end();
        rig.done(Request::Flush { session: "series".to_owned() });
    };
    write(100);
    std::fs::remove_file(path(1)).unwrap();
    let status = rig.query("series");
    assert_eq!((status.stored, status.overwritten), (0, 100), "{status:?}");
    write(100);
    assert!(!path(1).exists() && path(2).exists());
    // Without a query the storage finds the file removed: the buffers on their way to it are lost.
    std::fs::remove_file(path(2)).unwrap();
    write(20_000);
    let status = rig.query("series");
    assert!(status.stored > 10_000 && status.overwritten >= 200, "{status:?}");
    let last = (1..).find(|number| *number > 2 && !path(*number).exists()).unwrap() - 1;
    std::fs::OpenOptions::new().write(true).open(path(last)).unwrap().set_len(4096).unwrap();
    write(20_000);
    assert!(path(last + 3).exists());
    let status = rig.stop("series");
    assert!(status.error.unwrap().contains("was made shorter"));
    assert_eq!(status.attempted, status.stored + status.overwritten + status.lost);
    assert!(status.lost < 10_000, "{}", status.lost);
    let exist: Vec<_> =
        (1..1000).filter(|n| *n != last).map(path).filter(|path| path.exists()).collect();
    let kept = events_of(&exist).len() as u64;
    assert!(kept <= status.stored && kept > 25_000, "{kept} of {}", status.stored);
}

/// `ControlTrace` UPDATE changes buffers, flush timer and file while programs write.
#[test]
fn a_running_session_is_changed() {
    let rig = Rig::new();
    let first =
        rig.start_with("changed", SessionConfig { buffer_count: 4, ..SessionConfig::default() });
    let mut program = rig.program("endless", &[200]);
    program.expect("ready");
    rig.wait_until(|rig| rig.query("changed").stored > 100);
    let second = rig.file("second.etl");
    let update = |update| Request::Update { session: "changed".to_owned(), update };
    rig.done(update(Update { buffers: Some(16), ..Update::default() }));
    rig.done(update(Update { flush_timer_ms: Some(20), ..Update::default() }));
    rig.done(update(Update { file: Some(second.clone()), ..Update::default() }));
    assert_eq!(rig.query("changed").buffers, 16);
    let before = rig.query("changed").stored;
    rig.wait_until(|rig| rig.query("changed").stored > before + 200);
    // The flush timer brings events to the file without a flush.
    rig.wait_until(|_| std::fs::metadata(&second).unwrap().len() > 64 << 10);
    rig.done(Request::Flush { session: "changed".to_owned() });
    let status = rig.stop("changed");
    program.kill();
    let mut all = events(&first);
    let in_first = all.len();
    all.extend(events(&second));
    assert!(in_first > 0 && all.len() > in_first);
    assert_eq!((all.len() as u64, status.lost), (status.stored, 0));
    let from = all[0].number;
    assert!(all.iter().zip(from..).all(|(event, number)| event.number == number));
    // The ledger, which counts the events of both files, says so.
    let totals = |file| {
        let mut records = Records::new(vec![TraceFile::open(file).unwrap()]);
        while let Some(record) = records.next() {
            if let Some(totals) = etw_host::report::read_totals(&record) {
                return Some(totals.files_before);
            }
        }
        None
    };
    assert_eq!([totals(&first), totals(&second)], [None, Some(1)]);
}

/// OV-5: changes of the file that arrive at once, with buffers on their way, are executed in order. None is refused, and each
/// is answered when the file before is complete.
#[test]
fn changes_of_the_file_are_executed_in_order() {
    let rig = Rig::new();
    for compression in Compression::ALL {
        let start = SessionConfig {
            buffer_count: 512,
            buffer_size: 8192,
            compression,
            ..SessionConfig::default()
        };
        let name = format!("ordered-{compression}");
        let first = rig.start_with(&name, start);
        let mut program = rig.program("endless", &[20]);
        program.expect("ready");
        rig.wait_until(|rig| rig.query(&name).stored > 1000);
        let files: Vec<_> = (0..6).map(|n| rig.file(&format!("{name}-{n}.etl"))).collect();
        std::thread::scope(|scope| {
            for file in &files {
                let (runtime, name) = (rig.runtime(), &name);
                scope.spawn(move || {
                    let client = Client::connect(&runtime).unwrap();
                    let update = Update { file: Some(file.clone()), ..Update::default() };
                    let answer = client.ask(&Request::Update { session: name.clone(), update });
                    assert!(matches!(answer, Ok(Response::Done { .. })), "{answer:?}");
                });
            }
        });
        let before = rig.query(&name).stored;
        rig.wait_until(|rig| rig.query(&name).stored > before + 1000);
        // First: a program that is killed inside of a write has attempted an event that no file has.
        let status = rig.stop(&name);
        program.kill();
        let mut parts: Vec<_> = [first].iter().chain(&files).map(|file| events(file)).collect();
        parts.sort_by_key(|events| events.first().map(|event| event.number));
        let all = parts.concat();
        let count = contiguous(&all).values().sum::<u64>();
        assert_eq!((count, status.lost), (status.stored, 0), "{status:?}");
        // The last file has the later events.
        assert!(parts.last().unwrap().len() >= 1000);
    }
}

/// A leased session ends with its owner; its file is complete. OV-19: the flush timer's events are in it.
#[test]
fn leased_sessions_end_with_their_owner() {
    let rig = Rig::new();
    let client = Client::connect(&rig.runtime()).unwrap();
    let file = rig.file("leased.etl");
    let start = SessionConfig {
        name: "leased".to_owned(),
        file: Some(file.clone()),
        enable: vec![Enablement::new(provider(), all())],
        ..SessionConfig::default()
    };
    client.ask(&Request::start(StartRequest { config: start, leased: true })).unwrap();
    rig.program("count", &[100, 0]).end();
    drop(client);
    rig.wait_until(|rig| rig.ask(Request::Query { session: "leased".to_owned() }).is_error());
    rig.wait_until(|_| etw_etl::read::TraceFile::open(&file).is_ok_and(|file| file.is_finalised()));
    assert_eq!(events(&file).len(), 100);
}

/// The owner of a leased session can be another connection of its user. A session that does not end with a connection has no owner.
#[test]
fn a_lease_goes_to_the_connection_that_asks_for_it() {
    let rig = Rig::new();
    let connect = || Client::connect(&rig.runtime()).unwrap();
    let lease = |name: &str| Request::Lease { session: name.to_owned() };
    let start = |name: &str, leased| {
        let named = SessionConfig { name: name.to_owned(), ..SessionConfig::default() };
        let config = SessionConfig { file: Some(rig.file(&format!("{name}.etl"))), ..named };
        Request::start(StartRequest { config, leased })
    };
    let (first, second) = (connect(), connect());
    first.ask(&start("leased", true)).unwrap();
    first.ask(&start("lasting", false)).unwrap();
    second.ask(&lease("leased")).unwrap();
    assert_eq!(rig.refused(lease("lasting")), 87);
    assert_eq!(rig.refused(lease("absent")), 4201);
    drop(first);
    rig.program("count", &[1, 0]).end();
    assert!(!rig.ask(Request::Query { session: "leased".to_owned() }).is_error());
    drop(second);
    rig.wait_until(|rig| rig.ask(Request::Query { session: "leased".to_owned() }).is_error());
    assert!(!rig.ask(Request::Query { session: "lasting".to_owned() }).is_error());
}

/// Invalid requests are refused with ETW's status and a sentence, and leave nothing behind.
#[test]
fn invalid_requests_leave_nothing_behind() {
    let rig = Rig::new();
    let file = || Some(rig.file("refused.etl"));
    let named = || SessionConfig { name: "refused".to_owned(), ..SessionConfig::default() };
    let cases = [
        (named(), 161),
        (SessionConfig { file: file(), ..SessionConfig::default() }, 87),
        (SessionConfig { file: file(), buffer_count: 1, ..named() }, 87),
        (SessionConfig { file: file(), buffer_size: 1000, ..named() }, 87),
        (SessionConfig { file: file(), buffer_count: 1 << 20, ..named() }, 87),
        (SessionConfig { file: file(), mode: LogMode::Buffering, ..named() }, 87),
        (SessionConfig { file: file(), preallocate: true, ..named() }, 87),
        (SessionConfig { file: Some(rig.file("no/such/folder.etl")), ..named() }, 161),
        // No disk has so much space: ERROR_DISK_FULL.
        (
            SessionConfig {
                file: file(),
                preallocate: true,
                mode: LogMode::Circular { max_size: 4095 << 30 },
                ..named()
            },
            112,
        ),
        (SessionConfig { file: Some("relative.etl".into()), ..named() }, 87),
        (
            SessionConfig {
                file: file(),
                enable: vec![Enablement::new(etw::Guid::ZERO, all())],
                ..named()
            },
            87,
        ),
    ];
    for (start, status) in cases {
        let text = format!("{start:?}");
        assert_eq!(rig.refused(Request::start(start)), status, "{text}");
        assert!(!rig.file("refused.etl").exists(), "{text}");
        rig.wait_until(|rig| {
            let start = SessionConfig {
                name: "refused".to_owned(),
                real_time: true,
                ..SessionConfig::default()
            };
            !rig.ask(Request::start(start)).is_error()
        });
        rig.stop("refused");
    }
}

/// Options that no configuration can state are refused when they arrive.
#[test]
fn messages_with_contradictory_options_are_refused() {
    let rig = Rig::new();
    let (channel, _) = crate::hostile_input::hello(&rig, etw_wire::message::Role::Controller);
    for options in [r#""clock":9"#, r#""mode":"circular""#, r#""mode":"append","max_size":9"#] {
        let file = rig.file("refused.etl");
        let request = format!(r#"{{"do":"start","name":"refused","file":{file:?},{options}}}"#);
        channel.send(request.as_bytes(), &[]).unwrap();
        let answer = channel.receive_within(LIMIT).unwrap();
        let answer: Response = serde_json::from_slice(&answer.bytes).unwrap();
        assert!(matches!(answer, Response::Error { status: 87, .. }), "{options}: {answer:?}");
    }
    let Response::Sessions { sessions } = rig.ask(Request::List) else { panic!() };
    assert!(sessions.is_empty(), "{sessions:?}");
}
