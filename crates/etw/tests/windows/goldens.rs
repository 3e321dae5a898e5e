//! Events of every kind, written by Microsoft's crate and by this one from the same words: descriptor, traits, metadata and payload
//! are equal.

use crate::recorder::Recorder;

tracelogging::define_provider!(THEIRS, "Windows.Goldens");
etw::define_provider!(OURS, "Windows.Goldens");

/// Writes each event with both crates; the number of events.
macro_rules! compare {
    ($recorder:expr, $($name:tt { $($option:tt)* })*) => {{
        let mut count = 0;
        $({
            assert_eq!(tracelogging::write_event!(THEIRS, $name, $($option)*), 0);
            assert!(etw::write_event!(OURS, $name, $($option)*).is_success());
            let written = $recorder.take_written();
            let [theirs, ours] = &written[..] else { panic!("{}: {written:?}", $name) };
            assert_eq!(ours, theirs, "{}", $name);
            count += 1;
        })*
        count
    }};
}

#[test]
fn events_of_every_kind_equal_those_of_microsofts_crate() {
    let recorder = Recorder::start();
    // SAFETY: unregistered below, and this program is no DLL.
    assert_eq!(unsafe { THEIRS.register() }, 0);
    let registration = OURS.register();
    // Microsoft's crate takes no keywords for none.
    recorder.enable(OURS.id(), 5, u64::MAX, 0);
    let wide: &[u16] = &[0x61, 0x62, 0x63];
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_700_000_000_123);
    let count = compare! { recorder,
        "Empty" { level(Verbose) }
        "Level" { level(Critical), keyword(0x8000_0000_0000_0001) }
        "Number" { level(5), keyword(7) }
        "IdVersion" { id_version(77, 3), level(Warning) }
        "TaskOpcode" { task(9), opcode(Start), level(Informational) }
        "Channel" { channel(TraceLogging), level(Error) }
        "EventTag" { tag(0x0f00_0000) }
        "bool8" { bool8("F", &true) }
        "bool8s" { bool8_slice("F", &[true, false]) }
        "bool32" { bool32("F", &1) }
        "bool32s" { bool32_slice("F", &[1, 0]) }
        "u8" { u8("F", &1) }
        "u8s" { u8_slice("F", &[1, 2]) }
        "u8_hex" { u8_hex("F", &1) }
        "u8_hexs" { u8_hex_slice("F", &[1, 2]) }
        "i8" { i8("F", &-1) }
        "i8s" { i8_slice("F", &[-1, 2]) }
        "i8_hex" { i8_hex("F", &-1) }
        "u16" { u16("F", &1) }
        "u16s" { u16_slice("F", &[1, 2]) }
        "u16_hex" { u16_hex("F", &1) }
        "i16" { i16("F", &-1) }
        "i16s" { i16_slice("F", &[-1, 2]) }
        "i16_hex" { i16_hex("F", &-1) }
        "u32" { u32("F", &1) }
        "u32s" { u32_slice("F", &[1, 2, 3]) }
        "u32_hex" { u32_hex("F", &1) }
        "i32" { i32("F", &-1) }
        "i32s" { i32_slice("F", &[-1, 2]) }
        "i32_hex" { i32_hex("F", &-1) }
        "u64" { u64("F", &1) }
        "u64s" { u64_slice("F", &[]) }
        "u64_hex" { u64_hex("F", &1) }
        "i64" { i64("F", &-1) }
        "i64s" { i64_slice("F", &[-1, 2]) }
        "i64_hex" { i64_hex("F", &-1) }
        "usize" { usize("F", &1) }
        "usizes" { usize_slice("F", &[1, 2]) }
        "usize_hex" { usize_hex("F", &1) }
        "isize" { isize("F", &-1) }
        "isizes" { isize_slice("F", &[-1]) }
        "isize_hex" { isize_hex("F", &-1) }
        "f32" { f32("F", &1.5) }
        "f32s" { f32_slice("F", &[1.5, -2.0]) }
        "f64" { f64("F", &1.5) }
        "f64s" { f64_slice("F", &[1.5, -2.0]) }
        "char8" { char8_cp1252("F", &b'c') }
        "char16" { char16("F", &0x20ac) }
        "char16s" { char16_slice("F", wide) }
        "codepointer" { codepointer("F", &0x1234) }
        "pointer" { pointer("F", &0x1234) }
        "pointers" { pointer_slice("F", &[0x1234, 0]) }
        "errno" { errno("F", &2) }
        "hresult" { hresult("F", &-1) }
        "ntstatus" { win_ntstatus("F", &-1) }
        "win_error" { win_error("F", &5) }
        "filetime" { win_filetime("F", &0x01da_0000_0000_0000) }
        "filetimes" { win_filetime_slice("F", &[1, 2]) }
        "systemtime" { win_systemtime("F", &[2024, 1, 1, 15, 10, 20, 30, 400]) }
        "systemtime_utc" { win_systemtime_utc("F", &[2024, 1, 1, 15, 10, 20, 30, 400]) }
        "time" { systemtime("F", &time) }
        "time32" { time32("F", &1_700_000_000) }
        "time64" { time64("F", &1_700_000_000) }
        "pid" { pid("F", &4) }
        "tid" { tid("F", &8) }
        "port" { port("F", &0x5000) }
        "ipv4" { ipv4("F", &[127, 0, 0, 1]) }
        "ipv4s" { ipv4_slice("F", &[[127, 0, 0, 1], [10, 0, 0, 1]]) }
        "ipv6" { ipv6("F", &[1; 16]) }
        "socketaddress" { socketaddress("F", &[2, 0, 0x1f, 0x90, 127, 0, 0, 1]) }
        "sid" { win_sid("F", &[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0]) }
        "str8" { str8("F", "text") }
        "str8_json" { str8_json("F", "{}") }
        "str8_cp1252" { str8_cp1252("F", b"text") }
        "cstr8" { cstr8("F", "text\0more") }
        "cstr16" { cstr16("F", wide) }
        "str16" { str16("F", wide) }
        "str16_xml" { str16_xml("F", wide) }
        "binary" { binary("F", b"bytes") }
        "binaryc" { binaryc("F", b"bytes") }
        "Tag" { u8("F", &1, tag(0x1234)) }
        "Struct" { struct("S", { u8("A", &1), str8("B", "b") }), u8("C", &3) }
        "StructInStruct" { struct("S", { struct("T", { u8("A", &1) }), u16("B", &2) }) }
        "Many" { u32("A", &1), str8("B", ""), str16("C", wide), u64_slice("D", &[1]), bool8("E", &false) }
    };
    assert!(count >= 70, "{count} events");
    drop(registration);
    THEIRS.unregister();
}

#[test]
fn activities_equal_those_of_microsofts_crate() {
    let recorder = Recorder::start();
    // SAFETY: unregistered below, and this program is no DLL.
    assert_eq!(unsafe { THEIRS.register() }, 0);
    let registration = OURS.register();
    recorder.enable(OURS.id(), 5, u64::MAX, 0);
    let (a, b) = ([1u8; 16], [2u8; 16]);
    tracelogging::write_event!(
        THEIRS,
        "Activity",
        activity_id(&a),
        related_id(&b),
        opcode(Start),
        u8("F", &1)
    );
    etw::write_event!(
        OURS,
        "Activity",
        activity_id(&etw::Guid(a)),
        related_id(&etw::Guid(b)),
        opcode(Start),
        u8("F", &1)
    );
    let written = recorder.take_written();
    assert_eq!(written[0], written[1]);
    assert_eq!(written[1].related, Some(etw::Guid(b)));
    drop(registration);
    THEIRS.unregister();
}
