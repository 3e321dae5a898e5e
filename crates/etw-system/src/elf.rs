//! Headers and build ids of executable files, read defensively: any byte of a file may be anything.

use etw_types::le;
use std::ops::Range;

/// Program headers that are looked at; only damage has more.
const MAX_HEADERS: usize = 256;
/// Bytes of a program header; damage has others.
pub(crate) const HEADER_SIZES: std::ops::RangeInclusive<usize> = 56..=256;
/// The same of files of 32 bits.
const SMALL_HEADER_SIZES: std::ops::RangeInclusive<usize> = 32..=256;
const LOAD: u32 = 1;
const NOTE: u32 = 4;
const EXECUTABLE: u32 = 1;
/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;
const BUILD_ID: u32 = 3;
/// Linkers make ids of 8 to 32 bytes.
const MAX_BUILD_ID: usize = 64;

/// The parts of a file that tell where its code lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElfFile {
    /// Loaded segments, in the order of the file.
    pub segments: Vec<Segment>,
    /// The build id, or empty.
    pub build_id: Vec<u8>,
    /// Where it begins to run; 0: nowhere.
    pub entry: u64,
    /// Its addresses have 32 bits.
    pub is_32_bit: bool,
}

/// A loaded segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins in the file.
    pub offset: u64,
    /// Its address in the file's headers.
    pub address: u64,
    /// Its bytes in memory.
    pub size: u64,
    /// Its bytes in the file.
    pub file_size: u64,
    /// It holds code.
    pub is_executable: bool,
    /// A power of two, as the header has it.
    pub alignment: u64,
}

/// Where a file lies in memory: its segments up to a gap that alignment does not explain, where other memory may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The lowest address.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// The address of `base` in the file's headers.
    pub default_base: u64,
    /// The address in memory where it begins to run; 0: nowhere.
    pub entry: u64,
    /// It lies behind such a gap: `base` is not the file's lowest address.
    pub is_rest: bool,
}

impl ElfFile {
    /// Reads a little-endian file. `read` returns bytes from an offset, as many as there are.
    pub fn read(mut read: impl FnMut(u64, usize) -> Option<Vec<u8>>) -> Option<ElfFile> {
        let header = read(0, 64)?;
        let is_wide = match header.get(..6)? {
            b"\x7fELF\x02\x01" => true,
            b"\x7fELF\x01\x01" => false,
            _ => return None,
        };
        // Offsets for 32 and for 64 bits.
        let word = |bytes: &[u8], narrow: usize, wide: usize| match is_wide {
            true => le::u64(bytes, wide),
            false => le::u32(bytes, narrow).map(u64::from),
        };
        let half = |narrow, wide| le::u16(&header, if is_wide { wide } else { narrow });
        let at = word(&header, 0x1c, 0x20)?;
        let size = usize::from(half(0x2a, 0x36)?);
        let count = usize::from(half(0x2c, 0x38)?).min(MAX_HEADERS);
        let sizes = if is_wide { HEADER_SIZES } else { SMALL_HEADER_SIZES };
        if !sizes.contains(&size) {
            return None;
        }
        let table = read(at, size * count)?;
        let entry = word(&header, 0x18, 0x18)?;
        let mut file = ElfFile { entry, is_32_bit: !is_wide, ..ElfFile::default() };
        for header in table.chunks_exact(size) {
            let kind = le::u32(header, 0)?;
            let flags = le::u32(header, if is_wide { 4 } else { 0x18 })?;
            let (offset, address) = (word(header, 4, 8)?, word(header, 8, 0x10)?);
            let (in_file, size) = (word(header, 0x10, 0x20)?, word(header, 0x14, 0x28)?);
            if kind == LOAD {
                let is_executable = flags & EXECUTABLE != 0;
                let (file_size, alignment) = (in_file, word(header, 0x1c, 0x30)?);
                file.segments.push(Segment {
                    offset,
                    address,
                    size,
                    file_size,
                    is_executable,
                    alignment,
                });
            }
            if kind == NOTE && file.build_id.is_empty() {
                let notes = read(offset, in_file.min(64 << 10) as usize);
                file.build_id = notes.and_then(|notes| build_id(&notes)).unwrap_or_default();
            }
        }
        (!file.segments.is_empty()).then_some(file)
    }

