//! Events without metadata, whose descriptor travels in the record.
//!
//! Nothing has to be interned or looked up, however many descriptors a program has.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use etw_ring::layout::MAX_PAYLOAD_SIZE;
use etw_ring::{
    FillRoom, MAX_ATTACHMENTS, NotUsual, Request, Room, prefix, prefix::Prefix, try_begin_usual,
    try_this_thread, try_write_usual,
};
use etw_types::{EventDescriptor, Guid, Status};

use super::any::{Event, TOO_LARGE, write_any};
use super::status::status_of_begun;
use super::{Fill, GUID_ITEM_SIZE, Routes};
use crate::activity;
use crate::pools::writer;
use crate::provider::{Provider, STACKS};

/// An event's descriptor (its sixteen bytes as two words) and the activity ids that the caller gives.
#[derive(Clone, Copy, Debug)]
pub struct Described<'a> {
    /// The descriptor.
    pub descriptor: [u64; 2],
    /// In place of the thread's current activity.
    pub activity: Option<&'a Guid>,
    /// The activity that this one comes from.
    pub related: Option<&'a Guid>,
}

/// Writes an event without metadata to the sessions that [`routes`](super::routes) found. `fill` puts exactly `payload_size`
/// bytes; it runs once for each host that takes the event.
#[inline(never)]
pub fn write_described(
    provider: &Provider,
    event: Described<'_>,
    Routes(routes): Routes,
    payload_size: usize,
    fill: &Fill<'_>,
) -> Status {
    let current = activity::current();
    let activity = Some(event.activity.unwrap_or(&current)).filter(|id| !id.is_zero());
    let event = Described { activity, ..event };
    let attachment = routes.trailing_zeros() as usize / 8 % MAX_ATTACHMENTS;
    if let Ok(sessions) = u8::try_from(routes >> (attachment * 8)) {
        let written =
            try_write_described_to(attachment, sessions, provider, &event, payload_size, fill);
        if let Some(status) = written {
            return status;
        }
    }
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&event.descriptor[0].to_le_bytes());
    bytes[8..].copy_from_slice(&event.descriptor[1].to_le_bytes());
    let prefix = Prefix {
        descriptor: EventDescriptor::read(&bytes, 0),
        activity_id: activity.copied(),
        related_activity_id: event.related.copied(),
        ..Prefix::default()
    };
    let payload_size = payload_size.min(TOO_LARGE as usize) as u32;
    let event_size = provider.size_of_static(0) & !STACKS;
    let event = Event { site: None, prefix, user: 0, payload_size, event_size };
    write_any(provider, routes, &event, fill)
}

/// [`write_described`] to sessions of the first host and in no activity, compiled into its caller. `None`: nothing happened, call
/// [`write_described`].
///
/// # Safety
/// `descriptor` points to sixteen readable bytes, aligned or not.
#[inline(always)]
pub unsafe fn try_write_described_inline(
    provider: &Provider,
    descriptor: *const [u64; 2],
    sessions: u8,
    payload_size: usize,
    fill: impl FillRoom,
) -> Option<Status> {
    let request = request_of_descriptor(provider, sessions, payload_size)?;
    let (thread, fill) = (try_this_thread()?, DescriptorThen(descriptor, fill));
    // SAFETY: writers are `&'static`.
    Some(status_of_begun(unsafe { try_write_usual(thread, 0, None, request, fill)? }))
}

/// [`try_write_described_inline`] of a descriptor's two words.
#[inline(always)]
pub(crate) fn try_write_described_fast(
    provider: &Provider,
    descriptor: &[u64; 2],
    sessions: u8,
    payload_size: usize,
    fill: impl FillRoom,
) -> Option<Status> {
    // SAFETY: a reference is to readable bytes.
    unsafe { try_write_described_inline(provider, descriptor, sessions, payload_size, fill) }
}

/// [`try_write_described_inline`] in two halves: the address of `payload_size` bytes behind the descriptor.
///
/// # Errors
/// Nothing happened: call [`try_begin_described`] or [`write_described`], as [`NotUsual`] says.
///
/// # Safety
/// `descriptor` points to sixteen readable bytes, aligned or not. `BEGUN`: the caller fills all bytes at once, and then calls
/// [`commit_described`] with the same size on the same thread.
#[inline(always)]
pub unsafe fn try_begin_described_usual(
    provider: &Provider,
    descriptor: *const [u64; 2],
    sessions: u8,
    payload_size: usize,
) -> Result<NonNull<u8>, NotUsual> {
    let request = request_of_descriptor(provider, sessions, payload_size);
    let (request, thread) = request.zip(try_this_thread()).ok_or(NotUsual::State)?;
    // SAFETY: `BEGUN`; writers are `&'static`; the record's payload begins with sixteen bytes for the descriptor.
    unsafe { Ok(put_descriptor(try_begin_usual(thread, 0, None, request)?, descriptor)) }
}

