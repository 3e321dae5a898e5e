//! Trace files and their events, for the tests of the sink.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use etw::{Guid, Keyword, Level, Session};
use etw_etl::read::{Records, TraceFile};
use etw_log_sink::EtwSink;

pub struct TempPath(pub PathBuf);

impl TempPath {
    pub fn new(name: &str) -> TempPath {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("etw-log-sink-{}-{number}-{name}.etl", std::process::id());
        TempPath(std::env::temp_dir().join(name))
    }
}

impl Drop for TempPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// An event of the sink as it lies in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub level: u8,
    pub channel: u8,
    pub opcode: u8,
    pub id: u16,
    pub keyword: u64,
    pub traits: Vec<u8>,
    pub metadata: Vec<u8>,
    pub payload: Vec<u8>,
    /// The decoded form.
    pub event: String,
    pub fields: Vec<(String, String)>,
}

pub fn read(path: &TempPath, provider: Guid) -> Vec<Seen> {
    let mut records = Records::new(vec![TraceFile::open(&path.0).unwrap()]);
    let mut decoder = etw_decode::Decoder::new();
    let mut seen = Vec::new();
    while let Some(record) = records.next() {
        if record.provider != Some(provider) {
            continue;
        }
        let item = |wanted: u16| {
            let mut items = record.extended.into_iter();
            items.find(|i| i.ext_type.0 == wanted).map(|i| i.data.to_vec()).unwrap_or_default()
        };
        let decoded = decoder.decode(&record);
        let mut fields = Fields::default();
        let _ = decoded.visit(&record, &mut fields);
        let d = &record.descriptor;
        seen.push(Seen {
            level: d.level.0,
            channel: d.channel.0,
            opcode: d.opcode.0,
            id: d.id,
            keyword: d.keyword.0,
            traits: item(12),
            metadata: item(11),
            payload: record.payload.to_vec(),
            event: decoded.event_name().map(|n| n.to_string()).unwrap_or_default(),
            fields: fields.0,
        });
    }
    seen
}

#[derive(Default)]
struct Fields(Vec<(String, String)>);

impl etw_decode::Visitor for Fields {
    fn value(&mut self, field: &etw_decode::Field, value: etw_decode::Value<'_>) {
        let mut text = Vec::new();
        value.write_text(&mut text, &etw_decode::Style::default());
        self.0.push((field.name.to_string(), String::from_utf8(text).unwrap()));
    }

    fn begin_array(&mut self, _: &etw_decode::Field, _: usize) {}

    fn end_array(&mut self, _: &etw_decode::Field) {}

    fn begin_struct(&mut self, field: &etw_decode::Field) {
        self.0.push((field.name.to_string(), "{".into()));
    }

    fn end_struct(&mut self, _: &etw_decode::Field) {
        self.0.push((String::new(), "}".into()));
    }
}

/// A sink with a provider of its own, already registered, under a session; what `run` logs.
pub fn record(number: u128, run: impl FnOnce(&'static EtwSink)) -> Vec<Seen> {
    record_at(number, Level::VERBOSE, run)
}

pub fn record_at(number: u128, level: Level, run: impl FnOnce(&'static EtwSink)) -> Vec<Seen> {
    let id = Guid::from_u128(0x106_0000 + number);
    let sink: &'static EtwSink = Box::leak(Box::new(EtwSink::new()));
    sink.set_provider(id, "Test.Log");
    assert!(sink.ensure_registered());
    let path = TempPath::new("events");
    let session = Session::builder("log").file(&path.0).portable().start().unwrap();
    session.enable(&id, level, Keyword(0)).unwrap();
    run(sink);
    let etw::Stopped { statistics, result } = session.stop_with_statistics();
    result.unwrap();
    assert!(statistics.ledger.is_balanced());
    read(&path, id)
}

/// The metadata that the requirements describe, by hand: `properties` are names with their NUL and type bytes.
pub fn metadata(name: &str, properties: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0x80, 0];
    bytes.extend(name.as_bytes());
    bytes.extend(b"\0content\0\x02file\0\x02func\0\x02line\0\x07");
    bytes.extend(properties);
    let size = bytes.len() as u16;
    bytes[..2].copy_from_slice(&size.to_le_bytes());
    bytes
}
