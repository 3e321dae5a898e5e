//! LZNT1, as `RtlCompressBuffer` of Windows makes it: chunks of up to 4096 bytes.
//!
//! ```text
//! chunk   u16: 0 ends the stream; bits 0-11 the bytes behind it, less one; bits 12-14 are 3; bit 15 compressed
//!         compressed: a byte of eight flags, lowest first; 0 a byte as it is; 1 a u16 of distance, less one, and length, less three:
//!         the further the chunk is, the more of its bits are the distance
//! ```
//!
//! Source: \[MS-XCA\] 2.5, as Microsoft publishes it.

use etw_types::le;

/// Bytes that a chunk holds.
const CHUNK: usize = 4096;

/// Decompresses a stream that makes `size` bytes; `None` if it is damaged or makes fewer or more.
pub fn decompress(stream: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut output = Vec::with_capacity(size.min(1 << 16));
    let mut at = 0;
    while output.len() < size {
        let header = le::u16(stream, at)?;
        if header == 0 {
            break;
        }
        let data = stream.get(at + 2..)?.get(..usize::from(header & 0xfff) + 1)?;
        at += 2 + data.len();
        match (header >> 12 & 7, header & 0x8000 != 0) {
            (3, true) => decompress_chunk(data, &mut output)?,
            (3, false) => output.extend_from_slice(data),
            _ => return None,
        }
    }
    (output.len() == size).then_some(output)
}

fn decompress_chunk(data: &[u8], output: &mut Vec<u8>) -> Option<()> {
    let start = output.len();
    let mut at = 0;
    while at < data.len() {
        let flags = data[at];
        at += 1;
        for bit in 0..8 {
            if at == data.len() {
                break;
            }
            if flags >> bit & 1 == 0 {
                output.push(data[at]);
                at += 1;
            } else {
                let token = usize::from(le::u16(data, at)?);
                at += 2;
                let done = output.len() - start;
                // At 16 bytes the distance takes 4 bits, and one more each time that the position doubles.
                let distance_bits = (usize::BITS - done.checked_sub(1)?.leading_zeros()).max(4);
                let length_bits = 16u32.checked_sub(distance_bits)?;
                let distance = (token >> length_bits) + 1;
                let length = (token & ((1 << length_bits) - 1)) + 3;
                let from = output.len().checked_sub(distance).filter(|from| *from >= start)?;
                if done + length > CHUNK {
                    return None;
                }
                for byte in from..from + length {
                    output.push(output[byte]);
                }
            }
            if output.len() - start > CHUNK {
                return None;
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification.
    #[test]
    fn the_published_example_is_decompressed() {
        let stream = [
            0x38, 0xb0, 0x88, 0x46, 0x23, 0x20, 0x00, 0x20, 0x47, 0x20, 0x41, 0x00, 0x10, 0xa2,
            0x47, 0x01, 0xa0, 0x45, 0x20, 0x44, 0x00, 0x08, 0x45, 0x01, 0x50, 0x79, 0x00, 0xc0,
            0x45, 0x20, 0x05, 0x24, 0x13, 0x88, 0x05, 0xb4, 0x02, 0x4a, 0x44, 0xef, 0x03, 0x58,
            0x02, 0x8c, 0x09, 0x16, 0x01, 0x48, 0x45, 0x00, 0xbe, 0x00, 0x9e, 0x00, 0x04, 0x01,
            0x18, 0x90, 0x00,
        ];
        let text = "F# F# G A A G F# E D D E F# F# E E F# F# G A A G F# E D D E F# E D D E E F# D E F# G F# D E \
                    F# G F# E D E A F# F# G A A G F# E D D E F# E D D";
        let mut whole = text.as_bytes().to_vec();
        whole.push(0);
        assert_eq!(decompress(&stream, whole.len()).as_deref(), Some(&whole[..]));
        assert_eq!(decompress(&stream, whole.len() + 1), None);
        for size in 0..stream.len() {
            assert_eq!(decompress(&stream[..size], whole.len()), None, "{size}");
        }
    }

    #[test]
    fn a_run_repeats_and_a_stored_chunk_is_copied() {
        // Ten bytes from a distance of one; a stored chunk of two.
        let stream = [3, 0xb0, 2, b'a', 7, 0, 1, 0x30, b'b', b'c', 0, 0];
        assert_eq!(decompress(&stream, 13).as_deref(), Some(&b"aaaaaaaaaaabc"[..]));
        assert_eq!(
            decompress(&[3, 0xb0, 1, 7, 0, 0], 10),
            None,
            "nothing is before the first byte"
        );
        assert_eq!(decompress(&[1, 0x10, 1, 2], 2), None, "another format");
    }
}
