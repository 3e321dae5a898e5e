//! The pools of attached hosts, which every write looks up, and the routes that name their sessions.

use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use etw_ring::{MAX_ATTACHMENTS, Writer};

/// The writer of each attached host. A writer is never freed: a write of another thread may hold it at any time.
static WRITERS: [AtomicPtr<Writer>; MAX_ATTACHMENTS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_ATTACHMENTS];

/// All writers, also those of sessions that have ended, so that leak checkers find them reachable.
static KEPT: Mutex<Vec<&'static Writer>> = Mutex::new(Vec::new());

/// Makes writes use this writer for the host.
pub(crate) fn set_writer(attachment: usize, writer: &'static Writer) {
    // In the child of a fork, a thread of the parent may hold the lock for ever; then only the leak checker misses it.
    if let Ok(mut kept) = KEPT.try_lock() {
        kept.push(writer);
    }
    replace_writer(attachment, std::ptr::from_ref(writer).cast_mut());
}

/// Leaves the host without a writer, until it has a pool.
#[cfg(any(target_os = "linux", all(unix, feature = "session")))]
pub(crate) fn clear_writer(attachment: usize) {
    replace_writer(attachment, std::ptr::null_mut());
}

fn replace_writer(attachment: usize, writer: *mut Writer) {
    let before = WRITERS[attachment].swap(writer, Ordering::AcqRel);
    // SAFETY: null, or from a `&'static Writer`.
    if let Some(before) = unsafe { before.as_ref() }.filter(|_| before != writer) {
        // Threads that have written to it no longer find it in their own state either.
        before.close_usual();
    }
}

/// The writer into a host's pool, if the host has one. Lock-free.
#[inline(always)]
pub(crate) fn writer(attachment: usize) -> Option<&'static Writer> {
    // SAFETY: null, or from a `&'static Writer`.
    unsafe { WRITERS[attachment % MAX_ATTACHMENTS].load(Ordering::Acquire).as_ref() }
}

/// Whether the attachment is that of the system's own ETW, which has no pool.
pub(crate) const fn is_system(attachment: usize) -> bool {
    cfg!(windows) && attachment == MAX_ATTACHMENTS - 1
}

/// Whether the host still takes records of this process. Lock-free.
pub(crate) fn is_attached(attachment: usize) -> bool {
    is_system(attachment) || writer(attachment).is_some_and(Writer::is_attached)
}

/// The route of one session: its bit in a mask over all hosts.
pub(crate) fn route(attachment: usize, slot: u8) -> u64 {
    1 << (attachment * 8 + usize::from(slot))
}

/// Attachments plus one by numbers; 0: the number is free.
struct Numbers<const COUNT: usize>([AtomicU8; COUNT]);

impl<const COUNT: usize> Numbers<COUNT> {
    const fn new() -> Numbers<COUNT> {
        Numbers([const { AtomicU8::new(0) }; COUNT])
    }

    /// Gives an attachment the lowest free number, if one is free.
    fn give(&self, attachment: usize) {
        if let Some(free) = self.0.iter().find(|of| of.load(Ordering::Relaxed) == 0) {
            free.store(attachment as u8 + 1, Ordering::Release);
        }
    }

    /// Takes an attachment's number, if it has one.
    fn take(&self, attachment: usize) {
        if let Some(number) = self.number(attachment) {
            self.0[number].store(0, Ordering::Release);
        }
    }

    fn number(&self, attachment: usize) -> Option<usize> {
        self.0.iter().position(|of| usize::from(of.load(Ordering::Relaxed)) == attachment + 1)
    }

    /// The numbers in use with their attachments.
    fn used(&self) -> impl Iterator<Item = (usize, usize)> {
        let of = |of: &AtomicU8| usize::from(of.load(Ordering::Acquire)).checked_sub(1);
        self.0.iter().enumerate().filter_map(move |(number, it)| Some((number, of(it)?)))
    }
}

/// Private sessions, from bit 32 of a filter of `EventWriteEx` on.
static PRIVATE: Numbers<MAX_ATTACHMENTS> = Numbers::new();
const PRIVATE_BIT: usize = 32;
/// Hosts of global sessions: eight bits of a filter each, from bit 0 on, for the slots of their sessions.
static GLOBAL: Numbers<4> = Numbers::new();

/// Numbers the private session of an attachment. Called with the registry's lock.
pub(crate) fn number_private(attachment: usize) {
    PRIVATE.give(attachment);
}

/// Numbers a host of global sessions. Called with the registry's lock.
#[cfg(target_os = "linux")]
pub(crate) fn number_global(attachment: usize) {
    GLOBAL.give(attachment);
}

/// Takes the attachment's number. Called with the registry's lock.
pub(crate) fn forget_number(attachment: usize) {
    PRIVATE.take(attachment);
    GLOBAL.take(attachment);
}

/// The bit of a session in filters of `EventWriteEx`; 0 if it has none.
pub(crate) fn filter_bit(attachment: usize, slot: u8) -> u64 {
    match (PRIVATE.number(attachment), GLOBAL.number(attachment)) {
        (Some(number), _) => 1 << (PRIVATE_BIT + number),
        (None, Some(number)) => 1 << (number * 8 + usize::from(slot)),
        (None, None) => 0,
    }
}

/// The routes that a filter of `EventWriteEx` excludes. Lock-free.
pub(crate) fn excluded_routes(filter: u64) -> u64 {
    let private = PRIVATE.used().filter(|(number, _)| filter >> (PRIVATE_BIT + number) & 1 != 0);
    let private = private.map(|(_, attachment)| routes(attachment));
    let global = GLOBAL.used();
    let global = global.map(|(number, at)| (filter >> (number * 8) & 0xff) << (at * 8));
    private.chain(global).fold(0, |all, routes| all | routes)
}

/// The routes of all sessions of a host.
pub(crate) fn routes(attachment: usize) -> u64 {
    0xff << (attachment * 8)
}
