//! Several pools drained together: their records in one order of time, consumed in one step.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::reader::{
    DrainOptions, Drained, Reader, RecordSink, put_first, second, time_of_drain, wait_for_writers,
};
use crate::sys::{Barrier, Memory, RawClock};

/// One pool of several.
pub struct Participant<'a> {
    /// Its reader. A quiet pool is drained only if a write has come.
    pub reader: &'a mut Reader,
    /// The options of its drain; `patience` and `until` are ignored.
    pub options: DrainOptions<'a>,
    /// Set by [`drain_together`]: the result.
    pub drained: Drained,
    /// Set by [`drain_together`]: whether a write was in flight.
    pub is_in_flight: bool,
}

impl<'a> Participant<'a> {
    /// A pool before its drain.
    pub fn new(reader: &'a mut Reader, options: DrainOptions<'a>) -> Participant<'a> {
        Participant { reader, options, drained: Drained::default(), is_in_flight: false }
    }
}

/// The result of a drain of several pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DrainedTogether {
    /// Every record of any pool with an earlier time has been given to the sink or counted as late.
    pub watermark: u64,
    /// The number of records given to the sink.
    pub records: u64,
    /// The bytes of pools that they took.
    pub size: u64,
    /// The sink refused a record: there are more.
    pub stopped: bool,
}

/// The earliest and the latest watermark of a drain, in raw time.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The watermark of the last drain.
    pub floor: u64,
    /// Records from this time on stay for a later drain.
    pub limit: u64,
}

/// Gives the records of all pools to `sink` in one order of time, each with the index of its pool. The watermark is the earliest of
/// the pools', at most `limit`, but at least `floor`, the watermark of the last drain.
///
/// Nothing is consumed until [`advance_together`].
///
/// # Loss
/// As [`Reader::drain_while`]. A writer that stops in the middle of a write delays all pools, for [`PATIENCE`](crate::PATIENCE) at
/// most, or for [`BUSY_PATIENCE`](crate::BUSY_PATIENCE) if its thread is busy.
pub fn drain_together(
    participants: &mut [Participant<'_>],
    (clock, barrier): (RawClock, Barrier),
    Bounds { floor, limit }: Bounds,
    patience: Duration,
    sink: &mut impl RecordSink,
) -> DrainedTogether {
    let mut no_barrier = false;
    let now = time_of_drain(clock, barrier, &mut no_barrier);
    for one in participants.iter_mut().filter(|one| one.reader.is_quiet()) {
        if one.reader.is_rung() || one.options.ended {
            one.reader.wake();
        } else {
            one.reader.nothing_until(now);
        }
    }
    let bound = wait_for_writers(patience, now, |again| {
        let mut least = u64::MAX;
        for one in participants.iter_mut().filter(|one| !one.reader.is_quiet()) {
            let bound = one.reader.bound(now, &one.options, again, &mut one.drained.given_up);
            // A write that was given up is still in flight.
            one.is_in_flight = bound <= now || one.drained.given_up > 0;
            least = least.min(bound);
        }
        least
    });
    let bound = bound.min(limit);
    let watermark = bound.min(now.saturating_add(1)).max(floor);
    let mut together = DrainedTogether { watermark, ..DrainedTogether::default() };
    let mut passes: Vec<_> = participants
        .iter_mut()
        .map(|one| {
            one.drained.no_barrier = no_barrier;
            if one.reader.is_quiet() {
                return None;
            }
            one.reader.not_before(floor);
            one.reader.watermark_of(now, bound);
            Some(one.reader.begin(watermark, &one.options, one.drained))
        })
        .collect();
    let mut heap: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    for (index, pass) in passes.iter().enumerate() {
        if let Some(time) = pass.as_ref().and_then(|pass| pass.next_time()) {
            heap.push(Reverse((time, index)));
        }
    }
    let mut given = 0;
    while let Some(&Reverse((_, index))) = heap.peek() {
        let until = second(&heap).map_or(u64::MAX, |Reverse((time, _))| *time);
        let (Some(pass), Some(one)) = (&mut passes[index], participants.get_mut(index)) else {
            break;
        };
        // A provider that changes its records' times during the drain cannot garble the order of other pools.
        pass.last = given;
        one.reader.run(pass, until, index, sink);
        given = pass.last;
        if pass.out.stopped {
            together.stopped = true;
            together.watermark = pass.watermark;
            break;
        }
        match pass.next_time() {
            Some(time) => put_first(&mut heap, Reverse((time, index))),
            None => drop(heap.pop()),
        }
    }
    for (one, pass) in participants.iter_mut().zip(passes) {
        let Some(mut pass) = pass else { continue };
        pass.watermark = together.watermark;
        one.drained = one.reader.end(pass, &one.options);
        together.records += one.drained.records;
        together.size += one.drained.size;
    }
    together
}

/// The number of the last batch that became final in all pools, in memory that outlives the host.
#[derive(Clone, Debug)]
pub struct LastBatch {
    memory: Arc<Memory>,
}

impl LastBatch {
    /// The size of its memory.
    pub const SIZE: usize = 4096;

    /// The number in this memory, as an earlier host left it; zeros: there was no host.
    ///
    /// # Errors
    /// `InvalidInput`: the memory is too small.
    pub fn new(memory: Arc<Memory>) -> io::Result<LastBatch> {
        match memory.len() < Self::SIZE {
            true => Err(io::ErrorKind::InvalidInput.into()),
            false => Ok(LastBatch { memory }),
        }
    }

    /// The number.
    pub fn get(&self) -> u64 {
        self.memory.word(0).load(Ordering::Acquire)
    }

    /// The memory.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Stores words that belong to `batch`, before it is final. The words of the previous batch stay beside them.
    pub fn keep(&self, batch: u64, words: [u64; 4]) {
        for (index, word) in words.into_iter().enumerate() {
            self.memory.word(offset_of(batch) + index * 8).store(word, Ordering::Release);
        }
    }

    /// The words of the last final batch.
    pub fn kept(&self) -> [u64; 4] {
        let at = offset_of(self.get());
        std::array::from_fn(|index| self.memory.word(at + index * 8).load(Ordering::Acquire))
    }
}

fn offset_of(batch: u64) -> usize {
    0x40 + 0x40 * (batch % 2) as usize
}

/// Makes the drains of all pools since the last advance final as one step: `last` becomes `batch`, even if the host is killed in
/// between. A host that restarts opens each control page with [`Control::open_until`](crate::Control::open_until) and the number in
/// `last`.
pub fn advance_together<'a>(
    readers: impl IntoIterator<Item = &'a mut Reader>,
    last: &LastBatch,
    batch: u64,
) {
    let mut readers: Vec<_> = readers.into_iter().collect();
    for reader in &mut readers {
        reader.prepare(batch);
    }
    last.memory.word(0).store(batch, Ordering::Release);
    for reader in &mut readers {
        reader.commit();
    }
}
