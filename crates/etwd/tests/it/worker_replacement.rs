//! A worker that replaces a killed one restores its sessions.

use std::path::{Path, PathBuf};
use std::time::Duration;

use etw_etl::read::{Records, TraceFile};
use etw_session::{
    Compression, EnableInfo, EnableProperties, Enablement, LogMode, SessionClock, SessionConfig,
};
use etw_wire::host_client::{Client, ClientError};
use etw_wire::requests::{Request, Response};

use crate::daemon::Daemon;
use crate::interrupted_requests::Mined;
use crate::rig::*;

/// P2, P3: a session whose file cannot be opened any more ends with its worker. Its programs are notified, and a later session
/// with its number has none of its losses.
#[test]
fn a_session_that_cannot_be_restored_leaves_nothing() {
    const EVENTS: u64 = 20_000;
    let daemon = Daemon::new();
    let folder = daemon.rig.file("folder");
    std::fs::create_dir(&folder).unwrap();
    let mut listening = daemon.rig.program("listen", &[]);
    listening.expect("ready");
    let start = SessionConfig {
        name: "without".to_owned(),
        file: Some(folder.join("without.etl")),
        mode: LogMode::Sequential { max_size: Some(128 << 10) },
        buffer_size: 8192,
        enable: vec![Enablement::new(provider(), all())],
        ..SessionConfig::default()
    };
    let answer = daemon.ask(&Request::start(start));
    assert!(matches!(answer, Response::Session(_)), "{answer:?}");
    listening.expect("Enable 255 0xffffffffffffffff 0x0");
    let mut there = daemon.rig.program("linger", &[EVENTS]);
    there.expect("written");
    std::fs::remove_dir_all(&folder).unwrap();
    daemon.kill_worker();
    let Response::Sessions { sessions } = daemon.ask(&Request::List) else { panic!() };
    assert!(sessions.is_empty(), "{sessions:?}");
    // P11: controllers find out why.
    let directory = etw_wire::runtime_directory::Directory::open(&daemon.rig.runtime()).unwrap();
    let failures = directory.failures();
    let is_said = |one: &String| one.starts_with("session without has ended: its host's worker");
    assert!(failures.len() == 1 && failures.iter().all(is_said), "{failures:?}");
    listening.expect("Disable 0 0x0 0x0");
    daemon.start("next", SessionConfig::default());
    let status = daemon.stop("next");
    assert_eq!((status.id, status.attempted, status.lost), (1, 0, 0), "{status:?}");
    // A later worker does not look for it.
    std::fs::create_dir(&folder).unwrap();
    daemon.kill_worker();
    let Response::Sessions { sessions } = daemon.ask(&Request::List) else { panic!() };
    assert!(sessions.is_empty(), "{sessions:?}");
    listening.kill();
    there.kill();
    daemon.end();
}

/// P3: a preallocated file ends behind its last event.
#[test]
fn a_preallocated_file_ends_behind_its_last_event() {
    let max_size = 2 << 20;
    for mode in [LogMode::Sequential { max_size: Some(max_size) }, LogMode::Circular { max_size }] {
        let daemon = Daemon::new();
        let start = SessionConfig {
            mode,
            buffer_size: 8192,
            preallocate: true,
            ..SessionConfig::default()
        };
        daemon.start("ahead%d", start);
        daemon.rig.program("count", &[500, 0]).end();
        daemon.kill_worker();
        daemon.rig.program("count", &[500, 0]).end();
        let status = daemon.stop("ahead%d");
        assert_eq!((status.stored, status.lost), (1000, 0), "{status:?}");
        let file = daemon.rig.file("ahead1.etl");
        assert_eq!(events(&file).len(), 1000);
        let size = std::fs::metadata(&file).unwrap().len();
        let header = TraceFile::open(&file).unwrap().header().unwrap().clone();
        assert_eq!(size, u64::from(header.buffers_written) * 8192, "{header:?}");
        assert!(size < 512 << 10, "{size}");
        daemon.end();
    }
}

