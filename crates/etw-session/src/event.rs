//! An event on its way into a session, and its on-disk form.

use std::sync::atomic::AtomicU64;

use etw_types::{
    Classic, EventDescriptor, EventFlags, EventHeader, EventProperty, ExtType, ExtendedItems,
    ExtendedItemsBuf, Guid,
};

use crate::enable::{EnableInfo, EnableProperties};

/// ETW's limit for a whole event: its size is a u16.
pub const MAX_EVENT_SIZE: usize = 65535;
/// The flags as stored: whether items follow is known here alone.
#[inline(always)]
fn stored_flags(flags: u16, has_items: bool) -> EventFlags {
    EventFlags(flags).without(EventFlags::EXTENDED_INFO) | EventFlags::EXTENDED_INFO.when(has_items)
}

/// One event as a host hands it over.
///
/// On disk it becomes an EVENT record: an [`EventHeader`], extended items, the payload, zeros up to a multiple of eight.
///
/// A classic event becomes a FULL, INSTANCE or MESSAGE record instead, without activity and extended items.
#[derive(Clone, Copy, Debug, Default)]
pub struct Event<'a> {
    /// Session clock.
    pub time: i64,
    /// The raw clock's time, for sessions on cycles; `None` where the writer has set the time.
    pub raw: Option<i64>,
    /// The CPU whose stream it belongs to.
    pub cpu: u16,
    /// As the host's namespace sees it.
    pub process_id: u32,
    /// As the host's namespace sees it.
    pub thread_id: u32,
    /// Its provider.
    pub provider: Guid,
    /// The provider's group; zero without one.
    pub group: Guid,
    /// Id, version, channel, level, opcode, task, keyword.
    pub descriptor: EventDescriptor,
    /// `EVENT_HEADER.Flags`; `EXTENDED_INFO` is set here.
    pub flags: u16,
    /// `EVENT_HEADER.EventProperty`.
    pub property: u16,
    /// Written with the in-private flag: sessions may exclude it.
    pub in_private: bool,
    /// Zero without one.
    pub activity_id: Guid,
    /// Extended items in on-disk form, each a multiple of eight long, linked among themselves.
    pub chain: &'a [u8],
    /// The user data.
    pub payload: &'a [u8],
    /// The call stack as an item in on-disk form, without linkage, for sessions that want it; empty without one.
    pub stack: &'a [u8],
    /// Facts about the process that sessions can add to the event.
    pub process: Option<&'a ProcessFacts>,
    /// The header of a classic event, in place of `descriptor`, flags, ids and items. The provider tests level and keywords itself, and a
    /// session that enabled it records every event.
    pub classic: Option<&'a Classic>,
}

/// The constant part of all events of one site: the record on disk up to the payload, except for a few words.
#[derive(Debug)]
pub struct Shape {
    pub(crate) provider: Guid,
    pub(crate) group: Guid,
    pub(crate) descriptor: EventDescriptor,
    /// `EVENT_HEADER` and extended items.
    head: Box<[u8]>,
    has_items: bool,
    /// The version of what a session wants by which these events are stored as they come; the last that was found.
    pub(crate) wanted: AtomicU64,
}

impl Shape {
    /// Of events of this provider (and its group), with this descriptor and these items, linked among themselves.
    pub fn new(provider: Guid, group: Guid, descriptor: EventDescriptor, chain: &[u8]) -> Shape {
        let event = Event { provider, descriptor, chain, ..Event::default() };
        let size = event.size(&[]);
        let mut head = vec![0; size].into_boxed_slice();
        event.encode(0, &[], size, &mut head);
        let has_items = !chain.is_empty();
        Shape { provider, group, descriptor, head, has_items, wanted: AtomicU64::new(u64::MAX) }
    }

    /// The provider.
    pub fn provider(&self) -> Guid {
        self.provider
    }

    /// Its group.
    pub fn group(&self) -> Guid {
        self.group
    }

    /// The descriptor.
    pub fn descriptor(&self) -> EventDescriptor {
        self.descriptor
    }

    /// The extended items.
    pub fn chain(&self) -> &[u8] {
        &self.head[EventHeader::SIZE..]
    }
}

