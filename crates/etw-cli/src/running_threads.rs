//! The thread that runs on each CPU, from context switches: it caused the records of its CPU that name no thread.
//!
//! A run lasts from the switch that brings a thread to the next one of its CPU. If that one takes another thread away, a switch is missing
//! between them, and nobody knows when it was. A loss of switches ends the runs of its file.

use crate::switches::{Step, Switches};
use etw_types::EventRecord;
use std::collections::HashMap;

/// Runs of a trace that are kept, 16 bytes each.
const LIMIT: usize = 1 << 24;

/// Whether a record is caused by the thread that runs on its CPU, and has no ids of its own: page faults that the disk does not serve, system
/// calls.
pub fn is_of_running_thread(record: &EventRecord<'_>) -> bool {
    record.thread_id.is_none()
        && record.hook.is_some_and(|hook| matches!(hook.0, 0x020a..=0x020f | 0x0f33 | 0x0f34))
}

/// All runs of a trace.
#[derive(Debug, Default)]
pub struct RunningThreads {
    /// By file and CPU, in the order of time.
    runs: HashMap<(u32, u16), Vec<Run>, foldhash::fast::RandomState>,
    switches: Switches,
    count: usize,
    /// Records come as a stream without an end: only the last runs are kept.
    is_stream: bool,
}

/// Runs of a CPU that are kept of a stream.
const LIVE_RUNS: usize = 64;

/// A thread's time on a CPU. It ends where the next one starts.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Raw time.
    start: i64,
    /// `None`: nobody knows.
    thread: Option<u32>,
}

impl RunningThreads {
    /// The runs of a stream, whose records are asked about as they come.
    #[cfg(any(target_os = "linux", windows))]
    pub fn of_stream() -> RunningThreads {
        RunningThreads { is_stream: true, ..RunningThreads::default() }
    }

    /// Notes a switch, or a loss of switches. Records come in the order of time.
    pub fn learn(&mut self, record: &EventRecord<'_>) {
        let (file, start) = (record.position.file_index, record.order_time);
        match self.switches.take(record, start, 0) {
            Step::None | Step::End => {}
            Step::Switch { new, old } => {
                let runs = self.runs.entry((file, record.cpu)).or_default();
                if self.is_stream && runs.len() >= LIVE_RUNS {
                    self.count -= runs.drain(..runs.len() - 1).count();
                }
                if let Some(last) = runs.last_mut().filter(|last| last.thread != Some(old)) {
                    last.thread = None;
                }
                // Behind the last run that is kept nobody knows who runs.
                let is_kept = self.count < LIMIT;
                if is_kept || runs.last().is_some_and(|last| last.thread.is_some()) {
                    self.count += 1;
                    runs.push(Run { start, thread: Some(new).filter(|_| is_kept) });
                }
            }
            Step::Loss { .. } | Step::Stop => {
                let of_file = self.runs.iter_mut().filter(|((of, _), _)| *of == file);
                for (_, runs) in of_file {
                    if runs.last().is_some_and(|last| last.thread.is_some()) {
                        self.count += 1;
                        runs.push(Run { start, thread: None });
                    }
                }
            }
        }
    }

    /// The thread that runs where a record was written that has no ids of its own.
    pub fn at(&self, record: &EventRecord<'_>) -> Option<u32> {
        if !is_of_running_thread(record) {
            return None;
        }
        let runs = self.runs.get(&(record.position.file_index, record.cpu))?;
        let behind = runs.partition_point(|run| run.start <= record.order_time);
        runs[..behind].last()?.thread
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_types::{HeaderType, Hook, LOST_EVENT};

    fn record(hook: u16, (cpu, time): (u16, i64), payload: &[u8]) -> EventRecord<'_> {
        let mut record = EventRecord::new(HeaderType::PerfInfo64, payload);
        record.hook = Some(Hook(hook));
        (record.cpu, record.order_time) = (cpu, time);
        record
    }

    fn switch(new: u32, old: u32) -> Vec<u8> {
        [&new.to_le_bytes()[..], &old.to_le_bytes(), &[0; 16]].concat()
    }

    #[test]
    fn a_fault_belongs_to_the_thread_that_the_last_switch_of_its_cpu_brought() {
        let mut running = RunningThreads::default();
        for (at, new, old) in [((0, 10), 7, 0), ((1, 12), 9, 0), ((0, 20), 8, 7), ((0, 40), 7, 6)] {
            running.learn(&record(0x0524, at, &switch(new, old)));
        }
        let at = |cpu, time| running.at(&record(0x020b, (cpu, time), &[]));
        assert_eq!((at(0, 9), at(0, 10), at(0, 19)), (None, Some(7), Some(7)));
        assert_eq!((at(1, 19), at(2, 19)), (Some(9), None));
        assert_eq!((at(0, 25), at(0, 40)), (None, Some(7)), "a switch is missing before the last");
        assert_eq!(running.at(&record(0x0f34, (0, 45), &[0; 4])), Some(7));
        assert_eq!(running.at(&record(0x0304, (0, 45), &[])), None, "rundown is of nobody");
    }

    /// A stream has no end: of the runs of a CPU, the last ones are kept.
    #[test]
    fn runs_of_a_stream_take_no_more_memory_in_time() {
        let mut running = RunningThreads::of_stream();
        for time in 0..10_000 {
            let (new, old) = (time as u32 + 1, time as u32);
            running.learn(&record(0x0524, (0, time), &switch(new, old)));
            assert_eq!(running.at(&record(0x020b, (0, time), &[])), Some(new));
        }
        assert!(running.count <= LIVE_RUNS && running.runs[&(0, 0)].len() == running.count);
    }

    /// Times are ticks of any clock: the same switch a little later is another one, behind one that is missing.
    #[test]
    fn the_same_switch_again_has_lost_the_one_between() {
        let mut running = RunningThreads::default();
        for at in [(0, 10), (0, 500_000)] {
            running.learn(&record(0x0524, at, &switch(7, 6)));
        }
        let at = |time| running.at(&record(0x020b, (0, time), &[]));
        assert_eq!((at(100), at(500_001)), (None, Some(7)));
    }

    #[test]
    fn a_loss_of_switches_ends_the_runs_of_its_file() {
        let mut running = RunningThreads::default();
        let mut lost = EventRecord::new(HeaderType::Full64, &[]);
        lost.provider = Some(LOST_EVENT);
        lost.order_time = 30;
        running.learn(&record(0x0524, (0, 10), &switch(7, 0)));
        let other = switch(9, 0);
        let mut of_other = record(0x0524, (0, 10), &other);
        of_other.position.file_index = 1;
        running.learn(&of_other);
        running.learn(&lost);
        let at = |file, time| {
            let mut fault = record(0x020b, (0, time), &[]);
            fault.position.file_index = file;
            running.at(&fault)
        };
        assert_eq!((at(0, 29), at(0, 31), at(1, 31)), (Some(7), None, Some(9)));
    }
}
