//! Rounds: all pools drained into all sessions, made final, given away.

use super::*;
use crate::keeper_protocol::Ending;

impl HostThread {
    /// One batch: drained, routed, sealed, made final, given away.
    pub(crate) fn round(&mut self, patience: Duration) -> DrainedTogether {
        let mut changed = Vec::new();
        for (slot, global) in &mut self.sessions {
            if let Some(session) = self.router.session_mut(*slot) {
                global.take_done(session, None);
            }
            if !global.completed.is_empty() {
                changed.push(*slot);
            }
        }
        for slot in changed {
            etw_host::kill_point::kill_point("file ended");
            // Before anybody relies on it.
            self.keep_session(slot);
            if let Some(global) = self.sessions.get_mut(&slot) {
                global.answer_completed();
            }
            etw_host::kill_point::kill_point("file answered");
        }
        let patient = self.patient();
        // Who drains for a request does not end for the next one.
        let interruptible = patience.is_zero();
        let HostThread { readers, lanes, router, map, clocks, floor, mailbox, deadline, .. } = self;
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
        // Records until the next look at what else there is to do, the first of them at once.
        let (mut size, mut until_look) = (0, 1);
        let mut has_waited = false;
        let raw = clocks.0;
        let drained = drain_together(&mut participants, *clocks, *floor, patience, |at, record| {
            until_look -= 1;
            if until_look == 0 {
                std::hint::cold_path();
                until_look = PATIENT_RECORDS;
                if std::mem::take(&mut is_first) {
                    // After the watermark was taken: every record lies before this pair.
                    map.observe(Pair::now(raw));
                } else if interruptible && mailbox.is_filled()
                    || deadline.is_some_and(|deadline| Instant::now() >= deadline)
                {
                    return ControlFlow::Break(());
                }
            }
            if size > ROUND_SIZE {
                return ControlFlow::Break(());
            }
            let Some(lane) = lanes.get_mut(at) else { return ControlFlow::Continue(()) };
            let mask = lane.sessions_of(record);
            if mask == 0 {
                // Its sessions have ended: they were told of it as a loss, if it was not drained in time.
                return ControlFlow::Continue(());
            }
            let thread_id = lane.thread(record.tid);
            let Lane { registrations, sites, facts, process_id, hostile, .. } = lane;
            let mut lookup = |id: u32| sites.get(id).map(<[u8]>::to_vec);
            let origin = Origin {
                time: map.qpc(record.time),
                raw: Some(record.time as i64),
                process_id: *process_id,
                thread_id,
                process: Some(&*facts),
            };
            size += 40 + record.payload.len() as u64;
            match registrations.route(record, &origin, &mut lookup, router, (mask, patient)) {
                Given::Routed => ControlFlow::Continue(()),
                Given::NoRoom => {
                    has_waited = true;
                    ControlFlow::Break(())
                }
                Given::Hostile => {
                    *hostile += 1;
                    ControlFlow::Continue(())
                }
            }
        });
        let now = Instant::now();
        let mut empty = Vec::new();
        for (at, one) in participants.iter_mut().enumerate() {
            let lane = &mut lanes[at];
            lane.hostile += one.drained.hostile;
            lane.drained = one.drained.size;
            // What a program that has ended left for later never was: its clock is ours.
            let is_beyond = lane.has_ended && drained.watermark > lane.ended_at && !drained.stopped;
            if one.drained.records == 0 && one.drained.is_rest && is_beyond {
                lane.hostile += 1;
                empty.push(at);
            } else if one.drained.records > 0 || one.drained.is_rest {
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
        if is_first {
            // The line is kept near the clock while nothing comes: what comes next begins on it.
            self.map.observe(Pair::now(raw));
        }
        self.map.pass(drained.watermark);
        self.floor = drained.watermark;
        self.count_hostile();
        for at in &empty {
            self.settle(self.lanes[*at].connection, |_| true);
        }
        self.seal_and_store();
        for at in empty.into_iter().rev() {
            self.forget(at);
        }
        self.wait_for_buffers(has_waited);
        // Soon: what the next burst does not find room for is lost.
        let much = u64::from(self.options.pool_size) / 4;
        if self.lanes.iter().any(|lane| lane.drained >= much) {
            self.grow(|_, lane| lane.drained >= much);
        }
        drained
    }

    /// The sessions that may hold the drain up when they have no free buffer. The pools are then a reserve for all; but one
    /// that is slow shall cost the others nothing, so the wait is short, unless the session is alone.
    pub(crate) fn patient(&self) -> u64 {
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

    pub(crate) fn wait_for_buffers(&mut self, has_waited: bool) {
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

    pub(crate) fn seal_and_store(&mut self) {
        self.batch += 1;
        let (raw, batch) = (self.clocks.0.now(), self.batch);
        for (slot, global) in &mut self.sessions {
            if let Some(session) = self.router.session_mut(*slot) {
                if global.modules.is_waiting() {
                    // As early as the order of time allows.
                    global.modules.tell(session, global.time.time(&self.map, self.floor));
                }
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

    pub(crate) fn give_away(&mut self, slot: usize) {
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
    pub(crate) fn publish(&mut self, slot: usize) {
        let (Some(global), Some(session)) =
            (self.sessions.get_mut(&slot), self.router.session(slot))
        else {
            return;
        };
        let free = session.free_buffers();
        let comes_back = global.storage.is_some() || !global.consumers.is_empty();
        let is_slow = global.slow_at.is_some_and(|at| at.elapsed() < SLOW);
        let full = match session.state() {
            State::Running if session.policy().is_in_memory() => false,
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

    pub(crate) fn publish_admission(&mut self, session: usize) {
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

    pub(crate) fn admission(&self, session: usize, connection: Connection) -> Admission {
        let (Some(global), Some(inner), Some(program)) = (
            self.sessions.get(&session),
            self.router.session(session),
            self.programs.get(&connection),
        ) else {
            return Admission::default();
        };
        if global.ending == Ending::Session {
            return Admission::default();
        }
        let properties = inner.enablements().map(|(_, info)| info.properties);
        let extra = properties.map(|properties| program.facts.extra_size(properties)).max();
        Admission {
            open: true,
            full: global.is_full,
            independent: inner.is_independent(),
            extra_size: extra.unwrap_or(0) as u16,
            largest_size: inner.largest_event() as u32,
        }
    }

    pub(crate) fn count_hostile(&mut self) {
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
    pub(crate) fn drain_all(&mut self) {
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

    /// As [`drain_all`](Self::drain_all), for a question that nobody wants to wait for: programs that are faster than the host may
    /// have filled large pools.
    pub(crate) fn drain_for(&mut self, time: Duration) {
        let until = self.clocks.0.now();
        let deadline = Instant::now() + time;
        self.deadline = Some(deadline);
        while Instant::now() < deadline {
            let drained = self.round(Duration::ZERO);
            if drained.watermark > until || !drained.stopped && drained.watermark >= until {
                break;
            }
        }
        self.deadline = None;
    }

    /// A program that has ended, whose records are drained and whose losses are counted, in a batch that is final.
    pub(crate) fn forget(&mut self, at: usize) {
        let connection = self.lanes[at].connection;
        if let Some(program) = self.programs.remove(&connection) {
            self.forget_program(connection, &program);
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
    pub(crate) fn ledger(&self, session: usize) -> Ledger {
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
                count(&mut ledger, &losses, &self.lanes[lane]);
            }
        }
        ledger
    }
}
