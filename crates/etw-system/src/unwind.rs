//! Call stacks of programs without frame pointers, from a copy of their registers and stack: the rules are those of `.eh_frame`, or,
//! where it has none, of `.debug_frame`.
//!
//! ```text
//!   registers, stack bytes ──► image of the address ──► rule of the address (cached) ──► caller's registers ──► its address …
//!                              (mappings of the process)  (.eh_frame_hdr, then two entries of .eh_frame; all addresses of a row share it)
//! ```
//!
//! A frame whose image has no rule is left by its frame pointer, as the kernel does it. Everything that is read belongs to others: the
//! walk ends where a stack pointer does not grow, an address lies in no image, or the copied bytes end. If an image's file is no more at
//! its path, or another one, its rules are read from the memory of the process (`mapped_file.rs`).
//!
//! Files share rules only if they are the same file with the same build id: two users may give their files one id.
//!
//! The outer frames of a stack are mostly those of the thread's stack before it: see `memory.rs`.
//!
//! Bounds for hostile files: 193 frames and 500 expressions of 100 steps a walk, entries of 16 KiB, 6 MiB of rules and 64 MiB of tables that
//! are kept; the last walks of 256 threads. Images and files that no process has any more are forgotten.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

mod files;
mod memory;
mod rule;
mod rules;
mod tables;

use crate::neutral::Image;
use crate::perf::UserState;
pub use crate::shaper::ProcessImages;
use files::{Answer, Files};
use memory::{Found, LastWalks, State, Step, Walker};
use rule::{
    ADDRESS, FRAME_POINTER, Frame, Next, Row, STACK_POINTER, apply, leave_by_frame_pointer,
    words_at_frame_pointer,
};
use rules::{FileAddress, KnownRule, Rules};
use tables::{FoundRule, Tables};

/// Frames of a stack at most: one more than its record has shows that there are more.
const MAX_FRAMES: usize = crate::shaper::MAX_FRAMES + 1;

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
    /// The file at the path of an image; `None`: it is not the image's, or not known, and shares no rules.
    fn identity(&self, image: &Image) -> Option<FileIdentity>;

    /// Bytes of an image's file from an offset, as many as there are. `wanted`: that of its path; `None`: as it lies in memory. `None`: it
    /// cannot be read.
    fn read(
        &self,
        image: &Image,
        wanted: Option<FileIdentity>,
        at: u64,
        size: usize,
    ) -> Option<Vec<u8>>;
}

/// Bytes of a file, from an offset; `None`: the file is shorter.
impl<F: Fn(&[u8], u64, usize) -> Option<Vec<u8>>> MappedFiles for F {
    fn identity(&self, _image: &Image) -> Option<FileIdentity> {
        None
    }

    fn read(
        &self,
        image: &Image,
        _wanted: Option<FileIdentity>,
        at: u64,
        size: usize,
    ) -> Option<Vec<u8>> {
        Some(self(&image.path, at, size).unwrap_or_default())
    }
}

/// The image that holds the last address of a walk.
#[derive(Clone, Copy)]
struct Module<'i> {
    image: &'i Arc<Image>,
    /// Its end, or where the next image begins.
    end: u64,
    /// The number of its file.
    number: u64,
}

/// Walks the stacks of programs.
#[derive(Debug, Default)]
pub struct Unwinder {
    files: Files,
    rules: Rules,
    last_walks: LastWalks,
    /// The steps of this walk, innermost first; `None`: one that later walks cannot compare.
    steps: Vec<Option<Step>>,
    /// Bytes of the stack that the last walk needed.
    reach: usize,
    /// The stack pointer of the innermost frame.
    stack_pointer: u64,
    /// The frame pointer at which the last walk ended, if it leads to the caller, beyond the copied bytes.
    cut_at: Option<u64>,
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
    /// An unwinder whose rules have so many bytes of room, twice.
    #[cfg(test)]
    pub(crate) fn with_room(room: usize) -> Unwinder {
        Unwinder { rules: Rules::with_room(room), ..Unwinder::default() }
    }

