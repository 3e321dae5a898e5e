//! The recorder on this machine. Tests that the machine refuses say so and pass.
#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use etw_system::flags::Masks;
use etw_system::{ClassLosses, HeldRing, LeftRing, Options, Recorder, RingFacts, Stored};

use crate::ground_truth;
use crate::invariants::{Taken, check_live, is_loss, take_from};

/// A recording that runs, and its records.
pub struct Live {
    recorder: Recorder,
    records: Vec<Taken>,
}

impl Live {
    /// Whether a program in the kernel records arguments: samples of the stack do not have all of them.
    pub fn has_arguments(&self) -> bool {
        self.recorder.mechanism().contains("sched_process_exec")
    }

    /// Whether a program in the kernel records the paths of system calls.
    pub fn has_call_paths(&self) -> bool {
        self.recorder.mechanism().contains("sys_exit:paths")
    }

    /// By which mechanisms of the kernel it records.
    pub fn mechanism(&self) -> String {
        self.recorder.mechanism()
    }

    /// Notes on what is left out.
    pub fn notes(&self) -> Vec<String> {
        self.recorder.notes()
    }

    /// Reads what there is. The kernel has its memory again when the records have left the recorder.
    pub fn poll(&mut self) {
        self.recorder.poll();
        take_from(&mut self.recorder, &mut self.records);
    }
}

pub fn record(
    flags: &str,
    process: Option<u32>,
    run: impl FnOnce(&mut Live),
) -> Option<Vec<Taken>> {
    record_and_count(flags, process, run).map(|recording| recording.records)
}

/// The records of a recording, and what the kernel had no room for.
pub struct Recording {
    pub records: Vec<Taken>,
    pub losses: ClassLosses,
    /// They say what is left out.
    pub notes: Vec<String>,
}

/// Records what a function does. `None`: the machine refuses it.
pub fn record_and_count(
    flags: &str,
    process: Option<u32>,
    run: impl FnOnce(&mut Live),
) -> Option<Recording> {
    record_with_stacks(flags, &[0x0f2e, 0x0524], process, run)
}

/// The same, with call stacks of these events.
pub fn record_with_stacks(
    flags: &str,
    stacks: &[u16],
    process: Option<u32>,
    run: impl FnOnce(&mut Live),
) -> Option<Recording> {
    let options = Options {
        masks: Masks::parse(flags).unwrap().masks,
        stacks: stacks.to_vec(),
        sample_interval: 10_000,
        ..Options::default()
    };
    record_with(options, process, run)
}

/// The same, with any options.
pub fn record_with(
    options: Options,
    process: Option<u32>,
    run: impl FnOnce(&mut Live),
) -> Option<Recording> {
    // Several recordings at once would make each other's rings full.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut recorder = match Recorder::open(options, process) {
        Ok(recorder) => recorder,
        Err(error) => {
            eprintln!("left out: {error}");
            return None;
        }
    };
    recorder.begin().unwrap();
    let mut live = Live { recorder, records: Vec::new() };
    run(&mut live);
    live.poll();
    live.recorder.finish();
    take_from(&mut live.recorder, &mut live.records);
    let losses = live.recorder.take_losses();
    Some(Recording { notes: live.notes(), records: live.records, losses })
}

