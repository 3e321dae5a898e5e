//! The merge: the streams' records in one order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use super::pass::{Pass, Tally, add};
use super::record::{Header, RecordBytes, Run, SESSIONS_BYTE};
use super::stream::Stream;
use super::{Drained, Reader, RecordSink};
use crate::layout::*;

/// The reason why the merge leaves a stream.
pub(super) enum End {
    /// It has no more records below the watermark.
    Empty,
    /// A record of another stream comes first; time and sequence number of this stream's next record.
    NotYet(u64, u32),
    /// The sink refused the record of this time.
    Refused(u64),
}

/// The second entry of a heap.
pub(crate) fn second<T: Ord>(heap: &BinaryHeap<T>) -> Option<&T> {
    // The children of the root.
    let all = heap.as_slice();
    all.get(1).max(all.get(2))
}

/// Replaces the first entry of a heap.
pub(crate) fn put_first<T: Ord>(heap: &mut BinaryHeap<T>, value: T) {
    if let Some(mut first) = heap.peek_mut() {
        *first = value;
    }
}

/// A stream's turn in the merge: it gives its records until another stream's record comes first.
struct Turn<'p> {
    /// The index of the pool.
    pool: usize,
    watermark: u64,
    until: u64,
    /// Time and sequence number of the next record of the other streams.
    limit: Option<(u64, u32)>,
    /// Before this time, nothing ends the turn.
    near: u64,
    /// An earlier record is a late commit, or has a time that the provider made up.
    floor: u64,
    last: &'p mut u64,
    drained: &'p mut Tally,
    out: &'p mut Drained,
}

impl Turn<'_> {
    /// The end of the turn, if a record of this time and number has to wait.
    #[inline(always)]
    fn end_at(&self, time: u64, seq: u32) -> Option<End> {
        if time < self.near {
            return None;
        }
        if time >= self.watermark {
            return Some(End::Empty);
        }
        let waits = time > self.until || self.limit.is_some_and(|limit| (time, seq) > limit);
        waits.then_some(End::NotYet(time, seq))
    }

    /// Counts a record that the sink has taken.
    #[inline(always)]
    fn count(&mut self, record: &RecordBytes<'_>) {
        (*self.last, self.floor) = (record.time(), record.time());
        self.drained.count(record.sessions());
        self.out.size += record.size() as u64;
    }

    /// Counts the records that the sink has taken from the front of a run, the first of which is for these slots.
    #[inline(always)]
    fn count_run(&mut self, run: &Run<'_>, sessions: u8, size: usize) {
        if run.count > 0 {
            (*self.last, self.floor) = (run.floor, run.floor);
            self.drained.count_many(sessions, run.count);
            self.out.size += size as u64;
        }
    }

    #[cold]
    fn count_late(&mut self, record: &RecordBytes<'_>, late: &mut [u64; SESSIONS]) {
        self.out.late += 1;
        add(late, record.sessions(), 1);
    }
}

/// [`RecordSink::take`] without another copy of its code.
#[inline(never)]
fn take(sink: &mut impl RecordSink, pool: usize, record: &RecordBytes<'_>) -> ControlFlow<()> {
    sink.take(pool, record)
}

impl Reader {
    /// The k-way merge: the streams' records by time and sequence number, up to the watermark and to `until`. The sink gets them with
    /// the index of their pool. If it refuses a record, the record's time becomes the watermark.
    pub(crate) fn run(
        &mut self,
        pass: &mut Pass,
        until: u64,
        pool: usize,
        sink: &mut impl RecordSink,
    ) {
        let Pass { streams, heap, window, spare, watermark, last, drained, out, .. } = pass;
        while let Some(&Reverse((time, seq, index))) = heap.peek() {
            if time >= *watermark || time > until {
                break;
            }
            let stream = &mut streams[index];
            let limit = second(heap).map(|Reverse((time, seq, _))| (*time, *seq));
            let near = limit.map_or(u64::MAX, |(time, _)| time);
            let mut turn = Turn {
                pool,
                watermark: *watermark,
                until,
                limit,
                near: near.min(until.saturating_add(1)).min(*watermark),
                floor: self.watermark.max(*last),
                last,
                drained,
                out,
            };
            let end = if stream.refs.is_empty() {
                if stream.window.is_empty() {
                    stream.window = spare.pop().unwrap_or_default();
                    stream.filled = 0;
                }
                let expected = match stream.expected {
                    Some(expected) => expected,
                    None => self.expected(stream.slot, seq),
                };
                stream.expected = Some(expected);
                loop {
                    if let Some(end) = self.run_window(stream, &mut turn, sink) {
                        break end;
                    }
                    if self.peek(stream, *window, turn.out).is_none() {
                        break End::Empty;
                    }
                    // Now the window holds the whole record.
                }
            } else {
                self.run_overflow(stream, &mut turn, sink)
            };
            match end {
                End::Empty => {
                    self.expect(stream);
                    spare.push(stream.give_back());
                    heap.pop();
                }
                End::NotYet(time, seq) => put_first(heap, Reverse((time, seq, index))),
                End::Refused(time) => {
                    *watermark = time;
                    out.stopped = true;
                    return;
                }
            }
        }
    }

