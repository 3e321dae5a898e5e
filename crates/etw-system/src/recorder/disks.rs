//! Disks that appear during a recording.

use super::Recorder;
use crate::shaper::Disk;
use crate::system_facts::{configuration, disk_name, physical_disk};

impl Recorder {
    /// Reads facts about disks that came since the last time, which may be gone at the end.
    pub(super) fn describe_new_disks(&mut self) {
        let disks = self.shaper.disks().iter().enumerate().rev();
        let new = disks.take_while(|(_, disk)| disk.name.is_empty());
        let mut new: Vec<(u32, u32)> =
            new.map(|(number, disk)| (number as u32, disk.device)).collect();
        new.reverse();
        for (number, device) in new {
            let disk = Disk { device, name: disk_name(device) };
            let record = physical_disk(number, &disk);
            self.shaper.describe_disk(number, disk.name, record);
        }
    }

    /// The disks of a recording before keep their numbers: both may be in one file, and the last record of a number counts.
    pub(super) fn keep_disk_numbers(&mut self, before: Vec<Disk>) {
        let now = self.shaper.disks();
        if before.is_empty() || now == before {
            return;
        }
        let is_new = |disk: &&Disk| before.iter().all(|one| one.device != disk.device);
        let new: Vec<Disk> = now.iter().filter(is_new).cloned().collect();
        let all = [before, new].concat();
        let records = configuration(self.shaper.cpu_count(), &all);
        self.shaper.number_disks(all, records);
    }
}

#[cfg(test)]
mod tests {
    use crate::perf::FakeRing;
    use crate::recorder::tests::recorder_of;
    use crate::shaper::Disk;

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
