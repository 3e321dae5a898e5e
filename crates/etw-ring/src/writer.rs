//! A provider's pool: [`Writer`] makes, grows, closes and retires it. The modules below hold the paths of a write.
//!
//! ```text
//!   try_write_usual, try_begin_usual ─────────────► fill ─► commit_owned  (usual.rs: by what the thread's state knows of its pool)
//!     │ another machine, a full chunk, another pool than before: nothing has happened yet
//!     ▼
//!   write, try_write ─► try_begin ────────────────► fill ─► commit_owned  (owned.rs: the thread's own chunk)
//!              │ a full chunk: change_chunk, and on
//!              │ a revoked or no chunk, a refusal, a write inside a write: nothing has happened yet
//!              ▼
//!   reserve_slow ─► reserve_in_chunk: admit_slow, register, new_chunk ─► Reservation ─► commit
//!              │ a nested write, or no thread state            │ no free chunk
//!              └────► reserve_in_overflow ◄────────────────────┘ ─► Reservation ─► commit  (overflow.rs)
//! ```
//!
//! Several paths exist because nearly every write needs only the first, which keeps its request in registers. `try_…` answers `None` or
//! [`NotUsual`] if it did nothing; `…_slow` may enter the kernel to register a thread or to wake the host; `…_in_overflow` works where a thread has no chunk of its own.
//! `try_begin_…` and `commit_begun` are a write in two calls.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::control::{Bell, Control, Gate};
use crate::layout::*;
use crate::sync::Light;
use crate::sys::{self, Cpu, Memory, RawClock};

mod admission;
mod chunks;
mod counts;
mod line;
mod overflow;
mod owned;
mod payload;
mod record;
mod request;
mod reservation;
mod slots;
mod thread;
mod usual;
mod wake;

pub use owned::{abandon_begun, commit_begun};
pub use payload::Payload;
pub use request::{Refused, Request};
pub use reservation::Reservation;
use thread::thread_state;
pub use thread::{Thread, ThreadState, replace_thread_word, thread_word, try_this_thread};
pub use usual::{NotUsual, try_begin_usual, try_write_usual};

/// The number of hosts that a process can be attached to at a time.
pub const MAX_ATTACHMENTS: usize = 8;

/// Bytes of a new segment whose pages are made present before writers may use it. They wait for it, so the others come later.
const PREFAULT_AT_ONCE: usize = 1 << 20;

/// Sizes of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolOptions {
    /// Chunk bytes of segment 0; rounded up to whole blocks of 128 KiB, at most 16 MiB.
    pub chunk_size: usize,
    /// Bytes of chunks, from the first on, whose pages are made present now: writers use the first chunks first.
    pub prefault: usize,
}

impl Default for PoolOptions {
    fn default() -> Self {
        PoolOptions { chunk_size: 1 << 20, prefault: usize::MAX }
    }
}

impl PoolOptions {
    fn units(&self) -> usize {
        self.chunk_size
            .next_multiple_of(BLOCK_SIZE)
            .clamp(BLOCK_SIZE, MAX_SEGMENT_UNITS * UNIT_SIZE)
            / UNIT_SIZE
    }

    /// The size of segment 0.
    pub fn memory_size(&self) -> usize {
        DATA_OFFSET + self.units() * UNIT_SIZE
    }
}

static EPOCHS: AtomicU64 = AtomicU64::new(1);

/// A provider's pool, attached to a host.
///
/// A write is async-signal-safe: it takes no lock and allocates nothing. It enters the kernel only when a thread gets its first
/// chunk, looks for a dead thread's slot, or wakes the host.
#[derive(Debug)]
pub struct Writer {
    segments: [OnceLock<Arc<Memory>>; MAX_SEGMENTS],
    control: Arc<Memory>,
    /// The futex on which the host waits, if not in the control page.
    bell: Option<Bell>,
    clock: RawClock,
    light: Light,
    cpu: Cpu,
    /// Whether the machine has TSC, membarrier and rseq: one test instead of three.
    fast: bool,
    /// In `control`. Each write reads it, so not through the `Arc`.
    gate: *const Gate,
    fork: &'static AtomicU64,
    /// The fork page's value in the process that attached; `CLOSED` after the end of the attachment.
    fork_generation: AtomicU64,
    /// The epoch while writes on the usual machine ([`try_write_usual`]) may use this pool, else something else: a child finds 0.
    open: &'static AtomicU64,
    pub(crate) epoch: u64,
    pub(crate) attachment: usize,
    probe: AtomicU32,
    /// The block at which a search for one that is not cut begins: those before it were cut lately.
    uncut: AtomicU32,
    growing: std::sync::Mutex<()>,
}

