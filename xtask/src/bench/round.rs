//! Long traces from a short one: its buffers repeated, the times of each round shifted by the trace's length.

use crate::{Result, corpus};
use etw_etl::header::LogfileHeader;
use etw_etl::lzxpress;
use etw_etl::read::{TraceFile, buffer};
use etw_etl::record::{self, RecordContext};
use etw_etl::write::FileBuilder;
use etw_types::{
    BufferFlags, BufferHeader, BufferType, EventRecord, Guid, HeaderType, LogFileMode,
};
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

/// The form in which a trace is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    Plain,
    Compressed,
    /// Wrapped: the newest buffers have overwritten the oldest and precede those that remain.
    Circular,
}

/// The buffers that are repeated, decompressed.
pub struct Round {
    logfile: LogfileHeader,
    start_raw: i64,
    buffers: Vec<Buffer>,
    /// Ticks of one round.
    length: i64,
}

struct Buffer {
    header: BufferHeader,
    bytes: Vec<u8>,
    records: Vec<Record>,
}

/// A record's position in its buffer.
#[derive(Clone, Copy)]
struct Record {
    start: usize,
    /// The record's size with its padding.
    end: usize,
    /// Offset of the time from the record's start. Messages store their times elsewhere and are not shifted.
    time_at: Option<usize>,
}

impl Round {
    /// Reads a corpus file, or makes events if there is none.
    pub fn of(name: &str) -> Result<Round> {
        match corpus() {
            Some(corpus) => Round::from_trace(&std::fs::read(corpus.join(name))?),
            None => Round::from_trace(&synthetic(180_000)?),
        }
    }

    fn from_trace(bytes: &[u8]) -> Result<Round> {
        let file = TraceFile::from_bytes("round", bytes.to_vec())?;
        let logfile = file.header().ok_or("the trace has no header")?.clone();
        let start_raw = file.clock().raw_start;
        let mut buffers = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (header, records) = buffer::open(rest, 1 << 24).map_err(|e| e.to_string())?;
            if header.buffer_type != BufferType::HEADER {
                buffers.push(Buffer::new(header, records.into_owned()));
            }
            rest = &rest[(header.buffer_size as usize).min(rest.len())..];
        }
        let times = || buffers.iter().flat_map(Buffer::times);
        let last = times().max().unwrap_or(start_raw);
        let first = times().min().unwrap_or(start_raw).min(start_raw);
        Ok(Round { logfile, start_raw, buffers, length: last - first + 1 })
    }

    /// Writes round after round until the records take `size` bytes.
    pub fn repeat(&self, path: &Path, size: u64, form: Form) -> Result<()> {
        let mut output = Output::create(path, self, self.logfile.clone(), size, form)?;
        for number in 0.. {
            for buffer in &self.buffers {
                if output.is_full() {
                    return output.finish();
                }
                let ticks = number * self.length;
                let mut bytes = buffer.bytes.clone();
                for record in &buffer.records {
                    record.shift(&mut bytes[record.start..record.end], ticks);
                }
                let mut header = buffer.header;
                header.time_stamp += ticks;
                output.put(header, bytes)?;
            }
        }
        Ok(())
    }

    /// As [`repeat`](Round::repeat), with the records distributed over more CPUs and larger buffers.
    pub fn spread(
        &self,
        path: &Path,
        size: u64,
        form: Form,
        cpus: u16,
        buffer_size: u32,
    ) -> Result<()> {
        let mut logfile = self.logfile.clone();
        logfile.buffer_size = buffer_size;
        logfile.number_of_processors = u32::from(cpus);
        let mut output = Output::create(path, self, logfile, size, form)?;
        let room = buffer_size as usize - BufferHeader::SIZE;
        let template = self.buffers.first().ok_or("the trace has no buffers")?.header;
        let header = |cpu: usize, time_stamp| BufferHeader {
            processor: cpu as u16,
            flags: BufferFlags::PROC_INDEX,
            buffer_size,
            time_stamp,
            ..template
        };
        let in_order = self.in_order();
        let mut open: Vec<Vec<u8>> = vec![Vec::with_capacity(room); usize::from(cpus)];
        let mut dealt = 0;
        for number in 0.. {
            let ticks = number * self.length;
            for &(time, record, bytes) in &in_order {
                // A thread writes several records before the next CPU's.
                let cpu = dealt / 3 % open.len();
                dealt += 1;
                if open[cpu].len() + bytes.len() > room {
                    let full = std::mem::replace(&mut open[cpu], Vec::with_capacity(room));
                    output.put(header(cpu, time + ticks), full)?;
                    if output.is_full() {
                        return output.finish();
                    }
                }
                let start = open[cpu].len();
                open[cpu].extend(bytes);
                record.shift(&mut open[cpu][start..], ticks);
            }
        }
        Ok(())
    }

    /// All records by time; a record without a time stays behind its predecessor.
    fn in_order(&self) -> Vec<(i64, Record, &[u8])> {
        let mut all = Vec::new();
        for buffer in &self.buffers {
            let mut time = buffer.times().next().unwrap_or(self.start_raw);
            for record in &buffer.records {
                let bytes = &buffer.bytes[record.start..record.end];
                time = record.time(bytes).unwrap_or(time);
                all.push((time, *record, bytes));
            }
        }
        all.sort_by_key(|&(time, ..)| time);
        all
    }
}

