//! Schematised filters as callbacks get them: with the session's bit in the filters of `EventWriteEx`.
//!
//! ```text
//! EVENT_FILTER_HEADER   0 u16 id, u8 version, 5 bytes reserved
//!                       8 u64 the session's bit; the controller leaves it 0
//!                      16 u32 size of header and data   20 u32 offset of the next header; 0: none
//! ```

use std::borrow::Cow;

use etw_types::le;

use crate::pools;

const HEADER_SIZE: usize = 24;
const INSTANCE: usize = 8;

/// The filter with the session's bit in each header. Data that is no header, or has a value in that place, stays as it is.
pub(super) fn with_instance(data: &[u8], attachment: usize, slot: u8) -> Cow<'_, [u8]> {
    with_bit(data, pools::filter_bit(attachment, slot))
}

fn with_bit(data: &[u8], bit: u64) -> Cow<'_, [u8]> {
    let mut data = Cow::Borrowed(data);
    let mut at = 0;
    while let Some(next) = header(&data[at..]) {
        data.to_mut()[at + INSTANCE..][..8].copy_from_slice(&bit.to_le_bytes());
        // The next header is behind this one, so the loop ends.
        match next {
            0 => break,
            next if next < HEADER_SIZE || next > data.len() - at => break,
            next => at += next,
        }
    }
    data
}

/// The offset of the next header, if this is one that a controller made.
fn header(data: &[u8]) -> Option<usize> {
    let size = le::u32(data, 16)? as usize;
    let next = le::u32(data, 20)? as usize;
    let is_free = le::u64(data, INSTANCE)? == 0;
    (is_free && (HEADER_SIZE..=data.len()).contains(&size)).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(size: u32, next: u32, data: &[u8]) -> Vec<u8> {
        let header = [7u64.to_le_bytes(), [0; 8]].concat();
        [&header[..], &size.to_le_bytes(), &next.to_le_bytes(), data].concat()
    }

    #[test]
    fn each_header_gets_the_bit_and_nothing_else_changes() {
        let both = [filter(26, 26, b"ab"), filter(24, 0, b"")].concat();
        let with = with_bit(&both, 1 << 33).into_owned();
        let changed: Vec<usize> = (0..both.len()).filter(|&at| both[at] != with[at]).collect();
        assert_eq!(changed, [12, 38]);
        assert_eq!(le::u64(&with, 8), Some(1 << 33));
    }

    #[test]
    fn malicious_sizes_and_offsets_change_nothing_behind_the_data() {
        for (size, next) in [(23, 0), (27, 0), (u32::MAX, 0), (0, u32::MAX)] {
            assert_eq!(&*with_bit(&filter(size, next, b"ab"), 1), filter(size, next, b"ab"));
        }
        for next in [1, 23, 25, 26, 27, u32::MAX] {
            let data = filter(26, next, b"ab");
            assert_eq!(with_bit(&data, 1)[16..], data[16..]);
        }
        assert_eq!(&*with_bit(&[0; 23], 1), [0; 23]);
        assert_eq!(&*with_bit(&[1; 64], 1), [1; 64]);
        assert_eq!(&*with_bit(b"", 1), b"");
    }
}
