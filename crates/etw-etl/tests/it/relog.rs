//! Rewritten files have the same records; merged files have those of all, in one order.

use crate::corpus;
use crate::support::{
    Rng, builder, event_bytes, numbered, numbered_compressed, open, push_numbered, put_u32, read,
};
use crate::{alloc, support};
use etw_etl::header::{LayoutVersion, LogfileHeader};
use etw_etl::read::{Records, TraceFile};
use etw_etl::relog::{Relog, RelogOptions, RelogSummary};
use etw_etl::write::{FileBuilder, sample};
use etw_etl::{DamageKind, Error};
use etw_types::{EventRecord, FileTime, Guid, HeaderType, Hook, LogFileMode, MessageFlags};
use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io::Cursor;

fn options(compressed: bool) -> RelogOptions {
    let mut options = RelogOptions::default();
    options.compressed = compressed;
    options
}

/// The new file, opened, and what was told of it.
fn relog(files: Vec<TraceFile>, compressed: bool) -> (TraceFile, RelogSummary, Vec<DamageKind>) {
    let mut relog = Relog::new(files, options(compressed)).unwrap();
    let bytes = relog.run(Cursor::new(Vec::new()), |_| ()).unwrap().into_inner();
    let damage = relog.records().damage().kept().iter().map(|d| d.kind.clone()).collect();
    let file = open(&bytes).unwrap();
    assert_eq!(file.totals().buffers, relog.summary().buffers);
    assert_eq!(file.totals().compressed_buffers > 0, compressed && file.totals().buffers > 1);
    (file, *relog.summary(), damage)
}

/// A record apart from the place it lies at.
#[derive(Clone, Debug, PartialEq)]
struct Fact {
    cpu: u16,
    header: HeaderType,
    pointer_size: u8,
    time: Option<FileTime>,
    raw: Option<i64>,
    stored: Vec<u8>,
}

/// All records but the logfile header's; the file must be sound.
fn facts(files: Vec<TraceFile>) -> Vec<Fact> {
    let count = files.len() as u32;
    let mut records = Records::new(files);
    let mut facts = Vec::new();
    while let Some(record) = records.next() {
        if record.hook == Some(Hook(0)) {
            continue;
        }
        let file = record.position.file_index;
        let mut fact = Fact {
            cpu: record.cpu,
            header: record.header,
            pointer_size: record.pointer_size,
            time: None,
            raw: record.raw_timestamp(),
            stored: Vec::new(),
        };
        fact.time = fact.raw.and_then(|raw| records.clock(file).filetime(raw));
        fact.stored = records.stored_bytes().to_vec();
        facts.push(fact);
    }
    assert_eq!(records.damage().kept(), []);
    for file in 0..count {
        assert_eq!(records.out_of_order(file), 0);
    }
    facts
}

/// Every record of each CPU in its order, as one number: files of any size can be compared.
fn digest(file: TraceFile) -> BTreeMap<u16, (u64, u64)> {
    let mut streams: BTreeMap<u16, (u64, DefaultHasher)> = BTreeMap::new();
    let mut records = Records::new(vec![file]);
    while let Some(record) = records.next() {
        if record.hook == Some(Hook(0)) {
            continue;
        }
        let (cpu, raw, width) = (record.cpu, record.raw_timestamp(), record.pointer_size);
        let stream = streams.entry(cpu).or_default();
        stream.0 += 1;
        (raw, width, records.stored_bytes()).hash(&mut stream.1);
    }
    assert_eq!(records.damage().kept(), []);
    assert_eq!(records.out_of_order(0), 0);
    streams.into_iter().map(|(cpu, (count, hash))| (cpu, (count, hash.finish()))).collect()
}

