//! Sessions of the system: the requests of controllers, executed by `StartTraceW`, `ControlTraceW`, `QueryAllTracesW` and
//! `EnableTraceEx2`.
//!
//! A request that only hosts of this project can fulfil is answered by `ERROR_NOT_SUPPORTED` and a sentence that names it.

mod api;
mod providers;
mod system_events;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use etw_session::{EnableInfo, ProviderKey, SystemConfig};
use etw_types::{Guid, LevelKeyword, Status};
use etw_wire::ClientError;
use etw_wire::requests::{Request, Response, SessionStatus, StartRequest, Update};

use super::trace_session::api::{Control, EnableCode};
use super::trace_session::enable::Change;
use super::trace_session::properties::{Properties, logger_id};
use super::trace_session::{self, CALLBACK_TIMEOUT, Named, Refusal};
use crate::lock::lock;
use api::QueryAllTracesW;

/// The most sessions that the system runs; versions differ.
const MAX_SESSIONS: usize = 256;
const RUNNING: &str = "running";

/// The connection of a controller to the system. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// The sessions that end with the last clone.
    leases: Arc<Leases>,
}

#[derive(Debug, Default)]
struct Leases(Mutex<Vec<String>>);

impl Drop for Leases {
    fn drop(&mut self) {
        for name in self.0.get_mut().unwrap_or_else(|error| error.into_inner()).drain(..) {
            // A session that was stopped meanwhile needs nothing.
            let _ = control(&name, Control::Stop, &mut Properties::empty());
        }
    }
}

/// A refusal with its reason.
fn refused(status: Status, message: impl Into<String>) -> ClientError {
    Refusal { status, message: message.into() }.into()
}

fn not_supported(message: &str) -> ClientError {
    Refusal::not_supported(message).into()
}

impl Connection {
    fn new() -> Connection {
        Connection { leases: Arc::default() }
    }

    pub fn to_user() -> Result<Connection, ClientError> {
        Ok(Connection::new())
    }

    pub fn to_system() -> Result<Connection, ClientError> {
        Ok(Connection::new())
    }

    pub fn to_user_or_start() -> Result<Connection, ClientError> {
        Ok(Connection::new())
    }

    pub fn to_directory(directory: &Path) -> Result<Connection, ClientError> {
        Err(not_supported(&format!(
            "{}: on Windows the system hosts sessions, and there are no runtime directories; connect() connects to the system",
            directory.display()
        )))
    }

    /// Executes a request.
    pub fn ask(&self, request: &Request) -> Result<Response, ClientError> {
        let session = |status: SessionStatus| Response::Session(Box::new(status));
        let done = |()| Response::Done { warnings: Vec::new() };
        match request {
            Request::Start(request) => self.start(request).map(session),
            Request::Stop { session: name } => self.stop(name).map(session),
            Request::Query { session: name } => {
                query(name).map(|of| session(of.status(name, RUNNING)))
            }
            Request::List => {
                let sessions = all_sessions()?.iter().map(|of| of.status("", RUNNING)).collect();
                Ok(Response::Sessions { sessions })
            }
            Request::Flush { session: name } => flush(name).map(done),
            Request::Update { session: name, update } => change(name, update).map(done),
            Request::Enable { session: name, provider, info, timeout_ms } => {
                enable(name, &*query(name)?, provider, info, *timeout_ms).map(done)
            }
            Request::Disable { session: name, provider } => disable(name, provider).map(done),
            Request::CaptureState { session: name, provider, level, any, all } => {
                let wanted =
                    LevelKeyword { level: *level, any: *any, all: *all, ..LevelKeyword::default() };
                let info = EnableInfo { wanted, ..EnableInfo::default() };
                let handle = query(name)?.raw.handle;
                let code = EnableCode::CaptureState;
                let change = Change { handle, provider: *provider, code, info: &info, timeout: 0 };
                apply(name, &change).map(done)
            }
            Request::System { session: name, system } => change_system(name, system).map(done),
            Request::Snapshot { session: name, file } => snapshot(name, file).map(done),
            Request::Providers | Request::RecentProviders => {
                let sessions = all_sessions().unwrap_or_default();
                let names: BTreeMap<u16, String> =
                    sessions.iter().map(|of| (logger_id(of.raw.handle), of.name())).collect();
                Ok(Response::Providers { providers: providers::all(&names) })
            }
            Request::Consume { .. } | Request::Detach { .. } => Err(not_supported(
                "on Windows consumers open a session themselves; LiveStream and Consumer do so",
            )),
            Request::Lease { .. } => Err(not_supported(
                "on Windows a leased session ends with the process that started it",
            )),
            Request::SystemEvents => {
                Err(not_supported("on Windows the kernel records its events itself"))
            }
            Request::RefreshLogs | Request::Logs | Request::ClearLog { .. } => {
                Err(not_supported("on Windows the system keeps event logs; use its wevtutil"))
            }
            Request::Shutdown => {
                Err(not_supported("on Windows the system hosts sessions; stop them one by one"))
            }
        }
    }

