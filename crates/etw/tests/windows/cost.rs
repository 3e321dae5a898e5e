//! The cost of a write up to the system's function.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
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

const TEXT: &str = "0123456789abcdef";

define_provider!(SHOP, "Windows.Cost");

#[test]
fn a_write_allocates_nothing() {
    let recorder = Recorder::start();
    let _registration = SHOP.register();
    // Each turn as the example `cost` has it.
    const TURNS: u32 = 1_000_000;
    let empty = || {
        for number in 0..TURNS {
            black_box(number);
        }
    };
    let write = || {
        for number in 0..TURNS {
            black_box(number);
            write_event!(SHOP, "Sold", u32("Count", &number), str8("What", black_box(TEXT)));
        }
    };
    let best = |f: &dyn Fn()| (0..5).map(|_| time(f)).fold(f64::INFINITY, f64::min);
    let (turn, disabled) = (best(&empty), best(&write));
    recorder.enable(SHOP.id(), 5, 0, 0);
    let before = ALLOCATIONS.get();
    let mut enabled = 0.0;
    let count = recorder.count(|| enabled = best(&write));
    assert_eq!((count, ALLOCATIONS.get() - before), (5 * u64::from(TURNS), 0));
    // `cargo xtask wine --release -p openetw --test windows cost -- --nocapture` prints it; the recorder's function counts.
    println!(
        "a write: {disabled:.2} ns not enabled ({:.2} empty turns of {turn:.2} ns), {enabled:.1} ns enabled, up to the system's function",
        disabled / turn
    );
}

/// Nanoseconds of one turn of a million.
fn time(f: &dyn Fn()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_nanos() as f64 / 1e6
}
