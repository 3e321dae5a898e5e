//! The operating system: shared memory, the fork page, membarrier, clock, thread ids, CPUs.
//!
//! Only Linux has all of these. On other systems pools lie on the heap, writers execute fences, the clock is the standard library's,
//! and processes share nothing.

mod barrier;
mod clock;
mod copy_past_caches;
mod cpu;
mod fork;
mod futex;
mod memory;
mod region;
mod thread;

pub use barrier::Barrier;
pub use clock::RawClock;
pub(crate) use clock::find_time_namespace;
pub use copy_past_caches::copy_past_caches;
pub(crate) use cpu::{Cpu, Moment};
pub use fork::process_generation;
pub(crate) use fork::{claim_fork_word, current_generation, fork_word};
pub(crate) use futex::{futex_wait, futex_wake};
pub use memory::Memory;
#[cfg(target_os = "linux")]
pub use memory::check_pool_fd;
pub use region::{Pages, Region};
#[cfg(target_os = "linux")]
pub use thread::{is_thread_busy, process_thread_alive};
pub(crate) use thread::{thread_alive, thread_id};
