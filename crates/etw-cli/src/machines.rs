//! [`Machines`]: the files whose sessions recorded the same machine.

use etw_etl::read::TraceFile;
use etw_types::EventRecord;

/// Starts of one machine, as its sessions name them, are no further apart, in 100 ns.
const ONE_BOOT: u64 = 10_000_000;

/// For each file of a trace, the first one of the same machine and the same start of it. By default, each file is another machine.
#[derive(Clone, Debug, Default)]
pub struct Machines {
    firsts: Vec<u32>,
}

impl Machines {
    pub fn of(files: &[TraceFile]) -> Machines {
        let boots = files.iter().map(|file| file.header().map_or(0, |header| header.boot_time.0));
        Machines::with_boots(&boots.collect::<Vec<i64>>())
    }

    /// For files of machines that started at these times; 0: not known.
    pub(crate) fn with_boots(boots: &[i64]) -> Machines {
        let is_same = |one: i64, other: i64| one != 0 && one.abs_diff(other) <= ONE_BOOT;
        let first = |(own, boot): (usize, &i64)| {
            boots[..own].iter().position(|other| is_same(*other, *boot)).unwrap_or(own) as u32
        };
        Machines { firsts: boots.iter().enumerate().map(first).collect() }
    }

    /// The number of the machine that recorded a file.
    pub fn of_file(&self, file: u32) -> u32 {
        self.firsts.get(file as usize).copied().unwrap_or(file)
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
        let machines = Machines::with_boots(&[0, 50 * second, 70 * second, 51 * second, 0]);
        assert_eq!([0, 1, 2, 3, 4].map(|file| machines.of_file(file)), [0, 1, 2, 1, 4]);
        assert_eq!(Machines::default().of_file(7), 7);
    }
}
