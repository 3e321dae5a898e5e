use crate::{Clock, EventDescriptor, FileTime, Guid, Hook, le};
use std::fmt;

/// Which of ETW's record headers an event was stored with. Bitness is the record's own, not the file's.
#[doc(alias = "TRACE_HEADER_TYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum HeaderType {
    System32,
    System64,
    Compact32,
    Compact64,
    Full32,
    Full64,
    Instance32,
    Instance64,
    Timed,
    Error,
    Wnode,
    Message,
    PerfInfo32,
    PerfInfo64,
    Event32,
    Event64,
}

impl HeaderType {
    /// The name that tools print: `SYSTEM32`, `EVENT64`, …
    pub const fn name(self) -> &'static str {
        match self {
            HeaderType::System32 => "SYSTEM32",
            HeaderType::System64 => "SYSTEM64",
            HeaderType::Compact32 => "COMPACT32",
            HeaderType::Compact64 => "COMPACT64",
            HeaderType::Full32 => "FULL32",
            HeaderType::Full64 => "FULL64",
            HeaderType::Instance32 => "INSTANCE32",
            HeaderType::Instance64 => "INSTANCE64",
            HeaderType::Timed => "TIMED",
            HeaderType::Error => "ERROR",
            HeaderType::Wnode => "WNODE",
            HeaderType::Message => "MESSAGE",
            HeaderType::PerfInfo32 => "PERFINFO32",
            HeaderType::PerfInfo64 => "PERFINFO64",
            HeaderType::Event32 => "EVENT32",
            HeaderType::Event64 => "EVENT64",
        }
    }

    /// 4 or 8 where the header says how wide the payload's pointers are.
    #[inline]
    pub const fn pointer_size(self) -> Option<u8> {
        use HeaderType::*;
        match self {
            System32 | Compact32 | Full32 | Instance32 | PerfInfo32 | Event32 => Some(4),
            System64 | Compact64 | Full64 | Instance64 | PerfInfo64 | Event64 => Some(8),
            Timed | Error | Wnode | Message => None,
        }
    }

    /// A kernel record: it carries a [`Hook`], its class is that of the hook's group.
    #[inline]
    pub const fn is_kernel(self) -> bool {
        use HeaderType::*;
        matches!(self, System32 | System64 | Compact32 | Compact64 | PerfInfo32 | PerfInfo64)
    }

    /// A record of `TraceEvent` or `TraceEventInstance`, named by class GUID, type and version.
    #[inline]
    pub const fn is_classic(self) -> bool {
        use HeaderType::*;
        matches!(self, Full32 | Full64 | Instance32 | Instance64)
    }

    /// A record of `EventWrite`, named by provider, id and version.
    #[inline]
    pub const fn is_event(self) -> bool {
        matches!(self, HeaderType::Event32 | HeaderType::Event64)
    }
}

impl fmt::Display for HeaderType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

flags! {
    /// `EVENT_HEADER.Flags`. On disk Windows sets only `EXTENDED_INFO`; the rest is for consumers.
    #[doc(alias = "EVENT_HEADER_FLAG")]
    EventFlags(u16) {
        /// Extended items stand between header and payload.
        EXTENDED_INFO = 0x0001, "EVENT_HEADER_FLAG_EXTENDED_INFO";
        /// Recorded by a private session.
        PRIVATE_SESSION = 0x0002, "EVENT_HEADER_FLAG_PRIVATE_SESSION";
        /// The payload is one NUL-terminated UTF-16 string.
        STRING_ONLY = 0x0004, "EVENT_HEADER_FLAG_STRING_ONLY";
        /// A WPP message.
        TRACE_MESSAGE = 0x0008, "EVENT_HEADER_FLAG_TRACE_MESSAGE";
        /// The CPU times mean nothing.
        NO_CPUTIME = 0x0010, "EVENT_HEADER_FLAG_NO_CPUTIME";
        /// Pointers are four bytes wide.
        HEADER_32_BIT = 0x0020, "EVENT_HEADER_FLAG_32_BIT_HEADER";
        /// Pointers are eight bytes wide.
        HEADER_64_BIT = 0x0040, "EVENT_HEADER_FLAG_64_BIT_HEADER";
        /// The schema is found under the decode GUID of the provider traits.
        DECODE_GUID = 0x0080, "EVENT_HEADER_FLAG_DECODE_GUID";
        /// A classic event.
        CLASSIC_HEADER = 0x0100, "EVENT_HEADER_FLAG_CLASSIC_HEADER";
        /// The CPU index is sixteen bits wide.
        PROCESSOR_INDEX = 0x0200, "EVENT_HEADER_FLAG_PROCESSOR_INDEX";
    }
}

