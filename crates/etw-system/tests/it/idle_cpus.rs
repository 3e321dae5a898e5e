//! Switches and wake-ups on idle CPUs, where a kernel may write no samples of perf. Tests that the machine refuses say so and pass.
#![cfg(target_os = "linux")]

use std::time::Duration;

use crate::ground_truth::{own_thread, settle};
use crate::live::{Live, record_with_stacks, told_of};

/// How often each thread sleeps for a millisecond.
const SLEEPS: usize = 200;

/// Records threads that sleep. Returns their ids.
fn sleep_in(live: &mut Live, threads: usize) -> Vec<u32> {
    let sleep = || {
        (0..SLEEPS).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
        own_thread()
    };
    let sleepers: Vec<_> = (0..threads).map(|_| std::thread::spawn(sleep)).collect();
    while !sleepers.iter().all(|one| one.is_finished()) {
        live.poll();
        std::thread::sleep(Duration::from_millis(1));
    }
    let threads = sleepers.into_iter().map(|one| one.join().unwrap()).collect();
    settle(live);
    threads
}

/// OV-23: switches with call stacks are recorded from idle CPUs, too, where a kernel may write no samples of perf.
#[test]
fn switches_with_stacks_are_recorded_from_idle_cpus() {
    let (mut threads, mut mechanism) = (Vec::new(), String::new());
    let recording = |live: &mut Live| {
        mechanism = live.mechanism();
        threads = sleep_in(live, 2);
    };
    let recording = record_with_stacks("process,thread,cswitch", &[0x0524], None, recording);
    let Some(recording) = recording else { return };
    eprintln!("{mechanism}");
    if !told_of("cswitch").0.contains("BPF programs") {
        return eprintln!("left out: this kernel or user permits no programs");
    }
    for thread in threads {
        let count = |at: usize| {
            let of = recording.records.iter().filter(|one| one.hook == 0x0524);
            of.filter(|one| one.u32(at) == thread).count()
        };
        let (to, from) = (count(0), count(4));
        // The kernel leaves a switch out now and then.
        assert!(to + 10 >= from && from >= SLEEPS, "{to} to {thread}, {from} from it");
    }
}

/// OV-23: the same of wake-ups, whose call stacks begin where the kernel wakes a thread, whoever records them.
#[test]
fn wake_ups_with_stacks_are_recorded_on_idle_cpus() {
    let (mut thread, mut mechanism) = (0, String::new());
    let recording = |live: &mut Live| {
        mechanism = live.mechanism();
        thread = sleep_in(live, 1)[0];
    };
    let recording =
        record_with_stacks("process,thread,cswitch,dispatcher", &[0x0532], None, recording);
    let Some(recording) = recording else { return };
    if !told_of("dispatcher").0.contains("BPF programs") {
        return eprintln!("left out: this kernel or user permits no programs");
    }
    assert!(mechanism.contains("sched/sched_waking:idle"), "{mechanism}");
    let records = &recording.records;
    let wakes = records.iter().filter(|one| one.hook == 0x0532 && one.u32(0) == thread);
    let wakes = wakes.count();
    // The kernel may leave out those while another thread runs.
    assert!(wakes >= SLEEPS * 8 / 10, "{wakes}");
    // Those that perf recorded so far.
    let mut known = Vec::new();
    let (mut of_idle, mut trimmed) = (0, 0);
    for (at, record) in records.iter().enumerate().filter(|(_, one)| one.hook == 0x0532) {
        let stack = records[at + 1..].iter().take(2).find(|one| one.hook == 0x1820);
        let Some(stack) = stack.filter(|stack| stack.time == record.time) else { continue };
        // Behind the time, the process and the thread.
        let frames = stack.payload[16..].chunks_exact(8);
        let frames = frames.map(|one| u64::from_le_bytes(one.try_into().unwrap()));
        let frames: Vec<u64> = frames.collect();
        if record.thread != 0 {
            known.push(frames[0]);
        } else if let Some(first) = frames.iter().position(|frame| known.contains(frame)) {
            of_idle += 1;
            trimmed += usize::from(first == 0);
        }
    }
    assert!(!known.is_empty());
    if of_idle < SLEEPS / 10 {
        return eprintln!("left out: no CPU was idle");
    }
    assert_eq!(trimmed, of_idle);
}
