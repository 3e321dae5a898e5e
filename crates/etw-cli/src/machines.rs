//! [`Machines`]: the files whose sessions recorded the same machine.

use etw_etl::read::TraceFile;
use etw_host::report::{SystemOrigin, read_system_origin};
use etw_types::{EventRecord, FileTime, SESSION_REPORTS};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Starts of one machine, as its sessions name them, are no further apart, in 100 ns.
const ONE_BOOT: u64 = 10_000_000;

/// The systems that the files of a trace name: a container and its machine start at the same time, and each has processes of its own.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    of_files: HashMap<u32, SystemOrigin>,
}

impl Origins {
    /// Notes a record of a file that names its system.
    pub fn learn(&mut self, record: &EventRecord<'_>) {
        if record.provider == Some(SESSION_REPORTS)
            && let Some(origin) = read_system_origin(record)
        {
            self.of_files.entry(record.position.file_index).or_insert(origin);
        }
    }

    /// Whether a file has named its system.
    pub fn contain(&self, file: u32) -> bool {
        self.of_files.contains_key(&file)
    }

    /// Whether two files have named different systems, whenever these started.
    pub fn contradict(&self, one: u32, other: u32) -> bool {
        let origin = |file| self.of_files.get(&file).copied().unwrap_or_default();
        let (one, other) = (origin(one), origin(other));
        differ(one.pid_namespace, other.pid_namespace) || differ(one.boot_id, other.boot_id)
    }
}

/// Whether both are known, and are not equal.
fn differ<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one != other)
}

/// A machine and its start, as one file or several describe it.
#[derive(Clone, Debug, Default)]
struct Machine {
    origin: SystemOrigin,
    /// The times of the start in the files' headers; 0: not known.
    boots: Vec<i64>,
}

impl Machine {
    /// Whether a description may be of this machine, too. The wall clock may have been set between two sessions, so their boot times count
    /// only where an id is not known.
    fn is_of(&self, other: &Machine) -> bool {
        if differ(self.origin.pid_namespace, other.origin.pid_namespace) {
            return false;
        }
        match (self.origin.boot_id, other.origin.boot_id) {
            (Some(one), Some(other)) => one == other,
            _ => self.starts_with(other),
        }
    }

    fn starts_with(&self, other: &Machine) -> bool {
        let has = |boot: &i64| other.boots.iter().any(|one| one.abs_diff(*boot) <= ONE_BOOT);
        self.boots.iter().any(|boot| *boot != 0 && has(boot))
    }

    fn add(&mut self, other: Machine) {
        self.origin.pid_namespace = self.origin.pid_namespace.or(other.origin.pid_namespace);
        self.origin.boot_id = self.origin.boot_id.or(other.origin.boot_id);
        self.boots.extend(other.boots);
    }
}

/// For each file of a trace, its machine. By default, each file is another machine.
#[derive(Clone, Debug, Default)]
pub struct Machines {
    of_files: Vec<u32>,
    machines: HashMap<u32, Machine>,
}

impl Machines {
    pub fn of(files: &[TraceFile], origins: &Origins) -> Machines {
        let boots = files.iter().map(|file| file.header().map_or(0, |header| header.boot_time.0));
        Machines::with_boots(&boots.collect::<Vec<i64>>(), origins)
    }

    /// For files of machines that started at these times; 0: not known.
    pub(crate) fn with_boots(boots: &[i64], origins: &Origins) -> Machines {
        let described = |file: u32| {
            let origin = origins.of_files.get(&file).copied().unwrap_or_default();
            Machine { origin, boots: vec![boots[file as usize]] }
        };
        // A file that says less of its machine than others is of the first one that fits, and does not join two.
        let mut files: Vec<u32> = (0..boots.len() as u32).collect();
        files.sort_by_key(|file| {
            let origin = described(*file).origin;
            Reverse((origin.pid_namespace.is_some(), origin.boot_id.is_some()))
        });
        let mut found: Vec<(u32, Machine)> = Vec::new();
        let mut of_files = vec![0; boots.len()];
        for file in files {
            let own = described(file);
            let known = found.iter_mut().find(|(_, machine)| machine.is_of(&own));
            of_files[file as usize] = match known {
                Some((number, machine)) => {
                    machine.add(own);
                    *number
                }
                None => {
                    found.push((file, own));
                    file
                }
            };
        }
        Machines { of_files, machines: found.into_iter().collect() }
    }

