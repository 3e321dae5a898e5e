//! Formatting on several threads, with the same bytes as on one.
//!
//! ```text
//! reader ── batches, in order ──► formatting threads ──► writer, in order
//! ```
//!
//! The reader merges and copies records into batches. What a record decodes to depends on the schemas before it, so
//! the reader learns them too, and every batch carries the store as it was at its start; inside a batch the decoder
//! learns on. Batches are few and bounded, so memory does not grow with the trace.

use crate::event_kinds::EventKinds;
use crate::format::{FileFacts, Heads, Options};
use crate::join::Names;
use crate::output::{Failure, Output, Progress};
use crate::where_filter::Filter;
use etw_decode::{Catalog, Decoder, Store};
use etw_etl::read::{Records, TraceFile};
use etw_etl::record::{self, Extent};
use etw_types::{Clock, EventRecord, FileTime, HeaderType, Position};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

/// A batch is closed at this many records, …
const BATCH_RECORDS: usize = 512;
/// … or at this many bytes.
const BATCH_BYTES: usize = 256 << 10;

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

/// Writes the records of `records` to `output`.
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
    let mut reader = Reader::new(records, selection, options.names.clone());
    if output.is_on_terminal() {
        reader.progress.hide();
    }
    let mut limit = Limit::of(selection);
    if threads <= 1 {
        let mut formatter = Formatter::of(selection, 1);
        let mut batch = Batch::default();
        let mut text = Vec::new();
        while reader.fill(&mut batch) {
            text.clear();
            shared.format(&mut formatter, &mut batch, &mut text);
            output.write(limit.cut(&batch, &text))?;
            if limit.is_reached() {
                break;
            }
        }
    } else {
        run_parallel(&mut reader, &shared, threads, &mut limit, output)?;
    }
    for text in limit.last.drain(..) {
        output.write(&text)?;
    }
    output.write(options.epilogue().as_bytes())?;
    output.finish()?;
    Ok(Shown { count: limit.shown, kinds: reader.kinds, store: reader.store })
}

fn file_facts(file: &TraceFile) -> FileFacts {
    let timer_resolution = file.header().map_or(0, |header| header.timer_resolution);
    FileFacts { clock: *file.clock(), timer_resolution }
}

struct Job {
    batch: Batch,
    text: Vec<u8>,
    done: SyncSender<(Batch, Vec<u8>)>,
}

fn run_parallel(
    reader: &mut Reader<'_>,
    shared: &Shared<'_>,
    threads: usize,
    limit: &mut Limit,
    output: &mut Output,
) -> Result<(), Failure> {
    let in_flight = threads + 2;
    let (jobs, queue) = sync_channel::<Job>(in_flight);
    let queue = Mutex::new(queue);
    let (order, results) = sync_channel::<Receiver<(Batch, Vec<u8>)>>(in_flight);
    let (spare, spares) = sync_channel::<(Batch, Vec<u8>)>(2 * in_flight);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| format_jobs(&queue, shared, threads));
        }
        scope.spawn(move || {
            loop {
                let (mut batch, text) = spares.try_recv().unwrap_or_default();
                if !reader.fill(&mut batch) {
                    return;
                }
                let (done, result) = sync_channel(1);
                // Either end goes away only when the writer has given up.
                if order.send(result).is_err() || jobs.send(Job { batch, text, done }).is_err() {
                    return;
                }
            }
        });
        for result in results {
            let Ok((batch, text)) = result.recv() else { break };
            output.write(limit.cut(&batch, &text))?;
            if limit.is_reached() {
                break;
            }
            // No room for another spare: let it go.
            let _ = spare.try_send((batch, text));
        }
        Ok(())
    })
}

