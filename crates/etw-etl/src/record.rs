//! The headers of single records inside a buffer.
//!
//! Every record starts at a multiple of eight; its first four bytes, the *marker*, say which header it has:
//!
//! ```text
//! FFFFFFFF                       end of the buffer
//! byte 3 & C0 == C0              trace header of the type in byte 2
//! byte 3 & D0 == 90, not B0      WPP message, size in the low half
//! byte 3 & 80 == 0               WNODE with a 32-bit size (obsolete), or damage
//! ```
//!
//! | type | header | bytes | size at |
//! |---|---|---|---|
//! | 01 02 | SYSTEM | 20 | 4 |
//! | 03 04 | COMPACT | 18 | 4 |
//! | 0A 14 | FULL | 30 | 0 |
//! | 0B 15 | INSTANCE | 48, 38 before Windows Server 2003 | 0 |
//! | 0D | ERROR | 50 | 0 |
//! | 10 11 | PERFINFO | 10 and counters | 4 |
//! | 12 13 | EVENT | 50 and extended items | 0 |
//!
//! Source: Microsoft's published headers and documents, Chappell's studies; SYSTEM, PERFINFO, FULL, EVENT and
//! MESSAGE checked against traces of Windows 7 to 11. COMPACT, INSTANCE, ERROR and WNODE were never seen in a trace
//! and rest on documents. Type 0C (TIMED), 0E and 16 have no known size.

use crate::DamageKind;
use etw_types::{
    Channel, CpuTimes, EventDescriptor, EventFlags, EventHeader, EventProperty, EventRecord,
    ExtendedItems, Guid, HeaderType, Hook, Keyword, Level, MessageFlags, Opcode, le,
};

/// In the version word of kernel headers: a PEBS index stands behind the header.
pub(crate) const PEBS_INDEX: u16 = 0x8000;
/// In the version word of kernel headers: how many performance counters stand behind it.
pub(crate) const COUNTER_MASK: u16 = 0x0700;
/// `Flags` bit of a WNODE that is a trace record.
pub(crate) const WNODE_TRACED_GUID: u32 = 0x0002_0000;

/// Facts about a file that parsing its records needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordContext {
    /// Pointer size of records that do not store their own.
    pub pointer_size: u8,
    /// Layout before 1.1 (XP): INSTANCE headers have 0x38 bytes and handles in place of GUIDs.
    pub old_instance: bool,
}

impl Default for RecordContext {
    fn default() -> RecordContext {
        RecordContext { pointer_size: 8, old_instance: false }
    }
}

/// A record's extent and time, enough to walk and to merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The kind of the header.
    pub header: HeaderType,
    /// Exact length; the next record is at the next multiple of eight.
    pub size: u32,
    /// Session clock; `None` for a MESSAGE without a time.
    pub time: Option<i64>,
}

/// The parts of a record that was checked when its buffer was loaded: enough to parse it again without a second check.
///
/// ```text
///  31          19 18   16 15         0
/// ┌──────────────┬───────┬────────────┐   items: bytes of an event's extended items, in eights
/// │ items        │ shape │ size       │   size: exact length of the record
/// └──────────────┴───────┴────────────┘
/// ```
///
/// One word, so that the walk over a buffer stores it at once, and the merge knows the shape before the record's bytes have come.
/// 0: the header is none of an event, of the kernel or of a classic event without instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent(u32);

/// Headers that are parsed alike.
mod shape {
    pub const EVENT32: u32 = 1;
    pub const EVENT64: u32 = 2;
    pub const PERF_INFO32: u32 = 3;
    pub const PERF_INFO64: u32 = 4;
    pub const SYSTEM: u32 = 5;
    pub const COMPACT: u32 = 6;
    pub const FULL: u32 = 7;
}

impl Extent {
    /// `items` is a multiple of eight: an item that is none ends the walk over them.
    #[inline(always)]
    fn new(shape: u32, size: u32, items: u32) -> Extent {
        Extent(items << 16 | shape << 16 | size)
    }

    /// The extent of the record at the front of `room`, whose frame is known. `None`: extended items exceed the record.
    #[inline(always)]
    pub(crate) fn of(room: &[u8], frame: &Frame) -> Option<Extent> {
        use HeaderType::*;
        let shape = match frame.header {
            Event32 => shape::EVENT32,
            Event64 => shape::EVENT64,
            PerfInfo32 => shape::PERF_INFO32,
            PerfInfo64 => shape::PERF_INFO64,
            System32 | System64 => shape::SYSTEM,
            Compact32 | Compact64 => shape::COMPACT,
            Full32 | Full64 => shape::FULL,
            _ => return Some(Extent::default()),
        };
        let items = match frame.header.is_event() {
            true => items_size(&room[..frame.size as usize])?,
            false => 0,
        };
        Some(Extent::new(shape, frame.size, items as u32))
    }

