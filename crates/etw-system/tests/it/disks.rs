//! Requests of disks, from neutral events. OV-23.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use etw_system::neutral::*;

use etw_system::record::Payload;
use etw_system::{Configuration, Disk, Machine};

use crate::ground_truth::settle;
use crate::invariants::Taken;
use crate::live::record;
use crate::shaper::{Machinery, of};

const PHYSICAL_DISK: u16 = 0x0b0b;

fn request(operation: DiskOperation, sector: u64, size: u32) -> DiskRequest {
    DiskRequest { device: 0xfd, sector, size, operation, is_background: false }
}

#[test]
fn parts_of_a_disk_request_add_up() {
    let mut machine = Machinery::new();
    let request = |sector, size| request(DiskOperation::Write, sector, size);
    machine.at(10, 0, 50, Detail::DiskIssue(request(100, 8192)));
    machine.at(20, 0, 0, Detail::DiskComplete(request(100, 4096)));
    machine.at(30, 0, 0, Detail::DiskComplete(request(108, 4096)));
    machine.at(40, 0, 0, Detail::DiskComplete(request(999, 4096)));
    // The driver does not take the next one at first; the kernel issues it again.
    machine.at(50, 0, 50, Detail::DiskIssue(request(200, 512)));
    machine.at(51, 0, 50, Detail::DiskRequeue(request(200, 512)));
    machine.at(60, 0, 7, Detail::DiskIssue(request(200, 512)));
    machine.at(70, 0, 0, Detail::DiskComplete(request(200, 512)));
    // The completion of the next one is lost.
    machine.at(80, 0, 50, Detail::DiskIssue(request(300, 512)));
    machine.at(90, 0, 51, Detail::DiskIssue(request(300, 512)));
    let records = machine.end();
    let writes = of(&records, 0x010b);
    assert_eq!(writes.len(), 2);
    assert_eq!((writes[0].u32(8), writes[0].u64(16)), (8192, 51_200));
    assert_eq!((writes[0].u64(40), writes[0].u32(48)), (200, 50));
    assert_eq!((writes[1].u64(40), writes[1].u32(48)), (200, 50));
    let starts = of(&records, 0x010d);
    assert_eq!(starts.iter().map(|one| one.thread).collect::<Vec<_>>(), [50, 50, 50, 51]);
    assert_eq!(starts[1].u64(0), writes[1].u64(32));
}

/// A scheduler issues requests later, in other threads, merged with others: the thread and the time are those of the call.
#[test]
fn a_disk_request_belongs_to_the_thread_that_asked_for_it() {
    let mut machine = Machinery::new();
    let read = |sector, size| request(DiskOperation::Read, sector, size);
    machine.at(10, 0, 50, Detail::DiskQueue(read(100, 4096)));
    machine.at(20, 0, 51, Detail::DiskQueue(read(300, 4096)));
    // The first one has grown at its front and at its end.
    machine.at(25, 0, 51, Detail::DiskQueue(read(108, 4096)));
    machine.at(30, 0, 7, Detail::DiskIssue(read(92, 12_288)));
    machine.at(40, 0, 51, Detail::DiskIssue(read(300, 4096)));
    machine.at(50, 0, 0, Detail::DiskComplete(read(92, 12_288)));
    machine.at(60, 0, 0, Detail::DiskComplete(read(300, 4096)));
    // Two callers wait for one flush, and a third one for the next, which is queued while the first is on its way.
    let nothing = request(DiskOperation::Write, 0, 0);
    let flush = request(DiskOperation::Flush, 0, 0);
    machine.at(70, 0, 50, Detail::DiskQueue(nothing));
    machine.at(75, 0, 51, Detail::DiskQueue(nothing));
    machine.at(80, 0, 7, Detail::DiskIssue(flush));
    machine.at(85, 0, 51, Detail::DiskQueue(nothing));
    machine.at(90, 0, 0, Detail::DiskComplete(flush));
    machine.at(91, 0, 0, Detail::DiskComplete(nothing));
    machine.at(95, 0, 7, Detail::DiskIssue(flush));
    machine.at(99, 0, 0, Detail::DiskComplete(flush));
    let records = machine.end();
    let reads: Vec<_> = of(&records, 0x010a)
        .iter()
        .map(|one| (one.u32(8), one.u64(16) / 512, one.u64(40), one.u32(48)))
        .collect();
    // Each part has its own thread and time, and their sizes add up.
    let expected = [(8192, 92, 400, 50), (4096, 108, 250, 51), (4096, 300, 400, 51)];
    assert_eq!(reads, expected);
    let ids = |hook, at| of(&records, hook).iter().map(|one| one.u64(at)).collect::<Vec<_>>();
    let [first, second, third] = ids(0x010c, 0)[..] else { panic!() };
    assert_eq!(ids(0x010a, 32), [first, third, second], "each has its end");
    let starts: Vec<_> = of(&records, 0x010c).iter().map(|one| one.thread).collect();
    assert_eq!(starts, [50, 51, 51]);
    let flushes: Vec<_> =
        of(&records, 0x010e).iter().map(|one| (one.u64(8), one.u32(24))).collect();
    assert_eq!(flushes, [(200, 50), (140, 51)]);
    let starts: Vec<_> = of(&records, 0x010f).iter().map(|one| one.thread).collect();
    assert_eq!(starts, [50, 51]);
    assert!(of(&records, 0x010b).is_empty());
}

