//! The records of a trace in parts, each read by a thread of its own.
//!
//! A part has the records of a slice of time, merged from all streams; the parts one after the other are exactly what
//! [`Records`] reads. A boundary is the first moment at which every stream's next record is not before a time. Whatever
//! follows depends on the position of each stream at that moment only. A thread guesses these positions from the first records of buffers;
//! the part before finds the true ones. If they differ, the result of the guess is dropped, and the reader of the part before
//! reads on.

use super::file::TraceFile;
use super::merge::{Boundary, OrderTime, Place, Records, RecordsOptions, StoredRecord};
use super::slices::Slices;
use etw_types::{Clock, EventRecord};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of memory that a byte of the largest buffer can take: the buffer, and a list of the shortest records.
const MEMORY_FACTOR: u64 = 8;

/// Options of [`read_in_parts`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PartsOptions {
    /// Threads that read, the caller's included.
    pub threads: usize,
    /// Bytes of the files that a part takes; by itself 32 MiB, and more for many streams of large buffers.
    pub part_bytes: Option<u64>,
    /// Bytes that all open buffers of all threads may take.
    pub open_buffer_limit: u64,
}

impl Default for PartsOptions {
    fn default() -> PartsOptions {
        let open_buffer_limit = RecordsOptions::default().open_buffer_limit;
        PartsOptions { threads: 1, part_bytes: None, open_buffer_limit }
    }
}

/// The records of one slice of time.
pub struct Part<'p> {
    records: &'p mut Records,
}

impl Part<'_> {
    /// As [`Records::next`].
    #[inline(always)]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<EventRecord<'_>> {
        let mut place = None;
        if let Some(stored) = self.next_stored() {
            stored.record(&mut place);
        }
        place
    }

    /// As [`Records::next_stored`].
    #[inline(always)]
    pub fn next_stored(&mut self) -> Option<StoredRecord<'_>> {
        self.records.next_stored_until()
    }

    /// As [`Records::order_time`].
    #[inline]
    pub fn order_time(&self) -> Option<i64> {
        self.records.order_time()
    }

    /// As [`Records::stored_bytes`].
    #[inline]
    pub fn stored_bytes(&self) -> &[u8] {
        self.records.stored_bytes()
    }

    /// As [`Records::clock`].
    #[inline]
    pub fn clock(&self, file_index: u32) -> &Clock {
        self.records.clock(file_index)
    }

    /// The files, in the order of their numbers.
    pub fn files(&self) -> &[TraceFile] {
        self.records.files()
    }
}

/// The end of [`read_in_parts`].
#[non_exhaustive]
pub struct ReadInParts {
    /// The reader behind the last record, with the damage and the counts of the whole trace.
    pub records: Records,
    /// Parts that were read.
    pub parts: u64,
    /// Parts that were read a second time, since they did not begin where the part before ended.
    pub repeated: u64,
}

/// Reads `files` in the order of [`Records::with_options`], in parts on several threads.
///
/// `read` makes a value of the records of a part; records that it leaves are passed over. `fold` gets the values in the order of
/// the parts. The value of a part that has to be read again is dropped, so `read` must have no effect but its value.
pub fn read_in_parts<T: Send>(
    files: Vec<TraceFile>,
    options: PartsOptions,
    read: impl Fn(&mut Part<'_>) -> T + Sync,
    fold: impl FnMut(T) + Send,
) -> ReadInParts {
    let time = if files.len() == 1 { OrderTime::Raw } else { OrderTime::FileTime };
    let times = vec![time; files.len()];
    // Parts that are read or wait, one more than threads, and the end of the one before them have a buffer of each stream each.
    let largest = files.iter().map(|file| {
        let totals = file.totals();
        totals.streams as u64 * MEMORY_FACTOR * u64::from(totals.largest_buffer.max(1 << 16))
    });
    let most = options.open_buffer_limit / largest.sum::<u64>().max(1);
    let slices = Slices::new(&files, &times, options.part_bytes);
    let threads = match slices {
        Some(_) => (options.threads as u64).min(most.saturating_sub(2)).max(1) as usize,
        None => 1,
    };
    let readers = if threads == 1 { 1 } else { threads as u64 + 2 };
    let record_options = RecordsOptions {
        open_buffer_limit: options.open_buffer_limit / readers,
        ..RecordsOptions::default()
    };
    let first = Records::with_times(files.clone(), times.clone(), record_options);
    let reading = Reading {
        files,
        times,
        options: record_options,
        window: threads as u64 + 1,
        read,
        fold: Mutex::new(fold),
        board: Mutex::new(Board {
            slices,
            next: 0,
            boundary: None,
            accepted: 0,
            is_accepting: false,
            end: Some(first),
            waiting: BTreeMap::new(),
            is_last_taken: false,
            is_broken: false,
            repeated: 0,
        }),
        changed: Condvar::new(),
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| reading.work());
        }
        reading.work();
    });
    let board = reading.board.into_inner().unwrap_or_else(PoisonError::into_inner);
    let Some(mut records) = board.end else { unreachable!("the last part leaves its reader") };
    records.finish();
    ReadInParts { records, parts: board.accepted, repeated: board.repeated }
}

