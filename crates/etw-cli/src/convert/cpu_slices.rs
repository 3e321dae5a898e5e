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
    /// By CPU; the ends are not known yet.
    running: BTreeMap<u16, CpuSlice>,
}

impl CpuSlices {
    /// The slices that end with a record: at a switch the one of its CPU, at a loss of switches all. A switch that `is_shown` begins one,
    /// unless the idle thread comes. `process`: that of the thread that comes.
    pub fn take(
        &mut self,
        record: &EventRecord<'_>,
        time: i64,
        process: impl FnOnce() -> Option<u32>,
        is_shown: bool,
    ) -> Vec<CpuSlice> {
        let Some((new, _)) = switch_of(record) else {
            return if losses::may_lack_switches(record) { self.end_all(time) } else { Vec::new() };
        };
        let cpu = record.cpu;
        let ended = self.running.remove(&cpu).map(|slice| ended(slice, time));
        if is_shown && new != 0 {
            let begun = CpuSlice { cpu, process: process(), thread: new, start: time, end: time };
            self.running.insert(cpu, begun);
        }
        ended.into_iter().collect()
    }

    /// Ends all slices.
    pub fn end_all(&mut self, time: i64) -> Vec<CpuSlice> {
        let running = std::mem::take(&mut self.running);
        running.into_values().map(|slice| ended(slice, time)).collect()
    }
}

fn ended(slice: CpuSlice, time: i64) -> CpuSlice {
    CpuSlice { end: slice.start.max(time), ..slice }
}
