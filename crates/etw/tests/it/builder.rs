//! `EventBuilder`: its bytes are those of Microsoft's `tracelogging_dynamic`.

use std::sync::Arc;

use etw::{
    Channel, EncodeError, EventBuilder, FileTime, Guid, InType, Level, Opcode, OutType, Protocol,
    Provider, Status, SystemTime,
};
use etw_types::LevelKeyword;
use tracelogging_dynamic as theirs;

use crate::capture::{Capture, Captured, capture_of};
use crate::microsoft_crate::{bytes, event as their_event};

fn provider() -> Arc<Provider> {
    Provider::dynamic("Test.Builder", Guid::from_name("Test.Builder"), None).unwrap()
}

fn capture(write: impl FnOnce(&Provider)) -> Capture {
    let provider = provider();
    capture_of(provider.register_shared(None), LevelKeyword::ALL, || write(&provider))
}

fn written(event: &mut EventBuilder) -> Captured {
    let mut captured = capture(|provider| assert!(event.write(provider, None, None).is_success()));
    assert_eq!(captured.events.len(), 1);
    captured.events.remove(0)
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn text(&mut self) -> String {
        let letters = ['a', 'é', '\0', '☺', '𝄞'];
        (0..self.below(9)).map(|_| letters[self.below(5) as usize]).collect()
    }

    fn list<T>(&mut self, mut one: impl FnMut(&mut Random) -> T) -> Vec<T> {
        (0..self.below(4)).map(|_| one(self)).collect()
    }
}

/// Adds a field to both builders, with the same random name, tag and out type.
macro_rules! both {
    ($random:ident, $ours:ident, $theirs:ident; $method:ident, $our_value:expr, $their_value:expr) => {{
        let out = $random.below(2) as u8 * $random.below(39) as u8;
        // Tags that both writers encode in the same number of bytes.
        let tag = $random.below(2) as u32 * ($random.next() as u32 & 0x0fff_ffff | 1);
        let name = ["a", "größer", ""][$random.below(3) as usize];
        $ours.$method(name, $our_value, OutType(out), tag);
        $theirs.$method(name, $their_value, theirs::OutType::from_int(out), tag);
    }};
}

/// Adds one random field to both builders.
fn add(random: &mut Random, ours: &mut EventBuilder, theirs: &mut theirs::EventBuilder) {
    match random.below(27) {
        kind @ 0..16 => add_number(kind, random, ours, theirs),
        kind @ 16..22 => add_text(kind, random, ours, theirs),
        kind @ 22..26 => add_bytes(kind, random, ours, theirs),
        _ => {
            let members = 1 + random.below(3) as u8;
            ours.add_struct("s", members, 0);
            theirs.add_struct("s", members, 0);
            for _ in 0..members {
                add(random, ours, theirs);
            }
        }
    }
}

fn add_number(
    kind: u64,
    random: &mut Random,
    ours: &mut EventBuilder,
    theirs: &mut theirs::EventBuilder,
) {
    macro_rules! number {
        ($scalar:ident, $sequence:ident, $ty:ty) => {
            if random.below(3) != 0 {
                let value = random.next() as $ty;
                both!(random, ours, theirs; $scalar, value, value)
            } else {
                let values = random.list(|random| random.next() as $ty);
                both!(random, ours, theirs; $sequence, &values, &values)
            }
        };
    }
    match kind {
        0 => number!(add_i8, add_i8_sequence, i8),
        1 => number!(add_u8, add_u8_sequence, u8),
        2 => number!(add_i16, add_i16_sequence, i16),
        3 => number!(add_u16, add_u16_sequence, u16),
        4 => number!(add_i32, add_i32_sequence, i32),
        5 => number!(add_u32, add_u32_sequence, u32),
        6 => number!(add_i64, add_i64_sequence, i64),
        7 => number!(add_u64, add_u64_sequence, u64),
        8 => number!(add_isize, add_isize_sequence, isize),
        9 => number!(add_usize, add_usize_sequence, usize),
        10 => number!(add_f32, add_f32_sequence, f32),
        11 => number!(add_f64, add_f64_sequence, f64),
        12 => number!(add_bool32, add_bool32_sequence, i32),
        13 => number!(add_hex32, add_hex32_sequence, u32),
        14 => number!(add_hex64, add_hex64_sequence, u64),
        _ => number!(add_hexsize, add_hexsize_sequence, usize),
    }
}

fn add_text(
    kind: u64,
    random: &mut Random,
    ours: &mut EventBuilder,
    theirs: &mut theirs::EventBuilder,
) {
    macro_rules! text {
        ($scalar:ident, $sequence:ident, $units:expr) => {{
            let mut one = |random: &mut Random| $units(random.text());
            if random.below(3) != 0 {
                let value = one(random);
                both!(random, ours, theirs; $scalar, &value, &value)
            } else {
                let values = random.list(&mut one);
                both!(random, ours, theirs; $sequence, &values, &values)
            }
        }};
    }
    let bytes = |text: String| text;
    let units = |text: String| text.encode_utf16().collect::<Vec<_>>();
    match kind {
        16 => text!(add_str8, add_str8_sequence, bytes),
        17 => text!(add_cstr8, add_cstr8_sequence, bytes),
        18 => text!(add_str16, add_str16_sequence, units),
        19 => text!(add_cstr16, add_cstr16_sequence, units),
        20 => text!(add_binaryc, add_binaryc_sequence, bytes),
        _ => {
            let value = random.text();
            both!(random, ours, theirs; add_binary, &value, &value)
        }
    }
}

