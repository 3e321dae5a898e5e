//! Event logs of sessions: [`etw_eventlog`] behind the engine's storage.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use etw_eventlog::kept_log::{KeptLog, KeptSession, Limit, WhenFull};
use etw_host::buffer_log::{BufferLog, set_open_log};
use etw_host::facts::SessionFacts;
use etw_session::{AtMaxSize, SessionConfig};

use crate::log::log;

/// Buffers of a session with an event log are stored after this time, unless it sets another.
const FLUSH_TIMER: Duration = Duration::from_secs(1);

/// Lets the engine of this process store events in event logs.
pub(crate) fn enable() {
    set_open_log(open);
}

/// Sets the options that an event log needs: one stream of buffers, whose records are then in order of time.
pub(crate) fn adapt(config: &mut SessionConfig) {
    if config.is_event_log() {
        config.per_processor = false;
        config.flush_timer = config.flush_timer.or(Some(FLUSH_TIMER));
    }
}

#[derive(Debug)]
struct SessionLog(KeptLog);

impl BufferLog for SessionLog {
    fn store(&mut self, buffer: &[u8]) -> io::Result<()> {
        self.0.store(buffer)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.finish()
    }
}

fn open(path: &Path, facts: &SessionFacts) -> io::Result<Box<dyn BufferLog>> {
    let policy = facts.log_policy();
    let limit = Limit {
        max_size: policy.max_size.unwrap_or(u64::MAX),
        when_full: match policy.at_max_size {
            AtMaxSize::Overwrite => WhenFull::Overwrite,
            AtMaxSize::Stop => WhenFull::Refuse,
            AtMaxSize::NextFile => WhenFull::Archive,
        },
    };
    let schemas = etw_decode::registered::catalog(&mut |problem| log!("{problem}"));
    let session = KeptSession {
        // Two sessions of one log do not start at the same time.
        session: facts.start_raw as u64 ^ (facts.header.start_time.0 as u64).rotate_left(17),
        clock: facts.clock(),
        channel: facts.header.logger_name.clone(),
        schemas: Arc::new(schemas),
    };
    Ok(Box::new(SessionLog(KeptLog::open(path, limit, session)?)))
}
