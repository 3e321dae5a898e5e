//! Many threads: order of time, stopped and ended threads.
use crate::support::*;
use etw_ring::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// 64 threads, some pausing, under drains: every record once, strict order of time over all drains, exact ledger, and
/// sequence numbers prove the losses.
#[test]
fn records_of_64_threads_drain_in_order_of_time() {
    many_threads(rig(4 << 20));
}

#[test]
fn records_of_64_threads_drain_in_order_with_fences_and_the_monotonic_clock() {
    many_threads(rig_of(2 << 20, Barrier::WriterFences, RawClock::Monotonic, false));
}

/// A pool far too small: overflow chunks, losses, and the same exactness.
#[test]
fn sixty_four_threads_share_a_tiny_pool() {
    many_threads(rig(256 * 1024));
}

fn many_threads(mut rig: Rig) {
    let stop = AtomicBool::new(false);
    let ok = AtomicU64::new(0);
    let (mut last, mut records) = (0, 0u64);
    let mut per_thread: HashMap<u32, u32> = HashMap::new();
    std::thread::scope(|scope| {
        for n in 0..64u32 {
            let (writer, stop, ok) = (&rig.writer, &stop, &ok);
            scope.spawn(move || {
                let mut i = 0u32;
                while !stop.load(Ordering::Relaxed) {
                    let size = 8 + (i.wrapping_mul(2654435761) >> 22) as usize % 300;
                    let done = writer.write(&request(size), |r| {
                        r.put(&n.to_le_bytes());
                        r.put(&i.to_le_bytes());
                        r.put(&vec![n as u8; size - 8]);
                    });
                    if done.is_ok() {
                        ok.fetch_add(1, Ordering::Relaxed);
                        i += 1;
                    } else {
                        std::thread::sleep(Duration::from_micros(300));
                    }
                    if n % 8 == 7 {
                        std::thread::sleep(Duration::from_micros(50));
                    }
                }
            });
        }
        let start = Instant::now();
        let mut ended = None;
        loop {
            let is_enough = records > 10_000 || start.elapsed() > Duration::from_secs(60);
            let ending = start.elapsed() > Duration::from_millis(1500) && is_enough;
            if ending {
                stop.store(true, Ordering::Relaxed);
                ended.get_or_insert_with(Instant::now);
            }
            let options = DrainOptions {
                patience: if ending { PATIENCE } else { Duration::ZERO },
                reclaim_idle: Some(Duration::from_millis(30)),
                ..Default::default()
            };
            let done = rig.reader.drain(&options, |r| {
                assert!(r.time >= last, "{} after {last}", r.time);
                last = r.time;
                records += 1;
                let n = u32::from_le_bytes(r.payload[..4].try_into().unwrap());
                let i = u32::from_le_bytes(r.payload[4..8].try_into().unwrap());
                assert!(r.payload[8..].iter().all(|b| *b == n as u8));
                let next = per_thread.entry(n).or_default();
                // Late records are missing: they are counted below.
                assert!(i >= *next, "thread {n}: {i} after {next}");
                *next = i + 1;
            });
            assert_eq!(done.hostile, 0);
            rig.reader.advance();
            if ended.is_some_and(|ended| ended.elapsed() > Duration::from_millis(200)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    rig.reader.drain(&patient(), |r| {
        assert!(r.time >= last);
        records += 1
    });
    rig.reader.advance();
    assert_eq!(rig.reader.drained()[0], records);
    assert_eq!(records + rig.reader.late()[0], ok.load(Ordering::Relaxed));
    balance(&rig.reader);
    assert!(rig.reader.gaps() <= rig.reader.ledger().lost_total(0));
    assert!(records > 10_000, "{records}");
}

/// A thread that gets no processor in the middle of a write for longer than the host's patience loses nothing.
#[cfg(target_os = "linux")]
#[test]
fn a_busy_thread_in_mid_write_is_waited_for() {
    let pid = std::process::id();
    // Records and late records of an attempt; `None` if the machine stopped this thread for too long.
    let attempt = || {
        let mut rig = rig(1 << 20);
        rig.reader.drain(&patient(), |_| ());
        rig.reader.advance();
        let state = ThreadState::new();
        let mut slow = rig.writer.reserve(&state, &request(4)).unwrap();
        slow.stamp_now();
        slow.put(b"slow");
        let busy = |tid| is_thread_busy(pid, tid);
        let start = Instant::now();
        for _ in 0..2 {
            let options = DrainOptions { busy: Some(&busy), ..Default::default() };
            rig.reader.drain(&options, |_| panic!("nothing is committed"));
            rig.reader.advance();
            std::thread::sleep(PATIENCE);
        }
        let options = DrainOptions { busy: Some(&busy), ..Default::default() };
        rig.reader.drain(&options, |_| panic!("nothing is committed"));
        rig.reader.advance();
        let waited = start.elapsed();
        slow.commit().unwrap();
        let done = rig.reader.drain(&patient(), |r| assert_eq!(r.payload, b"slow"));
        (waited < BUSY_PATIENCE).then_some((done.records, done.late))
    };
    assert_eq!((0..100).find_map(|_| attempt()), Some((1, 0)));
}

/// A thread stopped between its announcement and its commit delays a drain by at most 50 ms, costs nobody else a record,
/// and its own record is late, never out of order.
#[test]
fn a_thread_stopped_in_mid_write_is_late() {
    for stamped in [false, true] {
        let mut rig = rig(1 << 20);
        rig.reader.drain(&patient(), |_| ());
        rig.reader.advance();
        let state = ThreadState::new();
        put(&rig.writer, b"before").unwrap();
        let mut stopped = rig.writer.reserve(&state, &request(7)).unwrap();
        if stamped {
            stopped.stamp_now();
        }
        stopped.put(b"stopped");
        let writer = rig.writer.clone();
        std::thread::spawn(move || put(&writer, b"after").unwrap()).join().unwrap();
        // Not waiting: up to the write in flight.
        let mut seen = Vec::new();
        rig.reader.drain(&DrainOptions::default(), |r| seen.push(r.payload.to_vec()));
        assert!(!seen.contains(&b"after".to_vec()) || !stamped);
        let start = Instant::now();
        let done = rig.reader.drain(&patient(), |r| seen.push(r.payload.to_vec()));
        let took = start.elapsed();
        assert!(took < Duration::from_secs(30), "{took:?}");
        assert_eq!(done.given_up, 1);
        assert_eq!(seen, [b"before".to_vec(), b"after".to_vec()]);
        // It is not waited for again. One quick drain is enough: the machine may have other things to do.
        let mut is_quick = || {
            let start = Instant::now();
            rig.reader.drain(&patient(), |_| panic!("nothing is new"));
            start.elapsed() < Duration::from_millis(40)
        };
        assert!((0..200).any(|_| is_quick()));
        let late = stamped;
        stopped.commit().unwrap();
        let done = rig.reader.drain(&patient(), |r| {
            assert!(!late);
            assert_eq!(r.payload, b"stopped")
        });
        rig.reader.advance();
        assert_eq!((done.late, rig.reader.late()[0]), (late.into(), late.into()));
        balance(&rig.reader);
    }
}

/// The same through an overflow chunk.
#[test]
fn a_shared_write_stopped_midway_is_late() {
    let mut rig = rig(1 << 20);
    rig.reader.drain(&patient(), |_| ());
    let state = ThreadState::new();
    let outer = rig.writer.reserve(&state, &request(5)).unwrap();
    // Inside the outer write, so nested.
    let mut nested = rig.writer.reserve(&state, &request(6)).unwrap();
    nested.stamp_now();
    nested.put(b"nested");
    outer.commit().unwrap();
    rig.writer.write_in_overflow(&request(5), |r| r.put(b"other")).unwrap();
    let mut seen = Vec::new();
    let done = rig.reader.drain(&patient(), |r| seen.push(r.payload.len()));
    assert_eq!((done.given_up, seen.len()), (1, 2));
    nested.commit().unwrap();
    let done = rig.reader.drain(&patient(), |_| panic!("late"));
    assert_eq!(done.late, 1);
    balance(&rig.reader);
}

/// 200 threads that wrote once and sleep hold no memory that the 201st needs.
#[test]
fn chunks_of_idle_threads_are_reclaimed() {
    let mut rig = rig(1 << 20);
    let gate = std::sync::Barrier::new(201);
    let end = std::sync::Barrier::new(201);
    std::thread::scope(|scope| {
        for _ in 0..200 {
            scope.spawn(|| {
                put(&rig.writer, b"once").unwrap();
                gate.wait();
                end.wait();
                put(&rig.writer, b"twice").unwrap();
            });
        }
        gate.wait();
        for _ in 0..3 {
            let options = DrainOptions {
                patience: PATIENCE,
                reclaim_idle: Some(Duration::ZERO),
                ..Default::default()
            };
            rig.reader.drain(&options, |_| ());
            rig.reader.advance();
        }
        // Most of the pool is there again.
        for _ in 0..7000 {
            put(&rig.writer, &[1; 64]).unwrap();
        }
        rig.reader.drain(&patient(), |_| ());
        rig.reader.advance();
        end.wait();
    });
    rig.reader.drain(&patient(), |_| ());
    assert_eq!(rig.reader.drained()[0], 200 + 7000 + 200);
    assert_eq!(rig.reader.gaps(), 0);
    balance(&rig.reader);
}

/// A burst of many threads fits into a pool that has room for it, because none takes more than its share of the free chunks.
#[test]
fn a_burst_of_many_threads_fits_into_the_pool() {
    const THREADS: usize = 200;
    const EVENTS: usize = 120;
    let mut rig = rig(8 << 20);
    let begun = std::sync::Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                put(&rig.writer, &[1; 200]).unwrap();
                begun.wait();
                let lost = (0..EVENTS).filter(|_| put(&rig.writer, &[1; 200]).is_err()).count();
                assert_eq!(lost, 0);
            });
        }
    });
    rig.reader.drain(&patient(), |_| ());
    assert_eq!(rig.reader.drained()[0], (THREADS * (1 + EVENTS)) as u64);
    balance(&rig.reader);
}

