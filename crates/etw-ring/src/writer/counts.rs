//! The writers' counts: attempts, losses by cause and by registration, sequence numbers of lost attempts.

use std::sync::atomic::Ordering;

use super::Writer;
use super::line::{Counters, Line};
use super::thread::ThreadState;
use crate::layout::*;

impl Writer {
    pub(super) fn counters(&self, thread: Option<&ThreadState>) -> Option<&Counters> {
        let thread = thread?;
        self.line(thread)?;
        // SAFETY: set together with `line`.
        unsafe { thread.counters.get().as_ref() }
    }

    pub(super) fn attempted(&self, thread: Option<&ThreadState>, sessions: u8) {
        let own = thread.and_then(|thread| Some((thread, self.line(thread)?)));
        match own.zip(self.counters(thread)) {
            Some(((thread, line), counters)) => count_attempt(thread, line, counters, sessions),
            None => {
                for slot in bits(sessions) {
                    let at = P_SHARED_ATTEMPTED + slot * 8;
                    self.first().word(at).fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Takes a sequence number for a lost attempt, so that the host finds the gap.
    pub(super) fn skip_sequence(&self, thread: Option<&ThreadState>) {
        match thread.and_then(|t| self.line(t)) {
            Some(line) => {
                line.seq.store(line.seq.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed)
            }
            None => {
                self.first().half(P_SHARED_SEQ).fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn lost(
        &self,
        thread: Option<&ThreadState>,
        registration: u32,
        cause: Cause,
        sessions: u8,
    ) {
        // The thread's own count must be exact, so it comes first.
        for slot in bits(sessions) {
            match self.counters(thread) {
                Some(counters) => {
                    let count = &counters.lost[cause as usize][slot];
                    let value = count.load(Ordering::Relaxed).wrapping_add(1);
                    count.store(value, Ordering::Relaxed);
                }
                None => {
                    let at = P_SHARED_LOST + (cause as usize * SESSIONS + slot) * 8;
                    self.first().word(at).fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        self.blame(registration, cause, sessions);
    }

    /// Counts the loss for its registration. If many registrations share an entry of the table, the losses of the last ones are not
    /// attributed.
    fn blame(&self, registration: u32, cause: Cause, sessions: u8) {
        // Registration 0 is none, and marks unused entries.
        for probe in 0..if registration == 0 { 0 } else { 8 } {
            let entry = registration.wrapping_add(probe) as usize % BLAME_ENTRIES;
            let at = P_BLAME + entry * BLAME_SIZE;
            let owner = self.first().half(at);
            let taken =
                owner.compare_exchange(0, registration, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() || taken == Err(registration) {
                for slot in bits(sessions) {
                    let count = at + BLAME_COUNTS + (cause as usize * SESSIONS + slot) * 4;
                    self.first().half(count).fetch_add(1, Ordering::Relaxed);
                }
                return;
            }
        }
    }
}

/// [`count_attempt`] for a mask that the thread has used, as nearly every write does. `false`: nothing happened. Plain loads and stores: the
/// owner is the only writer, and a signal handler on its thread uses other counters.
#[inline(always)]
pub(super) fn try_count_attempt(thread: &ThreadState, line: &Line, sessions: u8) -> bool {
    if sessions == 0 {
        // An unused word has the mask 0.
        return false;
    }
    // The masks are also in the thread's state: to take one out of its word takes two registers more, which had to be saved.
    for (count, mask) in line.together.iter().zip(&thread.masks) {
        if mask.get() == sessions {
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return true;
        }
        etw_types::cold_path();
    }
    false
}

/// Counts an attempt by the mask of its sessions, while there are few masks: a thread's events mostly go to the same sessions.
#[inline(never)]
pub(super) fn count_attempt(thread: &ThreadState, line: &Line, counters: &Counters, sessions: u8) {
    let mask = u64::from(sessions) << TOGETHER_COUNT_BITS;
    for (count, known) in line.together.iter().zip(&thread.masks) {
        let word = count.load(Ordering::Relaxed);
        if word == 0 || word >> TOGETHER_COUNT_BITS == u64::from(sessions) {
            known.set(sessions);
            return count.store((word | mask) + 1, Ordering::Relaxed);
        }
    }
    for (slot, count) in counters.attempted.iter().enumerate() {
        let by = u64::from(sessions >> slot & 1);
        count.store(count.load(Ordering::Relaxed) + by, Ordering::Relaxed);
    }
}

pub(super) fn bits(mask: u8) -> impl Iterator<Item = usize> {
    (0..SESSIONS).filter(move |slot| mask & 1 << slot != 0)
}
