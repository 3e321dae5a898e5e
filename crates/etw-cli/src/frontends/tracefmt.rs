//! `tracefmt`: the WPP messages of a trace as text.

use super::answer::usage;
use super::table::show_help;
use super::table::{ALL, Effect, Help, Row, Table, help_row, option, refused};
use crate::files;
use crate::output::{Failure, Outcome, Output, Progress};
use crate::schemas::{self, Schemas};
use etw_decode::wpp::{Prefix, PrefixFacts};
use etw_decode::{Decoded, Decoder, Style};
use etw_etl::read::{Records, RecordsOptions};
use etw_types::{EventRecord, HeaderType};
use std::fmt::Write;
use std::path::PathBuf;

#[derive(Default)]
struct Command {
    traces: Vec<PathBuf>,
    output: Option<PathBuf>,
    /// Messages go to standard output.
    displays: bool,
    /// Messages go to no file.
    only_displays: bool,
    hides_summary: bool,
    schemas: Schemas,
}

const ROWS: &[Row<Command>] = &[
    help_row(),
    option(
        ALL,
        "o",
        "OUT",
        "Write the messages to OUT; default: FmtFile.txt",
        Effect::Text(|command, path| command.output = Some(path.into())),
    ),
    option(
        ALL,
        "p",
        "DIR[;DIR]",
        "Folders of TMF files",
        Effect::Text(|command, paths| {
            command.schemas.tmf.extend(paths.split(';').map(PathBuf::from));
        }),
    ),
    option(
        ALL,
        "tmf",
        "FILE",
        "A TMF file",
        Effect::Text(|command, path| command.schemas.tmf.push(path.into())),
    ),
    option(
        ALL,
        "pdb i",
        "FILE",
        "A PDB file",
        Effect::Text(|command, path| command.schemas.pdb.push(path.into())),
    ),
    option(
        ALL,
        "display",
        "",
        "Show the messages, too",
        Effect::Flag(|command| command.displays = true),
    ),
    option(
        ALL,
        "displayonly",
        "",
        "Show the messages and write no file",
        Effect::Flag(|command| (command.displays, command.only_displays) = (true, true)),
    ),
    option(
        ALL,
        "nosummary",
        "",
        "Do not write FmtSum.txt",
        Effect::Flag(|command| command.hides_summary = true),
    ),
    option(
        ALL,
        "sortbytime gmt hires",
        "",
        "Accepted; messages are sorted by their times, which are UTC",
        Effect::Nothing,
    ),
    refused("rt", "use etw tail SESSION --tmf PATH for the messages of a running session"),
    refused("csv xml", "use etw dump --format csv or --format xml"),
    refused("noprefix", "set TRACE_FORMAT_PREFIX to an empty text"),
    refused("r v summary ods seq", "use etw dump --tmf PATH"),
];

static TABLE: Table<Command> = Table {
    command: "tracefmt",
    about: "Write the WPP messages of a trace, as Windows' tracefmt does",
    forms: &["FILE.etl [-o OUT] [-p DIR[;DIR]] [-tmf FILE] [-pdb FILE]"],
    repeatable: 0,
    actions: &[],
    operand: Some(|command, word| {
        command.traces.push(word.into());
        Ok(())
    }),
    rows: ROWS,
    notes: "It writes the messages to FmtFile.txt and their counts to FmtSum.txt. TRACE_FORMAT_PREFIX is the prefix of \
            each message, TRACE_FORMAT_SEARCH_PATH a list of folders of TMF files.",
};

pub fn help() -> Help {
    TABLE.help()
}

/// Counts of a trace's records.
#[derive(Default)]
struct Counts {
    formatted: u64,
    unknown: u64,
    others: u64,
}

pub fn run(words: &[String]) -> Result<Outcome, Failure> {
    let mut command = Command::default();
    if TABLE.parse(words, &mut command)?.is_none() {
        return show_help(&help());
    }
    let [path] = &command.traces[..] else {
        let count = command.traces.len();
        let text = format!("tracefmt: {count} traces are named; name one: tracefmt FILE.etl");
        return Err(usage(text));
    };
    let prefix =
        std::env::var("TRACE_FORMAT_PREFIX").unwrap_or_else(|_| Prefix::DEFAULT.to_owned());
    let prefix = Prefix::parse(&prefix);
    let trace = files::open(path)?;
    let clock = *trace.clock();
    let traces = vec![trace];
    let mut decoder = Decoder::new();
    decoder.set_catalog(command.schemas.load_for(&traces)?);
    decoder.set_own_catalog(schemas::own_for(&traces));
    let mut records = Records::with_options(traces, RecordsOptions::default());
    let mut display = Output::open(None, &[])?;
    let mut file = match command.only_displays {
        true => None,
        false => {
            let path = command.output.clone().unwrap_or_else(|| "FmtFile.txt".into());
            Some(Output::open(Some(&path), &command.traces)?)
        }
    };
    let mut counts = Counts::default();
    let mut progress = Progress::of(records.files());
    while let Some(record) = records.next() {
        progress.count(record.position);
        if record.header != HeaderType::Message {
            counts.others += 1;
            continue;
        }
        let decoded = decoder.decode(&record);
        let component = decoded.provider_name();
        let mut line = String::new();
        prefix.write(
            &mut line,
            &PrefixFacts {
                component: component.as_deref().unwrap_or("Unknown"),
                place: decoded.event_name().unwrap_or("Unknown"),
                ..PrefixFacts::of(&record, record.timestamp(&clock))
            },
        );
        let style = Style { clock: Some(clock), ..Style::default() };
        put_message(&mut line, (&record, &decoded), &style, &mut counts);
        // One line per message, whatever its arguments contain.
        let mut line = line.replace("\r\n", "\n").replace(['\r', '\n'], " ");
        line.push('\n');
        if let Some(file) = &mut file {
            file.write(line.as_bytes())?;
        }
        if command.displays {
            display.write(line.as_bytes())?;
        }
    }
    if let Some(mut file) = file {
        file.finish()?;
    }
    let Counts { formatted, unknown, others } = counts;
    let summary = format!(
        "Files Processed:\n\t{}\nMessages formatted      {formatted}\nMessages unknown        {unknown}\nOther records           {others}\n",
        path.display()
    );
    if !command.hides_summary && !command.only_displays {
        let summary_path = "FmtSum.txt".as_ref();
        std::fs::write(summary_path, &summary)
            .map_err(|error| schemas::refused(summary_path, error))?;
    }
    if !command.displays {
        display.write(summary.as_bytes())?;
    }
    display.finish()?;
    Ok(files::report(&records))
}

/// Appends the text of a message, or why there is none.
fn put_message(
    line: &mut String,
    (record, decoded): (&EventRecord<'_>, &Decoded<'_>),
    style: &Style,
    counts: &mut Counts,
) {
    if let Some(message) = decoded.message(record, style) {
        counts.formatted += 1;
        line.push_str(&message);
        return;
    }
    counts.unknown += 1;
    let guid = record.provider.unwrap_or_default();
    let why = match decoded.schema() {
        Some(_) => "its arguments are damaged",
        None => "No Format Information found",
    };
    // Writing to a String cannot fail.
    let _ = write!(line, "Unknown( {}): GUID={guid} ({why}).", record.descriptor.id);
}
