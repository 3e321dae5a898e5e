//! `etw log`: event logs (`.evtx`) shown, queried and described.

use crate::format::{FileFacts, Format, Options};
use crate::output::{Failure, Outcome, Output};
use crate::schemas::Schemas;
use clap::{Args, Subcommand};
use etw_decode::Decoder;
use etw_etl::record::RecordContext;
use etw_eventlog::translate::Translator;
use etw_evtx::chunk::Chunk;
use etw_evtx::query::{Query, QueryList};
use etw_evtx::{Damage, Log, Record};
use etw_types::{Clock, ClockType, FileTime};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: LogCommand,
}

#[derive(Subcommand)]
enum LogCommand {
    /// Print the records of event logs, oldest first; several files are merged by time
    Show(ShowArguments),
    /// Print the records that an XPath query or a query list selects
    ///
    /// Example: etw log query Security.evtx '*[System[EventID=4625]]'
    Query(QueryArguments),
    /// Show the facts of event logs: size, records, oldest record, state
    Info(InfoArguments),
}

#[derive(Args, Default)]
struct Printing {
    /// Form of the output
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Newest records first
    #[arg(long)]
    reverse: bool,
    /// Include records that were deleted or overwritten in part, as far as their bytes are there
    #[arg(long)]
    stale: bool,
    /// Stop after N records
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u64>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    #[command(flatten)]
    schemas: Schemas,
}

impl Printing {
    fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

#[derive(Args)]
struct ShowArguments {
    #[command(flatten)]
    printing: Printing,
    /// Event logs
    #[arg(required = true, value_name = "FILE.evtx")]
    files: Vec<PathBuf>,
}

#[derive(Args)]
struct QueryArguments {
    #[command(flatten)]
    printing: Printing,
    /// Event log
    #[arg(value_name = "FILE.evtx")]
    file: PathBuf,
    /// XPath, or a QueryList element
    query: String,
}

#[derive(Args)]
struct InfoArguments {
    /// Form of the output
    #[arg(long)]
    json: bool,
    /// Event logs
    #[arg(required = true, value_name = "FILE.evtx")]
    files: Vec<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    match &arguments.command {
        LogCommand::Show(show) => print(&show.printing, &show.files, &Selection::All),
        LogCommand::Query(query) => {
            let selection = Selection::parse(&query.query)?;
            print(&query.printing, std::slice::from_ref(&query.file), &selection)
        }
        LogCommand::Info(arguments) => info(arguments),
    }
}

/// The records that are printed.
enum Selection {
    All,
    Query(Query),
    List(QueryList),
}

impl Selection {
    fn parse(text: &str) -> Result<Selection, Failure> {
        let usage = |error: &dyn std::fmt::Display| Failure::Usage(format!("query: {error}"));
        match text.trim_start().starts_with('<') {
            true => QueryList::parse(text).map(Selection::List).map_err(|error| usage(&error)),
            false => text.parse().map(Selection::Query).map_err(|error| usage(&error)),
        }
    }

    fn matches(&self, record: &Record<'_>, now: FileTime) -> Result<bool, etw_evtx::Error> {
        match self {
            Selection::All => Ok(true),
            Selection::Query(query) => query.matches(record, now),
            // Its paths name channels, which a record names, too.
            Selection::List(list) => {
                let channel = record.system().channel().unwrap_or_default();
                list.matches(&channel, record, now)
            }
        }
    }
}

/// The selected records of one log, printed, chunk by chunk.
struct Source {
    log: Log,
    path: PathBuf,
    /// Chunks that are left, the next one last.
    chunks: Vec<usize>,
    /// Printed records of the current chunk, the next one last.
    ready: Vec<(FileTime, String)>,
    damage: Vec<Damage>,
    /// Records that expand beyond the limits.
    too_large: u64,
}

impl Source {
    fn open(path: &Path, printing: &Printing) -> Result<Source, Failure> {
        let failure = |error| Failure::new(format!("{}: {error}", path.display()));
        let mut log = Log::open(path).map_err(failure)?;
        if printing.stale {
            log = log.with_stale();
        }
        let mut chunks: Vec<usize> = (0..log.chunks().len()).collect();
        if !printing.reverse {
            chunks.reverse();
        }
        let damage = log.records().damage().to_vec();
        Ok(Source { log, path: path.to_owned(), chunks, ready: Vec::new(), damage, too_large: 0 })
    }

