//! `etw log`, and `etw dump` of event logs (`.evtx`).

use crate::output::{Failure, Outcome, Output};
use clap::{Args, Subcommand, ValueEnum};
use etw_evtx::chunk::Chunk;
use etw_evtx::query::{Query, QueryList};
use etw_evtx::{Damage, Log, Record, json};
use etw_types::{FileTime, Level};
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

/// Form of the output
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// A line for each record
    #[default]
    Text,
    /// An object for each record
    Json,
    /// The XML of Windows, a line for each record
    Xml,
}

#[derive(Args, Default)]
struct Printing {
    /// Form of the output
    #[arg(long, value_enum, default_value = "text")]
    format: LogFormat,
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

/// Whether a file is an event log, by its first bytes.
pub fn is_event_log(path: &Path) -> bool {
    use std::io::Read;
    let mut start = [0; 8];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && &start == b"ElfFile\0"
}

/// `etw dump` of event logs.
pub fn dump(
    format: crate::format::Format,
    limit: Option<u64>,
    output: Option<&Path>,
    files: &[PathBuf],
) -> Result<Outcome, Failure> {
    use crate::format::Format;
    let format = match format {
        Format::Text => LogFormat::Text,
        Format::Json => LogFormat::Json,
        Format::Xml => LogFormat::Xml,
        Format::Csv => {
            let text = "dump: event logs have the formats text, json and xml";
            return Err(Failure::Usage(text.into()));
        }
    };
    let output = output.map(Path::to_owned);
    let printing = Printing { format, limit, output, ..Printing::default() };
    print(&printing, files, &Selection::All)
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
    fn fill(&mut self, what: &Job<'_>) -> Result<(), Failure> {
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

    fn print_chunk(&mut self, chunk: &mut Chunk, what: &Job<'_>) {
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
}

impl Job<'_> {
    fn format(&self, record: &Record<'_>) -> Result<String, etw_evtx::Error> {
        match if self.printing.json { LogFormat::Json } else { self.printing.format } {
            LogFormat::Xml => record.to_xml().map(|xml| xml + "\n"),
            LogFormat::Json => json_line(record),
            LogFormat::Text => text_line(record),
        }
    }
}

fn print(
    printing: &Printing,
    files: &[PathBuf],
    selection: &Selection,
) -> Result<Outcome, Failure> {
    let now = now();
    let job = Job { printing, selection, now };
    let mut sources: Vec<Source> =
        files.iter().map(|file| Source::open(file, printing)).collect::<Result<_, _>>()?;
    let mut output = Output::open_paged(printing.output.as_deref(), files)?;
    let is_xml = !printing.json && printing.format == LogFormat::Xml;
    if is_xml {
        output.write(b"<Events>\n")?;
    }
    let mut left = printing.limit.unwrap_or(u64::MAX);
    while left > 0 {
        for source in &mut sources {
            source.fill(&job)?;
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
    if is_xml {
        output.write(b"</Events>\n")?;
    }
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

/// The values of the event beside `System`, as one object.
fn fields(record: &Record<'_>) -> Result<String, etw_evtx::Error> {
    let mut out = String::new();
    match record.data().first() {
        Some((element, content)) => json::push_data(&mut out, element, *content)?,
        None => out.push_str("{}"),
    }
    Ok(out)
}

/// A record as an object with the keys of a trace's records, and those of logs.
fn json_line(record: &Record<'_>) -> Result<String, etw_evtx::Error> {
    let system = record.system();
    let text = |value: Option<String>| match value {
        Some(value) => serde_json::Value::from(value).to_string(),
        None => "null".to_owned(),
    };
    fn number(value: Option<impl Into<u64>>) -> String {
        value.map_or_else(|| "null".to_owned(), |value| value.into().to_string())
    }
    let time = system.time().unwrap_or(record.time());
    let mut line = format!(
        "{{\"header\":\"EVTX\",\"timestamp\":\"{time}\",\"raw_timestamp\":{},\"cpu\":null,\"pid\":{},\"tid\":{},\
         \"provider\":{},\"provider_name\":{},\"event\":null,\"id\":{},\"version\":{},\"level\":{},\"opcode\":{},\
         \"channel\":null,\"task\":{},\"keyword\":{},\"activity_id\":{}",
        time.0,
        number(system.process_id()),
        number(system.thread_id()),
        text(system.provider().map(|id| id.to_string())),
        text(system.provider_name()),
        number(system.event_id()),
        number(system.version()),
        number(system.level()),
        number(system.opcode()),
        number(system.task()),
        text(system.keywords().map(|keyword| format!("{keyword:#018x}"))),
        text(system.activity().map(|id| id.to_string())),
    );
    if let Some(related) = system.related_activity() {
        let _ = write!(line, ",\"related_activity_id\":\"{related}\"");
    }
    let _ = write!(
        line,
        ",\"decoded\":\"evtx\",\"record_id\":{},\"channel_name\":{},\"computer\":{}",
        system.record_id().unwrap_or(record.id()),
        text(system.channel()),
        text(system.computer()),
    );
    if let Some(user) = system.user() {
        let _ = write!(line, ",\"user\":{}", text(Some(user)));
    }
    let _ = write!(line, ",\"fields\":{}}}", fields(record)?);
    line.push('\n');
    Ok(line)
}

fn text_line(record: &Record<'_>) -> Result<String, etw_evtx::Error> {
    let system = record.system();
    let time = system.time().unwrap_or(record.time());
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".into());
    let level = match system.level().map(Level) {
        Some(level) => level.name().map_or_else(|| level.0.to_string(), str::to_owned),
        None => "-".into(),
    };
    Ok(format!(
        "{time} {} {} {} {level} {} {}\n",
        or_dash(system.channel()),
        or_dash(system.provider_name()),
        or_dash(system.event_id().map(|id| id.to_string())),
        or_dash(system.computer()),
        fields(record)?,
    ))
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
