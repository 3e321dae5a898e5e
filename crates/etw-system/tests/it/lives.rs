//! Lives of threads and processes whose beginnings or ends the kernel did not tell, from neutral events. OV-23.

use etw_system::Vanished;
use etw_system::neutral::*;
use etw_system::record::{ProviderEvent, RecordKind};
use etw_system::system_calls::SystemCall;

use crate::invariants::{Taken, is_loss};
use crate::shaper::{Machinery, SECOND, fork, image, number, of, switch, thread_of};

/// P12: a thread that runs, and whose beginning the kernel did not tell, begins where it is first known, with a loss that is counted.
#[test]
fn a_thread_whose_beginning_nobody_saw_is_a_loss() {
    let mut machine = Machinery::new();
    machine.at(10, 0, 0, switch(0, ThreadState::Ready, 70));
    machine.at(20, 0, 70, switch(70, ThreadState::Sleeping, 71));
    // It does not come back: it was on its way out when the recording began.
    machine.at(30, 0, 71, switch(71, ThreadState::Dead, 70));
    assert_eq!(machine.shaper.take_unseen(), 1);
    machine.at(40, 0, 70, switch(70, ThreadState::Sleeping, 0));
    machine.at(50, 0, 72, Detail::Sample { address: 0x4000 });
    machine.at(60, 0, 73, Detail::Exit { process: 73, thread: 73 });
    assert_eq!(machine.shaper.take_unseen(), 2);
    let records = machine.end();
    let begins = |one: &&Taken| one.hook == 0x0503 && one.u32(4) >= 70 || is_loss(one);
    let begins: Vec<_> = records
        .iter()
        .filter(begins)
        .map(|one| ((one.time - (SECOND / 100) as i64) / 10, one.hook))
        .collect();
    assert_eq!(begins, [20, 50, 60].map(|time| [(time, 0), (time, 0x0503)]).concat());
}

/// The hooks of a thread's beginnings and ends, and their times.
fn life_of_thread(records: &[Taken], thread: u32) -> Vec<(u16, i64)> {
    let is_life = |one: &&Taken| matches!(one.hook, 0x0501..=0x0504) && one.u32(4) == thread;
    records.iter().filter(is_life).map(|one| (one.hook, microseconds(one))).collect()
}

/// OV-23: if the switch may be lost with which a thread left its CPU behind its last word, its end is at its last word, or a little later, and
/// it has no second life.
#[test]
fn a_thread_that_ends_among_losses_ends_with_its_last_word() {
    const MS: u64 = 1000;
    let mut machine = Machinery::new();
    for thread in [61, 62, 63] {
        machine.at(10, 0, 50, thread_of(50, thread));
    }
    machine.at(20, 1, 0, switch(0, ThreadState::Ready, 61));
    machine.at(30, 1, 61, Detail::Exit { process: 50, thread: 61 });
    machine.at(40, 0, 0, Detail::Lost { count: 1 });
    // No switch shows that they run.
    machine.of_process(50, (50, 62), Detail::Exit { process: 50, thread: 62 });
    machine.at(60, 0, 50, Detail::Exit { process: 50, thread: 63 });
    machine.at(MS, 0, 50, Detail::Sample { address: 0x4010 });
    machine.at(3 * MS, 0, 50, Detail::Sample { address: 0x4010 });
    machine.of_process(4 * MS, (50, 62), switch(62, ThreadState::Preempted, 0));
    machine.of_process(900 * MS, (50, 61), switch(61, ThreadState::Dead, 0));
    let records = machine.end();
    let ends = [61, 62, 63].map(|thread| life_of_thread(&records, thread));
    let expected = [3000, 50, 60].map(|end| vec![(0x0501, 10), (0x0502, end)]);
    assert_eq!(ends, expected);
    assert_eq!(life_of_process(&records, 50), [(0x0303, 0), (0x0304, 1_000_000)]);
}

/// OV-23: switches are recorded when the rundown at the start is complete: a thread that ends before that ends with its last word.
#[test]
fn a_thread_that_ends_before_switches_are_recorded_ends_with_its_last_word() {
    let mut machine = Machinery::new();
    machine.shaper.found_until(SECOND + 100_000);
    machine.at(50, 0, 1, Detail::Exit { process: 1, thread: 1 });
    machine.at(150, 0, 0, switch(0, ThreadState::Ready, 50));
    let records = machine.end();
    assert_eq!(life_of_process(&records, 1), [(0x0303, 0), (0x0302, 50)]);
}

