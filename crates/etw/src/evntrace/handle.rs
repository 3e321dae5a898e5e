//! Handles of classic registrations and of their sessions.

use etw_types::LevelKeyword;

/// The number of classic registrations that a process can have at a time.
pub const MAX_REGISTRATIONS: usize = 1024;

/// A registration: the number of its entry in the low 48 bits, and above them how often that entry has been used.
#[doc(alias = "TRACEHANDLE")]
#[doc(alias = "TRACEGUID_HANDLE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceHandle(pub u64);

/// A session, as one provider knows it. The handle stays the same while the session has the provider, whatever level and flags it
/// asks for.
///
/// ```text
/// 0 u16, 3 u8: which registration, and which of its sessions    2 u8 level    4 u32 flags
/// ```
///
/// Level and flags are those with which the session took the provider, at the offsets of Microsoft's `TRACE_ENABLE_CONTEXT`;
/// [`enable_info`](super::enable_info) returns the current ones. Session numbers count to 8191 over all providers, then repeat.
#[doc(alias = "TRACELOGGER_HANDLE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoggerHandle(pub u64);

/// The registration's entry, counted from 1: the low bits of the 24 that identify a registration and its session.
const ENTRY_BITS: u32 = 11;

const _: () = assert!(MAX_REGISTRATIONS < 1 << ENTRY_BITS);

const _: () = assert!((crate::provider::MAX_SERIAL as u64) << ENTRY_BITS < 1 << 24);

impl LoggerHandle {
    pub(super) fn new(index: usize, serial: u32, wanted: &LevelKeyword) -> LoggerHandle {
        let id = (index as u64 + 1) | u64::from(serial) << ENTRY_BITS;
        let flags = wanted.any.0 as u32;
        LoggerHandle(
            id & 0xffff | u64::from(wanted.level.0) << 16 | id >> 16 << 24 | u64::from(flags) << 32,
        )
    }

    /// The entry and the session's number.
    pub(super) fn parts(self) -> (usize, u32) {
        let id = self.0 & 0xffff | (self.0 >> 24 & 0xff) << 16;
        let place = (id & ((1 << ENTRY_BITS) - 1)) as usize;
        (place.wrapping_sub(1), (id >> ENTRY_BITS) as u32)
    }
}
