//! The traces that are measured: real buffers repeated, each round's times shifted by the trace's length.

use crate::{Result, corpus, sample};
use etw_etl::header::{BufferHeader, LogfileHeader};
use etw_etl::lzxpress;
use etw_etl::read::{TraceFile, buffer};
use etw_etl::record::{self, RecordContext};
use etw_etl::write::FileBuilder;
use etw_types::{EventRecord, FileTime, Guid, HeaderType};
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Where the traces lie between runs, and how large they are.
pub struct Inputs {
    folder: PathBuf,
    size: u64,
}

const MIB: usize = 1 << 20;

impl Inputs {
    pub fn new(folder: PathBuf, size: u64) -> Inputs {
        Inputs { folder, size }
    }

    /// Real traces, else the sample.
    pub fn real_traces(&self) -> Result<Vec<PathBuf>> {
        let Some(corpus) = corpus() else {
            let path = self.folder.join("sample.etl");
            std::fs::write(&path, sample::trace()?)?;
            return Ok(vec![path]);
        };
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(corpus)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        files.sort();
        Ok(files)
    }

    pub fn plain(&self) -> Result<PathBuf> {
        self.made("plain", self.size, |path, size| repeat(&plain_round()?, path, size, Form::Plain))
    }

    pub fn huge(&self) -> Result<PathBuf> {
        let size = 10_000_000_000;
        self.made("huge", size, |path, size| repeat(&plain_round()?, path, size, Form::Plain))
    }

    pub fn compressed(&self) -> Result<PathBuf> {
        self.made("compressed", self.size, |path, size| {
            repeat(&Round::of("net452-x64-compressed.etl")?, path, size, Form::Compressed)
        })
    }

    pub fn circular(&self) -> Result<PathBuf> {
        self.made("circular", self.size, |path, size| {
            repeat(&plain_round()?, path, size, Form::Circular)
        })
    }

    pub fn streams(&self) -> Result<PathBuf> {
        self.made("streams", self.size, |path, size| {
            let round = plain_round()?.spread(64, MIB as u32)?;
            repeat(&round, path, size, Form::Plain)
        })
    }

    fn made(
        &self,
        name: &str,
        size: u64,
        make: impl FnOnce(&Path, u64) -> Result<()>,
    ) -> Result<PathBuf> {
        let path = self.folder.join(format!("{name}-{}.etl", size / 1_000_000));
        if !path.exists() {
            eprintln!("making {}", path.display());
            let part = path.with_extension("part");
            make(&part, size)?;
            std::fs::rename(part, &path)?;
        }
        Ok(path)
    }
}

fn plain_round() -> Result<Round> {
    Round::of("net45-x86-kernel-clr.etl")
}

/// How a trace is written.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Plain,
    Compressed,
    /// Wrapped: the newer part of the buffers stands first.
    Circular,
}

/// The buffers that are repeated, decompressed.
struct Round {
    logfile: LogfileHeader,
    start_raw: i64,
    buffers: Vec<Buffer>,
    /// Ticks of one round.
    length: i64,
}

#[derive(Clone)]
struct Buffer {
    header: BufferHeader,
    records: Vec<u8>,
    /// Offsets of the timestamps in the records.
    times: Vec<usize>,
}

impl Round {
    /// From a corpus file, or from events of our own where there is none.
    fn of(name: &str) -> Result<Round> {
        let bytes = match corpus() {
            Some(corpus) => std::fs::read(corpus.join(name))?,
            None => synthetic()?,
        };
        let file = TraceFile::from_bytes(name, bytes.clone())?;
        let logfile = file.header().ok_or("no header")?.clone();
        let start_raw = file.clock().raw_start;
        let mut buffers = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (header, records) = buffer::open(rest, 1 << 24).map_err(|e| e.to_string())?;
            if header.buffer_type != BufferHeader::HEADER {
                buffers.push(Buffer::new(header, records.into_owned()));
            }
            rest = &rest[(header.buffer_size as usize).min(rest.len())..];
        }
        let last = buffers.iter().filter_map(Buffer::last_time).max().unwrap_or(start_raw);
        let first = buffers.iter().filter_map(Buffer::first_time).min().unwrap_or(start_raw);
        Ok(Round { logfile, start_raw, buffers, length: last - first.min(start_raw) + 1 })
    }

    /// The same records over more CPUs and in larger buffers.
    fn spread(&self, cpus: u16, buffer_size: u32) -> Result<Round> {
        let room = buffer_size as usize - BufferHeader::SIZE;
        let mut all: Vec<(i64, &[u8])> = self.buffers.iter().flat_map(Buffer::pieces).collect();
        all.sort_by_key(|piece| piece.0);
        let mut open: Vec<Vec<u8>> = vec![Vec::new(); usize::from(cpus)];
        let mut buffers = Vec::new();
        let template = self.buffers.first().ok_or("no buffers")?.header;
        let mut close = |records: &mut Vec<u8>, cpu: usize| {
            let sequence_number = buffers.len() as i64 + 1;
            let processor = cpu as u16;
            let flags = BufferHeader::PROC_INDEX;
            let header =
                BufferHeader { processor, flags, sequence_number, buffer_size, ..template };
            buffers.push(Buffer::new(header, std::mem::take(records)));
        };
        for (number, (_, piece)) in all.iter().enumerate() {
            let cpu = number / 3 % usize::from(cpus);
            if open[cpu].len() + piece.len() > room {
                close(&mut open[cpu], cpu);
            }
            open[cpu].extend(*piece);
        }
        for (cpu, records) in open.iter_mut().enumerate() {
            close(records, cpu);
        }
        let mut logfile = self.logfile.clone();
        logfile.buffer_size = buffer_size;
        logfile.number_of_processors = u32::from(cpus);
        Ok(Round { logfile, start_raw: self.start_raw, buffers, length: self.length })
    }
}

