//! Integration tests of the crate: the shaper from neutral events, without rights; the recorder where the machine permits it.

mod attribution;
mod closes;
mod command_lines;
#[cfg(target_os = "linux")]
mod compiled;
mod connections;
mod container;
mod descriptors;
mod disks;
mod exit_statuses;
mod faults;
mod file_keys;
mod file_names;
mod folders;
mod followers;
mod gaps;
mod ground_truth;
mod idle_cpus;
mod images;
mod invariants;
#[cfg(target_os = "linux")]
mod libraries;
mod live;
mod lives;
mod memory;
mod overlapping_calls;
mod perf_records;
#[cfg(feature = "wprp")]
mod recording_profile;
mod renamed_folders;
mod replay;
mod rundown;
mod schemas;
mod shaper;
mod thread_facts;
#[cfg(target_os = "linux")]
mod unusual_calls;
#[cfg(all(target_os = "linux", feature = "unwind"))]
mod unwind_replay;
#[cfg(all(target_os = "linux", feature = "unwind"))]
mod unwinding;
mod values;
mod waits;
