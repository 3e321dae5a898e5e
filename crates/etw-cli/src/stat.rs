//! `etw stat`

mod counting;

use crate::breakdown::{self, Views};
use crate::column::Column;
use crate::files;
use crate::format::{TextOrJson, safe};
use crate::output::{Failure, Outcome, Output, Progress};
use crate::output_file::ReplaceOption;
use crate::schemas::Schemas;
use crate::where_filter::{Filter, WhereOption};
use clap::{Args, ValueEnum};
use etw_decode::{Catalog, Decoded, Decoder, Source, Store, Style};
use etw_etl::read::{Records, TraceFile};
use etw_host::Loss;
use etw_types::{
    EventRecord, ExtType, ExtendedItemsBuf, FileTime, Guid, HeaderType, Hook, LOST_EVENT,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use counting::Counting;

#[derive(Args, Default)]
pub struct Arguments {
    #[command(flatten)]
    pub format: TextOrJson,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub replace: ReplaceOption,
    /// What is counted: event, provider, process, time or activity; or any columns: process,file (see `etw help columns`)
    #[arg(long, value_name = "WHAT", value_delimiter = ',', default_value = "event")]
    pub by: Vec<String>,
    /// Sum this field or column for each row
    #[arg(long, value_name = "FIELD")]
    pub sum: Option<Column>,
    /// Show percentiles of what --sum names
    #[arg(long)]
    pub percentiles: bool,
    /// Show at most N rows of the table
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    #[command(flatten)]
    pub filter: WhereOption,
    #[command(flatten)]
    pub schemas: Schemas,
    /// Traces, each counted by itself
    #[arg(required = true, value_name = "FILE.etl")]
    pub files: Vec<PathBuf>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Kinds of events
    #[default]
    Event,
    /// Providers
    Provider,
    /// Processes, by name where the trace tells it
    Process,
    /// Records over time
    Time,
    /// Activities, the longest first
    Activity,
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let counting = Counting::of(arguments)?;
    let traces: Vec<TraceFile> =
        arguments.files.iter().map(files::open).collect::<Result<_, _>>()?;
    let catalog = arguments.schemas.load_for(&traces)?;
    if let Some(path) = &arguments.output {
        arguments.replace.check(path)?;
    }
    let mut output = Output::open_paged(arguments.output.as_deref(), &arguments.files)?;
    let table = match &counting {
        Counting::Table(table) => *table,
        other => return counting::run(arguments, other, traces, &catalog, &mut output),
    };
    let mut outcome = Outcome::Done;
    for trace in traces {
        let start = trace.header().map_or(FileTime(0), |header| header.start_time);
        let filter = arguments.filter.compile(start)?;
        let mut counted = count_where(trace, &catalog, filter.as_ref());
        if let Some(filter) = &filter {
            let again = || Records::new(counted.records.files().to_vec());
            filter.report(
                counted.total,
                again,
                new_decoder(Arc::default(), &catalog, crate::schemas::own()),
            );
        }
        if let Some(top) = arguments.top {
            counted.keep_top(top);
        }
        let text = match arguments.format.is_json() {
            true => format!("{}\n", counted.to_json()),
            false => counted.to_text(table),
        };
        output.write(text.as_bytes())?;
        if !counted.records.damage().is_empty() {
            outcome = Outcome::Damaged;
        }
    }
    output.finish()?;
    Ok(outcome)
}

/// Rows past this many are put together in one: only a hostile trace has so many kinds of events.
const ROW_LIMIT: usize = 1 << 16;

/// Cause, provider and process of losses in a session's report.
type Origin = (String, Option<Guid>, Option<u32>);
/// Further origins are counted together: the project's sessions report no more.
const ORIGIN_LIMIT: usize = 1 << 13;

fn tell(told: &mut BTreeMap<Origin, u64>, loss: Loss) {
    let mut origin = (loss.cause.name().to_owned(), loss.provider, loss.process_id);
    if told.len() >= ORIGIN_LIMIT && !told.contains_key(&origin) {
        origin = ("others".to_owned(), None, None);
    }
    let count = told.entry(origin).or_default();
    *count = count.saturating_add(loss.count);
}

/// The key of a row.
#[derive(Clone, PartialEq, Eq, Hash)]
struct RowKey {
    header: HeaderType,
    provider: Option<Guid>,
    hook: Option<Hook>,
    id: u16,
    version: u8,
    opcode: u8,
    /// TraceLogging metadata and provider traits, which name an event that has no number; empty for none.
    metadata: Box<[u8]>,
    traits: Box<[u8]>,
    /// The record's own name, where records of one number describe different events.
    name: Option<String>,
    string: bool,
}

#[derive(Default)]
struct Row {
    count: u64,
    bytes: u64,
    payload_size: usize,
    fit: Fit,
}

/// How well the schemas of a row's events fit their payloads.
#[derive(Clone, Default)]
pub struct Fit {
    /// Events with bytes behind their last field.
    pub rests: u64,
    /// Events that lack fields: the payload ends early, or the schema is not complete.
    pub cut: u64,
    /// Events whose schema of highest precedence does not fit, and another does.
    pub other_schema: u64,
    /// The files whose schemas were used.
    pub schemas: BTreeSet<Arc<str>>,
}

/// Files that a row names.
const SCHEMA_LIMIT: usize = 8;

impl Fit {
    fn add(&mut self, record: &EventRecord<'_>, decoded: &Decoded<'_>) {
        let Some(visited) = decoded.visit_part(record, &mut ()) else { return };
        self.rests += u64::from(!visited.rest.is_empty());
        self.cut += u64::from(visited.reason.is_some());
        self.other_schema += u64::from(decoded.passed_over() > 0);
        let origin = decoded.schema().and_then(|schema| schema.origin.as_ref());
        if let Some(origin) = origin
            && self.schemas.len() < SCHEMA_LIMIT
            && !self.schemas.contains(origin)
        {
            self.schemas.insert(origin.clone());
        }
    }

    fn merge(&mut self, other: Fit) {
        self.rests += other.rests;
        self.cut += other.cut;
        self.other_schema += other.other_schema;
        self.schemas.extend(other.schemas.into_iter().take(SCHEMA_LIMIT));
    }

    fn schema_names(&self) -> Vec<&str> {
        self.schemas.iter().map(|file| &**file).collect()
    }

    /// The values that do not fit, in brackets; empty if all fit.
    fn to_text(&self) -> String {
        let files = self.schema_names().join(", ");
        let other = match files.is_empty() {
            true => "by another schema than the first".to_owned(),
            false => format!("by another schema than the first; used: {}", safe(&files)),
        };
        let parts = [(self.rests, "with a rest"), (self.cut, "cut"), (self.other_schema, &other)];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
        if parts.is_empty() { String::new() } else { format!("  [{}]", parts.join(", ")) }
    }
}

pub struct Counted {
    pub views: Views,
    pub records: Records,
    pub total: u64,
    /// Times of the first and the last event.
    span: Option<(FileTime, FileTime)>,
    by_header: BTreeMap<HeaderType, u64>,
    losses: BTreeMap<u8, u64>,
    told: BTreeMap<Origin, u64>,
    pub rows: Vec<EventRow>,
    more: Row,
}

pub struct EventRow {
    pub provider: Option<Guid>,
    pub provider_name: Option<String>,
    pub event: Option<String>,
    pub id: Option<u16>,
    pub version: Option<u8>,
    pub opcode: Option<u8>,
    pub count: u64,
    pub bytes: u64,
    pub fit: Fit,
}

/// A provider and what it wrote.
pub struct ProviderRow {
    pub guid: Option<Guid>,
    pub name: Option<String>,
    pub count: u64,
    pub bytes: u64,
}

type Rows = HashMap<RowKey, Row, foldhash::fast::RandomState>;

/// A decoder with the user's schemas.
fn new_decoder(store: Arc<Store>, catalog: &Arc<Catalog>, own: Arc<Catalog>) -> Decoder {
    let mut decoder = Decoder::with_store(store);
    decoder.set_catalog(catalog.clone());
    decoder.set_own_catalog(own);
    decoder
}

/// Counts a trace.
pub fn count(trace: TraceFile, catalog: &Arc<Catalog>) -> Counted {
    count_where(trace, catalog, None)
}

/// Counts the records of a trace for which `filter` holds.
fn count_where(trace: TraceFile, catalog: &Arc<Catalog>, filter: Option<&Filter>) -> Counted {
    let clock = *trace.clock();
    let own = crate::schemas::own_for(std::slice::from_ref(&trace));
    // Records may be described behind them.
    let gathered = filter
        .filter(|filter| filter.needs_schema())
        .map(|_| crate::dump::gather(Records::new(vec![trace.clone()])));
    let mut filter_decoder = new_decoder(gathered.unwrap_or_default(), catalog, own.clone());
    filter_decoder.set_learning(false);
    let style = Style::default();
    let mut records = Records::new(vec![trace]);
    let mut span: Option<(FileTime, FileTime)> = None;
    let mut by_header = BTreeMap::new();
    let mut losses = BTreeMap::new();
    let mut told = BTreeMap::new();
    let mut counter = Counter::default();
    counter.decoder.set_learning(false);
    counter.reader.set_catalog(catalog.clone());
    counter.reader.set_own_catalog(own.clone());
    let mut total = 0;
    let mut views = Views::default();
    let mut progress = Progress::start();
    while let Some(record) = records.next() {
        let time = record.timestamp(&clock);
        if let Some(filter) = filter {
            if Store::is_schema_record(&record) {
                counter.store.learn(&record);
            }
            let is_counted = filter.by_header(&record, time).unwrap_or_else(|| {
                let decoded = filter_decoder.decode(&record);
                let is_counted = filter.matches(&record, &decoded, time, &style);
                if is_counted {
                    filter.check_shown(&decoded);
                }
                is_counted
            });
            if !is_counted {
                continue;
            }
        }
        // The header's record has the time of the session's start.
        if let Some(time) =
            time.filter(|_| record.has_time && record.hook.is_none_or(|hook| hook.group() != 0))
        {
            let (first, last) = span.unwrap_or((time, time));
            span = Some((first.min(time), last.max(time)));
        }
        total += 1;
        *by_header.entry(record.header).or_insert(0) += 1;
        if record.header.is_classic() && record.provider == Some(LOST_EVENT) {
            *losses.entry(record.descriptor.opcode.0).or_insert(0) += 1;
        }
        if let Some(loss) = etw_host::report::read_loss(&record) {
            tell(&mut told, loss);
        }
        counter.add(&record);
        views.add(&record, &mut counter.decoder, time);
        if total % 65_536 == 0 {
            progress.update(total);
        }
    }
    drop(progress);
    let Counter { store, rows, more, .. } = counter;
    let mut decoder = Decoder::with_store(Arc::new(store));
    decoder.set_learning(false);
    decoder.set_catalog(catalog.clone());
    decoder.set_own_catalog(own);
    let mut rows: Vec<EventRow> =
        rows.into_iter().map(|(key, row)| resolve(&mut decoder, key, &row)).collect();
    merge_equal(&mut rows);
    Counted { views, records, total, span, by_header, losses, told, rows, more }
}

#[derive(Default)]
struct Counter {
    store: Store,
    rows: Rows,
    /// Events without a row of their own.
    more: Row,
    /// For names that do not depend on the trace.
    decoder: Decoder,
    /// Decodes each record as a dump does, for how well schemas fit.
    reader: Decoder,
}

impl Counter {
    fn add(&mut self, record: &EventRecord<'_>) {
        let describes = Store::is_schema_record(record);
        if describes {
            self.store.learn(record);
        }
        let key = self.key(record, describes);
        let has_room = self.rows.len() < ROW_LIMIT || self.rows.contains_key(&key);
        let row = if has_room { self.rows.entry(key).or_default() } else { &mut self.more };
        row.count += 1;
        row.bytes += record.payload.len() as u64;
        row.payload_size = record.payload.len();
        row.fit.add(record, &self.reader.decode(record));
    }

    fn key(&mut self, record: &EventRecord<'_>, describes: bool) -> RowKey {
        let descriptor = &record.descriptor;
        let item = |ext_type| record.extended.find(ext_type).unwrap_or_default();
        let metadata = item(ExtType::EVENT_SCHEMA_TL);
        let traits = item(ExtType::PROV_TRAITS);
        let name = describes.then(|| self.decoder.decode(record).event_name().map(String::from));
        let bare = record.header.is_event() && descriptor.id == 0 && metadata.is_empty();
        let string = bare && self.decoder.decode(record).source() == Some(Source::String);
        RowKey {
            header: record.header,
            provider: record.provider,
            hook: record.hook,
            id: descriptor.id,
            version: descriptor.version,
            opcode: descriptor.opcode.0,
            metadata: metadata.into(),
            traits: traits.into(),
            name: name.flatten(),
            string,
        }
    }
}

/// Names a row as a dump of its first record would, with all schemas known.
fn resolve(decoder: &mut Decoder, key: RowKey, row: &Row) -> EventRow {
    let mut items: Vec<(ExtType, &[u8])> =
        vec![(ExtType::PROV_TRAITS, &key.traits), (ExtType::EVENT_SCHEMA_TL, &key.metadata)];
    items.retain(|(_, data)| !data.is_empty());
    let items = ExtendedItemsBuf::from_items(&items).unwrap_or_default();
    // Only its length matters; the text of a string event is one that every reader takes for one.
    let payload = if key.string { b"x\0\0\0".to_vec() } else { vec![0xff; row.payload_size] };
    let mut record = EventRecord::new(key.header, &payload);
    record.provider = key.provider;
    record.hook = key.hook;
    record.descriptor.id = key.id;
    record.descriptor.version = key.version;
    record.descriptor.opcode.0 = key.opcode;
    record.extended = items.as_items();
    let decoded = decoder.decode(&record);
    let is_event = key.header.is_event();
    let is_message = key.header == HeaderType::Message;
    let has_opcode = is_event || key.header.is_classic() || key.hook.is_some();
    let described = Store::is_schema_record(&record);
    EventRow {
        provider: key.provider,
        provider_name: if described {
            Some("EventMetadata".into())
        } else {
            decoded.provider_name().map(|name| name.into_owned())
        },
        event: key.name.or_else(|| decoded.event_name().map(String::from)),
        id: (is_event || is_message).then_some(key.id),
        version: (!is_message).then_some(key.version),
        opcode: has_opcode.then_some(key.opcode),
        count: row.count,
        bytes: row.bytes,
        fit: row.fit.clone(),
    }
}

/// Rows that differ only in what is not shown (bitness, field lists) become one; most frequent first.
fn merge_equal(rows: &mut Vec<EventRow>) {
    fn key(row: &EventRow) -> impl Ord + '_ {
        (row.provider, &row.provider_name, &row.event, row.id, row.version, row.opcode)
    }
    rows.sort_by(|a, b| key(a).cmp(&key(b)));
    rows.dedup_by(|next, kept| {
        let equal = key(next) == key(kept);
        if equal {
            kept.count += next.count;
            kept.bytes += next.bytes;
            kept.fit.merge(std::mem::take(&mut next.fit));
        }
        equal
    });
    rows.sort_by_key(|row| std::cmp::Reverse(row.count));
}

