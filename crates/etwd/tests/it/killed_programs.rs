//! Programs and workers that are killed, stopped, or end unexpectedly.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use etw_session::{
    Cause, Compression, EnableInfo, EnableProperties, Enablement, LogMode, SessionConfig,
};
use etw_types::{SESSION_REPORTS, is_session_report};
use etw_wire::frames;
use etw_wire::live_stream::{Frame, Live, Progress};
use etw_wire::requests::{Request, Response, StartRequest, Update};

use crate::daemon::Daemon;
use crate::interrupted_requests::Mined;
use crate::rig::*;

/// P2, P3: everything that a killed program had committed is recorded once, and the ledger is exact except for the write in
/// flight.
#[test]
fn kill_9_of_programs_loses_nothing_committed() {
    let rig = Rig::new();
    let kills = std::env::var("ETW_KILLS").map_or(20, |kills| kills.parse().unwrap());
    let file = rig.start("killed");
    let mut seed = 7u64;
    let mut said = Vec::new();
    for _ in 0..kills {
        let mut program = rig.program("endless", &[seed % 3 * 40]);
        program.expect("ready");
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        std::thread::sleep(Duration::from_micros(500 + (seed >> 33) % 20_000));
        let id = program.id();
        said.push((id, program.kill()));
    }
    let status = rig.stop("killed");
    let by_thread = contiguous(&events(&file));
    for (id, said) in said {
        let seen = by_thread.get(&(id, 0)).copied().unwrap_or(0);
        assert!(seen >= said, "process {id} said {said}, {seen} were recorded");
    }
    assert_eq!(by_thread.values().sum::<u64>(), status.stored);
    // Writes in flight are counted as late: at most one for each program.
    let late: u64 = status
        .losses
        .iter()
        .filter(|loss| loss.cause == etw_session::Cause::Late)
        .map(|loss| loss.count)
        .sum();
    assert!(late <= kills, "{status:?}");
    assert_eq!(status.attempted, status.stored + status.lost);
}

/// A program that is stopped at any point delays nobody, and continues.
#[test]
fn a_stopped_program_delays_nobody() {
    let rig = Rig::new();
    let file = rig.start("stopped");
    let mut frozen: Vec<_> = (0..3).map(|_| rig.program("endless", &[0])).collect();
    for program in &mut frozen {
        program.expect("ready");
    }
    let signal = |program: &Program, signal| {
        // SAFETY: the arguments are numbers; the child has not been reaped.
        assert_eq!(unsafe { libc::kill(program.id() as libc::pid_t, signal) }, 0);
    };
    std::thread::sleep(Duration::from_millis(20));
    frozen.iter().for_each(|program| signal(program, libc::SIGSTOP));
    let other = rig.program("threads", &[1, 1000]);
    let id = other.id();
    other.end();
    // Both end although those programs are stopped.
    rig.done(etw_wire::requests::Request::Flush { session: "stopped".to_owned() });
    assert!(rig.query("stopped").stored > 1000);
    frozen.iter().for_each(|program| signal(program, libc::SIGCONT));
    std::thread::sleep(Duration::from_millis(20));
    for program in frozen {
        program.kill();
    }
    let status = rig.stop("stopped");
    let events = events(&file);
    assert_eq!(events.iter().filter(|event| event.process == id).count(), 1000);
    assert_eq!(events.len() as u64, status.stored);
}

