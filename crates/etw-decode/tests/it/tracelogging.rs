//! TraceLogging events: every type, arrays, structs.

use crate::support::{
    Json, PROVIDER, Random, json_of, tracelogging_json, tracelogging_text, with_tracelogging,
};
use etw_decode::{
    CodePage, Decoder, Field, Kind, PayloadError, Reason, Source, Style, Value, Visitor,
};
use etw_tracelogging::{Count, InType, MetadataBuilder, OutType, PayloadBuilder, provider_traits};
use etw_types::{EventRecord, ExtType, ExtendedItemsBuf, Guid, HeaderType};

/// One field `f` of the given types.
fn field(in_type: InType, out_type: OutType, count: Count) -> Vec<u8> {
    MetadataBuilder::new("E", 0).field("f", in_type, out_type, count, 0).finish().unwrap()
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn counted(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_le_bytes()[..], bytes].concat()
}

#[test]
fn every_type_and_format() {
    let sid = [1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 32, 2, 0, 0];
    let guid: Vec<u8> = (1..=16).collect();
    let time = 132_223_104_000_000_001i64.to_le_bytes();
    let parts: Vec<u8> =
        [2020u16, 2, 6, 29, 23, 59, 58, 7].iter().flat_map(|p| p.to_le_bytes()).collect();
    let v6: Vec<u8> = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1].to_vec();
    let socket = [2, 0, 0x1f, 0x90, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let (i, o) = (InType, OutType);
    let null = OutType::NULL;
    let text_z = [utf16("gr\u{fc}n"), vec![0, 0]].concat();
    let cases: Vec<(InType, OutType, Vec<u8>, &str)> = vec![
        (InType::UNICODESTRING, null, text_z.clone(), "\"grün\""),
        (InType::UNICODESTRING, OutType::XML, text_z, "\"grün\""),
        (InType::ANSISTRING, null, b"gr\xc3\xbcn\0".to_vec(), "\"grün\""),
        (InType::ANSISTRING, null, b"gr\xfcn\0".to_vec(), "\"grün\""),
        (InType::ANSISTRING, OutType::UTF8, b"gr\xfcn\0".to_vec(), "\"gr\u{fffd}n\""),
        (InType::ANSISTRING, OutType::JSON, b"{\"a\":1}\0".to_vec(), "\"{\\\"a\\\":1}\""),
        (InType::INT8, null, vec![0x80], "-128"),
        (InType::INT8, OutType::STRING, vec![b'x'], "\"x\""),
        (InType::UINT8, null, vec![0xff], "255"),
        (InType::UINT8, OutType::HEX, vec![0x0f], "\"0xf\""),
        (InType::UINT8, OutType::BOOLEAN, vec![2], "true"),
        (InType::UINT8, OutType::STRING, vec![0xe9], "\"é\""),
        (InType::INT16, null, vec![0xfe, 0xff], "-2"),
        (InType::UINT16, null, vec![0xfe, 0xff], "65534"),
        (InType::UINT16, OutType::PORT, vec![0x1f, 0x90], "8080"),
        (InType::UINT16, OutType::STRING, vec![0xac, 0x20], "\"€\""),
        (InType::UINT16, OutType::HEX, vec![0xcd, 0xab], "\"0xabcd\""),
        (InType::INT32, null, vec![0xff; 4], "-1"),
        (InType::INT32, OutType::HEX, vec![0xff; 4], "\"0xffffffff\""),
        (InType::INT32, OutType::HRESULT, vec![5, 0, 7, 0x80], "-2147024891"),
        (InType::INT32, OutType::UNSIGNED, vec![0xff; 4], "4294967295"),
        (InType::UINT32, null, vec![0xff; 4], "4294967295"),
        (InType::UINT32, OutType::SIGNED, vec![0xff; 4], "-1"),
        (InType::UINT32, OutType::PID, vec![4, 0, 0, 0], "4"),
        (InType::UINT32, OutType::TID, vec![8, 0, 0, 0], "8"),
        (InType::UINT32, OutType::IPV4, vec![192, 0, 2, 1], "\"192.0.2.1\""),
        (InType::UINT32, OutType::WIN32ERROR, vec![5, 0, 0, 0], "5"),
        (InType::UINT32, OutType::NTSTATUS, vec![5, 0, 0, 0], "5"),
        (InType::UINT32, OutType::CODE_POINTER, vec![0, 0x10, 0, 0], "\"0x1000\""),
        (InType::INT64, null, i64::MIN.to_le_bytes().to_vec(), "-9223372036854775808"),
        (InType::INT64, OutType::FILETIME, time.to_vec(), "\"2020-01-01T00:00:00.0000001Z\""),
        (InType::UINT64, null, vec![0xff; 8], "18446744073709551615"),
        (InType::UINT64, OutType::HEX, vec![0xff; 8], "\"0xffffffffffffffff\""),
        (InType::FLOAT, null, 0.1f32.to_le_bytes().to_vec(), "0.1"),
        (InType::DOUBLE, null, f64::INFINITY.to_le_bytes().to_vec(), "\"Infinity\""),
        (InType::DOUBLE, null, 1.5f64.to_le_bytes().to_vec(), "1.5"),
        (InType::BOOL32, null, vec![2, 0, 0, 0], "true"),
        (InType::BOOL32, null, vec![0; 4], "false"),
        (InType::BINARY, null, counted(&[0xde, 0xad]), "\"dead\""),
        (InType::BINARY, null, counted(&[]), "\"\""),
        (InType::BINARY, OutType::IPV6, counted(&v6), "\"2001:db8::1\""),
        (InType::BINARY, OutType::SOCKETADDRESS, counted(&socket), "\"127.0.0.1:8080\""),
        (InType::BINARY, OutType::PKCS7_WITH_TYPE_INFO, counted(&[1]), "\"01\""),
        (InType::GUID, null, guid, "\"04030201-0605-0807-090a-0b0c0d0e0f10\""),
        (InType::FILETIME, null, time.to_vec(), "\"2020-01-01T00:00:00.0000001Z\""),
        (
            InType::FILETIME,
            OutType::DATETIME_UTC,
            time.to_vec(),
            "\"2020-01-01T00:00:00.0000001Z\"",
        ),
        (InType::SYSTEMTIME, null, parts, "\"2020-02-29T23:59:58.0070000Z\""),
        (InType::SID, null, sid.to_vec(), "\"S-1-5-32-544\""),
        (InType::HEXINT32, null, vec![1, 0, 0, 0], "\"0x1\""),
        (InType::HEXINT32, OutType::NTSTATUS, vec![5, 0, 0, 0xc0], "\"0xc0000005\""),
        (InType::HEXINT64, null, vec![0; 8], "\"0x0\""),
        (InType::COUNTEDSTRING, null, counted(&utf16("a\0b")), "\"a\\u0000b\""),
        (InType::COUNTEDANSISTRING, OutType::UTF8, counted("€".as_bytes()), "\"€\""),
        (i(25), null, counted(&[7]), "\"07\""),
        // Pairs that are not legal are shown as the in-type's default.
        (InType::DOUBLE, OutType::PORT, 2f64.to_le_bytes().to_vec(), "2.0"),
        (InType::UINT32, o(99), vec![9, 0, 0, 0], "9"),
    ];
    for (in_type, out_type, payload, expected) in &cases {
        let json = |count, payload: &[u8]| {
            tracelogging_json(&field(*in_type, *out_type, count), payload).unwrap()
        };
        let name = format!("{in_type:?} {out_type:?}");
        assert_eq!(json(Count::Scalar, payload), format!("{{\"f\":{expected}}}"), "{name}");
        if *in_type == InType::BINARY {
            continue;
        }
        let two = [&payload[..], payload].concat();
        let array = format!("{{\"f\":[{expected},{expected}]}}");
        assert_eq!(json(Count::Fixed(2), &two), array, "{name}");
        let prefixed = [&[2, 0][..], &two].concat();
        assert_eq!(json(Count::Variable, &prefixed), array, "{name}");
        assert_eq!(json(Count::Variable, &[0, 0]), "{\"f\":[]}", "{name}");
        // Every byte that is missing is missed, but for the NUL of a last string.
        let cut = &payload[..payload.len().saturating_sub(1)];
        let short = tracelogging_json(&field(*in_type, *out_type, Count::Scalar), cut);
        let text = matches!(*in_type, InType::UNICODESTRING | InType::ANSISTRING);
        assert_eq!(short.is_ok(), text || payload.is_empty(), "{name}: {short:?}");
    }
}

