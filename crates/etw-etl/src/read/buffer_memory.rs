//! Memory for the bytes of a buffer, used again and again.

/// The system's copy is a tenth slower if the memory begins a few bytes behind the file's place in a cache line. Not a page: the streams of
/// many CPUs would have their records in the same few sets of the cache.
const LINE: usize = 64;
/// Memory of this size is kept, however small the buffers that follow.
const SMALL: usize = 1 << 16;

/// Bytes that are never cleared: whoever reads them knows how many were written.
#[derive(Default)]
pub(crate) struct BufferMemory {
    bytes: Vec<u8>,
    /// The place of the first byte in use.
    start: usize,
}

impl BufferMemory {
    /// How many bytes fit.
    pub(crate) fn room(&self) -> usize {
        self.bytes.len().saturating_sub(LINE)
    }

    /// Makes room for `length` bytes, and lets the first `kept` be as they are. Takes the place in a line that bytes at
    /// `file_offset` have, unless some are kept: these have it.
    pub(crate) fn fit(&mut self, length: usize, kept: usize, file_offset: u64) {
        // One large buffer must not make every stream that its memory comes by hold as much.
        let is_fit = length <= self.room() && self.bytes.len() / 4 <= length.max(SMALL);
        if is_fit && kept > 0 {
            return;
        }
        let mut before = Vec::new();
        if !is_fit {
            // Exactly: doubling would take half as much again as the largest buffer.
            before = std::mem::replace(&mut self.bytes, vec![0; length + LINE]);
        }
        let kept_at = self.start;
        let in_line = (file_offset % LINE as u64) as usize;
        let to_line = self.bytes.as_ptr().align_offset(LINE);
        self.start = (to_line % LINE + in_line) % LINE;
        if let Some(kept) = before.get(kept_at..kept_at + kept) {
            self.bytes[self.start..][..kept.len()].copy_from_slice(kept);
        }
    }

    /// The bytes in use, and behind them all that fit.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Some of the bytes; `None` if they are not all there.
    #[inline(always)]
    pub(crate) fn part(&self, from: usize, size: usize) -> Option<&[u8]> {
        self.bytes.get(self.start + from..)?.get(..size)
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..).unwrap_or_default()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_the_place_of_the_file_in_its_line() {
        let mut memory = BufferMemory::default();
        for (length, offset) in [(1000, 0), (1000, 72), (70_000, 8192 + 4095), (1, 5)] {
            memory.fit(length, 0, offset);
            assert!(memory.room() >= length && memory.bytes().len() >= length);
            let in_line = memory.bytes().as_ptr().addr() % LINE;
            assert_eq!(in_line as u64, offset % LINE as u64, "{length} bytes at {offset}");
        }
    }

    #[test]
    fn memory_that_grows_or_shrinks_keeps_what_was_asked_for() {
        let mut memory = BufferMemory::default();
        memory.fit(10, 0, 100);
        memory.bytes_mut()[..10].copy_from_slice(b"0123456789");
        memory.fit(1 << 20, 10, 100);
        assert_eq!(&memory.bytes()[..10], b"0123456789");
        assert!(memory.room() >= 1 << 20);
        memory.fit(20, 4, 100);
        assert_eq!(&memory.bytes()[..4], b"0123");
        assert!(memory.capacity() < 1 << 18, "a large buffer's memory is given back");
    }
}
