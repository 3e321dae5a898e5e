//! A log file: its chunks in the order of their records.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::chunk::{Chunk, Options, first_record_id};
use crate::layout::{
    CHUNK_SIZE, ChunkHeader, FILE_DIRTY, FILE_FULL, FILE_HEADER_SIZE, FILE_NO_CHECKSUM,
    FILE_SIGNATURE, FIRST_RECORD, FileHeader, HEADER_SIZE,
};
use crate::library::Library;
use crate::query::Selector;
use crate::summary::Summary;
use crate::{Damage, DamageKind, Error, Record};

/// An `.evtx` file that is open for reading.
///
/// The file is read by position, chunk by chunk, and may be in use by its writer.
#[derive(Debug)]
pub struct Log {
    file: Input,
    header: FileHeader,
    locations: Vec<ChunkLocation>,
    /// Offset of the chunk with the newest records, of those with a header.
    newest: Option<u64>,
    options: Options,
    damage: Vec<Damage>,
    /// Templates of all chunks.
    library: Arc<Library>,
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
    /// Times and event ids of its records, where its writer noted them.
    pub(crate) summary: Option<Summary>,
    /// The id by which chunks are sorted: that of its first record, if one is known.
    order: Option<u64>,
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

    /// Reads up to `size` bytes at an offset into `bytes`; fewer at the file's end.
    fn read_into(&self, offset: u64, size: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Input::File(file) => {
                bytes.resize(size, 0);
                let found = read_at(file, bytes, offset)?;
                bytes.truncate(found);
            }
            Input::Bytes(all) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(all.len());
                let end = start.saturating_add(size).min(all.len());
                bytes.clear();
                bytes.extend_from_slice(&all[start..end]);
            }
        }
        Ok(())
    }

    fn read(&self, offset: u64, size: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_into(offset, size, &mut bytes)?;
        Ok(bytes)
    }
}

