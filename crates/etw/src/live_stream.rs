//! `LiveStream`: the records of a running session in order of time, with their losses.
//!
//! A feed makes items ready: `host.rs` from the frames of a session's host, `system/live_stream.rs` from Windows' callbacks.

#[cfg(target_os = "linux")]
mod host;

use std::fmt;
use std::sync::Arc;

use etw_etl::read::TraceFile;

use crate::controller::{ControlError, Controller};
use crate::live_item::Ready;
pub use crate::live_item::{LiveItem, StreamEnd, StreamError, StreamLedger};
#[cfg(windows)]
use crate::system::live_stream::{Feed, FeedRecord, Link};
#[cfg(target_os = "linux")]
use host::{Feed, FeedRecord, Link};

/// The records of a running session in order of time, and what its consumer lost.
///
/// A session's host sends buffers of single CPUs and, now and then, a watermark: a time before which no further record
/// will come. The stream holds records back until the watermark has passed them. Windows delivers records in order.
///
/// [`Consumer`](crate::Consumer) decodes the records; this type is for programs that have a decoder of their own or need
/// to know where buffers end.
///
/// # Loss
/// A consumer that reads too slowly loses whole buffers; no other consumer does. A consumer of a host whose worker is
/// replaced loses the events that were in flight. [`ledger`](LiveStream::ledger) counts both.
pub struct LiveStream {
    feed: Feed,
    /// The record that was returned last.
    current: Option<FeedRecord>,
}

/// Ends a stream in which another thread waits.
#[derive(Clone, Debug)]
pub struct Closer(Arc<Link>);

impl Closer {
    /// Ends the stream: it returns what it has received, and then its end.
    pub fn close(&self) {
        self.0.close();
    }

    /// Ends the stream after everything that was written before this call. It waits for the host.
    pub fn detach(&self) {
        self.0.detach();
    }
}

impl fmt::Debug for LiveStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("LiveStream");
        all.field("link", self.feed.link()).field("ledger", &self.ledger()).finish_non_exhaustive()
    }
}

impl LiveStream {
    /// Subscribes to a session of the host and waits for its header.
    ///
    /// # Errors
    /// `ERROR_WMI_INSTANCE_NOT_FOUND` if there is no such session, `ERROR_NOT_SUPPORTED` if it has no real-time
    /// delivery, `ERROR_ACCESS_DENIED`; `ERROR_NO_SYSTEM_RESOURCES` if the host breaks the protocol.
    pub fn open(host: &Controller, session: &str) -> Result<LiveStream, ControlError> {
        Ok(LiveStream { feed: Feed::open(host, session)?, current: None })
    }

    /// The session's header, as a file without events: clock, buffer size and start.
    pub fn trace(&self) -> &TraceFile {
        &self.feed.state.trace
    }

    /// Counts of received and lost events.
    pub fn ledger(&self) -> StreamLedger {
        self.feed.state.ledger
    }

    /// Why the stream ended; `None` while it continues.
    pub fn end(&self) -> Option<StreamEnd> {
        self.feed.state.end
    }

    /// Ends the stream from another thread.
    pub fn closer(&self) -> Closer {
        Closer(Arc::clone(self.feed.link()))
    }

    /// Waits for the next item; `None` at the end of the stream.
    ///
    /// # Errors
    /// [`StreamError`]
    // Not `Iterator`: what it returns borrows from `self`.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<LiveItem<'_>>, StreamError> {
        Ok(if self.wait_for_item()? { self.next_ready() } else { None })
    }

    /// Waits until an item is ready. `false`: the stream has ended, and all items were returned.
    ///
    /// # Errors
    /// [`StreamError`]
    pub fn wait_for_item(&mut self) -> Result<bool, StreamError> {
        while self.feed.state.ready.is_empty() {
            if !self.wait()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The next item if it is in order already; does not wait.
    pub fn next_ready(&mut self) -> Option<LiveItem<'_>> {
        Some(match self.feed.state.ready.pop_front()? {
            Ready::BufferEnd { filled } => LiveItem::BufferEnd { filled },
            Ready::Lost { buffers, events } => LiveItem::Lost { buffers, events },
            #[cfg(target_os = "linux")]
            Ready::WorkerReplaced => LiveItem::WorkerReplaced,
            Ready::Record(record) => {
                let record = self.current.insert(record);
                LiveItem::Record(record.as_record(&self.feed.state.trace))
            }
        })
    }

    /// Waits until the host has sent something. `false`: the stream has ended, and all of it was returned.
    ///
    /// # Errors
    /// [`StreamError`]
    pub fn wait(&mut self) -> Result<bool, StreamError> {
        if self.end().is_none() {
            self.feed.receive()?;
        }
        Ok(self.end().is_none() || !self.feed.state.ready.is_empty())
    }

    /// Drops ready items up to the next record. `false`: no record is ready.
    pub(crate) fn skip_to_record(&mut self) -> bool {
        let ready = &mut self.feed.state.ready;
        while let Some(first) = ready.front() {
            if matches!(first, Ready::Record(_)) {
                return true;
            }
            ready.pop_front();
        }
        false
    }
}
