//! The lock that `wpr` holds while it starts or ends a recording.

use super::Controller;
use crate::live::host::HostChoice;
use crate::output::Failure;
use etw_wire::runtime_directory::{CONTROLLERS_LOCK, Directory};
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// A recording ends within seconds, and on a slow disk later.
const PATIENCE: Duration = Duration::from_secs(60);
/// Behind it, the user learns why nothing happens.
const SILENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until no other command starts or ends a recording. The lock is a file of the host, so that those who may control the machine's
/// host need no right to write its folder, and others cannot hold it.
pub fn lock(controller: &Controller) -> Result<File, Failure> {
    // A host that a service manager starts creates the file before it answers.
    controller.sessions()?;
    lock_within(&HostChoice::default().directory(), PATIENCE)
}

fn lock_within(path: &Path, patience: Duration) -> Result<File, Failure> {
    let failed = |error: io::Error| {
        Failure::new(format!("{}: {error}", path.join(CONTROLLERS_LOCK).display()))
    };
    // Nobody else can put another file there.
    let directory = Directory::open(path).map_err(Failure::new)?;
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(directory.path().join(CONTROLLERS_LOCK)).map_err(failed)?;
    let (began, mut is_silent) = (Instant::now(), true);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let waited = began.elapsed();
        if waited >= patience {
            let what = format!(
                "{} has been starting or ending a recording for {} s: wait for it, or end it, and try again",
                holder(&file),
                patience.as_secs()
            );
            return Err(failed(io::Error::new(io::ErrorKind::TimedOut, what)));
        }
        if is_silent && waited >= SILENCE.min(patience) {
            is_silent = false;
            eprintln!("etw: note: waiting for {}, which starts or ends a recording", holder(&file));
        }
        std::thread::sleep(PAUSE);
    }
}

/// The process that holds the lock, as `/proc/locks` says.
fn holder(file: &File) -> String {
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let id_of = |file: std::fs::Metadata| {
        let (major, minor) = (libc::major(file.dev()), libc::minor(file.dev()));
        format!("{major:02x}:{minor:02x}:{}", file.ino())
    };
    let found = file.metadata().ok().and_then(|file| holder_of(&locks, &id_of(file)));
    let Some(process) = found else { return "another process".to_owned() };
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    format!("process {process} ({})", crate::format::safe(name.trim_end()))
}

/// The process that holds the `flock` of a file, by device and number of the file.
///
/// Rows of `/proc/locks` are `NUMBER: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE START END`; those that wait have `->` behind the number.
fn holder_of(locks: &str, id: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_held = words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&id);
        // 0 is a process that this one cannot see.
        is_held.then(|| words[4].parse().ok()).flatten().filter(|process| *process > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_has_a_name() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 08:01:12 0 EOF\n2: FLOCK  ADVISORY  WRITE 8 08:01:12 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 9 08:01:13 0 EOF\n";
        assert_eq!(holder_of(locks, "08:01:12"), Some(8));
        assert_eq!(holder_of(locks, "08:01:13"), None);
        assert_eq!(holder_of("1: FLOCK ADVISORY WRITE -1 08:01:12 0 EOF", "08:01:12"), None);
    }

    #[test]
    fn waiting_for_the_lock_is_bounded_and_names_the_holder() {
        let folder = std::env::temp_dir().join(format!("etw-wpr-lock-{}", std::process::id()));
        let directory = Directory::open_or_make(&folder).unwrap();
        File::create(directory.path().join(CONTROLLERS_LOCK)).unwrap();
        let held = lock_within(&folder, Duration::ZERO).unwrap();
        let refused = lock_within(&folder, Duration::from_millis(1)).unwrap_err();
        let message = refused.message().unwrap_or_default().to_owned();
        let own = format!("process {} (", std::process::id());
        assert!(message.contains(&own) && message.contains(CONTROLLERS_LOCK), "{message}");
        drop(held);
        // Another test may just have forked: its child has the file until it executes a program.
        lock_within(&folder, PATIENCE).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
