//! Writes into the thread's own chunk: the path of nearly every event.

use std::sync::atomic::{Ordering, compiler_fence};

use super::counts::count_attempt;
use super::record::{Grant, Stamp, write_header, write_identity, write_stamp};
use super::thread::{ThreadState, thread_at_once};
use super::{MAX_ATTACHMENTS, Payload, Refused, Request, Writer};
use crate::layout::*;
use crate::proto::{self, Head};
use crate::room::{FillRoom, Room};
use crate::sync::Light;

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
        let Some(grant) = self.try_begin::<false>(thread, request) else {
            return self.write_slow(thread, request, fill);
        };
        // A panic in `fill` abandons the event.
        let guard = Owned { writer: self, thread, sessions: grant.sessions };
        let (time, cpu) = self.stamp_owned::<false>(thread);
        // SAFETY: the room was granted, and is ours until the commit.
        let mut payload = unsafe {
            // What the guard tells if it comes to that.
            grant.record.add(REGISTRATION).cast::<u32>().write(request.registration);
            Payload::new(grant.record, request.payload_size)
        };
        fill(&mut payload);
        let Some(filled) = payload.filled() else { return Err(Refused::Abandoned) };
        std::mem::forget(guard);
        let stamp = Stamp { time, cpu, filled, tid: thread.tid.get() };
        // SAFETY: as above.
        unsafe { write_header(request, &grant, &stamp) };
        commit_owned(thread, grant.head, filled);
        Ok(())
    }

    /// [`write`](Self::write) as far as it needs no chunk and no refusal, for a payload of exactly the announced size: what nearly
    /// every write is. `None`: nothing has happened, `fill` was not called, and `write` is to be called.
    ///
    /// `attachment` is this writer's, known to the caller as a constant. The request is taken by value, and no reference to
    /// it goes anywhere: so it stays in registers.
    #[inline(always)]
    pub fn try_write(
        &self,
        attachment: usize,
        request: Request,
        fill: impl for<'b> FnOnce(Room<'b>) -> Room<'b>,
    ) -> Option<Result<(), Refused>> {
        self.try_write_on::<false>(attachment, request, fill)
    }

    /// [`try_write`](Self::try_write) on the usual machine: x86-64 with TSC, membarrier and rseq. `None` on any other, too.
    #[inline(always)]
    pub fn try_write_fast(
        &self,
        attachment: usize,
        request: Request,
        fill: impl FillRoom,
    ) -> Option<Result<(), Refused>> {
        match self.plain {
            true => self.try_write_on::<true>(attachment, request, fill),
            false => None,
        }
    }

    #[inline(always)]
    fn try_write_on<const FAST: bool>(
        &self,
        attachment: usize,
        request: Request,
        fill: impl FillRoom,
    ) -> Option<Result<(), Refused>> {
        // Another attachment's state has another epoch, and so no room here.
        let thread = &thread_at_once()?.states[attachment % MAX_ATTACHMENTS];
        let grant = self.try_begin::<FAST>(thread, &request)?;
        let guard = Owned { writer: self, thread, sessions: grant.sessions };
        let filled = request.payload_size;
        // The header first, nobody looks at it before the commit: then little has to be kept while the payload is filled. And of the
        // header first what is known before the clock, for the same reason.
        // SAFETY: the room was granted, and is ours until the commit.
        let room = unsafe {
            let stamp = Stamp { time: 0, cpu: 0, filled, tid: thread.tid.get() };
            write_identity(&request, &grant, &stamp);
            let (time, cpu) = self.stamp_owned::<FAST>(thread);
            write_stamp(&request, &grant, &Stamp { time, cpu, ..stamp });
            let start = grant.record.add(RECORD_HEADER_SIZE).cast();
            std::slice::from_raw_parts_mut(start, filled as usize)
        };
        if fill.fill(Room::new(room)).left() != Some(0) {
            std::hint::cold_path();
            return Some(Err(Refused::Abandoned));
        }
        std::mem::forget(guard);
        commit_owned(thread, thread.head.get(), filled);
        Some(Ok(()))
    }

    /// Time and processor of an announced write, which its line is told.
    #[inline(always)]
    fn stamp_owned<const FAST: bool>(&self, thread: &ThreadState) -> (u64, u16) {
        let (time, cpu) = if FAST || self.plain {
            self.cpu.stamp()
        } else {
            std::hint::cold_path();
            (self.clock_after_announcement(), self.cpu.current())
        };
        // SAFETY: registered, since the fast path was taken.
        unsafe { (*thread.line.get()).since.store(time, Ordering::Relaxed) };
        (time, cpu)
    }

    /// "In flight" has been published; what fences there must be stand between that and the clock.
    #[inline(always)]
    pub(super) fn clock_after_announcement(&self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if self.light == Light::Full {
            // SAFETY: SSE2 is part of x86-64. MFENCE does not hold RDTSC back; LFENCE does.
            unsafe { core::arch::x86_64::_mm_lfence() };
        }
        self.clock.now()
    }

    /// The fast path up to the clock: an announced write with room, counted. `None`: nothing was done, take the slow path.
    /// `FAST`: known to be on the usual machine.
    #[inline(always)]
    pub(super) fn try_begin<const FAST: bool>(
        &self,
        thread: &ThreadState,
        request: &Request,
    ) -> Option<Grant> {
        if !self.is_attached() || thread.busy.load(Ordering::Relaxed) {
            return None;
        }
        thread.busy.store(true, Ordering::Relaxed);
        // From here a handler on this thread takes the nested path. One that ran between the load and the store has
        // finished: it found `busy` clear and left it clear.
        compiler_fence(Ordering::SeqCst);
        let grant = self.try_begin_busy::<FAST>(thread, request);
        if grant.is_none() {
            compiler_fence(Ordering::SeqCst);
            thread.busy.store(false, Ordering::Relaxed);
        }
        grant
    }

    #[inline(always)]
    fn try_begin_busy<const FAST: bool>(
        &self,
        thread: &ThreadState,
        request: &Request,
    ) -> Option<Grant> {
        // A thread of another writer, without a slot, or without a chunk has no room or another epoch.
        if thread.epoch.get() != self.epoch
            || request.payload_size as usize > MAX_PAYLOAD_SIZE
            // Rounded up to eight it fits just as well: rooms are multiples of eight.
            || request.payload_size + RECORD_HEADER_SIZE as u32 > thread.room.get()
        {
            return None;
        }
        // SAFETY: with room there is a chunk, so the pointers were set by `register` and `new_chunk` for this writer (its
        // epoch), which holds the memory.
        let (line, counters, chunk) =
            unsafe { (&*thread.line.get(), &*thread.counters.get(), &*thread.chunk.get()) };
        let head = thread.head.get();
        proto::announce(
            &line.head,
            head,
            if FAST || self.plain { Light::Compiler } else { self.light },
        );
        let revoked = proto::revoked(chunk, thread.closing_key.get());
        let epoch = self.admission_epoch();
        let sessions = request.sessions;
        if revoked || !self.admits(sessions, request.event_size) || sessions == 0 {
            std::hint::cold_path();
            // Nothing was written: take the announcement back.
            line.head.store(head.0, Ordering::Release);
            return None;
        }
        count_attempt(line, counters, sessions);
        let seq = line.seq.load(Ordering::Relaxed);
        line.seq.store(seq.wrapping_add(1), Ordering::Relaxed);
        // SAFETY: the committed offset lies inside the chunk, with room behind it, and the chunk is this thread's alone.
        let record = unsafe { thread.base.get().add(head.committed() as usize) };
        Some(Grant { record, head, seq, epoch, sessions })
    }
}

