//! `etw daemon`: the host of sessions, in the foreground.

use super::signals::Signals;
use crate::output::{Failure, Outcome};
use clap::Args;
use etwd::HostOptions;
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
    /// Runtime directory; default: your own, or root's the machine's
    directory: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let signals = Signals::block()?;
    let directory = arguments.directory.clone().unwrap_or_else(etw_wire::dir::of_user);
    let mut options = HostOptions::new(directory);
    options.idle_exit = arguments.idle_exit.map(Duration::from_secs);
    let host = etwd::begin(options, arguments.sessions.as_deref()).map_err(Failure::new)?;
    let host = std::sync::Arc::new(host);
    let waiting = host.clone();
    std::thread::spawn(move || {
        waiting.wait();
        drop(waiting);
        // It has ended by itself: whoever waits for a signal hears of it.
        // SAFETY: our own process, a signal that we wait for.
        unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
    });
    while signals.wait() == libc::SIGCHLD {}
    host.end();
    host.wait();
    Ok(Outcome::Done)
}
