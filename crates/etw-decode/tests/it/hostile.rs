//! Damaged metadata and schemas: no panic, bounded work.

use crate::event_info::{EVENT, Info, MESSAGE, Property, learn, map, property};
use crate::support::{Json, PROVIDER, Random, json_of, with_tracelogging};
use etw_decode::event_info::EventInfoError;
use etw_decode::{Decoder, PayloadError, Reason, Source, Style};
use etw_tracelogging::{Count, InType, MetadataBuilder, OutType};
use etw_types::{EventRecord, HeaderType};

fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        match random.below(5) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            2 => bytes.truncate(at),
            3 if !bytes.is_empty() => {
                let end = at + random.below(bytes.len() - at + 1);
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ if bytes.len() >= at + 2 => bytes[at..at + 2].fill(0xff),
            _ => bytes.push(random.next() as u8),
        }
    }
}

/// P5: mutated metadata and payloads.
#[test]
fn mutated_tracelogging_never_panics() {
    let blob = MetadataBuilder::new("Event", 5)
        .structure("s", 2, Count::Variable, 3)
        .field("text", InType::UNICODESTRING, OutType::XML, Count::Fixed(2), 0)
        .field("sid", InType::SID, OutType::NULL, Count::Variable, 1)
        .field("v6", InType::BINARY, OutType::SOCKETADDRESS, Count::Scalar, 0)
        .custom("c", 7, &[1, 2, 3], 9)
        .field("time", InType::SYSTEMTIME, OutType::NULL, Count::Scalar, 0)
        .finish()
        .unwrap();
    let mut random = Random(0x1234_5678);
    for round in 0..20_000 {
        let mut blob = blob.clone();
        let mut payload: Vec<u8> = (0..random.below(80)).map(|_| random.next() as u8 & 3).collect();
        mutate(&mut random, &mut blob);
        if round % 2 == 0 {
            mutate(&mut random, &mut payload);
        }
        with_tracelogging(&blob, &payload, |decoded, record| {
            let _ = decoded.visit(record, &mut Json::default());
            let _ = decoded.fields_text(record, &Style::default());
        });
    }
}

/// P5: mutated TRACE_EVENT_INFO, maps and payloads.
#[test]
fn mutated_descriptions_never_panic() {
    let info = Info {
        id: 1,
        top_level: Some(4),
        names: vec![(EVENT, "Event"), (MESSAGE, "%1 and %2!s! %3 %% %n")],
        properties: vec![
            property("n", 4, 0),
            Property { flags: 0x02, length: 0, ..property("text", 1, 0) },
            Property { flags: 0x05, in_type: 4, out_type: 2, count: 0, ..property("s", 0, 0) },
            Property { map: "M", ..property("m", 8, 8) },
            property("x", 310, 0),
            Property { flags: 0x20, count: 3, ..property("y", 306, 0) },
        ],
        ..Info::default()
    }
    .blob();
    let names = map("M", 2, &[(1, "one"), (2, "two")]);
    let mut random = Random(0x9abc_def1);
    for _ in 0..20_000 {
        let (mut info, mut names) = (info.clone(), names.clone());
        mutate(&mut random, &mut info);
        if random.below(2) == 0 {
            mutate(&mut random, &mut names);
        }
        let payload: Vec<u8> = (0..random.below(60)).map(|_| random.next() as u8 & 7).collect();
        let mut decoder = Decoder::new();
        learn(&mut decoder, 33, &names);
        learn(&mut decoder, 32, &info);
        let mut record = EventRecord::new(HeaderType::Event32, &payload);
        record.provider = Some(PROVIDER);
        record.descriptor.id = 1;
        let decoded = decoder.decode(&record);
        let _ = decoded.visit(&record, &mut Json::default());
        let _ = decoded.message(&record, &Style::default());
    }
}

