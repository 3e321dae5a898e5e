//! Fuzz targets of `etw-evtx`.

use etw_evtx::Log;
use etw_evtx::chunk::{Chunk, Options};
use etw_evtx::evt::EvtLog;
use etw_evtx::query::{Query, QueryList, Selector};
use etw_types::FileTime;

/// A chunk's records, which may be short of 65536 bytes; the first byte chooses the options.
pub fn evtx_chunk(data: &[u8]) {
    let Some((first, bytes)) = data.split_first() else { return };
    let options = Options {
        is_dirty: first & 1 != 0,
        without_checksums: first & 2 != 0,
        stale: first & 4 != 0,
        is_complete: first & 8 != 0,
    };
    let chunk = || Chunk::new(bytes.to_vec(), 4096, options);
    same_json(chunk(), chunk());
    show(chunk());
    let query = "*[System[EventID=17 and Provider[@Name!='x'] and band(Keywords,1)!=5]]";
    let query: Query = query.parse().expect("a query");
    let selector = Selector::query(query, FileTime(133_000_000_000_000_000));
    let mut chunk = chunk();
    while let Some(record) = chunk.next_candidate(&selector) {
        let _ = selector.matches(&record);
    }
}

/// A whole log.
pub fn evtx_log(data: &[u8]) {
    let Ok(log) = Log::from_bytes(data.to_vec()) else { return };
    let mut again = Chunk::default();
    for location in log.chunks() {
        if let Ok(chunk) = log.chunk(location) {
            show(chunk);
        }
        // The chunks before have taught the log their templates.
        if let (Ok(chunk), Ok(())) = (log.chunk(location), log.load(location, &mut again)) {
            same_json(chunk, std::mem::take(&mut again));
        }
    }
    let mut records = log.records();
    while let Ok(Some(_)) = records.next() {}
}

/// A whole log of Windows XP.
pub fn evt_log(data: &[u8]) {
    let Ok(log) = EvtLog::from_bytes(data.to_vec()) else { return };
    let mut count = 0;
    let read = log.for_each(|record| {
        count += 1;
        record.to_xml().and(record.to_json()).map(drop)
    });
    assert!(read.is_err() || count == log.len());
    let _ = (log.is_dirty(), log.damage().len());
}

/// A query or a query list.
pub fn evtx_query(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match text.parse::<Query>() {
        Ok(query) => assert!(text.parse::<Query>().is_ok_and(|again| again == query)),
        Err(error) => assert!(error.column() <= text.chars().count() + 1),
    }
    let _ = QueryList::parse(text);
}

/// The JSON of each record of one chunk by itself and all at once, and the same damage.
fn same_json(mut one: Chunk, mut all: Chunk) {
    let mut out = Vec::new();
    while let Some(record) = one.next() {
        out.clear();
        let head = all.next_json(&mut out).expect("the same record");
        match (record.to_json(), head) {
            (Ok(text), Ok(head)) => {
                assert_eq!(out, text.as_bytes());
                let expected = (record.id(), record.time(), record.offset());
                assert_eq!((head.id, head.time, head.offset), expected);
            }
            (text, head) => assert!(text.is_err() && head.is_err() && out.is_empty()),
        }
    }
    assert!(all.next_json(&mut out).is_none());
    assert_eq!(one.take_damage(), all.take_damage());
}

fn show(mut chunk: Chunk) {
    while let Some(record) = chunk.next() {
        let (xml, json) = (record.to_xml(), record.to_json());
        assert_eq!(xml.is_err(), json.is_err());
        let system = record.system();
        let _ = (system.event_id(), system.time(), system.user(), record.data().len());
    }
    for damage in chunk.take_damage() {
        let _ = damage.to_string();
    }
}
