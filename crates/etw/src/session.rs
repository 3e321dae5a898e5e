//! Private sessions: this process records itself.

pub(crate) mod engine;
pub(crate) mod error;
mod own;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use etw_host::{
    EnableInfo, PoolSize, PrivateOptions, SessionClock, SessionConfig, SessionStatistics, Stopped,
};
use etw_session::{Compression, LogMode};
use etw_types::{Keyword, Level, LevelKeyword};

use crate::session_options::session_options;
use crate::target::EnableTarget;
use engine::Engine;
pub use error::{SessionError, SessionLimit};
use own::OwnSession;

/// The largest number of private sessions in a process at one time.
pub const MAX_PRIVATE_SESSIONS: usize = 4;
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// A session that records this process. It stops when this is dropped or the program ends.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = std::env::temp_dir().join(format!("doc-{}.etl", std::process::id()));
/// static PROVIDER: etw::Provider = etw::Provider::new("Doc", etw::Guid::from_u128(7), b"\x06\0Doc\0");
///
/// let _registration = PROVIDER.register();
/// let session = etw::Session::builder("doc").file(&path).start()?;
/// session.enable(&PROVIDER, etw::Level::VERBOSE, etw::Keyword(0))?;
/// // … events …
/// let statistics = session.stop()?;
/// assert_eq!(statistics.ledger.lost_total(), 0);
/// # std::fs::remove_file(path)?;
/// # Ok(())
/// # }
/// ```
///
/// # Loss
/// If a write returns status 0, the event is in the pool. [`SessionStatistics::ledger`] and the file count later losses by cause.
///
/// A killed program leaves `FILE.part` beside a session's file. `etw dump` and `etw check` read both; `etw repair` completes the
/// file from it. Sessions in memory and sessions with a consumer end with their process.
///
/// # Windows
/// A session with a file is a private logger of the system (`EVENT_TRACE_PRIVATE_LOGGER_MODE`, `EVENT_TRACE_PRIVATE_IN_PROC`): the
/// system writes the file, records every library's providers, and counts losses without their causes. Options that private loggers
/// lack are refused with `ERROR_NOT_SUPPORTED` and a sentence. [`portable`](SessionBuilder::portable) sessions, sessions in memory
/// and sessions with a consumer are hosted by this crate, as on every other system.
#[derive(Debug)]
pub struct Session {
    engine: Box<dyn Engine>,
}

/// Options of a session that is not started yet.
pub struct SessionBuilder {
    options: PrivateOptions,
    is_portable: bool,
}

impl fmt::Debug for SessionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionBuilder")
            .field("name", &self.options.config.name)
            .finish_non_exhaustive()
    }
}

impl SessionBuilder {
    fn with(mut self, change: impl FnOnce(&mut SessionConfig)) -> Self {
        change(&mut self.options.config);
        self
    }

    session_options!();

    /// Keeps the last events in memory, in the session's [buffers](SessionBuilder::buffers). [`Session::snapshot`] writes them to a
    /// file.
    pub fn memory(mut self) -> Self {
        self.options.consumer = None;
        self.with(|config| (config.file, config.real_time) = (None, false))
    }

    /// Passes each buffer to a consumer in this process when it is full, or after the flush timer (1 s unless set). The consumer runs
    /// on a thread of the session and gets whole buffers, in their form in a file, in the order in which they filled.
    ///
    /// # Loss
    /// If the consumer is slow, the session runs out of buffers. Events without a buffer are lost and counted.
    pub fn consumer(mut self, consumer: impl FnMut(&[u8]) + Send + 'static) -> Self {
        self.options.consumer = Some(Box::new(consumer));
        self.with(|config| (config.file, config.real_time) = (None, true))
    }

    /// The clock of the timestamps; QPC unless set.
    pub fn clock(self, clock: SessionClock) -> Self {
        self.with(|config| config.clock = clock)
    }

    /// Hosts the session in this crate on Windows, too, where the system would host a session with a file: with losses by cause,
    /// filters on the fields of TraceLogging events, compression, appending and series of files, but without the events of providers
    /// from other libraries. On other systems every session is portable.
    pub fn portable(mut self) -> Self {
        self.is_portable = true;
        self
    }

    /// Size of the pool that threads write to, in bytes: at the start (1 MiB unless set) and at most (16 MiB unless set).
    pub fn pool_size(mut self, start: usize, limit: usize) -> Self {
        self.options.pool = PoolSize { initial: start, limit: limit.max(start) };
        self
    }

