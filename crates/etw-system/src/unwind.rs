//! Call stacks of programs without frame pointers, from a copy of their registers and stack: the rules are those of `.eh_frame`.
//!
//! ```text
//!   registers, stack bytes ──► image of the address ──► rule of the address (cached) ──► caller's registers ──► its address …
//!                              (mappings of the process)  (.eh_frame_hdr, then two entries of .eh_frame)
//! ```
//!
//! A frame whose image has no rule is left by its frame pointer, as the kernel does it. Everything that is read belongs to others: the
//! walk ends where a stack pointer does not grow, an address lies in no image, or the copied bytes end.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use etw_types::le;
use foldhash::fast::RandomState;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, Evaluation, EvaluationResult,
    LittleEndian, Location, Pointer, Register, RegisterRule, UnwindContext, UnwindExpression,
    UnwindSection, Value,
};

use crate::neutral::Image;
use crate::perf::{UNWOUND_REGISTERS, UserState};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Frames of a stack at most.
const MAX_FRAMES: usize = 192;
/// Bytes of search tables that are kept. Above it they are read again when they are needed.
const MAX_TABLES: usize = 24 << 20;
/// Larger tables of one file are not read.
const MAX_TABLE: usize = 12 << 20;
/// Rules and images that are kept.
const MAX_RULES: usize = 1 << 17;
const MAX_IMAGES: usize = 1 << 14;
const MAX_HEADERS: usize = 256;
/// Registers by their numbers in DWARF.
const REGISTERS: usize = 33;
const LOAD: u32 = 1;
/// `PT_GNU_EH_FRAME`
const FRAME_HEADER: u32 = 0x6474_e550;

/// Numbers of registers in DWARF.
#[cfg(not(target_arch = "aarch64"))]
mod number {
    pub const FRAME_POINTER: usize = 6;
    pub const STACK_POINTER: usize = 7;
    pub const RETURN: usize = 16;
    pub const ADDRESS: usize = 16;
    /// Those of the kernel's copy, in its order.
    pub const COPIED: &[usize] = &[3, 6, 7, 16, 12, 13, 14, 15];
}
/// Numbers of registers in DWARF.
#[cfg(target_arch = "aarch64")]
mod number {
    pub const FRAME_POINTER: usize = 29;
    pub const STACK_POINTER: usize = 31;
    pub const RETURN: usize = 30;
    pub const ADDRESS: usize = 32;
    /// Those of the kernel's copy, in its order.
    pub const COPIED: &[usize] = &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32];
}
use number::{ADDRESS, COPIED, FRAME_POINTER, RETURN, STACK_POINTER};

const _: () = assert!(COPIED.len() == UNWOUND_REGISTERS.count_ones() as usize);

/// Where a caller's register is.
#[derive(Clone, Copy, Debug)]
enum Saved {
    /// In memory, so far from the frame's address.
    At(i64),
    /// It is the frame's address and this number.
    Is(i64),
    Register(u16),
    /// In memory, at the address that an expression gives.
    AtExpression(UnwindExpression<usize>),
    IsExpression(UnwindExpression<usize>),
    Unknown,
}

/// How the address of a frame (CFA) follows from registers.
#[derive(Clone, Copy, Debug)]
enum FrameAddress {
    Register(u16, i64),
    Expression(UnwindExpression<usize>),
}

/// The rule of an address.
#[derive(Clone, Debug)]
struct Rule {
    frame: FrameAddress,
    saved: Vec<(u16, Saved)>,
    return_register: u16,
    /// The caller was interrupted there: its address is that of the next instruction, not of one behind a call.
    is_signal: bool,
    /// The entries of `.eh_frame` that expressions are in; empty: it has none.
    entries: Vec<u8>,
}

/// The search table of a file, with its address in the file's headers, and its segments.
#[derive(Debug)]
struct Tables {
    header: Vec<u8>,
    header_address: u64,
    segments: Vec<FileSegment>,
}

/// A part of a file.
#[derive(Clone, Copy, Debug)]
struct FileSegment {
    offset: u64,
    address: u64,
    size: u64,
}

/// Walks the stacks of programs.
#[derive(Debug, Default)]
pub(crate) struct Unwinder {
    /// The number of each image, by the address of the image in this process.
    numbers: HashMap<usize, (Arc<Image>, usize), RandomState>,
    /// The same file at another address has the same rules: numbers by build id.
    by_build_id: HashMap<Vec<u8>, usize, RandomState>,
    /// By number; `None`: not read, or there are none.
    tables: Vec<Option<Tables>>,
    has_none: Vec<bool>,
    tables_size: usize,
    /// By image and address in its headers. `None`: it has no rule.
    rules: HashMap<(usize, u64), Option<Arc<Rule>>, RandomState>,
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// At the thread's first frame.
    Whole,
    /// The copied bytes or the rules end.
    Cut,
}

