//! The engine: one thread that owns programs, sessions and pools.
//!
//! A round drains all pools in one order of time, up to one watermark, into the sessions; seals their buffers; makes the
//! batch final in all pools at once; and only then gives buffers away. Between rounds messages are dealt with. What changes
//! who gets an event drains first, so that what was written before is judged by what held then.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use etw_host::clock::{ClockMap, Pair};
use etw_host::storage::BufferMemory;
use etw_ring::{
    Admission, Barrier, Cause as RingCause, Control, DrainOptions, DrainedTogether, LastBatch,
    Memory, PATIENCE, Participant, RawClock, Reader, advance_together, drain_together,
};
use etw_session::{Cause, EnableInfo, Event, Ledger, Router, Session, State};
use etw_types::Guid;
use etw_wire::control::Response;
use etw_wire::message::{FromHost, FromProgram, VERSION};
use etw_wire::{Channel, Peer};

use crate::host::HostOptions;
use crate::keep::{Keep, KeptProgram, KeptRegistration, KeptSession};
use crate::message::{Asker, Connection, Mailbox, Message};
use crate::program::{Base, Lane, Program, Registered, segment};
use crate::session::{Finished, GlobalSession};

/// Bytes of pools that one round takes at most.
const ROUND_SIZE: u64 = 8 << 20;
/// After so many records a round that somebody's message waits for ends.
const PATIENT_RECORDS: u64 = 2000;
/// How long the drain waits for a session's buffers to come back from the disk, as long as every program finds at least half of its
/// pool free. Then the session loses events, and is not waited for again for [`SLOW`].
const BUFFER_PATIENCE: Duration = Duration::from_millis(100);
const SLOW: Duration = Duration::from_millis(250);
/// A pool from which nothing has come for so long is left alone until its next write.
const QUIET_AFTER: Duration = Duration::from_millis(60);
/// How often a host with quiet pools looks at them all the same: a write's call may find it on its way to sleep.
const QUIET_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause while events come.
const LONGEST_PAUSE: Duration = Duration::from_millis(25);
/// The same, when somebody watches.
const LIVE_PAUSE: Duration = Duration::from_millis(1);
const SHORTEST_PAUSE: Duration = Duration::from_micros(60);
/// A thread that has not written for so long gives its chunk back.
const RECLAIM: Duration = Duration::from_millis(500);
/// Complaints that are told.
const MAX_COMPLAINTS: u64 = 100;
/// How often files' headers are brought up to date.
const UPKEEP: Duration = Duration::from_millis(500);

pub(crate) struct Engine {
    pub mailbox: Arc<Mailbox>,
    pub options: HostOptions,
    pub clocks: (RawClock, Barrier),
    /// Controllers that are connected.
    pub controllers: Arc<AtomicUsize>,
    pub map: ClockMap,
    pub router: Router<BufferMemory>,
    /// By their number in the router.
    pub sessions: BTreeMap<usize, GlobalSession>,
    /// Sessions whose files are being completed: their names are taken.
    pub finishing: HashMap<usize, String>,
    pub programs: BTreeMap<Connection, Program>,
    pub readers: Vec<Reader>,
    pub lanes: Vec<Lane>,
    /// Every record before it has been drained.
    pub floor: u64,
    pub batch: u64,
    pub last: LastBatch,
    pub keep: Keep,
    pub pending: Vec<Pending>,
    /// The last number of a change, by program.
    pub tokens: HashMap<Connection, u32>,
    upkeep: Instant,
    idle_since: Instant,
    pause: Duration,
    /// Programs that were shown out.
    complaints: u64,
}

/// A controller that waits until programs have made a change.
pub(crate) struct Pending {
    /// The change's number at each program; `None`: not sent yet, the pool is not there.
    pub waiting: HashMap<Connection, Option<u32>>,
    pub deadline: Instant,
    pub asker: Asker,
    pub response: Response,
}

impl Engine {
    pub fn new(
        mailbox: Arc<Mailbox>,
        options: HostOptions,
        controllers: Arc<AtomicUsize>,
        last: LastBatch,
        keep: Keep,
    ) -> Engine {
        let raw = RawClock::best();
        let first = Pair::now(raw);
        let mut map = ClockMap::new(first, raw);
        std::thread::sleep(Duration::from_millis(1));
        map.observe(Pair::now(raw));
        Engine {
            mailbox,
            options,
            clocks: (raw, Barrier::best(false)),
            controllers,
            map,
            router: Router::default(),
            sessions: BTreeMap::new(),
            finishing: HashMap::new(),
            programs: BTreeMap::new(),
            readers: Vec::new(),
            lanes: Vec::new(),
            floor: 0,
            batch: 0,
            last,
            keep,
            pending: Vec::new(),
            tokens: HashMap::new(),
            upkeep: Instant::now(),
            idle_since: Instant::now(),
            pause: LONGEST_PAUSE,
            complaints: 0,
        }
    }

    pub fn run(mut self) {
        loop {
            for message in self.mailbox.take() {
                if let ControlFlow::Break(()) = self.handle(message) {
                    self.stop_all();
                    return;
                }
            }
            let started = Instant::now();
            let drained = self.round(Duration::ZERO);
            self.answer_pending();
            self.maintain();
            if self.is_idle_for_too_long() {
                return;
            }
            let pause = self.next_pause(&drained, started);
            if pause >= SHORTEST_PAUSE {
                let Engine { mailbox, readers, .. } = &self;
                mailbox.bell.sleep(pause, || {
                    mailbox.is_filled()
                        || readers.iter().any(|reader| reader.is_quiet() && reader.is_rung())
                });
            }
        }
    }

