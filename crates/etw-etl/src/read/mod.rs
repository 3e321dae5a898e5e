//! Reading: one buffer, one file, many files in time order.

mod ahead;
pub mod buffer;
pub mod file;
mod index;
mod load;
pub mod merge;
mod resync;
mod source;
mod spill;
mod start;
mod walk;

pub use buffer::{BufferRecords, Item};
pub use file::{HeaderRecord, Totals, TraceFile};
pub use merge::{OrderTime, Records, RecordsOptions};
pub use source::Source;
