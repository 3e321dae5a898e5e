//! Programs that are killed, exit, or fork.
#![cfg(target_os = "linux")]
use crate::session::{greet, provider};
use crate::support::*;
use etw::*;
use etw_etl::read::TraceFile;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const THREADS: u32 = 3;
const ROLE: &str = "ETW_TEST_ROLE";
const OUT: &str = "ETW_TEST_OUT";

fn spawn(role: &str, out: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["crash::child_process", "--exact", "--nocapture"])
        .env(ROLE, role)
        .env(OUT, out)
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Runs in the child processes of the other tests, and does nothing as a test of its own.
#[test]
fn child_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let out = std::env::var_os(OUT).unwrap();
    let out = Path::new(&out);
    let _registration = PROVIDER.register();
    let builder = Session::builder("child").file(out).buffer_size_kb(4).buffers(16);
    let builder = match role.as_str() {
        "circular" => builder.circular(64 << 10),
        "compressed" | "compressed-abort" | "compressed-lossy" => builder.compressed(),
        "auto" => builder.compression(etw::Compression::Auto),
        _ => builder,
    };
    let session = builder.pool_size(1 << 18, 1 << 20).start().unwrap();
    session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
    match role.as_str() {
        "write" | "circular" | "compressed" | "auto" => write_until_killed(out),
        "exit" => {
            write(0..1000);
            // The session is never dropped: the end of the program finds it.
            std::mem::forget(session);
            std::process::exit(0);
        }
        "classic" => write_classic_and_abort(&session),
        "abort" => {
            write(0..1000);
            std::process::abort();
        }
        "lossy" | "compressed-lossy" => lose_and_abort(out),
        "compressed-abort" => {
            write(0..1000);
            // The flush stores all numbered events; recovery of the later ones has only the file.
            session.flush().unwrap();
            write(1000..1010);
            std::process::abort();
        }
        "fork" => fork(session, out),
        "full" => fill_the_disk(session, out),
        other => panic!("{other}"),
    }
}

provider!(PROVIDER, 20);

/// Writes events that must not fail.
fn write(numbers: std::ops::Range<u32>) {
    for n in numbers {
        assert!(greet(&PROVIDER, n).is_success());
    }
}

fn write_until_killed(out: &Path) {
    let progress = File::create(progress_of(out)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let progress = &progress;
            scope.spawn(move || {
                for n in 0.. {
                    // The pool is small: a refused event is written again.
                    while !greet(&PROVIDER, thread << 28 | n).is_success() {
                        std::thread::yield_now();
                    }
                    // Every event that the progress file counts must be in the trace.
                    let offset = u64::from(thread) * 8;
                    progress.write_all_at(&(u64::from(n) + 1).to_le_bytes(), offset).unwrap();
                }
            });
        }
    });
}

fn write_classic_and_abort(session: &Session) {
    use etw::evntrace::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    static LOGGER: AtomicU64 = AtomicU64::new(0);
    let callback = |request: &ControlRequest| {
        LOGGER.store(request.logger.0, Ordering::Relaxed);
        Status::ERROR_SUCCESS
    };
    let control = Guid::from_u128(21);
    let classes = TraceClasses::default();
    register_trace_guids(&control, classes, std::sync::Arc::new(callback)).unwrap();
    session.enable(&control, Level(0), Keyword(0)).unwrap();
    let logger = LoggerHandle(LOGGER.load(Ordering::Relaxed));
    for n in 0..1000u16 {
        if n == 600 {
            session.flush().unwrap();
        }
        let (flags, id) = (MessageFlags::SEQUENCE, MessageId::None);
        assert!(trace_message(logger, flags, id, n, &[]).is_success());
        assert!(trace_event(logger, EventClass::default(), None, &[]).is_success());
    }
    std::process::abort();
}

/// Writes faster than any disk into a small pool, until 100 events were refused.
fn lose_and_abort(out: &Path) {
    let (mut written, mut refused) = (0u64, 0u64);
    while refused < 100 {
        match greet(&PROVIDER, written as u32).is_success() {
            true => written += 1,
            false => refused += 1,
        }
    }
    let counts = [written.to_le_bytes(), refused.to_le_bytes()].concat();
    std::fs::write(progress_of(out), counts).unwrap();
    std::process::abort();
}

fn fork(session: Session, out: &Path) {
    write(0..100);
    // SAFETY: the child runs only the code below, and leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        for n in 1000..2000 {
            // The child has no session, and must not write into its parent's file.
            let _ = greet(&PROVIDER, n);
        }
        assert!(session.flush().is_err());
        drop(session);
        // It may have sessions and registrations of its own.
        let own = out.with_extension("child.etl");
        let session = Session::builder("own").file(&own).start().unwrap();
        session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
        write(0..50);
        session.stop().unwrap();
        // SAFETY: ends the child.
        unsafe { libc::_exit(7) };
    }
    let mut status = 0;
    // SAFETY: waits for our child.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(libc::WEXITSTATUS(status), 7);
    write(100..200);
    session.stop().unwrap();
}

