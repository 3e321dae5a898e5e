//! The storage thread, which writes a session's buffers while the engine drains.

use std::collections::VecDeque;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use etw_session::{Compression, Cut, FullBuffer};
use etw_types::BufferHeader;

use crate::auto_compression::AutoCompression;
use crate::files::{Closing, Files, How};
use crate::output_file::Piece;

/// Receives whole buffers, as they are in files.
pub type Consumer = Box<dyn FnMut(&[u8]) + Send>;

/// Memory of one session buffer: on the heap, in the `.part` file, or in memory that the keeper holds.
pub use etw_ring::Region as BufferMemory;

/// A buffer on its way to a file.
pub type Full = FullBuffer<BufferMemory>;

/// The destination of buffers.
pub enum Destination {
    /// Files.
    Files(Box<Files>),
    /// A consumer in this process.
    Consumer(Consumer),
    /// A consumer that panicked; it is not called again.
    Panicked,
}

fn consumer_panicked() -> io::Error {
    io::Error::other("the session's consumer panicked")
}

enum Job {
    Store(Full),
    /// Completes the files and continues in others.
    Switch(Closing, Box<Files>),
    Header(Closing),
    /// Completes the files and ends the thread.
    Finish(Closing),
}

/// Results of the storage.
#[derive(Default)]
pub struct Done {
    /// Buffers that were stored, or could not be.
    pub buffers: Vec<(Full, io::Result<()>)>,
    /// Ends of files that other processes have cut off.
    pub cuts: Vec<Cut>,
}

/// The jobs for which the storage thread waits.
#[derive(Clone, Copy, Default)]
enum Awaited {
    /// None: it works.
    #[default]
    Nothing,
    One,
    /// As many as one write takes.
    Write,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    awaited: Awaited,
    done: Done,
    /// Headers that were brought up to date.
    headers: u64,
    switched: Vec<io::Result<()>>,
    /// The header of a file of a series that is completed now.
    closing: Closing,
    /// Fewer than half of the session's buffers were free with the last one queued.
    is_pressed: bool,
    finished: Option<io::Result<()>>,
    ended: bool,
}

impl Queue {
    /// Whether the next write waits for no more buffers: it is large, the session needs those that are queued, or something else is to be done.
    fn has_write(&self) -> bool {
        let sizes = self.jobs.iter().map(|job| match job {
            Job::Store(full) => Some(full.bytes().len()),
            _ => None,
        });
        let size = sizes.sum::<Option<usize>>();
        self.is_pressed || self.ended || size.is_none_or(|size| size >= GATHERED_SIZE)
    }

    /// Whether the thread waits for the queue as it is now.
    fn is_awaited(&self) -> bool {
        match self.awaited {
            Awaited::Nothing => false,
            Awaited::One => true,
            Awaited::Write => self.has_write(),
        }
    }
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// Writes buffers in the order in which they arrive.
pub struct Storage {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Storage")
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, Queue> {
    shared.queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Storage {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system refused a thread.
    pub fn start(destination: Destination) -> io::Result<Storage> {
        let shared = Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new() });
        let theirs = shared.clone();
        let thread = crate::spawn("etw-storage", move || run(&theirs, destination))?;
        Ok(Storage { shared, thread: Some(thread) })
    }

    /// Queues a buffer. `closing`: the header of its file, if it is completed before the buffer. `is_pressed`: fewer than half of
    /// the session's buffers are free.
    pub fn store(&self, full: Full, closing: Closing, is_pressed: bool) {
        let mut queue = lock(&self.shared);
        queue.jobs.push_back(Job::Store(full));
        (queue.closing, queue.is_pressed) = (closing, is_pressed);
        let is_awaited = queue.is_awaited();
        drop(queue);
        // A wake-up takes as long as the records of many buffers.
        if is_awaited {
            self.shared.changed.notify_all();
        }
    }

    /// Queues an update of the current file's header.
    pub fn update_header(&self, closing: Closing) {
        lock(&self.shared).jobs.push_back(Job::Header(closing));
        self.shared.changed.notify_all();
    }

    /// Continues in other files. The files before are completed when all buffers queued so far are stored.
    pub fn switch(&self, closing: Closing, files: Files) {
        lock(&self.shared).jobs.push_back(Job::Switch(closing, Box::new(files)));
        self.shared.changed.notify_all();
    }

    /// Results of completing the files before a [`switch`](Self::switch), since the last call, in order.
    pub fn take_switched(&self) -> Vec<io::Result<()>> {
        std::mem::take(&mut lock(&self.shared).switched)
    }

    /// Number of headers that were brought up to date.
    pub fn header_count(&self) -> u64 {
        lock(&self.shared).headers
    }

    /// Results since the last call.
    pub fn take_done(&self) -> Done {
        std::mem::take(&mut lock(&self.shared).done)
    }