/// An id may be used again while the processes of the beginning are listed: the list has the first process, or the second one.
#[test]
fn an_id_that_is_used_again_during_the_list_of_processes_is_another_process() {
    let mut machine = Machinery::new();
    machine.shaper.found_until(2 * SECOND);
    machine.at(10, 0, 1, Detail::Exit { process: 1, thread: 1 });
    machine.at(20, 0, 50, fork(1, 50));
    machine.at(700_000, 0, 1, Detail::Map { process: 1, image: &image(0x40_0000, "/a") });
    let records = machine.end();
    let life: Vec<_> = records
        .iter()
        .filter(|one| matches!(one.hook, 0x0301..=0x0304) && one.u32(8) == 1)
        .map(|one| (one.hook, (one.time - (SECOND / 100) as i64) / 10))
        .collect();
    assert_eq!(life, [(0x0303, 0), (0x0302, 10), (0x0301, 20), (0x0304, 1_000_000)]);
}

/// A program that calls the kernel is known, even if its beginning was lost.
#[test]
fn a_call_of_a_thread_whose_beginning_was_lost_gives_it_one() {
    let mut machine = Machinery::new();
    let map = number(|call| call == SystemCall::Map);
    machine.at(
        10,
        0,
        70,
        Detail::SyscallEnter { number: map, arguments: [0, 4096, 3, 0x22, 0, 0], file: None },
    );
    machine.at(20, 0, 70, Detail::SyscallExit { number: map, result: 0x7000_0000 });
    assert_eq!(machine.shaper.take_unseen(), 1);
    let records = machine.end();
    assert_eq!(of(&records, 0x0262)[0].u32(16), 70);
}

/// In a container, the switches of a thread's first turn on a CPU name it by its machine's id.
#[test]
fn a_thread_that_says_its_end_in_its_first_turn_lives_until_its_last_switch() {
    const MS: u64 = 1000;
    const OUTSIDE: u32 = 1 << 31;
    let mut machine = Machinery::new();
    // 61 is stopped with its machine for long, 62 waits behind its last word, 63 ends at once.
    let lives = [(0, 61, 300), (400, 62, 4), (800, 63, 5)];
    for (at, thread, turn) in lives {
        let of_machine = OUTSIDE | (9000 + thread);
        machine.at((at + 1) * MS, 0, 50, thread_of(50, thread));
        machine.at((at + 2) * MS, 1, 0, switch(0, ThreadState::Ready, of_machine));
        machine.of_process((at + 3) * MS, (50, thread), Detail::Exit { process: 50, thread });
        machine.at((at + turn) * MS, 0, 50, Detail::Sample { address: 0x4010 });
        let state = if thread == 62 { ThreadState::Blocked } else { ThreadState::Dead };
        let left = switch(of_machine, state, 0);
        machine.of_process((at + turn + 1) * MS, (50, thread), left);
        if thread == 62 {
            machine.at((at + 320) * MS, 0, 50, Detail::Sample { address: 0x4010 });
            machine.at((at + 330) * MS, 1, 0, switch(0, ThreadState::Ready, thread));
            let left = switch(thread, ThreadState::Dead, 0);
            machine.of_process((at + 331) * MS, (50, thread), left);
        }
    }
    let ends: Vec<_> = of(&machine.end(), 0x0502)
        .iter()
        .map(|end| (end.u32(4), (end.time - (SECOND / 100) as i64) / 10_000))
        .collect();
    assert_eq!(ends, [(61, 301), (62, 731), (63, 806)]);
}

/// The time of a record, in microseconds behind the beginning of the recording.
fn microseconds(record: &Taken) -> i64 {
    (record.time - (SECOND / 100) as i64) / 10
}