flags! {
    /// `EVENT_HEADER.EventProperty`, as given to `EtwEventWriteFull`.
    #[doc(alias = "EVENT_HEADER_PROPERTY")]
    EventProperty(u16) {
        /// The payload is XML.
        XML = 0x0001, "EVENT_HEADER_PROPERTY_XML";
        /// The payload is XML forwarded from elsewhere.
        FORWARDED_XML = 0x0002, "EVENT_HEADER_PROPERTY_FORWARDED_XML";
        /// The payload is one string (`EventWriteString`).
        LEGACY_EVENTLOG = 0x0004, "EVENT_HEADER_PROPERTY_LEGACY_EVENTLOG";
        /// May be relogged.
        RELOGGABLE = 0x0008, "EVENT_HEADER_PROPERTY_RELOGGABLE";
    }
}

flags! {
    /// Option flags of a WPP message: which parts stand before its arguments.
    #[doc(alias = "TRACE_MESSAGE")]
    MessageFlags(u16) {
        /// A `u32` sequence number.
        SEQUENCE = 0x0001, "TRACE_MESSAGE_SEQUENCE";
        /// The message GUID.
        GUID = 0x0002, "TRACE_MESSAGE_GUID";
        /// A `u32` component id, in place of the GUID.
        COMPONENT_ID = 0x0004, "TRACE_MESSAGE_COMPONENTID";
        /// A timestamp.
        TIMESTAMP = 0x0008, "TRACE_MESSAGE_TIMESTAMP";
        /// Room for a timestamp, obsolete.
        PERFORMANCE_TIMESTAMP = 0x0010, "TRACE_MESSAGE_PERFORMANCE_TIMESTAMP";
        /// Thread and process id.
        SYSTEM_INFO = 0x0020, "TRACE_MESSAGE_SYSTEMINFO";
        /// Written by a 32-bit program.
        POINTER32 = 0x0040, "TRACE_MESSAGE_POINTER32";
        /// Written by a 64-bit program.
        POINTER64 = 0x0080, "TRACE_MESSAGE_POINTER64";
    }
}

/// The type of an extended data item.
#[doc(alias = "EVENT_HEADER_EXT_TYPE")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExtType(pub u16);

