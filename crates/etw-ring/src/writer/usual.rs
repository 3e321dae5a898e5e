//! Writes on the usual machine: x86-64 with TSC, membarrier and rseq. All that they need is in the thread's state, so they do not look for the
//! pool's writer, and without calls but that of `fill` they stay in few registers.
//!
//! They do nothing on any other machine, if the thread needs another chunk, and if it has not written to the pool before:
//! [`Writer::try_write`] and [`Writer::write`] do then.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::counts::try_count_attempt;
use super::owned::{Begun, enter, grant, leave, put_identity, put_stamp};
use super::record::Grant;
use super::thread::{Thread, ThreadState};
use super::{MAX_ATTACHMENTS, Refused, Request};
use crate::layout::*;
use crate::proto;
use crate::room::FillRoom;
use crate::site::SiteCache;
use crate::sync::Light;

/// The reason why nothing was written here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotUsual {
    /// The machine is another one, or the thread has no room or no chunk in this pool, or is inside of a write. Mostly
    /// [`Writer::try_begin_write`](super::Writer::try_begin_write) can write the event.
    State,
    /// The host refuses such an event, or has taken a chunk from a thread, or the thread writes to these sessions for the first time.
    /// [`Writer::write`](super::Writer::write) finds out which.
    Gate,
}

/// The first half of a write, for a caller that puts the payload into memory by itself: the address of `payload_size` bytes. The site is the
/// one of `cache`, or that of the request.
///
/// # Errors
/// Nothing happened. A caller that answers the two reasons in different ways need not keep its values as long.
///
/// # Safety
/// `BEGUN` of [`Writer::try_begin_write`](super::Writer::try_begin_write).
#[inline(always)]
pub unsafe fn try_begin_usual(
    thread: &Thread,
    attachment: usize,
    cache: Option<&SiteCache>,
    request: Request,
) -> Result<NonNull<u8>, NotUsual> {
    // SAFETY: `BEGUN`.
    Ok(unsafe { try_begin_on(thread, attachment, cache, request)? }.payload)
}

/// Writes one event whose payload has exactly the announced size. The site is the one of `cache`, or that of the request. `None`: nothing
/// happened.
///
/// # Safety
/// The attachment's writer is neither moved nor freed while it is one of the process's.
#[inline(always)]
pub unsafe fn try_write_usual(
    thread: &Thread,
    attachment: usize,
    cache: Option<&SiteCache>,
    request: Request,
    fill: impl FillRoom,
) -> Option<Result<(), Refused>> {
    // SAFETY: by the caller.
    let begun = unsafe { try_begin_on(thread, attachment, cache, request).ok()? };
    // SAFETY: by the caller; a thread that has begun a write has registered with its writer.
    let writer = unsafe { &*thread.states[attachment % MAX_ATTACHMENTS].writer.get() };
    Some(begun.write(writer, request.payload_size, fill))
}

/// # Safety
/// The attachment's writer is neither moved nor freed while it is one of the process's.
#[inline(always)]
unsafe fn try_begin_on<'t>(
    thread: &'t Thread,
    attachment: usize,
    cache: Option<&SiteCache>,
    mut request: Request,
) -> Result<Begun<'t>, NotUsual> {
    let thread = &thread.states[attachment % MAX_ATTACHMENTS];
    enter(thread).ok_or(NotUsual::State)?;
    // SAFETY: by the caller, the writer is where it was when the thread registered.
    let grant = unsafe { try_begin_busy(thread, attachment, cache, &mut request) };
    let grant = grant.inspect_err(|_| leave(thread))?;
    // SAFETY: `GRANT`: it comes from `try_begin_busy`.
    unsafe {
        put_identity(thread, &request, &grant);
        Ok(put_stamp(thread, &request, &grant, thread.cpu.get().stamp()))
    }
}

/// # Safety
/// The writer with which the thread registered last is neither moved nor freed while it is open.
#[inline(always)]
unsafe fn try_begin_busy(
    thread: &ThreadState,
    attachment: usize,
    cache: Option<&SiteCache>,
    request: &mut Request,
) -> Result<Grant, NotUsual> {
    if let Some(cache) = cache {
        // Only inside of the write: a signal handler before it can register the thread with another writer.
        request.site = cache.id_of(attachment, thread.epoch.get()).ok_or(NotUsual::State)?;
    }
    // SAFETY: it leads to a word that is never freed.
    let open = unsafe { (*thread.open.get()).load(Ordering::Relaxed) };
    // The word has another value once the pool is closed and in the child of a fork. A thread without a slot or a chunk has no free bytes.
    // They are a multiple of eight, so the rounded size fits too.
    if request.payload_size as usize > MAX_PAYLOAD_SIZE
        || open != thread.epoch.get()
        || request.payload_size + RECORD_HEADER_SIZE as u32 > thread.free.get()
    {
        return Err(NotUsual::State);
    }
    // SAFETY: a thread with free bytes has a chunk, so `register` and `new_chunk` have set the pointers for the writer of its epoch, which
    // keeps the memory alive.
    let (line, gate) = unsafe { (&*thread.line.get(), &*thread.gate.get()) };
    let head = thread.head.get();
    proto::announce(&line.head, head, Light::Compiler);
    let (summary, revocations) = (gate.summary(), gate.revocations.load(Ordering::Acquire));
    if revocations != thread.revocations.get()
        || !summary.admits(request.sessions, request.event_size)
        || !try_count_attempt(thread, line, request.sessions)
    {
        etw_types::cold_path();
        // Nothing was written: withdraw the announcement.
        line.head.store(head.0, Ordering::Release);
        return Err(NotUsual::Gate);
    }
    // SAFETY: an announced write, whose record fits behind the committed offset.
    Ok(unsafe { grant(thread, line, head, summary, request.sessions) })
}
