//! Linux: a command that is recorded by a host of its own: keeper and worker, as every other host. The session is leased, so it ends with
//! this process, and has what was committed until then, if this process is killed.

use super::super::daemon::start_failure;
use super::super::host::{Client, ask_session, failure, lease};
use super::super::options::{asked_names, check_config, enablements};
use super::super::session::explain_zero;
use super::super::signals::Signals;
use super::super::spawn_gate::SpawnGate;
use super::{Arguments, CommandEnd, RECORDING_FAILED, cannot_be_run};
use crate::output::Failure;
use etw_wire::ClientError;
use etw_wire::requests::{Request, Response, StartRequest};
use etw_wire::runtime_directory::RECORD_VARIABLE;
use etwd::take_system_providers;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

/// Records a command with a host of its own, which the command's processes find by the environment: no service is needed, and
/// other programs are not recorded.
pub fn record_command(
    arguments: &Arguments,
    program: &std::ffi::OsStr,
    words: &[std::ffi::OsString],
    signals: &Signals,
) -> Result<CommandEnd, Failure> {
    arguments.options.check_output(&arguments.output, arguments.replace)?;
    // Before a trace is replaced.
    find_program(program).map_err(|error| cannot_be_run(program, &error))?;
    let (client, host) = CommandHost::start()?;
    let name = format!("etw-record-{}", std::process::id());
    let mut config = arguments.options.config(&name, Some(&arguments.output))?;
    // Nothing is registered yet: names are found in schemas, or kept until a program registers them.
    let lookup = arguments.schemas.lookup(None)?;
    config.enable = enablements(&arguments.provider, &arguments.enable, &lookup)?;
    config.system = arguments.system.config()?;
    match take_system_providers(&mut config) {
        Ok(notes) => notes.iter().for_each(|note| eprintln!("etw: warning: {note}")),
        Err(no) => drop(refused(no)?),
    }
    check_config(&config)?;
    let mut command = Command::new(program);
    command.args(words).env(RECORD_VARIABLE, &host.directory.path);
    signals.leave_to(&mut command);
    // The system's events of the command begin with its first instruction, so it waits until they are recorded.
    let gate = match &mut config.system {
        Some(system) => {
            let gate = SpawnGate::spawn(command).map_err(start_failure)?;
            system.process = gate.process();
            if system.process.is_some() {
                Ok(gate)
            } else {
                // It could not be forked. Without a process, the whole machine would be asked for.
                let error = gate.open().err().unwrap_or_else(|| io::ErrorKind::Other.into());
                return Err(cannot_be_run(program, &error));
            }
        }
        None => Err(command),
    };
    let start = Request::start(StartRequest { config, leased: true });
    let status = ask_session(&client, &start)?;
    if let Some(warning) = &status.error {
        eprintln!("etw: warning: {warning}");
    }
    let _lease = lease::hold(client, host.directory.path.clone(), name.clone());
    let spawned = match gate {
        Ok(gate) => gate.open(),
        Err(mut command) => command.spawn(),
    };
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            // The empty trace is of no use.
            if let Ok(client) = Client::connect(&host.directory.path) {
                let _ = client.ask(&Request::Stop { session: name });
            }
            let _ = std::fs::remove_file(&arguments.output);
            return Err(cannot_be_run(program, &error));
        }
    };
    let ended = wait(&mut child, signals)?;
    if !ended.success() {
        let how = match (ended.code(), ended.signal()) {
            (Some(code), _) => format!("status {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "an unknown status".to_owned(),
        };
        eprintln!("etw: note: {} ended with {how}", program.to_string_lossy());
    }
    let client = Client::connect(&host.directory.path)
        .map_err(|error| host_failure(error, &arguments.output))?;
    let recent = client.ask(&Request::RecentProviders);
    let stopped = match client.ask(&Request::Stop { session: name }) {
        Ok(Response::Session(status)) => *status,
        Ok(_) => return Err(Failure::new("unexpected response from the session host")),
        Err(error) => return Err(host_failure(error, &arguments.output)),
    };
    let status = super::ended_after(&status, stopped);
    let asked = asked_names(&arguments.provider);
    explain_zero(&status, recent, &asked, "the host of this command");
    // A status is 0 to 255, a signal 1 to 64.
    let code = ended.code().or(ended.signal().map(|signal| 128 + signal));
    let exit_status = code.map_or(RECORDING_FAILED, |code| code as u8);
    Ok(CommandEnd { session: status, exit_status })
}

