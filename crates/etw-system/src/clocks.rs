//! The machine's `CLOCK_MONOTONIC`, the clock of events, and the time in which the machine was suspended: the clock stands still then.

use std::sync::OnceLock;

use etw_types::time_namespace_offset;

/// Clocks that are read one after the other differ by less, in nanoseconds.
const LEAST: u64 = 10_000_000;

/// Finds out that the machine was suspended.
#[derive(Debug)]
pub(crate) struct Suspension {
    /// Nanoseconds by which `CLOCK_BOOTTIME` is ahead of `CLOCK_MONOTONIC`.
    ahead: u64,
}

/// Nanoseconds by which the clocks of this process's time namespace are ahead of the machine's, by which the kernel records.
struct Offsets {
    monotonic: u64,
    boottime: u64,
}

fn offsets() -> &'static Offsets {
    static OFFSETS: OnceLock<Offsets> = OnceLock::new();
    OFFSETS.get_or_init(|| {
        // A kernel without the file has no time namespaces.
        let text = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        let of = |clock| time_namespace_offset(&text, clock).unwrap_or(0) as u64;
        Offsets { monotonic: of("monotonic"), boottime: of("boottime") }
    })
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a value that outlives the call.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds of the machine's `CLOCK_MONOTONIC`.
pub(crate) fn now() -> u64 {
    read(libc::CLOCK_MONOTONIC).wrapping_sub(offsets().monotonic)
}

fn ahead() -> u64 {
    let monotonic = now();
    read(libc::CLOCK_BOOTTIME).wrapping_sub(offsets().boottime).saturating_sub(monotonic)
}

impl Suspension {
    pub fn new() -> Suspension {
        Suspension { ahead: ahead() }
    }

    /// For how many nanoseconds the machine was suspended since the last look, if it was.
    pub fn look(&mut self) -> Option<u64> {
        self.look_at(ahead())
    }

    fn look_at(&mut self, ahead: u64) -> Option<u64> {
        let suspended = ahead.checked_sub(self.ahead).filter(|suspended| *suspended >= LEAST)?;
        self.ahead = ahead;
        Some(suspended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OV-23: a suspension is found once, and two looks without one find none.
    #[test]
    fn a_suspension_is_found_once() {
        let mut suspension = Suspension::new();
        assert_eq!(suspension.look(), None);
        let ahead = suspension.ahead;
        assert_eq!(suspension.look_at(ahead + 7_000_000_000), Some(7_000_000_000));
        assert_eq!(suspension.look_at(ahead + 7_000_001_000), None);
        assert_eq!(suspension.look_at(ahead), None);
    }
}
