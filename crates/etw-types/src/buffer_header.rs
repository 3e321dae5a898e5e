//! `WMI_BUFFER_HEADER`: the first 72 bytes of every buffer of an `.etl` file.

use crate::Field;

flags! {
    /// Flags of a buffer's header about its contents.
    #[doc(alias = "BufferFlag")]
    BufferFlags(u16) {
        /// The last buffer of a flush: everything older has been written.
        FLUSH_MARKER = 0x0001, "ETW_BUFFER_FLAG_FLUSH_MARKER";
        /// Events were lost while this buffer was filled.
        EVENTS_LOST = 0x0002, "ETW_BUFFER_FLAG_EVENTS_LOST";
        /// A buffer before this one was lost.
        BUFFER_LOST = 0x0004, "ETW_BUFFER_FLAG_BUFFER_LOST";
        /// The CPU index takes sixteen bits.
        PROC_INDEX = 0x0020, "ETW_BUFFER_FLAG_PROC_INDEX";
        /// The records are one LZXPRESS stream.
        COMPRESSED = 0x0040, "ETW_BUFFER_FLAG_COMPRESSED";
    }
}

/// The contents of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct BufferType(pub u16);

impl BufferType {
    /// Events.
    pub const GENERIC: BufferType = BufferType(0);
    /// The logfile header: the first buffer of a file.
    pub const HEADER: BufferType = BufferType(4);
}

/// The header before each buffer's records; the same for 32- and 64-bit sessions.
///
/// ```text
/// 00 u32 BufferSize      to the next buffer        04 u32 SavedOffset     may be stale
/// 08 u32 CurrentOffset   undefined on disk         0C i32 ReferenceCount
/// 10 i64 TimeStamp       of the flush              18 i64 SequenceNumber
/// 20 u64 runtime word 0                            28 u16 ProcessorIndex, or u8 CPU and u8 alignment
/// 2A u16 LoggerId                                  2C u32 State
/// 30 u32 Offset          filled, with this header, decompressed
/// 34 u16 BufferFlag      36 u16 BufferType         38 u64 runtime word 1   40 u64 runtime word 2
/// ```
///
/// The runtime words mean something only in the memory of a running session; [`to_bytes`](BufferHeader::to_bytes) writes
/// zeros.
///
/// Layout as documented for `WMI_BUFFER_HEADER` and checked against traces of Windows 7 to 11.
#[doc(alias = "WMI_BUFFER_HEADER")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferHeader {
    /// Bytes from this header to the next.
    pub buffer_size: u32,
    /// Filled length at the last save; stale in many first buffers.
    pub saved_offset: u32,
    /// The reservation cursor at run time; means nothing on disk.
    pub current_offset: u32,
    /// 0 on disk.
    pub reference_count: i32,
    /// Time of the flush, session clock.
    pub time_stamp: i64,
    /// 0 for the header buffer, then 1, 2, 3 in the order in which buffers were started.
    pub sequence_number: i64,
    /// The CPU field as stored; see [`cpu`](BufferHeader::cpu).
    pub processor: u16,
    /// Session id.
    pub logger_id: u16,
    /// [`STATE_FULL`](BufferHeader::STATE_FULL) on disk, 0 in some header buffers.
    pub state: u32,
    /// The authoritative filled length: header and records, decompressed.
    pub offset: u32,
    /// Loss, flush and compression.
    pub flags: BufferFlags,
    /// Events or the logfile header.
    pub buffer_type: BufferType,
}

impl BufferHeader {
    /// Bytes on disk.
    pub const SIZE: usize = 0x48;
    /// Largest buffer of any Windows version: 16 MiB.
    pub const MAX_BUFFER_SIZE: u32 = 16 << 20;

    /// The state of a buffer that nothing is written to.
    pub const STATE_FREE: u32 = 0;
    /// The state of a buffer that events are written to.
    pub const STATE_IN_USE: u32 = 1;
    /// The state of a buffer on disk.
    pub const STATE_FULL: u32 = 3;

