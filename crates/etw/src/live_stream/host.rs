//! `LiveStream` of a host's session: records behind a watermark, and losses by position.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt;
use std::sync::Arc;

use etw_etl::DamageKind;
use etw_etl::read::TraceFile;
use etw_etl::read::buffer::{self, BufferRecords, Item};
use etw_types::{BufferHeader, is_session_report, le};
use etw_wire::frames;
use etw_wire::live_stream::{Live, Progress};

use crate::controller::{ControlError, Controller};
use crate::live_item::{LiveItem, StreamEnd, StreamLedger};

/// The records of a running session in order of time, and what its consumer lost.
///
/// A session's host sends buffers of single CPUs and, now and then, a watermark: a time before which no further record
/// will come. The stream holds records back until the watermark has passed them.
///
/// [`Consumer`](crate::Consumer) decodes the records; this type is for programs that have a decoder of their own or need
/// to know where buffers end.
///
/// # Loss
/// A consumer that reads too slowly loses whole buffers; no other consumer does. A consumer of a host whose worker is
/// replaced loses the events that were in flight. [`ledger`](LiveStream::ledger) counts both.
pub struct LiveStream {
    link: Arc<Live>,
    progress: Progress,
    trace: TraceFile,
    /// Records that the watermark has not passed: an older one may still come from another CPU.
    waiting: BinaryHeap<Reverse<Waiting>>,
    watermark: Option<i64>,
    /// Records so far.
    record_count: u64,
    /// Buffers so far.
    buffer_count: u64,
    /// Buffers with records that wait, by number.
    buffers: BTreeMap<u64, OpenBuffer>,
    /// For each CPU, the buffer that the host still fills, with the records that came in slices.
    sliced: BTreeMap<u16, SlicedBuffer>,
    /// The host has a new worker, whose first watermark has not come yet.
    is_resuming: bool,
    /// Events that the position of the new worker shows to be missing.
    missing: u64,
    ready: VecDeque<Ready>,
    /// The record that was returned last.
    current: Vec<u8>,
    ledger: StreamLedger,
    end: Option<StreamEnd>,
}

/// A record behind the watermark. Records of one time keep the order in which they came.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    time: i64,
    number: u64,
    cpu: u16,
    buffer: u64,
    bytes: Vec<u8>,
}

struct OpenBuffer {
    records_left: u64,
    /// Bytes of the buffer; `None`: the host still fills it.
    filled: Option<u32>,
}

/// Slices of one buffer.
struct SlicedBuffer {
    number: u64,
    /// Its records so far.
    bytes: Vec<u8>,
    /// Number of records, reports of the session on itself aside.
    events: u64,
}

enum Ready {
    Record { time: i64, cpu: u16, bytes: Vec<u8> },
    BufferEnd { filled: u32 },
    Lost { buffers: u64, events: u64 },
    WorkerReplaced,
}

/// A message of the host that breaks the protocol of live streams.
#[derive(Debug)]
#[non_exhaustive]
pub enum StreamError {
    /// The connection delivered something that is not a frame.
    Frame(std::io::Error),
    /// The stream did not start with the session's header.
    NoHeader,
    /// The session's header cannot be read.
    Header(etw_etl::Error),
    /// A frame is shorter than its kind requires.
    Truncated {
        /// The kind of the frame.
        kind: u32,
        /// Its size in bytes.
        size: usize,
    },
    /// A buffer or one of its records is damaged.
    Buffer(DamageKind),
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid data from the session's host: ")?;
        match self {
            StreamError::Frame(error) => write!(f, "not a frame ({error})"),
            StreamError::NoHeader => f.write_str("the stream starts without a header"),
            StreamError::Header(error) => write!(f, "session header: {error}"),
            StreamError::Truncated { kind, size } => {
                write!(f, "frame of kind {kind} has only {size} bytes")
            }
            StreamError::Buffer(damage) => write!(f, "damaged buffer: {damage}"),
        }
    }
}

impl std::error::Error for StreamError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StreamError::Frame(error) => Some(error),
            StreamError::Header(error) => Some(error),
            _ => None,
        }
    }
}

impl From<StreamError> for ControlError {
    fn from(error: StreamError) -> ControlError {
        ControlError::Stream(Box::new(error))
    }
}

/// Ends a stream in which another thread waits.
#[derive(Clone, Debug)]
pub struct Closer(Arc<Live>);

