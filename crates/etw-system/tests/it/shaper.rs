//! The shaper, from neutral events that were recorded or made up. OV-23.

use std::sync::Arc;

use etw_system::flags::{Flag, Masks};
use etw_system::neutral::*;
use etw_system::record::Records;
use etw_system::system_calls::{FileOperation, SystemCall};
use etw_system::{Machine, Options, Shaper, Turn};

use crate::invariants::{Taken, check, take_all};

pub const SECOND: u64 = 1_000_000_000;
const TURN: Turn = Turn { time: SECOND, cpu: 0, process: 50, thread: 50 };

/// A machine with the processes 0, 4 (with kernel threads 2 and 4), 1 and 50.
pub struct Machinery {
    pub shaper: Shaper,
    out: Records,
}

pub fn all_flags() -> Masks {
    let mut masks = Masks::default();
    Flag::ALL.iter().filter(|flag| flag.is_recorded).for_each(|flag| masks.set(*flag));
    masks
}

impl Machinery {
    pub fn new() -> Machinery {
        Machinery::with_stacks_of(&[0x0f2e, 0x0524, 0x0532])
    }

    /// The session has call stacks of these events.
    pub fn with_stacks_of(hooks: &[u16]) -> Machinery {
        Machinery::on(Machine { cpus: 2, ..Machine::default() }, hooks)
    }

    /// The same on a machine.
    pub fn on(machine: Machine, hooks: &[u16]) -> Machinery {
        Machinery::recording(all_flags(), machine, hooks)
    }

    /// The session does not record switches.
    pub fn without_switches() -> Machinery {
        let mut masks = Masks::default();
        let others = Flag::ALL.iter().filter(|flag| flag.is_recorded && **flag != Flag::SWITCH);
        others.for_each(|flag| masks.set(*flag));
        Machinery::recording(masks, Machine { cpus: 2, ..Machine::default() }, &[0x0f2e])
    }

    /// The rundown at the beginning goes on.
    pub fn beginning() -> Machinery {
        Machinery::listing(all_flags(), Machine { cpus: 2, ..Machine::default() }, &[0x0f2e])
    }

    fn recording(masks: Masks, machine: Machine, hooks: &[u16]) -> Machinery {
        let mut one = Machinery::listing(masks, machine, hooks);
        one.at(0, 0, 0, Detail::AllFound);
        one
    }

    fn listing(masks: Masks, machine: Machine, hooks: &[u16]) -> Machinery {
        let options = Options {
            masks,
            stacks: hooks.to_vec(),
            sample_interval: 10_000,
            ..Options::default()
        };
        let images = machine.images.clone();
        let mut one = Machinery { shaper: Shaper::new(options, machine), out: Records::default() };
        one.shaper.begin(TURN, &mut one.out);
        for (id, is_kernel) in [(0, false), (2, true), (4, true), (1, false), (50, false)] {
            let exec = ExecFacts { path: b"/bin/some".to_vec(), ..ExecFacts::default() };
            let facts = ProcessFacts { id, is_kernel, exec, ..ProcessFacts::default() };
            one.at(0, 0, 0, Detail::ProcessFound(&facts));
            let found = |thread| Detail::ThreadFound {
                process: id,
                thread,
                name: b"x",
                priority: 120,
                affinity: 3,
            };
            one.at(0, 0, 0, found(id));
            if id == 0 {
                one.at(0, 1, 0, found(0));
            }
        }
        for image in &images {
            one.at(0, 0, 0, Detail::Map { process: 0, image });
        }
        one
    }

    /// An event so many microseconds after the beginning, of a thread that is its process's first.
    pub fn at(&mut self, time: u64, cpu: u16, thread: u32, detail: Detail<'_>) {
        self.with_stack(time, cpu, thread, Stack::default(), detail);
    }

    pub fn with_stack(
        &mut self,
        time: u64,
        cpu: u16,
        thread: u32,
        stack: Stack<'_>,
        detail: Detail<'_>,
    ) {
        let time = SECOND + time * 1000;
        let event = NeutralEvent { time, cpu, process: thread, thread, stack, detail };
        self.shaper.take(&event, &mut self.out);
    }

    /// An event of a thread of a process, on CPU 1.
    pub fn of_process(&mut self, time: u64, (process, thread): (u32, u32), detail: Detail<'_>) {
        let (time, stack) = (SECOND + time * 1000, Stack::default());
        let event = NeutralEvent { time, cpu: 1, process, thread, stack, detail };
        self.shaper.take(&event, &mut self.out);
    }

    pub fn end(mut self) -> Vec<Taken> {
        let turn = Turn { time: 2 * SECOND, ..TURN };
        self.shaper.finish(turn, &mut self.out);
        let all = take_all(&mut self.out);
        check(&all);
        all
    }
}

pub fn fork(process: u32, parent: u32) -> Detail<'static> {
    Detail::Fork {
        process,
        parent_process: parent,
        thread: process,
        parent_thread: parent,
        soon: None,
    }
}

pub fn thread_of(process: u32, thread: u32) -> Detail<'static> {
    Detail::Fork { process, parent_process: process, thread, parent_thread: process, soon: None }
}

pub fn switch(old: u32, state: ThreadState, new: u32) -> Detail<'static> {
    Detail::Switch {
        old: SwitchedOut { thread: old, priority: 120, state },
        new: SwitchedIn { thread: new, priority: 120 },
    }
}

