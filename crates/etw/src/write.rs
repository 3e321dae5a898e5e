//! The one path of all events: match, admit, fill, commit.

use std::sync::atomic::Ordering;

use etw_ring::layout::MAX_PAYLOAD_SIZE;
use etw_ring::{
    FillRoom, MAX_ATTACHMENTS, Refused, Request, Room, SiteCache, Writer, prefix, prefix::Prefix,
};
use etw_types::{EventDescriptor, Guid, Status};

use crate::activity;
use crate::provider::{Provider, STACKS};
use crate::registry::WRITERS;
use crate::stacks::Frames;

/// `EVENT_HEADER` on disk.
pub(crate) const EVENT_HEADER_SIZE: u32 = 0x50;
/// An extended item with a GUID.
const GUID_ITEM_SIZE: u32 = 24;

/// An event's static part: made at compile time, beside the code that writes it. C makes them too
/// (`etw_event_site` of `TraceLoggingProvider.h`), so its layout is part of the C ABI.
///
/// ```text
/// 0  pointer to the bytes   8  u32 their size   12  u32 room of the metadata on disk   16  u64 ids[8], 0 at first
/// ```
#[derive(Debug)]
#[repr(C)]
pub struct Site {
    /// The descriptor's sixteen bytes, then the TraceLogging metadata: what hosts intern.
    start: *const u8,
    size: u32,
    /// What the metadata takes on disk; 0 without metadata.
    metadata_room: u32,
    cache: SiteCache,
}

// SAFETY: the pointer leads to bytes that nobody changes, as long as there is a site; the rest are atomics.
unsafe impl Send for Site {}
// SAFETY: as above.
unsafe impl Sync for Site {}

impl Site {
    /// `bytes`: a descriptor's sixteen bytes ([`descriptor_bytes`]) and the event's TraceLogging metadata, which may be empty.
    ///
    /// # Panics
    /// At compile time, when they are shorter.
    pub const fn new(bytes: &'static [u8]) -> Site {
        assert!(
            bytes.len() >= 16 && bytes.len() < 1 << 24,
            "a site begins with an event descriptor"
        );
        let size = bytes.len() as u32;
        let metadata_room = if size == 16 { 0 } else { (8 + size - 16).next_multiple_of(8) };
        Site { start: bytes.as_ptr(), size, metadata_room, cache: SiteCache::new() }
    }

    #[inline(always)]
    fn bytes(&self) -> &'static [u8] {
        // SAFETY: from a slice (`new`), or from C, whose promise it is that the bytes are there and stay as they are.
        unsafe { std::slice::from_raw_parts(self.start, self.size as usize) }
    }

    /// What sessions filter by.
    #[inline]
    pub fn level_and_keyword(&self) -> (u8, u64) {
        let Some((descriptor, _)) = self.bytes().split_first_chunk::<16>() else { return (0, 0) };
        let keyword = descriptor[8..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        (descriptor[4], keyword)
    }

    /// The event's level.
    #[inline]
    pub fn level(&self) -> u8 {
        self.level_and_keyword().0
    }

    /// The event's TraceLogging metadata.
    pub fn metadata(&self) -> &'static [u8] {
        self.bytes().get(16..).unwrap_or(&[])
    }
}

const _: () = {
    // What the header says.
    assert!(std::mem::offset_of!(Site, cache) == (size_of::<usize>() + 8).next_multiple_of(8));
    assert!(size_of::<SiteCache>() == 8 * 8);
};

/// The bytes of an event descriptor, in a constant.
pub const fn descriptor_bytes(d: &EventDescriptor) -> [u8; 16] {
    let (id, task, keyword) = (d.id.to_le_bytes(), d.task.to_le_bytes(), d.keyword.0.to_le_bytes());
    [
        id[0],
        id[1],
        d.version,
        d.channel.0,
        d.level.0,
        d.opcode.0,
        task[0],
        task[1],
        keyword[0],
        keyword[1],
        keyword[2],
        keyword[3],
        keyword[4],
        keyword[5],
        keyword[6],
        keyword[7],
    ]
}

