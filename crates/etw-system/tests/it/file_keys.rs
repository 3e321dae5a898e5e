//! Keys of files: different files have different ones, and a file has the same one in all records. OV-23.

use etw_system::neutral::{Detail, FileFacts, FileId};
use etw_system::system_calls::{FileOperation, SystemCall};

use crate::file_names::{NAME, OWN_FOLDER, call_in_folder, named, text};
use crate::shaper::{Machinery, number, of};

/// A device of no disk, as each subvolume of btrfs, overlayfs and tmpfs has.
const NO_DISK: u32 = 30;
const DISK: u32 = 7 << 20;

/// Opened files of process 50, and their keys.
struct Opened {
    machine: Machinery,
    time: u64,
}

impl Opened {
    fn new() -> Opened {
        Opened { machine: Machinery::new(), time: 10 }
    }

    /// A call opens a file. Its read has the file's key.
    fn open(&mut self, path: &str, device: u32, inode: u64, address: u64) {
        let file = named([path, ""], Some(FileId { device, inode, address }));
        let open = call_in_folder(FileOperation::Open);
        self.machine.call_with(self.time, (open, &[OWN_FOLDER, 0x100]), Some(&file), 5);
        self.machine.call(
            self.time + 5,
            crate::shaper::operation(FileOperation::Read),
            &[5, 0x100, 8],
            8,
        );
        self.time += 10;
    }

    /// The name that the trace has of each opened file: the last one of its key at that time.
    fn names(self) -> (Vec<u64>, Vec<String>) {
        let records = self.machine.end();
        let mut known = std::collections::HashMap::new();
        let (mut keys, mut names) = (Vec::new(), Vec::new());
        for one in &records {
            match one.hook {
                0x0400 => _ = known.insert(one.u64(0), text(one, NAME)),
                0x0443 => {
                    keys.push(one.u64(24));
                    names.push(known.get(&one.u64(24)).cloned().unwrap_or_default());
                }
                _ => {}
            }
        }
        (keys, names)
    }
}

/// Which of the values are the same: the index of the first such one.
fn same(all: &[u64]) -> Vec<usize> {
    all.iter().map(|one| all.iter().position(|first| first == one).unwrap()).collect()
}

#[test]
fn files_of_one_number_on_one_device_are_told_apart() {
    let mut opened = Opened::new();
    opened.open("/a/f", NO_DISK, 257, 0x1000);
    opened.open("/b/f", NO_DISK, 257, 0x2000);
    opened.open("/a/f", NO_DISK, 257, 0x1000);
    // The kernel had forgotten the inode; then another path leads to it.
    opened.open("/b/f", NO_DISK, 257, 0x3000);
    opened.open("/link", NO_DISK, 257, 0x3000);
    opened.open("/a/link", NO_DISK, 257, 0x1000);
    let (keys, names) = opened.names();
    assert_eq!(names, ["/a/f", "/b/f", "/a/f", "/b/f", "/b/f", "/a/f"]);
    assert_eq!(same(&keys), [0, 1, 0, 1, 1, 0]);
}

#[test]
fn no_part_of_a_number_is_left_out_of_a_key() {
    let mut opened = Opened::new();
    let files = [
        ("/loop0", DISK, 12),
        ("/tmpfs", 1792, 12),
        ("/layer1", NO_DISK, 4),
        ("/layer2", NO_DISK, 1 << 63 | 4),
        ("/large", DISK, 1 << 40 | 4),
        ("/small", DISK, 4),
    ];
    for (address, (path, device, inode)) in files.into_iter().enumerate() {
        opened.open(path, device, inode, address as u64 * 64);
    }
    let (keys, names) = opened.names();
    assert_eq!(names, files.map(|(path, ..)| path));
    assert_eq!(same(&keys), [0, 1, 2, 3, 4, 5]);
    assert!(keys.iter().all(|key| key >> 46 == 0x3fffd), "{keys:x?}");
}

/// On a disk's file system, numbers alone say which file it is: another path leads to it behind any look.
#[test]
fn a_file_of_a_disk_has_one_key() {
    let mut opened = Opened::new();
    for (path, address) in [("/f", 0), ("/link", 0x1000), ("/f", 0x2000)] {
        opened.open(path, DISK, 12, address);
    }
    let (keys, names) = opened.names();
    assert_eq!((names, same(&keys)), (vec!["/f".to_owned(); 3], vec![0, 0, 0]));
}

/// The list of descriptors and the kernel name one file by different devices, or by different paths.
#[test]
fn a_file_that_was_open_before_has_the_key_of_later_calls() {
    let mut opened = Opened::new();
    let found = |path: &str, device, inode| FileFacts {
        id: FileId { device, inode, address: 0 },
        path: path.into(),
    };
    for (descriptor, file) in
        [(7, found("/a/f", 99, 257)), (8, found("/usr/g", NO_DISK, 300))].iter()
    {
        let (process, descriptor, file) = (50, *descriptor, Some(file));
        opened.machine.at(5, 0, 50, Detail::DescriptorFound { process, descriptor, file });
        let read = crate::shaper::operation(FileOperation::Read);
        opened.machine.call(opened.time, read, &[descriptor as u64, 0x100, 8], 8);
        opened.time += 10;
    }
    opened.open("/a/f", NO_DISK, 257, 0x1000);
    opened.open("/g", NO_DISK, 300, 0x2000);
    opened.open("/a/f", NO_DISK, 258, 0x3000);
    let (keys, names) = opened.names();
    assert_eq!(names, ["/a/f", "/usr/g", "/a/f", "/usr/g", "/a/f"]);
    assert_eq!(same(&keys), [0, 1, 0, 1, 4]);
}

/// A page fault has the key of the file that is mapped there, whatever file system its page comes from; elsewhere it has that of no file
/// with only the same number.
#[test]
fn page_faults_have_the_keys_of_mapped_files() {
    let mut opened = Opened::new();
    opened.open("/a/f", NO_DISK, 257, 0x1000);
    opened.open("/d", DISK, 12, 0x2000);
    opened.open("/a/f", NO_DISK, 257, 0x1000);
    let map = number(|call| call == SystemCall::Map);
    opened.machine.call(100, map, &[0, 0x2000, 1, 2, 5, 0], 0x7000_0000);
    let file = |device, inode| FileId { device, inode, address: 0 };
    for (time, address, file) in [
        (200, 0x7000_1000, file(DISK, 99)),
        (210, 0x7000_2000, file(NO_DISK, 257)),
        (220, 0x7000_2000, file(DISK, 12)),
    ] {
        let detail = Detail::FileFault { file, offset: 0, is_around: false };
        opened.machine.at(time, 0, 50, detail);
        let detail = Detail::Fault { address, program_counter: 0, is_hard: true };
        opened.machine.at(time + 1, 0, 50, detail);
    }
    let records = opened.machine.end();
    let keys: Vec<u64> = of(&records, 0x0443).iter().map(|one| one.u64(24)).collect();
    let faults: Vec<u64> = of(&records, 0x0220).iter().map(|one| one.u64(24)).collect();
    assert_eq!(same(&[&keys[..], &faults].concat()), [0, 1, 0, 0, 4, 1]);
}
