//! Connections to hosts of sessions.

use crate::output::Failure;
use clap::Args;
use etw_types::Status;
use etw_wire::host_client::{Client, ClientError};
use etw_wire::requests::{Request, Response, SessionStatus};
use etw_wire::runtime_directory;
use std::path::PathBuf;

#[derive(Args, Clone, Debug, Default)]
pub struct HostChoice {
    /// Use the machine's host of sessions instead of your own
    #[arg(long, global = true)]
    pub system_host: bool,
}

impl HostChoice {
    pub fn directory(&self) -> PathBuf {
        match self.system_host {
            true => runtime_directory::SYSTEM.into(),
            false => runtime_directory::of_user(),
        }
    }

    /// Connects to a running host.
    pub fn connect(&self) -> Result<Client, Failure> {
        Client::connect(&self.directory()).map_err(failure)
    }

    /// Connects to the user's own host if it runs. The machine's host has to run.
    pub fn connect_if_any(&self) -> Result<Option<Client>, Failure> {
        match Client::connect(&self.directory()) {
            Err(ClientError::NoHost(_)) if !self.system_host => Ok(None),
            other => other.map(Some).map_err(failure),
        }
    }

    /// Connects, and starts the user's own host if it does not run. The machine's host is a service.
    pub fn connect_or_start(&self) -> Result<Client, Failure> {
        if self.system_host {
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

/// Sends a request; prints the warnings of its answer.
pub fn ask(client: &Client, request: &Request) -> Result<Response, Failure> {
    let response = client.ask(request).map_err(failure)?;
    if let Response::Done { warnings } = &response {
        for warning in warnings {
            eprintln!("etw: warning: {warning}");
        }
    }
    Ok(response)
}

/// Sends a request that a session's state answers.
pub fn ask_session(client: &Client, request: &Request) -> Result<SessionStatus, Failure> {
    match ask(client, request)? {
        Response::Session(status) => Ok(*status),
        _ => {
            Err(Failure::new("unexpected response from the session host; is its version another?"))
        }
    }
}

/// Names of registered providers; none without a host.
pub fn registered_names() -> Vec<String> {
    match running_host_says(&Request::Providers) {
        Some(Response::Providers { providers }) => {
            providers.into_iter().map(|provider| provider.name).collect()
        }
        _ => Vec::new(),
    }
}

/// Names of running sessions; none without a host.
pub fn session_names() -> Vec<String> {
    match running_host_says(&Request::List) {
        Some(Response::Sessions { sessions }) => {
            sessions.into_iter().map(|status| status.name).collect()
        }
        _ => Vec::new(),
    }
}

fn running_host_says(request: &Request) -> Option<Response> {
    HostChoice::default().connect_if_any().ok()??.ask(request).ok()
}
