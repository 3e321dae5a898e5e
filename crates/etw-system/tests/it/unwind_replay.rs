//! The seeds of the fuzz target for hostile files, replayed on stable, and 2000 mutants of them. `ETW_BLESS=1` rewrites them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use etw_system::neutral::Image;
use etw_system::perf::{UNWOUND_REGISTERS, UserState};
use etw_system::unwind::{End, ProcessImages, Unwinder};

use crate::replay::replaying::replay;

#[path = "../../../../fuzz/src/unwind.rs"]
mod target;
use target::{BASE, STACK_SIZE};

/// Offsets in the files below, which are their addresses, too.
const TABLE: u32 = 0xb0;
const COMMON: u32 = 0xd0;
const FIRST_CODE: u32 = 0x1000;
const SECOND_CODE: u32 = 0x2000;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn program_header(kind: u32, offset: u64, size: u64) -> Vec<u8> {
    let mut header = words(&[kind, 5]);
    header.extend([offset, offset, offset, size, size, 4096].iter().flat_map(|n| n.to_le_bytes()));
    header
}

/// An entry of `.eh_frame`, padded with instructions that do nothing.
fn entry(mut body: Vec<u8>) -> Vec<u8> {
    body.resize(body.len().next_multiple_of(4), 0);
    [words(&[body.len() as u32]), body].concat()
}

/// An entry of the function at `code`, which lies at `at`.
fn function(at: u32, code: u32, instructions: &[u8]) -> Vec<u8> {
    let head = words(&[at + 4 - COMMON, code.wrapping_sub(at + 8), 0x1000]);
    // No data of its own kind.
    entry([&head, &[0][..], instructions].concat())
}

/// A file with two functions, whose entries have these instructions.
fn file(first: &[u8], second: &[u8]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(64, 0);
    file[0x20] = 64;
    file[0x36] = 56;
    file[0x38] = 2;
    file.extend(program_header(1, 0, 0x4000));
    file.extend(program_header(0x6474_e550, TABLE.into(), 28));
    // Version 1, "zR", code in units of 1 and data of -8, return address in register 16; pointers from here, of four bytes. The frame
    // begins 8 bytes behind register 7; the return address lies in front of it.
    let common = [&words(&[0])[..], b"\x01zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01"].concat();
    let mut entries = entry(common);
    let first_at = COMMON + entries.len() as u32;
    entries.extend(function(first_at, FIRST_CODE, first));
    let second_at = COMMON + entries.len() as u32;
    entries.extend(function(second_at, SECOND_CODE, second));
    file.extend([1, 0x1b, 3, 0x3b]);
    file.extend(words(&[COMMON.wrapping_sub(TABLE + 4), 2]));
    for (code, at) in [(FIRST_CODE, first_at), (SECOND_CODE, second_at)] {
        file.extend(words(&[code - TABLE, at - TABLE]));
    }
    file.resize(COMMON as usize, 0);
    file.extend(entries);
    file.extend([0; 4]);
    file
}

/// The same walk by a file that has sections and no table: the section `.eh_frame` lies at its end, the headers and names behind it.
fn without_table() -> Vec<u8> {
    let elf = file(&[0x0e, 16], &[0x0e, 24]);
    let (frames, end) = (u64::from(COMMON), elf.len() as u64);
    with_section(elf, b".eh_frame", 0, frames..end)
}

/// The same by a file with its rules in the compressed section `.debug_frame`: in one block that is stored as it is.
fn compressed() -> Vec<u8> {
    // Version 1, code in units of 1 and data of -8, return address in register 16; the frame as above.
    let common = [&words(&[u32::MAX])[..], b"\x01\0\x01\x78\x10\x0c\x07\x08\x90\x01"].concat();
    let mut entries = entry(common);
    for (code, size) in [(FIRST_CODE, 16), (SECOND_CODE, 24)] {
        let head = words(&[0, code, 0, 0x1000, 0]);
        entries.extend(entry([&head, &[0x0e, size][..]].concat()));
    }
    let size = entries.len() as u16;
    let (mut low, mut high) = (1, 0);
    for byte in &entries {
        low = (low + u32::from(*byte)) % 65521;
        high = (high + low) % 65521;
    }
    let mut elf = file(&[], &[]);
    let start = elf.len() as u64;
    elf.extend(words(&[1, 0, size.into(), 0, 1, 0]));
    elf.extend([0x78, 1, 1]);
    elf.extend([size.to_le_bytes(), (!size).to_le_bytes()].concat());
    elf.extend(entries);
    elf.extend((high << 16 | low).to_be_bytes());
    let end = elf.len() as u64;
    with_section(elf, b".debug_frame", 0x800, start..end)
}

