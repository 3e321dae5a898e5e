//! A log file that records are added to, and that is readable at every moment.
//!
//! The writer stores a record first, then the chunk's header, then the file's. While the log is open its header is
//! marked dirty, so readers count the chunks themselves. After a crash the file is therefore a sound log that lacks at
//! most the record being written.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use etw_types::FileTime;

use crate::layout::{
    CHUNK_SIZE, ChunkHeader, FILE_DIRTY, FILE_FULL, FILE_HEADER_SIZE, FIRST_RECORD, FileHeader,
};
use crate::tree::Fragment;
use crate::write::ChunkWriter;
use crate::{Error, Log};

/// The policy of a log that has reached its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retention {
    /// The chunk with the oldest records is overwritten.
    #[default]
    Overwrite,
    /// New records are refused with [`Error::Full`], and the header says that the log is full.
    Keep,
}

/// A log that is open for writing. Nobody else may write to it.
#[derive(Debug)]
pub struct LogWriter {
    file: File,
    retention: Retention,
    /// Most chunks that the file may have.
    max_chunks: u64,
    /// Chunks that the file has.
    chunks: u64,
    /// Index of the chunk being written, and its contents.
    current: u64,
    chunk: ChunkWriter,
    /// Bytes of the chunk that are in the file.
    written: usize,
    next_id: u64,
    is_full: bool,
    /// Records overwritten since the writer was opened.
    overwritten: u64,
}

