//! The items, the ledger and the errors of a live stream.

use std::collections::VecDeque;
use std::fmt;

use etw_etl::DamageKind;
use etw_etl::read::TraceFile;
use etw_types::{EventRecord, Status};

use crate::controller::ControlError;

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
    /// The connection ended: the host ended, another session of the same name replaced this one, or a
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

/// The items that a feed has made ready, its counts and its end. `R`: its records.
pub(crate) struct StreamState<R> {
    /// The session's header.
    pub trace: TraceFile,
    pub ready: VecDeque<Ready<R>>,
    pub ledger: StreamLedger,
    pub end: Option<StreamEnd>,
}

/// An item that its consumer has not received yet.
pub(crate) enum Ready<R> {
    Record(R),
    BufferEnd {
        filled: u32,
    },
    Lost {
        buffers: u64,
        events: u64,
    },
    #[cfg(target_os = "linux")]
    WorkerReplaced,
}

impl<R> StreamState<R> {
    pub fn new(trace: TraceFile) -> StreamState<R> {
        let (ready, ledger) = (VecDeque::new(), StreamLedger::default());
        StreamState { trace, ready, ledger, end: None }
    }
}

/// Why a live stream cannot continue.
#[derive(Debug)]
#[non_exhaustive]
pub enum StreamError {
    /// The connection delivered something that is not a frame.
    Frame(std::io::Error),
    /// The stream did not start with the session's header.
    NoHeader,
    /// The session's header cannot be read.
    Header(etw_etl::Error),
    /// A frame is shorter than its kind requires.
    Truncated {
        /// The kind of the frame.
        kind: u32,
        /// Its size in bytes.
        size: usize,
    },
    /// A buffer or one of its records is damaged.
    Buffer(DamageKind),
    /// Windows ended the stream.
    System(Status),
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let StreamError::System(status) = self {
            return write!(f, "the system ended the stream: {status}");
        }
        f.write_str("invalid data from the session's host: ")?;
        match self {
            StreamError::Frame(error) => write!(f, "not a frame ({error})"),
            StreamError::NoHeader => f.write_str("the stream starts without a header"),
            StreamError::Header(error) => write!(f, "session header: {error}"),
            StreamError::Truncated { kind, size } => {
                write!(f, "frame of kind {kind} has only {size} bytes")
            }
            StreamError::Buffer(damage) => write!(f, "damaged buffer: {damage}"),
            StreamError::System(status) => status.fmt(f),
        }
    }
}

impl std::error::Error for StreamError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StreamError::Frame(error) => Some(error),
            StreamError::Header(error) => Some(error),
            _ => None,
        }
    }
}

impl From<StreamError> for ControlError {
    fn from(error: StreamError) -> ControlError {
        ControlError::Stream(Box::new(error))
    }
}
