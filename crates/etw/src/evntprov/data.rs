//! The pieces of an event's data.

/// The number of data descriptors that an event can have.
#[doc(alias = "MAX_EVENT_DATA_DESCRIPTORS")]
pub const MAX_DATA_DESCRIPTORS: usize = 128;

/// A piece of an event's data.
#[doc(alias = "EVENT_DATA_DESCRIPTOR")]
#[derive(Clone, Copy, Debug)]
pub struct EventDataDescriptor<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// The type of the bytes: [`USER_DATA`](Self::USER_DATA), …. Ignored unless the registration has traits or
    /// [`EventInfoClass::UseDescriptorType`](super::EventInfoClass::UseDescriptorType).
    pub kind: u8,
}

impl<'a> EventDataDescriptor<'a> {
    /// Payload.
    pub const USER_DATA: u8 = 0;
    /// TraceLogging metadata of the event.
    pub const EVENT_METADATA: u8 = 1;
    /// Traits of the provider.
    pub const PROVIDER_METADATA: u8 = 2;
    /// Eight bytes: a time in the session's clock, recorded in place of the time of the write.
    pub const TIMESTAMP_OVERRIDE: u8 = 3;

    /// A piece of payload.
    #[doc(alias = "EventDataDescCreate")]
    pub const fn new(data: &'a [u8]) -> EventDataDescriptor<'a> {
        EventDataDescriptor { data, kind: EventDataDescriptor::USER_DATA }
    }

    /// A piece of the given type.
    pub const fn of_kind(data: &'a [u8], kind: u8) -> EventDataDescriptor<'a> {
        EventDataDescriptor { data, kind }
    }
}