    /// Extent and time of the whole record at the front of `room`, as by [`frame`] and [`Extent::of`] but for few instructions. `None`: those
    /// must look at it, for it is damaged, or of a kind that is rare.
    #[inline(always)]
    pub(crate) fn of_usual(room: &[u8]) -> Option<(Extent, i64)> {
        use number::*;
        let head = room.first_chunk::<0x18>()?;
        if head[3] & 0xc0 != HeaderType::MARKER {
            return None;
        }
        let [size, size_word] = [0, 4].map(|at| u16::from_le_bytes([head[at], head[at + 1]]));
        let extended = EventFlags(size_word).contains(EventFlags::EXTENDED_INFO);
        let event = |shape| (shape, size, EventHeader::SIZE as u32, 0x10, extended);
        let counted = |shape, header_size: u32, time_at| {
            (shape, size_word, header_size + counter_bytes(size), time_at, false)
        };
        let (shape, size, header_size, time_at, has_items) = match head[2] {
            EVENT32 => event(shape::EVENT32),
            EVENT64 => event(shape::EVENT64),
            PERF_INFO32 => counted(shape::PERF_INFO32, 0x10, 0x08),
            PERF_INFO64 => counted(shape::PERF_INFO64, 0x10, 0x08),
            SYSTEM32 | SYSTEM64 => counted(shape::SYSTEM, 0x20, 0x10),
            FULL32 | FULL64 => (shape::FULL, size, 0x30, 0x10, false),
            _ => return None,
        };
        if u32::from(size) < header_size || usize::from(size) > room.len() {
            return None;
        }
        let items = if has_items { items_size(&room[..usize::from(size)])? as u32 } else { 0 };
        Some((Extent::new(shape, u32::from(size), items), le::i64(head, time_at)?))
    }

    /// The length, if it is known without parsing.
    #[inline]
    pub(crate) fn size(self) -> Option<u32> {
        let size = self.0 & 0xffff;
        (size != 0).then_some(size)
    }

    #[inline(always)]
    fn shape(self) -> u32 {
        self.0 >> 16 & 7
    }

    /// Bytes of an event's extended items.
    #[inline(always)]
    fn items(self) -> usize {
        (self.0 >> 16 & !7) as usize
    }
}

/// The extent and time of the record at the front of `room`, which ends with the filled part of the buffer.
///
/// The length is checked against the header's and the room, so that [`parse`] can rely on it.
///
/// # Errors
/// `UnknownRecord` or `RecordSize` with `at` and `skipped` 0: the next record cannot be found.
#[inline]
pub fn frame(room: &[u8], context: &RecordContext) -> Result<Frame, DamageKind> {
    let Some(&[b0, b1, kind, flags]) = room.first_chunk::<4>() else {
        return Err(size_error(room.len() as u32, room));
    };
    let low = u16::from_le_bytes([b0, b1]);
    if flags & 0xc0 != HeaderType::MARKER {
        return frame_without_type(room, low, kind, flags);
    }
    use HeaderType::*;
    let size_word = || le::u16(room, 4).map_or(0, u32::from);
    // Each arm has constants: a table costs a third more.
    let counted = |header: HeaderType, time_offset| {
        (header, size_word(), time_offset, header.header_size() as u32 + counter_bytes(low))
    };
    let plain = |header: HeaderType| (header, u32::from(low), 0x10, header.header_size() as u32);
    let instance = |header| (header, u32::from(low), 0x10, instance_size(context));
    let (header, size, time_offset, header_size) = match kind {
        number::EVENT32 => plain(Event32),
        number::EVENT64 => plain(Event64),
        number::PERF_INFO32 => counted(PerfInfo32, 0x08),
        number::PERF_INFO64 => counted(PerfInfo64, 0x08),
        number::SYSTEM32 => counted(System32, 0x10),
        number::SYSTEM64 => counted(System64, 0x10),
        number::COMPACT32 => counted(Compact32, 0x10),
        number::COMPACT64 => counted(Compact64, 0x10),
        number::FULL32 => plain(Full32),
        number::FULL64 => plain(Full64),
        number::INSTANCE32 => instance(Instance32),
        number::INSTANCE64 => instance(Instance64),
        number::ERROR => plain(Error),
        _ => return Err(unknown(room)),
    };
    if size < header_size || size as usize > room.len() {
        return Err(size_error(size, room));
    }
    Ok(Frame { header, size, time: le::i64(room, time_offset) })
}

