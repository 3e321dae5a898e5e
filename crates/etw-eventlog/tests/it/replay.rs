//! The fuzz targets' corpus, replayed.

use etw_decode::Decoder;
use etw_eventlog::record::{RecordBuilder, RecordFacts};
use etw_evtx::write::ChunkWriter;
use etw_tracelogging::{Count, InType, MetadataBuilder, OutType, PayloadBuilder, provider_traits};
use etw_types::{EventRecord, ExtType, ExtendedItemsBuf, FileTime, Guid, HeaderType, LogItem};

#[path = "../../../../fuzz/src/replay.rs"]
mod replaying;
#[path = "../../../../fuzz/src/eventlog.rs"]
mod targets;

/// A chunk with an event of some fields, and one without a schema.
fn chunk() -> Vec<u8> {
    let metadata = MetadataBuilder::new("Sale", 0)
        .field("Count", InType::UINT32, OutType::NULL, Count::Scalar, 0)
        .structure("Shop", 2, Count::Scalar, 0)
        .field("Name", InType::COUNTEDSTRING, OutType::NULL, Count::Scalar, 0)
        .field("Prices", InType::DOUBLE, OutType::NULL, Count::Variable, 0)
        .finish()
        .unwrap();
    let name: Vec<u8> = "Müller".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let payload = PayloadBuilder::new()
        .u32(3)
        .value(InType::COUNTEDSTRING, &name)
        .count(2)
        .f64(1.5)
        .f64(2.0)
        .finish()
        .unwrap();
    let traits = provider_traits("OpenEtw.Shop", None).unwrap();
    let log = LogItem { record_id: 9, channel: "Shop", computer: "host", message: None };
    let described = ExtendedItemsBuf::from_items(&[
        (ExtType::EVENT_LOG, &log.to_bytes()[..]),
        (ExtType::PROV_TRAITS, &traits),
        (ExtType::EVENT_SCHEMA_TL, &metadata),
    ])
    .unwrap();
    let bare = ExtendedItemsBuf::new();
    let mut chunk = ChunkWriter::new();
    let mut builder = RecordBuilder::new();
    let mut decoder = Decoder::new();
    for (id, items) in [(1, &described), (2, &bare)] {
        let mut event = EventRecord::new(HeaderType::Event64, &payload);
        event.provider = Some(Guid::from_name("OpenEtw.Shop"));
        event.descriptor.id = 7;
        event.extended = items.as_items();
        let decoded = decoder.decode(&event);
        let time = FileTime(133_000_000_000_000_000);
        let facts = RecordFacts { id, time, channel: "Shop", computer: "host" };
        let pushed = builder.build(&event, &decoded, facts, |one| chunk.push(id, time, one));
        assert!(pushed.unwrap());
    }
    let mut bytes = chunk.to_bytes();
    bytes.truncate(chunk.size());
    bytes
}

/// P5
#[test]
fn records_of_any_bytes_become_events_and_records() {
    replaying::replay("eventlog_chunk", &[("whole", chunk())], 400, targets::eventlog_chunk);
}
