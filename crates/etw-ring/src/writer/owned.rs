//! Writes into the thread's own chunk, the path of nearly every event.

use std::ptr::NonNull;
use std::sync::atomic::{Ordering, compiler_fence};

use super::counts::count_attempt;
use super::line::Line;
use super::record::{Grant, Stamp, write_header, write_identity, write_stamp};
use super::thread::{Thread, ThreadState, try_this_thread};
use super::{MAX_ATTACHMENTS, Payload, Refused, Request, Writer};
use crate::control::Summary;
use crate::layout::*;
use crate::proto::{self, Head};
use crate::room::{FillRoom, Room};
use crate::sync::Light;
use crate::sys::Moment;

impl Writer {
    /// Writes one event with the calling thread's own state: reserve, stamp, fill, commit.
    ///
    /// # Errors
    /// See [`Refused`].
    #[inline(always)]
    pub fn write(
        &self,
        request: &Request,
        fill: impl FnOnce(&mut Payload<'_>),
    ) -> Result<(), Refused> {
        let thread = self.thread();
        let Some(grant) = self.try_begin(thread, request) else {
            return self.write_slow(thread, request, fill);
        };
        // A panic in `fill` abandons the event.
        let guard = Owned { writer: self, thread };
        let now = self.moment();
        publish(thread, now);
        // SAFETY: the grant's record belongs to this write until its commit.
        let mut payload = unsafe {
            // The guard reads sessions and registration if the event is abandoned.
            grant.record.add(RECORD_SESSIONS).write(grant.sessions);
            grant.record.add(REGISTRATION).cast::<u32>().write(request.registration);
            Payload::new(grant.record, request.payload_size)
        };
        fill(&mut payload);
        let Some(filled) = payload.filled() else { return Err(Refused::Abandoned) };
        std::mem::forget(guard);
        let stamp = Stamp { time: now.time, cpu: now.cpu, filled };
        // SAFETY: `RECORD`, by the grant.
        unsafe { write_header(request, &grant, &stamp, thread.tid.get()) };
        commit_owned(thread, grant.head, record_size(filled as usize) as u32);
        Ok(())
    }

    /// [`write`](Self::write) of a payload of exactly the announced size, if the thread's chunk has space and the summary admits the
    /// event. That is nearly every write. `None`: nothing happened and `fill` was not called; call `write`.
    ///
    /// `attachment` is this writer's, which the caller knows as a constant. The request is passed by value, so it stays in registers.
    #[inline(always)]
    pub fn try_write(
        &self,
        attachment: usize,
        request: Request,
        fill: impl for<'b> FnOnce(Room<'b>) -> Room<'b>,
    ) -> Option<Result<(), Refused>> {
        let begun = self.try_begin_on(try_this_thread()?, attachment, &request)?;
        Some(begun.write(self, request.payload_size, fill))
    }

    /// The first half of [`try_write`](Self::try_write), for a caller that puts the payload into memory by itself: the address of
    /// `payload_size` bytes. `None`: nothing happened.
    ///
    /// # Safety
    /// `BEGUN`: the caller fills all of these bytes at once, and then calls [`commit_begun`] with the same attachment and size on the
    /// same thread. Until then, the host waits for the record, and other writes of the thread use overflow chunks. The writer is neither
    /// moved nor freed while it is one of the process's.
    #[inline(always)]
    pub unsafe fn try_begin_write(
        &self,
        thread: &Thread,
        attachment: usize,
        request: Request,
    ) -> Option<NonNull<u8>> {
        Some(self.try_begin_on(thread, attachment, &request)?.payload)
    }

