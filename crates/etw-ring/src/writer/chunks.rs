//! Chunks: threads allocate them from the pool, close them, and reclaim those that the host has released.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::Writer;
use super::line::Line;
use super::overflow::OVERFLOW_CLASS;
use super::thread::ThreadState;
use crate::layout::*;
use crate::proto::{self, Head, Phase};

/// Ticks of the raw clock: a chunk that was full after less was too small, one that lasted longer too large. Some 10 ms and 1 s.
const TOO_SHORT: u64 = 1 << 24;
const TOO_LONG: u64 = 1 << 31;

impl Writer {
    pub(super) fn unit(&self, unit: u16) -> &AtomicU64 {
        self.first().word(P_UNITS + usize::from(unit) * 8)
    }

    pub(super) fn chunk_word(&self, unit: u16) -> &AtomicU64 {
        self.control.word(C_CHUNKS + usize::from(unit) * 8)
    }

    pub(super) fn address(&self, unit: u16) -> *mut u8 {
        let (segment, local) =
            (usize::from(unit) / MAX_SEGMENT_UNITS, usize::from(unit) % MAX_SEGMENT_UNITS);
        let base = if segment == 0 { DATA_OFFSET } else { 0 };
        match self.segments[segment].get() {
            Some(memory) => {
                assert!(base + (local + 1) * UNIT_SIZE <= memory.len());
                // SAFETY: in range by the assertion.
                unsafe { memory.as_ptr().add(base + local * UNIT_SIZE) }
            }
            None => unreachable!("a chunk lies in a segment that exists"),
        }
    }

    fn block_count(&self, segment: usize) -> usize {
        let units = self.first().half(P_SEGMENT_UNITS + segment * 4).load(Ordering::Relaxed);
        (units as usize / BLOCK_UNITS).min(BLOCKS_PER_SEGMENT)
    }

    /// The blocks of a segment from one on, with their numbers in the pool.
    fn blocks(&self, segment: usize, from: usize) -> impl Iterator<Item = (usize, &AtomicU64)> {
        let first = self.first();
        let numbers =
            (from..self.block_count(segment)).map(move |b| segment * BLOCKS_PER_SEGMENT + b);
        numbers.map(move |number| (number, first.word(P_BLOCKS + number * 8)))
    }

    /// Takes a chunk of a class, in a block of such chunks or in one that is not cut; its first unit.
    fn claim(&self, class: u8, is_fresh: bool, segments: usize) -> Option<u16> {
        let start = if is_fresh { self.uncut.load(Ordering::Relaxed) as usize } else { 0 };
        let first = start / BLOCKS_PER_SEGMENT;
        // At last the first blocks of the segment in whose middle the search begins.
        for turn in 0..if segments == 0 { 0 } else { segments + 1 } {
            let from = if turn == 0 { start % BLOCKS_PER_SEGMENT } else { 0 };
            for (number, block) in self.blocks((first + turn) % segments, from) {
                let Some(local) = proto::claim(block, class, is_fresh) else { continue };
                let units = CLASS_UNITS[class as usize] as u32;
                self.first().half(P_TAKEN).fetch_add(units, Ordering::Relaxed);
                if is_fresh {
                    self.uncut.store(number as u32, Ordering::Relaxed);
                }
                return Some((number * BLOCK_UNITS) as u16 + local as u16);
            }
        }
        None
    }

    /// Gives a chunk back, by the thread that made its unit free.
    pub(super) fn unclaim(&self, unit: u16, class: u8) {
        let number = usize::from(unit) / BLOCK_UNITS;
        let local = u32::from(unit) % BLOCK_UNITS as u32;
        proto::unclaim(self.first().word(P_BLOCKS + number * 8), class, local);
        let units = CLASS_UNITS[class as usize & 3] as u32;
        self.first().half(P_TAKEN).fetch_sub(units, Ordering::Relaxed);
        // Blocks near the start are used first, so that a pool that stays half empty stays in few pages.
        self.uncut.fetch_min(number as u32, Ordering::Relaxed);
    }

    /// The numbers of free units and of all.
    fn free_units(&self, segments: usize) -> (usize, usize) {
        let total = (0..segments).map(|segment| self.block_count(segment) * BLOCK_UNITS).sum();
        let taken = self.first().half(P_TAKEN).load(Ordering::Relaxed) as usize;
        // A program that overwrites its own pool may have set any number.
        (usize::saturating_sub(total, taken), total)
    }

