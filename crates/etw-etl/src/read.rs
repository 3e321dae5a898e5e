//! Reading: one buffer, one file, many files in time order.

pub mod buffer;
mod buffer_loader;
mod buffer_memory;
mod byte_source;
pub mod file;
mod file_core;
mod first_buffer;
mod index;
mod indexer;
pub mod merge;
pub mod parts;
mod read_ahead;
mod resync;
mod slices;
mod spill;
mod translation;

pub use buffer::{BufferRecords, Item};
pub use byte_source::ByteSource;
pub use file::{HeaderRecord, Totals, TraceFile};
pub use merge::{OrderTime, Records, RecordsOptions, StoredRecord};
pub use parts::{Part, PartsOptions, read_in_parts};
pub use spill::unnamed_file;
pub use translation::Translation;