/// The driver completes a merged request in pieces, which are no parts of it.
#[test]
fn parts_of_a_merged_request_end_when_all_of_their_bytes_are_complete() {
    let mut machine = Machinery::new();
    let write = |sector, size| request(DiskOperation::Write, sector, size);
    for (time, sector) in [(10, 100), (11, 116), (12, 108)] {
        machine.at(time, 0, 50, Detail::DiskQueue(write(sector, 4096)));
    }
    // A read of these sectors is another request, as is a write behind them.
    machine.at(13, 0, 50, Detail::DiskQueue(request(DiskOperation::Read, 104, 4096)));
    machine.at(14, 0, 50, Detail::DiskQueue(write(124, 4096)));
    machine.at(20, 0, 7, Detail::DiskIssue(write(124, 4096)));
    machine.at(21, 0, 7, Detail::DiskIssue(write(100, 12_288)));
    machine.at(22, 0, 7, Detail::DiskRequeue(write(100, 12_288)));
    machine.at(23, 0, 7, Detail::DiskIssue(write(100, 12_288)));
    machine.at(30, 0, 0, Detail::DiskComplete(write(100, 6144)));
    machine.at(40, 0, 0, Detail::DiskComplete(write(112, 6144)));
    machine.at(50, 0, 0, Detail::DiskComplete(write(124, 4096)));
    machine.at(60, 0, 7, Detail::DiskIssue(request(DiskOperation::Read, 104, 4096)));
    machine.at(70, 0, 0, Detail::DiskComplete(request(DiskOperation::Read, 104, 4096)));
    let records = machine.end();
    let ends = |hook| {
        let all = of(&records, hook).into_iter();
        all.map(|one| (one.u64(16) / 512, one.u32(8), one.u64(40))).collect::<Vec<_>>()
    };
    let writes = [(100, 4096, 200), (108, 4096, 280), (116, 4096, 290), (124, 4096, 360)];
    assert_eq!(ends(0x010b), writes);
    assert_eq!(ends(0x010a), [(104, 4096, 570)]);
}

/// Regression: the transfers of a disk that came during the recording had the kernel's device number, which no PhyDisk has.
#[test]
fn a_disk_that_comes_later_gets_the_next_number() {
    const LOGICAL_DISK: u16 = 0x0b0c;
    // The other fields are zeros.
    let record = |hook, number: u32| {
        let rest = if hook == PHYSICAL_DISK { 564 } else { 108 };
        let payload = Payload::new().u32(number).bytes(&vec![0; rest]);
        Configuration { hook, version: 2, payload }
    };
    let disk = |device, name: &str| Disk { device, name: name.to_owned() };
    let mut machine = Machinery::on(
        Machine {
            cpus: 2,
            disks: vec![disk(8 << 20, "sda"), disk(8 << 20 | 16, "sdb")],
            configuration: vec![
                record(PHYSICAL_DISK, 0),
                record(PHYSICAL_DISK, 1),
                record(LOGICAL_DISK, 0),
            ],
            ..Machine::default()
        },
        &[],
    );
    let later = [7 << 20, 7 << 20 | 1];
    for (at, device) in [(10, later[0]), (20, 8 << 20 | 16), (30, later[1]), (40, later[0])] {
        let request = DiskRequest { device, ..request(DiskOperation::Read, 100, 512) };
        machine.at(at, 0, 50, Detail::DiskIssue(request));
        machine.at(at + 1, 0, 50, Detail::DiskComplete(request));
    }
    let disks = machine.shaper.disks();
    assert_eq!(disks[2..], later.map(|device| disk(device, "")));
    for number in [2, 3] {
        machine.shaper.describe_disk(number, "loop".to_owned(), record(PHYSICAL_DISK, number));
    }
    let records = machine.end();
    let numbers = |hook| of(&records, hook).iter().map(|one| one.u32(0)).collect::<Vec<_>>();
    assert_eq!(numbers(0x010a), [2, 1, 3, 2]);
    assert_eq!(numbers(PHYSICAL_DISK), [0, 1, 2, 3]);
    let place = |hook| records.iter().position(|one| one.hook == hook);
    assert!(place(LOGICAL_DISK) > place(PHYSICAL_DISK), "the disks are together");
}

