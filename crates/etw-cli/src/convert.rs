//! `etw convert`: traces for other viewers.

mod chrome;
mod cpu_slices;
mod destination;
pub mod evtx;
mod folded;
mod pcapng;
mod perfetto;
mod pktmon;
mod pprof;
mod slices;
mod speedscope;
mod stack_table;

use crate::event_kinds::EventKinds;
use crate::event_log;
use crate::files;
use crate::filter_names::FilterNames;
use crate::join::{Names, Picked};
use crate::machines::Machines;
use crate::output::{Failure, JsonOption, Outcome, Progress, counted, file_size};
use crate::output_file::{NewFile, ReplaceOption};
use crate::profile::{Named, Profiler, Span};
use crate::schemas::{self, Schemas};
use crate::switches::switch_of;
use crate::symbols::SymbolOptions;
use crate::where_filter::{Filter, TraceNames, WhereOption};
use clap::{Args, ValueEnum};
use cpu_slices::{CpuSlice, CpuSlices};
use destination::{Destination, is_stdout};
use etw_decode::{Decoded, Decoder, Style};
use etw_etl::read::{Records, RecordsOptions, TraceFile};
use etw_host::report::read_waiting;
use etw_types::{Clock, EventRecord, FileTime, Guid};
use slices::{Edge, Role, Slices};
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;

#[derive(Args)]
pub struct Arguments {
    /// The viewer's format
    #[arg(long, value_enum)]
    to: Format,
    /// Write to this file, which appears when it is whole; - is standard output, but for event logs
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    replace: ReplaceOption,
    #[command(flatten)]
    json: JsonOption,
    /// With --to pcapng: each packet at the first component of PktMon that saw it, not at each
    #[arg(long)]
    once: bool,
    /// With --to folded: time on the CPU, or off it
    #[arg(long, value_enum, value_name = "TIME", default_value_t)]
    weight: Weight,
    #[command(flatten)]
    filter: WhereOption,
    #[command(flatten)]
    schemas: Schemas,
    #[command(flatten)]
    symbols: SymbolOptions,
    /// Traces; several are merged by time
    #[arg(required = true, value_name = "FILE.etl")]
    files: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Perfetto's protobuf, for ui.perfetto.dev
    Perfetto,
    /// Chrome's JSON, for chrome://tracing and Perfetto
    Chrome,
    /// Packets that NDIS and PktMon captured, for Wireshark
    Pcapng,
    /// An event log, for the Event Viewer and other readers of .evtx
    Evtx,
    /// CPU samples and time off the CPU by thread, for speedscope.app
    Speedscope,
    /// CPU samples and time off the CPU, for pprof
    Pprof,
    /// One line for each stack with its nanoseconds, for flame graphs
    Folded,
}

impl Format {
    /// The events without which the output has nothing, behind "the trace has".
    fn needs(self, weight: Weight) -> &'static str {
        match self {
            Format::Pcapng => "no packets of Microsoft-Windows-NDIS-PacketCapture or PktMon",
            Format::Folded if weight == Weight::OffCpu => {
                "no context switches; etw record --system cswitch records them"
            }
            Format::Folded => "no CPU samples; etw record --system profile records them",
            Format::Speedscope | Format::Pprof => {
                "neither CPU samples nor context switches; etw record --system profile,cswitch records them"
            }
            Format::Perfetto | Format::Chrome | Format::Evtx => "no records with a time",
        }
    }
}

/// The time that folded stacks count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Weight {
    /// Time on the CPU, by samples
    #[default]
    Cpu,
    /// Time off the CPU, with the thread that ended it
    OffCpu,
}

/// The shape of an event in a viewer.
enum Shape<'s> {
    /// Begins a slice in a lane of a track.
    Begin(Lane),
    /// Ends the slice that began last in the lane.
    End(Lane),
    /// A point in time.
    Instant(Track),
    /// A value at a time.
    Counter(Track, &'s str, f64),
}

/// The track that shows an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Track {
    Thread(u32, u32),
    Activity(u32, Guid),
}