/// Puts an event's values. What is put into a full room spoils the event: it is refused and counted.
pub type Fill<'a> = dyn for<'r> Fn(Room<'r>) -> Room<'r> + 'a;

/// The sessions that want an event.
#[derive(Clone, Copy, Debug)]
pub struct Routes(u64);

impl Routes {
    /// Whether there are any.
    #[inline(always)]
    pub fn any(self) -> bool {
        self.0 != 0
    }
}

/// Who wants such events: what `write_event!` asks behind its gate, before it evaluates the event's values.
#[inline(always)]
pub fn routes(provider: &Provider, level: u8, keyword: u64) -> Routes {
    Routes(provider.routes(level, keyword))
}

/// [`routes`], as a number, where there is no more than one session: 0 for none, 1 for the first of the first host. `None`: there may be
/// several.
#[inline(always)]
pub fn only_route(provider: &Provider, level: u8, keyword: u64) -> Option<u64> {
    provider.only_route(level, keyword)
}

/// Writes an event of a static site to whom [`routes`] said.
///
/// `payload_size` is exactly what `fill` puts; `fill` runs once for each host that takes the event. One copy of this for
/// all sites: what it costs to call `fill` is less than what many copies of the ring's code cost.
#[inline(never)]
pub fn send(
    provider: &Provider,
    site: &'static Site,
    routes: Routes,
    payload_size: usize,
    fill: &Fill<'_>,
) -> Status {
    let Routes(wanted) = routes;
    if let Ok(sessions) = u8::try_from(wanted)
        && let Some(status) = send_at::<true>(0, sessions, provider, site, payload_size, fill)
    {
        return status;
    }
    send_elsewhere(provider, site, routes, payload_size, fill)
}

/// [`send`] to sessions of the first host and in no activity, made part of a caller whose `fill` all its sites share, as C's do. `None`,
/// with nothing done, where `send` is to be called.
#[inline(always)]
pub fn send_here(
    provider: &Provider,
    site: &'static Site,
    sessions: u8,
    payload_size: usize,
    fill: impl FillRoom,
) -> Option<Status> {
    if !activity::is_none() {
        std::hint::cold_path();
        return None;
    }
    let (writer, request) = ask_of_site(0, sessions, provider, site, payload_size)?;
    Some(status(provider, writer.write_plainly(0, request, fill)?))
}

/// Writes an event without metadata, whose descriptor (the sixteen bytes, as two words) travels in the record: so there is nothing to
/// intern or to look up, however many descriptors a program has.
#[inline(never)]
pub fn send_described(
    provider: &Provider,
    descriptor: [u64; 2],
    Routes(routes): Routes,
    (activity, related): (Option<&Guid>, Option<&Guid>),
    payload_size: usize,
    fill: &Fill<'_>,
) -> Status {
    let current = activity::current();
    let activity = Some(activity.unwrap_or(&current)).filter(|id| !id.is_zero());
    let attachment = routes.trailing_zeros() as usize / 8 % MAX_ATTACHMENTS;
    if let Ok(sessions) = u8::try_from(routes >> (attachment * 8)) {
        let ids = (activity, related);
        let at_once =
            described_at(attachment, sessions, provider, descriptor, ids, payload_size, fill);
        if let Some(status) = at_once {
            return status;
        }
    }
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&descriptor[0].to_le_bytes());
    bytes[8..].copy_from_slice(&descriptor[1].to_le_bytes());
    let prefix = Prefix {
        descriptor: EventDescriptor::read(&bytes, 0),
        activity_id: activity.copied(),
        related_activity_id: related.copied(),
        ..Prefix::default()
    };
    let payload_size = payload_size.min(TOO_LARGE as usize) as u32;
    let event_size = provider.size_of_static(0) & !STACKS;
    let event = Event { site: None, prefix, user: 0, payload_size, event_size };
    write_general(provider, routes, &event, fill)
}