pub fn image(base: u64, path: &str) -> Arc<Image> {
    let path = path.as_bytes().to_vec();
    let (size, build_id) = (0x1000, vec![1; 20]);
    Arc::new(Image { base, size, path, build_id, entry: base + 0x40, ..Image::default() })
}

pub fn of(records: &[Taken], hook: u16) -> Vec<&Taken> {
    records.iter().filter(|record| record.hook == hook).collect()
}

#[test]
fn a_recording_begins_and_ends_in_the_order_of_windows() {
    let records = Machinery::new().end();
    let hooks: Vec<u16> = records.iter().map(|record| record.hook).collect();
    let start = [
        0x0005, 0x0303, 0x0303, 0x0503, 0x0503, 0x0503, 0x0503, 0x0303, 0x0503, 0x0303, 0x0503,
        0x0f49, 0x0008,
    ];
    let end = [
        0x0020, 0x0504, 0x0504, 0x0304, 0x0504, 0x0504, 0x0304, 0x0504, 0x0304, 0x0504, 0x0304,
        0x0f4a, 0x0005, 0x0008,
    ];
    assert_eq!(hooks[..start.len()], start);
    assert_eq!(hooks[start.len()..], end);
    // Kernel threads are threads of process 4.
    let kernel = records.iter().find(|record| record.hook == 0x0503 && record.u32(4) == 2);
    assert_eq!(kernel.unwrap().u32(0), 4);
}

#[test]
fn two_samples_of_a_thread_at_one_time_are_told_apart() {
    let mut machine = Machinery::new();
    let stack = Stack { kernel: &[], user: &[0x4010] };
    for _ in 0..2 {
        machine.with_stack(10, 0, 50, stack, Detail::Sample { address: 0x4010 });
    }
    let records = machine.end();
    let samples = of(&records, 0x0f2e);
    assert_eq!(samples[1].time, samples[0].time + 1);
    assert_eq!(of(&records, 0x1820).len(), 2);
    // Another thread has a stack in between, on another CPU.
    let mut machine = Machinery::new();
    for (cpu, thread) in [(0, 50), (1, 51), (0, 50), (1, 51)] {
        machine.with_stack(10, cpu, thread, stack, Detail::Sample { address: 0x4010 });
    }
    let records = machine.end();
    let mut stacks: Vec<_> =
        of(&records, 0x1820).iter().map(|one| (one.u64(0), one.u32(12))).collect();
    stacks.dedup();
    stacks.sort_unstable();
    stacks.dedup();
    assert_eq!(stacks.len(), 4);
}

#[test]
fn a_sample_without_ids_belongs_to_the_thread_that_ends_on_its_cpu() {
    const NO_ID: u32 = u32::MAX;
    let mut machine = Machinery::new();
    for (time, thread) in [(10, 61), (11, 62)] {
        let fork =
            Detail::Fork { process: 50, parent_process: 50, thread, parent_thread: 50, soon: None };
        machine.at(time, 0, 50, fork);
    }
    machine.at(20, 1, 61, Detail::Exit { process: 50, thread: 61 });
    machine.at(21, 0, 62, Detail::Exit { process: 50, thread: 62 });
    machine.at(30, 1, NO_ID, Detail::Sample { address: 0x4010 });
    machine.at(31, 0, NO_ID, Detail::Sample { address: 0x4010 });
    let records = machine.end();
    let samples = of(&records, 0x0f2e);
    let threads: Vec<_> = samples.iter().map(|sample| (sample.u32(8), sample.process)).collect();
    assert_eq!(threads, [(61, 50), (62, 50)]);
}

#[test]
fn a_sample_of_a_thread_whose_beginning_was_lost_gives_it_one() {
    const OUTSIDE: u32 = 1 << 31;
    let mut machine = Machinery::new();
    let sample = |machine: &mut Machinery, at: u64, thread: u32| {
        machine.at(at, 0, thread, Detail::Sample { address: 0x4010 });
    };
    sample(&mut machine, 10, 70);
    sample(&mut machine, 20, 70);
    sample(&mut machine, 30, OUTSIDE | 5);
    machine.at(40, 0, 70, Detail::Exit { process: 70, thread: 70 });
    let old = SwitchedOut { thread: 70, priority: 120, state: ThreadState::Dead };
    machine.at(50, 0, 70, Detail::Switch { old, new: SwitchedIn { thread: 50, priority: 120 } });
    let is_of_thread = |one: &&Taken| matches!(one.hook, 0x0502 | 0x0503) && one.u32(4) == 70;
    let records = machine.end();
    let lives: Vec<u16> = records.iter().filter(is_of_thread).map(|one| one.hook).collect();
    assert_eq!(lives, [0x0503, 0x0502]);
    let begins = |one: &&Taken| matches!(one.hook, 0x0501 | 0x0503);
    assert!(records.iter().filter(begins).all(|one| one.u32(4) != OUTSIDE | 5));
}