#[test]
fn every_real_file_keeps_every_record() {
    for path in corpus::files() {
        let original = TraceFile::open(&path).unwrap();
        let want = digest(original.clone());
        for compressed in [false, true] {
            let (copy, summary, damage) = relog(vec![original.clone()], compressed);
            assert_eq!(damage, []);
            let total: u64 = want.values().map(|(count, _)| count).sum();
            assert_eq!(summary.records, total + 1);
            let changed = summary.converted + summary.unconverted + summary.other_pointer_size;
            assert_eq!((changed, summary.left_out()), (0, 0));
            assert_eq!(digest(copy.clone()), want, "{}", path.display());
            let (was, is) = (original.header().unwrap(), copy.header().unwrap());
            let layout = if compressed { [2, 0] } else { [1, 5] };
            let kept = LogfileHeader {
                buffer_size: is.buffer_size,
                version: [was.version[0], was.version[1], layout[0], layout[1]],
                maximum_file_size: 0,
                log_file_mode: LogFileMode::SEQUENTIAL
                    | LogFileMode::RELOG
                    | LogFileMode::COMPRESSED.when(compressed),
                buffers_written: summary.buffers as u32,
                number_of_processors: is.number_of_processors,
                ..was.clone()
            };
            assert_eq!(*is, kept, "{}", path.display());
            assert_eq!(copy.clock().raw_start, original.clock().raw_start);
        }
    }
}

/// As a session of one boot that started `seconds` later: the events of `push`.
fn part(seconds: i64, change: impl FnOnce(&mut FileBuilder)) -> TraceFile {
    let mut file = builder(0x1000);
    file.header.start_raw += seconds * 10_000_000;
    file.header.logfile.start_time.0 += seconds * 10_000_000;
    change(&mut file);
    open(&file.finish()).unwrap()
}

/// Events with numbers of a range, on three CPUs, at 10 µs each from the start of a trace of second 0.
fn push_some(file: &mut FileBuilder, numbers: impl Iterator<Item = u32>) {
    let start = FileBuilder::new().header.start_raw;
    for number in numbers {
        support::event(number, start, |record| file.push(number as u16 % 3, record)).unwrap();
    }
}

#[test]
fn files_of_one_clock_keep_their_raw_times() {
    // Starts out of step by 5 ms, as the wall clock of a day would: FILETIME would order otherwise.
    let early = part(0, |file| {
        file.header.logfile.start_time.0 += 50_000;
        file.header.logfile.events_lost = 3;
        push_some(file, (0..1000).step_by(2));
    });
    let late = part(0, |file| {
        file.header.start_raw += 15;
        file.header.logfile.start_time.0 += 15;
        file.header.logfile.buffers_lost = 5;
        file.header.logfile.events_lost = u32::MAX;
        file.header.logfile.end_time = FileTime(file.header.logfile.start_time.0 + 77_777_777);
        push_some(file, (1..1000).step_by(2));
    });
    let ends = [&early, &late].map(|file| file.header().unwrap().end_time);
    for files in [vec![early.clone(), late.clone()], vec![late.clone(), early.clone()]] {
        for compressed in [false, true] {
            let (merged, summary, _) = relog(files.clone(), compressed);
            assert_eq!((summary.records, summary.converted), (1001, 0));
            let numbers: Vec<u32> = facts(vec![merged.clone()])
                .iter()
                .map(|fact| u32::from_le_bytes(*fact.stored[0x50..].first_chunk().unwrap()))
                .collect();
            assert!(numbers.into_iter().eq(0..1000));
            let header = merged.header().unwrap();
            // The pair of the file that starts first on the clock that both have.
            assert_eq!(header.start_time, early.clock().start);
            assert_eq!(merged.clock().raw_start, early.clock().raw_start);
            assert_eq!(header.end_time, *ends.iter().max().unwrap());
            assert_eq!((header.events_lost, header.buffers_lost), (u32::MAX, 5));
            assert_eq!(header.number_of_processors, 3);
            assert_eq!(header.logger_name, "openetw");
            assert_eq!(header.log_file_name, "[multiple files]");
        }
    }
}