    /// Reads chunks until a selected record is ready.
    fn fill(&mut self, what: &mut Job<'_>) -> Result<(), Failure> {
        while self.ready.is_empty() {
            let Some(index) = self.chunks.pop() else { return Ok(()) };
            let location = self.log.chunks()[index];
            let mut chunk = self
                .log
                .chunk(&location)
                .map_err(|error| Failure::new(format!("{}: {error}", self.path.display())))?;
            self.print_chunk(&mut chunk, what);
            self.damage.append(&mut chunk.take_damage());
            if !what.printing.reverse {
                self.ready.reverse();
            }
        }
        Ok(())
    }

    fn print_chunk(&mut self, chunk: &mut Chunk, what: &mut Job<'_>) {
        while let Some(record) = chunk.next() {
            let printed = what.selection.matches(&record, what.now).and_then(|matches| {
                if !matches {
                    return Ok(None);
                }
                let time = record.system().time().unwrap_or(record.time());
                what.format(&record).map(|text| Some((time, text)))
            });
            match printed {
                Ok(Some(printed)) => self.ready.push(printed),
                Ok(None) => {}
                Err(_) => self.too_large += 1,
            }
        }
    }
}

/// A request to print.
struct Job<'a> {
    printing: &'a Printing,
    selection: &'a Selection,
    now: FileTime,
    translator: Translator,
    decoder: Decoder,
    options: Options,
}

impl<'a> Job<'a> {
    fn new(printing: &'a Printing, selection: &'a Selection) -> Result<Job<'a>, Failure> {
        let mut decoder = Decoder::new();
        decoder.set_catalog(printing.schemas.load()?);
        decoder.set_own_catalog(crate::schemas::own());
        let options = Options::of(printing.format());
        let translator = Translator::new();
        Ok(Job { printing, selection, now: now(), translator, decoder, options })
    }

    fn format(&mut self, record: &Record<'_>) -> Result<String, etw_evtx::Error> {
        if self.options.format == Format::Xml {
            return record.to_xml().map(|xml| xml + "\n");
        }
        let (bytes, _) = self.translator.stored(record)?;
        let Ok(event) = etw_etl::record::parse(bytes, &RecordContext::default()) else {
            unreachable!("the translator gives whole events");
        };
        let decoded = self.decoder.decode(&event);
        let mut out = Vec::new();
        let file = FileFacts { clock: FILE_TIMES, timer_resolution: 0 };
        self.options.write(&mut out, &event, &decoded, &file);
        Ok(String::from_utf8_lossy(&out).into_owned())
    }
}

/// Times of logs are FILETIMEs.
const FILE_TIMES: Clock =
    Clock { kind: ClockType::SYSTEM, start: FileTime(0), raw_start: 0, frequency: 10_000_000 };

