//! The head of a `.part` file, as a recovery reads it. Everything in it is untrusted.

use std::fs::File;
use std::io;

use etw_ring::{Control, RawClock, layout};
use etw_session::Place;
use etw_types::{Guid, le};

use super::{DATA, FACTS, MAGIC, REGISTRATIONS, VERSION};
use crate::clock::Pair;
use crate::leftover::{Position, Walked};
use crate::registrations::Provider;

/// A segment of the pool in a `.part` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentSpan {
    pub offset: u64,
    pub size: u64,
}

/// The head of a `.part` file, its session facts and its registrations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartHeader {
    pub raw_clock: RawClock,
    pub process_id: u32,
    pub buffer_size: u32,
    pub buffer_count: u32,
    /// Offsets.
    pub control: u64,
    pub buffers: u64,
    pub segments: Vec<SegmentSpan>,
    /// The first reading of the clocks.
    pub first_pair: Pair,
    /// The last reading of the clocks.
    pub last_pair: Pair,
    pub facts: Vec<u8>,
    pub registrations: Vec<(u32, Provider)>,
    /// Where a repair began to fold.
    pub fold_start: Option<FoldStart>,
}

/// The end of the session's files before a repair folded anything in: another one, behind an interruption, puts the same buffers at the same
/// places.
///
/// ```text
/// magic `FOLDFROM`   u64 file   u64 slot   i64 sequence number   u64 1: the file is compressed   u64 its whole buffers   i64 last sequence number   u64 end
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoldStart {
    pub last: Position,
    /// A compressed file's whole buffers.
    pub walked: Option<Walked>,
}

impl FoldStart {
    /// Its offset in the file.
    pub const OFFSET: u64 = 0x180;
    const MAGIC: &[u8; 8] = b"FOLDFROM";
    const SIZE: usize = 8 * 8;

    /// Its bytes.
    pub fn to_bytes(self) -> Vec<u8> {
        let walked = self.walked.unwrap_or(Walked { slots: 0, sequence: 0, end: 0 });
        let Position { place, sequence } = self.last;
        let is_compressed = u64::from(self.walked.is_some());
        let numbers = [u64::from(place.file), place.slot, sequence as u64, is_compressed];
        let numbers = numbers.into_iter().chain([walked.slots, walked.sequence as u64, walked.end]);
        Self::MAGIC.iter().copied().chain(numbers.flat_map(u64::to_le_bytes)).collect()
    }

    /// `None` without one, or with numbers that no file has.
    fn read(head: &[u8]) -> Option<FoldStart> {
        let bytes = head.get(Self::OFFSET as usize..)?.get(..Self::SIZE)?;
        let number = |index: usize| le::u64(bytes, 8 + index * 8);
        let (file, slot, slots, end) = (number(0)?, number(1)?, number(4)?, number(6)?);
        let is_possible = &bytes[..8] == Self::MAGIC
            && (1..1 << 20).contains(&file)
            && slot < 1 << 32
            && slots < 1 << 32
            && end < 1 << 56;
        is_possible.then_some(())?;
        let place = Place { file: file as u32, slot };
        let walked = Walked { slots, sequence: number(5)? as i64, end };
        let last = Position { place, sequence: number(2)? as i64 };
        Some(FoldStart { last, walked: (number(3)? == 1).then_some(walked) })
    }
}

