//! Global sessions: the host of this user, or of the machine, records programs.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use etw_session::{Compression, EnableInfo, Enablement, LogMode, SessionClock, SessionConfig};
use etw_types::{Guid, Keyword, Level, LevelKeyword, Status};
pub use etw_wire::ClientError;
pub use etw_wire::requests::{ProviderStatus, SessionStatus};
use etw_wire::requests::{Request, Response, StartRequest, Update, milliseconds};

use crate::session_options::session_options;
#[cfg(windows)]
use crate::system::control::Connection;
use crate::target::EnableTarget;
#[cfg(target_os = "linux")]
use connection::Connection;

#[cfg(target_os = "linux")]
mod connection;

/// The time that an enablement waits for running programs to receive it.
const TOLD: Duration = Duration::from_secs(1);

/// A connection to a host of global sessions. A session records every program that registers an enabled provider, whether it
/// already runs or starts later.
///
/// ```no_run
/// # fn main() -> Result<(), etw::ControlError> {
/// let host = etw::Controller::connect_or_start()?;
/// let session = host.session("shop").file("shop.etl").start()?;
/// session.enable(&etw::Guid::from_name("MyCompany.Shop"), etw::Level::VERBOSE, etw::Keyword(0))?;
/// // … programs run …
/// let status = session.stop()?;
/// println!("{} events, {} lost", status.stored, status.lost);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Controller {
    connection: Connection,
}

/// A session of a host. If this is dropped, the session continues, unless it is [leased](GlobalSessionBuilder::leased).
#[derive(Debug)]
pub struct GlobalSession {
    host: Controller,
    name: String,
}

/// Options of a global session that is not started yet.
#[derive(Clone, Debug)]
#[must_use = "nothing happens before it is started"]
pub struct GlobalSessionBuilder {
    host: Controller,
    start: StartRequest,
}

/// The error of a request to a host: it was not sent, or the host rejected it.
#[derive(Debug)]
#[non_exhaustive]
pub enum ControlError {
    /// The request was not sent, or the host rejected it.
    Request(ClientError),
    /// The path of a file cannot be made absolute.
    Path {
        /// The path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The host's response does not belong to the request.
    UnexpectedResponse,
    /// The host closed the connection before it sent the header of this session.
    Closed {
        /// The name of the session.
        session: String,
    },
    /// The host sent invalid data for a live session.
    Stream(Box<dyn std::error::Error + Send + Sync>),
}

impl ControlError {
    /// The Win32 status that ETW returns for this error: `ERROR_ACCESS_DENIED`, `ERROR_ALREADY_EXISTS`, `ERROR_NO_SYSTEM_RESOURCES`,
    /// `ERROR_WMI_INSTANCE_NOT_FOUND` if there is no such session or no host, …
    pub fn status(&self) -> Status {
        match self {
            ControlError::Request(error) => Status(error.status()),
            ControlError::Path { .. } => Status::ERROR_BAD_PATHNAME,
            ControlError::UnexpectedResponse => Status::ERROR_NOT_SUPPORTED,
            ControlError::Closed { .. } => Status::ERROR_WMI_INSTANCE_NOT_FOUND,
            ControlError::Stream(_) => Status::ERROR_NO_SYSTEM_RESOURCES,
        }
    }
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlError::Request(error) => error.fmt(f),
            ControlError::Path { path, error } => write!(f, "{}: {error}", path.display()),
            ControlError::UnexpectedResponse => {
                f.write_str("unexpected response from the session host")
            }
            ControlError::Closed { session } => {
                write!(f, "session {session}: the host closed the connection")
            }
            ControlError::Stream(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ControlError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // `Display` prints the inner error, so its source comes next in the chain.
        match self {
            ControlError::Request(error) => error.source(),
            ControlError::Path { error, .. } => error.source(),
            ControlError::Stream(error) => error.source(),
            ControlError::UnexpectedResponse | ControlError::Closed { .. } => None,
        }
    }
}

impl From<ClientError> for ControlError {
    fn from(error: ClientError) -> ControlError {
        ControlError::Request(error)
    }
}

/// Makes a path absolute, since the host has another working directory.
fn absolute(path: &Path) -> Result<PathBuf, ControlError> {
    let error = |error| ControlError::Path { path: path.to_owned(), error };
    std::path::absolute(path).map_err(error)
}

impl Controller {
    /// The connection, for consumers.
    #[cfg(all(target_os = "linux", feature = "consumer"))]
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Connects to the user's own host, which must be running. On Windows, to the system.
    ///
    /// # Errors
    /// `ERROR_WMI_INSTANCE_NOT_FOUND`: the host does not run.
    pub fn connect() -> Result<Controller, ControlError> {
        Ok(Controller { connection: Connection::to_user()? })
    }