/// OV-23: starts and ends of processes and threads, and images that a program maps, have call stacks.
#[test]
fn starts_ends_and_images_of_a_program_have_call_stacks() {
    const HOOKS: [u16; 6] = [0x0301, 0x0302, 0x0501, 0x0502, 0x030a, 0x1402];
    const PROGRAMS: usize = 20;
    let mut ids = Vec::new();
    let run = |live: &mut Live| {
        for _ in 0..PROGRAMS {
            let mut child = Command::new("true").spawn().unwrap();
            ids.push(child.id());
            child.wait().unwrap();
            live.poll();
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let recording = record_with_stacks("process,thread,img,cswitch", &HOOKS, None, run);
    let Some(Recording { records, losses, .. }) = recording else { return };
    check_live(&records);
    let switches = etw_types::Hook(0x0524).class_guid().unwrap();
    if losses.iter().any(|(class, _)| class != switches) {
        return eprintln!("left out: the machine was too busy");
    }
    let library: Vec<u8> = "/libc.so".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let has_library = |one: &Taken| one.payload.windows(library.len()).any(|part| part == library);
    let process = |one: &Taken| match one.hook {
        0x0301 | 0x0302 => one.u32(8),
        0x030a | 0x1402 => one.u32(16),
        _ => one.u32(0),
    };
    for hook in HOOKS {
        let own = records.windows(2).filter(|pair| pair[0].hook == hook);
        let own = own.filter(|pair| ids.contains(&process(&pair[0])));
        let (mut all, mut with_stack, mut with_user) = (0, 0, 0);
        for pair in own {
            all += 1;
            if pair[1].hook == 0x1820 {
                let mut frames = (16..pair[1].payload.len()).step_by(8).map(|at| pair[1].u64(at));
                with_stack += 1;
                with_user += usize::from(frames.any(|frame| frame < 1 << 48));
            }
        }
        eprintln!(
            "{hook:04x}: {with_stack} of {all} have stacks, {with_user} with frames of programs"
        );
        assert!(all >= PROGRAMS, "{hook:04x}: {all}");
        // `true` maps its library by a call; the program and its loader are mapped by the exec, which has no stack.
        let maps_library = records.iter().any(|one| one.hook == 0x030a && has_library(one));
        if hook == 0x030a && !maps_library {
            continue;
        }
        assert!(with_stack >= PROGRAMS * 9 / 10, "{hook:04x}: {with_stack} of {all}");
    }
}

/// OV-23: a CPU that goes offline and comes back is recorded again. `ETW_HOTPLUG` names one, such as 1.
#[test]
fn a_cpu_that_comes_back_is_recorded() {
    let Ok(cpu) = std::env::var("ETW_HOTPLUG") else {
        return eprintln!("left out: ETW_HOTPLUG=1 lets it take CPU 1 offline, for a moment");
    };
    let number: u16 = cpu.parse().unwrap();
    let switch = |word: &str| {
        std::fs::write(format!("/sys/devices/system/cpu/cpu{cpu}/online"), word).unwrap();
    };
    let pause = |live: &mut Live| {
        for _ in 0..100 {
            live.poll();
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    let mut back = 0;
    let run = |live: &mut Live| {
        pause(live);
        switch("0");
        pause(live);
        switch("1");
        pause(live);
        back = live.records.last().map_or(0, |last| last.time);
        // It works there.
        let work = format!(
            "exec taskset -c {cpu} sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'"
        );
        let mut child = Command::new("sh").args(["-c", &work]).spawn().unwrap();
        while child.try_wait().unwrap().is_none() {
            pause(live);
        }
    };
    // Switches with stacks are recorded by perf, on each CPU.
    let Some(records) = record("process,thread,img,cswitch,profile", None, run) else { return };
    check_live(&records);
    for hook in [0x0524, 0x0f2e] {
        let is_later = |one: &&Taken| one.hook == hook && one.cpu == number && one.time > back;
        let count = records.iter().filter(is_later).count();
        eprintln!("{hook:04x}: {count} on CPU {cpu} after it came back");
        assert!(count > 10, "{hook:04x}: {count}");
    }
}

/// OV-23: this program's own samples, with and without rights.
#[test]
fn a_program_that_computes_is_sampled() {
    let spin = |_: &mut Live| {
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
pub fn is_first_namespace() -> bool {
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
    let run = |live: &mut Live| {
        for end in ["exit 7", "kill -9 $$", "exit 0"] {
            let mut child = Command::new("sh").args(["-c", end]).spawn().unwrap();
            ids.push(child.id());
            child.wait().unwrap();
        }
        // A parent may see the end before the connector has said the status.
        std::thread::sleep(Duration::from_millis(20));
        can_listen = !live.recorder.notes().iter().any(|note| note.contains("exit statuses"));
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
    let run = |live: &mut Live| {
        let mut child = Command::new("sh").args(["-c", "sleep 0.2; exit 3"]).spawn().unwrap();
        // Its command line is read while it runs.
        while child.try_wait().unwrap().is_none() {
            live.poll();
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

/// OV-23: the operations of a program on a file, with its name, and as many bytes as the file has then.
#[test]
fn the_files_of_a_program_are_recorded() {
    const SIZE: u64 = 35;
    let path = std::env::temp_dir().join(format!("etw-system-{}.txt", std::process::id()));
    // `tee` has the file open until its input ends.
    let script = format!(
        "(for i in 1 2 3 4 5 6 7; do echo line; sleep 0.01; done; read x) | tee {}",
        path.display()
    );
    let run = |live: &mut Live| {
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(120);
        while std::fs::metadata(&path).map_or(0, |file| file.len()) < SIZE {
            assert!(Instant::now() < until, "the file does not grow");
            live.poll();
            std::thread::sleep(Duration::from_millis(1));
        }
        // Names of files are looked up when records are read.
        live.poll();
        drop(child.stdin.take());
        while child.try_wait().unwrap().is_none() {
            live.poll();
            std::thread::sleep(Duration::from_millis(1));
        }
        std::fs::remove_file(&path).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    };
    let flags = "process,thread,file,fileio,fileiocompletion,vamap,virtalloc,priority,proccntr";
    let Some(records) = record(flags, None, run) else { return };
    check_live(&records);
    if records.iter().any(is_loss) {
        return eprintln!(
            "left out: the machine was too busy, and the kernel had no room for records"
        );
    }
    let name: Vec<u8> = path.to_str().unwrap().encode_utf16().flat_map(u16::to_le_bytes).collect();
    let is_named = |one: &&Taken| one.payload.windows(name.len()).any(|part| part == name);
    let of = |hook: u16| records.iter().filter(move |one| one.hook == hook);
    let create = of(0x0440).find(is_named).expect("no Create with the name of the file");
    let key = of(0x0400).find(is_named).expect("no Name of the file").u64(0);
    let object = create.u64(8);
    let writes = of(0x0444).filter(|one| one.u64(16) == object);
    let mut end = 0;
    for write in writes {
        assert_eq!((write.u64(0), write.u64(24), write.process), (end, key, create.process));
        end += u64::from(write.u32(36));
    }
    assert_eq!(end, SIZE);
    let of_tee = records.iter().filter(|one| one.process == create.process);
    let of_tee: Vec<&Taken> = of_tee.collect();
    let last = &of_tee[of_tee.len().saturating_sub(8)..];
    assert_eq!(of(0x0442).filter(|one| one.u64(8) == object).count(), 1, "one Close: {last:?}");
    for hook in [0x0425, 0x0262, 0x0321] {
        assert!(of(hook).next().is_some(), "no {hook:#06x}");
    }
}

/// Writes to pages that nobody has touched: memory of the heap may have been, by another test.
pub fn touch_new_memory(pages: usize) {
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, used within its size and removed at the end.
    unsafe {
        let memory = libc::mmap(std::ptr::null_mut(), pages * 4096, access, kind, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        libc::madvise(memory, pages * 4096, libc::MADV_NOHUGEPAGE);
        (0..pages).for_each(|page| memory.cast::<u8>().add(page * 4096).write_volatile(1));
        libc::munmap(memory, pages * 4096);
    }
}

/// OV-23: page faults of a program, and their kinds.
#[test]
fn the_page_faults_of_a_program_are_recorded() {
    const PAGES: usize = 300;
    let touch = |_: &mut Live| touch_new_memory(PAGES);
    let own = std::process::id();
    let Some(records) = record("process,thread,pf,hf", None, touch) else { return };
    check_live(&records);
    if records.iter().any(is_loss) {
        return eprintln!(
            "left out: the machine was too busy, and the kernel had no room for records"
        );
    }
    let kinds = [0x020a, 0x020b, 0x020c];
    let faults = records.iter().filter(|one| kinds.contains(&one.hook) && one.process == own);
    assert!(faults.count() >= PAGES);
}

/// OV-23: a recording that nobody reads counts what the kernel had no room for, also behind the last record of a ring.
#[test]
fn losses_at_the_end_are_counted() {
    let masks = Masks::parse("process,thread,syscall").unwrap().masks;
    let options =
        Options { masks, stacks: Vec::new(), sample_interval: 10_000, ..Options::default() };
    let mut recorder = match Recorder::open(options, None) {
        Ok(recorder) => recorder,
        Err(error) => return eprintln!("left out: {error}"),
    };
    recorder.begin().unwrap();
    // More calls than the rings hold. Those of this process are left out.
    let mut command = Command::new("dd");
    command.args(["if=/dev/zero", "of=/dev/null", "bs=1", "count=400000"]);
    assert!(command.stderr(Stdio::null()).status().unwrap().success());
    recorder.finish();
    let mut all = Vec::new();
    take_from(&mut recorder, &mut all);
    let losses: Vec<_> = recorder.take_losses().iter().collect();
    let calls = etw_types::Hook(0x0f33).class_guid().unwrap();
    assert!(losses.iter().any(|(class, count)| *class == calls && *count > 0), "{losses:?}");
    let last_loss = all.iter().rposition(is_loss).expect("no lost event");
    let rundown = all.iter().rposition(|one| one.hook == 0x0020).unwrap();
    assert!(last_loss < rundown, "it lies behind the records, and before the rundown");
}

/// The rings of a recorder, as a process that is killed leaves them; the keeper maps them.
pub fn left_by(recorder: Recorder) -> (Vec<LeftRing>, Vec<HeldRing>) {
    let mut held = Vec::new();
    let left = recorder.rings().into_iter().map(|ring| {
        let events: Vec<OwnedFd> =
            ring.events.iter().map(|event| event.try_clone_to_owned().unwrap()).collect();
        if !ring.facts.is_told && ring.facts.programs.is_empty() {
            held.push(HeldRing::map(events[0].as_fd(), ring.facts.size).unwrap());
        }
        LeftRing { facts: ring.facts, events }
    });
    let left = left.collect();
    drop(recorder);
    (left, held)
}

/// 100 ns of `CLOCK_MONOTONIC`.
pub fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a value that outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 10_000_000 + time.tv_nsec / 100
}

/// OV-23: what the rings of a killed process had no room for is counted by the next one, and the trace says that it is missing there, even
/// if no record follows in which the kernel would say so.
#[test]
fn losses_before_a_takeover_are_counted_and_marked() {
    /// System calls with call stacks, which perf records.
    const CALLS: [u16; 2] = [0x0f33, 0x0f34];
    /// `PERF_EVENT_IOC_DISABLE`
    const DISABLE: libc::Ioctl = 0x2401;
    let masks = Masks::parse("process,thread,syscall").unwrap().masks;
    let stacks = CALLS.to_vec();
    let options = Options { masks, stacks, sample_interval: 10_000, ..Options::default() };
    let mut recorder = match Recorder::open(options.clone(), None) {
        Ok(recorder) => recorder,
        Err(error) => return eprintln!("left out: {error}"),
    };
    let start = now();
    recorder.begin().unwrap();
    let (left, _held) = left_by(recorder);
    let mut command = Command::new("dd");
    command.args(["if=/dev/zero", "of=/dev/null", "bs=1", "count=400000"]);
    assert!(command.stderr(Stdio::null()).status().unwrap().success());
    // No record follows.
    for event in left.iter().filter(|ring| ring.facts.cpu.is_some()).flat_map(|ring| &ring.events) {
        // SAFETY: a descriptor of an event, and numbers.
        assert_eq!(unsafe { libc::ioctl(event.as_raw_fd(), DISABLE, 0) }, 0);
    }
    let mut next =
        Recorder::resume(options, None, left, Stored { until: start, on: Vec::new() }, 0).unwrap();
    next.begin().unwrap();
    next.finish();
    let mut all = Vec::new();
    take_from(&mut next, &mut all);
    let losses: Vec<_> = next.take_losses().iter().collect();
    let calls = etw_types::Hook(CALLS[0]).class_guid().unwrap();
    // The rings have room for some hundred thousand of 1.6 million records.
    assert!(losses.iter().any(|(class, count)| *class == calls && *count > 500_000), "{losses:?}");
    let last_loss = all.iter().rposition(is_loss).expect("no lost event");
    let last_call = all.iter().rposition(|one| CALLS.contains(&one.hook)).expect("no call");
    let rundown = all.iter().rposition(|one| one.hook == 0x0020).unwrap();
    assert!((last_call..rundown).contains(&last_loss), "{last_call} {last_loss} {rundown}");
}

/// OV-23: a CPU whose events the killed process did not have, because it came online too late for that, is recorded by the next one.
#[test]
fn a_cpu_without_a_ring_is_recorded_after_a_takeover() {
    let options = Options {
        masks: Masks::parse("process,thread,profile").unwrap().masks,
        sample_interval: 10_000,
        ..Options::default()
    };
    let mut recorder = match Recorder::open(options.clone(), None) {
        Ok(recorder) => recorder,
        Err(error) => return eprintln!("left out: {error}"),
    };
    let start = now();
    recorder.begin().unwrap();
    let cpus = |recorder: &Recorder| {
        let rings = recorder.rings();
        rings.iter().filter_map(|ring| ring.facts.cpu).collect::<Vec<u16>>()
    };
    let all = cpus(&recorder);
    let Some(last) = all.iter().max().copied().filter(|last| *last > 0) else {
        return eprintln!("left out: this machine has one CPU");
    };
    let changes = recorder.ring_changes();
    let (left, _held) = left_by(recorder);
    // One has no ring, as if it had come later; those of another one are of the time before it went offline.
    for is_offline in [false, true] {
        let copy = |one: &LeftRing| LeftRing {
            facts: RingFacts { is_offline: one.facts.cpu == Some(last), ..one.facts.clone() },
            events: one.events.iter().map(|event| event.try_clone().unwrap()).collect(),
        };
        let is_kept = |one: &LeftRing| is_offline || one.facts.cpu != Some(last);
        let rings = left.iter().map(copy).filter(is_kept).collect();
        let mut next = Recorder::resume(
            options.clone(),
            None,
            rings,
            Stored { until: start, on: Vec::new() },
            0,
        )
        .unwrap();
        next.begin().unwrap();
        next.poll();
        assert!(next.ring_changes() > changes, "the keeper has to learn of the new rings");
        let mut expected = all.clone();
        expected.retain(|cpu| is_offline || *cpu != last);
        expected.extend([last, last]);
        assert_eq!(cpus(&next), expected, "one of processes, and one of samples");
        let is_side = |side| {
            let rings = next.rings();
            rings
                .iter()
                .filter(|one| one.facts.cpu == Some(last) && one.facts.is_side == side)
                .count()
        };
        assert_eq!([is_side(true), is_side(false)], [1 + usize::from(is_offline); 2]);
        // The keeper numbers them.
        let last_rings: Vec<bool> =
            next.rings().iter().rev().take(2).map(|one| one.facts.is_offline).collect();
        assert_eq!(last_rings, [false; 2]);
        let mut records = Vec::new();
        let until = Instant::now() + Duration::from_secs(120);
        let is_of_last = |one: &&Taken| one.cpu == last && one.hook == 0x0f2e;
        while records.iter().filter(is_of_last).count() == 0 {
            assert!(Instant::now() < until, "no sample of CPU {last}");
            let work = format!(
                "exec taskset -c {last} sh -c 'i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done'"
            );
            assert!(Command::new("sh").args(["-c", &work]).status().unwrap().success());
            next.poll();
            take_from(&mut next, &mut records);
        }
    }
}

/// Switches and wake-ups of a thread: for each switch from it but the last one the kind of its wait; the number of wake-ups.
fn life_of(records: &[Taken], thread: u32) -> (Vec<(u8, u8)>, usize) {
    const TERMINATED: u8 = 4;
    let leaves = |one: &&Taken| one.hook == 0x0524 && one.u32(4) == thread;
    // The recording may have ended by the time that the thread leaves its CPU for the last time.
    let leaves = |one: &&Taken| leaves(one) && one.payload[14] != TERMINATED;
    let wait = |one: &Taken| (one.payload[12], one.payload[14]);
    let waits = records.iter().filter(leaves).map(wait).collect();
    let wakes = records.iter().filter(|one| one.hook == 0x0532 && one.u32(0) == thread);
    (waits, wakes.count())
}

/// Whether programs record all switches.
fn records_all_switches(mechanism: &str) -> bool {
    mechanism.split([' ', ',']).any(|word| word == "sched/sched_switch")
}

/// OV-23: programs in the kernel record the same switches and wake-ups as perf, beside it.
#[test]
fn programs_in_the_kernel_record_the_events_of_perf() {
    compare_programs_with_perf();
}

/// Records the same sleeps by programs and by perf.
pub fn compare_programs_with_perf() {
    const SLEEPS: usize = 100;
    let open = |stacks: &[u16]| {
        let masks = Masks::parse("process,thread,cswitch,dispatcher,dpc,isr").unwrap().masks;
        let options = Options {
            masks,
            stacks: stacks.to_vec(),
            sample_interval: 10_000,
            ..Options::default()
        };
        Recorder::open(options, None)
    };
    // Tracepoints with call stacks are recorded by perf.
    let (mut by_programs, mut by_perf) = match (open(&[]), open(&[0x0524, 0x0532])) {
        (Ok(by_programs), Ok(by_perf)) => (by_programs, by_perf),
        (Err(error), _) | (_, Err(error)) => return eprintln!("left out: {error}"),
    };
    eprintln!("{}", by_programs.mechanism());
    assert!(!records_all_switches(&by_perf.mechanism()));
    if !records_all_switches(&by_programs.mechanism()) {
        return eprintln!("left out: this kernel or user permits no programs");
    }
    by_programs.begin().unwrap();
    by_perf.begin().unwrap();
    let sleeper = std::thread::spawn(|| {
        (0..SLEEPS).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
        let link = std::fs::read_link("/proc/thread-self").unwrap();
        link.file_name().unwrap().to_str().unwrap().parse::<u32>().unwrap()
    });
    let [mut of_programs, mut of_perf] = [Vec::new(), Vec::new()];
    // On a busy machine the sleeps last long, and the rings would be full.
    while !sleeper.is_finished() {
        for (recorder, records) in
            [(&mut by_programs, &mut of_programs), (&mut by_perf, &mut of_perf)]
        {
            recorder.poll();
            take_from(recorder, records);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let thread = sleeper.join().unwrap();
    for (recorder, records) in [(&mut by_programs, &mut of_programs), (&mut by_perf, &mut of_perf)]
    {
        recorder.finish();
        take_from(recorder, records);
        check_live(records);
    }
    if of_programs.iter().chain(&of_perf).any(is_loss) {
        return eprintln!("left out: the rings were full");
    }
    let (mut waits, wakes) = life_of(&of_programs, thread);
    let (mut perf_waits, perf_wakes) = life_of(&of_perf, thread);
    // The kernel leaves a switch out now and then.
    assert!(waits.len() >= SLEEPS * 9 / 10, "{waits:?}");
    assert!(waits.len().abs_diff(perf_waits.len()) <= SLEEPS / 10, "{waits:?} {perf_waits:?}");
    assert!(wakes >= SLEEPS * 9 / 10, "{wakes}");
    assert!(perf_wakes <= wakes + SLEEPS / 10, "{wakes} {perf_wakes}");
    if perf_wakes < wakes - SLEEPS / 10 {
        // Some kernels call perf for few of the wake-ups from an idle CPU; tracefs lacks them, too.
        eprintln!("left out: of {wakes} wake-ups the kernel gave perf {perf_wakes}");
    }
    for all in [&mut waits, &mut perf_waits] {
        all.sort_unstable();
        all.dedup();
    }
    assert_eq!(waits, perf_waits);
    // The recordings begin and end at different times: what lies between the thread's first and last switch is in both.
    let times = |records: &[Taken]| {
        let of_thread = |one: &&Taken| one.hook == 0x0524 && one.u32(4) == thread;
        let mut all = records.iter().filter(of_thread).map(|one| one.time);
        let first = all.next().unwrap();
        (first, all.next_back().unwrap())
    };
    let (first, last) = times(&of_perf);
    for hook in [0x0f42, 0x0f43, 0x0f44, 0x0f45] {
        let count = |records: &[Taken]| {
            let is_within = |one: &&Taken| one.hook == hook && (first..=last).contains(&one.time);
            records.iter().filter(is_within).count()
        };
        let (own, perf) = (count(&of_programs), count(&of_perf));
        assert!(own.abs_diff(perf) <= perf / 10 + 10, "{hook:x}: {own} {perf}");
    }
}

/// OV-23: without tracefs, CAP_PERFMON and CAP_BPF give what programs in the kernel record; and it says what is missing.
#[test]
fn programs_record_without_tracefs() {
    let hidden = || {
        let mut command = Command::new("unshare");
        let hide = "for folder in /sys/kernel/tracing /sys/kernel/debug; do [ ! -d $folder ] || mount -t tmpfs none $folder || exit; done";
        // Without CAP_IPC_LOCK, rings are small: a busy machine fills them.
        let rights = "setpriv --bounding-set=-all,+perfmon,+bpf,+ipc_lock --inh-caps=-all";
        command.args(["--mount", "sh", "-c", &format!("{hide}; exec {rights} \"$@\""), "sh"]);
        command
    };
    let can = hidden().arg("true").stderr(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) {
        return eprintln!("left out: no right to hide tracefs, or no setpriv that knows CAP_BPF");
    }
    ground_truth::play_in(hidden(), "records without tracefs");
    let mut without_programs = hidden();
    without_programs.env("ETW_SYSTEM_BPF", "0");
    ground_truth::play_in(without_programs, "records without tracefs");
}

/// The mechanism of a class, and what it lacks, as `etw doctor` tells them.
pub fn told_of(class: &str) -> (String, String) {
    let all = etw_system::availability::availability();
    let one = all.into_iter().find(|one| one.class == class).unwrap();
    (one.mechanism.unwrap_or_default(), one.missing.unwrap_or_default())
}

/// The role of the program that [`programs_record_without_tracefs`] runs.
pub fn records_without_tracefs() {
    const BYTES: usize = 777;
    let (by_programs, lacks) = told_of("cswitch");
    assert!(lacks.contains("tracefs"), "{by_programs} {lacks}");
    let has_programs = by_programs.contains("BPF programs, whole machine, without call stacks");
    let is_refused = std::env::var_os("ETW_SYSTEM_BPF").is_none() && !has_programs;
    if !by_programs.contains("whole machine") || is_refused || !is_first_namespace() {
        return eprintln!(
            "left out: CAP_PERFMON and CAP_BPF do not permit programs: {by_programs}"
        );
    }
    let (mut thread, mut child, mut notes) = (0, 0, String::new());
    let run = |live: &mut Live| {
        thread = ground_truth::own_thread();
        let (sender, receiver) = (
            std::net::UdpSocket::bind("127.0.0.1:0").unwrap(),
            std::net::UdpSocket::bind("127.0.0.1:0").unwrap(),
        );
        for _ in 0..100 {
            sender.send_to(&[7; BYTES], receiver.local_addr().unwrap()).unwrap();
            receiver.recv(&mut [0; BYTES]).unwrap();
            std::thread::sleep(Duration::from_millis(1));
            live.poll();
        }
        child = ground_truth::run(live, Command::new("true").arg("an argument")).0;
        notes = live.notes().join("\n");
        ground_truth::settle(live);
    };
    let flags = "process,thread,cswitch,dispatcher,dpc,isr,net,syscall,priority,pf,profile";
    let recording = record_and_count(flags, None, run).expect("the machine is recorded");
    let records = &recording.records;
    eprintln!("{notes}");
    let processes = etw_types::Hook(0x0301).class_guid().unwrap();
    if recording.losses.iter().any(|(class, _)| class == processes) {
        return eprintln!("left out: the machine was too busy: {:?}", recording.losses);
    }
    check_live(records);
    let count = |is: &dyn Fn(&Taken) -> bool| records.iter().filter(|one| is(one)).count();
    let switches = count(&|one| one.hook == 0x0524 && one.u32(4) == thread);
    let lost = records.iter().filter(|one| is_loss(one)).count();
    assert!(switches + 2 * lost >= 90, "{switches}, {lost} losses");
    let has_note = |start: &str| notes.lines().any(|note| note.starts_with(start));
    let faults = notes.lines().find(|note| note.starts_with("pf: without the files and kinds"));
    assert!(faults.is_some_and(|note| !note.contains("BPF")), "{notes}");
    assert!(count(&|one| one.hook == 0x0f2e) > 0 && count(&|one| one.hook == 0x020b) > 0);
    // Sleeping threads wait for a request of a user; without programs, nobody says for what they wait.
    let waiting = |reason| {
        count(&|one| one.hook == 0x0524 && one.payload[14] == 5 && one.payload[12] == reason)
    };
    let reasons = (waiting(6) > 0, waiting(127) > 0);
    assert_eq!(reasons, (has_programs, !has_programs), "wait reasons");
    let of_tracepoints = [
        ("wake-ups", count(&|one| one.hook == 0x0532 && one.u32(0) == thread)),
        ("soft interrupts", count(&|one| matches!(one.hook, 0x0f44 | 0x0f45))),
        ("calls", calls_of(records, child).len()),
        ("sends", count(&|one| one.hook == 0x080a && one.u32(4) as usize == BYTES)),
    ];
    for (kind, count) in of_tracepoints {
        assert_eq!(count > 0, has_programs, "{kind}: {count}");
    }
    let priorities = count(&|one| one.hook == 0x0524 && ![0, 8].contains(&one.payload[8]));
    assert!(has_programs || priorities == 0, "{priorities}");
    let told = if has_programs {
        ["PRIORITY: left out", "cswitch: without call stacks"]
    } else {
        [
            "cswitch: without priorities, wait reasons",
            "dispatcher, isr, dpc, net, syscall, PRIORITY: left out",
        ]
    };
    assert!(told.iter().all(|start| has_note(start)), "{told:?}\n{notes}");
    // No right is asked for that is there, and nothing is promised that programs do not record.
    let promised =
        "; without ETW_SYSTEM_BPF=0, BPF programs record dispatcher, isr, dpc, net, syscall";
    assert_eq!(notes.lines().any(|note| note.ends_with(promised)), !has_programs, "{notes}");
    assert_eq!(told_of("net").0.is_empty(), !has_programs);
    assert!(told_of("PRIORITY").0.is_empty() && told_of("pf").1.contains("tracefs"));
}

/// The system calls of a process: the routine of each that begins, the result of each that ends.
pub fn calls_of(records: &[Taken], process: u32) -> Vec<(u16, u64)> {
    let mut running: HashMap<u16, u32> = HashMap::new();
    let mut calls = Vec::new();
    for record in records {
        match record.hook {
            0x0524 => {
                running.insert(record.cpu, record.u32(0));
            }
            0x0f33 if running.get(&record.cpu) == Some(&process) => {
                calls.push((record.hook, record.u64(0)));
            }
            0x0f34 if running.get(&record.cpu) == Some(&process) => {
                calls.push((record.hook, u64::from(record.u32(0))));
            }
            _ => {}
        }
    }
    calls
}

/// OV-23: programs in the kernel record the system calls that perf records, one by one.
#[test]
fn programs_in_the_kernel_record_the_calls_of_perf() {
    // The kernel leaves single events out now and then; the recordings say so.
    const TRIES: usize = 20;
    for _ in 0..TRIES {
        match record_calls() {
            Ok(Some(calls)) => {
                let [of_programs, of_perf] = calls;
                assert!(of_programs.len() > 20, "{of_programs:x?}");
                return assert_eq!(of_programs, of_perf);
            }
            Ok(None) => {}
            Err(reason) => return eprintln!("left out: {reason}"),
        }
    }
    eprintln!("left out: the machine was too busy");
}

type Calls = Vec<(u16, u64)>;

/// The calls of a program, as programs in the kernel and perf record them; `None`: some are missing. An error says what is refused.
fn record_calls() -> Result<Option<[Calls; 2]>, String> {
    let open = |stacks: &[u16]| {
        let masks = Masks::parse("process,thread,cswitch,syscall").unwrap().masks;
        let options = Options { masks, stacks: stacks.to_vec(), ..Options::default() };
        Recorder::open(options, None).map_err(|error| error.to_string())
    };
    // Calls with stacks are recorded by perf.
    let (mut by_programs, mut by_perf) = (open(&[])?, open(&[0x0f33, 0x0f34])?);
    assert!(!by_perf.mechanism().contains("sys_enter"));
    if !by_programs.mechanism().contains("sys_enter") {
        return Err("this kernel or user permits no programs".to_owned());
    }
    by_programs.begin().unwrap();
    by_perf.begin().unwrap();
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let calls = [by_programs, by_perf].map(|mut recorder| {
        recorder.finish();
        let mut records = Vec::new();
        take_from(&mut recorder, &mut records);
        let is_whole = !records.iter().any(is_loss);
        is_whole.then(|| calls_of(&records, child.id()))
    });
    let [Some(of_programs), Some(of_perf)] = calls else { return Ok(None) };
    Ok(Some([of_programs, of_perf]))
}
