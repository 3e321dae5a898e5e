//! Frames of a live stream from a host to a consumer: u32 kind, u32 size, then so many bytes.

/// The first buffer of an `.etl` file: what the session is.
pub const START: u32 = 1;
/// A buffer, as it lies in files, up to its filled length.
pub const BUFFER: u32 = 2;
/// u64 time: no event before it, on the session's clock, will come any more in a buffer, slices aside.
pub const WATERMARK: u32 = 3;
/// u64 buffers, u64 events: what this consumer has lost because it did not read, since the last such frame.
pub const LOST: u32 = 4;
/// The session has ended.
pub const END: u32 = 5;
/// i64, u64: the sequence number of the first buffer that will come, and how many events the session has handed out before it,
/// since it began. Behind [`START`].
pub const POSITION: u32 = 6;
/// u32 CPU, u32 offset, then records: those of a buffer that is still open, from that offset on, each once. The first slice of
/// a buffer begins behind its header. The [`BUFFER`] comes with all of its records when it is full; if it never comes, it is
/// in a [`LOST`] frame.
pub const SLICE: u32 = 7;
/// u64 time: no event before it, on the session's clock, will come any more that was not in a slice or buffer.
pub const SLICES_WATERMARK: u32 = 8;
/// Largest frame.
pub const MAX_FRAME: usize = 16 << 20;