    /// Connects to the machine's host. On Windows, to the system.
    ///
    /// # Errors
    /// `ERROR_ACCESS_DENIED`: the user is neither root nor a member of the host's group. `ERROR_WMI_INSTANCE_NOT_FOUND`: the host
    /// does not run.
    pub fn connect_to_system() -> Result<Controller, ControlError> {
        Ok(Controller { connection: Connection::to_system()? })
    }

    /// Connects to the host of a runtime directory.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect). `ERROR_NOT_SUPPORTED` on Windows, which has no such hosts.
    pub fn connect_to(directory: impl AsRef<Path>) -> Result<Controller, ControlError> {
        Ok(Controller { connection: Connection::to_directory(directory.as_ref())? })
    }

    /// Connects to the user's own host. If none runs, starts one: the program that `ETW_DAEMON` names, or else `etwd` or `etw` from
    /// `PATH`. That host ends after ten idle seconds. On Windows, connects to the system.
    ///
    /// # Errors
    /// `ERROR_FILE_NOT_FOUND`: there is no such program. `ERROR_NO_SYSTEM_RESOURCES`: the program did not become ready.
    pub fn connect_or_start() -> Result<Controller, ControlError> {
        Ok(Controller { connection: Connection::to_user_or_start()? })
    }

    /// Sends a request and waits for the response.
    #[doc(hidden)]
    pub fn request(&self, request: &Request) -> Result<Response, ClientError> {
        self.connection.ask(request)
    }

    fn ask(&self, request: &Request) -> Result<Response, ControlError> {
        Ok(self.connection.ask(request)?)
    }

    fn ask_session(&self, request: &Request) -> Result<SessionStatus, ControlError> {
        match self.ask(request)? {
            Response::Session(status) => Ok(*status),
            _ => Err(ControlError::UnexpectedResponse),
        }
    }

    /// Warnings of the host, in sentences.
    fn ask_done(&self, request: &Request) -> Result<Vec<String>, ControlError> {
        match self.ask(request)? {
            Response::Done { warnings } => Ok(warnings),
            _ => Err(ControlError::UnexpectedResponse),
        }
    }

    /// Options of a session. One of [`file`](GlobalSessionBuilder::file), [`memory`](GlobalSessionBuilder::memory) and
    /// [`real_time`](GlobalSessionBuilder::real_time) is required.
    pub fn session(&self, name: &str) -> GlobalSessionBuilder {
        let config = SessionConfig { name: name.to_owned(), ..SessionConfig::default() };
        GlobalSessionBuilder { host: self.clone(), start: config.into() }
    }

    /// Finds a running session by its name.
    ///
    /// # Errors
    /// `ERROR_WMI_INSTANCE_NOT_FOUND`: no session has this name.
    pub fn open(&self, name: &str) -> Result<GlobalSession, ControlError> {
        let status = self.ask_session(&Request::Query { session: name.to_owned() })?;
        Ok(GlobalSession { host: self.clone(), name: status.name })
    }

    /// All sessions, sorted by name.
    ///
    /// # Errors
    /// The host's error.
    pub fn sessions(&self) -> Result<Vec<SessionStatus>, ControlError> {
        match self.ask(&Request::List)? {
            Response::Sessions { sessions } => Ok(sessions),
            _ => Err(ControlError::UnexpectedResponse),
        }
    }