/// [`send_described`] to sessions of the first host and in no activity, made part of the caller. `None`, with nothing done, where
/// that is to be called.
///
/// # Safety
/// The descriptor is there, aligned or not.
#[inline(always)]
pub unsafe fn send_described_here(
    provider: &Provider,
    descriptor: *const [u64; 2],
    sessions: u8,
    payload_size: usize,
    fill: impl FillRoom,
) -> Option<Status> {
    if payload_size > MAX_PAYLOAD_SIZE - 16 || !activity::is_none() {
        std::hint::cold_path();
        return None;
    }
    let request = Request {
        sessions,
        kind: prefix::DESCRIPTOR,
        registration: provider.registrations[0].load(Ordering::Relaxed),
        metadata_size: 16,
        payload_size: payload_size as u32 + 16,
        event_size: provider.size_of_static(0) + payload_size as u32,
        ..Request::default()
    };
    Some(status(provider, writer(0)?.write_plainly(0, request, Described(descriptor, fill))?))
}

/// A descriptor, taken as it lies in memory when it is put, and what comes behind it.
struct Described<F>(*const [u64; 2], F);

impl<F: FillRoom> FillRoom for Described<F> {
    #[inline(always)]
    fn fill<'r>(self, room: Room<'r>) -> Room<'r> {
        // SAFETY: made in `send_described_here` only, whose caller's promise it is.
        self.1.fill(put_words(room, unsafe { self.0.read_unaligned() }))
    }
}

#[inline(always)]
fn described_at(
    attachment: usize,
    sessions: u8,
    provider: &Provider,
    descriptor: [u64; 2],
    (activity, related): (Option<&Guid>, Option<&Guid>),
    payload_size: usize,
    fill: &Fill<'_>,
) -> Option<Status> {
    if payload_size > MAX_PAYLOAD_SIZE - 3 * 16 {
        return None;
    }
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
    let written = writer.write_at_once(attachment, request, |room| {
        let mut room = put_words(room, descriptor);
        for id in [activity, related].into_iter().flatten() {
            room = room.put(&id.0);
        }
        fill(room)
    })?;
    Some(status(provider, written))
}

/// Word by word: sixteen bytes at once would wait for what has just been written in parts.
#[inline(always)]
fn put_words<'r>(room: Room<'r>, words: [u64; 2]) -> Room<'r> {
    words.into_iter().fold(room, |room, word| room.put(&word.to_le_bytes()))
}

/// [`send`] where the first host wants nothing, or several want it; on any machine.
#[inline(never)]
fn send_elsewhere(
    provider: &Provider,
    site: &'static Site,
    routes: Routes,
    payload_size: usize,
    fill: &Fill<'_>,
) -> Status {
    let attachment = routes.0.trailing_zeros() as usize / 8;
    let sessions = routes.0 >> (attachment * 8);
    let sent = match u8::try_from(sessions) {
        Ok(sessions) => send_at::<false>(attachment, sessions, provider, site, payload_size, fill),
        Err(_) => None,
    };
    sent.unwrap_or_else(|| send_with_ids(provider, site, routes, (None, None), payload_size, fill))
}

/// To one host, with the thread's activity; `None`, with nothing done, where the host's pool needs attention.
/// `PLAIN`: only on the [usual machine](Writer::write_plainly).
#[inline(always)]
fn send_at<const PLAIN: bool>(
    attachment: usize,
    sessions: u8,
    provider: &Provider,
    site: &'static Site,
    payload_size: usize,
    fill: &Fill<'_>,
) -> Option<Status> {
    let (writer, request) = ask_of_site(attachment, sessions, provider, site, payload_size)?;
    let written = if activity::is_none() {
        match PLAIN {
            true => writer.write_plainly(attachment, request, fill)?,
            false => writer.write_at_once(attachment, request, fill)?,
        }
    } else {
        std::hint::cold_path();
        let activity = activity::current();
        if activity.is_zero() {
            return None;
        }
        write_in_activity(writer, attachment, request, &activity, fill)?
    };
    Some(status(provider, written))
}

