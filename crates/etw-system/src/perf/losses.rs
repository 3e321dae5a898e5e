//! Events that the kernel did not record, by class.

use std::collections::BTreeMap;

use etw_types::{Guid, Hook, SYSTEM_TRACE};

use super::attribute::Counts;
use super::{Event, Kind, Perf, Target, Tracepoint, kind_of_program};
use crate::flags::{Flag, Masks};

/// Numbers of facts that a trace could not have, by reason.
pub(crate) type Missing = [u64; 8];

/// Numbers of lost events, by class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassLosses(BTreeMap<Guid, u64>);

impl ClassLosses {
    /// Adds losses of a class.
    pub fn add(&mut self, class: Guid, count: u64) {
        if count > 0 {
            let all = self.0.entry(class).or_default();
            *all = all.saturating_add(count);
        }
    }

    /// Adds others.
    pub fn add_all(&mut self, others: &ClassLosses) {
        others.iter().for_each(|(class, count)| self.add(class, count));
    }

    /// Those that were counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &ClassLosses) -> ClassLosses {
        let mut new = ClassLosses::default();
        for (class, count) in self.iter() {
            new.add(class, count.saturating_sub(earlier.of(class)));
        }
        new
    }

    /// Losses of a class.
    pub fn of(&self, class: Guid) -> u64 {
        self.0.get(&class).copied().unwrap_or(0)
    }

    /// The classes with losses.
    pub fn iter(&self) -> impl Iterator<Item = (Guid, u64)> + '_ {
        self.0.iter().map(|(class, count)| (*class, *count))
    }

    /// Losses of all classes.
    pub fn total(&self) -> u64 {
        self.0.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// The events that the records of system calls become: their own, or those of files and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallEvents {
    class: Guid,
    /// The two records of a call become one event.
    is_pair: bool,
}

impl CallEvents {
    pub fn of(masks: &Masks) -> CallEvents {
        let files = [Flag::FILE_IO_INIT, Flag::FILE_IO].map(|flag| masks.has(flag));
        let (hook, is_pair) = match files {
            _ if masks.has(Flag::SYSCALL) => (SYSCALL_ENTER, false),
            // An event of the start, and one of the end.
            [true, true] => (FILE_CREATE, false),
            _ if files.contains(&true) || masks.has(Flag::FILE_NAME) => (FILE_CREATE, true),
            _ if masks.has(Flag::MAP_FILE) => (MAP_FILE, true),
            _ if masks.has(Flag::VIRTUAL_ALLOC) => (VIRTUAL_ALLOC, true),
            // The calls have call stacks of loaded images.
            _ => (IMAGE_LOAD, true),
        };
        CallEvents { class: Hook(hook).class_guid().unwrap_or(SYSTEM_TRACE), is_pair }
    }

    /// Adds the losses of so many records of calls and of paths. A path and its call may be lost together, and are one event.
    fn add_to(self, losses: &mut ClassLosses, records: u64, paths: u64) {
        let events = if self.is_pair { records.div_ceil(2) } else { records };
        let of_paths = Kind::Paths.class();
        let alone = if self.class == of_paths { paths.saturating_sub(events) } else { paths };
        losses.add(self.class, events);
        losses.add(of_paths, alone);
    }
}

const SYSCALL_ENTER: u16 = 0x0f33;
const FILE_CREATE: u16 = 0x0440;
const MAP_FILE: u16 = 0x0425;
const VIRTUAL_ALLOC: u16 = 0x0262;
const IMAGE_LOAD: u16 = 0x030a;

impl Counts {
    /// Events that the kernel counted, without a record that was read or lost.
    fn without_record(self, seen: u64) -> u64 {
        self.all.saturating_sub(self.lost).saturating_sub(seen)
    }
}

/// How many of the events that are missing beside a program were left out for certain. An event that is being handled may be counted
/// before its program runs: it is not missing at the next look. `before`: what was missing at the last one.
fn surely_left_out(missing: u64, before: u64, is_over: bool) -> u64 {
    if is_over { missing } else { missing.min(before) }
}

impl Perf {
    /// This process continues with events that another process has read: only what is left out from now on is counted.
    pub fn count_from_here(&mut self) {
        let before = |event: &Event| {
            let counts = event.counts()?;
            let seen = event.id().ok().and_then(|number| self.seen.get(&number)).unwrap_or(&0);
            Some(counts.without_record(*seen))
        };
        self.counted_before =
            self.events.iter().map(|event| before(event).unwrap_or(u64::MAX)).collect();
    }

