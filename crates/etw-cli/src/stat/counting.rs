//! The count that `etw stat` makes: one of its tables, activities, or groups by any columns.

use super::{Arguments, By};
use crate::activities;
use crate::column::{Column, Form};
use crate::grouping::{Grouping, Scan};
use crate::join::Names;
use crate::output::{Failure, Outcome, Output};
use crate::profile::{ProfileBy, ProfileTable};
use clap::ValueEnum;
use etw_decode::Catalog;
use etw_etl::read::TraceFile;
use etw_types::FileTime;
use std::sync::Arc;

/// The meaning of `--by`, `--sum` and `--percentiles`.
pub enum Counting {
    /// A table of everything in the trace.
    Table(By),
    Activities,
    /// CPU time and time off the CPU.
    Profile(ProfileBy),
    Columns(Grouping),
}

impl Counting {
    pub fn of(arguments: &Arguments) -> Result<Counting, Failure> {
        let usage = |what: String| Failure::Usage(format!("stat: {what}"));
        let table = match &arguments.by[..] {
            [] => Some(By::Event),
            [name] => By::from_str(name, true).ok(),
            _ => None,
        };
        match table {
            Some(By::Activity) if arguments.sum.is_some() => {
                return Err(usage(
                    "--by activity shows durations; --by activity_id --sum FIELD sums a field"
                        .to_owned(),
                ));
            }
            Some(By::Activity) => return Ok(Counting::Activities),
            Some(table) if arguments.sum.is_none() && !arguments.percentiles => {
                return Ok(Counting::Table(table));
            }
            _ => {}
        }
        let is_plain = arguments.sum.is_none() && !arguments.percentiles;
        if let [name] = &arguments.by[..]
            && is_plain
            && let Ok(by) = ProfileBy::from_str(name, true)
        {
            return Ok(Counting::Profile(by));
        }
        if arguments.percentiles && arguments.sum.is_none() {
            return Err(usage(
                "--percentiles needs values: --sum FIELD, or --by activity for durations"
                    .to_owned(),
            ));
        }
        if let Some(name) = arguments.by.iter().find(|name| is_of_profile(name)) {
            return Err(usage(format!(
                "--by {name} shows CPU time and waits, alone and without --sum; count records by process, tid or other columns (a field of that name is fields.{name})"
            )));
        }
        let by = if arguments.by.is_empty() { &["event".to_owned()][..] } else { &arguments.by };
        let columns: Result<Vec<Column>, String> = by.iter().map(|name| name.parse()).collect();
        Ok(Counting::Columns(Grouping {
            columns: columns.map_err(|error| usage(format!("--by: {error}")))?,
            sum: arguments.sum.clone(),
            percentiles: arguments.percentiles,
            top: arguments.top,
            form: if arguments.format.is_json() { Form::Json } else { Form::Text },
        }))
    }
}

impl Counting {
    /// Whether functions, or the files that have them, are shown.
    pub fn shows_code(&self) -> bool {
        matches!(self, Counting::Profile(ProfileBy::Module | ProfileBy::Function))
    }
}

/// Whether a name of `--by` stands for rows of a profile alone, and for no column.
fn is_of_profile(name: &str) -> bool {
    let profile = ProfileBy::from_str(name.trim(), true);
    profile.is_ok_and(|by| by != ProfileBy::Process)
}

/// Writes activities or groups of each trace.
pub fn run(
    arguments: &Arguments,
    counting: &Counting,
    traces: Vec<TraceFile>,
    catalog: &Arc<Catalog>,
    output: &mut Output,
) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::Done;
    for trace in traces {
        let start = trace.header().map_or(FileTime(0), |header| header.start_time);
        let filter = arguments.filter.compile(start)?;
        let scan = Scan { trace, catalog: catalog.clone(), filter };
        let is_json = arguments.format.is_json();
        let (text, of_trace) = match counting {
            Counting::Columns(grouping) => {
                let groups = grouping.count(&scan);
                let text = match is_json {
                    true => format!("{}\n", groups.to_json()),
                    false => groups.to_text(),
                };
                (text, groups.outcome)
            }
            Counting::Profile(by) => {
                let prepare = |names: &mut Names| arguments.symbols.apply(names, start);
                let table = ProfileTable::count(&scan, *by, arguments.top, prepare)?;
                let text = match is_json {
                    true => format!("{}\n", table.to_json()),
                    false => table.to_text(),
                };
                (text, table.outcome)
            }
            Counting::Activities | Counting::Table(_) => {
                let activities = activities::read(&scan, arguments.top);
                let text = match is_json {
                    true => format!("{}\n", activities.to_json()),
                    false => activities.to_text(),
                };
                (text, activities.outcome)
            }
        };
        output.write(text.as_bytes())?;
        if of_trace != Outcome::Done {
            outcome = of_trace;
        }
    }
    output.finish()?;
    Ok(outcome)
}
