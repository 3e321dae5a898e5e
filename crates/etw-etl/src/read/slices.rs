//! Boundaries in time that divide a trace into slices, chosen by the first records of its buffers.
//!
//! The time in a buffer's header does not help: it is that of the flush, long after the records if a session ends, and by another clock
//! than theirs in Windows' own traces. The first record of a buffer is most often its oldest, and younger than those of the
//! buffer before. A file need not keep to that, so a boundary's positions are a guess that whoever reads up to the boundary checks.

use super::buffer_loader::decompress_into;
use super::byte_source::read_full;
use super::file::TraceFile;
use super::index::{Cursor, Entry};
use super::merge::{Boundary, OrderTime};
use crate::record;
use etw_types::BufferHeader;

/// Bytes of a slice: small enough that threads end together, large enough that boundaries cost little.
const SLICE_BYTES: u64 = 32 << 20;

/// Chooses boundaries, from the first to the last.
pub(super) struct Slices {
    files: Vec<TraceFile>,
    times: Vec<OrderTime>,
    /// The file by whose buffers the trace is divided.
    lead: usize,
    scouts: Vec<Scout>,
    /// Positions at the last boundary.
    cursors: Vec<Walker>,
    /// Buffers of the lead file between two boundaries.
    step: i64,
    /// The position of the last boundary in the lead file.
    at: i64,
    time: i64,
    /// The first bytes of a buffer's records; zeros behind them, as long as the longest record.
    front: Vec<u8>,
}

/// Bytes that are read of a buffer and its first record.
const FRONT: usize = 0x200;
/// No record header is longer, and no record longer than [`LONGEST_RECORD`].
const LONGEST_HEADER: usize = 0x50;
const LONGEST_RECORD: usize = 1 << 16;

/// A stream of the lead file, and its next buffer.
struct Scout {
    cursor: Cursor,
    next: Option<Entry>,
}

/// A position in a stream of any file.
#[derive(Clone)]
struct Walker {
    file_index: usize,
    cursor: Cursor,
    /// One buffer before.
    last: Cursor,
}

impl Slices {
    /// Divides files into slices of about `bytes`; `None` if there is only one.
    pub(super) fn new(
        files: &[TraceFile],
        times: &[OrderTime],
        bytes: Option<u64>,
    ) -> Option<Slices> {
        let size = |file: &TraceFile| file.core.load.source.size();
        let lead = (0..files.len()).max_by_key(|&number| size(&files[number]))?;
        let file = &files[lead];
        let all: u64 = files.iter().map(size).sum();
        // A boundary makes both sides open the buffers in which it lies.
        let open = files.iter().map(|file| {
            let totals = file.totals();
            totals.streams as u64 * u64::from(totals.largest_buffer)
        });
        let bytes = bytes.unwrap_or_else(|| SLICE_BYTES.max(16 * open.sum::<u64>()));
        let slices = (all / bytes.max(1)).max(1);
        let step = (file.totals().buffers / slices).max(1) as i64;
        let walkers = files.iter().enumerate().flat_map(|(file_index, file)| {
            let index = &file.core.index;
            (0..index.stream_count()).map(move |number| {
                let cursor = index.cursor(number);
                Walker { file_index, last: cursor.clone(), cursor }
            })
        });
        let index = &file.core.index;
        let scouts = (0..index.stream_count()).map(|number| {
            let mut cursor = index.cursor(number);
            let next = index.next(&mut cursor).ok()?;
            Some(Scout { cursor, next })
        });
        let mut made = Slices {
            files: files.to_vec(),
            times: times.to_vec(),
            lead,
            scouts: scouts.collect::<Option<_>>()?,
            cursors: walkers.collect(),
            step,
            at: 0,
            time: i64::MIN,
            front: vec![0; LONGEST_RECORD],
        };
        made.at = made.scouts.iter().filter_map(|scout| Some(made.number(&scout.next?))).min()?;
        (slices > 1).then_some(made)
    }

    /// The number of a buffer in the order in which the lead file was written.
    fn number(&self, entry: &Entry) -> i64 {
        match self.files[self.lead].core.index.wrapped {
            true => entry.sequence,
            false => entry.index as i64,
        }
    }

    /// The order time of the first record of a buffer.
    fn time_of(&mut self, file_index: usize, entry: &Entry) -> Option<i64> {
        let file = &self.files[file_index];
        let mut bytes = [0; FRONT];
        let got = read_full(&*file.core.load.source, &mut bytes, entry.offset).ok()?;
        let (head, rest) = bytes[..got].split_first_chunk::<{ BufferHeader::SIZE }>()?;
        let front = &mut self.front[..LONGEST_HEADER];
        front.fill(0);
        if BufferHeader::read(head).is_compressed() {
            decompress_into(rest, front);
        } else {
            let length = rest.len().min(LONGEST_HEADER);
            front[..length].copy_from_slice(&rest[..length]);
        }
        let raw = record::frame(&self.front, &file.core.load.record).ok()?.time?;
        self.times[file_index].of(file.clock(), raw)
    }

    /// The next boundary; `None` if the rest is one slice.
    pub(super) fn next(&mut self) -> Option<Boundary> {
        let time = loop {
            let time = self.next_time()?;
            if time > self.time {
                break time;
            }
        };
        self.time = time;
        let mut walkers = std::mem::take(&mut self.cursors);
        for walker in &mut walkers {
            self.walk(walker, time)?;
        }
        let cursors = walkers.iter().map(|walker| walker.last.clone()).collect();
        self.cursors = walkers;
        Some(Boundary { time, cursors })
    }

    /// The time of the buffer one step on in the lead file.
    fn next_time(&mut self) -> Option<i64> {
        self.at = self.at.checked_add(self.step)?;
        let mut first: Option<(i64, Entry)> = None;
        let mut scouts = std::mem::take(&mut self.scouts);
        let index = &self.files[self.lead].core.index;
        for scout in &mut scouts {
            while let Some(entry) = scout.next {
                let number = self.number(&entry);
                if number >= self.at {
                    let is_first = first.as_ref().is_none_or(|(before, _)| number < *before);
                    first = if is_first { Some((number, entry)) } else { first };
                    break;
                }
                scout.next = index.next(&mut scout.cursor).ok()?;
            }
        }
        self.scouts = scouts;
        // Sequence numbers may leave out many.
        let (number, entry) = first?;
        self.at = number;
        self.time_of(self.lead, &entry).or(Some(i64::MIN))
    }

    /// Moves behind the buffers whose first records are before `time`, with few of them looked at.
    fn walk(&mut self, walker: &mut Walker, time: i64) -> Option<()> {
        let mut step = 1u64;
        let mut is_near = false;
        while step > 0 {
            let mut ahead = walker.clone();
            let mut entry = None;
            let index = &self.files[walker.file_index].core.index;
            for number in 1..=step {
                if number == step {
                    ahead.last = ahead.cursor.clone();
                }
                entry = index.next(&mut ahead.cursor).ok()?;
                if entry.is_none() {
                    break;
                }
            }
            let first = entry.and_then(|entry| self.time_of(walker.file_index, &entry));
            if first.is_some_and(|first| first < time) {
                *walker = ahead;
                step = if is_near { step / 2 } else { step * 2 };
            } else {
                is_near = true;
                step /= 2;
            }
        }
        Some(())
    }
}
