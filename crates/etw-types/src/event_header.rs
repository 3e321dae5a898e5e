//! `EVENT_HEADER`: the first 80 bytes of every event that `EventWrite` or TraceLogging stores.

use crate::{EventDescriptor, EventFlags, EventProperty, Field, Guid, HeaderType};

/// The header of an EVENT record.
///
/// ```text
/// 00 u16 size, header included   02 u8 header type: 12 (32 bits) or 13 (64 bits)   03 u8 C0
/// 04 u16 flags                   06 u16 property
/// 08 u32 thread id               0C u32 process id
/// 10 i64 time, session clock     18 GUID provider
/// 28 16 bytes descriptor         38 u32 kernel time   3C u32 user time
/// 40 GUID activity               50 extended items if the flags say so, then the payload
/// ```
///
/// ERROR records (header type 0D) begin with the same bytes, by the little that is published of them.
///
/// Source: the documentation of `EVENT_HEADER`, and traces of Windows 7 to 11.
#[doc(alias = "EVENT_HEADER")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHeader {
    /// Bytes of the whole record, without padding.
    pub size: u16,
    /// EVENT of either width, or ERROR.
    pub header_type: HeaderType,
    /// `EVENT_HEADER.Flags`
    pub flags: EventFlags,
    /// `EVENT_HEADER.EventProperty`
    pub property: EventProperty,
    /// The thread that wrote the event.
    pub thread_id: u32,
    /// The process that wrote the event.
    pub process_id: u32,
    /// Ticks of the session's clock.
    pub time_stamp: i64,
    /// The provider.
    pub provider: Guid,
    /// Id, version, channel, level, opcode, task and keyword.
    pub descriptor: EventDescriptor,
    /// Ticks of the thread in kernel mode, in units of the timer resolution.
    pub kernel_time: u32,
    /// Ticks of the thread in user mode.
    pub user_time: u32,
    /// Zero for none.
    pub activity_id: Guid,
}

impl EventHeader {
    /// Bytes on disk.
    pub const SIZE: usize = 0x50;
    /// `Size`
    pub const RECORD_SIZE: Field<u16> = Field::at(0x00);
    /// `Flags`
    pub const FLAGS: Field<u16> = Field::at(0x04);
    /// `EventProperty`
    pub const PROPERTY: Field<u16> = Field::at(0x06);
    /// `ThreadId`
    pub(crate) const THREAD_ID: Field<u32> = Field::at(0x08);
    /// `ProcessId`
    pub(crate) const PROCESS_ID: Field<u32> = Field::at(0x0c);
    /// `TimeStamp`
    pub const TIME_STAMP: Field<i64> = Field::at(0x10);
    /// `ProviderId`
    pub const PROVIDER: Field<Guid> = Field::at(0x18);
    /// `EventDescriptor`
    pub(crate) const DESCRIPTOR_OFFSET: usize = 0x28;
    /// `KernelTime`
    pub(crate) const KERNEL_TIME: Field<u32> = Field::at(0x38);
    /// `UserTime`
    pub(crate) const USER_TIME: Field<u32> = Field::at(0x3c);
    /// `ActivityId`
    pub const ACTIVITY_ID: Field<Guid> = Field::at(0x40);

    /// Reads the header; `None` if its type is none that begins with these bytes.
    #[inline]
    pub fn read(bytes: &[u8; EventHeader::SIZE]) -> Option<EventHeader> {
        let header_type = HeaderType::from_number(bytes[2])?;
        if !header_type.is_event() && header_type != HeaderType::Error {
            return None;
        }
        Some(EventHeader {
            size: EventHeader::RECORD_SIZE.get(bytes)?,
            header_type,
            flags: EventFlags(EventHeader::FLAGS.get(bytes)?),
            property: EventProperty(EventHeader::PROPERTY.get(bytes)?),
            thread_id: EventHeader::THREAD_ID.get(bytes)?,
            process_id: EventHeader::PROCESS_ID.get(bytes)?,
            time_stamp: EventHeader::TIME_STAMP.get(bytes)?,
            provider: EventHeader::PROVIDER.get(bytes)?,
            descriptor: EventDescriptor::read(bytes, EventHeader::DESCRIPTOR_OFFSET)?,
            kernel_time: EventHeader::KERNEL_TIME.get(bytes)?,
            user_time: EventHeader::USER_TIME.get(bytes)?,
            activity_id: EventHeader::ACTIVITY_ID.get(bytes)?,
        })
    }

