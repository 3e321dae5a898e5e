//! `TRACE_LOGFILE_HEADER`: the payload of a file's first record.
//!
//! Layout as documented and checked against traces of Windows 7 to 11.

use etw_types::{Clock, ClockType, Field, FileTime, LogFileMode, le};

/// The payload of a file's first record: which session wrote the file, on which machine, by which clock.
///
/// ```text
/// 00 u32 BufferSize          04 u8 major, u8 minor, u8 layout, u8 sublayout   08 u32 ProviderVersion
/// 0C u32 NumberOfProcessors  10 i64 EndTime             18 u32 TimerResolution
/// 1C u32 MaximumFileSize     20 u32 LogFileMode         24 u32 BuffersWritten
/// 28 u32 StartBuffers        2C u32 PointerSize         30 u32 EventsLost       34 u32 CpuSpeedInMHz
/// 38 two pointers: timer sources; everything behind them lies 8 bytes further in the 64-bit form
/// 40 0xAC bytes TimeZone     EC u32 -                   F0 i64 BootTime         F8 u64 PerfFreq
/// 100 i64 StartTime          108 u32 clock type         10C u32 BuffersLost
/// 110 UTF-16 LoggerName, NUL, UTF-16 LogFileName, NUL
/// ```
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
    pub timer_sources: [u64; 2],
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

/// A version of the layout: 1.0 on XP, 1.2 on 2003, 1.4 on Vista, 1.5 later, 2.0 when compressed or large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LayoutVersion {
    /// The first number.
    pub major: u8,
    /// The second number.
    pub minor: u8,
}

impl LayoutVersion {
    /// The layout of Vista and later, for files that are neither compressed nor large.
    pub const CURRENT: LayoutVersion = LayoutVersion { major: 1, minor: 5 };
    /// The first layout whose instance events have both instances.
    pub(crate) const NEW_INSTANCES: LayoutVersion = LayoutVersion { major: 1, minor: 1 };
}

impl LogfileHeader {
    /// The session of a file that is one of a series (`EVENT_TRACE_FILE_MODE_NEWFILE`): name, start and boot time, which all files of the
    /// series share. `None`: the file stands alone.
    pub(crate) fn series(&self) -> Option<(&str, FileTime, FileTime)> {
        let is_of_series = self.log_file_mode.contains(LogFileMode::NEWFILE);
        is_of_series.then_some((&self.logger_name, self.start_time, self.boot_time))
    }

    /// Bytes of TIME_ZONE_INFORMATION.
    pub const TIME_ZONE_SIZE: usize = 0xac;

    /// `NumberOfProcessors`, in the payload of either width, as the following fields.
    pub const NUMBER_OF_PROCESSORS: Field<u32> = Field::at(0x0c);
    /// `EndTime`
    pub const END_TIME: Field<i64> = Field::at(0x10);
    /// `BuffersWritten`
    pub const BUFFERS_WRITTEN: Field<u32> = Field::at(0x24);
    /// `EventsLost`
    pub const EVENTS_LOST: Field<u32> = Field::at(0x30);

    /// A header that states nothing of its session.
    pub(crate) fn unknown() -> LogfileHeader {
        LogfileHeader {
            buffer_size: 0,
            version: [0, 0, 1, 5],
            provider_version: 0,
            number_of_processors: 1,
            end_time: FileTime(0),
            timer_resolution: 0,
            maximum_file_size: 0,
            log_file_mode: LogFileMode::NONE,
            buffers_written: 0,
            start_buffers: 1,
            pointer_size: 8,
            events_lost: 0,
            cpu_speed_mhz: 0,
            timer_sources: [0; 2],
            time_zone: [0; LogfileHeader::TIME_ZONE_SIZE],
            boot_time: FileTime(0),
            perf_freq: 0,
            start_time: FileTime(0),
            clock_type: ClockType::QPC,
            buffers_lost: 0,
            logger_name: String::new(),
            log_file_name: String::new(),
        }
    }

    /// The build of the system, which decides between packs of schemas; `None` if the header states none.
    pub fn windows_build(&self) -> Option<u32> {
        (self.provider_version != 0).then_some(self.provider_version)
    }

    /// The maximum size of the file in bytes; `None`: the header states none.
    pub fn maximum_size(&self) -> Option<u64> {
        let unit =
            if self.log_file_mode.contains(LogFileMode::USE_KBYTES_FOR_SIZE) { 10 } else { 20 };
        (self.maximum_file_size > 0).then_some(u64::from(self.maximum_file_size) << unit)
    }

    /// Bytes before the two names.
    pub const fn fixed_size(pointer_size: u32) -> usize {
        if pointer_size == 4 { 0x110 } else { 0x118 }
    }

    /// Reads the payload of the header record; `pointer_size` is that of the record's header type.
    ///
    /// `None` if the fixed part is truncated. A name without NUL extends to the end.
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
            timer_sources: [pointer(0x38)?, pointer(if wide { 0x40 } else { 0x3c })?],
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

    /// The payload of the header record, for `self.pointer_size`.
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
        for source in self.timer_sources {
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

    /// The clock of the file's raw timestamps; `raw_start` is that of the header record.
    pub fn clock(&self, raw_start: i64) -> Clock {
        let frequency = match self.clock_type {
            ClockType::TSC => u64::from(self.cpu_speed_mhz) * 1_000_000,
            _ => self.perf_freq,
        };
        Clock { kind: self.clock_type, start: self.start_time, raw_start, frequency }
    }

    /// The version of the layout.
    pub fn layout(&self) -> LayoutVersion {
        LayoutVersion { major: self.version[2], minor: self.version[3] }
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
            timer_sources: [13, 14],
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
}
