//! One drain: from the watermark, through the merge, to the consumed positions.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use super::chunks::{LineView, Still};
use super::stream::{Collected, Stream};
use super::watermark::{time_of_drain, wait_for_writers};
use super::{DrainOptions, Drained, Reader, Record};
use crate::layout::*;
use crate::proto::Unit;

/// Bytes of a stream that is read with one system call.
const SHORT: usize = 4096;

/// Bytes of window buffers of a drain, for any number of threads (and one largest record for each thread that needs it).
const WINDOWS: usize = 2 << 20;

/// A drain of more bytes of records keeps a window for the next one: of hundreds of programs few write so much.
const KEEP_WINDOW: u64 = 64 << 10;

/// A drain in progress: its streams, and its position in the merge.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(super) lines: Vec<LineView>,
    pub(super) chunks: Vec<(u16, Unit)>,
    pub(super) streams: Vec<Stream>,
    /// Time and sequence number of the next record, for each stream that has one.
    pub(super) heap: BinaryHeap<Reverse<(u64, u32, usize)>>,
    pub(super) window: usize,
    pub(super) spare: Vec<Vec<u8>>,
    pub(crate) watermark: u64,
    /// The time of the last record that the sink got.
    pub(crate) last: u64,
    pub(super) drained: Tally,
    pub(crate) out: Drained,
}

impl Pass {
    /// The time of the next record, if it lies below the watermark.
    pub(crate) fn next_time(&self) -> Option<u64> {
        let Reverse((time, ..)) = self.heap.peek()?;
        (*time < self.watermark).then_some(*time)
    }
}

/// Counts records by session. Many records in a row have one mask.
#[derive(Debug, Default)]
pub(super) struct Tally {
    mask: u8,
    /// The number of records with this mask that are not in `by_slot` yet.
    count: u64,
    records: u64,
    by_slot: [u64; SESSIONS],
}

impl Tally {
    #[inline(always)]
    pub(super) fn count(&mut self, mask: u8) {
        self.count_many(mask, 1);
    }

    #[inline(always)]
    pub(super) fn count_many(&mut self, mask: u8, count: u64) {
        if mask != self.mask {
            self.change_mask(mask);
        }
        self.count += count;
    }

    #[inline(never)]
    pub(super) fn change_mask(&mut self, mask: u8) {
        add(&mut self.by_slot, self.mask, self.count);
        self.records += self.count;
        (self.mask, self.count) = (mask, 0);
    }

    pub(super) fn records(&self) -> u64 {
        self.records + self.count
    }

    pub(super) fn by_slot(&self) -> [u64; SESSIONS] {
        let mut by_slot = self.by_slot;
        add(&mut by_slot, self.mask, self.count);
        by_slot
    }
}

/// Adds `count` to the slots of a mask.
pub(super) fn add(by_slot: &mut [u64; SESSIONS], mask: u8, count: u64) {
    let slots = by_slot.iter_mut().enumerate();
    slots.filter(|(slot, _)| mask >> slot & 1 != 0).for_each(|(_, sum)| *sum += count);
}

