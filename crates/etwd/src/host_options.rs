//! Options of a host.

use std::path::{Path, PathBuf};
use std::time::Duration;

use etw_eventlog::registry::Scope;

/// How a host is set up.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Its runtime directory; created if it does not exist.
    pub directory: PathBuf,
    /// The host ends after so long without a session and without a controller.
    pub idle_exit: Option<Duration>,
    /// Bytes of each program's pool at its start.
    pub pool_size: u32,
    /// Bytes up to which a program's pool may grow.
    pub pool_limit: u32,
    /// The manifests and logs whose channels the host keeps; none: it keeps no logs by itself.
    pub logs: Vec<Scope>,
}

impl HostOptions {
    /// The default options for a runtime directory.
    pub fn new(directory: impl AsRef<Path>) -> HostOptions {
        HostOptions {
            directory: directory.as_ref().to_owned(),
            idle_exit: None,
            // Pages that are never used take no memory.
            pool_size: 16 << 20,
            pool_limit: 24 << 20,
            logs: Vec::new(),
        }
    }
}
