//! An event log that is read as a trace has the same records and values.

use etw_decode::expr::Expr;
use etw_decode::{Decoder, Field, Source, Style, Value, Visitor};
use etw_etl::read::{Records, TraceFile};
use etw_eventlog::trace::{Order, Wanted, open, open_samples, open_selected};
use etw_evtx::tree::{Argument, Fragment, Instance, Node, Template};
use etw_evtx::value::ValueType;
use etw_evtx::write::{LogWriter, Retention};
use etw_evtx::{Log, json};
use etw_types::{EventRecord, FileTime, Guid};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// The real logs; `None` (with a message) where the folder is absent.
fn logs() -> Option<Vec<PathBuf>> {
    let folder =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/evtx/files");
    let Ok(entries) = fs::read_dir(&folder) else {
        eprintln!("skipped: no {}", folder.display());
        return None;
    };
    let mut logs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    logs.sort();
    Some(logs)
}

/// The texts of all values, in order.
#[derive(Default)]
struct Leaves(Vec<String>);

impl Leaves {
    /// Hex numbers without their leading zeros, texts without case.
    fn push(&mut self, text: &str) {
        let lower = text.to_ascii_lowercase();
        self.0.push(match lower.strip_prefix("0x") {
            Some(digits) => format!("0x{}", digits.trim_start_matches('0')),
            None => lower,
        });
    }

    fn push_json(&mut self, value: &serde_json::Value) {
        match value {
            serde_json::Value::Object(members) => {
                // Members of the map are sorted: the order of the fields is lost.
                members.values().for_each(|value| self.push_json(value));
            }
            serde_json::Value::Array(items) => items.iter().for_each(|value| self.push_json(value)),
            serde_json::Value::Null => {}
            serde_json::Value::String(text) => self.push(text),
            serde_json::Value::Number(number) => {
                self.push(&number.as_f64().map_or_else(|| number.to_string(), |n| n.to_string()));
            }
            other => self.push(&other.to_string()),
        }
    }
}

impl Visitor for Leaves {
    fn value(&mut self, _: &Field, value: Value<'_>) {
        let mut json = Vec::new();
        value.write_json(&mut json, &Style::default());
        self.push_json(&serde_json::from_slice(&json).unwrap());
    }
    fn begin_array(&mut self, _: &Field, _: usize) {}
    fn end_array(&mut self, _: &Field) {}
    fn begin_struct(&mut self, _: &Field) {}
    fn end_struct(&mut self, _: &Field) {}
}

/// A record as both readers have it. Traces are in order of time, logs in that of their records.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Facts {
    record_id: u64,
    time: i64,
    channel: String,
    provider: String,
    id: u16,
    values: Vec<String>,
}

fn facts_of_trace(trace: TraceFile) -> (Vec<Facts>, u64) {
    let clock = *trace.clock();
    let mut events = Records::new(vec![trace]);
    let mut decoder = Decoder::new();
    let mut all = Vec::new();
    while let Some(event) = events.next() {
        let item = event.log_item().unwrap();
        let decoded = decoder.decode(&event);
        assert_eq!(decoded.source(), Some(Source::EventLog));
        let mut leaves = Leaves::default();
        assert_eq!(decoded.visit(&event, &mut leaves), Ok(true));
        leaves.0.sort();
        all.push(Facts {
            record_id: item.record_id,
            time: event.timestamp(&clock).unwrap().0,
            channel: item.channel.to_owned(),
            provider: decoded.provider_name().unwrap_or_default().into_owned(),
            id: event.descriptor.id,
            values: leaves.0,
        });
    }
    all.sort();
    (all, events.damage().count())
}

fn facts_of_log(log: &Log) -> (Vec<Facts>, u64) {
    let mut records = log.records();
    let mut all = Vec::new();
    let mut last = 0;
    while let Some(record) = records.next().unwrap() {
        let system = record.system();
        let mut text = String::new();
        let data = record.data();
        if let Some((element, content)) = data.first() {
            json::push_data(&mut text, element, *content).unwrap();
        }
        let mut leaves = Leaves::default();
        if !text.is_empty() {
            leaves.push_json(&serde_json::from_str(&text).unwrap());
        }
        leaves.0.sort();
        // A damaged record may have lost its time.
        let time = system.time().unwrap_or(record.time()).0;
        last = if time > 0 { time } else { last };
        all.push(Facts {
            record_id: system.record_id().unwrap_or(record.id()),
            time: last,
            channel: system.channel().unwrap_or_default(),
            provider: system.provider_name().unwrap_or_default(),
            id: system.event_id().unwrap_or(0),
            values: leaves.0,
        });
    }
    all.sort();
    (all, records.damage().len() as u64)
}