impl LogWriter {
    /// Creates a log, or opens one to add to it. A log that was not closed is recovered: its header is made anew from
    /// its chunks.
    ///
    /// `max_size` is in bytes: the file header and whole chunks, at least one.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::NotEvtx`] and [`Error::Unsupported`] for a file that is another thing.
    pub fn open(
        path: impl AsRef<Path>,
        max_size: u64,
        retention: Retention,
    ) -> Result<LogWriter, Error> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        LogWriter::from_file(file, max_size, retention)
    }

    /// As [`open`](LogWriter::open), for a file that is open for reading and writing.
    ///
    /// # Errors
    /// As [`open`](LogWriter::open).
    pub fn from_file(file: File, max_size: u64, retention: Retention) -> Result<LogWriter, Error> {
        let max_chunks =
            (max_size.saturating_sub(FILE_HEADER_SIZE as u64) / CHUNK_SIZE as u64).max(1);
        let mut writer = LogWriter {
            retention,
            max_chunks,
            chunks: 1,
            current: 0,
            chunk: ChunkWriter::new(),
            written: 0,
            next_id: 1,
            is_full: false,
            overwritten: 0,
            file,
        };
        match writer.file.metadata()?.len() {
            0 => writer.put(0, &vec![0; FILE_HEADER_SIZE + CHUNK_SIZE])?,
            _ => writer.recover(&Log::from_file(writer.file.try_clone()?)?)?,
        }
        writer.put_header(FILE_DIRTY)?;
        Ok(writer)
    }

    /// Continues a log: reads the chunk with the newest records, and appends to it.
    fn recover(&mut self, log: &Log) -> Result<(), Error> {
        let size = self.file.metadata()?.len();
        let chunks = size.saturating_sub(FILE_HEADER_SIZE as u64) / CHUNK_SIZE as u64;
        self.chunks = chunks.max(1);
        let Some(newest) = log.chunks().iter().max_by_key(|location| location.last_id) else {
            self.next_id = log.header().next_record_id.max(1);
            self.put(FILE_HEADER_SIZE as u64, &vec![0; CHUNK_SIZE])?;
            return Ok(());
        };
        self.current = (newest.offset - FILE_HEADER_SIZE as u64) / CHUNK_SIZE as u64;
        let mut chunk = log.chunk(newest)?;
        let mut last_id = newest.last_id;
        while let Some(record) = chunk.next() {
            last_id = last_id.max(record.id());
            // Another writer's chunk may not fit again; the log then continues in a new chunk.
            if !self.chunk.push(record.id(), record.time(), record.fragment())? {
                break;
            }
        }
        self.next_id = last_id + 1;
        let is_same = self.chunk.last_id() == last_id
            && chunk.bytes().get(..self.chunk.size()).is_some_and(|bytes| {
                bytes[FIRST_RECORD..] == self.chunk.to_bytes()[FIRST_RECORD..self.chunk.size()]
            });
        if is_same {
            self.written = self.chunk.size();
            self.sync_chunk()
        } else {
            self.chunk = ChunkWriter::new();
            self.advance()
        }
    }

    /// The id that the next record gets.
    pub fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Records that were overwritten since the log was opened.
    pub fn overwritten(&self) -> u64 {
        self.overwritten
    }

    /// Whether records are refused because the log keeps its oldest.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Adds a record and gives its id. When this returns, every reader of the file finds it.
    ///
    /// # Errors
    /// [`Error::Full`]; [`Error::DoesNotFit`]; [`Error::Io`]: the record is not in the log, and may be added again.
    pub fn push(&mut self, time: FileTime, fragment: &Fragment<'_>) -> Result<u64, Error> {
        if self.is_full {
            return Err(Error::Full);
        }
        let id = self.next_id;
        if !self.chunk.push(id, time, fragment)? {
            self.advance()?;
            self.chunk.push(id, time, fragment)?;
        }
        self.sync_chunk()?;
        self.next_id += 1;
        Ok(id)
    }

    /// Begins the next chunk.
    fn advance(&mut self) -> Result<(), Error> {
        let mut next = self.current + 1;
        if next >= self.max_chunks.max(self.chunks.min(self.max_chunks)) {
            if self.retention == Retention::Keep {
                self.is_full = true;
                self.put_header(FILE_DIRTY | FILE_FULL)?;
                return Err(Error::Full);
            }
            next = 0;
        }
        let offset = offset_of(next);
        if next < self.chunks {
            let mut start = vec![0; 128];
            self.file.seek(SeekFrom::Start(offset))?;
            self.file.read_exact(&mut start)?;
            if let Some(header) = ChunkHeader::read(&start) {
                self.overwritten += header.last_id.saturating_sub(header.first_id) + 1;
            }
        }
        // Without a signature, readers ignore the chunk's old records.
        self.put(offset, &vec![0; CHUNK_SIZE])?;
        self.chunks = self.chunks.max(next + 1);
        self.current = next;
        self.chunk = ChunkWriter::new();
        self.written = 0;
        Ok(())
    }

    /// Writes the new part of the chunk: first the records, then the tables and header that refer to them.
    fn sync_chunk(&mut self) -> Result<(), Error> {
        let offset = offset_of(self.current);
        let from = self.written.max(FIRST_RECORD);
        let to = self.chunk.size();
        self.file.seek(SeekFrom::Start(offset + from as u64))?;
        self.file.write_all(&self.chunk.records()[from - FIRST_RECORD..])?;
        self.put(offset, &self.chunk.head())?;
        self.written = to;
        Ok(())
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.write_all(bytes)
    }

    fn put_header(&mut self, flags: u32) -> Result<(), Error> {
        // The oldest chunk stands behind the newest where the log has wrapped.
        let first_chunk = match self.current + 1 < self.chunks {
            true => self.current + 1,
            false => 0,
        };
        let header = FileHeader {
            first_chunk,
            last_chunk: self.current,
            next_record_id: self.next_id,
            minor: 1,
            major: 3,
            chunk_count: u16::try_from(self.chunks).unwrap_or(u16::MAX),
            flags,
            is_sound: true,
        };
        Ok(self.put(0, &header.to_bytes())?)
    }

    /// Closes the log: the header becomes true and the file is on the disk.
    ///
    /// # Errors
    /// [`Error::Io`]. A log that was not closed is read all the same, and recovered when it is opened again.
    pub fn close(mut self) -> Result<(), Error> {
        self.put_header(if self.is_full { FILE_FULL } else { 0 })?;
        self.file.sync_all()?;
        Ok(())
    }
}

fn offset_of(chunk: u64) -> u64 {
    FILE_HEADER_SIZE as u64 + chunk * CHUNK_SIZE as u64
}