/// A busy machine may take a thread from its CPU between its last word and its last switch.
#[test]
fn a_thread_that_says_its_end_lives_for_as_long_as_it_will_run() {
    const MS: u64 = 1000;
    let mut machine = Machinery::new();
    for thread in 61..=66 {
        let fork =
            Detail::Fork { process: 50, parent_process: 50, thread, parent_thread: 50, soon: None };
        machine.at(10, 0, 50, fork);
    }
    let switch = |machine: &mut Machinery, at: u64, old: u32, new: u32, state: ThreadState| {
        let old = SwitchedOut { thread: old, priority: 120, state };
        let new = SwitchedIn { thread: new, priority: 120 };
        machine.at(at * MS, 1, old.thread, Detail::Switch { old, new });
    };
    // 61 is taken from its CPU, 62 waits and is lost, 63 is seen by its samples only, 64 is lost while it is ready, 65 runs for long, 66 waits
    // for what the kernel does at its end.
    switch(&mut machine, 1, 0, 61, ThreadState::Ready);
    machine.at(2 * MS, 1, 61, Detail::Exit { process: 50, thread: 61 });
    machine.at(2 * MS, 0, 63, Detail::Exit { process: 50, thread: 63 });
    switch(&mut machine, 3, 61, 62, ThreadState::Preempted);
    machine.at(3 * MS, 1, 62, Detail::Exit { process: 50, thread: 62 });
    switch(&mut machine, 4, 62, 66, ThreadState::Sleeping);
    machine.at(4 * MS, 1, 66, Detail::Exit { process: 50, thread: 66 });
    switch(&mut machine, 5, 66, 64, ThreadState::Blocked);
    machine.at(5 * MS, 1, 64, Detail::Exit { process: 50, thread: 64 });
    switch(&mut machine, 5, 64, 65, ThreadState::Preempted);
    machine.at(6 * MS, 1, 65, Detail::Exit { process: 50, thread: 65 });
    for time in [200, 400, 600] {
        machine.at(time * MS, 0, 63, Detail::Sample { address: 0x4010 });
    }
    machine.at(1000 * MS, 1, 65, Detail::Sample { address: 0x4010 });
    switch(&mut machine, 1001, 65, 66, ThreadState::Dead);
    switch(&mut machine, 1002, 66, 61, ThreadState::Dead);
    machine.at(1100 * MS, 1, 61, Detail::Sample { address: 0x4010 });
    switch(&mut machine, 1101, 61, 50, ThreadState::Dead);
    for time in 1102..11_000 {
        machine.at(time * MS, 1, 50, Detail::Sample { address: 0x4010 });
    }
    let records = machine.end();
    let ends: Vec<_> = of(&records, 0x0502)
        .iter()
        .map(|end| (end.u32(4), (end.time - (SECOND / 100) as i64) / 10_000))
        .collect();
    let lost = [(62, 10_250), (64, 10_250)];
    assert_eq!(ends, [&[(63, 1000), (65, 1001), (66, 1002), (61, 1101)], &lost[..]].concat());
}

#[test]
fn a_process_that_executes_a_program_soon_has_its_name_from_the_start() {
    let mut machine = Machinery::new();
    let facts = ExecFacts {
        path: b"/usr/bin/ls".to_vec(),
        name: b"ls".to_vec(),
        arguments: b"ls\0-l\0".to_vec(),
        user: Some(1000),
        unit: None,
    };
    let detail = Detail::Fork {
        process: 60,
        parent_process: 50,
        thread: 60,
        parent_thread: 50,
        soon: Some(&facts),
    };
    machine.at(10, 0, 50, detail);
    machine.at(20, 0, 60, Detail::Exec { process: 60, facts: &facts });
    machine.at(30, 0, 60, Detail::Map { process: 60, image: &image(0x40_0000, "/usr/bin/ls") });
    machine.at(40, 0, 60, Detail::Exit { process: 60, thread: 60 });
    let records = machine.end();
    let start = of(&records, 0x0301)[0];
    assert_eq!((start.u32(8), start.u32(12), start.process), (60, 50, 50));
    let text = String::from_utf8_lossy(&start.payload).replace('\0', "");
    assert!(text.contains("ls") && text.ends_with("ls -l"), "{text:?}");
    // S-1-22-1-1000
    assert!(start.payload.windows(4).any(|bytes| bytes == 1000u32.to_le_bytes()));
    assert_eq!(of(&records, 0x1402).len(), 1, "the image ends with its process");
}

#[test]
fn a_fork_without_a_program_inherits_the_images_of_its_parent() {
    let mut machine = Machinery::new();
    machine.at(5, 0, 50, Detail::Map { process: 50, image: &image(0x40_0000, "/a") });
    machine.at(6, 0, 50, Detail::Map { process: 50, image: &image(0x50_0000, "/b") });
    machine.at(10, 0, 50, fork(60, 50));
    let facts = ExecFacts { path: b"/c".to_vec(), ..ExecFacts::default() };
    machine.at(20, 0, 60, Detail::Exec { process: 60, facts: &facts });
    machine.at(30, 0, 60, Detail::Map { process: 60, image: &image(0x40_0000, "/c") });
    let records = machine.end();
    let of_child = |hook| of(&records, hook).iter().filter(|r| r.u32(16) == 60).count();
    assert_eq!((of_child(0x030a), of_child(0x1402), of_child(0x1404)), (3, 2, 1));
}

#[test]
fn a_process_lives_on_without_its_first_thread() {
    let mut machine = Machinery::new();
    machine.at(10, 0, 50, thread_of(50, 51));
    machine.at(20, 0, 50, Detail::Exit { process: 50, thread: 50 });
    machine.at(30, 0, 51, Detail::Sample { address: 1 });
    // Another thread executes a program, and has the first one's id from then on.
    machine.at(40, 0, 50, Detail::Exec { process: 50, facts: &ExecFacts::default() });
    machine.at(50, 0, 50, Detail::Sample { address: 2 });
    machine.at(60, 0, 50, Detail::Exit { process: 50, thread: 50 });
    let records = machine.end();
    let ends = of(&records, 0x0302);
    assert_eq!(ends.len(), 1);
    assert!(ends[0].time > of(&records, 0x0f2e)[1].time);
}

