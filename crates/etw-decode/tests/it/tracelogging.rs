use crate::support::{Random, tracelogging_json, with_tracelogging};
use etw_decode::{Field, Kind, PayloadError, Reason, Source, Style, Value, Visitor};
use etw_tracelogging::{Count, InType, MetadataBuilder, OutType, PayloadBuilder};

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
    // What stands behind the last field is ignored.
    assert!(tracelogging_json(&blob, &[0; 9]).is_ok());
}

#[test]
fn bad_metadata_gives_a_reason() {
    let good = field(InType::UINT8, OutType::NULL, Count::Scalar);
    let mut pointer = good.clone();
    *pointer.last_mut().unwrap() = 16;
    let mut too_long = good.clone();
    too_long[0] += 1;
    let mut missing_members = good.clone();
    missing_members.extend([3]);
    missing_members[0] += 1;
    *missing_members.iter_mut().rev().nth(1).unwrap() = 0x98;
    for blob in [&pointer[..], &too_long, &missing_members, &[], &[2, 0], &good[..good.len() - 1]] {
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
