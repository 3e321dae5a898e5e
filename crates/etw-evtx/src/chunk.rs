//! One chunk: its records, found again behind damage.

use std::ops::Range;
use std::sync::Arc;

use etw_types::{FileTime, le};

use crate::json;
use crate::layout::{
    CHUNK_SIZE, ChunkHeader, FIRST_RECORD, RECORD_HEADER_SIZE, RECORD_SIGNATURE, header_checksum,
};
use crate::library::Library;
use crate::outline::Outline;
use crate::parse::{Cache, Parser};
use crate::query::{Screen, Selector};
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
    /// Memory for the offsets of a record's values.
    ends: Vec<usize>,
}

/// A record's number, time and position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    /// As [`Record::id`].
    pub id: u64,
    /// As [`Record::time`].
    pub time: FileTime,
    /// As [`Record::offset`].
    pub offset: u64,
}

/// The position in a chunk, and what was found on the way to it.
#[derive(Debug)]
struct Cursor {
    header: Option<ChunkHeader>,
    /// Offset of the chunk in its file.
    offset: u64,
    /// Offset behind the last record. Records behind it are stale.
    end: usize,
    /// Offset behind the last record that the header counts, and at most `end`.
    trusted_end: usize,
    at: usize,
    last_id: Option<u64>,
    /// The checksum of the records was compared, or need not be.
    is_checked: bool,
    options: Options,
    damage: Vec<Damage>,
}

/// Reading options.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The header may be older than the records: the log is in use, or was not closed.
    pub is_dirty: bool,
    /// Newer records are in another chunk: the checksums must match, also while the log is dirty.
    pub is_complete: bool,
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
        let cursor = Cursor::new(&bytes, offset, options);
        Chunk { bytes, cache: Cache::default(), cursor, ends: Vec::new() }
    }

    /// Replaces the chunk by one of the log that has this library, which `read` puts into the memory of this one.
    ///
    /// # Errors
    /// The error of `read`, which leaves the chunk empty.
    pub(crate) fn replace<E>(
        &mut self,
        library: &Arc<Library>,
        offset: u64,
        options: Options,
        read: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.cache.restart(library);
        self.cursor = Cursor::at_end(offset, options);
        if let Err(error) = read(&mut self.bytes) {
            self.bytes.clear();
            return Err(error);
        }
        self.cursor = Cursor::new(&self.bytes, offset, options);
        Ok(())
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
        let Chunk { bytes, cache, cursor, .. } = self;
        let screen = selector.and_then(Selector::screen);
        cursor.check_once(bytes, screen.is_some());
        while let Some(extent) = cursor.next_extent(bytes) {
            if !extent.may_match(bytes, cache, screen) {
                continue;
            }
            cursor.check_once(bytes, false);
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
        let Chunk { bytes, cache, cursor, .. } = self;
        let bytes: &[u8] = bytes;
        let screen = selector.and_then(Selector::screen);
        cursor.check_once(bytes, screen.is_some());
        loop {
            let extent = cursor.next_extent(bytes)?;
            if !extent.may_match(bytes, cache, screen) {
                continue;
            }
            cursor.check_once(bytes, false);
            if let Some(fragment) = cursor.parse(extent, bytes, cache) {
                let RecordHead { id, time, offset } = extent.head(bytes, cursor.offset);
                return Some(Record { id, time, offset, fragment });
            }
        }
    }

    /// Appends the next readable record to `out` as one JSON object: the bytes of [`Record::to_json`], several times as fast.
    /// Unreadable records are reported as damage.
    ///
    /// # Errors
    /// [`Error::TooLarge`]. The record is skipped then, and `out` is as it was.
    ///
    /// ```no_run
    /// # let log = etw_evtx::Log::open("System.evtx")?;
    /// let mut out = Vec::new();
    /// for location in log.chunks() {
    ///     let mut chunk = log.chunk(location)?;
    ///     while let Some(record) = chunk.next_json(&mut out) {
    ///         record?;
    ///         out.push(b'\n');
    ///     }
    /// }
    /// # Ok::<(), etw_evtx::Error>(())
    /// ```
    pub fn next_json(&mut self, out: &mut Vec<u8>) -> Option<Result<RecordHead, Error>> {
        let Chunk { bytes, cache, cursor, ends } = self;
        let bytes: &[u8] = bytes;
        cursor.check_once(bytes, false);
        loop {
            let extent = cursor.next_extent(bytes)?;
            let head = extent.head(bytes, cursor.offset);
            if extent.is_closed && json::push_record(out, bytes, extent.body(), cache, ends) {
                return Some(Ok(head));
            }
            if let Some(fragment) = cursor.parse(extent, bytes, cache) {
                let mut text = String::new();
                let pushed = json::push(&mut text, &fragment);
                return Some(pushed.map(|()| {
                    out.extend_from_slice(text.as_bytes());
                    head
                }));
            }
        }
    }
}

