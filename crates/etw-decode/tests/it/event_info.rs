use crate::support::{PROVIDER, json_of};
use etw_decode::{Decoder, Reason, Source, Style};
use etw_types::{EVENT_METADATA, EventRecord, Guid, HeaderType, Opcode};

const STRUCT: u32 = 0x01;
const PARAM_LENGTH: u32 = 0x02;
const PARAM_COUNT: u32 = 0x04;
const FIXED_COUNT: u32 = 0x20;
const CUSTOM_SCHEMA: u32 = 0x80;

/// EVENT_PROPERTY_INFO before its strings have places.
#[derive(Clone, Default)]
pub struct Property {
    pub name: &'static str,
    pub flags: u32,
    pub in_type: u16,
    pub out_type: u16,
    pub map: &'static str,
    pub count: u16,
    pub length: u16,
}

pub fn property(name: &'static str, in_type: u16, out_type: u16) -> Property {
    Property { name, in_type, out_type, count: 1, ..Property::default() }
}

/// Builds TRACE_EVENT_INFO blobs.
#[derive(Clone, Default)]
pub struct Info {
    pub id: u16,
    pub source: u32,
    pub class: Guid,
    pub names: Vec<(usize, &'static str)>,
    pub properties: Vec<Property>,
    pub top_level: Option<u32>,
    pub custom_schema: Vec<u8>,
}

pub const TASK: usize = 0x44;
pub const OPCODE: usize = 0x48;
pub const MESSAGE: usize = 0x4c;
pub const EVENT: usize = 0x5c;

impl Info {
    pub fn blob(&self) -> Vec<u8> {
        let count = self.properties.len();
        let mut blob = vec![0; 0x70 + count * 24];
        let put32 = |blob: &mut Vec<u8>, at: usize, value: u32| {
            blob[at..at + 4].copy_from_slice(&value.to_le_bytes());
        };
        let put16 = |blob: &mut Vec<u8>, at: usize, value: u16| {
            blob[at..at + 2].copy_from_slice(&value.to_le_bytes());
        };
        let text = |blob: &mut Vec<u8>, at: usize, text: &str| {
            if !text.is_empty() {
                let place = blob.len() as u32;
                put32(blob, at, place);
                blob.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
            }
        };
        blob[..16].copy_from_slice(&PROVIDER.0);
        blob[0x10..0x20].copy_from_slice(&self.class.0);
        put16(&mut blob, 0x20, self.id);
        put32(&mut blob, 0x30, self.source);
        put32(&mut blob, 0x64, count as u32);
        put32(&mut blob, 0x68, self.top_level.unwrap_or(count as u32));
        for (slot, name) in &self.names {
            text(&mut blob, *slot, name);
        }
        for (number, property) in self.properties.iter().enumerate() {
            let at = 0x70 + number * 24;
            put32(&mut blob, at, property.flags);
            text(&mut blob, at + 4, property.name);
            put16(&mut blob, at + 8, property.in_type);
            put16(&mut blob, at + 10, property.out_type);
            text(&mut blob, at + 12, property.map);
            put16(&mut blob, at + 16, property.count);
            put16(&mut blob, at + 18, property.length);
            if property.flags & CUSTOM_SCHEMA != 0 {
                let place = blob.len() as u32;
                put32(&mut blob, at + 12, place);
                blob.extend(&self.custom_schema);
            }
        }
        blob
    }
}

/// A provider GUID and an EVENT_MAP_INFO.
pub fn map(name: &str, flags: u32, entries: &[(u32, &str)]) -> Vec<u8> {
    let mut strings = Vec::new();
    let base = 16 + entries.len() * 8;
    let mut place = |text: &str| {
        let at = (base + strings.len()) as u32;
        strings.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        at
    };
    let mut words = vec![place(name), flags, entries.len() as u32, 0];
    for (value, text) in entries {
        words.extend([place(text), *value]);
    }
    let mut payload = PROVIDER.0.to_vec();
    payload.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    payload.extend(strings);
    payload
}

pub fn learn(decoder: &mut Decoder, opcode: u8, payload: &[u8]) {
    let mut record = EventRecord::new(HeaderType::Full64, payload);
    record.provider = Some(EVENT_METADATA);
    record.descriptor.opcode = Opcode(opcode);
    decoder.decode(&record);
}

fn event(id: u16, payload: &[u8]) -> EventRecord<'_> {
    let mut record = EventRecord::new(HeaderType::Event64, payload);
    record.provider = Some(PROVIDER);
    record.descriptor.id = id;
    record
}

