//! The vocabulary of Event Tracing for Windows: the nouns that every other openetw crate speaks.
//!
//! Layers, from the bottom:
//!
//! * [`le`]: little-endian reads out of a byte slice that may be too short;
//! * [`Guid`], [`Level`], [`Keyword`], [`Opcode`], [`Channel`], [`EventDescriptor`]: values of an event header;
//! * [`FileTime`], [`Clock`]: raw session timestamps and what they mean;
//! * [`winmeta`]: names of levels, opcodes and keywords that every manifest knows;
//! * [`ExtendedItems`], [`EventRecord`]: one event, borrowed from the buffer it lies in.
//!
//! No I/O, no allocation in any hot path, no dependency but a small SHA-1 for [`Guid::from_name`].
//!
//! ```
//! use etw_types::{Clock, ClockType, FileTime, Guid};
//!
//! let guid: Guid = "68fdd900-4a3e-11d1-84f4-0000f80464e3".parse().unwrap();
//! assert_eq!(guid.to_string(), "68fdd900-4a3e-11d1-84f4-0000f80464e3");
//!
//! // Half a second after a session that started at the beginning of 2020, on a 10 MHz counter.
//! let clock = Clock {
//!     kind: ClockType::QPC,
//!     start: FileTime(132_223_104_000_000_000),
//!     raw_start: 1_000,
//!     frequency: 10_000_000,
//! };
//! assert_eq!(clock.filetime(5_001_000).unwrap().to_string(), "2020-01-01T00:00:00.5000000Z");
//! ```
//!
//! | feature | adds |
//! |---|---|
//! | `serde` | GUIDs as text and masks as numbers, for messages and files of settings |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

#[macro_use]
mod flags;

mod buffer_header;
mod case;
mod classic;
mod decimal;
mod descriptor;
mod enable;
mod event_flags;
mod event_header;
mod extended_item;
mod filter;
mod guid;
mod header_type;
mod hex;
mod hint;
mod kernel_group;
mod layout;
pub mod le;
mod log_file_mode;
mod log_item;
pub mod message_id;
mod module;
#[doc(hidden)]
pub mod raw;
mod record;
mod schema_blob;
mod session_report;
mod severity;
mod status;
mod time;
mod time_namespace;
pub mod winmeta;

pub use buffer_header::{BufferFlags, BufferHeader, BufferType};
pub use case::fold_case;
pub use classic::{Classic, ClassicHeader, EventClass, KernelClass, MessageId};
pub use decimal::eight_digits;
pub use descriptor::{Channel, EventDescriptor, Keyword, Level, Opcode};
pub use enable::{LevelKeyword, Wanted};
pub use event_flags::{EventFlags, EventProperty, MessageFlags};
pub use event_header::EventHeader;
pub use extended_item::{
    ExtType, ExtendedItem, ExtendedItems, ExtendedItemsBuf, ExtendedIter, ItemTooLarge,
};
pub use filter::{IdFilter, LevelKeywordFilter, NameFilter, StackFilter};
pub use guid::{Guid, ParseGuidError};
pub use header_type::HeaderType;
pub use hex::HEX_PAIRS;
pub use hint::cold_path;
pub use kernel_group::{
    EVENT_METADATA, EVENT_TRACE, Hook, LOST_EVENT, SYSTEM_TRACE, is_system_class,
};
pub use layout::{Field, FieldValue};
pub use log_file_mode::LogFileMode;
pub use log_item::LogItem;
pub use module::LoadedModule;
pub use record::{CpuTimes, EventRecord, Position};
pub use schema_blob::{
    EVENT_INFO, MAP_INFO, SCHEMA_NOTE_OWNER, SCHEMA_NOTE_TYPE, SchemaBlob, SchemaRecord,
    SchemaRecordRef, put_schema_record, schema_blob, schema_records,
};
pub use session_report::{
    EVENT_SOURCES, EVENT_SOURCES_NAME, SESSION_REPORTS, SYSTEM_EVENTS, SYSTEM_EVENTS_NAME,
    UNIVERSAL_SYSTEM, is_session_report,
};
pub use severity::Severity;
pub use status::Status;
pub use time::{Clock, ClockType, FileTime, SystemTime};
pub use time_namespace::time_namespace_offset;

/// The example of `README.md`, as a doc-test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
