//! Copies of programs' stacks, and the files whose rules walk them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use etw_system::neutral::Image;
use etw_system::perf::{UNWOUND_REGISTERS, UserState};
use etw_system::unwind::{ProcessImages, Unwinder};

/// Bytes of the copied stack that an input of [`unwind`] begins with.
pub const STACK_SIZE: usize = 256;
/// Where the file of such an input is mapped.
pub const BASE: u64 = 0x40_0000;

/// The copied registers and stack of a program, and the file that it executes. What a walk reads and finds is bounded. A second walk, which
/// knows the rules and the last walk, finds the same, and so do walks of stacks that differ from it in one word.
pub fn unwind(data: &[u8]) {
    let registers = 8 * UNWOUND_REGISTERS.count_ones() as usize;
    let Some((state, file)) = data.split_at_checked(registers + STACK_SIZE) else { return };
    let (registers, stack) = state.split_at(registers);
    let user = UserState { registers, stack };
    let image = Image { base: BASE, size: 1 << 20, path: b"/x".to_vec(), ..Image::default() };
    let images = ProcessImages { by_base: &BTreeMap::from([(BASE, Arc::new(image))]), version: 1 };
    let read_bytes = Cell::new(0);
    let read = |_: &[u8], at: u64, size: usize| {
        let rest = file.get(usize::try_from(at).ok()?..)?;
        let part = &rest[..size.min(rest.len())];
        read_bytes.set(read_bytes.get() + part.len());
        Some(part.to_vec())
    };
    // Addresses by frame pointers: hostile ones, too.
    let chain: Vec<u64> = stack
        .chunks_exact(8)
        .map_while(|word| word.try_into().map(u64::from_le_bytes).ok())
        .collect();
    let walk = |unwinder: &mut Unwinder, user: &UserState<'_>| {
        let mut frames = Vec::new();
        let end = unwinder.walk(1, images, user, &read, &mut frames);
        unwinder.add_callers_beyond(images, user, &chain, &read, &mut frames);
        assert!(frames.len() <= 193, "{} frames", frames.len());
        (frames, end)
    };
    let mut unwinder = Unwinder::default();
    let first = walk(&mut unwinder, &user);
    // The headers, the table, and two entries of at most 16 KiB for each frame.
    assert!(read_bytes.get() <= 3 * file.len() + 193 * (33 << 10), "{} bytes", read_bytes.get());
    assert_eq!(first, walk(&mut unwinder, &user), "a walk with known rules differs");
    let words = stack.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
    for (number, word) in words.enumerate().filter(|(_, word)| *word != 0) {
        let mut other = stack.to_vec();
        // Mostly the last frame then is one further out.
        let changed = if word < BASE { 0 } else { word ^ 8 };
        other[number * 8..number * 8 + 8].copy_from_slice(&changed.to_le_bytes());
        let other = UserState { registers, stack: &other };
        let wanted = walk(&mut Unwinder::default(), &other);
        assert_eq!(wanted, walk(&mut unwinder, &other), "the walk of a changed stack differs");
        assert_eq!(first, walk(&mut unwinder, &user), "the walk of the first stack differs");
    }
}