/// Each file of a series has the losses of its session so far.
#[test]
fn losses_of_a_series_count_once() {
    let file = |lost: u32, change: &dyn Fn(&mut LogfileHeader)| {
        part(0, |file| {
            file.header.logfile.log_file_mode = LogFileMode::NEWFILE;
            file.header.logfile.events_lost = lost;
            file.header.logfile.buffers_lost = lost / 10;
            change(&mut file.header.logfile);
            push_some(file, 0..3);
        })
    };
    let same = |_: &mut LogfileHeader| ();
    let later = |header: &mut LogfileHeader| header.start_time.0 += 10_000_000;
    let alone = |header: &mut LogfileHeader| header.log_file_mode = LogFileMode::SEQUENTIAL;
    let series = vec![file(4, &same), file(52, &same), file(56, &same)];
    let lost = |files: Vec<TraceFile>| {
        let (merged, ..) = relog(files, false);
        let header = merged.header().unwrap();
        (header.events_lost, header.buffers_lost)
    };
    assert_eq!(lost(series.clone()), (56, 5));
    let other_session = [series.clone(), vec![file(20, &later)]].concat();
    assert_eq!(lost(other_session), (76, 7));
    assert_eq!(lost(vec![file(3, &alone), file(4, &alone)]), (7, 0), "two sessions");
}

#[test]
fn the_name_of_a_relogger_where_sessions_differ() {
    let one = part(0, |file| push_some(file, 0..3));
    let other = part(1, |file| file.header.logfile.logger_name = "other".into());
    let (merged, ..) = relog(vec![one, other], false);
    assert_eq!(merged.header().unwrap().logger_name, "Relogger");
}

/// A machine of its own: another counter, another boot, starting `ticks` of 100 ns after the others.
fn elsewhere(frequency: u64, ticks: i64) -> FileBuilder {
    let mut file = builder(0x1000);
    file.header.logfile.perf_freq = frequency;
    file.header.logfile.boot_time.0 -= 1_234_567;
    file.header.logfile.start_time.0 += ticks;
    file.header.start_raw = 1_000_000_007;
    file
}

#[test]
fn times_of_another_clock_are_converted() {
    for (frequency, ticks) in [(10_000_000, 55), (24_000_000, -7_000_001), (3_579_545, 1)] {
        let mut file = elsewhere(frequency, ticks);
        let start = file.header.start_raw;
        for (number, header) in sample::HEADERS.into_iter().enumerate() {
            sample::with_record(header, |record| {
                record.order_time = start + 37 * number as i64;
                file.push(number as u16 % 2, record).unwrap();
            });
        }
        let other = open(&file.finish()).unwrap();
        let home = open(&numbered(0x1000, 2, 20)).unwrap();
        for compressed in [false, true] {
            let (merged, summary, _) = relog(vec![home.clone(), other.clone()], compressed);
            assert_eq!(summary.converted, sample::HEADERS.len() as u64);
            assert_eq!((summary.unconverted, summary.left_out()), (0, 0));
            let got = facts(vec![merged.clone()]);
            let want = facts(vec![home.clone(), other.clone()]);
            assert_eq!(got.len(), want.len());
            let start = home.clock().start.min(other.clock().start);
            assert_eq!(merged.header().unwrap().start_time, start);
            let count =
                |facts: &[Fact], header| facts.iter().filter(|f| f.header == header).count();
            for header in sample::HEADERS {
                assert_eq!(count(&got, header), count(&want, header));
            }
            // 10 MHz tells every FILETIME, so that they are what they were; all but the time is.
            let mut got_sorted = got.clone();
            let mut want_sorted = want;
            for fact in got_sorted.iter_mut().chain(&mut want_sorted) {
                etw_etl::record::set_time(&mut fact.stored, fact.header, 0);
                fact.raw = None;
            }
            let key = |fact: &Fact| (fact.time, fact.cpu, fact.stored.clone());
            got_sorted.sort_by_key(key);
            want_sorted.sort_by_key(key);
            assert_eq!(got_sorted, want_sorted, "{frequency} {ticks}");
            // Those of the first file are not touched.
            let of_home = facts(vec![home.clone()]);
            let kept: Vec<_> = got.iter().filter(|fact| of_home.contains(fact)).collect();
            assert_eq!(kept.len(), 20);
        }
    }
}