/// Bytes of a file, from an offset.
pub(crate) type ReadFile<'a> = &'a dyn Fn(&[u8], u64, usize) -> Option<Vec<u8>>;

struct Frame<'a> {
    registers: [Option<u64>; REGISTERS],
    stack: &'a [u8],
    /// The address of the first byte of `stack`.
    bottom: u64,
}

impl Frame<'_> {
    fn read(&self, address: u64) -> Option<u64> {
        le::u64(self.stack, usize::try_from(address.checked_sub(self.bottom)?).ok()?)
    }

    fn get(&self, register: usize) -> Option<u64> {
        self.registers.get(register).copied().flatten()
    }

    fn set(&mut self, register: usize, value: Option<u64>) {
        if let Some(one) = self.registers.get_mut(register) {
            *one = value;
        }
    }
}

impl Unwinder {
    /// Adds the addresses of a stack to `out`, innermost first. `images`: those of the process. `read`: reads the file of a path.
    pub fn walk(
        &mut self,
        images: &BTreeMap<u64, Arc<Image>>,
        user: &UserState<'_>,
        read: ReadFile<'_>,
        out: &mut Vec<u64>,
    ) -> End {
        let mut frame = Frame { registers: [None; REGISTERS], stack: user.stack, bottom: 0 };
        for (index, register) in COPIED.iter().enumerate() {
            frame.set(*register, le::u64(user.registers, index * 8));
        }
        let (Some(mut address), Some(bottom)) = (frame.get(ADDRESS), frame.get(STACK_POINTER))
        else {
            return End::Cut;
        };
        frame.bottom = bottom;
        let mut is_exact = true;
        while out.len() < MAX_FRAMES {
            out.push(address);
            let at = if is_exact { address } else { address.wrapping_sub(1) };
            let Some(image) = image_of(images, at) else { return End::Cut };
            let in_headers = image.default_base.wrapping_add(at - image.base);
            let rule = self.rule(image, in_headers, read);
            let before = frame.get(STACK_POINTER).unwrap_or(0);
            let next = match &rule {
                Some(rule) => {
                    is_exact = rule.is_signal;
                    apply(&mut frame, rule)
                }
                None => {
                    is_exact = false;
                    leave_by_frame_pointer(&mut frame)
                }
            };
            match next {
                Next::Caller(caller) => address = caller,
                Next::End => return End::Whole,
                Next::Unknown => return End::Cut,
            }
            let grows = frame.get(STACK_POINTER).is_some_and(|now| now > before || is_exact);
            if address == 0 {
                return End::Whole;
            }
            if !grows || image_of(images, address.wrapping_sub(1)).is_none() {
                return End::Cut;
            }
        }
        End::Cut
    }

    /// The rule of an address.
    fn rule(&mut self, image: &Arc<Image>, address: u64, read: ReadFile<'_>) -> Option<Arc<Rule>> {
        let number = self.number(image);
        if let Some(known) = self.rules.get(&(number, address)) {
            return known.clone();
        }
        self.load(number, image, read);
        let tables = self.tables.get(number).and_then(Option::as_ref);
        let read = |at, size| read(&image.path, at, size);
        let rule = tables.and_then(|tables| find_rule(tables, address, &read)).map(Arc::new);
        if self.rules.len() >= MAX_RULES {
            self.rules.clear();
        }
        self.rules.insert((number, address), rule.clone());
        rule
    }

    fn number(&mut self, image: &Arc<Image>) -> usize {
        let key = Arc::as_ptr(image).addr();
        if let Some((_, number)) = self.numbers.get(&key) {
            return *number;
        }
        if self.numbers.len() >= MAX_IMAGES {
            *self = Unwinder::default();
        }
        let known = self.by_build_id.get(&image.build_id).copied();
        let number = known.unwrap_or(self.tables.len());
        if known.is_none() {
            self.tables.push(None);
            self.has_none.push(false);
            if !image.build_id.is_empty() {
                self.by_build_id.insert(image.build_id.clone(), number);
            }
        }
        self.numbers.insert(key, (image.clone(), number));
        number
    }

