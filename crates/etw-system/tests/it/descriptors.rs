//! Descriptors that are duplicated, inherited and kept by a program that is executed.

use etw_system::neutral::{CalledFile, Detail, ExecFacts, FileFacts, FileId};
use etw_system::system_calls::{FileOperation, SystemCall, numbers};

use crate::shaper::{Machinery, fork, number, of, operation};

pub const CLOSE_ON_EXEC: u64 = 0o2_000_000;

/// The call that opens a file by a path in the process's folder or another one, and has flags.
fn open() -> u64 {
    number(|call| matches!(call, SystemCall::File(FileOperation::Open, one) if one.flags.is_some()))
}

pub fn file(inode: u64, path: &str) -> CalledFile {
    FileFacts { id: FileId { device: 1, inode, address: 0 }, path: path.into() }.into()
}

/// Calls of processes, a microsecond apart.
pub struct Calls {
    pub machine: Machinery,
    pub time: u64,
}

impl Calls {
    pub fn new() -> Calls {
        Calls { machine: Machinery::new(), time: 10 }
    }

    pub fn by(&mut self, process: u32, number: u64, arguments: &[u64], result: i64) {
        self.with(process, (number, arguments), None, result);
    }

    pub fn with(
        &mut self,
        process: u32,
        call: (u64, &[u64]),
        file: Option<&CalledFile>,
        result: i64,
    ) {
        self.machine.call_by((process, process), self.time, call, file, result);
        self.time += 10;
    }

    pub fn opens(&mut self, process: u32, file: &CalledFile, flags: u64, descriptor: i64) {
        // Where open and openat have them.
        self.with(process, (open(), &[0, flags, flags]), Some(file), descriptor);
    }

    pub fn writes(&mut self, process: u32, descriptor: u64, size: u64) {
        self.by(process, operation(FileOperation::Write), &[descriptor, 0, size], size as i64);
    }

    pub fn duplicates(&mut self, process: u32, from: u64, to: u64) {
        let replace = number(|call| call == SystemCall::Replace);
        self.by(process, replace, &[from, to], to as i64);
    }

    pub fn at(&mut self, process: u32, detail: Detail<'_>) {
        self.machine.of_process(self.time, (process, process), detail);
        self.time += 10;
    }
}

/// OV-23: as a shell writes the output of a command to a file: `echo a > x; /bin/echo b >> x`.
#[test]
fn writes_by_duplicated_and_inherited_descriptors_are_those_of_their_file() {
    let mut calls = Calls::new();
    let x = file(7, "/x");
    calls.opens(50, &x, 0, 3);
    calls.duplicates(50, 3, 1);
    calls.by(50, operation(FileOperation::Close), &[3], 0);
    calls.writes(50, 1, 100);
    calls.at(50, fork(60, 50));
    calls.at(60, Detail::Exec { process: 60, facts: &ExecFacts::default() });
    calls.writes(60, 1, 20);
    // The position is that of both.
    calls.writes(50, 1, 3);
    let control = number(|call| call == SystemCall::ControlDescriptor);
    calls.by(50, control, &[1, 0, 10], 10);
    calls.by(50, number(|call| call == SystemCall::Duplicate), &[10], 4);
    calls.writes(50, 4, 1);
    let records = calls.machine.end();
    let writes = of(&records, 0x0444);
    let offsets: Vec<u64> = writes.iter().map(|one| one.u64(0)).collect();
    assert_eq!(offsets, [0, 100, 120, 123]);
    let names = of(&records, 0x0400);
    assert_eq!(names.len(), 1);
    assert!(writes.iter().all(|one| one.u64(24) == names[0].u64(0)), "{writes:?}");
    assert!(writes.iter().all(|one| one.u64(16) == writes[0].u64(16)), "one open file");
}