/// The end of an owned write: the thread's own copy of the head, the head, and only then `busy`.
#[inline(always)]
pub(super) fn commit_owned(thread: &ThreadState, head: Head, filled: u32) {
    let room = record_room(filled as usize) as u32;
    let head = head.advanced(room);
    thread.head.set(head);
    thread.room.set(thread.room.get() - room);
    // SAFETY: registered, since the write was owned.
    proto::commit(unsafe { &(*thread.line.get()).head }, head);
    compiler_fence(Ordering::SeqCst);
    thread.busy.store(false, Ordering::Relaxed);
}

/// An owned write that is not committed, because filling panicked or put too much.
pub(super) struct Owned<'a> {
    writer: &'a Writer,
    thread: &'a ThreadState,
    sessions: u8,
}

impl Drop for Owned<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the guard is made where a chunk is known, and its event's registration is written before anything can give up.
        let registration = unsafe {
            let record = self.thread.base.get().add(self.thread.head.get().committed() as usize);
            record.add(REGISTRATION).cast::<u32>().read_unaligned()
        };
        abandon(self.writer, self.thread, self.sessions, registration);
    }
}

/// By value: the guard then needs no place in memory.
#[cold]
#[inline(never)]
pub(super) fn abandon(writer: &Writer, thread: &ThreadState, sessions: u8, registration: u32) {
    writer.lost(Some(thread), registration, Cause::Abandoned, sessions);
    if let Some(line) = writer.line(thread) {
        line.head.store(thread.head.get().0, Ordering::Release);
    }
    compiler_fence(Ordering::SeqCst);
    thread.busy.store(false, Ordering::Relaxed);
}