impl Track {
    /// The track on which a start or stop belongs.
    fn of(record: &EventRecord<'_>) -> Track {
        match record.activity_id.is_zero() {
            true => Track::of_thread(record),
            false => Track::Activity(record.process_id.unwrap_or(u32::MAX), record.activity_id),
        }
    }

    fn of_thread(record: &EventRecord<'_>) -> Track {
        let [process, thread] = [record.process_id, record.thread_id];
        Track::Thread(process.unwrap_or(u32::MAX), thread.unwrap_or(u32::MAX))
    }
}

/// A row of slices that never overlap but as one inside of the other. Lane 0 is the track itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Lane {
    track: Track,
    number: u8,
}

/// A form of output.
trait Target {
    /// Each record's time, selected or not, before the rest of it.
    fn begin(&mut self, _: i64) {}
    /// An event with its time in nanoseconds since 1970.
    fn event(&mut self, event: &Event<'_>) -> std::io::Result<()>;
    /// A CPU sample, or time off the CPU.
    fn span(&mut self, _: &Span, _: &Names) -> std::io::Result<()> {
        Ok(())
    }
    /// A thread's time on a CPU.
    fn cpu_slice(&mut self, _: &CpuSlice, _: &Names) -> std::io::Result<()> {
        Ok(())
    }
    /// The rest.
    fn finish(&mut self, names: &Names) -> std::io::Result<()>;
    /// The items written so far; `None`: one for each record that was shown.
    fn written(&self) -> Option<Written> {
        None
    }
}

/// A number of written items.
struct Written {
    count: u64,
    /// Their kind, in the singular.
    unit: &'static str,
}

struct Event<'e> {
    time: i64,
    shape: Shape<'e>,
    /// A slice has its start's, without `/Start`.
    name: &'e str,
    provider: &'e str,
    record: &'e EventRecord<'e>,
    decoded: &'e Decoded<'e>,
    names: &'e Names,
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    if arguments.once && arguments.to != Format::Pcapng {
        return Err(Failure::Usage("--once is for --to pcapng".to_owned()));
    }
    if arguments.weight != Weight::Cpu && arguments.to != Format::Folded {
        return Err(Failure::Usage("--weight is for --to folded".to_owned()));
    }
    arguments.schemas.check_output(&arguments.output)?;
    let traces: Vec<TraceFile> =
        files::distinct(&arguments.files).into_iter().map(files::open).collect::<Result<_, _>>()?;
    let start = traces.iter().filter_map(|trace| Some(trace.header()?.start_time)).min();
    let filter = arguments.filter.compile(start.unwrap_or(FileTime(0)))?;
    let (catalog, own) = (arguments.schemas.load_for(&traces)?, schemas::own_for(&traces));
    let records = || Records::with_options(traces.clone(), RecordsOptions::default());
    let decoder = |store| {
        let mut decoder = Decoder::with_store(store);
        decoder.set_catalog(catalog.clone());
        decoder.set_own_catalog(own.clone());
        decoder.set_learning(false);
        decoder
    };
    // Schemas and names of processes may be at the end of a trace.
    let store = crate::dump::gather(traces.clone());
    if arguments.to == Format::Evtx {
        let traces = Traces { records: records(), decoder: decoder(store) };
        let names = FilterNames::of(filter.as_ref(), traces.records.files(), &catalog, &own);
        return write_event_log(arguments, traces, filter.as_ref().map(|filter| (filter, &names)));
    }
    let mut names = Names::gather(records(), decoder(store.clone()));
    // Packets have no functions.
    if arguments.to != Format::Pcapng {
        arguments.symbols.apply(&mut names, start.unwrap_or(FileTime(0)))?;
    }
    let new = Destination::open(arguments)?;
    let components = (arguments.to == Format::Pcapng)
        .then(|| pktmon::Components::gather(records(), decoder(store.clone())));
    let target = new_target(arguments, new.writer(), components);
    let mut target = target.map_err(|error| new.failure(error))?;
    let machines = Machines::of(&traces, names.origins());
    let mut selection = Selection {
        filter: filter.as_ref(),
        names: &names,
        clocks: traces.iter().map(|trace| *trace.clock()).collect(),
        decoder: decoder(store),
    };
    let slices = match arguments.to {
        Format::Perfetto | Format::Chrome => selection.slices(&mut records()),
        _ => Slices::default(),
    };
    let mut conversion = Conversion {
        selection,
        slices,
        begun: HashMap::new(),
        profiler: Profiler::of(machines.clone()),
        cpu_slices: CpuSlices::of(machines),
        kinds: EventKinds::default(),
        count: 0,
        selected: 0,
        shown: 0,
    };
    let mut records = records();
    let progress = Progress::of(records.files());
    let converted = conversion.run(&mut records, progress, &mut *target);
    converted.and_then(|()| target.finish(&names)).map_err(|error| new.failure(error))?;
    let written = target.written();
    let written = written.unwrap_or(Written { count: conversion.shown, unit: "event" });
    let Written { count: written, unit } = written;
    drop(target);
    new.keep()?;
    names.report_symbols();
    let outcome = files::report(&records);
    conversion.profiler.report();
    let Conversion { kinds, selection, count, selected, .. } = conversion;
    if written == 0 && count > 0 {
        let output = arguments.output.display();
        // With a filter, the trace may have them.
        let whole = if filter.is_some() { "selection" } else { "trace" };
        let missing = arguments.to.needs(arguments.weight);
        eprintln!("etw: note: {output} has no {unit}: the {whole} has {missing}");
    }
    if let Some(filter) = &filter {
        filter.report(selected, || TraceNames::of(kinds, selection.decoder));
    }
    print_result(arguments, Written { count: written, unit }, Written { count, unit: "record" })?;
    Ok(outcome)
}