    /// As [`take_done`](Storage::take_done), but waits for a buffer if there is none.
    pub fn wait_done(&self, timeout: std::time::Duration) -> Done {
        let queue = lock(&self.shared);
        let (mut queue, _) = self
            .shared
            .changed
            .wait_timeout_while(queue, timeout, |queue| {
                queue.done.buffers.is_empty() && queue.switched.is_empty() && !queue.ended
            })
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut queue.done)
    }

    /// Completes the files. All buffers must have come back before.
    ///
    /// # Errors
    /// Those of completing the header.
    pub fn finish(mut self, closing: Closing) -> io::Result<()> {
        lock(&self.shared).jobs.push_back(Job::Finish(closing));
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic was printed by its hook; the files are then not complete.
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

fn run(shared: &Shared, mut destination: Destination) {
    // Sequence number of the last buffer that was written.
    let mut last_sequence = i64::MIN;
    let mut auto = AutoCompression::default();
    let mut last_write = None;
    loop {
        let mut queue = lock(shared);
        queue.awaited = Awaited::One;
        let mut queue = shared
            .changed
            .wait_while(queue, |queue| queue.jobs.is_empty() && !queue.ended)
            .unwrap_or_else(PoisonError::into_inner);
        let is_plain = |files: &Files| !files.compression().is_possible();
        if matches!(&destination, Destination::Files(files) if is_plain(files)) {
            let is_stream = last_write.is_some_and(|last: Instant| last.elapsed() < GATHERING);
            if is_stream {
                queue = gather(shared, queue, GATHERING);
            }
            last_write = Some(Instant::now());
        }
        queue.awaited = Awaited::Nothing;
        let Some(job) = queue.jobs.pop_front() else { return };
        let (closing, is_pressed, waiting) = (queue.closing, queue.is_pressed, queue.jobs.len());
        drop(queue);
        match job {
            Job::Store(full) => {
                let done = match &mut destination {
                    Destination::Files(files) => {
                        let start = Instant::now();
                        let compresses = match files.compression() {
                            Compression::Auto => auto.compresses(waiting, is_pressed, start),
                            compression => compression.is_possible(),
                        };
                        // Compressed buffers have no slots, so a failed write cannot be repeated for each.
                        let (batch, in_a_hurry) = match compresses {
                            true => (vec![full], false),
                            false => following(shared, full),
                        };
                        let next = batch.last().map_or(last_sequence, Full::sequence);
                        let size = batch.iter().map(|full| full.bytes().len()).sum();
                        let start = Instant::now();
                        let done = store(files, batch, closing, How { in_a_hurry, compresses });
                        auto.took(compresses, size, start.elapsed());
                        report_cut(shared, files, last_sequence);
                        last_sequence = next;
                        done
                    }
                    Destination::Consumer(consumer) => {
                        let mut bytes = full.bytes().to_vec();
                        bytes[..BufferHeader::SIZE].copy_from_slice(&full.header());
                        // A panic was printed by its hook. The consumer is not called again.
                        let call = || consumer(&bytes);
                        let result = std::panic::catch_unwind(AssertUnwindSafe(call));
                        if result.is_err() {
                            destination = Destination::Panicked;
                        }
                        vec![(full, result.map_err(|_| consumer_panicked()))]
                    }
                    Destination::Panicked => vec![(full, Err(consumer_panicked()))],
                };
                lock(shared).done.buffers.extend(done);
                shared.changed.notify_all();
            }
            Job::Switch(closing, next) => {
                let result = match &mut destination {
                    Destination::Files(files) => files.finish(closing),
                    Destination::Consumer(_) | Destination::Panicked => Ok(()),
                };
                destination = Destination::Files(next);
                lock(shared).switched.push(result);
                shared.changed.notify_all();
            }
            Job::Header(closing) => {
                if let Destination::Files(files) = &mut destination {
                    // The header is rewritten twice a second; the error of the last time is reported.
                    let _ = files.write_header(closing);
                    report_cut(shared, files, last_sequence);
                }
                lock(shared).headers += 1;
                shared.changed.notify_all();
            }
            Job::Finish(closing) => {
                let result = match &mut destination {
                    Destination::Files(files) => files.finish(closing),
                    Destination::Consumer(_) => Ok(()),
                    Destination::Panicked => Err(consumer_panicked()),
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

/// Reports what another process has cut off a file, before the buffers that were written later.
fn report_cut(shared: &Shared, files: &mut Files, last_sequence: i64) {
    if let Some(cut) = files.take_cut() {
        lock(shared).done.cuts.push(Cut { last_sequence, ..cut });
    }
}

/// A write has a cost of its own that is that of several buffers of the usual size: while buffers keep coming, the thread waits
/// for so many bytes of them.
const GATHERED_SIZE: usize = 1 << 20;
/// The wait for them. Buffers that come more seldom are written at once.
const GATHERING: Duration = Duration::from_millis(50);

/// Waits for more buffers, for `time` at most.
fn gather<'q>(
    shared: &'q Shared,
    mut queue: MutexGuard<'q, Queue>,
    time: Duration,
) -> MutexGuard<'q, Queue> {
    queue.awaited = Awaited::Write;
    let waited = shared.changed.wait_timeout_while(queue, time, |queue| !queue.has_write());
    waited.unwrap_or_else(PoisonError::into_inner).0
}

/// Bytes and buffers of one write.
const WRITE_SIZE: usize = 4 << 20;
const WRITE_BUFFERS: usize = 64;

/// The buffer and the queued ones that follow it in its file; and whether the session waits for them.
fn following(shared: &Shared, first: Full) -> (Vec<Full>, bool) {
    let mut queue = lock(shared);
    let mut batch = vec![first];
    let mut size = batch[0].bytes().len();
    while let Some(Job::Store(next)) = queue.jobs.front() {
        let (last, place) = (batch[batch.len() - 1].place(), next.place());
        let follows = (place.file, place.slot) == (last.file, last.slot + 1);
        if !follows || size + next.bytes().len() > WRITE_SIZE || batch.len() >= WRITE_BUFFERS {
            break;
        }
        if let Some(Job::Store(next)) = queue.jobs.pop_front() {
            size += next.bytes().len();
            batch.push(next);
        }
    }
    let in_a_hurry = queue.is_pressed && (batch.len() > 1 || !queue.jobs.is_empty());
    (batch, in_a_hurry)
}

fn store(
    files: &mut Files,
    batch: Vec<Full>,
    closing: Closing,
    how: How,
) -> Vec<(Full, io::Result<()>)> {
    let headers: Vec<_> = batch.iter().map(Full::header).collect();
    let pieces: Vec<_> = headers
        .iter()
        .zip(&batch)
        .map(|(header, full)| {
            let (bytes, leaves_mark) = (full.bytes(), full.leaves_mark());
            Piece { header, bytes, leaves_mark }
        })
        .collect();
    let place = batch[0].place();
    let all = files.store_all(place.file, place.slot, &pieces, closing, how);
    let results: Vec<_> = match all {
        Ok(()) => batch.iter().map(|_| Ok(())).collect(),
        Err(error) if batch.len() == 1 => vec![Err(error)],
        // Written one by one, those that can be stored are.
        Err(_) => batch
            .iter()
            .zip(&pieces)
            .map(|(full, piece)| {
                let place = full.place();
                let piece = std::slice::from_ref(piece);
                files.store_all(place.file, place.slot, piece, closing, how)
            })
            .collect(),
    };
    batch.into_iter().zip(results).collect()
}

#[cfg(test)]
mod tests {
    use etw_session::{Event, HostFacts, Session, SessionConfig};

    use super::*;

    /// A full buffer of so many bytes.
    fn full(size: usize) -> Full {
        let config = SessionConfig {
            file: Some("x.etl".into()),
            buffer_size: size as u32,
            ..SessionConfig::default()
        };
        let memory = (0..2).map(|_| BufferMemory::heap(size).unwrap()).collect();
        let mut session = Session::new(&config, HostFacts::default(), memory).unwrap();
        session.push(&Event::default()).unwrap();
        session.flush(0);
        session.seal(1);
        session.take_full().unwrap()
    }

    fn shared(jobs: impl IntoIterator<Item = Job>) -> Shared {
        let queue = Queue { jobs: jobs.into_iter().collect(), ..Queue::default() };
        Shared { queue: Mutex::new(queue), changed: Condvar::new() }
    }

    const FOR_EVER: Duration = Duration::from_secs(1 << 32);

    /// Buffers that come one soon after the other are written together.
    #[test]
    fn a_write_waits_for_as_many_bytes_as_it_is_worth() {
        const SIZE: usize = GATHERED_SIZE / 4;
        let shared = shared([Job::Store(full(SIZE))]);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| gather(&shared, lock(&shared), FOR_EVER).jobs.len());
            for _ in 0..3 {
                assert!(!waiting.is_finished());
                lock(&shared).jobs.push_back(Job::Store(full(SIZE)));
                shared.changed.notify_all();
            }
            assert_eq!(waiting.join().unwrap(), 4);
        });
    }

    /// Nobody waits for buffers that the session needs, or for the end of a session.
    #[test]
    fn a_write_that_somebody_waits_for_is_not_delayed() {
        let closing = Closing::default;
        for other in [Job::Finish(closing()), Job::Header(closing())] {
            let shared = shared([Job::Store(full(4096)), other]);
            assert_eq!(gather(&shared, lock(&shared), FOR_EVER).jobs.len(), 2);
        }
        let shared = shared([Job::Store(full(4096))]);
        lock(&shared).is_pressed = true;
        assert_eq!(gather(&shared, lock(&shared), FOR_EVER).jobs.len(), 1);
        (lock(&shared).is_pressed, lock(&shared).ended) = (false, true);
        assert_eq!(gather(&shared, lock(&shared), FOR_EVER).jobs.len(), 1);
        lock(&shared).ended = false;
        assert_eq!(
            gather(&shared, lock(&shared), Duration::ZERO).jobs.len(),
            1,
            "the time is over"
        );
    }
}
