//! What a caller asks of the ring for one event, and why it may be refused.

/// One event, as far as the ring has to know it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// Sessions that want it: a bit for each session slot.
    pub sessions: u8,
    /// The caller's kind of record.
    pub kind: u8,
    /// The registration it was written through; the host looks provider and process up by it.
    pub registration: u32,
    /// Its static metadata in the site table, 0 when the metadata travels in the record.
    pub site: u32,
    /// A word of the caller's.
    pub user: u32,
    /// Bytes of inline metadata at the start of the payload.
    pub metadata_size: u16,
    /// Most bytes that will be put, inline metadata included.
    pub payload_size: u32,
    /// The event's size on disk: header, extended items, payload, without what a session adds.
    pub event_size: u32,
}

/// Why a write is not in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// No session of the mask is open: nothing to do (status 0).
    NotWanted,
    /// This process is a child of the one that attached, or the pool was detached: attach anew.
    Detached,
    /// `ERROR_NOT_ENOUGH_MEMORY`, 8: a session is full, or no chunk is free.
    NotEnoughMemory,
    /// `ERROR_MORE_DATA`, 234: larger than a session's buffer.
    MoreData,
    /// `ERROR_ARITHMETIC_OVERFLOW`, 534: larger than an ETW event can be.
    ArithmeticOverflow,
    /// More was put than reserved, or the reservation was dropped.
    Abandoned,
}

impl Refused {
    /// The Win32 status that ETW's write functions return for it.
    pub fn status(self) -> u32 {
        match self {
            Refused::NotWanted | Refused::Detached => 0,
            Refused::NotEnoughMemory => 8,
            Refused::MoreData => 234,
            Refused::ArithmeticOverflow | Refused::Abandoned => 534,
        }
    }
}
