//! The writers' counts as the host reads them, and the gaps that it finds itself.

use super::Reader;
use super::record::{le32, le64};
use crate::layout::*;

/// The writers' own counts, which are their claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Attempted writes by session slot.
    pub attempted: [u64; SESSIONS],
    /// Losses by cause and session slot. Each thread's counters have 32 bits.
    pub lost: [[u64; SESSIONS]; CAUSES],
}

impl Ledger {
    /// Losses of one cause in one session slot.
    pub fn lost(&self, cause: Cause, slot: usize) -> u64 {
        self.lost[cause as usize][slot]
    }

    /// Losses of a session slot.
    pub fn lost_total(&self, slot: usize) -> u64 {
        self.lost.iter().map(|by_slot| by_slot[slot]).sum()
    }
}

/// The losses of one registration, by its writers' claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrationLosses {
    /// The registration's number in records.
    pub registration: u32,
    /// Losses by cause and session slot; the counters have 32 bits and wrap.
    pub lost: [[u32; SESSIONS]; CAUSES],
}

impl Reader {
    /// The writers' counters, by their claim.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::default();
        let source = &self.segments[0].source;
        let mut shared = [0; SESSIONS * 8 * (1 + CAUSES)];
        source.read(P_SHARED_ATTEMPTED, &mut shared);
        let mut words =
            shared.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap_or_default()));
        for slot in 0..SESSIONS {
            ledger.attempted[slot] = words.next().unwrap_or(0);
        }
        for cause in 0..CAUSES {
            for slot in 0..SESSIONS {
                ledger.lost[cause][slot] = words.next().unwrap_or(0);
            }
        }
        let mut counters = vec![0; self.slots() * COUNTERS_SIZE];
        source.read(P_COUNTERS, &mut counters);
        for counters in counters.chunks_exact(COUNTERS_SIZE) {
            for slot in 0..SESSIONS {
                let claimed = le64(counters, slot * 8);
                ledger.attempted[slot] = ledger.attempted[slot].wrapping_add(claimed);
                for cause in 0..CAUSES {
                    let at = SESSIONS * 8 + (cause * SESSIONS + slot) * 4;
                    let claimed = u64::from(le32(counters, at));
                    ledger.lost[cause][slot] = ledger.lost[cause][slot].wrapping_add(claimed);
                }
            }
        }
        let mut lines = vec![0; self.slots() * LINE_SIZE];
        source.read(P_LINES, &mut lines);
        for word in lines
            .chunks_exact(LINE_SIZE)
            .flat_map(|line| (0..TOGETHER).map(|n| le64(line, LINE_TOGETHER + n * 8)))
        {
            let (sessions, count) =
                (word >> TOGETHER_COUNT_BITS, word & ((1 << TOGETHER_COUNT_BITS) - 1));
            for slot in (0..SESSIONS).filter(|slot| sessions & 1 << slot != 0) {
                ledger.attempted[slot] = ledger.attempted[slot].wrapping_add(count);
            }
        }
        ledger
    }

    /// The losses of [`ledger`](Self::ledger) by registration, as far as they are known: for at most 256 registrations. A writer that was
    /// killed may have counted one loss there and not here.
    pub fn losses_by_registration(&self) -> Vec<RegistrationLosses> {
        let mut table = vec![0; BLAME_ENTRIES * BLAME_SIZE];
        self.segments[0].source.read(P_BLAME, &mut table);
        let entries = table.chunks_exact(BLAME_SIZE).filter(|entry| le32(entry, 0) != 0);
        let read = |entry: &[u8]| {
            let count = |cause: usize, slot: usize| {
                le32(entry, BLAME_COUNTS + (cause * SESSIONS + slot) * 4)
            };
            RegistrationLosses {
                registration: le32(entry, 0),
                lost: std::array::from_fn(|cause| std::array::from_fn(|slot| count(cause, slot))),
            }
        };
        entries.map(read).collect()
    }

    /// Attempts that are not in the pool, as missing sequence numbers between drained records prove.
    pub fn gaps(&self) -> u64 {
        let shared = match self.shared_span {
            Some((first, last)) => {
                (u64::from(last.wrapping_sub(first)) + 1).saturating_sub(self.shared_seen)
            }
            None => 0,
        };
        self.gaps + shared
    }
}