/// [`try_begin_described_usual`] on any machine, and if the thread needs another chunk. `None`: nothing happened.
///
/// # Safety
/// As of that function.
#[inline(always)]
pub unsafe fn try_begin_described(
    provider: &Provider,
    descriptor: *const [u64; 2],
    sessions: u8,
    payload_size: usize,
) -> Option<NonNull<u8>> {
    let (thread, writer) = (activity::thread_without()?, writer(0)?);
    let request = request_of_descriptor(provider, sessions, payload_size)?;
    // SAFETY: as in `try_begin_described_usual`.
    unsafe { Some(put_descriptor(writer.try_begin_write(thread, 0, request)?, descriptor)) }
}

/// Puts a descriptor; the address behind it.
///
/// # Safety
/// Sixteen bytes can be written at `room` and read at `descriptor`, aligned or not.
#[inline(always)]
unsafe fn put_descriptor(room: NonNull<u8>, descriptor: *const [u64; 2]) -> NonNull<u8> {
    // SAFETY: by the caller.
    unsafe {
        room.cast::<[u64; 2]>().write_unaligned(descriptor.read_unaligned());
        room.add(16)
    }
}

/// Publishes the event that [`try_begin_described`] began.
///
/// # Safety
/// `BEGUN` of that function.
#[inline(always)]
pub unsafe fn commit_described(payload_size: u32) {
    // SAFETY: `BEGUN`, of the first host; the descriptor is part of the record's payload.
    unsafe { etw_ring::commit_begun(0, payload_size + 16) }
}

/// The request to the first host for an event in no activity. `None`: the payload is large.
#[inline(always)]
fn request_of_descriptor(
    provider: &Provider,
    sessions: u8,
    payload_size: usize,
) -> Option<Request> {
    if payload_size > MAX_PAYLOAD_SIZE - 16 {
        etw_types::cold_path();
        return None;
    }
    Some(Request {
        sessions,
        kind: prefix::DESCRIPTOR,
        registration: provider.registrations[0].load(Ordering::Relaxed),
        metadata_size: 16,
        payload_size: payload_size as u32 + 16,
        event_size: provider.size_of_static(0) + payload_size as u32,
        ..Request::default()
    })
}

/// Puts a descriptor as it lies in memory at that moment, then what the inner fill puts.
struct DescriptorThen<F>(*const [u64; 2], F);

impl<F: FillRoom> FillRoom for DescriptorThen<F> {
    #[inline(always)]
    fn fill<'r>(self, room: Room<'r>) -> Room<'r> {
        // SAFETY: made in `try_write_described_inline` only, whose caller promises a readable descriptor.
        self.1.fill(put_words(room, unsafe { self.0.read_unaligned() }))
    }
}

/// Writes to one host. `None`: nothing happened, the payload is large or the host's pool needs attention.
#[inline(always)]
fn try_write_described_to(
    attachment: usize,
    sessions: u8,
    provider: &Provider,
    event: &Described<'_>,
    payload_size: usize,
    fill: &Fill<'_>,
) -> Option<Status> {
    if payload_size > MAX_PAYLOAD_SIZE - 3 * 16 {
        return None;
    }
    let Described { descriptor, activity, related } = *event;
    let writer = writer(attachment)?;
    let ids = if activity.is_some() { 16 } else { 0 } + if related.is_some() { 16 } else { 0 };
    let bit = |id: Option<&Guid>, bit: u8| if id.is_some() { bit } else { 0 };
    let related_item = if related.is_some() { GUID_ITEM_SIZE } else { 0 };
    let request = Request {
        sessions,
        kind: prefix::DESCRIPTOR | bit(activity, prefix::ACTIVITY) | bit(related, prefix::RELATED),
        registration: provider.registrations[attachment].load(Ordering::Relaxed),
        site: 0,
        user: 0,
        metadata_size: 16 + ids as u16,
        payload_size: payload_size as u32 + 16 + ids,
        event_size: provider.size_of_static(0) + related_item + payload_size as u32,
    };
    let written = writer.try_write(attachment, request, |room| {
        let mut room = put_words(room, descriptor);
        for id in [activity, related].into_iter().flatten() {
            room = room.put(&id.0);
        }
        fill(room)
    })?;
    Some(status_of_begun(written))
}

/// Word by word: one load of all sixteen bytes would wait for stores of its parts.
#[inline(always)]
fn put_words<'r>(room: Room<'r>, words: [u64; 2]) -> Room<'r> {
    words.into_iter().fold(room, |room, word| room.put(&word.to_le_bytes()))
}
