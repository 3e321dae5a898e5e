//! A stream of the merge: one chunk's records, or those of all overflow chunks, through a window.

use super::Source;
use super::record::Header;

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) segment: usize,
    pub(super) unit: u16,
    pub(super) slot: Option<u16>,
    /// Position and end in the chunk; the chunk's offset in its segment.
    pub(super) at: u32,
    pub(super) end: u32,
    pub(super) base: usize,
    /// A copy of the chunk from `window_at` on, `filled` bytes of it.
    pub(super) window: Vec<u8>,
    pub(super) filled: usize,
    pub(super) window_at: u32,
    pub(super) refs: Vec<Ref>,
    pub(super) next_ref: usize,
    /// Of the chunks of the next references.
    pub(super) copies: Vec<Copied>,
    /// The thread's next sequence number, from the first record on until nothing more comes.
    pub(super) expected: Option<u32>,
}

impl Stream {
    /// The next record, if all of it is in the window.
    #[inline(always)]
    pub(super) fn whole(&self) -> Option<(Header, &[u8])> {
        let at = self.at.wrapping_sub(self.window_at) as usize;
        // What is filled ends at the chunk's end at most, far below 4 GiB.
        let rest = self.window.get(at..self.filled)?;
        let (head, payload) = rest.split_first_chunk()?;
        let header = Header::read(head);
        header.room(rest.len() as u32)?;
        Some((header, payload.get(..header.size() as usize)?))
    }

    pub(super) fn give_back(&mut self) -> Vec<u8> {
        self.filled = 0;
        std::mem::take(&mut self.window)
    }
}

/// Bytes of an overflow chunk that are copied at a time: a record by itself would be a system call.
pub(super) const COPY: u32 = 16 << 10;

/// Overflow chunks of which a part is held; writers on that many processors may use one each.
pub(super) const COPIES: usize = 16;

/// A part of an overflow chunk, copied.
#[derive(Debug, Default)]
pub(super) struct Copied {
    pub(super) unit: u16,
    pub(super) at: u32,
    pub(super) bytes: Vec<u8>,
}

impl Copied {
    /// So many bytes at `offset` of the chunk at `base`; what is copied ends at `end` at most.
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
    /// Of the chunk.
    pub(super) end: u32,
}