const LOSS_CAUSES: [(u8, &str); 3] =
    [(32, "rt_lost_event"), (33, "rt_lost_buffer"), (34, "rt_lost_file")];

impl Counted {
    /// Keeps the first rows, and adds up the others.
    fn keep_top(&mut self, top: usize) {
        for row in self.rows.drain(top.min(self.rows.len())..) {
            self.more.count += row.count;
            self.more.bytes += row.bytes;
        }
    }

    pub fn trace(&self) -> &TraceFile {
        &self.records.files()[0]
    }

    pub fn losses(&self) -> Vec<(&'static str, u64)> {
        let count = |kind: u8| self.losses.get(&kind).copied().filter(|&count| count > 0);
        LOSS_CAUSES.iter().filter_map(|&(kind, cause)| Some((cause, count(kind)?))).collect()
    }

    /// Losses that our sessions reported, in words.
    pub fn told_losses(&self) -> impl Iterator<Item = (String, u64)> {
        self.told.iter().map(|((cause, provider, process), count)| {
            let provider = provider.map_or(String::new(), |guid| format!(", provider {guid}"));
            let process = process.map_or(String::new(), |process| format!(", process {process}"));
            (format!("{cause}{provider}{process}"), *count)
        })
    }

    fn to_json(&self) -> Value {
        let trace = self.trace();
        let header = trace.header();
        let time = |time: Option<FileTime>| {
            let shown = time.filter(|time| time.0 != 0 && time.to_ascii().is_some());
            shown.map(|time| time.to_string())
        };
        let by_header: serde_json::Map<String, Value> =
            self.by_header.iter().map(|(h, count)| (h.name().to_string(), json!(count))).collect();
        let losses: Vec<Value> = self
            .losses()
            .into_iter()
            .map(|(cause, count)| {
                json!({"cause": cause, "provider": null, "pid": null, "count": count})
            })
            .chain(self.told.iter().map(|((cause, provider, pid), count)| {
                let provider = provider.map(|guid| guid.to_string());
                json!({"cause": cause, "provider": provider, "pid": pid, "count": count})
            }))
            .collect();
        let damage: Vec<Value> = self
            .records
            .damage()
            .kept()
            .iter()
            .map(|place| json!({"offset": place.offset, "what": place.kind.to_string()}))
            .collect();
        let totals = trace.totals();
        json!({
            "file": trace.path().to_string_lossy(),
            "session": header.map(|h| h.logger_name.as_str()),
            "os_build": header.map(|h| h.provider_version),
            "pointer_size": header.map(|h| h.pointer_size),
            "cpus": header.map(|h| h.number_of_processors),
            "clock": header.and_then(|h| h.clock_type.name()),
            "start": time(header.map(|h| h.start_time)),
            "end": time(header.map(|h| h.end_time)),
            "first_event": time(self.span.map(|(first, _)| first)),
            "last_event": time(self.span.map(|(_, last)| last)),
            "buffers": totals.buffers,
            "buffer_size": header.map(|h| h.buffer_size),
            "compressed": totals.compressed_buffers > 0,
            "finalised": trace.is_finalised(),
            "records": self.total,
            "events_lost": header.map(|h| h.events_lost),
            "buffers_lost": header.map(|h| h.buffers_lost),
            "out_of_order": self.records.out_of_order(0),
            "losses": losses,
            "by_header": by_header,
            "by_event": self.json_rows(),
            "by_provider": self.providers().iter().map(|row| json!({
                "provider": row.guid.map(|guid| guid.to_string()),
                "provider_name": row.name, "count": row.count, "bytes": row.bytes,
            })).collect::<Vec<_>>(),
            "by_process": self.views.processes().iter().map(|row| json!({
                "pid": row.process, "name": row.name, "count": row.count, "bytes": row.bytes,
            })).collect::<Vec<_>>(),
            "rate": self.views.rate().map(|(start, seconds, counts)| json!({
                "start": start.to_string(), "seconds": seconds, "counts": counts,
            })),
            "damage": damage,
            "damage_count": self.records.damage().count(),
            "notes": files::notes(trace),
        })
    }

