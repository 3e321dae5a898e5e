//! `Consumer`: the decoded events of a running session as they come.

use std::fmt;

use etw_decode::{Decoder, Event};
use etw_etl::read::TraceFile;

use crate::controller::{ControlError, Controller};
use crate::live_stream::{Closer, LiveItem, LiveStream, StreamLedger};
use crate::trace::{ReadError, registered_decoder};

/// A consumer of a running session: its events in order of time, decoded, as they come.
///
/// The stream continues when the host's worker is replaced.
///
/// ```no_run
/// let host = etw::Controller::connect()?;
/// let mut events = etw::Consumer::open(&host, "shop")?;
/// while let Some(event) = events.next()? {
///     println!("{}: {} sold", event.name().unwrap_or("?"), event.get::<u32>("Count")?);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Loss
/// A consumer that reads too slowly loses events; other consumers do not. [`ledger`](Consumer::ledger) counts them.
pub struct Consumer {
    stream: LiveStream,
    decoder: Decoder,
    schema_problems: Vec<String>,
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl Consumer {
    /// Subscribes to a session of the host and waits for its header.
    ///
    /// # Errors
    /// Those of [`LiveStream::open`].
    pub fn open(host: &Controller, session: &str) -> Result<Consumer, ControlError> {
        let stream = LiveStream::open(host, session)?;
        let (decoder, schema_problems) = registered_decoder(Some(stream.trace()));
        Ok(Consumer { stream, decoder, schema_problems })
    }

    /// The decoder, to give it schemas.
    pub fn decoder_mut(&mut self) -> &mut Decoder {
        &mut self.decoder
    }

    /// Registered schema files that cannot be read, each with its path and why.
    pub fn schema_problems(&self) -> &[String] {
        &self.schema_problems
    }

    /// The session's header, as a file without events: clock, buffer size and start.
    pub fn trace(&self) -> &TraceFile {
        self.stream.trace()
    }

    /// Counts of received and lost events.
    pub fn ledger(&self) -> StreamLedger {
        self.stream.ledger()
    }

    /// Ends the stream from another thread.
    pub fn closer(&self) -> Closer {
        self.stream.closer()
    }

    /// Waits for the next event; `None` at the end of the session.
    ///
    /// # Errors
    /// [`ReadError::Stream`] if the host breaks the protocol.
    // Not `Iterator`: what it returns borrows from `self`.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Event<'_>>, ReadError> {
        while !self.stream.skip_to_record() {
            if !self.stream.wait()? {
                return Ok(None);
            }
        }
        Ok(self.next_ready())
    }

    /// The next event if it is in order already; does not wait.
    ///
    /// With [`wait`](Consumer::wait) a program can flush its output before it waits.
    pub fn next_ready(&mut self) -> Option<Event<'_>> {
        if !self.stream.skip_to_record() {
            return None;
        }
        let clock = *self.stream.trace().clock();
        let Some(LiveItem::Record(record)) = self.stream.next_ready() else { return None };
        Some(self.decoder.decode_event(&record).with_clock(clock))
    }

    /// Waits until the host has sent something. `false`: the stream has ended, and all events were returned.
    ///
    /// # Errors
    /// [`ReadError::Stream`] if the host breaks the protocol.
    pub fn wait(&mut self) -> Result<bool, ReadError> {
        Ok(self.stream.wait()?)
    }
}
