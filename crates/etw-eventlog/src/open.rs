//! Event logs of both formats, opened for queries.

use etw_evtx::evt::EvtLog;
use etw_evtx::write::{LogWriter, Retention};
use etw_evtx::{Damage, Error, Log};
use std::fs::File;
use std::path::Path;

/// A log that can be queried.
#[derive(Debug)]
pub struct OpenLog {
    /// The log; for a file of another format, a copy in an unnamed temporary file.
    pub log: Log,
    /// Damage of the file from which a copy was made.
    pub damage: Vec<Damage>,
}

/// Opens an event log: `.evtx`, or `.evt` of Windows XP.
///
/// An `.evt` log is copied into an unnamed temporary file, as Windows does when it converts one. Its records keep their numbers in
/// `EventRecordID`.
///
/// # Errors
/// Those of [`Log::open`] and [`EvtLog::open`], and those of writing the copy.
pub fn open(path: impl AsRef<Path>) -> Result<OpenLog, Error> {
    let path = path.as_ref();
    match Log::open(path) {
        Ok(log) => Ok(OpenLog { log, damage: Vec::new() }),
        Err(Error::NotEvtx) => {
            let old = EvtLog::open(path)?;
            let log = copy(&old, etw_etl::unnamed_file()?)?;
            Ok(OpenLog { log, damage: old.damage().to_vec() })
        }
        Err(error) => Err(error),
    }
}

/// Writes the records of an `.evt` log to an empty file, which becomes an `.evtx` log.
fn copy(old: &EvtLog, file: File) -> Result<Log, Error> {
    let mut writer = LogWriter::from_file(file.try_clone()?, u64::MAX, Retention::Keep)?;
    old.for_each(|record| writer.append(record.time(), record.fragment()).map(drop))?;
    writer.close()?;
    Log::from_file(file)
}