#[test]
fn an_id_that_is_used_again_is_another_process() {
    let mut machine = Machinery::new();
    machine.at(10, 0, 50, fork(60, 50));
    // The end of the first one was lost.
    machine.at(20, 0, 50, fork(60, 50));
    machine.at(30, 0, 60, Detail::Exit { process: 60, thread: 60 });
    let records = machine.end();
    assert_eq!((of(&records, 0x0301).len(), of(&records, 0x0302).len()), (2, 2));
}

#[test]
fn an_id_that_is_used_again_with_another_thread_is_another_process() {
    let mut machine = Machinery::new();
    machine.at(10, 0, 50, fork(60, 50));
    let detail =
        Detail::Fork { process: 60, parent_process: 50, thread: 70, parent_thread: 50, soon: None };
    machine.at(20, 0, 50, detail);
    let records = machine.end();
    let of_process = |hook| of(&records, hook).iter().filter(|one| one.u32(8) == 60).count();
    assert_eq!((of_process(0x0301), of_process(0x0302), of_process(0x0304)), (2, 1, 1));
}

#[test]
fn an_event_of_an_unknown_process_gives_it_a_beginning() {
    let mut machine = Machinery::new();
    machine.at(10, 0, 70, Detail::Exit { process: 70, thread: 70 });
    machine.at(20, 0, 80, Detail::Map { process: 80, image: &image(0x1000, "/x") });
    machine.end();
}

#[test]
fn switches_of_one_program_alone_make_whole_chains() {
    let mut machine = Machinery::new();
    machine.at(10, 0, 50, Detail::SwitchIn);
    machine.at(20, 0, 50, Detail::SwitchOut { state: ThreadState::Sleeping });
    // The end of this run was lost.
    machine.at(30, 0, 50, Detail::SwitchIn);
    machine.at(40, 0, 1, Detail::SwitchIn);
    // And the beginning of this one.
    machine.at(50, 1, 50, Detail::SwitchOut { state: ThreadState::Preempted });
    let records = machine.end();
    assert!(of(&records, 0x0524).len() >= 5);
}

#[test]
fn interrupts_and_soft_interrupts_have_their_beginnings() {
    let mut machine = Machinery::new();
    machine.at(10, 0, 50, Detail::InterruptEnter { line: 9 });
    machine.at(12, 0, 50, Detail::InterruptExit { line: 9, is_handled: true });
    machine.at(13, 0, 50, Detail::SoftInterruptEnter { vector: 1 });
    machine.at(14, 0, 50, Detail::Sample { address: 1 });
    machine.at(15, 0, 50, Detail::SoftInterruptExit { vector: 1 });
    machine.at(16, 0, 50, Detail::SoftInterruptExit { vector: 99 });
    let records = machine.end();
    let interrupt = of(&records, 0x0f43)[0];
    assert_eq!(interrupt.u64(0) as i64, (SECOND + 10_000) as i64 / 100);
    assert_eq!(interrupt.payload[16..20], [1, 9, 0, 0]);
    assert_eq!(of(&records, 0x0f45)[0].u64(0) as i64, (SECOND + 13_000) as i64 / 100);
    assert_eq!(of(&records, 0x0f2e)[0].payload[14] & 3, 1, "in a soft interrupt");
}

/// On a machine of 64 bits, calls of programs with 32 bits have other numbers: they are counted, and nothing is made of them.
#[test]
fn calls_of_programs_with_32_bits_are_left_out() {
    let mut machine = Machinery::new();
    let (map, arguments) =
        (if cfg!(target_arch = "aarch64") { 222 } else { 9 }, [0, 0x2000, 3, 0x22, u64::MAX, 0]);
    let calls = |machine: &mut Machinery, at: u64, process: u32| {
        let enter = Detail::SyscallEnter { number: map, arguments, file: None };
        machine.of_process(at, (process, process), enter);
        let leave = Detail::SyscallExit { number: map, result: 0x7000_0000 };
        machine.of_process(at + 1, (process, process), leave);
    };
    let facts = ExecFacts { path: b"/bin/narrow".to_vec(), ..ExecFacts::default() };
    let narrow = Image { is_32_bit: true, ..(*image(0x5000, "/bin/narrow")).clone() };
    calls(&mut machine, 10, 50);
    machine.at(20, 0, 50, Detail::Exec { process: 50, facts: &facts });
    machine.at(21, 0, 50, Detail::Map { process: 50, image: &Arc::new(narrow) });
    calls(&mut machine, 30, 50);
    let fork =
        Detail::Fork { process: 60, parent_process: 50, thread: 60, parent_thread: 50, soon: None };
    machine.at(40, 0, 50, fork);
    calls(&mut machine, 50, 60);
    machine.at(60, 0, 60, Detail::Exec { process: 60, facts: &facts });
    machine.at(61, 0, 60, Detail::Map { process: 60, image: &image(0x5000, "/bin/narrow") });
    calls(&mut machine, 70, 60);
    assert_eq!(machine.shaper.calls_of_32_bits(), 2);
    let records = machine.end();
    let made = of(&records, 0x0262);
    assert_eq!(made.iter().map(|one| one.process).collect::<Vec<_>>(), [50, 60]);
}

