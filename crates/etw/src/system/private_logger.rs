//! Private loggers of the system: sessions of this process alone, which the system's library runs within it.
//!
//! They write `.etl` files, and record the providers of every library of the process. They cannot append, write series of files,
//! keep events in memory or pass them to a consumer: the engine of this crate does that.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use etw_host::{SessionStatistics, StartError, Stopped};
use etw_session::{Cause, EnableInfo, LogMode, Loss, SessionConfig};
use etw_types::raw::RawGuid;
use etw_types::{Guid, LevelKeyword, LogFileMode, Status};

use super::trace_session::api::{Control, EnableCode};
use super::trace_session::enable::Change;
use super::trace_session::properties::Properties;
use super::trace_session::{self, CALLBACK_TIMEOUT, Named, Refusal};
use crate::lock::lock;
use crate::session::engine::Engine;
use crate::session::error::SessionError;

/// The loggers that run.
static LIVE: Mutex<Vec<Weak<PrivateLogger>>> = Mutex::new(Vec::new());

/// A running private logger. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct PrivateLogger {
    name: String,
    guid: Guid,
    handle: u64,
    has_ended: AtomicBool,
}

/// Starts a private logger as the engine of a session.
pub(crate) fn start(config: &SessionConfig) -> Result<Box<dyn Engine>, SessionError> {
    config.validate().map_err(|error| SessionError::Start(StartError::Config(error)))?;
    Ok(Box::new(PrivateLogger::start(config)?))
}

/// The properties that every call for a private logger needs.
fn private(mut properties: Box<Properties>, guid: Guid) -> Box<Properties> {
    properties.raw.guid = RawGuid::from_guid(&guid);
    properties.raw.mode |= LogFileMode::PRIVATE_LOGGER | LogFileMode::PRIVATE_IN_PROC;
    properties
}

/// Refuses the options that private loggers do not have.
fn check(config: &SessionConfig) -> Result<(), Refusal> {
    let missing = match config.mode {
        LogMode::Append => "append to a file",
        LogMode::NewFile { .. } => "write a series of files",
        _ if config.system.is_some() => "record events of the system",
        _ => return Ok(()),
    };
    Err(Refusal::not_supported(format!(
        "session {}: Windows' private sessions cannot {missing}; use portable(), whose sessions this crate hosts, or a Controller",
        config.name
    )))
}

impl PrivateLogger {
    /// # Errors
    /// The system's refusal, or an option that private loggers do not have.
    fn start(config: &SessionConfig) -> Result<Arc<PrivateLogger>, Refusal> {
        check(config)?;
        let guid = match config.guid.is_zero() {
            true => crate::activity::create_id(),
            false => config.guid,
        };
        let path = config.file.as_deref().and_then(|path| std::path::absolute(path).ok());
        let config = SessionConfig { file: path.or(config.file.clone()), ..config.clone() };
        let mut properties = private(Properties::of_config(&config)?, guid);
        let handle = trace_session::start(&config.name, &mut properties)?;
        let has_ended = AtomicBool::new(false);
        let logger = Arc::new(PrivateLogger { name: config.name.clone(), guid, handle, has_ended });
        for enablement in &config.enable {
            let (provider, info) = (enablement.provider.id(), &enablement.info);
            logger.change(provider, EnableCode::Enable, info, CALLBACK_TIMEOUT)?;
        }
        stop_at_exit(&logger);
        Ok(logger)
    }

    fn change(
        &self,
        provider: Guid,
        code: EnableCode,
        info: &EnableInfo,
        timeout: u32,
    ) -> Result<(), Refusal> {
        Change { handle: self.handle, provider, code, info, timeout }.apply_to(&self.name)
    }

    fn control(&self, code: Control) -> Result<Box<Properties>, Refusal> {
        let mut properties = private(Properties::empty(), self.guid);
        // Only a query needs the file's name, and nobody here asks for it.
        properties.raw.file_name_offset = 0;
        let named = Named { name: &self.name, handle: Some(self.handle) };
        trace_session::control(&named, code, &mut properties)?;
        Ok(properties)
    }

