//! One binary; a file a claim. It is built and run once more with and once without frame pointers (`both_ways`).
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod both_ways;
mod fork;
mod frame_pointer;
mod library;
mod modules;
mod reference;
mod same_as_backtrace;
mod signals;
mod stacks;
mod step;
