//! The cost of a write: ns for an event (i32 and a 32-byte string) beside a hand-written floor of the same shape, in the same
//! run, on one and two threads; and what a host drains.
//!
//! `cargo run --release -p etw-ring --example write_cost`
#![allow(missing_docs)]
#![allow(clippy::undocumented_unsafe_blocks)]

use etw_ring::*;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const EVENTS: u64 = 4_000_000;

/// The floor: gate, clock, an 80-byte header and the payload copied from two descriptors into a ring that nobody reads,
/// one release store.
struct Floor {
    ring: Vec<u64>,
    at: usize,
    head: AtomicU64,
    gate: AtomicU64,
}

struct Descriptor {
    ptr: *const u8,
    len: usize,
}

#[inline(never)]
fn floor(f: &mut Floor, descriptors: &[Descriptor], clock: RawClock) {
    if f.gate.load(Ordering::Relaxed) == 0 {
        return;
    }
    let size = 80 + descriptors.iter().map(|d| d.len).sum::<usize>();
    let room = size.next_multiple_of(8);
    if f.at + room > f.ring.len() * 8 {
        f.at = 0;
    }
    let time = clock.now();
    // SAFETY: `at + room` is inside the ring.
    unsafe {
        let p = f.ring.as_mut_ptr().cast::<u8>().add(f.at);
        let h = p.cast::<u64>();
        for (i, w) in [size as u64, 1, time, 3, 4, 5, 6, 7, 8, 9].into_iter().enumerate() {
            h.add(i).write(w);
        }
        let mut to = p.add(80);
        for d in descriptors {
            std::ptr::copy_nonoverlapping(d.ptr, to, d.len);
            to = to.add(d.len);
        }
    }
    f.at += room;
    f.head.store(f.at as u64, Ordering::Release);
}

fn floor_run(clock: RawClock) -> f64 {
    // As large as the pool.
    let mut f =
        Floor { ring: vec![0; 1 << 17], at: 0, head: AtomicU64::new(0), gate: AtomicU64::new(1) };
    let text = [b'x'; 32];
    let start = Instant::now();
    for i in 0..EVENTS as i32 {
        let i = black_box(i);
        let d = [
            Descriptor { ptr: (&raw const i).cast(), len: 4 },
            Descriptor { ptr: text.as_ptr(), len: black_box(32) },
        ];
        floor(&mut f, &d, clock);
    }
    start.elapsed().as_nanos() as f64 / EVENTS as f64
}

#[inline(never)]
fn write_one(writer: &Writer, site: u32, a: &[u8], b: &[u8]) -> bool {
    let size = (a.len() + b.len()) as u32;
    let request = Request {
        sessions: 1,
        registration: 1,
        site,
        payload_size: size,
        event_size: 80 + size,
        ..Default::default()
    };
    writer
        .write(&request, |r| {
            r.put(a);
            r.put(b);
        })
        .is_ok()
}

/// ns an event and lost events. The events that a writer makes while its chunk change finds no chunk cost more, not
/// less, than written ones; a run with losses is reported as such.
fn ring_run(writer: &Writer) -> (f64, u64) {
    let text = [b'x'; 32];
    let mut lost = 0;
    let start = Instant::now();
    for i in 0..EVENTS as i32 {
        let i = black_box(i);
        lost += u64::from(!write_one(writer, 1, &i.to_le_bytes(), &text[..black_box(32)]));
    }
    (start.elapsed().as_nanos() as f64 / EVENTS as f64, lost)
}