    /// The number of the machine that recorded a file.
    pub fn of_file(&self, file: u32) -> u32 {
        self.of_files.get(file as usize).copied().unwrap_or(file)
    }

    /// The number of the machine that made a record.
    pub fn of_record(&self, record: &EventRecord<'_>) -> u32 {
        self.of_file(record.position.file_index)
    }

    /// Whether the start of a file's machine is known. If it is not, the file may be of any machine.
    pub fn is_known(&self, file: u32) -> bool {
        self.machines.get(&self.of_file(file)).is_some_and(|machine| {
            machine.origin.boot_id.is_some() || machine.boots.iter().any(|boot| *boot != 0)
        })
    }

    /// The reason why two files are of different machines.
    pub fn difference(&self, one: u32, other: u32) -> String {
        let machine = |file| self.machines.get(&self.of_file(file)).cloned().unwrap_or_default();
        let (one, other) = (machine(one), machine(other));
        let are_of_one_start = match (one.origin.boot_id, other.origin.boot_id) {
            (Some(one), Some(other)) if one == other => true,
            (Some(one), Some(other)) => {
                return format!("their SystemSource events name the boot ids {one} and {other}");
            }
            _ => one.starts_with(&other),
        };
        match are_of_one_start {
            true => "their SystemSource events name different PID namespaces".to_owned(),
            false => {
                let boot =
                    |machine: &Machine| FileTime(machine.boots.first().map_or(0, |boot| *boot));
                format!("their machines started at {} and {}", boot(&one), boot(&other))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_types::Guid;

    #[test]
    fn sessions_of_one_machine_name_almost_the_same_start() {
        let second = 10_000_000;
        let machines = [0, 50 * second, 70 * second, 51 * second, 0];
        let machines = Machines::with_boots(&machines, &Origins::default());
        assert_eq!([0, 1, 2, 3, 4].map(|file| machines.of_file(file)), [0, 1, 2, 1, 4]);
        assert_eq!(Machines::default().of_file(7), 7);
    }

    /// Files that name a boot id (0: none) and a PID namespace (0: none), of machines that started at this second (0: not known).
    fn numbers<const N: usize>(files: [(u128, u64, i64); N]) -> [u32; N] {
        let origin = |(id, namespace, _): &(u128, u64, i64)| SystemOrigin {
            pid_namespace: Some(*namespace).filter(|number| *number != 0),
            boot_id: Some(Guid::from_u128(*id)).filter(|id| !id.is_zero()),
        };
        let of_files = (0..).zip(files.iter().map(origin)).collect();
        let machines =
            Machines::with_boots(&files.map(|(.., boot)| boot * 10_000_000), &Origins { of_files });
        std::array::from_fn(|file| machines.of_file(file as u32))
    }

    /// A container starts with its machine. The files of an older host name no namespace: they are of the first machine that fits.
    #[test]
    fn a_container_is_another_machine_than_its_host() {
        assert_eq!(
            numbers([(0, 1, 5), (0, 2, 5), (0, 1, 5), (0, 0, 5), (0, 2, 5)]),
            [0, 1, 0, 0, 1]
        );
        assert_eq!(numbers([(7, 1, 5), (7, 2, 5), (7, 1, 5)]), [0, 1, 0]);
    }

    /// Regression: both were of the machine of a file in front of them that names no namespace.
    #[test]
    fn a_file_without_a_namespace_does_not_join_two_machines() {
        assert_eq!(numbers([(0, 0, 5), (0, 1, 5), (0, 2, 5)]), [1, 1, 2]);
    }

    /// Regression: a machine that was suspended between two sessions, or whose clock was set, was two.
    #[test]
    fn the_boot_id_says_more_than_the_time_of_the_start() {
        assert_eq!(numbers([(7, 1, 5), (7, 1, 15), (8, 1, 5), (8, 1, 15)]), [0, 0, 2, 2]);
        assert_eq!(numbers([(7, 0, 5), (7, 0, 0), (0, 0, 0), (0, 0, 0)]), [0, 0, 2, 3]);
    }

    /// A file without an id is of a machine that started at its time, in whichever of that machine's files it is, and does not join two.
    #[test]
    fn files_without_an_id_are_of_the_machine_that_started_with_them() {
        assert_eq!(numbers([(0, 1, 15), (7, 1, 5), (7, 1, 15), (8, 1, 25)]), [1, 1, 1, 3]);
        assert_eq!(numbers([(0, 1, 5), (7, 1, 5), (8, 1, 5), (8, 0, 5)]), [1, 1, 2, 2]);
    }
}
