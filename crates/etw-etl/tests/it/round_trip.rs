//! Records survive writing and reading, and reading and writing, unchanged.

use crate::corpus;
use crate::support::{
    Outcome, builder, numbered, numbered_compressed, open, options, push_numbered, read, read_files,
};
use etw_etl::header::LogfileHeader;
use etw_etl::read::{Records, TraceFile};
use etw_etl::record::parse_checked;
use etw_etl::write::{self, FileBuilder, encode, sample};
use etw_types::{
    EventDescriptor, EventFlags, EventRecord, ExtType, HeaderType, Hook, LogFileMode, MessageFlags,
    Opcode,
};

/// The fields that the type stores, as the reader is to give them.
fn expected(header: HeaderType, written: &EventRecord<'_>) -> EventRecord<'static> {
    let mut record = EventRecord::new(header, &[]);
    record.pointer_size = header.pointer_size().unwrap_or(8);
    record.order_time = written.order_time;
    let ids = (written.process_id, written.thread_id);
    let descriptor = &mut record.descriptor;
    match header {
        HeaderType::Event32 | HeaderType::Event64 | HeaderType::Error => {
            *descriptor = written.descriptor;
            record.provider = written.provider;
            record.activity_id = written.activity_id;
            record.property = written.property;
            (record.process_id, record.thread_id) = ids;
            record.cpu_times = written.cpu_times;
            record.flags = written.flags;
            if header != HeaderType::Error {
                record.flags.0 |= EventFlags::EXTENDED_INFO.0;
            }
        }
        HeaderType::Message => {
            descriptor.id = written.descriptor.id;
            record.provider = written.provider;
            record.message_flags = written.message_flags;
            record.sequence = written.sequence;
            (record.process_id, record.thread_id) = ids;
        }
        HeaderType::Wnode => record.provider = written.provider,
        _ if header.is_kernel() => {
            record.hook = written.hook;
            record.provider = written.hook.unwrap().class_guid();
            descriptor.version = written.descriptor.version;
            descriptor.opcode = Opcode(written.hook.unwrap().kind());
            if !matches!(header, HeaderType::PerfInfo32 | HeaderType::PerfInfo64) {
                (record.process_id, record.thread_id) = ids;
            }
            if matches!(header, HeaderType::System32 | HeaderType::System64) {
                record.cpu_times = written.cpu_times;
            }
        }
        _ => {
            *descriptor = EventDescriptor {
                opcode: written.descriptor.opcode,
                level: written.descriptor.level,
                version: written.descriptor.version,
                ..*descriptor
            };
            record.provider = written.provider;
            record.cpu_times = written.cpu_times;
            (record.process_id, record.thread_id) = ids;
        }
    }
    record
}

type Items = Vec<(ExtType, Vec<u8>)>;

fn items(record: &EventRecord<'_>) -> Items {
    record.extended.into_iter().map(|item| (item.ext_type, item.data.to_vec())).collect()
}

#[test]
fn every_field_of_every_header_type() {
    for header in sample::HEADERS {
        let mut file = FileBuilder::new();
        let start = file.header.start_raw;
        let (want, want_items, payload) = sample::with_record(header, |record| {
            record.order_time = start + 77;
            file.push(3, record).unwrap();
            (expected(header, record), items(record), record.payload.to_vec())
        });
        let mut records = Records::new(vec![open(&file.finish()).unwrap()]);
        assert_eq!(records.next().unwrap().hook.map(|hook| hook.0), Some(0));
        let record = records.next().unwrap();
        assert_eq!(record.header, header);
        assert_eq!(record.pointer_size, want.pointer_size, "{header}");
        assert_eq!((record.cpu, record.has_time), (3, true), "{header}");
        assert_eq!(record.flags, want.flags, "{header}");
        assert_eq!(record.property, want.property, "{header}");
        assert_eq!(record.message_flags, want.message_flags, "{header}");
        assert_eq!(record.order_time, want.order_time, "{header}");
        assert_eq!(record.hook, want.hook, "{header}");
        assert_eq!(record.process_id, want.process_id, "{header}");
        assert_eq!(record.thread_id, want.thread_id, "{header}");
        assert_eq!(record.cpu_times, want.cpu_times, "{header}");
        assert_eq!(record.provider, want.provider, "{header}");
        assert_eq!(record.descriptor, want.descriptor, "{header}");
        assert_eq!(record.activity_id, want.activity_id, "{header}");
        assert_eq!(record.sequence, want.sequence, "{header}");
        assert_eq!(record.component_id, want.component_id, "{header}");
        let has_items = header.is_kernel()
            || matches!(header, HeaderType::Event32 | HeaderType::Event64)
            || matches!(header, HeaderType::Instance32 | HeaderType::Instance64);
        assert_eq!(items(&record), if has_items { want_items } else { vec![] }, "{header}");
        assert_eq!(record.payload, payload, "{header}");
        let mut again = Vec::new();
        encode(&record, &mut again).unwrap();
        assert_eq!(again, records.stored_bytes(), "{header}");
        assert!(records.next().is_none());
        assert!(records.damage().is_empty());
    }
}

#[test]
fn a_stored_record_is_parsed_again_over_any_other() {
    let mut file = FileBuilder::new();
    let time = file.header.start_raw + 1;
    for header in sample::HEADERS {
        sample::with_record(header, |record| {
            record.order_time = time;
            file.push(0, record).unwrap();
        });
    }
    let mut records = Records::new(vec![open(&file.finish()).unwrap()]);
    let context = *records.files()[0].record_context();
    let mut stored_records = Vec::new();
    while let Some(stored) = records.next_stored() {
        let mut place = None;
        let record = format!("{:?}", stored.record(&mut place));
        stored_records.push((
            stored.bytes().to_vec(),
            stored.extent(),
            record,
            place.unwrap().position,
        ));
    }
    assert_eq!(stored_records.len(), 1 + sample::HEADERS.len());
    // Each is made in the place of each other one, and nothing of that is left.
    for (before, extent_before, ..) in &stored_records {
        for (bytes, extent, want, position) in &stored_records {
            let mut place = None;
            parse_checked(&mut place, before, *extent_before, &context);
            let record = parse_checked(&mut place, bytes, *extent, &context);
            record.position = *position;
            assert_eq!(format!("{record:?}"), *want);
        }
    }
}

#[test]
fn a_buffer_has_any_number_of_the_shortest_records() {
    // Four times as many as a buffer of this size has room for at first.
    for count in [1, 510, 511, 512, 513, 1024, 1025, 2500] {
        let mut file = FileBuilder::new();
        let start = file.header.start_raw;
        for number in 0..count {
            let mut record = EventRecord::new(HeaderType::PerfInfo64, &[]);
            record.hook = Some(Hook(0x0f2e));
            record.order_time = start + 1 + number;
            file.push(0, &record).unwrap();
        }
        let mut records = Records::new(vec![open(&file.finish()).unwrap()]);
        assert_eq!(records.next().unwrap().hook, Some(Hook(0)));
        for number in 0..count {
            let record = records.next().unwrap();
            assert_eq!((record.order_time, record.hook), (start + 1 + number, Some(Hook(0x0f2e))));
        }
        assert!(records.next().is_none());
        assert!(records.damage().is_empty());
    }
}

#[test]
fn every_combination_of_message_parts() {
    for flags in 0..0x100u16 {
        let payload = [flags as u8; 9];
        let mut file = FileBuilder::new();
        let start = file.header.start_raw;
        let mut record = EventRecord::new(HeaderType::Message, &payload);
        record.message_flags = MessageFlags(flags);
        record.order_time = start + 5;
        record.sequence = Some(1);
        record.component_id = Some(2);
        record.provider = Some(etw_types::Guid::from_u128(3));
        (record.process_id, record.thread_id) = (Some(4), Some(5));
        file.push(0, &record).unwrap();
        let mut records = Records::new(vec![open(&file.finish()).unwrap()]);
        records.next();
        let read = records.next().unwrap();
        let has = |bit: u16| flags & bit != 0;
        assert_eq!(read.sequence, has(1).then_some(1), "{flags:#x}");
        assert_eq!(read.component_id, has(4).then_some(2), "{flags:#x}");
        let guid = etw_types::Guid::from_u128(3);
        assert_eq!(read.provider, (has(2) && !has(4)).then_some(guid), "{flags:#x}");
        assert_eq!(read.has_time, has(8), "{flags:#x}");
        assert_eq!(read.order_time, if has(8) { start + 5 } else { start }, "{flags:#x}");
        assert_eq!(read.process_id.zip(read.thread_id), has(0x20).then_some((4, 5)), "{flags:#x}");
        let pointer_size = if has(0x80) || !has(0x40) { 8 } else { 4 };
        assert_eq!(read.pointer_size, pointer_size, "{flags:#x}");
        assert_eq!(read.payload, payload, "{flags:#x}");
        assert!(records.next().is_none() && records.damage().is_empty());
    }
}

fn check_numbers(outcome: &Outcome, count: u32) {
    assert_eq!(outcome.damage, []);
    assert!(outcome.out_of_order.iter().all(|&count| count == 0));
    assert!(outcome.numbers().into_iter().eq(0..count));
}

#[test]
fn files_of_every_kind() {
    check_numbers(&read(&numbered(0x1000, 1, 500)), 500);
    check_numbers(&read(&numbered(0x1000, 7, 500)), 500);
    check_numbers(&read(&numbered(0x400, 2047, 3000)), 3000);
    let compressed = read(&numbered_compressed(0x1000, 5, 2000));
    check_numbers(&compressed, 2000);
    assert!(compressed.totals.compressed_buffers > 30);
    for (compress, pointer_size) in [(false, 4), (true, 4), (false, 8), (true, 8)] {
        let mut file = builder(0x2000);
        file.finalised = false;
        file.compressed = compress;
        file.header.logfile.pointer_size = pointer_size;
        push_numbered(&mut file, 3, 700);
        let bytes = file.finish();
        check_numbers(&read(&bytes), 700);
        let file = open(&bytes).unwrap();
        assert!(!file.is_finalised());
        assert_eq!(file.header().unwrap().pointer_size, pointer_size);
        assert_eq!(u32::from(file.record_context().pointer_size), pointer_size);
    }
}

#[test]
fn the_logfile_header_comes_back() {
    for pointer_size in [4, 8] {
        let mut file = FileBuilder::new();
        let header = &mut file.header.logfile;
        header.pointer_size = pointer_size;
        header.logger_name = "名前 name".repeat(100);
        header.log_file_name = "C:\\".to_owned() + &"a".repeat(1020);
        header.time_zone = std::array::from_fn(|at| at as u8);
        (header.events_lost, header.buffers_lost) = (3, 4);
        push_numbered(&mut file, 1, 10);
        let mut want = file.header.logfile.clone();
        let bytes = file.finish();
        let got = open(&bytes).unwrap();
        let got = got.header().unwrap();
        (want.end_time, want.buffers_written) = (got.end_time, 2);
        assert_eq!(*got, want);
        assert_eq!(got.end_time.0, got.start_time.0 + 100);
        check_numbers(&read(&bytes), 10);
    }
}

#[test]
fn parts_of_a_newfile_series() {
    let mut sequence = 0;
    let parts = (0..4u32).map(|part| {
        let mut file = builder(0x1000);
        file.header.logfile.log_file_mode = LogFileMode(0x9);
        file.header.start_raw += i64::from(part) * 1000;
        file.header.logfile.start_time.0 += i64::from(part) * 1000;
        file.header.logfile.log_file_name = format!("part{}.etl", part + 1);
        let start = FileBuilder::new().header.start_raw;
        for number in part * 100..(part + 1) * 100 {
            crate::support::event(number, start, |record| file.push(number as u16 % 3, record))
                .unwrap();
        }
        // Sequence numbers go on from file to file.
        for cpu in 0..3 {
            sequence += 1;
            file.buffer(cpu).header.sequence_number = sequence;
        }
        open(&file.finish()).unwrap()
    });
    let parts: Vec<TraceFile> = parts.collect();
    for threads in [0, 1] {
        check_numbers(&read_files(parts.clone(), options(threads)), 400);
        let reversed = parts.iter().rev().cloned().collect();
        check_numbers(&read_files(reversed, options(threads)), 400);
    }
}

#[test]
fn a_circular_file_that_wrapped() {
    let mut file = builder(0x400);
    file.header.logfile.log_file_mode = LogFileMode::CIRCULAR;
    push_numbered(&mut file, 2, 100);
    let mut buffers = file.finish_buffers();
    let count = buffers.len() - 1;
    // As if the session had gone once round and then as far as the middle.
    buffers.drain(1..4);
    buffers[1..].rotate_left(count / 2);
    let outcome = read(&buffers.concat());
    assert!(outcome.totals.wrapped);
    assert_eq!(outcome.damage, []);
    let numbers = outcome.numbers();
    assert!(numbers.is_sorted() && numbers.len() > 60 && numbers.last() == Some(&99));
}

#[test]
fn a_record_of_the_largest_size() {
    for compressed in [false, true] {
        let payload = vec![0xa5; 0xffff - 0x50];
        let mut file = builder(0x20000);
        file.compressed = compressed;
        let mut record = EventRecord::new(HeaderType::Event64, &payload);
        record.order_time = file.header.start_raw + 1;
        file.push(0, &record).unwrap();
        let too_large = vec![0; 0xffff - 0x4f];
        let mut larger = record;
        larger.payload = &too_large;
        let error = file.push(0, &larger).unwrap_err();
        assert_eq!(error, write::EncodeError::TooLarge { size: 0x10000 });
        let outcome = read(&file.finish());
        assert_eq!(outcome.damage, []);
        assert_eq!(outcome.rows[1].payload, payload);
    }
}

#[test]
fn records_of_real_files_are_rewritten_byte_for_byte() {
    let mut bytes = Vec::new();
    for path in corpus::files() {
        let mut records = Records::new(vec![TraceFile::open(&path).unwrap()]);
        while let Some(record) = records.next() {
            bytes.clear();
            encode(&record, &mut bytes).unwrap();
            let position = record.position;
            assert!(
                bytes == records.stored_bytes(),
                "{}, {position:?}:\n{bytes:02x?}\nis stored as\n{:02x?}",
                path.display(),
                records.stored_bytes()
            );
        }
    }
}

#[test]
fn a_real_file_survives_the_builder() {
    for path in corpus::files() {
        if path.metadata().unwrap().len() > 2 << 20 {
            continue;
        }
        let original = TraceFile::open(&path).unwrap();
        let header = original.header().unwrap().clone();
        for compressed in [false, true] {
            let mut file = FileBuilder::new();
            file.compressed = compressed;
            file.header.start_raw = original.clock().raw_start;
            file.header.logfile =
                LogfileHeader { log_file_mode: LogFileMode::SEQUENTIAL, ..header.clone() };
            let mut stored = Vec::new();
            let mut records = Records::new(vec![original.clone()]);
            records.next();
            while let Some(record) = records.next() {
                file.push(record.cpu, &record).unwrap();
                stored.push(records.stored_bytes().to_vec());
            }
            let outcome = read(&file.finish());
            assert_eq!(outcome.damage, [], "{}", path.display());
            let mut rewritten: Vec<_> =
                outcome.rows.into_iter().skip(1).map(|row| row.stored).collect();
            rewritten.sort();
            stored.sort();
            assert!(rewritten == stored, "{}", path.display());
        }
    }
}