#[test]
fn memory_that_a_program_maps_is_virtual_memory() {
    let mut machine = Machinery::new();
    let (map, unmap) = if cfg!(target_arch = "aarch64") { (222, 215) } else { (9, 11) };
    let arguments = [0, 0x2000, 3, 0x22, u64::MAX, 0];
    machine.at(10, 0, 50, Detail::SyscallEnter { number: map, arguments, file: None });
    machine.at(11, 0, 50, Detail::SyscallExit { number: map, result: 0x7000_0000 });
    let arguments = [0x7000_0000, 0x2000, 0, 0, 0, 0];
    machine.at(12, 0, 50, Detail::SyscallEnter { number: unmap, arguments, file: None });
    machine.at(13, 0, 50, Detail::SyscallExit { number: unmap, result: 0 });
    machine.at(14, 0, 50, Detail::SyscallEnter { number: unmap, arguments, file: None });
    machine.at(15, 0, 50, Detail::SyscallExit { number: unmap, result: -22 });
    let records = machine.end();
    let made = of(&records, 0x0262)[0];
    assert_eq!(
        (made.u64(0), made.u64(8), made.u32(16), made.u32(20)),
        (0x7000_0000, 0x2000, 50, 0x3000)
    );
    assert_eq!(of(&records, 0x0263).len(), 1, "a call that failed changes nothing");
    assert_eq!(of(&records, 0x0f34).len(), 3);
}

/// The first program of a machine or container has the id 1.
#[test]
fn threads_of_each_program_wait_in_user_mode() {
    let switches = |machine: &mut Machinery| {
        for (at, old, new) in [(10, 1, 2), (20, 2, 50), (30, 50, 0), (40, 0, 4), (50, 4, 1)] {
            let old = SwitchedOut { thread: old, priority: 120, state: ThreadState::Sleeping };
            let new = SwitchedIn { thread: new, priority: 120 };
            machine.at(at, 0, old.thread, Detail::Switch { old, new });
        }
    };
    let mut machine = Machinery::new();
    switches(&mut machine);
    let records = machine.end();
    let modes: Vec<u8> = of(&records, 0x0524).iter().map(|one| one.payload[13]).collect();
    assert_eq!(modes, [1, 0, 1, 0, 0]);
}

#[test]
fn memory_that_moves_grows_or_shrinks_is_freed_and_made() {
    const AT: u64 = 0x7000_0000;
    const TO: u64 = 0x7100_0000;
    let mut machine = Machinery::new();
    let remap = number(|call| call == SystemCall::Remap);
    let all = [
        ([AT, 0x2000, 0x5000, 1], TO),
        ([AT, 0x2000, 0x4800, 1], AT),
        ([AT, 0x4800, 0x1000, 1], AT),
        ([AT, 0x1000, 0x1000, 1], AT),
        ([AT, u64::MAX, u64::MAX, 1], AT),
        // Its contents move, and it stays there.
        ([AT, 0x6000, 0x6000, 5], TO),
    ];
    for (step, ([base, old, new, flags], to)) in all.into_iter().enumerate() {
        let (number, arguments) = (remap, [base, old, new, flags, 0, 0]);
        let at = 10 * (step as u64 + 1);
        machine.at(at, 0, 50, Detail::SyscallEnter { number, arguments, file: None });
        machine.at(at + 1, 0, 50, Detail::SyscallExit { number, result: to as i64 });
    }
    let records = machine.end();
    let changes = |hook| {
        let all = of(&records, hook).into_iter();
        all.map(|one| (one.u64(0), one.u64(8), one.u32(20))).collect::<Vec<_>>()
    };
    let made = [(TO, 0x5000, 0x3000), (AT + 0x2000, 0x3000, 0x3000), (TO, 0x6000, 0x3000)];
    assert_eq!(changes(0x0262), made);
    assert_eq!(changes(0x0263), [(AT, 0x2000, 0x8000), (AT + 0x1000, 0x4000, 0x8000)]);
}

/// The number of a system call of this architecture.
pub fn number(is_wanted: impl Fn(SystemCall) -> bool) -> u64 {
    etw_system::system_calls::numbers(is_wanted)[0]
}

pub fn operation(wanted: FileOperation) -> u64 {
    number(|call| matches!(call, SystemCall::File(one, _) if one == wanted))
}

impl Machinery {
    /// A call of thread 50 from one microsecond to the next.
    pub fn call(&mut self, time: u64, number: u64, arguments: &[u64], result: i64) {
        self.call_with(time, (number, arguments), None, result);
    }

    pub fn call_with(
        &mut self,
        time: u64,
        call: (u64, &[u64]),
        file: Option<&CalledFile>,
        result: i64,
    ) {
        self.call_by((50, 50), time, call, file, result);
    }

    /// A call of a process and thread.
    pub fn call_by(
        &mut self,
        ids: (u32, u32),
        time: u64,
        (number, arguments): (u64, &[u64]),
        file: Option<&CalledFile>,
        result: i64,
    ) {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        self.of_process(time, ids, Detail::SyscallEnter { number, arguments: all, file });
        self.of_process(time + 1, ids, Detail::SyscallExit { number, result });
    }
}

pub fn some_file() -> FileFacts {
    FileFacts {
        id: FileId { device: 0xfd << 20 | 1, inode: 77, address: 0 },
        path: b"/data/x".to_vec(),
    }
}