impl Default for Chunk {
    /// A chunk without records, for [`Log::load`](crate::Log::load).
    fn default() -> Chunk {
        let cursor = Cursor::at_end(0, Options::default());
        Chunk { bytes: Vec::new(), cache: Cache::default(), cursor, ends: Vec::new() }
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
    let end = ChunkHeader::read(bytes).map_or(bytes.len(), |header| header.free as usize);
    let extent = repaired(bytes, at, end).or_else(|| extent(bytes, at))?;
    let mut cache = Cache::default();
    let fragment = extent.parse(bytes, &mut cache).ok()?;
    let RecordHead { id, time, offset } = extent.head(bytes, chunk_offset);
    Some(then(&Record { id, time, offset, fragment }))
}

impl Extent {
    /// Whether a selector may select the record, by its `System` fields alone. A record that was overwritten in part is read.
    #[inline]
    fn may_match(self, bytes: &[u8], cache: &mut Cache, screen: Option<&Screen>) -> bool {
        let Some(screen) = screen.filter(|_| self.is_closed) else { return true };
        let body = self.body();
        let Some(outline) = Outline::read(bytes, body.start, body.end, true) else { return true };
        // Without its template, the record is read.
        let Some(template) = cache.find(bytes, outline.template) else { return true };
        screen.may_match(bytes, &outline, cache.facts(template))
    }

    /// Its binary XML.
    fn body(self) -> Range<usize> {
        self.at + RECORD_HEADER_SIZE..self.at + self.size - 4
    }

    fn parse<'a>(self, bytes: &'a [u8], cache: &mut Cache) -> Result<Fragment<'a>, Error> {
        let body = self.body();
        cache.bad_value = None;
        Parser::new(bytes, body.start, body.end, cache).fragment(0)
    }

    fn head(self, bytes: &[u8], chunk_offset: u64) -> RecordHead {
        let time = FileTime(le::i64(bytes, self.at + 16).unwrap_or_default());
        RecordHead { id: self.id, time, offset: chunk_offset + self.at as u64 }
    }
}

impl Cursor {
    /// The start of a chunk. Its checksum of records is left to [`check_once`](Self::check_once).
    fn new(bytes: &[u8], offset: u64, options: Options) -> Cursor {
        let mut cursor = Cursor::at_end(offset, options);
        cursor.header = ChunkHeader::read(bytes);
        cursor.at = FIRST_RECORD;
        cursor.end = bytes.len();
        cursor.is_checked = false;
        cursor.check_header(bytes);
        cursor
    }

    /// A chunk without records.
    fn at_end(offset: u64, options: Options) -> Cursor {
        let damage = Vec::new();
        Cursor {
            header: None,
            offset,
            end: 0,
            trusted_end: FIRST_RECORD,
            at: 0,
            last_id: None,
            is_checked: true,
            options,
            damage,
        }
    }