#[test]
fn a_stack_names_its_event_by_the_new_clock() {
    let mut file = elsewhere(24_000_000, 55);
    let start = file.header.start_raw;
    let rest = [[2u8, 0, 0, 0, 1, 0, 0, 0], 0x7ff6_1234_5678u64.to_le_bytes()].concat();
    for (header, of) in [(HeaderType::PerfInfo64, start + 240), (HeaderType::System64, start)] {
        let payload = [&of.to_le_bytes()[..], &rest].concat();
        let mut record = EventRecord::new(header, &payload);
        record.hook = Some(Hook(0x1820));
        record.order_time = of + 48;
        file.push(0, &record).unwrap();
    }
    let other = open(&file.finish()).unwrap();
    let home = open(&numbered(0x1000, 2, 20)).unwrap();
    let (merged, summary, _) = relog(vec![home, other], false);
    assert_eq!(summary.converted, 2);
    let mut starts = Vec::new();
    for fact in facts(vec![merged]).iter().filter(|fact| fact.header.is_kernel()) {
        let (payload, end) = fact.stored.split_at(fact.stored.len() - 16);
        let of = i64::from_le_bytes(*payload.last_chunk().unwrap());
        // 48 ticks of 24 MHz are 20 of 10 MHz.
        assert_eq!(fact.raw.map(|raw| raw - of), Some(20), "{fact:?}");
        assert_eq!(end, rest);
        starts.push(of);
    }
    assert_eq!(starts.iter().max().unwrap() - starts.iter().min().unwrap(), 100);
}

#[test]
fn machines_that_started_together_have_two_clocks() {
    // Counters half a second apart, as those of two guests of one host.
    let mut file = builder(0x1000);
    file.header.logfile.boot_time.0 += 5_000_000;
    file.header.start_raw -= 5_000_000;
    let start = file.header.start_raw;
    support::event(1, start, |record| file.push(0, record)).unwrap();
    let other = open(&file.finish()).unwrap();
    let home = open(&numbered(0x1000, 1, 1)).unwrap();
    let (merged, summary, _) = relog(vec![home.clone(), other.clone()], false);
    assert_eq!(summary.converted, 1);
    let times = |facts: Vec<Fact>| facts.into_iter().map(|fact| fact.time).collect::<Vec<_>>();
    assert_eq!(times(facts(vec![merged])), times(facts(vec![home, other])));
}

#[test]
fn a_time_that_the_first_clock_cannot_tell_stays() {
    let mut file = elsewhere(1_000, 0);
    for time in [file.header.start_raw + 5, i64::MAX] {
        support::event(1, 0, |record| {
            let mut record = *record;
            record.order_time = time;
            file.push(0, &record).unwrap();
        });
    }
    let other = open(&file.finish()).unwrap();
    let home = open(&numbered(0x1000, 1, 1)).unwrap();
    let (merged, summary, _) = relog(vec![home, other], false);
    assert_eq!((summary.converted, summary.unconverted), (1, 1));
    assert!(facts(vec![merged]).iter().any(|fact| fact.raw == Some(i64::MAX)));
}

