//! Tests of the ring from outside; see each file.
#![allow(missing_docs)]

mod basic;
#[cfg(target_os = "linux")]
mod child;
mod flow;
mod malicious;
mod many;
#[cfg(target_os = "linux")]
mod replay;
#[cfg(target_os = "linux")]
mod signals;
mod support;
mod threads;
