//! Codecs of values of any size: strings, binary, SIDs.

use etw_ring::Room;
use etw_tracelogging::sid_size;

use super::plain::{REFUSED, put_units};

/// A codec of slices.
pub trait Text {
    /// `u8` or `u16`.
    type Unit: Copy + 'static;
    /// The part of the slice that is written.
    fn cut(value: &[Self::Unit]) -> &[Self::Unit] {
        value
    }
    /// Bytes in the payload of a slice that was cut.
    fn size(value: &[Self::Unit]) -> usize;
    /// Puts as many bytes.
    fn put<'r>(value: &[Self::Unit], room: Room<'r>) -> Room<'r>;
}

/// Values with bytes: everything that is `AsRef<[u8]>`, also through dereferencing.
pub trait Bytes<'a> {
    #[doc(hidden)]
    fn __etw_bytes(self) -> &'a [u8];
}

impl<'a, T: AsRef<[u8]> + ?Sized> Bytes<'a> for &'a T {
    #[inline(always)]
    fn __etw_bytes(self) -> &'a [u8] {
        self.as_ref()
    }
}

/// Values with UTF-16 units: everything that is `AsRef<[u16]>`, also through dereferencing.
pub trait Units<'a> {
    #[doc(hidden)]
    fn __etw_units(self) -> &'a [u16];
}

impl<'a, T: AsRef<[u16]> + ?Sized> Units<'a> for &'a T {
    #[inline(always)]
    fn __etw_units(self) -> &'a [u16] {
        self.as_ref()
    }
}

/// A `u16` byte count and the bytes. Bytes that overflow the count are larger than any event, so the write is refused.
#[derive(Debug)]
pub struct Counted8;

impl Text for Counted8 {
    type Unit = u8;

    #[inline(always)]
    fn size(value: &[u8]) -> usize {
        // SAFETY: no slice is longer than isize::MAX. So the compiler knows that a sum of this size and small ones does not wrap.
        unsafe { std::hint::assert_unchecked(value.len() <= isize::MAX as usize) };
        2 + value.len()
    }

    #[inline(always)]
    fn put<'r>(value: &[u8], room: Room<'r>) -> Room<'r> {
        room.put_counted(value)
    }
}

/// A `u16` count of bytes and UTF-16LE.
#[derive(Debug)]
pub struct Counted16;

impl Text for Counted16 {
    type Unit = u16;

    #[inline(always)]
    fn size(value: &[u16]) -> usize {
        2 + size_of_val(value)
    }

    #[inline(always)]
    fn put<'r>(value: &[u16], room: Room<'r>) -> Room<'r> {
        put_units(value, room.put(&(size_of_val(value) as u16).to_le_bytes()))
    }
}

/// Whether a text contains a NUL. Texts are short, so this reads overlapping blocks instead of calling a search function.
#[inline]
pub fn has_nul(text: &[u8]) -> bool {
    // Compiles to one comparison of vectors.
    let in_block = |block: &[u8; 16]| block.iter().fold(false, |found, byte| found | (*byte == 0));
    // Sets a bit for each zero byte, and possibly for bytes above one.
    let in_word =
        |word: u64| word.wrapping_sub(0x0101_0101_0101_0101) & !word & 0x8080_8080_8080_8080;
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        let found = in_block(first) | in_block(last);
        if text.len() <= 32 {
            return found;
        }
        let blocks = text.chunks_exact(16).filter_map(<[u8]>::first_chunk);
        return blocks.fold(found, |found, block| found | in_block(block));
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
        return in_word(first) | in_word(last) != 0;
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return in_word(u64::from(first) | u64::from(last) << 32) != 0;
    }
    text.contains(&0)
}

/// Bytes up to the first NUL, and a NUL.
#[derive(Debug)]
pub struct Zero8;

impl Text for Zero8 {
    type Unit = u8;

    #[inline]
    fn cut(value: &[u8]) -> &[u8] {
        match has_nul(value) {
            false => value,
            true => value.split(|byte| *byte == 0).next().unwrap_or_default(),
        }
    }

    #[inline(always)]
    fn size(value: &[u8]) -> usize {
        value.len() + 1
    }

    #[inline(always)]
    fn put<'r>(value: &[u8], room: Room<'r>) -> Room<'r> {
        room.put(value).put(&[0])
    }
}

/// UTF-16LE up to the first NUL, and a NUL.
#[derive(Debug)]
pub struct Zero16;

impl Text for Zero16 {
    type Unit = u16;

    #[inline]
    fn cut(value: &[u16]) -> &[u16] {
        // Compiles to comparisons of vectors, unlike a search that ends at the first one.
        match value.iter().fold(false, |found, unit| found | (*unit == 0)) {
            false => value,
            true => value.split(|unit| *unit == 0).next().unwrap_or_default(),
        }
    }

    #[inline(always)]
    fn size(value: &[u16]) -> usize {
        size_of_val(value) + 2
    }

    #[inline(always)]
    fn put<'r>(value: &[u16], room: Room<'r>) -> Room<'r> {
        put_units(value, room).put(&[0, 0])
    }
}

/// A SID at the start of the bytes. If there is none, the event is refused.
#[derive(Debug)]
pub struct Sid;

impl Text for Sid {
    type Unit = u8;

    #[inline]
    fn cut(value: &[u8]) -> &[u8] {
        sid_size(value).and_then(|size| value.get(..size)).unwrap_or_default()
    }

    #[inline(always)]
    fn size(value: &[u8]) -> usize {
        if value.is_empty() { REFUSED } else { value.len() }
    }

    #[inline(always)]
    fn put<'r>(value: &[u8], room: Room<'r>) -> Room<'r> {
        room.put(value)
    }
}

#[cfg(test)]
mod tests {
    use super::{Text, Zero8, Zero16, has_nul};

    #[test]
    fn texts_end_at_their_first_nul_wherever_it_is() {
        for length in 0..40 {
            let mut text: Vec<u8> = (0..length).map(|n| (n * 37 % 255 + 1) as u8).collect();
            // Units whose lower byte is zero are no NULs.
            let mut units: Vec<u16> = (0..length as u16).map(|n| (n % 7 + 1) << 8).collect();
            assert!(!has_nul(&text), "{length}");
            assert_eq!((Zero8::cut(&text), Zero16::cut(&units)), (&text[..], &units[..]));
            for at in (0..length).rev() {
                (text[at], units[at]) = (0, 0);
                assert!(has_nul(&text), "{length} {at}");
                assert_eq!((Zero8::cut(&text).len(), Zero16::cut(&units).len()), (at, at));
            }
            for at in 0..length {
                (text[at], units[at]) = (1, 1);
                let next = if at + 1 < length { at + 1 } else { length };
                assert_eq!((Zero8::cut(&text).len(), Zero16::cut(&units).len()), (next, next));
            }
        }
    }
}
