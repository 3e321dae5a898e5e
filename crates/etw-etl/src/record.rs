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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Exact length; 0 if the header is none of an event, of the kernel or of a classic event without instance.
    size: u16,
    /// Bytes of an event's extended items.
    items: u16,
}

impl Extent {
    /// The extent of the record at the front of `room`, whose frame is known. `None`: extended items exceed the record.
    #[inline(always)]
    pub(crate) fn of(room: &[u8], frame: &Frame) -> Option<Extent> {
        use HeaderType::*;
        let items = match frame.header {
            Event32 | Event64 => items_size(&room[..frame.size as usize])? as u16,
            Full32 | Full64 => 0,
            header if header.is_kernel() => 0,
            _ => return Some(Extent::default()),
        };
        Some(Extent { size: frame.size as u16, items })
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
        let (size, header_size, time_at, has_items) = match head[2] {
            EVENT32 | EVENT64 => (size, EventHeader::SIZE as u32, 0x10, extended),
            PERF_INFO32 | PERF_INFO64 => (size_word, 0x10 + counter_bytes(size), 0x08, false),
            SYSTEM32 | SYSTEM64 => (size_word, 0x20 + counter_bytes(size), 0x10, false),
            FULL32 | FULL64 => (size, 0x30, 0x10, false),
            _ => return None,
        };
        if u32::from(size) < header_size || usize::from(size) > room.len() {
            return None;
        }
        let items = if has_items { items_size(&room[..usize::from(size)])? as u16 } else { 0 };
        Some((Extent { size, items }, le::i64(head, time_at)?))
    }

    /// The length, if it is known without parsing.
    #[inline]
    pub(crate) fn size(self) -> Option<u32> {
        (self.size != 0).then_some(u32::from(self.size))
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
    let mut event = EventRecord::new(frame.header, &[]);
    match fill(&mut event, record, &frame, context) {
        Some(()) => Ok(event),
        None => Err(DamageKind::RecordParts { at: 0 }),
    }
}

/// As [`parse`], for a record that [`Records`](crate::read::Records) returned with this extent. It is stored in place of `event`, which must be
/// new: only what its kind has is set.
///
/// # Errors
/// As [`parse`]; those of a whole record are possible only if `record` has changed since.
#[inline]
pub fn parse_checked<'a>(
    event: &mut EventRecord<'a>,
    record: &'a [u8],
    extent: Extent,
    context: &RecordContext,
) -> Result<(), DamageKind> {
    if fill_checked(event, record, extent).is_none() {
        *event = parse(record, context)?;
    }
    Ok(())
}

/// [`parse_checked`] without parsing; `None` if the record must be parsed.
#[inline(always)]
pub(crate) fn fill_checked<'a>(
    event: &mut EventRecord<'a>,
    record: &'a [u8],
    extent: Extent,
) -> Option<()> {
    debug_assert!(event.provider.is_none() && event.hook.is_none(), "a new record is filled");
    if extent.size == 0 || record.len() != usize::from(extent.size) {
        return None;
    }
    use number::*;
    match *record.get(2)? {
        kind @ (EVENT32 | EVENT64) => {
            fill_event(event, kind == EVENT64, record, usize::from(extent.items))
        }
        kind @ (PERF_INFO32 | PERF_INFO64) => fill_perf_info(event, kind == PERF_INFO64, record),
        kind @ (FULL32 | FULL64) => fill_full(event, kind == FULL64, record),
        kind @ (SYSTEM32 | SYSTEM64) => fill_system(event, kind == SYSTEM64, record),
        kind @ (COMPACT32 | COMPACT64) => fill_compact(event, kind == COMPACT64, record),
        _ => None,
    }
}

/// [`parse`] for a record whose frame is known. `None`: extended items exceed the record.
#[inline]
fn fill<'a>(
    event: &mut EventRecord<'a>,
    record: &'a [u8],
    frame: &Frame,
    context: &RecordContext,
) -> Option<()> {
    let record = &record[..frame.size as usize];
    let extent = Extent::of(record, frame)?;
    if extent.size != 0 {
        return fill_checked(event, record, extent);
    }
    *event = other(record, frame.header, context)?;
    event.pointer_size = match frame.header.pointer_size() {
        Some(size) => size,
        None if event.pointer_size != 0 => event.pointer_size,
        None => context.pointer_size,
    };
    event.has_time = frame.time.is_some();
    event.order_time = frame.time.unwrap_or(0);
    Some(())
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

/// `items`: bytes of the extended items, which were walked.
#[inline(always)]
fn fill_event<'a>(
    event: &mut EventRecord<'a>,
    is_wide: bool,
    bytes: &'a [u8],
    items: usize,
) -> Option<()> {
    // Whatever can fail comes before the first store.
    let (head, rest) = bytes.split_first_chunk()?;
    let header = if is_wide { HeaderType::Event64 } else { HeaderType::Event32 };
    let (chain, payload) = rest.split_at_checked(items)?;
    start(event, header, is_wide, EventHeader::TIME_STAMP.get(head)?, payload);
    event.extended = ExtendedItems::of_walked_chain(chain);
    event.property = EventProperty(EventHeader::PROPERTY.get(head)?);
    event.set_event_header(head)
}

