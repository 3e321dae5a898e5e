//! [`Bytes`]: the bytes of a file, read where they are needed.
//!
//! A mapping would need fewer calls, but a program that shortens the file would end this one by `SIGBUS`.

use object::ReadRef;
use std::cell::{Cell, OnceCell};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

/// A file, as an ELF file.
pub(crate) type Elf<'a> = object::File<'a, &'a Bytes>;

/// Bytes of the tables that name functions, which are in memory while a file is read.
const MAX_TABLES: u64 = 512 << 20;
/// Bytes that are read at once. Names and headers are in blocks of so many, counted from the start of the file.
const BLOCK: u64 = 256 << 10;
/// Larger parts than a block, and parts across the border of two; only a hostile file has more.
const MAX_PARTS: usize = 4096;

/// Bytes that may still be read.
#[derive(Debug)]
pub(crate) struct Room {
    left: Cell<u64>,
    was_exceeded: Cell<bool>,
}

impl Room {
    pub fn new(bytes: u64) -> Room {
        Room { left: Cell::new(bytes), was_exceeded: Cell::new(false) }
    }

    /// Takes bytes of the room; `false`: it has less.
    pub fn take(&self, bytes: u64) -> bool {
        match self.left.get().checked_sub(bytes) {
            Some(rest) => self.left.set(rest),
            None => self.was_exceeded.set(true),
        }
        !self.was_exceeded.get()
    }

    /// Whether more was wanted than it had.
    pub fn was_exceeded(&self) -> bool {
        self.was_exceeded.get()
    }
}

/// The place of a file's bytes.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    File(Arc<File>),
    Memory(Arc<[u8]>),
}

impl Source {
    fn len(&self) -> Option<u64> {
        match self {
            Source::File(file) => Some(file.metadata().ok()?.len()),
            Source::Memory(bytes) => Some(bytes.len() as u64),
        }
    }

