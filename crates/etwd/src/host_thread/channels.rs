//! Channels of installed manifests: their logs are kept by a session of the host, without a controller.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use etw_eventlog::access::{Rights, User};
use etw_eventlog::channel::{Channel, Publisher};
use etw_eventlog::channel_logs::is_kept;
use etw_eventlog::registry::Registry;
use etw_session::{
    EnableInfo, EnableProperties, Enablement, LogMode, MAX_BUFFER_MEMORY, ProviderKey,
    SessionConfig,
};
use etw_types::{EVENT_SOURCES, Guid, Keyword, Level, LevelKeyword, Status};
use etw_wire::requests::{LogStatus, Response, StartRequest};

use super::HostThread;
use crate::asker::{Asker, done};
use crate::event_log::{self, SESSION};
use crate::log::log;
use crate::program::Program;
use crate::rights::{may_write, refused};

/// Buffers of the session that keeps logs: a burst of 4 MiB waits for a slow disk.
const BUFFERS: u32 = 64;
/// Buffers of the session of a channel with custom isolation.
const OWN_BUFFERS: u32 = 16;
const _: () = assert!((BUFFERS as u64) << 16 < MAX_BUFFER_MEMORY);

/// The longest wait for a disk before logs are changed.
const STORE_PATIENCE: Duration = Duration::from_millis(500);
/// One wait.
const STORE_WAIT: Duration = Duration::from_millis(5);

/// A session that keeps logs of channels.
struct LogSession {
    name: String,
    file: PathBuf,
    buffers: u32,
    enable: BTreeMap<Guid, EnableInfo>,
}

/// The sessions of Analytic and Debug channels, by the channel's name in lower case.
#[derive(Default)]
pub(super) struct DirectSessions {
    /// The file that each session writes.
    files: BTreeMap<String, PathBuf>,
    /// Channels whose session starts when the one before has ended.
    pub(super) waiting: BTreeSet<String>,
}

impl HostThread {
    /// Whether this is a session that keeps logs of channels.
    pub(super) fn is_of_channels(&self, name: &str, file: Option<&Path>) -> bool {
        file.is_some_and(|file| event_log::share_of(&self.options.logs, name, file).is_some())
    }

    /// A program has registered the provider of reports: its logs are kept from now on.
    pub(super) fn begin_reports(&mut self, provider: Guid) {
        if provider != EVENT_SOURCES || self.options.logs.is_empty() {
            return;
        }
        let mut sessions = self.engine.sessions();
        let has_reports = sessions.any(|(_, hosted, session)| {
            hosted.host.is_named(SESSION) && session.enabled(&EVENT_SOURCES).is_some()
        });
        drop(sessions);
        if !has_reports {
            self.refresh_channels();
        }
    }

    /// Whether programs write reports: one has registered its provider, or the Application log exists from an earlier time.
    fn has_event_sources(&self) -> bool {
        let has = |program: &Program| {
            program.providers.values().any(|registered| registered.provider.id == EVENT_SOURCES)
        };
        let file = event_log::session_file(&self.options.logs);
        file.is_some_and(|file| file.exists()) || self.programs.values().any(has)
    }

    /// Makes sessions and logs as the registry has them now.
    pub(super) fn refresh_channels(&mut self) -> Vec<String> {
        let registry = event_log::registry_of(&self.options.logs);
        let sessions = self.log_sessions(&registry);
        let running = self.engine.sessions();
        let running: Vec<(usize, String)> = running
            .filter(|(_, hosted, _)| {
                let config = &hosted.host.config;
                self.is_of_channels(&config.name, config.file.as_deref())
            })
            .map(|(slot, hosted, _)| (slot, hosted.host.name().to_owned()))
            .collect();
        if !running.is_empty() {
            // Records that were written before go where the registry before had them.
            self.store_written(running.iter().map(|(slot, _)| *slot));
            let logs = event_log::logs_of(&self.options.logs);
            for logs in logs.values() {
                let mut logs = logs.lock().unwrap_or_else(PoisonError::into_inner);
                logs.configure(&registry, event_log::schemas(&self.options.logs));
            }
        }
        for (slot, name) in &running {
            if !sessions.iter().any(|session| session.name == *name) {
                self.stop_session(*slot, None);
            }
        }
        let mut problems = Vec::new();
        for session in sessions {
            match running.iter().find(|(_, name)| *name == session.name) {
                Some((slot, _)) => self.change_enablements(*slot, session.enable),
                None => problems.extend(self.start_logs(session)),
            }
        }
        let direct = registry.channels().iter().filter(|channel| channel.kind.is_direct());
        direct.for_each(|channel| problems.extend(self.refresh_direct(channel)));
        problems.iter().for_each(|problem| log!("{problem}"));
        problems
    }

    /// Stores what was written before now in these sessions, as far as the disk is not too slow. Nothing is drained while it waits.
    fn store_written(&mut self, slots: impl Iterator<Item = usize>) {
        let flushed: Vec<(usize, u64)> =
            slots.map(|slot| (slot, self.engine.flush(slot))).collect();
        let end = Instant::now() + STORE_PATIENCE;
        for (slot, last) in flushed {
            while Instant::now() < end
                && self
                    .session(slot)
                    .is_some_and(|(hosted, session)| !hosted.is_stored(last, session))
            {
                self.engine.take_stored(slot, STORE_WAIT);
            }
        }
        self.after_rounds();
    }

