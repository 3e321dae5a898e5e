//! Bytes of all kinds: no panic, no hang, no unbounded work.

use etw_evtx::chunk::{Chunk, Options};
use etw_evtx::layout::{ChunkHeader, FIRST_RECORD, FileHeader};
use etw_evtx::query::Selector;
use etw_evtx::{DamageKind, Log};
use etw_types::FileTime;

use crate::corpus::logs;

fn read_all(chunk: &mut Chunk) -> usize {
    let mut records = 0;
    while let Some(record) = chunk.next() {
        records += 1;
        let _ = record.to_xml();
        let _ = record.to_json();
        let system = record.system();
        let _ = (system.event_id(), system.time(), system.user(), record.data().len());
    }
    records
}

/// A generator with a seed: the same bytes in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// Chunks that are changed in each run; `ETW_MUTATIONS` sets another number.
const MUTATIONS: usize = 500;

/// Changes some bytes behind the header, or, one time in four, anywhere.
fn change(bytes: &mut [u8], random: &mut Random) {
    let first = if random.below(4) == 0 { 0 } else { FIRST_RECORD };
    for _ in 0..1 + random.below(20) {
        let at = first + random.below(bytes.len() - first);
        bytes[at] = match random.below(4) {
            0 => 0xff,
            1 => 0,
            2 => bytes[at] ^ (1 << random.below(8)),
            _ => random.below(256) as u8,
        };
    }
}

/// OV-22: changed bytes cost records and nothing else. All ways to read a chunk find the same ones: one by one, as JSON at once, and by a
/// query that reads only its candidates.
#[test]
fn changed_bytes_cost_records_and_nothing_else() {
    let Some(logs) = logs() else { return };
    let mutations = std::env::var("ETW_MUTATIONS").ok().and_then(|number| number.parse().ok());
    let mutations = mutations.unwrap_or(MUTATIONS);
    let mut random = Random(0x5eed);
    let chunks: Vec<Vec<u8>> = logs
        .iter()
        .map(|path| Log::open(path).unwrap())
        .flat_map(|log| {
            let read = |location| log.chunk(location).unwrap().bytes().to_vec();
            log.chunks().iter().take(6).map(read).collect::<Vec<_>>()
        })
        .collect();
    let query = "*[System[Level<4 or band(Keywords, 1) or EventID>4000]]".parse().unwrap();
    let selector = Selector::query(query, FileTime(0));
    let mut read = 0;
    for number in 0..mutations {
        let mut bytes = chunks[number % chunks.len()].clone();
        change(&mut bytes, &mut random);
        let options = Options {
            is_dirty: random.below(2) == 0,
            stale: random.below(3) == 0,
            is_complete: random.below(2) == 0,
            ..Options::default()
        };
        let chunk = || Chunk::new(bytes.clone(), 4096, options);
        let (mut one, mut all, mut found) = (chunk(), chunk(), chunk());
        let mut out = Vec::new();
        while let Some(record) = one.next() {
            read += 1;
            let _ = (record.to_xml(), record.data().len());
            let json = record.to_json().unwrap();
            out.clear();
            let head = all.next_json(&mut out).unwrap().unwrap();
            assert!(head.id == record.id() && out == json.as_bytes(), "{number}");
            if selector.matches(&record).unwrap() {
                let same = loop {
                    let candidate = found.next_candidate(&selector).unwrap();
                    if selector.matches(&candidate).unwrap() {
                        break candidate.offset() == record.offset();
                    }
                };
                assert!(same, "{number}");
            }
        }
        assert!(all.next_json(&mut out).is_none(), "{number}");
        while let Some(candidate) = found.next_candidate(&selector) {
            assert!(!selector.matches(&candidate).unwrap(), "{number}");
        }
    }
    assert!(read > mutations, "{read} records of {mutations} chunks");
}

#[test]
fn a_log_cut_at_any_length_keeps_the_records_before() {
    let Some(logs) = logs() else { return };
    let bytes = std::fs::read(&logs[0]).unwrap();
    let whole = {
        let log = Log::from_bytes(bytes.clone()).unwrap();
        let mut records = log.records();
        let mut count = 0;
        while records.next().unwrap().is_some() {
            count += 1;
        }
        count
    };
    let mut before = 0;
    for size in (128..bytes.len()).step_by(9973) {
        let log = Log::from_bytes(bytes[..size].to_vec()).unwrap();
        let mut records = log.records();
        let mut count = 0;
        while records.next().unwrap().is_some() {
            count += 1;
        }
        assert!(count >= before && count <= whole, "{count} after {before} at {size}");
        before = count;
    }
}

