//! [`Counted`]: the counts of a trace.

use super::fit::FitCounts;
use super::losses::Losses;
use crate::breakdown::Views;
use crate::event_kinds::{EventKinds, ResolvedKind};
use crate::filter_names::FilterNames;
use crate::join::Names;
use crate::output::Progress;
use crate::where_filter::{Filter, TraceNames};
use etw_decode::{Catalog, Decoder, Store, Style};
use etw_etl::read::{Records, TraceFile};
use etw_types::{Clock, EventRecord, FileTime, Guid, HeaderType, Hook};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The counts of a trace.
pub struct Counted {
    pub views: Views,
    pub records: Records,
    pub total: u64,
    /// Times of the first and the last event.
    pub span: Option<(FileTime, FileTime)>,
    /// By the header and its name, in the order of headers.
    pub by_header: BTreeMap<(HeaderType, &'static str), u64>,
    pub losses: Losses,
    pub rows: Vec<EventRow>,
    /// Records without a row of their own.
    pub more: Row,
    /// Rows of each table that are shown.
    pub top: usize,
}

/// Counts of records.
#[derive(Clone, Default)]
pub struct Row {
    pub count: u64,
    pub bytes: u64,
    pub fit: FitCounts,
}

/// A kind of event and its counts.
pub struct EventRow {
    pub provider: Option<Guid>,
    pub provider_name: Option<String>,
    pub event: Option<String>,
    pub id: Option<u16>,
    pub version: Option<u8>,
    pub opcode: Option<u8>,
    pub count: u64,
    pub bytes: u64,
    pub fit: FitCounts,
}

/// A provider and its counts.
pub struct ProviderRow {
    pub guid: Option<Guid>,
    pub name: Option<String>,
    pub count: u64,
    pub bytes: u64,
}

/// A decoder with the user's schemas.
fn new_decoder(store: Arc<Store>, schemas: &UserSchemas) -> Decoder {
    let mut decoder = Decoder::with_store(store);
    decoder.set_catalog(schemas.named.clone());
    decoder.set_own_catalog(schemas.own.clone());
    // The counts of all kinds need memory, too.
    decoder.set_cache_limit(8 << 20);
    decoder
}

/// The schemas that the user named, and those that the user registered.
struct UserSchemas {
    named: Arc<Catalog>,
    own: Arc<Catalog>,
}

/// Counts a trace. `by_process`: also by process, for which the trace is read once before.
pub fn count(trace: TraceFile, catalog: &Arc<Catalog>, by_process: bool) -> Counted {
    count_where(trace, catalog, None, by_process)
}

/// The same of those records for which `filter` holds.
pub(super) fn count_where(
    trace: TraceFile,
    catalog: &Arc<Catalog>,
    filter: Option<&Filter>,
    by_process: bool,
) -> Counted {
    let own = crate::schemas::own_for(std::slice::from_ref(&trace));
    let schemas = UserSchemas { named: catalog.clone(), own };
    let gather = || {
        let records = Records::new(vec![trace.clone()]);
        Arc::new(Names::gather(records, new_decoder(Arc::default(), &schemas)))
    };
    let names = by_process.then(gather);
    let mut selector = filter.map(|filter| Selector::new(filter, &trace, &schemas, names.as_ref()));
    let mut counter = Counter::new(*trace.clock(), &schemas, names);
    let mut records = Records::new(vec![trace]);
    let mut progress = Progress::of(records.files());
    while let Some(record) = records.next() {
        progress.count(record.position);
        let time = record.timestamp(&counter.clock);
        if let Some(selector) = &mut selector
            && !selector.selects(&record, time)
        {
            counter.learn(&record);
            continue;
        }
        counter.add(&record, time);
    }
    drop(progress);
    if let Some(selector) = selector {
        let store = counter.reader.store().clone();
        let names = || TraceNames::of(selector.kinds, new_decoder(store, &schemas));
        selector.filter.report(counter.total, names);
    }
    counter.finish(records)
}

/// Decides which records are counted.
struct Selector<'f> {
    filter: &'f Filter,
    /// Knows all schemas of the trace: records may be described behind them.
    decoder: Decoder,
    style: Style,
    names: FilterNames,
    /// Kinds of all records, for notes on names that no record has.
    kinds: EventKinds,
}

impl<'f> Selector<'f> {
    /// `names`: those of the trace, if they are known.
    fn new(
        filter: &'f Filter,
        trace: &TraceFile,
        schemas: &UserSchemas,
        names: Option<&Arc<Names>>,
    ) -> Selector<'f> {
        let gathered = filter.needs_schema().then(|| crate::dump::gather(vec![trace.clone()]));
        let mut decoder = new_decoder(gathered.unwrap_or_default(), schemas);
        decoder.set_learning(false);
        let traces = std::slice::from_ref(trace);
        let names = match names {
            Some(names) => FilterNames::known(names.clone()),
            None => FilterNames::of(Some(filter), traces, &schemas.named, &schemas.own),
        };
        Selector { filter, decoder, style: Style::default(), names, kinds: EventKinds::default() }
    }

    fn selects(&mut self, record: &EventRecord<'_>, time: Option<FileTime>) -> bool {
        if self.filter.needs_names() {
            self.kinds.number(record);
        }
        let by_header = self.names.by_header(self.filter, record, time);
        let is_selected = by_header.unwrap_or_else(|| {
            let decoded = self.decoder.decode(record);
            let of = (record, &decoded);
            let is_selected = self.names.matches(self.filter, of, time, &self.style);
            if is_selected {
                self.filter.check_shown(&decoded);
            }
            is_selected
        });
        if is_selected {
            self.filter.mark_shown();
        }
        is_selected
    }
}

