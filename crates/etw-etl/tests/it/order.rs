//! The order of records: by time across CPUs and files, as found within them.

use crate::support::{Rng, Row, builder, event_bytes, open, options, read, read_files};
use etw_etl::read::{RecordsOptions, TraceFile};
use etw_etl::write::{BufferBuilder, FileBuilder, encode};
use etw_types::{ClockType, EventRecord, FileTime, HeaderType, LogFileMode, MessageFlags};

const SIZE: u32 = 0x2000;

fn start() -> i64 {
    FileBuilder::new().header.start_raw
}

/// A buffer of events, each a number and a time after the start.
fn buffer(cpu: u16, sequence: i64, events: &[(u32, i64)]) -> BufferBuilder {
    let mut buffer = BufferBuilder::new(SIZE, cpu);
    buffer.header.sequence_number = sequence;
    for &(number, time) in events {
        buffer.push_bytes(&event_bytes(number, start() + time));
    }
    buffer
}

fn file(buffers: Vec<BufferBuilder>) -> Vec<u8> {
    file_with(buffers, |_| {})
}

fn file_with(buffers: Vec<BufferBuilder>, change: impl FnOnce(&mut FileBuilder)) -> Vec<u8> {
    let mut file = builder(SIZE);
    change(&mut file);
    for buffer in buffers {
        file.push_buffer(buffer);
    }
    file.finish()
}

fn untimed(number: u16) -> Vec<u8> {
    let mut record = EventRecord::new(HeaderType::Message, b"text");
    record.descriptor.id = number;
    record.message_flags = MessageFlags::SYSTEM_INFO;
    let mut bytes = Vec::new();
    encode(&record, &mut bytes).unwrap();
    bytes
}

#[test]
fn records_are_sorted_inside_a_buffer() {
    let outcome = read(&file(vec![
        buffer(0, 1, &[(0, 30), (1, 10), (2, 20), (3, 10), (4, 30), (5, 5)]),
        buffer(0, 2, &[(6, 40), (7, 35)]),
    ]));
    assert_eq!(outcome.numbers(), [5, 1, 3, 2, 0, 4, 7, 6]);
    assert_eq!(outcome.out_of_order, [0]);
    assert_eq!(outcome.damage, []);
}

#[test]
fn equal_times_keep_the_order_of_the_file() {
    let outcome = read(&file(vec![
        buffer(2, 1, &[(0, 10), (1, 10)]),
        buffer(0, 2, &[(2, 10), (3, 10)]),
        buffer(2, 3, &[(4, 10), (5, 11)]),
        buffer(1, 4, &[(6, 9), (7, 10)]),
    ]));
    assert_eq!(outcome.numbers(), [6, 0, 1, 2, 3, 4, 7, 5]);
}

#[test]
fn a_message_without_a_time_takes_the_one_before() {
    let mut first = BufferBuilder::new(SIZE, 0);
    first.push_bytes(&untimed(1));
    first.push_bytes(&event_bytes(0, start() + 20));
    first.push_bytes(&untimed(2));
    let mut second = BufferBuilder::new(SIZE, 0);
    second.push_bytes(&untimed(3));
    second.push_bytes(&event_bytes(1, start() + 40));
    // Behind the record that it follows, wherever that is sorted to.
    second.push_bytes(&event_bytes(2, start() + 50));
    second.push_bytes(&untimed(4));
    second.push_bytes(&event_bytes(3, start() + 45));
    let outcome = read(&file(vec![
        first,
        buffer(1, 1, &[(10, 10), (11, 20), (12, 30), (13, 47), (14, 50)]),
        second,
    ]));
    let seen: Vec<_> = outcome
        .rows
        .iter()
        .skip(1)
        .map(|row| (row.header, row.order_time - start(), row.has_time, row.number()))
        .collect();
    let event = |time, number| (HeaderType::Event64, time, true, Some(number));
    let message = |time| (HeaderType::Message, time, false, None);
    assert_eq!(
        seen,
        [
            message(0),
            event(10, 10),
            event(20, 0),
            message(20),
            // The message in the third buffer stands behind one of the second.
            event(20, 11),
            message(20),
            event(30, 12),
            event(40, 1),
            event(45, 3),
            event(47, 13),
            event(50, 14),
            event(50, 2),
            message(50),
        ]
    );
    assert_eq!(outcome.out_of_order, [0]);
}