#[test]
fn what_sessions_say_of_themselves_is_kept() {
    let say = |file: &mut FileBuilder, text: &[u8], time: i64| {
        let mut record = EventRecord::new(HeaderType::PerfInfo64, text);
        (record.hook, record.order_time) = (Some(Hook(0x42)), time);
        let mut bytes = Vec::new();
        etw_etl::write::encode(&record, &mut bytes).unwrap();
        file.header_records.push(bytes);
    };
    let first = part(0, |file| {
        say(file, b"first build\0", file.header.start_raw);
        say(file, b"first more\0", file.header.start_raw + 1);
        push_some(file, 0..50);
    });
    let second = part(0, |file| {
        file.header.start_raw += 105;
        file.header.logfile.start_time.0 += 105;
        say(file, b"second build\0", file.header.start_raw);
        push_some(file, 50..60);
    });
    for compressed in [false, true] {
        let (merged, ..) = relog(vec![first.clone(), second.clone()], compressed);
        let mut records = Records::new(vec![merged]);
        let mut found = Vec::new();
        while let Some(record) = records.next() {
            if record.hook == Some(Hook(0x42)) {
                let text = String::from_utf8(record.payload.to_vec()).unwrap();
                found.push((text, record.position.buffer_index == 0));
            }
        }
        assert_eq!(records.out_of_order(0), 0);
        let want = [("first build\0", true), ("first more\0", true), ("second build\0", false)];
        assert!(found.iter().map(|(text, first)| (text.as_str(), *first)).eq(want), "{found:?}");
    }
}

fn message(flags: MessageFlags, time: i64, number: u16) -> Vec<u8> {
    let mut record = EventRecord::new(HeaderType::Message, b"args");
    (record.message_flags, record.order_time) = (flags, time);
    record.descriptor.id = number;
    record.sequence = Some(0x5eed);
    record.provider = Some(Guid::from_u128(3));
    let mut bytes = Vec::new();
    etw_etl::write::encode(&record, &mut bytes).unwrap();
    bytes
}

#[test]
fn messages_keep_order_sequence_and_bitness() {
    let mut narrow = builder(0x400);
    narrow.header.logfile.pointer_size = 4;
    let start = narrow.header.start_raw;
    let timed = MessageFlags(0x0b);
    let untimed = MessageFlags(0x03);
    for number in 0..40u16 {
        let flags = if number % 3 == 0 { timed } else { untimed };
        let bytes = message(flags, start + 10 * i64::from(number), number);
        narrow.buffer(0).push_bytes(&bytes);
        if !narrow.buffer(0).has_room(64) {
            narrow.flush(0);
        }
    }
    for header in [HeaderType::Error, HeaderType::Wnode, HeaderType::Event32] {
        sample::with_record(header, |record| {
            record.order_time = start + 1000;
            narrow.push(0, record).unwrap();
        });
    }
    let narrow = open(&narrow.finish()).unwrap();
    let wide = open(&numbered(0x1000, 1, 100)).unwrap();
    // By itself the file stays one of 32 bits, byte for byte.
    let (alone, summary, _) = relog(vec![narrow.clone()], true);
    assert_eq!(alone.header().unwrap().pointer_size, 4);
    assert_eq!(summary.other_pointer_size, 0);
    assert_eq!(facts(vec![alone]), facts(vec![narrow.clone()]));

    let (merged, summary, _) = relog(vec![wide, narrow.clone()], false);
    assert_eq!(merged.header().unwrap().pointer_size, 8);
    assert_eq!((summary.other_pointer_size, summary.records), (2, 144));
    let messages = |file| {
        let facts = facts(vec![file]).into_iter();
        facts.filter(|fact| fact.header == HeaderType::Message).collect::<Vec<_>>()
    };
    let (got, want) = (messages(merged), messages(narrow));
    assert_eq!(got.len(), 40);
    for (got, want) in got.iter().zip(&want) {
        assert_eq!((got.pointer_size, got.raw, got.cpu), (4, want.raw, want.cpu));
        let mut stored = want.stored.clone();
        stored[6] |= 0x40;
        assert_eq!(got.stored, stored);
    }
}

