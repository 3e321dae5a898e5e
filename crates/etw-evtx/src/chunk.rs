//! One chunk: its records, found again behind damage.

use etw_types::{FileTime, le};

use crate::layout::{
    CHUNK_SIZE, ChunkHeader, FIRST_RECORD, RECORD_HEADER_SIZE, RECORD_SIGNATURE, header_checksum,
};
use crate::parse::{Cache, Parser};
use crate::query::Selector;
use crate::tree::Fragment;
use crate::{Damage, DamageKind, Error, Record};

/// Bytes of the smallest record: header, a fragment's header and its end, size.
const MIN_RECORD_SIZE: usize = RECORD_HEADER_SIZE + 4;

/// A chunk in memory and a position in it.
///
/// ```no_run
/// # let bytes = vec![0; 65536];
/// let mut chunk = etw_evtx::chunk::Chunk::new(bytes, 4096, Default::default());
/// while let Some(record) = chunk.next() {
///     println!("{}", record.id());
/// }
/// ```
#[derive(Debug)]
pub struct Chunk {
    bytes: Vec<u8>,
    cache: Cache,
    cursor: Cursor,
}

/// The position in a chunk, and what was found on the way to it.
#[derive(Debug)]
struct Cursor {
    header: Option<ChunkHeader>,
    /// Offset of the chunk in its file.
    offset: u64,
    /// Offset behind the last record. Records behind it are stale.
    end: usize,
    at: usize,
    last_id: Option<u64>,
    options: Options,
    damage: Vec<Damage>,
}

/// Reading options.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The header may be older than the records: the log is in use, or was not closed.
    pub is_dirty: bool,
    /// The log keeps no checksums.
    pub without_checksums: bool,
    /// Stale records are read too: those behind the last record, left over from an earlier use of the chunk.
    pub stale: bool,
}

/// The extent of a record in its chunk.
#[derive(Clone, Copy, Debug)]
struct Extent {
    at: usize,
    size: usize,
    id: u64,
    /// Its size is repeated at its end.
    is_closed: bool,
}

impl Chunk {
    /// A chunk of these bytes, which lie at an offset of a file. A chunk that the file's end cuts may be shorter.
    pub fn new(bytes: Vec<u8>, offset: u64, options: Options) -> Chunk {
        let mut cursor = Cursor {
            header: ChunkHeader::read(&bytes),
            offset,
            end: bytes.len(),
            at: FIRST_RECORD,
            last_id: None,
            options,
            damage: Vec::new(),
        };
        cursor.check(&bytes);
        Chunk { bytes, cache: Cache::default(), cursor }
    }

    /// Its header; `None`: it has none.
    pub fn header(&self) -> Option<&ChunkHeader> {
        self.cursor.header.as_ref()
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes the damage found so far.
    pub fn take_damage(&mut self) -> Vec<Damage> {
        std::mem::take(&mut self.cursor.damage)
    }

    /// Whether [`next`](Self::next) will return a record. Skips records that cannot be read.
    pub fn has_next(&mut self) -> bool {
        self.has_next_of(None)
    }

    /// Whether [`next_of`](Self::next_of) will return a record.
    pub(crate) fn has_next_of(&mut self, selector: Option<&Selector>) -> bool {
        let Chunk { bytes, cache, cursor } = self;
        while let Some(extent) = cursor.next_extent(bytes) {
            if !extent.may_match(bytes, cache, selector) {
                continue;
            }
            match extent.parse(bytes, cache) {
                Ok(_) => {
                    cursor.at = extent.at;
                    cursor.last_id = extent.id.checked_sub(1);
                    return true;
                }
                Err(error) => cursor.report_record(extent, &error),
            }
        }
        false
    }

    /// Returns the next readable record. Unreadable records are reported as damage.
    #[allow(clippy::should_implement_trait, reason = "a record borrows the chunk")]
    pub fn next(&mut self) -> Option<Record<'_>> {
        self.next_of(None)
    }

    /// Returns the next record that a selector may select: of a record that it rejects by the fields of `System`, nothing
    /// else is read, and no damage in it is reported. [`Selector::matches`] decides on the others.
    pub fn next_candidate(&mut self, selector: &Selector) -> Option<Record<'_>> {
        self.next_of(Some(selector))
    }

    pub(crate) fn next_of(&mut self, selector: Option<&Selector>) -> Option<Record<'_>> {
        let Chunk { bytes, cache, cursor } = self;
        let bytes: &[u8] = bytes;
        loop {
            let extent = cursor.next_extent(bytes)?;
            if !extent.may_match(bytes, cache, selector) {
                continue;
            }
            match extent.parse(bytes, cache) {
                Ok(fragment) => {
                    let Extent { at, id, is_closed, .. } = extent;
                    if !is_closed {
                        cursor.report(at, DamageKind::Unclosed { id });
                    }
                    if let Some((offset, expected)) = cache.bad_value.take() {
                        cursor.report(at, DamageKind::Value { id, at: offset, expected });
                    }
                    let time = FileTime(le::i64(bytes, at + 16).unwrap_or_default());
                    let offset = cursor.offset + at as u64;
                    return Some(Record { id, time, offset, fragment });
                }
                Err(error) => cursor.report_record(extent, &error),
            }
        }
    }
}

