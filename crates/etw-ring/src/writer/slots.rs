//! Thread slots: a thread takes one at its first write, and may take a dead thread's.

use std::sync::atomic::Ordering;

use super::Writer;
use super::line::{Counters, Line};
use super::thread::ThreadState;
use crate::layout::*;
use crate::proto::{self, Head};
use crate::sys;

impl Writer {
    /// The line of a thread that holds its `busy` flag and has a slot of this pool.
    pub(super) fn line(&self, thread: &ThreadState) -> Option<&Line> {
        if thread.epoch.get() != self.epoch {
            return None;
        }
        // SAFETY: set by `register` for this writer, or null.
        unsafe { thread.line.get().as_ref() }
    }

    pub(super) fn line_at(&self, slot: usize) -> &Line {
        let at = P_LINES + slot * LINE_SIZE;
        assert!(slot < MAX_THREADS && at + LINE_SIZE <= self.first().len());
        // SAFETY: in range, aligned (layout constants), all fields atomics, lives as long as the writer.
        unsafe { &*self.first().as_ptr().add(at).cast::<Line>() }
    }

    pub(super) fn reset(&self, thread: &ThreadState) {
        thread.tid.set(sys::thread_id());
        thread.line.set(std::ptr::null());
        thread.counters.set(std::ptr::null());
        thread.head.set(Head(0));
        thread.free.set(0);
        thread.class.set(0);
        thread.retry.set(0);
        thread.masks.iter().for_each(|mask| mask.set(0));
        thread.open_of_writer.set(self.open);
        thread.open_if_free();
        thread.gate.set(self.gate);
        thread.cpu.set(self.cpu);
        thread.writer.set(self);
        thread.epoch.set(self.epoch);
    }

    /// Takes a thread slot: a new slot while there are few, then a dead thread's, then a new slot again.
    pub(super) fn register(&self, thread: &ThreadState) {
        let tid = thread.tid.get();
        let high = self.first().half(P_SLOTS);
        let mut slot = None;
        let used = (high.load(Ordering::Relaxed) as usize).min(MAX_THREADS);
        if used >= 64 {
            // Eight tries: as threads start and end, as many slots are found as threads have ended.
            for _ in 0..8 {
                let index = self.probe.fetch_add(1, Ordering::Relaxed) as usize % used;
                if self.take_over(index, tid) {
                    slot = Some(index);
                    break;
                }
            }
        }
        if slot.is_none() {
            let mut now = high.load(Ordering::Relaxed);
            while (now as usize) < MAX_THREADS {
                match high.compare_exchange(now, now + 1, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => {
                        self.line_at(now as usize).owner.store(u64::from(tid), Ordering::Release);
                        slot = Some(now as usize);
                        break;
                    }
                    Err(other) => now = other,
                }
            }
        }
        let Some(slot) = slot else { return };
        let at = P_COUNTERS + slot * COUNTERS_SIZE;
        thread.slot.set(slot as u16);
        // SAFETY: `slot < MAX_THREADS`, so the counters are in range and aligned.
        thread.counters.set(unsafe { self.first().as_ptr().add(at).cast::<Counters>() });
        thread.line.set(self.line_at(slot));
    }

    /// `owner: dead → tid`. Closes the dead owner's chunk at its committed offset.
    fn take_over(&self, slot: usize, tid: u32) -> bool {
        let line = self.line_at(slot);
        let owner = line.owner.load(Ordering::Acquire);
        let old = owner as u32;
        // 0: a thread has just taken the slot and not yet written its id. This thread's own id: either its earlier state was lost
        // (its attachment number served another pool meanwhile), or a dead thread had the same id.
        if old == 0 || (old != tid && sys::thread_alive(old)) {
            return false;
        }
        let new = ((owner >> 32) + 1) << 32 | u64::from(tid);
        if line.owner.compare_exchange(owner, new, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        let head = Head(line.head.load(Ordering::Acquire));
        if head.is_valid() {
            proto::close(self.unit(head.unit()), head.generation(), head.committed());
        }
        line.head.store(0, Ordering::Release);
        true
    }
}
