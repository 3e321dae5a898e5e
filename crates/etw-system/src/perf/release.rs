//! Records go on in order of time, and the kernel gets their memory back when they are stored.

use std::cell::Cell;
use std::ops::ControlFlow;

use super::bpf::{self, Programs};
use super::gaps::beside_rings;
use super::parse::{Parsed, PerfDetail, Scratch, parse};
use super::ring::Ring;
use super::sample::RecordRing;
use super::waiting::Waiting;
use super::{PROGRAMS, Perf, record_ring};
use crate::neutral::{Detail, NeutralEvent};
use crate::thread_ids::Ran;

/// First frames of wake-ups that are known; a kernel has two or three.
const MAX_WAKERS: usize = 16;

/// The records that stay in a ring behind its last switch have at most this part of it.
pub(super) const LARGEST_TAIL: usize = 8;
/// Bytes of a record with a copied stack that are mostly read: the frames that kernel and frame pointers give, and the innermost frames of
/// the copy.
const SOON_READ: usize = 2048;
/// The same of a sample that a program recorded: mostly one frame, and the stack.
const SOON_READ_OF_PROGRAMS: usize = 1024;
/// Memory for so many waiting records is kept after a burst.
const KEPT_WAITING: usize = 1 << 15;
/// A record before the watermark.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Given<'a> {
    /// A switch that a program recorded: most records are.
    Switch(&'a NeutralEvent<'a>),
    Other(&'a Parsed<'a>),
}

/// Positions in the rings before which all records have been released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReleasedPositions {
    /// The position in each ring of events, in their order.
    pub(super) rings: Vec<u64>,
    /// The position in the ring of the programs.
    programs: Option<ReleasedByPrograms>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReleasedByPrograms {
    position: u64,
    /// Losses that have been released, too.
    losses: u64,
}

impl Perf {
    /// For each ring a position before which all records have been released. The last switch stays behind it: a process that
    /// continues with the ring reads there which thread the CPU runs.
    pub fn released(&self) -> ReleasedPositions {
        let mut positions: Vec<u64> = self.rings.iter().map(Ring::read_until).collect();
        let mut of_programs = self.programs.as_ref().map_or(0, Programs::read_until);
        for one in &self.waiting {
            match positions.get_mut(one.ring) {
                Some(position) => *position = one.position.min(*position),
                None if one.ring == PROGRAMS => of_programs = one.position.min(of_programs),
                None => {}
            }
        }
        for ((position, ring), switch) in
            positions.iter_mut().zip(&self.rings).zip(&self.last_switches)
        {
            // On a CPU that has not switched for long, the other records would fill the ring.
            let largest = (ring.size() / LARGEST_TAIL) as u64;
            if let Some(switch) =
                switch.filter(|switch| position.saturating_sub(*switch) <= largest)
            {
                *position = switch.min(*position);
            }
        }
        let losses = self.released_losses;
        let programs = self.released_of_programs(of_programs);
        let programs = programs.map(|position| ReleasedByPrograms { position, losses });
        ReleasedPositions { rings: positions, programs }
    }

    /// The same for the ring of the programs, with the last switch of each CPU. All records before `position` have been released.
    fn released_of_programs(&self, position: u64) -> Option<u64> {
        let programs = self.programs.as_ref()?;
        let largest = (programs.size() / LARGEST_TAIL) as u64;
        let switches = self.last_program_switches.iter().flatten();
        let kept = switches.filter(|switch| position.saturating_sub(**switch) <= largest).min();
        Some(kept.map_or(position, |switch| (*switch).min(position)))
    }

    /// Gives the kernel the memory of the records before these positions, which [`released`](Perf::released) gave: they are stored.
    pub fn commit(&mut self, positions: &ReleasedPositions) {
        // Rings that were added later are behind the others.
        let rings = self.rings.iter().zip(&positions.rings);
        rings.for_each(|(ring, position)| ring.commit(*position));
        if let (Some(programs), Some(released)) = (&mut self.programs, positions.programs) {
            programs.commit(released.position, released.losses);
        }
    }

