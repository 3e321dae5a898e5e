//! Records of perf rings as neutral events. Every size is checked: a record may be cut anywhere.

use etw_types::{Guid, Hook, SYSTEM_TRACE, le};

use super::sample::{self, RecordRing, SAMPLE};
use super::tracepoint::{Layout, Tracepoint};
use crate::neutral::{
    Addresses, Detail, DiskOperation, DiskRequest, FileId, NeutralEvent, Stack, SwitchedIn,
    SwitchedOut, ThreadState,
};

const LOST: u32 = 2;
const COMM: u32 = 3;
pub(super) const EXIT: u32 = 4;
pub(super) const FORK: u32 = 7;
const MMAP2: u32 = 10;
const SWITCH: u32 = 14;
const SWITCH_OF_CPU: u32 = 15;

/// Bits of `misc`.
const COMM_BY_EXEC: u16 = 0x2000;
const SWITCH_OUT: u16 = 0x2000;
const SWITCH_PREEMPTED: u16 = 0x4000;
const MMAP_BUILD_ID: u16 = 0x4000;

/// Bytes that `sample_id_all` adds: thread, time, identifier.
pub(super) const TRAILER: usize = 24;
/// Markers of a call chain are the largest numbers.
const FIRST_MARKER: u64 = (-4095i64) as u64;
const CONTEXT_USER: u64 = (-512i64) as u64;
/// No program has code at this address or behind it, nor in the page at 0.
const PROGRAMS_END: u64 = if cfg!(target_arch = "x86_64") { 1 << 47 } else { 1 << 48 };
const PROGRAMS_START: u64 = 0x1000;
/// PROT_EXEC
const EXECUTABLE: u32 = 4;
/// In interrupt or soft interrupt, of `common_flags`.
const IN_INTERRUPT: i64 = 0x18;
/// Bits of a page fault on x86: the page is there, and it is a write.
const PROTECTION_WRITE: i64 = 3;
/// Bytes of a page of a file.
const PAGE: u64 = 4096;
pub(super) const AF_INET: i64 = 2;
pub(super) const AF_INET6: i64 = 10;
const PROTOCOL_TCP: i64 = 6;
pub(super) const PROTOCOL_UDP: i64 = 17;
/// `MSG_PEEK` and `MSG_ERRQUEUE`: the data are still to be received, or are those of an earlier send.
const NOT_RECEIVED: u32 = 0x2002;

/// The protocol and the bytes of a call that sends or receives; `None`: it moved no data, or has another protocol.
pub(super) fn transferred(
    protocol: i64,
    is_send: bool,
    result: i32,
    flags: u32,
) -> Option<(u8, u32)> {
    let size = u32::try_from(result).ok()?;
    let is_moved = match protocol {
        PROTOCOL_TCP => size > 0,
        // A datagram may be empty.
        PROTOCOL_UDP => true,
        _ => false,
    };
    let is_moved = is_moved && (is_send || flags & NOT_RECEIVED == 0);
    is_moved.then_some((protocol as u8, size))
}

/// The kind of an opened event.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Processes, threads and mappings: no samples of its own.
    Side,
    /// Switches without the tracepoint: two records each, one of each thread.
    Switches,
    /// The call stacks of threads that leave their CPUs, beside those.
    Leaving,
    /// Samples of the CPU.
    Sample {
        /// Records have a call chain.
        has_stack: bool,
    },
    /// Page faults.
    Fault {
        /// They waited for a disk.
        is_hard: bool,
        /// Records have a call chain.
        has_stack: bool,
    },
    /// A tracepoint.
    Tracepoint {
        /// Which one.
        point: Tracepoint,
        /// Where its fields lie.
        layout: Layout,
        /// Records have a call chain.
        has_stack: bool,
    },
    /// The arguments of a program, as our program in the kernel records them.
    Arguments,
    /// The paths of system calls, as our program in the kernel records them.
    Paths,
    /// A tracepoint that programs record is counted beside them: there are no records.
    Count {
        /// Which one.
        point: Tracepoint,
    },
    /// `sched_process_exec`, with the stack pointer and the start of the new program's stack.
    Exec {
        /// Where its fields lie.
        layout: Layout,
    },
}