/// OV-23: descriptors that are closed when a program is executed are not those of its files.
#[test]
fn an_exec_closes_the_descriptors_that_are_marked() {
    let mut calls = Calls::new();
    calls.opens(50, &file(3, "/closed"), CLOSE_ON_EXEC, 3);
    calls.opens(50, &file(4, "/kept"), 0, 4);
    calls.opens(50, &file(5, "/marked"), 0, 5);
    calls.opens(50, &file(6, "/unmarked"), CLOSE_ON_EXEC, 6);
    calls.opens(50, &file(8, "/marked by a request"), 0, 8);
    calls.opens(50, &file(9, "/unmarked by a request"), CLOSE_ON_EXEC, 9);
    calls.opens(50, &file(10, "/whose mark failed"), 0, 10);
    let request = operation(FileOperation::Control);
    calls.by(50, request, &[8, 0x5451], 0);
    calls.by(50, request, &[9, 0x5450], 0);
    calls.by(50, request, &[10, 0x5451], -25);
    let control = number(|call| call == SystemCall::ControlDescriptor);
    calls.by(50, control, &[5, 2, 1], 0);
    calls.by(50, control, &[6, 2, 0], 0);
    calls.by(50, control, &[4, 1030, 7], 7);
    calls.at(50, Detail::Exec { process: 50, facts: &ExecFacts::default() });
    for descriptor in 3..11 {
        calls.writes(50, descriptor, descriptor);
    }
    let records = calls.machine.end();
    let sizes: Vec<u32> = of(&records, 0x0444).iter().map(|one| one.u32(36)).collect();
    assert_eq!(sizes, [4, 6, 9, 10]);
}

/// OV-23: a range that is closed leaves the descriptors around it.
#[test]
fn a_closed_range_leaves_the_others() {
    let mut calls = Calls::new();
    for descriptor in 3..7 {
        calls.opens(50, &file(descriptor, &format!("/{descriptor}")), 0, descriptor as i64);
    }
    let range = number(|call| call == SystemCall::CloseRange);
    calls.by(50, range, &[4, 5, 0], 0);
    // Only when a program is executed.
    calls.by(50, range, &[6, u64::from(u32::MAX), 4], 0);
    for descriptor in 3..7 {
        calls.writes(50, descriptor, descriptor);
    }
    calls.at(50, Detail::Exec { process: 50, facts: &ExecFacts::default() });
    calls.writes(50, 3, 3);
    calls.writes(50, 6, 6);
    let records = calls.machine.end();
    let sizes: Vec<u32> = of(&records, 0x0444).iter().map(|one| one.u32(36)).collect();
    assert_eq!(sizes, [3, 6, 3]);
}

/// OV-23: a call that copies is a read of one file and a write of the other, where their descriptors are or where the program says.
#[test]
fn a_copy_is_a_read_and_a_write() {
    let mut calls = Calls::new();
    calls.opens(50, &file(3, "/from"), 0, 3);
    calls.opens(50, &file(4, "/to"), 0, 4);
    let copies = numbers(|call| matches!(call, SystemCall::Copy { .. }));
    let [sendfile, copy_file_range, _splice] = copies[..] else { panic!("{copies:?}") };
    calls.by(50, sendfile, &[4, 3, 0, 1000], 100);
    calls.by(50, copy_file_range, &[3, 0, 4, 0, 2000], 200);
    // Offsets in memory: nothing moves.
    calls.by(50, copy_file_range, &[3, 0x7000, 4, 0x7008, 3000], 300);
    calls.by(50, sendfile, &[4, 3, 0, 4000], -5);
    calls.writes(50, 4, 1);
    let records = calls.machine.end();
    let of_both = |hook| {
        let all = of(&records, hook);
        all.iter().map(|one| (one.u64(0), one.u32(36))).collect::<Vec<_>>()
    };
    let unknown = u64::MAX - 1;
    let expected = [(0, 1000), (100, 2000), (unknown, 3000), (300, 4000)];
    assert_eq!(of_both(0x0443), expected);
    assert_eq!(of_both(0x0444), [&expected[..], &[(300, 1)]].concat());
    let ends = of(&records, 0x044c);
    let ends: Vec<(u64, i64)> = ends.iter().map(|one| (one.u64(0), one.u64(8) as i64)).collect();
    for hook in [0x0443, 0x0444] {
        let requests: Vec<u64> = of(&records, hook).iter().map(|one| one.u64(8)).collect();
        let results = requests.iter().map(|one| ends.iter().find(|end| end.0 == *one).unwrap().1);
        assert_eq!(results.take(4).collect::<Vec<_>>(), [100, 200, 300, -5]);
    }
}