    fn load(&mut self, number: usize, image: &Image, read: ReadFile<'_>) {
        if self.has_none[number] || self.tables[number].is_some() {
            return;
        }
        let tables = read_tables(&|at, size| read(&image.path, at, size));
        let Some(tables) = tables else {
            self.has_none[number] = true;
            return;
        };
        let size = tables.header.len();
        if self.tables_size + size > MAX_TABLES {
            self.tables.iter_mut().for_each(|one| *one = None);
            self.tables_size = 0;
        }
        self.tables_size += size;
        self.tables[number] = Some(tables);
    }
}

fn image_of(images: &BTreeMap<u64, Arc<Image>>, address: u64) -> Option<&Arc<Image>> {
    let (base, image) = images.range(..=address).next_back()?;
    (address - base < image.size).then_some(image)
}

/// The caller of a frame.
enum Next {
    Caller(u64),
    /// The frame is the thread's first one.
    End,
    Unknown,
}

fn leave_by_frame_pointer(frame: &mut Frame<'_>) -> Next {
    let caller = || {
        let pointer = frame.get(FRAME_POINTER)?;
        Some((pointer, frame.read(pointer)?, frame.read(pointer.checked_add(8)?)?))
    };
    let Some((pointer, above, caller)) = caller() else { return Next::Unknown };
    frame.set(FRAME_POINTER, Some(above));
    frame.set(STACK_POINTER, pointer.checked_add(16));
    Next::Caller(caller)
}

fn apply(frame: &mut Frame<'_>, rule: &Rule) -> Next {
    let entries = &rule.entries[..];
    let address = match &rule.frame {
        FrameAddress::Register(register, offset) => {
            frame.get(usize::from(*register)).map(|value| value.wrapping_add_signed(*offset))
        }
        FrameAddress::Expression(expression) => evaluate(frame, *expression, entries, None),
    };
    let Some(address) = address else { return Next::Unknown };
    let mut callers = frame.registers;
    for (register, saved) in &rule.saved {
        let value = match saved {
            Saved::At(offset) => frame.read(address.wrapping_add_signed(*offset)),
            Saved::Is(offset) => Some(address.wrapping_add_signed(*offset)),
            Saved::Register(other) => frame.get(usize::from(*other)),
            Saved::AtExpression(expression) => {
                evaluate(frame, *expression, entries, Some(address)).and_then(|at| frame.read(at))
            }
            Saved::IsExpression(expression) => evaluate(frame, *expression, entries, Some(address)),
            Saved::Unknown => None,
        };
        if *register == rule.return_register && matches!(saved, Saved::Unknown) {
            return Next::End;
        }
        if let Some(one) = callers.get_mut(usize::from(*register)) {
            *one = value;
        }
    }
    let has_stack_pointer =
        rule.saved.iter().any(|(register, _)| usize::from(*register) == STACK_POINTER);
    frame.registers = callers;
    if !has_stack_pointer {
        frame.set(STACK_POINTER, Some(address));
    }
    match frame.get(usize::from(rule.return_register)) {
        Some(caller) => Next::Caller(strip_signature(caller)),
        None => Next::Unknown,
    }
}

/// An address without the signature that AArch64 may put into its upper bits.
fn strip_signature(address: u64) -> u64 {
    if cfg!(target_arch = "aarch64") { address & 0x0000_ffff_ffff_ffff } else { address }
}

fn evaluate(
    frame: &Frame<'_>,
    expression: UnwindExpression<usize>,
    entries: &[u8],
    initial: Option<u64>,
) -> Option<u64> {
    /// Operations of one expression at most.
    const MAX_STEPS: u32 = 1000;
    let section = EhFrame::new(entries, LittleEndian);
    let expression = expression.get(&section).ok()?;
    let encoding = gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 4 };
    let mut evaluation: Evaluation<Bytes<'_>> = expression.evaluation(encoding);
    evaluation.set_max_iterations(MAX_STEPS);
    if let Some(initial) = initial {
        evaluation.set_initial_value(initial);
    }
    let mut state = evaluation.evaluate().ok()?;
    loop {
        state = match state {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                evaluation.resume_with_memory(Value::Generic(frame.read(address)?)).ok()?
            }
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = frame.get(usize::from(register.0))?;
                evaluation.resume_with_register(Value::Generic(value)).ok()?
            }
            _ => return None,
        };
    }
    match evaluation.result().first()?.location {
        Location::Address { address } => Some(address),
        _ => None,
    }
}

/// Bytes of a file, from an offset.
type ReadBytes<'a> = &'a dyn Fn(u64, usize) -> Option<Vec<u8>>;

