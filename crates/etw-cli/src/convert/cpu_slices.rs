//! [`CpuSlices`]: who ran on each CPU, from context switches.

use crate::join::Names;
use crate::machines::Machines;
use crate::switches::{Gap, Step, parts_without};
use etw_types::EventRecord;
use std::collections::BTreeMap;

/// A thread's time on a CPU, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuSlice {
    pub cpu: u16,
    pub process: Option<u32>,
    pub thread: u32,
    pub start: i64,
    pub end: i64,
}

impl CpuSlice {
    /// `sh (12)`
    pub fn name(&self, names: &Names) -> String {
        let process = self.process.and_then(|process| names.process_name(process));
        format!("{} ({})", process.unwrap_or("?"), self.thread)
    }
}

/// Losses during a slice that are kept apart.
const MOST_GAPS: usize = 64;

/// The threads that run.
#[derive(Debug, Default)]
pub struct CpuSlices {
    machines: Machines,
    /// By machine and CPU.
    running: BTreeMap<(u32, u16), Running>,
    /// The latest times of the machines.
    last: BTreeMap<u32, i64>,
}

/// A slice whose end is not known yet.
#[derive(Debug)]
struct Running {
    slice: CpuSlice,
    /// Times in which switches of its CPU may be missing, by their ends.
    gaps: Vec<Gap>,
}

impl CpuSlices {
    /// For files of these machines.
    pub fn of(machines: Machines) -> CpuSlices {
        CpuSlices { machines, ..CpuSlices::default() }
    }

    /// The parts of the slice that ends with a record. A switch that `is_shown` begins one, unless the idle thread comes. `process`: that of
    /// the thread that comes.
    pub fn take(
        &mut self,
        record: &EventRecord<'_>,
        (time, step): (i64, Step),
        process: impl FnOnce() -> Option<u32>,
        is_shown: bool,
    ) -> Vec<CpuSlice> {
        let machine = self.machines.of_record(record);
        let last = self.last.entry(machine).or_insert(time);
        *last = time.max(*last);
        match step {
            Step::None => Vec::new(),
            Step::Loss { cpu, from } => {
                self.lose(machine, cpu, Gap { from, until: time });
                Vec::new()
            }
            Step::End => {
                self.lose(machine, None, Gap { from: time, until: time });
                Vec::new()
            }
            Step::Stop => {
                self.lose(machine, None, Gap { from: time, until: i64::MAX });
                Vec::new()
            }
            Step::Switch { new, old } => {
                let cpu = record.cpu;
                // If another thread leaves, the end of the slice is not known.
                let ended = self.running.remove(&(machine, cpu));
                let ended = ended.filter(|running| running.slice.thread == old);
                if is_shown && new != 0 {
                    let process = process();
                    let slice = CpuSlice { cpu, process, thread: new, start: time, end: time };
                    self.running.insert((machine, cpu), Running { slice, gaps: Vec::new() });
                }
                ended.map_or(Vec::new(), |running| running.ended(time))
            }
        }
    }

    /// Notes a loss for each CPU. `lossy`: the CPU that may have switched since its last switch.
    fn lose(&mut self, machine: u32, lossy: Option<u16>, gap: Gap) {
        for ((_, cpu), running) in self.running.range_mut((machine, 0)..=(machine, u16::MAX)) {
            let start = running.slice.start;
            let from = if lossy == Some(*cpu) { start } else { gap.from.max(start) };
            let is_full = running.gaps.len() >= MOST_GAPS;
            match running.gaps.last_mut().filter(|_| is_full) {
                Some(last) => last.until = gap.until,
                None => running.gaps.push(Gap { from, ..gap }),
            }
        }
    }

    /// Ends all slices, each with the last record of its machine, or with the first loss: nothing is known of a CPU behind it.
    pub fn end_all(&mut self) -> Vec<CpuSlice> {
        let running = std::mem::take(&mut self.running);
        let slices = running.into_iter().filter_map(|((machine, _), running)| {
            let slice = running.slice;
            let lost = running.gaps.iter().map(|gap| gap.from).min();
            let end = lost.or_else(|| self.last.get(&machine).copied())?.max(slice.start);
            (lost.is_none() || end > slice.start).then_some(CpuSlice { end, ..slice })
        });
        slices.collect()
    }
}

