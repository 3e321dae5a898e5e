//! From the pool's raw clock to a session's.
//!
//! QPC on disk counts 100 ns since the machine's start of `CLOCK_MONOTONIC`. The host pairs the raw clock with the kernel's
//! again and again and interpolates, so the drift is that of the kernel's clock (which NTP
//! disciplines), and time never goes back: a line through rising points rises.

use std::time::{SystemTime, UNIX_EPOCH};

use etw_ring::RawClock;
use etw_types::FileTime;

/// FILETIME of 1970.
const UNIX: i64 = 116_444_736_000_000_000;
/// The performance counter's rate on disk.
pub const QPC_FREQUENCY: u64 = 10_000_000;
/// Fraction bits of the slope.
const FRACTION: u32 = 40;

/// The raw clock and the kernel's, read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Pair {
    /// Raw clock.
    pub raw: u64,
    /// `CLOCK_MONOTONIC`, ns.
    pub ns: u64,
}

impl Pair {
    /// Reads both; the raw clock is taken around the other one, and the closest of a few readings is kept.
    pub fn now(raw: RawClock) -> Pair {
        let mut best = (u64::MAX, Pair::default());
        for _ in 0..4 {
            let before = raw.now();
            let ns = RawClock::Monotonic.now();
            let after = raw.now();
            let width = after.saturating_sub(before);
            if width < best.0 {
                let middle = if raw == RawClock::Monotonic { ns } else { before + width / 2 };
                best = (width, Pair { raw: middle, ns });
            }
        }
        best.1
    }
}

/// The line on which times lie now.
///
/// It begins where everything before it has been converted, on the line before, and leads to the last pair: so it meets
/// that line, and rises.
#[derive(Clone, Copy, Debug)]
pub struct ClockMap {
    from: Pair,
    to: Pair,
    slope: u64,
}

impl ClockMap {
    /// Begins with one pair: the slope is known from the next one on.
    pub fn new(pair: Pair, raw: RawClock) -> ClockMap {
        // A guess that the next pair replaces: 1 ns a tick where the raw clock counts them, else some 2.5 GHz.
        let slope =
            if raw == RawClock::Monotonic { 1 << FRACTION } else { (1 << FRACTION) * 2 / 5 };
        ClockMap { from: pair, to: pair, slope }
    }

    /// Between two pairs that are known, as a recovery has them.
    pub fn between(from: Pair, to: Pair, raw: RawClock) -> ClockMap {
        let mut map = ClockMap::new(from, raw);
        map.observe(to);
        map
    }

    /// The line leads to this pair from now on. One that is not later than the line's beginning is left out.
    pub fn observe(&mut self, pair: Pair) {
        if pair.raw <= self.from.raw || pair.ns <= self.from.ns {
            return;
        }
        let rise = u128::from(pair.ns - self.from.ns) << FRACTION;
        let slope = rise / u128::from(pair.raw - self.from.raw);
        self.to = pair;
        self.slope = u64::try_from(slope).unwrap_or(u64::MAX);
    }

    /// Nothing before `raw` will be converted any more: the line may take another direction there.
    pub fn pass(&mut self, raw: u64) {
        if raw > self.from.raw {
            self.from = Pair { raw, ns: self.ns(raw) };
        }
    }

    /// Where the line begins: [`between`](ClockMap::between) it and a later pair goes on without a step.
    pub fn beginning(&self) -> Pair {
        self.from
    }

    /// The last pair.
    pub fn last(&self) -> Pair {
        self.to
    }

    /// `CLOCK_MONOTONIC` at a raw time, ns. What lies outside of the stretch goes on along its line.
    #[inline]
    pub fn ns(&self, raw: u64) -> u64 {
        if raw >= self.from.raw {
            let ticks = raw - self.from.raw;
            self.from
                .ns
                .saturating_add(((u128::from(ticks) * u128::from(self.slope)) >> FRACTION) as u64)
        } else {
            let ticks = self.from.raw - raw;
            self.from
                .ns
                .saturating_sub(((u128::from(ticks) * u128::from(self.slope)) >> FRACTION) as u64)
        }
    }

    /// QPC at a raw time.
    #[inline]
    pub fn qpc(&self, raw: u64) -> i64 {
        (self.ns(raw) / 100) as i64
    }
}

/// The wall clock now.
pub fn filetime_now() -> FileTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    FileTime(UNIX + (since.as_nanos() / 100) as i64)
}

/// QPC now.
pub fn qpc_now() -> i64 {
    (RawClock::Monotonic.now() / 100) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs are read with an error, and records come long after the pair that was read before them.
    #[test]
    fn times_rise_whatever_the_pairs() {
        let mut map = ClockMap::new(Pair { raw: 1_000_000, ns: 5_000_000 }, RawClock::Tsc);
        let (mut raw, mut last, mut passed) = (1_000_000u64, 0, 1_000_000u64);
        let mut seed = 1u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            raw += 1_000 + (seed >> 40) % 1_000_000;
            // 2.6 GHz.
            let ns = 5_000_000 + (raw - 1_000_000) * 10 / 26;
            map.observe(Pair { raw, ns: ns + (seed >> 20) % 40 });
            // What was committed up to some time before the pair is converted now.
            let until = raw - (seed >> 10) % (raw - passed);
            for part in 0..=10 {
                let at = map.ns(passed + (until - passed) * part / 10);
                assert!(at >= last, "{at} {last}");
                last = at;
            }
            let exact = 5_000_000 + (until - 1_000_000) * 10 / 26;
            assert!(map.ns(until).abs_diff(exact) < 100, "{} {exact}", map.ns(until));
            map.pass(until);
            passed = until;
        }
    }

    #[test]
    fn pairs_that_go_back_are_left_out() {
        let mut map = ClockMap::new(Pair { raw: 100, ns: 100 }, RawClock::Monotonic);
        map.observe(Pair { raw: 200, ns: 200 });
        map.pass(200);
        for pair in
            [Pair { raw: 200, ns: 300 }, Pair { raw: 150, ns: 300 }, Pair { raw: 300, ns: 199 }]
        {
            map.observe(pair);
            assert_eq!(map.last(), Pair { raw: 200, ns: 200 });
        }
        assert_eq!((map.ns(50), map.ns(400)), (50, 400));
    }

    /// An hour's drift would be seen in a second's: the machine's own clocks agree to microseconds.
    #[test]
    fn the_machines_clocks() {
        let raw = RawClock::best();
        let mut map = ClockMap::new(Pair::now(raw), raw);
        std::thread::sleep(std::time::Duration::from_millis(20));
        map.observe(Pair::now(raw));
        let pair = Pair::now(raw);
        assert!(map.ns(pair.raw).abs_diff(pair.ns) < 50_000, "{} {}", map.ns(pair.raw), pair.ns);
    }
}