/// The state that the threads share. No change under the lock can be left incomplete.
struct Board<T> {
    slices: Option<Slices>,
    /// The number of the next part.
    next: u64,
    /// Where it is expected to begin.
    boundary: Option<Arc<Boundary>>,
    /// Parts whose values were folded.
    accepted: u64,
    /// A thread folds, or reads a part again.
    is_accepting: bool,
    /// The reader at the end of the parts accepted; none while the next part reads on with it.
    end: Option<Records>,
    waiting: BTreeMap<u64, Finished<T>>,
    is_last_taken: bool,
    /// A thread has panicked.
    is_broken: bool,
    repeated: u64,
}

impl<T> Board<T> {
    /// Whether a reader stands where the next part begins.
    fn is_next_known(&self) -> bool {
        self.accepted == self.next && !self.is_accepting && self.end.is_some()
    }

    /// Whether reading from guesses is a waste, as for records without times.
    fn is_guessed_badly(&self) -> bool {
        self.repeated > 2 + self.accepted / 4
    }
}

/// A part to read.
struct Job {
    number: u64,
    until: Option<i64>,
    start: Start,
}

enum Start {
    /// The reader stands there.
    Known(Box<Records>),
    Guess(Arc<Boundary>),
}

/// A part that was read.
struct Finished<T> {
    /// Where it began, if that was a guess.
    guess: Option<Vec<Place>>,
    until: Option<i64>,
    value: T,
    records: Records,
}

struct Reading<T, R, F> {
    files: Vec<TraceFile>,
    times: Vec<OrderTime>,
    options: RecordsOptions,
    /// Parts behind the last one accepted that may be read or wait.
    window: u64,
    read: R,
    fold: Mutex<F>,
    board: Mutex<Board<T>>,
    changed: Condvar,
}

/// Wakes the other threads if this one panics: they would wait for its part.
struct Breaks<'r, T, R, F>(&'r Reading<T, R, F>);

impl<T, R, F> Drop for Breaks<'_, T, R, F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().is_broken = true;
            self.0.changed.notify_all();
        }
    }
}

impl<T, R, F> Reading<T, R, F> {
    fn lock(&self) -> MutexGuard<'_, Board<T>> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn may_take(&self, board: &Board<T>) -> bool {
        let has_room = board.next < board.accepted + self.window;
        board.is_next_known() || (has_room && !board.is_guessed_badly())
    }

    /// The next part, once it may be read.
    fn take(&self) -> Option<Job> {
        let mut board = self.lock();
        while !board.is_broken && !board.is_last_taken && !self.may_take(&board) {
            board = self.changed.wait(board).unwrap_or_else(PoisonError::into_inner);
        }
        if board.is_broken || board.is_last_taken {
            return None;
        }
        let number = board.next;
        let is_known = board.is_next_known();
        let start = match board.end.take_if(|_| is_known) {
            Some(records) => Start::Known(Box::new(records)),
            None => Start::Guess(board.boundary.clone()?),
        };
        board.boundary = board.slices.as_mut().and_then(Slices::next).map(Arc::new);
        board.is_last_taken = board.boundary.is_none();
        board.next += 1;
        let until = board.boundary.as_ref().map(|boundary| boundary.time);
        Some(Job { number, until, start })
    }
}

impl<T, R, F> Reading<T, R, F>
where
    R: Fn(&mut Part<'_>) -> T,
    F: FnMut(T),
{
    fn work(&self) {
        let _guard = Breaks(self);
        while let Some(Job { number, until, start }) = self.take() {
            let (records, guess) = match start {
                Start::Known(records) => (*records, None),
                Start::Guess(boundary) => {
                    let (files, times) = (self.files.clone(), self.times.clone());
                    let records = Records::from_boundary(files, times, self.options, &boundary);
                    let places = records.places();
                    (records, Some(places))
                }
            };
            let (value, records) = self.read_part(records, until);
            self.lock().waiting.insert(number, Finished { guess, until, value, records });
            self.accept();
        }
    }

    fn read_part(&self, mut records: Records, until: Option<i64>) -> (T, Records) {
        records.set_until(until);
        let mut part = Part { records: &mut records };
        let value = (self.read)(&mut part);
        while part.next().is_some() {}
        (value, records)
    }

    /// Folds the values of the parts that are next, unless another thread does.
    fn accept(&self) {
        let mut board = self.lock();
        if board.is_accepting {
            return;
        }
        loop {
            let number = board.accepted;
            let Some(part) = board.waiting.remove(&number) else { break };
            board.is_accepting = true;
            let end = board.end.take();
            drop(board);
            let (value, records, is_repeated) = self.verified(part, end);
            self.fold.lock().unwrap_or_else(PoisonError::into_inner)(value);
            board = self.lock();
            board.end = Some(records);
            board.accepted += 1;
            board.repeated += u64::from(is_repeated);
            board.is_accepting = false;
            self.changed.notify_all();
        }
    }

    /// The part, read again if it did not begin where the one before ended.
    fn verified(&self, part: Finished<T>, end: Option<Records>) -> (T, Records, bool) {
        let Finished { guess, until, value, mut records } = part;
        match (guess, end) {
            (Some(guess), Some(end)) if guess != end.places() => {
                drop((value, records));
                let (value, records) = self.read_part(end, until);
                (value, records, true)
            }
            (_, Some(end)) => {
                records.take_reports(end);
                (value, records, false)
            }
            (_, None) => (value, records, false),
        }
    }
}