    /// Where the file lies if the bytes from `offset` on are mapped to `address`.
    pub fn extent(&self, address: u64, offset: u64) -> Option<Extent> {
        let page = |number: u64| number & !(PAGE - 1);
        let covers = |one: &&Segment| {
            page(one.offset) <= offset && offset < one.offset.saturating_add(one.size.max(1))
        };
        let executable = self.segments.iter().filter(|one| one.is_executable).find(covers);
        let segment = executable.or(self.segments.iter().find(covers))?;
        let bias = address
            .wrapping_sub(page(segment.address))
            .wrapping_sub(offset.wrapping_sub(page(segment.offset)));
        let Range { start: first, end } = self.run_of(segment)?;
        let base = bias.wrapping_add(first);
        let entry = match (first..end).contains(&self.entry) && self.entry != 0 {
            true => bias.wrapping_add(self.entry),
            false => 0,
        };
        let is_rest = self.segments.iter().any(|one| one.address < first);
        let size = end.checked_sub(first)?;
        Some(Extent { base, size, default_base: first, entry, is_rest })
    }

    /// The pages of a segment and of those beside it. Linkers leave gaps of about one alignment.
    fn run_of(&self, segment: &Segment) -> Option<Range<u64>> {
        let pages = |one: &Segment| {
            let end = one.address.saturating_add(one.size).checked_next_multiple_of(PAGE)?;
            Some(one.address & !(PAGE - 1)..end)
        };
        let alignment = self.segments.iter().map(|one| one.alignment).max()?.max(PAGE);
        let gap = alignment.saturating_mul(2);
        let mut all = self.segments.iter().map(pages).collect::<Option<Vec<_>>>()?;
        all.sort_by_key(|pages| pages.start);
        let mut all = all.into_iter();
        let mut run = all.next()?;
        for pages in all {
            if pages.start.saturating_sub(run.end) < gap {
                run.end = run.end.max(pages.end);
            } else if run.contains(&segment.address) {
                break;
            } else {
                run = pages;
            }
        }
        Some(run)
    }

    /// Whether a mapping of the bytes from `offset` on has the whole code of a segment, as that of a loader.
    pub fn is_loaded_by(&self, offset: u64, size: u64) -> bool {
        let end = offset.saturating_add(size);
        let is_in = |one: &Segment| {
            offset <= one.offset && one.offset.saturating_add(one.file_size.max(1)) <= end
        };
        self.segments.iter().any(|one| one.is_executable && is_in(one))
    }
}

