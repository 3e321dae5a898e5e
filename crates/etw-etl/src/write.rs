//! Writing: records, buffers and files in the on-disk form, and wrong ones where a test needs them.
//!
//! [`TraceWriter`] writes a file in bounded memory; [`FileBuilder`] makes a small one in memory, and lets a test see to
//! every byte of it.
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

mod buffer_builder;
mod compressed_buffer;
mod compressor;
mod file_builder;
mod header_buffer;
mod open_buffers;
mod record;
pub mod sample;
mod trace_writer;

pub use buffer_builder::BufferBuilder;
pub use compressed_buffer::CompressedBuffer;
pub use file_builder::FileBuilder;
pub use header_buffer::{FileHeader, Starter, logfile_buffer, logfile_builder};
pub use record::{EncodeError, encode};
pub use trace_writer::{TraceWriter, WriteError, WriterOptions};
