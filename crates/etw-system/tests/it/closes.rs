//! Ends of open files: one for each, when its last descriptor is closed in whatever way.

use etw_system::flags::{Flag, Masks};
use etw_system::neutral::{Detail, ExecFacts, FileFacts, FileId};
use etw_system::record::Records;
use etw_system::system_calls::{FileOperation, SystemCall};
use etw_system::{Machine, Options, Shaper, Turn};

use crate::descriptors::{CLOSE_ON_EXEC, Calls, file};
use crate::invariants::{Taken, take_all};
use crate::shaper::{SECOND, all_flags, fork, number, of, operation, thread_of};

const CLEANUP: u16 = 0x0441;
const CLOSE: u16 = 0x0442;

impl Calls {
    fn closes(&mut self, process: u32, descriptor: u64) {
        self.by(process, operation(FileOperation::Close), &[descriptor], 0);
    }

    fn reads(&mut self, process: u32, descriptor: u64) {
        self.by(process, operation(FileOperation::Read), &[descriptor, 0, 9], 9);
    }

    fn finds(&mut self, process: u32, descriptor: i32, inode: u64) {
        let id = FileId { device: 1, inode, address: 0 };
        let facts = FileFacts { id, path: format!("/{inode}").into_bytes() };
        self.at(process, Detail::DescriptorFound { process, descriptor, file: Some(&facts) });
    }

    fn executes(&mut self, process: u32) {
        self.at(process, Detail::Exec { process, facts: &ExecFacts::default() });
    }

    fn exits(&mut self, process: u32) {
        self.at(process, Detail::Exit { process, thread: process });
    }
}

/// The objects of closed files with the processes that closed them, and whether the call that did it has an end. Checks that each
/// record has a Cleanup of the same request before it.
fn closes(records: &[Taken]) -> Vec<(u64, u32, bool)> {
    let all = |hook| of(records, hook);
    let (cleanups, closes) = (all(CLEANUP), all(CLOSE));
    assert!(cleanups.iter().map(|one| &one.payload).eq(closes.iter().map(|one| &one.payload)));
    let ends: Vec<u64> = all(0x044c).iter().map(|one| one.u64(0)).collect();
    let fact = |one: &&Taken| (one.u64(8), one.process, ends.contains(&one.u64(0)));
    closes.iter().map(fact).collect()
}

/// The objects of files in the order in which calls opened them.
fn opened(records: &[Taken]) -> Vec<u64> {
    of(records, 0x0440).iter().map(|one| one.u64(8)).collect()
}

/// OV-23: a file is closed when the last of its descriptors is, and not before.
#[test]
fn a_file_is_closed_with_its_last_descriptor() {
    let mut calls = Calls::new();
    calls.opens(50, &file(7, "/x"), 0, 3);
    calls.duplicates(50, 3, 4);
    let control = number(|call| call == SystemCall::ControlDescriptor);
    calls.by(50, control, &[3, 0, 10], 10);
    calls.closes(50, 3);
    calls.reads(50, 4);
    calls.closes(50, 10);
    calls.reads(50, 4);
    calls.closes(50, 4);
    calls.closes(50, 4);
    let records = calls.machine.end();
    assert_eq!(closes(&records), [(opened(&records)[0], 50, true)]);
    let [close] = of(&records, CLOSE)[..] else { panic!() };
    let reads = of(&records, 0x0443);
    assert!(reads.len() == 2 && reads.iter().all(|one| one.time < close.time));
    // They are those of the open, the reads and the last close.
    assert_eq!(of(&records, 0x044c).len(), 4);
}

/// OV-23: a process and the one that inherited its descriptors close a file when both have closed it.
#[test]
fn a_file_is_closed_when_all_its_processes_have_closed_it() {
    let mut calls = Calls::new();
    calls.opens(50, &file(7, "/x"), 0, 3);
    calls.opens(50, &file(8, "/y"), 0, 4);
    calls.at(50, fork(60, 50));
    calls.closes(50, 3);
    calls.closes(60, 4);
    calls.reads(60, 3);
    calls.reads(50, 4);
    calls.closes(60, 3);
    calls.closes(50, 4);
    let records = calls.machine.end();
    let [x, y] = opened(&records)[..] else { panic!() };
    assert_eq!(closes(&records), [(x, 60, true), (y, 50, true)]);
}

