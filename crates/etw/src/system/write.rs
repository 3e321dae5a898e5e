//! Writes to the system.

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use etw_ring::prefix::{IN_PRIVATE, Prefix};
use etw_ring::{Piece, Room};
use etw_types::{EventFlags, Guid, Status};

use super::api::{self, Write};
use crate::evntprov::EventDataDescriptor;
use crate::provider::Provider;
use crate::write::{Event, Fill, Site, TOO_LARGE};

/// The largest event that the system takes, with its headers.
const MAX_EVENT_SIZE: usize = 1 << 16;
/// Payloads up to this size need little stack.
const SMALL: usize = 512;

/// Hands an event to the system's sessions. Allocates nothing and takes no lock. `exclude`: sessions that do not get it.
///
/// Data descriptors are those of Microsoft's own headers: the provider's traits (type 2), the event's metadata (type 1), and the payload
/// in one piece. The system adds the thread's activity if `activity_id` is `None`.
#[inline]
pub(crate) fn write(
    provider: &Provider,
    event: &Event<'_>,
    exclude: u64,
    fill: &Fill<'_>,
) -> Status {
    match event.payload_size as usize {
        0..=SMALL => write_with::<SMALL>(provider, event, exclude, fill),
        0..=MAX_EVENT_SIZE => write_large(provider, event, exclude, fill),
        _ => Status::ERROR_ARITHMETIC_OVERFLOW,
    }
}

/// [`write()`] of a site's event with a small payload, in the thread's activity: the usual case, without a call for the activity.
#[inline]
pub(crate) fn write_site(
    provider: &Provider,
    site: &'static Site,
    payload_size: usize,
    fill: &Fill<'_>,
) -> Status {
    if payload_size > SMALL {
        let prefix = Prefix::default();
        let payload_size = payload_size.min(TOO_LARGE as usize) as u32;
        let event = Event { site: Some(site), prefix, user: 0, payload_size, event_size: 0 };
        return write(provider, &event, 0, fill);
    }
    let mut memory = [const { MaybeUninit::<u8>::uninit() }; SMALL];
    let Some(payload) = Room::fill_whole(&mut memory[..payload_size], fill) else {
        return Status::ERROR_ARITHMETIC_OVERFLOW;
    };
    let traits = provider.traits();
    let metadata = site.metadata();
    let data = [
        piece(traits, EventDataDescriptor::PROVIDER_METADATA),
        piece(metadata, EventDataDescriptor::EVENT_METADATA),
        piece(payload, EventDataDescriptor::USER_DATA),
    ];
    let first = if metadata.is_empty() { 2 } else { usize::from(traits.is_empty()) };
    let last = if payload.is_empty() { 2 } else { 3 };
    let descriptor = site.descriptor();
    Write {
        handle: provider.system.registration.load(Ordering::Acquire),
        descriptor: &descriptor,
        activity: std::ptr::null(),
        related: std::ptr::null(),
        data: &data[first..last],
    }
    .transfer()
}

#[inline(always)]
fn piece(bytes: &[u8], kind: u8) -> Piece {
    let address = bytes.as_ptr().expose_provenance() as u64;
    Piece { address, size: bytes.len() as u32, kind: kind.into() }
}

/// A function of its own, so that small events touch no large stack frame.
#[inline(never)]
fn write_large(provider: &Provider, event: &Event<'_>, exclude: u64, fill: &Fill<'_>) -> Status {
    write_with::<MAX_EVENT_SIZE>(provider, event, exclude, fill)
}

#[inline(always)]
fn write_with<const N: usize>(
    provider: &Provider,
    event: &Event<'_>,
    exclude: u64,
    fill: &Fill<'_>,
) -> Status {
    let mut memory = [const { MaybeUninit::<u8>::uninit() }; N];
    let Some(payload) = Room::fill_whole(&mut memory[..event.payload_size as usize], fill) else {
        // A value that does not fit spoils the event, as on other systems.
        return Status::ERROR_ARITHMETIC_OVERFLOW;
    };
    if event.prefix.is_classic {
        return super::classic::write(provider, &event.prefix, payload);
    }
    let handle = provider.system.registration.load(Ordering::Acquire);
    let prefix = &event.prefix;
    if event.user >> 16 & u32::from(EventFlags::STRING_ONLY.0) != 0 {
        return write_string(handle, event, payload);
    }
    let (descriptor, metadata) = match (&prefix.descriptor, event.site) {
        (Some(descriptor), _) => (api::descriptor(descriptor), prefix.metadata),
        (None, Some(site)) => (site.descriptor(), site.metadata()),
        (None, None) => return Status::ERROR_INVALID_PARAMETER,
    };
    let traits = match (metadata, prefix.traits) {
        ([], _) => &[],
        (_, []) => provider.traits(),
        (_, traits) => traits,
    };
    let time = prefix.time.map(i64::to_le_bytes);
    let mut data = [Piece { address: 0, size: 0, kind: 0 }; 4];
    let mut count = 0;
    for (bytes, kind) in [
        (traits, EventDataDescriptor::PROVIDER_METADATA),
        (metadata, EventDataDescriptor::EVENT_METADATA),
        (time.as_ref().map_or(&[][..], |time| time), EventDataDescriptor::TIMESTAMP_OVERRIDE),
        (payload, EventDataDescriptor::USER_DATA),
    ] {
        if !bytes.is_empty() {
            data[count] = piece(bytes, kind);
            count += 1;
        }
    }
    let id = |id: &Option<Guid>| id.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let write = Write {
        handle,
        descriptor: &descriptor,
        activity: id(&prefix.activity_id),
        related: id(&prefix.related_activity_id),
        data: &data[..count],
    };
    let property = event.user as u16;
    let in_private = event.user & IN_PRIVATE != 0;
    if exclude != 0 || in_private {
        const IN_PRIVATE_FLAG: u32 = 2;
        write.with_flags(exclude, if in_private { IN_PRIVATE_FLAG } else { 0 })
    } else if property != 0 {
        write.with_property(property)
    } else {
        write.transfer()
    }
}

/// `EventWriteString` of a payload that is a text with a zero unit at its end.
#[cold]
fn write_string(handle: u64, event: &Event<'_>, payload: &[u8]) -> Status {
    let descriptor = event.prefix.descriptor.unwrap_or_default();
    let mut units = [0u16; MAX_EVENT_SIZE / 2 + 1];
    let pairs = payload.chunks_exact(2);
    let count = pairs.len();
    for (unit, pair) in units.iter_mut().zip(pairs) {
        *unit = u16::from_le_bytes([pair[0], pair[1]]);
    }
    // The text's own end, or that of the array.
    let size = count.max(1).min(units.len());
    units[size - 1] = 0;
    api::write_string(handle, descriptor.level.0, descriptor.keyword.0, &units[..size])
}
