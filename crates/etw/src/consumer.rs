//! A real-time session's events, in order of time, as they come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use etw_etl::read::TraceFile;
use etw_etl::read::buffer::{self, BufferRecords, Item};
use etw_types::{EventRecord, Status};
use etw_wire::frames;
use etw_wire::live_stream::{Live, Progress, REPORTS};

use crate::controller::{ControlError, Controller};

/// Records that wait for the watermark: time, number, CPU, bytes.
type Waiting = Reverse<(i64, u64, u16, Vec<u8>)>;

/// A consumer of a real-time session: its events as they come, in order of time.
///
/// What it does not read in time is lost to it alone, and counted ([`lost`](Self::lost)). It goes on when the host's worker is replaced,
/// and knows what it missed meanwhile ([`missed`](Self::missed)).
///
/// ```no_run
/// # fn main() -> Result<(), etw::ControlError> {
/// let host = etw::Controller::connect()?;
/// let mut events = etw::Consumer::open(&host, "shop")?;
/// // Decoded by crate `etw-decode`, if that is wanted.
/// while events.next(|event| println!("{:?} {}", event.provider, event.payload.len()))? {}
/// # Ok(())
/// # }
/// ```
pub struct Consumer {
    from: Arc<Live>,
    progress: Progress,
    trace: TraceFile,
    waiting: BinaryHeap<Waiting>,
    /// Records of one time come as they came.
    number: u64,
    watermark: i64,
    lost: Lost,
    missed: Missed,
    has_ended: bool,
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("from", &self.from).finish_non_exhaustive()
    }
}

/// What a consumer did not get because it was too slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Whole buffers.
    pub buffers: u64,
    /// The events in them.
    pub events: u64,
}

/// What a consumer did not get because the host's worker was replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Events that went with the worker before.
    pub events: u64,
    /// How often that was.
    pub replaced: u32,
}

/// Ends a consumer that another thread waits in.
#[derive(Clone, Debug)]
pub struct Closer(Arc<Live>);

impl Closer {
    /// [`Consumer::next`] gives what it has, and says that there is no more.
    pub fn close(&self) {
        self.0.close();
    }
}

fn broken(what: impl std::fmt::Display) -> ControlError {
    ControlError::new(Status::ERROR_NO_SYSTEM_RESOURCES, format!("the host's stream: {what}"))
}

impl Consumer {
    /// Becomes a consumer of a session of the host, and waits for its header.
    ///
    /// # Errors
    /// `ERROR_WMI_INSTANCE_NOT_FOUND`: there is no such session; `ERROR_NOT_SUPPORTED`: it has no real-time delivery;
    /// `ERROR_ACCESS_DENIED`.
    pub fn open(host: &Controller, session: &str) -> Result<Consumer, ControlError> {
        let from = Live::open(host.connect_once_more()?, host.directory(), session)?;
        let Some((frames::START, header)) = from.next().map_err(broken)? else {
            return Err(broken("it does not begin with a header"));
        };
        Ok(Consumer {
            from: Arc::new(from),
            progress: Progress::default(),
            trace: TraceFile::from_bytes("live", header).map_err(broken)?,
            waiting: BinaryHeap::new(),
            number: 0,
            watermark: i64::MIN,
            lost: Lost::default(),
            missed: Missed::default(),
            has_ended: false,
        })
    }

    /// The session's header: its clock, buffer size and start.
    pub fn trace(&self) -> &TraceFile {
        &self.trace
    }

    /// Losses so far.
    pub fn lost(&self) -> Lost {
        self.lost
    }

    /// What was missed so far.
    pub fn missed(&self) -> Missed {
        self.missed
    }

    /// Ends it from another thread.
    pub fn closer(&self) -> Closer {
        Closer(self.from.clone())
    }

    /// Waits for what comes next, and gives the events that are in order up to now, if there are any. `false`: there will be no more.
    ///
    /// # Errors
    /// What came was not what a host sends.
    pub fn next(&mut self, mut each: impl FnMut(&EventRecord<'_>)) -> Result<bool, ControlError> {
        match self.from.next().map_err(broken)? {
            Some((frames::START, header)) => {
                let trace = TraceFile::from_bytes("live", header).map_err(broken)?;
                let begins = |trace: &TraceFile| trace.header().map(|header| header.start_time);
                // Another one of this name is not what was asked for.
                self.has_ended = begins(&trace) != begins(&self.trace);
                self.missed.replaced += u32::from(!self.has_ended);
            }
            Some((frames::POSITION, bytes)) => self.progress.position(&bytes),
            Some((frames::BUFFER, bytes)) => self.take(&bytes)?,
            Some((frames::WATERMARK, bytes)) => {
                self.missed.events += self.progress.missing();
                let time = bytes.first_chunk().ok_or_else(|| broken("a watermark is cut"))?;
                self.watermark = i64::from_le_bytes(*time);
            }
            Some((frames::LOST, bytes)) => {
                let number = |at: usize| etw_types::le::u64(&bytes, at).unwrap_or(0);
                self.lost.buffers += number(0);
                self.lost.events += number(8);
                self.progress.lost(number(8));
            }
            Some((frames::END, _)) | None => {
                self.missed.events += self.progress.missing();
                self.has_ended = true;
            }
            // Of a later version.
            Some(_) => {}
        }
        if self.has_ended {
            self.watermark = i64::MAX;
        }
        let context = *self.trace.record_context();
        while let Some(Reverse((time, ..))) = self.waiting.peek() {
            if *time >= self.watermark {
                break;
            }
            let Some(Reverse((time, _, cpu, bytes))) = self.waiting.pop() else { break };
            if let Ok(mut record) = etw_etl::record::parse(&bytes, &context) {
                record.cpu = cpu;
                record.order_time = time;
                each(&record);
            }
        }
        Ok(!self.has_ended)
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), ControlError> {
        let limit = self.trace.header().map_or(16 << 20, |header| header.buffer_size);
        let (header, records) = buffer::open(bytes, limit).map_err(broken)?;
        let context = *self.trace.record_context();
        let is_report = |item: &Item<'_>| matches!(item, Item::Record { record, .. } if record.provider == Some(REPORTS));
        let events = BufferRecords::new(&records, &context).filter(|item| !is_report(item));
        let events = events.count() as u64;
        let Some(missing) = self.progress.buffer(header.sequence_number, events) else {
            return Ok(());
        };
        self.missed.events += missing;
        for item in BufferRecords::new(&records, &context) {
            let Item::Record { offset, record } = item else {
                return Err(broken("a buffer is damaged"));
            };
            let at = offset as usize;
            let frame = etw_etl::record::frame(&records[at..], &context).map_err(broken)?;
            let time = record.raw_timestamp().unwrap_or(self.watermark);
            self.number += 1;
            let bytes = records[at..at + frame.size as usize].to_vec();
            self.waiting.push(Reverse((time, self.number, header.cpu(), bytes)));
        }
        Ok(())
    }
}
