//! `EventRecord`: one event as readers yield it and decoders take it.

use crate::{
    Clock, EventDescriptor, EventFlags, EventHeader, EventProperty, ExtType, ExtendedItems,
    FileTime, Guid, HeaderType, Hook, LogItem, MessageFlags, le,
};

/// The position of a record. Sorting by it restores the order of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// Argument number of the file, from 0.
    pub file_index: u32,
    /// Number of the buffer in the file, from 0, the header's included.
    pub buffer_index: u64,
    /// Bytes from the end of the buffer header to the record, in decompressed bytes.
    pub offset: u32,
}

/// CPU time of a thread, in ticks of the timer's resolution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpuTimes {
    /// Ticks in kernel mode.
    pub kernel: u32,
    /// Ticks in user mode.
    pub user: u32,
}

/// One event, borrowed from its buffer: header, extended items, payload.
///
/// Files and real-time sessions yield it, and decoders take it. [`header`](EventRecord::header) decides which fields are
/// set; the others are zero or `None`:
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
    /// 4 or 8: the record's own if it stores one, else the file's.
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
    /// CPU time of the thread until the write.
    pub cpu_times: Option<CpuTimes>,
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
    /// Its position in the files.
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

    /// Takes flags, ids, provider, descriptor, CPU times and activity from the stored header of an EVENT or ERROR record.
    // One field after the other: an `EventHeader` has more fields than the processor has registers.
    #[inline(always)]
    pub fn set_event_header(&mut self, header: &[u8; EventHeader::SIZE]) -> Option<()> {
        self.flags = EventFlags(EventHeader::FLAGS.get(header)?);
        self.thread_id = Some(EventHeader::THREAD_ID.get(header)?);
        self.process_id = Some(EventHeader::PROCESS_ID.get(header)?);
        self.provider = Some(EventHeader::PROVIDER.get(header)?);
        self.descriptor = EventDescriptor::read(header, EventHeader::DESCRIPTOR_OFFSET)?;
        let kernel = EventHeader::KERNEL_TIME.get(header)?;
        self.cpu_times = Some(CpuTimes { kernel, user: EventHeader::USER_TIME.get(header)? });
        self.activity_id = EventHeader::ACTIVITY_ID.get(header)?;
        Some(())
    }

    /// The header with which an EVENT or ERROR record is stored; its size is 0.
    #[inline]
    pub fn event_header(&self) -> EventHeader {
        let CpuTimes { kernel: kernel_time, user: user_time } = self.cpu_times.unwrap_or_default();
        EventHeader {
            size: 0,
            header_type: self.header,
            flags: self.flags,
            property: self.property,
            thread_id: self.thread_id.unwrap_or(0),
            process_id: self.process_id.unwrap_or(0),
            time_stamp: self.order_time,
            provider: self.provider.unwrap_or(Guid::ZERO),
            descriptor: self.descriptor,
            kernel_time,
            user_time,
            activity_id: self.activity_id,
        }
    }

    /// The stored time in ticks of the session clock.
    #[inline]
    pub fn raw_timestamp(&self) -> Option<i64> {
        self.has_time.then_some(self.order_time)
    }

    /// Wall-clock time; `None` if the record has no time or the clock is not usable.
    #[inline]
    pub fn timestamp(&self, clock: &Clock) -> Option<FileTime> {
        clock.filetime(self.raw_timestamp()?)
    }

    /// The related activity.
    #[inline]
    pub fn related_activity_id(&self) -> Option<Guid> {
        Guid::read(self.extended.find(ExtType::RELATED_ACTIVITYID)?, 0)
    }

    /// The facts of a record that was read from an event log.
    #[inline]
    pub fn log_item(&self) -> Option<LogItem<'a>> {
        LogItem::read(self.extended.find(ExtType::EVENT_LOG)?)
    }

    /// Whether the record was read from an event log.
    #[inline]
    pub fn is_logged(&self) -> bool {
        !self.extended.is_empty() && self.log_item().is_some()
    }

    /// The name of the record's kind: that of its header, or `EVTX` for a record of an event log.
    #[inline]
    pub fn header_name(&self) -> &'static str {
        if self.is_logged() { "EVTX" } else { self.header.name() }
    }

    /// The CPU that wrote the record; `None` for records of event logs, which do not have it.
    #[inline]
    pub fn known_cpu(&self) -> Option<u16> {
        (!self.is_logged()).then_some(self.cpu)
    }

    /// The number of the channel; `None` for records of event logs, which have a name in its place, and for those that are no events.
    #[inline]
    pub fn channel_number(&self) -> Option<u8> {
        (self.header.is_event() && !self.is_logged()).then_some(self.descriptor.channel.0)
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
    use crate::ExtendedItemsBuf;

    #[test]
    fn counters_and_stacks() {
        let bytes: Vec<u8> = [1u64, 2, 3].iter().flat_map(|value| value.to_le_bytes()).collect();
        let items = ExtendedItems::counters(true, &bytes);
        assert_eq!(items.find(ExtType::PEBS_INDEX), Some(&bytes[..8]));
        assert_eq!(items.find(ExtType::PMC_COUNTERS), Some(&bytes[8..]));
        assert_eq!(ExtendedItems::counters(true, &bytes[..8]).into_iter().count(), 1);

        let mut items = ExtendedItemsBuf::new();
        items.push(ExtType::STACK_TRACE64, &bytes).unwrap();
        items.push(ExtType::STACK_TRACE32, &bytes[..16]).unwrap();
        let mut record = EventRecord::new(HeaderType::Event64, &[]);
        record.extended = items.as_items();
        assert_eq!(record.stack().collect::<Vec<_>>(), [2, 3, 2, 0]);
    }
}