/// ns an event on each of `threads` threads: 4,000 events at a time, between which the pool is drained off the clock.
fn ring_only(threads: usize, clock: RawClock, barrier: Barrier) -> f64 {
    const BATCH: u64 = 4000;
    const ROUNDS: usize = 300;
    let control = Control::create(Memory::shared(Control::SIZE).unwrap(), clock, barrier).unwrap();
    control.set_admission(0, Admission { open: true, largest_size: 65535, ..Default::default() });
    let options = PoolOptions::default();
    let pool = Memory::shared(options.memory_size()).unwrap();
    let writer = Writer::new(pool, control.memory().clone(), options, 0).unwrap();
    let source = Source::Mapped(writer.segment(0).unwrap().clone());
    let reader = std::sync::Mutex::new(Reader::new(control, source).unwrap());
    let gate = std::sync::Barrier::new(threads);
    let mut times: Vec<f64> = std::thread::scope(|s| {
        let runs: Vec<_> = (0..threads)
            .map(|_| {
                s.spawn(|| {
                    let text = [b'x'; 32];
                    let mut times = Vec::new();
                    for _ in 0..ROUNDS {
                        gate.wait();
                        let start = Instant::now();
                        for i in 0..BATCH as i32 {
                            let i = black_box(i);
                            let b = black_box(32);
                            assert!(write_one(&writer, 1, &i.to_le_bytes(), &text[..b]));
                        }
                        times.push(start.elapsed().as_nanos() as f64 / BATCH as f64);
                        if gate.wait().is_leader() {
                            let mut reader = reader.lock().unwrap();
                            for _ in 0..2 {
                                reader.drain(
                                    &DrainOptions { patience: PATIENCE, ..Default::default() },
                                    |_| (),
                                );
                                reader.advance();
                            }
                        }
                    }
                    times
                })
            })
            .collect();
        runs.into_iter().flat_map(|r| r.join().unwrap()).collect()
    });
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let clock = RawClock::best();
    let barrier = Barrier::best(true);
    println!("clock {clock:?}, barrier {barrier:?}");
    let median = |mut v: Vec<f64>| {
        v.sort_by(f64::total_cmp);
        v[v.len() / 2]
    };
    floor_run(clock);
    let floor = median((0..9).map(|_| floor_run(clock)).collect());
    println!("floor, one thread                 {floor:6.1} ns");
    let one = ring_only(1, clock, barrier);
    println!("ring, one thread                  {one:6.1} ns   {:.2} × floor", one / floor);
    let two = ring_only(2, clock, barrier);
    println!(
        "ring, two threads, each           {two:6.1} ns   {:.2} × one thread's rate",
        2.0 * one / two
    );
    let fences = ring_only(1, clock, Barrier::WriterFences);
    println!("ring, without membarrier          {fences:6.1} ns");

    // With a host that drains to nothing, on the other core.
    let control = Control::create(Memory::shared(Control::SIZE).unwrap(), clock, barrier).unwrap();
    control.set_admission(0, Admission { open: true, largest_size: 65535, ..Default::default() });
    let options = PoolOptions { chunk_size: 4 << 20, prefault: usize::MAX };
    let pool = Memory::shared(options.memory_size()).unwrap();
    let writer = Arc::new(Writer::new(pool, control.memory().clone(), options, 0).unwrap());
    let source = Source::Mapped(writer.segment(0).unwrap().clone());
    let mut reader = Reader::new(control, source).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let host = s.spawn(|| {
            let (mut records, mut busy) = (0, Duration::ZERO);
            while !stop.load(Ordering::Relaxed) {
                let start = Instant::now();
                let mut sum = 0u64;
                let done = reader.drain(&DrainOptions::default(), |r| {
                    sum = sum.wrapping_add(u64::from(r.payload[0]));
                });
                reader.advance();
                black_box(sum);
                records += done.records;
                if done.records > 0 {
                    busy += start.elapsed();
                }
                if done.records < 10_000 {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
            (records, busy)
        });
        let mut runs = Vec::new();
        let mut lost = 0;
        for _ in 0..9 {
            let (ns, l) = ring_run(&writer);
            runs.push(ns);
            lost += l;
        }
        stop.store(true, Ordering::Relaxed);
        let (records, busy) = host.join().unwrap();
        let drained = median(runs);
        println!(
            "ring, drained meanwhile           {drained:6.1} ns   {:.2} × floor, {:.2} % lost",
            drained / floor,
            lost as f64 * 100.0 / (9 * EVENTS) as f64
        );
        println!(
            "host                              {:6.1} M records/s while it had any",
            records as f64 / busy.as_secs_f64() / 1e6
        );
    });
}
