//! The consumer's side of a real-time session's stream, which continues when the host's worker is replaced.

use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::frames;
use crate::host_client::{Client, ClientError};
use crate::requests::Request;

/// The time that a new worker has to replace one that ended.
pub const REPLACEMENT_PATIENCE: Duration = Duration::from_secs(10);

/// A consumer's connection to a session.
#[derive(Debug)]
pub struct Live {
    directory: PathBuf,
    session: String,
    /// When the session started, from its header.
    start_time: OnceLock<i64>,
    link: Mutex<Link>,
    is_closed: AtomicBool,
}

#[derive(Debug)]
struct Link {
    /// If the connection leases a session, the session ends with it.
    client: Arc<Client>,
    from: Arc<UnixStream>,
}

impl Live {
    /// Subscribes to a session of the host in `directory`. `client` is connected to that host.
    ///
    /// # Errors
    /// The host's error.
    pub fn open(client: Client, directory: &Path, session: &str) -> Result<Live, ClientError> {
        Ok(Live {
            directory: directory.to_owned(),
            session: session.to_owned(),
            start_time: OnceLock::new(),
            link: Mutex::new(Link::new(client, session, None)?),
            is_closed: AtomicBool::new(false),
        })
    }

    /// The next frame. `None` if the host or the session has ended, or the stream was closed.
    ///
    /// If the worker is replaced, the stream continues with another [`START`](frames::START) and [`POSITION`](frames::POSITION), from which
    /// [`Progress`] computes the missing events. The caller must compare the start, since it may belong to another session.
    ///
    /// # Errors
    /// The received bytes are not a frame.
    pub fn next(&self) -> io::Result<Option<Frame>> {
        loop {
            let from = self.link().from.clone();
            match frame(&from) {
                Ok(frame) => return Ok(Some(frame)),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
                Err(_) if self.is_closed.load(Ordering::SeqCst) => return Ok(None),
                Err(_) => {
                    let Some(link) = self.connect_again() else { return Ok(None) };
                    *self.link() = link;
                    if self.is_closed.load(Ordering::SeqCst) {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Remembers when the session started, from its header. If a worker is replaced after the session has ended, this consumer then
    /// still receives the end of its stream.
    pub fn remember_start(&self, start_time: i64) {
        // Every later header of this stream has the same time.
        let _ = self.start_time.set(start_time);
    }

    fn link(&self) -> std::sync::MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection usually ends because its host ended, which removes the socket. If a keeper still holds the socket, it starts a new worker.
    fn connect_again(&self) -> Option<Link> {
        let start_time = self.start_time.get().copied();
        let end = Instant::now() + REPLACEMENT_PATIENCE;
        while !self.is_closed.load(Ordering::SeqCst) {
            let client = Client::connect(&self.directory);
            match client.and_then(|client| Link::new(client, &self.session, start_time)) {
                Ok(link) => return Some(link),
                Err(ClientError::Io(_)) if Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(_) => return None,
            }
        }
        None
    }

    /// True if [`close`](Live::close) was called.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Ends the stream after the events that were written before. A thread that waits in [`next`](Live::next) receives them, and then the end
    /// of the stream.
    pub fn detach(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        let client = self.link().client.clone();
        if client.ask(&Request::Detach { session: self.session.clone() }).is_err() {
            // The host has ended, or its version lacks the request.
            self.close();
        }
    }

    /// Ends the stream: a thread that waits in [`next`](Live::next) returns.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        // If the host has closed its end, no thread waits for this stream.
        let _ = self.link().from.shutdown(Shutdown::Both);
    }
}

impl Link {
    fn new(client: Client, session: &str, start_time: Option<i64>) -> Result<Link, ClientError> {
        let request = Request::Consume { session: session.to_owned(), start_time };
        let descriptors = client.ask_for(&request)?.descriptors;
        let from: OwnedFd =
            descriptors.into_iter().next().ok_or(io::Error::from(io::ErrorKind::UnexpectedEof))?;
        Ok(Link { client: Arc::new(client), from: Arc::new(from.into()) })
    }
}

/// A message of a live stream.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Its [kind](crate::frames).
    pub kind: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

fn frame(mut from: &UnixStream) -> io::Result<Frame> {
    let mut head = [0; 8];
    from.read_exact(&mut head)?;
    let [a, b, c, d, e, f, g, h] = head;
    let (kind, size) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    if size as usize > frames::MAX_FRAME {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; size as usize];
    from.read_exact(&mut bytes)?;
    Ok(Frame { kind, bytes })
}

/// The position of a consumer in the stream, by which it takes each buffer once and counts the missing events.
///
/// A host counts the events of a session that it has handed out, over all its workers. The consumer counts the events that it received, and
/// those that the host reported as lost. If the next worker's [position](frames::POSITION) is higher, the previous worker took the difference
/// with it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Sequence number of the last buffer.
    last: i64,
    /// Events handed out up to there.
    count: u64,
    has_begun: bool,
    /// The position that a new worker reported, while it sends buffers that the consumer already has.
    position: Option<u64>,
}

impl Progress {
    /// Whether a [`POSITION`](frames::POSITION) has come, from which events are counted.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Handles a [`POSITION`](frames::POSITION) frame. A truncated frame is ignored.
    pub fn position(&mut self, frame: &[u8]) {
        let (Some(next), Some(count)) = (frame.first_chunk(), frame.get(8..)) else { return };
        let (next, Some(count)) = (i64::from_le_bytes(*next), count.first_chunk()) else { return };
        let count = u64::from_le_bytes(*count);
        if std::mem::replace(&mut self.has_begun, true) {
            self.position = Some(count);
        } else {
            (self.last, self.count) = (next.saturating_sub(1), count);
        }
    }

    /// A buffer, with its sequence number (of its header), and how many events it has, those of `SESSION_REPORTS` not counted. `None`: it is here already. Else what is
    /// missing before it.
    pub fn buffer(&mut self, sequence: i64, events: u64) -> Option<u64> {
        // A host whose version sends no position has only one worker.
        if self.has_begun && sequence <= self.last {
            if let Some(position) = &mut self.position {
                *position = position.saturating_add(events);
            }
            return None;
        }
        let missing = self.missing();
        self.last = sequence;
        self.count = self.count.saturating_add(events);
        Some(missing)
    }

    /// Handles a [`LOST`](frames::LOST) frame.
    pub fn lost(&mut self, events: u64) {
        self.count = self.count.saturating_add(events);
    }

    /// The events missing so far. Call it for each frame that is not a buffer.
    pub fn missing(&mut self) -> u64 {
        let Some(position) = self.position.take() else { return 0 };
        let missing = position.saturating_sub(self.count);
        self.count = position;
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(next: i64, count: u64) -> Vec<u8> {
        [next.to_le_bytes(), count.to_le_bytes()].concat()
    }

    #[test]
    fn what_went_with_a_worker_is_counted_once() {
        let mut progress = Progress::default();
        progress.position(&position(5, 1000));
        assert_eq!(progress.missing(), 0);
        assert_eq!(progress.buffer(5, 10), Some(0));
        progress.lost(7);
        assert_eq!(progress.buffer(7, 10), Some(0));
        // The first worker lost nothing, and the second one sends the last buffer again.
        progress.position(&position(7, 1017));
        assert_eq!(progress.buffer(7, 10), None);
        assert_eq!(progress.buffer(8, 3), Some(0));
        // Two buffers of 12 events were in flight.
        progress.position(&position(11, 1042));
        assert_eq!(progress.missing(), 12);
        assert_eq!(progress.missing(), 0);
        assert_eq!(progress.buffer(11, 1), Some(0));
        // The same, with one buffer that is sent again and one that is not.
        progress.position(&position(11, 1042));
        assert_eq!(progress.buffer(11, 1), None);
        assert_eq!(progress.missing(), 0);
        progress.position(&position(12, 1050));
        assert_eq!(progress.buffer(12, 1), Some(7));
    }

    #[test]
    fn cut_positions_say_nothing() {
        let mut progress = Progress::default();
        progress.position(&[1; 15]);
        assert_eq!(progress.buffer(-3, 1), Some(0));
        progress.position(&position(i64::MIN, u64::MAX));
        progress.lost(5);
        assert_eq!(progress.buffer(0, u64::MAX), Some(0));
    }
}