    /// `BufferSize`
    pub const BUFFER_SIZE: Field<u32> = Field::at(0x00);
    /// `SavedOffset`
    pub const SAVED_OFFSET: Field<u32> = Field::at(0x04);
    /// `CurrentOffset`
    pub const CURRENT_OFFSET: Field<u32> = Field::at(0x08);
    /// `ReferenceCount`
    pub const REFERENCE_COUNT: Field<i32> = Field::at(0x0c);
    /// `TimeStamp`
    pub const TIME_STAMP: Field<i64> = Field::at(0x10);
    /// `SequenceNumber`
    pub const SEQUENCE_NUMBER: Field<i64> = Field::at(0x18);
    /// `ProcessorIndex`
    pub const PROCESSOR: Field<u16> = Field::at(0x28);
    /// `LoggerId`
    pub const LOGGER_ID: Field<u16> = Field::at(0x2a);
    /// `State`
    pub const STATE: Field<u32> = Field::at(0x2c);
    /// `Offset`
    pub const OFFSET: Field<u32> = Field::at(0x30);
    /// `BufferFlag`
    pub const FLAGS: Field<u16> = Field::at(0x34);
    /// `BufferType`
    pub const BUFFER_TYPE: Field<u16> = Field::at(0x36);
    /// Words that a running session may use for itself; zero on disk.
    pub const RUNTIME_WORDS: [Field<u64>; 3] = [Field::at(0x20), Field::at(0x38), Field::at(0x40)];

    /// An empty buffer of `buffer_size` bytes for the events of one CPU.
    pub const fn new(buffer_size: u32, cpu: u16) -> BufferHeader {
        BufferHeader {
            buffer_size,
            saved_offset: 0,
            current_offset: 0,
            reference_count: 0,
            time_stamp: 0,
            sequence_number: 0,
            processor: cpu,
            logger_id: 1,
            state: BufferHeader::STATE_FULL,
            offset: 0,
            flags: BufferFlags::PROC_INDEX,
            buffer_type: BufferType::GENERIC,
        }
    }

    /// Reads the fields; nothing is checked.
    pub fn read(bytes: &[u8; BufferHeader::SIZE]) -> BufferHeader {
        fn field<T: crate::FieldValue + Default>(field: Field<T>, bytes: &[u8; 0x48]) -> T {
            // Every field lies within the array.
            field.get(bytes).unwrap_or_default()
        }
        BufferHeader {
            buffer_size: field(BufferHeader::BUFFER_SIZE, bytes),
            saved_offset: field(BufferHeader::SAVED_OFFSET, bytes),
            current_offset: field(BufferHeader::CURRENT_OFFSET, bytes),
            reference_count: field(BufferHeader::REFERENCE_COUNT, bytes),
            time_stamp: field(BufferHeader::TIME_STAMP, bytes),
            sequence_number: field(BufferHeader::SEQUENCE_NUMBER, bytes),
            processor: field(BufferHeader::PROCESSOR, bytes),
            logger_id: field(BufferHeader::LOGGER_ID, bytes),
            state: field(BufferHeader::STATE, bytes),
            offset: field(BufferHeader::OFFSET, bytes),
            flags: BufferFlags(field(BufferHeader::FLAGS, bytes)),
            buffer_type: BufferType(field(BufferHeader::BUFFER_TYPE, bytes)),
        }
    }

    /// The bytes on disk; the runtime words are zero.
    pub fn to_bytes(&self) -> [u8; BufferHeader::SIZE] {
        let mut bytes = [0; BufferHeader::SIZE];
        BufferHeader::BUFFER_SIZE.put(&mut bytes, self.buffer_size);
        BufferHeader::SAVED_OFFSET.put(&mut bytes, self.saved_offset);
        BufferHeader::CURRENT_OFFSET.put(&mut bytes, self.current_offset);
        BufferHeader::REFERENCE_COUNT.put(&mut bytes, self.reference_count);
        BufferHeader::TIME_STAMP.put(&mut bytes, self.time_stamp);
        BufferHeader::SEQUENCE_NUMBER.put(&mut bytes, self.sequence_number);
        BufferHeader::PROCESSOR.put(&mut bytes, self.processor);
        BufferHeader::LOGGER_ID.put(&mut bytes, self.logger_id);
        BufferHeader::STATE.put(&mut bytes, self.state);
        BufferHeader::OFFSET.put(&mut bytes, self.offset);
        BufferHeader::FLAGS.put(&mut bytes, self.flags.0);
        BufferHeader::BUFFER_TYPE.put(&mut bytes, self.buffer_type.0);
        bytes
    }

