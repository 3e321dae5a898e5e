//! Classic events and messages.

use etw_ring::classic::ClassicBytes;
use etw_ring::prefix::Prefix;
use etw_types::{
    Classic, ClassicHeader, EventClass, Guid, MessageFlags, MessageId, Status, is_system_class,
};

use super::class::ClassHandle;
use super::class::guid_of;
use super::handle::LoggerHandle;
use super::registration::provider_of;
use crate::provider::Provider;
use crate::write::{Event, TOO_LARGE, write_any};

/// Writes an event of a class. `time`: a time in the session's clock, recorded in place of the time of the write.
#[doc(alias = "TraceEvent")]
pub fn trace_event(
    logger: LoggerHandle,
    class: EventClass,
    time: Option<i64>,
    data: &[&[u8]],
) -> Status {
    match provider_of(logger) {
        Some(to) => write(to, ClassicHeader::Trace(class), time, data),
        None => Status::ERROR_INVALID_HANDLE,
    }
}

/// Writes an event of a transaction: a class with a number from
/// [`create_trace_instance_id`](super::create_trace_instance_id), and those of its parent, if it has one. The event's GUID is that of
/// `instance`, not that of `class`.
#[doc(alias = "TraceEventInstance")]
pub fn trace_event_instance(
    logger: LoggerHandle,
    class: EventClass,
    instance: (ClassHandle, u32),
    parent: Option<(ClassHandle, u32)>,
    time: Option<i64>,
    data: &[&[u8]],
) -> Status {
    let Some(to) = provider_of(logger) else { return Status::ERROR_INVALID_HANDLE };
    let Some(guid) = guid_of(instance.0) else { return Status::ERROR_INVALID_PARAMETER };
    let (parent, parent_instance) = match parent {
        None => (Guid::ZERO, 0),
        Some((class, number)) => match guid_of(class) {
            Some(guid) => (guid, number),
            None => return Status::ERROR_INVALID_PARAMETER,
        },
    };
    let class = EventClass { guid, ..class };
    let header = ClassicHeader::Instance { class, instance: instance.1, parent_instance, parent };
    write(to, header, time, data)
}

/// Writes a message. The flags for sequence number, time and system information (thread and process) count, others are ignored. The
/// session numbers messages from 1.
#[doc(alias = "TraceMessage")]
pub fn trace_message(
    logger: LoggerHandle,
    flags: MessageFlags,
    id: MessageId,
    number: u16,
    data: &[&[u8]],
) -> Status {
    let parts = MessageFlags::SEQUENCE.0 | MessageFlags::TIMESTAMP.0 | MessageFlags::SYSTEM_INFO.0;
    let flags = MessageFlags(flags.0 & parts);
    match provider_of(logger) {
        Some(to) => write(to, ClassicHeader::Message { flags, id, number }, None, data),
        None => Status::ERROR_INVALID_HANDLE,
    }
}

fn write(
    (provider, routes): (&Provider, u64),
    header: ClassicHeader,
    time: Option<i64>,
    data: &[&[u8]],
) -> Status {
    if let ClassicHeader::Trace(class) | ClassicHeader::Instance { class, .. } = &header {
        if is_system_class(&class.guid) {
            return Status::ERROR_ACCESS_DENIED;
        }
    }
    let classic = Classic { header, is_32_bit: cfg!(target_pointer_width = "32") };
    let bytes = ClassicBytes::new(&classic);
    let size = data.iter().fold(0usize, |size, piece| size.saturating_add(piece.len()));
    let event = Event {
        site: None,
        prefix: Prefix { metadata: bytes.as_slice(), is_classic: true, time, ..Prefix::default() },
        user: 0,
        payload_size: size.min(TOO_LARGE as usize) as u32,
        event_size: classic.size() as u32,
    };
    let written = write_any(provider, routes, &event, &|mut room| {
        for piece in data {
            room = room.put(piece);
        }
        room
    });
    match written {
        // Classic writes have one status for both limits.
        Status::ERROR_ARITHMETIC_OVERFLOW => Status::ERROR_MORE_DATA,
        status => status,
    }
}