/// UTF-16 with an odd number of bytes: the byte behind the last character is left, and nothing takes it for another field. In a
/// counted text, it is a character that is none.
#[test]
fn half_a_character_is_told() {
    let text = |in_type| field(in_type, OutType::NULL, Count::Scalar);
    let followed = MetadataBuilder::new("e", 0)
        .field("f", InType::UNICODESTRING, OutType::NULL, Count::Scalar, 0)
        .field("n", InType::UINT8, OutType::NULL, Count::Scalar, 0)
        .finish()
        .unwrap();
    let in_struct = MetadataBuilder::new("e", 0)
        .structure("s", 1, Count::Scalar, 0)
        .field("f", InType::UNICODESTRING, OutType::NULL, Count::Scalar, 0)
        .field("n", InType::UINT8, OutType::NULL, Count::Scalar, 0)
        .finish()
        .unwrap();
    let short = |field: &str, offset| {
        let error = PayloadError::Short { field: field.to_owned(), offset };
        Some(Reason::Payload(error))
    };
    for (blob, payload, json, rest, reason) in [
        (text(InType::UNICODESTRING), &b"h\0i\0!"[..], "{\"f\":\"hi\"}", &b"!"[..], None),
        (text(InType::UNICODESTRING), b"!", "{}", b"!", short("f", 0)),
        (followed.clone(), b"h\0i\0!", "{\"f\":\"hi\"}", b"!", short("n", 4)),
        (followed.clone(), b"h\0\0\0!", "{\"f\":\"h\",\"n\":33}", b"", None),
        (followed, b"\0\0!", "{\"f\":\"\",\"n\":33}", b"", None),
        (in_struct, b"h\0!", "{\"s\":{\"f\":\"h\"}}", b"!", short("n", 2)),
        (text(InType::COUNTEDSTRING), b"\x03\0h\0!", "{\"f\":\"h\u{fffd}\"}", b"", None),
    ] {
        with_tracelogging(&blob, payload, |decoded, record| {
            let mut shown = Json::default();
            let visited = decoded.visit_part(record, &mut shown).unwrap();
            assert_eq!(shown.finish(), json);
            assert_eq!((visited.rest, visited.reason), (rest, reason), "{json}");
        });
    }
}

