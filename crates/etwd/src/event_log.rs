//! Event logs of sessions: [`etw_eventlog`] behind the engine's storage.
//!
//! A session whose file is an event log keeps its events there. The session [`SESSION`] of a host is another kind: it keeps the
//! logs of all enabled channels, which its storage thread and the host thread share. A channel with custom isolation has a session
//! of this kind to itself.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use etw_decode::{Catalog, registered};
use etw_eventlog::channel::{Channel, Isolation};
use etw_eventlog::channel_logs::{ChannelLogs, Share};
use etw_eventlog::kept_log::{KeptLog, KeptSession, Limit, WhenFull};
use etw_eventlog::registry::{self, Registry, Scope};
use etw_host::buffer_log::{BufferLog, set_open_log};
use etw_host::facts::SessionFacts;
use etw_session::{AtMaxSize, SessionConfig};

use crate::log::{log, log_info};

/// The session that keeps the logs of channels.
pub(crate) const SESSION: &str = "EventLog";
/// In front of a channel's name: the session of a channel with custom isolation.
const OWN_SESSION: &str = "EventLog-";

/// Buffers of a session with an event log are stored after this time, unless it sets another.
const FLUSH_TIMER: Duration = Duration::from_secs(1);

/// The logs of a host's channels.
#[derive(Debug)]
pub(crate) struct HostLogs {
    scopes: Vec<Scope>,
    /// By the file of their session.
    logs: HashMap<PathBuf, Weak<Mutex<ChannelLogs>>>,
}

/// The hosts of this process that keep logs, by the file of their session. The engine opens logs by their path alone.
static HOSTS: LazyLock<Mutex<HashMap<PathBuf, HostLogs>>> = LazyLock::new(Mutex::default);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets the engine of this process store events in event logs. `scopes`: the manifests and logs of this host.
pub(crate) fn enable(scopes: &[Scope]) {
    set_open_log(open);
    if let Some(file) = session_file(scopes) {
        let scopes = scopes.to_vec();
        lock(&HOSTS).insert(file, HostLogs { scopes, logs: HashMap::new() });
    }
}

/// The file of the session that keeps the logs of channels: that of the Application log.
pub(crate) fn session_file(scopes: &[Scope]) -> Option<PathBuf> {
    scopes.first().map(|scope| scope.logs.join("Application.evtx"))
}

/// The session that keeps the log of a channel with custom isolation: its name and its file, which do not change with the
/// channel's settings.
pub(crate) fn own_session(channel: &Channel) -> (String, PathBuf) {
    (format!("{OWN_SESSION}{}", channel.name), channel.defaults.file.clone())
}

/// The channels of a session that keeps logs, by its name and file; `None`: it is another session.
pub(crate) fn share_of(scopes: &[Scope], name: &str, file: &Path) -> Option<Share> {
    if name == SESSION {
        return (session_file(scopes)? == file).then_some(Share::Common);
    }
    let channel = name.strip_prefix(OWN_SESSION)?;
    // A session of a channel whose manifest was uninstalled is known by its file's folder.
    let is_here = scopes.iter().any(|scope| file.parent() == Some(&scope.logs));
    is_here.then(|| Share::Own(channel.to_owned()))
}

/// Whether a channel's log is kept by a session of its own.
pub(crate) fn has_own_session(channel: &Channel) -> bool {
    channel.settings.isolation == Isolation::Custom
}

/// The open logs of a host's channels, by the file of their session.
pub(crate) fn logs_of(scopes: &[Scope]) -> HashMap<PathBuf, Arc<Mutex<ChannelLogs>>> {
    let hosts = lock(&HOSTS);
    let host = session_file(scopes).and_then(|file| hosts.get(&file));
    let logs = host.into_iter().flat_map(|host| &host.logs);
    logs.filter_map(|(file, logs)| Some((file.clone(), logs.upgrade()?))).collect()
}

/// The registry of a host.
pub(crate) fn registry_of(scopes: &[Scope]) -> Registry {
    Registry::of(scopes, &mut |problem| log!("{problem}"))
}

/// The registered schemas, with those of a host's scopes.
pub(crate) fn schemas(scopes: &[Scope]) -> Arc<Catalog> {
    let mut catalog = etw_decode::registered::catalog(&mut |problem| log!("{problem}"));
    let known = [registered::store(), Some(registered::machine_store())];
    for scope in scopes.iter().filter(|scope| !known.contains(&Some(scope.packs.clone()))) {
        registry::packs(scope, &mut |problem| log!("{problem}"))
            .into_iter()
            .for_each(|pack| catalog.add_pack(Arc::new(pack)));
    }
    Arc::new(catalog)
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

/// The logs of channels, for the storage thread.
#[derive(Debug)]
struct SharedLogs {
    logs: Arc<Mutex<ChannelLogs>>,
    /// Failures that the log has, by channel.
    logged: HashMap<String, String>,
}

impl BufferLog for SharedLogs {
    fn store(&mut self, buffer: &[u8]) -> io::Result<()> {
        let mut logs = lock(&self.logs);
        logs.store(buffer);
        let states = logs.states();
        drop(logs);
        for state in states {
            match state.failure {
                Some(failure) if self.logged.get(&state.name) != Some(&failure) => {
                    log!("log {} cannot store its records: {failure}", state.name);
                    self.logged.insert(state.name, failure);
                }
                None if self.logged.remove(&state.name).is_some() => {
                    log_info!("log {} stores its records again", state.name);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        lock(&self.logs).finish();
        Ok(())
    }
}

fn open(path: &Path, facts: &SessionFacts) -> io::Result<Box<dyn BufferLog>> {
    // Two sessions of one log do not start at the same time.
    let session = facts.start_raw as u64 ^ (facts.header.start_time.0 as u64).rotate_left(17);
    let name = &facts.header.logger_name;
    let mut hosts = lock(&HOSTS);
    let found =
        hosts.values_mut().find_map(|host| Some((share_of(&host.scopes, name, path)?, host)));
    if let Some((share, host)) = found {
        let owner = rustix::process::geteuid().as_raw();
        let mut logs = ChannelLogs::new(session, owner, share, facts.clock());
        logs.configure(&registry_of(&host.scopes), schemas(&host.scopes));
        let logs = Arc::new(Mutex::new(logs));
        host.logs.insert(path.to_owned(), Arc::downgrade(&logs));
        return Ok(Box::new(SharedLogs { logs, logged: HashMap::new() }));
    }
    drop(hosts);
    let policy = facts.log_policy();
    let limit = Limit {
        max_size: policy.max_size.unwrap_or(u64::MAX),
        when_full: match policy.at_max_size {
            AtMaxSize::Overwrite => WhenFull::Overwrite,
            AtMaxSize::Stop => WhenFull::Refuse,
            AtMaxSize::NextFile => WhenFull::Archive,
        },
    };
    let channel = facts.header.logger_name.clone();
    let session = KeptSession { session, clock: facts.clock(), channel, schemas: schemas(&[]) };
    Ok(Box::new(SessionLog(KeptLog::open(path, limit, session)?)))
}
