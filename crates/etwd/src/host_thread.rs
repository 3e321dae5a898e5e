//! The host thread: it owns the engine, the programs and the sessions, and processes messages between rounds.
//!
//! * `program_messages`, `pools`: programs' messages, and their pools; `enablements`: sessions' enablements in programs;
//! * `requests`, `file_requests`: controllers' requests; `file_rundowns`: the system in each file; `name_requests`: providers that are enabled by name; `system_providers`: those of the system;
//!   `pending`: responses that wait for programs;
//! * `ended_streams`: what consumers of ended sessions have not read;
//! * `channels`: the logs of channels; `stop`: the end of sessions; `persistence`: entries for the keeper; `recovery`, `session_recovery`: what the worker before
//!   left.
//!
//! A change of enablements drains the pools first, so that earlier events are routed by the enablements of their time.

mod channels;
mod enablements;
mod ended_streams;
mod file_requests;
mod file_rundowns;
mod name_requests;
mod pending;
mod persistence;
mod pools;
mod program_messages;
mod recovery;
mod requests;
mod session_recovery;
mod stop;
pub(crate) mod system_providers;

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use etw_host::clock::Pair;
use etw_host::engine::schedule::SHORTEST_PAUSE;
use etw_host::engine::{BufferedSession, Engine, EngineSetup};
use etw_host::kill_point::kill_point;
use etw_ring::{Barrier, DrainedTogether, LastBatch, RawClock};
use etw_types::Guid;
use etw_wire::requests::{ProviderStatus, Response};

use crate::asker::{Connection, done};
use crate::consumer;
use crate::controllers::Controllers;
use crate::ended_stream::EndedStream;
use crate::global_session::{EndingFiles, GlobalSession, Hosted, answer_completed};
use crate::haste::Haste;
use crate::host_options::HostOptions;
use crate::keeper_protocol::{ENDING, KeeperLink};
use crate::log::{log, log_info};
use crate::mailbox::{Finished, Mailbox, Message};
use crate::program::Program;
use crate::registered_names::RegisteredNames;
use crate::shared_rings::SharedRings;
use crate::system_events::SystemEventsCheck;
use channels::DirectSessions;
use pending::PendingResponse;

/// The longest pause while events come.
const LONGEST_PAUSE: Duration = Duration::from_millis(25);
/// The time between the two clock readings from which a new engine computes their rate.
const CLOCK_BASE: Duration = Duration::from_millis(1);

pub(crate) struct HostThread {
    mailbox: Arc<Mailbox>,
    options: HostOptions,
    /// Controllers that are connected.
    controllers: Arc<Controllers>,
    engine: Engine<GlobalSession>,
    /// Sessions whose files are being completed: their names and files are in use.
    ending: HashMap<usize, EndingFiles>,
    /// Streams of ended sessions that consumers may not have read to the end, in the order of their ends.
    ended_streams: BTreeMap<u64, EndedStream>,
    /// The host was asked to end.
    is_ending: bool,
    programs: BTreeMap<Connection, Program>,
    /// The last registration of each provider, for controllers that look for a reason why no events arrive.
    recent_providers: BTreeMap<Guid, ProviderStatus>,
    /// Providers that registered manifests name.
    registered_names: RegisteredNames,
    keeper: Arc<KeeperLink>,
    /// The rings of system events that the keeper has, by session and ring set.
    ring_sets: HashMap<(usize, u64), Arc<SharedRings>>,
    pending: Vec<PendingResponse>,
    idle_since: Instant,
    /// Log lines about a user's programs.
    log_lines: HashMap<u32, u64>,
    direct: DirectSessions,
    system_events_check: SystemEventsCheck,
}

impl HostThread {
    pub fn new(
        mailbox: Arc<Mailbox>,
        options: HostOptions,
        controllers: Arc<Controllers>,
        last: LastBatch,
        keeper: KeeperLink,
    ) -> HostThread {
        let clock = RawClock::best();
        let first = Pair::now(clock);
        std::thread::sleep(CLOCK_BASE);
        let messages = mailbox.clone();
        let engine = Engine::new(EngineSetup {
            clock,
            barrier: Barrier::best(false),
            first,
            last,
            longest_pause: LONGEST_PAUSE,
            pool_size: options.pool_size.into(),
            interrupt: Box::new(move || messages.is_filled()),
        });
        HostThread {
            mailbox,
            options,
            controllers,
            engine,
            ending: HashMap::new(),
            ended_streams: BTreeMap::new(),
            is_ending: false,
            programs: BTreeMap::new(),
            recent_providers: BTreeMap::new(),
            registered_names: RegisteredNames::default(),
            keeper: Arc::new(keeper),
            ring_sets: HashMap::new(),
            pending: Vec::new(),
            idle_since: Instant::now(),
            log_lines: HashMap::new(),
            direct: DirectSessions::default(),
            system_events_check: SystemEventsCheck::default(),
        }
    }

