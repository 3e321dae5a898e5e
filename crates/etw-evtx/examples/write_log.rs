//! Appends records to a log until it is killed, and prints the id of the last record of each write that the system has.
//!
//! `cargo run -p etw-evtx --example write_log -- FILE SIZE overwrite|keep [IDS]`; IDS is the number of event ids
//!
//! A record's values follow from its id, so that `cargo xtask readers` can check what other readers have of it.

use etw_evtx::tree::{Argument, Fragment, Instance, Node, Template};
use etw_evtx::value::{Value, ValueType};
use etw_evtx::write::{LogWriter, Retention};
use etw_types::{FileTime, Guid};
use std::io::Write;
use std::sync::Arc;

fn template() -> Arc<Template> {
    let of = |name: &str, node| Node::element(name, vec![], vec![node]);
    let data = |name: &str, index, value_type| {
        let name = vec![("Name", Node::text(name))];
        Node::element("Data", name, vec![Node::value(index, value_type)])
    };
    let system = vec![
        Node::element("Provider", vec![("Name", Node::text("OpenEtw.Readers"))], vec![]),
        of("EventID", Node::value(0, ValueType::UINT16)),
        of("Level", Node::value(1, ValueType::UINT8)),
        Node::element(
            "TimeCreated",
            vec![("SystemTime", Node::value(2, ValueType::FILETIME))],
            vec![],
        ),
        of("EventRecordID", Node::value(3, ValueType::UINT64)),
        of("Channel", Node::text("OpenEtw/Readers")),
        of("Computer", Node::text("host")),
    ];
    let values = vec![
        data("Number", 7, ValueType::UINT64),
        data("Text", 4, ValueType::STRING),
        data("Bytes", 5, ValueType::BINARY),
        data("Guid", 6, ValueType::GUID),
    ];
    let event =
        vec![Node::element("System", vec![], system), Node::element("EventData", vec![], values)];
    Arc::new(Template::new(Guid::from_name("readers"), vec![Node::element("Event", vec![], event)]))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (path, size, retention, ids) = match &arguments[..] {
        [path, size, retention] => (path, size, retention, 60_000),
        [path, size, retention, ids] => (path, size, retention, ids.parse::<u64>()?),
        _ => return Err("usage: write_log FILE SIZE overwrite|keep [IDS]".into()),
    };
    let retention = match retention.as_str() {
        "overwrite" => Retention::Overwrite,
        _ => Retention::Keep,
    };
    let mut log = LogWriter::open(path, size.parse()?, retention)?;
    let template = template();
    let mut out = std::io::stdout();
    loop {
        let id = log.next_id();
        let time = 133_000_000_000_000_000 + id as i64 * 10_000;
        let text: Vec<u8> =
            format!("text {id} <gr\u{fc}\u{df}e> {}", "x".repeat((id % 90) as usize))
                .encode_utf16()
                .flat_map(u16::to_le_bytes)
                .collect();
        let (id_bytes, time_bytes) = (id.to_le_bytes(), time.to_le_bytes());
        let event_id = ((id % ids) as u16).to_le_bytes();
        let guid = Guid::from_name("readers").0;
        let values: [(ValueType, &[u8]); 8] = [
            (ValueType::UINT16, &event_id),
            (ValueType::UINT8, &[4]),
            (ValueType::FILETIME, &time_bytes),
            (ValueType::UINT64, &id_bytes),
            (ValueType::STRING, &text),
            (ValueType::BINARY, &id_bytes[..3]),
            (ValueType::GUID, &guid),
            (ValueType::UINT64, &id_bytes),
        ];
        let arguments =
            values.map(|(value_type, bytes)| Argument::Value(Value { value_type, bytes }));
        let record =
            Instance { template: template.clone(), arguments: arguments.into(), has_header: true };
        match log.append(FileTime(time), &Fragment::Instance(record)) {
            Err(etw_evtx::Error::Full) => return Ok(log.close()?),
            appended => drop(appended?),
        }
        if id % 7 == 0 {
            log.sync()?;
            writeln!(out, "{id}")?;
        }
    }
}
