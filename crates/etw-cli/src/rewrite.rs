//! `etw merge` and `etw relog`

mod merged_sessions;

use crate::event_kinds::EventKinds;
use crate::files;
use crate::filter_names::FilterNames;
use crate::output::{Failure, JsonOption, Outcome, Progress, counted, file_size};
use crate::output_file::{NewFile, ReplaceOption};
use crate::sample_intervals::SampleIntervals;
use crate::schemas::Schemas;
use crate::where_filter::{Filter, TraceNames, WhereOption};
use clap::{Args, ValueEnum};
use etw_decode::{Catalog, Decoder, Store, Style};
use etw_etl::lzxpress::Level;
use etw_etl::read::{Records, RecordsOptions, TraceFile};
use etw_etl::relog::{Relog, RelogOptions};
use etw_etl::write::WriteError;
use etw_types::{Clock, EventRecord, ExtType, FileTime, SchemaRecord};
use merged_sessions::MergedSessions;
use serde_json::json;
use std::collections::{BTreeSet, HashSet};
use std::fmt::Write;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args)]
pub struct MergeArguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    schemas: Schemas,
    /// Traces, whose records are merged by time
    #[arg(required = true, value_name = "IN")]
    files: Vec<PathBuf>,
}

#[derive(Args)]
pub struct RelogArguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    filter: WhereOption,
    #[command(flatten)]
    schemas: Schemas,
    /// The trace
    #[arg(value_name = "IN")]
    file: PathBuf,
}

#[derive(Args)]
struct Target {
    /// Write to this file; it appears when it is whole
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Compress the buffers
    #[arg(long)]
    compress: bool,
    /// Effort for a small file
    #[arg(long, value_enum, default_value_t, requires = "compress")]
    level: CompressionLevel,
    /// Add the schemas of the events, from the named manifests and packs and the registered ones: other machines then
    /// decode the trace without them
    #[arg(long)]
    with_schemas: bool,
    #[command(flatten)]
    replace: ReplaceOption,
    #[command(flatten)]
    json: JsonOption,
}

/// `--level`
#[derive(Clone, Copy, Default, ValueEnum)]
enum CompressionLevel {
    /// Compress fast
    #[default]
    Fast,
    /// Take about twice as long for a file that is 5 to 7 % smaller
    Small,
}

impl From<CompressionLevel> for Level {
    fn from(level: CompressionLevel) -> Level {
        match level {
            CompressionLevel::Fast => Level::Fast,
            CompressionLevel::Small => Level::Small,
        }
    }
}

pub fn merge(arguments: &MergeArguments) -> Result<Outcome, Failure> {
    arguments.schemas.check_output(&arguments.target.output)?;
    let catalog = match arguments.target.with_schemas {
        true => arguments.schemas.load()?,
        false => Arc::default(),
    };
    run(&arguments.target, &arguments.files, catalog, None, Inputs::Named)
}

/// Rejects an output that [`merge_to`] cannot write: recordings go on then.
#[cfg(target_os = "linux")]
pub fn check_output(output: &Path, files: &[PathBuf]) -> Result<(), Failure> {
    NewFile::create(output, files, true).map(drop)
}

/// As `etw merge --force`, of the files of recordings that have ended. If that fails, it says where these are.
#[cfg(target_os = "linux")]
pub fn merge_to(output: PathBuf, files: &[PathBuf], inputs: Inputs) -> Result<Outcome, Failure> {
    merge_recordings(output, files, inputs).map_err(|failure| match failure {
        Failure::Message(message) => {
            let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
            let files = files.join(" ");
            Failure::Message(format!(
                "{message}; what was recorded is in {files}: etw merge -o FILE {files} makes one file of it"
            ))
        }
        other => other,
    })
}

/// As `etw merge --force`, of files that the user names.
#[cfg(target_os = "linux")]
pub fn merge_files(output: PathBuf, files: &[PathBuf]) -> Result<Outcome, Failure> {
    merge_recordings(output, files, Inputs::Named)
}

#[cfg(target_os = "linux")]
fn merge_recordings(
    output: PathBuf,
    files: &[PathBuf],
    inputs: Inputs,
) -> Result<Outcome, Failure> {
    let replace = ReplaceOption { force: true };
    let target = Target {
        output,
        compress: false,
        level: CompressionLevel::default(),
        with_schemas: false,
        replace,
        json: JsonOption::default(),
    };
    run(&target, files, Arc::default(), None, inputs)
}

pub fn relog(arguments: &RelogArguments) -> Result<Outcome, Failure> {
    arguments.schemas.check_output(&arguments.target.output)?;
    let start =
        files::open(&arguments.file)?.header().map_or(FileTime(0), |header| header.start_time);
    let filter = arguments.filter.compile(start)?;
    let catalog = match filter.is_some() || arguments.target.with_schemas {
        true => arguments.schemas.load()?,
        false => Arc::default(),
    };
    let files = std::slice::from_ref(&arguments.file);
    run(&arguments.target, files, catalog, filter, Inputs::Named)
}

