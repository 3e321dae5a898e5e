//! The engine: one thread that owns programs, sessions and pools.
//!
//! A round drains all pools in one order of time, up to one watermark, into the sessions; seals their buffers; makes the
//! batch final in all pools at once; and only then gives buffers away. Between rounds messages are dealt with. What changes
//! who gets an event drains first, so that what was written before is judged by what held then.

mod enablements;
mod programs;
mod recovery;
mod requests;
mod rounds;
mod schedule;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use etw_host::clock::{ClockMap, Pair};
use etw_host::registrations::{Given, Origin};
use etw_host::storage::BufferMemory;
use etw_ring::{
    Admission, Barrier, Cause as RingCause, Control, DrainOptions, DrainedTogether, LastBatch,
    Memory, PATIENCE, Participant, RawClock, Reader, advance_together, drain_together,
};
use etw_session::{Cause, EnableInfo, Ledger, Router, Session, State};
use etw_types::{Guid, LoadedModule};
use etw_wire::control::Response;
use etw_wire::message::{FromHost, FromProgram, VERSION};
use etw_wire::{Channel, Peer};

use crate::global_host::HostOptions;
use crate::global_session::{Finished, Finishing, GlobalSession};
use crate::keeper_protocol::{ENDING, Keep, KeptProgram, KeptRegistration, KeptSession};
use crate::mailbox::{Asker, Connection, Mailbox, Message};
use crate::program::{Base, Lane, Program, Registered, segment};

/// Bytes of pools that one round takes at most.
const ROUND_SIZE: u64 = 8 << 20;
/// A pool grows by no more at a time.
const LARGEST_SEGMENT: u32 =
    (etw_ring::layout::MAX_SEGMENT_UNITS * etw_ring::layout::UNIT_SIZE) as u32;
/// After so many records a round that somebody's message waits for ends.
const PATIENT_RECORDS: u64 = 2000;
/// How long the drain waits for a session's buffers to come back from the disk, as long as every program finds at least half of its
/// pool free. Then the session loses events, and is not waited for again for [`SLOW`].
const BUFFER_PATIENCE: Duration = Duration::from_millis(100);
const SLOW: Duration = Duration::from_millis(250);
/// How long programs are waited for at a session's end that have not answered what it wants; what they have said reaches the engine
/// through another thread, which waits for its turn on a busy machine.
const HEARING: Duration = Duration::from_millis(500);
/// A pool from which nothing has come for so long is left alone until its next write.
const QUIET_AFTER: Duration = Duration::from_millis(60);
/// How often a host with quiet pools looks at them all the same: a write's call may find it on its way to sleep, and looking at
/// hundreds of programs is a system call for each.
const QUIET_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause while events come.
const LONGEST_PAUSE: Duration = Duration::from_millis(25);
/// The same, when somebody watches.
const LIVE_PAUSE: Duration = Duration::from_millis(1);
const SHORTEST_PAUSE: Duration = Duration::from_micros(60);
/// A thread that has not written for so long gives its chunk back.
const RECLAIM: Duration = Duration::from_millis(500);
/// Complaints of one user's programs that are told.
const MAX_COMPLAINTS: u64 = 100;
/// How often files' headers are brought up to date.
const UPKEEP: Duration = Duration::from_millis(500);

pub(crate) struct HostThread {
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
    pub finishing: HashMap<usize, Finishing>,
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
    /// When a round for a request has to end, whatever is left.
    deadline: Option<Instant>,
    /// Since the last upkeep.
    has_drained: bool,
    /// Programs that were shown out, by user.
    complaints: HashMap<u32, u64>,
}

/// A controller that waits until programs have made a change.
pub(crate) struct Pending {
    /// Whose wishes it is about.
    pub session: usize,
    /// The change's number at each program; `None`: not sent yet, the pool is not there.
    pub waiting: HashMap<Connection, Option<u32>>,
    pub deadline: Instant,
    pub asker: Asker,
    pub response: Response,
    /// What did not go as asked.
    pub warnings: Vec<String>,
}

/// Warnings of one answer, which is one message.
const MAX_WARNINGS: usize = 100;

impl Pending {
    /// Answers with what is known by now.
    fn answer(mut self, sessions: &BTreeMap<usize, GlobalSession>) {
        let mut known = HashSet::new();
        self.warnings.retain(|warning| known.insert(warning.clone()));
        if self.warnings.len() > MAX_WARNINGS {
            let more = self.warnings.split_off(MAX_WARNINGS).len();
            self.warnings.push(format!("and {more} warnings more"));
        }
        match &mut self.response {
            Response::Done { warnings } => warnings.append(&mut self.warnings),
            Response::Session(status) => {
                if let Some(global) = sessions.get(&self.session)
                    && global.guid == status.guid
                {
                    status.refused = global.refusals.count;
                    status.refusals.clone_from(&global.refusals.rows);
                }
                if !self.warnings.is_empty() {
                    status.error = Some(self.warnings.join("; "));
                }
            }
            _ => {}
        }
        self.asker.answer(&self.response);
    }
}

