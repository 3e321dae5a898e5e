//! Namespaces, clocks, limits, full disks and crowds.

use etw_session::{Cause, Compression, Enablement, LogMode, SessionClock, SessionConfig};
use std::time::Duration;

use etw_wire::requests::{Request, Response};

use crate::daemon::Daemon;
use crate::rig::*;

/// P7: a program in other user, mount, PID and time namespaces is recorded like any other: under the process and thread ids
/// that the host sees, at the host's times, whatever its own clock shows.
#[test]
fn a_program_in_other_namespaces_is_recorded() {
    for offset in [0, 100_000] {
        let rig = Rig::new();
        let file = rig.start("elsewhere");
        let mut program = rig.program("elsewhere", &[500, offset]);
        let said = program.line().unwrap();
        program.end();
        if said == "forbidden" {
            return eprintln!("skipped: this system forbids namespaces to this user");
        }
        // Written later, and so read later.
        let other = rig.program("count", &[1, 0]);
        let other_id = other.id();
        other.end();
        let status = rig.stop("elsewhere");
        assert_eq!((status.stored, status.lost), (501, 0), "{status:?}");
        let all = events(&file);
        let process = said.parse().unwrap();
        let ids: Vec<u32> = all.iter().map(|event| event.process).collect();
        assert_eq!(ids, [vec![process; 500], vec![other_id]].concat());
        assert_eq!(contiguous(&all)[&(process, 0)], 500);
        let mut records =
            etw_etl::read::Records::new(vec![etw_etl::read::TraceFile::open(&file).unwrap()]);
        while let Some(record) = records.next() {
            // The first thread of a process has the process's id.
            if record.provider == Some(provider()) && record.process_id == Some(process) {
                assert_eq!(record.thread_id, Some(process));
            }
        }
    }
}

/// P7: setting the clock while a session records moves no event: times rise, and intervals are true.
#[test]
fn setting_the_clock_moves_no_event() {
    if std::env::var_os("ETW_SET_CLOCK").is_none() {
        return eprintln!("skipped: ETW_SET_CLOCK=1 lets it set the machine's clock, for a moment");
    }
    let step = |millis: i64| {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: pointers to values of that kind.
        unsafe {
            libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now);
            let nanos = now.tv_nsec + millis * 1_000_000;
            now.tv_sec += nanos.div_euclid(1_000_000_000);
            now.tv_nsec = nanos.rem_euclid(1_000_000_000);
            libc::clock_settime(libc::CLOCK_REALTIME, &raw const now) == 0
        }
    };
    if !step(0) {
        return eprintln!("skipped: only root may set the clock");
    }
    for clock in SessionClock::ALL {
        let rig = Rig::new();
        let file = rig.start_with("clock", SessionConfig { clock, ..SessionConfig::default() });
        let mut program = rig.program("endless", &[200]);
        program.expect("ready");
        let began = std::time::Instant::now();
        for millis in [300, -300, -200, 200] {
            std::thread::sleep(Duration::from_millis(20));
            assert!(step(millis));
        }
        std::thread::sleep(Duration::from_millis(20));
        let said = program.kill();
        let longest = began.elapsed() + Duration::from_millis(100);
        let status = rig.stop("clock");
        // `events` asserts order and soundness.
        let all = events(&file);
        assert!(all.len() as u64 >= said && all.len() as u64 == status.stored, "{status:?}");
        let trace = etw_etl::read::TraceFile::open(&file).unwrap();
        let clock = *trace.clock();
        let mut records = etw_etl::read::Records::new(vec![trace]);
        let mut times = Vec::new();
        while let Some(record) = records.next() {
            if record.provider == Some(provider()) {
                times.push(record.timestamp(&clock).unwrap().0);
            }
        }
        let passed = Duration::from_nanos((times[times.len() - 1] - times[0]) as u64 * 100);
        assert!(passed < longest, "{passed:?} in {longest:?}");
    }
}

