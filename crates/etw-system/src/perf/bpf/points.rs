//! The tracepoints that programs can be made for, and the words that programs share with the host.

use super::super::Tracepoint;

/// Offset of a word that is not 0 while events are recorded.
pub const GATE: usize = 0;
/// Offset of the number of lost records that are in the trace; programs do not use it.
pub const REPORTED: usize = 8;
/// Offset of the id of the host, whose own system calls would feed the trace.
pub const OWN: usize = 16;
/// Offset of a bit for each system call below [`MAX_CALLS`] that is recorded.
pub const CALLS: usize = 24;
/// System calls with higher numbers are recorded if all calls are.
pub const MAX_CALLS: usize = 512;
/// Offset of the numbers of records for which the ring was full, one for each of [`POINTS`].
const LOST: usize = CALLS + MAX_CALLS / 8;
/// Offset of the numbers of runs of the programs, one for each of [`POINTS`]. Only programs beside which the kernel counts have them.
const RUNS: usize = LOST + POINTS.len() * 8;
/// Bytes that programs share with the host.
pub const SHARED_SIZE: u32 = (BASES + 8 * BASES_COUNT) as u32;
/// Offset of a byte for each system call below [`MAX_CALLS`]: which of its arguments are paths.
pub const PATHS: usize = RUNS + POINTS.len() * 8;
/// Offset of a word that is not 0 while arguments of programs are recorded: as long as the beginnings of processes are, which is longer than
/// other events.
pub const ARGUMENTS_GATE: usize = PATHS + MAX_CALLS;
/// Offset of the number of bytes that are copied of a stack without a known base.
pub const SAMPLE_STACK: usize = ARGUMENTS_GATE + 8;
/// Offset of the largest number of bytes that are copied of a stack with a known base.
pub const LARGEST_SAMPLE_STACK: usize = SAMPLE_STACK + 8;
/// Offset of the table of `stack_bases`, and its entries: the lower bits of a thread's id are its entry.
pub const BASES: usize = 4096;
pub const BASES_COUNT: usize = 1 << BASE_BITS;
pub const BASE_BITS: u32 = 12;

/// Tracepoints that programs can be made for, and samples.
pub const POINTS: [Tracepoint; 23] = [
    Tracepoint::Switch,
    Tracepoint::Waking,
    Tracepoint::NewTaskWakeup,
    Tracepoint::InterruptEntry,
    Tracepoint::InterruptExit,
    Tracepoint::SoftInterruptEntry,
    Tracepoint::SoftInterruptExit,
    Tracepoint::Exec,
    Tracepoint::SyscallEnter,
    Tracepoint::SyscallExit,
    Tracepoint::DiskIssue,
    Tracepoint::DiskComplete,
    Tracepoint::SocketState,
    Tracepoint::SocketSend,
    Tracepoint::SocketReceive,
    Tracepoint::Retransmit,
    Tracepoint::DiskRequeue,
    Tracepoint::CallPaths,
    Tracepoint::IdleSwitch,
    Tracepoint::IdleWaking,
    Tracepoint::DiskQueue,
    Tracepoint::ExitStatus,
    Tracepoint::CpuSample,
];
/// Tracepoints of interrupts. A kernel may run no program and write no sample there while a certain thread runs, but it counts them.
const COUNTED: [Tracepoint; 9] = [
    Tracepoint::InterruptEntry,
    Tracepoint::InterruptExit,
    Tracepoint::SoftInterruptEntry,
    Tracepoint::SoftInterruptExit,
    Tracepoint::DiskIssue,
    Tracepoint::DiskRequeue,
    Tracepoint::DiskComplete,
    Tracepoint::SocketState,
    Tracepoint::Retransmit,
];

/// Offset of the number of lost records of a tracepoint.
pub fn lost_word(point: Tracepoint) -> Option<usize> {
    Some(LOST + POINTS.iter().position(|one| *one == point)? * 8)
}

/// Offset of the number of runs of a tracepoint's program; `None`: they are not counted.
pub fn runs_word(point: Tracepoint) -> Option<usize> {
    COUNTED.contains(&point).then_some(())?;
    Some(RUNS + POINTS.iter().position(|one| *one == point)? * 8)
}
