//! Gaps: where a stream of the system's events lacks some that the session could not store, it has a mark.

use super::Session;
use crate::event::Event;
use crate::loss_mark::{LOSS_MARK_SIZE, LossMark};

impl<B: AsRef<[u8]> + AsMut<[u8]>> Session<B> {
    /// The stream of an event lacks it. In a session of the system's events, its mark comes behind the events before, now or with the stream's next buffer; a gap has one.
    pub(super) fn mark_gap(&mut self, event: &Event<'_>) {
        if !self.settings.marks_gaps {
            return;
        }
        let index = if self.settings.per_processor { usize::from(event.cpu) } else { 0 };
        let time = self.settings.host.clock.of(event.time, event.raw);
        match self.open.get(index) {
            Some(Some(buffer)) if buffer.filled == buffer.mark_end => {}
            Some(Some(buffer)) if buffer.has_room(LOSS_MARK_SIZE) => self.put_mark(index, time),
            _ => {
                if self.gaps.len() <= index {
                    self.gaps.resize(index + 1, None);
                }
                self.gaps[index].get_or_insert(time);
            }
        }
    }

    /// Marks the gap before a buffer that was begun for a record of `size` bytes, if both have room in it.
    pub(super) fn mark_begun(&mut self, index: usize, size: usize) {
        let Some(gap) = self.gaps.get_mut(index).filter(|gap| gap.is_some()) else { return };
        if self.open[index].as_ref().is_some_and(|one| one.has_room(LOSS_MARK_SIZE + size)) {
            if let Some(time) = gap.take() {
                self.put_mark(index, time);
            }
        }
    }

    fn put_mark(&mut self, index: usize, time: i64) {
        let Some(Some(buffer)) = self.open.get_mut(index) else { return };
        // Programs may set the times of their events.
        let time = time.max(buffer.last_time);
        let Some(room) = buffer.room(LOSS_MARK_SIZE) else { return };
        room.copy_from_slice(&LossMark::Events.record(time));
        self.facts.stored(buffer, LOSS_MARK_SIZE, time);
        buffer.reports += 1;
        buffer.mark_end = buffer.filled;
    }
}