/// P7, P8: at a limit of file sizes (`ulimit -f`) further events are lost to the disk and counted. The limit's signal kills
/// nobody; sessions without files continue.
#[test]
fn events_beyond_a_limit_of_file_sizes_are_counted() {
    let rig = Rig::without_host();
    let mut command = rig.command("keeper", &[]);
    command.env("ETW_TEST_LIMIT", format!("{} {}", libc::RLIMIT_FSIZE, 16 << 20));
    let daemon = Daemon { keeper: Program::start(&mut command), rig };
    daemon.ask(&Request::List);
    let worker = daemon.worker();
    let large = SessionConfig { buffer_count: 256, ..SessionConfig::default() };
    let file = daemon.start("full", SessionConfig { independent: true, ..large });
    daemon.start("memory", SessionConfig { mode: LogMode::Buffering, ..SessionConfig::default() });
    daemon.rig.program("threads", &[2, 60_000]).end();
    let status = daemon.stop("full");
    assert!(
        status.lost > 0 && status.losses.iter().any(|loss| loss.cause == Cause::Disk),
        "{status:?}"
    );
    // Refused writes were repeated.
    assert!(status.attempted >= 120_000);
    assert_eq!(status.attempted, status.stored + status.lost);
    assert!(status.error.is_some(), "{status:?}");
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 16 << 20);
    assert_eq!(events(&file).len() as u64, status.stored);
    let memory = daemon.stop("memory");
    assert!(memory.stored + memory.overwritten >= 120_000, "{memory:?}");
    assert_eq!(daemon.worker(), worker);
    daemon.end();
}

/// P7: at the end of a disk of half a MiB events are lost and counted; when there is space again, the session continues.
#[test]
fn events_on_a_full_disk_are_counted() {
    let (daemon, place, has_small_disk) = Daemon::with_small_disk();
    if !has_small_disk {
        return;
    }
    let enable = vec![Enablement::new(provider(), all())];
    let file = Some(place.join("full.etl"));
    let start = SessionConfig { name: "full".to_owned(), file, enable, ..SessionConfig::default() };
    let Response::Session(_) = daemon.ask(&Request::start(start)) else { panic!() };
    daemon.rig.program("threads", &[1, 10_000]).end();
    daemon.rig.wait_until(|_| {
        let query = daemon.ask(&Request::Query { session: "full".to_owned() });
        matches!(query, Response::Session(status) if status.state == "failing: disk full")
    });
    let status = daemon.stop("full");
    assert_eq!(status.attempted, status.stored + status.lost);
    let disk = status.losses.iter().find(|loss| loss.cause == Cause::Disk);
    assert!(disk.is_some_and(|loss| loss.count > 5000), "{status:?}");
    // Only the daemon's mount namespace has the disk.
    let worker = daemon.worker().unwrap();
    let seen = format!("/proc/{worker}/root{}", place.join("full.etl").display());
    assert_eq!(events(seen.as_ref()).len() as u64, status.stored);
    daemon.end();
}

/// P2: after a disk was full for a while, later buffers follow the earlier ones in a sound file.
#[test]
fn a_disk_that_was_full_leaves_a_sound_file() {
    full_for_a_while(500);
}

/// P2: the same, if the disk is full again when the file is completed.
#[test]
fn a_disk_that_is_full_again_leaves_a_sound_file() {
    full_for_a_while(10_000);
}