    /// Images and files that are remembered.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> [usize; 3] {
        self.files.counts()
    }

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
        (self.reach, self.cut_at) = (0, None);
        let Some(mut frame) = Frame::innermost(user) else { return End::Cut };
        self.stack_pointer = frame.get(STACK_POINTER).unwrap_or(0);
        let (end, joined) = self.steps_of(walker, images.by_base, &mut frame, files, out);
        self.reach = frame.reach();
        // Without a version, the next walk may be that of another program.
        if end == End::Whole && walker.version != 0 {
            self.last_walks.keep(walker, &self.steps, joined);
        }
        end
    }

    /// Adds the callers beyond the copied bytes, where the last [`walk`](Unwinder::walk) ended, which was of the same stack. They are those of
    /// `by_pointers`, the addresses that the kernel found by frame pointers, as long as the rule of each frame says that its frame
    /// pointer leads to its caller. Other functions keep any value in that register.
    pub fn add_callers_beyond(
        &mut self,
        images: ProcessImages<'_>,
        user: &UserState<'_>,
        by_pointers: &[u64],
        files: &dyn MappedFiles,
        out: &mut Vec<u64>,
    ) {
        let Some(cut_at) = self.cut_at else { return };
        let Some(callers) = callers_beyond(user, cut_at, by_pointers) else { return };
        let mut last = None;
        for address in callers {
            let at = address.wrapping_sub(1);
            let module = self.module(images.by_base, at, files, &mut last);
            let Some(module) = module.filter(|_| out.len() < MAX_FRAMES) else { break };
            out.push(*address);
            let in_headers = module.image.default_base.wrapping_add(at - module.image.base);
            if !self.rule(module, in_headers, files).leads_by_frame_pointer() {
                break;
            }
        }
    }

    /// The end of the words that the last walk needed, which is the same for all whole walks of a thread.
    pub fn stack_base(&self) -> u64 {
        self.stack_pointer.saturating_add(self.reach as u64)
    }

    /// The end of the bytes that were copied for the last walk.
    pub fn copied_until(&self, user: &UserState<'_>) -> u64 {
        self.stack_pointer.saturating_add(user.stack.len() as u64)
    }

    /// Bytes of the stack that the last walk needed, or would have needed to go on.
    pub fn reach(&self) -> usize {
        self.reach
    }

    /// Walks, and remembers the steps. Also returns the step of the last walk from which on this one is the same.
    fn steps_of(
        &mut self,
        walker: Walker,
        images: &BTreeMap<u64, Arc<Image>>,
        frame: &mut Frame<'_>,
        files: &dyn MappedFiles,
        out: &mut Vec<u64>,
    ) -> (End, Option<usize>) {
        const CUT: (End, Option<usize>) = (End::Cut, None);
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
                if step < room {
                    match self.last_walks.follow(known, step, frame, out) {
                        Found::Same => return (End::Whole, Some(step)),
                        Found::End(frame_pointer) => {
                            self.cut_at = frame_pointer;
                            return CUT;
                        }
                        Found::Other => {}
                    }
                }
                search = None;
            }
            out.push(address);
            let at = if is_exact { address } else { address.wrapping_sub(1) };
            let Some(module) = self.module(images, at, files, &mut last) else { return CUT };
            let in_headers = module.image.default_base.wrapping_add(at - module.image.base);
            let (next, words, is_by_frame_pointer) = match self.rule(module, in_headers, files) {
                KnownRule::Row(row) => {
                    is_exact = row.is_signal;
                    let next = row.apply(frame);
                    let words = row.read_words(frame).filter(|_| !row.is_signal);
                    (next, words, row.is_by_frame_pointer())
                }
                KnownRule::Whole(rule) => {
                    is_exact = rule.is_signal;
                    (apply(frame, &rule), None, false)
                }
                KnownRule::None => {
                    is_exact = false;
                    let next = leave_by_frame_pointer(frame);
                    (next, words_at_frame_pointer(frame), true)
                }
            };
            let step = |[caller, frame_pointer]: [_; 2]| Step {
                state,
                caller,
                frame_pointer,
                is_by_frame_pointer,
            };
            self.steps.push(words.map(step));
            match next {
                Next::Caller(caller) => address = caller,
                Next::End => return (End::Whole, None),
                Next::Unknown => {
                    self.cut_at = frame_pointer.filter(|_| is_by_frame_pointer);
                    return CUT;
                }
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
            *last = Some(Module { image, end, number: self.files.number(image, files) });
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
        let at = FileAddress { file: module.number, address };
        if let Some(known) = self.rules.get(at) {
            return known;
        }
        let find = |tables: &Tables, read: tables::ReadBytes<'_>| tables.rule(address, read);
        let (known, addresses) = match self.files.ask(module.number, module.image, files, find) {
            Answer::Found(FoundRule { rule, start, end }) => {
                let known =
                    Row::of(&rule).map_or_else(|| KnownRule::Whole(Arc::new(rule)), KnownRule::Row);
                (known, [start, end])
            }
            Answer::None => (KnownRule::None, [address, address.saturating_add(1)]),
            // It says so as fast as the rules that are kept.
            Answer::NoTables => return KnownRule::None,
            Answer::Replaced => {
                module.number = self.files.separate(module.image, module.number);
                return self.rule(module, address, files);
            }
        };
        self.rules.add(at, addresses, &known);
        known
    }
}

