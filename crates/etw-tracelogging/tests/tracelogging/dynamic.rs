//! Our bytes against those of Microsoft's `tracelogging_dynamic`, seen through `EventBuilder`'s derived `Debug`.
//!
//! Its provider traits cannot be seen (`Provider` prints no bytes), so those are checked by vectors only.

use etw_tracelogging::{Count, EventMetadata, InType, MetadataBuilder, OutType, PayloadBuilder};
use etw_types::{FileTime, Guid, SystemTime};
use tracelogging_dynamic as theirs;
use tracelogging_dynamic::{EventBuilder, Level, Provider};

use crate::random::Random;

const PLAIN: theirs::OutType = theirs::OutType::Default;

fn their_event(name: &str, tag: u32) -> EventBuilder {
    let mut event = EventBuilder::new();
    event.reset(name, Level::Verbose, 1, tag);
    event
}

/// The bytes of `name: [1, 2, 3]` in a derived `Debug`.
fn printed_bytes(event: &EventBuilder, name: &str) -> Vec<u8> {
    let text = format!("{event:?}");
    let (_, list) = text.split_once(&format!("{name}: [")).expect("field in Debug text");
    let (list, _) = list.split_once(']').unwrap();
    list.split(", ").filter(|item| !item.is_empty()).map(|item| item.parse().unwrap()).collect()
}

/// Writes the event, which fills its size in, to a provider that nobody registered.
fn their_metadata(event: &mut EventBuilder) -> Vec<u8> {
    let provider = Provider::new("P", &Provider::options());
    event.write(&provider, None, None);
    printed_bytes(event, "meta")
}

fn their_payload(event: &EventBuilder) -> Vec<u8> {
    printed_bytes(event, "data")
}

#[test]
fn metadata_bytes_agree() {
    let scalar = |builder: MetadataBuilder, name, in_type, out_type, tag| {
        builder.field(name, in_type, OutType(out_type), Count::Scalar, tag)
    };
    for seed in 0..500 {
        let mut random = Random(seed);
        // Tags of one byte or four, which is where both writers take as many.
        let event_tag = [0, 0x0fe0_0000, 0x4567_4001 & 0x0fff_ffff, 1][random.below(4)];
        let mut theirs = their_event("Événement", event_tag);
        let mut ours = MetadataBuilder::new("Événement", event_tag);
        for _ in 0..random.below(20) {
            let in_type = 1 + random.below(25) as u8;
            let out_type = random.below(40) as u8 * random.below(2) as u8;
            let tag = random.next() as u32 & 0x0fff_ffff | 1;
            let tag = if random.below(2) == 0 { 0 } else { tag };
            let their_in = theirs::InType::from_int(in_type);
            let their_out = theirs::OutType::from_int(out_type);
            match InType(in_type) {
                InType::POINTER => {}
                InType::STRUCT => {
                    theirs.add_struct("s", 1, tag);
                    theirs.raw_add_meta_scalar("m", theirs::InType::I8, their_out, 0);
                    ours = ours.structure("s", 1, Count::Scalar, tag);
                    ours = scalar(ours, "m", InType::INT8, out_type, 0);
                }
                in_type if random.below(3) != 0 || in_type == InType::BINARY => {
                    theirs.raw_add_meta_scalar("field", their_in, their_out, tag);
                    ours = scalar(ours, "field", in_type, out_type, tag);
                }
                in_type => {
                    theirs.raw_add_meta_vcount("field", their_in, their_out, tag);
                    ours = ours.field("field", in_type, OutType(out_type), Count::Variable, tag);
                }
            }
        }
        assert_eq!(ours.finish().unwrap(), their_metadata(&mut theirs), "seed {seed}");
    }
}

#[test]
fn tags_padded_by_the_other_writer_are_read() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let (event_tag, field_tag) = (random.tag(), random.tag());
        let mut event = their_event("E", event_tag);
        event.add_u8("f", 1, PLAIN, field_tag);
        let blob = their_metadata(&mut event);
        let metadata = EventMetadata::parse(&blob).unwrap();
        assert_eq!(metadata.tag(), event_tag, "seed {seed}");
        let field = metadata.fields().next().unwrap().unwrap();
        assert_eq!((field.in_type, field.tag), (InType::UINT8, field_tag), "seed {seed}");
    }
}

