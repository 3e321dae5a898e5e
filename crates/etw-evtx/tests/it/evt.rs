//! OV-22: `.evt` logs of Windows XP, made here by the documented layout.

use crate::replay::{replaying, targets};
use etw_evtx::evt::{EvtLog, is_evt};

fn put(bytes: &mut Vec<u8>, numbers: &[u32]) {
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

/// A record as `ReportEvent` made it: two strings, a SID and data; each third one is an error.
fn record(number: u32) -> Vec<u8> {
    let (source, computer) = (utf16("Shop"), utf16("HOST"));
    let strings = [utf16(&format!("item {number}")), utf16("")].concat();
    let sid = [1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];
    let data = [0xab, number as u8];
    let sid_at = (56 + source.len() + computer.len()).next_multiple_of(4);
    let strings_at = sid_at + sid.len();
    let data_at = strings_at + strings.len();
    let size = (data_at + data.len()).next_multiple_of(4) + 4;
    let time = 1_000_000_000 + number;
    let mut bytes = Vec::new();
    let kind = if number.is_multiple_of(3) { 1 } else { 4 };
    put(&mut bytes, &[size as u32, 0x654c_664c, number, time, time, 0xc000_0000 | (100 + number)]);
    put(&mut bytes, &[kind | 2 << 16, 7, 0, strings_at as u32]);
    put(&mut bytes, &[sid.len() as u32, sid_at as u32, data.len() as u32, data_at as u32]);
    bytes.extend([source, computer].concat());
    bytes.resize(sid_at, 0);
    bytes.extend(sid);
    bytes.extend(strings);
    bytes.extend(data);
    bytes.resize(size - 4, 0);
    put(&mut bytes, &[size as u32]);
    bytes
}

fn header(start: u32, end: u32, next: u32, oldest: u32, size: u32, flags: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, &[48, 0x654c_664c, 1, 1, start, end, next, oldest, size, flags, 0, 48]);
    bytes
}

fn end_mark(begin: u32, end: u32, next: u32, oldest: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let marks = [0x28, 0x1111_1111, 0x2222_2222, 0x3333_3333, 0x4444_4444];
    put(&mut bytes, &marks);
    put(&mut bytes, &[begin, end, next, oldest, 0x28]);
    bytes
}

/// A closed log with the records 1 to 20, and behind its end a stale record of an earlier use.
fn closed() -> Vec<u8> {
    let records: Vec<u8> = (1..=20).flat_map(record).collect();
    let end = 48 + records.len() as u32;
    let mut bytes = header(48, end, 21, 1, 0x1_0000, 0);
    bytes.extend(records);
    bytes.extend(end_mark(48, end, 21, 1));
    bytes.extend(record(900));
    bytes.resize(0x1_0000, 0);
    bytes
}

/// A log in use that has wrapped: its header is stale, and one record begins at the end of the file and continues behind the header.
fn wrapped() -> Vec<u8> {
    const SIZE: usize = 4096;
    let mut data = vec![0x5a; SIZE];
    data[..48].copy_from_slice(&header(48, 48, 1, 1, SIZE as u32, 1 | 2));
    let mut at = 48;
    let mut place = |bytes: &[u8]| {
        for byte in bytes {
            data[at] = *byte;
            at = if at + 1 < SIZE { at + 1 } else { 48 };
        }
        at
    };
    let mut end = 0;
    for number in 1..=40 {
        end = place(&record(number));
    }
    let oldest_at = (end + 40..SIZE)
        .step_by(4)
        .find(|at| data[at + 4..at + 8] == *b"LfLe")
        .expect("a record behind the end");
    let oldest = u32::from_le_bytes(data[oldest_at + 8..oldest_at + 12].try_into().unwrap());
    let mark = end_mark(oldest_at as u32, end as u32, 41, oldest);
    data[end..end + 40].copy_from_slice(&mark);
    data
}

fn numbers(log: &EvtLog) -> Vec<u64> {
    let mut numbers = Vec::new();
    let read = log.for_each(|record| {
        let number = record.id();
        assert_eq!(record.system().record_id(), Some(number));
        assert_eq!(record.system().event_id(), Some(100 + number as u16));
        let xml = record.to_xml().unwrap();
        assert!(xml.contains(&format!("<Data>item {number}</Data><Data></Data>")), "{xml}");
        numbers.push(number);
        Ok::<(), ()>(())
    });
    read.unwrap();
    numbers
}

/// OV-22
#[test]
fn a_closed_evt_log_has_its_records_and_no_stale_ones() {
    let log = EvtLog::from_bytes(closed()).unwrap();
    assert!(!log.is_dirty());
    assert_eq!(numbers(&log), (1..=20).collect::<Vec<_>>());
    assert_eq!(log.damage(), []);
    let mut first = None;
    let read = log.for_each(|record| {
        first.get_or_insert(record.to_xml().unwrap());
        Ok::<(), ()>(())
    });
    read.unwrap();
    assert_eq!(
        first.as_deref(),
        Some(
            "<Event><System><Provider Name='Shop'/><EventID Qualifiers='49152'>101</EventID>\
             <Level>4</Level><Task>7</Task><Keywords>0x80000000000000</Keywords>\
             <TimeCreated SystemTime='2001-09-09T01:46:41.0000000Z'/><EventRecordID>1</EventRecordID>\
             <Computer>HOST</Computer><Security UserID='S-1-5-18'/></System>\
             <EventData><Data>item 1</Data><Data></Data><Binary>AB01</Binary></EventData></Event>"
        )
    );
}

/// OV-22
#[test]
fn a_wrapped_evt_log_in_use_is_read_from_its_oldest_record_across_the_end_of_the_file() {
    let log = EvtLog::from_bytes(wrapped()).unwrap();
    assert!(log.is_dirty());
    let found = numbers(&log);
    assert_eq!(found.last(), Some(&40));
    assert!(found.len() > 15 && found[0] > 1, "{found:?}");
    assert!(found.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{found:?}");
}

#[test]
fn damage_in_an_evt_log_costs_its_own_record() {
    let mut bytes = closed();
    let second = 48 + record(1).len();
    bytes[second + 5] = 0;
    let log = EvtLog::from_bytes(bytes).unwrap();
    assert_eq!(numbers(&log), [1].into_iter().chain(3..=20).collect::<Vec<_>>());
    assert_eq!(log.damage().len(), 1);
    assert_eq!(log.damage()[0].offset, second as u64);
    assert!(!is_evt(b"ElfFile\0") && EvtLog::from_bytes(b"ElfFile\0".to_vec()).is_err());
}

/// P5
#[test]
fn evt_logs_of_any_bytes_are_read() {
    let closed = closed()[..2048].to_vec();
    let seeds = [("closed", closed), ("wrapped", wrapped())];
    replaying::replay("evt_log", &seeds, 400, targets::evt_log);
}
