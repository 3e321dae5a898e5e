//! Short texts that are appended to outputs: a copy of known size and a change of length cost less than a call of `memcpy`.

/// Bytes that are copied at once.
const BLOCK: usize = 32;
/// The last byte of a text at which a block begins.
const LAST_START: usize = 2;

/// A text that is appended for many events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockText {
    /// The start of the text, with zeros behind a shorter one.
    start: [u8; BLOCK + LAST_START],
    length: usize,
    /// A text longer than a block; else nothing.
    whole: Box<[u8]>,
}

impl Default for BlockText {
    fn default() -> BlockText {
        BlockText::new(&[])
    }
}

impl BlockText {
    pub fn new(text: &[u8]) -> BlockText {
        let mut start = [0; BLOCK + LAST_START];
        start.iter_mut().zip(text).for_each(|(place, byte)| *place = *byte);
        let whole = if text.len() > BLOCK { text.into() } else { Box::default() };
        BlockText { start, length: text.len(), whole }
    }

    /// Whether a text is copied at once.
    pub fn is_block(text: &[u8]) -> bool {
        text.len() <= BLOCK
    }

    pub fn as_bytes(&self) -> &[u8] {
        match self.length {
            length @ 0..=BLOCK => &self.start[..length],
            _ => &self.whole,
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Appends the text.
    #[inline(always)]
    pub fn put(&self, out: &mut Vec<u8>) {
        self.put_part::<0>(out, self.length);
    }

    /// Appends the bytes from `FIRST`, which is at most [`LAST_START`], to `end`.
    #[inline(always)]
    pub fn put_part<const FIRST: usize>(&self, out: &mut Vec<u8>, end: usize) {
        let length = end.saturating_sub(FIRST);
        match self.start[FIRST..].first_chunk::<BLOCK>() {
            Some(block) if length <= BLOCK => put_front(out, *block, length),
            _ => out.extend_from_slice(&self.as_bytes()[FIRST..end]),
        }
    }
}

/// Appends a part of `text`, which should have a block behind `start`.
#[inline]
pub(crate) fn put_part(out: &mut Vec<u8>, text: &[u8], start: usize, end: usize) {
    let block = text.get(start..).and_then(<[u8]>::first_chunk::<BLOCK>);
    match (block, end.saturating_sub(start)) {
        (Some(block), length @ 0..=BLOCK) => put_front(out, *block, length),
        _ => out.extend_from_slice(text.get(start..end).unwrap_or_default()),
    }
}

/// [`put_part`] of the output itself.
#[inline]
pub(crate) fn repeat_part(out: &mut Vec<u8>, start: usize, end: usize) {
    let block = out.get(start..).and_then(<[u8]>::first_chunk::<BLOCK>).copied();
    match (block, end.saturating_sub(start)) {
        (Some(block), length @ 0..=BLOCK) => put_front(out, block, length),
        _ => out.extend_from_within(start..end),
    }
}

/// Appends the first `length` bytes of `text`.
#[inline(always)]
pub(crate) fn put_front<const N: usize>(out: &mut Vec<u8>, text: [u8; N], length: usize) {
    let end = out.len() + length;
    out.extend_from_slice(&text);
    out.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_every_length_are_appended_whole() {
        let letters: Vec<u8> = (b'!'..=b'~').collect();
        for length in 1..80 {
            let text = BlockText::new(&letters[..length]);
            assert_eq!((text.as_bytes(), text.len()), (&letters[..length], length));
            let mut out = b"{".to_vec();
            text.put(&mut out);
            text.put_part::<1>(&mut out, length);
            text.put_part::<2>(&mut out, length.max(2));
            let parts = [&letters[..length], &letters[1..length], &letters[2..length.max(2)]];
            assert_eq!(out, [b"{", &parts.concat()[..]].concat());
        }
    }

    #[test]
    fn parts_of_every_length_are_appended_wherever_they_are() {
        let letters: Vec<u8> = (b'!'..=b'~').collect();
        for start in 0..letters.len() {
            for end in start..=letters.len() {
                let expected = [&letters[..], &letters[start..end]].concat();
                let (mut out, mut again) = (letters.clone(), letters.clone());
                put_part(&mut out, &letters, start, end);
                repeat_part(&mut again, start, end);
                assert!(out == expected && again == expected, "{start} {end}");
            }
        }
    }
}