    /// The header as stored.
    #[inline]
    pub fn to_bytes(&self) -> [u8; EventHeader::SIZE] {
        let mut bytes = [0; EventHeader::SIZE];
        self.put_start(&mut bytes);
        EventHeader::PROVIDER.put(&mut bytes, self.provider);
        let at = EventHeader::DESCRIPTOR_OFFSET;
        bytes[at..at + EventDescriptor::SIZE].copy_from_slice(&self.descriptor.to_bytes());
        let times = u64::from(self.kernel_time) | u64::from(self.user_time) << 32;
        Field::at(0x38).put(&mut bytes, times);
        EventHeader::ACTIVITY_ID.put(&mut bytes, self.activity_id);
        bytes
    }

    /// Writes the fields before the provider: those that differ between two events of one site.
    ///
    /// Three stores, since this is on the path of every event.
    #[inline(always)]
    pub fn put_start(&self, bytes: &mut [u8; EventHeader::SIZE]) {
        let marker = u64::from(self.header_type.number()) | u64::from(HeaderType::MARKER) << 8;
        let first = u64::from(self.size)
            | marker << 16
            | u64::from(self.flags.0) << 32
            | u64::from(self.property.0) << 48;
        let ids = u64::from(self.thread_id) | u64::from(self.process_id) << 32;
        Field::at(0x00).put(bytes, first);
        Field::at(0x08).put(bytes, ids);
        EventHeader::TIME_STAMP.put(bytes, self.time_stamp);
    }
}

impl Default for EventHeader {
    /// An EVENT64 header whose other fields are zero.
    #[inline]
    fn default() -> EventHeader {
        EventHeader {
            size: 0,
            header_type: HeaderType::Event64,
            flags: EventFlags::NONE,
            property: EventProperty::NONE,
            thread_id: 0,
            process_id: 0,
            time_stamp: 0,
            provider: Guid::ZERO,
            descriptor: EventDescriptor::default(),
            kernel_time: 0,
            user_time: 0,
            activity_id: Guid::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Keyword, Level};

    #[test]
    fn a_header_survives_the_round_trip_and_every_field_has_its_offset() {
        let header = EventHeader {
            size: 0x0102,
            header_type: HeaderType::Event32,
            flags: EventFlags(0x0304),
            property: EventProperty(0x0506),
            thread_id: 7,
            process_id: 8,
            time_stamp: -9,
            provider: Guid([10; 16]),
            descriptor: EventDescriptor {
                level: Level(11),
                keyword: Keyword(12),
                ..Default::default()
            },
            kernel_time: 13,
            user_time: 14,
            activity_id: Guid([15; 16]),
        };
        let bytes = header.to_bytes();
        assert_eq!(EventHeader::read(&bytes), Some(header));
        assert_eq!(bytes[..8], [2, 1, 0x12, 0xc0, 4, 3, 6, 5]);
        let [thread, process, kernel, user] =
            [0x08, 0x0c, 0x38, 0x3c].map(|at| Field::<u32>::at(at).get(&bytes));
        assert_eq!([thread, process, kernel, user], [Some(7), Some(8), Some(13), Some(14)]);
        assert_eq!(bytes[0x2c], 11);
    }

    #[test]
    fn other_header_types_are_rejected() {
        let mut bytes = EventHeader::default().to_bytes();
        bytes[2] = HeaderType::System64.number();
        assert_eq!(EventHeader::read(&bytes), None);
        bytes[2] = 0xff;
        assert_eq!(EventHeader::read(&bytes), None);
    }
}
