//! `LiveStream` of a system's session: `OpenTraceW` and `ProcessTrace`, whose records become ours.
//!
//! ```text
//!  thread of the stream: ProcessTrace ── event_callback ── Arrival::Record ──► channel ──► LiveStream::next()
//!                                     └─ buffer_callback ─ Arrival::Buffer ──►
//! ```
//!
//! The system delivers records in order of time. Times are converted to system time by the system.

mod api;
mod record;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use etw_etl::read::TraceFile;
use etw_types::Status;
use etw_wire::ClientError;

use crate::controller::{ControlError, Controller};
use crate::live_item::{LiveItem, StreamEnd, StreamLedger};
use crate::system::control;
use api::{CloseTrace, INVALID_HANDLE, Logfile, OpenTraceW, ProcessTrace, RawRecord};
use record::OwnedRecord;

/// Records and ends of buffers that wait for the consumer. If it is full, the system waits, and loses events when its buffers are full.
const QUEUE: usize = 4096;

/// The records of a running session in order of time, and what its consumer lost.
///
/// [`Consumer`](crate::Consumer) decodes the records; this type is for programs that have a decoder of their own or need
/// to know where buffers end.
///
/// # Loss
/// If a consumer reads too slowly, the session loses events. [`ledger`](LiveStream::ledger) counts them.
pub struct LiveStream {
    link: Arc<Link>,
    arrivals: Receiver<Arrival>,
    trace: TraceFile,
    ready: VecDeque<Arrival>,
    /// The record that was returned last.
    current: Option<Box<OwnedRecord>>,
    ledger: StreamLedger,
    end: Option<StreamEnd>,
}

/// A message of the stream's thread.
enum Arrival {
    Record(Box<OwnedRecord>),
    Buffer {
        filled: u32,
        lost: u32,
    },
    /// `ProcessTrace` has returned.
    End(Status),
}

/// The system's handle of a stream, and what its callbacks use.
struct Link {
    session: String,
    /// The handle of `OpenTraceW`; [`INVALID_HANDLE`] once it is closed.
    handle: AtomicU64,
    is_closed: AtomicBool,
}

/// The context of the callbacks, on the thread of the stream.
struct Callbacks {
    link: Arc<Link>,
    arrivals: SyncSender<Arrival>,
    /// `EventsLost` of the buffer before.
    lost: AtomicU32,
}

/// The error of a stream of the system.
#[derive(Debug)]
#[non_exhaustive]
pub enum StreamError {
    /// The system ended the stream.
    System(Status),
    /// The session's header cannot be read.
    Header(etw_etl::Error),
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamError::System(status) => write!(f, "the system ended the stream: {status}"),
            StreamError::Header(error) => write!(f, "session header: {error}"),
        }
    }
}

impl std::error::Error for StreamError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StreamError::System(_) => None,
            StreamError::Header(error) => Some(error),
        }
    }
}

impl From<StreamError> for ControlError {
    fn from(error: StreamError) -> ControlError {
        ControlError::Stream(Box::new(error))
    }
}

/// Ends a stream in which another thread waits.
#[derive(Clone, Debug)]
pub struct Closer(Arc<Link>);

impl Closer {
    /// Ends the stream: it returns what it has received, and then its end.
    pub fn close(&self) {
        self.0.close();
    }

    /// Ends the stream after everything that was written before this call: it flushes the session first.
    pub fn detach(&self) {
        // A session that has ended flushes by itself.
        let _ = control::flush(&self.0.session);
        self.0.close();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Link {
    /// Ends the stream before its session ends.
    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.release();
    }

    /// Gives the handle back to the system.
    fn release(&self) {
        let handle = self.handle.swap(INVALID_HANDLE, Ordering::AcqRel);
        if handle != INVALID_HANDLE {
            // SAFETY: a handle that nobody else closes. `ProcessTrace` returns after the current buffer.
            unsafe { CloseTrace(handle) };
        }
    }
}

impl fmt::Debug for LiveStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("LiveStream");
        all.field("link", &self.link).field("ledger", &self.ledger).finish_non_exhaustive()
    }
}

impl LiveStream {
    /// Subscribes to a session of the system.
    ///
    /// # Errors
    /// `ERROR_WMI_INSTANCE_NOT_FOUND` if there is no such session, `ERROR_NOT_SUPPORTED` if it has no real-time
    /// delivery, `ERROR_ACCESS_DENIED`.
    pub fn open(_host: &Controller, session: &str) -> Result<LiveStream, ControlError> {
        let status = control::real_time_status(session)?;
        let (sender, arrivals) = sync_channel(QUEUE);
        let link = Arc::new(Link {
            session: session.to_owned(),
            handle: AtomicU64::new(INVALID_HANDLE),
            is_closed: AtomicBool::new(false),
        });
        let callbacks = Box::new(Callbacks {
            link: Arc::clone(&link),
            arrivals: sender,
            lost: AtomicU32::new(0),
        });
        let mut name: Vec<u16> = session.encode_utf16().chain([0]).collect();
        let mut logfile = Logfile::real_time(&mut name, &*callbacks);
        // SAFETY: a name that ends with NUL, and callbacks of these types whose context lives until `ProcessTrace` has returned.
        let handle = unsafe { OpenTraceW(&mut logfile) };
        if handle == INVALID_HANDLE {
            let error = std::io::Error::last_os_error();
            let status =
                error.raw_os_error().map_or(Status::ERROR_INVALID_PARAMETER.0, |code| code as u32);
            let message = format!("open session {session}: {error}");
            return Err(ClientError::Refused { status, message }.into());
        }
        link.handle.store(handle, Ordering::Release);
        let trace = record::header(session, &logfile, &status).map_err(StreamError::Header)?;
        let thread = std::thread::Builder::new().name("etw-live-stream".to_owned());
        let spawned = thread.spawn(move || {
            // SAFETY: one handle; no limits of time.
            let status = unsafe { ProcessTrace(&handle, 1, std::ptr::null(), std::ptr::null()) };
            callbacks.link.release();
            // A stream that was dropped needs no end.
            let _ = callbacks.arrivals.send(Arrival::End(Status(status)));
        });
        if let Err(error) = spawned {
            link.close();
            return Err(ClientError::Io(error).into());
        }
        Ok(LiveStream {
            link,
            arrivals,
            trace,
            ready: VecDeque::new(),
            current: None,
            ledger: StreamLedger::default(),
            end: None,
        })
    }