impl Kind {
    /// Events whose records these are.
    pub(super) fn events_of(&self, records: u64) -> u64 {
        if matches!(self, Kind::Switches) { records.div_ceil(2) } else { records }
    }

    /// Each time that the kernel counts the event, there is a record of it.
    pub(super) fn is_countable(&self) -> bool {
        matches!(self, Kind::Fault { .. } | Kind::Tracepoint { .. } | Kind::Exec { .. })
    }

    /// The class of the kernel events that its records become.
    pub(crate) fn class(&self) -> Guid {
        use Tracepoint::*;
        let hook = match self {
            Kind::Side | Kind::Exec { .. } | Kind::Arguments => 0x0301,
            Kind::Paths => 0x0440,
            Kind::Switches | Kind::Leaving => 0x0524,
            Kind::Sample { .. } => 0x0f2e,
            Kind::Fault { .. } => 0x020a,
            Kind::Tracepoint { point, .. } | Kind::Count { point } => match point {
                Switch | IdleSwitch | Waking | IdleWaking | NewTaskWakeup | Priority => 0x0524,
                InterruptEntry | InterruptExit | SoftInterruptEntry | SoftInterruptExit => 0x0f43,
                DiskQueue | DiskIssue | DiskRequeue | DiskComplete => 0x010a,
                SocketState | SocketSend | SocketReceive | Retransmit => 0x060a,
                // Their losses have the class of `CallEvents`.
                SyscallEnter | SyscallExit => 0x0f33,
                PageFault | FileFault | FilePages => 0x020a,
                Exec | ExitStatus => 0x0301,
                NewTask | TaskExit => 0x0501,
                CallPaths => 0x0440,
                CpuSample => 0x0f2e,
            },
        };
        Hook(hook).class_guid().unwrap_or(SYSTEM_TRACE)
    }
}

/// Memory for the frames of one record.
#[derive(Debug, Default)]
pub struct Scratch {
    kernel: Vec<u64>,
    user: Vec<u64>,
}

/// A mapping of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// The process.
    pub process: u32,
    /// The first address.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Where the mapping begins in the file.
    pub offset: u64,
    /// The build id, or empty.
    pub build_id: &'a [u8],
    /// The file's numbers; `None`: it has none, or the record has the build id in their place.
    pub file: Option<FileId>,
    /// The path of the file.
    pub path: &'a [u8],
}

/// A record of a ring.
#[derive(Clone, Copy, Debug)]
pub struct Parsed<'a> {
    /// Nanoseconds of the session's perf clock.
    pub time: u64,
    /// The CPU.
    pub cpu: u16,
    /// The process that ran.
    pub process: u32,
    /// The thread that ran.
    pub thread: u32,
    /// The call stack.
    pub stack: Stack<'a>,
    /// The program's registers and stack, if they were copied.
    pub user: Option<UserState<'a>>,
    /// The rest.
    pub detail: PerfDetail<'a>,
}

/// A copy of a program's registers and stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserState<'a> {
    /// The registers of [`UNWOUND_REGISTERS`], eight bytes each.
    pub registers: &'a [u8],
    /// The bytes from the stack pointer on.
    pub stack: &'a [u8],
}

/// The registers that are copied, in the kernel's numbers for samples: those that functions preserve, stack pointer and address. On x86-64
/// also `rdi`, in which `vfork` keeps its caller's address.
pub const UNWOUND_REGISTERS: u64 =
    if cfg!(target_arch = "aarch64") { 0x1_fff8_0000 } else { 0xf0_01e2 };

