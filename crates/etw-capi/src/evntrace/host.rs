//! The host of global sessions: asked, and started where there is none.

use etw_api::Status;
use etw_wire::host_client::{Client, ClientError};
use etw_wire::requests::{Request, Response};
use etw_wire::runtime_directory;

fn status(error: &ClientError) -> Status {
    Status(error.status())
}

/// # Errors
/// 4201 where no host runs: so no session does. 5: it is not this user's to control.
pub fn connect() -> Result<Client, Status> {
    Client::connect(&runtime_directory::of_user()).map_err(|error| status(&error))
}

/// # Errors
/// As [`connect`]; 2: no program that would be a host is found. 1450: it did not begin.
pub fn connect_or_start() -> Result<Client, Status> {
    let directory = runtime_directory::of_user();
    match Client::connect(&directory) {
        Err(ClientError::NoHost(_)) => {}
        other => return other.map_err(|error| status(&error)),
    }
    let client = Client::connect_or_start_host(&directory).map_err(|error| status(&error))?;
    if crate::evntprov::has_registered() || crate::classic::has_registered() {
        client.wait_for_own_providers();
    }
    Ok(client)
}

/// # Errors
/// The host's status.
pub fn ask(client: &Client, request: &Request) -> Result<Response, Status> {
    client.ask(request).map_err(|error| status(&error))
}