    /// The sessions that keep the logs of channels: one for all, and one for each channel with custom isolation.
    fn log_sessions(&self, registry: &Registry) -> Vec<LogSession> {
        let Some(file) = event_log::session_file(&self.options.logs) else { return Vec::new() };
        let has_event_sources = self.has_event_sources();
        let mut sessions = Vec::new();
        let mut common: BTreeMap<Guid, EnableInfo> = BTreeMap::new();
        for channel in registry.channels().iter().filter(|channel| is_kept(channel)) {
            let mut own = BTreeMap::new();
            let has_own = event_log::has_own_session(channel);
            let enable = if has_own { &mut own } else { &mut common };
            for publisher in &channel.publishers {
                widen(enable, publisher, channel);
            }
            if has_own && !own.is_empty() {
                let (name, file) = event_log::own_session(channel);
                sessions.push(LogSession { name, file, buffers: OWN_BUFFERS, enable: own });
            } else if channel.is_classic && has_event_sources {
                common.insert(EVENT_SOURCES, enable_info(LevelKeyword::ALL));
            }
        }
        if !common.is_empty() {
            let name = SESSION.to_owned();
            sessions.push(LogSession { name, file, buffers: BUFFERS, enable: common });
        }
        sessions
    }

    fn start_logs(&mut self, session: LogSession) -> Option<String> {
        for scope in &self.options.logs {
            if let Err(error) = std::fs::create_dir_all(&scope.logs) {
                return Some(format!("{}: {error}", scope.logs.display()));
            }
        }
        let LogSession { name, file, buffers, enable } = session;
        let enable =
            enable.into_iter().map(|(id, info)| Enablement::new(ProviderKey::Id(id), info));
        self.start_own(SessionConfig {
            name,
            file: Some(file),
            buffer_count: buffers,
            independent: true,
            enable: enable.collect(),
            ..SessionConfig::default()
        })
    }

    /// Starts a session of the host itself. Returns why it does not start.
    fn start_own(&mut self, config: SessionConfig) -> Option<String> {
        let name = config.name.clone();
        let (answer, answered) = channel();
        self.start(StartRequest { config, leased: false }, Asker::Local { answer });
        match answered.try_recv() {
            Ok(Response::Error { message, .. }) => {
                Some(format!("logs of channels: session {name} cannot start: {message}"))
            }
            // Programs have not answered yet.
            _ => None,
        }
    }

    fn change_enablements(&mut self, slot: usize, enable: BTreeMap<Guid, EnableInfo>) {
        let Some((_, session)) = self.session(slot) else { return };
        let before: BTreeMap<Guid, EnableInfo> =
            session.enablements().map(|(id, info)| (*id, info.clone())).collect();
        for id in before.keys().filter(|id| !enable.contains_key(id)) {
            self.disable(slot, id);
        }
        let mut changed = Vec::new();
        for (id, info) in enable {
            if before.get(&id) == Some(&info) {
                continue;
            }
            if self.set_enablement(slot, Enablement::new(ProviderKey::Id(id), info)).is_ok() {
                changed.push(id);
            }
        }
        self.keep_session(slot);
        self.send_each(slot, &changed);
    }

    /// Starts or stops the session of an Analytic or Debug channel. Each start begins a new file, as in Windows; if the channel
    /// has another file than before, its session ends, and another one starts.
    fn refresh_direct(&mut self, channel: &Channel) -> Option<String> {
        let file = &channel.settings.file;
        let key = channel.name.to_lowercase();
        let before = self.direct.files.get(&key);
        let is_its = |of: Option<&PathBuf>| of == Some(file) || of.is_some() && of == before;
        let running = self.engine.sessions().find_map(|(slot, hosted, _)| {
            let of = hosted.host.config.file.as_ref();
            let is_its = channel.is_named(hosted.host.name()) && is_its(of);
            is_its.then(|| (slot, of == Some(file)))
        });
        let is_enabled = channel.settings.is_enabled;
        match running {
            Some((_, true)) if is_enabled => {
                // A worker before this one may have started it.
                self.direct.files.insert(key, file.clone());
                return None;
            }
            Some((slot, _)) => {
                self.direct.files.remove(&key);
                self.stop_session(slot, None);
            }
            None => {}
        }
        if !is_enabled {
            return None;
        }
        if self.ending.values().any(|ending| channel.is_named(&ending.name)) {
            self.direct.waiting.insert(key);
            return None;
        }
        self.direct.files.insert(key, file.clone());
        self.start_direct(channel)
    }

