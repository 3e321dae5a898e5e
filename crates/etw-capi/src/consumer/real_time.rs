//! Sessions that are consumed while they run: a stream of buffers from their host, as records in order of time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::{Mutex, PoisonError};

use etw_api::Status;
use etw_etl::read::TraceFile;
use etw_etl::read::buffer::{self, BufferRecords, Item};
use etw_wire::frames;
use etw_wire::host_client::Client;
use etw_wire::live_stream::{self, Progress, REPORTS};
use etw_wire::runtime_directory;

use super::process::Arrival;

/// A session's stream.
pub struct Live {
    /// Read by one `ProcessTrace` at a time; shut down by `CloseTrace` on whatever thread.
    from: live_stream::Live,
    /// The session's header.
    trace: TraceFile,
    state: Mutex<State>,
}

/// Time, number, CPU, buffer, bytes. Records of one time come as they came.
type Waiting = Reverse<(i64, u64, u16, u64, Vec<u8>)>;

#[derive(Default)]
struct State {
    progress: Progress,
    /// Records that wait for the watermark: until then an older one may come from another CPU.
    waiting: BinaryHeap<Waiting>,
    watermark: Option<i64>,
    /// Records so far.
    number: u64,
    /// Buffers so far.
    buffer: u64,
    /// Of each buffer the records that wait, and its bytes.
    buffers: BTreeMap<u64, (u64, u32)>,
    ready: VecDeque<Arrival>,
    has_ended: bool,
}

/// Finds the session that `OpenTrace` names with `PROCESS_TRACE_MODE_REAL_TIME`, and waits for what it says of itself.
pub fn open(session: &str) -> Result<Live, Status> {
    let directory = runtime_directory::of_user();
    let client = Client::connect(&directory);
    let from = client.and_then(|client| live_stream::Live::open(client, &directory, session));
    let from = from.map_err(|error| Status(error.status()))?;
    let Ok(Some((frames::START, header))) = from.next() else {
        return Err(Status::ERROR_WMI_INSTANCE_NOT_FOUND);
    };
    let trace = TraceFile::from_bytes(session, header);
    let trace = trace.map_err(|_| Status::ERROR_NO_SYSTEM_RESOURCES)?;
    Ok(Live { from, trace, state: Mutex::default() })
}

impl Live {
    /// What the session is.
    pub fn trace(&self) -> &TraceFile {
        &self.trace
    }

    /// Ends the stream: who waits for it waits no longer.
    pub fn close(&self) {
        self.from.close();
    }

    /// Waits for what comes next.
    pub fn next(&self) -> Arrival {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(arrival) = state.ready.pop_front() {
                return arrival;
            }
            if state.has_ended {
                return Arrival::End;
            }
            let taken = match self.from.next() {
                Ok(Some((kind, bytes))) => state.take(kind, &bytes, &self.trace),
                _ => None,
            };
            if taken.is_none() {
                return Arrival::Gone;
            }
        }
    }
}

impl State {
    /// `None`: no frame of a host's.
    fn take(&mut self, kind: u32, bytes: &[u8], trace: &TraceFile) -> Option<()> {
        let number = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        match kind {
            // Of the next worker: the session has to be the same.
            frames::START => {
                let again = TraceFile::from_bytes("", bytes.to_vec()).ok()?;
                let begins = |trace: &TraceFile| trace.header().map(|header| header.start_time);
                if begins(&again) != begins(trace) {
                    return None;
                }
            }
            frames::POSITION => self.progress.position(bytes),
            frames::BUFFER => self.take_buffer(bytes, trace)?,
            frames::WATERMARK => {
                self.settle();
                self.watermark = Some(number(0)? as i64);
            }
            frames::LOST => {
                let lost = Arrival::Lost { buffers: number(0)?, events: number(8)? };
                self.progress.lost(number(8)?);
                self.ready.push_back(lost);
            }
            frames::END => {
                self.settle();
                self.has_ended = true;
            }
            // Of a later version.
            _ => {}
        }
        self.release();
        Some(())
    }

    fn take_buffer(&mut self, bytes: &[u8], trace: &TraceFile) -> Option<()> {
        let limit = trace.header().map_or(16 << 20, |header| header.buffer_size);
        let (header, records) = buffer::open(bytes, limit).ok()?;
        let context = *trace.record_context();
        let is_report = |item: &Item<'_>| matches!(item, Item::Record { record, .. } if record.provider == Some(REPORTS));
        let events = BufferRecords::new(&records, &context).filter(|item| !is_report(item));
        let events = events.count() as u64;
        let Some(missing) = self.progress.buffer(header.sequence_number, events) else {
            return Some(());
        };
        self.tell_missing(missing);
        self.buffer += 1;
        let mut count = 0;
        for item in BufferRecords::new(&records, &context) {
            let Item::Record { offset, record } = item else { return None };
            let rest = records.get(offset as usize..)?;
            let size = etw_etl::record::frame(rest, &context).ok()?.size as usize;
            let time = record.raw_timestamp().or(self.watermark).unwrap_or(0);
            self.number += 1;
            count += 1;
            let bytes = rest.get(..size)?.to_vec();
            self.waiting.push(Reverse((time, self.number, header.cpu(), self.buffer, bytes)));
        }
        let filled = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        if count > 0 {
            self.buffers.insert(self.buffer, (count, filled));
        }
        Some(())
    }

    /// What went with a worker that was replaced: of how many buffers is not known.
    fn settle(&mut self) {
        let missing = self.progress.missing();
        self.tell_missing(missing);
    }

    fn tell_missing(&mut self, events: u64) {
        if events > 0 {
            self.ready.push_back(Arrival::Lost { buffers: 1, events });
        }
    }

    /// Everything that no older record will come before.
    fn release(&mut self) {
        while let Some(Reverse((time, ..))) = self.waiting.peek() {
            if !self.has_ended && self.watermark.is_none_or(|watermark| *time >= watermark) {
                return;
            }
            let Some(Reverse((time, _, cpu, buffer, bytes))) = self.waiting.pop() else { return };
            self.ready.push_back(Arrival::Record { cpu, time, bytes });
            if let Some((left, filled)) = self.buffers.get_mut(&buffer) {
                *left -= 1;
                if *left == 0 {
                    let filled = *filled;
                    self.buffers.remove(&buffer);
                    self.ready.push_back(Arrival::Buffer { filled });
                }
            }
        }
    }
}
