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

/// The records of a session that a host sends, behind its watermark. `L`: the connection to the host; tests have none.
pub(crate) struct Feed<L = Arc<Live>> {
    link: L,
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
    unsettled: Unsettled,
}

/// Losses that the consumer has not received yet.
///
/// The host counts a lost buffer with all of its events, but this consumer may have received some of them in slices. As long
/// as it is unknown whether the buffer of a CPU's slices was lost, as many lost events are held back as those slices contain.
#[derive(Default)]
struct Unsettled {
    /// Events of the host's reports, less those that came in slices of lost buffers. Negative: the report on such a buffer is
    /// still to come.
    reported: i64,
    /// Buffers of the host's reports.
    buffers: u64,
    /// Events that the position of a new worker shows to be missing, less those that came in slices of lost buffers.
    missing: i64,
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

/// A count from the host, which may send any number.
fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
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
        if let Some(header) = trace.header() {
            link.remember_start(header.start_time.0);
        }
        let mut feed = Feed::new(Arc::new(link), trace);
        // Without the position, nobody could count the events that this worker takes with it if it is killed now.
        while feed.state.end.is_none() && !feed.progress.has_begun() {
            feed.receive()?;
        }
        Ok(feed)
    }

    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Waits for the next frame of the host.
    pub fn receive(&mut self) -> Result<(), StreamError> {
        match self.link.next().map_err(StreamError::Frame)? {
            Some(frame) => self.take_frame(&frame, self.link.is_closed())?,
            None => self.finish(StreamEnd::Disconnected),
        }
        self.release();
        Ok(())
    }
}

impl<L> Feed<L> {
    fn new(link: L, trace: TraceFile) -> Feed<L> {
        Feed {
            link,
            progress: Progress::default(),
            state: StreamState::new(trace),
            waiting: BinaryHeap::new(),
            watermark: None,
            record_count: 0,
            buffer_count: 0,
            buffers: BTreeMap::new(),
            sliced: BTreeMap::new(),
            is_resuming: false,
            unsettled: Unsettled::default(),
        }
    }

    /// `is_closed`: the consumer has closed the stream.
    fn take_frame(&mut self, frame: &Frame, is_closed: bool) -> Result<(), StreamError> {
        let Frame { kind, bytes } = frame;
        let kind = *kind;
        let truncated = || StreamError::Truncated { kind, size: bytes.len() };
        let word = |offset: usize| le::u64(bytes, offset).ok_or_else(truncated);
        match kind {
            frames::START => {
                let again = TraceFile::from_bytes("live", bytes.clone());
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
                self.progress.lost(events);
                let Unsettled { reported, buffers: all, .. } = &mut self.unsettled;
                *reported = reported.saturating_add(signed(events));
                *all = all.saturating_add(buffers);
                self.settle();
            }
            frames::END if is_closed => self.finish(StreamEnd::Disconnected),
            frames::END => self.finish(StreamEnd::SessionEnded),
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
        self.unsettled.missing = self.unsettled.missing.saturating_add(signed(missing));
        let cpu = header.cpu();
        // Records that came in slices before are skipped.
        let is_rest = |sliced: &SlicedBuffer| records.starts_with(&sliced.bytes);
        let (number, skipped) = match self.sliced.remove(&cpu) {
            Some(sliced) if is_rest(&sliced) => (sliced.number, sliced.bytes.len()),
            other => {
                if let Some(lost) = other {
                    self.lose_sliced(lost);
                }
                self.buffer_count += 1;
                (self.buffer_count, 0)
            }
        };
        self.settle();
        self.add_records(cpu, number, &records[skipped..])?;
        self.close_buffer(number, bytes.len());
        Ok(())
    }

    /// Takes records of a buffer that the host still fills.
    fn take_slice(&mut self, cpu: u16, offset: usize, records: &[u8]) -> Result<(), StreamError> {
        if offset == BufferHeader::SIZE {
            if let Some(lost) = self.sliced.remove(&cpu) {
                self.lose_sliced(lost);
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

    /// A buffer was lost whose slices came: the report of its loss, or the new worker's position, counts those events, too.
    fn lose_sliced(&mut self, sliced: SlicedBuffer) {
        let Unsettled { reported, missing, .. } = &mut self.unsettled;
        let counted = if self.is_resuming { missing } else { reported };
        *counted = counted.saturating_sub(signed(sliced.events));
        self.close_buffer(sliced.number, BufferHeader::SIZE + sliced.bytes.len());
    }

    /// Reports the losses that no open buffer's slices can contain.
    fn settle(&mut self) {
        let in_slices: u64 = self.sliced.values().map(|sliced| sliced.events).sum();
        let events = self.unsettled.reported.saturating_sub(signed(in_slices));
        if self.is_resuming || events <= 0 {
            return;
        }
        self.unsettled.reported -= events;
        let buffers = std::mem::take(&mut self.unsettled.buffers);
        let events = events.unsigned_abs();
        self.state.ledger.lost += events;
        self.state.ready.push_back(Ready::Lost { buffers, events });
    }

    /// Ends the stream. Buffers that were open and never came are lost.
    fn finish(&mut self, end: StreamEnd) {
        self.count_missing();
        for (_, lost) in std::mem::take(&mut self.sliced) {
            self.lose_sliced(lost);
        }
        self.settle();
        self.state.end = Some(end);
    }

    /// Counts events that were in flight when a worker was replaced. The number of their buffers is unknown.
    ///
    /// Buffers that the new worker still had have come before its first watermark. The other ones that this consumer knows by
    /// their slices are among the missing ones.
    fn count_missing(&mut self) {
        let missing = signed(self.progress.missing());
        self.unsettled.missing = self.unsettled.missing.saturating_add(missing);
        if self.is_resuming {
            for (_, lost) in std::mem::take(&mut self.sliced) {
                self.lose_sliced(lost);
            }
            self.is_resuming = false;
        }
        let Unsettled { reported, missing, .. } = &mut self.unsettled;
        // The killed worker had not reported buffers whose slices came.
        *missing = missing.saturating_add(std::mem::replace(reported, 0.max(*reported)).min(0));
        if *missing > 0 {
            let events = std::mem::take(missing).unsigned_abs();
            self.state.ledger.lost_in_replacement += events;
            self.state.ready.push_back(Ready::Lost { buffers: 1, events });
        } else {
            // It had reported them, or their report is still to come.
            *reported = reported.saturating_add(std::mem::take(missing));
        }
        self.settle();
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

#[cfg(test)]
mod tests;