/// OV-23: without switches, threads and processes end when they say so, with the status of the last thread, which comes later, and a
/// sample behind it begins no life.
#[test]
fn without_switches_an_end_has_its_own_time() {
    let mut machine = Machinery::without_switches();
    // Their times lie behind the ends, and they are read before those have passed the watermark.
    for (time, thread, status) in [(110, 61, 0), (210, 60, 3)] {
        machine.at(time, 0, 0, Detail::ExitStatus { process: 60, thread, status });
    }
    machine.at(10, 0, 50, fork(60, 50));
    machine.at(20, 0, 60, thread_of(60, 61));
    machine.of_process(100, (60, 61), Detail::Exit { process: 60, thread: 61 });
    machine.at(200, 0, 60, Detail::Exit { process: 60, thread: 60 });
    // The first thread of another process has ended, and is seen once more on its way out.
    machine.at(300, 0, 50, fork(70, 50));
    machine.at(310, 0, 70, thread_of(70, 71));
    machine.at(400, 0, 70, Detail::Exit { process: 70, thread: 70 });
    machine.at(405, 0, 70, Detail::Sample { address: 0x4000 });
    machine.at(406, 0, u32::MAX, Detail::Sample { address: 0x4001 });
    machine.of_process(500, (70, 71), Detail::Exit { process: 70, thread: 71 });
    assert_eq!(machine.shaper.take_unseen(), 0);
    let records = machine.end();
    let ends: Vec<_> =
        of(&records, 0x0502).iter().map(|one| (one.u32(4), microseconds(one))).collect();
    assert_eq!(ends, [(61, 100), (60, 200), (70, 400), (71, 500)]);
    let ends = of(&records, 0x0302);
    let ends: Vec<_> =
        ends.iter().map(|one| (one.u32(8), one.u32(20), microseconds(one))).collect();
    assert_eq!(ends, [(60, 3, 200), (70, 0, 500)]);
    let threads: Vec<u32> = of(&records, 0x0f2e).iter().map(|one| one.u32(8)).collect();
    assert_eq!(threads, [70, 70], "the second one had no id any more");
    assert!(of(&records, 0x0503).iter().all(|one| one.u32(4) < 60), "nobody began again");
}

/// OV-23: where the kernel follows some threads only, it does not follow them behind their last word: they leave their CPUs then.
#[test]
fn a_thread_that_is_followed_alone_leaves_its_cpu_with_its_last_word() {
    let mut machine = Machinery::new();
    machine.at(10, 0, 50, Detail::SwitchIn);
    machine.at(20, 0, 50, fork(60, 50));
    machine.at(30, 0, 50, Detail::SwitchOut { state: ThreadState::Waiting });
    machine.at(40, 0, 60, Detail::SwitchIn);
    machine.at(100, 0, 60, Detail::Exit { process: 60, thread: 60 });
    machine.at(500, 0, 50, Detail::SwitchIn);
    let records = machine.end();
    let ends: Vec<_> =
        of(&records, 0x0302).iter().map(|one| (one.u32(8), microseconds(one))).collect();
    assert_eq!(ends, [(60, 100)]);
    let switches = of(&records, 0x0524);
    let switches: Vec<_> =
        switches.iter().map(|one| (microseconds(one), one.u32(4), one.u32(0))).collect();
    assert_eq!(switches, [(10, 0, 50), (30, 50, 0), (40, 0, 60), (100, 60, 0), (500, 0, 50)]);
}

/// OV-23: a process that runs its parent's program has the images of its parent before its first sample, and no longer when it executes
/// another one. One that is not seen until then has none.
#[test]
fn inherited_images_are_told_before_they_are_needed() {
    let mut machine = Machinery::new();
    let shell = image(0x10_0000, "/bin/sh");
    machine.at(10, 0, 50, Detail::Map { process: 50, image: &shell });
    let soon = ExecFacts { path: b"/bin/true".to_vec(), ..ExecFacts::default() };
    for process in [60, 61] {
        let fork = Detail::Fork {
            process,
            parent_process: 50,
            thread: process,
            parent_thread: 50,
            soon: Some(&soon),
        };
        machine.at(20, 0, 50, fork);
    }
    machine.at(30, 0, 61, Detail::Sample { address: 0x10_0010 });
    machine.at(31, 0, 61, Detail::Sample { address: 0x10_0020 });
    for process in [60, 61] {
        machine.at(40, 0, process, Detail::Exec { process, facts: &soon });
    }
    let records = machine.end();
    let loads: Vec<_> = of(&records, 0x030a)
        .iter()
        .map(|one| (one.u32(16), microseconds(one), one.u64(0)))
        .collect();
    assert_eq!(loads, [(50, 10, 0x10_0000), (61, 30, 0x10_0000)]);
    let unloads: Vec<u32> = of(&records, 0x1402).iter().map(|one| one.u32(16)).collect();
    assert_eq!(unloads, [61]);
    let load = records.iter().position(|one| one.hook == 0x030a && one.u32(16) == 61).unwrap();
    let sample = records.iter().position(|one| one.hook == 0x0f2e).unwrap();
    assert!(load < sample);
}

