use crate::event_info::{EVENT, Info, MESSAGE, Property, learn, map, property};
use crate::support::{Json, PROVIDER, Random, with_tracelogging};
use etw_decode::{Decoder, PayloadError, Style};
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
fn amplification_is_bounded() {
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
