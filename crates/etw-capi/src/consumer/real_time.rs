//! A running session, as `OpenTrace` opens it with `PROCESS_TRACE_MODE_REAL_TIME`.

use std::sync::{Mutex, PoisonError};

use etw_api::{Closer, Controller, LiveItem, LiveStream, Status, StreamEnd};
use etw_etl::read::TraceFile;

use super::arrival::Arrival;

/// A session's stream.
pub struct Live {
    /// One `ProcessTrace` at a time reads it.
    stream: Mutex<LiveStream>,
    /// `CloseTrace` ends it on any thread.
    closer: Closer,
    /// The session's header.
    trace: TraceFile,
}

/// Subscribes to the session and waits for its header.
pub fn open(session: &str) -> Result<Live, Status> {
    let stream = Controller::connect().and_then(|host| LiveStream::open(&host, session));
    let stream = stream.map_err(|error| error.status())?;
    let (closer, trace) = (stream.closer(), stream.trace().clone());
    Ok(Live { stream: Mutex::new(stream), closer, trace })
}

impl Live {
    /// The session's header, as a file without events.
    pub fn trace(&self) -> &TraceFile {
        &self.trace
    }

    /// Ends the stream: a thread that waits for it continues.
    pub fn close(&self) {
        self.closer.close();
    }

    /// Waits for what comes next, and passes it on.
    pub fn next(&self, then: impl FnOnce(Arrival<'_>)) {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        match stream.wait_for_item() {
            Ok(true) => {}
            Ok(false) if stream.end() == Some(StreamEnd::SessionEnded) => {
                return then(Arrival::End);
            }
            Ok(false) | Err(_) => return then(Arrival::Gone),
        }
        match stream.next_ready() {
            Some(LiveItem::Record(record)) => then(Arrival::Record(record)),
            Some(LiveItem::BufferEnd { filled }) => then(Arrival::Buffer { filled }),
            Some(LiveItem::Lost { buffers, events }) => then(Arrival::Lost { buffers, events }),
            // A program does not see which worker serves it.
            _ => {}
        }
    }
}
