//! The `.evtx` container of the Windows Event Log: reading, writing, and binary XML.
//!
//! A log is a file header and chunks of 64 KiB. A chunk holds records; a record holds one event as binary XML: a
//! template and the values that are substituted into it. Names and templates are shared by the records of a chunk.
//!
//! | layer | module | what |
//! |---|---|---|
//! | bytes | [`layout`] | headers, offsets, hashes |
//! | tree | [`tree`], [`value`] | templates, elements, typed values |
//! | chunk | [`chunk`] | records of one chunk, found again behind damage |
//! | log | [`log`] | a file: its chunks in the order of their records |
//! | old logs | [`evt`] | the format of Windows XP |
//! | text | [`xml`], [`json`], [`fields`] | Windows' XML, JSON, named values |
//! | search | [`query`] | XPath and query lists |
//! | positions | [`bookmark`] | where a reader stopped |
//! | write | [`mod@write`] | chunks and files |
//!
//! ```no_run
//! let log = etw_evtx::Log::open("System.evtx")?;
//! let mut records = log.records();
//! while let Some(record) = records.next()? {
//!     println!("{} {} {}", record.id(), record.time(), record.to_xml()?);
//! }
//! for damage in records.damage() {
//!     eprintln!("{damage}");
//! }
//! # Ok::<(), etw_evtx::Error>(())
//! ```
//!
//! # Limits
//!
//! Memory: one chunk and its templates for each [`log::Records`] and each [`chunk::Chunk`], and up to half a megabyte of templates'
//! definitions for each [`Log`], whatever the file's size. A record that
//! would render to more than [`tree::MAX_WORK`] nodes is refused with [`Error::TooLarge`].
//!
//! # Source of the format
//!
//! The layout was worked out from files that Windows wrote; a chunk that is parsed and written again has the same
//! bytes (`tests/it/reencode.rs`). Whether Windows itself accepts a file of ours is not tested here.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod bookmark;
pub mod chunk;
mod error;
pub mod evt;
mod facts;
pub mod fields;
pub mod json;
mod json_plan;
pub mod layout;
mod library;
pub mod log;
mod outline;
mod parse;
pub mod query;
pub mod record;
mod summary;
pub mod system;
mod system_plan;
pub mod tree;
pub mod value;
pub mod write;
pub mod xml;

pub use error::{Damage, DamageKind, Error};
pub use log::Log;
pub use record::Record;

/// The example of `README.md`, as a doc-test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
