//! `etw check`

use crate::files;
use crate::format::{TextOrJson, shown_path};
use crate::output::{Failure, Outcome, Output, counted};
use crate::threads::{self, ThreadsOption};
use clap::Args;
use etw_etl::read::{PartsOptions, TraceFile};
use std::fmt::Write;
use std::path::PathBuf;

#[derive(Args)]
pub struct Arguments {
    /// Traces, each checked by itself
    #[arg(required = true, value_name = "FILE.etl")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    format: TextOrJson,
    #[command(flatten)]
    threads: ThreadsOption,
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let mut output = Output::open(None, &[])?;
    let mut outcome = Outcome::Done;
    let mut failures = Vec::new();
    for path in &arguments.files {
        match files::open(path) {
            Ok(trace) => {
                let (text, damaged) =
                    check(trace, arguments.format.is_json(), arguments.threads.parts());
                output.write(text.as_bytes())?;
                if damaged {
                    outcome = Outcome::Damaged;
                }
            }
            Err(error) => failures.push(error.to_string()),
        }
    }
    output.finish()?;
    if failures.is_empty() { Ok(outcome) } else { Err(Failure::new(failures.join("\netw: "))) }
}

/// The text about a trace, and whether it is damaged.
fn check(trace: TraceFile, is_json: bool, parts: PartsOptions) -> (String, bool) {
    let (count, records) = threads::read_all(vec![trace], parts, |_: &mut (), _, _| (), |()| ());
    let trace = &records.files()[0];
    let path = shown_path(trace.path());
    let damage = records.damage();
    if is_json {
        let places = damage.kept().iter().map(
            |place| serde_json::json!({"offset": place.offset, "what": place.kind.to_string()}),
        );
        let object = serde_json::json!({
            "file": trace.path().to_string_lossy(), "sound": damage.is_empty(), "records": count,
            "buffers": (!trace.is_translated()).then_some(trace.totals().buffers),
            "notes": files::notes_and_losses(trace),
            "out_of_order": records.out_of_order(0),
            "damage": places.collect::<Vec<_>>(), "damage_count": damage.count(),
        });
        return (format!("{object}\n"), !damage.is_empty());
    }
    let verdict = if damage.is_empty() {
        "sound".to_string()
    } else {
        format!("damaged in {}", counted(damage.count(), "place"))
    };
    let were = if count == 1 { "was" } else { "were" };
    let count = counted(count, "record");
    let mut text = match trace.is_translated() {
        true => format!("{path}: {verdict}, {count} {were} read\n"),
        false => {
            let buffers = counted(trace.totals().buffers, "buffer");
            format!("{path}: {verdict}, {count} in {buffers} {were} read\n")
        }
    };
    // Writing to a String cannot fail.
    for note in files::notes_and_losses(trace) {
        let _ = writeln!(text, "  note: {note}");
    }
    if records.out_of_order(0) > 0 {
        let late = counted(records.out_of_order(0), "record");
        let _ = writeln!(text, "  note: {late} with an earlier time than the one before");
    }
    for place in damage.kept() {
        let _ = writeln!(text, "  offset {:#x}: {}", place.offset, place.kind);
    }
    let more = damage.count() - damage.kept().len() as u64;
    if more > 0 {
        let _ = writeln!(text, "  and {}", counted(more, "more place"));
    }
    (text, !damage.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::samples;

    #[test]
    fn any_number_of_threads_finds_the_same() {
        let mut damaged = 0;
        for trace in samples::traces() {
            for is_json in [false, true] {
                let mut one = PartsOptions::default();
                one.threads = 1;
                let alone = check(trace.clone(), is_json, one);
                damaged += u32::from(alone.1);
                for threads in [2, 3] {
                    for part_bytes in [0x2000, 1 << 18] {
                        let parts = samples::options(threads, part_bytes);
                        let found = check(trace.clone(), is_json, parts);
                        let name = trace.path().display();
                        assert_eq!(found, alone, "{name}: {threads} threads, {part_bytes} bytes");
                    }
                }
            }
        }
        assert!(damaged > 5, "only {damaged} damaged");
    }
}
