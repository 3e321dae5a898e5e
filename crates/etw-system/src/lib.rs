//! Events of a Linux system in the form of Windows' kernel events.
//!
//! ```text
//!   sources                        neutral events        shaper                      records
//!   perf rings, programs in the ──► NeutralEvent ───────► processes, threads, ─────► SYSTEM, PERFINFO,
//!   kernel, /proc, ELF files                              images, stacks, pairs      FULL with payloads
//!   (system calls, Linux only)
//! ```
//!
//! * [`flags`], [`stack_names`], [`system_providers`]: the words by which sessions ask for events, and their bits;
//! * [`system_calls`]: the calls that use files or change memory;
//! * [`neutral`]: the events that sources give;
//! * [`Shaper`]: the state machine, without system calls; [`record`]: its output;
//! * `recording_profile` (feature `wprp`): recording profiles of Windows Performance Recorder;
//! * `unwind` (Linux, feature `unwind`): call stacks from copies of programs' stacks;
//! * [`switch_chains`]: whether the switches of a trace are complete;
//! * [`elf`]: headers and build ids of executable files;
//! * `Recorder` (Linux): the perf rings and `/proc` of one session, with its shaper; `availability`: what this machine permits;
//! * `process_root` (Linux): files at paths of other processes.
//!
//! | feature | adds |
//! |---|---|
//! | `wprp` | `recording_profile`: files of recording profiles |
//! | `unwind` | call stacks of programs without frame pointers |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod elf;
pub mod flags;
pub mod neutral;
pub mod record;
#[cfg(feature = "wprp")]
#[cfg_attr(docsrs, doc(cfg(feature = "wprp")))]
pub mod recording_profile;
mod shaper;
pub mod stack_names;
pub mod switch_chains;
pub mod system_calls;
pub mod system_providers;

#[cfg(target_os = "linux")]
pub mod availability;
#[cfg(target_os = "linux")]
mod clocks;
#[cfg(target_os = "linux")]
mod exit_statuses;
#[cfg(all(test, target_os = "linux", feature = "unwind"))]
mod flat_memory;
#[cfg(target_os = "linux")]
mod kernel_image;
#[cfg(target_os = "linux")]
mod mapped_file;
#[cfg(target_os = "linux")]
mod mapped_images;
#[cfg(target_os = "linux")]
mod own_rights;
#[cfg(target_os = "linux")]
mod pace;
#[cfg(target_os = "linux")]
pub mod perf;
#[cfg(target_os = "linux")]
mod process_files;
#[cfg(target_os = "linux")]
pub mod process_root;
#[cfg(target_os = "linux")]
mod recorder;
#[cfg(target_os = "linux")]
mod ring_facts;
#[cfg(target_os = "linux")]
mod ring_sizes;
#[cfg(target_os = "linux")]
mod sources;
#[cfg(all(target_os = "linux", feature = "unwind"))]
mod stack_sizes;
#[cfg(target_os = "linux")]
mod stacks;
#[cfg(target_os = "linux")]
mod system_call_routines;
#[cfg(target_os = "linux")]
mod system_facts;
#[cfg(target_os = "linux")]
mod thread_ids;
#[cfg(all(target_os = "linux", feature = "unwind"))]
#[cfg_attr(docsrs, doc(cfg(feature = "unwind")))]
pub mod unwind;
#[cfg(target_os = "linux")]
mod wanted_events;

#[cfg(target_os = "linux")]
pub use own_rights::{ProcError, Refusal, check_proc};
#[cfg(target_os = "linux")]
pub use perf::{ClassLosses, FinishedRings, HeldRing, OpenRing};
#[cfg(target_os = "linux")]
pub use recorder::{KnownProcesses, Recorder, Stored};
#[cfg(target_os = "linux")]
pub use ring_facts::{LeftRing, RingFacts};
pub use shaper::{
    Configuration, Disk, KernelFunction, Machine, Options, ProcessImages, Shaper, Turn, Vanished,
};
#[cfg(target_os = "linux")]
pub use thread_ids::{boot_id, pid_namespace};
#[cfg(target_os = "linux")]
pub use wanted_events::StartError;

/// The default time between two samples of a CPU, in 100 ns.
pub const SAMPLE_INTERVAL: u32 = 10_000;
