//! A log file that records are added to, and that is readable at every moment.
//!
//! The writer stores a record first, then the chunk's header, then the file's. While the log is open its header is
//! marked dirty, so readers count the chunks themselves. After a crash the file is therefore a sound log that lacks at
//! most the record being written.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use etw_types::{FileTime, le};

use crate::layout::{
    CHUNK_SIZE, ChunkHeader, FILE_DIRTY, FILE_FULL, FILE_HEADER_SIZE, FIRST_RECORD, FileHeader,
};
use crate::tree::Fragment;
use crate::write::ChunkWriter;
use crate::{Error, Log};

/// Bytes of a chunk with its records. The reader libevtx does not find the last record of a chunk that is full to its last byte; the
/// chunks of Windows that were seen are not.
const MOST: usize = CHUNK_SIZE - 8;

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

/// A note of a log's writer in the unused part of the file's header: the last thing that it was about to append. Readers ignore
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Identifies the writer.
    pub owner: u64,
    /// A number of the writer's own, which rises.
    pub sequence: i64,
    /// Id of the first record that the writer was about to append.
    pub first_id: u64,
}

/// Offset of the mark in the file's header, which has nothing but zeros there.
const MARK: usize = 1024;
const MARK_SIGNATURE: &[u8; 8] = b"openetw\0";
/// ```text
/// 0 signature   8 u64 owner   16 i64 sequence   24 u64 first id   32 u32 CRC-32 of the bytes before
/// ```
const MARK_SIZE: usize = 36;

impl Mark {
    fn to_bytes(self) -> [u8; MARK_SIZE] {
        let mut bytes = [0; MARK_SIZE];
        bytes[..8].copy_from_slice(MARK_SIGNATURE);
        bytes[8..16].copy_from_slice(&self.owner.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first_id.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..32]);
        bytes[32..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8; MARK_SIZE]) -> Option<Mark> {
        let is_sound = bytes.starts_with(MARK_SIGNATURE)
            && le::u32(bytes, 32) == Some(crc32fast::hash(&bytes[..32]));
        is_sound.then_some(Mark {
            owner: le::u64(bytes, 8)?,
            sequence: le::i64(bytes, 16)?,
            first_id: le::u64(bytes, 24)?,
        })
    }
}

