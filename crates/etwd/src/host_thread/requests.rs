//! What controllers ask.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use etw_host::files::Files;
use etw_ring::RawClock;
use etw_session::{EnableInfo, Enablement, MAX_BUFFER_MEMORY, SLOTS, Session};
use etw_types::{BufferHeader, Guid, Status};
use etw_wire::control::{ProviderStatus, Request, Response, StartRequest, Update};
use etw_wire::message::FromHost;

use crate::global_session::{Finishing, GlobalSession, config_error, is_same_file, make_buffers};
use crate::host_thread::{HostThread, Pending};
use crate::keeper_protocol::{Ending, KeptFile};
use crate::mailbox::Asker;
use crate::rights::{may_write, refused};
use etw_host::kill_point::kill_point;

/// Files of one session that may wait for their disk.
const MAX_FILES_BEFORE: usize = 16;
/// Sessions of one provider.
const MAX_SESSIONS_OF_PROVIDER: usize = 8;
/// How long the start of a session waits for programs that have its providers.
const START_PATIENCE: Duration = Duration::from_secs(1);

/// How long a query goes on draining, so that it tells what was written before it.
const QUERY_PATIENCE: Duration = Duration::from_millis(100);

fn done() -> Response {
    Response::Done { warnings: Vec::new() }
}

