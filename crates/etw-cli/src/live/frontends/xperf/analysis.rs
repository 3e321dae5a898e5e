//! `xperf -i FILE -a ANALYSIS`: the analyses that other commands of `etw` have, too.

use super::{Command, TABLE};
use crate::format::Format;
use crate::output::{Failure, Outcome};
use crate::time_point::When;
use crate::{dump, stat};

/// An analysis of `-a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Analysis {
    Dumper,
    TraceStats,
    Process,
    Stack,
}

/// Analyses by their name.
pub const ANALYSES: [(&str, Analysis); 4] = [
    ("dumper", Analysis::Dumper),
    ("tracestats", Analysis::TraceStats),
    ("process", Analysis::Process),
    ("stack", Analysis::Stack),
];

/// Microseconds from the start of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub from_us: u64,
    pub to_us: u64,
}

pub fn run(command: Command) -> Result<Outcome, Failure> {
    // As Windows' xperf does without -a.
    let analysis = command.analysis.unwrap_or(Analysis::Dumper);
    let (output, files) = (command.output, command.files);
    let by = match analysis {
        Analysis::Dumper | Analysis::Stack => {
            let time = |us: u64| When::After(us.saturating_mul(10).min(i64::MAX as u64) as i64);
            let is_stack = analysis == Analysis::Stack;
            return dump::run(&dump::Arguments {
                format: if is_stack { Format::Text } else { Format::Csv },
                output,
                from: command.range.map(|range| time(range.from_us)),
                to: command.range.map(|range| time(range.to_us)),
                join: is_stack,
                two_pass: true,
                files,
                ..dump::Arguments::default()
            });
        }
        Analysis::TraceStats => "event",
        Analysis::Process => "process",
    };
    if command.range.is_some() {
        let what = "it goes with -a dumper and -a stack; tracestats and process count whole traces";
        return Err(TABLE.wrong("range", what));
    }
    stat::run(&stat::Arguments {
        by: vec![by.to_owned()],
        output,
        files,
        ..stat::Arguments::default()
    })
}