/// OV-23: files that are replaced, closed in a range, or closed by the execution of a program end without an end of a call.
#[test]
fn files_that_no_call_to_close_closes_are_closed() {
    let mut calls = Calls::new();
    for inode in 3..10 {
        let flags = if inode >= 8 { CLOSE_ON_EXEC } else { 0 };
        calls.opens(50, &file(inode, &format!("/{inode}")), flags, inode as i64);
    }
    calls.duplicates(50, 3, 4);
    let range = number(|call| call == SystemCall::CloseRange);
    calls.by(50, range, &[5, 6, 0], 0);
    calls.by(50, range, &[6, 5, 0], -22);
    // Damage: such a call fails.
    calls.by(50, range, &[6, 5, 0], 0);
    calls.by(50, range, &[7, 7, 4], 0);
    // The same file again is no end of it.
    calls.duplicates(50, 3, 4);
    calls.executes(50);
    calls.reads(50, 3);
    let records = calls.machine.end();
    let objects = opened(&records);
    // By number, that of 3 being open still.
    let expected = [4, 5, 6, 7, 8, 9].map(|inode| (objects[inode - 3], 50, false));
    assert_eq!(closes(&records), expected);
    let requests = of(&records, CLOSE).into_iter().map(|one| one.u64(0));
    let all: std::collections::HashSet<u64> = requests.collect();
    assert_eq!(all.len(), 6, "each has a request of its own");
}

/// OV-23: the files of a process that ends are closed when its last thread ends, before its end, by the number of their descriptors.
#[test]
fn the_end_of_a_process_closes_its_files() {
    let mut calls = Calls::new();
    calls.at(50, fork(60, 50));
    for (inode, descriptor) in [(3, 9), (4, 7), (5, 8)] {
        calls.opens(60, &file(inode, &format!("/{inode}")), 0, descriptor);
    }
    calls.finds(60, 11, 77);
    calls.reads(60, 11);
    calls.at(60, Detail::DescriptorFound { process: 60, descriptor: 12, file: None });
    calls.at(60, thread_of(60, 61));
    calls.exits(60);
    calls.machine.of_process(
        calls.time,
        (60, 61),
        Detail::SyscallEnter {
            number: operation(FileOperation::Read),
            arguments: [9, 0, 1, 0, 0, 0],
            file: None,
        },
    );
    let end = calls.time + 20;
    calls.machine.of_process(end, (60, 61), Detail::Exit { process: 60, thread: 61 });
    // Long after the last word of its threads.
    calls.time += 2_000_000;
    calls.reads(50, 3);
    let records = calls.machine.end();
    let [first, second, third] = opened(&records)[..] else { panic!() };
    let found = of(&records, 0x0443)[0].u64(16);
    let expected = [second, third, first, found].map(|object| (object, 60, false));
    assert_eq!(closes(&records), expected);
    let closed = of(&records, CLOSE);
    let ticks = ((SECOND + end * 1000) / 100) as i64;
    assert!(closed.iter().all(|one| one.time == ticks && one.thread == 61), "{closed:?}");
    let gone = of(&records, 0x0302).into_iter().find(|one| one.u32(8) == 60);
    assert!(gone.is_some_and(|gone| gone.time > ticks));
}

/// OV-23: a descriptor that was open before may be closed when a program is executed: its file is known again by its number, and is not closed
/// before the process ends.
#[test]
fn a_file_that_may_be_open_still_is_not_closed() {
    let mut calls = Calls::new();
    for descriptor in 1..=3 {
        calls.finds(50, descriptor, descriptor as u64);
        calls.reads(50, descriptor as u64);
    }
    calls.at(50, fork(60, 50));
    calls.executes(60);
    calls.closes(50, 1);
    calls.closes(50, 2);
    calls.closes(50, 3);
    calls.finds(60, 1, 1);
    calls.reads(60, 1);
    // Another file has the number of one that was closed, and so has a socket.
    calls.finds(60, 2, 22);
    calls.reads(60, 2);
    calls.closes(60, 1);
    calls.exits(60);
    let records = calls.machine.end();
    let read: Vec<u64> = of(&records, 0x0443).iter().map(|one| one.u64(16)).collect();
    let [one, two, three, again, new] = read[..] else { panic!("{read:?}") };
    assert_eq!(again, one);
    let expected = [(two, 60, false), (one, 60, true), (new, 60, false), (three, 60, false)];
    assert_eq!(closes(&records), expected);
}

