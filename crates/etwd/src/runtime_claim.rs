//! A host's claim to its runtime directory: lock, socket, and the socket of a service manager.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::{Duration, Instant};

use etw_eventlog::accounts::group_id;
use etw_wire::Channel;
use etw_wire::runtime_directory::{CONTROLLERS_LOCK, Directory};
use rustix::fs::{FlockOperation, Gid, Mode, OFlags, fchmod, fchown, flock};

use crate::log::log;
use crate::rights::GROUP;

/// How long a lock is waited for: a host that has just ended may have left it to a child that has not become another program
/// yet.
const LOCK_PATIENCE: Duration = Duration::from_millis(200);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// A runtime directory that only this process hosts.
#[derive(Debug)]
pub(crate) struct RuntimeClaim {
    directory: Directory,
    /// Held while this is open.
    _lock: OwnedFd,
    /// A service manager listens on the socket.
    is_activated: bool,
    /// Why nobody serves.
    failure: Option<String>,
}

impl RuntimeClaim {
    /// Claims a directory; it is created if it does not exist.
    ///
    /// # Errors
    /// `AlreadyExists`: another host has the directory. Those of the system.
    pub fn take(path: &Path) -> io::Result<RuntimeClaim> {
        let directory = Directory::open_or_make(path)?;
        let lock = directory.file("lock", OFlags::RDWR | OFlags::CREATE, 0o600)?;
        take_lock(&lock).map_err(|error| match error {
            rustix::io::Errno::AGAIN => io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{}: another host runs in this directory", path.display()),
            ),
            error => error.into(),
        })?;
        make_controllers_lock(&directory, group_id(GROUP))?;
        Ok(RuntimeClaim { directory, _lock: lock, is_activated: false, failure: None })
    }

    /// Listens on the directory's socket, or takes the one of the service manager.
    pub fn listen(&mut self) -> io::Result<OwnedFd> {
        if let Some(given) = activated_socket() {
            self.is_activated = true;
            let listener = copy_of_listener(given)?;
            // Programs look for it in the runtime directory.
            let found = std::fs::metadata(self.directory.socket());
            return match found.is_ok_and(|data| FileTypeExt::is_socket(&data.file_type())) {
                true => Ok(listener),
                false => Err(wrong_socket("is not in the runtime directory, which has none")),
            };
        }
        // The socket of a killed host: nobody listens on it, since the lock is ours.
        self.directory.remove("socket")?;
        let listener = Channel::listen(&self.directory.socket())?;
        if self.directory.path() == Path::new(etw_wire::runtime_directory::SYSTEM) {
            // Programs of all users register; controllers are checked when they connect.
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
            std::fs::set_permissions(self.directory.socket(), mode)?;
        }
        Ok(listener)
    }

    /// The failures of hosts before are not this one's.
    pub fn forget_failures(&self) {
        note_failed(self.directory.clear_failures());
    }

    /// Nobody serves, for this reason, until [`succeed`](Self::succeed): the log has it once, and controllers find it.
    pub fn fail(&mut self, why: &str) {
        if self.failure.as_deref() == Some(why) {
            return;
        }
        self.succeed();
        log!("{why}");
        note_failed(self.directory.add_failure(why));
        self.failure = Some(why.to_owned());
    }

    /// Somebody serves.
    pub fn succeed(&mut self) {
        if let Some(why) = self.failure.take() {
            note_failed(self.directory.remove_failure(&why));
        }
    }

    /// Leaves sentences for controllers.
    pub fn add_failures(&self, all: impl Iterator<Item = String>) {
        all.for_each(|one| note_failed(self.directory.add_failure(&one)));
    }

    /// Notifies programs that wait for a host.
    pub fn announce(&self) -> io::Result<()> {
        self.directory.word()?.change();
        Ok(())
    }
}

