//! Streams of the merge: the records of one chunk, or of all overflow chunks, read through a window.

use super::{Drained, Source};

/// The streams of a drain, while they are collected from chunks.
#[derive(Debug)]
pub(super) struct Collected<'a> {
    pub(super) watermark: u64,
    /// The provider's process has ended.
    pub(super) ended: bool,
    pub(super) streams: &'a mut Vec<Stream>,
    /// The records of all overflow chunks.
    pub(super) refs: Vec<Ref>,
    pub(super) out: &'a mut Drained,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) segment: usize,
    pub(super) unit: u16,
    pub(super) slot: Option<u16>,
    /// Position and end in the chunk; `base` is the chunk's offset in its segment.
    pub(super) at: u32,
    pub(super) end: u32,
    pub(super) base: usize,
    /// A copy of `filled` bytes of the chunk, from `window_at` on.
    pub(super) window: Vec<u8>,
    pub(super) filled: usize,
    pub(super) window_at: u32,
    pub(super) refs: Vec<Ref>,
    pub(super) next_ref: usize,
    /// Copied parts of the chunks that the next references name.
    pub(super) copies: Vec<Copied>,
    /// The thread's next sequence number; `None` before the first record and after the last.
    pub(super) expected: Option<u32>,
}

impl Stream {
    /// The bytes in the window from the next record on.
    #[inline]
    pub(super) fn rest(&self) -> &[u8] {
        let at = self.at.wrapping_sub(self.window_at) as usize;
        // `filled` ends at the chunk's end at most, far below 4 GiB.
        self.window.get(at..self.filled).unwrap_or(&[])
    }

    pub(super) fn give_back(&mut self) -> Vec<u8> {
        self.filled = 0;
        std::mem::take(&mut self.window)
    }
}

/// Bytes of an overflow chunk that are copied at a time, since each copy is a system call.
pub(super) const COPY: u32 = 16 << 10;

/// The number of overflow chunks of which a part is held. Writers on that many CPUs may use one each.
pub(super) const COPIES: usize = 16;

/// A part of an overflow chunk, copied.
#[derive(Debug, Default)]
pub(super) struct Copied {
    pub(super) unit: u16,
    pub(super) at: u32,
    pub(super) bytes: Vec<u8>,
}

impl Copied {
    /// `len` bytes at `offset` of the chunk at `base`. A copy ends at `end` at most.
    pub(super) fn get(
        &mut self,
        source: &Source,
        base: usize,
        (offset, len): (u32, u32),
        end: u32,
    ) -> &[u8] {
        let have = self.at + self.bytes.len() as u32;
        if offset < self.at || offset + len > have {
            let size = len.max(COPY.min(end.saturating_sub(offset)));
            self.bytes.resize(size as usize, 0);
            self.at = offset;
            source.read(base + offset as usize, &mut self.bytes);
        }
        let at = (offset - self.at) as usize;
        &self.bytes[at..at + len as usize]
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Ref {
    pub(super) time: u64,
    pub(super) seq: u32,
    pub(super) unit: u16,
    pub(super) index: u32,
    pub(super) offset: u32,
    pub(super) room: u32,
    /// The chunk's end.
    pub(super) end: u32,
}