    // ---- messages -------------------------------------------------------------------------------------------------

    fn handle(&mut self, message: Message) -> ControlFlow<()> {
        match message {
            Message::Program { connection, channel, peer } => {
                self.welcome(connection, channel, peer);
            }
            Message::FromProgram { connection, bytes, descriptors } => {
                let kind = bytes.first().copied().unwrap_or(0);
                if !self.program_says(connection, &bytes, descriptors) {
                    self.complain(connection, kind);
                    self.expel(connection);
                }
            }
            Message::Gone { connection } => self.gone(connection),
            Message::Ask { request, from } => return self.ask(request, from),
            Message::Finished { slot, answer } => {
                self.finishing.remove(&slot);
                let Finished { status, result, asker } = *answer;
                self.keep.remove(&format!("session/{slot}"));
                if let Some(asker) = asker {
                    let mut status = status;
                    if let Err(error) = result {
                        status.error = Some(error.to_string());
                    }
                    asker.answer(&Response::Session(Box::new(status)));
                }
            }
            Message::End => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    fn welcome(&mut self, connection: Connection, channel: Arc<Channel>, peer: Peer) {
        let made = Memory::shared(Control::SIZE)
            .and_then(|memory| Control::create(memory, self.clocks.0, self.clocks.1));
        let control = match made {
            Ok(control) => control,
            // Without memory there is no program; it sees its connection end.
            Err(_) => return end(&channel),
        };
        let program = Program::new(channel, peer, control);
        let welcome = FromHost::Welcome { version: VERSION, pool_size: self.options.pool_size };
        let memories =
            [program.control.memory().fd(), self.mailbox.bell.memory().fd()].map(|fd| fd);
        let [Some(control), Some(bell)] = memories else { return end(&program.channel) };
        if program.channel.send(&welcome.to_bytes(), &[control, bell]).is_err() {
            return end(&program.channel);
        }
        self.programs.insert(connection, program);
        self.keep_program(connection);
    }

    /// What the next worker needs of a program.
    fn keep_program(&self, connection: Connection) {
        let Some(program) = self.programs.get(&connection) else { return };
        let facts = KeptProgram {
            pid: program.peer.pid,
            uid: program.peer.uid,
            gid: program.peer.gid,
            slots: program.slots.to_vec(),
            token: self.tokens.get(&connection).copied().unwrap_or(0),
            pool_size: program.pool_size,
            pool_is_asked: program.pool_is_asked,
        };
        let Some(control) = program.control.memory().fd() else { return };
        let descriptors = [program.channel.as_fd(), control];
        self.keep.put(&format!("program/{connection}"), &facts, &descriptors);
    }

    fn forget_program(&self, connection: Connection, program: &Program) {
        for number in program.providers.keys() {
            self.keep.remove(&format!("registration/{connection}/{number}"));
        }
        for segment in 0..program.segments {
            self.keep.remove(&format!("pool/{connection}/{segment}"));
        }
        self.keep.remove(&format!("program/{connection}"));
    }

    /// What the next worker needs of a session.
    pub fn keep_session(&self, slot: usize) {
        let (Some(global), Some(session)) = (self.sessions.get(&slot), self.router.session(slot))
        else {
            return;
        };
        let facts = KeptSession {
            start: global.start.clone(),
            owner: global.owner,
            is_leased: global.lease.is_some(),
            is_real_time: global.is_real_time,
            facts: global.facts.to_bytes(),
            enabled: session.enablements().map(|(id, info)| (*id, info.clone())).collect(),
            buffers: global.memories.iter().map(|(count, _)| *count).collect(),
        };
        let mut descriptors = vec![global.numbers.as_fd()];
        descriptors.extend(global.memories.iter().map(|(_, memory)| memory.as_fd()));
        self.keep.put(&format!("session/{slot}"), &facts, &descriptors);
    }

    /// `false`: what came was no message, or broke a rule.
    fn program_says(
        &mut self,
        connection: Connection,
        bytes: &[u8],
        descriptors: Vec<std::os::fd::OwnedFd>,
    ) -> bool {
        let Some(message) = FromProgram::read(bytes) else { return false };
        let Some(program) = self.programs.get_mut(&connection) else { return true };
        match message {
            FromProgram::Hello { .. } => false,
            FromProgram::Register { number, id, traits } => {
                if !program.register(number, id, traits) {
                    return false;
                }
                if let (Some(lane), Some(registered)) =
                    (program.lane, program.providers.get(&number))
                {
                    self.lanes[lane].registrations.set(number, registered.provider.clone());
                }
                let kept = KeptRegistration { id, traits: traits.to_vec() };
                self.keep.put(&format!("registration/{connection}/{number}"), &kept, &[]);
                self.introduce(connection, number);
                true
            }
            FromProgram::Unregister { number } => {
                program.unregister(number);
                self.keep.remove(&format!("registration/{connection}/{number}"));
                // Its number stays known to the lane: records may be on their way.
                true
            }
            FromProgram::Pool => self.take_pool(connection, descriptors),
            FromProgram::Segment => self.take_segment(connection, descriptors),
            FromProgram::Done { token } => {
                for pending in &mut self.pending {
                    let sent = pending.waiting.get(&connection).copied().flatten();
                    if sent.is_some_and(|sent| sent <= token) {
                        pending.waiting.remove(&connection);
                    }
                }
                true
            }
        }
    }

    /// A new registration: what sessions want of it, and the answer that the program waits for.
    fn introduce(&mut self, connection: Connection, number: u32) {
        let Some(program) = self.programs.get(&connection) else { return };
        let Some(registered) = program.providers.get(&number) else { return };
        let wanting: Vec<usize> = self
            .sessions
            .iter()
            .filter(|(slot, session)| {
                self.may_see(session, program) && {
                    wanted_of(&self.router, **slot, registered).is_some()
                }
            })
            .map(|(slot, _)| *slot)
            .collect();
        if wanting.is_empty() {
            program.say(&FromHost::Registered { number });
            return;
        }
        if program.lane.is_none() {
            let Some(program) = self.programs.get_mut(&connection) else { return };
            program.waiting.push(number);
            ask_for_pool(program);
            return;
        }
        for slot in wanting {
            self.tell_of(connection, number, slot);
        }
        if let Some(program) = self.programs.get(&connection) {
            program.say(&FromHost::Registered { number });
        }
    }

    /// Tells a program what a session wants of one of its registrations; the number of the change. `None`: there is no slot for
    /// the session.
    fn tell_of(&mut self, connection: Connection, number: u32, session: usize) -> Option<u32> {
        let admission = self.admission(session, connection);
        let program = self.programs.get_mut(&connection)?;
        let reader = program.lane.map(|lane| &self.readers[lane]);
        let is_new = program.slot_of(session).is_none();
        let slot = program.take_slot(session, reader, admission)?;
        if is_new {
            if let Some(lane) = program.lane {
                self.lanes[lane].set_slots(&program.slots);
            }
            // Before the program hears of it: no record of the slot is met by a worker that does not know whose it is.
            self.keep_program(connection);
        }
        let program = self.programs.get_mut(&connection)?;
        program.control.set_admission(slot, admission);
        let registered = program.providers.get(&number)?;
        let wanted = wanted_of(&self.router, session, registered)?.wanted;
        let source = self.sessions.get(&session).map_or(Guid::ZERO, |session| session.guid);
        let token = self.tokens.entry(connection).or_default();
        *token += 1;
        program.tell(*token, number, slot, Some(&wanted), source);
        Some(*token)
    }

    fn take_pool(
        &mut self,
        connection: Connection,
        descriptors: Vec<std::os::fd::OwnedFd>,
    ) -> bool {
        let Some(program) = self.programs.get_mut(&connection) else { return true };
        if program.lane.is_some() || !program.pool_is_asked {
            return false;
        }
        let kept = kept_descriptor(&descriptors);
        let made = segment(descriptors).and_then(|source| {
            Reader::new(program.control.clone(), source).map_err(|error| error.to_string())
        });
        let Ok(reader) = made else { return false };
        if let Some(kept) = kept {
            self.keep.put(&format!("pool/{connection}/0"), &(), &[kept.as_fd()]);
        }
        program.segments = 1;
        program.pool_size = self.options.pool_size;
        program.lane = Some(self.lanes.len());
        self.lanes.push(Lane::new(connection, program, &reader));
        self.readers.push(reader);
        let waiting = std::mem::take(&mut program.waiting);
        let numbers: Vec<u32> = program.providers.keys().copied().collect();
        for number in numbers {
            for session in self.wanting(connection, number) {
                self.tell_of(connection, number, session);
            }
        }
        let last = self.tokens.get(&connection).copied();
        for pending in &mut self.pending {
            if let Some(sent) = pending.waiting.get_mut(&connection) {
                *sent = sent.or(last);
            }
        }
        if let Some(program) = self.programs.get(&connection) {
            waiting.into_iter().for_each(|number| program.say(&FromHost::Registered { number }));
        }
        true
    }

    fn wanting(&self, connection: Connection, number: u32) -> Vec<usize> {
        let Some(program) = self.programs.get(&connection) else { return Vec::new() };
        let Some(registered) = program.providers.get(&number) else { return Vec::new() };
        let wants = |slot: usize| wanted_of(&self.router, slot, registered).is_some();
        let sessions = self.sessions.iter().filter(|(_, session)| self.may_see(session, program));
        sessions.map(|(slot, _)| *slot).filter(|slot| wants(*slot)).collect()
    }

    /// A secure session has events of root's programs and its owner's only.
    fn may_see(&self, session: &GlobalSession, program: &Program) -> bool {
        !session.start.secure || program.peer.uid == 0 || program.peer.uid == session.owner
    }

    fn take_segment(
        &mut self,
        connection: Connection,
        descriptors: Vec<std::os::fd::OwnedFd>,
    ) -> bool {
        let Some(program) = self.programs.get_mut(&connection) else { return true };
        let (Some(lane), Some(size)) = (program.lane, program.growing.take()) else { return false };
        if descriptors.is_empty() {
            // It has no more memory.
            return true;
        }
        let kept = kept_descriptor(&descriptors);
        let added = segment(descriptors).and_then(|source| {
            self.readers[lane].add_segment(source).map_err(|error| error.to_string())
        });
        if let Some(kept) = kept {
            let name = format!("pool/{connection}/{}", program.segments);
            self.keep.put(&name, &(), &[kept.as_fd()]);
        }
        program.segments += 1;
        program.pool_size += size;
        program.say(&FromHost::Taken);
        added.is_ok()
    }

    /// Tells what a program did wrong. One that has ended meanwhile did nothing.
    fn complain(&mut self, connection: Connection, kind: u8) {
        let Some(program) = self.programs.get(&connection) else { return };
        let Peer { pid, uid, .. } = program.peer;
        self.complaints += 1;
        // Of a program that connects again and again the first times say enough.
        if self.complaints <= MAX_COMPLAINTS {
            eprintln!(
                "etwd: process {pid} of user {uid}: message {kind} is wrong or breaks a limit; its \
                 connection is ended"
            );
        }
    }

    /// Ends a connection; what is in its pool is drained.
    fn expel(&mut self, connection: Connection) {
        if let Some(program) = self.programs.get(&connection) {
            end(&program.channel);
        }
        self.gone(connection);
    }

    fn gone(&mut self, connection: Connection) {
        for pending in &mut self.pending {
            pending.waiting.remove(&connection);
        }
        let leased: Vec<usize> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.lease == Some(connection))
            .map(|(slot, _)| *slot)
            .collect();
        for slot in leased {
            self.stop_session(slot, None);
        }
        let Some(program) = self.programs.get_mut(&connection) else { return };
        program.has_ended = true;
        match program.lane {
            Some(lane) => {
                self.lanes[lane].has_ended = true;
                self.readers[lane].wake();
            }
            None => {
                if let Some(program) = self.programs.remove(&connection) {
                    self.forget_program(connection, &program);
                }
                self.tokens.remove(&connection);
            }
        }
    }

    // ---- rounds ---------------------------------------------------------------------------------------------------

    /// One batch: drained, routed, sealed, made final, given away.
    pub fn round(&mut self, patience: Duration) -> DrainedTogether {
        for (slot, global) in &mut self.sessions {
            if let Some(session) = self.router.session_mut(*slot) {
                global.take_done(session, None);
            }
        }
        let patient = self.patient();
        // Who drains for a request does not end for the next one.
        let interruptible = patience.is_zero();
        let Engine { readers, lanes, router, map, clocks, floor, mailbox, .. } = self;
        let alive: Vec<_> = lanes
            .iter()
            .map(|lane| {
                let (process, elsewhere) = (lane.process_id, lane.threads.is_some());
                move |thread| elsewhere || etw_ring::process_thread_alive(process, thread)
            })
            .collect();
        let mut participants: Vec<_> = readers
            .iter_mut()
            .zip(&alive)
            .zip(&*lanes)
            .map(|((reader, alive), lane)| {
                let options = DrainOptions {
                    ended: lane.has_ended,
                    reclaim_idle: Some(RECLAIM),
                    alive: Some(alive),
                    ..DrainOptions::default()
                };
                Participant::new(reader, options)
            })
            .collect();
        let mut is_first = true;
        let (mut size, mut records) = (0, 0u64);
        let mut has_waited = false;
        let raw = clocks.0;
        let drained = drain_together(&mut participants, *clocks, *floor, patience, |at, record| {
            if std::mem::take(&mut is_first) {
                // After the watermark was taken: every record lies before this pair.
                map.observe(Pair::now(raw));
            }
            records += 1;
            let is_called =
                interruptible && records.is_multiple_of(PATIENT_RECORDS) && mailbox.is_filled();
            if size > ROUND_SIZE || is_called {
                return ControlFlow::Break(());
            }
            let Some(lane) = lanes.get_mut(at) else { return ControlFlow::Continue(()) };
            let mask = lane.sessions_of(record);
            if mask == 0 {
                // Its sessions have ended: they were told of it as a loss, if it was not drained in time.
                return ControlFlow::Continue(());
            }
            let thread_id = lane.thread(record.tid);
            let time = map.qpc(record.time);
            let Lane { registrations, sites, facts, process_id, hostile, .. } = lane;
            let mut lookup = |id: u32| sites.get(id).map(<[u8]>::to_vec);
            let Some(event) = registrations.event(record, time, *process_id, &mut lookup) else {
                *hostile += 1;
                return ControlFlow::Continue(());
            };
            // A time that the writer has set is shown as it is.
            let raw = (event.time == time).then_some(record.time as i64);
            let event = Event { process: Some(facts), raw, thread_id, ..event };
            size += 40 + record.payload.len() as u64;
            match router.route_or_wait(mask, patient, &event) {
                Some(_) => ControlFlow::Continue(()),
                None => {
                    has_waited = true;
                    ControlFlow::Break(())
                }
            }
        });
        let now = Instant::now();
        let mut empty = Vec::new();
        for (at, one) in participants.iter_mut().enumerate() {
            let lane = &mut lanes[at];
            lane.hostile += one.drained.hostile;
            if one.drained.records > 0 || one.drained.is_rest {
                lane.active = now;
                one.reader.wake();
            } else if lane.has_ended {
                empty.push(at);
            } else if !one.reader.is_quiet() && now - lane.active >= QUIET_AFTER {
                let (drained, in_flight) = (one.drained, one.is_in_flight);
                one.reader.be_quiet(&drained, in_flight);
            }
        }
        drop(participants);
        self.map.pass(drained.watermark);
        self.floor = drained.watermark;
        self.count_hostile();
        self.seal_and_store();
        for at in empty.into_iter().rev() {
            self.forget(at);
        }
        self.wait_for_buffers(has_waited);
        drained
    }

    /// The sessions that may hold the drain up when they have no free buffer. The pools are then a reserve for all; but one
    /// that is slow shall cost the others nothing, so the wait is short, unless the session is alone.
    fn patient(&self) -> u64 {
        let alone = self.sessions.len() == 1;
        let mut patient = 0;
        for (slot, global) in &self.sessions {
            let comes_back = global.storage.is_some() || !global.consumers.is_empty();
            let is_slow = global.slow_at.is_some_and(|at| at.elapsed() < SLOW);
            if comes_back && (!is_slow || alone && global.storage.is_some()) {
                patient |= 1 << slot;
            }
        }
        patient
    }

    fn wait_for_buffers(&mut self, has_waited: bool) {
        let alone = self.sessions.len() == 1;
        let waiting = has_waited && !alone;
        let is_pressed = waiting
            && self
                .lanes
                .iter()
                .zip(&self.readers)
                .any(|(lane, reader)| !reader.is_quiet() && reader.pressure() != lane.pressure);
        for (slot, global) in &mut self.sessions {
            let Some(session) = self.router.session_mut(*slot) else { continue };
            if session.free_buffers() > 0 || !has_waited {
                global.waiting_since = None;
                continue;
            }
            global.take_done(session, Some(Duration::from_millis(2)));
            if session.free_buffers() > 0 {
                global.waiting_since = None;
                continue;
            }
            let since = *global.waiting_since.get_or_insert_with(Instant::now);
            if !alone && (is_pressed || since.elapsed() > BUFFER_PATIENCE) {
                global.waiting_since = None;
                global.slow_at = Some(Instant::now());
            }
        }
    }

    fn seal_and_store(&mut self) {
        self.batch += 1;
        let (raw, batch) = (self.clocks.0.now(), self.batch);
        for (slot, global) in &self.sessions {
            if let Some(session) = self.router.session_mut(*slot) {
                session.tick(global.time.time(&self.map, raw));
                session.seal(batch);
            }
        }
        let Pair { raw: at, ns } = self.map.beginning();
        self.last.keep(batch, [at, ns, self.floor, 0]);
        let readers = self.readers.iter_mut().filter(|reader| !reader.is_quiet());
        advance_together(readers, &self.last, batch);
        let slots: Vec<usize> = self.sessions.keys().copied().collect();
        for slot in slots {
            self.give_away(slot);
        }
    }

    fn give_away(&mut self, slot: usize) {
        let lost = match self.router.session(slot) {
            // The programs' own counters are asked at the end only: it is a system call for each.
            Some(session) => session.ledger().lost_total(),
            None => return,
        };
        let floor = self.floor;
        let (Some(global), Some(session)) =
            (self.sessions.get_mut(&slot), self.router.session_mut(slot))
        else {
            return;
        };
        global.store(session, lost);
        global.tell_watermark(session, global.time.time(&self.map, floor));
        let (returned, is_storing) = (global.returned, session.is_storing());
        while let Some((_, asker)) =
            global.flushes.pop_front_if(|(until, _)| !is_storing || returned >= *until)
        {
            asker.answer(&Response::Done { warnings: Vec::new() });
        }
        self.publish(slot);
    }

    /// Writers learn whether the session has room.
    fn publish(&mut self, slot: usize) {
        let (Some(global), Some(session)) =
            (self.sessions.get_mut(&slot), self.router.session(slot))
        else {
            return;
        };
        let free = session.free_buffers();
        let comes_back = global.storage.is_some() || !global.consumers.is_empty();
        let is_slow = global.slow_at.is_some_and(|at| at.elapsed() < SLOW);
        let full = match session.state() {
            State::Running if session.options().mode == etw_session::LogMode::Memory => false,
            // It is waited for.
            State::Running if comes_back && !is_slow => false,
            // A full one is not asked again for every buffer that comes back.
            State::Running if global.is_full => free < (global.buffers as usize / 8).max(1),
            State::Running => free == 0,
            _ => true,
        };
        if full != global.is_full {
            global.is_full = full;
            self.publish_admission(slot);
        }
    }

    pub fn publish_admission(&mut self, session: usize) {
        let of: Vec<(Connection, usize)> = self
            .programs
            .iter()
            .filter_map(|(connection, program)| Some((*connection, program.slot_of(session)?)))
            .collect();
        for (connection, slot) in of {
            let admission = self.admission(session, connection);
            if let Some(program) = self.programs.get(&connection) {
                program.control.set_admission(slot, admission);
            }
        }
    }

    fn admission(&self, session: usize, connection: Connection) -> Admission {
        let (Some(global), Some(inner), Some(program)) = (
            self.sessions.get(&session),
            self.router.session(session),
            self.programs.get(&connection),
        ) else {
            return Admission::default();
        };
        let properties = inner.enablements().map(|(_, info)| info.properties);
        let extra = properties.map(|properties| program.facts.extra_size(properties)).max();
        Admission {
            open: true,
            full: global.is_full,
            independent: inner.options().independent,
            extra_size: extra.unwrap_or(0) as u16,
            largest_size: inner.largest_event() as u32,
        }
    }

    fn count_hostile(&mut self) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.hostile > 0) {
            let count = std::mem::take(&mut lane.hostile);
            for slot in lane.slots.iter().flatten() {
                if let Some(session) = self.router.session_mut(slot.session) {
                    let ledger = session.ledger_mut();
                    ledger.attempted += count;
                    ledger.count_lost(Cause::Hostile, None, Some(lane.process_id), count);
                }
            }
        }
    }

    /// Everything committed before now is in the sessions, but for writes that take too long. It takes as long as a disk takes that
    /// buffers are waited for; without any progress it ends after a while.
    pub fn drain_all(&mut self) {
        let until = self.clocks.0.now();
        let mut progress = Instant::now();
        loop {
            let before = self.floor;
            let drained = self.round(PATIENCE);
            // A round that has stopped gave everything before its watermark: of programs that write as fast as it drains there is
            // always more, which is not what was asked for.
            if drained.watermark > until || !drained.stopped && drained.watermark >= until {
                return;
            }
            if drained.records > 0 || self.floor > before {
                progress = Instant::now();
            }
            if progress.elapsed() > Duration::from_secs(2) {
                return;
            }
        }
    }

    /// A program that has ended, and all of whose records are drained.
    fn forget(&mut self, at: usize) {
        let connection = self.lanes[at].connection;
        let process = self.lanes[at].process_id;
        if let Some(program) = self.programs.remove(&connection) {
            self.forget_program(connection, &program);
            for (slot, used) in program.slots.iter().enumerate() {
                if let Some(used) = used {
                    let losses = losses_of(&self.readers[at], slot, &used.base, true);
                    if let Some(session) = self.router.session_mut(used.session) {
                        count(session.ledger_mut(), &losses, process);
                    }
                }
            }
        }
        self.tokens.remove(&connection);
        self.lanes.swap_remove(at);
        self.readers.swap_remove(at);
        if let Some(moved) = self.lanes.get(at)
            && let Some(program) = self.programs.get_mut(&moved.connection)
        {
            program.lane = Some(at);
        }
    }

    /// A session's ledger with what programs have counted.
    pub fn ledger(&self, session: usize) -> Ledger {
        let mut ledger = match self.router.session(session) {
            Some(session) => session.ledger().clone(),
            None => Ledger::default(),
        };
        for program in self.programs.values() {
            let (Some(slot), Some(lane)) = (program.slot_of(session), program.lane) else {
                continue;
            };
            if let Some(used) = &program.slots[slot] {
                let losses = losses_of(&self.readers[lane], slot, &used.base, false);
                count(&mut ledger, &losses, program.peer.pid);
            }
        }
        ledger
    }

    // ---- sessions -------------------------------------------------------------------------------------------------

    /// Tells all programs with a provider what a session wants of it now; which of them are to answer, and what could not be.
    pub fn spread(
        &mut self,
        session: usize,
        provider: &Guid,
    ) -> (HashMap<Connection, Option<u32>>, Vec<String>) {
        let mut waiting = HashMap::new();
        let mut warnings = Vec::new();
        let matching: Vec<(Connection, Vec<u32>)> = self
            .programs
            .iter()
            .filter(|(_, program)| !program.has_ended)
            .filter(|(_, program)| {
                self.sessions.get(&session).is_some_and(|session| self.may_see(session, program))
            })
            .map(|(connection, program)| {
                let of = |registered: &Registered| {
                    registered.provider.id == *provider || registered.group == *provider
                };
                let numbers = program.providers.iter().filter(|(_, r)| of(r)).map(|(n, _)| *n);
                (*connection, numbers.collect())
            })
            .filter(|(_, numbers): &(_, Vec<u32>)| !numbers.is_empty())
            .collect();
        for (connection, numbers) in matching {
            let Some(program) = self.programs.get_mut(&connection) else { continue };
            if program.lane.is_none() {
                ask_for_pool(program);
                waiting.insert(connection, None);
                continue;
            }
            for number in numbers {
                match self.tell_of(connection, number, session) {
                    Some(token) => {
                        waiting.insert(connection, Some(token));
                    }
                    None => {
                        let process = self.programs.get(&connection).map_or(0, |p| p.peer.pid);
                        warnings.push(format!(
                            "process {process} has eight sessions of this host already"
                        ));
                    }
                }
            }
        }
        warnings.dedup();
        (waiting, warnings)
    }

    /// Says something to all programs that have a provider which the session has enabled; which of them are to answer.
    pub fn ask_all<'m>(
        &mut self,
        session: usize,
        provider: &Guid,
        message: impl Fn(u32, u32) -> FromHost<'m>,
    ) -> (HashMap<Connection, Option<u32>>, Vec<String>) {
        let mut waiting = HashMap::new();
        for (connection, program) in &self.programs {
            if program.slot_of(session).is_none() || program.has_ended {
                continue;
            }
            for (number, registered) in &program.providers {
                if registered.provider.id == *provider || registered.group == *provider {
                    let token = self.tokens.entry(*connection).or_default();
                    *token += 1;
                    program.say(&message(*token, *number));
                    waiting.insert(*connection, Some(*token));
                }
            }
        }
        let none = waiting.is_empty().then(|| "no program has this provider registered".to_owned());
        (waiting, Vec::from_iter(none))
    }

    /// Tells all programs that a session wants nothing of a provider any more; `None`: of none of its providers.
    pub fn withdraw(&mut self, session: usize, provider: Option<&Guid>) {
        let source = self.sessions.get(&session).map_or(Guid::ZERO, |session| session.guid);
        let connections: Vec<Connection> = self.programs.keys().copied().collect();
        for connection in connections {
            let Some(program) = self.programs.get_mut(&connection) else { continue };
            let Some(slot) = program.slot_of(session) else { continue };
            let mut is_wanted = false;
            for (number, registered) in &program.providers {
                let of = registered.provider.id;
                let goes = provider.is_none_or(|id| *id == of || *id == registered.group);
                let still = wanted_of(&self.router, session, registered);
                match still.filter(|_| provider.is_some()) {
                    // By its group, when it was by itself, or the other way round.
                    Some(info) => {
                        is_wanted = true;
                        if goes {
                            let token = self.tokens.entry(connection).or_default();
                            *token += 1;
                            program.tell(*token, *number, slot, Some(&info.wanted), source);
                        }
                    }
                    None if goes => {
                        let token = self.tokens.entry(connection).or_default();
                        *token += 1;
                        program.tell(*token, *number, slot, None, source);
                    }
                    None => {}
                }
            }
            if !is_wanted {
                self.release_slot(connection, slot);
            }
        }
    }

    /// The slot may be another session's from now on. What its writers have lost is counted.
    fn release_slot(&mut self, connection: Connection, slot: usize) {
        let Some(program) = self.programs.get_mut(&connection) else { return };
        let Some(used) = program.slots[slot].take() else { return };
        program.control.set_admission(slot, Admission::default());
        if let Some(lane) = program.lane {
            self.lanes[lane].set_slots(&program.slots);
            let losses = losses_of(&self.readers[lane], slot, &used.base, true);
            let process = program.peer.pid;
            if let Some(session) = self.router.session_mut(used.session) {
                count(session.ledger_mut(), &losses, process);
            }
        }
        self.keep_program(connection);
    }

    /// Stops a session: what was written before is stored. Its files are completed by a thread of their own, so that a slow
    /// disk holds nobody else up; the answer comes from there.
    pub fn stop_session(&mut self, slot: usize, asker: Option<Asker>) {
        if !self.sessions.contains_key(&slot) {
            return;
        }
        for program in self.programs.values() {
            if let Some(at) = program.slot_of(slot) {
                program.control.set_admission(at, Admission::default());
            }
        }
        self.drain_all();
        self.withdraw(slot, None);
        let raw = self.clocks.0.now();
        let (Some(mut global), Some(mut session)) =
            (self.sessions.remove(&slot), self.router.remove(slot))
        else {
            return;
        };
        let now = global.time.time(&self.map, raw).max(session.facts().last_time);
        let batch = self.batch + 1;
        let mailbox = self.mailbox.clone();
        self.finishing.insert(slot, global.name.clone());
        let finish = move || {
            let ledger = session.ledger().clone();
            let lost = ledger.lost_total();
            let settle = |global: &mut GlobalSession, session: &mut Session<BufferMemory>| {
                session.seal(batch);
                global.store(session, lost);
                global.take_done(session, Some(Duration::from_millis(100)));
            };
            global.report(&mut session, &ledger, now, settle);
            session.stop(now);
            session.seal(batch);
            global.store(&mut session, lost);
            while global.storage.is_some() && session.is_storing() {
                global.take_done(&mut session, Some(Duration::from_millis(100)));
                global.store(&mut session, lost);
            }
            let lost = session.ledger().lost_total();
            let closing = global.closing(&session, lost, true);
            let mut result = match global.storage.take() {
                Some(storage) => storage.finish(closing),
                None => Ok(()),
            };
            if let (Ok(()), Some(error)) = (&result, &global.error) {
                result = Err(io::Error::other(error.clone()));
            }
            global.tell_watermark(&session, now);
            let ledger = session.ledger().clone();
            let status = global.status(slot, &session, &ledger, true);
            for (_, waiting) in global.flushes.drain(..) {
                waiting.answer(&Response::Done { warnings: Vec::new() });
            }
            drop(global);
            let answer = Box::new(Finished { status, result, asker });
            mailbox.post(Message::Finished { slot, answer });
        };
        // Without a thread it is done here, and everybody waits.
        let shared = Arc::new(std::sync::Mutex::new(Some(finish)));
        let theirs = shared.clone();
        let run = move || {
            let finish = theirs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
            if let Some(finish) = finish {
                finish();
            }
        };
        if etw_host::spawn("etw-finish", run).is_err() {
            let finish = shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
            if let Some(finish) = finish {
                finish();
            }
        }
    }

    /// Stops everything and waits for the files.
    fn stop_all(&mut self) {
        let slots: Vec<usize> = self.sessions.keys().copied().collect();
        for slot in slots {
            self.stop_session(slot, None);
        }
        while !self.finishing.is_empty() {
            for message in self.mailbox.take() {
                if let Message::Finished { .. } = message
                    && self.handle(message).is_break()
                {
                    return;
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    // ---- time -----------------------------------------------------------------------------------------------------

    fn next_pause(&mut self, drained: &DrainedTogether, started: Instant) -> Duration {
        if drained.stopped || self.mailbox.is_filled() {
            return Duration::ZERO;
        }
        let awake = self.readers.iter().any(|reader| !reader.is_quiet());
        let watched = self.sessions.values().any(|session| !session.consumers.is_empty());
        let longest = match (awake, self.sessions.is_empty()) {
            (true, _) if watched => LIVE_PAUSE,
            (true, _) => LONGEST_PAUSE,
            (false, false) => QUIET_PAUSE,
            (false, true) => Duration::from_secs(3600),
        };
        let elapsed = started.elapsed() + self.pause;
        let eighth = u64::from(self.options.pool_size) / 8;
        self.pause = if drained.size == 0 {
            (self.pause * 2).clamp(SHORTEST_PAUSE, longest)
        } else {
            let wait = elapsed.as_nanos() * u128::from(eighth) / u128::from(drained.size);
            Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)).min(longest)
        };
        let mut pause = if awake { self.pause } else { longest };
        if let Some(due) = self.next_due() {
            pause = pause.min(due.max(SHORTEST_PAUSE));
        }
        for pending in &self.pending {
            let left = pending.deadline.saturating_duration_since(Instant::now());
            pause = pause.min(left.max(SHORTEST_PAUSE));
        }
        let storing = self.router.iter_mut().any(|(_, session)| session.is_storing());
        if storing && self.sessions.values().any(|session| session.storage.is_some()) {
            pause = pause.min(Duration::from_millis(5));
        }
        if let Some(idle) = self.options.idle_exit {
            pause = pause.min(idle);
        }
        pause
    }

    /// How long until a flush timer has something to do.
    fn next_due(&mut self) -> Option<Duration> {
        let raw = self.clocks.0.now();
        let mut next: Option<Duration> = None;
        for (slot, global) in &self.sessions {
            let Some(due) = self.router.session(*slot).and_then(Session::due) else { continue };
            let now = global.time.time(&self.map, raw);
            let ticks = u64::try_from(due.saturating_sub(now)).unwrap_or(0);
            let per_second = match global.time {
                etw_host::facts::SessionTime::Raw => {
                    u64::from(global.facts.header.cpu_speed_mhz) * 1_000_000
                }
                _ => 10_000_000,
            };
            let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(per_second.max(1));
            let left = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            next = Some(next.map_or(left, |next| next.min(left)));
        }
        next
    }

    fn answer_pending(&mut self) {
        let now = Instant::now();
        let mut left = Vec::new();
        for pending in std::mem::take(&mut self.pending) {
            if pending.waiting.is_empty() {
                pending.asker.answer(&pending.response);
            } else if now >= pending.deadline {
                let processes: HashSet<u32> = pending
                    .waiting
                    .keys()
                    .filter_map(|connection| Some(self.programs.get(connection)?.peer.pid))
                    .collect();
                let mut response = pending.response;
                if let Response::Done { warnings } = &mut response {
                    for process in processes {
                        warnings.push(format!(
                            "process {process} has not answered yet; it is enabled when it does"
                        ));
                    }
                }
                pending.asker.answer(&response);
            } else {
                left.push(pending);
            }
        }
        self.pending = left;
    }

    fn maintain(&mut self) {
        if self.upkeep.elapsed() < UPKEEP {
            return;
        }
        self.upkeep = Instant::now();
        let slots: Vec<usize> = self.sessions.keys().copied().collect();
        for slot in slots {
            let lost = self.ledger(slot).lost_total();
            if let (Some(global), Some(session)) =
                (self.sessions.get(&slot), self.router.session(slot))
                && let Some(storage) = &global.storage
            {
                storage.update_header(global.closing(session, lost, false));
            }
        }
        self.grow();
    }

    /// More pool where writers found little room.
    fn grow(&mut self) {
        let most = self.options.pool_limit;
        for (lane, reader) in self.lanes.iter_mut().zip(&self.readers) {
            if reader.is_quiet() {
                continue;
            }
            let pressure = reader.pressure();
            if std::mem::replace(&mut lane.pressure, pressure) == pressure {
                continue;
            }
            let Some(program) = self.programs.get_mut(&lane.connection) else { continue };
            let size = program.pool_size.min(most.saturating_sub(program.pool_size));
            let size = size / (128 << 10) * (128 << 10);
            if size > 0 && program.growing.is_none() {
                program.growing = Some(size);
                program.say(&FromHost::Grow { size });
            }
        }
    }

    fn is_idle_for_too_long(&mut self) -> bool {
        let busy = !self.sessions.is_empty()
            || !self.finishing.is_empty()
            || self.controllers.load(Ordering::Relaxed) > 0;
        if busy {
            self.idle_since = Instant::now();
        }
        self.options.idle_exit.is_some_and(|idle| self.idle_since.elapsed() >= idle)
    }
}

/// What a session wants of a registration: by its GUID, else by its group.
fn wanted_of<'a>(
    router: &'a Router<BufferMemory>,
    session: usize,
    registered: &Registered,
) -> Option<&'a EnableInfo> {
    let session = router.session(session)?;
    session.enabled(&registered.provider.id).or_else(|| {
        (!registered.group.is_zero()).then(|| session.enabled(&registered.group)).flatten()
    })
}

