//! Fields that Microsoft's macros do not have, and structs.

use std::collections::BTreeMap;

use etw::{Protocol, Status, define_provider, write_event};
use etw_tracelogging::{Count, InType, MetadataBuilder, OutType};

use crate::capture::{Captured, one};

define_provider!(PROVIDER, "Test.Shapes");

fn event() -> MetadataBuilder {
    MetadataBuilder::new("E", 0)
}

#[track_caller]
fn check(write: impl FnOnce() -> Status, metadata: MetadataBuilder, payload: &[u8]) -> Captured {
    let event = one(&PROVIDER, write);
    assert_eq!(event.metadata, metadata.finish().unwrap());
    assert_eq!(event.payload, payload);
    event
}

#[test]
fn structs_have_their_members_in_order() {
    check(
        || write_event!(PROVIDER, "E", struct("s", { i32("x", &1), u32("y", &2) })),
        event()
            .structure("s", 2, Count::Scalar, 0)
            .field("x", InType::INT32, OutType::NULL, Count::Scalar, 0)
            .field("y", InType::UINT32, OutType::NULL, Count::Scalar, 0),
        &[1, 0, 0, 0, 2, 0, 0, 0],
    );
    check(
        || {
            write_event!(
                PROVIDER,
                "E",
                u8("a", &1),
                struct("s", tag(5), {
                    u8("b", &2),
                    struct("t", { str8("c", "x"), raw_meta("d", U8), raw_data(&[9]) }, tag(6)),
                    u8("e", &3),
                }),
                u8("f", &4),
            )
        },
        event()
            .field("a", InType::UINT8, OutType::NULL, Count::Scalar, 0)
            .structure("s", 3, Count::Scalar, 5)
            .field("b", InType::UINT8, OutType::NULL, Count::Scalar, 0)
            .structure("t", 2, Count::Scalar, 6)
            .field("c", InType::COUNTEDANSISTRING, OutType::UTF8, Count::Scalar, 0)
            .field("d", InType::UINT8, OutType::NULL, Count::Scalar, 0)
            .field("e", InType::UINT8, OutType::NULL, Count::Scalar, 0)
            .field("f", InType::UINT8, OutType::NULL, Count::Scalar, 0),
        &[1, 2, 1, 0, b'x', 9, 3, 4],
    );
}

struct Peer {
    name: String,
    ports: Vec<u16>,
}

#[test]
fn arrays_of_structs() {
    let peers = vec![
        Peer { name: "a".to_owned(), ports: vec![1, 2] },
        Peer { name: "bc".to_owned(), ports: vec![] },
    ];
    let metadata = || {
        event()
            .structure("peers", 2, Count::Variable, 3)
            .field("name", InType::COUNTEDANSISTRING, OutType::UTF8, Count::Scalar, 0)
            .field("ports", InType::UINT16, OutType::NULL, Count::Variable, 0)
    };
    let payload = b"\x02\0\x01\0a\x02\0\x01\0\x02\0\x02\0bc\0\0";
    check(
        || {
            write_event!(
                PROVIDER,
                "E",
                struct_slice("peers", &peers, |peer| {
                    str8("name", &peer.name),
                    u16_slice("ports", &peer.ports),
                }, tag(3)),
            )
        },
        metadata(),
        payload,
    );
    // Any iterator, any pattern; a name made for the occasion lives long enough.
    let map: BTreeMap<&str, &[u16]> = [("A", &[1u16, 2][..]), ("BC", &[])].into();
    check(
        || {
            write_event!(
                PROVIDER,
                "E",
                struct_slice("peers", map.iter(), |(name, ports): (&&str, &&[u16])| {
                    str8("name", name.to_lowercase().as_str()),
                    u16_slice("ports", ports),
                }, tag(3)),
            )
        },
        metadata(),
        payload,
    );
}

#[test]
fn arrays_of_structs_nest() {
    let rows = [[1u8, 2], [3, 4]];
    check(
        || {
            write_event!(
                PROVIDER,
                "E",
                struct_slice("rows", rows, |row| {
                    struct_slice("cells", row, |cell| { u8("v", &cell) }),
                    struct("s", { u8("n", &7) }),
                }),
                u8("end", &9),
            )
        },
        event()
            .structure("rows", 2, Count::Variable, 0)
            .structure("cells", 1, Count::Variable, 0)
            .field("v", InType::UINT8, OutType::NULL, Count::Scalar, 0)
            .structure("s", 1, Count::Scalar, 0)
            .field("n", InType::UINT8, OutType::NULL, Count::Scalar, 0)
            .field("end", InType::UINT8, OutType::NULL, Count::Scalar, 0),
        &[2, 0, 2, 0, 1, 2, 7, 2, 0, 3, 4, 7, 9],
    );
}

