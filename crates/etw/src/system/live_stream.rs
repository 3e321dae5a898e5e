//! The feed of a live stream from a session of the system: `OpenTraceW` and `ProcessTrace`, whose records become ours.
//!
//! ```text
//!  thread of the stream: ProcessTrace ── event_callback ── Arrival::Record ──► channel ──► Feed::receive()
//!                                     └─ buffer_callback ─ Arrival::Buffer ──►
//! ```
//!
//! The system delivers records in order of time. Times are converted to system time by the system.

mod api;
mod record;

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use etw_types::Status;
use etw_types::raw::{RawLogfile, RawRecord};
use etw_wire::ClientError;

use crate::controller::{ControlError, Controller};
use crate::live_item::{Ready, StreamEnd, StreamError, StreamState};
use crate::system::control;
use api::{CloseTrace, INVALID_HANDLE, OpenTraceW, ProcessTrace};
use record::OwnedRecord;

/// Records and ends of buffers that wait for the consumer. If it is full, the system waits, and loses events when its buffers are full.
const QUEUE: usize = 4096;

/// The records of a session of the system, as its thread receives them.
pub(crate) struct Feed {
    link: Arc<Link>,
    arrivals: Receiver<Arrival>,
    pub state: StreamState<FeedRecord>,
}

pub(crate) type FeedRecord = Box<OwnedRecord>;

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
pub(crate) struct Link {
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

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Link {
    /// Ends the stream after everything that was written before this call: it flushes the session first.
    pub fn detach(&self) {
        // A session that has ended flushes by itself.
        let _ = control::flush(&self.session);
        self.close();
    }

    /// Ends the stream before its session ends.
    pub fn close(&self) {
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

impl Feed {
    pub fn open(_host: &Controller, session: &str) -> Result<Feed, ControlError> {
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
        let mut logfile = api::real_time(&mut name, &*callbacks);
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
        Ok(Feed { link, arrivals, state: StreamState::new(trace) })
    }

    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Waits for the next item of the system.
    pub fn receive(&mut self) -> Result<(), StreamError> {
        let first = self.arrivals.recv().unwrap_or(Arrival::End(Status::ERROR_SUCCESS));
        self.take(first)?;
        // Whatever came meanwhile, so that a consumer writes its output once for all of it.
        while self.state.end.is_none() && self.state.ready.len() < QUEUE {
            let Ok(arrival) = self.arrivals.try_recv() else { break };
            self.take(arrival)?;
        }
        Ok(())
    }

    fn take(&mut self, arrival: Arrival) -> Result<(), StreamError> {
        match arrival {
            Arrival::Record(record) => {
                self.state.ledger.received += 1;
                self.state.ready.push_back(Ready::Record(record));
            }
            Arrival::Buffer { lost: 0, filled } => {
                self.state.ready.push_back(Ready::BufferEnd { filled });
            }
            Arrival::Buffer { lost, .. } => {
                self.state.ledger.lost += u64::from(lost);
                self.state.ready.push_back(Ready::Lost { buffers: 0, events: lost.into() });
            }
            Arrival::End(status) => {
                let was_closed = self.link.is_closed.load(Ordering::Acquire);
                self.state.end = Some(match was_closed {
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

impl Drop for Feed {
    fn drop(&mut self) {
        self.link.close();
        // A callback that waits for space in the queue fails when `arrivals` is dropped, and the thread ends.
    }
}

/// The system's `EVENT_RECORD_CALLBACK`.
unsafe extern "system-unwind" fn event_callback(event: *mut c_void) {
    // SAFETY: the system passes a record, and the context of `api::real_time`, which lives until `ProcessTrace` has returned.
    let (callbacks, record) = unsafe {
        let event = &*event.cast::<RawRecord>();
        (&*event.context.cast::<Callbacks>(), OwnedRecord::copy(event))
    };
    // The stream may have been dropped.
    let _ = callbacks.arrivals.send(Arrival::Record(Box::new(record)));
}

/// The system's `EVENT_TRACE_BUFFER_CALLBACKW`. 0 ends the stream.
unsafe extern "system-unwind" fn buffer_callback(logfile: *mut RawLogfile) -> u32 {
    // SAFETY: the system passes its structure, and the context of `api::real_time`, which lives until `ProcessTrace` has returned.
    let (callbacks, filled, lost) = unsafe {
        let logfile = &*logfile;
        (&*logfile.context.cast::<Callbacks>(), logfile.filled, logfile.events_lost)
    };
    let before = callbacks.lost.swap(lost, Ordering::Relaxed);
    let arrival = Arrival::Buffer { filled, lost: lost.saturating_sub(before) };
    let is_open = callbacks.arrivals.send(arrival).is_ok();
    u32::from(is_open && !callbacks.link.is_closed.load(Ordering::Acquire))
}
