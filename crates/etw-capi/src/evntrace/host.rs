//! The host of global sessions: asked, and started where there is none.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use etw_api::Status;
use etw_wire::client::{Client, ClientError};
use etw_wire::control::{Request, Response};
use etw_wire::dir::{self, Directory};

/// Names a program that is run in place of `etw`.
const VARIABLE: &str = "ETW_DAEMON";
/// A host that this library has started ends when it has had nothing to do for ten seconds.
const ARGUMENTS: [&str; 3] = ["daemon", "--idle-exit", "10"];
/// How long a host may take to begin.
const BEGINNING: Duration = Duration::from_secs(5);
/// How long the providers of this process may take to find a host that it has started.
const OWN_PROVIDERS: Duration = Duration::from_millis(500);

/// Hosts that this process has started; those that have ended are taken note of when the next one is started, so that at most one
/// is a zombie.
static STARTED: Mutex<Vec<Child>> = Mutex::new(Vec::new());

fn status(error: &ClientError) -> Status {
    Status(error.status())
}

/// # Errors
/// 4201 where no host runs: so no session does. 5: it is not this user's to control.
pub fn connect() -> Result<Client, Status> {
    Client::connect(&dir::of_user()).map_err(|error| status(&error))
}

/// # Errors
/// As [`connect`]; 2: no program that would be a host is found. 1450: it did not begin.
pub fn connect_or_start() -> Result<Client, Status> {
    let named = dir::of_user();
    let directory = std::path::absolute(&named).unwrap_or(named);
    match Client::connect(&directory) {
        Err(ClientError::NoHost(_)) => {}
        other => return other.map_err(|error| status(&error)),
    }
    Directory::open_or_make(&directory).map_err(|error| status(&error.into()))?;
    let program = program().ok_or(Status::ERROR_FILE_NOT_FOUND)?;
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    started.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    let mut child = spawn(&program, &directory).map_err(|error| status(&error.into()))?;
    let end = Instant::now() + BEGINNING;
    let client = loop {
        match Client::connect(&directory) {
            Err(ClientError::NoHost(_)) if Instant::now() < end => {}
            other => break other,
        }
        // Another process may have been faster: ours finds its host there, and ends.
        if let Ok(Some(code)) = child.try_wait()
            && !code.success()
        {
            break Client::connect(&directory);
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    started.push(child);
    let client = client.map_err(|error| match status(&error) {
        Status::ERROR_WMI_INSTANCE_NOT_FOUND => Status::ERROR_NO_SYSTEM_RESOURCES,
        other => other,
    })?;
    wait_for_own_providers(&client);
    Ok(client)
}

fn spawn(program: &Path, directory: &Path) -> std::io::Result<Child> {
    let mut command = Command::new(program);
    command
        .args(ARGUMENTS)
        .arg(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // It outlives this program: neither its terminal's job, nor its working directory, nor its descriptors are the host's.
        .process_group(0)
        .current_dir("/");
    // SAFETY: one system call, which is all that a child of a program with threads may do.
    unsafe {
        command.pre_exec(|| {
            // A kernel that does not know it leaves them open.
            libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
            Ok(())
        })
    };
    command.spawn()
}

/// By the environment, except in a program that has more rights than its user.
fn program() -> Option<PathBuf> {
    if let Some(named) = dir::variable(VARIABLE) {
        return std::path::absolute(named).ok();
    }
    let path = dir::variable("PATH")?;
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

/// Programs find a host that has just begun by themselves, each when it comes to it. What this process writes behind its own
/// `EnableTraceEx2` is to be recorded, so its providers have to be there.
fn wait_for_own_providers(client: &Client) {
    if !crate::evntprov::has_registered() && !crate::classic::has_registered() {
        return;
    }
    let end = Instant::now() + OWN_PROVIDERS;
    while Instant::now() < end {
        if let Ok(Response::Providers { providers }) = client.ask(&Request::Providers)
            && providers.iter().any(|provider| provider.pids.contains(&std::process::id()))
        {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// # Errors
/// The host's status.
pub fn ask(client: &Client, request: &Request) -> Result<Response, Status> {
    client.ask(request).map_err(|error| status(&error))
}
