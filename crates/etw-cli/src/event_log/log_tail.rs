//! `etw log tail`: the records that are added to a log while the command runs.

use super::{Job, Printing};
use crate::format::TextOrJson;
use crate::output::{Failure, Outcome, Output};
use clap::Args;
use etw_eventlog::archives::logs_behind;
use etw_evtx::Log;
use std::path::Path;
use std::time::Duration;

#[derive(Args)]
pub struct Arguments {
    /// Name of a log, or a file (.evtx)
    log: String,
    #[command(flatten)]
    format: TextOrJson,
    /// Stop after N records
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u64>,
    /// Print the records that the log has, too
    #[arg(long)]
    from_start: bool,
}

/// Between two looks at the file.
const PAUSE: Duration = Duration::from_millis(200);

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let path = crate::channels::log_file(&arguments.log)?;
    if !path.extension().is_some_and(|end| end.eq_ignore_ascii_case("evtx")) {
        let what = format!(
            "{}: only a log that is an .evtx file can be followed; etw tail -p PROVIDER prints the events of an Analytic or Debug \
             channel as they come",
            path.display()
        );
        return Err(Failure::new(what));
    }
    let printing = Printing { format: arguments.format.format(), ..Printing::default() };
    let mut job = Job::new(&printing, std::slice::from_ref(&path))?;
    let mut output = Output::open(None, &[])?;
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    let mut last = if arguments.from_start { 0 } else { newest(&path)? };
    let mut seen = None;
    while left > 0 {
        let state = state_of(&path);
        if state == seen && seen.is_some() {
            std::thread::sleep(PAUSE);
            continue;
        }
        seen = state;
        let Some(log) = open(&path)? else {
            std::thread::sleep(PAUSE);
            continue;
        };
        let logs = match last {
            0 => vec![log],
            _ => logs_behind(&path, log, last).map_err(|error| failure(&path, &error))?,
        };
        for log in logs {
            let mut printer = Printer { job: &mut job, output: &mut output, last, left };
            printer.print(&log)?;
            Printer { last, left, .. } = printer;
        }
        output.finish()?;
    }
    output.finish()?;
    Ok(Outcome::Done)
}

/// Prints the records of a log behind the last one.
struct Printer<'p, 'j> {
    job: &'p mut Job<'j>,
    output: &'p mut Output,
    /// Id of the last record.
    last: u64,
    /// Records that may be printed.
    left: u64,
}

impl Printer<'_, '_> {
    fn print(&mut self, log: &Log) -> Result<(), Failure> {
        let mut locations: Vec<_> = log.chunks().to_vec();
        locations.sort_by_key(|location| location.first_id);
        let newest = locations.last().map(|location| location.first_id);
        for location in locations {
            // The header of the newest chunk may be behind its records.
            if location.last_id <= self.last && Some(location.first_id) != newest {
                continue;
            }
            let Ok(mut chunk) = log.chunk(&location) else { continue };
            while let Some(record) = chunk.next().filter(|_| self.left > 0) {
                if record.id() <= self.last {
                    continue;
                }
                if self.last > 0 && record.id() > self.last + 1 {
                    let (first, last) = (self.last + 1, record.id() - 1);
                    eprintln!(
                        "etw: note: records {first} to {last} are missing: overwritten, cleared or damaged before they were read"
                    );
                }
                self.last = record.id();
                if let Ok(text) = self.job.format(&record) {
                    self.output.write(text.as_bytes())?;
                    self.left -= 1;
                }
            }
        }
        Ok(())
    }
}

fn failure(path: &Path, error: &etw_evtx::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

/// Length and time of the last change.
fn state_of(path: &Path) -> Option<(u64, std::time::SystemTime)> {
    let data = std::fs::metadata(path).ok()?;
    Some((data.len(), data.modified().ok()?))
}

/// The log; `None`: it is not there yet.
fn open(path: &Path) -> Result<Option<Log>, Failure> {
    match Log::open(path) {
        Ok(log) => Ok(Some(log)),
        Err(etw_evtx::Error::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failure(path, &error)),
    }
}

/// The id of the newest record.
fn newest(path: &Path) -> Result<u64, Failure> {
    let Some(log) = open(path)? else { return Ok(0) };
    let mut newest = 0;
    if let Some(location) = log.chunks().iter().max_by_key(|location| location.last_id)
        && let Ok(mut chunk) = log.chunk(location)
    {
        while let Some(record) = chunk.next() {
            newest = newest.max(record.id());
        }
    }
    Ok(newest)
}
