//! Records as the host copies them out, and their headers.

use crate::layout::*;

/// A record, copied out of the pool, with checked bounds. All its values are claims of the provider.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Raw time.
    pub time: u64,
    /// The parts of its [prefix](crate::prefix).
    pub kind: u8,
    /// The sessions that admitted it, by the writer's claim.
    pub sessions: u8,
    /// Processor.
    pub cpu: u16,
    /// The thread id, in the writer's namespace.
    pub tid: u32,
    /// The registration that wrote it.
    pub registration: u32,
    /// The site id, 0 for inline metadata; see [`SiteTable`](super::SiteTable).
    pub site: u32,
    /// The sequence number in its stream.
    pub seq: u32,
    /// The writer's word.
    pub user: u32,
    /// The epoch of its admission.
    pub epoch: u16,
    /// The size of the prefix at the start of the payload; at most the payload's length.
    pub metadata_size: u16,
    /// Whether it was written through an overflow chunk.
    pub overflow: bool,
    /// Prefix and payload.
    pub payload: &'a [u8],
}

/// A record's header as words: words stay in registers, while bytes would be copied for each access.
#[derive(Clone, Copy)]
pub(super) struct Header([u64; RECORD_HEADER_SIZE / 8]);

impl Header {
    #[inline]
    pub(super) fn read(bytes: &[u8; RECORD_HEADER_SIZE]) -> Header {
        let word = |at| le64(bytes, at);
        Header([word(0), word(8), word(16), word(24), word(32)])
    }
    #[inline]
    pub(super) fn size(&self) -> u32 {
        self.0[0] as u32
    }
    #[inline]
    pub(super) fn time(&self) -> u64 {
        self.0[1]
    }
    #[inline]
    pub(super) fn seq(&self) -> u32 {
        (self.0[2] >> 32) as u32
    }
    #[inline]
    pub(super) fn metadata_size(&self) -> u16 {
        self.0[4] as u16
    }
    /// The bytes that the record takes, if it can lie in `left` bytes.
    pub(super) fn record_size(&self, left: u32) -> Option<u32> {
        let size = self.size() as usize;
        if size > MAX_PAYLOAD_SIZE || u32::from(self.metadata_size()) > self.size() {
            return None;
        }
        let size = record_size(size) as u32;
        (size <= left).then_some(size)
    }
    #[inline]
    pub(super) fn record<'a>(&self, payload: &'a [u8], overflow: bool) -> Record<'a> {
        let [first, time, third, fourth, fifth] = self.0;
        Record {
            time,
            kind: (first >> 32) as u8,
            sessions: (first >> 40) as u8,
            cpu: (first >> 48) as u16,
            tid: (fourth >> 32) as u32,
            registration: fourth as u32,
            site: third as u32,
            seq: self.seq(),
            user: (fifth >> 32) as u32,
            epoch: (fifth >> 16) as u16,
            metadata_size: self.metadata_size(),
            overflow,
            payload,
        }
    }
}

#[inline]
pub(super) fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from(le32(bytes, at)) | u64::from(le32(bytes, at + 4)) << 32
}

#[inline]
pub(super) fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