/// P3: a session that appends continues behind the earlier contents of its file, even if its worker is killed before its first
/// batch.
#[test]
fn earlier_contents_of_a_file_stay() {
    let mined = Mined::new("session kept");
    let file = mined.daemon.rig.file("appended.etl");
    let start = || {
        let start = SessionConfig {
            name: "appended".to_owned(),
            file: Some(file.clone()),
            mode: LogMode::Append,
            clock: SessionClock::System,
            enable: vec![Enablement::new(provider(), all())],
            ..SessionConfig::default()
        };
        Request::start(start)
    };
    {
        // Another daemon's file: this daemon starts with the other session.
        let other = Daemon::new();
        assert!(matches!(other.ask(&start()), Response::Session(_)));
        other.rig.program("count", &[700, 0]).end();
        other.stop("appended");
        other.end();
    }
    assert_eq!(events(&file).len(), 700);
    match mined.ask(&start()) {
        Response::Error { status: 183, .. } => {}
        other => panic!("{other:?}"),
    }
    mined.daemon.rig.program("count", &[50, 0]).end();
    assert_eq!(mined.daemon.stop("appended").stored, 50);
    assert_eq!(events(&file).len(), 750);
    mined.end();
}

/// P2: the session's own reports are in no count, with the next worker neither.
#[cfg(target_arch = "x86_64")]
#[test]
fn reports_are_in_no_count_of_the_next_worker() {
    let daemon = Daemon::new();
    let info = EnableInfo { properties: EnableProperties::STACK_TRACE, ..all() };
    let start = SessionConfig {
        mode: LogMode::Buffering,
        buffer_size: 16 << 10,
        buffer_count: 16,
        enable: vec![Enablement::new(provider(), info)],
        ..SessionConfig::default()
    };
    daemon.start("memory", start);
    daemon.rig.program("count", &[20, 0]).end();
    daemon.kill_worker();
    // All events are overwritten.
    daemon.rig.program("count", &[20_000, 10]).end();
    let file = daemon.rig.file("snapshot.etl");
    let request = Request::Snapshot { session: "memory".to_owned(), file: file.clone() };
    assert!(matches!(daemon.ask(&request), Response::Done { .. }));
    // Asked before the end: the last report may overwrite a buffer.
    let query = daemon.ask(&Request::Query { session: "memory".to_owned() });
    let Response::Session(held) = query else { panic!("{query:?}") };
    let status = daemon.stop("memory");
    assert_eq!(status.attempted, 20_020, "{status:?}");
    assert_eq!(status.attempted, status.stored + status.overwritten + status.lost, "{status:?}");
    assert_eq!(events(&file).len() as u64, held.stored, "{held:?}");
    daemon.end();
}

/// How often a trace contains the session's report.
fn told(paths: &[PathBuf]) -> usize {
    let open = |path: &PathBuf| TraceFile::open(path).unwrap();
    let mut records = Records::new(paths.iter().map(open).collect());
    let mut reports = 0;
    while let Some(record) = records.next() {
        let is_report = etw_types::is_session_report(&record);
        reports += usize::from(is_report && etw_host::report::read_loss(&record).is_none());
    }
    reports
}

fn numbered(folder: &Path) -> Vec<PathBuf> {
    let name = |number: u32| folder.join(format!("told{number}.etl"));
    (1..).map(name).take_while(|path| path.exists()).collect()
}

/// P2: the report of a session is in its trace once, whenever the worker is killed.
#[test]
fn a_session_is_reported_once() {
    let small = SessionConfig { buffer_size: 8192, ..SessionConfig::default() };
    let max_size = 128 << 10;
    let round = SessionConfig { mode: LogMode::Circular { max_size }, ..small.clone() };
    let series = SessionConfig { mode: LogMode::NewFile { max_size }, ..small.clone() };
    let append =
        SessionConfig { mode: LogMode::Append, clock: SessionClock::System, ..small.clone() };
    let compressed = SessionConfig { compression: Compression::On, ..small.clone() };
    let auto = SessionConfig { compression: Compression::Auto, ..small.clone() };
    for start in [small, round, series, append, compressed, auto] {
        for point in ["end reported", "end given", "end stored", "end written"] {
            let mined = Mined::new(point);
            mined.daemon.start("told%d", start.clone());
            mined.daemon.rig.program("count", &[5000, 0]).end();
            mined.ask(&Request::Stop { session: "told%d".to_owned() });
            let files = numbered(&mined.daemon.rig.directory);
            let what = format!("{point} {:?} {}", start.mode, start.compression);
            let last = files.last().unwrap();
            mined.daemon.rig.wait_until(|_| TraceFile::open(last).unwrap().is_finalised());
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(told(&files), 1, "{what}");
            mined.end();
        }
    }
}

