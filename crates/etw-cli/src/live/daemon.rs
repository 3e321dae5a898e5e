//! `etw daemon`: the host of sessions, in the foreground.

use super::signals::Signals;
use crate::orphans;
use crate::output::{Failure, Outcome};
use clap::Args;
use etw_eventlog::registry::Scope;
use etw_wire::host_client::NO_PROCESSES;
use etwd::{Host, HostOptions, REFUSED_WORKER, is_refusal};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Keys of the file of sessions.
const SESSIONS_HELP: &str = "\
The file of sessions is a JSON object: {\"sessions\": [{...}, ...]}. The keys of a session:
  name              its name
  guid              its GUID; default: a new one
  file              absolute path of its file; with %d for a series of files; default: none
  mode              sequential, circular, new-file, append; default: sequential
  max_size          bytes of the file at most
  compressed        compress the file's buffers: true, false, or \"auto\": those that the disk does not take fast enough
  preallocate       reserve max_size at the start (this and all following keys up to secure: true or false)
  real_time         deliver events to etw tail and other consumers
  buffering         keep the last events in memory
  no_per_processor  one stream of buffers for all processors
  independent       neither hold other sessions up nor be held up by them
  secure            only events of root's programs and of the session owner's
  buffer_size       bytes of a buffer; default: 65536
  buffers           number of buffers; default: 64
  flush_timer_ms    store partly filled buffers after so many milliseconds
  clock             1 performance counter, 2 system time, 3 cycles; default: 1, for append 2
  leased            has no effect in this file
  enable            providers: [[\"NAME\", {\"wanted\": {\"level\": 4, \"any\": 0, \"all\": 0}}], ...];
                    a GUID, a name, or *Name; properties and filters as etw session query --json shows them
  system            events of the system: {\"masks\": [8 words of group masks], \"stacks\": [hooks of events with
                    call stacks], \"sample_interval\": 100 ns units, \"process\": null or a process to record
                    with its children where the machine may not be}; as etw session query --json shows them

Example:
  {\"sessions\": [{\"name\": \"boot\", \"file\": \"/var/log/openetw/boot.etl\", \"mode\": \"circular\",
                 \"max_size\": 104857600, \"enable\": [[\"Shop\", {\"wanted\": {\"level\": 4}}]]}]}

A text that is not JSON, an unknown key or a value of a wrong type ends the daemon's start with a message that has its
line and column. A session whose values contradict each other, such as circular without max_size, does not start: the log
names it and the reason, and the others start.";

#[derive(Args)]
#[command(after_long_help = SESSIONS_HELP)]
pub struct Arguments {
    /// End when there has been no session and no controller for so many seconds
    #[arg(long, value_name = "SECONDS")]
    idle_exit: Option<u64>,
    /// Start the sessions of this file (JSON); default: sessions.json in /etc/openetw or ~/.config/openetw
    #[arg(long, value_name = "FILE")]
    sessions: Option<PathBuf>,
    /// Be the worker of a keeper, which is at the other end of standard input
    #[arg(long, hide = true)]
    worker: bool,
    /// Host the session of one command: keep no logs of channels, and start no other sessions
    #[arg(long, hide = true)]
    of_command: bool,
    /// Runtime directory; default: your own, for root that of the machine
    directory: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let signals = Signals::block()?;
    let directory =
        arguments.directory.clone().unwrap_or_else(etw_wire::runtime_directory::of_user);
    let mut options = HostOptions::new(directory);
    if !arguments.of_command {
        options.logs = Scope::of_host(is_root());
    }
    options.idle_exit = arguments.idle_exit.map(Duration::from_secs);
    if !arguments.worker {
        orphans::remove();
        return keep(arguments, &options, &signals);
    }
    let sessions = match (&arguments.sessions, arguments.of_command) {
        (Some(named), _) => Some(named.clone()),
        (None, false) => etwd::default_sessions_file(),
        (None, true) => None,
    };
    // Without this thread, no host says that it has started.
    let (give, started) = std::sync::mpsc::channel::<Arc<Host>>();
    let wait = move || {
        // When it has ended by itself.
        let _end = TellEnd;
        if let Ok(host) = started.recv() {
            host.wait();
        }
    };
    let waiting = std::thread::Builder::new().name("etw-end".to_owned()).spawn(wait);
    let begun = waiting.and_then(|_detached| worker(options, sessions.as_deref()));
    let host = match begun {
        Ok(host) => Arc::new(host),
        // The keeper says so, once for all workers.
        Err(error) if is_refusal(&error) => return Ok(Outcome::OfCommand(REFUSED_WORKER)),
        Err(error) => return Err(start_failure(error)),
    };
    // The thread lives until the host has ended.
    let _ = give.send(host.clone());
    while signals.wait() != libc::SIGTERM {}
    host.end();
    host.wait();
    Ok(Outcome::Done)
}

/// The failure of a start, for which the system may have refused a thread or a process.
pub fn start_failure(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::WouldBlock => Failure::new(format!("{error}; {NO_PROCESSES}")),
        _ => Failure::new(error),
    }
}

/// Wakes the thread that waits for signals when another thread ends, by a panic, too.
struct TellEnd;

impl Drop for TellEnd {
    fn drop(&mut self) {
        // SAFETY: our own process, a signal that we wait for.
        unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
    }
}

/// The keeper: what a worker must not take with it.
fn keep(
    arguments: &Arguments,
    options: &HostOptions,
    signals: &Signals,
) -> Result<Outcome, Failure> {
    let program = std::env::current_exe().map_err(Failure::new)?;
    let mut words = vec!["daemon".to_owned(), "--worker".to_owned()];
    if arguments.of_command {
        words.push("--of-command".to_owned());
    }
    if let Some(idle) = arguments.idle_exit {
        words.extend(["--idle-exit".to_owned(), idle.to_string()]);
    }
    if let Some(sessions) = &arguments.sessions {
        words.extend(["--sessions".to_owned(), sessions.display().to_string()]);
    }
    words.push(options.directory.display().to_string());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    std::thread::scope(|scope| {
        let keep = || {
            let _end = TellEnd;
            etwd::keep(options, &program, &words)
        };
        let kept = std::thread::Builder::new().name("etw-keeper".to_owned());
        let kept = kept.spawn_scoped(scope, keep).map_err(start_failure)?;
        while signals.wait() == libc::SIGCHLD {}
        etwd::end_keeper();
        match kept.join() {
            Ok(kept) => kept.map(|()| Outcome::Done).map_err(start_failure),
            Err(_) => Err(Failure::new("the keeper has panicked")),
        }
    })
}

/// Standard input is the keeper.
fn worker(options: HostOptions, sessions: Option<&std::path::Path>) -> std::io::Result<Host> {
    let stdin = std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned()?;
    etwd::begin_work(options, stdin.into(), sessions)
}

/// Whether this process is root's.
fn is_root() -> bool {
    // SAFETY: takes nothing and gives a number.
    unsafe { libc::geteuid() == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_wire::requests::StartRequest;

    #[test]
    fn the_help_has_every_key_of_the_file_of_sessions() {
        let session = serde_json::to_value(StartRequest::default()).unwrap();
        for key in session.as_object().unwrap().keys() {
            let row = format!("\n  {key} ");
            assert!(SESSIONS_HELP.contains(&row), "{key} is missing");
        }
    }

    #[test]
    fn the_example_file_has_valid_sessions() {
        let text = include_str!("../../../etwd/packaging/sessions.example.json");
        let file: serde_json::Value = serde_json::from_str(text).unwrap();
        let sessions = file["sessions"].as_array().unwrap();
        assert!(sessions.len() > 1);
        for session in sessions {
            let request: StartRequest = serde_json::from_value(session.clone()).unwrap();
            request.config.validate().unwrap();
            assert!(!request.config.enable.is_empty());
        }
    }
}