/// P5: a few bytes that stand for more than an event can hold are refused, and soon.
#[test]
fn malicious_nested_arrays_are_bounded() {
    let long_name = "n".repeat(60_000);
    let many = MetadataBuilder::new("E", 0)
        .structure("s", 1, Count::Fixed(65_535), 0)
        .field(&long_name, InType::NULL, OutType::NULL, Count::Scalar, 0)
        .finish()
        .unwrap();
    let mut nested = MetadataBuilder::new("E", 0);
    for _ in 0..50 {
        nested = nested.structure("s", 1, Count::Fixed(1000), 0);
    }
    let nested = nested.field("x", InType::NULL, OutType::NULL, Count::Scalar, 0).finish().unwrap();
    for blob in [many, nested] {
        with_tracelogging(&blob, &[], |decoded, record| {
            let mut json = Json::default();
            assert_eq!(decoded.visit(record, &mut json), Err(PayloadError::TooMuch));
            assert!(json.text.len() < 32 << 20, "{}", json.text.len());
        });
    }
}

/// P5: an array of structs whose members are empty arrays with long names: few bytes, and no value to count.
#[test]
fn malicious_empty_arrays_are_bounded() {
    let name = "n".repeat(400);
    let mut blob = MetadataBuilder::new("E", 0).structure("s", 120, Count::Fixed(65_535), 0);
    for _ in 0..120 {
        blob = blob.field(&name, InType::UINT8, OutType::NULL, Count::Fixed(0), 0);
    }
    with_tracelogging(&blob.finish().unwrap(), &[], |decoded, record| {
        let mut json = Json::default();
        assert_eq!(decoded.visit(record, &mut json), Err(PayloadError::TooMuch));
        assert!(json.text.len() < 8 << 20, "{}", json.text.len());
    });
}

fn described(info: &[u8], maps: &[Vec<u8>]) -> Decoder {
    let mut decoder = Decoder::new();
    for map in maps {
        learn(&mut decoder, 33, map);
    }
    learn(&mut decoder, 32, info);
    decoder
}

fn event_1(payload: &[u8]) -> EventRecord<'_> {
    let mut record = EventRecord::new(HeaderType::Event64, payload);
    record.provider = Some(PROVIDER);
    record.descriptor.id = 1;
    record
}

/// P5: bytes that each stand for a long name, whole or of many bits.
#[test]
fn malicious_maps_are_bounded() {
    let long = "n".repeat(15_000);
    let bits: Vec<(u32, &str)> = (0..2_000).map(|_| (1, "bit")).collect();
    for map in [map("M", 1, &[(1, &long)]), map("M", 2, &bits)] {
        let values = Property { map: "M", flags: 0x20, count: 60_000, ..property("v", 4, 0) };
        let info = Info { id: 1, properties: vec![values], ..Info::default() };
        let mut decoder = described(&info.blob(), &[map]);
        let payload = vec![1; 60_000];
        let record = event_1(&payload);
        let mut json = Json::default();
        let decoded = decoder.decode(&record);
        assert_eq!(decoded.visit(&record, &mut json), Err(PayloadError::TooMuch));
        assert!(json.text.len() < 8 << 20, "{}", json.text.len());
    }
}

/// P5: entries of a map that all point to one long text.
#[test]
fn malicious_map_of_one_text() {
    let mut payload = map("M", 1, &vec![(1, "x"); 2_500]);
    let text = (payload.len() - 16) as u32;
    payload.extend([b'x', 0].repeat(15_000));
    payload.extend([0, 0]);
    for entry in payload[32..32 + 2_500 * 8].chunks_exact_mut(8) {
        entry[..4].copy_from_slice(&text.to_le_bytes());
    }
    assert!(payload.len() < 0x10000);
    let info = Info {
        id: 1,
        properties: vec![Property { map: "M", ..property("v", 4, 0) }],
        ..Info::default()
    };
    let mut decoder = described(&info.blob(), &[payload]);
    let record = event_1(&[1]);
    let decoded = decoder.decode(&record);
    assert_eq!(json_of(&decoded, &record).unwrap(), "{\"v\":1}");
}

