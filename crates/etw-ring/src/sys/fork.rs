//! The fork page: words that a child finds as zeros, and the ranges that it finds as zeros.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::{claim_fork_word, current_generation, fork_word};
#[cfg(target_os = "linux")]
pub(super) use linux::{forget, remember, zeros};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{claim_fork_word, current_generation, fork_word};

/// The process's generation, which differs in a child made by `fork` or `clone`; 0 if the system cannot report it.
pub fn process_generation() -> u64 {
    fork_word().map_or(0, current_generation)
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering};

    static NO_FORK: AtomicU64 = AtomicU64::new(1);

    pub(crate) fn fork_word() -> io::Result<&'static AtomicU64> {
        Ok(&NO_FORK)
    }

    pub(crate) fn claim_fork_word(_: u64) -> Option<&'static AtomicU64> {
        None
    }

    pub(crate) fn current_generation(word: &AtomicU64) -> u64 {
        word.load(Ordering::Relaxed)
    }
}
