//! Traces that commands read: opening them, and notes on their state, losses and damage.

use crate::output::{Outcome, counted, file_identity};
use crate::safe_text::shown_path;
use etw_decode::Store;
use etw_decode::expr::Expr;
use etw_etl::DamageLog;
use etw_etl::read::{Records, TraceFile};
use etw_eventlog::trace::{Order, Wanted, is_event_log};
use etw_host::leftover::Overlay;
use etw_types::{EventRecord, FileTime};
use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Opens a trace or an event log; with a trace, what a killed program left in `FILE.part` beside it.
pub fn open(path: impl AsRef<Path>) -> Result<TraceFile, etw_etl::Error> {
    let path = path.as_ref();
    let name = shown_path(path);
    if is_event_log(path) {
        return etw_eventlog::trace::open(path);
    }
    match Overlay::open(path) {
        Ok(None) => TraceFile::open(path),
        Ok(Some((overlay, left))) => {
            let what = match left.is_running {
                true => "of a session that still runs",
                false if left.damaged > 0 => "that a killed program left",
                false => "that a killed program left; `etw repair` folds them in",
            };
            let events = counted(left.events, "event");
            eprintln!("etw: note: {name}: with {events} {what}");
            let file = TraceFile::from_source(path, Box::new(overlay))?;
            let damaged = Some(left.damaged).filter(|count| *count > 0);
            Ok(file.with_damage(damaged.map(|count| {
                let places = counted(count, "place");
                (0, format!("{places} of what the program left in its .part file, skipped"))
            })))
        }
        // The trace itself may be sound.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            let what = format!("what a program left in its .part file cannot be read: {error}");
            Ok(TraceFile::open(path)?.with_damage([(0, what)]))
        }
        Err(error) => {
            eprintln!("etw: note: {name}: the .part file beside it is not read: {error}");
            TraceFile::open(path)
        }
    }
}

/// The traces of these paths, each once: a note names those that come again, also as the `.part` that is read with its trace.
pub fn distinct(paths: &[PathBuf]) -> Vec<&PathBuf> {
    let mut known = HashSet::new();
    let is_new = |path: &&PathBuf| {
        let identity = file_identity(&etw_host::leftover::trace_of(path));
        let is_new = identity.is_none_or(|identity| known.insert(identity));
        if !is_new {
            eprintln!("etw: note: {}: is named again, and read once", shown_path(path));
        }
        is_new
    };
    paths.iter().filter(is_new).collect()
}

/// Opens traces and event logs. Where `filter` is false by the header of a log's record, the record is left out. The number is that of
/// all records left out.
pub fn open_selected(
    paths: &[PathBuf],
    filter: Option<&Expr>,
) -> Result<(Vec<TraceFile>, u64), etw_etl::Error> {
    let Some(filter) = filter else {
        return Ok((distinct(paths).into_iter().map(open).collect::<Result<_, _>>()?, 0));
    };
    // Schemas of other records are needed in any case.
    let by_header = |record: &EventRecord<'_>, time: Option<FileTime>| {
        Store::is_schema_record(record) || filter.by_header(record, time) != Some(false)
    };
    let wanted = Wanted {
        by_header: &by_header,
        with_provider_name: filter.names_providers(),
        order: if paths.len() > 1 { Order::Merged } else { Order::Alone },
    };
    let mut left_out = 0;
    let open_one = |path: &PathBuf| {
        if !is_event_log(path) {
            return open(path);
        }
        let selected = etw_eventlog::trace::open_selected(path, wanted)?;
        left_out += selected.left_out;
        Ok(selected.trace)
    };
    let traces = distinct(paths).into_iter().map(open_one).collect::<Result<_, _>>()?;
    Ok((traces, left_out))
}

/// Opens what has the names in a trace or an event log: all of a trace, of a log a few records of each kind.
pub fn open_for_names(path: impl AsRef<Path>) -> Result<TraceFile, etw_etl::Error> {
    let path = path.as_ref();
    match is_event_log(path) {
        true => etw_eventlog::trace::open_samples(path),
        false => open(path),
    }
}

/// The build of Windows that the first of these traces was recorded on.
pub fn build(traces: &[TraceFile]) -> Option<u32> {
    traces.iter().find_map(TraceFile::header)?.windows_build()
}

/// Facts about a sound file that a reader should know: not damage, no reason for an exit status.
pub fn notes(file: &TraceFile) -> Vec<String> {
    let mut notes = Vec::new();
    if file.header().is_none() {
        return notes;
    }
    let totals = file.totals();
    if !file.is_finalised() {
        let what = match file.has_changed() {
            true => {
                "a session was writing this file while it was read: what came later, and what was only in memory, is not shown"
            }
            false => {
                "not finalised: the session did not complete its header; events that were only in its memory are not in this file"
            }
        };
        notes.push(what.into());
    }
    if totals.wrapped {
        notes.push("circular and wrapped: the oldest events were overwritten".into());
    }
    if totals.reserved_bytes > 0 {
        notes.push(format!("{} bytes reserved and not used", totals.reserved_bytes));
    }
    if file.clock().filetime(file.clock().raw_start).is_none() {
        notes.push("no usable clock: times are null".into());
    }
    notes
}

/// Losses of the session, by its header.
fn losses(file: &TraceFile) -> Option<String> {
    let header = file.header()?;
    let (events, buffers) = (header.events_lost, header.buffers_lost);
    (events > 0 || buffers > 0).then(|| {
        let (events, buffers) = (counted(events, "event"), counted(buffers, "buffer"));
        format!("the session lost {events} and {buffers}, by its header")
    })
}

/// Notes and losses, for output that does not show the losses elsewhere.
pub fn notes_and_losses(file: &TraceFile) -> Vec<String> {
    let mut notes = notes(file);
    notes.extend(losses(file));
    notes
}

/// Prints the notes and every damage on standard error.
pub fn report(records: &Records) -> Outcome {
    report_named(records, TraceFile::path)
}

/// The outcome of reading. Prints damage and notes unless they are printed already (`is_told`).
pub fn outcome(records: &Records, is_told: bool) -> Outcome {
    match is_told {
        true if records.damage().is_empty() => Outcome::Done,
        true => Outcome::Damaged,
        false => report(records),
    }
}

/// As [`report`], with other names of the files.
pub fn report_named<'p>(records: &'p Records, name: impl Fn(&'p TraceFile) -> &'p Path) -> Outcome {
    let mut text = String::new();
    // Writing to a String cannot fail.
    for file in records.files() {
        for note in notes_and_losses(file) {
            let _ = writeln!(text, "etw: note: {}: {note}", shown_path(name(file)));
        }
    }
    let name = |file_index: u32| name(&records.files()[file_index as usize]);
    tell_damage(&mut text, records.damage(), name);
    eprint!("{text}");
    if records.damage().is_empty() { Outcome::Done } else { Outcome::Damaged }
}

/// A line for every damage; `name` tells the file of a number.
pub fn tell_damage<'p>(text: &mut String, damage: &DamageLog, name: impl Fn(u32) -> &'p Path) {
    for place in damage.kept() {
        let path = shown_path(name(place.file_index));
        let _ = writeln!(text, "etw: damaged: {path}: offset {:#x}: {}", place.offset, place.kind);
    }
    let more = damage.count() - damage.kept().len() as u64;
    if more > 0 {
        let _ = writeln!(text, "etw: damaged: {}", counted(more, "more place"));
    }
}
