//! The seeds of the fuzz targets, replayed on stable. `ETW_BLESS=1` rewrites them.

use crate::event_info::{EVENT, Info, MESSAGE, Property, map, property};
use etw_tracelogging::{Count, InType, MetadataBuilder, OutType};

#[path = "../../../../fuzz/src/replay.rs"]
mod replaying;
#[path = "../../../../fuzz/src/decode.rs"]
mod targets;

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
    replaying::replay(target, &seeds, 400, run);
}

#[test]
fn event_metadata_causes_no_panic() {
    replay("event_metadata", metadata_seeds(), targets::event_metadata);
}

#[test]
fn event_info_causes_no_panic() {
    replay("event_info", info_seeds(), targets::event_info);
}

const MANIFEST: &str = r#"<m><provider name="Maker" guid="{00000000-0000-0000-0000-000000000001}">
<tasks><task name="T" value="1"/></tasks><maps><bitMap name="B"><map value="1" message="one"/></bitMap></maps>
<templates><template tid="t"><data name="n" inType="win:UInt8"/><data name="s" inType="win:UnicodeString" length="n"/>
<struct name="x" count="n"><data name="b" inType="win:Binary" length="n"/><data name="m" inType="win:UInt32" map="B"/></struct></template></templates>
<events><event value="7" template="t" task="T" message="%1 %2"/></events></provider></m>"#;

const TMF: &str = "00112233-4455-6677-8899-aabbccddeeff Driver // SRC=a.c\n\
#typev a_c1 7 \"%0[%!FUNC!] %10!s! %11!-08.3x! %12!s!\" // FUNC=f LEVEL=L\n{\nst, ItemNTSTATUS -- 10\nn, ItemLong -- 11\n\
l, ItemSetByte(a,b=3) -- 12\n}\n";

const MOF: &str = r#"[Guid("{00000000-0000-0000-0000-000000000001}"), EventVersion(2), DisplayName("C") : amended] class C : E {};
[EventType{1, 2}, EventTypeName{"A", "B"}] class D : C { [WmiDataId(1), Pointer] uint32 P; [WmiDataId(2)] uint8 N;
[WmiDataId(3), WmiSizeIs("N")] uint16 L[]; [WmiDataId(4), Format("w")] string S; [WmiDataId(5), extension("Sid")] object O; };"#;

#[test]
fn manifests_cause_no_panic() {
    let seeds =
        vec![("whole", join(MANIFEST.as_bytes(), &[2, b'h', 0, b'i', 0, 1, 2, 1, 0, 0, 0]))];
    replay("manifest", seeds, targets::manifest);
}

/// A WEPExplorer file, with the payload of its event.
#[test]
fn wep_files_cause_no_panic() {
    let text = r#"<Providers><Provider><Name>Maker</Name><Metadata><Guid>{00000000-0000-0000-0000-000000000001}</Guid>
<Levels><Level><Message>Info &amp;</Message><Name>win:Informational</Name><Value>4</Value></Level></Levels>
<Opcodes><Opcode><Message>Go</Message><Name>G</Name><Value>9</Value><Task>1</Task></Opcode></Opcodes>
<Keywords><Keyword><Message>A b</Message><Name>K</Name><Value>16</Value></Keyword></Keywords></Metadata>
<EventMetadata><Event><Id>7</Id><Version>0</Version><Level>Info &#38;</Level><Opcode>Go</Opcode><Keyword>A b c</Keyword>
<Message><![CDATA[%1 %2]]></Message><Template><![CDATA[<template><data name="n" inType="win:UInt8"/>
<data name="s" inType="win:UnicodeString" length="n"/></template>]]></Template></Event></EventMetadata></Provider></Providers>"#;
    replay("wep", vec![("whole", join(text.as_bytes(), &[2, b'h', 0, b'i', 0, 1]))], targets::wep);
}

#[test]
fn metadata_of_programs_causes_no_panic() {
    let traits =
        etw_tracelogging::provider_traits("Maker", Some(etw_types::Guid([7; 16]))).unwrap();
    let event = MetadataBuilder::new("Started", 0)
        .structure("s", 1, Count::Scalar, 0)
        .field("n", InType::UINT32, OutType::HEX, Count::Variable, 0)
        .finish()
        .unwrap();
    let seed = [
        &b"code ETW0\0\0\0ETW0\x10\0\0\x01\x86\x0e\x04\x88\x2b\x05\x8a\xbb\0\x04"[..],
        &[1; 16],
        &traits,
        &[0, 6, 11, 4, 0],
        &16u64.to_le_bytes(),
        &event,
        &[5, 4, 0, 7, 0],
        &0u64.to_le_bytes(),
        &event,
        &[1],
    ]
    .concat();
    replay("program_metadata", vec![("program", seed)], targets::program_metadata);
}

