//! Messages of a TMF and their texts; damaged files.

use super::printf::{Spec, WIDTH_LIMIT};
use super::*;
use crate::Style;
use crate::{Catalog, Decoder, Source};
use etw_types::{Clock, ClockType, CpuTimes, EventRecord, FileTime, HeaderType};
use std::sync::Arc;

const TMF: &str = "// PDB:  driver.pdb\n\
00112233-4455-6677-8899-aabbccddeeff Driver // SRC=a.b.c MJ= MN=\n\
#typev a.b_c12 10 \"%0[%!FUNC!] <-- %10!s! of <x=0x%11!X!>, %12!-6s!|%13!04X!|%14!p! 100%% \\\"q\\\" // %99!s! %2\" //   LEVEL=TRACE_LEVEL_ERROR FLAGS=TRACE_A FUNC=Class::Method\n\
{\n\
status, ItemNTSTATUS -- 10\n\
f(a, b), ItemLong -- 11\n\
\"text, Item\", ItemString -- 12\n\
n, ItemShort -- 13\n\
p, ItemPtr -- 14\n\
}\n\
#typev a.b_c20 11 \"%0%10!s! %11!s! %12!s! %13!s! %14!s! %15!s! %16!I64d! %17!012I64X! %18!c! %19!.2f!\" // FUNC=F\n\
{\n\
irql, ItemListByte(Low,APC=2,DPC) -- 10\n\
set, ItemSetLong(a,b,c) -- 11\n\
port, ItemPort -- 12\n\
ip, ItemIPAddr -- 13\n\
mac, ItemMACAddr -- 14\n\
w, ItemPWString -- 15\n\
q, ItemLongLong -- 16\n\
x, ItemLongLongXX -- 17\n\
c, ItemChar -- 18\n\
d, ItemDouble -- 19\n\
}\n\
#typev broken\n\
#typev b 12 \"unknown\"\n\
{\n\
x, ItemStrange -- 10\n\
}\n";

const GUID: Guid = Guid::from_u128(0x00112233_4455_6677_8899_aabbccddeeff);

fn text(number: u16, payload: &[u8], pointer_size: u8) -> String {
    let mut catalog = Catalog::default();
    let warnings = catalog.add_tmf(TMF.as_bytes());
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    let mut decoder = Decoder::new();
    decoder.set_catalog(Arc::new(catalog));
    let mut record = EventRecord::new(HeaderType::Message, payload);
    record.provider = Some(GUID);
    record.descriptor.id = number;
    record.pointer_size = pointer_size;
    let decoded = decoder.decode(&record);
    assert_eq!(decoded.source(), Some(Source::Wpp), "{:?}", decoded.reason());
    assert_eq!(decoded.provider_name().as_deref(), Some("Driver"));
    decoded.message(&record, &Style::default()).unwrap()
}

#[test]
fn a_message_has_the_text_of_its_format() {
    let payload = [
        &0xc000_0022u32.to_le_bytes()[..],
        &255i32.to_le_bytes(),
        b"abc\0",
        &(-2i16).to_le_bytes(),
        &0xdead_beefu32.to_le_bytes(),
    ]
    .concat();
    assert_eq!(
        text(10, &payload, 4),
        "[Class::Method] <-- 0xc0000022(STATUS_ACCESS_DENIED) of <x=0xFF>, abc   |FFFE|DEADBEEF 100% \"q\" // %99 a.b_c12"
    );
}

#[test]
fn every_item_of_a_message_has_its_text() {
    let payload = [
        &[2u8][..],
        &5u32.to_le_bytes(),
        &8080u16.to_be_bytes(),
        &[127, 0, 0, 1],
        &[0, 1, 2, 3, 4, 255],
        &[4, 0, b'h', 0, b'i', 0],
        &(-7i64).to_le_bytes(),
        &0xab_cdefu64.to_le_bytes(),
        b"Z",
        &1.2345f64.to_le_bytes(),
    ]
    .concat();
    assert_eq!(
        text(11, &payload, 8),
        "APC [a,c] 8080 127.0.0.1 00-01-02-03-04-ff hi -7 000000ABCDEF Z 1.23"
    );
}

#[test]
fn digits_behind_the_prefix_are_text() {
    let tmf = "00112233-4455-6677-8899-aabbccddeeff D // SRC=a.c\n#typev a_c1 10 \"%0100%% of %10!d!0\" // FUNC=F\n{\nn, ItemLong -- 10\n}\n";
    let mut catalog = Catalog::default();
    assert!(catalog.add_tmf(tmf.as_bytes()).is_empty());
    let mut decoder = Decoder::new();
    decoder.set_catalog(Arc::new(catalog));
    let payload = 7i32.to_le_bytes();
    let mut record = EventRecord::new(HeaderType::Message, &payload);
    record.provider = Some(GUID);
    record.descriptor.id = 10;
    let decoded = decoder.decode(&record);
    assert_eq!(decoded.message(&record, &Style::default()).unwrap(), "100% of 70");
}