/// OV-23: a call that lists its buffers has their size, where it is known.
#[test]
fn a_call_with_several_buffers_has_their_size() {
    let mut calls = Calls::new();
    calls.opens(50, &file(3, "/a"), 0, 3);
    let lists = |wanted, with_offset: bool| {
        number(|call| match call {
            SystemCall::File(one, arguments) => {
                let lists_buffers = arguments.buffers.is_some();
                one == wanted && lists_buffers && arguments.offset.is_some() == with_offset
            }
            _ => false,
        })
    };
    let found = CalledFile { buffer_bytes: Some(70), ..CalledFile::default() };
    let write = lists(FileOperation::Write, false);
    calls.with(50, (write, &[3, 0x100, 2]), Some(&found), 60);
    calls.by(50, write, &[3, 0x100, 2], 5);
    let read = lists(FileOperation::Read, true);
    calls.with(50, (read, &[3, 0x100, 2, 9]), Some(&found), 0);
    let records = calls.machine.end();
    let places = |hook| {
        let all = of(&records, hook);
        all.iter().map(|one| (one.u64(0), one.u32(36))).collect::<Vec<_>>()
    };
    assert_eq!(places(0x0444), [(0, 70), (60, 0)]);
    assert_eq!(places(0x0443), [(9, 70)]);
}

/// OV-23: writes that append have the offset that Windows has for the end of a file, and then nobody knows the position.
#[test]
fn writes_that_append_are_at_the_end() {
    const APPEND: u64 = 0o2000;
    let mut calls = Calls::new();
    calls.opens(50, &file(3, "/log"), APPEND | 1, 3);
    calls.by(50, operation(FileOperation::Read), &[3, 0, 9], 9);
    calls.writes(50, 3, 1);
    calls.by(50, operation(FileOperation::Read), &[3, 0, 9], 0);
    let control = number(|call| call == SystemCall::ControlDescriptor);
    calls.by(50, control, &[3, 4, 0], 0);
    calls.by(50, number(|call| call == SystemCall::Seek), &[3, 7, 0], 7);
    calls.writes(50, 3, 2);
    calls.by(50, control, &[3, 4, APPEND], 0);
    calls.writes(50, 3, 3);
    let records = calls.machine.end();
    let offsets = |hook| of(&records, hook).iter().map(|one| one.u64(0) as i64).collect::<Vec<_>>();
    assert_eq!(offsets(0x0444), [-1, 7, -1]);
    assert_eq!(offsets(0x0443), [0, -2]);
}

/// OV-23: one write can append to a file whose other writes do not, and the reverse.
#[test]
fn a_single_write_that_appends_is_at_the_end() {
    const APPENDS: u64 = 0x10;
    const APPENDS_NOT: u64 = 0x20;
    const POSITION: u64 = u64::MAX;
    let mut calls = Calls::new();
    let write = number(
        |call| matches!(call, SystemCall::File(FileOperation::Write, one) if one.flags.is_some()),
    );
    let writes = |calls: &mut Calls, descriptor: u64, offset: u64, flags: u64| {
        calls.by(50, write, &[descriptor, 0x100, 1, offset, 0, flags], 5);
    };
    calls.opens(50, &file(3, "/log"), 1, 3);
    writes(&mut calls, 3, POSITION, 0);
    // Where the descriptor is stays.
    writes(&mut calls, 3, 70, APPENDS);
    writes(&mut calls, 3, POSITION, 0);
    writes(&mut calls, 3, POSITION, APPENDS);
    writes(&mut calls, 3, POSITION, 0);
    calls.opens(50, &file(4, "/appended"), 0o2001, 4);
    writes(&mut calls, 4, 70, 0);
    writes(&mut calls, 4, 70, APPENDS_NOT);
    let records = calls.machine.end();
    let offsets: Vec<i64> = of(&records, 0x0444).iter().map(|one| one.u64(0) as i64).collect();
    assert_eq!(offsets, [0, -1, 5, -1, -2, -1, 70]);
}

/// OV-23: `fstat` of the C library is `newfstatat` with the descriptor and an empty path: it is about the open file.
#[test]
fn a_query_with_an_empty_path_is_about_the_descriptor() {
    let query = number(|call| {
        matches!(call, SystemCall::File(FileOperation::Query, one)
            if one.paths[0].is_some_and(|path| path.folder.is_some()))
    });
    let mut calls = Calls::new();
    calls.opens(50, &file(3, "/log"), 1, 3);
    calls.with(50, (query, &[3, 0x100]), Some(&CalledFile::default()), 0);
    // A path below a folder is another file's.
    let below = CalledFile { paths: [b"x".to_vec(), Vec::new()], ..CalledFile::default() };
    calls.with(50, (query, &[3, 0x100]), Some(&below), 0);
    let records = calls.machine.end();
    let objects: Vec<u64> = of(&records, 0x044a).iter().map(|one| one.u64(8)).collect();
    let opened = of(&records, 0x0440)[0].u64(8);
    assert_eq!(objects, [opened, 0]);
}

