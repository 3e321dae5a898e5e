//! One buffer, copied out of its file, checked and put in order.

use super::buffer::{next_record, place};
use super::byte_source::{ByteSource, read_full};
use super::index::Entry;
use crate::DamageKind;
use crate::lzxpress::{self, LzxpressErrorKind};
use crate::record::{self, Extent, RecordContext};
use etw_types::BufferHeader;

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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checked {
    /// Session clock; [`UNTIMED`] if the record has none.
    pub(crate) time: i64,
    /// Bytes from the end of the buffer header.
    pub(crate) offset: u32,
    pub(crate) extent: Extent,
}

/// The time of a record without one.
pub(crate) const UNTIMED: i64 = i64::MIN;

/// Memory for a buffer, used again and again.
#[derive(Default)]
pub(crate) struct Spare {
    bytes: Vec<u8>,
    checked: Vec<Checked>,
}

/// A buffer ready to be merged.
pub(crate) struct Loaded {
    pub(crate) entry: Entry,
    /// Grows only, so that a recycled buffer is not cleared; `end` tells what is in use.
    bytes: Vec<u8>,
    end: usize,
    /// The whole, sound records by time.
    checked: Vec<Checked>,
    pub(crate) damage: Vec<(u64, DamageKind)>,
}

impl Loaded {
    /// The filled part, up to the end of the last record.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.end]
    }

    /// The records by time.
    #[inline]
    pub(crate) fn records(&self) -> &[Checked] {
        &self.checked
    }

    /// The bytes of a record.
    #[inline]
    pub(crate) fn bytes_of(&self, record: &Checked, context: &RecordContext) -> &[u8] {
        let room = self.bytes().get(record.offset as usize..).unwrap_or_default();
        let size = match record.extent.size() {
            Some(size) => size,
            None => record::frame(room, context).map_or(0, |frame| frame.size),
        };
        room.get(..size as usize).unwrap_or_default()
    }

    /// Fetches the records from the cache of the CPU that loaded them, many lines at a time; the merge that follows would fetch them
    /// one by one.
    pub(crate) fn fetch(&self) {
        let sum = self.bytes().iter().step_by(64).fold(0u8, |sum, &byte| sum.wrapping_add(byte));
        std::hint::black_box(sum);
    }

    pub(crate) fn into_spare(self) -> Spare {
        Spare { bytes: self.bytes, checked: self.checked }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity() + self.checked.capacity() * size_of::<Checked>()
    }
}

/// Reads, decompresses and checks the buffer of `cpu` at `entry`. Damaged records are skipped and reported in `damage`.
pub(crate) fn load(context: &LoadContext, cpu: u16, entry: Entry, spare: Spare) -> Loaded {
    let Spare { bytes, mut checked } = spare;
    checked.clear();
    let mut loaded = Loaded { entry, bytes, end: 0, checked, damage: Vec::new() };
    let body = read_body(context, cpu, entry, &mut loaded);
    match body {
        Ok(Body { end, compressed, told }) => {
            loaded.end = end;
            scan(&context.record, &mut loaded, compressed, told);
        }
        Err(kind) => loaded.damage.push((entry.offset, kind)),
    }
    loaded
}

