//! The sizes of the kernel's rings, by the number of CPUs and by the memory that the user may lock.

use crate::own_rights::{OwnRights, paranoid, read};
use crate::perf::RingSize;

/// The ring of a CPU for processes and mappings: some 10,000 programs that begin and end, each with a dozen mappings.
pub(crate) const SIDE_RING: RingBounds = RingBounds { usual: 4 << 20, least: 1 << 20 };
/// The ring of a CPU for everything else: half a second of 300,000 switches a second.
pub(crate) const MAIN_RING: RingBounds = RingBounds { usual: 16 << 20, least: 4 << 20 };
/// The same for records with stacks of programs.
pub(crate) const STACK_RING: RingBounds = RingBounds { usual: 32 << 20, least: 4 << 20 };
/// The same for the records of one command and its children.
pub(crate) const OWN_RING: RingBounds = RingBounds { usual: 4 << 20, least: 1 << 20 };
/// The ring of events that only count.
pub(crate) const NO_RECORDS: RingSize = RingSize(64 << 10);
/// Rings are smaller than usual if those of all CPUs would have more bytes.
const MAX_RINGS: usize = 256 << 20;
/// The largest ring of programs without such stacks, which all CPUs share.
const MAX_PROGRAM_RING: usize = 64 << 20;
/// The ring for processes and mappings has at least so many bytes where little memory may be locked, and otherwise this part of it.
const LEAST_SIDE: usize = 128 << 10;
const SIDE_PART: usize = 16;
/// The first page of a ring, which has no records, at most.
const FIRST_PAGE: usize = 64 << 10;
/// The KiB of each CPU that the kernel permits if its setting cannot be read.
const USUAL_KIB: usize = 516;

/// Bytes of the ring of a CPU.
pub(crate) struct RingBounds {
    usual: usize,
    least: usize,
}

/// The largest power of two that is not larger.
fn power_of_two_in(size: usize) -> usize {
    1 << size.max(1).ilog2()
}

impl RingBounds {
    /// The size on a machine with so many CPUs.
    fn size(&self, cpus: usize) -> RingSize {
        let share = (MAX_RINGS / cpus.max(1)).max(self.least);
        RingSize(self.usual.min(power_of_two_in(share)))
    }
}

/// The ring of programs on a machine with so many CPUs. `has_stacks`: it takes the place of the rings for records with stacks of programs.
pub(crate) fn program_ring(cpus: usize, has_stacks: bool) -> RingSize {
    let (bounds, largest) = match has_stacks {
        true => (&STACK_RING, MAX_RINGS),
        false => (&MAIN_RING, MAX_PROGRAM_RING),
    };
    RingSize((bounds.usual * cpus).next_power_of_two().min(largest))
}

/// The sizes on this machine, for this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingSizes {
    cpus: usize,
    /// Bytes that may be locked for the two rings of a CPU; `None`: there is no limit.
    lockable: Option<usize>,
}

impl RingSizes {
    /// The sizes for so many CPUs.
    pub fn of(cpus: usize) -> RingSizes {
        let is_free = paranoid().is_some_and(|level| level < 0) || OwnRights::read().has_ipc_lock();
        RingSizes { cpus, lockable: (!is_free).then(|| lockable(cpus)) }
    }

    /// The ring for processes and mappings.
    pub fn side(self) -> RingSize {
        let size = SIDE_RING.size(self.cpus);
        let part = |locked: usize| power_of_two_in(locked / SIDE_PART).max(LEAST_SIDE);
        RingSize(self.lockable.map_or(size.0, |locked| size.0.min(part(locked))))
    }

    /// The ring for everything else.
    pub fn main(self, bounds: &RingBounds) -> RingSize {
        let size = bounds.size(self.cpus);
        let rest = |locked: usize| {
            let rest = locked.saturating_sub(self.side().0 + 2 * FIRST_PAGE);
            power_of_two_in(rest).max(LEAST_SIDE)
        };
        RingSize(self.lockable.map_or(size.0, |locked| size.0.min(rest(locked))))
    }

    /// The ring for everything else, of a process without a limit.
    pub fn without_limit(self, bounds: &RingBounds) -> RingSize {
        bounds.size(self.cpus)
    }
}

/// Bytes that this process may lock for the rings of a CPU.
fn lockable(cpus: usize) -> usize {
    let setting = read("/proc/sys/kernel/perf_event_mlock_kb").trim().parse();
    let of_cpu = setting.unwrap_or(USUAL_KIB).saturating_mul(1024);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes to a value of this call's own.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } == 0;
    let limit = if known { usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX) } else { 0 };
    share(of_cpu, limit / cpus.max(1))
}

/// The kernel permits a user `of_cpu` bytes for each CPU, and a process `limit` more. Half of both is left to a second session, as long as
/// the first one has what is for each CPU.
fn share(of_cpu: usize, limit: usize) -> usize {
    of_cpu.max(of_cpu.saturating_add(limit) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_of_many_cpus_are_smaller() {
        let sizes = |cpus| [&SIDE_RING, &MAIN_RING, &STACK_RING].map(|one| one.size(cpus).0 >> 20);
        assert_eq!(sizes(2), [4, 16, 32]);
        assert_eq!(sizes(12), [4, 16, 16]);
        assert_eq!(sizes(128), [2, 4, 4]);
        assert_eq!(sizes(2048), [1, 4, 4]);
        let sizes = |has_stacks| [1, 2, 3, 8].map(|cpus| program_ring(cpus, has_stacks).0 >> 20);
        assert_eq!((sizes(false), sizes(true)), ([16, 32, 64, 64], [32, 64, 128, 256]));
    }

    /// OV-23: a user who may lock little memory has most of it for samples, and a second session has as much.
    #[test]
    fn two_sessions_fit_into_the_memory_that_a_user_may_lock() {
        const KIB: usize = 1024;
        for (cpus, limit, side, main) in [
            // Without a limit beside the kernel's 516 KiB, and with that of old systems.
            (2, 0, 128, 256),
            (2, 64 * KIB, 128, 256),
            (2, 8192 * KIB, 128, 2048),
            (8, 8192 * KIB, 128, 512),
            (64, 8192 * KIB, 128, 256),
            (1, usize::MAX, 4096, 32768),
        ] {
            let lockable = share(516 * KIB, limit / cpus);
            let sizes = RingSizes { cpus, lockable: Some(lockable) };
            let all = [sizes.side(), sizes.main(&STACK_RING)].map(|size| size.0 / KIB);
            assert_eq!(all, [side, main], "{cpus} CPUs, {limit}");
            let needed = cpus * (all.iter().sum::<usize>() + 8) * KIB;
            assert!(needed <= (cpus * 516 * KIB).saturating_add(limit), "{cpus} CPUs, {limit}");
        }
        let free = RingSizes { cpus: 2, lockable: None };
        assert_eq!([free.side(), free.main(&STACK_RING)].map(|size| size.0 >> 20), [4, 32]);
    }
}
