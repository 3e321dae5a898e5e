//! A log file: its chunks in the order of their records.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Mutex;

use crate::chunk::{Chunk, Options};
use crate::layout::{
    CHUNK_SIZE, ChunkHeader, FILE_DIRTY, FILE_FULL, FILE_HEADER_SIZE, FILE_NO_CHECKSUM, FileHeader,
};
use crate::query::Selector;
use crate::{Damage, DamageKind, Error, Record};

/// An `.evtx` file that is open for reading.
///
/// The file is read by position, chunk by chunk, and may be in use by its writer.
#[derive(Debug)]
pub struct Log {
    file: Mutex<Input>,
    header: FileHeader,
    locations: Vec<ChunkLocation>,
    options: Options,
    damage: Vec<Damage>,
}

/// The position of a chunk in its file, and the record ids that its header claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkLocation {
    /// Offset in the file.
    pub offset: u64,
    /// Id of its first record; 0 where the chunk has no header.
    pub first_id: u64,
    /// Id of its last record.
    pub last_id: u64,
    /// Bytes of it that the file has: fewer than 65536 where the file's end cuts it.
    pub size: usize,
}

#[derive(Debug)]
enum Input {
    File(File),
    Bytes(Vec<u8>),
}

impl Input {
    fn size(&self) -> io::Result<u64> {
        Ok(match self {
            Input::File(file) => file.metadata()?.len(),
            Input::Bytes(bytes) => bytes.len() as u64,
        })
    }

    /// Reads up to `size` bytes at an offset; fewer at the file's end.
    fn read(&mut self, offset: u64, size: usize) -> io::Result<Vec<u8>> {
        match self {
            Input::File(file) => {
                use std::io::Seek;
                file.seek(io::SeekFrom::Start(offset))?;
                let mut bytes = Vec::with_capacity(size);
                file.take(size as u64).read_to_end(&mut bytes)?;
                Ok(bytes)
            }
            Input::Bytes(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let end = start.saturating_add(size).min(bytes.len());
                Ok(bytes[start..end].to_vec())
            }
        }
    }
}

impl Log {
    /// Opens a log.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::NotEvtx`]; [`Error::Unsupported`].
    pub fn open(path: impl AsRef<Path>) -> Result<Log, Error> {
        Log::with(Input::File(File::open(path)?))
    }