    /// Announces a write and puts the header of its record.
    #[inline(always)]
    fn try_begin_on<'t>(
        &self,
        thread: &'t Thread,
        attachment: usize,
        request: &Request,
    ) -> Option<Begun<'t>> {
        // The state of another attachment has another epoch, so `try_begin` refuses it.
        let thread = &thread.states[attachment % MAX_ATTACHMENTS];
        let grant = self.try_begin(thread, request)?;
        // SAFETY: `GRANT`: it comes from `try_begin`.
        unsafe {
            put_identity(thread, request, &grant);
            Some(put_stamp(thread, request, &grant, self.moment()))
        }
    }

    /// Reads time and CPU of an announced write.
    #[inline(always)]
    fn moment(&self) -> Moment {
        if self.fast {
            return self.cpu.stamp();
        }
        etw_types::cold_path();
        Moment { time: self.clock_after_announcement(), cpu: self.cpu.current() }
    }

    /// Reads the clock after the announcement, behind the fences that the barrier needs.
    #[inline(always)]
    pub(super) fn clock_after_announcement(&self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if self.light == Light::Full {
            // SAFETY: SSE2 is part of x86-64. MFENCE does not order RDTSC; LFENCE does.
            unsafe { core::arch::x86_64::_mm_lfence() };
        }
        self.clock.now()
    }

    /// Announces and counts a write into the thread's chunk. `None`: nothing happened, take the slow path.
    #[inline(always)]
    pub(super) fn try_begin(&self, thread: &ThreadState, request: &Request) -> Option<Grant> {
        if !self.is_attached() {
            return None;
        }
        enter(thread)?;
        let grant = self.try_begin_busy(thread, request);
        if grant.is_none() {
            leave(thread);
        }
        grant
    }

    #[inline(always)]
    fn try_begin_busy(&self, thread: &ThreadState, request: &Request) -> Option<Grant> {
        // The state of another writer has another epoch.
        if thread.epoch.get() != self.epoch || request.payload_size as usize > MAX_PAYLOAD_SIZE {
            return None;
        }
        // A thread without a slot or a chunk has no free bytes. They are a multiple of eight, so the rounded size fits too.
        if request.payload_size + RECORD_HEADER_SIZE as u32 > thread.free.get() {
            etw_types::cold_path();
            if !self.gate().summary().admits(request.sessions, request.event_size)
                || !self.change_chunk(thread, request.payload_size)
            {
                return None;
            }
        }
        // SAFETY: a thread with free bytes has a chunk, so `register` and `new_chunk` have set the pointers for this writer (by its
        // epoch), which keeps the memory alive.
        let line = unsafe { &*thread.line.get() };
        let head = thread.head.get();
        proto::announce(&line.head, head, if self.fast { Light::Compiler } else { self.light });
        let (gate, sessions) = (self.gate(), request.sessions);
        let (summary, revocations) = (gate.summary(), gate.revocations.load(Ordering::Acquire));
        let is_to_check = revocations != thread.revocations.get();
        if !summary.admits(sessions, request.event_size)
            || (is_to_check && revoked_by(thread, revocations))
            || sessions == 0
        {
            etw_types::cold_path();
            // Nothing was written: withdraw the announcement.
            line.head.store(head.0, Ordering::Release);
            return None;
        }
        // SAFETY: set together with `line`.
        count_attempt(thread, line, unsafe { &*thread.counters.get() }, sessions);
        // SAFETY: an announced write, whose record fits behind the committed offset.
        Some(unsafe { grant(thread, line, head, summary, sessions) })
    }
}

/// Makes the thread busy. `None`: it is inside of a write.
#[inline(always)]
pub(super) fn enter(thread: &ThreadState) -> Option<()> {
    if thread.busy.load(Ordering::Relaxed) {
        return None;
    }
    thread.busy.store(true, Ordering::Relaxed);
    // From here on, a signal handler on this thread writes through an overflow chunk. A handler that ran between the load and the
    // store has finished: it found `busy` clear and left it clear.
    compiler_fence(Ordering::SeqCst);
    Some(())
}

#[inline(always)]
pub(super) fn leave(thread: &ThreadState) {
    compiler_fence(Ordering::SeqCst);
    thread.busy.store(false, Ordering::Relaxed);
}

/// The grant of an announced and counted write.
///
/// # Safety
/// The record fits into the thread's chunk behind the committed offset.
#[inline(always)]
pub(super) unsafe fn grant(
    thread: &ThreadState,
    line: &Line,
    head: Head,
    summary: Summary,
    sessions: u8,
) -> Grant {
    let seq = line.seq.load(Ordering::Relaxed);
    line.seq.store(seq.wrapping_add(1), Ordering::Relaxed);
    // SAFETY: by the caller; the chunk belongs to this thread alone.
    let record = unsafe { thread.base.get().add(head.committed() as usize) };
    Grant { record, head, seq, epoch: summary.epoch(), sessions }
}

/// Publishes the time of an announced write in the thread's line.
#[inline(always)]
fn publish(thread: &ThreadState, now: Moment) {
    // SAFETY: a thread with an announced write has a slot, so the pointer is set.
    unsafe { (*thread.line.get()).since.store(now.time, Ordering::Relaxed) };
}

/// Whether one of the revocations up to this count took the chunk of a thread that has announced a write.
#[cold]
#[inline(never)]
fn revoked_by(thread: &ThreadState, revocations: u64) -> bool {
    // SAFETY: a thread that has announced a write has a chunk, so `new_chunk` has set the pointer.
    let revoked = proto::revoked(unsafe { &*thread.chunk.get() }, thread.closing_key.get());
    if !revoked {
        thread.revocations.set(revocations);
    }
    revoked
}

/// A write whose header is put.
pub(super) struct Begun<'a> {
    thread: &'a ThreadState,
    pub(super) payload: NonNull<u8>,
}

/// Puts the part of a header that is known before the clock is read, so that few values must be kept behind that.
///
/// # Safety
/// `GRANT`: the grant of a write of this thread that is neither committed nor abandoned.
#[inline(always)]
pub(super) unsafe fn put_identity(thread: &ThreadState, request: &Request, grant: &Grant) {
    // SAFETY: `RECORD`; the grant's record belongs to this write until its commit.
    unsafe { write_identity(request, grant, thread.tid.get()) };
}