/// `later`: events after there is space again. 500 fit on the disk, 10 000 do not.
fn full_for_a_while(later: u64) {
    let (daemon, place, has_small_disk) = Daemon::with_small_disk();
    if !has_small_disk {
        return;
    }
    daemon.ask(&Request::List);
    // Only the daemon's mount namespace has the disk.
    let worker = daemon.worker().unwrap();
    let seen = std::path::PathBuf::from(format!("/proc/{worker}/root{}", place.display()));
    std::fs::write(seen.join("filler"), vec![1; 300 << 10]).unwrap();
    let enable = vec![Enablement::new(provider(), all())];
    let file = Some(place.join("full.etl"));
    let small = SessionConfig { buffer_size: 8192, buffer_count: 256, ..SessionConfig::default() };
    let start = SessionConfig { name: "full".to_owned(), file, enable, ..small };
    let Response::Session(_) = daemon.ask(&Request::start(start)) else { panic!() };
    let flush = || daemon.ask(&Request::Flush { session: "full".to_owned() });
    daemon.rig.program("threads", &[1, 5000]).end();
    flush();
    std::fs::remove_file(seen.join("filler")).unwrap();
    daemon.rig.program("threads", &[1, later]).end();
    flush();
    let status = daemon.stop("full");
    assert_eq!(status.attempted, 5000 + later);
    assert_eq!(status.attempted, status.stored + status.lost);
    assert!(status.stored > 1000 && status.lost > 1000, "{status:?}");
    let events = events(&seen.join("full.etl"));
    assert_eq!(events.len() as u64, status.stored);
    if later == 500 {
        assert_eq!(events.last().map(|event| event.number), Some(499), "the last one has space");
        assert!(!has_mark(&seen.join("full.etl")), "a session of programs has their records alone");
    }
    daemon.end();
}

/// Whether a mark of lost events or buffers stands in a trace.
fn has_mark(file: &std::path::Path) -> bool {
    let trace = etw_etl::read::TraceFile::open(file).unwrap();
    let mut records = etw_etl::read::Records::new(vec![trace]);
    while let Some(record) = records.next() {
        if record.provider == Some(etw_types::LOST_EVENT) {
            return true;
        }
    }
    false
}

/// P10: on a full disk a series has no empty files, and the header of its last file has the losses behind it.
#[test]
fn the_last_file_of_a_series_has_the_losses_of_a_full_disk() {
    let (daemon, place, has_small_disk) = Daemon::with_small_disk();
    if !has_small_disk {
        return;
    }
    let enable = vec![Enablement::new(provider(), all())];
    let start = SessionConfig {
        name: "series".to_owned(),
        file: Some(place.join("s-%d.etl")),
        mode: LogMode::NewFile { max_size: 128 << 10 },
        buffer_size: 8192,
        enable,
        ..SessionConfig::default()
    };
    let Response::Session(_) = daemon.ask(&Request::start(start)) else { panic!() };
    daemon.rig.program("threads", &[1, 20_000]).end();
    let status = daemon.stop("series");
    assert_eq!(status.attempted, 20_000);
    assert_eq!(status.attempted, status.stored + status.lost);
    assert!(status.lost > 0, "{status:?}");
    let worker = daemon.worker().unwrap();
    let seen = std::path::PathBuf::from(format!("/proc/{worker}/root{}", place.display()));
    let mut files: Vec<_> =
        std::fs::read_dir(seen).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!((3..10).contains(&files.len()), "{files:?}");
    assert_eq!(files.iter().map(|file| events(file).len() as u64).sum::<u64>(), status.stored);
    let last = etw_etl::read::TraceFile::open(files.last().unwrap()).unwrap();
    assert_eq!(u64::from(last.header().unwrap().events_lost), status.lost);
    daemon.end();
}

