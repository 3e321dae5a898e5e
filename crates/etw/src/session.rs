//! Private sessions: this process records itself.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::time::Duration;

use etw_host::{
    EnableInfo, FilterError, NewRegistration, PoolSize, PrivateOptions, PrivateSession,
    SessionClock, SessionConfig, SessionStatistics, StartError, Stopped, TimedEnablement,
    provider_of,
};
use etw_session::LogMode;
use etw_types::{Guid, Keyword, Level, LevelKeyword, Status};

use crate::provider::Provider;
use crate::registry::{self, Attached, Enable, Host, HostRegistration, NewHost, Providers};
use crate::session_options::session_options;
use crate::target::EnableTarget;

/// The largest number of private sessions in a process at one time.
pub const MAX_PRIVATE_SESSIONS: usize = 4;
/// The time that the end of the program waits for its sessions.
const EXIT_PATIENCE: Duration = Duration::from_secs(2);

static RUNNING: AtomicUsize = AtomicUsize::new(0);
static LIVE: Mutex<Vec<Weak<PrivateSession>>> = Mutex::new(Vec::new());
static AT_EXIT: Once = Once::new();

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
#[derive(Debug)]
pub struct Session {
    attachment: usize,
    host: Arc<PrivateSession>,
    source: Guid,
    has_ended: AtomicBool,
}

/// The error of a session that could not be started or changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum SessionError {
    /// The session could not be started.
    Start(StartError),
    /// The request exceeds a limit of ETW.
    Limit(SessionLimit),
    /// Filters that ETW does not allow.
    Filters(FilterError),
    /// A snapshot of a session that is not in memory.
    NotInMemory,
    /// The system refused a file operation.
    Io(io::Error),
}

/// A limit of ETW on sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionLimit {
    /// A process can have four private sessions.
    PrivateSessions,
    /// A process can be attached to eight hosts; each private session counts as one.
    Hosts,
    /// Eight sessions can enable a provider.
    SessionsOfProvider,
}

impl fmt::Display for SessionLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SessionLimit::PrivateSessions => "a process can have four private sessions",
            SessionLimit::Hosts => "this process is attached to eight hosts already",
            SessionLimit::SessionsOfProvider => "the provider is enabled in eight sessions already",
        })
    }
}

impl SessionError {
    /// The Win32 status that ETW returns for this error.
    pub fn status(&self) -> Status {
        match self {
            SessionError::Start(error) => error.status(),
            SessionError::Limit(_) => Status::ERROR_NO_SYSTEM_RESOURCES,
            SessionError::Filters(_) => Status::ERROR_INVALID_PARAMETER,
            SessionError::NotInMemory => Status::ERROR_NOT_SUPPORTED,
            SessionError::Io(error) => match error.kind() {
                io::ErrorKind::StorageFull => Status::ERROR_DISK_FULL,
                io::ErrorKind::NotConnected => Status::ERROR_WMI_INSTANCE_NOT_FOUND,
                _ => Status::ERROR_WRITE_FAULT,
            },
        }
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Start(error) => error.fmt(f),
            SessionError::Limit(limit) => limit.fmt(f),
            SessionError::NotInMemory => f.write_str("only a session in memory has a snapshot"),
            SessionError::Filters(error) => error.fmt(f),
            SessionError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SessionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // `Display` prints the inner error, so its source comes next in the chain.
        match self {
            SessionError::Start(error) => error.source(),
            SessionError::Io(error) => error.source(),
            SessionError::Filters(error) => error.source(),
            SessionError::Limit(_) | SessionError::NotInMemory => None,
        }
    }
}

impl From<StartError> for SessionError {
    fn from(error: StartError) -> SessionError {
        SessionError::Start(error)
    }
}

