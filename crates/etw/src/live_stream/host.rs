//! The feed of a live stream from a session's host: records behind a watermark, and losses by position.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use etw_etl::read::TraceFile;
use etw_etl::read::buffer::{self, BufferRecords, Item};
use etw_types::{BufferHeader, EventRecord, is_session_report, le};
use etw_wire::frames;
use etw_wire::live_stream::{Frame, Live, Progress};

use crate::controller::{ControlError, Controller};
use crate::live_item::{Ready, StreamEnd, StreamError, StreamState};

/// The connection to the host of a live stream.
pub(crate) type Link = Live;

/// The records of a session that a host sends, behind its watermark.
pub(crate) struct Feed {
    link: Arc<Live>,
    progress: Progress,
    pub state: StreamState<FeedRecord>,
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

/// A record that the watermark has passed.
pub(crate) struct FeedRecord {
    time: i64,
    cpu: u16,
    bytes: Vec<u8>,
}

impl FeedRecord {
    pub fn as_record(&self, trace: &TraceFile) -> EventRecord<'_> {
        let Ok(mut record) = etw_etl::record::parse(&self.bytes, trace.record_context()) else {
            unreachable!("a record that was checked when its buffer came");
        };
        record.cpu = self.cpu;
        record.order_time = self.time;
        record
    }
}

impl Feed {
    pub fn open(host: &Controller, session: &str) -> Result<Feed, ControlError> {
        let connection = host.connection();
        let link = Live::open(connection.connect_once_more()?, connection.directory(), session)?;
        let header = match link.next().map_err(StreamError::Frame)? {
            Some(Frame { kind: frames::START, bytes }) => bytes,
            Some(_) => return Err(StreamError::NoHeader.into()),
            None => return Err(ControlError::Closed { session: session.to_owned() }),
        };
        let trace = TraceFile::from_bytes(session, header).map_err(StreamError::Header)?;
        Ok(Feed {
            link: Arc::new(link),
            progress: Progress::default(),
            state: StreamState::new(trace),
            waiting: BinaryHeap::new(),
            watermark: None,
            record_count: 0,
            buffer_count: 0,
            buffers: BTreeMap::new(),
            sliced: BTreeMap::new(),
            is_resuming: false,
            missing: 0,
        })
    }

    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Waits for the next frame of the host.
    pub fn receive(&mut self) -> Result<(), StreamError> {
        match self.link.next().map_err(StreamError::Frame)? {
            Some(frame) => self.take_frame(frame.kind, &frame.bytes)?,
            None => self.finish(StreamEnd::Disconnected),
        }
        self.release();
        Ok(())
    }

    fn take_frame(&mut self, kind: u32, bytes: &[u8]) -> Result<(), StreamError> {
        let truncated = || StreamError::Truncated { kind, size: bytes.len() };
        let word = |offset: usize| le::u64(bytes, offset).ok_or_else(truncated);
        match kind {
            frames::START => {
                let again = TraceFile::from_bytes("live", bytes.to_vec());
                let again = again.map_err(StreamError::Header)?;
                let start = |trace: &TraceFile| trace.header().map(|header| header.start_time);
                if start(&again) == start(&self.state.trace) {
                    self.state.ledger.workers_replaced += 1;
                    self.is_resuming = true;
                    self.state.ready.push_back(Ready::WorkerReplaced);
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
                self.state.ledger.lost_buffers += buffers;
                self.state.ledger.lost += events;
                self.progress.lost(events);
                self.state.ready.push_back(Ready::Lost { buffers, events });
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
        let largest =
            self.state.trace.header().map_or(BufferHeader::MAX_BUFFER_SIZE, |h| h.buffer_size);
        let (header, records) = buffer::open(bytes, largest).map_err(StreamError::Buffer)?;
        let context = *self.state.trace.record_context();
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
        let context = *self.state.trace.record_context();
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
        self.state.ledger.received += count;
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
                self.state.ready.push_back(Ready::BufferEnd { filled });
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
        self.state.ledger.lost = self.state.ledger.lost.saturating_sub(sliced.events);
        self.close_buffer(sliced.number, BufferHeader::SIZE + sliced.bytes.len());
    }

    fn finish(&mut self, end: StreamEnd) {
        self.count_missing();
        self.state.end = Some(end);
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
            self.state.ledger.lost_in_replacement += events;
            self.state.ready.push_back(Ready::Lost { buffers: 1, events });
        }
    }

    /// Makes ready whatever the watermark has passed; at the end, everything.
    fn release(&mut self) {
        while let Some(Reverse(first)) = self.waiting.peek() {
            let has_passed = self.watermark.is_some_and(|watermark| first.time < watermark);
            if self.state.end.is_none() && !has_passed {
                return;
            }
            let Some(Reverse(Waiting { time, cpu, buffer, bytes, .. })) = self.waiting.pop() else {
                return;
            };
            self.state.ready.push_back(Ready::Record(FeedRecord { time, cpu, bytes }));
            if let Some(open) = self.buffers.get_mut(&buffer) {
                open.records_left -= 1;
                if open.records_left == 0 {
                    if let Some(filled) = open.filled {
                        self.buffers.remove(&buffer);
                        self.state.ready.push_back(Ready::BufferEnd { filled });
                    }
                }
            }
        }
    }
}
