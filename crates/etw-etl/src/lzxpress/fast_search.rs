//! The search for matches of [`Level::Fast`](super::Level::Fast).
//!
//! Records of a trace resemble those before them: the fields that are equal lie at the same distance as the fields before. The search
//! therefore first looks whether a few bytes differ and a long match at the last distance follows them. It then tries the last two distances,
//! and then one earlier place with the same four bytes.

use super::encoder::{Encoder, Match, common_length};
use super::{MIN_MATCH, WINDOW};
use std::mem;

const HASH_BITS: u32 = 13;
/// A match of this length ends the search for a longer one.
const NICE_LENGTH: usize = 16;
/// A match of this length is taken without a look at the next byte's.
const LAZY_LENGTH: usize = 8;
/// One of so many positions inside of a match is remembered: most later matches begin where one ended before.
const STEP: usize = 32;
/// Up to so many bytes that differ, between two matches at one distance, become literals without a search.
const MOST_DIFFERENT: usize = 3;
/// Bytes at the end of the input that become literals, unless a match reaches into them.
const TAIL: usize = 8;

/// Appends the stream of `input` to `output`.
pub(super) fn compress(input: &[u8], output: &mut Vec<u8>) {
    let mut encoder = Encoder::new(output);
    let mut search = Search { input, places: [0; 1 << HASH_BITS], last: 1, before_last: 1 };
    let end = input.len().saturating_sub(TAIL);
    let mut at = 0;
    if end > 0 {
        // There is nothing before the first byte.
        encoder.literal(input[0]);
        at = 1;
    }
    while at < end {
        // Read once: it stands before the last bytes.
        let here = search.word(at);
        if let Some((differs, found)) = search.find_behind_difference(at, here) {
            encoder.literals(&input[at..at + 4], differs);
            encoder.copy(found);
            search.remember(at, here as u32);
            at = search.go_past(at + differs, found.length, end);
            continue;
        }
        let Some(mut found) = search.find(at, here as u32) else {
            encoder.literal(input[at]);
            at += 1;
            continue;
        };
        if found.length < LAZY_LENGTH && at + 1 < end {
            // A longer match one byte on is worth a literal.
            let next = (here >> 8) as u32;
            if let Some(next) = search.find_by_hash(at + 1, next, found.length + 1) {
                encoder.literal(input[at]);
                at += 1;
                found = next;
            }
        }
        encoder.copy(found);
        search.use_distance(found.distance);
        at = search.go_past(at, found.length, end);
    }
    for byte in input.get(at..).unwrap_or_default() {
        encoder.literal(*byte);
    }
    encoder.finish();
}

struct Search<'a> {
    input: &'a [u8],
    /// The last position, modulo 2^16, of each hash of four bytes. What lies there is compared before it is used.
    places: [u16; 1 << HASH_BITS],
    /// The distance of the last match, and the last one that differs from it.
    last: usize,
    before_last: usize,
}

impl Search<'_> {
    /// The eight bytes at a position; 0 behind the last eight.
    #[inline(always)]
    fn word(&self, at: usize) -> u64 {
        let bytes = self.input.get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// Remembers a position and its four bytes, and returns the one that had the same hash before.
    #[inline(always)]
    fn remember(&mut self, at: usize, here: u32) -> u16 {
        let hash = here.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS);
        mem::replace(&mut self.places[hash as usize], at as u16)
    }

    /// Finds a long match at the last distance behind at most [`MOST_DIFFERENT`] bytes that differ, such as those of a time. Returns how
    /// many differ, and the match.
    #[inline(always)]
    fn find_behind_difference(&self, at: usize, here: u64) -> Option<(usize, Match)> {
        let differs = here ^ self.word(at - self.last);
        let count = 8 - differs.leading_zeros() as usize / 8;
        if !(1..=MOST_DIFFERENT).contains(&count) {
            return None;
        }
        let behind = at + count;
        let length = common_length(self.input, behind - self.last, behind);
        (length >= NICE_LENGTH).then_some((count, Match { distance: self.last, length }))
    }

    /// Remembers some of the positions of a match, and returns the one behind it.
    #[inline(always)]
    fn go_past(&mut self, at: usize, length: usize, end: usize) -> usize {
        let behind = at + length;
        for covered in (at + 1..behind.min(end)).step_by(STEP) {
            self.remember(covered, self.word(covered) as u32);
        }
        if behind < end {
            // A later match may end a little before this one does.
            self.remember(behind - 2, self.word(behind - 2) as u32);
        }
        behind
    }

    /// Finds a match at a position that has at least one byte before it, and eight bytes from it on, of which `here` are the first four.
    #[inline(always)]
    fn find(&mut self, at: usize, here: u32) -> Option<Match> {
        let mut best = Match { distance: 0, length: MIN_MATCH - 1 };
        for distance in [self.last, self.before_last] {
            // The first three bytes are equal.
            if (self.word(at - distance) as u32 ^ here) << 8 == 0 {
                let length = common_length(self.input, at - distance, at);
                if length > best.length {
                    best = Match { distance, length };
                }
            }
            if best.length >= NICE_LENGTH || self.before_last == self.last {
                break;
            }
        }
        match best.length < NICE_LENGTH {
            true => self.find_by_hash(at, here, best.length),
            false => {
                self.remember(at, here);
                None
            }
        }
        .or((best.distance != 0).then_some(best))
    }

    /// Remembers a position, and finds a match there that is longer than `length` by its hash.
    #[inline(always)]
    fn find_by_hash(&mut self, at: usize, here: u32, length: usize) -> Option<Match> {
        let place = self.remember(at, here);
        let distance = usize::from((at as u16).wrapping_sub(place));
        if distance == 0 || distance > at.min(WINDOW) || self.word(at - distance) as u32 != here {
            return None;
        }
        let found = Match { distance, length: common_length(self.input, at - distance, at) };
        (found.length > length).then_some(found)
    }

    #[inline(always)]
    fn use_distance(&mut self, distance: usize) {
        if distance != self.last {
            self.before_last = mem::replace(&mut self.last, distance);
        }
    }
}
