//! The pools of attached hosts, which every write looks up, and the routes that name their sessions.

use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

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

/// The routes of all sessions of a host.
pub(crate) fn routes(attachment: usize) -> u64 {
    0xff << (attachment * 8)
}
