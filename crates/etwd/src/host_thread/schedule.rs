//! When the engine has something to do next.

use super::*;

impl HostThread {
    pub(crate) fn next_pause(&mut self, drained: &DrainedTogether, started: Instant) -> Duration {
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
        // Writers call a host that is late when a quarter of a pool is in use. What is drained sooner is still in the caches, but a round
        // costs some 40 us of system calls, whatever it drains.
        let part = u64::from(self.options.pool_size.min(4 << 20)) / 16 * 3;
        self.pause = if drained.size == 0 {
            (self.pause * 2).clamp(SHORTEST_PAUSE, longest)
        } else {
            let wait = elapsed.as_nanos() * u128::from(part) / u128::from(drained.size);
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
        if self.is_storing() {
            let soon = Duration::from_millis(5);
            pause = pause.min(if self.can_wait_for_disks() { LONGEST_PAUSE } else { soon });
        }
        if let Some(idle) = self.options.idle_exit {
            pause = pause.min(idle);
        }
        pause
    }

    /// Are there buffers enough, and is nobody waiting for what is on its way to a disk? It is then taken back in the next round.
    fn can_wait_for_disks(&self) -> bool {
        self.finishing.is_empty()
            && self.sessions.iter().all(|(slot, global)| {
                let free = self.router.session(*slot).map_or(0, Session::free_buffers);
                global.flushes.is_empty()
                    && global.before.is_empty()
                    && free * 2 >= global.config.buffer_count as usize
            })
    }

    /// How long until a flush timer has something to do.
    pub(crate) fn next_due(&mut self) -> Option<Duration> {
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

    pub(crate) fn answer_pending(&mut self) {
        let now = Instant::now();
        let mut left = Vec::new();
        for mut pending in std::mem::take(&mut self.pending) {
            if pending.waiting.is_empty() {
                pending.answer(&self.sessions);
            } else if now >= pending.deadline {
                let processes: HashSet<u32> = pending
                    .waiting
                    .keys()
                    .filter_map(|connection| Some(self.programs.get(connection)?.peer.pid))
                    .collect();
                if let Response::Done { .. } = &pending.response {
                    let late = processes.into_iter().map(|process| {
                        format!(
                            "process {process} has not answered yet; what was asked is done when it does"
                        )
                    });
                    pending.warnings.extend(late);
                }
                pending.answer(&self.sessions);
            } else {
                left.push(pending);
            }
        }
        self.pending = left;
    }

    pub(crate) fn maintain(&mut self) {
        if self.upkeep.elapsed() < UPKEEP {
            return;
        }
        self.upkeep = Instant::now();
        if !std::mem::take(&mut self.has_drained) {
            return;
        }
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
        self.grow(|reader, _| !reader.is_quiet());
    }

    /// More pool where writers found little room, of those that are to be asked.
    pub(crate) fn grow(&mut self, is_asked: impl Fn(&Reader, &Lane) -> bool) {
        let most = self.options.pool_limit;
        for (lane, reader) in self.lanes.iter_mut().zip(&self.readers) {
            if !is_asked(reader, lane) {
                continue;
            }
            let pressure = reader.pressure();
            if std::mem::replace(&mut lane.pressure, pressure) == pressure {
                continue;
            }
            let Some(program) = self.programs.get_mut(&lane.connection) else { continue };
            // In few steps: each takes the program's thread a while, in which it goes on writing.
            let wanted = program.pool_size.saturating_mul(3);
            let size = wanted.min(most.saturating_sub(program.pool_size)).min(LARGEST_SEGMENT);
            let size = size / (128 << 10) * (128 << 10);
            if size > 0 && program.growing.is_none() {
                program.growing = Some(size);
                program.say(&FromHost::Grow { size });
                etw_host::kill_point::kill_point("growth asked");
            }
        }
    }

    pub(crate) fn is_idle_for_too_long(&mut self) -> bool {
        let busy = !self.sessions.is_empty()
            || !self.finishing.is_empty()
            || self.controllers.load(Ordering::Relaxed) > 0;
        if busy {
            self.idle_since = Instant::now();
        }
        self.options.idle_exit.is_some_and(|idle| self.idle_since.elapsed() >= idle)
    }
}