/// Numbers of header types, as patterns.
mod number {
    use etw_types::HeaderType;

    pub const SYSTEM32: u8 = HeaderType::System32.number();
    pub const SYSTEM64: u8 = HeaderType::System64.number();
    pub const COMPACT32: u8 = HeaderType::Compact32.number();
    pub const COMPACT64: u8 = HeaderType::Compact64.number();
    pub const FULL32: u8 = HeaderType::Full32.number();
    pub const FULL64: u8 = HeaderType::Full64.number();
    pub const INSTANCE32: u8 = HeaderType::Instance32.number();
    pub const INSTANCE64: u8 = HeaderType::Instance64.number();
    pub const ERROR: u8 = HeaderType::Error.number();
    pub const PERF_INFO32: u8 = HeaderType::PerfInfo32.number();
    pub const PERF_INFO64: u8 = HeaderType::PerfInfo64.number();
    pub const EVENT32: u8 = HeaderType::Event32.number();
    pub const EVENT64: u8 = HeaderType::Event64.number();
}

#[inline(never)]
fn frame_without_type(room: &[u8], low: u16, kind: u8, flags: u8) -> Result<Frame, DamageKind> {
    if flags & 0xd0 == HeaderType::MESSAGE_MARKER && flags != 0xb0 {
        let size = u32::from(low);
        let parts = le::u16(room, 6).map(|word| message_parts(MessageFlags(word)));
        let Some(parts) = parts else { return Err(size_error(size, room)) };
        if (size as usize) < parts.arguments || size as usize > room.len() {
            return Err(size_error(size, room));
        }
        let time = parts.time.and_then(|at| le::i64(room, at));
        return Ok(Frame { header: HeaderType::Message, size, time });
    }
    // A WNODE has the 32-bit size first; half of all random bytes look like one, so its flags must agree.
    let size = u32::from(low) | u32::from(kind) << 16 | u32::from(flags) << 24;
    let traced = le::u32(room, 0x2c).is_some_and(|word| word & WNODE_TRACED_GUID != 0);
    if flags & 0x80 == 0 && (0x30..=room.len()).contains(&(size as usize)) && traced {
        return Ok(Frame { header: HeaderType::Wnode, size, time: le::i64(room, 0x10) });
    }
    Err(unknown(room))
}

#[cold]
fn unknown(room: &[u8]) -> DamageKind {
    DamageKind::UnknownRecord { marker: le::u32(room, 0).unwrap_or(0), at: 0, skipped: 0 }
}

#[cold]
fn size_error(size: u32, room: &[u8]) -> DamageKind {
    DamageKind::RecordSize { size, room: room.len() as u32, at: 0 }
}

#[inline]
fn counter_bytes(version: u16) -> u32 {
    u32::from((version & COUNTER_MASK) >> 8) * 8 + if version & PEBS_INDEX != 0 { 8 } else { 0 }
}

fn instance_size(context: &RecordContext) -> u32 {
    if context.old_instance { 0x38 } else { HeaderType::Instance64.header_size() as u32 }
}

/// Offsets of the optional parts of a message, in their fixed order.
struct MessageParts {
    sequence: Option<usize>,
    component: Option<usize>,
    guid: Option<usize>,
    time: Option<usize>,
    system_info: Option<usize>,
    arguments: usize,
}

fn message_parts(flags: MessageFlags) -> MessageParts {
    let mut at = HeaderType::Message.header_size();
    let mut part = |present: bool, size: usize| {
        let start = at;
        at += if present { size } else { 0 };
        present.then_some(start)
    };
    let component = flags.contains(MessageFlags::COMPONENT_ID);
    let timed = flags.contains(MessageFlags::TIMESTAMP);
    let room_for_time = timed || flags.contains(MessageFlags::PERFORMANCE_TIMESTAMP);
    MessageParts {
        sequence: part(flags.contains(MessageFlags::SEQUENCE), 4),
        component: part(component, 4),
        guid: part(!component && flags.contains(MessageFlags::GUID), 16),
        time: part(room_for_time, 8).filter(|_| timed),
        system_info: part(flags.contains(MessageFlags::SYSTEM_INFO), 8),
        arguments: at,
    }
}

