//! The bounds of the calling thread's own stack, as far as it is proven to be readable.
//!
//! No call that returns a thread's stack is async-signal-safe (`pthread_getattr_np` locks, allocates and reads `/proc/self/maps`). But
//! an address above all frames is known: for the first thread, the address where the kernel put the program's name; for other
//! threads, the thread pointer, since C libraries put the thread's descriptor on top of its stack. If all pages from the stack pointer
//! up to that address are readable, the stack pointer lies in that stack, since a guard or a gap separates two stacks. Both ends are
//! kept for the thread's next capture; a stack does not shrink while its thread lives.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed, compiler_fence};

use crate::{arch, sys};

/// Larger than any stack; bounds the probing.
const MAX_SIZE: u64 = 256 << 20;

/// The thread's known bounds. Handlers of the same thread read and write them between any two instructions. Each word is correct by
/// itself: every `floor` was proven against the one `top` of the thread's stack.
struct Own {
    floor: AtomicU64,
    top: AtomicU64,
    /// A stack pointer in this range was found to lie in no known stack.
    foreign: AtomicU64,
    foreign_end: AtomicU64,
}

thread_local! {
    // Constant and without a destructor: nothing is registered or allocated at the first use.
    static OWN: Own = const {
        Own {
            floor: AtomicU64::new(u64::MAX),
            top: AtomicU64::new(0),
            foreign: AtomicU64::new(u64::MAX),
            foreign_end: AtomicU64::new(0),
        }
    };
}

/// The range that can be read directly, from the stack pointer upwards: the thread's own stack, if `sp` lies in it.
#[inline]
pub(crate) fn own_stack(sp: u64) -> Option<Range<u64>> {
    OWN.with(|own| {
        let top = own.top.load(Relaxed);
        if (own.floor.load(Relaxed)..top).contains(&sp) { Some(sp..top) } else { find(own, sp) }
    })
}

/// The thread's own stack from the lowest known address, if any is known.
pub(crate) fn known_stack() -> Range<u64> {
    OWN.with(|own| own.floor.load(Relaxed)..own.top.load(Relaxed))
}

#[cold]
#[inline(never)]
fn find(own: &Own, sp: u64) -> Option<Range<u64>> {
    let top = own.top.load(Relaxed);
    // The stack is deeper than ever before, or this is another stack.
    let (proven, top) = if top != 0 { (own.floor.load(Relaxed), top) } else { find_top() };
    if !(sp..sp.saturating_add(MAX_SIZE)).contains(&top)
        || (own.foreign.load(Relaxed)..own.foreign_end.load(Relaxed)).contains(&sp)
    {
        return None;
    }
    let end = sys::readable_until(sp, proven);
    if end < proven {
        own.foreign.store(sp, Relaxed);
        own.foreign_end.store(end, Relaxed);
        return None;
    }
    // In this order: a handler between the two finds no range, and proves its own.
    own.floor.store(sp, Relaxed);
    compiler_fence(core::sync::atomic::Ordering::SeqCst);
    own.top.store(top, Relaxed);
    Some(sp..top)
}

/// The address above all frames, twice: nothing below it is proven.
fn find_top() -> (u64, u64) {
    // A child that another thread than the first one forked has neither; its stack is read with system calls.
    let top = if sys::is_main_thread() { sys::main_stack_top() } else { arch::thread_pointer() };
    (top, top)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> u64 {
        crate::registers::Registers::here().get(arch::SP).unwrap()
    }

    #[test]
    fn a_thread_finds_its_stack() {
        let sp = here();
        let stack = own_stack(sp).unwrap();
        assert_eq!(stack.start, sp);
        // Rust's test threads have 2 MiB.
        assert!(stack.end > sp && stack.end - sp < 2 << 20, "{stack:x?}");
        assert_eq!(known_stack(), stack);
        assert_eq!(own_stack(sp + 64), Some(sp + 64..stack.end));
    }

    #[test]
    fn memory_below_a_hole_is_not_its_stack() {
        let heap = Box::new([0_u64; 4096]);
        let inside = (&raw const *heap) as u64;
        for _ in 0..2 {
            assert_eq!(own_stack(inside), None);
            assert_eq!(own_stack(16), None);
        }
        assert!(own_stack(here()).is_some());
    }
}
