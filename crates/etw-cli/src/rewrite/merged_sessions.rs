//! [`MergedSessions`]: which machines the sessions of merged files recorded, and events that several of them recorded at the same time.

use crate::attribution::SAMPLE;
use crate::machines::{Machines, Origins};
use crate::switches::CSWITCH;
use etw_etl::read::{Records, TraceFile};
use etw_types::{Clock, EventRecord, FileTime, Hook, LogFileMode};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The events that each session of a machine records once.
const KINDS: [(Hook, &str); 2] = [(CSWITCH, "context switches"), (SAMPLE, "CPU samples")];
/// Groups of the kernel's events that sessions of programs' events have, too: EventTrace, SystemConfig, StackWalk.
const OF_ANY_SESSION: [u8; 3] = [0x00, 0x0b, 0x18];

/// The `SystemSource` event of a file is among so many records, unless the system had very many processes.
const FIRST_RECORDS: usize = 1 << 16;

/// The facts about merged files that their records tell.
#[derive(Default)]
pub struct MergedSessions {
    /// By kind and file: the first and the last one.
    times: BTreeMap<(usize, u32), (FileTime, FileTime)>,
    /// Files with events of the system.
    with_system: BTreeSet<u32>,
    origins: Origins,
}

impl MergedSessions {
    /// Notes a record of one of the files with these clocks.
    pub fn see(&mut self, record: &EventRecord<'_>, clocks: &[Clock]) {
        let Some(hook) = record.hook else { return self.origins.learn(record) };
        let file = record.position.file_index;
        if !OF_ANY_SESSION.contains(&hook.group()) {
            self.with_system.insert(file);
        }
        let Some(kind) = KINDS.iter().position(|(kind, _)| hook == *kind) else { return };
        let Some(time) = record.timestamp(&clocks[file as usize]) else { return };
        let times = self.times.entry((kind, file)).or_insert((time, time));
        *times = (times.0.min(time), times.1.max(time));
    }

    /// Checks the records with which files begin: a merge that must fail need not read all of them first.
    ///
    /// # Errors
    /// As [`check_machines`](MergedSessions::check_machines), if these records suffice to say so.
    pub fn check_first_records(files: &[TraceFile], output: &Path) -> Result<(), String> {
        let is_of_system = |file: &TraceFile| {
            let mode = file.header().map_or(LogFileMode::NONE, |header| header.log_file_mode);
            mode.contains(LogFileMode::SYSTEM_LOGGER)
        };
        let with_system = (0..).zip(files).filter(|(_, file)| is_of_system(file));
        let with_system: Vec<(u32, &TraceFile)> = with_system.collect();
        if with_system.len() < 2 {
            return Ok(());
        }
        let clocks: Vec<Clock> = files.iter().map(|file| *file.clock()).collect();
        let mut first = MergedSessions::default();
        for (number, file) in with_system {
            let mut records = Records::new(vec![file.clone()]);
            for _ in 0..FIRST_RECORDS {
                let Some(mut record) = records.next() else { break };
                record.position.file_index = number;
                first.see(&record, &clocks);
                if first.origins.contain(number) && first.with_system.contains(&number) {
                    break;
                }
            }
        }
        let machines = Machines::of(files, &first.origins);
        let numbers: Vec<u32> = first.with_system.iter().copied().collect();
        let mut pairs = numbers
            .iter()
            .enumerate()
            .flat_map(|(at, one)| numbers[at + 1..].iter().map(|other| (*one, *other)));
        // Records behind may yet name the machine of a file that has named none.
        match pairs.find(|(one, other)| first.origins.contradict(*one, *other)) {
            Some(pair) => Err(refusal(files, output, &machines, pair)),
            None => Ok(()),
        }
    }

    /// The kinds of events that several sessions of one machine recorded at the same time.
    pub fn recorded_twice(&self, files: &[TraceFile]) -> Vec<&'static str> {
        let machines = Machines::of(files, &self.origins);
        let is_twice = |kind: usize| {
            let of_kind = || self.times.range((kind, 0)..=(kind, u32::MAX));
            of_kind().any(|((_, one), times)| {
                let same_time =
                    |other: &(FileTime, FileTime)| times.0 < other.1 && other.0 < times.1;
                let mut others = of_kind().filter(|((_, other), _)| other > one);
                others.any(|((_, other), times)| {
                    same_time(times) && machines.of_file(*one) == machines.of_file(*other)
                })
            })
        };
        let kinds = KINDS.iter().enumerate();
        kinds.filter(|(kind, _)| is_twice(*kind)).map(|(_, (_, name))| *name).collect()
    }

    /// Checks whether the files may become the one that `output` names. A note if they are of several machines: a file has no place for
    /// the machine of a record.
    ///
    /// # Errors
    /// Why not: several machines have events of the system.
    pub fn check_machines(
        &self,
        files: &[TraceFile],
        output: &Path,
    ) -> Result<Option<String>, String> {
        let machines = Machines::of(files, &self.origins);
        let mut of_machines = BTreeMap::<u32, Vec<u32>>::new();
        // A file that names no start of its machine may be of any.
        let known = (0..files.len() as u32).filter(|file| machines.is_known(*file));
        known.for_each(|file| of_machines.entry(machines.of_file(file)).or_default().push(file));
        if of_machines.len() < 2 {
            return Ok(None);
        }
        let name = |file: &u32| name(files, *file);
        let with_system =
            |files: &Vec<u32>| files.iter().find(|file| self.with_system.contains(file)).copied();
        let with_system: Vec<u32> = of_machines.values().filter_map(with_system).collect();
        if let [one, other, ..] = with_system[..] {
            return Err(refusal(files, output, &machines, (one, other)));
        }
        let groups = of_machines.values().map(|group| group.iter().map(name).collect::<Vec<_>>());
        let groups = groups.map(|group| group.join(", ")).collect::<Vec<_>>().join("; ");
        Ok(Some(format!(
            "the files are of {} machines ({groups}), which {} does not tell apart: process ids of one may be those of another",
            of_machines.len(),
            output.display()
        )))
    }
}

/// The reason why two files with events of the system are not merged.
fn refusal(
    files: &[TraceFile],
    output: &Path,
    machines: &Machines,
    (one, other): (u32, u32),
) -> String {
    format!(
        "{}: not written: {} and {} are of different machines ({}), and both have events of the system. In one file, their processes, \
         threads and CPUs would be those of one machine. Give the files together to etw convert or etw stat --by process, which keep \
         machines apart",
        output.display(),
        name(files, one),
        name(files, other),
        machines.difference(one, other),
    )
}

fn name(files: &[TraceFile], file: u32) -> String {
    files[file as usize].path().display().to_string()
}
