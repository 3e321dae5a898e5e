//! `bpf(2)`: maps, programs, and what they are attached to.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::assembler::Instruction;

const MAP_CREATE: libc::c_int = 0;
const PROG_LOAD: libc::c_int = 5;
const PROG_RUN: libc::c_int = 10;
const OBJECT_INFO: libc::c_int = 15;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;

const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_ARRAY_OF_CPUS: u32 = 6;
const MAP_TYPE_RING: u32 = 27;
const MAP_MMAPABLE: u32 = 1 << 10;
const PROG_TYPE_PERF_EVENT: u32 = 7;
const PROG_TYPE_TRACING: u32 = 26;
const ATTACH_RAW_TRACEPOINT: u32 = 23;
const PROG_TYPE_SYSCALL: u32 = 31;
const PROG_SLEEPABLE: u32 = 1 << 4;

/// `union bpf_attr`, as far as it is used here, in words of four bytes.
type Attributes = [u32; 32];

fn bpf(command: libc::c_int, attributes: &mut Attributes) -> io::Result<libc::c_int> {
    // SAFETY: the attributes outlive the call, which reads and writes as many bytes as it is given; texts, instructions and memory that they
    // point to are borrowed by the callers below.
    let number = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            size_of::<Attributes>(),
        )
    };
    match number {
        ..0 => Err(io::Error::last_os_error()),
        number => Ok(number as libc::c_int),
    }
}

/// A command that makes a descriptor.
fn make(command: libc::c_int, attributes: &mut Attributes) -> io::Result<OwnedFd> {
    // SAFETY: the call returned a new descriptor, which nobody else has.
    bpf(command, attributes).map(|number| unsafe { OwnedFd::from_raw_fd(number) })
}

/// Sets a pointer, which has eight bytes.
fn set_pointer<T: ?Sized>(attributes: &mut Attributes, at: usize, value: &T) {
    let address = std::ptr::from_ref(value).cast::<u8>().expose_provenance() as u64;
    attributes[at / 4] = address as u32;
    attributes[at / 4 + 1] = (address >> 32) as u32;
}

/// A ring of `size` bytes, a power of two of at least a page.
pub fn create_ring(size: u32) -> io::Result<OwnedFd> {
    let mut attributes = [0; 32];
    (attributes[0], attributes[3]) = (MAP_TYPE_RING, size);
    make(MAP_CREATE, &mut attributes)
}

/// Bytes in one piece, which programs and processes share.
pub fn create_shared(size: u32) -> io::Result<OwnedFd> {
    let mut attributes = [0; 32];
    (attributes[0], attributes[1], attributes[2], attributes[3], attributes[4]) =
        (MAP_TYPE_ARRAY, 4, size, 1, MAP_MMAPABLE);
    make(MAP_CREATE, &mut attributes)
}

/// Bytes in one piece for each CPU, which programs alone use.
pub fn create_scratch(size: u32) -> io::Result<OwnedFd> {
    let mut attributes = [0; 32];
    (attributes[0], attributes[1], attributes[2], attributes[3]) =
        (MAP_TYPE_ARRAY_OF_CPUS, 4, size, 1);
    make(MAP_CREATE, &mut attributes)
}

/// The same, which may have more bytes, for CPUs with numbers below `cpus`.
pub fn create_memory(size: u32, cpus: u32) -> io::Result<OwnedFd> {
    let mut attributes = [0; 32];
    (attributes[0], attributes[1], attributes[2], attributes[3]) = (MAP_TYPE_ARRAY, 4, size, cpus);
    make(MAP_CREATE, &mut attributes)
}

/// The attributes of a program of a kind.
fn program(kind: u32, instructions: &[Instruction]) -> Attributes {
    let license: &'static CStr = c"Dual MIT/GPL";
    let mut attributes = [0; 32];
    attributes[0] = kind;
    attributes[1] = instructions.len() as u32;
    set_pointer(&mut attributes, 8, instructions);
    set_pointer(&mut attributes, 16, license);
    attributes
}

/// Loads a program for the tracepoint whose handlers have this type.
pub fn load(instructions: &[Instruction], handler: u32) -> io::Result<OwnedFd> {
    let mut attributes = program(PROG_TYPE_TRACING, instructions);
    attributes[68 / 4] = ATTACH_RAW_TRACEPOINT;
    attributes[108 / 4] = handler;
    make(PROG_LOAD, &mut attributes)
}

/// Loads a program for the interrupts of perf events.
pub fn load_for_events(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    make(PROG_LOAD, &mut program(PROG_TYPE_PERF_EVENT, instructions))
}

/// Runs a program in this thread, since Linux 5.14. Returns its result.
pub fn run(instructions: &[Instruction]) -> io::Result<u32> {
    let mut attributes = program(PROG_TYPE_SYSCALL, instructions);
    attributes[44 / 4] = PROG_SLEEPABLE;
    let program = make(PROG_LOAD, &mut attributes)?;
    let mut attributes = [0; 32];
    attributes[0] = program.as_raw_fd() as u32;
    bpf(PROG_RUN, &mut attributes)?;
    Ok(attributes[1])
}

/// Attaches a program to the tracepoint that it was loaded for, until the descriptor is closed.
pub fn attach(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut attributes = [0; 32];
    attributes[2] = program.as_fd().as_raw_fd() as u32;
    make(RAW_TRACEPOINT_OPEN, &mut attributes)
}

/// How often the kernel did not run a program because the CPU ran it already; 0 if this kernel does not count that.
pub fn misses(program: BorrowedFd<'_>) -> u64 {
    /// `recursion_misses` in `struct bpf_prog_info`, since Linux 5.12.
    const MISSES: usize = 208 / 8;
    let mut info = [0u64; 32];
    let mut attributes = [0; 32];
    attributes[0] = program.as_raw_fd() as u32;
    attributes[1] = size_of_val(&info) as u32;
    let address = info.as_mut_ptr().expose_provenance() as u64;
    (attributes[2], attributes[3]) = (address as u32, (address >> 32) as u32);
    match bpf(OBJECT_INFO, &mut attributes) {
        Ok(_) => info[MISSES],
        Err(_) => 0,
    }
}
