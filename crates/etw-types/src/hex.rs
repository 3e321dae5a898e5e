//! Hexadecimal digits of bytes.

/// The two digits of each byte, in lower case.
pub const HEX_PAIRS: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_its_digits() {
        for (byte, pair) in HEX_PAIRS.iter().enumerate() {
            assert_eq!(std::str::from_utf8(pair).unwrap(), format!("{byte:02x}"));
        }
    }
}
