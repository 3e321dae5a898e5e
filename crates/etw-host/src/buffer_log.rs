//! [`BufferLog`]: an event log (`.evtx`) in place of a session's file.
//!
//! This crate knows neither schemas nor event logs. A host that keeps event logs says how they are opened.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use crate::facts::SessionFacts;

/// Stores the events of a session's buffers in an event log.
pub trait BufferLog: Debug + Send {
    /// Stores the events of a buffer, as it is in files. When this returns, readers of the log find them, and a process that is
    /// killed does not lose them. A buffer that was stored before, wholly or in part, is stored only once.
    ///
    /// # Errors
    /// Those of the system; the events are then not stored.
    fn store(&mut self, buffer: &[u8]) -> io::Result<()>;

    /// Closes the log.
    ///
    /// # Errors
    /// Those of the system.
    fn finish(&mut self) -> io::Result<()>;
}

/// Opens the log of a session, new or not.
pub type OpenLog = fn(&Path, &SessionFacts) -> io::Result<Box<dyn BufferLog>>;

static OPEN: OnceLock<OpenLog> = OnceLock::new();

/// Says how this host opens event logs. The first call counts.
pub fn set_open_log(open: OpenLog) {
    let _ = OPEN.set(open);
}

/// Opens the log of a session whose file is an event log; `None` for other files.
///
/// # Errors
/// Those of opening it; `Unsupported`: this host keeps no event logs.
pub(crate) fn open(path: &Path, facts: &SessionFacts) -> io::Result<Option<Box<dyn BufferLog>>> {
    if !etw_session::is_event_log(path) {
        return Ok(None);
    }
    let Some(open) = OPEN.get() else {
        let what = "a private session writes no event logs (.evtx); start a global session";
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    };
    open(path, facts).map(Some)
}
