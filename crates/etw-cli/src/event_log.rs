//! `etw log`: event logs (`.evtx`) shown, queried and described.

pub mod archive;
mod log_import;
mod log_source;
mod log_tail;

use self::log_source::LogSource;
use crate::channels;
use crate::format::{FileFacts, Format, Heads, Options, safe};
use crate::output::{Failure, Outcome, Output, counted};
use crate::output_file::{NewFile, ReplaceOption};
use crate::schemas::Schemas;
use clap::{Args, Subcommand};
use etw_decode::Decoder;
use etw_etl::record::RecordContext;
use etw_eventlog::export::ExportError;
use etw_eventlog::rendering::Renderer;
use etw_eventlog::result_set;
use etw_eventlog::translate::Translator;
use etw_evtx::bookmark::{BookmarkError, BookmarkList};
use etw_evtx::chunk::Chunk;
use etw_evtx::query::{Query, QueryList, Selector};
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
    /// List the logs of installed manifests, with System and Application
    List(channels::ListArguments),
    /// Change the settings of a log
    ///
    /// Example: etw log set Shop/Operational --max-size 4194304
    Set(channels::SetArguments),
    /// Remove the records of a log; the numbers of later ones continue
    Clear(channels::ClearArguments),
    /// Print the records that are added to a log from now on, until Ctrl-C
    Tail(log_tail::Arguments),
    /// Copy entries of another log into an event log: journald's, or syslog's
    Import(log_import::Arguments),
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
    /// Continue behind the record of this bookmark file, if it exists, and store the last record that was printed
    #[arg(long, value_name = "FILE")]
    bookmark: Option<PathBuf>,
    /// The bookmark to store, if it is not the one to continue behind.
    #[arg(skip)]
    saved_bookmark: Option<PathBuf>,
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
    /// Event logs: files (.evtx, .evt, .etl), or names as in `etw log list`
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<String>,
}

#[derive(Args)]
struct QueryArguments {
    #[command(flatten)]
    printing: Printing,
    /// Event log: a file (.evtx, .evt, .etl), or a name as in `etw log list`
    #[arg(value_name = "LOG")]
    log: String,
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
    /// Event log: a file (.evtx, .evt, .etl), or a name as in `etw log list`
    #[arg(value_name = "LOG")]
    log: String,
    /// XPath, or a QueryList element; default: every record
    query: Option<String>,
}

#[derive(Args)]
struct InfoArguments {
    /// Form of the output
    #[arg(long)]
    json: bool,
    /// Event logs: files (.evtx, .evt, .etl), or names as in `etw log list`
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<String>,
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    match &arguments.command {
        LogCommand::Show(show) => {
            let inputs = show.logs.iter().map(|log| Input::of(log, Selector::all()));
            print(&show.printing, inputs.flat_map(Result::transpose).collect::<Result<_, _>>()?)
        }
        LogCommand::Query(query) => {
            let file = channels::existing_log_file(&query.log)?;
            print(&query.printing, inputs(file, Some(&query.query))?)
        }
        LogCommand::Export(arguments) => {
            let ExportArguments { output, replace, log, query } = arguments;
            let file = channels::existing_log_file(log)?;
            let exported = export(file, query.as_deref(), output, replace.force)?;
            let records = counted(exported.records, "record");
            crate::frontends::answer::print(&format!("{}: {records}\n", output.display()))?;
            Ok(exported.outcome)
        }
        LogCommand::Info(arguments) => info(arguments),
        LogCommand::List(arguments) => channels::list(arguments),
        LogCommand::Set(arguments) => channels::set(arguments),
        LogCommand::Clear(arguments) => channels::clear(arguments),
        LogCommand::Tail(arguments) => log_tail::run(arguments),
        LogCommand::Import(arguments) => log_import::run(arguments),
    }
}

