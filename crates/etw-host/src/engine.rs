//! The engine of every host: it drains pools in one order of time, routes records into sessions, makes each batch final in
//! all pools and sessions at one instant, and hands full buffers over.
//!
//! ```text
//!   AttachedPool ─┐                                               ┌─► Storage (files, or a consumer of this process)
//!   AttachedPool ─┼─ drain: one order ─► Router ─► Session ─ seal ┤
//!   AttachedPool ─┘  of time up to the             buffers        └─► Sink (live consumers)
//!    sources         watermark                                         sinks
//! ```
//!
//! * `pool`, `slots`: the sources, and the sessions that their slots name; `losses`: what their writers could not write;
//! * `round`: the round, and draining for a request; `routing`: records into sessions;
//! * `session`: a session with its storage, report and modules, and the [`Sink`] that its host gives it;
//! * `source`: events of the system, which come from no pool;
//! * `schedule`: pauses, flush timers, upkeep, growth; `ending`: the end of a session.
//!
//! The engine has no sockets and asks nobody. A private session is an engine with one pool and one session; `etwd` adds the
//! server, the programs, the requests, the consumers and the keeper. What changes who gets an event drains first, so that
//! earlier events are judged by the enablements of their time.

mod ending;
mod losses;
mod pool;
mod round;
mod routing;
pub mod schedule;
mod session;
mod slots;
mod source;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use etw_ring::{Barrier, LastBatch, RawClock, Reader, Source, copy_past_caches};
use etw_session::{OLDEST_FILES, Router, RunStage};
use etw_types::SchemaRecord;

pub use ending::{EndedSession, EndingSession};
pub(crate) use pool::LARGEST_SEGMENT;
pub use pool::{AttachedPool, Growth, PoolProcess};
pub use session::{BufferedSession, HostedSession, Sink};
pub use slots::{Slot, SlotCounters, SlotTable};
use source::SessionSource;
pub use source::{CpuState, EventSource, SourceLoss, SystemRun};

use crate::clock::{ClockMap, Pair};
use crate::facts::file_name;
use crate::files::Files;
use crate::ledger_report::LedgerReport;
use crate::storage::BufferMemory;

/// How an engine is set up.
pub struct EngineSetup {
    /// Raw clock and barrier of all pools.
    pub clock: RawClock,
    /// The barrier between host and writers.
    pub barrier: Barrier,
    /// A reading of the clocks from some time ago: the rate comes from it and from one now.
    pub first: Pair,
    /// The last final batch, in memory that outlives the engine if a later one is to continue it.
    pub last: LastBatch,
    /// The longest pause while a pool is not quiet.
    pub longest_pause: Duration,
    /// Bytes of a pool at its start.
    pub pool_size: u64,
    /// Whether the host has something else to do: a round without patience then ends early.
    pub interrupt: Box<dyn Fn() -> bool + Send>,
}

impl std::fmt::Debug for EngineSetup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineSetup").field("clock", &self.clock).finish_non_exhaustive()
    }
}

/// Pools, sessions, and the order of time between them. `S` is the host's own part of each session.
pub struct Engine<S> {
    clock: RawClock,
    barrier: Barrier,
    longest_pause: Duration,
    pool_size: u64,
    interrupt: Box<dyn Fn() -> bool + Send>,
    /// Raw time to session time.
    map: ClockMap,
    router: Router<BufferMemory>,
    /// By their number in the router.
    sessions: BTreeMap<usize, HostedSession<S>>,
    /// The pools and, at the same index, their readers.
    pools: Vec<AttachedPool>,
    readers: Vec<Reader>,
    /// Index of a pool by its key.
    index: HashMap<u64, usize>,
    /// Sources of the system's events, each of one session.
    sources: Vec<SessionSource>,
    /// Where runs are put together, for the buffers of all sessions.
    stage: RunStage,
    /// Growth that pools need and that the engine has not requested from the host yet.
    growth: Vec<GrowthRequest>,
    /// Every record before this raw time has been drained.
    watermark: u64,
    batch: u64,
    last: LastBatch,
    pause: Duration,
    /// The records that programs wrote while no worker drained their pools.
    backlog: Option<Backlog>,
    /// When the files' headers were last brought up to date; whether anything has happened since.
    upkeep: Instant,
    has_changed: bool,
    /// When a round for a request has to end.
    deadline: Option<Instant>,
}

