//! Logs that this crate writes: wraps, refusals, crashes.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use etw_evtx::tree::{Argument, Fragment, Instance, Node, Template};
use etw_evtx::value::{Value, ValueType};
use etw_evtx::write::{LogWriter, Retention};
use etw_evtx::{Error, Log};
use etw_types::{FileTime, Guid};

fn path(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("{name}.evtx"));
    let _ = fs::remove_file(&path);
    path
}

fn template() -> Arc<Template> {
    let data = |name: &str, index, value_type| {
        Node::element(
            "Data",
            vec![("Name", Node::text(name))],
            vec![Node::value(index, value_type)],
        )
    };
    let values = vec![data("Number", 0, ValueType::UINT64), data("Text", 1, ValueType::STRING)];
    let event = Node::element("EventData", vec![], values);
    Arc::new(Template::new(Guid::from_name("log_writer"), vec![event]))
}

fn push(writer: &mut LogWriter, template: &Arc<Template>, number: u64) -> Result<u64, Error> {
    let text: Vec<u8> =
        format!("the text of {number} & more").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let number = number.to_le_bytes();
    let values = [(ValueType::UINT64, &number[..]), (ValueType::STRING, &text)];
    let arguments = values.map(|(value_type, bytes)| Argument::Value(Value { value_type, bytes }));
    let fragment = Fragment::Instance(Instance {
        template: template.clone(),
        arguments: arguments.into(),
        has_header: true,
    });
    writer.push(FileTime(number_time(u64::from_le_bytes(number))), &fragment)
}

fn number_time(number: u64) -> i64 {
    133_000_000_000_000_000 + number as i64
}

/// Every record of a log, each checked: its ids.
fn ids(path: &PathBuf) -> Vec<u64> {
    let log = Log::open(path).unwrap();
    let mut records = log.records();
    let mut ids = Vec::new();
    while let Some(record) = records.next().unwrap() {
        let number = record.id();
        assert_eq!(
            record.to_xml().unwrap(),
            format!(
                "<EventData><Data Name='Number'>{number}</Data>\
                 <Data Name='Text'>the text of {number} &amp; more</Data></EventData>"
            )
        );
        assert_eq!(record.time(), FileTime(number_time(number)));
        ids.push(number);
    }
    assert_eq!(records.damage(), []);
    ids
}

#[test]
fn a_log_that_wraps_keeps_its_newest_records() {
    let (path, template) = (path("wraps"), template());
    let mut writer = LogWriter::open(&path, 4096 + 3 * 65536, Retention::Overwrite).unwrap();
    for number in 1..=3000 {
        assert_eq!(push(&mut writer, &template, number).unwrap(), number);
    }
    let overwritten = writer.overwritten();
    writer.close().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 4096 + 3 * 65536);
    let ids = ids(&path);
    assert_eq!(ids, (overwritten + 1..=3000).collect::<Vec<_>>());
    assert!(overwritten > 0 && ids.len() > 600, "{} kept", ids.len());
    // A range of ids reads the chunks that hold it.
    let log = Log::open(&path).unwrap();
    let mut records = log.records_in(2990..=2995);
    let mut found = Vec::new();
    while let Some(record) = records.next().unwrap() {
        found.push(record.id());
    }
    assert!((2990..=2995).all(|id| found.contains(&id)));
    assert!(found.len() < ids.len() / 2);
}

#[test]
fn a_log_that_keeps_its_oldest_refuses_new_records_and_says_so() {
    let (path, template) = (path("keeps"), template());
    let mut writer = LogWriter::open(&path, 4096 + 2 * 65536, Retention::Keep).unwrap();
    let mut count = 0;
    let refused = loop {
        match push(&mut writer, &template, count + 1) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::Full));
    writer.close().unwrap();
    assert_eq!(ids(&path), (1..=count).collect::<Vec<_>>());
    assert!(Log::open(&path).unwrap().is_full());
}

/// The file as it is at any moment between two writes of a record is a sound log, and is taken up again.
#[test]
fn a_log_that_was_not_closed_is_read_and_continued() {
    let (path, template) = (path("crash"), template());
    for round in 0..20u64 {
        let mut writer = LogWriter::open(&path, 4096 + 3 * 65536, Retention::Overwrite).unwrap();
        let first = writer.next_id();
        assert_eq!(first, round * 137 + 1);
        for number in first..first + 137 {
            push(&mut writer, &template, number).unwrap();
        }
        // Neither closed nor dropped in any way that would write.
        std::mem::forget(writer);
        let ids = ids(&path);
        assert_eq!(ids.last(), Some(&((round + 1) * 137)));
        assert!(ids.windows(2).all(|pair| pair[0] + 1 == pair[1]));
        assert!(Log::open(&path).unwrap().is_dirty());
    }
}

/// A crash may leave any prefix of the writes of one record: the records before it are all there.
#[test]
fn a_record_that_was_written_in_part_costs_nothing_before_it() {
    let (path, template) = (path("torn"), template());
    let mut writer = LogWriter::open(&path, 4096 + 65536, Retention::Overwrite).unwrap();
    for number in 1..=10 {
        push(&mut writer, &template, number).unwrap();
    }
    let before = fs::read(&path).unwrap();
    push(&mut writer, &template, 11).unwrap();
    let after = fs::read(&path).unwrap();
    std::mem::forget(writer);
    let changed = (0..before.len()).filter(|at| before[*at] != after[*at]).collect::<Vec<_>>();
    let (tables, record): (Vec<_>, Vec<_>) = changed.into_iter().partition(|at| *at < 4096 + 512);
    let mut torn = before;
    for at in record.into_iter().chain(tables) {
        torn[at] = after[at];
        fs::write(&path, &torn).unwrap();
        let log = Log::open(&path).unwrap();
        let mut records = log.records();
        let mut last = 0;
        while let Some(record) = records.next().unwrap() {
            assert_eq!(record.id(), last + 1);
            last += 1;
        }
        assert!(last >= 10, "{last} at {at:#x}");
    }
    assert_eq!(ids(&path).len(), 11);
}

/// OV-22: the header of a log that was not closed counts its chunks, for readers that look no further.
#[test]
fn the_header_of_an_open_log_counts_its_chunks() {
    let (path, template) = (path("open_header"), template());
    let mut writer = LogWriter::open(&path, 4096 + 4 * 65536, Retention::Overwrite).unwrap();
    let mut number = 0;
    for chunks in [2, 3, 4, 4] {
        for _ in 0..1000 {
            number += 1;
            push(&mut writer, &template, number).unwrap();
        }
        let log = Log::open(&path).unwrap();
        assert!(log.is_dirty() && log.chunks().len() >= chunks, "{}", log.chunks().len());
        assert_eq!(usize::from(log.header().chunk_count), log.chunks().len());
    }
    std::mem::forget(writer);
}