#[test]
fn an_open_file_is_named_from_its_opening_to_its_close() {
    let mut machine = Machinery::new();
    let file = some_file().into();
    let open = number(
        |call| matches!(call, SystemCall::File(FileOperation::Open, one) if one.flags.is_some()),
    );
    // O_CREAT and O_TRUNC, where open and openat have them.
    machine.call_with(10, (open, &[0, 0o1101, 0o1101]), Some(&file), 5);
    machine.call(20, operation(FileOperation::Write), &[5, 0x1000, 100], 60);
    machine.call(30, operation(FileOperation::Write), &[5, 0x1000, 40], 40);
    machine.call(40, number(|call| call == SystemCall::Seek), &[5, 7, 0], 7);
    machine.call(50, operation(FileOperation::Read), &[5, 0x1000, 10], -5);
    machine.call(60, operation(FileOperation::Flush), &[5], 0);
    machine.call(70, operation(FileOperation::Close), &[5], 0);
    machine.call(80, operation(FileOperation::Read), &[5, 0x1000, 10], 10);
    let records = machine.end();
    let create = of(&records, 0x0440)[0];
    let object = create.u64(8);
    assert_eq!((create.u32(16), create.u32(20) >> 24), (50, 5), "OVERWRITE_IF");
    let path: Vec<u8> = "/data/x\0".bytes().flat_map(|byte| [byte, 0]).collect();
    assert!(create.payload.ends_with(&path));
    let writes = of(&records, 0x0444);
    let offsets: Vec<u64> = writes.iter().map(|one| one.u64(0)).collect();
    assert_eq!(offsets, [0, 60]);
    assert_eq!((writes[0].u64(16), writes[0].u32(36)), (object, 100));
    let reads = of(&records, 0x0443);
    assert_eq!(reads.len(), 1, "a closed descriptor is that of no known file");
    assert_eq!(reads[0].u64(0), 7);
    let ends = of(&records, 0x044c);
    assert_eq!(ends.len(), 6);
    let read_end = ends.iter().find(|one| one.u64(0) == reads[0].u64(8)).unwrap();
    assert_eq!((read_end.u64(8) as i64, read_end.u32(16) as i32), (-5, -5));
    assert_eq!((of(&records, 0x0441).len(), of(&records, 0x0442).len()), (1, 1));
    let (names, rundown) = (of(&records, 0x0400), of(&records, 0x0424));
    assert_eq!((names.len(), rundown.len()), (1, 1));
    assert_eq!((names[0].u64(0), rundown[0].u64(0)), (writes[0].u64(24), writes[0].u64(24)));
}

/// A file that is closed before the host can look at it has no name, but all of its operations.
#[test]
fn a_file_that_is_open_for_a_moment_has_its_operations() {
    let mut machine = Machinery::new();
    let open = number(
        |call| matches!(call, SystemCall::File(FileOperation::Open, one) if one.flags.is_some()),
    );
    machine.call(10, open, &[0, 0, 0], 5);
    machine.call(20, operation(FileOperation::Read), &[5, 0x1000, 100], 60);
    machine.call(30, operation(FileOperation::Close), &[5], 0);
    machine.call(40, open, &[0, 0, 0], -2);
    machine.call(50, operation(FileOperation::Read), &[5, 0x1000, 100], 60);
    let records = machine.end();
    let (creates, reads) = (of(&records, 0x0440), of(&records, 0x0443));
    assert_eq!((creates.len(), reads.len()), (2, 1), "the descriptor of no known file");
    let object = creates[0].u64(8);
    assert!(object != 0 && object != creates[1].u64(8));
    assert_eq!((reads[0].u64(0), reads[0].u64(16), reads[0].u64(24)), (0, object, 0));
    assert_eq!(of(&records, 0x0442)[0].u64(8), object);
    assert_eq!(of(&records, 0x044c).len(), 4);
}

#[test]
fn a_descriptor_that_was_open_before_is_found_once() {
    let mut machine = Machinery::new();
    let read = operation(FileOperation::Read);
    let file = some_file();
    let found = |descriptor, file| Detail::DescriptorFound { process: 50, descriptor, file };
    machine.at(5, 0, 50, found(3, Some(&file)));
    machine.at(5, 0, 50, found(4, None));
    machine.call(10, read, &[3, 0, 10], 10);
    machine.call(20, read, &[4, 0, 10], 10);
    // dup2 makes it another file, and an exec closes everything.
    machine.call(30, number(|call| call == SystemCall::Replace), &[4, 3], 3);
    machine.call(40, read, &[3, 0, 10], 10);
    machine.at(50, 0, 50, found(3, Some(&file)));
    machine.at(60, 0, 50, Detail::Exec { process: 50, facts: &ExecFacts::default() });
    machine.call(70, read, &[3, 0, 10], 10);
    let records = machine.end();
    let reads = of(&records, 0x0443);
    assert_eq!(reads.len(), 1, "a socket or pipe is no file");
    assert_eq!(reads[0].u64(0), u64::MAX - 1, "the position is not known");
}

#[test]
fn operations_by_path_have_no_file() {
    let mut machine = Machinery::new();
    for (time, kind) in
        [(10, FileOperation::Delete), (20, FileOperation::Rename), (30, FileOperation::Query)]
    {
        let by_path = number(
            |call| matches!(call, SystemCall::File(one, meaning) if one == kind && meaning.descriptor.is_none()),
        );
        machine.call(time, by_path, &[], -2);
    }
    let records = machine.end();
    for hook in [0x0446, 0x0447, 0x044a] {
        assert_eq!((of(&records, hook).len(), of(&records, hook)[0].u64(8)), (1, 0));
    }
    assert!(of(&records, 0x044c).iter().all(|end| end.u32(16) as i32 == -2));
}