impl Closer {
    /// Ends the stream: it returns what it has received, and then its end.
    pub fn close(&self) {
        self.0.close();
    }

    /// Ends the stream after everything that was written before this call. It waits for the host.
    pub fn detach(&self) {
        self.0.detach();
    }
}

impl fmt::Debug for LiveStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("LiveStream");
        all.field("link", &self.link).field("ledger", &self.ledger).finish_non_exhaustive()
    }
}

impl LiveStream {
    /// Subscribes to a session of the host and waits for its header.
    ///
    /// # Errors
    /// `ERROR_WMI_INSTANCE_NOT_FOUND` if there is no such session, `ERROR_NOT_SUPPORTED` if it has no real-time
    /// delivery, `ERROR_ACCESS_DENIED`; `ERROR_NO_SYSTEM_RESOURCES` if the host breaks the protocol.
    pub fn open(host: &Controller, session: &str) -> Result<LiveStream, ControlError> {
        let connection = host.connection();
        let link = Live::open(connection.connect_once_more()?, connection.directory(), session)?;
        let header = match link.next().map_err(StreamError::Frame)? {
            Some((frames::START, header)) => header,
            Some(_) => return Err(StreamError::NoHeader.into()),
            None => return Err(ControlError::Closed { session: session.to_owned() }),
        };
        Ok(LiveStream {
            link: Arc::new(link),
            progress: Progress::default(),
            trace: TraceFile::from_bytes(session, header).map_err(StreamError::Header)?,
            waiting: BinaryHeap::new(),
            watermark: None,
            record_count: 0,
            buffer_count: 0,
            buffers: BTreeMap::new(),
            sliced: BTreeMap::new(),
            is_resuming: false,
            missing: 0,
            ready: VecDeque::new(),
            current: Vec::new(),
            ledger: StreamLedger::default(),
            end: None,
        })
    }

    /// The session's header, as a file without events: clock, buffer size and start.
    pub fn trace(&self) -> &TraceFile {
        &self.trace
    }

    /// Counts of received and lost events.
    pub fn ledger(&self) -> StreamLedger {
        self.ledger
    }

    /// Why the stream ended; `None` while it continues.
    pub fn end(&self) -> Option<StreamEnd> {
        self.end
    }

    /// Ends the stream from another thread.
    pub fn closer(&self) -> Closer {
        Closer(Arc::clone(&self.link))
    }

