//! Call stacks of programs without frame pointers, from a copy of their registers and stack: the rules are those of `.eh_frame`.
//!
//! ```text
//!   registers, stack bytes ──► image of the address ──► rule of the address (cached) ──► caller's registers ──► its address …
//!                              (mappings of the process)  (.eh_frame_hdr, then two entries of .eh_frame; all addresses of a row share it)
//! ```
//!
//! A frame whose image has no rule is left by its frame pointer, as the kernel does it. Everything that is read belongs to others: the
//! walk ends where a stack pointer does not grow, an address lies in no image, or the copied bytes end. A file that has another build
//! id than its image was replaced, and has no rules.
//!
//! Files share rules only if they are the same file with the same build id: two users may give their files one id.
//!
//! The outer frames of a stack are mostly those of the thread's stack before it: see `memory.rs`.
//!
//! Bounds for hostile files: 192 frames and 500 expressions of 100 steps a walk, entries of 16 KiB, tables of 12 MiB, and 16 MiB each of
//! tables and rules that are kept; the last walks of 256 threads.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use etw_types::le;
use foldhash::fast::RandomState;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, LittleEndian, Pointer, Register, RegisterRule,
    UnwindContext, UnwindSection,
};

mod memory;
mod rule;

use crate::elf::{ElfFile, HEADER_SIZES};
use crate::neutral::Image;
use crate::perf::UserState;
pub use crate::shaper::ProcessImages;
use memory::{LastWalks, State, Step, Walker};
use rule::{
    ADDRESS, FRAME_POINTER, Frame, FrameAddress, Next, RETURN, Row, Rule, STACK_POINTER, Saved,
    apply, leave_by_frame_pointer, words_at_frame_pointer,
};

/// Frames of a stack at most.
const MAX_FRAMES: usize = 192;
/// Bytes of search tables that are kept. Above it they are read again when they are needed.
const MAX_TABLES: usize = 16 << 20;
/// Bytes of rules that are kept.
const MAX_RULE_BYTES: usize = 16 << 20;
/// Larger tables of one file are not read.
const MAX_TABLE: usize = 12 << 20;
/// Rules and images that are kept.
const MAX_RULES: usize = 1 << 17;
const MAX_IMAGES: usize = 1 << 14;
const MAX_HEADERS: usize = 256;
const LOAD: u32 = 1;
/// `PT_GNU_EH_FRAME`
const FRAME_HEADER: u32 = 0x6474_e550;

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

/// A file as the file system knows it. Its owner cannot make another file with the same values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// The device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
    /// When the inode was changed last, in nanoseconds: an inode may get another file.
    pub changed: i128,
}

/// The files that a process has mapped.
pub trait MappedFiles {
    /// The file at a path; `None`: it is not known, and shares no rules.
    fn identity(&self, path: &[u8]) -> Option<FileIdentity>;

    /// Bytes of a file from an offset, as many as there are. `None`: at the path lies another file than `wanted`, or none.
    fn read(
        &self,
        path: &[u8],
        wanted: Option<FileIdentity>,
        at: u64,
        size: usize,
    ) -> Option<Vec<u8>>;
}

/// Bytes of a file, from an offset; `None`: the file is shorter.
impl<F: Fn(&[u8], u64, usize) -> Option<Vec<u8>>> MappedFiles for F {
    fn identity(&self, _path: &[u8]) -> Option<FileIdentity> {
        None
    }

    fn read(
        &self,
        path: &[u8],
        _wanted: Option<FileIdentity>,
        at: u64,
        size: usize,
    ) -> Option<Vec<u8>> {
        Some(self(path, at, size).unwrap_or_default())
    }
}

/// A file whose rules are kept.
#[derive(Debug, Default)]
struct RuleFile {
    identity: Option<FileIdentity>,
    /// `None`: not read, or there are none.
    tables: Option<Tables>,
    has_none: bool,
}

/// The rule of an address, if it has one.
#[derive(Clone, Debug)]
enum KnownRule {
    None,
    Row(Row),
    Whole(Arc<Rule>),
}

/// A rule that was found, and the addresses that it is for.
#[derive(Debug)]
struct FoundRule {
    rule: Rule,
    start: u64,
    end: u64,
}

/// The image that holds the last address of a walk.
#[derive(Clone, Copy)]
struct Module<'i> {
    image: &'i Arc<Image>,
    /// Its end, or where the next image begins.
    end: u64,
    /// The number of its file.
    number: usize,
}