/// Reads the record at an offset of a chunk, which lies at `chunk_offset` of its file, and gives it to `then`. `None`: there is no
/// record that can be read.
pub fn with_record<R>(
    bytes: &[u8],
    at: usize,
    chunk_offset: u64,
    then: impl FnOnce(&Record<'_>) -> R,
) -> Option<R> {
    let extent = extent(bytes, at)?;
    let mut cache = Cache::default();
    let fragment = extent.parse(bytes, &mut cache).ok()?;
    let time = FileTime(le::i64(bytes, at + 16).unwrap_or_default());
    Some(then(&Record { id: extent.id, time, offset: chunk_offset + at as u64, fragment }))
}

impl Extent {
    /// Whether a selector may select the record, by its `System` fields alone. A record that was overwritten in part is read.
    fn may_match(self, bytes: &[u8], cache: &mut Cache, selector: Option<&Selector>) -> bool {
        let Some(screen) = selector.and_then(Selector::screen).filter(|_| self.is_closed) else {
            return true;
        };
        let end = self.at + self.size - 4;
        let outline = Parser::new(bytes, self.at + RECORD_HEADER_SIZE, end, cache).outline();
        outline.ok().flatten().is_none_or(|record| screen.may_match(&record))
    }

    fn parse<'a>(self, bytes: &'a [u8], cache: &mut Cache) -> Result<Fragment<'a>, Error> {
        let end = self.at + self.size - 4;
        cache.bad_value = None;
        Parser::new(bytes, self.at + RECORD_HEADER_SIZE, end, cache).fragment(0)
    }
}

impl Cursor {
    fn check(&mut self, bytes: &[u8]) {
        let size = bytes.len();
        if size < CHUNK_SIZE {
            self.report(0, DamageKind::TruncatedChunk(size as u64));
        }
        let Some(header) = self.header else {
            return self.report(0, DamageKind::ChunkSignature);
        };
        let free = header.free as usize;
        let is_plausible = (FIRST_RECORD..=size).contains(&free);
        if is_plausible && !self.options.is_dirty {
            self.end = free;
        }
        if self.options.without_checksums || self.options.is_dirty || size < CHUNK_SIZE {
            return;
        }
        if header_checksum(bytes) != header.header_checksum {
            self.report(0, DamageKind::ChunkChecksum { of_records: false });
        }
        let is_sound =
            is_plausible && crc32fast::hash(&bytes[FIRST_RECORD..free]) == header.records_checksum;
        if !is_sound {
            self.report(0, DamageKind::ChunkChecksum { of_records: true });
            self.end = size;
        }
    }

    fn report(&mut self, at: usize, kind: DamageKind) {
        self.damage.push(Damage { offset: self.offset + at as u64, kind });
    }

    fn report_record(&mut self, Extent { at, id, .. }: Extent, error: &Error) {
        if let Error::Corrupt { offset, expected } = *error {
            self.report(at, DamageKind::Record { id, at: offset, expected });
        }
    }

    /// Finds the next record; skips and reports other bytes.
    fn next_extent(&mut self, bytes: &[u8]) -> Option<Extent> {
        let mut skipped_at = None;
        while self.at + MIN_RECORD_SIZE <= bytes.len() {
            if self.at >= self.end && !self.options.stale {
                break;
            }
            match extent(bytes, self.at) {
                Some(extent) if self.is_current(extent) => {
                    self.report_skipped(skipped_at, extent.at);
                    self.at += if extent.is_closed { extent.size } else { RECORD_HEADER_SIZE };
                    self.last_id = Some(extent.id);
                    return Some(extent);
                }
                // Stale records or zeros follow the last record of a log in use.
                Some(extent) if extent.is_closed => break,
                None if is_zero(bytes, self.at) && self.at >= self.trusted_end() => break,
                _ => {
                    skipped_at.get_or_insert(self.at);
                    self.at += 8;
                }
            }
        }
        // Bytes behind the last record are leftovers.
        self.report_skipped(skipped_at, self.at.min(self.trusted_end()));
        self.at = bytes.len();
        None
    }

    /// Offset behind the last record that the header counts.
    fn trusted_end(&self) -> usize {
        match self.header {
            Some(header) => (header.free as usize).min(self.end),
            None => FIRST_RECORD,
        }
    }

    /// Whether a record is not stale. Behind the header's end, only a higher id proves it.
    fn is_current(&self, extent: Extent) -> bool {
        if !extent.is_closed {
            // A partly overwritten record counts only if its id is the next one.
            return extent.at < self.trusted_end()
                && self.last_id.is_none_or(|last| last.checked_add(1) == Some(extent.id));
        }
        if self.options.stale || extent.at < self.trusted_end() {
            return true;
        }
        match (self.last_id, self.header) {
            (Some(last), _) => extent.id > last,
            (None, Some(header)) => extent.id >= header.first_id,
            (None, None) => true,
        }
    }

    fn report_skipped(&mut self, from: Option<usize>, to: usize) {
        if let Some(from) = from.filter(|from| *from < to) {
            self.report(from, DamageKind::Skipped { size: to - from });
        }
    }
}

fn is_zero(bytes: &[u8], at: usize) -> bool {
    bytes[at..bytes.len().min(at + 64)].iter().all(|byte| *byte == 0)
}

/// ```text
/// 0 u32 0x2a2a   4 u32 size   8 u64 id   16 u64 FILETIME   24 binary XML   size - 4 u32 size
/// ```
fn extent(bytes: &[u8], at: usize) -> Option<Extent> {
    if le::u32(bytes, at)? != RECORD_SIGNATURE {
        return None;
    }
    let size = le::u32(bytes, at + 4)? as usize;
    let end = at.checked_add(size)?;
    if size < MIN_RECORD_SIZE || end > bytes.len() {
        return None;
    }
    let is_closed = le::u32(bytes, end - 4)? as usize == size;
    Some(Extent { at, size, id: le::u64(bytes, at + 8)?, is_closed })
}
