//! How long the kernel's rings may be left alone between two polls.

use std::time::Duration;

/// The pause while programs begin of which more than the kernel's records is looked up, as long as they live, and while rings may fill in a
/// short time.
const SHORT: Duration = Duration::from_millis(10);
/// The pause otherwise. A wake-up of the host costs 40 to 200 µs, with or without records.
const LONG: Duration = Duration::from_millis(100);
/// The same where the host looks up the arguments of a program that begins.
const LONG_WITH_LOOKS: Duration = Duration::from_millis(25);
/// Bytes of records between two polls, of which most are still in a cache when they are read again.
const SIZE: u64 = 512 << 10;
/// More such programs are expected for so many nanoseconds behind one that began.
const EXPECTED: u64 = 1_000_000_000;

/// Facts that have to be read or looked up soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Haste {
    /// Files that are open for a moment, or rings that fill in a short time.
    Always,
    /// Arguments of programs, which may end at once.
    WhenProgramsBegin,
    /// Nothing: the kernel's records have it all.
    None,
}

impl Haste {
    /// `is_urgent`: something is always to be read soon. `has_programs`: programs in the kernel copy the arguments of new processes.
    pub fn of(is_urgent: bool, has_programs: bool) -> Haste {
        match (is_urgent, has_programs) {
            (true, _) => Haste::Always,
            (false, false) => Haste::WhenProgramsBegin,
            (false, true) => Haste::None,
        }
    }
}

/// The pause until the next poll.
#[derive(Debug)]
pub(crate) struct Pace {
    pub pause: Duration,
    /// A program whose facts were looked up has begun since the last poll.
    pub has_looks: bool,
    longest: Duration,
    /// Bytes of records between two polls.
    size: u64,
    /// When the rings were polled last, and when such a program began, in nanoseconds.
    last: u64,
    last_looks: u64,
}

impl Pace {
    /// A recorder's pace while little happens. `ring`: bytes of the smallest ring of a CPU; `flow`: those that may come to it in a second, as
    /// soon as a CPU is busy.
    pub fn new(haste: Haste, ring: u64, flow: u64) -> Pace {
        let longest = match haste {
            Haste::Always => SHORT,
            Haste::WhenProgramsBegin => LONG_WITH_LOOKS,
            Haste::None => LONG,
        };
        // Half of the ring is for what comes while a poll is late.
        let until_full = Duration::from_millis((ring / 2).saturating_mul(1000) / flow.max(1));
        let longest = longest.min(until_full).max(SHORT);
        let size = SIZE.min(ring / 4);
        Pace { pause: SHORT, has_looks: false, longest, size, last: 0, last_looks: 0 }
    }

    /// Whether a ring of so many bytes has room for what comes between two polls at least, if `flow` bytes come in a second.
    pub fn suffices(ring: u64, flow: u64) -> bool {
        flow * SHORT.as_millis() as u64 / 1000 <= ring / 2
    }

    /// The rings were polled and had so many bytes.
    pub fn polled(&mut self, time: u64, size: u64) {
        let elapsed = time.saturating_sub(std::mem::replace(&mut self.last, time));
        if std::mem::take(&mut self.has_looks) {
            self.last_looks = time;
        }
        let is_quiet = self.last_looks == 0 || time.saturating_sub(self.last_looks) > EXPECTED;
        self.pause = match is_quiet {
            true => {
                let pause = u128::from(elapsed) * u128::from(self.size) / u128::from(size.max(1));
                let pause = u64::try_from(pause).map_or(self.longest, Duration::from_nanos);
                pause.clamp(SHORT, self.longest)
            }
            false => SHORT,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;
    const LARGE: u64 = 16 << 20;

    #[test]
    fn rings_are_read_often_while_they_fill_or_programs_are_looked_up() {
        let mut pace = Pace::new(Haste::None, LARGE, 0);
        let mut time = 0;
        let mut after = |pace: &mut Pace, elapsed: u64, size: u64| {
            time += elapsed * MILLISECOND;
            pace.polled(time, size);
            pace.pause
        };
        assert_eq!(after(&mut pace, 10, 1000), LONG);
        assert_eq!(after(&mut pace, 50, 0), LONG);
        assert_eq!(after(&mut pace, 50, SIZE * 10), SHORT);
        assert_eq!(after(&mut pace, 10, SIZE / 2), Duration::from_millis(20));
        pace.has_looks = true;
        assert_eq!(after(&mut pace, 20, 0), SHORT);
        assert_eq!(after(&mut pace, 999, 0), SHORT);
        assert_eq!(after(&mut pace, 10, 0), LONG);
    }

    #[test]
    fn a_small_ring_is_read_before_it_is_full() {
        let mut pace = Pace::new(Haste::None, 256 << 10, 8 << 20);
        pace.polled(10 * MILLISECOND, 0);
        assert_eq!(pace.pause, Duration::from_millis(15));
        pace.polled(30 * MILLISECOND, 128 << 10);
        assert_eq!(pace.pause, SHORT);
        let mut pace = Pace::new(Haste::None, LARGE, 8 << 20);
        pace.polled(10 * MILLISECOND, 0);
        assert_eq!(pace.pause, LONG);
        assert!(Pace::suffices(256 << 10, 12 << 20) && !Pace::suffices(256 << 10, 16 << 20));
    }

    #[test]
    fn what_must_be_read_soon_is() {
        for (haste, pause) in [
            (Haste::Always, SHORT),
            (Haste::WhenProgramsBegin, LONG_WITH_LOOKS),
            (Haste::None, LONG),
        ] {
            let mut pace = Pace::new(haste, LARGE, 0);
            pace.polled(100 * MILLISECOND, 0);
            assert_eq!(pace.pause, pause);
        }
    }
}