#[test]
fn event_source_manifests_cause_no_panic() {
    let (first, second) = MANIFEST.as_bytes().split_at(200);
    let part = |number: u8, text: &[u8]| [&[1, 1, 0, 0x5b, 2, 0, number, 0], text].concat();
    let payload = [1, b'h', 0, 9, 1, 0, 0, 0];
    let seeds = vec![("two_parts", join(&part(0, first), &join(&part(1, second), &payload)))];
    replay("event_source", seeds, targets::event_source);
}

#[test]
fn tmf_files_cause_no_panic() {
    let payload = [0x22, 0, 0, 0xc0, 0xff, 0xff, 0xff, 0xff, 3];
    replay("tmf", vec![("whole", join(TMF.as_bytes(), &payload))], targets::tmf);
}

#[test]
fn mof_files_cause_no_panic() {
    let payload = [1, 2, 3, 4, 2, 1, 0, 2, 0, b'h', 0, 0, 0, 0, 0, 0, 0];
    replay("mof", vec![("whole", join(MOF.as_bytes(), &payload))], targets::mof);
}

#[test]
fn packs_cause_no_panic() {
    let mut builder = etw_decode::pack::PackBuilder::default();
    builder.add("a.man", MANIFEST.as_bytes()).unwrap();
    builder.add("a.tmf", TMF.as_bytes()).unwrap();
    builder.add("a.mof", MOF.as_bytes()).unwrap();
    let named = builder.finish();
    // Packs of earlier versions have no names behind the entries: a count, a GUID, a size and "Maker".
    let names = 4 + 16 + 2 + 5;
    let mut unnamed = named[..named.len() - names].to_vec();
    let index = u64::from_le_bytes(unnamed[16..24].try_into().unwrap()) - names as u64;
    unnamed[16..24].copy_from_slice(&index.to_le_bytes());
    replay("pack", vec![("three", named), ("unnamed", unnamed)], targets::pack);
}

#[test]
fn expressions_cause_no_panic() {
    let seeds = [
        "pid in (1, 2..3) and not (`a b` ~ 'x+' or provider == Maker)",
        "event like \"*?*\" && keyword & 0x10 || level <= warning",
        "a.b.c == 1.5 or time >= '+1s' and {00000000-0000-0000-0000-000000000001}",
    ];
    let seeds = ["set", "or", "path"].into_iter().zip(seeds.map(|text| text.as_bytes().to_vec()));
    replay("expr", seeds.collect(), targets::expr);
}

/// Seeds are made by the unit tests of the reader, which builds such files byte by byte.
#[test]
fn compiled_manifests_cause_no_panic() {
    let crim =
        [&b"CRIM"[..], &[0, 0, 0, 0, 3, 0, 1, 0, 1, 0, 0, 0], &[1; 16], &36u32.to_le_bytes()]
            .concat();
    let wevt = [
        &b"WEVT"[..],
        &[0; 4],
        &100u32.to_le_bytes(),
        &1u32.to_le_bytes(),
        &[0; 4],
        &64u32.to_le_bytes(),
        &[0; 4],
    ]
    .concat();
    let event = [&b"EVNT"[..], &[0; 4], &1u32.to_le_bytes(), &[0; 4], &[7, 0], &[0; 46]].concat();
    let table = [
        &1u32.to_le_bytes()[..],
        &100u32.to_le_bytes(),
        &100u32.to_le_bytes(),
        &16u32.to_le_bytes(),
        &[8, 0, 1, 0, b'M', 0, 0, 0],
    ]
    .concat();
    let blob = [crim, wevt, event].concat();
    replay("wevt", vec![("event", join(&blob, &join(&table, &[])))], targets::wevt);
    replay("pe", vec![("mz", b"MZ".to_vec())], targets::pe);
}

#[test]
fn lznt1_streams_cause_no_panic() {
    // Ten bytes from a distance of one; a stored chunk of two.
    let run = vec![13, 0, 3, 0xb0, 2, b'a', 7, 0, 1, 0x30, b'b', b'c', 0, 0];
    let stored = vec![4, 0, 3, 0x30, b'a', 0, b'b', 0];
    replay("lznt1", vec![("run", run), ("stored", stored)], targets::lznt1);
}
