//! Messages of classic providers, whose header travels in the record.

use std::sync::atomic::Ordering;

use etw_ring::layout::MAX_PAYLOAD_SIZE;
use etw_ring::{
    FillRoom, MAX_ATTACHMENTS, Request, Room, classic, prefix, try_this_thread, try_write_usual,
};
use etw_types::{MessageFlags, Status};

use super::status::status_of_begun;
use crate::provider::{Provider, STACKS};

/// The size of a message's header in a record, and of its GUID.
const HEADER_SIZE: usize = classic::MESSAGE_START_SIZE + GUID_SIZE;
const GUID_SIZE: usize = 16;

/// A message with a GUID, whose two words are read when they are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub flags: MessageFlags,
    pub guid: *const [u64; 2],
    pub number: u16,
}

/// Writes a message to the sessions of one host. `fill` puts exactly `payload_size` bytes. `None`: nothing happened, because the
/// event is none for this path, or the host's pool needs attention; `write_any` writes it.
///
/// # Safety
/// The message's GUID points to sixteen readable bytes, aligned or not.
#[inline(always)]
pub(crate) unsafe fn try_write_message(
    provider: &Provider,
    routes: u64,
    message: Message,
    payload_size: usize,
    fill: impl FillRoom,
) -> Option<Status> {
    if payload_size > MAX_PAYLOAD_SIZE - HEADER_SIZE {
        etw_types::cold_path();
        return None;
    }
    let attachment = routes.trailing_zeros() as usize / 8 % MAX_ATTACHMENTS;
    let sessions = u8::try_from(routes >> (attachment * 8)).ok()?;
    let has = |flag: MessageFlags, size: u32| if message.flags.contains(flag) { size } else { 0 };
    let size_on_disk = 8
        + GUID_SIZE as u32
        + has(MessageFlags::SEQUENCE, 4)
        + has(MessageFlags::TIMESTAMP, 8)
        + has(MessageFlags::SYSTEM_INFO, 8);
    let request = Request {
        sessions,
        kind: prefix::METADATA | prefix::CLASSIC,
        registration: provider.registrations[attachment].load(Ordering::Relaxed),
        metadata_size: HEADER_SIZE as u16,
        payload_size: (HEADER_SIZE + payload_size) as u32,
        // With the bit for call stacks, the ring refuses the event here.
        event_size: (size_on_disk + payload_size as u32) | provider.size_of_static(0) & STACKS,
        ..Request::default()
    };
    let (thread, fill) = (try_this_thread()?, Filled(message, fill));
    // SAFETY: writers are `&'static`.
    let written = unsafe { try_write_usual(thread, attachment, None, request, fill)? };
    Some(status_of_begun(written))
}

/// Puts a message's header, then what the inner fill puts.
struct Filled<F>(Message, F);

impl<F: FillRoom> FillRoom for Filled<F> {
    #[inline(always)]
    fn fill<'r>(self, room: Room<'r>) -> Room<'r> {
        let Message { flags, guid, number } = self.0;
        let is_32_bit = cfg!(target_pointer_width = "32");
        let start = classic::message_start(flags, 1, number, is_32_bit);
        // SAFETY: made in `try_write_message` only, whose caller promises a readable GUID.
        let [first, second] = unsafe { guid.read_unaligned() };
        let header = [start.to_le(), first, second];
        self.1.fill(header.into_iter().fold(room, |room, word| room.put(&word.to_ne_bytes())))
    }
}