macro_rules! ext_types {
    ($($(#[$doc:meta])* $name:ident = $value:expr;)*) => {
        impl ExtType {
            $($(#[$doc])* pub const $name: ExtType = ExtType($value);)*

            /// The name without Microsoft's `EVENT_HEADER_EXT_TYPE_`.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

ext_types! {
    /// GUID
    RELATED_ACTIVITYID = 1;
    /// SID bytes
    SID = 2;
    /// `u32` terminal session id
    TS_ID = 3;
    /// `u32` instance id, `u32` parent instance id, GUID of the parent's class
    INSTANCE_INFO = 4;
    /// `u64` match id, `u32` frames
    STACK_TRACE32 = 5;
    /// `u64` match id, `u64` frames
    STACK_TRACE64 = 6;
    /// `u64`
    PEBS_INDEX = 7;
    /// `u64` counters
    PMC_COUNTERS = 8;
    /// `u64`
    PSM_KEY = 9;
    /// `u64` unique event key
    EVENT_KEY = 10;
    /// TraceLogging event metadata
    EVENT_SCHEMA_TL = 11;
    /// provider traits: name and group
    PROV_TRAITS = 12;
    /// `u64`
    PROCESS_START_KEY = 13;
    /// GUID
    CONTROL_GUID = 14;
    /// `i64`
    QPC_DELTA = 15;
    /// container id
    CONTAINER_ID = 16;
    /// `u64` match id, `u32` stack key, padding
    STACK_KEY32 = 17;
    /// `u64` match id, `u64` stack key
    STACK_KEY64 = 18;
}

impl fmt::Debug for ExtType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "ExtType({})", self.0),
        }
    }
}

/// One extended data item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedItem<'a> {
    /// What it is.
    pub ext_type: ExtType,
    /// Its bytes.
    pub data: &'a [u8],
}

/// The extended data items of a record, in the order they are stored.
///
/// EVENT records store them behind the header, eight-byte aligned:
///
/// ```text
/// 0  u16 total size = align8(8 + data size)   2  u16 type   4  u16 bit 0: another follows   6  u16 data size
/// 8  data, padded to eight
/// ```
///
/// PERFINFO records store performance counters bare, INSTANCE records their ids; both are shown as the item that
/// Windows hands to consumers.
#[doc(alias = "EVENT_HEADER_EXTENDED_DATA_ITEM")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ExtendedItems<'a> {
    source: Source<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Source<'a> {
    #[default]
    None,
    Chain(&'a [u8]),
    Counters {
        pebs: bool,
        bytes: &'a [u8],
    },
    Instance(&'a [u8]),
}

impl<'a> ExtendedItems<'a> {
    /// No items.
    pub const NONE: ExtendedItems<'static> = ExtendedItems { source: Source::None };

    /// Walks the chain at the front of `bytes`; gives the items and the length they take.
    ///
    /// # Errors
    /// The offset of the item that does not fit in `bytes` or contradicts itself.
    pub fn parse_chain(bytes: &'a [u8]) -> Result<(ExtendedItems<'a>, usize), usize> {
        let mut offset = 0;
        loop {
            let (_, total, more) = chain_item(&bytes[offset..]).ok_or(offset)?;
            offset += total;
            if !more {
                return Ok((ExtendedItems { source: Source::Chain(&bytes[..offset]) }, offset));
            }
        }
    }

    /// The counters of a PERFINFO record: an optional PEBS index, then one `u64` a counter.
    pub fn counters(pebs: bool, bytes: &'a [u8]) -> ExtendedItems<'a> {
        if bytes.is_empty() {
            return ExtendedItems::NONE;
        }
        ExtendedItems { source: Source::Counters { pebs, bytes } }
    }

    /// The 24 bytes behind an INSTANCE record's common header.
    pub fn instance(bytes: &'a [u8]) -> ExtendedItems<'a> {
        ExtendedItems { source: Source::Instance(bytes) }
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.source == Source::None
    }

    /// The first item of a type.
    #[inline]
    pub fn find(&self, ext_type: ExtType) -> Option<&'a [u8]> {
        self.into_iter().find(|item| item.ext_type == ext_type).map(|item| item.data)
    }
}

/// The first item, its whole length, and whether another follows.
#[inline]
fn chain_item(bytes: &[u8]) -> Option<(ExtendedItem<'_>, usize, bool)> {
    let header: &[u8; 8] = bytes.get(..8)?.try_into().ok()?;
    let total = usize::from(u16::from_le_bytes([header[0], header[1]]));
    let data_size = usize::from(u16::from_le_bytes([header[6], header[7]]));
    if total % 8 != 0 || total < 8 + data_size || total > bytes.len() {
        return None;
    }
    let ext_type = ExtType(u16::from_le_bytes([header[2], header[3]]));
    Some((ExtendedItem { ext_type, data: &bytes[8..8 + data_size] }, total, header[4] & 1 != 0))
}

impl<'a> IntoIterator for ExtendedItems<'a> {
    type Item = ExtendedItem<'a>;
    type IntoIter = ExtendedIter<'a>;

    #[inline]
    fn into_iter(self) -> ExtendedIter<'a> {
        ExtendedIter { rest: self.source }
    }
}

/// Iterates over [`ExtendedItems`].
#[derive(Clone, Debug)]
pub struct ExtendedIter<'a> {
    rest: Source<'a>,
}

impl<'a> Iterator for ExtendedIter<'a> {
    type Item = ExtendedItem<'a>;

    #[inline]
    fn next(&mut self) -> Option<ExtendedItem<'a>> {
        match self.rest {
            Source::None => None,
            Source::Chain(bytes) => {
                let Some((item, total, more)) = chain_item(bytes) else {
                    self.rest = Source::None;
                    return None;
                };
                self.rest = if more { Source::Chain(&bytes[total..]) } else { Source::None };
                Some(item)
            }
            Source::Counters { pebs: true, bytes } => {
                let (data, rest) = bytes.split_at_checked(8)?;
                self.rest = if rest.is_empty() {
                    Source::None
                } else {
                    Source::Counters { pebs: false, bytes: rest }
                };
                Some(ExtendedItem { ext_type: ExtType::PEBS_INDEX, data })
            }
            Source::Counters { pebs: false, bytes } => {
                self.rest = Source::None;
                Some(ExtendedItem { ext_type: ExtType::PMC_COUNTERS, data: bytes })
            }
            Source::Instance(data) => {
                self.rest = Source::None;
                Some(ExtendedItem { ext_type: ExtType::INSTANCE_INFO, data })
            }
        }
    }
}

/// Where a record was found. Sorting by it restores the order of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// Argument number of the file, from 0.
    pub file_index: u32,
    /// Number of the buffer in the file, from 0, the header's included.
    pub buffer_index: u64,
    /// Bytes from the end of the buffer header to the record, in decompressed bytes.
    pub offset: u32,
}

