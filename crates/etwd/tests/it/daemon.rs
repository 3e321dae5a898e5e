use std::time::{Duration, Instant};

use etw_wire::client::{Client, ClientError};
use etw_wire::control::{Request, Response, SessionStatus, Start};

use crate::support::*;

/// The daemon, in two processes.
pub struct Daemon {
    pub rig: Rig,
    pub keeper: Program,
}

impl Daemon {
    pub fn new() -> Daemon {
        Daemon::with(Rig::without_host(), &[])
    }

    /// `arguments`: of the role `keeper`.
    pub fn with(rig: Rig, arguments: &[u64]) -> Daemon {
        let keeper = rig.program("keeper", arguments);
        Daemon { rig, keeper }
    }

    /// Asks; a worker that is killed meanwhile is asked again when it has been replaced.
    pub fn ask(&self, request: &Request) -> Response {
        let end = Instant::now() + Duration::from_secs(20);
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

    pub fn start(&self, name: &str, start: Start) -> std::path::PathBuf {
        let file = self.rig.file(&format!("{name}.etl"));
        let start = Start {
            name: name.to_owned(),
            file: (!start.buffering).then(|| file.clone()),
            enable: if start.enable.is_empty() { vec![(provider(), all())] } else { start.enable },
            ..start
        };
        let Response::Session(_) = self.ask(&Request::Start(Box::new(start))) else { panic!() };
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
            children.split_ascii_whitespace().next()?.parse().ok()
        })
    }

    /// Ends it as a controller does; it leaves nothing in its directory that another one would stumble over.
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
        // SAFETY: numbers; a process of this test.
        assert_eq!(unsafe { libc::kill(worker as libc::pid_t, libc::SIGKILL) }, 0);
        self.rig.wait_until(|_| self.worker().is_some_and(|other| other != worker));
    }
}
