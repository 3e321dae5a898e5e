//! Chunks: threads allocate them from the pool, close them, and reclaim those that the host has released.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::Writer;
use super::line::Line;
use super::thread::ThreadState;
use crate::layout::*;
use crate::proto::{self, Head, Phase};
use crate::sys::RawClock;

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

    pub(super) fn blocks(&self, segment: usize) -> impl Iterator<Item = &AtomicU64> {
        let first = self.first();
        let units = first.half(P_SEGMENT_UNITS + segment * 4).load(Ordering::Relaxed) as usize;
        (0..(units / BLOCK_UNITS).min(BLOCKS_PER_SEGMENT))
            .map(move |b| first.word(P_BLOCKS + (segment * BLOCKS_PER_SEGMENT + b) * 8))
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

    pub(super) fn new_chunk(&self, thread: &ThreadState, line: &Line, need: usize) -> bool {
        // The class follows the rate: a chunk that lasted less than 10 ms was too small, one that lasted more than 1 s too large.
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
        thread.free.set(class_size(class) as u32);
        line.head.store(head.0, Ordering::Release);
        true
    }

    /// Allocates a chunk of class `want` or near it, not below `smallest`. Owned chunks leave the last sixteenth of the pool to
    /// overflow chunks, which many threads can share, and no thread takes more than its share of the free chunks, or than an eighth.
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
        // Nothing was free, and the host has released nothing since: a lost event costs no search.
        let dry = self.control.word(C_RELEASES).load(Ordering::Acquire) + 1;
        if first.word(P_DRY).load(Ordering::Relaxed) == dry {
            self.wake_host();
            return None;
        }
        let mut reaped = false;
        let takers = (first.half(P_SLOTS).load(Ordering::Relaxed) as usize).max(8);
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
            while class > smallest && CLASS_UNITS[class as usize] * takers > free {
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
                            // `None`: the unit word is in use although the block bit was free. This process has overwritten its own
                            // pool; the chunk stays unused.
                            let generation = proto::open(self.unit(unit), phase, class, owner)?;
                            return Some((unit, class, generation));
                        }
                    }
                }
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

    /// Whether any unit is free.
    fn any_free(&self) -> bool {
        let segments =
            (self.first().half(P_SEGMENTS).load(Ordering::Acquire) as usize).min(MAX_SEGMENTS);
        (0..segments)
            .flat_map(|segment| self.blocks(segment))
            .any(|block| proto::free_units(block.load(Ordering::Relaxed)) > 0)
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
