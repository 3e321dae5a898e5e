//! Types of the StorPort functions.

use etw::{Guid, Keyword};

/// The status that the functions return.
#[doc(alias = "STOR_STATUS")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StorStatus(pub u32);

impl StorStatus {
    /// The event was written, or no session enabled it.
    pub const SUCCESS: StorStatus = StorStatus(0);
    /// A session enabled the event, and it could not be written.
    pub const UNSUCCESSFUL: StorStatus = StorStatus(0xc100_0001);
    /// A parameter is invalid.
    pub const INVALID_PARAMETER: StorStatus = StorStatus(0xc100_0006);
}

/// The channel of an event.
#[doc(alias = "STORPORT_ETW_EVENT_CHANNEL")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventChannel(pub u32);

impl EventChannel {
    /// For the diagnosis of faults.
    pub const DIAGNOSTIC: EventChannel = EventChannel(0);
    /// For administrators.
    pub const OPERATIONAL: EventChannel = EventChannel(1);
    /// For the health of the device.
    pub const HEALTH: EventChannel = EventChannel(2);
}

/// The severity of an event.
#[doc(alias = "STORPORT_ETW_LEVEL")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventLevel(pub u32);

impl EventLevel {
    /// Logged whatever levels and keywords sessions ask for. Such events have no keywords.
    pub const LOG_ALWAYS: EventLevel = EventLevel(0);
    /// Critical.
    pub const CRITICAL: EventLevel = EventLevel(1);
    /// Error.
    pub const ERROR: EventLevel = EventLevel(2);
    /// Warning.
    pub const WARNING: EventLevel = EventLevel(3);
    /// Informational.
    pub const INFORMATIONAL: EventLevel = EventLevel(4);
    /// Verbose.
    pub const VERBOSE: EventLevel = EventLevel(5);
}

/// The kind of point that an event marks.
#[doc(alias = "STORPORT_ETW_EVENT_OPCODE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventOpcode(pub u32);

impl EventOpcode {
    /// A general event.
    pub const INFO: EventOpcode = EventOpcode(0);
    /// Something begins.
    pub const START: EventOpcode = EventOpcode(1);
    /// Something ends.
    pub const STOP: EventOpcode = EventOpcode(2);
    /// State at the beginning of a collection.
    pub const DC_START: EventOpcode = EventOpcode(3);
    /// State at its end.
    pub const DC_STOP: EventOpcode = EventOpcode(4);
    /// An extension.
    pub const EXTENSION: EventOpcode = EventOpcode(5);
    /// A reply.
    pub const REPLY: EventOpcode = EventOpcode(6);
    /// Continues after a suspension.
    pub const RESUME: EventOpcode = EventOpcode(7);
    /// Waits for something else.
    pub const SUSPEND: EventOpcode = EventOpcode(8);
    /// Handed to another component.
    pub const SEND: EventOpcode = EventOpcode(9);
    /// Received from another component.
    pub const RECEIVE: EventOpcode = EventOpcode(240);
}

/// The caller's keywords.
#[doc(alias = "STORPORT_ETW_EVENT_KEYWORD")]
pub mod keyword {
    use super::Keyword;

    /// I/O of the device.
    pub const IO: Keyword = Keyword(1);
    /// Performance.
    pub const PERFORMANCE: Keyword = Keyword(2);
    /// Power.
    pub const POWER: Keyword = Keyword(4);
    /// Enumeration.
    pub const ENUMERATION: Keyword = Keyword(8);
    /// Traces of commands.
    pub const COMMAND_TRACE: Keyword = Keyword(0x10);
}

/// An adapter, as its events describe it.
#[doc(alias = "HwDeviceExtension")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// The port's number.
    pub port_number: u32,
    /// Name of the driver or program.
    pub miniport_name: String,
    /// The adapter's GUID; zero where there is none.
    pub adapter: Guid,
    /// Vendor, for events of a unit.
    pub vendor: String,
    /// Product, for events of a unit.
    pub product: String,
    /// Serial number, for events of a unit.
    pub serial_number: String,
    /// Is the system started from it?
    pub is_boot_device: bool,
}

impl Device {
    /// An adapter with a port and a name; the other fields are empty.
    pub fn new(port_number: u32, miniport_name: &str) -> Device {
        Device { port_number, miniport_name: miniport_name.to_owned(), ..Device::default() }
    }
}

/// A unit behind an adapter; without one the adapter itself is meant (SP-3).
#[doc(alias = "STOR_ADDR_BTL8")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Address {
    /// Path (bus).
    pub path: u8,
    /// Target.
    pub target: u8,
    /// Logical unit.
    pub lun: u8,
}

/// The caller's description of an event, for every kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MiniportEvent<'a> {
    /// The caller's number of the event. It becomes a field: the event's id follows from function, target and level
    /// ([`event_id`](crate::event_id)).
    pub id: u32,
    /// At most 32 characters.
    pub description: &'a str,
    /// The channel.
    pub channel: EventChannel,
    /// Keywords beside the miniport bit.
    pub keywords: Keyword,
    /// The severity.
    pub level: EventLevel,
    /// The kind of point that the event marks.
    pub opcode: EventOpcode,
}

impl<'a> MiniportEvent<'a> {
    /// An event for diagnosis, without keywords, of level Informational and opcode Info.
    pub const fn new(id: u32, description: &'a str) -> MiniportEvent<'a> {
        MiniportEvent {
            id,
            description,
            channel: EventChannel::DIAGNOSTIC,
            keywords: Keyword(0),
            level: EventLevel::INFORMATIONAL,
            opcode: EventOpcode::INFO,
        }
    }
}

/// A named number; without a name it is logged as `NULL` and 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// At most 16 characters.
    pub name: Option<&'a str>,
    /// The number.
    pub value: u64,
}

impl<'a> Parameter<'a> {
    /// A parameter with a name.
    pub const fn new(name: &'a str, value: u64) -> Parameter<'a> {
        Parameter { name: Some(name), value }
    }
}
