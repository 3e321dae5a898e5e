//! [`TraceCopy`]: the events of a trace as the records of an event log.

use crate::record::{RecordBuilder, RecordFacts};
use etw_decode::{Decoded, Decoder, Store};
use etw_etl::read::{Records, TraceFile};
use etw_evtx::write::{LogWriter, Retention};
use etw_evtx::{Error, Log};
use etw_types::{EventRecord, FileTime};
use std::fs::File;
use std::sync::Arc;

/// Writes events of a trace to a log. A log has at most 65535 chunks by its header; readers count them themselves.
#[derive(Debug)]
pub struct TraceCopy {
    log: LogWriter,
    builder: RecordBuilder,
    cut: u64,
}

impl TraceCopy {
    /// Starts a log in an empty file.
    ///
    /// # Errors
    /// Those of [`LogWriter::from_file`].
    pub fn new(file: File) -> Result<TraceCopy, Error> {
        let log = LogWriter::from_file(file, u64::MAX, Retention::Keep)?;
        Ok(TraceCopy { log, builder: RecordBuilder::new(), cut: 0 })
    }

    /// Appends an event. If its fields do not fit a record, the record has the start of its payload.
    ///
    /// # Errors
    /// Those of writing the file.
    pub fn push(
        &mut self,
        event: &EventRecord<'_>,
        decoded: &Decoded<'_>,
        time: FileTime,
    ) -> Result<(), Error> {
        let TraceCopy { log, builder, cut } = self;
        let facts = RecordFacts { id: log.next_id(), time, channel: "", computer: "" };
        match builder.build(event, decoded, facts, |record| log.append(time, record)) {
            Err(Error::DoesNotFit { .. }) => {
                *cut += 1;
                builder.build_cut(event, decoded, facts, |record| log.append(time, record))?;
            }
            pushed => drop(pushed?),
        }
        Ok(())
    }

    /// Records with a part of their payload: their fields do not fit a chunk.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// Completes the log.
    ///
    /// # Errors
    /// Those of writing the file.
    pub fn close(self) -> Result<(), Error> {
        self.log.close()
    }
}

/// A log with the events of a trace, in an unnamed temporary file. Events without a time are left out. `decoder` makes a decoder that
/// knows the schemas of the trace.
///
/// # Errors
/// Those of writing the file.
pub fn log_of(trace: TraceFile, decoder: impl FnOnce(Arc<Store>) -> Decoder) -> Result<Log, Error> {
    // Schemas may be at the end of a trace.
    let mut store = Store::default();
    let mut records = Records::new(vec![trace.clone()]);
    while let Some(record) = records.next() {
        store.learn(&record);
    }
    let mut decoder = decoder(Arc::new(store));
    decoder.set_learning(false);
    let file = etw_etl::unnamed_file()?;
    let mut copy = TraceCopy::new(file.try_clone()?)?;
    let clock = *trace.clock();
    let mut records = Records::new(vec![trace]);
    while let Some(event) = records.next() {
        if let Some(time) = event.timestamp(&clock) {
            copy.push(&event, &decoder.decode(&event), time)?;
        }
    }
    copy.close()?;
    Log::from_file(file)
}
