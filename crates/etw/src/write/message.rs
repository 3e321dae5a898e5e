//! Messages of classic providers, whose header travels in the record.

use std::sync::atomic::Ordering;

use etw_ring::layout::MAX_PAYLOAD_SIZE;
use etw_ring::{MAX_ATTACHMENTS, Request, Room, classic, prefix};
use etw_types::{Classic, ClassicHeader, Status};

use super::status::status;
use crate::pools::writer;
use crate::provider::{Provider, STACKS};

/// Writes a message to the sessions of one host. `fill` puts exactly `payload_size` bytes. `None`: nothing happened, because the
/// event is none for this path, or the host's pool needs attention; `write_any` writes it.
#[inline(always)]
pub(crate) fn try_write_message(
    provider: &Provider,
    routes: u64,
    event: &Classic,
    payload_size: usize,
    fill: &impl for<'r> Fn(Room<'r>) -> Room<'r>,
) -> Option<Status> {
    let ClassicHeader::Message { flags, id, number } = &event.header else { return None };
    let header = classic::message_bytes(*flags, id, *number, event.is_32_bit);
    if payload_size > MAX_PAYLOAD_SIZE - header.len() {
        return None;
    }
    let attachment = routes.trailing_zeros() as usize / 8 % MAX_ATTACHMENTS;
    let sessions = u8::try_from(routes >> (attachment * 8)).ok()?;
    let request = Request {
        sessions,
        kind: prefix::METADATA | prefix::CLASSIC,
        registration: provider.registrations[attachment].load(Ordering::Relaxed),
        metadata_size: header.len() as u16,
        payload_size: (header.len() + payload_size) as u32,
        // With the bit for call stacks, the ring refuses the event here.
        event_size: (event.size() + payload_size) as u32 | provider.size_of_static(0) & STACKS,
        ..Request::default()
    };
    let written = writer(attachment)?
        .try_write(attachment, request, |room: Room<'_>| fill(room.put(&header)))?;
    Some(status(provider, written))
}
