//! Chunks and files, as Windows writes them.

pub mod chunk;
pub mod log;

pub use chunk::ChunkWriter;
pub use log::{LogWriter, Mark, Retention, Saved};