    fn check_header(&mut self, bytes: &[u8]) {
        let size = bytes.len();
        if size < CHUNK_SIZE {
            self.report(0, DamageKind::TruncatedChunk(size as u64));
        }
        let Some(header) = self.header else {
            self.is_checked = true;
            return self.report(0, DamageKind::ChunkSignature);
        };
        if self.is_plausible(bytes) && !self.options.is_dirty {
            self.end = header.free as usize;
        }
        self.trusted_end = (header.free as usize).min(self.end);
        // The header of the chunk that is being written may be older than its records.
        let may_be_old = self.options.is_dirty && !self.options.is_complete;
        if self.options.without_checksums || may_be_old || size < CHUNK_SIZE {
            self.is_checked = true;
            return;
        }
        if header_checksum(bytes) != header.header_checksum {
            self.report(0, DamageKind::ChunkChecksum { of_records: false });
        }
    }

    /// Whether the header's end of the records is one: it lies behind the last record.
    fn is_plausible(&self, bytes: &[u8]) -> bool {
        self.header.is_some_and(|header| {
            (FIRST_RECORD..=bytes.len()).contains(&(header.free as usize))
                && (header.last_record < header.free || header.free as usize == FIRST_RECORD)
        })
    }

    /// Compares the checksum of the records before the first one is read. If neither it nor that of the header matches, all bytes of the
    /// chunk are searched for records.
    ///
    /// A search needs no checksum before it has found a record, if the records of the chunk are those that the header counts.
    #[inline]
    fn check_once(&mut self, bytes: &[u8], is_search: bool) {
        if self.is_checked {
            return;
        }
        if is_search && (self.at > FIRST_RECORD || self.has_all_records(bytes)) {
            return;
        }
        self.is_checked = true;
        self.check_records(bytes);
    }

    #[cold]
    fn check_records(&mut self, bytes: &[u8]) {
        let Some(header) = self.header else { return };
        let is_sound = self.is_plausible(bytes)
            && crc32fast::hash(&bytes[FIRST_RECORD..header.free as usize])
                == header.records_checksum;
        if is_sound {
            return;
        }
        self.report(0, DamageKind::ChunkChecksum { of_records: true });
        // A true header tells where the records end. Stale ones behind it may have higher ids, if the log was cleared.
        let is_sound_itself =
            bytes.len() >= FIRST_RECORD && header_checksum(bytes) == header.header_checksum;
        let is_true = is_sound_itself && self.is_plausible(bytes) || self.has_all_records(bytes);
        if !is_true {
            self.end = bytes.len();
            self.trusted_end = (header.free as usize).min(self.end);
        }
    }

    /// Whether the records follow each other without gaps from the header's first to its last, and end where the header says.
    fn has_all_records(&self, bytes: &[u8]) -> bool {
        let Some(header) = self.header.filter(|_| self.is_plausible(bytes)) else { return false };
        let mut at = FIRST_RECORD;
        let mut id = header.first_id;
        while let Some(record) = extent(bytes, at).filter(|one| one.is_closed && one.id == id) {
            at += record.size;
            if id == header.last_id {
                return at == header.free as usize;
            }
            id = id.wrapping_add(1);
        }
        false
    }

    fn report(&mut self, at: usize, kind: DamageKind) {
        self.damage.push(Damage { offset: self.offset + at as u64, kind });
    }

