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
//! use etw_etl::lzxpress::{compress, decompress};
//!
//! let mut stream = Vec::new();
//! compress(b"tick tick tick tick", &mut stream);
//! let mut plain = [0; 19];
//! assert_eq!(decompress(&stream, &mut plain), Ok(stream.len()));
//! assert_eq!(&plain, b"tick tick tick tick");
//! ```

use std::{fmt, mem};

/// The shortest match the format can say.
const MIN_MATCH: usize = 3;
/// How far back a match can reach: 13 bits, plus one.
const WINDOW: usize = 1 << 13;
/// A 16- or 32-bit length below this should have used a shorter form: 15 for the half byte and 7
/// for the three bits. MS-XCA 2.4.4 makes it an error.
const LONG_LENGTH_MIN: u32 = 15 + 7;

/// Why a stream could not be decoded to the end, and how far it could be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LzxpressError {
    /// Where in the input the item begins that could not be decoded.
    pub input_offset: usize,
    /// How many bytes at the start of the output are good.
    pub output_len: usize,
    /// What is wrong there.
    pub kind: LzxpressErrorKind,
}

/// What is wrong with a stream.
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

/// Decodes `input` until `output` is full, and returns how many bytes of `input` that took.
///
/// What is left of `input` is not looked at: an encoder may end with a flag word that has no items
/// (`ff ff ff ff`, 11 of 359 buffers of one real file). A match that goes on past the end of
/// `output` is cut there, so the first *n* bytes of a stream can be had by asking for *n*. (MS-XCA
/// 2.4.4 calls that an invalid stream, but means by `output` all the room there is.)
///
/// # Errors
///
/// [`LzxpressError`], where the input ends too early or is not valid. The first
/// [`output_len`](LzxpressError::output_len) bytes of `output` are then what the stream before the
/// damage decodes to; the bytes after them are unspecified.
pub fn decompress(input: &[u8], output: &mut [u8]) -> Result<usize, LzxpressError> {
    let mut decoder = Decoder { flags: NO_FLAGS, half: NO_HALF, input_pos: 0, output_pos: 0 };
    decoder.run_fast(input, output);
    decoder.run_checked(input, output)
}

/// Unread flag bits, the next one highest, with a one bit below the last: here none are left.
const NO_FLAGS: u64 = 1 << 63;
/// No half of a length byte is waiting.
const NO_HALF: u8 = 0xff;

/// Input a turn of the fast loop may look at: 32 literals, then a flag word or a whole match.
const INPUT_ROOM: usize = 32 + 2 + 1 + 1 + 2 + 4;
/// Output a turn of the fast loop may overwrite: 32 literals, then two chunks.
const OUTPUT_ROOM: usize = 32 + 2 * CHUNK;
/// What the fast loop copies at once, needed or not.
const CHUNK: usize = 16;

struct Decoder {
    flags: u64,
    /// The high half of a length byte, waiting for the next match that needs one, or [`NO_HALF`].
    half: u8,
    input_pos: usize,
    output_pos: usize,
}

impl Decoder {
    /// Decodes while a whole turn is sure to fit. Stops before anything it can't do, be it near the
    /// end or an error, for [`run_checked`](Self::run_checked) to go on from there.
    #[inline]
    fn run_fast(&mut self, input: &[u8], output: &mut [u8]) {
        let Some(input_last) = input.len().checked_sub(INPUT_ROOM) else { return };
        let Some(output_last) = output.len().checked_sub(OUTPUT_ROOM) else { return };
        let Self { mut flags, mut half, mut input_pos, mut output_pos } = *self;

        while input_pos <= input_last && output_pos <= output_last {
            // Literals up to the next one bit. They are few most of the time.
            let run = flags.leading_zeros() as usize;
            copy_chunk_from(input, input_pos, output, output_pos);
            if run > CHUNK {
                copy_chunk_from(input, input_pos + CHUNK, output, output_pos + CHUNK);
            }
            input_pos += run;
            output_pos += run;
            flags <<= run;

            if flags == NO_FLAGS {
                flags = u64::from(read_u32(input, input_pos)) << 32 | 1 << 31;
                input_pos += 4;
                continue;
            }

            let word = read_u16(input, input_pos);
            let distance = usize::from(word >> 3) + 1;
            if distance > output_pos {
                break;
            }
            let mut length = usize::from(word & 7) + MIN_MATCH;
            let mut pos = input_pos + 2;
            if word & 7 == 7 {
                // Which half it is can't be foreseen, so both are computed rather than branched on.
                let byte = input[pos];
                let fresh = half == NO_HALF;
                let low = if fresh { byte & 15 } else { half };
                let high = if fresh { byte >> 4 } else { NO_HALF };
                pos += usize::from(fresh);
                length += usize::from(low);
                if low == 15 {
                    let byte = input[pos];
                    pos += 1;
                    length += usize::from(byte);
                    if byte == 255 {
                        let mut long = u32::from(read_u16(input, pos));
                        pos += 2;
                        if long == 0 {
                            long = read_u32(input, pos);
                            pos += 4;
                        }
                        if long < LONG_LENGTH_MIN {
                            break;
                        }
                        length = (long as usize).saturating_add(MIN_MATCH);
                    }
                    if length > output_last.saturating_sub(output_pos) {
                        break;
                    }
                    half = high;
                    input_pos = pos;
                    flags <<= 1;
                    copy_match_long(output, output_pos, distance, length);
                    output_pos += length;
                    continue;
                }
                half = high;
            }
            input_pos = pos;
            flags <<= 1;
            copy_match_short(output, output_pos, distance);
            output_pos += length;
        }
        *self = Self { flags, half, input_pos, output_pos };
    }

