//! The write calls.

use std::sync::atomic::Ordering;

use etw_ring::prefix::{self, Prefix};
use etw_types::{EventDescriptor, EventFlags, EventProperty, Guid, Keyword, Level, Status};

use super::handle::provider_of;
use super::{EventDataDescriptor, MAX_DATA_DESCRIPTORS, RegHandle};
use crate::write::{
    Described, Event, Extras, Fill, LevelAndKeyword, Routes, size_on_disk,
    try_write_described_fast, write_any, write_described, write_site_with,
};
use crate::{activity, pools};

/// Writes an event in the thread's current activity.
#[doc(alias = "EventWrite")]
pub fn event_write(
    handle: RegHandle,
    descriptor: Option<&EventDescriptor>,
    data: &[EventDataDescriptor<'_>],
) -> Status {
    write(handle, descriptor, 0, 0, Activities::default(), data)
}

/// Writes an event of an activity (`None`: the thread's current one), with the activity that it comes from.
#[doc(alias = "EventWriteTransfer")]
pub fn event_write_transfer(
    handle: RegHandle,
    descriptor: Option<&EventDescriptor>,
    activity_id: Option<&Guid>,
    related_activity_id: Option<&Guid>,
    data: &[EventDataDescriptor<'_>],
) -> Status {
    let activities = Activities { id: activity_id, related: related_activity_id };
    write(handle, descriptor, 0, 0, activities, data)
}

/// The sessions that do not get an event of [`event_write_ex`], and how it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Sessions that do not get the event. Bit 32 + n is private session n: sessions have numbers from 0 in the order of their starts,
    /// and a session that starts after another has ended gets the lowest free number. Bits 0 to 31 are global sessions. Callbacks
    /// get a session's bit in the `InstanceId` of its schematised filter (`EVENT_FILTER_HEADER`).
    pub filter: u64,
    /// 1 (no faulting) has no effect; 2 (in-private) keeps the event from sessions that exclude such events
    /// (`EnableProperties::EXCLUDE_INPRIVATE`). Any other bit gives `ERROR_INVALID_PARAMETER`.
    pub flags: u32,
}

/// The activity of an event (`None`: the thread's current one), and the activity that it comes from.
#[derive(Clone, Copy, Default)]
struct Activities<'a> {
    id: Option<&'a Guid>,
    related: Option<&'a Guid>,
}

