//! [`Machines`]: the files whose sessions recorded the same machine.

use etw_etl::read::TraceFile;
use etw_host::report::read_pid_namespace;
use etw_types::{EventRecord, SESSION_REPORTS};
use std::collections::HashMap;

/// Starts of one machine, as its sessions name them, are no further apart, in 100 ns.
const ONE_BOOT: u64 = 10_000_000;

/// The PID namespaces whose ids the files of a trace have: a container and its machine start at the same time, and each has processes of its own.
#[derive(Clone, Debug, Default)]
pub struct PidNamespaces {
    numbers: HashMap<u32, u64>,
}

impl PidNamespaces {
    /// Notes a record of a file that names the namespace.
    pub fn learn(&mut self, record: &EventRecord<'_>) {
        if record.provider == Some(SESSION_REPORTS)
            && let Some(number) = read_pid_namespace(record)
        {
            self.numbers.entry(record.position.file_index).or_insert(number);
        }
    }

    fn of_file(&self, file: usize) -> Option<u64> {
        self.numbers.get(&(file as u32)).copied()
    }
}

/// For each file of a trace, the one that stands for its machine and its start. By default, each file is another machine.
#[derive(Clone, Debug, Default)]
pub struct Machines {
    representatives: Vec<u32>,
}

impl Machines {
    pub fn of(files: &[TraceFile], namespaces: &PidNamespaces) -> Machines {
        let boots = files.iter().map(|file| file.header().map_or(0, |header| header.boot_time.0));
        Machines::with_boots(&boots.collect::<Vec<i64>>(), namespaces)
    }

    /// For files of machines that started at these times; 0: not known.
    pub(crate) fn with_boots(boots: &[i64], namespaces: &PidNamespaces) -> Machines {
        let of_start = |own: usize| {
            let same = move |file: &usize| Machines::are_of_one_start(boots[own], boots[*file]);
            (0..boots.len()).filter(same)
        };
        let representative = |own: usize| {
            let found = match namespaces.of_file(own) {
                Some(number) => {
                    of_start(own).find(|file| namespaces.of_file(*file) == Some(number))
                }
                // The first machine that fits.
                None => of_start(own)
                    .find(|file| namespaces.of_file(*file).is_some())
                    .or_else(|| of_start(own).next()),
            };
            found.unwrap_or(own) as u32
        };
        Machines { representatives: (0..boots.len()).map(representative).collect() }
    }

    /// Whether sessions whose headers name these starts recorded the same start of a machine; 0: not known.
    pub fn are_of_one_start(one: i64, other: i64) -> bool {
        one != 0 && one.abs_diff(other) <= ONE_BOOT
    }

    /// The number of the machine that recorded a file.
    pub fn of_file(&self, file: u32) -> u32 {
        self.representatives.get(file as usize).copied().unwrap_or(file)
    }

    /// The number of the machine that made a record.
    pub fn of_record(&self, record: &EventRecord<'_>) -> u32 {
        self.of_file(record.position.file_index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_one_machine_name_almost_the_same_start() {
        let second = 10_000_000;
        let machines = [0, 50 * second, 70 * second, 51 * second, 0];
        let machines = Machines::with_boots(&machines, &PidNamespaces::default());
        assert_eq!([0, 1, 2, 3, 4].map(|file| machines.of_file(file)), [0, 1, 2, 1, 4]);
        assert_eq!(Machines::default().of_file(7), 7);
    }

    /// A container starts with its machine. The files of an older host name no namespace: they are of the first machine that fits.
    #[test]
    fn a_container_is_another_machine_than_its_host() {
        let namespaces = PidNamespaces { numbers: [(0, 1), (1, 2), (2, 1), (4, 2)].into() };
        let machines = Machines::with_boots(&[50; 5], &namespaces);
        assert_eq!([0, 1, 2, 3, 4].map(|file| machines.of_file(file)), [0, 1, 0, 0, 1]);
    }

    /// Regression: both were of the machine of a file in front of them that names no namespace.
    #[test]
    fn a_file_without_a_namespace_does_not_join_two_machines() {
        let namespaces = PidNamespaces { numbers: [(1, 1), (2, 2)].into() };
        let machines = Machines::with_boots(&[50; 3], &namespaces);
        assert_eq!([0, 1, 2].map(|file| machines.of_file(file)), [1, 1, 2]);
    }
}
