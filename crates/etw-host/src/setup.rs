//! The preparation of a session: its header, its clock, and the end of the file that it appends to.

use std::io;
use std::path::Path;
use std::time::Duration;

use etw_ring::RawClock;
use etw_session::{EventClock, FileEnd, HostFacts, LogMode, SessionClock, SessionConfig};
use etw_types::ClockType;

pub use crate::append_error::AppendError;
use crate::clock::Pair;
use crate::facts::{CycleCounter, SessionFacts};
use crate::files::Files;
use crate::start_error::StartError;

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
        .then(|| CycleCounter { clock: raw, mhz: cycles_mhz(raw) });
    let mut facts = SessionFacts::new(&config.name, config.file.as_deref(), config.clock, cycles);
    facts.header.buffer_size = config.buffer_size;
    facts.header.log_file_mode = config.log_file_mode();
    facts.header.maximum_file_size = config.max_size_kb();
    facts.compression = config.compression;
    if config.compression.is_possible() || config.buffer_size > 1 << 20 {
        // The layout of files with compressed buffers, or with buffers above 1 MiB.
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

/// The end of the file that a session appends to, whose facts become the session's. `None`: there is no file, and the session creates it.
fn find_end(path: &Path, facts: &mut SessionFacts) -> Result<Option<FileEnd>, StartError> {
    let size = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(StartError::File { path: path.to_owned(), source }),
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
    if size % u64::from(header.buffer_size) != 0 {
        return Err(AppendError::Length { length: size }.into());
    }
    facts.start_raw = file.clock().raw_start;
    facts.header = header.clone();
    let slots = size / u64::from(header.buffer_size);
    Ok(Some(FileEnd { slots, last_sequence: slots as i64 - 1 }))
}

/// The rate of the cycle counter; takes 20 ms.
pub(crate) fn cycles_mhz(raw: RawClock) -> u32 {
    let from = Pair::now(raw);
    std::thread::sleep(Duration::from_millis(20));
    let to = Pair::now(raw);
    let mhz = (to.raw - from.raw) as f64 * 1000.0 / (to.ns - from.ns).max(1) as f64;
    mhz.round() as u32
}
