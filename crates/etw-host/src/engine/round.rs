//! The round: pools are drained together, the batch becomes final in all of them, and full buffers go to storage and sinks.

use std::time::{Duration, Instant};

use etw_ring::{
    Admission, Bounds, DrainOptions, DrainedTogether, PATIENCE, Participant, advance_together,
    drain_together,
};
use etw_session::{Cause, Ledger, Loss, State};

use super::pool::AttachedPool;
use super::routing::{RoundEnd, Routing, RoutingParts};
use super::session::{BufferWait, BufferedSession, HostedSession, Sink};
use super::source::{Until, watermark_of};
use super::{Engine, losses};
use crate::clock::Pair;
use crate::kill_point::kill_point;

/// How long the drain waits for a session's buffers, as long as every program finds half of its pool free. After that the
/// session loses events.
pub(super) const BUFFER_PATIENCE: Duration = Duration::from_millis(100);
/// The same while the engine catches up after a takeover: pools are full because nobody drained them, and all sessions would lose
/// the events for which one session has no buffer.
const CATCH_UP_PATIENCE: Duration = CATCH_UP;
/// One wait for a buffer that the storage has.
pub(super) const BUFFER_WAIT: Duration = Duration::from_millis(2);
/// How long an engine that took over catches up, once it has drained what it found: pools fill again meanwhile.
const CATCH_UP: Duration = Duration::from_secs(2);
/// A pool without records for so long is left alone until its next write.
const QUIET_AFTER: Duration = Duration::from_millis(60);
/// A thread that has not written for so long gives its chunk back.
const RECLAIM: Duration = Duration::from_millis(500);
/// One wait of `drain_all` for the watermark of a source.
const SOURCE_WAIT: Duration = Duration::from_millis(1);
/// `drain_all` ends after so long without progress.
const NO_PROGRESS: Duration = Duration::from_secs(2);

impl<S: Sink> Engine<S> {
    /// Turns once: takes stored buffers back, drains all pools in one order of time, makes the batch final, and hands buffers
    /// over. `patience`: how long it waits for writes in flight; a round without patience also ends when the host is
    /// interrupted.
    pub fn round(&mut self, patience: Duration) -> DrainedTogether {
        for (slot, hosted) in &mut self.sessions {
            if let Some(session) = self.router.session_mut(*slot) {
                hosted.take_stored(session, None);
            }
        }
        let (drained, is_blocked) = self.drain(patience);
        self.count_hostile();
        self.count_source_losses();
        self.make_final();
        self.end_backlog(&drained);
        self.wait_for_buffers(is_blocked);
        self.request_growth(false);
        self.has_changed |= drained.records > 0;
        drained
    }

    /// Drains all pools into the sessions. Also returns whether a session without a free buffer stopped it.
    ///
    /// Events of the system merge here: pools are drained up to the watermark of the sources.
    fn drain(&mut self, patience: Duration) -> (DrainedTogether, bool) {
        let patient = self.patient_sessions();
        let limit = self.poll_sources();
        let mut sources = std::mem::take(&mut self.sources);
        let (clock, barrier) = (self.clock, self.barrier);
        let watermark = self.watermark;
        let Engine { readers, pools, router, map, stage, interrupt, deadline, .. } = self;
        let threads: Vec<_> = pools.iter().map(|pool| (liveness(pool), busyness(pool))).collect();
        let mut participants: Vec<_> = readers
            .iter_mut()
            .zip(&threads)
            .zip(&*pools)
            .map(|((reader, (alive, busy)), pool)| {
                let options = DrainOptions {
                    ended: pool.ended_at.is_some(),
                    reclaim_idle: Some(RECLAIM),
                    alive: Some(alive),
                    busy: Some(busy),
                    ..DrainOptions::default()
                };
                Participant::new(reader, options)
            })
            .collect();
        // A host that drains for a request does not stop for the next one.
        let interrupt = patience.is_zero().then_some(&**interrupt as &dyn Fn() -> bool);
        let end = RoundEnd { interrupt, deadline: *deadline };
        let parts = RoutingParts { pools, router, sources: &mut sources, map, stage };
        let mut routing = Routing::new(parts, clock, patient, end);
        let clocks = (clock, barrier);
        let bounds = Bounds { floor: watermark, limit };
        let mut drained = drain_together(&mut participants, clocks, bounds, patience, &mut routing);
        let now = Instant::now();
        for (pool, one) in routing.pools.iter_mut().zip(&mut participants) {
            update_pool(pool, one, &drained, now);
        }
        drop(participants);
        let time = routing.map.qpc(drained.watermark) - 1;
        let until = Until { time, is_end: !drained.stopped };
        if !routing.is_blocked && routing.route_sources(until).is_break() {
            drained.stopped = true;
        }
        let Routing { is_blocked, is_observed, .. } = routing;
        self.sources = sources;
        if !is_observed {
            // The line follows the clock while nothing comes: the next records begin on it.
            self.map.observe(Pair::now(clock));
        }
        self.map.pass(drained.watermark);
        self.watermark = drained.watermark;
        (drained, is_blocked)
    }

