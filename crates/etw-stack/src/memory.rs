//! Reads of the thread's memory that cannot fault.
#![allow(unsafe_code)]

use core::ops::Range;

use crate::{limits, sys};

/// The number of words that are read at once around an address that may be unmapped.
const WINDOW: usize = 32;

/// The memory that a walk reads. Addresses on stacks of the running thread are read directly; others with a system call, [`WINDOW`] words
/// at once.
#[derive(Debug)]
pub(crate) struct Memory {
    stack: Range<u64>,
    /// The stack that a signal interrupted, if the handler has a stack of its own.
    other: Range<u64>,
    window: u64,
    words: [u64; WINDOW],
}

impl Memory {
    /// The memory of a thread with this stack pointer.
    #[inline]
    pub(crate) fn new(sp: u64) -> Memory {
        let (stack, other) = match limits::own_stack(sp) {
            Some(stack) => (stack, 0..0),
            None => Memory::elsewhere(sp),
        };
        Memory { stack, other, window: 1, words: [0; WINDOW] }
    }

    /// The memory of an alternate stack, or of a stack that the program allocated.
    #[cold]
    fn elsewhere(sp: u64) -> (Range<u64>, Range<u64>) {
        match sys::alternate_stack() {
            // Memory above the stack pointer cannot be unmapped while the handler runs on it.
            Some(stack) if stack.contains(&sp) => (sp..stack.end, limits::known_stack()),
            _ => (0..0, limits::known_stack()),
        }
    }

    /// Continues the walk here, behind a signal's frame.
    pub(crate) fn enter(&mut self, sp: u64) {
        if self.stack.contains(&sp) {
            return;
        }
        if let Some(own) = limits::own_stack(sp) {
            self.other = own;
        }
    }

    /// The word at an address, which is a multiple of 8.
    #[inline]
    pub(crate) fn read(&mut self, address: u64) -> Option<u64> {
        if address & 7 != 0 {
            return None;
        }
        let inside = |range: &Range<u64>| range.start <= address && address < range.end & !7;
        if inside(&self.stack) || inside(&self.other) {
            // SAFETY: aligned, and in a stack that this thread runs on or was interrupted on, which stays mapped above
            // the stack pointer; proven by `limits` or reported by the kernel. Volatile, since other threads may write there.
            return Some(unsafe { (address as *const u64).read_volatile() });
        }
        self.read_elsewhere(address)
    }

    /// Both words of a frame record, if it lies in the stack that the thread runs on, not below `lowest`.
    #[inline]
    pub(crate) fn read_record(&self, address: u64, lowest: u64) -> Option<[u64; 2]> {
        let room = self.stack.end.saturating_sub(address);
        if address & 7 != 0 || address < lowest.max(self.stack.start) || room < 16 {
            return None;
        }
        // SAFETY: as in `read`, for both words.
        Some(unsafe {
            let record = address as *const u64;
            [record.read_volatile(), record.add(1).read_volatile()]
        })
    }

    #[cold]
    #[inline(never)]
    fn read_elsewhere(&mut self, address: u64) -> Option<u64> {
        const SIZE: u64 = 8 * WINDOW as u64;
        // A multiple of its size, so that it never lies across two pages.
        let window = address & !(SIZE - 1);
        if self.window != window {
            self.window = 1;
            // SAFETY: the words as bytes.
            let bytes = unsafe {
                core::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), SIZE as usize)
            };
            if !sys::read_memory(window, bytes) {
                return None;
            }
            self.window = window;
        }
        Some(self.words[((address - window) / 8) as usize])
    }

    /// The eight bytes that end before an address, the last in the highest byte.
    pub(crate) fn bytes_before(&mut self, address: u64) -> Option<u64> {
        self.bytes_from(address.checked_sub(8)?)
    }

    /// The eight bytes from an address on, the first in the lowest byte.
    pub(crate) fn bytes_from(&mut self, address: u64) -> Option<u64> {
        let shift = (address & 7) * 8;
        let low = self.read(address & !7)?;
        if shift == 0 {
            return Some(low);
        }
        let high = self.read((address & !7).checked_add(8)?)?;
        Some(low >> shift | high << (64 - shift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_everywhere_or_nowhere() {
        let on_stack = [1_u64, 2, 3];
        let heap = Box::new([4_u64, 5, 6]);
        let sp = crate::registers::Registers::here().get(crate::arch::SP).unwrap();
        let mut memory = Memory::new(sp);
        let stack_at = on_stack.as_ptr() as u64;
        let heap_at = heap.as_ptr() as u64;
        assert!(memory.stack.contains(&stack_at) && !memory.stack.contains(&heap_at));
        for n in 0..3 {
            assert_eq!(memory.read(stack_at + 8 * n), Some(n + 1));
            assert_eq!(memory.read(heap_at + 8 * n), Some(n + 4));
        }
        for bad in [0, 8, stack_at + 1, heap_at + 4, 1 << 63, u64::MAX - 7, u64::MAX] {
            assert_eq!(memory.read(bad), None, "{bad:x}");
        }
        // After a failure the window holds nothing old.
        assert_eq!(memory.read(heap_at), Some(4));
        assert_eq!(memory.read_record(stack_at, 0), Some([1, 2]));
        assert_eq!(memory.read_record(stack_at, stack_at + 8), None);
        let top = memory.stack.end & !7;
        assert!(memory.read_record(top - 16, 0).is_some());
        for bad in [0, 8, stack_at + 4, sp - 8, top - 8, top, heap_at, 1 << 63, u64::MAX - 7] {
            assert_eq!(memory.read_record(bad, 0), None, "{bad:x}");
        }
        assert_eq!(memory.bytes_from(heap_at + 3), Some(5 << 40));
        assert_eq!(memory.bytes_before(heap_at + 16), Some(5));
        assert_eq!(memory.bytes_before(7), None);
    }
}
