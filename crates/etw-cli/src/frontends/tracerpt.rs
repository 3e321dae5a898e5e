//! `tracerpt`: a trace as XML or CSV, its summary, and a report of it.

use super::answer::usage;
use super::table::show_help;
use super::table::{ALL, Effect, Help, Row, Table, help_row, option, refused};
use crate::format::Format;
use crate::grouping::shortened;
use crate::output::{Failure, Outcome, Output};
use crate::output_file::ReplaceOption;
use crate::schemas::Schemas;
use crate::{convert, dump, files, report, stat};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// `-of`
#[derive(Clone, Copy, Default)]
enum OutputFormat {
    #[default]
    Xml,
    Csv,
    Evtx,
}

#[derive(Default)]
struct Command {
    traces: Vec<PathBuf>,
    /// `-o`, with its file if it names one.
    output: Option<Option<PathBuf>>,
    summary: Option<PathBuf>,
    report: Option<PathBuf>,
    format: OutputFormat,
    replaces: bool,
    schemas: Schemas,
}

const USE_DUMP: &str = "use etw dump, whose --format, --raw and --where choose what is shown";

const ROWS: &[Row<Command>] = &[
    help_row(),
    option(
        ALL,
        "l",
        "FILE.etl...",
        "Traces; words that belong to no option are traces, too",
        Effect::Values(|command, words, name| {
            command.traces.push(words.needed(name, "FILE.etl")?.into());
            while let Some(path) = words.value() {
                command.traces.push(path.into());
            }
            Ok(())
        }),
    ),
    option(
        ALL,
        "o",
        "[OUT]",
        "Write the records to OUT; default: dumpfile.xml, .csv or .evtx",
        Effect::Values(|command, words, _| {
            command.output = Some(words.value().map(PathBuf::from));
            Ok(())
        }),
    ),
    option(
        ALL,
        "of",
        "CSV|EVTX|XML",
        "Format of the records; default: XML",
        Effect::Values(|command, words, name| {
            let formats = [
                ("CSV", OutputFormat::Csv),
                ("EVTX", OutputFormat::Evtx),
                ("XML", OutputFormat::Xml),
            ];
            command.format = words.one_of(name, &formats)?;
            Ok(())
        }),
    ),
    option(
        ALL,
        "summary",
        "[FILE]",
        "Write the counts of events; default: summary.txt",
        Effect::Values(|command, words, _| {
            command.summary = Some(words.value().unwrap_or("summary.txt").into());
            Ok(())
        }),
    ),
    option(
        ALL,
        "report",
        "[FILE]",
        "Write a page of HTML; default: workload.html",
        Effect::Values(|command, words, _| {
            command.report = Some(words.value().unwrap_or("workload.html").into());
            Ok(())
        }),
    ),
    option(
        ALL,
        "f",
        "HTML",
        "Format of the report",
        Effect::Values(|_, words, name| words.one_of(name, &[("HTML", ())])),
    ),
    option(
        ALL,
        "tp tmf",
        "PATH",
        "A TMF file, or a folder of them: formats of WPP messages",
        Effect::Text(|command, path| command.schemas.tmf.push(path.into())),
    ),
    option(
        ALL,
        "pdb",
        "FILE",
        "A PDB file with formats of WPP messages",
        Effect::Text(|command, path| command.schemas.pdb.push(path.into())),
    ),
    option(
        ALL,
        "y",
        "",
        "Replace files that exist",
        Effect::Flag(|command| command.replaces = true),
    ),
    option(ALL, "gmt", "", "Times in UTC, as they always are here", Effect::Nothing),
    option(
        ALL,
        "en",
        "ANSI|Unicode",
        "Accepted; files are UTF-8",
        Effect::Values(|_, words, _| {
            words.value();
            Ok(())
        }),
    ),
    option(ALL, "lr", "", "Accepted; records of unknown events are always kept", Effect::Nothing),
    refused("rt", "use etw tail SESSION for the events of a running session"),
    refused("config", "give the options on the command line"),
    refused(
        "df rl export",
        "use -report or etw report; the system report's schemas are Windows' own",
    ),
    refused("import i", "use etw dump --manifest FILE, or etw pack create"),
    refused("int rts", USE_DUMP),
];

