//! `etw log`: event logs (`.evtx`) shown, queried and described.

use crate::format::{FileFacts, Format, Options, safe};
use crate::output::{Failure, Outcome, Output};
use crate::output_file::{NewFile, ReplaceOption};
use crate::schemas::Schemas;
use clap::{Args, Subcommand};
use etw_decode::Decoder;
use etw_etl::record::RecordContext;
use etw_eventlog::export::ExportError;
use etw_eventlog::rendering::Renderer;
use etw_eventlog::translate::Translator;
use etw_evtx::chunk::Chunk;
use etw_evtx::query::{QueryList, Selector};
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
    /// Write the records of an event log that a query selects to another one; they keep their numbers
    Export(ExportArguments),
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
    /// The form of `wevtutil`, in place of `format`.
    #[arg(skip)]
    windows: Option<WindowsForm>,
}

/// The form of `wevtutil qe`.
#[derive(Clone, Debug)]
struct WindowsForm {
    is_xml: bool,
    /// With `RenderingInfo`.
    is_rendered: bool,
    root: Option<String>,
}

impl WindowsForm {
    fn prologue(&self) -> String {
        self.root.as_ref().map_or(String::new(), |root| format!("<{root}>\n"))
    }

    fn epilogue(&self) -> String {
        self.root.as_ref().map_or(String::new(), |root| format!("</{root}>\n"))
    }
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
struct ExportArguments {
    /// Write to this event log
    #[arg(short, long, value_name = "OUT.evtx")]
    output: PathBuf,
    #[command(flatten)]
    replace: ReplaceOption,
    /// Event log
    #[arg(value_name = "FILE.evtx")]
    file: PathBuf,
    /// XPath, or a QueryList element; default: every record
    query: Option<String>,
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
        LogCommand::Show(show) => print(&show.printing, &show.files, &Selector::all()),
        LogCommand::Query(query) => {
            let selector = selector(Some(&query.query))?;
            print(&query.printing, std::slice::from_ref(&query.file), &selector)
        }
        LogCommand::Export(arguments) => {
            let ExportArguments { output, replace, file, query } = arguments;
            let count = export(file, query.as_deref(), output, replace.force)?;
            crate::frontends::answer::print(&format!("{}: {count} records\n", output.display()))
        }
        LogCommand::Info(arguments) => info(arguments),
    }
}