/// The contents of a record.
#[derive(Clone, Copy, Debug)]
pub enum PerfDetail<'a> {
    /// A neutral event.
    Neutral(Detail<'a>),
    /// A process executes a program; its facts are not in the record.
    Exec {
        /// The process.
        process: u32,
        /// The program's short name.
        name: &'a [u8],
    },
    /// A program has replaced its process's earlier one.
    Program(NewProgram<'a>),
    /// Executable code was mapped; where its file begins is not in the record.
    Map(Mapping<'a>),
}

/// A program and its arguments, as the kernel has them at the program's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewProgram<'a> {
    /// The process.
    pub process: u32,
    /// The path that was executed; of a script, the script's.
    pub file: &'a [u8],
    /// The stack pointer.
    pub stack_pointer: u64,
    /// The bytes from the stack pointer on; empty: the kernel could not copy them.
    pub stack: &'a [u8],
    /// The arguments, if the kernel recorded them apart.
    pub known_arguments: Option<&'a [u8]>,
    /// The user, if the kernel recorded it.
    pub known_user: Option<u32>,
}

impl NewProgram<'_> {
    /// The arguments, each followed by a NUL; `None`: not all of them are in the copied part of the stack.
    pub fn arguments(&self) -> Option<Vec<u8>> {
        if let Some(known) = self.known_arguments {
            return Some(known.to_vec());
        }
        let count = usize::try_from(le::u64(self.stack, 0)?).ok()?;
        let mut all = Vec::new();
        for index in 0..count {
            let pointer = le::u64(self.stack, 8usize.checked_add(index.checked_mul(8)?)?)?;
            let start = usize::try_from(pointer.checked_sub(self.stack_pointer)?).ok()?;
            let rest = self.stack.get(start..)?;
            let size = rest.iter().position(|byte| *byte == 0)?;
            // Pointers of a damaged record may name one long text many times.
            if all.len() + size >= self.stack.len() {
                return None;
            }
            all.extend_from_slice(&rest[..=size]);
        }
        Some(all)
    }
}

impl<'a> Parsed<'a> {
    /// The neutral event with this detail.
    pub fn event(&self, detail: Detail<'a>) -> NeutralEvent<'a> {
        let Parsed { time, cpu, process, thread, stack, .. } = *self;
        NeutralEvent { time, cpu, process, thread, stack, detail }
    }
}

/// The parts of a record that all events have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Common {
    pub time: u64,
    /// The number of the event of a sample; `None`: it is another record.
    pub number: Option<u64>,
}

/// Reads those parts; `None`: the record is cut.
#[inline]
pub(super) fn common_of(record: &[u8]) -> Option<Common> {
    if le::u32(record, 0)? == SAMPLE {
        let start: &[u8; sample::REST] = record.first_chunk()?;
        let number = le::u64(start, sample::NUMBER);
        return Some(Common { time: le::u64(start, sample::TIME)?, number });
    }
    let time = le::u64(record, record.len().checked_sub(TRAILER)?.max(8) + 8)?;
    Some(Common { time, number: None })
}

/// The number of the event of a sample.
pub(super) fn number_of(record: &[u8]) -> Option<u64> {
    (le::u32(record, 0)? == SAMPLE).then(|| le::u64(record, sample::NUMBER)).flatten()
}

/// Events that a record says are lost.
pub(super) fn lost_of(record: &[u8]) -> u64 {
    match le::u32(record, 0) {
        Some(LOST) => le::u64(record, 16).unwrap_or(0).min(u64::from(u32::MAX)),
        _ => 0,
    }
}

/// A program that a process executes.
pub(super) struct Exec<'a> {
    pub process: u32,
    pub name: &'a [u8],
}

/// Whether a record is an exec.
pub(super) fn is_exec(record: &[u8]) -> Option<Exec<'_>> {
    let is_exec = le::u32(record, 0)? == COMM && le::u16(record, 4)? & COMM_BY_EXEC != 0;
    is_exec.then_some(())?;
    let process = le::u32(record, 8)?;
    Some(Exec { process, name: text(record.get(16..record.len().checked_sub(TRAILER)?)?) })
}

/// The process that a record says begins, if it is not a thread alone.
pub(super) fn begun_process(record: &[u8]) -> Option<u32> {
    let [process, parent] = [8, 12].map(|at| le::u32(record, at));
    (le::u32(record, 0)? == FORK && process? != parent?).then_some(process?)
}

