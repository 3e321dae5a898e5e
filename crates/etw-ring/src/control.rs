//! The control page, in which the host publishes admission and consumed positions to a pool's writers. Only the host writes it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::layout::*;
use crate::sys::{Barrier, Memory, RawClock};

/// The admission of one session slot, as the host publishes it. Writers test it for every event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Admission {
    /// The slot has a session. If not, writers drop the slot from the event's mask, and count nothing.
    pub open: bool,
    /// The session has no free buffer (status 8).
    pub full: bool,
    /// If this session refuses an event, the other sessions of the mask still get it.
    pub independent: bool,
    /// Bytes that the session's extended items add to every event.
    pub extra_size: u16,
    /// The largest event, extra bytes included, that fits the session's buffers (status 234). ETW's own limit is 65535
    /// (status 534).
    pub largest_size: u32,
}

pub(crate) const OPEN: u64 = 1;
pub(crate) const FULL: u64 = 2;
pub(crate) const INDEPENDENT: u64 = 4;
/// A bit in all admission words: the host does not drain this pool, and the next write must wake it.
pub(crate) const QUIET: u64 = 8;

/// The line of the control page that each write reads.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Gate {
    /// A [`Summary`].
    admitted: AtomicU64,
    /// Rises behind each chunk word by which a chunk is taken from its owner.
    pub(crate) revocations: AtomicU64,
}

const _: () = assert!(std::mem::offset_of!(Gate, revocations) == C_REVOCATIONS - C_GATE);

impl Gate {
    pub(crate) fn of(control: &Memory) -> &Gate {
        let [_, _] = [control.word(C_GATE), control.word(C_REVOCATIONS)];
        // SAFETY: in range and aligned, as the two words are; all fields are atomics.
        unsafe { &*control.as_ptr().add(C_GATE).cast::<Gate>() }
    }

    /// Acquire: what is read afterwards is at least as new, an admission word or the epoch's sessions.
    #[inline(always)]
    pub(crate) fn summary(&self) -> Summary {
        Summary(self.admitted.load(Ordering::Acquire))
    }
}

/// All admission words in one: the slots that refuse every event (bits 0–7), the epoch (16–31), the smallest size that another slot refuses
/// (32–63). Zeros admit nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary(u64);

impl Summary {
    fn new(refusing: u8, epoch: u16, too_large: u32) -> Summary {
        Summary(u64::from(too_large) << 32 | u64::from(epoch) << 16 | u64::from(refusing))
    }

    /// Whether every session of the mask admits an event of this size. `false`: ask the slots' own words.
    #[inline(always)]
    pub(crate) fn admits(self, sessions: u8, event_size: u32) -> bool {
        self.0 as u8 & sessions == 0 && event_size < (self.0 >> 32) as u32
    }

    #[inline(always)]
    pub(crate) fn epoch(self) -> u16 {
        (self.0 >> 16) as u16
    }
}

/// The largest event of ETW: its size is a u16.
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
/// It lies in memory of the host ([`Memory::shared`](crate::Memory), or a file for a private session), which the provider maps
/// read-only. A host that restarts opens the same memory, and continues behind its last [`advance`](crate::Reader::advance).
#[derive(Debug, Clone)]
pub struct Control {
    pub(crate) memory: Arc<Memory>,
    pub(crate) clock: RawClock,
    pub(crate) barrier: Barrier,
}

impl Control {
    /// The size of a control page.
    pub const SIZE: usize = CONTROL_SIZE;

    /// Makes a control page in zeroed memory of the host.
    ///
    /// # Errors
    /// `InvalidInput`: the memory is too small or read-only.
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

    /// Opens a control page that exists: for a host that restarts. If the memory is writable, an `advance` that a killed host left
    /// half done is completed.
    ///
    /// # Errors
    /// `InvalidData`: the memory holds no control page of this version.
    pub fn open(memory: Memory) -> io::Result<Control> {
        Self::open_shared(Arc::new(memory))
    }

