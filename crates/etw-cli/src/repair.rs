//! `etw repair`

use crate::files;
use crate::output::{Failure, JsonOption, Outcome, Progress, counted, file_size};
use clap::Args;
use etw_etl::read::Records;
use etw_etl::repair::{self, RepairOutcome, RepairReport};
use etw_host::leftover::{self, Folded};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    json: JsonOption,
    /// The trace
    #[arg(value_name = "FILE.etl")]
    file: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let path = &leftover::trace_of(&arguments.file);
    #[cfg(target_os = "linux")]
    crate::orphans::remove();
    let folded = fold_part(path)?;
    if folded.as_ref().is_some_and(|folded| folded.damaged > 0) {
        return left_as_it_is(arguments, path);
    }
    let mut progress = None;
    let report = repair::repair_with(path, |trace, position| {
        let start = || Progress::of(std::slice::from_ref(trace));
        progress.get_or_insert_with(start).count(position);
    })?;
    drop(progress);
    let mut text = String::new();
    files::tell_damage(&mut text, &report.damage, |_| path);
    eprint!("{text}");
    if folded.is_none() && report.outcome == RepairOutcome::Finalised {
        let path = path.display();
        eprintln!("etw: note: {path}: events that were only in the session's memory are not in it");
    }
    let text = format!("{}: {}", path.display(), verdict(&report));
    arguments.json.print(&text, || object(path, &report, folded.as_ref()))?;
    Ok(if report.damage.is_empty() { Outcome::Done } else { Outcome::Damaged })
}

/// Folds what a killed private session left in `FILE.etl.part` into the file, before its header is completed.
fn fold_part(path: &Path) -> Result<Option<Folded>, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
    let Some(folded) = leftover::fold(path).map_err(failed)? else { return Ok(None) };
    let Folded { events, buffers, lost, damaged, .. } = &folded;
    if *damaged > 0 {
        return Ok(Some(folded));
    }
    let (events, buffers) = (counted(events, "event"), counted(buffers, "buffer"));
    eprintln!("etw: note: {}: {events} in {buffers} folded in", path.display());
    if *lost > 0 {
        let lost = counted(lost, "event");
        eprintln!("etw: note: {}: the program had lost {lost}", path.display());
    }
    Ok(Some(folded))
}

/// The part that a program left is damaged: neither it nor the trace is changed, as that would destroy evidence.
fn left_as_it_is(arguments: &Arguments, path: &Path) -> Result<Outcome, Failure> {
    let mut records = Records::new(vec![files::open(path)?]);
    let mut report = RepairReport::damaged(records.files()[0].totals().buffers);
    while records.next().is_some() {
        report.records += 1;
    }
    report.damage = records.damage().clone();
    let mut text = String::new();
    files::tell_damage(&mut text, &report.damage, |_| path);
    eprint!("{text}");
    let text = format!("{}: {}", path.display(), verdict(&report));
    arguments.json.print(&text, || object(path, &report, None))?;
    Ok(Outcome::Damaged)
}

fn object(path: &Path, report: &RepairReport, folded: Option<&Folded>) -> Value {
    let outcome = match report.outcome {
        RepairOutcome::Sound => "sound",
        RepairOutcome::Finalised => "finalised",
        _ => "damaged",
    };
    let folded = folded.map(|folded| {
        json!({
            "events": folded.events, "buffers": folded.buffers, "lost": folded.lost,
            "damaged": folded.damaged,
        })
    });
    // A file that was not finalised, and is left as it is, has none.
    let end_time = Some(report.end_time).filter(|time| time.0 != 0 && time.to_ascii().is_some());
    json!({
        "file": path.to_string_lossy(), "outcome": outcome, "records": report.records,
        "buffers": report.buffers, "bytes": file_size(path),
        "last_record": end_time.map(|time| time.to_string()),
        "cut_bytes": report.cut_bytes, "lost_bytes": report.lost_bytes, "folded_in": folded,
        "damage_count": report.damage.count(),
    })
}

fn verdict(report: &RepairReport) -> String {
    let records = counted(report.records, "record");
    let buffers = counted(report.buffers, "buffer");
    match report.outcome {
        RepairOutcome::Sound => {
            format!("sound, {records} in {buffers}, left as it is")
        }
        RepairOutcome::Finalised => {
            let mut text =
                format!("finalised, {records} in {buffers}, the last at {}", report.end_time);
            if report.cut_bytes > 0 {
                text += &format!("; {} bytes behind them cut off", report.cut_bytes);
            }
            if report.lost_bytes > 0 {
                text += &format!("; {} bytes of records were never written", report.lost_bytes);
            }
            text
        }
        _ => format!(
            "damaged, {records} in {buffers} can be read, left as it is; \
             `etw relog` writes them to a new file"
        ),
    }
}
