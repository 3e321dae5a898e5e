//! The general path: any event, into the pools of any hosts, with a call stack if a session wants one.

use std::sync::atomic::Ordering;

use etw_ring::layout::MAX_PAYLOAD_SIZE;
use etw_ring::{MAX_ATTACHMENTS, Refused, Request, Writer, prefix::Prefix};
use etw_types::{EventDescriptor, Status};
#[cfg(target_os = "linux")]
use etw_types::{Keyword, Level};

#[cfg(target_os = "linux")]
use super::LevelAndKeyword;
use super::status::{first_failure, refused_status, status};
use super::{Fill, GUID_ITEM_SIZE, Site};
use crate::pools::writer;
use crate::provider::{EVENT_HEADER_SIZE, Provider, STACKS};
use crate::stacks::Frames;
#[cfg(windows)]
use crate::system;

/// A payload size that no event can have, and that overflows no sum.
pub(crate) const TOO_LARGE: u32 = 1 << 24;

/// An event on the general path.
pub(crate) struct Event<'a> {
    /// `None`: the prefix holds descriptor and metadata.
    pub site: Option<&'static Site>,
    pub prefix: Prefix<'a>,
    /// `EventProperty` in the low half, the header's flags in the high half.
    pub user: u32,
    pub payload_size: u32,
    /// The event's size on disk, without related id and payload.
    pub event_size: u32,
}

/// The size on disk of header, traits and metadata, for an event without a site.
pub(crate) fn size_on_disk(traits: usize, metadata: usize) -> u32 {
    let item = |size: usize| if size == 0 { 0 } else { (8 + size).next_multiple_of(8) as u32 };
    EVENT_HEADER_SIZE + item(traits) + item(metadata)
}

impl Event<'_> {
    /// The descriptor and name that stack filters test.
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
    fn level_and_keyword(&self) -> LevelAndKeyword {
        match (self.site, self.prefix.descriptor) {
            (_, Some(EventDescriptor { level, keyword, .. })) => LevelAndKeyword { level, keyword },
            (Some(site), None) => site.level_and_keyword(),
            (None, None) => LevelAndKeyword { level: Level(0), keyword: Keyword(0) },
        }
    }
}

/// Writes one event into the pools of all hosts in `routes`, with one timestamp: private sessions first, as they are attached
/// first. If one pool refuses the event, the status says so, and the others keep it (WF-5).
#[inline(never)]
pub(crate) fn write_any(
    provider: &Provider,
    routes: u64,
    event: &Event<'_>,
    fill: &Fill<'_>,
) -> Status {
    #[cfg(windows)]
    if routes & system::ROUTE != 0 {
        return write_any_excluding(provider, routes, event, 0, fill);
    }
    if provider.size_of_static(0) & STACKS != 0 {
        etw_types::cold_path();
        return write_any_with_stack(provider, routes, event, fill);
    }
    write_any_routed(provider, routes, event, fill)
}

/// [`write_any`] to all but the system's sessions that `exclude` names, as `EventWriteEx` counts them.
#[cfg(windows)]
pub(crate) fn write_any_excluding(
    provider: &Provider,
    routes: u64,
    event: &Event<'_>,
    exclude: u64,
    fill: &Fill<'_>,
) -> Status {
    let private = match routes & !system::ROUTE {
        0 => Status::ERROR_SUCCESS,
        private => write_any(provider, private, event, fill),
    };
    match routes & system::ROUTE {
        0 => private,
        _ => first_failure(private, system::write(provider, event, exclude, fill)),
    }
}

/// Adds the call stack, if a session wants it and the record has space for it.
#[inline(never)]
fn write_any_with_stack(
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
    // If the site table is full, descriptor and metadata travel in the prefix too.
    let size = prefix.size() + event.site.map_or(0, |site| site.bytes().len());
    if size > usize::from(u16::MAX) || size + event.payload_size as usize > MAX_PAYLOAD_SIZE {
        prefix.stack = &[];
    }
    write_any_routed(provider, routes, &Event { prefix, ..*event }, fill)
}

#[inline(always)]
fn write_any_routed(
    provider: &Provider,
    routes: u64,
    event: &Event<'_>,
    fill: &Fill<'_>,
) -> Status {
    let attachment = routes.trailing_zeros() as usize / 8;
    let sessions = routes.checked_shr(attachment as u32 * 8).unwrap_or(0);
    if sessions >= 0x100 {
        return write_any_to_hosts(provider, routes, event, fill);
    }
    let Some(writer) = writer(attachment).filter(|_| sessions != 0) else {
        return refused_status(provider, Refused::NotWanted);
    };
    let (request, prefix) = request_of(provider, writer, attachment, sessions as u8, event);
    // Nearly always this is enough: a payload of the announced size into a chunk that the thread has.
    let at_once = match request.payload_size as usize <= MAX_PAYLOAD_SIZE {
        true => writer.try_write(attachment, request, |room| fill(prefix.put_into(room))),
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
        let LevelAndKeyword { level, keyword } = event.level_and_keyword();
        return write_any(provider, provider.routes(level, keyword), event, fill);
    }
    status(provider, written)
}

/// The request for an event, and the prefix of its record in that host's pool.
#[inline(always)]
fn request_of<'a>(
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
            // The site table is full: descriptor and metadata travel in the record.
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
        // Only metadata of 64 KiB makes a prefix that long; no event on disk can hold it, so the write is refused.
        metadata_size: u16::try_from(prefix_size).unwrap_or(u16::MAX),
        payload_size: event.payload_size.saturating_add(prefix_size as u32),
        event_size: event.event_size + related + event.payload_size,
    };
    (request, prefix)
}

#[inline(never)]
fn write_any_to_hosts(
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
        let (request, prefix) = request_of(provider, writer, attachment, sessions, event);
        match writer.reserve_here(&request) {
            Ok(mut reserved) => {
                prefix.put(|part| reserved.put(part));
                *reservation = Some(reserved);
            }
            #[cfg(target_os = "linux")]
            Err(Refused::Detached) if crate::attach::renew() => {
                // Nothing is reserved yet: in a child all pools are its parent's.
                let LevelAndKeyword { level, keyword } = event.level_and_keyword();
                return write_any(provider, provider.routes(level, keyword), event, fill);
            }
            Err(refused) => result = first_failure(result, status(provider, Err(refused))),
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
            // All hosts of a machine use one raw clock.
            Some((time, cpu)) => reservation.stamp(time, cpu),
        }
        reservation.payload().fill(fill);
        result = first_failure(result, status(provider, reservation.commit()));
    }
    result
}
