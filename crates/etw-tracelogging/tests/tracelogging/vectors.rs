//! Bytes worked out from Microsoft's headers and crates, in both directions.

use etw_tracelogging::{
    Count, Custom, EventMetadata, Field, InType, MetadataBuilder, OutType, PayloadBuilder,
    ProviderTraits, provider_traits,
};
use etw_types::Guid;

/// Pairs of hexadecimal digits; blanks are for the reader.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|digit| !digit.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn event() -> MetadataBuilder {
    MetadataBuilder::new("E", 0)
}

fn scalar(name: &str, in_type: InType) -> Field<'_> {
    Field {
        name: name.as_bytes(),
        in_type,
        out_type: OutType::NULL,
        count: Count::Scalar,
        custom: None,
        struct_field_count: 0,
        tag: 0,
    }
}

/// `builder` makes `vector`, and `vector` is read as an event `E` with `fields`.
#[track_caller]
fn check(vector: &str, builder: MetadataBuilder, fields: &[Field<'_>]) {
    let blob = hex(vector);
    assert_eq!(builder.finish().unwrap(), blob);
    let metadata = EventMetadata::parse(&blob).unwrap();
    assert_eq!((metadata.name(), metadata.tag()), (&b"E"[..], 0));
    let found: Vec<_> = metadata.fields().map(Result::unwrap).collect();
    assert_eq!(found, fields);
}

#[test]
fn provider_without_group() {
    let blob = provider_traits("MyCompany.MyComponent", None).unwrap();
    assert_eq!(blob, [&[0x18, 0][..], b"MyCompany.MyComponent\0"].concat());
    assert_eq!(
        provider_traits("block_storage_2", None).unwrap(),
        hex("1200626c6f636b5f73746f726167655f3200")
    );
    let traits = ProviderTraits::parse(&blob).unwrap();
    assert_eq!((traits.name(), traits.group()), (&b"MyCompany.MyComponent"[..], None));
}

#[test]
fn provider_with_group() {
    let group: Guid = "f73b8292-f610-4fa7-ba62-708353d162c4".parse().unwrap();
    let trait_bytes = hex("1300 01 92823bf710f6a74fba62708353d162c4");
    let expected = [&[0x2b, 0][..], b"MyCompany.MyComponent\0", &trait_bytes].concat();
    assert_eq!(provider_traits("MyCompany.MyComponent", Some(group)).unwrap(), expected);
    let traits = ProviderTraits::parse(&expected).unwrap();
    assert_eq!((traits.name(), traits.group()), (&b"MyCompany.MyComponent"[..], Some(group)));
}

const TAGS: [(u32, &str); 8] = [
    (0, "00"),
    (0x0fe0_0000, "7f"),
    (0x0020_0000, "01"),
    (0x4000, "8001"),
    (0x80, "808001"),
    (1, "80808001"),
    (0x0fff_ffff, "ffffff7f"),
    (0x1234, "8080a434"),
];

#[test]
fn event_tags_are_encoded_as_the_format_says() {
    for (tag, chain) in TAGS {
        let chain = hex(chain);
        let blob = MetadataBuilder::new("E", tag).finish().unwrap();
        assert_eq!(blob, [&[4 + chain.len() as u8, 0][..], &chain, b"E\0"].concat());
        assert_eq!(EventMetadata::parse(&blob).unwrap().tag(), tag);
    }
}

#[test]
fn field_tags_are_encoded_as_the_format_says() {
    for (tag, chain) in TAGS.into_iter().skip(1) {
        let chain = hex(chain);
        let builder = event().field("f", InType::INT8, OutType::NULL, Count::Scalar, tag);
        let blob = builder.finish().unwrap();
        assert_eq!(blob[5..], [&b"f\0\x83\x80"[..], &chain].concat());
        let field = Field { tag, ..scalar("f", InType::INT8) };
        assert_eq!(EventMetadata::parse(&blob).unwrap().fields().next(), Some(Ok(field)));
    }
}

#[test]
fn an_array_of_variable_count_is_encoded_as_the_format_says() {
    check(
        "0800 00 4500 6100 47",
        event().field("a", InType::INT32, OutType::NULL, Count::Variable, 0),
        &[Field { count: Count::Variable, ..scalar("a", InType::INT32) }],
    );
}

#[test]
fn fixed_array_with_out_type() {
    check(
        "0b00 00 4500 6100 a6 04 0300",
        event().field("a", InType::UINT16, OutType::HEX, Count::Fixed(3), 0),
        &[Field { count: Count::Fixed(3), out_type: OutType::HEX, ..scalar("a", InType::UINT16) }],
    );
}

#[test]
fn a_counted_utf_8_string_is_encoded_as_the_format_says() {
    check(
        "0900 00 4500 7300 97 23",
        event().field("s", InType::COUNTEDANSISTRING, OutType::UTF8, Count::Scalar, 0),
        &[Field { out_type: OutType::UTF8, ..scalar("s", InType::COUNTEDANSISTRING) }],
    );
}

#[test]
fn a_structure_is_encoded_as_the_format_says() {
    check(
        "0f00 00 4500 7300 98 02 7800 07 7900 08",
        event()
            .structure("s", 2, Count::Scalar, 0)
            .field("x", InType::INT32, OutType::NULL, Count::Scalar, 0)
            .field("y", InType::UINT32, OutType::NULL, Count::Scalar, 0),
        &[
            Field { struct_field_count: 2, ..scalar("s", InType::STRUCT) },
            scalar("x", InType::INT32),
            scalar("y", InType::UINT32),
        ],
    );
}

/// TC-2
#[test]
fn a_custom_field_is_encoded_as_the_format_says() {
    let custom = Some(Custom { protocol: 5, schema: &[0, 1, 2] });
    check(
        "0d00 00 4500 6300 65 0300 000102",
        event().custom("c", 5, &[0, 1, 2], 0),
        &[Field { custom, ..scalar("c", InType::BINARY) }],
    );
}

/// TC-2
#[test]
fn custom_with_tag() {
    let custom = Some(Custom { protocol: 5, schema: &[0, 1, 2] });
    check(
        "1200 00 4500 6300 e5 80 80808004 0300 000102",
        event().custom("c", 5, &[0, 1, 2], 4),
        &[Field { custom, tag: 4, ..scalar("c", InType::BINARY) }],
    );
}

/// TC-2
#[test]
fn the_payload_of_a_custom_field_begins_with_its_length() {
    let payload = PayloadBuilder::new().binary(&[0xaa, 0xbb]).finish().unwrap();
    assert_eq!(payload, hex("0200aabb"));
}

/// TC-4
#[test]
fn a_custom_field_is_binary_to_a_reader_that_ignores_the_flag() {
    // A decoder that never looks at `custom` finds the payload and, behind it, the next field.
    let blob = event()
        .custom("c", 24, &[7, 7], 0)
        .field("n", InType::UINT8, OutType::NULL, Count::Scalar, 0)
        .finish()
        .unwrap();
    let payload = PayloadBuilder::new().binary(&[0xaa, 0xbb]).u8(9).finish().unwrap();
    let fields: Vec<_> =
        EventMetadata::parse(&blob).unwrap().fields().map(Result::unwrap).collect();
    assert_eq!((fields[0].in_type, fields[0].count), (InType::BINARY, Count::Scalar));
    let (value, rest) = fields[0].in_type.split(&payload).unwrap();
    assert_eq!(value, [0xaa, 0xbb]);
    assert_eq!(fields[1].in_type.split(rest), Some((&[9][..], &[][..])));
}
