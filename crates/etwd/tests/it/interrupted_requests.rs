//! The worker is killed in the middle of what a controller asked for: the next one goes on with it, and counts nothing twice.

use etw_session::{Enablement, LogMode, SessionConfig};
use std::time::Duration;

use etw_etl::read::TraceFile;
use etw_wire::host_client::{Client, ClientError};
use etw_wire::requests::{Request, Response, SessionStatus};

use crate::daemon::Daemon;
use crate::rig::*;

/// A daemon that is killed once at a point, when it is armed.
pub struct Mined {
    pub daemon: Daemon,
    pub armed: std::path::PathBuf,
}

impl Mined {
    pub fn new(point: &str) -> Mined {
        let rig = Rig::without_host();
        let armed = rig.file("armed");
        let mut command = rig.command("keeper", &[]);
        command.env("ETWD_FAULT", format!("{point}:{}", armed.display()));
        let keeper = Program::start(&mut command);
        Mined { daemon: Daemon { rig, keeper }, armed }
    }

    pub fn arm(&self) {
        std::fs::write(&self.armed, "").unwrap();
    }

    /// Asks again until a worker has answered; one was killed meanwhile.
    pub fn ask(&self, request: &Request) -> Response {
        self.arm();
        let answer = self.daemon.ask(request);
        assert!(!self.armed.exists(), "it was not reached");
        answer
    }

    /// Asks once, and does not hear of it. Then there is another worker, and programs have come back to it.
    pub fn begin(&self, request: &Request) {
        self.arm();
        let client = Client::connect(&self.daemon.rig.runtime()).unwrap();
        assert!(matches!(client.ask(request), Err(ClientError::Io(_))));
        assert!(!self.armed.exists(), "it was not reached");
        self.daemon.ask(&Request::List);
        std::thread::sleep(Duration::from_millis(50));
    }

    pub fn end(self) {
        // What the next worker ends for the one before holds nothing back.
        self.daemon.end();
    }
}

/// `None`: the session had come to its end when somebody was there again to be asked.
fn status(answer: Response) -> Option<SessionStatus> {
    match answer {
        Response::Session(status) => Some(*status),
        Response::Error { status: 4201, .. } => None,
        other => panic!("{other:?}"),
    }
}

/// P2, P3: a session is stopped once, whenever the worker is killed: its file has its end, no event is missing that the ledger does not have,
/// and what programs have lost is counted once.
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
        // A file that is full soon: the rest is lost, and only the programs know how much that was.
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

/// P3: what programs write while a session is being stopped is in the file up to the end, without a gap.
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
        // It has ended, although nobody heard of it.
        let answer = mined.daemon.ask(&stop);
        assert!(matches!(answer, Response::Error { status: 4201, .. }), "{point}: {answer:?}");
        mined.daemon.rig.wait_until(|_| TraceFile::open(&file).unwrap().is_finalised());
        let count: u64 = contiguous(&events(&file)).values().sum();
        assert!(count > 100, "{point}: {count}");
        program.kill();
        mined.end();
    }
}

/// P3: a provider that was being disabled is disabled; programs that have it write nothing more, and what was lost is counted once.
#[test]
fn a_provider_is_disabled_once() {
    const EVENTS: u64 = 20_000;
    for point in ["wish kept", "slot kept", "losses counted"] {
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
        mined.begin(&Request::Disable { session: "full".to_owned(), provider: provider() });
        listening.expect("Disable 0 0x0 0x0");
        let after = query().unwrap();
        assert!(after.enabled.is_empty(), "{point}: {after:?}");
        assert_eq!((after.attempted, after.lost), (before.attempted, before.lost), "{point}");
        // The slot is free: of another session nothing is counted for this one.
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

/// P3: a session that was being started is there with its providers, or not at all.
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
        std::thread::sleep(Duration::from_millis(40));
        let status = mined.daemon.stop("begun");
        assert!(status.stored > 100 && status.lost == 0, "{point}: {status:?}");
        program.kill();
        mined.end();
    }
}

/// P2: what a program has lost that ends is counted once, whenever the worker is killed.
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
