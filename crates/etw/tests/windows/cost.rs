//! The cost of a write up to the system's function.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Instant;

use etw::{define_provider, write_event};

use crate::recorder::Recorder;

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all memory comes from and goes to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the layout is the caller's, which has a size other than zero.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: `start` is from the system's allocator, by `alloc`.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

define_provider!(SHOP, "Windows.Cost");

#[test]
fn a_write_allocates_nothing() {
    let recorder = Recorder::start();
    let _registration = SHOP.register();
    let write = |number: u32| {
        let status =
            write_event!(SHOP, "Sold", u32("Count", &number), str8("What", "0123456789abcdef"));
        assert!(status.is_success());
    };
    let time = |f: &dyn Fn()| {
        let start = Instant::now();
        f();
        start.elapsed().as_nanos() as f64 / 1e6
    };
    let empty = time(&|| {
        (0..1_000_000).for_each(|number| {
            std::hint::black_box(number);
        })
    });
    let disabled = time(&|| (0..1_000_000).for_each(&write));
    recorder.enable(SHOP.id(), 5, 0, 0);
    let before = ALLOCATIONS.get();
    let mut enabled = 0.0;
    let count = recorder.count(|| {
        enabled = time(&|| (0..1_000_000).for_each(&write));
    });
    assert_eq!((count, ALLOCATIONS.get() - before), (1_000_000, 0));
    // `cargo xtask wine --release -p openetw --test windows cost -- --nocapture` prints it; Wine's own function does nothing.
    println!(
        "a write: {disabled:.2} ns not enabled (an empty turn {empty:.2} ns), {enabled:.1} ns enabled, up to the system's function"
    );
}