/// Bytes up to the first NUL.
fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Reads a record. `kind_of` finds what an event records, by the event's number. `None`: the record says nothing that is wanted,
/// or is damaged.
pub fn parse<'a, 'k>(
    ring: RecordRing,
    record: &'a [u8],
    kind_of: impl Fn(u64) -> Option<&'k Kind>,
    scratch: &'a mut Scratch,
) -> Option<Parsed<'a>> {
    let kind = le::u32(record, 0)?;
    let misc = le::u16(record, 4)?;
    if kind == SAMPLE {
        let (cpu, rest) = ring.cpu_and_rest(record)?;
        let mut parsed = Parsed {
            time: le::u64(record, sample::TIME)?,
            cpu,
            process: le::u32(record, sample::PROCESS)?,
            thread: le::u32(record, sample::THREAD)?,
            stack: Stack::default(),
            user: None,
            detail: PerfDetail::Neutral(Detail::Leaving),
        };
        let rest = record.get(rest..)?;
        match kind_of(le::u64(record, sample::NUMBER)?)? {
            Kind::Exec { layout } => parsed.detail = exec(parsed.process, rest, layout)?,
            Kind::Arguments => parsed.detail = arguments(parsed.process, rest)?,
            kind => parts(rest, kind, scratch, &mut parsed)?,
        }
        return Some(parsed);
    }
    let trailer = record.get(record.len().checked_sub(TRAILER).filter(|at| *at >= 8)?..)?;
    let body = &record[..record.len() - TRAILER];
    let (process, thread) = (le::u32(trailer, 0)?, le::u32(trailer, 4)?);
    let number = |at| le::u32(body, at);
    let detail = match kind {
        FORK => PerfDetail::Neutral(Detail::Fork {
            process: number(8)?,
            parent_process: number(12)?,
            thread: number(16)?,
            parent_thread: number(20)?,
            soon: None,
        }),
        EXIT => PerfDetail::Neutral(Detail::Exit { process: number(8)?, thread: number(16)? }),
        COMM if misc & COMM_BY_EXEC != 0 => {
            PerfDetail::Exec { process: number(8)?, name: text(body.get(16..)?) }
        }
        COMM => PerfDetail::Neutral(Detail::Rename {
            process: number(8)?,
            thread: number(12)?,
            name: text(body.get(16..)?),
        }),
        MMAP2 => PerfDetail::Map(mapping(body, misc)?),
        LOST => PerfDetail::Neutral(Detail::Lost { count: le::u64(body, 16)? }),
        SWITCH_OF_CPU if misc & SWITCH_OUT == 0 => {
            PerfDetail::Neutral(Detail::SwitchedFrom { thread: number(12)? })
        }
        SWITCH_OF_CPU => {
            const PRIORITY: i32 = 120;
            let is_preempted = misc & SWITCH_PREEMPTED != 0;
            let state = if is_preempted { ThreadState::Preempted } else { ThreadState::Waiting };
            PerfDetail::Neutral(Detail::Switch {
                old: SwitchedOut { thread, priority: PRIORITY, state },
                new: SwitchedIn { thread: number(12)?, priority: PRIORITY },
            })
        }
        SWITCH if misc & SWITCH_OUT == 0 => PerfDetail::Neutral(Detail::SwitchIn),
        SWITCH => {
            let is_preempted = misc & SWITCH_PREEMPTED != 0;
            let state = if is_preempted { ThreadState::Preempted } else { ThreadState::Waiting };
            PerfDetail::Neutral(Detail::SwitchOut { state })
        }
        _ => return None,
    };
    Some(Parsed {
        time: le::u64(trailer, 8)?,
        cpu: match ring {
            RecordRing::OfCpu(cpu) => cpu,
            RecordRing::OfPrograms => return None,
        },
        process,
        thread,
        stack: Stack::default(),
        user: None,
        detail,
    })
}

