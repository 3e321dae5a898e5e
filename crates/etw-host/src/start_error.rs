//! Errors of starting a session.

use std::io;
use std::path::{Path, PathBuf};

use etw_session::{ConfigError, SessionError};
use etw_types::Status;

use crate::append_error::AppendError;

/// Why a session could not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// An option breaks a rule.
    Config(ConfigError),
    /// The session cannot append to its file.
    Append(AppendError),
    /// The buffers cannot be created.
    Session(SessionError),
    /// A killed program left a `.part` file; `etw repair` recovers its events.
    Unrepaired(PathBuf),
    /// Another session records to this file.
    InUse(PathBuf),
    /// The session's file cannot be created.
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The system refused memory, a descriptor or a thread.
    Io(io::Error),
}

impl StartError {
    /// The status that `StartTrace` returns.
    pub fn status(&self) -> Status {
        match self {
            StartError::Config(error) => error.status(),
            StartError::Append(_) | StartError::Session(_) => Status::ERROR_INVALID_PARAMETER,
            StartError::Unrepaired(_) => Status::ERROR_ALREADY_EXISTS,
            StartError::InUse(_) => Status::ERROR_BAD_PATHNAME,
            StartError::Io(error) | StartError::File { source: error, .. } => match error.kind() {
                io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::FileTooLarge => Status::ERROR_DISK_FULL,
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    Status::ERROR_ACCESS_DENIED
                }
                io::ErrorKind::OutOfMemory => Status::ERROR_NOT_ENOUGH_MEMORY,
                io::ErrorKind::Unsupported => Status::ERROR_NOT_SUPPORTED,
                _ if matches!(self, StartError::Io(_)) => Status::ERROR_NO_SYSTEM_RESOURCES,
                _ => Status::ERROR_BAD_PATHNAME,
            },
        }
    }
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StartError::Config(error) => error.fmt(f),
            StartError::Append(error) => error.fmt(f),
            StartError::Session(error) => error.fmt(f),
            StartError::Unrepaired(path) => write!(
                f,
                "{} exists: a killed program left it; run `etw repair` on it to recover the events, or remove it",
                path.display()
            ),
            StartError::InUse(path) => {
                write!(
                    f,
                    "{}: another session records to this file; name another one",
                    path.display()
                )
            }
            StartError::File { path, source } => {
                write!(f, "{}: {}", path.display(), why(path, source))
            }
            StartError::Io(error) => write!(f, "{error}{}", remedy(error)),
        }
    }
}

/// The limit of the process that an error is about.
fn remedy(error: &io::Error) -> &'static str {
    /// `ENFILE` and `EMFILE`, which Linux and macOS number alike.
    const OPEN_FILES: [i32; 2] = [23, 24];
    match error.kind() {
        io::ErrorKind::FileTooLarge => {
            "; memory files have the limit of files' sizes (ulimit -f), which is too low"
        }
        // `EAGAIN` of a thread.
        io::ErrorKind::WouldBlock => {
            "; no more threads and processes are allowed: raise their limit (ulimit -u, or pids.max of the control group)"
        }
        _ if error.raw_os_error().is_some_and(|number| OPEN_FILES.contains(&number)) => {
            "; raise the limit of open files (ulimit -n)"
        }
        _ => "",
    }
}

/// Why a file cannot be created, and what helps.
fn why(path: &Path, error: &io::Error) -> String {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match (error.kind(), folder) {
        (io::ErrorKind::NotFound, Some(folder)) if !folder.exists() => {
            format!(
                "the folder {} does not exist; create it, or name another one",
                folder.display()
            )
        }
        (io::ErrorKind::PermissionDenied, _) => {
            format!("{error}; name a file in a folder that this user may write to")
        }
        _ => error.to_string(),
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Config(error) => Some(error),
            StartError::Append(error) => Some(error),
            StartError::Session(error) => Some(error),
            StartError::Io(error) | StartError::File { source: error, .. } => Some(error),
            StartError::Unrepaired(_) | StartError::InUse(_) => None,
        }
    }
}

impl From<AppendError> for StartError {
    fn from(error: AppendError) -> StartError {
        StartError::Append(error)
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> StartError {
        StartError::Io(error)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_refused_is_no_path() {
        let error = |number| StartError::from(io::Error::from_raw_os_error(number));
        let files = error(24);
        assert_eq!(files.status(), Status::ERROR_NO_SYSTEM_RESOURCES);
        assert!(files.to_string().contains("ulimit -n"), "{files}");
        let threads = error(libc::EAGAIN);
        assert_eq!(threads.status(), Status::ERROR_NO_SYSTEM_RESOURCES);
        assert!(threads.to_string().contains("ulimit -u"), "{threads}");
        let size = error(27);
        assert_eq!(size.status(), Status::ERROR_DISK_FULL);
        assert!(size.to_string().contains("ulimit -f"), "{size}");
    }
}