/// OV-23: a file whose close was lost is closed when its number is that of another file; threads that end close nothing.
#[test]
fn a_file_whose_close_was_lost_is_closed_with_the_next_one() {
    let mut calls = Calls::new();
    calls.opens(50, &file(7, "/x"), 0, 3);
    calls.at(50, thread_of(50, 51));
    calls.machine.of_process(calls.time, (50, 51), Detail::Exit { process: 50, thread: 51 });
    calls.reads(50, 3);
    calls.opens(50, &file(8, "/y"), 0, 3);
    calls.reads(50, 3);
    let records = calls.machine.end();
    assert_eq!(closes(&records), [(opened(&records)[0], 50, false)]);
    let [first, second] = of(&records, 0x0443)[..] else { panic!() };
    let close = of(&records, CLOSE)[0];
    assert!((first.time..second.time).contains(&close.time));
}

/// OV-23: sessions without the beginnings of operations have no ends of files.
#[test]
fn sessions_without_operations_have_no_closes() {
    let without = |flag: Flag| {
        let mut masks = Masks::default();
        let all = Flag::ALL.iter().filter(|one| one.is_recorded && one.name() != flag.name());
        all.for_each(|one| masks.set(*one));
        masks
    };
    for (masks, expected) in [(without(Flag::FILE_IO_INIT), 0), (all_flags(), 1)] {
        let options = Options { masks, ..Options::default() };
        let machine = Machine { cpus: 2, ..Machine::default() };
        let (mut shaper, mut out) = (Shaper::new(options, machine), Records::default());
        let turn = Turn { time: SECOND, cpu: 0, process: 50, thread: 50 };
        shaper.begin(turn, &mut out);
        let facts =
            FileFacts { id: FileId { device: 1, inode: 3, address: 0 }, path: b"/x".to_vec() };
        let mut at = |time: u64, detail| {
            let (time, stack) = (SECOND + time, Default::default());
            let event = etw_system::neutral::NeutralEvent {
                time,
                cpu: 0,
                process: 50,
                thread: 50,
                stack,
                detail,
            };
            shaper.take(&event, &mut out);
        };
        at(1000, Detail::DescriptorFound { process: 50, descriptor: 3, file: Some(&facts) });
        at(2000, Detail::Exit { process: 50, thread: 50 });
        shaper.finish(Turn { time: 2 * SECOND, ..turn }, &mut out);
        assert_eq!(of(&take_all(&mut out), CLOSE).len(), expected);
    }
}

/// OV-23: processes that have their descriptors together see what the other one opens and closes, until one of them executes a program.
#[test]
fn processes_have_their_descriptors_together() {
    const CLONE_FILES: u64 = 0x400;
    let clone = number(|call| call == SystemCall::Clone);
    let arguments = [CLONE_FILES | 17, 0, 0, 0, 0, 0];
    let mut by_clone = Calls::new();
    by_clone.opens(50, &file(3, "/3"), 0, 3);
    by_clone.at(50, Detail::SyscallEnter { number: clone, arguments, file: None });
    by_clone.at(50, fork(60, 50));
    by_clone.at(50, Detail::SyscallExit { number: clone, result: 60 });
    has_descriptors_together(by_clone);
    let mut by_another_call = Calls::new();
    by_another_call.opens(50, &file(3, "/3"), 0, 3);
    by_another_call.at(50, fork(60, 50));
    by_another_call.at(50, Detail::Cloned { flags: CLONE_FILES });
    has_descriptors_together(by_another_call);
}

/// Process 60 has its descriptors together with process 50, which has 3 open.
fn has_descriptors_together(mut calls: Calls) {
    // Another process has a copy.
    calls.at(50, fork(70, 50));
    calls.opens(60, &file(4, "/4"), 0, 4);
    calls.opens(60, &file(5, "/5"), CLOSE_ON_EXEC, 5);
    calls.reads(50, 4);
    calls.closes(50, 4);
    calls.closes(60, 3);
    calls.reads(50, 3);
    calls.executes(60);
    calls.opens(60, &file(6, "/6"), 0, 3);
    calls.reads(50, 3);
    calls.reads(50, 5);
    calls.exits(50);
    calls.exits(60);
    calls.reads(70, 3);
    let records = calls.machine.end();
    let [_, four, five, six] = opened(&records)[..] else { panic!() };
    assert_eq!(closes(&records), [(four, 50, true), (five, 50, false), (six, 60, false)]);
    let read: Vec<u64> = of(&records, 0x0443).iter().map(|one| one.u64(16)).collect();
    assert_eq!(read, [four, five, opened(&records)[0]]);
}

