//! Formatting on several threads, with the same bytes as on one.
//!
//! ```text
//! each thread:  take the next batch ──► format it ──► hand its text over
//!               one at a time                         one writes, in order
//! ```
//!
//! All threads do the same, so none waits while another one has more to do, and a batch stays in the caches of one
//! processor. The reader merges and copies records into batches. What a record decodes to depends on the schemas before it, so
//! the reader learns them too, and every batch carries the store as it was at its start; inside a batch the decoder
//! learns on. Batches are few and bounded, so memory does not grow with the trace.

use crate::event_kinds::EventKinds;
use crate::filter_names::FilterNames;
use crate::format::{FileFacts, Heads, Options};
use crate::output::{Failure, Output, Progress};
use crate::stored_records::StoredRecords;
use crate::where_filter::Filter;
use etw_decode::{Catalog, Decoder, Store};
use etw_etl::read::{Records, TraceFile};
use etw_types::{Clock, FileTime};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

/// A batch is closed at this many records, …
const BATCH_RECORDS: usize = 512;
/// … or at this many bytes.
const BATCH_BYTES: usize = 256 << 10;

/// Bytes of text for a byte of records, for most traces.
const TEXT_FACTOR: usize = 5;

/// Looks at the reader's lock before a thread sleeps, some tens of microseconds in all, …
const LOOKS: u32 = 128;
/// … and pauses between two of them.
const PAUSES: u32 = 16;

/// Bytes of compiled schemas that all threads together keep, …
const CACHED_BYTES: usize = 32 << 20;
/// … but each at least so many.
const CACHED_BYTES_OF_THREAD: usize = 8 << 20;

/// The selection of records, and their decoding.
pub struct Selection {
    /// First time.
    pub from: Option<FileTime>,
    /// Last time.
    pub to: Option<FileTime>,
    /// At most so many.
    pub limit: Option<u64>,
    /// Only the last so many.
    pub tail: Option<usize>,
    /// Schemas gathered before; learning goes on if there are none.
    pub gathered: Option<Arc<Store>>,
    /// Schemas that the user named.
    pub catalog: Arc<Catalog>,
    /// Schemas that the user keeps.
    pub own: Arc<Catalog>,
    /// `--where`.
    pub filter: Option<Filter>,
    /// Owners and files of records, for the filter.
    pub filter_names: FilterNames,
}

impl Selection {
    /// A decoder with the selection's schemas.
    pub fn decoder(&self) -> Decoder {
        let mut decoder = Decoder::with_store(self.gathered.clone().unwrap_or_default());
        decoder.set_learning(self.gathered.is_none());
        decoder.set_catalog(self.catalog.clone());
        decoder.set_own_catalog(self.own.clone());
        decoder
    }

    /// Whether a raw time is between the first and the last one.
    fn has_time(&self, clock: &Clock, raw: i64) -> bool {
        clock.filetime(raw).is_some_and(|time| {
            self.from.is_none_or(|from| time >= from) && self.to.is_none_or(|to| time <= to)
        })
    }
}

/// The result of a run.
pub struct Shown {
    /// Records that were written.
    pub count: u64,
    /// Kinds of the records that were read, as long as notes on the filter needed them.
    pub kinds: EventKinds,
    /// The schemas in these records.
    pub store: Arc<Store>,
}

/// Writes the records of `records` to `output`. Of `threads`, [`most_threads`] have something to do.
pub fn run(
    records: &mut Records,
    selection: &Selection,
    options: &Options,
    threads: usize,
    output: &mut Output,
) -> Result<Shown, Failure> {
    let facts: Vec<FileFacts> = records.files().iter().map(file_facts).collect();
    let shared = Shared { files: records.files().to_vec(), facts, options, selection };
    output.expect_much();
    output.write(options.prologue().as_bytes())?;
    let mut reader = Reader::new(records, selection);
    if output.is_on_terminal() {
        reader.progress.hide();
    }
    let source = Mutex::new(Source { reader, batches: 0 });
    let texts = Texts::new(Sink { output, limit: Limit::of(selection) }, threads);
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| format_batches(&source, &shared, threads, &texts));
        }
        format_batches(&source, &shared, threads, &texts);
    });
    let Source { reader, .. } = source.into_inner().unwrap_or_else(PoisonError::into_inner);
    let Sink { output, mut limit } = texts.finish()?;
    for text in limit.last.drain(..) {
        output.write(&text)?;
    }
    output.write(options.epilogue().as_bytes())?;
    output.finish()?;
    Ok(Shown { count: limit.shown, kinds: reader.kinds, store: reader.store })
}

