//! Ids in recordings of a host that is in a PID namespace of its own. Tests that the machine refuses say so and pass.
#![cfg(target_os = "linux")]

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::ground_truth::{own_thread, play_in, settle};
use crate::invariants::{check_live, is_loss};
use crate::live::{Live, record_with_stacks};

/// A command that runs another one in a container; `None`: there is no right to make one.
fn container() -> Option<Command> {
    let container = || {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc"]);
        command
    };
    let can = container().arg("true").stderr(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) {
        eprintln!("left out: no right to make a container");
        return None;
    }
    Some(container())
}

/// OV-23: in a container, switches and wake-ups name threads as everything else does.
#[test]
fn ids_in_a_container_are_those_of_the_container() {
    if let Some(container) = container() {
        play_in(container, "records in a container");
    }
}

/// OV-23: in a container, programs in the kernel record the same switches and wake-ups as perf, beside it.
#[test]
fn programs_in_a_container_record_the_events_of_perf() {
    if let Some(container) = container() {
        play_in(container, "compares programs with perf");
    }
}

/// A program in a container inside of this one. Returns it with the id that it has here.
fn in_an_inner_container(live: &mut Live) -> Option<(Child, u32)> {
    let mut inner = Command::new("unshare");
    let inner = inner.args([
        "--pid",
        "--fork",
        "sh",
        "-c",
        "for _ in 1 2 3 4 5 6 7 8; do sleep 0.02; done",
    ]);
    let outer = inner.stderr(Stdio::null()).spawn().ok()?;
    let children = format!("/proc/{0}/task/{0}/children", outer.id());
    for _ in 0..500 {
        std::thread::sleep(Duration::from_millis(1));
        live.poll();
        let found = std::fs::read_to_string(&children).ok()?;
        if let Some(id) = found.split_ascii_whitespace().next() {
            return Some((outer, id.parse().ok()?));
        }
    }
    None
}

/// The role of a host in a container.
pub fn records_in_a_container() {
    // Switches with call stacks are recorded by perf, others by programs.
    for stacks in [&[0x0f2e, 0x0524][..], &[0x0f2e]] {
        let (mut thread, mut inner, mut mechanism) = (0, None, String::new());
        let recording = |live: &mut Live| {
            mechanism = live.mechanism();
            let sleeper = std::thread::spawn(|| {
                (0..50).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
                own_thread()
            });
            inner = in_an_inner_container(live);
            while !sleeper.is_finished() {
                live.poll();
                std::thread::sleep(Duration::from_millis(2));
            }
            thread = sleeper.join().unwrap();
            if let Some((inner, _)) = &mut inner {
                inner.wait().unwrap();
            }
            settle(live);
        };
        let flags = "process,thread,cswitch,dispatcher,profile";
        let Some(recording) = record_with_stacks(flags, stacks, None, recording) else { return };
        eprintln!("{mechanism}");
        let records = &recording.records;
        check_live(records);
        let of = |hook: u16, at: usize, thread: u32| {
            records.iter().filter(|one| one.hook == hook && one.u32(at) == thread).count()
        };
        let losses = records.iter().filter(|one| is_loss(one)).count();
        let counts = [of(0x0524, 4, thread), of(0x0524, 0, thread)];
        assert!(counts.iter().all(|count| count + 2 * losses >= 45), "{counts:?}, {losses}");
        assert!(of(0x0532, 0, thread) > 0, "no wake-up names the thread");
        match inner {
            Some((_, id)) => {
                let counts = [of(0x0524, 4, id), of(0x0524, 0, id)];
                let is_enough = |count: &usize| count + 2 * losses >= 6;
                assert!(counts.iter().all(is_enough), "{counts:?} of {id}, {losses}");
                assert_eq!(of(0x0301, 8, id), 1, "{id} has one beginning");
            }
            None => eprintln!("left out: no container in a container"),
        }
        // Idle is not sampled: programs outside of the container are others.
        let of_idle = records.iter().filter(|one| one.hook == 0x0f2e && one.u32(8) == 0);
        assert_eq!(of_idle.count(), 0, "samples of programs outside look like those of idle");
    }
}