impl Tables {
    /// The entry of `.eh_frame` at an address, without what follows it.
    fn entry(&self, address: u64, read: ReadBytes<'_>) -> Option<Vec<u8>> {
        /// Most entries are shorter.
        const USUAL: usize = 256;
        const LONGEST: usize = 64 << 10;
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
}

fn find_rule(tables: &Tables, address: u64, read: ReadBytes<'_>) -> Option<Rule> {
    /// Where an entry has the distance of its common one.
    const COMMON: usize = 4;
    let bases = BaseAddresses::default().set_eh_frame_hdr(tables.header_address);
    let header = EhFrameHdr::new(&tables.header, LittleEndian).parse(&bases, 8).ok()?;
    let Pointer::Direct(found) = header.table()?.lookup(address, &bases).ok()? else { return None };
    let own = tables.entry(found, read)?;
    let distance = u64::from(le::u32(&own, COMMON)?);
    let common = tables.entry(found.checked_add(COMMON as u64)?.checked_sub(distance)?, read)?;
    // The two entries, one behind the other, are a section of their own.
    let at = common.len();
    let mut entries = common;
    entries.extend_from_slice(&own);
    let distance = u32::try_from(at + COMMON).ok()?;
    entries.get_mut(at + COMMON..at + COMMON + 4)?.copy_from_slice(&distance.to_le_bytes());
    let bases = BaseAddresses::default().set_eh_frame(found.wrapping_sub(at as u64));
    let frame = EhFrame::new(&entries, LittleEndian);
    let fde = frame.fde_from_offset(&bases, at.into(), EhFrame::cie_from_offset).ok()?;
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
    Some(Rule {
        frame: at,
        saved,
        return_register: match fde.cie().return_address_register().0 {
            0 => RETURN as u16,
            register => register,
        },
        is_signal: fde.cie().is_signal_trampoline(),
        entries: if has_expressions { entries } else { Vec::new() },
    })
}

/// Reads `.eh_frame_hdr` of a file, which its program headers name.
fn read_tables(read: ReadBytes<'_>) -> Option<Tables> {
    let header = read(0, 64)?;
    if header.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (size, count) = (usize::from(le::u16(&header, 0x36)?), le::u16(&header, 0x38)?);
    if size < 56 {
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
    let header_size = usize::try_from(found.size).ok().filter(|size| *size <= MAX_TABLE)?;
    let header = read(found.offset, header_size)?;
    let segments = of_kind(LOAD).collect();
    Some(Tables { header, header_address: found.address, segments })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules of this executable are found; from a damaged copy of it, anything but a panic may come.
    #[test]
    fn damage_is_no_panic() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let part = |bytes: &[u8], at: u64, size: usize| {
            let at = usize::try_from(at).ok()?;
            let rest = bytes.get(at..)?;
            Some(rest[..size.min(rest.len())].to_vec())
        };
        let whole = |at, size| part(&bytes, at, size);
        let tables = read_tables(&whole).unwrap();
        let bases = BaseAddresses::default().set_eh_frame_hdr(tables.header_address);
        let header = EhFrameHdr::new(&tables.header, LittleEndian).parse(&bases, 8).unwrap();
        let mut functions = Vec::new();
        let table = header.table().unwrap();
        let mut all = table.iter(&bases);
        while let (Some((Pointer::Direct(start), _)), 0..1000) =
            (all.next().unwrap(), functions.len())
        {
            functions.push(start);
        }
        assert!(functions.iter().all(|start| find_rule(&tables, *start, &whole).is_some()));
        let mut seed = 1u64;
        for _ in 0..2000 {
            let mut next = || {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (seed >> 33) as usize
            };
            let (place, value) = (next(), next() as u8);
            let damaged = |at, size| {
                let mut bytes = part(&bytes, at, size)?;
                let length = bytes.len().max(1);
                if let Some(byte) = bytes.get_mut(place % length) {
                    *byte ^= value;
                }
                Some(bytes)
            };
            let found = read_tables(&damaged);
            let tables = found.as_ref().unwrap_or(&tables);
            let Some(rule) = find_rule(tables, functions[next() % functions.len()], &damaged)
            else {
                continue;
            };
            let stack: Vec<u8> = (0..512).map(|_| next() as u8).collect();
            let registers = std::array::from_fn(|_| Some(next() as u64 % 1024));
            let mut frame = Frame { registers, stack: &stack, bottom: 100 };
            let _ = apply(&mut frame, &rule);
        }
    }
}
