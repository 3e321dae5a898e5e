//! Threads that load buffers before they are needed.
//!
//! Loading and merging cost about the same, and waking a thread costs more than loading a small buffer. So
//! threads work instead of waiting: the merging thread takes back a buffer that no thread has started, and loads others
//! while another thread loads the one it needs. Both sides sleep only if there is no work.

use super::buffer_loader::{Loaded, Loader, Spare};
use super::file::TraceFile;
use super::index::Entry;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Bytes of buffers that may wait together.
const MEMORY_LIMIT: u64 = 16 << 20;
/// Buffers of one stream that may wait: if one CPU writes most events, its next buffer is needed soon.
const DEPTH: usize = 6;
/// Checks of the queue before a thread sleeps: some microseconds, less than a wake-up takes.
const LOOKS: u32 = 200;

struct Job {
    stream: usize,
    /// Counts the stream's requests.
    ticket: u64,
    file: TraceFile,
    cpu: u16,
    entry: Entry,
    spare: Spare,
}

impl Job {
    fn run(self, loader: &mut Loader) -> Loaded {
        loader.load(&self.file.core.load, self.cpu, self.entry, self.spare)
    }
}

/// The buffers of a stream that were asked for and not taken yet; `None` in the queue, or being loaded.
#[derive(Default)]
struct Asked {
    first_ticket: u64,
    buffers: VecDeque<Option<Box<Loaded>>>,
}

impl Asked {
    fn put(&mut self, ticket: u64, loaded: Loaded) {
        if let Some(buffer) = self.buffers.get_mut((ticket - self.first_ticket) as usize) {
            *buffer = Some(Box::new(loaded));
        }
    }
}

/// The state that the threads share. No change under the lock can be left incomplete, so a poisoned lock is usable.
struct Board {
    state: Mutex<State>,
    /// There is a job, or nothing more to do.
    jobs: Condvar,
    /// A buffer is ready.
    ready: Condvar,
}

struct State {
    queue: VecDeque<Job>,
    streams: Vec<Asked>,
    /// A thread has panicked.
    broken: bool,
    /// Threads that wait for jobs.
    idle: usize,
    /// The merging thread waits for a buffer.
    waits: bool,
    closed: bool,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut loader = Loader::default();
        loop {
            let Some(job) = self.next_job() else { return };
            let (stream, ticket) = (job.stream, job.ticket);
            // If this thread panics, the merging thread must not wait for its buffer.
            let guard = Breaks(self);
            let loaded = job.run(&mut loader);
            std::mem::forget(guard);
            let mut state = self.lock();
            state.streams[stream].put(ticket, loaded);
            if state.waits {
                self.ready.notify_one();
            }
        }
    }

    fn next_job(&self) -> Option<Job> {
        for _ in 0..LOOKS {
            let mut state = self.lock();
            if let Some(job) = state.queue.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            drop(state);
            std::hint::spin_loop();
        }
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            state = self.jobs.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

struct Breaks<'b>(&'b Board);

impl Drop for Breaks<'_> {
    fn drop(&mut self) {
        self.0.lock().broken = true;
        self.0.ready.notify_one();
    }
}

pub(crate) struct ReadAhead {
    board: Arc<Board>,
    waiting: u64,
    threads: Vec<JoinHandle<()>>,
}

impl ReadAhead {
    pub(crate) fn new(threads: usize, streams: usize) -> ReadAhead {
        let board = Arc::new(Board {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                streams: (0..streams).map(|_| Asked::default()).collect(),
                broken: false,
                idle: 0,
                waits: false,
                closed: false,
            }),
            jobs: Condvar::new(),
            ready: Condvar::new(),
        });
        let threads = (0..threads).map(|_| {
            let board = Arc::clone(&board);
            std::thread::spawn(move || board.work())
        });
        ReadAhead { threads: threads.collect(), board, waiting: 0 }
    }

    /// Buffers that were asked for and not taken yet.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting as usize
    }

    /// Whether one more buffer of this size may wait for a stream.
    pub(crate) fn has_room(&self, stream: usize, buffer_size: u32) -> bool {
        self.board.lock().streams[stream].buffers.len() < DEPTH
            && (self.waiting + 1) * u64::from(buffer_size.max(1)) <= MEMORY_LIMIT
    }

    pub(crate) fn request(
        &mut self,
        stream: usize,
        file: &TraceFile,
        cpu: u16,
        entry: Entry,
        spare: Spare,
    ) {
        let file = file.clone();
        let mut state = self.board.lock();
        let asked = &mut state.streams[stream];
        let ticket = asked.first_ticket + asked.buffers.len() as u64;
        asked.buffers.push_back(None);
        state.queue.push_back(Job { stream, ticket, file, cpu, entry, spare });
        self.waiting += 1;
        if state.idle > 0 {
            self.board.jobs.notify_one();
        }
    }

    /// The buffer that was requested. This thread loads it if no other has started.
    pub(crate) fn take(&mut self, stream: usize, loader: &mut Loader) -> Option<Loaded> {
        let mut looks = 0;
        let mut state = self.board.lock();
        loop {
            let asked = &mut state.streams[stream];
            let ticket = asked.first_ticket;
            if let Some(loaded) = asked.buffers.front_mut()?.take() {
                asked.buffers.pop_front();
                asked.first_ticket += 1;
                self.waiting -= 1;
                return Some(*loaded);
            }
            assert!(!state.broken, "a thread that reads ahead has died");
            // The wanted buffer if no thread has started it, else the next job.
            let is_wanted = |job: &Job| job.stream == stream && job.ticket == ticket;
            let wanted = state.queue.iter().position(is_wanted).unwrap_or(0);
            if let Some(job) = state.queue.remove(wanted) {
                drop(state);
                let (done, ticket) = (job.stream, job.ticket);
                let loaded = job.run(loader);
                state = self.board.lock();
                state.streams[done].put(ticket, loaded);
            } else if looks < LOOKS {
                looks += 1;
                drop(state);
                std::hint::spin_loop();
                state = self.board.lock();
            } else {
                state.waits = true;
                state = self.board.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.waits = false;
            }
        }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        let mut state = self.board.lock();
        state.closed = true;
        state.queue.clear();
        drop(state);
        self.board.jobs.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has printed its panic; `take` notices the missing buffer.
            let _ = thread.join();
        }
    }
}
