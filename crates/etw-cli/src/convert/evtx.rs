//! Event logs: every event as a record.

use crate::output::{Failure, Progress};
use crate::output_file::NewFile;
use crate::where_filter::Filter;
use etw_decode::{Decoder, Style};
use etw_etl::read::Records;
use etw_eventlog::record::{RecordBuilder, RecordFacts};
use etw_evtx::write::{LogWriter, Retention};
use std::io;

/// The result of writing a log.
pub struct Written {
    /// Records in the log.
    pub records: u64,
    /// Events that were read.
    pub read: u64,
    /// Records with a part of their payload: their fields do not fit a chunk.
    pub cut: u64,
    /// Events without a time.
    pub untimed: u64,
}

/// Writes the selected events of `records` to a log. A log has at most 65535 chunks by its header; readers count them themselves.
pub fn write(
    records: &mut Records,
    decoder: &mut Decoder,
    filter: Option<&Filter>,
    new: &NewFile,
) -> Result<Written, Failure> {
    let failure = |error| match error {
        etw_evtx::Error::Io(error) => new.failure(&error),
        error => new.failure(&io::Error::other(error)),
    };
    let file = new.file().try_clone().map_err(|error| new.failure(&error))?;
    let mut log = LogWriter::from_file(file, u64::MAX, Retention::Keep).map_err(failure)?;
    let mut builder = RecordBuilder::new();
    let clocks: Vec<_> = records.files().iter().map(|file| *file.clock()).collect();
    let mut progress = Progress::of(records.files());
    let mut written = Written { records: 0, read: 0, cut: 0, untimed: 0 };
    let style = Style::default();
    while let Some(event) = records.next() {
        written.read += 1;
        if written.read.is_multiple_of(65_536) {
            progress.update_at(written.read, Some(event.position));
        }
        let Some(time) = event.timestamp(&clocks[event.position.file_index as usize]) else {
            written.untimed += 1;
            continue;
        };
        let decoded = decoder.decode(&event);
        if let Some(filter) = filter {
            if !filter.matches(&event, &decoded, Some(time), &style) {
                continue;
            }
            filter.check_shown(&decoded);
        }
        let facts = RecordFacts { id: log.next_id(), time, channel: "", computer: "" };
        let pushed = builder.build(&event, &decoded, facts, |record| log.push(time, record));
        match pushed {
            Ok(_) => {}
            Err(etw_evtx::Error::DoesNotFit { .. }) => {
                written.cut += 1;
                let pushed =
                    builder.build_cut(&event, &decoded, facts, |record| log.push(time, record));
                pushed.map_err(failure)?;
            }
            Err(error) => return Err(failure(error)),
        }
        written.records += 1;
    }
    log.close().map_err(failure)?;
    Ok(written)
}
