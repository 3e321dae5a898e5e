//! The thread that writes a session's buffers, so that draining goes on meanwhile.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use etw_session::FullBuffer;

use crate::file::{Closing, Files};
use crate::private::Consumer;

/// Memory of one session buffer: on the heap, or in the `.part` file.
#[derive(Debug)]
pub enum BufferMemory {
    /// Dies with the process.
    Heap(Box<[u8]>),
    /// Outlives it.
    Mapped(etw_ring::Region),
}

impl AsRef<[u8]> for BufferMemory {
    fn as_ref(&self) -> &[u8] {
        match self {
            BufferMemory::Heap(bytes) => bytes,
            BufferMemory::Mapped(region) => region.as_ref(),
        }
    }
}

impl AsMut<[u8]> for BufferMemory {
    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            BufferMemory::Heap(bytes) => bytes,
            BufferMemory::Mapped(region) => region.as_mut(),
        }
    }
}

pub(crate) type Full = FullBuffer<BufferMemory>;

/// Where buffers go.
pub(crate) enum Sink {
    Files(Box<Files>),
    Consumer(Consumer),
}

enum Job {
    Store(Full),
    Header(Closing),
    /// Completes the files; the answer ends [`Storage::finish`].
    Finish(Closing),
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    done: Vec<(Full, io::Result<()>)>,
    /// What the header says when a file of a series ends.
    closing: Closing,
    finished: Option<io::Result<()>>,
    ended: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// Writes buffers in the order in which they are given.
pub(crate) struct Storage {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

fn lock(shared: &Shared) -> MutexGuard<'_, Queue> {
    shared.queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Storage {
    /// Starts the thread. `name`: of the session, for the thread's name.
    ///
    /// # Errors
    /// No thread could be made.
    pub fn start(sink: Sink) -> io::Result<Storage> {
        let shared = Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new() });
        let theirs = shared.clone();
        let thread = crate::spawn("etw-storage", move || run(&theirs, sink))?;
        Ok(Storage { shared, thread: Some(thread) })
    }

    /// Gives a buffer to be written; `closing` is what the header would say if its file ended here.
    pub fn store(&self, full: Full, closing: Closing) {
        let mut queue = lock(&self.shared);
        queue.jobs.push_back(Job::Store(full));
        queue.closing = closing;
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// Rewrites the header of the file as it is.
    pub fn update_header(&self, closing: Closing) {
        lock(&self.shared).jobs.push_back(Job::Header(closing));
        self.shared.changed.notify_all();
    }

    /// What has been written, or not, since the last call.
    pub fn take_done(&self) -> Vec<(Full, io::Result<()>)> {
        std::mem::take(&mut lock(&self.shared).done)
    }

    /// As [`take_done`](Storage::take_done), but waits for a buffer if there is none.
    pub fn wait_done(&self, timeout: std::time::Duration) -> Vec<(Full, io::Result<()>)> {
        let queue = lock(&self.shared);
        let (mut queue, _) = self
            .shared
            .changed
            .wait_timeout_while(queue, timeout, |queue| queue.done.is_empty() && !queue.ended)
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut queue.done)
    }

    /// Completes the files. Everything given must have come back before.
    ///
    /// # Errors
    /// What the system said of the header.
    pub fn finish(mut self, closing: Closing) -> io::Result<()> {
        lock(&self.shared).jobs.push_back(Job::Finish(closing));
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so; its files are then not complete.
            let _ = thread.join();
        }
        lock(&self.shared).finished.take().unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        lock(&self.shared).ended = true;
        self.shared.changed.notify_all();
    }
}

fn run(shared: &Shared, mut sink: Sink) {
    loop {
        let queue = lock(shared);
        let mut queue = shared
            .changed
            .wait_while(queue, |queue| queue.jobs.is_empty() && !queue.ended)
            .unwrap_or_else(PoisonError::into_inner);
        let Some(job) = queue.jobs.pop_front() else { return };
        let closing = queue.closing;
        drop(queue);
        match job {
            Job::Store(full) => {
                let place = full.place();
                let result = match &mut sink {
                    Sink::Files(files) => {
                        files.store(place.file, place.slot, &full.header(), full.bytes(), closing)
                    }
                    Sink::Consumer(consumer) => {
                        let mut bytes = full.bytes().to_vec();
                        bytes[..72].copy_from_slice(&full.header());
                        consumer(&bytes);
                        Ok(())
                    }
                };
                lock(shared).done.push((full, result));
                shared.changed.notify_all();
            }
            Job::Header(closing) => {
                if let Sink::Files(files) = &mut sink {
                    // It is rewritten again and again; the last one's error is told.
                    let _ = files.write_header(closing);
                }
            }
            Job::Finish(closing) => {
                let result = match &mut sink {
                    Sink::Files(files) => files.finish(closing),
                    Sink::Consumer(_) => Ok(()),
                };
                let mut queue = lock(shared);
                queue.finished = Some(result);
                queue.ended = true;
                drop(queue);
                shared.changed.notify_all();
                return;
            }
        }
    }
}
