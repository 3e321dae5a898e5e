//! `etw dump`

use crate::asked_names::AskedNames;
use crate::column::Column;
use crate::files;
use crate::filter_names::FilterNames;
use crate::format::{Format, Options, View};
use crate::join::Names;
use crate::output::{Failure, Outcome, Output};
use crate::output_file::ReplaceOption;
use crate::pipeline::{self, Selection};
use crate::schemas::{self, Schemas};
use crate::symbols::SymbolOptions;
use crate::terminal::has_colours;
use crate::threads::{self, ThreadsOption};
use crate::time_point::When;
use crate::times::TimesOption;
use crate::where_filter::{TraceNames, WhereOption};
use clap::Args;
use etw_decode::{Cbor, CodePage, CustomDecoders, Decoder, Store, Style};
use etw_etl::read::{PartsOptions, Records, RecordsOptions, TraceFile};
use etw_types::{EventRecord, FileTime};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Args, Default)]
pub struct Arguments {
    /// Form of the output
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Show only these columns: names of --where (time, provider, event, level, process, pid, …) and of fields
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<Column>,
    /// Show only these fields of the events
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "columns")]
    pub fields: Vec<String>,
    #[command(flatten)]
    pub times: TimesOption,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub replace: ReplaceOption,
    /// Add the payload as hex, and where each record lies, to every record
    #[arg(long)]
    pub raw: bool,
    /// Skip records before this time: RFC 3339, or +1.5s from the start
    #[arg(long, value_name = "T")]
    pub from: Option<When>,
    /// Skip records after this time: RFC 3339, or +1.5s from the start
    #[arg(long, value_name = "T")]
    pub to: Option<When>,
    /// Stop after N records
    #[arg(short = 'n', long, value_name = "N")]
    pub limit: Option<u64>,
    /// Show only the last N records
    #[arg(long, value_name = "N", conflicts_with = "limit")]
    pub tail: Option<usize>,
    #[command(flatten)]
    pub threads: ThreadsOption,
    /// Gather the schemas in the trace before the first record is printed
    #[arg(long)]
    pub two_pass: bool,
    /// Show names of processes, threads and files, and the stacks of kernel events with their events; reads the trace once
    /// before
    #[arg(long)]
    pub join: bool,
    #[command(flatten)]
    pub symbols: SymbolOptions,
    /// Quote integers beyond ±2^53 in JSON
    #[arg(long)]
    pub json_strings64: bool,
    /// How 8-bit text is read that is not UTF-8: 1252, 932, windows-1251, …
    #[arg(long, value_name = "PAGE", default_value = "1252", value_parser = code_page)]
    pub codepage: CodePage,
    /// Decode custom-serialised fields of a protocol (0 to 31): 5=cbor
    #[arg(long, value_name = "PROTOCOL=DECODER", value_parser = custom_decoder)]
    pub custom: Vec<u8>,
    #[command(flatten)]
    pub schemas: Schemas,
    #[command(flatten)]
    pub filter: WhereOption,
    /// Traces; several are merged by time
    #[arg(required = true, value_name = "FILE.etl")]
    pub files: Vec<PathBuf>,
}

/// A dump to a file, with the settings of Windows' commands, which know all schemas before.
pub fn to_file(
    format: Format,
    output: &std::path::Path,
    schemas: Schemas,
    files: Vec<PathBuf>,
) -> Result<Outcome, Failure> {
    let (output, replace) = (Some(output.to_owned()), ReplaceOption { force: true });
    run(&Arguments {
        format,
        output,
        replace,
        schemas,
        files,
        two_pass: true,
        ..Arguments::default()
    })
}

fn code_page(label: &str) -> Result<CodePage, String> {
    CodePage::parse(label).ok_or_else(|| "not a known code page".to_string())
}

fn custom_decoder(text: &str) -> Result<u8, String> {
    let (protocol, decoder) = text.split_once('=').ok_or("must be PROTOCOL=DECODER")?;
    let protocol = protocol.parse::<u8>().ok().filter(|protocol| *protocol < 32);
    match decoder {
        "cbor" => protocol.ok_or_else(|| "protocols are 0 to 31".to_string()),
        _ => Err(format!("no decoder {decoder}: there is cbor")),
    }
}

/// Once a run: it lives as long as that.
fn custom_decoders(protocols: &[u8]) -> Option<&'static CustomDecoders> {
    let with = |decoders: CustomDecoders, protocol: &u8| decoders.with(*protocol, &Cbor);
    (!protocols.is_empty())
        .then(|| &*Box::leak(Box::new(protocols.iter().fold(CustomDecoders::new(), with))))
}

