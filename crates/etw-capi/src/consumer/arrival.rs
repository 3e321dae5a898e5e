//! Steps of a running session, as its stream passes them to `ProcessTrace`.

use etw_types::EventRecord;

/// One step of a running session.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub enum Arrival<'s> {
    /// The next record in order of time.
    Record(EventRecord<'s>),
    /// All records of a buffer of `filled` bytes have come.
    Buffer { filled: u32 },
    /// This consumer lost events: it read too slowly, or the host's worker was replaced.
    Lost { buffers: u64, events: u64 },
    /// The session has ended.
    End,
    /// The connection to the host has ended, and the host did not report the end of the session.
    Gone,
}
