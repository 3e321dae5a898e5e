//! Which schemas an event has: those that the process has loaded, and those of the trace that its thread is reading.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use etw_api::Guid;
use etw_decode::{Catalog, Decoded, Decoder, Source};
use etw_types::{
    Channel, EventDescriptor, EventFlags, EventProperty, EventRecord, ExtendedItems, HeaderType,
    Hook, Keyword, Level, Opcode,
};

use crate::consumer::{RawRecord, header_of};
use crate::loaded;
use crate::tdh::places::Places;

/// A decoder, and which loaded schemas it knows.
struct Known {
    decoder: Decoder,
    generation: u64,
    /// The record whose callback runs, as its address.
    delivered: usize,
    /// Where its values lie, once that was asked for.
    places: Option<(Key, Remembered)>,
}

/// What says that a record is still the one that was delivered.
type Key = (usize, usize, u16);

thread_local! {
    /// The traces that this thread is reading, the innermost last: a callback may read another.
    static READING: RefCell<Vec<Rc<RefCell<Known>>>> = const { RefCell::new(Vec::new()) };
    /// For events that come from elsewhere.
    static ALONE: Rc<RefCell<Known>> = Rc::new(RefCell::new(Known::new()));
}

impl Known {
    fn new() -> Known {
        let mut decoder = Decoder::new();
        // It is told what to learn from, once.
        decoder.set_learning(false);
        decoder.set_own_catalog(loaded::registered());
        Known { decoder, generation: 0, delivered: 0, places: None }
    }

    fn update(&mut self) {
        let (generation, catalog) = loaded::catalog();
        if generation != self.generation {
            self.generation = generation;
            self.decoder.set_catalog(catalog);
            self.places = None;
        }
    }
}

/// A `ProcessTrace` that has begun on this thread, until it is dropped.
pub struct InProgress(Rc<RefCell<Known>>);

impl InProgress {
    pub fn begin() -> InProgress {
        let known = Rc::new(RefCell::new(Known::new()));
        READING.with_borrow_mut(|reading| reading.push(Rc::clone(&known)));
        InProgress(known)
    }

    /// Keeps what a record says of other events.
    pub fn learn(&self, record: &EventRecord<'_>) {
        let known = &mut *self.0.borrow_mut();
        known.decoder.set_learning(true);
        known.decoder.decode(record);
        known.decoder.set_learning(false);
    }

    /// The callback of this record is called next.
    pub fn deliver(&self, record: *const RawRecord) {
        let known = &mut *self.0.borrow_mut();
        known.delivered = record.addr();
        known.places = None;
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        READING.with_borrow_mut(|reading| reading.retain(|known| !Rc::ptr_eq(known, &self.0)));
    }
}

/// An event of the program's, for the time of a call.
pub struct Event {
    raw: RawRecord,
    address: usize,
    /// The items that decoding needs, as a chain that can be walked.
    chain: Vec<u8>,
}

impl Event {
    /// # Safety
    /// NULL, or a record that leads to its items and its data, which stay as they are while this lives.
    pub unsafe fn new(record: *const RawRecord) -> Option<Event> {
        if record.is_null() {
            return None;
        }
        // SAFETY: the caller's promise.
        let raw = unsafe { record.read_unaligned() };
        let mut chain: Vec<u8> = Vec::new();
        let mut last = None;
        let count = if raw.items.is_null() { 0 } else { usize::from(raw.item_count) };
        for number in 0..count {
            // SAFETY: the caller's promise.
            let item = unsafe { raw.items.add(number).read_unaligned() };
            let total = (8 + usize::from(item.size)).next_multiple_of(8);
            let Ok(stored) = u16::try_from(total) else { continue };
            // SAFETY: the caller's promise.
            let Some(data) = (unsafe { bytes(item.address, usize::from(item.size)) }) else {
                continue;
            };
            last = Some(chain.len());
            for word in [stored, item.kind, 1, item.size] {
                chain.extend(word.to_le_bytes());
            }
            chain.extend(data);
            chain.resize(chain.len().next_multiple_of(8), 0);
        }
        if let Some(last) = last {
            chain[last + 4] = 0;
        }
        Some(Event { raw, address: record.addr(), chain })
    }

