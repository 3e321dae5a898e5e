//! Gaps: where a stream of the system's events lacks some that the session could not store, it has a mark.

use etw_types::BufferHeader;

use super::Session;
use crate::buffer::{FullBuffer, HEADER_SIZE};
use crate::event::Event;
use crate::loss_mark::{LOSS_MARK_SIZE, LossMark};
use crate::recover::own_records;
use crate::state;

/// A gap in the stream of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The time of the first event that is missing, or a later one at which the stream has no event.
    pub time: i64,
    pub mark: LossMark,
}

impl Gap {
    /// One gap for two that no event separates.
    fn and(self, other: Gap) -> Gap {
        let mark = if self.mark == other.mark { self.mark } else { LossMark::Buffers };
        Gap { time: self.time.min(other.time), mark }
    }
}

/// The entry of a CPU.
fn of_cpu(gaps: &mut Vec<Option<Gap>>, cpu: usize) -> &mut Option<Gap> {
    if gaps.len() <= cpu {
        gaps.resize(cpu + 1, None);
    }
    &mut gaps[cpu]
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Session<B> {
    /// The stream of an event lacks it. In a session of the system's events, its mark comes behind the events before, now or with the stream's next buffer; a gap has one.
    pub(super) fn mark_gap(&mut self, event: &Event<'_>) {
        if !self.settings.marks_gaps {
            return;
        }
        let index = if self.settings.per_processor { usize::from(event.cpu) } else { 0 };
        let time = self.settings.host.clock.of(event.time, event.raw);
        let gap = Gap { time, mark: LossMark::Events };
        match self.open.get(index) {
            Some(Some(buffer)) if buffer.filled == buffer.mark_end => {}
            Some(Some(buffer)) if buffer.has_room(LOSS_MARK_SIZE) => self.put_mark(index, gap),
            _ => {
                of_cpu(&mut self.gaps, index).get_or_insert(gap);
            }
        }
    }

    /// Marks the gap before a buffer that was begun for a record of `size` bytes, if both have room in it.
    pub(super) fn mark_begun(&mut self, index: usize, size: usize) {
        let Some(gap) = self.gaps.get_mut(index).filter(|gap| gap.is_some()) else { return };
        if self.open[index].as_ref().is_some_and(|one| one.has_room(LOSS_MARK_SIZE + size)) {
            if let Some(gap) = gap.take() {
                self.put_mark(index, gap);
            }
        }
    }

    fn put_mark(&mut self, index: usize, Gap { time, mark }: Gap) {
        let Some(Some(buffer)) = self.open.get_mut(index) else { return };
        // Programs may set the times of their events.
        let time = time.max(buffer.last_time);
        let Some(room) = buffer.room(LOSS_MARK_SIZE) else { return };
        room.copy_from_slice(&mark.record(time));
        self.facts.stored(buffer, LOSS_MARK_SIZE, time);
        buffer.reports += 1;
        buffer.mark_end = buffer.filled;
    }

    /// A mark that had no room in a closed buffer comes behind it.
    pub(super) fn move_gap_behind(&mut self, index: usize, last_time: i64) {
        if let Some(Some(gap)) = self.gaps.get_mut(index) {
            gap.time = gap.time.max(last_time);
        }
    }

    /// The file did not take a buffer. It gets the mark itself when it takes buffers again; if the host is killed before, the stream gets it.
    pub(super) fn remember_lost(&mut self, full: &FullBuffer<B>) {
        if full.leaves_mark() {
            let gap = Gap { time: full.buffer.first_time, mark: LossMark::Buffers };
            of_cpu(&mut self.lost_buffers, full.buffer.cpu.into()).get_or_insert(gap);
            self.save_lost_buffers();
        }
    }

    /// The file has taken a buffer, and before it the marks of those that were lost.
    pub(super) fn forget_lost(&mut self) {
        if !self.lost_buffers.is_empty() {
            self.lost_buffers.clear();
            self.save_lost_buffers();
        }
    }

    fn save_lost_buffers(&mut self) {
        if let Some(memory) = &mut self.state_memory {
            state::save_lost_buffers(memory.as_mut(), &self.lost_buffers);
        }
    }

    /// The buffer, which was on its way to its file when the host was killed, was not stored by the next host either.
    pub fn mark_not_stored_again(&mut self, buffer: &[u8]) {
        let records = buffer.get(HEADER_SIZE..).unwrap_or_default();
        let first = own_records(records).next();
        if let (Some(cpu), Some((_, time))) = (BufferHeader::PROCESSOR.get(buffer), first) {
            self.restore_gap(cpu.into(), Gap { time, mark: LossMark::Buffers });
        }
    }

    /// Continues a gap that has no mark yet, behind the buffers that are left of its stream.
    pub(crate) fn restore_gap(&mut self, cpu: usize, gap: Gap) {
        if !self.settings.marks_gaps {
            return;
        }
        let left = self.full.iter().filter(|buffer| usize::from(buffer.cpu) == cpu);
        let last = left.map(|buffer| buffer.last_time).max().unwrap_or(i64::MIN);
        let known = of_cpu(&mut self.gaps, cpu);
        let all = known.map_or(gap, |known| known.and(gap));
        *known = Some(Gap { time: all.time.max(last), ..all });
    }
}