/// The offset of the time in a header other than that of a MESSAGE.
#[inline]
fn time_offset(header: HeaderType) -> usize {
    if matches!(header, HeaderType::PerfInfo32 | HeaderType::PerfInfo64) { 0x08 } else { 0x10 }
}

/// Replaces the time of a stored record; `header` is its type. `false` if it has none.
pub fn set_time(record: &mut [u8], header: HeaderType, time: i64) -> bool {
    let at = match header {
        HeaderType::Message => {
            le::u16(record, 6).and_then(|word| message_parts(MessageFlags(word)).time)
        }
        _ => Some(time_offset(header)),
    };
    let field = at.and_then(|at| record.get_mut(at..at + 8));
    field.is_some_and(|field| {
        field.copy_from_slice(&time.to_le_bytes());
        true
    })
}

/// Parses one record. The caller sets `cpu`, `position`, and `order_time` of records without a time.
///
/// # Errors
/// `RecordParts` with `at` 0 if extended items exceed the record; the record's extent is still good. The errors of
/// [`frame`] if `record` is not exactly one record.
#[inline]
pub fn parse<'a>(record: &'a [u8], context: &RecordContext) -> Result<EventRecord<'a>, DamageKind> {
    let frame = frame(record, context)?;
    of_frame(record, &frame, context).ok_or(DamageKind::RecordParts { at: 0 })
}

/// As [`parse`], for a record that [`Records`](crate::read::Records) returned with this extent. It is made in `place`.
///
/// # Panics
/// If `record` has changed since, such that it is no record any more.
#[inline(always)]
pub fn parse_checked<'a, 'p>(
    place: &'p mut Option<EventRecord<'a>>,
    record: &'a [u8],
    extent: Extent,
    context: &RecordContext,
) -> &'p mut EventRecord<'a> {
    parse_usual(place, record, extent, |place| parse_unusual(place, record, context))
}

/// A record that was checked when its buffer was loaded; its bytes are this process's own copy.
#[inline(never)]
pub(crate) fn parse_unusual<'a, 'p>(
    place: &'p mut Option<EventRecord<'a>>,
    record: &'a [u8],
    context: &RecordContext,
) -> &'p mut EventRecord<'a> {
    match parse(record, context) {
        Ok(parsed) => place.insert(parsed),
        Err(_) => unreachable!("a record that was checked when its buffer was loaded"),
    }
}

/// [`parse`] of a checked record by its extent; `otherwise` parses the other ones.
// Each shape makes its record in the caller's place, and stores each field once. A record has thirty fields, and processors store once
// or twice a cycle.
#[inline(always)]
pub(crate) fn parse_usual<'a, 'p>(
    place: &'p mut Option<EventRecord<'a>>,
    record: &'a [u8],
    extent: Extent,
    otherwise: impl FnOnce(&'p mut Option<EventRecord<'a>>) -> &'p mut EventRecord<'a>,
) -> &'p mut EventRecord<'a> {
    use HeaderType::*;
    let of = |wide: HeaderType, narrow| match record.get(2) == Some(&wide.number()) {
        true => wide,
        false => narrow,
    };
    macro_rules! make {
        ($parts:expr, $fill:ident, $header:expr) => {
            if let Some(parts) = $parts {
                let header = $header;
                // The header is loaded as a whole: the compiler cannot know that a store into the record leaves it as it is.
                let head = *parts.0;
                let event = place.insert(EventRecord::new(header, &[]));
                $fill(event, header, &head, parts.1);
                return event;
            }
        };
    }
    match extent.shape() {
        shape::EVENT64 => make!(split_event(record, extent.items()), fill_event, Event64),
        shape::EVENT32 => make!(split_event(record, extent.items()), fill_event, Event32),
        shape::PERF_INFO64 => make!(split_kernel(record), fill_perf_info, PerfInfo64),
        shape::PERF_INFO32 => make!(split_kernel(record), fill_perf_info, PerfInfo32),
        shape::SYSTEM => make!(split_kernel(record), fill_system, of(System64, System32)),
        shape::COMPACT => make!(split_kernel(record), fill_compact, of(Compact64, Compact32)),
        shape::FULL => make!(record.split_first_chunk(), fill_full, of(Full64, Full32)),
        _ => {}
    }
    otherwise(place)
}