    /// Decodes one item at a time, checking everything.
    fn run_checked(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, LzxpressError> {
        while self.output_pos < output.len() {
            let start = self.input_pos;
            self.item(input, output).map_err(|kind| LzxpressError {
                input_offset: start,
                output_len: self.output_pos,
                kind,
            })?;
        }
        Ok(self.input_pos)
    }

    /// Decodes a flag word or an item, into an output that has room for a byte.
    fn item(&mut self, input: &[u8], output: &mut [u8]) -> Result<(), LzxpressErrorKind> {
        let mut rest = &input[self.input_pos..];
        if self.flags == NO_FLAGS {
            self.flags = u64::from(u32::from_le_bytes(take(&mut rest)?)) << 32 | 1 << 31;
        } else if self.flags >> 63 == 0 {
            let [byte] = take(&mut rest)?;
            output[self.output_pos] = byte;
            self.output_pos += 1;
            self.flags <<= 1;
        } else {
            let word = u16::from_le_bytes(take(&mut rest)?);
            let mut length = u32::from(word & 7);
            if length == 7 {
                let mut low = mem::replace(&mut self.half, NO_HALF);
                if low == NO_HALF {
                    let [byte] = take(&mut rest)?;
                    self.half = byte >> 4;
                    low = byte & 15;
                }
                length += u32::from(low);
                if low == 15 {
                    let [byte] = take(&mut rest)?;
                    length += u32::from(byte);
                    if byte == 255 {
                        length = u32::from(u16::from_le_bytes(take(&mut rest)?));
                        if length == 0 {
                            length = u32::from_le_bytes(take(&mut rest)?);
                        }
                        if length < LONG_LENGTH_MIN {
                            return Err(LzxpressErrorKind::BadLength { length });
                        }
                    }
                }
            }
            let distance = usize::from(word >> 3) + 1;
            if distance > self.output_pos {
                return Err(LzxpressErrorKind::BadOffset { distance: distance as u32 });
            }
            let length = (length as usize).saturating_add(MIN_MATCH);
            self.output_pos = copy_match_exact(output, self.output_pos, distance, length);
            self.flags <<= 1;
        }
        self.input_pos = input.len() - rest.len();
        Ok(())
    }
}

/// Takes `N` bytes off the front of `rest`.
fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], LzxpressErrorKind> {
    let (head, tail) = rest.split_first_chunk().ok_or(LzxpressErrorKind::Truncated)?;
    *rest = tail;
    Ok(*head)
}

#[inline(always)]
fn read_u16(bytes: &[u8], pos: usize) -> u16 {
    u16::from_le_bytes(array(bytes, pos))
}

#[inline(always)]
fn read_u32(bytes: &[u8], pos: usize) -> u32 {
    u32::from_le_bytes(array(bytes, pos))
}

#[inline(always)]
fn array<const N: usize>(bytes: &[u8], pos: usize) -> [u8; N] {
    bytes[pos..pos + N].try_into().expect("a slice of N bytes")
}

#[inline(always)]
fn copy_chunk_from(input: &[u8], from: usize, output: &mut [u8], to: usize) {
    output[to..to + CHUNK].copy_from_slice(&input[from..from + CHUNK]);
}

#[inline(always)]
fn copy_chunk(output: &mut [u8], from: usize, to: usize) {
    let chunk: [u8; CHUNK] = array(output, from);
    output[to..to + CHUNK].copy_from_slice(&chunk);
}

/// The bytes a match with a distance below [`CHUNK`] repeats, over and over, and after how many
/// bytes of them the next chunk is the same again.
#[inline(always)]
fn pattern(output: &[u8], to: usize, distance: usize) -> ([u8; CHUNK], usize) {
    let (mask, multiplier, step) = PATTERNS[distance & (CHUNK - 1)];
    let bytes = u128::from_le_bytes(array(output, to - distance));
    ((bytes & mask).wrapping_mul(multiplier).to_le_bytes(), step)
}

