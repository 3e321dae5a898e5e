//! Waking the host: when the pool fills up, and at the first write into a quiet pool.

use std::sync::atomic::{Ordering, fence};

use super::Writer;
use crate::control::QUIET;
use crate::layout::*;
use crate::sys;

impl Writer {
    /// A host that sleeps hears of a pool that fills up; the system call happens at a chunk change only.
    pub(super) fn wake_host(&self) {
        let asleep = match &self.bell {
            Some(bell) => bell.memory().half(0),
            None => self.control.half(C_ASLEEP),
        };
        if asleep.load(Ordering::Relaxed) != 0 {
            // The word is the host's to clear; it may be woken twice.
            sys::futex_wake(asleep);
        }
    }

    /// The host looks at this pool only when it is told to. After the write has been announced, or a host that is about to leave
    /// the pool alone would not see it; before its time is read, so that a host that has not heard of it takes a watermark
    /// below that time.
    pub(super) fn ring(&self) {
        if self.admission(0).load(Ordering::Acquire) & QUIET == 0 {
            return;
        }
        let count = self.control.half(C_QUIET).load(Ordering::Relaxed);
        let rung = self.first().half(P_RUNG);
        if rung.swap(count, Ordering::SeqCst) != count {
            // The host may be about to sleep: it looks at `rung` after it has said so.
            fence(Ordering::SeqCst);
            self.wake_host();
        }
    }
}
