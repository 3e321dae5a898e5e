//! A host with programs and workers of its own, for the tests.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use etw::Guid;
use etw_etl::read::{Records, TraceFile};
use etw_session::{EnableInfo, Enablement, LogMode, SessionConfig};
use etw_types::LevelKeyword;
use etw_wire::requests::{Request, Response, SessionStatus};
use etwd::{Host, HostOptions};

/// The time that a condition may take. It ends a test that hangs; how fast something is, no test here decides.
pub const LIMIT: Duration = Duration::from_secs(120);

/// The directory of one test, and the host in it.
pub struct Rig {
    pub host: Option<Host>,
    pub directory: PathBuf,
}

pub fn provider() -> Guid {
    Guid::from_name("OpenEtw.Test")
}

pub fn all() -> EnableInfo {
    EnableInfo { wanted: LevelKeyword::ALL, ..EnableInfo::default() }
}

impl Rig {
    pub fn without_host() -> Rig {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("etwd-test-{}-{number}", std::process::id());
            let directory = std::env::temp_dir().join(name);
            match std::fs::DirBuilder::new().mode(0o700).create(&directory) {
                Ok(()) => return Rig { host: None, directory },
                // Left by a test that failed in an earlier process with this id.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("{}: {error}", directory.display()),
            }
        }
    }

    pub fn new() -> Rig {
        let mut rig = Rig::without_host();
        rig.begin();
        rig
    }

    pub fn begin(&mut self) {
        self.host = Some(Host::start(HostOptions::new(self.runtime())).unwrap());
    }

    pub fn runtime(&self) -> PathBuf {
        self.directory.join("run")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub fn ask(&self, request: Request) -> Response {
        self.host.as_ref().unwrap().ask(request)
    }

    #[track_caller]
    pub fn done(&self, request: Request) -> Vec<String> {
        match self.ask(request) {
            Response::Done { warnings } => warnings,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub fn session(&self, request: Request) -> SessionStatus {
        match self.ask(request) {
            Response::Session(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub fn refused(&self, request: Request) -> u32 {
        match self.ask(request) {
            Response::Error { status, message } => {
                assert!(!message.is_empty());
                status
            }
            other => panic!("{other:?}"),
        }
    }

    /// Starts a session with a file and the tests' provider enabled.
    pub fn start(&self, name: &str) -> PathBuf {
        self.start_with(name, SessionConfig::default())
    }

    #[track_caller]
    pub fn start_with(&self, name: &str, start: SessionConfig) -> PathBuf {
        let file = self.file(&format!("{name}.etl"));
        let has_file = !start.real_time && start.mode != LogMode::Buffering;
        let enable = if start.enable.is_empty() {
            vec![Enablement::new(provider(), all())]
        } else {
            start.enable
        };
        let start = SessionConfig {
            name: name.to_owned(),
            file: has_file.then(|| file.clone()),
            enable,
            ..start
        };
        self.session(Request::start(start));
        file
    }

    pub fn stop(&self, name: &str) -> SessionStatus {
        self.session(Request::Stop { session: name.to_owned() })
    }

    pub fn query(&self, name: &str) -> SessionStatus {
        self.session(Request::Query { session: name.to_owned() })
    }

    /// The test binary in a role, as a program of this rig.
    pub fn command(&self, role: &str, arguments: &[u64]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let arguments: Vec<String> = arguments.iter().map(u64::to_string).collect();
        command
            .args(["program_roles::run", "--exact", "--nocapture", "--test-threads=1"])
            .env("ETW_TEST_ROLE", role)
            .env("ETW_TEST_ARGS", arguments.join(" "))
            .env(etw_wire::runtime_directory::VARIABLE, self.runtime())
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        command
    }

    /// [`command`](Rig::command) as another user, for tests of root, with the rig open to every user.
    pub fn command_as(&self, user: u32, group: u32, role: &str, arguments: &[u64]) -> Command {
        use std::os::unix::process::CommandExt;
        let open = |path: &Path, mode| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(path, mode).unwrap();
        };
        open(&self.directory, 0o755);
        open(&self.runtime(), 0o755);
        open(&self.runtime().join("socket"), 0o666);
        // Only root may be able to read the test binary's folder: a copy.
        let copy = self.file("copy");
        if !copy.exists() {
            std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
            open(&copy, 0o755);
        }
        let own = self.command(role, arguments);
        let mut command = Command::new(&copy);
        command.args(own.get_args()).stdin(Stdio::null()).stdout(Stdio::piped());
        for (name, value) in own.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        command.uid(user).gid(group);
        command
    }

    pub fn program(&self, role: &str, arguments: &[u64]) -> Program {
        Program::start(&mut self.command(role, arguments))
    }

    /// Waits until a condition holds that another process brings about.
    #[track_caller]
    pub fn wait_until(&self, mut holds: impl FnMut(&Rig) -> bool) {
        let end = Instant::now() + LIMIT;
        while !holds(self) {
            assert!(Instant::now() < end, "the condition does not hold within {LIMIT:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.host = None;
        if !std::thread::panicking() {
            std::fs::remove_dir_all(&self.directory).unwrap();
        }
    }
}

pub struct Program {
    pub child: Child,
    lines: BufReader<ChildStdout>,
}

impl Program {
    pub fn start(command: &mut Command) -> Program {
        let mut child = loop {
            match command.spawn() {
                // Another test may just have forked and have a copied program open for a moment.
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                child => break child.unwrap(),
            }
        };
        let lines = BufReader::new(child.stdout.take().unwrap());
        Program { child, lines }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line that the program prints, without those of the test harness; `None`: it has ended.
    pub fn line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            let line = line.trim().to_owned();
            let is_harness = line.is_empty()
                || ["running ", "test ", "test result"].iter().any(|p| line.starts_with(p));
            if !is_harness {
                return Some(line);
            }
            // The program may continue a line of the harness.
            if let Some((_, rest)) = line.split_once("... ")
                && !rest.is_empty()
            {
                return Some(rest.to_owned());
            }
        }
    }

    #[track_caller]
    pub fn expect(&mut self, wanted: &str) {
        assert_eq!(self.line().as_deref(), Some(wanted));
    }

    /// Waits for a line, and kills the program.
    #[track_caller]
    pub fn kill_after(mut self, wanted: &str) {
        self.expect(wanted);
        self.kill();
    }

    #[track_caller]
    pub fn end(mut self) {
        while self.line().is_some() {}
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }

    pub fn kill(mut self) -> u64 {
        self.child.kill().unwrap();
        let mut last = 0;
        while let Some(line) = self.line() {
            last = line.parse().unwrap_or(last);
        }
        self.child.wait().unwrap();
        last
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A counted event of the tests' provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counted {
    pub process: u32,
    pub thread: u64,
    pub number: u64,
}

/// The counted events of a trace, which must be sound and in order.
#[track_caller]
pub fn events(path: &Path) -> Vec<Counted> {
    events_of(&[path.to_owned()])
}

/// The counted events of several files, as one trace.
#[track_caller]
pub fn events_of(paths: &[PathBuf]) -> Vec<Counted> {
    let files: Vec<TraceFile> = paths.iter().map(|path| TraceFile::open(path).unwrap()).collect();
    assert!(files.iter().all(TraceFile::is_finalised));
    let count = files.len() as u32;
    let mut records = Records::new(files);
    let mut counted = Vec::new();
    let mut last = i64::MIN;
    while let Some(record) = records.next() {
        let time = record.raw_timestamp().unwrap();
        assert!(time >= last);
        last = time;
        if record.provider != Some(provider()) {
            continue;
        }
        let number = |at: usize| u64::from_le_bytes(record.payload[at..at + 8].try_into().unwrap());
        counted.push(Counted {
            process: record.process_id.unwrap(),
            thread: number(0),
            number: number(8),
        });
    }
    assert!(records.damage().is_empty(), "{:?}", records.damage().kept());
    assert!((0..count).all(|file| records.out_of_order(file) == 0));
    counted
}

/// Number of events by process and thread; each number occurs once and in order from 0.
#[track_caller]
pub fn contiguous(events: &[Counted]) -> BTreeMap<(u32, u64), u64> {
    let mut next = BTreeMap::new();
    for event in events {
        let next = next.entry((event.process, event.thread)).or_insert(0);
        let exists = || events.contains(&Counted { number: *next, ..*event });
        assert_eq!(event.number, *next, "{event:?}; the other one exists: {}", exists());
        *next += 1;
    }
    next
}
