//! A copy that leaves its target out of this processor's caches.

/// Shorter copies go through the caches: to wait until the lines are in memory takes some 90 ns a copy.
const SHORTEST: usize = 4096;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Copies `from` to `to`, which have the same length, and leaves `to` in memory and out of this processor's caches. For memory that
/// another processor has just read and will read again: ordinary stores first fetch each line from the other one's caches, which takes
/// four times as long where the two share none.
///
/// Whoever learns of the copy by a release store behind it sees its bytes.
///
/// # Panics
/// As `copy_from_slice`, if the lengths differ.
pub fn copy_past_caches(to: &mut [u8], from: &[u8]) {
    if to.len() < SHORTEST || cfg!(miri) {
        to.copy_from_slice(from);
        return;
    }
    assert_eq!(to.len(), from.len());
    let lead = to.as_ptr().align_offset(LINE).min(to.len());
    let (to_head, to) = to.split_at_mut(lead);
    let (from_head, from) = from.split_at(lead);
    to_head.copy_from_slice(from_head);
    let whole = to.len() - to.len() % LINE;
    let (to, to_tail) = to.split_at_mut(whole);
    let (from, from_tail) = from.split_at(whole);
    copy_lines(to, from);
    to_tail.copy_from_slice(from_tail);
}

/// Copies whole lines to an aligned target.
#[cfg(target_arch = "x86_64")]
fn copy_lines(to: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    for (to, from) in to.chunks_exact_mut(LINE).zip(from.chunks_exact(LINE)) {
        let (to, from) = (to.as_mut_ptr().cast::<__m128i>(), from.as_ptr().cast::<__m128i>());
        // SAFETY: both lines have the bytes of four values, and the target's begins at a line. All x86-64 processors have the instructions.
        unsafe {
            let line = [0, 1, 2, 3].map(|part| _mm_loadu_si128(from.add(part)));
            for (part, bytes) in line.into_iter().enumerate() {
                _mm_stream_si128(to.add(part), bytes);
            }
        }
    }
    // SAFETY: all x86-64 processors have it. These stores are not ordered with later ones, so they end here.
    unsafe { _mm_sfence() };
}

#[cfg(not(target_arch = "x86_64"))]
fn copy_lines(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_copied_and_no_others() {
        let source: Vec<u8> = (0..6000u32).map(|n| (n * 7 % 251) as u8).collect();
        for from in [0, 1, 8, 63] {
            for to in [0, 1, 8, 24, 63, 64] {
                for length in [0, 1, 4095, 4096, 4097, 4159, 4224, 5000] {
                    let mut target = vec![0xee; 6000];
                    let source = &source[from..from + length];
                    copy_past_caches(&mut target[to..to + length], source);
                    assert_eq!(&target[to..to + length], source);
                    let mut others = target[..to].iter().chain(&target[to + length..]);
                    assert!(others.all(|byte| *byte == 0xee), "{from} {to} {length}");
                }
            }
        }
    }
}