/// The addresses behind the frame pointer `cut_at` among those that the kernel found by frame pointers. `None`: the copied bytes do not
/// lead there from the innermost one.
fn callers_beyond<'a>(
    user: &UserState<'_>,
    cut_at: u64,
    by_pointers: &'a [u64],
) -> Option<&'a [u64]> {
    let frame = Frame::innermost(user)?;
    let mut pointer = frame.get(FRAME_POINTER)?;
    // Before the first caller stands the address of the record itself.
    for count in 1..by_pointers.len() {
        if pointer == cut_at {
            return by_pointers.get(count..);
        }
        pointer = frame.read(pointer).filter(|next| *next > pointer)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A file of the given bytes, with its identity.
    struct OneFile {
        bytes: Vec<u8>,
        identity: FileIdentity,
        is_replaced: Cell<bool>,
        is_in_memory: Cell<bool>,
    }

    impl MappedFiles for OneFile {
        fn identity(&self, _: &Image) -> Option<FileIdentity> {
            Some(self.identity)
        }

        fn read(
            &self,
            _: &Image,
            wanted: Option<FileIdentity>,
            at: u64,
            size: usize,
        ) -> Option<Vec<u8>> {
            let is_there = match wanted {
                Some(wanted) => !self.is_replaced.get() && wanted == self.identity,
                None => self.is_in_memory.get(),
            };
            is_there.then_some(())?;
            let rest = self.bytes.get(usize::try_from(at).ok()?..).unwrap_or_default();
            Some(rest[..size.min(rest.len())].to_vec())
        }
    }

    /// This executable, whose rules begin with the first function of its table.
    fn own_file(inode: u64) -> (OneFile, u64) {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let identity = FileIdentity { inode, ..FileIdentity::default() };
        let file = OneFile {
            bytes,
            identity,
            is_replaced: Cell::new(false),
            is_in_memory: Cell::new(false),
        };
        let read = |at, size| file.read(&Image::default(), Some(identity), at, size);
        let start = Tables::read(&read, usize::MAX).unwrap().functions(1, &read)[0];
        (file, start)
    }

    fn rule_of(
        unwinder: &mut Unwinder,
        image: &Arc<Image>,
        address: u64,
        file: &OneFile,
    ) -> KnownRule {
        let number = unwinder.files.number(image, file);
        unwinder.rule(&mut Module { image, end: u64::MAX, number }, address, file)
    }

    /// OV-24: beyond the copied bytes, frame pointers are followed from frames that have one. In others, the register has any value.
    #[test]
    fn frame_pointers_are_followed_from_frames_that_have_one() {
        let (own, function) = own_file(1);
        let image = |base, path: &[u8]| {
            let (default_base, path) = (base, path.to_vec());
            Arc::new(Image { base, default_base, size: 0x1000, path, ..Image::default() })
        };
        const OTHER: u64 = 0x7f00_0000_0000;
        let page = function & !0xfff;
        let images = BTreeMap::from([(page, image(page, b"")), (OTHER, image(OTHER, b"/none"))]);
        let images = ProcessImages { by_base: &images, version: 1 };
        let files = |path: &[u8], at: u64, size: usize| {
            if path.is_empty() {
                own.read(&Image::default(), Some(own.identity), at, size)
            } else {
                None
            }
        };
        // At its first instruction, a function's frame is found by the stack pointer.
        let plain = function + 1;
        let mut unwinder = Unwinder::default();
        let mut walk = |address: u64, chain: &[u64], pointer: u64, stack: &[u64]| {
            let mut registers = vec![0u64; crate::perf::UNWOUND_REGISTERS.count_ones() as usize];
            let (at_pointer, at_stack, at_address) = match cfg!(target_arch = "aarch64") {
                true => (registers.len() - 4, registers.len() - 2, registers.len() - 1),
                false => (2, 3, 4),
            };
            registers[at_pointer] = pointer;
            (registers[at_stack], registers[at_address]) = (0x7000, address);
            let bytes = |words: &[u64]| -> Vec<u8> {
                words.iter().flat_map(|word| word.to_le_bytes()).collect()
            };
            let (registers, stack) = (bytes(&registers), bytes(stack));
            let user = UserState { registers: &registers, stack: &stack };
            let mut out = Vec::new();
            unwinder.walk(1, images, &user, &files, &mut out);
            unwinder.add_callers_beyond(images, &user, chain, &files, &mut out);
            out
        };
        let [first, second, third] = [1, 2, 3].map(|at| OTHER + at * 0x10);
        let chain = [first, second, third, plain, first];
        assert_eq!(walk(first, &chain, 0x9000, &[]), chain[..4], "the last but one has a rule");
        let cut = [plain, second, third];
        assert_eq!(walk(plain, &cut, 0x9000, &[]), [plain], "its register leads nowhere");
        // The first frame is in the copy, the second beyond.
        let copied = [0x9000, second];
        assert_eq!(walk(first, &chain, 0x7000, &copied), chain[..4]);
        let outside = [first, second, 0xdead_0000, third];
        assert_eq!(walk(first, &outside, 0x9000, &[]), outside[..2], "no code");
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
        let mut number = |image| unwinder.files.number(image, &own);
        assert_eq!(number(&second), number(&third));
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

    /// The file of an image is read from memory if another one is at its path by now: from then on, for this image only.
    #[test]
    fn a_file_that_is_not_at_its_path_is_read_from_memory() {
        let (own, address) = own_file(1);
        let image = |build_id: &[u8]| {
            let build_id = build_id.to_vec();
            Arc::new(Image { size: u64::MAX, build_id, ..Image::default() })
        };
        let [replaced, other, known] = [&[][..], b"another", &[]].map(image);
        let mut unwinder = Unwinder::default();
        own.is_replaced.set(true);
        own.is_in_memory.set(true);
        assert!(!matches!(rule_of(&mut unwinder, &replaced, address, &own), KnownRule::None));
        // Neither file has the build id.
        own.is_replaced.set(false);
        assert!(matches!(rule_of(&mut unwinder, &other, address, &own), KnownRule::None));
        rule_of(&mut unwinder, &known, address, &own);
        let mut number = |image| unwinder.files.number(image, &own);
        assert_ne!(number(&replaced), number(&known));
    }

    /// The addresses of a row have one rule, which is read once.
    #[test]
    fn the_next_address_of_a_row_needs_no_file() {
        let (own, address) = own_file(1);
        let image = Arc::new(Image { size: u64::MAX, ..Image::default() });
        let mut unwinder = Unwinder::default();
        let KnownRule::Row(row) = rule_of(&mut unwinder, &image, address, &own) else { return };
        let read = |at, size| own.read(&Image::default(), Some(own.identity), at, size);
        let found = Tables::read(&read, usize::MAX).unwrap().rule(address, &read).unwrap();
        let last = found.end - 1;
        own.is_replaced.set(true);
        let KnownRule::Row(same) = rule_of(&mut unwinder, &image, last, &own) else {
            panic!("{last:#x} has no rule")
        };
        assert_eq!(row, same);
    }

    /// OV-24: the rules of a file without a search table, as static programs are linked, are those of the same file with one.
    #[test]
    fn a_file_without_a_search_table_has_the_same_rules() {
        let mut bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        fn part(bytes: &[u8], at: u64, size: usize) -> Option<Vec<u8>> {
            let rest = bytes.get(usize::try_from(at).ok()?..)?;
            Some(rest[..size.min(rest.len())].to_vec())
        }
        let with = bytes.clone();
        let with = |at, size| part(&with, at, size);
        let tables = Tables::read(&with, usize::MAX).unwrap();
        let starts = tables.functions(1000, &with);
        // Program headers that name no table.
        let header = bytes.windows(4).take(4096).position(|four| four == [0x50, 0xe5, 0x74, 0x64]);
        bytes[header.unwrap()] = 0;
        let without = |at, size| part(&bytes, at, size);
        let own = Tables::read(&without, usize::MAX).unwrap();
        assert_eq!(tables.bytes_kept(), 0);
        assert!(own.bytes_kept() >= 16 * starts.len());
        for address in starts.iter().flat_map(|start| [*start, start + 1]) {
            let rule = |tables: &Tables, read: tables::ReadBytes<'_>| {
                tables
                    .rule(address, read)
                    .map(|found| (found.start, found.end, Row::of(&found.rule)))
            };
            let (one, other) = (rule(&tables, &with), rule(&own, &without));
            assert_eq!(one, other, "{address:#x}");
        }
        // Nothing is found in a file without sections either.
        bytes[0x28..0x30].fill(0xff);
        assert!(Tables::read(&|at, size| part(&bytes, at, size), usize::MAX).is_none());
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
        let tables = Tables::read(&whole, usize::MAX).unwrap();
        let functions = tables.functions(1000, &whole);
        assert!(functions.iter().all(|start| tables.rule(*start, &whole).is_some()));
        let mut seed = 1u64;
        for _ in 0..500 {
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
            let found = Tables::read(&damaged, usize::MAX);
            let tables = found.as_ref().unwrap_or(&tables);
            let address = functions[next() % functions.len()];
            let Some(rule) = tables.rule(address, &damaged) else { continue };
            let stack: Vec<u8> = (0..512).map(|_| next() as u8).collect();
            let registers: Vec<u8> =
                (0..14u64).flat_map(|_| (next() as u64 % 1024).to_le_bytes()).collect();
            let user = UserState { registers: &registers, stack: &stack };
            let mut frame = Frame::innermost(&user).unwrap();
            let _ = apply(&mut frame, &rule.rule);
        }
    }
}
