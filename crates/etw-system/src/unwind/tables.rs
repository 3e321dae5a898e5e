//! The rules in a file: its search table (`.eh_frame_hdr`) and the entries of `.eh_frame`. Both are read where a search needs them: the
//! table of a large library has some MiB. A file without a table, as compilers link static programs, is read once as a whole for one, as is
//! `.debug_frame`, which never has one. That section may be compressed, as Go does it; it is then kept.

use etw_types::le;
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, EndianSlice, LittleEndian, Register,
    RegisterRule, UnwindContext, UnwindSection,
};

use object::{CompressedData, CompressionFormat};

use super::rule::{FrameAddress, RETURN, Rule, Saved};
use crate::elf::HEADER_SIZES;

const MAX_HEADERS: usize = 256;
const LOAD: u32 = 1;
/// `PT_GNU_EH_FRAME`
const FRAME_HEADER: u32 = 0x6474_e550;

/// Bytes of a file, from an offset.
pub(super) type ReadBytes<'a> = &'a dyn Fn(u64, usize) -> Option<Vec<u8>>;

/// Functions that are found in a file without a search table; more are left out.
const MAX_FUNCTIONS: usize = 1 << 18;
/// Bytes of a section of entries; more are left out.
const MAX_ENTRIES: u64 = 16 << 20;

/// How a file is searched, and its segments.
#[derive(Debug)]
pub(super) struct Tables {
    search: Option<Search>,
    segments: Vec<FileSegment>,
    /// For what `.eh_frame` has no rules for.
    debug: Option<DebugTable>,
}

/// The section `.debug_frame`.
#[derive(Debug)]
struct DebugTable {
    /// The first address of each function, and the offset of its entry in the section, in order.
    functions: Vec<(u64, u64)>,
    entries: DebugEntries,
}

#[derive(Debug)]
enum DebugEntries {
    /// They begin at this offset of the file.
    InFile(u64),
    /// The file has them compressed.
    Unpacked(Vec<u8>),
}

/// The first address of each function, and the address of its entry, in order.
#[derive(Debug)]
enum Search {
    /// In the file.
    Table {
        /// The address of `.eh_frame_hdr` in the file's headers: numbers in it count from there.
        header_address: u64,
        numbers: Numbers,
        /// Where its pairs begin in the file.
        offset: u64,
        count: u64,
    },
    /// The file has none.
    Functions(Vec<(u64, u64)>),
}

/// How numbers are stored.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    size: usize,
    is_signed: bool,
}

/// A part of a file.
#[derive(Clone, Copy, Debug)]
struct FileSegment {
    offset: u64,
    address: u64,
    size: u64,
}

/// A rule that was found, and the addresses that it is for.
#[derive(Debug)]
pub(super) struct FoundRule {
    pub rule: Rule,
    pub start: u64,
    pub end: u64,
}

impl Numbers {
    /// The meaning of a `DW_EH_PE` byte, without what it says about where numbers count from.
    fn of(encoding: u8) -> Option<Numbers> {
        /// `DW_EH_PE_omit`
        const OMITTED: u8 = 0xff;
        let (size, is_signed) = match encoding & 0x0f {
            _ if encoding == OMITTED => return None,
            0x03 => (4, false),
            0x0b => (4, true),
            0x00 | 0x04 => (8, false),
            0x0c => (8, true),
            _ => return None,
        };
        Some(Numbers { size, is_signed })
    }

    fn read(self, bytes: &[u8], at: usize) -> Option<u64> {
        match (self.size, self.is_signed) {
            (4, false) => le::u32(bytes, at).map(u64::from),
            (4, true) => le::u32(bytes, at).map(|number| i64::from(number as i32) as u64),
            _ => le::u64(bytes, at),
        }
    }
}

