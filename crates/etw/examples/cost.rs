//! The cost of events: disabled, filtered, enabled on one and two threads, beside a hand-written floor in the same run; how long
//! single writes take. One JSON object a figure.
//!
//! `cargo run --release -p openetw --features session --example cost`
use etw::{Keyword, Level, LevelKeyword, Session, write_event};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[path = "measuring/event.rs"]
mod measuring;
use measuring::{BENCH, TEXT, event, figure};

/// Events of one burst: a session's pool of 16 MiB takes it whole, so the host does not run meanwhile.
const BURST: u64 = 20_000;
const ROUNDS: usize = 60;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The first: machines are shared, and what disturbs a burst makes it slower, never faster.
fn quartile(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 4]
}

fn nanoseconds(count: u64, run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_nanos() as f64 / count as f64
}

/// The floor: gate, clock, an 80-byte header and two pieces copied into 16 MiB that nobody reads, one release store.
struct Floor {
    memory: Vec<u64>,
    at: usize,
    head: AtomicU64,
    gate: AtomicU64,
}

impl Floor {
    fn new() -> Floor {
        Floor { memory: vec![1; 2 << 20], at: 0, head: AtomicU64::new(0), gate: AtomicU64::new(1) }
    }

    #[inline(never)]
    fn write(&mut self, pieces: &[&[u8]]) {
        if self.gate.load(Ordering::Relaxed) == 0 {
            return;
        }
        let size = 80 + pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let room = size.next_multiple_of(8);
        if self.at + room > self.memory.len() * 8 {
            self.at = 0;
        }
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 has it.
        let time = unsafe { core::arch::x86_64::_rdtsc() };
        #[cfg(not(target_arch = "x86_64"))]
        let time = 0;
        // SAFETY: `at + room` lies in the memory.
        unsafe {
            let to = self.memory.as_mut_ptr().cast::<u8>().add(self.at);
            // Word by word: an array would be made on the stack and copied, at twice the cost.
            let words = to.cast::<u64>();
            words.write(size as u64);
            words.add(1).write(1);
            words.add(2).write(time);
            words.add(3).write(3);
            words.add(4).write(4);
            words.add(5).write(5);
            words.add(6).write(6);
            words.add(7).write(7);
            words.add(8).write(8);
            words.add(9).write(9);
            let mut to = to.add(80);
            for piece in pieces {
                std::ptr::copy_nonoverlapping(piece.as_ptr(), to, piece.len());
                to = to.add(piece.len());
            }
        }
        self.at += room;
        self.head.store(self.at as u64, Ordering::Release);
    }
}

fn burst(count: u64) -> f64 {
    nanoseconds(count, || {
        for n in 0..count as i32 {
            event(black_box(n), black_box(TEXT));
        }
    })
}

fn floor_burst(floor: &mut Floor) -> f64 {
    nanoseconds(BURST, || {
        for n in 0..BURST as i32 {
            let n = black_box(n).to_le_bytes();
            floor.write(&[&n, black_box(TEXT.as_bytes())]);
        }
    })
}

fn session() -> Result<Session, etw::SessionError> {
    Session::builder("cost").memory().pool_size(16 << 20, 16 << 20).start()
}

/// Ours and the floor in turn, in nanoseconds.
fn one_thread() -> Result<(f64, f64), etw::SessionError> {
    let session = session()?;
    session.enable(&BENCH, Level::VERBOSE, Keyword(0))?;
    let mut floor = Floor::new();
    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        floors.push(floor_burst(&mut floor));
        ours.push(burst(BURST));
        // The host drains the events outside of the measured time.
        session.statistics()?;
    }
    if session.stop()?.ledger.lost_total() > 0 {
        figure("lost while measuring", 1.0, "events");
    }
    Ok((quartile(ours), quartile(floors)))
}

/// Runs it with this thread, and those that it starts, on one processor: memory that another processor has read costs more to write
/// to, which the floor, read by nobody, does not know.
fn pinned<T>(run: impl FnOnce() -> T) -> std::io::Result<T> {
    #[cfg(target_os = "linux")]
    // SAFETY: sets of this thread's own, of their own size.
    unsafe {
        let (mut before, mut one): (libc::cpu_set_t, libc::cpu_set_t) = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        if libc::sched_getaffinity(0, size, &raw mut before) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        libc::CPU_SET(libc::sched_getcpu() as usize, &mut one);
        if libc::sched_setaffinity(0, size, &raw const one) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        let result = run();
        libc::sched_setaffinity(0, size, &raw const before);
        Ok(result)
    }
    #[cfg(not(target_os = "linux"))]
    Ok(run())
}