    /// Closes the thread's chunk, unless the host has revoked it.
    pub(super) fn leave_chunk(&self, thread: &ThreadState, line: &Line) {
        let head = thread.head.get();
        if head.is_valid() {
            // Release, before the head: if a host finds the chunk in no head, it finds the final offset.
            proto::close(self.unit(head.unit()), head.generation(), head.committed());
        }
        thread.head.set(Head(0));
        thread.free.set(0);
        line.head.store(0, Ordering::Release);
    }

    /// Replaces the thread's chunk, which has no space for an event that all of its sessions admit. `false`: take the slow path.
    #[cold]
    #[inline(never)]
    pub(super) fn change_chunk(&self, thread: &ThreadState, payload_size: u32) -> bool {
        let line = self.line(thread).filter(|_| thread.head.get().is_valid());
        let Some(line) = line else { return false };
        self.leave_chunk(thread, line);
        self.new_chunk(thread, line, record_size(payload_size as usize))
    }

    pub(super) fn new_chunk(&self, thread: &ThreadState, line: &Line, need: usize) -> bool {
        // The class follows the rate. The raw clock's ticks are a third of a nanosecond to a nanosecond long, which is near enough.
        let now = self.clock.now();
        let lasted = now.saturating_sub(thread.opened.get());
        let class = match thread.class.get() {
            c if thread.opened.get() == 0 => c,
            c if lasted < TOO_SHORT => (c + 1).min(3),
            c if lasted > TOO_LONG => c.saturating_sub(1),
            c => c,
        };
        thread.opened.set(now);
        thread.class.set(class);
        let Some(smallest) = class_for(need) else { return false };
        // Before the chunk is this thread's: whatever takes it away is counted later.
        thread.revocations.set(self.gate().revocations.load(Ordering::Acquire));
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
        thread.free.set(class_size(class) as u32);
        line.head.store(head.0, Ordering::Release);
        true
    }

