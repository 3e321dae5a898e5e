//! Selected records of a log in a file of their own.

use crate::result_set::{Problems, ResultSet, Source};
use etw_evtx::query::Selector;
use etw_evtx::write::{LogWriter, Retention};
use etw_evtx::{Error, Log};
use std::fmt;
use std::fs::File;

/// Why an export failed.
#[derive(Debug)]
pub enum ExportError {
    /// The log could not be read.
    Read(Error),
    /// The file could not be written.
    Write(Error),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportError::Read(error) => write!(f, "the log cannot be read: {error}"),
            ExportError::Write(error) => write!(f, "the copy cannot be written: {error}"),
        }
    }
}

impl std::error::Error for ExportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ExportError::Read(error) | ExportError::Write(error) => Some(error),
        }
    }
}

/// The result of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exported {
    /// Records that were written.
    pub records: u64,
    /// The parts that could not be read, of each log, in the order of the sources.
    pub problems: Vec<Problems>,
}

/// Writes the records that a selector selects to an empty file. They keep their numbers in `EventRecordID`.
///
/// # Loss
/// Records that cannot be read are left out: [`Exported::problems`].
///
/// # Errors
/// [`ExportError`]; the file may then have some of the records.
pub fn export(log: &Log, selector: &Selector, file: File) -> Result<Exported, ExportError> {
    let mut writer =
        LogWriter::from_file(file, u64::MAX, Retention::Keep).map_err(ExportError::Write)?;
    let mut candidates = log.candidates(selector);
    let (mut records, mut too_large) = (0, 0);
    while let Some(record) = candidates.next().map_err(ExportError::Read)? {
        match selector.matches(&record) {
            Ok(false) => {}
            Ok(true) => {
                let appended = writer.append(record.time(), record.fragment());
                appended.map_err(ExportError::Write)?;
                records += 1;
            }
            Err(_) => too_large += 1,
        }
    }
    writer.close().map_err(ExportError::Write)?;
    let problems = Problems { damage: candidates.damage().to_vec(), too_large };
    Ok(Exported { records, problems: vec![problems] })
}

/// Writes the selected records of several logs to an empty file, in order of time, as [`export`] does.
///
/// # Loss
/// As [`export`].
///
/// # Errors
/// As [`export`].
pub fn export_merged(sources: Vec<Source>, file: File) -> Result<Exported, ExportError> {
    if let [Source { log, selector, .. }] = &sources[..] {
        return export(log, selector, file);
    }
    let mut writer =
        LogWriter::from_file(file, u64::MAX, Retention::Keep).map_err(ExportError::Write)?;
    let mut results = ResultSet::new(sources, false);
    let mut records = 0;
    while let Some(record) = results.next().map_err(ExportError::Read)? {
        let appended = record.with(|record| writer.append(record.time(), record.fragment()));
        // A result set has found the record in this chunk.
        let Some(appended) = appended else { continue };
        appended.map_err(ExportError::Write)?;
        records += 1;
    }
    writer.close().map_err(ExportError::Write)?;
    Ok(Exported { records, problems: results.into_problems() })
}
