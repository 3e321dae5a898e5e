//! Finds the schemas of all events that a Windows can emit: of a mounted image, a share, a backup or a copied folder.
//!
//! * [`hive`]: keys and values of registry hives, read where they lie, and with their transaction logs if Windows did not close them;
//! * [`gather()`]: the providers that the registry lists, the programs with their compiled manifests and texts, TraceLogging metadata and
//!   MOF files, gathered into one schema pack.
//!
//! ```no_run
//! let options = etw_windows::Options::default();
//! let gathered = etw_windows::gather("/mnt/image".as_ref(), &options, |_| {})?;
//! println!("{}: {} providers", gathered.version, gathered.described);
//! std::fs::write("windows.etwpack", gathered.builder.finish())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing is executed, mounted or written. Files are read, never mapped, and hostile ones are bounded: they cost only themselves.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod gather;
pub mod hive;
mod hive_log;
mod installation;
mod program;
mod tree;

pub use gather::{Gathered, Options, Progress, Skipped, gather};
pub use installation::InstallationError;

/// The example of `README.md`, as a doc-test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
