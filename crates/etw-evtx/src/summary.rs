//! [`Summary`]: times and event ids of a chunk's records, in the part of its header that Windows leaves zero.

use etw_types::{FileTime, le};

use crate::layout::{ChunkHeader, FIRST_RECORD, SUMMARY, SUMMARY_SIZE, header_checksum};
use crate::system_plan::{Field, Source};
use crate::tree::{Argument, Fragment};
use crate::value::{Value, ValueType};

const SIGNATURE: &[u8; 4] = b"oet1";
/// Words of the filter of event ids.
const WORDS: usize = 5;

/// The times and event ids that the records of a chunk have.
///
/// A query on either skips a chunk whose summary rules a match out. Readers that do not know the summary ignore it.
///
/// ```text
/// 56 "oet1"   60 u32 free offset that it covers   64 i64 first FILETIME   72 i64 last FILETIME
/// 80 5 × u64 filter of event ids: each id sets two of its 320 bits
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub first_time: FileTime,
    pub last_time: FileTime,
    ids: [u64; WORDS],
}

impl Summary {
    /// Reads the summary in the first 512 bytes of a chunk. `None`: there is none, or the header changed after it was made.
    pub fn read(start: &[u8], header: &ChunkHeader) -> Option<Summary> {
        let bytes = start.get(SUMMARY..SUMMARY + SUMMARY_SIZE)?;
        let is_sound = bytes.starts_with(SIGNATURE)
            && le::u32(bytes, 4)? == header.free
            && start.len() >= FIRST_RECORD
            && header_checksum(start) == header.header_checksum;
        if !is_sound {
            return None;
        }
        let mut ids = [0; WORDS];
        for (word, bytes) in ids.iter_mut().zip(bytes[24..].chunks_exact(8)) {
            *word = le::u64(bytes, 0)?;
        }
        let (first_time, last_time) = (FileTime(le::i64(bytes, 8)?), FileTime(le::i64(bytes, 16)?));
        Some(Summary { first_time, last_time, ids })
    }

    /// Whether a record may have an event id.
    pub fn may_have_id(&self, id: u16) -> bool {
        bits(id).iter().all(|bit| self.ids[bit / 64] >> (bit % 64) & 1 == 1)
    }
}

/// The bits of an id in the filter.
fn bits(id: u16) -> [usize; 2] {
    let hash = (u64::from(id) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [hash >> 48, hash >> 32 & 0xffff].map(|part| part as usize % (WORDS * 64))
}

/// The summary of the records that a chunk has so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Collected {
    /// There is no record yet.
    #[default]
    Empty,
    Known(Summary),
    /// A record has its time or event id in a form that the summary has no place for.
    Unknown,
}

impl Collected {
    /// Adds a record.
    pub fn add(&mut self, fragment: &Fragment<'_>) {
        let Some((time, id)) = time_and_id(fragment) else { return *self = Collected::Unknown };
        if matches!(self, Collected::Empty) {
            let ids = [0; WORDS];
            *self = Collected::Known(Summary { first_time: time, last_time: time, ids });
        }
        if let Collected::Known(summary) = self {
            summary.first_time = summary.first_time.min(time);
            summary.last_time = summary.last_time.max(time);
            for bit in bits(id) {
                summary.ids[bit / 64] |= 1 << (bit % 64);
            }
        }
    }

    /// The bytes of the header for a chunk whose records end at `free`; zeros without a summary.
    pub fn to_bytes(self, free: u32) -> [u8; SUMMARY_SIZE] {
        let mut bytes = [0; SUMMARY_SIZE];
        if let Collected::Known(Summary { first_time, last_time, ids }) = self {
            bytes[..4].copy_from_slice(SIGNATURE);
            bytes[4..8].copy_from_slice(&free.to_le_bytes());
            bytes[8..16].copy_from_slice(&first_time.0.to_le_bytes());
            bytes[16..24].copy_from_slice(&last_time.0.to_le_bytes());
            for (bytes, word) in bytes[24..].chunks_exact_mut(8).zip(ids) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
        }
        bytes
    }
}

/// `TimeCreated` and `EventID` of an event that has each once, as a time and as a number of 16 bits.
fn time_and_id(fragment: &Fragment<'_>) -> Option<(FileTime, u16)> {
    let Fragment::Instance(instance) = fragment else { return None };
    let plan = instance.template.plan();
    let value = |field: Field, value_type: ValueType| -> Option<Value<'_>> {
        let Source::Argument(index) = plan.get(field)? else { return None };
        match instance.arguments.get(usize::from(*index))? {
            Argument::Value(value) if value.value_type == value_type => Some(*value),
            _ => None,
        }
    };
    let time = value(Field::TimeCreated, ValueType::FILETIME)?;
    let id = value(Field::EventId, ValueType::UINT16)?;
    let time = FileTime(i64::from_le_bytes(*time.bytes.first_chunk()?));
    let id = u16::from_le_bytes(*id.bytes.first_chunk()?);
    plan.is_plain.then_some((time, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_every_id_that_was_added_and_few_others() {
        let mut ids = [0; WORDS];
        let added = || (0..20u16).map(|number| 4600 + number * 7);
        for bit in added().flat_map(bits) {
            ids[bit / 64] |= 1 << (bit % 64);
        }
        let summary = Summary { first_time: FileTime(0), last_time: FileTime(0), ids };
        assert!(added().all(|id| summary.may_have_id(id)));
        let others = (0..=u16::MAX).filter(|id| summary.may_have_id(*id)).count();
        assert!(others < 65536 / 20, "{others}");
    }
}
