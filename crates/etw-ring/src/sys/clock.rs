//! The raw clock of a pool.

#[cfg(unix)]
use std::sync::atomic::{AtomicU64, Ordering};

/// The raw clock of a pool, which the host chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawClock {
    /// The CPU's time-stamp counter. Only correct if it is invariant and equal on all CPUs.
    Tsc,
    /// `CLOCK_MONOTONIC` in nanoseconds.
    Monotonic,
}

impl RawClock {
    /// The TSC if the kernel itself keeps time by it, else `CLOCK_MONOTONIC`.
    pub fn best() -> RawClock {
        find_time_namespace();
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        {
            let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
            if std::fs::read(source).is_ok_and(|s| s.trim_ascii() == b"tsc") {
                return RawClock::Tsc;
            }
        }
        RawClock::Monotonic
    }

    /// The time now.
    #[inline(always)]
    pub fn now(self) -> u64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: every x86-64 has RDTSC; a process that may not use it (PR_TSC) has another clock source.
            RawClock::Tsc => unsafe { core::arch::x86_64::_rdtsc() },
            #[cfg(not(target_arch = "x86_64"))]
            RawClock::Tsc => monotonic(),
            RawClock::Monotonic => monotonic(),
        }
    }
}

#[cfg(unix)]
fn monotonic() -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid out pointer; the clock exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut ts) };
    let here = ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64;
    here.wrapping_sub(OFFSET.load(Ordering::Relaxed))
}

/// The offset of this process's time namespace from the machine's `CLOCK_MONOTONIC`, in nanoseconds.
#[cfg(unix)]
static OFFSET: AtomicU64 = AtomicU64::new(0);

/// Reads the offset of this process's time namespace, so that processes in different namespaces agree on the machine's clock. If the
/// system does not report it, there is either one namespace, or the host counts records with impossible times.
pub(crate) fn find_time_namespace() {
    #[cfg(target_os = "linux")]
    if let Ok(text) = std::fs::read_to_string("/proc/self/timens_offsets") {
        OFFSET.store(monotonic_offset(&text).unwrap_or(0), Ordering::Relaxed);
    }
}

/// The offset, from lines with a clock's name, seconds and nanoseconds.
#[cfg(target_os = "linux")]
fn monotonic_offset(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("monotonic"))?;
    let mut numbers = line.split_ascii_whitespace();
    let seconds: i64 = numbers.next()?.parse().ok()?;
    let nanos: i64 = numbers.next()?.parse().ok()?;
    Some(seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos) as u64)
}

#[cfg(not(unix))]
fn monotonic() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// proc(5): a line for each clock; the offset may be negative.
    #[test]
    fn the_offset_of_a_time_namespace_is_parsed() {
        let text = "monotonic     86400       500\nboottime  7  0\n";
        assert_eq!(monotonic_offset(text), Some(86_400_000_000_500));
        assert_eq!(
            monotonic_offset("boottime 7 0\nmonotonic -2 5"),
            Some((-1_999_999_995i64) as u64)
        );
        for wrong in ["", "monotonic", "monotonic 5", "monotonic x 0", "boottime 1 1"] {
            assert_eq!(monotonic_offset(wrong), None, "{wrong}");
        }
    }
}
