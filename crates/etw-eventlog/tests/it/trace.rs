//! An event log that is read as a trace has the same records and values.

use etw_decode::{Decoder, Field, Source, Style, Value, Visitor};
use etw_etl::read::{Records, TraceFile};
use etw_evtx::{Log, json};
use std::fs;
use std::path::PathBuf;

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
