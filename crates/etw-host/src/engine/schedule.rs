//! When the engine has something to do: pauses, flush timers, upkeep, growth.

use std::time::{Duration, Instant};

use etw_ring::DrainedTogether;

use super::session::Sink;
use super::source::SOURCE_PAUSE;
use super::{BufferedSession, Engine, GrowthRequest};

/// A shorter pause costs more than it saves.
pub const SHORTEST_PAUSE: Duration = Duration::from_micros(60);
/// The longest pause while a live reader watches.
const LIVE_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause while all pools are quiet. A writer's call may find the host on its way to sleep, so it looks all the
/// same; but for hundreds of programs each look is a system call.
const QUIET_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause without any session.
const IDLE_PAUSE: Duration = Duration::from_secs(3600);
/// The longest pause while somebody waits for a disk.
const STORING_PAUSE: Duration = Duration::from_millis(5);
/// How often files' headers are brought up to date.
const UPKEEP: Duration = Duration::from_millis(500);
/// A pool counts with at most so many bytes for the length of a pause.
const LARGEST_PACE: u64 = 4 << 20;

impl<S: Sink> Engine<S> {
    /// Whether a round would find anything. Quiet pools are only asked whether a writer has rung.
    pub fn has_work(&self) -> bool {
        self.readers.iter().any(|reader| !reader.is_quiet() || reader.is_rung())
            || self.has_sources()
            || self.pools.iter().any(|pool| pool.ended_at.is_some())
            || self.is_storing()
            || self.next_flush().is_some_and(|due| due.is_zero())
            || self.sessions.values().any(|hosted| hosted.host.awaits_storage())
    }

    /// Whether a writer of a quiet pool has rung.
    pub fn is_rung(&self) -> bool {
        self.readers.iter().any(|reader| reader.is_quiet() && reader.is_rung())
    }

    /// Whether buffers are on their way to a disk.
    fn is_storing(&self) -> bool {
        self.sessions().any(|(_, hosted, session)| hosted.is_storing(session))
    }

    /// Whether every session has buffers enough and nobody waits for a disk: stored buffers then come back with the next round.
    fn can_wait_for_disks(&self) -> bool {
        self.sessions().all(|(_, hosted, session)| {
            !hosted.host.awaits_storage()
                && !hosted.is_switching()
                && session.free_buffers() * 2 >= hosted.buffer_count() as usize
        })
    }

    /// The pause after a round that began at `started`. `is_awaited`: somebody waits for files that are being completed.
    pub fn next_pause(
        &mut self,
        drained: &DrainedTogether,
        started: Instant,
        is_awaited: bool,
    ) -> Duration {
        if drained.stopped {
            return Duration::ZERO;
        }
        let is_awake = self.readers.iter().any(|reader| !reader.is_quiet());
        let is_watched = self.sessions.values().any(|hosted| hosted.host.is_open());
        let longest = match (is_awake, self.sessions.is_empty()) {
            (true, _) if is_watched => LIVE_PAUSE,
            _ if self.has_sources() => self.source_pause(is_watched),
            (true, _) => self.longest_pause,
            (false, false) => QUIET_PAUSE,
            (false, true) => IDLE_PAUSE,
        };
        let elapsed = started.elapsed() + self.pause;
        // Writers wake a late host when a quarter of a pool is in use. An earlier round finds the records in the caches, but costs
        // some 40 us of system calls, whatever it drains.
        let part = self.pool_size.min(LARGEST_PACE) / 16 * 3;
        self.pause = if drained.size == 0 {
            (self.pause * 2).clamp(SHORTEST_PAUSE, longest)
        } else {
            let wait = elapsed.as_nanos() * u128::from(part) / u128::from(drained.size);
            Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)).min(longest)
        };
        let mut pause = if is_awake { self.pause.min(longest) } else { longest };
        if let Some(due) = self.next_flush() {
            pause = pause.min(due.max(SHORTEST_PAUSE));
        }
        if self.is_storing() {
            let can_wait = !is_awaited && self.can_wait_for_disks();
            pause = pause.min(if can_wait { self.longest_pause } else { STORING_PAUSE });
        }
        pause
    }

    /// The longest pause until the sources are read again.
    fn source_pause(&self, is_watched: bool) -> Duration {
        let longest = if is_watched { SOURCE_PAUSE } else { Duration::MAX };
        self.sources.iter().map(|one| one.longest_pause()).fold(longest, Duration::min)
    }

    /// How long until a flush timer expires, or a full session has waited long enough for its reader.
    fn next_flush(&self) -> Option<Duration> {
        let raw = self.clock.now();
        let left = self.sessions().filter_map(|(_, hosted, session)| {
            if !hosted.returns_buffers() {
                let is_waiting = hosted.is_full && !session.is_unread();
                return hosted.reader_patience().filter(|_| is_waiting);
            }
            let now = hosted.time.time(&self.map, raw);
            let ticks = u64::try_from(session.due()?.saturating_sub(now)).unwrap_or(0);
            let frequency = u128::from(hosted.facts.frequency().max(1));
            let nanos = u128::from(ticks) * 1_000_000_000 / frequency;
            Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
        });
        left.min()
    }

    /// Brings files' headers up to date, twice a second. Returns whether it was time for it.
    pub fn maintain(&mut self) -> bool {
        if self.upkeep.elapsed() < UPKEEP {
            return false;
        }
        self.upkeep = Instant::now();
        if std::mem::take(&mut self.has_changed) {
            for slot in self.session_slots() {
                self.update_header(slot);
            }
            self.request_growth(true);
        }
        true
    }

    /// Brings the header of a session's file up to date.
    pub fn update_header(&self, slot: usize) {
        let storage = |(hosted, session): (&super::HostedSession<S>, &BufferedSession)| {
            let lost = self.ledger(slot).lost_total();
            let closing = hosted.closing(session, lost, false);
            hosted.storage.as_ref().map(|storage| storage.update_header(closing))
        };
        let _ = self.session(slot).and_then(storage);
    }

    /// Requests growth of the pools whose writers found less than half free. In a round only pools that are cheap to ask, or
    /// that were filled a quarter, are considered: the next burst would overflow them.
    pub(super) fn request_growth(&mut self, all: bool) {
        let much = self.pool_size / 4;
        for (pool, reader) in self.pools.iter_mut().zip(&self.readers) {
            let is_considered = pool.is_mapped || pool.drained >= much || all && !reader.is_quiet();
            if is_considered {
                if let Some(size) = pool.growth_wanted(reader) {
                    self.growth.push(GrowthRequest { pool: pool.key, size });
                }
            }
        }
    }

    /// The pools that are to grow, since the last call.
    pub fn take_growth(&mut self) -> Vec<GrowthRequest> {
        std::mem::take(&mut self.growth)
    }
}
