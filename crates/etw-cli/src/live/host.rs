//! The host of sessions that a command talks to.

use crate::output::Failure;
use clap::Args;
use etw_types::Status;
use etw_wire::host_client::{Client, ClientError};
use etw_wire::requests::{Request, Response, SessionStatus};
use etw_wire::runtime_directory;
use std::path::PathBuf;

#[derive(Args, Clone, Debug, Default)]
pub struct Which {
    /// The machine's host of sessions instead of your own
    #[arg(long, global = true)]
    pub system: bool,
}

impl Which {
    pub fn directory(&self) -> PathBuf {
        if self.system { runtime_directory::SYSTEM.into() } else { runtime_directory::of_user() }
    }

    /// A host that runs already.
    pub fn connect(&self) -> Result<Client, Failure> {
        Client::connect(&self.directory()).map_err(failure)
    }

    /// One's own, if it runs; the machine's, which has to.
    pub fn connect_if_any(&self) -> Result<Option<Client>, Failure> {
        match Client::connect(&self.directory()) {
            Err(ClientError::NoHost(_)) if !self.system => Ok(None),
            other => other.map(Some).map_err(failure),
        }
    }

    /// The user's own host is started if it does not run; the machine's is a service.
    pub fn connect_or_start(&self) -> Result<Client, Failure> {
        if self.system {
            return self.connect();
        }
        let program = std::env::current_exe().map_err(Failure::new)?;
        let arguments = ["daemon", "--idle-exit", "10"];
        Client::connect_or_start(&self.directory(), &program, &arguments).map_err(failure)
    }
}

pub fn failure(error: ClientError) -> Failure {
    let status = Status(error.status());
    match (&error, status.name()) {
        (ClientError::Refused { .. }, Some(name)) => {
            Failure::new(format!("{error} ({name}, {})", status.0))
        }
        (ClientError::Refused { .. }, None) => Failure::new(format!("{error} ({})", status.0)),
        _ => Failure::new(error),
    }
}

/// Asks; what did not go as asked is told.
pub fn ask(client: &Client, request: &Request) -> Result<Response, Failure> {
    let response = client.ask(request).map_err(failure)?;
    if let Response::Done { warnings } = &response {
        for warning in warnings {
            eprintln!("etw: warning: {warning}");
        }
    }
    Ok(response)
}

/// Asks for a session's state.
pub fn ask_session(client: &Client, request: &Request) -> Result<SessionStatus, Failure> {
    match ask(client, request)? {
        Response::Session(status) => Ok(*status),
        _ => Err(Failure::new("the host of sessions gave another answer than was asked for")),
    }
}