/// For a distance: a mask of so many bytes, a factor that repeats them, and the largest multiple of
/// the distance that fits a chunk.
static PATTERNS: [(u128, u128, usize); CHUNK] = {
    let mut table = [(0, 0, 1); CHUNK];
    let mut distance = 1;
    while distance < CHUNK {
        let mut multiplier = 0;
        let mut at = 0;
        while at < CHUNK {
            multiplier |= 1_u128 << (8 * at);
            at += distance;
        }
        let mask = (1 << (8 * distance)) - 1;
        table[distance] = (mask, multiplier, CHUNK / distance * distance);
        distance += 1;
    }
    table
};

/// Copies a match of up to 24 bytes (the longest without a length byte of its own). Writes up to
/// two chunks whatever the length.
#[inline(always)]
fn copy_match_short(output: &mut [u8], to: usize, distance: usize) {
    if distance >= CHUNK {
        copy_chunk(output, to - distance, to);
        copy_chunk(output, to + CHUNK - distance, to + CHUNK);
    } else {
        // Steps are 9 bytes or more, so two chunks make 25.
        let (chunk, step) = pattern(output, to, distance);
        output[to..to + CHUNK].copy_from_slice(&chunk);
        output[to + step..to + step + CHUNK].copy_from_slice(&chunk);
    }
}

/// Copies a match of any length in chunks. Writes up to a chunk more than the length.
// Inlined, it takes registers from the fast loop, which costs it some 3 %.
#[inline(never)]
fn copy_match_long(output: &mut [u8], to: usize, distance: usize, length: usize) {
    let end = to + length;
    let mut to = to;
    if distance >= CHUNK {
        while to < end {
            copy_chunk(output, to - distance, to);
            to += CHUNK;
        }
    } else {
        let (chunk, step) = pattern(output, to, distance);
        while to < end {
            output[to..to + CHUNK].copy_from_slice(&chunk);
            to += step;
        }
    }
}

/// Copies as much of a match as the output has room for, and nothing beyond. Returns where it ends.
fn copy_match_exact(output: &mut [u8], to: usize, distance: usize, length: usize) -> usize {
    let end = output.len().min(to.saturating_add(length));
    let from = to - distance;
    let mut to = to;
    // What is there repeats, so each copy can be twice as long as the last.
    while to < end {
        let length = (end - to).min(to - from);
        output.copy_within(from..from + length, to);
        to += length;
    }
    end
}

/// Encodes `input` as one stream, and appends that to `output`.
///
/// The stream holds at most `input.len() * 9 / 8 + 4` bytes. It does not say how long `input` was.
/// The work is proportional to the length of `input` at worst, whatever is in it.
pub fn compress(input: &[u8], output: &mut Vec<u8>) {
    output.reserve(input.len() + input.len() / 8 + 4);
    let mut finder = Finder::new(input);
    let mut encoder = Encoder::new(output);
    let mut pos = 0;
    let mut found = finder.insert_and_find(0, MIN_MATCH - 1);
    while pos < input.len() {
        let Some(here) = found else {
            encoder.literal(input[pos]);
            pos += 1;
            found = finder.insert_and_find(pos, MIN_MATCH - 1);
            continue;
        };
        let mut inserted = pos + 1;
        if here.length < LAZY_LENGTH {
            // A longer match one byte on is worth a literal.
            found = finder.insert_and_find(pos + 1, here.length);
            if found.is_some() {
                encoder.literal(input[pos]);
                pos += 1;
                continue;
            }
            inserted += 1;
        }
        encoder.copy(here);
        pos += here.length;
        for covered in inserted..pos {
            finder.insert(covered);
        }
        found = finder.insert_and_find(pos, MIN_MATCH - 1);
    }
    encoder.finish();
}

// On the 359 buffers of the corpus: 4, 32, 1 makes a ratio of 5.25 at 446 MB/s; 8, 32, 16 (these)
// 5.46 at 332; 16, 64, 64 5.59 at 231; 32, 128, 32 5.65 at 191. Windows made 4.74.

/// How many earlier places with the same hash are looked at.
const CHAIN_LENGTH: usize = 8;
/// A match of this length ends the search for a longer one.
const NICE_LENGTH: usize = 32;
/// A match of this length is taken without a look at the next byte's.
const LAZY_LENGTH: usize = 16;
/// The longest match made. Longer ones would need the 32-bit length, which the pseudocode of MS-XCA
/// 2.3.4 has but its prose does not, so a decoder may lack it. It would save next to nothing.
const MATCH_MAX: usize = u16::MAX as usize + MIN_MATCH;
const HASH_BITS: u32 = 13;

#[derive(Clone, Copy)]
struct Match {
    distance: usize,
    length: usize,
}

/// Finds matches with chains of the places where the same three bytes were.
///
/// Places are kept modulo 2^16. That can only make a place of long ago look like a near one, and
/// each is compared with the input before it is used.
struct Finder<'a> {
    input: &'a [u8],
    /// By hash of three bytes: the last place with that hash.
    heads: [u16; 1 << HASH_BITS],
    /// By place modulo [`WINDOW`]: the place before that with the same hash.
    chains: [u16; WINDOW],
}

