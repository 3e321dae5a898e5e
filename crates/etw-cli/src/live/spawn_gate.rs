//! A command that has been forked and waits before it executes its program.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread::JoinHandle;

/// The exit status of a command whose gate was dropped.
const CANCELLED: i32 = 125;

/// A command before its program. If the gate is dropped, the command ends without executing anything.
pub struct SpawnGate {
    process: Option<u32>,
    /// A byte opens it.
    open: File,
    thread: JoinHandle<io::Result<Child>>,
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: an array of two descriptors, as the call wants.
    match unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } {
        // SAFETY: the call returned two new descriptors, which nobody else has.
        0 => Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) }),
        _ => Err(io::Error::last_os_error()),
    }
}

impl SpawnGate {
    /// Forks the command.
    pub fn spawn(mut command: Command) -> io::Result<SpawnGate> {
        let (ids, id) = pipe()?;
        let (wait, open) = pipe()?;
        let (id, wait, other) = (id, wait, open.as_raw_fd());
        // SAFETY: the closure calls only functions that are safe after a fork, with descriptors that it owns.
        unsafe {
            command.pre_exec(move || {
                // Otherwise the child itself would keep the gate's other end open.
                libc::close(other);
                let process = libc::getpid().to_ne_bytes();
                libc::write(id.as_raw_fd(), process.as_ptr().cast(), process.len());
                let mut byte = 0u8;
                match libc::read(wait.as_raw_fd(), (&raw mut byte).cast(), 1) {
                    1 => Ok(()),
                    // An error would go to a process that may have ended, and the library ends with a message then.
                    _ => libc::_exit(CANCELLED),
                }
            });
        }
        // Spawning returns when the program is executed.
        let thread = std::thread::Builder::new()
            .name("etw-spawn".to_owned())
            .spawn(move || command.spawn())?;
        let mut process = [0; 4];
        let process =
            File::from(ids).read_exact(&mut process).map(|()| u32::from_ne_bytes(process));
        Ok(SpawnGate { process: process.ok(), open: File::from(open), thread })
    }

    /// The process; `None`: it could not be forked, and [`open`](SpawnGate::open) says why.
    pub fn process(&self) -> Option<u32> {
        self.process
    }

    /// Lets the command execute its program.
    pub fn open(mut self) -> io::Result<Child> {
        // Without a process nobody reads it, and the thread has the error.
        let _ = self.open.write_all(&[1]);
        drop(self.open);
        let panicked = || io::Error::other("the command could not be started");
        self.thread.join().unwrap_or_else(|_| Err(panicked()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_waits_for_its_gate() {
        let file = std::env::temp_dir().join(format!("etw-gate-{}", std::process::id()));
        let mut command = Command::new("touch");
        command.arg(&file);
        let gate = SpawnGate::spawn(command).unwrap();
        assert!(gate.process().is_some() && !file.exists());
        let mut child = gate.open().unwrap();
        assert!(child.wait().unwrap().success() && file.exists());
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_command_without_its_gate_executes_nothing() {
        let file = std::env::temp_dir().join(format!("etw-no-gate-{}", std::process::id()));
        let mut command = Command::new("touch");
        command.arg(&file);
        let SpawnGate { open, thread, .. } = SpawnGate::spawn(command).unwrap();
        drop(open);
        let mut child = thread.join().unwrap().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(CANCELLED));
        assert!(!file.exists());
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error_at_the_gate() {
        let gate = SpawnGate::spawn(Command::new("/no/such/program")).unwrap();
        assert_eq!(gate.open().unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