impl HostThread {
    pub fn ask(&mut self, request: Request, from: Asker) -> ControlFlow<()> {
        match request {
            Request::Start(start) => self.start(*start, from),
            Request::Stop { session } => match self.find(&session) {
                Ok(slot) => self.stop_session(slot, Some(from)),
                Err(no) => self.hear_of_end(&session, from, &no),
            },
            Request::Query { session } => {
                let response = self.find(&session).map(|slot| {
                    self.drain_for(QUERY_PATIENCE);
                    let ledger = self.ledger(slot);
                    self.status(slot, |global, session| global.status(slot, session, &ledger, true))
                });
                from.answer(&response.unwrap_or_else(|no| no));
            }
            Request::List => {
                let sessions = self
                    .sessions
                    .iter()
                    .filter_map(|(slot, global)| {
                        let session = self.router.session(*slot)?;
                        Some(global.status(*slot, session, &self.ledger(*slot), false))
                    })
                    .collect();
                from.answer(&Response::Sessions { sessions });
            }
            Request::Flush { session } => match self.find(&session) {
                Ok(slot) => self.flush(slot, from),
                Err(no) => from.answer(&no),
            },
            Request::Update { session, update } => {
                let changed = self.find(&session).and_then(|slot| {
                    self.update(slot, &update)?;
                    // The last: from there on the answer comes when the file before is complete.
                    update
                        .file
                        .as_deref()
                        .map(|file| self.change_file(slot, file, &from))
                        .transpose()
                });
                match changed {
                    Ok(Some(())) => {}
                    Ok(None) => from.answer(&done()),
                    Err(no) => from.answer(&no),
                }
            }
            Request::Enable { session, provider, info, timeout_ms } => {
                match self.find(&session).and_then(|slot| {
                    self.enable(slot, provider, info)?;
                    Ok(slot)
                }) {
                    Ok(slot) => {
                        let (waiting, warnings) = self.spread(slot, &provider);
                        let deadline =
                            Instant::now() + Duration::from_millis(u64::from(timeout_ms));
                        self.pending.push(Pending {
                            session: slot,
                            waiting,
                            deadline,
                            asker: from,
                            response: done(),
                            warnings,
                        });
                    }
                    Err(no) => from.answer(&no),
                }
            }
            Request::Disable { session, provider } => {
                let response = self.find(&session).map(|slot| {
                    self.disable(slot, &provider);
                    done()
                });
                from.answer(&response.unwrap_or_else(|no| no));
            }
            Request::CaptureState { session, provider, level, any, all } => {
                match self.find(&session) {
                    Ok(slot) => self.capture(slot, &provider, (level, any, all), from),
                    Err(no) => from.answer(&no),
                }
            }
            Request::Providers => from.answer(&self.providers()),
            Request::Consume { session } => self.consume(&session, &from),
            Request::Snapshot { session, file } => {
                let response =
                    self.find(&session).and_then(|slot| self.snapshot(slot, &file, &from));
                from.answer(&response.unwrap_or_else(|no| no));
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
        let same = |global: &GlobalSession| global.name.to_lowercase() == name.to_lowercase();
        let found = self.sessions.iter().find(|(_, global)| same(global));
        found.map(|(slot, _)| *slot).ok_or_else(|| {
            let what =
                format!("no session is named {name}; `etw session list` shows what there is");
            refused(Status::ERROR_WMI_INSTANCE_NOT_FOUND, what)
        })
    }

    fn status(
        &self,
        slot: usize,
        of: impl FnOnce(
            &GlobalSession,
            &etw_session::Session<etw_host::storage::BufferMemory>,
        ) -> etw_wire::control::SessionStatus,
    ) -> Response {
        match (self.sessions.get(&slot), self.router.session(slot)) {
            (Some(global), Some(session)) => Response::Session(Box::new(of(global, session))),
            _ => refused(Status::ERROR_WMI_INSTANCE_NOT_FOUND, "the session has ended"),
        }
    }

    fn start(&mut self, mut start: StartRequest, from: Asker) {
        match self.try_start(&mut start, &from) {
            Err(no) => from.answer(&no),
            Ok(slot) => {
                let mut all = BTreeMap::new();
                let mut warnings = Vec::new();
                let enable = std::mem::take(&mut start.config.enable);
                let providers: Vec<Guid> = enable.iter().map(|of| of.provider).collect();
                for enablement in enable {
                    if let Err(no) = self.want(slot, enablement) {
                        // All or nothing: a session that lacks a provider is not what was asked for.
                        self.stop_session(slot, None);
                        return from.answer(&no);
                    }
                }
                kill_point("session made");
                // As a whole: a worker that is killed here leaves no session without its providers.
                self.keep_session(slot);
                kill_point("session kept");
                for provider in providers {
                    let (waiting, more) = self.spread(slot, &provider);
                    all.extend(waiting);
                    warnings.extend(more);
                }
                let ledger = self.ledger(slot);
                let response =
                    self.status(slot, |global, inner| global.status(slot, inner, &ledger, false));
                let waiting = all.into_iter().collect();
                let deadline = Instant::now() + START_PATIENCE;
                let session = slot;
                self.pending.push(Pending {
                    session,
                    waiting,
                    deadline,
                    asker: from,
                    response,
                    warnings,
                });
            }
        }
    }

    fn try_start(&mut self, start: &mut StartRequest, from: &Asker) -> Result<usize, Response> {
        let config = &mut start.config;
        let exists = |name: &str| name.to_lowercase() == config.name.to_lowercase();
        if self.sessions.values().any(|global| exists(&global.name))
            || self.finishing.values().any(|finishing| exists(&finishing.name))
        {
            let what = format!(
                "a session named {} is there; stop it first, or take another name",
                config.name
            );
            return Err(refused(Status::ERROR_ALREADY_EXISTS, what));
        }
        if !config.guid.is_zero() && self.sessions.values().any(|s| s.guid == config.guid) {
            return Err(refused(
                Status::ERROR_ALREADY_EXISTS,
                "a session of this GUID is there; stop it first",
            ));
        }
        if config.guid.is_zero() {
            config.guid = session_guid();
        }
        if let Some(file) = &config.file {
            may_write(from.user(), file)?;
            self.is_free(file)?;
        }
        let taken =
            |slot: &usize| self.sessions.contains_key(slot) || self.finishing.contains_key(slot);
        let Some(slot) = (0..SLOTS).find(|slot| !taken(slot)) else {
            let what = "there are 64 sessions; stop one first";
            return Err(refused(Status::ERROR_NO_SYSTEM_RESOURCES, what));
        };
        let (global, session) =
            GlobalSession::create(start.clone(), slot, from, self.clocks.0, self.batch)?;
        self.router.insert(slot, session);
        self.sessions.insert(slot, global);
        Ok(slot)
    }

    /// No session writes this file, or is completing it.
    fn is_free(&self, file: &Path) -> Result<(), Response> {
        let of_sessions = self.sessions.values().map(|global| {
            let files: Vec<_> = global.files().collect();
            (&global.name, files)
        });
        let of_finishing = self
            .finishing
            .values()
            .map(|finishing| (&finishing.name, finishing.files.iter().collect()));
        for (name, files) in of_sessions.chain(of_finishing) {
            if files.iter().any(|other| is_same_file(other, file)) {
                let what =
                    format!("{}: session {name} records to it; name another file", file.display());
                return Err(refused(Status::ERROR_BAD_PATHNAME, what));
            }
        }
        Ok(())
    }

    fn enable(&mut self, slot: usize, provider: Guid, info: EnableInfo) -> Result<(), Response> {
        self.want(slot, Enablement { provider, info })?;
        self.keep_session(slot);
        self.publish_admission(slot);
        Ok(())
    }

    /// What a session wants of a provider from now on; nobody is told.
    fn want(&mut self, slot: usize, enablement: Enablement) -> Result<(), Response> {
        enablement.validate().map_err(|error| config_error(&error))?;
        let Enablement { provider, info } = enablement;
        let has = |slot: &usize| {
            self.router.session(*slot).is_some_and(|session| session.enabled(&provider).is_some())
        };
        if !has(&slot)
            && self.sessions.keys().filter(|slot| has(slot)).count() >= MAX_SESSIONS_OF_PROVIDER
        {
            let what = format!(
                "provider {provider} is enabled in eight sessions already; disable it in one of them, or stop one"
            );
            return Err(refused(Status::ERROR_NO_SYSTEM_RESOURCES, what));
        }
        if has(&slot) {
            // What was written before it was changed is judged by what was wanted then.
            self.drain_all();
        }
        if let Some(session) = self.router.session_mut(slot) {
            session.enable(provider, info);
        }
        if let Some(global) = self.sessions.get_mut(&slot) {
            global.since.insert(provider, RawClock::Monotonic.now());
        }
        Ok(())
    }

    pub(crate) fn disable(&mut self, slot: usize, provider: &Guid) {
        // What was written before is wanted.
        self.drain_all();
        if let Some(inner) = self.router.session_mut(slot) {
            inner.disable(provider);
        }
        if let Some(global) = self.sessions.get_mut(&slot) {
            global.since.remove(provider);
            global.ending = Ending::Provider(*provider);
        }
        self.keep_session(slot);
        kill_point("wish kept");
        self.withdraw(slot, Some(provider));
        if let Some(global) = self.sessions.get_mut(&slot) {
            global.ending = Ending::Nothing;
        }
        self.keep_session(slot);
        self.publish_admission(slot);
    }

    /// The end of a session that nobody is told of yet: its owner has gone, or has lost the worker that was asked first.
    fn hear_of_end(&mut self, name: &str, from: Asker, none: &Response) {
        let same = |of: &&mut Finishing| of.name.to_lowercase() == name.to_lowercase();
        match self.finishing.values_mut().find(same) {
            Some(finishing) if finishing.asker.is_none() => finishing.asker = Some(from),
            _ => from.answer(none),
        }
    }

    fn flush(&mut self, slot: usize, from: Asker) {
        self.drain_all();
        let raw = self.clocks.0.now();
        if let (Some(global), Some(session)) =
            (self.sessions.get_mut(&slot), self.router.session_mut(slot))
        {
            session.flush(global.time.time(&self.map, raw));
            global.flushes.push_back((u64::MAX, from));
        }
        // Seals and gives away. What is given later, while programs go on, is not waited for.
        self.round(Duration::ZERO);
        if let Some(global) = self.sessions.get_mut(&slot) {
            let given = global.given;
            global.flushes.iter_mut().for_each(|(until, _)| *until = (*until).min(given));
        }
    }

    fn update(&mut self, slot: usize, update: &Update) -> Result<(), Response> {
        let invalid = |what: &str| refused(Status::ERROR_INVALID_PARAMETER, what);
        let (Some(global), Some(session)) =
            (self.sessions.get_mut(&slot), self.router.session_mut(slot))
        else {
            return Err(refused(Status::ERROR_WMI_INSTANCE_NOT_FOUND, "the session has ended"));
        };
        if let Some(buffers) = update.buffers {
            let more = buffers.saturating_sub(global.buffers);
            let size = u64::from(global.config.buffer_size) * u64::from(buffers);
            if size > MAX_BUFFER_MEMORY || global.memories.len() > 16 {
                return Err(invalid("a session has at most 2 GiB of buffers, in 16 steps"));
            }
            if more > 0 {
                let (made, memory) = make_buffers(global.config.buffer_size, more)
                    .map_err(|error| refused(Status::ERROR_NOT_ENOUGH_MEMORY, error.to_string()))?;
                session.add_buffers(made);
                global.memories.push((more, memory));
                global.buffers += more;
                global.config.buffer_count = global.buffers;
            }
        }
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

    /// Goes on in another file; the one before is completed, as soon as its disk allows, and then the answer is given.
    fn change_file(&mut self, slot: usize, file: &Path, from: &Asker) -> Result<(), Response> {
        may_write(from.user(), file)?;
        self.is_free(file)?;
        self.drain_all();
        let raw = self.clocks.0.now();
        let ended = || refused(Status::ERROR_WMI_INSTANCE_NOT_FOUND, "the session has ended");
        let (Some(global), Some(session)) =
            (self.sessions.get_mut(&slot), self.router.session_mut(slot))
        else {
            return Err(ended());
        };
        if global.storage.is_none() || !session.policy().has_own_file {
            let what = "only sessions with a sequential or circular file can be given another one";
            return Err(refused(Status::ERROR_NOT_SUPPORTED, what));
        }
        if global.before.len() >= MAX_FILES_BEFORE {
            let what = "the disk is too slow: files of this session wait to be completed";
            return Err(refused(Status(170), what));
        }
        let number = session.next_place().file + 1;
        let mut facts = global.facts.clone();
        facts.header.log_file_name = file.to_string_lossy().into_owned();
        let files = Files::create(file, facts.clone(), 0).map_err(|error| {
            let what = format!("{}: {error}", file.display());
            refused(Status::ERROR_BAD_PATHNAME, what)
        })?;
        kill_point("file made");
        session.flush(global.time.time(&self.map, raw));
        // Final, and on its way to the file before.
        self.round(Duration::ZERO);
        let lost = self.ledger(slot).lost_total();
        let (Some(global), Some(session)) =
            (self.sessions.get_mut(&slot), self.router.session(slot))
        else {
            return Err(ended());
        };
        let closing = global.closing(session, lost, true);
        let before = KeptFile {
            number: global.file_number,
            path: global.config.file.replace(file.to_owned()).unwrap_or_default(),
            facts: std::mem::replace(&mut global.facts, facts).to_bytes(),
        };
        global.before.push_back((before, from.clone()));
        global.file_number = number;
        // First known to the next worker, which goes by the place of the next buffer; then the place itself.
        self.keep_session(slot);
        kill_point("file kept");
        if let (Some(global), Some(session)) =
            (self.sessions.get_mut(&slot), self.router.session_mut(slot))
        {
            session.begin_file();
            kill_point("file begun");
            global.modules.again();
            if let Some(storage) = &global.storage {
                storage.switch(closing, files.numbered(number));
            }
        }
        Ok(())
    }

    fn capture(
        &mut self,
        slot: usize,
        provider: &Guid,
        (level, any, all): (u8, u64, u64),
        from: Asker,
    ) {
        let source = self.sessions.get(&slot).map_or(Guid::ZERO, |session| session.guid);
        let (waiting, warnings) = self.ask_all(slot, provider, |token, number| FromHost::Capture {
            token,
            number,
            level,
            any,
            all,
            source,
        });
        let deadline = Instant::now() + START_PATIENCE;
        self.pending.push(Pending {
            session: slot,
            waiting,
            deadline,
            asker: from,
            response: done(),
            warnings,
        });
    }

    fn providers(&self) -> Response {
        let mut all: BTreeMap<Guid, ProviderStatus> = BTreeMap::new();
        for program in self.programs.values() {
            for registered in program.providers.values() {
                let id = registered.provider.id;
                let status = all
                    .entry(id)
                    .or_insert_with(|| ProviderStatus { id, ..ProviderStatus::default() });
                if status.name.is_empty() {
                    status.name.clone_from(&registered.name);
                }
                status.group =
                    status.group.or((!registered.group.is_zero()).then_some(registered.group));
                if !status.pids.contains(&program.peer.pid) && status.pids.len() < 64 {
                    status.pids.push(program.peer.pid);
                }
            }
        }
        for (slot, global) in &self.sessions {
            let Some(session) = self.router.session(*slot) else { continue };
            for (id, _) in session.enablements() {
                let status = all
                    .entry(*id)
                    .or_insert_with(|| ProviderStatus { id: *id, ..ProviderStatus::default() });
                status.sessions.push(global.name.clone());
            }
        }
        // An answer is one message: what does not fit is left out, the largest GUIDs first.
        let mut size = 0;
        let providers = all
            .into_values()
            .take_while(|status| {
                size += 200
                    + 2 * status.name.len()
                    + 8 * status.pids.len()
                    + status.sessions.iter().map(|name| 2 * name.len() + 4).sum::<usize>();
                size < etw_wire::MAX_MESSAGE - 1024
            })
            .collect();
        Response::Providers { providers }
    }

    fn consume(&mut self, name: &str, from: &Asker) {
        let stream = self.find(name).and_then(|slot| {
            let position = self.router.session(slot).map(Session::position).unwrap_or_default();
            let global = self.sessions.get_mut(&slot);
            let global = global.filter(|global| global.is_real_time).ok_or_else(|| {
                let what = format!("session {name} is not a real-time session; `etw session update {name} --real-time true` makes it one");
                refused(Status::ERROR_WMI_INSTANCE_NOT_FOUND, what)
            })?;
            if from.user() == global.owner && global.orphan_until.take().is_some() {
                global.lease = from.connection();
            }
            global
                .add_consumer(position)
                .map_err(|error| refused(Status::ERROR_NOT_ENOUGH_MEMORY, error.to_string()))
        });
        match stream {
            Ok(stream) => {
                use std::os::fd::AsFd;
                from.answer_with(&done(), &[stream.as_fd()]);
            }
            Err(no) => from.answer(&no),
        }
    }

    fn snapshot(&mut self, slot: usize, file: &Path, from: &Asker) -> Result<Response, Response> {
        may_write(from.user(), file)?;
        self.is_free(file)?;
        self.hear(slot);
        self.drain_all();
        let raw = self.clocks.0.now();
        let lost = self.ledger(slot).lost_total();
        let (Some(global), Some(session)) =
            (self.sessions.get_mut(&slot), self.router.session_mut(slot))
        else {
            return Err(refused(Status::ERROR_WMI_INSTANCE_NOT_FOUND, "the session has ended"));
        };
        if !session.policy().is_in_memory() {
            let what =
                "only a session in memory is written by a snapshot; this one has its own file";
            return Err(refused(Status::ERROR_NOT_SUPPORTED, what));
        }
        // The buffers with them may have been overwritten.
        global.modules.again();
        global.modules.tell(session, global.time.time(&self.map, self.floor));
        let copies = session.snapshot(global.time.time(&self.map, raw));
        let closing = global.closing(session, lost, true);
        let mut facts = global.facts.clone();
        facts.header.log_file_name = file.to_string_lossy().into_owned();
        let write = || -> std::io::Result<()> {
            let mut files = Files::create(file, facts, 0)?;
            for (number, bytes) in copies.iter().enumerate() {
                files.store(1, number as u64 + 1, &bytes[..BufferHeader::SIZE], bytes, closing)?;
            }
            files.finish(closing)
        };
        write().map_err(|error| {
            refused(Status::ERROR_WRITE_FAULT, format!("{}: {error}", file.display()))
        })?;
        Ok(done())
    }
}

/// Unlike that of any other session of the machine's recent past.
fn session_guid() -> Guid {
    let mut bytes = [0; 16];
    let now = etw_host::clock::filetime_now().0 as u64;
    bytes[..8].copy_from_slice(&now.to_le_bytes());
    bytes[8..12].copy_from_slice(&std::process::id().to_le_bytes());
    bytes[12..].copy_from_slice(b"oetw");
    Guid(bytes)
}