/// Options of a session that is not started yet.
pub struct SessionBuilder {
    options: PrivateOptions,
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
            (config.mode, config.preallocate, config.compressed) = (mode, false, false);
        }
        #[cfg(unix)]
        {
            let _ = crate::fork::IN_CHILD.sessions.set(forget_all);
            crate::fork::install();
        }
        let taken = RUNNING.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |running| {
            (running < MAX_PRIVATE_SESSIONS).then_some(running + 1)
        });
        if taken.is_err() {
            return Err(SessionError::Limit(SessionLimit::PrivateSessions));
        }
        self.options.modules = crate::stacks::modules;
        let started = registry::attach(
            |attachment| {
                let session = Arc::new(PrivateSession::start(self.options, attachment)?);
                let host: Arc<dyn Host> = session.clone();
                Ok(NewHost { host, writer: session.writer(), kept: session })
            },
            || SessionError::Limit(SessionLimit::Hosts),
        );
        let Attached { attachment, kept: host } = started.inspect_err(|_| {
            RUNNING.fetch_sub(1, Ordering::AcqRel);
        })?;
        stop_at_exit(&host);
        let source = crate::activity::create_id();
        Ok(Session { attachment, host, source, has_ended: AtomicBool::new(false) })
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
        SessionBuilder { options: PrivateOptions { config, ..PrivateOptions::default() } }
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
        let id = provider.guid();
        let wanted = info.wanted;
        if let Some(filters) = &info.filters {
            filters.check().map_err(SessionError::Filters)?;
        }
        let stacks = info.stacks();
        if stacks.is_some() {
            crate::stacks::prepare();
        }
        let schematized = info.filters.as_ref().map(|filters| filters.schematized.clone());
        let since = self.host.enable(id, info);
        self.host.add_schemas(registry::schemas_of(self.attachment, Providers::Id(id)));
        let filter_data = schematized.unwrap_or_default();
        let enable = Enable { slot: 0, wanted, stacks, since, filter_data };
        let providers = Providers::Id(id);
        registry::set(self.attachment, 0, providers, Some(&enable), self.source).map_err(|_| {
            let _ = registry::set(self.attachment, 0, providers, None, self.source);
            self.host.disable(id);
            SessionError::Limit(SessionLimit::SessionsOfProvider)
        })
    }

    /// Disables a provider. Events that were written before are kept.
    pub fn disable(&self, provider: &impl EnableTarget) {
        let id = provider.guid();
        // Only adding a session can be refused.
        let _ = registry::set(self.attachment, 0, Providers::Id(id), None, self.source);
        self.host.disable(id);
    }

    /// Asks a provider for its state (capture state). The provider's callback writes rundown events.
    pub fn capture_state(&self, provider: &impl EnableTarget, level: Level, any: Keyword) {
        let wanted = LevelKeyword::new(level, any);
        let providers = Providers::Id(provider.guid());
        registry::capture_state(self.attachment, providers, &wanted, self.source);
    }

    /// Flushes: events that were written before this call are in the file when it returns.
    ///
    /// # Errors
    /// The file's error. The ledger counts the events that could not be stored.
    pub fn flush(&self) -> Result<(), SessionError> {
        self.host.flush().map_err(SessionError::Io)
    }

    /// The counts of the session so far.
    ///
    /// # Errors
    /// The session has stopped; sessions stop at the end of the program.
    pub fn statistics(&self) -> Result<SessionStatistics, SessionError> {
        self.host.query().map_err(SessionError::Io)
    }

    /// Writes the events of a session in memory to a file. The session continues. Returns the number of buffers.
    ///
    /// # Errors
    /// `Io`: the file cannot be written. `NotInMemory`: the session has a file of its own.
    pub fn snapshot(&self, path: impl AsRef<Path>) -> Result<u64, SessionError> {
        self.host.snapshot(path.as_ref()).map_err(|error| match error.kind() {
            io::ErrorKind::Unsupported => SessionError::NotInMemory,
            _ => SessionError::Io(error),
        })
    }

    /// Stops the session. Events that were written before are stored, and the file is finalised.
    ///
    /// # Errors
    /// The file's error. [`statistics`](Session::statistics) before the call returns the losses so far; the report in the file counts
    /// the rest.
    pub fn stop(self) -> Result<SessionStatistics, SessionError> {
        let Stopped { statistics, result } = self.end();
        result.map(|()| statistics).map_err(SessionError::Io)
    }

    /// Does what [`stop`](Session::stop) does, and returns the statistics even if the file failed.
    pub fn stop_with_statistics(self) -> Stopped<SessionError> {
        let Stopped { statistics, result } = self.end();
        Stopped { statistics, result: result.map_err(SessionError::Io) }
    }

    fn end(&self) -> Stopped {
        // Only once, since another host may have the attachment by now.
        if self.host.is_of_this_process() && !self.has_ended.swap(true, Ordering::AcqRel) {
            registry::detach(self.attachment);
        }
        self.host.stop()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.host.is_of_this_process() {
            // The session belongs to the parent, so this process must not end it.
            return;
        }
        // The session may have stopped in `stop`.
        let _ = self.end();
        RUNNING.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Host for PrivateSession {
    fn register(&self, provider: &Provider) -> HostRegistration {
        let provider_facts = provider_of(provider.id(), provider.traits());
        let NewRegistration { number, enablement } =
            self.register(provider_facts, provider.group());
        let enable = |TimedEnablement { info, since }| Enable {
            slot: 0,
            wanted: info.wanted,
            stacks: info.stacks(),
            since,
            filter_data: info.filters.map(|filters| filters.schematized).unwrap_or_default(),
        };
        if enablement.is_some() {
            self.add_schemas(crate::schemas::of(provider));
        }
        HostRegistration { number, enables: enablement.map(enable).into_iter().collect() }
    }

    fn unregister(&self, _registration: u32) {
        // The number stays in use, since records may still be in the pool.
    }
}

/// Forgets the sessions in a child made by `fork`. They belong to the parent.
#[cfg(unix)]
fn forget_all() {
    RUNNING.store(0, Ordering::Release);
    // If another thread was adding a session at the fork, the list is locked and stays as it is. Its sessions detect by
    // themselves that they belong to another process.
    if let Ok(mut live) = LIVE.try_lock() {
        std::mem::forget(std::mem::take(&mut *live));
    }
}

/// Stops all sessions when `main` returns or `exit` is called.
fn stop_at_exit(session: &Arc<PrivateSession>) {
    let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    live.retain(|session| session.strong_count() > 0);
    live.push(Arc::downgrade(session));
    AT_EXIT.call_once(|| {
        #[cfg(unix)]
        // SAFETY: a function without arguments. If the registration fails, sessions end as at `_exit`.
        unsafe {
            libc::atexit(at_exit);
        }
        #[cfg(windows)]
        crate::system::at_exit(at_exit);
    });
}

extern "C" fn at_exit() {
    let sessions: Vec<_> = match LIVE.try_lock() {
        Ok(live) => live.iter().filter_map(Weak::upgrade).collect(),
        // Another thread is starting a session, which would end at once.
        Err(_) => return,
    };
    let end = std::time::Instant::now() + EXIT_PATIENCE;
    for session in sessions {
        session.stop_within(end.saturating_duration_since(std::time::Instant::now()));
    }
}
