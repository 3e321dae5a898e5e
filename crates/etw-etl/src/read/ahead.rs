//! Threads that load buffers before they are needed.

use super::file::TraceFile;
use super::index::Entry;
use super::load::{Loaded, load};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Bytes of buffers that may wait together.
const MEMORY_LIMIT: u64 = 16 << 20;

struct Job {
    stream: usize,
    file: TraceFile,
    cpu: u16,
    entry: Entry,
    spare: Vec<u8>,
}

enum Slot {
    /// Nothing was asked for.
    Empty,
    /// A thread has it.
    Asked,
    Ready(Box<Loaded>),
}

pub(crate) struct ReadAhead {
    jobs: Option<Sender<Job>>,
    results: Receiver<(usize, Loaded)>,
    slots: Vec<Slot>,
    waiting: u64,
    threads: Vec<JoinHandle<()>>,
}

impl ReadAhead {
    pub(crate) fn new(threads: usize, streams: usize) -> ReadAhead {
        let (jobs, queue) = channel::<Job>();
        let (done, results) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let threads = (0..threads).map(|_| {
            let (queue, done) = (Arc::clone(&queue), done.clone());
            std::thread::spawn(move || {
                loop {
                    // The lock is held only while waiting; a poisoned one means that a sibling died.
                    let job = match queue.lock() {
                        Ok(queue) => queue.recv(),
                        Err(_) => return,
                    };
                    let Ok(Job { stream, file, cpu, entry, spare }) = job else { return };
                    let loaded = load(&file.core.load, cpu, entry, spare);
                    if done.send((stream, loaded)).is_err() {
                        return;
                    }
                }
            })
        });
        ReadAhead {
            threads: threads.collect(),
            jobs: Some(jobs),
            results,
            slots: (0..streams).map(|_| Slot::Empty).collect(),
            waiting: 0,
        }
    }

    /// Whether one more buffer of this size may wait.
    pub(crate) fn has_room(&self, buffer_size: u32) -> bool {
        (self.waiting + 1) * u64::from(buffer_size.max(1)) <= MEMORY_LIMIT
    }

    pub(crate) fn request(
        &mut self,
        stream: usize,
        file: &TraceFile,
        cpu: u16,
        entry: Entry,
        spare: Vec<u8>,
    ) {
        let job = Job { stream, file: file.clone(), cpu, entry, spare };
        if self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok()) {
            self.slots[stream] = Slot::Asked;
            self.waiting += 1;
        }
    }

    /// The buffer that was asked for; waits for it where it is not there yet.
    pub(crate) fn take(&mut self, stream: usize) -> Option<Loaded> {
        loop {
            match std::mem::replace(&mut self.slots[stream], Slot::Empty) {
                Slot::Empty => return None,
                Slot::Ready(loaded) => {
                    self.waiting -= 1;
                    return Some(*loaded);
                }
                Slot::Asked => self.slots[stream] = Slot::Asked,
            }
            let (done, loaded) = self.results.recv().ok()?;
            self.slots[done] = Slot::Ready(Box::new(loaded));
        }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