fn mapping(body: &[u8], misc: u16) -> Option<Mapping<'_>> {
    if le::u32(body, 64)? & EXECUTABLE == 0 {
        return None;
    }
    let (build_id, file) = match misc & MMAP_BUILD_ID != 0 {
        true => {
            let size = usize::from(*body.get(40)?).min(20);
            (body.get(44..44 + size)?, None)
        }
        false => {
            let device = le::u32(body, 40)? << 20 | le::u32(body, 44)? & 0xf_ffff;
            let inode = le::u64(body, 48)?;
            let id = FileId { device, inode, address: 0 };
            (&[][..], (inode != 0).then_some(id))
        }
    };
    Some(Mapping {
        process: le::u32(body, 8)?,
        address: le::u64(body, 16)?,
        size: le::u64(body, 24)?,
        offset: le::u64(body, 32)?,
        build_id,
        file,
        path: text(body.get(72..)?),
    })
}

/// [`u64` data address], [`u64` n, n frames], [`u32` size, raw data], and the program's registers and stack.
fn parts<'a>(
    rest: &'a [u8],
    kind: &Kind,
    scratch: &'a mut Scratch,
    parsed: &mut Parsed<'a>,
) -> Option<()> {
    let mut at = 0;
    let mut data = 0;
    let has_frames = match kind {
        Kind::Side
        | Kind::Switches
        | Kind::Exec { .. }
        | Kind::Arguments
        | Kind::Paths
        | Kind::Count { .. } => {
            return None;
        }
        Kind::Tracepoint { has_stack, .. } => *has_stack,
        Kind::Leaving | Kind::Sample { .. } => true,
        Kind::Fault { .. } => {
            data = le::u64(rest, at)?;
            at += 8;
            true
        }
    };
    scratch.kernel.clear();
    scratch.user.clear();
    if has_frames {
        let count = usize::try_from(le::u64(rest, at)?).ok()?;
        at += 8;
        let frames = rest.get(at..at.checked_add(count.checked_mul(8)?)?)?;
        at += frames.len();
        split(frames, scratch);
    }
    // A virtual machine's thread that runs its guest has no frames.
    let address = scratch.kernel.first().or(scratch.user.first()).copied().unwrap_or(0);
    if let Kind::Sample { has_stack: false } | Kind::Fault { has_stack: false, .. } = kind {
        scratch.kernel.clear();
        scratch.user.clear();
    }
    let detail = match kind {
        Kind::Tracepoint { point, layout, has_stack: has_chain } => {
            let size = le::u32(rest, at)? as usize;
            let raw = rest.get(at + 4..(at + 4).checked_add(size)?)?;
            at += 4 + size;
            match (*point, *has_chain) {
                (Tracepoint::NewTask, false) => {
                    Detail::Cloned { flags: layout.number(0, raw) as u64 }
                }
                (point, _) => tracepoint(point, layout, raw)?,
            }
        }
        Kind::Fault { is_hard, .. } => {
            Detail::Fault { address: data, program_counter: address, is_hard: *is_hard }
        }
        Kind::Leaving => Detail::Leaving,
        _ => Detail::Sample { address },
    };
    parsed.stack = Stack { kernel: &scratch.kernel, user: &scratch.user };
    parsed.user = user_state(rest, at);
    parsed.detail = PerfDetail::Neutral(detail);
    Some(())
}

/// Behind the other parts of a sample: `u64` ABI, [registers], `u64` size of the stack, [its bytes, `u64` copied bytes].
fn user_state(record: &[u8], at: usize) -> Option<UserState<'_>> {
    const REGISTERS: usize = 8 * UNWOUND_REGISTERS.count_ones() as usize;
    if le::u64(record, at)? != ABI_64 {
        return None;
    }
    let registers = record.get(at + 8..at + 8 + REGISTERS)?;
    let stack = copied_stack(record, at + 8 + REGISTERS)?;
    Some(UserState { registers, stack })
}

/// `PERF_SAMPLE_REGS_ABI_64`
const ABI_64: u64 = 2;

fn copied_stack(record: &[u8], at: usize) -> Option<&[u8]> {
    let size = usize::try_from(le::u64(record, at)?).ok()?;
    let at = at + 8;
    if size == 0 {
        return Some(&[]);
    }
    let copied = usize::try_from(le::u64(record, at.checked_add(size)?)?).ok()?;
    record.get(at..at.checked_add(copied.min(size))?)
}

