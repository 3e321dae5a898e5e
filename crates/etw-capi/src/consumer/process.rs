//! `ProcessTrace`: the records of the opened traces in order of time, one callback after the other.
//!
//! The library's own steps are guarded against panics. Callbacks run outside of the guard, so that a C++ exception in one reaches the
//! caller of `ProcessTrace`.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::sync::Arc;

use etw_api::{Guid, Status};
use etw_decode::Store;
use etw_etl::read::{HeaderRecord, Records};
use etw_types::{BufferHeader, EventRecord, FileTime, LogFileMode};

use super::arrival::Arrival;
use super::event::{Event, Facts, stored_size};
use super::trace::{Input, Trace};
use crate::decoding::InProgress;
use crate::status::ERROR_CANCELLED;
use etw_types::raw::{EventCallback, ProcessTraceMode, RawRecord, RawTrace};

/// Either flag marks a file of a private session.
const PRIVATE: LogFileMode = LogFileMode::PRIVATE_LOGGER.union(LogFileMode::PRIVATE_IN_PROC);
/// `OpenEtw.Session`: a host's reports on a session, its losses and the modules of its programs.
const HOST_PROVIDER: Guid = Guid::from_u128(0xc426bcf2_cd6c_5679_c416_2f87e1f372d4);
/// Bytes of a buffer's header.
const BUFFER_HEADER: u32 = BufferHeader::SIZE as u32;

pub struct Processing {
    traces: Vec<OpenedTrace>,
    /// Records of files. Those of a session come from its stream.
    records: Records,
    from: i64,
    to: i64,
    event: Event,
    /// The next callbacks.
    steps: VecDeque<Step>,
    /// The buffer that is being read, by file and CPU.
    open: BTreeMap<(u32, u16), Buffer>,
    schemas: InProgress,
}

struct OpenedTrace {
    trace: Arc<Trace>,
    facts: Facts,
    callback: Option<EventCallback>,
    /// The first event, until the program has received it.
    header: Option<HeaderRecord>,
    has_header: bool,
    header_event: Event,
}

struct Buffer {
    index: u64,
    /// Bytes of the records read so far.
    filled: u32,
}

enum Step {
    Record(usize, RawRecord),
    Trace(usize, RawTrace),
    /// A buffer of so many bytes was read to its end.
    Buffer(usize, u32),
    End(Status),
}

impl Processing {
    /// Reads traces that this `ProcessTrace` has locked; from one time to another, both included.
    pub fn new(traces: Vec<Arc<Trace>>, from: Option<i64>, to: Option<i64>) -> Processing {
        let mut files = Vec::new();
        let mut sources = Vec::new();
        let mut build = None;
        for trace in traces {
            // `ProcessTrace` has opened all inputs.
            let Some(file) = trace.input.file() else { continue };
            let header = file.header_record();
            build = build.or_else(|| file.header()?.windows_build());
            let mode = file.header().map_or(LogFileMode::NONE, |header| header.log_file_mode);
            let facts = Facts {
                context: trace.context.0,
                logger_id: header.as_ref().map_or(0, HeaderRecord::logger_id),
                is_private: mode.intersects(PRIVATE),
            };
            if !trace.input.is_real_time() {
                files.push(file.clone());
            }
            let callback = trace.logfile().raw.event_callback;
            sources.push(OpenedTrace {
                facts,
                callback,
                has_header: header.is_some(),
                header,
                header_event: Event::default(),
                trace,
            });
        }
        Processing {
            traces: sources,
            records: Records::new(files),
            from: from.unwrap_or(i64::MIN),
            to: to.unwrap_or(i64::MAX),
            event: Event::default(),
            steps: VecDeque::new(),
            open: BTreeMap::new(),
            schemas: InProgress::begin(build),
        }
    }

