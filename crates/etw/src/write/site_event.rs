//! Events of a static site.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use etw_ring::layout::MAX_PAYLOAD_SIZE;
use etw_ring::{
    FillRoom, MAX_ATTACHMENTS, NotUsual, Refused, Request, Room, Writer, prefix, prefix::Prefix,
    try_begin_usual, try_this_thread, try_write_usual,
};
use etw_types::{Guid, Status};

use super::any::{Event, TOO_LARGE, write_any};
use super::status::status_of_begun;
use super::{Fill, LevelAndKeyword, Routes, Site};
use crate::activity;
use crate::pools::writer;
use crate::provider::{Provider, STACKS};

/// The parts of a site's event that are not static.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras {
    /// An activity id in place of the thread's current one.
    pub activity: Option<Guid>,
    /// The activity that this one comes from.
    pub related: Option<Guid>,
    /// The record's `user` word: `EventProperty`, and the header's flags above it.
    pub user: u32,
}

impl Extras {
    /// The activity ids without other items.
    #[inline(always)]
    pub const fn ids(activity: Option<Guid>, related: Option<Guid>) -> Extras {
        Extras { activity, related, user: 0 }
    }
}

/// Writes an event of a static site to the sessions that [`routes`](super::routes) found.
///
/// `fill` puts exactly `payload_size` bytes; it runs once for each host that takes the event. It is compiled into the caller, between two
/// calls that all sites share: what it puts need not go through memory, and these functions save few registers.
#[inline(always)]
pub fn write_site<F>(
    provider: &Provider,
    site: &'static Site,
    routes: Routes,
    payload_size: usize,
    fill: F,
) -> Status
where
    F: for<'r> Fn(Room<'r>) -> Room<'r>,
{
    // SAFETY: `BEGUN`: `Begun` commits or abandons the write.
    let Some(begun) = (unsafe { begin_site(provider, site, routes, payload_size) }) else {
        return write_site_slowly(provider, site, payload_size, fill);
    };
    // A panic of `fill` abandons the event.
    let guard = Begun;
    // SAFETY: `begin_site` refuses more. So the compiler knows that sums of sizes have not wrapped.
    unsafe { std::hint::assert_unchecked(payload_size <= MAX_PAYLOAD_SIZE) };
    // SAFETY: the payload of the begun write belongs to this thread until the commit.
    let room = unsafe { std::slice::from_raw_parts_mut(begun.as_ptr().cast(), payload_size) };
    if Room::fill_whole(room, fill).is_none() {
        etw_types::cold_path();
        return status_of_begun(Err(Refused::Abandoned));
    }
    std::mem::forget(guard);
    commit_whole_site(payload_size);
    Status::ERROR_SUCCESS
}

/// A write to the first host that is neither committed nor abandoned yet.
struct Begun;

impl Drop for Begun {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: `write_site` has begun a write and not committed it.
        unsafe { etw_ring::abandon_begun(0) };
    }
}

/// The first half of [`write_site`]: the address of `payload_size` bytes.
///
/// # Safety
/// `BEGUN` of [`try_begin_site`].
#[inline(never)]
unsafe fn begin_site(
    provider: &Provider,
    site: &'static Site,
    Routes(wanted): Routes,
    payload_size: usize,
) -> Option<NonNull<u8>> {
    // One compare for zero and too many.
    if wanted.wrapping_sub(1) >= 0xff {
        return None;
    }
    // SAFETY: `BEGUN`.
    unsafe { try_begin_site_usual(provider, site, wanted as u8, payload_size).ok() }
}

/// The second half of [`write_site`].
#[inline(never)]
fn commit_whole_site(payload_size: usize) {
    // SAFETY: `BEGUN`: `write_site` has begun a write of this size and filled it.
    unsafe { commit_site(payload_size as u32) }
}

/// [`write_site`] if nothing was begun. It has the closure by value and asks for the routes again, so that the usual path need not keep
/// them.
#[cold]
#[inline(never)]
fn write_site_slowly<F>(
    provider: &Provider,
    site: &'static Site,
    payload_size: usize,
    fill: F,
) -> Status
where
    F: for<'r> Fn(Room<'r>) -> Room<'r>,
{
    write_site_routed(provider, site, payload_size, &fill)
}