    /// Starts the session. It records nothing before it enables a provider.
    ///
    /// # Errors
    /// [`SessionError`]: invalid options, a file that cannot be written, a fifth session.
    pub fn start(mut self) -> Result<Session, SessionError> {
        let config = &mut self.options.config;
        if config.file.is_some() {
            self.options.consumer = None;
            config.real_time = false;
        } else {
            // Options of a file have no effect without one.
            let mode = if config.real_time { LogMode::default() } else { LogMode::Buffering };
            (config.mode, config.preallocate) = (mode, false);
            config.compression = Compression::Off;
        }
        let taken = RUNNING.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |running| {
            (running < MAX_PRIVATE_SESSIONS).then_some(running + 1)
        });
        if taken.is_err() {
            return Err(SessionError::Limit(SessionLimit::PrivateSessions));
        }
        let started = self.start_engine().inspect_err(|_| {
            RUNNING.fetch_sub(1, Ordering::AcqRel);
        });
        started.map(|engine| Session { engine })
    }

    fn start_engine(self) -> Result<Box<dyn Engine>, SessionError> {
        #[cfg(windows)]
        if self.options.config.file.is_some() && !self.is_portable {
            return crate::system::private_logger::start(&self.options.config);
        }
        Ok(Box::new(OwnSession::start(self.options)?))
    }
}

impl Session {
    /// Options of a private session of this name. By default it keeps the last 4 MiB of events in memory.
    pub fn builder(name: &str) -> SessionBuilder {
        let config = SessionConfig { name: name.to_owned(), ..SessionConfig::default() };
        Session::with_config(config)
    }

    /// Options of a private session with this configuration, which names a file if it has options of files.
    pub fn with_config(config: SessionConfig) -> SessionBuilder {
        SessionBuilder {
            options: PrivateOptions { config, ..PrivateOptions::default() },
            is_portable: false,
        }
    }

    /// Enables a provider, or changes its enablement: events up to `level`, with a keyword of `any` (0: all events).
    ///
    /// The session records every event that is written after this returns.
    ///
    /// # Errors
    /// `Limit` if eight sessions have enabled the provider.
    pub fn enable(
        &self,
        provider: &impl EnableTarget,
        level: Level,
        any: Keyword,
    ) -> Result<(), SessionError> {
        let wanted = LevelKeyword::new(level, any);
        self.enable_with(provider, EnableInfo { wanted, ..EnableInfo::default() })
    }

    /// Enables a provider with all options of an enablement.
    ///
    /// # Errors
    /// Those of [`enable`](Session::enable), and `Filters` for filters beyond ETW's limits.
    pub fn enable_with(
        &self,
        provider: &impl EnableTarget,
        info: EnableInfo,
    ) -> Result<(), SessionError> {
        if let Some(filters) = &info.filters {
            filters.check().map_err(SessionError::Filters)?;
        }
        self.engine.enable(provider.guid(), info)
    }

    /// Disables a provider. Events that were written before are kept.
    pub fn disable(&self, provider: &impl EnableTarget) {
        self.engine.disable(provider.guid());
    }

    /// Asks a provider for its state (capture state). The provider's callback writes rundown events.
    pub fn capture_state(&self, provider: &impl EnableTarget, level: Level, any: Keyword) {
        self.engine.capture_state(provider.guid(), &LevelKeyword::new(level, any));
    }

    /// Flushes: events that were written before this call are in the file when it returns.
    ///
    /// # Errors
    /// The file's error. The ledger counts the events that could not be stored.
    pub fn flush(&self) -> Result<(), SessionError> {
        self.engine.flush()
    }

    /// The counts of the session so far.
    ///
    /// # Errors
    /// The session has stopped; sessions stop at the end of the program.
    pub fn statistics(&self) -> Result<SessionStatistics, SessionError> {
        self.engine.statistics()
    }

    /// Writes the events of a session in memory to a file. The session continues. Returns the number of buffers.
    ///
    /// # Errors
    /// `Io`: the file cannot be written. `NotInMemory`: the session has a file of its own.
    pub fn snapshot(&self, path: impl AsRef<Path>) -> Result<u64, SessionError> {
        self.engine.snapshot(path.as_ref())
    }

    /// Stops the session. Events that were written before are stored, and the file is finalised.
    ///
    /// # Errors
    /// The file's error. [`statistics`](Session::statistics) before the call returns the losses so far; the report in the file counts
    /// the rest.
    pub fn stop(self) -> Result<SessionStatistics, SessionError> {
        let Stopped { statistics, result } = self.engine.stop();
        result.map(|()| statistics)
    }

    /// Does what [`stop`](Session::stop) does, and returns the statistics even if the file failed.
    pub fn stop_with_statistics(self) -> Stopped<SessionError> {
        self.engine.stop()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A session of the parent must not end in a child made by `fork`.
        if self.engine.is_of_this_process() {
            // The session may have stopped in `stop`.
            let _ = self.engine.stop();
            RUNNING.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