#[test]
fn structs_arrays_and_repeated_names() {
    let blob = MetadataBuilder::new("Nested", 0x0fe0_0000)
        .structure("outer", 3, Count::Scalar, 0)
        .field("a", InType::UINT8, OutType::NULL, Count::Scalar, 0)
        .structure("inner", 2, Count::Variable, 0)
        .field("x", InType::UINT8, OutType::NULL, Count::Scalar, 7)
        .structure("deep", 1, Count::Fixed(2), 0)
        .field("s", InType::ANSISTRING, OutType::NULL, Count::Variable, 0)
        .field("a", InType::UINT8, OutType::HEX, Count::Scalar, 0)
        .field("a", InType::UINT8, OutType::NULL, Count::Scalar, 0)
        .field("a", InType::UINT8, OutType::NULL, Count::Scalar, 0)
        .finish()
        .unwrap();
    let payload = b"\x01\x02\x00\x03\x01\x00p\0\x00\x00\x04\x00\x00\x02\x00q\0r\0\x05\x06\x07";
    let json = tracelogging_json(&blob, payload).unwrap();
    assert_eq!(
        json,
        "{\"outer\":{\"a\":1,\"inner\":[{\"x\":3,\"deep\":[{\"s\":[\"p\"]},{\"s\":[]}]},\
         {\"x\":4,\"deep\":[{\"s\":[]},{\"s\":[\"q\",\"r\"]}]}],\"a#2\":\"0x5\"},\"a\":6,\"a#2\":7}"
    );
    with_tracelogging(&blob, payload, |decoded, record| {
        assert_eq!(decoded.source(), Some(Source::TraceLogging));
        assert_eq!(decoded.event_name(), Some("Nested"));
        let schema = decoded.schema().unwrap();
        assert_eq!(schema.tag, 0x0fe0_0000);
        assert_eq!(schema.fields.iter().find(|field| field.name == "x").unwrap().tag, 7);
        let text = decoded.fields_text(record, &Style::default()).unwrap();
        assert_eq!(text[0].1, "{1, [{3, [{[p]}, {[]}]}, {4, [{[]}, {[q, r]}]}], 0x5}");
        assert_eq!(text[2], ("a".to_string(), "7".to_string()));
    });
}

