//! The watermark: the time of a drain, or of the oldest write in flight.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{DrainOptions, Reader, Still};
use crate::proto::{Head, Phase};
use crate::sys::{Barrier, RawClock};

/// How long the host waits for one write in flight. A record that commits later is late.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// How long the host waits for a write in flight whose thread runs or waits for a processor. On a machine with many times more such
/// threads than processors, that takes longer than [`PATIENCE`].
pub const BUSY_PATIENCE: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug)]
pub(super) struct Blocked {
    pub(super) head: Head,
    /// The write in flight has this time or a later one.
    pub(super) bound: u64,
    pub(super) first_seen: Instant,
}

/// Reads the time of a drain and issues the barrier: a write that is announced afterwards has a later time.
pub(crate) fn time_of_drain(clock: RawClock, barrier: Barrier, no_barrier: &mut bool) -> u64 {
    let now = clock.now();
    *no_barrier = !barrier.issue();
    // Wait for the next tick, so that a write announced from here on has a later time at any resolution of the clock.
    while clock.now() <= now {
        std::hint::spin_loop();
    }
    now
}

/// Calls `bound` until nothing is in flight, or until the patience has run out.
pub(crate) fn wait_for_writers(
    patience: Duration,
    now: u64,
    mut bound: impl FnMut(bool) -> u64,
) -> u64 {
    let start = Instant::now();
    // A wait of the full patience ends a little later, when each writer has committed or was given up.
    let limit = match patience {
        p if p >= PATIENCE => p + Duration::from_millis(10),
        p => p,
    };
    let mut pause = Duration::from_micros(20);
    let mut again = false;
    loop {
        let bound = bound(again);
        if bound > now || start.elapsed() >= limit {
            return bound;
        }
        again = true;
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(1));
    }
}

impl Reader {
    /// The earliest time of a write in flight; later than `now` if there is none.
    pub(crate) fn bound(
        &mut self,
        now: u64,
        options: &DrainOptions<'_>,
        again: bool,
        given_up: &mut u64,
    ) -> u64 {
        self.still = None;
        if options.ended {
            return u64::MAX;
        }
        let is_busy = |tid: u32| options.busy.is_some_and(|busy| busy(tid));
        *given_up = 0;
        // A write that was not in flight in the last scan started after it; in a repeated scan, after `now`.
        let since_scan = if again { now } else { self.scan_time }.saturating_add(1);
        let mut bound = u64::MAX;
        let mut judge = |at_least: u64, first_seen: Instant, tid: Option<u32>| {
            if at_least <= now {
                let waited = first_seen.elapsed();
                let is_over =
                    waited >= PATIENCE && (waited >= BUSY_PATIENCE || !tid.is_some_and(is_busy));
                if is_over {
                    *given_up += 1;
                } else {
                    bound = bound.min(at_least);
                }
            }
        };
        let lines = self.lines();
        for (slot, line) in lines.iter().enumerate() {
            if !line.head.is_writing() {
                self.blocked.remove(&(slot as u16));
                continue;
            }
            let blocked = self.blocked.entry(slot as u16).or_insert_with(|| Blocked {
                head: line.head,
                bound: since_scan,
                first_seen: Instant::now(),
            });
            if blocked.head != line.head {
                *blocked =
                    Blocked { head: line.head, bound: since_scan, first_seen: Instant::now() };
            }
            // `since` may be the time of an earlier write: then it is smaller, which is harmless.
            judge(blocked.bound.max(line.since.min(now)), blocked.first_seen, Some(line.tid));
        }
        let words = OnceCell::new();
        let (chunks, hostile) = self.all_chunks();
        for (number, unit) in chunks.iter().copied() {
            if !matches!(unit.phase, Phase::Shared | Phase::SharedClosed)
                || self.is_released(number, unit.generation)
            {
                continue;
            }
            let entries = self.directory(number, unit, &words);
            // While the number of entries is unknown, records that were committed long ago may be among them.
            let unknown = self.watermark;
            let state = self.chunk(number, unit.generation);
            let mut pending = BTreeMap::new();
            let mut wait_for = |index: usize, new: u64| {
                let known = state.pending.get(&(index as u32)).copied();
                let (at_least, seen) = known.unwrap_or((new, Instant::now()));
                pending.insert(index as u32, (at_least, seen));
                judge(at_least, seen, None);
            };
            match &entries {
                Some(entries) => {
                    let zeros = entries.iter().enumerate().filter(|(_, e)| **e == 0);
                    zeros.for_each(|(index, _)| wait_for(index, since_scan));
                }
                None => wait_for(u32::MAX as usize, unknown),
            }
            state.pending = pending;
        }
        if bound > now && *given_up == 0 {
            self.still = Some(Still { lines, chunks, hostile });
        }
        bound
    }

    /// For a quiet pool without a write, after the barrier of a drain at `now`: it will give no record with a time up to `now`.
    pub(crate) fn nothing_until(&mut self, now: u64) {
        self.scan_time = now;
        self.watermark = self.watermark.max(now);
    }

    /// Sets the lowest watermark: records before `floor` were drained from other pools.
    pub(crate) fn not_before(&mut self, floor: u64) {
        self.watermark = self.watermark.max(floor);
    }
}
