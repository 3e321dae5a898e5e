//! The first buffer of a file.

use super::buffer_builder::BufferBuilder;
use super::record::{EncodeError, encode};
use crate::header::LogfileHeader;
use etw_types::{
    BufferFlags, BufferHeader, BufferType, EventRecord, FileTime, HeaderType, Hook, LogFileMode,
};

/// The logfile header, and the fields of its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// The payload of the first record.
    pub logfile: LogfileHeader,
    /// Raw timestamp of the first record.
    pub start_raw: i64,
    /// The process and thread that started the session.
    pub starter: Starter,
}

/// The process and thread that started a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Starter {
    /// The process.
    pub process_id: u32,
    /// Its thread.
    pub thread_id: u32,
}

impl FileHeader {
    /// Sets the layout version that follows from CPUs, mode and buffer size.
    ///
    /// The layout is 2.0 in files with compressed buffers, buffers of more than 1 MiB or more than 256 CPUs.
    pub fn set_layout(&mut self, cpus: usize, compressed: bool) {
        let logfile = &mut self.logfile;
        logfile.number_of_processors = logfile.number_of_processors.max(cpus as u32);
        if compressed {
            logfile.log_file_mode |= LogFileMode::COMPRESSED;
        }
        if compressed || logfile.buffer_size > 1 << 20 || logfile.number_of_processors > 256 {
            logfile.version[2..].copy_from_slice(&[2, 0]);
        }
    }

    /// Completes the header as a session does when it stops: the count of buffers and, unless it is set, the end time, which is
    /// that of the last record.
    pub fn complete(&mut self, buffers: u32, last_raw: i64) {
        let logfile = &mut self.logfile;
        logfile.buffers_written = buffers;
        if logfile.end_time == FileTime(0) {
            let last = logfile.clock(self.start_raw).filetime(last_raw);
            logfile.end_time = last.unwrap_or(logfile.start_time);
        }
    }
}

/// The first buffer of a file: the logfile header's record, then `header_records`, each in its on-disk form.
///
/// Its bytes are as many whenever it is made again with another end, count or loss: a session writes it at the start
/// and over itself at the end. Names alone change the length of the record.
///
/// ```
/// use etw_etl::write::{self, FileBuilder};
///
/// let mut header = FileBuilder::new().header;
/// let running = write::logfile_buffer(&header.logfile, header.start_raw, header.starter, &[], 0x2000)?;
/// header.complete(7, header.start_raw + 5);
/// let stopped = write::logfile_buffer(&header.logfile, header.start_raw, header.starter, &[], 0x2000)?;
/// assert_eq!((running.len(), stopped.len()), (0x2000, 0x2000));
/// # Ok::<(), write::EncodeError>(())
/// ```
///
/// # Errors
/// `TooLarge` for names that no record can hold; `BufferFull` if the records exceed `buffer_size`.
pub fn logfile_buffer(
    header: &LogfileHeader,
    start_raw: i64,
    starter: Starter,
    header_records: &[Vec<u8>],
    buffer_size: u32,
) -> Result<Vec<u8>, EncodeError> {
    let mut buffer = logfile_builder(header, start_raw, starter, buffer_size)?;
    for bytes in header_records {
        if !buffer.has_room(bytes.len()) {
            return Err(no_room(bytes.len(), &buffer));
        }
        buffer.push_bytes(bytes);
    }
    Ok(buffer.finish())
}

/// As [`logfile_buffer`], for callers that add records or set the session id.
///
/// # Errors
/// As there.
pub fn logfile_builder(
    header: &LogfileHeader,
    start_raw: i64,
    starter: Starter,
    buffer_size: u32,
) -> Result<BufferBuilder, EncodeError> {
    let payload = header.to_payload();
    let wide = header.pointer_size != 4;
    let header_type = if wide { HeaderType::System64 } else { HeaderType::System32 };
    let mut record = EventRecord::new(header_type, &payload);
    record.hook = Some(Hook(0));
    record.descriptor.version = 2;
    record.order_time = start_raw;
    (record.process_id, record.thread_id) = (Some(starter.process_id), Some(starter.thread_id));
    let mut bytes = Vec::new();
    encode(&record, &mut bytes)?;
    let mut buffer = BufferBuilder::new(buffer_size, 0);
    buffer.header.buffer_type = BufferType::HEADER;
    buffer.header.flags |= BufferFlags::FLUSH_MARKER;
    if !buffer.has_room(bytes.len()) {
        return Err(no_room(bytes.len(), &buffer));
    }
    buffer.push_bytes(&bytes);
    Ok(buffer)
}

pub(super) fn no_room(size: usize, buffer: &BufferBuilder) -> EncodeError {
    let room = (buffer.header.buffer_size as usize).saturating_sub(BufferHeader::SIZE);
    EncodeError::BufferFull { size, room: room.saturating_sub(buffer.len()) }
}
