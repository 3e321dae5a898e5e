//! The contents of the headers of a session's files, and the files' names.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use etw_etl::header::LogfileHeader;
use etw_etl::write::Starter;
use etw_ring::RawClock;
use etw_session::{Compression, LogMode, LogPolicy, SessionClock};
use etw_types::{Clock, ClockType, FileTime, LogFileMode, le};

use crate::clock::{ClockMap, QPC_FREQUENCY, boot_time, filetime_now, qpc_now};

/// The logfile header of a session, and the other values of the first record.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionFacts {
    /// The header; `log_file_name` is the pattern, with `%d` in a new-file series.
    pub header: LogfileHeader,
    /// Raw timestamp of the header record.
    pub start_raw: i64,
    /// The process that started the session.
    pub process_id: u32,
    /// Its thread.
    pub thread_id: u32,
    /// FILETIME minus QPC, for a session on system time.
    pub filetime_at_qpc_zero: i64,
    /// Which buffers of its files are compressed, if the header's mode allows it.
    pub compression: Compression,
}

/// The processor's cycle counter.
#[derive(Clone, Copy, Debug)]
pub struct CycleCounter {
    /// The clock that reads it.
    pub clock: RawClock,
    /// Its frequency in MHz.
    pub mhz: u32,
}

impl SessionFacts {
    /// The facts of a session that starts now; the caller sets sizes, mode and ids. `cycles`: for a session on cycles.
    pub fn new(
        name: &str,
        file: Option<&Path>,
        clock: SessionClock,
        cycles: Option<CycleCounter>,
    ) -> SessionFacts {
        let (now, qpc) = (filetime_now(), qpc_now());
        let (clock_type, start_raw) = match (clock, cycles) {
            (SessionClock::System, _) => (ClockType::SYSTEM, now.0),
            (SessionClock::Cycles, Some(counter)) => (ClockType::TSC, counter.clock.now() as i64),
            _ => (ClockType::QPC, qpc),
        };
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        SessionFacts {
            header: LogfileHeader {
                buffer_size: 64 << 10,
                version: [10, 0, 1, 5],
                // A build number that current readers know; the layout is that of Windows 10.
                provider_version: 19041,
                number_of_processors: cpus.max(configured_cpus()),
                end_time: FileTime(0),
                timer_resolution: 156_250,
                maximum_file_size: 0,
                log_file_mode: LogFileMode::NONE,
                buffers_written: 1,
                start_buffers: 1,
                pointer_size: 8,
                events_lost: 0,
                cpu_speed_mhz: cycles.map_or_else(cpu_mhz, |counter| counter.mhz.max(1)),
                timer_sources: [0; 2],
                time_zone: [0; LogfileHeader::TIME_ZONE_SIZE],
                boot_time: boot_time(now),
                perf_freq: QPC_FREQUENCY,
                start_time: now,
                clock_type,
                buffers_lost: 0,
                logger_name: name.to_owned(),
                log_file_name: file.map_or(String::new(), |f| f.to_string_lossy().into_owned()),
            },
            start_raw,
            process_id: std::process::id(),
            thread_id: 0,
            filetime_at_qpc_zero: now.0 - qpc,
            compression: Compression::Off,
        }
    }

    /// Whether the session's files may have compressed buffers, and so buffers of any length.
    pub fn is_compressed(&self) -> bool {
        self.header.log_file_mode.contains(LogFileMode::COMPRESSED)
    }

    /// Which buffers of the session's files are compressed. A file that a session appends to may differ from its options.
    pub fn compression(&self) -> Compression {
        match (self.is_compressed(), self.compression) {
            (false, _) => Compression::Off,
            (true, Compression::Auto) => Compression::Auto,
            (true, _) => Compression::On,
        }
    }

    /// The policy of the session's log mode.
    pub fn log_policy(&self) -> LogPolicy {
        // Our sessions state their maximum size in KiB.
        let max_size = u64::from(self.header.maximum_file_size) << 10;
        LogMode::of_header(self.header.log_file_mode, max_size).policy()
    }

    /// The meaning of the session's timestamps.
    pub fn clock(&self) -> Clock {
        self.header.clock(self.start_raw)
    }

    /// Ticks of the session's clock in a second.
    pub fn frequency(&self) -> u64 {
        match self.header.clock_type {
            ClockType::TSC => u64::from(self.header.cpu_speed_mhz) * 1_000_000,
            _ => QPC_FREQUENCY,
        }
    }

    /// The first buffer of a file of the session.
    ///
    /// # Errors
    /// `InvalidInput` for names that the buffer cannot hold.
    pub fn header_buffer(&self, header: &LogfileHeader) -> io::Result<Vec<u8>> {
        let starter = Starter { process_id: self.process_id, thread_id: self.thread_id };
        etw_etl::write::logfile_buffer(header, self.start_raw, starter, &[], header.buffer_size)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }

    /// The bytes of the facts, for a `.part` file or the keeper.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.start_raw.to_le_bytes());
        bytes.extend(self.process_id.to_le_bytes());
        bytes.extend(self.thread_id.to_le_bytes());
        bytes.extend(self.filetime_at_qpc_zero.to_le_bytes());
        bytes.extend(self.header.to_payload());
        bytes.push(u8::from(self.compression == Compression::Auto));
        bytes
    }

    /// Reads the facts from their bytes.
    ///
    /// # Errors
    /// `InvalidData` for truncated bytes.
    pub fn read(bytes: &[u8]) -> io::Result<SessionFacts> {
        let parse = || {
            let header = LogfileHeader::read(bytes.get(24..)?, 8)?;
            // Facts that an older program wrote end with the header.
            let is_auto = bytes.get(24 + header.to_payload().len()) == Some(&1);
            let is_compressed = header.log_file_mode.contains(LogFileMode::COMPRESSED);
            Some(SessionFacts {
                start_raw: le::i64(bytes, 0)?,
                process_id: le::u32(bytes, 8)?,
                thread_id: le::u32(bytes, 12)?,
                filetime_at_qpc_zero: le::i64(bytes, 16)?,
                header,
                compression: match (is_compressed, is_auto) {
                    (_, true) => Compression::Auto,
                    (true, false) => Compression::On,
                    (false, false) => Compression::Off,
                },
            })
        };
        parse()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the session facts are cut"))
    }
}

/// The conversion from the raw clock to a session's.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SessionTime {
    /// QPC.
    Qpc,
    /// System time: so many ticks more than QPC.
    System(i64),
    /// The raw clock itself.
    Raw,
}

impl SessionTime {
    /// The conversion of a session.
    pub fn of(facts: &SessionFacts) -> SessionTime {
        match facts.header.clock_type {
            ClockType::SYSTEM => SessionTime::System(facts.filetime_at_qpc_zero),
            ClockType::TSC => SessionTime::Raw,
            _ => SessionTime::Qpc,
        }
    }

    /// The session's time at a raw time.
    #[inline(always)]
    pub fn time(self, clock: &ClockMap, raw: u64) -> i64 {
        match self {
            SessionTime::Qpc => clock.qpc(raw),
            SessionTime::System(zero) => zero + clock.qpc(raw),
            SessionTime::Raw => raw as i64,
        }
    }
}

/// The speed of a processor in MHz as the system tells it; 1000 if it does not, because the header must have one. Readers need it only
/// for times in cycles.
fn cpu_mhz() -> u32 {
    const UNKNOWN: u32 = 1000;
    static MHZ: OnceLock<u32> = OnceLock::new();
    *MHZ.get_or_init(|| {
        let in_khz = |name: &str| {
            let path = format!("/sys/devices/system/cpu/cpu0/cpufreq/{name}");
            let khz = std::fs::read_to_string(path).ok()?.trim().parse::<u32>().ok()?;
            Some(khz / 1000).filter(|mhz| *mhz > 0)
        };
        let of_cpuinfo = || mhz_of_cpuinfo(&std::fs::read_to_string("/proc/cpuinfo").ok()?);
        let nominal = in_khz("base_frequency").or_else(|| in_khz("cpuinfo_max_freq"));
        nominal.or_else(of_cpuinfo).unwrap_or(UNKNOWN)
    })
}

/// The speed of the first processor in `/proc/cpuinfo`.
fn mhz_of_cpuinfo(text: &str) -> Option<u32> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu MHz"))?;
    let mhz = line.trim_start().strip_prefix(':')?.trim().parse::<f64>().ok()?.round();
    Some(mhz as u32).filter(|mhz| *mhz > 0)
}

/// Number of processors that may ever run, from the highest one's number.
fn configured_cpus() -> u32 {
    #[cfg(target_os = "linux")]
    // SAFETY: takes and returns numbers.
    return u32::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }).unwrap_or(1);
    #[cfg(not(target_os = "linux"))]
    return 1;
}

/// The name of the file `number` (from 1) of a series, in place of `%d`. A name without `%d` is that of the only file.
pub fn file_name(pattern: &Path, number: u32) -> PathBuf {
    let text = pattern.to_string_lossy();
    if text.contains("%d") {
        text.replacen("%d", &number.to_string(), 1).into()
    } else {
        pattern.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_come_back() {
        let facts =
            SessionFacts::new("session é", Some(Path::new("/tmp/x.etl")), SessionClock::Qpc, None);
        assert_eq!(SessionFacts::read(&facts.to_bytes()).unwrap(), facts);
        let mut auto = facts.clone();
        auto.header.log_file_mode = LogFileMode::COMPRESSED;
        auto.compression = Compression::Auto;
        let bytes = auto.to_bytes();
        assert_eq!(SessionFacts::read(&bytes).unwrap(), auto);
        // As an older program wrote them.
        let old = SessionFacts::read(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(old.compression, Compression::On);
        for cut in [0, 10, 23, 24, 100, 24 + LogfileHeader::fixed_size(8) - 1] {
            assert!(SessionFacts::read(&facts.to_bytes()[..cut]).is_err());
        }
    }

    #[test]
    fn the_header_has_the_speed_of_the_processor() {
        let text = "processor\t: 0\ncpu MHz\t\t: 2099.998\ncpu MHz\t\t: 800.0\n";
        assert_eq!(mhz_of_cpuinfo(text), Some(2100));
        for unknown in ["", "processor\t: 0\n", "cpu MHz\t\t: fast\n", "cpu MHz\t\t: 0.0\n"] {
            assert_eq!(mhz_of_cpuinfo(unknown), None, "{unknown:?}");
        }
        let facts = |cycles| SessionFacts::new("s", None, SessionClock::Qpc, cycles);
        assert_eq!(facts(None).header.cpu_speed_mhz, cpu_mhz());
        assert!(cpu_mhz() > 0);
    }

    #[test]
    fn names_of_a_series() {
        assert_eq!(file_name(Path::new("/tmp/a%d.etl"), 3), Path::new("/tmp/a3.etl"));
        assert_eq!(file_name(Path::new("/tmp/a.etl"), 3), Path::new("/tmp/a.etl"));
    }
}