    /// The session's header, as a file without events: clock, buffer size and start.
    pub fn trace(&self) -> &TraceFile {
        &self.trace
    }

    /// Counts of received and lost events.
    pub fn ledger(&self) -> StreamLedger {
        self.ledger
    }

    /// Why the stream ended; `None` while it continues.
    pub fn end(&self) -> Option<StreamEnd> {
        self.end
    }

    /// Ends the stream from another thread.
    pub fn closer(&self) -> Closer {
        Closer(Arc::clone(&self.link))
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
        while self.ready.is_empty() {
            if !self.wait()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The next item if it is there already; does not wait.
    pub fn next_ready(&mut self) -> Option<LiveItem<'_>> {
        match self.ready.pop_front()? {
            Arrival::Record(record) => {
                let record = self.current.insert(record);
                Some(LiveItem::Record(record.as_record()))
            }
            Arrival::Buffer { lost: 0, filled } => Some(LiveItem::BufferEnd { filled }),
            Arrival::Buffer { lost, .. } => {
                Some(LiveItem::Lost { buffers: 0, events: lost.into() })
            }
            Arrival::End(_) => None,
        }
    }

    /// Waits until the system has delivered something. `false`: the stream has ended, and all of it was returned.
    ///
    /// # Errors
    /// [`StreamError`]
    pub fn wait(&mut self) -> Result<bool, StreamError> {
        if self.end.is_some() {
            return Ok(!self.ready.is_empty());
        }
        let first = self.arrivals.recv().unwrap_or(Arrival::End(Status::ERROR_SUCCESS));
        self.take(first)?;
        // Whatever came meanwhile, so that a consumer writes its output once for all of it.
        while self.end.is_none() && self.ready.len() < QUEUE {
            let Ok(arrival) = self.arrivals.try_recv() else { break };
            self.take(arrival)?;
        }
        Ok(self.end.is_none() || !self.ready.is_empty())
    }

    /// Drops ready items up to the next record. `false`: no record is ready.
    pub(crate) fn skip_to_record(&mut self) -> bool {
        while let Some(first) = self.ready.front() {
            if matches!(first, Arrival::Record(_)) {
                return true;
            }
            self.ready.pop_front();
        }
        false
    }

    fn take(&mut self, arrival: Arrival) -> Result<(), StreamError> {
        match arrival {
            Arrival::Record(_) => {
                self.ledger.received += 1;
                self.ready.push_back(arrival);
            }
            Arrival::Buffer { lost, .. } => {
                self.ledger.lost += u64::from(lost);
                self.ready.push_back(arrival);
            }
            Arrival::End(status) => {
                let was_closed = self.link.is_closed.load(Ordering::Acquire);
                self.end = Some(match was_closed {
                    true => StreamEnd::Disconnected,
                    false => StreamEnd::SessionEnded,
                });
                // `ERROR_CANCELLED`: the buffer callback has stopped the stream.
                const CANCELLED: Status = Status(1223);
                if !status.is_success() && status != CANCELLED && !was_closed {
                    return Err(StreamError::System(status));
                }
            }
        }
        Ok(())
    }
}

impl Drop for LiveStream {
    fn drop(&mut self) {
        self.link.close();
        // A callback that waits for space in the queue fails when `arrivals` is dropped, and the thread ends.
    }
}

/// The system's `EVENT_RECORD_CALLBACK`.
unsafe extern "system" fn event_callback(event: *const RawRecord) {
    // SAFETY: the system passes a record, and the context of `Logfile::real_time`, which lives until `ProcessTrace` has returned.
    let (callbacks, record) = unsafe {
        let event = &*event;
        (&*event.context.cast::<Callbacks>(), OwnedRecord::copy(event))
    };
    // The stream may have been dropped.
    let _ = callbacks.arrivals.send(Arrival::Record(Box::new(record)));
}

/// The system's `EVENT_TRACE_BUFFER_CALLBACKW`. 0 ends the stream.
unsafe extern "system" fn buffer_callback(logfile: *const Logfile) -> u32 {
    // SAFETY: as above.
    let (callbacks, filled, lost) = unsafe {
        let logfile = &*logfile;
        (&*logfile.context.cast::<Callbacks>(), logfile.filled, logfile.events_lost)
    };
    let before = callbacks.lost.swap(lost, Ordering::Relaxed);
    let arrival = Arrival::Buffer { filled, lost: lost.saturating_sub(before) };
    let is_open = callbacks.arrivals.send(arrival).is_ok();
    u32::from(is_open && !callbacks.link.is_closed.load(Ordering::Acquire))
}