/// Creates the file that controllers lock. Everybody may open the directory, so a lock on that would be anybody's. `group`: whose members
/// control this host if root runs it.
fn make_controllers_lock(directory: &Directory, group: Option<u32>) -> io::Result<()> {
    let file = directory.file(CONTROLLERS_LOCK, OFlags::RDWR | OFlags::CREATE, 0o600)?;
    let group = group.filter(|_| rustix::process::geteuid().is_root());
    let Some(group) = group else { return Ok(fchmod(&file, Mode::from_bits_retain(0o600))?) };
    match fchown(&file, None, Some(Gid::from_raw(group))) {
        Ok(()) => fchmod(&file, Mode::from_bits_retain(0o660))?,
        // A user namespace may lack the group. Its members have no rights there either.
        Err(error) => log!("group {GROUP} cannot use {CONTROLLERS_LOCK}: {error}"),
    }
    Ok(())
}

/// Controllers will not find a failure: the log says so.
fn note_failed(noted: io::Result<()>) {
    if let Err(error) = noted {
        log!("the file of failures in the runtime directory cannot be written: {error}");
    }
}

impl Drop for RuntimeClaim {
    fn drop(&mut self) {
        // Programs wait for the next host when their connections end.
        if !self.is_activated {
            let _ = self.directory.remove("socket");
        }
    }
}

/// The socket that a service manager listens on for this process: descriptor 3 (`sd_listen_fds`), if the environment says so.
fn activated_socket() -> Option<BorrowedFd<'static>> {
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    if number("LISTEN_PID")? != std::process::id() || number("LISTEN_FDS")? == 0 {
        return None;
    }
    // SAFETY: the protocol gives the descriptor to this process, and nothing here closes it.
    Some(unsafe { BorrowedFd::borrow_raw(3) })
}

fn wrong_socket(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("the socket of the service manager {what}"))
}

/// A copy of the service manager's socket, so that a wrong environment closes nobody's file. Sockets of another kind are errors:
/// they would silently serve nobody.
fn copy_of_listener(given: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    use rustix::net::{SocketType, sockopt};
    let kind = sockopt::socket_type(given)
        .map_err(|error| wrong_socket(&format!("is not a socket: {error}")))?;
    let listens = sockopt::socket_acceptconn(given).unwrap_or(false);
    if kind != SocketType::SEQPACKET || !listens {
        return Err(wrong_socket("must listen for sequential packets (ListenSequentialPacket=)"));
    }
    let listener = rustix::io::fcntl_dupfd_cloexec(given, 3)?;
    rustix::fs::fcntl_setfl(&listener, rustix::fs::fcntl_getfl(&listener)? | OFlags::NONBLOCK)?;
    Ok(listener)
}

fn take_lock(lock: &OwnedFd) -> rustix::io::Result<()> {
    let end = Instant::now() + LOCK_PATIENCE;
    loop {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::AGAIN) if Instant::now() < end => {
                std::thread::sleep(LOCK_PAUSE);
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user who may not control a host could keep its controllers waiting by a lock of a file that this user can open.
    #[test]
    fn only_controllers_can_open_their_lock() {
        use std::os::unix::fs::MetadataExt;
        let path = std::env::temp_dir().join(format!("etwd-claim-{}", std::process::id()));
        let file = path.join(CONTROLLERS_LOCK);
        let directory = Directory::open_or_make(&path).unwrap();
        // A file with other rights, as of a host before.
        std::fs::write(&file, "").unwrap();
        for group in [None, Some(64123)] {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
            std::fs::set_permissions(&file, mode).unwrap();
            make_controllers_lock(&directory, group).unwrap();
            let found = std::fs::metadata(&file).unwrap();
            match group.filter(|_| rustix::process::geteuid().is_root()) {
                Some(group) => assert_eq!((found.mode() & 0o777, found.gid()), (0o660, group)),
                None => assert_eq!(found.mode() & 0o777, 0o600),
            }
        }
        std::fs::remove_dir_all(&path).unwrap();
    }
}