/// P3, P8: the worker is killed again and again while programs write. Sessions continue, and each committed event is recorded
/// once. Nothing is left of the killed workers.
#[test]
fn kill_9_of_the_worker_neither_loses_nor_doubles_events() {
    let daemon = Daemon::new();
    let plain = daemon.start(
        "plain",
        SessionConfig {
            flush_timer: Some(Duration::from_millis(5)),
            buffer_count: 256,
            ..SessionConfig::default()
        },
    );
    // Space for the records that gather in the pools while there is no worker.
    let small = SessionConfig { buffer_size: 8192, buffer_count: 2048, ..SessionConfig::default() };
    let compressed =
        daemon.start("compressed", SessionConfig { compression: Compression::On, ..small.clone() });
    let sized = SessionConfig { mode: LogMode::NewFile { max_size: 256 << 10 }, ..small.clone() };
    daemon.start("series%d", sized);
    daemon.start("memory", SessionConfig { mode: LogMode::Buffering, buffer_count: 2048, ..small });
    let mut programs: Vec<_> = (0..3).map(|_| daemon.rig.program("endless", &[300])).collect();
    for program in &mut programs {
        program.expect("ready");
    }
    let kills = std::env::var("ETW_KILLS").map_or(12, |kills| kills.parse().unwrap());
    let mut seed = 5u64;
    for _ in 0..kills {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        std::thread::sleep(Duration::from_micros((seed >> 33) % 60_000));
        daemon.kill_worker();
    }
    // One more request to a worker that answers, so that the last kill is not at the end.
    daemon.ask(&Request::List);
    // Writes two events, and does not repeat those that a full session refuses: they are counted.
    let mut more = daemon.rig.program("wait", &[]);
    while more.line().is_some() {}
    let said: Vec<(u32, u64)> =
        programs.into_iter().map(|program| (program.id(), program.kill())).collect();
    let snapshot = daemon.rig.file("snapshot.etl");
    let request = Request::Snapshot { session: "memory".to_owned(), file: snapshot.clone() };
    assert!(matches!(daemon.ask(&request), Response::Done { .. }));
    // Asked afterwards: the snapshot drains, and may overwrite the oldest buffers.
    let query = daemon.ask(&Request::Query { session: "memory".to_owned() });
    let Response::Session(memory) = query else { panic!("{query:?}") };
    let check = |name: &str, files: Vec<std::path::PathBuf>| {
        let status = daemon.stop(name);
        let all = events_of(&files);
        assert_eq!(all.len() as u64, status.stored, "{status:?}");
        let (of_more, of_others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|event| event.process == more.id());
        let by_thread = contiguous(&of_others);
        for (id, said) in &said {
            let seen = by_thread.get(&(*id, 0)).copied().unwrap_or(0);
            assert!(
                seen >= *said,
                "{name}: process {id} said {said}, {seen} were recorded: {status:?}"
            );
        }
        assert!(of_more.is_sorted_by(|one, next| one.number < next.number));
        let losses = status.losses.iter().filter(|loss| loss.process_id == Some(more.id()));
        let refused: u64 = losses.map(|loss| loss.count).sum();
        assert_eq!(of_more.len() as u64 + refused, 2, "{name}: {of_more:?} {status:?}");
        assert_eq!(status.attempted, status.stored + status.lost, "{status:?}");
    };
    check("plain", vec![plain]);
    check("compressed", vec![compressed]);
    let status = daemon.stop("series%d");
    assert_eq!(status.attempted, status.stored + status.lost, "{status:?}");
    let numbered = |number: u32| daemon.rig.file(&format!("series{number}.etl"));
    let files: Vec<_> = (1..).map(numbered).take_while(|path| path.exists()).collect();
    assert!(files.len() > 1);
    let mut all = events_of(&files);
    assert_eq!(all.len() as u64, status.stored, "{status:?}");
    all.retain(|event| event.process != more.id());
    assert!(contiguous(&all).values().sum::<u64>() >= said.iter().map(|(_, said)| said).sum());
    // The last events of each program, from the first one that was not overwritten on a slow machine.
    let kept = events(&snapshot);
    for (id, said) in &said {
        let numbers: Vec<u64> =
            kept.iter().filter(|event| event.process == *id).map(|event| event.number).collect();
        let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
        assert_eq!(numbers, (first..=last).collect::<Vec<_>>());
        assert!(last + 1 >= *said && (first == 0 || memory.overwritten > 0), "{memory:?}");
    }
    daemon.stop("memory");
    // The keeper ends with its worker, and removes the socket.
    daemon.end();
}

