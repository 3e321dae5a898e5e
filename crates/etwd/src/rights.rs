//! Rights: which users may control a host, and where it writes files for them.
//!
//! | | may control |
//! |---|---|
//! | a user's host | that user and root |
//! | the system's host | root and the members of its group (`openetw`), as "Performance Log Users" |
//!
//! Every program that can reach the socket may register providers. The directory of a user's host belongs to the user.

use std::path::Path;

use etw_eventlog::accounts::group_id;
use etw_types::Status;
use etw_wire::requests::Response;
use etw_wire::{Channel, Peer};

/// The group whose members may control the system's host.
pub(crate) const GROUP: &str = "openetw";
/// The folder in which members of the group may have the system's host write files.
pub(crate) const LOGS: &str = "/var/log/openetw";

pub(crate) fn refused(status: Status, message: impl Into<String>) -> Response {
    Response::Error { status: status.0, message: message.into() }
}

/// Whether this peer, at the other end of `channel`, may control the host.
pub(crate) fn may_control(peer: &Peer, channel: &Channel) -> bool {
    let own = rustix::process::geteuid().as_raw();
    peer.uid == 0 || peer.uid == own || (own == 0 && is_member(peer, channel, GROUP))
}

/// The response to a peer that may not control the host.
pub(crate) fn no_control(peer: &Peer) -> Response {
    let what = format!(
        "user {} may not control this host: root and the members of group {GROUP} may \
         (`usermod -aG {GROUP} USER`), and without --system-host your own host needs no right",
        peer.uid
    );
    refused(Status::ERROR_ACCESS_DENIED, what)
}

/// Whether the host, with its own rights, may create this file for the user.
pub(crate) fn may_write(user: u32, file: &Path) -> Result<(), Response> {
    let own = rustix::process::geteuid().as_raw();
    let is_plain = !file.components().any(|part| part == std::path::Component::ParentDir);
    if user == own || user == 0 {
        return Ok(());
    }
    if !is_plain || !file.starts_with(LOGS) {
        let what = format!(
            "{}: members of group {GROUP} may write to {LOGS} only; name a file there",
            file.display()
        );
        return Err(refused(Status::ERROR_ACCESS_DENIED, what));
    }
    is_own_way(Path::new(LOGS), file, own)
        .map_err(|what| refused(Status::ERROR_ACCESS_DENIED, what))
}

/// Checks that no part of the path from a folder to a file below it is a link, or a folder in which another user than `own` could
/// put one. Nobody can then redirect the host, now or later.
fn is_own_way(from: &Path, file: &Path, own: u32) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    for part in file.ancestors().take_while(|part| part.starts_with(from)) {
        let Ok(found) = std::fs::symlink_metadata(part) else {
            // A part that does not exist yet is created by the host, or is an error later.
            continue;
        };
        let is_own = match part == file {
            true => found.is_file(),
            false => found.is_dir() && found.uid() == own && found.mode() & 0o022 == 0,
        };
        if !is_own {
            return Err(format!(
                "{}: {} is a link, or other users can write to it; name a file elsewhere in {}",
                file.display(),
                part.display(),
                from.display()
            ));
        }
    }
    Ok(())
}

/// Whether the process was a member of the group when it connected. Its id may be another process's by now.
fn is_member(peer: &Peer, channel: &Channel, group: &str) -> bool {
    let Some(wanted) = group_id(group) else { return false };
    if peer.gid == wanted {
        return true;
    }
    channel.peer_groups().is_ok_and(|groups| groups.contains(&wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OV-3: members of the group cannot redirect the system's host to files elsewhere.
    #[test]
    fn the_host_follows_no_link_of_others() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let own = rustix::process::geteuid().as_raw();
        let base = std::env::temp_dir().join(format!("etwd-way-{}", std::process::id()));
        let folder = |name: &str, mode: u32| {
            let path = base.join(name);
            std::fs::create_dir_all(&path).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        folder("", 0o750);
        let (open, shared, sound) =
            (folder("open", 0o777), folder("shared", 0o770), folder("sound", 0o755));
        symlink("/run", base.join("link")).unwrap();
        symlink("/run/there.etl", sound.join("link.etl")).unwrap();
        std::fs::write(sound.join("there.etl"), "").unwrap();
        let is_own = |file: &Path| is_own_way(&base, file, own).is_ok();
        assert!(is_own(&base.join("new.etl")));
        assert!(is_own(&sound.join("new.etl")) && is_own(&sound.join("there.etl")));
        for file in [&open.join("a.etl"), &shared.join("a.etl"), &sound.join("link.etl")] {
            assert!(!is_own(file), "{}", file.display());
        }
        assert!(!is_own(&base.join("link/a.etl")) && !is_own(&sound));
        assert!(is_own_way(&base, &sound.join("new.etl"), own + 1).is_err());
        std::fs::remove_dir_all(&base).unwrap();
    }

    /// OV-3: with the unit file, members of the group can read the files that they had recorded.
    #[test]
    fn the_unit_file_gives_the_group_its_logs() {
        let unit = include_str!("../packaging/etwd.service");
        let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key));
        assert_eq!(value("Group="), Some(GROUP));
        assert_eq!(value("LogsDirectory="), Path::new(LOGS).file_name().unwrap().to_str());
        // The group reads, nobody else writes: no other user can make a link that the host would follow.
        assert_eq!(value("LogsDirectoryMode="), Some("0750"));
    }
}