/// One event, borrowed from the buffer it lies in: header, extended items, payload.
///
/// It is what files and real-time sessions yield and what decoders take. Which fields mean something depends on
/// [`header`](EventRecord::header); the rest are zero or `None`:
///
/// | header | named by | pid, tid | level | id |
/// |---|---|---|---|---|
/// | SYSTEM, COMPACT | [`hook`](EventRecord::hook) | yes | – | – |
/// | PERFINFO | `hook` | – | – | – |
/// | FULL, INSTANCE | `provider` = class GUID, `descriptor.opcode`, `.version` | yes | yes | – |
/// | EVENT | `provider`, `descriptor` | yes | yes | yes |
/// | MESSAGE | `provider` = message GUID, `descriptor.id` = number | with SYSTEM_INFO | – | yes |
/// | ERROR | `provider` | yes | – | – |
/// | WNODE | `provider` | – | – | – |
#[doc(alias = "EVENT_RECORD")]
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct EventRecord<'a> {
    /// The header it was stored with.
    pub header: HeaderType,
    /// 4 or 8, where the record says so; otherwise the file's.
    pub pointer_size: u8,
    /// The CPU whose buffer holds it.
    pub cpu: u16,
    /// `EVENT_HEADER.Flags` as stored.
    pub flags: EventFlags,
    /// `EVENT_HEADER.EventProperty`.
    pub property: EventProperty,
    /// Option flags of a MESSAGE.
    pub message_flags: MessageFlags,
    /// Session clock; for records without a time, that of their predecessor in the stream. Sorts records.
    pub order_time: i64,
    /// Whether the record carries a time of its own.
    pub has_time: bool,
    /// Kernel group and type of SYSTEM, COMPACT and PERFINFO records.
    pub hook: Option<Hook>,
    /// Process that wrote it.
    pub process_id: Option<u32>,
    /// Thread that wrote it.
    pub thread_id: Option<u32>,
    /// Ticks of the thread in kernel mode and in user mode, in units of the timer resolution.
    pub cpu_times: Option<(u32, u32)>,
    /// See the table above; the class GUID of the hook's group for kernel records.
    pub provider: Option<Guid>,
    /// Id, version, level, opcode, task, keyword, as far as the header has them.
    pub descriptor: EventDescriptor,
    /// Zero for none.
    pub activity_id: Guid,
    /// Sequence number of a MESSAGE.
    pub sequence: Option<u32>,
    /// Component id of a MESSAGE that has one in place of a GUID.
    pub component_id: Option<u32>,
    /// Related activity, stack, TraceLogging metadata, …
    pub extended: ExtendedItems<'a>,
    /// The event's own bytes, after header and extended items.
    pub payload: &'a [u8],
    /// Where it was found.
    pub position: Position,
}