/// What is asked of a host for an event of a site in no activity. `None`: it is not so simple, or the host is gone.
#[inline(always)]
fn ask_of_site(
    attachment: usize,
    sessions: u8,
    provider: &Provider,
    site: &'static Site,
    payload_size: usize,
) -> Option<(&'static Writer, Request)> {
    if payload_size > MAX_PAYLOAD_SIZE - 16 {
        return None;
    }
    let writer = writer(attachment)?;
    let payload_size = payload_size as u32;
    let request = Request {
        sessions,
        kind: 0,
        registration: provider.registrations[attachment].load(Ordering::Relaxed),
        site: writer.intern_at(attachment, &site.cache, site.bytes()),
        user: 0,
        metadata_size: 0,
        payload_size,
        event_size: provider.size_of_static(site.metadata_room) + payload_size,
    };
    (request.site != 0).then_some((writer, request))
}

#[inline(never)]
fn write_in_activity(
    writer: &Writer,
    attachment: usize,
    request: Request,
    activity: &Guid,
    fill: &Fill<'_>,
) -> Option<Result<(), Refused>> {
    let request = Request {
        kind: prefix::ACTIVITY,
        metadata_size: 16,
        payload_size: request.payload_size + 16,
        ..request
    };
    writer.write_at_once(attachment, request, |room| fill(room.put(&activity.0)))
}

/// As [`send`], for events with `ids`: an activity id in place of the thread's, and a related one.
#[inline(never)]
pub fn send_with_ids(
    provider: &Provider,
    site: &'static Site,
    routes: Routes,
    ids: (Option<Guid>, Option<Guid>),
    payload_size: usize,
    fill: &Fill<'_>,
) -> Status {
    send_general(provider, site, routes.0, ids, 0, payload_size, fill)
}

/// As [`send_with_ids`], with the record's `user` word.
#[inline(never)]
pub(crate) fn send_general(
    provider: &Provider,
    site: &'static Site,
    routes: u64,
    (activity, related): (Option<Guid>, Option<Guid>),
    user: u32,
    payload_size: usize,
    fill: &Fill<'_>,
) -> Status {
    let activity_id = activity.unwrap_or_else(activity::current);
    let prefix = Prefix {
        activity_id: (!activity_id.is_zero()).then_some(activity_id),
        related_activity_id: related,
        ..Prefix::default()
    };
    let payload_size = payload_size.min(TOO_LARGE as usize) as u32;
    let event_size = provider.size_of_static(site.metadata_room) & !STACKS;
    let event = Event { site: Some(site), prefix, user, payload_size, event_size };
    write_general(provider, routes, &event, fill)
}

/// A payload size that no event has, and that fits into all sums.
pub(crate) const TOO_LARGE: u32 = 1 << 24;

/// What a write that is not the simplest hands on.
pub(crate) struct Event<'a> {
    /// `None`: descriptor and metadata stand in the prefix.
    pub site: Option<&'static Site>,
    pub prefix: Prefix<'a>,
    /// `EventProperty`, and the header's flags above it.
    pub user: u32,
    pub payload_size: u32,
    /// On disk, without related id and payload.
    pub event_size: u32,
}

/// On-disk size of header, traits and metadata, for an event without a site.
pub(crate) fn size_on_disk(traits: usize, metadata: usize) -> u32 {
    let item = |size: usize| if size == 0 { 0 } else { (8 + size).next_multiple_of(8) as u32 };
    EVENT_HEADER_SIZE + item(traits) + item(metadata)
}