/// The origin of merged files, and their names in notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// The user named them. They may be of several machines.
    Named,
    /// Sessions of one host have written them.
    #[cfg(target_os = "linux")]
    OfHost,
    /// As `OfHost`. They are removed next, and have the new file's name in notes.
    #[cfg(target_os = "linux")]
    Temporary,
}

impl Inputs {
    #[cfg_attr(not(target_os = "linux"), allow(unused_variables))]
    fn shown<'p>(self, file: &'p TraceFile, output: &'p Path) -> &'p Path {
        match self {
            #[cfg(target_os = "linux")]
            Inputs::Temporary => output,
            _ => file.path(),
        }
    }
}

/// Chooses the records of the new file.
struct Selection {
    filter: Option<Filter>,
    names: FilterNames,
    decoder: Decoder,
    kept: u64,
    kinds: EventKinds,
}

impl Selection {
    fn keep(&mut self, record: &EventRecord<'_>, clocks: &[Clock], style: &Style) -> bool {
        // Kept records need the records that describe them.
        if Store::is_schema_record(record) {
            self.decoder.decode(record);
            return true;
        }
        if SampleIntervals::is_named_by(record) {
            return true;
        }
        let Some(filter) = &self.filter else { return true };
        if filter.needs_names() {
            self.kinds.number(record);
        }
        let clock = &clocks[record.position.file_index as usize];
        let time = filter.needs_time().then(|| record.timestamp(clock)).flatten();
        let is_kept = match self.names.by_header(filter, record, time) {
            Some(known) => known,
            None => {
                let decoded = self.decoder.decode(record);
                self.names.matches(filter, (record, &decoded), time, style)
            }
        };
        if is_kept {
            self.kept += 1;
            filter.mark_shown();
        }
        is_kept
    }
}

/// Schema records of the manifest events in the traces that the traces do not describe themselves.
fn missing_schemas(mut records: Records, catalogs: [&Catalog; 2]) -> Vec<SchemaRecord> {
    let mut events = BTreeSet::new();
    let mut store = Store::default();
    while let Some(record) = records.next() {
        store.learn(&record);
        if let Some(provider) = record.provider
            && record.header.is_event()
            && record.extended.find(ExtType::EVENT_SCHEMA_TL).is_none()
        {
            events.insert((provider, record.descriptor.id, record.descriptor.version));
        }
    }
    let mut known = HashSet::new();
    let mut schemas = Vec::new();
    for (provider, id, version) in events {
        if store.describes(provider, id, version) {
            continue;
        }
        let found = catalogs.into_iter().map(|one| one.records_of(provider, id, version));
        for record in found.into_iter().find(|found| !found.is_empty()).unwrap_or_default() {
            if known.insert(record.clone()) {
                schemas.push(record);
            }
        }
    }
    schemas
}

fn run(
    target: &Target,
    paths: &[PathBuf],
    catalog: Arc<Catalog>,
    filter: Option<Filter>,
    inputs: Inputs,
) -> Result<Outcome, Failure> {
    let traces: Vec<TraceFile> =
        files::distinct(paths).into_iter().map(files::open).collect::<Result<_, _>>()?;
    let mut read = RecordsOptions::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let compressed = traces.iter().any(|trace| trace.totals().compressed_buffers > 0);
    read.read_ahead_threads = usize::from(threads > 1 && compressed);
    let mut options = RelogOptions::default();
    (options.compressed, options.read) = (target.compress, read);
    (options.level, options.has_helper) = (target.level.into(), threads > 1);
    if inputs == Inputs::Named {
        MergedSessions::check_first_records(&traces, &target.output).map_err(Failure::new)?;
    }
    let mut relog = Relog::new(traces, options)?;
    let new = NewFile::create(&target.output, paths, target.replace.force)?;
    let mut progress = Progress::of(relog.records().files());
    // Buffers are written one by one; only small ones need to be gathered.
    let out = BufWriter::with_capacity(1 << 16, new.file());
    let clocks: Vec<_> = relog.records().files().iter().map(|file| *file.clock()).collect();
    let style = Style::default();
    let mut decoder = Decoder::new();
    let is_selecting = filter.is_some() || target.with_schemas;
    let own = match is_selecting {
        true => crate::schemas::own_for(relog.records().files()),
        false => Arc::default(),
    };
    let catalog = catalog.for_build(files::build(relog.records().files()));
    decoder.set_catalog(catalog.clone());
    decoder.set_own_catalog(own.clone());
    if filter.as_ref().is_some_and(|filter| filter.needs_schema()) {
        // Merged traces describe their events at their end.
        let traces = relog.records().files().to_vec();
        decoder.set_store(crate::dump::gather(traces));
        decoder.set_learning(false);
    }
    let schemas = match target.with_schemas {
        true => {
            let traces = relog.records().files().to_vec();
            missing_schemas(Records::with_options(traces, read), [&catalog, &own])
        }
        false => Vec::new(),
    };
    let kinds = EventKinds::default();
    let names = FilterNames::of(filter.as_ref(), relog.records().files(), &catalog, &own);
    let mut selection = Selection { filter, names, decoder, kept: 0, kinds };
    let mut sessions = MergedSessions::default();
    let keep = |record: &EventRecord<'_>| {
        progress.count(record.position);
        if clocks.len() > 1 {
            sessions.see(record, &clocks);
        }
        !is_selecting || selection.keep(record, &clocks, &style)
    };
    let written = relog.run_selected(out, |_| (), keep, &schemas).map(drop);
    drop(progress);
    written.map_err(|error| match error {
        WriteError::Io(error) => new.failure(&error),
        error => Failure::new(format!("{}: {error}", target.output.display())),
    })?;
    // Sessions of one host are of its machine, even if its clock was set between their starts.
    let other_machines = match inputs {
        Inputs::Named => sessions.check_machines(relog.records().files(), &target.output),
        #[cfg(target_os = "linux")]
        _ => Ok(None),
    };
    let other_machines = other_machines.map_err(Failure::new)?;
    new.keep()?;
    if let Some(note) = other_machines {
        eprintln!("etw: note: {note}");
    }
    let shown = |file| inputs.shown(file, &target.output);
    let mut outcome = files::report_named(relog.records(), shown);
    if report(&relog, shown) == Outcome::Damaged {
        outcome = Outcome::Damaged;
    }
    let twice = sessions.recorded_twice(relog.records().files());
    if !twice.is_empty() {
        eprintln!(
            "etw: note: several of the merged sessions recorded {}, which are in {} as often; the commands that sum times count each once",
            twice.join(" and "),
            target.output.display()
        );
    }
    let Selection { filter, decoder, kept, kinds, .. } = selection;
    if let Some(filter) = &filter {
        filter.report(kept, || TraceNames::of(kinds, decoder));
    }
    print_summary(target, paths, &relog)?;
    Ok(outcome)
}

