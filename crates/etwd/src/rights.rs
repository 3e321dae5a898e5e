//! Who may do what.
//!
//! | | may control |
//! |---|---|
//! | a user's host | that user and root |
//! | the system's host | root and the members of its group (`openetw`), as "Performance Log Users" |
//!
//! Everybody who can reach the socket may register providers. The directory of a user's host is the user's alone.

use std::path::Path;

use etw_types::Status;
use etw_wire::control::Response;
use etw_wire::{Channel, Peer};

/// The group whose members control the system's host.
pub(crate) const GROUP: &str = "openetw";
/// Where members of the group may write files through the system's host.
pub(crate) const LOGS: &str = "/var/log/openetw";

pub(crate) fn refused(status: Status, message: impl Into<String>) -> Response {
    Response::Error { status: status.0, message: message.into() }
}

/// May this peer, which is at the other end of `channel`, control the host?
pub(crate) fn may_control(peer: &Peer, channel: &Channel) -> bool {
    let own = rustix::process::geteuid().as_raw();
    peer.uid == 0 || peer.uid == own || (own == 0 && is_member(peer, channel, GROUP))
}

/// Why not, and what to do.
pub(crate) fn no_control(peer: &Peer) -> Response {
    let what = format!(
        "user {} may not control this host: root and the members of group {GROUP} may \
         (`usermod -aG {GROUP} USER`), and without --system your own host needs no right",
        peer.uid
    );
    refused(Status::ERROR_ACCESS_DENIED, what)
}

/// May files be made there for this user? The host makes them with its own rights.
pub(crate) fn may_write(user: u32, file: &Path) -> Result<(), Response> {
    let own = rustix::process::geteuid().as_raw();
    let is_plain = !file.components().any(|part| part == std::path::Component::ParentDir);
    if user == own || user == 0 || (is_plain && file.starts_with(LOGS)) {
        return Ok(());
    }
    let what = format!("{}: members of group {GROUP} write to {LOGS}", file.display());
    Err(refused(Status::ERROR_ACCESS_DENIED, what))
}

/// By the groups that the process had when it connected: its id may be another process's by now.
fn is_member(peer: &Peer, channel: &Channel, group: &str) -> bool {
    let Some(wanted) = group_id(group) else { return false };
    if peer.gid == wanted {
        return true;
    }
    channel.peer_groups().is_ok_and(|groups| groups.contains(&wanted))
}

fn group_id(name: &str) -> Option<u32> {
    let groups = std::fs::read_to_string("/etc/group").ok()?;
    groups.lines().find_map(|line| {
        let mut parts = line.split(':');
        (parts.next() == Some(name)).then(|| parts.nth(1)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OV-3: what members of the group have had recorded is theirs to read, where the unit file is used.
    #[test]
    fn the_unit_file_gives_the_group_its_logs() {
        let unit = include_str!("../packaging/etwd.service");
        let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key));
        assert_eq!(value("Group="), Some(GROUP));
        assert_eq!(value("LogsDirectory="), Path::new(LOGS).file_name().unwrap().to_str());
        // Read by the group, written by nobody else: the host follows no link that another one made.
        assert_eq!(value("LogsDirectoryMode="), Some("0750"));
    }
}