/// Prints the counts of written and of read items.
fn print_result(arguments: &Arguments, written: Written, read: Written) -> Result<(), Failure> {
    let Written { count, unit } = written;
    let path = &arguments.output;
    if is_stdout(path) {
        return Ok(());
    }
    let of = counted(read.count, read.unit);
    let text = format!("{}: {}, of {of}", path.display(), counted(count, unit));
    arguments.json.print(&text, || {
        serde_json::json!({
            "file": path.to_string_lossy(), "bytes": file_size(path), "unit": unit,
            "written": count, "read": read.count,
        })
    })
}

/// The records to convert, and a decoder with their schemas.
struct Traces {
    records: Records,
    decoder: Decoder,
}

/// `--to evtx`: records need no tracks.
fn write_event_log(
    arguments: &Arguments,
    mut traces: Traces,
    filter: Option<(&Filter, &FilterNames)>,
) -> Result<Outcome, Failure> {
    let new = NewFile::create(&arguments.output, &arguments.files, arguments.replace.force)?;
    let file = new.file().try_clone().map_err(|error| new.failure(&error))?;
    let written = evtx::write(&mut traces.records, &mut traces.decoder, filter, file);
    let written = written.map_err(|error| event_log::write_failure(&new, error))?;
    new.keep()?;
    let mut outcome = files::report(&traces.records);
    for problem in written.problems() {
        eprintln!("etw: {problem}");
        outcome = Outcome::Damaged;
    }
    if let Some((filter, _)) = filter {
        filter.report(written.records, TraceNames::default);
    }
    let records = Written { count: written.records, unit: "record" };
    print_result(arguments, records, Written { count: written.read, unit: "event" })?;
    Ok(outcome)
}

/// `tracerpt -of EVTX`: all events, with the schemas in the traces.
pub fn to_event_log(
    output: &Path,
    replace: ReplaceOption,
    schemas: Schemas,
    files: Vec<PathBuf>,
) -> Result<Outcome, Failure> {
    run(&Arguments {
        to: Format::Evtx,
        output: output.to_owned(),
        replace,
        json: JsonOption::default(),
        once: false,
        weight: Weight::Cpu,
        filter: WhereOption::default(),
        schemas,
        symbols: SymbolOptions::default(),
        files,
    })
}

