//! Templates that a log knows from one chunk, and shapes that it has plans for, in chunks that differ.

use std::sync::Arc;

use etw_evtx::Log;
use etw_evtx::chunk::Chunk;
use etw_evtx::layout::{FILE_NO_CHECKSUM, FileHeader};
use etw_evtx::tree::{Argument, Fragment, Instance, Node, Template};
use etw_evtx::value::{Value, ValueType};
use etw_evtx::write::ChunkWriter;
use etw_types::{FileTime, Guid};

/// A chunk with records of two templates. The second one uses the name `Event` of the first one's definition.
fn chunk(first_id: u64) -> Vec<u8> {
    let templates = ["First", "Second"].map(|name| {
        let value = Node::element(name, vec![], vec![Node::value(0, ValueType::UINT16)]);
        let event = Node::element("Event", vec![], vec![value]);
        Arc::new(Template::new(Guid::from_name(name), vec![event]))
    });
    let mut writer = ChunkWriter::new();
    for id in first_id..first_id + 8 {
        let value = Value { value_type: ValueType::UINT16, bytes: &(id as u16).to_le_bytes() };
        let instance = Instance {
            template: templates[(id % 2) as usize].clone(),
            arguments: vec![Argument::Value(value)],
            has_header: true,
        };
        assert!(writer.push(id, FileTime(1), &Fragment::Instance(instance)).unwrap());
    }
    writer.to_bytes()
}

/// Replaces each occurrence of some bytes.
fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    let found = (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from));
    let found: Vec<usize> = found.collect();
    assert!(!found.is_empty());
    for at in found {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn json(chunk: &mut Chunk) -> Vec<String> {
    let mut all = Vec::new();
    let mut out = Vec::new();
    while let Some(record) = chunk.next_json(&mut out) {
        record.unwrap();
        all.push(String::from_utf8(std::mem::take(&mut out)).unwrap());
    }
    all
}

/// OV-22: a chunk whose names or sizes are others than those of the chunk before has its own JSON.
#[test]
fn a_chunk_that_differs_from_the_one_before_has_its_own_json() {
    let mut renamed = chunk(100);
    replace(&mut renamed, &utf16("Event"), &utf16("Evenx"));
    let mut shorter = chunk(200);
    // One value: its descriptor has a size of 1 byte.
    replace(&mut shorter, &[1, 0, 0, 0, 2, 0, 6, 0], &[1, 0, 0, 0, 1, 0, 6, 0]);
    let header = FileHeader {
        first_chunk: 0,
        last_chunk: 3,
        next_record_id: 400,
        minor: 1,
        major: 3,
        chunk_count: 4,
        flags: FILE_NO_CHECKSUM,
        is_sound: true,
    };
    let bytes = [header.to_bytes(), chunk(1), renamed, shorter, chunk(300)].concat();
    let log = Log::from_bytes(bytes.clone()).unwrap();
    let mut chunk = Chunk::default();
    let mut found = Vec::new();
    for location in log.chunks() {
        log.load(location, &mut chunk).unwrap();
        let all = json(&mut chunk);
        // A log of its own has learnt nothing from other chunks.
        let alone = Log::from_bytes(bytes.clone()).unwrap();
        assert_eq!(all, json(&mut alone.chunk(location).unwrap()));
        found.push(all);
    }
    assert_eq!(found[0][0], r#"{"Event":{"Second":1}}"#);
    assert_eq!(found[0][7], r#"{"Event":{"First":8}}"#);
    assert_eq!(found[1][0], r#"{"Evenx":{"First":100}}"#);
    assert_eq!(found[1][7], r#"{"Evenx":{"Second":107}}"#);
    assert_eq!(found[2][6], r#"{"Event":{"First":null}}"#);
    assert_eq!(found[3][7], r#"{"Event":{"Second":307}}"#);
}

/// A chunk with records of one template: an array of texts, and a number behind it. Each record has one text more, but for every seventh, which has none.
fn chunk_of_texts() -> Vec<u8> {
    let data =
        |index, value_type| Node::element("Data", vec![], vec![Node::value(index, value_type)]);
    let texts = data(0, ValueType(0x81));
    let number = Node::element("Number", vec![], vec![Node::value(1, ValueType::UINT16)]);
    let event = Node::element(
        "Event",
        vec![],
        vec![Node::element("EventData", vec![], vec![texts, number])],
    );
    let template = Arc::new(Template::new(Guid::from_name("texts"), vec![event]));
    let mut writer = ChunkWriter::new();
    for id in 0..20u16 {
        let texts: String = (0..id % 7).map(|index| format!("text {index} of \u{fc}\0")).collect();
        let (texts, number) = (utf16(&texts), id.to_le_bytes());
        let value = |value_type, bytes| Argument::Value(Value { value_type, bytes });
        let instance = Instance {
            template: template.clone(),
            arguments: vec![value(ValueType(0x81), &texts), value(ValueType::UINT16, &number)],
            has_header: true,
        };
        let id = u64::from(id) + 1;
        assert!(writer.push(id, FileTime(1), &Fragment::Instance(instance)).unwrap());
    }
    writer.to_bytes()
}

/// OV-22: events with arrays of texts have the same JSON when they are rendered by a plan.
#[test]
fn arrays_of_texts_have_the_same_json_with_a_plan() {
    let bytes = chunk_of_texts();
    let by_plan = json(&mut Chunk::new(bytes.clone(), 4096, Default::default()));
    assert_eq!(by_plan.len(), 20);
    for (index, by_plan) in by_plan.iter().enumerate() {
        // The first event that a chunk renders has no plan.
        let mut chunk = Chunk::new(bytes.clone(), 4096, Default::default());
        for _ in 0..index {
            chunk.next().unwrap();
        }
        assert_eq!(chunk.next().unwrap().to_json().unwrap(), *by_plan);
    }
    assert_eq!(by_plan[0], r#"{"Event":{"EventData":{"Number":0}}}"#);
    assert_eq!(
        by_plan[3],
        r##"{"Event":{"EventData":{"Data":"text 0 of ü","Data#2":"text 1 of ü","Data#3":"text 2 of ü","Number":3}}}"##
    );
}
