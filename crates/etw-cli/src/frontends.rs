//! `tracerpt` and `tracefmt`: the everyday forms of Windows' commands, by name (`etw tracerpt …`, or a link of that name).
//! Those that control sessions are in `live/frontends`.
//!
//! What is not supported is refused, not ignored.

use crate::format::Format;
use crate::output::{Failure, Outcome, Output};
use crate::schemas::{self, Schemas};
use crate::{dump, files, report, stat};
use etw_decode::wpp::{Prefix, PrefixFacts};
use etw_decode::{Decoder, Style};
use etw_etl::read::{Records, RecordsOptions, TraceFile};
use etw_types::HeaderType;
use std::fmt::Write;
use std::path::PathBuf;

/// A command, from its arguments.
pub type Run = fn(&[String]) -> Result<Outcome, Failure>;

/// The command that a name asks for.
pub fn by_name(program: &str) -> Option<Run> {
    match program {
        "tracerpt" => Some(tracerpt),
        "tracefmt" => Some(tracefmt),
        #[cfg(target_os = "linux")]
        other => crate::live::frontends::by_name(other),
        #[cfg(not(target_os = "linux"))]
        _ => None,
    }
}

pub fn usage(what: impl Into<String>) -> Failure {
    Failure::Usage(what.into())
}

/// The arguments one by one; a value follows some.
struct Words<'w> {
    words: std::iter::Peekable<std::slice::Iter<'w, String>>,
}

impl<'w> Words<'w> {
    fn of(words: &'w [String]) -> Words<'w> {
        Words { words: words.iter().peekable() }
    }

    fn value(&mut self) -> Option<&'w str> {
        self.words.next_if(|word| !is_option(word)).map(String::as_str)
    }
}

fn is_option(word: &str) -> bool {
    // A path may begin with a slash; options are short.
    word.starts_with('-')
        || word.starts_with('/') && word.len() <= 9 && !word[1..].contains(['/', '.'])
}

const TRACERPT: &str = "\
tracerpt FILE.etl... [-l FILE.etl...] [-o [OUT]] [-of CSV|XML] [-summary [FILE]]
         [-report [FILE]] [-f HTML] [-tp DIR] [-tmf FILE] [-pdb FILE] [-y]
Without -o, -summary and -report: dumpfile.xml and summary.txt. Not supported, and
refused: -of EVTX, -f XML, -export, -rl, -config, -rt and the like.
";

fn tracerpt(words: &[String]) -> Result<Outcome, Failure> {
    let mut words = Words::of(words);
    let mut paths: Vec<PathBuf> = Vec::new();
    let (mut out, mut summary, mut page) = (None, None, None);
    let mut format = Format::Xml;
    let mut force = false;
    let mut schemas = Schemas::default();
    while let Some(word) = words.words.next() {
        let name = word.to_ascii_lowercase();
        let name = name.trim_start_matches(['-', '/']);
        if !is_option(word) {
            paths.push(word.into());
            continue;
        }
        let or = |value: Option<&str>, default: &str| Some(PathBuf::from(value.unwrap_or(default)));
        match name {
            "?" | "h" | "help" => return help(TRACERPT),
            "l" => {
                while let Some(path) = words.value() {
                    paths.push(path.into());
                }
            }
            "o" => out = Some(words.value().map(PathBuf::from)),
            "of" => {
                format = match words.value().map(str::to_ascii_uppercase).as_deref() {
                    Some("CSV") => Format::Csv,
                    Some("XML") => Format::Xml,
                    other => {
                        return Err(usage(format!(
                            "tracerpt -of {}: CSV and XML are supported",
                            other.unwrap_or("")
                        )));
                    }
                }
            }
            "f" => match words.value().map(str::to_ascii_uppercase).as_deref() {
                Some("HTML") => {}
                other => {
                    return Err(usage(format!(
                        "tracerpt -f {}: HTML is supported",
                        other.unwrap_or("")
                    )));
                }
            },
            "summary" => summary = or(words.value(), "summary.txt"),
            "report" => page = or(words.value(), "workload.html"),
            "tp" | "tmf" | "pdb" => {
                let value = words
                    .value()
                    .ok_or_else(|| usage(format!("tracerpt {word}: a path is needed")))?;
                if name == "pdb" {
                    schemas.pdb.push(value.into())
                } else {
                    schemas.tmf.push(value.into())
                }
            }
            "y" => force = true,
            // Times are UTC, and names are as schemas have them.
            "gmt" | "en" => drop(words.value().filter(|_| name == "en")),
            _ => return Err(usage(format!("tracerpt: {word} is not supported"))),
        }
    }
    if paths.is_empty() {
        return Err(usage("tracerpt: no trace is named; see tracerpt -h"));
    }
    if out.is_none() && summary.is_none() && page.is_none() {
        out = Some(None);
        summary = Some("summary.txt".into());
    }
    let mut outcome = Outcome::Done;
    if let Some(out) = out {
        let default = if matches!(format, Format::Csv) { "dumpfile.csv" } else { "dumpfile.xml" };
        let out = out.unwrap_or_else(|| default.into());
        if out.exists() && !force {
            return Err(Failure::new(format!("{}: exists; -y replaces it", out.display())));
        }
        outcome = dump::to_file(format, &out, schemas.clone(), paths.clone())?;
    }
    if let Some(summary) = summary {
        write_summary(&summary, &paths, &schemas, force)?;
    }
    if let Some(page) = page {
        let arguments = report::Arguments { output: page, force, schemas, files: paths };
        report::run(&arguments)?;
    }
    Ok(outcome)
}