struct Body {
    end: usize,
    compressed: bool,
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

fn read_body(
    context: &LoadContext,
    cpu: u16,
    entry: Entry,
    loaded: &mut Loaded,
) -> Result<Body, DamageKind> {
    let source = &*context.source;
    let mut head = [0; BufferHeader::SIZE];
    let got = read_full(source, &mut head, entry.offset).map_err(|e| DamageKind::Io(e.kind()))?;
    let header = BufferHeader::read(&head);
    if got < head.len() || header.cpu() != cpu || header.sequence_number != entry.sequence {
        return Err(DamageKind::Changed);
    }
    let stored = context.size_on_disk(entry.offset, &header);
    let room = source.size().saturating_sub(entry.offset);
    let cut = u64::from(stored) > room;
    let on_disk = u64::from(stored).min(room).saturating_sub(head.len() as u64) as usize;
    let limit = if header.is_compressed() { context.limit } else { stored };
    let length = header.filled(limit);
    if length.is_none() {
        let kind = DamageKind::FilledLength { found: header.offset, limit };
        loaded.damage.push((entry.offset, kind));
    }
    let filled = length.unwrap_or(limit as usize - BufferHeader::SIZE);
    let told = |ends_early: bool| match length {
        None => Told::NoLength,
        Some(_) if ends_early => Told::Cut,
        Some(_) => Told::Nothing,
    };
    let body_offset = entry.offset + BufferHeader::SIZE as u64;
    let io_error = |error: std::io::Error| DamageKind::Io(error.kind());
    if !header.is_compressed() {
        let want = filled.min(on_disk);
        grow(&mut loaded.bytes, want);
        let got = read_full(source, &mut loaded.bytes[..want], body_offset).map_err(io_error)?;
        if got < want {
            loaded.damage.push((entry.offset, DamageKind::Changed));
        }
        return Ok(Body { end: got, compressed: false, told: told(cut || got < want) });
    }
    let mut stream = vec![0; on_disk];
    let got = read_full(source, &mut stream, body_offset).map_err(io_error)?;
    stream.truncate(got);
    grow(&mut loaded.bytes, filled);
    let (end, error) = decompress_into(&stream, &mut loaded.bytes[..filled]);
    if got < on_disk {
        loaded.damage.push((entry.offset, DamageKind::Changed));
    } else if let Some(kind) = error.filter(|_| told(cut) == Told::Nothing) {
        let lost = (filled - end) as u32;
        loaded.damage.push((entry.offset, DamageKind::Compression { kind, lost }));
    }
    Ok(Body { end, compressed: true, told: told(cut || got < on_disk || error.is_some()) })
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

fn grow(bytes: &mut Vec<u8>, length: usize) {
    if bytes.capacity() / 4 > length.max(1 << 16) {
        // One large buffer must not make every stream that its memory comes by hold as much.
        *bytes = Vec::new();
    }
    if bytes.len() < length {
        // Not `resize`: doubling would take half as much again as the largest buffer.
        bytes.reserve_exact(length - bytes.len());
        bytes.resize(length, 0);
    }
}

/// Makes room for the records of `length` bytes, if they have the usual size.
fn reserve(checked: &mut Vec<Checked>, length: usize) {
    const USUAL: usize = 128;
    if checked.capacity() / 16 > length.max(1 << 16) / USUAL {
        // As in `grow`.
        *checked = Vec::new();
    }
    checked.reserve(length / USUAL);
}

/// Bytes of the longest record header.
const LONGEST_HEADER: usize = 0x50;

/// Walks the records once. Finds where they end, which of them are damaged, and their order of time.
fn scan(context: &RecordContext, loaded: &mut Loaded, compressed: bool, told: Told) {
    let bytes = &loaded.bytes[..loaded.end];
    let body_offset = loaded.entry.offset + BufferHeader::SIZE as u64;
    let file_offset =
        |at: usize| if compressed { loaded.entry.offset } else { body_offset + at as u64 };
    let mut checked = std::mem::take(&mut loaded.checked);
    reserve(&mut checked, bytes.len());
    let mut at = 0;
    let mut last = i64::MIN;
    let mut sorted = true;
    while at < bytes.len() {
        let room = &bytes[at..];
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
                let time = frame.time.unwrap_or(UNTIMED);
                if time != UNTIMED {
                    sorted &= time >= last;
                    last = time;
                }
                checked.push(Checked { time, offset: at as u32, extent });
            }
            None => {
                let kind = DamageKind::RecordParts { at: at as u32 };
                loaded.damage.push((file_offset(at), kind));
            }
        }
        at = next_record(at, frame.size);
    }
    loaded.end = at.min(bytes.len());
    if !sorted {
        sort(&mut checked);
    }
    loaded.checked = checked;
}

/// Sorts by time; equal times keep their order, untimed records follow their predecessor.
#[cold]
fn sort(checked: &mut [Checked]) {
    let mut last = i64::MIN;
    let mut keyed: Vec<(i64, Checked)> = Vec::with_capacity(checked.len());
    for record in checked.iter() {
        last = if record.time == UNTIMED { last } else { record.time };
        keyed.push((last, *record));
    }
    keyed.sort_by_key(|&(time, _)| time);
    for (record, (_, sorted)) in checked.iter_mut().zip(keyed) {
        *record = sorted;
    }
}