const CLOSED: u64 = u64::MAX;
/// No writer has the epoch 0.
static NEVER_OPEN: AtomicU64 = AtomicU64::new(0);

// SAFETY: the raw pointers lead to atomics in `control`, which the writer keeps alive.
unsafe impl Send for Writer {}

// SAFETY: as for `Send`.
unsafe impl Sync for Writer {}

impl Writer {
    /// Makes a pool in `memory` (fresh, zeroed, [`PoolOptions::memory_size`] bytes) and attaches it to the host that made `control`.
    /// `attachment` numbers the hosts of a process: it chooses the thread-local state.
    ///
    /// # Errors
    /// `InvalidInput`: the memory is too small or was used before. `InvalidData`: a control page of another version. `Unsupported`:
    /// the system lacks the barrier that the host uses.
    pub fn new(
        memory: Memory,
        control: Arc<Memory>,
        options: PoolOptions,
        attachment: usize,
    ) -> io::Result<Writer> {
        let (clock, barrier) = Control::clock_and_barrier(&control)?;
        if memory.len() < options.memory_size()
            || !memory.is_writable()
            || attachment >= MAX_ATTACHMENTS
            || memory.word(P_MAGIC).load(Ordering::Relaxed) != 0
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if !barrier.register() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "membarrier is not available"));
        }
        let light =
            if barrier == sys::Barrier::WriterFences { Light::Full } else { Light::Compiler };
        let cpu = Cpu::find();
        sys::find_time_namespace();
        let fast = light == Light::Compiler && clock == RawClock::Tsc && cpu.has_stamp();
        let fork = sys::fork_word()?;
        let generation_of_process = sys::current_generation(fork);
        let epoch = EPOCHS.fetch_add(1, Ordering::Relaxed);
        let open = if fast { sys::claim_fork_word(epoch) } else { None };
        let open = open.unwrap_or(&NEVER_OPEN);
        let units = options.units();

        memory.prefault(0, P_UNITS + units * 8);
        memory.prefault(P_LINES, 64 * LINE_SIZE);
        memory.prefault(P_COUNTERS, 64 * COUNTERS_SIZE);
        memory.prefault(P_SITES, 4096);
        memory.prefault(P_SITE_BLOB, 64 * 1024);
        memory.prefault(DATA_OFFSET, options.prefault.min(units * UNIT_SIZE));
        let pid = std::process::id();
        let generation = RawClock::Monotonic.now() ^ u64::from(pid) << 40 ^ epoch << 56;
        memory.word(P_GENERATION).store(generation, Ordering::Relaxed);
        memory.half(P_PID).store(pid, Ordering::Relaxed);
        memory.half(P_VERSION).store(VERSION, Ordering::Relaxed);
        memory.half(0xc).store(DATA_OFFSET as u32, Ordering::Relaxed);
        memory.half(P_SEGMENT_UNITS).store(units as u32, Ordering::Relaxed);
        memory.half(P_SEGMENTS).store(1, Ordering::Relaxed);
        memory.word(P_SITE_ALLOC).store(1 << 32, Ordering::Relaxed);
        memory.word(P_MAGIC).store(POOL_MAGIC, Ordering::Release);

        let segments = [const { OnceLock::new() }; MAX_SEGMENTS];
        let _ = segments[0].set(Arc::new(memory));
        Ok(Writer {
            segments,
            gate: Gate::of(&control),
            control,
            bell: None,
            clock,
            light,
            cpu,
            fast,
            fork,
            fork_generation: AtomicU64::new(generation_of_process),
            open,
            epoch,
            attachment,
            probe: AtomicU32::new(0),
            uncut: AtomicU32::new(0),
            growing: std::sync::Mutex::new(()),
        })
    }

    /// The same writer, for a host of several pools, which waits on `bell`.
    pub fn with_bell(mut self, bell: Bell) -> Writer {
        self.bell = Some(bell);
        self
    }

    /// The memory of a segment, for a host in the same process, or to send its descriptor.
    pub fn segment(&self, index: usize) -> Option<&Arc<Memory>> {
        self.segments.get(index)?.get()
    }

    /// The number of segments.
    pub fn segment_count(&self) -> usize {
        self.segments.iter().take_while(|s| s.get().is_some()).count()
    }

    /// Adds a segment: fresh memory of whole blocks of 128 KiB, at most 16 MiB. The host must get it too
    /// ([`Reader::add_segment`](crate::Reader::add_segment)), before or after. Takes a lock, so it is not for signal handlers.
    ///
    /// # Errors
    /// `InvalidInput`: a wrong size, or a 17th segment.
    pub fn grow(&self, memory: Memory) -> io::Result<usize> {
        let _one = self.growing.lock().unwrap_or_else(|e| e.into_inner());
        let units = memory.len() / UNIT_SIZE;
        let index = self.segment_count();
        if !self.is_attached()
            || !memory.is_writable()
            || units == 0
            || units % BLOCK_UNITS != 0
            || units > MAX_SEGMENT_UNITS
            || index >= MAX_SEGMENTS
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let size = units * UNIT_SIZE;
        let at_once = size.min(PREFAULT_AT_ONCE);
        memory.prefault(0, at_once);
        let first = self.first();
        first.prefault(P_UNITS + index * MAX_SEGMENT_UNITS * 8, units * 8);
        first.half(P_SEGMENT_UNITS + index * 4).store(units as u32, Ordering::Relaxed);
        let memory = Arc::new(memory);
        let _ = self.segments[index].set(memory.clone());
        // Release: a thread that sees the count sees the memory.
        first.half(P_SEGMENTS).store(index as u32 + 1, Ordering::Release);
        self.not_dry();
        // Without these pages, writers allocate them one by one.
        let mut rest = (at_once..size).step_by(PREFAULT_AT_ONCE);
        rest.all(|at| memory.populate(at, PREFAULT_AT_ONCE.min(size - at)));
        Ok(index)
    }

    /// How often a writer found less than half of the pool free. If the count rises, [`grow`](Self::grow).
    pub fn pressure(&self) -> u32 {
        self.first().half(P_PRESSURE).load(Ordering::Relaxed)
    }

    /// The pool's raw clock now.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Whether this is still the process that attached, and the pool is open. A relaxed load of a page that a child finds zeroed.
    #[inline(always)]
    pub fn is_attached(&self) -> bool {
        self.fork.load(Ordering::Relaxed) == self.fork_generation.load(Ordering::Relaxed)
    }

    /// Refuses further writes. Writes in flight complete.
    pub fn close(&self) {
        self.fork_generation.store(CLOSED, Ordering::Relaxed);
        self.close_usual();
    }

    /// Refuses further writes by [`try_begin_usual`] and [`try_write_usual`], which find this pool without its writer.
    pub fn close_usual(&self) {
        // In a child, the word may already be another writer's. Epochs differ, so it is changed only if it is this one's.
        let _ = self.open.compare_exchange(self.epoch, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns the memory to the system after [`close`](Self::close), when the host has drained it. The addresses stay reserved, with
    /// private zeros behind them, for threads that were stopped at the start of a write.
    ///
    /// # Errors
    /// The system's error; the memory then stays allocated.
    pub fn retire(&self) -> io::Result<()> {
        self.close();
        for segment in self.segments.iter().filter_map(OnceLock::get) {
            segment.retire()?;
        }
        self.control.retire()
    }

    pub(crate) fn first(&self) -> &Memory {
        match self.segments[0].get() {
            Some(first) => first,
            None => unreachable!("segment 0 is set in `new`"),
        }
    }

    /// The calling thread's own state.
    #[inline(always)]
    pub(super) fn thread(&self) -> &ThreadState {
        thread_state(self.attachment)
    }

    /// Test aid: the thread state's address of the calling thread.
    #[doc(hidden)]
    pub fn with_thread<R>(&self, f: impl FnOnce(&ThreadState) -> R) -> R {
        f(thread_state(self.attachment))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close_usual();
    }
}