/// The threads that have a whole batch to format. To start one takes as long as to format a small trace.
pub fn most_threads(files: &[TraceFile]) -> usize {
    let size =
        |file: &TraceFile| std::fs::metadata(file.path()).map_or(u64::MAX, |data| data.len());
    let size = files.iter().map(size).fold(0, u64::saturating_add);
    usize::try_from(size / BATCH_BYTES as u64).map_or(usize::MAX, |whole| whole.max(1))
}

fn file_facts(file: &TraceFile) -> FileFacts {
    let timer_resolution = file.header().map_or(0, |header| header.timer_resolution);
    FileFacts { clock: *file.clock(), timer_resolution }
}

/// Takes batches, formats them and hands their texts over, until there is no more or nobody wants more.
fn format_batches(
    source: &Mutex<Source<'_>>,
    shared: &Shared<'_>,
    threads: usize,
    texts: &Texts<'_>,
) {
    // If this thread panics, the others must not wait for its batch.
    let guard = Stops(texts);
    let mut formatter = Formatter::of(shared.selection, threads);
    let mut batch = Batch::default();
    let mut rendered = Rendered::default();
    while let Some(number) = next_batch(source, texts, &mut batch) {
        rendered.clear();
        // To grow step by step costs copies and calls of the system.
        rendered.text.reserve(TEXT_FACTOR * batch.records.size());
        shared.format(&mut formatter, &batch, &mut rendered);
        match texts.put(number, rendered) {
            Some(spare) => rendered = spare,
            None => break,
        }
    }
    std::mem::forget(guard);
}

/// Fills the batch. Returns its number; `None` at the end.
fn next_batch(source: &Mutex<Source<'_>>, texts: &Texts<'_>, batch: &mut Batch) -> Option<u64> {
    // A thread that panicked here stopped all others.
    let mut source = lock_soon(source)?;
    if texts.lock().is_stopped || !source.reader.fill(batch) {
        return None;
    }
    source.batches += 1;
    Some(source.batches - 1)
}

/// Locks what another thread soon unlocks: to wake a thread that sleeps takes as long as to read a third of a batch. `None` after a panic.
fn lock_soon<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..LOOKS {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(_)) => return None,
            Err(TryLockError::WouldBlock) => {}
        }
        // Each look takes the line of the lock from the thread that reads.
        for _ in 0..PAUSES {
            std::hint::spin_loop();
        }
    }
    mutex.lock().ok()
}

/// The reader, and how many batches it gave.
struct Source<'r> {
    reader: Reader<'r>,
    batches: u64,
}

/// The text of a batch.
#[derive(Default)]
struct Rendered {
    text: Vec<u8>,
    /// Where the text of each record that is shown ends.
    ends: Vec<usize>,
}

impl Rendered {
    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }
}

/// The output, and how much of it is wanted.
struct Sink<'o> {
    output: &'o mut Output,
    limit: Limit,
}

/// Puts the texts of batches in order. Whichever thread brings the next one writes it, and those behind it that are ready.
struct Texts<'o> {
    state: Mutex<Waiting>,
    /// There is room for another text, or the threads stop.
    room: Condvar,
    /// Used by the one thread that writes.
    sink: Mutex<Sink<'o>>,
    /// Texts that may wait.
    most: usize,
}

/// No change under the lock can be left incomplete, so a poisoned lock is usable.
#[derive(Default)]
struct Waiting {
    /// The number of the first.
    first: u64,
    /// Texts in the order of their batches; `None` while the batch is formatted, and while the first is written.
    texts: VecDeque<Option<Rendered>>,
    spares: Vec<Rendered>,
    is_writing: bool,
    is_stopped: bool,
    failure: Option<Failure>,
}