/// [`write_site`] in an activity, to other hosts than the first, or if something needs a call first, with the routes of this moment. All
/// sites share it.
#[inline(never)]
fn write_site_routed(
    provider: &Provider,
    site: &'static Site,
    payload_size: usize,
    fill: &Fill<'_>,
) -> Status {
    let LevelAndKeyword { level, keyword } = site.level_and_keyword();
    let routes = Routes(provider.routes(level, keyword));
    if !routes.any() {
        return Status::ERROR_SUCCESS;
    }
    #[cfg(windows)]
    if routes.0 == crate::system::ROUTE {
        return crate::system::write_site(provider, site, payload_size, fill);
    }
    match activity::thread_without() {
        Some(_) => write_site_elsewhere(provider, site, routes, payload_size, fill),
        None => write_site_in_activity(provider, site, routes, payload_size, fill),
    }
}

/// Calls what fills the payload. (The compiler has a function of its own for a `&Fill` that is called as a function.)
struct Called<'a>(&'a Fill<'a>);

impl FillRoom for Called<'_> {
    #[inline(always)]
    fn fill<'r>(self, room: Room<'r>) -> Room<'r> {
        (self.0)(room)
    }
}

/// [`write_site`] to sessions of the first host and in no activity, compiled into its caller: for callers whose sites share one
/// `fill`, as C's do. `None`: nothing happened, call [`write_site`].
#[inline(always)]
pub fn try_write_site_inline(
    provider: &Provider,
    site: &'static Site,
    sessions: u8,
    payload_size: usize,
    fill: impl FillRoom,
) -> Option<Status> {
    let request = request_of(0, 0, sessions, provider, site, payload_size)?;
    // SAFETY: writers are `&'static`.
    let written =
        unsafe { try_write_usual(try_this_thread()?, 0, Some(&site.cache), request, fill)? };
    Some(status_of_begun(written))
}

/// [`try_write_site_inline`] in two halves: the address of `payload_size` bytes.
///
/// # Errors
/// Nothing happened: call [`try_begin_site`] or [`write_site`], as [`NotUsual`] says.
///
/// # Safety
/// `BEGUN`: the caller fills all of these bytes at once, and then calls [`commit_site`] with the same size on the same thread.
#[inline(always)]
pub unsafe fn try_begin_site_usual(
    provider: &Provider,
    site: &'static Site,
    sessions: u8,
    payload_size: usize,
) -> Result<NonNull<u8>, NotUsual> {
    let request = request_of(0, 0, sessions, provider, site, payload_size);
    let (request, thread) = request.zip(try_this_thread()).ok_or(NotUsual::State)?;
    // SAFETY: `BEGUN`; writers are `&'static`.
    unsafe { try_begin_usual(thread, 0, Some(&site.cache), request) }
}

/// [`try_begin_site_usual`] on any machine, and if the thread needs another chunk. `None`: nothing happened, call [`write_site`].
///
/// # Safety
/// `BEGUN` of that function.
#[inline(always)]
pub unsafe fn try_begin_site(
    provider: &Provider,
    site: &'static Site,
    sessions: u8,
    payload_size: usize,
) -> Option<NonNull<u8>> {
    let (thread, writer) = (activity::thread_without()?, writer(0)?);
    let id = writer.interned_at(0, &site.cache)?;
    let request = request_of(0, id, sessions, provider, site, payload_size)?;
    // SAFETY: `BEGUN`; writers are `&'static`.
    unsafe { writer.try_begin_write(thread, 0, request) }
}

/// Publishes the event that [`try_begin_site`] began.
///
/// # Safety
/// `BEGUN` of that function.
#[inline(always)]
pub unsafe fn commit_site(payload_size: u32) {
    // SAFETY: `BEGUN`, of the first host.
    unsafe { etw_ring::commit_begun(0, payload_size) }
}

/// Writes an event of a site whose payload lies in memory, to the sessions that want it. `only`: what [`only_route`](super::only_route) said of
/// the site's level and keyword.
#[inline(never)]
pub fn write_site_of_bytes(
    provider: &Provider,
    site: &'static Site,
    only: Option<u64>,
    payload: &[u8],
) -> Status {
    if only == Some(0) {
        return Status::ERROR_SUCCESS;
    }
    if only == Some(1) {
        if let Some(status) = try_write_site_inline(provider, site, 1, payload.len(), payload) {
            return status;
        }
    }
    write_site_routed(provider, site, payload.len(), &|room| room.put(payload))
}

/// [`write_site`] if the first host wants nothing, if several hosts want the event, or if the machine is not the usual one.
#[inline(never)]
fn write_site_elsewhere(
    provider: &Provider,
    site: &'static Site,
    routes: Routes,
    payload_size: usize,
    fill: &Fill<'_>,
) -> Status {
    let attachment = routes.0.trailing_zeros() as usize / 8;
    let sessions = routes.0 >> (attachment * 8);
    let written = match u8::try_from(sessions) {
        Ok(sessions) => try_write_site_to(attachment, sessions, provider, site, payload_size, fill),
        Err(_) => None,
    };
    written.unwrap_or_else(|| {
        write_site_with(provider, site, routes, Extras::default(), payload_size, fill)
    })
}