fn decode(decoder: &mut Decoder, record: &EventRecord<'_>) -> String {
    let decoded = decoder.decode(record);
    assert_eq!(decoded.source(), Some(Source::EventInfo), "{:?}", decoded.reason());
    json_of(&decoded, record).unwrap()
}

#[test]
fn names_of_events() {
    for (names, expected) in [
        (vec![(EVENT, "Named"), (TASK, "T")], Some("Named")),
        (vec![(TASK, "T "), (OPCODE, "win:Start")], Some("T/Start")),
        (vec![(TASK, "T"), (OPCODE, "win:Info")], Some("T")),
        (vec![], None),
    ] {
        let mut decoder = Decoder::new();
        let names: Vec<_> = [(0x34, "Provider ")].into_iter().chain(names).collect();
        let info = Info { id: 3, names, ..Info::default() };
        learn(&mut decoder, 32, &info.blob());
        let record = event(3, &[]);
        let decoded = decoder.decode(&record);
        assert_eq!(decoded.provider_name().as_deref(), Some("Provider"));
        assert_eq!(decoded.event_name(), expected);
    }
}

#[test]
fn lengths_and_counts_from_other_fields() {
    let mut decoder = Decoder::new();
    let info = Info {
        id: 1,
        properties: vec![
            property("n", 8, 0),
            Property { flags: PARAM_LENGTH, length: 0, ..property("text", 1, 0) },
            Property { flags: PARAM_COUNT, count: 0, ..property("array", 6, 18) },
            Property { flags: PARAM_LENGTH, length: 0, ..property("bytes", 14, 15) },
            Property { length: 3, ..property("fixed", 2, 0) },
            Property { flags: FIXED_COUNT, count: 1, ..property("one", 4, 0) },
            Property { count: 2, ..property("two", 4, 0) },
            property("pointer", 16, 0),
            property("socket", 14, 25),
        ],
        ..Info::default()
    };
    learn(&mut decoder, 32, &info.blob());
    let mut payload = vec![2, 0, 0, 0];
    payload.extend([b'h', 0, b'i', 0]);
    payload.extend([1, 0, 0xff, 0xff]);
    payload.extend([0xaa, 0xbb]);
    payload.extend(b"a\0b");
    payload.extend([7, 8, 9]);
    payload.extend([1, 2, 3, 4]);
    payload.extend([2, 0, 0, 80, 10, 0, 0, 1]);
    let mut record = event(1, &payload);
    record.pointer_size = 4;
    assert_eq!(
        decode(&mut decoder, &record),
        "{\"n\":2,\"text\":\"hi\",\"array\":[\"0x1\",\"0xffff\"],\"bytes\":\"aabb\",\"fixed\":\"a\",\
         \"one\":[7],\"two\":[8,9],\"pointer\":\"0x4030201\",\"socket\":\"10.0.0.1:80\"}"
    );
}

#[test]
fn structs_stand_behind_and_may_repeat() {
    let mut decoder = Decoder::new();
    let info = Info {
        id: 1,
        top_level: Some(2),
        properties: vec![
            property("n", 4, 0),
            Property {
                flags: STRUCT | PARAM_COUNT,
                in_type: 2,
                out_type: 2,
                count: 0,
                ..property("s", 0, 0)
            },
            property("x", 4, 0),
            property("y", 300, 0),
        ],
        ..Info::default()
    };
    learn(&mut decoder, 32, &info.blob());
    let record = event(1, b"\x02\x07\x02\x00a\x00\x08\x00\x00");
    assert_eq!(
        decode(&mut decoder, &record),
        "{\"n\":2,\"s\":[{\"x\":7,\"y\":\"a\"},{\"x\":8,\"y\":\"\"}]}"
    );
}