impl<'a> Finder<'a> {
    fn new(input: &'a [u8]) -> Self {
        Self { input, heads: [0; 1 << HASH_BITS], chains: [0; WINDOW] }
    }

    /// Makes `pos` known, and returns the last place with the same hash. Places in the last three
    /// bytes have no hash.
    #[inline(always)]
    fn insert(&mut self, pos: usize) -> Option<u16> {
        let bytes = self.input.get(pos..)?.first_chunk()?;
        let hash = (u32::from_le_bytes(*bytes) << 8).wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS);
        let place = mem::replace(&mut self.heads[hash as usize], pos as u16);
        self.chains[pos % WINDOW] = place;
        Some(place)
    }

    /// Makes `pos` known, and returns a match there that is longer than `length`.
    #[inline(always)]
    fn insert_and_find(&mut self, pos: usize, length: usize) -> Option<Match> {
        let mut place = self.insert(pos)?;
        let mut best = Match { distance: 0, length };
        let mut last_distance = 0;
        for _ in 0..CHAIN_LENGTH {
            let distance = usize::from((pos as u16).wrapping_sub(place));
            // A chain goes back; where it does not, its end has been overwritten.
            if distance <= last_distance || distance > pos.min(WINDOW) {
                break;
            }
            last_distance = distance;
            // Worth comparing only if the byte that would make it longer is the same.
            let from = pos - distance;
            let Some(&next) = self.input.get(pos + best.length) else { break };
            if self.input[from + best.length] == next {
                let length = common_length(self.input, from, pos);
                if length > best.length {
                    best = Match { distance, length };
                    if length >= NICE_LENGTH {
                        break;
                    }
                }
            }
            place = self.chains[usize::from(place) % WINDOW];
        }
        (best.distance != 0).then_some(best)
    }
}

