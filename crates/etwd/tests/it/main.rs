//! A host and programs of other processes: the test binary starts itself again in a role.
#![allow(missing_docs)]
#![cfg(target_os = "linux")]

mod classic;
mod control;
mod crash;
mod daemon;
mod delivery;
mod faults;
mod halfway;
mod hostile;
mod ninth;
mod programs;
mod roles;
mod sessions;
mod stacks;
mod support;
mod takeover;
mod torture;
