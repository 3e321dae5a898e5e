//! Quiet pools, which are not drained until a writer rings.

use std::sync::atomic::Ordering;

use super::{Drained, Reader};
use crate::layout::*;

impl Reader {
    /// Makes an idle pool quiet: it is not drained, and its next write wakes the host. Call it after each drain until it returns `true`,
    /// since a write that started before the first call may still be in flight.
    ///
    /// Returns whether the pool is quiet: the last drain found nothing, and nothing is in flight.
    pub fn be_quiet(&mut self, last: &Drained, in_flight: bool) -> bool {
        match self.quiet {
            None => {
                self.quiet = Some(self.control.ask_to_ring());
                self.is_quiet = false;
            }
            // A drain after the request has found nothing.
            Some(_) if last.records == 0 && !last.is_rest && !in_flight && !self.is_rung() => {
                self.is_quiet = true;
                // Hundreds of pools may be quiet: keep no buffer.
                self.table = Vec::new();
            }
            Some(_) => self.wake(),
        }
        self.is_quiet
    }

    /// Whether the pool is quiet, and so not drained.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Whether a write has come since the pool became quiet.
    pub fn is_rung(&self) -> bool {
        let mut rung = [0; 4];
        self.segments[0].source.read(P_RUNG, &mut rung);
        std::sync::atomic::fence(Ordering::Acquire);
        self.quiet == Some(u32::from_le_bytes(rung))
    }

    /// For a control page of an earlier host: makes its pool busy, whether it was quiet or not.
    pub fn wake_after_restart(&mut self) {
        self.control.stop_asking();
    }

    /// Makes the pool busy: it is drained again.
    pub fn wake(&mut self) {
        if self.quiet.take().is_some() {
            self.control.stop_asking();
        }
        self.is_quiet = false;
    }
}
