//! [`StoredRecord`]: one record of a log, kept with the bytes of its chunk.

use etw_evtx::Record;
use etw_evtx::chunk::with_record;
use std::sync::Arc;

/// A record that outlives the log it was read from. Records of one chunk share its bytes.
#[derive(Clone, Debug)]
pub struct StoredRecord {
    pub(crate) chunk: Arc<[u8]>,
    /// Offset of the chunk in its file.
    pub(crate) chunk_offset: u64,
    /// Offset of the record in the chunk.
    pub(crate) at: usize,
    pub(crate) source: Arc<str>,
}

impl StoredRecord {
    /// The channel or file that the record was read from, as its reader named it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Reads the record and gives it to `then`; `None`: it cannot be read.
    pub fn with<R>(&self, then: impl FnOnce(&Record<'_>) -> R) -> Option<R> {
        with_record(&self.chunk, self.at, self.chunk_offset, then)
    }

    /// The number of the record in the log that it was written to: its `EventRecordID`.
    pub fn record_id(&self) -> u64 {
        self.with(number).unwrap_or_default()
    }
}

/// The `EventRecordID` of a record; without one, its number in the file.
pub(crate) fn number(record: &Record<'_>) -> u64 {
    record.system().record_id().unwrap_or(record.id())
}
