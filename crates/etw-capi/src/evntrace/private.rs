//! Private sessions (`EVENT_TRACE_PRIVATE_LOGGER_MODE`): this process's own, without a host. They have handles like others, which mean
//! nothing in another process.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use etw_api::{
    EnableInfo, Guid, Level, Session, SessionClock, SessionStatistics, Status, create_id,
};
use etw_types::LogFileMode;
use etw_wire::control::{FileMode, SessionStatus, Start};

use super::sessions::handle_of;

/// Numbers of private sessions are above those of a host's.
const FIRST_ID: u32 = 0x8000;

/// A private session that runs.
pub struct Private {
    /// What does not change.
    facts: SessionStatus,
    session: Session,
}

struct All {
    next_id: u32,
    running: Vec<Arc<Private>>,
}

static ALL: Mutex<All> = Mutex::new(All { next_id: FIRST_ID, running: Vec::new() });

fn all<T>(with: impl FnOnce(&mut All) -> T) -> T {
    with(&mut ALL.lock().unwrap_or_else(PoisonError::into_inner))
}

/// By its handle; where that is 0 by its name.
pub fn find(handle: u64, name: Option<&str>) -> Option<Arc<Private>> {
    let is_it = |session: &&Arc<Private>| match (handle, name) {
        (0, Some(name)) => session.facts.name.to_lowercase() == name.to_lowercase(),
        (handle, _) => handle_of(&session.facts) == handle,
    };
    all(|all| all.running.iter().find(is_it).cloned())
}

/// # Errors
/// As `StartTrace`.
pub fn start(start: Start, mode: LogFileMode) -> Result<SessionStatus, Status> {
    if find(0, Some(&start.name)).is_some() {
        return Err(Status::ERROR_ALREADY_EXISTS);
    }
    let mut builder = Session::builder(&start.name)
        .buffer_size_kb(start.buffer_size >> 10)
        .buffers(start.buffers)
        .clock(match start.clock {
            2 => SessionClock::System,
            3 => SessionClock::Cycles,
            _ => SessionClock::Qpc,
        });
    if let Some(timer) = start.flush_timer_ms {
        builder = builder.flush_timer(Duration::from_millis(u64::from(timer)));
    }
    if start.no_per_processor {
        builder = builder.no_per_processor_buffering();
    }
    if start.preallocate {
        builder = builder.preallocate();
    }
    if start.compressed {
        builder = builder.compressed();
    }
    let size = start.max_size.unwrap_or(0);
    builder = match (&start.file, start.mode) {
        (None, _) => builder.memory(),
        (Some(_), FileMode::Append) => builder.append(),
        (Some(_), FileMode::Circular) => builder.circular(size),
        (Some(_), FileMode::NewFile) => builder.new_file(size),
        (Some(_), FileMode::Sequential) if size > 0 => builder.max_size(size),
        (Some(_), FileMode::Sequential) => builder,
    };
    if let Some(file) = &start.file {
        builder = builder.file(file);
    }
    let session = builder.start().map_err(|error| error.status())?;
    let guid = if start.guid.is_zero() { create_id() } else { start.guid };
    let facts = SessionStatus {
        name: start.name,
        guid,
        id: all(|all| {
            let id = all.next_id;
            // The GUID tells two of one number apart.
            all.next_id = if id == 0xfffe { FIRST_ID } else { id + 1 };
            id
        }),
        file: start.file,
        mode,
        max_size: size,
        buffer_size: start.buffer_size,
        buffers: start.buffers,
        free_buffers: start.buffers,
        flush_timer_ms: start.flush_timer_ms.unwrap_or(0),
        clock: start.clock,
        ..SessionStatus::default()
    };
    let started = Arc::new(Private { facts: facts.clone(), session });
    all(|all| all.running.push(started));
    Ok(facts)
}

impl Private {
    fn told(&self, statistics: &SessionStatistics) -> SessionStatus {
        SessionStatus {
            buffers_written: statistics.facts.buffers,
            buffers_lost: statistics.facts.buffers_lost,
            lost: statistics.ledger.lost_total(),
            ..self.facts.clone()
        }
    }

    /// # Errors
    /// The session has ended.
    pub fn query(&self) -> Result<SessionStatus, Status> {
        let statistics = self.session.statistics();
        Ok(self.told(&statistics.map_err(|error| error.status())?))
    }

    /// Of a session in memory its contents, to a file.
    ///
    /// # Errors
    /// 161: no file is named. The file's.
    pub fn flush(&self, file: Option<std::path::PathBuf>) -> Result<(), Status> {
        let flushed = match file {
            Some(file) if self.facts.mode.contains(LogFileMode::BUFFERING) => {
                self.session.snapshot(file).map(|_| ())
            }
            None if self.facts.mode.contains(LogFileMode::BUFFERING) => {
                return Err(Status::ERROR_BAD_PATHNAME);
            }
            _ => self.session.flush(),
        };
        flushed.map_err(|error| error.status())
    }

    /// # Errors
    /// As `EnableTraceEx2`.
    pub fn enable(&self, provider: &Guid, info: EnableInfo) -> Result<(), Status> {
        if info.properties.contains(etw_session::EnableProperties::PROVIDER_GROUP) {
            // Windows knows no groups in private sessions.
            return Err(Status::ERROR_INVALID_PARAMETER);
        }
        self.session.enable_with(provider, info).map_err(|error| error.status())
    }

    pub fn disable(&self, provider: &Guid) {
        self.session.disable(provider);
    }

    pub fn capture_state(&self, provider: &Guid, level: u8, any: u64) {
        self.session.capture_state(provider, Level(level), any);
    }
}

/// # Errors
/// The file's; the session has ended all the same.
pub fn stop(private: Arc<Private>) -> Result<SessionStatus, Status> {
    all(|all| all.running.retain(|other| !Arc::ptr_eq(other, &private)));
    let before = private.query();
    match Arc::try_unwrap(private) {
        Ok(Private { facts, session }) => {
            let (statistics, result) = session.stop_with_statistics();
            result.map_err(|error| error.status())?;
            Ok(SessionStatus {
                free_buffers: facts.buffers,
                buffers_written: statistics.facts.buffers,
                buffers_lost: statistics.facts.buffers_lost,
                lost: statistics.ledger.lost_total(),
                ..facts
            })
        }
        // It ends with the call on another thread, or around this one, that has it.
        Err(_) => before,
    }
}
