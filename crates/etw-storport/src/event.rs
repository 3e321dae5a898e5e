//! The functions that log events of storage drivers.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use etw::{Channel, EventBuilder, Guid, Keyword, Level, Opcode, OutType, Provider, Registration};

use crate::types::{
    Address, Device, EventChannel, EventLevel, MiniportEvent, Parameter, StorStatus,
};
use crate::{MAX_BYTE_STREAM_LENGTH, MAX_DESCRIPTION_LENGTH, MAX_PARAM_NAME_LENGTH, PROVIDER_ID};

/// The keyword of all events of miniports.
const MINIPORT: Keyword = Keyword(0x2000_0000_0000);
/// The task `Port`.
const TASK_PORT: u16 = 201;

/// The provider, registered by the first event.
fn provider() -> Option<&'static Arc<Provider>> {
    static PROVIDER: OnceLock<Option<(Arc<Provider>, Registration)>> = OnceLock::new();
    let made = PROVIDER.get_or_init(|| {
        let provider = Provider::dynamic("Microsoft-Windows-StorPort", PROVIDER_ID, None).ok()?;
        let registration = provider.register_shared(None);
        Some((provider, registration))
    });
    made.as_ref().map(|(provider, _)| provider)
}

/// The channels of the descriptors of diagnostic, operational and health events.
static CHANNELS: [AtomicU8; 3] = [const { AtomicU8::new(Channel::TRACE_LOGGING.0) }; 3];

/// Sets the channel of the descriptors of all later events of an event channel, by its value in a manifest of the provider.
///
/// If the manifest is installed (`etw manifest install`), a host keeps the events in the channel's event log, without a session.
/// Without this call, the channel is that of TraceLogging, which no log has.
///
/// # Errors
/// `INVALID_PARAMETER`: an event channel that does not exist.
pub fn set_channel(events: EventChannel, channel: Channel) -> StorStatus {
    match CHANNELS.get(events.0 as usize) {
        Some(of) => {
            of.store(channel.0, Ordering::Relaxed);
            StorStatus::SUCCESS
        }
        None => StorStatus::INVALID_PARAMETER,
    }
}

/// The id and version under which an event is published.
#[derive(Clone, Copy)]
struct PublishedId {
    id: u16,
    version: u8,
}

/// The arguments that all functions share.
#[derive(Clone, Copy)]
struct Common<'a> {
    device: &'a Device,
    address: Option<&'a Address>,
    event: MiniportEvent<'a>,
}

