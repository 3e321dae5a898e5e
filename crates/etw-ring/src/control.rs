//! The control memory: what the host tells a pool's writers. Only the host writes it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::layout::*;
use crate::sys::{Barrier, Memory, RawClock};

/// What the host publishes for one session slot; a writer reads it before every event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Admission {
    /// A session is behind the slot. Otherwise the slot silently leaves an event's mask.
    pub open: bool,
    /// It has no room at present (status 8).
    pub full: bool,
    /// Its refusal does not refuse the other sessions of the mask.
    pub independent: bool,
    /// Bytes its extended items add to every event.
    pub extra_size: u16,
    /// Largest event, extra bytes included, that fits its buffers (status 234). ETW's own limit is 65535 (status 534).
    pub largest_size: u32,
}

pub(crate) const OPEN: u64 = 1;
pub(crate) const FULL: u64 = 2;
pub(crate) const INDEPENDENT: u64 = 4;
/// In all words of a control: the host does not look at this pool, and the next write has to wake it.
pub(crate) const QUIET: u64 = 8;

/// ETW's limit: an event's size is a u16.
pub const LARGEST_EVENT_SIZE: u32 = 65535;

impl Admission {
    fn pack(self) -> u64 {
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        flag(self.open, OPEN)
            | flag(self.full, FULL)
            | flag(self.independent, INDEPENDENT)
            | u64::from(self.extra_size) << 16
            | u64::from(self.largest_size.min(LARGEST_EVENT_SIZE)) << 32
    }
}

/// The host's side of one pool: admission words, consumed positions, the journal that moves them as one.
///
/// It lies in memory of the host's own ([`Memory::shared`](crate::Memory), or a file for a private session), which the
/// provider maps read-only. A host that restarts opens the same memory again and goes on where its last
/// [`advance`](crate::Reader::advance) left off.
#[derive(Debug, Clone)]
pub struct Control {
    pub(crate) memory: Arc<Memory>,
    pub(crate) clock: RawClock,
    pub(crate) barrier: Barrier,
}

impl Control {
    /// Bytes of memory a control needs.
    pub const SIZE: usize = CONTROL_SIZE;

    /// Lays a control out in zeroed memory of the host.
    ///
    /// # Errors
    /// Too small or read-only memory.
    pub fn create(memory: Memory, clock: RawClock, barrier: Barrier) -> io::Result<Control> {
        if memory.len() < CONTROL_SIZE || !memory.is_writable() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut flags = 0;
        if clock == RawClock::Tsc {
            flags |= F_TSC;
        }
        match barrier {
            Barrier::Private => {}
            Barrier::Global => flags |= F_GLOBAL,
            Barrier::WriterFences => flags |= F_FENCE,
        }
        memory.prefault(0, C_CHUNKS + 4096);
        memory.half(C_FLAGS).store(flags, Ordering::Relaxed);
        memory.half(P_VERSION).store(VERSION, Ordering::Relaxed);
        memory.word(0).store(CONTROL_MAGIC, Ordering::Release);
        Ok(Control { memory: Arc::new(memory), clock, barrier })
    }

    /// Opens a control that was created before: by a writer, or by a host that starts again. What a host killed in the
    /// middle of an `advance` left is finished first (if the memory is writable).
    ///
    /// # Errors
    /// Memory that holds no control of this version.
    pub fn open(memory: Memory) -> io::Result<Control> {
        Self::open_shared(Arc::new(memory))
    }

    /// [`open`](Self::open) on memory that somebody else holds too.
    pub fn open_shared(memory: Arc<Memory>) -> io::Result<Control> {
        Self::open_until(memory, u64::MAX)
    }