#[test]
fn real_logs_have_the_same_values_as_traces() {
    let Some(logs) = logs() else { return };
    let mut compared = 0;
    for path in logs {
        let name = path.display();
        let (ours, our_damage) = facts_of_trace(etw_eventlog::trace::open(&path).unwrap());
        let (theirs, their_damage) = facts_of_log(&Log::open(&path).unwrap());
        assert_eq!((ours.len(), our_damage), (theirs.len(), their_damage), "{name}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "{name}");
        }
        compared += ours.len();
    }
    eprintln!("{compared} records compared");
    assert!(compared > 4000);
}

/// OV-22: a log of Windows XP is a trace, too; one in use that has wrapped.
#[test]
fn a_log_of_windows_xp_is_read_as_a_trace() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/evt_log/wrapped");
    assert!(etw_eventlog::trace::is_event_log(path.as_ref()));
    let log = etw_eventlog::trace::open(path.as_ref()).unwrap();
    let mut records = etw_etl::read::Records::new(vec![log]);
    let mut decoder = etw_decode::Decoder::new();
    let (mut ids, mut count) = (Vec::new(), 0);
    while let Some(record) = records.next() {
        let Some(item) = record.extended.find(etw_types::ExtType::EVENT_LOG) else { continue };
        let number = etw_types::LogItem::read(item).unwrap().record_id;
        assert_eq!(record.descriptor.id, 100 + number as u16);
        assert_eq!(record.descriptor.level.0, if number.is_multiple_of(3) { 2 } else { 4 });
        let decoded = decoder.decode(&record);
        assert_eq!(decoded.provider_name().as_deref(), Some("Shop"));
        ids.push(number);
        count += 1;
    }
    assert!(count > 15, "{count}");
    assert_eq!(ids, (41 - count..=40).collect::<Vec<u64>>());
}

/// An array of strings.
const TEXTS: ValueType = ValueType(ValueType::STRING.0 | ValueType::ARRAY);

/// A new log of `count` records of three providers, with an array each. Record `n` has the event id `n % 10` and is written `time(n)`
/// seconds after the first one.
fn log_of_three_providers(name: &str, count: u64, time: impl Fn(u64) -> i64) -> PathBuf {
    let element = |name: &str, children: Vec<Node>| Node::element(name, Vec::new(), children);
    let template = |provider: &str| {
        let system = vec![
            Node::element("Provider", vec![("Name", Node::text(provider))], vec![]),
            element("EventID", vec![Node::value(0, ValueType::UINT16)]),
            element("EventRecordID", vec![Node::value(1, ValueType::UINT64)]),
        ];
        let data = element("Data", vec![Node::value(2, TEXTS)]);
        let event = vec![element("System", system), element("EventData", vec![data])];
        Arc::new(Template::new(Guid::from_name(provider), vec![element("Event", event)]))
    };
    let templates = ["Shop", "Till", "Store"].map(template);
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_file(&path);
    let mut writer = LogWriter::open(&path, 1 << 24, Retention::Keep).unwrap();
    for number in 1..=count {
        let text = format!("item {number}\0{}\0", "x".repeat(200));
        let texts: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let (id, number_bytes) = (((number % 10) as u16).to_le_bytes(), number.to_le_bytes());
        let values =
            [(ValueType::UINT16, &id[..]), (ValueType::UINT64, &number_bytes), (TEXTS, &texts)];
        let arguments = values.map(|(value_type, bytes)| {
            Argument::Value(etw_evtx::value::Value { value_type, bytes })
        });
        let fragment = Fragment::Instance(Instance {
            template: templates[number as usize % 3].clone(),
            arguments: arguments.into(),
            has_header: true,
        });
        let time = FileTime(133_000_000_000_000_000 + time(number) * 10_000_000);
        writer.push(time, &fragment).unwrap();
    }
    writer.close().unwrap();
    path
}

/// The numbers of the records with the event id 7, in the order of the trace, with their values.
fn sevens(traces: Vec<TraceFile>) -> Vec<(u64, String, Vec<String>)> {
    let mut records = Records::new(traces);
    let mut decoder = Decoder::new();
    let mut sevens = Vec::new();
    while let Some(record) = records.next() {
        if record.descriptor.id == 7 {
            let decoded = decoder.decode(&record);
            let mut leaves = Leaves::default();
            assert_eq!(decoded.visit(&record, &mut leaves), Ok(true));
            let provider = decoded.provider_name().unwrap_or_default().into_owned();
            sevens.push((record.log_item().unwrap().record_id, provider, leaves.0));
        }
    }
    sevens
}

fn only_sevens(record: &EventRecord<'_>, time: Option<FileTime>) -> bool {
    assert!(time.is_some() && record.log_item().is_some());
    record.descriptor.id == 7
}

