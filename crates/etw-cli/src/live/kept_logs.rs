//! The logs that running hosts keep: refreshed, listed, cleared.

use super::host::failure;
use crate::output::Failure;
use etw_types::Status;
use etw_wire::ClientError;
use etw_wire::host_client::Client;
use etw_wire::requests::{LogStatus, Request, Response};
use etw_wire::runtime_directory;
use std::path::PathBuf;

/// Whether this process is root's.
pub fn is_root() -> bool {
    // SAFETY: takes nothing and gives a number.
    unsafe { libc::geteuid() == 0 }
}

/// Lets the hosts that programs of this user connect to read the registry of logs again. A host that keeps no logs for this user
/// rejects that, which changes nothing.
pub fn refresh_logs() {
    for directory in runtime_directory::of_program() {
        let answer = Client::connect(&directory).and_then(|host| host.ask(&Request::RefreshLogs));
        if let Ok(Response::Done { warnings }) = answer {
            warnings.iter().for_each(|warning| eprintln!("etw: warning: {warning}"));
        }
    }
}

/// The states of the logs that running hosts keep.
pub fn log_states() -> Vec<LogStatus> {
    let mut all = Vec::new();
    for directory in runtime_directory::of_program() {
        let answer = Client::connect(&directory).and_then(|host| host.ask(&Request::Logs));
        if let Ok(Response::Logs { logs }) = answer {
            all.extend(logs);
        }
    }
    all
}

/// Asks the hosts to clear a log; `false`: none of them keeps it.
pub fn clear_log(log: &str, backup: Option<PathBuf>) -> Result<bool, Failure> {
    let not_kept = Status::ERROR_WMI_INSTANCE_NOT_FOUND.0;
    for directory in runtime_directory::of_program() {
        let Ok(client) = Client::connect(&directory) else { continue };
        // Records that were written before are cleared, too. Without that session, the host keeps no logs.
        let _ = client.ask(&Request::Flush { session: "EventLog".to_owned() });
        match client.ask(&Request::ClearLog { log: log.to_owned(), backup: backup.clone() }) {
            Err(ClientError::Refused { status, .. }) if status == not_kept || status == 15_007 => {}
            Err(error) => return Err(failure(error)),
            Ok(_) => return Ok(true),
        }
    }
    Ok(false)
}