    /// Shows the keeper the end of this thread, which is that of the engine.
    pub fn show_end(&self) {
        self.keeper.put_engine();
    }

    /// Reads the rings that the worker before left, on the thread of the engine. It is in haste until the recordings keep it so.
    pub fn take_up_rings(&mut self) {
        let _haste = Haste::of_engine();
        self.round();
    }

    pub fn run(mut self) {
        self.refresh_channels();
        loop {
            let mut messages: Vec<Message> = self.mailbox.take().into();
            let was_called = !messages.is_empty();
            // Programs' messages first: a request is answered with everything that programs have sent.
            messages.sort_by_key(|message| !message.is_of_program());
            let mut messages = messages.into_iter();
            while let Some(message) = messages.next() {
                if let ControlFlow::Break(()) = self.handle(message) {
                    self.keep_end();
                    self.is_ending = true;
                }
                if self.is_to_end() {
                    // One of them may report that a session has finished, for which `stop_all` waits.
                    messages.for_each(|message| self.mailbox.post(message));
                    return self.end();
                }
                self.mailbox.beat();
            }
            let started = Instant::now();
            let drained = match was_called || self.engine.has_work() {
                true => self.round(),
                false => DrainedTogether::default(),
            };
            self.answer_pending();
            self.stop_due();
            if self.is_to_end() {
                return self.end();
            }
            self.run_down_behind_gaps();
            self.continue_series();
            self.forget_read_streams();
            self.engine.maintain();
            self.send_growth();
            if self.is_idle_for_too_long() && self.takes_no_more_requests() {
                // Logs of channels have buffers that are not stored yet.
                return self.end();
            }
            let pause = self.next_pause(&drained, started);
            if pause >= SHORTEST_PAUSE {
                let HostThread { mailbox, engine, .. } = &self;
                mailbox.rest(pause, || engine.is_rung());
            }
        }
    }

    /// Whether the host was asked to end, and consumers of a worker before have reconnected.
    fn is_to_end(&self) -> bool {
        self.is_ending && !self.awaits_consumers()
    }

    /// Stops all sessions, and waits until their consumers have read them.
    fn end(mut self) {
        self.stop_all();
        kill_point("host stopped");
        consumer::wait_for_readers();
    }

