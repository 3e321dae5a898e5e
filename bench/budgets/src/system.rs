//! Recording a system: the state machine that makes Windows' records of the events of a kernel, and the queue behind it.

use std::error::Error;
use std::hint::black_box;

use etw_system::flags::{Flag, Masks};
use etw_system::neutral::{
    Detail, ExecFacts, NeutralEvent, ProcessFacts, Stack, SwitchedIn, SwitchedOut, ThreadState,
};
use etw_system::record::Records;
use etw_system::{Machine, Options, Shaper, Turn};

use crate::callgrind::measure;

const EVENTS: u32 = 10_000;
/// The hook of samples.
const SAMPLE: u16 = 0x0f2e;
/// Threads that take turns on two CPUs.
const THREADS: u32 = 8;
/// The first of them, which is their process, too.
const FIRST: u32 = 1000;
/// Nanoseconds between two events.
const STEP: u64 = 3_333;

struct System {
    shaper: Shaper,
    out: Records,
    time: u64,
    /// Events so far.
    count: u32,
}

impl System {
    fn new(flag: Flag, stacks: &[u16]) -> System {
        let mut masks = Masks::default();
        for flag in [Flag::PROCESS, Flag::THREAD, flag] {
            masks.set(flag);
        }
        let options = Options { masks, stacks: stacks.to_vec(), ..Options::default() };
        let machine = Machine { cpus: 2, ..Machine::default() };
        let (shaper, out) = (Shaper::new(options, machine), Records::default());
        let mut system = System { shaper, out, time: 1_000_000_000, count: 0 };
        let turn = Turn { time: system.time, cpu: 0, process: FIRST, thread: FIRST };
        system.shaper.begin(turn, &mut system.out);
        let exec = ExecFacts { path: b"/bin/some".to_vec(), ..ExecFacts::default() };
        let facts = ProcessFacts { id: FIRST, exec, ..ProcessFacts::default() };
        system.take(0, 0, Stack::default(), Detail::ProcessFound(&facts));
        for thread in FIRST..FIRST + THREADS {
            let found = Detail::ThreadFound {
                process: FIRST,
                thread,
                name: b"some",
                priority: 120,
                affinity: 3,
            };
            system.take(0, 0, Stack::default(), found);
        }
        system.take(0, 0, Stack::default(), Detail::AllFound);
        system.give();
        system
    }

    fn take(&mut self, cpu: u16, thread: u32, stack: Stack<'_>, detail: Detail<'_>) {
        self.time += STEP;
        let event = NeutralEvent { time: self.time, cpu, process: FIRST, thread, stack, detail };
        self.shaper.take(black_box(&event), &mut self.out);
    }

    /// Gives all records to nobody; returns how many there were.
    fn give(&mut self) -> u32 {
        let mut given = 0;
        self.out.give(i64::MAX, |record| {
            black_box(record);
            given += 1;
            true
        });
        given
    }
}

/// Each CPU has its own threads, whose turns follow one another.
fn switches(system: &mut System, count: u32) -> u32 {
    let mut given = 0;
    for number in system.count..system.count + count {
        let (cpu, turn) = (number % 2, number / 2);
        let thread = |turn: u32| FIRST + 2 * (turn % (THREADS / 2)) + cpu;
        let (old, new) = (thread(turn), thread(turn + 1));
        let state = ThreadState::Sleeping;
        let detail = Detail::Switch {
            old: SwitchedOut { thread: old, priority: 120, state },
            new: SwitchedIn { thread: new, priority: 120 },
        };
        system.take(cpu as u16, old, Stack::default(), detail);
        if number % 100 == 99 {
            given += system.give();
        }
    }
    system.count += count;
    given + system.give()
}

fn samples(system: &mut System, count: u32) -> u32 {
    let kernel = [0xffff_ffff_8100_0000; 4];
    let user: Vec<u64> = (0..12).map(|number| 0x40_0000 + number * 0x100).collect();
    let stack = Stack { kernel: &kernel, user: &user };
    let mut given = 0;
    for number in 0..count {
        let thread = FIRST + number % THREADS;
        system.take((number % 2) as u16, thread, stack, Detail::Sample { address: 0x40_0000 });
        if number % 100 == 99 {
            given += system.give();
        }
    }
    given + system.give()
}

pub fn run() -> Result<(), Box<dyn Error>> {
    let mut system = System::new(Flag::SWITCH, &[]);
    switches(&mut system, 100);
    let mut given = 0;
    measure("system: switch / event", EVENTS, |count| given = switches(&mut system, count));
    let mut system = System::new(Flag::PROFILE, &[SAMPLE]);
    samples(&mut system, 100);
    let mut with_stacks = 0;
    let name = "system: sample with a stack of 16 frames / event";
    measure(name, EVENTS, |count| with_stacks = samples(&mut system, count));
    // A sample's stack is a record of its own, or one for the kernel and one for the program.
    if given == EVENTS && with_stacks >= 2 * EVENTS {
        return Ok(());
    }
    Err(format!("{given} records of switches, {with_stacks} of samples").into())
}