    /// [`open`](Self::open) on shared memory.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_shared(memory: Arc<Memory>) -> io::Result<Control> {
        Self::open_until(memory, u64::MAX)
    }

    /// [`open_shared`](Self::open_shared) for one of several control pages whose batches become final together. A batch above `last`,
    /// the last final one, is forgotten, and its records are drained again.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_until(memory: Arc<Memory>, last: u64) -> io::Result<Control> {
        let (clock, barrier) = Control::clock_and_barrier(&memory)?;
        let control = Control { memory, clock, barrier };
        if control.memory.is_writable() {
            if control.memory.word(C_JOURNAL_BATCH).load(Ordering::Relaxed) > last {
                control.memory.word(C_JOURNAL_COUNT).store(0, Ordering::Release);
            }
            control.redo();
            // A host may have been killed between a slot's word and their summary.
            control.summarise(control.gate().summary().epoch());
        }
        Ok(control)
    }

    /// The memory, to be given to the provider.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// The pool's raw clock.
    pub fn clock(&self) -> RawClock {
        self.clock
    }

    /// Publishes what the host can do beyond the first version of its protocol, which defines the bits.
    pub fn set_capabilities(&self, capabilities: u32) {
        self.memory.half(C_CAPABILITIES).store(capabilities, Ordering::Release);
    }

    /// The bits of [`set_capabilities`](Self::set_capabilities) in a program's mapping of the page; 0 if the host is older than
    /// they are.
    pub fn capabilities(memory: &Memory) -> u32 {
        match memory.len() < CONTROL_SIZE {
            true => 0,
            false => memory.half(C_CAPABILITIES).load(Ordering::Acquire),
        }
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
        self.summarise(self.gate().summary().epoch());
    }

    /// The line that each write reads.
    fn gate(&self) -> &Gate {
        Gate::of(&self.memory)
    }

    /// Writes the summary that nearly every write tests.
    fn summarise(&self, epoch: u16) {
        let (mut refusing, mut too_large) = (0xffu8, u32::MAX);
        for slot in 0..SESSIONS {
            let word = self.memory.word(C_ADMISSION + slot * 8).load(Ordering::Relaxed);
            if word & (OPEN | FULL | QUIET) == OPEN {
                let (largest, extra) = ((word >> 32) as u32, (word >> 16) as u32 & 0xffff);
                refusing &= !(1 << slot);
                too_large = too_large.min((largest.saturating_add(1)).saturating_sub(extra));
            }
        }
        let Summary(word) = Summary::new(refusing, epoch, too_large);
        self.gate().admitted.store(word, Ordering::Release);
    }

    /// Asks writers to wake the host before their next write; the number that they publish then.
    pub(crate) fn ask_to_ring(&self) -> u32 {
        let count = self.memory.half(C_QUIET);
        let next = count.load(Ordering::Relaxed).wrapping_add(1).max(1);
        count.store(next, Ordering::Relaxed);
        for slot in 0..SESSIONS {
            // Release: a writer that sees the bit sees the count.
            self.memory.word(C_ADMISSION + slot * 8).fetch_or(QUIET, Ordering::Release);
        }
        self.summarise(self.gate().summary().epoch());
        next
    }

    /// Withdraws [`ask_to_ring`](Self::ask_to_ring).
    pub(crate) fn stop_asking(&self) {
        for slot in 0..SESSIONS {
            self.memory.word(C_ADMISSION + slot * 8).fetch_and(!QUIET, Ordering::Release);
        }
        self.summarise(self.gate().summary().epoch());
    }

    /// Starts a new epoch of session slots: close the slot, bump, then open it for the next session. Each record carries the epoch in
    /// which it was admitted, so the host recognises a record for the slot's previous session, however late it arrives.
    pub fn bump_epoch(&self) -> u16 {
        let next = self.gate().summary().epoch().wrapping_add(1);
        self.summarise(next);
        next
    }

    /// Waits until a writer finds the pool filling up, until [`wake`](Self::wake), or until the timeout; not at all if `busy` finds
    /// something to do. One thread of the host at a time.
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

    /// Writes a set of stores into the journal without making them. If there are more than the journal can hold, the first ones are
    /// made at once; only a pool far beyond the limits has so many.
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

    /// Makes the prepared stores as one step, even if the host is killed in between: journal, count, stores, batch, count 0.
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
            if offset % 8 == 0 && offset < C_JOURNAL {
                self.memory.word(offset).store(value, Ordering::Release);
            }
        }
        let batch = self.memory.word(C_JOURNAL_BATCH).load(Ordering::Relaxed);
        self.memory.word(C_BATCH).store(batch, Ordering::Release);
        self.memory.word(C_JOURNAL_COUNT).store(0, Ordering::Release);
    }
}