    fn json_rows(&self) -> Vec<Value> {
        let mut rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "provider": row.provider.map(|guid| guid.to_string()),
                    "provider_name": row.provider_name,
                    "event": row.event,
                    "id": row.id,
                    "version": row.version,
                    "opcode": row.opcode,
                    "count": row.count,
                    "bytes": row.bytes,
                    "rests": row.fit.rests,
                    "cut": row.fit.cut,
                    "other_schema": row.fit.other_schema,
                    "schemas": row.fit.schema_names(),
                })
            })
            .collect();
        if self.more.count > 0 {
            rows.push(json!({
                "provider": null, "provider_name": null, "event": null, "id": null, "version": null,
                "opcode": null, "count": self.more.count, "bytes": self.more.bytes,
                "rests": self.more.fit.rests, "cut": self.more.fit.cut,
                "other_schema": self.more.fit.other_schema,
                "schemas": self.more.fit.schema_names(),
            }));
        }
        rows
    }

    /// Writing to a String cannot fail.
    fn to_text(&self, by: By) -> String {
        let trace = self.trace();
        let totals = trace.totals();
        let mut text = format!("{}\n", trace.path().display());
        if let Some(header) = trace.header() {
            let [major, minor, ..] = header.version;
            let _ = writeln!(
                text,
                "  session  {:?}, Windows {major}.{minor} build {}, {} CPUs, {}-bit, clock {}",
                header.logger_name,
                header.provider_version,
                header.number_of_processors,
                header.pointer_size * 8,
                header.clock_type.name().unwrap_or("unknown"),
            );
            let end = if header.end_time.0 == 0 {
                "not finalised".into()
            } else {
                let seconds = header.end_time.0.saturating_sub(header.start_time.0) as f64 / 1e7;
                format!("{} ({seconds:.3} s)", header.end_time)
            };
            let _ = writeln!(text, "  time     {} to {end}", header.start_time);
            if let Some((first, last)) = self.span
                && (first, last) != (header.start_time, header.end_time)
            {
                let seconds = last.0.saturating_sub(first.0) as f64 / 1e7;
                let _ = writeln!(text, "  events   {first} to {last} ({seconds:.3} s)");
            }
        }
        let compressed = match totals.compressed_buffers {
            0 => String::new(),
            count => format!(", {count} compressed"),
        };
        let _ = writeln!(
            text,
            "  content  {} records in {} buffers of {} KiB{compressed}",
            self.total,
            totals.buffers,
            trace.header().map_or(0, |header| header.buffer_size) / 1024,
        );
        self.put_losses(&mut text);
        for note in files::notes(trace) {
            let _ = writeln!(text, "  note     {note}");
        }
        if self.records.out_of_order(0) > 0 {
            let late = self.records.out_of_order(0);
            let _ = writeln!(text, "  order    {late} records older than the one before them");
        }
        for place in self.records.damage().kept() {
            let _ = writeln!(text, "  DAMAGED  offset {:#x}: {}", place.offset, place.kind);
        }
        match by {
            By::Event => self.put_tables(&mut text),
            By::Provider => self.put_providers(&mut text),
            By::Process => self.put_processes(&mut text),
            By::Time => self.put_rate(&mut text),
            // They have a report of their own.
            By::Activity => {}
        }
        text
    }

    /// The most records first.
    pub fn providers(&self) -> Vec<ProviderRow> {
        let mut rows: BTreeMap<_, ProviderRow> = BTreeMap::new();
        for event in &self.rows {
            let class = event.provider.and_then(Hook::name_of_class).map(str::to_owned);
            let name = match (event.provider_name.clone(), class) {
                // Kernel records have one provider, and a class each.
                (Some(name), Some(class)) => Some(format!("{name}/{class}")),
                (name, class) => name.or(class),
            };
            let row = rows.entry((event.provider, name.clone())).or_insert(ProviderRow {
                guid: event.provider,
                name,
                count: 0,
                bytes: 0,
            });
            row.count += event.count;
            row.bytes += event.bytes;
        }
        let mut rows: Vec<ProviderRow> = rows.into_values().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.count));
        rows
    }

    fn put_providers(&self, text: &mut String) {
        let rows = self.providers();
        let largest = rows.first().map_or(0, |row| row.count);
        let _ =
            writeln!(text, "\n  {:>12} {:>14}  {:<20}  provider", "records", "payload bytes", "");
        for row in rows {
            let bar = breakdown::bar(row.count, largest, 20);
            let name =
                row.name.or(row.guid.map(|guid| format!("{{{guid}}}"))).unwrap_or("-".into());
            let name = crate::format::safe(&name);
            let _ = writeln!(text, "  {:>12} {:>14}  {bar:<20}  {name}", row.count, row.bytes);
        }
    }

    fn put_processes(&self, text: &mut String) {
        let rows = self.views.processes();
        let largest = rows.first().map_or(0, |row| row.count);
        let _ =
            writeln!(text, "\n  {:>12} {:>14}  {:<20}  process", "records", "payload bytes", "");
        for row in rows {
            let bar = breakdown::bar(row.count, largest, 20);
            let process = row.process.map_or("-".to_owned(), |process| process.to_string());
            let name = row.name.unwrap_or_default();
            let name = crate::format::safe(&name);
            let _ = writeln!(
                text,
                "  {:>12} {:>14}  {bar:<20}  {process} {name}",
                row.count, row.bytes
            );
        }
    }

    fn put_rate(&self, text: &mut String) {
        let Some((start, seconds, counts)) = self.views.rate() else { return };
        let largest = counts.iter().copied().max().unwrap_or(0);
        let _ = writeln!(text, "\n  {:>14} {:>12}  records a second, from {start}", "after", "");
        for (number, count) in counts.iter().enumerate() {
            let rate = *count as f64 / seconds;
            let after = number as f64 * seconds;
            let bar = breakdown::bar(*count, largest, 40);
            let _ = writeln!(text, "  {after:>12.6} s {rate:>12.0}  {bar}");
        }
    }

    fn put_losses(&self, text: &mut String) {
        let header = self.trace().header();
        let (events, buffers) = header.map_or((0, 0), |h| (h.events_lost, h.buffers_lost));
        let word = if events == 0 && buffers == 0 { "lost    " } else { "LOST    " };
        let _ = writeln!(text, "  {word} {events} events, {buffers} buffers");
        for (cause, count) in self.losses() {
            let _ = writeln!(text, "  LOST     {count} by {cause} records");
        }
        for ((cause, provider, pid), count) in &self.told {
            let cause = crate::format::safe(cause);
            let _ = write!(text, "  LOST     {count}: {cause}");
            if let Some(provider) = provider {
                let _ = write!(text, ", provider {provider}");
            }
            if let Some(pid) = pid {
                let _ = write!(text, ", process {pid}");
            }
            text.push('\n');
        }
    }

    fn put_tables(&self, text: &mut String) {
        let _ = writeln!(text, "\n  {:>12}  header", "records");
        for (header, count) in &self.by_header {
            let _ = writeln!(text, "  {count:>12}  {header}");
        }
        let _ = writeln!(
            text,
            "\n  {:>12} {:>14} {:>6} {:>4} {:>4}  provider / event",
            "records", "payload bytes", "id", "ver", "op"
        );
        let number = |value: Option<u16>| value.map_or("-".into(), |value| value.to_string());
        for row in &self.rows {
            let provider = match (&row.provider_name, row.provider) {
                (Some(name), _) => name.clone(),
                (None, Some(guid)) => match Hook::name_of_class(guid) {
                    Some(class) => format!("{class} {{{guid}}}"),
                    None => format!("{{{guid}}}"),
                },
                (None, None) => "-".into(),
            };
            let name = format!("{provider} / {}", row.event.as_deref().unwrap_or("-"));
            let name: String =
                name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
            let fit = row.fit.to_text();
            let _ = writeln!(
                text,
                "  {:>12} {:>14} {:>6} {:>4} {:>4}  {name}{fit}",
                row.count,
                row.bytes,
                number(row.id),
                number(row.version.map(u16::from)),
                number(row.opcode.map(u16::from)),
            );
        }
        if self.more.count > 0 {
            let (count, bytes) = (self.more.count, self.more.bytes);
            let _ = writeln!(text, "  {count:>12} {bytes:>14}  further kinds of events");
        }
    }
}
