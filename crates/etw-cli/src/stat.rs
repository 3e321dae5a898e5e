//! `etw stat`

mod counter;
mod counting;
pub mod fit;
mod json;
pub mod losses;
mod text;

use crate::column::Column;
use crate::files;
use crate::format::TextOrJson;
use crate::grouping::Scan;
use crate::output::{Failure, Outcome, Output};
use crate::output_file::ReplaceOption;
use crate::profile::{ProfileBy, ProfileTable};
use crate::schemas::Schemas;
use crate::symbols::SymbolOptions;
use crate::where_filter::WhereOption;
use clap::{Args, ValueEnum};
use counting::Counting;
use etw_decode::Catalog;
use etw_etl::read::TraceFile;
use etw_types::FileTime;
use std::path::PathBuf;
use std::sync::Arc;

pub use counter::{Counted, EventRow, count};

#[derive(Args, Default)]
pub struct Arguments {
    #[command(flatten)]
    pub format: TextOrJson,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub replace: ReplaceOption,
    /// Count by event, provider, process, time or activity; show CPU time and waits by thread, module or function; or count by
    /// any columns: process,file (see `etw help columns`)
    #[arg(long, value_name = "WHAT", value_delimiter = ',', default_value = "event")]
    pub by: Vec<String>,
    /// Sum this field or column for each row
    #[arg(long, value_name = "FIELD")]
    pub sum: Option<Column>,
    /// Show percentiles of what --sum names
    #[arg(long)]
    pub percentiles: bool,
    /// Show at most N rows of the table
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    #[command(flatten)]
    pub filter: WhereOption,
    #[command(flatten)]
    pub schemas: Schemas,
    #[command(flatten)]
    pub symbols: SymbolOptions,
    /// Traces, each counted by itself
    #[arg(required = true, value_name = "FILE.etl")]
    pub files: Vec<PathBuf>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Kinds of events
    #[default]
    Event,
    /// Providers
    Provider,
    /// Processes, by name where the trace tells it
    Process,
    /// Records over time
    Time,
    /// Activities, the longest first
    Activity,
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let counting = Counting::of(arguments)?;
    if !arguments.symbols.is_empty() && !counting.shows_code() {
        return Err(Failure::Usage(
            "stat: --symbols and --perf-map need --by function or --by module".to_owned(),
        ));
    }
    let traces: Vec<TraceFile> =
        arguments.files.iter().map(files::open).collect::<Result<_, _>>()?;
    let catalog = arguments.schemas.load_for(&traces)?;
    if let Some(path) = &arguments.output {
        arguments.replace.check(path)?;
        arguments.schemas.check_output(path)?;
    }
    let mut output = Output::open_paged(arguments.output.as_deref(), &arguments.files)?;
    let table = match &counting {
        Counting::Table(table) => *table,
        other => return counting::run(arguments, other, traces, &catalog, &mut output),
    };
    let mut outcome = Outcome::Done;
    for trace in traces {
        let start = trace.header().map_or(FileTime(0), |header| header.start_time);
        let filter = arguments.filter.compile(start)?;
        let profile = match table {
            By::Process => profile_of(arguments, &trace, &catalog)?,
            _ => None,
        };
        let by_process = table == By::Process || arguments.format.is_json();
        let mut counted = counter::count_where(trace, &catalog, filter.as_ref(), by_process);
        if let Some(top) = arguments.top {
            counted.top = top;
        }
        let text = match (arguments.format.is_json(), profile) {
            (true, profile) => {
                let mut json = counted.to_json();
                if let Some(profile) = profile {
                    json["profile"] = profile.to_json()["profile"].take();
                }
                format!("{json}\n")
            }
            (false, None) => counted.to_text(table),
            (false, Some(profile)) => format!("{}\n{}", counted.to_text(table), profile.to_text()),
        };
        output.write(text.as_bytes())?;
        if !counted.records.damage().is_empty() {
            outcome = Outcome::Damaged;
        }
    }
    output.finish()?;
    Ok(outcome)
}

/// CPU time and waits by process, if the trace has samples or context switches.
fn profile_of(
    arguments: &Arguments,
    trace: &TraceFile,
    catalog: &Arc<Catalog>,
) -> Result<Option<ProfileTable>, Failure> {
    let start = trace.header().map_or(FileTime(0), |header| header.start_time);
    let filter = arguments.filter.compile(start)?;
    let scan = Scan { trace: trace.clone(), catalog: catalog.clone(), filter };
    let table = ProfileTable::count(&scan, ProfileBy::Process, arguments.top, |_| Ok(()))?;
    Ok((!table.is_empty()).then_some(table))
}