/// `%1` to `%9` inside a text, and the names that stand for them.
#[test]
fn variables_of_the_prefix_have_their_values_inside_a_text() {
    let tmf = "00112233-4455-6677-8899-aabbccddeeff D // SRC=a.c\n#typev a_c1 10 \"%0%1!-4s!|%2|%3!04X!|%4!s!|%4|%5!d!|%6|%7!05d!|%8!x!|%9!d!|%!TID! %!SEQ! %!PID! %!CPU! %!NOW!|%10!d!%7\" // FUNC=F\n{\nn, ItemLong -- 10\n}\n";
    let mut catalog = Catalog::default();
    assert!(catalog.add_tmf(tmf.as_bytes()).is_empty());
    let mut decoder = Decoder::new();
    decoder.set_catalog(Arc::new(catalog));
    let payload = 7i32.to_le_bytes();
    let mut record = EventRecord::new(HeaderType::Message, &payload);
    record.provider = Some(GUID);
    record.descriptor.id = 10;
    (record.thread_id, record.process_id, record.cpu) = (Some(0xc64), Some(0xaf4), 3);
    record.sequence = Some(26);
    record.order_time = 127_036_185_399_980_000;
    let clock = Clock { kind: ClockType::SYSTEM, ..Clock::UNUSABLE };
    let style = Style { clock: Some(clock), ..Style::default() };
    let time = "07/25/2003-14:55:39.998";
    let text = decoder.decode(&record).message(&record, &style).unwrap();
    let wanted = format!("D   |a_c1|0C64|{time}|{time}|0|0|00026|af4|3|c64 1a af4 3 {time}|726");
    assert_eq!(text, wanted);
    // Without a time, its variable stays visible; headers of classic events have CPU times.
    record.cpu_times = Some(CpuTimes { kernel: 5, user: 6 });
    let text = decoder.decode(&record).message(&record, &Style::default()).unwrap();
    assert!(text.contains("|0C64|%4|%4|5|6|00026|"), "{text}");
}

#[test]
fn numbers_have_the_texts_that_printf_gives_them() {
    let tmf = "00112233-4455-6677-8899-aabbccddeeff D // SRC=a.c\n#typev a_c1 10 \"%0%10!u!|%10!x!|%10!hd!|%11!02x!|%11!d!|%12!#06x!|%12!+05d!|%12! d!|%12!#o!|%13!.2e!|%13!E!\" // FUNC=F\n{\nn, ItemShort -- 10\nc, ItemChar -- 11\ni, ItemLong -- 12\nd, ItemDouble -- 13\n}\n";
    let mut catalog = Catalog::default();
    assert!(catalog.add_tmf(tmf.as_bytes()).is_empty());
    let mut decoder = Decoder::new();
    decoder.set_catalog(Arc::new(catalog));
    let payload =
        [&(-2i16).to_le_bytes()[..], &[0xfe], &63i32.to_le_bytes(), &1234.5f64.to_le_bytes()]
            .concat();
    let mut record = EventRecord::new(HeaderType::Message, &payload);
    record.provider = Some(GUID);
    record.descriptor.id = 10;
    let text = decoder.decode(&record).message(&record, &Style::default()).unwrap();
    let wanted = "65534|fffe|-2|fe|-2|0x003f|+0063| 63|077|1.23e+03|1.234500E+03";
    assert_eq!(text, wanted);
}

/// Bytes of any kind give warnings, not panics, and no more than their share of memory.
#[test]
fn damaged_formats_cause_no_panic() {
    for end in 0..TMF.len() {
        let _ = parse_tmf(&TMF[..end]);
    }
    let wide = TMF.replace("%11!X!", "%11!99999999999d!");
    let messages = parse_tmf(&wide).value;
    assert_eq!(messages.len(), 2);
    let mut out = String::new();
    Spec::parse("99999999999.99999999999d").pad(&mut out, "1");
    assert_eq!(out.len(), WIDTH_LIMIT);
}

/// The example of Microsoft's documentation, and variables that are none.
#[test]
fn a_prefix_shows_what_its_format_asks_for() {
    let facts = PrefixFacts {
        component: "tracedrv",
        place: "tracedrv_c258",
        thread: 0xc64,
        process: 0xaf4,
        cpu: 0,
        sequence: 7,
        time: Some(FileTime(127_036_185_399_980_000)),
        ..PrefixFacts::default()
    };
    let text = |format: &str| {
        let mut out = String::new();
        Prefix::parse(format).write(&mut out, &facts);
        out
    };
    assert_eq!(text(Prefix::DEFAULT), "[0]0AF4.0C64::07/25/2003-14:55:39.998 [tracedrv]");
    assert_eq!(text("%7!05d!|%2!-16s!|%%|%x|%5!d!%"), "00007|tracedrv_c258   |%|%x|0%");
}
