//! Gathering names: from all records of a trace, or from those that a filter needs.

use super::code::{Code, is_method};
use super::stacks::{Stacks, is_stack};
use super::{IMAGE_ID, KERNEL_PROCESS, Names, is_file_name};
use crate::attribution::Interrupts;
use crate::file_operations::FileOperations;
use crate::output::Progress;
use crate::switches::Switches;
use crate::threads;
use etw_decode::Decoder;
use etw_etl::read::{PartsOptions, Records, TraceFile};
use etw_types::{EventRecord, Hook, SESSION_REPORTS, SYSTEM_EVENTS, UNIVERSAL_SYSTEM};

/// The names that a filter tests, besides the owners of events.
#[derive(Clone, Copy, Debug, Default)]
pub struct TestedNames {
    /// Names of processes.
    pub processes: bool,
    /// Names of files.
    pub files: bool,
}

impl TestedNames {
    /// Whether a record has some of them, or says who owns events.
    #[inline]
    fn are_in(self, record: &EventRecord<'_>) -> bool {
        if Switches::are_in(record) {
            return true;
        }
        match record.hook {
            Some(hook) => {
                is_thread(hook)
                    || is_stack(hook)
                    || Interrupts::is_end(hook)
                    || FileOperations::is_start(hook)
                    || self.processes && is_process(hook)
                    || self.files && is_file_name(hook)
            }
            // Build ids are of no event.
            None if record.header.is_classic() => record.provider != Some(IMAGE_ID),
            None => self.processes && record.provider == Some(KERNEL_PROCESS),
        }
    }
}

/// Thread: Start, End, DCStart, DCEnd, SetName.
fn is_thread(hook: Hook) -> bool {
    matches!(hook.0, 0x0501..=0x0504 | 0x0548)
}

fn is_process(hook: Hook) -> bool {
    hook.group() == 3
}

impl Names {
    /// Gathers the names of a whole trace: rundown events are at its start and at its end.
    pub fn gather(mut records: Records, mut decoder: Decoder) -> Names {
        let mut names = Names::of(records.files());
        let mut progress = Progress::of(records.files());
        while let Some(record) = records.next() {
            progress.count(record.position);
            names.take(&record, &mut decoder);
        }
        names.finish();
        names
    }

    /// Gathers the owners of events, and what else a filter tests. All threads look for the records that say it, which are learnt in
    /// the order of one thread.
    pub fn gather_tested(
        traces: &[TraceFile],
        mut decoder: Decoder,
        tested: TestedNames,
        parts: PartsOptions,
    ) -> Names {
        let mut names = Names { stacks: Stacks::without_frames(), ..Names::of(traces) };
        threads::visit_picked(
            traces,
            parts,
            |record| tested.are_in(record),
            |record| {
                names.take(record, &mut decoder);
            },
        );
        names.finish();
        names
    }

    fn of(files: &[TraceFile]) -> Names {
        let clocks = files.iter().map(|file| *file.clock()).collect();
        Names { code: Code::new(clocks), ..Names::default() }
    }

    /// Completes the names behind the last record.
    fn finish(&mut self) {
        self.code.label_modules();
        self.volumes.sort_by_key(|(nt, _)| std::cmp::Reverse(nt.len()));
    }

    /// Learns from a record of the trace.
    pub fn take(&mut self, record: &EventRecord<'_>, decoder: &mut Decoder) {
        self.running.learn(record);
        if is_method(record) {
            return self.code.learn(record);
        }
        if let Some(hook) = record.hook {
            self.interrupts.learn(hook, record);
            self.sample_intervals.learn(record);
            self.file_operations.learn(record);
        }
        if Names::may_tell(record) {
            let decoded = decoder.decode(record);
            self.learn(record, &decoded);
        }
    }

    /// Whether an event is of those that tell of processes and threads.
    fn may_tell(record: &EventRecord<'_>) -> bool {
        match record.hook {
            Some(hook) => {
                is_process(hook)
                    || is_thread(hook)
                    || hook.group() == 0x14
                    || is_file_name(hook)
                    || is_stack(hook)
            }
            None => {
                matches!(
                    record.provider,
                    Some(KERNEL_PROCESS | SESSION_REPORTS | SYSTEM_EVENTS | UNIVERSAL_SYSTEM)
                ) || record.header.is_classic()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::samples;

    #[test]
    fn a_filter_has_the_owners_of_all_names_for_any_number_of_threads() {
        let mut kernel_records = 0;
        for trace in samples::traces() {
            let traces = [trace];
            let all = Names::gather(Records::new(traces.to_vec()), Decoder::new());
            for (threads, part_bytes) in [(1, 1 << 30), (2, 0x1000), (4, 1)] {
                let tested = TestedNames { processes: true, files: true };
                let parts = samples::options(threads, part_bytes);
                let names = Names::gather_tested(&traces, Decoder::new(), tested, parts);
                let mut records = Records::new(traces.to_vec());
                while let Some(record) = records.next() {
                    kernel_records += u32::from(record.hook.is_some());
                    let attributed = all.attributed(&record);
                    let expected = all.owned(&record, &attributed);
                    let (ids, name) = names.with_owner(&record, true, |owned| {
                        let ids = (owned.record.process_id, owned.record.thread_id);
                        (ids, owned.process_name.map(str::to_owned))
                    });
                    let of = (traces[0].path(), record.position);
                    assert_eq!(ids, (attributed.process_id, attributed.thread_id), "{of:?}");
                    assert_eq!(name.as_deref(), expected.process_name, "{of:?}");
                }
            }
        }
        assert!(kernel_records > 1000, "{kernel_records}");
    }
}
