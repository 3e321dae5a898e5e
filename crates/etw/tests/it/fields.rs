//! Every type of field of `write_event!`: metadata and payload are those of Microsoft's `tracelogging_dynamic`.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use etw::{Guid, define_provider, write_event};
use tracelogging_dynamic::{Guid as TheirGuid, InType, OutType};

use crate::capture::{capture, one};
use crate::microsoft_crate;

define_provider!(PROVIDER, "Test.Fields");

/// `type, value(s) => method of theirs, value(s), out type`
macro_rules! same {
    ($($ty:ident, $value:expr => $method:ident, $theirs:expr, $out:ident;)*) => {
        let events = capture(&PROVIDER, || {
            $(assert!(write_event!(PROVIDER, "E", $ty("f", $value)).is_success());)*
        });
        let mut events = events.into_iter();
        $(
            let ours = events.next().unwrap();
            let mut event = microsoft_crate::event();
            event.$method("f", $theirs, OutType::$out, 0);
            assert_eq!((ours.metadata, ours.payload), microsoft_crate::bytes(&mut event), stringify!($ty));
        )*
        assert_eq!(events.next(), None);
    };
}

#[test]
fn integers_are_encoded_as_microsofts_crate_does() {
    same! {
        u8, &200 => add_u8, 200, Default;
        u16, &60000 => add_u16, 60000, Default;
        u32, &4_000_000_000 => add_u32, 4_000_000_000, Default;
        u64, &u64::MAX => add_u64, u64::MAX, Default;
        i8, &-2 => add_i8, -2, Default;
        i16, &-300 => add_i16, -300, Default;
        i32, &i32::MIN => add_i32, i32::MIN, Default;
        i64, &i64::MIN => add_i64, i64::MIN, Default;
        usize, &77 => add_usize, 77, Default;
        isize, &-77 => add_isize, -77, Default;
        u8_hex, &200 => add_u8, 200, Hex;
        u16_hex, &60000 => add_u16, 60000, Hex;
        u32_hex, &0xdead_beef => add_hex32, 0xdead_beef, Default;
        u64_hex, &0xdead_beef => add_hex64, 0xdead_beef, Default;
        i8_hex, &-2 => add_u8, 254, Hex;
        i16_hex, &-2 => add_u16, 65534, Hex;
        i32_hex, &-2 => add_hex32, 0xffff_fffe, Default;
        i64_hex, &-2 => add_hex64, u64::MAX - 1, Default;
        usize_hex, &77 => add_hexsize, 77, Default;
        isize_hex, &-77 => add_hexsize, usize::MAX - 76, Default;
        f32, &1.5 => add_f32, 1.5, Default;
        f64, &-0.1 => add_f64, -0.1, Default;
        errno, &-7 => add_i32, -7, Default;
    }
}

#[test]
fn numbers_that_mean_something() {
    same! {
        bool8, &true => add_u8, 1, Boolean;
        bool8, &false => add_u8, 0, Boolean;
        bool32, &7 => add_bool32, 7, Default;
        bool32, &true => add_bool32, 1, Default;
        char8_cp1252, &b'A' => add_u8, 65, String;
        char16, &0x263a => add_u16, 0x263a, String;
        pointer, &0x1234_5678 => add_hexsize, 0x1234_5678, Default;
        codepointer, &0x1234_5678 => add_hexsize, 0x1234_5678, CodePointer;
        pid, &1234 => add_u32, 1234, Pid;
        tid, &1234 => add_u32, 1234, Tid;
        port, &0x5000 => add_u16, 0x5000, Port;
        ipv4, &[127, 0, 0, 1] => add_u32, 0x0100_007f, IPv4;
        ipv4, &Ipv4Addr::LOCALHOST => add_u32, 0x0100_007f, IPv4;
        hresult, &-2147024891 => add_i32, -2147024891, HResult;
        win_error, &5 => add_u32, 5, Win32Error;
        win_ntstatus, &-1073741819 => add_hex32, 0xc000_0005, NtStatus;
    }
}

