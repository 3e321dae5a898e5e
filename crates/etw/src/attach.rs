//! Global sessions: this process's connections to their hosts.
//!
//! The first registration looks for hosts in the [runtime directories](etw_wire::runtime_directory), and waits a moment for their sessions'
//! enablements: so a program's first event is recorded. From then on one thread for each directory serves the connection. If no
//! host listens there, the thread blocks on a futex in a shared file until a host starts. Nothing is polled.
//!
//! A pool is made when a session enables a provider. Until then a connection costs a descriptor and a blocked thread.
//!
//! With `ETW_LISTENER=off` no thread waits for a host that does not run. With `ETW_DIAGNOSE=1` each step is
//! [reported](crate::diagnose).
//!
//! A child made by `fork` has no connections. Its providers stay enabled; the parent's pool refuses the child's first write, which
//! then connects anew ([`renew`]). That takes a lock and allocates, so an event that a child writes first in a signal handler may
//! be lost.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use etw_ring::{MAX_ATTACHMENTS, process_generation};
use etw_wire::runtime_directory::{self, Directory, Word};

use crate::diagnose::report;
use crate::lock::lock;
use crate::registry::{self, Attached};

mod link;
mod patience;

use link::{Link, Wait};

/// The runtime directories; set by the first registration.
static DIRECTORIES: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// The generation of the process that has connected; 0: none has.
static CONNECTED: AtomicU64 = AtomicU64::new(0);

/// The connections' descriptors plus one, for a child to close.
static DESCRIPTORS: [AtomicI32; MAX_ATTACHMENTS] = [const { AtomicI32::new(0) }; MAX_ATTACHMENTS];

/// Connects to the hosts of all runtime directories, once in a process.
pub(crate) fn begin() {
    if CONNECTED.load(Ordering::Acquire) == process_generation() {
        return;
    }
    static ONE: Mutex<()> = Mutex::new(());
    // In the child of a fork, a thread of the parent may hold the lock for ever. The child then stays without hosts.
    let Ok(_one) = ONE.try_lock() else {
        if CONNECTED.load(Ordering::Acquire) == 0 {
            // Another thread is connecting: wait for it.
            drop(lock(&ONE));
        }
        return;
    };
    let before = CONNECTED.swap(process_generation(), Ordering::AcqRel);
    if before == process_generation() || (before != 0 && !registry::begin_anew()) {
        return;
    }
    let _ = crate::fork::FORGET_DESCRIPTORS.set(forget_descriptors);
    crate::fork::install();
    for path in DIRECTORIES.get_or_init(runtime_directory::of_program) {
        let directory = match Directory::open_or_make(path) {
            Ok(directory) => directory,
            // A directory that cannot be opened has no host for this program.
            Err(error) => {
                report(|| format!("{}: no runtime directory: {error}", path.display()));
                continue;
            }
        };
        let word = directory.word().ok().map(Arc::new);
        let mut connected = try_attach(&directory, path, word.as_ref(), Wait::Briefly);
        let word = match std::env::var_os("ETW_LISTENER") {
            Some(off) if off == "off" => None,
            _ => word,
        };
        if word.is_none() && connected.is_none() {
            continue;
        }
        let numbers = connected.as_mut().map(|it| std::mem::take(&mut it.numbers));
        let answering = connected.as_ref().map(|connected| connected.link.clone());
        // Without a thread nobody reads the host's messages, and nothing is recorded.
        let spawned = spawn("etw-attach", move || watch(directory, path, word.as_ref(), connected));
        let heard = spawned.is_ok();
        if let Err(error) = spawned {
            report(|| format!("{}: no thread for the host: {error}", path.display()));
        }
        for number in numbers.into_iter().flatten().filter(|_| heard) {
            if let Some(link) = &answering {
                link.wait_for_answer(number);
            }
        }
    }
}

/// In a child whose pools are its parent's: connects anew. `true`: the caller may ask again which sessions want its event.
#[cold]
pub(crate) fn renew() -> bool {
    let before = CONNECTED.load(Ordering::Acquire);
    if before == 0 || before == process_generation() {
        return false;
    }
    begin();
    CONNECTED.load(Ordering::Acquire) == process_generation()
}

/// In the child of a fork: the connections are the parent's. Async-signal-safe.
fn forget_descriptors() {
    for descriptor in &DESCRIPTORS {
        let descriptor = descriptor.swap(0, Ordering::AcqRel);
        if descriptor > 0 {
            // SAFETY: a descriptor of a connection that no thread of this process uses any more.
            unsafe { libc::close(descriptor - 1) };
        }
    }
}

/// A connection to a directory's host.
struct Connected {
    link: Arc<Link>,
    attachment: usize,
    /// The registrations that the host will answer.
    numbers: Vec<u32>,
}

/// Connects to the directory's host, and registers the providers with it.
fn try_attach(
    directory: &Directory,
    path: &Path,
    word: Option<&Arc<Word>>,
    wait: Wait,
) -> Option<Connected> {
    let link = match Link::connect(directory, word.cloned(), wait) {
        Ok(link) => Arc::new(link),
        Err(error) => {
            report(|| no_host(path, &error));
            return None;
        }
    };
    let Some(Attached { attachment, kept: numbers }) = registry::attach_elsewhere(link.clone())
    else {
        report(|| format!("{}: eight hosts are attached already", path.display()));
        return None;
    };
    report(|| format!("{}: connected to the host", path.display()));
    DESCRIPTORS[attachment].store(link.channel.as_fd().as_raw_fd() + 1, Ordering::Release);
    Some(Connected { link, attachment, numbers })
}

/// The report for a host that could not be connected to.
fn no_host(path: &Path, error: &io::Error) -> String {
    let (path, why) = (path.display(), error.kind());
    match why {
        io::ErrorKind::NotFound => format!("{path}: no host has ever run here"),
        io::ErrorKind::ConnectionRefused => {
            format!("{path}: no host runs here, or it refused this program ({error})")
        }
        io::ErrorKind::PermissionDenied => {
            format!("{path}: this user may not connect to the host ({error})")
        }
        io::ErrorKind::TimedOut => format!("{path}: the host did not answer in time"),
        _ => format!("{path}: cannot connect to the host: {error}"),
    }
}

/// Serves one directory's host for ever; blocks while no host runs.
fn watch(
    mut directory: Directory,
    path: &Path,
    word: Option<&Arc<Word>>,
    connected: Option<Connected>,
) {
    let mut connected = connected;
    loop {
        if let Some(Connected { link, attachment, .. }) = connected.take() {
            link.serve(attachment);
        }
        let Some(word) = word else { return };
        report(|| format!("{}: waiting for a host to start", path.display()));
        let seen = word.value();
        // A host that started before this line is found now; one that starts later changes the word. A host that is too busy or
        // stopped answers later: it does not change the word, so this thread waits for its answer.
        connected = directory
            .renew()
            .ok()
            .and_then(|()| try_attach(&directory, path, Some(word), Wait::UntilAnswered));
        if connected.is_none() {
            word.wait(seen, None);
        }
    }
}

/// Starts a thread with all signals blocked from its first instruction on, so that no handler of the program runs on it.
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // SAFETY: valid pointers to this thread's own sets. The new thread inherits the mask.
    let before = unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    // SAFETY: restores the mask from before.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
    thread.map(drop)
}