impl Tables {
    /// Reads where the table lies that the program headers of a file name. `room`: bytes that a compressed section may have in memory.
    pub fn read(read: ReadBytes<'_>, room: usize) -> Option<Tables> {
        let header = read(0, 64)?;
        if header.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let (size, count) = (usize::from(le::u16(&header, 0x36)?), le::u16(&header, 0x38)?);
        if !HEADER_SIZES.contains(&size) {
            return None;
        }
        let all = read(le::u64(&header, 0x20)?, size * usize::from(count).min(MAX_HEADERS))?;
        let of_kind = |kind| {
            let headers = all.chunks_exact(size).filter(move |one| le::u32(one, 0) == Some(kind));
            headers.filter_map(|one| {
                let field = |at| le::u64(one, at);
                Some(FileSegment { offset: field(8)?, address: field(0x10)?, size: field(0x20)? })
            })
        };
        let in_file =
            of_kind(FRAME_HEADER).next().and_then(|found| Search::of_segment(found, read));
        let search = in_file.or_else(|| Search::of_section(&header, read));
        let debug = DebugTable::read(&header, read, room);
        let has_rules = search.is_some() || debug.is_some();
        has_rules.then(|| Tables { search, segments: of_kind(LOAD).collect(), debug })
    }

    /// Bytes of functions and entries that are kept in memory.
    pub fn bytes_kept(&self) -> usize {
        let found = match &self.search {
            Some(Search::Functions(all)) => size_of_val(&all[..]),
            _ => 0,
        };
        found + self.debug.as_ref().map_or(0, DebugTable::bytes_kept)
    }

    /// The first addresses of the first functions.
    #[cfg(test)]
    pub fn functions(&self, count: u64, read: ReadBytes<'_>) -> Vec<u64> {
        let (numbers, header_address, offset, all) = match self.search.as_ref().unwrap() {
            Search::Table { numbers, header_address, offset, count } => {
                (numbers, *header_address, *offset, *count)
            }
            Search::Functions(all) => return all.iter().map(|(start, _)| *start).collect(),
        };
        let size = 2 * numbers.size;
        let pairs = read(offset, size * all.min(count) as usize).unwrap();
        let start = |pair: &[u8]| header_address.wrapping_add(numbers.read(pair, 0).unwrap());
        pairs.chunks_exact(size).map(start).collect()
    }

    /// The entry of `.eh_frame` at an address, without what follows it.
    fn entry(&self, address: u64, read: ReadBytes<'_>) -> Option<Vec<u8>> {
        let segment = self
            .segments
            .iter()
            .find(|one| address.checked_sub(one.address).is_some_and(|inside| inside < one.size))?;
        entry_at(segment.offset.checked_add(address - segment.address)?, read)
    }

    /// The rule of an address.
    pub fn rule(&self, address: u64, read: ReadBytes<'_>) -> Option<FoundRule> {
        self.loaded_rule(address, read).or_else(|| self.debug_rule(address, read))
    }

    /// The rule of an address in `.eh_frame`.
    fn loaded_rule(&self, address: u64, read: ReadBytes<'_>) -> Option<FoundRule> {
        let found = self.search.as_ref()?.find(address, read)?;
        let own = self.entry(found, read)?;
        let distance = u64::from(le::u32(&own, COMMON)?);
        let common = found.checked_add(COMMON as u64)?.checked_sub(distance)?;
        let mut entries = self.entry(common, read)?;
        let at = entries.len();
        let distance = u32::try_from(at + COMMON).ok()?;
        add_entry(&mut entries, &own, distance)?;
        let bases = BaseAddresses::default().set_eh_frame(found.wrapping_sub(at as u64));
        rule_of(&EhFrame::new(&entries, LittleEndian), &bases, at, &entries, address)
    }

    /// The rule of an address in `.debug_frame`.
    fn debug_rule(&self, address: u64, read: ReadBytes<'_>) -> Option<FoundRule> {
        let debug = self.debug.as_ref()?;
        let own = debug.entry(entry_of(&debug.functions, address)?, read)?;
        let mut entries = debug.entry(u64::from(le::u32(&own, COMMON)?), read)?;
        let at = entries.len();
        add_entry(&mut entries, &own, 0)?;
        rule_of(&debug_frame(&entries), &BaseAddresses::default(), at, &entries, address)
    }
}