/// P3: a daemon that was asked to end ends, although its worker is killed before.
#[test]
fn a_daemon_that_ends_is_not_restarted() {
    for point in ["shutdown kept", "end kept", "losses final"] {
        let mined = Mined::new(point);
        let files: Vec<_> = (0..3)
            .map(|n| mined.daemon.start(&format!("ends{n}"), SessionConfig::default()))
            .collect();
        mined.daemon.rig.program("count", &[100, 0]).end();
        mined.arm();
        let answer = mined.daemon.ask(&Request::Shutdown);
        assert!(matches!(answer, Response::Done { .. }), "{answer:?}");
        let Mined { daemon: Daemon { rig, keeper }, armed } = mined;
        keeper.end();
        assert!(!armed.exists(), "{point} was not reached");
        for file in files {
            assert_eq!(events(&file).len(), 100, "{point}");
        }
        assert!(!rig.runtime().join("socket").exists());
    }
}

/// A program that speaks the protocol itself: it has registered the provider and sent its pool.
struct ProgramWithPool {
    channel: etw_wire::Channel,
    pool: std::os::fd::OwnedFd,
    _writer: etw_ring::Writer,
}

impl ProgramWithPool {
    fn connect(daemon: &Daemon) -> ProgramWithPool {
        use etw_wire::message::{FromProgram, Role};
        use std::os::fd::AsFd;
        let (channel, mut given) = crate::hostile_input::hello(&daemon.rig, Role::Program);
        let register = FromProgram::Register { number: 1, id: provider(), traits: b"" };
        channel.send(&register.to_bytes(), &[]).unwrap();
        channel.receive().unwrap();
        let options = etw_ring::PoolOptions { chunk_size: 256 << 10, prefault: 0 };
        let mut memory = etw_ring::Memory::shared(options.memory_size()).unwrap();
        let pool = memory.take_fd().unwrap();
        let control = etw_ring::Memory::map(given.remove(0), 0, etw_ring::Control::SIZE, false);
        let control = std::sync::Arc::new(control.unwrap());
        let writer = etw_ring::Writer::new(memory, control, options, 3).unwrap();
        channel.send(&FromProgram::Pool.to_bytes(), &[pool.as_fd()]).unwrap();
        ProgramWithPool { channel, pool, _writer: writer }
    }
}

/// P4: the next worker disconnects a program whose pool is invalid, and keeps nothing of it: a later program with its number is
/// recorded.
#[test]
fn a_program_that_cannot_be_restored_is_disconnected() {
    use std::os::unix::fs::FileExt;
    let daemon = Daemon::new();
    let file = daemon.start("honest", SessionConfig::default());
    let honest = ProgramWithPool::connect(&daemon);
    let channel = &honest.channel;
    // It is accepted: the session's enablement arrives.
    channel.receive().unwrap();
    std::fs::File::from(honest.pool).write_all_at(&[0; 16], 0).unwrap();
    daemon.kill_worker();
    assert!(crate::hostile_input::is_out(channel));
    let mut program = daemon.rig.program("endless", &[60]);
    program.expect("ready");
    daemon.rig.wait_until(|_| {
        let query = daemon.ask(&Request::Query { session: "honest".to_owned() });
        matches!(query, Response::Session(status) if status.stored > 100)
    });
    daemon.kill_worker();
    std::thread::sleep(Duration::from_millis(40));
    daemon.ask(&Request::List);
    let said = program.kill();
    let status = daemon.stop("honest");
    let count: u64 = contiguous(&events(&file)).values().sum();
    assert!(count >= said && count == status.stored, "{count} of {said}: {status:?}");
    daemon.end();
}

/// P3: a pool that was on its way to a killed worker is attached by the next one, even if it arrives twice, and another one is
/// not.
#[test]
fn a_pool_on_its_way_is_attached_once() {
    use etw_wire::message::{FromHost, FromProgram, Role};
    use std::os::fd::AsFd;
    let options = etw_ring::PoolOptions { chunk_size: 256 << 10, prefault: 0 };
    for again in [true, false] {
        let daemon = Daemon::new();
        daemon.start("wants", SessionConfig::default());
        let (channel, mut given) = crate::hostile_input::hello(&daemon.rig, Role::Program);
        let register = FromProgram::Register { number: 1, id: provider(), traits: b"" }.to_bytes();
        channel.send(&register, &[]).unwrap();
        assert_eq!(FromHost::read(&channel.receive().unwrap().bytes), Some(FromHost::NeedPool));
        daemon.kill_worker();
        let control = etw_ring::Memory::map(given.remove(0), 0, etw_ring::Control::SIZE, false);
        let control = std::sync::Arc::new(control.unwrap());
        let make = || {
            let mut memory = etw_ring::Memory::shared(options.memory_size()).unwrap();
            let fd = memory.take_fd().unwrap();
            (etw_ring::Writer::new(memory, control.clone(), options, 3).unwrap(), fd)
        };
        let (first, other) = (make(), make());
        let offer = |fd: &std::os::fd::OwnedFd| {
            channel.send(&FromProgram::Pool.to_bytes(), &[fd.as_fd()]).unwrap();
        };
        offer(&first.1);
        channel.send(&register, &[]).unwrap();
        offer(if again { &first.1 } else { &other.1 });
        if !again {
            assert!(crate::hostile_input::is_out(&channel));
        } else {
            // When this second registration has its answer, the earlier messages have been processed.
            let id = etw::Guid::from_u128(7);
            let register = FromProgram::Register { number: 2, id, traits: b"" };
            channel.send(&register.to_bytes(), &[]).unwrap();
            let mut has_set = false;
            loop {
                let said = channel.receive_within(LIMIT).unwrap();
                match FromHost::read(&said.bytes).expect("the connection has ended") {
                    FromHost::Set { number: 1, .. } => has_set = true,
                    FromHost::Registered { number: 2 } => break,
                    _ => {}
                }
            }
            assert!(has_set);
        }
        daemon.end();
    }
}

