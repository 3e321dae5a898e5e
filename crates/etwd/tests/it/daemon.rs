//! The daemon as a service: socket activation, its log, its end.

use etw_session::{Enablement, LogMode, SessionConfig};
use std::time::{Duration, Instant};

use etw_wire::host_client::{Client, ClientError};
use etw_wire::requests::{Request, Response, SessionStatus};

use crate::rig::*;

/// The daemon, in two processes.
pub struct Daemon {
    pub rig: Rig,
    pub keeper: Program,
}

impl Daemon {
    pub fn new() -> Daemon {
        Daemon::with(Rig::without_host(), &[])
    }

    /// Starts a daemon; `arguments`: those of the role `keeper`.
    pub fn with(rig: Rig, arguments: &[u64]) -> Daemon {
        let keeper = rig.program("keeper", arguments);
        Daemon { rig, keeper }
    }

    /// A daemon that sees a disk of half a MiB at the returned path, if this system allows it; the returned flag says so.
    pub fn with_small_disk() -> (Daemon, std::path::PathBuf, bool) {
        let rig = Rig::without_host();
        let place = rig.file("small");
        std::fs::create_dir(&place).unwrap();
        let mut command = rig.command("keeper", &[]);
        command.env("ETW_TEST_SMALL_DISK", &place);
        let mut keeper = Program::start(&mut command);
        let has_small_disk = keeper.line().as_deref() == Some("small disk");
        if !has_small_disk {
            eprintln!("skipped: only root can mount a small disk to be filled");
        }
        (Daemon { rig, keeper }, place, has_small_disk)
    }

    /// Sends a request. If the worker is killed meanwhile, the next one receives it again.
    pub fn ask(&self, request: &Request) -> Response {
        let end = Instant::now() + LIMIT;
        loop {
            let answer =
                Client::connect(&self.rig.runtime()).and_then(|client| client.ask(request));
            match answer {
                Ok(response) => return response,
                Err(ClientError::Refused { status, message }) => {
                    return Response::Error { status, message };
                }
                Err(error) => assert!(Instant::now() < end, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn start(&self, name: &str, start: SessionConfig) -> std::path::PathBuf {
        let file = self.rig.file(&format!("{name}.etl"));
        let start = SessionConfig {
            name: name.to_owned(),
            file: (start.mode != LogMode::Buffering).then(|| file.clone()),
            enable: if start.enable.is_empty() {
                vec![Enablement::new(provider(), all())]
            } else {
                start.enable
            },
            ..start
        };
        let Response::Session(_) = self.ask(&Request::start(start)) else { panic!() };
        file
    }

    pub fn stop(&self, name: &str) -> SessionStatus {
        match self.ask(&Request::Stop { session: name.to_owned() }) {
            Response::Session(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    pub fn worker(&self) -> Option<u32> {
        let keeper = self.keeper.id();
        let threads = std::fs::read_dir(format!("/proc/{keeper}/task")).unwrap();
        threads.flatten().find_map(|thread| {
            let children = std::fs::read_to_string(thread.path().join("children")).ok()?;
            // One that was killed may be there still.
            children.split_ascii_whitespace().next_back()?.parse().ok()
        })
    }

    /// Ends the daemon as a controller does. Nothing in its directory disturbs the next one.
    pub fn end(self) -> Rig {
        assert!(matches!(self.ask(&Request::Shutdown), Response::Done { .. }));
        let Daemon { rig, keeper } = self;
        keeper.end();
        assert!(!rig.runtime().join("socket").exists());
        rig
    }

    pub fn kill_worker(&self) {
        self.rig.wait_until(|_| self.worker().is_some());
        let worker = self.worker().unwrap();
        // SAFETY: the arguments are numbers; the process belongs to this test.
        assert_eq!(unsafe { libc::kill(worker as libc::pid_t, libc::SIGKILL) }, 0);
        self.rig.wait_until(|_| self.worker().is_some_and(|other| other != worker));
    }
}

/// A service manager's socket serves as the host's own; a socket of another kind is refused. OV-1
#[test]
fn a_service_managers_socket_serves() {
    use std::os::fd::{AsRawFd, OwnedFd};
    let keeper = |rig: &Rig, socket: &OwnedFd| {
        let socket = socket.as_raw_fd();
        let mut command = rig.command("activated", &[]);
        // SAFETY: one system call, in a child that then becomes another program.
        unsafe {
            std::os::unix::process::CommandExt::pre_exec(&mut command, move || {
                // A descriptor that has this number already would stay open only until `exec`.
                match socket {
                    3 => libc::fcntl(3, libc::F_SETFD, 0),
                    _ => libc::dup2(socket, 3),
                };
                Ok(())
            });
        }
        command
    };
    let bound = |place: &std::path::Path, kind, listens| {
        use rustix::net::{AddressFamily, SocketAddrUnix, bind, listen, socket};
        let socket = socket(AddressFamily::UNIX, kind, None).unwrap();
        bind(&socket, &SocketAddrUnix::new(place).unwrap()).unwrap();
        if listens {
            listen(&socket, 16).unwrap();
        }
        socket
    };
    use rustix::net::SocketType;
    let wrong = [
        ("socket", SocketType::STREAM, true, "ListenSequentialPacket="),
        ("socket", SocketType::SEQPACKET, false, "ListenSequentialPacket="),
        ("another", SocketType::SEQPACKET, true, "runtime directory"),
    ];
    for (name, kind, listens, why) in wrong {
        let rig = Rig::without_host();
        std::fs::create_dir(rig.runtime()).unwrap();
        let socket = bound(&rig.runtime().join(name), kind, listens);
        let said = keeper(&rig, &socket).output().unwrap();
        let told = String::from_utf8_lossy(&said.stderr);
        assert!(!said.status.success() && told.contains(why), "{told}");
    }
    let rig = Rig::without_host();
    std::fs::create_dir(rig.runtime()).unwrap();
    let socket = bound(&rig.runtime().join("socket"), SocketType::SEQPACKET, true);
    let keeper = Program::start(&mut keeper(&rig, &socket));
    let daemon = Daemon { rig, keeper };
    daemon.start("activated", SessionConfig::default());
    daemon.rig.program("count", &[10, 0]).end();
    assert_eq!(daemon.stop("activated").stored, 10);
}

/// OV-1: the daemon logs its start and end, and those of its sessions.
#[test]
fn the_log_names_sessions() {
    let rig = Rig::without_host();
    let log = rig.file("log");
    let mut command = rig.command("keeper", &[]);
    command.stderr(std::fs::File::create(&log).unwrap()).env_remove("JOURNAL_STREAM");
    let daemon = Daemon { keeper: Program::start(&mut command), rig };
    let file = daemon.start("logged", SessionConfig::default());
    daemon.stop("logged");
    let rig = daemon.end();
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("etwd: ")).collect();
    let directory = rig.runtime();
    // SAFETY: takes nothing and returns a number.
    let user = unsafe { libc::geteuid() };
    let expected = [
        format!("etwd: host of {} started", directory.display()),
        format!("etwd: session logged started by user {user}, to {}", file.display()),
        "etwd: session logged ended: 0 events stored, 0 lost".to_owned(),
        format!("etwd: host of {} ended", directory.display()),
    ];
    assert_eq!(lines, expected, "{text}");
}