/// How many bytes at `a` and at the later `b` are the same, up to [`MATCH_MAX`].
#[inline(always)]
fn common_length(input: &[u8], a: usize, b: usize) -> usize {
    let room = (input.len() - b).min(MATCH_MAX);
    let (a, b) = (&input[a..a + room], &input[b..b + room]);
    let (a_words, a_rest) = a.as_chunks::<8>();
    let (b_words, b_rest) = b.as_chunks::<8>();
    let mut length = 0;
    for (a, b) in a_words.iter().zip(b_words) {
        let differs = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differs != 0 {
            return length + differs.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    length + a_rest.iter().zip(b_rest).take_while(|(a, b)| a == b).count()
}

struct Encoder<'a> {
    output: &'a mut Vec<u8>,
    /// Flag bits not yet written, below a one bit that marks how many there are.
    flags: u64,
    /// Where in the output they will be written.
    flags_at: usize,
    /// Where the last length byte is, while its high half is free.
    half_at: Option<usize>,
}

impl<'a> Encoder<'a> {
    fn new(output: &'a mut Vec<u8>) -> Self {
        let flags_at = output.len();
        output.extend_from_slice(&[0; 4]);
        Self { output, flags: 1, flags_at, half_at: None }
    }

    #[inline(always)]
    fn literal(&mut self, byte: u8) {
        self.output.push(byte);
        self.flag(0);
    }

    #[inline(always)]
    fn copy(&mut self, Match { distance, length }: Match) {
        debug_assert!((1..=WINDOW).contains(&distance));
        debug_assert!((MIN_MATCH..=MATCH_MAX).contains(&length));
        let stored = length - MIN_MATCH;
        let word = (distance - 1) << 3 | stored.min(7);
        self.output.extend_from_slice(&(word as u16).to_le_bytes());
        if stored >= 7 {
            let half = (stored - 7).min(15) as u8;
            match self.half_at.take() {
                Some(at) => self.output[at] |= half << 4,
                None => {
                    self.half_at = Some(self.output.len());
                    self.output.push(half);
                }
            }
            if half == 15 {
                let byte = (stored - 15 - 7).min(255) as u8;
                self.output.push(byte);
                if byte == 255 {
                    self.output.extend_from_slice(&(stored as u16).to_le_bytes());
                }
            }
        }
        self.flag(1);
    }

    #[inline(always)]
    fn flag(&mut self, bit: u64) {
        self.flags = self.flags << 1 | bit;
        if self.flags >> 32 != 0 {
            self.write_flags();
            self.flags = 1;
            self.flags_at = self.output.len();
            self.output.extend_from_slice(&[0; 4]);
        }
    }

    fn write_flags(&mut self) {
        let word = (self.flags as u32).to_le_bytes();
        self.output[self.flags_at..self.flags_at + 4].copy_from_slice(&word);
    }

    /// Writes the last flag word, unused bits one: to a decoder that does not know the length, a
    /// match flag with no match is the end (MS-XCA 2.3.4).
    fn finish(mut self) {
        while self.flags >> 32 == 0 {
            self.flags = self.flags << 1 | 1;
        }
        self.write_flags();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// xorshift64*, so that a failure can be run again from its seed.
    struct Random(u64);

    impl Random {
        fn new(seed: u64) -> Self {
            Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
        }

        fn below(&mut self, bound: usize) -> usize {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as usize) % bound
        }

        fn byte(&mut self) -> u8 {
            self.below(256) as u8
        }

        fn bytes(&mut self, count: usize) -> Vec<u8> {
            (0..count).map(|_| self.byte()).collect()
        }
    }

    /// Which of the length forms to use; `compress` only makes the shortest that fits.
    #[derive(Clone, Copy, PartialEq)]
    enum Form {
        Shortest,
        Word16,
        Word32,
    }

    /// Writes a stream item by item, right or wrong.
    struct Stream {
        bytes: Vec<u8>,
        flags_at: usize,
        flag_count: u32,
        half_at: Option<usize>,
    }

    impl Stream {
        fn new() -> Self {
            Self { bytes: vec![0xff; 4], flags_at: 0, flag_count: 0, half_at: None }
        }

        fn flag(&mut self, bit: u32) {
            if bit == 0 {
                // Flag words begin as all ones. Bit 31 is in the last of the four bytes.
                let bit = 31 - self.flag_count;
                self.bytes[self.flags_at + bit as usize / 8] &= !(1 << (bit % 8));
            }
            self.flag_count += 1;
        }

        fn before_item(&mut self) {
            if self.flag_count == 32 {
                self.flag_count = 0;
                self.flags_at = self.bytes.len();
                self.bytes.extend([0xff; 4]);
            }
        }

        fn literal(&mut self, byte: u8) {
            self.before_item();
            self.flag(0);
            self.bytes.push(byte);
        }

        fn half(&mut self, value: u8) {
            match self.half_at.take() {
                Some(at) => self.bytes[at] |= value << 4,
                None => {
                    self.half_at = Some(self.bytes.len());
                    self.bytes.push(value);
                }
            }
        }

        fn copy(&mut self, distance: usize, length: u64, form: Form) {
            self.before_item();
            self.flag(1);
            let stored = length - 3;
            let len = if form == Form::Shortest { stored.min(7) } else { 7 };
            self.bytes.extend((((distance - 1) << 3) as u16 | len as u16).to_le_bytes());
            if len < 7 {
                return;
            }
            if form == Form::Shortest && stored < 7 + 15 {
                return self.half(stored as u8 - 7);
            }
            self.half(15);
            if form == Form::Shortest && stored < 7 + 15 + 255 {
                return self.bytes.push((stored - 7 - 15) as u8);
            }
            self.bytes.push(255);
            if form != Form::Word32 && stored <= 0xffff {
                return self.bytes.extend((stored as u16).to_le_bytes());
            }
            self.bytes.extend([0, 0]);
            self.bytes.extend((stored as u32).to_le_bytes());
        }
    }

    /// The pseudocode of MS-XCA 2.4.4, a byte at a time, stopping where `decompress` promises to.
    fn decompress_slowly(input: &[u8], wanted: usize) -> (Vec<u8>, Result<usize, LzxpressError>) {
        fn number(input: &[u8], pos: &mut usize, bytes: usize) -> Option<u64> {
            let mut value = 0;
            for shift in 0..bytes {
                value |= u64::from(*input.get(*pos + shift)?) << (8 * shift);
            }
            *pos += bytes;
            Some(value)
        }

        fn item(
            input: &[u8],
            pos: &mut usize,
            is_match: bool,
            half_at: &mut usize,
            output: &mut Vec<u8>,
            wanted: usize,
        ) -> Result<(), LzxpressErrorKind> {
            let truncated = LzxpressErrorKind::Truncated;
            if !is_match {
                output.push(number(input, pos, 1).ok_or(truncated)? as u8);
                return Ok(());
            }
            let word = number(input, pos, 2).ok_or(truncated)?;
            let mut length = word % 8;
            let distance = word / 8 + 1;
            if length == 7 {
                if *half_at == 0 {
                    *half_at = *pos;
                    length = number(input, pos, 1).ok_or(truncated)? % 16;
                } else {
                    length = u64::from(input[*half_at] / 16);
                    *half_at = 0;
                }
                if length == 15 {
                    length = number(input, pos, 1).ok_or(truncated)?;
                    if length == 255 {
                        length = number(input, pos, 2).ok_or(truncated)?;
                        if length == 0 {
                            length = number(input, pos, 4).ok_or(truncated)?;
                        }
                        if length < 15 + 7 {
                            return Err(LzxpressErrorKind::BadLength { length: length as u32 });
                        }
                        length -= 15 + 7;
                    }
                    length += 15;
                }
                length += 7;
            }
            length += 3;
            if distance > output.len() as u64 {
                return Err(LzxpressErrorKind::BadOffset { distance: distance as u32 });
            }
            for _ in 0..length {
                if output.len() == wanted {
                    break;
                }
                output.push(output[output.len() - distance as usize]);
            }
            Ok(())
        }

        let (mut pos, mut half_at, mut flags, mut flag_count) = (0, 0, 0, 0);
        let mut output = Vec::new();
        while output.len() < wanted {
            let start = pos;
            let result = if flag_count == 0 {
                flag_count = 32;
                number(input, &mut pos, 4)
                    .map(|word| flags = word)
                    .ok_or(LzxpressErrorKind::Truncated)
            } else {
                flag_count -= 1;
                let is_match = flags >> flag_count & 1 == 1;
                item(input, &mut pos, is_match, &mut half_at, &mut output, wanted)
            };
            if let Err(kind) = result {
                let output_len = output.len();
                return (output, Err(LzxpressError { input_offset: start, output_len, kind }));
            }
        }
        (output, Ok(pos))
    }

    /// Decodes both ways into `wanted` bytes, and checks that they agree. Returns the good bytes.
    #[track_caller]
    fn check(input: &[u8], wanted: usize, seed: u64) -> (Vec<u8>, Result<usize, LzxpressError>) {
        let mut output = vec![0xa5; wanted];
        let result = decompress(input, &mut output);
        let (slow_output, slow_result) = decompress_slowly(input, wanted);
        assert_eq!(result, slow_result, "seed {seed}");
        if let Err(error) = result {
            output.truncate(error.output_len);
        }
        assert!(output == slow_output, "seed {seed}");
        (output, result)
    }

    #[track_caller]
    fn round_trip(plain: &[u8]) -> Vec<u8> {
        let mut stream = b"kept".to_vec();
        compress(plain, &mut stream);
        let stream = stream.strip_prefix(b"kept").expect("compress appends").to_vec();
        assert!(stream.len() <= plain.len() + plain.len() / 8 + 4);
        let mut output = vec![0xa5; plain.len()];
        let consumed = decompress(&stream, &mut output).expect("own stream");
        assert!(output == plain);
        assert!(stream.len() - consumed <= 4, "at most an empty flag word is left");
        stream
    }

    /// Something like trace records: lengths, counters, zeros, repeated names.
    fn records(random: &mut Random, size: usize) -> Vec<u8> {
        let names: Vec<Vec<u8>> = (1..12).map(|n| random.bytes(n * 3)).collect();
        let mut bytes = Vec::new();
        while bytes.len() < size {
            bytes.extend((bytes.len() as u32).to_le_bytes());
            bytes.extend(&names[random.below(names.len())]);
            bytes.resize(bytes.len() + random.below(40), 0);
            for _ in 0..random.below(4) {
                bytes.push(random.byte());
            }
        }
        bytes.truncate(size);
        bytes
    }

    /// A valid stream with items of every kind, and how many bytes it decodes to.
    fn random_stream(random: &mut Random, items: usize) -> (Vec<u8>, usize) {
        let mut stream = Stream::new();
        let mut size = 0;
        for _ in 0..items {
            if size == 0 || random.below(2) == 0 {
                let most = [4, 4, 4, 4, 4, 4, 4, 70][random.below(8)];
                for _ in 0..1 + random.below(most) {
                    stream.literal(random.byte());
                    size += 1;
                }
            }
            let reach = if random.below(2) == 0 { 20 } else { WINDOW };
            let distance = 1 + random.below(size.min(reach));
            let form = [Form::Shortest, Form::Shortest, Form::Shortest, Form::Word16, Form::Word32]
                [random.below(5)];
            let least = if form == Form::Shortest { 3 } else { 25 };
            let spread = [10, 10, 30, 300][random.below(4)];
            let length = least + random.below(spread);
            stream.copy(distance, length as u64, form);
            size += length;
        }
        (stream.bytes, size)
    }

    #[test]
    fn known_streams() {
        // By hand from MS-XCA 2.3.4: x, 14 more, y, 14 more; the halves 4 and 4 share a byte.
        let shared = [255, 255, 255, 0x5f, b'x', 7, 0, 0x44, b'y', 7, 0];
        assert_eq!(check(&shared, 30, 0), ([[b'x'; 15], [b'y'; 15]].concat(), Ok(11)));
        let mut stream = Vec::new();
        compress(&[[b'x'; 15], [b'y'; 15]].concat(), &mut stream);
        assert_eq!(stream, shared);
        // Literals alone fill a flag word, so an empty one follows, which a decoder may leave.
        let plain: Vec<u8> = (0..32).collect();
        let stream = round_trip(&plain);
        assert_eq!(stream, [&[0; 4][..], &plain, &[0xff; 4]].concat());
        assert_eq!(check(&stream, 32, 0), (plain, Ok(36)));
    }

    #[test]
    fn round_trips() {
        let mut random = Random::new(1);
        assert_eq!(round_trip(&[]), [0xff; 4]);
        assert_eq!(round_trip(&[7]), [0xff, 0xff, 0xff, 0x7f, 7]);
        for size in 0..200 {
            round_trip(&vec![size as u8; size]);
            let noise = random.bytes(size);
            round_trip(&noise);
            round_trip(&records(&mut random, size));
        }
        round_trip(&random.bytes(100_000));
        assert!(round_trip(&records(&mut random, 300_000)).len() < 200_000);
        // One match with a 16-bit length.
        assert_eq!(round_trip(&[0x55; 0x1_0000]).len(), 4 + 1 + 2 + 1 + 1 + 2);
        // Repeats at the edge of the window and just beyond, with places that wrap at 2^16.
        for distance in [WINDOW - 1, WINDOW, WINDOW + 1] {
            let noise = random.bytes(distance);
            let stream = round_trip(&noise.repeat(12));
            assert_eq!(stream.len() < distance * 2, distance <= WINDOW, "{distance}");
        }
    }

    #[test]
    fn round_trip_of_every_length_and_small_distance() {
        for distance in 1..40 {
            let noise = Random::new(distance as u64).bytes(distance);
            for length in (0..80).chain([276, 277, 278, 279, 280, 281, 300, 65_537, 65_538, 65_539])
            {
                let mut plain: Vec<u8> =
                    noise.iter().copied().cycle().take(distance + length).collect();
                plain.extend(b"the end");
                round_trip(&plain);
                if distance > 3 && length > 80 {
                    break;
                }
            }
        }
    }

    #[test]
    fn every_length_form_decodes() {
        let forms = [(Form::Shortest, 3), (Form::Word16, 25), (Form::Word32, 25)];
        for (form, least) in forms {
            for length in (least..700).chain([65_537, 65_538, 65_539, 65_540, 200_000]) {
                for distance in [1, 2, 3, 7, 8, 9, 15, 16, 17, 40] {
                    let mut stream = Stream::new();
                    (0..40).for_each(|byte| stream.literal(byte));
                    stream.copy(distance, length, form);
                    stream.copy(5, 12, Form::Shortest);
                    (0..100).for_each(|byte| stream.literal(byte));
                    let size = 40 + length as usize + 12 + 100;
                    if length < 700 && distance != 3 && length % 16 > 1 {
                        continue;
                    }
                    let (_, result) = check(&stream.bytes, size, length);
                    assert_eq!(result, Ok(stream.bytes.len()));
                }
            }
        }
        // The longest there is: cut at the end of the output, on 32-bit systems too.
        let mut stream = Stream::new();
        stream.literal(9);
        stream.copy(1, u64::from(u32::MAX) + 3, Form::Word32);
        assert_eq!(check(&stream.bytes, 1000, 0), (vec![9; 1000], Ok(stream.bytes.len())));
    }

    #[test]
    fn compress_takes_bounded_time() {
        let size = 16 << 20;
        let zeros = vec![0; size];
        // Chains of places that agree for just less than a nice match, then differ.
        let mut random = Random::new(3);
        let mut near_misses = Vec::new();
        while near_misses.len() < size / 4 {
            near_misses.extend([0; NICE_LENGTH - 1]);
            near_misses.push(random.byte());
        }
        let start = Instant::now();
        assert!(round_trip(&zeros).len() < 4096);
        round_trip(&near_misses);
        // A few hundred milliseconds where optimised; what is to be caught takes hours.
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    }

    #[test]
    fn truncated_anywhere() {
        let mut random = Random::new(4);
        let (stream, size) = random_stream(&mut random, 120);
        let mut plain = vec![0; size];
        let consumed = decompress(&stream, &mut plain).expect("valid");
        for end in 0..=stream.len() {
            let (prefix, result) = check(&stream[..end], size, end as u64);
            assert!(plain.starts_with(&prefix));
            match result {
                Ok(at) => assert_eq!((at, prefix.len()), (consumed, size)),
                Err(error) => {
                    assert_eq!(error.kind, LzxpressErrorKind::Truncated);
                    assert!(end < consumed && error.input_offset <= end);
                }
            }
        }
    }

    #[test]
    fn any_shorter_output_is_a_prefix() {
        let (stream, size) = random_stream(&mut Random::new(5), 60);
        let (plain, _) = check(&stream, size, 0);
        for wanted in 0..size {
            let (prefix, result) = check(&stream, wanted, wanted as u64);
            assert!(result.is_ok() && plain[..wanted] == prefix);
        }
    }

    #[test]
    fn malicious_distance_before_the_start() {
        for literals in [0, 1, 100, 5000] {
            for room in [0, 3, 500] {
                let mut stream = Stream::new();
                (0..literals).for_each(|n| stream.literal(n as u8));
                stream.before_item();
                let input_offset = stream.bytes.len();
                stream.copy(literals + 1, 3, Form::Shortest);
                stream.bytes.extend(vec![0; room]);
                let distance = literals as u32 + 1;
                let kind = LzxpressErrorKind::BadOffset { distance };
                let (_, result) = check(&stream.bytes, literals + 3 + room, 0);
                assert_eq!(result, Err(LzxpressError { input_offset, output_len: literals, kind }));
            }
        }
    }

    #[test]
    fn malicious_length_below_its_form() {
        for stored in 0..30_u32 {
            for (form, room) in
                [Form::Word16, Form::Word32].map(|form| [(form, 0), (form, 500)]).concat()
            {
                let mut stream = Stream::new();
                stream.literal(1);
                // 16-bit 0 is not a length but says that a 32-bit one follows; here that is `room`.
                stream.copy(1, u64::from(stored) + 3, form);
                stream.bytes.extend(vec![0; room]);
                let (_, result) = check(&stream.bytes, 1000, u64::from(stored));
                let bad = LzxpressErrorKind::BadLength { length: stored };
                let truncated = stored == 0 && form == Form::Word16 && room == 0;
                if stored < LONG_LENGTH_MIN && !truncated {
                    assert_eq!(result.map_err(|error| error.kind), Err(bad), "{stored}");
                } else {
                    assert!(result.is_err_and(|error| error.kind != bad), "{stored}");
                }
            }
        }
    }

    /// There is nothing unsafe here, so reading or writing outside of the slices would panic.
    #[test]
    fn malicious_streams_decode_as_the_slow_decoder_does() {
        let (mut good, mut bad) = (0, 0);
        for seed in 0..100_000 {
            let random = &mut Random::new(seed);
            let items = 1 + random.below(30);
            let (mut stream, mut size) = random_stream(random, items);
            match seed % 4 {
                // As made, with room for more or less than it holds.
                0 => size = (size + random.below(40)).saturating_sub(random.below(40)),
                // A few bytes or bits changed.
                1 => {
                    for _ in 0..1 + random.below(4) {
                        let at = random.below(stream.len());
                        stream[at] = match random.below(3) {
                            0 => random.byte(),
                            1 => stream[at] ^ 1 << random.below(8),
                            _ => [0, 0xff][random.below(2)],
                        };
                    }
                }
                // Cut, and continued with something else.
                2 => {
                    stream.truncate(random.below(stream.len()));
                    let tail = random.below(200);
                    stream.extend(random.bytes(tail));
                }
                // Noise, with a start that makes some distances good.
                _ => {
                    let count = random.below(300);
                    stream = random.bytes(count);
                    let zeros = random.below(5) * 36;
                    stream.splice(0..0, vec![0; zeros]);
                    size = random.below(1500);
                }
            }
            let (_, result) = check(&stream, size.min(4000), seed);
            *if result.is_ok() { &mut good } else { &mut bad } += 1;
        }
        assert!(good > 20_000 && bad > 20_000, "{good} good, {bad} bad");
    }

    #[test]
    fn real_buffers() {
        const PATH: &str = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../shared/corpus/etl/net452-x64-compressed.etl"
        );
        let Ok(file) = std::fs::read(PATH) else {
            println!("skipped: corpus absent");
            return;
        };
        let (mut buffers, mut left_over) = (0, 0);
        let mut rest = &file[..];
        while rest.len() >= 0x48 {
            let (buffer, tail) = rest.split_at(read_u32(rest, 0) as usize);
            rest = tail;
            if read_u16(buffer, 0x34) & 0x40 == 0 {
                continue;
            }
            let stream = &buffer[0x48..];
            let mut plain = vec![0; read_u32(buffer, 0x30) as usize - 0x48];
            let consumed = decompress(stream, &mut plain).expect("a real buffer");
            match &stream[consumed..] {
                [] => {}
                unread => {
                    assert_eq!(unread, [0xff; 4]);
                    left_over += 1;
                }
            }
            // Each of them takes long where not optimised.
            if buffers % 16 == 0 {
                assert!(check(stream, plain.len(), 0).0 == plain);
                assert!(round_trip(&plain).len() < stream.len(), "smaller than Windows made it");
            }
            buffers += 1;
        }
        assert_eq!((buffers, left_over), (359, 11));
    }

    #[test]
    fn errors_say_where() {
        let error = decompress(&[0xff, 0xff, 0xff, 0x7f, 1, 8, 0], &mut [0; 9]).unwrap_err();
        let text = "match reaches 2 bytes back, before the start at compressed byte 5, after 1 bytes of output";
        assert_eq!(error.to_string(), text);
        let error = decompress(&[0; 3], &mut [0; 9]).unwrap_err();
        let text = "compressed data ends at compressed byte 0, after 0 bytes of output";
        assert_eq!(error.to_string(), text);
    }
}
