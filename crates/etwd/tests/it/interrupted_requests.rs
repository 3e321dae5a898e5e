//! The worker is killed during a controller's request: the next worker completes the request, and counts nothing twice.

use etw_session::{Enablement, LogMode, SessionConfig};
use std::process::Command;
use std::time::Duration;

use etw_etl::read::TraceFile;
use etw_wire::host_client::{Client, ClientError};
use etw_wire::requests::{Request, Response, SessionStatus};

use crate::daemon::Daemon;
use crate::rig::*;

/// A worker that is held at a kill point.
pub struct Held<'a>(&'a std::path::Path);

impl Held<'_> {
    /// Waits until the worker has come to the kill point.
    pub fn wait(&self, rig: &Rig) {
        rig.wait_until(|_| self.is_there());
    }

    pub fn is_there(&self) -> bool {
        std::fs::read(self.0).is_ok_and(|content| content == b"held")
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0);
    }
}

/// A daemon whose worker is killed once at a kill point, when it is armed.
pub struct Mined {
    pub daemon: Daemon,
    pub armed: std::path::PathBuf,
}

impl Mined {
    pub fn new(point: &str) -> Mined {
        Mined::with(point, |_, _| {})
    }

    /// A daemon whose command is changed before it starts.
    pub fn with(point: &str, change: impl FnOnce(&Rig, &mut Command)) -> Mined {
        let rig = Rig::without_host();
        let armed = rig.file("armed");
        let mut command = rig.command("keeper", &[]);
        change(&rig, &mut command);
        // Panics on purpose: their backtraces would take longer than everything else on a busy machine.
        command.env("RUST_BACKTRACE", "0");
        command.env("ETWD_FAULT", format!("{point}:{}", armed.display()));
        let keeper = Program::start(&mut command);
        Mined { daemon: Daemon { rig, keeper }, armed }
    }

    pub fn arm(&self) {
        std::fs::write(&self.armed, "").unwrap();
    }

    /// Holds the worker at the kill point, when it comes there, until the result is dropped: a failed test releases it, too.
    pub fn hold(&self) -> Held<'_> {
        // At once: an empty file asks for a kill.
        let made = self.armed.with_extension("made");
        std::fs::write(&made, "hold").unwrap();
        std::fs::rename(&made, &self.armed).unwrap();
        Held(&self.armed)
    }

    /// Sends a request until a worker has answered; one was killed meanwhile.
    pub fn ask(&self, request: &Request) -> Response {
        self.arm();
        let answer = self.daemon.ask(request);
        assert!(!self.armed.exists(), "it was not reached");
        answer
    }

    /// Sends a request once, without its answer. Then there is another worker, and programs have reconnected.
    pub fn begin(&self, request: &Request) {
        self.arm();
        let client = Client::connect(&self.daemon.rig.runtime()).unwrap();
        assert!(matches!(client.ask(request), Err(ClientError::Io(_))));
        assert!(!self.armed.exists(), "it was not reached");
        self.daemon.ask(&Request::List);
        std::thread::sleep(Duration::from_millis(50));
    }

    pub fn end(self) {
        // Requests that the next worker completes delay nothing.
        self.daemon.end();
    }
}

/// `None`: the session had ended before another worker could be asked.
fn status(answer: Response) -> Option<SessionStatus> {
    match answer {
        Response::Session(status) => Some(*status),
        Response::Error { status: 4201, .. } => None,
        other => panic!("{other:?}"),
    }
}

/// P2, P3: a session is stopped once, whenever the worker is killed. Its file is complete, each missing event is in the ledger,
/// and the programs' losses are counted once.
#[test]
fn a_session_is_stopped_once() {
    const EVENTS: u64 = 20_000;
    for point in [
        "end kept",
        "last drained",
        "slot kept",
        "losses counted",
        "losses final",
        "end reported",
        "end written",
    ] {
        let mined = Mined::new(point);
        // A file that is full soon: further events are lost, and only the programs know how many.
        let full = SessionConfig {
            mode: LogMode::Sequential { max_size: Some(128 << 10) },
            buffer_size: 8192,
            ..SessionConfig::default()
        };
        let file = mined.daemon.start("full", full);
        let gone = mined.daemon.rig.program("count", &[EVENTS, 0]);
        gone.end();
        let mut there = mined.daemon.rig.program("linger", &[EVENTS]);
        there.expect("written");
        let before = mined.daemon.ask(&Request::Query { session: "full".to_owned() });
        let before = status(before).unwrap();
        assert_eq!(before.attempted, 2 * EVENTS, "{point}: {before:?}");
        assert!(before.lost > EVENTS, "{point}: {before:?}");
        let after = status(mined.ask(&Request::Stop { session: "full".to_owned() }));
        mined.daemon.rig.wait_until(|_| TraceFile::open(&file).unwrap().is_finalised());
        if let Some(after) = after {
            assert_eq!((after.attempted, after.lost), (before.attempted, before.lost), "{point}");
            let losses: u64 = after.losses.iter().map(|loss| loss.count).sum();
            assert_eq!(losses, after.lost, "{point}: {after:?}");
        }
        let trace = TraceFile::open(&file).unwrap();
        let header = trace.header().unwrap();
        assert_eq!(u64::from(header.events_lost), before.lost, "{point}");
        assert_eq!(events(&file).len() as u64, before.stored, "{point}");
        there.kill();
        mined.end();
    }
}