#[inline(always)]
fn start<'a>(
    event: &mut EventRecord<'a>,
    header: HeaderType,
    is_wide: bool,
    time: i64,
    payload: &'a [u8],
) {
    event.header = header;
    event.payload = payload;
    event.pointer_size = if is_wide { 8 } else { 4 };
    event.order_time = time;
}

#[inline(always)]
fn fill_perf_info<'a>(event: &mut EventRecord<'a>, is_wide: bool, bytes: &'a [u8]) -> Option<()> {
    let header = if is_wide { HeaderType::PerfInfo64 } else { HeaderType::PerfInfo32 };
    let (head, rest) = bytes.split_first_chunk::<0x10>()?;
    let (counters, payload) = split_counters(head, rest)?;
    start(event, header, is_wide, le::i64(head, 0x08)?, payload);
    set_hook(event, head, counters)
}

#[inline(always)]
fn fill_system<'a>(event: &mut EventRecord<'a>, is_wide: bool, bytes: &'a [u8]) -> Option<()> {
    let header = if is_wide { HeaderType::System64 } else { HeaderType::System32 };
    let (head, rest) = bytes.split_first_chunk::<0x20>()?;
    let (counters, payload) = split_counters(head, rest)?;
    start(event, header, is_wide, le::i64(head, 0x10)?, payload);
    event.thread_id = le::u32(head, 0x08);
    event.process_id = le::u32(head, 0x0c);
    event.cpu_times = cpu_times(head, 0x18);
    set_hook(event, head, counters)
}

#[inline(always)]
fn fill_compact<'a>(event: &mut EventRecord<'a>, is_wide: bool, bytes: &'a [u8]) -> Option<()> {
    let header = if is_wide { HeaderType::Compact64 } else { HeaderType::Compact32 };
    let (head, rest) = bytes.split_first_chunk::<0x18>()?;
    let (counters, payload) = split_counters(head, rest)?;
    start(event, header, is_wide, le::i64(head, 0x10)?, payload);
    event.thread_id = le::u32(head, 0x08);
    event.process_id = le::u32(head, 0x0c);
    set_hook(event, head, counters)
}

/// Splits the counters behind a kernel record's header from the payload.
#[inline(always)]
fn split_counters<'a>(head: &[u8], rest: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    rest.split_at_checked(counter_bytes(le::u16(head, 0x00)?) as usize)
}

/// Sets hook, class, opcode, version and counters of a kernel record.
#[inline(always)]
fn set_hook<'a>(event: &mut EventRecord<'a>, head: &[u8], counters: &'a [u8]) -> Option<()> {
    let version = le::u16(head, 0x00)?;
    let hook = Hook(le::u16(head, 0x06)?);
    event.extended = ExtendedItems::counters(version & PEBS_INDEX != 0, counters);
    event.hook = Some(hook);
    event.provider = hook.class_guid();
    event.descriptor.version = version as u8;
    event.descriptor.opcode = Opcode(hook.kind());
    Some(())
}

/// A classic event without an instance.
#[inline(always)]
fn fill_full<'a>(event: &mut EventRecord<'a>, is_wide: bool, bytes: &'a [u8]) -> Option<()> {
    let header = if is_wide { HeaderType::Full64 } else { HeaderType::Full32 };
    let (head, payload) = bytes.split_first_chunk::<0x30>()?;
    start(event, header, is_wide, le::i64(head, 0x10)?, payload);
    set_classic(event, head)
}

/// Ids, class, descriptor and times of a classic event.
#[inline(always)]
fn set_classic(event: &mut EventRecord, bytes: &[u8]) -> Option<()> {
    event.thread_id = le::u32(bytes, 0x08);
    event.process_id = le::u32(bytes, 0x0c);
    event.provider = Guid::read(bytes, 0x18);
    event.descriptor.opcode = Opcode(*bytes.get(0x04)?);
    event.descriptor.level = Level(*bytes.get(0x05)?);
    event.descriptor.version = *bytes.get(0x06)?;
    event.cpu_times = cpu_times(bytes, 0x28);
    Some(())
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
    set_classic(&mut event, bytes)?;
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