/// P5: properties that all have one long name, and structs that all have the same members.
#[test]
fn malicious_descriptions_that_overlap() {
    let properties = vec![property("f", 4, 0); 1_200];
    let mut names = Info { id: 1, properties, ..Info::default() }.blob();
    let text = names.len() as u32;
    names.extend([b'n', 0].repeat(15_000));
    names.extend([0, 0]);
    for index in 0..1_200 {
        let at = 0x70 + index * 24 + 4;
        names[at..at + 4].copy_from_slice(&text.to_le_bytes());
    }
    let members = (0..2_500u16).map(|at| Property {
        flags: 1,
        in_type: at + 1,
        out_type: 2_499 - at,
        ..property("", 0, 0)
    });
    let structs =
        Info { id: 1, top_level: Some(1), properties: members.collect(), ..Info::default() };
    for blob in [names, structs.blob()] {
        assert!(blob.len() < 0x10000);
        let mut decoder = described(&blob, &[]);
        let reason = decoder.decode(&event_1(&[])).reason().cloned();
        assert_eq!(reason, Some(Reason::EventInfo(EventInfoError::TooMuch)));
    }
    // A few that share their members are taken, and what they stand for is bounded.
    let shared = (0..40u16)
        .map(|at| Property { flags: 1, in_type: at + 1, out_type: 40 - at, ..property("s", 0, 0) })
        .chain([property("x", 0, 0)]);
    let info = Info { id: 1, top_level: Some(1), properties: shared.collect(), ..Info::default() };
    let mut decoder = described(&info.blob(), &[]);
    let record = event_1(&[]);
    let decoded = decoder.decode(&record);
    assert_eq!(decoded.source(), Some(Source::EventInfo));
    assert_eq!(decoded.visit(&record, &mut Json::default()), Err(PayloadError::TooMuch));
}

/// P5: a message that names one long field often.
#[test]
fn malicious_messages_are_bounded() {
    let template: &'static str = "%1".repeat(10_000).leak();
    let names = vec![(MESSAGE, template)];
    let info = Info { id: 1, names, properties: vec![property("t", 305, 0)], ..Info::default() };
    let mut decoder = described(&info.blob(), &[]);
    let payload = vec![b'x'; 60_000];
    let record = event_1(&payload);
    let message = decoder.decode(&record).message(&record, &Style::default()).unwrap();
    assert!(message.len() < 2 << 20, "{}", message.len());
}

/// P5: structs nested as deep as is allowed, each an array, around an array: JSON still closes what it opened.
#[test]
fn the_deepest_nesting_is_sound_json() {
    for (levels, sound) in [(60u16, true), (61, false)] {
        let mut properties: Vec<Property> = (0..levels)
            .map(|at| {
                let counted = Property { flags: 0x21, count: 2, ..property("s", 0, 0) };
                // Only the first of every two structs goes on to the depth, or this would never end.
                Property { in_type: at + 1, out_type: 1, count: 1 + u16::from(at == 0), ..counted }
            })
            .collect();
        properties.push(Property { flags: 0x20, count: 2, ..property("x", 4, 0) });
        let info = Info { id: 1, top_level: Some(1), properties, ..Info::default() };
        let mut decoder = described(&info.blob(), &[]);
        let record = event_1(&[1, 2, 3, 4]);
        let decoded = decoder.decode(&record);
        match json_of(&decoded, &record) {
            Ok(json) => {
                assert!(sound);
                // Two brackets a level are more than serde_json takes unasked.
                assert_eq!(json.matches('[').count(), json.matches(']').count());
                assert!(json.ends_with("}]}"), "{json}");
                assert_eq!(json.matches("\"x\":").count(), 2);
            }
            Err(error) => assert!(!sound && error == PayloadError::BadStruct),
        }
    }
}
