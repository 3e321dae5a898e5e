//! The bodies of the fuzz targets, a module a crate. The stable tests of each crate include its module and replay
//! `fuzz/corpus/TARGET/` with it.
#![forbid(unsafe_code)]

pub mod decode;
pub mod etl;
pub mod eventlog;
pub mod evtx;
pub mod host;
pub mod mc;
pub mod recording_profile;
#[cfg(target_os = "linux")]
pub mod ring;
#[cfg(target_os = "linux")]
pub mod stack;
pub mod symbols;
#[cfg(target_os = "linux")]
pub mod system;
pub mod tracewpp;
#[cfg(target_os = "linux")]
pub mod unwind;
pub mod windows;
#[cfg(target_os = "linux")]
pub mod wire;