#[test]
fn late_records_come_where_they_are_found_and_are_counted() {
    let outcome = read(&file(vec![
        buffer(0, 1, &[(0, 10), (1, 30), (2, 20)]),
        buffer(1, 2, &[(10, 12), (11, 25), (12, 35)]),
        buffer(0, 3, &[(3, 5), (4, 40), (5, 15)]),
        buffer(0, 4, &[(6, 39), (7, 38)]),
    ]));
    assert_eq!(outcome.numbers(), [0, 10, 2, 11, 1, 3, 5, 12, 4, 7, 6]);
    assert_eq!(outcome.out_of_order, [2]);
    assert_eq!(outcome.damage, []);
}

#[test]
fn a_wrapped_circular_file_is_read_by_sequence_number() {
    let circular =
        |file: &mut FileBuilder| file.header.logfile.log_file_mode = LogFileMode::CIRCULAR;
    let event = |sequence: i64| {
        [(sequence as u32, sequence * 10), (sequence as u32 + 100, sequence * 10 + 5)]
    };
    let slots = |order: &[i64]| -> Vec<BufferBuilder> {
        order.iter().map(|&at| buffer((at % 3) as u16, at, &event(at))).collect()
    };
    // The newest three have overwritten the oldest; two were flushed out of turn.
    let wrapped = [10, 12, 11, 5, 4, 6, 7, 9, 8];
    let outcome = read(&file_with(slots(&wrapped), circular));
    assert!(outcome.totals.wrapped);
    let expected: Vec<u32> = (4..=12).flat_map(|at| [at, at + 100]).collect();
    assert_eq!(outcome.numbers(), expected);
    assert_eq!(outcome.out_of_order, [0]);
    assert_eq!(outcome.damage, [], "a circular file counts what it has overwritten");

    // The same in a file that is not circular: file order, and late records.
    let outcome = read(&file(slots(&wrapped)));
    assert!(!outcome.totals.wrapped);
    assert_eq!(outcome.out_of_order, [3]);

    // Circular, but not wrapped.
    let outcome = read(&file_with(slots(&[1, 3, 2, 4, 5]), circular));
    assert!(!outcome.totals.wrapped);
    let expected: Vec<u32> = (1..=5).flat_map(|at| [at, at + 100]).collect();
    assert_eq!(outcome.numbers(), expected);
}

#[test]
fn several_files_are_merged_by_wall_clock() {
    // The same moments on clocks of their own: ticks after the start, and numbers.
    let make = |late: i64, frequency: u64, events: &[(u32, i64)]| {
        let bytes = file_with(vec![buffer(0, 1, events)], |file| {
            file.header.logfile.start_time.0 += late;
            file.header.logfile.perf_freq = frequency;
        });
        open(&bytes).unwrap()
    };
    let files = || {
        vec![
            make(100, 10_000_000, &[(0, 100), (1, 200), (2, 900)]),
            make(0, 1_000_000, &[(10, 20), (11, 30), (12, 31), (13, 99)]),
            make(0, 10_000_000, &[(20, 200), (21, 299), (22, 300), (23, 1000)]),
        ]
    };
    for threads in [0, 2] {
        let outcome = read_files(files(), options(threads));
        // 200: 0 10 20, 299: 21, 300: 1 11 22, 310: 12, 990: 13, 1000: 2 23.
        assert_eq!(outcome.numbers(), [0, 10, 20, 21, 1, 11, 22, 12, 13, 2, 23]);
        assert_eq!(outcome.rows.iter().filter(|row| row.number().is_none()).count(), 3);
    }
    let mut files = files();
    files.reverse();
    let outcome = read_files(files, options(0));
    assert_eq!(outcome.numbers(), [20, 10, 0, 21, 22, 11, 1, 12, 13, 23, 2], "ties by argument");
}

#[test]
fn a_file_on_the_system_clock_beside_one_on_a_counter() {
    let origin = FileBuilder::new().header.logfile.start_time.0;
    let mut system = builder(SIZE);
    system.header.logfile.clock_type = ClockType::SYSTEM;
    system.header.start_raw = origin;
    let mut events = BufferBuilder::new(SIZE, 0);
    events.push_bytes(&event_bytes(0, origin + 15));
    events.push_bytes(&event_bytes(1, origin + 25));
    system.push_buffer(events);
    let system = open(&system.finish()).unwrap();
    assert_eq!(system.clock().filetime(origin + 15), Some(FileTime(origin + 15)));
    let counter = open(&file(vec![buffer(0, 1, &[(10, 10), (11, 20), (12, 25)])])).unwrap();
    let outcome = read_files(vec![system, counter], options(0));
    assert_eq!(outcome.numbers(), [10, 0, 11, 1, 12]);
}

