//! The daemon's log: lines on standard error, for whoever administers the host. Under systemd each line starts with its
//! severity, so that the journal knows it.

use std::fmt::Arguments;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// This process is a daemon's, and not a program with a host of its own.
static IS_DAEMON: AtomicBool = AtomicBool::new(false);

/// Severities, as syslog numbers them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    Warning = 4,
    /// Logged by daemons only.
    Info = 6,
}

/// From now on this process logs what a daemon logs.
pub(crate) fn is_daemon_now() {
    IS_DAEMON.store(true, Ordering::Relaxed);
}

/// Writes one line. Standard error may be a pipe that nobody reads any more, which must not end the host.
pub(crate) fn write(severity: Severity, words: Arguments<'_>) {
    static HAS_JOURNAL: OnceLock<bool> = OnceLock::new();
    if severity == Severity::Info && !IS_DAEMON.load(Ordering::Relaxed) {
        return;
    }
    let has_journal = *HAS_JOURNAL.get_or_init(|| std::env::var_os("JOURNAL_STREAM").is_some());
    let prefix = if has_journal { format!("<{}>", severity as u8) } else { String::new() };
    // One write: other processes write to the same file.
    let _ = std::io::stderr().write_all(format!("{prefix}etwd: {words}\n").as_bytes());
}

/// Logs a warning.
macro_rules! log {
    ($($words:tt)*) => {
        crate::log::write(crate::log::Severity::Warning, format_args!($($words)*))
    };
}

/// Logs an event of the daemon's normal operation.
macro_rules! log_info {
    ($($words:tt)*) => {
        crate::log::write(crate::log::Severity::Info, format_args!($($words)*))
    };
}

pub(crate) use {log, log_info};