/// Values that are substituted many times, in each other: the text is bounded, the error says so.
#[test]
fn a_record_that_expands_without_end_is_refused() {
    use etw_evtx::tree::*;
    use etw_evtx::value::{Value, ValueType};
    use std::sync::Arc;
    let substitution = Node::value(0, ValueType::FRAGMENT);
    let element = Node::element("x", vec![], vec![substitution; 16]);
    let template = Arc::new(Template::new(etw_types::Guid::from_name("laughs"), vec![element]));
    let mut argument = Argument::Value(Value { value_type: ValueType::UINT8, bytes: &[1] });
    for _ in 0..12 {
        let inner =
            Instance { template: template.clone(), arguments: vec![argument], has_header: true };
        argument = Argument::Fragment(Box::new(Fragment::Instance(inner)));
    }
    let Argument::Fragment(fragment) = argument else { unreachable!() };
    let mut writer = etw_evtx::write::ChunkWriter::new();
    assert!(writer.push(1, etw_types::FileTime(0), &fragment).unwrap());
    let mut chunk = Chunk::new(writer.to_bytes(), 0, Options::default());
    let record = chunk.next().unwrap();
    assert!(matches!(record.to_xml(), Err(etw_evtx::Error::TooLarge)));
    assert!(matches!(record.to_json(), Err(etw_evtx::Error::TooLarge)));
}

/// Four records in a chunk, which ends behind them, and the text of each.
fn four_records() -> (Vec<u8>, Vec<String>) {
    use etw_evtx::tree::*;
    use etw_evtx::value::{Value, ValueType};
    let node = Node::element("Number", vec![], vec![Node::value(0, ValueType::UINT8)]);
    let template = std::sync::Arc::new(Template::new(etw_types::Guid::from_name("n"), vec![node]));
    let mut writer = etw_evtx::write::ChunkWriter::new();
    for id in 1..=4u8 {
        let bytes = [id];
        let arguments =
            vec![Argument::Value(Value { value_type: ValueType::UINT8, bytes: &bytes })];
        let instance = Instance { template: template.clone(), arguments, has_header: true };
        assert!(writer.push(id.into(), FileTime(0), &Fragment::Instance(instance)).unwrap());
    }
    let texts = (1..=4).map(|id| format!("<Number>{id}</Number>")).collect();
    (writer.to_bytes(), texts)
}

fn texts_of(chunk: &mut Chunk) -> Vec<String> {
    let mut texts = Vec::new();
    while let Some(record) = chunk.next() {
        texts.push(record.to_xml().unwrap());
    }
    texts
}

/// The size behind a record is used if the one in front is wrong.
#[test]
fn a_wrong_size_in_front_of_a_record_costs_nothing() {
    let (bytes, texts) = four_records();
    let mut chunk = Chunk::new(bytes.clone(), 4096, Options::default());
    let mut offsets = Vec::new();
    while let Some(record) = chunk.next() {
        offsets.push((record.offset() - 4096) as usize);
    }
    for (at, id) in offsets.into_iter().zip(1..) {
        for size in [0u32, 24, 40, 4096, u32::MAX] {
            let mut bytes = bytes.clone();
            bytes[at + 4..at + 8].copy_from_slice(&size.to_le_bytes());
            let mut chunk = Chunk::new(bytes.clone(), 4096, Options::default());
            assert_eq!(texts_of(&mut chunk), texts, "record {id}, size {size}");
            let damage = chunk.take_damage();
            assert!(damage.iter().any(|one| one.kind == DamageKind::RecordSize { id }));
            let found = etw_evtx::chunk::with_record(&bytes, at, 4096, |record| record.id());
            assert_eq!(found, Some(id));
        }
    }
}

/// A header that ends the records before their last one is wrong, whatever its checksum says.
#[test]
fn a_header_that_ends_before_its_last_record_hides_none() {
    let (mut bytes, texts) = four_records();
    let mut header = ChunkHeader::read(&bytes).unwrap();
    header.free = header.last_record - 8;
    header.put(&mut bytes);
    assert_eq!(texts_of(&mut Chunk::new(bytes, 4096, Options::default())), texts);
}

#[test]
fn a_version_without_a_sound_checksum_is_not_believed() {
    let mut bytes = FileHeader {
        first_chunk: 0,
        last_chunk: 0,
        next_record_id: 5,
        minor: 1,
        major: 3,
        chunk_count: 1,
        flags: 0,
        is_sound: true,
    }
    .to_bytes();
    let (chunk, texts) = four_records();
    bytes.extend(chunk);
    bytes[38] = 186;
    let log = Log::from_bytes(bytes).unwrap();
    assert_eq!(log.records().damage()[0].kind, DamageKind::FileHeader);
    let mut records = log.records();
    let mut found = Vec::new();
    while let Some(record) = records.next().unwrap() {
        found.push(record.to_xml().unwrap());
    }
    assert_eq!(found, texts);
}

#[test]
fn random_chunks_have_no_records() {
    let mut random = Random(7);
    for _ in 0..200 {
        let mut bytes: Vec<u8> = (0..65536).map(|_| random.below(256) as u8).collect();
        let header = ChunkHeader {
            first_number: 1,
            last_number: 9,
            first_id: 1,
            last_id: 9,
            last_record: 512,
            free: 65536,
            records_checksum: 0,
            flags: 1,
            header_checksum: 0,
        };
        header.put(&mut bytes);
        assert_eq!(read_all(&mut Chunk::new(bytes, 4096, Options::default())), 0);
    }
}