struct Properties(Vec<String>);

impl Visitor for Properties {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        self.0.push(format!("{}={value:?}", field.name));
    }
    fn begin_array(&mut self, _: &Field, _: usize) {}
    fn end_array(&mut self, _: &Field) {}
    fn begin_struct(&mut self, _: &Field) {}
    fn end_struct(&mut self, _: &Field) {}
}

/// TC-3: two properties, the second with protocol and schema, for a program that walks the fields itself.
#[test]
fn a_custom_field_is_a_length_and_a_payload_with_its_schema() {
    for tag in [0, 4] {
        let blob = MetadataBuilder::new("E", 0).custom("c", 5, &[0, 1, 2], tag).finish().unwrap();
        with_tracelogging(&blob, &[2, 0, 0xaa, 0xbb], |decoded, record| {
            let mut seen = Properties(Vec::new());
            decoded.visit(record, &mut seen).unwrap();
            assert_eq!(
                seen.0,
                [
                    "c.Length=UInt(2)",
                    "c=Custom { protocol: 5, schema: [0, 1, 2], data: [170, 187] }"
                ]
            );
            let fields = &decoded.schema().unwrap().fields;
            assert_eq!(fields.len(), 2);
            assert_eq!((fields[1].tag, fields[1].is_custom_length), (tag, false));
            assert!(
                matches!(&fields[1].kind, Kind::Custom { protocol: 5, schema } if **schema == [0, 1, 2])
            );
        });
        let json = tracelogging_json(&blob, &[2, 0, 0xaa, 0xbb]).unwrap();
        assert_eq!(json, "{\"c\":{\"protocol\":5,\"schema\":\"000102\",\"data\":\"aabb\"}}");
    }
}

/// TC-4: to a decoder that does not look at the custom flag the field is a binary one: the bytes of the two agree.
#[test]
fn a_custom_field_has_the_payload_of_a_binary_one() {
    let custom = MetadataBuilder::new("E", 0).custom("c", 9, &[], 0).finish().unwrap();
    let binary = field(InType::BINARY, OutType::NULL, Count::Scalar);
    let payload = PayloadBuilder::new().binary(&[1, 2, 3]).finish().unwrap();
    assert!(tracelogging_json(&custom, &payload).unwrap().contains("\"data\":\"010203\""));
    assert_eq!(tracelogging_json(&binary, &payload).unwrap(), "{\"f\":\"010203\"}");
}

#[test]
fn a_short_payload_names_the_field_and_its_offset() {
    let blob = MetadataBuilder::new("E", 0)
        .field("first", InType::UINT32, OutType::NULL, Count::Scalar, 0)
        .field("second", InType::UINT32, OutType::NULL, Count::Scalar, 0)
        .finish()
        .unwrap();
    let error = tracelogging_json(&blob, &[0; 7]).unwrap_err();
    assert_eq!(error, PayloadError::Short { field: "second".into(), offset: 4 });
    // Bytes behind the last field are the rest.
    assert!(tracelogging_json(&blob, &[0; 9]).is_ok());
}

