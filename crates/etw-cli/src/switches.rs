//! [`Switches`]: the context switches of each CPU, the times in which some may be missing, and those that two sessions recorded.

use crate::machines::Machines;
use crate::stat::losses;
use etw_types::{EventRecord, Hook, LOST_EVENT, le};
use std::collections::HashMap;

pub const CSWITCH: Hook = Hook(0x0524);
/// EventTrace/Extension: the group masks from now on; EventTrace/EndExtension: those at the end.
const EXTENSION: Hook = Hook(0x0005);
const END_EXTENSION: Hook = Hook(0x0020);
/// PERF_CONTEXT_SWITCH, in the second of the group masks, each of four bytes.
const SWITCH_MASK: (usize, u32) = (4, 0x4);
/// Two sessions record the same switch within so many nanoseconds.
pub const TWICE: i64 = 1_000_000;
/// Gaps of a machine that are kept apart; only a hostile trace has more.
const LIMIT: usize = 1 << 20;
/// Gaps inside of a span that are looked at: nothing is known of what is before them.
const MOST_INSIDE: usize = 1 << 10;

/// The thread that came to a CPU, and the one that left it.
pub fn switch_of(record: &EventRecord<'_>) -> Option<(u32, u32)> {
    record.hook.filter(|hook| *hook == CSWITCH)?;
    Some((le::u32(record.payload, 0)?, le::u32(record.payload, 4)?))
}

/// Nanoseconds between which switches may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub from: i64,
    pub until: i64,
}

/// The meaning of a record for who runs on the CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    None,
    /// A thread takes a CPU from another one.
    Switch {
        new: u32,
        old: u32,
    },
    /// Switches may be missing before the record: those of `cpu` behind its last one, those of other CPUs behind `from`, the last one of the
    /// machine, in nanoseconds. `cpu` is `None` if the record is about the whole session.
    Loss {
        cpu: Option<u16>,
        from: i64,
    },
    /// No switches are recorded from now on.
    Stop,
    /// A recording ends. If no switch follows, nothing is known of the time behind it.
    End,
}

/// Follows the switches of a trace, record by record.
#[derive(Debug, Default)]
pub struct Switches {
    machines: Machines,
    /// By machine and CPU.
    cpus: HashMap<(u32, u16), Last>,
    of_machines: HashMap<u32, MachineSwitches>,
    /// Switches that were known from another session's record.
    repeated: u64,
}

/// The last switch of a CPU.
#[derive(Debug)]
struct Last {
    time: i64,
    /// `None`: a loss came behind it.
    switch: Option<(u32, u32)>,
}

#[derive(Debug, Default)]
struct MachineSwitches {
    /// The time of the last switch.
    last: i64,
    /// No switches are recorded since then.
    stopped: Option<i64>,
    /// By their ends.
    gaps: Vec<Gap>,
}

impl Switches {
    /// For files of these machines. The sessions of one machine record the same switches.
    pub fn of(machines: Machines) -> Switches {
        Switches { machines, ..Switches::default() }
    }

    /// The number of the machine that made a record.
    pub fn machine(&self, record: &EventRecord<'_>) -> u32 {
        self.machines.of_record(record)
    }

    /// Whether a record has a meaning for [`take`](Switches::take).
    #[inline]
    pub fn are_in(record: &EventRecord<'_>) -> bool {
        matches!(record.hook, Some(CSWITCH | EXTENSION | END_EXTENSION))
            || losses::may_lack_switches(record)
    }

    /// Takes the next record. `time`: in one unit for the whole trace; `twice`: the longest time between the records that two sessions make of
    /// one switch, in that unit.
    pub fn take(&mut self, record: &EventRecord<'_>, time: i64, twice: i64) -> Step {
        let machine = self.machine(record);
        let Some((new, old)) = switch_of(record) else {
            return match record.hook {
                Some(EXTENSION) => self.set_masks(record, time),
                Some(END_EXTENSION) => Step::End,
                _ if losses::may_lack_switches(record) => self.loss(record, time),
                _ => Step::None,
            };
        };
        self.go_on(machine, time);
        let last = Last { time, switch: Some((new, old)) };
        let before = self.cpus.insert((machine, record.cpu), last);
        if let Some(Last { time: from, switch: Some((ran, left)) }) = before {
            // A thread that came does not come again before it left.
            if (ran, left) == (new, old) && time.saturating_sub(from) <= twice {
                self.repeated += 1;
                return Step::None;
            }
            if ran != old {
                self.add_gap(machine, Gap { from, until: time });
            }
        }
        self.of_machines.entry(machine).or_default().last = time;
        Step::Switch { new, old }
    }

