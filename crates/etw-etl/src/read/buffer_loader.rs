//! One buffer, copied out of its file, checked and put in order.

use super::buffer::{next_record, place};
use super::buffer_memory::BufferMemory;
use super::byte_source::{ByteSource, read_full};
use super::index::Entry;
use crate::DamageKind;
use crate::lzxpress::{self, LzxpressErrorKind};
use crate::record::{self, Extent, RecordContext};
use etw_types::BufferHeader;
use std::ops::Range;

/// Facts about a file that loading a buffer needs.
pub(crate) struct LoadContext {
    pub(crate) source: Box<dyn ByteSource>,
    pub(crate) record: RecordContext,
    /// Largest filled length with the header.
    pub(crate) limit: u32,
    /// Size of every buffer on disk, if all are equal.
    pub(crate) uniform_size: Option<u32>,
    /// Offsets and real sizes on disk of buffers whose headers have a wrong size, by offset.
    pub(crate) real_sizes: Vec<(u64, u32)>,
}

impl LoadContext {
    fn size_on_disk(&self, offset: u64, header: &BufferHeader) -> u32 {
        let size = match self.real_sizes.binary_search_by_key(&offset, |&(at, _)| at) {
            Ok(found) => self.real_sizes[found].1,
            Err(_) => self.uniform_size.unwrap_or(header.buffer_size),
        };
        size.max(BufferHeader::SIZE as u32)
    }
}

/// A record of a loaded buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checked {
    /// Session clock. A record without a time has that of the one before it in its buffer, [`UNTIMED`] if there is none.
    pub(crate) time: i64,
    /// Bytes from the end of the buffer header.
    pub(crate) offset: u32,
    pub(crate) extent: Extent,
}

/// The time of records without one at the front of a buffer, until the buffer before it is known.
pub(crate) const UNTIMED: i64 = i64::MIN;

/// Memory for a buffer, used again and again.
#[derive(Default)]
pub(crate) struct Spare {
    memory: BufferMemory,
    checked: CheckedRecords,
}

/// Records of a buffer, in memory that is never cleared: a push stores the record alone, without a length beside it.
#[derive(Default)]
struct CheckedRecords {
    all: Vec<Checked>,
    count: usize,
}

impl CheckedRecords {
    #[inline(always)]
    fn used(&self) -> &[Checked] {
        self.all.get(..self.count).unwrap_or_default()
    }

    fn used_mut(&mut self) -> &mut [Checked] {
        self.all.get_mut(..self.count).unwrap_or_default()
    }

    /// Empties it for a buffer of `length` bytes, with room for records of the usual size.
    fn restart(&mut self, length: usize) {
        const USUAL: usize = 128;
        self.count = 0;
        if self.all.len() / 16 > length.max(1 << 16) / USUAL {
            // As for the bytes.
            self.all = Vec::new();
        }
        self.grow(length / USUAL);
    }

    /// Makes room for that many records.
    #[cold]
    fn grow(&mut self, count: usize) {
        if self.all.len() < count {
            self.all.resize(count, Checked::default());
        }
    }

    fn push(&mut self, record: Checked) {
        if self.count == self.all.len() {
            self.grow(2 * self.count.max(64));
        }
        self.all[self.count] = record;
        self.count += 1;
    }
}

/// A buffer ready to be merged.
#[derive(Default)]
pub(crate) struct Loaded {
    pub(crate) entry: Entry,
    memory: BufferMemory,
    /// The filled part in `memory`, up to the end of the last record.
    filled: Range<usize>,
    /// The whole, sound records by time.
    checked: CheckedRecords,
    pub(crate) damage: Vec<(u64, DamageKind)>,
}

impl Loaded {
    /// The filled part, up to the end of the last record.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory.bytes()[self.filled.clone()]
    }

    /// The records by time.
    #[inline(always)]
    pub(crate) fn records(&self) -> &[Checked] {
        self.checked.used()
    }

    /// One of the [`records`](Loaded::records).
    #[inline(always)]
    pub(crate) fn record(&self, number: usize) -> Option<&Checked> {
        if number < self.checked.count { self.checked.all.get(number) } else { None }
    }

    /// Gives the records without a time at the front of the buffer that of the buffer before, and tells the times of the first and the
    /// last record that have one.
    pub(crate) fn set_time_before(&mut self, time: i64) -> Option<(i64, i64)> {
        let checked = self.checked.used_mut();
        let untimed = checked.iter().take_while(|record| record.time == UNTIMED).count();
        let (untimed, timed) = checked.split_at_mut(untimed);
        untimed.iter_mut().for_each(|record| record.time = time);
        Some((timed.first()?.time, timed.last()?.time))
    }

    /// The bytes of a record; `None` if its extent does not tell its size.
    #[inline(always)]
    pub(crate) fn bytes_of(&self, record: &Checked) -> Option<&[u8]> {
        let size = record.extent.size()? as usize;
        self.memory.part(self.filled.start + record.offset as usize, size)
    }

    /// The bytes of any record.
    pub(crate) fn bytes_of_any(&self, record: &Checked, context: &RecordContext) -> &[u8] {
        if let Some(bytes) = self.bytes_of(record) {
            return bytes;
        }
        let room = self.bytes().get(record.offset as usize..).unwrap_or_default();
        let size = record::frame(room, context).map_or(0, |frame| frame.size);
        room.get(..size as usize).unwrap_or_default()
    }

    /// Fetches the records from the cache of the CPU that loaded them, many lines at a time; the merge that follows would fetch them
    /// one by one.
    pub(crate) fn fetch(&self) {
        let sum = self.bytes().iter().step_by(64).fold(0u8, |sum, &byte| sum.wrapping_add(byte));
        std::hint::black_box(sum);
    }

    pub(crate) fn into_spare(self) -> Spare {
        Spare { memory: self.memory, checked: self.checked }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.memory.capacity() + self.checked.all.capacity() * size_of::<Checked>()
    }
}

