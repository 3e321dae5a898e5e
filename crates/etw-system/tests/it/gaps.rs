//! Gaps: records of calls may be missing between two times, so that descriptors may be those of other files.

use etw_system::neutral::{Detail, FileFacts, FileId};
use etw_system::system_calls::{FileOperation, SystemCall};

use crate::descriptors::{Calls, file};
use crate::invariants::Taken;
use crate::shaper::{fork, number, of, operation};

/// The offset where a position is not known.
const UNKNOWN: u64 = u64::MAX - 1;

impl Calls {
    fn finds_file(&mut self, process: u32, descriptor: i32, inode: u64) {
        let path = format!("/{inode}").into_bytes();
        let facts = FileFacts { id: FileId { device: 1, inode, address: 0 }, path };
        self.at(process, Detail::DescriptorFound { process, descriptor, file: Some(&facts) });
    }
}

/// Size, offset and object of each write.
fn writes(records: &[Taken]) -> Vec<(u32, u64, u64)> {
    let all = of(records, 0x0444).into_iter();
    all.map(|one| (one.u32(36), one.u64(0), one.u64(16))).collect()
}

/// OV-23: behind a gap, a descriptor is that of the file that is found then, at a position that is not known.
#[test]
fn a_descriptor_is_not_believed_behind_a_gap() {
    let mut calls = Calls::new();
    calls.at(50, fork(60, 50));
    for process in [50, 60] {
        calls.opens(process, &file(3, "/3"), 0, 3);
        calls.opens(process, &file(4, "/4"), 0, 4);
    }
    calls.writes(50, 3, 1);
    calls.at(0, Detail::GapBegin);
    calls.writes(50, 3, 2);
    // Its number may be that of another call before its return was lost.
    calls.opens(50, &file(5, "/5"), 0, 5);
    calls.at(0, Detail::GapBegin);
    calls.at(0, Detail::GapEnd);
    calls.writes(50, 3, 3);
    calls.at(0, Detail::GapEnd);
    for descriptor in 3..=5 {
        calls.writes(50, descriptor, 4);
    }
    calls.writes(60, 3, 5);
    calls.finds_file(50, 3, 3);
    calls.writes(50, 3, 6);
    calls.finds_file(50, 4, 44);
    calls.writes(50, 4, 7);
    calls.by(50, number(|call| call == SystemCall::Seek), &[4, 70, 0], 70);
    calls.opens(50, &file(6, "/6"), 0, 6);
    calls.writes(50, 6, 8);
    let records = calls.machine.end();
    let opened: Vec<u64> = of(&records, 0x0440).iter().map(|one| one.u64(8)).collect();
    let [three, four, .., six] = opened[..] else { panic!() };
    let found = writes(&records);
    let other = found[2].2;
    let expected = [(1, 0, three), (6, UNKNOWN, three), (7, UNKNOWN, other), (8, 0, six)];
    assert_eq!(found, expected);
    assert!(!opened.contains(&other));
    // Its number is another file's now.
    let closed = of(&records, 0x0442)[0];
    let seventh = of(&records, 0x0444)[2].time;
    assert!(closed.u64(8) == four && closed.time < seventh);
}

/// OV-23: the return of a call behind a gap may be that of a later call.
#[test]
fn a_return_behind_a_gap_ends_no_earlier_call() {
    let mut calls = Calls::new();
    calls.opens(50, &file(3, "/3"), 0, 3);
    let write = operation(FileOperation::Write);
    let (arguments, file) = ([3, 0, 9, 0, 0, 0], None);
    for detail in [
        Detail::SyscallEnter { number: write, arguments, file },
        Detail::GapBegin,
        Detail::SyscallExit { number: write, result: 7 },
        Detail::SyscallEnter { number: write, arguments, file },
        Detail::GapEnd,
        Detail::SyscallExit { number: write, result: 8 },
    ] {
        calls.at(50, detail);
    }
    let records = calls.machine.end();
    assert_eq!(writes(&records).len(), 1);
    let ends: Vec<u64> = of(&records, 0x044c).iter().map(|one| one.u64(8)).collect();
    assert_eq!(ends, [3], "that of the open");
    assert_eq!(of(&records, 0x0f34).len(), 3, "they are returns of calls");
}