    /// Records that the kernel has counted as lost, so far, by class. A ring has a record of them only if a later record fitted into it.
    /// The kernel also leaves out events without a word: it counts them, but writes no record, or does not run the program. Those of perf
    /// events are known when the recording has ended, and all that has been recorded is read (`is_over`). `None`: an older kernel does not
    /// count losses, or only some of them, because the events are inherited by child processes.
    pub fn counted_losses(
        &mut self,
        target: Target,
        calls: CallEvents,
        is_over: bool,
    ) -> Option<ClassLosses> {
        let mut losses = ClassLosses::default();
        let (mut of_calls, mut of_paths) = (0, 0);
        let mut add = |kind: &Kind, records: u64| match kind {
            Kind::Tracepoint {
                point: Tracepoint::SyscallEnter | Tracepoint::SyscallExit, ..
            } => of_calls += records,
            Kind::Paths => of_paths += records,
            kind => losses.add(kind.class(), kind.events_of(records)),
        };
        if let Target::Tree(_) = target {
            return None;
        }
        let mut beside: BTreeMap<usize, (Tracepoint, u64)> = BTreeMap::new();
        for (index, (event, kind)) in self.events.iter().zip(&self.event_kinds).enumerate() {
            let counts = event.counts()?;
            add(kind, counts.lost);
            if let Kind::Count { point } = kind {
                beside.entry(*point as usize).or_insert((*point, 0)).1 += counts.all;
            }
            if is_over && kind.is_countable() {
                let before = self.counted_before.get(index).copied().unwrap_or(0);
                let seen = self.seen.get(&event.id().ok()?).copied().unwrap_or(0);
                let left_out = counts.without_record(seen).saturating_sub(before);
                add(kind, left_out);
            }
        }
        if let Some(programs) = &self.programs {
            for (point, count) in programs.losses() {
                add(&kind_of_program(point), count);
            }
            for (number, (point, count)) in beside {
                let Some(runs) = programs.runs(point) else { continue };
                let missing = count.saturating_sub(runs);
                let before = self.left_out.insert(number, missing).unwrap_or(0);
                add(&kind_of_program(point), surely_left_out(missing, before, is_over));
            }
        }
        calls.add_to(&mut losses, of_calls, of_paths);
        Some(losses)
    }

    /// Whether the kernel counts events beside programs.
    pub fn counts_beside_programs(&self) -> bool {
        self.event_kinds.iter().any(|kind| matches!(kind, Kind::Count { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: Guid = Guid::from_u128(1);
    const SWITCHES: Guid = Guid::from_u128(2);

    fn losses(all: &[(Guid, u64)]) -> ClassLosses {
        let mut losses = ClassLosses::default();
        all.iter().for_each(|(class, count)| losses.add(*class, *count));
        losses
    }

    /// OV-23: an event that was counted is read, lost, left out before this process, or left out now.
    #[test]
    fn what_is_neither_read_nor_lost_was_left_out() {
        // Counted, lost, read: without a record.
        for (all, lost, seen, expected) in [
            (0, 0, 0, 0),
            (100, 0, 100, 0),
            (100, 30, 70, 0),
            (100, 30, 60, 10),
            (100, 0, 0, 100),
            // A record that came behind the count was read.
            (100, 30, 71, 0),
            (100, 101, 0, 0),
            (u64::MAX, 1, u64::MAX, 0),
            (u64::MAX, 1, 2, u64::MAX - 3),
        ] {
            assert_eq!(Counts { all, lost }.without_record(seen), expected, "{all} {lost} {seen}");
        }
    }

    /// OV-23: no class has losses that is not recorded, and no event is lost twice.
    #[test]
    fn lost_system_calls_are_lost_events_of_what_is_recorded() {
        let class = |hook| Hook(hook).class_guid().unwrap();
        let (calls, files, memory) = (class(0x0f33), class(0x0440), class(0x0262));
        let both = &[Flag::FILE_IO, Flag::FILE_IO_INIT][..];
        for (flags, records, paths, expected) in [
            (&[Flag::SYSCALL][..], 10, 0, &[(calls, 10)][..]),
            (both, 10, 0, &[(files, 10)]),
            (both, 10, 3, &[(files, 10)]),
            (both, 2, 5, &[(files, 5)]),
            (&[Flag::FILE_IO], 9, 4, &[(files, 5)]),
            (&[Flag::FILE_IO_INIT], 10, 0, &[(files, 5)]),
            (
                &[Flag::SYSCALL, Flag::FILE_IO, Flag::FILE_IO_INIT],
                10,
                3,
                &[(calls, 10), (files, 3)],
            ),
            (&[Flag::VIRTUAL_ALLOC], 10, 0, &[(memory, 5)]),
            (&[Flag::MAP_FILE], 10, 0, &[(files, 5)]),
            (&[Flag::IMAGE], 2, 0, &[(class(0x030a), 1)]),
        ] {
            let mut masks = Masks::default();
            flags.iter().for_each(|flag| masks.set(*flag));
            let mut found = ClassLosses::default();
            CallEvents::of(&masks).add_to(&mut found, records, paths);
            assert_eq!(found, losses(expected), "{flags:?}");
        }
    }

    #[test]
    fn what_is_missing_beside_a_program_counts_at_the_second_look() {
        let mut before = 0;
        let looks = [(3, 0), (5, 3), (2, 2), (2, 2), (0, 0), (4, 0)];
        for (missing, expected) in looks {
            assert_eq!(surely_left_out(missing, before, false), expected);
            before = missing;
        }
        assert_eq!(surely_left_out(4, 0, true), 4, "no later look follows");
    }

    /// OV-23: each loss goes to the ledger once, in its class.
    #[test]
    fn losses_since_the_last_look_are_those_of_each_class() {
        let first = losses(&[(DISK, 7), (SWITCHES, 2), (DISK, 1)]);
        assert_eq!(first.iter().collect::<Vec<_>>(), [(DISK, 8), (SWITCHES, 2)]);
        let second = losses(&[(DISK, 8), (SWITCHES, 5)]);
        assert_eq!(second.since(&first), losses(&[(SWITCHES, 3)]));
        // An event that was missing at one look and came later takes nothing back.
        assert_eq!(first.since(&second), ClassLosses::default());
        let mut all = first.clone();
        all.add_all(&second.since(&first));
        assert_eq!((&all, all.total()), (&second, 13));
        let mut most = losses(&[(DISK, u64::MAX)]);
        most.add(DISK, 1);
        most.add(SWITCHES, 1);
        assert_eq!(most.total(), u64::MAX);
    }
}