/// P7: a worker without memory refuses a session with its status, and continues with the others. A program without memory, or
/// whose files may not be as large as a pool, continues without its events.
#[test]
fn a_limit_of_memory_refuses_one_session_only() {
    let rig = Rig::without_host();
    let mut command = rig.command("keeper", &[]);
    command.env("ETW_TEST_LIMIT", format!("{} {}", libc::RLIMIT_AS, 1u64 << 30));
    let daemon = Daemon { keeper: Program::start(&mut command), rig };
    let file = daemon.start("small", SessionConfig::default());
    let worker = daemon.worker();
    let large = SessionConfig {
        name: "large".to_owned(),
        mode: LogMode::Buffering,
        buffer_size: 1 << 20,
        buffer_count: 2000,
        ..SessionConfig::default()
    };
    let answer = daemon.ask(&Request::start(large));
    assert!(matches!(answer, Response::Error { status: 8 | 1450, .. }), "{answer:?}");
    // Limits above what the program has: space for a thread's stack, not for a pool; and file sizes, since memory is a file.
    let limits = [(u64::from(libc::RLIMIT_AS), 6 << 20), (u64::from(libc::RLIMIT_FSIZE), 1 << 20)];
    for (which, size) in limits {
        let mut program = daemon.rig.program("limited", &[which, size]);
        let said = program.line();
        assert_eq!(said.as_deref(), Some("enabled false, 100 taken, session false"), "{which}");
        program.end();
    }
    daemon.rig.program("threads", &[1, 1000]).end();
    let status = daemon.stop("small");
    assert_eq!((status.stored, status.lost), (1000, 0), "{status:?}");
    assert_eq!(events(&file).len(), 1000);
    assert_eq!(daemon.worker(), worker);
    daemon.end();
}

/// P2, P3, P8: 500 programs register at once. Each is recorded from its first event on, and nothing is left of them.
#[test]
fn five_hundred_programs_at_once_are_recorded() {
    let daemon = Daemon::new();
    let file =
        daemon.start("crowd", SessionConfig { buffer_count: 256, ..SessionConfig::default() });
    let before = open_descriptors(&daemon);
    let mut crowd = daemon.rig.program("crowd", &[500, 3]);
    let mut processes = Vec::new();
    while let Some(line) = crowd.line() {
        processes.push(line.parse::<u32>().unwrap());
    }
    assert_eq!(processes.len(), 500);
    let status = daemon.stop("crowd");
    let by_thread = contiguous(&events(&file));
    let whole = processes.iter().filter(|id| by_thread.get(&(**id, 0)) == Some(&3)).count();
    assert_eq!((whole, status.stored, status.lost), (500, 1500, 0), "{status:?}");
    daemon.rig.wait_until(|_| open_descriptors(&daemon) <= before);
    daemon.end();
}

/// Open descriptors of the worker and of the keeper.
fn open_descriptors(daemon: &Daemon) -> (usize, usize) {
    let of = |process| descriptors_of(process).len();
    (of(daemon.worker().unwrap()), of(daemon.keeper.id()))
}

/// The files of a process's descriptors.
fn descriptors_of(process: u32) -> Vec<std::path::PathBuf> {
    let all = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    all.map(|one| std::fs::read_link(one.unwrap().path()).unwrap_or_default()).collect()
}

/// A host that does not answer, because it is stopped or was never there, delays no controller; programs continue without it.
#[test]
fn a_host_that_does_not_answer_delays_nobody() {
    let rig = Rig::without_host();
    let directory = etw_wire::runtime_directory::Directory::open_or_make(&rig.runtime()).unwrap();
    let _mute = std::os::unix::net::UnixListener::bind(rig.runtime().join("socket")).unwrap();
    // A socket of another kind is not a host; one of the right kind whose connections nobody accepts is mute.
    assert!(etw_wire::host_client::Client::connect(directory.path()).is_err());
    std::fs::remove_file(rig.runtime().join("socket")).unwrap();
    let _mute = etw_wire::Channel::listen(&rig.runtime().join("socket")).unwrap();
    let program = rig.program("count", &[10, 0]);
    let error = etw_wire::host_client::Client::connect(directory.path()).unwrap_err();
    assert!(error.to_string().contains("does not answer"), "{error}");
    program.end();
}