fn format_jobs(queue: &Mutex<Receiver<Job>>, shared: &Shared<'_>, threads: usize) {
    let mut formatter = Formatter::of(shared.selection, threads);
    loop {
        let job = match queue.lock() {
            Ok(queue) => queue.recv(),
            Err(_) => return,
        };
        let Ok(Job { mut batch, mut text, done }) = job else { return };
        text.clear();
        shared.format(&mut formatter, &mut batch, &mut text);
        if done.send((batch, text)).is_err() {
            return;
        }
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
    fn format(&self, formatter: &mut Formatter, batch: &mut Batch, text: &mut Vec<u8>) {
        let Formatter { decoder, heads } = formatter;
        decoder.set_store(Arc::clone(&batch.store));
        let mut start = 0;
        batch.ends.clear();
        for item in &batch.items {
            let bytes = &batch.bytes[start..item.end];
            start = item.end;
            let file = item.position.file_index as usize;
            let context = self.files[file].record_context();
            let Ok(mut record) = record::parse_checked(bytes, item.extent, context) else {
                unreachable!("the reader gives whole records");
            };
            record.cpu = item.cpu;
            record.order_time = item.order_time;
            record.position = item.position;
            let decoded = decoder.decode(&record);
            if let Some(filter) = &self.selection.filter {
                let clock = &self.facts[file].clock;
                let time = filter.needs_time().then(|| record.timestamp(clock)).flatten();
                let attributed = self.options.names.as_ref().map(|names| names.attributed(&record));
                let shown = attributed.as_ref().unwrap_or(&record);
                if !filter.matches_owned(shown, &record, &decoded, time, &self.options.style) {
                    continue;
                }
                filter.check_shown(&decoded);
            }
            self.options.write(heads, text, &record, &decoded, &self.facts[file]);
            batch.ends.push(text.len());
        }
    }
}

/// Records as they are stored, one after the other.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    items: Vec<Item>,
    /// Schemas before the first of them.
    store: Arc<Store>,
    /// Where the text of each that is shown ends.
    ends: Vec<usize>,
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
    fn cut<'t>(&mut self, batch: &Batch, text: &'t [u8]) -> &'t [u8] {
        let shown = batch.ends.len() as u64;
        if let Some(tail) = self.tail {
            self.keep_last(tail, batch, text);
            self.shown += shown;
            return &[];
        }
        let text = match usize::try_from(self.left) {
            Ok(left) if left < batch.ends.len() => {
                &text[..left.checked_sub(1).map_or(0, |last| batch.ends[last])]
            }
            _ => text,
        };
        self.shown += shown.min(self.left);
        self.left = self.left.saturating_sub(shown);
        text
    }

    fn keep_last(&mut self, tail: usize, batch: &Batch, text: &[u8]) {
        let first = batch.ends.len().saturating_sub(tail);
        for number in first..batch.ends.len() {
            let start = number.checked_sub(1).map_or(0, |before| batch.ends[before]);
            self.last.push_back(text[start..batch.ends[number]].to_vec());
        }
        let more = self.last.len().saturating_sub(tail);
        self.last.drain(..more);
    }

    fn is_reached(&self) -> bool {
        self.left == 0
    }
}

struct Item {
    end: usize,
    extent: Extent,
    cpu: u16,
    order_time: i64,
    position: Position,
}

struct Reader<'r> {
    records: &'r mut Records,
    selection: &'r Selection,
    names: Option<Arc<Names>>,
    kinds: EventKinds,
    clocks: Vec<Clock>,
    store: Arc<Store>,
    given: u64,
    seen: u64,
    progress: Progress,
}

impl<'r> Reader<'r> {
    fn new(
        records: &'r mut Records,
        selection: &'r Selection,
        names: Option<Arc<Names>>,
    ) -> Reader<'r> {
        let store = selection.gathered.clone().unwrap_or_default();
        let clocks = records.files().iter().map(|file| *file.clock()).collect();
        let progress = Progress::of(records.files());
        let kinds = EventKinds::default();
        Reader { records, selection, names, kinds, clocks, store, given: 0, seen: 0, progress }
    }

    /// Fills an emptied batch; `false` at the end.
    fn fill(&mut self, batch: &mut Batch) -> bool {
        let mut last = None;
        batch.bytes.clear();
        batch.items.clear();
        batch.store = Arc::clone(&self.store);
        let timed = self.selection.from.is_some() || self.selection.to.is_some();
        let filter = self.selection.filter.as_ref();
        // Formatting threads may show a record meanwhile: its batch is the last one whose kinds are gathered.
        let needs_names = filter.is_some_and(Filter::needs_names);
        while batch.items.len() < BATCH_RECORDS && batch.bytes.len() < BATCH_BYTES {
            // The writer counts the others.
            if filter.is_none() && self.selection.limit.is_some_and(|limit| self.given >= limit) {
                break;
            }
            let mut record = EventRecord::new(HeaderType::Event64, &[]);
            if !self.records.read_next(&mut record) {
                break;
            }
            let (cpu, order_time, position) = (record.cpu, record.order_time, record.position);
            let learns = self.selection.gathered.is_none() && Store::is_schema_record(&record);
            if learns {
                Arc::make_mut(&mut self.store).learn(&record);
            }
            let has_time = record.has_time;
            self.seen += 1;
            last = Some(position);
            if needs_names {
                self.kinds.number(&record);
            }
            let may_be_shown = filter.is_none_or(|filter| {
                let clock = &self.clocks[position.file_index as usize];
                let time = filter.needs_time().then(|| record.timestamp(clock)).flatten();
                match &self.names {
                    Some(names) => {
                        filter.by_owned_header(&names.attributed(&record), &record, time)
                    }
                    None => filter.by_header(&record, time),
                }
                .is_none_or(|holds| holds)
            });
            if !may_be_shown
                || timed && !(has_time && self.selects(order_time, position.file_index))
            {
                // The record is not shown, but those behind it need what it says.
                match learns {
                    true if batch.items.is_empty() => batch.store = Arc::clone(&self.store),
                    true => break,
                    false => {}
                }
                continue;
            }
            let (bytes, extent) = self.records.stored();
            batch.bytes.extend_from_slice(bytes);
            batch.items.push(Item { end: batch.bytes.len(), extent, cpu, order_time, position });
            self.given += 1;
        }
        self.progress.update_at(self.seen, last);
        !batch.items.is_empty()
    }

    fn selects(&self, raw: i64, file_index: u32) -> bool {
        let Some(time) = self.records.clock(file_index).filetime(raw) else { return false };
        self.selection.from.is_none_or(|from| time >= from)
            && self.selection.to.is_none_or(|to| time <= to)
    }
}