impl Buffer {
    fn new(header: BufferHeader, records: Vec<u8>) -> Buffer {
        let mut times = Vec::new();
        let mut at = 0;
        while at < records.len() {
            let Ok(frame) = record::frame(&records[at..], &RecordContext::default()) else { break };
            let perf = matches!(frame.header, HeaderType::PerfInfo32 | HeaderType::PerfInfo64);
            if frame.header != HeaderType::Message {
                times.push(at + if perf { 0x08 } else { 0x10 });
            }
            at = (at + frame.size as usize).next_multiple_of(8);
        }
        Buffer { header, records, times }
    }

    fn time(&self, at: usize) -> i64 {
        let bytes = self.records[at..at + 8].try_into().unwrap_or_default();
        i64::from_le_bytes(bytes)
    }

    fn first_time(&self) -> Option<i64> {
        self.times.iter().map(|&at| self.time(at)).min()
    }

    fn last_time(&self) -> Option<i64> {
        self.times.iter().map(|&at| self.time(at)).max()
    }

    /// Every record with its padding, and its time.
    fn pieces(&self) -> impl Iterator<Item = (i64, &[u8])> {
        let mut at = 0;
        self.times.iter().map_while(move |&time_at| {
            let frame = record::frame(&self.records[at..], &RecordContext::default()).ok()?;
            let end = (at + frame.size as usize).next_multiple_of(8).min(self.records.len());
            let piece = (self.time(time_at), &self.records[at..end]);
            at = end;
            Some(piece)
        })
    }

    /// Times, and the place in the session's order, moved on.
    fn shifted(&self, ticks: i64, sequence_number: i64) -> Buffer {
        let mut shifted = self.clone();
        for &at in &self.times {
            let time = self.time(at) + ticks;
            shifted.records[at..at + 8].copy_from_slice(&time.to_le_bytes());
        }
        shifted.header.time_stamp += ticks;
        shifted.header.sequence_number = sequence_number;
        shifted
    }

    fn bytes(mut self, form: Form) -> Vec<u8> {
        let size = self.header.buffer_size;
        self.header.offset = (BufferHeader::SIZE + self.records.len()) as u32;
        self.header.saved_offset = self.header.offset;
        let mut body = self.records;
        if form == Form::Compressed {
            let mut stream = Vec::with_capacity(body.len());
            lzxpress::compress(&body, &mut stream);
            body = stream;
            self.header.flags |= BufferHeader::COMPRESSED;
            self.header.buffer_size = (BufferHeader::SIZE + body.len()) as u32;
        } else {
            body.resize(size as usize - BufferHeader::SIZE, 0xff);
        }
        let mut bytes = self.header.to_bytes().to_vec();
        bytes.extend(body);
        bytes
    }
}

/// Writes rounds until the records take `size` bytes.
fn repeat(round: &Round, path: &Path, size: u64, form: Form) -> Result<()> {
    let round_size: u64 = round.buffers.iter().map(|b| b.records.len() as u64 + 72).sum();
    let rounds = size.div_ceil(round_size.max(1)).max(1);
    let mut order: Vec<u64> = (0..rounds).collect();
    // A wrapped file: the oldest rounds that are left stand behind the newest, and older ones are gone.
    let gone = if form == Form::Circular { 7 } else { 0 };
    if form == Form::Circular {
        order.rotate_left(rounds as usize / 3);
    }
    let mut out = BufWriter::with_capacity(4 * MIB, File::create(path)?);
    out.write_all(&vec![0; header_buffer(round, form, 0)?.len()])?;
    let mut written = 1u32;
    for number in order {
        for (position, buffer) in round.buffers.iter().enumerate() {
            let in_all = (number + gone) as i64 * round.buffers.len() as i64 + position as i64 + 1;
            out.write_all(&buffer.shifted(number as i64 * round.length, in_all).bytes(form))?;
            written += 1;
        }
    }
    out.seek(SeekFrom::Start(0))?;
    out.write_all(&header_buffer(round, form, written)?)?;
    out.flush()?;
    Ok(())
}

fn header_buffer(round: &Round, form: Form, written: u32) -> Result<Vec<u8>> {
    let mut file = FileBuilder::new();
    file.header.logfile = round.logfile.clone();
    let logfile = &mut file.header.logfile;
    if form == Form::Circular {
        logfile.log_file_mode = LogfileHeader::MODE_CIRCULAR;
    }
    file.header.start_raw = round.start_raw;
    let mut bytes = file.finish();
    // The builder counts its own buffers and sets its own end.
    let payload = BufferHeader::SIZE + 0x20;
    bytes[payload + 0x24..payload + 0x28].copy_from_slice(&written.to_le_bytes());
    let end = FileTime(round.logfile.start_time.0 + 36_000_000_000);
    bytes[payload + 0x10..payload + 0x18].copy_from_slice(&end.0.to_le_bytes());
    Ok(bytes)
}

/// 180 000 events on four CPUs, sizes as in a kernel trace.
fn synthetic() -> Result<Vec<u8>> {
    let mut file = FileBuilder::new();
    let payload = [0x5a; 96];
    for number in 0..180_000i64 {
        let mut record = EventRecord::new(HeaderType::Event64, &payload[..(number % 96) as usize]);
        record.provider = Some(Guid::from_u128(0x1234));
        record.order_time = file.header.start_raw + number * 10;
        (record.process_id, record.thread_id) = (Some(1), Some(2));
        file.push((number / 5 % 4) as u16, &record)?;
    }
    Ok(file.finish())
}