    /// Stops the logger once.
    fn end(&self) -> Result<SessionStatistics, Refusal> {
        if self.has_ended.swap(true, Ordering::AcqRel) {
            return Ok(SessionStatistics::default());
        }
        self.control(Control::Stop).map(|properties| statistics_of(&properties))
    }
}

impl From<Refusal> for SessionError {
    fn from(Refusal { status, message }: Refusal) -> SessionError {
        SessionError::System { status, message }
    }
}

impl Engine for Arc<PrivateLogger> {
    fn enable(&self, provider: Guid, info: EnableInfo) -> Result<(), SessionError> {
        Ok(self.change(provider, EnableCode::Enable, &info, CALLBACK_TIMEOUT)?)
    }

    fn disable(&self, provider: Guid) {
        // A provider that was not enabled needs nothing.
        let _ = self.change(provider, EnableCode::Disable, &EnableInfo::default(), 0);
    }

    fn capture_state(&self, provider: Guid, wanted: &LevelKeyword) {
        let info = EnableInfo { wanted: *wanted, ..EnableInfo::default() };
        let _ = self.change(provider, EnableCode::CaptureState, &info, 0);
    }

    fn flush(&self) -> Result<(), SessionError> {
        self.control(Control::Flush)?;
        Ok(())
    }

    fn statistics(&self) -> Result<SessionStatistics, SessionError> {
        if self.has_ended.load(Ordering::Acquire) {
            let status = Status::ERROR_WMI_INSTANCE_NOT_FOUND;
            return Err(Refusal::of_call(&self.name, "query", status).into());
        }
        Ok(self.control(Control::Query).map(|properties| statistics_of(&properties))?)
    }

    fn snapshot(&self, _: &Path) -> Result<u64, SessionError> {
        Err(SessionError::NotInMemory)
    }

    fn stop(&self) -> Stopped<SessionError> {
        match self.end() {
            Ok(statistics) => Stopped { statistics, result: Ok(()) },
            Err(error) => {
                Stopped { statistics: SessionStatistics::default(), result: Err(error.into()) }
            }
        }
    }

    fn is_of_this_process(&self) -> bool {
        true
    }
}

impl Drop for PrivateLogger {
    fn drop(&mut self) {
        // The logger may have stopped before.
        let _ = self.end();
    }
}

/// The system counts losses, buffers and lost buffers, and nothing else.
fn statistics_of(properties: &Properties) -> SessionStatistics {
    let raw = &properties.raw;
    let mut statistics = SessionStatistics::default();
    let count = u64::from(raw.events_lost);
    let process_id = Some(std::process::id());
    statistics.ledger.attempted = count;
    statistics.ledger.count_lost(Loss {
        cause: Cause::SessionFull,
        provider: None,
        process_id,
        count,
    });
    statistics.facts.buffers = raw.buffers_written.into();
    statistics.facts.buffers_lost = raw.log_buffers_lost.into();
    statistics
}

/// Stops the logger when `main` returns or `exit` is called, so that its file has a complete header.
fn stop_at_exit(logger: &Arc<PrivateLogger>) {
    static AT_EXIT: std::sync::Once = std::sync::Once::new();
    let mut live = lock(&LIVE);
    live.retain(|logger| logger.strong_count() > 0);
    live.push(Arc::downgrade(logger));
    // The end of a DLL's module is no time for it: the system forbids these calls while it loads and unloads libraries.
    if super::exit::is_program() {
        AT_EXIT.call_once(|| super::exit::at_exit(stop_all));
    }
}

extern "C" fn stop_all() {
    // Another thread may be starting a logger, which ends with the process.
    let Ok(live) = LIVE.try_lock() else { return };
    let loggers: Vec<_> = live.iter().filter_map(Weak::upgrade).collect();
    drop(live);
    for logger in loggers {
        let _ = logger.end();
    }
}
