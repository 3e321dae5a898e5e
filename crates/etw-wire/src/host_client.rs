//! A controller's connection.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

pub use crate::client_error::ClientError;
use crate::host_command;
use crate::message::{FromHost, FromProgram, Role, VERSION};
use crate::requests::{Request, Response};
use crate::runtime_directory::Directory;
use crate::{Channel, Received};

/// The system refuses a thread or a process.
pub const NO_PROCESSES: &str = "no more threads and processes are allowed: raise their limit (ulimit -u, or pids.max of the control group)";
/// The time that a new host has to become ready.
const BEGINNING: Duration = Duration::from_secs(30);
/// The time that waiting programs have to connect to a new host, so that the next session reaches them.
const GATHERING: Duration = Duration::from_millis(100);
/// The time that a host has to accept a connection. A stopped host, or a foreign process behind the socket, never accepts it.
const GREETING: Duration = Duration::from_secs(10);
/// The same for a host that has written down why it does not serve.
const GREETING_OF_FAILED: Duration = Duration::from_secs(3);
/// The pause before a client looks again for the host whose connection ended.
const NEXT_LOOK: Duration = Duration::from_millis(2);

/// A controller's connection to a host.
#[derive(Debug)]
pub struct Client {
    channel: Channel,
}

/// The status with which a host of another version rejects a connection: `ERROR_NOT_SUPPORTED`.
pub const OTHER_VERSION: u32 = etw_types::Status::ERROR_NOT_SUPPORTED.0;

impl Client {
    /// Connects to the host of a directory. A host that ends, or whose worker is replaced, may close the connection before its greeting: no
    /// request was sent then, so the client connects again, until there is no host or one greets.
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
        let directory = Directory::open(directory).map_err(none)?;
        let end = Instant::now() + patience_for(&directory);
        loop {
            let connected = directory.connect().map_err(none);
            match connected.and_then(|channel| Client::greet(&directory, channel)) {
                Err(error) if error.is_end() && Instant::now() < end => {}
                other => return other,
            }
            std::thread::sleep(NEXT_LOOK);
        }
    }

    /// Waits for a host's greeting.
    fn greet(directory: &Directory, channel: Channel) -> Result<Client, ClientError> {
        let hello = FromProgram::Hello { version: VERSION, role: Role::Controller as u8 };
        channel.send(&hello.to_bytes(), &[])?;
        let received =
            channel.receive_within(patience_for(directory)).map_err(|error| {
                match error.kind() {
                    io::ErrorKind::TimedOut => {
                        let why = directory
                            .failures()
                            .iter()
                            .fold(String::new(), |all, why| all + ": " + why);
                        io::Error::new(error.kind(), format!("it does not answer{why}"))
                    }
                    _ => error,
                }
            })?;
        answer(received)?;
        Ok(Client { channel })
    }

    /// Connects, and starts a host if none runs: `program`, an absolute path, with `arguments` and the directory. The host outlives this
    /// program and shares neither its terminal's job, nor its working directory, nor its descriptors.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect_or_start(
        directory: &Path,
        program: &Path,
        arguments: &[&str],
    ) -> Result<Client, ClientError> {
        match Client::connect(directory) {
            Err(ClientError::NoHost(_)) => {}
            other => return other,
        }
        let (client, _) = Client::start(directory, program, arguments)?;
        std::thread::sleep(GATHERING);
        Ok(client)
    }

    /// Starts a host, as [`connect_or_start`](Self::connect_or_start) does, and connects. No program is waited for. If another host was
    /// faster, the connection is to that one, and the process ends.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn start(
        directory: &Path,
        program: &Path,
        arguments: &[&str],
    ) -> Result<(Client, Child), ClientError> {
        let directory = &*std::path::absolute(directory).unwrap_or(directory.to_owned());
        Directory::open_or_make(directory)?;
        let mut command = host_command::command(program, arguments, directory);
        // The reason if the host does not become ready.
        let spawned = command.stderr(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::Error::other(format!("{error}; {NO_PROCESSES}")),
            _ => error,
        })?;
        let end = Instant::now() + BEGINNING;
        loop {
            // A connection may wait for a host that cannot start: only one that answers has begun.
            let answers = |client: Client| match client.ask(&Request::List) {
                Ok(_) | Err(ClientError::Refused { .. }) => Ok(client),
                Err(error) => Err(error),
            };
            match Client::connect(directory).and_then(answers) {
                Err(ClientError::NoHost(_)) if Instant::now() < end => {}
                // A host that cannot start closes the connections that wait for it.
                Err(error) if error.is_end() && Instant::now() < end => {}
                other => return other.map(|client| (client, child)),
            }
            if let Some(status) = child.try_wait()? {
                if !status.success() {
                    let mut said = String::new();
                    if let Some(errors) = &mut child.stderr {
                        io::Read::read_to_string(errors, &mut said)?;
                    }
                    let what = format!("{} did not start: {}", program.display(), said.trim());
                    return Err(io::Error::other(what).into());
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until the host ends the connection, as the end of its worker does. No response may be outstanding.
    ///
    /// # Errors
    /// The connection cannot be read.
    pub fn wait_for_end(&self) -> io::Result<()> {
        while !self.channel.receive()?.bytes.is_empty() {}
        Ok(())
    }

    /// Sends a request and waits for the response.
    ///
    /// # Errors
    /// [`ClientError`]: `Refused` with the host's reason.
    pub fn ask(&self, request: &Request) -> Result<Response, ClientError> {
        Ok(self.ask_for(request)?.response)
    }

    /// Sends a request whose response contains a descriptor.
    ///
    /// # Errors
    /// Those of [`ask`](Self::ask).
    pub fn ask_for(&self, request: &Request) -> Result<Answer, ClientError> {
        let bytes = serde_json::to_vec(request).map_err(io::Error::other)?;
        if bytes.len() > crate::MAX_MESSAGE {
            let message = "the request is larger than a message can be (128 KiB)".to_owned();
            return Err(ClientError::Refused { status: 87, message });
        }
        self.channel.send(&bytes, &[])?;
        // Without a time limit, since a disk may be slow.
        answer(self.channel.receive()?)
    }
}

/// The time that the host of a directory has to greet.
fn patience_for(directory: &Directory) -> Duration {
    match directory.failures().is_empty() {
        true => GREETING,
        false => GREETING_OF_FAILED,
    }
}

/// A response with its descriptors.
#[derive(Debug)]
pub struct Answer {
    /// The response.
    pub response: Response,
    /// The descriptors that came with it.
    pub descriptors: Vec<OwnedFd>,
}

fn answer(received: Received) -> Result<Answer, ClientError> {
    if received.bytes.is_empty() {
        return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into());
    }
    if let Some(FromHost::Refused { status }) = FromHost::read(&received.bytes) {
        let message = match status {
            OTHER_VERSION => "the host is of another version of openetw".to_owned(),
            _ => "the host takes no more connections of this user".to_owned(),
        };
        return Err(ClientError::Refused { status, message });
    }
    let invalid =
        |_| io::Error::new(io::ErrorKind::InvalidData, "it does not answer as a host does");
    match serde_json::from_slice(&received.bytes).map_err(invalid)? {
        Response::Error { status, message } => Err(ClientError::Refused { status, message }),
        response => Ok(Answer { response, descriptors: received.descriptors }),
    }
}