impl DebugTable {
    /// `header`: that of the file.
    fn read(header: &[u8], read: ReadBytes<'_>, room: usize) -> Option<DebugTable> {
        let found = section(header, b".debug_frame\0", read)?;
        let bytes = match found.is_compressed {
            true => unpacked(&found.bytes, room)?,
            false => found.bytes,
        };
        let functions = functions(&debug_frame(&bytes), &BaseAddresses::default(), 0);
        let entries = match found.is_compressed {
            true => DebugEntries::Unpacked(bytes),
            false => DebugEntries::InFile(found.place.offset),
        };
        (!functions.is_empty()).then_some(DebugTable { functions, entries })
    }

    /// The entry at an offset of the section, without what follows it.
    fn entry(&self, at: u64, read: ReadBytes<'_>) -> Option<Vec<u8>> {
        match &self.entries {
            DebugEntries::InFile(start) => entry_at(start.checked_add(at)?, read),
            DebugEntries::Unpacked(bytes) => {
                let read = |at, size: usize| {
                    let rest = bytes.get(usize::try_from(at).ok()?..)?;
                    Some(rest[..size.min(rest.len())].to_vec())
                };
                entry_at(at, &read)
            }
        }
    }

    fn bytes_kept(&self) -> usize {
        let entries = match &self.entries {
            DebugEntries::InFile(_) => 0,
            DebugEntries::Unpacked(bytes) => bytes.len(),
        };
        size_of_val(&self.functions[..]) + entries
    }
}

/// Unpacks a compressed section. `None`: it is damaged, has more bytes than the room, or is compressed in a way of its own.
fn unpacked(section: &[u8], room: usize) -> Option<Vec<u8>> {
    /// `Elf64_Chdr`: kind, 4 bytes of nothing, size, alignment.
    const HEADER_SIZE: usize = 24;
    let (header, data) = section.split_at_checked(HEADER_SIZE)?;
    let format = match le::u32(header, 0)? {
        1 => CompressionFormat::Zlib,
        2 => CompressionFormat::Zstandard,
        _ => return None,
    };
    let uncompressed_size = le::u64(header, 8)?;
    (uncompressed_size <= MAX_ENTRIES.min(room as u64)).then_some(())?;
    let found = CompressedData { format, data, uncompressed_size }.decompress().ok()?;
    Some(found.into_owned())
}

/// Where an entry has the place of its common one: in `.eh_frame` the distance, in `.debug_frame` the offset in the section.
const COMMON: usize = 4;

/// Adds an entry behind its common one, whose place is `common`: both are a section of their own.
fn add_entry(entries: &mut Vec<u8>, own: &[u8], common: u32) -> Option<()> {
    let at = entries.len() + COMMON;
    entries.extend_from_slice(own);
    entries.get_mut(at..at + 4)?.copy_from_slice(&common.to_le_bytes());
    Some(())
}

impl Search {
    fn of_segment(found: FileSegment, read: ReadBytes<'_>) -> Option<Search> {
        /// Version, three bytes of encodings, and two numbers of at most eight bytes.
        const LONGEST_HEADER: usize = 20;
        /// `DW_EH_PE_datarel`
        const FROM_HEADER: u8 = 0x30;
        let header = read(found.offset, LONGEST_HEADER)?;
        let [1, entries, count, table] = *header.first_chunk()? else { return None };
        (table & 0x70 == FROM_HEADER).then_some(())?;
        let (entries, counts, numbers) =
            (Numbers::of(entries)?, Numbers::of(count)?, Numbers::of(table)?);
        let count = counts.read(&header, 4 + entries.size)?;
        let size = (4 + entries.size + counts.size) as u64;
        let room = found.size.checked_sub(size)? / (2 * numbers.size as u64);
        Some(Search::Table {
            header_address: found.address,
            numbers,
            offset: found.offset.checked_add(size)?,
            count: count.min(room),
        })
    }

