//! Each file of a session of system events is complete by itself: in a series, where a controller names another file, and in a snapshot of memory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use etw_etl::read::{Records, TraceFile};
use etw_host::report::{LEDGER_PROVIDER, SystemOrigin, read_system_origin};
use etw_session::{LogMode, SessionConfig};
use etw_system::{boot_id, pid_namespace};
use etw_wire::requests::{Request, Response, SessionStatus, Update};

use crate::daemon::Daemon;
use crate::interrupted_requests::Mined;
use crate::system_events::{Switching, chains_of, query, system};

const BUFFER_SIZE: u32 = 16 << 10;
/// A file that is filled within a second has no rundown.
const LEAST_SIZE: u64 = 3 << 20;

/// The facts in one file about a process that lives all the time, and about the machine.
#[derive(Debug, Default, PartialEq, Eq)]
struct Alone {
    /// Its beginnings: starts, or findings.
    began: u32,
    has_image: bool,
    has_thread: bool,
    /// Rundowns at the end.
    ended: u32,
    has_configuration: bool,
    /// `SystemSource`, with the PID namespace of the ids and the kernel's boot id.
    has_source: bool,
}

impl Alone {
    fn of(file: &Path, process: u32) -> Alone {
        let mut alone = Alone::default();
        let mut records = Records::new(vec![TraceFile::open(file).unwrap()]);
        let origin = SystemOrigin { pid_namespace: pid_namespace(), boot_id: boot_id() };
        while let Some(record) = records.next() {
            alone.has_source |= record.provider == Some(LEDGER_PROVIDER)
                && read_system_origin(&record) == Some(origin);
            let Some(hook) = record.hook else { continue };
            let has_id = |at: usize| {
                record.payload.get(at..at + 4).is_some_and(|id| id == process.to_le_bytes())
            };
            match hook.0 {
                0x0301 | 0x0303 => alone.began += u32::from(has_id(8)),
                0x0304 => alone.ended += u32::from(has_id(8)),
                0x0501 | 0x0503 => alone.has_thread |= has_id(0),
                0x1402 | 0x1403 => alone.has_image |= has_id(16),
                hook => alone.has_configuration |= hook >> 8 == 0x0b,
            }
        }
        alone
    }

    /// A file with so many rundowns at its end.
    fn complete(ended: u32) -> Alone {
        let (began, has_image, has_thread) = (1, true, true);
        Alone { began, has_image, has_thread, ended, has_configuration: true, has_source: true }
    }
}

/// Starts the session `system`. `false`: this user may not.
fn start(daemon: &Daemon, file: &Path, mode: LogMode) -> bool {
    start_with(daemon, Some(file.to_owned()), mode)
}

/// The same, or, without a file, in memory.
fn start_with(daemon: &Daemon, file: Option<PathBuf>, mode: LogMode) -> bool {
    let start = SessionConfig {
        name: "system".to_owned(),
        file,
        mode,
        buffer_size: BUFFER_SIZE,
        // A snapshot is complete if nothing in memory was overwritten, also beside other tests: a buffer has the events of one CPU, so
        // the start of a process can outlive its end.
        buffer_count: if mode == LogMode::Buffering { 1024 } else { 256 },
        system: Some(system("process,thread,img,cswitch")),
        ..SessionConfig::default()
    };
    match daemon.ask(&Request::start(start)) {
        Response::Session(_) => true,
        Response::Error { message, .. }
            if message.contains("CAP_PERFMON") || message.contains("tracefs") =>
        {
            eprintln!("left out: {message}");
            false
        }
        other => panic!("{other:?}"),
    }
}

fn sleeping() -> Child {
    Command::new("sleep").arg("300").spawn().unwrap()
}

fn end(mut program: Child) {
    program.kill().unwrap();
    program.wait().unwrap();
}

/// Bytes of a rundown at the beginning and one at the end. `None`: this user may not record.
fn rundowns_size(daemon: &Daemon) -> Option<u64> {
    let file = daemon.rig.file("rundowns.etl");
    if !start(daemon, &file, LogMode::default()) {
        return None;
    }
    daemon.stop("system");
    Some(std::fs::metadata(file).unwrap().len())
}

/// Records a series of files until it has `count` files. Returns those that are complete.
fn series(daemon: &Daemon, max_size: u64, count: usize) -> (Vec<PathBuf>, SessionStatus) {
    let pattern = daemon.rig.file("s-%d.etl");
    assert!(start(daemon, &pattern, LogMode::NewFile { max_size }));
    let switching = Switching::new();
    let name = |number: usize| daemon.rig.file(&format!("s-{number}.etl"));
    daemon.rig.wait_until(|_| name(count).exists());
    drop(switching);
    let status = daemon.stop("system");
    let files = (1..).map(name).take_while(|file| file.exists()).collect();
    (files, status)
}