fn new_target<'o, W: Write + 'o>(
    arguments: &Arguments,
    out: W,
    components: Option<pktmon::Components>,
) -> std::io::Result<Box<dyn Target + 'o>> {
    Ok(match arguments.to {
        Format::Perfetto => Box::new(perfetto::Perfetto::new(out)),
        Format::Chrome => Box::new(chrome::Chrome::new(out)?),
        Format::Pcapng => {
            Box::new(pcapng::Pcapng::new(out, components.unwrap_or_default(), arguments.once)?)
        }
        Format::Speedscope => Box::new(speedscope::Speedscope::new(out)),
        Format::Pprof => Box::new(pprof::Pprof::new(out)),
        Format::Folded => Box::new(folded::Folded::new(out, arguments.weight)),
        Format::Evtx => unreachable!("records of logs have no target"),
    })
}

/// The records that are converted.
struct Selection<'c> {
    filter: Option<&'c Filter>,
    names: &'c Names,
    clocks: Vec<Clock>,
    decoder: Decoder,
}

impl Selection<'_> {
    fn time(&self, stored: &EventRecord<'_>) -> Option<FileTime> {
        stored.timestamp(&self.clocks[stored.position.file_index as usize])
    }

    /// Whether the filter, if any, selects a record. `record`: with the process and thread to which it belongs.
    fn has(&mut self, stored: &EventRecord<'_>, record: &EventRecord<'_>, time: FileTime) -> bool {
        let Some(filter) = self.filter else { return true };
        let owned = self.names.owned(stored, record);
        filter.by_owned_header(owned, Some(time)).unwrap_or_else(|| {
            let (names, decoded) = (Some(self.names), self.decoder.decode(stored));
            filter.matches_joined(owned, names, &decoded, Some(time), &Style::default())
        })
    }

    /// The starts and stops that belong together.
    fn slices(&mut self, records: &mut Records) -> Slices {
        let mut slices = Slices::default();
        while let Some(stored) = records.next() {
            let Some(edge) = Edge::of(&stored) else { continue };
            let Some(time) = self.time(&stored) else { continue };
            let record = self.names.attributed(&stored);
            if self.has(&stored, &record, time) {
                let name = event_name(&record, &self.decoder.decode(&stored));
                slices.take(edge, &record, &name, time.0);
            }
        }
        slices
    }
}

/// The records of a trace on their way to a target.
struct Conversion<'c> {
    selection: Selection<'c>,
    slices: Slices,
    /// Names of slices that have begun and not ended.
    begun: HashMap<Lane, Vec<Rc<str>>>,
    profiler: Profiler,
    cpu_slices: CpuSlices,
    kinds: EventKinds,
    /// All records.
    count: u64,
    selected: u64,
    /// Selected ones without those that were logged twice.
    shown: u64,
}

