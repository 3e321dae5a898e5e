//! The `.etl` container of Event Tracing for Windows: read, merge and write, on any system. Payloads stay bytes.
//!
//! Layers, from the bottom; each is public and usable alone:
//!
//! * [`header`]: the logfile header, [`LogfileHeader`](header::LogfileHeader); buffer headers are
//!   [`BufferHeader`](etw_types::BufferHeader) of `etw-types`;
//! * [`record`]: the headers of single records;
//! * [`lzxpress`]: the compression of buffers;
//! * [`read::buffer`]: one buffer in memory → [`EventRecord`](etw_types::EventRecord)s; no file, no system;
//! * [`read::file`]: a file, as an index of its buffers;
//! * [`read::merge`]: all records of one or several files in time order, in bounded memory;
//! * [`read::parts`]: the same on several threads, each of which reads slices of time;
//! * [`relog`]: files rewritten as one;
//! * [`mod@repair`]: what a killed session left, completed;
//! * [`mod@write`]: records, buffers and files, valid or wrong on purpose.
//!
//! ```
//! use etw_etl::{read::{Records, TraceFile}, write};
//!
//! let bytes = write::sample::trace();
//! let file = TraceFile::from_bytes("sample.etl", bytes)?;
//! let mut records = Records::new(vec![file]);
//! let mut last = i64::MIN;
//! while let Some(record) = records.next() {
//!     assert!(record.order_time >= last);
//!     last = record.order_time;
//! }
//! assert!(records.damage().is_empty());
//! # Ok::<(), etw_etl::Error>(())
//! ```
//!
//! Limits: little-endian files of Windows XP and later; a merge holds one open buffer for each CPU of each file.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod damage;
pub mod header;
pub mod lzxpress;
pub mod read;
pub mod record;
pub mod relog;
pub mod repair;
pub mod write;

pub use damage::{Damage, DamageKind, DamageLog, Error, FoundInstead};
pub use read::unnamed_file;

/// The example of `README.md`, as a doc-test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