    /// Gives the records before `until`, in order of time, until one of them ends it. Returns the time before which all have been given.
    pub fn release(
        &mut self,
        until: u64,
        mut give: impl FnMut(Given<'_>) -> ControlFlow<()>,
    ) -> u64 {
        self.last_switches.resize(self.rings.len(), None);
        // Each ring is one run, but for a few records.
        self.waiting.sort_by_key(|one| one.time);
        let mut count = self.waiting.partition_point(|one| one.time < until);
        let Perf { rings, ring_uses, programs, waiting, kinds, ids, has_stack_bytes, .. } = self;
        let (last_switches, last_program_switches) =
            (&mut self.last_switches, &mut self.last_program_switches);
        let (mut scratch, mut linear) = (Scratch::default(), Vec::new());
        let (mut frames, wakers, waker) = (Vec::new(), &mut self.wakers, Cell::new(None));
        let has_ids = ids.is_some();
        for (at, one) in waiting[..count].iter().enumerate() {
            if *has_stack_bytes {
                prefetch(&waiting[at..], rings, programs.as_ref());
            }
            if one.ring == PROGRAMS
                && !has_ids
                && let Some(record) = programs.as_ref().and_then(|all| all.record(one.position))
                && let Some(switch) = bpf::switch(record)
            {
                let last = of_cpu(last_program_switches, switch.cpu);
                *last = (*last).max(Some(one.position));
                if give(Given::Switch(&switch)).is_break() {
                    count = at + 1;
                    break;
                }
                continue;
            }
            // A whole record is many words: it is not moved once it is made.
            let mut take = |parsed: &Parsed<'_>| {
                if let PerfDetail::Neutral(Detail::Switch { .. }) = parsed.detail {
                    let last = match last_switches.get_mut(one.ring) {
                        Some(last) => last,
                        None => of_cpu(last_program_switches, parsed.cpu),
                    };
                    *last = (*last).max(Some(one.position));
                }
                if let PerfDetail::Neutral(Detail::Wake { .. }) = parsed.detail {
                    waker.set(parsed.stack.kernel.first().copied());
                }
                if is_of_nobody(&parsed.detail) {
                    return ControlFlow::Continue(());
                }
                match (&mut *ids, &parsed.detail) {
                    (Some(ids), PerfDetail::Neutral(detail)) => {
                        let ran = Ran { process: parsed.process, thread: parsed.thread };
                        let Ran { process, thread } = ids.ran(parsed.cpu, ran, detail);
                        let detail =
                            PerfDetail::Neutral(ids.translate((parsed.time, parsed.cpu), *detail));
                        give(Given::Other(&Parsed { process, thread, detail, ..*parsed }))
                    }
                    _ => give(Given::Other(parsed)),
                }
            };
            let mut take_record = |ring, record: &[u8]| {
                let parsed = &parse(ring, record, |id| kinds.get(&id), &mut scratch);
                parsed.as_ref().map_or(ControlFlow::Continue(()), &mut take)
            };
            let taken = match rings.get(one.ring) {
                Some(ring) => match ring.record(one.position, &mut linear) {
                    Some(record) => take_record(record_ring(ring_uses, one.ring), record),
                    None => continue,
                },
                None if one.ring != PROGRAMS => {
                    self.released_losses += one.position;
                    take(&beside_rings(one))
                }
                None => {
                    let record = programs.as_ref().and_then(|all| all.record(one.position));
                    let Some(record) = record else { continue };
                    if let Some(parsed) = &bpf::frequent(record) {
                        take(parsed)
                    } else if let Some(parsed) = &bpf::idle_wake(record, wakers, &mut frames) {
                        take(parsed)
                    } else {
                        take_record(RecordRing::OfPrograms, record)
                    }
                }
            };
            add_waker(wakers, waker.take().filter(|_| one.ring != PROGRAMS));
            if taken.is_break() {
                count = at + 1;
                break;
            }
        }
        waiting.drain(..count);
        if waiting.capacity() > KEPT_WAITING.max(waiting.len() * 4) {
            waiting.shrink_to(waiting.len() * 2);
        }
        waiting.first().map_or(until, |first| first.time.min(until))
    }
}

/// Loads records behind the first one into the cache.
fn prefetch(waiting: &[Waiting], rings: &[Ring], programs: Option<&Programs>) {
    if let Some(next) = waiting.get(1)
        && let Some(ring) = rings.get(next.ring)
    {
        ring.prefetch(next.position, SOON_READ);
    }
    if let Some(second) = waiting.get(2)
        && let (PROGRAMS, Some(programs)) = (second.ring, programs)
    {
        programs.prefetch(second.position, SOON_READ_OF_PROGRAMS);
    }
}

/// Adds the first frame of a wake-up.
fn add_waker(wakers: &mut Vec<u64>, frame: Option<u64>) {
    let is_new = |frame: &u64| wakers.len() < MAX_WAKERS && !wakers.contains(frame);
    if let Some(frame) = frame.filter(is_new) {
        wakers.push(frame);
    }
}

/// Whether a record is about the life of a process outside of the container: such processes have the id 0.
fn is_of_nobody(detail: &PerfDetail<'_>) -> bool {
    match detail {
        PerfDetail::Neutral(
            Detail::Fork { process, .. }
            | Detail::Exit { process, .. }
            | Detail::Rename { process, .. },
        )
        | PerfDetail::Exec { process, .. } => *process == 0,
        PerfDetail::Map(mapping) => mapping.process == 0,
        PerfDetail::Program(program) => program.process == 0,
        PerfDetail::Neutral(_) => false,
    }
}

/// The entry of a CPU.
fn of_cpu(all: &mut Vec<Option<u64>>, cpu: u16) -> &mut Option<u64> {
    let index = usize::from(cpu);
    if all.len() <= index {
        all.resize(index + 1, None);
    }
    &mut all[index]
}