/// Loads one buffer after the other. What it remembers of the last one lets most buffers be read by one system call.
#[derive(Default)]
pub(crate) struct Loader {
    /// The compressed bytes of a buffer.
    compressed: BufferMemory,
    /// The last buffer was compressed.
    is_compressed: bool,
    /// Bytes that the last buffer took in its file, its header included.
    last_size: usize,
}

struct Body {
    filled: Range<usize>,
    told: Told,
}

/// Findings about the buffer before its records are walked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    /// The buffer is truncated, perhaps inside a record.
    Cut,
    /// The filled length is unknown: records are read up to the first invalid one.
    NoLength,
}

impl Loader {
    /// Reads, decompresses and checks the buffer of `cpu` at `entry`. Damaged records are skipped and reported in `damage`.
    pub(crate) fn load(
        &mut self,
        context: &LoadContext,
        cpu: u16,
        entry: Entry,
        spare: Spare,
    ) -> Loaded {
        let Spare { memory, mut checked } = spare;
        checked.count = 0;
        let mut loaded = Loaded { entry, memory, filled: 0..0, checked, damage: Vec::new() };
        match self.read_body(context, cpu, &mut loaded) {
            Ok(Body { filled, told }) => {
                loaded.filled = filled;
                scan(&context.record, &mut loaded, self.is_compressed, told);
            }
            Err(kind) => loaded.damage.push((entry.offset, kind)),
        }
        loaded
    }

    fn read_body(
        &mut self,
        context: &LoadContext,
        cpu: u16,
        loaded: &mut Loaded,
    ) -> Result<Body, DamageKind> {
        const HEAD: usize = BufferHeader::SIZE;
        let entry = loaded.entry;
        let source = &*context.source;
        let io_error = |error: std::io::Error| DamageKind::Io(error.kind());
        let room = source.size().saturating_sub(entry.offset);

        // With the header come some more bytes than the last buffer had: most buffers of a trace are about equally full.
        let memory = if self.is_compressed { &mut self.compressed } else { &mut loaded.memory };
        let most = context.uniform_size.map_or(usize::MAX, |size| size as usize);
        let first = (self.last_size + self.last_size / 8).min(most).max(HEAD);
        memory.fit(first, 0, entry.offset);
        let got = read_full(source, &mut memory.bytes_mut()[..first], entry.offset);
        let mut got = got.map_err(io_error)?;
        let head = memory.bytes().first_chunk().filter(|_| got >= HEAD);
        let header = head.map(BufferHeader::read).ok_or(DamageKind::Changed)?;
        if header.cpu() != cpu || header.sequence_number != entry.sequence {
            return Err(DamageKind::Changed);
        }
        if header.is_compressed() != self.is_compressed {
            std::mem::swap(&mut self.compressed, &mut loaded.memory);
            self.is_compressed = header.is_compressed();
        }

        let stored = context.size_on_disk(entry.offset, &header);
        let cut = u64::from(stored) > room;
        let on_disk = u64::from(stored).min(room).saturating_sub(HEAD as u64) as usize;
        let limit = if header.is_compressed() { context.limit } else { stored };
        let length = header.filled(limit);
        if length.is_none() {
            let kind = DamageKind::FilledLength { found: header.offset, limit };
            loaded.damage.push((entry.offset, kind));
        }
        let filled = length.unwrap_or(limit as usize - HEAD);
        let told = |ends_early: bool| match length {
            None => Told::NoLength,
            Some(_) if ends_early => Told::Cut,
            Some(_) => Told::Nothing,
        };

        let (memory, want) = match header.is_compressed() {
            true => (&mut self.compressed, HEAD + on_disk),
            false => (&mut loaded.memory, HEAD + filled.min(on_disk)),
        };
        self.last_size = want;
        memory.fit(want, got.min(want), entry.offset);
        if got == first && got < want {
            let rest = &mut memory.bytes_mut()[got..want];
            got += read_full(source, rest, entry.offset + got as u64).map_err(io_error)?;
        }
        let body = HEAD..got.min(want);
        if got < want {
            loaded.damage.push((entry.offset, DamageKind::Changed));
        }
        if !header.is_compressed() {
            return Ok(Body { filled: body, told: told(cut || got < want) });
        }
        loaded.memory.fit(filled, 0, 0);
        let stream = &self.compressed.bytes()[body];
        let (end, error) = decompress_into(stream, &mut loaded.memory.bytes_mut()[..filled]);
        if let Some(kind) = error.filter(|_| got >= want && told(cut) == Told::Nothing) {
            let lost = (filled - end) as u32;
            loaded.damage.push((entry.offset, DamageKind::Compression { kind, lost }));
        }
        Ok(Body { filled: 0..end, told: told(cut || got < want || error.is_some()) })
    }
}

