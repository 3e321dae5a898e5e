//! Quiet pools, which are not drained until a writer rings.

use std::sync::atomic::Ordering;

use super::{Drained, Reader};
use crate::layout::*;

impl Reader {
    /// From a quiet pool nothing is drained; its next write wakes the host instead. To be asked again until it says so: a
    /// write that had begun before it was asked may still be on its way.
    ///
    /// Returns whether the pool is quiet: nothing was drained by the last drain, nothing is in flight.
    pub fn be_quiet(&mut self, last: &Drained, in_flight: bool) -> bool {
        match self.quiet {
            None => {
                self.quiet = Some(self.control.ask_to_ring());
                self.is_quiet = false;
            }
            // A drain has come after it was asked, and found nothing.
            Some(_) if last.records == 0 && !last.is_rest && !in_flight && !self.is_rung() => {
                self.is_quiet = true;
                // There may be hundreds.
                self.table = Vec::new();
            }
            Some(_) => self.wake(),
        }
        self.is_quiet
    }

    /// Is it not to be drained?
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Has a writer rung since the pool is quiet?
    pub fn is_rung(&self) -> bool {
        let mut rung = [0; 4];
        self.segments[0].source.read(P_RUNG, &mut rung);
        std::sync::atomic::fence(Ordering::Acquire);
        self.quiet == Some(u32::from_le_bytes(rung))
    }

    /// For a control that a host before left: whether its pool was quiet then is not asked.
    pub fn wake_after_restart(&mut self) {
        self.control.stop_asking();
    }

    /// It is drained again.
    pub fn wake(&mut self) {
        if self.quiet.take().is_some() {
            self.control.stop_asking();
        }
        self.is_quiet = false;
    }
}