impl Arguments {
    fn check_output(&self) -> Result<(), Failure> {
        let Some(output) = &self.output else { return Ok(()) };
        self.replace.check(output)?;
        self.schemas.check_output(output)
    }

    /// Opens the traces. Returns them, and how many records of event logs are left out because `--where` excludes them.
    fn open(&self) -> Result<(Vec<TraceFile>, u64), etw_etl::Error> {
        // Names and schemas may be in other records, and --raw shows the offset of each.
        let needs_all = self.join || self.two_pass || self.raw;
        let filter = if needs_all { None } else { self.filter.for_headers() };
        files::open_selected(&self.files, filter.as_ref())
    }

    fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }

    /// Rejects options that the format has no use for.
    fn check(&self) -> Result<(), Failure> {
        let usage = |what: &str| Err(Failure::Usage(format!("dump: {what}")));
        let mut names: Vec<&str> = self.columns.iter().map(|column| &*column.name).collect();
        names.sort_unstable();
        let repeated = names.windows(2).find(|pair| pair[0] == pair[1]);
        if let Some([name, _]) = repeated.filter(|_| self.format() == Format::Json) {
            return usage(&format!("--columns names {name} twice; an object of JSON has it once"));
        }
        match self.format() {
            Format::Xml if !self.columns.is_empty() => {
                usage("--columns has the formats text, csv and json")
            }
            Format::Json | Format::Csv | Format::Xml
                if self.times.is_other() && self.columns.is_empty() =>
            {
                usage("--local and --relative go with --format text or --columns")
            }
            _ if !self.symbols.is_empty() && !self.join => {
                usage("--symbols and --perf-map need --join")
            }
            _ if self.raw && !self.columns.is_empty() => {
                usage("--raw adds to whole records; --columns shows only what it names")
            }
            Format::Csv | Format::Xml if self.join && self.columns.is_empty() => {
                usage("--join has the formats text and json; with --columns, csv too")
            }
            format if self.json_strings64 && format != Format::Json => {
                usage("--json-strings64 needs --format json")
            }
            _ => Ok(()),
        }
    }

    /// The first and the last time of records that are shown.
    fn span(&self, start: FileTime) -> Result<(Option<FileTime>, Option<FileTime>), Failure> {
        let resolved = |when: Option<When>| when.map(|when| when.resolve(start));
        let (from, to) = (resolved(self.from), resolved(self.to));
        match from.zip(to).is_some_and(|(from, to)| to < from) {
            true => Err(Failure::Usage(
                "dump: no time is in the span: --to is before --from".to_owned(),
            )),
            false => Ok((from, to)),
        }
    }

    fn view(&self, start: FileTime) -> View {
        View {
            times: self.times.times(start),
            has_colours: self.output.is_none() && self.format() == Format::Text && has_colours(),
            fields: self.fields.clone(),
            columns: self.columns.clone(),
            asked: Arc::new(self.asked()),
        }
    }

    fn asked(&self) -> AskedNames {
        match self.fields.is_empty() {
            true => AskedNames::of_columns("--columns", &self.columns),
            false => AskedNames::new("--fields", self.fields.iter().cloned()),
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    arguments.check()?;
    let (traces, left_out) = arguments.open()?;
    let threads = arguments.threads.count_up_to(pipeline::most_threads(&traces));
    let start = traces.iter().filter_map(|trace| Some(trace.header()?.start_time)).min();
    let start = start.unwrap_or(FileTime(0));
    let (from, to) = arguments.span(start)?;
    let mut read_options = RecordsOptions::default();
    // One of two threads decompresses while the other one formats; a third one would only take turns with them.
    read_options.read_ahead_threads = usize::from(threads > 2 && is_compressed(&traces));
    let gathered = arguments.two_pass.then(|| gather_on(traces.clone(), arguments.threads.parts()));
    let catalog = arguments.schemas.load_for(&traces)?;
    let names = match arguments.join {
        true => {
            let mut decoder = Decoder::new();
            decoder.set_catalog(catalog.clone());
            let records = Records::with_options(traces.clone(), read_options);
            let mut names = Names::gather(records, decoder);
            arguments.symbols.apply(&mut names, start)?;
            if names.stacks_left_out() > 0 {
                let count = names.stacks_left_out();
                eprintln!("etw: note: {count} stacks were not kept in memory and stand alone");
            }
            Some(Arc::new(names))
        }
        false => None,
    };
    let filter = arguments.filter.compile(start)?;
    let own = schemas::own_for(&traces);
    let filter_names = match &names {
        Some(names) => FilterNames::known(names.clone()),
        None => FilterNames::of(filter.as_ref(), &traces, &catalog, &own).on(arguments.threads),
    };
    let selection = Selection {
        from,
        to,
        limit: arguments.limit,
        tail: arguments.tail,
        gathered,
        catalog: catalog.clone(),
        own,
        filter,
        filter_names,
    };
    let format = arguments.format();
    let options = Options {
        names,
        format,
        view: arguments.view(start),
        raw: arguments.raw,
        style: Style {
            json_strings64: arguments.json_strings64,
            code_page: arguments.codepage,
            custom: custom_decoders(&arguments.custom),
            ..Style::default()
        },
    };
    arguments.check_output()?;
    let mut output = Output::open_paged(arguments.output.as_deref(), &arguments.files)?;
    let mut records = Records::with_options(traces.clone(), read_options);
    let shown = pipeline::run(&mut records, &selection, &options, threads, &mut output)?;
    if let Some(names) = &options.names {
        names.report_symbols();
    }
    // Records that were left out may have the names. A log that cannot be read again has none.
    let all = || match left_out {
        0 => traces.clone(),
        _ => arguments.files.iter().filter_map(|file| files::open_for_names(file).ok()).collect(),
    };
    options.view.asked.report(shown.count, all, &catalog);
    if let Some(filter) = &selection.filter {
        filter.report(shown.count, || {
            // Names behind the last record that was shown count, too.
            let (mut kinds, mut store) = (shown.kinds, shown.store);
            let mut again;
            let rest = match left_out {
                0 => &mut records,
                _ => {
                    (kinds, store) = Default::default();
                    again = Records::with_options(all(), read_options);
                    &mut again
                }
            };
            while let Some(record) = rest.next() {
                kinds.number(&record);
                if Store::is_schema_record(&record) {
                    Arc::make_mut(&mut store).learn(&record);
                }
            }
            let mut decoder = selection.decoder();
            if selection.gathered.is_none() {
                decoder.set_store(store);
            }
            TraceNames::of(kinds, decoder)
        });
    }
    Ok(files::report(&records))
}

fn is_compressed(traces: &[TraceFile]) -> bool {
    traces.iter().any(|trace| trace.totals().compressed_buffers > 0)
}

/// Gathers the schemas in traces. All CPUs look for the records that have them, which are learnt in the order of one thread.
pub fn gather(traces: Vec<TraceFile>) -> Arc<Store> {
    gather_on(traces, ThreadsOption::default().parts())
}

/// As [`gather`], on some threads.
pub fn gather_on(traces: Vec<TraceFile>, parts: PartsOptions) -> Arc<Store> {
    Arc::new(gather_with_records(&traces, parts).0)
}

/// As [`gather`], with what the reader found: damage and notes.
pub fn gather_with_records(traces: &[TraceFile], parts: PartsOptions) -> (Store, Records) {
    let mut store = Store::default();
    let learn = |record: &EventRecord<'_>| store.learn(record);
    let records = threads::visit_picked(traces, parts, Store::is_schema_record, learn);
    (store, records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::samples::{self, PROVIDER};
    use etw_etl::write::FileBuilder;
    use etw_types::{EventRecord, HeaderType};

    #[test]
    fn the_last_description_of_an_event_stays_for_any_number_of_threads() {
        let mut file = FileBuilder::new();
        file.header.logfile.buffer_size = 0x400;
        for number in 0..500u16 {
            let name = format!("Name{number}");
            samples::push_description(&mut file, i64::from(number), number % 5, &name);
        }
        let trace = TraceFile::from_bytes("test.etl", file.finish()).unwrap();
        for (threads, part_bytes) in [(1, 1 << 30), (1, 0x1000), (2, 0x1000), (4, 1)] {
            let parts = samples::options(threads, part_bytes);
            let store = gather_on(vec![trace.clone()], parts);
            let mut decoder = Decoder::with_store(store);
            for id in 0..5 {
                let mut event = EventRecord::new(HeaderType::Event64, &[]);
                event.provider = Some(PROVIDER);
                event.descriptor.id = id;
                let expected = format!("Name{}", 495 + id);
                let decoded = decoder.decode(&event);
                assert_eq!(decoded.event_name(), Some(&*expected), "{threads} threads");
            }
        }
    }
}