/// OV-23: an id that is used again at once is that of another process, with a key of its own.
#[test]
fn an_id_that_is_used_again_at_once_has_another_key() {
    let mut machine = Machinery::without_switches();
    for time in [1000, 1500] {
        machine.at(time, 0, 50, fork(60, 50));
        machine.at(time + 200, 0, 60, Detail::Exit { process: 60, thread: 60 });
    }
    let records = machine.end();
    let keys = |hook| of(&records, hook).iter().map(|one| one.u64(0)).collect::<Vec<_>>();
    assert_eq!(keys(0x0301), keys(0x0302));
    assert_ne!(keys(0x0301)[0], keys(0x0301)[1]);
}

/// OV-23: where each switch has a record of both threads, one of them is enough; a thread without ids leaves its CPU for the last time,
/// and another one may come back for a while.
#[test]
fn a_switch_with_one_of_its_two_records_is_whole() {
    let mut machine = Machinery::new();
    let from = |thread| Detail::SwitchedFrom { thread };
    let sleeps = |old, new| switch(old, ThreadState::Waiting, new);
    machine.at(10, 0, 0, sleeps(0, 50));
    machine.at(11, 0, 50, from(0));
    machine.at(20, 0, 50, sleeps(50, 0));
    // Nothing of idle: neither that it came, nor that it went.
    machine.at(30, 0, 50, from(0));
    machine.at(40, 0, 50, fork(60, 50));
    machine.at(50, 0, 50, sleeps(50, 60));
    machine.at(51, 0, 60, from(50));
    machine.at(60, 0, 60, Detail::Exit { process: 60, thread: 60 });
    // Its ids are gone meanwhile.
    machine.at(70, 0, u32::MAX, sleeps(u32::MAX, 50));
    machine.at(71, 0, 50, from(u32::MAX));
    machine.at(80, 0, 50, sleeps(50, 0));
    assert_eq!((machine.shaper.take_gaps(), machine.shaper.take_unseen()), (0, 0));
    let records = machine.end();
    let switches: Vec<_> = of(&records, 0x0524)
        .iter()
        .map(|one| (microseconds(one), one.u32(4), one.u32(0)))
        .collect();
    let expected = [(10, 0, 50), (20, 50, 0), (30, 0, 50), (50, 50, 60), (70, 60, 50), (80, 50, 0)];
    assert_eq!(switches, expected);
    let ends: Vec<_> =
        of(&records, 0x0302).iter().map(|one| (one.u32(8), microseconds(one))).collect();
    assert_eq!(ends, [(60, 70)]);
}

