//! The cost of events: disabled, filtered, enabled on one and two threads, beside a hand-written floor in the same run; how long
//! single writes take. One JSON object a figure.
//!
//! `cargo run --release -p openetw --features session --example cost`
use etw::{Keyword, Level, LevelKeyword, Session, write_event};
use std::hint::black_box;
use std::time::{Duration, Instant};

#[path = "measuring/floor.rs"]
mod floor;
#[path = "measuring/event.rs"]
mod measuring;
use floor::{Floor, median, nanoseconds, pinned, quartile};
use measuring::{BENCH, TEXT, event, figure};

/// Events of one burst: a session's pool of 16 MiB takes it whole, so the host does not run meanwhile.
const BURST: u64 = 20_000;
const ROUNDS: usize = 60;

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
            floor.write(black_box(n), black_box(TEXT));
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

/// Turns of a loop.
const MANY: u64 = 50_000_000;

/// A function of its own, like the next one: their loops have the same place in a line, whatever else the program has.
#[inline(never)]
fn empty_turns() {
    for n in 0..MANY {
        black_box(n);
    }
}

#[inline(never)]
fn disabled_turns() {
    for n in 0..MANY {
        black_box(n);
        write_event!(BENCH, "Off", level(Informational), u64("n", &n));
    }
}

fn costs() -> Result<(), Box<dyn std::error::Error>> {
    let turn = median((0..5).map(|_| nanoseconds(MANY, empty_turns)).collect());
    let disabled = median((0..5).map(|_| nanoseconds(MANY, disabled_turns)).collect());
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

    latencies();
    let lost = session.stop()?.ledger.lost_total();
    figure("lost while measuring", lost as f64, "events");
    Ok(())
}

/// Single writes, paced, each beside an empty turn and a write of the floor, which the machine delays as often. The median of the empty turns
/// is the cost of the clock.
fn latencies() {
    let pause = || {
        let until = Instant::now() + Duration::from_micros(1);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    };
    let timed = |all: &mut Vec<f64>, run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        all.push(start.elapsed().as_nanos() as f64);
        pause();
    };
    let [mut single, mut empty, mut floors] = [const { Vec::new() }; 3];
    let mut floor = Floor::new();
    for n in 0..300_000i32 {
        timed(&mut single, &mut || event(black_box(n), black_box(TEXT)));
        timed(&mut empty, &mut || {
            black_box(n);
        });
        timed(&mut floors, &mut || {
            floor.write(black_box(n), black_box(TEXT));
        });
    }
    for all in [&mut single, &mut empty, &mut floors] {
        all.sort_by(f64::total_cmp);
    }
    let own = empty[empty.len() / 2];
    let value = |all: &[f64], part: f64| (all[(all.len() as f64 * part) as usize] - own).max(0.0);
    for (what, all) in [
        ("latency", &single),
        ("latency of an empty turn", &empty),
        ("latency of the floor", &floors),
    ] {
        for (name, part) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)] {
            figure(&format!("{what} {name}"), value(all, part), "ns");
        }
    }
    let ratio = value(&single, 0.999) / value(&floors, 0.999).max(1.0);
    figure("latency p99.9 / the floor's", ratio, "x");
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
