//! Runs: events of sites, of one CPU, whose order the caller knows. Their buffer is found once, and they are counted once.

use std::fmt;
use std::sync::atomic::Ordering;

use super::{Facts, Session};
use crate::buffer::padded;
use crate::event::MAX_EVENT_SIZE;
use crate::host_facts::EventClock;
use crate::ledger::Ledger;
use crate::shape::Shaped;

/// Where a run's events are put together before many of them are copied into their buffer at once.
pub struct RunStage {
    bytes: Box<[u8]>,
    copy: CopyBytes,
}

/// Copies its second argument to its first, which has the same length.
type CopyBytes = fn(&mut [u8], &[u8]);

impl RunStage {
    /// It stays in a processor's first cache beside what a round reads.
    const SIZE: usize = 16 << 10;

    /// `copy` copies its second argument to its first, which has the same length and lies in a buffer.
    pub fn new(copy: CopyBytes) -> RunStage {
        RunStage { bytes: vec![0; RunStage::SIZE].into(), copy }
    }
}

impl fmt::Debug for RunStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStage").finish_non_exhaustive()
    }
}

/// Where the events of a run go. They count from [`finish`](ShapedRun::finish) on.
#[derive(Debug)]
#[must_use = "its events count only after `finish`"]
pub struct ShapedRun<'s> {
    /// The version of the session's enablements.
    version: u64,
    clock: EventClock,
    stage: &'s mut [u8],
    copy: CopyBytes,
    /// Bytes in the stage.
    staged: usize,
    /// The buffer, and its bytes in use without those in the stage.
    memory: &'s mut [u8],
    filled: usize,
    last_time: i64,
    count: u64,
    /// Bytes of records, without padding.
    size: u64,
    totals: Totals<'s>,
}

/// The numbers of session and buffer that a run changes at its end.
#[derive(Debug)]
struct Totals<'s> {
    filled: &'s mut usize,
    events: &'s mut u64,
    last_time: &'s mut i64,
    ledger: &'s mut Ledger,
    facts: &'s mut Facts,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Session<B> {
    /// Begins a run of events of one CPU. `None`: the CPU has no open buffer, or an empty one, which notes the time of its first
    /// event.
    #[inline]
    pub fn begin_run<'s>(&'s mut self, cpu: u16, stage: &'s mut RunStage) -> Option<ShapedRun<'s>> {
        let index = if self.settings.per_processor { usize::from(cpu) } else { 0 };
        // A buffer exists only while the session runs.
        let buffer = self.open.get_mut(index)?.as_mut().filter(|buffer| buffer.events > 0)?;
        Some(ShapedRun {
            version: self.enabled.version,
            clock: self.settings.host.clock,
            stage: &mut stage.bytes,
            copy: stage.copy,
            staged: 0,
            memory: buffer.memory.as_mut(),
            filled: buffer.filled,
            last_time: buffer.last_time,
            count: 0,
            size: 0,
            totals: Totals {
                filled: &mut buffer.filled,
                events: &mut buffer.events,
                last_time: &mut buffer.last_time,
                ledger: &mut self.ledger,
                facts: &mut self.facts,
            },
        })
    }
}

impl ShapedRun<'_> {
    /// Puts an event into the buffer, if nothing about it is unusual: the session was found to store the events of its site
    /// unchanged, the buffer has room, and its time is not earlier than that of the event before. Otherwise nothing is done.
    #[inline(always)]
    pub fn put(&mut self, event: &Shaped<'_>) -> bool {
        let size = event.size();
        let end = self.staged + padded(size);
        let is_known = event.shape.wanted.load(Ordering::Relaxed) == self.version;
        if !is_known || size > MAX_EVENT_SIZE || self.filled + end > self.memory.len() {
            return false;
        }
        let time = self.clock.of(event.time, event.raw);
        if time < self.last_time {
            return false;
        }
        match self.stage.get_mut(self.staged..end) {
            Some(room) => {
                event.encode(time, size, room);
                self.staged = end;
            }
            None => {
                // A copy of its own: an event whose address a call gets would lie in memory on the usual way, too.
                let event = *event;
                self.put_behind_stage(&event, time, size);
            }
        }
        self.last_time = time;
        self.count += 1;
        self.size += size as u64;
        true
    }

    /// Puts an event that the rest of the stage is too small for.
    #[cold]
    #[inline(never)]
    fn put_behind_stage(&mut self, event: &Shaped<'_>, time: i64, size: usize) {
        self.empty_stage();
        let end = padded(size);
        match self.stage.get_mut(..end) {
            Some(room) => {
                event.encode(time, size, room);
                self.staged = end;
            }
            None => {
                event.encode(time, size, &mut self.memory[self.filled..self.filled + end]);
                self.filled += end;
            }
        }
    }

    /// Copies what is in the stage to the buffer.
    fn empty_stage(&mut self) {
        let end = self.filled + self.staged;
        (self.copy)(&mut self.memory[self.filled..end], &self.stage[..self.staged]);
        (self.filled, self.staged) = (end, 0);
    }

    /// Ends the run: its events are stored and counted.
    #[inline]
    pub fn finish(mut self) {
        self.empty_stage();
        let totals = self.totals;
        *totals.filled = self.filled;
        *totals.events += self.count;
        *totals.last_time = self.last_time;
        totals.ledger.attempted += self.count;
        totals.ledger.stored += self.count;
        totals.facts.last_time = totals.facts.last_time.max(self.last_time);
        totals.facts.bytes += self.size;
    }
}
