//! Tests that count memory: programs that have ended leave none behind.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use crate::flags::Masks;
use crate::neutral::{
    Addresses, CalledFile, Detail, ExecFacts, FileId, Image, NeutralEvent, Stack, SwitchedIn,
    SwitchedOut, ThreadState,
};
use crate::perf::{UNWOUND_REGISTERS, UserState};
use crate::record::Records;
use crate::shaper::{Machine, Options, Shaper};
use crate::unwind::{End, FileIdentity, MappedFiles, Unwinder};

/// Counts the bytes that each thread has allocated and not freed.
struct Counting;

thread_local! {
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that ends has no count any more.
    let _ = BYTES.try_with(|all| all.set(all.get() + bytes));
}

// SAFETY: the system's allocator, beside which numbers are added.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: memory of `alloc` with this layout.
        unsafe { System.dealloc(memory, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes that this thread has allocated and not freed.
pub(crate) fn own_bytes() -> isize {
    BYTES.with(Cell::get)
}

/// Offsets in the made-up file, which are its addresses.
const TABLE: u32 = 0xb0;
const COMMON: u32 = 0x400;
const CODE: u32 = 0x1000;
const FUNCTION: u32 = 0x1000;
const FUNCTIONS: u32 = 8;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn entry(mut body: Vec<u8>) -> Vec<u8> {
    body.resize(body.len().next_multiple_of(4), 0);
    [words(&[body.len() as u32]), body].concat()
}

/// A file with some functions, whose frames have 16 bytes.
fn file() -> Vec<u8> {
    let program_header = |kind: u32, offset: u64, size: u64| {
        let numbers = [offset, offset, offset, size, size, 4096];
        [words(&[kind, 5]), numbers.iter().flat_map(|n| n.to_le_bytes()).collect()].concat()
    };
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(64, 0);
    (file[0x20], file[0x36], file[0x38]) = (64, 56, 2);
    file.extend(program_header(1, 0, 0x10_0000));
    file.extend(program_header(0x6474_e550, TABLE.into(), u64::from(12 + 8 * FUNCTIONS)));
    let common = [&words(&[0])[..], b"\x01zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01"].concat();
    let mut entries = entry(common);
    let mut table = [&[1, 0x1b, 3, 0x3b][..], &words(&[COMMON.wrapping_sub(TABLE + 4)])].concat();
    table.extend(words(&[FUNCTIONS]));
    for number in 0..FUNCTIONS {
        let (code, at) = (CODE + number * FUNCTION, COMMON + entries.len() as u32);
        let head = words(&[at + 4 - COMMON, code.wrapping_sub(at + 8), FUNCTION]);
        entries.extend(entry([&head, &[0][..], &[0x0e, 16]].concat()));
        table.extend(words(&[code - TABLE, at - TABLE]));
    }
    file.extend(table);
    file.resize(COMMON as usize, 0);
    file.extend(entries);
    file.extend([0; 4]);
    file
}

/// Files of these bytes at every path.
struct MadeUp(Vec<u8>);

impl MappedFiles for MadeUp {
    fn identity(&self, image: &Image) -> Option<FileIdentity> {
        let path = image.path.iter();
        let inode = path.fold(7, |sum: u64, byte| sum.wrapping_mul(31) ^ u64::from(*byte));
        Some(FileIdentity { inode, ..FileIdentity::default() })
    }

    fn read(&self, _: &Image, _: Option<FileIdentity>, at: u64, size: usize) -> Option<Vec<u8>> {
        let rest = self.0.get(usize::try_from(at).ok()?..).unwrap_or_default();
        Some(rest[..size.min(rest.len())].to_vec())
    }
}

/// A machine on which one program after the other runs.
struct Programs {
    shaper: Shaper,
    unwinder: Unwinder,
    out: Records,
    files: MadeUp,
    time: u64,
}

/// Bytes of rules, twice: of some thousand functions.
const RULES: usize = 256 << 10;
/// Programs have the ids from this one on, and use them again after so many.
const FIRST_ID: u32 = 100;
const IDS: u32 = 30_000;
const SHELL: u32 = 2;
/// `read` and `openat` of x86-64, and of arm64.
#[cfg(not(target_arch = "aarch64"))]
const CALLS: [u64; 2] = [0, 257];
#[cfg(target_arch = "aarch64")]
const CALLS: [u64; 2] = [63, 56];

impl Programs {
    fn new() -> Programs {
        let words = "process,thread,img,cswitch,profile,file,fileio,fileiocompletion,net,pf,hf,vamap,virtalloc";
        let masks = Masks::parse(words).unwrap().masks;
        let stacks = vec![0x0524, 0x0f2e, 0x0501, 0x030a];
        let options = Options { masks, stacks, sample_interval: 10_000, ..Options::default() };
        let shaper = Shaper::new(options, Machine { cpus: 1, ..Machine::default() });
        let files = MadeUp(file());
        let (unwinder, out) = (Unwinder::with_room(RULES), Records::default());
        let mut all = Programs { shaper, unwinder, out, files, time: 1_000_000 };
        all.event([SHELL, SHELL], Detail::AllFound);
        all
    }

    fn event(&mut self, [process, thread]: [u32; 2], detail: Detail<'_>) {
        self.time += 1000;
        let stack = Stack { kernel: &[u64::MAX << 32; 10], user: &[0x1000; 20] };
        let event = NeutralEvent { time: self.time, cpu: 0, process, thread, stack, detail };
        self.shaper.take(&event, &mut self.out);
        while self.out.len() > 1 {
            self.out.pop();
        }
    }

    /// A program runs, with a library of all and a file of its own, is sampled, and is killed in a system call.
    fn run(&mut self, number: u32) {
        let id = FIRST_ID + number % IDS;
        let ids = [id, id];
        let fork = |thread| Detail::Fork {
            process: id,
            parent_process: if thread == id { SHELL } else { id },
            thread,
            parent_thread: if thread == id { SHELL } else { id },
            soon: None,
        };
        self.event([SHELL, SHELL], fork(id));
        // Long names make caches full soon.
        let path = format!("/build/{:900}/program", number).into_bytes();
        let exec = ExecFacts { path: path.clone(), ..ExecFacts::default() };
        self.event(ids, Detail::Exec { process: id, facts: &exec });
        // Every process has them at other addresses.
        let own = 0x5500_0000_0000 + u64::from(number) * 0x100_0000;
        for (base, path) in [(own, path.clone()), (own + 0x80_0000, b"/lib/libc.so".to_vec())] {
            let image = Image { base, size: 0x10_0000, path, ..Image::default() };
            self.event(ids, Detail::Map { process: id, image: &Arc::new(image) });
        }
        self.sample(id, own);
        let other = id + IDS;
        self.event(ids, fork(other));
        let out = |thread| SwitchedOut { thread, priority: 120, state: ThreadState::Sleeping };
        let into = |thread| SwitchedIn { thread, priority: 120 };
        self.event(ids, Detail::Switch { old: out(id), new: into(other) });
        let opened = Some(FileId { device: 1, inode: number.into(), address: 0 });
        let file = CalledFile { paths: [path, Vec::new()], id: opened, ..CalledFile::default() };
        let (number, arguments) = (CALLS[1], [0; 6]);
        self.event([id, other], Detail::SyscallEnter { number, arguments, file: Some(&file) });
        self.event([id, other], Detail::SyscallExit { number, result: 3 });
        self.event([id, other], Detail::FaultBegin { is_protection: false });
        let socket = 0xffff_0000_0000 + self.time;
        for [old, new] in [[7, 10], [10, 7]] {
            let addresses = Addresses { local_port: 80, ..Addresses::default() };
            self.event(ids, Detail::SocketState { socket, old, new, addresses });
        }
        self.event(
            [id, other],
            Detail::SyscallEnter { number: CALLS[0], arguments: [3; 6], file: None },
        );
        for thread in [other, id] {
            self.event([id, thread], Detail::ExitStatus { process: id, thread, status: 137 });
            self.event([id, thread], Detail::Exit { process: id, thread });
            let old = SwitchedOut { state: ThreadState::Dead, ..out(thread) };
            self.event([id, thread], Detail::Switch { old, new: into(id) });
        }
    }

    /// Walks the stack of a process through all functions of its own file.
    fn sample(&mut self, id: u32, own: u64) {
        let functions = 0..u64::from(FUNCTIONS);
        let calls = functions.map(|at| own + u64::from(CODE) + at * u64::from(FUNCTION) + 0x10);
        let calls: Vec<u64> = calls.collect();
        let mut registers = vec![0u64; UNWOUND_REGISTERS.count_ones() as usize];
        let (stack_pointer, address) = match cfg!(target_arch = "aarch64") {
            true => (registers.len() - 2, registers.len() - 1),
            false => (3, 4),
        };
        (registers[stack_pointer], registers[address]) = (0x7000, calls[0]);
        let registers: Vec<u8> = registers.iter().flat_map(|one| one.to_le_bytes()).collect();
        let callers = calls[1..].iter().chain(&[0]);
        let stack: Vec<u8> =
            callers.flat_map(|caller| [0, *caller]).flat_map(u64::to_le_bytes).collect();
        let user = UserState { registers: &registers, stack: &stack };
        let mut frames = Vec::new();
        let images = self.shaper.images_of(id).unwrap();
        let end = self.unwinder.walk(id, images, &user, &self.files, &mut frames);
        assert_eq!((end, &frames), (End::Whole, &calls));
        let event = NeutralEvent {
            time: self.time,
            cpu: 0,
            process: id,
            thread: id,
            stack: Stack { kernel: &[], user: &frames },
            detail: Detail::Sample { address: calls[0] },
        };
        self.shaper.take(&event, &mut self.out);
    }
}

/// OV-23: the memory of a recording follows from what lives, and from bounded caches: programs with threads, images, rules, files, sockets
/// and calls of their own leave none behind.
#[cfg(target_arch = "x86_64")]
#[test]
fn programs_that_have_ended_leave_no_memory_behind() {
    /// After so many, all caches are full.
    const FIRST: u32 = 2_500;
    /// In so many, each cache is filled at least once more.
    const IN_A_ROUND: u32 = 2_500;
    const ROUNDS: usize = 2;
    /// Bytes that all caches may have.
    const BOUND: isize = 8 << 20;
    /// The difference of two rounds: caches become full at different moments. A leak of 80 bytes a program is more.
    const DIFFERENCE: isize = 192 << 10;
    let before = own_bytes();
    let mut programs = Programs::new();
    (0..FIRST).for_each(|number| programs.run(number));
    let mut number = FIRST;
    let mut most = [0; ROUNDS];
    for most in &mut most {
        for _ in 0..IN_A_ROUND {
            programs.run(number);
            let counts = programs.unwinder.counts();
            assert!(counts.iter().all(|count| *count < 2048), "{counts:?}");
            // The next program is known, and no other one.
            let living = programs.shaper.remembered();
            assert!(living.iter().all(|(_, count)| *count <= 4), "{living:?}");
            number += 1;
            *most = own_bytes().max(*most + before) - before;
        }
    }
    eprintln!("bytes at most in each round: {most:?}");
    let [least, highest] = [most.iter().min(), most.iter().max()].map(Option::unwrap);
    assert!(*highest < BOUND && highest - least < DIFFERENCE, "{most:?}");
    drop(programs);
    assert!(own_bytes() - before < 1 << 10, "{}", own_bytes() - before);
}
