//! The recording side of a session: this crate's own, or the system's.

use std::fmt;
use std::path::Path;

use etw_host::{EnableInfo, SessionStatistics, Stopped};
use etw_types::{Guid, LevelKeyword};

use super::error::SessionError;

/// The recording side of a session.
pub(crate) trait Engine: fmt::Debug + Send + Sync {
    fn enable(&self, provider: Guid, info: EnableInfo) -> Result<(), SessionError>;
    fn disable(&self, provider: Guid);
    fn capture_state(&self, provider: Guid, wanted: &LevelKeyword);
    fn flush(&self) -> Result<(), SessionError>;
    fn statistics(&self) -> Result<SessionStatistics, SessionError>;
    fn snapshot(&self, path: &Path) -> Result<u64, SessionError>;
    /// Stops the session. A second call only returns the statistics again, if the engine still has them.
    fn stop(&self) -> Stopped<SessionError>;
    /// Whether this process started the session, and not the one that it was forked from.
    fn is_of_this_process(&self) -> bool;
}