fn print(
    printing: &Printing,
    files: &[PathBuf],
    selection: &Selection,
) -> Result<Outcome, Failure> {
    let mut job = Job::new(printing, selection)?;
    let mut sources: Vec<Source> =
        files.iter().map(|file| Source::open(file, printing)).collect::<Result<_, _>>()?;
    let mut output = Output::open_paged(printing.output.as_deref(), files)?;
    let is_xml = printing.format() == Format::Xml;
    match is_xml {
        true => output.write(b"<Events>\n")?,
        false => output.write(job.options.prologue().as_bytes())?,
    }
    let mut left = printing.limit.unwrap_or(u64::MAX);
    while left > 0 {
        for source in &mut sources {
            source.fill(&mut job)?;
        }
        let times = sources.iter().enumerate();
        let times = times.filter_map(|(index, source)| Some((source.ready.last()?.0, index)));
        let next = match printing.reverse {
            false => times.min_by_key(|(time, index)| (time.0, *index)),
            true => times.max_by_key(|(time, index)| (time.0, std::cmp::Reverse(*index))),
        };
        let Some((_, text)) = next.and_then(|(_, index)| sources[index].ready.pop()) else { break };
        output.write(text.as_bytes())?;
        left -= 1;
    }
    output.write(job.options.epilogue().as_bytes())?;
    output.finish()?;
    let mut outcome = Outcome::Done;
    for source in &sources {
        let path = source.path.display();
        for damage in &source.damage {
            eprintln!("etw: {path}: {damage}");
        }
        if source.too_large > 0 {
            let count = source.too_large;
            eprintln!("etw: {path}: {count} records expand to more text than is allowed");
        }
        if !source.damage.is_empty() || source.too_large > 0 {
            outcome = Outcome::Damaged;
        }
    }
    Ok(outcome)
}

fn now() -> FileTime {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    FileTime(FileTime::UNIX_EPOCH.0 + since.map_or(0, |since| (since.as_nanos() / 100) as i64))
}

fn info(arguments: &InfoArguments) -> Result<Outcome, Failure> {
    let mut output = Output::open(None, &[])?;
    let mut outcome = Outcome::Done;
    for path in &arguments.files {
        let failure = |error| Failure::new(format!("{}: {error}", path.display()));
        let log = Log::open(path).map_err(failure)?;
        let (mut count, mut oldest, mut newest) = (0u64, None, None);
        let mut records = log.records();
        while let Some(record) = records.next().map_err(failure)? {
            count += 1;
            let id = record.system().record_id().unwrap_or(record.id());
            let this = (id, record.system().time().unwrap_or(record.time()));
            oldest.get_or_insert(this);
            // A damaged record may have lost its number.
            newest = newest.max(Some(this));
        }
        let damage = records.damage();
        if !damage.is_empty() {
            outcome = Outcome::Damaged;
        }
        let size = std::fs::metadata(path).map_or(0, |data| data.len());
        let facts = Facts { path, size, log: &log, count, oldest, newest, damage };
        let text = if arguments.json { facts.json() } else { facts.text() };
        output.write(text.as_bytes())?;
    }
    output.finish()?;
    Ok(outcome)
}

struct Facts<'a> {
    path: &'a Path,
    size: u64,
    log: &'a Log,
    count: u64,
    oldest: Option<(u64, FileTime)>,
    newest: Option<(u64, FileTime)>,
    damage: &'a [Damage],
}

impl Facts<'_> {
    fn state(&self) -> &'static str {
        match (self.log.is_dirty(), self.log.is_full()) {
            (false, false) => "closed",
            (false, true) => "closed, full",
            (true, false) => "in use, or not closed",
            (true, true) => "in use, or not closed; full",
        }
    }

    fn json(&self) -> String {
        let of = |end: Option<(u64, FileTime)>| {
            end.map(|(id, time)| serde_json::json!({ "record_id": id, "time": time.to_string() }))
        };
        let damage: Vec<String> = self.damage.iter().map(ToString::to_string).collect();
        let object = serde_json::json!({
            "file": self.path.to_string_lossy(),
            "size": self.size,
            "chunks": self.log.chunks().len(),
            "records": self.count,
            "oldest": of(self.oldest),
            "newest": of(self.newest),
            "dirty": self.log.is_dirty(),
            "full": self.log.is_full(),
            "damage": damage,
        });
        format!("{object}\n")
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{}: {} records in {} chunks, {} bytes, {}\n",
            self.path.display(),
            self.count,
            self.log.chunks().len(),
            self.size,
            self.state()
        );
        for (name, end) in [("oldest", self.oldest), ("newest", self.newest)] {
            if let Some((id, time)) = end {
                let _ = writeln!(text, "  {name}: record {id}, {time}");
            }
        }
        for damage in self.damage {
            let _ = writeln!(text, "  damage: {damage}");
        }
        text
    }
}
