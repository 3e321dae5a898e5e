//! MD5 (RFC 1321), from which message GUIDs and checksums are made. It protects nothing.

/// The sum of some bytes.
pub fn md5(bytes: &[u8]) -> [u8; 16] {
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let mut message = bytes.to_vec();
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend((bytes.len() as u64).wrapping_mul(8).to_le_bytes());
    let (blocks, _) = message.as_chunks::<64>();
    for block in blocks {
        add_block(&mut state, block);
    }
    let mut sum = [0; 16];
    for (part, word) in sum.chunks_mut(4).zip(state) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    sum
}

fn add_block(state: &mut [u32; 4], block: &[u8; 64]) {
    const ROTATIONS: [[u32; 4]; 4] =
        [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    let (words, _) = block.as_chunks::<4>();
    let [mut a, mut b, mut c, mut d] = *state;
    for step in 0..64usize {
        let (mix, word) = match step / 16 {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
            2 => (b ^ c ^ d, (3 * step + 5) % 16),
            _ => (c ^ (b | !d), (7 * step) % 16),
        };
        // The constants are the sines of 1 to 64.
        let constant = (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
        let sum = a
            .wrapping_add(mix)
            .wrapping_add(constant)
            .wrapping_add(u32::from_le_bytes(words[word]));
        let turned = sum.rotate_left(ROTATIONS[step / 16][step % 4]);
        (a, b, c, d) = (d, b.wrapping_add(turned), b, c);
    }
    for (old, new) in state.iter_mut().zip([a, b, c, d]) {
        *old = old.wrapping_add(new);
    }
}

#[cfg(test)]
mod tests {
    use super::md5;

    #[test]
    fn sums_are_those_of_rfc_1321() {
        let hex = |text: &str| -> String {
            md5(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
        };
        assert_eq!(hex(""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
        let long =
            "12345678901234567890123456789012345678901234567890123456789012345678901234567890";
        assert_eq!(hex(long), "57edf4a22be3c955ac49da2e2107b67a");
    }
}
