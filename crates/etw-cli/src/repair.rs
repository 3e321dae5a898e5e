//! `etw repair`

use crate::files;
use crate::output::{Failure, Outcome, Output, Progress};
use clap::Args;
use etw_etl::repair::{self, RepairOutcome, RepairReport};
use etw_host::leftover::{self, Folded};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct Arguments {
    /// The trace
    #[arg(value_name = "FILE.etl")]
    file: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let path = arguments.file.as_path();
    #[cfg(target_os = "linux")]
    crate::orphans::remove();
    fold_part(path)?;
    let mut progress = None;
    let report = repair::repair_with(path, |trace, position| {
        let start = || Progress::of(std::slice::from_ref(trace));
        progress.get_or_insert_with(start).count(position);
    })?;
    drop(progress);
    let mut text = String::new();
    files::tell_damage(&mut text, &report.damage, |_| path);
    eprint!("{text}");
    let mut output = Output::open(None, &[])?;
    output.write(format!("{}: {}\n", path.display(), verdict(&report)).as_bytes())?;
    output.finish()?;
    Ok(if report.damage.is_empty() { Outcome::Done } else { Outcome::Damaged })
}

/// Folds what a killed private session left in `FILE.etl.part` into the file, before its header is completed.
fn fold_part(path: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
    let Some(folded) = leftover::fold(path).map_err(failed)? else { return Ok(()) };
    let Folded { events, buffers, lost, damaged } = folded;
    eprintln!("etw: note: {}: {events} events in {buffers} buffers folded in", path.display());
    if lost > 0 {
        eprintln!("etw: note: {}: the program had lost {lost} events", path.display());
    }
    if damaged > 0 {
        eprintln!("etw: note: {}: {damaged} places of what was left are damaged", path.display());
    }
    Ok(())
}

fn verdict(report: &RepairReport) -> String {
    let RepairReport { records, buffers, .. } = report;
    match report.outcome {
        RepairOutcome::Sound => {
            format!("sound, {records} records in {buffers} buffers, left as it is")
        }
        RepairOutcome::Finalised => {
            let mut text = format!(
                "finalised, {records} records in {buffers} buffers, the last at {}",
                report.end_time
            );
            if report.cut_bytes > 0 {
                text += &format!("; {} bytes behind them cut off", report.cut_bytes);
            }
            if report.lost_bytes > 0 {
                text += &format!("; {} bytes of records were never written", report.lost_bytes);
            }
            text
        }
        _ => format!(
            "damaged, {records} records in {buffers} buffers can be read, left as it is; \
             `etw relog` writes them to a new file"
        ),
    }
}
