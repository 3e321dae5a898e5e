//! Schemas that a program carries: the schema records that a session writes into a trace of its events.
//!
//! ```text
//! 00 8 bytes "ETWSCHM1"   08 GUID provider, by which sessions enable it   18 u32 size of the records
//! 1C records: u8 kind (32 event, 33 map), 3 zeros, u32 size, payload, padding to 4 bytes
//! ```
//!
//! A provider in Rust refers to its blob; a program in C has it as an ELF note of owner `openetw` and type 1.

use crate::{Guid, le};

const MAGIC: &[u8; 8] = b"ETWSCHM1";
const HEAD: usize = 0x1c;
/// The owner of the ELF note that has a blob.
pub const SCHEMA_NOTE_OWNER: &str = "openetw";
/// The type of the ELF note that has a blob.
pub const SCHEMA_NOTE_TYPE: u32 = 1;

/// The type of a record that describes an event: TRACE_EVENT_INFO.
pub const EVENT_INFO: u8 = 32;
/// The type of a record that describes a map: EVENT_MAP_INFO.
pub const MAP_INFO: u8 = 33;

/// A record of the class [`EVENT_METADATA`](crate::EVENT_METADATA).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SchemaRecord {
    /// [`EVENT_INFO`] or [`MAP_INFO`].
    pub kind: u8,
    /// The payload: TRACE_EVENT_INFO, or a provider's GUID and EVENT_MAP_INFO.
    pub payload: Vec<u8>,
}

/// A [`SchemaRecord`] in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaRecordRef<'a> {
    /// [`EVENT_INFO`] or [`MAP_INFO`].
    pub kind: u8,
    /// The payload: TRACE_EVENT_INFO, or a provider's GUID and EVENT_MAP_INFO.
    pub payload: &'a [u8],
}

impl SchemaRecordRef<'_> {
    /// A copy.
    pub fn to_record(self) -> SchemaRecord {
        SchemaRecord { kind: self.kind, payload: self.payload.to_vec() }
    }
}

/// Schemas of one provider, in place.
#[derive(Clone, Copy, Debug)]
pub struct SchemaBlob<'a> {
    /// The provider, by which sessions enable it.
    pub provider: Guid,
    records: &'a [u8],
}

impl<'a> SchemaBlob<'a> {
    /// A blob at the start of the bytes; `None` if there is none, or a part of one. Bytes behind it are ignored.
    pub fn parse(bytes: &'a [u8]) -> Option<SchemaBlob<'a>> {
        if !bytes.starts_with(MAGIC) {
            return None;
        }
        let size = le::u32(bytes, 0x18)? as usize;
        let records = bytes.get(HEAD..HEAD.checked_add(size)?)?;
        Some(SchemaBlob { provider: Guid::read(bytes, 8)?, records })
    }

    /// The records up to the first that is damaged.
    pub fn records(&self) -> impl Iterator<Item = SchemaRecordRef<'a>> + use<'a> {
        schema_records(self.records)
    }

    /// All blobs with records in the bytes of a program.
    pub fn find(bytes: &'a [u8]) -> impl Iterator<Item = SchemaBlob<'a>> + use<'a> {
        let mut from = 0;
        std::iter::from_fn(move || {
            loop {
                let rest = bytes.get(from..)?;
                let at = rest.windows(MAGIC.len()).position(|window| window == MAGIC)?;
                from += at + MAGIC.len();
                let blob = SchemaBlob::parse(&rest[at..]);
                if let Some(blob) = blob.filter(|blob| !blob.records.is_empty()) {
                    // Blobs do not overlap: each byte is read once.
                    from += HEAD - MAGIC.len() + blob.records.len();
                    return Some(blob);
                }
            }
        })
    }
}

/// Records in the form of a blob, up to the first that is damaged.
pub fn schema_records(bytes: &[u8]) -> impl Iterator<Item = SchemaRecordRef<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let kind = *rest.first()?;
        let size = le::u32(rest, 4)? as usize;
        let payload = rest.get(8..8usize.checked_add(size)?)?;
        rest = rest.get((8 + size).next_multiple_of(4)..).unwrap_or_default();
        Some(SchemaRecordRef { kind, payload })
    })
}

/// Appends a record in the form of a blob.
pub fn put_schema_record(kind: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&[kind, 0, 0, 0]);
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// The bytes of a provider's blob.
pub fn schema_blob(provider: Guid, records: &[SchemaRecord]) -> Vec<u8> {
    let mut blob = MAGIC.to_vec();
    blob.extend_from_slice(&provider.0);
    blob.extend_from_slice(&[0; 4]);
    for record in records {
        put_schema_record(record.kind, &record.payload, &mut blob);
    }
    let size = (blob.len() - HEAD) as u32;
    blob[0x18..HEAD].copy_from_slice(&size.to_le_bytes());
    blob
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_comes_back_from_anywhere_in_a_program() {
        let records = [
            SchemaRecord { kind: MAP_INFO, payload: vec![1, 2, 3] },
            SchemaRecord { kind: EVENT_INFO, payload: vec![4; 8] },
        ];
        let provider = Guid::from_u128(7);
        let blob = schema_blob(provider, &records);
        let program = [&b"ETWSCHM1 cut"[..], &blob, b"rest"].concat();
        let found: Vec<SchemaBlob<'_>> = SchemaBlob::find(&program).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].provider, provider);
        let back: Vec<_> = found[0].records().map(SchemaRecordRef::to_record).collect();
        assert_eq!(back, records);
        for end in 0..blob.len() {
            assert!(SchemaBlob::parse(&blob[..end]).is_none(), "{end}");
        }
    }

    #[test]
    fn malicious_sizes_end_the_records() {
        let records = [SchemaRecord { kind: EVENT_INFO, payload: vec![4; 8] }];
        let mut blob = schema_blob(Guid::ZERO, &records);
        blob[HEAD + 4..HEAD + 8].fill(0xff);
        assert_eq!(SchemaBlob::parse(&blob).unwrap().records().count(), 0);
        blob[0x18..HEAD].fill(0xff);
        assert!(SchemaBlob::parse(&blob).is_none());
    }
}