impl<'o> Texts<'o> {
    fn new(sink: Sink<'o>, threads: usize) -> Texts<'o> {
        let (state, room, sink) = (Mutex::default(), Condvar::new(), Mutex::new(sink));
        Texts { state, room, sink, most: threads + 2 }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the text of a batch, and waits while too many wait for one before them. Returns memory for another one; `None` if
    /// no more is wanted.
    fn put(&self, number: u64, rendered: Rendered) -> Option<Rendered> {
        let mut state = self.lock();
        let at = (number - state.first) as usize;
        if state.texts.len() <= at {
            state.texts.resize_with(at + 1, || None);
        }
        state.texts[at] = Some(rendered);
        if !state.is_writing {
            state = self.write(state);
        }
        while state.texts.len() > self.most && !state.is_stopped {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        (!state.is_stopped).then(|| state.spares.pop().unwrap_or_default())
    }

    /// Writes all texts that are ready.
    fn write<'s>(&'s self, mut state: MutexGuard<'s, Waiting>) -> MutexGuard<'s, Waiting> {
        while !state.is_stopped
            && let Some(rendered) = state.texts.front_mut().and_then(Option::take)
        {
            state.is_writing = true;
            drop(state);
            let written = self.sink.lock().unwrap_or_else(PoisonError::into_inner).write(&rendered);
            state = self.lock();
            state.is_writing = false;
            state.texts.pop_front();
            state.first += 1;
            state.spares.push(rendered);
            match written {
                Ok(true) => {}
                Ok(false) => state.is_stopped = true,
                Err(failure) => {
                    state.failure = Some(failure);
                    state.is_stopped = true;
                }
            }
            self.room.notify_all();
        }
        state
    }

    /// Returns the output when all threads have ended.
    fn finish(self) -> Result<Sink<'o>, Failure> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        match state.failure {
            Some(failure) => Err(failure),
            None => Ok(self.sink.into_inner().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

impl Sink<'_> {
    /// Writes as much of a text as is wanted. Returns whether more is.
    fn write(&mut self, rendered: &Rendered) -> Result<bool, Failure> {
        self.output.write(self.limit.cut(rendered))?;
        Ok(!self.limit.is_reached())
    }
}

/// Stops all threads when it is dropped, as it is if its thread panics.
struct Stops<'t, 'o>(&'t Texts<'o>);

impl Drop for Stops<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().is_stopped = true;
        self.0.room.notify_all();
    }
}

/// The state that a formatting thread keeps from record to record.
struct Formatter {
    decoder: Decoder,
    heads: Heads,
}

impl Formatter {
    /// For one of so many threads.
    fn of(selection: &Selection, threads: usize) -> Formatter {
        let mut decoder = selection.decoder();
        decoder.set_cache_limit((CACHED_BYTES / threads.max(1)).max(CACHED_BYTES_OF_THREAD));
        Formatter { decoder, heads: Heads::default() }
    }
}

struct Shared<'o> {
    files: Vec<TraceFile>,
    facts: Vec<FileFacts>,
    options: &'o Options,
    selection: &'o Selection,
}

impl Shared<'_> {
    fn format(&self, formatter: &mut Formatter, batch: &Batch, rendered: &mut Rendered) {
        let Formatter { decoder, heads } = formatter;
        decoder.set_store(Arc::clone(&batch.store));
        let Rendered { text, ends } = rendered;
        batch.records.each(&self.files, &mut |record| {
            let facts = &self.facts[record.position.file_index as usize];
            let decoded = decoder.decode(record);
            if let Some(filter) = &self.selection.filter {
                let time = filter.needs_time().then(|| record.timestamp(&facts.clock)).flatten();
                let names = &self.selection.filter_names;
                if !names.matches(filter, (record, &decoded), time, &self.options.style) {
                    return;
                }
                filter.check_shown(&decoded);
            }
            self.options.write(heads, text, record, &decoded, facts);
            ends.push(text.len());
        });
    }
}

#[derive(Default)]
struct Batch {
    records: StoredRecords,
    /// Schemas before the first of them.
    store: Arc<Store>,
}

/// Counts shown records: whether a record is shown is known only when it is decoded.
struct Limit {
    left: u64,
    shown: u64,
    /// Records that are kept until the end, at most so many.
    tail: Option<usize>,
    last: VecDeque<Vec<u8>>,
}

impl Limit {
    fn of(selection: &Selection) -> Limit {
        let left = selection.limit.unwrap_or(u64::MAX);
        Limit { left, shown: 0, tail: selection.tail, last: VecDeque::new() }
    }

