//! Waking the host, when the pool fills up and at the first write into a quiet pool.

use std::sync::atomic::{Ordering, fence};

use super::Writer;
use crate::control::QUIET;
use crate::layout::*;
use crate::sys;

impl Writer {
    /// Wakes a host that waits. The system call happens at a chunk change only.
    pub(super) fn wake_host(&self) {
        let asleep = match &self.bell {
            Some(bell) => bell.memory().half(0),
            None => self.control.half(C_ASLEEP),
        };
        if asleep.load(Ordering::Relaxed) != 0 {
            // The host clears the word, so two writers may wake it twice.
            sys::futex_wake(asleep);
        }
    }

    /// Wakes the host at the first write into a quiet pool. The call comes after the announcement, so that a host that is about to make
    /// the pool quiet sees the write; and before the write's time is read, so that a host that misses the call has a watermark below
    /// that time.
    pub(super) fn ring(&self) {
        if self.admission(0).load(Ordering::Acquire) & QUIET == 0 {
            return;
        }
        let count = self.control.half(C_QUIET).load(Ordering::Relaxed);
        let rung = self.first().half(P_RUNG);
        if rung.swap(count, Ordering::SeqCst) != count {
            // The host may be about to wait: it reads `rung` after it has set its futex word.
            fence(Ordering::SeqCst);
            self.wake_host();
        }
    }
}