fn help(text: &str) -> Result<Outcome, Failure> {
    let mut output = Output::open(None, &[])?;
    output.write(text.as_bytes())?;
    output.finish()?;
    Ok(Outcome::Done)
}

/// tracerpt's summary: what was processed, and how often each kind of event came.
fn write_summary(
    path: &PathBuf,
    paths: &[PathBuf],
    schemas: &Schemas,
    force: bool,
) -> Result<(), Failure> {
    if path.exists() && !force {
        return Err(Failure::new(format!("{}: exists; -y replaces it", path.display())));
    }
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

const TRACEFMT: &str = "\
tracefmt FILE.etl [-o OUT] [-p DIR[;DIR]] [-tmf FILE] [-pdb FILE] [-display | -displayonly] [-nosummary]
Messages go to FmtFile.txt, how many there were to FmtSum.txt. TRACE_FORMAT_PREFIX is the prefix,
TRACE_FORMAT_SEARCH_PATH a list of folders of TMF files. Times are UTC.
";

fn tracefmt(words: &[String]) -> Result<Outcome, Failure> {
    let mut words = Words::of(words);
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut out = PathBuf::from("FmtFile.txt");
    let (mut shows, mut writes, mut sums) = (false, true, true);
    let mut schemas = Schemas::default();
    while let Some(word) = words.words.next() {
        if !is_option(word) {
            paths.push(word.into());
            continue;
        }
        let name = word.to_ascii_lowercase();
        let name = name.trim_start_matches(['-', '/']);
        let mut path =
            || words.value().ok_or_else(|| usage(format!("tracefmt {word}: a path is needed")));
        match name {
            "?" | "h" | "help" => return help(TRACEFMT),
            "o" => out = path()?.into(),
            "p" => schemas.tmf.extend(path()?.split(';').map(PathBuf::from)),
            "tmf" => schemas.tmf.push(path()?.into()),
            "pdb" | "i" => schemas.pdb.push(path()?.into()),
            "display" => shows = true,
            "displayonly" => (shows, writes, sums) = (true, false, false),
            "nosummary" => sums = false,
            // Records are always in the order of their times, which are UTC.
            "sortbytime" | "gmt" | "hires" => {}
            _ => return Err(usage(format!("tracefmt: {word} is not supported"))),
        }
    }
    let [path] = &paths[..] else {
        return Err(usage("tracefmt: one trace is needed; see tracefmt -h"));
    };
    let prefix =
        std::env::var("TRACE_FORMAT_PREFIX").unwrap_or_else(|_| Prefix::DEFAULT.to_owned());
    let prefix = Prefix::parse(&prefix);
    let trace: TraceFile = files::open(path)?;
    let clock = *trace.clock();
    let mut records = Records::with_options(vec![trace], RecordsOptions::default());
    let mut decoder = Decoder::new();
    decoder.set_catalog(schemas.load()?);
    decoder.set_own_catalog(schemas::own());
    let mut display = Output::open(None, &[])?;
    let mut file = if writes { Some(Output::open(Some(&out), &paths)?) } else { None };
    let (mut formatted, mut unknown, mut others) = (0u64, 0u64, 0u64);
    let style = Style::default();
    while let Some(record) = records.next() {
        if record.header != HeaderType::Message {
            others += 1;
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
                thread: record.thread_id.unwrap_or(0),
                process: record.process_id.unwrap_or(0),
                cpu: record.cpu,
                sequence: record.sequence.unwrap_or(0),
                time: record.timestamp(&clock),
            },
        );
        match decoded.message(&record, &style) {
            Some(message) => {
                formatted += 1;
                line.push_str(&message);
            }
            None => {
                unknown += 1;
                let guid = record.provider.unwrap_or_default();
                let why = match decoded.schema() {
                    Some(_) => "its arguments are damaged",
                    None => "No Format Information found",
                };
                // Writing to a String cannot fail.
                let _ = write!(line, "Unknown( {}): GUID={guid} ({why}).", record.descriptor.id);
            }
        }
        // A line a message, whatever its arguments hold.
        let mut line = line.replace("\r\n", "\n").replace(['\r', '\n'], " ");
        line.push('\n');
        if let Some(file) = &mut file {
            file.write(line.as_bytes())?;
        }
        if shows {
            display.write(line.as_bytes())?;
        }
    }
    if let Some(mut file) = file {
        file.finish()?;
    }
    let sum = format!(
        "Files Processed:\n\t{}\nMessages formatted      {formatted}\nMessages unknown        {unknown}\nOther records           {others}\n",
        path.display()
    );
    if sums {
        std::fs::write("FmtSum.txt", &sum)
            .map_err(|error| Failure::new(format!("FmtSum.txt: {error}")))?;
    }
    if !shows {
        display.write(sum.as_bytes())?;
    }
    display.finish()?;
    Ok(files::report(&records))
}