fn add_bytes(
    kind: u64,
    random: &mut Random,
    ours: &mut EventBuilder,
    theirs: &mut theirs::EventBuilder,
) {
    match kind {
        22 => {
            let ids = [(); 2].map(|()| u128::from(random.next()) << 64 | u128::from(random.next()));
            let our_ids = ids.map(Guid::from_u128);
            let their_ids = ids.map(|id| theirs::Guid::from_u128(&id));
            match random.below(2) {
                0 => both!(random, ours, theirs; add_guid, &our_ids[0], &their_ids[0]),
                _ => both!(random, ours, theirs; add_guid_sequence, &our_ids, &their_ids),
            }
        }
        23 => {
            let time = random.next() as i64;
            match random.below(2) {
                0 => both!(random, ours, theirs; add_filetime, FileTime(time), time),
                _ => both!(random, ours, theirs; add_filetime_sequence, &[FileTime(time)], &[time]),
            }
        }
        24 => {
            let parts = [(); 8].map(|()| random.next() as u16);
            let bytes: Vec<u8> = parts.iter().flat_map(|part| part.to_le_bytes()).collect();
            let time = SystemTime::read(&bytes, 0).unwrap();
            match random.below(2) {
                0 => both!(random, ours, theirs; add_systemtime, &time, &parts),
                _ => both!(random, ours, theirs; add_systemtime_sequence, &[time; 3], &[parts; 3]),
            }
        }
        _ => {
            let mut sid = vec![1, random.below(16) as u8, 0, 0, 0, 0, 0, 5];
            sid.resize(8 + 4 * usize::from(sid[1]), 7);
            match random.below(2) {
                0 => both!(random, ours, theirs; add_sid, &sid, &sid),
                _ => both!(random, ours, theirs; add_sid_sequence, [&sid, &sid], [&sid, &sid]),
            }
        }
    }
}

#[test]
fn random_events_agree() {
    let mut ours = EventBuilder::new();
    let mut expected = Vec::new();
    let captured = capture(|provider| {
        for seed in 0..1000 {
            let mut random = Random(seed);
            let mut theirs = their_event();
            ours.reset("E", Level::VERBOSE, etw::Keyword(1), 0);
            for _ in 0..random.below(12) {
                add(&mut random, &mut ours, &mut theirs);
            }
            assert_eq!(ours.error(), None, "seed {seed}");
            assert!(ours.write(provider, None, None).is_success());
            expected.push(bytes(&mut theirs));
        }
    });
    assert_eq!(captured.events.len(), 1000);
    for (seed, (event, expected)) in captured.events.into_iter().zip(expected).enumerate() {
        assert_eq!((event.metadata, event.payload), expected, "seed {seed}");
    }
}

#[test]
fn attributes_are_the_events() {
    let (id, related) = (Guid([1; 16]), Guid([2; 16]));
    let mut event = EventBuilder::new();
    event
        .reset("E", Level::ERROR, etw::Keyword(6), 0x0020_0000)
        .opcode(Opcode::STOP)
        .task(7)
        .channel(Channel(16))
        .id_version(8, 9);
    let captured = capture(|provider| {
        assert!(event.write(provider, Some(&id), Some(&related)).is_success());
        let scope = etw::Activity::with_id(related, None).enter();
        assert!(event.write(provider, None, None).is_success());
        drop(scope);
        // Nothing of it is left.
        assert!(
            event.reset("F", Level(0), etw::Keyword(0), 0).write(provider, None, None).is_success()
        );
    });
    let [first, second, third] = &captured.events[..] else { panic!() };
    let descriptor = etw::EventDescriptor {
        id: 8,
        version: 9,
        channel: Channel(16),
        level: Level::ERROR,
        opcode: Opcode::STOP,
        task: 7,
        keyword: etw::Keyword(6),
    };
    assert_eq!((first.descriptor, &first.metadata[..]), (descriptor, &b"\x05\0\x01E\0"[..]));
    assert_eq!((first.activity_id, first.related_activity_id), (Some(id), Some(related)));
    assert_eq!((second.activity_id, second.related_activity_id), (Some(related), None));
    let descriptor =
        etw::EventDescriptor { channel: Channel(11), level: Level(0), ..Default::default() };
    assert_eq!((third.descriptor, &third.metadata[..]), (descriptor, &b"\x05\0\0F\0"[..]));
    assert_eq!(third.provider, Guid::from_name("Test.Builder"));
}

