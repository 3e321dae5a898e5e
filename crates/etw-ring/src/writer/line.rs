//! A thread's line and counters, as they lie in the pool.

use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::layout::*;

/// A thread's line in the pool.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Line {
    pub(super) head: AtomicU64,
    /// The time of the write in flight, or of an earlier one.
    pub(super) since: AtomicU64,
    /// The thread id in the low half; in the high half, how often the slot had a new owner.
    pub(super) owner: AtomicU64,
    /// The sequence number of the next attempt.
    pub(super) seq: AtomicU32,
    pub(super) _unused: u32,
    /// Counts of attempts by the mask of their sessions: the mask in the upper eight bits (0 while unused), the count below.
    pub(super) together: [AtomicU64; TOGETHER],
}

const _: () = assert!(
    size_of::<Line>() == LINE_SIZE && std::mem::offset_of!(Line, together) == LINE_TOGETHER
);

#[derive(Debug)]
#[repr(C)]
pub(super) struct Counters {
    pub(super) attempted: [AtomicU64; SESSIONS],
    pub(super) lost: [[AtomicU32; SESSIONS]; CAUSES],
}
