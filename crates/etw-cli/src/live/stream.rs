//! A real-time session's events, in order of time, as they come.

use crate::output::Failure;
use etw_etl::read::TraceFile;
use etw_etl::read::buffer::{self, BufferRecords, Item};
use etw_types::EventRecord;
use etw_wire::client::Client;
use etw_wire::control::stream;
use etw_wire::live::{Live, Progress};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

/// Records that wait for the watermark.
type Waiting = Reverse<(i64, u64, u16, Vec<u8>)>;

/// The consumer's end of a stream.
pub struct Events {
    from: Live,
    progress: Progress,
    trace: TraceFile,
    waiting: BinaryHeap<Waiting>,
    /// Records of one time come as they came.
    number: u64,
    watermark: i64,
    /// What this consumer has lost: buffers, events.
    pub lost: (u64, u64),
    /// Events that went with a worker of the host's that was replaced, and how often that was.
    pub missing: (u64, u32),
    has_ended: bool,
}

fn broken(what: &str) -> Failure {
    Failure::new(format!("the host's stream: {what}"))
}

impl Events {
    /// Becomes a consumer and waits for the session's header. `client`: of the host in `directory`.
    pub fn open(client: Client, directory: &Path, session: &str) -> Result<Events, Failure> {
        let from = Live::open(client, directory, session).map_err(super::host::failure)?;
        let Some((stream::START, header)) = next_of(&from)? else {
            return Err(broken("it does not begin with a header"));
        };
        let trace =
            TraceFile::from_bytes("live", header).map_err(|error| broken(&error.to_string()))?;
        Ok(Events {
            from,
            progress: Progress::default(),
            trace,
            waiting: BinaryHeap::new(),
            number: 0,
            watermark: i64::MIN,
            lost: (0, 0),
            missing: (0, 0),
            has_ended: false,
        })
    }

    /// What the session is.
    pub fn trace(&self) -> &TraceFile {
        &self.trace
    }

    /// Waits for the next frame and gives the records that are in order up to now. `false`: there will be no more.
    pub fn next(&mut self, mut each: impl FnMut(&EventRecord<'_>)) -> Result<bool, Failure> {
        match next_of(&self.from)? {
            Some((stream::START, header)) => {
                let trace = TraceFile::from_bytes("live", header)
                    .map_err(|error| broken(&error.to_string()))?;
                let begins = |trace: &TraceFile| trace.header().map(|header| header.start_time);
                // Another one of this name is not what was asked for.
                self.has_ended = begins(&trace) != begins(&self.trace);
                self.missing.1 += u32::from(!self.has_ended);
            }
            Some((stream::POSITION, bytes)) => self.progress.position(&bytes),
            Some((stream::BUFFER, bytes)) => self.take(&bytes)?,
            Some((stream::WATERMARK, bytes)) => {
                self.missing.0 += self.progress.missing();
                let time = bytes.first_chunk().ok_or_else(|| broken("a watermark is cut"))?;
                self.watermark = i64::from_le_bytes(*time);
            }
            Some((stream::LOST, bytes)) => {
                let number = |at: usize| {
                    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes)
                };
                self.lost.0 += number(0).unwrap_or(0);
                self.lost.1 += number(8).unwrap_or(0);
                self.progress.lost(number(8).unwrap_or(0));
            }
            Some((stream::END, _)) | None => {
                self.missing.0 += self.progress.missing();
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

    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let limit = self.trace.header().map_or(16 << 20, |header| header.buffer_size);
        let (header, records) =
            buffer::open(bytes, limit).map_err(|damage| broken(&damage.to_string()))?;
        let context = *self.trace.record_context();
        let events = BufferRecords::new(&records, &context).count() as u64;
        let Some(missing) = self.progress.buffer(header.sequence_number, events) else {
            return Ok(());
        };
        self.missing.0 += missing;
        for item in BufferRecords::new(&records, &context) {
            let Item::Record { offset, record } = item else {
                return Err(broken("a buffer is damaged"));
            };
            let at = offset as usize;
            let size = etw_etl::record::frame(&records[at..], &context)
                .map_err(|damage| broken(&damage.to_string()))?
                .size as usize;
            let time = record.raw_timestamp().unwrap_or(self.watermark);
            self.number += 1;
            let bytes = records[at..at + size].to_vec();
            self.waiting.push(Reverse((time, self.number, header.cpu(), bytes)));
        }
        Ok(())
    }
}

fn next_of(from: &Live) -> Result<Option<(u32, Vec<u8>)>, Failure> {
    from.next().map_err(|error| broken(&error.to_string()))
}
