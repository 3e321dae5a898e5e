//! Windows: the system hosts sessions.

use super::{HostChoice, failure};
use crate::output::Failure;
use ::etw::{ControlError, Controller};
use etw_wire::ClientError;
use etw_wire::requests::{Request, Response};

/// The system, as controllers ask it.
pub struct Client {
    controller: Controller,
}

impl Client {
    /// Executes a request.
    pub fn ask(&self, request: &Request) -> Result<Response, ClientError> {
        self.controller.request(request)
    }
}

/// The lease of a session that this process started. If this is dropped, the session ends.
#[must_use]
pub struct Lease {
    _client: Client,
}

impl HostChoice {
    /// The host in messages.
    pub fn description(&self) -> String {
        "Windows".to_owned()
    }

    /// The host of the library's consumers.
    pub fn controller(&self) -> Result<Controller, ControlError> {
        Controller::connect()
    }

    /// Connects to the system, which always runs.
    pub fn connect(&self) -> Result<Client, Failure> {
        match Controller::connect() {
            Ok(controller) => Ok(Client { controller }),
            Err(ControlError::Request(error)) => Err(failure(error)),
            Err(error) => Err(Failure::new(error)),
        }
    }

    /// None: the system ends no sessions without a word.
    pub fn failures(&self) -> Vec<String> {
        Vec::new()
    }

    /// Holds the lease of the session that `client` started.
    pub fn hold(&self, client: Client, _session: &str) -> Lease {
        Lease { _client: client }
    }

    /// As [`connect`](Self::connect).
    pub fn connect_if_any(&self) -> Result<Option<Client>, Failure> {
        self.connect().map(Some)
    }

    /// As [`connect`](Self::connect).
    pub fn connect_or_start(&self) -> Result<Client, Failure> {
        self.connect()
    }
}
