//! The record that an event becomes on disk.

use etw_types::{EventFlags, EventHeader, EventProperty, ExtendedItems};

use crate::classic;
use crate::event::Event;

/// The stored flags. Only here it is known whether items follow.
#[inline(always)]
pub(crate) fn stored_flags(flags: u16, has_items: bool) -> EventFlags {
    EventFlags(flags).without(EventFlags::EXTENDED_INFO) | EventFlags::EXTENDED_INFO.when(has_items)
}

impl Event<'_> {
    /// Writes the record to the front of `out`, which has at least [`size`](Event::size) rounded up to eight bytes. `time` is in the
    /// session's clock.
    pub(crate) fn encode(&self, time: i64, extra: &[&[u8]], size: usize, out: &mut [u8]) {
        if let Some(classic) = self.classic {
            etw_types::cold_path();
            return classic::encode(self, time, classic, out);
        }
        let has_items = !self.chain.is_empty() || !extra.is_empty();
        let Some((head, rest)) = out.split_first_chunk_mut::<{ EventHeader::SIZE }>() else {
            return;
        };
        let header = EventHeader {
            size: size as u16,
            flags: stored_flags(self.flags, has_items),
            property: EventProperty(self.property),
            thread_id: self.thread_id,
            process_id: self.process_id,
            time_stamp: time,
            provider: self.provider,
            descriptor: self.descriptor,
            activity_id: self.activity_id,
            ..EventHeader::default()
        };
        *head = header.to_bytes();
        // The memory ends at a multiple of eight. Its last word is zeroed first, so that the padding is zero.
        if let Some(last) = rest.last_chunk_mut::<8>() {
            *last = [0; 8];
        }
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            rest[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(self.chain);
        for item in extra {
            put(item);
        }
        put(self.payload);
        if !extra.is_empty() {
            ExtendedItems::link(&mut out[EventHeader::SIZE..size - self.payload.len()]);
        }
    }
}