    /// The sessions that may stop the drain when they have no free buffer, a bit each. The pools are then a reserve for all
    /// sessions. A slow session must not cost the others anything, so it is not waited for, unless it is alone.
    fn patient_sessions(&self) -> u64 {
        let is_alone = self.sessions.len() == 1;
        let mut patient = 0;
        for (slot, hosted) in &self.sessions {
            let can_be_slow = is_alone && hosted.storage.is_some();
            if hosted.returns_buffers() && (!hosted.is_slow() || can_be_slow) {
                patient |= 1 << slot;
            }
        }
        patient
    }

    /// The engine has caught up when a drain gives everything, or some time after it has drained what it found.
    fn end_backlog(&mut self, drained: &DrainedTogether) {
        self.backlog = self.backlog.filter(|backlog| {
            let is_found = drained.watermark <= backlog.until;
            drained.stopped && (is_found || backlog.since.elapsed() < CATCH_UP)
        });
    }

    /// Waits a moment for a buffer of each session that stopped the drain, or declares the session slow.
    ///
    /// A session is slow if its storage returns nothing for too long, or if its programs need the pools meanwhile. After a
    /// takeover, the pools are full because nobody drained them: that is no sign of a slow session, and the records in them
    /// wait as long as the storage works.
    fn wait_for_buffers(&mut self, is_blocked: bool) {
        let is_alone = self.sessions.len() == 1;
        let patience = match self.backlog {
            Some(_) => CATCH_UP_PATIENCE,
            None => BUFFER_PATIENCE,
        };
        // The storage may have had no processor for all of that time.
        let least_rounds = (patience.as_millis() / BUFFER_WAIT.as_millis()) as u32;
        let is_pressed = is_blocked
            && !is_alone
            && self.backlog.is_none()
            && self
                .pools
                .iter()
                .zip(&self.readers)
                .any(|(pool, reader)| !reader.is_quiet() && reader.pressure() != pool.pressure);
        for (slot, hosted) in &mut self.sessions {
            let Some(session) = self.router.session_mut(*slot) else { continue };
            if is_blocked && session.free_buffers() == 0 {
                hosted.take_stored(session, Some(BUFFER_WAIT));
            }
            if !is_blocked || session.free_buffers() > 0 {
                hosted.waiting = None;
                continue;
            }
            let waiting = hosted.waiting.get_or_insert_with(BufferWait::new);
            waiting.rounds += 1;
            let is_over = waiting.since.elapsed() > patience && waiting.rounds > least_rounds;
            if !is_alone && (is_pressed || is_over) {
                hosted.waiting = None;
                hosted.slow_at = Some(Instant::now());
            }
        }
    }

    /// Makes everything that was drained and pushed so far final, as one step, and hands full buffers over.
    pub fn make_final(&mut self) {
        self.batch += 1;
        let (raw, batch) = (self.clock.now(), self.batch);
        for (slot, hosted) in &mut self.sessions {
            if let Some(session) = self.router.session_mut(*slot) {
                let watermark = watermark_of(&self.sources, *slot, &self.map, self.watermark);
                hosted.write_modules(session, &self.map, watermark);
                let now = hosted.time.time(&self.map, raw);
                if hosted.host.begin_slices() {
                    session.flush(now);
                } else if hosted.returns_buffers() {
                    // Without a reader, a closed buffer would only be missing.
                    session.tick(now);
                }
                session.seal(batch);
            }
        }
        kill_point("batch sealed");
        let Pair { raw: at, ns } = self.map.beginning();
        self.last.keep(batch, [at, ns, self.watermark, 0]);
        // A private session leaves behind buffers that are final by the batch of its own pool.
        let readers = self.readers.iter_mut().zip(&self.pools).filter_map(|(reader, pool)| {
            let advances = pool.is_mapped || !reader.is_quiet() && reader.has_changed();
            advances.then_some(reader)
        });
        advance_together(readers, &self.last, batch);
        kill_point("batch final");
        let slots: Vec<usize> = self.sessions.keys().copied().collect();
        for slot in slots {
            self.hand_over(slot);
        }
    }

