//! The event logs that running hosts keep: refreshed, listed, cleared.

use std::path::PathBuf;

use crate::ClientError;
use crate::host_client::Client;
use crate::requests::{LogStatus, Request, Response};
use crate::runtime_directory;

/// `ERROR_EVT_CHANNEL_NOT_FOUND`
const NO_CHANNEL: u32 = 15_007;

/// Lets the hosts that programs of this user connect to read the registry of logs again. A host that keeps no logs for this user
/// rejects that, which changes nothing. Returns the warnings of the others.
pub fn refresh() -> Vec<String> {
    let mut all = Vec::new();
    for directory in runtime_directory::of_program() {
        let answer = Client::connect(&directory).and_then(|host| host.ask(&Request::RefreshLogs));
        if let Ok(Response::Done { warnings }) = answer {
            all.extend(warnings);
        }
    }
    all
}

/// The states of the logs that running hosts keep.
pub fn states() -> Vec<LogStatus> {
    let mut all = Vec::new();
    for directory in runtime_directory::of_program() {
        let answer = Client::connect(&directory).and_then(|host| host.ask(&Request::Logs));
        if let Ok(Response::Logs { logs }) = answer {
            all.extend(logs);
        }
    }
    all
}

/// Asks the hosts to clear a log; `false`: none of them keeps it. `backup`: an event log that receives the records first, and that must
/// not exist.
///
/// # Errors
/// [`ClientError`] of the host that keeps it.
pub fn clear(log: &str, backup: Option<PathBuf>) -> Result<bool, ClientError> {
    let not_kept = etw_types::Status::ERROR_WMI_INSTANCE_NOT_FOUND.0;
    for directory in runtime_directory::of_program() {
        let Ok(client) = Client::connect(&directory) else { continue };
        // Records that were written before are cleared, too. Without that session, the host keeps no logs.
        let _ = client.ask(&Request::Flush { session: "EventLog".to_owned() });
        match client.ask(&Request::ClearLog { log: log.to_owned(), backup: backup.clone() }) {
            Err(ClientError::Refused { status, .. })
                if status == not_kept || status == NO_CHANNEL => {}
            Err(error) => return Err(error),
            Ok(_) => return Ok(true),
        }
    }
    Ok(false)
}