/// OV-22
#[test]
fn records_that_are_not_wanted_are_not_translated() {
    let path = log_of_three_providers("selected.evtx", 1000, |number| number as i64);
    let wanted = Wanted { by_header: &only_sevens, with_provider_name: false, order: Order::Alone };
    // A damaged chunk costs its own records, whether they are wanted or not.
    for is_damaged in [false, true] {
        if is_damaged {
            let mut bytes = fs::read(&path).unwrap();
            bytes[4096 + 0x10000..4096 + 0x10008].fill(0x5a);
            bytes[4096 + 0x10200..4096 + 0x18000].fill(0x5a);
            fs::write(&path, bytes).unwrap();
        }
        let all = open(&path).unwrap();
        let selected = open_selected(&path, wanted).unwrap();
        let expected = sevens(vec![all.clone()]);
        assert_eq!(selected.translated, expected.len() as u64);
        let mut records = Records::new(vec![all.clone()]);
        let count = std::iter::from_fn(|| records.next().map(|_| ())).count() as u64;
        assert_eq!(selected.left_out + selected.translated, count);
        assert_eq!(is_damaged, records.damage().count() > 0);
        assert_eq!(is_damaged, count < 1000);
        let mut wanted_records = Records::new(vec![selected.trace.clone()]);
        while wanted_records.next().is_some() {}
        assert_eq!(wanted_records.damage().count(), records.damage().count());
        let times = |trace: &TraceFile| trace.header().map(|one| (one.start_time, one.end_time));
        assert_eq!(times(&selected.trace), times(&all));
        assert_eq!(sevens(vec![selected.trace]), expected);
    }
}

/// OV-22: `--where` of a provider's name decides by the header.
#[test]
fn a_provider_is_decided_by_the_name_in_the_header() {
    let path = log_of_three_providers("providers.evtx", 300, |number| number as i64);
    for text in ["provider == 'Till'", "provider_name like 'ti*'", "not (provider ~ '^S')"] {
        let expr = Expr::parse(text, |_| Err("no times".to_owned())).unwrap();
        assert!(expr.names_providers());
        let by_header = |record: &EventRecord<'_>, time: Option<FileTime>| {
            expr.by_header(record, time) != Some(false)
        };
        let wanted =
            Wanted { by_header: &by_header, with_provider_name: true, order: Order::Alone };
        let selected = open_selected(&path, wanted).unwrap();
        assert_eq!((selected.translated, selected.left_out), (100, 200), "{text}");
        let names = sevens(vec![selected.trace]);
        assert!(names.len() == 10 && names.iter().all(|(_, name, _)| name == "Till"), "{text}");
    }
}

/// OV-22: notes on names need a few records of each kind.
#[test]
fn samples_of_a_log_have_every_kind_of_its_records() {
    // Times that go backwards make no difference.
    let path = log_of_three_providers("samples.evtx", 3000, |number| 5000 - number as i64);
    let samples = open_samples(&path).unwrap();
    let mut records = Records::new(vec![samples.clone()]);
    let count = std::iter::from_fn(|| records.next().map(|_| ())).count();
    assert_eq!(count, 3 * 10 * 4);
    let mut providers: Vec<String> =
        sevens(vec![samples]).into_iter().map(|(_, name, _)| name).collect();
    providers.sort();
    assert_eq!(providers, [["Shop"; 4], ["Store"; 4], ["Till"; 4]].concat());
}

/// OV-22: times that go backwards do not change the order of the records that are selected.
#[test]
fn selected_records_keep_their_order_where_times_go_backwards() {
    // Record 507, which is wanted, is earlier than all others; in the other log record 508, which is not.
    let one_early = |number: u64| if number == 507 { 1 } else { number as i64 };
    let other_early = |number: u64| if number == 508 { 1 } else { number as i64 };
    let early = log_of_three_providers("early_wanted.evtx", 1000, one_early);
    let other = log_of_three_providers("early_other.evtx", 1000, other_early);
    let sound = log_of_three_providers("no_early.evtx", 1000, |number| number as i64);
    for (paths, left_out) in [
        (vec![&early], 0),
        (vec![&other], 900),
        (vec![&sound, &other], 900),
        (vec![&early, &sound], 900),
    ] {
        let order = if paths.len() > 1 { Order::Merged } else { Order::Alone };
        let wanted = Wanted { by_header: &only_sevens, with_provider_name: false, order };
        let selected: Vec<_> =
            paths.iter().map(|path| open_selected(path, wanted).unwrap()).collect();
        assert_eq!(selected.iter().map(|one| one.left_out).sum::<u64>(), left_out, "{paths:?}");
        let all = paths.iter().map(|path| open(path).unwrap()).collect();
        let selected = selected.into_iter().map(|one| one.trace).collect();
        assert_eq!(sevens(selected), sevens(all), "{paths:?}");
    }
}