/// The records that a query or a query list selects; without one, every record.
fn selector(query: Option<&str>) -> Result<Selector, Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(format!("query: {error}"));
    match query {
        None => Ok(Selector::all()),
        Some(list) if list.trim_start().starts_with('<') => {
            let list = QueryList::parse(list).map_err(|error| usage(&error))?;
            // Its paths name channels, which a record names, too.
            Ok(Selector::list(list, None, now()))
        }
        Some(query) => Ok(Selector::query(query.parse().map_err(|error| usage(&error))?, now())),
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
    fn open(path: &Path, printing: &Printing, selector: &Selector) -> Result<Source, Failure> {
        let failure = |error| Failure::new(format!("{}: {error}", path.display()));
        let mut log = Log::open(path).map_err(failure)?;
        if printing.stale {
            log = log.with_stale();
        }
        let ids = log.chunk_ids(selector);
        let has_ids = |index: &usize| log.may_hold(&log.chunks()[*index], &ids);
        let mut chunks: Vec<usize> = (0..log.chunks().len()).filter(has_ids).collect();
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
        while let Some(record) = chunk.next_candidate(what.selector) {
            let printed = what.selector.matches(&record).and_then(|matches| {
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
    selector: &'a Selector,
    translator: Translator,
    decoder: Decoder,
    renderer: Renderer,
    options: Options,
}

impl<'a> Job<'a> {
    fn new(printing: &'a Printing, selector: &'a Selector) -> Result<Job<'a>, Failure> {
        let catalog = printing.schemas.load()?;
        let new_decoder = || {
            let mut decoder = Decoder::new();
            decoder.set_catalog(catalog.clone());
            decoder.set_own_catalog(crate::schemas::own());
            decoder
        };
        let (decoder, renderer) = (new_decoder(), Renderer::new(new_decoder()));
        let options = Options::of(printing.format());
        let translator = Translator::new();
        Ok(Job { printing, selector, translator, decoder, renderer, options })
    }

    fn format(&mut self, record: &Record<'_>) -> Result<String, etw_evtx::Error> {
        if let Some(windows) = &self.printing.windows {
            return self.windows_form(record, windows);
        }
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

impl Job<'_> {
    /// A record as `wevtutil qe` prints it.
    fn windows_form(
        &mut self,
        record: &Record<'_>,
        form: &WindowsForm,
    ) -> Result<String, etw_evtx::Error> {
        let rendering = self.renderer.render(record)?;
        if form.is_xml {
            let xml = if form.is_rendered { rendering.xml(record)? } else { record.to_xml()? };
            return Ok(xml + "\n");
        }
        let or_na = |text: Option<String>| text.unwrap_or_else(|| "N/A".to_owned());
        let keywords = Some(rendering.keywords.join(",")).filter(|all| !all.is_empty());
        let system = record.system();
        let mut text = String::new();
        for (key, value) in [
            ("Log Name", system.channel().unwrap_or_default()),
            ("Source", system.provider_name().unwrap_or_default()),
            ("Date", system.time().unwrap_or(record.time()).to_string()),
            ("Event ID", system.event_id().unwrap_or(0).to_string()),
            ("Task", or_na(rendering.task)),
            ("Level", or_na(rendering.level)),
            ("Opcode", or_na(rendering.opcode)),
            ("Keyword", or_na(keywords)),
            ("User", or_na(system.user())),
            ("User Name", or_na(None)),
            ("Computer", system.computer().unwrap_or_default()),
        ] {
            let _ = writeln!(text, "  {key}: {}", safe(&value));
        }
        let _ = writeln!(text, "  Description:\n{}\n", or_na(rendering.message));
        Ok(text)
    }
}

/// A query of `wevtutil qe`.
#[derive(Default)]
pub struct WindowsQuery {
    pub file: PathBuf,
    /// XPath or a query list; `None`: every record.
    pub query: Option<String>,
    pub is_reverse: bool,
    pub count: Option<u64>,
    pub is_xml: bool,
    pub is_rendered: bool,
    /// Name of an element around all.
    pub root: Option<String>,
}

/// `wevtutil qe`
pub fn windows_query(query: WindowsQuery) -> Result<Outcome, Failure> {
    let WindowsQuery { is_xml, is_rendered, root, .. } = query;
    let printing = Printing {
        reverse: query.is_reverse,
        limit: query.count,
        windows: Some(WindowsForm { is_xml, is_rendered, root }),
        ..Printing::default()
    };
    print(&printing, &[query.file], &selector(query.query.as_deref())?)
}

/// Writes the records that a query selects to another log, with their numbers. Returns how many they are.
pub fn export(
    file: &Path,
    query: Option<&str>,
    output: &Path,
    replaces: bool,
) -> Result<u64, Failure> {
    let selector = selector(query)?;
    let failure = |error| Failure::new(format!("{}: {error}", file.display()));
    let log = Log::open(file).map_err(failure)?;
    let new = NewFile::create(output, &[file.to_owned()], replaces)?;
    let failed = |error| match error {
        etw_evtx::Error::Io(error) => new.failure(&error),
        error => new.failure(&std::io::Error::other(error)),
    };
    let copy = new.file().try_clone().map_err(|error| new.failure(&error))?;
    let count =
        etw_eventlog::export::export(&log, &selector, copy).map_err(|error| match error {
            ExportError::Read(error) => failure(error),
            ExportError::Write(error) => failed(error),
        })?;
    new.keep()?;
    Ok(count)
}

/// Times of logs are FILETIMEs.
const FILE_TIMES: Clock =
    Clock { kind: ClockType::SYSTEM, start: FileTime(0), raw_start: 0, frequency: 10_000_000 };

fn print(printing: &Printing, files: &[PathBuf], selector: &Selector) -> Result<Outcome, Failure> {
    let mut job = Job::new(printing, selector)?;
    let mut sources: Vec<Source> = files
        .iter()
        .map(|file| Source::open(file, printing, selector))
        .collect::<Result<_, _>>()?;
    let mut output = Output::open_paged(printing.output.as_deref(), files)?;
    let is_xml = printing.format() == Format::Xml;
    let (prologue, epilogue) = match &printing.windows {
        Some(form) => (form.prologue(), form.epilogue()),
        None if is_xml => ("<Events>\n".to_owned(), job.options.epilogue().to_owned()),
        None => (job.options.prologue(), job.options.epilogue().to_owned()),
    };
    output.write(prologue.as_bytes())?;
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
        if printing.windows.as_ref().is_some_and(|form| !form.is_xml) {
            let number = printing.limit.unwrap_or(u64::MAX) - left;
            output.write(format!("Event[{number}]:\n").as_bytes())?;
        }
        output.write(text.as_bytes())?;
        left -= 1;
    }
    output.write(epilogue.as_bytes())?;
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