/// Looks for the program of a command, as the system does when it is executed.
fn find_program(program: &OsStr) -> io::Result<()> {
    let folders = match program.as_bytes().contains(&b'/') {
        // One folder, this one.
        true => OsString::new(),
        false => std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into()),
    };
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    for folder in std::env::split_paths(&folders) {
        let path = folder.join(program);
        match can_execute(&path) {
            Ok(()) => return find_interpreter(&path),
            Err(error)
                if [libc::ENOENT, libc::ENOTDIR].map(Some).contains(&error.raw_os_error()) => {}
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// Looks for the interpreter that a script names in its first line.
fn find_interpreter(script: &Path) -> io::Result<()> {
    /// The kernel reads so much of a script.
    const HEAD: u64 = 256;
    let mut head = Vec::new();
    // A program that may only be executed is no script: its interpreter would have to read it.
    if File::open(script).and_then(|file| file.take(HEAD).read_to_end(&mut head)).is_err() {
        return Ok(());
    }
    let Some(line) = head.strip_prefix(b"#!").and_then(|rest| rest.split(|b| *b == b'\n').next())
    else {
        return Ok(());
    };
    let mut words = line.split(|byte| b" \t".contains(byte)).filter(|word| !word.is_empty());
    let Some(interpreter) = words.next().map(OsStr::from_bytes) else { return Ok(()) };
    can_execute(Path::new(interpreter)).map_err(|error| {
        let what = format!("its interpreter {}: {error}", interpreter.to_string_lossy());
        io::Error::new(error.kind(), what)
    })
}

fn can_execute(path: &Path) -> io::Result<()> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::from_raw_os_error(libc::EACCES));
    }
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a string with its NUL.
    match unsafe { libc::access(path.as_ptr(), libc::X_OK) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits for the command, and passes signals on to it.
fn wait(child: &mut Child, signals: &Signals) -> Result<ExitStatus, Failure> {
    loop {
        match signals.wait() {
            libc::SIGCHLD => {
                if let Some(ended) = child.try_wait().map_err(Failure::new)? {
                    return Ok(ended);
                }
            }
            // The terminal sends it to the command, too, which decides whether it ends.
            libc::SIGINT => {}
            signal => {
                // SAFETY: numbers; the child has not been waited for, so its id is its own.
                unsafe { libc::kill(child.id() as libc::pid_t, signal) };
            }
        }
    }
}

fn refused(response: Response) -> Result<(), Failure> {
    match response {
        Response::Error { status, message } => {
            let name = etw_types::Status(status);
            Err(Failure::new(format!("{message} ({name})")))
        }
        _ => Ok(()),
    }
}

/// The host of a command, which ends with it.
struct CommandHost {
    keeper: Child,
    directory: Scratch,
}

impl CommandHost {
    fn start() -> Result<(Client, CommandHost), Failure> {
        let directory = Scratch::make()?;
        let program = std::env::current_exe().map_err(Failure::new)?;
        // If this process is killed, the host ends when it has completed the trace.
        let arguments = ["daemon", "--of-command", "--idle-exit", "5"];
        let (client, keeper) =
            Client::start(&directory.path, &program, &arguments).map_err(failure)?;
        Ok((client, CommandHost { keeper, directory }))
    }
}

/// The failure of a host that does not answer; `output`: the trace that it wrote.
fn host_failure(error: ClientError, output: &Path) -> Failure {
    match error {
        error if error.is_end() || matches!(error, ClientError::NoHost(_)) => {
            Failure::new(format!(
                "the host of this command was killed before it had stored everything; etw check {} shows what the trace has",
                output.display()
            ))
        }
        error => failure(error),
    }
}

impl Drop for CommandHost {
    fn drop(&mut self) {
        // Otherwise it ends when it is idle, and nothing depends on it any more.
        let client = Client::connect(&self.directory.path);
        if client.is_ok_and(|client| client.ask(&Request::Shutdown).is_ok()) {
            let _ = self.keeper.wait();
        }
    }
}

/// A temporary directory for the command's host.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn make() -> Result<Scratch, Failure> {
        let base = std::env::temp_dir();
        remove_left(&base);
        for number in 0..1000 {
            let path = base.join(format!("etw-record-{}-{number}", std::process::id()));
            let made =
                std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
                    .create(&path);
            match made {
                Ok(()) => return Ok(Scratch { path }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Failure::new(format!("{}: {error}", path.display()))),
            }
        }
        Err(Failure::new(format!(
            "{}: no folder etw-record-* can be created; set TMPDIR to another folder",
            base.display()
        )))
    }
}

/// Removes the directories of commands that were killed: nobody holds the lock of their host any more. Directories of other users
/// or with other names stay.
fn remove_left(base: &Path) {
    // SAFETY: takes nothing and gives a number.
    let user = unsafe { libc::geteuid() };
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix("etw-record-")) else {
            continue;
        };
        let mut numbers = rest.split('-').map(|text| text.parse::<u32>().ok());
        let (Some(Some(process)), Some(Some(_)), None) =
            (numbers.next(), numbers.next(), numbers.next())
        else {
            continue;
        };
        let is_own = entry.metadata().is_ok_and(|data| data.is_dir() && data.uid() == user);
        // A live command may be about to take its lock. (In another PID namespace it is not seen, but it takes the lock soon.)
        let is_there = Path::new(&format!("/proc/{process}")).exists();
        if !is_own || is_there {
            continue;
        }
        let path = entry.path();
        if let Ok(lock) = std::fs::File::open(path.join("lock"))
            && lock.try_lock().is_ok()
        {
            // Nothing in it is needed.
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing in it is needed.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
