//! The provider's side: a pool, its threads, and the path of a write.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, compiler_fence, fence};
use std::sync::{Arc, OnceLock};

use crate::control::{Bell, Control, FULL, INDEPENDENT, LARGEST_EVENT_SIZE, OPEN, QUIET};
use crate::layout::*;
use crate::proto::{self, Head, Phase, Shared, SharedRoom, Unit};
use crate::room::{FillRoom, Room};
use crate::sync::Light;
use crate::sys::{self, Cpu, Memory, RawClock};

/// Hosts one process may be attached to at a time.
pub const MAX_ATTACHMENTS: usize = 8;

/// One event, as far as the ring has to know it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// Sessions that want it: a bit for each session slot.
    pub sessions: u8,
    /// The caller's kind of record.
    pub kind: u8,
    /// The registration it was written through; the host looks provider and process up by it.
    pub registration: u32,
    /// Its static metadata in the site table, 0 when the metadata travels in the record.
    pub site: u32,
    /// A word of the caller's.
    pub user: u32,
    /// Bytes of inline metadata at the start of the payload.
    pub metadata_size: u16,
    /// Most bytes that will be put, inline metadata included.
    pub payload_size: u32,
    /// The event's size on disk: header, extended items, payload, without what a session adds.
    pub event_size: u32,
}

/// Why a write is not in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// No session of the mask is open: nothing to do (status 0).
    NotWanted,
    /// This process is a child of the one that attached, or the pool was detached: attach anew.
    Detached,
    /// `ERROR_NOT_ENOUGH_MEMORY`, 8: a session is full, or no chunk is free.
    NotEnoughMemory,
    /// `ERROR_MORE_DATA`, 234: larger than a session's buffer.
    MoreData,
    /// `ERROR_ARITHMETIC_OVERFLOW`, 534: larger than an ETW event can be.
    ArithmeticOverflow,
    /// More was put than reserved, or the reservation was dropped.
    Abandoned,
}

impl Refused {
    /// The Win32 status that ETW's write functions return for it.
    pub fn status(self) -> u32 {
        match self {
            Refused::NotWanted | Refused::Detached => 0,
            Refused::NotEnoughMemory => 8,
            Refused::MoreData => 234,
            Refused::ArithmeticOverflow | Refused::Abandoned => 534,
        }
    }
}

/// Sizes of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolOptions {
    /// Chunk bytes of segment 0; rounded up to whole blocks of 128 KiB, at most 16 MiB.
    pub chunk_size: usize,
    /// Bytes of chunks whose pages are made present now, from the first on: those are used first.
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

    /// Bytes of memory that segment 0 needs.
    pub fn memory_size(&self) -> usize {
        DATA_OFFSET + self.units() * UNIT_SIZE
    }
}

/// A thread's own state for one attachment: no destructor, const-made, so that it can live in a `thread_local!` that a
/// signal handler may be the first to touch. One thread uses one of them with a writer.
#[derive(Debug)]
pub struct ThreadState {
    /// Set from before the first to after the last step of a write: whoever finds it set is a signal handler inside that
    /// write. Atomic only against the compiler; no other thread looks at it.
    busy: AtomicBool,
    /// The writer the rest belongs to.
    epoch: Cell<u64>,
    tid: Cell<u32>,
    slot: Cell<u16>,
    class: Cell<u8>,
    retry: Cell<u8>,
    line: Cell<*const Line>,
    counters: Cell<*const Counters>,
    /// The head as committed, invalid when the thread has no chunk.
    head: Cell<Head>,
    base: Cell<*mut u8>,
    /// Bytes from the committed offset to the chunk's end.
    room: Cell<u32>,
    /// Our chunk's word in the control, and the key at which it stops being ours.
    chunk: Cell<*const AtomicU64>,
    closing_key: Cell<u32>,
    opened: Cell<u64>,
}

impl ThreadState {
    /// A state that belongs to no writer yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> ThreadState {
        ThreadState {
            busy: AtomicBool::new(false),
            epoch: Cell::new(0),
            tid: Cell::new(0),
            slot: Cell::new(0),
            class: Cell::new(0),
            retry: Cell::new(0),
            line: Cell::new(std::ptr::null()),
            counters: Cell::new(std::ptr::null()),
            head: Cell::new(Head(0)),
            base: Cell::new(std::ptr::null_mut()),
            room: Cell::new(0),
            chunk: Cell::new(std::ptr::null()),
            closing_key: Cell::new(0),
            opened: Cell::new(0),
        }
    }
}

/// All that a thread has, in one place: finding it can be a call, in a shared library.
struct Thread {
    states: [ThreadState; MAX_ATTACHMENTS],
    word: Cell<[u64; 2]>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread { states: [const { ThreadState::new() }; MAX_ATTACHMENTS], word: Cell::new([0; 2]) }
    };
}

#[inline(always)]
fn this_thread<'a>() -> &'a Thread {
    let mut thread = place::get();
    if thread.is_null() {
        thread = place::find();
    }
    // SAFETY: this thread's own, until it ends; it has no destructor, so even later than other locals. No reference
    // leaves this crate but in a reservation, which cannot leave the thread (it holds raw pointers), and as below.
    unsafe { &*thread }
}

/// Where a thread's own lies, by way of a word at a fixed distance from the thread pointer. In a shared library the way to any other
/// thread-local is a call, and the compiler takes it for one in programs too. The word is eight bytes of what glibc keeps for
/// libraries that are loaded later.
#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu", not(any(loom, miri))))]
mod place {
    use super::{THREAD, Thread};

    /// The word's name. Another version's word is another one.
    macro_rules! word {
        () => {
            concat!(
                "etw_ring_thread_",
                env!("CARGO_PKG_VERSION_MAJOR"),
                "_",
                env!("CARGO_PKG_VERSION_MINOR")
            )
        };
    }

    core::arch::global_asm!(
        concat!(".pushsection .tbss.", word!(), ", \"awT\", @nobits"),
        ".p2align 3",
        concat!(".globl ", word!()),
        // Another library's word is never taken for this one.
        concat!(".hidden ", word!()),
        concat!(".type ", word!(), ", @object"),
        concat!(".size ", word!(), ", 8"),
        concat!(word!(), ":"),
        ".zero 8",
        ".popsection",
    );

    /// Null before the first [`find`].
    #[inline(always)]
    pub(super) fn get() -> *const Thread {
        let thread;
        // SAFETY: reads the word above, of this thread.
        unsafe {
            core::arch::asm!(
                concat!("mov {0}, qword ptr [rip + ", word!(), "@GOTTPOFF]"),
                "mov {0}, qword ptr fs:[{0}]",
                out(reg) thread,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        thread
    }

    #[cold]
    #[inline(never)]
    pub(super) fn find() -> *const Thread {
        let thread = THREAD.with(std::ptr::from_ref);
        // SAFETY: writes the word above, of this thread. A signal handler in between writes the same.
        unsafe {
            core::arch::asm!(
                concat!("mov {0}, qword ptr [rip + ", word!(), "@GOTTPOFF]"),
                "mov qword ptr fs:[{0}], {1}",
                out(reg) _,
                in(reg) thread,
                options(nostack, preserves_flags),
            );
        }
        thread
    }
}

#[cfg(not(all(
    target_arch = "x86_64",
    target_os = "linux",
    target_env = "gnu",
    not(any(loom, miri))
)))]
mod place {
    use super::{THREAD, Thread};