#[test]
fn strings_and_binary() {
    let text = "grüße";
    let owned = String::from(text);
    let wide: Vec<u16> = text.encode_utf16().collect();
    let bytes = vec![0, 1, 2, 255];
    let v6 = Ipv6Addr::new(1, 2, 3, 4, 5, 6, 7, 8);
    let sid = [1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];
    same! {
        str8, text => add_str8, text, Utf8;
        str8, &owned => add_str8, text, Utf8;
        str8, owned => add_str8, text, Utf8;
        str8, &&text => add_str8, text, Utf8;
        str8, &Cow::from(text) => add_str8, text, Utf8;
        str8, Arc::<str>::from(text) => add_str8, text, Utf8;
        str8, owned.to_uppercase().as_str() => add_str8, "GRÜSSE", Utf8;
        str16, Box::<[u16]>::from(&wide[..]) => add_str16, &wide, Default;
        str8_cp1252, b"gr\xfc\xdfe" => add_str8, b"gr\xfc\xdfe", Default;
        str8_json, "{}" => add_str8, "{}", Json;
        str8_xml, "<a/>" => add_str8, "<a/>", Xml;
        str16, &wide => add_str16, &wide, Default;
        str16_json, &wide => add_str16, &wide, Json;
        str16_xml, &wide => add_str16, &wide, Xml;
        cstr8, text => add_cstr8, text, Utf8;
        cstr8_cp1252, "a" => add_cstr8, "a", Default;
        cstr8_json, "{}" => add_cstr8, "{}", Json;
        cstr8_xml, "" => add_cstr8, "", Xml;
        cstr16, &wide => add_cstr16, &wide, Default;
        cstr16_json, &wide => add_cstr16, &wide, Json;
        cstr16_xml, &[0u16; 0] => add_cstr16, &[0u16; 0], Xml;
        cstr8, "stops\0here" => add_cstr8, "stops\0here", Utf8;
        cstr16, &[65u16, 0, 66] => add_cstr16, &[65u16, 0, 66], Default;
        str8, "does not\0stop" => add_str8, "does not\0stop", Utf8;
        binary, &bytes => add_binary, &bytes, Default;
        binaryc, &bytes => add_binaryc, &bytes, Default;
        binary, b"" => add_binary, b"", Default;
        socketaddress, &bytes => add_binary, &bytes, SocketAddress;
        socketaddressc, &bytes => add_binaryc, &bytes, SocketAddress;
        ipv6, &v6.octets() => add_binary, &v6.octets(), IPv6;
        ipv6, &v6 => add_binary, &v6.octets(), IPv6;
        ipv6c, &v6 => add_binaryc, &v6.octets(), IPv6;
        win_sid, &sid => add_sid, &sid, Default;
    }
    // Bytes behind a SID are not part of it.
    let longer = [&sid[..], &[9, 9]].concat();
    same! { win_sid, &longer => add_sid, &longer, Default; }
}

#[test]
fn times_are_encoded_as_microsofts_crate_does() {
    let parts = [2024, 2, 4, 29, 23, 59, 58, 999];
    let second = 10_000_000;
    let epoch = 116_444_736_000_000_000;
    same! {
        win_filetime, &132_223_104_000_000_000 => add_filetime, 132_223_104_000_000_000, Default;
        win_systemtime, &parts => add_systemtime, &parts, Default;
        win_systemtime_utc, &parts => add_systemtime, &parts, DateTimeUtc;
        systemtime, &(UNIX_EPOCH + Duration::from_secs(9)) => add_filetime, epoch + 9 * second, Default;
        time32, &-5 => add_filetime, epoch - 5 * second, Default;
        time64, &5_000_000_000 => add_filetime, epoch + 5_000_000_000 * second, Default;
    }
}

#[test]
fn guids_are_encoded_as_microsofts_crate_does() {
    let ours = Guid::from_u128(0x68fdd900_4a3e_11d1_84f4_0000f80464e3);
    let theirs = TheirGuid::from_u128(&0x68fdd900_4a3e_11d1_84f4_0000f80464e3);
    same! { guid, &ours => add_guid, &theirs, Default; }
}