/// The walk of [`plain`] by a file with one more section, of which the program headers do not say where its table is.
fn with_section(mut elf: Vec<u8>, name: &[u8], flags: u64, bytes: Range<u64>) -> Vec<u8> {
    // The table's header is one of nothing.
    elf[64 + 56] = 0;
    let end = elf.len() as u64;
    elf[0x28..0x30].copy_from_slice(&end.to_le_bytes());
    (elf[0x3a], elf[0x3c], elf[0x3e]) = (64, 2, 1);
    let section = |name: u32, flags: u64, address: u64, offset: u64, size: u64| {
        let numbers = [flags, address, offset, size, 0, 0, 0].map(u64::to_le_bytes);
        [&words(&[name, 1])[..], &numbers.concat()].concat()
    };
    let names = [b"\0", name, b"\0"].concat();
    let Range { start, end: last } = bytes;
    elf.extend(section(1, flags, start, start, last - start));
    elf.extend(section(0, 0, 0, end + 128, names.len() as u64));
    elf.extend(names);
    [plain_state(), elf].concat()
}

/// Registers of a thread in the first function, with its stack at 0x7000.
fn registers() -> Vec<u8> {
    let count = UNWOUND_REGISTERS.count_ones() as usize;
    let mut all = vec![0u64; count];
    // The kernel's order on x86-64: rbx, rdi, rbp, rsp, address, r12 to r15.
    (all[2], all[3], all[4]) = (0x7040, 0x7000, BASE + u64::from(FIRST_CODE) + 0x10);
    all.iter().flat_map(|one| one.to_le_bytes()).collect()
}

