//! Backpressure, waiting hosts, growth and retirement of a pool.
use crate::support::*;
use etw_ring::*;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// A sink without room gets the rest at the next drain, in order and once.
#[test]
fn a_sink_that_stops_loses_nothing() {
    let mut rig = rig(1 << 20);
    std::thread::scope(|s| {
        for thread in 0..4u32 {
            let writer = rig.writer.clone();
            s.spawn(move || {
                for n in 0..1000u32 {
                    put(&writer, &(thread << 16 | n).to_le_bytes()).unwrap();
                }
            });
        }
    });
    for n in 0..500 {
        rig.writer
            .write_in_overflow(&request(4), |r| r.put(&u32::to_le_bytes(9 << 16 | n)))
            .unwrap();
    }
    let mut seen = Vec::new();
    let mut last = 0;
    let mut rounds = 0;
    loop {
        let mut room = 37;
        let done = rig.reader.drain_while(&patient(), |r| {
            if room == 0 {
                return ControlFlow::Break(());
            }
            room -= 1;
            assert!(r.time >= last);
            last = r.time;
            seen.push(u32::from_le_bytes(r.payload.try_into().unwrap()));
            ControlFlow::Continue(())
        });
        rig.reader.advance();
        assert_eq!(done.late, 0);
        rounds += 1;
        if !done.stopped {
            break;
        }
    }
    assert!(rounds > 100);
    assert_eq!(seen.len(), 4500);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 4500);
    balance(&rig.reader);
}

/// A host that sleeps is woken when the pool fills up, not by every event.
#[test]
fn a_sleeping_host_is_woken_by_a_pool_that_fills() {
    let rig = rig(1 << 20);
    let start = Instant::now();
    std::thread::scope(|s| {
        let writer = rig.writer.clone();
        let control = &rig.control;
        let host = s.spawn(move || control.sleep(Duration::from_secs(600), || false));
        s.spawn(move || {
            put(&writer, b"one event wakes nobody").unwrap();
            std::thread::sleep(Duration::from_millis(50));
            assert!(!host.is_finished());
            while !host.is_finished() {
                let _ = put(&writer, &[0; 1000]);
            }
        });
    });
    assert!(start.elapsed() < Duration::from_secs(120));
    // Work that was there before sleeping.
    rig.control.sleep(Duration::from_secs(600), || true);
    assert!(start.elapsed() < Duration::from_secs(120));
}

#[test]
fn a_command_wakes_a_sleeping_host() {
    let rig = rig(1 << 17);
    let start = Instant::now();
    std::thread::scope(|s| {
        let control = &rig.control;
        let host = s.spawn(move || control.sleep(Duration::from_secs(600), || false));
        while !host.is_finished() {
            rig.control.wake();
            std::thread::yield_now();
        }
    });
    assert!(start.elapsed() < Duration::from_secs(120));
}

/// After retirement a writer refuses, and one that was in the middle finds zeros where the pool was.
#[cfg(target_os = "linux")]
#[test]
fn a_retired_pool_is_zeros() {
    let rig = rig(1 << 17);
    put(&rig.writer, b"kept until here").unwrap();
    let held = rig.writer.reserve_here(&request(4)).unwrap();
    let writer = rig.writer.clone();
    drop((rig.reader, rig.control));
    writer.retire().unwrap();
    let mut held = held;
    held.put(b"late");
    let _ = held.commit();
    assert_eq!(put(&writer, b"x"), Err(Refused::Detached));
}

/// A pool that grows while threads write: nothing is late, nothing looks hostile, nothing is doubled.
#[cfg(target_os = "linux")]
#[test]
fn a_pool_grows_under_writers() {
    let mut rig = rig(1 << 20);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    for _ in 0..1000 {
                        let _ = put(&rig.writer, &[7; 40]);
                    }
                }
            });
        }
        // A failure must not leave the writers running.
        struct Stop<'a>(&'a std::sync::atomic::AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let _stop = Stop(&stop);
        let mut last = 0;
        let mut drain = |reader: &mut Reader| {
            let done = reader.drain(&DrainOptions::default(), |r| {
                assert!(r.time >= last);
                last = r.time;
                assert_eq!(r.payload, [7; 40]);
            });
            reader.advance();
            // A writer that a busy machine stops in the middle for long is late.
            assert_eq!(done.hostile, 0, "{done:?}");
        };
        for n in 1..8 {
            for _ in 0..20 {
                drain(&mut rig.reader);
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(rig.writer.grow(Memory::shared(2 << 20).unwrap()).unwrap(), n);
            let segment = rig.writer.segment(n).unwrap().clone();
            rig.reader.add_segment(Source::Mapped(segment)).unwrap();
        }
    });
    rig.reader.drain(&patient(), |_| ());
    balance(&rig.reader);
}
