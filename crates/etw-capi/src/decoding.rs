//! Decoding of program events: with schemas that the process has loaded, and with those of the trace that the thread is reading.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use etw_api::Guid;
use etw_decode::{Catalog, Decoded, Decoder, Source};
use etw_types::{
    Channel, CpuTimes, EventDescriptor, EventFlags, EventProperty, EventRecord, ExtType,
    ExtendedItemsBuf, HeaderType, Hook, Keyword, Level, Opcode,
};

use crate::abi::{bytes, pointer};
use crate::consumer::RawRecord;
use crate::loaded;
use crate::tdh::places::Places;

/// A decoder with the loaded schemas, and the values of the event that is being delivered.
struct Reading {
    decoder: Decoder,
    /// The generation of the loaded schemas in `decoder`.
    generation: u64,
    /// The address of the record whose callback runs.
    delivered: usize,
    /// The value offsets of that record, once a call needed them.
    places: Option<(Key, Remembered)>,
}

/// Identifies the delivered record: addresses and size of the record and its payload.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    record: usize,
    payload: usize,
    size: u16,
}

thread_local! {
    /// The traces that this thread is reading. A callback may read another trace, which is then the last element.
    static READING: RefCell<Vec<Rc<RefCell<Reading>>>> = const { RefCell::new(Vec::new()) };
    /// The decoder for events outside `ProcessTrace`.
    static ALONE: Rc<RefCell<Reading>> = Rc::new(RefCell::new(Reading::new(None)));
}

impl Reading {
    /// `build`: the build of Windows that the traces are of.
    fn new(build: Option<u32>) -> Reading {
        let mut decoder = Decoder::new();
        // `InProgress::learn` decides which records teach schemas.
        decoder.set_learning(false);
        decoder.set_own_catalog(loaded::registered().for_build(build));
        Reading { decoder, generation: 0, delivered: 0, places: None }
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

/// A `ProcessTrace` on this thread, from its start until this value is dropped.
pub struct InProgress(Rc<RefCell<Reading>>);

impl InProgress {
    /// `build`: the build of Windows that the traces are of; it decides between packs.
    pub fn begin(build: Option<u32>) -> InProgress {
        let known = Rc::new(RefCell::new(Reading::new(build)));
        READING.with_borrow_mut(|reading| reading.push(Rc::clone(&known)));
        InProgress(known)
    }

    /// Learns the schemas that a record carries.
    pub fn learn(&self, record: &EventRecord<'_>) {
        let known = &mut *self.0.borrow_mut();
        known.decoder.set_learning(true);
        known.decoder.decode(record);
        known.decoder.set_learning(false);
    }

    /// Notes the record whose callback runs next.
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

/// An event that a program passes, for the duration of a call.
pub struct Event {
    raw: RawRecord,
    address: usize,
    /// The items that decoding needs.
    items: ExtendedItemsBuf,
}

impl Event {
    /// # Safety
    /// ONE `record`, with ARRAY for its extended items, BYTES for each of them, and BYTES for the payload, until the `Event` is dropped.
    pub unsafe fn new(record: *const RawRecord) -> Option<Event> {
        if record.is_null() {
            return None;
        }
        // SAFETY: ONE.
        let raw = unsafe { record.read_unaligned() };
        let mut items = ExtendedItemsBuf::new();
        let count = if raw.items.is_null() { 0 } else { usize::from(raw.item_count) };
        for number in 0..count {
            // SAFETY: ARRAY.
            let item = unsafe { raw.items.add(number).read_unaligned() };
            // SAFETY: BYTES.
            let Some(data) = (unsafe { bytes(pointer(item.address), usize::from(item.size)) })
            else {
                continue;
            };
            // An item that no record could hold is left out.
            let _ = items.push(ExtType(item.kind), data);
        }
        Some(Event { raw, address: record.addr(), items })
    }

    /// An event of which only the provider and the descriptor are known.
    pub fn of_descriptor(provider: Guid, descriptor: EventDescriptor) -> EventRecord<'static> {
        let mut record = EventRecord::new(HeaderType::Event64, &[]);
        record.provider = Some(provider);
        record.descriptor = descriptor;
        record
    }

    /// The record in its stored form, as far as the program's copy shows it.
    pub fn record(&self) -> EventRecord<'_> {
        let header = &self.raw.header;
        let flags = EventFlags(header.flags);
        // SAFETY: BYTES, from `new`.
        let payload = unsafe { bytes(self.raw.data.cast(), usize::from(self.raw.data_size)) };
        let number = u8::try_from(header.header_type).ok();
        let kind = number.and_then(HeaderType::from_number).filter(|kind| {
            // A record that the program has made has flags, and no header type that agrees with them.
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
        record.cpu_times = Some(CpuTimes { kernel: header.kernel_time, user: header.user_time });
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
        record.extended = self.items.as_items();
        record
    }

    /// Whether the flags lack the size of pointers.
    pub fn has_no_pointer_size(&self) -> bool {
        let both = EventFlags::HEADER_32_BIT.0 | EventFlags::HEADER_64_BIT.0;
        self.raw.header.flags & both == 0
    }

    fn key(&self) -> Key {
        Key { record: self.address, payload: self.raw.data.addr(), size: self.raw.data_size }
    }
}

/// Decodes a record and calls `call` with the result. `wpp`: formats of messages that precede the loaded ones.
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

fn known() -> Rc<RefCell<Reading>> {
    let reading = READING.with_borrow(|reading| reading.last().cloned());
    reading.unwrap_or_else(|| ALONE.with(Rc::clone))
}

/// The value offsets of the event whose callback runs. Without them, a program that reads an array element by element would make the
/// library walk the payload for each element.
#[derive(Clone)]
pub struct Remembered {
    /// The address of the schema.
    pub schema: usize,
    pub places: Rc<Places>,
}

/// The value offsets of an event, if it is the one being delivered and a call has computed them.
pub fn remembered(event: &Event) -> Option<Remembered> {
    let known = known();
    let mut known = known.borrow_mut();
    known.update();
    let (key, found) = known.places.as_ref()?;
    (*key == event.key()).then(|| found.clone())
}

/// Keeps the value offsets of the event being delivered.
pub fn remember(event: &Event, found: Remembered) {
    let known = known();
    let mut known = known.borrow_mut();
    if known.delivered == event.address {
        known.places = Some((event.key(), found));
    }
}