    fn handle(&mut self, message: Message) -> ControlFlow<()> {
        match message {
            Message::Program { connection, channel, peer } => {
                self.welcome(connection, channel, peer);
            }
            Message::FromProgram { connection, bytes, descriptors } => {
                let kind = bytes.first().copied().unwrap_or(0);
                if !self.receive(connection, &bytes, descriptors) {
                    self.log_invalid_message(connection, kind);
                    self.disconnect_program(connection);
                }
            }
            Message::Disconnected { connection } => self.disconnected(connection),
            Message::Ask { request, from } => {
                self.consult_manifests();
                return self.ask(request, from);
            }
            Message::Finished { slot, finished } => self.finished(slot, *finished),
            Message::End => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    fn finished(&mut self, slot: usize, finished: Finished) {
        let asker = self.ending.remove(&slot).and_then(|ending| ending.asker);
        let Finished { mut status, result, stream } = finished;
        log_info!(
            "session {} ended: {} events stored, {} lost{}",
            status.name,
            status.stored,
            status.lost,
            result.as_ref().err().map_or(String::new(), |error| format!("; {error}"))
        );
        // Before the session is forgotten: its consumers can always find one of the two.
        if let Some(stream) = stream {
            self.keep_stream(stream);
        }
        kill_point("stream kept");
        self.keeper.remove(&format!("session/{slot}"));
        drop(self.forget_rings(slot));
        kill_point("session forgotten");
        if self.direct.waiting.remove(&status.name.to_lowercase()) {
            self.refresh_channels();
        }
        if let Some(asker) = asker {
            if let Err(error) = result {
                status.error = Some(error.to_string());
            }
            asker.answer(&Response::Session(Box::new(status)));
        }
    }

    /// The daemon was asked to end, which also holds for the next worker. It waits for the consumers that this worker has now.
    fn keep_end(&self) {
        for (slot, hosted, _) in self.engine.sessions() {
            if hosted.host.consumer_count() > 0 {
                self.keep_session(slot);
            }
        }
        self.keeper.put(ENDING, &(), &[]);
    }

    fn round(&mut self) -> DrainedTogether {
        let drained = self.engine.round(Duration::ZERO);
        self.after_rounds();
        drained
    }

    fn drain_all(&mut self) {
        self.engine.drain_all();
        self.after_rounds();
    }

    fn drain_for(&mut self, time: Duration) {
        self.engine.drain_for(time);
        self.after_rounds();
    }

    /// Does the host's part of rounds: files that are complete, flushes that are stored, programs that have ended, growth.
    fn after_rounds(&mut self) {
        self.answer_switches();
        self.answer_flushes();
        self.log_failures();
        self.keep_series();
        self.forget_given_recordings();
        self.detach_exhausted();
        self.send_growth();
    }

    /// Answers the controllers that gave a session another file, when the file before is complete.
    fn answer_switches(&mut self) {
        let mut completed = Vec::new();
        for (slot, hosted) in self.engine.sessions_mut() {
            let results = hosted.take_switched();
            if !results.is_empty() {
                completed.push((slot, hosted.host.completed(results)));
            }
        }
        for (slot, completed) in completed {
            kill_point("file ended");
            // Before anybody relies on it.
            self.keep_session(slot);
            answer_completed(completed);
            kill_point("file answered");
        }
    }

    /// Keeps sessions whose series has another file.
    fn keep_series(&mut self) {
        for slot in self.engine.session_slots() {
            let Some((hosted, session)) = self.engine.session_mut(slot) else { continue };
            let last = session.last_series_file();
            if hosted.host.kept_series_file != last {
                hosted.host.kept_series_file = last;
                self.keep_session(slot);
            }
        }
    }

    /// Counts the events of a series' files that somebody has removed.
    fn count_removed_files(&mut self, slot: usize) {
        if self.engine.count_removed_files(slot) {
            self.keep_session(slot);
        }
    }

    /// Answers the controllers whose flush is stored.
    fn answer_flushes(&mut self) {
        for slot in self.engine.session_slots() {
            let Some((hosted, session)) = self.engine.session_mut(slot) else { continue };
            while let Some(flush) = hosted.host.flushes.pop_front() {
                if !hosted.is_stored(flush.last_buffer, session) {
                    hosted.host.flushes.push_front(flush);
                    break;
                }
                flush.asker.answer(&done());
            }
        }
    }

    /// Logs when a session's file begins to fail, and when it is written again.
    fn log_failures(&mut self) {
        for (_, hosted) in self.engine.sessions_mut() {
            if hosted.failing() != hosted.host.logged_failure.as_deref() {
                let failing = hosted.failing().map(str::to_owned);
                match &failing {
                    Some(failing) => {
                        log!("session {} cannot store its events: {failing}", hosted.host.name());
                    }
                    None => log_info!("session {} stores its events again", hosted.host.name()),
                }
                hosted.host.logged_failure = failing;
            }
        }
    }

    fn next_pause(&mut self, drained: &DrainedTogether, started: Instant) -> Duration {
        if self.mailbox.is_filled() {
            return Duration::ZERO;
        }
        let mut pause = self.engine.next_pause(drained, started, !self.ending.is_empty());
        for pending in &self.pending {
            let left = pending.deadline.saturating_duration_since(Instant::now());
            pause = pause.min(left.max(SHORTEST_PAUSE));
        }
        for deadline in self.engine.sessions().filter_map(|(_, hosted, _)| hosted.host.deadline()) {
            let left = deadline.saturating_duration_since(Instant::now());
            pause = pause.min(left.max(SHORTEST_PAUSE));
        }
        if let Some(deadline) = self.streams_deadline() {
            let left = deadline.saturating_duration_since(Instant::now());
            pause = pause.min(left.max(SHORTEST_PAUSE));
        }
        if let Some(idle) = self.options.idle_exit {
            pause = pause.min(idle);
        }
        pause
    }

    fn is_idle_for_too_long(&mut self) -> bool {
        // Logs of channels are kept while a host runs, and do not keep it running.
        let is_of_channels = |host: &GlobalSession| {
            self.is_of_channels(&host.config.name, host.config.file.as_deref())
        };
        let is_busy = self.engine.sessions().any(|(_, hosted, _)| !is_of_channels(&hosted.host))
            || !self.ending.is_empty()
            || self.awaits_consumers()
            || self.controllers.any();
        if is_busy {
            self.idle_since = Instant::now();
        }
        self.options.idle_exit.is_some_and(|idle| self.idle_since.elapsed() >= idle)
    }

    /// Turns new controllers away, unless one has come meanwhile, or has left requests. An idle host ends without losing one.
    fn takes_no_more_requests(&self) -> bool {
        if !self.controllers.close() {
            return false;
        }
        if self.mailbox.is_filled() {
            self.controllers.reopen();
            return false;
        }
        true
    }

    /// A session by its number.
    fn session(&self, slot: usize) -> Option<(&Hosted, &BufferedSession)> {
        self.engine.session(slot)
    }

    /// The host's part of a session.
    fn global(&self, slot: usize) -> Option<&GlobalSession> {
        Some(&self.engine.session(slot)?.0.host)
    }

    /// The host's part of a session.
    fn global_mut(&mut self, slot: usize) -> Option<&mut GlobalSession> {
        Some(&mut self.engine.session_mut(slot)?.0.host)
    }
}