    /// Reads a record, and reports damage in it.
    fn parse<'a>(
        &mut self,
        extent: Extent,
        bytes: &'a [u8],
        cache: &mut Cache,
    ) -> Option<Fragment<'a>> {
        let Extent { at, id, is_closed, .. } = extent;
        match extent.parse(bytes, cache) {
            Ok(fragment) => {
                if !is_closed {
                    self.report(at, DamageKind::Unclosed { id });
                }
                if let Some((offset, expected)) = cache.bad_value.take() {
                    self.report(at, DamageKind::Value { id, at: offset, expected });
                }
                Some(fragment)
            }
            Err(error) => {
                self.report_record(extent, &error);
                None
            }
        }
    }

    fn report_record(&mut self, Extent { at, id, .. }: Extent, error: &Error) {
        if let Error::Corrupt { offset, expected } = *error {
            self.report(at, DamageKind::Record { id, at: offset, expected });
        }
    }

    /// Finds the next record; skips and reports other bytes.
    #[inline]
    fn next_extent(&mut self, bytes: &[u8]) -> Option<Extent> {
        // Nearly all records follow the one before, and the header counts them.
        if self.at < self.trusted_end
            && let Some(extent) = extent(bytes, self.at)
            && extent.is_closed
        {
            self.at += extent.size;
            self.last_id = Some(extent.id);
            return Some(extent);
        }
        self.search_extent(bytes)
    }

    fn search_extent(&mut self, bytes: &[u8]) -> Option<Extent> {
        let mut skipped_at = None;
        while self.at + MIN_RECORD_SIZE <= bytes.len() {
            if self.at >= self.end && !self.options.stale {
                break;
            }
            let repaired = repaired(bytes, self.at, self.trusted_end);
            match repaired.or_else(|| extent(bytes, self.at)) {
                Some(extent) if self.is_current(extent) => {
                    self.report_skipped(skipped_at, extent.at);
                    if repaired.is_some() {
                        self.report(extent.at, DamageKind::RecordSize { id: extent.id });
                    }
                    self.at += if extent.is_closed { extent.size } else { RECORD_HEADER_SIZE };
                    self.last_id = Some(extent.id);
                    return Some(extent);
                }
                // Stale records or zeros follow the last record of a log in use. Without a header, zeros may stand where records were.
                Some(extent) if extent.is_closed => break,
                None if self.header.is_some()
                    && self.at >= self.trusted_end
                    && is_zero(bytes, self.at) =>
                {
                    break;
                }
                _ => {
                    skipped_at.get_or_insert(self.at);
                    self.at += 8;
                }
            }
        }
        // Bytes behind the last record are leftovers.
        self.report_skipped(skipped_at, self.at.min(self.trusted_end));
        self.at = bytes.len();
        None
    }

    /// Whether a record is not stale. Behind the header's end, only a higher id proves it.
    fn is_current(&self, extent: Extent) -> bool {
        if !extent.is_closed {
            // A partly overwritten record counts only if its id is the next one.
            return extent.at < self.trusted_end
                && self.last_id.is_none_or(|last| last.checked_add(1) == Some(extent.id));
        }
        if self.options.stale || extent.at < self.trusted_end {
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

/// The id of the first whole record in a chunk.
pub(crate) fn first_record_id(bytes: &[u8]) -> Option<u64> {
    let mut extents = (FIRST_RECORD..bytes.len()).step_by(8).filter_map(|at| extent(bytes, at));
    extents.find(|extent| extent.is_closed).map(|extent| extent.id)
}

fn is_zero(bytes: &[u8], at: usize) -> bool {
    bytes[at..bytes.len().min(at + 64)].iter().all(|byte| *byte == 0)
}

/// ```text
/// 0 u32 0x2a2a   4 u32 size   8 u64 id   16 u64 FILETIME   24 binary XML   size - 4 u32 size
/// ```
#[inline]
fn extent(bytes: &[u8], at: usize) -> Option<Extent> {
    let (head, _) = bytes.get(at..)?.split_first_chunk::<16>()?;
    if le::u32(head, 0)? != RECORD_SIGNATURE {
        return None;
    }
    let size = le::u32(head, 4)? as usize;
    let record = bytes[at..].get(..size).filter(|_| size >= MIN_RECORD_SIZE)?;
    let is_closed = record.last_chunk::<4>().is_some_and(|last| *last == head[4..8]);
    Some(Extent { at, size, id: le::u64(head, 8)?, is_closed })
}

/// A record whose size in front is wrong: the size at its end, before the next record or the end of all records, tells where it begins.
fn repaired(bytes: &[u8], at: usize, end: usize) -> Option<Extent> {
    let is_record = |at| le::u32(bytes, at) == Some(RECORD_SIGNATURE);
    if !is_record(at) || extent(bytes, at).is_some_and(|extent| extent.is_closed) {
        return None;
    }
    let mut behind = at + MIN_RECORD_SIZE.next_multiple_of(8);
    while behind < end && behind < bytes.len() && !is_record(behind) {
        behind += 8;
    }
    let size = behind - at;
    let last = le::u32(bytes, behind - 4)?;
    let id = le::u64(bytes, at + 8)?;
    (last as usize == size).then_some(Extent { at, size, id, is_closed: true })
}
