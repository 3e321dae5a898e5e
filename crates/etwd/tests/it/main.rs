//! A host and programs of other processes: the test binary starts itself again in a role.
#![allow(missing_docs)]
#![cfg(target_os = "linux")]

mod crash;
mod daemon;
mod delivery;
mod faults;
mod hostile;
mod programs;
mod roles;
mod sessions;
mod support;
mod torture;
