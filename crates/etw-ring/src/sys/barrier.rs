//! The host's barrier: membarrier(2), or fences in the writers.

use std::sync::atomic::Ordering;

/// How the host makes every writer's announcement visible before it reads the heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// membarrier(2), private expedited: host and writers are one process.
    Private,
    /// membarrier(2), global expedited: the writers' processes have registered for it.
    Global,
    /// Writers execute a full fence at every event: if membarrier is missing or forbidden.
    WriterFences,
}

impl Barrier {
    /// The cheapest barrier that works here, for a host inside the writer's process or outside it.
    pub fn best(same_process: bool) -> Barrier {
        #[cfg(target_os = "linux")]
        {
            if same_process && linux::register_private() {
                return Barrier::Private;
            }
            if linux::global_works() {
                return Barrier::Global;
            }
        }
        let _ = same_process;
        Barrier::WriterFences
    }

    /// Registers the writer's process when it attaches; else the host's barrier does not reach it.
    pub(crate) fn register(self) -> bool {
        match self {
            #[cfg(target_os = "linux")]
            Barrier::Private => linux::register_private(),
            #[cfg(target_os = "linux")]
            Barrier::Global => linux::register_global(),
            #[cfg(not(target_os = "linux"))]
            Barrier::Private | Barrier::Global => false,
            Barrier::WriterFences => true,
        }
    }

    /// Issues the host's barrier. `false`: the kernel refused, and watermarks are no longer proven.
    pub(crate) fn issue(self) -> bool {
        std::sync::atomic::fence(Ordering::SeqCst);
        match self {
            #[cfg(target_os = "linux")]
            Barrier::Private => linux::membarrier(linux::PRIVATE_EXPEDITED),
            #[cfg(target_os = "linux")]
            Barrier::Global => linux::membarrier(linux::GLOBAL_EXPEDITED),
            #[cfg(not(target_os = "linux"))]
            Barrier::Private | Barrier::Global => false,
            Barrier::WriterFences => true,
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    // linux/membarrier.h
    const QUERY: libc::c_int = 0;
    pub(super) const GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
    const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;
    pub(super) const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    pub(super) fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the system call takes no pointers.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    pub(super) fn register_private() -> bool {
        membarrier(REGISTER_PRIVATE_EXPEDITED)
    }

    pub(super) fn register_global() -> bool {
        membarrier(REGISTER_GLOBAL_EXPEDITED)
    }

    pub(super) fn global_works() -> bool {
        // SAFETY: the system call takes no pointers.
        let known = unsafe { libc::syscall(libc::SYS_membarrier, QUERY, 0, 0) };
        known > 0 && known & libc::c_long::from(GLOBAL_EXPEDITED) != 0
    }
}