fn fill_the_disk(session: Session, out: &Path) {
    // From here on no file may exceed 256 KiB. The signal is ignored, so that the write fails instead.
    // SAFETY: plain calls about this process.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let limit = libc::rlimit { rlim_cur: 256 << 10, rlim_max: 256 << 10 };
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
    let written: u64 = (0..20_000).map(|n| u64::from(greet(&PROVIDER, n).is_success())).sum();
    let etw::Stopped { statistics, result } = session.stop_with_statistics();
    let ledger = statistics.ledger;
    assert!(result.is_err());
    assert!(ledger.is_balanced(), "{ledger:?}");
    assert!(ledger.lost(Cause::Disk) > 0 && ledger.stored > 1000, "{ledger:?}");
    assert_eq!(ledger.stored + ledger.lost(Cause::Disk), written);
    std::fs::write(progress_of(out), ledger.stored.to_string()).unwrap();
}

/// A disk that is full costs events, which are counted, and neither the program nor what is stored.
#[test]
fn a_full_disk_costs_what_it_costs() {
    let out = TempPath::new("disk.etl");
    let told = TempPath(progress_of(&out));
    assert!(spawn("full", &out).wait().unwrap().success());
    let stored: usize = std::fs::read_to_string(&told).unwrap().parse().unwrap();
    assert_eq!(read(&out).0.len(), stored);
}

/// The file's header counts the events that a killed program had lost, before `repair` and after.
#[test]
fn the_header_counts_the_losses_of_a_killed_program() {
    for role in ["lossy", "compressed-lossy"] {
        let out = TempPath::new("lossy.etl");
        let progress = TempPath(progress_of(&out));
        assert!(!spawn(role, &out).wait().unwrap().success());
        let told = std::fs::read(&progress).unwrap();
        let [taken, refused] =
            [0, 8].map(|at| u64::from_le_bytes(told[at..at + 8].try_into().unwrap()));
        let lost = |file: &TraceFile| u64::from(file.header().unwrap().events_lost);
        let (overlay, left) = etw_host::leftover::Overlay::open(&out).unwrap().unwrap();
        assert_eq!(left.lost, refused, "{role}");
        let file = TraceFile::from_source(&out, Box::new(overlay)).unwrap();
        assert_eq!(lost(&file), refused, "{role}");
        assert_eq!(etw_host::leftover::fold(&out).unwrap().unwrap().lost, refused);
        assert_eq!(lost(&TraceFile::open(&*out).unwrap()), refused, "{role}");
        etw_etl::repair::repair(&*out).unwrap();
        assert_eq!(lost(&TraceFile::open(&*out).unwrap()), refused, "{role}");
        assert_eq!(read(&out).0.len() as u64, taken, "{role}");
    }
}

fn progress_of(out: &Path) -> std::path::PathBuf {
    out.with_extension("progress")
}

fn numbers(events: &[Seen]) -> HashMap<u32, Vec<u32>> {
    let mut by_thread: HashMap<u32, Vec<u32>> = HashMap::new();
    for event in events {
        let n = u32::from_le_bytes(event.payload[..].try_into().unwrap());
        by_thread.entry(n >> 28).or_default().push(n & 0xfff_ffff);
    }
    by_thread
}