#[test]
fn types_of_wbem() {
    let mut decoder = Decoder::new();
    let info = Info {
        id: 1,
        properties: vec![
            Property { count: 4, ..property("chars", 306, 0) },
            Property { count: 3, ..property("narrow", 307, 0) },
            property("reversed", 303, 0),
            property("size", 308, 0),
            property("dump", 309, 0),
            property("none", 310, 0),
            property("sid", 310, 0),
            property("rest", 305, 0),
        ],
        ..Info::default()
    };
    learn(&mut decoder, 32, &info.blob());
    let mut payload = b"a\0b\0\0\0x\0abc\x00\x02hi".to_vec();
    payload.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    payload.extend([2, 0, 0, 0, 0xde, 0xad]);
    payload.extend([0; 4]);
    payload.extend([9; 16]);
    payload.extend([1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0]);
    payload.extend(b"tail");
    assert_eq!(
        decode(&mut decoder, &event(1, &payload)),
        "{\"chars\":\"ab\",\"narrow\":\"abc\",\"reversed\":\"hi\",\"size\":\"0x1\",\"dump\":\"dead\",\
         \"none\":\"\",\"sid\":\"S-1-5-18\",\"rest\":\"tail\"}"
    );
}

#[test]
fn maps_apply_even_if_learnt_later() {
    let mut decoder = Decoder::new();
    let info = Info {
        id: 1,
        properties: vec![
            Property { map: "Colour", ..property("c", 8, 8) },
            Property { map: "Bits", ..property("b", 8, 8) },
        ],
        ..Info::default()
    };
    learn(&mut decoder, 32, &info.blob());
    let payload = [2, 0, 0, 0, 5, 0, 0, 0];
    assert_eq!(decode(&mut decoder, &event(1, &payload)), "{\"c\":2,\"b\":5}");
    learn(&mut decoder, 33, &map("Colour", 1, &[(1, "red "), (2, "blue ")]));
    learn(&mut decoder, 33, &map("Bits", 2, &[(1, "low"), (4, "high")]));
    assert_eq!(
        decode(&mut decoder, &event(1, &payload)),
        "{\"c\":{\"value\":2,\"name\":\"blue\"},\"b\":{\"value\":5,\"name\":\"low|high\"}}"
    );
    let unknown = [9, 0, 0, 0, 12, 0, 0, 0];
    assert_eq!(
        decode(&mut decoder, &event(1, &unknown)),
        "{\"c\":9,\"b\":{\"value\":12,\"name\":\"high|0x8\"}}"
    );
}

#[test]
fn messages_take_the_fields() {
    let mut decoder = Decoder::new();
    let info = Info {
        id: 1,
        names: vec![(MESSAGE, "%2 of %1%n100%% %3 \r\n")],
        properties: vec![property("a", 8, 0), Property { count: 2, ..property("b", 4, 0) }],
        ..Info::default()
    };
    learn(&mut decoder, 32, &info.blob());
    let record = event(1, &[7, 0, 0, 0, 8, 9]);
    let decoded = decoder.decode(&record);
    let message = decoded.message(&record, &Style::default());
    assert_eq!(message.as_deref(), Some("[8, 9] of 7\n100% %3"));
    let short = event(1, &[7]);
    assert_eq!(decoder.decode(&short).message(&short, &Style::default()), None);
}

/// TC-3: the custom schema of a TRACE_EVENT_INFO is reached like that of TraceLogging metadata.
#[test]
fn custom_schemas_of_event_info() {
    let mut decoder = Decoder::new();
    let info = Info {
        id: 1,
        custom_schema: vec![5, 0, 2, 0, 0xca, 0xfe],
        properties: vec![
            property("c.Length", 6, 0),
            Property { flags: PARAM_LENGTH | CUSTOM_SCHEMA, length: 0, ..property("c", 14, 0) },
        ],
        ..Info::default()
    };
    learn(&mut decoder, 32, &info.blob());
    assert_eq!(
        decode(&mut decoder, &event(1, &[2, 0, 0xaa, 0xbb])),
        "{\"c\":{\"protocol\":5,\"schema\":\"cafe\",\"data\":\"aabb\"}}"
    );
}

