//! `ClientError`: why a request to a host of sessions failed.

use std::io;
use std::path::PathBuf;

/// The error of a request to a host: it was not sent, or the host rejected it.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// No host listens in this directory.
    NoHost(PathBuf),
    /// No host listens, and there is no program to start as a host.
    NoProgram,
    /// The system's error for the connection.
    Io(io::Error),
    /// The host rejected the request, with an ETW status and a reason.
    Refused {
        /// A Win32 status.
        status: u32,
        /// The reason, in a sentence.
        message: String,
    },
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClientError::NoHost(path) if path.to_str() == Some("/run/openetw") => f.write_str(
                "no host of sessions is running in /run/openetw; systemctl start etwd starts the machine's, or etw daemon as root",
            ),
            ClientError::NoHost(path) => {
                write!(
                    f,
                    "no host of sessions is running in {}, so there is no session; etw session start and etw record start one",
                    path.display()
                )
            }
            ClientError::NoProgram => f.write_str(
                "no host of sessions is running, and there is neither etwd nor etw in PATH; ETW_DAEMON names one",
            ),
            ClientError::Io(error) if self.is_end() => write!(
                f,
                "the host of sessions ended before it answered ({error}); another worker may have taken over: etw session list shows its sessions"
            ),
            ClientError::Io(error) => write!(f, "the host of sessions: {error}"),
            ClientError::Refused { message, .. } => f.write_str(message),
        }
    }
}

impl ClientError {
    /// Whether the connection ended, and not a request failed: the host was killed.
    pub fn is_end(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
        let ends = [BrokenPipe, ConnectionAborted, ConnectionReset];
        matches!(self, ClientError::Io(error) if ends.contains(&error.kind()))
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ClientError::Io(error) => error.source(),
            _ => None,
        }
    }
}

impl ClientError {
    /// The status that ETW's functions return for this error.
    pub fn status(&self) -> u32 {
        match self {
            ClientError::NoHost(_) => 4201,
            ClientError::NoProgram => 2,
            ClientError::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => 5,
            ClientError::Io(_) => 1450,
            ClientError::Refused { status, .. } => *status,
        }
    }
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> ClientError {
        ClientError::Io(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_ends_before_its_answer_is_looked_for_again() {
        let text = |kind: io::ErrorKind| ClientError::Io(kind.into()).to_string();
        assert!(text(io::ErrorKind::ConnectionAborted).contains("etw session list"));
        assert!(!text(io::ErrorKind::TimedOut).contains("etw session list"));
    }
}
