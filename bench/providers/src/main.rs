//! The cost of a manifest's event from Rust, beside the floor. One JSON object a figure.

use etw::{Keyword, Level, Session};
use std::hint::black_box;

#[path = "../../../crates/etw/examples/measuring/floor.rs"]
mod floor;
use floor::{Floor, median, nanoseconds, pinned, quartile};

include!(concat!(env!("OUT_DIR"), "/bench.rs"));
use bench_manifest::{PROVIDER, request_taken};

const TEXT: &str = "a text of thirty-two characters.";
/// Events of one burst: the session's pool of 16 MiB takes it whole.
const BURST: u64 = 20_000;
const ROUNDS: usize = 60;
const MANY: u32 = 20_000_000;

fn figure(name: &str, value: f64, unit: &str) {
    println!("{{\"name\":\"Rust: {name}\",\"value\":{value:.3},\"unit\":\"{unit}\"}}");
}

#[inline(never)]
fn event(n: i32) {
    request_taken(n, black_box(TEXT));
}

/// A number that the compiler has in a register and knows nothing of, as in the loop of the C program. `black_box` would store and load it.
#[inline(always)]
fn unknown(mut n: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the assembly is empty.
    unsafe {
        std::arch::asm!("/* {0:e} */", inout(reg) n, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the assembly is empty.
    unsafe {
        std::arch::asm!("/* {0:w} */", inout(reg) n, options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        n = black_box(n);
    }
    n
}

/// Nanoseconds of one turn of a loop, the median of ten. The counter itself is unknown, as in the C program: neither compiler unrolls
/// the loop. It has 32 bits, as there: some processors count 64 bits by an immediate while they rename registers, and then run two empty
/// turns in one cycle.
#[inline(always)]
fn turn(one: impl Fn(u32)) -> f64 {
    let turns = MANY / 10;
    let each = (0..10).map(|_| {
        nanoseconds(u64::from(turns), || {
            let mut n = 0;
            while n < turns {
                n = unknown(n);
                one(n);
                n += 1;
            }
        })
    });
    median(each.collect())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _registration = bench_manifest::register();
    let empty = turn(|_| {});
    let disabled = turn(|n| {
        request_taken(n as i32, TEXT);
    });
    figure("empty loop turn", empty, "ns");
    figure("manifest event, not enabled", disabled, "ns");
    figure("manifest event, not enabled / empty loop turn", disabled / empty, "x");
    pinned(|| -> Result<(), Box<dyn std::error::Error>> {
        let session = Session::builder("cost").memory().pool_size(16 << 20, 16 << 20).start()?;
        session.enable(&PROVIDER, Level::VERBOSE, Keyword(0))?;
        let mut floor = Floor::new();
        let (mut ours, mut floors) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            floors.push(nanoseconds(BURST, || {
                for n in 0..BURST as i32 {
                    floor.write(black_box(n), black_box(TEXT));
                }
            }));
            ours.push(nanoseconds(BURST, || (0..BURST as i32).for_each(|n| event(black_box(n)))));
            session.statistics()?;
        }
        let (ours, floor) = (quartile(ours), quartile(floors));
        figure("floor", floor, "ns");
        figure("manifest event", ours, "ns");
        figure("manifest event / floor", ours / floor, "x");
        figure("lost while measuring", session.stop()?.ledger.lost_total() as f64, "events");
        Ok(())
    })?
}
