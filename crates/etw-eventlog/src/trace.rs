//! An event log opened as a trace.

use crate::translate::Translator;
use etw_etl::Error;
use etw_etl::read::{TraceFile, Translation};
use etw_etl::write::WriteError;
use etw_evtx::Log;
use etw_evtx::evt::{EvtLog, is_evt};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Whether a file is an event log, of Windows XP (`.evt`) or later, by its first bytes.
pub fn is_event_log(path: &Path) -> bool {
    // A pipe must not be opened: that waits for a writer.
    if !std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let mut start = [0; 8];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && (&start == b"ElfFile\0" || is_evt(&start))
}

/// Opens an event log as a trace: its records are events, oldest first, and its damage is the trace's.
///
/// The log is read once, in bounded memory; a long one is kept in an unnamed temporary file.
///
/// # Errors
/// `Io`; `OtherFormat` if the file is not an event log.
pub fn open(path: &Path) -> Result<TraceFile, Error> {
    let other = |error: etw_evtx::Error| match error {
        etw_evtx::Error::Io(source) => Error::Io { path: path.to_owned(), source },
        error => Error::OtherFormat { path: path.to_owned(), source: Box::new(error) },
    };
    let log = match Log::open(path) {
        Err(etw_evtx::Error::NotEvtx) => return open_evt(path, other),
        opened => opened.map_err(other)?,
    };
    let mut records = log.records();
    let mut translation = Translation::new();
    let mut translator = Translator::new();
    let mut damage = Vec::new();
    let mut channel = None;
    while let Some(record) = records.next().map_err(other)? {
        if channel.is_none() {
            channel = record.system().channel();
        }
        let offset = record.offset();
        match translator.stored(&record) {
            Ok((bytes, time)) => match translation.push_stored(bytes, time) {
                Ok(()) => {}
                Err(WriteError::Io(source)) => {
                    return Err(Error::Io { path: path.to_owned(), source });
                }
                Err(error) => damage.push((offset, error.to_string())),
            },
            Err(error) => damage.push((offset, error.to_string())),
        }
    }
    damage.extend(records.damage().iter().map(|one| (one.offset, one.kind.to_string())));
    translation.finish(path, channel.as_deref().unwrap_or_default(), damage)
}

/// As [`open`], for a log of Windows XP.
fn open_evt(path: &Path, other: impl Fn(etw_evtx::Error) -> Error) -> Result<TraceFile, Error> {
    let log = EvtLog::open(path).map_err(&other)?;
    let mut translation = Translation::new();
    let mut translator = Translator::new();
    let mut damage: Vec<(u64, String)> =
        log.damage().iter().map(|one| (one.offset, one.kind.to_string())).collect();
    let mut channel = None;
    log.for_each(|record| {
        if channel.is_none() {
            channel = record.system().channel();
        }
        let pushed = match translator.stored(record) {
            Ok((bytes, time)) => {
                translation.push_stored(bytes, time).map_err(|error| match error {
                    WriteError::Io(source) => Err(Error::Io { path: path.to_owned(), source }),
                    error => Ok(error.to_string()),
                })
            }
            Err(error) => Err(Ok(error.to_string())),
        };
        match pushed {
            Ok(()) => Ok(()),
            Err(Ok(text)) => {
                damage.push((record.offset(), text));
                Ok(())
            }
            Err(Err(error)) => Err(error),
        }
    })?;
    translation.finish(path, channel.as_deref().unwrap_or_default(), damage)
}
