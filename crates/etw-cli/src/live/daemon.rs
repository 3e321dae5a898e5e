//! `etw daemon`: the host of sessions, in the foreground.

use super::signals::Signals;
use crate::output::{Failure, Outcome};
use clap::Args;
use etwd::{Host, HostOptions};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
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
    /// Runtime directory; default: your own, or root's the machine's
    directory: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let signals = Signals::block()?;
    let directory =
        arguments.directory.clone().unwrap_or_else(etw_wire::runtime_directory::of_user);
    let mut options = HostOptions::new(directory);
    options.idle_exit = arguments.idle_exit.map(Duration::from_secs);
    if !arguments.worker {
        return keep(arguments, &options, &signals);
    }
    let host = worker(options, arguments.sessions.as_deref()).map_err(Failure::new)?;
    let host = std::sync::Arc::new(host);
    let waiting = host.clone();
    std::thread::spawn(move || {
        // When it has ended by itself.
        let _end = TellEnd;
        waiting.wait();
        drop(waiting);
    });
    while signals.wait() != libc::SIGTERM {}
    host.end();
    host.wait();
    Ok(Outcome::Done)
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
    if let Some(idle) = arguments.idle_exit {
        words.extend(["--idle-exit".to_owned(), idle.to_string()]);
    }
    if let Some(sessions) = &arguments.sessions {
        words.extend(["--sessions".to_owned(), sessions.display().to_string()]);
    }
    words.push(options.directory.display().to_string());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    std::thread::scope(|scope| {
        let kept = scope.spawn(|| {
            let _end = TellEnd;
            etwd::keep(options, &program, &words)
        });
        while signals.wait() == libc::SIGCHLD {}
        etwd::end_keeper();
        match kept.join() {
            Ok(kept) => kept.map(|()| Outcome::Done).map_err(Failure::new),
            Err(_) => Err(Failure::new("the keeper has panicked")),
        }
    })
}

/// Standard input is the keeper.
fn worker(options: HostOptions, sessions: Option<&std::path::Path>) -> std::io::Result<Host> {
    let stdin = std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned()?;
    etwd::begin_work(options, stdin.into(), sessions)
}