/// The records that an engine found when it took over from one that was killed. Their writers know them as written.
#[derive(Clone, Copy, Debug)]
struct Backlog {
    /// Raw time of the takeover.
    until: u64,
    since: Instant,
}

/// A pool is to grow: its process has to allocate a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrowthRequest {
    /// The pool.
    pub pool: u64,
    /// Bytes of the segment.
    pub size: u64,
}

impl<S> std::fmt::Debug for Engine<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("batch", &self.batch).finish_non_exhaustive()
    }
}

impl<S: Sink> Engine<S> {
    /// An engine that continues after the batch of `setup.last`; with a new `last`, the first one.
    pub fn new(setup: EngineSetup) -> Engine<S> {
        let EngineSetup { clock, barrier, first, last, longest_pause, pool_size, interrupt } =
            setup;
        // Batch numbers never repeat: a repeated one would make final what another worker had only begun.
        let batch = last.get();
        let [raw, ns, watermark, _] = last.kept();
        let map = match batch {
            0 => {
                let mut map = ClockMap::new(first, clock);
                map.observe(Pair::now(clock));
                map
            }
            // The line continues where everything before it was converted: no time is before that of an earlier record.
            _ => ClockMap::between(Pair { raw, ns }, Pair::now(clock), clock),
        };
        let mut engine = Engine {
            clock,
            barrier,
            longest_pause,
            pool_size,
            interrupt,
            map,
            router: Router::default(),
            sessions: BTreeMap::new(),
            pools: Vec::new(),
            readers: Vec::new(),
            index: HashMap::new(),
            sources: Vec::new(),
            stage: RunStage::new(copy_past_caches),
            growth: Vec::new(),
            watermark: if batch == 0 { 0 } else { watermark },
            batch,
            last,
            pause: longest_pause,
            backlog: (batch > 0).then(|| Backlog { until: clock.now(), since: Instant::now() }),
            upkeep: Instant::now(),
            has_changed: false,
            deadline: None,
        };
        if batch == 0 {
            // A session's numbers are kept beside those of a final batch, from its start on.
            engine.make_final();
        }
        engine
    }

    /// Raw clock of all pools.
    pub fn clock(&self) -> RawClock {
        self.clock
    }

    /// The barrier of all pools.
    pub fn barrier(&self) -> Barrier {
        self.barrier
    }

    /// The last final batch.
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// The last reading of the clocks.
    pub fn last_pair(&self) -> Pair {
        self.map.last()
    }

    /// The time of a session's clock now.
    pub fn session_time(&self, slot: usize) -> i64 {
        let raw = self.clock.now();
        self.sessions.get(&slot).map_or(0, |hosted| hosted.time.time(&self.map, raw))
    }

    /// Adds schemas of a program's events to a session's trace, in front of all events that programs write from now on.
    pub fn add_schemas(&mut self, slot: usize, schemas: Vec<SchemaRecord>) {
        if schemas.is_empty() {
            return;
        }
        let Engine { sessions, router, map, watermark, .. } = self;
        if let (Some(hosted), Some(session)) = (sessions.get_mut(&slot), router.session_mut(slot)) {
            hosted.modules.add_schemas(schemas);
            hosted.write_modules(session, map, *watermark);
        }
    }

    /// Adds a session under a number below [`SLOTS`](etw_session::SLOTS).
    pub fn insert_session(
        &mut self,
        slot: usize,
        hosted: HostedSession<S>,
        session: BufferedSession,
    ) {
        self.router.insert(slot, session);
        self.sessions.insert(slot, hosted);
    }

    /// All sessions, with their numbers and buffers.
    pub fn sessions(&self) -> impl Iterator<Item = (usize, &HostedSession<S>, &BufferedSession)> {
        self.sessions
            .iter()
            .filter_map(|(slot, hosted)| Some((*slot, hosted, self.router.session(*slot)?)))
    }

    /// All sessions without their buffers, to be changed.
    pub fn sessions_mut(&mut self) -> impl Iterator<Item = (usize, &mut HostedSession<S>)> {
        self.sessions.iter_mut().map(|(slot, hosted)| (*slot, hosted))
    }

