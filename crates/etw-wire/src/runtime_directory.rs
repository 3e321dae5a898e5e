//! Runtime directories, in which a host listens and programs without a host wait for one.
//!
//! | | directory | owner |
//! |---|---|---|
//! | one named by `ETW_RUNTIME_DIR` | that | the user or root |
//! | the system's host | `/run/openetw` | root |
//! | the user's host | `/run/user/UID/openetw`, or `/tmp/openetw-UID` without a `/run/user/UID` | the user |
//!
//! A directory contains `socket`; `lock`, which the host holds; `word`, a shared file with two futexes of four bytes; and `failures`, lines that
//! say why the host does not serve, or which sessions ended with an error; and [`CONTROLLERS_LOCK`]. The first futex changes
//! when a host starts, and programs block on it. The second changes whenever the host has handled a message.
//!
//! A directory is not used if it is a link, belongs to another user, or is writable for others. A program that runs with more rights
//! than its user (`AT_SECURE`) ignores the environment.
//!
//! In a [user namespace](crate::user_namespace) (a rootless container), root's directory and root's host appear to belong to an unmapped
//! user. Such a directory is used if only the owner of its parent could have created it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::thread::futex;

use crate::Channel;
use crate::user_namespace::{UserNamespace, is_closed};

/// The system host's directory.
pub const SYSTEM: &str = "/run/openetw";
/// The environment variable that names a directory.
pub const VARIABLE: &str = "ETW_RUNTIME_DIR";
/// The environment variable of `etw record`, which names an additional directory for the children of one process.
pub const RECORD_VARIABLE: &str = "ETW_RECORD_DIR";

/// The file that a controller locks (`flock`) while it starts or ends several sessions as one. The host creates it, and only those who may
/// control the host may open it.
pub const CONTROLLERS_LOCK: &str = "controllers-lock";

/// An opened, checked runtime directory.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    /// The owner as this process's user namespace shows it.
    owner: u32,
}

fn denied(path: &Path, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{}: {what}", path.display()))
}

