//! Facts of Thread events: the CPUs and the stack of a thread, and where its program begins.
#![cfg(target_os = "linux")]

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use etw_types::le;

use crate::invariants::Taken;
use crate::live::{is_first_namespace, record_and_count};

const AFFINITY: usize = 40;
const ENTRY: usize = 48;
const STACK_BASE: usize = 24;

/// The address at which a process began to run, as the kernel told it.
fn entry_of(process: u32) -> u64 {
    const AT_ENTRY: u64 = 9;
    let vector = std::fs::read(format!("/proc/{process}/auxv")).unwrap();
    let mut pairs = vector.chunks_exact(16);
    let pair = pairs.find(|pair| le::u64(pair, 0) == Some(AT_ENTRY)).unwrap();
    le::u64(pair, 8).unwrap()
}

fn stack_base_of(process: u32) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let line = maps.lines().find(|line| line.ends_with("[stack]")).unwrap();
    let end = line.split(' ').next().and_then(|range| range.split_once('-')).unwrap().1;
    u64::from_str_radix(end, 16).unwrap()
}

fn affinity() -> u64 {
    let mut mask = [0u64; 16];
    // SAFETY: a mask that outlives the call, and its size.
    let result =
        unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) };
    assert_eq!(result, 0);
    mask[0]
}

/// A program that waits, on the first CPU only.
fn waiting_program() -> Command {
    let mut command = Command::new("sleep");
    command.arg("100");
    // SAFETY: the new process makes one system call.
    unsafe {
        command.pre_exec(|| {
            let mask = [1u64; 1];
            let result = libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast());
            if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
    command
}

/// OV-23: the CPUs that a thread may use, the stack of a program's first thread, and its ELF file's entry; of a program that began before
/// the recording, and of one that begins in it.
#[test]
fn a_thread_has_its_cpus_its_stack_and_its_entry() {
    let own = std::process::id();
    let mut child = None;
    let recording = record_and_count("process,thread,image", None, |live| {
        child = waiting_program().spawn().ok();
        std::thread::sleep(Duration::from_millis(100));
        live.poll();
    });
    let Some(mut program) = child else { return };
    let child = program.id();
    let child_entry = entry_of(child);
    program.kill().unwrap();
    program.wait().unwrap();
    let Some(recording) = recording else { return };
    if recording.losses.total() > 0 || !is_first_namespace() {
        return eprintln!("left out: events were lost");
    }
    let of = |hook: u16, thread: u32| -> &Taken {
        let mut all = recording.records.iter();
        all.find(|one| one.hook == hook && one.u32(4) == thread).unwrap()
    };
    for hook in [0x0503, 0x0504] {
        let first = of(hook, own);
        assert_eq!(first.u64(AFFINITY), affinity(), "{hook:04x}");
        assert_eq!(first.u64(ENTRY), entry_of(own), "{hook:04x}");
        assert_eq!(first.u64(STACK_BASE), stack_base_of(own), "{hook:04x}");
    }
    assert_eq!(of(0x0501, child).u64(AFFINITY), affinity(), "it has those of its parent");
    let last = of(0x0504, child);
    assert_eq!((last.u64(AFFINITY), last.u64(ENTRY)), (1, child_entry));
}
