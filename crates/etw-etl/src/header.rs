//! The raw structs of the container: the header of each buffer and the logfile header of the first.
//!
//! Layouts as documented for `WMI_BUFFER_HEADER` and `TRACE_LOGFILE_HEADER` and checked against traces of
//! Windows 7 to 11.

use etw_types::{Clock, ClockType, FileTime, LogFileMode, le};

macro_rules! flag_consts {
    ($name:ident: $ty:ty { $($(#[$doc:meta])* $flag:ident = $value:expr;)* }) => {
        impl $name {
            $($(#[$doc])* pub const $flag: $ty = $value;)*
        }
    };
}

/// The 72 bytes before each buffer's records; the same for 32- and 64-bit sessions.
///
/// ```text
/// 00 u32 BufferSize      to the next buffer        04 u32 SavedOffset     may be stale
/// 08 u32 CurrentOffset   junk on disk              0C i32 ReferenceCount
/// 10 i64 TimeStamp       of the flush              18 i64 SequenceNumber
/// 20 u64 -                                         28 u16 ProcessorIndex, or u8 CPU and u8 alignment
/// 2A u16 LoggerId                                  2C u32 State
/// 30 u32 Offset          filled, with this header, decompressed
/// 34 u16 BufferFlag      36 u16 BufferType         38 16 bytes -
/// ```
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
    /// 0 for the header buffer, then 1, 2, 3 in the order in which buffers were begun.
    pub sequence_number: i64,
    /// The CPU field as stored; see [`cpu`](BufferHeader::cpu).
    pub processor: u16,
    /// Session id.
    pub logger_id: u16,
    /// 3 on disk, 0 in some header buffers.
    pub state: u32,
    /// The authoritative filled length: header and records, decompressed.
    pub offset: u32,
    /// `FLUSH_MARKER`, …, `COMPRESSED`.
    pub flags: u16,
    /// `GENERIC`, …, `HEADER`.
    pub buffer_type: u16,
}

flag_consts! { BufferHeader: u16 {
    /// Last buffer of a flush: everything older has been written.
    FLUSH_MARKER = 0x0001;
    /// Events were lost while this buffer was filled.
    EVENTS_LOST = 0x0002;
    /// A buffer before this one was lost.
    BUFFER_LOST = 0x0004;
    /// The CPU index takes sixteen bits.
    PROC_INDEX = 0x0020;
    /// The records are one LZXPRESS stream.
    COMPRESSED = 0x0040;
    /// Buffer type 0: events.
    GENERIC = 0;
    /// Buffer type 4: the first buffer of a file.
    HEADER = 4;
} }

impl BufferHeader {
    /// Bytes on disk.
    pub const SIZE: usize = 0x48;
    /// Largest buffer of any Windows version: 16 MiB.
    pub const MAX_BUFFER_SIZE: u32 = 16 << 20;

    /// Reads the fields; nothing is checked.
    pub fn read(bytes: &[u8; BufferHeader::SIZE]) -> BufferHeader {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let i64_at = |at: usize| i64::from(u32_at(at)) | i64::from(u32_at(at + 4) as i32) << 32;
        BufferHeader {
            buffer_size: u32_at(0x00),
            saved_offset: u32_at(0x04),
            current_offset: u32_at(0x08),
            reference_count: u32_at(0x0c) as i32,
            time_stamp: i64_at(0x10),
            sequence_number: i64_at(0x18),
            processor: u16_at(0x28),
            logger_id: u16_at(0x2a),
            state: u32_at(0x2c),
            offset: u32_at(0x30),
            flags: u16_at(0x34),
            buffer_type: u16_at(0x36),
        }
    }

    /// The bytes on disk; fields that only a running kernel uses are zero.
    pub fn to_bytes(&self) -> [u8; BufferHeader::SIZE] {
        let mut bytes = [0; BufferHeader::SIZE];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0x00, &self.buffer_size.to_le_bytes());
        put(0x04, &self.saved_offset.to_le_bytes());
        put(0x08, &self.current_offset.to_le_bytes());
        put(0x0c, &self.reference_count.to_le_bytes());
        put(0x10, &self.time_stamp.to_le_bytes());
        put(0x18, &self.sequence_number.to_le_bytes());
        put(0x28, &self.processor.to_le_bytes());
        put(0x2a, &self.logger_id.to_le_bytes());
        put(0x2c, &self.state.to_le_bytes());
        put(0x30, &self.offset.to_le_bytes());
        put(0x34, &self.flags.to_le_bytes());
        put(0x36, &self.buffer_type.to_le_bytes());
        bytes
    }

    /// The CPU whose stream the buffer belongs to: eleven bits with `PROC_INDEX`, eight without (Vista and 7).
    pub fn cpu(&self) -> u16 {
        if self.flags & BufferHeader::PROC_INDEX != 0 {
            self.processor & 0x07ff
        } else {
            self.processor & 0x00ff
        }
    }

    /// Whether the records are compressed.
    pub fn is_compressed(&self) -> bool {
        self.flags & BufferHeader::COMPRESSED != 0
    }

    /// The filled length without this header: `Offset`, or `SavedOffset` where that is out of range.
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

    /// Like [`is_plausible`](BufferHeader::is_plausible), for a header whose `BufferSize` may lie.
    pub fn has_plausible_body(&self) -> bool {
        self.filled(BufferHeader::MAX_BUFFER_SIZE).is_some() && self.has_plausible_state()
    }

    /// The part of [`is_plausible`](BufferHeader::is_plausible) that is not about lengths.
    pub fn has_plausible_state(&self) -> bool {
        // Buffer states and flags beyond those published exist (compression in progress, 4–6); leave a margin.
        self.state <= 8 && self.buffer_type <= 8 && self.flags < 0x0200
    }
}

/// The first record's payload: what session wrote the file, on what machine, by what clock.
#[doc(alias = "TRACE_LOGFILE_HEADER")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogfileHeader {
    /// Bytes; the largest uncompressed buffer in compressed files.
    pub buffer_size: u32,
    /// Major and minor version of the system, then version of the layout.
    pub version: [u8; 4],
    /// Build of the system.
    pub provider_version: u32,
    /// CPUs; 1 with NO_PER_PROCESSOR_BUFFERING.
    pub number_of_processors: u32,
    /// Set at stop; 0 while running.
    pub end_time: FileTime,
    /// 100 ns units.
    pub timer_resolution: u32,
    /// MB, or KB with USE_KBYTES_FOR_SIZE; 0 for none.
    pub maximum_file_size: u32,
    /// How the session used the file.
    pub log_file_mode: LogFileMode,
    /// Buffers in the file, the header's included.
    pub buffers_written: u32,
    /// 1 in every file seen.
    pub start_buffers: u32,
    /// 4 or 8.
    pub pointer_size: u32,
    /// Events the session lost.
    pub events_lost: u32,
    /// For clock type 3.
    pub cpu_speed_mhz: u32,
    /// Timer sources on Windows 7 and later, stale pointers before.
    pub timer_sources: (u64, u64),
    /// TIME_ZONE_INFORMATION, 0xAC bytes.
    pub time_zone: [u8; LogfileHeader::TIME_ZONE_SIZE],
    /// When the system started.
    pub boot_time: FileTime,
    /// Ticks a second of the performance counter.
    pub perf_freq: u64,
    /// Wall-clock time of the header record.
    pub start_time: FileTime,
    /// Clock type.
    pub clock_type: ClockType,
    /// Buffers the session lost.
    pub buffers_lost: u32,
    /// Session name.
    pub logger_name: String,
    /// File name as the session knew it.
    pub log_file_name: String,
}

impl LogfileHeader {
    /// Bytes of TIME_ZONE_INFORMATION.
    pub const TIME_ZONE_SIZE: usize = 0xac;

    /// Where NumberOfProcessors stands in the payload of either width; so do the next two.
    pub const PROCESSORS_OFFSET: u64 = 0x0c;
    /// EndTime.
    pub const END_TIME_OFFSET: u64 = 0x10;
    /// BuffersWritten.
    pub const BUFFERS_WRITTEN_OFFSET: u64 = 0x24;

    /// Bytes before the two names.
    pub const fn fixed_size(pointer_size: u32) -> usize {
        if pointer_size == 4 { 0x110 } else { 0x118 }
    }

    /// Reads the payload of the header record; `pointer_size` is that of the record's header type.
    ///
    /// `None` where the fixed part is cut. A name without its NUL is taken to the end.
    pub fn read(payload: &[u8], pointer_size: u32) -> Option<LogfileHeader> {
        let wide = pointer_size != 4;
        // Behind the two pointers everything lies eight bytes further in the 64-bit form.
        let tail = if wide { 8 } else { 0 };
        let pointer = |at: usize| {
            if wide { le::u64(payload, at) } else { le::u32(payload, at).map(u64::from) }
        };
        let u32_at = |at| le::u32(payload, at);
        let time_at = |at| le::i64(payload, at).map(FileTime);
        let names = payload.get(LogfileHeader::fixed_size(pointer_size)..)?;
        let (logger_name, taken) = le::utf16_z(names).unwrap_or((names, names.len()));
        let rest = &names[taken..];
        let log_file_name = le::utf16_z(rest).map_or(rest, |(name, _)| name);
        Some(LogfileHeader {
            buffer_size: u32_at(0x00)?,
            version: payload.get(0x04..0x08)?.try_into().ok()?,
            provider_version: u32_at(0x08)?,
            number_of_processors: u32_at(0x0c)?,
            end_time: time_at(0x10)?,
            timer_resolution: u32_at(0x18)?,
            maximum_file_size: u32_at(0x1c)?,
            log_file_mode: LogFileMode(u32_at(0x20)?),
            buffers_written: u32_at(0x24)?,
            start_buffers: u32_at(0x28)?,
            pointer_size: u32_at(0x2c)?,
            events_lost: u32_at(0x30)?,
            cpu_speed_mhz: u32_at(0x34)?,
            timer_sources: (pointer(0x38)?, pointer(if wide { 0x40 } else { 0x3c })?),
            time_zone: payload.get(0x40 + tail..0xec + tail)?.try_into().ok()?,
            boot_time: time_at(0xf0 + tail)?,
            perf_freq: le::u64(payload, 0xf8 + tail)?,
            start_time: time_at(0x100 + tail)?,
            clock_type: ClockType(u32_at(0x108 + tail)?),
            buffers_lost: u32_at(0x10c + tail)?,
            logger_name: le::utf16_lossy(logger_name),
            log_file_name: le::utf16_lossy(log_file_name),
        })
    }

    /// The payload of the header record in the form that `self.pointer_size` says.
    pub fn to_payload(&self) -> Vec<u8> {
        let wide = self.pointer_size != 4;
        let mut out = Vec::with_capacity(0x200);
        out.extend(self.buffer_size.to_le_bytes());
        out.extend(self.version);
        out.extend(self.provider_version.to_le_bytes());
        out.extend(self.number_of_processors.to_le_bytes());
        out.extend(self.end_time.0.to_le_bytes());
        out.extend(self.timer_resolution.to_le_bytes());
        out.extend(self.maximum_file_size.to_le_bytes());
        out.extend(self.log_file_mode.0.to_le_bytes());
        out.extend(self.buffers_written.to_le_bytes());
        out.extend(self.start_buffers.to_le_bytes());
        out.extend(self.pointer_size.to_le_bytes());
        out.extend(self.events_lost.to_le_bytes());
        out.extend(self.cpu_speed_mhz.to_le_bytes());
        for source in [self.timer_sources.0, self.timer_sources.1] {
            out.extend(&source.to_le_bytes()[..if wide { 8 } else { 4 }]);
        }
        out.extend(self.time_zone);
        out.extend([0; 4]);
        out.extend(self.boot_time.0.to_le_bytes());
        out.extend(self.perf_freq.to_le_bytes());
        out.extend(self.start_time.0.to_le_bytes());
        out.extend(self.clock_type.0.to_le_bytes());
        out.extend(self.buffers_lost.to_le_bytes());
        for name in [&self.logger_name, &self.log_file_name] {
            out.extend(name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        }
        out
    }

    /// What the file's raw timestamps mean; `raw_start` is the header record's own.
    pub fn clock(&self, raw_start: i64) -> Clock {
        let frequency = match self.clock_type {
            ClockType::TSC => u64::from(self.cpu_speed_mhz) * 1_000_000,
            _ => self.perf_freq,
        };
        Clock { kind: self.clock_type, start: self.start_time, raw_start, frequency }
    }

    /// The version of the layout: 1.0 on XP, 1.2 on 2003, 1.4 on Vista, 1.5 later, 2.0 when compressed or large.
    pub fn layout(&self) -> (u8, u8) {
        (self.version[2], self.version[3])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(pointer_size: u32) -> LogfileHeader {
        LogfileHeader {
            buffer_size: 0x10000,
            version: [10, 0, 1, 5],
            provider_version: 19041,
            number_of_processors: 3,
            end_time: FileTime(5),
            timer_resolution: 156_250,
            maximum_file_size: 7,
            log_file_mode: LogFileMode(9),
            buffers_written: 10,
            start_buffers: 1,
            pointer_size,
            events_lost: 11,
            cpu_speed_mhz: 12,
            timer_sources: (13, 14),
            time_zone: [15; LogfileHeader::TIME_ZONE_SIZE],
            boot_time: FileTime(16),
            perf_freq: 17,
            start_time: FileTime(18),
            clock_type: ClockType::QPC,
            buffers_lost: 19,
            logger_name: "session".into(),
            log_file_name: "C:\\é.etl".into(),
        }
    }

    #[test]
    fn logfile_header_round_trip_in_both_widths() {
        for pointer_size in [4, 8] {
            let header = header(pointer_size);
            let payload = header.to_payload();
            let names = 2 * ("session".len() + 1 + 8 + 1);
            assert_eq!(payload.len(), LogfileHeader::fixed_size(pointer_size) + names);
            assert_eq!(LogfileHeader::read(&payload, pointer_size), Some(header));
            let cut = LogfileHeader::fixed_size(pointer_size) - 1;
            assert_eq!(LogfileHeader::read(&payload[..cut], pointer_size), None);
        }
    }

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
            flags: BufferHeader::PROC_INDEX,
            buffer_type: BufferHeader::HEADER,
        };
        assert_eq!(BufferHeader::read(&header.to_bytes()), header);
        assert_eq!(header.cpu(), 3);
        // Windows 7: CPU 3, alignment 8.
        assert_eq!(BufferHeader { flags: 0, ..header }.cpu(), 3);
        let big = BufferHeader { processor: 0x0123, ..header };
        assert_eq!((big.cpu(), BufferHeader { flags: 0, ..big }.cpu()), (0x123, 0x23));
        assert_eq!(header.filled(0x2000), Some(0x100));
        assert_eq!(BufferHeader { offset: 0x2001, ..header }.filled(0x2000), Some(0xb8));
        assert_eq!(BufferHeader { offset: 0, saved_offset: 0, ..header }.filled(0x2000), None);
        assert!(header.is_plausible());
        assert!(!BufferHeader::read(&[0; 72]).is_plausible());
        assert!(!BufferHeader::read(&[0xff; 72]).is_plausible());
    }
}