#[test]
fn an_unknown_type_costs_the_fields_behind_it() {
    let mut blob = MetadataBuilder::new("E", 0)
        .field("first", InType::UINT8, OutType::NULL, Count::Scalar, 0)
        .field("pointer", InType::UINT8, OutType::NULL, Count::Scalar, 0)
        .finish()
        .unwrap();
    *blob.last_mut().unwrap() = 16;
    with_tracelogging(&blob, &[7, 1, 2], |decoded, record| {
        let mut json = Json::default();
        let visited = decoded.visit_part(record, &mut json).unwrap();
        assert_eq!((json.finish(), visited.rest), ("{\"first\":7}".to_owned(), &[1, 2][..]));
        assert!(
            matches!(visited.reason, Some(Reason::Incomplete(what)) if what.contains("pointer"))
        );
    });
}

#[test]
fn a_short_payload_keeps_the_fields_before_its_end() {
    let blob = MetadataBuilder::new("E", 0)
        .field("first", InType::UINT8, OutType::NULL, Count::Scalar, 0)
        .structure("s", 2, Count::Fixed(2), 0)
        .field("a", InType::UINT8, OutType::NULL, Count::Scalar, 0)
        .field("b", InType::UINT16, OutType::NULL, Count::Scalar, 0)
        .finish()
        .unwrap();
    with_tracelogging(&blob, &[7, 1, 2, 0, 3, 4], |decoded, record| {
        let mut json = Json::default();
        let visited = decoded.visit_part(record, &mut json).unwrap();
        assert_eq!(json.finish(), "{\"first\":7,\"s\":[{\"a\":1,\"b\":2},{\"a\":3}]}");
        assert_eq!(visited.rest, [4]);
        let error = PayloadError::Short { field: "b".into(), offset: 5 };
        assert_eq!(visited.reason, Some(Reason::Payload(error)));
    });
}

#[test]
fn bad_metadata_gives_a_reason() {
    let good = field(InType::UINT8, OutType::NULL, Count::Scalar);
    let mut too_long = good.clone();
    too_long[0] += 1;
    let mut missing_members = good.clone();
    missing_members.extend([3]);
    missing_members[0] += 1;
    *missing_members.iter_mut().rev().nth(1).unwrap() = 0x98;
    for blob in [&too_long[..], &missing_members, &[], &[2, 0], &good[..good.len() - 1]] {
        with_tracelogging(blob, &[0; 8], |decoded, _| {
            assert!(matches!(decoded.reason(), Some(Reason::TraceLogging(_))), "{blob:02x?}");
            assert!(decoded.schema().is_none());
        });
    }
}

#[test]
fn random_structs_decode_and_consume_their_payload() {
    let mut random = Random(0x5eed);
    for _ in 0..200 {
        let count = 1 + random.below(12);
        let mut metadata = MetadataBuilder::new("Random", 0);
        let mut payload = PayloadBuilder::new();
        for number in 0..count {
            let value = random.next();
            let name = format!("f{number}");
            (metadata, payload) = match random.below(4) {
                0 => (
                    metadata.field(&name, InType::UINT64, OutType::NULL, Count::Scalar, 0),
                    payload.u64(value),
                ),
                1 => (
                    metadata.field(&name, InType::ANSISTRING, OutType::NULL, Count::Scalar, 0),
                    payload.ansi_z(value.to_string().as_bytes()),
                ),
                2 => (
                    metadata.field(&name, InType::UINT8, OutType::NULL, Count::Variable, 0),
                    payload.count(3).u8(1).u8(2).u8(value as u8),
                ),
                _ => (
                    metadata.custom(&name, value as u8 % 32, &[number as u8], 0),
                    payload.binary(&value.to_le_bytes()),
                ),
            };
        }
        let (blob, payload) = (metadata.finish().unwrap(), payload.finish().unwrap());
        with_tracelogging(&blob, &payload, |decoded, record| {
            let mut seen = Properties(Vec::new());
            let schema = decoded.schema().unwrap();
            let taken = etw_decode::walk(schema, record.payload, 8, &mut seen).unwrap();
            assert_eq!(taken, payload.len());
        });
    }
}

