//! `etw record`

use super::host::{Which, ask_session};
use super::options::{EnableOptions, SessionOptions, Wanted, enablements, resolve};
use super::session::{outcome, summary};
use super::signals::Signals;
use crate::output::{Failure, Outcome};
use clap::Args;
use etw_wire::requests::{Request, Response, SessionStatus, StartRequest};
use etw_wire::runtime_directory::RECORD_VARIABLE;
use etwd::{Host, HostOptions};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Args)]
pub struct Arguments {
    /// Record to this file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Enable a provider: PROVIDER[:LEVEL[:ANY[:ALL]]]; GUID, registered name, or *Name
    #[arg(short, long, value_name = "PROVIDER", required = true)]
    provider: Vec<Wanted>,
    /// Record all programs through the machine's host instead of your own
    #[arg(long)]
    system_host: bool,
    /// Say nothing at the end unless something was lost
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    options: SessionOptions,
    #[command(flatten)]
    enable: EnableOptions,
    /// Record this command and its children, until it ends; without one, all your programs until Ctrl-C
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<std::ffi::OsString>,
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    // Before there are threads.
    let signals = Signals::block()?;
    let status = match arguments.command.split_first() {
        Some((program, words)) => record_command(arguments, program, words, &signals)?,
        None => record_all(arguments, &signals)?,
    };
    let text = summary(&status);
    let whole = outcome(&status)?;
    if !arguments.quiet || whole != Outcome::Done {
        eprint!("etw: {text}");
    }
    Ok(whole)
}

/// A host of its own, which the command's processes find by the environment: no service is needed, and nobody else's events are
/// recorded.
fn record_command(
    arguments: &Arguments,
    program: &std::ffi::OsStr,
    words: &[std::ffi::OsString],
    signals: &Signals,
) -> Result<SessionStatus, Failure> {
    let directory = Scratch::make()?;
    let host = Host::start(HostOptions::new(&directory.path)).map_err(Failure::new)?;
    let name = format!("etw-record-{}", std::process::id());
    let mut config = arguments.options.config(&name, Some(&arguments.output))?;
    // Nothing is registered yet: names are found in the schemas that the user keeps.
    config.enable = enablements(&arguments.provider, &arguments.enable, |n| resolve(n, None))?;
    let request = StartRequest::from(config);
    expect_session(host.ask(Request::start(request)))?;
    let mut command = Command::new(program);
    command.args(words).env(RECORD_VARIABLE, &directory.path);
    signals.leave_to(&mut command);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            // An empty trace of nothing is of no use.
            let _ = host.ask(Request::Stop { session: name });
            let _ = std::fs::remove_file(&arguments.output);
            return Err(Failure::new(format!("{}: {error}", program.to_string_lossy())));
        }
    };
    let ended = loop {
        match signals.wait() {
            libc::SIGCHLD => {
                if let Some(ended) = child.try_wait().map_err(Failure::new)? {
                    break ended;
                }
            }
            // The terminal has sent it to the command too, which decides what it means.
            libc::SIGINT => {}
            signal => {
                // SAFETY: numbers; the child has not been waited for, so its id is its own.
                unsafe { libc::kill(child.id() as libc::pid_t, signal) };
            }
        }
    };
    if !ended.success() {
        let how = match (ended.code(), ended.signal()) {
            (Some(code), _) => format!("status {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "an unknown status".to_owned(),
        };
        eprintln!("etw: note: {} ended with {how}", program.to_string_lossy());
    }
    expect_session(host.ask(Request::Stop { session: name }))
}

fn expect_session(response: Response) -> Result<SessionStatus, Failure> {
    match response {
        Response::Session(status) => Ok(*status),
        Response::Error { status, message } => {
            let name = etw_types::Status(status);
            Err(Failure::new(format!("{message} ({name})")))
        }
        _ => Err(Failure::new("the host of sessions gave another answer than was asked for")),
    }
}

/// By the user's host: a session that ends with this command, whatever ends it.
fn record_all(arguments: &Arguments, signals: &Signals) -> Result<SessionStatus, Failure> {
    let which = Which { system: arguments.system_host };
    let client = which.connect_or_start()?;
    let name = format!("etw-record-{}", std::process::id());
    let mut config = arguments.options.config(&name, Some(&arguments.output))?;
    config.enable =
        enablements(&arguments.provider, &arguments.enable, |named| resolve(named, Some(&client)))?;
    let request = StartRequest { config, leased: true };
    let status = ask_session(&client, &Request::start(request))?;
    if let Some(warning) = &status.error {
        eprintln!("etw: warning: {warning}");
    }
    if !arguments.quiet {
        eprintln!("etw: recording; Ctrl-C ends it");
    }
    while signals.wait() == libc::SIGCHLD {}
    ask_session(&client, &Request::Stop { session: name })
}

/// A directory of this command alone, removed in the end.
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
        Err(Failure::new(format!("{}: no directory could be made", base.display())))
    }
}

/// Where a command was killed its directory stays: nobody holds its host's lock any more. Others' directories, and any that is not
/// surely one, are left alone.
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
        // One that is about to take its lock is there; in another PID namespace it may not be seen, but it is not that slow.
        let is_there = Path::new(&format!("/proc/{process}")).exists();
        if !is_own || is_there {
            continue;
        }
        let path = entry.path();
        if let Ok(lock) = std::fs::File::open(path.join("lock"))
            && lock.try_lock().is_ok()
        {
            // It holds nothing that anybody misses.
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It holds nothing that anybody misses.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
