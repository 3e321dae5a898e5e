//! The seeds of the fuzz targets, replayed on stable. `ETW_BLESS=1` rewrites them.

use crate::event_info::{EVENT, Info, MESSAGE, Property, map, property};
use etw_tracelogging::{Count, InType, MetadataBuilder, OutType};
use std::path::{Path, PathBuf};

#[path = "../../../../fuzz/src/decode.rs"]
mod targets;

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

fn join(schema: &[u8], payload: &[u8]) -> Vec<u8> {
    [&(schema.len() as u16).to_le_bytes()[..], schema, payload].concat()
}

fn metadata_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let scalar = |in_type, out_type| {
        MetadataBuilder::new("E", 1)
            .field("f", in_type, out_type, Count::Scalar, 0)
            .finish()
            .unwrap()
    };
    let nested = MetadataBuilder::new("Nested", 0)
        .structure("s", 2, Count::Variable, 3)
        .field("text", InType::UNICODESTRING, OutType::NULL, Count::Scalar, 0)
        .custom("c", 5, &[1], 0)
        .finish()
        .unwrap();
    vec![
        ("number", join(&scalar(InType::UINT32, OutType::HEX), &[1, 2, 3, 4])),
        ("socket", join(&scalar(InType::BINARY, OutType::SOCKETADDRESS), &[4, 0, 2, 0, 1, 2])),
        ("sid", join(&scalar(InType::SID, OutType::NULL), &[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0])),
        ("nested", join(&nested, &[1, 0, b'a', 0, 0, 0, 1, 0, 9])),
        ("cut", join(&nested[..9], &[])),
    ]
}

fn info_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let info = Info {
        id: 7,
        top_level: Some(3),
        names: vec![(EVENT, "E"), (MESSAGE, "%1 %2")],
        properties: vec![
            property("n", 4, 0),
            Property { flags: 0x02, length: 0, ..property("text", 1, 0) },
            Property { flags: 0x05, in_type: 3, out_type: 1, count: 0, ..property("s", 0, 0) },
            Property { map: "M", ..property("x", 8, 8) },
        ],
        ..Info::default()
    };
    let bits = map("M", 2, &[(1, "one"), (4, "four")]);
    let custom = Info {
        id: 7,
        custom_schema: vec![5, 0, 1, 0, 9],
        properties: vec![
            property("c.Length", 6, 0),
            Property { flags: 0x82, length: 0, ..property("c", 14, 0) },
            Property { count: 2, length: 2, ..property("text", 306, 0) },
        ],
        ..Info::default()
    };
    vec![
        ("fields", join(&info.blob(), &join(&bits, &[1, b'a', 0, 5, 0, 0, 0]))),
        ("custom", join(&custom.blob(), &join(&[], &[1, 0, 0xaa, b'h', 0, b'i', 0]))),
        ("cut", join(&info.blob()[..0x80], &join(&bits[..40], &[]))),
    ]
}

fn replay(target: &str, seeds: Vec<(&'static str, Vec<u8>)>, run: fn(&[u8])) {
    let folder = folder(target);
    if std::env::var_os("ETW_BLESS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in &seeds {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        run(&std::fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= seeds.len(), "{target}: {count} seeds");
}

#[test]
fn event_metadata() {
    replay("event_metadata", metadata_seeds(), targets::event_metadata);
}

#[test]
fn event_info() {
    replay("event_info", info_seeds(), targets::event_info);
}