/// The logs of a query, each with the records that are wanted; without a query, every record of `file`, the log that is asked. `None`:
/// nothing was written to that log yet.
///
/// A query list selects from the files that it names, as on Windows. Its other paths name channels, which the records of `file` name, too.
fn inputs(file: Option<PathBuf>, query: Option<&str>) -> Result<Vec<Input>, Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(format!("query: {error}"));
    let of_file = |selector| file.map(|file| Input { file, selector }).into_iter();
    let Some(list) = query.filter(|query| query.trim_start().starts_with('<')) else {
        let query = query.map(str::parse::<Query>).transpose().map_err(|error| usage(&error))?;
        let selector = query.map_or_else(Selector::all, |query| Selector::query(query, now()));
        return Ok(of_file(selector).collect());
    };
    let list = QueryList::parse(list).map_err(|error| usage(&error))?;
    let paths = list.paths();
    let names_channels = paths.iter().any(|path| QueryList::file_of(path).is_none());
    let mut inputs = Vec::new();
    if names_channels || paths.is_empty() {
        inputs.extend(of_file(Selector::list(list.clone(), None, now())));
    }
    inputs.extend(paths.iter().filter_map(|path| {
        let selector = Selector::list(list.clone(), Some(*path), now());
        Some(Input { file: QueryList::file_of(path)?.into(), selector })
    }));
    Ok(inputs)
}

/// A log, and the records of it that are wanted.
struct Input {
    file: PathBuf,
    selector: Selector,
}

impl Input {
    /// Records of the log that a file or a name stands for; `None`: nothing was written to it yet.
    fn of(log: &str, selector: Selector) -> Result<Option<Input>, Failure> {
        let file = channels::existing_log_file(log)?;
        Ok(file.map(|file| Input { file, selector }))
    }
}

/// The selected records of one log, printed, chunk by chunk.
struct Source {
    log: Log,
    path: PathBuf,
    selector: Selector,
    /// Chunks that are left, the next one last.
    chunks: Vec<usize>,
    /// Printed records of the current chunk, the next one last.
    ready: Vec<Ready>,
    problems: Problems,
}

/// Parts of a log that could not be read.
struct Problems {
    damage: Vec<Damage>,
    /// Damage of a trace, in lines.
    notes: Vec<String>,
    /// Records that expand beyond the limits.
    too_large: u64,
}

impl Problems {
    /// Tells them on standard error.
    fn report(&self, path: &str) -> Outcome {
        for damage in &self.damage {
            eprintln!("etw: {path}: {damage}");
        }
        for note in &self.notes {
            eprintln!("etw: {path}: {note}");
        }
        if self.too_large > 0 {
            let records = counted(self.too_large, "record");
            eprintln!("etw: {path}: left out {records} with more text than is allowed");
        }
        match self.damage.is_empty() && self.notes.is_empty() && self.too_large == 0 {
            true => Outcome::Done,
            false => Outcome::Damaged,
        }
    }
}

/// A record that is printed when it is the next one of all logs.
struct Ready {
    time: FileTime,
    text: String,
    /// Channel and `EventRecordID`, for the bookmark.
    channel: String,
    number: u64,
}

impl Source {
    fn open(input: Input, printing: &Printing) -> Result<Source, Failure> {
        let Input { file: path, selector } = input;
        let LogSource { mut log, mut damage, notes } = log_source::open(&path, &printing.schemas)?;
        if printing.stale {
            log = log.with_stale();
        }
        let mut chunks = log.candidate_chunks(&selector);
        if !printing.reverse {
            chunks.reverse();
        }
        damage.extend_from_slice(log.records().damage());
        let problems = Problems { damage, notes, too_large: 0 };
        Ok(Source { log, path, selector, chunks, ready: Vec::new(), problems })
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
            self.problems.damage.append(&mut chunk.take_damage());
            if !what.printing.reverse {
                self.ready.reverse();
            }
        }
        Ok(())
    }

    fn print_chunk(&mut self, chunk: &mut Chunk, what: &mut Job<'_>) {
        while let Some(record) = chunk.next_candidate(&self.selector) {
            let system = record.system();
            let number = system.record_id().unwrap_or(record.id());
            let channel = || match system.channel() {
                Some(channel) => channel,
                None => self.path.display().to_string(),
            };
            if what.after.as_ref().is_some_and(|after| !after.is_behind(&channel(), number)) {
                continue;
            }
            let printed = self.selector.matches(&record).and_then(|matches| {
                if !matches {
                    return Ok(None);
                }
                let time = system.time().unwrap_or(record.time());
                let text = what.format(&record)?;
                Ok(Some(Ready { time, text, channel: channel(), number }))
            });
            match printed {
                Ok(Some(printed)) => self.ready.push(printed),
                Ok(None) => {}
                Err(_) => self.problems.too_large += 1,
            }
        }
    }
}

/// The records at which an earlier query stopped.
struct After {
    list: BookmarkList,
    is_reverse: bool,
}