/// Walks the stacks of programs.
#[derive(Debug, Default)]
pub struct Unwinder {
    /// The number of the file of each image, by the address of the image in this process.
    numbers: HashMap<usize, (Arc<Image>, usize), RandomState>,
    /// A file at another address has the same rules.
    by_identity: HashMap<(FileIdentity, Vec<u8>), usize, RandomState>,
    files: Vec<RuleFile>,
    tables_size: usize,
    /// By file and address in its headers.
    rules: HashMap<(usize, u64), KnownRule, RandomState>,
    /// The same by the first address of each rule, with the end of its addresses.
    rows: BTreeMap<(usize, u64), (u64, KnownRule)>,
    rules_size: usize,
    last_walks: LastWalks,
    /// The steps of this walk, innermost first; `None`: one that later walks cannot compare.
    steps: Vec<Option<Step>>,
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At the thread's first frame.
    Whole,
    /// The copied bytes or the rules end.
    Cut,
}

impl Unwinder {
    /// Adds the addresses of a stack to `out`, innermost first. `thread`: whose stack it is. `images`: those of its process, and `files`:
    /// their files.
    pub fn walk(
        &mut self,
        thread: u32,
        images: ProcessImages<'_>,
        user: &UserState<'_>,
        files: &dyn MappedFiles,
        out: &mut Vec<u64>,
    ) -> End {
        let walker = Walker { thread, version: images.version };
        self.steps.clear();
        let (end, joined) = self.steps_of(walker, images.by_base, user, files, out);
        // Without a version, the next walk may be that of another program.
        if end == End::Whole && walker.version != 0 {
            self.last_walks.keep(walker, &self.steps, joined);
        }
        end
    }

    /// Walks, and remembers the steps. Also returns the step of the last walk from which on this one is the same.
    fn steps_of(
        &mut self,
        walker: Walker,
        images: &BTreeMap<u64, Arc<Image>>,
        user: &UserState<'_>,
        files: &dyn MappedFiles,
        out: &mut Vec<u64>,
    ) -> (End, Option<usize>) {
        const CUT: (End, Option<usize>) = (End::Cut, None);
        let Some(mut frame) = Frame::innermost(user) else { return CUT };
        let Some(mut address) = frame.get(ADDRESS) else { return CUT };
        let mut is_exact = true;
        let mut last = None;
        let mut search = Some(self.last_walks.search(walker));
        while out.len() < MAX_FRAMES {
            let before = frame.get(STACK_POINTER).unwrap_or(0);
            let frame_pointer = frame.get(FRAME_POINTER);
            let state = State { address, stack_pointer: before, frame_pointer, is_exact };
            if let Some(known) = &mut search
                && let Some(step) = self.last_walks.find(known, &state)
            {
                let room = MAX_FRAMES - out.len();
                if step < room && self.last_walks.follow(known, step, &frame, out) {
                    return (End::Whole, Some(step));
                }
                search = None;
            }
            out.push(address);
            let at = if is_exact { address } else { address.wrapping_sub(1) };
            let Some(module) = self.module(images, at, files, &mut last) else { return CUT };
            let in_headers = module.image.default_base.wrapping_add(at - module.image.base);
            let (next, words) = match self.rule(module, in_headers, files) {
                KnownRule::Row(row) => {
                    is_exact = row.is_signal;
                    let next = row.apply(&mut frame);
                    (next, row.read_words(&frame).filter(|_| !row.is_signal))
                }
                KnownRule::Whole(rule) => {
                    is_exact = rule.is_signal;
                    (apply(&mut frame, &rule), None)
                }
                KnownRule::None => {
                    is_exact = false;
                    let next = leave_by_frame_pointer(&mut frame);
                    (next, words_at_frame_pointer(&frame))
                }
            };
            let step = |[caller, frame_pointer]: [_; 2]| Step { state, caller, frame_pointer };
            self.steps.push(words.map(step));
            match next {
                Next::Caller(caller) => address = caller,
                Next::End => return (End::Whole, None),
                Next::Unknown => return CUT,
            }
            let grows = frame.get(STACK_POINTER).is_some_and(|now| now > before || is_exact);
            if address == 0 {
                return (End::Whole, None);
            }
            let caller = address.wrapping_sub(1);
            if !grows || self.module(images, caller, files, &mut last).is_none() {
                return CUT;
            }
        }
        CUT
    }

    /// The module of an address: mostly the last one.
    fn module<'m, 'i>(
        &mut self,
        images: &'i BTreeMap<u64, Arc<Image>>,
        address: u64,
        files: &dyn MappedFiles,
        last: &'m mut Option<Module<'i>>,
    ) -> Option<&'m mut Module<'i>> {
        let is_in = |one: &Module<'_>| (one.image.base..one.end).contains(&address);
        if !last.as_ref().is_some_and(is_in) {
            let (base, image) = images.range(..=address).next_back()?;
            let next = images.range((Bound::Excluded(address), Bound::Unbounded)).next();
            let end = base.saturating_add(image.size).min(next.map_or(u64::MAX, |(base, _)| *base));
            (address < end).then_some(())?;
            *last = Some(Module { image, end, number: self.number(image, files) });
        }
        last.as_mut()
    }