    /// Hands a session's full buffers to its sink and its storage.
    fn hand_over(&mut self, slot: usize) {
        let first_in_source = self.first_in_source(slot).unwrap_or(i64::MAX);
        let watermark = watermark_of(&self.sources, slot, &self.map, self.watermark);
        let Engine { sessions, router, pools, readers, .. } = self;
        let (Some(hosted), Some(session)) = (sessions.get_mut(&slot), router.session_mut(slot))
        else {
            return;
        };
        let given = hosted.given();
        hosted.store(session, |session| {
            // The counters of other processes' pools cost system calls: they are read at the end only.
            let mut ledger = session.ledger().clone();
            count_pools(&mut ledger, slot, pools, readers, |pool| pool.is_mapped);
            ledger.lost_total()
        });
        self.has_changed |= hosted.given() > given;
        let watermark = hosted.time.time(&self.map, watermark).min(first_in_source);
        hosted.deliver_slices(session, watermark);
        self.publish(slot);
    }

    /// Publishes whether a session has free buffers, and whether somebody reads it, if that has changed.
    fn publish(&mut self, slot: usize) {
        let Some((hosted, session)) = self.session_mut(slot) else { return };
        let is_unread =
            hosted.reader_patience() == Some(Duration::ZERO) && !session.policy().is_in_memory();
        if is_unread != session.is_unread() {
            session.set_unread(is_unread);
            self.publish_admission(slot);
        }
        let Some((hosted, session)) = self.session(slot) else { return };
        let free = session.free_buffers();
        let is_full = match session.state() {
            State::Running if session.policy().is_in_memory() => false,
            // The drain waits for it.
            State::Running if hosted.returns_buffers() && !hosted.is_slow() => false,
            // A full session opens again when an eighth of its buffers are free.
            State::Running if hosted.is_full => free < (hosted.buffer_count() as usize / 8).max(1),
            State::Running => free == 0,
            _ => true,
        };
        if is_full != hosted.is_full {
            if let Some((hosted, _)) = self.session_mut(slot) {
                hosted.is_full = is_full;
                self.publish_admission(slot);
            }
        }
    }

    /// Publishes a session's admission in all pools: after a change of its enablements, or of its buffers.
    pub fn publish_admission(&self, session: usize) {
        for (pool, reader) in self.pools.iter().zip(&self.readers) {
            if let Some(slot) = pool.slots.slot_of(session) {
                reader.control().set_admission(slot, self.admission(session, pool));
            }
        }
    }

    /// A session's admission for the writers of a pool.
    pub(super) fn admission(&self, session: usize, pool: &AttachedPool) -> Admission {
        let Some((hosted, inner)) = self.session(session).filter(|(hosted, _)| !hosted.is_closed)
        else {
            return Admission::default();
        };
        let properties = inner.enablements().map(|(_, info)| info.properties);
        let extra = properties.map(|properties| pool.facts.extra_size(properties)).max();
        Admission {
            open: true,
            full: hosted.is_full,
            independent: inner.is_independent(),
            extra_size: extra.unwrap_or(0) as u16,
            largest_size: inner.largest_event() as u32,
        }
    }

    /// Counts invalid records as lost, in each session of their pool.
    fn count_hostile(&mut self) {
        for pool in self.pools.iter_mut().filter(|pool| pool.hostile > 0) {
            let count = std::mem::take(&mut pool.hostile);
            for slot in pool.slots.iter() {
                if let Some(session) = self.router.session_mut(slot.session) {
                    let ledger = session.ledger_mut();
                    ledger.attempted += count;
                    ledger.count_lost(Loss {
                        cause: Cause::Hostile,
                        provider: None,
                        process_id: Some(pool.process_id),
                        count,
                    });
                }
            }
        }
    }

    /// Drains everything that was committed before now, except writes that take too long. It may wait for a disk; without any
    /// progress it ends after two seconds.
    pub fn drain_all(&mut self) {
        let until = self.clock.now();
        let mut progress = Instant::now();
        loop {
            let (before, first_before) = (self.watermark, self.first_in_sources());
            let drained = self.round(PATIENCE);
            let is_behind = self.is_source_behind(until);
            if has_reached(&drained, until) && !is_behind {
                return;
            }
            // The watermark of the pools moves on while a source waits for a buffer.
            let has_moved = match is_behind {
                true => self.first_in_sources() > first_before,
                false => self.watermark > before,
            };
            if drained.records > 0 || has_moved {
                progress = Instant::now();
            }
            if self.has_sources() && drained.records == 0 {
                // A source's watermark follows the clock at a distance.
                std::thread::sleep(SOURCE_WAIT);
            }
            if progress.elapsed() > NO_PROGRESS {
                return;
            }
        }
    }

