//! `perf_event_open`: attributes of events, and open events.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::parse::UNWOUND_REGISTERS;
use super::ring::Ring;

/// `perf_event_attr`, as `linux/perf_event.h` has it since Linux 5.12.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attribute {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_regs_interrupt: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const SOFTWARE: u32 = 1;
const TRACEPOINT: u32 = 2;
const CPU_CLOCK: u64 = 0;
const CONTEXT_SWITCHES: u64 = 3;
const FAULTS_MINOR: u64 = 5;
const FAULTS_MAJOR: u64 = 6;
const DUMMY: u64 = 9;

const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_ADDRESS: u64 = 1 << 3;
const SAMPLE_CALL_CHAIN: u64 = 1 << 5;
const SAMPLE_RAW: u64 = 1 << 10;
const SAMPLE_USER_REGISTERS: u64 = 1 << 12;
const SAMPLE_USER_STACK: u64 = 1 << 13;
const SAMPLE_IDENTIFIER: u64 = 1 << 16;

/// Frames of a call stack that is an address.
const ADDRESS_ALONE: u16 = 1;

/// `PERF_FORMAT_LOST`, since Linux 6.0.
const FORMAT_LOST: u64 = 1 << 4;

const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const EXCLUDE_IDLE: u64 = 1 << 7;
const MMAP: u64 = 1 << 8;
const COMM: u64 = 1 << 9;
const TASK: u64 = 1 << 13;
const WATERMARK: u64 = 1 << 14;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const EXCLUDE_KERNEL_FRAMES: u64 = 1 << 21;
const MMAP2: u64 = 1 << 23;
const COMM_EXEC: u64 = 1 << 24;
const USE_CLOCK: u64 = 1 << 25;
const CONTEXT_SWITCH: u64 = 1 << 26;
const BUILD_ID: u64 = 1 << 34;

const IOC_ENABLE: u64 = 0x2400;
const IOC_DISABLE: u64 = 0x2401;
const IOC_SET_OUTPUT: u64 = 0x2405;
const IOC_SET_FILTER: u64 = 0x4008_2406;
const IOC_SET_PROGRAM: u64 = 0x4004_2408;
const IOC_ID: u64 = 0x8008_2407;
const OPEN_CLOEXEC: libc::c_ulong = 8;

impl Attribute {
    fn new(kind: u32, config: u64) -> Attribute {
        Attribute {
            kind,
            size: size_of::<Attribute>() as u32,
            config,
            sample_type: SAMPLE_IDENTIFIER | SAMPLE_TID | SAMPLE_TIME,
            read_format: FORMAT_LOST,
            flags: DISABLED | WATERMARK | SAMPLE_ID_ALL | USE_CLOCK | EXCLUDE_HYPERVISOR,
            // The host looks at the rings by itself.
            wakeup: u32::MAX >> 1,
            clock: libc::CLOCK_MONOTONIC,
            ..Attribute::default()
        }
    }

    /// Records of processes, threads and mappings.
    pub fn side() -> Attribute {
        let mut all = Attribute::new(SOFTWARE, DUMMY);
        all.flags |= MMAP | MMAP2 | COMM | COMM_EXEC | TASK | BUILD_ID;
        all
    }

    /// Records of switches, without rights to the scheduler's tracepoints.
    pub fn switches() -> Attribute {
        let mut all = Attribute::new(SOFTWARE, DUMMY);
        all.flags |= CONTEXT_SWITCH;
        all
    }

    /// A record of each thread that leaves its CPU, which has a call stack, without rights to the scheduler's tracepoints.
    pub fn leaving() -> Attribute {
        let mut all = Attribute::new(SOFTWARE, CONTEXT_SWITCHES);
        all.sample_period = 1;
        all.with_stack(true)
    }

    /// Samples of each CPU, at a distance in nanoseconds.
    pub fn samples(distance: u64) -> Attribute {
        let mut all = Attribute::new(SOFTWARE, CPU_CLOCK);
        all.sample_period = distance.max(1);
        all.flags |= EXCLUDE_IDLE;
        all.with_address()
    }

    /// The same interrupts, in which a program records the samples: perf itself writes nothing.
    pub fn by_program(mut self) -> Attribute {
        self.sample_type = SAMPLE_IDENTIFIER;
        (self.sample_regs_user, self.sample_stack_user) = (0, 0);
        self
    }

    /// Whether a program records it.
    pub fn is_by_program(&self) -> bool {
        self.sample_type == SAMPLE_IDENTIFIER
    }

    /// Page faults; all, or those that wait for a disk.
    pub fn faults(is_hard: bool) -> Attribute {
        let mut all = Attribute::new(SOFTWARE, if is_hard { FAULTS_MAJOR } else { FAULTS_MINOR });
        all.sample_period = 1;
        all.sample_type |= SAMPLE_ADDRESS;
        all.with_address()
    }

    /// A tracepoint.
    pub fn tracepoint(id: u64) -> Attribute {
        let mut all = Attribute::new(TRACEPOINT, id);
        all.sample_period = 1;
        all.sample_type |= SAMPLE_RAW;
        all
    }

    /// Only counts, without records.
    pub fn counting(mut self) -> Attribute {
        self.sample_period = 0;
        self
    }

    /// Adds the stack pointer, and the bytes behind it: a multiple of eight below 64 KiB.
    pub fn with_stack_bytes(mut self, size: u32) -> Attribute {
        /// `PERF_REG_X86_SP`, `PERF_REG_ARM64_SP`
        const STACK_POINTER: u32 = if cfg!(target_arch = "aarch64") { 31 } else { 7 };
        self.sample_type |= SAMPLE_USER_REGISTERS | SAMPLE_USER_STACK;
        self.sample_regs_user = 1 << STACK_POINTER;
        self.sample_stack_user = size;
        self
    }