    /// Only the address is taken inside `with`, which then is inlined to an addition.
    #[inline(always)]
    pub(super) fn get() -> *const Thread {
        THREAD.with(std::ptr::from_ref)
    }

    pub(super) fn find() -> *const Thread {
        get()
    }
}

/// [`this_thread`], if it has been asked for before.
#[inline(always)]
fn thread_at_once<'a>() -> Option<&'a Thread> {
    // SAFETY: null, or as there.
    unsafe { place::get().as_ref() }
}

/// The calling thread's own state for an attachment.
#[inline(always)]
fn thread_state<'a>(attachment: usize) -> &'a ThreadState {
    &this_thread().states[attachment % MAX_ATTACHMENTS]
}

/// Sixteen bytes of the calling thread that are the caller's, zero at first: beside what a write needs anyway, so that looking at them
/// costs nothing. Async-signal-safe, as far as the caller's own use is.
///
/// [`thread_word_at_once`] is `None` where that is not yet known, and cheaper.
#[inline(always)]
pub fn with_thread_word<R>(f: impl FnOnce(&Cell<[u64; 2]>) -> R) -> R {
    f(&this_thread().word)
}

/// As [`with_thread_word`] gives it.
#[inline(always)]
pub fn thread_word_at_once() -> Option<[u64; 2]> {
    Some(thread_at_once()?.word.get())
}

/// A thread's line in the pool.
#[derive(Debug)]
#[repr(C, align(64))]
struct Line {
    head: AtomicU64,
    /// The start of the write in flight, or of an earlier one.
    since: AtomicU64,
    /// Thread id, and above it how often the slot changed hands.
    owner: AtomicU64,
    /// Sequence number of the next attempt.
    seq: AtomicU32,
    _unused: u32,
    /// Attempts for several sessions at once: their mask in the upper eight bits, 0 while unused, and below it how many.
    together: [AtomicU64; TOGETHER],
}

const _: () = assert!(
    size_of::<Line>() == LINE_SIZE && std::mem::offset_of!(Line, together) == LINE_TOGETHER
);

#[derive(Debug)]
#[repr(C)]
struct Counters {
    attempted: [AtomicU64; SESSIONS],
    lost: [[AtomicU32; SESSIONS]; CAUSES],
}

/// Static metadata's ids, one for each attachment; lives beside the static metadata.
#[derive(Debug)]
#[repr(transparent)]
pub struct SiteCache {
    pub(crate) ids: [AtomicU64; MAX_ATTACHMENTS],
}

impl SiteCache {
    /// Interned nowhere yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> SiteCache {
        SiteCache { ids: [const { AtomicU64::new(0) }; MAX_ATTACHMENTS] }
    }
}

static EPOCHS: AtomicU64 = AtomicU64::new(1);

/// A provider's pool, attached to a host.
///
/// Everything a write does on it is async-signal-safe: no lock, no allocation; system calls only where a thread gets its
/// first chunk or looks for a dead thread's slot.
#[derive(Debug)]
pub struct Writer {
    segments: [OnceLock<Arc<Memory>>; MAX_SEGMENTS],
    control: Arc<Memory>,
    /// Where the host sleeps, if not on the control.
    bell: Option<Bell>,
    clock: RawClock,
    light: Light,
    cpu: Cpu,
    /// The usual machine: TSC, membarrier and rseq. One question instead of three.
    plain: bool,
    /// Admission words' sum and epoch, in `control`: read at every write, so without the way through the `Arc`.
    admitted: *const AtomicU64,
    admission_epoch: *const AtomicU32,
    fork: &'static AtomicU64,
    /// What the fork page holds in the process that attached; `CLOSED` when there is no attachment any more.
    fork_generation: AtomicU64,
    pub(crate) epoch: u64,
    pub(crate) attachment: usize,
    probe: AtomicU32,
    growing: std::sync::Mutex<()>,
}

const CLOSED: u64 = u64::MAX;

// SAFETY: the raw pointers lead into `control`, which the writer holds, and to atomics.
unsafe impl Send for Writer {}
// SAFETY: as above.
unsafe impl Sync for Writer {}

