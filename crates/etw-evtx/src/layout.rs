//! Headers, offsets and hashes, as Windows lays them out. All numbers are little-endian.

use etw_types::{Guid, le};

/// Bytes of the file header with its padding. Chunks follow.
pub const FILE_HEADER_SIZE: usize = 4096;
/// Bytes of the file header without its padding, and of a chunk's header without its tables.
pub(crate) const HEADER_SIZE: usize = 128;
/// Bytes of a chunk.
pub const CHUNK_SIZE: usize = 65536;
/// Offset of the first record in a chunk.
pub const FIRST_RECORD: usize = 512;
/// Offset of the table of names, 64 × u32.
pub const NAME_BUCKETS: usize = 128;
/// Offset of the table of templates, 32 × u32.
pub const TEMPLATE_BUCKETS: usize = 384;
/// Bytes of a record in front of its binary XML.
pub const RECORD_HEADER_SIZE: usize = 24;
/// The first bytes of a record.
pub const RECORD_SIGNATURE: u32 = 0x2a2a;
/// The first bytes of a file.
pub const FILE_SIGNATURE: &[u8; 8] = b"ElfFile\0";
/// The first bytes of a chunk.
pub const CHUNK_SIGNATURE: &[u8; 8] = b"ElfChnk\0";
/// Offset of both headers' flags; their checksum follows.
pub const FLAGS: usize = 120;
/// Offset of the bytes of a chunk's header that Windows leaves zero, up to [`FLAGS`].
pub(crate) const SUMMARY: usize = 56;
/// Number of these bytes.
pub(crate) const SUMMARY_SIZE: usize = FLAGS - SUMMARY;
/// File flag: the header is older than the chunks.
pub const FILE_DIRTY: u32 = 1;
/// File flag: the log has reached its size and keeps its oldest records.
pub const FILE_FULL: u32 = 2;
/// File flag, seen in version 3.2: no checksums are kept (one source).
pub const FILE_NO_CHECKSUM: u32 = 4;

/// The file header.
///
/// ```text
/// 0 "ElfFile" NUL          8 u64 first chunk      16 u64 last chunk    24 u64 next record id
/// 32 u32 128               36 u16 minor           38 u16 major         40 u16 4096
/// 42 u16 chunks            44 zeros               120 u32 flags        124 u32 CRC-32 of bytes 0–119
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Index of the chunk with the oldest records.
    pub first_chunk: u64,
    /// Index of the chunk with the newest records.
    pub last_chunk: u64,
    /// The id that the next record gets.
    pub next_record_id: u64,
    /// Version, low half.
    pub minor: u16,
    /// Version, high half: 3.
    pub major: u16,
    /// Number of chunks. Stale while the log is dirty.
    pub chunk_count: u16,
    /// [`FILE_DIRTY`], [`FILE_FULL`], [`FILE_NO_CHECKSUM`].
    pub flags: u32,
    /// Whether the checksum matches.
    pub is_sound: bool,
}

impl FileHeader {
    /// Reads the 128 bytes of a header. `None`: they are not one.
    pub fn read(bytes: &[u8]) -> Option<FileHeader> {
        if bytes.len() < 128 || &bytes[..8] != FILE_SIGNATURE {
            return None;
        }
        let flags = le::u32(bytes, FLAGS)?;
        Some(FileHeader {
            first_chunk: le::u64(bytes, 8)?,
            last_chunk: le::u64(bytes, 16)?,
            next_record_id: le::u64(bytes, 24)?,
            minor: le::u16(bytes, 36)?,
            major: le::u16(bytes, 38)?,
            chunk_count: le::u16(bytes, 42)?,
            flags,
            is_sound: flags & FILE_NO_CHECKSUM != 0
                || crc32fast::hash(&bytes[..FLAGS]) == le::u32(bytes, FLAGS + 4)?,
        })
    }

    /// The header's 4096 bytes, with a checksum of their own.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; FILE_HEADER_SIZE];
        bytes[..8].copy_from_slice(FILE_SIGNATURE);
        bytes[8..16].copy_from_slice(&self.first_chunk.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.last_chunk.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.next_record_id.to_le_bytes());
        bytes[32..36].copy_from_slice(&128u32.to_le_bytes());
        bytes[36..38].copy_from_slice(&self.minor.to_le_bytes());
        bytes[38..40].copy_from_slice(&self.major.to_le_bytes());
        bytes[40..42].copy_from_slice(&(FILE_HEADER_SIZE as u16).to_le_bytes());
        bytes[42..44].copy_from_slice(&self.chunk_count.to_le_bytes());
        bytes[FLAGS..FLAGS + 4].copy_from_slice(&self.flags.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..FLAGS]);
        bytes[FLAGS + 4..FLAGS + 8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }
}

