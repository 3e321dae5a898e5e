//! The daemon: a host, and the sessions that begin with it (OV-25).

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use etw_wire::Channel;
use etw_wire::control::{Request, Response, StartJson, StartRequest};
use serde::Deserialize;

use crate::global_host::{Host, HostOptions};
use crate::log::log;

/// Bytes of a file of sessions: more than 64 sessions can say.
const MAX_FILE: u64 = 16 << 20;

/// A file of sessions:
///
/// ```json
/// {"sessions": [{"name": "boot", "file": "/var/log/openetw/boot.etl", "mode": "circular", "max_size": 104857600,
///                "enable": [["6fd40c8c-1d79-5e6c-86de-ce1ddd7c8bb7", {"wanted": {"level": 4}}]]}]}
/// ```
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sessions {
    sessions: Vec<StartJson>,
}

/// Begins as the worker of a keeper: with what it holds, or else with the sessions that begin with a host. `sessions`: a file of
/// them; else the one in its usual place, if there is one.
///
/// # Errors
/// A host that cannot be started; a file of sessions that cannot be read. A session that cannot be is told, and the others
/// begin.
pub fn begin_work(
    options: HostOptions,
    keeper: Channel,
    sessions: Option<&Path>,
) -> io::Result<Host> {
    // A worker that takes over needs no file: one that has become wrong meanwhile stops nobody's sessions.
    let (host, starts) = Host::work(options, keeper, || match sessions {
        Some(path) => read(path),
        None => {
            usual_place().filter(|path| path.exists()).map_or(Ok(Vec::new()), |path| read(&path))
        }
    })?;
    for start in starts {
        let name = start.name().to_owned();
        let error = match StartRequest::try_from(start) {
            Err(error) => Some(error.to_string()),
            Ok(request) => match host.ask(Request::start(request)) {
                Response::Error { message, .. } => Some(message),
                _ => None,
            },
        };
        if let Some(message) = error {
            log!("session {name}: {message}");
        }
    }
    host.has_begun();
    Ok(host)
}

fn read(path: &Path) -> io::Result<Vec<StartJson>> {
    let bad = |error: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
    };
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| bad(&error))?;
    file.take(MAX_FILE + 1).read_to_end(&mut text).map_err(|error| bad(&error))?;
    if text.len() as u64 > MAX_FILE {
        return Err(bad(&"larger than a file of sessions can be (16 MiB)"));
    }
    let read: Sessions = serde_json::from_slice(&text).map_err(|error| bad(&error))?;
    Ok(read.sessions)
}

/// Where the sessions are that begin with a host.
fn usual_place() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some("/etc/openetw/sessions.json".into());
    }
    let base = match std::env::var_os("XDG_CONFIG_HOME").filter(|value| !value.is_empty()) {
        Some(base) => PathBuf::from(base),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".config"),
    };
    Some(base.join("openetw/sessions.json"))
}
