//! Reservations: the record of an admitted event, in the thread's chunk or in an overflow chunk, until its commit.

use std::sync::atomic::{Ordering, compiler_fence};

use super::overflow::SharedRecord;
use super::owned::{abandon, commit_owned};
use super::record::{Grant, Stamp, write_header};
use super::thread::ThreadState;
use super::{Payload, Refused, Request, Writer};
use crate::layout::*;
use crate::proto::{self, Head};
use crate::sync::light_barrier;
use crate::sys;

/// The record of an admitted event. Fill it and [`commit`](Self::commit). If it is dropped, the event counts as lost
/// ([`Cause::Abandoned`]).
#[derive(Debug)]
#[must_use = "a reservation that is dropped is a lost event"]
pub struct Reservation<'a> {
    writer: &'a Writer,
    request: Request,
    grant: Grant,
    payload: Payload<'a>,
    tid: u32,
    cpu: u16,
    time: u64,
    location: Location<'a>,
}

impl<'a> Reservation<'a> {
    #[inline(always)]
    fn new(
        writer: &'a Writer,
        request: &Request,
        grant: Grant,
        tid: u32,
        location: Location<'a>,
    ) -> Reservation<'a> {
        // SAFETY: the grant's record has space for `payload_size` bytes, until commit or drop.
        let payload = unsafe { Payload::new(grant.record, request.payload_size) };
        Reservation { writer, request: *request, grant, payload, tid, cpu: 0, time: 0, location }
    }

    /// Reads clock and CPU.
    #[inline(always)]
    pub fn stamp_now(&mut self) {
        self.stamp(self.writer.clock_after_announcement(), self.writer.cpu.current());
    }

    /// Sets time and CPU. The caller must have read the time after it made the reservation.
    #[inline(always)]
    pub fn stamp(&mut self, time: u64, cpu: u16) {
        self.time = time;
        self.cpu = cpu;
        if let Location::Owned(thread) = &self.location {
            // SAFETY: a thread with an owned record has a slot.
            unsafe { (*thread.line.get()).since.store(time, Ordering::Relaxed) };
        }
    }

    /// The time of the stamp; 0 before.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// The CPU of the stamp.
    pub fn cpu(&self) -> u16 {
        self.cpu
    }

    /// The sessions that admitted the event.
    pub fn sessions(&self) -> u8 {
        self.grant.sessions
    }

    /// The payload, to append to.
    #[inline(always)]
    pub fn payload(&mut self) -> &mut Payload<'a> {
        &mut self.payload
    }

    /// Appends to the payload ([`Payload::put`]).
    #[inline(always)]
    pub fn put(&mut self, bytes: &[u8]) {
        self.payload.put(bytes);
    }

    /// Publishes the event.
    ///
    /// # Errors
    /// [`Refused::Abandoned`] if the caller put more than it reserved; the event counts as lost.
    #[inline(always)]
    pub fn commit(mut self) -> Result<(), Refused> {
        let Some(filled) = self.payload.filled() else { return Err(Refused::Abandoned) };
        if self.time == 0 {
            self.stamp_now();
        }
        let stamp = Stamp { time: self.time, cpu: self.cpu, filled };
        // SAFETY: `RECORD`, by the grant, until the stores below.
        unsafe { write_header(&self.request, &self.grant, &stamp, self.tid) };
        match &self.location {
            Location::Owned(thread) => {
                commit_owned(thread, self.grant.head, record_size(filled as usize) as u32);
            }
            Location::Shared(record, thread) => {
                self.end_shared(record, *thread, record.committed());
            }
        }
        std::mem::forget(self);
        Ok(())
    }

    fn end_shared(&self, record: &SharedRecord, thread: Option<&ThreadState>, entry: u64) {
        self.writer.end_shared(record, entry);
        if let Some(thread) = thread {
            compiler_fence(Ordering::SeqCst);
            thread.busy.store(false, Ordering::Relaxed);
        }
    }
}

#[derive(Debug)]
enum Location<'a> {
    Owned(&'a ThreadState),
    /// The thread state whose `busy` flag this write holds; `None` for a nested write.
    Shared(SharedRecord, Option<&'a ThreadState>),
}

impl Drop for Reservation<'_> {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        // In the child of a handler that forked inside this write, the pool is private zeros, so this is harmless.
        let (sessions, registration) = (self.grant.sessions, self.request.registration);
        match &self.location {
            Location::Owned(thread) => abandon(self.writer, thread, sessions, registration),
            Location::Shared(record, thread) => {
                self.writer.lost(*thread, registration, Cause::Abandoned, sessions);
                self.end_shared(record, *thread, record.abandoned());
            }
        }
    }
}