#[test]
fn arrays_of_constant_count() {
    const TWO: usize = 2;
    check(
        || {
            write_event!(
                PROVIDER,
                "E",
                u16_hex_array("a", &[1, 2, 3], count(3)),
                bool8_array("b", &[true, false], count(TWO), tag(1)),
                str8_array("c", &["x", "yz"], count(2)),
                guid_array("d", &[etw::Guid([5; 16])], count(1u16)),
                usize_array("e", &[7; 2], count(2)),
            )
        },
        event()
            .field("a", InType::UINT16, OutType::HEX, Count::Fixed(3), 0)
            .field("b", InType::UINT8, OutType::BOOLEAN, Count::Fixed(2), 1)
            .field("c", InType::COUNTEDANSISTRING, OutType::UTF8, Count::Fixed(2), 0)
            .field("d", InType::GUID, OutType::NULL, Count::Fixed(1), 0)
            .field(
                "e",
                InType::uint_ptr(size_of::<usize>() as u8),
                OutType::NULL,
                Count::Fixed(2),
                0,
            ),
        &[
            &[1, 0, 2, 0, 3, 0, 1, 0, 1, 0, b'x', 2, 0, b'y', b'z'][..],
            &[5; 16],
            &7usize.to_le_bytes(),
            &7usize.to_le_bytes(),
        ]
        .concat(),
    );
}

/// TC-1, TC-2: the vectors of the format's notes.
#[test]
fn custom_fields_are_encoded_as_the_format_says() {
    let data = vec![0xaa, 0xbb];
    let bare = check(
        || write_event!(PROVIDER, "E", custom("c", &data, protocol(5), schema([0, 1, 2]))),
        event().custom("c", 5, &[0, 1, 2], 0),
        &[2, 0, 0xaa, 0xbb],
    );
    assert_eq!(bare.metadata, b"\x0d\0\0E\0c\0\x65\x03\0\0\x01\x02");
    let tagged = check(
        || write_event!(PROVIDER, "E", custom("c", &data, protocol(5), schema([0, 1, 2]), tag(4))),
        event().custom("c", 5, &[0, 1, 2], 4),
        &[2, 0, 0xaa, 0xbb],
    );
    assert_eq!(tagged.metadata, b"\x12\0\0E\0c\0\xe5\x80\x80\x80\x80\x04\x03\0\0\x01\x02");
}

/// TC-1: the name by default, a description, constants, Microsoft's protocols.
#[test]
fn a_custom_field_has_a_default_name_and_options() {
    struct Message {
        data: [u8; 2],
    }
    const SCHEMA: &[u8] = &[7; 300];
    const OURS: u8 = 31;
    let x = Message { data: [1, 2] };
    check(
        || {
            write_event!(
                PROVIDER,
                "E",
                custom(&x.data, protocol(OURS), schema(SCHEMA), description("so"))
            )
        },
        event().custom("&x.data", 31, &[7; 300], 0),
        &[2, 0, 1, 2],
    );
    // Its text as in the source, but on one line.
    let parts = [[1u8, 2], [3, 4]];
    check(
        || {
            write_event!(
                PROVIDER,
                "E",
                custom(
                    parts[1] // the second
                        .as_slice(),
                    protocol(9),
                    schema([])
                ),
            )
        },
        event().custom("parts[1] .as_slice()", 9, &[], 0),
        &[2, 0, 3, 4],
    );
    check(
        || write_event!(PROVIDER, "E", custom("n", "text", protocol(Microsoft(4)), schema(b"s"))),
        event().custom("n", 4, b"s", 0),
        b"\x04\0text",
    );
    check(
        || {
            write_event!(
                PROVIDER,
                "E",
                custom("n", b"", protocol(Protocol::Microsoft(0)), schema([]))
            )
        },
        event().custom("n", 0, &[], 0),
        &[0, 0],
    );
    check(
        || {
            write_event!(
                PROVIDER,
                "E",
                custom("n", b"", protocol(Protocol::User(6)), schema([0; 4]))
            )
        },
        event().custom("n", 6, &[0; 4], 0),
        &[0, 0],
    );
}

#[test]
fn names_are_constants_too() {
    const NAME: &str = "field";
    check(
        || {
            write_event!(
                PROVIDER,
                "E",
                u8(NAME, &1),
                u8(concat!("a", 'b'), &2),
                struct(stringify!(s), { u8(r#"r"aw"#, &3) }),
                u8("\u{e9}\x41\\", &4)
            )
        },
        event()
            .field("field", InType::UINT8, OutType::NULL, Count::Scalar, 0)
            .field("ab", InType::UINT8, OutType::NULL, Count::Scalar, 0)
            .structure("s", 1, Count::Scalar, 0)
            .field("r\"aw", InType::UINT8, OutType::NULL, Count::Scalar, 0)
            .field("éA\\", InType::UINT8, OutType::NULL, Count::Scalar, 0),
        &[1, 2, 3, 4],
    );
}