/// Random events on `cpus` streams: (cpu, events) in file order.
fn random_buffers(
    rng: &mut Rng,
    cpus: usize,
    count: usize,
    late: bool,
) -> Vec<(u16, Vec<(u32, i64)>)> {
    let mut clocks = vec![0i64; cpus];
    let mut number = 0;
    (0..count)
        .map(|_| {
            let cpu = rng.below(cpus);
            let mut events: Vec<(u32, i64)> = (0..1 + rng.below(30))
                .map(|_| {
                    clocks[cpu] += rng.below(4) as i64 * 5;
                    number += 1;
                    (number, clocks[cpu])
                })
                .collect();
            for _ in 0..rng.below(4) {
                let (a, b) = (rng.below(events.len()), rng.below(events.len()));
                events.swap(a, b);
            }
            if late && rng.below(3) == 0 {
                clocks[cpu] -= rng.below(100) as i64;
            }
            (cpu as u16, events)
        })
        .collect()
}

#[test]
fn sixty_four_streams_against_a_plain_sort() {
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let made = random_buffers(&mut rng, 64, 400, false);
        let buffers = made.iter().map(|(cpu, events)| buffer(*cpu, 1, events)).collect();
        let bytes = file_with(buffers, |file| file.compressed = seed % 2 == 1);
        // File order, then a stable sort.
        let mut expected: Vec<(u32, i64)> = made.into_iter().flat_map(|made| made.1).collect();
        expected.sort_by_key(|&(_, time)| time);
        let expected: Vec<u32> = expected.into_iter().map(|(number, _)| number).collect();
        let outcome = read(&bytes);
        assert!(outcome.numbers() == expected, "seed {seed}");
        assert_eq!((outcome.out_of_order, outcome.damage), (vec![0], vec![]), "seed {seed}");
    }
}

#[test]
fn streams_with_late_records_against_a_plain_merge() {
    for seed in 0..20 {
        let mut rng = Rng::new(100 + seed);
        let made = random_buffers(&mut rng, 5, 60, true);
        let buffers = made.iter().map(|(cpu, events)| buffer(*cpu, 1, events)).collect();
        let mut streams = vec![Vec::new(); 5];
        for (number, (cpu, mut events)) in made.into_iter().enumerate() {
            events.sort_by_key(|&(_, time)| time);
            streams[usize::from(cpu)].extend(events.iter().map(|&(id, time)| (time, number, id)));
        }
        let late: usize =
            streams.iter().map(|s| s.windows(2).filter(|pair| pair[1].0 < pair[0].0).count()).sum();
        let mut expected = Vec::new();
        let mut heads = [0; 5];
        while let Some((_, _, id, cpu)) = (0..5)
            .filter_map(|cpu| streams[cpu].get(heads[cpu]).map(|&(t, n, id)| (t, n, id, cpu)))
            .min()
        {
            heads[cpu] += 1;
            expected.push(id);
        }
        let outcome = read(&file(buffers));
        assert!(outcome.numbers() == expected, "seed {seed}");
        assert_eq!(outcome.out_of_order, [late as u64], "seed {seed}");
    }
}

#[test]
fn two_files_with_late_records_count_their_own() {
    let sound = file(vec![buffer(0, 1, &[(0, 10), (1, 20)])]);
    let late = file(vec![buffer(0, 1, &[(2, 15)]), buffer(0, 2, &[(3, 5)])]);
    let files = [&sound, &late].map(|bytes| open(bytes).unwrap()).to_vec();
    let outcome = read_files(files, RecordsOptions::default());
    assert_eq!(outcome.out_of_order, [0, 1]);
}

#[test]
fn a_clone_of_a_file_reads_the_same() {
    let bytes = file(vec![buffer(0, 1, &[(0, 10)]), buffer(1, 2, &[(1, 5)])]);
    let file: TraceFile = open(&bytes).unwrap();
    let first: Vec<Row> = read_files(vec![file.clone()], options(0)).rows;
    assert_eq!(read_files(vec![file], options(1)).rows, first);
}

/// Records of one time in files of a series are read in the order in which the session wrote the files, however these are listed; those of
/// others as they are listed.
#[test]
fn files_of_a_series_are_read_in_their_order() {
    let listed = [(2, 30), (0, 10), (1, 20)];
    let numbers = |mode: LogFileMode| {
        let files = listed.map(|(number, sequence)| {
            let buffers = vec![buffer(0, sequence, &[(number, 10)])];
            file_with(buffers, |file| file.header.logfile.log_file_mode = mode)
        });
        let opened = files.iter().map(|file| open(file).unwrap()).collect();
        read_files(opened, RecordsOptions::default()).numbers()
    };
    assert_eq!(numbers(LogFileMode::NEWFILE), [0, 1, 2]);
    assert_eq!(numbers(LogFileMode::SEQUENTIAL), [2, 0, 1]);
}
