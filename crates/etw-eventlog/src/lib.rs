//! The Event Log: event logs as traces, and events as records of event logs.
//!
//! | module | content |
//! |---|---|
//! | [`trace`] | an `.evtx` file opened as a trace |
//! | [`mod@open`] | an `.evtx` or `.evt` file opened for queries |
//! | [`trace_copy`] | the events of a trace as the records of a log |
//! | [`translate`] | one record of a log as an event |
//! | [`kept_log`] | the log that a session's host appends to |
//! | [`channel_logs`] | the logs of all channels behind one session |
//! | [`log_file`] | one log that buffers are stored in, each record once |
//! | [`archives`] | the files of a log that was archived |
//! | [`import`] | entries of journald and syslog as records |
//! | [`report`] | what a program gives to `ReportEvent` |
//! | [`record`] | one event as a record of a log |
//! | [`rendering`] | names and the message of a record |
//! | [`export`] | selected records in a file of their own |
//! | [`result_set`] | the records that a query selects, with a position |
//! | [`subscription`] | new records, as they are written |
//! | [`stored_record`] | a record that outlives its log |
//! | [`registry`] | every channel, and changes of their settings |
//! | [`channel`] | one channel with its settings |
//! | [`config_file`] | a channel's settings as XML |
//! | [`permissions`] | permissions of the files of logs |
//! | [`accounts`] | users and groups of this system |
//! | [`access`] | who may read, write and clear a log |
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

pub mod access;
pub mod accounts;
pub mod archives;
pub mod channel;
pub mod channel_logs;
mod computer;
pub mod config_file;
pub mod export;
pub mod import;
pub mod kept_log;
pub mod log_file;
pub mod open;
pub mod permissions;
pub mod record;
mod record_writer;
pub mod registry;
pub mod rendering;
pub mod report;
pub mod result_set;
mod shape;
pub mod stored_record;
pub mod subscription;
pub mod trace;
pub mod trace_copy;
pub mod translate;

pub use computer::is_this_computer;

/// The example of `README.md`, as a doc-test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
