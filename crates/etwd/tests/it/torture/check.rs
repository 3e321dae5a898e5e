//! Conditions on files, ledgers and processes that hold whatever happened.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use etw_etl::read::{Records, TraceFile};
use etw_wire::requests::SessionStatus;

use crate::rig::*;

/// Number of events that a thread of a process has certainly written.
pub type Said = BTreeMap<(u32, u64), u64>;

/// The events of one thread in a trace: first and last number, and how many; and the missing numbers, for diagnosis.
#[derive(Debug)]
struct Run {
    first: u64,
    last: u64,
    count: u64,
    gaps: Vec<(u64, u64, i64)>,
}

/// The contents of a session's files.
pub struct Found {
    runs: BTreeMap<(u32, u64), Run>,
    /// Events of programs, the hostile ones included.
    pub events: u64,
}

/// Reads a session's files as one trace: finalised, undamaged, in order of time. Each thread's numbers rise, and none occurs
/// twice.
#[track_caller]
pub fn read(name: &str, paths: &[PathBuf]) -> Found {
    let open = |path: &PathBuf| {
        TraceFile::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let files: Vec<TraceFile> = paths.iter().map(open).collect();
    for (file, path) in files.iter().zip(paths) {
        assert!(file.is_finalised(), "{name}: {} is not finalised", path.display());
    }
    let count = files.len() as u32;
    let mut records = Records::new(files);
    let (mut runs, mut events) = (BTreeMap::<(u32, u64), Run>::new(), 0);
    while let Some(record) = records.next() {
        if record.provider != Some(provider()) {
            continue;
        }
        events += 1;
        let process = record.process_id.unwrap_or(0);
        // Hostile programs are threads of this process; their events may be anything.
        if process == std::process::id() {
            continue;
        }
        let number = |at: usize| u64::from_le_bytes(record.payload[at..at + 8].try_into().unwrap());
        let (thread, number) = (number(0), number(8));
        let run = runs.entry((process, thread)).or_insert(Run {
            first: number,
            last: 0,
            count: 0,
            gaps: Vec::new(),
        });
        let rises = run.count == 0 || number > run.last;
        assert!(rises, "{name}: process {process} thread {thread}: {number} after {}", run.last);
        if run.count > 0 && number != run.last + 1 {
            run.gaps.push((run.last, number, record.order_time));
        }
        run.last = number;
        run.count += 1;
    }
    assert!(records.damage().is_empty(), "{name}: {:?}", records.damage().kept());
    for file in 0..count {
        assert_eq!(records.out_of_order(file), 0, "{name}: file {file}");
    }
    Found { runs, events }
}

impl Found {
    /// Numbers that are missing between the first and the last one, or up to the printed number. With `said`, the session
    /// existed all the time.
    fn missing(&self, name: &str, said: Option<&Said>) -> u64 {
        let mut missing = 0;
        for run in self.runs.values() {
            missing += run.last + 1 - run.first - run.count;
        }
        for (of, said) in said.into_iter().flatten() {
            // A program that found no host at its start appears later in the trace, but it appears.
            let run = self.runs.get(of);
            // A child of a storm has 50 ms to find its host. If the worker has just been killed, it ends without one.
            let may_be_absent = of.1 == 1 && run.is_none();
            if may_be_absent {
                continue;
            }
            assert!(run.is_some() || *said == 0, "{name}: nothing of {of:?}, which said {said}");
            missing += run.map_or(0, |run| said.saturating_sub(run.last + 1));
        }
        missing
    }

    /// Checks that the session counts every missing event.
    #[track_caller]
    pub fn complete(&self, name: &str, status: &SessionStatus, said: Option<&Said>) {
        let missing = self.missing(name, said);
        // Memory is overwritten by buffers, each of one CPU: not always a thread's oldest events.
        assert!(
            missing <= status.lost + status.overwritten,
            "{name}: {missing} events are missing, of {:?}; {status:?}",
            self.runs
        );
    }
}

/// P2: attempted = stored + overwritten + filtered + Σ lost.
#[track_caller]
pub fn balanced(status: &SessionStatus) {
    let sum = status.stored + status.overwritten + status.filtered + status.lost;
    assert_eq!(status.attempted, sum, "{status:?}");
    let losses: u64 = status.losses.iter().map(|loss| loss.count).sum();
    assert_eq!(losses, status.lost, "{status:?}");
}

/// Number of descriptors of a process.
pub fn descriptors(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count)
}

/// Processes that were started for a runtime directory and still run.
pub fn processes_of(runtime: &Path) -> Vec<u32> {
    let wanted = format!("{}={}", etw_wire::runtime_directory::VARIABLE, runtime.display());
    let numbers = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_ours = |process: &u32| {
        let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|word| word == wanted.as_bytes())
    };
    numbers.filter(is_ours).collect()
}

/// The open files of a process.
pub fn descriptors_of(process: u32) -> Vec<std::path::PathBuf> {
    let all = std::fs::read_dir(format!("/proc/{process}/fd"));
    let open = all.into_iter().flatten().flatten();
    open.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect()
}
