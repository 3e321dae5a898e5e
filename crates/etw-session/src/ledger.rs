//! The ledger of a session: where every event went, and the causes of losses.

use std::collections::BTreeMap;
use std::fmt;

use etw_types::Guid;

/// Why a wanted event was not stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
#[doc(alias = "LossCause")]
pub enum Cause {
    /// The writer's pool had no free chunk (status 8).
    NoChunk,
    /// The session had no free buffer, or its file was full (status 8).
    SessionFull,
    /// The event is larger than an ETW event can be (status 534).
    TooLarge,
    /// The event is larger than a buffer of the session (status 234).
    TooLargeForSession,
    /// Another session had no free buffer, and the event goes to all sessions or none.
    AllOrNone,
    /// The event was committed after the watermark had passed its time.
    Late,
    /// The buffer could not be written to its file.
    Disk,
    /// The pool contained bytes that no writer of this project makes.
    Hostile,
    /// The writer abandoned the event after it had reserved space.
    Abandoned,
    /// The kernel had no room for an event of the system in its ring.
    Kernel,
    /// A cause that this version does not know, in the report of a later one.
    #[default]
    Other,
}

impl Cause {
    /// The causes that a ledger counts, in the order of their numbers.
    pub const ALL: [Cause; 10] = [
        Cause::NoChunk,
        Cause::SessionFull,
        Cause::TooLarge,
        Cause::TooLargeForSession,
        Cause::AllOrNone,
        Cause::Late,
        Cause::Disk,
        Cause::Hostile,
        Cause::Abandoned,
        Cause::Kernel,
    ];

    /// The cause's name in reports, messages and JSON.
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
            Cause::Kernel => "kernel",
            Cause::Other => "other",
        }
    }

    /// The cause of a name; `Other` for names that this version does not know.
    pub fn of_name(name: &str) -> Cause {
        Cause::ALL.into_iter().find(|cause| cause.name() == name).unwrap_or(Cause::Other)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Cause {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Cause {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Cause, D::Error> {
        let name = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Ok(Cause::of_name(&name))
    }
}

/// Lost events with one cause and origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Loss {
    /// Why the events were lost.
    pub cause: Cause,
    /// The provider, if it is known.
    pub provider: Option<Guid>,
    /// The process, if it is known.
    #[cfg_attr(feature = "serde", serde(rename = "pid"))]
    pub process_id: Option<u32>,
    /// Number of events.
    pub count: u64,
}

/// Pairs of provider and process whose losses are counted apart; further losses are counted by cause only.
const MAX_ORIGINS: usize = 4096;

/// The counts of a session's events: attempted = stored + overwritten + filtered + Σ lost.
///
/// An event is *stored* once it is in a buffer. Later its buffer can move it: to `overwritten` if newer events replace the buffer, to
/// `Disk` if the buffer cannot be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Events that programs attempted to write to the session.
    pub attempted: u64,
    /// Events in buffers or files.
    pub stored: u64,
    /// Events that were stored and then replaced by newer ones.
    pub overwritten: u64,
    /// Events that the session's filters rejected.
    pub filtered: u64,
    lost: [u64; Cause::ALL.len()],
    origins: BTreeMap<(Cause, Option<Guid>, Option<u32>), u64>,
}

impl Ledger {
    /// Losses of one cause.
    pub fn lost(&self, cause: Cause) -> u64 {
        self.lost.get(cause as usize).copied().unwrap_or(0)
    }

    /// Events that were in buffers which the session has handed out or has in memory.
    pub(crate) fn handed_out(&self) -> u64 {
        self.stored + self.overwritten + self.lost(Cause::Disk)
    }

    /// All losses.
    pub fn lost_total(&self) -> u64 {
        self.lost.iter().sum()
    }

    /// Losses by cause, provider and process. Their sum is [`lost_total`](Ledger::lost_total).
    pub fn losses(&self) -> impl Iterator<Item = Loss> + '_ {
        self.origins.iter().map(|(&(cause, provider, process_id), &count)| Loss {
            cause,
            provider,
            process_id,
            count,
        })
    }

    /// Counts losses.
    pub fn count_lost(&mut self, loss: Loss) {
        let Loss { cause, provider, process_id, count } = loss;
        let Some(lost) = self.lost.get_mut(cause as usize).filter(|_| count > 0) else { return };
        *lost += count;
        let mut origin = (cause, provider, process_id);
        if self.origins.len() >= MAX_ORIGINS && !self.origins.contains_key(&origin) {
            origin = (cause, None, None);
        }
        *self.origins.entry(origin).or_default() += count;
    }

    /// Moves stored events to `overwritten`: newer ones have replaced them.
    pub fn overwrite(&mut self, count: u64) {
        let count = count.min(self.stored);
        self.stored -= count;
        self.overwritten += count;
    }

    /// Whether every attempted event is counted once.
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
    fn origins_are_bounded_and_their_sum_is_exact() {
        let mut ledger = Ledger::default();
        for n in 0..10_000u32 {
            ledger.attempted += 2;
            ledger.count_lost(Loss {
                cause: Cause::Late,
                provider: Some(Guid::from_u128(u128::from(n))),
                process_id: Some(n),
                count: 2,
            });
        }
        assert!(ledger.is_balanced());
        assert_eq!(ledger.losses().count(), MAX_ORIGINS + 1);
        assert_eq!(ledger.lost(Cause::Late), 20_000);
        ledger.stored += 1;
        assert!(!ledger.is_balanced());
    }

    #[test]
    fn causes_have_distinct_names() {
        for cause in Cause::ALL {
            assert_eq!(Cause::of_name(cause.name()), cause);
        }
        assert_eq!(Cause::of_name("sunspots"), Cause::Other);
    }
}
