//! The decoder: a fast loop far from both ends, a checked one near them.

use super::{LONG_LENGTH_MIN, LzxpressError, LzxpressErrorKind, MIN_MATCH};
use std::mem;

/// Decodes `input` until `output` is full, and returns how many bytes of `input` that took.
///
/// The rest of `input` is ignored: an encoder may end with a flag word that has no items
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
/// Bytes that the fast loop copies at once, needed or not.
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
                // The half is unpredictable, so both are computed, without a branch.
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
    // The copied bytes repeat, so each copy can be twice as long as the last.
    while to < end {
        let length = (end - to).min(to - from);
        output.copy_within(from..from + length, to);
        to += length;
    }
    end
}