    /// Finds the functions in the section `.eh_frame`. `header`: that of the file.
    fn of_section(header: &[u8], read: ReadBytes<'_>) -> Option<Search> {
        let found = section(header, b".eh_frame\0", read)?;
        let address = found.place.address;
        let bases = BaseAddresses::default().set_eh_frame(address);
        let functions = functions(&EhFrame::new(&found.bytes, LittleEndian), &bases, address);
        (!functions.is_empty()).then_some(Search::Functions(functions))
    }

    /// The address of the entry of the last function that begins at an address or before it.
    fn find(&self, address: u64, read: ReadBytes<'_>) -> Option<u64> {
        let (numbers, header_address, table, count) = match self {
            Search::Functions(all) => return entry_of(all, address),
            Search::Table { numbers, header_address, offset, count } => {
                (*numbers, *header_address, *offset, *count)
            }
        };
        /// Pairs that are read together.
        const TOGETHER: u64 = 512;
        let Numbers { size, .. } = numbers;
        let pair_size = 2 * size as u64;
        let pairs = |first: u64, count: u64| {
            let offset = table.checked_add(first.checked_mul(pair_size)?)?;
            read(offset, usize::try_from(count * pair_size).ok()?)
        };
        let number =
            |bytes: &[u8], at: usize| Some(header_address.wrapping_add(numbers.read(bytes, at)?));
        let (mut first, mut end) = (0, count);
        while end - first > TOGETHER {
            let middle = first + (end - first) / 2;
            match number(&pairs(middle, 1)?, 0)? <= address {
                true => first = middle,
                false => end = middle,
            }
        }
        let last = pairs(first, end - first)?;
        let begins_before = |pair: &[u8]| number(pair, 0).is_some_and(|start| start <= address);
        let found = last.chunks_exact(2 * size).take_while(|pair| begins_before(pair)).last()?;
        number(found, size)
    }
}

/// The entry at an offset of a file, without what follows it.
fn entry_at(offset: u64, read: ReadBytes<'_>) -> Option<Vec<u8>> {
    /// Most entries are shorter.
    const USUAL: usize = 256;
    const LONGEST: usize = 16 << 10;
    let mut bytes = read(offset, USUAL)?;
    // Entries of 64 bits have this length.
    let length = le::u32(&bytes, 0).filter(|length| *length != u32::MAX)?;
    let size = usize::try_from(length).ok()?.checked_add(4).filter(|size| *size <= LONGEST)?;
    if size > bytes.len() {
        bytes = read(offset, size)?;
    }
    bytes.truncate(size);
    (bytes.len() == size).then_some(bytes)
}

fn debug_frame(bytes: &[u8]) -> DebugFrame<EndianSlice<'_, LittleEndian>> {
    let mut frame = DebugFrame::new(bytes, LittleEndian);
    frame.set_address_size(8);
    frame
}

/// A section of a file.
struct Section {
    place: FileSegment,
    /// The first ones, as the file has them.
    bytes: Vec<u8>,
    is_compressed: bool,
}

