//! [`Translation`]: the records of a file of another format, made readable as a trace.

use super::byte_source::ByteSource;
use super::file::TraceFile;
use super::spill::{SpillFile, SpillList};
use crate::Error;
use crate::header::LogfileHeader;
use crate::write::{BufferBuilder, EncodeError, FileHeader, Starter, WriteError, logfile_buffer};
use etw_types::{ClockType, EventRecord, FileTime, LogFileMode};
use std::io;
use std::path::Path;

/// Bytes of each buffer.
const BUFFER_SIZE: u32 = 256 << 10;
/// Bytes that are kept in memory; what is more goes into an unnamed temporary file.
const MEMORY_LIMIT: usize = 16 << 20;

/// Collects the records of a file of another format, and makes a [`TraceFile`] of them.
///
/// Memory is bounded: beyond 16 MiB the records lie in an unnamed temporary file. Times are FILETIMEs.
pub struct Translation {
    list: SpillList,
    file: Option<SpillFile>,
    buffer: BufferBuilder,
    buffers: u32,
    first: Option<i64>,
    last: i64,
    bytes: Vec<u8>,
}

impl Default for Translation {
    fn default() -> Translation {
        Translation {
            list: SpillList::default(),
            file: None,
            buffer: BufferBuilder::new(BUFFER_SIZE, 0),
            buffers: 1,
            first: None,
            last: i64::MIN,
            bytes: Vec::new(),
        }
    }
}

impl Translation {
    /// A translation without records.
    pub fn new() -> Translation {
        Translation::default()
    }

    /// Appends a record. Its time is a FILETIME.
    ///
    /// # Errors
    /// `Encode`: the record does not fit a trace; `Io`: the temporary file cannot be written.
    pub fn push(&mut self, record: &EventRecord<'_>) -> Result<(), WriteError> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let encoded = crate::write::encode(record, &mut bytes);
        let pushed = match encoded {
            Ok(()) => self.push_stored(&bytes, record.order_time),
            Err(error) => Err(WriteError::Encode(error)),
        };
        self.bytes = bytes;
        pushed
    }

    /// Appends a record in its on-disk form.
    ///
    /// # Errors
    /// As [`push`](Translation::push).
    pub fn push_stored(&mut self, bytes: &[u8], time: i64) -> Result<(), WriteError> {
        if !self.buffer.has_room(bytes.len()) {
            self.close_buffer()?;
        }
        self.buffer.push_timed(bytes, time);
        self.note_time(time);
        Ok(())
    }

    /// Extends the time that the trace spans to that of a record that is left out.
    pub fn note_time(&mut self, time: i64) {
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        self.last = self.last.max(time);
    }

    fn close_buffer(&mut self) -> io::Result<()> {
        let next = BufferBuilder::new(BUFFER_SIZE, 0);
        self.list.push(&std::mem::replace(&mut self.buffer, next).finish());
        self.buffers += 1;
        if self.list.in_memory() > MEMORY_LIMIT {
            let file = match self.file.take() {
                Some(file) => file,
                None => SpillFile::create()?,
            };
            self.list.spill(&file)?;
            self.file = Some(file);
        }
        Ok(())
    }

    /// The trace. `session` stands for the session's name; `damage` is that of the file itself: offsets there, and texts.
    ///
    /// # Errors
    /// `Io`.
    pub fn finish(
        mut self,
        path: &Path,
        session: &str,
        damage: impl IntoIterator<Item = (u64, String)>,
    ) -> Result<TraceFile, Error> {
        let io_error = |source| Error::Io { path: path.to_owned(), source };
        if !self.buffer.is_empty() {
            self.close_buffer().map_err(io_error)?;
        }
        let header = self.header(path, session);
        let invalid = |error: EncodeError| io_error(io::Error::other(error));
        let FileHeader { logfile, start_raw, starter } = &header;
        let header =
            logfile_buffer(logfile, *start_raw, *starter, &[], BUFFER_SIZE).map_err(invalid)?;
        let source = Source { header, list: self.list, file: self.file };
        TraceFile::translated(path, Box::new(source), damage)
    }

    fn header(&self, path: &Path, session: &str) -> FileHeader {
        let start = self.first.unwrap_or(0);
        let logfile = LogfileHeader {
            buffer_size: BUFFER_SIZE,
            version: [10, 0, 1, 5],
            end_time: FileTime(self.last.max(start).max(1)),
            timer_resolution: 156_250,
            log_file_mode: LogFileMode::SEQUENTIAL,
            buffers_written: self.buffers,
            perf_freq: 10_000_000,
            start_time: FileTime(start),
            clock_type: ClockType::SYSTEM,
            logger_name: session.into(),
            log_file_name: path.to_string_lossy().into_owned(),
            ..LogfileHeader::unknown()
        };
        FileHeader { logfile, start_raw: start, starter: Starter::default() }
    }
}

/// The header's buffer, then the records'.
struct Source {
    header: Vec<u8>,
    list: SpillList,
    file: Option<SpillFile>,
}

impl ByteSource for Source {
    fn size(&self) -> u64 {
        self.header.len() as u64 + self.list.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match offset.checked_sub(self.header.len() as u64) {
            None => self.header.read_at(buffer, offset),
            Some(at) => self.list.read(self.file.as_ref(), at, buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Records;
    use etw_types::HeaderType;

    #[test]
    fn a_translated_file_has_its_records_and_no_header_record() {
        let mut translation = Translation::new();
        let payload = [7; 60_000];
        // Enough for buffers in the temporary file.
        for time in 1..=800 {
            let mut record = EventRecord::new(HeaderType::Event64, &payload);
            record.order_time = time;
            translation.push(&record).unwrap();
        }
        assert!(translation.file.is_some());
        let damage = [(5, "torn".to_owned())];
        let file = translation.finish(Path::new("x.evtx"), "Application", damage).unwrap();
        assert!(file.is_finalised() && file.is_translated());
        let mut records = Records::new(vec![file]);
        for time in 1..=800 {
            assert_eq!(records.next().map(|record| record.order_time), Some(time));
        }
        assert!(records.next().is_none());
        assert_eq!(records.damage().kept()[0].kind.to_string(), "torn");
    }

    #[test]
    fn a_translation_without_records_is_an_empty_trace() {
        let file = Translation::new().finish(Path::new("x.evtx"), "System", []).unwrap();
        assert!(Records::new(vec![file]).next().is_none());
    }
}