    /// Drains everything that was committed before now, for at most `time`: programs may fill their pools faster than the
    /// engine drains them.
    pub fn drain_for(&mut self, time: Duration) {
        let until = self.clock.now();
        let deadline = Instant::now() + time;
        self.deadline = Some(deadline);
        while Instant::now() < deadline {
            if has_reached(&self.round(Duration::ZERO), until) && !self.is_source_behind(until) {
                break;
            }
        }
        self.deadline = None;
    }

    /// A session's ledger together with the losses that its pools have counted so far.
    pub fn ledger(&self, slot: usize) -> Ledger {
        let Some((_, session)) = self.session(slot) else { return Ledger::default() };
        let mut ledger = session.ledger().clone();
        count_pools(&mut ledger, slot, &self.pools, &self.readers, |_| true);
        ledger
    }

    /// A session by its number, with its buffers.
    pub fn session(&self, slot: usize) -> Option<(&HostedSession<S>, &BufferedSession)> {
        Some((self.sessions.get(&slot)?, self.router.session(slot)?))
    }

    /// A session by its number, with its buffers.
    pub fn session_mut(
        &mut self,
        slot: usize,
    ) -> Option<(&mut HostedSession<S>, &mut BufferedSession)> {
        Some((self.sessions.get_mut(&slot)?, self.router.session_mut(slot)?))
    }
}

/// Whether a drain has given every record up to `until`. A drain that stopped has given everything before its watermark; what
/// programs wrote meanwhile does not count.
fn has_reached(drained: &DrainedTogether, until: u64) -> bool {
    drained.watermark > until || !drained.stopped && drained.watermark >= until
}

/// Adds the losses that `pools` counted for a session since it took its slots.
fn count_pools(
    ledger: &mut Ledger,
    session: usize,
    pools: &[AttachedPool],
    readers: &[etw_ring::Reader],
    is_counted: impl Fn(&AttachedPool) -> bool,
) {
    for (pool, reader) in pools.iter().zip(readers).filter(|(pool, _)| is_counted(pool)) {
        let Some(slot) = pool.slots.slot_of(session) else { continue };
        if let Some(used) = pool.slots.get(slot) {
            let losses = losses::losses_since(reader, slot, &used.base, false);
            losses::count(ledger, &losses, pool);
        }
    }
}

/// Tells whether a thread of the pool's process runs. Threads of another PID namespace cannot be found by their id.
fn liveness(pool: &AttachedPool) -> impl Fn(u32) -> bool + use<> {
    let (process, is_translating) = (pool.process_id, pool.thread_ids.is_translating());
    move |thread| is_translating || is_thread_alive(process, thread)
}

/// Tells whether a thread of the pool's process runs or waits for a processor; `false` for one of another PID namespace.
fn busyness(pool: &AttachedPool) -> impl Fn(u32) -> bool + use<> {
    let (process, is_translating) = (pool.process_id, pool.thread_ids.is_translating());
    move |thread| !is_translating && is_thread_busy(process, thread)
}

#[cfg(target_os = "linux")]
use etw_ring::is_thread_busy;

#[cfg(not(target_os = "linux"))]
fn is_thread_busy(_process: u32, _thread: u32) -> bool {
    false
}

#[cfg(target_os = "linux")]
fn is_thread_alive(process: u32, thread: u32) -> bool {
    etw_ring::process_thread_alive(process, thread)
}

#[cfg(not(target_os = "linux"))]
fn is_thread_alive(_process: u32, _thread: u32) -> bool {
    true
}

/// Notes what a drain found in one pool: whether it is active, quiet, or exhausted.
fn update_pool(
    pool: &mut AttachedPool,
    one: &mut Participant<'_>,
    all: &DrainedTogether,
    now: Instant,
) {
    pool.hostile += one.drained.hostile;
    pool.drained = one.drained.size;
    let has_ended = pool.ended_at.is_some();
    // Records later than the process's end are invalid: the program's clock is the host's.
    let is_beyond = pool.ended_at.is_some_and(|at| all.watermark > at) && !all.stopped;
    if one.drained.records == 0 && one.drained.is_rest && is_beyond {
        pool.hostile += u64::from(!pool.is_exhausted);
        pool.is_exhausted = true;
    } else if one.drained.records > 0 || one.drained.is_rest {
        pool.active = now;
        one.reader.wake();
    } else if has_ended {
        pool.is_exhausted = true;
    } else if !pool.is_mapped && !one.reader.is_quiet() && now - pool.active >= QUIET_AFTER {
        let (drained, in_flight) = (one.drained, one.is_in_flight);
        one.reader.be_quiet(&drained, in_flight);
    }
}
