//! Runs: events of sites, of one CPU, whose order the caller knows. Their buffer is found once, and they are counted once.

use std::sync::atomic::Ordering;

use super::{Facts, Session};
use crate::buffer::padded;
use crate::event::MAX_EVENT_SIZE;
use crate::host_facts::EventClock;
use crate::ledger::Ledger;
use crate::shape::Shaped;

/// Where the events of a run go. They count from [`finish`](ShapedRun::finish) on.
#[derive(Debug)]
#[must_use = "its events count only after `finish`"]
pub struct ShapedRun<'s> {
    /// The version of the session's enablements.
    version: u64,
    clock: EventClock,
    memory: &'s mut [u8],
    /// Bytes in use, with those of the run.
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
    pub fn begin_run(&mut self, cpu: u16) -> Option<ShapedRun<'_>> {
        let index = if self.settings.per_processor { usize::from(cpu) } else { 0 };
        // A buffer exists only while the session runs.
        let buffer = self.open.get_mut(index)?.as_mut().filter(|buffer| buffer.events > 0)?;
        Some(ShapedRun {
            version: self.enabled.version,
            clock: self.settings.host.clock,
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
        let end = self.filled + padded(size);
        let is_known = event.shape.wanted.load(Ordering::Relaxed) == self.version;
        if !is_known || size > MAX_EVENT_SIZE {
            return false;
        }
        let time = self.clock.of(event.time, event.raw);
        let Some(room) = self.memory.get_mut(self.filled..end) else { return false };
        if time < self.last_time {
            return false;
        }
        event.encode(time, size, room);
        self.filled = end;
        self.last_time = time;
        self.count += 1;
        self.size += size as u64;
        true
    }

    /// Ends the run: its events are stored and counted.
    #[inline]
    pub fn finish(self) {
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