/// P3: a pool grows whenever the worker is killed, and its records are kept.
#[test]
fn a_pool_grows_once() {
    for point in ["pool heard", "pool asked", "growth asked", "segment kept"] {
        let mined = Mined::new(point);
        let file = mined.daemon.start("grows", SessionConfig::default());
        let is_growth = point.starts_with("growth") || point.starts_with("segment");
        if !is_growth {
            mined.arm();
        }
        let mut program = mined.daemon.rig.program("endless", &[0]);
        program.expect("ready");
        if is_growth {
            mined.arm();
        }
        for _ in 0..100 {
            if !mined.armed.exists() {
                break;
            }
            // Nobody drains for a while.
            let worker = mined.daemon.worker().unwrap() as libc::pid_t;
            // SAFETY: numbers; a process of this test.
            unsafe { libc::kill(worker, libc::SIGSTOP) };
            std::thread::sleep(Duration::from_millis(100));
            // SAFETY: a signal to the daemon's worker, a child of this test's daemon.
            unsafe { libc::kill(worker, libc::SIGCONT) };
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!mined.armed.exists(), "{point} was not reached");
        mined.daemon.ask(&Request::List);
        // Once more: the two sides of a pool that has grown differently would differ now.
        for _ in 0..3 {
            let worker = mined.daemon.worker().unwrap() as libc::pid_t;
            // SAFETY: a signal to the daemon's worker, a child of this test's daemon.
            unsafe { libc::kill(worker, libc::SIGSTOP) };
            std::thread::sleep(Duration::from_millis(100));
            // SAFETY: a signal to the daemon's worker, a child of this test's daemon.
            unsafe { libc::kill(worker, libc::SIGCONT) };
            std::thread::sleep(Duration::from_millis(50));
        }
        let said = program.kill();
        let status = mined.daemon.stop("grows");
        let count: u64 = contiguous(&events(&file)).values().sum();
        assert!(count >= said && count == status.stored, "{point}: {count} of {said}: {status:?}");
        mined.end();
    }
}

/// P3: a program's answer to a killed worker is not an answer to the next one.
#[test]
fn an_answer_to_a_killed_worker_has_no_effect() {
    use etw_wire::message::{FromHost, FromProgram};
    let daemon = Daemon::new();
    daemon.start("asks", SessionConfig::default());
    let program = ProgramWithPool::connect(&daemon);
    let channel = &program.channel;
    let set = || loop {
        let said = channel.receive_within(LIMIT).unwrap();
        match FromHost::read(&said.bytes) {
            Some(FromHost::Set { token, .. }) => return token,
            Some(_) => {}
            None => panic!("the connection has ended"),
        }
    };
    let first = set();
    daemon.kill_worker();
    let answer = std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            daemon.ask(&Request::Enable {
                session: "asks".to_owned(),
                provider: provider().into(),
                info: all(),
                timeout_ms: 1500,
            })
        });
        let second = set();
        assert_ne!(first, second);
        channel.send(&FromProgram::Done { token: first, status: 0 }.to_bytes(), &[]).unwrap();
        asked.join().unwrap()
    });
    let Response::Done { warnings } = answer else { panic!("{answer:?}") };
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    daemon.end();
}

