//! The preparation of a session: its header, its clock, and the end of the file that it appends to.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use etw_ring::RawClock;
use etw_session::{EventClock, FileEnd, HostFacts, LogMode, SessionClock, SessionConfig};
use etw_types::ClockType;

use crate::clock::Pair;
use crate::facts::SessionFacts;
use crate::files::Files;
use crate::private::StartError;

/// A session that can start.
#[derive(Debug)]
pub struct Prepared {
    /// The contents of its header.
    pub facts: SessionFacts,
    /// The facts about the host that the session's state machine needs.
    pub host: HostFacts,
}

/// Checks a session's configuration and prepares its start.
///
/// # Errors
/// `Config` for options that a session cannot have; `Append` for a file that the session cannot append to.
pub fn prepare(
    config: &SessionConfig,
    raw: RawClock,
    logger_id: u16,
) -> Result<Prepared, StartError> {
    config.validate().map_err(StartError::Config)?;
    let cycles = (raw == RawClock::Tsc && config.clock == SessionClock::Cycles)
        .then(|| (raw, cycles_mhz(raw)));
    let mut facts = SessionFacts::new(&config.name, config.file.as_deref(), config.clock, cycles);
    facts.header.buffer_size = config.buffer_size;
    facts.header.log_file_mode = config.log_file_mode();
    facts.header.maximum_file_size = config.max_size_kb();
    if config.compressed || config.buffer_size > 1 << 20 {
        // The layout of such files (formats/01, section 2).
        facts.header.version[2..].copy_from_slice(&[2, 0]);
    }
    let append_to = match &config.file {
        Some(path) if config.mode == LogMode::Append => find_end(path, &mut facts)?,
        _ => None,
    };
    let host = HostFacts { append_to, ..host_facts(&facts, logger_id) };
    Ok(Prepared { facts, host })
}

/// A host's facts about a session with these facts, which appends to no file.
pub fn host_facts(facts: &SessionFacts, logger_id: u16) -> HostFacts {
    HostFacts { logger_id, frequency: facts.frequency(), ..HostFacts::default() }
}

/// The clock of one of several sessions that one stream of events goes to, in the performance counter's time.
pub fn event_clock(facts: &SessionFacts) -> EventClock {
    match facts.header.clock_type {
        ClockType::SYSTEM => EventClock::Shifted(facts.filetime_at_qpc_zero),
        ClockType::TSC => EventClock::Raw,
        _ => EventClock::Main,
    }
}

impl Prepared {
    /// Creates the session's first file, or opens the one that it appends to.
    ///
    /// # Errors
    /// Those of the system.
    pub fn files(&self, path: &Path, preallocate: bool) -> io::Result<Files> {
        match self.host.append_to {
            Some(_) => Files::reopen(path, self.facts.clone(), 1),
            None => {
                let max = u64::from(self.facts.header.maximum_file_size) << 10;
                Files::create(path, self.facts.clone(), if preallocate { max } else { 0 })
            }
        }
    }
}

/// Why a session cannot append to a file.
#[derive(Debug)]
#[non_exhaustive]
pub enum AppendError {
    /// The file cannot be read as a trace.
    Unreadable(etw_etl::Error),
    /// The file has no header.
    NoHeader,
    /// The file's buffers have another size.
    BufferSize {
        /// Bytes in the file.
        file: u32,
        /// Bytes in the session.
        session: u32,
    },
    /// The file's clock is not system time, or the session's is not.
    Clock {
        /// The clock of the file.
        file: ClockType,
        /// The clock of the session.
        session: ClockType,
    },
    /// The file was recorded on a machine with another number of processors or another pointer size.
    Machine,
    /// The file ends in the middle of a buffer.
    Length {
        /// Bytes of the file.
        length: u64,
    },
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot append: ")?;
        match self {
            AppendError::Unreadable(error) => error.fmt(f),
            AppendError::NoHeader => f.write_str("the file has no header"),
            AppendError::BufferSize { file, session } => {
                write!(f, "the file's buffers have {file} bytes, the session's {session}")
            }
            AppendError::Clock { file, session } => write!(
                f,
                "both the file and the session must use system time; the file uses {file:?}, the session {session:?}"
            ),
            AppendError::Machine => f.write_str(
                "the file is of a machine with another number of processors or another pointer size",
            ),
            AppendError::Length { length } => {
                write!(f, "the file ends in the middle of a buffer, at {length} bytes; run `etw repair`")
            }
        }
    }
}

impl std::error::Error for AppendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            AppendError::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}

/// The end of the file that a session appends to, whose facts become the session's. `None`: there is no file, and the session creates it.
fn find_end(path: &Path, facts: &mut SessionFacts) -> Result<Option<FileEnd>, StartError> {
    let size = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
        // A session was killed before it wrote anything.
        Ok(metadata) if metadata.len() == 0 => return Ok(None),
        Ok(metadata) => metadata.len(),
    };
    let file = etw_etl::read::TraceFile::open(path).map_err(AppendError::Unreadable)?;
    let header = file.header().ok_or(AppendError::NoHeader)?;
    let ours = &facts.header;
    if header.buffer_size != ours.buffer_size {
        let (file, session) = (header.buffer_size, ours.buffer_size);
        return Err(AppendError::BufferSize { file, session }.into());
    }
    if header.clock_type != ours.clock_type || header.clock_type != ClockType::SYSTEM {
        let (file, session) = (header.clock_type, ours.clock_type);
        return Err(AppendError::Clock { file, session }.into());
    }
    if header.pointer_size != 8 || header.number_of_processors != ours.number_of_processors {
        return Err(AppendError::Machine.into());
    }
    if !size.is_multiple_of(u64::from(header.buffer_size)) {
        return Err(AppendError::Length { length: size }.into());
    }
    facts.start_raw = file.clock().raw_start;
    facts.header = header.clone();
    let slots = size / u64::from(header.buffer_size);
    Ok(Some(FileEnd { slots, last_sequence: slots as i64 - 1 }))
}

/// The rate of the cycle counter; takes 20 ms.
pub fn cycles_mhz(raw: RawClock) -> u32 {
    let from = Pair::now(raw);
    std::thread::sleep(Duration::from_millis(20));
    let to = Pair::now(raw);
    let mhz = (to.raw - from.raw) as f64 * 1000.0 / (to.ns - from.ns).max(1) as f64;
    mhz.round() as u32
}