/// OV-23: of two threads without ids, none is switched to itself, and one that nobody knows is no thread of its own.
#[test]
fn threads_without_ids_are_told_apart() {
    const NO_ID: u32 = u32::MAX;
    let mut machine = Machinery::new();
    let from = |thread| Detail::SwitchedFrom { thread };
    let out = |old, new, is_preempted| {
        let state = if is_preempted { ThreadState::Preempted } else { ThreadState::Waiting };
        switch(old, state, new)
    };
    machine.at(5, 0, 0, out(0, 50, false));
    machine.at(6, 0, 50, fork(60, 50));
    machine.at(7, 0, 50, fork(61, 50));
    machine.at(10, 0, 50, out(50, 60, false));
    machine.at(11, 0, 60, from(50));
    machine.at(12, 0, 60, Detail::Exit { process: 60, thread: 60 });
    machine.at(13, 0, 60, out(60, 61, true));
    machine.at(14, 0, 61, from(60));
    machine.at(15, 0, 61, Detail::Exit { process: 61, thread: 61 });
    // The other one has lost its ids, and ends.
    machine.at(20, 0, 61, out(61, NO_ID, true));
    machine.at(21, 0, NO_ID, from(61));
    machine.at(30, 0, NO_ID, out(NO_ID, NO_ID, false));
    machine.at(31, 0, NO_ID, from(NO_ID));
    machine.at(40, 0, NO_ID, out(NO_ID, 50, false));
    machine.at(41, 0, 50, from(NO_ID));
    // Nobody knows this one.
    machine.at(50, 0, 50, out(50, NO_ID, false));
    machine.at(51, 0, NO_ID, from(50));
    machine.at(60, 0, NO_ID, out(NO_ID, 50, false));
    let records = machine.end();
    let switches: Vec<_> = of(&records, 0x0524)
        .iter()
        .map(|one| (microseconds(one), one.u32(4), one.u32(0)))
        .collect();
    let both = [(13, 60, 61), (20, 61, 60), (30, 60, 61), (40, 61, 50)];
    let expected = [&[(5, 0, 50), (10, 50, 60)], &both[..], &[(50, 50, 0), (60, 0, 50)]].concat();
    assert_eq!(switches, expected);
}

/// The records of a process's life: hook and time.
fn life_of_process(records: &[Taken], process: u32) -> Vec<(u16, i64)> {
    let is_life = |one: &&Taken| matches!(one.hook, 0x0301..=0x0304 | 0x0327);
    let own = records.iter().filter(is_life).filter(|one| one.u32(8) == process);
    own.map(|one| (one.hook, microseconds(one))).collect()
}

/// OV-23: a process of several threads whose beginnings were lost has one beginning and one end.
#[test]
fn a_process_whose_threads_end_unseen_ends_once() {
    for (order, end) in [([70, 71, 72], 20), ([71, 72, 70], 40), ([72, 70, 71], 30)] {
        let mut machine = Machinery::without_switches();
        for (at, thread) in order.into_iter().enumerate() {
            let exit = Detail::Exit { process: 70, thread };
            machine.of_process(20 + 10 * at as u64, (70, thread), exit);
        }
        assert!(machine.shaper.take_unseen() > 0);
        let life = life_of_process(&machine.end(), 70);
        assert_eq!(life, [(0x0303, 20), (0x0302, end)], "{order:?}");
    }
}

/// OV-23: a process that had ended when the recording began, and whose parent did not know yet, has a Defunct with its status, and no life.
#[test]
fn a_process_that_has_ended_before_is_defunct() {
    let mut machine = Machinery::beginning();
    let facts = ProcessFacts { id: 70, parent: 50, ..ProcessFacts::default() };
    machine.at(0, 0, 0, Detail::DefunctFound { facts: &facts, status: 84 });
    machine.at(0, 0, 0, Detail::AllFound);
    machine.at(10, 0, 50, fork(70, 50));
    let records = machine.end();
    assert_eq!(life_of_process(&records, 70), [(0x0327, 0), (0x0301, 10), (0x0304, 1_000_000)]);
    assert_eq!(of(&records, 0x0327)[0].u32(20), 84);
}

