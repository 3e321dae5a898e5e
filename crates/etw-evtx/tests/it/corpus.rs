//! Real logs, beside the records that another reader finds in them.

use std::fs;
use std::io::Read;
use std::path::PathBuf;

use etw_evtx::chunk::Chunk;
use etw_evtx::{DamageKind, Log};
use serde_json::{Map, Value};

/// The real logs; `None` (with a message) where the folder is absent.
pub fn logs() -> Option<Vec<PathBuf>> {
    let folder =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/evtx/files");
    let Ok(entries) = fs::read_dir(&folder) else {
        eprintln!("skipped: no {}", folder.display());
        return None;
    };
    let mut logs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    logs.sort();
    assert!(!logs.is_empty());
    Some(logs)
}

/// Ids, times and JSON of the records that another reader found.
fn expected(log: &std::path::Path) -> Vec<(u64, String, Value)> {
    let name = format!("{}.jsonl.gz", log.file_stem().unwrap().to_str().unwrap());
    let packed =
        fs::read(log.parent().unwrap().parent().unwrap().join("records").join(name)).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    let records = text.lines().map(|line| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        let time = record["timestamp"].as_str().unwrap().trim_end_matches(" UTC");
        let time = time.trim_end_matches('Z').to_owned();
        (record["id"].as_u64().unwrap(), time, record["event"].take())
    });
    records.collect()
}

/// Both forms as one: every scalar as a text without case, braces and trailing zeros of times; unnamed data as one list.
fn normal(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut out = Map::new();
            let mut members: Vec<_> = object.iter().collect();
            let number = |name: &str| name.rsplit_once('#').and_then(|(_, n)| n.parse().ok());
            members.sort_by_key(|(name, _)| number(name).unwrap_or(0u32));
            for (name, value) in members {
                let base = name.split('#').next().filter(|base| !base.is_empty()).unwrap_or(name);
                let value = normal(value);
                // The other reader shows elements whose value is absent, and leaves attributes out that are empty.
                let is_empty = value == "" || value.as_object().is_some_and(Map::is_empty);
                if is_empty && !object.contains_key(&format!("{base}#2")) && base == name {
                    continue;
                }
                match out.get_mut(base) {
                    Some(Value::Array(known)) => known.push(value),
                    Some(known) => *known = Value::Array(vec![known.take(), value]),
                    None => {
                        out.insert(base.to_owned(), value);
                    }
                }
            }
            // The other reader has the list of unnamed data as text of one element.
            match out.len() {
                1 if out.contains_key("#text") => out["#text"].take(),
                _ => Value::Object(out),
            }
        }
        Value::Array(items) => match &items[..] {
            [one] => normal(one),
            _ => Value::Array(items.iter().map(normal).collect()),
        },
        Value::Null => Value::String(String::new()),
        Value::String(text) => Value::String(normal_text(text)),
        other => Value::String(normal_text(&other.to_string())),
    }
}

fn normal_text(text: &str) -> String {
    let text = text.to_ascii_lowercase();
    let text = text.trim_start_matches('{').trim_end_matches('}');
    match text.strip_suffix('z').and_then(|time| time.split_once('.')) {
        // The other reader has times to the microsecond.
        Some((seconds, fraction)) if fraction.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{seconds}.{}", &format!("{fraction:0<6}")[..6])
        }
        _ => text.trim_end_matches('\0').trim().to_owned(),
    }
}

/// A time without the zeros behind its last decimal.
fn shortest(time: &str) -> &str {
    match time.contains('.') {
        true => time.trim_end_matches('0').trim_end_matches('.'),
        false => time,
    }
}

#[test]
fn real_logs_have_the_records_of_another_reader() {
    let Some(logs) = logs() else { return };
    for path in logs {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let log = Log::open(&path).unwrap();
        let mut records = log.records();
        let mut ours = Vec::new();
        while let Some(record) = records.next().unwrap() {
            let json: Value = serde_json::from_str(&record.to_json().unwrap()).unwrap();
            let time = record.time().to_string();
            ours.push((record.id(), time.trim_end_matches('Z').to_owned(), json));
        }
        let theirs = expected(&path);
        let mut damaged = Vec::new();
        for damage in records.damage() {
            eprintln!("{name}: {damage}");
            if let DamageKind::Value { id, .. } | DamageKind::Unclosed { id } = damage.kind {
                damaged.push(id);
            }
        }
        let mut differences = 0;
        for (id, time, json) in &theirs {
            let Some((_, our_time, ours)) = ours.iter().find(|(ours, _, _)| ours == id) else {
                panic!("{name}: record {id} is missing");
            };
            assert_eq!(shortest(our_time), shortest(time), "{name} {id}");
            let (theirs, ours) = (normal(json), normal(ours));
            // Readers may differ on bytes that are not binary XML.
            if theirs != ours && !damaged.contains(id) {
                differences += 1;
                if differences < 4 {
                    eprintln!("{name} {id}:\n  theirs {theirs}\n  ours   {ours}");
                }
            }
        }
        eprintln!("{name}: {} records, {} theirs, {differences} differ", ours.len(), theirs.len());
        assert_eq!(differences, 0, "{name}");
        assert!(ours.len() >= theirs.len(), "{name}");
    }
}

/// OV-22: the JSON of records that are read at once is that of each record alone, in logs whose templates the chunks before have taught.
#[test]
fn real_logs_have_the_same_json_in_one_step() {
    let Some(logs) = logs() else { return };
    for path in logs {
        let log = Log::open(&path).unwrap();
        let mut all = Chunk::default();
        let mut count = 0;
        for location in log.chunks() {
            // A log of its own has no templates of other chunks.
            let mut one = Log::open(&path).unwrap().chunk(location).unwrap();
            log.load(location, &mut all).unwrap();
            let mut out = Vec::new();
            while let Some(record) = one.next() {
                out.clear();
                assert_eq!(all.next_json(&mut out).unwrap().unwrap().id, record.id());
                assert_eq!(String::from_utf8(out.clone()).unwrap(), record.to_json().unwrap());
                count += 1;
            }
            assert!(all.next_json(&mut out).is_none());
            assert_eq!(all.take_damage(), one.take_damage());
        }
        assert!(count > 0, "{}", path.display());
    }
}
