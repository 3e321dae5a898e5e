//! Linux: hosts of sessions, found in their runtime directories.

use super::{HostChoice, failure, lease};
use crate::format::safe;
use crate::output::Failure;
use ::etw::{ControlError, Controller};
pub use etw_wire::host_client::Client;
use etw_wire::host_client::ClientError;
use etw_wire::requests::Request;
use etw_wire::runtime_directory;
use std::path::PathBuf;

impl HostChoice {
    /// The host in messages.
    pub fn description(&self) -> String {
        format!("the host in {}", self.directory().display())
    }

    /// The host of the library's consumers.
    pub fn controller(&self) -> Result<Controller, ControlError> {
        Controller::connect_to(self.directory())
    }

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

    /// Why the host does not serve, or which sessions ended with an error: of the last host of the directory.
    pub fn failures(&self) -> Vec<String> {
        let directory = runtime_directory::Directory::open(&self.directory());
        directory.map_or(Vec::new(), |directory| directory.failures())
    }

    /// Connects to the user's own host if it runs. The machine's host has to run.
    pub fn connect_if_any(&self) -> Result<Option<Client>, Failure> {
        match Client::connect(&self.directory()) {
            Err(ClientError::NoHost(_)) if !self.system_host => Ok(None),
            other => other.map(Some).map_err(failure),
        }
    }

    /// Makes the session that `client` started end with this process, and not with a worker of the host.
    pub fn hold(&self, client: Client, session: &str) -> lease::Lease {
        lease::hold(client, self.directory(), session.to_owned())
    }

    /// Connects, and starts the user's own host if it does not run. The machine's host is a service.
    pub fn connect_or_start(&self) -> Result<Client, Failure> {
        if self.system_host {
            return self.connect();
        }
        let program = std::env::current_exe().map_err(Failure::new)?;
        let arguments = ["daemon", "--idle-exit", "10"];
        if let Some(client) = self.connect_if_any()? {
            return Ok(client);
        }
        // The host that starts forgets them.
        self.failures().iter().for_each(|failure| eprintln!("etw: note: {}", safe(failure)));
        Client::connect_or_start(&self.directory(), &program, &arguments).map_err(failure)
    }
}

/// Makes the hosts that run look for manifests of providers that sessions enabled by name.
pub fn announce_manifests() {
    for directory in [runtime_directory::of_user(), runtime_directory::SYSTEM.into()] {
        // Without a host, or without its permission, nobody needs to know.
        if let Ok(client) = Client::connect(&directory) {
            let _ = client.ask(&Request::List);
        }
    }
}