    /// [`open_shared`](Self::open_shared) for one of several controls whose batches are made final together: a batch
    /// above `last`, the last one that was, is forgotten, and its records are drained again.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_until(memory: Arc<Memory>, last: u64) -> io::Result<Control> {
        if memory.len() < CONTROL_SIZE
            || memory.word(0).load(Ordering::Acquire) != CONTROL_MAGIC
            || memory.half(P_VERSION).load(Ordering::Relaxed) != VERSION
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "not a control of this version",
            ));
        }
        let flags = memory.half(C_FLAGS).load(Ordering::Relaxed);
        let clock = if flags & F_TSC != 0 { RawClock::Tsc } else { RawClock::Monotonic };
        let barrier = if flags & F_FENCE != 0 {
            Barrier::WriterFences
        } else if flags & F_GLOBAL != 0 {
            Barrier::Global
        } else {
            Barrier::Private
        };
        let control = Control { memory, clock, barrier };
        if control.memory.is_writable() {
            if control.memory.word(C_JOURNAL_BATCH).load(Ordering::Relaxed) > last {
                control.memory.word(C_JOURNAL_COUNT).store(0, Ordering::Release);
            }
            control.redo();
            // A host may have been killed between a slot's word and their sum.
            control.sum_up();
        }
        Ok(control)
    }

    /// The memory, to be handed to the provider.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// The pool's raw clock.
    pub fn clock(&self) -> RawClock {
        self.clock
    }

    /// Publishes the state of a session slot.
    ///
    /// # Panics
    /// When `slot` is not below [`SESSIONS`].
    pub fn set_admission(&self, slot: usize, admission: Admission) {
        assert!(slot < SESSIONS);
        let word = self.memory.word(C_ADMISSION + slot * 8);
        let quiet = word.load(Ordering::Relaxed) & QUIET;
        word.store(admission.pack() | quiet, Ordering::Release);
        self.sum_up();
    }

    /// What nearly every write asks, in one word: who refuses any event, and from which size on somebody else does. Nothing is written
    /// by a word of zeros.
    fn sum_up(&self) {
        let (mut refusing, mut too_large) = (0xff, u32::MAX);
        for slot in 0..SESSIONS {
            let word = self.memory.word(C_ADMISSION + slot * 8).load(Ordering::Relaxed);
            if word & (OPEN | FULL | QUIET) == OPEN {
                let (largest, extra) = ((word >> 32) as u32, (word >> 16) as u32 & 0xffff);
                refusing &= !(1 << slot);
                too_large = too_large.min((largest.saturating_add(1)).saturating_sub(extra));
            }
        }
        let word = u64::from(too_large) << 32 | refusing;
        self.memory.word(C_ADMITTED).store(word, Ordering::Release);
    }

    /// Asks writers to ring before their next write; the number that they ring with.
    pub(crate) fn ask_to_ring(&self) -> u32 {
        let count = self.memory.half(C_QUIET);
        let next = count.load(Ordering::Relaxed).wrapping_add(1).max(1);
        count.store(next, Ordering::Relaxed);
        for slot in 0..SESSIONS {
            // Release: who sees the bit sees the count.
            self.memory.word(C_ADMISSION + slot * 8).fetch_or(QUIET, Ordering::Release);
        }
        self.sum_up();
        next
    }

    /// Writers need not ring any more.
    pub(crate) fn stop_asking(&self) {
        for slot in 0..SESSIONS {
            self.memory.word(C_ADMISSION + slot * 8).fetch_and(!QUIET, Ordering::Release);
        }
        self.sum_up();
    }

    /// Begins a new meaning of session slots: close the slot, bump, then open it for the next session. Records carry the
    /// epoch they were admitted under, so one that was admitted for the slot's previous session is told apart however late
    /// it arrives.
    pub fn bump_epoch(&self) -> u16 {
        let epoch = self.memory.half(C_EPOCH);
        let next = epoch.load(Ordering::Relaxed).wrapping_add(1);
        epoch.store(next, Ordering::Release);
        next as u16
    }

    /// Waits for at most `timeout`, unless `busy` finds something to do: for a writer that found the pool filling up, or
    /// for [`wake`](Self::wake). One thread of the host at a time.
    pub fn sleep(&self, timeout: Duration, busy: impl FnOnce() -> bool) {
        sleep_on(self.memory.half(C_ASLEEP), timeout, busy);
    }

    /// Ends a [`sleep`](Self::sleep), by another thread of the host.
    pub fn wake(&self) {
        wake_on(self.memory.half(C_ASLEEP));
    }

    /// Number of the last batch whose consumption is final; see [`Reader::advance`](crate::Reader::advance).
    pub fn batch(&self) -> u64 {
        self.memory.word(C_BATCH).load(Ordering::Acquire)
    }

    /// Writes a set of stores down without making them. A part beyond the journal's room is made at once: only a pool far
    /// beyond the limits would need it.
    pub(crate) fn prepare(&self, stores: &[(u32, u64)], batch: u64) {
        for part in stores.chunks(C_JOURNAL_ROOM) {
            self.redo();
            for (i, &(offset, value)) in part.iter().enumerate() {
                let at = C_JOURNAL + i * 16;
                self.memory.word(at).store(u64::from(offset), Ordering::Relaxed);
                self.memory.word(at + 8).store(value, Ordering::Relaxed);
            }
            self.memory.word(C_JOURNAL_BATCH).store(batch, Ordering::Relaxed);
            self.memory.word(C_JOURNAL_COUNT).store(part.len() as u64, Ordering::Release);
        }
    }

    /// Makes the prepared stores as one, whatever kills the host in between: journal, count, stores, batch, count 0.
    pub(crate) fn apply(&self, batch: u64) {
        if self.memory.word(C_JOURNAL_COUNT).load(Ordering::Relaxed) == 0 {
            self.memory.word(C_BATCH).store(batch, Ordering::Release);
        }
        self.redo();
    }

    fn redo(&self) {
        let count = self.memory.word(C_JOURNAL_COUNT).load(Ordering::Acquire) as usize;
        if count == 0 || count > C_JOURNAL_ROOM {
            return;
        }
        for i in 0..count {
            let at = C_JOURNAL + i * 16;
            let offset = self.memory.word(at).load(Ordering::Relaxed) as usize;
            let value = self.memory.word(at + 8).load(Ordering::Relaxed);
            if offset.is_multiple_of(8) && offset < C_JOURNAL {
                self.memory.word(offset).store(value, Ordering::Release);
            }
        }
        let batch = self.memory.word(C_JOURNAL_BATCH).load(Ordering::Relaxed);
        self.memory.word(C_BATCH).store(batch, Ordering::Release);
        self.memory.word(C_JOURNAL_COUNT).store(0, Ordering::Release);
    }
}

