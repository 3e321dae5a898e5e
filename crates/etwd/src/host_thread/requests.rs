//! Requests of controllers.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use etw_host::engine::{BufferedSession, CpuState, EventSource};
use etw_host::kill_point::kill_point;
use etw_ring::RawClock;
use etw_session::{
    EnableInfo, Enablement, MAX_BUFFER_MEMORY, ProviderKey, SLOTS, SessionClock, SessionConfig,
    State, SystemConfig,
};
use etw_system::StartError;
use etw_types::{Guid, Keyword, Level, SYSTEM_TRACE, Status};
use etw_wire::message::FromHost;
use etw_wire::requests::{ProviderStatus, Request, Response, SessionStatus, StartRequest, Update};

use super::HostThread;
use super::pending::{PendingResponse, Sent};
use super::system_providers::take_classes;
use crate::asker::{Asker, done};
use crate::global_session::{
    BufferMemory, EndingFiles, GlobalSession, Hosted, WaitingFlush, config_error,
};
use crate::kept_state::{Ending, KeptRecording, RingSet};
use crate::log::log_info;
use crate::rights::{may_write, refused};
use crate::session_memory::allocate_buffers;
use crate::session_status::{asked_for, status};
use crate::system_classes::SystemClasses;
use crate::system_source::{self, SystemSource};

/// Sessions that may enable one provider.
pub(super) const MAX_SESSIONS_OF_PROVIDER: usize = 8;
/// Steps in which a session may be given more buffers.
const MAX_BUFFER_STEPS: usize = 16;
/// Processes that are listed for one provider.
const MAX_LISTED_PROCESSES: usize = 64;
/// How long the start of a session waits for the programs that have its providers.
const START_PATIENCE: Duration = Duration::from_secs(1);
/// How long a query drains, so that its counts include earlier events.
const QUERY_PATIENCE: Duration = Duration::from_millis(100);

/// The response about a session that has ended.
pub(super) fn has_ended() -> Response {
    refused(Status::ERROR_WMI_INSTANCE_NOT_FOUND, "the session has ended")
}

/// A request for state, as it goes to programs.
struct CaptureRequest {
    level: Level,
    any: Keyword,
    all: Keyword,
}