/// One value of each in-type, and what it is by default.
fn one_of_each() -> Vec<(InType, Vec<u8>, &'static str)> {
    let number = |size: usize| [&[0xc1][..], &[0; 7]].concat()[..size].to_vec();
    vec![
        (InType::NULL, vec![], ""),
        (InType::UNICODESTRING, b"h\0i\0\0\0".to_vec(), "hi"),
        (InType::ANSISTRING, b"hi\0".to_vec(), "hi"),
        (InType::INT8, number(1), "-63"),
        (InType::UINT8, number(1), "193"),
        (InType::INT16, number(2), "193"),
        (InType::UINT16, number(2), "193"),
        (InType::INT32, number(4), "193"),
        (InType::UINT32, number(4), "193"),
        (InType::INT64, number(8), "193"),
        (InType::UINT64, number(8), "193"),
        (InType::FLOAT, (-2.5f32).to_le_bytes().to_vec(), "-2.5"),
        (InType::DOUBLE, 1e300f64.to_le_bytes().to_vec(), "1e300"),
        (InType::BOOL32, number(4), "true"),
        (InType::BINARY, counted(&[0xa, 0xb]), "0a0b"),
        (InType::GUID, vec![0; 16], "00000000-0000-0000-0000-000000000000"),
        (InType::FILETIME, vec![0; 8], "1601-01-01T00:00:00.0000000Z"),
        (InType::SYSTEMTIME, vec![0; 16], "0000-00-00T00:00:00.000"),
        (InType::SID, vec![1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0], "S-1-5-18"),
        (InType::HEXINT32, number(4), "0xc1"),
        (InType::HEXINT64, number(8), "0xc1"),
        (InType::COUNTEDSTRING, counted(b"h\0i\0"), "hi"),
        (InType::COUNTEDANSISTRING, counted(b"hi"), "hi"),
        (InType::COUNTEDBINARY, counted(&[0xa, 0xb]), "0a0b"),
    ]
}

/// The value above as an out-type shows it; `None` leaves the default.
fn otherwise(in_type: InType, out_type: u8) -> Option<&'static str> {
    let (i, narrow) = (in_type.0, (3..=6).contains(&in_type.0));
    let integer = (3..=10).contains(&i);
    Some(match out_type {
        2 if narrow => "\u{c1}",
        3 if integer => "true",
        4 | 37 if integer => "0xc1",
        7 if i == 5 || i == 6 => "49408",
        8 if i == 7 || i == 8 => "193.0.0.0",
        16 | 33 | 38 if i == 9 || i == 10 => "1601-01-01T00:00:00.0000193Z",
        13 if matches!(i, 7 | 8 | 20) => "193(ERROR_BAD_EXE_FORMAT)",
        14 | 15 if matches!(i, 7 | 8 | 20) => "0x000000c1",
        // An address of another family than IP is shown as its bytes.
        17 if i == 4 => "-63",
        18 if i == 3 => "193",
        17 | 18 if matches!(i, 13 | 20 | 21) => "193",
        _ => return None,
    })
}

/// Every in-type with every out-type, as one value and as arrays: nothing fails, every payload is used up, and JSON
/// parses.
#[test]
fn every_pair_of_types() {
    let style = Style::default();
    for (in_type, value, default) in one_of_each() {
        for out_type in 0..=127 {
            let expected = otherwise(in_type, out_type).unwrap_or(default);
            let scalar = field(in_type, OutType(out_type), Count::Scalar);
            let text = tracelogging_text(&scalar, &value, &style);
            assert_eq!(text, expected, "{in_type} {out_type}");
            if in_type == InType::NULL || in_type == InType::BINARY {
                continue;
            }
            let three = value.repeat(3);
            let prefixed = [&[3, 0][..], &three].concat();
            for (count, payload) in [(Count::Fixed(3), &three), (Count::Variable, &prefixed)] {
                let blob = field(in_type, OutType(out_type), count);
                let text = tracelogging_text(&blob, payload, &style);
                assert_eq!(text, format!("[{expected}, {expected}, {expected}]"));
                with_tracelogging(&blob, payload, |decoded, record| {
                    let schema = decoded.schema().unwrap();
                    let used = etw_decode::walk(schema, payload, 8, &mut Json::default());
                    assert_eq!(used, Ok(payload.len()), "{in_type} {out_type}");
                    let json = json_of(decoded, record).unwrap();
                    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
                    assert_eq!(json["f"].as_array().unwrap().len(), 3);
                });
            }
        }
    }
}

