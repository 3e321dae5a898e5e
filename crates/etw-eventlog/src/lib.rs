//! The Event Log: event logs as traces, and events as records of event logs.
//!
//! | module | content |
//! |---|---|
//! | [`trace`] | an `.evtx` file opened as a trace |
//! | [`translate`] | one record of a log as an event |
//! | [`kept_log`] | the log that a session's host appends to |
//! | [`record`] | one event as a record of a log |
//!
//! ```no_run
//! let log = etw_eventlog::trace::open("Application.evtx".as_ref())?;
//! let mut records = etw_etl::read::Records::new(vec![log]);
//! while let Some(record) = records.next() {
//!     println!("{:?} {}", record.provider, record.descriptor.id);
//! }
//! # Ok::<(), etw_etl::Error>(())
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod kept_log;
pub mod record;
mod shape;
pub mod trace;
pub mod translate;

/// The example of `README.md`, as a doc-test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