/// Prints the result on standard output.
fn print_summary(target: &Target, paths: &[PathBuf], relog: &Relog) -> Result<(), Failure> {
    let summary = relog.summary();
    let text = format!(
        "{}: {} in {}, from {}",
        target.output.display(),
        counted(summary.records, "record"),
        counted(summary.buffers, "buffer"),
        counted(paths.len(), "file"),
    );
    target.json.print(&text, || {
        json!({
            "file": target.output.to_string_lossy(), "records": summary.records,
            "buffers": summary.buffers, "bytes": file_size(&target.output),
            "inputs": paths.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
            "not_selected": summary.not_wanted, "converted_times": summary.converted,
            "unconverted_times": summary.unconverted,
            "other_pointer_size": summary.other_pointer_size, "left_out": summary.left_out(),
            "damage_count": relog.records().damage().count(),
        })
    })
}

/// Prints what is not as it was on standard error.
fn report<'r>(relog: &'r Relog, name: impl Fn(&'r TraceFile) -> &'r Path) -> Outcome {
    let summary = relog.summary();
    let files = relog.records().files();
    let mut text = String::new();
    // Writing to a String cannot fail.
    const PAYLOADS: &str = "inside payloads, only the times of stacks, DPCs, interrupts and page faults were converted";
    if relog.is_wall_clock() {
        let _ = writeln!(
            text,
            "etw: note: the files have different clocks, and none tells every 100 ns apart: times of records were converted to wall-clock \
             time, to 100 ns; {PAYLOADS}"
        );
    }
    for number in relog.converted_files().filter(|_| !relog.is_wall_clock()) {
        let (file, base) = (name(&files[number]).display(), name(&files[relog.base()]).display());
        // Files that are removed next have the name of the new one.
        let clocks = match name(&files[number]) == name(&files[relog.base()]) {
            true => "the recordings in it had different clocks, to one of".to_owned(),
            false => format!("its clock differs from that of {base}, to"),
        };
        let line = format!(
            "etw: note: {file}: {clocks} which the times of records were converted, to 100 ns; {PAYLOADS}\n"
        );
        if !text.ends_with(&line) {
            text += &line;
        }
    }
    let mut tell = |count: u64, what: &str| {
        if count > 0 {
            let _ = writeln!(text, "etw: {count} records {what}");
        }
    };
    tell(
        summary.other_pointer_size,
        "(ERROR, WNODE) are of another pointer size than the new file's, and nothing in them says so",
    );
    tell(summary.unconverted, "keep a time that the clock of the first file cannot tell");
    tell(summary.too_large, "were left out: they fit no buffer (WNODE of 1 MiB and more)");
    tell(
        summary.other_layout,
        "were left out: INSTANCE records of Windows XP have no place in a newer or compressed file",
    );
    eprint!("{text}");
    let lossy = summary.unconverted + summary.left_out();
    if lossy > 0 { Outcome::Damaged } else { Outcome::Done }
}
