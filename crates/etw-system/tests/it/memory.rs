//! Memory of programs and files in it: parts that are unmapped, moved and replaced.

use etw_system::neutral::{Detail, FileFacts, FileId};
use etw_system::system_calls::SystemCall;

use crate::invariants::Taken;
use crate::shaper::{Machinery, number, of};

const AT: u64 = 0x7000_0000;
const ANONYMOUS: u64 = 0x22;
const PRIVATE: u64 = 2;
const RELEASE: u32 = 0x8000;

/// Memory calls of process 50, which has a file behind each of the descriptors 3 and 4.
struct Memory {
    machine: Machinery,
    time: u64,
}

impl Memory {
    fn new() -> Memory {
        let mut machine = Machinery::new();
        for descriptor in [3, 4] {
            let id = FileId { device: 1, inode: descriptor as u64, address: 0 };
            let file = FileFacts { id, path: format!("/{descriptor}").into_bytes() };
            let found = Detail::DescriptorFound { process: 50, descriptor, file: Some(&file) };
            machine.at(5, 0, 50, found);
        }
        Memory { machine, time: 10 }
    }

    fn calls(&mut self, call: SystemCall, arguments: &[u64], result: u64) {
        self.machine.call(self.time, number(|one| one == call), arguments, result as i64);
        self.time += 10;
    }

    /// A descriptor's file, or memory of the program's own, is mapped.
    fn maps(&mut self, descriptor: Option<u64>, at: u64, size: u64) {
        let flags = if descriptor.is_some() { PRIVATE } else { ANONYMOUS };
        let arguments = [at, size, 1, flags, descriptor.unwrap_or(u64::MAX), 0];
        self.calls(SystemCall::Map, &arguments, at);
    }

    fn unmaps(&mut self, at: u64, size: u64) {
        self.calls(SystemCall::Unmap, &[at, size], 0);
    }

    fn remaps(&mut self, at: u64, sizes: [u64; 2], to: u64) {
        self.calls(SystemCall::Remap, &[at, sizes[0], sizes[1], 1, 0, 0], to);
    }
}

/// The bases, from [`AT`], and sizes of memory in records, by hook and in their order.
fn places(records: &[Taken], hook: u16) -> Vec<(u64, u64)> {
    let size = if matches!(hook, 0x0262 | 0x0263) { 8 } else { 24 };
    let place = |one: &Taken| (one.u64(0).wrapping_sub(AT), one.u64(size));
    of(records, hook).into_iter().map(place).collect()
}

/// OV-23: a part of a file's view that is unmapped has its own address and size, and the rest stays a view of the file.
#[test]
fn a_part_of_a_view_is_unmapped() {
    let mut memory = Memory::new();
    memory.maps(Some(3), AT, 0x14000);
    memory.unmaps(AT, 0x1000);
    memory.unmaps(AT + 0x4000, 0x2000);
    memory.unmaps(AT + 0x13000, 0x1000);
    memory.unmaps(AT, 0x14000);
    memory.unmaps(AT + 0x1000, 0x1000);
    let records = memory.machine.end();
    let parts =
        [(0, 0x1000), (0x4000, 0x2000), (0x13000, 0x1000), (0x1000, 0x3000), (0x6000, 0xd000)];
    assert_eq!(places(&records, 0x0426), parts);
    let unmapped = of(&records, 0x0426);
    let key = of(&records, 0x0425)[0].u64(8);
    assert!(unmapped.iter().all(|one| one.u64(8) == key && one.u32(32) == 50));
    // Everything else is the program's own memory, as far as anybody knows.
    let own = [(0, 0x1000), (0x4000, 0x2000), (0x13000, 0x1000), (0x1000, 0x1000)];
    assert_eq!(places(&records, 0x0263), own);
}

