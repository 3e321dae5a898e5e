//! Classic events and messages.

use etw_ring::classic::ClassicBytes;
use etw_ring::prefix::Prefix;
use etw_ring::{FillRoom, Room};
use etw_types::{
    Classic, ClassicHeader, EventClass, Guid, MessageFlags, MessageId, Status, is_system_class,
};

use super::class::ClassHandle;
use super::class::guid_of;
use super::handle::LoggerHandle;
use super::registration::provider_of;
use crate::provider::Provider;
use crate::write::{Event, Fill, Message, TOO_LARGE, try_write_message, write_any};

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
    trace_message_filled(logger, flags, id, number, size_of_all(data), &|room| put_all(room, data))
}

/// [`trace_message`] with a function that puts `size` bytes. For callers whose data is not in slices.
#[doc(hidden)]
pub fn trace_message_filled(
    logger: LoggerHandle,
    flags: MessageFlags,
    id: MessageId,
    number: u16,
    size: usize,
    fill: &Fill<'_>,
) -> Status {
    let Some(to) = provider_of(logger) else { return Status::ERROR_INVALID_HANDLE };
    let header = ClassicHeader::Message { flags: parts_of(flags), id, number };
    write_classic(to, &classic_of(header), None, size, fill)
}

/// [`trace_message_filled`] of a message with a GUID if the host's pool has space and needs no attention, compiled into its caller. `None`:
/// nothing happened, call [`trace_message_filled`].
///
/// # Safety
/// `guid` points to sixteen readable bytes, aligned or not.
#[doc(hidden)]
#[inline(always)]
pub unsafe fn try_trace_message_inline(
    logger: LoggerHandle,
    flags: MessageFlags,
    guid: *const [u64; 2],
    number: u16,
    size: usize,
    fill: impl FillRoom,
) -> Option<Status> {
    let (provider, routes) = provider_of(logger)?;
    let message = Message { flags: parts_of(flags), guid, number };
    // SAFETY: the caller's promise.
    unsafe { try_write_message(provider, routes, message, size, fill) }.map(of_both_limits)
}

/// The flags of parts that a message may have; all others are ignored.
#[inline(always)]
fn parts_of(flags: MessageFlags) -> MessageFlags {
    let parts = MessageFlags::SEQUENCE.0 | MessageFlags::TIMESTAMP.0 | MessageFlags::SYSTEM_INFO.0;
    MessageFlags(flags.0 & parts)
}

fn classic_of(header: ClassicHeader) -> Classic {
    Classic { header, is_32_bit: cfg!(target_pointer_width = "32") }
}

/// Classic writes have one status for both limits of an event's size.
fn of_both_limits(status: Status) -> Status {
    match status {
        Status::ERROR_ARITHMETIC_OVERFLOW => Status::ERROR_MORE_DATA,
        status => status,
    }
}

fn size_of_all(data: &[&[u8]]) -> usize {
    data.iter().fold(0usize, |size, piece| size.saturating_add(piece.len()))
}

fn put_all<'r>(room: Room<'r>, data: &[&[u8]]) -> Room<'r> {
    data.iter().fold(room, |room, piece| room.put(piece))
}

fn write(to: (&Provider, u64), header: ClassicHeader, time: Option<i64>, data: &[&[u8]]) -> Status {
    if let ClassicHeader::Trace(class) | ClassicHeader::Instance { class, .. } = &header {
        if is_system_class(&class.guid) {
            return Status::ERROR_ACCESS_DENIED;
        }
    }
    let event = classic_of(header);
    write_classic(to, &event, time, size_of_all(data), &|room| put_all(room, data))
}

fn write_classic(
    (provider, routes): (&Provider, u64),
    classic: &Classic,
    time: Option<i64>,
    size: usize,
    fill: &Fill<'_>,
) -> Status {
    let bytes = ClassicBytes::new(classic);
    let event = Event {
        site: None,
        prefix: Prefix { metadata: bytes.as_slice(), is_classic: true, time, ..Prefix::default() },
        user: 0,
        payload_size: size.min(TOO_LARGE as usize) as u32,
        event_size: classic.size() as u32,
    };
    of_both_limits(write_any(provider, routes, &event, fill))
}