    /// Runs to the end, or until a callback or `CloseTrace` ends it.
    pub fn run(mut self) -> Status {
        loop {
            let step = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.next()));
            // The panic has been printed.
            let Ok(step) = step else { return Status::ERROR_NOT_ENOUGH_MEMORY };
            let goes_on = match step {
                Step::End(_) if self.is_closed() => return ERROR_CANCELLED,
                Step::End(status) => return status,
                Step::Record(source, mut raw) => {
                    self.schemas.deliver(&raw const raw);
                    self.call(source, (&raw mut raw).cast())
                }
                Step::Trace(source, mut raw) => self.call(source, (&raw mut raw).cast()),
                Step::Buffer(source, filled) => self.buffer(source, filled),
            };
            if !goes_on || self.is_real_time() && self.is_closed() {
                return ERROR_CANCELLED;
            }
        }
    }

    fn is_real_time(&self) -> bool {
        self.traces.iter().any(|source| source.trace.input.is_real_time())
    }

    fn is_closed(&self) -> bool {
        self.traces.iter().any(|source| source.trace.is_closed())
    }

    fn call(&self, source: usize, event: *mut c_void) -> bool {
        if let Some(callback) = self.traces[source].callback {
            // SAFETY: the program's own function; the event and what it leads to live as long as the call.
            unsafe { callback(event) };
        }
        true
    }

    fn buffer(&self, source: usize, filled: u32) -> bool {
        let mut logfile = self.traces[source].trace.logfile();
        logfile.raw.buffers_read += 1;
        logfile.raw.filled = filled;
        let Some(callback) = logfile.raw.buffer_callback else { return true };
        // SAFETY: the program's own function; the structure lives as long as the call.
        unsafe { callback(&raw mut logfile.raw) != 0 }
    }

    fn next(&mut self) -> Step {
        loop {
            if let Some(step) = self.steps.pop_front() {
                return step;
            }
            self.read();
        }
    }

    /// Queues the callbacks of the next record.
    fn read(&mut self) {
        if self.is_real_time() {
            return self.receive();
        }
        // A closed trace is read to the end of its current buffers, one of each CPU, as Windows documents. The header's buffer does not
        // count. No other buffer is read.
        let is_closed = self.is_closed();
        let next = self.records.next().filter(|record| {
            let place = record.position;
            let open = self.open.get(&(place.file_index, record.cpu));
            let is_at_hand =
                |buffer: &Buffer| buffer.index == 0 || buffer.index == place.buffer_index;
            !is_closed || open.is_none_or(is_at_hand)
        });
        let Some(record) = next else {
            let done = std::mem::take(&mut self.open);
            let ends = done.into_iter().map(|((file, _), b)| Step::Buffer(file as usize, b.filled));
            self.steps.extend(ends);
            // A header that no other record follows.
            let unread = if is_closed { 0 } else { self.traces.len() };
            for number in 0..unread {
                give_header(number, &mut self.traces[number], &mut self.steps);
            }
            self.steps.push_back(Step::End(Status::ERROR_SUCCESS));
            return;
        };
        let place = record.position;
        let number = place.file_index as usize;
        let source = &mut self.traces[number];
        let end =
            BUFFER_HEADER.saturating_add(place.offset).saturating_add(stored_size(&record) as u32);
        let fresh = Buffer { index: place.buffer_index, filled: 0 };
        let buffer = self.open.entry((place.file_index, record.cpu)).or_insert(fresh);
        if buffer.index != place.buffer_index {
            self.steps.push_back(Step::Buffer(number, buffer.filled));
            *buffer = Buffer { index: place.buffer_index, filled: 0 };
        }
        buffer.filled = buffer.filled.max(end);
        if Store::is_schema_record(&record) {
            self.schemas.learn(&record);
        }
        give_header(number, source, &mut self.steps);
        if source.has_header && place.buffer_index == 0 && place.offset == 0 {
            return;
        }
        let time = time_of(source, &record);
        if time < self.from || time > self.to || is_hidden(source, &record) {
            return;
        }
        self.event.fill(&record);
        self.steps.push_back(step(number, source, &record, time, &mut self.event));
    }
}

impl Processing {
    /// Does what `read` does, for a session: waits for the next item.
    fn receive(&mut self) {
        let source = &mut self.traces[0];
        // The header comes before the session has an event.
        give_header(0, source, &mut self.steps);
        let trace = Arc::clone(&source.trace);
        let Input::RealTime(live) = &trace.input else { return };
        if !self.steps.is_empty() {
            return;
        }
        live.next(|arrival| self.take_arrival(&trace, arrival));
    }

