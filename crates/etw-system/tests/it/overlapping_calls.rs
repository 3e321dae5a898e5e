//! Calls of several threads at once: each has the file and the position that it has in the kernel. OV-23.

use std::collections::HashMap;

use etw_system::neutral::{CalledFile, Detail, FileId};
use etw_system::system_calls::{FileOperation, SystemCall};

use crate::file_names::{NAME, OWN_FOLDER, call_in_folder, file, named, text};
use crate::shaper::{Machinery, number, of, operation};

/// Another thread of process 50.
const OTHER: u32 = 51;
/// `O_CREAT`
const CREATES: u64 = 0o100;

struct Overlapping {
    machine: Machinery,
    running: HashMap<u32, u64>,
    time: u64,
}

impl Overlapping {
    fn new() -> Overlapping {
        let mut machine = Machinery::new();
        machine.of_process(5, (50, 50), crate::shaper::thread_of(50, OTHER));
        Overlapping { machine, running: HashMap::new(), time: 10 }
    }

    fn begin(&mut self, thread: u32, number: u64, arguments: &[u64], file: Option<&CalledFile>) {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        let detail = Detail::SyscallEnter { number, arguments: all, file };
        self.time += 1;
        self.machine.of_process(self.time, (50, thread), detail);
        self.running.insert(thread, number);
    }

    fn end(&mut self, thread: u32, result: i64) {
        let number = self.running.remove(&thread).unwrap();
        self.time += 1;
        self.machine.of_process(self.time, (50, thread), Detail::SyscallExit { number, result });
    }

    fn begin_open(&mut self, thread: u32, path: &str, id: Option<FileId>) {
        self.begin_open_of(thread, &named([path, ""], id));
    }

    fn begin_open_of(&mut self, thread: u32, file: &CalledFile) {
        let arguments = [OWN_FOLDER, 0x100, CREATES];
        self.begin(thread, call_in_folder(FileOperation::Open), &arguments, Some(file));
    }

    fn open(&mut self, path: &str, inode: u64, descriptor: i64) {
        self.begin_open(50, path, file(inode));
        self.end(50, descriptor);
    }

    fn begin_delete(&mut self, thread: u32, path: &str) {
        let delete = call_in_folder(FileOperation::Delete);
        self.begin(thread, delete, &[OWN_FOLDER, 0x100], Some(&named([path, ""], None)));
    }

    fn begin_rename(&mut self, thread: u32, paths: [&str; 2]) {
        let arguments = [OWN_FOLDER, 0x100, OWN_FOLDER, 0x200];
        let rename = call_in_folder(FileOperation::Rename);
        self.begin(thread, rename, &arguments, Some(&named(paths, None)));
    }

    /// The size says which read it is.
    fn read(&mut self, descriptor: u64, size: u64) {
        self.begin(50, operation(FileOperation::Read), &[descriptor, 0x100, size], None);
        self.end(50, size as i64);
    }

    /// The name of each read's file: the last one before it.
    fn names(self) -> Vec<(u32, String)> {
        let (mut known, mut all) = (HashMap::new(), Vec::new());
        for one in &self.machine.end() {
            match one.hook {
                0x0400 => _ = known.insert(one.u64(0), text(one, NAME)),
                0x0443 => all.push((one.u32(36), known[&one.u64(24)].clone())),
                _ => {}
            }
        }
        all
    }
}

fn expected(all: &[(u32, &str)]) -> Vec<(u32, String)> {
    all.iter().map(|(size, name)| (*size, (*name).to_owned())).collect()
}

/// The file system gives the number of a deleted file to a new one before the trace has seen the end of the deletion.
#[test]
fn a_file_with_the_number_of_one_that_is_being_deleted_has_its_own_name() {
    let mut calls = Overlapping::new();
    calls.open("/a", 7, 5);
    calls.begin_delete(50, "/a");
    calls.begin_open(OTHER, "/b", file(7));
    calls.end(OTHER, 6);
    calls.end(50, 0);
    calls.read(6, 1);
    // The call that makes the file has begun before the deletion; until then, the number is that of the other file.
    calls.begin_open(OTHER, "/c", file(7));
    calls.read(6, 2);
    calls.begin_delete(50, "/b");
    calls.end(OTHER, 7);
    calls.end(50, 0);
    calls.read(7, 3);
    // The end of the deletion comes first.
    calls.begin_open(OTHER, "/d", file(7));
    calls.begin_delete(50, "/c");
    calls.end(50, 0);
    calls.end(OTHER, 8);
    calls.read(8, 4);
    assert_eq!(calls.names(), expected(&[(1, "/b"), (2, "/b"), (3, "/c"), (4, "/d")]));
}

/// The kernel says that a call made its file, so the file with that number before is no more, though no call that deleted it was seen.
#[test]
fn a_file_that_was_just_made_has_no_earlier_name() {
    let mut calls = Overlapping::new();
    for (inode, is_made, size) in [(7, true, 1), (8, false, 2)] {
        let before = format!("/before{inode}");
        calls.open(&before, inode, 5);
        let next = CalledFile { is_made, ..named(["/next", ""], file(inode)) };
        calls.begin_open_of(50, &next);
        calls.end(50, 6);
        calls.read(6, size);
    }
    assert_eq!(calls.names(), expected(&[(1, "/next"), (2, "/before8")]));
}

