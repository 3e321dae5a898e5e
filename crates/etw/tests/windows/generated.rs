//! A provider that `etw mc -rust` made of a manifest: its events reach the system's functions. Only `cargo xtask wine` runs this,
//! which generates the provider.
#![cfg(all(windows, etw_generated))]

#[expect(dead_code, reason = "the other tests use the rest")]
mod recorder;

use etw::{FileTime, Guid, SystemTime};

// `crates/etw-mc/tests/it/all_types.man`
include!(env!("ETW_GENERATED"));

use all_types::{ArraysOne, ArraysPoints, Colour, Flags, PROVIDER};

/// The system account.
const SID: [u8; 12] = [1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];

/// UTF-16 without an end.
fn units(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn scalars() -> etw::Status {
    all_types::scalars(
        "wide",
        "ansi",
        -1,
        2,
        -3,
        Colour::Blue,
        -5,
        Flags::BIT_1,
        -7,
        8,
        1.5,
        2.5,
        true,
        Guid::from_u128(0x1234),
        0x1000,
        FileTime(9),
        SystemTime { year: 2024, month: 1, day_of_week: 1, day: 15, ..SystemTime::default() },
        &SID,
        10,
        11,
        "cw",
        "ca",
        b"cb",
    )
}

fn scalars_bytes() -> Vec<u8> {
    [
        &units("wide\0")[..],
        b"ansi\0",
        &[0xff, 2],
        &(-3i16).to_le_bytes(),
        &2u16.to_le_bytes(),
        &(-5i32).to_le_bytes(),
        &1u32.to_le_bytes(),
        &(-7i64).to_le_bytes(),
        &8u64.to_le_bytes(),
        &1.5f32.to_le_bytes(),
        &2.5f64.to_le_bytes(),
        &1u32.to_le_bytes(),
        &Guid::from_u128(0x1234).0,
        &0x1000u64.to_le_bytes(),
        &9u64.to_le_bytes(),
        &[0xe8, 7, 1, 0, 1, 0, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &SID,
        &10u32.to_le_bytes(),
        &11u64.to_le_bytes(),
        &[4, 0],
        &units("cw"),
        &[2, 0],
        b"ca",
        &[2, 0],
        b"cb",
    ]
    .concat()
}

fn arrays() -> etw::Status {
    let guid = Guid::from_u128(5);
    let points = [ArraysPoints { x: 1, y: -2 }];
    let one = ArraysOne { bytes: b"xyz" };
    all_types::arrays(
        &[1, 2, 3, 4],
        &[5],
        &[6, 7],
        &[guid],
        &["a", "b"],
        &[&SID],
        &["c"],
        &points,
        &one,
    )
}

fn arrays_bytes() -> Vec<u8> {
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    [
        &1u16.to_le_bytes()[..],
        &words(&[1, 2, 3, 4, 5, 0, 6, 0, 7, 0]),
        &Guid::from_u128(5).0,
        &units("a\0b\0"),
        &SID,
        &[2, 0],
        &units("c"),
        &words(&[1, -2i32 as u32]),
        &[3],
        b"xyz",
    ]
    .concat()
}

#[test]
fn events_of_a_generated_provider_reach_the_system() {
    let recorder = recorder::Recorder::start();
    let _registration = all_types::register();
    assert_eq!(recorder.traits_of(PROVIDER.id()).as_deref(), Some(PROVIDER.traits()));
    let all: [(fn() -> etw::Status, Vec<u8>, [u8; 16]); 4] = [
        (scalars, scalars_bytes(), *b"\x01\0\0\0\x04\0\0\0\x03\0\0\0\0\0\0\0"),
        (arrays, arrays_bytes(), *b"\x03\0\0\0\x05\0\0\0\0\0\0\0\0\0\x01\0"),
        (all_types::empty, Vec::new(), *b"\x04\0\0\x10\x02\0\0\0\0\0\0\0\0\0\0\x80"),
        (all_types::event_5_2, Vec::new(), *b"\x05\0\x02\x08\x02\0\0\0\0\0\0\0\0\0\0\x40"),
    ];
    all.iter().for_each(|(write, ..)| assert!(write().is_success()));
    assert_eq!(recorder.take_written(), [], "no session wants them");
    recorder.enable(PROVIDER.id(), 5, 0, 0);
    for (write, payload, descriptor) in &all {
        assert!(write().is_success());
        let written = recorder.take_written();
        let [event] = &written[..] else { panic!("{written:?}") };
        assert_eq!(
            (event.provider, &event.payload, &event.descriptor),
            (PROVIDER.id(), payload, descriptor)
        );
        assert_eq!(
            (event.metadata.len(), event.traits.len()),
            (0, 0),
            "its schema is in the manifest"
        );
    }
    // The system's callback decides: level 4, keyword 1.
    recorder.enable(PROVIDER.id(), 4, 1, 0);
    let wanted: Vec<bool> = all
        .iter()
        .map(|(write, ..)| {
            let _ = write();
            !recorder.take_written().is_empty()
        })
        .collect();
    assert_eq!(wanted, [true, false, false, false]);
}