/// The section of a name. `header`: that of the file.
fn section(header: &[u8], name: &[u8], read: ReadBytes<'_>) -> Option<Section> {
    const HEADER_SIZE: usize = 64;
    const COMPRESSED: u64 = 0x800;
    const MAX_SECTIONS: usize = 4096;
    const MAX_NAMES: u64 = 64 << 10;
    let [size, count, names] = [0x3a, 0x3c, 0x3e].map(|at| le::u16(header, at).map(usize::from));
    (size? == HEADER_SIZE).then_some(())?;
    let all = read(le::u64(header, 0x28)?, HEADER_SIZE * count?.min(MAX_SECTIONS))?;
    let segment = |one: &[u8]| {
        let field = |at| le::u64(one, at);
        Some(FileSegment { address: field(0x10)?, offset: field(0x18)?, size: field(0x20)? })
    };
    let names = segment(all.chunks_exact(HEADER_SIZE).nth(names?)?)?;
    let names = read(names.offset, names.size.min(MAX_NAMES) as usize)?;
    let has_name = |one: &&[u8]| {
        let at = le::u32(one, 0).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| names.get(at..)).is_some_and(|rest| rest.starts_with(name))
    };
    let found = all.chunks_exact(HEADER_SIZE).find(has_name)?;
    let (place, is_compressed) = (segment(found)?, le::u64(found, 8)? & COMPRESSED != 0);
    let bytes = read(place.offset, place.size.min(MAX_ENTRIES) as usize)?;
    Some(Section { place, bytes, is_compressed })
}

/// The first address of each function of a section, and where its entry lies behind `start`, in order.
fn functions<'b, S>(frame: &S, bases: &BaseAddresses, start: u64) -> Vec<(u64, u64)>
where
    S: UnwindSection<EndianSlice<'b, LittleEndian>>,
{
    let mut entries = frame.entries(bases);
    let mut functions = Vec::new();
    // Those in front of a damaged entry are good.
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(entry) = entry
            && let Ok(one) = entry.parse(S::cie_from_offset)
            && functions.len() < MAX_FUNCTIONS
        {
            functions.push((one.initial_address(), start.wrapping_add(one.offset() as u64)));
        }
    }
    functions.sort_unstable();
    functions
}

/// The entry of the last function that begins at an address or before it.
fn entry_of(functions: &[(u64, u64)], address: u64) -> Option<u64> {
    let after = functions.partition_point(|(start, _)| *start <= address);
    Some(functions.get(after.checked_sub(1)?)?.1)
}

/// The rule of an address in a section of two entries, of which the one at `own` is that of the address.
fn rule_of<'b, S>(
    frame: &S,
    bases: &BaseAddresses,
    own: usize,
    entries: &[u8],
    address: u64,
) -> Option<FoundRule>
where
    S: UnwindSection<EndianSlice<'b, LittleEndian>>,
{
    let fde = frame.fde_from_offset(bases, own.into(), S::cie_from_offset).ok()?;
    let mut context = UnwindContext::new();
    let row = fde.unwind_info_for_address(frame, bases, &mut context, address).ok()?;
    let at = match *row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            FrameAddress::Register(register.0, offset)
        }
        CfaRule::Expression(expression) => FrameAddress::Expression(expression),
    };
    let saved = row.registers().filter_map(|&(Register(register), ref rule)| {
        let saved = match *rule {
            RegisterRule::Offset(offset) => Saved::At(offset),
            RegisterRule::ValOffset(offset) => Saved::Is(offset),
            RegisterRule::Register(other) => Saved::Register(other.0),
            RegisterRule::Expression(expression) => Saved::AtExpression(expression),
            RegisterRule::ValExpression(expression) => Saved::IsExpression(expression),
            RegisterRule::SameValue => return None,
            _ => Saved::Unknown,
        };
        Some((register, saved))
    });
    let saved: Vec<(u16, Saved)> = saved.collect();
    let is_expression = |(_, saved): &(u16, Saved)| {
        matches!(saved, Saved::AtExpression(_) | Saved::IsExpression(_))
    };
    let has_expressions =
        matches!(at, FrameAddress::Expression(_)) || saved.iter().any(is_expression);
    let (start, end) = (row.start_address(), row.end_address());
    let rule = Rule {
        frame: at,
        saved,
        return_register: match fde.cie().return_address_register().0 {
            0 => RETURN as u16,
            register => register,
        },
        is_signal: fde.cie().is_signal_trampoline(),
        entries: if has_expressions { entries.to_vec() } else { Vec::new() },
    };
    Some(FoundRule { rule, start, end })
}
