//! The logs that `etw log` and `wevtutil` query: event logs, and traces as event logs.

use crate::convert::evtx;
use crate::files;
use crate::output::Failure;
use crate::schemas::{self, Schemas};
use etw_decode::Decoder;
use etw_etl::read::{Records, TraceFile};
use etw_eventlog::trace::is_event_log;
use etw_evtx::{Damage, Log};
use std::path::Path;

/// A log to query.
pub struct LogSource {
    pub log: Log,
    /// Damage of the file that the log is a copy of.
    pub damage: Vec<Damage>,
    /// Damage of a trace, in lines.
    pub notes: Vec<String>,
}

/// Opens an event log. The events of a trace are written to an event log in an unnamed temporary file first, with the names and
/// fields that its schemas give them.
pub fn open(path: &Path, schemas: &Schemas) -> Result<LogSource, Failure> {
    let is_named_evtx = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("evtx"));
    if is_event_log(path) || is_named_evtx || !path.is_file() {
        let opened = etw_eventlog::open::open(path)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        return Ok(LogSource { log: opened.log, damage: opened.damage, notes: Vec::new() });
    }
    of_trace(files::open(path)?, schemas)
}

fn of_trace(trace: TraceFile, schemas: &Schemas) -> Result<LogSource, Failure> {
    let path = trace.path().to_owned();
    let failure =
        |error: etw_evtx::Error| Failure::new(format!("{}: as a log: {error}", path.display()));
    let traces = vec![trace];
    // Schemas may be at the end of a trace.
    let store = crate::dump::gather(traces.clone());
    let mut decoder = Decoder::with_store(store);
    decoder.set_catalog(schemas.load_for(&traces)?);
    decoder.set_own_catalog(schemas::own_for(&traces));
    decoder.set_learning(false);
    let mut records = Records::new(traces);
    let file = etw_etl::unnamed_file().map_err(|error| failure(error.into()))?;
    let copy = file.try_clone().map_err(|error| failure(error.into()))?;
    let written = evtx::write(&mut records, &mut decoder, None, copy).map_err(failure)?;
    let damage = records.damage();
    let mut notes: Vec<String> = damage
        .kept()
        .iter()
        .map(|place| format!("offset {:#x}: {}", place.offset, place.kind))
        .collect();
    let more = damage.count() - damage.kept().len() as u64;
    if more > 0 {
        notes.push(format!("{more} more damages"));
    }
    notes.extend(written.problems());
    Ok(LogSource { log: Log::from_file(file).map_err(failure)?, damage: Vec::new(), notes })
}