/// Writes to one host, with the thread's activity. `None`: nothing happened, the host's pool needs attention.
#[inline(always)]
fn try_write_site_to(
    attachment: usize,
    sessions: u8,
    provider: &Provider,
    site: &'static Site,
    payload_size: usize,
    fill: &Fill<'_>,
) -> Option<Status> {
    let Some(thread) = activity::thread_without() else {
        let routes = u64::from(sessions) << (attachment * 8);
        return try_write_site_in_activity(routes, provider, site, payload_size, fill);
    };
    let (writer, request) = request_of_site(attachment, sessions, provider, site, payload_size)?;
    let cache = Some(&site.cache);
    // SAFETY: writers are `&'static`.
    let written = unsafe { try_write_usual(thread, attachment, cache, request, Called(fill)) };
    let written = written.or_else(|| writer.try_write(attachment, request, fill))?;
    Some(status_of_begun(written))
}

/// The host's writer, and the request for an event of a site in no activity. `None`: the host has gone, the payload is large, or
/// the site is not in the pool's site table.
#[inline(always)]
fn request_of_site(
    attachment: usize,
    sessions: u8,
    provider: &Provider,
    site: &'static Site,
    payload_size: usize,
) -> Option<(&'static Writer, Request)> {
    let writer = writer(attachment)?;
    let id = writer.intern_at(attachment, &site.cache, site.bytes());
    if id == 0 {
        return None;
    }
    Some((writer, request_of(attachment, id, sessions, provider, site, payload_size)?))
}

#[inline(always)]
fn request_of(
    attachment: usize,
    id: u32,
    sessions: u8,
    provider: &Provider,
    site: &'static Site,
    payload_size: usize,
) -> Option<Request> {
    if payload_size > MAX_PAYLOAD_SIZE - 16 {
        return None;
    }
    let payload_size = payload_size as u32;
    Some(Request {
        sessions,
        kind: 0,
        registration: provider.registrations[attachment].load(Ordering::Relaxed),
        site: id,
        user: 0,
        metadata_size: 0,
        payload_size,
        event_size: provider.size_of_static(site.metadata_size) + payload_size,
    })
}

/// [`write_site`] if the thread has an activity, or has never written.
#[inline(never)]
fn write_site_in_activity(
    provider: &Provider,
    site: &'static Site,
    routes: Routes,
    payload_size: usize,
    fill: &Fill<'_>,
) -> Status {
    try_write_site_in_activity(routes.0, provider, site, payload_size, fill)
        .unwrap_or_else(|| write_site_elsewhere(provider, site, routes, payload_size, fill))
}

/// Writes to one host with the thread's activity. `None`: nothing happened; there is no activity, or the host's pool needs attention.
#[inline(never)]
fn try_write_site_in_activity(
    routes: u64,
    provider: &Provider,
    site: &'static Site,
    payload_size: usize,
    fill: &Fill<'_>,
) -> Option<Status> {
    let activity = activity::current();
    let attachment = routes.trailing_zeros() as usize / 8 % MAX_ATTACHMENTS;
    let sessions = u8::try_from(routes >> (attachment * 8)).ok()?;
    if activity.is_zero() {
        return None;
    }
    let (writer, request) = request_of_site(attachment, sessions, provider, site, payload_size)?;
    let request = Request {
        kind: prefix::ACTIVITY,
        metadata_size: 16,
        payload_size: request.payload_size + 16,
        ..request
    };
    let written = writer.try_write(attachment, request, |room| fill(room.put(&activity.0)))?;
    Some(status_of_begun(written))
}

/// [`write_site`] with extras, on the general path.
#[inline(never)]
pub fn write_site_with(
    provider: &Provider,
    site: &'static Site,
    Routes(routes): Routes,
    extras: Extras,
    payload_size: usize,
    fill: &Fill<'_>,
) -> Status {
    let activity_id = extras.activity.unwrap_or_else(activity::current);
    let prefix = Prefix {
        activity_id: (!activity_id.is_zero()).then_some(activity_id),
        related_activity_id: extras.related,
        ..Prefix::default()
    };
    let payload_size = payload_size.min(TOO_LARGE as usize) as u32;
    let event_size = provider.size_of_static(site.metadata_size) & !STACKS;
    let event = Event { site: Some(site), prefix, user: extras.user, payload_size, event_size };
    write_any(provider, routes, &event, fill)
}