impl<'a> EventRecord<'a> {
    /// A record with nothing but its header type and payload, for readers of other containers and for tests.
    #[inline]
    pub fn new(header: HeaderType, payload: &'a [u8]) -> EventRecord<'a> {
        EventRecord {
            header,
            pointer_size: 8,
            cpu: 0,
            flags: EventFlags(0),
            property: EventProperty(0),
            message_flags: MessageFlags(0),
            order_time: 0,
            has_time: true,
            hook: None,
            process_id: None,
            thread_id: None,
            cpu_times: None,
            provider: None,
            descriptor: EventDescriptor {
                id: 0,
                version: 0,
                channel: crate::Channel(0),
                level: crate::Level(0),
                opcode: crate::Opcode(0),
                task: 0,
                keyword: crate::Keyword(0),
            },
            activity_id: Guid::ZERO,
            sequence: None,
            component_id: None,
            extended: ExtendedItems::NONE,
            payload,
            position: Position { file_index: 0, buffer_index: 0, offset: 0 },
        }
    }

    /// The stored time in ticks of the session clock.
    #[inline]
    pub fn raw_timestamp(&self) -> Option<i64> {
        self.has_time.then_some(self.order_time)
    }

    /// Wall-clock time, where the record has a time and the clock is usable.
    #[inline]
    pub fn timestamp(&self, clock: &Clock) -> Option<FileTime> {
        clock.filetime(self.raw_timestamp()?)
    }

    /// The activity that this one continues.
    #[inline]
    pub fn related_activity_id(&self) -> Option<Guid> {
        Guid::read(self.extended.find(ExtType::RELATED_ACTIVITYID)?, 0)
    }

    /// Return addresses, innermost first, of the stack traces stored with the record.
    pub fn stack(&self) -> impl Iterator<Item = u64> + 'a {
        self.extended.into_iter().flat_map(|item| {
            let width = match item.ext_type {
                ExtType::STACK_TRACE32 => 4,
                ExtType::STACK_TRACE64 => 8,
                _ => usize::MAX,
            };
            // The match id, eight bytes, stands first.
            item.data.get(8..).unwrap_or_default().chunks_exact(width).map(|frame| {
                match frame.try_into() {
                    Ok(wide) => u64::from_le_bytes(wide),
                    Err(_) => le::u32(frame, 0).map_or(0, u64::from),
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kind: u16, more: bool, data: &[u8]) -> Vec<u8> {
        let total = (8 + data.len()).next_multiple_of(8);
        let mut bytes = Vec::new();
        bytes.extend((total as u16).to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(u16::from(more).to_le_bytes());
        bytes.extend((data.len() as u16).to_le_bytes());
        bytes.extend(data);
        bytes.resize(total, 0xcc);
        bytes
    }

    #[test]
    fn chain_gives_every_item_and_its_length() {
        let mut bytes = item(12, true, b"\x05\x00ab\0");
        bytes.extend(item(11, false, b"metadata!"));
        let length = bytes.len();
        bytes.extend(b"payload");
        let (items, taken) = ExtendedItems::parse_chain(&bytes).unwrap();
        assert_eq!(taken, length);
        let seen: Vec<_> = items.into_iter().map(|item| (item.ext_type, item.data)).collect();
        assert_eq!(
            seen,
            [
                (ExtType::PROV_TRAITS, &b"\x05\x00ab\0"[..]),
                (ExtType::EVENT_SCHEMA_TL, &b"metadata!"[..])
            ]
        );
        assert_eq!(items.find(ExtType::SID), None);
    }

    #[test]
    fn malicious_chains_are_refused_where_they_break() {
        let good = item(1, true, &[7; 16]);
        // Says that another follows, and nothing does.
        assert_eq!(ExtendedItems::parse_chain(&good), Err(24));
        let mut zero_length = good.clone();
        zero_length.extend([0; 8]);
        assert_eq!(ExtendedItems::parse_chain(&zero_length), Err(24));
        let mut data_past_item = item(1, false, &[7; 16]);
        data_past_item[6] = 17;
        assert_eq!(ExtendedItems::parse_chain(&data_past_item), Err(0));
        let mut unaligned = item(1, false, &[7; 16]);
        unaligned[0] = 23;
        unaligned[6] = 15;
        assert_eq!(ExtendedItems::parse_chain(&unaligned), Err(0));
    }

    #[test]
    fn counters_and_stacks() {
        let bytes: Vec<u8> = [1u64, 2, 3].iter().flat_map(|value| value.to_le_bytes()).collect();
        let items = ExtendedItems::counters(true, &bytes);
        assert_eq!(items.find(ExtType::PEBS_INDEX), Some(&bytes[..8]));
        assert_eq!(items.find(ExtType::PMC_COUNTERS), Some(&bytes[8..]));
        assert_eq!(ExtendedItems::counters(true, &bytes[..8]).into_iter().count(), 1);

        let mut chain = item(6, true, &bytes);
        chain.extend(item(5, false, &bytes[..16]));
        let mut record = EventRecord::new(HeaderType::Event64, &[]);
        record.extended = ExtendedItems::parse_chain(&chain).unwrap().0;
        assert_eq!(record.stack().collect::<Vec<_>>(), [2, 3, 2, 0]);
    }
}
