//! Everything that can happen to a daemon, at random, for any time: `cargo xtask torture`.
//!
//! A round is a daemon with sessions that last to its end, and some dozens of attacks in the order of its seed. `check` has the
//! conditions that must hold afterwards. The seed of a round is that of the run plus its number: a round that failed can be
//! repeated alone.

mod attacks;
mod check;

use etw_session::{Compression, Enablement, LogMode, SessionClock, SessionConfig};
use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use etw_wire::requests::{Request, Response, SessionStatus};

use crate::daemon::Daemon;
use crate::hostile_input::Random;
use crate::rig::*;
use check::Said;

/// A round of some seconds that takes so long hangs: some request is never answered. On a busy machine rounds take minutes: while
/// attacks take longer, the programs go on writing, and millions of events are compared.
const LONGEST: Duration = Duration::from_secs(900);

/// P2, P3, P8: a few rounds.
#[test]
fn a_short_torture() {
    torture(1..5, Duration::MAX);
}

/// Runs for `ETW_TORTURE_SECONDS`, from seed `ETW_TORTURE_SEED` on.
#[test]
#[ignore = "long: cargo xtask torture"]
fn a_long_torture() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let seconds = number("ETW_TORTURE_SECONDS").unwrap_or(60);
    let first = number("ETW_TORTURE_SEED").unwrap_or(1);
    torture(first..u64::MAX, Duration::from_secs(seconds));
}

fn torture(seeds: std::ops::Range<u64>, length: Duration) {
    let started = Instant::now();
    for seed in seeds {
        let begin = Instant::now();
        let (ended, has_ended) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || {
            if has_ended.recv_timeout(LONGEST) == Err(RecvTimeoutError::Timeout) {
                eprintln!("torture: FAILED: seed {seed} has not ended in {LONGEST:?}");
                std::process::exit(1);
            }
        });
        let round = std::panic::catch_unwind(|| Round::new(seed).run());
        drop(ended);
        match round {
            Ok(summary) => eprintln!("torture: seed {seed}: {summary} {:?}", begin.elapsed()),
            Err(cause) => {
                eprintln!("torture: FAILED; again: cargo xtask torture --minutes 0 --seed {seed}");
                std::panic::resume_unwind(cause);
            }
        }
        if started.elapsed() >= length {
            break;
        }
    }
}

/// A session and its files.
struct Recording {
    name: String,
    start: SessionConfig,
    files: Vec<PathBuf>,
}

struct Round {
    random: Random,
    daemon: Daemon,
    /// Descriptors of worker and keeper before the first attack.
    descriptors: (usize, usize),
    has_small_disk: bool,
    /// Sessions of the whole round, and those that start and stop within it.
    steady: Vec<Recording>,
    passing: Vec<Recording>,
    programs: Vec<(Program, &'static str)>,
    owner: Option<Program>,
    consumers: Vec<attacks::Consumer>,
    said: Said,
    /// For names that are used once.
    next: u32,
    kills: u32,
    events: u64,
    /// `ETW_TORTURE_DEEDS`: prints each attack, for rounds that hang.
    is_told: bool,
}

impl Round {
    fn new(seed: u64) -> Round {
        let (daemon, _, has_small_disk) = Daemon::with_small_disk();
        eprintln!("torture: seed {seed} in {}", daemon.rig.directory.display());
        daemon.ask(&Request::List);
        let mut round = Round {
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            daemon,
            descriptors: (0, 0),
            has_small_disk,
            steady: Vec::new(),
            passing: Vec::new(),
            programs: Vec::new(),
            owner: None,
            consumers: Vec::new(),
            said: Said::new(),
            next: 0,
            kills: 0,
            events: 0,
            is_told: std::env::var_os("ETW_TORTURE_DEEDS").is_some(),
        };
        // The connection of the request above may still be open.
        std::thread::sleep(Duration::from_millis(50));
        round.descriptors = round.open_descriptors();
        round
    }

    fn open_descriptors(&self) -> (usize, usize) {
        let worker = self.daemon.worker().map_or(usize::MAX, check::descriptors);
        (worker, check::descriptors(self.daemon.keeper.id()))
    }

    fn run(mut self) -> String {
        for kind in [self.random.next(3), 3 + self.random.next(3)] {
            let recording = self.begin(kind, false);
            self.steady.push(recording);
        }
        let attacks = 20 + self.random.next(30);
        for _ in 0..attacks {
            let deed = self.random.next(attacks::COUNT);
            self.does(deed);
            let pause = self.random.next(20_000);
            std::thread::sleep(Duration::from_micros(pause));
        }
        self.finish();
        self.clean();
        format!(
            "{attacks} attacks, {} kills of the worker, {} threads, {} events,",
            self.kills,
            self.said.len(),
            self.events
        )
    }

    /// Starts a session of one of six kinds with space for everything. Passing sessions do not delay the others.
    fn begin(&mut self, kind: u64, independent: bool) -> Recording {
        let small =
            SessionConfig { buffer_size: 8192, buffer_count: 2048, ..SessionConfig::default() };
        let start = match kind {
            0 => SessionConfig {
                flush_timer: Some(Duration::from_millis(5)),
                buffer_count: 256,
                ..SessionConfig::default()
            },
            1 => SessionConfig { compression: Compression::On, ..small },
            2 => SessionConfig { mode: LogMode::Append, clock: SessionClock::System, ..small },
            3 => SessionConfig { mode: LogMode::NewFile { max_size: 256 << 10 }, ..small },
            4 => SessionConfig { mode: LogMode::Buffering, ..small },
            _ => SessionConfig { mode: LogMode::Circular { max_size: 1 << 20 }, ..small },
        };
        // No file of a series may have the name of another session's.
        let name = self.name(if start.mode.policy().is_series() { "series%d-" } else { "s" });
        self.start(&name, SessionConfig { independent, ..start })
    }

