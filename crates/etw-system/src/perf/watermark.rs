//! Up to which time records can be released: some that are earlier may not have been read yet, or lack facts that come later.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::Perf;
use super::bpf::{CallMoment, names_path};
use super::ring::Ring;

/// The beginning of a call waits for its paths for at most so many nanoseconds: the opening of a pipe may take for ever.
const PATIENCE: u64 = 250_000_000;
/// It does not wait if other records use more than this part of a ring.
const USED_PART: u64 = 2;

/// System calls that name files and have not returned. Their paths are known when they return, which a busy machine may delay.
#[derive(Debug, Default)]
pub(super) struct PathCalls {
    /// When each thread began its call.
    begun: HashMap<u32, u64, RandomState>,
}

impl PathCalls {
    /// A call begins or returns.
    pub fn look(&mut self, call: CallMoment) {
        if call.is_return {
            self.begun.remove(&call.thread);
        } else if names_path(call.number) {
            self.begun.insert(call.thread, call.time);
        }
    }

    /// The beginning of the earliest call that is waited for.
    fn first(&mut self, now: u64) -> Option<u64> {
        self.begun.retain(|_, time| now.saturating_sub(*time) < PATIENCE);
        self.begun.values().min().copied()
    }
}

impl Perf {
    /// The last time, up to `until`, before which each record has been read, with the paths that it names. `now`: the time of that look.
    pub fn complete_until(&mut self, until: u64, now: u64) -> u64 {
        let is_used = |ring: &Ring| ring.used() > ring.size() as u64 / USED_PART;
        let is_tight = self.rings.iter().any(is_used)
            || self.programs.as_ref().is_some_and(|programs| programs.is_used(USED_PART));
        let first_call = self.path_calls.first(now).filter(|_| !is_tight);
        let of_programs = self.programs.as_ref().map(|_| self.programs_until);
        first_call.into_iter().chain(of_programs).fold(until, u64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OV-23: a call whose path is not known yet waits for it, but not for ever.
    #[test]
    fn a_call_that_names_a_file_waits_until_it_returns() {
        const MS: u64 = 1_000_000;
        let open = libc::SYS_openat as u64;
        let read = libc::SYS_read as u64;
        let mut calls = PathCalls::default();
        let mut look = |thread, ms: u64, number, is_return| {
            calls.look(CallMoment { thread, time: ms * MS, number, is_return });
            calls.first((ms + 1) * MS).map(|time| time / MS)
        };
        assert_eq!(look(1, 10, read, false), None, "it names no file");
        assert_eq!(look(1, 20, open, false), Some(20));
        assert_eq!(look(2, 30, open, false), Some(20));
        assert_eq!(look(1, 40, open, true), Some(30));
        assert_eq!(look(3, 278, read, false), Some(30), "the last moment");
        assert_eq!(look(3, 279, read, true), None, "it takes too long");
        assert!(calls.begun.is_empty());
    }
}