    /// The text of those that are shown.
    fn cut<'t>(&mut self, rendered: &'t Rendered) -> &'t [u8] {
        let Rendered { text, ends } = rendered;
        let shown = ends.len() as u64;
        if let Some(tail) = self.tail {
            self.keep_last(tail, rendered);
            self.shown += shown;
            return &[];
        }
        let text = match usize::try_from(self.left) {
            Ok(left) if left < ends.len() => {
                &text[..left.checked_sub(1).map_or(0, |last| ends[last])]
            }
            _ => text,
        };
        self.shown += shown.min(self.left);
        self.left = self.left.saturating_sub(shown);
        text
    }

    fn keep_last(&mut self, tail: usize, Rendered { text, ends }: &Rendered) {
        let first = ends.len().saturating_sub(tail);
        for number in first..ends.len() {
            let start = number.checked_sub(1).map_or(0, |before| ends[before]);
            self.last.push_back(text[start..ends[number]].to_vec());
        }
        let more = self.last.len().saturating_sub(tail);
        self.last.drain(..more);
    }

    fn is_reached(&self) -> bool {
        self.left == 0
    }
}

struct Reader<'r> {
    records: &'r mut Records,
    selection: &'r Selection,
    kinds: EventKinds,
    clocks: Vec<Clock>,
    store: Arc<Store>,
    given: u64,
    seen: u64,
    progress: Progress,
}

impl<'r> Reader<'r> {
    fn new(records: &'r mut Records, selection: &'r Selection) -> Reader<'r> {
        let store = selection.gathered.clone().unwrap_or_default();
        let clocks = records.files().iter().map(|file| *file.clock()).collect();
        let progress = Progress::of(records.files());
        let kinds = EventKinds::default();
        Reader { records, selection, kinds, clocks, store, given: 0, seen: 0, progress }
    }

    /// Fills an emptied batch; `false` at the end.
    fn fill(&mut self, batch: &mut Batch) -> bool {
        let mut last = None;
        batch.records.clear();
        batch.store = Arc::clone(&self.store);
        let timed = self.selection.from.is_some() || self.selection.to.is_some();
        let filter = self.selection.filter.as_ref();
        // Formatting threads may show a record meanwhile: its batch is the last one whose kinds are gathered.
        let needs_names = filter.is_some_and(Filter::needs_names);
        while batch.records.len() < BATCH_RECORDS && batch.records.size() < BATCH_BYTES {
            // The writer counts the others.
            if filter.is_none() && self.selection.limit.is_some_and(|limit| self.given >= limit) {
                break;
            }
            let Some(stored) = self.records.next_stored() else { break };
            let mut place = None;
            let record = &*stored.record(&mut place);
            let (order_time, position) = (record.order_time, record.position);
            let learns = self.selection.gathered.is_none() && Store::is_schema_record(record);
            if learns {
                Arc::make_mut(&mut self.store).learn(record);
            }
            let has_time = record.has_time;
            self.seen += 1;
            last = Some(position);
            if needs_names {
                self.kinds.number(record);
            }
            let clock = &self.clocks[position.file_index as usize];
            let may_be_shown = filter.is_none_or(|filter| {
                let time = filter.needs_time().then(|| record.timestamp(clock)).flatten();
                let names = &self.selection.filter_names;
                names.by_header(filter, record, time).is_none_or(|holds| holds)
            });
            if !may_be_shown || timed && !(has_time && self.selection.has_time(clock, order_time)) {
                // The record is not shown, but those behind it need what it says.
                match learns {
                    true if batch.records.is_empty() => batch.store = Arc::clone(&self.store),
                    true => break,
                    false => {}
                }
                continue;
            }
            batch.records.push(record, stored);
            self.given += 1;
        }
        self.progress.update_at(self.seen, last);
        !batch.records.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_panics_ends_the_wait_of_the_others() {
        let limit = Limit { left: u64::MAX, shown: 0, tail: None, last: VecDeque::new() };
        let mut output = Output::to_nothing();
        let texts = Texts::new(Sink { output: &mut output, limit }, 1);
        std::thread::scope(|scope| {
            // The text of batch 0 never comes, so that those behind it wait.
            let texts = &texts;
            let put = move || {
                (1..).take_while(|number| texts.put(*number, Rendered::default()).is_some())
            };
            let waiting = scope.spawn(move || put().count());
            scope
                .spawn(|| {
                    let _guard = Stops(texts);
                    std::panic::resume_unwind(Box::new("a panic"))
                })
                .join()
                .unwrap_err();
            assert!(waiting.join().unwrap() <= texts.most);
        });
    }
}
