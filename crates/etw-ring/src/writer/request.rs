//! A caller's request for one event, and the reasons to refuse it.

/// A request to write one event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// The sessions that want the event: a bit for each session slot.
    pub sessions: u8,
    /// The parts of the record's [prefix](crate::prefix).
    pub kind: u8,
    /// The registration, by which the host finds provider and process.
    pub registration: u32,
    /// The id of the event's static metadata in the site table; 0 if the metadata travels in the record.
    pub site: u32,
    /// A word of the caller, which the record carries.
    pub user: u32,
    /// The size of the prefix at the start of the payload.
    pub metadata_size: u16,
    /// The largest size of the payload, prefix included.
    pub payload_size: u32,
    /// The event's size on disk: header, extended items, payload, without what a session adds.
    pub event_size: u32,
}

/// The reason why a write was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// No session of the mask is open: status 0.
    NotWanted,
    /// This process is a child of the one that attached, or the pool is closed: attach anew. Status 0.
    Detached,
    /// A session is full, or no chunk is free: `ERROR_NOT_ENOUGH_MEMORY`, 8.
    NotEnoughMemory,
    /// The event is larger than a session's buffer: `ERROR_MORE_DATA`, 234.
    MoreData,
    /// The event is larger than an ETW event can be: `ERROR_ARITHMETIC_OVERFLOW`, 534.
    ArithmeticOverflow,
    /// The caller put more than it had reserved, or dropped the reservation: status 534.
    Abandoned,
}

impl Refused {
    /// The Win32 status that ETW's write functions return in this case.
    pub fn status(self) -> u32 {
        match self {
            Refused::NotWanted | Refused::Detached => 0,
            Refused::NotEnoughMemory => 8,
            Refused::MoreData => 234,
            Refused::ArithmeticOverflow | Refused::Abandoned => 534,
        }
    }
}