#[test]
fn texts_of_code_pages_and_of_no_encoding() {
    let ansi = field(InType::ANSISTRING, OutType::NULL, Count::Scalar);
    let page = |label| Style { code_page: CodePage::parse(label).unwrap(), ..Style::default() };
    for (bytes, style, expected) in [
        (&b"\x80 \x93x\x94\0"[..], Style::default(), "€ “x”"),
        (b"\x83\x65\x83\x58\x83\x67\0", page("932"), "テスト"),
        // UTF-8 wins where the bytes are valid.
        ("テスト\0".as_bytes(), page("932"), "テスト"),
        (b"\xcf\xf0\0", page("windows-1251"), "Пр"),
    ] {
        assert_eq!(tracelogging_text(&ansi, bytes, &style), expected);
    }
    let wide = field(InType::UNICODESTRING, OutType::NULL, Count::Scalar);
    let style = Style::default();
    let lone = [&[0x3d, 0xd8][..], b"a\0", &[0x00, 0xdc, 0, 0]].concat();
    assert_eq!(tracelogging_text(&wide, &lone, &style), "\u{fffd}a\u{fffd}");
    let pair: Vec<u8> = [utf16("😀"), vec![0, 0]].concat();
    assert_eq!(tracelogging_text(&wide, &pair, &style), "😀");
    // A last string without its NUL, also one that is cut inside a character.
    assert_eq!(tracelogging_text(&wide, b"a\0b\0", &style), "ab");
    assert_eq!(tracelogging_text(&wide, b"a\0b", &style), "a");
    assert_eq!(tracelogging_text(&ansi, b"ab", &style), "ab");
    let utf8 = field(InType::COUNTEDANSISTRING, OutType::UTF8, Count::Scalar);
    assert_eq!(tracelogging_text(&utf8, &counted(b"\xe9"), &style), "\u{fffd}");
}

#[test]
fn floats_that_are_no_numbers_and_integers_that_no_double_holds() {
    for (value, expected) in [
        (f64::NAN, "\"NaN\""),
        (f64::INFINITY, "\"Infinity\""),
        (f64::NEG_INFINITY, "\"-Infinity\""),
        (-0.0, "-0.0"),
        (5e-324, "5e-324"),
        (0.1, "0.1"),
    ] {
        let blob = field(InType::DOUBLE, OutType::NULL, Count::Scalar);
        let json = tracelogging_json(&blob, &value.to_le_bytes()).unwrap();
        assert_eq!(json, format!("{{\"f\":{expected}}}"));
    }
    let single = field(InType::FLOAT, OutType::NULL, Count::Scalar);
    for (value, expected) in [(f32::NAN, "\"NaN\""), (16_777_216.0, "16777216.0")] {
        let json = tracelogging_json(&single, &value.to_le_bytes()).unwrap();
        assert_eq!(json, format!("{{\"f\":{expected}}}"));
    }
    let wide = field(InType::UINT64, OutType::NULL, Count::Scalar);
    let number = (1u64 << 53) + 1;
    with_tracelogging(&wide, &number.to_le_bytes(), |decoded, record| {
        for (quoted, expected) in [(false, "9007199254740993"), (true, "\"9007199254740993\"")] {
            let mut json = Json::default();
            json.style.json_strings64 = quoted;
            decoded.visit(record, &mut json).unwrap();
            assert_eq!(json.text, format!("\"f\":{expected}").into_bytes());
        }
    });
}