impl PartHeader {
    /// Reads them from a file of `len` bytes. Every offset and size is checked against that length.
    ///
    /// # Errors
    /// `InvalidData` with the invalid part.
    pub fn read(file: &dyn ReadAt, len: u64) -> io::Result<PartHeader> {
        let bad = |what: &'static str| io::Error::new(io::ErrorKind::InvalidData, what);
        let mut head = vec![0; 0x1000];
        file.read_exact_at(&mut head, 0)?;
        if &head[..8] != MAGIC || le::u32(&head, 8) != Some(VERSION) {
            return Err(bad("not a .part file of version 1"));
        }
        let u32_at = |at| le::u32(&head, at).unwrap_or(0);
        let u64_at = |at| le::u64(&head, at).unwrap_or(0);
        let raw_clock = match u32_at(0xc) {
            1 => RawClock::Tsc,
            2 => RawClock::Monotonic,
            _ => return Err(bad("unknown raw clock")),
        };
        let inside = |offset: u64, size: u64| {
            offset >= DATA
                && offset % 4096 == 0
                && offset.checked_add(size).is_some_and(|end| end <= len)
        };
        let (buffer_size, buffer_count) = (u32_at(0x14), u32_at(0x18));
        let (control, buffers) = (u64_at(0x20), u64_at(0x28));
        if !(0x400..=16 << 20).contains(&buffer_size)
            || !inside(control, Control::SIZE as u64)
            || !inside(buffers, u64::from(buffer_size) * u64::from(buffer_count))
        {
            return Err(bad("an offset or size in the header is invalid"));
        }
        let count = u32_at(0x30) as usize;
        let segments: Vec<SegmentSpan> = (0..count.min(layout::MAX_SEGMENTS))
            .map(|n| SegmentSpan { offset: u64_at(0x80 + n * 16), size: u64_at(0x88 + n * 16) })
            .collect();
        let largest = (layout::DATA_OFFSET + layout::MAX_SEGMENT_UNITS * layout::UNIT_SIZE) as u64;
        if count == 0
            || count > layout::MAX_SEGMENTS
            || segments
                .iter()
                .any(|&SegmentSpan { offset, size }| size > largest || !inside(offset, size))
        {
            return Err(bad("a segment of the pool is invalid"));
        }
        let facts_size = u32_at(0x1c) as usize;
        if facts_size as u64 > REGISTRATIONS - FACTS {
            return Err(bad("the session facts are too long"));
        }
        let mut facts = vec![0; facts_size];
        file.read_exact_at(&mut facts, FACTS)?;
        let pair = |at| Pair { raw: u64_at(at), ns: u64_at(at + 8) };
        let mut table = vec![0; (DATA - REGISTRATIONS) as usize];
        file.read_exact_at(&mut table, REGISTRATIONS)?;
        Ok(PartHeader {
            raw_clock,
            process_id: u32_at(0x10),
            buffer_size,
            buffer_count,
            control,
            buffers,
            segments,
            first_pair: pair(0x40),
            last_pair: pair(0x50),
            registrations: registrations(&table),
            fold_start: FoldStart::read(&head),
            facts,
        })
    }
}

/// Reads the head of a `.part` file of `len` bytes, of which `bytes` are the first and all others zeros. For fuzzers.
///
/// # Errors
/// Those of such a file.
#[doc(hidden)]
pub fn check_header(bytes: &[u8], len: u64) -> io::Result<()> {
    PartHeader::read(&Sparse(bytes), len).map(drop)
}

struct Sparse<'a>(&'a [u8]);

impl ReadAt for Sparse<'_> {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        buffer.fill(0);
        let known =
            usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..)).unwrap_or(&[]);
        let count = known.len().min(buffer.len());
        buffer[..count].copy_from_slice(&known[..count]);
        Ok(())
    }
}

/// The entries up to the first invalid one.
fn registrations(mut table: &[u8]) -> Vec<(u32, Provider)> {
    let mut found = Vec::new();
    while let Some(size) = le::u32(table, 0).map(|size| size as usize) {
        let Some(entry) = table.get(..size).filter(|entry| entry.len() >= 24) else { break };
        let (Some(number), Some(id)) = (le::u32(entry, 4), Guid::read(entry, 8)) else { break };
        if number as usize > 1 << 20 {
            break;
        }
        found.push((number, Provider { id, traits: entry[24..].to_vec() }));
        table = &table[size..];
    }
    found
}

/// Reads at an offset: of a file, or of bytes in a test.
pub(crate) trait ReadAt {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_exact_at(self, buffer, offset);
        #[cfg(not(unix))]
        return Err(io::Error::from(io::ErrorKind::Unsupported))
            .inspect_err(|_| drop((buffer, offset)));
    }
}
