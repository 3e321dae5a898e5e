//! [`CpuSlices`]: who ran on each CPU, from context switches.

use crate::join::Names;
use crate::profile::switch_of;
use crate::stat::losses;
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

/// The threads that run.
#[derive(Debug, Default)]
pub struct CpuSlices {
    /// By file and CPU; the ends are not known yet.
    running: BTreeMap<(u32, u16), CpuSlice>,
    /// The latest times of the files.
    last: BTreeMap<u32, i64>,
}

impl CpuSlices {
    /// The slices that end with a record: at a switch the one of its CPU, at a loss of switches all of its file. A switch that `is_shown` begins
    /// one, unless the idle thread comes. `process`: that of the thread that comes.
    pub fn take(
        &mut self,
        record: &EventRecord<'_>,
        time: i64,
        process: impl FnOnce() -> Option<u32>,
        is_shown: bool,
    ) -> Vec<CpuSlice> {
        let file = record.position.file_index;
        let last = self.last.entry(file).or_insert(time);
        *last = time.max(*last);
        let Some((new, _)) = switch_of(record) else {
            return match losses::may_lack_switches(record) {
                true => self.end_file(file, time),
                false => Vec::new(),
            };
        };
        let cpu = record.cpu;
        let ended = self.running.remove(&(file, cpu)).map(|slice| ended(slice, time));
        if is_shown && new != 0 {
            let begun = CpuSlice { cpu, process: process(), thread: new, start: time, end: time };
            self.running.insert((file, cpu), begun);
        }
        ended.into_iter().collect()
    }

    fn end_file(&mut self, file: u32, time: i64) -> Vec<CpuSlice> {
        let running = self.running.extract_if((file, 0)..=(file, u16::MAX), |_, _| true);
        running.map(|(_, slice)| ended(slice, time)).collect()
    }

    /// Ends all slices, each with the last record of its file: nothing is known of a CPU behind it.
    pub fn end_all(&mut self) -> Vec<CpuSlice> {
        let files = std::mem::take(&mut self.last);
        files.into_iter().flat_map(|(file, last)| self.end_file(file, last)).collect()
    }
}

fn ended(slice: CpuSlice, time: i64) -> CpuSlice {
    CpuSlice { end: slice.start.max(time), ..slice }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_types::{HeaderType, Hook};

    /// OV-23: nothing is known of a CPU between two traces.
    #[test]
    fn slices_end_with_the_trace_that_began_them() {
        let mut slices = CpuSlices::default();
        let mut take = |file: u32, time, new: u32| {
            let payload = [&new.to_le_bytes()[..], &[0; 20]].concat();
            let mut record = EventRecord::new(HeaderType::PerfInfo64, &payload);
            record.hook = Some(Hook(if new == u32::MAX { 0x0f2e } else { 0x0524 }));
            record.position.file_index = file;
            slices.take(&record, time, || None, true)
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
}
