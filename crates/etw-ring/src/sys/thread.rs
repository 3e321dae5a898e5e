//! Thread ids, and whether a thread still runs.

#[cfg(target_os = "linux")]
pub(crate) fn thread_id() -> u32 {
    // SAFETY: takes and returns plain numbers.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

#[cfg(target_os = "linux")]
/// Whether this thread of this process still runs; `true` if the kernel does not report it.
pub(crate) fn thread_alive(tid: u32) -> bool {
    let before = errno();
    // SAFETY: signal 0 only tests.
    let r = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid as libc::c_int, 0) };
    let dead = r != 0 && errno() == libc::ESRCH;
    // Restored, since a signal handler may be the caller.
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() = before };
    !dead
}

#[cfg(target_os = "linux")]
pub(super) fn errno() -> libc::c_int {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() }
}

#[cfg(target_os = "linux")]
/// Whether thread `tid` of process `pid` still runs, for a host in another process.
pub fn process_thread_alive(pid: u32, tid: u32) -> bool {
    // SAFETY: signal 0 only tests.
    let r = unsafe { libc::syscall(libc::SYS_tgkill, pid as libc::c_int, tid as libc::c_int, 0) };
    !(r != 0 && errno() == libc::ESRCH)
}

#[cfg(target_os = "linux")]
/// Whether thread `tid` of process `pid` runs or waits for a processor, for a host in another process. `false` if the kernel does not
/// report it.
pub fn is_thread_busy(pid: u32, tid: u32) -> bool {
    let stat = std::fs::read(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    // The state follows the name, which may contain anything.
    let name_end = stat.iter().rposition(|byte| *byte == b')');
    name_end.is_some_and(|end| stat.get(end + 2) == Some(&b'R'))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn thread_id() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local!(static ID: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
    ID.with(|id| {
        if id.get() == 0 {
            id.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        id.get()
    })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn thread_alive(_tid: u32) -> bool {
    true
}
