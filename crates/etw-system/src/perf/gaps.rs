//! Times between which records may be missing, since a ring had no room for them.

use etw_types::le;

use super::waiting::Waiting;
use super::{Kind, Parsed, Perf, PerfDetail, Tracepoint, sample};
use crate::clocks::now;
use crate::neutral::{Detail, Stack};

/// The rings of the begins and ends of gaps.
const GAP_BEGIN: usize = usize::MAX - 2;
const GAP_END: usize = usize::MAX - 3;

/// Records may be missing between these times, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub from: u64,
    pub until: u64,
}

impl Gap {
    /// Whether something may be missing between two times.
    pub fn is_between(&self, from: u64, until: u64) -> bool {
        self.from <= until && self.until >= from
    }
}

/// Bytes of the largest record of programs, with its header: a path.
const LARGEST: u64 = 4096 + 256;

/// Where the ring of the programs has room, and where it may lack it.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Records before this position were written while there was room for the largest one.
    end: u64,
    /// The time of the last of them that was read.
    sure_until: u64,
    ended: Option<EndedGap>,
    gaps: Vec<Gap>,
}

/// A gap that the host has ended, as it gave the ring room.
#[derive(Debug)]
struct EndedGap {
    /// As in [`Room`], before that.
    end: u64,
    sure_until: u64,
    /// Losses up to then.
    losses: u64,
    time: u64,
}

impl Room {
    pub fn of(consumer: u64, size: usize) -> Room {
        let end = (consumer + size as u64).saturating_sub(LARGEST);
        Room { end, ..Room::default() }
    }

    /// A record is read at a position.
    #[inline]
    pub fn look(&mut self, position: u64, record: &[u8]) {
        let Some(time) = le::u64(record, sample::TIME).filter(|_| position < self.end) else {
            return;
        };
        self.sure_until = self.sure_until.max(time);
        if let Some(ended) = self.ended.as_mut().filter(|ended| position < ended.end) {
            ended.sure_until = ended.sure_until.max(time);
        }
    }

    /// The ring has been read. `losses`: the counts at the last look, and now.
    pub fn looked(&mut self, (before, losses): (u64, u64)) {
        let mut counted = before;
        if let Some(EndedGap { sure_until, losses, time, .. }) = self.ended.take() {
            self.gaps.push(Gap { from: sure_until, until: time });
            counted = losses;
        }
        if losses != counted {
            self.gaps.push(Gap { from: self.sure_until, until: now() });
        }
    }

    /// The ring has room again behind this position of its reader. `losses`: the counts at the last look, and now.
    pub fn grows(&mut self, consumer: u64, size: usize, (before, losses): (u64, u64)) {
        if losses != before {
            let time = now();
            let Room { end, sure_until, .. } = *self;
            let first = EndedGap { end, sure_until, losses, time };
            let ended = self.ended.take().unwrap_or(first);
            self.ended = Some(EndedGap { losses, time, ..ended });
        }
        self.end = Room::of(consumer, size).end;
    }

    pub fn take_gaps(&mut self) -> Vec<Gap> {
        std::mem::take(&mut self.gaps)
    }
}

impl Perf {
    /// Gives the begins and ends of the gaps from the one with this index on as records.
    pub(super) fn mark_gaps(&mut self, first: usize) {
        for gap in &self.gaps[first..] {
            for (time, ring) in [(gap.from, GAP_BEGIN), (gap.until, GAP_END)] {
                self.waiting.push(Waiting { time, position: 0, ring });
            }
        }
    }

    /// Records of a CPU are missing between two times, since perf did not record it.
    pub fn add_gap(&mut self, gap: Gap) {
        let is_call = |kind: &Kind| {
            use Tracepoint::{SyscallEnter, SyscallExit};
            matches!(kind, Kind::Tracepoint { point: SyscallEnter | SyscallExit, .. })
        };
        // Programs record calls on each CPU.
        if self.event_kinds.iter().any(is_call) {
            self.gaps.push(gap);
            self.mark_gaps(self.gaps.len() - 1);
        }
    }

    /// Gaps that have been found since the last call.
    pub fn take_gaps(&mut self) -> Vec<Gap> {
        std::mem::take(&mut self.gaps)
    }
}

/// The begin or the end of a gap, or a loss: no ring has a record of it.
pub(super) fn beside_rings(one: &Waiting) -> Parsed<'static> {
    let detail = match one.ring {
        GAP_BEGIN => Detail::GapBegin,
        GAP_END => Detail::GapEnd,
        _ => Detail::Lost { count: one.position },
    };
    Parsed {
        time: one.time,
        cpu: 0,
        process: 0,
        thread: 0,
        stack: Stack::default(),
        user: None,
        detail: PerfDetail::Neutral(detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 1 << 14;

    fn look(room: &mut Room, position: u64, time: u64) {
        let mut record = vec![0; sample::REST];
        record[sample::TIME..].copy_from_slice(&time.to_le_bytes());
        room.look(position, &record);
        room.look(position, &record[..sample::REST - 1]);
    }

    /// OV-23: a gap begins behind the last record with room behind it, and ends when there is room again.
    #[test]
    fn a_gap_lies_where_the_ring_was_full() {
        let mut room = Room::of(0, SIZE);
        look(&mut room, 0, 10);
        look(&mut room, (SIZE / 2) as u64, 20);
        look(&mut room, SIZE as u64 - LARGEST, 30);
        room.looked((0, 0));
        assert_eq!(room.take_gaps(), []);
        let before = now();
        room.grows(SIZE as u64, SIZE, (0, 5));
        let behind = now();
        // Another one that fitted, and one that was written behind the gap.
        look(&mut room, SIZE as u64 - 100, 31);
        look(&mut room, SIZE as u64, 40);
        room.looked((0, 5));
        let gaps = room.take_gaps();
        let [Gap { from: 20, until }] = gaps[..] else { panic!("{gaps:?}") };
        assert!((before..=behind).contains(&until));
        // It is full again, and stays so.
        room.looked((5, 6));
        let [Gap { from: 40, until }] = room.take_gaps()[..] else { panic!() };
        assert!(until >= behind);
        assert!(Gap { from: 20, until: 40 }.is_between(40, 50));
        assert!(!Gap { from: 20, until: 40 }.is_between(41, 50));
    }
}