/// Threads that come and go: their records are all there, their chunks come back, their slots are used again.
#[cfg(target_os = "linux")]
#[test]
fn chunks_and_slots_of_ended_threads_are_reused() {
    let mut rig = rig(512 * 1024);
    let pid = std::process::id();
    let alive = |tid| process_thread_alive(pid, tid);
    let mut seen = 0;
    for _ in 0..50 {
        for _ in 0..20 {
            std::thread::scope(|s| {
                s.spawn(|| put(&rig.writer, b"short").unwrap());
            });
        }
        // An exiting thread stays visible to the kernel for a moment; chunks are given 20 ms.
        std::thread::sleep(Duration::from_millis(22));
        let options =
            DrainOptions { patience: PATIENCE, alive: Some(&alive), ..Default::default() };
        for _ in 0..2 {
            rig.reader.drain(&options, |r| seen += r.payload.len() / 5);
            rig.reader.advance();
        }
    }
    assert_eq!(seen, 1000);
    assert_eq!(rig.reader.gaps(), 0);
    balance(&rig.reader);
}

/// A thread that writes and ends while a drain is under way: what it wrote comes with the next.
#[test]
fn a_thread_that_ends_in_the_middle_of_a_drain_loses_nothing() {
    let mut rig = rig(1 << 20);
    let options = DrainOptions {
        alive: Some(&|tid| process_thread_alive(std::process::id(), tid)),
        ..patient()
    };
    for round in 0..20u32 {
        let (write, writes) = std::sync::mpsc::channel::<()>();
        let writer = rig.writer.clone();
        let thread = std::thread::spawn(move || {
            put(&writer, &round.to_le_bytes()).unwrap();
            writes.recv().unwrap();
            for _ in 0..10 {
                put(&writer, &round.to_le_bytes()).unwrap();
            }
        });
        let mut thread = Some(thread);
        let mut seen = 0;
        let end = Instant::now() + Duration::from_secs(120);
        while seen < 11 {
            assert!(Instant::now() < end, "round {round}: {seen} of 11 records");
            let done = rig.reader.drain(&options, |r| {
                assert_eq!(r.payload, round.to_le_bytes());
                seen += 1;
                if let Some(thread) = thread.take() {
                    // The heads have been read; the chunk looks at rest for long before the drain settles.
                    write.send(()).unwrap();
                    thread.join().unwrap();
                    std::thread::sleep(Duration::from_millis(30));
                }
            });
            rig.reader.advance();
            assert_eq!((done.late, done.hostile, done.torn), (0, 0, 0));
        }
    }
    balance(&rig.reader);
}