/// P2: if another process cuts a session's file while it is written, the session reports it at its end, and the header counts
/// the lost buffers.
#[test]
fn a_file_that_is_cut_is_reported() {
    let rig = Rig::new();
    let small =
        || SessionConfig { buffer_size: 8192, buffer_count: 64, ..SessionConfig::default() };
    let starts = Compression::ALL.map(|compression| SessionConfig { compression, ..small() });
    for (number, start) in starts.into_iter().enumerate() {
        let name = format!("cut{number}");
        let file = rig.start_with(&name, start);
        rig.program("count", &[1000, 0]).end();
        rig.done(Request::Flush { session: name.clone() });
        std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(20_000).unwrap();
        rig.program("count", &[1000, 0]).end();
        rig.done(Request::Flush { session: name.clone() });
        for status in [rig.query(&name), rig.stop(&name)] {
            let error = status.error.unwrap_or_default();
            assert!(error.contains("was made shorter"), "{number}: {error:?}");
        }
        let trace = etw_etl::read::TraceFile::open(&file).unwrap();
        assert!(trace.header().unwrap().buffers_lost > 0, "{number}");
        // The rest of the file can be read.
        let mut records = etw_etl::read::Records::new(vec![trace]);
        let mut count = 0;
        while let Some(record) = records.next() {
            count += u64::from(record.provider == Some(provider()));
        }
        assert!((1000..2000).contains(&count), "{number}: {count}");
    }
}

/// A file that was moved is complete, and its session says so.
#[test]
fn a_file_that_is_moved_has_all_events() {
    let rig = Rig::new();
    let file = rig.start("moved");
    rig.program("count", &[1000, 0]).end();
    let elsewhere = rig.file("elsewhere.etl");
    std::fs::rename(&file, &elsewhere).unwrap();
    rig.program("count", &[1000, 0]).end();
    let status = rig.stop("moved");
    assert_eq!((status.stored, status.lost), (2000, 0), "{status:?}");
    let error = status.error.unwrap_or_default();
    assert!(error.ends_with(etw_host::MOVED), "{error:?}");
    assert_eq!(events(&elsewhere).len(), 2000);
}

/// P8: a host without descriptors for more programs says so, and records those that it has. OV-1
#[test]
fn a_host_without_descriptors_records_the_programs_it_has() {
    let rig = Rig::without_host();
    let said = rig.file("said");
    let mut command = rig.command("keeper", &[]);
    command.env("ETW_TEST_LIMIT", format!("{} 40", libc::RLIMIT_NOFILE));
    command.stderr(std::fs::File::create(&said).unwrap());
    let daemon = Daemon { keeper: Program::start(&mut command), rig };
    let file = daemon.start("few", SessionConfig::default());
    let before = open_descriptors(&daemon);
    daemon.rig.program("count", &[10, 0]).end();
    let mut programs: Vec<_> = (0..30).map(|_| daemon.rig.program("linger", &[1])).collect();
    programs.iter_mut().for_each(|program| drop(program.line()));
    let is_told = || {
        let said = std::fs::read_to_string(&said).unwrap();
        said.contains("cannot be recorded: ") || said.contains("programs and controllers wait: ")
    };
    let end = std::time::Instant::now() + LIMIT;
    while !is_told() {
        assert!(std::time::Instant::now() < end, "nothing is said");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(programs);
    // This connection is accepted after those of the programs. Then the host has descriptors again as soon as it has noticed
    // the programs' ends.
    daemon.ask(&Request::List);
    let end = std::time::Instant::now() + LIMIT;
    while open_descriptors(&daemon) > before {
        let (now, of_worker) =
            (open_descriptors(&daemon), descriptors_of(daemon.worker().unwrap()));
        assert!(std::time::Instant::now() < end, "{now:?} of {before:?}: {of_worker:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    daemon.rig.program("count", &[10, 0]).end();
    let status = daemon.stop("few");
    assert_eq!(status.lost, 0, "{status:?}");
    assert!(events(&file).len() >= 20, "{status:?}");
}
