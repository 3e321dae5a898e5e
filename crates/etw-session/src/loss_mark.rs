//! The record that stands in a stream where events are missing: RT_LostEvent, as in Windows' live traces.

use etw_types::{Classic, ClassicHeader, EventClass, EventHeader, HeaderType, LOST_EVENT};

use crate::classic;
use crate::event::Event;

/// Bytes of a mark: a classic event without fields.
pub const LOSS_MARK_SIZE: usize = 0x30;

/// The losses that a mark stands for; as a number, the type of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LossMark {
    /// One or more events.
    Events = 32,
    /// One or more buffers.
    Buffers = 33,
}

impl LossMark {
    pub(crate) fn is_of_buffers(self) -> bool {
        self == LossMark::Buffers
    }

    /// The record, at a time of the session's clock: that of the first event that is missing.
    pub fn record(self, time: i64) -> [u8; LOSS_MARK_SIZE] {
        let class = EventClass { guid: LOST_EVENT, kind: self as u8, ..EventClass::default() };
        let header = Classic { header: ClassicHeader::Trace(class), is_32_bit: false };
        let mut record = [0; LOSS_MARK_SIZE];
        classic::encode(
            &Event { classic: Some(&header), ..Event::default() },
            time,
            &header,
            &mut record,
        );
        record
    }
}

/// Whether an event is a mark: one of the system's events that were lost before they came to the session.
pub(crate) fn is_mark(event: &Event<'_>) -> bool {
    event.classic.is_some_and(|classic| match &classic.header {
        ClassicHeader::Trace(class) => class.guid == LOST_EVENT,
        _ => false,
    })
}

/// Whether a stored record is a mark.
pub(crate) fn is_mark_record(record: &[u8]) -> bool {
    record.get(2..4) == Some(&[HeaderType::Full64.number(), HeaderType::MARKER][..])
        && EventHeader::PROVIDER.get(record) == Some(LOST_EVENT)
}
