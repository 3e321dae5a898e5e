//! The decoder: a fast loop far from both ends, a checked one near them.

use super::{LONG_LENGTH_MIN, LzxpressError, LzxpressErrorKind, MIN_MATCH, WINDOW};
use std::cell::Cell;

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

/// Unread flag bits, the next one lowest, with a one bit above the last: here none are left. A stream uses the bits of a word from the
/// highest on. They are reversed once a word, because x86-64 counts zeros faster from the lowest bit.
const NO_FLAGS: u64 = 1;
/// No half of a length byte is waiting. A half that waits has a one bit above its four bits.
const NO_HALF: u32 = 1;

/// Input a turn of the fast loop may look at: 32 literals and a whole match of 10 bytes, or a flag word. With room for 64 literals, the
/// compiler sees that four bytes behind any count of zero bits are inside, and leaves out the check.
const INPUT_ROOM: usize = 64 + 4;
/// Output a turn of the fast loop may overwrite: 32 literals, then two chunks.
const OUTPUT_ROOM: usize = 32 + 2 * CHUNK;
/// Bytes that the fast loop copies at once, needed or not.
const CHUNK: usize = 16;
/// The three bits of a match's length, if more of the length follows.
const MORE_LENGTH: usize = 7;
/// The length that a byte of 255 makes. It stands for a longer one, which is in the next two or six bytes.
const LONG_LENGTH: usize = 255 + 15 + MORE_LENGTH + MIN_MATCH;

struct Decoder {
    flags: u64,
    /// The high half of a length byte, waiting for the next match that needs one, or [`NO_HALF`].
    half: u32,
    input_pos: usize,
    output_pos: usize,
}

