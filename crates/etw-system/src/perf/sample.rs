//! Where samples have their parts. Those of perf's rings and those of programs begin alike:
//!
//! ```text
//! 00 u32 9 (a sample)  04 u16 misc  06 u16 size of the record   08 u64 number of the event
//! 10 u32 process   14 u32 thread   18 u64 nanoseconds of CLOCK_MONOTONIC
//! ```
//!
//! Programs share one ring: behind it are `u32` CPU and `u32` 0. A ring of perf is that of one CPU, and its samples do not have the CPU's number.
//! Nor do they have `PERF_SAMPLE_IP`: it is the first frame of the call chain. Each of the two takes time at each switch of threads.

/// The kind of these records.
pub const SAMPLE: u32 = 9;
/// `u64`
pub const NUMBER: usize = 8;
/// `u32`
pub const PROCESS: usize = 0x10;
/// `u32`
pub const THREAD: usize = 0x14;
/// `u64`
pub const TIME: usize = 0x18;
/// The end of what all samples have.
pub const REST: usize = 0x20;

/// The ring in which a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordRing {
    /// One of perf, of this CPU.
    OfCpu(u16),
    /// The one of the programs in the kernel.
    OfPrograms,
}

impl RecordRing {
    /// The CPU of a sample, and where its other parts begin; `None`: the record is cut.
    pub(super) fn cpu_and_rest(self, sample: &[u8]) -> Option<(u16, usize)> {
        match self {
            RecordRing::OfCpu(cpu) => Some((cpu, REST)),
            RecordRing::OfPrograms => Some((etw_types::le::u32(sample, REST)? as u16, REST + 8)),
        }
    }
}