#[test]
fn later_descriptions_replace_earlier_ones_and_classes_have_their_own_key() {
    let mut decoder = Decoder::new();
    let named = |name| Info { id: 1, names: vec![(EVENT, name)], ..Info::default() };
    let record = event(1, &[]);
    assert_eq!(decoder.decode(&record).reason(), Some(&Reason::NoManifest));
    for name in ["first", "second"] {
        learn(&mut decoder, 32, &named(name).blob());
        assert_eq!(decoder.decode(&record).event_name(), Some(name));
    }
    assert_eq!(decoder.decode(&event(2, &[])).reason(), Some(&Reason::NoManifest));
    let class = Guid::from_u128(0x77);
    let classic = Info { source: 1, class, names: vec![(TASK, "Class")], ..Info::default() };
    learn(&mut decoder, 32, &classic.blob());
    let mut record = EventRecord::new(HeaderType::Full64, &[]);
    record.provider = Some(class);
    assert_eq!(decoder.decode(&record).event_name(), Some("Class"));
}

#[test]
fn schema_records_are_named_like_what_they_describe() {
    let mut decoder = Decoder::new();
    let info = Info { id: 1, names: vec![(EVENT, "Named")], ..Info::default() }.blob();
    let mut record = EventRecord::new(HeaderType::Full64, &info);
    record.provider = Some(EVENT_METADATA);
    record.descriptor.opcode = Opcode(32);
    let decoded = decoder.decode(&record);
    assert_eq!((decoded.source(), decoded.event_name()), (Some(Source::EventInfo), Some("Named")));
    assert!(json_of(&decoded, &record).unwrap().contains("\"Id\":1,"));
    let payload = map("M", 1, &[(1, "one")]);
    record.payload = &payload;
    record.descriptor.opcode = Opcode(33);
    let decoded = decoder.decode(&record);
    assert_eq!(decoded.event_name(), Some("M"));
    assert!(json_of(&decoded, &record).unwrap().contains("\"EntryCount\":1,"));
}

#[test]
fn malicious_descriptions_give_a_reason() {
    let struct_of = |first, members| Property {
        flags: STRUCT,
        in_type: first,
        out_type: members,
        ..property("s", 0, 0)
    };
    let bad = [
        vec![struct_of(0, 1)],
        vec![struct_of(1, 9), property("x", 4, 0)],
        vec![property("x", 4, 0), struct_of(0, 1)],
        vec![Property { flags: PARAM_COUNT, count: 5, ..property("x", 4, 0) }],
        vec![Property { flags: PARAM_LENGTH, length: 0, ..property("x", 1, 0) }],
        vec![property("x", 999, 0)],
    ];
    for properties in bad {
        let mut decoder = Decoder::new();
        learn(&mut decoder, 32, &Info { id: 1, properties, ..Info::default() }.blob());
        let reason = decoder.decode(&event(1, &[0; 64])).reason().cloned();
        assert!(matches!(reason, Some(Reason::EventInfo(_))), "{reason:?}");
    }
    for property_count in [1u32, 1 << 16, u32::MAX] {
        let mut blob = Info { id: 1, ..Info::default() }.blob();
        blob[0x64..0x68].copy_from_slice(&property_count.to_le_bytes());
        let mut decoder = Decoder::new();
        learn(&mut decoder, 32, &blob);
        assert_eq!(decoder.decode(&event(1, &[])).reason(), Some(&Reason::NoManifest));
    }
    // More top-level fields than fields.
    let mut decoder = Decoder::new();
    learn(&mut decoder, 32, &Info { id: 1, top_level: Some(7), ..Info::default() }.blob());
    assert!(matches!(decoder.decode(&event(1, &[])).reason(), Some(Reason::EventInfo(_))));
}

/// P5: a trace that describes without end does not take memory without end.
#[test]
fn learning_stops_at_a_bound() {
    let mut decoder = Decoder::new();
    let mut blob = Info { id: 0, names: vec![(EVENT, "E")], ..Info::default() }.blob();
    blob.resize(60_000, 0);
    for id in 0..400u16 {
        blob[0x20..0x22].copy_from_slice(&id.to_le_bytes());
        learn(&mut decoder, 32, &blob);
    }
    assert_eq!(decoder.decode(&event(0, &[])).event_name(), Some("E"));
    assert_eq!(decoder.decode(&event(399, &[])).reason(), Some(&Reason::NoManifest));
    assert!(decoder.store().refused() > 100);
}