    /// Adds the registers and stack bytes of the program, from which its call stack follows without frame pointers. `size`: as above; 0:
    /// none.
    pub fn with_user_state(mut self, size: u32) -> Attribute {
        if size > 0 && self.has_stack() {
            self.sample_type |= SAMPLE_USER_REGISTERS | SAMPLE_USER_STACK;
            self.sample_regs_user = UNWOUND_REGISTERS;
            self.sample_stack_user = size;
        }
        self
    }

    /// Bytes of the program's stack in each record.
    pub fn stack_size(&self) -> u32 {
        self.sample_stack_user
    }

    /// Whether records have the registers and stack bytes of the program.
    pub fn has_user_state(&self) -> bool {
        self.sample_type & SAMPLE_USER_STACK != 0
    }

    /// Adds call stacks.
    pub fn with_stack(mut self, is_wanted: bool) -> Attribute {
        if is_wanted {
            self.sample_type |= SAMPLE_CALL_CHAIN;
            self.sample_max_stack = 0;
        }
        self
    }

    /// Adds the address at which the program or the kernel was: a call stack of one frame.
    fn with_address(mut self) -> Attribute {
        self.sample_type |= SAMPLE_CALL_CHAIN;
        self.sample_max_stack = ADDRESS_ALONE;
        self
    }

    fn has_stack(&self) -> bool {
        self.sample_type & SAMPLE_CALL_CHAIN != 0 && self.sample_max_stack != ADDRESS_ALONE
    }

    /// Leaves out what happens in the kernel, its frames, and what those who may not see it may not ask for.
    pub fn without_kernel(mut self) -> Attribute {
        self.flags |= EXCLUDE_KERNEL | EXCLUDE_KERNEL_FRAMES;
        self
    }
}

/// The processes and CPUs whose events are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Those of the machine.
    Machine,
    /// Those of a process and of its children from now on.
    Tree(u32),
}

/// The kernel's counts of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// How often it happened; of samples, nanoseconds.
    pub all: u64,
    /// Records for which the ring had no room.
    pub lost: u64,
}

/// An open event of one CPU.
#[derive(Debug)]
pub(crate) struct Event {
    file: OwnedFd,
}

impl From<OwnedFd> for Event {
    fn from(file: OwnedFd) -> Event {
        Event { file }
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn open(attribute: &Attribute, process: libc::pid_t, cpu: u16) -> io::Result<Event> {
    // SAFETY: the attribute has the size that it states, and lives during the call; the rest are numbers.
    let file = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const *attribute,
            process,
            libc::c_int::from(cpu),
            -1,
            OPEN_CLOEXEC,
        )
    };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a new descriptor, which nobody else has.
    let file = unsafe { OwnedFd::from_raw_fd(file as libc::c_int) };
    Ok(Event { file })
}

impl Event {
    /// Opens an event; it does not record yet.
    pub fn open(attribute: &Attribute, target: Target, cpu: u16) -> io::Result<Event> {
        let mut attribute = *attribute;
        let process = match target {
            Target::Machine => -1,
            Target::Tree(process) => {
                attribute.flags |= INHERIT;
                process as libc::pid_t
            }
        };
        match open(&attribute, process, cpu) {
            // An older kernel.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                attribute.read_format = 0;
                open(&attribute, process, cpu)
            }
            result => result,
        }
    }

    /// The kernel's counts of this event; `None`: an older kernel does not count all of it.
    pub fn counts(&self) -> Option<Counts> {
        let mut counts = [0u64; 2];
        let size = size_of_val(&counts);
        // SAFETY: memory of the size that is passed, which outlives the call.
        let read = unsafe { libc::read(self.raw(), counts.as_mut_ptr().cast(), size) };
        (usize::try_from(read) == Ok(size)).then_some(Counts { all: counts[0], lost: counts[1] })
    }

    /// The descriptor's number.
    pub fn raw(&self) -> libc::c_int {
        self.file.as_raw_fd()
    }

    /// The number in the event's records.
    pub fn id(&self) -> io::Result<u64> {
        let mut id = 0u64;
        self.control(IOC_ID, (&raw mut id) as libc::c_ulong)?;
        Ok(id)
    }

    /// Records into the ring of another event of the same CPU.
    pub fn redirect(&self, ring: &Ring) -> io::Result<()> {
        self.control(IOC_SET_OUTPUT, ring.event() as libc::c_ulong)
    }

    /// Records only what passes a filter of the tracepoint's fields.
    pub fn set_filter(&self, filter: &CStr) -> io::Result<()> {
        self.control(IOC_SET_FILTER, filter.as_ptr() as libc::c_ulong)
    }

    /// Runs a program in the event's interrupts.
    pub fn set_program(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        self.control(IOC_SET_PROGRAM, program.as_raw_fd() as libc::c_ulong)
    }

    /// Begins to record.
    pub fn enable(&self) -> io::Result<()> {
        self.control(IOC_ENABLE, 0)
    }

    /// Ends the recording.
    pub fn disable(&self) {
        // It cannot fail for an open event; and if it does, records go on until the descriptor is closed.
        let _ = self.control(IOC_DISABLE, 0);
    }

    fn control(&self, request: u64, argument: libc::c_ulong) -> io::Result<()> {
        // SAFETY: the requests take a number, or a pointer to a u64 or a text that outlives the call.
        let result = unsafe { libc::ioctl(self.raw(), request as _, argument) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