    /// The providers that programs have registered or sessions have enabled.
    ///
    /// # Errors
    /// The host's error.
    pub fn providers(&self) -> Result<Vec<ProviderStatus>, ControlError> {
        match self.ask(&Request::Providers)? {
            Response::Providers { providers } => Ok(providers),
            _ => Err(ControlError::UnexpectedResponse),
        }
    }
}

impl GlobalSessionBuilder {
    fn with(mut self, change: impl FnOnce(&mut SessionConfig)) -> Self {
        change(&mut self.start.config);
        self
    }

    session_options!();

    /// Keeps the last events in memory; [`GlobalSession::snapshot`] writes them to a file.
    pub fn memory(self) -> Self {
        self.with(|config| config.mode = LogMode::Buffering)
    }

    /// Delivers events to consumers (`etw tail`, `OpenTrace`), in addition to the file, if there is one.
    pub fn real_time(self) -> Self {
        self.with(|config| config.real_time = true)
    }

    /// Uses system time for timestamps instead of the performance counter.
    pub fn system_time(self) -> Self {
        self.with(|config| config.clock = SessionClock::System)
    }

    /// Makes the session independent: it does not delay other sessions, and they do not delay it
    /// (`EVENT_TRACE_INDEPENDENT_SESSION_MODE`).
    pub fn independent(self) -> Self {
        self.with(|config| config.independent = true)
    }

    /// Records only programs of root and of the session's owner (`EVENT_TRACE_SECURE_MODE`).
    pub fn secure(self) -> Self {
        self.with(|config| config.secure = true)
    }

    /// Ties the session to its [`Controller`] and the clones of it. The session stops when all of them are dropped, at the latest with
    /// this process.
    pub fn leased(mut self) -> Self {
        self.start.leased = true;
        self
    }

    /// Enables a provider from the start of the session.
    pub fn enable(self, provider: &impl EnableTarget, info: EnableInfo) -> Self {
        let id = provider.guid();
        self.with(|config| config.enable.push(Enablement::new(id, info)))
    }

    /// Starts the session.
    ///
    /// # Errors
    /// Invalid options, a file that cannot be written (`ERROR_BAD_PATHNAME`, `ERROR_ACCESS_DENIED`, `ERROR_DISK_FULL`), a name in use
    /// (`ERROR_ALREADY_EXISTS`), a 65th session (`ERROR_NO_SYSTEM_RESOURCES`).
    pub fn start(mut self) -> Result<GlobalSession, ControlError> {
        let config = &mut self.start.config;
        config.file = config.file.as_deref().map(absolute).transpose()?;
        let status = self.host.ask_session(&Request::start(self.start))?;
        Ok(GlobalSession { host: self.host, name: status.name })
    }
}

impl GlobalSession {
    /// The session's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn session(&self) -> String {
        self.name.clone()
    }

    /// Enables a provider, or changes its enablement: events up to `level`, with a keyword of `any` (0: all events).
    ///
    /// Running programs receive the enablement before this returns; a slow program may take a second longer. Returns warnings, in
    /// sentences.
    ///
    /// *Loss.* If eight sessions, of all hosts together, have enabled the provider in a program, that program refuses another one. A
    /// warning says so, and [`SessionStatus::refusals`] also lists programs that start later.
    ///
    /// # Errors
    /// `ERROR_NO_SYSTEM_RESOURCES`: eight sessions have enabled the provider.
    pub fn enable(
        &self,
        provider: &impl EnableTarget,
        level: Level,
        any: Keyword,
    ) -> Result<Vec<String>, ControlError> {
        let wanted = LevelKeyword::new(level, any);
        self.enable_with(provider, EnableInfo { wanted, ..EnableInfo::default() })
    }

    /// Enables a provider with all options of an enablement.
    ///
    /// # Errors
    /// Those of [`enable`](Self::enable). `ERROR_INVALID_PARAMETER`: filters beyond ETW's limits.
    pub fn enable_with(
        &self,
        provider: &impl EnableTarget,
        info: EnableInfo,
    ) -> Result<Vec<String>, ControlError> {
        self.host.ask_done(&Request::Enable {
            session: self.session(),
            provider: provider.guid().into(),
            info,
            timeout_ms: milliseconds(TOLD),
        })
    }