impl Reader {
    /// Gives every record below the watermark to `sink`, in order of time.
    ///
    /// The watermark is the time now, or the start of the oldest write in flight if that is earlier. Nothing is consumed before
    /// [`advance`](Self::advance).
    ///
    /// # Loss
    /// A record that commits after the watermark passed its time is dropped and counted as late. Bytes that no writer of this crate can
    /// have made end their chunk, and count as hostile.
    pub fn drain(
        &mut self,
        options: &DrainOptions<'_>,
        mut sink: impl FnMut(&Record<'_>),
    ) -> Drained {
        self.drain_while(options, |record| {
            sink(record);
            ControlFlow::Continue(())
        })
    }

    /// [`drain`](Self::drain) to a sink that may refuse a record: if it answers `Break`, that record and all later ones stay in the
    /// pool for the next drain.
    pub fn drain_while(
        &mut self,
        options: &DrainOptions<'_>,
        mut sink: impl FnMut(&Record<'_>) -> ControlFlow<()>,
    ) -> Drained {
        let mut out = Drained::default();
        let now = match options.until {
            Some(until) => until,
            None => time_of_drain(self.control.clock, self.control.barrier, &mut out.no_barrier),
        };
        let bound = wait_for_writers(options.patience, now, |again| {
            self.bound(now, options, again, &mut out.given_up)
        });
        let watermark = self.watermark_of(now, bound);
        let mut pass = self.begin(watermark, options, out);
        self.run(&mut pass, u64::MAX, 0, &mut |_: usize, record: &Record<'_>| sink(record));
        self.end(pass, options)
    }

    /// The watermark of a drain at `now` whose oldest write in flight has a time of at least `bound`.
    pub(crate) fn watermark_of(&mut self, now: u64, bound: u64) -> u64 {
        self.scan_time = now;
        bound.min(now.saturating_add(1)).max(self.watermark)
    }

    /// Starts the merge. If writes were in flight, the lines are read again now that the watermark is known: they may be committed.
    /// If none was, every record below the watermark was committed when the lines were read, since the drain's barrier came before.
    pub(crate) fn begin(
        &mut self,
        watermark: u64,
        options: &DrainOptions<'_>,
        out: Drained,
    ) -> Pass {
        let has_barrier = options.until.is_none() && !out.no_barrier;
        let still = self.still.take().filter(|_| has_barrier);
        let still = still.unwrap_or_else(|| {
            let lines = self.lines();
            let (chunks, hostile) = self.all_chunks();
            Still { lines, chunks, hostile }
        });
        let mut pass = Pass {
            lines: still.lines,
            chunks: still.chunks,
            streams: Vec::new(),
            heap: BinaryHeap::new(),
            window: 0,
            spare: std::mem::take(&mut self.windows),
            watermark,
            last: 0,
            drained: Tally::default(),
            out,
        };
        let Pass { lines, chunks, streams, out, window, heap, .. } = &mut pass;
        out.hostile += still.hostile;
        let ended = options.ended;
        let mut collected = Collected { watermark, ended, streams, refs: Vec::new(), out };
        self.collect(lines, chunks, &mut collected);
        let mut refs = collected.refs;
        if !refs.is_empty() {
            // Chunks have their records nearly in order, which this sort uses: writers are short of chunks when there are many of these.
            refs.sort_by_key(|r| (r.time, r.seq));
            streams.push(Stream {
                segment: 0,
                unit: 0,
                slot: None,
                at: 0,
                end: 0,
                base: 0,
                window: Vec::new(),
                filled: 0,
                window_at: 0,
                refs,
                next_ref: 0,
                copies: Vec::new(),
                expected: None,
            });
        }
        *window = (WINDOWS / streams.len().max(1)).clamp(1024, 64 * 1024);
        let mut first = Vec::new();
        for (index, stream) in streams.iter_mut().enumerate() {
            // A short stream is read whole, since each read is a system call. Of others, only the header is read now; the window is
            // filled when the merge reaches them.
            let left = (stream.end - stream.at) as usize;
            let is_short = left <= SHORT.min(*window);
            stream.window = std::mem::take(&mut first);
            let want = if is_short { left } else { RECORD_HEADER_SIZE };
            if let Some(header) = self.peek(stream, want, out) {
                heap.push(Reverse((header.time(), header.seq(), index)));
            }
            if !is_short {
                first = stream.give_back();
            }
        }
        pass
    }

    /// Ends a drain: counts, consumed positions, chunks to release.
    pub(crate) fn end(&mut self, mut pass: Pass, options: &DrainOptions<'_>) -> Drained {
        let out = &mut pass.out;
        out.is_rest = out.stopped || !pass.heap.is_empty();
        out.records = pass.drained.records();
        for (sum, drained) in self.drained.iter_mut().zip(pass.drained.by_slot()) {
            *sum += drained;
        }
        if out.size >= KEEP_WINDOW {
            let left = pass.streams.iter_mut().map(Stream::give_back);
            self.windows.extend(pass.spare.drain(..).chain(left).find(|window| !window.is_empty()));
        }
        for stream in &mut pass.streams {
            self.expect(stream);
            if let Some(state) = self.chunks.get_mut(&stream.unit) {
                if stream.slot.is_some() {
                    state.consumed = stream.at;
                }
            }
        }
        self.settle(&pass.lines, &pass.chunks, options, out);
        self.watermark = pass.watermark;
        if self.has_changed() {
            self.store(C_WATERMARK, pass.watermark);
        }
        out.watermark = pass.watermark;
        pass.out
    }
}