impl Buffer {
    fn new(header: BufferHeader, bytes: Vec<u8>) -> Buffer {
        let mut records = Vec::new();
        let mut start = 0;
        while start < bytes.len() {
            let Ok(frame) = record::frame(&bytes[start..], &RecordContext::default()) else {
                break;
            };
            let end = (start + frame.size as usize).next_multiple_of(8).min(bytes.len());
            let time_at = match frame.header {
                HeaderType::Message => None,
                HeaderType::PerfInfo32 | HeaderType::PerfInfo64 => Some(0x08),
                _ => Some(0x10),
            };
            records.push(Record { start, end, time_at });
            start = end;
        }
        Buffer { header, bytes, records }
    }

    fn times(&self) -> impl Iterator<Item = i64> {
        self.records.iter().filter_map(|record| record.time(&self.bytes[record.start..record.end]))
    }
}

impl Record {
    fn time(&self, bytes: &[u8]) -> Option<i64> {
        bytes.get(self.time_at?..)?.first_chunk().map(|time| i64::from_le_bytes(*time))
    }

    fn shift(&self, bytes: &mut [u8], ticks: i64) {
        if let (Some(at), Some(time)) = (self.time_at, self.time(bytes)) {
            bytes[at..at + 8].copy_from_slice(&(time + ticks).to_le_bytes());
        }
    }
}

/// A trace being written: data buffers first, the header when its counts are known.
struct Output<'r> {
    out: BufWriter<File>,
    round: &'r Round,
    logfile: LogfileHeader,
    form: Form,
    size: u64,
    /// Bytes of buffer headers and records written so far, decompressed.
    filled: u64,
    /// Buffers written so far.
    written: u64,
    last_raw: i64,
}

/// A wrapped file has been overwritten this often when it is stopped ...
const LAPS: u64 = 7;

impl<'r> Output<'r> {
    fn create(
        path: &Path,
        round: &'r Round,
        logfile: LogfileHeader,
        size: u64,
        form: Form,
    ) -> Result<Output<'r>> {
        let out = BufWriter::with_capacity(4 << 20, File::create(path)?);
        let (filled, written, last_raw) = (0, 0, round.start_raw);
        let mut output = Output { out, round, logfile, form, size, filled, written, last_raw };
        let header = output.header_buffer()?;
        output.out.write_all(&header)?;
        if form == Form::Circular {
            output.seek_slot(output.first_slot())?;
        }
        Ok(output)
    }

    /// Data buffers of a circular file.
    fn slots(&self) -> u64 {
        self.size.div_ceil(u64::from(self.logfile.buffer_size)).max(3)
    }

    /// ... and the oldest remaining buffer has this index.
    fn first_slot(&self) -> u64 {
        self.slots() / 3
    }

    fn seek_slot(&mut self, slot: u64) -> Result<()> {
        self.out.seek(SeekFrom::Start((slot + 1) * u64::from(self.logfile.buffer_size)))?;
        Ok(())
    }

    fn is_full(&self) -> bool {
        match self.form {
            Form::Circular => self.written == self.slots(),
            Form::Plain | Form::Compressed => self.filled >= self.size,
        }
    }

    fn put(&mut self, mut header: BufferHeader, mut body: Vec<u8>) -> Result<()> {
        let before = match self.form {
            Form::Circular => LAPS * self.slots() + self.first_slot(),
            Form::Plain | Form::Compressed => 0,
        };
        header.sequence_number = (before + self.written + 1) as i64;
        header.offset = (BufferHeader::SIZE + body.len()) as u32;
        header.saved_offset = header.offset;
        self.last_raw = self.last_raw.max(header.time_stamp);
        self.filled += u64::from(header.offset);
        if self.form == Form::Compressed {
            let mut stream = Vec::with_capacity(body.len());
            lzxpress::compress(&body, &mut stream, lzxpress::Level::Small);
            body = stream;
            header.flags |= BufferFlags::COMPRESSED;
            header.buffer_size = (BufferHeader::SIZE + body.len()) as u32;
        } else {
            body.resize(header.buffer_size as usize - BufferHeader::SIZE, 0xff);
        }
        self.out.write_all(&header.to_bytes())?;
        self.out.write_all(&body)?;
        self.written += 1;
        if self.form == Form::Circular && self.first_slot() + self.written == self.slots() {
            self.seek_slot(0)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        let header = self.header_buffer()?;
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&header)?;
        self.out.flush()?;
        Ok(())
    }

    fn header_buffer(&self) -> Result<Vec<u8>> {
        let mut file = FileBuilder::new();
        file.finalised = false;
        file.compressed = self.form == Form::Compressed;
        file.header.start_raw = self.round.start_raw;
        let mut logfile = self.logfile.clone();
        if self.form == Form::Circular {
            logfile.log_file_mode = LogFileMode::CIRCULAR;
            let bytes = (self.slots() + 1) * u64::from(logfile.buffer_size);
            logfile.maximum_file_size = (bytes >> 20).max(1) as u32;
        }
        logfile.buffers_written = u32::try_from(self.written + 1)?;
        let end = logfile.clock(self.round.start_raw).filetime(self.last_raw);
        logfile.end_time = end.ok_or("the trace has no clock")?;
        file.header.logfile = logfile;
        Ok(file.finish())
    }
}

