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
use etw_wire::Peer;
use etw_wire::control::Response;

/// The group whose members control the system's host.
pub(crate) const GROUP: &str = "openetw";
/// Where members of the group may write files through the system's host.
pub(crate) const LOGS: &str = "/var/log/openetw";

pub(crate) fn refused(status: Status, message: impl Into<String>) -> Response {
    Response::Error { status: status.0, message: message.into() }
}

/// May this peer control the host?
pub(crate) fn may_control(peer: &Peer) -> bool {
    let own = rustix::process::geteuid().as_raw();
    peer.uid == 0 || peer.uid == own || (own == 0 && is_member(peer, GROUP))
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

/// By the groups of the process that connected, as the system's files name them.
fn is_member(peer: &Peer, group: &str) -> bool {
    let Some(wanted) = group_id(group) else { return false };
    if peer.gid == wanted {
        return true;
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", peer.pid)).unwrap_or_default();
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    groups.is_some_and(|groups| groups.split_ascii_whitespace().any(|id| id.parse() == Ok(wanted)))
}

fn group_id(name: &str) -> Option<u32> {
    let groups = std::fs::read_to_string("/etc/group").ok()?;
    groups.lines().find_map(|line| {
        let mut parts = line.split(':');
        (parts.next() == Some(name)).then(|| parts.nth(1)?.parse().ok()).flatten()
    })
}
