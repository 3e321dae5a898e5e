//! A record as the host copies it out, and its header.

use crate::layout::*;

/// One record, copied out of the pool and checked for its bounds. Everything in it is the provider's claim.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Raw time.
    pub time: u64,
    /// The writer's kind of record.
    pub kind: u8,
    /// Sessions that admitted it, as the writer says.
    pub sessions: u8,
    /// Processor.
    pub cpu: u16,
    /// Thread id, in the writer's namespace.
    pub tid: u32,
    /// Registration it was written through.
    pub registration: u32,
    /// Site id, 0 for inline metadata; see [`SiteTable`](crate::SiteTable).
    pub site: u32,
    /// Sequence number in its stream.
    pub seq: u32,
    /// The caller's word.
    pub user: u32,
    /// The admission epoch it was admitted under.
    pub epoch: u16,
    /// Bytes of inline metadata at the payload's start; at most its length.
    pub metadata_size: u16,
    /// Did it come through an overflow chunk?
    pub overflow: bool,
    /// Inline metadata and payload.
    pub payload: &'a [u8],
}

/// A record's header as words: they go through registers, where bytes would be copied before each look.
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
    /// The room it takes, if that is possible in `left` bytes.
    pub(super) fn room(&self, left: u32) -> Option<u32> {
        let size = self.size() as usize;
        if size > MAX_PAYLOAD_SIZE || u32::from(self.metadata_size()) > self.size() {
            return None;
        }
        let room = record_room(size) as u32;
        (room <= left).then_some(room)
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