    /// Waits for the next item; `None` at the end of the stream.
    ///
    /// # Errors
    /// [`StreamError`]
    // Not `Iterator`: what it returns borrows from `self`.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<LiveItem<'_>>, StreamError> {
        Ok(if self.wait_for_item()? { self.next_ready() } else { None })
    }

    /// Waits until an item is ready. `false`: the stream has ended, and all items were returned.
    ///
    /// # Errors
    /// [`StreamError`]
    pub fn wait_for_item(&mut self) -> Result<bool, StreamError> {
        while self.ready.is_empty() {
            if !self.wait()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The next item if it is in order already; does not wait.
    pub fn next_ready(&mut self) -> Option<LiveItem<'_>> {
        Some(match self.ready.pop_front()? {
            Ready::BufferEnd { filled } => LiveItem::BufferEnd { filled },
            Ready::Lost { buffers, events } => LiveItem::Lost { buffers, events },
            Ready::WorkerReplaced => LiveItem::WorkerReplaced,
            Ready::Record { time, cpu, bytes } => {
                self.current = bytes;
                let context = self.trace.record_context();
                let Ok(mut record) = etw_etl::record::parse(&self.current, context) else {
                    unreachable!("a record that was checked when its buffer came");
                };
                record.cpu = cpu;
                record.order_time = time;
                LiveItem::Record(record)
            }
        })
    }

    /// Waits until the host has sent something. `false`: the stream has ended, and all of it was returned.
    ///
    /// # Errors
    /// [`StreamError`]
    pub fn wait(&mut self) -> Result<bool, StreamError> {
        if self.end.is_some() {
            return Ok(!self.ready.is_empty());
        }
        match self.link.next().map_err(StreamError::Frame)? {
            Some((kind, bytes)) => self.take_frame(kind, &bytes)?,
            None => self.finish(StreamEnd::Disconnected),
        }
        self.release();
        Ok(self.end.is_none() || !self.ready.is_empty())
    }

    /// Drops ready items up to the next record. `false`: no record is ready.
    pub(crate) fn skip_to_record(&mut self) -> bool {
        while let Some(first) = self.ready.front() {
            if matches!(first, Ready::Record { .. }) {
                return true;
            }
            self.ready.pop_front();
        }
        false
    }

    fn take_frame(&mut self, kind: u32, bytes: &[u8]) -> Result<(), StreamError> {
        let truncated = || StreamError::Truncated { kind, size: bytes.len() };
        let word = |offset: usize| le::u64(bytes, offset).ok_or_else(truncated);
        match kind {
            frames::START => {
                let again = TraceFile::from_bytes("live", bytes.to_vec());
                let again = again.map_err(StreamError::Header)?;
                let start = |trace: &TraceFile| trace.header().map(|header| header.start_time);
                if start(&again) == start(&self.trace) {
                    self.ledger.workers_replaced += 1;
                    self.is_resuming = true;
                    self.ready.push_back(Ready::WorkerReplaced);
                } else {
                    self.finish(StreamEnd::Disconnected);
                }
            }
            frames::POSITION => self.progress.position(bytes),
            frames::BUFFER => self.take_buffer(bytes)?,
            frames::SLICE => {
                let half = |offset: usize| le::u32(bytes, offset).ok_or_else(truncated);
                let (cpu, offset) = (half(0)? as u16, half(4)? as usize);
                self.take_slice(cpu, offset, &bytes[8..])?;
            }
            frames::WATERMARK | frames::SLICES_WATERMARK => {
                self.count_missing();
                self.watermark = self.watermark.max(Some(word(0)? as i64));
            }
            frames::LOST => {
                let (buffers, events) = (word(0)?, word(8)?);
                self.ledger.lost_buffers += buffers;
                self.ledger.lost += events;
                self.progress.lost(events);
                self.ready.push_back(Ready::Lost { buffers, events });
            }
            frames::END if self.link.is_closed() => self.finish(StreamEnd::Disconnected),
            frames::END => {
                self.count_missing();
                for (cpu, lost) in std::mem::take(&mut self.sliced) {
                    self.lose_sliced(cpu, lost);
                }
                self.finish(StreamEnd::SessionEnded);
            }
            // Kinds of a later version are skipped.
            _ => {}
        }
        Ok(())
    }

    fn take_buffer(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        let largest = self.trace.header().map_or(BufferHeader::MAX_BUFFER_SIZE, |h| h.buffer_size);
        let (header, records) = buffer::open(bytes, largest).map_err(StreamError::Buffer)?;
        let context = *self.trace.record_context();
        let is_event = |item: &Item<'_>| match item {
            Item::Record { record, .. } => !is_session_report(record),
            Item::Damage(_) => true,
        };
        let events = BufferRecords::new(&records, &context).filter(is_event).count() as u64;
        let Some(missing) = self.progress.buffer(header.sequence_number, events) else {
            return Ok(());
        };
        self.missing += missing;
        let cpu = header.cpu();
        // Records that came in slices before are skipped.
        let is_rest = |sliced: &SlicedBuffer| records.starts_with(&sliced.bytes);
        let (number, skipped) = match self.sliced.remove(&cpu) {
            Some(sliced) if is_rest(&sliced) => (sliced.number, sliced.bytes.len()),
            other => {
                if let Some(lost) = other {
                    self.lose_sliced(cpu, lost);
                }
                self.buffer_count += 1;
                (self.buffer_count, 0)
            }
        };
        self.add_records(cpu, number, &records[skipped..])?;
        self.close_buffer(number, bytes.len());
        Ok(())
    }

    /// Takes records of a buffer that the host still fills.
    fn take_slice(&mut self, cpu: u16, offset: usize, records: &[u8]) -> Result<(), StreamError> {
        if offset == BufferHeader::SIZE {
            if let Some(lost) = self.sliced.remove(&cpu) {
                self.lose_sliced(cpu, lost);
            }
            self.buffer_count += 1;
            let new = SlicedBuffer { number: self.buffer_count, bytes: Vec::new(), events: 0 };
            self.sliced.insert(cpu, new);
        }
        let Some(sliced) = self.sliced.get_mut(&cpu) else { return Ok(()) };
        if offset != BufferHeader::SIZE + sliced.bytes.len() {
            // The records come with their buffer.
            return Ok(());
        }
        sliced.bytes.extend_from_slice(records);
        let number = sliced.number;
        let events = self.add_records(cpu, number, records)?;
        if let Some(sliced) = self.sliced.get_mut(&cpu) {
            sliced.events += events;
        }
        Ok(())
    }

    /// Holds records back until the watermark has passed them. Returns their number, reports of the session aside.
    fn add_records(&mut self, cpu: u16, buffer: u64, records: &[u8]) -> Result<u64, StreamError> {
        let context = *self.trace.record_context();
        let (mut count, mut events) = (0, 0);
        for item in BufferRecords::new(records, &context) {
            let (offset, record) = match item {
                Item::Record { offset, record } => (offset as usize, record),
                Item::Damage(damage) => return Err(StreamError::Buffer(damage)),
            };
            let rest = &records[offset..];
            let frame = etw_etl::record::frame(rest, &context).map_err(StreamError::Buffer)?;
            self.record_count += 1;
            count += 1;
            events += u64::from(!is_session_report(&record));
            self.waiting.push(Reverse(Waiting {
                time: record.raw_timestamp().or(self.watermark).unwrap_or(0),
                number: self.record_count,
                cpu,
                buffer,
                bytes: rest[..frame.size as usize].to_vec(),
            }));
        }
        self.ledger.received += count;
        if count > 0 {
            let new = OpenBuffer { records_left: 0, filled: None };
            self.buffers.entry(buffer).or_insert(new).records_left += count;
        }
        Ok(events)
    }

    /// All records of a buffer have come.
    fn close_buffer(&mut self, number: u64, filled: usize) {
        let filled = u32::try_from(filled).unwrap_or(u32::MAX);
        match self.buffers.get_mut(&number) {
            Some(open) if open.records_left > 0 => open.filled = Some(filled),
            Some(_) => {
                self.buffers.remove(&number);
                self.ready.push_back(Ready::BufferEnd { filled });
            }
            None => {}
        }
    }

    /// A buffer never came that a [`LOST`](frames::LOST) frame or a new worker's position counts as lost: its slices did.
    fn lose_sliced(&mut self, cpu: u16, sliced: SlicedBuffer) {
        if self.is_resuming {
            // Counted at the first watermark.
            self.sliced.insert(cpu, sliced);
            return;
        }
        self.ledger.lost = self.ledger.lost.saturating_sub(sliced.events);
        self.close_buffer(sliced.number, BufferHeader::SIZE + sliced.bytes.len());
    }

    fn finish(&mut self, end: StreamEnd) {
        self.count_missing();
        self.end = Some(end);
    }

    /// Counts events that were in flight when a worker was replaced. The number of their buffers is unknown.
    ///
    /// Buffers that the new worker still had have come before its first watermark. The other ones that this consumer knows by
    /// their slices are among the missing ones.
    fn count_missing(&mut self) {
        let mut events = std::mem::take(&mut self.missing) + self.progress.missing();
        if std::mem::take(&mut self.is_resuming) {
            for (_, sliced) in std::mem::take(&mut self.sliced) {
                events = events.saturating_sub(sliced.events);
                self.close_buffer(sliced.number, BufferHeader::SIZE + sliced.bytes.len());
            }
        }
        if events > 0 {
            self.ledger.lost_in_replacement += events;
            self.ready.push_back(Ready::Lost { buffers: 1, events });
        }
    }

    /// Makes ready whatever the watermark has passed; at the end, everything.
    fn release(&mut self) {
        while let Some(Reverse(first)) = self.waiting.peek() {
            let has_passed = self.watermark.is_some_and(|watermark| first.time < watermark);
            if self.end.is_none() && !has_passed {
                return;
            }
            let Some(Reverse(Waiting { time, cpu, buffer, bytes, .. })) = self.waiting.pop() else {
                return;
            };
            self.ready.push_back(Ready::Record { time, cpu, bytes });
            if let Some(open) = self.buffers.get_mut(&buffer) {
                open.records_left -= 1;
                if open.records_left == 0 {
                    if let Some(filled) = open.filled {
                        self.buffers.remove(&buffer);
                        self.ready.push_back(Ready::BufferEnd { filled });
                    }
                }
            }
        }
    }
}
