//! The recorder on this machine. Tests that the machine refuses say so and pass.
#![cfg(target_os = "linux")]

use std::process::Command;
use std::time::{Duration, Instant};

use etw_system::flags::Masks;
use etw_system::{Options, Recorder};

use crate::invariants::{Taken, check_live, take_from};

fn record(
    flags: &str,
    process: Option<u32>,
    run: impl FnOnce(&mut Recorder),
) -> Option<Vec<Taken>> {
    let masks = Masks::parse(flags).unwrap().masks;
    let options = Options { masks, stacks: vec![0x0f2e, 0x0524], sample_interval: 10_000 };
    let mut recorder = match Recorder::open(options, process) {
        Ok(recorder) => recorder,
        Err(error) => {
            eprintln!("left out: {error}");
            return None;
        }
    };
    recorder.begin().unwrap();
    let mut all = Vec::new();
    run(&mut recorder);
    recorder.poll();
    take_from(&mut recorder, &mut all);
    recorder.finish();
    take_from(&mut recorder, &mut all);
    recorder.take_lost();
    Some(all)
}

/// OV-23: this program's own samples, with and without rights.
#[test]
fn a_program_that_computes_is_sampled() {
    let spin = |_: &mut Recorder| {
        let end = Instant::now() + Duration::from_millis(200);
        let mut sum = 0u64;
        while Instant::now() < end {
            sum = std::hint::black_box(sum.wrapping_mul(3) + 1);
        }
    };
    let own = std::process::id();
    let Some(records) = record("process,thread,img,profile", Some(own), spin) else { return };
    check_live(&records);
    let samples = records.iter().filter(|record| record.hook == 0x0f2e && record.process == own);
    let stacks = records.iter().filter(|record| record.hook == 0x1820 && record.u32(8) == own);
    let (samples, stacks) = (samples.count(), stacks.count());
    // The machine may be busy with others.
    assert!(samples >= 5, "{samples}");
    assert!(stacks * 10 >= samples * 9, "{stacks} of {samples}");
}

/// Whether this program runs in the machine's first namespaces: the kernel's numbers of those are constants.
fn is_first_namespace() -> bool {
    ["pid:[4026531836]", "user:[4026531837]"].iter().all(|name| {
        let kind = name.split(':').next().unwrap();
        let link = std::fs::read_link(format!("/proc/self/ns/{kind}"));
        link.is_ok_and(|link| link.as_os_str() == *name)
    })
}

/// OV-23: the end of a process has its exit code, or 128 and the signal that killed it.
#[test]
fn the_end_of_a_process_has_its_exit_status() {
    let mut ids = Vec::new();
    let mut can_listen = false;
    let run = |recorder: &mut Recorder| {
        for end in ["exit 7", "kill -9 $$", "exit 0"] {
            let mut child = Command::new("sh").args(["-c", end]).spawn().unwrap();
            ids.push(child.id());
            child.wait().unwrap();
        }
        // A parent may see the end before the connector has said the status.
        std::thread::sleep(Duration::from_millis(20));
        can_listen = !recorder.notes().iter().any(|note| note.contains("exit statuses"));
    };
    let Some(records) = record("process,thread,cswitch", None, run) else { return };
    if !can_listen || !is_first_namespace() {
        return eprintln!("left out: no right to the process connector, or a namespace without it");
    }
    let statuses = ids.iter().map(|id| {
        let is_end = |one: &&Taken| one.hook == 0x0302 && one.u32(8) == *id;
        records.iter().find(is_end).map(|one| one.u32(20))
    });
    let statuses: Vec<Option<u32>> = statuses.collect();
    assert_eq!(statuses, [Some(7), Some(137), Some(0)]);
}

/// OV-23: a child's whole life, and chains of switches without gaps.
#[test]
fn a_child_is_recorded_from_its_start_to_its_end() {
    let run = |recorder: &mut Recorder| {
        let mut child = Command::new("sh").args(["-c", "sleep 0.2; exit 3"]).spawn().unwrap();
        // Its command line is read while it runs.
        while child.try_wait().unwrap().is_none() {
            recorder.poll();
            std::thread::sleep(Duration::from_millis(5));
        }
        // Records come within the recorder's delay.
        std::thread::sleep(Duration::from_millis(20));
    };
    let Some(records) = record("process,thread,img,cswitch", None, run) else { return };
    check_live(&records);
    let own = std::process::id();
    // A program that is executed late, on a busy machine, has its command line at its end.
    let is_child =
        |record: &&Taken| matches!(record.hook, 0x0301 | 0x0302) && record.u32(12) == own;
    let children: Vec<&Taken> = records.iter().filter(is_child).collect();
    let is_shell = |record: &&&Taken| {
        let text = String::from_utf8_lossy(&record.payload).replace('\0', "");
        text.contains("sleep 0.2")
    };
    let Some(shell) = children.iter().find(is_shell) else { panic!("no shell among {children:?}") };
    let id = shell.u32(8);
    for hook in [0x0301, 0x0302] {
        assert!(records.iter().any(|record| record.hook == hook && record.u32(8) == id));
    }
    assert!(records.iter().any(|record| record.hook == 0x030a && record.u32(16) == id));
}
