//! Records of the EventTrace class.

use crate::support::json_of;
use etw_decode::{Decoder, Reason, Source};
use etw_etl::write::FileBuilder;
use etw_types::{EVENT_TRACE, EventRecord, HeaderType, Hook, Opcode};

fn json(hook: u16, payload: &[u8]) -> Option<String> {
    let mut record = EventRecord::new(HeaderType::PerfInfo64, payload);
    record.hook = Some(Hook(hook));
    let mut decoder = Decoder::new();
    let decoded = decoder.decode(&record);
    decoded.schema()?;
    assert_eq!(decoded.source(), Some(Source::Header));
    json_of(&decoded, &record).ok()
}

#[test]
fn the_logfile_header_in_both_widths() {
    for (pointer_size, header) in [(4, HeaderType::System32), (8, HeaderType::System64)] {
        let mut logfile = FileBuilder::new().header.logfile;
        logfile.pointer_size = pointer_size;
        logfile.timer_sources = [10, 7];
        let payload = logfile.to_payload();
        let mut record = EventRecord::new(header, &payload);
        record.hook = Some(Hook(0));
        record.pointer_size = pointer_size as u8;
        let mut decoder = Decoder::new();
        let decoded = decoder.decode(&record);
        assert_eq!(decoded.event_name(), Some("EventTrace/Header"));
        let json = json_of(&decoded, &record).unwrap();
        for part in [
            "\"BufferSize\":65536,",
            "\"LogFileMode\":\"0x1\",",
            &format!("\"PointerSize\":{pointer_size},"),
            "\"LoggerName\":\"0xa\",\"LogFileName\":\"0x7\",",
            "\"PerfFreq\":10000000,\"StartTime\":\"2026-01-02T03:04:05.0000000Z\",",
            "\"SessionNameString\":\"openetw\",\"LogFileNameString\":\"openetw.etl\"}",
        ] {
            assert!(json.contains(part), "{part} in {json}");
        }
    }
}

#[test]
fn records_beside_the_header_are_decoded() {
    let masks: Vec<u8> = (1u32..=9).flat_map(u32::to_le_bytes).collect();
    let with_version = json(0x05, &masks).unwrap();
    assert!(with_version.starts_with("{\"GroupMask1\":\"0x1\","));
    assert!(with_version.ends_with("\"GroupMask8\":\"0x8\",\"KernelEventVersion\":\"0x9\"}"));
    assert!(json(0x20, &masks[..32]).unwrap().ends_with("\"GroupMask8\":\"0x8\"}"));
    assert_eq!(json(0x08, &[]).as_deref(), Some("{}"));
    assert_eq!(json(0x42, b"lab\0").as_deref(), Some("{\"BuildString\":\"lab\"}"));
    let mut pdb = vec![0x11; 16];
    pdb.extend([2, 0, 0, 0]);
    pdb.extend(b"a.pdb\0");
    assert_eq!(
        json(0x40, &pdb).as_deref(),
        Some("{\"Guid\":\"11111111-1111-1111-1111-111111111111\",\"Age\":2,\"PdbName\":\"a.pdb\"}")
    );
    let mut partition = vec![1, 0, 0, 0, 4, 0, 0, 0];
    partition.extend((-5i64).to_le_bytes());
    partition.extend([0x22; 32]);
    let text = json(0x50, &partition).unwrap();
    assert!(text.starts_with(
        "{\"EventVersion\":1,\"Reserved\":0,\"PartitionType\":4,\"QpcOffsetFromRoot\":-5,"
    ));
    assert!(text.ends_with("\"ParentId\":\"22222222-2222-2222-2222-222222222222\"}"));
    let mut times = vec![2, 0, 0, 0, 0, 0, 0, 0];
    times.extend([7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        json(0x52, &times).as_deref(),
        Some("{\"TimeStampCount\":2,\"Padding\":0,\"TimeStamp\":[7,9]}")
    );
    let mut path = vec![1, 0, 0, 0];
    path.extend([0x33; 16]);
    path.extend([b'x', 0, 0, 0]);
    assert!(json(0x43, &path).unwrap().ends_with("\"BinaryPath\":\"x\"}"));
}

#[test]
fn an_unknown_type_of_the_group_has_a_reason() {
    assert_eq!(json(0x77, &[]), None);
    assert_eq!(json(0x40, &[1, 2, 3]), None, "too short for its fields");
    let mut decoder = Decoder::new();
    let mut record = EventRecord::new(HeaderType::System64, &[]);
    for (hook, reason) in [(0x0363, Reason::NoKernelClass), (0xff01, Reason::UnknownGroup)] {
        record.hook = Some(Hook(hook));
        assert_eq!(decoder.decode(&record).reason(), Some(&reason));
    }
    let mut classic = EventRecord::new(HeaderType::Full64, b"lab\0");
    classic.provider = Some(EVENT_TRACE);
    classic.descriptor.opcode = Opcode(0x42);
    assert_eq!(decoder.decode(&classic).event_name(), Some("EventTrace/BuildInfo"));
    for header in [HeaderType::Message, HeaderType::Error, HeaderType::Wnode, HeaderType::Full32] {
        assert!(decoder.decode(&EventRecord::new(header, &[])).reason().is_some());
    }
}

#[test]
fn string_events_are_known_by_their_form() {
    let text: Vec<u8> = "hello".encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
    let mut decoder = Decoder::new();
    let mut record = EventRecord::new(HeaderType::Event64, &text);
    assert_eq!(decoder.decode(&record).source(), Some(Source::String));
    let decoded = decoder.decode(&record);
    assert_eq!(json_of(&decoded, &record).unwrap(), "{\"Message\":\"hello\"}");
    record.descriptor.id = 1;
    assert_eq!(decoder.decode(&record).reason(), Some(&Reason::NoManifest));
    record.descriptor.id = 0;
    record.descriptor.channel.0 = 11;
    assert_eq!(decoder.decode(&record).reason(), Some(&Reason::NoMetadata));
    record.descriptor.channel.0 = 0;
    for not_one in [&text[..10], &[text.clone(), text.clone()].concat(), &[1, 0, 0, 0], &[]] {
        record.payload = not_one;
        assert_eq!(decoder.decode(&record).reason(), Some(&Reason::NoManifest), "{not_one:?}");
    }
}

/// The names of a 32-bit header begin eight bytes earlier, where a 64-bit one without names ends.
#[test]
fn a_narrow_header_with_short_names_keeps_them() {
    for (session, file) in [("a", "b"), ("", ""), ("session", "file.etl")] {
        for (pointer_size, header) in [(4, HeaderType::System32), (8, HeaderType::System64)] {
            let mut logfile = FileBuilder::new().header.logfile;
            logfile.pointer_size = pointer_size;
            logfile.logger_name = session.into();
            logfile.log_file_name = file.into();
            let payload = logfile.to_payload();
            let mut record = EventRecord::new(header, &payload);
            record.hook = Some(Hook(0));
            record.pointer_size = pointer_size as u8;
            let mut decoder = Decoder::new();
            let decoded = decoder.decode(&record);
            let json = json_of(&decoded, &record).unwrap();
            let names =
                format!("\"SessionNameString\":\"{session}\",\"LogFileNameString\":\"{file}\"}}");
            assert!(json.ends_with(&names), "{pointer_size} {json}");
            // Without its names it is still a header.
            record.payload = &payload[..if pointer_size == 4 { 0x110 } else { 0x118 }];
            let json = json_of(&decoder.decode(&record), &record).unwrap();
            assert!(json.contains("\"BuffersLost\":0}"), "{json}");
        }
    }
}