/// OV-25: sessions that are defined in a file start with the daemon, once: after a kill, the next worker continues them. OV-1
#[test]
fn sessions_of_a_file_start_with_the_daemon() {
    let rig = Rig::without_host();
    let (file, sessions) = (rig.file("boot.etl"), rig.file("sessions.json"));
    let text = format!(
        r#"{{"sessions": [
            {{"name": "boot", "file": {:?}, "enable": [["{}", {{"wanted": {{"level": 4}}}}]]}},
            {{"name": "no such folder", "file": "/no/such/folder/x.etl"}}]}}"#,
        file,
        provider()
    );
    std::fs::write(&sessions, text).unwrap();
    let daemon = {
        let mut command = rig.command("keeper", &[]);
        command.env("ETW_TEST_SESSIONS", &sessions);
        let keeper = Program::start(&mut command);
        Daemon { rig, keeper }
    };
    daemon.rig.program("wait", &[]).end();
    // The next worker has the keeper's sessions, even if the file has become invalid.
    std::fs::write(&sessions, "{").unwrap();
    daemon.kill_worker();
    daemon.rig.program("wait", &[]).end();
    let Response::Sessions { sessions } = daemon.ask(&Request::List) else { panic!() };
    assert_eq!(sessions.iter().map(|status| &status.name[..]).collect::<Vec<_>>(), ["boot"]);
    let status = daemon.stop("boot");
    let events = events(&file);
    assert_eq!((status.stored, events.len()), (4, 4), "{events:?} {status:?}");
    // A session that was stopped does not start again, although there is no other one.
    daemon.kill_worker();
    let Response::Sessions { sessions } = daemon.ask(&Request::List) else { panic!() };
    assert!(sessions.is_empty(), "{sessions:?}");
}

