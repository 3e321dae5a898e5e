//! The options of a drain, and its result.

use std::time::Duration;

/// The options of a drain.
#[derive(Default)]
pub struct DrainOptions<'a> {
    /// How long this call may wait for writes in flight. Zero: it drains the records before the oldest of them; later calls pass over
    /// a writer that has been in flight for [`PATIENCE`](super::PATIENCE).
    pub patience: Duration,
    /// The provider's process has ended: nothing is in flight, whatever its memory claims.
    pub ended: bool,
    /// The time of the drain in place of now: for a pool in a file, whose clock may be that of another boot.
    pub until: Option<u64>,
    /// Revoke chunks of threads that have not written for so long.
    pub reclaim_idle: Option<Duration>,
    /// Whether a thread of the provider (by its id in the provider's namespace) still runs.
    pub alive: Option<&'a dyn Fn(u32) -> bool>,
    /// Whether a thread of the provider (by its id in the provider's namespace) has work to do: it runs or waits for a processor. A
    /// write of such a thread is passed over after [`BUSY_PATIENCE`](super::BUSY_PATIENCE).
    pub busy: Option<&'a dyn Fn(u32) -> bool>,
}

/// The result of a drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// The number of records given to the sink.
    pub records: u64,
    /// Every record with an earlier time has been given to the sink or counted as late.
    pub watermark: u64,
    /// Late records: committed after the watermark had passed their time, and dropped.
    pub late: u64,
    /// Positions where the memory differs from anything that a writer of this crate makes. The bytes from there to the committed
    /// offset were skipped.
    pub hostile: u64,
    /// Writes in flight that the drain stopped waiting for.
    pub given_up: u64,
    /// Chunks whose owner ended in the middle of a write.
    pub torn: u64,
    /// The kernel refused the barrier, so the watermark is not proven.
    pub no_barrier: bool,
    /// The sink refused a record: there are more.
    pub stopped: bool,
    /// There are records that the sink did not get: above the watermark, or because it refused one.
    pub is_rest: bool,
    /// The bytes of pool that the records took.
    pub size: u64,
}