    /// Numbers of all sessions.
    pub fn session_slots(&self) -> Vec<usize> {
        self.sessions.keys().copied().collect()
    }

    /// Attaches a pool. Writers get the admission of the sessions that have its slots: an engine that was killed may have left
    /// them one of a full session.
    pub fn attach(&mut self, pool: AttachedPool, reader: Reader) {
        for (number, slot) in pool.slots.numbered() {
            if self.sessions.contains_key(&slot.session) {
                reader.control().set_admission(number, self.admission(slot.session, &pool));
            }
        }
        self.index.insert(pool.key, self.pools.len());
        self.pools.push(pool);
        self.readers.push(reader);
    }

    /// A pool by its key.
    pub fn pool(&self, key: u64) -> Option<&AttachedPool> {
        self.pools.get(*self.index.get(&key)?)
    }

    /// A pool by its key.
    pub fn pool_mut(&mut self, key: u64) -> Option<&mut AttachedPool> {
        self.pools.get_mut(*self.index.get(&key)?)
    }

    /// Adds a segment to a pool, in the order in which its process added it.
    ///
    /// # Errors
    /// A segment that is too small, or one too many.
    pub fn add_segment(&mut self, key: u64, source: Source, size: u64) -> io::Result<()> {
        let index = *self.index.get(&key).ok_or(io::ErrorKind::NotFound)?;
        self.readers[index].add_segment(source)?;
        let growth = &mut self.pools[index].growth;
        growth.size = growth.size.saturating_add(size);
        growth.requested = None;
        Ok(())
    }

    /// The pool's process has ended: the records in it are the last ones.
    pub fn end_pool(&mut self, key: u64) {
        if let Some(index) = self.index.get(&key) {
            self.pools[*index].ended_at = Some(self.clock.now());
            self.readers[*index].wake();
        }
    }

    /// Pools whose process has ended and whose records are drained: to be settled, made final, and detached.
    pub fn exhausted_pools(&self) -> Vec<u64> {
        self.pools.iter().filter(|pool| pool.is_exhausted).map(|pool| pool.key).collect()
    }

    /// Detaches a pool.
    pub fn detach(&mut self, key: u64) {
        let Some(index) = self.index.remove(&key) else { return };
        self.pools.swap_remove(index);
        self.readers.swap_remove(index);
        if let Some(moved) = self.pools.get(index) {
            self.index.insert(moved.key, index);
        }
    }

    /// Gives a session a slot of a pool, and opens it to writers; `None` if all eight are in use. Records that are admitted from
    /// now on may be the session's.
    pub fn take_slot(&mut self, key: u64, session: usize) -> Option<usize> {
        let index = *self.index.get(&key)?;
        let slot = match self.pools[index].slots.slot_of(session) {
            Some(slot) => slot,
            None => {
                let free = self.pools[index].slots.free_slot()?;
                let since = self.readers[index].control().bump_epoch();
                let base = SlotCounters::now(&self.readers[index], free);
                let used = Slot { session, since, base, counted_in: None };
                self.pools[index].slots.set(free, used);
                free
            }
        };
        let admission = self.admission(session, &self.pools[index]);
        self.readers[index].control().set_admission(slot, admission);
        Some(slot)
    }

    /// Gives the slots of a pool back that `which` selects, and counts in the ledgers of their sessions what their writers
    /// lost. Other sessions may have the slots from the next batch on. Returns whether there was any: the host then keeps the
    /// pool's slots before it makes the batch final, so that a crash counts the losses neither twice nor not at all.
    pub fn settle(&mut self, key: u64, which: impl Fn(&Slot) -> bool) -> bool {
        let Some(&index) = self.index.get(&key) else { return false };
        let (pool, reader) = (&mut self.pools[index], &self.readers[index]);
        let settled = pool.slots.settle(self.batch + 1, which);
        for (number, used) in &settled {
            reader.control().set_admission(*number, Default::default());
            let losses = losses::losses_since(reader, *number, &used.base, true);
            if let Some(session) = self.router.session_mut(used.session) {
                losses::count(session.ledger_mut(), &losses, pool);
            }
        }
        !settled.is_empty()
    }

