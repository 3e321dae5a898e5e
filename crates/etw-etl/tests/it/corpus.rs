//! Every record of every corpus file against an independent walk.

use crate::support::options;
use etw_etl::read::{Records, TraceFile};
use etw_types::{EventRecord, Guid, HeaderType, Hook};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

pub const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/corpus");

/// The corpus files by name, or none, having said so.
pub fn files() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(Path::new(CORPUS).join("etl")) else {
        println!("skipped: ../shared/corpus is absent");
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ext| ext == "etl"));
    files.sort();
    files
}

#[derive(Debug, PartialEq)]
struct Fact {
    buffer: u64,
    offset: u64,
    cpu: u64,
    header: String,
    time: Option<i64>,
    pid: Option<u64>,
    tid: Option<u64>,
    provider: Option<Guid>,
    id: Option<u64>,
    version: Option<u64>,
    opcode: Option<u64>,
    level: Option<u64>,
    keyword: Option<u64>,
    channel: Option<u64>,
    task: Option<u64>,
    activity: Option<Guid>,
    extended: Vec<u64>,
    message_flags: Option<u64>,
    payload_size: u64,
    sha: String,
}

impl Fact {
    fn of(record: &EventRecord<'_>) -> Fact {
        let event = record.header.is_event();
        let message = record.header == HeaderType::Message;
        let descriptor = &record.descriptor;
        let level = event || record.header.is_classic();
        let sha = Sha256::digest(record.payload);
        let extended = record.extended.into_iter().map(|item| u64::from(item.ext_type.0));
        Fact {
            buffer: record.position.buffer_index,
            offset: record.position.offset.into(),
            cpu: record.cpu.into(),
            header: record.header.name().into(),
            time: record.raw_timestamp(),
            pid: record.process_id.map(u64::from),
            tid: record.thread_id.map(u64::from),
            provider: record.provider,
            id: (event || message).then_some(descriptor.id.into()),
            version: (!message).then_some(descriptor.version.into()),
            opcode: (!message).then_some(descriptor.opcode.0.into()),
            level: level.then_some(descriptor.level.0.into()),
            keyword: event.then_some(descriptor.keyword.0),
            channel: event.then_some(descriptor.channel.0.into()),
            task: event.then_some(descriptor.task.into()),
            activity: (!record.activity_id.is_zero()).then_some(record.activity_id),
            extended: extended.collect(),
            message_flags: message.then_some(record.message_flags.0.into()),
            payload_size: record.payload.len() as u64,
            sha: sha[..8].iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    fn expected(line: &str) -> Fact {
        let line: Value = serde_json::from_str(line).unwrap();
        let number = |key: &str| {
            line[key].as_u64().or_else(|| {
                let text = line[key].as_str()?;
                u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
            })
        };
        let guid = |key: &str| {
            let text = line[key].as_str()?;
            match text.strip_prefix("group") {
                Some(group) => {
                    let group = u16::from_str_radix(group, 16).unwrap();
                    let kind = number("op").unwrap() as u16;
                    Hook(group << 8 | kind).class_guid()
                }
                None => Some(text.parse().unwrap()).filter(|guid: &Guid| !guid.is_zero()),
            }
        };
        let extended = line["ext"].as_array().map(Vec::as_slice).unwrap_or_default();
        Fact {
            buffer: number("buf").unwrap(),
            offset: number("off").unwrap(),
            cpu: number("cpu").unwrap(),
            header: line["ht"].as_str().unwrap().into(),
            time: line["ts"].as_i64(),
            pid: number("pid"),
            tid: number("tid"),
            provider: guid("prov"),
            id: number("id"),
            version: number("ver"),
            opcode: number("op"),
            level: number("lvl"),
            keyword: number("kw"),
            channel: number("ch"),
            task: number("task"),
            activity: guid("act"),
            extended: extended.iter().map(|item| item.as_u64().unwrap()).collect(),
            message_flags: number("mflags"),
            payload_size: number("plen").unwrap(),
            sha: line["sha"].as_str().unwrap().into(),
        }
    }
}

/// The facts by place; the times as they come must rise and nothing may be damaged.
fn read(path: &Path, threads: usize) -> Vec<Fact> {
    let file = TraceFile::open(path).unwrap();
    let mut records = Records::with_options(vec![file], options(threads));
    let mut facts = Vec::new();
    let mut last = i64::MIN;
    while let Some(record) = records.next() {
        assert!(record.order_time >= last, "{}: {:?}", path.display(), record.position);
        last = record.order_time;
        facts.push(Fact::of(&record));
    }
    assert!(records.damage().is_empty(), "{}: {:?}", path.display(), records.damage().kept());
    assert_eq!(records.out_of_order(0), 0, "{}", path.display());
    facts.sort_by_key(|fact| (fact.buffer, fact.offset));
    facts
}

#[test]
fn every_record_is_what_an_independent_walk_saw() {
    for path in files() {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let records = Path::new(CORPUS).join(format!("records/{name}.jsonl.gz"));
        let records = flate2::read::GzDecoder::new(std::fs::File::open(records).unwrap());
        let lines: Vec<String> = BufReader::new(records).lines().map(Result::unwrap).collect();
        let facts = read(&path, 0);
        assert_eq!(facts.len(), lines.len(), "{name}");
        for (number, (fact, line)) in facts.iter().zip(&lines).enumerate() {
            assert_eq!(*fact, Fact::expected(line), "{name}, record {number}");
        }
    }
}

#[test]
fn read_ahead_changes_nothing() {
    for path in files() {
        if path.metadata().unwrap().len() > 5 << 20 {
            continue;
        }
        let alone = read(&path, 0);
        for threads in [1, 2] {
            assert!(read(&path, threads) == alone, "{}, {threads} threads", path.display());
        }
    }
}