#[test]
fn a_file_in_memory_is_mapped_and_unmapped() {
    let mut machine = Machinery::new();
    let file = some_file();
    machine.at(5, 0, 50, Detail::DescriptorFound { process: 50, descriptor: 3, file: Some(&file) });
    let map = number(|call| call == SystemCall::Map);
    let unmap = number(|call| call == SystemCall::Unmap);
    machine.call(10, map, &[0, 0x3000, 1, 2, 3, 0], 0x7000_0000);
    machine.call(20, unmap, &[0x7000_0000, 0x3000], 0);
    let records = machine.end();
    let (mapped, unmapped) = (of(&records, 0x0425)[0], of(&records, 0x0426)[0]);
    assert_eq!((mapped.u64(0), mapped.u64(24), mapped.u32(32)), (0x7000_0000, 0x3000, 50));
    assert_eq!(mapped.payload, unmapped.payload);
    assert_eq!(mapped.u64(8), of(&records, 0x0400)[0].u64(0));
    assert!(of(&records, 0x0263).is_empty(), "it was no memory of the program's own");
}

#[test]
fn the_heap_grows_and_shrinks() {
    let mut machine = Machinery::new();
    let to = number(|call| call == SystemCall::Break);
    for (time, end) in [(10, 0x5000_0000), (20, 0x5000_3000), (30, 0x5000_1000), (40, 0x5000_1000)]
    {
        machine.call(time, to, &[end as u64], end);
    }
    let advise = number(|call| call == SystemCall::Advise);
    machine.call(50, advise, &[0x5000_0000, 0x1000, 4], 0);
    machine.call(60, advise, &[0x5000_0000, 0x1000, 3], 0);
    let records = machine.end();
    let changes = |hook| {
        let all = of(&records, hook);
        all.iter().map(|one| (one.u64(0), one.u64(8), one.u32(20))).collect::<Vec<_>>()
    };
    assert_eq!(changes(0x0262), [(0x5000_0000, 0x3000, 0x3000)]);
    assert_eq!(changes(0x0263), [(0x5000_1000, 0x2000, 0x4000), (0x5000_0000, 0x1000, 0x4000)]);
}

#[test]
fn a_changed_priority_is_recorded_with_both_values() {
    let mut machine = Machinery::new();
    machine.at(10, 0, 1, Detail::Priority { thread: 50, old: 120, new: 98 });
    machine.at(20, 0, 50, Detail::Sample { address: 1 });
    let records = machine.end();
    assert_eq!(of(&records, 0x0530)[0].payload, [50, 0, 0, 0, 8, 17, 0, 0]);
    assert_eq!(of(&records, 0x0f2e)[0].payload[14] >> 3, 17);
}

#[test]
fn counters_lie_before_the_end_of_their_process() {
    let mut machine = Machinery::new();
    let counters = ProcessCounters { faults: 7, resident: 0x5000, ..ProcessCounters::default() };
    machine.at(10, 0, 0, Detail::Counters { process: 50, counters: &counters });
    let records = machine.end();
    let at = records.iter().position(|one| one.hook == 0x0321).unwrap();
    assert_eq!((records[at].u32(0), records[at].u32(4), records[at].payload.len()), (50, 7, 104));
    assert_eq!(records[at].u64(16 + 6 * 8), 0x5000);
    assert_eq!((records[at + 1].hook, records[at + 1].u32(8)), (0x0304, 50));
}

/// OV-23: a thread that executes a program has the process's id before the exec is recorded.
#[test]
fn a_thread_that_executes_a_program_takes_the_id_of_the_process() {
    let mut machine = Machinery::new();
    machine.at(10, 0, 50, thread_of(50, 51));
    machine.at(20, 0, 50, Detail::Exit { process: 50, thread: 50 });
    machine.at(21, 0, 50, switch(50, ThreadState::Dead, 0));
    machine.at(30, 0, 0, switch(0, ThreadState::Ready, 50));
    machine.at(31, 0, 50, Detail::Sample { address: 0x1000 });
    machine.at(32, 0, 50, Detail::Exec { process: 50, facts: &ExecFacts::default() });
    assert_eq!(threads_of_first(&machine.end()), [0x0503, 0x0502, 0x0501, 0x0504]);
    // It runs when it takes the id, and leaves its CPU with it.
    let mut machine = Machinery::new();
    machine.at(10, 0, 50, thread_of(50, 51));
    machine.at(20, 0, 50, Detail::Exit { process: 50, thread: 50 });
    machine.at(21, 0, 50, switch(50, ThreadState::Dead, 51));
    machine.at(30, 0, 50, switch(50, ThreadState::Sleeping, 0));
    let records = machine.end();
    assert_eq!(threads_of_first(&records), [0x0503, 0x0502, 0x0501, 0x0504]);
    let start = records.iter().rposition(|one| one.hook == 0x0503).unwrap();
    let switch = records.iter().rposition(|one| one.hook == 0x0524).unwrap();
    assert!(start < switch, "the thread starts before it leaves its CPU");
}

/// The hooks of starts and ends of the first thread of process 50.
fn threads_of_first(records: &[Taken]) -> Vec<u16> {
    let of_first = |one: &&Taken| matches!(one.hook, 0x0501..=0x0504) && one.u32(4) == 50;
    records.iter().filter(of_first).map(|one| one.hook).collect()
}