/// An event of a [`Shape`]: as [`Event`], without activity and stack. Sessions that ask for nothing unusual store it with little work.
#[derive(Clone, Copy, Debug)]
pub struct Shaped<'a> {
    /// The part that it shares with the site's other events.
    pub shape: &'a Shape,
    /// As [`Event::time`].
    pub time: i64,
    /// As [`Event::raw`].
    pub raw: Option<i64>,
    /// As [`Event::cpu`].
    pub cpu: u16,
    /// As [`Event::process_id`].
    pub process_id: u32,
    /// As [`Event::thread_id`].
    pub thread_id: u32,
    /// As [`Event::flags`].
    pub flags: u16,
    /// As [`Event::property`].
    pub property: u16,
    /// As [`Event::in_private`].
    pub in_private: bool,
    /// As [`Event::payload`].
    pub payload: &'a [u8],
    /// As [`Event::process`].
    pub process: Option<&'a ProcessFacts>,
}

impl<'a> Shaped<'a> {
    /// The same event in its general form.
    #[inline]
    pub fn event(&self) -> Event<'a> {
        Event {
            time: self.time,
            raw: self.raw,
            cpu: self.cpu,
            process_id: self.process_id,
            thread_id: self.thread_id,
            provider: self.shape.provider,
            group: self.shape.group,
            descriptor: self.shape.descriptor,
            flags: self.flags,
            property: self.property,
            in_private: self.in_private,
            activity_id: Guid::ZERO,
            chain: self.shape.chain(),
            payload: self.payload,
            stack: &[],
            process: self.process,
            classic: None,
        }
    }

    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.shape.head.len() + self.payload.len()
    }

    /// As [`Event::encode`] of [`event`](Shaped::event).
    #[inline(always)]
    pub(crate) fn encode(&self, time: i64, size: usize, out: &mut [u8]) {
        let Some((head, rest)) = out.split_at_mut_checked(self.shape.head.len()) else { return };
        // The padding is in the last word, so write that word before the payload.
        if let Some(last) = rest.last_chunk_mut::<8>() {
            *last = [0; 8];
        }
        if let Some(rest) = rest.get_mut(..self.payload.len()) {
            rest.copy_from_slice(self.payload);
        }
        head.copy_from_slice(&self.shape.head);
        let Some(head) = head.first_chunk_mut::<{ EventHeader::SIZE }>() else { return };
        let header = EventHeader {
            size: size as u16,
            flags: stored_flags(self.flags, self.shape.has_items),
            property: EventProperty(self.property),
            thread_id: self.thread_id,
            process_id: self.process_id,
            time_stamp: time,
            ..EventHeader::default()
        };
        header.put_start(head);
    }
}

/// Extended items that a session asks for and a host knows of a process, in on-disk form without linkage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    /// The user's SID, whole items: see [`ProcessFacts::new`].
    pub(crate) sid: Vec<u8>,
    pub(crate) terminal_session: Vec<u8>,
    pub(crate) start_key: Vec<u8>,
    /// The program's file name, for filters by executable.
    pub executable: String,
}

impl ProcessFacts {
    /// SID bytes, terminal session, start key, name of the executable.
    pub fn new(
        sid: &[u8],
        terminal_session: u32,
        start_key: u64,
        executable: &str,
    ) -> ProcessFacts {
        ProcessFacts {
            sid: item(ExtType::SID, sid),
            terminal_session: item(ExtType::TS_ID, &terminal_session.to_le_bytes()),
            start_key: item(ExtType::PROCESS_START_KEY, &start_key.to_le_bytes()),
            executable: executable.to_owned(),
        }
    }

    fn items(&self) -> [(EnableProperties, &[u8]); 3] {
        [
            (EnableProperties::SID, &self.sid),
            (EnableProperties::TS_ID, &self.terminal_session),
            (EnableProperties::PROCESS_START_KEY, &self.start_key),
        ]
    }

    /// Bytes that a session with these properties adds to each event.
    pub fn extra_size(&self, properties: EnableProperties) -> usize {
        let wanted =
            self.items().into_iter().filter(|(property, _)| properties.contains(*property));
        wanted.map(|(_, item)| item.len()).sum()
    }
}

/// Extended items that a session adds to an event.
#[derive(Default)]
pub(crate) struct ExtraItems<'a> {
    items: [&'a [u8]; 4],
    count: usize,
    /// The session wants a call stack that the event lacks or that does not fit.
    pub lacks_stack: bool,
}