    /// The rule of an address in the file's headers.
    fn rule(
        &mut self,
        module: &mut Module<'_>,
        address: u64,
        files: &dyn MappedFiles,
    ) -> KnownRule {
        let key = (module.number, address);
        if let Some(known) = self.rules.get(&key) {
            return known.clone();
        }
        let row = self.rows.range(..=key).next_back();
        let row = row.filter(|(start, (end, _))| start.0 == module.number && address < *end);
        if let Some((_, (_, known))) = row {
            let known = known.clone();
            self.make_room(0);
            self.rules.insert(key, known.clone());
            return known;
        }
        let identity = self.files.get(module.number).and_then(|file| file.identity);
        // Another file may lie at the path by now: the rules of the right one are not changed.
        let is_replaced = Cell::new(false);
        let read = |at, size| {
            let bytes = files.read(&module.image.path, identity, at, size);
            is_replaced.set(is_replaced.get() || bytes.is_none());
            bytes
        };
        self.load(module, &read, &is_replaced);
        let tables = self.files.get(module.number).and_then(|file| file.tables.as_ref());
        let found = tables.and_then(|tables| find_rule(tables, address, &read));
        if is_replaced.get() {
            module.number = self.files.len();
            self.files.push(RuleFile { has_none: true, ..RuleFile::default() });
            let key = Arc::as_ptr(module.image).addr();
            self.numbers.insert(key, (module.image.clone(), module.number));
            return KnownRule::None;
        }
        let Some(FoundRule { rule, start, end }) = found else {
            self.make_room(0);
            self.rules.insert(key, KnownRule::None);
            return KnownRule::None;
        };
        let size = rule.size();
        let (known, size) = match Row::of(&rule) {
            Some(row) => (KnownRule::Row(row), 0),
            None => (KnownRule::Whole(Arc::new(rule)), size),
        };
        self.make_room(size);
        self.rules.insert(key, known.clone());
        self.rows.insert((module.number, start), (end, known.clone()));
        known
    }

    /// Forgets all rules if there are too many with one more, of this size.
    fn make_room(&mut self, size: usize) {
        self.rules_size += size;
        if self.rules.len() >= MAX_RULES || self.rules_size > MAX_RULE_BYTES {
            self.rules.clear();
            self.rows.clear();
            self.rules_size = size;
        }
    }

    fn number(&mut self, image: &Arc<Image>, files: &dyn MappedFiles) -> usize {
        let key = Arc::as_ptr(image).addr();
        if let Some((_, number)) = self.numbers.get(&key) {
            return *number;
        }
        if self.numbers.len() >= MAX_IMAGES {
            *self = Unwinder::default();
        }
        let identity = files.identity(&image.path);
        let shared = identity.map(|identity| (identity, image.build_id.clone()));
        let known = shared.as_ref().and_then(|shared| self.by_identity.get(shared)).copied();
        let number = known.unwrap_or(self.files.len());
        if known.is_none() {
            self.files.push(RuleFile { identity, ..RuleFile::default() });
            self.by_identity.extend(shared.map(|shared| (shared, number)));
        }
        self.numbers.insert(key, (image.clone(), number));
        number
    }

    fn load(&mut self, module: &Module<'_>, read: ReadBytes<'_>, is_replaced: &Cell<bool>) {
        let (number, image) = (module.number, module.image);
        let Some(file) = self.files.get(number) else { return };
        if file.has_none || file.tables.is_some() {
            return;
        }
        let is_image = || {
            image.build_id.is_empty()
                || ElfFile::read(read).is_some_and(|file| file.build_id == image.build_id)
        };
        let tables = read_tables(read).filter(|_| is_image());
        let Some(tables) = tables.filter(|_| !is_replaced.get()) else {
            self.files[number].has_none = !is_replaced.get();
            return;
        };
        let size = tables.header.len();
        if self.tables_size + size > MAX_TABLES {
            self.files.iter_mut().for_each(|file| file.tables = None);
            self.tables_size = 0;
        }
        self.tables_size += size;
        self.files[number].tables = Some(tables);
    }
}

/// Bytes of a file, from an offset.
type ReadBytes<'a> = &'a dyn Fn(u64, usize) -> Option<Vec<u8>>;

impl Tables {
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
}

fn find_rule(tables: &Tables, address: u64, read: ReadBytes<'_>) -> Option<FoundRule> {
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
    let (start, end) = (row.start_address(), row.end_address());
    let rule = Rule {
        frame: at,
        saved,
        return_register: match fde.cie().return_address_register().0 {
            0 => RETURN as u16,
            register => register,
        },
        is_signal: fde.cie().is_signal_trampoline(),
        entries: if has_expressions { entries } else { Vec::new() },
    };
    Some(FoundRule { rule, start, end })
}