impl Control {
    /// Registers this process for the host's barrier before a [`Writer`](crate::Writer) is made. While the process has one thread,
    /// that takes no time; with more threads the kernel waits for all processors, which takes tens of milliseconds.
    ///
    /// # Errors
    /// `InvalidData`: a control page of another version. `Unsupported`: the system lacks the barrier that the host uses.
    pub fn register_process(memory: &Arc<Memory>) -> io::Result<()> {
        match Control::clock_and_barrier(memory)?.1.register() {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::Unsupported, "membarrier is not available")),
        }
    }

    /// The clock and the barrier of a control page. Writes nothing.
    pub(crate) fn clock_and_barrier(memory: &Arc<Memory>) -> io::Result<(RawClock, Barrier)> {
        if memory.len() < CONTROL_SIZE
            || memory.word(0).load(Ordering::Acquire) != CONTROL_MAGIC
            || memory.half(P_VERSION).load(Ordering::Relaxed) != VERSION
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the memory holds no control page of this version",
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

/// The futex word on which a host of several pools waits, in memory that providers map read-only.
#[derive(Clone, Debug)]
pub struct Bell {
    memory: Arc<Memory>,
}

impl Bell {
    /// The size of a bell's memory.
    pub const SIZE: usize = 4096;

    /// A bell in zeroed memory of the host.
    ///
    /// # Errors
    /// `InvalidInput`: the memory is too small.
    pub fn new(memory: Arc<Memory>) -> io::Result<Bell> {
        match memory.len() < Self::SIZE {
            true => Err(io::ErrorKind::InvalidInput.into()),
            false => Ok(Bell { memory }),
        }
    }

    /// The memory, to be given to providers.
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
    // SeqCst, before `busy` looks: a thread that adds work and then calls `wake` sees this store, or `busy` sees the work.
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
    fn opening_completes_the_advance_of_a_killed_host() {
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
        // Prepared, but the host was killed before it had prepared all pools of the batch.
        control.prepare(&[(C_CHUNKS as u32, 11)], 3);
        let control = Control::open_until(control.memory.clone(), 2).unwrap();
        assert_eq!(control.memory.word(C_CHUNKS).load(Ordering::Relaxed), 7);
        assert_eq!(control.batch(), 2);
    }

    #[test]
    fn the_next_host_renews_the_summary_of_admissions() {
        let memory = Memory::heap(CONTROL_SIZE).unwrap();
        let control = Control::create(memory, RawClock::Monotonic, Barrier::WriterFences).unwrap();
        let open = Admission { open: true, largest_size: 1000, ..Admission::default() };
        control.set_admission(1, open);
        control.set_admission(6, Admission { extra_size: 24, ..open });
        let sum = control.memory.word(C_GATE);
        assert_eq!(sum.load(Ordering::Relaxed), 977 << 32 | 0b1011_1101);
        // The host was killed behind the slot's word.
        sum.store(5, Ordering::Relaxed);
        let control = Control::open_shared(control.memory.clone()).unwrap();
        assert_eq!(sum.load(Ordering::Relaxed), 977 << 32 | 0b1011_1101);
        // A quiet pool admits nothing by the summary.
        control.ask_to_ring();
        control.set_admission(6, Admission::default());
        assert_eq!(sum.load(Ordering::Relaxed) as u8, 0xff);
        control.stop_asking();
        assert_eq!(sum.load(Ordering::Relaxed), 1001 << 32 | 0b1111_1101);
    }
}