/// P3: events that programs write while a session is being stopped are in the file without a gap.
#[test]
fn a_stopped_session_has_no_gap() {
    for point in ["end kept", "last drained", "losses counted", "losses final", "end written"] {
        let mined = Mined::new(point);
        let start = SessionConfig {
            flush_timer: Some(Duration::from_millis(2)),
            ..SessionConfig::default()
        };
        let file = mined.daemon.start("stopped", start);
        let mut program = mined.daemon.rig.program("endless", &[60]);
        program.expect("ready");
        std::thread::sleep(Duration::from_millis(40));
        let stop = Request::Stop { session: "stopped".to_owned() };
        mined.begin(&stop);
        // The session has ended, although no controller received the answer; or its file is being completed, which this one waits for.
        let answer = mined.daemon.ask(&stop);
        let is_ending = matches!(&answer, Response::Session(_));
        let has_ended = matches!(answer, Response::Error { status: 4201, .. });
        assert!(is_ending || has_ended, "{point}: {answer:?}");
        mined.daemon.rig.wait_until(|_| TraceFile::open(&file).unwrap().is_finalised());
        let count: u64 = contiguous(&events(&file)).values().sum();
        assert!(count > 100, "{point}: {count}");
        program.kill();
        mined.end();
    }
}

/// P3: a provider that was being disabled is disabled. Programs write nothing more, and losses are counted once.
#[test]
fn a_provider_is_disabled_once() {
    const EVENTS: u64 = 20_000;
    for point in ["enablement kept", "slot kept", "losses counted"] {
        let mined = Mined::new(point);
        let full = SessionConfig {
            mode: LogMode::Sequential { max_size: Some(128 << 10) },
            buffer_size: 8192,
            ..SessionConfig::default()
        };
        let mut listening = mined.daemon.rig.program("listen", &[]);
        listening.expect("ready");
        mined.daemon.start("full", full);
        listening.expect("Enable 255 0xffffffffffffffff 0x0");
        mined.daemon.rig.program("count", &[EVENTS, 0]).end();
        let mut there = mined.daemon.rig.program("linger", &[EVENTS]);
        there.expect("written");
        let query = || status(mined.daemon.ask(&Request::Query { session: "full".to_owned() }));
        let before = query().unwrap();
        assert_eq!(before.attempted, 2 * EVENTS, "{point}: {before:?}");
        mined.begin(&Request::Disable { session: "full".to_owned(), provider: provider().into() });
        listening.expect("Disable 0 0x0 0x0");
        let after = query().unwrap();
        assert!(after.enabled.is_empty(), "{point}: {after:?}");
        assert_eq!((after.attempted, after.lost), (before.attempted, before.lost), "{point}");
        // The slot is free: another session's losses are not counted for this one.
        mined.daemon.start("other", SessionConfig::default());
        let other = mined.daemon.rig.program("count", &[1000, 0]);
        other.end();
        assert_eq!(mined.daemon.stop("other").stored, 1000, "{point}");
        assert_eq!(mined.daemon.stop("full").attempted, 2 * EVENTS, "{point}");
        listening.kill();
        there.kill();
        mined.end();
    }
}

/// P3: a session that was being started has all its providers, or does not exist.
#[test]
fn a_session_is_started_as_a_whole() {
    for (point, is_there) in [("session made", false), ("session kept", true)] {
        let mined = Mined::new(point);
        let mut program = mined.daemon.rig.program("endless", &[60]);
        program.expect("ready");
        let start = SessionConfig {
            name: "begun".to_owned(),
            file: Some(mined.daemon.rig.file("begun.etl")),
            enable: vec![Enablement::new(provider(), all())],
            ..SessionConfig::default()
        };
        match mined.ask(&Request::start(start)) {
            Response::Session(_) => assert!(!is_there, "{point}"),
            Response::Error { status: 183, .. } => assert!(is_there, "{point}"),
            other => panic!("{point}: {other:?}"),
        }
        mined.daemon.rig.wait_until(|_| {
            let query = mined.daemon.ask(&Request::Query { session: "begun".to_owned() });
            matches!(query, Response::Session(status) if status.stored > 100)
        });
        let status = mined.daemon.stop("begun");
        assert!(status.stored > 100 && status.lost == 0, "{point}: {status:?}");
        program.kill();
        mined.end();
    }
}

/// P2: the losses of a program that ends are counted once, whenever the worker is killed.
#[test]
fn a_program_that_ends_is_counted_once() {
    const EVENTS: u64 = 20_000;
    let mined = Mined::new("slot kept");
    let full = SessionConfig {
        mode: LogMode::Sequential { max_size: Some(128 << 10) },
        buffer_size: 8192,
        ..SessionConfig::default()
    };
    mined.daemon.start("full", full);
    let program = mined.daemon.rig.program("count", &[EVENTS, 0]);
    mined.arm();
    program.end();
    mined.daemon.rig.wait_until(|_| !mined.armed.exists());
    let status = mined.daemon.stop("full");
    assert_eq!(status.attempted, EVENTS, "{status:?}");
    assert_eq!(status.stored + status.lost, EVENTS, "{status:?}");
    mined.end();
}
