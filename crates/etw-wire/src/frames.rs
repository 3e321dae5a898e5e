//! Frames of a live stream from a host to a consumer: u32 kind, u32 size, then so many bytes.

/// The first buffer of an `.etl` file: what the session is.
pub const START: u32 = 1;
/// A buffer, as it lies in files, up to its filled length.
pub const BUFFER: u32 = 2;
/// u64 time: no event before it, on the session's clock, will come any more.
pub const WATERMARK: u32 = 3;
/// u64 buffers, u64 events: what this consumer has lost because it did not read, since the last such frame.
pub const LOST: u32 = 4;
/// The session has ended.
pub const END: u32 = 5;
/// i64, u64: the sequence number of the first buffer that will come, and how many events the session has handed out before it,
/// since it began. Behind [`START`].
pub const POSITION: u32 = 6;
/// Largest frame.
pub const MAX_FRAME: usize = 16 << 20;