/// P3: what a program committed before `kill -9` is in its files, once, in order; what it did not is not. `dump` and `check` see it
/// before `repair` folds it in, which may be done twice.
#[test]
fn kill_9_loses_nothing_committed() {
    let _permits = session_permits(1);
    let rounds = std::env::var("ETW_KILLS").map_or(12, |n| n.parse().unwrap());
    let mut seed = 1u64;
    let mut total = 0;
    for round in 0..rounds {
        let out = TempPath::new("kill.etl");
        let progress = TempPath(progress_of(&out));
        // In turn: plain, compressed, where places have no fixed length, and some of both.
        let role = ["write", "compressed", "auto"][(round % 3) as usize];
        let mut child = spawn(role, &out);
        let said = || -> Vec<u64> {
            let bytes = std::fs::read(&progress).unwrap_or_default();
            bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect()
        };
        while said().iter().filter(|count| **count > 0).count() < THREADS as usize {
            std::thread::sleep(Duration::from_millis(1));
        }
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        std::thread::sleep(Duration::from_micros((seed >> 40) % 60_000));
        if round == 0 {
            let leftover = etw_host::leftover::read(&out).unwrap().unwrap();
            assert!(leftover.is_running);
            assert!(etw_host::leftover::fold(&out).is_err());
            let refused = Session::builder("second").file(&out).start().unwrap_err();
            assert_eq!(refused.status(), Status::ERROR_BAD_PATHNAME);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let said = said();
        let check = |events: &[Seen]| {
            let by_thread = numbers(events);
            for thread in 0..THREADS {
                let found = &by_thread[&thread];
                let wrong = (0u32..).zip(found).find(|(wanted, found)| wanted != *found);
                assert_eq!(wrong, None, "round {round}: doubled, lost or out of order");
                let said = said[thread as usize];
                assert!(
                    (said..=said + 1).contains(&(found.len() as u64)),
                    "round {round}: {said} {}",
                    found.len()
                );
            }
        };
        let (overlay, leftover) = etw_host::leftover::Overlay::open(&out).unwrap().unwrap();
        assert!(!leftover.is_running && leftover.damaged == 0, "{leftover:?}");
        let beside = etw_etl::read::TraceFile::from_source(&out, Box::new(overlay)).unwrap();
        check(&read_file(beside).0);
        let folded = etw_host::leftover::fold(&out).unwrap().unwrap();
        assert_eq!(folded.damaged, 0);
        check(&read(&out).0);
        total += said.iter().sum::<u64>();
        assert_eq!(etw_host::leftover::fold(&out).unwrap(), None);
        check(&read(&out).0);
    }
    assert!(total > rounds * 1000, "{total}");
}

/// The same in a circular file: what is left is a newest part of what was committed.
#[test]
fn kill_9_of_a_circular_session() {
    let out = TempPath::new("kill-circular.etl");
    let progress = TempPath(progress_of(&out));
    let mut child = spawn("circular", &out);
    let said = || {
        let bytes = std::fs::read(&progress).unwrap_or_default();
        bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect::<Vec<_>>()
    };
    while said().len() < THREADS as usize || said().iter().sum::<u64>() < 20_000 {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    etw_host::leftover::fold(&out).unwrap().unwrap();
    assert!(std::fs::metadata(&out).unwrap().len() <= 64 << 10);
    let (events, _) = read(&out);
    let by_thread = numbers(&events);
    assert!(events.len() > 200, "{}", events.len());
    // Buffers are overwritten in the order in which they were closed, so of a thread that moves between CPUs newer events
    // may be gone where older ones are left; but the newest buffers of all hold the newest events of somebody.
    let said = said();
    let mut reaches_the_end = false;
    for (&thread, found) in &by_thread {
        assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "out of order or doubled");
        let last = u64::from(*found.last().unwrap()) + 1;
        let said = said[thread as usize];
        assert!(last <= said + 1, "{said} {last}");
        reaches_the_end |= last >= said;
    }
    assert!(reaches_the_end);
}

/// A session that is there when the program ends is stopped by then.
#[test]
fn exit_finishes_the_file() {
    let out = TempPath::new("exit.etl");
    assert!(spawn("exit", &out).wait().unwrap().success());
    let (events, reports) = read(&out);
    assert_eq!((events.len(), reports.len()), (1000, 1));
    assert!(!etw_host::part::part_path(&out).exists());
}

/// `abort` leaves what `kill -9` leaves.
#[test]
fn abort_leaves_a_part() {
    let _permits = session_permits(1);
    let out = TempPath::new("abort.etl");
    assert!(!spawn("abort", &out).wait().unwrap().success());
    let folded = etw_host::leftover::fold(&out).unwrap().unwrap();
    assert_eq!((folded.events, folded.lost), (1000, 0));
    assert_eq!(read(&out).0.len(), 1000);
    // Unrepaired, a new session would not have started over it.
    std::fs::write(etw_host::part::part_path(&out), b"left").unwrap();
    let refused = Session::builder("again").file(&out).start().unwrap_err();
    assert_eq!(refused.status(), Status::ERROR_ALREADY_EXISTS);
    assert_eq!(read(&out).0.len(), 1000);
}

/// A repair that is interrupted when all is written, and before the `.part` is removed: the next one writes the same.
#[test]
fn an_interrupted_repair_doubles_nothing() {
    let _permits = session_permits(2);
    for (role, count) in [("abort", 1000), ("compressed-abort", 1010)] {
        let out = TempPath::new("interrupted.etl");
        assert!(!spawn(role, &out).wait().unwrap().success());
        let part = etw_host::part::part_path(&out);
        let target = std::fs::canonicalize(&part).unwrap();
        let kept = TempPath(target.with_extension("kept"));
        std::fs::hard_link(&target, &*kept).unwrap();
        for _ in 0..3 {
            assert!(etw_host::leftover::fold(&out).unwrap().is_some());
            assert!(!part.exists());
            assert_eq!(read(&out).0.len(), count, "{role}");
            std::os::unix::fs::symlink(&*kept, &part).unwrap();
            let (overlay, _) = etw_host::leftover::Overlay::open(&out).unwrap().unwrap();
            let beside = TraceFile::from_source(&out, Box::new(overlay)).unwrap();
            assert_eq!(read_file(beside).0.len(), count, "{role}");
            std::fs::remove_file(&part).unwrap();
            // Folding removes a file in memory together with the link to it.
            std::fs::hard_link(&*kept, &target).unwrap();
            std::os::unix::fs::symlink(&target, &part).unwrap();
        }
        std::fs::remove_file(&part).unwrap();
        std::fs::remove_file(&target).unwrap();
    }
}

/// A trace of another session that has the name of a killed program's: neither is changed.
#[test]
fn what_is_left_is_not_folded_into_another_trace() {
    let _permits = session_permits(2);
    let out = TempPath::new("foreign.etl");
    assert!(!spawn("abort", &out).wait().unwrap().success());
    let other = TempPath::new("other.etl");
    assert!(spawn("exit", &other).wait().unwrap().success());
    std::fs::copy(&*other, &*out).unwrap();
    let before = std::fs::read(&*out).unwrap();
    let error = etw_host::leftover::fold(&out).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{error}");
    assert!(etw_host::leftover::Overlay::open(&out).is_err());
    assert!(std::fs::read(&*out).unwrap() == before);
    let part = etw_host::part::part_path(&out);
    let target = std::fs::canonicalize(&part).unwrap();
    std::fs::remove_file(part).unwrap();
    std::fs::remove_file(target).unwrap();
}

/// Damage in what is left: it stays for whoever looks into it.
#[test]
fn damaged_parts_are_not_folded() {
    let _permits = session_permits(1);
    let out = TempPath::new("damaged.etl");
    assert!(!spawn("abort", &out).wait().unwrap().success());
    let before = std::fs::read(&*out).unwrap();
    let part = etw_host::part::part_path(&out);
    let target = std::fs::canonicalize(&part).unwrap();
    // The registrations of providers.
    let file = std::fs::OpenOptions::new().write(true).open(&part).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 4096], 0x10000).unwrap();
    let folded = etw_host::leftover::fold(&out).unwrap().unwrap();
    assert!(folded.damaged > 0, "{folded:?}");
    assert!(part.exists() && std::fs::read(&*out).unwrap() == before);
    std::fs::remove_file(part).unwrap();
    std::fs::remove_file(target).unwrap();
}