impl Common<'_> {
    fn is_valid(&self) -> bool {
        let event = &self.event;
        event.channel.0 <= EventChannel::HEALTH.0
            && event.level.0 <= EventLevel::VERBOSE.0
            && event.opcode.0 <= 0xff
            && event.description.encode_utf16().count() <= MAX_DESCRIPTION_LENGTH
            && !event.description.contains('\0')
    }

    fn level(&self) -> Level {
        Level(self.event.level.0 as u8)
    }

    /// An event of level `LOG_ALWAYS` has no keyword, so that no session's keywords exclude it.
    fn keywords(&self) -> Keyword {
        match self.event.level {
            EventLevel::LOG_ALWAYS => Keyword(0),
            _ => MINIPORT | self.event.keywords,
        }
    }

    fn channel(&self) -> Channel {
        let of = CHANNELS.get(self.event.channel.0 as usize);
        of.map_or(Channel::TRACE_LOGGING, |of| Channel(of.load(Ordering::Relaxed)))
    }

    fn is_wanted(&self) -> bool {
        provider().is_none_or(|provider| provider.is_enabled(self.level(), self.keywords()))
    }

    fn begin(&self, name: &str, published: PublishedId) -> EventBuilder {
        let mut event = EventBuilder::new();
        event
            .reset(name, self.level(), self.keywords(), 0)
            .opcode(Opcode(self.event.opcode.0 as u8))
            .task(TASK_PORT)
            .channel(self.channel())
            .id_version(published.id, published.version);
        event
    }

    fn unit(&self, event: &mut EventBuilder, address: &Address) {
        event
            .add_u8("PathID", address.path, OutType::NULL, 0)
            .add_u8("TargetID", address.target, OutType::NULL, 0)
            .add_u8("LUN", address.lun, OutType::NULL, 0)
            .add_guid("ClassDeviceGuid", &Guid::ZERO, OutType::NULL, 0);
    }

    fn product(&self, event: &mut EventBuilder) {
        event
            .add_cstr8("VendorId", &self.device.vendor, OutType::UTF8, 0)
            .add_cstr8("ProductId", &self.device.product, OutType::UTF8, 0)
            .add_cstr8("SerialNumber", &self.device.serial_number, OutType::UTF8, 0);
    }

    fn boot(&self, event: &mut EventBuilder) {
        event.add_bool32("BootDevice", i32::from(self.device.is_boot_device), OutType::NULL, 0);
    }

    fn wide(event: &mut EventBuilder, name: &str, text: &str) {
        let units: Vec<u16> = text.encode_utf16().collect();
        event.add_cstr16(name, units, OutType::NULL, 0);
    }

    fn write(&self, event: &mut EventBuilder) -> StorStatus {
        event.add_u8("EventChannel", self.event.channel.0 as u8, OutType::NULL, 0);
        match provider().map(|provider| event.write(provider, None, None)) {
            Some(status) if status.is_success() => StorStatus::SUCCESS,
            _ => StorStatus::UNSUCCESSFUL,
        }
    }

    /// Events 534 and 566 to 571.
    fn write_bytes(&self, name: &str, published: PublishedId, data: &[u8]) -> StorStatus {
        let mut event = self.begin(name, published);
        event.add_u32("PortNumber", self.device.port_number, OutType::NULL, 0);
        self.unit(&mut event, self.address.unwrap_or(&Address::default()));
        event.add_guid("AdapterGuid", &self.device.adapter, OutType::NULL, 0);
        Common::wide(&mut event, "MiniportName", &self.device.miniport_name);
        self.product(&mut event);
        self.boot(&mut event);
        event
            .add_u32("DataLength", data.len() as u32, OutType::NULL, 0)
            .add_binary("Data", data, OutType::NULL, 0)
            .add_u32("MiniportEventId", self.event.id, OutType::NULL, 0);
        Common::wide(&mut event, "MiniportEventDescription", self.event.description);
        self.write(&mut event)
    }
}

/// The id under which an event of named parameters (2, 4 or 8 of them) is published: by target, level and channel. Levels and
/// channels that have no ids of their own take those of informational events.
pub fn event_id(
    parameters: usize,
    is_unit: bool,
    has_srb: bool,
    channel: EventChannel,
    level: EventLevel,
) -> u16 {
    let size = match parameters {
        2 => 0,
        4 => 1,
        _ => 2,
    };
    let target = match (is_unit, has_srb) {
        (false, _) => 0,
        (true, false) => 3,
        (true, true) => 6,
    };
    let severity = match level {
        EventLevel::CRITICAL | EventLevel::ERROR => Some(true),
        EventLevel::WARNING => Some(false),
        _ => None,
    };
    match (channel, severity) {
        (EventChannel::OPERATIONAL, Some(is_error)) => {
            (if is_error { 516 } else { 525 }) + target + size
        }
        (EventChannel::HEALTH, Some(is_error)) => {
            (if is_error { 537 } else { 543 }) + target.min(3) + size
        }
        _ => 250 + target + size,
    }
}

/// Logs bytes (SP-1).
///
/// # Errors
/// `INVALID_PARAMETER`: no device, a description of more than 32 characters, an invalid channel or level, no data, or more than
/// [`MAX_BYTE_STREAM_LENGTH`]. `UNSUCCESSFUL`: a session enabled the event, and it could not be written.
#[doc(alias = "StorPortEtwLogByteStream")]
pub fn log_byte_stream(
    device: Option<&Device>,
    address: Option<&Address>,
    event: MiniportEvent<'_>,
    data: &[u8],
) -> StorStatus {
    let Some(device) = device else { return StorStatus::INVALID_PARAMETER };
    let common = Common { device, address, event };
    if !common.is_valid() || data.is_empty() || data.len() > MAX_BYTE_STREAM_LENGTH {
        return StorStatus::INVALID_PARAMETER;
    }
    if !common.is_wanted() {
        return StorStatus::SUCCESS;
    }
    let id = match (event.channel, event.level) {
        (EventChannel::OPERATIONAL, EventLevel::CRITICAL | EventLevel::ERROR) => 571,
        (EventChannel::OPERATIONAL, EventLevel::WARNING) => 570,
        (EventChannel::OPERATIONAL, _) => 569,
        (EventChannel::HEALTH, EventLevel::CRITICAL | EventLevel::ERROR | EventLevel::WARNING) => {
            568
        }
        (EventChannel::HEALTH, _) => 567,
        _ => 566,
    };
    common.write_bytes("MiniportByteStream", PublishedId { id, version: 1 }, data)
}

