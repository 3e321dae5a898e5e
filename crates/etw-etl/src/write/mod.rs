//! Writing: records, buffers and whole files in the on-disk form, and wrong ones where a test needs them.
//!
//! ```
//! use etw_etl::write::{self, FileBuilder};
//! use etw_types::{EventRecord, Guid, HeaderType};
//!
//! let mut file = FileBuilder::new();
//! let mut event = EventRecord::new(HeaderType::Event64, b"payload");
//! event.provider = Some(Guid::from_u128(0x11));
//! event.order_time = file.header.start_raw + 10;
//! file.push(0, &event)?;
//! let bytes = file.finish();
//! assert_eq!(bytes.len() % 0x10000, 0);
//! # Ok::<(), write::EncodeError>(())
//! ```

mod buffer;
mod file;
mod record;
pub mod sample;

pub use buffer::BufferBuilder;
pub use file::{FileBuilder, FileHeader};
pub use record::{EncodeError, encode, extended_chain};