impl Running {
    /// The parts in which the thread ran for sure: its CPU had no other one at the end.
    fn ended(self, time: i64) -> Vec<CpuSlice> {
        let slice = self.slice;
        let parts = parts_without(&self.gaps, slice.start, time.max(slice.start));
        parts.into_iter().map(|(start, end)| CpuSlice { start, end, ..slice }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switches::{Switches, TWICE};
    use etw_types::{HeaderType, Hook};
    use std::collections::HashMap;

    /// OV-23: nothing is known of a CPU between two traces.
    #[test]
    fn slices_end_with_the_trace_that_began_them() {
        let (mut slices, mut switches) = (CpuSlices::default(), Switches::default());
        let mut old = HashMap::new();
        let mut take = |file: u32, time, new: u32| {
            let ran = old.insert(file, new).unwrap_or(0);
            let payload = [&new.to_le_bytes()[..], &ran.to_le_bytes(), &[0; 16]].concat();
            let mut record = EventRecord::new(HeaderType::PerfInfo64, &payload);
            record.hook = Some(Hook(if new == u32::MAX { 0x0f2e } else { 0x0524 }));
            record.position.file_index = file;
            slices.take(&record, (time, switches.take(&record, time, TWICE)), || None, true)
        };
        assert!(take(0, 10, 7).is_empty());
        assert!(take(0, 20, u32::MAX).is_empty());
        assert!(take(1, 1000, 8).is_empty(), "the first trace is over");
        let ended = take(1, 1010, 9);
        assert_eq!((ended[0].thread, ended[0].start, ended[0].end), (8, 1000, 1010));
        let rest = slices.end_all();
        let rest: Vec<_> = rest.iter().map(|one| (one.thread, one.start, one.end)).collect();
        assert_eq!(rest, [(7, 10, 20), (9, 1010, 1010)]);
    }

    /// OV-23: where a session does not record switches, nobody knows who runs; and the rundown behind the end of a recording is no time of the
    /// thread that ran there last.
    #[test]
    fn slices_end_where_switches_are_recorded_no_more() {
        let (mut slices, mut switches) = (CpuSlices::default(), Switches::default());
        let mut take = |hook: u16, time, payload: &[u8]| {
            let mut record = EventRecord::new(HeaderType::PerfInfo64, payload);
            record.hook = Some(Hook(hook));
            let step = switches.take(&record, time, TWICE);
            let ended = slices.take(&record, (time, step), || None, true);
            let ended = ended.iter().map(|one| (one.thread, one.start, one.end));
            (ended.collect::<Vec<_>>(), switches.known_parts(0, 0, time))
        };
        let switch =
            |new: u32, old: u32| [&new.to_le_bytes()[..], &old.to_le_bytes(), &[0; 16]].concat();
        let masks =
            |of_word: u32| [&7u32.to_le_bytes()[..], &of_word.to_le_bytes(), &[0; 24]].concat();
        let (with, without) = (masks(4), masks(0));
        take(0x0005, 0, &with);
        take(0x0524, 10, &switch(7, 0));
        take(0x0020, 20, &with);
        take(0x0005, 20, &without);
        take(0x0501, 30, &[]);
        take(0x0005, 40, &with);
        // The same thread ran all the time, or others ran, too.
        let (ended, known) = take(0x0524, 50, &switch(8, 7));
        assert_eq!(ended, [(7, 10, 20)]);
        assert_eq!(known, [(0, 20), (40, 50)]);
        // A change that keeps switches.
        take(0x0020, 60, &with);
        take(0x0005, 60, &with);
        let (ended, known) = take(0x0524, 70, &switch(9, 8));
        let length =
            |parts: &[(u32, i64, i64)]| parts.iter().map(|(_, from, to)| to - from).sum::<i64>();
        assert_eq!((length(&ended), &known[1..]), (20, &[(40, 70)][..]));
        take(0x0020, 80, &with);
        take(0x0302, 95, &[]);
        let rest: Vec<_> = slices.end_all().iter().map(|one| (one.thread, one.end)).collect();
        assert_eq!(rest, [(9, 80)]);
    }
}
