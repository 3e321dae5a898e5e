//! The encoder: the items of a stream, and the search for matches of [`Level::Small`](super::Level::Small).

use super::{MIN_MATCH, WINDOW};
use std::mem;

/// Puts the stream of `input` into `output`, as [`compress_at`](super::compress_at) says: a greedy search with one step of lookahead.
pub(super) fn compress_at(input: &[u8], output: &mut Vec<u8>, start: usize) -> usize {
    let mut finder = Finder::new(input);
    let mut encoder = Encoder::new(input, output, start);
    let mut pos = 0;
    let mut found = finder.insert_and_find(0, MIN_MATCH - 1);
    while pos < input.len() {
        let Some(here) = found else {
            pos += 1;
            found = finder.insert_and_find(pos, MIN_MATCH - 1);
            continue;
        };
        let mut inserted = pos + 1;
        if here.length < LAZY_LENGTH {
            // A longer match one byte on is worth a literal.
            found = finder.insert_and_find(pos + 1, here.length);
            if found.is_some() {
                pos += 1;
                continue;
            }
            inserted += 1;
        }
        encoder.copy(pos, here);
        pos += here.length;
        for covered in inserted..pos {
            finder.insert(covered);
        }
        found = finder.insert_and_find(pos, MIN_MATCH - 1);
    }
    encoder.finish()
}

// On the 359 buffers of the corpus: 4, 32, 1 makes a ratio of 5.25 at 446 MB/s; 8, 32, 16 (these)
// 5.46 at 332; 16, 64, 64 5.59 at 231; 32, 128, 32 5.65 at 191. Windows made 4.74.

/// How many earlier places with the same hash are looked at.
const CHAIN_LENGTH: usize = 8;
/// A match of this length ends the search for a longer one.
pub(super) const NICE_LENGTH: usize = 32;
/// A match of this length is taken without a look at the next byte's.
const LAZY_LENGTH: usize = 16;
/// The longest match made. Longer ones would need the 32-bit length, which the pseudocode of MS-XCA
/// 2.3.4 has but its prose does not, so a decoder may lack it. It would save next to nothing.
pub(super) const MATCH_MAX: usize = u16::MAX as usize + MIN_MATCH;
const HASH_BITS: u32 = 13;

#[derive(Clone, Copy)]
pub(super) struct Match {
    pub distance: usize,
    pub length: usize,
}

/// Finds matches with chains of the places where the same three bytes were.
///
/// Places are kept modulo 2^16. That can only make a place of long ago look like a near one, and
/// each is compared with the input before it is used.
struct Finder<'a> {
    input: &'a [u8],
    /// The last position of each hash of three bytes.
    heads: [u16; 1 << HASH_BITS],
    /// For each position modulo [`WINDOW`], the previous position with the same hash.
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
                let length = common_length(self.input, pos, distance, 0);
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

/// Bytes of a match that are compared by words: most matches end in them.
pub(super) const SHORT: usize = 56;
/// Bytes that are compared at once behind these, in matches between events of one site.
pub(super) const WIDE: usize = 16;