impl Event<'_> {
    /// What the filters of call stacks go by.
    fn descriptor_and_name(&self) -> (EventDescriptor, Option<&[u8]>) {
        let of_site = || self.site.and_then(|site| EventDescriptor::read(site.bytes(), 0));
        let metadata = match (self.prefix.metadata, self.site) {
            ([], Some(site)) => site.metadata(),
            (metadata, _) => metadata,
        };
        (
            self.prefix.descriptor.or_else(of_site).unwrap_or_default(),
            etw_tracelogging::event_name(metadata),
        )
    }

    #[cfg(target_os = "linux")]
    fn level_and_keyword(&self) -> (u8, u64) {
        match (self.site, &self.prefix.descriptor) {
            (_, Some(descriptor)) => (descriptor.level.0, descriptor.keyword.0),
            (Some(site), None) => site.level_and_keyword(),
            (None, None) => (0, 0),
        }
    }
}

/// One event into the pools of all hosts in `routes`, with one timestamp: private sessions first, as they are attached
/// first. Failure in any is the result (WF-5); the others keep the event.
#[inline(never)]
pub(crate) fn write_general(
    provider: &Provider,
    routes: u64,
    event: &Event<'_>,
    fill: &Fill<'_>,
) -> Status {
    if provider.size_of_static(0) & STACKS != 0 {
        std::hint::cold_path();
        return write_with_stack(provider, routes, event, fill);
    }
    write_now(provider, routes, event, fill)
}

/// With the call stack, where a session wants one and it finds room.
#[inline(never)]
fn write_with_stack(
    provider: &Provider,
    routes: u64,
    event: &Event<'_>,
    fill: &Fill<'_>,
) -> Status {
    let (descriptor, name) = event.descriptor_and_name();
    let frames = match provider.wants_stack(routes, &descriptor, name) {
        true => Frames::capture(),
        false => None,
    };
    let mut prefix = event.prefix;
    prefix.stack = frames.as_ref().map_or(&[], Frames::bytes);
    // What travels in the prefix because the site table is full comes on top of it.
    let size = prefix.size() + event.site.map_or(0, |site| site.bytes().len());
    if size > usize::from(u16::MAX) || size + event.payload_size as usize > MAX_PAYLOAD_SIZE {
        prefix.stack = &[];
    }
    write_now(provider, routes, &Event { prefix, ..*event }, fill)
}

#[inline(always)]
fn write_now(provider: &Provider, routes: u64, event: &Event<'_>, fill: &Fill<'_>) -> Status {
    let attachment = routes.trailing_zeros() as usize / 8;
    let sessions = routes.checked_shr(attachment as u32 * 8).unwrap_or(0);
    if sessions >= 0x100 {
        return write_to_several(provider, routes, event, fill);
    }
    let Some(writer) = writer(attachment).filter(|_| sessions != 0) else {
        return refused_status(provider, Refused::NotWanted);
    };
    let (request, prefix) = ask(provider, writer, attachment, sessions as u8, event);
    // Nearly always at once: a payload of the announced size into a chunk that is there.
    let at_once = match request.payload_size as usize <= MAX_PAYLOAD_SIZE {
        true => writer.write_at_once(attachment, request, |room| fill(prefix.put_into(room))),
        false => None,
    };
    let written = at_once.unwrap_or_else(|| {
        writer.write(&request, |payload| {
            prefix.put(|part| payload.put(part));
            payload.fill(fill);
        })
    });
    #[cfg(target_os = "linux")]
    if written == Err(Refused::Detached) && crate::attach::renew() {
        let (level, keyword) = event.level_and_keyword();
        return write_general(provider, provider.routes(level, keyword), event, fill);
    }
    status(provider, written)
}