impl Control {
    /// Registers this process for the host's barrier, so that the kernel need not do it when a [`Writer`](crate::Writer) is made. While the process
    /// has one thread that takes no time; with more, the kernel waits for all processors, which takes tens of milliseconds.
    ///
    /// # Errors
    /// A control of another version; what the host relies on is not to be had.
    pub fn register_process(memory: &Arc<Memory>) -> io::Result<()> {
        match Control::open_read(memory)?.1.register() {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::Unsupported, "membarrier is not available")),
        }
    }

    /// Clock and barrier, for a writer: nothing is changed.
    pub(crate) fn open_read(memory: &Arc<Memory>) -> io::Result<(RawClock, Barrier)> {
        if memory.len() < CONTROL_SIZE
            || memory.word(0).load(Ordering::Acquire) != CONTROL_MAGIC
            || memory.half(P_VERSION).load(Ordering::Relaxed) != VERSION
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "not a control of this version",
            ));
        }
        let flags = memory.half(C_FLAGS).load(Ordering::Relaxed);
        let clock = if flags & F_TSC != 0 { RawClock::Tsc } else { RawClock::Monotonic };
        let barrier = if flags & F_FENCE != 0 {
            Barrier::WriterFences
        } else if flags & F_GLOBAL != 0 {
            Barrier::Global
        } else {
            Barrier::Private
        };
        Ok((clock, barrier))
    }
}

/// What a host of several pools sleeps on: one word in a memory of its own, which providers map read-only.
#[derive(Clone, Debug)]
pub struct Bell {
    memory: Arc<Memory>,
}

impl Bell {
    /// Bytes of memory a bell needs.
    pub const SIZE: usize = 4096;