/// `u32` size, raw data; then `u64` ABI, [`u64` stack pointer], `u64` size of the stack, [its bytes, `u64` copied bytes].
fn exec<'a>(process: u32, rest: &'a [u8], layout: &Layout) -> Option<PerfDetail<'a>> {
    let size = le::u32(rest, 0)? as usize;
    let mut at = size.checked_add(4)?;
    let raw = rest.get(4..at)?;
    let (mut stack_pointer, mut stack) = (0, &[][..]);
    // Beside a program that records the arguments, nothing is copied.
    if at < rest.len() {
        let abi = le::u64(rest, at)?;
        at += 8;
        if abi != 0 {
            stack_pointer = le::u64(rest, at)?;
            at += 8;
        }
        let copied = copied_stack(rest, at)?;
        stack = if abi == ABI_64 { copied } else { &[] };
    }
    // The number in the tracepoint is that of the first PID namespace.
    Some(PerfDetail::Program(NewProgram {
        process,
        file: layout.text(0, raw),
        stack_pointer,
        stack,
        known_arguments: None,
        known_user: None,
    }))
}

/// `u32` size, `u32` bytes of arguments, `u32` 0 or an error, `u32` user, and the arguments.
fn arguments(process: u32, rest: &[u8]) -> Option<PerfDetail<'_>> {
    let size = le::u32(rest, 4)? as usize;
    let is_copied = le::u32(rest, 8)? == 0;
    let user = le::u32(rest, 12)?;
    let bytes = rest.get(16..)?;
    Some(PerfDetail::Program(NewProgram {
        process,
        file: &[],
        stack_pointer: 0,
        stack: &[],
        known_arguments: is_copied.then(|| bytes.get(..size).unwrap_or(bytes)),
        known_user: Some(user),
    }))
}

/// Divides a call chain at its markers, which are dropped. The program's frames are the last ones: words of its own stack, which it can make
/// look like markers or like addresses of the kernel. The first that is no address of a program ends the chain.
fn split(frames: &[u8], scratch: &mut Scratch) {
    let mut is_user = false;
    for frame in frames.chunks_exact(8) {
        let Some(frame) = le::u64(frame, 0) else { return };
        match frame {
            PROGRAMS_START..PROGRAMS_END if is_user => scratch.user.push(frame),
            _ if is_user => return,
            CONTEXT_USER => is_user = true,
            FIRST_MARKER.. => {}
            _ => scratch.kernel.push(frame),
        }
    }
}