impl HostThread {
    pub fn new(
        mailbox: Arc<Mailbox>,
        options: HostOptions,
        controllers: Arc<AtomicUsize>,
        last: LastBatch,
        keep: Keep,
    ) -> HostThread {
        let raw = RawClock::best();
        let first = Pair::now(raw);
        let mut map = ClockMap::new(first, raw);
        std::thread::sleep(Duration::from_millis(1));
        map.observe(Pair::now(raw));
        HostThread {
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
            deadline: None,
            has_drained: false,
            complaints: HashMap::new(),
        }
    }

    pub fn run(mut self) {
        loop {
            let mut messages: Vec<Message> = self.mailbox.take().into();
            let was_called = !messages.is_empty();
            // Programs' first: what somebody asks is answered with all that they have said.
            messages.sort_by_key(|message| !message.is_of_program());
            let mut messages = messages.into_iter();
            while let Some(message) = messages.next() {
                if let ControlFlow::Break(()) = self.handle(message) {
                    // Among them may be that a session has finished, which is waited for.
                    messages.for_each(|message| self.mailbox.post(message));
                    self.keep_end();
                    self.stop_all();
                    return;
                }
                self.mailbox.beat();
            }
            let started = Instant::now();
            let drained = match was_called || self.has_work() {
                true => self.round(Duration::ZERO),
                false => DrainedTogether::default(),
            };
            self.has_drained |= drained.records > 0;
            self.answer_pending();
            self.stop_orphans();
            self.maintain();
            if self.is_idle_for_too_long() {
                return;
            }
            let pause = self.next_pause(&drained, started);
            if pause >= SHORTEST_PAUSE {
                let HostThread { mailbox, readers, .. } = &self;
                mailbox.bell.sleep(pause, || {
                    mailbox.is_filled()
                        || readers.iter().any(|reader| reader.is_quiet() && reader.is_rung())
                });
            }
        }
    }

    /// A worker that takes over ends, too.
    pub(crate) fn keep_end(&self) {
        self.keep.put(ENDING, &(), &[]);
    }

    /// Would a round find anything? Of pools that are all quiet only whether somebody has rung is asked.
    pub(crate) fn has_work(&mut self) -> bool {
        self.readers.iter().any(|reader| !reader.is_quiet() || reader.is_rung())
            || self.lanes.iter().any(|lane| lane.has_ended)
            || self.is_storing()
            || self.next_due().is_some_and(|due| due.is_zero())
            || self.sessions.values().any(|global| !global.flushes.is_empty())
    }

    /// Are buffers on their way to a disk?
    pub(crate) fn is_storing(&self) -> bool {
        self.sessions.iter().any(|(slot, global)| {
            global.storage.is_some()
                && (!global.before.is_empty()
                    || self.router.session(*slot).is_some_and(|session| session.is_storing()))
        })
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
        etw_host::kill_point::kill_point("pool asked");
    }
}

/// The connection's end, for both sides: the server hears of it.
pub(crate) fn end(channel: &Channel) {
    let _ = rustix::net::shutdown(channel, rustix::net::Shutdown::Both);
}

/// What a program's counters say of a slot, since the slot's session began: attempts that are elsewhere in no count, and losses, by
/// registration where that is known.
fn losses_of(reader: &Reader, slot: usize, base: &Base, is_end: bool) -> Vec<RingLoss> {
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
        // Whose they were is a part of the same number, whatever the program says.
        let mut left = count;
        for (registration, lost) in &now.by_registration {
            let before = base.by_registration.iter().find(|(number, _)| number == registration);
            let before = before.map_or(0, |(_, lost)| lost[index]);
            let count = u64::from(lost[index].wrapping_sub(before)).min(left);
            left -= count;
            losses.push(RingLoss { cause, registration: Some(*registration), count });
        }
        losses.push(RingLoss { cause, registration: None, count: left });
    }
    let mut late = now.late - base.late;
    if is_end {
        let arrived = (now.drained - base.drained) + late;
        let attempted = now.attempted.saturating_sub(base.attempted);
        let missing = attempted.saturating_sub(arrived.saturating_add(elsewhere));
        // One write in flight per thread is what an honest program leaves.
        late += missing;
    }
    losses.push(RingLoss { cause: Cause::Late, registration: None, count: late });
    losses
}

/// So many events of a program's, lost in its pool.
struct RingLoss {
    cause: Cause,
    registration: Option<u32>,
    count: u64,
}

fn count(ledger: &mut Ledger, losses: &[RingLoss], lane: &Lane) {
    for RingLoss { cause, registration, count } in losses {
        // Of a hostile program's numbers no sum may overflow.
        let count = (*count).min(u64::MAX >> 16);
        ledger.attempted = ledger.attempted.saturating_add(count);
        let provider = registration.and_then(|number| lane.registrations.get(number));
        ledger.count_lost(*cause, provider.map(|p| p.id), Some(lane.process_id), count);
    }
}

/// By which a memory is known again, and its size.
pub(crate) fn identity(memory: Option<&std::os::fd::OwnedFd>) -> Option<(u64, u32)> {
    let memory = rustix::fs::fstat(memory?).ok()?;
    Some((memory.st_ino, u32::try_from(memory.st_size).unwrap_or(u32::MAX)))
}

/// A copy for the keeper: of a message with one descriptor, which is what is taken.
fn kept_descriptor(descriptors: &[std::os::fd::OwnedFd]) -> Option<std::os::fd::OwnedFd> {
    match descriptors {
        [one] => one.try_clone().ok(),
        _ => None,
    }
}
