//! The fuzz targets' corpus, replayed.

use std::sync::Arc;

use etw_evtx::layout::FileHeader;
use etw_evtx::tree::{Argument, Attribute, Element, Fragment, Instance, Node, Template};
use etw_evtx::value::{Value, ValueType};
use etw_evtx::write::ChunkWriter;
use etw_types::{FileTime, Guid};

#[path = "../../../../fuzz/src/replay.rs"]
pub mod replaying;
#[path = "../../../../fuzz/src/evtx.rs"]
pub mod targets;

/// A chunk with an event in `System`'s form, and data of every kind of value in a fragment of its own.
fn chunk() -> Vec<u8> {
    let values: Vec<(ValueType, Vec<u8>)> = (1..=0x15)
        .map(|number| {
            let value_type = ValueType(number);
            (value_type, vec![number; value_type.fixed_size().unwrap_or(6)])
        })
        .chain([(ValueType(0x81), b"a\0\0\0b\0\0\0".to_vec())])
        .collect();
    let data = values.iter().enumerate().map(|(index, (value_type, _))| {
        let name = Node::Text(format!("of type {value_type:?}"));
        let value = match index % 2 {
            0 => Node::optional_value(index as u16, *value_type),
            _ => Node::value(index as u16, *value_type),
        };
        Node::element("Data", vec![("Name", name)], vec![value])
    });
    let data = vec![Node::element("EventData", Vec::new(), data.collect())];
    let data = Arc::new(Template::new(Guid::from_name("data"), data));
    let arguments = values
        .iter()
        .map(|(value_type, bytes)| Argument::Value(Value { value_type: *value_type, bytes }));
    let inner = Instance { template: data, arguments: arguments.collect(), has_header: false };
    let name = Attribute {
        name: "Name".into(),
        value: vec![Node::text("Fuzz"), Node::EntityReference("amp".into())],
    };
    let system = vec![
        Node::element("EventID", Vec::new(), vec![Node::value(1, ValueType::UINT16)]),
        Node::Element(Element::new("Provider", vec![name], vec![])),
    ];
    let event = Node::element(
        "Event",
        Vec::new(),
        vec![Node::element("System", Vec::new(), system), Node::value(0, ValueType::FRAGMENT)],
    );
    let template = Arc::new(Template::new(Guid::from_name("event"), vec![event]));
    let mut writer = ChunkWriter::new();
    for id in 1..=3 {
        let instance = Instance {
            template: template.clone(),
            arguments: vec![
                Argument::Fragment(Box::new(Fragment::Instance(inner.clone()))),
                Argument::Value(Value { value_type: ValueType::UINT16, bytes: &[17, 0] }),
            ],
            has_header: true,
        };
        assert!(writer.push(id, FileTime(id as i64), &Fragment::Instance(instance)).unwrap());
    }
    let mut bytes = writer.to_bytes();
    bytes.truncate(writer.size());
    bytes
}

/// P5
#[test]
fn chunks_of_any_bytes_are_read() {
    let with = |options: u8, bytes: &[u8]| [&[options][..], bytes].concat();
    let chunk = chunk();
    let seeds =
        [("whole", with(0, &chunk)), ("dirty", with(1, &chunk)), ("stale", with(6, &chunk))];
    replaying::replay("evtx_chunk", &seeds, 400, targets::evtx_chunk);
}

/// P5
#[test]
fn logs_of_any_bytes_are_read() {
    let header = FileHeader {
        first_chunk: 0,
        last_chunk: 0,
        next_record_id: 4,
        minor: 1,
        major: 3,
        chunk_count: 1,
        flags: 0,
        is_sound: true,
    };
    let seeds = [("whole", [header.to_bytes(), chunk()].concat())];
    replaying::replay("evtx_log", &seeds, 400, targets::evtx_log);
}

/// P5
#[test]
fn queries_of_any_text_are_read_or_refused() {
    let query = "*[System[(EventID=4624 or band(Keywords,0x1)!=0) and TimeCreated[timediff(@SystemTime)<=1.5]]]";
    let list = "<QueryList><Query Path='A'><Select>*[EventData[Data[2]='x &amp; y']]</Select></Query></QueryList>";
    let seeds = [("query", query.as_bytes().to_vec()), ("list", list.as_bytes().to_vec())];
    replaying::replay("evtx_query", &seeds, 400, targets::evtx_query);
}
