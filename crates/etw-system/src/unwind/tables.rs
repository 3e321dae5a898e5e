//! The rules in a file: its search table (`.eh_frame_hdr`) and the entries of `.eh_frame`. Both are read where a search needs them: the
//! table of a large library has some MiB.

use etw_types::le;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, LittleEndian, Register, RegisterRule, UnwindContext,
    UnwindSection,
};

use super::rule::{FrameAddress, RETURN, Rule, Saved};
use crate::elf::HEADER_SIZES;

const MAX_HEADERS: usize = 256;
const LOAD: u32 = 1;
/// `PT_GNU_EH_FRAME`
const FRAME_HEADER: u32 = 0x6474_e550;

/// Bytes of a file, from an offset.
pub(super) type ReadBytes<'a> = &'a dyn Fn(u64, usize) -> Option<Vec<u8>>;

/// Where a file has its search table, and its segments.
#[derive(Debug)]
pub(super) struct Tables {
    /// The address of `.eh_frame_hdr` in the file's headers: numbers in it count from there.
    header_address: u64,
    numbers: Numbers,
    /// Where its pairs begin in the file: the first address of a function, and the address of its entry.
    offset: u64,
    count: u64,
    segments: Vec<FileSegment>,
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
    /// Reads where the table lies that the program headers of a file name.
    pub fn read(read: ReadBytes<'_>) -> Option<Tables> {
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
        let found = of_kind(FRAME_HEADER).next()?;
        Tables::of_segment(found, of_kind(LOAD).collect(), read)
    }

    fn of_segment(
        found: FileSegment,
        segments: Vec<FileSegment>,
        read: ReadBytes<'_>,
    ) -> Option<Tables> {
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
        Some(Tables {
            header_address: found.address,
            numbers,
            offset: found.offset.checked_add(size)?,
            count: count.min(room),
            segments,
        })
    }

    /// The address of the entry of the last function that begins at an address or before it.
    fn find(&self, address: u64, read: ReadBytes<'_>) -> Option<u64> {
        /// Pairs that are read together.
        const TOGETHER: u64 = 512;
        let Numbers { size, .. } = self.numbers;
        let pair_size = 2 * size as u64;
        let pairs = |first: u64, count: u64| {
            let offset = self.offset.checked_add(first.checked_mul(pair_size)?)?;
            read(offset, usize::try_from(count * pair_size).ok()?)
        };
        let number = |bytes: &[u8], at: usize| {
            Some(self.header_address.wrapping_add(self.numbers.read(bytes, at)?))
        };
        let (mut first, mut end) = (0, self.count);
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

    /// The first addresses of the first functions.
    #[cfg(test)]
    pub fn functions(&self, count: u64, read: ReadBytes<'_>) -> Vec<u64> {
        let size = 2 * self.numbers.size;
        let pairs = read(self.offset, size * self.count.min(count) as usize).unwrap();
        let start =
            |pair: &[u8]| self.header_address.wrapping_add(self.numbers.read(pair, 0).unwrap());
        pairs.chunks_exact(size).map(start).collect()
    }

    /// The entry of `.eh_frame` at an address, without what follows it.
    fn entry(&self, address: u64, read: ReadBytes<'_>) -> Option<Vec<u8>> {
        /// Most entries are shorter.
        const USUAL: usize = 256;
        const LONGEST: usize = 16 << 10;
        let segment = self
            .segments
            .iter()
            .find(|one| address.checked_sub(one.address).is_some_and(|inside| inside < one.size))?;
        let offset = segment.offset.checked_add(address - segment.address)?;
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

    /// The rule of an address.
    pub fn rule(&self, address: u64, read: ReadBytes<'_>) -> Option<FoundRule> {
        /// Where an entry has the distance of its common one.
        const COMMON: usize = 4;
        let found = self.find(address, read)?;
        let own = self.entry(found, read)?;
        let distance = u64::from(le::u32(&own, COMMON)?);
        let common = found.checked_add(COMMON as u64)?.checked_sub(distance)?;
        let common = self.entry(common, read)?;
        // The two entries, one behind the other, are a section of their own.
        let at = common.len();
        let mut entries = common;
        entries.extend_from_slice(&own);
        let distance = u32::try_from(at + COMMON).ok()?;
        entries.get_mut(at + COMMON..at + COMMON + 4)?.copy_from_slice(&distance.to_le_bytes());
        rule_of(&entries, at, found.wrapping_sub(at as u64), address)
    }
}

/// The rule of an address in a section of two entries, of which the one at `own` is that of the address.
fn rule_of(entries: &[u8], own: usize, section: u64, address: u64) -> Option<FoundRule> {
    let bases = BaseAddresses::default().set_eh_frame(section);
    let frame = EhFrame::new(entries, LittleEndian);
    let fde = frame.fde_from_offset(&bases, own.into(), EhFrame::cie_from_offset).ok()?;
    let mut context = UnwindContext::new();
    let row = fde.unwind_info_for_address(&frame, &bases, &mut context, address).ok()?;
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
