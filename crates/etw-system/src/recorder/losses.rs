//! The losses of a recording: those that the kernel counts, and what nobody saw.

use etw_types::SYSTEM_TRACE;

use super::rundown::Giver;
use super::{CSWITCH, PROCESS_START, Recorder, THREAD_START, class_of};
use crate::neutral::Detail;
use crate::perf::ClassLosses;
use crate::shaper::Turn;

impl Recorder {
    /// Events for which the rings were full, or which the kernel left out, since the last call. The class of a loss is
    /// `SYSTEM_TRACE` if it is not known.
    pub fn take_losses(&mut self) -> ClassLosses {
        self.losses.add(class_of(CSWITCH), self.shaper.take_gaps());
        self.count_unseen();
        let losses = std::mem::take(&mut self.losses);
        if losses.total() > 0 {
            self.tell();
        }
        losses
    }

    /// Counts the threads that ran and whose beginnings nobody saw, as far as the kernel has not counted their records as lost.
    fn count_unseen(&mut self) {
        let unseen = self.shaper.take_unseen();
        if unseen == 0 {
            return;
        }
        self.unseen += unseen;
        self.count_losses(false);
        let new = self.unseen.saturating_sub(self.lost_beginnings);
        self.losses.add(class_of(THREAD_START), new);
        self.lost_beginnings += new;
    }

    /// The next process knows that the ledger has all losses that are counted.
    pub(super) fn tell(&self) {
        if let Some(told) = &self.told {
            told.set(&self.known_losses);
        }
    }

    /// Counts the losses of which the rings have records.
    pub(super) fn count_lost_records(&mut self) {
        let lost = self.perf.take_lost();
        if lost > 0 && self.count_losses(false).is_none() {
            self.losses.add(SYSTEM_TRACE, lost);
            self.lost_beginnings += lost;
        }
        self.unmarked = self.unmarked.saturating_sub(lost);
    }

    /// Counts the losses that the process before did not tell: those whose records are in the rings, and those that have none yet.
    pub(super) fn continue_count(&mut self) {
        let of_records = self.perf.take_lost();
        if let Some(told) = &self.told {
            self.known_losses = told.get();
            if self.count_losses(false).is_some() {
                self.unmarked = self.unmarked.saturating_sub(of_records);
                return;
            }
        }
        self.known_losses =
            self.perf.counted_losses(self.target, self.call_events, false).unwrap_or_default();
        // The earlier process may not have counted those whose records are in the rings. Their classes are not known.
        self.losses.add(SYSTEM_TRACE, of_records);
        self.lost_beginnings += of_records;
    }

    /// Adds what the kernel's counters have counted since the last call. Returns the number; `None`: it does not count.
    pub(super) fn count_losses(&mut self, is_over: bool) -> Option<u64> {
        let counted = self.perf.counted_losses(self.target, self.call_events, is_over)?;
        let new = counted.since(&self.known_losses);
        self.lost_beginnings += new.of(class_of(PROCESS_START));
        self.losses.add_all(&new);
        self.known_losses.add_all(&new);
        self.unmarked += new.total();
        Some(new.total())
    }

    /// Adds the losses behind the last records of the rings.
    pub(super) fn add_last_losses(&mut self, turn: Turn) {
        self.count_losses(true);
        if let count @ 1.. = std::mem::take(&mut self.unmarked) {
            let Recorder { shaper, out, .. } = self;
            Giver { shaper, out, turn }.event(Detail::Lost { count });
            // They may have been any CPU's: a recorder that follows marks them on each.
            shaper.continues_trace();
        }
    }
}
