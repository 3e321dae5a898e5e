//! [`KeptLog`]: the event log of a session, which its host appends to buffer by buffer.

use crate::log_file::LogFile;
pub use crate::log_file::{Limit, WhenFull};
use crate::record_writer::RecordWriter;
use etw_decode::Catalog;
use etw_etl::read::{BufferRecords, Item, buffer};
use etw_etl::record::RecordContext;
use etw_types::Clock;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A log that the events of a session are appended to.
#[derive(Debug)]
pub struct KeptLog {
    file: LogFile,
    writer: RecordWriter,
    channel: String,
}

/// A session that keeps its events in a log.
#[derive(Clone, Debug)]
pub struct KeptSession {
    /// A number that no other session that wrote the log had.
    pub session: u64,
    /// The clock of its events.
    pub clock: Clock,
    /// The channel of events that name none.
    pub channel: String,
    /// Schemas, for events that do not describe themselves.
    pub schemas: Arc<Catalog>,
}

impl KeptLog {
    /// Opens a log, or creates it.
    ///
    /// # Errors
    /// Those of opening it; a file that is not an event log is an error.
    pub fn open(path: &Path, limit: Limit, session: KeptSession) -> io::Result<KeptLog> {
        Ok(KeptLog {
            file: LogFile::open(path, limit, session.session)?,
            writer: RecordWriter::new(session.clock, session.schemas),
            channel: session.channel,
        })
    }

    /// The id that the next record gets; `None` after [`finish`](KeptLog::finish).
    pub fn next_id(&self) -> Option<u64> {
        self.file.next_id()
    }

    /// Stores the events of a buffer, as it is in files. A buffer that was stored before, wholly or in part, is stored only once.
    ///
    /// # Errors
    /// Those of the system; a log that is full and refuses records is one. The events are then not in the log, those aside that
    /// filled a whole chunk before the system's error.
    pub fn store(&mut self, bytes: &[u8]) -> io::Result<()> {
        let limit = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        // A session's own buffer is sound.
        let Ok((header, records)) = buffer::open(bytes, limit) else { return Ok(()) };
        let KeptLog { file, writer, channel } = self;
        file.store(header.sequence_number, &mut |pending| {
            for item in BufferRecords::new(&records, &RecordContext::default()) {
                let Item::Record { mut record, .. } = item else { continue };
                record.cpu = header.processor;
                if let Some(time) = writer.time_if_kept(&record) {
                    writer.push(pending, &record, time, channel)?;
                }
            }
            Ok(())
        })
    }

    /// Closes the log.
    ///
    /// # Errors
    /// Those of the system.
    pub fn finish(&mut self) -> io::Result<()> {
        self.file.finish()
    }
}
