//! Little-endian reads that return `None` if the slice is too short.
//!
//! Every byte order in ETW is little-endian; every length comes from a file or another process, so no read
//! trusts its offset.

macro_rules! reader {
    ($($(#[$doc:meta])* $name:ident -> $ty:ty;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(bytes: &[u8], offset: usize) -> Option<$ty> {
            const N: usize = size_of::<$ty>();
            let end = offset.checked_add(N)?;
            let chunk: [u8; N] = bytes.get(offset..end)?.try_into().ok()?;
            Some(<$ty>::from_le_bytes(chunk))
        }
    )*};
}

reader! {
    /// Two bytes at `offset`.
    u16 -> u16;
    /// Four bytes at `offset`.
    u32 -> u32;
    /// Eight bytes at `offset`.
    u64 -> u64;
    /// Eight bytes at `offset`, signed.
    i64 -> i64;
    /// Four bytes at `offset`, signed.
    i32 -> i32;
    /// Four bytes at `offset`, IEEE single.
    f32 -> f32;
    /// Eight bytes at `offset`, IEEE double.
    f64 -> f64;
}

/// The byte at `offset`.
#[inline]
pub fn u8(bytes: &[u8], offset: usize) -> Option<u8> {
    bytes.get(offset).copied()
}

/// Splits NUL-terminated UTF-16 from the front: the text without its NUL, and its length in bytes with the NUL.
///
/// `None` if there is no NUL at an even offset.
#[inline]
pub fn utf16_z(bytes: &[u8]) -> Option<(&[u8], usize)> {
    const ONES: u64 = 0x0001_0001_0001_0001;
    // Four units at a time: the lowest bit that is set is that of the first zero unit.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & ONES << 15;
    let mut at = 0;
    while let Some(word) = u64(bytes, at) {
        let found = zeros(word);
        if found != 0 {
            at += (found.trailing_zeros() / 16 * 2) as usize;
            return Some((&bytes[..at], at + 2));
        }
        at += 8;
    }
    let units = bytes[at..].chunks_exact(2).position(|unit| unit == [0, 0])?;
    at += units * 2;
    Some((&bytes[..at], at + 2))
}

/// The offset of the first zero byte.
#[inline]
pub fn nul(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut at = 0;
    while let Some(word) = u64(bytes, at) {
        // The lowest bit that is set is that of the first zero byte.
        let found = word.wrapping_sub(ONES) & !word & ONES << 7;
        if found != 0 {
            return Some(at + (found.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    bytes[at..].iter().position(|byte| *byte == 0).map(|found| at + found)
}

/// UTF-16LE text as a string, unpaired surrogates shown as U+FFFD; an odd last byte is ignored.
pub fn utf16_lossy(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stop_at_the_end() {
        let bytes = [1, 2, 3, 4, 5];
        assert_eq!(u32(&bytes, 1), Some(0x0504_0302));
        assert_eq!(u32(&bytes, 2), None);
        assert_eq!(u16(&bytes, usize::MAX), None);
    }

    #[test]
    fn the_first_nul_is_found_wherever_it_is() {
        for length in 0..40 {
            let plain = vec![1; length];
            assert_eq!((nul(&plain), utf16_z(&plain)), (None, None));
            for at in 0..length {
                let mut text = vec![0; length];
                text[..at].fill(0x80);
                assert_eq!(nul(&text), Some(at));
                let even = at.next_multiple_of(2);
                let found = (even + 2 <= length).then(|| (&text[..even], even + 2));
                assert_eq!(utf16_z(&text), found, "{at} of {length}");
            }
        }
    }

    #[test]
    fn utf16_stops_at_an_aligned_nul() {
        // U+0100 holds a zero byte in its low half; only a whole zero unit ends the text.
        let bytes = [0x00, 0x01, 0x41, 0x00, 0x00, 0x00, 0x42, 0x00];
        assert_eq!(utf16_z(&bytes), Some((&bytes[..4], 6)));
        assert_eq!(utf16_lossy(&bytes[..4]), "\u{100}A");
        assert_eq!(utf16_z(&bytes[..4]), None);
        assert_eq!(utf16_lossy(&[0x00, 0xd8]), "\u{fffd}");
    }
}
