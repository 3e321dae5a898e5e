//! `tracerpt`: a trace as XML or CSV, its summary, and a report of it.

use super::table::{ALL, Effect, Help, Row, Table, help_row, option, refused};
use super::{show_help, usage};
use crate::format::Format;
use crate::output::{Failure, Outcome};
use crate::output_file::ReplaceOption;
use crate::schemas::{self, Schemas};
use crate::{dump, files, report, stat};
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[derive(Default)]
struct Command {
    traces: Vec<PathBuf>,
    /// `-o`, with its file if it names one.
    output: Option<Option<PathBuf>>,
    summary: Option<PathBuf>,
    report: Option<PathBuf>,
    is_csv: bool,
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
        "Write the records to OUT; default: dumpfile.xml, or dumpfile.csv",
        Effect::Values(|command, words, _| {
            command.output = Some(words.value().map(PathBuf::from));
            Ok(())
        }),
    ),
    option(
        ALL,
        "of",
        "CSV|XML",
        "Format of the records; default: XML",
        Effect::Values(|command, words, name| {
            command.is_csv = words.one_of(name, &[("CSV", true), ("XML", false)])?;
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
        "FILE.etl... [-o [OUT]] [-of CSV|XML] [-summary [FILE]]",
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
        let (format, default) = match command.is_csv {
            true => (Format::Csv, "dumpfile.csv"),
            false => (Format::Xml, "dumpfile.xml"),
        };
        let output = output.clone().unwrap_or_else(|| default.into());
        check_replaceable(&output, command.replaces)?;
        let (schemas, traces) = (command.schemas.clone(), command.traces.clone());
        outcome = dump::to_file(format, &output, schemas, traces)?;
    }
    if let Some(summary) = &command.summary {
        check_replaceable(summary, command.replaces)?;
        write_summary(summary, &command.traces, &command.schemas)?;
    }
    if let Some(output) = command.report {
        let replace = ReplaceOption { force: command.replaces };
        let (schemas, files) = (command.schemas, command.traces);
        report::run(&report::Arguments { output, replace, schemas, files })?;
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

/// Writes tracerpt's summary: the files, and the count of each kind of event.
fn write_summary(path: &Path, paths: &[PathBuf], schemas: &Schemas) -> Result<(), Failure> {
    let catalog = schemas.load()?;
    let mut text = String::from("Files Processed:\n");
    let (mut buffers, mut total, mut lost) = (0, 0, 0);
    let mut table = String::new();
    let (mut start, mut end) = (None, None);
    // Writing to a String cannot fail.
    for path in paths {
        let _ = writeln!(text, "\t{}", path.display());
        let counted = stat::count(files::open(path)?, &catalog);
        buffers += counted.trace().totals().buffers;
        total += counted.total;
        if let Some(header) = counted.trace().header() {
            lost += u64::from(header.events_lost);
            start = start.into_iter().chain([header.start_time]).min();
            end = end.into_iter().chain([header.end_time]).max();
        }
        for row in &counted.rows {
            let provider = row.provider_name.clone().unwrap_or_default();
            let guid = row.provider.map_or(String::new(), |guid| format!("{{{guid}}}"));
            let number =
                |value: Option<u16>| value.map_or(String::new(), |value| value.to_string());
            let _ = writeln!(
                table,
                "|{:>12} {:<40} {:<36} {:>6} {:>7} {:<38}|",
                row.count,
                crate::format::safe(&provider),
                crate::format::safe(row.event.as_deref().unwrap_or("")),
                number(row.opcode.map(u16::from)),
                number(row.version.map(u16::from)),
                guid
            );
        }
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
    let _ = writeln!(
        text,
        "\n|{:>12} {:<40} {:<36} {:>6} {:>7} {:<38}|",
        "Event Count", "Provider", "Event Name", "Opcode", "Version", "Guid"
    );
    text.push_str(&table);
    std::fs::write(path, text).map_err(|error| schemas::refused(path, error))
}