impl Writer {
    /// Admits an event and reserves its record. The write is announced. Its time is read afterwards: by [`Reservation::stamp_now`], or
    /// by the caller once all records of an event in several pools are reserved.
    ///
    /// # Errors
    /// See [`Refused`]; losses are counted.
    #[inline(always)]
    pub fn reserve<'a>(
        &'a self,
        thread: &'a ThreadState,
        request: &Request,
    ) -> Result<Reservation<'a>, Refused> {
        match self.try_begin(thread, request) {
            Some(grant) => {
                let tid = thread.tid.get();
                Ok(Reservation::new(self, request, grant, tid, Location::Owned(thread)))
            }
            None => self.reserve_slow(thread, request),
        }
    }

    /// [`reserve`](Self::reserve) with the calling thread's own state.
    ///
    /// # Errors
    /// See [`Refused`]; losses are counted.
    #[inline(always)]
    pub fn reserve_here(&self, request: &Request) -> Result<Reservation<'_>, Refused> {
        self.reserve(self.thread(), request)
    }

    /// Writes one event through an overflow chunk: for a handler that must not use thread-local storage.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn write_in_overflow(
        &self,
        request: &Request,
        fill: impl FnOnce(&mut Payload<'_>),
    ) -> Result<(), Refused> {
        if !self.is_attached() {
            return Err(Refused::Detached);
        }
        let mut reservation = self.reserve_in_overflow(None, sys::thread_id(), request)?;
        reservation.stamp_now();
        fill(&mut reservation.payload);
        reservation.commit()
    }

    #[cold]
    #[inline(never)]
    pub(super) fn write_slow(
        &self,
        thread: &ThreadState,
        request: &Request,
        fill: impl FnOnce(&mut Payload<'_>),
    ) -> Result<(), Refused> {
        let mut reservation = self.reserve_slow(thread, request)?;
        reservation.stamp_now();
        fill(&mut reservation.payload);
        reservation.commit()
    }

    #[cold]
    #[inline(never)]
    fn reserve_slow<'a>(
        &'a self,
        thread: &'a ThreadState,
        request: &Request,
    ) -> Result<Reservation<'a>, Refused> {
        if !self.is_attached() {
            return Err(Refused::Detached);
        }
        if thread.busy.load(Ordering::Relaxed) {
            // A nested write uses nothing of the thread but its id.
            return self.reserve_in_overflow(None, thread.tid.get(), request);
        }
        thread.busy.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let result = self.reserve_in_chunk(thread, request);
        if result.is_err() {
            compiler_fence(Ordering::SeqCst);
            thread.busy.store(false, Ordering::Relaxed);
        }
        result
    }

    /// Reserves a record in the thread's chunk, or in a new one, else in an overflow chunk. The thread holds `busy`.
    fn reserve_in_chunk<'a>(
        &'a self,
        thread: &'a ThreadState,
        request: &Request,
    ) -> Result<Reservation<'a>, Refused> {
        if thread.epoch.get() != self.epoch {
            self.reset(thread);
        }
        if thread.line.get().is_null() {
            // No slot was free. Search again only at every 256th write, since the search takes system calls.
            let retry = thread.retry.get();
            thread.retry.set(retry.wrapping_add(1));
            if retry == 0 {
                self.register(thread);
            }
        }
        if let Some(line) = self.line(thread).filter(|_| self.has_record_for(request)) {
            let need = record_size(request.payload_size as usize);
            for _ in 0..4 {
                // While the thread looks for a chunk it is not writing, so the host need not wait for it.
                if need > thread.free.get() as usize {
                    self.leave_chunk(thread, line);
                    if !self.new_chunk(thread, line, need) {
                        break;
                    }
                }
                let head = thread.head.get();
                proto::announce(&line.head, head, self.light);
                self.ring();
                // SAFETY: a thread with free bytes has a chunk, so `new_chunk` has set the pointer.
                let chunk = unsafe { &*thread.chunk.get() };
                if proto::revoked(chunk, thread.closing_key.get()) {
                    self.leave_chunk(thread, line);
                    continue;
                }
                let (epoch, sessions) = match self.admit_announced(request, Some(thread)) {
                    Ok(admitted) => admitted,
                    Err(refused) => {
                        line.head.store(head.0, Ordering::Release);
                        return Err(refused);
                    }
                };
                let seq = line.seq.load(Ordering::Relaxed);
                line.seq.store(seq.wrapping_add(1), Ordering::Relaxed);
                // SAFETY: the record fits behind the committed offset, and the chunk belongs to this thread alone.
                let record = unsafe { thread.base.get().add(head.committed() as usize) };
                let grant = Grant { record, head, seq, epoch, sessions };
                return Ok(Reservation::new(
                    self,
                    request,
                    grant,
                    thread.tid.get(),
                    Location::Owned(thread),
                ));
            }
        }
        self.reserve_in_overflow(Some(thread), thread.tid.get(), request)
    }

    /// Reserves a record in an overflow chunk: for a write inside another write of the same thread (a signal handler), without thread
    /// state, or if no other chunk is free. `thread`: the state whose `busy` flag the write holds.
    #[cold]
    #[inline(never)]
    fn reserve_in_overflow<'a>(
        &'a self,
        thread: Option<&'a ThreadState>,
        tid: u32,
        request: &Request,
    ) -> Result<Reservation<'a>, Refused> {
        let tid = if tid == 0 { sys::thread_id() } else { tid };
        let need = record_size(request.payload_size as usize);
        let space = if self.has_record_for(request) { self.overflow(need) } else { None };
        let Some((record, shared)) = space else {
            let sessions = self.admit_slow(request, thread)?;
            let (cause, refused) = match request.payload_size as usize > MAX_PAYLOAD_SIZE {
                true => (Cause::TooLarge, Refused::ArithmeticOverflow),
                false => (Cause::NoChunk, Refused::NotEnoughMemory),
            };
            self.attempted(thread, sessions);
            self.lost(thread, request.registration, cause, sessions);
            self.skip_sequence(match cause {
                Cause::TooLarge => thread,
                _ => None,
            });
            return Err(refused);
        };
        self.ring();
        let (epoch, sessions) = match self.admit_announced(request, thread) {
            Ok(admitted) => admitted,
            Err(refused) => {
                self.end_shared(&shared, shared.abandoned());
                return Err(refused);
            }
        };
        let seq = self.first().half(P_SHARED_SEQ).fetch_add(1, Ordering::Relaxed);
        let grant = Grant { record, head: Head(0), seq, epoch, sessions };
        Ok(Reservation::new(self, request, grant, tid, Location::Shared(shared, thread)))
    }

    /// Whether it is worth looking for space: a session admits the event, and a chunk can hold it.
    fn has_record_for(&self, request: &Request) -> bool {
        let Request { sessions, event_size, .. } = *request;
        request.payload_size as usize <= MAX_PAYLOAD_SIZE
            && (self.gate().summary().admits(sessions, event_size)
                || self.judge(request).is_admitted())
    }

    /// Admits and counts a write that is announced or reserved; its epoch and sessions.
    ///
    /// A thread can lose its processor between two instructions for as long as a session lives. So admission and count come behind
    /// the announcement: a host that closes a session either waits for this write, or the write finds the session closed. If they came
    /// before, the host would find an attempt without a record, and count it late.
    fn admit_announced(
        &self,
        request: &Request,
        thread: Option<&ThreadState>,
    ) -> Result<(u16, u8), Refused> {
        light_barrier(self.light);
        let epoch = self.gate().summary().epoch();
        let sessions = self.admit_slow(request, thread)?;
        self.attempted(thread, sessions);
        Ok((epoch, sessions))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sys::{Barrier, Memory, RawClock};
    use crate::writer::chunks::pause;
    use crate::{Admission, Control, DrainOptions, PATIENCE, PoolOptions, Reader, Source};

    const OPEN: Admission = Admission {
        open: true,
        full: false,
        independent: false,
        extra_size: 0,
        largest_size: 65535,
    };

    /// A write of this many bytes, by this way.
    type Write = fn(&Writer, &Request) -> Result<(), Refused>;

    const WRITES: [(Write, u32); 3] = [
        (|writer, request| writer.write(request, |_| ()), 8),
        (|writer, request| writer.write_in_overflow(request, |_| ()), 8),
        // It gets an overflow chunk of its own.
        (|writer, request| writer.write_in_overflow(request, |_| ()), 60_000),
    ];

    /// P2: a thread may look for a chunk for longer than its session lives. Its event is then an attempt of no session, or of the
    /// next one in the slot, which stores it.
    #[test]
    fn a_session_that_ends_while_a_thread_looks_for_a_chunk_counts_nothing_late() {
        for (write, payload_size) in WRITES {
            for is_reused in [false, true] {
                let memory = |size| Memory::heap(size).unwrap();
                let (clock, barrier) = (RawClock::Monotonic, Barrier::WriterFences);
                let control = Control::create(memory(CONTROL_SIZE), clock, barrier).unwrap();
                control.set_admission(0, OPEN);
                let options = PoolOptions { chunk_size: 1 << 20, prefault: 0 };
                let pool = memory(options.memory_size());
                let writer = Writer::new(pool, control.memory().clone(), options, 0).unwrap();
                let source = Source::Mapped(writer.segment(0).unwrap().clone());
                let reader = Reader::new(control.clone(), source).unwrap();
                let reader = std::rc::Rc::new(std::cell::RefCell::new(reader));
                let drain = move |expected: u64| {
                    let mut reader = reader.borrow_mut();
                    let patient = DrainOptions { patience: PATIENCE, ..DrainOptions::default() };
                    let mut epochs = Vec::new();
                    reader.drain(&patient, |record| epochs.push(record.epoch));
                    reader.advance();
                    assert_eq!((reader.drained()[0], reader.late()[0]), (expected, 0));
                    assert_eq!(reader.ledger().attempted[0], expected);
                    epochs
                };
                let (host, ending) = (control.clone(), drain.clone());
                pause::set(move || {
                    host.set_admission(0, Admission::default());
                    ending(0);
                    if is_reused {
                        host.bump_epoch();
                        host.set_admission(0, OPEN);
                    }
                });
                let request =
                    Request { sessions: 1, payload_size, event_size: 80, ..Request::default() };
                let written = write(&writer, &request);
                assert!(pause::is_over());
                match is_reused {
                    true => assert_eq!((written, drain(1)), (Ok(()), vec![1])),
                    false => assert_eq!((written, drain(0)), (Err(Refused::NotWanted), vec![])),
                }
            }
        }
    }
}