/// OV-23: a thread that has its descriptors alone opens and closes its own ones, and ends with them; the threads that it makes have them, too.
#[test]
fn a_thread_can_have_its_descriptors_alone() {
    const CLONE_FILES: u64 = 0x400;
    let unshare = number(|call| call == SystemCall::Unshare);
    let range = number(|call| call == SystemCall::CloseRange);
    let read = operation(FileOperation::Read);
    for (call, arguments) in [(unshare, [CLONE_FILES, 0, 0]), (range, [90, 91, 2])] {
        let mut calls = Calls::new();
        calls.opens(50, &file(3, "/3"), 0, 3);
        calls.at(50, thread_of(50, 51));
        let by = |calls: &mut Calls, thread, call: u64, arguments: &[u64], result| {
            calls.machine.call_by((50, thread), calls.time, (call, arguments), None, result);
            calls.time += 10;
        };
        by(&mut calls, 51, unshare, &[0x200], 0);
        by(&mut calls, 51, unshare, &[CLONE_FILES], -22);
        by(&mut calls, 51, read, &[3, 0, 1], 1);
        by(&mut calls, 51, call, &arguments, 0);
        by(&mut calls, 51, operation(FileOperation::Close), &[3], 0);
        calls.reads(50, 3);
        calls.opens(50, &file(4, "/4"), 0, 4);
        by(&mut calls, 51, read, &[4, 0, 4], 4);
        by(&mut calls, 51, number(|call| call == SystemCall::Duplicate), &[4], 7);
        let facts =
            FileFacts { id: FileId { device: 1, inode: 5, address: 0 }, path: b"/5".to_vec() };
        let found = Detail::DescriptorFound { process: 50, descriptor: 5, file: Some(&facts) };
        calls.machine.of_process(calls.time, (50, 51), found);
        let thread = Detail::Fork {
            process: 50,
            parent_process: 50,
            thread: 52,
            parent_thread: 51,
            soon: None,
        };
        calls.machine.of_process(calls.time + 2, (50, 51), thread);
        calls.time += 10;
        calls.reads(50, 5);
        by(&mut calls, 52, read, &[5, 0, 6], 6);
        for thread in [51, 52] {
            let exit = Detail::Exit { process: 50, thread };
            calls.machine.of_process(calls.time, (50, thread), exit);
            calls.time += 10;
        }
        calls.closes(50, 3);
        let records = calls.machine.end();
        let [three, _] = opened(&records)[..] else { panic!() };
        let all = of(&records, 0x0443);
        let reads: Vec<(u32, u64)> = all.iter().map(|one| (one.u32(36), one.u64(16))).collect();
        let five = reads[2].1;
        assert_eq!(reads, [(1, three), (9, three), (6, five)]);
        let closed = closes(&records);
        assert_eq!(closed[..2], [(five, 50, false), (three, 50, true)], "{closed:?}");
        assert_eq!(of(&records, CLOSE)[0].thread, 52, "the last one that had it");
    }
}

/// OV-23: each file that a shell and its programs open is closed once, whether they close it, end, are killed, or execute another program.
#[cfg(target_os = "linux")]
#[test]
fn each_file_of_a_shell_is_closed_once() {
    const SCRIPT: &str = "exec 3>a; echo x >&3; exec 4>&3 3>&-; (echo y >&4; exec 5>b; : ); cat < a > c; \
        exec 6>d; sleep 0.1 & exec sh -c 'exec 7<a; wait; kill -9 $$'";
    let folder = std::env::temp_dir().join(format!("etw-closes-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let mut has_paths = false;
    let run = |live: &mut crate::live::Live| {
        has_paths = live.has_call_paths();
        let mut command = std::process::Command::new("bash");
        let status = command.args(["-c", SCRIPT]).current_dir(&folder).status().unwrap();
        assert!(!status.success(), "it is killed");
        // The last one of its programs has the files, too.
        std::thread::sleep(std::time::Duration::from_millis(300));
    };
    let flags = "process,thread,file,fileio,fileiocompletion";
    let recording = crate::live::record_and_count(flags, None, run);
    std::fs::remove_dir_all(&folder).unwrap();
    let Some(recording) = recording else { return };
    if !has_paths || recording.losses.total() > 0 {
        return eprintln!("left out: paths need programs in the kernel, which were not lost");
    }
    let records = recording.records;
    let path = |one: &Taken| crate::file_names::text(one, crate::file_names::OPEN_PATH);
    let creates = of(&records, 0x0440).into_iter();
    let own: Vec<&Taken> = creates.filter(|one| path(one).contains("/etw-closes-")).collect();
    assert!(own.len() >= 6, "{own:?}");
    let all = closes(&records);
    for create in own {
        let count = all.iter().filter(|one| one.0 == create.u64(8)).count();
        assert_eq!(count, 1, "{}", path(create));
    }
}
