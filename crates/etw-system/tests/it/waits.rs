//! The call stacks of threads that leave their CPUs, from neutral events. OV-23.

use etw_system::neutral::*;
use etw_system::record::{ProviderEvent, RecordKind};

use crate::shaper::{Machinery, SECOND, of, switch};

#[test]
fn a_stack_of_a_switch_is_the_one_with_which_the_thread_blocked() {
    let mut machine = Machinery::new();
    let blocked = Stack { kernel: &[0xffff_ffff_8100_0010], user: &[0x4010, 0x4020] };
    machine.at(5, 0, 0, switch(0, ThreadState::Ready, 50));
    machine.with_stack(10, 0, 50, blocked, switch(50, ThreadState::Sleeping, 0));
    machine.at(20, 1, 1, Detail::Wake { thread: 50, is_interrupt: true });
    machine.at(32_000, 1, 0, switch(0, ThreadState::Ready, 50));
    let records = machine.end();
    let switches = of(&records, 0x0524);
    assert_eq!(switches.len(), 3);
    // UserRequest, by user, Waiting.
    assert_eq!(switches[1].payload[12..15], [6, 1, 5]);
    assert_eq!(switches[2].u32(16), 2, "two ticks of 15.6 ms");
    let stacks = of(&records, 0x1820);
    assert_eq!(stacks.len(), 1);
    assert_eq!(stacks[0].time, switches[2].time);
    assert_eq!((stacks[0].u32(8), stacks[0].u32(12)), (50, 50));
    let frames = [16, 24, 32].map(|at| stacks[0].u64(at));
    assert_eq!(frames, [0xffff_ffff_8100_0010, 0x4010, 0x4020]);
    let ready = of(&records, 0x0532)[0];
    assert_eq!(ready.payload, [50, 0, 0, 0, 1, 0, 1, 0]);
}

/// A thread that hangs until the end of the recording comes back to no CPU: its stack comes with an event of its own.
#[test]
fn a_thread_that_waits_at_the_end_has_the_stack_with_which_it_blocked() {
    let mut machine = Machinery::new();
    let blocked = Stack { kernel: &[0xffff_ffff_8100_0010], user: &[0x4010, 0x4020] };
    machine.at(5, 0, 0, switch(0, ThreadState::Ready, 50));
    machine.with_stack(10_000, 0, 50, blocked, switch(50, ThreadState::Sleeping, 1));
    // An event is later than the end.
    machine.at(1_000_001, 1, 1, Detail::Wake { thread: 50, is_interrupt: false });
    let records = machine.end();
    let kind = RecordKind::Provider(ProviderEvent::Waiting);
    let waiting: Vec<_> = records.iter().filter(|one| one.kind == kind).collect();
    assert_eq!(waiting.len(), 1, "1 runs, and the others have not left a CPU");
    assert_eq!((waiting[0].process, waiting[0].thread), (50, 50));
    assert_eq!((waiting[0].u64(0), waiting[0].payload[8]), (SECOND - 10_000_000, 0));
    let stack = of(&records, 0x1820)[0];
    assert_eq!((stack.u64(0) as i64, stack.u32(12)), (waiting[0].time, 50));
    assert_eq!(stack.time, waiting[0].time);
    assert_eq!(stack.u64(24), 0x4010);
    let ends = of(&records, 0x0504);
    assert!(ends.iter().all(|end| end.time > waiting[0].time), "no other event has its stack");
}

/// OV-23: a thread came to its CPU, and events of that CPU were lost behind that switch: it has not waited since it last left one.
#[test]
fn a_thread_that_came_before_a_loss_does_not_wait_at_the_end() {
    let mut machine = Machinery::new();
    machine.at(5, 0, 50, switch(50, ThreadState::Sleeping, 1));
    machine.at(600, 0, 1, switch(1, ThreadState::Sleeping, 50));
    machine.at(700, 0, 0, Detail::Lost { count: 3 });
    let records = machine.end();
    let kind = RecordKind::Provider(ProviderEvent::Waiting);
    let waiting = records.iter().filter(|one| one.kind == kind).map(|one| one.thread);
    assert_eq!(waiting.collect::<Vec<_>>(), [1]);
}

/// Regression: a thread that came back in a gap was still off its CPU in the trace's last word about it.
#[test]
fn a_thread_that_may_have_come_back_in_a_gap_is_marked() {
    let mut machine = Machinery::new();
    let mut last = 0;
    for (at, thread) in [(100, 50), (101, 1), (102, 4)] {
        machine.at(at, 0, last, switch(last, ThreadState::Sleeping, thread));
        last = thread;
    }
    // A sample shows 50 behind the gap; 1 may be on that CPU, or have been there.
    machine.at(700, 0, 0, Detail::Lost { count: 3 });
    machine.at(800, 0, 50, Detail::Sample { address: 0x4010 });
    machine.at(900, 1, 0, switch(0, ThreadState::Ready, 2));
    machine.at(950, 1, 2, switch(2, ThreadState::Sleeping, 0));
    let records = machine.end();
    let kind = RecordKind::Provider(ProviderEvent::Waiting);
    let waiting = records.iter().filter(|one| one.kind == kind);
    let waiting: Vec<_> = waiting.map(|one| (one.thread, one.payload[8])).collect();
    assert_eq!(waiting, [(1, 1), (2, 0)]);
}

/// OV-23: who may not record the scheduler's tracepoints has the stacks of threads that leave their CPUs apart from the switches.
#[test]
fn a_thread_that_is_about_to_leave_its_cpu_has_its_stack() {
    let mut machine = Machinery::new();
    let first = Stack { kernel: &[0xffff_ffff_8100_0010], user: &[0x4010] };
    let second = Stack { kernel: &[], user: &[0x4020] };
    machine.at(10, 0, 50, Detail::SwitchIn);
    for (at, stack) in [(20, first), (40, second)] {
        machine.with_stack(at, 0, 50, stack, Detail::Leaving);
        machine.at(at + 1, 0, 50, Detail::SwitchOut { state: ThreadState::Sleeping });
        machine.at(at + 10, 0, 50, Detail::SwitchIn);
    }
    // The stack of the last one was lost: it has none, and not an earlier one.
    machine.at(60, 0, 50, Detail::SwitchOut { state: ThreadState::Sleeping });
    machine.at(70, 0, 50, Detail::SwitchIn);
    let records = machine.end();
    let stacks = of(&records, 0x1820);
    assert_eq!(stacks.len(), 2);
    assert_eq!([16, 24].map(|at| stacks[0].u64(at)), [0xffff_ffff_8100_0010, 0x4010]);
    assert_eq!((stacks[1].u64(16), stacks[1].payload.len()), (0x4020, 24));
    let back = of(&records, 0x0524).into_iter().filter(|one| one.u32(0) == 50);
    let back: Vec<i64> = back.map(|one| one.time).collect();
    assert_eq!(stacks.iter().map(|one| one.u64(0) as i64).collect::<Vec<_>>(), back[1..3]);
}