/// Regression: only the first file of a series had a rundown at its beginning, and only the last one at its end.
#[test]
fn each_file_of_a_series_is_complete_by_itself() {
    let daemon = Daemon::new();
    let Some(rundowns) = rundowns_size(&daemon) else { return };
    let program = sleeping();
    let max_size = (rundowns * 4).max(LEAST_SIZE);
    let (files, status) = series(&daemon, max_size, 4);
    assert!(files.len() >= 4, "{files:?}");
    let all: Vec<Alone> = files.iter().map(|file| Alone::of(file, program.id())).collect();
    let mut open = 0;
    for (file, one) in files.iter().zip(&all) {
        // Events may fill the rest of a file before all of its end is written: the rest of that is in the next file then. The configuration
        // comes ahead of the processes.
        let (began, ended) = (one.began, one.ended);
        let has_configuration = ended > 0 || one.has_configuration;
        let expected = Alone { began, has_configuration, ..Alone::complete(ended) };
        assert!(*one == expected || one.began == 0, "{}: {one:?}", file.display());
        open += began;
        assert!(began <= 1 && ended <= open, "{all:?}");
        open -= ended;
        assert!(std::fs::metadata(file).unwrap().len() <= max_size);
    }
    // On a busy machine, each second file can have the end of the one before, too.
    let begun = all.iter().filter(|one| one.began == 1).count();
    let with_end = all.iter().filter(|one| one.ended > 0).count();
    assert!(open == 0 && begun * 2 > all.len() && with_end * 2 >= all.len(), "{all:?}");
    let (chains, unmarked) = chains_of(&files);
    assert!(unmarked.is_empty(), "{unmarked:?}");
    assert!(chains.gaps_behind_unseen + chains.gaps_behind_others <= status.lost, "{chains:?}");
    // Other processes of the machine can have notes, such as one with a command line that is longer than a buffer.
    let of_files: Vec<&String> =
        status.notes.iter().filter(|note| note.contains("rundown")).collect();
    assert!(of_files.is_empty(), "{of_files:?}");
    end(program);
    daemon.end();
}

/// Files without room for rundowns have none, with a note: each would only be the reason for another one.
#[test]
fn a_series_of_files_that_are_too_small_says_so() {
    let daemon = Daemon::new();
    let Some(rundowns) = rundowns_size(&daemon) else { return };
    let program = sleeping();
    let (files, status) = series(&daemon, rundowns, 4);
    let all: Vec<Alone> = files.iter().map(|file| Alone::of(file, program.id())).collect();
    let rundowns = |one: fn(&Alone) -> u32| all.iter().map(one).sum::<u32>();
    assert_eq!((rundowns(|one| one.began), rundowns(|one| one.ended)), (1, 1), "{all:?}");
    let is_note = |note: &&String| note.contains("too small for rundowns of the system");
    assert_eq!(status.notes.iter().filter(is_note).count(), 1, "{:?}", status.notes);
    let note = b"too small for rundowns";
    let has_note = |file: &PathBuf| {
        let bytes = std::fs::read(file).unwrap();
        bytes.windows(note.len()).any(|bytes| bytes == note)
    };
    assert!(files.iter().any(has_note), "the trace has the note, too: {files:?}, {status:?}");
    end(program);
    daemon.end();
}

fn continue_in(file: &Path) -> Request {
    let update = Update { file: Some(file.to_owned()), ..Update::default() };
    Request::Update { session: "system".to_owned(), update }
}

/// Regression: the file that an update ended had no rundown at its end, and the one that it began had none at its beginning.
#[test]
fn each_file_of_an_updated_session_is_complete_by_itself() {
    let daemon = Daemon::new();
    let files = ["a.etl", "b.etl", "c.etl"].map(|name| daemon.rig.file(name));
    let program = sleeping();
    if start(&daemon, &files[0], LogMode::default()) {
        let switching = Switching::new();
        for file in &files[1..] {
            let before = query(&daemon).attempted;
            daemon.rig.wait_until(|_| query(&daemon).attempted > before + 1000);
            let done = daemon.ask(&continue_in(file));
            assert!(matches!(done, Response::Done { .. }), "{done:?}");
        }
        drop(switching);
        let status = daemon.stop("system");
        for file in &files {
            assert_eq!(Alone::of(file, program.id()), Alone::complete(1), "{}", file.display());
        }
        let (chains, unmarked) = chains_of(&files);
        assert!(unmarked.is_empty(), "{unmarked:?}");
        assert!(chains.gaps_behind_unseen + chains.gaps_behind_others <= status.lost);
    }
    end(program);
    daemon.end();
}