impl HostThread {
    /// Executes a request and answers it, now or later. `Break`: the host ends.
    pub(super) fn ask(&mut self, request: Request, from: Asker) -> ControlFlow<()> {
        match request {
            Request::Start(start) => self.start(*start, from),
            Request::Stop { session } => match self.find(&session) {
                Ok(slot) => self.stop_by_request(slot, from),
                Err(no) => self.await_ending(&session, from, &no),
            },
            Request::Lease { session } => {
                let leased = self.take_lease(&session, &from);
                from.answer(&leased.unwrap_or_else(|no| no));
            }
            Request::Query { session } => {
                let response = self.find(&session).map(|slot| {
                    self.drain_for(QUERY_PATIENCE);
                    self.status_of(slot, true)
                });
                from.answer(&response.unwrap_or_else(|no| no));
            }
            Request::List => from.answer(&self.list()),
            Request::Flush { session } => match self.find(&session) {
                Ok(slot) => self.flush(slot, from),
                Err(no) => from.answer(&no),
            },
            Request::Update { session, update } => self.update(&session, &update, &from),
            Request::Enable { session, provider, info, timeout_ms } => {
                let enabled = self.find(&session).and_then(|slot| {
                    if let Some(done) = self.change_system_provider(slot, &provider, Some(&info)) {
                        return Err(done);
                    }
                    let ids = self.enable(slot, Enablement { provider, info })?;
                    Ok((slot, ids))
                });
                match enabled {
                    Ok((slot, ids)) => {
                        let sent = self.send_each(slot, &ids);
                        let patience = Duration::from_millis(u64::from(timeout_ms));
                        self.answer_later(slot, sent, patience, (from, done()));
                    }
                    Err(answer) => from.answer(&answer),
                }
            }
            Request::System { session, system } => {
                let changed = self.find(&session).map(|slot| self.set_system(slot, system));
                from.answer(&changed.unwrap_or_else(|no| no));
            }
            Request::Disable { session, provider } => {
                let response = self.find(&session).map(|slot| self.disable_key(slot, &provider));
                from.answer(&response.unwrap_or_else(|no| no));
            }
            Request::CaptureState { session, provider, level, any, all } => {
                match self.find(&session) {
                    Ok(slot) => {
                        self.capture(slot, &provider, &CaptureRequest { level, any, all }, from);
                    }
                    Err(no) => from.answer(&no),
                }
            }
            Request::Providers => from.answer(&self.providers()),
            Request::RecentProviders => from.answer(&Response::Providers {
                providers: self.recent_providers.values().cloned().collect(),
            }),
            Request::SystemEvents => self.system_events_check.answer(&from),
            Request::Consume { session, start_time } => {
                let connection = from.connection();
                let ended = start_time.filter(|start| !self.is_running(&session, *start));
                let stream = ended.and_then(|start| self.end_stream(&session, start, connection));
                match stream.unwrap_or_else(|| self.consume(&session, &from)) {
                    Ok(stream) => from.answer_with(&done(), &[stream.as_fd()]),
                    Err(no) => from.answer(&no),
                }
            }
            Request::Detach { session } => {
                let detached = self.find(&session).map(|slot| {
                    self.detach_consumer(slot, &from);
                    done()
                });
                from.answer(&detached.unwrap_or_else(|no| no));
            }
            Request::Snapshot { session, file } => {
                let response =
                    self.find(&session).and_then(|slot| self.snapshot(slot, &file, &from));
                from.answer(&response.unwrap_or_else(|no| no));
            }
            Request::RefreshLogs => self.refresh_request(&from),
            Request::Logs => from.answer(&self.log_states()),
            Request::ClearLog { log, backup } => {
                from.answer(&self.clear_log(&log, backup.as_deref(), &from));
            }
            Request::Shutdown => {
                self.keep_end();
                from.answer(&done());
                kill_point("shutdown kept");
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn find(&self, name: &str) -> Result<usize, Response> {
        let found = self.engine.sessions().find(|(_, hosted, _)| hosted.host.is_named(name));
        found.map(|(slot, ..)| slot).ok_or_else(|| {
            let what = format!(
                "no session is named {name}; `etw session list` shows the sessions of this host"
            );
            refused(Status::ERROR_WMI_INSTANCE_NOT_FOUND, what)
        })
    }

    /// Adds what the session's sources leave out at present.
    fn with_notes(&self, slot: usize, mut status: SessionStatus) -> SessionStatus {
        let of_status = std::mem::replace(&mut status.notes, self.engine.notes(slot));
        for note in of_status {
            if !status.notes.contains(&note) {
                status.notes.push(note);
            }
        }
        status
    }

    fn status_of(&mut self, slot: usize, with_losses: bool) -> Response {
        self.count_removed_files(slot);
        let Some((hosted, session)) = self.session(slot) else { return has_ended() };
        let status = status(slot, hosted, session, &self.engine.ledger(slot), with_losses);
        Response::Session(Box::new(self.with_notes(slot, status)))
    }

    fn list(&mut self) -> Response {
        for slot in self.engine.session_slots() {
            self.count_removed_files(slot);
        }
        let sessions = self.engine.sessions().map(|(slot, hosted, session)| {
            let status = status(slot, hosted, session, &self.engine.ledger(slot), false);
            self.with_notes(slot, status)
        });
        Response::Sessions { sessions: sessions.collect() }
    }

    /// Answers when programs have answered a change, or after `patience`.
    fn answer_later(
        &mut self,
        session: usize,
        sent: Sent,
        patience: Duration,
        (asker, response): (Asker, Response),
    ) {
        let Sent { waiting, warnings } = sent;
        let deadline = Instant::now() + patience;
        let pending = PendingResponse { session, waiting, deadline, asker, response, warnings };
        self.pending.push(pending);
    }

    pub(super) fn start(&mut self, mut start: StartRequest, from: Asker) {
        // Ahead of limits: a controller that meets its own session is not told to stop others.
        if let Err(no) = self.check_identity(&start.config) {
            return from.answer(&no);
        }
        let system_classes = match take_classes(&mut start.config) {
            Ok(classes) => classes,
            Err(no) => return from.answer(&no),
        };
        if start.config.system.is_some() && self.system_sessions() >= MAX_SYSTEM_SESSIONS {
            let what = format!(
                "{MAX_SYSTEM_SESSIONS} sessions record events of the system, which is the limit; stop one first"
            );
            return from.answer(&refused(Status::ERROR_NO_SYSTEM_RESOURCES, what));
        }
        if !start.config.enable.is_empty()
            && let Some(no) = only_the_kernel(&start.config)
        {
            return from.answer(&no);
        }
        let clock_note = use_performance_counter(&mut start.config);
        // Opened before the session is created: if this fails, no file remains.
        let source = match open_source(&start) {
            Ok(source) => source,
            Err(no) => return from.answer(&no),
        };
        let slot = match self.create_session(&mut start, &from) {
            Ok(slot) => slot,
            Err(no) => return from.answer(&no),
        };
        let mut notes = source
            .map_or(Vec::new(), |source| self.attach_source(slot, RingSet::default(), source));
        notes.extend(clock_note);
        notes.extend(system_classes.notes);
        if let Some(global) = self.global_mut(slot) {
            global.system_classes = system_classes.classes;
        }
        let enable = std::mem::take(&mut start.config.enable);
        let mut providers: Vec<Guid> = Vec::new();
        for enablement in enable {
            match self.set_enablement(slot, enablement) {
                Ok(ids) => providers.extend(ids),
                Err(no) => {
                    // The controller requested all of these providers.
                    self.stop_session(slot, None);
                    return from.answer(&no);
                }
            }
        }
        kill_point("session made");
        // Kept as a whole: a worker that is killed here leaves no session without its providers.
        self.keep_session(slot);
        kill_point("session kept");
        self.log_start(slot);
        let mut sent = self.send_each(slot, &providers);
        sent.warnings.splice(..0, notes);
        let response = self.status_of(slot, false);
        self.answer_later(slot, sent, START_PATIENCE, (from, response));
    }

    /// Sends a session's enablements of providers to all programs that have registered them.
    pub(super) fn send_each(&mut self, slot: usize, providers: &[Guid]) -> Sent {
        let mut sent = Sent::default();
        for provider in providers {
            let more = self.send_to_all(slot, provider);
            sent.waiting.extend(more.waiting);
            sent.warnings.extend(more.warnings);
        }
        sent
    }

    /// Records other events of the system from now on, whoever asked for those before.
    fn set_system(&mut self, slot: usize, system: SystemConfig) -> Response {
        let Some(global) = self.global(slot) else { return has_ended() };
        let mut classes = global.system_classes.clone();
        classes.set_all(&system);
        self.change_system(slot, system, classes)
    }

    /// Records other events of the system from now on: those of the classes, with the other settings of `system`.
    pub(super) fn change_system(
        &mut self,
        slot: usize,
        mut system: SystemConfig,
        classes: SystemClasses,
    ) -> Response {
        classes.put_into(&mut system);
        let Some(global) = self.global_mut(slot) else { return has_ended() };
        if global.config.system.as_ref() != Some(&system) {
            return self.replace_system(slot, system, classes);
        }
        global.system_classes = classes;
        self.keep_session(slot);
        done()
    }

    /// Logs the state of the system in sessions whose file lacks buffers and takes others again.
    pub(super) fn run_down_behind_gaps(&mut self) {
        let is_due = |(slot, hosted, session): (usize, &Hosted, &BufferedSession)| {
            let (global, lost) = (&hosted.host, session.facts().buffers_lost);
            let is_due = global.config.system.is_some()
                && global.rundowns.is_due(lost)
                && global.recordings_before.is_empty()
                && hosted.has_storage()
                && hosted.failing().is_none()
                && session.state() == State::Running;
            is_due.then_some((slot, lost))
        };
        for (slot, lost) in self.engine.sessions().filter_map(is_due).collect::<Vec<_>>() {
            let Some((system, classes)) = self.system_of(slot) else { continue };
            if let Some(global) = self.global_mut(slot) {
                global.rundowns.begin(lost);
            }
            let Response::Error { message, .. } = self.replace_system(slot, system, classes) else {
                continue;
            };
            let what = format!("no rundown of the system follows a gap in the file: {message}");
            self.note(slot, what);
        }
    }

    /// Does everything else until something is so, or for so long.
    pub(super) fn rounds_until(
        &mut self,
        patience: Duration,
        mut is_so: impl FnMut(&HostThread) -> bool,
    ) {
        const PAUSE: Duration = Duration::from_millis(2);
        let end = Instant::now() + patience;
        while !is_so(self) && Instant::now() < end {
            self.round();
            std::thread::sleep(PAUSE);
        }
    }

    /// Opens the events of another recording. The rings of recordings that earlier changes have ended give their memory back soon.
    fn open_another(
        &mut self,
        system: &SystemConfig,
        buffer_size: u32,
    ) -> Result<SystemSource, StartError> {
        const PATIENCE: Duration = Duration::from_millis(500);
        let mut opened = SystemSource::open(system, buffer_size);
        self.rounds_until(PATIENCE, |_| {
            if matches!(opened, Err(StartError::Rings(_))) {
                opened = SystemSource::open(system, buffer_size);
            }
            !matches!(opened, Err(StartError::Rings(_)))
        });
        opened
    }

    /// Records these events of the system from now on. The recording so far ends with its rundown, and the new one begins with one. Both
    /// record for a moment, and the keeper has both: the one message that keeps the session says from when on the new one counts.
    pub(super) fn replace_system(
        &mut self,
        slot: usize,
        system: SystemConfig,
        classes: SystemClasses,
    ) -> Response {
        let Some(global) = self.global(slot) else { return has_ended() };
        let buffer_size = global.config.buffer_size;
        let Some(old) = global.config.system.clone() else {
            let what = "the session records no events of the system; start it with some";
            return refused(Status::ERROR_NOT_SUPPORTED, what);
        };
        let before = KeptRecording { system: old, ring_set: global.ring_set.clone() };
        let number = before.ring_set.number + 1;
        let mut source = match self.open_another(&system, buffer_size) {
            Ok(source) => source,
            Err(error) => return refused(system_source::status_of(&error), error.to_string()),
        };
        let warnings = source.notes();
        self.keep_rings(slot, number, &mut source);
        kill_point("other rings kept");
        let since = match source.begin_in_place() {
            Ok(since) => since,
            Err(error) => {
                drop(source);
                self.forget_unnamed_rings(slot);
                return refused(Status::ERROR_NO_SYSTEM_RESOURCES, error.to_string());
            }
        };
        kill_point("other recording begun");
        if let Some(global) = self.global_mut(slot) {
            global.config.system = Some(system);
            global.system_classes = classes;
            global.recordings_before.push(before);
            global.ring_set = RingSet { number, since, follows: None };
        }
        self.keep_session(slot);
        kill_point("other recording kept");
        let states = self.engine.replace_source(slot, since, Box::new(source));
        kill_point("recording before ended");
        if let Some(global) = self.global_mut(slot) {
            let pairs =
                |states: Vec<CpuState>| states.iter().map(|one| (one.cpu, one.thread)).collect();
            global.ring_set.follows = states.map(pairs);
        }
        self.keep_session(slot);
        Response::Done { warnings }
    }

    /// Logs the state of the system: the recording ends with a rundown, and another one with the same classes begins with one. `None`: the
    /// provider is another one.
    fn capture_system(&mut self, slot: usize, provider: &Guid) -> Option<Response> {
        match self.state_of_system(slot, provider)? {
            Ok((system, classes)) => Some(self.replace_system(slot, system, classes)),
            Err(no) => Some(no),
        }
    }

    /// The number of sessions that record events of the system.
    fn system_sessions(&self) -> usize {
        let is_system =
            |slot: &usize| self.global(*slot).is_some_and(|of| of.config.system.is_some());
        self.engine.sessions().map(|(slot, ..)| slot).filter(is_system).count()
    }

    /// Begins the recording of the system's events, with one of the session's ring sets. It ends the session's recordings before. Returns
    /// what it leaves out.
    pub(super) fn attach_source(
        &mut self,
        slot: usize,
        ring_set: RingSet,
        mut source: SystemSource,
    ) -> Vec<String> {
        let mut notes = source.notes();
        if let Err(error) = source.begin() {
            notes.push(format!("events of the system are incomplete: {error}"));
        }
        self.keep_rings(slot, ring_set.number, &mut source);
        self.engine.replace_source(slot, ring_set.since, Box::new(source));
        notes
    }

    fn log_start(&self, slot: usize) {
        let Some(global) = self.global(slot) else { return };
        let file = global.config.file.as_ref();
        let file =
            file.map_or("without a file".to_owned(), |file| format!("to {}", file.display()));
        log_info!("session {} started by user {}, {file}", global.name(), global.owner);
    }

    /// Refuses a session whose name or GUID another one has.
    fn check_identity(&self, config: &SessionConfig) -> Result<(), Response> {
        let is_same_name = |name: &str| name.to_lowercase() == config.name.to_lowercase();
        if self.engine.sessions().any(|(_, hosted, _)| is_same_name(hosted.host.name()))
            || self.ending.values().any(|ending| is_same_name(&ending.name))
        {
            let what = format!(
                "a session named {} exists; stop it first, or use another name",
                config.name
            );
            return Err(refused(Status::ERROR_ALREADY_EXISTS, what));
        }
        let has_guid = |global: &GlobalSession| global.config.guid == config.guid;
        if !config.guid.is_zero()
            && self.engine.sessions().any(|(_, hosted, _)| has_guid(&hosted.host))
        {
            let what = "a session with this GUID exists; stop it first";
            return Err(refused(Status::ERROR_ALREADY_EXISTS, what));
        }
        Ok(())
    }

    fn create_session(
        &mut self,
        start: &mut StartRequest,
        from: &Asker,
    ) -> Result<usize, Response> {
        let config = &mut start.config;
        if config.guid.is_zero() {
            config.guid = match is_kernel_logger(&config.name) {
                // Two of them would have the same name.
                true => SYSTEM_TRACE,
                false => new_session_guid(),
            };
        }
        if let Some(file) = &config.file {
            may_write(from.user(), file)?;
            self.check_unused(file)?;
        }
        let is_taken =
            |slot: &usize| self.session(*slot).is_some() || self.ending.contains_key(slot);
        let Some(slot) = (0..SLOTS).find(|slot| !is_taken(slot)) else {
            let what = "this host has 64 sessions, which is the limit; stop one first";
            return Err(refused(Status::ERROR_NO_SYSTEM_RESOURCES, what));
        };
        let (clock, batch) = (self.engine.clock(), self.engine.batch());
        let (hosted, session) = GlobalSession::create(start.clone(), slot, from, clock, batch)?;
        self.engine.insert_session(slot, hosted, session);
        Ok(slot)
    }

    /// Enables a provider; the GUIDs that are now enabled.
    fn enable(&mut self, slot: usize, enablement: Enablement) -> Result<Vec<Guid>, Response> {
        if let Some(no) = self.global(slot).and_then(|global| only_the_kernel(&global.config)) {
            return Err(no);
        }
        let ids = self.set_enablement(slot, enablement)?;
        self.keep_session(slot);
        self.engine.publish_admission(slot);
        Ok(ids)
    }

    /// Changes a session's enablement of a provider; no program has it yet. The GUIDs that the provider's name stands for, or its
    /// own.
    pub(super) fn set_enablement(
        &mut self,
        slot: usize,
        enablement: Enablement,
    ) -> Result<Vec<Guid>, Response> {
        enablement.validate().map_err(|error| config_error(&error))?;
        let Enablement { provider, info } = enablement;
        let ids = match &provider {
            ProviderKey::Id(id) => vec![*id],
            ProviderKey::Name(name) => self.set_name(slot, name, &info),
        };
        for id in &ids {
            if let Err(no) = self.set_provider(slot, *id, info.clone()) {
                provider.name().map(|name| self.remove_name(slot, name));
                return Err(no);
            }
        }
        Ok(ids)
    }

    fn set_provider(
        &mut self,
        slot: usize,
        provider: Guid,
        info: EnableInfo,
    ) -> Result<(), Response> {
        let is_enabled = |slot: usize| {
            self.session(slot).is_some_and(|(_, session)| session.enabled(&provider).is_some())
        };
        let is_change = is_enabled(slot);
        let count =
            self.engine.session_slots().into_iter().filter(|slot| is_enabled(*slot)).count();
        if !is_change && count >= MAX_SESSIONS_OF_PROVIDER {
            let what = format!(
                "provider {provider} is enabled in eight sessions already; disable it in one of them, or stop one"
            );
            return Err(refused(Status::ERROR_NO_SYSTEM_RESOURCES, what));
        }
        if is_change || self.has_by_group(slot, &provider) {
            // Events that were written before the change are judged by the enablement of their time.
            self.drain_all();
        }
        if let Some((hosted, session)) = self.engine.session_mut(slot) {
            session.enable(provider, info);
            hosted.host.since.insert(provider, RawClock::Monotonic.now());
        }
        Ok(())
    }

    fn disable_key(&mut self, slot: usize, provider: &ProviderKey) -> Response {
        if let Some(done) = self.change_system_provider(slot, provider, None) {
            return done;
        }
        let ids = match provider {
            ProviderKey::Id(id) => vec![*id],
            ProviderKey::Name(name) => self.remove_name(slot, name),
        };
        ids.iter().for_each(|id| self.disable(slot, id));
        done()
    }

    pub(super) fn disable(&mut self, slot: usize, provider: &Guid) {
        // Earlier events are still stored.
        self.drain_all();
        if let Some((hosted, session)) = self.engine.session_mut(slot) {
            session.disable(provider);
            hosted.host.since.remove(provider);
            hosted.host.ending = Ending::Provider(*provider);
        }
        self.keep_session(slot);
        kill_point("enablement kept");
        self.withdraw(slot, Some(provider));
        if let Some(global) = self.global_mut(slot) {
            global.ending = Ending::Nothing;
        }
        self.keep_session(slot);
        self.engine.publish_admission(slot);
    }

    /// Answers with the status of a session that is ending and whose end nobody awaits: its owner has disconnected, or asked a
    /// worker that was killed.
    fn await_ending(&mut self, name: &str, from: Asker, none: &Response) {
        let is_same = |ending: &&mut EndingFiles| ending.name.to_lowercase() == name.to_lowercase();
        match self.ending.values_mut().find(is_same) {
            Some(ending) if ending.asker.is_none() => ending.asker = Some(from),
            _ => from.answer(none),
        }
    }

    fn flush(&mut self, slot: usize, from: Asker) {
        // Events that programs write meanwhile are not waited for.
        let last_buffer = self.engine.flush(slot);
        if let Some(global) = self.global_mut(slot) {
            global.flushes.push_back(WaitingFlush { last_buffer, asker: from });
        }
        self.after_rounds();
    }

    fn update(&mut self, name: &str, update: &Update, from: &Asker) {
        let changed = self.find(name).and_then(|slot| {
            let changed = update.enable_flags.map(|flags| self.change_enable_flags(slot, flags));
            let changed = changed.unwrap_or_else(done);
            if matches!(changed, Response::Error { .. }) {
                return Err(changed);
            }
            self.change_options(slot, update)?;
            // Last: the answer then comes when the file before is complete.
            let file = update.file.as_deref().map(|file| self.change_file(slot, file, from));
            Ok(file.transpose()?.is_none().then_some(changed))
        });
        match changed {
            Ok(None) => {}
            Ok(Some(answer)) | Err(answer) => from.answer(&answer),
        }
    }

    fn change_options(&mut self, slot: usize, update: &Update) -> Result<(), Response> {
        if update.real_time == Some(false) {
            // Consumers receive everything that was written before their streams end.
            self.engine.flush(slot);
            self.after_rounds();
        }
        let Some((hosted, session)) = self.engine.session_mut(slot) else {
            return Err(has_ended());
        };
        if let Some(buffers) = update.buffers {
            let config = &mut hosted.host.config;
            let more = buffers.saturating_sub(config.buffer_count);
            let size = u64::from(config.buffer_size) * u64::from(buffers);
            if size > MAX_BUFFER_MEMORY || hosted.host.memories.len() > MAX_BUFFER_STEPS {
                let what = "a session has at most 2 GiB of buffers, in 16 steps";
                return Err(refused(Status::ERROR_INVALID_PARAMETER, what));
            }
            if more > 0 {
                let (made, memory) = allocate_buffers(config.buffer_size, more)
                    .map_err(|error| refused(Status::ERROR_NOT_ENOUGH_MEMORY, error.to_string()))?;
                session.add_buffers(made);
                config.buffer_count += more;
                hosted.host.memories.push(BufferMemory { buffers: more, memory });
                hosted.add_buffer_count(more);
            }
        }
        let global = &mut hosted.host;
        if let Some(timer) = update.flush_timer_ms {
            let timer = Duration::from_millis(timer.into());
            global.config.flush_timer = (!timer.is_zero()).then_some(timer);
            session.set_flush_timer(global.config.effective_flush_timer());
        }
        if let Some(real_time) = update.real_time {
            global.is_real_time = real_time;
            if !real_time {
                global.consumers.clear();
            }
        }
        self.keep_session(slot);
        Ok(())
    }

    fn capture(&mut self, slot: usize, provider: &Guid, request: &CaptureRequest, from: Asker) {
        if let Some(done) = self.capture_system(slot, provider) {
            return from.answer(&done);
        }
        let source = self.global(slot).map_or(Guid::ZERO, |global| global.config.guid);
        let CaptureRequest { level, any, all } = *request;
        let message = |token, number| FromHost::Capture { token, number, level, any, all, source };
        let sent = self.send_capture(slot, provider, message);
        self.answer_later(slot, sent, START_PATIENCE, (from, done()));
    }

    /// The providers that programs have registered or sessions have enabled.
    fn providers(&self) -> Response {
        let mut all: BTreeMap<Guid, ProviderStatus> = BTreeMap::new();
        let new = |id| ProviderStatus { id, ..ProviderStatus::default() };
        for program in self.programs.values() {
            for registered in program.providers.values() {
                let id = registered.provider.id;
                let status = all.entry(id).or_insert_with(|| new(id));
                if status.name.is_empty() {
                    status.name.clone_from(&registered.name);
                }
                let group = (!registered.group.is_zero()).then_some(registered.group);
                status.group = status.group.or(group);
                let pids = &mut status.pids;
                if !pids.contains(&program.peer.pid) && pids.len() < MAX_LISTED_PROCESSES {
                    pids.push(program.peer.pid);
                }
            }
        }
        for (_, hosted, session) in self.engine.sessions() {
            for (id, _) in asked_for(hosted, session) {
                let status = all.entry(*id).or_insert_with(|| new(*id));
                status.sessions.push(hosted.host.name().to_owned());
            }
            for request in &hosted.host.names {
                let status = request.ids.first().and_then(|id| all.get_mut(id));
                if let Some(status) = status.filter(|status| status.name.is_empty()) {
                    status.name.clone_from(&request.name);
                }
            }
        }
        // A response is one message: the providers that do not fit are left out, the largest GUIDs first.
        let mut size = 0;
        let providers = all.into_values().take_while(|status| {
            size += 200
                + 2 * status.name.len()
                + 8 * status.pids.len()
                + status.sessions.iter().map(|name| 2 * name.len() + 4).sum::<usize>();
            size < etw_wire::MAX_MESSAGE - 1024
        });
        Response::Providers { providers: providers.collect() }
    }

    /// Ends the streams of a connection: they receive everything that was written before.
    fn detach_consumer(&mut self, slot: usize, from: &Asker) {
        self.engine.flush(slot);
        if let Some(global) = self.global_mut(slot) {
            global.consumers.retain(|consumer| consumer.connection != from.connection());
        }
        self.after_rounds();
    }

    /// Makes a connection the owner of a leased session.
    fn take_lease(&mut self, name: &str, from: &Asker) -> Result<Response, Response> {
        let slot = self.find(name)?;
        let Some(global) = self.global_mut(slot).filter(|global| global.is_leased) else {
            let what = format!("session {name} does not end with a connection");
            return Err(refused(Status::ERROR_INVALID_PARAMETER, what));
        };
        if from.user() != global.owner {
            let what = format!("session {name} is another user's");
            return Err(refused(Status::ERROR_ACCESS_DENIED, what));
        }
        global.lease = from.connection();
        global.orphan_until = None;
        Ok(done())
    }

    /// Whether the session with this name that started at this time runs.
    fn is_running(&self, name: &str, start_time: i64) -> bool {
        let running = self.find(name).ok().and_then(|slot| self.session(slot));
        running.is_some_and(|(hosted, _)| hosted.facts.header.start_time.0 == start_time)
    }

    /// Adds a consumer to a session; the descriptor that it reads from.
    fn consume(&mut self, name: &str, from: &Asker) -> Result<OwnedFd, Response> {
        let slot = self.find(name)?;
        let found = self.engine.session_mut(slot);
        let (hosted, session) =
            found.filter(|(hosted, _)| hosted.host.is_real_time).ok_or_else(|| {
                let what = format!(
                    "session {name} is not a real-time session; `etw session update {name} --real-time true` makes it one"
                );
                refused(Status::ERROR_WMI_INSTANCE_NOT_FOUND, what)
            })?;
        let global = &mut hosted.host;
        if from.user() == global.owner && global.orphan_until.take().is_some() {
            global.lease = from.connection();
        }
        let stream = global.add_consumer(&hosted.facts, session, from.connection());
        hosted.repeat_modules();
        stream.map_err(|error| refused(Status::ERROR_NOT_ENOUGH_MEMORY, error.to_string()))
    }
}

/// Sessions that record events of the system at a time, as on Windows.
const MAX_SYSTEM_SESSIONS: usize = 8;

/// Gives a session of system events that asks for the cycle counter the performance counter, in which the kernel counts. As on a machine
/// without a usable cycle counter, the session's header and status name the clock in use. Returns a note for the controller.
fn use_performance_counter(config: &mut SessionConfig) -> Option<String> {
    if config.system.is_none() || config.clock != SessionClock::Cycles {
        return None;
    }
    config.clock = SessionClock::Qpc;
    let what = "the session's clock is the performance counter, not the cycle counter: the kernel counts the time of its events in \
                nanoseconds";
    Some(what.to_owned())
}

/// Opens the system's events for a session that wants some.
fn open_source(start: &StartRequest) -> Result<Option<SystemSource>, Response> {
    let open = |system| SystemSource::open(system, start.config.buffer_size);
    let opened = start.config.system.as_ref().map(open).transpose();
    opened.map_err(|error| refused(system_source::status_of(&error), error.to_string()))
}

/// Refuses a provider that is none of the system's in the session of Windows' kernel.
fn only_the_kernel(config: &SessionConfig) -> Option<Response> {
    let what = "the session NT Kernel Logger records the kernel only; a session of another name has events of the system and of providers";
    is_kernel_logger(&config.name).then(|| refused(Status::ERROR_INVALID_PARAMETER, what))
}

/// Whether a session is that of Windows' kernel, which has a GUID of its own.
fn is_kernel_logger(name: &str) -> bool {
    name.eq_ignore_ascii_case("NT Kernel Logger")
}

/// A new GUID, unique on this machine.
fn new_session_guid() -> Guid {
    let mut bytes = [0; 16];
    let now = etw_host::clock::filetime_now().0 as u64;
    bytes[..8].copy_from_slice(&now.to_le_bytes());
    bytes[8..12].copy_from_slice(&std::process::id().to_le_bytes());
    bytes[12..].copy_from_slice(b"oetw");
    Guid(bytes)
}