/// Logs 2, 4 or 8 named numbers (SP-4). `srb`: the request that the event is about.
///
/// # Errors
/// As [`log_byte_stream`]; `INVALID_PARAMETER` also for another number of parameters, or a name of more than 16 characters.
#[doc(alias = "StorPortEtwEvent2", alias = "StorPortEtwEvent4", alias = "StorPortEtwEvent8")]
#[doc(alias = "StorPortEtwChannelEvent2", alias = "StorPortEtwChannelEvent8")]
pub fn log_event(
    device: Option<&Device>,
    address: Option<&Address>,
    event: MiniportEvent<'_>,
    srb: Option<u64>,
    parameters: &[Parameter<'_>],
) -> StorStatus {
    let Some(device) = device else { return StorStatus::INVALID_PARAMETER };
    let common = Common { device, address, event };
    let fits = |parameter: &Parameter<'_>| {
        let name = parameter.name.unwrap_or_default();
        name.encode_utf16().count() <= MAX_PARAM_NAME_LENGTH && !name.contains('\0')
    };
    let counts = [2, 4, 8];
    if !common.is_valid() || !counts.contains(&parameters.len()) || !parameters.iter().all(fits) {
        return StorStatus::INVALID_PARAMETER;
    }
    if !common.is_wanted() {
        return StorStatus::SUCCESS;
    }
    // Windows has no ids for events of an adapter with a request, nor for health events with one.
    let MiniportEvent { id: event_id, description, channel, level, .. } = event;
    let srb = srb.filter(|_| address.is_some() && channel != EventChannel::HEALTH);
    let id = self::event_id(parameters.len(), address.is_some(), srb.is_some(), channel, level);
    let mut event = common.begin("MiniportEvent", PublishedId { id, version: 3 });
    Common::wide(&mut event, "MiniportName", &device.miniport_name);
    event.add_u32("MiniportEventId", event_id, OutType::NULL, 0);
    Common::wide(&mut event, "MiniportEventDescription", description);
    event.add_u32("PortNumber", device.port_number, OutType::NULL, 0).add_guid(
        "AdapterGuid",
        &device.adapter,
        OutType::NULL,
        0,
    );
    if let Some(address) = address {
        common.unit(&mut event, address);
        common.product(&mut event);
    }
    common.boot(&mut event);
    if let Some(srb) = srb {
        event.add_hex64("Irp", 0, OutType::NULL, 0).add_hex64("Srb", srb, OutType::NULL, 0);
    }
    for (number, parameter) in (1..).zip(parameters) {
        let name = parameter.name.filter(|name| !name.is_empty());
        let value = if name.is_some() { parameter.value } else { 0 };
        Common::wide(&mut event, &format!("Parameter{number}Name"), name.unwrap_or("NULL"));
        event.add_u64(&format!("Parameter{number}Value"), value, OutType::NULL, 0);
    }
    common.write(&mut event)
}

/// Logs an error with further bytes (SP-4): event 534.
///
/// # Errors
/// As [`log_byte_stream`], but data may be missing.
#[doc(alias = "StorPortEtwLogError")]
pub fn log_error(
    device: Option<&Device>,
    address: Option<&Address>,
    id: u32,
    description: &str,
    data: &[u8],
) -> StorStatus {
    let Some(device) = device else { return StorStatus::INVALID_PARAMETER };
    let event = MiniportEvent {
        channel: EventChannel::OPERATIONAL,
        level: EventLevel::ERROR,
        ..MiniportEvent::new(id, description)
    };
    let common = Common { device, address, event };
    if !common.is_valid() || data.len() > MAX_BYTE_STREAM_LENGTH {
        return StorStatus::INVALID_PARAMETER;
    }
    if !common.is_wanted() {
        return StorStatus::SUCCESS;
    }
    common.write_bytes("MiniportError", PublishedId { id: 534, version: 4 }, data)
}
