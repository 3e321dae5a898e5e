//! Signals that end a recording, waited for instead of handled.

use crate::output::Failure;

/// Signals of this process that nothing else hears of.
pub struct Signals {
    set: libc::sigset_t,
}

impl Signals {
    /// From here on, for this thread and those that it makes: what ends a command, and a child's end.
    pub fn block() -> Result<Signals, Failure> {
        // SAFETY: a set of our own, filled by the functions that are made for it.
        let (set, done) = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGCHLD] {
                libc::sigaddset(&raw mut set, signal);
            }
            let done = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            (set, done)
        };
        match done {
            0 => Ok(Signals { set }),
            error => Err(Failure::new(std::io::Error::from_raw_os_error(error))),
        }
    }

    /// The next of them.
    pub fn wait(&self) -> i32 {
        loop {
            let mut signal = 0;
            // SAFETY: a set of ours, an out pointer.
            if unsafe { libc::sigwait(&raw const self.set, &raw mut signal) } == 0 {
                return signal;
            }
        }
    }
}