    fn start_direct(&mut self, channel: &Channel) -> Option<String> {
        let file = &channel.settings.file;
        if let Some(folder) = file.parent()
            && let Err(error) = std::fs::create_dir_all(folder)
        {
            return Some(format!("{}: {error}", folder.display()));
        }
        let settings = &channel.settings;
        let max_size = settings.max_size;
        let mode = match settings.retention {
            true => LogMode::Sequential { max_size: Some(max_size) },
            false => LogMode::Circular { max_size },
        };
        let mut enable = BTreeMap::new();
        for publisher in &channel.publishers {
            widen(&mut enable, publisher, channel);
        }
        let enable =
            enable.into_iter().map(|(id, info)| Enablement::new(ProviderKey::Id(id), info));
        self.start_own(SessionConfig {
            name: channel.name.clone(),
            file: Some(file.clone()),
            mode,
            buffer_size: 8 << 10,
            buffer_count: BUFFERS,
            independent: true,
            enable: enable.collect(),
            ..SessionConfig::default()
        })
    }

    /// Reads the registry again.
    pub(super) fn refresh_request(&mut self, from: &Asker) {
        let warnings = self.refresh_channels();
        from.answer(&Response::Done { warnings });
    }

    /// The states of the logs that this host keeps.
    pub(super) fn log_states(&mut self) -> Response {
        let logs = event_log::logs_of(&self.options.logs);
        let states = logs
            .values()
            .flat_map(|logs| logs.lock().unwrap_or_else(PoisonError::into_inner).states());
        let mut logs: Vec<LogStatus> = states
            .map(|state| LogStatus {
                name: state.name,
                next_id: state.next_id,
                lost: state.lost,
                failure: state.failure,
            })
            .collect();
        logs.sort_by_cached_key(|log| log.name.to_lowercase());
        Response::Logs { logs }
    }

    /// Clears a log, after its records were written to a backup.
    pub(super) fn clear_log(
        &mut self,
        name: &str,
        backup: Option<&Path>,
        from: &Asker,
    ) -> Response {
        let registry = event_log::registry_of(&self.options.logs);
        let channel = match registry.channel(name) {
            Ok(channel) => channel,
            Err(error) => {
                return Response::Error { status: error.code(), message: error.to_string() };
            }
        };
        let own = rustix::process::geteuid().as_raw();
        let uid = from.user();
        let user = User::of(uid, from.groups(), own);
        if !channel.access().allows(&user, Rights::CLEAR) {
            let what = format!(
                "{}: user {uid} may not clear this log; its SDDL text grants the right 4 to others",
                channel.name
            );
            return refused(Status::ERROR_ACCESS_DENIED, what);
        }
        if let Some(backup) = backup {
            if !backup.is_absolute() {
                let what = format!("{}: the backup needs an absolute path", backup.display());
                return refused(Status::ERROR_INVALID_PARAMETER, what);
            }
            if let Err(no) = may_write(uid, backup) {
                return no;
            }
        }
        // Earlier records are part of the backup, and not of the log afterwards.
        let own = self.engine.sessions().filter(|(_, hosted, _)| {
            self.is_of_channels(&hosted.host.config.name, hosted.host.config.file.as_deref())
        });
        let own: Vec<usize> = own.map(|(slot, ..)| slot).collect();
        self.store_written(own.into_iter());
        let logs = event_log::logs_of(&self.options.logs);
        let mut cleared = Err(std::io::ErrorKind::NotFound.into());
        for logs in logs.values() {
            let mut logs = logs.lock().unwrap_or_else(PoisonError::into_inner);
            if logs.has(&channel.name) {
                cleared = logs.clear(&channel.name, backup);
            }
        }
        match cleared {
            Ok(()) => done(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && backup.is_none() => {
                let what = format!("{name}: this host does not keep the log now");
                refused(Status::ERROR_WMI_INSTANCE_NOT_FOUND, what)
            }
            Err(error) => {
                let what = match backup {
                    Some(backup) => format!("{name}, with backup {}: {error}", backup.display()),
                    None => format!("{name}: {error}"),
                };
                refused(Status::ERROR_WRITE_FAULT, what)
            }
        }
    }
}

/// Level and keywords of a channel's events.
fn wanted(channel: &Channel) -> LevelKeyword {
    let settings = &channel.settings;
    let level = if settings.level == Level(0) { Level(u8::MAX) } else { settings.level };
    LevelKeyword::new(level, settings.keywords)
}

/// Adds a channel to the enablement of a provider: the union of the levels, keywords and events of its channels.
fn widen(all: &mut BTreeMap<Guid, EnableInfo>, publisher: &Publisher, channel: &Channel) {
    let more = wanted(channel);
    let info = all.entry(publisher.guid).or_insert_with(|| enable_info(more));
    info.wanted.level = info.wanted.level.max(more.level);
    info.wanted.any = match info.wanted.any.0 == 0 || more.any.0 == 0 {
        true => Keyword(0),
        false => Keyword(info.wanted.any.0 | more.any.0),
    };
    let filters = info.filters.get_or_insert_default();
    if !filters.channels.contains(&publisher.value) {
        filters.channels.push(publisher.value);
    }
}

/// The host adds the user of the program to each event, for the check of rights to write.
fn enable_info(wanted: LevelKeyword) -> EnableInfo {
    EnableInfo { wanted, properties: EnableProperties::SID, ..EnableInfo::default() }
}