static TABLE: Table<Command> = Table {
    command: "tracerpt",
    about: "Write a trace as XML, CSV, HTML or a summary, as Windows' tracerpt does",
    forms: &[
        "FILE.etl... [-o [OUT]] [-of CSV|EVTX|XML] [-summary [FILE]]",
        "FILE.etl... -report [FILE] [-f HTML]",
    ],
    repeatable: 0,
    actions: &[],
    operand: Some(|command, word| {
        command.traces.push(word.into());
        Ok(())
    }),
    rows: ROWS,
    notes: "Without -o, -summary and -report it writes dumpfile.xml and summary.txt. \
            etw dump, etw stat and etw report are the commands behind it.",
};

pub fn help() -> Help {
    TABLE.help()
}

pub fn run(words: &[String]) -> Result<Outcome, Failure> {
    let mut command = Command::default();
    if TABLE.parse(words, &mut command)?.is_none() {
        return show_help(&help());
    }
    if command.traces.is_empty() {
        return Err(usage(
            "tracerpt: name a trace: tracerpt FILE.etl; tracerpt -h shows all forms",
        ));
    }
    if command.output.is_none() && command.summary.is_none() && command.report.is_none() {
        command.output = Some(None);
        command.summary = Some("summary.txt".into());
    }
    let mut outcome = Outcome::Done;
    if let Some(output) = &command.output {
        let (format, default) = match command.format {
            OutputFormat::Csv => (Some(Format::Csv), "dumpfile.csv"),
            OutputFormat::Xml => (Some(Format::Xml), "dumpfile.xml"),
            OutputFormat::Evtx => (None, "dumpfile.evtx"),
        };
        let output = output.clone().unwrap_or_else(|| default.into());
        check_replaceable(&output, command.replaces)?;
        let (schemas, traces) = (command.schemas.clone(), command.traces.clone());
        outcome = match format {
            Some(format) => dump::to_file(format, &output, schemas, traces)?,
            None => {
                let replace = ReplaceOption { force: command.replaces };
                convert::to_event_log(&output, replace, schemas, traces)?
            }
        };
    }
    if let Some(summary) = &command.summary {
        check_replaceable(summary, command.replaces)?;
        let is_told = command.output.is_some();
        let of_summary = write_summary(summary, &command.traces, &command.schemas, is_told)?;
        outcome = outcome.worse(of_summary);
    }
    if let Some(output) = command.report {
        let replace = ReplaceOption { force: command.replaces };
        let (schemas, files) = (command.schemas, command.traces);
        let is_told = command.output.is_some() || command.summary.is_some();
        let arguments = report::Arguments { output, replace, schemas, files };
        outcome = outcome.worse(report::run_told(&arguments, is_told)?);
    }
    Ok(outcome)
}

/// An existing file needs `-y`.
fn check_replaceable(path: &Path, replaces: bool) -> Result<(), Failure> {
    match path.exists() && !replaces {
        true => Err(Failure::new(format!("{}: exists; -y replaces it", path.display()))),
        false => Ok(()),
    }
}

