//! The file of sessions that start with the daemon (OV-25).

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use etw_host::kill_point::kill_point;
use etw_wire::Channel;
use etw_wire::requests::{Request, Response, StartJson, StartRequest};
use serde::Deserialize;

use crate::global_host::Host;
use crate::host_options::HostOptions;
use crate::log::log;

/// Bytes of the file: more than 64 sessions need.
const MAX_FILE: u64 = 16 << 20;

/// The contents of the file:
///
/// ```json
/// {"sessions": [{"name": "boot", "file": "/var/log/openetw/boot.etl", "mode": "circular", "max_size": 104857600,
///                "enable": [["Shop", {"wanted": {"level": 4}}]]}]}
/// ```
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sessions {
    sessions: Vec<StartJson>,
}

/// Starts a host as the worker of a keeper. It takes over the keeper's sessions; the first worker starts the sessions of the file
/// `sessions`.
///
/// # Errors
/// A host that cannot start; a file that cannot be read. A session that cannot start is logged, and the others start.
pub fn begin_work(
    options: HostOptions,
    keeper: Channel,
    sessions: Option<&Path>,
) -> io::Result<Host> {
    // A worker that takes over does not read the file: if it has become invalid, no session stops.
    let mut is_resumed = true;
    let (host, starts) = Host::work(options, keeper, || {
        is_resumed = false;
        sessions.map_or(Ok(Vec::new()), read)
    })?;
    let shown = sessions.unwrap_or(Path::new("")).display();
    for (number, start) in starts.iter().enumerate() {
        let name = start.name();
        let error = match StartRequest::try_from(start.clone()) {
            Err(error) => Some(error.to_string()),
            Ok(request) => match host.ask(Request::start(request)) {
                // The earlier worker was killed after it had started this session.
                Response::Error { status: 183, .. } if is_resumed && number == 0 => None,
                Response::Error { message, .. } => Some(message),
                _ => None,
            },
        };
        if let Some(message) = error {
            log!(
                "{shown}: session {name} cannot start: {message}; etw daemon --help lists the keys"
            );
        }
        kill_point("session of the file started");
        host.keep_starts(&starts[number + 1..]);
    }
    Ok(host)
}

/// Checks the file of sessions that a daemon of root, or of this user, reads when it starts. Returns its path if it exists.
///
/// # Errors
/// Why the daemon cannot start with it.
pub fn check_sessions_file(is_of_root: bool) -> io::Result<Option<PathBuf>> {
    let Some(path) = file_of(is_of_root).filter(|path| path.exists()) else { return Ok(None) };
    for start in read(&path)? {
        let name = start.name().to_owned();
        if let Err(error) = StartRequest::try_from(start) {
            let what = format!("{}: session {name}: {error}", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
    }
    Ok(Some(path))
}

fn read(path: &Path) -> io::Result<Vec<StartJson>> {
    let bad = |error: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
    };
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| bad(&error))?;
    file.take(MAX_FILE + 1).read_to_end(&mut text).map_err(|error| bad(&error))?;
    if text.len() as u64 > MAX_FILE {
        return Err(bad(&"larger than a file of sessions may be (16 MiB)"));
    }
    let read: Sessions = serde_json::from_slice(&text)
        .map_err(|error| bad(&format_args!("{error}; etw daemon --help lists the keys")))?;
    Ok(read.sessions)
}

/// The file of sessions that this user's daemon reads, if it exists.
pub fn default_sessions_file() -> Option<PathBuf> {
    file_of(rustix::process::geteuid().is_root()).filter(|path| path.exists())
}

fn file_of(is_of_root: bool) -> Option<PathBuf> {
    if is_of_root {
        return Some("/etc/openetw/sessions.json".into());
    }
    let base = match std::env::var_os("XDG_CONFIG_HOME").filter(|value| !value.is_empty()) {
        Some(base) => PathBuf::from(base),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".config"),
    };
    Some(base.join("openetw/sessions.json"))
}