/// An environment variable, unless this program runs with more rights than its user.
pub fn variable(name: &str) -> Option<PathBuf> {
    // SAFETY: takes and returns numbers.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The directory of the user's own host.
pub fn of_user() -> PathBuf {
    if let Some(named) = variable(VARIABLE) {
        return named;
    }
    let user = rustix::process::geteuid().as_raw();
    let outside = match user {
        0 => match root_of_namespace() {
            Some(outside) => outside,
            None => return SYSTEM.into(),
        },
        user => user,
    };
    let base = PathBuf::from(format!("/run/user/{outside}"));
    match Directory::check_base(&base, user) {
        true => base.join("openetw"),
        false => format!("/tmp/openetw-{outside}").into(),
    }
}

/// The user of this process outside of its user namespace, if it is root only inside. `/run` belongs to the machine's root.
fn root_of_namespace() -> Option<u32> {
    let namespace = UserNamespace::current();
    let run = rustix::fs::stat("/run").ok()?;
    namespace.is_unmapped(run.st_uid).then(|| namespace.outside(0)).flatten()
}

/// All directories in which a program looks for hosts, each once.
pub fn of_program() -> Vec<PathBuf> {
    let mut all = Vec::from_iter(variable(RECORD_VARIABLE));
    let mut add = |path: PathBuf| {
        // With two connections, a host would record every event twice. (Other names are links, which are not followed.)
        if !all.contains(&path) {
            all.push(path);
        }
    };
    match variable(VARIABLE) {
        Some(named) => add(named),
        None => {
            if Path::new(SYSTEM).is_dir() {
                add(SYSTEM.into());
            }
            add(of_user());
        }
    }
    all
}

impl Directory {
    fn check_base(path: &Path, user: u32) -> bool {
        rustix::fs::lstat(path)
            .is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFDIR && stat.st_uid == user)
    }

    /// Opens a directory, and creates it if it does not exist. Its parent must exist.
    ///
    /// # Errors
    /// `PermissionDenied` for a directory that cannot be trusted; the system's error.
    pub fn open_or_make(path: &Path) -> io::Result<Directory> {
        match rustix::fs::mkdir(path, Mode::from_bits_retain(0o700)) {
            Ok(()) if path == Path::new(SYSTEM) => {
                // The programs of all users register.
                rustix::fs::chmod(path, Mode::from_bits_retain(0o755))?;
            }
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => {
                let error = io::Error::from(error);
                let what = format!("{} cannot be created: {error}", path.display());
                return Err(io::Error::new(error.kind(), what));
            }
        }
        Directory::open(path)
    }

    /// Whether this process may create files in the directory, which hosts do.
    pub fn is_writable(path: &Path) -> bool {
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        let at = rustix::fs::CWD;
        rustix::fs::accessat(at, path, access, rustix::fs::AtFlags::EACCESS).is_ok()
    }

    /// Opens an existing directory.
    ///
    /// # Errors
    /// Those of [`open_or_make`](Self::open_or_make).
    pub fn open(path: &Path) -> io::Result<Directory> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::PATH;
        let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| {
            let error = io::Error::from(error);
            // The kernel returns this error for a link, too.
            let what = match error.kind() {
                io::ErrorKind::NotADirectory => "no directory, or a link to one".to_owned(),
                _ => error.to_string(),
            };
            io::Error::new(error.kind(), format!("{}: {what}", path.display()))
        })?;
        let stat = rustix::fs::fstat(&fd)?;
        let user = rustix::process::geteuid().as_raw();
        if stat.st_uid != user && stat.st_uid != 0 {
            check_unmapped_owner(path, stat.st_uid)?;
        }
        if stat.st_mode & 0o022 != 0 {
            return Err(denied(path, "others may write to the directory"));
        }
        let identity = (stat.st_dev, stat.st_ino);
        Ok(Directory { fd, path: path.to_owned(), identity, owner: stat.st_uid })
    }

    /// Opens the directory again if its descriptor no longer refers to it, because the program closed all descriptors. If another file
    /// has the descriptor's number now, that file stays open.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn renew(&mut self) -> io::Result<()> {
        let is_ours = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino) == self.identity;
        if !rustix::fs::fstat(&self.fd).is_ok_and(is_ours) {
            let new = Directory::open(&self.path)?;
            std::mem::forget(std::mem::replace(self, new));
        }
        Ok(())
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the host's socket through the opened directory. So the socket is in the directory that was checked, and the length of its
    /// name does not matter.
    pub fn socket(&self) -> PathBuf {
        use std::os::fd::AsRawFd;
        format!("/proc/self/fd/{}/socket", self.fd.as_raw_fd()).into()
    }

    /// Connects to the host, which must belong to this user or to root.
    ///
    /// # Errors
    /// `NotFound` or `ConnectionRefused` if no host listens; `PermissionDenied` if it belongs to another user.
    pub fn connect(&self) -> io::Result<Channel> {
        let channel = match Channel::connect(&self.socket()) {
            // In a sandbox without /proc, connects by the directory's name, if that fits into an address.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !has_proc() => {
                Channel::connect(&self.path.join("socket"))?
            }
            other => other?,
        };
        let user = rustix::process::geteuid().as_raw();
        match channel.peer()?.uid {
            0 => Ok(channel),
            // An unmapped user has the same number in files and sockets, and `open` has accepted it.
            uid if uid == user || uid == self.owner => Ok(channel),
            _ => Err(denied(&self.path, "the host is another user's")),
        }
    }

    /// Opens a file in the directory.
    ///
    /// # Errors
    /// The system's error.
    pub fn file(&self, name: &str, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = OsStr::from_bytes(name.as_bytes());
        Ok(rustix::fs::openat(self.fd.as_fd(), name, flags, Mode::from_bits_retain(mode))?)
    }

    /// Removes a file of the directory, if it is there.
    ///
    /// # Errors
    /// The system's error.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(self.fd.as_fd(), name, rustix::fs::AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The word on which programs wait. Made if the directory is this user's.
    ///
    /// # Errors
    /// The system's error.
    pub fn word(&self) -> io::Result<Word> {
        let made = self.file("word", OFlags::RDWR | OFlags::CREATE, 0o644);
        let (fd, writable) = match made {
            Ok(fd) => (fd, true),
            Err(_) => (self.file("word", OFlags::RDONLY, 0)?, false),
        };
        let size = rustix::fs::fstat(&fd)?.st_size;
        if size < 8 {
            if !writable {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            rustix::fs::ftruncate(&fd, 4096)?;
        }
        Word::map(&fd, writable)
    }
}