#[test]
fn arrays_of_variable_count() {
    let strings = vec!["a".to_owned(), String::new(), "grüße".to_owned()];
    let wide = [vec![65u16, 66], vec![]];
    let ours = [Guid([1; 16]), Guid([2; 16])];
    let theirs = [TheirGuid::from_bytes_le(&[1; 16]), TheirGuid::from_bytes_le(&[2; 16])];
    let parts = [[2024, 2, 4, 29, 23, 59, 58, 999]; 2];
    let sid = [1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];
    same! {
        u8_slice, &[1, 2, 3] => add_u8_sequence, &[1, 2, 3], Default;
        u8_slice, &[] => add_u8_sequence, &[], Default;
        u16_hex_slice, &Vec::from([1, 2]) => add_u16_sequence, &[1, 2], Hex;
        u32_slice, &[7; 300] => add_u32_sequence, &[7; 300], Default;
        u64_hex_slice, &[7] => add_hex64_sequence, &[7], Default;
        i8_slice, &[-1] => add_i8_sequence, &[-1], Default;
        i16_slice, &[-1] => add_i16_sequence, &[-1], Default;
        i32_hex_slice, &[-1] => add_hex32_sequence, &[0xffff_ffff], Default;
        i64_slice, &[-1] => add_i64_sequence, &[-1], Default;
        usize_slice, &[7] => add_usize_sequence, &[7], Default;
        isize_slice, &[-7] => add_isize_sequence, &[-7], Default;
        pointer_slice, &[7] => add_hexsize_sequence, &[7], Default;
        f32_slice, &[0.5] => add_f32_sequence, &[0.5], Default;
        f64_slice, &[0.5] => add_f64_sequence, &[0.5], Default;
        bool8_slice, &[true, false] => add_u8_sequence, &[1, 0], Boolean;
        bool32_slice, &[true, false] => add_bool32_sequence, &[1, 0], Default;
        win_error_slice, &[5] => add_u32_sequence, &[5], Win32Error;
        ipv4_slice, &[Ipv4Addr::LOCALHOST] => add_u32_sequence, &[0x0100_007f], IPv4;
        ipv6c_slice, &[[7u8; 16]] => add_binaryc_sequence, &[[7; 16]], IPv6;
        guid_slice, &ours => add_guid_sequence, &theirs, Default;
        win_filetime_slice, &[5, 6] => add_filetime_sequence, &[5, 6], Default;
        win_systemtime_slice, &parts => add_systemtime_sequence, &parts, Default;
        str8_slice, &strings => add_str8_sequence, &strings, Utf8;
        str8_slice, &["a", "b"] => add_str8_sequence, &["a", "b"], Utf8;
        cstr8_slice, &["a\0b", ""] => add_cstr8_sequence, &["a\0b", ""], Utf8;
        str16_slice, &wide => add_str16_sequence, &wide, Default;
        cstr16_slice, &wide => add_cstr16_sequence, &wide, Default;
        binaryc_slice, &[&b"ab"[..], b""] => add_binaryc_sequence, &[&b"ab"[..], b""], Default;
        win_sid_slice, &[sid] => add_sid_sequence, &[sid], Default;
    }
}

/// An option is an array of no or one value.
#[test]
fn an_option_is_an_array_of_no_or_one_value() {
    let name = Some("x".to_owned());
    let nothing: Option<&str> = None;
    same! {
        opt_u32, &Some(7) => add_u32_sequence, &[7], Default;
        opt_u32, &None => add_u32_sequence, &[], Default;
        opt_i64_hex, Some(&-1) => add_hex64_sequence, &[u64::MAX], Default;
        opt_bool8, &Some(true) => add_u8_sequence, &[1], Boolean;
        opt_guid, &Some(Guid([1; 16])) => add_guid_sequence, &[TheirGuid::from_bytes_le(&[1; 16])], Default;
        opt_str8, &name => add_str8_sequence, ["x"], Utf8;
        opt_str8, name.as_deref() => add_str8_sequence, ["x"], Utf8;
        opt_str8, nothing => add_str8_sequence, [""; 0], Utf8;
        opt_cstr16, &Some([65u16, 0]) => add_cstr16_sequence, [[65u16]], Default;
        opt_binaryc, &Some(b"ab") => add_binaryc_sequence, [b"ab"], Default;
        opt_ipv6c, &Some(Ipv6Addr::LOCALHOST) => add_binaryc_sequence, [Ipv6Addr::LOCALHOST.octets()], IPv6;
    }
}

