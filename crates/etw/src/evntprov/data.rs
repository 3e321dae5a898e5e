//! The pieces of an event's data.

/// Data descriptors that an event may have.
#[doc(alias = "MAX_EVENT_DATA_DESCRIPTORS")]
pub const MAX_DATA_DESCRIPTORS: usize = 128;

/// A piece of an event's data.
#[doc(alias = "EVENT_DATA_DESCRIPTOR")]
#[derive(Clone, Copy, Debug)]
pub struct EventDataDescriptor<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// What they are: [`USER_DATA`](Self::USER_DATA), …. Looked at only for registrations with traits or with
    /// `EventProviderUseDescriptorType`.
    pub kind: u8,
}

impl<'a> EventDataDescriptor<'a> {
    /// Payload.
    pub const USER_DATA: u8 = 0;
    /// TraceLogging metadata of the event.
    pub const EVENT_METADATA: u8 = 1;
    /// Traits of the provider.
    pub const PROVIDER_METADATA: u8 = 2;
    /// Eight bytes that are shown in place of the time of the write, in the session's clock.
    pub const TIMESTAMP_OVERRIDE: u8 = 3;

    /// A piece of payload.
    #[doc(alias = "EventDataDescCreate")]
    pub const fn new(data: &'a [u8]) -> EventDataDescriptor<'a> {
        EventDataDescriptor { data, kind: EventDataDescriptor::USER_DATA }
    }

    /// A piece of another kind.
    pub const fn of_kind(data: &'a [u8], kind: u8) -> EventDataDescriptor<'a> {
        EventDataDescriptor { data, kind }
    }
}