/// Counts while it reads.
struct Counter {
    clock: Clock,
    kinds: EventKinds,
    /// By the number of the kind.
    rows: Vec<Row>,
    /// Events without a row of their own.
    more: Row,
    /// For names of activities, which do not depend on the trace.
    decoder: Decoder,
    /// Decodes each record as a dump does, for how well schemas fit.
    reader: Decoder,
    views: Views,
    total: u64,
    span: Option<(FileTime, FileTime)>,
    by_header: BTreeMap<(HeaderType, &'static str), u64>,
    losses: Losses,
}

impl Counter {
    fn new(clock: Clock, schemas: &UserSchemas, names: Option<Arc<Names>>) -> Counter {
        let mut decoder = Decoder::new();
        decoder.set_learning(false);
        Counter {
            clock,
            kinds: EventKinds::default(),
            rows: Vec::new(),
            more: Row::default(),
            decoder,
            reader: new_decoder(Arc::default(), schemas),
            views: Views::new(names),
            total: 0,
            span: None,
            by_header: BTreeMap::new(),
            losses: Losses::default(),
        }
    }

    fn add(&mut self, record: &EventRecord<'_>, time: Option<FileTime>) {
        // The header's record has the time of the session's start.
        if let Some(time) =
            time.filter(|_| record.has_time && record.hook.is_none_or(|hook| hook.group() != 0))
        {
            let (first, last) = self.span.unwrap_or((time, time));
            self.span = Some((first.min(time), last.max(time)));
        }
        self.total += 1;
        let header = (record.header, record.header_name());
        *self.by_header.entry(header).or_insert(0) += 1;
        self.losses.add(record);
        let row = match self.kinds.number(record) {
            Some(number) => {
                if number >= self.rows.len() {
                    self.rows.resize(number + 1, Row::default());
                }
                &mut self.rows[number]
            }
            None => &mut self.more,
        };
        row.count += 1;
        row.bytes += record.payload.len() as u64;
        row.fit.add(record, &self.reader.decode(record));
        self.views.add(record, &mut self.decoder, time);
    }

    /// Learns schemas from a record that is not counted.
    fn learn(&mut self, record: &EventRecord<'_>) {
        if Store::is_schema_record(record) {
            self.reader.decode(record);
        }
    }

    fn finish(mut self, records: Records) -> Counted {
        drop(self.decoder);
        let mut rows = Vec::new();
        self.kinds.resolve(self.reader, |kind| {
            // The last kind comes first.
            let row =
                self.rows.drain(kind.number.min(self.rows.len())..).next().unwrap_or_default();
            if self.rows.len().is_power_of_two() {
                self.rows.shrink_to_fit();
            }
            if row.count > 0 {
                rows.push(EventRow::new(&kind, row));
            }
        });
        drop(self.rows);
        merge_equal(&mut rows);
        Counted {
            views: self.views,
            records,
            total: self.total,
            span: self.span,
            by_header: self.by_header,
            losses: self.losses,
            rows,
            more: self.more,
            top: usize::MAX,
        }
    }
}

impl EventRow {
    /// The row of a kind, named as a dump of its first record would with all schemas known.
    fn new(kind: &ResolvedKind<'_>, row: Row) -> EventRow {
        let (record, decoded) = (kind.record, kind.decoded);
        let is_event = record.header.is_event();
        let is_message = record.header == HeaderType::Message;
        let has_opcode = is_event || record.header.is_classic() || record.hook.is_some();
        let provider_name = match Store::is_schema_record(record) {
            true => Some("EventMetadata".into()),
            false => decoded.provider_name().map(|name| name.into_owned()),
        };
        let descriptor = &record.descriptor;
        EventRow {
            provider: record.provider,
            provider_name,
            event: kind.own_name.or_else(|| decoded.event_name()).map(String::from),
            id: (is_event || is_message).then_some(descriptor.id),
            version: (!is_message).then_some(descriptor.version),
            opcode: has_opcode.then_some(descriptor.opcode.0),
            count: row.count,
            bytes: row.bytes,
            fit: row.fit,
        }
    }
}

/// Rows that differ only in what is not shown (bitness, field lists) become one; most frequent first.
fn merge_equal(rows: &mut Vec<EventRow>) {
    fn key(row: &EventRow) -> impl Ord + '_ {
        (row.provider, &row.provider_name, &row.event, row.id, row.version, row.opcode)
    }
    // Sorting in place needs no memory.
    rows.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
    rows.dedup_by(|next, kept| {
        let equal = key(next) == key(kept);
        if equal {
            kept.count += next.count;
            kept.bytes += next.bytes;
            kept.fit.merge(std::mem::take(&mut next.fit));
        }
        equal
    });
    rows.sort_unstable_by(|a, b| b.count.cmp(&a.count).then_with(|| key(a).cmp(&key(b))));
}

impl Counted {
    /// The rows that are shown, and the sums of all other records.
    pub fn shown_rows(&self) -> (&[EventRow], Row) {
        let (shown, others) = self.rows.split_at(self.top.min(self.rows.len()));
        let mut more = self.more.clone();
        for row in others {
            more.count += row.count;
            more.bytes += row.bytes;
            more.fit.merge(row.fit.clone());
        }
        (shown, more)
    }

    pub fn trace(&self) -> &TraceFile {
        &self.records.files()[0]
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
}
