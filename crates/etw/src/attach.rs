//! Global sessions: this process's connections to their hosts.
//!
//! The first registration looks for hosts, in the [directories](etw_wire::runtime_directory) that are there, and waits a moment for what
//! their sessions want: so the first event of a program is recorded. From then on one thread for each directory serves the
//! connection, or, where nobody listens, sleeps on a word in a file until a host begins: nothing is polled.
//!
//! A pool is made when a session wants something; until then a connection costs a descriptor and a sleeping thread.
//!
//! `ETW_LISTENER=off`: no thread waits for a host that is not there.
//!
//! A child made by `fork` has none of this. Its providers stay enabled, its first write is refused by the parent's pool, and
//! connects anew ([`renew`]): that takes a lock and memory, so the first write of a child in a signal handler may not be recorded.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use etw_ring::{MAX_ATTACHMENTS, process_generation};
use etw_wire::runtime_directory::{self, Directory, Word};

use crate::lock::lock;
use crate::registry::{self, Host};

mod busy;
mod link;

use link::Link;

/// The directories that hosts are looked for in; set by the first registration.
static PLACES: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// The generation of the process that is connected; 0: none is yet.
static CONNECTED: AtomicU64 = AtomicU64::new(0);

/// The connections' descriptors plus one, for a child to close.
static DESCRIPTORS: [AtomicI32; MAX_ATTACHMENTS] = [const { AtomicI32::new(0) }; MAX_ATTACHMENTS];

/// Looks for hosts, once in a process.
pub(crate) fn begin() {
    if CONNECTED.load(Ordering::Acquire) == process_generation() {
        return;
    }
    static ONE: Mutex<()> = Mutex::new(());
    // In a child somebody who is not here may hold it for ever: then it stays without hosts.
    let Ok(_one) = ONE.try_lock() else {
        if CONNECTED.load(Ordering::Acquire) == 0 {
            // Another thread is at it: its hosts are this one's too.
            drop(lock(&ONE));
        }
        return;
    };
    let before = CONNECTED.swap(process_generation(), Ordering::AcqRel);
    if before == process_generation() || (before != 0 && !registry::begin_anew()) {
        return;
    }
    let _ = crate::fork::IN_CHILD.descriptors.set(forget_descriptors);
    crate::fork::install();
    for place in PLACES.get_or_init(runtime_directory::of_program) {
        // Where nothing can be had, there is no host.
        let Ok(directory) = Directory::open_or_make(place) else { continue };
        let word = directory.word().ok().map(Arc::new);
        let attached = try_attach(&directory, word.as_ref());
        let word = match std::env::var_os("ETW_LISTENER") {
            Some(off) if off == "off" => None,
            _ => word,
        };
        if word.is_none() && attached.is_none() {
            continue;
        }
        let (link, numbers) = match attached {
            Some((link, attachment, numbers)) => (Some((link, attachment)), numbers),
            None => (None, Vec::new()),
        };
        let answering = link.as_ref().map(|(link, _)| link.clone());
        // Without a thread, what the host says is not heard: nothing is recorded.
        let heard = spawn("etw-attach", move || watch(directory, word.as_ref(), link)).is_ok();
        for number in numbers.into_iter().filter(|_| heard) {
            if let Some(link) = &answering {
                link.settle(number);
            }
        }
    }
}

/// In a child whose pools are its parent's: connects anew. `true`: who asked may look again who wants its event.
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
            // SAFETY: a descriptor of a connection that nobody in this process uses any more.
            unsafe { libc::close(descriptor - 1) };
        }
    }
}

/// Connects, introduces the providers, and waits a moment for what is wanted of them.
fn try_attach(
    directory: &Directory,
    word: Option<&Arc<Word>>,
) -> Option<(Arc<Link>, usize, Vec<u32>)> {
    let link = Arc::new(Link::connect(directory, word.cloned()).ok()?);
    let (attachment, numbers) = registry::attach_elsewhere(link.clone())?;
    DESCRIPTORS[attachment].store(link.channel.as_fd().as_raw_fd() + 1, Ordering::Release);
    Some((link, attachment, numbers))
}

/// Serves one directory's host for ever; sleeps while there is none.
fn watch(mut directory: Directory, word: Option<&Arc<Word>>, link: Option<(Arc<Link>, usize)>) {
    let mut link = link;
    loop {
        if let Some((link, attachment)) = link.take() {
            link.serve(attachment);
        }
        let Some(word) = word else { return };
        let seen = word.value();
        // A host that began between the two is met here; one that begins later changes the word.
        let attached = directory.renew().ok().and_then(|()| try_attach(&directory, Some(word)));
        link = attached.map(|(link, attachment, _)| (link, attachment));
        if link.is_none() {
            word.wait(seen, None);
        }
    }
}

/// A thread of ours: all signals blocked from its first instruction on, so that no handler of the program runs on it.
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // SAFETY: sets of this thread's own; a thread inherits its maker's mask.
    let before = unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    // SAFETY: the mask from before.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
    thread.map(drop)
}
