//! Routing: the sink of a drain, which turns records into events and gives them to the sessions.

use std::ops::ControlFlow;
use std::time::Instant;

use etw_ring::{RawClock, Record, RecordBytes, RecordSink, Run};
use etw_session::{Router, RunStage};

use super::pool::AttachedPool;
use super::source::{SessionSource, Until, route_until};
use crate::clock::{ClockMap, Pair};
use crate::registrations::{Given, Origin, Recipients};
use crate::storage::BufferMemory;

/// Bytes of records that one round routes at most.
const ROUND_SIZE: i64 = 8 << 20;
/// After so many bytes of records a round looks whether it should end.
const LOOK_SIZE: i64 = 128 << 10;
/// Bytes that a record counts beside its payload.
const RECORD_SIZE: i64 = 40;

/// When a round ends before it has drained everything.
pub(super) struct RoundEnd<'a> {
    /// Whether the host has something else to do; `None` if it drains for a request.
    pub interrupt: Option<&'a dyn Fn() -> bool>,
    pub deadline: Option<Instant>,
}

impl RoundEnd<'_> {
    fn is_due(&self) -> bool {
        self.interrupt.is_some_and(|interrupt| interrupt())
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// The sink of a drain.
pub(super) struct Routing<'a> {
    pub pools: &'a mut [AttachedPool],
    pub router: &'a mut Router<BufferMemory>,
    pub sources: &'a mut [SessionSource],
    pub map: &'a mut ClockMap,
    pub stage: &'a mut RunStage,
    pub clock: RawClock,
    /// The sessions that the drain waits for, a bit each.
    pub patient: u64,
    pub end: RoundEnd<'a>,
    /// Bytes until the next look, the first of which comes with the first record.
    until_look: i64,
    /// Bytes until the round's end.
    until_end: i64,
    /// The map has a reading of the clock that is later than every record.
    pub is_observed: bool,
    /// A session that the drain waits for had no free buffer.
    pub is_blocked: bool,
}

/// The parts of a [`Routing`] that an engine lends to it.
pub(super) struct RoutingParts<'a> {
    pub pools: &'a mut [AttachedPool],
    pub router: &'a mut Router<BufferMemory>,
    pub sources: &'a mut [SessionSource],
    pub map: &'a mut ClockMap,
    pub stage: &'a mut RunStage,
}

impl<'a> Routing<'a> {
    pub fn new(
        parts: RoutingParts<'a>,
        clock: RawClock,
        patient: u64,
        end: RoundEnd<'a>,
    ) -> Routing<'a> {
        let RoutingParts { pools, router, sources, map, stage } = parts;
        Routing {
            pools,
            router,
            sources,
            map,
            stage,
            clock,
            patient,
            end,
            until_look: 0,
            until_end: ROUND_SIZE,
            is_observed: false,
            is_blocked: false,
        }
    }

    /// Reads the clock, or decides whether the round ends.
    #[cold]
    fn look(&mut self) -> ControlFlow<()> {
        if !std::mem::replace(&mut self.is_observed, true) {
            // The watermark is known: every record lies before this pair.
            self.map.observe(Pair::now(self.clock));
        } else if self.until_end <= 0 || self.end.is_due() {
            return ControlFlow::Break(());
        }
        self.until_look = LOOK_SIZE;
        self.until_end -= LOOK_SIZE;
        ControlFlow::Continue(())
    }

    /// Routes the events of the system up to a time.
    pub fn route_sources(&mut self, until: Until) -> ControlFlow<()> {
        let routed = route_until(self.sources, self.router, self.patient, until);
        self.is_blocked |= routed.is_break();
        routed
    }
}