/// The output of a command. `None`: it does not succeed.
fn output_of(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

/// A disk whose sectors are a file, while it lives.
struct LoopDisk {
    file: PathBuf,
    device: String,
}

impl LoopDisk {
    /// `None`: this machine or user has no loop devices.
    fn attach(name: &str, size: usize) -> Option<LoopDisk> {
        let file = std::env::temp_dir().join(format!("etw-system-{name}-{}", std::process::id()));
        std::fs::write(&file, vec![0; size]).unwrap();
        let mut attach = Command::new("losetup");
        let device = output_of(attach.args(["--find", "--show"]).arg(&file)).unwrap_or_default();
        let disk = LoopDisk { file, device };
        (!disk.device.is_empty()).then_some(disk)
    }

    fn name(&self) -> &str {
        Path::new(&self.device).file_name().unwrap().to_str().unwrap()
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        if !self.device.is_empty() {
            output_of(Command::new("losetup").args(["--detach", &self.device]));
        }
        let _ = std::fs::remove_file(&self.file);
    }
}

/// The PhyDisk with this name.
fn disk_named<'a>(records: &'a [Taken], name: &str) -> Option<&'a Taken> {
    let name_of = |disk: &Taken| {
        let wide = disk.payload[40..].chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        String::from_utf16(&wide.take_while(|unit| *unit != 0).collect::<Vec<_>>()).unwrap()
    };
    of(records, PHYSICAL_DISK).into_iter().find(|disk| name_of(disk) == name)
}

/// The same on this machine, with a disk that is gone at the end.
#[test]
fn a_disk_that_comes_and_goes_has_its_record() {
    const SIZE: usize = 32 << 20;
    /// Bytes of a cylinder.
    const CYLINDER: usize = 63 * 255 * 512;
    let mut name = None;
    let records = record("process,thread,disk", None, |live| {
        let Some(disk) = LoopDisk::attach("loop", SIZE) else { return };
        let mut sectors = std::fs::OpenOptions::new().write(true).open(&disk.device).unwrap();
        sectors.write_all(&vec![7; SIZE]).unwrap();
        sectors.sync_all().unwrap();
        drop(sectors);
        settle(live);
        name = Some(disk.name().to_owned());
    });
    let Some(records) = records else { return };
    let Some(name) = name else { return eprintln!("left out: no loop device") };
    let disk = disk_named(&records, &name).expect("no record of the disk");
    let number = disk.u32(0);
    let numbers = of(&records, PHYSICAL_DISK).into_iter().map(|disk| disk.u32(0) as usize);
    assert!(numbers.eq(0..of(&records, PHYSICAL_DISK).len()), "each has its own");
    assert_eq!(disk.u64(16) as usize, SIZE / CYLINDER, "facts of the time when it was there");
    let writes = of(&records, 0x010b).into_iter().filter(|one| one.u32(0) == number);
    assert_eq!(writes.map(|one| one.u32(8) as usize).sum::<usize>(), SIZE);
}

/// Regression: a file system that was mounted during the recording had no LogDisk, and its disk no PhyDisk unless it was used.
#[test]
fn a_file_system_that_is_mounted_later_has_its_record() {
    const LOGICAL_DISK: u16 = 0x0b0c;
    const SIZE: usize = 16 << 20;
    let folder = std::env::temp_dir().join(format!("etw-system-mount-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let mut name = None;
    // No class shows that the disk is used.
    let records = record("process,thread", None, |live| {
        let Some(disk) = LoopDisk::attach("mounted", SIZE) else { return };
        let made = output_of(Command::new("mkfs.ext4").args(["-q", &disk.device]));
        let mut mount = Command::new("mount");
        if made.is_none() || output_of(mount.arg(&disk.device).arg(&folder)).is_none() {
            return;
        }
        settle(live);
        output_of(Command::new("umount").arg(&folder)).unwrap();
        name = Some(disk.name().to_owned());
    });
    std::fs::remove_dir(&folder).unwrap();
    let Some(records) = records else { return };
    let Some(name) = name else { return eprintln!("left out: no file system can be mounted") };
    let number = disk_named(&records, &name).expect("no record of the disk").u32(0);
    let volumes: Vec<&Taken> =
        of(&records, LOGICAL_DISK).into_iter().filter(|one| one.u32(16) == number).collect();
    let [volume] = volumes[..] else { panic!("{volumes:?}") };
    // Its start and size, in bytes, and its kind: the whole disk.
    assert_eq!((volume.u64(0), volume.u64(8), volume.u32(24)), (0, SIZE as u64, 2));
    assert!(volume.payload.windows(8).any(|bytes| bytes == b"e\0x\0t\x004\0"), "{volume:?}");
    let places = [PHYSICAL_DISK, LOGICAL_DISK, 0x0b0d]
        .map(|hook| records.iter().position(|one| one.hook == hook).unwrap_or(usize::MAX));
    assert!(places.is_sorted(), "{places:?}");
}