/// OV-23: files that change their names with each other, one without a name, and a call that implies its flags.
#[test]
fn unusual_names_and_flags_are_those_of_the_files() {
    let mut calls = Calls::new();
    calls.opens(50, &file(3, "/a"), 0, 3);
    calls.opens(50, &file(4, "/b"), 0, 4);
    let with_flags = numbers(
        |call| matches!(call, SystemCall::File(FileOperation::Rename, one) if one.flags.is_some()),
    )[0];
    let paths = [b"/a".to_vec(), b"/b".to_vec()];
    let both = CalledFile { paths, ..CalledFile::default() };
    calls.with(50, (with_flags, &[u64::MAX, 0, u64::MAX, 0, 2]), Some(&both), 0);
    calls.opens(50, &file(5, "/folder"), 0o20_200_002, 5);
    let creat = numbers(
        |call| matches!(call, SystemCall::File(FileOperation::Open, one) if one.implied_flags != 0),
    );
    if let Some(creat) = creat.first() {
        calls.with(50, (*creat, &[0]), Some(&file(6, "/made")), 6);
    }
    let records = calls.machine.end();
    let text = |bytes: &[u8]| {
        let units = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
        String::from_utf16(&units).unwrap()
    };
    let names: Vec<String> =
        of(&records, 0x0424).iter().map(|one| text(&one.payload[8..])).collect();
    let key_of = |name: &str| {
        let last = of(&records, 0x0424).into_iter().find(|one| text(&one.payload[8..]) == name);
        last.map(|one| one.u64(0))
    };
    let first = |name: &str| {
        let all = of(&records, 0x0400).into_iter();
        all.map(|one| (one.u64(0), text(&one.payload[8..]))).find(|one| one.1 == name).unwrap().0
    };
    assert_eq!((key_of("/a"), key_of("/b")), (Some(first("/b")), Some(first("/a"))));
    assert!(names.contains(&"/folder/#5".to_owned()), "{names:?}");
    if !creat.is_empty() {
        let last = of(&records, 0x0440).pop().unwrap();
        assert_eq!(last.u32(20) >> 24, 5, "OVERWRITE_IF");
    }
}

/// OV-23: `openat2` has its flags in memory: an operation does what they say, and nothing is assumed where they are not known.
#[test]
fn flags_in_memory_are_those_of_the_call() {
    const APPEND: u64 = 0o2000;
    let listed = number(
        |call| matches!(call, SystemCall::File(FileOperation::Open, one) if one.flags_address.is_some()),
    );
    let seek = number(|call| call == SystemCall::Seek);
    let all = [(3, Some(APPEND)), (4, Some(0o300)), (5, Some(CLOSE_ON_EXEC | 0o1000)), (6, None)];
    let mut calls = Calls::new();
    for (descriptor, flags) in all {
        let known = CalledFile { flags, ..file(descriptor, &format!("/{descriptor}")) };
        calls.with(50, (listed, &[u64::MAX, 0x10, 0x20, 24]), Some(&known), descriptor as i64);
        calls.by(50, seek, &[descriptor, 70, 0], 70);
        calls.writes(50, descriptor, 7);
        calls.writes(50, descriptor, 8);
    }
    calls.at(50, Detail::Exec { process: 50, facts: &ExecFacts::default() });
    for (descriptor, _) in all {
        calls.writes(50, descriptor, descriptor);
    }
    let records = calls.machine.end();
    let creates = of(&records, 0x0440);
    let dispositions: Vec<u32> = creates.iter().map(|one| one.u32(20) >> 24).collect();
    assert_eq!(dispositions, [1, 2, 4, 1]);
    let writes = of(&records, 0x0444);
    let found: Vec<(u32, i64)> =
        writes.iter().map(|one| (one.u32(36), one.u64(0) as i64)).collect();
    let before = [(7, -1), (8, -1), (7, 70), (8, 77), (7, 70), (8, 77), (7, -2), (8, -2)];
    // It is not known whether the last one is closed.
    let behind = [(3, -1), (4, 85)];
    assert_eq!(found, [&before[..], &behind].concat());
}

/// OV-23: operations that a program hands to the kernel in its memory are counted, as many as the kernel took.
#[test]
fn operations_in_memory_are_counted() {
    let mut calls = Calls::new();
    for submit in numbers(|call| call == SystemCall::Submit) {
        calls.by(50, submit, &[0x1000, 3, 0x2000], 2);
        calls.by(50, submit, &[0x1000, 3, 0x2000], -11);
    }
    assert_eq!(calls.machine.shaper.submitted_operations(), 4);
}