/// What is asked of a host for an event, and what stands before the payload in its pool.
#[inline(always)]
fn ask<'a>(
    provider: &Provider,
    writer: &Writer,
    attachment: usize,
    sessions: u8,
    event: &Event<'a>,
) -> (Request, Prefix<'a>) {
    let mut prefix = event.prefix;
    let mut site_id = 0;
    if let Some(site) = event.site {
        site_id = writer.intern(&site.cache, site.bytes());
        if site_id == 0 {
            // The table is full: everything travels in the record.
            prefix.descriptor = EventDescriptor::read(site.bytes(), 0);
            prefix.metadata = site.metadata();
        }
    }
    let related = if prefix.related_activity_id.is_some() { GUID_ITEM_SIZE } else { 0 };
    let prefix_size = prefix.size();
    let request = Request {
        sessions,
        kind: prefix.kind(),
        registration: provider.registrations[attachment].load(Ordering::Relaxed),
        site: site_id,
        user: event.user,
        // A prefix beyond 64 KiB comes with metadata of that size: no event on disk can hold it, so it is refused.
        metadata_size: u16::try_from(prefix_size).unwrap_or(u16::MAX),
        payload_size: event.payload_size.saturating_add(prefix_size as u32),
        event_size: event.event_size + related + event.payload_size,
    };
    (request, prefix)
}

#[inline(never)]
fn write_to_several(
    provider: &Provider,
    routes: u64,
    event: &Event<'_>,
    fill: &Fill<'_>,
) -> Status {
    let mut reservations: [_; MAX_ATTACHMENTS] = [const { None }; MAX_ATTACHMENTS];
    let mut result = Status::ERROR_SUCCESS;
    for (attachment, reservation) in reservations.iter_mut().enumerate() {
        let sessions = (routes >> (attachment * 8)) as u8;
        let Some(writer) = writer(attachment).filter(|_| sessions != 0) else { continue };
        let (request, prefix) = ask(provider, writer, attachment, sessions, event);
        match writer.reserve_here(&request) {
            Ok(mut reserved) => {
                prefix.put(|part| reserved.put(part));
                *reservation = Some(reserved);
            }
            #[cfg(target_os = "linux")]
            Err(Refused::Detached) if crate::attach::renew() => {
                // Nothing has been taken: in a child all pools are its parent's.
                let (level, keyword) = event.level_and_keyword();
                return write_general(provider, provider.routes(level, keyword), event, fill);
            }
            Err(refused) => result = worse(result, status(provider, Err(refused))),
        }
    }
    let mut stamped = None;
    for reservation in reservations.into_iter().flatten() {
        let mut reservation = reservation;
        match stamped {
            None => {
                reservation.stamp_now();
                stamped = Some((reservation.time(), reservation.cpu()));
            }
            // Hosts of one machine have one raw clock.
            Some((time, cpu)) => reservation.stamp(time, cpu),
        }
        reservation.payload().fill(fill);
        result = worse(result, status(provider, reservation.commit()));
    }
    result
}

/// The first failure is the function's.
fn worse(a: Status, b: Status) -> Status {
    if a.is_success() { b } else { a }
}

#[inline(always)]
fn writer(attachment: usize) -> Option<&'static Writer> {
    // SAFETY: null, or from a `&'static Writer`.
    unsafe { WRITERS[attachment % MAX_ATTACHMENTS].load(Ordering::Acquire).as_ref() }
}

#[inline(always)]
fn status(provider: &Provider, written: Result<(), Refused>) -> Status {
    match written {
        Ok(()) => Status::ERROR_SUCCESS,
        Err(refused) => refused_status(provider, refused),
    }
}

#[cold]
#[inline(never)]
fn refused_status(provider: &Provider, refused: Refused) -> Status {
    if refused == Refused::Detached {
        // A child of the process that attached, or a session that has ended: no host here wants anything. Lock-free,
        // since the child of a fork may find the registry locked for ever.
        provider.forget_detached();
    }
    match Status(refused.status()) {
        // Its writers name their session: that it has ended is no success.
        Status::ERROR_SUCCESS if provider.is_classic() => Status::ERROR_INVALID_HANDLE,
        status => status,
    }
}