/// Another name leads to a file that is not deleted.
#[test]
fn a_file_that_is_not_deleted_keeps_its_name() {
    let mut calls = Overlapping::new();
    calls.open("/a", 7, 5);
    calls.begin_delete(50, "/a");
    calls.end(50, -13);
    calls.open("/link", 7, 6);
    calls.read(6, 1);
    // Two calls that would delete it.
    calls.begin_delete(50, "/a");
    calls.begin_delete(OTHER, "/a");
    calls.end(50, -2);
    calls.begin_open(50, "/b", file(7));
    calls.end(50, 7);
    calls.end(OTHER, 0);
    calls.read(7, 2);
    // A call that replaces a file deletes it, too.
    calls.open("/new", 8, 8);
    calls.begin_rename(OTHER, ["/new", "/b"]);
    calls.begin_open(50, "/c", file(7));
    calls.end(50, 9);
    calls.end(OTHER, 0);
    calls.read(9, 3);
    calls.read(8, 4);
    assert_eq!(calls.names(), expected(&[(1, "/a"), (2, "/b"), (3, "/c"), (4, "/b")]));
}

/// A log is made anew as soon as it has another name.
#[test]
fn a_renamed_file_is_the_one_that_had_the_name_at_the_beginning() {
    let mut calls = Overlapping::new();
    calls.open("/log", 7, 5);
    calls.begin_rename(OTHER, ["/log", "/log.1"]);
    calls.open("/log", 8, 6);
    calls.end(OTHER, 0);
    calls.read(5, 1);
    calls.read(6, 2);
    // The call that makes it has begun before the rename.
    calls.begin_open(50, "/log", file(9));
    calls.begin_rename(OTHER, ["/log", "/log.2"]);
    calls.end(OTHER, 0);
    calls.end(50, 7);
    calls.read(6, 3);
    calls.read(7, 4);
    calls.begin_open(50, "/log", file(10));
    calls.begin_rename(OTHER, ["/log", "/log.3"]);
    calls.end(50, 8);
    calls.end(OTHER, 0);
    calls.read(7, 5);
    calls.read(8, 6);
    // It was not there; it is made, and has another name before its open has ended.
    calls.begin_delete(50, "/log");
    calls.end(50, 0);
    calls.begin_open(50, "/log", file(11));
    calls.begin_rename(OTHER, ["/log", "/log.4"]);
    calls.end(OTHER, 0);
    calls.end(50, 9);
    calls.read(9, 7);
    let names = [
        (1, "/log.1"),
        (2, "/log"),
        (3, "/log.2"),
        (4, "/log"),
        (5, "/log.3"),
        (6, "/log"),
        (7, "/log.4"),
    ];
    assert_eq!(calls.names(), expected(&names));
}

/// A deletion takes the name from the file that had it when it began.
#[test]
fn a_file_that_is_made_during_a_deletion_stays() {
    let mut calls = Overlapping::new();
    calls.open("/a", 7, 5);
    calls.begin_delete(OTHER, "/a");
    calls.open("/a", 8, 6);
    calls.end(OTHER, 0);
    calls.begin_rename(50, ["/a", "/b"]);
    calls.end(50, 0);
    calls.read(6, 1);
    assert_eq!(calls.names(), expected(&[(1, "/b")]));
}

/// Descriptors of one open file.
const FILE: u64 = 5;
const COPY: u64 = 6;
/// The offset that is not known.
const UNKNOWN: u64 = u64::MAX - 1;

/// The kernel lets one call after the other move a position, in an order that no record has.
#[test]
fn calls_that_move_one_position_together_have_no_offset() {
    let mut calls = Overlapping::new();
    let write = operation(FileOperation::Write);
    let seek = number(|call| call == SystemCall::Seek);
    let at = number(|call| match call {
        SystemCall::File(FileOperation::Write, arguments) => arguments.offset.is_some(),
        _ => false,
    });
    let duplicate = number(|call| call == SystemCall::Duplicate);
    calls.open("/a", 7, FILE as i64);
    calls.begin(50, duplicate, &[FILE], None);
    calls.end(50, COPY as i64);
    let arguments = |descriptor| [descriptor, 0x100, 100];
    // One that begins while another one runs; and those behind them, each alone.
    calls.begin(50, write, &arguments(FILE), None);
    calls.begin(OTHER, write, &arguments(COPY), None);
    calls.end(OTHER, 100);
    calls.begin(OTHER, write, &arguments(COPY), None);
    calls.end(50, 60);
    calls.end(OTHER, -11);
    calls.begin(50, write, &arguments(FILE), None);
    calls.end(50, 100);
    // A call with an offset of its own moves nothing.
    calls.begin(OTHER, at, &[FILE, 0x100, 100, 4096], None);
    calls.begin(50, write, &arguments(FILE), None);
    calls.end(OTHER, 100);
    calls.end(50, 100);
    // A seek that overlaps a write: nobody knows the position, until another seek.
    for (first, second) in [(50, OTHER), (OTHER, 50)] {
        calls.begin(50, write, &arguments(FILE), None);
        calls.begin(OTHER, seek, &[FILE, 5000, 0], None);
        for thread in [first, second] {
            calls.end(thread, if thread == 50 { 100 } else { 5000 });
        }
        calls.begin(50, write, &arguments(FILE), None);
        calls.end(50, 100);
        calls.begin(OTHER, seek, &[COPY, 9000, 0], None);
        calls.end(OTHER, 9000);
    }
    // A call that never ends: its thread does.
    calls.begin(OTHER, write, &arguments(FILE), None);
    calls.machine.of_process(900, (50, OTHER), Detail::Exit { process: 50, thread: OTHER });
    calls.time = 901;
    calls.begin(50, write, &arguments(FILE), None);
    calls.end(50, 100);
    let records = calls.machine.end();
    let offsets: Vec<u64> = of(&records, 0x0444).iter().map(|one| one.u64(0)).collect();
    let expected =
        [0, UNKNOWN, UNKNOWN, 160, 4096, 260, 360, UNKNOWN, 9000, UNKNOWN, 9000, UNKNOWN];
    assert_eq!(offsets, expected);
}