    /// Reads a log in a file that is open.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_file(file: File) -> Result<Log, Error> {
        Log::with(Input::File(file))
    }

    /// Reads a log that is in memory.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Log, Error> {
        Log::with(Input::Bytes(bytes))
    }

    fn with(mut input: Input) -> Result<Log, Error> {
        let header = FileHeader::read(&input.read(0, 128)?).ok_or(Error::NotEvtx)?;
        if header.major != 3 {
            return Err(Error::Unsupported { major: header.major, minor: header.minor });
        }
        let mut damage = Vec::new();
        if !header.is_sound {
            damage.push(Damage { offset: 0, kind: DamageKind::FileHeader });
        }
        let size = input.size()?;
        let mut locations = Vec::new();
        let mut offset = FILE_HEADER_SIZE as u64;
        while offset < size {
            let rest = (size - offset).min(CHUNK_SIZE as u64) as usize;
            let start = input.read(offset, 128)?;
            let header = ChunkHeader::read(&start);
            let is_unused = start.iter().all(|byte| *byte == 0);
            if !is_unused {
                locations.push(ChunkLocation {
                    offset,
                    first_id: header.map_or(0, |header| header.first_id),
                    last_id: header.map_or(0, |header| header.last_id),
                    size: rest,
                });
            }
            offset += CHUNK_SIZE as u64;
        }
        in_order(&mut locations);
        Ok(Log {
            file: Mutex::new(input),
            header,
            locations,
            options: Options {
                is_dirty: header.flags & FILE_DIRTY != 0 || !header.is_sound,
                without_checksums: header.flags & FILE_NO_CHECKSUM != 0,
                stale: false,
            },
            damage,
        })
    }

    /// Includes stale records: those behind a chunk's last record, left over from an earlier use of the chunk.
    #[must_use]
    pub fn with_stale(mut self) -> Log {
        self.options.stale = true;
        self
    }

    /// The file header. Its counts are older than the chunks while [`is_dirty`](Self::is_dirty).
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// Whether the log is in use, or was not closed.
    pub fn is_dirty(&self) -> bool {
        self.options.is_dirty
    }

    /// Whether the log has reached its size and refuses new records.
    pub fn is_full(&self) -> bool {
        self.header.flags & FILE_FULL != 0
    }

    /// The chunks in use, in the order of their records.
    pub fn chunks(&self) -> &[ChunkLocation] {
        &self.locations
    }

    /// Reads one chunk. Any number of threads may do so.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn chunk(&self, location: &ChunkLocation) -> Result<Chunk, Error> {
        let mut input = self.file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let bytes = input.read(location.offset, location.size)?;
        drop(input);
        Ok(Chunk::new(bytes, location.offset, self.options))
    }

    /// All records, oldest first.
    pub fn records(&self) -> Records<'_> {
        self.records_in(0..=u64::MAX)
    }

    /// The records of all chunks whose headers claim ids in a range, and of chunks without a header. Other chunks are
    /// not read. While the log is dirty, the chunk with the newest records may hold more than its header claims.
    pub fn records_in(&self, ids: std::ops::RangeInclusive<u64>) -> Records<'_> {
        let damage = self.damage.clone();
        Records { log: self, ids, selector: None, next: 0, chunk: None, damage }
    }

    /// The records that a selector may select; [`Selector::matches`] decides on them. Chunks and records that the selector rules
    /// out by the fields of `System` are not read, and damage in them is not reported.
    pub fn candidates<'l>(&'l self, selector: &'l Selector) -> Records<'l> {
        let damage = self.damage.clone();
        let ids = self.chunk_ids(selector);
        Records { log: self, ids, selector: Some(selector), next: 0, chunk: None, damage }
    }

    /// The ids of the records that a selector can select: those that it asks for by `EventRecordID`, in a log whose records have
    /// their ids there. An exported log numbers its records anew.
    pub fn chunk_ids(&self, selector: &Selector) -> std::ops::RangeInclusive<u64> {
        let ids = selector.ids();
        match *ids == (0..=u64::MAX) || self.has_own_ids() {
            true => ids.clone(),
            false => 0..=u64::MAX,
        }
    }

    /// Whether the `EventRecordID` of each record is its id. Both rise from record to record: if the first and the last record of
    /// the log have equal ones and no id between them is missing, all have.
    fn has_own_ids(&self) -> bool {
        let is_dense = self.locations.windows(2).all(|pair| {
            pair[0].first_id != 0 && pair[0].last_id.checked_add(1) == Some(pair[1].first_id)
        });
        let (Some(first), Some(last)) = (self.locations.first(), self.locations.last()) else {
            return false;
        };
        let is_own = |record: &Record<'_>| record.system().record_id() == Some(record.id());
        let ends_are_own = || {
            let first_is_own = self
                .chunk(first)
                .ok()?
                .next()
                .filter(|one| one.id() == first.first_id)
                .map(|one| is_own(&one));
            let mut chunk = self.chunk(last).ok()?;
            let mut last_is_own = None;
            while let Some(record) = chunk.next() {
                last_is_own = Some(is_own(&record));
            }
            Some(first_is_own? && last_is_own?)
        };
        is_dense && ends_are_own() == Some(true)
    }

    /// Whether a chunk can have records with these ids: by its header, if it has one that counts all its records.
    pub fn may_hold(&self, location: &ChunkLocation, ids: &std::ops::RangeInclusive<u64>) -> bool {
        let has_header = location.first_id != 0;
        let newest = self.locations.last().map(|last| last.offset);
        let is_open = self.options.is_dirty && newest == Some(location.offset);
        !has_header
            || self.options.stale
            || location.first_id <= *ids.end() && (is_open || *ids.start() <= location.last_id)
    }
}

/// Sorts chunks by record id: a log that has wrapped has its oldest chunk behind its newest. A chunk without a header
/// stays behind the chunk that it follows in the file.
fn in_order(locations: &mut [ChunkLocation]) {
    let mut known = 0;
    let mut keyed: Vec<(u64, ChunkLocation)> = locations
        .iter()
        .map(|location| {
            if location.first_id != 0 {
                known = location.first_id;
            }
            (known, *location)
        })
        .collect();
    keyed.sort_by_key(|(key, location)| (*key, location.offset));
    for (slot, (_, location)) in locations.iter_mut().zip(keyed) {
        *slot = location;
    }
}

/// The records of a [`Log`].
#[derive(Debug)]
pub struct Records<'l> {
    log: &'l Log,
    ids: std::ops::RangeInclusive<u64>,
    selector: Option<&'l Selector>,
    next: usize,
    chunk: Option<Chunk>,
    damage: Vec<Damage>,
}

impl Records<'_> {
    /// The next record that can be read.
    ///
    /// # Errors
    /// [`Error::Io`]. Damage is not an error: see [`damage`](Self::damage).
    #[allow(clippy::should_implement_trait, reason = "a record borrows its chunk")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        loop {
            if self.chunk.is_none() {
                let Some(location) = self.log.locations.get(self.next) else { return Ok(None) };
                self.next += 1;
                if !self.log.may_hold(location, &self.ids) {
                    continue;
                }
                self.chunk = Some(self.log.chunk(location)?);
            }
            // Two steps, because a record that a loop returns borrows the chunk for the whole loop.
            let selector = self.selector;
            if self.chunk.as_mut().is_some_and(|chunk| chunk.has_next_of(selector)) {
                return Ok(self.chunk.as_mut().and_then(|chunk| chunk.next_of(selector)));
            }
            if let Some(mut chunk) = self.chunk.take() {
                self.damage.append(&mut chunk.take_damage());
            }
        }
    }

    /// Damage of the chunks that were read to their end.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }
}
