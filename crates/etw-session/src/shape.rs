//! Events of one site: their constant part, and the parts of one event.

use std::sync::atomic::AtomicU64;

use etw_types::{EventDescriptor, EventHeader, EventProperty, Guid};

use crate::copy::copy;
use crate::event::{Event, ProcessFacts};
use crate::event_record::stored_flags;

/// The constant part of all events of one site: the record on disk up to the payload, except for a few words.
#[derive(Debug)]
pub struct Shape {
    pub(crate) provider: Guid,
    pub(crate) group: Guid,
    pub(crate) descriptor: EventDescriptor,
    /// `EVENT_HEADER` and extended items.
    head: Box<[u8]>,
    has_items: bool,
    /// The last version of a session's enablements under which these events are stored unchanged.
    pub(crate) wanted: AtomicU64,
}

impl Shape {
    /// The shape of a provider's events with this descriptor and these linked extended items.
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

/// An event of a [`Shape`]: an [`Event`] without activity and call stack. A session without filters stores it with little work.
#[derive(Clone, Copy, Debug)]
pub struct Shaped<'a> {
    /// The part that all events of the site share.
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
        let start = &*self.shape.head;
        let Some((head, rest)) = out.split_at_mut_checked(start.len()) else { return };
        // The padding is in the last word, so write that word before the payload.
        if let Some(last) = rest.last_chunk_mut::<8>() {
            *last = [0; 8];
        }
        if let Some(rest) = rest.get_mut(..self.payload.len()) {
            copy(rest, self.payload);
        }
        head.copy_from_slice(start);
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