    /// A bell in zeroed memory of the host.
    ///
    /// # Errors
    /// Memory that is too small.
    pub fn new(memory: Arc<Memory>) -> io::Result<Bell> {
        match memory.len() < Self::SIZE {
            true => Err(io::ErrorKind::InvalidInput.into()),
            false => Ok(Bell { memory }),
        }
    }

    /// The memory, to be handed to providers.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// As [`Control::sleep`].
    pub fn sleep(&self, timeout: Duration, busy: impl FnOnce() -> bool) {
        sleep_on(self.memory.half(0), timeout, busy);
    }

    /// As [`Control::wake`].
    pub fn wake(&self) {
        wake_on(self.memory.half(0));
    }
}

fn sleep_on(asleep: &AtomicU32, timeout: Duration, busy: impl FnOnce() -> bool) {
    // SeqCst, before `busy` looks: whoever gives work and then calls `wake` sees this, or is seen by `busy`.
    asleep.store(1, Ordering::SeqCst);
    if !busy() {
        crate::sys::futex_wait(asleep, 1, timeout);
    }
    asleep.store(0, Ordering::SeqCst);
}

fn wake_on(asleep: &AtomicU32) {
    std::sync::atomic::fence(Ordering::SeqCst);
    if asleep.swap(0, Ordering::SeqCst) != 0 {
        crate::sys::futex_wake(asleep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_killed_in_the_middle_of_an_advance_finishes_it_on_opening() {
        let memory = Memory::heap(CONTROL_SIZE).unwrap();
        let control = Control::create(memory, RawClock::Monotonic, Barrier::WriterFences).unwrap();
        control.prepare(&[(C_CHUNKS as u32, 7)], 1);
        assert_eq!(control.batch(), 0);
        control.apply(1);
        assert_eq!(control.batch(), 1);
        // The state after the journal was made valid and nothing was applied.
        control.memory.word(C_JOURNAL).store(C_CHUNKS as u64 + 8, Ordering::Relaxed);
        control.memory.word(C_JOURNAL + 8).store(9, Ordering::Relaxed);
        control.memory.word(C_JOURNAL_BATCH).store(2, Ordering::Relaxed);
        control.memory.word(C_JOURNAL_COUNT).store(1, Ordering::Relaxed);
        let control = Control::open_shared(control.memory.clone()).unwrap();
        assert_eq!(control.batch(), 2);
        assert_eq!(control.memory.word(C_CHUNKS).load(Ordering::Relaxed), 7);
        assert_eq!(control.memory.word(C_CHUNKS + 8).load(Ordering::Relaxed), 9);
        assert_eq!(control.barrier, Barrier::WriterFences);
        // Prepared, but its host was killed before all pools of the batch were.
        control.prepare(&[(C_CHUNKS as u32, 11)], 3);
        let control = Control::open_until(control.memory.clone(), 2).unwrap();
        assert_eq!(control.memory.word(C_CHUNKS).load(Ordering::Relaxed), 7);
        assert_eq!(control.batch(), 2);
    }

    #[test]
    fn the_sum_of_admissions_is_made_anew_by_the_next_host() {
        let memory = Memory::heap(CONTROL_SIZE).unwrap();
        let control = Control::create(memory, RawClock::Monotonic, Barrier::WriterFences).unwrap();
        let open = Admission { open: true, largest_size: 1000, ..Admission::default() };
        control.set_admission(1, open);
        control.set_admission(6, Admission { extra_size: 24, ..open });
        let sum = control.memory.word(C_ADMITTED);
        assert_eq!(sum.load(Ordering::Relaxed), 977 << 32 | 0b1011_1101);
        // Killed behind the slot's word.
        sum.store(5, Ordering::Relaxed);
        let control = Control::open_shared(control.memory.clone()).unwrap();
        assert_eq!(sum.load(Ordering::Relaxed), 977 << 32 | 0b1011_1101);
        // Nobody is admitted past a host that waits to be rung for.
        control.ask_to_ring();
        control.set_admission(6, Admission::default());
        assert_eq!(sum.load(Ordering::Relaxed) as u8, 0xff);
        control.stop_asking();
        assert_eq!(sum.load(Ordering::Relaxed), 1001 << 32 | 0b1111_1101);
    }
}