impl Routing<'_> {
    /// Routes a record of the pool with index `pool`.
    #[inline(never)]
    fn route(&mut self, pool: usize, record: &Record<'_>, time: i64) -> ControlFlow<()> {
        let Some(pool) = self.pools.get_mut(pool) else { return ControlFlow::Continue(()) };
        let sessions = pool.slots.sessions_of(record.sessions, record.epoch);
        if sessions == 0 {
            // Its sessions have ended; their losses were counted when they gave the slot up.
            return ControlFlow::Continue(());
        }
        let thread_id = pool.thread_ids.translate(record.tid);
        let AttachedPool { registrations, sites, facts, process_id, hostile, .. } = pool;
        let mut lookup = |id: u32| sites.get(id).map(<[u8]>::to_vec);
        let origin = Origin {
            time,
            raw: Some(record.time as i64),
            process_id: *process_id,
            thread_id,
            process: Some(&*facts),
        };
        let to = Recipients { sessions, patient: self.patient };
        match registrations.route(record, &origin, &mut lookup, self.router, to) {
            Given::Routed => ControlFlow::Continue(()),
            Given::NoRoom => {
                self.is_blocked = true;
                ControlFlow::Break(())
            }
            Given::Hostile => {
                *hostile += 1;
                ControlFlow::Continue(())
            }
        }
    }

    /// Stores usual records of one CPU in their only session: what they have in common is looked up once. A function of its own,
    /// so that its loop has all registers.
    #[inline(never)]
    fn put_run(&mut self, pool: usize, run: &mut Run<'_>, session: usize) {
        let Routing { pools, router, map, stage, until_look, .. } = self;
        let (Some(first), Some(pool)) = (run.peek(), pools.get(pool)) else { return };
        let session = router.session_mut(session);
        let place = session.and_then(|session| session.begin_run(first.cpu(), stage));
        let Some(mut place) = place else { return };
        if !first.is_plain() {
            return;
        }
        let form = first.form();
        let (process_id, registrations) = (pool.process_id, &pool.registrations);
        let (mut until, mut rest) = (*until_look, *run);
        while let Some(record) = rest.peek().filter(|record| record.form() == form) {
            let left = until - RECORD_SIZE - record.payload().len() as i64;
            let origin = Origin {
                time: map.qpc(record.time()),
                raw: Some(record.time() as i64),
                process_id,
                thread_id: record.tid(),
                process: None,
            };
            if left < 0 || !registrations.put_in_run(&record, &origin, &mut place) {
                break;
            }
            until = left;
            rest.take(&record);
        }
        place.finish();
        (*until_look, *run) = (until, rest);
    }

    /// Routes a usual record: a short way that needs few registers. Returns whether that was done.
    #[inline(always)]
    fn put_usual(&mut self, pool: usize, record: &RecordBytes<'_>, time: i64) -> bool {
        let Some(pool) = self.pools.get(pool) else { return false };
        let Some(sessions) = pool.slots.last_sessions(record.sessions(), record.epoch()) else {
            return false;
        };
        if pool.thread_ids.is_translating() {
            return false;
        }
        let origin = Origin {
            time,
            raw: Some(record.time() as i64),
            process_id: pool.process_id,
            thread_id: record.tid(),
            process: Some(&pool.facts),
        };
        pool.registrations.put_usual(record, &origin, self.router, sessions)
    }
}

impl RecordSink for Routing<'_> {
    #[inline(always)]
    fn take_run(&mut self, pool: usize, run: &mut Run<'_>) {
        let Some(first) = run.peek() else { return };
        let sessions = self.pools.get(pool).and_then(|pool| {
            let sessions = pool.slots.last_sessions(first.sessions(), first.epoch())?;
            (!pool.thread_ids.is_translating()).then_some(sessions)
        });
        let Some(sessions) = sessions else { return };
        if sessions.is_power_of_two() && self.sources.is_empty() {
            self.put_run(pool, run, sessions.trailing_zeros() as usize);
        }
    }

    #[inline(always)]
    fn take(&mut self, pool: usize, record: &RecordBytes<'_>) -> ControlFlow<()> {
        self.until_look -= RECORD_SIZE + record.payload().len() as i64;
        if self.until_look < 0 {
            self.look()?;
        }
        let time = self.map.qpc(record.time());
        if !self.sources.is_empty() {
            self.route_sources(Until { time, is_end: false })?;
        }
        if self.put_usual(pool, record, time) {
            return ControlFlow::Continue(());
        }
        self.route(pool, &record.parse(), time)
    }
}
