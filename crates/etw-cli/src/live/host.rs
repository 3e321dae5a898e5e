//! Connections to hosts of sessions.

use crate::output::Failure;
use clap::Args;
#[cfg(target_os = "linux")]
pub use daemon_host::{Client, announce_manifests};
use etw_types::Status;
use etw_wire::ClientError;
use etw_wire::requests::{Request, Response, SessionStatus};
#[cfg(windows)]
pub use system_host::Client;

#[cfg(target_os = "linux")]
mod daemon_host;
#[cfg(target_os = "linux")]
pub mod lease;
#[cfg(windows)]
mod system_host;

#[derive(Args, Clone, Debug, Default)]
pub struct HostChoice {
    /// Use the machine's host of sessions instead of your own
    #[arg(long, global = true)]
    pub system_host: bool,
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