impl Writer {
    /// Lays out a pool in `memory` (fresh, zeroed, [`PoolOptions::memory_size`] bytes) and attaches it to the host that
    /// made `control`. `attachment` numbers the hosts of a process: it chooses the thread-local state.
    ///
    /// # Errors
    /// Memory too small or not fresh, a control of another version, or a kernel that takes back the membarrier which the
    /// host relies on.
    pub fn new(
        memory: Memory,
        control: Arc<Memory>,
        options: PoolOptions,
        attachment: usize,
    ) -> io::Result<Writer> {
        let view = Control::open_read(&control)?;
        if memory.len() < options.memory_size()
            || !memory.is_writable()
            || attachment >= MAX_ATTACHMENTS
            || memory.word(P_MAGIC).load(Ordering::Relaxed) != 0
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if !view.1.register() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "membarrier is not available"));
        }
        let light =
            if view.1 == sys::Barrier::WriterFences { Light::Full } else { Light::Compiler };
        let cpu = Cpu::find();
        sys::find_time_namespace();
        let fork = sys::fork_word()?;
        let fork_generation = AtomicU64::new(sys::current_generation(fork));
        let epoch = EPOCHS.fetch_add(1, Ordering::Relaxed);
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
            admitted: control.word(C_ADMITTED),
            admission_epoch: control.half(C_EPOCH),
            control,
            bell: None,
            clock: view.0,
            light,
            cpu,
            plain: light == Light::Compiler && view.0 == RawClock::Tsc && cpu.has_stamp(),
            fork,
            fork_generation,
            epoch,
            attachment,
            probe: AtomicU32::new(0),
            growing: std::sync::Mutex::new(()),
        })
    }

    /// For a host of several pools, which sleeps elsewhere.
    pub fn with_bell(mut self, bell: Bell) -> Writer {
        self.bell = Some(bell);
        self
    }

    /// The memory of a segment, for a host in the same process or to hand its descriptor over.
    pub fn segment(&self, index: usize) -> Option<&Arc<Memory>> {
        self.segments.get(index)?.get()
    }

    /// Segments so far.
    pub fn segment_count(&self) -> usize {
        self.segments.iter().take_while(|s| s.get().is_some()).count()
    }

    /// Adds chunk memory: fresh, whole blocks of 128 KiB, at most 16 MiB. The host must be given it too
    /// ([`Reader::add_segment`](crate::Reader::add_segment)), before or after. Takes a lock: not for signal handlers.
    ///
    /// # Errors
    /// A wrong size, or no further segment allowed.
    pub fn grow(&self, memory: Memory) -> io::Result<usize> {
        let _one = self.growing.lock().unwrap_or_else(|e| e.into_inner());
        let units = memory.len() / UNIT_SIZE;
        let index = self.segment_count();
        if !self.is_attached()
            || !memory.is_writable()
            || units == 0
            || !units.is_multiple_of(BLOCK_UNITS)
            || units > MAX_SEGMENT_UNITS
            || index >= MAX_SEGMENTS
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        memory.prefault(0, units * UNIT_SIZE);
        let first = self.first();
        first.prefault(P_UNITS + index * MAX_SEGMENT_UNITS * 8, units * 8);
        first.half(P_SEGMENT_UNITS + index * 4).store(units as u32, Ordering::Relaxed);
        let _ = self.segments[index].set(Arc::new(memory));
        // Release: a thread that sees the count sees the memory.
        first.half(P_SEGMENTS).store(index as u32 + 1, Ordering::Release);
        self.not_dry();
        Ok(index)
    }

    /// How often a writer found less than half of the pool free: when it rises, [`grow`](Self::grow).
    pub fn pressure(&self) -> u32 {
        self.first().half(P_PRESSURE).load(Ordering::Relaxed)
    }

    /// The pool's raw clock now.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Is this still the process that attached, and the pool not closed? A relaxed load of a page that a child finds
    /// zeroed.
    #[inline(always)]
    pub fn is_attached(&self) -> bool {
        self.fork.load(Ordering::Relaxed) == self.fork_generation.load(Ordering::Relaxed)
    }

    fn admission(&self, slot: usize) -> &AtomicU64 {
        self.control.word(C_ADMISSION + slot % SESSIONS * 8)
    }

    /// Acquire: an admission word read afterwards is at least as new as the epoch.
    #[inline(always)]
    fn admission_epoch(&self) -> u16 {
        // SAFETY: set in `new`; `control` is held and large enough.
        unsafe { (*self.admission_epoch).load(Ordering::Acquire) as u16 }
    }

    /// Refuses further writes. Those in flight end as they would.
    pub fn close(&self) {
        self.fork_generation.store(CLOSED, Ordering::Relaxed);
    }

    /// Gives the memory back to the system after [`close`](Self::close), when the host has read what it wants. Its
    /// addresses stay taken, with zeros behind them: a thread that was stopped at the beginning of a write finds those.
    /// Nothing of them is on any file or in another process.
    ///
    /// # Errors
    /// What the system says; the memory then stays.
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
        let Some(grant) = self.begin::<false>(thread, request) else {
            return self.write_slowly(thread, request, fill);
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
    pub fn write_at_once(
        &self,
        attachment: usize,
        request: Request,
        fill: impl for<'b> FnOnce(Room<'b>) -> Room<'b>,
    ) -> Option<Result<(), Refused>> {
        self.at_once::<false>(attachment, request, fill)
    }

    /// [`write_at_once`](Self::write_at_once) on the usual machine: x86-64 with TSC, membarrier and rseq. `None` on any other, too.
    #[inline(always)]
    pub fn write_plainly(
        &self,
        attachment: usize,
        request: Request,
        fill: impl FillRoom,
    ) -> Option<Result<(), Refused>> {
        match self.plain {
            true => self.at_once::<true>(attachment, request, fill),
            false => None,
        }
    }

    #[inline(always)]
    fn at_once<const PLAIN: bool>(
        &self,
        attachment: usize,
        request: Request,
        fill: impl FillRoom,
    ) -> Option<Result<(), Refused>> {
        // Another attachment's state has another epoch, and so no room here.
        let thread = &thread_at_once()?.states[attachment % MAX_ATTACHMENTS];
        let grant = self.begin::<PLAIN>(thread, &request)?;
        let guard = Owned { writer: self, thread, sessions: grant.sessions };
        let filled = request.payload_size;
        // The header first, nobody looks at it before the commit: then little has to be kept while the payload is filled. And of the
        // header first what is known before the clock, for the same reason.
        // SAFETY: the room was granted, and is ours until the commit.
        let room = unsafe {
            let stamp = Stamp { time: 0, cpu: 0, filled, tid: thread.tid.get() };
            write_identity(&request, &grant, &stamp);
            let (time, cpu) = self.stamp_owned::<PLAIN>(thread);
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
    fn stamp_owned<const PLAIN: bool>(&self, thread: &ThreadState) -> (u64, u16) {
        let (time, cpu) = if PLAIN || self.plain {
            self.cpu.stamp()
        } else {
            std::hint::cold_path();
            (self.clock_after_announcement(), self.cpu.current())
        };
        // SAFETY: registered, since the fast path was taken.
        unsafe { (*thread.line.get()).since.store(time, Ordering::Relaxed) };
        (time, cpu)
    }

    /// The calling thread's own state.
    #[inline(always)]
    fn thread(&self) -> &ThreadState {
        thread_state(self.attachment)
    }

    #[cold]
    #[inline(never)]
    fn write_slowly(
        &self,
        thread: &ThreadState,
        request: &Request,
        fill: impl FnOnce(&mut Payload<'_>),
    ) -> Result<(), Refused> {
        let mut reservation = self.reserve_slowly(thread, request)?;
        reservation.stamp_now();
        fill(&mut reservation.payload);
        reservation.commit()
    }

    /// "In flight" has been published; what fences there must be stand between that and the clock.
    #[inline(always)]
    fn clock_after_announcement(&self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if self.light == Light::Full {
            // SAFETY: SSE2 is part of x86-64. MFENCE does not hold RDTSC back; LFENCE does.
            unsafe { core::arch::x86_64::_mm_lfence() };
        }
        self.clock.now()
    }

    /// Writes one event in a handler that may not use thread-local storage at all, or on behalf of another thread:
    /// through an overflow chunk.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn write_shared(
        &self,
        request: &Request,
        fill: impl FnOnce(&mut Payload<'_>),
    ) -> Result<(), Refused> {
        if !self.is_attached() {
            return Err(Refused::Detached);
        }
        let mut reservation = self.reserve_nested(sys::thread_id(), request)?;
        reservation.stamp_now();
        fill(&mut reservation.payload);
        reservation.commit()
    }

    /// Admits an event and takes its room. The write is announced; its time is read afterwards, by
    /// [`Reservation::stamp_now`] or, for one event in several pools, by the caller once all of them are reserved.
    ///
    /// # Errors
    /// See [`Refused`]; losses are counted.
    #[inline(always)]
    pub fn reserve<'a>(
        &'a self,
        thread: &'a ThreadState,
        request: &Request,
    ) -> Result<Reservation<'a>, Refused> {
        match self.begin::<false>(thread, request) {
            Some(grant) => {
                let tid = thread.tid.get();
                Ok(Reservation::new(self, request, grant, tid, Place::Owned(thread)))
            }
            None => self.reserve_slowly(thread, request),
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

    /// The fast path up to the clock: an announced write with room, counted. `None`: nothing was done, take the slow path.
    /// `PLAIN`: known to be on the usual machine.
    #[inline(always)]
    fn begin<const PLAIN: bool>(&self, thread: &ThreadState, request: &Request) -> Option<Grant> {
        if !self.is_attached() || thread.busy.load(Ordering::Relaxed) {
            return None;
        }
        thread.busy.store(true, Ordering::Relaxed);
        // From here a handler on this thread takes the nested path. One that ran between the load and the store has
        // finished: it found `busy` clear and left it clear.
        compiler_fence(Ordering::SeqCst);
        let grant = self.begin_busy::<PLAIN>(thread, request);
        if grant.is_none() {
            compiler_fence(Ordering::SeqCst);
            thread.busy.store(false, Ordering::Relaxed);
        }
        grant
    }

    #[inline(always)]
    fn begin_busy<const PLAIN: bool>(
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
            if PLAIN || self.plain { Light::Compiler } else { self.light },
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

    /// Does every session of the mask take an event of this size? Only if it surely does.
    #[inline(always)]
    fn admits(&self, sessions: u8, event_size: u32) -> bool {
        // SAFETY: set in `new`; `control` is held and large enough.
        let word = unsafe { (*self.admitted).load(Ordering::Relaxed) };
        word as u8 & sessions == 0 && event_size < (word >> 32) as u32
    }

    /// Which sessions get the event, or the status; counts the attempt (when refused) and the losses.
    #[cold]
    #[inline(never)]
    fn admit_slowly(&self, request: &Request, thread: Option<&ThreadState>) -> Result<u8, Refused> {
        let (mut wanted, mut admitted, mut left_out) = (0u8, 0u8, [None; SESSIONS]);
        let mut worst: Option<(Cause, Refused)> = None;
        for (slot, left_out) in left_out.iter_mut().enumerate() {
            if request.sessions & 1 << slot == 0 {
                continue;
            }
            let word = self.admission(slot).load(Ordering::Relaxed);
            if word & OPEN == 0 {
                continue;
            }
            wanted |= 1 << slot;
            let size = request.event_size.saturating_add((word >> 16) as u32 & 0xffff);
            let verdict = if size > LARGEST_EVENT_SIZE {
                (Cause::TooLarge, Refused::ArithmeticOverflow)
            } else if size > (word >> 32) as u32 {
                (Cause::TooLargeForSession, Refused::MoreData)
            } else if word & FULL != 0 {
                (Cause::SessionFull, Refused::NotEnoughMemory)
            } else {
                admitted |= 1 << slot;
                continue;
            };
            *left_out = Some(verdict.0);
            if word & INDEPENDENT == 0 && worst.is_none_or(|w| rank(verdict.0) > rank(w.0)) {
                worst = Some(verdict);
            }
        }
        if wanted == 0 {
            return Err(Refused::NotWanted);
        }
        // All that wanted it attempted it; the caller counts those that it returns.
        let none = worst.is_some() || admitted == 0;
        let counted = if none { wanted } else { wanted & !admitted };
        self.attempted(thread, counted);
        for (slot, cause) in left_out.iter().enumerate() {
            if wanted & 1 << slot == 0 {
                continue;
            }
            match cause {
                Some(cause) => self.lost(thread, request.registration, *cause, 1 << slot),
                None if none => {
                    self.lost(thread, request.registration, Cause::AllOrNone, 1 << slot)
                }
                None => {}
            }
        }
        if !none {
            return Ok(admitted);
        }
        self.skip_sequence(thread);
        match worst {
            Some((_, refused)) => Err(refused),
            // Only independent sessions wanted it, and none has room: written nowhere, but no one's error; ETW's status
            // for a lost event all the same.
            None => Err(Refused::NotEnoughMemory),
        }
    }

    /// A lost attempt takes a sequence number, so that the host sees the gap.
    fn skip_sequence(&self, thread: Option<&ThreadState>) {
        match thread.and_then(|t| self.line(t)) {
            Some(line) => {
                line.seq.store(line.seq.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed)
            }
            None => {
                self.first().half(P_SHARED_SEQ).fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The line of a thread that holds its `busy` flag and is registered here.
    fn line(&self, thread: &ThreadState) -> Option<&Line> {
        if thread.epoch.get() != self.epoch {
            return None;
        }
        // SAFETY: set by `register` for this writer, or null.
        unsafe { thread.line.get().as_ref() }
    }

    fn counters(&self, thread: Option<&ThreadState>) -> Option<&Counters> {
        let thread = thread?;
        self.line(thread)?;
        // SAFETY: set together with `line`.
        unsafe { thread.counters.get().as_ref() }
    }

    fn attempted(&self, thread: Option<&ThreadState>, sessions: u8) {
        match (thread.and_then(|thread| self.line(thread)), self.counters(thread)) {
            (Some(line), Some(counters)) => count_attempt(line, counters, sessions),
            _ => {
                for slot in bits(sessions) {
                    let at = P_SHARED_ATTEMPTED + slot * 8;
                    self.first().word(at).fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn lost(&self, thread: Option<&ThreadState>, registration: u32, cause: Cause, sessions: u8) {
        // The thread's own count is the one that has to be right, so it comes first.
        for slot in bits(sessions) {
            match self.counters(thread) {
                Some(counters) => {
                    let count = &counters.lost[cause as usize][slot];
                    let value = count.load(Ordering::Relaxed).wrapping_add(1);
                    count.store(value, Ordering::Relaxed);
                }
                None => {
                    let at = P_SHARED_LOST + (cause as usize * SESSIONS + slot) * 8;
                    self.first().word(at).fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        self.blame(registration, cause, sessions);
    }

    /// Whose event it was. Where many registrations share a place of the table, of the last ones that is not known.
    fn blame(&self, registration: u32, cause: Cause, sessions: u8) {
        // 0 is nobody's, and marks places that nobody has.
        for place in 0..if registration == 0 { 0 } else { 8 } {
            let entry = registration.wrapping_add(place) as usize % BLAME_ENTRIES;
            let at = P_BLAME + entry * BLAME_SIZE;
            let owner = self.first().half(at);
            let taken =
                owner.compare_exchange(0, registration, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() || taken == Err(registration) {
                for slot in bits(sessions) {
                    let count = at + BLAME_COUNTS + (cause as usize * SESSIONS + slot) * 4;
                    self.first().half(count).fetch_add(1, Ordering::Relaxed);
                }
                return;
            }
        }
    }

    // ---- the slow path: registration, chunk change, overflow -----------------------------------------------------

    #[cold]
    #[inline(never)]
    fn reserve_slowly<'a>(
        &'a self,
        thread: &'a ThreadState,
        request: &Request,
    ) -> Result<Reservation<'a>, Refused> {
        if !self.is_attached() {
            return Err(Refused::Detached);
        }
        if thread.busy.load(Ordering::Relaxed) {
            return self.reserve_nested(thread.tid.get(), request);
        }
        thread.busy.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let result = self.reserve_busy(thread, request);
        if result.is_err() {
            compiler_fence(Ordering::SeqCst);
            thread.busy.store(false, Ordering::Relaxed);
        }
        result
    }

    /// The thread holds `busy`.
    fn reserve_busy<'a>(
        &'a self,
        thread: &'a ThreadState,
        request: &Request,
    ) -> Result<Reservation<'a>, Refused> {
        if thread.epoch.get() != self.epoch {
            self.reset(thread);
        }
        if thread.line.get().is_null() {
            // No slot was free: look again at times only, since looking takes system calls.
            let retry = thread.retry.get();
            thread.retry.set(retry.wrapping_add(1));
            if retry == 0 {
                self.register(thread);
            }
        }
        if let Some(line) = self.line(thread) {
            // Not writing while a chunk is looked for: the host need not wait for us.
            line.head.store(thread.head.get().0, Ordering::Release);
        }
        let epoch = self.admission_epoch();
        let sessions = self.admit_slowly(request, Some(thread))?;
        self.attempted(Some(thread), sessions);
        let too_large = request.payload_size as usize > MAX_PAYLOAD_SIZE;
        if too_large {
            self.lost(Some(thread), request.registration, Cause::TooLarge, sessions);
            self.skip_sequence(Some(thread));
            return Err(Refused::ArithmeticOverflow);
        }
        let need = record_room(request.payload_size as usize);
        if let Some(line) = self.line(thread) {
            for _ in 0..4 {
                if need > thread.room.get() as usize {
                    self.leave_chunk(thread, line);
                    if !self.new_chunk(thread, line, need) {
                        break;
                    }
                }
                let head = thread.head.get();
                proto::announce(&line.head, head, self.light);
                self.ring();
                // SAFETY: set by `new_chunk`: with room there is a chunk.
                let chunk = unsafe { &*thread.chunk.get() };
                if proto::revoked(chunk, thread.closing_key.get()) {
                    self.leave_chunk(thread, line);
                    continue;
                }
                let seq = line.seq.load(Ordering::Relaxed);
                line.seq.store(seq.wrapping_add(1), Ordering::Relaxed);
                // SAFETY: as in `reserve_busy`.
                let record = unsafe { thread.base.get().add(head.committed() as usize) };
                let grant = Grant { record, head, seq, epoch, sessions };
                return Ok(Reservation::new(
                    self,
                    request,
                    grant,
                    thread.tid.get(),
                    Place::Owned(thread),
                ));
            }
        }
        let seq = self.first().half(P_SHARED_SEQ).fetch_add(1, Ordering::Relaxed);
        match self.overflow(need) {
            Some((record, shared)) => {
                self.ring();
                let grant = Grant { record, head: Head(0), seq, epoch, sessions };
                Ok(Reservation::new(
                    self,
                    request,
                    grant,
                    thread.tid.get(),
                    Place::Shared(shared, Some(thread)),
                ))
            }
            None => {
                self.lost(Some(thread), request.registration, Cause::NoChunk, sessions);
                Err(Refused::NotEnoughMemory)
            }
        }
    }

    /// A write inside another write of the same thread (a signal handler), or without thread state. Uses nothing of the
    /// thread's but its id.
    #[cold]
    #[inline(never)]
    fn reserve_nested<'a>(
        &'a self,
        tid: u32,
        request: &Request,
    ) -> Result<Reservation<'a>, Refused> {
        let tid = if tid == 0 { sys::thread_id() } else { tid };
        let epoch = self.admission_epoch();
        let sessions = self.admit_slowly(request, None)?;
        self.attempted(None, sessions);
        let seq = self.first().half(P_SHARED_SEQ).fetch_add(1, Ordering::Relaxed);
        if request.payload_size as usize > MAX_PAYLOAD_SIZE {
            self.lost(None, request.registration, Cause::TooLarge, sessions);
            return Err(Refused::ArithmeticOverflow);
        }
        match self.overflow(record_room(request.payload_size as usize)) {
            Some((record, shared)) => {
                self.ring();
                let grant = Grant { record, head: Head(0), seq, epoch, sessions };
                Ok(Reservation::new(self, request, grant, tid, Place::Shared(shared, None)))
            }
            None => {
                self.lost(None, request.registration, Cause::NoChunk, sessions);
                Err(Refused::NotEnoughMemory)
            }
        }
    }

    fn reset(&self, thread: &ThreadState) {
        thread.tid.set(sys::thread_id());
        thread.line.set(std::ptr::null());
        thread.counters.set(std::ptr::null());
        thread.head.set(Head(0));
        thread.room.set(0);
        thread.class.set(0);
        thread.retry.set(0);
        thread.epoch.set(self.epoch);
    }

    fn line_at(&self, slot: usize) -> &Line {
        let at = P_LINES + slot * LINE_SIZE;
        assert!(slot < MAX_THREADS && at + LINE_SIZE <= self.first().len());
        // SAFETY: in range, aligned (layout constants), all fields atomics, lives as long as the writer.
        unsafe { &*self.first().as_ptr().add(at).cast::<Line>() }
    }

    /// Takes a thread slot: a new one while there are few, then a dead thread's, then a new one again.
    fn register(&self, thread: &ThreadState) {
        let tid = thread.tid.get();
        let high = self.first().half(P_SLOTS);
        let mut slot = None;
        let used = (high.load(Ordering::Relaxed) as usize).min(MAX_THREADS);
        if used >= 64 {
            // Eight at a time: when threads come and go, as many slots are found as threads have gone.
            for _ in 0..8 {
                let index = self.probe.fetch_add(1, Ordering::Relaxed) as usize % used;
                if self.take_over(index, tid) {
                    slot = Some(index);
                    break;
                }
            }
        }
        if slot.is_none() {
            let mut now = high.load(Ordering::Relaxed);
            while (now as usize) < MAX_THREADS {
                match high.compare_exchange(now, now + 1, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => {
                        self.line_at(now as usize).owner.store(u64::from(tid), Ordering::Release);
                        slot = Some(now as usize);
                        break;
                    }
                    Err(other) => now = other,
                }
            }
        }
        let Some(slot) = slot else { return };
        let at = P_COUNTERS + slot * COUNTERS_SIZE;
        thread.slot.set(slot as u16);
        // SAFETY: `slot < MAX_THREADS`, so the counters are in range and aligned.
        thread.counters.set(unsafe { self.first().as_ptr().add(at).cast::<Counters>() });
        thread.line.set(self.line_at(slot));
    }

    /// `owner: dead → tid`, and the dead owner's chunk is closed at what it had committed.
    fn take_over(&self, slot: usize, tid: u32) -> bool {
        let line = self.line_at(slot);
        let owner = line.owner.load(Ordering::Acquire);
        let old = owner as u32;
        // 0: taken from the high-water mark a moment ago, not yet named. Our own id: a state of this thread that was lost
        // (its attachment number was used for another pool meanwhile), or a dead namesake's.
        if old == 0 || (old != tid && sys::thread_alive(old)) {
            return false;
        }
        let new = ((owner >> 32) + 1) << 32 | u64::from(tid);
        if line.owner.compare_exchange(owner, new, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        let head = Head(line.head.load(Ordering::Acquire));
        if head.is_valid() {
            proto::close(self.unit(head.unit()), head.generation(), head.committed());
        }
        line.head.store(0, Ordering::Release);
        true
    }

    fn unit(&self, unit: u16) -> &AtomicU64 {
        self.first().word(P_UNITS + usize::from(unit) * 8)
    }

    fn chunk_word(&self, unit: u16) -> &AtomicU64 {
        self.control.word(C_CHUNKS + usize::from(unit) * 8)
    }

    fn address(&self, unit: u16) -> *mut u8 {
        let (segment, local) =
            (usize::from(unit) / MAX_SEGMENT_UNITS, usize::from(unit) % MAX_SEGMENT_UNITS);
        let base = if segment == 0 { DATA_OFFSET } else { 0 };
        match self.segments[segment].get() {
            Some(memory) => {
                assert!(base + (local + 1) * UNIT_SIZE <= memory.len());
                // SAFETY: in range by the assertion.
                unsafe { memory.as_ptr().add(base + local * UNIT_SIZE) }
            }
            None => unreachable!("chunks come from segments that are there"),
        }
    }

    /// Closes the thread's chunk, unless the host has taken it back.
    fn leave_chunk(&self, thread: &ThreadState, line: &Line) {
        let head = thread.head.get();
        if head.is_valid() {
            // Release, then the head: a host that no longer finds the chunk in a head finds its final offset.
            proto::close(self.unit(head.unit()), head.generation(), head.committed());
        }
        thread.head.set(Head(0));
        thread.room.set(0);
        line.head.store(0, Ordering::Release);
    }

    fn new_chunk(&self, thread: &ThreadState, line: &Line, need: usize) -> bool {
        // Grow with the rate: a chunk that lasted less than 10 ms was too small, one of more than 1 s too large.
        let now = RawClock::Monotonic.now();
        let lasted = now.saturating_sub(thread.opened.get());
        let class = match thread.class.get() {
            c if thread.opened.get() == 0 => c,
            c if lasted < 10_000_000 => (c + 1).min(3),
            c if lasted > 1_000_000_000 => c.saturating_sub(1),
            c => c,
        };
        thread.opened.set(now);
        thread.class.set(class);
        let Some(smallest) = class_for(need) else { return false };
        let Some((unit, class, generation)) =
            self.allocate(smallest, class.max(smallest), Phase::Open, thread.slot.get())
        else {
            return false;
        };
        thread.class.set(class.min(thread.class.get()));
        let head = Head::new(unit, generation, 0);
        thread.base.set(self.address(unit));
        thread.chunk.set(self.chunk_word(unit));
        thread.closing_key.set(proto::key(generation, proto::CLOSING));
        thread.head.set(head);
        thread.room.set(class_size(class) as u32);
        line.head.store(head.0, Ordering::Release);
        true
    }

    /// A chunk of class `want` or near it, not below `smallest`. Owned chunks leave the last sixteenth of the pool to the
    /// overflow chunks, which many threads can share, and no thread takes more than an eighth of what is free.
    fn allocate(&self, smallest: u8, want: u8, phase: Phase, owner: u16) -> Option<(u16, u8, u32)> {
        let first = self.first();
        // Nothing was free, and nothing has been given back since: a lost event costs no search.
        let dry = self.control.word(C_RELEASES).load(Ordering::Acquire) + 1;
        if first.word(P_DRY).load(Ordering::Relaxed) == dry {
            self.wake_host();
            return None;
        }
        let mut reaped = false;
        loop {
            let segments =
                (first.half(P_SEGMENTS).load(Ordering::Acquire) as usize).min(MAX_SEGMENTS);
            let (mut free, mut total) = (0usize, 0usize);
            for segment in 0..segments {
                for block in self.blocks(segment) {
                    free += proto::free_units(block.load(Ordering::Relaxed)) as usize;
                    total += BLOCK_UNITS;
                }
            }
            if !reaped && free * 2 < total && self.reap() {
                reaped = true;
                continue;
            }
            if free * 4 < total * 3 {
                self.wake_host();
            }
            if free * 2 < total {
                first.half(P_PRESSURE).fetch_add(1, Ordering::Relaxed);
            }
            if phase == Phase::Open && free * 16 < total {
                return None;
            }
            let mut class = want.max(smallest);
            while class > smallest && CLASS_UNITS[class as usize] * 8 > free {
                class -= 1;
            }
            let down = (smallest..=class).rev();
            let up = class + 1..4;
            for class in down.chain(up) {
                for fresh in [false, true] {
                    for segment in 0..segments {
                        for (index, block) in self.blocks(segment).enumerate() {
                            let Some(local) = proto::claim(block, class, fresh) else { continue };
                            let unit = (segment * MAX_SEGMENT_UNITS
                                + index * BLOCK_UNITS
                                + local as usize) as u16;
                            if phase == Phase::Shared {
                                self.clear_directory(unit, class);
                            }
                            // `None`: the word is not free although the block bit was: our own process scribbled over its
                            // pool. The chunk is given up.
                            let generation = proto::open(self.unit(unit), phase, class, owner)?;
                            return Some((unit, class, generation));
                        }
                    }
                }
            }
            if reaped || !self.reap() {
                if smallest == 0 {
                    first.word(P_DRY).store(dry, Ordering::Relaxed);
                    // Another thread may be giving chunks back, or memory may have been added: either it finds the word set, and clears
                    // it, or its chunks are found here.
                    fence(Ordering::SeqCst);
                    if self.any_free() {
                        self.not_dry();
                    }
                }
                return None;
            }
            reaped = true;
        }
    }

    /// Is there a unit that nobody has?
    fn any_free(&self) -> bool {
        let segments =
            (self.first().half(P_SEGMENTS).load(Ordering::Acquire) as usize).min(MAX_SEGMENTS);
        (0..segments)
            .flat_map(|segment| self.blocks(segment))
            .any(|block| proto::free_units(block.load(Ordering::Relaxed)) > 0)
    }

    /// After chunks have become free.
    fn not_dry(&self) {
        fence(Ordering::SeqCst);
        self.first().word(P_DRY).store(0, Ordering::Relaxed);
    }

    /// A host that sleeps hears of a pool that fills up; the system call happens at a chunk change only.
    fn wake_host(&self) {
        let asleep = match &self.bell {
            Some(bell) => bell.memory().half(0),
            None => self.control.half(C_ASLEEP),
        };
        if asleep.load(Ordering::Relaxed) != 0 {
            // The word is the host's to clear; it may be woken twice.
            sys::futex_wake(asleep);
        }
    }

    /// The host looks at this pool only when it is told to. After the write has been announced, or a host that is about to leave
    /// the pool alone would not see it; before its time is read, so that a host that has not heard of it takes a watermark
    /// below that time.
    fn ring(&self) {
        if self.admission(0).load(Ordering::Acquire) & QUIET == 0 {
            return;
        }
        let count = self.control.half(C_QUIET).load(Ordering::Relaxed);
        let rung = self.first().half(P_RUNG);
        if rung.swap(count, Ordering::SeqCst) != count {
            // The host may be about to sleep: it looks at `rung` after it has said so.
            fence(Ordering::SeqCst);
            self.wake_host();
        }
    }

    fn blocks(&self, segment: usize) -> impl Iterator<Item = &AtomicU64> {
        let first = self.first();
        let units = first.half(P_SEGMENT_UNITS + segment * 4).load(Ordering::Relaxed) as usize;
        (0..(units / BLOCK_UNITS).min(BLOCKS_PER_SEGMENT))
            .map(move |b| first.word(P_BLOCKS + (segment * BLOCKS_PER_SEGMENT + b) * 8))
    }

    /// Makes the chunks that the host has released since the last time free again.
    fn reap(&self) -> bool {
        let first = self.first();
        let releases = self.control.word(C_RELEASES).load(Ordering::Acquire);
        if first.word(P_REAPED).swap(releases, Ordering::Relaxed) == releases {
            return false;
        }
        let mut any = false;
        let segments = (first.half(P_SEGMENTS).load(Ordering::Acquire) as usize).min(MAX_SEGMENTS);
        for segment in 0..segments {
            for (index, block) in self.blocks(segment).enumerate() {
                let word = block.load(Ordering::Acquire);
                let cut = (word >> 32) & 7;
                if cut == 0 || cut > 4 {
                    continue;
                }
                let step = CLASS_UNITS[cut as usize - 1];
                for bit in 0..BLOCK_UNITS / step {
                    if word & 1 << bit == 0 {
                        continue;
                    }
                    let local = bit * step;
                    let unit = (segment * MAX_SEGMENT_UNITS + index * BLOCK_UNITS + local) as u16;
                    if let Some(class) = proto::reap(self.unit(unit), self.chunk_word(unit)) {
                        proto::unclaim(block, class, local as u32);
                        any = true;
                    }
                }
            }
        }
        if any {
            self.not_dry();
        }
        any
    }

    fn clear_directory(&self, unit: u16, class: u8) {
        let size = class_size(class);
        let entries = size / (RECORD_HEADER_SIZE + 8) + 1;
        for index in 0..entries {
            self.entry(unit, class, index).store(0, Ordering::Relaxed);
        }
    }

    fn entry(&self, unit: u16, class: u8, index: usize) -> &AtomicU64 {
        let size = class_size(class);
        let at = size - 8 * (index + 1);
        // SAFETY: inside the chunk: `index` is below its number of entries; aligned; atomics for shared words.
        unsafe { &*self.address(unit).add(at).cast::<AtomicU64>() }
    }

    /// Room in this processor's overflow chunk, or in a chunk of its own for a large event.
    fn overflow(&self, need: usize) -> Option<(*mut u8, SharedPlace)> {
        let smallest = class_for(need + 8)?;
        if smallest > 0 && need > class_size(1) / 2 {
            let (unit, class, generation) =
                // Its count is known from the beginning: one.
                self.allocate(smallest, smallest, Phase::Shared, 1)?;
            let entry: *const AtomicU64 = self.entry(unit, class, 0);
            let place =
                SharedPlace { entry, offset: 0, room: need as u32, own: Some((unit, generation)) };
            return Some((self.address(unit), place));
        }
        let processor = usize::from(self.cpu.current()) % OVERFLOW_WORDS;
        let word = self.first().word(P_OVERFLOW + processor * 64);
        for _ in 0..8 {
            let seen = match proto::reserve_shared(word, need as u32) {
                SharedRoom::At(at) => {
                    let entry: *const AtomicU64 =
                        self.entry(at.unit, at.class, usize::from(at.count));
                    // SAFETY: `next + need` is inside the chunk, by the reservation.
                    let record = unsafe { self.address(at.unit).add(at.next as usize) };
                    let place =
                        SharedPlace { entry, offset: at.next, room: need as u32, own: None };
                    return Some((record, place));
                }
                SharedRoom::Busy => return None,
                SharedRoom::Full(seen) => seen,
            };
            let (unit, class, generation) = self.allocate(smallest, 1, Phase::Shared, u16::MAX)?;
            let fresh =
                Shared { unit, generation8: generation as u8, count: 0, class, next: 0 }.pack();
            if word.compare_exchange(seen, fresh, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                if let Some(old) = Shared::unpack(seen) {
                    let word = self.unit(old.unit);
                    if let Some(unit) = Unit::unpack(word.load(Ordering::Relaxed)) {
                        proto::close_shared(word, unit.generation, old.count, old.next);
                    }
                }
            } else {
                // Somebody else was faster. Nobody has seen our chunk's word in use: give it back.
                let mut unit_word = Unit::unpack(self.unit(unit).load(Ordering::Relaxed))?;
                unit_word.phase = Phase::Free;
                self.unit(unit).store(unit_word.pack(), Ordering::Release);
                let block = usize::from(unit) / BLOCK_UNITS;
                let local = u32::from(unit) % BLOCK_UNITS as u32;
                proto::unclaim(self.first().word(P_BLOCKS + block * 8), class, local);
                self.not_dry();
            }
        }
        None
    }

    /// Test aid: the thread state's address of the calling thread.
    #[doc(hidden)]
    pub fn with_thread<R>(&self, f: impl FnOnce(&ThreadState) -> R) -> R {
        f(thread_state(self.attachment))
    }
}

fn rank(cause: Cause) -> u8 {
    match cause {
        Cause::TooLarge => 3,
        Cause::TooLargeForSession => 2,
        _ => 1,
    }
}

fn bits(mask: u8) -> impl Iterator<Item = usize> {
    (0..SESSIONS).filter(move |slot| mask & 1 << slot != 0)
}

/// Plain loads and stores: the owner is the only writer, and a handler on its thread counts elsewhere.
#[inline(always)]
fn count_attempt(line: &Line, counters: &Counters, sessions: u8) {
    if sessions == 1 {
        let count = &counters.attempted[0];
        return count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
    count_together(line, counters, sessions);
}

/// A thread's events mostly go to the same sessions: so their masks are counted, as long as there are few. Apart, and by value: what
/// is asked for one session then stays in registers.
#[inline(never)]
fn count_together(line: &Line, counters: &Counters, sessions: u8) {
    let mask = u64::from(sessions) << TOGETHER_COUNT_BITS;
    for count in &line.together {
        let word = count.load(Ordering::Relaxed);
        if word == 0 || word >> TOGETHER_COUNT_BITS == u64::from(sessions) {
            return count.store((word | mask) + 1, Ordering::Relaxed);
        }
    }
    for (slot, count) in counters.attempted.iter().enumerate() {
        let by = u64::from(sessions >> slot & 1);
        count.store(count.load(Ordering::Relaxed) + by, Ordering::Relaxed);
    }
}

impl Control {
    /// Registers this process for the host's barrier, so that the kernel need not do it when a [`Writer`] is made. While the process
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
    fn open_read(memory: &Arc<Memory>) -> io::Result<(RawClock, sys::Barrier)> {
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
            sys::Barrier::WriterFences
        } else if flags & F_GLOBAL != 0 {
            sys::Barrier::Global
        } else {
            sys::Barrier::Private
        };
        Ok((clock, barrier))
    }
}

/// What the fast path hands on.
#[derive(Clone, Copy, Debug)]
struct Grant {
    record: *mut u8,
    head: Head,
    seq: u32,
    epoch: u16,
    sessions: u8,
}

#[derive(Clone, Copy, Debug)]
struct Stamp {
    time: u64,
    cpu: u16,
    filled: u32,
    tid: u32,
}

/// The payload of an event being written.
#[derive(Debug)]
pub struct Payload<'a> {
    start: *mut u8,
    filled: u32,
    room: u32,
    of: std::marker::PhantomData<&'a mut [u8]>,
}

impl Payload<'_> {
    /// # Safety
    /// `record` has room for a header and `room` bytes, which are the caller's alone for the value's lifetime.
    #[inline(always)]
    unsafe fn new<'a>(record: *mut u8, room: u32) -> Payload<'a> {
        // SAFETY: the caller's promise.
        let start = unsafe { record.add(RECORD_HEADER_SIZE) };
        Payload { start, filled: 0, room, of: std::marker::PhantomData }
    }

    /// Appends. More than was reserved spoils the event: its commit refuses, and it is counted as lost.
    #[inline(always)]
    pub fn put(&mut self, bytes: &[u8]) {
        // While nothing is spoiled, `filled <= room`; once it is, `filled` is beyond any room and stays there.
        let end = self.filled as usize + bytes.len();
        if end > self.room as usize {
            self.filled = u32::MAX;
            return;
        }
        // SAFETY: `end` is inside the reserved room.
        unsafe {
            let at = self.start.add(self.filled as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len());
        }
        self.filled = end as u32;
    }

    /// Appends what `fill` puts into the room that is left. What it returns can only be the rest of what it was given.
    #[inline(always)]
    pub fn fill(&mut self, fill: impl for<'b> FnOnce(Room<'b>) -> Room<'b>) {
        let left = self.room.saturating_sub(self.filled) as usize;
        if self.filled > self.room {
            return;
        }
        // SAFETY: the rest of the reserved room, which nobody else can reach while `self` is borrowed.
        let room = unsafe {
            let at = self.start.add(self.filled as usize);
            std::slice::from_raw_parts_mut(at.cast(), left)
        };
        match fill(Room::new(room)).left() {
            Some(rest) => self.filled = self.room - rest as u32,
            None => self.filled = u32::MAX,
        }
    }

    #[inline(always)]
    fn filled(&self) -> Option<u32> {
        (self.filled <= self.room).then_some(self.filled)
    }
}

/// # Safety
/// The grant's record is 8-byte aligned, has room for a header, and is the caller's alone.
#[inline(always)]
unsafe fn write_header(request: &Request, grant: &Grant, stamp: &Stamp) {
    // SAFETY: the caller's promise.
    unsafe {
        write_stamp(request, grant, stamp);
        write_identity(request, grant, stamp);
    }
}

/// The header's first 16 bytes.
///
/// # Safety
/// As [`write_header`].
#[inline(always)]
unsafe fn write_stamp(request: &Request, grant: &Grant, stamp: &Stamp) {
    let first = u64::from(stamp.filled)
        | u64::from(request.kind) << 32
        | u64::from(grant.sessions) << 40
        | u64::from(stamp.cpu) << 48;
    // SAFETY: the caller's promise.
    unsafe {
        grant.record.cast::<u64>().write(first);
        grant.record.cast::<u64>().add(1).write(stamp.time);
    }
}

/// The rest of the header. Nothing of it is the stamp's but the thread.
///
/// # Safety
/// As [`write_header`].
#[inline(always)]
unsafe fn write_identity(request: &Request, grant: &Grant, stamp: &Stamp) {
    let words = [
        u64::from(request.site) | u64::from(grant.seq) << 32,
        u64::from(request.registration) | u64::from(stamp.tid) << 32,
        u64::from(request.metadata_size)
            | u64::from(grant.epoch) << 16
            | u64::from(request.user) << 32,
    ];
    for (i, word) in words.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { grant.record.cast::<u64>().add(2 + i).write(word) };
    }
}

/// The end of an owned write: the thread's own copy of the head, the head, and only then `busy`.
#[inline(always)]
fn commit_owned(thread: &ThreadState, head: Head, filled: u32) {
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
struct Owned<'a> {
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
fn abandon(writer: &Writer, thread: &ThreadState, sessions: u8, registration: u32) {
    writer.lost(Some(thread), registration, Cause::Abandoned, sessions);
    if let Some(line) = writer.line(thread) {
        line.head.store(thread.head.get().0, Ordering::Release);
    }
    compiler_fence(Ordering::SeqCst);
    thread.busy.store(false, Ordering::Relaxed);
}

#[derive(Debug)]
struct SharedPlace {
    entry: *const AtomicU64,
    offset: u32,
    room: u32,
    /// Unit and generation of a chunk that holds this record alone.
    own: Option<(u16, u32)>,
}

#[derive(Debug)]
enum Place<'a> {
    Owned(&'a ThreadState),
    /// The thread state whose `busy` flag we hold, if it is not a nested write.
    Shared(SharedPlace, Option<&'a ThreadState>),
}

/// Room for one admitted event. Fill it and [`commit`](Self::commit); dropped, the event counts as lost
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
    place: Place<'a>,
}

impl<'a> Reservation<'a> {
    #[inline(always)]
    fn new(
        writer: &'a Writer,
        request: &Request,
        grant: Grant,
        tid: u32,
        place: Place<'a>,
    ) -> Reservation<'a> {
        // SAFETY: the grant has room for `payload_size`, until commit or drop.
        let payload = unsafe { Payload::new(grant.record, request.payload_size) };
        Reservation { writer, request: *request, grant, payload, tid, cpu: 0, time: 0, place }
    }

    /// Reads clock and processor.
    #[inline(always)]
    pub fn stamp_now(&mut self) {
        self.stamp(self.writer.clock_after_announcement(), self.writer.cpu.current());
    }

    /// Sets time and processor. The time must have been read after the reservation was made.
    #[inline(always)]
    pub fn stamp(&mut self, time: u64, cpu: u16) {
        self.time = time;
        self.cpu = cpu;
        if let Place::Owned(thread) = &self.place {
            // SAFETY: registered, since the place is owned.
            unsafe { (*thread.line.get()).since.store(time, Ordering::Relaxed) };
        }
    }

    /// The time set by a stamp, 0 before.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// The processor set by a stamp.
    pub fn cpu(&self) -> u16 {
        self.cpu
    }

    /// The sessions that admitted the event.
    pub fn sessions(&self) -> u8 {
        self.grant.sessions
    }

    /// The payload so far, to be filled on.
    #[inline(always)]
    pub fn payload(&mut self) -> &mut Payload<'a> {
        &mut self.payload
    }

    /// Appends to the payload; as [`Payload::put`].
    #[inline(always)]
    pub fn put(&mut self, bytes: &[u8]) {
        self.payload.put(bytes);
    }

    /// Publishes the event.
    ///
    /// # Errors
    /// [`Refused::Abandoned`] when more was put than reserved; the event is counted as lost.
    #[inline(always)]
    pub fn commit(mut self) -> Result<(), Refused> {
        let Some(filled) = self.payload.filled() else { return Err(Refused::Abandoned) };
        if self.time == 0 {
            self.stamp_now();
        }
        let stamp = Stamp { time: self.time, cpu: self.cpu, filled, tid: self.tid };
        // SAFETY: granted, and ours until the stores below.
        unsafe { write_header(&self.request, &self.grant, &stamp) };
        match &self.place {
            Place::Owned(thread) => commit_owned(thread, self.grant.head, filled),
            Place::Shared(place, thread) => {
                self.end_shared(place, *thread, proto::directory_entry(place.offset, place.room));
            }
        }
        std::mem::forget(self);
        Ok(())
    }

    fn end_shared(&self, place: &SharedPlace, thread: Option<&ThreadState>, entry: u64) {
        // SAFETY: an entry of a chunk that cannot be released before this store.
        proto::commit_shared(unsafe { &*place.entry }, entry);
        if let Some((unit, generation)) = place.own {
            proto::close_shared(self.writer.unit(unit), generation, 1, place.room);
        }
        if let Some(thread) = thread {
            compiler_fence(Ordering::SeqCst);
            thread.busy.store(false, Ordering::Relaxed);
        }
    }
}

impl Drop for Reservation<'_> {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        // In a forked child (a handler that forked inside this write) the pool is a private placeholder: harmless.
        let (sessions, registration) = (self.grant.sessions, self.request.registration);
        match &self.place {
            Place::Owned(thread) => abandon(self.writer, thread, sessions, registration),
            Place::Shared(place, thread) => {
                self.writer.lost(*thread, registration, Cause::Abandoned, sessions);
                let entry = proto::directory_entry(place.offset, place.room);
                self.end_shared(place, *thread, entry | proto::ENTRY_ABANDONED);
            }
        }
    }
}