    /// Gives the records that are whole in a stream's window. `None`: the next record is not.
    #[inline(always)]
    fn run_window(
        &mut self,
        stream: &mut Stream,
        turn: &mut Turn<'_>,
        sink: &mut impl RecordSink,
    ) -> Option<End> {
        let mut rest = stream.rest();
        let size = rest.len();
        let mut expected = stream.expected.unwrap_or_default();
        let end = loop {
            let Some(first) = rest.get(SESSIONS_BYTE).copied() else { break None };
            let mut run = Run::new(rest, turn.floor, turn.near, expected);
            sink.take_run(turn.pool, &mut run);
            turn.count_run(&run, first, rest.len() - run.rest().len());
            (rest, expected) = (run.rest(), run.expected);
            let Some(record) = RecordBytes::read(rest, false) else { break None };
            let (time, seq) = (record.time(), record.seq());
            if let Some(end) = turn.end_at(time, seq) {
                break Some(end);
            }
            if time < turn.floor {
                turn.count_late(&record, &mut self.late);
            } else {
                if sink.take(turn.pool, &record).is_break() {
                    break Some(End::Refused(time));
                }
                turn.count(&record);
            }
            if seq != expected {
                // Numbers fall only in a provider that makes them up.
                let gap = seq.wrapping_sub(expected);
                self.gaps += if gap < 1 << 31 { u64::from(gap) } else { 0 };
            }
            expected = seq.wrapping_add(1);
            rest = rest.get(record.size()..).unwrap_or(&[]);
        };
        stream.at += (size - rest.len()) as u32;
        stream.expected = Some(expected);
        end
    }

    /// Gives the records of overflow chunks.
    #[inline(never)]
    fn run_overflow(
        &mut self,
        stream: &mut Stream,
        turn: &mut Turn<'_>,
        sink: &mut impl RecordSink,
    ) -> End {
        loop {
            let Some(record) = self.peek_overflow(stream, turn.out) else { return End::Empty };
            let (time, seq) = (record.time(), record.seq());
            if let Some(end) = turn.end_at(time, seq) {
                return end;
            }
            if time < turn.floor {
                turn.count_late(&record, &mut self.late);
            } else {
                if take(sink, turn.pool, &record).is_break() {
                    return End::Refused(time);
                }
                turn.count(&record);
            }
            self.step_overflow(stream, seq);
        }
    }

    /// The next sequence number of a thread; `first` if it is unknown.
    pub(super) fn expected(&mut self, slot: Option<u16>, first: u32) -> u32 {
        let known = slot.and_then(|slot| self.next_seq.get(usize::from(slot)));
        match known {
            Some(known) if *known <= u64::from(u32::MAX) => *known as u32,
            None if self.fresh => 0,
            _ => first,
        }
    }

    /// Stores a stream's next sequence number for its thread.
    pub(super) fn expect(&mut self, stream: &mut Stream) {
        let (Some(slot), Some(next)) = (stream.slot, stream.expected.take()) else { return };
        let slot = usize::from(slot);
        if slot >= MAX_THREADS {
            return;
        }
        if self.next_seq.len() <= slot {
            let first = if self.fresh { 0 } else { u64::MAX };
            self.next_seq.resize(slot + 1, first);
        }
        self.next_seq[slot] = u64::from(next);
    }

    /// The next record's header; the whole record is then in the window, unless `want` asks for the header alone. `None`: the stream is
    /// at its end, or its bytes are hostile, and then its rest counts as consumed.
    #[inline(never)]
    pub(super) fn peek(
        &mut self,
        stream: &mut Stream,
        want: usize,
        out: &mut Drained,
    ) -> Option<Header> {
        if !stream.refs.is_empty() {
            let record = self.peek_overflow(stream, out)?;
            return Some(record.header());
        }
        let left = stream.end - stream.at;
        if left == 0 {
            return None;
        }
        let source = &self.segments[stream.segment].source;
        let mut need = RECORD_HEADER_SIZE as u32;
        loop {
            if need > left {
                break;
            }
            let have = stream.window_at + stream.filled as u32;
            if stream.at < stream.window_at || stream.at + need > have {
                let bytes = need.max(want as u32).min(left) as usize;
                // A window is zeroed once, not for each read.
                if stream.window.len() < bytes {
                    stream.window.resize(bytes, 0);
                }
                stream.filled = bytes;
                stream.window_at = stream.at;
                source.read(stream.base + stream.at as usize, &mut stream.window[..bytes]);
            }
            let at = (stream.at - stream.window_at) as usize;
            let Some(bytes) = stream.window[at..stream.filled].first_chunk() else { break };
            let header = Header::read(bytes);
            match header.record_size(left) {
                // `want` of a header's size: only the time is needed.
                Some(_) if want == RECORD_HEADER_SIZE => return Some(header),
                Some(room) if stream.at + room <= stream.window_at + stream.filled as u32 => {
                    return Some(header);
                }
                // Read the record again, whole. Its header then comes from the new copy, so that no byte is read twice and trusted. A
                // hostile writer that keeps changing it makes `need` grow, to `left` at most.
                Some(room) if room > need => need = room,
                Some(_) => need = left,
                None => break,
            }
        }
        out.hostile += 1;
        stream.at = stream.end;
        None
    }
}
