//! Names of files whose folders have other names, and of files that had none.

use etw_system::neutral::{Detail, FileFacts, FileId};
use etw_system::system_calls::{FileOperation, SystemCall};

use crate::file_names::{NAME, OPEN_PATH, OWN_FOLDER, PATH, call_in_folder, file, named, texts};
use crate::invariants::Taken;
use crate::shaper::{Machinery, number, of, operation};

/// `O_TMPFILE`, for writing
const NAMELESS: u64 = 0o20_200_001;
const EXCHANGE: u64 = 2;

/// Calls of process 50, a microsecond apart.
struct Calls {
    machine: Machinery,
    time: u64,
}

impl Calls {
    fn new() -> Calls {
        Calls { machine: Machinery::new(), time: 10 }
    }

    fn with(&mut self, call: (u64, &[u64]), paths: [&str; 2], id: Option<FileId>, result: i64) {
        self.machine.call_with(self.time, call, Some(&named(paths, id)), result);
        self.time += 10;
    }

    fn opens(&mut self, path: &str, id: Option<FileId>, flags: u64, descriptor: i64) {
        let open = call_in_folder(FileOperation::Open);
        self.with((open, &[OWN_FOLDER, 0x100, flags]), [path, ""], id, descriptor);
    }

    fn of_paths(&mut self, operation: FileOperation, old: &str, new: &str) {
        let arguments = [OWN_FOLDER, 0x100, OWN_FOLDER, 0x200];
        self.with((call_in_folder(operation), &arguments), [old, new], None, 0);
    }

    fn renames(&mut self, old: &str, new: &str) {
        self.of_paths(FileOperation::Rename, old, new);
    }

    fn reads(&mut self, descriptor: u64) {
        let call = (operation(FileOperation::Read), &[descriptor, 0, 9][..]);
        self.machine.call(self.time, call.0, call.1, 9);
        self.time += 10;
    }

    fn end(self) -> Vec<Taken> {
        self.machine.end()
    }
}

/// The names that readers have for the files of records: the last one before each.
fn names_of(records: &[Taken], hook: u16, key: usize) -> Vec<String> {
    let mut known = Vec::new();
    let mut found = Vec::new();
    for one in records {
        if one.hook == 0x0400 {
            known.push((one.u64(0), crate::file_names::text(one, NAME)));
        } else if one.hook == hook {
            let last = known.iter().rev().find(|name| name.0 == one.u64(key));
            found.push(last.map_or(String::new(), |name| name.1.clone()));
        }
    }
    found
}

/// OV-23: files below a folder that has another name are there, whether they are open or opened later; so are those below its subfolders.
#[test]
fn files_follow_their_renamed_folder() {
    let mut calls = Calls::new();
    calls.opens("/w/build.tmp/out", file(7), 0, 5);
    calls.opens("/w/build.tmp/a/deep", file(8), 0, 6);
    calls.opens("/w/build.tmp2", file(9), 0, 7);
    calls.opens("/w/build/stale", file(10), 0, 8);
    // As before.
    calls.renames("/w/build.tmp", "/w/other");
    calls.renames("/w/other", "/w/build.tmp");
    calls.reads(6);
    calls.renames("/w/build.tmp", "/w/build");
    calls.reads(6);
    calls.opens("/w/build/out", file(7), 0, 9);
    calls.reads(9);
    calls.reads(7);
    calls.renames("/w", "/v");
    calls.opens("/v/build/out", file(7), 0, 10);
    calls.reads(10);
    calls.reads(7);
    let records = calls.end();
    let read = [
        "/w/build.tmp/a/deep",
        "/w/build/a/deep",
        "/w/build/out",
        "/w/build.tmp2",
        "/v/build/out",
        "/v/build.tmp2",
    ];
    assert_eq!(names_of(&records, 0x0443, 24), read);
    let mut last = texts(&records, 0x0424, NAME);
    last.retain(|name| !name.ends_with("stale"));
    last.sort();
    // The folders have names because calls have named them.
    let expected = ["/v", "/v/build", "/v/build.tmp2", "/v/build/a/deep", "/v/build/out"];
    assert_eq!(last, expected);
    let names = texts(&records, 0x0400, NAME);
    // The last one is only there for the end.
    assert_eq!(names.iter().filter(|name| name.ends_with("/deep")).count(), 3, "{names:?}");
}

