//! [`RecordedTwice`]: events that the sessions of several merged files recorded at the same time.

use crate::attribution::SAMPLE;
use crate::machines::{Machines, PidNamespaces};
use crate::switches::CSWITCH;
use etw_etl::read::TraceFile;
use etw_types::{Clock, EventRecord, FileTime, Hook};
use std::collections::BTreeMap;

/// The events that each session of a machine records once.
const KINDS: [(Hook, &str); 2] = [(CSWITCH, "context switches"), (SAMPLE, "CPU samples")];

/// The times of such events in each file.
#[derive(Default)]
pub struct RecordedTwice {
    /// By kind and file: the first and the last one.
    times: BTreeMap<(usize, u32), (FileTime, FileTime)>,
    namespaces: PidNamespaces,
}

impl RecordedTwice {
    /// Notes a record of one of the files with these clocks.
    pub fn see(&mut self, record: &EventRecord<'_>, clocks: &[Clock]) {
        self.namespaces.learn(record);
        let Some(kind) = KINDS.iter().position(|(hook, _)| record.hook == Some(*hook)) else {
            return;
        };
        let file = record.position.file_index;
        let Some(time) = record.timestamp(&clocks[file as usize]) else { return };
        let times = self.times.entry((kind, file)).or_insert((time, time));
        *times = (times.0.min(time), times.1.max(time));
    }

    /// The kinds of events that several sessions of one machine recorded at the same time.
    pub fn kinds(&self, files: &[TraceFile]) -> Vec<&'static str> {
        let machines = Machines::of(files, &self.namespaces);
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
}
