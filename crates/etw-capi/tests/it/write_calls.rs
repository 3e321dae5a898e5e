//! The calls of `evntprov.h` and `etw_session.h` from C.

use std::process::Command;

use etw_etl::read::{Records, TraceFile};
use etw_types::Guid;

use crate::support::*;

/// WF-1, WF-2, WF-3, WF-4, WF-6: the write calls as C symbols, with every compiler: statuses, ids, properties, texts, pieces with types.
#[test]
fn every_call_from_c() {
    let mut ran = 0;
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        let folder = Folder::new(&format!("calls-{number}"));
        let Some(program) = compile(&folder, "write_calls.c", compiler) else { continue };
        let out = folder.0.join("calls.etl");
        let output = Command::new(program).env("WRITE_CALLS_OUT", &out).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{compiler:?}: {said}");
        check(&out);
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

fn check(out: &std::path::Path) {
    let provider: Guid = "12345678-9abc-def0-0102-030405060708".parse().unwrap();
    let ours = Guid([1, 0, 0, 0, 2, 0, 3, 0, 7, 7, 7, 7, 7, 7, 7, 7]);
    let theirs = Guid([9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut records = Records::new(vec![TraceFile::open(out).unwrap()]);
    let mut found = Vec::new();
    while let Some(record) = records.next() {
        if record.provider == Some(provider) {
            let ids = (record.activity_id, record.related_activity_id());
            // The last events have metadata and traits.
            for (kind, bytes) in [(11, &b"\x08\0\0E\0n\0\x07"[..]), (12, b"\x06\0Old\0")] {
                let mut items = record.extended.into_iter();
                let item = items.find(|item| item.ext_type.0 == kind).map(|item| item.data);
                assert_eq!(item, (found.len() >= 7).then_some(bytes), "event {}", found.len());
            }
            found.push((record.descriptor, ids, record.property.0, record.payload.to_vec()));
        }
    }
    assert_eq!(found.len(), 9);
    let data = [&42u32.to_le_bytes()[..], b"text\0"].concat();
    let utf16 = |text: &str| -> Vec<u8> {
        text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
    };
    let expected = [
        (7, (Guid::ZERO, None), 0, data.clone()),
        (7, (ours, Some(theirs)), 0, data.clone()),
        (7, (theirs, None), 0, data.clone()),
        (7, (theirs, Some(ours)), 8, data.clone()),
        (0, (ours, None), 4, utf16("grüße")),
        (0, (ours, None), 4, utf16("wide 😀")),
        (7, (ours, None), 0, vec![0; 128]),
        (9, (ours, None), 0, data[..4].to_vec()),
        (9, (ours, None), 0, data[..4].to_vec()),
    ];
    for ((descriptor, ids, property, payload), expected) in found.into_iter().zip(expected) {
        assert_eq!((descriptor.id, ids, property, payload), expected);
        if descriptor.id != 0 {
            let d = descriptor;
            let rest = (d.version, d.level.0, d.opcode.0, d.task, d.keyword.0);
            assert_eq!(rest, (1, 4, 2, 3, 2));
        } else {
            assert_eq!((descriptor.level.0, descriptor.keyword.0), (3, 4));
        }
    }
}

/// A session in memory from C, with its options; what it held comes back byte for byte, in pieces of every size and number. The
/// optimised program has the writes of `evntprov.h` inlined.
#[test]
fn a_session_in_memory_and_pieces_of_every_size() {
    let [plain, optimised, ..] = COMPILERS;
    assert!(optimised.1.contains(&"-O2"));
    for compiler in [plain, optimised] {
        a_session_in_memory(compiler);
    }
}

fn a_session_in_memory(compiler: Compiler) {
    let folder = Folder::new("session-calls");
    let Some(program) = compile(&folder, "session_calls.c", compiler) else {
        panic!("no C compiler is installed")
    };
    let out = folder.0.join("memory.etl");
    let output = Command::new(program)
        .env("SESSION_CALLS_OUT", &out)
        .env("SESSION_CALLS_FILE", folder.0.join("file.etl"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");

    let bytes: Vec<u8> = (0..4096u32).map(|i| (i * 7 + 1) as u8).collect();
    let of = |last: u8| {
        Guid([0x78, 0x56, 0x34, 0x12, 0xbc, 0x9a, 0xf0, 0xde, 1, 2, 3, 4, 5, 6, 7, last])
    };
    let mut records = Records::new(vec![TraceFile::open(&out).unwrap()]);
    let mut found: [Vec<Vec<u8>>; 3] = Default::default();
    while let Some(record) = records.next() {
        let kind = match record.provider {
            Some(id) if id == of(9) => usize::from(record.descriptor.id) - 1,
            Some(id) if id == of(10) => 2,
            _ => continue,
        };
        found[kind].push(record.payload.to_vec());
    }
    let sized = (0..700).map(|size| bytes[..size].to_vec());
    let sizes = |count: usize| (0..count).map(|i| i % 9).sum::<usize>();
    let many = (0..=128).map(|count| bytes[..sizes(count)].to_vec());
    let fields = (0..300usize).flat_map(|size| {
        let count = (size as u16).to_le_bytes();
        let fields = [&count[..], &bytes[..size], &count].concat();
        [fields.clone(), fields]
    });
    assert_eq!(found, [sized.collect::<Vec<_>>(), many.collect(), fields.collect()]);
}