    /// Writers of a pool are no longer admitted for a session, which keeps its slot.
    pub fn close_slot(&self, key: u64, session: usize) {
        let Some(&index) = self.index.get(&key) else { return };
        if let Some(slot) = self.pools[index].slots.slot_of(session) {
            self.readers[index].control().set_admission(slot, Default::default());
        }
    }

    /// Writers are no longer admitted for a session.
    pub fn close_admission(&mut self, slot: usize) {
        if let Some(hosted) = self.sessions.get_mut(&slot) {
            hosted.is_closed = true;
            self.publish_admission(slot);
        }
    }

    /// Fills no further the buffers that a session has open, and hands them over. Returns the number of buffers that the
    /// storage then has been given: see [`HostedSession::is_stored`].
    pub fn flush(&mut self, slot: usize) -> u64 {
        self.drain_all();
        let now = self.session_time(slot);
        if let Some((hosted, session)) = self.session_mut(slot) {
            if hosted.returns_buffers() {
                session.flush(now);
            }
        }
        self.make_final();
        self.sessions.get(&slot).map_or(0, HostedSession::given)
    }

    /// Counts the events of a series' files that somebody has removed or emptied as overwritten. Returns whether there are any: a host
    /// that keeps the series for a later worker then keeps it again, before the counts become final.
    pub fn count_removed_files(&mut self, slot: usize) -> bool {
        let Some((hosted, session)) = self.session_mut(slot) else { return false };
        if !session.policy().is_series() {
            return false;
        }
        let pattern = Path::new(&hosted.facts.header.log_file_name);
        let header_size = u64::from(hosted.facts.header.buffer_size);
        let is_removed = |number: u32| {
            std::fs::metadata(file_name(pattern, number))
                .map_or(true, |file| file.len() < header_size)
        };
        // The storage looks at the last file, which may be about to be written.
        let last = session.last_series_file();
        let files = session.series_files().map(|(number, _)| number);
        let files =
            files.filter(|number| Some(*number) != last || !file_name(pattern, *number).exists());
        let removed: Vec<u32> =
            files.filter(|number| *number != OLDEST_FILES && is_removed(*number)).collect();
        for number in &removed {
            session.remove_series_file(*number);
        }
        !removed.is_empty()
    }

    /// Takes stored buffers of a session back, waiting for the first one for at most `wait`.
    pub fn take_stored(&mut self, slot: usize, wait: Duration) {
        if let Some((hosted, session)) = self.session_mut(slot) {
            hosted.take_stored(session, Some(wait));
        }
    }

    /// Writes the events of a session in memory, and its ledger, to a file; the number of buffers. The caller has drained.
    ///
    /// # Errors
    /// The file's.
    pub fn snapshot(&mut self, slot: usize, path: &Path) -> io::Result<u64> {
        let now = self.session_time(slot);
        let Engine { sessions, router, map, watermark, .. } = self;
        let (Some(hosted), Some(session)) = (sessions.get_mut(&slot), router.session_mut(slot))
        else {
            return Err(io::ErrorKind::NotFound.into());
        };
        // The buffers with the modules may have been overwritten.
        hosted.modules.repeat();
        hosted.write_modules(session, map, *watermark);
        session.trim();
        let (process, thread) = (std::process::id(), hosted.facts.thread_id);
        let ledger = self.ledger(slot);
        let reports = LedgerReport::of(&ledger, 0).into_reports();
        let reports: Vec<_> =
            reports.iter().map(|report| report.event(now, process, thread)).collect();
        let Some((hosted, session)) = self.session_mut(slot) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let copies = session.snapshot(now, &reports);
        let mut closing = hosted.closing(session, ledger.lost_total(), true);
        // The ledger's events are the last ones.
        let last = hosted.facts.clock().filetime(now).map_or(0, |time| time.0);
        closing.end_time = closing.end_time.max(last);
        let mut facts = hosted.facts.clone();
        facts.header.log_file_name = path.to_string_lossy().into_owned();
        let mut files = Files::create(path, facts, 0)?;
        for (number, bytes) in copies.iter().enumerate() {
            let header = &bytes[..etw_types::BufferHeader::SIZE];
            files.store(1, number as u64 + 1, header, bytes, closing)?;
        }
        files.finish(closing)?;
        Ok(copies.len() as u64)
    }
}