    fn name(&mut self, kind: &str) -> String {
        self.next += 1;
        format!("{kind}{}", self.next)
    }

    fn start(&mut self, name: &str, start: SessionConfig) -> Recording {
        let file = self.daemon.rig.file(&format!("{name}.etl"));
        let has_file = !start.real_time && start.mode != LogMode::Buffering;
        let file = start.file.clone().or_else(|| has_file.then_some(file));
        let enable = vec![Enablement::new(provider(), all())];
        let start = SessionConfig { name: name.to_owned(), file, enable, ..start };
        match self.daemon.ask(&Request::start(start.clone())) {
            Response::Session(_) => {}
            // The worker was killed after it had started the session.
            Response::Error { status: 183, .. } => {}
            other => panic!("{name}: {other:?}"),
        }
        let files = start.file.clone().into_iter().collect();
        Recording { name: name.to_owned(), start, files }
    }

    /// Stops a session and checks what it has recorded. `None`: the worker was killed after it had stopped the session, and the
    /// status is lost.
    fn stop(&mut self, recording: Recording, is_steady: bool) {
        let Recording { name, start, mut files } = recording;
        if start.mode == LogMode::Buffering {
            let file = self.daemon.rig.file(&format!("{name}-snapshot.etl"));
            let request = Request::Snapshot { session: name.clone(), file: file.clone() };
            let answer = self.daemon.ask(&request);
            assert!(matches!(answer, Response::Done { .. }), "{name}: {answer:?}");
            files.push(file);
        }
        let status = match self.daemon.ask(&Request::Stop { session: name.clone() }) {
            Response::Session(status) => Some(*status),
            Response::Error { status: 4201, .. } => None,
            other => panic!("{name}: {other:?}"),
        };
        if let Some(status) = &status {
            check::balanced(status);
        }
        if start.mode.policy().is_series() && !files.is_empty() {
            let pattern = files[0].to_string_lossy().into_owned();
            let numbered = |number: u32| PathBuf::from(pattern.replace("%d", &number.to_string()));
            files = (1..).map(numbered).take_while(|path| path.exists()).collect();
        }
        // A deleted file is complete where nobody sees it.
        files.retain(|file| file.exists());
        if files.is_empty() {
            return;
        }
        let found = check::read(&name, &files);
        let said = is_steady.then_some(&self.said);
        let Some(status) = status else { return };
        if start.mode.policy().overwrites_file() {
            // Events that the file does not contain any more are in no count: they were stored.
        } else if start.mode == LogMode::Buffering {
            // The oldest events may be overwritten; of a program that has ended, all of them.
            found.complete(&name, &status, None);
        } else {
            found.complete(&name, &status, said);
            assert_eq!(found.events, status.stored, "{name}: {status:?}");
        }
        if is_steady {
            self.events = self.events.max(found.events);
        }
    }

    fn query(&self, name: &str) -> Option<SessionStatus> {
        match self.daemon.ask(&Request::Query { session: name.to_owned() }) {
            Response::Session(status) => Some(*status),
            _ => None,
        }
    }

    /// Ends the sessions and programs that attacks have started.
    fn finish(&mut self) {
        for number in (0..self.programs.len()).rev() {
            self.end_program(number);
        }
        self.end_owner();
        for recording in std::mem::take(&mut self.passing) {
            self.stop(recording, false);
        }
        for consumer in std::mem::take(&mut self.consumers) {
            consumer.end();
        }
        for recording in std::mem::take(&mut self.steady) {
            self.stop(recording, true);
        }
    }

    /// Checks that nothing is left.
    fn clean(&mut self) {
        let end = Instant::now() + LIMIT;
        let least = self.descriptors;
        loop {
            let now = self.open_descriptors();
            if now.0 <= least.0 && now.1 <= least.1 {
                break;
            }
            assert!(
                Instant::now() < end,
                "worker, keeper: {now:?} descriptors; before {least:?}; the keeper's: {:?}",
                check::descriptors_of(self.daemon.keeper.id())
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        let Response::Providers { providers } = self.daemon.ask(&Request::Providers) else {
            panic!()
        };
        assert!(providers.is_empty(), "{providers:?}");
        let rig = &self.daemon.rig;
        assert!(matches!(self.daemon.ask(&Request::Shutdown), Response::Done { .. }));
        let status = self.daemon.keeper.child.wait().unwrap();
        assert!(status.success(), "the keeper ended with {status}");
        rig.wait_until(|rig| check::processes_of(&rig.runtime()).is_empty());
        let left = std::fs::read_dir(rig.runtime()).unwrap().flatten();
        let mut left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, ["controllers-lock", "lock", "word"]);
        // Memory of global sessions has no name; a file in `/dev/shm` would be a private session's.
        let shared = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
        let ours = rig.directory.file_name().unwrap().to_string_lossy().into_owned();
        for file in shared {
            assert!(!file.file_name().to_string_lossy().contains(&ours), "{file:?}");
        }
    }
}