    /// Clears the runtime words of a header in place, as it belongs on disk.
    pub fn clear_runtime_words(bytes: &mut [u8]) {
        for word in BufferHeader::RUNTIME_WORDS {
            word.put(bytes, 0);
        }
    }

    /// Sets the three lengths of a header in place: `filled` bytes, the header included.
    pub fn put_filled(bytes: &mut [u8], filled: u32) {
        BufferHeader::SAVED_OFFSET.put(bytes, filled);
        BufferHeader::CURRENT_OFFSET.put(bytes, filled);
        BufferHeader::OFFSET.put(bytes, filled);
    }

    /// The CPU whose stream the buffer belongs to: eleven bits with `PROC_INDEX`, eight without (Vista and 7).
    pub fn cpu(&self) -> u16 {
        let mask = if self.flags.contains(BufferFlags::PROC_INDEX) { 0x07ff } else { 0x00ff };
        self.processor & mask
    }

    /// Whether the records are compressed.
    pub fn is_compressed(&self) -> bool {
        self.flags.contains(BufferFlags::COMPRESSED)
    }

    /// Whether this is the first buffer of a file.
    pub fn is_header(&self) -> bool {
        self.buffer_type == BufferType::HEADER
    }

    /// The filled length without this header: `Offset`, or `SavedOffset` if that is out of range.
    ///
    /// `limit` is the largest filled length a buffer of the file can have, with the header.
    pub fn filled(&self, limit: u32) -> Option<usize> {
        let range = BufferHeader::SIZE as u32..=limit;
        [self.offset, self.saved_offset]
            .into_iter()
            .find(|length| range.contains(length))
            .map(|length| length as usize - BufferHeader::SIZE)
    }

    /// Whether these can be the bytes of a buffer header at all, for resynchronising after damage.
    ///
    /// True of every header seen; of random bytes, in one case of 10¹³.
    pub fn is_plausible(&self) -> bool {
        let header = BufferHeader::SIZE as u32;
        let largest = BufferHeader::MAX_BUFFER_SIZE;
        (header..=largest).contains(&self.buffer_size)
            && self.has_plausible_body()
            && (self.is_compressed() || self.filled(self.buffer_size).is_some())
    }

    /// Like [`is_plausible`](BufferHeader::is_plausible), for a header whose `BufferSize` may be wrong.
    pub fn has_plausible_body(&self) -> bool {
        self.filled(BufferHeader::MAX_BUFFER_SIZE).is_some() && self.has_plausible_state()
    }

    /// The part of [`is_plausible`](BufferHeader::is_plausible) that does not depend on lengths.
    pub fn has_plausible_state(&self) -> bool {
        // Buffer states and flags beyond those published exist (compression in progress, 4–6); leave a margin.
        self.state <= 8 && self.buffer_type.0 <= 8 && self.flags.0 < 0x0200
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_header_round_trip_and_cpu_by_generation() {
        let header = BufferHeader {
            buffer_size: 0x2000,
            saved_offset: 0x100,
            current_offset: 3,
            reference_count: -4,
            time_stamp: -5,
            sequence_number: 6,
            processor: 0x0803,
            logger_id: 8,
            state: 3,
            offset: 0x148,
            flags: BufferFlags::PROC_INDEX,
            buffer_type: BufferType::HEADER,
        };
        assert_eq!(BufferHeader::read(&header.to_bytes()), header);
        assert_eq!(header.cpu(), 3);
        // Windows 7: CPU 3, alignment 8.
        assert_eq!(BufferHeader { flags: BufferFlags::NONE, ..header }.cpu(), 3);
        let big = BufferHeader { processor: 0x0123, ..header };
        assert_eq!(
            (big.cpu(), BufferHeader { flags: BufferFlags::NONE, ..big }.cpu()),
            (0x123, 0x23)
        );
        assert_eq!(header.filled(0x2000), Some(0x100));
        assert_eq!(BufferHeader { offset: 0x2001, ..header }.filled(0x2000), Some(0xb8));
        assert_eq!(BufferHeader { offset: 0, saved_offset: 0, ..header }.filled(0x2000), None);
        assert!(header.is_plausible());
        assert!(!BufferHeader::read(&[0; BufferHeader::SIZE]).is_plausible());
        assert!(!BufferHeader::read(&[0xff; BufferHeader::SIZE]).is_plausible());
    }
}
