//! A thread's line and counters, as they lie in the pool.

use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::layout::*;

/// A thread's line in the pool.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Line {
    pub(super) head: AtomicU64,
    /// The start of the write in flight, or of an earlier one.
    pub(super) since: AtomicU64,
    /// Thread id, and above it how often the slot changed hands.
    pub(super) owner: AtomicU64,
    /// Sequence number of the next attempt.
    pub(super) seq: AtomicU32,
    pub(super) _unused: u32,
    /// Attempts for several sessions at once: their mask in the upper eight bits, 0 while unused, and below it how many.
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