/// P2, P3: a worker that is killed while it takes over is replaced like any other.
#[test]
fn a_worker_that_is_killed_while_it_takes_over_is_replaced() {
    for point in ["session taken up", "session kept again", "programs taken up"] {
        let mined = Mined::new(point);
        let daemon = &mined.daemon;
        let small =
            SessionConfig { buffer_size: 8192, buffer_count: 1024, ..SessionConfig::default() };
        let timed = SessionConfig { flush_timer: Some(Duration::from_millis(2)), ..small.clone() };
        let plain = daemon.start("plain", timed.clone());
        let compressed = daemon
            .start("compressed", SessionConfig { compression: Compression::On, ..timed.clone() });
        let sized = SessionConfig { mode: LogMode::NewFile { max_size: 128 << 10 }, ..timed };
        daemon.start("told%d", sized);
        daemon.start(
            "memory",
            SessionConfig { mode: LogMode::Buffering, buffer_count: 8192, ..small },
        );
        let mut program = daemon.rig.program("endless", &[60]);
        program.expect("ready");
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(30));
            mined.arm();
            daemon.kill_worker();
            daemon.rig.wait_until(|_| !mined.armed.exists());
        }
        daemon.ask(&Request::List);
        std::thread::sleep(Duration::from_millis(30));
        let said = program.kill();
        let snapshot = daemon.rig.file("snapshot.etl");
        let request = Request::Snapshot { session: "memory".to_owned(), file: snapshot.clone() };
        assert!(matches!(daemon.ask(&request), Response::Done { .. }));
        for name in ["plain", "compressed", "told%d", "memory"] {
            let status = daemon.stop(name);
            let files = match name {
                "plain" => vec![plain.clone()],
                "compressed" => vec![compressed.clone()],
                "memory" => vec![snapshot.clone()],
                _ => numbered(&daemon.rig.directory),
            };
            if status.overwritten > 0 {
                // On a busy machine the program writes for so long that its first events are not in memory any more.
                assert_eq!(name, "memory");
                let events = events_of(&files);
                let is_next = |two: &[Counted]| two[1].number == two[0].number + 1;
                assert!(events.windows(2).all(is_next), "{point}: {status:?}");
                continue;
            }
            let events = events_of(&files);
            // A machine that is busy enough stores slower than the program writes: what a session had no room for, all lost, and told.
            let count = match status.lost {
                0 => contiguous(&events).values().sum(),
                _ => events.len() as u64,
            };
            let told = count + status.lost;
            assert!(told >= said, "{point}, {name}: {told} of {said}: {status:?}");
            assert_eq!(count, status.stored, "{point}, {name}: {status:?}");
            assert_eq!(status.attempted, status.stored + status.lost, "{point}: {status:?}");
        }
        mined.end();
    }
}

/// P3: if a thread of the worker panics, the worker ends, and the next one takes over.
#[test]
fn a_worker_that_panics_is_replaced() {
    let mined = Mined::new("enablement kept");
    let file = mined.daemon.start("panics", SessionConfig::default());
    let mut program = mined.daemon.rig.program("endless", &[60]);
    program.expect("ready");
    std::fs::write(&mined.armed, "panic").unwrap();
    let provider = etw::Guid::from_u128(1);
    let disable = Request::Disable { session: "panics".to_owned(), provider: provider.into() };
    let client = Client::connect(&mined.daemon.rig.runtime()).unwrap();
    assert!(matches!(client.ask(&disable), Err(ClientError::Io(_))));
    assert!(!mined.armed.exists(), "it was not reached");
    mined.daemon.ask(&Request::List);
    std::thread::sleep(Duration::from_millis(40));
    let said = program.kill();
    let status = mined.daemon.stop("panics");
    let count: u64 = contiguous(&events(&file)).values().sum();
    assert!(count >= said && count > 100, "{count}, {said}");
    assert_eq!(count, status.stored);
    mined.end();
}

/// P3: the keeper replaces workers that are killed before they serve, however many they are.
#[test]
fn workers_that_are_killed_before_they_serve_are_replaced() {
    let daemon = Daemon::new();
    let file = daemon.start("early", SessionConfig::default());
    for _ in 0..50 {
        daemon.kill_worker();
    }
    daemon.rig.program("count", &[100, 0]).end();
    assert_eq!(daemon.stop("early").stored, 100);
    assert_eq!(events(&file).len(), 100);
    daemon.end();
}

/// P3: the keeper ends if its workers crash, one after the other, before they serve.
#[test]
fn workers_that_crash_before_they_serve_end_the_daemon() {
    let mined = Mined::new("session taken up");
    mined.daemon.start("crashes", SessionConfig::default());
    std::fs::write(&mined.armed, "panic always").unwrap();
    mined.daemon.kill_worker();
    let Mined { daemon: Daemon { rig: _rig, mut keeper }, armed } = mined;
    while keeper.line().is_some() {}
    let ended = keeper.child.wait().unwrap();
    assert!(!ended.success() && armed.exists(), "{ended}");
}