impl Conversion<'_> {
    fn run(
        &mut self,
        records: &mut Records,
        mut progress: Progress,
        target: &mut dyn Target,
    ) -> std::io::Result<()> {
        while let Some(record) = records.next() {
            self.count += 1;
            if self.count.is_multiple_of(65_536) {
                progress.update_at(self.count, Some(record.position));
            }
            if self.selection.filter.is_some_and(Filter::needs_names) {
                self.kinds.number(&record);
            }
            self.convert(record, target)?;
        }
        for slice in self.cpu_slices.end_all() {
            target.cpu_slice(&slice, self.selection.names)?;
        }
        Ok(())
    }

    fn convert(&mut self, stored: EventRecord<'_>, target: &mut dyn Target) -> std::io::Result<()> {
        let Some(time) = self.selection.time(&stored) else { return Ok(()) };
        let nanoseconds = (time.0 - FileTime::UNIX_EPOCH.0).saturating_mul(100);
        target.begin(nanoseconds);
        // Tracks and filters use the process and thread to which an event belongs.
        let names = self.selection.names;
        let record = names.attributed(&stored);
        let named = Named { names, has_stacks: true };
        let is_selected = self.selection.has(&stored, &record, time);
        let process = || names.owner(&stored).process;
        let step = (nanoseconds, self.profiler.step(&stored, nanoseconds));
        for slice in self.cpu_slices.take(&stored, step, process, is_selected) {
            target.cpu_slice(&slice, names)?;
        }
        if !is_selected {
            self.profiler.take_selected(&stored, step, &named, false);
            return Ok(());
        }
        self.selected += 1;
        self.put(&stored, &record, nanoseconds, target)?;
        let spans = self.profiler.take_selected(&stored, step, &named, true);
        spans.iter().try_for_each(|span| target.span(span, names))
    }

    /// Gives a selected record to the target, unless spans and slices show it.
    fn put(
        &mut self,
        stored: &EventRecord<'_>,
        record: &EventRecord<'_>,
        time: i64,
        target: &mut dyn Target,
    ) -> std::io::Result<()> {
        let Selection { filter, names, decoder, .. } = &mut self.selection;
        let decoded = decoder.decode(stored);
        if let Some(filter) = filter {
            filter.check_shown(&decoded);
        }
        let role = Edge::of(record).map(|edge| (edge, self.slices.next()));
        if matches!(role, Some((_, Role::Again))) {
            return Ok(());
        }
        self.shown += 1;
        if switch_of(stored).is_some() || read_waiting(stored).is_some() {
            return Ok(());
        }
        let name = event_name(record, &decoded);
        let provider = decoded.provider_name().map(|name| name.into_owned());
        let provider = provider.or_else(|| record.provider.map(|guid| guid.to_string()));
        let mut event = Event {
            time,
            shape: Shape::Instant(Track::of_thread(record)),
            name: &name,
            provider: provider.as_deref().unwrap_or(""),
            record,
            decoded: &decoded,
            names,
        };
        let mut begun: Option<Rc<str>> = None;
        match role {
            Some((Edge::Start, Role::Slice { lane })) => {
                let lane = Lane { track: Track::of(record), number: lane };
                let shown = ["/Start", "/Stop"].iter().find_map(|end| name.strip_suffix(end));
                event.name = shown.unwrap_or(&name);
                event.shape = Shape::Begin(lane);
                self.begun.entry(lane).or_default().push(event.name.into());
            }
            Some((Edge::Stop, Role::Slice { lane })) => {
                let lane = Lane { track: Track::of(record), number: lane };
                if let Some(open) = self.begun.get_mut(&lane) {
                    begun = open.pop();
                    if open.is_empty() {
                        self.begun.remove(&lane);
                    }
                }
                event.shape = Shape::End(lane);
            }
            _ => {
                if let Some(value) = counter(record, &decoded, &name) {
                    event.shape = Shape::Counter(Track::of_thread(record), &name, value);
                }
            }
        }
        if let Some(begun) = &begun {
            event.name = begun;
        }
        target.event(&event)
    }
}

/// The name of an event, or what stands for it.
fn event_name(record: &EventRecord<'_>, decoded: &Decoded<'_>) -> String {
    let name = decoded.event_name().map(str::to_owned);
    name.unwrap_or_else(|| match record.header.is_event() {
        true => format!("event {}", record.descriptor.id),
        false => format!("{} {}", record.header.name(), record.descriptor.opcode.0),
    })
}

/// The value of an event of .NET's counters.
fn counter(record: &EventRecord<'_>, decoded: &Decoded<'_>, name: &str) -> Option<f64> {
    const FIELDS: &[&str] = &["Mean", "Increment", "Value"];
    let is_counter = name == "EventCounters" || name.ends_with("Counter");
    (is_counter && record.header.is_event()).then_some(())?;
    let picked = Picked::of(FIELDS, record, decoded)?;
    (0..FIELDS.len()).find_map(|number| picked.number(number))
}

/// Writes and forgets what it was given.
fn drain(out: &mut impl Write, buffer: &mut Vec<u8>) -> std::io::Result<()> {
    out.write_all(buffer)?;
    buffer.clear();
    Ok(())
}
