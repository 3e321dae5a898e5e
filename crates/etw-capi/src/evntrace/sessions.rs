//! The sessions of the host, by the handles and names that programs have.
//!
//! A handle is the session's number in its low 16 bits, as Windows has it, and behind that a hash of the session's GUID. So it means
//! the same in every process, and the handle of a session that has ended is not confused with the next session with its number.

use etw_api::Status;
use etw_wire::host_client::Client;
use etw_wire::requests::{Request, Response, SessionStatus};

use super::host::ask;

pub fn handle_of(session: &SessionStatus) -> u64 {
    // FNV-1a
    let hash = session.guid.0.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash << 16 | u64::from(session.id & 0xffff)
}

pub fn list(client: &Client) -> Result<Vec<SessionStatus>, Status> {
    match ask(client, &Request::List)? {
        Response::Sessions { sessions } => Ok(sessions),
        _ => Err(Status::ERROR_NO_SYSTEM_RESOURCES),
    }
}

pub fn by_handle(client: &Client, handle: u64) -> Result<SessionStatus, Status> {
    let found = list(client)?.into_iter().find(|session| handle_of(session) == handle);
    found.ok_or(Status::ERROR_WMI_INSTANCE_NOT_FOUND)
}

/// The name of the session that a call is for: by its handle; where that is 0 by its name.
///
/// # Errors
/// 87: neither is given; 4201: there is no such session.
pub fn name_of(client: &Client, handle: u64, name: Option<&str>) -> Result<String, Status> {
    match (handle, name) {
        (0, Some(name)) => Ok(name.to_owned()),
        (0, None) => Err(Status::ERROR_INVALID_PARAMETER),
        _ => Ok(by_handle(client, handle)?.name),
    }
}

pub fn query(client: &Client, name: &str) -> Result<SessionStatus, Status> {
    session(ask(client, &Request::Query { session: name.to_owned() })?)
}

/// The session that a host has answered.
pub fn session(response: Response) -> Result<SessionStatus, Status> {
    match response {
        Response::Session(session) => Ok(*session),
        _ => Err(Status::ERROR_NO_SYSTEM_RESOURCES),
    }
}
