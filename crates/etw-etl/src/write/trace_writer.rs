//! Writes files of any size in bounded memory.

use super::buffer_builder::BufferBuilder;
use super::compressor::{Compressed, Compressor};
use super::header_buffer::{FileHeader, logfile_builder, no_room};
use super::open_buffers::OpenBuffers;
use super::record::{EncodeError, encode};
use crate::lzxpress::Level;
use etw_types::{BufferFlags, BufferHeader, EventRecord, FileTime};
use std::fmt;
use std::io::{self, Seek, SeekFrom, Write};

/// Why a trace could not be written on.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The record has no place in this file; all others have.
    Encode(EncodeError),
    /// The output took no more.
    Io(io::Error),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Encode(error) => error.fmt(f),
            WriteError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WriteError::Encode(error) => Some(error),
            WriteError::Io(error) => Some(error),
        }
    }
}

impl From<EncodeError> for WriteError {
    fn from(error: EncodeError) -> WriteError {
        WriteError::Encode(error)
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> WriteError {
        WriteError::Io(error)
    }
}

/// How a trace is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriterOptions {
    /// Compress every buffer but the first.
    pub compressed: bool,
    /// The effort for small buffers.
    pub level: Level,
    /// Compress on a second thread, too. The file is the same.
    pub has_helper: bool,
    /// Session id of every buffer; 0 in rewritten files.
    pub logger_id: u16,
}

/// Writes a trace to a file in bounded memory: one open buffer a CPU.
///
/// The header buffer comes first, with the end left open, then each buffer when it is full. Until
/// [`finish`](TraceWriter::finish) has written the header anew, the file is that of a session that was killed: readable
/// up to the last buffer written.
///
/// ```
/// use etw_etl::read::{Records, TraceFile};
/// use etw_etl::write::{FileBuilder, TraceWriter, WriterOptions};
/// use etw_types::{EventRecord, HeaderType};
/// use std::io::Cursor;
///
/// let header = FileBuilder::new().header;
/// let mut event = EventRecord::new(HeaderType::Event64, b"payload");
/// event.order_time = header.start_raw + 10;
/// let mut writer = TraceWriter::new(Cursor::new(Vec::new()), header, WriterOptions::default())?;
/// writer.push(0, &event)?;
/// let bytes = writer.finish()?.into_inner();
/// let mut records = Records::new(vec![TraceFile::from_bytes("x.etl", bytes)?]);
/// assert!(records.next().is_some_and(|record| record.hook.is_some()));
/// assert!(records.next().is_some_and(|record| record.payload == b"payload"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TraceWriter<W: Write + Seek> {
    out: W,
    /// The offset of the file's start in `out`.
    start: u64,
    header: FileHeader,
    options: WriterOptions,
    first: First,
    open: OpenBuffers,
    /// Buffers behind the header's.
    written: u64,
    last_raw: i64,
    compressor: Compressor,
    /// A record.
    scratch: Vec<u8>,
}

/// The header buffer: it takes records until the first other buffer is written.
struct First {
    /// On-disk forms, padded.
    records: Vec<u8>,
    /// Bytes for header, records and their buffer header, at most the file's buffer size.
    filled: usize,
    /// Its size on disk, once it is there.
    size: Option<u32>,
}

impl<W: Write + Seek> TraceWriter<W> {
    /// Starts a file at the present position of `out`.
    ///
    /// `header.logfile.buffer_size` is the size of every buffer. An end that `header` has is written by
    /// [`finish`](TraceWriter::finish) only. Nothing is written yet.
    ///
    /// # Errors
    /// The header does not fit a buffer, or `out` cannot tell its position.
    pub fn new(
        mut out: W,
        header: FileHeader,
        options: WriterOptions,
    ) -> Result<TraceWriter<W>, WriteError> {
        let start = out.stream_position()?;
        let mut writer = TraceWriter {
            out,
            start,
            last_raw: header.start_raw,
            header,
            options,
            first: First { records: Vec::new(), filled: 0, size: None },
            open: OpenBuffers::default(),
            written: 0,
            compressor: Compressor::new(options.level, options.compressed && options.has_helper),
            scratch: Vec::new(),
        };
        writer.header.set_layout(0, options.compressed);
        let buffer = writer.header_buffer(&writer.header, writer.header.logfile.buffer_size)?;
        writer.first.filled = BufferHeader::SIZE + buffer.len();
        Ok(writer)
    }

    /// The header that `finish` writes: losses are for the caller to set, and an end that is not the time of the last
    /// record. Names and buffer size must stay.
    pub fn header_mut(&mut self) -> &mut FileHeader {
        &mut self.header
    }

    /// Latest raw time of a record so far, or of the start.
    pub fn last_raw(&self) -> i64 {
        self.last_raw
    }

    /// Buffers in the file so far, the header's included.
    pub fn buffers(&self) -> u64 {
        self.written + 1
    }

    /// Puts a record in its on-disk form behind the logfile header: the session's own records, before any event.
    ///
    /// `false` where there is no room or another buffer has been written already; it can still be pushed as an event.
    pub fn push_header_record(&mut self, bytes: &[u8]) -> bool {
        let size = bytes.len().next_multiple_of(8);
        let limit = self.header.logfile.buffer_size as usize;
        if self.first.size.is_some() || self.first.filled + size > limit {
            return false;
        }
        self.first.filled += size;
        self.first.records.extend_from_slice(bytes);
        let padded = self.first.records.len().next_multiple_of(8);
        self.first.records.resize(padded, 0);
        true
    }