/// Writes tracerpt's summary: the files, and the count of each kind of event. `is_told`: damage is printed already.
fn write_summary(
    path: &Path,
    paths: &[PathBuf],
    schemas: &Schemas,
    is_told: bool,
) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::Done;
    let catalog = schemas.load()?;
    let mut text = String::from("Files Processed:\n");
    let (mut buffers, mut total, mut lost) = (0, 0, 0);
    let mut rows: Vec<stat::EventRow> = Vec::new();
    let (mut start, mut end) = (None, None);
    // Writing to a String cannot fail.
    for path in paths {
        let _ = writeln!(text, "\t{}", path.display());
        let trace = files::open(path)?;
        let catalog = catalog.clone().for_build(files::build(std::slice::from_ref(&trace)));
        let counted = stat::count(trace, &catalog, false);
        buffers += counted.trace().totals().buffers;
        total += counted.total;
        outcome = outcome.worse(files::outcome(&counted.records, is_told));
        if let Some(header) = counted.trace().header() {
            lost += u64::from(header.events_lost);
            start = start.into_iter().chain([header.start_time]).min();
            end = end.into_iter().chain([header.end_time]).max();
        }
        rows.extend(counted.rows);
    }
    let _ = write!(
        text,
        "Total Buffers Processed {buffers}\nTotal Events  Processed {total}\nTotal Events  Lost      {lost}\n"
    );
    if let (Some(start), Some(end)) = (start, end) {
        let seconds = end.0.saturating_sub(start.0) / 10_000_000;
        let _ = write!(
            text,
            "Start Time              {start}\nEnd Time                {end}\nElapsed Time            {seconds} sec\n"
        );
    }
    put_tables(&mut text, &rows);
    let mut output = Output::open(Some(path), paths)?;
    output.write(text.as_bytes())?;
    output.finish()?;
    Ok(outcome)
}

/// tracerpt's two tables: classic events by class and type, and events of manifests by their number.
fn put_tables(text: &mut String, rows: &[stat::EventRow]) {
    let shown = |name: Option<&str>| crate::format::safe(name.unwrap_or("Unknown")).into_owned();
    let guid =
        |row: &stat::EventRow| row.provider.map_or(String::new(), |guid| format!("{{{guid}}}"));
    let is_classic = |row: &&stat::EventRow| row.id.is_none();
    let mut classic =
        SummaryTable::new(&["Event Count", "Event Name", "Task", "Opcode", "Version", "Guid"]);
    for row in rows.iter().filter(is_classic) {
        let name = row.event.as_deref().or(row.provider_name.as_deref());
        let (class, kind) = match name.and_then(|name| name.split_once('/')) {
            Some((class, kind)) => (Some(class), kind.to_owned()),
            None => (name, row.opcode.map_or(String::new(), |opcode| opcode.to_string())),
        };
        let version = row.version.unwrap_or(0).to_string();
        classic.add([row.count.to_string(), shown(class), "0".into(), kind, version, guid(row)]);
    }
    classic.put(text);
    text.push('\n');
    let mut numbered =
        SummaryTable::new(&["Event Count", "Event Name", "Event ID", "Version", "Guid"]);
    for row in rows.iter().filter(|row| !is_classic(row)) {
        let id = row.id.unwrap_or(0).to_string();
        let version = row.version.unwrap_or(0).to_string();
        let name = shown(row.provider_name.as_deref());
        numbered.add([row.count.to_string(), name, id, version, guid(row)]);
    }
    numbered.put(text);
}

/// A table between lines of `+---+`; the first column is right-aligned.
struct SummaryTable<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> SummaryTable<N> {
    fn new(titles: &[&str; N]) -> SummaryTable<N> {
        SummaryTable { rows: vec![titles.map(str::to_owned)] }
    }

    fn add(&mut self, row: [String; N]) {
        self.rows.push(row.map(shortened));
    }

    /// Writing to a String cannot fail.
    fn put(&self, text: &mut String) {
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: [usize; N] = std::array::from_fn(width);
        let line = format!("+{}+\n", "-".repeat(widths.iter().sum::<usize>() + 3 * N - 1));
        text.push_str(&line);
        for (number, row) in self.rows.iter().enumerate() {
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                let _ = match column {
                    0 => write!(text, "| {cell:>width$} "),
                    _ => write!(text, "  {cell:<width$} "),
                };
            }
            text.push_str("|\n");
            if number == 0 {
                text.push_str(&line);
            }
        }
        text.push_str(&line);
    }
}