/// OV-12, P3: so it is with classic events, and no two messages have one number.
#[test]
fn abort_leaves_classic_events() {
    let out = TempPath::new("abort-classic.etl");
    assert!(!spawn("classic", &out).wait().unwrap().success());
    let folded = etw_host::leftover::fold(&out).unwrap().unwrap();
    assert_eq!((folded.damaged, folded.lost), (0, 0));
    let mut records = etw_etl::read::Records::new(vec![TraceFile::open(&out).unwrap()]);
    let (mut messages, mut events) = (Vec::new(), 0);
    while let Some(record) = records.next() {
        match record.header {
            etw_types::HeaderType::Message => {
                messages.push((record.descriptor.id, record.sequence.unwrap()));
            }
            etw_types::HeaderType::Full64 => events += 1,
            _ => {}
        }
    }
    assert_eq!(records.damage().count(), 0);
    assert_eq!((messages.len(), events), (1000, 1000));
    messages.sort_unstable();
    assert!((0..).zip(&messages).all(|(n, (number, _))| n == *number));
    // Threads may change their CPU, whose streams come together again by times that messages lack.
    let mut sequences: Vec<u32> = messages.into_iter().map(|(_, sequence)| sequence).collect();
    sequences.sort_unstable();
    sequences.dedup();
    assert_eq!((sequences.len(), sequences[0]), (1000, 1));
}

/// The same of a compressed file, of which only the end is missing.
#[test]
fn abort_behind_a_flush_of_a_compressed_file() {
    let out = TempPath::new("abort-compressed.etl");
    assert!(!spawn("compressed-abort", &out).wait().unwrap().success());
    let folded = etw_host::leftover::fold(&out).unwrap().unwrap();
    assert_eq!((folded.events, folded.lost), (10, 0));
    let events = read(&out).0;
    assert!(
        (0u32..1010)
            .eq(events.iter().map(|e| u32::from_le_bytes(e.payload[..].try_into().unwrap())))
    );
}

/// A child made by `fork` records nothing and touches nothing of its parent's.
#[test]
fn a_forked_child_is_not_recorded() {
    let out = TempPath::new("fork.etl");
    assert!(spawn("fork", &out).wait().unwrap().success());
    let own = TempPath(out.with_extension("child.etl"));
    let (events, _) = read(&out);
    assert_eq!((events.len(), read(&own).0.len()), (200, 50));
    assert_ne!(events[0].pid, read(&own).0[0].pid);
}