    /// Disables a provider. Events that were written before are kept.
    ///
    /// # Errors
    /// The host's error.
    pub fn disable(&self, provider: &impl EnableTarget) -> Result<Vec<String>, ControlError> {
        let (session, provider) = (self.session(), provider.guid().into());
        self.host.ask_done(&Request::Disable { session, provider })
    }

    /// Asks a provider for its state (capture state). The provider's callbacks write rundown events.
    ///
    /// # Errors
    /// The host's error.
    pub fn capture_state(
        &self,
        provider: &impl EnableTarget,
        level: Level,
        any: Keyword,
    ) -> Result<Vec<String>, ControlError> {
        let (session, provider) = (self.session(), provider.guid());
        self.host.ask_done(&Request::CaptureState {
            session,
            provider,
            level,
            any,
            all: Keyword(0),
        })
    }

    /// Flushes: events that were written before this call are in the file, or delivered to consumers, when it returns.
    ///
    /// # Errors
    /// The host's error.
    pub fn flush(&self) -> Result<(), ControlError> {
        self.host.ask_done(&Request::Flush { session: self.session() }).map(drop)
    }

    /// Writes the events of a session in memory to a file. The session continues.
    ///
    /// # Errors
    /// `ERROR_NOT_SUPPORTED` for a session with a file of its own, or the file's error.
    pub fn snapshot(&self, path: impl AsRef<Path>) -> Result<(), ControlError> {
        let file = absolute(path.as_ref())?;
        self.host.ask_done(&Request::Snapshot { session: self.session(), file }).map(drop)
    }

    fn update(&self, update: Update) -> Result<(), ControlError> {
        self.host.ask_done(&Request::Update { session: self.session(), update }).map(drop)
    }

    /// Continues in another file and finalises the current one.
    ///
    /// # Errors
    /// `ERROR_NOT_SUPPORTED` if the session's log mode does not allow it, or the file's error.
    pub fn change_file(&self, path: impl AsRef<Path>) -> Result<(), ControlError> {
        let file = Some(absolute(path.as_ref())?);
        self.update(Update { file, ..Update::default() })
    }

    /// Sets a larger number of buffers.
    ///
    /// # Errors
    /// The host's error.
    pub fn set_buffers(&self, count: u32) -> Result<(), ControlError> {
        self.update(Update { buffers: Some(count), ..Update::default() })
    }

    /// Sets the flush timer; zero switches it off.
    ///
    /// # Errors
    /// The host's error.
    pub fn set_flush_timer(&self, timer: Duration) -> Result<(), ControlError> {
        self.update(Update { flush_timer_ms: Some(milliseconds(timer)), ..Update::default() })
    }

    /// Switches delivery to consumers on or off.
    ///
    /// # Errors
    /// The host's error.
    pub fn set_real_time(&self, on: bool) -> Result<(), ControlError> {
        self.update(Update { real_time: Some(on), ..Update::default() })
    }

    /// The session's state, settings and counts.
    ///
    /// # Errors
    /// `ERROR_WMI_INSTANCE_NOT_FOUND`: the session has ended.
    pub fn query(&self) -> Result<SessionStatus, ControlError> {
        self.host.ask_session(&Request::Query { session: self.session() })
    }

    /// Stops the session. Events that were written before are stored, and the file is finalised.
    ///
    /// # Errors
    /// Those of [`query`](Self::query).
    pub fn stop(self) -> Result<SessionStatus, ControlError> {
        self.host.ask_session(&Request::Stop { session: self.session() })
    }
}

impl GlobalSession {
    /// The GUID that a provider's callback receives for the session.
    ///
    /// # Errors
    /// Those of [`query`](Self::query).
    pub fn guid(&self) -> Result<Guid, ControlError> {
        Ok(self.query()?.guid)
    }
}