    fn start(&self, request: &StartRequest) -> Result<SessionStatus, ClientError> {
        let config = &request.config;
        let name = &config.name;
        if let Some(system) = &config.system {
            system_events::check(system)?;
        }
        let mut properties = Properties::of_config(config)?;
        let handle = trace_session::start(name, &mut properties)?;
        let configure = || {
            if let Some(system) = &config.system {
                system_events::apply(handle, system)?;
            }
            let each = config.enable.iter();
            each.map(|of| enable(name, &properties, &of.provider, &of.info, CALLBACK_TIMEOUT))
                .collect()
        };
        let configured: Result<(), ClientError> = configure();
        if let Err(error) = configured {
            // A session with less than was asked for is of no use.
            let _ = control(name, Control::Stop, &mut Properties::empty());
            return Err(error);
        }
        if request.leased {
            lock(&self.leases.0).push(name.clone());
        }
        let mut state = properties.status(name, RUNNING);
        state.leased = request.leased;
        state.system = config.system.clone();
        Ok(state)
    }

    fn stop(&self, name: &str) -> Result<SessionStatus, ClientError> {
        let mut properties = Properties::empty();
        control(name, Control::Stop, &mut properties)?;
        lock(&self.leases.0).retain(|leased| !leased.eq_ignore_ascii_case(name));
        Ok(properties.status(name, "stopped"))
    }
}

fn control(name: &str, code: Control, properties: &mut Properties) -> Result<(), ClientError> {
    Ok(trace_session::control(&Named::by_name(name), code, properties)?)
}

fn query(name: &str) -> Result<Box<Properties>, ClientError> {
    let mut properties = Properties::empty();
    control(name, Control::Query, &mut properties)?;
    Ok(properties)
}

/// Flushes a session, before its consumers end.
pub(crate) fn flush(name: &str) -> Result<(), ClientError> {
    control(name, Control::Flush, &mut Properties::empty())
}

/// Whether a session of this name delivers events to consumers.
#[cfg(feature = "consumer")]
pub(crate) fn real_time_status(name: &str) -> Result<SessionStatus, ClientError> {
    let status = query(name)?.status(name, RUNNING);
    match status.mode.contains(etw_types::LogFileMode::REAL_TIME) {
        true => Ok(status),
        false => Err(not_supported(&format!(
            "session {name} does not deliver events to consumers: start it with real_time()"
        ))),
    }
}

/// `QueryAllTracesW`.
fn all_sessions() -> Result<Vec<Box<Properties>>, ClientError> {
    let mut sessions: Vec<Box<Properties>> =
        (0..MAX_SESSIONS).map(|_| Properties::empty()).collect();
    let pointers: Vec<_> = sessions.iter_mut().map(|of| of.as_mut_ptr()).collect();
    let mut count = 0;
    // SAFETY: so many pointers to properties with space for both names.
    let status = unsafe { QueryAllTracesW(pointers.as_ptr(), MAX_SESSIONS as u32, &mut count) };
    match Status(status) {
        Status::ERROR_SUCCESS | Status::ERROR_MORE_DATA => {}
        status => return Err(refused(status, format!("list sessions: Windows returned {status}"))),
    }
    sessions.truncate(count as usize);
    Ok(sessions)
}

fn change(name: &str, update: &Update) -> Result<(), ClientError> {
    let mut properties = Properties::of_update(&*query(name)?, update)?;
    control(name, Control::Update, &mut properties)
}

fn change_system(name: &str, system: &SystemConfig) -> Result<(), ClientError> {
    system_events::check(system)?;
    let mut properties = query(name)?;
    let handle = properties.raw.handle;
    properties.raw.enable_flags = system.masks[0];
    properties.set_file(None)?;
    control(name, Control::Update, &mut properties)?;
    system_events::apply(handle, system)
}

/// Writes the buffers of a session in memory to a file: a flush with a file's name.
fn snapshot(name: &str, file: &Path) -> Result<(), ClientError> {
    let mut properties = query(name)?;
    if !properties.raw.mode.contains(etw_types::LogFileMode::BUFFERING) {
        return Err(not_supported("only a session in memory has a snapshot"));
    }
    properties.set_file(Some(file))?;
    control(name, Control::Flush, &mut properties)
}

/// The GUID of a provider. A name is that of a registered manifest, else it is hashed, as for TraceLogging.
fn provider_id(provider: &ProviderKey) -> Guid {
    let hashed = provider.id();
    let Some(name) = provider.name() else { return hashed };
    let names = providers::registered_names().unwrap_or_default();
    let same = names.iter().find(|(_, known)| known.eq_ignore_ascii_case(name));
    same.map_or(hashed, |(id, _)| *id)
}

fn enable(
    session: &str,
    properties: &Properties,
    provider: &ProviderKey,
    info: &EnableInfo,
    timeout: u32,
) -> Result<(), ClientError> {
    if let Some(Err(error)) = info.filters.as_ref().map(|filters| filters.check()) {
        return Err(refused(Status::ERROR_INVALID_PARAMETER, error.to_string()));
    }
    let (handle, provider) = (properties.raw.handle, provider_id(provider));
    apply(session, &Change { handle, provider, code: EnableCode::Enable, info, timeout })
}

fn disable(session: &str, provider: &ProviderKey) -> Result<(), ClientError> {
    let (handle, provider) = (query(session)?.raw.handle, provider_id(provider));
    let info = EnableInfo::default();
    apply(session, &Change { handle, provider, code: EnableCode::Disable, info: &info, timeout: 0 })
}

fn apply(session: &str, change: &Change<'_>) -> Result<(), ClientError> {
    Ok(change.apply_to(session)?)
}