/// The hooks of starts and ends of processes, threads and images.
const LIFE: [u16; 6] = [0x0301, 0x0302, 0x0501, 0x0502, 0x030a, 0x1402];

/// OV-23: starts, ends and images have the stacks of the threads that made or ended them.
#[test]
fn starts_ends_and_images_have_call_stacks() {
    let mut machine = Machinery::with_stacks_of(&LIFE);
    let stack = |user: &'static [u64]| Stack { kernel: &[KERNEL], user };
    const KERNEL: u64 = 0xffff_ffff_8100_0000;
    machine.at(10, 0, 50, fork(60, 50));
    machine.at(11, 1, 1, Detail::InterruptEnter { line: 5 });
    machine.with_stack(12, 0, 50, stack(&[0x1001]), Detail::Created);
    machine.at(13, 0, 50, switch(50, ThreadState::Sleeping, 60));
    let map = number(|call| call == SystemCall::Map);
    let enter = Detail::SyscallEnter { number: map, arguments: [0; 6], file: None };
    machine.with_stack(20, 0, 60, stack(&[0x1002]), enter);
    machine.at(21, 0, 60, Detail::Map { process: 60, image: &image(0x5000, "/lib/a.so") });
    machine.at(22, 0, 60, Detail::SyscallExit { number: map, result: 0x5000 });
    machine.at(23, 0, 60, Detail::Map { process: 60, image: &image(0x7000, "/lib/b.so") });
    machine.with_stack(30, 0, 60, stack(&[0x1003]), Detail::Exiting);
    machine.at(31, 0, 60, Detail::Exit { process: 60, thread: 60 });
    machine.at(32, 0, 60, switch(60, ThreadState::Dead, 50));
    let records = machine.end();
    let stacks = records.iter().enumerate().filter(|(_, one)| one.hook == 0x1820);
    let stacks: Vec<(u16, u64, u64)> =
        stacks.map(|(at, one)| (records[at - 1].hook, one.u64(16), one.u64(24))).collect();
    let expected = [
        (0x0301, 0x1001),
        (0x0501, 0x1001),
        (0x030a, 0x1002),
        (0x0502, 0x1003),
        (0x1402, 0x1003),
        (0x1402, 0x1003),
        (0x0302, 0x1003),
    ];
    assert_eq!(stacks, expected.map(|(hook, user)| (hook, KERNEL, user)));
}

/// OV-23: a thread whose creator's stack was lost starts before its own first event.
/// A StackWalk has 192 frames: the recording says how many stacks had more.
#[test]
fn stacks_with_more_frames_than_a_record_has_are_counted() {
    let mut machine = Machinery::new();
    let frames: Vec<u64> = (0x1000..0x1100).collect();
    for (time, kernel, user) in [(10, 0, 192), (20, 1, 192), (30, 200, 10)] {
        let stack = Stack { kernel: &frames[..kernel], user: &frames[..user] };
        machine.with_stack(time, 0, 50, stack, Detail::Sample { address: 0x1000 });
    }
    assert_eq!(machine.shaper.cut_stacks(), 2);
    let records = machine.end();
    let sizes: Vec<usize> =
        of(&records, 0x1820).iter().map(|one| (one.payload.len() - 16) / 8).collect();
    assert_eq!(sizes, [192; 3]);
}

#[test]
fn a_lost_stack_of_a_creator_delays_no_start() {
    for next in [
        switch(50, ThreadState::Sleeping, 60),
        Detail::Wake { thread: 60, is_interrupt: false },
        Detail::Lost { count: 1 },
    ] {
        let mut machine = Machinery::with_stacks_of(&LIFE);
        machine.at(10, 0, 50, fork(60, 50));
        machine.at(11, 0, 50, next);
        let records = machine.end();
        let start = records.iter().position(|one| one.hook == 0x0501 && one.u32(4) == 60).unwrap();
        let event = records.iter().position(|one| matches!(one.hook, 0 | 0x0524 | 0x0532));
        assert!(start < event.unwrap(), "{next:?}");
    }
    // Much later, and at the end of the recording.
    for events in [0, 1] {
        let mut machine = Machinery::with_stacks_of(&LIFE);
        machine.at(10, 0, 50, fork(60, 50));
        (0..events).for_each(|_| machine.at(100_000, 1, 1, Detail::InterruptEnter { line: 5 }));
        assert_eq!(of(&machine.end(), 0x0301).len(), 1);
    }
}

#[test]
fn a_call_has_the_address_of_its_routine() {
    let machine =
        Machine { cpus: 1, system_calls: vec![0, 0xffff_ffff_8100_0000], ..Machine::default() };
    let options = Options { masks: all_flags(), ..Options::default() };
    let (mut shaper, mut out) = (Shaper::new(options, machine), Records::default());
    for number in [0, 1] {
        let detail = Detail::SyscallEnter { number, arguments: [0; 6], file: None };
        let event = NeutralEvent {
            time: 1,
            cpu: 0,
            process: 1,
            thread: 1,
            stack: Stack::default(),
            detail,
        };
        shaper.take(&event, &mut out);
    }
    let all = take_all(&mut out);
    let calls: Vec<u64> = of(&all, 0x0f33).iter().map(|one| one.u64(0)).collect();
    assert_eq!(calls, [0xffff_0000_0000_0000, 0xffff_ffff_8100_0000]);
}