/// Accepts an owner that this process's user namespace does not show, if nobody else could have put the directory there.
fn check_unmapped_owner(path: &Path, owner: u32) -> io::Result<()> {
    if !UserNamespace::current().is_unmapped(owner) {
        return Err(denied(path, "the directory is another user's"));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    if is_closed(parent) {
        return Ok(());
    }
    let what = format!(
        "this user namespace does not show the directory's owner, and others may write to {}, so the directory may be \
         anybody's; mount it elsewhere, or record inside with etw record -- COMMAND",
        parent.display()
    );
    Err(denied(path, &what))
}

fn has_proc() -> bool {
    Path::new("/proc/self/fd").exists()
}

/// A page of a file that all programs of a directory see, of three u32: one that changes when a host begins, one that changes whenever
/// it has dealt with a message, and one that is 1 while it is at work.
#[derive(Debug)]
pub struct Word {
    at: *const AtomicU32,
    writable: bool,
}

// SAFETY: an atomic that is never unmapped.
unsafe impl Send for Word {}
// SAFETY: an atomic that is never unmapped.
unsafe impl Sync for Word {}

impl Word {
    fn map(fd: &OwnedFd, writable: bool) -> io::Result<Word> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let protection =
            if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a new mapping, of a file that only its owner (this user or root) can cut.
        let at = unsafe { mmap(std::ptr::null_mut(), 4096, protection, MapFlags::SHARED, fd, 0)? };
        Ok(Word { at: at.cast(), writable })
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: mapped by `map`, never unmapped, aligned to a page.
        unsafe { &*self.at }
    }

    fn second(&self) -> &AtomicU32 {
        // SAFETY: as for the first, in the same page.
        unsafe { &*self.at.add(1) }
    }

    fn third(&self) -> &AtomicU32 {
        // SAFETY: as for the first, in the same page.
        unsafe { &*self.at.add(2) }
    }

    /// By the host: it has dealt with a message.
    pub fn beat(&self) {
        if self.writable {
            self.second().fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A counter that changes while the host handles messages of anyone.
    pub fn beats(&self) -> u32 {
        self.second().load(Ordering::Relaxed)
    }

    /// By the host: it works, or waits for messages.
    pub fn set_at_work(&self, is_at_work: bool) {
        if self.writable {
            self.third().store(u32::from(is_at_work), Ordering::Relaxed);
        }
    }

    /// Whether the host works on something, or did when it was killed. A host of an older version never says so.
    pub fn is_at_work(&self) -> bool {
        self.third().load(Ordering::Relaxed) != 0
    }

    /// Its value.
    pub fn value(&self) -> u32 {
        self.word().load(Ordering::Acquire)
    }

    /// Sleeps while the value is `seen`.
    pub fn wait(&self, seen: u32, timeout: Option<Duration>) {
        let timeout = timeout.map(|timeout| futex::Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        // It returns early for many reasons: the caller looks again.
        let _ = futex::wait(self.word(), futex::Flags::empty(), seen, timeout.as_ref());
    }

    /// Changes the value and wakes all that wait: by the host.
    pub fn change(&self) {
        if self.writable {
            self.word().fetch_add(1, Ordering::AcqRel);
            // Nobody may be waiting.
            let _ = futex::wake(self.word(), futex::Flags::empty(), i32::MAX as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_others_may_write_are_not_used() {
        let base = std::env::temp_dir().join(format!("openetw-dir-{}", std::process::id()));
        std::fs::create_dir_all(&base).unwrap();
        let path = base.join("own");
        let own = Directory::open_or_make(&path).unwrap();
        let listener = Channel::listen(&own.socket()).unwrap();
        let channel = own.connect().unwrap();
        assert_eq!(channel.peer().unwrap().pid, std::process::id());
        drop((listener, channel));

        let word = own.word().unwrap();
        let seen = word.value();
        std::thread::scope(|scope| {
            let other = own.word().unwrap();
            let waiting = scope.spawn(move || {
                while other.value() == seen {
                    other.wait(seen, None);
                }
            });
            std::thread::sleep(Duration::from_millis(10));
            word.change();
            waiting.join().unwrap();
        });

        std::os::unix::fs::symlink(&path, base.join("link")).unwrap();
        assert!(Directory::open(&base.join("link")).is_err());
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&path, mode).unwrap();
        let error = Directory::open(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        std::fs::remove_dir_all(&base).unwrap();
    }
}
