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
/// The distance of the first two positions inside of a match that are remembered; each further distance is twice the one before. Most later
/// matches begin where one ended before.
const STEP: usize = 32;
/// Up to so many bytes that differ, between two matches at one distance, become literals without a search.
const MOST_DIFFERENT: usize = 3;
/// Bytes that are compared at once. The last ones of the input become literals, unless a match reaches into them.
const WORD: usize = 8;

/// Puts the stream of `input` into `output`, as [`compress_at`](super::compress_at) says.
pub(super) fn compress_at(input: &[u8], output: &mut Vec<u8>, start: usize) -> usize {
    let mut encoder = Encoder::new(input, output, start);
    let head = &input[..input.len().saturating_sub(1)];
    let mut search = Search { input, head, places: [0; 1 << HASH_BITS], last: 1, before_last: 1 };
    // There is nothing before the first byte.
    let mut at = 1;
    while let Some((here, before)) = search.word(at).zip(search.word(at - search.last)) {
        let differs = here ^ before;
        if let Some((count, found)) = search.find_behind_difference(at, differs) {
            encoder.copy(at + count, found);
            search.remember(at, here);
            at = search.go_past(at + count, found.length);
            continue;
        }
        let Some(mut found) = search.find(at, here, differs) else {
            at += 1;
            continue;
        };
        if found.length < LAZY_LENGTH {
            // A longer match one byte on is worth a literal.
            let next = search.word(at + 1);
            let next = next.and_then(|next| search.find_by_hash(at + 1, next, found.length + 1));
            if let Some(next) = next {
                at += 1;
                found = next;
            }
        }
        encoder.copy(at, found);
        search.use_distance(found.distance);
        at = search.go_past(at, found.length);
    }
    encoder.finish()
}

struct Search<'a> {
    input: &'a [u8],
    /// The input without its last byte: a whole word in it is not the last one of the input.
    head: &'a [u8],
    /// The last position, modulo 2^16, of each hash of four bytes. What lies there is compared before it is used.
    places: [u16; 1 << HASH_BITS],
    /// The distance of the last match, and the last one that differs from it.
    last: usize,
    before_last: usize,
}

impl Search<'_> {
    /// The bytes at a position; `None` in the last [`WORD`] bytes of the input.
    #[inline(always)]
    fn word(&self, at: usize) -> Option<u64> {
        let bytes = self.head.get(at..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }

    /// Remembers a position and the first four of its bytes, and returns the one that had the same hash before.
    #[inline(always)]
    fn remember(&mut self, at: usize, here: u64) -> u16 {
        let hash = (here as u32).wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS);
        mem::replace(&mut self.places[hash as usize], at as u16)
    }

    /// The length of the match at a position, whose first word differs so from the one at the distance. Most matches end in it.
    #[inline(always)]
    fn length(&self, differs: u64, at: usize, distance: usize) -> usize {
        match differs {
            0 => common_length(self.input, at, distance, WORD),
            _ => differs.trailing_zeros() as usize / 8,
        }
    }

    /// Finds a long match at the last distance behind at most [`MOST_DIFFERENT`] bytes that differ, such as those of a time. Returns how
    /// many differ, and the match.
    #[inline(always)]
    fn find_behind_difference(&self, at: usize, differs: u64) -> Option<(usize, Match)> {
        if differs == 0 || differs >> (8 * MOST_DIFFERENT) != 0 {
            return None;
        }
        let count = WORD - differs.leading_zeros() as usize / 8;
        // From the word behind this one on, as all that is known not to differ belongs to the match.
        let length = common_length(self.input, at, self.last, WORD) - count;
        (length >= NICE_LENGTH).then_some((count, Match { distance: self.last, length }))
    }

    /// Remembers some of the positions of a match, and returns the one behind it.
    #[inline(always)]
    fn go_past(&mut self, at: usize, length: usize) -> usize {
        let behind = at + length;
        let (mut covered, mut step) = (at + 1, STEP);
        while covered < behind {
            let Some(word) = self.word(covered) else { return behind };
            self.remember(covered, word);
            covered += step;
            step *= 2;
        }
        // A later match may end a little before this one does.
        let ending = self.word(behind).and_then(|_| self.word(behind - 2));
        if let Some(word) = ending {
            self.remember(behind - 2, word);
        }
        behind
    }

    /// Finds a match at a position whose word is `here`, and `differs` so from the one at the last distance.
    #[inline(always)]
    fn find(&mut self, at: usize, here: u64, differs: u64) -> Option<Match> {
        let mut best = Match { distance: 0, length: MIN_MATCH - 1 };
        if has_equal_start(differs) {
            best = Match { distance: self.last, length: self.length(differs, at, self.last) };
        }
        if best.length < NICE_LENGTH && self.before_last != self.last {
            let differs = here ^ self.word(at - self.before_last)?;
            if has_equal_start(differs) {
                let length = self.length(differs, at, self.before_last);
                if length > best.length {
                    best = Match { distance: self.before_last, length };
                }
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
    fn find_by_hash(&mut self, at: usize, here: u64, length: usize) -> Option<Match> {
        let place = self.remember(at, here);
        let distance = usize::from((at as u16).wrapping_sub(place));
        if !(1..=WINDOW).contains(&distance) {
            return None;
        }
        // Before the start of the input, there is no word.
        let differs = here ^ self.word(at.wrapping_sub(distance))?;
        if differs as u32 != 0 {
            return None;
        }
        let found = Match { distance, length: self.length(differs, at, distance) };
        (found.length > length).then_some(found)
    }

    #[inline(always)]
    fn use_distance(&mut self, distance: usize) {
        if distance != self.last {
            self.before_last = mem::replace(&mut self.last, distance);
        }
    }
}

/// Whether the first bytes of two words, as many as the shortest match has, do not differ.
#[inline(always)]
fn has_equal_start(differs: u64) -> bool {
    differs << (64 - 8 * MIN_MATCH) == 0
}
