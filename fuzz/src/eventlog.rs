//! Fuzz targets of `etw-eventlog`.

use etw_decode::Decoder;
use etw_etl::record::RecordContext;
use etw_eventlog::record::{RecordBuilder, RecordFacts};
use etw_eventlog::translate::Translator;
use etw_evtx::chunk::{Chunk, Options};
use etw_evtx::write::ChunkWriter;
use etw_types::{FileTime, LogItem};

/// A chunk's records as events, and these events as records of another chunk.
pub fn eventlog_chunk(data: &[u8]) {
    if let Some(item) = LogItem::read(data) {
        let bytes = item.to_bytes();
        assert!(LogItem::read(&bytes).is_some());
    }
    let mut chunk = Chunk::new(data.to_vec(), 4096, Options::default());
    let mut translator = Translator::new();
    let mut decoder = Decoder::new();
    let mut builder = RecordBuilder::new();
    let mut written = ChunkWriter::new();
    while let Some(record) = chunk.next() {
        let Ok((bytes, time)) = translator.stored(&record) else { continue };
        let Ok(event) = etw_etl::record::parse(bytes, &RecordContext::default()) else {
            panic!("an event that cannot be parsed");
        };
        let decoded = decoder.decode(&event);
        let facts = RecordFacts { id: 1, time: FileTime(time), channel: "", computer: "" };
        builder.build(&event, &decoded, facts, |fragment| {
            let _ = written.push(1, FileTime(time), fragment);
        });
        builder.build_cut(&event, &decoded, facts, |fragment| {
            let _ = written.push(1, FileTime(time), fragment);
        });
    }
    let mut again = Chunk::new(written.to_bytes(), 4096, Options::default());
    while again.next().is_some() {}
    assert_eq!(again.take_damage(), []);
}