#[test]
fn provider_traits_give_name_and_group() {
    let blob = field(InType::UINT8, OutType::NULL, Count::Scalar);
    let group = Guid::from_u128(7);
    for (name, group, expected) in [
        ("My.Provider", Some(group), Some("My.Provider")),
        ("grün", None, Some("grün")),
        ("", Some(group), None),
    ] {
        let traits = provider_traits(name, group).unwrap();
        for cut in [0, 1] {
            let traits = &traits[..traits.len() - cut];
            let items = [(ExtType::PROV_TRAITS, traits), (ExtType::EVENT_SCHEMA_TL, &blob)];
            let items = ExtendedItemsBuf::from_items(&items).unwrap();
            let mut record = EventRecord::new(HeaderType::Event64, &[1]);
            record.provider = Some(PROVIDER);
            record.extended = items.as_items();
            let mut decoder = Decoder::new();
            let decoded = decoder.decode(&record);
            assert_eq!(decoded.source(), Some(Source::TraceLogging), "bad traits harm no event");
            let sound = cut == 0;
            assert_eq!(decoded.provider_name().as_deref(), expected.filter(|_| sound));
            assert_eq!(decoded.provider_group(), group.filter(|_| sound));
        }
    }
}

#[test]
fn texts_of_arrays_keep_empty_values_and_brackets_apart() {
    let blob = field(InType::ANSISTRING, OutType::NULL, Count::Fixed(4));
    let text = tracelogging_text(&blob, b"\0a[\0b{\0\0", &Style::default());
    assert_eq!(text, "[, a[, b{, ]");
}

/// TC-3: in structs, and in arrays of structs, the two stand together, and the count of members is the writer's.
#[test]
fn custom_fields_in_structs() {
    let blob = MetadataBuilder::new("E", 0)
        .structure("s", 2, Count::Fixed(2), 0)
        .custom("c", 31, &[], 0x0fff_ffff)
        .field("x", InType::UINT8, OutType::NULL, Count::Scalar, 0)
        .custom("c", 24, &[9], 0)
        .finish()
        .unwrap();
    let payload = [1, 0, 0xaa, 7, 0, 0, 8, 2, 0, 0xbb, 0xcc];
    assert_eq!(
        tracelogging_json(&blob, &payload).unwrap(),
        "{\"s\":[{\"c\":{\"protocol\":31,\"schema\":\"\",\"data\":\"aa\"},\"x\":7},\
         {\"c\":{\"protocol\":31,\"schema\":\"\",\"data\":\"\"},\"x\":8}],\
         \"c\":{\"protocol\":24,\"schema\":\"09\",\"data\":\"bbcc\"}}"
    );
    with_tracelogging(&blob, &payload, |decoded, record| {
        let schema = decoded.schema().unwrap();
        let names: Vec<&str> = schema.fields.iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["s", "c.Length", "c", "c.Length", "c", "x"]);
        assert_eq!(schema.fields[4].tag, 0x0fff_ffff);
        let mut seen = Properties(Vec::new());
        assert_eq!(etw_decode::walk(schema, record.payload, 8, &mut seen), Ok(payload.len()));
    });
    // A length that passes the end.
    assert_eq!(
        tracelogging_json(&blob, &[2, 0, 0xaa]).unwrap_err(),
        PayloadError::Short { field: "c".into(), offset: 2 }
    );
}

#[test]
fn every_cut_of_sound_metadata_gives_a_reason_or_fewer_fields() {
    let blob = MetadataBuilder::new("Event", 0x0fe0_0000)
        .structure("s", 2, Count::Variable, 1)
        .field("a", InType::UINT8, OutType::HEX, Count::Fixed(2), 2)
        .custom("c", 3, &[1, 2], 3)
        .finish()
        .unwrap();
    for end in 0..blob.len() {
        for patch in [false, true] {
            let mut cut = blob[..end].to_vec();
            if patch && end >= 2 {
                cut[..2].copy_from_slice(&(end as u16).to_le_bytes());
            }
            with_tracelogging(&cut, &[1, 0, 5, 6, 0, 0], |decoded, _| {
                let name_only = patch && end == 2 + 1 + 6;
                assert_eq!(decoded.schema().is_some(), name_only, "{end} {patch}");
                assert_eq!(decoded.reason().is_some(), !name_only, "{end} {patch}");
            });
        }
    }
}
