//! The items and the ledger of a live stream.

use etw_types::EventRecord;

/// One step of a [`LiveStream`](crate::LiveStream).
#[derive(Debug)]
#[non_exhaustive]
pub enum LiveItem<'s> {
    /// The next record in order of time.
    Record(EventRecord<'s>),
    /// All records of a buffer have been returned.
    BufferEnd {
        /// Bytes of the buffer, its header included.
        filled: u32,
    },
    /// Events that this consumer will not get.
    Lost {
        /// Buffers that contained them; 1 if the number is unknown, after the host's worker was replaced.
        buffers: u64,
        /// The events.
        events: u64,
    },
    /// The host has a new worker. The session continues.
    WorkerReplaced,
}

/// Why a [`LiveStream`](crate::LiveStream) ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEnd {
    /// The session ended.
    SessionEnded,
    /// The connection ended: the host is gone, another session of the same name replaced this one, or a
    /// [`Closer`](crate::Closer) closed the stream.
    Disconnected,
}

/// The ledger of one consumer: events received and lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamLedger {
    /// Events received, reports of the session on itself included.
    pub received: u64,
    /// Events lost because this consumer read too slowly.
    pub lost: u64,
    /// Buffers that contained them.
    pub lost_buffers: u64,
    /// Events that were in flight when the host's worker was replaced.
    pub lost_in_replacement: u64,
    /// Replacements of the host's worker.
    pub workers_replaced: u32,
}

impl StreamLedger {
    /// Events that this consumer did not get.
    pub fn lost_events(&self) -> u64 {
        self.lost + self.lost_in_replacement
    }
}