#[test]
fn type_numbers_agree() {
    use theirs::{InType as I, OutType as O};
    for (ours, theirs) in [
        (InType::UNICODESTRING, I::CStr16),
        (InType::ANSISTRING, I::CStr8),
        (InType::INT8, I::I8),
        (InType::UINT8, I::U8),
        (InType::INT16, I::I16),
        (InType::UINT16, I::U16),
        (InType::INT32, I::I32),
        (InType::UINT32, I::U32),
        (InType::INT64, I::I64),
        (InType::UINT64, I::U64),
        (InType::FLOAT, I::F32),
        (InType::DOUBLE, I::F64),
        (InType::BOOL32, I::Bool32),
        (InType::BINARY, I::Binary),
        (InType::GUID, I::Guid),
        (InType::FILETIME, I::FileTime),
        (InType::SYSTEMTIME, I::SystemTime),
        (InType::SID, I::Sid),
        (InType::HEXINT32, I::Hex32),
        (InType::HEXINT64, I::Hex64),
        (InType::COUNTEDSTRING, I::Str16),
        (InType::COUNTEDANSISTRING, I::Str8),
        (InType::STRUCT, I::Struct),
        (InType::COUNTEDBINARY, I::BinaryC),
    ] {
        assert_eq!(ours.0, theirs.as_int(), "{ours}");
    }
    for (ours, theirs) in [
        (OutType::NULL, O::Default),
        (OutType::NOPRINT, O::NoPrint),
        (OutType::STRING, O::String),
        (OutType::BOOLEAN, O::Boolean),
        (OutType::HEX, O::Hex),
        (OutType::PID, O::Pid),
        (OutType::TID, O::Tid),
        (OutType::PORT, O::Port),
        (OutType::IPV4, O::IPv4),
        (OutType::IPV6, O::IPv6),
        (OutType::SOCKETADDRESS, O::SocketAddress),
        (OutType::XML, O::Xml),
        (OutType::JSON, O::Json),
        (OutType::WIN32ERROR, O::Win32Error),
        (OutType::NTSTATUS, O::NtStatus),
        (OutType::HRESULT, O::HResult),
        (OutType::FILETIME, O::DateTime),
        (OutType::SIGNED, O::Signed),
        (OutType::UNSIGNED, O::Unsigned),
        (OutType::DATETIME_CULTURE_INSENSITIVE, O::DateTimeCultureInsensitive),
        (OutType::UTF8, O::Utf8),
        (OutType::PKCS7_WITH_TYPE_INFO, O::Pkcs7WithTypeInfo),
        (OutType::CODE_POINTER, O::CodePointer),
        (OutType::DATETIME_UTC, O::DateTimeUtc),
    ] {
        assert_eq!(ours.0, theirs.as_int(), "{ours}");
    }
}

#[test]
fn numbers_are_encoded_as_microsofts_crate_does() {
    let mut event = their_event("E", 0);
    event
        .add_i8("f", -1, PLAIN, 0)
        .add_u8("f", 2, PLAIN, 0)
        .add_i16("f", -300, PLAIN, 0)
        .add_u16("f", 300, PLAIN, 0)
        .add_i32("f", i32::MIN, PLAIN, 0)
        .add_u32("f", 0x1234_5678, PLAIN, 0)
        .add_i64("f", i64::MIN + 1, PLAIN, 0)
        .add_u64("f", u64::MAX - 1, PLAIN, 0)
        .add_f32("f", 1.5, PLAIN, 0)
        .add_f64("f", -0.1, PLAIN, 0)
        .add_bool32("f", 1, PLAIN, 0)
        .add_hex32("f", 7, PLAIN, 0)
        .add_hex64("f", 8, PLAIN, 0);
    let ours = PayloadBuilder::new()
        .i8(-1)
        .u8(2)
        .i16(-300)
        .u16(300)
        .i32(i32::MIN)
        .u32(0x1234_5678)
        .i64(i64::MIN + 1)
        .u64(u64::MAX - 1)
        .f32(1.5)
        .f64(-0.1)
        .bool32(true)
        .u32(7)
        .u64(8);
    assert_eq!(ours.finish().unwrap(), their_payload(&event));
}

#[test]
fn other_values_agree() {
    let sid = [1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];
    let text: Vec<u16> = "grüße".encode_utf16().collect();
    let time = SystemTime {
        year: 2024,
        month: 2,
        day_of_week: 4,
        day: 29,
        hour: 23,
        minute: 59,
        second: 58,
        milliseconds: 999,
    };
    let mut event = their_event("E", 0);
    event
        .add_guid("f", &theirs::Guid::from_u128(&0x68fdd900_4a3e_11d1_84f4_0000f80464e3), PLAIN, 0)
        .add_filetime("f", 132_223_104_000_000_000, PLAIN, 0)
        .add_systemtime("f", &[2024, 2, 4, 29, 23, 59, 58, 999], PLAIN, 0)
        .add_sid("f", sid, PLAIN, 0)
        .add_cstr16("f", &text, PLAIN, 0)
        .add_cstr8("f", "text", PLAIN, 0)
        .add_str16("f", &text, PLAIN, 0)
        .add_str8("f", "text", PLAIN, 0)
        .add_binary("f", [0, 1, 2], PLAIN, 0)
        .add_binaryc("f", [], PLAIN, 0)
        .add_u16_sequence("f", &[5, 6, 7], PLAIN, 0)
        .add_cstr8_sequence("f", ["a", ""], PLAIN, 0);
    let ours = PayloadBuilder::new()
        .guid(Guid::from_u128(0x68fdd900_4a3e_11d1_84f4_0000f80464e3))
        .filetime(FileTime(132_223_104_000_000_000))
        .system_time(&time)
        .sid(&sid)
        .utf16_z(text.iter().copied())
        .ansi_z(b"text")
        .counted_utf16(text.iter().copied())
        .counted_ansi(b"text")
        .binary(&[0, 1, 2])
        .binary(&[])
        .count(3)
        .u16(5)
        .u16(6)
        .u16(7)
        .count(2)
        .ansi_z(b"a")
        .ansi_z(b"");
    assert_eq!(ours.finish().unwrap(), their_payload(&event));
}