/// The end of a snapshot: switches, and what lives without an end.
#[derive(Debug, Default, PartialEq, Eq)]
struct SnapshotEnd {
    switches_behind_rundown: u32,
    endless_processes: BTreeSet<u32>,
    /// By process and thread.
    endless_threads: BTreeSet<(u32, u32)>,
}

impl SnapshotEnd {
    /// Returns the switches ahead of the last rundown, too.
    fn of(file: &Path) -> (SnapshotEnd, u32) {
        let (mut end, mut switches) = (SnapshotEnd::default(), 0);
        let mut records = Records::new(vec![TraceFile::open(file).unwrap()]);
        while let Some(record) = records.next() {
            let Some(hook) = record.hook else { continue };
            let id = |at: usize| u32::from_le_bytes(record.payload[at..at + 4].try_into().unwrap());
            match hook.0 {
                0x0301 | 0x0303 => _ = end.endless_processes.insert(id(8)),
                0x0302 | 0x0304 => _ = end.endless_processes.remove(&id(8)),
                0x0501 | 0x0503 => _ = end.endless_threads.insert((id(0), id(4))),
                0x0502 | 0x0504 => _ = end.endless_threads.remove(&(id(0), id(4))),
                0x0524 => end.switches_behind_rundown += 1,
                _ => {}
            }
            if hook.0 == 0x0304 {
                switches += std::mem::take(&mut end.switches_behind_rundown);
            }
        }
        (end, switches)
    }
}

/// Regression: a snapshot had the rundown at the beginning of the next recording, and its events, without an end.
#[test]
fn a_snapshot_ends_with_its_rundown() {
    let daemon = Daemon::new();
    if !start_with(&daemon, None, LogMode::Buffering) {
        return;
    }
    let switching = Switching::new();
    for number in 0..3 {
        let before = query(&daemon).attempted;
        daemon.rig.wait_until(|_| query(&daemon).attempted > before + 1000);
        let file = daemon.rig.file(&format!("snapshot{number}.etl"));
        let snapshot = Request::Snapshot { session: "system".to_owned(), file: file.clone() };
        match daemon.ask(&snapshot) {
            Response::Done { warnings } => assert_eq!(warnings, [""; 0]),
            other => panic!("{other:?}"),
        }
        let (end, switches) = SnapshotEnd::of(&file);
        assert_eq!(end, SnapshotEnd::default(), "snapshot {number}");
        assert!(switches > 100, "snapshot {number}: {switches}");
    }
    drop(switching);
    daemon.stop("system");
    daemon.end();
}

/// P2: the worker is killed between the two recordings, or the two files: each file still names what lives.
#[test]
fn a_kill_while_a_file_changes_leaves_complete_files() {
    for point in ["recording before ended", "recording before given", "file kept", "file begun"] {
        let mined = Mined::new(point);
        let daemon = &mined.daemon;
        let files = ["a.etl", "b.etl"].map(|name| daemon.rig.file(name));
        let program = sleeping();
        let is_allowed = start(daemon, &files[0], LogMode::default());
        if is_allowed {
            let switching = Switching::new();
            std::thread::scope(|scope| {
                let held = mined.hold();
                let asked = scope.spawn(|| daemon.ask(&continue_in(&files[1])));
                held.wait(&daemon.rig);
                daemon.kill_worker();
                drop(held);
                match asked.join().unwrap() {
                    Response::Done { .. } => {}
                    // The change was complete when the worker was killed.
                    Response::Error { status: 161, .. } if point == "file begun" => {}
                    other => panic!("{point}: {other:?}"),
                }
            });
            let before = query(daemon).attempted;
            daemon.rig.wait_until(|_| query(daemon).attempted > before);
            drop(switching);
            let status = daemon.stop("system");
            for file in &files {
                let alone = Alone::of(file, program.id());
                let names = alone.began > 0 && alone.has_image && alone.has_thread;
                assert!(names, "{point}: {}: {alone:?}", file.display());
            }
            assert!(Alone::of(&files[1], program.id()).ended > 0, "{point}");
            let (chains, unmarked) = chains_of(&files);
            assert!(unmarked.is_empty(), "{point}: {unmarked:?}");
            let gaps = chains.gaps_behind_unseen + chains.gaps_behind_others;
            assert!(gaps <= status.lost, "{point}: {chains:?}");
        }
        end(program);
        mined.end();
        if !is_allowed {
            return;
        }
    }
}
