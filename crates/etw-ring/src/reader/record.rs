//! Records as the host copies them out, their headers, and the sink that receives them.

use std::ops::ControlFlow;

use crate::layout::*;

/// Receives the records of a drain, in order of time.
///
/// A closure is a sink. A host implements it for a type of its own, because a method can be `#[inline(always)]` and a closure cannot.
pub trait RecordSink {
    /// Takes a record of the pool with index `pool`. `Break`: this record and all later ones stay in their pools.
    fn take(&mut self, pool: usize, record: &RecordBytes<'_>) -> ControlFlow<()>;
}

impl<F: FnMut(usize, &Record<'_>) -> ControlFlow<()>> RecordSink for F {
    #[inline(always)]
    fn take(&mut self, pool: usize, record: &RecordBytes<'_>) -> ControlFlow<()> {
        self(pool, &record.parse())
    }
}

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

/// A record as it was copied out of its chunk, with checked bounds: a [`Record`] whose values are read when they are needed.
///
/// Between reading a header and storing its event lie a hundred steps of the hot path. Values that were read early would be written to
/// the stack and read again.
#[derive(Clone, Copy, Debug)]
pub struct RecordBytes<'a> {
    header: &'a [u8; RECORD_HEADER_SIZE],
    payload: &'a [u8],
    overflow: bool,
}

macro_rules! header_fields {
    ($($(#[$doc:meta])* $field:ident: $read:ident($offset:literal) -> $kind:ty;)*) => {
        impl<'a> RecordBytes<'a> {
            $(
                $(#[$doc])*
                #[inline(always)]
                pub fn $field(&self) -> $kind {
                    $read(self.header, $offset)
                }
            )*

            /// All values of the record.
            pub fn parse(&self) -> Record<'a> {
                Record {
                    $($field: self.$field(),)*
                    overflow: self.overflow,
                    payload: self.payload,
                }
            }
        }
    };
}

header_fields! {
    /// As [`Record::kind`].
    kind: byte(4) -> u8;
    /// As [`Record::sessions`].
    sessions: byte(5) -> u8;
    /// As [`Record::cpu`].
    cpu: le16(6) -> u16;
    /// As [`Record::time`].
    time: le64(8) -> u64;
    /// As [`Record::site`].
    site: le32(16) -> u32;
    /// As [`Record::seq`].
    seq: le32(20) -> u32;
    /// As [`Record::registration`].
    registration: le32(24) -> u32;
    /// As [`Record::tid`].
    tid: le32(28) -> u32;
    /// As [`Record::metadata_size`].
    metadata_size: le16(32) -> u16;
    /// As [`Record::epoch`].
    epoch: le16(34) -> u16;
    /// As [`Record::user`].
    user: le32(36) -> u32;
}

impl<'a> RecordBytes<'a> {
    /// The record at the start of `bytes`, if all of it is there and its header can be a writer's.
    #[inline(always)]
    pub(super) fn read(bytes: &'a [u8], overflow: bool) -> Option<RecordBytes<'a>> {
        let (header, rest) = bytes.split_first_chunk()?;
        record_size_in(header, bytes.len())?;
        let payload = rest.get(..le32(header, 0) as usize)?;
        Some(RecordBytes { header, payload, overflow })
    }

    pub(super) fn header(&self) -> Header {
        Header::read(self.header)
    }

    /// The bytes that it takes in its chunk.
    #[inline(always)]
    pub(super) fn size(&self) -> usize {
        record_size(self.payload.len())
    }

    /// As [`Record::payload`].
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The bytes that the record of a header takes, if it can lie in `left` bytes.
#[inline(always)]
fn record_size_in(header: &[u8; RECORD_HEADER_SIZE], left: usize) -> Option<usize> {
    let size = le32(header, 0) as usize;
    if size > MAX_PAYLOAD_SIZE || usize::from(le16(header, 32)) > size {
        return None;
    }
    let size = record_size(size);
    (size <= left).then_some(size)
}

/// A copy of a record's header.
#[derive(Clone, Copy)]
pub(super) struct Header([u8; RECORD_HEADER_SIZE]);

impl Header {
    pub(super) fn read(bytes: &[u8; RECORD_HEADER_SIZE]) -> Header {
        Header(*bytes)
    }

    pub(super) fn time(&self) -> u64 {
        le64(&self.0, 8)
    }

    pub(super) fn seq(&self) -> u32 {
        le32(&self.0, 20)
    }

    /// The bytes that the record takes, if it can lie in `left` bytes.
    pub(super) fn record_size(&self, left: u32) -> Option<u32> {
        record_size_in(&self.0, left as usize).map(|size| size as u32)
    }
}

#[inline(always)]
fn byte(bytes: &[u8; RECORD_HEADER_SIZE], at: usize) -> u8 {
    bytes[at]
}

#[inline(always)]
fn le16(bytes: &[u8; RECORD_HEADER_SIZE], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

#[inline(always)]
pub(super) fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from(le32(bytes, at)) | u64::from(le32(bytes, at + 4)) << 32
}

#[inline(always)]
pub(super) fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