    fn read_at(&self, start: u64, into: &mut [u8]) -> io::Result<()> {
        match self {
            Source::File(file) => {
                let mut file = &**file;
                file.seek(SeekFrom::Start(start))?;
                file.read_exact(into)
            }
            Source::Memory(bytes) => {
                let part = usize::try_from(start).ok().and_then(|start| bytes.get(start..));
                let part = part.and_then(|part| part.get(..into.len()));
                into.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }

    /// A part of the file. `None`: the file ends before. The caller bounds the size.
    pub fn part(&self, start: u64, size: u64) -> Option<Arc<[u8]>> {
        if start.checked_add(size)? > self.len()? {
            return None;
        }
        let mut part: Arc<[u8]> = std::iter::repeat_n(0, usize::try_from(size).ok()?).collect();
        self.read_at(start, Arc::get_mut(&mut part)?).ok()?;
        Some(part)
    }

    /// The CRC-32 of all bytes.
    pub fn checksum(&self) -> Option<u32> {
        let (mut sum, end) = (crc32fast::Hasher::new(), self.len()?);
        let mut start = 0;
        while start < end {
            let size = BLOCK.min(end - start);
            sum.update(&self.part(start, size)?);
            start += size;
        }
        Some(sum.finalize())
    }
}

/// A part of a file that is in no block, and the next one.
#[derive(Debug)]
struct Part {
    start: u64,
    bytes: Arc<[u8]>,
    next: OnceCell<Box<Part>>,
}

/// The bytes of a file, read where they are needed and then kept.
#[derive(Debug)]
pub(crate) struct Bytes {
    pub source: Source,
    room: Room,
    size: u64,
    /// By number; the last one may be shorter.
    blocks: Vec<OnceCell<Arc<[u8]>>>,
    parts: OnceCell<Box<Part>>,
}

impl Bytes {
    pub fn new(source: Source, room: Room) -> Option<Bytes> {
        let size = source.len()?;
        let count = usize::try_from(size.div_ceil(BLOCK)).ok()?;
        let blocks = vec![OnceCell::new(); count];
        Some(Bytes { source, room, size, blocks, parts: OnceCell::new() })
    }

    pub fn of_file(file: File) -> Option<Bytes> {
        Bytes::of(Source::File(Arc::new(file)))
    }

    pub fn of(source: Source) -> Option<Bytes> {
        Bytes::new(source, Room::new(MAX_TABLES))
    }

    /// Whether parts were left out, because they are more than the room.
    pub fn is_cut(&self) -> bool {
        self.room.was_exceeded()
    }

    fn read(&self, start: u64, size: u64) -> Option<Arc<[u8]>> {
        self.room.take(size).then(|| self.source.part(start, size))?
    }

    /// The block of a position, from there on.
    fn block(&self, at: u64) -> Option<&[u8]> {
        let number = at / BLOCK;
        let block = self.blocks.get(usize::try_from(number).ok()?)?;
        if block.get().is_none() {
            let start = number * BLOCK;
            let bytes = self.read(start, BLOCK.min(self.size - start))?;
            // It was empty.
            let _ = block.set(bytes);
        }
        block.get()?.get((at % BLOCK) as usize..)
    }

    fn part(&self, range: Range<u64>) -> Option<&[u8]> {
        let mut place = &self.parts;
        for _ in 0..MAX_PARTS {
            if place.get().is_none() {
                let bytes = self.read(range.start, range.end - range.start)?;
                let part = Part { start: range.start, bytes, next: OnceCell::new() };
                // It was empty.
                let _ = place.set(Box::new(part));
            }
            let part = place.get()?;
            let inside = range.start.checked_sub(part.start).and_then(|start| {
                let start = usize::try_from(start).ok()?;
                let size = usize::try_from(range.end - range.start).ok()?;
                part.bytes.get(start..)?.get(..size)
            });
            if inside.is_some() {
                return inside;
            }
            place = &part.next;
        }
        None
    }
}

impl<'a> ReadRef<'a> for &'a Bytes {
    fn len(self) -> Result<u64, ()> {
        Ok(self.size)
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        let end = offset.checked_add(size).filter(|end| *end <= self.size).ok_or(())?;
        if size == 0 {
            return Ok(&[]);
        }
        let found = match offset / BLOCK == (end - 1) / BLOCK {
            true => self.block(offset).and_then(|bytes| bytes.get(..size as usize)),
            false => self.part(offset..end),
        };
        found.ok_or(())
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let end = range.end.min(self.size);
        let size = end.checked_sub(range.start).ok_or(())?;
        let up_to_delimiter = |bytes: &'a [u8]| {
            let bytes = &bytes[..bytes.len().min(usize::try_from(size).unwrap_or(usize::MAX))];
            Some(&bytes[..memchr::memchr(delimiter, bytes)?])
        };
        let in_block = self.block(range.start).and_then(up_to_delimiter);
        let across = || {
            // All strings at the border of two blocks are in one part.
            let start = range.start / BLOCK * BLOCK;
            let bytes = self.part(start..end.min(start + 2 * BLOCK))?;
            up_to_delimiter(bytes.get((range.start - start) as usize..)?)
        };
        in_block.or_else(across).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(size: u64) -> Source {
        Source::Memory((0..size).map(|at| (at % 251) as u8 + 1).collect())
    }

    #[test]
    fn sections_share_their_room() {
        let room = Room::new(10);
        assert!(room.take(6) && room.take(4) && !room.was_exceeded());
        assert!(!room.take(1) && room.was_exceeded());
    }

    #[test]
    fn parts_and_strings_are_those_of_the_file() {
        let size = 3 * BLOCK + 100;
        let Source::Memory(all) = numbered(size) else { unreachable!() };
        let mut all = all.to_vec();
        for end in [40, BLOCK - 1, BLOCK + 20, size - 1] {
            all[end as usize] = 0;
        }
        let bytes = Bytes::of(Source::Memory(Arc::from(&*all))).unwrap();
        let bytes = &bytes;
        for (start, end) in [
            (0, 1),
            (5, BLOCK),
            (BLOCK - 1, BLOCK + 1),
            (7, size),
            (9, 2 * BLOCK),
            (size - 3, size),
        ] {
            let expected = &all[start as usize..end as usize];
            assert!(bytes.read_bytes_at(start, end - start) == Ok(expected), "{start} {end}");
        }
        assert!(bytes.read_bytes_at(size, 1).is_err() && bytes.read_bytes_at(1, u64::MAX).is_err());
        for (start, end) in [(30, 40), (41, BLOCK - 1), (BLOCK, BLOCK + 20), (size - 9, size - 1)] {
            let expected = &all[start as usize..end as usize];
            assert!(bytes.read_bytes_at_until(start..size, 0) == Ok(expected), "{start} {end}");
            assert!(bytes.read_bytes_at_until(start..end, 0).is_err(), "{start} {end}");
        }
        // Across a border.
        let across = bytes.read_bytes_at_until(2 * BLOCK - 9..size, all[2 * BLOCK as usize + 3]);
        assert!(across == Ok(&all[2 * BLOCK as usize - 9..2 * BLOCK as usize + 3]));
        assert_eq!(bytes.source.checksum(), Some(crc32fast::hash(&all)));
    }

    /// Parts of a hostile file are as large as it says, and may overlap.
    #[test]
    fn only_so_many_bytes_are_read() {
        let bytes = Bytes::new(numbered(8 * BLOCK), Room::new(5 * BLOCK)).unwrap();
        let bytes = &bytes;
        assert!(bytes.read_bytes_at(1, 4 * BLOCK).is_ok() && !bytes.is_cut());
        assert!(bytes.read_bytes_at(2, 4 * BLOCK - 1).is_ok(), "a part of what was read");
        assert!(bytes.read_bytes_at(0, 4 * BLOCK).is_err() && bytes.is_cut());
    }
}
