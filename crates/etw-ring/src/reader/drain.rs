//! How to drain, and what a drain did.

use std::time::Duration;

/// How to drain.
#[derive(Default)]
pub struct DrainOptions<'a> {
    /// How long this call may wait for writes in flight. Zero: it takes what lies before the oldest of them, and a writer
    /// that stands still for [`PATIENCE`](crate::PATIENCE) is passed over by later calls.
    pub patience: Duration,
    /// The provider's process is gone: nothing is in flight, whatever its memory says.
    pub ended: bool,
    /// Instead of the time now: for a pool found in a file, whose clock may be another boot's.
    pub until: Option<u64>,
    /// Take chunks back from threads that have not written for so long.
    pub reclaim_idle: Option<Duration>,
    /// Does this thread of the provider (id as in its namespace) still run?
    pub alive: Option<&'a dyn Fn(u32) -> bool>,
}

/// What one drain did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Records given to the sink.
    pub records: u64,
    /// Every record with a time below this one has been given to the sink or counted as late.
    pub watermark: u64,
    /// Records that came after their time had been passed, dropped.
    pub late: u64,
    /// Places where the memory cannot be what our writer makes: bytes after them, up to the committed offset, were
    /// skipped.
    pub hostile: u64,
    /// Writes in flight that were not waited for any longer.
    pub given_up: u64,
    /// Chunks whose owner is gone with a write begun and not committed.
    pub torn: u64,
    /// The kernel refused the barrier: the watermark is a guess.
    pub no_barrier: bool,
    /// The sink had no room: there is more.
    pub stopped: bool,
    /// There are records that were not given out: behind the watermark, or because the sink had no room.
    pub is_rest: bool,
    /// Bytes of pool that the records took.
    pub size: u64,
}