/// Reads until `bytes` is full or the file ends. Returns the number of bytes read. Any number of threads may do so.
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match read_some(file, &mut bytes[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(unix)]
fn read_some(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_some(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, offset)
}

#[cfg(not(any(unix, windows)))]
fn read_some(mut file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    use std::io::{Read, Seek, SeekFrom};
    // The position belongs to the file, and not to the thread.
    static POSITION: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _held = POSITION.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    file.seek(SeekFrom::Start(offset))?;
    file.read(bytes)
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

    fn with(input: Input) -> Result<Log, Error> {
        let mut head = input.read(0, HEADER_SIZE)?;
        let size = input.size()?;
        if head.starts_with(FILE_SIGNATURE) {
            // Zeros in place of a cut header do not match its checksum.
            head.resize(HEADER_SIZE, 0);
        }
        let header = FileHeader::read(&head).ok_or(Error::NotEvtx)?;
        // A header with a wrong checksum proves nothing about the version.
        if header.major != 3 && header.is_sound {
            return Err(Error::Unsupported { major: header.major, minor: header.minor });
        }
        let mut damage = Vec::new();
        if !header.is_sound && size >= HEADER_SIZE as u64 {
            damage.push(Damage { offset: 0, kind: DamageKind::FileHeader });
        }
        if size < FILE_HEADER_SIZE as u64 {
            damage.push(Damage { offset: size, kind: DamageKind::TruncatedHeader(size) });
        }
        let without_checksums = header.flags & FILE_NO_CHECKSUM != 0;
        let mut chunks = Chunks::find(&input, size, without_checksums)?;
        in_order(&mut chunks.used);
        let is_dirty = header.flags & FILE_DIRTY != 0 || !header.is_sound;
        let newest = chunks.used.iter().rev().find(|one| one.first_id != 0);
        let newest = newest.map(|newest| newest.offset);
        chunks.report_missing(&header, size, &mut damage);
        chunks.report_zeros(&header, is_dirty, newest, &mut damage);
        Ok(Log {
            file: input,
            header,
            locations: chunks.used,
            newest,
            options: Options { is_dirty, without_checksums, ..Options::default() },
            damage,
            library: Arc::default(),
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
        let mut chunk = Chunk::default();
        self.load(location, &mut chunk)?;
        Ok(chunk)
    }

    /// Reads one chunk into the memory of another one: faster than [`chunk`](Self::chunk).
    ///
    /// # Errors
    /// [`Error::Io`]. The chunk is empty then.
    pub fn load(&self, location: &ChunkLocation, chunk: &mut Chunk) -> Result<(), Error> {
        let ChunkLocation { offset, size, .. } = *location;
        let options = Options { is_complete: !self.is_open(location), ..self.options };
        chunk.replace(&self.library, offset, options, |bytes| {
            self.file.read_into(offset, size, bytes).map_err(Error::Io)
        })
    }

    /// All records, oldest first.
    pub fn records(&self) -> Records<'_> {
        self.records_in(0..=u64::MAX)
    }

    /// The records of all chunks whose headers claim ids in a range, and of chunks without a header. Other chunks are
    /// not read. While the log is dirty, the chunk with the newest records may hold more than its header claims.
    pub fn records_in(&self, ids: std::ops::RangeInclusive<u64>) -> Records<'_> {
        let damage = self.damage.clone();
        Records { log: self, ids, selector: None, next: 0, chunk: Chunk::default(), damage }
    }

    /// The records that a selector may select; [`Selector::matches`] decides on them. Chunks and records that the selector rules
    /// out by the fields of `System` are not read, and damage in them is not reported.
    pub fn candidates<'l>(&'l self, selector: &'l Selector) -> Records<'l> {
        let damage = self.damage.clone();
        let ids = self.chunk_ids(selector);
        let chunk = Chunk::default();
        Records { log: self, ids, selector: Some(selector), next: 0, chunk, damage }
    }

    /// The indices among [`chunks`](Self::chunks) of those that may have records that a selector selects, oldest first.
    pub fn candidate_chunks(&self, selector: &Selector) -> Vec<usize> {
        let ids = self.chunk_ids(selector);
        let may_match = |index: &usize| {
            let location = &self.locations[*index];
            self.may_hold(location, &ids) && self.may_match(location, selector)
        };
        (0..self.locations.len()).filter(may_match).collect()
    }

    /// The ids of the records that a selector can select: those that it asks for by `EventRecordID`, in a log whose records have
    /// their ids there. An exported log numbers its records anew.
    fn chunk_ids(&self, selector: &Selector) -> std::ops::RangeInclusive<u64> {
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
        !has_header
            || self.options.stale
            || location.first_id <= *ids.end()
                && (self.is_open(location) || *ids.start() <= location.last_id)
    }

    /// The chunk with the newest records, also if its header is lost.
    pub(crate) fn newest(&self) -> Option<&ChunkLocation> {
        let known = self.locations.iter().rev().find(|one| one.order.is_some());
        known.or(self.locations.last())
    }

    /// Whether a chunk may have more records than its header says.
    fn is_open(&self, location: &ChunkLocation) -> bool {
        self.options.is_dirty && self.newest == Some(location.offset)
    }

    /// Whether a chunk can have records that a selector selects, by the times and event ids that its header notes.
    fn may_match(&self, location: &ChunkLocation, selector: &Selector) -> bool {
        let is_partial = self.options.stale || self.is_open(location);
        match (&location.summary, selector.screen()) {
            (Some(summary), Some(screen)) if !is_partial => screen.may_match_chunk(summary),
            _ => true,
        }
    }
}

/// The chunks of a file.
struct Chunks {
    /// Those with other bytes than zeros, in the order of the file.
    used: Vec<ChunkLocation>,
    /// Offsets of the others.
    zeros: Vec<u64>,
    /// Bytes of the last one.
    last_size: usize,
}

impl Chunks {
    fn find(input: &Input, size: u64, without_checksums: bool) -> io::Result<Chunks> {
        let mut chunks = Chunks { used: Vec::new(), zeros: Vec::new(), last_size: CHUNK_SIZE };
        let mut offset = FILE_HEADER_SIZE as u64;
        let mut bytes = Vec::new();
        while offset < size {
            let rest = (size - offset).min(CHUNK_SIZE as u64) as usize;
            chunks.last_size = rest;
            input.read_into(offset, FIRST_RECORD.min(rest), &mut bytes)?;
            let header = ChunkHeader::read(&bytes);
            let mut order = header.map(|header| header.first_id);
            let summary = header.as_ref().and_then(|header| Summary::read(&bytes, header));
            if header.is_none() {
                // Records may follow zeros or other bytes in place of the header.
                input.read_into(offset, rest, &mut bytes)?;
                order = first_record_id(&bytes);
            }
            if header.is_none() && is_zero(&bytes) {
                chunks.zeros.push(offset);
            } else {
                chunks.used.push(ChunkLocation {
                    offset,
                    first_id: header.map_or(0, |header| header.first_id),
                    last_id: header.map_or(0, |header| header.last_id),
                    size: rest,
                    summary: summary.filter(|_| !without_checksums),
                    order: order.filter(|id| *id != 0),
                });
            }
            offset += CHUNK_SIZE as u64;
        }
        Ok(chunks)
    }

    /// Reports what a file has less than its header counts.
    fn report_missing(&self, header: &FileHeader, size: u64, damage: &mut Vec<Damage>) {
        if !header.is_sound {
            return;
        }
        // A header that is older than the chunks counts no chunk that was never there.
        let counted = u64::from(header.chunk_count);
        let found = self.count() - u64::from(self.ends_in_zeros());
        if found < counted {
            damage
                .push(Damage { offset: size, kind: DamageKind::MissingChunks { counted, found } });
        }
        let have_headers = self.used.iter().all(|one| one.first_id != 0);
        // An empty chunk's last id is not one.
        let filled = self.used.iter().filter(|one| one.first_id <= one.last_id);
        let last = filled.map(|one| one.last_id).max();
        if header.flags & FILE_DIRTY == 0
            && have_headers
            && let Some(first) = last.and_then(|last| last.checked_add(1))
            && first < header.next_record_id
        {
            let last = header.next_record_id - 1;
            damage.push(Damage { offset: 0, kind: DamageKind::MissingRecords { first, last } });
        }
    }

    fn count(&self) -> u64 {
        (self.used.len() + self.zeros.len()) as u64
    }

    /// Whether the file ends inside of a chunk that has only zeros up to there.
    fn ends_in_zeros(&self) -> bool {
        let last_used = self.used.iter().map(|one| one.offset).max();
        self.last_size < CHUNK_SIZE && self.zeros.last() > last_used.as_ref()
    }

    /// Reports chunks of zeros that are followed by chunks in use. A writer begins with the first chunk, and makes zeros of the
    /// chunk that it will write next.
    fn report_zeros(
        &self,
        header: &FileHeader,
        is_dirty: bool,
        newest: Option<u64>,
        damage: &mut Vec<Damage>,
    ) {
        let index_of = |offset: u64| (offset - FILE_HEADER_SIZE as u64) / CHUNK_SIZE as u64;
        let is_next = |index: u64| match newest.map(index_of).filter(|_| is_dirty) {
            // The header may be older than the chunk. The writer may begin again before it has reached the last chunk.
            Some(newest) => {
                (newest + 1) % self.count() == index || index == 0 && header.last_chunk == 0
            }
            None => index == header.last_chunk,
        };
        // The header may name a chunk that lost its records, too.
        let named = if header.is_sound { header.last_chunk } else { 0 };
        let used = self.used.iter().map(|one| index_of(one.offset));
        let last_used = used.max().unwrap_or(0).max(named);
        let mut run: Option<(u64, u64)> = None;
        for offset in self.zeros.iter().copied() {
            let index = index_of(offset);
            if index >= last_used || is_next(index) {
                continue;
            }
            match &mut run {
                Some((first, count)) if *first + *count * CHUNK_SIZE as u64 == offset => {
                    *count += 1
                }
                _ => {
                    damage.extend(run.map(zero_chunks));
                    run = Some((offset, 1));
                }
            }
        }
        damage.extend(run.map(zero_chunks));
    }
}

/// Whether all bytes are zero: the first one is, and each is equal to the one before. One comparison of memory is fast in every build.
fn is_zero(bytes: &[u8]) -> bool {
    match bytes {
        [] => true,
        [first, rest @ ..] => *first == 0 && *rest == bytes[..rest.len()],
    }
}

fn zero_chunks((offset, count): (u64, u64)) -> Damage {
    Damage { offset, kind: DamageKind::ZeroChunks(count) }
}

/// Sorts chunks by record id: a log that has wrapped has its oldest chunk behind its newest. A chunk without a header
/// and records stays behind the chunk that it follows in the file.
fn in_order(locations: &mut [ChunkLocation]) {
    let mut known = 0;
    let mut keyed: Vec<(u64, ChunkLocation)> = locations
        .iter()
        .map(|location| {
            known = location.order.unwrap_or(known);
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
    chunk: Chunk,
    damage: Vec<Damage>,
}

impl Records<'_> {
    /// The next record that can be read.
    ///
    /// # Errors
    /// [`Error::Io`]. Damage is not an error: see [`damage`](Self::damage).
    #[allow(clippy::should_implement_trait, reason = "a record borrows its chunk")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        // Two steps, because a record that a loop returns borrows the chunk for the whole loop.
        while !self.chunk.has_next_of(self.selector) {
            self.damage.append(&mut self.chunk.take_damage());
            let Some(location) = self.log.locations.get(self.next) else { return Ok(None) };
            self.next += 1;
            let may_match = |selector: &Selector| self.log.may_match(location, selector);
            if self.log.may_hold(location, &self.ids) && self.selector.is_none_or(may_match) {
                self.log.load(location, &mut self.chunk)?;
            }
        }
        Ok(self.chunk.next_of(self.selector))
    }

    /// Damage of the chunks that were read to their end.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }
}