/// OV-23: files in memory have the names of their renamed folder, too.
#[test]
fn files_in_memory_follow_their_renamed_folder() {
    let mut calls = Calls::new();
    calls.opens("/a/x", file(7), 0, 5);
    let map = number(|call| call == SystemCall::Map);
    let unmap = number(|call| call == SystemCall::Unmap);
    calls.machine.call(20, map, &[0, 0x3000, 1, 2, 5, 0], 0x7000_0000);
    calls.time = 30;
    calls.renames("/a", "/b");
    calls.machine.at(
        40,
        0,
        50,
        Detail::FileFault { file: file(7).unwrap(), offset: 0, is_around: false },
    );
    let fault = Detail::Fault { address: 0x7000_0000, program_counter: 0x4010, is_hard: true };
    calls.machine.at(50, 0, 50, fault);
    calls.time = 60;
    calls.renames("/b", "/c");
    calls.machine.call(70, unmap, &[0x7000_0000, 0x3000], 0);
    let records = calls.end();
    assert_eq!(names_of(&records, 0x0425, 8), ["/a/x"]);
    assert_eq!(names_of(&records, 0x0220, 24), ["/b/x"]);
    assert_eq!(names_of(&records, 0x0426, 8), ["/c/x"]);
}

/// OV-23: two folders that change their names with each other change those of their files.
#[test]
fn files_follow_folders_that_change_their_names_with_each_other() {
    let mut calls = Calls::new();
    calls.opens("/a/x", file(7), 0, 5);
    calls.opens("/b/y", file(8), 0, 6);
    let with_flags = number(
        |call| matches!(call, SystemCall::File(FileOperation::Rename, one) if one.flags.is_some()),
    );
    let arguments = [OWN_FOLDER, 0, OWN_FOLDER, 0, EXCHANGE];
    calls.with((with_flags, &arguments), ["/a", "/b"], None, 0);
    calls.reads(5);
    calls.reads(6);
    assert_eq!(names_of(&calls.end(), 0x0443, 24), ["/b/x", "/a/y"]);
}

/// OV-23: relative paths of a process whose folder has another name begin there.
#[test]
fn a_process_stays_in_its_renamed_folder() {
    let mut calls = Calls::new();
    let change = number(|call| call == SystemCall::ChangeFolder);
    calls.with((change, &[0x100]), ["/w/build.tmp/a", ""], None, 0);
    calls.renames("/w/build.tmp", "/w/build");
    calls.opens("x", file(7), 0, 5);
    calls.renames("/w/build/a", "/w/a");
    calls.opens("../y", file(8), 0, 6);
    // Another folder.
    calls.renames("/w/a2", "/w/b");
    calls.opens("z", file(9), 0, 7);
    // Nobody knows where it is now.
    calls.renames("/w", "");
    calls.opens("unknown", file(10), 0, 8);
    let opened = ["/w/build/a/x", "/w/y", "/w/a/z", "unknown"];
    assert_eq!(texts(&calls.end(), 0x0440, OPEN_PATH), opened);
}

