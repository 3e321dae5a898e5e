//! Sessions that this crate hosts: an engine on a thread of the process.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, Weak};
use std::time::Duration;

use etw_host::{
    EnableInfo, NewRegistration, PrivateOptions, PrivateSession, SessionStatistics, Stopped,
    TimedEnablement, provider_of,
};
use etw_types::{Guid, LevelKeyword};

use super::engine::Engine;
use super::error::{SessionError, SessionLimit};
#[cfg(unix)]
use crate::fork;
use crate::lock::ForkLock;
use crate::provider::Provider;
use crate::registry::{self, Attached, Enable, Host, HostRegistration, NewHost, Providers};

/// The time that the end of the program waits for its sessions.
const EXIT_PATIENCE: Duration = Duration::from_secs(2);

static LIVE: ForkLock<Vec<Weak<PrivateSession>>> = ForkLock::new(Vec::new());
static AT_EXIT: Once = Once::new();

/// A session that this crate hosts.
#[derive(Debug)]
pub(super) struct OwnSession {
    attachment: usize,
    host: Arc<PrivateSession>,
    source: Guid,
    has_ended: AtomicBool,
}

impl OwnSession {
    pub fn start(mut options: PrivateOptions) -> Result<OwnSession, SessionError> {
        #[cfg(unix)]
        {
            fork::hold(fork::Place::Sessions, &LIVE);
            let _ = fork::FORGET_SESSIONS.set(forget_all);
            fork::install();
        }
        // In a child made by `fork`: before the session takes an attachment of its parent's.
        #[cfg(target_os = "linux")]
        let _ = crate::attach::renew();
        options.modules = crate::stacks::modules;
        let started = registry::attach(
            |attachment| {
                let session = Arc::new(PrivateSession::start(options, attachment)?);
                let host: Arc<dyn Host> = session.clone();
                Ok(NewHost { host, writer: session.writer(), kept: session })
            },
            || SessionError::Limit(SessionLimit::Hosts),
        );
        let Attached { attachment, kept: host } = started?;
        stop_at_exit(&host);
        let source = crate::activity::create_id();
        Ok(OwnSession { attachment, host, source, has_ended: AtomicBool::new(false) })
    }
}

impl Engine for OwnSession {
    fn enable(&self, id: Guid, info: EnableInfo) -> Result<(), SessionError> {
        let wanted = info.wanted;
        let stacks = info.stacks();
        if stacks.is_some() {
            crate::stacks::prepare();
        }
        let schematized = info.filters.as_ref().map(|filters| filters.schematized.clone());
        let since = self.host.enable(id, info);
        self.host.add_schemas(registry::schemas_of(self.attachment, Providers::Id(id)));
        let filter_data = schematized.unwrap_or_default();
        let enable = Enable { slot: 0, wanted, stacks, since, filter_data };
        let providers = Providers::Id(id);
        registry::set(self.attachment, 0, providers, Some(&enable), self.source).map_err(|_| {
            let _ = registry::set(self.attachment, 0, providers, None, self.source);
            self.host.disable(id);
            SessionError::Limit(SessionLimit::SessionsOfProvider)
        })
    }

    fn disable(&self, id: Guid) {
        // Only adding a session can be refused.
        let _ = registry::set(self.attachment, 0, Providers::Id(id), None, self.source);
        self.host.disable(id);
    }

    fn capture_state(&self, id: Guid, wanted: &LevelKeyword) {
        registry::capture_state(self.attachment, Providers::Id(id), wanted, self.source);
    }

    fn flush(&self) -> Result<(), SessionError> {
        self.host.flush().map_err(SessionError::Io)
    }

    fn statistics(&self) -> Result<SessionStatistics, SessionError> {
        self.host.query().map_err(SessionError::Io)
    }

    fn snapshot(&self, path: &Path) -> Result<u64, SessionError> {
        self.host.snapshot(path).map_err(|error| match error.kind() {
            io::ErrorKind::Unsupported => SessionError::NotInMemory,
            _ => SessionError::Io(error),
        })
    }

    fn stop(&self) -> Stopped<SessionError> {
        // Only once, since another host may have the attachment by now.
        if self.host.is_of_this_process() && !self.has_ended.swap(true, Ordering::AcqRel) {
            registry::detach(self.attachment);
        }
        let Stopped { statistics, result } = self.host.stop();
        Stopped { statistics, result: result.map_err(SessionError::Io) }
    }

    fn is_of_this_process(&self) -> bool {
        self.host.is_of_this_process()
    }
}

impl Host for PrivateSession {
    fn register(&self, provider: &Provider) -> HostRegistration {
        let provider_facts = provider_of(provider.id(), provider.traits());
        let NewRegistration { number, enablement } =
            self.register(provider_facts, provider.group());
        let enable = |TimedEnablement { info, since }| Enable {
            slot: 0,
            wanted: info.wanted,
            stacks: info.stacks(),
            since,
            filter_data: info.filters.map(|filters| filters.schematized).unwrap_or_default(),
        };
        if enablement.is_some() {
            self.add_schemas(crate::schemas::of(provider));
        }
        HostRegistration { number, enables: enablement.map(enable).into_iter().collect() }
    }

    fn unregister(&self, _registration: u32) {
        // The number stays in use, since records may still be in the pool.
    }
}

/// Forgets the sessions in a child made by `fork`. They belong to the parent.
#[cfg(unix)]
fn forget_all() {
    super::RUNNING.store(0, Ordering::Release);
    std::mem::forget(std::mem::take(&mut *LIVE.lock()));
}

/// Stops all sessions when `main` returns or `exit` is called.
fn stop_at_exit(session: &Arc<PrivateSession>) {
    let mut live = LIVE.lock();
    live.retain(|session| session.strong_count() > 0);
    live.push(Arc::downgrade(session));
    AT_EXIT.call_once(|| {
        #[cfg(unix)]
        // SAFETY: a function without arguments. If the registration fails, sessions end as at `_exit`.
        unsafe {
            libc::atexit(at_exit);
        }
        #[cfg(windows)]
        crate::system::at_exit(at_exit);
    });
}

extern "C" fn at_exit() {
    let sessions: Vec<_> = match LIVE.try_lock() {
        Some(live) => live.iter().filter_map(Weak::upgrade).collect(),
        // Another thread is starting a session, which would end at once.
        None => return,
    };
    let end = std::time::Instant::now() + EXIT_PATIENCE;
    for session in sessions {
        session.stop_within(end.saturating_duration_since(std::time::Instant::now()));
    }
}