fn costs() -> Result<(), Box<dyn std::error::Error>> {
    const MANY: u64 = 50_000_000;
    let turn = median(
        (0..5)
            .map(|_| {
                nanoseconds(MANY, || {
                    (0..MANY).for_each(|n| {
                        black_box(n);
                    })
                })
            })
            .collect(),
    );
    let disabled = median(
        (0..5)
            .map(|_| {
                nanoseconds(MANY, || {
                    for n in 0..MANY {
                        black_box(n);
                        write_event!(BENCH, "Off", level(Informational), u64("n", &n));
                    }
                })
            })
            .collect(),
    );
    figure("empty loop turn", turn, "ns");
    figure("disabled, inlined", disabled, "ns");
    figure("disabled / empty loop turn", disabled / turn, "x");

    let (ours, floor) = pinned(one_thread)??;
    figure("floor, one thread", floor, "ns");
    figure("enabled, one thread", ours, "ns");
    figure("enabled / floor", ours / floor, "x");
    let (apart, _) = one_thread()?;
    figure("enabled, one thread, host on any processor", apart, "ns");

    let session = session()?;
    let wanted = LevelKeyword { level: Level(4), any: Keyword(4), ..LevelKeyword::ALL };
    session.enable_with(&BENCH, etw::EnableInfo { wanted, ..Default::default() })?;
    figure("filtered by keyword", median((0..5).map(|_| burst(1_000_000)).collect()), "ns");
    session.enable(&BENCH, Level::VERBOSE, Keyword(0))?;

    let gate = std::sync::Barrier::new(2);
    let two = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut all = Vec::new();
                    for _ in 0..ROUNDS {
                        gate.wait();
                        all.push(burst(BURST));
                        if gate.wait().is_leader() {
                            let _ = session.statistics();
                        }
                        gate.wait();
                    }
                    all
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    });
    let two = quartile(two);
    figure("enabled, two threads, each", two, "ns");
    figure("two threads' rate / one thread's", 2.0 * apart / two, "x");

    // Single writes, paced, with the clock's own cost taken off.
    let own = median(
        (0..1000)
            .map(|_| {
                let start = Instant::now();
                start.elapsed().as_nanos() as f64
            })
            .collect(),
    );
    let mut single = Vec::with_capacity(300_000);
    for n in 0..300_000 {
        let start = Instant::now();
        event(black_box(n), black_box(TEXT));
        single.push((start.elapsed().as_nanos() as f64 - own).max(0.0));
        let until = Instant::now() + Duration::from_micros(2);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }
    single.sort_by(f64::total_cmp);
    for (name, part) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)] {
        figure(&format!("latency {name}"), single[(single.len() as f64 * part) as usize], "ns");
    }
    let lost = session.stop()?.ledger.lost_total();
    figure("lost while measuring", lost as f64, "events");
    Ok(())
}

/// An event from so many calls further down.
#[inline(never)]
fn deep(depth: u32) {
    match depth {
        0 => event(black_box(7), black_box(TEXT)),
        _ => deep(black_box(depth - 1)),
    }
    // Not a tail call.
    black_box(());
}

/// Nanoseconds for an event with and without call stacks, from two depths, measured in turn.
fn stacks() -> Result<(), Box<dyn std::error::Error>> {
    const EVENTS: u64 = 5000;
    const DEPTHS: [u32; 2] = [0, 40];
    let session = session()?;
    let with = etw::EnableInfo {
        properties: etw::EnableProperties::STACK_TRACE,
        ..etw::EnableInfo::default()
    };
    let mut found = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        for (number, found) in found.iter_mut().enumerate() {
            match number / 2 {
                0 => session.enable(&BENCH, Level::VERBOSE, Keyword(0))?,
                _ => session.enable_with(&BENCH, with.clone())?,
            }
            let depth = DEPTHS[number % 2];
            found.push(nanoseconds(EVENTS, || (0..EVENTS).for_each(|_| deep(depth))));
            session.statistics()?;
        }
    }
    let [shallow, deeper, shallow_stack, deeper_stack] = found.map(quartile);
    figure("with its call stack", shallow_stack, "ns");
    figure("with its call stack, 40 frames deeper", deeper_stack, "ns");
    let frames = (deeper_stack - deeper) - (shallow_stack - shallow);
    figure("call stack, a frame", frames / f64::from(DEPTHS[1]), "ns");
    let statistics = session.stop()?;
    let lacking = statistics.ledger.lost_total() + statistics.facts.without_stack;
    figure("lost or without stack while measuring", lacking as f64, "events");
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _registration = BENCH.register();
    costs()?;
    stacks()
}
