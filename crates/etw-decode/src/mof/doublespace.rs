//! The compression of binary MOF: DoubleSpace's, as version 0.1 of its stream.
//!
//! ```text
//! u16 5344 ("DS")   u16 version   bits, the lowest of each byte first:
//!   10 7 bits      a byte below 80          01 7 bits  a byte from 80 on
//!   00 6 bits      a copy from that far back
//!   11 0 8 bits    a copy from 40 and that far back
//!   11 1 12 bits   a copy from 140 and that far back; ff f marks the end of 512 bytes
//! a copy's length: n zeros and a one (n at most 8), n bits; 1 + 2^n and these bits
//! ```
//!
//! Bits of a pair are in the order of the number: `10` is 2. Source: public descriptions of DoubleSpace volumes and of binary MOF.

use etw_types::le;

const SIGNATURE: u32 = 0x5344;
/// The distance that is none: a mark behind 512 bytes.
const MARK: usize = 0x113f;

/// Decompresses a stream that makes `size` bytes; `None` if it is damaged or makes fewer or more.
pub(super) fn decompress(stream: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut bits = Bits { stream, at: 0 };
    if bits.take(16)? != SIGNATURE {
        return None;
    }
    bits.take(16)?;
    let mut output = Vec::with_capacity(size.min(1 << 16));
    while output.len() < size {
        let distance = match bits.take(2)? {
            1 => {
                output.push(bits.take(7)? as u8 | 0x80);
                continue;
            }
            2 => {
                output.push(bits.take(7)? as u8);
                continue;
            }
            0 => bits.take(6)?,
            _ if bits.take(1)? == 0 => 0x40 + bits.take(8)?,
            _ => 0x140 + bits.take(12)?,
        } as usize;
        if distance == MARK {
            continue;
        }
        let length = bits.length()?;
        let start = output.len().checked_sub(distance).filter(|_| distance > 0)?;
        if output.len() + length > size {
            return None;
        }
        // A copy may overlap its own bytes.
        for at in start..start + length {
            output.push(output[at]);
        }
    }
    Some(output)
}

struct Bits<'s> {
    stream: &'s [u8],
    /// Bits that were taken.
    at: usize,
}

impl Bits<'_> {
    /// The next bits, at most 16.
    fn take(&mut self, count: usize) -> Option<u32> {
        if self.at + count > self.stream.len() * 8 {
            return None;
        }
        let byte = self.at / 8;
        let mut window = [0; 4];
        let bytes = &self.stream[byte..self.stream.len().min(byte + 4)];
        window[..bytes.len()].copy_from_slice(bytes);
        let value = le::u32(&window, 0)? >> (self.at % 8);
        self.at += count;
        Some(value & ((1 << count) - 1))
    }

    /// The length of a copy.
    fn length(&mut self) -> Option<usize> {
        let mut zeros = 0;
        while self.take(1)? == 0 {
            zeros += 1;
            if zeros > 8 {
                return None;
            }
        }
        Some(1 + (1 << zeros) + self.take(zeros)? as usize)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Bits, the lowest of each byte first.
    #[derive(Default)]
    struct BitWriter {
        bytes: Vec<u8>,
        count: usize,
    }

    impl BitWriter {
        fn put(&mut self, value: u32, count: usize) {
            for bit in 0..count {
                if self.count % 8 == 0 {
                    self.bytes.push(0);
                }
                let last = self.bytes.last_mut().unwrap();
                *last |= ((value >> bit & 1) as u8) << (self.count % 8);
                self.count += 1;
            }
        }

        fn copy(&mut self, distance: u32, length: u32) {
            match distance {
                0..0x40 => {
                    self.put(0, 2);
                    self.put(distance, 6);
                }
                0x40..0x140 => {
                    self.put(3, 3);
                    self.put(distance - 0x40, 8);
                }
                _ => {
                    self.put(7, 3);
                    self.put(distance - 0x140, 12);
                }
            }
            let zeros = (length - 1).ilog2();
            self.put(1 << zeros, zeros as usize + 1);
            self.put(length - 1 - (1 << zeros), zeros as usize);
        }
    }

    /// Compresses with the longest copies that a search of the whole window finds.
    pub fn compress(bytes: &[u8]) -> Vec<u8> {
        let mut out = BitWriter::default();
        out.put(SIGNATURE, 16);
        out.put(0x100, 16);
        let mut at = 0;
        while at < bytes.len() {
            let same = |from: usize| {
                let pairs = bytes[at..].iter().zip(&bytes[from..]).take(500);
                pairs.take_while(|(a, b)| a == b).count()
            };
            let best = (at.saturating_sub(MARK - 1)..at).map(|from| (same(from), from)).max();
            match best {
                Some((length, from)) if length >= 2 => {
                    out.copy((at - from) as u32, length as u32);
                    at += length;
                }
                _ => {
                    let byte = bytes[at];
                    out.put(if byte < 0x80 { 2 } else { 1 }, 2);
                    out.put(u32::from(byte & 0x7f), 7);
                    at += 1;
                }
            }
        }
        out.put(7, 3);
        out.put(MARK as u32 - 0x140, 12);
        out.bytes
    }

    #[test]
    fn what_was_compressed_comes_back_and_a_cut_stream_is_damage() {
        let mut bytes: Vec<u8> = b"abcabcabcabd".repeat(60);
        bytes.extend((0..=255u8).rev());
        bytes.extend(std::iter::repeat_n(0x90, 700));
        bytes.extend_from_within(..400);
        let stream = compress(&bytes);
        assert!(stream.len() < bytes.len() / 2);
        assert_eq!(decompress(&stream, bytes.len()).as_ref(), Some(&bytes));
        assert_eq!(decompress(&stream, bytes.len() + 1), None);
        for size in 0..stream.len() - 3 {
            assert_eq!(decompress(&stream[..size], bytes.len()), None, "{size}");
        }
    }

    /// A stream made by hand: "aé", a mark, and a copy of both that overlaps itself.
    #[test]
    fn a_known_stream_gives_its_bytes() {
        let mut bits = BitWriter::default();
        for (value, count) in [(SIGNATURE, 16), (0x100, 16), (2, 2), (0x61, 7), (1, 2), (0x69, 7)] {
            bits.put(value, count);
        }
        // The mark: 111 and twelve ones.
        bits.put(0x7fff, 15);
        // Two back; 001 and 10: 1 + 4 + 1.
        for (value, count) in [(0, 2), (2, 6), (4, 3), (1, 2)] {
            bits.put(value, count);
        }
        assert_eq!(decompress(&bits.bytes, 8).unwrap(), b"a\xe9a\xe9a\xe9a\xe9");
        // Further back than the start.
        let mut bits = BitWriter::default();
        for (value, count) in [(SIGNATURE, 16), (0x100, 16), (0, 2), (2, 6), (1, 1)] {
            bits.put(value, count);
        }
        assert_eq!(decompress(&bits.bytes, 2), None);
    }
}
