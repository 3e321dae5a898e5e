//! Linux: signals that end a recording, waited for instead of handled.

use crate::output::Failure;

/// Signals of this process that nothing else hears of.
pub struct Signals {
    set: libc::sigset_t,
    /// The signals that were blocked before.
    before: libc::sigset_t,
}

impl Signals {
    /// From here on, for this thread and those that it makes: what ends a command, and a child's end.
    pub fn block() -> Result<Signals, Failure> {
        // SAFETY: a set of our own, filled by the functions that are made for it.
        let (set, before, done) = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGCHLD] {
                libc::sigaddset(&raw mut set, signal);
            }
            let done = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            (set, before, done)
        };
        match done {
            0 => Ok(Signals { set, before }),
            error => Err(Failure::new(std::io::Error::from_raw_os_error(error))),
        }
    }

    /// A command that is to hear of its signals, as if it had not been started by us.
    pub fn leave_to(&self, command: &mut std::process::Command) {
        use std::os::unix::process::CommandExt;
        let before = self.before;
        // SAFETY: async-signal-safe calls with a set that the closure owns.
        unsafe {
            command.pre_exec(move || {
                crate::size_limit::restore_signal();
                match libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut())
                {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            })
        };
    }

    /// Waits for a signal that ends commands; its number.
    pub fn wait_for_end(&self) -> i32 {
        loop {
            let signal = self.wait();
            if signal != libc::SIGCHLD {
                return signal;
            }
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
