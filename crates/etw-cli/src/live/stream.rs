//! A real-time session's events, in order of time, as they come.

use crate::output::Failure;
use etw_etl::read::TraceFile;
use etw_etl::read::buffer::{self, BufferRecords, Item};
use etw_types::EventRecord;
use etw_wire::control::stream;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// Records that wait for the watermark.
type Waiting = Reverse<(i64, u64, u16, Vec<u8>)>;

/// The consumer's end of a stream.
pub struct Events {
    from: UnixStream,
    trace: TraceFile,
    waiting: BinaryHeap<Waiting>,
    /// Records of one time come as they came.
    number: u64,
    watermark: i64,
    /// What this consumer has lost: buffers, events.
    pub lost: (u64, u64),
    has_ended: bool,
}

fn broken(what: &str) -> Failure {
    Failure::new(format!("the host's stream: {what}"))
}

impl Events {
    /// Waits for the session's header.
    pub fn open(stream: OwnedFd) -> Result<Events, Failure> {
        let mut from = UnixStream::from(stream);
        let Some((stream::START, header)) = frame(&mut from)? else {
            return Err(broken("it does not begin with a header"));
        };
        let trace =
            TraceFile::from_bytes("live", header).map_err(|error| broken(&error.to_string()))?;
        Ok(Events {
            from,
            trace,
            waiting: BinaryHeap::new(),
            number: 0,
            watermark: i64::MIN,
            lost: (0, 0),
            has_ended: false,
        })
    }

    /// What the session is.
    pub fn trace(&self) -> &TraceFile {
        &self.trace
    }

    /// Waits for the next frame and gives the records that are in order up to now. `false`: there will be no more.
    pub fn next(&mut self, mut each: impl FnMut(&EventRecord<'_>)) -> Result<bool, Failure> {
        match frame(&mut self.from)? {
            Some((stream::BUFFER, bytes)) => self.take(&bytes)?,
            Some((stream::WATERMARK, bytes)) => {
                let time = bytes.first_chunk().ok_or_else(|| broken("a watermark is cut"))?;
                self.watermark = i64::from_le_bytes(*time);
            }
            Some((stream::LOST, bytes)) => {
                let number = |at: usize| {
                    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes)
                };
                self.lost.0 += number(0).unwrap_or(0);
                self.lost.1 += number(8).unwrap_or(0);
            }
            Some((stream::END, _)) | None => {
                self.has_ended = true;
                self.watermark = i64::MAX;
            }
            // Of a later version.
            Some(_) => {}
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

fn frame(from: &mut UnixStream) -> Result<Option<(u32, Vec<u8>)>, Failure> {
    let mut head = [0; 8];
    match from.read_exact(&mut head) {
        Ok(()) => {}
        // The host is gone.
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(broken(&error.to_string())),
    }
    let kind = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let size = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    if size > stream::MAX_FRAME {
        return Err(broken("a frame is too large"));
    }
    let mut bytes = vec![0; size];
    from.read_exact(&mut bytes).map_err(|error| broken(&error.to_string()))?;
    Ok(Some((kind, bytes)))
}