/// OV-23: files that a process has in memory when the recording begins are known, and a new process has those of its parent.
#[test]
fn files_that_were_in_memory_before_are_unmapped() {
    let mut memory = Memory::new();
    let file = FileFacts { id: FileId { device: 1, inode: 3, address: 0 }, path: b"/3".to_vec() };
    let found = Detail::ViewFound { process: 50, base: AT, size: 0x4000, file: &file };
    memory.machine.at(6, 0, 50, found);
    memory.maps(Some(4), AT + 0x8000, 0x1000);
    memory.machine.at(memory.time, 0, 50, crate::shaper::fork(60, 50));
    memory.machine.at(memory.time + 1, 0, 50, crate::shaper::fork(70, 50));
    memory.time += 10;
    memory.unmaps(AT + 0x1000, 0x1000);
    let unmap = number(|one| one == SystemCall::Unmap);
    for (process, base) in [(60, AT), (70, AT + 0x8000), (60, AT + 0x8000)] {
        let call = (unmap, &[base, 0x2000][..]);
        memory.machine.call_by((process, process), memory.time, call, None, 0);
        memory.time += 10;
    }
    memory.unmaps(AT, 0x10000);
    let records = memory.machine.end();
    let unmapped = of(&records, 0x0426);
    let places: Vec<_> =
        unmapped.iter().map(|one| (one.u32(32), one.u64(0) - AT, one.u64(24))).collect();
    let expected = [
        (50, 0x1000, 0x1000),
        (60, 0, 0x2000),
        (70, 0x8000, 0x1000),
        (60, 0x8000, 0x1000),
        (50, 0, 0x1000),
        (50, 0x2000, 0x2000),
        (50, 0x8000, 0x1000),
    ];
    assert_eq!(places, expected);
    let name = of(&records, 0x0400)[0];
    assert!([0, 1, 4, 5].iter().all(|at| unmapped[*at].u64(8) == name.u64(0)));
}

/// OV-23: one call that unmaps several views and the program's own memory between them frees all of it.
#[test]
fn all_that_a_call_unmaps_is_freed() {
    let mut memory = Memory::new();
    memory.maps(None, AT, 0x10000);
    memory.maps(Some(3), AT + 0x2000, 0x1000);
    memory.maps(Some(4), AT + 0x6000, 0x3000);
    memory.unmaps(AT, 0x10000);
    let records = memory.machine.end();
    assert_eq!(places(&records, 0x0262), [(0, 0x10000)]);
    assert_eq!(places(&records, 0x0426), [(0x2000, 0x1000), (0x6000, 0x3000)]);
    let own = [(0, 0x2000), (0x3000, 0x3000), (0x9000, 0x7000)];
    assert_eq!(places(&records, 0x0263), own);
    assert!(of(&records, 0x0263).iter().all(|one| one.u32(20) == RELEASE));
    let keys = |hook| of(&records, hook).iter().map(|one| one.u64(8)).collect::<Vec<_>>();
    assert_eq!(keys(0x0425), keys(0x0426));
}

/// OV-23: what is mapped in place of a part of a view ends that part, as a program's loader does with the parts of a library.
#[test]
fn what_takes_the_place_of_a_view_ends_it() {
    let mut memory = Memory::new();
    memory.maps(Some(3), AT, 0x8000);
    memory.maps(Some(3), AT + 0x2000, 0x3000);
    memory.maps(None, AT + 0x7000, 0x1000);
    // Half of the second one moves to where the first one is, and grows.
    memory.remaps(AT + 0x2000, [0x1000, 0x1800], AT);
    memory.unmaps(AT, 0x8000);
    let records = memory.machine.end();
    assert_eq!(places(&records, 0x0425), [(0, 0x8000), (0x2000, 0x3000), (0, 0x2000)]);
    let ended = [
        (0x2000, 0x3000),
        (0x7000, 0x1000),
        (0x2000, 0x1000),
        (0, 0x2000),
        (0, 0x2000),
        (0x3000, 0x2000),
        (0x5000, 0x2000),
    ];
    assert_eq!(places(&records, 0x0426), ended);
    assert_eq!(places(&records, 0x0263), [(0x2000, 0x1000), (0x7000, 0x1000)]);
}

/// OV-23: memory consists of whole pages, whatever the calls say.
#[test]
fn sizes_are_those_of_whole_pages() {
    let mut memory = Memory::new();
    memory.maps(None, AT, 0x1801);
    memory.unmaps(AT, 5000);
    memory.maps(Some(3), AT, 10);
    memory.unmaps(AT, 10);
    for end in [AT + 0x10, AT + 0x20, AT + 0x1010, AT + 0x10] {
        memory.calls(SystemCall::Break, &[end], end);
    }
    memory.calls(SystemCall::Advise, &[AT, 10, 4], 0);
    memory.remaps(AT + 0x20000, [10, 5000], AT + 0x30000);
    let records = memory.machine.end();
    assert_eq!(places(&records, 0x0262), [(0, 0x2000), (0x1000, 0x1000), (0x30000, 0x2000)]);
    let freed = [(0, 0x2000), (0x1000, 0x1000), (0, 0x1000), (0x20000, 0x1000)];
    assert_eq!(places(&records, 0x0263), freed);
    assert_eq!(places(&records, 0x0425), [(0, 0x1000)]);
    assert_eq!(places(&records, 0x0425), places(&records, 0x0426));
}