/// [`parse`] for a record whose frame is known. `None`: extended items exceed the record.
#[inline]
fn of_frame<'a>(
    record: &'a [u8],
    frame: &Frame,
    context: &RecordContext,
) -> Option<EventRecord<'a>> {
    let record = &record[..frame.size as usize];
    let extent = Extent::of(record, frame)?;
    if extent.size().is_some() {
        let (mut place, mut is_whole) = (None, true);
        let event = *parse_usual(&mut place, record, extent, |place| {
            is_whole = false;
            place.insert(EventRecord::new(frame.header, &[]))
        });
        return is_whole.then_some(event);
    }
    let mut event = other(record, frame.header, context)?;
    event.pointer_size = match frame.header.pointer_size() {
        Some(size) => size,
        None if event.pointer_size != 0 => event.pointer_size,
        None => context.pointer_size,
    };
    event.has_time = frame.time.is_some();
    event.order_time = frame.time.unwrap_or(0);
    Some(event)
}

/// Bytes of an event's extended items; `None` if they exceed the record.
#[inline]
fn items_size(record: &[u8]) -> Option<usize> {
    let (head, rest) = record.split_first_chunk::<{ EventHeader::SIZE }>()?;
    match EventFlags(EventHeader::FLAGS.get(head)?).contains(EventFlags::EXTENDED_INFO) {
        true => ExtendedItems::parse_chain(rest).ok().map(|(_, size)| size),
        false => Some(0),
    }
}

/// Header, optional parts behind it, and payload of a record.
type Parts<'a, const HEADER: usize> = (&'a [u8; HEADER], (&'a [u8], &'a [u8]));

/// `items`: bytes of the extended items, which were walked.
#[inline(always)]
fn split_event(bytes: &[u8], items: usize) -> Option<Parts<'_, { EventHeader::SIZE }>> {
    let (head, rest) = bytes.split_first_chunk()?;
    let (chain, payload) = rest.split_at_checked(items)?;
    Some((head, (chain, payload)))
}

/// Splits off the counters behind a kernel record's header, too.
#[inline(always)]
fn split_kernel<const HEADER: usize>(bytes: &[u8]) -> Option<Parts<'_, HEADER>> {
    let (head, rest) = bytes.split_first_chunk::<HEADER>()?;
    let (counters, payload) = rest.split_at_checked(counter_bytes(le::u16(head, 0x00)?) as usize)?;
    Some((head, (counters, payload)))
}

/// Makes `event` a new record, with what all have. Its time is at `time_at` in the header.
#[inline(always)]
fn start<'a>(
    event: &mut EventRecord<'a>,
    header: HeaderType,
    head: &[u8],
    time_at: usize,
    payload: &'a [u8],
) {
    *event = EventRecord::new(header, payload);
    event.pointer_size = header.pointer_size().unwrap_or_default();
    event.order_time = le::i64(head, time_at).unwrap_or_default();
}

#[inline(always)]
fn fill_event<'a>(
    event: &mut EventRecord<'a>,
    header: HeaderType,
    head: &[u8; EventHeader::SIZE],
    (chain, payload): (&'a [u8], &'a [u8]),
) {
    start(event, header, head, 0x10, payload);
    event.extended = ExtendedItems::of_walked_chain(chain);
    event.property = EventProperty(EventHeader::PROPERTY.get(head).unwrap_or_default());
    // The header is whole.
    let _ = event.set_event_header(head);
}

#[inline(always)]
fn fill_perf_info<'a>(
    event: &mut EventRecord<'a>,
    header: HeaderType,
    head: &[u8; 0x10],
    (counters, payload): (&'a [u8], &'a [u8]),
) {
    start(event, header, head, 0x08, payload);
    set_hook(event, head, counters);
}

#[inline(always)]
fn fill_system<'a>(
    event: &mut EventRecord<'a>,
    header: HeaderType,
    head: &[u8; 0x20],
    (counters, payload): (&'a [u8], &'a [u8]),
) {
    start(event, header, head, 0x10, payload);
    event.thread_id = le::u32(head, 0x08);
    event.process_id = le::u32(head, 0x0c);
    event.cpu_times = cpu_times(head, 0x18);
    set_hook(event, head, counters);
}

#[inline(always)]
fn fill_compact<'a>(
    event: &mut EventRecord<'a>,
    header: HeaderType,
    head: &[u8; 0x18],
    (counters, payload): (&'a [u8], &'a [u8]),
) {
    start(event, header, head, 0x10, payload);
    event.thread_id = le::u32(head, 0x08);
    event.process_id = le::u32(head, 0x0c);
    set_hook(event, head, counters);
}

