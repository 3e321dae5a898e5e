//! Disks and file systems that appear during a recording.

use super::Recorder;
use crate::shaper::Disk;
use crate::system_facts::{configuration, disk_name, logical_disk, physical_disk};

impl Recorder {
    /// Reads facts about disks that came since the last time, which may be gone at the end.
    pub(super) fn describe_new_disks(&mut self) {
        let disks = self.shaper.disks().iter().enumerate().rev();
        let new = disks.take_while(|(_, disk)| disk.name.is_empty());
        let mut new: Vec<(u32, u32)> =
            new.map(|(number, disk)| (number as u32, disk.device)).collect();
        if new.is_empty() {
            return;
        }
        new.reverse();
        for (number, device) in new {
            let disk = Disk { device, name: disk_name(device) };
            let record = physical_disk(number, &disk);
            self.shaper.describe_disk(number, disk.name, record);
        }
        self.tell_disks();
    }

    /// Reads facts about file systems that were mounted since the last time. A disk without a transfer gets its number here.
    pub(super) fn describe_new_mounts(&mut self) {
        let new = self.mounts.as_mut().map_or(Vec::new(), |mounts| mounts.take_new());
        for volume in new {
            self.shaper.disk_number(volume.disk);
            self.describe_new_disks();
            if let Some(record) = logical_disk(self.shaper.disks(), &volume) {
                self.shaper.add_configuration(record);
            }
        }
    }

    /// If this process is killed, the next one gives the disks these numbers.
    pub(super) fn tell_disks(&self) {
        if let Some(told) = &self.told {
            told.set_disks(self.shaper.disks().iter().map(|disk| disk.device));
        }
    }

    /// The disks have the numbers that a killed process gave them.
    pub(super) fn continue_disks(&mut self) {
        let devices = self.told.as_ref().map_or(Vec::new(), |told| told.disks());
        let disk = |device| Disk { device, name: disk_name(device) };
        self.keep_disk_numbers(devices.into_iter().map(disk).collect());
    }

    /// The disks of a recording before keep their numbers: both may be in one file, and the last record of a number counts.
    pub(super) fn keep_disk_numbers(&mut self, before: Vec<Disk>) {
        let now = self.shaper.disks();
        if before.is_empty() || now == before {
            return self.tell_disks();
        }
        let is_new = |disk: &&Disk| before.iter().all(|one| one.device != disk.device);
        let new: Vec<Disk> = now.iter().filter(is_new).cloned().collect();
        let all = [before, new].concat();
        let records = configuration(self.shaper.cpu_count(), &all);
        self.shaper.number_disks(all, records);
        self.tell_disks();
    }
}

#[cfg(test)]
mod tests {
    use crate::perf::{FakeRing, Told};
    use crate::recorder::tests::recorder_of;
    use crate::shaper::Disk;
    use std::os::fd::AsFd;

    /// Regression: a worker that took the place of a killed one numbered the disks anew, and one number was two disks in the trace.
    #[test]
    fn disks_keep_their_numbers_when_a_process_is_killed() {
        let fake = FakeRing::new();
        // No disk has such a device number: its name is that number.
        let disk = |device: u32| Disk { device, name: format!("4095:{}", device & 0xf_ffff) };
        let number = |minor: u32| 4095 << 20 | minor;
        let disks = |minors: &[u32]| minors.iter().map(|one| disk(number(*one))).collect();
        let mut first = recorder_of(&fake, "disk");
        first.told = Some(Told::new().unwrap());
        first.shaper.number_disks(disks(&[1, 5]), Vec::new());
        first.begin().unwrap();
        // One comes that is before the others in the system's order.
        assert_eq!(first.shaper.disk_number(number(0)), 2);
        first.describe_new_disks();
        let mut next = recorder_of(&fake, "disk");
        let kept = first.told.as_ref().unwrap().as_fd().try_clone_to_owned().unwrap();
        (next.told, next.stored_until) = (Some(Told::map(kept).unwrap()), Some(1));
        drop(first);
        next.shaper.number_disks(disks(&[0, 5, 6]), Vec::new());
        next.begin().unwrap();
        let expected: Vec<Disk> = disks(&[1, 5, 0, 6]);
        assert_eq!(next.shaper.disks(), expected);
        // The one behind that knows all of them.
        let devices: Vec<u32> = expected.iter().map(|disk| disk.device).collect();
        assert_eq!(next.told.as_ref().unwrap().disks(), devices);
    }

    #[test]
    fn disks_keep_their_numbers_in_another_recording() {
        let fake = FakeRing::new();
        let disk = |device: u32| Disk { device, name: format!("disk {device}") };
        let disks = |devices: &[u32]| devices.iter().copied().map(disk).collect::<Vec<_>>();
        let mut recorder = recorder_of(&fake, "disk");
        recorder.shaper.number_disks(disks(&[1, 2, 3]), Vec::new());
        recorder.keep_disk_numbers(disks(&[3, 2, 1]));
        assert_eq!(recorder.shaper.disks(), disks(&[3, 2, 1]));
        // Disk 2 has gone, and another one has come.
        recorder.shaper.number_disks(disks(&[1, 3, 4]), Vec::new());
        recorder.keep_disk_numbers(disks(&[3, 2, 1]));
        assert_eq!(recorder.shaper.disks(), disks(&[3, 2, 1, 4]));
    }
}