    /// Appends an event to the stream of a CPU, of which there can be 2048.
    ///
    /// # Errors
    /// `Encode` leaves the file as it was; after `Io` it must be given up.
    pub fn push(&mut self, cpu: u16, record: &EventRecord<'_>) -> Result<(), WriteError> {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        let result = encode(record, &mut bytes).map_err(WriteError::Encode);
        let result = result.and_then(|()| self.push_stored(cpu, record.raw_timestamp(), &bytes));
        self.scratch = bytes;
        result
    }

    /// Appends a record in its on-disk form to the stream of a CPU; `time` is that in `bytes`.
    ///
    /// # Errors
    /// As [`push`](TraceWriter::push).
    #[inline]
    pub fn push_stored(
        &mut self,
        cpu: u16,
        time: Option<i64>,
        bytes: &[u8],
    ) -> Result<(), WriteError> {
        let size = self.header.logfile.buffer_size;
        if !self.open.get(cpu, size).has_room(bytes.len()) {
            self.make_room(cpu, bytes.len())?;
        }
        let buffer = self.open.get(cpu, size);
        match time {
            Some(time) => {
                buffer.push_timed(bytes, time);
                self.last_raw = self.last_raw.max(time);
            }
            None => buffer.push_bytes(bytes),
        }
        Ok(())
    }

    #[cold]
    fn make_room(&mut self, cpu: u16, size: usize) -> Result<(), WriteError> {
        let buffer_size = self.header.logfile.buffer_size;
        if !BufferBuilder::new(buffer_size, cpu).has_room(size) {
            return Err(no_room(size, &BufferBuilder::new(buffer_size, cpu)).into());
        }
        self.write_open(cpu, BufferFlags::NONE)?;
        Ok(())
    }

    /// Writes all open buffers; the last is marked: everything older is in the file.
    ///
    /// # Errors
    /// Those of the output.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.write_first()?;
        let cpus = self.open.cpus();
        for (number, &cpu) in cpus.iter().enumerate() {
            let last = number + 1 == cpus.len();
            self.write_open(cpu, BufferFlags::FLUSH_MARKER.when(last))?;
        }
        self.write_compressed(true)?;
        self.out.flush()?;
        Ok(())
    }

    /// Writes what is open, completes the header and gives the output back, at the end of the file.
    ///
    /// # Errors
    /// Those of the output; the file is then one whose session was killed.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.flush()?;
        self.header.set_layout(self.open.cpu_count(), self.options.compressed);
        // The field has 32 bits; no reader of more buffers depends on it.
        let buffers = u32::try_from(self.buffers()).unwrap_or(u32::MAX);
        self.header.complete(buffers, self.last_raw);
        let size = self.first.size.unwrap_or(self.header.logfile.buffer_size);
        let mut first = self.header_buffer(&self.header, size)?;
        self.out.seek(SeekFrom::Start(self.start))?;
        first.write_to(&mut self.out)?;
        self.out.flush()?;
        self.out.seek(SeekFrom::End(0))?;
        Ok(self.out)
    }

    fn write_open(&mut self, cpu: u16, flags: BufferFlags) -> Result<(), WriteError> {
        self.write_first()?;
        let Some(mut buffer) = self.open.take(cpu) else { return Ok(()) };
        buffer.header.flags |= flags;
        buffer.header.logger_id = self.options.logger_id;
        self.written += 1;
        if self.options.compressed {
            self.compressor.push(buffer);
            return self.write_compressed(false);
        }
        buffer.write_to(&mut self.out)?;
        self.open.recycle(buffer);
        Ok(())
    }

    /// Writes buffers that are compressed; with `all`, it waits for those that are not.
    fn write_compressed(&mut self, all: bool) -> Result<(), WriteError> {
        let failed = |_| io::Error::other("the thread that compresses failed");
        while let Some(one) = self.compressor.pop(all).map_err(failed)? {
            let Compressed { buffer, compressed } = one;
            self.out.write_all(compressed.bytes())?;
            self.compressor.recycle(compressed);
            self.open.recycle(buffer);
        }
        Ok(())
    }

    fn write_first(&mut self) -> Result<(), WriteError> {
        if self.first.size.is_some() {
            return Ok(());
        }
        let mut size = self.header.logfile.buffer_size;
        if self.options.compressed {
            // Sizes differ anyway: multiples of 0x200 were seen of first buffers.
            size = size.min((self.first.filled as u32).next_multiple_of(0x200));
        }
        self.first.size = Some(size);
        let mut running = self.header.clone();
        (running.logfile.end_time, running.logfile.buffers_written) = (FileTime(0), 1);
        self.header_buffer(&running, size)?.write_to(&mut self.out)?;
        Ok(())
    }

    fn header_buffer(&self, header: &FileHeader, size: u32) -> Result<BufferBuilder, EncodeError> {
        let FileHeader { logfile, start_raw, starter } = header;
        let mut buffer = logfile_builder(logfile, *start_raw, *starter, size)?;
        buffer.header.logger_id = self.options.logger_id;
        if !buffer.has_room(self.first.records.len()) {
            return Err(no_room(self.first.records.len(), &buffer));
        }
        buffer.push_bytes(&self.first.records);
        Ok(buffer)
    }
}