/// The build id in a segment of notes.
pub fn build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    loop {
        let name = le::u32(notes, 0)? as usize;
        let size = le::u32(notes, 4)? as usize;
        let kind = le::u32(notes, 8)?;
        let at = 12usize.checked_add(name.checked_next_multiple_of(4)?)?;
        let end = at.checked_add(size)?;
        if kind == BUILD_ID && notes.get(12..12 + name)? == b"GNU\0" && size <= MAX_BUILD_ID {
            return notes.get(at..end).map(<[u8]>::to_vec);
        }
        notes = notes.get(at.checked_add(size.checked_next_multiple_of(4)?)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> ElfFile {
        let segment = |offset, address, size, is_executable| Segment {
            offset,
            address,
            size,
            file_size: size,
            is_executable,
            alignment: PAGE,
        };
        ElfFile {
            segments: vec![
                segment(0, 0, 0x1800, false),
                // As lld lays files out: the address runs ahead of the offset.
                segment(0x1800, 0x2800, 0x900, true),
                segment(0x2100, 0x4100, 0x300, false),
            ],
            build_id: vec![7; 20],
            entry: 0x2810,
            is_32_bit: false,
        }
    }

    #[test]
    fn the_lowest_address_follows_from_a_mapping_of_code() {
        let extent = file().extent(0x7f00_0000_2000, 0x1000).unwrap();
        let (base, entry) = (0x7f00_0000_0000, 0x7f00_0000_2810);
        assert_eq!(extent, Extent { base, size: 0x5000, default_base: 0, entry, is_rest: false });
        assert_eq!(file().extent(0x7f00_0000_2000, 0x99_0000), None);
    }

    /// OV-23: memory in the middle of a program whose segments are far apart is not the program's.
    #[test]
    fn a_wide_gap_between_segments_is_in_no_extent() {
        let extent = |alignment, offset, address: u64| {
            let mut file = file();
            file.segments.iter_mut().for_each(|one| one.alignment = alignment);
            let far = Segment { offset: 0x3000, address: 0x2000_0000, ..file.segments[1] };
            file.segments.push(far);
            let found = file.extent(address, offset).unwrap();
            (found.base, found.size, found.default_base, found.entry, found.is_rest)
        };
        assert_eq!(extent(PAGE, 0x1000, 0x2000), (0, 0x5000, 0, 0x2810, false));
        let rest = (0x2000_0000, 0x1000, 0x2000_0000, 0, true);
        assert_eq!(extent(PAGE, 0x3000, 0x2000_0000), rest);
        // Segments of huge pages.
        let whole = (0, 0x2000_1000, 0, 0x2810, false);
        assert_eq!(extent(0x2000_0000, 0x1000, 0x2000), whole);
        assert_eq!(extent(0x2000_0000, 0x3000, 0x2000_0000), whole);
    }

    /// OV-23: programs of 32 bits have their place and their entry, too.
    #[test]
    fn a_file_of_32_bits_is_read() {
        let mut bytes = b"\x7fELF\x01\x01\x01".to_vec();
        bytes.resize(0x54, 0);
        let mut put =
            |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        // The header: entry, program headers behind it, one of 32 bytes.
        put(0x18, 0x804_9009);
        put(0x1c, 0x34);
        put(0x2a, 32 | 1 << 16);
        // LOAD, offset, address twice, bytes in the file and in memory, readable and executable, alignment.
        for (number, value) in
            [1, 0x1000, 0x804_9000, 0x804_9000, 0x20, 0x20, 5, 0x1000].into_iter().enumerate()
        {
            put(0x34 + number * 4, value);
        }
        let read = |at: u64, size: usize| {
            let rest = bytes.get(at as usize..)?;
            Some(rest[..size.min(rest.len())].to_vec())
        };
        let file = ElfFile::read(read).unwrap();
        let segment = Segment {
            offset: 0x1000,
            address: 0x804_9000,
            size: 0x20,
            file_size: 0x20,
            is_executable: true,
            alignment: 0x1000,
        };
        let build_id = Vec::new();
        let entry = 0x804_9009;
        assert_eq!(file, ElfFile { segments: vec![segment], build_id, entry, is_32_bit: true });
        let base = 0x804_9000;
        let extent = Extent { base, size: 0x1000, default_base: base, entry, is_rest: false };
        assert_eq!(file.extent(base, 0x1000), Some(extent));
    }

    #[test]
    fn a_build_id_is_found_behind_other_notes() {
        let mut notes = Vec::new();
        for (kind, name, text) in [(1u32, &b"GNU\0"[..], &[1u8; 16][..]), (3, b"GNU\0", &[9; 20])] {
            notes.extend((name.len() as u32).to_le_bytes());
            notes.extend((text.len() as u32).to_le_bytes());
            notes.extend(kind.to_le_bytes());
            notes.extend(name);
            notes.extend(text);
        }
        assert_eq!(build_id(&notes), Some(vec![9; 20]));
        for cut in 0..notes.len() {
            assert_eq!(build_id(&notes[..cut]), None);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_program_is_readable() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let read = |at: u64, size: usize| {
            let at = usize::try_from(at).ok()?;
            bytes.get(at..).map(|rest| rest[..rest.len().min(size)].to_vec())
        };
        let file = ElfFile::read(read).unwrap();
        assert!(file.segments.iter().any(|one| one.is_executable));
    }
}
