//! Event logs: every event as a record.

use crate::filter_names::FilterNames;
use crate::output::Progress;
use crate::where_filter::Filter;
use etw_decode::{Decoder, Style};
use etw_etl::read::Records;
use etw_eventlog::trace_copy::TraceCopy;
use etw_evtx::Error;
use std::fs::File;

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

impl Written {
    /// Events that the log lacks in part or whole.
    pub fn problems(&self) -> Vec<String> {
        let counts = [
            (
                self.cut,
                "events have fields that do not fit a record: it has the start of their payload",
            ),
            (self.untimed, "events have no time and were left out"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        counts.map(|(count, what)| format!("{count} {what}")).collect()
    }
}

/// Writes the selected events of `records` to a log.
pub fn write(
    records: &mut Records,
    decoder: &mut Decoder,
    filter: Option<(&Filter, &FilterNames)>,
    file: File,
) -> Result<Written, Error> {
    let mut copy = TraceCopy::new(file)?;
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
        if let Some((filter, names)) = filter {
            if !names.matches(filter, (&event, &decoded), Some(time), &style) {
                continue;
            }
            filter.check_shown(&decoded);
        }
        copy.push(&event, &decoded, time)?;
        written.records += 1;
    }
    written.cut = copy.cut();
    copy.close()?;
    Ok(written)
}