    /// The session records other events from now on.
    fn set_masks(&mut self, record: &EventRecord<'_>, time: i64) -> Step {
        let machine = self.machine(record);
        let (at, bit) = SWITCH_MASK;
        if le::u32(record.payload, at).is_some_and(|mask| mask & bit != 0) {
            self.go_on(machine, time);
            return Step::None;
        }
        let of_machine = self.cpus.iter_mut().filter(|((of, _), _)| *of == machine);
        of_machine.for_each(|(_, last)| last.switch = None);
        self.of_machines.entry(machine).or_default().stopped.get_or_insert(time);
        Step::Stop
    }

    /// Switches of a machine are recorded, perhaps again.
    fn go_on(&mut self, machine: u32, time: i64) {
        let stopped =
            self.of_machines.get_mut(&machine).and_then(|switches| switches.stopped.take());
        if let Some(from) = stopped {
            self.add_gap(machine, Gap { from, until: time });
        }
    }

    fn loss(&mut self, record: &EventRecord<'_>, time: i64) -> Step {
        let machine = self.machine(record);
        let last = self.of_machines.get(&machine).map_or(time, |switches| switches.last);
        // Other reports count what a session lost anywhere.
        if record.provider != Some(LOST_EVENT) {
            return Step::Loss { cpu: None, from: last };
        }
        let from = self.cpus.get_mut(&(machine, record.cpu)).map_or(last, |known| {
            known.switch = None;
            known.time
        });
        self.add_gap(machine, Gap { from, until: time });
        Step::Loss { cpu: Some(record.cpu), from: last }
    }

    fn add_gap(&mut self, machine: u32, gap: Gap) {
        let gaps = &mut self.of_machines.entry(machine).or_default().gaps;
        let is_full = gaps.len() >= LIMIT;
        match gaps.last_mut().filter(|_| is_full) {
            Some(last) => last.until = gap.until,
            None => gaps.push(gap),
        }
    }

    /// The thread that runs on a record's CPU, unless switches to others may be missing.
    pub fn running(&self, record: &EventRecord<'_>) -> Option<u32> {
        let machine = self.machine(record);
        let last = self.cpus.get(&(machine, record.cpu))?;
        let gap = self.of_machines.get(&machine).and_then(|switches| switches.gaps.last());
        let is_sure = gap.is_none_or(|gap| gap.until <= last.time);
        last.switch.map(|(ran, _)| ran).filter(|_| is_sure)
    }

    /// The parts of a time in which no switch of a machine is missing, in nanoseconds.
    pub fn known_parts(&self, machine: u32, start: i64, end: i64) -> Vec<(i64, i64)> {
        let gaps = self.of_machines.get(&machine).map_or(&[][..], |switches| &switches.gaps);
        parts_without(gaps, start, end)
    }

    /// Switches that were recorded by more than one session, without their first records.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }
}

/// The parts of a time that lie outside of gaps, which are in the order of their ends.
pub fn parts_without(gaps: &[Gap], start: i64, mut end: i64) -> Vec<(i64, i64)> {
    let mut inside = gaps.iter().rev().take_while(|gap| gap.until > start).peekable();
    if inside.peek().is_none() {
        return vec![(start, end)];
    }
    let mut parts = Vec::new();
    for gap in inside.by_ref().take(MOST_INSIDE) {
        if gap.until < end {
            parts.push((gap.until, end));
        }
        end = end.min(gap.from);
        if end <= start {
            break;
        }
    }
    if start < end && inside.peek().is_none() {
        parts.push((start, end));
    }
    parts.reverse();
    parts
}