/// Decompresses up to the first error. Returns the length reached and the error.
pub(crate) fn decompress_into(
    stream: &[u8],
    output: &mut [u8],
) -> (usize, Option<LzxpressErrorKind>) {
    match lzxpress::decompress(stream, output) {
        Ok(_) => (output.len(), None),
        Err(error) => (error.output_len.min(output.len()), Some(error.kind)),
    }
}

/// Bytes of the longest record header.
const LONGEST_HEADER: usize = 0x50;

/// Where the walk over a buffer stands.
struct Walk {
    /// Bytes from the end of the buffer header.
    at: usize,
    /// The time of the last record.
    last: i64,
    is_sorted: bool,
}

/// Stores the records that [`Extent::of_usual`] knows into `room`, up to the first other one or until it is full; returns their number. A
/// loop of its own, so that all it needs is in registers.
#[inline(never)]
fn walk_usual(bytes: &[u8], walk: &mut Walk, room: &mut [Checked]) -> usize {
    let Walk { at: mut offset, last: mut before, mut is_sorted } = *walk;
    let mut count = 0;
    while let Some(place) = room.get_mut(count) {
        let Some((extent, time)) = bytes.get(offset..).and_then(Extent::of_usual) else { break };
        is_sorted &= time >= before;
        before = time;
        *place = Checked { time, offset: offset as u32, extent };
        count += 1;
        offset = next_record(offset, extent.size().unwrap_or(0));
    }
    *walk = Walk { at: offset, last: before, is_sorted };
    count
}

/// Walks the records once. Finds where they end, which of them are damaged, and their order of time.
fn scan(context: &RecordContext, loaded: &mut Loaded, compressed: bool, told: Told) {
    let bytes = &loaded.memory.bytes()[loaded.filled.clone()];
    let body_offset = loaded.entry.offset + BufferHeader::SIZE as u64;
    let file_offset =
        |at: usize| if compressed { loaded.entry.offset } else { body_offset + at as u64 };
    let mut checked = std::mem::take(&mut loaded.checked);
    checked.restart(bytes.len());
    let mut walk = Walk { at: 0, last: UNTIMED, is_sorted: true };
    loop {
        let count = checked.count;
        checked.count += walk_usual(bytes, &mut walk, &mut checked.all[count..]);
        let at = walk.at;
        let Some(room) = bytes.get(at..).filter(|room| !room.is_empty()) else { break };
        let frame = match record::frame(room, context) {
            Ok(frame) => frame,
            Err(kind) => {
                let is_told = match (told, &kind) {
                    (Told::Nothing, _) => false,
                    (Told::NoLength, _) => true,
                    // The truncated record was reported with the truncation; any other has a wrong size.
                    (Told::Cut, DamageKind::RecordSize { size, .. }) => {
                        *size as usize > room.len() || room.len() < LONGEST_HEADER
                    }
                    (Told::Cut, _) => room.len() < LONGEST_HEADER && room[3] & 0x80 == 0,
                };
                if !is_told {
                    loaded.damage.push((file_offset(at), place(kind, at, room.len())));
                }
                break;
            }
        };
        match Extent::of(room, &frame) {
            Some(extent) => {
                let time = frame.time.unwrap_or(walk.last);
                walk.is_sorted &= time >= walk.last;
                walk.last = time;
                checked.push(Checked { time, offset: at as u32, extent });
            }
            None => {
                let kind = DamageKind::RecordParts { at: at as u32 };
                loaded.damage.push((file_offset(at), kind));
            }
        }
        walk.at = next_record(at, frame.size);
    }
    loaded.filled.end = loaded.filled.start + walk.at.min(bytes.len());
    if !walk.is_sorted {
        // Equal times keep their order, and records without one follow their predecessor.
        checked.used_mut().sort_by_key(|record| record.time);
    }
    loaded.checked = checked;
}
