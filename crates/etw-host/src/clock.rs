//! The clock map: from the pools' raw clock to sessions' clocks.
//!
//! QPC on disk counts 100 ns since the start of `CLOCK_MONOTONIC`. The host reads the raw clock and the kernel's together again
//! and again and interpolates, so the drift is that of the kernel's clock, which NTP disciplines. Time never goes back: a line
//! through rising points rises.

use std::time::{SystemTime, UNIX_EPOCH};

use etw_ring::RawClock;
use etw_types::FileTime;

/// FILETIME of 1970.
const UNIX: i64 = 116_444_736_000_000_000;
/// Ticks of the performance counter in a second, on disk.
pub(crate) const QPC_FREQUENCY: u64 = 10_000_000;
/// Fraction bits of the slope.
const FRACTION: u32 = 40;

/// A reading of the raw clock and the kernel's together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Pair {
    /// Raw clock.
    pub raw: u64,
    /// `CLOCK_MONOTONIC`, ns.
    pub ns: u64,
}

impl Pair {
    /// Reads both. The raw clock is read before and after the kernel's, and the closest of a few readings is kept.
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

/// The line on which raw times are converted now.
///
/// The line starts where everything before it has been converted, on the line before, and leads to the last reading; so it
/// meets the line before, and rises. Readings have an error, and lines may be as short as a round: behind the last reading,
/// time therefore continues at the rate of the last second or more, not in the line's direction.
///
/// ```text
///              from --- slope ---> until --- rate --->
///   converted |    to be converted     | only now and then
/// ```
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockMap {
    from: Pair,
    slope: u64,
    /// The line's end: the last reading, or `from` if that has passed it.
    until: Pair,
    last: Pair,
    /// Nanoseconds per tick since `anchor`, measured over `baseline` ns.
    rate: u64,
    anchor: Pair,
    baseline: u64,
}

/// Over so many nanoseconds a rate is exact to some parts in ten million; then the next one is measured.
const BASELINE: u64 = 1_000_000_000;

impl ClockMap {
    /// A map with one reading: the rate is known from the next one on.
    pub fn new(pair: Pair, raw: RawClock) -> ClockMap {
        // A guess until the next reading: 1 ns per tick if the raw clock counts nanoseconds, else 2.5 GHz.
        let rate = if raw == RawClock::Monotonic { 1 << FRACTION } else { (1 << FRACTION) * 2 / 5 };
        ClockMap {
            from: pair,
            slope: rate,
            until: pair,
            last: pair,
            rate,
            anchor: pair,
            baseline: 0,
        }
    }

    /// A map between two known readings, for a recovery.
    pub fn between(from: Pair, to: Pair, raw: RawClock) -> ClockMap {
        let mut map = ClockMap::new(from, raw);
        map.observe(to);
        map
    }

    /// Leads the line to this reading from now on. A reading that is not later than the line's start is ignored. If the line is
    /// ahead of the clock, it waits for the clock.
    pub fn observe(&mut self, pair: Pair) {
        if pair.raw <= self.from.raw {
            return;
        }
        self.measure(pair);
        self.until = Pair { ns: pair.ns.max(self.from.ns), ..pair };
        self.slope = slope(self.from, self.until);
    }

    fn measure(&mut self, pair: Pair) {
        if pair.raw <= self.anchor.raw || pair.ns <= self.last.ns {
            return;
        }
        self.last = pair;
        let since = pair.ns - self.anchor.ns;
        if since >= self.baseline {
            self.rate = slope(self.anchor, pair);
            self.baseline = since.min(BASELINE);
        }
        if since >= BASELINE {
            self.anchor = pair;
        }
    }

    /// Nothing before `raw` will be converted any more: the line may change its direction there.
    pub fn pass(&mut self, raw: u64) {
        if raw > self.from.raw {
            self.from = Pair { raw, ns: self.ns(raw) };
            if raw > self.until.raw {
                self.until = self.from;
            }
        }
    }

    /// The start of the line: a map [`between`](ClockMap::between) it and a later reading continues without a step.
    pub fn beginning(&self) -> Pair {
        self.from
    }

    /// The last reading.
    pub fn last(&self) -> Pair {
        self.last
    }

    /// `CLOCK_MONOTONIC` at a raw time, in nanoseconds. Outside of the line, time continues at the clock's rate.
    #[inline]
    pub fn ns(&self, raw: u64) -> u64 {
        let ticks = raw.wrapping_sub(self.from.raw);
        if ticks <= self.until.raw - self.from.raw {
            self.from.ns.saturating_add(along(ticks, self.slope))
        } else {
            self.beyond(raw)
        }
    }

    #[cold]
    fn beyond(&self, raw: u64) -> u64 {
        match raw.checked_sub(self.until.raw) {
            Some(ticks) => self.until.ns.saturating_add(along(ticks, self.rate)),
            None => {
                self.from.ns.saturating_sub(along(self.from.raw.saturating_sub(raw), self.rate))
            }
        }
    }

