//! Errors of private sessions.

use std::fmt;
use std::io;

use etw_host::{FilterError, StartError};
use etw_types::Status;

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
    /// Windows refused a request to a private logger, or has no counterpart of it.
    System {
        /// Its status.
        status: Status,
        /// The request, the reason, and what to do next.
        message: String,
    },
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
            SessionError::System { status, .. } => *status,
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
            SessionError::System { message, .. } => f.write_str(message),
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
            SessionError::Limit(_) | SessionError::NotInMemory | SessionError::System { .. } => {
                None
            }
        }
    }
}

impl From<StartError> for SessionError {
    fn from(error: StartError) -> SessionError {
        SessionError::Start(error)
    }
}