/// Puts the rest of the header, before the payload, for the same reason: the host reads nothing before the commit.
///
/// # Safety
/// `GRANT` of [`put_identity`].
#[inline(always)]
pub(super) unsafe fn put_stamp<'a>(
    thread: &'a ThreadState,
    request: &Request,
    grant: &Grant,
    now: Moment,
) -> Begun<'a> {
    publish(thread, now);
    let stamp = Stamp { time: now.time, cpu: now.cpu, filled: request.payload_size };
    // SAFETY: `RECORD`, as in `put_identity`; the grant's record is not null.
    let payload = unsafe {
        write_stamp(request, grant, &stamp);
        NonNull::new_unchecked(grant.record.add(RECORD_HEADER_SIZE))
    };
    Begun { thread, payload }
}

impl Begun<'_> {
    /// Fills the payload, of the size in the header, and commits.
    #[inline(always)]
    pub(super) fn write(
        self,
        writer: &Writer,
        payload_size: u32,
        fill: impl FillRoom,
    ) -> Result<(), Refused> {
        let Begun { thread, payload } = self;
        let guard = Owned { writer, thread };
        let size = payload_size as usize;
        // SAFETY: the payload of the begun record belongs to this write until its commit.
        let room = unsafe { std::slice::from_raw_parts_mut(payload.as_ptr().cast(), size) };
        if !fill.fill(Room::new(room)).is_full() {
            etw_types::cold_path();
            return Err(Refused::Abandoned);
        }
        std::mem::forget(guard);
        commit_owned(thread, thread.head.get(), record_size(size) as u32);
        Ok(())
    }
}

/// Publishes the event that [`Writer::try_begin_write`] began.
///
/// # Safety
/// `BEGUN` of that function: the calling thread has begun a write of this size in this attachment, and filled it.
#[inline(always)]
pub unsafe fn commit_begun(attachment: usize, payload_size: u32) {
    // SAFETY: `BEGUN`: the write has found the thread's data.
    let thread = unsafe { try_this_thread().unwrap_unchecked() };
    let thread = &thread.states[attachment % MAX_ATTACHMENTS];
    commit_owned(thread, thread.head.get(), record_size(payload_size as usize) as u32);
}

/// Gives up the event that [`Writer::try_begin_write`] began: it counts as lost ([`Cause::Abandoned`]).
///
/// # Safety
/// `BEGUN` of that function: the calling thread has begun a write in this attachment, and has not committed it.
#[cold]
#[inline(never)]
pub unsafe fn abandon_begun(attachment: usize) {
    let Some(thread) = try_this_thread() else { return };
    let thread = &thread.states[attachment % MAX_ATTACHMENTS];
    // SAFETY: `BEGUN`: the writer is where it was when the thread registered.
    if let Some(writer) = unsafe { thread.writer.get().as_ref() } {
        abandon_owned(writer, thread);
    }
}

/// Commits an owned write: first the thread's copy of the head, then the head, and only then `busy`.
#[inline(always)]
pub(super) fn commit_owned(thread: &ThreadState, head: Head, record_size: u32) {
    let head = head.advanced(record_size);
    thread.head.set(head);
    thread.free.set(thread.free.get() - record_size);
    // SAFETY: a thread with an owned write has a slot.
    proto::commit(unsafe { &(*thread.line.get()).head }, head);
    leave(thread);
}

/// Abandons an owned write that is not committed, because `fill` panicked or put too much.
pub(super) struct Owned<'a> {
    writer: &'a Writer,
    thread: &'a ThreadState,
}

impl Drop for Owned<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        abandon_owned(self.writer, self.thread);
    }
}

#[cold]
#[inline(never)]
fn abandon_owned(writer: &Writer, thread: &ThreadState) {
    // SAFETY: a thread that has begun a write has a chunk; sessions and registration are written before the payload is filled.
    let (sessions, registration) = unsafe {
        let record = thread.base.get().add(thread.head.get().committed() as usize);
        (
            record.add(RECORD_SESSIONS).read(),
            record.add(REGISTRATION).cast::<u32>().read_unaligned(),
        )
    };
    abandon(writer, thread, sessions, registration);
}

#[cold]
#[inline(never)]
pub(super) fn abandon(writer: &Writer, thread: &ThreadState, sessions: u8, registration: u32) {
    writer.lost(Some(thread), registration, Cause::Abandoned, sessions);
    withdraw(thread);
}

/// Ends an owned write without its record.
fn withdraw(thread: &ThreadState) {
    // SAFETY: a thread with an owned write has a slot.
    unsafe { (*thread.line.get()).head.store(thread.head.get().0, Ordering::Release) };
    leave(thread);
}
