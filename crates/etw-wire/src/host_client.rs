//! A controller's connection.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::message::{FromHost, FromProgram, Role, VERSION};
use crate::requests::{Request, Response};
use crate::runtime_directory::Directory;
use crate::{Channel, Received};

/// How long a host may take to begin.
const BEGINNING: Duration = Duration::from_secs(5);
/// How long programs that have waited for a host may take to come to it: a session that is started next finds them there.
const GATHERING: Duration = Duration::from_millis(100);
/// How long a host may take to take a connection: one that is stopped, or that somebody else has put in its place, never does.
const GREETING: Duration = Duration::from_secs(10);

/// A controller's connection to a host.
#[derive(Debug)]
pub struct Client {
    channel: Channel,
}

/// Why a host was not asked, or did not do it.
#[derive(Debug)]
pub enum ClientError {
    /// No host listens in this directory.
    NoHost(PathBuf),
    /// None listens, and no program is found that would.
    NoProgram,
    /// What the system says of the connection.
    Io(io::Error),
    /// The host's answer: an ETW status, and why.
    Refused {
        /// A Win32 value.
        status: u32,
        /// In a sentence.
        message: String,
    },
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClientError::NoHost(path) => {
                write!(f, "no host of sessions is running ({})", path.display())
            }
            ClientError::NoProgram => f.write_str(
                "no host of sessions is running, and there is neither etwd nor etw in PATH; ETW_DAEMON names one",
            ),
            ClientError::Io(error) => write!(f, "the host of sessions: {error}"),
            ClientError::Refused { message, .. } => f.write_str(message),
        }
    }
}

impl std::error::Error for ClientError {}

impl ClientError {
    /// As ETW's functions say it.
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

impl Client {
    /// Connects to the host of a directory.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect(directory: &Path) -> Result<Client, ClientError> {
        let none = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ClientError::NoHost(directory.to_owned())
            }
            _ => ClientError::Io(error),
        };
        let channel = Directory::open(directory).map_err(none)?.connect().map_err(none)?;
        let hello = FromProgram::Hello { version: VERSION, role: Role::Controller as u8 };
        channel.send(&hello.to_bytes(), &[])?;
        let received = channel.receive_within(GREETING).map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => io::Error::new(error.kind(), "it does not answer"),
            _ => error,
        })?;
        answer(received)?;
        Ok(Client { channel })
    }

    /// As [`connect`](Self::connect), starting a host where there is none: `program`, an absolute path, with `arguments` and
    /// the directory. It outlives this program: neither its terminal's job, nor its working directory, nor its descriptors are the host's.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect_or_start(
        directory: &Path,
        program: &Path,
        arguments: &[&str],
    ) -> Result<Client, ClientError> {
        let directory = &*std::path::absolute(directory).unwrap_or(directory.to_owned());
        match Client::connect(directory) {
            Err(ClientError::NoHost(_)) => {}
            other => return other,
        }
        Directory::open_or_make(directory)?;
        let mut command = crate::host_process::command(program, arguments, directory);
        // Why it does not begin, if so.
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let end = Instant::now() + BEGINNING;
        loop {
            match Client::connect(directory) {
                Err(ClientError::NoHost(_)) if Instant::now() < end => {}
                Ok(client) => {
                    std::thread::sleep(GATHERING);
                    return Ok(client);
                }
                other => return other,
            }
            if let Some(status) = child.try_wait()?
                && !status.success()
            {
                let mut said = String::new();
                if let Some(errors) = &mut child.stderr {
                    io::Read::read_to_string(errors, &mut said)?;
                }
                let what = format!("{} did not start: {}", program.display(), said.trim());
                return Err(io::Error::other(what).into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// [`ClientError`]: `Refused` with the host's own words.
    pub fn ask(&self, request: &Request) -> Result<Response, ClientError> {
        Ok(self.ask_for(request)?.0)
    }

    /// Asks for something that comes with a descriptor.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn ask_for(&self, request: &Request) -> Result<(Response, Vec<OwnedFd>), ClientError> {
        let bytes = serde_json::to_vec(request).map_err(io::Error::other)?;
        if bytes.len() > crate::MAX_MESSAGE {
            let message = "the request is larger than a message can be (128 KiB)".to_owned();
            return Err(ClientError::Refused { status: 87, message });
        }
        self.channel.send(&bytes, &[])?;
        // However long it takes: a disk may be slow.
        answer(self.channel.receive()?)
    }
}

fn answer(received: Received) -> Result<(Response, Vec<OwnedFd>), ClientError> {
    if received.bytes.is_empty() {
        return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into());
    }
    if let Some(FromHost::Refused { status }) = FromHost::read(&received.bytes) {
        let message = match status {
            50 => "the host is of another version of openetw".to_owned(),
            _ => "the host takes no more connections of this user".to_owned(),
        };
        return Err(ClientError::Refused { status, message });
    }
    match serde_json::from_slice(&received.bytes).map_err(io::Error::other)? {
        Response::Error { status, message } => Err(ClientError::Refused { status, message }),
        response => Ok((response, received.descriptors)),
    }
}
