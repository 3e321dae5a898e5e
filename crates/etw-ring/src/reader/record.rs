//! Records as the host copies them out, their headers, and the sink that receives them.

use std::ops::ControlFlow;

use crate::layout::*;

/// Receives the records of a drain, in order of time.
///
/// A closure is a sink. A host implements it for a type of its own, because a method can be `#[inline(always)]` and a closure cannot.
pub trait RecordSink {
    /// Takes a record of the pool with index `pool`. `Break`: this record and all later ones stay in their pools.
    fn take(&mut self, pool: usize, record: &RecordBytes<'_>) -> ControlFlow<()>;

    /// Takes records from the front of a run, as many as it likes. The next one goes to [`take`](Self::take).
    #[inline(always)]
    fn take_run(&mut self, _pool: usize, _run: &mut Run<'_>) {}
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

/// The offset of [`Record::sessions`] in a record.
pub(super) const SESSIONS_BYTE: usize = 5;

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

/// Records that follow each other in one stream: whole, in order of time, without a gap in their numbers, for the same slots, and
/// before those of all other streams. A sink takes them without asking for each whether that holds.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    rest: &'a [u8],
    /// The time of the last record; earlier ones are late.
    pub(super) floor: u64,
    /// Records from this time on are not part of the run.
    near: u64,
    /// The next sequence number.
    pub(super) expected: u32,
    /// The number of records that were taken.
    pub(super) count: u64,
}

impl<'a> Run<'a> {
    /// The run at the start of `rest`, of records with times from `floor` to `near`.
    #[inline(always)]
    pub(super) fn new(rest: &'a [u8], floor: u64, near: u64, expected: u32) -> Run<'a> {
        Run { rest, floor, near, expected, count: 0 }
    }

    /// The next record; `None` at the end of the run.
    #[inline(always)]
    pub fn peek(&self) -> Option<RecordBytes<'a>> {
        let record = RecordBytes::read(self.rest, false)?;
        let time = record.time();
        (time >= self.floor && time < self.near && record.seq() == self.expected).then_some(record)
    }

    /// Takes the record that [`peek`](Self::peek) has returned. A sink takes records of the same slots alone.
    #[inline(always)]
    pub fn take(&mut self, record: &RecordBytes<'a>) {
        self.rest = self.rest.get(record.size()..).unwrap_or(&[]);
        self.floor = record.time();
        self.expected = self.expected.wrapping_add(1);
        self.count += 1;
    }

    /// The bytes behind the records that were taken.
    #[inline(always)]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }
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

    /// Whether it has no prefix.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        u32::from(self.kind()) | u32::from(self.metadata_size()) == 0
    }

    /// Kind, slots, processor, epoch and size of the prefix in one number: records with the same one take the same way.
    #[inline(always)]
    pub fn form(&self) -> u64 {
        u64::from(le32(self.header, 4)) | u64::from(le32(self.header, 32)) << 32
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
