//! The number of events in a buffer.

use etw_etl::read::{BufferRecords, Item, buffer};
use etw_etl::record::RecordContext;
use etw_types::is_session_report;

/// Number of events in a session's buffer, without those of the session's own reports.
pub fn count_events(bytes: &[u8]) -> u64 {
    let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let Ok((_, records)) = buffer::open(bytes, size) else { return 0 };
    let context = RecordContext::default();
    let items = BufferRecords::new(&records, &context);
    let is_event = |item: &Item<'_>| match item {
        Item::Record { record, .. } => !is_session_report(record),
        _ => false,
    };
    items.filter(is_event).count() as u64
}
