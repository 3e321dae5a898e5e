//! One binary for all integration tests. `frame_pointer_builds` builds and runs it again, with and without frame pointers.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod fork;
mod frame_pointer;
mod frame_pointer_builds;
mod library;
mod modules;
mod notes;
mod reference;
mod same_as_backtrace;
mod signals;
mod stacks;
mod step;
