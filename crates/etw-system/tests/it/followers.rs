//! Recorders that follow others in one trace.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use etw_system::flags::Masks;
use etw_system::switch_chains::SwitchChains;
use etw_system::{Options, Recorder, Stored};

use crate::invariants::{Taken, is_loss, take_from};
use crate::live::left_by;
use crate::shaper::Machinery;

const CSWITCH: u16 = 0x0524;

/// Sets it when it is dropped, also by a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Makes this thread run on one CPU.
fn stay_on(cpu: usize) {
    // SAFETY: a set of CPUs of its own size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

/// Runs `run` while some pairs of threads on each CPU wake each other.
fn while_switching(run: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    let cpus = std::thread::available_parallelism().unwrap().get();
    std::thread::scope(|scope| {
        for cpu in (0..cpus).flat_map(|cpu| [cpu; 4]) {
            let (mut here, mut there) = UnixStream::pair().unwrap();
            let is_over = &is_over;
            scope.spawn(move || {
                stay_on(cpu);
                while !is_over.load(Ordering::Relaxed) {
                    here.write_all(&[0]).unwrap();
                    here.read_exact(&mut [0]).unwrap();
                }
            });
            scope.spawn(move || {
                stay_on(cpu);
                while there.read_exact(&mut [0]).is_ok() && there.write_all(&[0]).is_ok() {}
            });
        }
        let _over = Over(&is_over);
        run();
    });
}

/// P2: a recorder had no room for the switches at its end, and the one behind it was killed before any of its switches was stored. The
/// switches of the time before, which the second one has in its rings, too, do not hide what is missing.
#[test]
fn a_recorder_after_a_kill_follows_the_one_before_it() {
    let options = Options {
        masks: Masks::parse("process,thread,cswitch").unwrap().masks,
        // With call stacks, perf records the switches.
        stacks: vec![CSWITCH],
        sample_interval: 10_000,
        ..Options::default()
    };
    let mut first = match Recorder::open(options.clone(), None) {
        Ok(recorder) => recorder,
        Err(error) => return eprintln!("left out: {error}"),
    };
    first.begin().unwrap();
    let mut records = Vec::new();
    while_switching(|| {
        // More switches than its rings have room for.
        std::thread::sleep(Duration::from_secs(3));
        let mut second = Recorder::open(options.clone(), None).unwrap();
        let since = second.begin_in_place().unwrap();
        first.finish_before(since);
        take_from(&mut first, &mut records);
        // Records of one time may have a distance of one tick.
        let is_earlier = |one: &Taken| one.time <= since;
        assert!(records.iter().all(is_earlier), "the second one has the later records");
        let (left, _held) = left_by(second);
        let mut third = Recorder::resume(
            options,
            None,
            left,
            Stored { until: since - 1, on: Vec::new() },
            since,
        )
        .unwrap();
        third.begin().unwrap();
        third.follow(first.cpu_states());
        std::thread::sleep(Duration::from_millis(100));
        third.finish();
        take_from(&mut third, &mut records);
    });
    let mut chains = SwitchChains::default();
    for record in &records {
        match record.hook {
            CSWITCH => drop(chains.switched(record.cpu, record.u32(4), record.u32(0))),
            _ if is_loss(record) => chains.lost(record.cpu),
            _ => {}
        }
    }
    let lost: u64 = first.take_losses().iter().map(|(_, count)| count).sum();
    assert!(lost > 0, "its rings had room for all");
    assert_eq!(chains.found().unmarked_gaps, 0, "{:?}", chains.found());
}

/// OV-23: where a session did not ask for switches for a while, no chain goes on behind it, and nothing is lost.
#[test]
fn switches_that_nobody_asked_for_are_not_missing() {
    let states = |mut machine: Machinery| {
        machine.shaper.follows(0, Some(50));
        machine.shaper.cpu_states().collect::<Vec<_>>()
    };
    assert!(states(Machinery::new()).contains(&(0, Some(50))));
    assert_eq!(states(Machinery::without_switches()), []);
}