#[test]
fn formats_and_tags() {
    for tag in [0u32, 0x0fe0_0000, 1, 0x0fff_ffff] {
        // Their writer pads other tags, which readers cannot tell.
        let mut theirs = microsoft_crate::event();
        theirs.add_str8("a", "[]", OutType::Json, tag);
        let ours = match tag {
            0 => one(&PROVIDER, || write_event!(PROVIDER, "E", str8("a", "[]", format(Json)))),
            0x0fe0_0000 => one(&PROVIDER, || {
                write_event!(PROVIDER, "E", str8("a", "[]", format(Json), tag(0x0fe00000)))
            }),
            1 => one(&PROVIDER, || {
                const TAG: u32 = 1;
                write_event!(PROVIDER, "E", str8("a", "[]", tag(TAG), format(etw::OutType::JSON)))
            }),
            _ => one(&PROVIDER, || {
                write_event!(PROVIDER, "E", str8("a", "[]", tag(0x0FFF_FFFF), format(12)))
            }),
        };
        if tag != 0x0fe0_0000 {
            assert_eq!((ours.metadata, ours.payload), microsoft_crate::bytes(&mut theirs));
        } else {
            // Theirs: 0xff 0x80 0x80 0x00.
            assert_eq!(ours.metadata, b"\x0a\0\0E\0a\0\x97\x8c\x7f");
        }
    }
}

#[test]
fn raw_fields_are_encoded_as_they_are_given() {
    let ours = one(&PROVIDER, || {
        write_event!(
            PROVIDER,
            "E",
            raw_field("a", U8, &[65], format(String), tag(200)),
            raw_field_slice("b", U8, &[3, 0, 65, 66, 67], format(String)),
            raw_meta("c", HexSize, format(Hex)),
            raw_meta_slice("d", etw::InType::UINT8, format(Hex)),
            raw_data(&[255, 0, 0, 0, 0, 0, 0, 0]),
            raw_data(&vec![1, 0, 9]),
            raw_struct("e", 2, tag(0x0FFFFFFF)),
            raw_field("f", Str8, b"\x01\0x"),
            raw_meta("g", U32),
            raw_struct_slice("h", 1),
            raw_meta("i", U8),
            raw_data(&[7, 0, 0, 0, 2, 0, 8, 9]),
        )
    });
    let mut theirs = microsoft_crate::event();
    theirs
        .raw_add_meta_scalar("a", InType::U8, OutType::String, 200)
        .raw_add_meta_vcount("b", InType::U8, OutType::String, 0)
        .raw_add_meta_scalar("c", InType::HexSize, OutType::Hex, 0)
        .raw_add_meta_vcount("d", InType::U8, OutType::Hex, 0)
        .add_struct("e", 2, 0x0fff_ffff)
        .raw_add_meta_scalar("f", InType::Str8, OutType::Default, 0)
        .raw_add_meta_scalar("g", InType::U32, OutType::Default, 0)
        .raw_add_meta_vcount("h", InType::Struct, OutType::from_int(1), 0)
        .raw_add_meta_scalar("i", InType::U8, OutType::Default, 0);
    assert_eq!(ours.metadata, microsoft_crate::bytes(&mut theirs).0);
    let payload = [
        &[65, 3, 0, 65, 66, 67][..],
        &[255, 0, 0, 0, 0, 0, 0, 0, 1, 0, 9],
        b"\x01\0x",
        &[7, 0, 0, 0, 2, 0, 8, 9],
    ];
    assert_eq!(ours.payload, payload.concat());
}