/// Sets hook, class, opcode, version and counters of a kernel record.
#[inline(always)]
fn set_hook<'a>(event: &mut EventRecord<'a>, head: &[u8], counters: &'a [u8]) {
    let version = le::u16(head, 0x00).unwrap_or_default();
    let hook = Hook(le::u16(head, 0x06).unwrap_or_default());
    event.extended = ExtendedItems::counters(version & PEBS_INDEX != 0, counters);
    event.hook = Some(hook);
    event.provider = hook.class_guid();
    event.descriptor.version = version as u8;
    event.descriptor.opcode = Opcode(hook.kind());
}

/// A classic event without an instance.
#[inline(always)]
fn fill_full<'a>(
    event: &mut EventRecord<'a>,
    header: HeaderType,
    head: &[u8; 0x30],
    payload: &'a [u8],
) {
    start(event, header, head, 0x10, payload);
    set_classic(event, head);
}

/// Ids, class, descriptor and times of a classic event.
#[inline(always)]
fn set_classic(event: &mut EventRecord, head: &[u8; 0x30]) {
    event.thread_id = le::u32(head, 0x08);
    event.process_id = le::u32(head, 0x0c);
    event.provider = Guid::read(head, 0x18);
    event.descriptor.opcode = Opcode(head[0x04]);
    event.descriptor.level = Level(head[0x05]);
    event.descriptor.version = head[0x06];
    event.cpu_times = cpu_times(head, 0x28);
}

#[inline(never)]
fn other<'a>(
    record: &'a [u8],
    header: HeaderType,
    context: &RecordContext,
) -> Option<EventRecord<'a>> {
    match header {
        HeaderType::Instance32 | HeaderType::Instance64 => instance(record, header, context),
        HeaderType::Message => message(record),
        HeaderType::Error => error(record),
        _ => wnode(record),
    }
}

/// Like an EVENT by what little is published. Extended items are not expected.
fn error(bytes: &[u8]) -> Option<EventRecord<'_>> {
    let (head, payload) = bytes.split_first_chunk()?;
    let mut event = EventRecord::new(HeaderType::Error, payload);
    event.pointer_size = 0;
    event.set_event_header(head)?;
    Some(event)
}

#[inline]
fn cpu_times(bytes: &[u8], offset: usize) -> Option<CpuTimes> {
    let (kernel, user) = le::u32(bytes, offset).zip(le::u32(bytes, offset + 4))?;
    Some(CpuTimes { kernel, user })
}

fn instance<'a>(
    bytes: &'a [u8],
    header: HeaderType,
    context: &RecordContext,
) -> Option<EventRecord<'a>> {
    let mut event = EventRecord::new(header, bytes.get(instance_size(context) as usize..)?);
    set_classic(&mut event, bytes.first_chunk()?);
    // An old header knows its class and its parent's by handles that mean nothing outside their process.
    let ids = if context.old_instance { 0x20..0x28 } else { 0x30..0x48 };
    event.extended = ExtendedItems::instance(bytes.get(ids)?);
    if context.old_instance {
        event.provider = None;
    }
    Some(event)
}

fn message(bytes: &[u8]) -> Option<EventRecord<'_>> {
    let flags = MessageFlags(le::u16(bytes, 0x06)?);
    let parts = message_parts(flags);
    let mut event = EventRecord::new(HeaderType::Message, bytes.get(parts.arguments..)?);
    event.pointer_size = if flags.contains(MessageFlags::POINTER64) {
        8
    } else if flags.contains(MessageFlags::POINTER32) {
        4
    } else {
        0
    };
    event.message_flags = flags;
    event.descriptor = EventDescriptor {
        id: le::u16(bytes, 0x04)?,
        channel: Channel(0),
        level: Level(0),
        keyword: Keyword(0),
        ..EventDescriptor::default()
    };
    event.sequence = parts.sequence.and_then(|at| le::u32(bytes, at));
    event.component_id = parts.component.and_then(|at| le::u32(bytes, at));
    event.provider = parts.guid.and_then(|at| Guid::read(bytes, at));
    event.thread_id = parts.system_info.and_then(|at| le::u32(bytes, at));
    event.process_id = parts.system_info.and_then(|at| le::u32(bytes, at + 4));
    Some(event)
}

fn wnode(bytes: &[u8]) -> Option<EventRecord<'_>> {
    let mut event =
        EventRecord::new(HeaderType::Wnode, bytes.get(HeaderType::Wnode.header_size()..)?);
    event.pointer_size = 0;
    event.provider = Guid::read(bytes, 0x18);
    Some(event)
}