/// TC-1, TC-2
#[test]
fn custom_fields_and_constant_counts() {
    let mut event = EventBuilder::new();
    event
        .reset("E", Level::VERBOSE, etw::Keyword(1), 0)
        .add_custom("c", [0xaa, 0xbb], Protocol::User(5), &[0, 1, 2], 4)
        .add_u16_array("a", &[1, 2, 3], OutType::HEX, 0)
        .raw_add_struct_vcount("s", 1, 0)
        .raw_add_meta_scalar("m", InType::UINT8, OutType::NULL, 0)
        .raw_add_data_count(2)
        .raw_add_data_value(InType::UINT8, &[8])
        .raw_add_data(&[9]);
    let event = written(&mut event);
    let metadata = [
        &b"\x1f\0\0E\0"[..],
        b"c\0\xe5\x80\x80\x80\x80\x04\x03\0\0\x01\x02",
        b"a\0\xa6\x04\x03\0",
        b"s\0\xd8\x01m\0\x04",
    ];
    assert_eq!(event.metadata, metadata.concat());
    assert_eq!(event.payload, [2, 0, 0xaa, 0xbb, 1, 0, 2, 0, 3, 0, 2, 0, 8, 9]);
}

#[test]
fn mistakes_are_told() {
    type Add = fn(&mut EventBuilder) -> &mut EventBuilder;
    let mistakes: [(EncodeError, Add); 6] = [
        (EncodeError::NulInName { offset: 1 }, |event| event.add_u8("a\0", 1, OutType::NULL, 0)),
        (EncodeError::BadTag { tag: 1 << 28 }, |event| event.add_struct("s", 1, 1 << 28)),
        (EncodeError::MissingStructMembers { missing: 1 }, |event| event.add_struct("s", 1, 0)),
        (EncodeError::BadProtocol { protocol: 255 }, |event| {
            event.add_custom("c", [], Protocol::User(4), &[], 0)
        }),
        (EncodeError::BadOutType { out_type: OutType(128) }, |event| {
            event.add_u8("a", 1, OutType(128), 0)
        }),
        (EncodeError::BadValueSize { in_type: InType::SID, size: 3 }, |event| {
            event.add_sid("a", [1, 1, 1], OutType::NULL, 0)
        }),
    ];
    let mut event = EventBuilder::new();
    let captured = capture(|provider| {
        for (error, add) in mistakes {
            event.reset("E", Level::VERBOSE, etw::Keyword(1), 0);
            add(&mut event);
            assert_eq!(event.error(), Some(error));
            let status = event.write(provider, None, None);
            assert_eq!(status, Status::ERROR_INVALID_PARAMETER);
        }
        assert!(
            event
                .reset("E", Level::VERBOSE, etw::Keyword(1), 0)
                .write(provider, None, None)
                .is_success()
        );
    });
    assert_eq!(captured.events.len(), 1);
    assert_eq!(captured.ledger.attempted, 1);
}

/// Nothing is cut, and what is refused is counted.
#[test]
fn what_is_too_large_is_refused_and_counted() {
    let long = "x".repeat(70_000);
    let captured = capture(|provider| {
        let mut event = EventBuilder::new();
        let refused = |event: &mut EventBuilder| {
            let status = event.write(provider, None, None);
            assert_eq!(status, Status::ERROR_ARITHMETIC_OVERFLOW);
        };
        let new = || EventBuilder::new().reset("E", Level::VERBOSE, etw::Keyword(1), 0).clone();
        refused(new().add_str8("a", &long, OutType::UTF8, 0));
        refused(new().add_u8_array("a", long.as_bytes(), OutType::NULL, 0));
        refused(new().add_u8_sequence("a", long.as_bytes(), OutType::NULL, 0));
        refused(new().add_u8(&long, 1, OutType::NULL, 0));
        refused(new().raw_add_data(long.as_bytes()));
        refused(event.reset(&long, Level::VERBOSE, etw::Keyword(1), 0));
        let fits = &long[..60_000];
        assert!(
            new().add_str8("a", fits, OutType::UTF8, 0).write(provider, None, None).is_success()
        );
    });
    assert_eq!(captured.events.len(), 1);
    assert_eq!(captured.events[0].payload.len(), 60_002);
    assert_eq!((captured.ledger.attempted, captured.ledger.lost_total()), (7, 6));
}

/// OV-14
#[test]
fn a_disabled_provider_takes_nothing() {
    let provider = provider();
    let mut event = EventBuilder::new();
    event.reset("E\0", Level::VERBOSE, etw::Keyword(1), 0);
    assert!(event.write(&provider, None, None).is_success());
    let wanted = LevelKeyword { level: Level(4), ..LevelKeyword::ALL };
    let captured = capture_of(provider.register_shared(None), wanted, || {
        assert!(event.write(&provider, None, None).is_success());
        event.reset("E", Level::INFO, etw::Keyword(1), 0);
        assert!(event.write(&provider, None, None).is_success());
    });
    assert_eq!(captured.events.len(), 1);
}