/// Events on four CPUs with the sizes of a kernel trace.
fn synthetic(events: i64) -> Result<Vec<u8>> {
    let mut file = FileBuilder::new();
    let payload = [0x5a; 96];
    for number in 0..events {
        let mut record = EventRecord::new(HeaderType::Event64, &payload[..(number % 96) as usize]);
        record.provider = Some(Guid::from_u128(0x1234));
        record.order_time = file.header.start_raw + number * 10;
        (record.process_id, record.thread_id) = (Some(1), Some(2));
        file.push((number / 5 % 4) as u16, &record)?;
    }
    Ok(file.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_etl::read::Records;

    /// Reads and checks a trace that was made; returns its file, records and last time.
    fn checked(make: impl FnOnce(&Round, &Path) -> Result<()>) -> (TraceFile, u64) {
        let round = Round::from_trace(&synthetic(5_000).unwrap()).unwrap();
        let path = std::env::temp_dir().join(format!(
            "xtask-{}-{:?}.etl",
            std::process::id(),
            std::thread::current().id()
        ));
        make(&round, &path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let file = TraceFile::from_bytes("made", bytes).unwrap();
        let header = file.header().unwrap();
        assert_eq!(u64::from(header.buffers_written), file.totals().buffers);
        let end = header.end_time;
        let mut records = Records::new(vec![file.clone()]);
        let (mut count, mut last) = (0, i64::MIN);
        while let Some(record) = records.next() {
            assert!(record.order_time >= last);
            last = record.order_time;
            count += 1;
        }
        assert!(records.damage().is_empty());
        assert_eq!(records.out_of_order(0), 0);
        assert!(file.clock().filetime(last).unwrap() <= end);
        (file, count)
    }

    #[test]
    fn rounds_follow_one_another() {
        for form in [Form::Plain, Form::Compressed] {
            let (file, count) = checked(|round, path| round.repeat(path, 2_000_000, form));
            assert!(count > 10_000 && !file.totals().wrapped);
            let compressed = if form == Form::Compressed { file.totals().buffers - 1 } else { 0 };
            assert_eq!(file.totals().compressed_buffers, compressed);
        }
    }

    #[test]
    fn a_circular_file_is_wrapped() {
        let (file, count) = checked(|round, path| round.repeat(path, 2_000_000, Form::Circular));
        assert!(count > 10_000 && file.totals().wrapped);
    }

    #[test]
    fn records_are_dealt_out_to_more_cpus() {
        for form in [Form::Plain, Form::Circular] {
            let (file, _) = checked(|round, path| round.spread(path, 2_000_000, form, 16, 0x4000));
            assert_eq!(file.totals().streams, 16);
            assert_eq!(file.totals().largest_buffer, 0x4000);
            assert_eq!(file.totals().wrapped, form == Form::Circular);
        }
    }
}
