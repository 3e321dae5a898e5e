//! UTF-16 as the content of JSON strings.

use super::push_escaped;
use crate::value::{Text, push_ascii_prefix, push_utf16, without_nul16};

/// UTF-16 units that are looked at together.
const UNITS: usize = 8;

/// Whether an ASCII character stands for itself in a JSON string.
fn is_plain(byte: u8) -> bool {
    (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\'
}

/// Appends UTF-16 up to its first NUL.
pub(super) fn push_utf16_content(out: &mut impl Text, units: &[u8]) {
    let rest = push_ascii_prefix(out, without_nul16(units), is_plain);
    if rest.len() > 1 {
        let mut text = String::new();
        push_utf16(&mut text, rest);
        push_escaped(out, &text);
    }
}

/// Appends UTF-16 up to the block with the first unit that does not stand for itself, and returns the text from there on. `onwards`
/// starts with the text and may be longer, so that whole blocks can be read.
#[inline]
pub(super) fn push_plain_utf16<'b>(
    out: &mut Vec<u8>,
    text: &'b [u8],
    onwards: &'b [u8],
) -> &'b [u8] {
    let size = text.len() & !1;
    let end = out.len() + size / 2;
    let mut rest = onwards;
    let mut left = size;
    while left > 0 {
        let Some((bytes, after)) = rest.split_first_chunk::<{ 2 * UNITS }>() else {
            let text = &text[size - left..];
            out.truncate(end - left / 2);
            return push_last_units(out, text);
        };
        let mut units = u128::from_le_bytes(*bytes);
        if left < 2 * UNITS {
            // Spaces stand for the units behind the text.
            let is_text = u128::MAX >> (8 * (2 * UNITS - left));
            units = units & is_text | SPACES & !is_text;
        }
        let Some(ascii) = plain(units) else {
            return &text[size - left..];
        };
        out.extend_from_slice(&ascii.to_le_bytes());
        rest = after;
        left = left.saturating_sub(2 * UNITS);
    }
    out.truncate(end);
    &[]
}

/// As [`push_plain_utf16`], for fewer than [`UNITS`] units at the end of the memory.
#[cold]
fn push_last_units<'b>(out: &mut Vec<u8>, text: &'b [u8]) -> &'b [u8] {
    let mut bytes = SPACES.to_le_bytes();
    let size = text.len() & !1;
    bytes[..size].copy_from_slice(&text[..size]);
    match plain(u128::from_le_bytes(bytes)) {
        Some(ascii) => {
            out.extend_from_slice(&ascii.to_le_bytes()[..size / 2]);
            &[]
        }
        None => text,
    }
}

const SPACES: u128 = 0x0020_0020_0020_0020_0020_0020_0020_0020;

/// The bytes of eight units, if each of them stands for itself.
#[inline]
fn plain(units: u128) -> Option<u64> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const TOP: u64 = 0x80 * EACH;
    let (low, high) = (units as u64, (units >> 64) as u64);
    if (low | high) & 0xff80_ff80_ff80_ff80 != 0 {
        return None;
    }
    let bytes = |word: u64| {
        let pairs = (word | word >> 8) & 0x0000_ffff_0000_ffff;
        (pairs | pairs >> 16) & 0xffff_ffff
    };
    let ascii = bytes(low) | bytes(high) << 32;
    // Each subtraction leaves the top bit of a byte that is not below the number.
    let is_text = (ascii | TOP).wrapping_sub(0x20 * EACH);
    let is_no_quote = ((ascii ^ (0x22 * EACH)) | TOP).wrapping_sub(EACH);
    let is_no_backslash = ((ascii ^ (0x5c * EACH)) | TOP).wrapping_sub(EACH);
    let is_plain = is_text & is_no_quote & is_no_backslash & TOP;
    (is_plain == TOP).then_some(ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(units: &[u16], behind: &[u8]) -> String {
        let text: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let onwards = [&text, behind].concat();
        let mut out = b"before ".to_vec();
        let rest = push_plain_utf16(&mut out, &onwards[..text.len()], &onwards);
        push_utf16_content(&mut out, rest);
        String::from_utf8(out).unwrap()
    }

    /// Texts of every length with a special character at every position have the content that is made without blocks.
    #[test]
    fn blocks_give_the_same_text() {
        let behind = [&[][..], &[0xff; 3], &[b'"'; 40]];
        for length in 0..40 {
            let plain: Vec<u16> = (0..length).map(|unit| u16::from(b'a') + unit % 26).collect();
            for special in
                [None, Some(0), Some(9), Some(0x22), Some(0x5c), Some(0x141), Some(0xd83d)]
            {
                for position in 0..length as usize {
                    let mut units = plain.clone();
                    if let Some(special) = special {
                        units[position] = special;
                    }
                    let bytes: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
                    let mut expected = String::from("before ");
                    push_utf16_content(&mut expected, &bytes);
                    for behind in behind {
                        assert_eq!(content(&units, behind), expected);
                    }
                }
            }
        }
        assert_eq!(content(&[], &[b'a'; 64]), "before ");
    }
}
