//! OV-22: result sets and subscriptions.

use etw_eventlog::result_set::{Origin, ResultSet, SeekError, Source};
use etw_eventlog::stored_record::StoredRecord;
use etw_eventlog::subscription::{Start, SubscribeError, Subscription, Watch};
use etw_evtx::Log;
use etw_evtx::bookmark::BookmarkList;
use etw_evtx::query::Selector;
use etw_evtx::tree::{Argument, Fragment, Instance, Node, Template};
use etw_evtx::value::{Value, ValueType};
use etw_evtx::write::{LogWriter, Retention};
use etw_types::{FileTime, Guid};
use std::path::PathBuf;
use std::sync::Arc;

const NOW: FileTime = FileTime(133_000_000_100_000_000);

fn path(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    path
}

/// Appends records that have their number as EventID and EventRecordID, a second apart.
fn append(writer: &mut LogWriter, numbers: impl Iterator<Item = u64>) {
    let element = |name: &str, children| Node::element(name, vec![], children);
    let value = |index| vec![Node::value(index, ValueType::UINT64)];
    let system = vec![element("EventID", value(0)), element("EventRecordID", value(1))];
    let event = vec![element("Event", vec![element("System", system)])];
    let template = Arc::new(Template::new(Guid::from_name("reading"), event));
    for number in numbers {
        let (number_bytes, id) = (number.to_le_bytes(), writer.next_id().to_le_bytes());
        let value_type = ValueType::UINT64;
        let values = [&number_bytes[..], &id];
        let arguments = values.map(|bytes| Argument::Value(Value { value_type, bytes }));
        let template = template.clone();
        let record = Instance { template, arguments: arguments.into(), has_header: true };
        let time = FileTime(133_000_000_000_000_000 + number as i64 * 10_000_000);
        writer.push(time, &Fragment::Instance(record)).unwrap();
    }
}

fn open(path: &PathBuf) -> LogWriter {
    LogWriter::open(path, 4096 + 8 * 65536, Retention::Overwrite).unwrap()
}

fn event_id(record: &StoredRecord) -> u64 {
    u64::from(record.with(|record| record.system().event_id()).unwrap().unwrap())
}

fn bookmark(channel: &str, record_id: u64) -> BookmarkList {
    let mut list = BookmarkList::default();
    list.update(channel, record_id);
    list
}

/// OV-22
#[test]
fn a_result_of_several_logs_is_in_order_of_time_and_seeks_in_both_directions() {
    let (odd, even) = (path("result_odd.evtx"), path("result_even.evtx"));
    append(&mut open(&odd), (0..500).map(|n| 2 * n + 1));
    append(&mut open(&even), (1..=500).map(|n| 2 * n));
    let query = "*[System[EventID > 10 and EventID <= 900]]";
    let sources = || {
        let source = |(name, path): (&str, &PathBuf)| Source {
            name: name.to_owned(),
            log: Log::open(path).unwrap(),
            selector: Selector::query(query.parse().unwrap(), NOW),
        };
        [("odd", &odd), ("even", &even)].map(source).into()
    };
    let all = |set: &mut ResultSet| {
        let mut ids = Vec::new();
        while let Some(record) = set.next().unwrap() {
            assert_eq!(record.source(), if event_id(&record) % 2 == 1 { "odd" } else { "even" });
            ids.push(event_id(&record));
        }
        ids
    };
    let mut set = ResultSet::new(sources(), false);
    assert_eq!(all(&mut set), (11..=900).collect::<Vec<_>>());
    let next = |set: &mut ResultSet| set.next().unwrap().map(|record| event_id(&record));
    set.seek(&Origin::First, 3).unwrap();
    assert_eq!(next(&mut set), Some(14));
    set.seek(&Origin::Current, -2).unwrap();
    assert_eq!(next(&mut set), Some(13));
    set.seek(&Origin::Last, 0).unwrap();
    assert_eq!(next(&mut set), Some(900));
    assert_eq!(set.seek(&Origin::Last, 2), Err(SeekError::OutOfRange));
    // The hundredth record of the log of odd numbers is 199.
    let at = |is_strict| Origin::Bookmark { list: bookmark("odd", 100), is_strict };
    set.seek(&at(true), 1).unwrap();
    assert_eq!(next(&mut set), Some(200));
    // Record 2 has the number 3, which the query does not select.
    let gone = |is_strict| Origin::Bookmark { list: bookmark("odd", 2), is_strict };
    assert_eq!(set.seek(&gone(true), 0), Err(SeekError::NoBookmark));
    set.seek(&gone(false), 0).unwrap();
    assert_eq!(next(&mut set), Some(11));
    let mut reverse = ResultSet::new(sources(), true);
    assert_eq!(all(&mut reverse), (11..=900).rev().collect::<Vec<_>>());
    reverse.seek(&at(true), 1).unwrap();
    assert_eq!(next(&mut reverse), Some(198));
}

/// OV-22: subscriptions to future records, from the oldest one, and behind a bookmark.
#[test]
fn subscriptions_return_each_record_once_from_where_they_start() {
    let path = path("subscription.evtx");
    let subscribe = |start: &Start| {
        let query = "*[System[EventID != 13]]".parse().unwrap();
        let selector = Selector::query(query, NOW);
        let watch = Watch { name: "Shop".to_owned(), path: path.clone(), selector };
        Subscription::new(vec![watch], start)
    };
    let poll = |subscription: &mut Subscription| -> Vec<u64> {
        subscription.poll().unwrap().iter().map(event_id).collect()
    };
    // Before the log exists.
    let mut early = subscribe(&Start::Future).unwrap();
    assert!(poll(&mut early).is_empty());
    let mut writer = open(&path);
    append(&mut writer, 1..=10);
    assert_eq!(poll(&mut early), (1..=10).collect::<Vec<_>>());
    let mut future = subscribe(&Start::Future).unwrap();
    let mut oldest = subscribe(&Start::Oldest).unwrap();
    let after = |id, is_strict| Start::After { list: bookmark("Shop", id), is_strict };
    let mut behind = subscribe(&after(7, true)).unwrap();
    assert!(poll(&mut future).is_empty());
    assert_eq!(poll(&mut behind), [8, 9, 10]);
    append(&mut writer, 11..=15);
    for subscription in [&mut early, &mut future, &mut behind] {
        assert_eq!(poll(subscription), [11, 12, 14, 15]);
        assert!(poll(subscription).is_empty());
    }
    assert!(future.take_gaps().is_empty());
    // The log wraps: its oldest records are lost, the others come once. A subscriber that had read the last one before learns which are missing.
    append(&mut writer, 16..=9000);
    let seen = poll(&mut future);
    let lost = future.take_gaps();
    assert_eq!((lost.len(), &*lost[0].name), (1, "Shop"));
    assert_eq!(lost[0].records, 16..=seen[0] - 1);
    assert!(future.take_gaps().is_empty());
    assert_eq!(seen.last(), Some(&9000));
    assert!(seen.windows(2).all(|pair| pair[0] + 1 == pair[1]) && seen[0] > 16, "{}", seen[0]);
    assert_eq!(poll(&mut oldest), seen);
    assert!(oldest.take_gaps().is_empty());
    let stale = subscribe(&after(8, true)).unwrap_err();
    assert!(matches!(stale, SubscribeError::Stale { record_id: 8, .. }), "{stale}");
    assert_eq!(poll(&mut subscribe(&after(8, false)).unwrap()), seen);
}