#[test]
fn instances_of_windows_xp_stay_in_their_layout() {
    let mut file = builder(0x1000);
    file.header.logfile.version = [5, 1, 1, 0];
    let mut bytes = vec![0u8; 0x38 + 4];
    bytes[..4].copy_from_slice(&[0x3c, 0, 0x0b, 0xc0]);
    bytes[0x10..0x18].copy_from_slice(&(file.header.start_raw + 5).to_le_bytes());
    file.buffer(0).push_bytes(&bytes);
    push_numbered(&mut file, 1, 3);
    let old = open(&file.finish()).unwrap();
    let (copy, summary, _) = relog(vec![old.clone()], false);
    assert_eq!(copy.header().unwrap().layout(), LayoutVersion { major: 1, minor: 0 });
    assert_eq!(summary.left_out(), 0);
    assert_eq!(facts(vec![copy]), facts(vec![old.clone()]));
    // Compressed or beside newer files they are dropped, and the summary counts them.
    let (copy, summary, _) = relog(vec![old.clone()], true);
    assert_eq!((summary.other_layout, facts(vec![copy]).len()), (1, 3));
    let new = open(&numbered(0x1000, 1, 7)).unwrap();
    let (copy, summary, _) = relog(vec![old, new], false);
    assert_eq!((summary.other_layout, facts(vec![copy]).len()), (1, 10));
}

#[test]
fn damage_is_told_and_the_rest_kept() {
    for bytes in [numbered(0x1000, 2, 500), numbered_compressed(0x1000, 2, 500)] {
        let mut bytes = bytes;
        let third = support::buffer_offsets(&bytes)[3];
        bytes[third..third + 0x60].fill(0xee);
        let want = read(&bytes);
        assert!((300..500).contains(&want.numbers().len()));
        let (copy, summary, damage) = relog(vec![open(&bytes).unwrap()], false);
        let told: Vec<_> = want.damage.iter().map(|(_, kind)| kind.clone()).collect();
        assert_eq!(damage, told);
        assert_eq!(summary.records as usize, want.rows.len());
        assert_eq!(facts(vec![copy]).len(), want.numbers().len());
    }
}

#[test]
fn without_a_header_alone_but_not_beside_others() {
    let mut bytes = numbered(0x1000, 2, 500);
    put_u32(&mut bytes, 0x48, 0);
    let file = open(&bytes).unwrap();
    assert!(file.header().is_none());
    let want = read(&bytes).numbers();
    let (copy, summary, _) = relog(vec![file.clone()], false);
    assert_eq!(summary.records, 501);
    assert_eq!(facts(vec![copy]).len(), want.len());
    let sound = open(&numbered(0x1000, 2, 5)).unwrap();
    let error = Relog::new(vec![sound, file], options(false)).err().unwrap();
    assert!(matches!(error, Error::NoClock { .. }), "{error}");
}

#[test]
fn the_end_of_an_unfinished_file_is_that_of_its_last_record() {
    let mut file = builder(0x1000);
    file.finalised = false;
    push_numbered(&mut file, 2, 100);
    let file = open(&file.finish()).unwrap();
    let (copy, ..) = relog(vec![file.clone()], false);
    let start = file.clock().start;
    assert_eq!(copy.header().unwrap().end_time, FileTime(start.0 + 1000));
    let later = part(0, |file| {
        file.header.logfile.end_time = FileTime(start.0 + 99_999_999);
    });
    let (copy, ..) = relog(vec![file.clone(), later], false);
    assert_eq!(copy.header().unwrap().end_time, FileTime(start.0 + 99_999_999));
    let before = part(0, |file| file.header.logfile.end_time = FileTime(start.0 + 9));
    let (copy, ..) = relog(vec![file, before], false);
    assert_eq!(copy.header().unwrap().end_time, FileTime(start.0 + 1000));
}

