//! The losses of a recording: those that the kernel counts, and what nobody saw.

use etw_types::SYSTEM_TRACE;

use super::rundown::Giver;
use super::{CSWITCH, PROCESS_START, Recorder, THREAD_START, class_of};
use crate::neutral::Detail;
use crate::perf::ClassLosses;
use crate::shaper::{Turn, Vanished};

/// Losses that the kernel counts, and losses that the trace itself shows, such as a switch without the one before it. Both may be of the same
/// events: as many are lost as the larger number says, at least.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TwoCounts {
    of_kernel: u64,
    shown: u64,
}

impl TwoCounts {
    fn both(self) -> u64 {
        self.of_kernel.max(self.shown)
    }

    /// The kernel has counted so many more. Returns how many of them are new.
    fn counted(&mut self, count: u64) -> u64 {
        let before = self.both();
        self.of_kernel += count;
        self.both() - before
    }

    /// The trace shows so many more. Returns how many of them are new.
    fn shown(&mut self, count: u64) -> u64 {
        let before = self.both();
        self.shown += count;
        self.both() - before
    }
}

impl Recorder {
    /// Events for which the rings were full, or which the kernel left out, since the last call. The class of a loss is
    /// `SYSTEM_TRACE` if it is not known.
    pub fn take_losses(&mut self) -> ClassLosses {
        self.count_gaps();
        self.count_unseen();
        let losses = std::mem::take(&mut self.losses);
        if losses.total() > 0 {
            self.tell();
        }
        losses
    }

    /// Counts the threads that ran and whose beginnings nobody saw, and those that ended unseen, as far as the kernel has not counted their
    /// records as lost.
    fn count_unseen(&mut self) {
        let unseen = self.shaper.take_unseen();
        let Vanished { threads, processes } = self.shaper.take_vanished();
        if unseen + threads + processes == 0 {
            return;
        }
        self.count_losses(false);
        self.losses.add(class_of(PROCESS_START), self.lives.shown(processes));
        self.losses.add(class_of(THREAD_START), self.lives.shown(unseen + threads));
    }

    /// Counts the switches that are missing in the chains of CPUs, as far as the kernel has not counted them as lost.
    fn count_gaps(&mut self) {
        if let gaps @ 1.. = self.shaper.take_gaps() {
            self.count_losses(false);
            self.losses.add(class_of(CSWITCH), self.switches.shown(gaps));
        }
    }

    /// Adds losses of which only the number is known.
    pub(super) fn add_unknown(&mut self, count: u64) {
        self.losses.add(SYSTEM_TRACE, count);
        self.lives.counted(count);
        self.switches.counted(count);
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
            self.add_unknown(lost);
        }
        self.unmarked = self.unmarked.saturating_sub(lost);
    }

    /// Counts the losses that the process before did not tell: those whose records are in the rings, and those that have none yet.
    pub(super) fn continue_count(&mut self) {
        let of_records = self.perf.take_lost();
        if let Some(told) = &self.told {
            (self.known_losses, self.missing_before) = (told.get(), told.missing());
            if self.count_losses(false).is_some() {
                self.unmarked = self.unmarked.saturating_sub(of_records);
                return;
            }
        }
        self.known_losses =
            self.perf.counted_losses(self.target, self.call_events, false).unwrap_or_default();
        // The earlier process may not have counted those whose records are in the rings. Their classes are not known.
        self.add_unknown(of_records);
    }

    /// Adds what the kernel's counters have counted since the last call. Returns the number; `None`: it does not count.
    pub(super) fn count_losses(&mut self, is_over: bool) -> Option<u64> {
        let counted = self.perf.counted_losses(self.target, self.call_events, is_over)?;
        let new = counted.since(&self.known_losses);
        for (class, count) in new.iter() {
            let known = match class {
                class if class == class_of(PROCESS_START) => self.lives.counted(count),
                class if class == class_of(CSWITCH) => self.switches.counted(count),
                _ => count,
            };
            self.losses.add(class, known);
        }
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

#[cfg(test)]
mod tests {
    use super::TwoCounts;

    /// Two counts of losses may be of the same events.
    #[test]
    fn as_many_are_lost_as_the_larger_count_says() {
        let mut counts = TwoCounts::default();
        assert_eq!([counts.shown(2), counts.counted(1), counts.counted(4)], [2, 0, 3]);
        assert_eq!([counts.shown(3), counts.shown(1), counts.counted(1)], [0, 1, 0]);
    }
}