impl After {
    /// Reads the bookmark of a query; a file that does not exist yet has none.
    fn read(printing: &Printing) -> Result<Option<After>, Failure> {
        let Some(path) = &printing.bookmark else { return Ok(None) };
        let failure =
            |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", path.display()));
        let text = match std::fs::read(path) {
            Ok(bytes) => text_of(&bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failure(&error)),
        };
        let list = text.parse().map_err(|error: BookmarkError| failure(&error))?;
        Ok(Some(After { list, is_reverse: printing.reverse }))
    }

    /// Whether a record comes behind the bookmark, in the order of the query.
    fn is_behind(&self, channel: &str, number: u64) -> bool {
        self.list.record_id(channel, true).is_none_or(|mark| match self.is_reverse {
            false => number > mark,
            true => number < mark,
        })
    }
}

/// The text of a file that may be UTF-16, as Windows' tools write it.
fn text_of(bytes: &[u8]) -> String {
    match bytes.strip_prefix(&[0xff, 0xfe]) {
        Some(units) => etw_types::le::utf16_lossy(units),
        None => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// A request to print.
struct Job<'a> {
    printing: &'a Printing,
    after: Option<After>,
    translator: Translator,
    decoder: Decoder,
    renderer: Renderer,
    options: Options,
    heads: Heads,
}

impl<'a> Job<'a> {
    fn new(printing: &'a Printing, logs: &[PathBuf]) -> Result<Job<'a>, Failure> {
        let mut schemas = printing.schemas.clone();
        schemas.pack.extend(logs.iter().flat_map(|log| archive::packs_of(log)));
        let catalog = schemas.load()?;
        let new_decoder = || {
            let mut decoder = Decoder::new();
            decoder.set_catalog(catalog.clone());
            decoder.set_own_catalog(crate::schemas::own());
            decoder
        };
        let (decoder, renderer) = (new_decoder(), Renderer::new(new_decoder()));
        let options = Options::of(printing.format());
        let translator = Translator::new();
        let after = After::read(printing)?;
        let heads = Heads::default();
        Ok(Job { printing, after, translator, decoder, renderer, options, heads })
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
        self.options.write(&mut self.heads, &mut out, &event, &decoded, &file);
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
        let system = record.system();
        let is_classic = system.keywords().is_some_and(|mask| mask & CLASSIC != 0);
        // A classic event of a publisher without a manifest: its texts are Windows' own.
        let own = |number: Option<u64>, name: &str| {
            let has_own = is_classic && system.provider().is_none() && number.unwrap_or(0) == 0;
            has_own.then(|| name.to_owned())
        };
        let mut keywords = rendering.keywords;
        if is_classic && !keywords.iter().any(|name| name == "Classic") {
            keywords.push("Classic".to_owned());
        }
        let keywords = Some(keywords.join(",")).filter(|all| !all.is_empty());
        let task = rendering.task.or_else(|| own(system.task().map(u64::from), "None"));
        let opcode = rendering.opcode.or_else(|| own(system.opcode().map(u64::from), "Info"));
        let mut text = String::new();
        for (key, value) in [
            ("Log Name", system.channel().unwrap_or_default()),
            ("Source", system.provider_name().unwrap_or_default()),
            ("Date", system.time().unwrap_or(record.time()).to_string()),
            ("Event ID", system.event_id().unwrap_or(0).to_string()),
            ("Task", or_na(task)),
            ("Level", or_na(rendering.level)),
            ("Opcode", or_na(opcode)),
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

/// The keyword of events that were written by `ReportEvent`: WINEVENT_KEYWORD_EVENTLOG_CLASSIC.
const CLASSIC: u64 = 0x0080_0000_0000_0000;

/// A query of `wevtutil qe`.
#[derive(Default)]
pub struct WindowsQuery {
    /// The log; `None`: nothing was written to it yet.
    pub file: Option<PathBuf>,
    /// XPath or a query list; `None`: every record.
    pub query: Option<String>,
    pub is_reverse: bool,
    pub count: Option<u64>,
    pub is_xml: bool,
    pub is_rendered: bool,
    /// Name of an element around all.
    pub root: Option<String>,
    /// `file` has a query list, whose paths are logs, or files behind `file://`.
    pub is_query_file: bool,
    /// The bookmark to continue behind.
    pub bookmark: Option<PathBuf>,
    /// The bookmark to store.
    pub saved_bookmark: Option<PathBuf>,
}

/// `wevtutil qe`
pub fn windows_query(query: WindowsQuery) -> Result<Outcome, Failure> {
    let WindowsQuery { is_xml, is_rendered, root, .. } = query;
    let printing = Printing {
        reverse: query.is_reverse,
        limit: query.count,
        bookmark: query.bookmark,
        saved_bookmark: query.saved_bookmark,
        windows: Some(WindowsForm { is_xml, is_rendered, root }),
        ..Printing::default()
    };
    let inputs = match query.file {
        Some(list) if query.is_query_file => inputs_of(&list)?,
        file => inputs(file, query.query.as_deref())?,
    };
    print(&printing, inputs)
}

/// The result of an export.
pub struct Exported {
    /// Records that were written.
    pub records: u64,
    pub outcome: Outcome,
}

/// Writes the records that a query selects to another log, with their numbers, and reports what could not be read. Without a file,
/// nothing was written to the log yet, and the copy has no records.
pub fn export(
    file: Option<PathBuf>,
    query: Option<&str>,
    output: &Path,
    replaces: bool,
) -> Result<Exported, Failure> {
    export_inputs(inputs(file, query)?, Vec::new(), output, replaces)
}

/// Writes the records that a file with a query list selects of its logs to another log, in order of time, and reports what could not
/// be read.
pub fn export_list(list: &Path, output: &Path, replaces: bool) -> Result<Exported, Failure> {
    export_inputs(inputs_of(list)?, vec![list.to_owned()], output, replaces)
}

/// Writes the records of some logs to another log. `read`: further files that must not be replaced.
fn export_inputs(
    inputs: Vec<Input>,
    mut read: Vec<PathBuf>,
    output: &Path,
    replaces: bool,
) -> Result<Exported, Failure> {
    read.extend(inputs.iter().map(|input| input.file.clone()));
    let mut sources = Vec::new();
    let mut problems = Vec::new();
    for Input { file, selector } in inputs {
        let LogSource { log, damage, notes } = log_source::open(&file, &Schemas::default())?;
        let name = file.display().to_string();
        problems.push((name.clone(), Problems { damage, notes, too_large: 0 }));
        sources.push(result_set::Source { name, log, selector });
    }
    let new = NewFile::create(output, &read, replaces)?;
    let copy = new.file().try_clone().map_err(|error| new.failure(&error))?;
    let written = etw_eventlog::export::export_merged(sources, copy);
    let written = written.map_err(|error| match error {
        ExportError::Read(error) => Failure::new(format!("a log that was exported: {error}")),
        ExportError::Write(error) => write_failure(&new, error),
    })?;
    new.keep()?;
    let mut outcome = Outcome::Done;
    for ((path, mut problems), found) in problems.into_iter().zip(written.problems) {
        problems.damage.extend(found.damage);
        problems.too_large += found.too_large;
        outcome = outcome.worse(problems.report(&path));
    }
    Ok(Exported { records: written.records, outcome })
}

/// Opens a log for its facts.
pub fn open(path: &Path) -> Result<Log, Failure> {
    log_source::open(path, &Schemas::default()).map(|source| source.log)
}

/// The failure of a command that could not write an event log.
pub fn write_failure(new: &NewFile, error: etw_evtx::Error) -> Failure {
    match error {
        etw_evtx::Error::Io(error) => new.failure(&error),
        error => new.failure(&std::io::Error::other(error)),
    }
}

/// Times of logs are FILETIMEs.
const FILE_TIMES: Clock =
    Clock { kind: ClockType::SYSTEM, start: FileTime(0), raw_start: 0, frequency: 10_000_000 };

/// The logs of a file with a query list, each with the records that are selected of it.
fn inputs_of(path: &Path) -> Result<Vec<Input>, Failure> {
    let bytes = std::fs::read(path);
    let bytes = bytes.map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    let list = QueryList::parse(&text_of(&bytes))
        .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    let input = |name: &str| {
        let selector = Selector::list(list.clone(), Some(name), now());
        match QueryList::file_of(name) {
            Some(file) => Ok(Some(Input { file: file.into(), selector })),
            None => Input::of(name, selector),
        }
    };
    list.paths().into_iter().map(input).flat_map(Result::transpose).collect()
}

fn print(printing: &Printing, inputs: Vec<Input>) -> Result<Outcome, Failure> {
    let files: Vec<PathBuf> = inputs.iter().map(|input| input.file.clone()).collect();
    let mut job = Job::new(printing, &files)?;
    let mut bookmark = job.after.as_ref().map_or_else(Default::default, |after| after.list.clone());
    let mut sources: Vec<Source> =
        inputs.into_iter().map(|input| Source::open(input, printing)).collect::<Result<_, _>>()?;
    let mut output = Output::open_paged(printing.output.as_deref(), &files)?;
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
        let times = times.filter_map(|(index, source)| Some((source.ready.last()?.time, index)));
        let next = match printing.reverse {
            false => times.min_by_key(|(time, index)| (time.0, *index)),
            true => times.max_by_key(|(time, index)| (time.0, std::cmp::Reverse(*index))),
        };
        let ready = next.and_then(|(_, index)| sources[index].ready.pop());
        let Some(Ready { text, channel, number: record, .. }) = ready else { break };
        if printing.windows.as_ref().is_some_and(|form| !form.is_xml) {
            let number = printing.limit.unwrap_or(u64::MAX) - left;
            output.write(format!("Event[{number}]:\n").as_bytes())?;
        }
        output.write(text.as_bytes())?;
        bookmark.update(&channel, record);
        left -= 1;
    }
    output.write(epilogue.as_bytes())?;
    output.finish()?;
    if let Some(path) = printing.saved_bookmark.as_ref().or(printing.bookmark.as_ref())
        && !bookmark.bookmarks.is_empty()
    {
        store_bookmark(path, &bookmark)?;
    }
    Ok(report(&sources))
}

/// Reports damage of the logs.
fn report(sources: &[Source]) -> Outcome {
    let mut outcome = Outcome::Done;
    for source in sources {
        outcome = outcome.worse(source.problems.report(&source.path.display().to_string()));
    }
    outcome
}

/// Replaces a bookmark's file as a whole: a reader finds the old or the new one.
fn store_bookmark(path: &Path, bookmark: &BookmarkList) -> Result<(), Failure> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    std::fs::write(&new, format!("{bookmark}\r\n"))
        .and_then(|()| std::fs::rename(&new, path))
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

fn now() -> FileTime {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    FileTime(FileTime::UNIX_EPOCH.0 + since.map_or(0, |since| (since.as_nanos() / 100) as i64))
}

fn info(arguments: &InfoArguments) -> Result<Outcome, Failure> {
    let mut output = Output::open(None, &[])?;
    let mut outcome = Outcome::Done;
    for log in &arguments.logs {
        let path = &channels::log_file(log)?;
        let failure = |error| Failure::new(format!("{}: {error}", path.display()));
        let source = log_source::open(path, &Schemas::default())?;
        let log = source.log;
        let (mut count, mut oldest, mut newest) = (0u64, None, None);
        let mut records = log.records();
        while let Some(record) = records.next().map_err(failure)? {
            count += 1;
            let id = record.system().record_id().unwrap_or(record.id());
            let time = record.system().time().unwrap_or(record.time());
            let this = RecordStamp { id, time };
            oldest.get_or_insert(this);
            // A damaged record may have lost its number.
            newest = newest.max(Some(this));
        }
        let mut lines: Vec<String> = source.damage.iter().map(ToString::to_string).collect();
        lines.extend(records.damage().iter().map(ToString::to_string));
        lines.extend(source.notes);
        let damage = &lines[..];
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

/// The number and time of a record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RecordStamp {
    id: u64,
    time: FileTime,
}

struct Facts<'a> {
    path: &'a Path,
    size: u64,
    log: &'a Log,
    count: u64,
    oldest: Option<RecordStamp>,
    newest: Option<RecordStamp>,
    damage: &'a [String],
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
        let of = |end: Option<RecordStamp>| {
            let json = |RecordStamp { id, time }| serde_json::json!({ "record_id": id, "time": time.to_string() });
            end.map(json)
        };
        let object = serde_json::json!({
            "file": self.path.to_string_lossy(),
            "size": self.size,
            "chunks": self.log.chunks().len(),
            "records": self.count,
            "oldest": of(self.oldest),
            "newest": of(self.newest),
            "dirty": self.log.is_dirty(),
            "full": self.log.is_full(),
            "damage": self.damage,
        });
        format!("{object}\n")
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{}: {} in {}, {} bytes, {}\n",
            self.path.display(),
            counted(self.count, "record"),
            counted(self.log.chunks().len(), "chunk"),
            self.size,
            self.state()
        );
        for (name, end) in [("oldest", self.oldest), ("newest", self.newest)] {
            if let Some(RecordStamp { id, time }) = end {
                let _ = writeln!(text, "  {name}: record {id}, {time}");
            }
        }
        for damage in self.damage {
            let _ = writeln!(text, "  damage: {damage}");
        }
        text
    }
}