#[test]
fn records_larger_than_any_buffer_are_counted() {
    let payload = vec![1; (1 << 20) + 1];
    let mut file = builder(4 << 20);
    let mut record = EventRecord::new(HeaderType::Wnode, &payload);
    record.order_time = file.header.start_raw + 1;
    file.push(0, &record).unwrap();
    push_numbered(&mut file, 2, 10);
    let file = open(&file.finish()).unwrap();
    for compressed in [false, true] {
        let (copy, summary, _) = relog(vec![file.clone()], compressed);
        assert_eq!((summary.too_large, summary.records), (1, 11));
        assert_eq!(copy.header().unwrap().buffer_size, 1 << 20);
        assert_eq!(facts(vec![copy]).len(), 10);
    }
}

/// Whatever is wrong with the input, the new file is sound and has the records that could be read.
#[test]
fn what_is_made_of_mutated_files_is_sound() {
    let mut sample = sample::builder();
    sample.header.logfile.buffer_size = 0x400;
    let whole = [
        sample.finish(),
        numbered(0x400, 3, 60),
        numbered_compressed(0x800, 3, 300),
        support::numbered(0x400, 200, 300),
    ];
    let mut rng = Rng::new(20);
    let mut readable = 0;
    for round in 0..800 {
        let mut bytes = whole[round % whole.len()].clone();
        for _ in 0..1 + rng.below(8) {
            // Headers are where it matters.
            let grid = [0x400, 0x48, 1][rng.below(3)];
            let at = (rng.below(bytes.len()) / grid * grid + rng.below(0x120)).min(bytes.len() - 1);
            bytes[at] = [0, 0xff, rng.next() as u8][rng.below(3)];
        }
        if rng.below(4) == 0 {
            bytes.truncate(rng.below(bytes.len()));
        }
        let Ok(file) = open(&bytes) else { continue };
        let want = read(&bytes).rows.len() as u64;
        let files = if round % 5 == 0 { vec![file, open(&whole[1]).unwrap()] } else { vec![file] };
        let count = files.len() as u64;
        let Ok(mut relog) = Relog::new(files, options(round % 2 == 0)) else { continue };
        let bytes = relog.run(Cursor::new(Vec::new()), |_| ()).unwrap().into_inner();
        let copy = read(&bytes);
        assert_eq!(copy.damage, [], "round {round}");
        assert_eq!(copy.rows.len() as u64, relog.summary().records, "round {round}");
        if count == 1 {
            let all = relog.summary().records + relog.summary().left_out();
            // The header's own record may be unreadable.
            assert!(all == want || all == want + 1, "round {round}: {all} of {want}");
            readable += 1;
        }
    }
    assert!(readable > 300, "{readable}");
}

#[test]
fn memory_does_not_grow_with_the_files() {
    let peak_of = |count: u32| {
        let files = [numbered(0x1000, 4, count), numbered_compressed(0x1000, 4, count)];
        let files: Vec<_> = files.iter().map(|bytes| open(bytes).unwrap()).collect();
        let (summary, peak) = alloc::peak(|| {
            let mut relog = Relog::new(files, options(true)).unwrap();
            relog.run(support::Sink::default(), |_| ()).unwrap();
            *relog.summary()
        });
        assert_eq!(summary.records, u64::from(2 * count + 1));
        peak
    };
    let (small, large) = (peak_of(2_000), peak_of(60_000));
    // Eight streams read and four written, of 4 KiB; the compressor's tables.
    assert!(large < 1 << 20, "{large}");
    assert!(large < small + (64 << 10), "{small} {large}");
}

#[test]
fn an_untimed_first_record_does_not_count_as_time() {
    // Appended bytes with the time of the start.
    let mut file = builder(0x400);
    let start = file.header.start_raw;
    file.buffer(1).push_bytes(&message(MessageFlags(0x03), 0, 1));
    file.buffer(1).push_bytes(&event_bytes(7, start + 10));
    let file = open(&file.finish()).unwrap();
    let (copy, ..) = relog(vec![file.clone()], false);
    assert_eq!(facts(vec![copy]), facts(vec![file]));
}