/// [`event_write_transfer`] to the sessions that `options` does not exclude.
///
/// # Errors
/// `ERROR_INVALID_PARAMETER`: unknown bits in the options' flags, or invalid data descriptors.
#[doc(alias = "EventWriteEx")]
pub fn event_write_ex(
    handle: RegHandle,
    descriptor: Option<&EventDescriptor>,
    options: WriteOptions,
    activity_id: Option<&Guid>,
    related_activity_id: Option<&Guid>,
    data: &[EventDataDescriptor<'_>],
) -> Status {
    let WriteOptions { filter, flags } = options;
    if descriptor.is_some() && flags & !3 != 0 {
        return Status::ERROR_INVALID_PARAMETER;
    }
    let user = if flags & 2 != 0 { prefix::IN_PRIVATE } else { 0 };
    let activities = Activities { id: activity_id, related: related_activity_id };
    write(handle, descriptor, user, filter, activities, data)
}

/// Writes a text: an event without an id, with the property `EVENT_HEADER_PROPERTY_LEGACY_EVENTLOG` and
/// the flag `EVENT_HEADER_FLAG_STRING_ONLY`.
#[doc(alias = "EventWriteString")]
pub fn event_write_string(handle: RegHandle, level: Level, keyword: Keyword, text: &str) -> Status {
    event_write_units(handle, level, keyword, &text.encode_utf16().collect::<Vec<u16>>())
}

/// [`event_write_string`] of UTF-16 units, valid or not; a zero unit is added at the end.
pub fn event_write_units(
    handle: RegHandle,
    level: Level,
    keyword: Keyword,
    text: &[u16],
) -> Status {
    let units: Vec<u8> = text.iter().copied().chain([0]).flat_map(u16::to_le_bytes).collect();
    let descriptor = EventDescriptor { level, keyword, ..EventDescriptor::default() };
    let user =
        u32::from(EventProperty::LEGACY_EVENTLOG.0) | u32::from(EventFlags::STRING_ONLY.0) << 16;
    write(
        handle,
        Some(&descriptor),
        user,
        0,
        Activities::default(),
        &[EventDataDescriptor::new(&units)],
    )
}

/// [`event_write_transfer`] with the header's `EventProperty`: XML 1, forwarded XML 2, legacy event log 4, reloggable 8.
#[doc(alias = "EtwEventWriteFull")]
pub fn etw_event_write_full(
    handle: RegHandle,
    descriptor: Option<&EventDescriptor>,
    event_property: u16,
    activity_id: Option<&Guid>,
    related_activity_id: Option<&Guid>,
    data: &[EventDataDescriptor<'_>],
) -> Status {
    let user = u32::from(event_property);
    let activities = Activities { id: activity_id, related: related_activity_id };
    write(handle, descriptor, user, 0, activities, data)
}

/// How [`event_write_site_ex`] writes.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SiteOptions {
    /// The options of [`event_write_ex`].
    pub write: WriteOptions,
    /// Activity ids.
    pub ids: Extras,
}

/// [`event_write_ex`] of a site.
#[doc(hidden)]
pub fn event_write_site_ex(
    handle: RegHandle,
    site: &'static crate::rt::Site,
    options: SiteOptions,
    payload_size: usize,
    fill: &Fill<'_>,
) -> Status {
    let SiteOptions { write: WriteOptions { filter, flags }, ids } = options;
    if flags & !3 != 0 {
        return Status::ERROR_INVALID_PARAMETER;
    }
    let Some((_, provider)) = provider_of(handle) else { return Status::ERROR_INVALID_HANDLE };
    let LevelAndKeyword { level, keyword } = site.level_and_keyword();
    if !provider.has_level(level) {
        return Status::ERROR_SUCCESS;
    }
    match provider.routes(level, keyword) & !pools::excluded_routes(filter) {
        0 => Status::ERROR_SUCCESS,
        routes => {
            let user = if flags & 2 != 0 { prefix::IN_PRIVATE } else { 0 };
            write_site_with(
                provider,
                site,
                Routes(routes),
                Extras { user, ..ids },
                payload_size,
                fill,
            )
        }
    }
}

/// The size of an event of payload alone. `None`: there are data descriptors of other kinds, or too many ones.
#[inline]
fn payload_size(data: &[EventDataDescriptor<'_>], has_types: bool) -> Option<usize> {
    let is_payload = |piece: &EventDataDescriptor<'_>| piece.kind == EventDataDescriptor::USER_DATA;
    if data.len() > MAX_DATA_DESCRIPTORS || has_types && !data.iter().all(is_payload) {
        return None;
    }
    Some(data.iter().fold(0, |size: usize, piece| size.saturating_add(piece.data.len())))
}

/// A descriptor's sixteen bytes, as two words.
#[inline]
fn words_of(descriptor: &EventDescriptor) -> [u64; 2] {
    let EventDescriptor { id, version, channel, level, opcode, task, keyword } = *descriptor;
    let [id, task] = [id.to_le_bytes(), task.to_le_bytes()];
    let head = [id[0], id[1], version, channel.0, level.0, opcode.0, task[0], task[1]];
    [u64::from_le_bytes(head), keyword.0]
}

#[inline]
fn write(
    handle: RegHandle,
    descriptor: Option<&EventDescriptor>,
    user: u32,
    exclude: u64,
    activities: Activities<'_>,
    data: &[EventDataDescriptor<'_>],
) -> Status {
    let Some(descriptor) = descriptor else { return Status::ERROR_INVALID_PARAMETER };
    let Some((entry, provider)) = provider_of(handle) else { return Status::ERROR_INVALID_HANDLE };
    if !provider.has_level(descriptor.level) {
        return Status::ERROR_SUCCESS;
    }
    let mut routes = provider.routes(descriptor.level, descriptor.keyword);
    if exclude != 0 {
        routes &= !pools::excluded_routes(exclude);
    }
    if routes == 0 {
        return Status::ERROR_SUCCESS;
    }
    let has_types = entry.has_types.load(Ordering::Relaxed);
    let is_plain = user == 0 && exclude == 0;
    if let Some(size) = payload_size(data, has_types).filter(|_| is_plain) {
        let Activities { id: activity, related } = activities;
        let descriptor = words_of(descriptor);
        let fill: &Fill<'_> = &|room| data.iter().fold(room, |room, piece| room.put(piece.data));
        if routes == 1 && activity.is_none() && related.is_none() {
            let written = try_write_described_fast(provider, &descriptor, 1, size, fill);
            if let Some(status) = written {
                return status;
            }
        }
        let event = Described { descriptor, activity, related };
        return write_described(provider, event, Routes(routes), size, fill);
    }
    let mut prefix = Prefix { descriptor: Some(*descriptor), ..Prefix::default() };
    let mut size = 0usize;
    if data.len() > MAX_DATA_DESCRIPTORS {
        return Status::ERROR_INVALID_PARAMETER;
    }
    for piece in data {
        match if has_types { piece.kind } else { EventDataDescriptor::USER_DATA } {
            EventDataDescriptor::USER_DATA => size = size.saturating_add(piece.data.len()),
            EventDataDescriptor::EVENT_METADATA => prefix.metadata = piece.data,
            EventDataDescriptor::PROVIDER_METADATA => prefix.traits = piece.data,
            EventDataDescriptor::TIMESTAMP_OVERRIDE => match piece.data.try_into() {
                Ok(bytes) => prefix.time = Some(i64::from_le_bytes(bytes)),
                Err(_) => return Status::ERROR_INVALID_PARAMETER,
            },
            _ => return Status::ERROR_INVALID_PARAMETER,
        }
    }
    for blob in [prefix.traits, prefix.metadata] {
        // Each blob starts with its own size; a wrong one would make readers go past its end.
        let own_size = blob.first_chunk().map(|size| usize::from(u16::from_le_bytes(*size)));
        if !blob.is_empty() && (blob.len() < 4 || own_size != Some(blob.len())) {
            return Status::ERROR_INVALID_PARAMETER;
        }
    }
    // Empty traits are not compared: a compare of no bytes at a dangling address costs 100 ns with masked loads.
    if !prefix.traits.is_empty() && prefix.traits == provider.traits() {
        prefix.traits = &[];
    }
    let current = activity::current();
    prefix.activity_id = Some(*activities.id.unwrap_or(&current)).filter(|id| !id.is_zero());
    prefix.related_activity_id = activities.related.copied();
    let traits = match (prefix.metadata.is_empty(), prefix.traits.is_empty()) {
        (true, _) => 0,
        (false, true) => provider.traits().len(),
        (false, false) => prefix.traits.len(),
    };
    let event = Event {
        site: None,
        prefix,
        user,
        payload_size: size.min(1 << 24) as u32,
        event_size: size_on_disk(traits, prefix.metadata.len()),
    };
    let fill: &Fill<'_> = &|mut room| {
        for piece in data {
            if !has_types || piece.kind == EventDataDescriptor::USER_DATA {
                room = room.put(piece.data);
            }
        }
        room
    };
    #[cfg(windows)]
    if exclude != 0 {
        return crate::write::write_any_excluding(provider, routes, &event, exclude, fill);
    }
    write_any(provider, routes, &event, fill)
}
