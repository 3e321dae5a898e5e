//! Waiting for a word to change, and waking the waiting thread.

use std::sync::atomic::AtomicU32;
#[cfg(not(target_os = "linux"))]
use std::sync::atomic::Ordering;
use std::time::Duration;

#[cfg(target_os = "linux")]
use super::thread::errno;

#[cfg(target_os = "linux")]
/// Waits while the word is `expected`. Other processes may share the word's memory.
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as libc::time_t,
        tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
    };
    // SAFETY: the word outlives the call; the timeout is read only.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            std::ptr::from_ref(word),
            libc::FUTEX_WAIT,
            expected,
            &raw const timeout,
        );
    }
}

#[cfg(target_os = "linux")]
/// Wakes a waiting thread. Async-signal-safe.
pub(crate) fn futex_wake(word: &AtomicU32) {
    let before = errno();
    // SAFETY: the word outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, std::ptr::from_ref(word), libc::FUTEX_WAKE, 1) };
    // SAFETY: the thread's own errno, restored since a signal handler may be the caller.
    unsafe { *libc::__errno_location() = before };
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    // This system has no futex: poll.
    let end = std::time::Instant::now() + timeout;
    while word.load(Ordering::Relaxed) == expected && std::time::Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1).min(timeout));
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn futex_wake(word: &AtomicU32) {
    word.store(0, Ordering::Relaxed);
}