/// A stack with these words.
fn stack(words: &[(usize, u64)]) -> Vec<u8> {
    let mut stack = vec![0; STACK_SIZE];
    for (at, word) in words {
        stack[*at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    stack
}

/// The first function has 8 bytes of its own, the second one 16, and the second one is called by the first address of nothing.
fn plain() -> Vec<u8> {
    [plain_state(), file(&[0x0e, 16], &[0x0e, 24])].concat()
}

fn plain_state() -> Vec<u8> {
    let second = BASE + u64::from(SECOND_CODE) + 0x20;
    [registers(), stack(&[(8, second), (32, 0)])].concat()
}

/// The frame is found by an expression: register 7 and 16.
fn by_expression() -> Vec<u8> {
    let second = BASE + u64::from(SECOND_CODE) + 0x20;
    let stack = stack(&[(8, second), (32, 0)]);
    let file = file(&[0x0f, 2, 0x77, 16], &[0x0f, 2, 0x77, 24, 0x10, 6, 2, 0x77, 0]);
    [registers(), stack, file].concat()
}

/// An expression that jumps to its own start.
fn endless() -> Vec<u8> {
    let file = file(&[0x0f, 3, 0x2f, 0xfd, 0xff], &[0x0f, 3, 0x2f, 0xfd, 0xff]);
    [registers(), stack(&[]), file].concat()
}

#[test]
fn hostile_files_cause_no_panic_and_bounded_work() {
    let seeds = [
        ("plain", plain()),
        ("by_expression", by_expression()),
        ("endless", endless()),
        ("recursion", recursion(8)),
        ("without_table", without_table()),
        ("compressed", compressed()),
    ];
    replay("unwind", &seeds, 2000, target::unwind);
}

fn walk(input: &[u8], build_id: &[u8]) -> (Vec<u64>, End) {
    let (state, file) = input.split_at(registers().len() + STACK_SIZE);
    let (registers, stack) = state.split_at(registers().len());
    let (path, build_id) = (b"/x".to_vec(), build_id.to_vec());
    let image = Image { base: BASE, size: 1 << 20, path, build_id, ..Image::default() };
    let images = ProcessImages { by_base: &BTreeMap::from([(BASE, Arc::new(image))]), version: 0 };
    let read = |_: &[u8], at: u64, size: usize| {
        let rest = &file[usize::try_from(at).ok()?.min(file.len())..];
        Some(rest[..size.min(rest.len())].to_vec())
    };
    let mut frames = Vec::new();
    let end =
        Unwinder::default().walk(1, images, &UserState { registers, stack }, &read, &mut frames);
    (frames.iter().map(|frame| frame.wrapping_sub(BASE)).collect(), end)
}

#[cfg(target_arch = "x86_64")]
#[test]
fn rules_and_expressions_lead_to_the_first_frame() {
    let frames = vec![0x1010, 0x2020];
    assert_eq!(walk(&plain(), &[]), (frames.clone(), End::Whole));
    assert_eq!(walk(&by_expression(), &[]), (frames.clone(), End::Whole));
    assert_eq!(walk(&without_table(), &[]), (frames.clone(), End::Whole));
    assert_eq!(walk(&compressed(), &[]), (frames, End::Whole));
    assert_eq!(walk(&endless(), &[]), (vec![0x1010], End::Cut));
}

/// The stack of a thread that calls the second function many times over, through its frame pointer or not.
fn recursion(depth: usize) -> Vec<u8> {
    let second = BASE + u64::from(SECOND_CODE) + 0x20;
    let mut words = vec![(8, second)];
    // Frames of 24 bytes behind the first one of 16, with the frame pointer in front of the return address.
    let frame = |number: usize| 0x7010 + number as u64 * 24;
    words.extend((0..depth).flat_map(|number| {
        let caller = if number + 1 == depth { 0 } else { second };
        let at = 16 + number * 24;
        [(at + 8, frame(number) + 5), (at + 16, caller)]
    }));
    let file = file(&[0x0e, 16], &[0x0e, 24, 0x86, 2]);
    [registers(), stack(&words), file].concat()
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_walk_that_follows_the_last_one_finds_what_is_there_now() {
    let input = recursion(8);
    let (state, file) = input.split_at(registers().len() + STACK_SIZE);
    let (registers, stack) = state.split_at(registers().len());
    let image = Image { base: BASE, size: 1 << 20, path: b"/x".to_vec(), ..Image::default() };
    let by_base = BTreeMap::from([(BASE, Arc::new(image))]);
    let read = |_: &[u8], at: u64, size: usize| {
        let rest = &file[usize::try_from(at).ok()?.min(file.len())..];
        Some(rest[..size.min(rest.len())].to_vec())
    };
    let mut unwinder = Unwinder::default();
    let mut walk = |thread: u32, version: u64, stack: &[u8]| {
        let mut frames = Vec::new();
        let images = ProcessImages { by_base: &by_base, version };
        let user = UserState { registers, stack };
        let end = unwinder.walk(thread, images, &user, &read, &mut frames);
        (frames, end)
    };
    let (whole, end) = walk(1, 1, stack);
    assert_eq!((whole.len(), end), (9, End::Whole));
    assert_eq!(walk(1, 1, stack), (whole.clone(), End::Whole));
    // A caller in the middle is another one; a function in the middle is the thread's first one; the copied stack ends in the middle.
    let mut other = stack.to_vec();
    other[16 + 2 * 24 + 16] ^= 4;
    let (frames, end) = walk(1, 1, &other);
    assert_eq!((frames.len(), end), (9, End::Whole));
    assert_eq!(frames[4], whole[4] ^ 4);
    assert_eq!((&frames[..4], &frames[5..]), (&whole[..4], &whole[5..]));
    let mut shorter = stack.to_vec();
    shorter[16 + 4 * 24 + 16..][..8].fill(0);
    assert_eq!(walk(1, 1, &shorter), (whole[..6].to_vec(), End::Whole));
    assert_eq!(walk(1, 1, &stack[..16 + 4 * 24]), (whole[..6].to_vec(), End::Cut));
    assert_eq!(walk(2, 2, stack), (whole, End::Whole));
}

/// A file that was replaced by another one has other rules.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_rules_of_a_replaced_file_are_not_used() {
    let (frames, _) = walk(&plain(), &[1, 2, 3]);
    assert_eq!(frames, [0x1010]);
}
