//! Hex digits of numbers and of bytes.

use etw_types::HEX_PAIRS;

/// The hex digits of a number, without leading zeros, and their count.
#[inline(always)]
pub(crate) fn hex_digits(value: u64) -> ([u8; 16], usize) {
    // In nibbles; zero has a digit, too.
    let zeros = ((value | 1).leading_zeros() / 4) as usize;
    (sixteen_digits(value << (4 * zeros)), 16 - zeros)
}

/// All hex digits of a number.
#[inline(always)]
fn sixteen_digits(value: u64) -> [u8; 16] {
    digits_of_bytes(value.swap_bytes())
}

/// The two hex digits of each byte, from the lowest on. Both halves have the same steps and no branch, of which the compiler makes vector operations.
#[inline(always)]
fn digits_of_bytes(bytes: u64) -> [u8; 16] {
    const ALL: u64 = 0x0101_0101_0101_0101;
    let mut halves = [bytes & 0xffff_ffff, bytes >> 32];
    for half in &mut halves {
        let pairs = (*half | *half << 16) & 0x0000_ffff_0000_ffff;
        let pairs = (pairs | pairs << 8) & 0x00ff_00ff_00ff_00ff;
        let nibbles = pairs >> 4 & 0x000f_000f_000f_000f | pairs << 8 & 0x0f00_0f00_0f00_0f00;
        // 16 where the digit is a letter, which is 39 behind the number's place among the digits: a product takes longer.
        let letters = (nibbles + 6 * ALL) & (16 * ALL);
        *half = nibbles + u64::from(b'0') * ALL + (letters << 1) + (letters >> 1) - (letters >> 4);
    }
    let mut text = [0; 16];
    for (place, half) in text.chunks_exact_mut(8).zip(halves) {
        place.copy_from_slice(&half.to_le_bytes());
    }
    text
}

/// Appends two hex digits a byte.
pub(crate) fn write_hex_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + 2 * bytes.len(), 0);
    let places = &mut out[start..];
    let digits = |eight: &[u8; 8]| digits_of_bytes(u64::from_le_bytes(*eight));
    for (place, eight) in places.chunks_exact_mut(16).zip(bytes.chunks_exact(8)) {
        if let Some(eight) = eight.first_chunk() {
            place.copy_from_slice(&digits(eight));
        }
    }
    match (places.last_chunk_mut(), bytes.last_chunk()) {
        _ if bytes.len() % 8 == 0 => {}
        // The last eight bytes overlap those before them.
        (Some(place), Some(last)) => *place = digits(last),
        _ => places.chunks_exact_mut(2).zip(bytes).for_each(|(place, byte)| {
            place.copy_from_slice(&HEX_PAIRS[usize::from(*byte)]);
        }),
    }
}

/// A text of at most eight bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front {
    bytes: [u8; 8],
    length: usize,
}

impl Front {
    /// Two texts, one behind the other, of at most four bytes each.
    pub fn of<const N: usize, const M: usize>(first: &[u8; N], second: &[u8; M]) -> Front {
        const { assert!(N <= 4 && M <= 4) };
        let mut bytes = [0; 8];
        bytes[..N].copy_from_slice(first);
        bytes[N..N + M].copy_from_slice(second);
        Front { bytes, length: N + M }
    }
}

/// Numbers for which the output is made longer at once.
const BLOCK: usize = 32;
/// Bytes that are written for a number at once, needed or not.
const ROOM: usize = 32;

/// Appends the hex digits of numbers of `size` bytes, which lie one behind the other, with `front` in front of each and `after` behind it.
pub(crate) fn write_hex_all(
    out: &mut Vec<u8>,
    (numbers, size): (&[u8], usize),
    front: Front,
    after: Option<u8>,
) {
    let four = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let eight = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let any = |bytes: &[u8]| bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
    for block in numbers.chunks(size * BLOCK) {
        // A loop for each of the usual sizes.
        match size {
            4 => {
                put_block(out, block.chunks_exact(4).map(|bytes| four(bytes).into()), front, after)
            }
            8 => put_block(out, block.chunks_exact(8).map(eight), front, after),
            _ => put_block(out, block.chunks_exact(size).map(any), front, after),
        }
    }
}

#[inline(always)]
fn put_block(
    out: &mut Vec<u8>,
    numbers: impl ExactSizeIterator<Item = u64>,
    Front { bytes, length }: Front,
    after: Option<u8>,
) {
    // The compiler does not know it of a field.
    let length = length.min(bytes.len());
    let (last, more) = (after.unwrap_or(0), usize::from(after.is_some()));
    let mut end = out.len();
    // Each number, the last one, too, has room for all that is written for it at once.
    out.resize(end + numbers.len() * (length + 16 + more) + ROOM, 0);
    for value in numbers {
        let (digits, count) = hex_digits(value);
        let room = out.get_mut(end..).and_then(<[u8]>::first_chunk_mut::<ROOM>);
        let Some(room) = room else { break };
        room[..bytes.len()].copy_from_slice(&bytes);
        room[length..length + digits.len()].copy_from_slice(&digits);
        room[length + count] = last;
        end += length + count + more;
    }
    out.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_sizes_are_written_one_behind_the_other() {
        let mut state = 1u64;
        let mut bytes = Vec::new();
        for shift in (0..64).cycle().take(200) {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            bytes.extend((state >> shift).to_le_bytes());
        }
        bytes.extend([0; 8]);
        let fronts = [Front::of(b"", b""), Front::of(b",", b"\"0x"), Front::of(b"1234", b"5678")];
        for (size, front) in [1, 2, 4, 8].into_iter().flat_map(|size| fronts.map(|it| (size, it))) {
            let after = (front.length == 4).then_some(b'"');
            let before = std::str::from_utf8(&front.bytes[..front.length]).unwrap();
            for count in [0, 1, 2, BLOCK - 1, BLOCK, BLOCK + 1, bytes.len() / size] {
                let numbers = &bytes[..count * size];
                let mut out = b"in front".to_vec();
                write_hex_all(&mut out, (numbers, size), front, after);
                let mut expected = "in front".to_owned();
                for number in numbers.chunks(size) {
                    let mut all = [0; 8];
                    all[..size].copy_from_slice(number);
                    expected += &format!("{before}{:x}", u64::from_le_bytes(all));
                    expected.extend(after.map(char::from));
                }
                assert_eq!(String::from_utf8(out).unwrap(), expected);
            }
        }
    }

    #[test]
    fn bytes_have_two_hex_digits_each() {
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..50 {
            for bytes in bytes.windows(length.max(1)).map(|window| &window[..length]) {
                let mut out = Vec::new();
                write_hex_bytes(&mut out, bytes);
                let expected: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(String::from_utf8(out).unwrap(), expected);
            }
        }
    }
}
