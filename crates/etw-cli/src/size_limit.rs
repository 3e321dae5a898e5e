//! The limit of the size of files (`ulimit -f`): a write past it is an error of that write, which commands report after they have removed what
//! they had written.

use std::sync::atomic::{AtomicBool, Ordering};

/// The signal ended this process before.
static WAS_FATAL: AtomicBool = AtomicBool::new(false);

/// Ignores the signal of such writes.
pub fn ignore_signal() {
    // SAFETY: numbers; no handler is installed.
    let before = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    WAS_FATAL.store(before == libc::SIG_DFL, Ordering::Relaxed);
}

/// Gives the signal its usual action again, for a program that this process is about to execute. Async-signal-safe.
#[cfg(target_os = "linux")]
pub fn restore_signal() {
    if WAS_FATAL.load(Ordering::Relaxed) {
        // SAFETY: numbers; no handler is installed.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
    }
}