    fn take_arrival(&mut self, trace: &Trace, arrival: Arrival<'_>) {
        let source = &self.traces[0];
        match arrival {
            // After `CloseTrace` no callback is called.
            _ if trace.is_closed() => self.steps.push_back(Step::End(ERROR_CANCELLED)),
            Arrival::Record(record) => {
                if Store::is_schema_record(&record) {
                    self.schemas.learn(&record);
                }
                let time = time_of(source, &record);
                if time < self.from || time > self.to || is_hidden(source, &record) {
                    return;
                }
                self.event.fill(&record);
                self.steps.push_back(step(0, source, &record, time, &mut self.event));
            }
            Arrival::Buffer { filled } => self.steps.push_back(Step::Buffer(0, filled)),
            Arrival::Lost { buffers, events } => {
                let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
                let mut logfile = trace.logfile();
                let header = &mut logfile.raw.header;
                header.events_lost = header.events_lost.saturating_add(small(events));
                header.buffers_lost = header.buffers_lost.saturating_add(small(buffers));
                logfile.raw.events_lost = logfile.raw.events_lost.saturating_add(small(events));
                drop(logfile);
                // The program sees losses in its buffer callback. As on Windows, they come in a buffer of their own: no other
                // one may follow.
                self.steps.push_back(Step::Buffer(0, BUFFER_HEADER));
            }
            Arrival::End => self.steps.push_back(Step::End(Status::ERROR_SUCCESS)),
            Arrival::Gone => self.steps.push_back(Step::End(Status::ERROR_WMI_INSTANCE_NOT_FOUND)),
        }
    }
}

/// The first event of a trace is its header, whatever the times of others.
fn give_header(number: usize, source: &mut OpenedTrace, steps: &mut VecDeque<Step>) {
    let Some(header) = source.header.take() else { return };
    let Some(record) = header.record() else { return };
    let time = time_of(source, &record);
    let mut event = std::mem::take(&mut source.header_event);
    event.fill(&record);
    steps.push_back(step(number, source, &record, time, &mut event));
    // The step has pointers into it.
    source.header_event = event;
}

/// Whether a record is an event of the session's host, which the program did not request. Windows has no such events.
fn is_hidden(source: &OpenedTrace, record: &EventRecord<'_>) -> bool {
    record.provider == Some(HOST_PROVIDER)
        && !source.trace.mode.contains(ProcessTraceMode::HOST_EVENTS)
}

/// The time as FILETIME; without a usable clock, the raw time.
fn time_of(source: &OpenedTrace, record: &EventRecord<'_>) -> i64 {
    let file = source.trace.input.file();
    let time = file.and_then(|file| file.clock().filetime(record.order_time));
    time.unwrap_or(FileTime(record.order_time)).0
}

fn step(
    number: usize,
    source: &OpenedTrace,
    record: &EventRecord<'_>,
    time: i64,
    event: &mut Event,
) -> Step {
    source.trace.logfile().raw.current_time = time;
    let mode = source.trace.mode;
    let shown =
        if mode.contains(ProcessTraceMode::RAW_TIMESTAMP) { record.order_time } else { time };
    if mode.contains(ProcessTraceMode::EVENT_RECORD) {
        Step::Record(number, event.record(record, shown, &source.facts))
    } else {
        Step::Trace(number, event.trace(record, shown, &source.facts))
    }
}

/// Traces that a `ProcessTrace` has locked; dropping it unlocks them.
pub struct Taken(Vec<Arc<Trace>>);

impl Taken {
    /// `None` if one of them is in use or named twice.
    pub fn take(traces: &[Arc<Trace>]) -> Option<Taken> {
        let mut taken = Taken(Vec::new());
        for trace in traces {
            if !trace.take() {
                return None;
            }
            taken.0.push(Arc::clone(trace));
        }
        Some(taken)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.iter().for_each(|trace| trace.give_back());
    }
}