/// OV-23: a thread that executes a program has the id of its process's first thread from then on: nothing is missing in the switches, and
/// no thread leaves a CPU behind its end, whether the first thread still runs, and whether the other one leaves its CPU, before the exec is
/// recorded.
#[test]
fn a_thread_that_takes_an_id_leaves_no_gap() {
    let facts = ExecFacts::default();
    for case in 0..8 {
        let [is_first_gone, leaves_before, first_leaves_last] = [1, 2, 4].map(|bit| case & bit > 0);
        let mut machine = Machinery::new();
        machine.at(10, 0, 0, switch(0, ThreadState::Ready, 50));
        machine.at(20, 0, 50, thread_of(50, 51));
        machine.at(30, 1, 0, switch(0, ThreadState::Ready, 51));
        machine.at(40, 0, 50, Detail::Exit { process: 50, thread: 50 });
        let first_leaves = |machine: &mut Machinery, id| {
            machine.at(50, 0, id, switch(id, ThreadState::Dead, 0));
        };
        if is_first_gone {
            first_leaves(&mut machine, 50);
        } else if !first_leaves_last {
            first_leaves(&mut machine, 51);
        }
        if leaves_before {
            machine.of_process(60, (50, 50), switch(50, ThreadState::Preempted, 0));
            machine.at(70, 1, 0, switch(0, ThreadState::Ready, 50));
        }
        machine.of_process(80, (50, 50), Detail::Exec { process: 50, facts: &facts });
        if !is_first_gone && first_leaves_last {
            machine.at(90, 0, 51, switch(51, ThreadState::Dead, 0));
        }
        machine.of_process(100, (50, 50), switch(50, ThreadState::Sleeping, 0));
        assert_eq!(machine.shaper.take_gaps(), 0, "{case}");
        let records = machine.end();
        assert!(!records.iter().any(is_loss), "{case}");
        let end = records.iter().position(|one| one.hook == 0x0502 && one.u32(4) == 51).unwrap();
        let names = |one: &Taken| one.hook == 0x0524 && [one.u32(0), one.u32(4)].contains(&51);
        assert!(!records[end..].iter().any(names), "{case}: a switch behind the end of its thread");
        assert_eq!(life_of_process(&records, 50), [(0x0303, 0), (0x0304, 1_000_000)]);
    }
}

/// OV-23: the same where the kernel follows some threads only.
#[test]
fn a_followed_thread_that_takes_an_id_leaves_no_gap() {
    for leaves_before in [false, true] {
        let mut machine = Machinery::new();
        machine.at(10, 0, 50, Detail::SwitchIn);
        machine.at(20, 0, 50, thread_of(50, 51));
        machine.of_process(30, (50, 51), Detail::SwitchIn);
        machine.at(40, 0, 50, Detail::Exit { process: 50, thread: 50 });
        if leaves_before {
            machine.of_process(50, (50, 50), Detail::SwitchOut { state: ThreadState::Preempted });
            machine.of_process(60, (50, 50), Detail::SwitchIn);
        }
        machine.of_process(70, (50, 50), Detail::Exec { process: 50, facts: &Default::default() });
        machine.of_process(80, (50, 50), Detail::SwitchOut { state: ThreadState::Waiting });
        assert_eq!(machine.shaper.take_gaps(), 0);
        let switches = machine.end();
        let switches: Vec<_> = of(&switches, 0x0524)
            .iter()
            .filter(|one| one.cpu == 1)
            .map(|one| (one.u32(4), one.u32(0)))
            .collect();
        let back = [(50, 0), (0, 50)];
        let back = if leaves_before { &back[..] } else { &[] };
        let expected = [&[(0, 51), (51, 50)][..], back, &[(50, 0)]];
        assert_eq!(switches, expected.concat(), "{leaves_before}");
    }
}

/// The SID's last number, if there is one, and the command line of a process's records, by hook.
fn user_and_line(records: &[Taken], process: u32) -> Vec<(u16, Option<u32>, String)> {
    let is_life = |one: &&Taken| matches!(one.hook, 0x0301..=0x0304) && one.u32(8) == process;
    let facts = |one: &Taken| {
        let has_user = one.u32(36) != 0;
        let name = if has_user { 68 } else { 40 };
        let name_end = one.payload[name..].iter().position(|byte| *byte == 0).unwrap() + name + 1;
        let units = one.payload[name_end..].chunks_exact(2).map(|unit| unit[0]);
        let line = units.take_while(|unit| *unit > 0).map(char::from).collect();
        (one.hook, has_user.then(|| one.u32(64)), line)
    };
    records.iter().filter(is_life).map(facts).collect()
}

/// OV-23: a process has the user of the time of each record, and its children begin with it. Changes may be known early. Regression: an
/// unknown user was shown as root.
#[test]
fn a_process_has_the_user_that_it_has_then() {
    let mut machine = Machinery::without_switches();
    for (time, process, user) in [(15, 60, 7), (25, 60, 8), (35, 61, 9), (45, 60, 10)] {
        machine.at(time, 0, 0, Detail::User { process, user });
    }
    machine.at(10, 0, 50, fork(60, 50));
    machine.at(20, 0, 60, fork(61, 60));
    machine.at(30, 0, 60, Detail::Exit { process: 60, thread: 60 });
    machine.at(40, 0, 50, fork(60, 50));
    machine.shaper.set_user(50, 11);
    let records = machine.end();
    let users = |process| -> Vec<(u16, Option<u32>)> {
        user_and_line(&records, process).iter().map(|one| (one.0, one.1)).collect()
    };
    assert_eq!(users(60), [(0x0301, None), (0x0302, Some(8)), (0x0301, None), (0x0304, Some(10))]);
    assert_eq!(users(61), [(0x0301, Some(7)), (0x0304, Some(9))]);
    assert_eq!(users(50), [(0x0303, None), (0x0304, Some(11))]);
}

