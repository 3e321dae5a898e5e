//! Consumers of real-time sessions: each has a stream of frames, a bounded queue, and a thread that writes.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etw_session::Slice;
use etw_wire::frames;

use crate::asker::Connection;

/// A process that ends waits for its consumers as long as one of them reads something in this time.
const READER_PATIENCE: Duration = Duration::from_secs(2);

/// The threads of this process that write to consumers.
static WRITERS: Writers =
    Writers { state: Mutex::new(WriterState { threads: 0, frames: 0 }), changed: Condvar::new() };

struct Writers {
    state: Mutex<WriterState>,
    changed: Condvar,
}

#[derive(Clone, Copy)]
struct WriterState {
    threads: usize,
    /// Frames that they have written.
    frames: u64,
}

impl Writers {
    fn change(&self, change: impl FnOnce(&mut WriterState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

/// Waits until consumers have read the streams of sessions that have ended. A consumer that reads nothing is not waited for.
pub(crate) fn wait_for_readers() {
    let mut state = WRITERS.state.lock().unwrap_or_else(PoisonError::into_inner);
    while state.threads > 0 {
        let before = *state;
        let is_same =
            |now: &mut WriterState| now.threads == before.threads && now.frames == before.frames;
        let waited = WRITERS.changed.wait_timeout_while(state, READER_PATIENCE, is_same);
        let (now, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            return;
        }
        state = now;
    }
}

struct Frame {
    kind: u32,
    bytes: Arc<[u8]>,
}

/// Buffers that a consumer lost, and their events.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Lost {
    buffers: u64,
    events: u64,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Frame>,
    size: usize,
    /// Losses since the last `LOST` frame.
    lost: Lost,
    is_disconnected: bool,
    has_ended: bool,
    /// The consumer's socket has all frames, or the consumer has closed it.
    is_written: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// One consumer. If it does not read buffers in time, it loses them; other consumers do not.
pub(crate) struct Consumer {
    shared: Arc<Shared>,
    limit: usize,
    /// The connection that requested the stream.
    pub connection: Option<Connection>,
    /// The consumer has all slices of the open buffers.
    has_slices: bool,
}

/// A consumer's part of a stream that may outlive its session.
pub(crate) struct Unread(Arc<Shared>);

impl Unread {
    /// Whether the consumer's socket has the whole stream, or the consumer has closed it.
    pub fn is_written(&self) -> bool {
        lock(&self.0).is_written
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, Queue> {
    shared.queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Consumer {
    /// Creates a consumer and the descriptor that it reads the stream from. `limit`: bytes that may wait for it.
    pub fn start(limit: usize, connection: Option<Connection>) -> io::Result<(Consumer, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.shutdown(std::net::Shutdown::Read)?;
        let shared = Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new() });
        let writing = shared.clone();
        // The thread ends when the consumer closes its end, or the session ends.
        WRITERS.change(|state| state.threads += 1);
        let spawned = etw_host::spawn("etw-consumer", move || {
            write(&writing, ours);
            lock(&writing).is_written = true;
            WRITERS.change(|state| state.threads -= 1);
        });
        if let Err(error) = spawned {
            WRITERS.change(|state| state.threads -= 1);
            return Err(error);
        }
        Ok((Consumer { shared, limit, connection, has_slices: false }, theirs.into()))
    }

    /// Sends a small frame, which is never lost.
    pub fn send(&self, kind: u32, bytes: Arc<[u8]>) {
        let mut queue = lock(&self.shared);
        // A watermark replaces the one before of its kind.
        if is_watermark(kind)
            && let Some(before) = queue
                .frames
                .iter_mut()
                .rev()
                .take_while(|frame| is_watermark(frame.kind))
                .find(|frame| frame.kind == kind)
        {
            before.bytes = bytes;
            return;
        }
        queue.size += bytes.len();
        queue.frames.push_back(Frame { kind, bytes });
        drop(queue);
        self.shared.changed.notify_one();
    }

    /// Sends a buffer; `false` if the queue is full, and the consumer loses it.
    pub fn offer(&self, bytes: &Arc<[u8]>, events: u64) -> bool {
        let mut queue = lock(&self.shared);
        if queue.size + bytes.len() > self.limit {
            queue.lost.buffers += 1;
            queue.lost.events += events;
            return false;
        }
        if queue.lost != Lost::default() {
            let lost = std::mem::take(&mut queue.lost);
            queue.frames.push_back(lost_frame(lost));
        }
        queue.size += bytes.len();
        queue.frames.push_back(Frame { kind: frames::BUFFER, bytes: bytes.clone() });
        drop(queue);
        self.shared.changed.notify_one();
        true
    }

    /// Starts slices for a consumer that has none yet and has read at least half of its queue; returns whether it did.
    pub fn begin_slices(&mut self) -> bool {
        let begins = !self.has_slices && lock(&self.shared).size <= self.limit / 2;
        self.has_slices |= begins;
        begins
    }

    /// Sends a slice. A consumer whose queue is full gets no further slices: it receives the records with their buffer.
    pub fn offer_slice(&mut self, slice: &Slice<'_>) {
        if !self.has_slices {
            return;
        }
        let head = [u32::from(slice.cpu), slice.offset as u32].map(u32::to_le_bytes).concat();
        let bytes: Arc<[u8]> = [&head, slice.records].concat().into();
        let mut queue = lock(&self.shared);
        if queue.size + bytes.len() > self.limit {
            self.has_slices = false;
            return;
        }
        queue.size += bytes.len();
        queue.frames.push_back(Frame { kind: frames::SLICE, bytes });
        drop(queue);
        self.shared.changed.notify_one();
    }

    /// Sends the watermark of slices to a consumer that has them.
    pub fn send_slices_watermark(&self, time: i64) {
        if self.has_slices {
            self.send(frames::SLICES_WATERMARK, time.to_le_bytes().into());
        }
    }

    /// The part of the stream that the consumer has not read yet.
    pub fn unread(&self) -> Unread {
        Unread(self.shared.clone())
    }

    /// Whether the consumer has closed its end.
    pub fn is_disconnected(&self) -> bool {
        lock(&self.shared).is_disconnected
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared);
        if queue.lost != Lost::default() {
            let lost = std::mem::take(&mut queue.lost);
            queue.frames.push_back(lost_frame(lost));
        }
        queue.frames.push_back(Frame { kind: frames::END, bytes: Arc::new([]) });
        queue.has_ended = true;
        drop(queue);
        self.shared.changed.notify_one();
    }
}

fn is_watermark(kind: u32) -> bool {
    matches!(kind, frames::WATERMARK | frames::SLICES_WATERMARK)
}

fn lost_frame(lost: Lost) -> Frame {
    let bytes = [lost.buffers.to_le_bytes(), lost.events.to_le_bytes()].concat();
    Frame { kind: frames::LOST, bytes: bytes.into() }
}

fn write(shared: &Shared, mut to: UnixStream) {
    loop {
        let queue = lock(shared);
        let mut queue = shared
            .changed
            .wait_while(queue, |queue| queue.frames.is_empty() && !queue.has_ended)
            .unwrap_or_else(PoisonError::into_inner);
        let Some(Frame { kind, bytes }) = queue.frames.pop_front() else { return };
        drop(queue);
        let mut head = [0; 8];
        head[..4].copy_from_slice(&kind.to_le_bytes());
        head[4..].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        let written = to.write_all(&head).and_then(|()| to.write_all(&bytes));
        WRITERS.change(|state| state.frames += 1);
        let mut queue = lock(shared);
        queue.size -= bytes.len().min(queue.size);
        if written.is_err() {
            // Nobody reads the other frames any more.
            queue.is_disconnected = true;
            queue.frames.clear();
            queue.size = usize::MAX / 2;
            return;
        }
    }
}
