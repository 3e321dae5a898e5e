//! [`Compressor`]: compresses buffers on two threads, and gives them back in order.

use super::{BufferBuilder, CompressedBuffer};
use crate::lzxpress::Level;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

/// Buffers that wait for the helper.
const QUEUE: usize = 2;
/// Buffers that are compressed or wait for one before them.
const MOST: usize = 6;

/// Compresses buffers, with or without a thread that helps.
///
/// A buffer goes to the helper. While the helper has enough of them, the thread that gives the next one compresses it: so both are
/// busy, whichever of them is faster.
pub(super) struct Compressor {
    level: Level,
    jobs: Option<SyncSender<Job>>,
    /// Buffers in their order.
    waiting: VecDeque<Slot>,
    spares: Vec<CompressedBuffer>,
}

/// A buffer, and its compressed form.
pub(super) struct Compressed {
    pub buffer: BufferBuilder,
    pub compressed: CompressedBuffer,
}

struct Job {
    work: Compressed,
    done: SyncSender<Compressed>,
}

enum Slot {
    Ready(Compressed),
    Helper(Receiver<Compressed>),
}

impl Compressor {
    pub fn new(level: Level, has_helper: bool) -> Compressor {
        let jobs = if has_helper { start(level) } else { None };
        Compressor { level, jobs, waiting: VecDeque::new(), spares: Vec::new() }
    }

    /// Takes the next buffer.
    pub fn push(&mut self, buffer: BufferBuilder) {
        let compressed = self.spares.pop().unwrap_or_default();
        let work = Compressed { buffer, compressed };
        let slot = match &self.jobs {
            None => Slot::Ready(compress(work, self.level)),
            Some(jobs) => {
                let (done, result) = sync_channel(1);
                match jobs.try_send(Job { work, done }) {
                    Ok(()) => Slot::Helper(result),
                    Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => {
                        Slot::Ready(compress(job.work, self.level))
                    }
                }
            }
        };
        self.waiting.push_back(slot);
    }

    /// Returns the next compressed buffer in order. Without `all`, it does not wait for one unless too many are waiting.
    ///
    /// `Err`: the helper panicked.
    pub fn pop(&mut self, all: bool) -> Result<Option<Compressed>, HelperFailed> {
        let must = all || self.waiting.len() > MOST;
        match self.waiting.pop_front() {
            None => Ok(None),
            Some(Slot::Ready(one)) => Ok(Some(one)),
            Some(Slot::Helper(result)) if must => result.recv().map(Some).map_err(|_| HelperFailed),
            Some(Slot::Helper(result)) => match result.try_recv() {
                Ok(one) => Ok(Some(one)),
                // A helper that failed is found by the one who has to wait for it.
                Err(_) => {
                    self.waiting.push_front(Slot::Helper(result));
                    Ok(None)
                }
            },
        }
    }

    /// Takes the memory of a buffer that was written.
    pub fn recycle(&mut self, compressed: CompressedBuffer) {
        self.spares.push(compressed);
    }
}

/// The thread that helps has panicked.
#[derive(Debug)]
pub(super) struct HelperFailed;

fn compress(mut work: Compressed, level: Level) -> Compressed {
    work.buffer.compress_into(&mut work.compressed, level);
    work
}

/// Starts the helper, which ends with the last sender. `None`: the system has no thread for it.
fn start(level: Level) -> Option<SyncSender<Job>> {
    let (jobs, queue) = sync_channel::<Job>(QUEUE);
    let run = move || {
        for Job { work, done } in queue {
            // A writer that gave up takes no result.
            let _ = done.send(compress(work, level));
        }
    };
    thread::Builder::new().name("etl-compress".into()).spawn(run).ok()?;
    Some(jobs)
}