    /// Allocates a chunk of class `want` or near it, not below `smallest`. Owned chunks leave a rest of the pool to overflow chunks,
    /// which many threads can share, and no thread takes more than its share of the free chunks, or than an eighth.
    ///
    /// The rest is a chunk of a processor's usual size for each thread, and a sixteenth of the pool at most. It is no larger, since a
    /// record there costs the host several times what one in an owned chunk does: a host that is behind would fall further behind.
    pub(super) fn allocate(
        &self,
        smallest: u8,
        want: u8,
        phase: Phase,
        owner: u16,
    ) -> Option<(u16, u8, u32)> {
        #[cfg(test)]
        pause::run();
        let first = self.first();
        // Nothing was free, and the host has released nothing since: a lost event costs no search. The count lies in memory that the
        // host changes, so it is read only where it matters.
        let dry = first.word(P_DRY).load(Ordering::Relaxed);
        if dry != 0 && self.control.word(C_RELEASES).load(Ordering::Acquire) + 1 == dry {
            self.wake_host();
            return None;
        }
        let mut reaped = false;
        let takers = (first.half(P_SLOTS).load(Ordering::Relaxed) as usize).max(8);
        loop {
            let segments =
                (first.half(P_SEGMENTS).load(Ordering::Acquire) as usize).min(MAX_SEGMENTS);
            // The releases that were looked at before this search.
            let dry = first.word(P_REAPED).load(Ordering::Relaxed) + 1;
            let (free, total) = self.free_units(segments);
            if free * 4 < total * 3 {
                // A search for few chunks that the host has released costs more than it gives, while half of the pool is free.
                let released = self.released();
                let is_worth_it = free * 2 < total || released >= total / BLOCK_UNITS / 8;
                if !reaped && is_worth_it && self.reap() {
                    reaped = true;
                    continue;
                }
                if is_behind(free, released, want, total) {
                    self.wake_host();
                }
            }
            if free * 2 < total {
                first.half(P_PRESSURE).fetch_add(1, Ordering::Relaxed);
            }
            let rest = (total / 16).min(takers * CLASS_UNITS[OVERFLOW_CLASS as usize]);
            if phase == Phase::Open && free < rest {
                return None;
            }
            let mut class = want.max(smallest);
            while class > smallest && CLASS_UNITS[class as usize] * takers > free {
                class -= 1;
            }
            let down = (smallest..=class).rev();
            let up = class + 1..4;
            for class in down.chain(up) {
                // A chunk of the largest class is a whole block.
                let is_block = CLASS_UNITS[class as usize] == BLOCK_UNITS;
                let in_cut_block = if is_block { None } else { self.claim(class, false, segments) };
                let Some(unit) = in_cut_block.or_else(|| self.claim(class, true, segments)) else {
                    continue;
                };
                if phase == Phase::Shared {
                    self.clear_directory(unit, class);
                }
                // `None`: the unit word is in use although the block bit was free. This process has overwritten its own pool; the
                // chunk stays unused.
                let generation = proto::open(self.unit(unit), phase, class, owner)?;
                return Some((unit, class, generation));
            }
            if reaped || !self.reap() {
                if smallest == 0 {
                    first.word(P_DRY).store(dry, Ordering::Relaxed);
                    // Another thread may be reclaiming chunks or adding a segment. Either it finds the word set and clears it, or its
                    // chunks are found here.
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

    /// The number of chunks that the host has released since the last search for them.
    fn released(&self) -> usize {
        let released = self.control.word(C_RELEASES).load(Ordering::Relaxed);
        let reaped = self.first().word(P_REAPED).load(Ordering::Relaxed);
        usize::try_from(released.wrapping_sub(reaped)).unwrap_or(0)
    }

    /// Whether any unit is free.
    fn any_free(&self) -> bool {
        let segments =
            (self.first().half(P_SEGMENTS).load(Ordering::Acquire) as usize).min(MAX_SEGMENTS);
        (0..segments)
            .flat_map(|segment| self.blocks(segment, 0))
            .any(|(_, block)| proto::free_units(block.load(Ordering::Relaxed)) > 0)
    }

    /// Clears the mark of an empty pool, after chunks have become free.
    pub(super) fn not_dry(&self) {
        fence(Ordering::SeqCst);
        self.first().word(P_DRY).store(0, Ordering::Relaxed);
    }

    /// Reclaims the chunks that the host has released since the last call; whether there were any.
    fn reap(&self) -> bool {
        let first = self.first();
        let releases = self.control.word(C_RELEASES).load(Ordering::Acquire);
        if first.word(P_REAPED).swap(releases, Ordering::Relaxed) == releases {
            return false;
        }
        let mut any = false;
        let segments = (first.half(P_SEGMENTS).load(Ordering::Acquire) as usize).min(MAX_SEGMENTS);
        for segment in 0..segments {
            for (number, block) in self.blocks(segment, 0) {
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
                    let unit = (number * BLOCK_UNITS + bit * step) as u16;
                    if let Some(class) = proto::reap(self.unit(unit), self.chunk_word(unit)) {
                        self.unclaim(unit, class);
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
}

/// Whether the host has yet to read a quarter of the pool. Chunks that it has released are no reason to wake it; they are counted as
/// those of the thread that asks, until a search finds what they are.
fn is_behind(free: usize, released: usize, class: u8, total: usize) -> bool {
    let read = released.saturating_mul(CLASS_UNITS[class as usize & 3]);
    free.saturating_add(read) < total / 4 * 3
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sys::{Barrier, Memory, RawClock};
    use crate::{Admission, Control, DrainOptions, PATIENCE, PoolOptions, Reader, Request, Source};

    const PAYLOAD: u32 = 1000;

    fn request() -> Request {
        Request { sessions: 1, payload_size: PAYLOAD, event_size: 1080, ..Request::default() }
    }

    fn rig(chunk_size: usize) -> (Writer, Reader) {
        let memory = |size| Memory::heap(size).unwrap();
        let (clock, barrier) = (RawClock::Monotonic, Barrier::WriterFences);
        let control = Control::create(memory(CONTROL_SIZE), clock, barrier).unwrap();
        let open = Admission { open: true, largest_size: 65535, ..Admission::default() };
        control.set_admission(0, open);
        let options = PoolOptions { chunk_size, prefault: 0 };
        let pool = memory(options.memory_size());
        let writer = Writer::new(pool, control.memory().clone(), options, 0).unwrap();
        let source = Source::Mapped(writer.segment(0).unwrap().clone());
        (writer, Reader::new(control, source).unwrap())
    }

    /// The units of the chunks that the block words show.
    fn taken(writer: &Writer) -> usize {
        let free = writer.blocks(0, 0).map(|(_, block)| block.load(Ordering::Relaxed));
        free.map(|word| BLOCK_UNITS - proto::free_units(word) as usize).sum()
    }

    /// P1: a thread whose host keeps up neither calls it nor leaves the fast path: it reclaims released chunks before a quarter of the
    /// pool is in use, and replaces its full chunk on the way.
    #[test]
    fn a_thread_whose_host_keeps_up_stays_on_the_fast_path() {
        let (writer, mut reader) = rig(4 << 20);
        let (_, total) = writer.free_units(1);
        writer.write(&request(), |record| record.put(&[1; PAYLOAD as usize])).unwrap();
        for _ in 0..16 << 10 {
            let written = writer.try_write(0, request(), |room| room.put(&[2; PAYLOAD as usize]));
            assert_eq!(written, Some(Ok(())));
            let options = DrainOptions { patience: PATIENCE, ..DrainOptions::default() };
            assert_eq!(reader.drain(&options, |_| ()).late, 0);
            reader.advance();
            let (free, _) = writer.free_units(1);
            assert_eq!(total - free, taken(&writer));
            assert!((total - free) * 4 <= total + BLOCK_UNITS * 4, "{free} of {total} are free");
        }
        assert_eq!(writer.pressure(), 0);
    }

    /// A host is called for what it has yet to read, not for chunks that it has released and nobody has looked for.
    #[test]
    fn released_chunks_do_not_call_the_host() {
        let (writer, mut reader) = rig(16 << 20);
        let is_behind = |writer: &Writer| {
            let (free, total) = writer.free_units(1);
            assert!(free * 4 < total * 3, "{free} of {total} are free");
            super::is_behind(free, writer.released(), 3, total)
        };
        while taken(&writer) <= 34 * BLOCK_UNITS {
            writer.write(&request(), |record| record.put(&[1; PAYLOAD as usize])).unwrap();
        }
        assert_eq!(writer.released(), 0);
        assert!(is_behind(&writer));
        let options = DrainOptions { patience: PATIENCE, ..DrainOptions::default() };
        assert_eq!(reader.drain(&options, |_| ()).late, 0);
        reader.advance();
        assert!(writer.released() >= 32, "{}", writer.released());
        assert!(!is_behind(&writer));
    }

    /// A thread whose host is behind fills the pool with its own chunks: to read overflow chunks would cost the host several times as much.
    #[test]
    fn a_thread_whose_host_is_behind_leaves_little_to_overflow_chunks() {
        let (writer, mut reader) = rig(16 << 20);
        let write = |_: &u32| writer.write(&request(), |record| record.put(&[1; 1000])).is_ok();
        let written = (0..).take_while(write).count();
        let overflow = writer.first().half(P_SHARED_SEQ).load(Ordering::Relaxed) as usize;
        assert!(written > 15000 && overflow > 0, "{overflow} of {written}");
        assert!(overflow < written / 100, "{overflow} of {written}");
        assert_eq!(reader.drain(&DrainOptions::default(), |_| ()).records, written as u64);
    }

    /// The count of taken units stays right while threads take and reclaim chunks of all classes, and lose events.
    #[test]
    fn the_count_of_taken_units_is_that_of_the_blocks() {
        let (writer, mut reader) = rig(1 << 20);
        for round in 0..20 {
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let writer = &writer;
                    scope.spawn(move || {
                        for n in 0..50 * (thread + 1) {
                            let payload_size = 40 << (n % 9);
                            let request = Request { payload_size, ..request() };
                            let _ = match n % 3 {
                                0 => writer.write_in_overflow(&request, |_| ()),
                                _ => writer.write(&request, |_| ()),
                            };
                        }
                    });
                }
            });
            let (free, total) = writer.free_units(1);
            assert_eq!(total - free, taken(&writer), "round {round}");
            let options = DrainOptions { patience: PATIENCE, ..DrainOptions::default() };
            reader.drain(&options, |_| ());
            reader.advance();
        }
        assert!(reader.drained()[0] > 4000);
    }
}

/// Test aid: something that happens elsewhere while a thread looks for a chunk.
#[cfg(test)]
pub(super) mod pause {
    use std::cell::RefCell;

    type Meanwhile = Box<dyn FnOnce()>;

    thread_local! {
        static MEANWHILE: RefCell<Option<Meanwhile>> = const { RefCell::new(None) };
    }

    /// Runs this when the calling thread next looks for a chunk.
    pub fn set(meanwhile: impl FnOnce() + 'static) {
        MEANWHILE.set(Some(Box::new(meanwhile)));
    }

    pub fn is_over() -> bool {
        MEANWHILE.with_borrow(Option::is_none)
    }

    pub fn run() {
        if let Some(meanwhile) = MEANWHILE.take() {
            meanwhile();
        }
    }
}