/// A chunk's header; its two tables follow it.
///
/// ```text
/// 0 "ElfChnk" NUL          8 u64 first number     16 u64 last number   24 u64 first id   32 u64 last id
/// 40 u32 128               44 u32 last record     48 u32 free          52 u32 CRC-32 of 512..free
/// 56 zeros in Windows' chunks, a summary of times and event ids in those of a `LogWriter`
/// 120 u32 flags, 1       124 u32 CRC-32 of bytes 0–119 and 128–511
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Number of the first record since the log was cleared. Equal to its id in every file seen.
    pub first_number: u64,
    /// Number of the last record.
    pub last_number: u64,
    /// Id of the first record.
    pub first_id: u64,
    /// Id of the last record.
    pub last_id: u64,
    /// Offset of the last record.
    pub last_record: u32,
    /// Offset behind the last record.
    pub free: u32,
    /// CRC-32 of the records.
    pub records_checksum: u32,
    /// 1 in version 3.1.
    pub flags: u32,
    /// CRC-32 of the header and its tables.
    pub header_checksum: u32,
}

impl ChunkHeader {
    /// Reads the first 128 bytes of a chunk. `None`: they are no chunk's.
    pub fn read(bytes: &[u8]) -> Option<ChunkHeader> {
        if bytes.len() < 128 || &bytes[..8] != CHUNK_SIGNATURE {
            return None;
        }
        Some(ChunkHeader {
            first_number: le::u64(bytes, 8)?,
            last_number: le::u64(bytes, 16)?,
            first_id: le::u64(bytes, 24)?,
            last_id: le::u64(bytes, 32)?,
            last_record: le::u32(bytes, 44)?,
            free: le::u32(bytes, 48)?,
            records_checksum: le::u32(bytes, 52)?,
            flags: le::u32(bytes, FLAGS)?,
            header_checksum: le::u32(bytes, FLAGS + 4)?,
        })
    }

    /// Writes the header over the first 128 bytes of a chunk whose tables and records are in place, with both
    /// checksums.
    pub fn put(&self, chunk: &mut [u8]) {
        let records = crc32fast::hash(&chunk[FIRST_RECORD..self.free as usize]);
        self.put_head(chunk, records);
    }

    /// As [`put`](ChunkHeader::put), for a chunk of which only header and tables are at hand: `records` is the checksum of its
    /// records.
    pub fn put_head(&self, chunk: &mut [u8], records: u32) {
        self.put_all(chunk, records, &[0; SUMMARY_SIZE]);
    }

    /// As [`put_head`](ChunkHeader::put_head), with a summary of the records.
    pub(crate) fn put_all(&self, chunk: &mut [u8], records: u32, summary: &[u8; SUMMARY_SIZE]) {
        chunk[..128].fill(0);
        chunk[..8].copy_from_slice(CHUNK_SIGNATURE);
        let numbers = [self.first_number, self.last_number, self.first_id, self.last_id];
        for (bytes, number) in chunk[8..40].chunks_exact_mut(8).zip(numbers) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        chunk[40..44].copy_from_slice(&128u32.to_le_bytes());
        chunk[44..48].copy_from_slice(&self.last_record.to_le_bytes());
        chunk[48..52].copy_from_slice(&self.free.to_le_bytes());
        chunk[52..56].copy_from_slice(&records.to_le_bytes());
        chunk[SUMMARY..FLAGS].copy_from_slice(summary);
        chunk[FLAGS..FLAGS + 4].copy_from_slice(&self.flags.to_le_bytes());
        let header = header_checksum(chunk);
        chunk[FLAGS + 4..FLAGS + 8].copy_from_slice(&header.to_le_bytes());
    }
}

/// CRC-32 of a chunk's header and tables.
pub fn header_checksum(chunk: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&chunk[..FLAGS]);
    hasher.update(&chunk[NAME_BUCKETS..FIRST_RECORD]);
    hasher.finalize()
}

/// The hash of a sequence of UTF-16 units: each step multiplies by 65599 and adds the unit.
fn hash(units: impl Iterator<Item = u16>) -> u32 {
    units.fold(0u32, |hash, unit| hash.wrapping_mul(65599).wrapping_add(u32::from(unit)))
}

/// A name's hash, as it stands in its entry. Its bucket is this modulo 64.
pub fn name_hash(name: &str) -> u16 {
    hash(name.encode_utf16()) as u16
}

/// The bucket of a template: of the hash of its GUID's eight u16.
pub fn template_bucket(guid: &Guid) -> usize {
    let units = guid.0.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    hash(units) as usize % 32
}