/// OV-25: the file of sessions is read once. If the worker is killed while they start, the next worker starts the others.
#[test]
fn the_next_worker_starts_the_remaining_sessions_of_a_file() {
    let mined = Mined::with("session of the file started", |rig, command| {
        let pipe = rig.file("sessions.json");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        command.env("ETW_TEST_SESSIONS", &pipe);
    });
    mined.arm();
    let session = |name: &str| format!(r#"{{"name": "{name}", "buffering": true}}"#);
    let text = format!(r#"{{"sessions": [{}, {}]}}"#, session("first"), session("second"));
    // A second reader would wait for another writer for ever.
    std::fs::write(mined.daemon.rig.file("sessions.json"), text).unwrap();
    mined.daemon.rig.wait_until(|_| !mined.armed.exists());
    mined.daemon.rig.wait_until(|_| match mined.daemon.ask(&Request::List) {
        Response::Sessions { sessions } => sessions.len() == 2,
        other => panic!("{other:?}"),
    });
    mined.end();
}

/// A file of sessions with an unknown key anywhere is an error, and so is a file without an end. OV-25
#[test]
fn an_invalid_file_of_sessions_is_an_error() {
    let rig = Rig::without_host();
    let file = rig.file("sessions.json");
    let begin = |path: &std::path::Path| {
        let mut command = rig.command("keeper", &[]);
        let said = command.env("ETW_TEST_SESSIONS", path).output().unwrap();
        assert!(!said.status.success(), "{said:?}");
        String::from_utf8_lossy(&said.stderr).into_owned()
    };
    let enable = |info: &str| format!(r#""enable": [["{}", {info}]]"#, provider());
    let wrong = [
        (r#""max-size": 5"#.to_owned(), "max-size"),
        (enable(r#"{"wantd": {}}"#), "wantd"),
        (enable(r#"{"wanted": {"levle": 4}}"#), "levle"),
        (enable(r#"{"filters": {"process_idz": [1]}}"#), "process_idz"),
        (enable(r#"{"filters": {"stacks": {"level": 1}}}"#), "level"),
    ];
    for (text, name) in wrong {
        std::fs::write(&file, format!(r#"{{"sessions": [{{"name": "x", {text}}}]}}"#)).unwrap();
        let said = begin(&file);
        assert!(said.contains(&format!("unknown field `{name}`")), "{text}: {said}");
    }
    assert!(begin("/dev/zero".as_ref()).contains("larger than a file of sessions"));
}

/// Numbers of the tests' events that a consumer receives, and the number of events that it is notified to have lost.
struct Reader {
    live: Live,
    progress: Progress,
    numbers: Vec<u64>,
    missing: u64,
    starts: u32,
    times: Vec<i64>,
    /// Number of events so far, for the thread that kills.
    came: Arc<AtomicU64>,
}

impl Reader {
    fn of(live: Live) -> Reader {
        let (numbers, times) = (Vec::new(), Vec::new());
        let (progress, came) = (Progress::default(), Arc::default());
        Reader { live, progress, numbers, missing: 0, starts: 0, times, came }
    }

    /// Reads up to the session's end.
    fn read(mut self) -> Reader {
        let context = etw_etl::record::RecordContext::default();
        loop {
            let Frame { kind, bytes } =
                self.live.next().unwrap().expect("the session ends before its host");
            let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            match kind {
                frames::START => self.starts += 1,
                frames::POSITION => self.progress.position(&bytes),
                frames::BUFFER => {
                    let (header, records) =
                        etw_etl::read::buffer::open(&bytes, bytes.len() as u32).unwrap();
                    let events: Vec<_> =
                        etw_etl::read::BufferRecords::new(&records, &context).collect();
                    let is_report = |item: &&etw_etl::read::Item<'_>| match item {
                        etw_etl::read::Item::Record { record, .. } => is_session_report(record),
                        _ => false,
                    };
                    let count = events.iter().filter(|item| !is_report(item)).count() as u64;
                    let Some(missing) = self.progress.buffer(header.sequence_number, count) else {
                        continue;
                    };
                    self.missing += missing;
                    for event in &events {
                        let etw_etl::read::Item::Record { record, .. } = event else { panic!() };
                        if record.provider == Some(provider()) {
                            let number = record.payload[8..16].try_into().unwrap();
                            self.numbers.push(u64::from_le_bytes(number));
                            self.times.push(record.raw_timestamp().unwrap());
                            self.came.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
                frames::LOST => {
                    self.progress.lost(number(8));
                    self.missing += number(8);
                }
                frames::WATERMARK => self.missing += self.progress.missing(),
                frames::END => return self,
                _ => {}
            }
        }
    }
}

/// P3: a consumer of a real-time session continues with the next worker. It receives each event once, and the exact number of
/// events that a killed worker took with it, as the session's status states it. The reader of a leased session is its owner,
/// and reconnects. OV-1
#[test]
fn real_time_readers_continue_after_kill_9_of_the_worker() {
    assert_eq!(SESSION_REPORTS, etw_host::report::LEDGER_PROVIDER);
    for (leased, stacks) in [(false, false), (true, false), (false, true)] {
        let daemon = Daemon::new();
        let properties = match stacks {
            true => EnableProperties::STACK_TRACE,
            false => EnableProperties::default(),
        };
        let info = EnableInfo { properties, ..all() };
        let start = SessionConfig {
            name: "live".to_owned(),
            real_time: true,
            buffer_size: 4096,
            buffer_count: 512,
            flush_timer: Some(Duration::from_millis(2)),
            per_processor: false,
            enable: vec![Enablement::new(provider(), info)],
            ..SessionConfig::default()
        };
        let directory = daemon.rig.runtime();
        daemon.rig.wait_until(|_| etw_wire::host_client::Client::connect(&directory).is_ok());
        let owner = etw_wire::host_client::Client::connect(&directory).unwrap();
        owner.ask(&Request::start(StartRequest { config: start, leased })).unwrap();
        let live = Live::open(owner, &directory, "live").unwrap();
        let reader = Reader::of(live);
        let came = reader.came.clone();
        let reading = std::thread::spawn(move || reader.read());
        let mut program = daemon.rig.program("endless", &[100]);
        program.expect("ready");
        let kills = std::env::var("ETW_KILLS").map_or(8, |kills| kills.parse().unwrap());
        let mut seed = 11u64;
        for _ in 0..kills {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // Each worker delivers something, however busy the machine is.
            let before = came.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(20 + (seed >> 33) % 100));
            daemon.rig.wait_until(|_| came.load(Ordering::Relaxed) > before);
            daemon.kill_worker();
        }
        std::thread::sleep(Duration::from_millis(100));
        let id = program.id();
        let said = program.kill();
        daemon.rig.wait_until(|_| {
            let Response::Providers { providers } = daemon.ask(&Request::Providers) else {
                panic!()
            };
            providers.iter().all(|provider| !provider.pids.contains(&id))
        });
        let status = daemon.stop("live");
        let reader = reading.join().unwrap();
        assert!(reader.starts > 1, "{} starts", reader.starts);
        assert!(reader.numbers.is_sorted_by(|a, b| a < b), "an event came twice");
        assert!(reader.times.is_sorted());
        let came = reader.numbers.len() as u64;
        eprintln!("{came} events came, {} went with {kills} workers", reader.missing);
        assert_eq!(came + reader.missing, status.stored, "missing {}: {status:?}", reader.missing);
        assert!(status.stored + status.lost >= said, "{said}: {status:?}");
        assert!(came > kills, "{came} of {status:?}");
        daemon.end();
    }
}

/// P3, P8: the worker is killed at each step of a change of the file, with buffers on their way to the file before. Each event
/// is in one of the two files, once, and both are complete.
#[test]
fn kill_9_during_a_change_of_the_file_loses_nothing() {
    // Room for seconds in which the machine is busy with other tests: what is lost then is no loss by the kill.
    let small = SessionConfig { buffer_size: 4096, buffer_count: 2048, ..SessionConfig::default() };
    let plain = SessionConfig { flush_timer: Some(Duration::from_millis(2)), ..small.clone() };
    let compressed = SessionConfig { compression: Compression::On, ..plain.clone() };
    let sized =
        SessionConfig { mode: LogMode::Sequential { max_size: Some(16 << 20) }, ..plain.clone() };
    let auto = SessionConfig { compression: Compression::Auto, ..plain.clone() };
    for (number, start) in [plain, compressed, sized, auto].into_iter().enumerate() {
        for point in ["file made", "file kept", "file begun", "file ended", "file answered"] {
            let is_undisturbed = (0..5).any(|_| !stops_a_write(number, &start, point));
            assert!(is_undisturbed, "{point}, {number}: stopped in a write, five times");
        }
    }
}

/// One change of the file with a kill at `point`. Returns whether the machine stopped the program inside of a write for longer than
/// hosts wait: that event is lost and counted, with or without a kill.
fn stops_a_write(number: usize, start: &SessionConfig, point: &str) -> bool {
    let rig = Rig::without_host();
    let armed = rig.file("armed");
    let mut command = rig.command("keeper", &[]);
    command.env("ETWD_FAULT", format!("{point}:{}", armed.display()));
    let daemon = Daemon { keeper: Program::start(&mut command), rig };
    let first = daemon.start("changed", start.clone());
    let mut program = daemon.rig.program("endless", &[200]);
    program.expect("ready");
    std::thread::sleep(Duration::from_millis(40));
    std::fs::write(&armed, "").unwrap();
    let second = daemon.rig.file("second.etl");
    let update = Update { file: Some(second.clone()), ..Update::default() };
    let request = Request::Update { session: "changed".to_owned(), update };
    match daemon.ask(&request) {
        // The change was complete when the worker was killed.
        Response::Done { .. } | Response::Error { status: 161, .. } => {}
        other => panic!("{point}: {other:?}"),
    }
    if point == "file answered" {
        daemon.rig.wait_until(|_| !armed.exists());
    }
    assert!(!armed.exists(), "{point} was not reached");
    daemon.ask(&Request::List);
    std::thread::sleep(Duration::from_millis(40));
    let said = program.kill();
    let status = daemon.stop("changed");
    if status.lost > 0 && status.losses.iter().all(|loss| loss.cause == Cause::Late) {
        daemon.end();
        return true;
    }
    assert_eq!(status.lost, 0, "{point}, {number}: {status:?}");
    let (before, after) = (events(&first), events(&second));
    let all = [&before[..], &after[..]].concat();
    let what = format!("{point}, {number}: {} and {}", before.len(), after.len());
    assert!(!before.is_empty() && !after.is_empty(), "{what}");
    let count = contiguous(&all).values().sum::<u64>();
    assert!(count >= said && count == status.stored, "{what}, {said}: {status:?}");
    assert_eq!(status.attempted, status.stored);
    daemon.end();
    false
}

/// P2, P10: the ledger of a circular file counts the events that the file holds, after kills of the worker too.
#[test]
fn a_circular_file_holds_what_its_ledger_says_after_kills() {
    let daemon = Daemon::new();
    let mode = LogMode::Circular { max_size: 64 << 10 };
    let config = SessionConfig { buffer_size: 8192, mode, ..SessionConfig::default() };
    let file = daemon.start("circle", config);
    for _ in 0..3 {
        daemon.rig.program("count", &[2000, 0]).end();
        daemon.kill_worker();
    }
    daemon.rig.program("count", &[2000, 0]).end();
    let status = daemon.stop("circle");
    assert_eq!((status.attempted, status.lost), (8000, 0), "{status:?}");
    assert_eq!(status.stored + status.overwritten, 8000, "{status:?}");
    assert_eq!(events(&file).len() as u64, status.stored, "{status:?}");
}

/// P2, P10: the same of a session that was given another circular file.
#[test]
fn a_changed_circular_file_holds_what_its_ledger_says_after_kills() {
    let daemon = Daemon::new();
    let mode = LogMode::Circular { max_size: 64 << 10 };
    let config = SessionConfig { buffer_size: 8192, mode, ..SessionConfig::default() };
    let mut files = vec![daemon.start("circle", config)];
    for number in 0..3 {
        daemon.rig.program("count", &[1500, 0]).end();
        daemon.kill_worker();
        daemon.rig.program("count", &[1500, 0]).end();
        let file = daemon.rig.file(&format!("next{number}.etl"));
        let update = Update { file: Some(file.clone()), ..Update::default() };
        let changed = daemon.ask(&Request::Update { session: "circle".to_owned(), update });
        assert!(matches!(changed, Response::Done { .. }), "{changed:?}");
        files.push(file);
    }
    daemon.rig.program("count", &[1500, 0]).end();
    daemon.kill_worker();
    daemon.rig.program("count", &[1500, 0]).end();
    let status = daemon.stop("circle");
    assert_eq!((status.attempted, status.lost), (12_000, 0), "{status:?}");
    assert_eq!(status.stored + status.overwritten, 12_000, "{status:?}");
    let held: Vec<usize> = files.iter().map(|file| events(file).len()).collect();
    assert_eq!(held.iter().sum::<usize>() as u64, status.stored, "{held:?} {status:?}");
}

/// P2, P10: events in removed files of a series are overwritten, after kills of the worker too.
#[test]
fn removed_files_of_a_series_are_overwritten() {
    let daemon = Daemon::new();
    let mode = LogMode::NewFile { max_size: 64 << 10 };
    let config = SessionConfig { buffer_size: 8192, mode, ..SessionConfig::default() };
    daemon.start("series%d", config);
    let path = |number: u32| daemon.rig.file(&format!("series{number}.etl"));
    let exist = || (1..100).map(path).filter(|path| path.exists()).collect::<Vec<_>>();
    let query = || match daemon.ask(&Request::Query { session: "series%d".to_owned() }) {
        Response::Session(status) => *status,
        other => panic!("{other:?}"),
    };
    daemon.rig.program("count", &[4000, 0]).end();
    daemon.rig.wait_until(|_| exist().len() > 4);
    let written = query();
    assert_eq!((written.stored, written.overwritten), (4000, 0), "{written:?}");
    std::fs::remove_file(path(1)).unwrap();
    let first = query();
    assert!(first.overwritten > 100 && first.stored + first.overwritten == 4000, "{first:?}");
    daemon.kill_worker();
    std::fs::remove_file(path(2)).unwrap();
    daemon.rig.program("count", &[1000, 0]).end();
    let status = daemon.stop("series%d");
    assert!(status.overwritten > first.overwritten, "{status:?}");
    assert_eq!((status.stored + status.overwritten, status.lost), (5000, 0), "{status:?}");
    assert_eq!(events_of(&exist()).len() as u64, status.stored, "{status:?}");
}