/// Reads `.eh_frame_hdr` of a file, which its program headers name.
fn read_tables(read: ReadBytes<'_>) -> Option<Tables> {
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
    let header_size = usize::try_from(found.size).ok().filter(|size| *size <= MAX_TABLE)?;
    let header = read(found.offset, header_size)?;
    let segments = of_kind(LOAD).collect();
    Some(Tables { header, header_address: found.address, segments })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of the given bytes, with its identity.
    struct OneFile {
        bytes: Vec<u8>,
        identity: FileIdentity,
        is_replaced: Cell<bool>,
    }

    impl MappedFiles for OneFile {
        fn identity(&self, _: &[u8]) -> Option<FileIdentity> {
            Some(self.identity)
        }

        fn read(
            &self,
            _: &[u8],
            wanted: Option<FileIdentity>,
            at: u64,
            size: usize,
        ) -> Option<Vec<u8>> {
            if self.is_replaced.get() || wanted != Some(self.identity) {
                return None;
            }
            let rest = self.bytes.get(usize::try_from(at).ok()?..).unwrap_or_default();
            Some(rest[..size.min(rest.len())].to_vec())
        }
    }

    /// This executable, whose rules begin with the first function of its table.
    fn own_file(inode: u64) -> (OneFile, u64) {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let identity = FileIdentity { inode, ..FileIdentity::default() };
        let file = OneFile { bytes, identity, is_replaced: Cell::new(false) };
        let tables = read_tables(&|at, size| file.read(b"", Some(identity), at, size)).unwrap();
        let bases = BaseAddresses::default().set_eh_frame_hdr(tables.header_address);
        let header = EhFrameHdr::new(&tables.header, LittleEndian).parse(&bases, 8).unwrap();
        let first = header.table().unwrap().iter(&bases).next().unwrap();
        let Some((Pointer::Direct(start), _)) = first else { panic!("no function") };
        (file, start)
    }

    fn rule_of(
        unwinder: &mut Unwinder,
        image: &Arc<Image>,
        address: u64,
        file: &OneFile,
    ) -> KnownRule {
        let number = unwinder.number(image, file);
        unwinder.rule(&mut Module { image, end: u64::MAX, number }, address, file)
    }

    /// Two users' files may have one build id: neither changes the rules of the other.
    #[test]
    fn files_with_one_build_id_share_no_rules() {
        let (own, address) = own_file(1);
        let (mut hostile, _) = own_file(2);
        hostile.bytes.truncate(64);
        let image = || Arc::new(Image { size: u64::MAX, ..Image::default() });
        let [first, second, third] = [image(), image(), image()];
        let mut unwinder = Unwinder::default();
        assert!(matches!(rule_of(&mut unwinder, &first, address, &hostile), KnownRule::None));
        assert!(!matches!(rule_of(&mut unwinder, &second, address, &own), KnownRule::None));
        // The same file at another address.
        assert!(!matches!(rule_of(&mut unwinder, &third, address, &own), KnownRule::None));
        assert_eq!(unwinder.number(&second, &own), unwinder.number(&third, &own));
    }

    /// A path that leads to another file while rules are read does not change the rules of the first file.
    #[test]
    fn a_file_that_is_replaced_meanwhile_takes_no_rules_from_others() {
        let (own, address) = own_file(1);
        let image = || Arc::new(Image { size: u64::MAX, ..Image::default() });
        let [first, second] = [image(), image()];
        let mut unwinder = Unwinder::default();
        own.is_replaced.set(true);
        assert!(matches!(rule_of(&mut unwinder, &first, address, &own), KnownRule::None));
        own.is_replaced.set(false);
        assert!(!matches!(rule_of(&mut unwinder, &second, address, &own), KnownRule::None));
        assert!(matches!(rule_of(&mut unwinder, &first, address, &own), KnownRule::None));
    }

    /// The addresses of a row have one rule, which is read once.
    #[test]
    fn the_next_address_of_a_row_needs_no_file() {
        let (own, address) = own_file(1);
        let image = Arc::new(Image { size: u64::MAX, ..Image::default() });
        let mut unwinder = Unwinder::default();
        let KnownRule::Row(row) = rule_of(&mut unwinder, &image, address, &own) else { return };
        let (_, (end, _)) = unwinder.rows.first_key_value().unwrap();
        let last = end - 1;
        own.is_replaced.set(true);
        let KnownRule::Row(same) = rule_of(&mut unwinder, &image, last, &own) else {
            panic!("{last:#x} has no rule")
        };
        assert_eq!(row, same);
    }

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
            let registers: Vec<u8> =
                (0..14u64).flat_map(|_| (next() as u64 % 1024).to_le_bytes()).collect();
            let user = UserState { registers: &registers, stack: &stack };
            let mut frame = Frame::innermost(&user).unwrap();
            let _ = apply(&mut frame, &rule.rule);
        }
    }
}