fn tracepoint<'a>(point: Tracepoint, layout: &Layout, raw: &[u8]) -> Option<Detail<'a>> {
    let number = |field: usize| layout.number(field, raw);
    let id = |field: usize| number(field) as u32;
    // Another reader has refused this record of a program.
    (!layout.is_empty() || point.fields().is_empty()).then_some(())?;
    Some(match point {
        Tracepoint::Switch => Detail::Switch {
            old: SwitchedOut {
                thread: id(0),
                priority: number(1) as i32,
                state: layout.thread_state(number(2) as u64),
            },
            new: SwitchedIn { thread: id(3), priority: number(4) as i32 },
        },
        Tracepoint::Waking | Tracepoint::NewTaskWakeup => {
            Detail::Wake { thread: id(0), is_interrupt: number(1) & IN_INTERRUPT != 0 }
        }
        Tracepoint::InterruptEntry => Detail::InterruptEnter { line: id(0) },
        Tracepoint::InterruptExit => {
            Detail::InterruptExit { line: id(0), is_handled: number(1) != 0 }
        }
        Tracepoint::SoftInterruptEntry => Detail::SoftInterruptEnter { vector: id(0) },
        Tracepoint::SoftInterruptExit => Detail::SoftInterruptExit { vector: id(0) },
        Tracepoint::DiskQueue => Detail::DiskQueue(disk_request(layout, raw, Some(id(4)))),
        Tracepoint::DiskIssue => Detail::DiskIssue(disk_request(layout, raw, Some(id(4)))),
        Tracepoint::DiskRequeue => Detail::DiskRequeue(disk_request(layout, raw, None)),
        Tracepoint::DiskComplete => Detail::DiskComplete(disk_request(layout, raw, None)),
        Tracepoint::SocketState => Detail::SocketState {
            socket: number(0) as u64,
            old: id(1),
            new: id(2),
            addresses: addresses(layout, raw, 3),
        },
        // Newer kernels run it for segments that could not be sent, too.
        Tracepoint::Retransmit if number(8) != 0 => return None,
        Tracepoint::Retransmit => {
            Detail::Retransmit { socket: number(0) as u64, addresses: addresses(layout, raw, 1) }
        }
        Tracepoint::SocketSend | Tracepoint::SocketReceive => {
            let is_send = point == Tracepoint::SocketSend;
            let (protocol, size) =
                transferred(number(1), is_send, number(2) as i32, number(4) as u32)?;
            matches!(number(3), AF_INET | AF_INET6).then_some(())?;
            let addresses = Addresses { is_v6: number(3) == AF_INET6, ..Addresses::default() };
            Detail::Transfer { socket: number(0) as u64, protocol, is_send, size, addresses }
        }
        Tracepoint::SyscallEnter => {
            let bytes = layout.bytes(1, raw);
            let arguments = std::array::from_fn(|index| le::u64(bytes, index * 8).unwrap_or(0));
            Detail::SyscallEnter { number: number(0) as u64, arguments, file: None }
        }
        Tracepoint::SyscallExit => {
            Detail::SyscallExit { number: number(0) as u64, result: number(1) }
        }
        Tracepoint::Priority => {
            Detail::Priority { thread: id(0), old: number(1) as i32, new: number(2) as i32 }
        }
        Tracepoint::PageFault => {
            Detail::FaultBegin { is_protection: number(0) & PROTECTION_WRITE == PROTECTION_WRITE }
        }
        Tracepoint::Exec
        | Tracepoint::CallPaths
        | Tracepoint::IdleSwitch
        | Tracepoint::IdleWaking
        | Tracepoint::ExitStatus
        | Tracepoint::CpuSample => return None,
        Tracepoint::NewTask => Detail::Created,
        Tracepoint::TaskExit => Detail::Exiting,
        Tracepoint::FileFault | Tracepoint::FilePages => Detail::FileFault {
            file: FileId { device: id(1), inode: number(0) as u64, address: 0 },
            offset: (number(2) as u64).wrapping_mul(PAGE),
            is_around: point == Tracepoint::FilePages,
        },
    })
}

/// `bytes`: of a request that is issued; a completion states its sectors.
fn disk_request(layout: &Layout, raw: &[u8], bytes: Option<u32>) -> DiskRequest {
    let sectors = layout.number(2, raw) as u32;
    let (operation, is_background) = disk_operation(text(layout.bytes(3, raw)));
    let sector = layout.number(1, raw) as u64;
    DiskRequest {
        device: layout.number(0, raw) as u32,
        // A flush has no sector.
        sector: if operation == DiskOperation::Flush { 0 } else { sector },
        size: bytes.filter(|bytes| *bytes > 0).unwrap_or(sectors.saturating_mul(512)),
        operation,
        is_background,
    }
}

/// The operation in the letters of a request (`blk_fill_rwbs` of the kernel), and whether it is read-ahead. A request that flushes first has
/// an `F` before its operation. `R`, `W` and `F` are operations, `D` (also `DE`), `N` and `Z` others: the letter behind `Z` says what happens
/// to a zone. The letters behind the operation are `F`, `A`, `S`, `M` and `U`: what the request asks for.
fn disk_operation(letters: &[u8]) -> (DiskOperation, bool) {
    let (operation, asks) = match letters {
        [b'F', operation @ (b'R' | b'W' | b'D' | b'N' | b'Z'), asks @ ..] => (*operation, asks),
        [operation, asks @ ..] => (*operation, asks),
        [] => return (DiskOperation::Other, false),
    };
    let operation = match operation {
        b'R' => DiskOperation::Read,
        b'W' => DiskOperation::Write,
        b'F' => DiskOperation::Flush,
        _ => DiskOperation::Other,
    };
    (operation, operation != DiskOperation::Other && asks.contains(&b'A'))
}

