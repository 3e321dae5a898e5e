//! A host of the user's own, started by a program that is none.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::host_client::{Client, ClientError};
use crate::host_command::command;
use crate::requests::{Request, Response};
use crate::runtime_directory::{self, Directory};

/// Names a program that is run in place of `etw`.
const VARIABLE: &str = "ETW_DAEMON";
/// A host that a program has started ends when it has had nothing to do for ten seconds.
const ARGUMENTS: [&str; 3] = ["daemon", "--idle-exit", "10"];
/// How long a host may take to begin.
const BEGINNING: Duration = Duration::from_secs(5);
/// How long the providers of this process may take to find a host that has just begun.
const OWN_PROVIDERS: Duration = Duration::from_millis(500);

/// Hosts that this process has started; those that have ended are taken note of when the next one is started, so that at most one
/// is a zombie.
static STARTED: Mutex<Vec<Child>> = Mutex::new(Vec::new());

impl Client {
    /// Connects to the host of a directory, and starts one where there is none: the program that `ETW_DAEMON` names, else `etwd` or
    /// `etw` of `PATH`, with `daemon --idle-exit 10` and the directory. It outlives this program: neither its terminal's job, nor its
    /// working directory, nor its descriptors are the host's.
    ///
    /// # Errors
    /// [`ClientError`]; `NoProgram`: there is none that would be a host.
    pub fn connect_or_start_host(directory: &Path) -> Result<Client, ClientError> {
        let directory = std::path::absolute(directory).unwrap_or(directory.to_owned());
        match Client::connect(&directory) {
            Err(ClientError::NoHost(_)) => {}
            other => return other,
        }
        Directory::open_or_make(&directory)?;
        let program = program().ok_or(ClientError::NoProgram)?;
        let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
        started.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        let mut command = command(&program, &ARGUMENTS, &directory);
        let mut child = command.stderr(Stdio::null()).spawn()?;
        let end = Instant::now() + BEGINNING;
        let client = loop {
            match Client::connect(&directory) {
                Err(ClientError::NoHost(_)) if Instant::now() < end => {}
                other => break other,
            }
            // Another process may have been faster: ours finds its host there, and ends.
            if let Ok(Some(code)) = child.try_wait() {
                if !code.success() {
                    break Client::connect(&directory);
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        started.push(child);
        client.map_err(|error| match error {
            ClientError::NoHost(_) => {
                let what = format!("{} did not begin to host sessions", program.display());
                io::Error::other(what).into()
            }
            other => other,
        })
    }

    /// Waits a moment until providers of this process have come to a host that has just begun: programs find it by themselves, each
    /// when it comes to it, and what this one writes behind its own enablement is to be recorded.
    pub fn wait_for_own_providers(&self) {
        let end = Instant::now() + OWN_PROVIDERS;
        while Instant::now() < end {
            if let Ok(Response::Providers { providers }) = self.ask(&Request::Providers) {
                if providers.iter().any(|provider| provider.pids.contains(&std::process::id())) {
                    return;
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// By the environment, except in a program that has more rights than its user.
fn program() -> Option<PathBuf> {
    if let Some(named) = runtime_directory::variable(VARIABLE) {
        return std::path::absolute(named).ok();
    }
    let path = runtime_directory::variable("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let is_program = |file: &PathBuf| {
        let mode = |data: std::fs::Metadata| std::os::unix::fs::MetadataExt::mode(&data);
        file.metadata().is_ok_and(|data| data.is_file() && mode(data) & 0o111 != 0)
    };
    ["etwd", "etw"].into_iter().find_map(|name| {
        let files = folders.iter().map(|folder| folder.join(name));
        files.filter(|file| file.is_absolute()).find(is_program)
    })
}