/// OV-23: renames of a large folder cost no more than the names that are remembered.
#[test]
fn names_of_a_large_folder_are_learned_again() {
    const FILES: u64 = 6000;
    let mut calls = Calls::new();
    for inode in 1..=FILES {
        calls.opens(&format!("/a/{inode}"), file(inode), 0, 5);
    }
    for _ in 0..20 {
        calls.renames("/a", "/b");
        calls.renames("/b", "/a");
    }
    calls.renames("/a", "/b");
    for inode in 1..=FILES {
        calls.opens(&format!("/b/{inode}"), file(inode), 0, 5);
        calls.reads(5);
    }
    let records = calls.end();
    let expected: Vec<String> = (1..=FILES).map(|inode| format!("/b/{inode}")).collect();
    assert_eq!(names_of(&records, 0x0443, 24), expected);
    assert!(of(&records, 0x0400).len() < 3 * FILES as usize);
}

/// OV-23: a file that was made without a name has the one that it receives, however a program gives it.
#[test]
fn a_file_without_a_name_receives_one() {
    let link = call_in_folder(FileOperation::Link);
    for (folder, old) in [(OWN_FOLDER, "/proc/self/fd/5"), (OWN_FOLDER, "/proc/50/fd/5"), (5, "")] {
        let mut calls = Calls::new();
        calls.opens("/data", file(77), NAMELESS, 5);
        calls.reads(5);
        calls.with((link, &[folder, 0x100, OWN_FOLDER, 0x200, 0]), [old, "/data/x"], None, 0);
        calls.reads(5);
        calls.opens("/data/x", file(77), 0, 6);
        calls.reads(6);
        let records = calls.end();
        assert_eq!(names_of(&records, 0x0443, 24), ["/data/#77", "/data/x", "/data/x"]);
        assert_eq!(of(&records, 0x0400).len(), 2, "{old}");
        assert_eq!(texts(&records, 0x0424, NAME), ["/data/x"]);
        assert_eq!(texts(&records, 0x0451, PATH), ["/data/x"]);
        let linked = of(&records, 0x0445)[0].u64(16);
        assert_eq!(linked, of(&records, 0x0400)[0].u64(0), "the file itself");
    }
}

/// OV-23: a new file with the number of one that had no name, or was deleted unseen, has its own name; a second name of a file that has one is not
/// taken.
#[test]
fn a_file_with_the_number_of_one_without_a_name_has_its_own() {
    const MADE: u64 = 0o101;
    let mut calls = Calls::new();
    calls.opens("/data", file(77), NAMELESS, 5);
    calls.opens("/data/new", file(77), MADE, 6);
    calls.reads(6);
    calls.opens("/data/linked", file(77), 0, 7);
    calls.reads(7);
    // Nobody saw that this file was deleted.
    calls.opens("/other", file(77), NAMELESS, 8);
    calls.reads(8);
    // Its descriptor is no other name.
    calls.opens("/proc/self/fd/8", file(77), 0, 9);
    calls.reads(9);
    // A name of this form that is no number of its file stays.
    calls.opens("/data/#78", file(79), 0, 10);
    calls.opens("/data/y", file(79), 0, 11);
    calls.reads(11);
    let read = ["/data/new", "/data/new", "/other/#77", "/other/#77", "/data/#78"];
    assert_eq!(names_of(&calls.end(), 0x0443, 24), read);
}

/// OV-23: what `/proc` says of a file that is deleted, or has no name, is not kept for the next file with its number.
#[test]
fn a_deleted_file_gives_way() {
    let mut calls = Calls::new();
    let found = |calls: &mut Calls, descriptor, path: &str| {
        let file = FileFacts { id: file(7).unwrap(), path: path.into() };
        let file = Some(&file);
        let detail = Detail::DescriptorFound { process: 50, descriptor, file };
        calls.machine.at(calls.time, 0, 50, detail);
        calls.time += 10;
    };
    found(&mut calls, 3, "/data/#7 (deleted)");
    calls.reads(3);
    found(&mut calls, 4, "/data/kept (deleted)");
    calls.reads(4);
    found(&mut calls, 5, "/data/kept");
    calls.reads(5);
    let read = ["/data/#7 (deleted)", "/data/kept (deleted)", "/data/kept"];
    assert_eq!(names_of(&calls.end(), 0x0443, 24), read);
}