/// OV-23: a process that executes no program has the command line of its parent at its end; its start has none, since it may still execute
/// one.
#[test]
fn a_process_without_a_program_has_the_command_line_of_its_parent() {
    let mut machine = Machinery::without_switches();
    let facts = |line: &str| {
        let (path, arguments) = (b"/bin/a".to_vec(), line.replace(' ', "\0").into_bytes());
        ExecFacts { path, arguments, ..ExecFacts::default() }
    };
    machine.at(5, 0, 50, Detail::Exec { process: 50, facts: &facts("a alpha") });
    machine.at(10, 0, 50, fork(60, 50));
    machine.at(20, 0, 60, fork(61, 60));
    machine.at(30, 0, 60, Detail::Exec { process: 60, facts: &facts("b beta") });
    machine.at(40, 0, 61, Detail::Exit { process: 61, thread: 61 });
    let records = machine.end();
    let lines = |process| -> Vec<(u16, String)> {
        user_and_line(&records, process).into_iter().map(|one| (one.0, one.2)).collect()
    };
    assert_eq!(lines(60), [(0x0301, String::new()), (0x0304, "b beta".into())]);
    assert_eq!(lines(61), [(0x0301, String::new()), (0x0302, "a alpha".into())]);
}

/// OV-23. Regression: an argument in an `Exec` was cut to 16,384 characters.
#[test]
fn a_long_argument_is_whole() {
    let mut machine = Machinery::without_switches();
    let argument = "a".repeat(20_000);
    let arguments = format!("true\0{argument}\0z\0").into_bytes();
    let facts = ExecFacts { path: b"/bin/true".to_vec(), arguments, ..ExecFacts::default() };
    machine.at(10, 0, 50, Detail::Exec { process: 50, facts: &facts });
    let records = machine.end();
    let exec = RecordKind::Provider(ProviderEvent::Exec);
    let exec = records.iter().find(|one| one.kind == exec).unwrap();
    let (_, fields) = crate::schemas::decode_exec(&exec.payload);
    assert_eq!(fields[2].1, format!("true,{argument},z"));
}

/// OV-23: what has ended unseen ends where that is known, once, with a loss that is counted.
#[test]
fn what_ended_unseen_ends_where_that_is_known() {
    let mut machine = Machinery::new();
    machine.at(10, 0, 50, thread_of(50, 61));
    machine.at(20, 0, 50, fork(60, 50));
    for thread in [61, 60, 60, 77] {
        machine.at(30, 0, 0, Detail::Vanished { thread });
    }
    let Vanished { threads, processes } = machine.shaper.take_vanished();
    assert_eq!((threads, processes), (1, 1));
    // Its end waits for its last switch.
    machine.at(40, 0, 0, switch(0, ThreadState::Ready, 50));
    machine.at(50, 0, 50, Detail::Exit { process: 50, thread: 50 });
    machine.at(60, 0, 0, Detail::Vanished { thread: 50 });
    assert_eq!(machine.shaper.take_vanished(), Vanished::default());
    machine.at(70, 0, 50, switch(50, ThreadState::Dead, 0));
    let records = machine.end();
    assert_eq!(life_of_thread(&records, 61), [(0x0501, 10), (0x0502, 30)]);
    assert_eq!(life_of_process(&records, 60), [(0x0301, 20), (0x0302, 30)]);
    assert_eq!(life_of_process(&records, 50), [(0x0303, 0), (0x0302, 70)]);
    let lost = records.iter().filter(|one| is_loss(one)).map(microseconds);
    assert_eq!(lost.collect::<Vec<_>>(), [30, 30]);
}
