//! The plain LZ77 variant of MS-XCA, in which a `.etl` buffer with the compressed flag is stored.
//!
//! Windows calls the format `COMPRESSION_FORMAT_XPRESS` (`RtlCompressBuffer`). One buffer of a
//! trace is one stream: no header, no chunks, no checksum and no mark at the end, so the decoder
//! has to be told how many bytes to make.
//!
//! ```text
//! stream  = { flags: u32, 32 items }     flag bits are used from the highest to the lowest
//! item 0  = u8                           a literal byte
//! item 1  = u16  [half] [u8] [u16] [u32] a match
//!
//!  15                      3 2     0
//! ┌─────────────────────────┬───────┐    copy `length` bytes from `distance` bytes back; the two
//! │      distance − 1       │  len  │    may overlap
//! └─────────────────────────┴───────┘
//!
//! len   0..=6                             length = len + 3
//!       7, half 0..=14                    length = half + 7 + 3
//!       7, half 15, u8 0..=254            length = u8 + 15 + 7 + 3
//!       7, half 15, u8 255, u16 22..      length = u16 + 3
//!       7, half 15, u8 255, u16 0, u32    length = u32 + 3      (u32 22..)
//! ```
//!
//! `half` is four bits: the first match that needs one brings a byte and takes its low half, the
//! next match that needs one takes the high half of that same byte, wherever it was.
//!
//! Sources: MS-XCA 2.3 and 2.4, and 636 compressed buffers of real traces.
//!
//! ```
//! use etw_etl::lzxpress::{Level, compress, decompress};
//!
//! let mut stream = Vec::new();
//! compress(b"tick tick tick tick", &mut stream, Level::Fast);
//! let mut plain = [0; 19];
//! assert_eq!(decompress(&stream, &mut plain), Ok(stream.len()));
//! assert_eq!(&plain, b"tick tick tick tick");
//! ```

mod decoder;
mod encoder;
mod fast_search;
#[cfg(test)]
mod tests;

pub use decoder::decompress;

use std::fmt;

/// The effort for a shorter stream. Every decoder reads the streams of both levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Level {
    /// About twice as fast as [`Small`](Level::Small).
    #[default]
    Fast,
    /// Streams of traces are 5 to 8 % shorter than those of [`Fast`](Level::Fast).
    Small,
}

/// Encodes `input` as one stream, and appends that to `output`.
///
/// The stream holds at most `input.len() * 9 / 8 + 4` bytes. It does not say how long `input` was.
/// The work is proportional to the length of `input` at worst, whatever is in it.
pub fn compress(input: &[u8], output: &mut Vec<u8>, level: Level) {
    let end = compress_at(input, output, output.len(), level);
    output.truncate(end);
}

/// Puts the stream of `input` into `output` from a position on, over what is there, and returns its end. `output` gets longer if the longest
/// possible stream needs that, but never shorter: an output that is used again is not filled with zeros again.
pub(crate) fn compress_at(input: &[u8], output: &mut Vec<u8>, start: usize, level: Level) -> usize {
    match level {
        Level::Fast => fast_search::compress_at(input, output, start),
        Level::Small => encoder::compress_at(input, output, start),
    }
}

/// The shortest match the format can say.
const MIN_MATCH: usize = 3;
/// How far back a match can reach: 13 bits, plus one.
const WINDOW: usize = 1 << 13;
/// A 16- or 32-bit length below this should have used a shorter form: 15 for the half byte and 7
/// for the three bits. MS-XCA 2.4.4 makes it an error.
const LONG_LENGTH_MIN: u32 = 15 + 7;

/// Why a stream could not be decoded to the end, and how far it could be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LzxpressError {
    /// The offset in the input of the item that could not be decoded.
    pub input_offset: usize,
    /// How many bytes at the start of the output are good.
    pub output_len: usize,
    /// The fault at that offset.
    pub kind: LzxpressErrorKind,
}

/// A fault of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LzxpressErrorKind {
    /// The input ended before the output was full.
    Truncated,
    /// A match reaches back to before the start of the output.
    BadOffset {
        /// How many bytes back it reaches.
        distance: u32,
    },
    /// A 16- or 32-bit match length is one that a shorter form holds (less than 22).
    BadLength {
        /// The length as stored.
        length: u32,
    },
}

impl fmt::Display for LzxpressErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LzxpressErrorKind::Truncated => f.write_str("compressed data ends"),
            LzxpressErrorKind::BadOffset { distance } => {
                write!(f, "match reaches {distance} bytes back, before the start")
            }
            LzxpressErrorKind::BadLength { length } => {
                write!(f, "match has the impossible length {length}")
            }
        }
    }
}

impl fmt::Display for LzxpressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { input_offset, output_len, kind } = self;
        write!(f, "{kind} at compressed byte {input_offset}, after {output_len} bytes of output")
    }
}

impl std::error::Error for LzxpressError {}
