//! Private sessions (`EVENT_TRACE_PRIVATE_LOGGER_MODE`): this process's own, without a host. They have handles like others, which mean
//! nothing in another process.

use std::sync::{Arc, Mutex, PoisonError};

use etw_api::{EnableInfo, Guid, Level, Session, SessionStatistics, Status, create_id};
use etw_session::SessionConfig;
use etw_types::{Keyword, LogFileMode};
use etw_wire::requests::{SessionStatus, milliseconds};

use super::sessions::handle_of;
use crate::private::SessionName;

/// Numbers of private sessions are above those of a host's.
const FIRST_ID: u32 = 0x8000;

/// A private session that runs.
pub struct Private {
    /// The constant settings.
    facts: SessionStatus,
    session: Session,
    /// Its process: the child of a fork has copies of its parent's sessions.
    process: u32,
    /// Free when the session has stopped.
    name: SessionName,
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
    let process = std::process::id();
    all(|all| all.running.iter().filter(|it| it.process == process).find(is_it).cloned())
}

/// # Errors
/// As `StartTrace`.
pub fn start(config: SessionConfig, mode: LogFileMode) -> Result<SessionStatus, Status> {
    let name = SessionName::claim(&config.name)?;
    let session = Session::with_config(config.clone()).start().map_err(|error| error.status())?;
    let guid = if config.guid.is_zero() { create_id() } else { config.guid };
    let facts = SessionStatus {
        max_size: config.mode.policy().max_size.unwrap_or(0),
        name: config.name,
        guid,
        id: all(|all| {
            let id = all.next_id;
            // The GUID tells two of one number apart.
            all.next_id = if id == 0xfffe { FIRST_ID } else { id + 1 };
            id
        }),
        file: config.file,
        mode,
        buffer_size: config.buffer_size,
        buffers: config.buffer_count,
        free_buffers: config.buffer_count,
        flush_timer_ms: config.flush_timer.map_or(0, milliseconds),
        clock: config.clock,
        ..SessionStatus::default()
    };
    let process = std::process::id();
    let started = Arc::new(Private { facts: facts.clone(), session, process, name });
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

    /// Writes the contents of a session in memory to a file.
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

    pub fn capture_state(&self, provider: &Guid, level: Level, any: Keyword) {
        self.session.capture_state(provider, level, any);
    }
}

/// # Errors
/// The file's; the session has ended all the same.
pub fn stop(private: Arc<Private>) -> Result<SessionStatus, Status> {
    all(|all| all.running.retain(|other| !Arc::ptr_eq(other, &private)));
    let before = private.query();
    match Arc::try_unwrap(private) {
        Ok(Private { facts, session, name: _name, .. }) => {
            let etw_api::Stopped { statistics, result } = session.stop_with_statistics();
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