impl Decoder {
    /// Decodes while a whole turn is sure to fit. Stops before anything it can't do, be it near the
    /// end or an error, for [`run_checked`](Self::run_checked) to go on from there.
    #[inline]
    fn run_fast(&mut self, input: &[u8], output: &mut [u8]) {
        let Self { mut flags, mut half, input_pos, output_pos: mut to } = *self;
        let mut rest = &input[input_pos..];
        let Some(output_last) = output.len().checked_sub(OUTPUT_ROOM) else { return };

        while let Some(window) = rest.first_chunk::<INPUT_ROOM>() {
            if to > output_last {
                break;
            }
            let room = &mut output[to..to + OUTPUT_ROOM];
            // Literals up to the next one bit. They are few most of the time.
            let run = flags.trailing_zeros() as usize;
            room[..CHUNK].copy_from_slice(&window[..CHUNK]);
            if run > CHUNK {
                room[CHUNK..2 * CHUNK].copy_from_slice(&window[CHUNK..2 * CHUNK]);
            }
            to += run;
            rest = &rest[run..];
            flags >>= run;
            let word = u32::from_le_bytes(array(window, run));
            let flags_behind = flags >> 1;
            if flags_behind == 0 {
                flags = flags_of(word);
                rest = &rest[4..];
                continue;
            }

            let distance = (word as usize >> 3) % WINDOW + 1;
            // Wraps if the match reaches back to before the output, which has nothing there.
            let from = to.wrapping_sub(distance);
            let short = word as usize & MORE_LENGTH;
            if short < MORE_LENGTH {
                let length = short + MIN_MATCH;
                let Some(chunk) = chunk_at::<CHUNK>(output, from) else { break };
                if distance < length {
                    copy_match(output, to, distance, length);
                } else {
                    output[to..to + CHUNK].copy_from_slice(&chunk);
                }
                to += length;
                rest = &rest[2..];
                flags = flags_behind;
                continue;
            }

            // The half and the byte behind it are unpredictable, so all cases are computed, without a branch.
            let fresh = half == NO_HALF;
            let (third, fourth) = (word >> 16 & 255, word >> 24);
            let both = if fresh { third | 0x100 } else { half };
            let byte = if fresh { fourth } else { third };
            let low = both & 15;
            let mut size = 2 + usize::from(fresh) + usize::from(low == 15);
            let mut length = MORE_LENGTH + MIN_MATCH + low as usize;
            length += if low == 15 { byte as usize } else { 0 };
            if length == LONG_LENGTH {
                let mut long = u32::from(u16::from_le_bytes(array(rest, size)));
                size += 2;
                if long == 0 {
                    long = u32::from_le_bytes(array(rest, size));
                    size += 4;
                }
                if long < LONG_LENGTH_MIN {
                    break;
                }
                length = (long as usize).saturating_add(MIN_MATCH);
            }
            match chunk_at::<{ 2 * CHUNK }>(output, from) {
                Some(chunk) if length <= 2 * CHUNK && distance >= 2 * CHUNK => {
                    output[to..to + 2 * CHUNK].copy_from_slice(&chunk);
                }
                _ => {
                    let room = (output.len() - to).saturating_sub(2 * CHUNK);
                    if distance > to || length > room {
                        break;
                    }
                    copy_match(output, to, distance, length);
                }
            }
            half = both >> 4;
            flags = flags_behind;
            rest = &rest[size..];
            to += length;
        }
        *self = Self { flags, half, input_pos: input.len() - rest.len(), output_pos: to };
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
            self.flags = flags_of(u32::from_le_bytes(take(&mut rest)?));
        } else if self.flags & 1 == 0 {
            let [byte] = take(&mut rest)?;
            output[self.output_pos] = byte;
            self.output_pos += 1;
            self.flags >>= 1;
        } else {
            let word = u16::from_le_bytes(take(&mut rest)?);
            let mut length = u32::from(word & 7);
            if length == 7 {
                let mut both = self.half;
                if both == NO_HALF {
                    let [byte] = take(&mut rest)?;
                    both = u32::from(byte) | 0x100;
                }
                let low = both & 15;
                self.half = both >> 4;
                length += low;
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
            self.flags >>= 1;
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

/// The bits of a flag word as [`Decoder::flags`] has them.
#[inline(always)]
fn flags_of(word: u32) -> u64 {
    u64::from(word.reverse_bits()) | 1 << 32
}

#[inline(always)]
fn array<const N: usize>(bytes: &[u8], pos: usize) -> [u8; N] {
    bytes[pos..pos + N].try_into().expect("a slice of N bytes")
}

/// `N` bytes at any position; `None` if not all of them exist.
#[inline(always)]
fn chunk_at<const N: usize>(bytes: &[u8], pos: usize) -> Option<[u8; N]> {
    bytes.get(pos..)?.first_chunk().copied()
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

/// Copies a match of any length. Writes less than two chunks more than the length, and less than one if the distance is below a chunk.
// Inlined, it takes registers from the fast loop.
#[inline(never)]
fn copy_match(output: &mut [u8], to: usize, distance: usize, length: usize) {
    let (from, end) = (to - distance, to + length);
    if distance >= 2 * CHUNK {
        copy_chunks::<{ 2 * CHUNK }>(&mut output[from..end + 2 * CHUNK - 1], distance);
    } else if distance >= CHUNK {
        copy_chunks::<CHUNK>(&mut output[from..end + CHUNK - 1], distance);
    } else {
        let (chunk, step) = pattern(output, to, distance);
        let mut to = to;
        while to < end {
            output[to..to + CHUNK].copy_from_slice(&chunk);
            to += step;
        }
    }
}

/// Copies all whole chunks of `bytes` that have a place `distance` bytes on, from the first one on. A chunk is not longer than the distance.
// The bytes overlap, so they are cells. The compiler loads and stores a chunk of them at once.
#[inline(always)]
fn copy_chunks<const N: usize>(bytes: &mut [u8], distance: usize) {
    let cells = Cell::from_mut(bytes).as_slice_of_cells();
    for (source, target) in cells.chunks_exact(N).zip(cells[distance..].chunks_exact(N)) {
        let chunk: [u8; N] = std::array::from_fn(|at| source[at].get());
        target.iter().zip(chunk).for_each(|(cell, byte)| cell.set(byte));
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