fn ask_for_pool(program: &mut Program) {
    if !std::mem::replace(&mut program.pool_is_asked, true) {
        program.say(&FromHost::NeedPool);
    }
}

/// The connection's end, for both sides: the server hears of it.
pub(crate) fn end(channel: &Channel) {
    let _ = rustix::net::shutdown(channel, rustix::net::Shutdown::Both);
}

/// What a program's counters say of a slot, since the slot's session began: attempts that are elsewhere in no count, and losses.
fn losses_of(reader: &Reader, slot: usize, base: &Base, is_end: bool) -> Vec<(Cause, u64)> {
    let now = Base::of(Some(reader), slot);
    let mut losses = Vec::new();
    let mut elsewhere = 0u64;
    for (index, cause) in RingCause::ALL.into_iter().enumerate() {
        let cause = match cause {
            RingCause::NoChunk => Cause::NoChunk,
            RingCause::SessionFull => Cause::SessionFull,
            RingCause::TooLarge => Cause::TooLarge,
            RingCause::TooLargeForSession => Cause::TooLargeForSession,
            RingCause::AllOrNone => Cause::AllOrNone,
            _ => Cause::Abandoned,
        };
        // A program may say anything: what goes back is nothing.
        let count = now.lost[index].saturating_sub(base.lost[index]);
        elsewhere = elsewhere.saturating_add(count);
        losses.push((cause, count));
    }
    let mut late = now.late - base.late;
    if is_end {
        let arrived = (now.drained - base.drained) + late;
        let attempted = now.attempted.saturating_sub(base.attempted);
        let missing = attempted.saturating_sub(arrived.saturating_add(elsewhere));
        // One write in flight per thread is what an honest program leaves.
        late += missing;
    }
    losses.push((Cause::Late, late));
    losses
}

fn count(ledger: &mut Ledger, losses: &[(Cause, u64)], process: u32) {
    for (cause, count) in losses {
        // Of a hostile program's numbers no sum may overflow.
        let count = (*count).min(u64::MAX >> 16);
        ledger.attempted = ledger.attempted.saturating_add(count);
        ledger.count_lost(*cause, None, Some(process), count);
    }
}

/// A copy for the keeper: of a message with one descriptor, which is what is taken.
fn kept_descriptor(descriptors: &[std::os::fd::OwnedFd]) -> Option<std::os::fd::OwnedFd> {
    match descriptors {
        [one] => one.try_clone().ok(),
        _ => None,
    }
}