/// The state of a writer, to return to when records could not be stored.
#[derive(Debug)]
pub struct Saved {
    current: u64,
    chunk: ChunkWriter,
    next_id: u64,
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
    mark: Option<Mark>,
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
            mark: None,
            file,
        };
        match writer.file.metadata()?.len() {
            0 => writer.put(0, &vec![0; FILE_HEADER_SIZE + CHUNK_SIZE])?,
            _ => writer.recover(&Log::from_file(writer.file.try_clone()?)?)?,
        }
        writer.put_header(FILE_DIRTY)?;
        Ok(writer)
    }

    /// Creates a log that continues another one's ids and has its mark, limits and permissions. The file must not exist.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create_after(path: impl AsRef<Path>, before: &LogWriter) -> Result<LogWriter, Error> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        file.set_permissions(before.file.metadata()?.permissions())?;
        let mut writer = LogWriter {
            retention: before.retention,
            max_chunks: before.max_chunks,
            chunks: 1,
            current: 0,
            chunk: ChunkWriter::new(),
            written: 0,
            next_id: before.next_id,
            is_full: false,
            overwritten: 0,
            mark: before.mark,
            file,
        };
        writer.put(0, &vec![0; FILE_HEADER_SIZE + CHUNK_SIZE])?;
        writer.put_header(FILE_DIRTY)?;
        Ok(writer)
    }

    /// Continues a log: reads the chunk with the newest records, and appends to it.
    fn recover(&mut self, log: &Log) -> Result<(), Error> {
        let mut mark = [0; MARK_SIZE];
        self.file.seek(SeekFrom::Start(MARK as u64))?;
        // A file that is shorter has no mark.
        if self.file.read_exact(&mut mark).is_ok() {
            self.mark = Mark::read(&mark);
        }
        let size = self.file.metadata()?.len();
        let chunks = size.saturating_sub(FILE_HEADER_SIZE as u64) / CHUNK_SIZE as u64;
        self.chunks = chunks.max(1);
        let Some(newest) = log.newest() else {
            self.next_id = log.header().next_record_id.max(1);
            self.put(FILE_HEADER_SIZE as u64, &vec![0; CHUNK_SIZE])?;
            return Ok(());
        };
        self.current = (newest.offset - FILE_HEADER_SIZE as u64) / CHUNK_SIZE as u64;
        let mut chunk = log.chunk(newest)?;
        // A chunk that was begun says that its last record is the one before its first.
        let mut last_id = newest.last_id;
        while let Some(record) = chunk.next() {
            last_id = last_id.max(record.id());
            // Another writer's chunk may not fit again; the log then continues in a new chunk.
            if !self.chunk.push(record.id(), record.time(), record.fragment())? {
                break;
            }
        }
        self.next_id = last_id.saturating_add(1);
        if self.chunk.is_empty() && newest.last_id < newest.first_id {
            self.put(newest.offset, &vec![0; CHUNK_SIZE])?;
            return Ok(());
        }
        let is_same = self.chunk.last_id() == last_id
            && chunk.bytes().get(..self.chunk.size()).is_some_and(|bytes| {
                bytes[FIRST_RECORD..] == self.chunk.to_bytes()[FIRST_RECORD..self.chunk.size()]
            });
        if is_same {
            self.written = self.chunk.size();
            self.sync_chunk()
        } else {
            self.chunk = ChunkWriter::new();
            match self.advance() {
                // The first record is refused.
                Err(Error::Full) => Ok(()),
                other => other,
            }
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
    /// [`Error::Full`]; [`Error::DoesNotFit`]: the record is not in the log. [`Error::Io`]: it may not be in the file yet; the
    /// next record, or [`sync`](LogWriter::sync), writes it.
    pub fn push(&mut self, time: FileTime, fragment: &Fragment<'_>) -> Result<u64, Error> {
        let id = self.append(time, fragment)?;
        self.sync()?;
        Ok(id)
    }

    /// Adds a record and gives its id. Readers find it after [`sync`](LogWriter::sync), or when its chunk is full.
    ///
    /// # Errors
    /// [`Error::Full`]; [`Error::DoesNotFit`]; [`Error::Io`]: the record is not in the log, and may be added again.
    pub fn append(&mut self, time: FileTime, fragment: &Fragment<'_>) -> Result<u64, Error> {
        if self.is_full {
            return Err(Error::Full);
        }
        let id = self.next_id;
        if !self.chunk.push_within(MOST, id, time, fragment)? {
            self.sync()?;
            self.advance()?;
            self.chunk.push_within(MOST, id, time, fragment)?;
        }
        self.next_id += 1;
        Ok(id)
    }

    /// Writes the records that were added.
    ///
    /// # Errors
    /// [`Error::Io`]: the records are kept, and the next call writes them.
    pub fn sync(&mut self) -> Result<(), Error> {
        match self.written < self.chunk.size() && !self.chunk.is_empty() {
            true => self.sync_chunk(),
            false => Ok(()),
        }
    }

    /// The state before records are added that are wanted together.
    pub fn save(&self) -> Saved {
        Saved { current: self.current, chunk: self.chunk.clone(), next_id: self.next_id }
    }

    /// Drops the records that were added since `saved` and could not be written. Records that filled a chunk stay.
    pub fn restore(&mut self, saved: Saved) {
        if self.current == saved.current {
            // A chunk that is full was written before the next one could not begin: the file has its records.
            if self.written <= saved.chunk.size() {
                (self.chunk, self.next_id) = (saved.chunk, saved.next_id);
                // Readers also find records that a header does not name. The device may refuse this, too.
                let size = self.chunk.size();
                let rest = offset_of(self.current) + size as u64;
                let _ = self.put(rest, &vec![0; CHUNK_SIZE - size]);
            }
        } else if self.written == 0 && !self.chunk.is_empty() {
            self.next_id = self.chunk.first_id();
            self.chunk = ChunkWriter::new();
        }
        self.written = self.written.min(self.chunk.size());
    }

    /// Removes the records that were added since `saved`, also from the file. For logs with [`Retention::Keep`], in which records
    /// replace no others.
    ///
    /// # Errors
    /// [`Error::Io`]: some of the records may still be in the file.
    pub fn withdraw(&mut self, saved: Saved) -> Result<(), Error> {
        // From the last one on: what remains after a crash has no gap.
        for chunk in (saved.current + 1..=self.current).rev() {
            self.put(offset_of(chunk), &vec![0; CHUNK_SIZE])?;
        }
        (self.current, self.chunk, self.next_id) = (saved.current, saved.chunk, saved.next_id);
        if self.chunk.is_empty() {
            self.put(offset_of(self.current), &vec![0; CHUNK_SIZE])?;
            self.written = 0;
        } else {
            let (offset, size) = (offset_of(self.current), self.chunk.size());
            self.put(offset, &self.chunk.head())?;
            // Readers also find records that a header does not name yet.
            self.put(offset + size as u64, &vec![0; CHUNK_SIZE - size])?;
            self.written = size;
        }
        self.put_header(if self.is_full { FILE_DIRTY | FILE_FULL } else { FILE_DIRTY })
    }

    /// The mark of the last writer.
    pub fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// Sets the mark. A process that is killed afterwards does not lose it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn set_mark(&mut self, mark: Mark) -> Result<(), Error> {
        self.put(MARK as u64, &mark.to_bytes())?;
        self.mark = Some(mark);
        Ok(())
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
        // Some readers look no further than the chunks that the header counts, also in a log that was not closed. The header of a log
        // in use may be stale: a device that refuses it costs nothing.
        let _ = self.put_header(FILE_DIRTY);
        Ok(())
    }

    /// Writes the new part of the chunk: first the records, then the tables and header that refer to them. A new chunk first gets a header
    /// without records: zeros in front of records are damage.
    fn sync_chunk(&mut self) -> Result<(), Error> {
        let offset = offset_of(self.current);
        if self.written == 0 {
            self.put(offset, &self.chunk.empty_head())?;
        }
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
        let mut bytes = header.to_bytes();
        if let Some(mark) = self.mark {
            bytes[MARK..MARK + MARK_SIZE].copy_from_slice(&mark.to_bytes());
        }
        Ok(self.put(0, &bytes)?)
    }

    /// Closes the log: the header becomes true and the file is on the disk.
    ///
    /// # Errors
    /// [`Error::Io`]. A log that was not closed is read all the same, and recovered when it is opened again.
    pub fn close(mut self) -> Result<(), Error> {
        self.sync()?;
        self.put_header(if self.is_full { FILE_FULL } else { 0 })?;
        self.file.sync_all()?;
        Ok(())
    }
}

fn offset_of(chunk: u64) -> u64 {
    FILE_HEADER_SIZE as u64 + chunk * CHUNK_SIZE as u64
}