    /// An event of a provider that nothing is known of but its descriptor.
    pub fn of_descriptor(provider: Guid, descriptor: EventDescriptor) -> EventRecord<'static> {
        let mut record = EventRecord::new(HeaderType::Event64, &[]);
        record.provider = Some(provider);
        record.descriptor = descriptor;
        record
    }

    /// The record as it was stored, as far as it can be told.
    pub fn record(&self) -> EventRecord<'_> {
        let header = &self.raw.header;
        let flags = EventFlags(header.flags);
        // SAFETY: the promise to `new`.
        let payload =
            unsafe { bytes(self.raw.data.addr() as u64, usize::from(self.raw.data_size)) };
        let kind = header_of(header.header_type).filter(|kind| {
            // A record that a program has made has the flags alone.
            let is_classic = kind.is_classic() || kind.is_kernel();
            is_classic == flags.contains(EventFlags::CLASSIC_HEADER)
                && (*kind == HeaderType::Message) == flags.contains(EventFlags::TRACE_MESSAGE)
        });
        let kind = kind.unwrap_or(if flags.contains(EventFlags::TRACE_MESSAGE) {
            HeaderType::Message
        } else if flags.contains(EventFlags::CLASSIC_HEADER) {
            HeaderType::Full64
        } else {
            HeaderType::Event64
        });
        let d = &header.descriptor;
        let mut record = EventRecord::new(kind, payload.unwrap_or_default());
        record.pointer_size = if flags.contains(EventFlags::HEADER_32_BIT) { 4 } else { 8 };
        record.cpu = self.raw.buffer.cpu;
        record.flags = flags;
        record.property = EventProperty(header.property);
        record.order_time = header.time;
        record.process_id = Some(header.process_id);
        record.thread_id = Some(header.thread_id);
        record.cpu_times = Some((header.kernel_time, header.user_time));
        let provider = header.provider.guid();
        record.provider = Some(provider);
        record.activity_id = header.activity.guid();
        record.descriptor = EventDescriptor {
            id: d.id,
            version: d.version,
            channel: Channel(d.channel),
            level: Level(d.level),
            opcode: Opcode(d.opcode),
            task: d.task,
            keyword: Keyword(d.keyword),
        };
        if kind.is_kernel() {
            let hooks =
                (0..=u8::MAX).map(|group| Hook(u16::from(group) << 8 | u16::from(d.opcode)));
            record.hook = hooks.into_iter().find(|hook| hook.class_guid() == Some(provider));
        }
        if !self.chain.is_empty()
            && let Ok((items, _)) = ExtendedItems::parse_chain(&self.chain)
        {
            record.extended = items;
        }
        record
    }

    /// Says nothing of the width of its pointers.
    pub fn has_no_pointer_size(&self) -> bool {
        let both = EventFlags::HEADER_32_BIT.0 | EventFlags::HEADER_64_BIT.0;
        self.raw.header.flags & both == 0
    }

    fn key(&self) -> Key {
        (self.address, self.raw.data.addr(), self.raw.data_size)
    }
}

/// # Safety
/// So many bytes are there and stay as they are for `'a`.
unsafe fn bytes<'a>(address: u64, size: usize) -> Option<&'a [u8]> {
    if size == 0 {
        return Some(&[]);
    }
    let start = std::ptr::with_exposed_provenance::<u8>(usize::try_from(address).ok()?);
    if start.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { std::slice::from_raw_parts(start, size) })
}

/// Finds the record's schema and calls with it; `wpp`: formats of messages that go first.
pub fn decode<T>(
    record: &EventRecord<'_>,
    wpp: Option<Arc<Catalog>>,
    call: impl FnOnce(&Decoded<'_>) -> T,
) -> T {
    if let Some(catalog) = wpp {
        let mut decoder = Decoder::new();
        decoder.set_learning(false);
        decoder.set_catalog(catalog);
        let decoded = decoder.decode(record);
        if decoded.source() == Some(Source::Wpp) {
            return call(&decoded);
        }
    }
    let known = known();
    let mut known = known.borrow_mut();
    known.update();
    call(&known.decoder.decode(record))
}

fn known() -> Rc<RefCell<Known>> {
    let reading = READING.with_borrow(|reading| reading.last().cloned());
    reading.unwrap_or_else(|| ALONE.with(Rc::clone))
}

/// Where the values of the event lie whose callback runs, once it was found out: a program that asks for each element of an array would
/// have the payload walked as often.
#[derive(Clone)]
pub struct Remembered {
    /// The schema that they are of, as its address.
    pub schema: usize,
    pub places: Rc<Places>,
}

/// The places of this event, if it is the delivered one and they were found.
pub fn remembered(event: &Event) -> Option<Remembered> {
    let known = known();
    let mut known = known.borrow_mut();
    known.update();
    let (key, found) = known.places.as_ref()?;
    (*key == event.key()).then(|| found.clone())
}

/// Keeps the places of the delivered event.
pub fn remember(event: &Event, found: Remembered) {
    let known = known();
    let mut known = known.borrow_mut();
    if known.delivered == event.address {
        known.places = Some((event.key(), found));
    }
}
