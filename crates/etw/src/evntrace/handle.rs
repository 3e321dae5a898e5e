//! Handles of classic registrations and of their sessions.

use etw_types::LevelKeyword;

/// Classic registrations that a process may have at a time.
pub const MAX_REGISTRATIONS: usize = 1024;

/// A registration: the number of its place in the low 48 bits, and above it how often that place was used before.
#[doc(alias = "TRACEHANDLE")]
#[doc(alias = "TRACEGUID_HANDLE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceHandle(pub u64);

/// A session, as one provider knows it: the same for as long as the session has the provider, whatever else it asks for meanwhile.
///
/// ```text
/// 0 u16, 3 u8: which registration, and which of its sessions    2 u8 level    4 u32 flags
/// ```
///
/// Level and flags are those with which the session took the provider, where Microsoft's `TRACE_ENABLE_CONTEXT` has them; those that hold now
/// are told by [`enable_info`]. The sessions of all providers count up to 8191; then their numbers come again.
#[doc(alias = "TRACELOGGER_HANDLE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoggerHandle(pub u64);

/// The low bits of what tells a registration and its session, 24 in all: the registration's place, counted from 1.
const PLACE_BITS: u32 = 11;

const _: () = assert!(MAX_REGISTRATIONS < 1 << PLACE_BITS);

const _: () = assert!((crate::provider::MAX_SERIAL as u64) << PLACE_BITS < 1 << 24);

impl LoggerHandle {
    pub(super) fn new(index: usize, serial: u32, wanted: &LevelKeyword) -> LoggerHandle {
        let id = (index as u64 + 1) | u64::from(serial) << PLACE_BITS;
        let flags = wanted.any as u32;
        LoggerHandle(
            id & 0xffff | u64::from(wanted.level) << 16 | id >> 16 << 24 | u64::from(flags) << 32,
        )
    }

    /// Place and serial number.
    pub(super) fn parts(self) -> (usize, u32) {
        let id = self.0 & 0xffff | (self.0 >> 24 & 0xff) << 16;
        let place = (id & ((1 << PLACE_BITS) - 1)) as usize;
        (place.wrapping_sub(1), (id >> PLACE_BITS) as u32)
    }
}
