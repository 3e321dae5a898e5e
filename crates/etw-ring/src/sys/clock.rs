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
        let offset = etw_types::time_namespace_offset(&text, "monotonic").unwrap_or(0);
        OFFSET.store(offset as u64, Ordering::Relaxed);
    }
}

#[cfg(not(unix))]
fn monotonic() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}
