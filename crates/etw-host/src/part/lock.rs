//! The lock on a `.part` file: held by the process that records to it.

use std::fs::File;
use std::io;
use std::path::Path;

/// Takes a record lock. The process holds it for as long as it lives; its children do not.
#[cfg(target_os = "linux")]
pub(super) fn lock(file: &File) -> io::Result<()> {
    fcntl_lock(file, libc::F_SETLK).map(drop)
}

/// Whether the program that created the file still runs.
#[cfg(target_os = "linux")]
pub(crate) fn is_locked(file: &File) -> io::Result<bool> {
    Ok(fcntl_lock(file, libc::F_GETLK)?.l_type != libc::F_UNLCK as libc::c_short)
}

#[cfg(target_os = "linux")]
fn fcntl_lock(file: &File, command: libc::c_int) -> io::Result<libc::flock> {
    use std::os::fd::AsRawFd;
    // SAFETY: zeroed is a valid value of the plain C struct, which the call may change.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::F_WRLCK as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        lock.l_len = 8;
        if libc::fcntl(file.as_raw_fd(), command, &raw mut lock) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(lock)
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn lock(_file: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_locked(_file: &File) -> io::Result<bool> {
    Ok(false)
}

/// Whether a session records to the file of this `.part`.
pub(crate) fn is_in_use(part: &Path) -> bool {
    // A file of this process is not opened: closing it would release the process's lock.
    if std::fs::read_link(part).is_ok_and(|target| is_of_this_process(&target)) {
        return true;
    }
    File::open(part).is_ok_and(|file| is_locked(&file).unwrap_or(false))
}

/// Whether this process created this file in memory.
pub(super) fn is_of_this_process(target: &Path) -> bool {
    let own = format!("openetw-{}-", std::process::id());
    target.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&own))
}