/// Ports, family and addresses in the fields from `first` on.
fn addresses(layout: &Layout, raw: &[u8], first: usize) -> Addresses {
    let is_v6 = layout.number(first + 2, raw) == AF_INET6;
    let bytes = |v4: usize, v6: usize| {
        let bytes = layout.bytes(if is_v6 { v6 } else { v4 }, raw);
        let mut all = [0; 16];
        let size = bytes.len().min(16);
        all[..size].copy_from_slice(&bytes[..size]);
        all
    };
    Addresses {
        is_v6,
        local: bytes(first + 3, first + 5),
        remote: bytes(first + 4, first + 6),
        local_port: layout.number(first, raw) as u16,
        remote_port: layout.number(first + 1, raw) as u16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of a mapping has the numbers of its file, or its build id in their place.
    #[test]
    fn a_mapping_has_the_numbers_of_its_file_or_its_build_id() {
        let mut body = vec![0u8; 72];
        body[64] = EXECUTABLE as u8;
        body.extend(b"/lib/a.so\0");
        assert_eq!(mapping(&body, 0).unwrap().file, None, "memory without a file");
        for (at, value) in [(40, 8), (44, 17), (48, 4711)] {
            body[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
        }
        let file = Some(FileId { device: 8 << 20 | 17, inode: 4711, address: 0 });
        let of_numbers = mapping(&body, 0).unwrap();
        assert_eq!((of_numbers.file, of_numbers.build_id), (file, &[][..]));
        let of_id = mapping(&body, MMAP_BUILD_ID).unwrap();
        assert_eq!((of_id.file, of_id.build_id), (None, &[17, 0, 0, 0, 0x67, 0x12, 0, 0][..]));
    }

    /// Newer kernels run the tracepoint for segments that could not be sent, too.
    #[test]
    fn a_segment_that_was_not_sent_is_no_retransmission() {
        let point = Tracepoint::Retransmit;
        let description = "\tfield:void * skaddr;\toffset:0;\tsize:8;\tsigned:0;\n\tfield:int err;\toffset:8;\tsize:4;\tsigned:1;\n";
        let layout = Layout::parse(description, point.fields());
        let is_one = |layout: &Layout, error: i32| {
            let raw = [&7u64.to_le_bytes()[..], &error.to_le_bytes()].concat();
            tracepoint(point, layout, &raw).is_some()
        };
        assert!(is_one(&layout, 0) && !is_one(&layout, -11));
        let older = Layout::parse(description.lines().next().unwrap(), point.fields());
        assert!(is_one(&older, -11), "older kernels have no such field");
        assert!(!is_one(&Layout::default(), 0), "a record that `frequent` refused");
    }

    /// Requests as the kernel writes their letters.
    #[test]
    fn the_operation_of_a_disk_request_is_its_first_letter_behind_a_flush() {
        use DiskOperation::{Flush, Other, Read, Write};
        let requests: [(&[&str], DiskOperation, bool); 7] = [
            (&["R", "RS", "RM", "RSM", "RF", "FR"], Read, false),
            (&["RA", "RAM", "RSA"], Read, true),
            (&["W", "WS", "WFS", "FW", "FWFS", "WSM", "FWFSM", "WSU"], Write, false),
            (&["WA"], Write, true),
            (&["F", "FS", "FF", "FFS"], Flush, false),
            // Zones: append, reset one or all, finish, open, close.
            (&["ZA", "ZR", "ZRA", "ZRAS", "ZRS", "ZF", "ZO", "ZC", "FZA"], Other, false),
            (&["D", "DS", "DE", "DF", "FD", "N", "NS", "FN", ""], Other, false),
        ];
        for (all, operation, is_background) in requests {
            for letters in all {
                let found = disk_operation(letters.as_bytes());
                assert_eq!(found, (operation, is_background), "{letters}");
            }
        }
    }
}