impl<'a> ExtraItems<'a> {
    /// Collects the items that `info` asks for. `largest` is the largest size of an event with all items. A call stack that would exceed it is
    /// omitted.
    #[inline]
    pub fn find(&mut self, info: &EnableInfo, event: &Event<'a>, largest: usize) {
        if info.properties != EnableProperties::default() && event.classic.is_none() {
            self.add(info, event, largest);
        }
    }

    #[inline(never)]
    fn add(&mut self, info: &EnableInfo, event: &Event<'a>, largest: usize) {
        for (property, item) in event.process.into_iter().flat_map(ProcessFacts::items) {
            if info.properties.contains(property) {
                self.push(item);
            }
        }
        let filter = info.filters.as_ref().map(|filters| &filters.stacks);
        let passes = |filter: &etw_types::StackFilter| {
            filter.passes(&event.descriptor, event.tracelogging_name())
        };
        if info.properties.contains(EnableProperties::STACK_TRACE) && filter.is_none_or(passes) {
            let size = event.size(self.as_slice()) + event.stack.len();
            self.lacks_stack = event.stack.is_empty() || size > largest;
            if !self.lacks_stack {
                self.push(event.stack);
            }
        }
    }

    fn push(&mut self, item: &'a [u8]) {
        self.items[self.count] = item;
        self.count += 1;
    }

    #[inline]
    pub fn as_slice(&self) -> &[&'a [u8]] {
        &self.items[..self.count]
    }
}

/// Writes a call stack as an item in its stored form, in place of what `out` held: match id 0 (the stack is whole), then
/// the addresses, innermost first.
///
/// `addresses`: eight bytes each, at most 192.
pub fn stack_item(addresses: &[u8], out: &mut ExtendedItemsBuf) {
    out.clear();
    // So few addresses always fit.
    let _ = out.push_parts(ExtType::STACK_TRACE64, &[&[0; 8], addresses]);
}

fn item(ext_type: ExtType, data: &[u8]) -> Vec<u8> {
    // A SID has at most 68 bytes.
    let data = &data[..data.len().min(1024)];
    ExtendedItemsBuf::from_items(&[(ext_type, data)])
        .map_or(Vec::new(), ExtendedItemsBuf::into_bytes)
}

impl<'a> Event<'a> {
    /// Bytes on disk, without padding, with `extra` items of the session's.
    #[inline]
    pub fn size(&self, extra: &[&[u8]]) -> usize {
        if let Some(classic) = self.classic {
            std::hint::cold_path();
            return classic.size() + self.payload.len();
        }
        let extra: usize = extra.iter().map(|item| item.len()).sum();
        EventHeader::SIZE + self.chain.len() + extra + self.payload.len()
    }

    /// Writes it to the front of `out`, which has room for [`size`](Event::size) rounded up to eight. `time`: as the session shows it.
    pub(crate) fn encode(&self, time: i64, extra: &[&[u8]], size: usize, out: &mut [u8]) {
        if let Some(classic) = self.classic {
            std::hint::cold_path();
            return crate::classic::encode(self, time, classic, out);
        }
        let has_items = !self.chain.is_empty() || !extra.is_empty();
        let Some((head, rest)) = out.split_first_chunk_mut::<{ EventHeader::SIZE }>() else {
            return;
        };
        let header = EventHeader {
            size: size as u16,
            flags: stored_flags(self.flags, has_items),
            property: EventProperty(self.property),
            thread_id: self.thread_id,
            process_id: self.process_id,
            time_stamp: time,
            provider: self.provider,
            descriptor: self.descriptor,
            activity_id: self.activity_id,
            ..EventHeader::default()
        };
        *head = header.to_bytes();
        // The room ends at a multiple of eight: what fills it up is in its last word, before what belongs there is.
        if let Some(last) = rest.last_chunk_mut::<8>() {
            *last = [0; 8];
        }
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            rest[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(self.chain);
        for item in extra {
            put(item);
        }
        put(self.payload);
        if !extra.is_empty() {
            ExtendedItems::link(&mut out[EventHeader::SIZE..size - self.payload.len()]);
        }
    }

    /// The name of a TraceLogging event, from its metadata item.
    pub fn tracelogging_name(&self) -> Option<&'a [u8]> {
        etw_tracelogging::event_name(self.metadata()?)
    }

    /// Its TraceLogging metadata.
    pub(crate) fn metadata(&self) -> Option<&'a [u8]> {
        let mut items = ExtendedItems::unlinked(self.chain);
        Some(items.find(|item| item.ext_type == ExtType::EVENT_SCHEMA_TL)?.data)
    }
}