/// The length of the match at a position, up to [`MATCH_MAX`]. Its first bytes, up to eight, are `known` to be equal, and are in the input.
#[inline(always)]
pub(super) fn common_length(input: &[u8], pos: usize, distance: usize, known: usize) -> usize {
    let before = &input[pos - distance + known..];
    let here = &input[pos + known..];
    let here = &here[..here.len().min(MATCH_MAX - known)];
    let mut length = 0;
    for (a, b) in before.chunks_exact(8).zip(here.chunks_exact(8)).take(SHORT / 8) {
        let differs = word(a) ^ word(b);
        if differs != 0 {
            return known + length + differs.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    known + long_length(before, here, length)
}

/// [`common_length`] of two byte sequences whose first `length` bytes are equal.
#[inline(always)]
fn long_length(before: &[u8], here: &[u8], mut length: usize) -> usize {
    for (a, b) in before[length..].chunks_exact(WIDE).zip(here[length..].chunks_exact(WIDE)) {
        // As arrays: slices of unknown length are compared by a call.
        if a.first_chunk::<WIDE>() != b.first_chunk::<WIDE>() {
            break;
        }
        length += WIDE;
    }
    for (a, b) in before[length..].chunks_exact(8).zip(here[length..].chunks_exact(8)) {
        let differs = word(a) ^ word(b);
        if differs != 0 {
            return length + differs.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    let rest = before[length..].iter().zip(&here[length..]);
    length + rest.take_while(|(a, b)| a == b).count()
}

#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("a chunk of eight"))
}

/// A stream in the making.
pub(super) struct Encoder<'a> {
    input: &'a [u8],
    /// The offset in the input of the first byte that is not in the stream yet.
    input_pos: usize,
    /// Has room for the whole stream.
    output: &'a mut Vec<u8>,
    output_pos: usize,
    /// Flag bits not yet written, below a one bit that marks how many there are.
    flags: u64,
    /// Their offset in the output.
    flags_at: usize,
    /// The offset of the last length byte, while its high half is free; [`NO_HALF`] while none is.
    half_at: usize,
}

/// No length byte has a free half.
const NO_HALF: usize = usize::MAX;
/// Bytes that the encoder copies at once, needed or not.
const CHUNK: usize = 16;
/// Bytes that it may write behind the end of a stream.
const SLACK: usize = CHUNK;
/// Bytes of the longest match in the stream: the word, the half, the byte and the length.
const LARGEST_MATCH: usize = 2 + 1 + 1 + 2;

impl<'a> Encoder<'a> {
    pub fn new(input: &'a [u8], output: &'a mut Vec<u8>, flags_at: usize) -> Self {
        // The longest stream has literals alone, and a flag word for each 32 of them.
        let needed = flags_at + input.len() + input.len() / 8 + 4 + SLACK;
        if output.len() < needed {
            output.resize(needed, 0);
        }
        let output_pos = flags_at + 4;
        Self { input, input_pos: 0, output, output_pos, flags: 1, flags_at, half_at: NO_HALF }
    }

    /// Makes literals of the bytes before a position. They are few most of the time.
    #[inline(always)]
    fn literals(&mut self, until: usize) {
        let count = until - self.input_pos;
        let source = self.input.get(self.input_pos..).and_then(|bytes| bytes.first_chunk());
        let Some(source) = source.filter(|_| count <= CHUNK && self.flags << count >> 32 == 0)
        else {
            return self.literals_one_by_one(until);
        };
        let source: &[u8; CHUNK] = source;
        self.output[self.output_pos..self.output_pos + CHUNK].copy_from_slice(source);
        self.output_pos += count;
        self.flags <<= count;
    }

    #[inline(never)]
    fn literals_one_by_one(&mut self, until: usize) {
        for byte in &self.input[self.input_pos..until] {
            self.output[self.output_pos] = *byte;
            self.output_pos += 1;
            self.flag(0);
        }
    }

    /// Adds a match at a position. The bytes before it that are in no match become literals.
    #[inline(always)]
    pub fn copy(&mut self, pos: usize, Match { distance, length }: Match) {
        debug_assert!((1..=WINDOW).contains(&distance));
        debug_assert!((MIN_MATCH..=MATCH_MAX).contains(&length));
        if pos > self.input_pos {
            self.literals(pos);
        }
        self.input_pos = pos + length;
        let stored = length - MIN_MATCH;
        let word = (distance - 1) << 3 | stored.min(7);
        let start = self.output_pos;
        let target = &mut self.output[start..start + LARGEST_MATCH];
        target[..2].copy_from_slice(&(word as u16).to_le_bytes());
        let mut size = 2;
        if stored >= 7 {
            let half = (stored - 7).min(15) as u8;
            let half_at = mem::replace(&mut self.half_at, NO_HALF);
            if half_at == NO_HALF {
                self.half_at = start + 2;
                target[2] = half;
                size = 3;
            }
            if half == 15 {
                let byte = (stored - 15 - 7).min(255) as u8;
                target[size] = byte;
                size += 1;
                if byte == 255 {
                    target[size..size + 2].copy_from_slice(&(stored as u16).to_le_bytes());
                    size += 2;
                }
            }
            if half_at != NO_HALF {
                self.output[half_at] |= half << 4;
            }
        }
        self.output_pos += size;
        self.flag(1);
    }

    #[inline(always)]
    fn flag(&mut self, bit: u64) {
        self.flags = self.flags << 1 | bit;
        if self.flags >> 32 != 0 {
            self.write_flags();
            self.flags = 1;
            self.flags_at = self.output_pos;
            self.output_pos += 4;
        }
    }

    fn write_flags(&mut self) {
        let word = (self.flags as u32).to_le_bytes();
        self.output[self.flags_at..self.flags_at + 4].copy_from_slice(&word);
    }

    /// Makes literals of the rest, and writes the last flag word, unused bits one: to a decoder that does not know the length, a
    /// match flag with no match is the end (MS-XCA 2.3.4). Returns the end of the stream in the output.
    pub fn finish(mut self) -> usize {
        self.literals_one_by_one(self.input.len());
        while self.flags >> 32 == 0 {
            self.flags = self.flags << 1 | 1;
        }
        self.write_flags();
        self.output_pos
    }
}
