//! Tests of the ring from outside; see each file.
#![allow(missing_docs)]

mod backpressure;
mod drain_together;
mod malicious;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(target_os = "linux")]
mod replay;
#[cfg(target_os = "linux")]
mod signals;
mod support;
mod threads;
mod usual;
mod writes;