    /// The latest raw time at or before `ns` nanoseconds of `CLOCK_MONOTONIC`, not before the line's start.
    pub fn raw_at(&self, ns: u64) -> u64 {
        let (mut low, mut high) = (self.from.raw, self.from.raw.saturating_add(1 << 44));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            match self.ns(middle) <= ns {
                true => low = middle,
                false => high = middle - 1,
            }
        }
        low
    }

    /// QPC at a raw time.
    #[inline]
    pub fn qpc(&self, raw: u64) -> i64 {
        (self.ns(raw) / 100) as i64
    }
}

/// The slope of a line through two points, the second of them later.
fn slope(from: Pair, to: Pair) -> u64 {
    let rise = u128::from(to.ns - from.ns) << FRACTION;
    u64::try_from(rise / u128::from(to.raw - from.raw)).unwrap_or(u64::MAX)
}

#[inline]
fn along(ticks: u64, slope: u64) -> u64 {
    ((u128::from(ticks) * u128::from(slope)) >> FRACTION) as u64
}

/// The wall clock now.
pub fn filetime_now() -> FileTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    FileTime(UNIX + (since.as_nanos() / 100) as i64)
}

/// QPC now.
pub(crate) fn qpc_now() -> i64 {
    (RawClock::Monotonic.now() / 100) as i64
}

/// The time when the system started, by the wall clock as it is set at `now`. QPC stands still while the system is suspended, so it began later.
pub(crate) fn boot_time(now: FileTime) -> FileTime {
    FileTime(now.0 - since_boot())
}

/// 100 ns since the system started, also those in which it was suspended.
#[cfg(target_os = "linux")]
fn since_boot() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a value that outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    // A kernel without the file has no time namespaces.
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let offset = etw_types::time_namespace_offset(&offsets, "boottime").unwrap_or(0);
    time.tv_sec * 10_000_000 + time.tv_nsec / 100 - offset / 100
}

#[cfg(not(target_os = "linux"))]
fn since_boot() -> i64 {
    qpc_now()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel states the time in seconds.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_started_when_the_kernel_says() {
        let Ok(text) = std::fs::read_to_string("/proc/stat") else { return };
        let Some(line) = text.lines().find_map(|line| line.strip_prefix("btime ")) else { return };
        let started = UNIX + line.trim().parse::<i64>().unwrap() * 10_000_000;
        let own = boot_time(filetime_now()).0;
        assert!((started - 10_000_000..=started + 20_000_000).contains(&own), "{own} {started}");
    }

    /// Readings have an error, and records are converted long after the reading before them.
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
            // Records that were committed up to some time before the reading are converted now.
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
        for pair in [Pair { raw: 200, ns: 300 }, Pair { raw: 150, ns: 300 }] {
            map.observe(pair);
            assert_eq!(map.last(), Pair { raw: 200, ns: 200 });
        }
        assert_eq!((map.ns(50), map.ns(400)), (50, 400));
        // The line was ahead of the clock, and waits.
        map.observe(Pair { raw: 300, ns: 199 });
        assert_eq!((map.ns(250), map.ns(300), map.ns(400)), (200, 200, 300));
    }

    #[test]
    fn a_raw_time_is_found_by_its_nanoseconds() {
        let mut map = ClockMap::new(Pair { raw: 1_000, ns: 5_000 }, RawClock::Tsc);
        map.observe(Pair { raw: 27_000, ns: 15_000 });
        for ns in [5_000, 5_001, 9_999, 15_000, 20_000] {
            let raw = map.raw_at(ns);
            assert!(map.ns(raw) <= ns && map.ns(raw + 1) >= ns, "{ns}: {raw}");
        }
        assert_eq!(map.raw_at(1), 1_000);
    }

    /// The error of a reading does not grow: not with rounds that are microseconds apart, nor without records, nor when the
    /// host is stopped inside a round.
    #[test]
    fn errors_do_not_grow() {
        let true_ns = |raw: u64| 5_000_000 + (raw - 1_000_000) * 10 / 26;
        let first = Pair { raw: 1_000_000, ns: true_ns(1_000_000) };
        let mut map = ClockMap::new(first, RawClock::Tsc);
        let second = first.raw + 2_600_000;
        map.observe(Pair { raw: second, ns: true_ns(second) + 30 });
        let (mut raw, mut seed, mut last) = (second, 1u64, 0);
        for round in 0..200_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let step = [2_600, 260_000, 65_000_000, 300_000_000][(seed >> 33) as usize % 4];
            raw += 1 + (seed >> 40) % step;
            let watermark = raw;
            // The reading comes a while after the watermark, or not at all.
            raw += 100 + (seed >> 13) % 5_000;
            if (seed >> 50) % 3 != 0 {
                map.observe(Pair { raw, ns: true_ns(raw) + (seed >> 20) % 100 });
            }
            for at in [watermark, raw] {
                let error = map.ns(at).abs_diff(true_ns(at));
                assert!(error < 20_000, "round {round}: {error} ns: {map:?}");
            }
            assert!(map.ns(watermark) >= last, "round {round}");
            last = map.ns(watermark);
            map.pass(watermark);
        }
    }

    /// The drift of an hour would show in a second: the machine's own clocks agree to microseconds.
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
