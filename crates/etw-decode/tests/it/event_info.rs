//! Events described by TRACE_EVENT_INFO.

use crate::support::{Json, PROVIDER, json_of};
use etw_decode::{Decoder, PayloadError, Reason, Source, Style};
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
fn an_unknown_type_costs_the_properties_behind_it() {
    let properties = vec![property("known", 8, 0), property("x", 999, 0), property("y", 8, 0)];
    let mut decoder = Decoder::new();
    learn(&mut decoder, 32, &Info { id: 1, properties, ..Info::default() }.blob());
    let payload = [7, 0, 0, 0, 1, 2, 3];
    let record = event(1, &payload);
    let decoded = decoder.decode(&record);
    let mut json = Json::default();
    let visited = decoded.visit_part(&record, &mut json).unwrap();
    assert_eq!(json.finish(), "{\"known\":7}");
    assert_eq!(visited.rest, [1, 2, 3]);
    assert!(matches!(visited.reason, Some(Reason::Incomplete(what)) if what.contains("999")));
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

#[test]
fn names_are_trimmed_and_listed() {
    let mut decoder = Decoder::new();
    let names = vec![(0x38, "win:Error \r\n"), (0x3c, "Channel"), (0x40, "one \0two\0")];
    let names = [names, vec![(TASK, "win:T"), (OPCODE, "win:Stop"), (EVENT, "  ")]].concat();
    learn(&mut decoder, 32, &Info { id: 1, names, ..Info::default() }.blob());
    let record = event(1, &[]);
    let decoded = decoder.decode(&record);
    let names = &decoded.schema().unwrap().names;
    assert_eq!(names.level.as_deref(), Some("win:Error"));
    assert_eq!(names.channel.as_deref(), Some("Channel"));
    assert_eq!(names.keywords, ["one", "two"]);
    assert_eq!(names.opcode.as_deref(), Some("win:Stop"));
    assert_eq!(decoded.event_name(), Some("T/Stop"));
    assert_eq!(decoded.provider_name(), None);
}

/// Every pair of winmeta's table, each alone in its event, and the form it gives.
#[test]
fn legal_pairs_of_types() {
    let word = [0x34, 0x12, 0, 0xc0, 0, 0, 0, 0];
    let v6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let text = b"<\0a\0/\0>\0\0\0";
    let cases: &[(u16, &[u16], &[u8], &str)] = &[
        (1, &[0, 1, 28, 34], text, "\"<a/>\""),
        (2, &[0, 1, 28, 34, 35], b"<a/>\0", "\"<a/>\""),
        (3, &[0, 3], &[0xc1], "-63"),
        (3, &[1], &[0x41], "\"A\""),
        (4, &[0, 4], &[0xc1], "193"),
        (4, &[16], &[0xc1], "\"0xc1\""),
        (4, &[13], &[0], "false"),
        (5, &[0, 5], &[0xff, 0xff], "-1"),
        (6, &[0, 6], &word[..2], "4660"),
        (6, &[22], &word[..2], "13330"),
        (6, &[17], &word[..2], "\"0x1234\""),
        (6, &[1], &[0xac, 0x20], "\"€\""),
        (7, &[0, 7, 32], &[0xff; 4], "-1"),
        (8, &[0, 8, 20, 21, 27, 30, 31], &word[..4], "3221230132"),
        (8, &[23], &word[..4], "\"52.18.0.192\""),
        (8, &[18, 29, 37], &word[..4], "\"0xc0001234\""),
        (9, &[0, 9], &[0xff; 8], "-1"),
        (10, &[0, 10, 27], &word, "3221230132"),
        (10, &[19, 37], &word, "\"0xc0001234\""),
        (11, &[0, 11], &[0, 0, 0x80, 0x3f], "1.0"),
        (12, &[0, 12], &[0, 0, 0, 0, 0, 0, 0xf0, 0x3f], "1.0"),
        (13, &[0, 13], &[0, 1, 0, 0], "true"),
        (14, &[24], &v6, "\"2001:db8::1\""),
        (15, &[0, 14], &[0x11; 16], "\"11111111-1111-1111-1111-111111111111\""),
        (16, &[0, 19, 37], &word, "\"0xc0001234\""),
        (17, &[0, 2, 33, 38], &[0; 8], "\"1601-01-01T00:00:00.0000000Z\""),
        (19, &[0, 1], &[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0], "\"S-1-5-18\""),
        (20, &[0, 18, 30, 31, 32], &word[..4], "\"0xc0001234\""),
        (21, &[0, 19], &word, "\"0xc0001234\""),
        (22, &[0, 1], &[2, 0, b'a', 0], "\"a\""),
        (23, &[0, 1], &[1, 0, b'a'], "\"a\""),
        (25, &[0, 15], &[1, 0, 0xab], "\"ab\""),
        // Not legal: as without an out-type.
        (7, &[22], &word[..4], "-1073737164"),
        (8, &[1, 22, 24], &word[..4], "3221230132"),
        (11, &[18], &[0, 0, 0x80, 0x3f], "1.0"),
        (13, &[18, 22], &[1, 0, 0, 0], "true"),
        (15, &[1, 15], &[0x11; 16], "\"11111111-1111-1111-1111-111111111111\""),
        (20, &[13, 23, 999], &word[..4], "\"0xc0001234\""),
    ];
    for (in_type, out_types, payload, expected) in cases {
        for out_type in *out_types {
            let mut decoder = Decoder::new();
            let properties = vec![property("f", *in_type, *out_type)];
            learn(&mut decoder, 32, &Info { id: 1, properties, ..Info::default() }.blob());
            let json = decode(&mut decoder, &event(1, payload));
            assert_eq!(json, format!("{{\"f\":{expected}}}"), "{in_type} {out_type}");
            let cut = event(1, &payload[..payload.len() - 1]);
            let decoded = decoder.decode(&cut);
            let text = *in_type <= 2;
            assert_eq!(decoded.visit(&cut, &mut Json::default()).is_ok(), text, "{in_type}");
        }
    }
}

#[test]
fn numbers_that_are_lengths_count_whatever_they_are_shown_as() {
    let mut decoder = Decoder::new();
    let info = Info {
        id: 1,
        properties: vec![
            property("flag", 4, 13),
            Property { flags: PARAM_COUNT, count: 0, ..property("a", 4, 0) },
            property("character", 6, 1),
            Property { flags: PARAM_LENGTH, length: 2, ..property("b", 14, 15) },
            property("negative", 3, 0),
            Property { flags: PARAM_LENGTH, length: 4, ..property("c", 2, 0) },
            property("port", 6, 22),
            Property { flags: PARAM_LENGTH, length: 6, ..property("d", 1, 0) },
        ],
        ..Info::default()
    };
    learn(&mut decoder, 32, &info.blob());
    let payload = [&[2, 8, 9, 1, 0, 0xee, 0xff, 1, 0][..], b"z\0"].concat();
    assert_eq!(
        decode(&mut decoder, &event(1, &payload)),
        "{\"flag\":true,\"a\":[8,9],\"character\":\"\\u0001\",\"b\":\"ee\",\"negative\":-1,\"c\":\"\",\
         \"port\":256,\"d\":\"z\"}"
    );
}

/// An address whose length field says 0 is none: it does not take the sixteen bytes behind it.
#[test]
fn an_ipv6_address_of_length_0_takes_nothing() {
    let mut decoder = Decoder::new();
    let info = Info {
        id: 1,
        properties: vec![
            property("n", 8, 0),
            Property { flags: PARAM_LENGTH, length: 0, ..property("address", 14, 24) },
            property("next", 15, 0),
        ],
        ..Info::default()
    };
    learn(&mut decoder, 32, &info.blob());
    let payload = [&[0; 4][..], &[0x22; 16]].concat();
    assert_eq!(
        decode(&mut decoder, &event(1, &payload)),
        "{\"n\":0,\"address\":\"\",\"next\":\"22222222-2222-2222-2222-222222222222\"}"
    );
}

/// Windows writes the size of one character as the length of such arrays.
#[test]
fn arrays_of_characters_are_text() {
    let mut decoder = Decoder::new();
    let info = Info {
        id: 1,
        properties: vec![
            Property { length: 2, count: 4, ..property("wide", 306, 0) },
            Property { length: 1, flags: FIXED_COUNT, count: 1, ..property("one", 307, 0) },
            property("n", 4, 0),
            Property { flags: PARAM_COUNT, length: 2, count: 2, ..property("told", 306, 0) },
            Property { length: 2, ..property("single", 306, 0) },
        ],
        ..Info::default()
    };
    learn(&mut decoder, 32, &info.blob());
    let payload = b"a\0b\0c\0d\0x\x02h\0i\0!\0";
    assert_eq!(
        decode(&mut decoder, &event(1, payload)),
        "{\"wide\":\"abcd\",\"one\":\"x\",\"n\":2,\"told\":\"hi\",\"single\":\"!\"}"
    );
}

#[test]
fn types_of_wbem_in_32_bits() {
    let mut decoder = Decoder::new();
    let info = Info {
        id: 1,
        properties: vec![
            property("counted", 300, 0),
            property("narrow", 301, 0),
            property("reversed", 302, 0),
            property("size", 308, 0),
            property("sid", 310, 0),
            property("rest", 304, 0),
        ],
        ..Info::default()
    };
    learn(&mut decoder, 32, &info.blob());
    let mut payload = b"\x02\x00a\x00\x01\x00b\x00\x02c\x00".to_vec();
    payload.extend([0xff; 4]);
    payload.extend([9; 8]);
    payload.extend([1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0]);
    payload.extend(b"t\0a\0");
    let mut record = event(1, &payload);
    record.pointer_size = 4;
    assert_eq!(
        decode(&mut decoder, &record),
        "{\"counted\":\"a\",\"narrow\":\"b\",\"reversed\":\"c\",\"size\":\"0xffffffff\",\
         \"sid\":\"S-1-5-18\",\"rest\":\"ta\"}"
    );
}

#[test]
fn maps_of_hex_numbers_of_arrays_and_of_other_providers() {
    let mut decoder = Decoder::new();
    let info = Info {
        id: 1,
        properties: vec![
            Property { map: "M", ..property("hex", 20, 0) },
            Property { map: "M", count: 2, ..property("array", 4, 0) },
            Property { map: "M", ..property("text", 2, 0) },
        ],
        ..Info::default()
    };
    learn(&mut decoder, 32, &info.blob());
    let mut other = map("M", 1, &[(1, "wrong")]);
    other[0] ^= 1;
    learn(&mut decoder, 33, &other);
    let payload = [1, 0, 0, 0, 1, 2, b'x', 0];
    let plain = "{\"hex\":\"0x1\",\"array\":[1,2],\"text\":\"x\"}";
    assert_eq!(decode(&mut decoder, &event(1, &payload)), plain);
    learn(&mut decoder, 33, &map("M", 4, &[(1, "pattern")]));
    assert_eq!(decode(&mut decoder, &event(1, &payload)), plain, "patterns name no integers");
    for flags in [1, 8] {
        learn(&mut decoder, 33, &map("M", flags, &[(1, "one")]));
        assert_eq!(
            decode(&mut decoder, &event(1, &payload)),
            "{\"hex\":{\"value\":1,\"name\":\"one\"},\"array\":[{\"value\":1,\"name\":\"one\"},2],\
             \"text\":\"x\"}"
        );
    }
    // A value without a name keeps its form.
    let json = decode(&mut decoder, &event(1, &[9, 0, 0, 0, 3, 4, 0]));
    assert_eq!(json, "{\"hex\":\"0x9\",\"array\":[3,4],\"text\":\"\"}");
    for flags in [0x10, 0x20] {
        learn(&mut decoder, 33, &map("M", flags, &[(0, "none"), (2, "two"), (8, "eight")]));
        let json = decode(&mut decoder, &event(1, &[0xf, 0, 0, 0, 0, 4, 0]));
        assert_eq!(
            json,
            "{\"hex\":{\"value\":15,\"name\":\"two|eight|0x5\"},\
             \"array\":[{\"value\":0,\"name\":\"none\"},4],\"text\":\"\"}"
        );
    }
}

/// TC-3, TC-4: who ignores the flag, or cannot reach the schema, sees BINARY of the same length.
#[test]
fn custom_schemas_that_cannot_be_read_leave_binary() {
    for (custom_schema, in_type, payload, expected) in [
        (vec![5, 0, 9, 0, 1], 14, &[2, 0, 0xaa, 0xbb][..], "{\"c.Length\":2,\"c\":\"aabb\"}"),
        (vec![0, 1, 0, 0], 14, &[2, 0, 0xaa, 0xbb], "{\"c.Length\":2,\"c\":\"aabb\"}"),
        // A number has no custom form.
        (vec![5, 0, 0, 0], 4, &[2, 0, 0xaa, 0xbb], "{\"c.Length\":2,\"c\":170}"),
        // A counted one brings its length along.
        (
            vec![31, 0, 0, 0],
            25,
            &[0, 0, 1, 0, 0xcc],
            "{\"c.Length\":0,\"c\":{\"protocol\":31,\"schema\":\"\",\"data\":\"cc\"}}",
        ),
    ] {
        let mut decoder = Decoder::new();
        let flags = if in_type == 14 { PARAM_LENGTH | CUSTOM_SCHEMA } else { CUSTOM_SCHEMA };
        let info = Info {
            id: 1,
            custom_schema,
            properties: vec![
                property("c.Length", 6, 0),
                Property { flags, length: 0, ..property("c", in_type, 0) },
            ],
            ..Info::default()
        };
        learn(&mut decoder, 32, &info.blob());
        assert_eq!(decode(&mut decoder, &event(1, payload)), expected, "{in_type}");
    }
}

#[test]
fn payloads_that_are_too_short_or_too_long() {
    let mut decoder = Decoder::new();
    let properties = vec![property("a", 8, 0), property("text", 1, 0), property("last", 2, 0)];
    learn(&mut decoder, 32, &Info { id: 1, properties, ..Info::default() }.blob());
    let long = event(1, b"\x01\0\0\0a\0\0\0b\0junk");
    assert_eq!(decode(&mut decoder, &long), "{\"a\":1,\"text\":\"a\",\"last\":\"b\"}");
    let unterminated = event(1, b"\x01\0\0\0a\0\0\0b");
    assert_eq!(decode(&mut decoder, &unterminated), "{\"a\":1,\"text\":\"a\",\"last\":\"b\"}");
    for (length, field, offset) in [(3, "a", 0), (4, "text", 4), (8, "last", 8)] {
        let record = event(1, &long.payload[..length]);
        let decoded = decoder.decode(&record);
        let error = decoded.visit(&record, &mut Json::default()).unwrap_err();
        assert_eq!(error, PayloadError::Short { field: field.into(), offset });
    }
}

#[test]
fn only_the_described_version_and_provider_decode() {
    let mut decoder = Decoder::new();
    let mut blob = Info { id: 1, names: vec![(EVENT, "E")], ..Info::default() }.blob();
    blob[0x22] = 3;
    learn(&mut decoder, 32, &blob);
    let mut record = event(1, &[]);
    assert_eq!(decoder.decode(&record).reason(), Some(&Reason::NoManifest));
    record.descriptor.version = 3;
    assert_eq!(decoder.decode(&record).event_name(), Some("E"));
    record.provider = Some(Guid::from_u128(9));
    assert_eq!(decoder.decode(&record).reason(), Some(&Reason::NoManifest));
    // Events of WPP and TraceLogging are not distinguished by number.
    for source in [2, 3, 4] {
        let mut decoder = Decoder::new();
        learn(&mut decoder, 32, &Info { id: 1, source, ..Info::default() }.blob());
        assert!(decoder.store().is_empty());
    }
    decoder.set_learning(false);
    learn(&mut decoder, 32, &Info { id: 2, ..Info::default() }.blob());
    assert_eq!(decoder.decode(&event(2, &[])).reason(), Some(&Reason::NoManifest));
}

#[test]
fn a_repeated_description_is_kept_once() {
    let mut decoder = Decoder::new();
    let names = map("M", 1, &[(1, "one")]);
    let info = Info { id: 1, names: vec![(EVENT, "E")], ..Info::default() }.blob();
    for _ in 0..200_000 {
        learn(&mut decoder, 33, &names);
        learn(&mut decoder, 32, &info);
    }
    assert_eq!(decoder.store().refused(), 0);
}

/// P5: compiled schemas are larger than their source; they are dropped and compiled again.
#[test]
fn many_schemas_stay_usable() {
    let mut decoder = Decoder::new();
    let blob = |id| {
        let properties = vec![property("a name of some length", 4, 0); 300];
        Info { id, properties, names: vec![(EVENT, "E")], ..Info::default() }.blob()
    };
    for id in 0..400 {
        learn(&mut decoder, 32, &blob(id));
    }
    for id in (0..400).chain(0..400) {
        let payload = vec![id as u8; 300];
        let json = decode(&mut decoder, &event(id, &payload));
        assert!(json.starts_with(&format!("{{\"a name of some length\":{},", id as u8)));
        assert!(json.ends_with(&format!(",\"a name of some length#300\":{}}}", id as u8)));
    }
}
