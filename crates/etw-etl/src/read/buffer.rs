//! One buffer in memory: its records in stored order. Needs no file.
//!
//! ```
//! use etw_etl::{read::{BufferRecords, Item}, record::RecordContext, write};
//!
//! let bytes = write::sample::trace();
//! let (header, records) = etw_etl::read::buffer::open(&bytes, 1 << 20).unwrap();
//! assert_eq!(header.sequence_number, 0);
//! for item in BufferRecords::new(&records, &RecordContext::default()) {
//!     match item {
//!         Item::Record { offset, record } => println!("+{offset} {}", record.header),
//!         Item::Damage(damage) => println!("{damage}"),
//!     }
//! }
//! ```

use crate::DamageKind;
use crate::lzxpress;
use crate::record::{self, RecordContext};
use etw_types::{BufferHeader, EventRecord};
use std::borrow::Cow;

/// The header and the decompressed, filled part of the buffer at the front of `bytes`.
///
/// `limit` is the largest filled length to accept, header included; it bounds what a compressed buffer can take.
///
/// # Errors
/// `Truncated` if the header or the filled part is incomplete; `FilledLength`; `Compression`.
pub fn open(bytes: &[u8], limit: u32) -> Result<(BufferHeader, Cow<'_, [u8]>), DamageKind> {
    let cut = |missing: usize| DamageKind::Truncated {
        missing_bytes: missing as u64,
        missing_buffers: 0,
    };
    let Some((head, rest)) = bytes.split_first_chunk::<{ BufferHeader::SIZE }>() else {
        return Err(cut(BufferHeader::SIZE - bytes.len()));
    };
    let header = BufferHeader::read(head);
    let filled =
        header.filled(limit).ok_or(DamageKind::FilledLength { found: header.offset, limit })?;
    if !header.is_compressed() {
        let records = rest.get(..filled).ok_or_else(|| cut(filled - rest.len()))?;
        return Ok((header, Cow::Borrowed(records)));
    }
    let stored = (header.buffer_size as usize).saturating_sub(BufferHeader::SIZE);
    let stored = rest.get(..stored).ok_or_else(|| cut(stored - rest.len()))?;
    let mut records = vec![0; filled];
    match lzxpress::decompress(stored, &mut records) {
        Ok(_) => Ok((header, Cow::Owned(records))),
        Err(error) => Err(DamageKind::Compression {
            kind: error.kind,
            lost: (filled - error.output_len) as u32,
        }),
    }
}

/// A step of a walk through a buffer.
#[derive(Debug)]
pub enum Item<'a> {
    /// A record.
    Record {
        /// Bytes from the end of the buffer header.
        offset: u32,
        /// The event. Its `cpu` and `position` are not set.
        record: EventRecord<'a>,
    },
    /// A record, or the rest of the buffer, was skipped.
    Damage(DamageKind),
}

/// Iterates over the records of one buffer in stored order.
#[derive(Clone, Debug)]
pub struct BufferRecords<'a> {
    bytes: &'a [u8],
    position: usize,
    context: RecordContext,
}

impl<'a> BufferRecords<'a> {
    /// `records` are the filled part behind the buffer header, decompressed.
    pub fn new(records: &'a [u8], context: &RecordContext) -> BufferRecords<'a> {
        BufferRecords { bytes: records, position: 0, context: *context }
    }
}

impl<'a> Iterator for BufferRecords<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        let at = self.position;
        if at >= self.bytes.len() {
            return None;
        }
        let room = &self.bytes[at..];
        let frame = match record::frame(room, &self.context) {
            Ok(frame) => frame,
            Err(damage) => {
                self.position = self.bytes.len();
                return Some(Item::Damage(place(damage, at, room.len())));
            }
        };
        self.position = next_record(at, frame.size);
        Some(match record::parse(&room[..frame.size as usize], &self.context) {
            Ok(record) => Item::Record { offset: at as u32, record },
            Err(damage) => Item::Damage(place(damage, at, frame.size as usize)),
        })
    }
}

/// Records are eight-byte aligned.
#[inline]
pub(crate) fn next_record(at: usize, size: u32) -> usize {
    (at + size as usize).next_multiple_of(8)
}

/// Adds the offset in the buffer to damage that was found in a single record.
pub(crate) fn place(damage: DamageKind, offset: usize, skipped_bytes: usize) -> DamageKind {
    let here = offset as u32;
    match damage {
        DamageKind::UnknownRecord { marker, .. } => {
            DamageKind::UnknownRecord { marker, at: here, skipped: skipped_bytes as u32 }
        }
        DamageKind::RecordSize { size, room, .. } => {
            DamageKind::RecordSize { size, room, at: here }
        }
        DamageKind::RecordParts { .. } => DamageKind::RecordParts { at: here },
        other => other,
    }
}
