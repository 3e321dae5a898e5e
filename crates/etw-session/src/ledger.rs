use std::collections::BTreeMap;
use std::fmt;

use etw_types::Guid;

/// Why an event that was attempted is in no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Cause {
    /// The writer found no room in its pool (status 8).
    NoChunk,
    /// The session had no room (status 8).
    SessionFull,
    /// Larger than an ETW event can be (status 534).
    TooLarge,
    /// Larger than an event of this session can be (status 234).
    TooLargeForSession,
    /// Another session had no room, and the event goes to all or none.
    AllOrNone,
    /// Committed after its time had been passed.
    Late,
    /// The buffer could not be written to its file.
    Disk,
    /// Bytes that no writer of ours makes.
    Hostile,
    /// Given up by its writer in the middle.
    Abandoned,
}

impl Cause {
    /// All causes, in the order of their numbers.
    pub const ALL: [Cause; 9] = [
        Cause::NoChunk,
        Cause::SessionFull,
        Cause::TooLarge,
        Cause::TooLargeForSession,
        Cause::AllOrNone,
        Cause::Late,
        Cause::Disk,
        Cause::Hostile,
        Cause::Abandoned,
    ];

    /// As it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::NoChunk => "no chunk",
            Cause::SessionFull => "session full",
            Cause::TooLarge => "too large",
            Cause::TooLargeForSession => "too large for session",
            Cause::AllOrNone => "all or none",
            Cause::Late => "late",
            Cause::Disk => "disk",
            Cause::Hostile => "hostile",
            Cause::Abandoned => "abandoned",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Pairs of provider and process whose losses are told apart; what is beyond is told without them.
const MAX_ORIGINS: usize = 4096;

/// Where every event of a session went: attempted = stored + overwritten + filtered + Σ lost.
///
/// An event is *stored* once it is in a buffer. What happens to the buffer later moves it: to `overwritten` in a memory
/// session, to `Disk` where it cannot be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Events that the session was to get.
    pub attempted: u64,
    /// In buffers or files.
    pub stored: u64,
    /// Gone from a memory session for newer ones.
    pub overwritten: u64,
    /// Not wanted by the session's filters.
    pub filtered: u64,
    lost: [u64; Cause::ALL.len()],
    origins: BTreeMap<(Cause, Option<Guid>, Option<u32>), u64>,
}

impl Ledger {
    /// Losses of one cause.
    pub fn lost(&self, cause: Cause) -> u64 {
        self.lost[cause as usize]
    }

    /// All losses.
    pub fn lost_total(&self) -> u64 {
        self.lost.iter().sum()
    }

    /// Losses by cause, provider and process, as far as those are known. Their sum is [`lost_total`](Ledger::lost_total).
    pub fn losses(&self) -> impl Iterator<Item = (Cause, Option<Guid>, Option<u32>, u64)> + '_ {
        self.origins
            .iter()
            .map(|((cause, provider, process), count)| (*cause, *provider, *process, *count))
    }

    /// Counts losses; `provider` and `process` where they are known.
    pub fn count_lost(
        &mut self,
        cause: Cause,
        provider: Option<Guid>,
        process: Option<u32>,
        count: u64,
    ) {
        if count == 0 {
            return;
        }
        self.lost[cause as usize] += count;
        let mut origin = (cause, provider, process);
        if self.origins.len() >= MAX_ORIGINS && !self.origins.contains_key(&origin) {
            origin = (cause, None, None);
        }
        *self.origins.entry(origin).or_default() += count;
    }

    /// Does every attempted event have its place?
    pub fn is_balanced(&self) -> bool {
        let origins: u64 = self.origins.values().sum();
        self.attempted == self.stored + self.overwritten + self.filtered + self.lost_total()
            && origins == self.lost_total()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_bounded_and_sum_up() {
        let mut ledger = Ledger::default();
        for n in 0..10_000u32 {
            ledger.attempted += 2;
            ledger.count_lost(Cause::Late, Some(Guid::from_u128(u128::from(n))), Some(n), 2);
        }
        assert!(ledger.is_balanced());
        assert_eq!(ledger.losses().count(), MAX_ORIGINS + 1);
        assert_eq!(ledger.lost(Cause::Late), 20_000);
        ledger.stored += 1;
        assert!(!ledger.is_balanced());
    }
}
