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

/// P5
#[test]
fn rights_of_any_text_are_read_or_refused() {
    let seeds = [
        (
            "windows",
            b"O:BAG:SYD:(A;;0xf0007;;;SY)(A;;0x7;;;BA)(A;;0x3;;;SO)(A;;0x1;;;S-1-5-32-573)"
                .to_vec(),
        ),
        ("deny", b"D:(D;;0x2;;;S-1-22-1-1000)(A;;0x3;;;WD)".to_vec()),
    ];
    replaying::replay("sddl", &seeds, 2000, targets::sddl);
}

/// P5
#[test]
fn settings_of_any_xml_are_read_or_refused() {
    let text = "<?xml version='1.0'?><channel name='Application' isolation='Application' enabled='true' \
                access='D:(A;;0x7;;;SY)' xmlns='http://schemas.microsoft.com/win/2004/08/events'><logging>\
                <retention>true</retention><autoBackup>true</autoBackup><maxSize>2097152</maxSize></logging>\
                <publishing><level>3</level><keywords>0x10</keywords></publishing></channel>";
    replaying::replay(
        "channel_settings",
        &[("whole", text.as_bytes().to_vec())],
        2000,
        targets::channel_settings,
    );
}

/// P5
#[test]
fn any_file_of_changes_leaves_settings_that_a_log_can_have() {
    let text = br#"{"channels": {"Application": {"enabled": true, "file": "/logs/a.evtx", "retention": true,
        "autoBackup": true, "maxSize": 2097152, "access": "D:(A;;0x7;;;BA)", "level": 3, "keywords": 16},
        "System": {"enabled": false, "maxSize": 1048577}, "Other/Admin": {"level": 2}}}"#;
    replaying::replay(
        "channel_changes",
        &[("whole", text.to_vec())],
        2000,
        targets::channel_changes,
    );
}

/// P5
#[test]
fn entries_of_any_journal_are_read_or_left_out() {
    let json = br#"{"__CURSOR":"s=1","__REALTIME_TIMESTAMP":"1700000000000000","PRIORITY":"3","SYSLOG_IDENTIFIER":"till","MESSAGE":[100,255]}"#;
    let export = b"__CURSOR=s=1\n__REALTIME_TIMESTAMP=1700000000000000\nPRIORITY=3\nMESSAGE\n\x05\0\0\0\0\0\0\0a\nb\nc\nSYSLOG_IDENTIFIER=till\n\n";
    let seeds = [("json", json.to_vec()), ("export", export.to_vec())];
    replaying::replay("journal", &seeds, 2000, targets::journal);
}

/// P5
#[test]
fn lines_of_any_syslog_are_read_or_left_out() {
    let lines = "<165>1 2026-11-22T10:00:00.003Z host till 12 ID47 [a@1 b=\"c]\"] drawer open\n\
                 <3>Nov 22 10:00:00 host till[12]: drawer open\n\
                 2026-11-22T10:00:00.003+01:00 host till: drawer closed\n";
    replaying::replay("syslog_lines", &[("forms", lines.into())], 2000, targets::syslog_lines);
}
