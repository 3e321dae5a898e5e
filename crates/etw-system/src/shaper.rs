//! The shaper: a state machine that turns neutral events into kernel records, without system calls.

mod calls;
mod closes;
mod descriptors;
mod disks;
mod exit_statuses;
mod faults;
mod file_names;
mod files;
mod folders;
mod images;
pub(crate) mod interrupts;
mod lifecycle_stacks;
mod names;
mod paths;
mod processes;
mod rundown;
mod schedule;
mod shared;
mod shared_memory;
mod sockets;
mod symbols;
mod threads;
mod users;
mod views;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::flags::{Flag, Masks};
use crate::neutral::{Detail, ExecFacts, Image, NeutralEvent, ProcessCounters, Stack};
use crate::record::{Head, Payload, ProviderEvent, Records};
use calls::Calls;
use disks::Disks;
pub use exit_statuses::StatusSource;
use exit_statuses::{ExitStatus, ExitStatuses};
use faults::Faults;
use files::Files;
use folders::Folders;
use lifecycle_stacks::Creation;
use processes::{FoundThread, Process, Thread};
pub use rundown::Turn;
use shared_memory::SharedMemory;
use sockets::{Sockets, StateChange, Transferred};
pub use symbols::KernelFunction;
use symbols::Symbols;
use threads::Threads;
use users::UserChanges;

/// The process of the kernel's threads.
const SYSTEM: u32 = 4;
/// StackWalk
const STACK_WALK: u16 = 0x1820;
/// The class of RT_LostEvent has this type for lost events.
const LOST_EVENT_TYPE: u8 = 32;
/// Most frames of a StackWalk: its class has no more fields.
pub(crate) const MAX_FRAMES: usize = 192;
/// Identifiers that are no addresses have these bits: readers take them for the kernel's.
const KEY: u64 = 0xffff << 48;

/// The classes and call stacks that a session records.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The classes.
    pub masks: Masks,
    /// The hooks whose call stacks are recorded.
    pub stacks: Vec<u16>,
    /// Time between two samples of a CPU, in 100 ns.
    pub sample_interval: u32,
    /// Bytes of the largest event that the session stores; 0: those of the largest event there is.
    pub largest_event: u32,
    /// Nobody asked for processes, threads and images, which the masks have: alone, they are not worth a recording.
    pub adds_lives: bool,
}

impl Options {
    /// Samples of a CPU in a second.
    pub fn samples_per_second(&self) -> u64 {
        match self.masks.has(Flag::PROFILE) {
            true => 10_000_000 / u64::from(self.sample_interval.max(1)),
            false => 0,
        }
    }

    /// Whether something was asked for that needs neither perf events of its own nor tracepoints.
    #[cfg(target_os = "linux")]
    pub(crate) fn has_lives(&self) -> bool {
        let lives = [Flag::PROCESS, Flag::THREAD, Flag::IMAGE];
        let has_lives = lives.iter().any(|flag| self.masks.has(*flag));
        has_lives && !self.adds_lives || self.masks.has(Flag::COUNTERS)
    }

    /// Whether call stacks of this event are wanted.
    pub fn has_stack(&self, hook: u16) -> bool {
        self.stacks.contains(&hook)
    }
}

/// Facts about the machine that records refer to.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Number of CPUs.
    pub cpus: u16,
    /// Its processes are those of a container, which has none of the kernel's threads.
    pub is_container: bool,
    /// The kernel and its modules.
    pub images: Vec<Arc<Image>>,
    /// The routine of each soft interrupt.
    pub soft_interrupts: Vec<u64>,
    /// The routine of each system call, by number.
    pub system_calls: Vec<u64>,
    /// The disks, in the order of their numbers.
    pub disks: Vec<Disk>,
    /// Records of the SystemConfig group: hook, version, fields.
    pub configuration: Vec<Configuration>,
    /// Names of the system for SysConfigEx: build, product.
    pub product: [String; 2],
}

/// A disk of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// The kernel's device number of the whole disk.
    pub device: u32,
    /// Its name.
    pub name: String,
}

/// A record of the SystemConfig group.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The hook.
    pub hook: u16,
    /// The version.
    pub version: u8,
    /// The fields.
    pub payload: Payload,
}

/// The images of a process.
#[derive(Clone, Copy, Debug)]
pub struct ProcessImages<'a> {
    /// By their lowest addresses.
    pub by_base: &'a BTreeMap<u64, Arc<Image>>,
    /// Different images of any process have different numbers; 0: not known.
    pub version: u64,
}

impl<'a> ProcessImages<'a> {
    /// Those with addresses in a range, from the last one to the first. No two have an address in common.
    pub fn overlapped(self, range: &Range<u64>) -> impl Iterator<Item = &'a Arc<Image>> {
        let start = range.start;
        let below = self.by_base.range(..range.end).rev().map(|(_, image)| image);
        below.take_while(move |image| image.range().end > start)
    }
}

/// A process, as the records of a trace show it.
#[cfg(target_os = "linux")]
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownProcess {
    pub facts: crate::neutral::ProcessFacts,
    pub images: Vec<Arc<Image>>,
    /// Ids and names of its threads.
    pub threads: Vec<(u32, Vec<u8>)>,
}

/// Makes kernel records from neutral events.
#[derive(Debug)]
pub struct Shaper {
    options: Options,
    machine: Machine,
    processes: HashMap<u32, Process, RandomState>,
    threads: Threads,
    cpus: Vec<Cpu>,
    disks: Disks,
    sockets: Sockets,
    files: Files,
    folders: Folders,
    calls: Calls,
    faults: Faults,
    /// Counters of processes at the end.
    counters: HashMap<u32, ProcessCounters>,
    /// Threads keep the stacks with which they leave their CPUs.
    keeps_stacks: bool,
    /// The last event with a stack: two of one thread have different times.
    last_stacks: LastStacks,
    /// Threads that have said their end and still run in the kernel, in order of time.
    ending: VecDeque<EndingThread>,
    /// Ids of the threads that ended last.
    ended_last: VecDeque<u32>,
    exit_statuses: ExitStatuses,
    /// Where they come from.
    status_source: StatusSource,
    /// Processes that ended before their exit statuses came.
    without_status: u64,
    user_changes: UserChanges,
    /// Threads whose starts wait for the stacks of their creators.
    creations: Vec<Creation>,
    /// CPUs whose idle threads the rundown has.
    idle_cpus: Vec<u16>,
    /// The events are those of some threads, which the kernel does not follow behind their last word.
    is_of_threads: bool,
    /// Stacks of threads that leave their CPUs come apart from their switches.
    has_leaving: bool,
    /// Switches do not show which one is a thread's last.
    lacks_states: bool,
    is_found: bool,
    /// Records of the rundown at the start have been counted up to this time.
    found_until: u64,
    /// Switches that the kernel left out without a word, since they were last taken: at least one for each gap.
    gaps: u64,
    /// Threads that ran and whose beginnings nobody saw, since they were last taken.
    unseen: u64,
    /// Threads and processes whose ends nobody saw, since they were last taken.
    vanished: Vanished,
    /// Programs that ended before anybody read their arguments.
    without_arguments: u64,
    /// Events without the end of a command line.
    cut_command_lines: u64,
    /// Call stacks with more frames than a record has.
    cut_stacks: u64,
    /// When events were last lost.
    last_loss: u64,
    shared_memory: SharedMemory,
    /// Changes of the images of all processes.
    image_changes: u64,
    /// Processes whose images have no records yet.
    untold: u32,
    symbols: Symbols,
}

/// The state of a CPU: its current thread and interrupts.
#[derive(Clone, Debug, Default)]
struct Cpu {
    /// The thread that runs; `None`: not known.
    thread: Option<u32>,
    /// The trace has switches of this CPU, of which the last one is not known.
    has_unknown_past: bool,
    /// Events were lost since its last switch.
    is_behind_loss: bool,
    /// The thread that runs is the first one of a process, shown as idle: another one executes a program with its id, and it has that one's.
    leaves_as: Option<u32>,
    /// Interrupts whose handlers run, with their begin.
    interrupts: Vec<(u32, u64)>,
    /// When the handlers of soft interrupts began; 0: not running.
    soft_interrupts: [u64; SOFT_INTERRUPTS],
}

/// Threads and processes that ended, and nobody saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vanished {
    /// Threads whose processes live on.
    pub threads: u64,
    /// Processes, with their last threads.
    pub processes: u64,
}

/// A thread on its last way out of the CPU.
#[derive(Clone, Copy, Debug)]
struct EndingThread {
    /// When it said its end.
    said: u64,
    /// When it was last known to have a part of its way before it. The threads are in order of this time.
    since: u64,
    /// The CPU on which it said its end; it seldom changes after that.
    cpu: u16,
    process: u32,
    thread: u32,
    /// The trace has its end already, since it has no switches in which the thread could be seen later: only samples may follow.
    is_told: bool,
}

/// The id that perf gives a process or thread whose id the kernel has taken back already, while the thread still runs.
const NO_ID: u32 = u32::MAX;

/// A thread outside of the namespace, or one that has not left its CPU yet, has its machine's id with this bit. The kernel gives ids below
/// 2²².
pub(crate) const FOREIGN: u32 = 1 << 31;

/// A thread that has said its end leaves its CPU within so many nanoseconds, or has left it unseen. On a busy machine, a thread that still
/// runs or waits, for a CPU or for something else, may take longer.
const END_DELAY: u64 = 250_000_000;
/// The same where switches do not show which one is the last, behind its last switch so far: it may wait for locks of the kernel.
const STATELESS_DELAY: u64 = 50_000_000;
/// The same if its last switch may be lost: its end is not much later than its last word.
const LOSS_DELAY: u64 = 2_000_000;
/// A thread whose end has a record is known so long, for samples without its ids.
const TOLD_DELAY: u64 = 20_000_000;
/// Threads whose ends are remembered: a later sample of one does not begin it again.
const REMEMBERED_ENDS: usize = 1024;
/// No thread takes longer: its last switch was lost.
const LONGEST_END: u64 = 10_000_000_000;

/// Soft interrupts of Linux.
const SOFT_INTERRUPTS: usize = 16;
/// Handlers nest at most so deep; what is deeper was lost.
const DEEPEST_INTERRUPT: usize = 16;

/// Numbers of things that records name, such as open files: each is used once.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers(u64);

impl Numbers {
    /// Bits of a number. Those above them say what has it.
    const BITS: u32 = 46;

    fn next(&mut self) -> u64 {
        self.0 = (self.0 + 1) & ((1 << Numbers::BITS) - 1);
        self.0
    }
}

/// The threads that have a call stack at the time of the last one. Readers find the event of a stack by time and thread, so these have
/// none a second time.
#[derive(Clone, Debug, Default)]
struct LastStacks {
    time: i64,
    threads: Vec<u32>,
}

impl LastStacks {
    fn has(&self, time: i64, thread: u32) -> bool {
        self.time == time && self.threads.contains(&thread)
    }

    fn add(&mut self, time: i64, thread: u32) {
        if self.time != time {
            self.time = time;
            self.threads.clear();
        }
        self.threads.push(thread);
    }
}

/// The time of a record, in 100 ns.
fn ticks(time: u64) -> i64 {
    (time / 100) as i64
}

impl Shaper {
    /// A shaper that has seen nothing.
    pub fn new(options: Options, machine: Machine) -> Shaper {
        let cpus = vec![Cpu::default(); usize::from(machine.cpus)];
        let keeps_stacks = options.has_stack(schedule::CSWITCH);
        Shaper {
            options,
            machine,
            processes: HashMap::default(),
            threads: Threads::default(),
            cpus,
            disks: Disks::default(),
            sockets: Sockets::default(),
            files: Files::default(),
            folders: Folders::default(),
            calls: Calls::default(),
            faults: Faults::new(),
            counters: HashMap::new(),
            keeps_stacks,
            last_stacks: LastStacks::default(),
            ending: VecDeque::new(),
            is_of_threads: false,
            has_leaving: false,
            lacks_states: false,
            ended_last: VecDeque::new(),
            exit_statuses: ExitStatuses::default(),
            status_source: StatusSource::Nowhere,
            without_status: 0,
            user_changes: UserChanges::default(),
            creations: Vec::new(),
            idle_cpus: Vec::new(),
            is_found: false,
            found_until: 0,
            gaps: 0,
            unseen: 0,
            vanished: Vanished::default(),
            without_arguments: 0,
            cut_command_lines: 0,
            cut_stacks: 0,
            last_loss: 0,
            shared_memory: SharedMemory::default(),
            image_changes: 0,
            untold: 0,
            symbols: Symbols::default(),
        }
    }

    /// The trace has records of other shapers. Numbers of open files, operations, requests and files without keys of their own begin at this
    /// time, in 100 ns, at which no shaper before has come with its numbers: it has made fewer of them.
    pub fn number_from(&mut self, time: u64) {
        let Files { keys, objects, operations, .. } = &mut self.files;
        for one in [keys, objects, operations, &mut self.disks.ids] {
            *one = Numbers(time);
        }
    }

    /// The kernel and its modules.
    pub fn kernel_images(&self) -> Vec<Arc<Image>> {
        self.machine.images.clone()
    }

    /// Gaps in the chains of switches that no loss explains, since the last call. Each lacks at least one switch.
    pub fn take_gaps(&mut self) -> u64 {
        std::mem::take(&mut self.gaps)
    }

    /// Threads that ran and whose beginnings nobody saw, since the last call.
    pub fn take_unseen(&mut self) -> u64 {
        std::mem::take(&mut self.unseen)
    }

    /// Threads and processes whose ends nobody saw, since the last call.
    pub fn take_vanished(&mut self) -> Vanished {
        std::mem::take(&mut self.vanished)
    }

    /// Says where exit statuses come from.
    pub fn expect_exit_statuses(&mut self, source: StatusSource) {
        self.status_source = source;
    }

    /// Processes that ended without an exit status, though the kernel says them.
    pub fn ends_without_status(&self) -> u64 {
        self.without_status
    }

    /// Programs that ended before anybody read their arguments.
    pub fn programs_without_arguments(&self) -> u64 {
        self.without_arguments
    }

    /// Events that have room for the beginning of a command line only.
    pub fn cut_command_lines(&self) -> u64 {
        self.cut_command_lines
    }

    /// Call stacks with more frames than a record has: the outermost ones are not in the trace.
    pub fn cut_stacks(&self) -> u64 {
        self.cut_stacks
    }

    /// The images of a process.
    pub fn images_of(&self, process: u32) -> Option<ProcessImages<'_>> {
        let one = self.processes.get(&process)?;
        Some(ProcessImages { by_base: &one.images, version: one.images_version })
    }

    /// The CPUs that a thread may use now, a bit each; 0: nobody knows.
    pub fn set_affinity(&mut self, thread: u32, affinity: u64) {
        if let Some(one) = self.threads.get_mut(&thread).filter(|_| affinity != 0) {
            one.affinity = affinity;
        }
    }

    /// The threads that live.
    pub fn thread_ids(&self) -> Vec<u32> {
        self.threads.ids().filter(|thread| thread & FOREIGN == 0).collect()
    }

    /// The processes that live.
    pub fn process_ids(&self) -> Vec<u32> {
        self.processes.values().filter(|one| !one.facts.is_kernel).map(|one| one.facts.id).collect()
    }

    /// Processes that live, each with its images and its threads' names.
    #[cfg(target_os = "linux")]
    pub(crate) fn living(&self) -> impl Iterator<Item = KnownProcess> {
        self.processes.values().map(|one| {
            let name = |id: &u32| Some((*id, self.threads.get(id)?.name.clone()));
            KnownProcess {
                facts: one.facts.clone(),
                images: one.images.values().cloned().collect(),
                threads: one.threads.iter().filter_map(name).collect(),
            }
        })
    }

    /// The number of CPUs with which it began.
    #[cfg(target_os = "linux")]
    pub(crate) fn cpu_count(&self) -> u16 {
        self.machine.cpus
    }

    /// The program that a process executes.
    pub fn exec_facts(&self, process: u32) -> Option<ExecFacts> {
        self.processes.get(&process).map(|one| one.facts.exec.clone())
    }

    fn has(&self, flag: Flag) -> bool {
        self.options.masks.has(flag)
    }

    fn cpu(&mut self, cpu: u16) -> &mut Cpu {
        let index = usize::from(cpu);
        if self.cpus.len() <= index {
            self.cpus.resize(index + 1, Cpu::default());
        }
        &mut self.cpus[index]
    }

    /// The head of a record about an event. The thread of the head is the one that ran.
    fn head(&self, event: &NeutralEvent<'_>) -> Head {
        let process = self.process_of(event.thread).unwrap_or(event.process);
        Head { time: ticks(event.time), cpu: event.cpu, process, thread: event.thread }
    }

    /// The process that records name for a thread.
    fn process_of(&self, thread: u32) -> Option<u32> {
        match thread {
            0 => Some(0),
            thread => self.threads.get(&thread).map(|thread| thread.process),
        }
    }

    /// The event with the ids of the thread that it is about, if the kernel had none for it: that thread has said its end. It is the one that came
    /// to the CPU, if that has; otherwise the last one that has. If none is known, it is the one that came.
    fn with_ids<'a>(&self, event: &NeutralEvent<'a>) -> NeutralEvent<'a> {
        let before = match event.detail {
            Detail::SwitchedFrom { thread } => thread,
            _ => NO_ID,
        };
        let shown = self.cpus.get(usize::from(event.cpu)).and_then(|cpu| cpu.thread);
        let shown = shown.filter(|shown| *shown != before);
        let may_be = |one: &&EndingThread| {
            one.thread != before && (event.process == NO_ID || one.process == event.process)
        };
        let newest_first = || self.ending.iter().rev().filter(may_be);
        let found = newest_first().find(|one| Some(one.thread) == shown);
        let found = found.or_else(|| newest_first().find(|one| one.cpu == event.cpu));
        match found.or_else(|| newest_first().next()) {
            Some(one) => NeutralEvent { process: one.process, thread: one.thread, ..*event },
            None => {
                let known = shown.and_then(|thread| Some((self.process_of(thread)?, thread)));
                known.map_or(*event, |(process, thread)| NeutralEvent { process, thread, ..*event })
            }
        }
    }

    /// Takes an event and adds its records.
    #[inline]
    pub fn take(&mut self, event: &NeutralEvent<'_>, out: &mut Records) {
        if let Detail::Switch { old, new } = event.detail
            && event.thread != NO_ID
            && self.ending.is_empty()
            && self.creations.is_empty()
            && self.untold == 0
        {
            // The most frequent event: what follows has nothing to do with it.
            return self.switched(event, old, new, out);
        }
        self.take_any(event, out);
    }

    #[inline(never)]
    fn take_any(&mut self, event: &NeutralEvent<'_>, out: &mut Records) {
        match event.detail {
            Detail::ExitStatus { process, thread, status } => {
                let status = ExitStatus { time: event.time, thread, status };
                return self.exit_statuses.add(process, status);
            }
            Detail::User { process, user } => {
                return self.user_changes.add(process, event.time, user);
            }
            _ => {}
        }
        let known;
        let event = match event.thread {
            NO_ID => {
                known = self.with_ids(event);
                &known
            }
            _ => event,
        };
        self.end_threads(event, out);
        if !self.creations.is_empty() {
            self.complete_creations(event, out);
        }
        if self.untold > 0 {
            self.tell_needed_images(event, out);
        }
        match event.detail {
            Detail::ProcessFound(facts) => self.process_found(event, facts, out),
            Detail::DefunctFound { facts, status } => self.defunct_found(event, facts, status, out),
            Detail::ThreadFound { process, thread, name, priority, affinity } => {
                let found = FoundThread { thread, name, priority, affinity };
                self.thread_found(event, process, &found, out);
            }
            Detail::ListenerFound { process, at } => self.sockets.listen(process, at, 0),
            Detail::AllFound => self.all_found(event, out),
            Detail::Fork { .. } => self.created(event, out),
            Detail::Created => {}
            Detail::Cloned { flags } => self.cloned(event, flags),
            Detail::SharedMemory { process, other } => self.found_sharing(process, other, out),
            Detail::Exiting => self.exiting(event),
            Detail::Exec { process, facts } => self.executed(event, process, facts, out),
            Detail::ProgramFound { process, facts } => {
                if let Some(one) = self.processes.get_mut(&process) {
                    one.facts.exec = facts.clone();
                }
            }
            Detail::Rename { process, thread, name } => {
                self.renamed(event, process, thread, name, out);
            }
            Detail::Exit { process, thread } => self.exited(event, process, thread, out),
            Detail::Vanished { thread } => self.vanished(event, thread, out),
            Detail::ExitStatus { .. } | Detail::User { .. } => {}
            Detail::Map { process, image } => self.mapped(event, process, image, out),
            Detail::Unmap { process, base } => self.unmapped(event, process, base, out),
            Detail::Switch { old, new } => self.switched(event, old, new, out),
            Detail::SwitchedFrom { thread } => self.switched_from(event, thread, out),
            Detail::SwitchIn => self.switched_in(event, out),
            Detail::Leaving => self.leaving(event),
            Detail::SwitchOut { state } => self.switched_out(event, state, out),
            Detail::Wake { thread, is_interrupt } => self.woken(event, thread, is_interrupt, out),
            Detail::Priority { thread, old, new } => {
                self.priority_changed(event, thread, old, new, out);
            }
            Detail::Sample { address } => self.sampled(event, address, out),
            Detail::Resumed { suspended } => {
                let payload = Payload::new().u64(suspended);
                out.event(self.head(event), ProviderEvent::Resumed, &payload);
            }
            Detail::Counters { process, counters } => {
                self.counters.insert(process, *counters);
            }
            Detail::GapBegin => self.gap_begins(),
            Detail::GapEnd => self.files.gaps = self.files.gaps.saturating_sub(1),
            Detail::Lost { .. } => {
                self.add_loss(event, out);
                // They may be other CPUs' switches. Handlers that were running may have ended unseen.
                *self.cpu(event.cpu) = Cpu::default();
                self.cpus.iter_mut().for_each(|cpu| cpu.is_behind_loss = true);
            }
            _ => self.take_device_event(event, out),
        }
    }

    /// How long a thread on its way out is waited for.
    fn end_delay(&self, ending: &EndingThread) -> u64 {
        match (ending.is_told, self.lacks_states) {
            (true, _) => TOLD_DELAY,
            _ if self.is_perhaps_lost(ending) => LOSS_DELAY,
            (false, true) => STATELESS_DELAY,
            (false, false) => END_DELAY,
        }
    }

    /// Whether the last switch of a thread on its way out may be one of those that were lost.
    fn is_perhaps_lost(&self, ending: &EndingThread) -> bool {
        self.last_loss >= ending.since
    }

    /// Ends the threads that have left their CPUs unseen.
    fn end_threads(&mut self, event: &NeutralEvent<'_>, out: &mut Records) {
        while let Some(first) = self.ending.front().copied()
            && event.time.saturating_sub(first.since) >= self.end_delay(&first)
        {
            self.ending.pop_front();
            if first.is_told {
                continue;
            }
            let is_late = event.time.saturating_sub(first.said) >= LONGEST_END;
            match !is_late && !self.is_perhaps_lost(&first) && self.will_run(&first) {
                true => self.ending.push_back(EndingThread { since: event.time, ..first }),
                false => self.ended(event, first.process, first.thread, out),
            }
        }
    }

    /// Whether the last switch that is known of a thread brought it to a CPU, or took it from one before its last one: it was ready to run,
    /// or waits behind its last word, such as for files that the kernel closes for it.
    fn will_run(&self, ending: &EndingThread) -> bool {
        // In a container, a thread has its machine's id until it has left its CPU for the first time.
        let last_cpu = self.cpus.get(usize::from(ending.cpu)).and_then(|cpu| cpu.thread);
        let runs = last_cpu.is_some_and(|thread| thread & FOREIGN != 0)
            || self.cpus.iter().any(|cpu| cpu.thread == Some(ending.thread));
        let comes_back =
            |one: &Thread| one.is_ready || !self.lacks_states && one.out_since >= ending.said;
        runs || self.threads.get(&ending.thread).is_some_and(comes_back)
    }

    /// A thread that has said its end still runs.
    fn still_runs(&mut self, thread: u32, time: u64) {
        if let Some(at) = self.ending.iter().position(|one| one.thread == thread)
            && let Some(one) = self.ending.remove(at)
        {
            self.ending.push_back(EndingThread { since: time, ..one });
        }
    }

    /// Says that events are missing here.
    fn add_loss(&mut self, event: &NeutralEvent<'_>, out: &mut Records) {
        self.last_loss = event.time;
        let head = Head { process: 0, thread: 0, ..self.head(event) };
        out.classic(head, etw_types::LOST_EVENT, LOST_EVENT_TYPE, 0, &Payload::new());
    }

    fn take_device_event(&mut self, event: &NeutralEvent<'_>, out: &mut Records) {
        match event.detail {
            Detail::InterruptEnter { line } => {
                let cpu = self.cpu(event.cpu);
                cpu.interrupts.truncate(DEEPEST_INTERRUPT - 1);
                cpu.interrupts.push((line, event.time));
            }
            Detail::InterruptExit { line, is_handled } => {
                self.interrupted(event, line, is_handled, out);
            }
            Detail::SoftInterruptEnter { vector } => {
                if let Some(since) = self.cpu(event.cpu).soft_interrupts.get_mut(vector as usize) {
                    *since = event.time;
                }
            }
            Detail::SoftInterruptExit { vector } => self.soft_interrupted(event, vector, out),
            Detail::DiskQueue(request) => self.disk_queued(event, &request, out),
            Detail::DiskIssue(request) => self.disk_issued(event, &request, out),
            Detail::DiskRequeue(request) => self.disk_requeued(&request),
            Detail::DiskComplete(request) => self.disk_completed(event, &request, out),
            Detail::Transfer { socket, protocol, is_send, size, addresses } => {
                let transferred = Transferred { protocol, is_send, size, addresses };
                self.transferred(event, socket, transferred, out);
            }
            Detail::SocketState { socket, old, new, addresses } => {
                self.socket_changed(event, socket, StateChange { old, new }, &addresses, out);
            }
            Detail::Retransmit { socket, addresses } => {
                self.retransmitted(event, socket, &addresses, out);
            }
            Detail::ViewFound { process, base, size, file } => {
                self.view_found(event, process, (base, size), file, out);
            }
            Detail::FaultBegin { is_protection } => self.fault_begun(event, is_protection),
            Detail::FileFault { file, offset, is_around } => {
                self.file_fault(event, (file, offset), is_around);
            }
            Detail::Fault { address, program_counter, is_hard } => {
                self.faulted(event, address, program_counter, is_hard, out);
            }
            Detail::DescriptorFound { process, descriptor, file } => {
                self.descriptor_found(event, process, descriptor, file, out);
            }
            Detail::SyscallEnter { number, arguments, file } => {
                self.call_entered(event, number, arguments, file, out);
            }
            Detail::SyscallExit { number, result } => self.call_left(event, number, result, out),
            _ => {}
        }
    }

    /// How much is remembered of what lives, by kind.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> Vec<(&'static str, usize)> {
        let mut all = vec![
            ("processes", self.processes.len()),
            ("threads", self.threads.len()),
            ("faults", self.faults.len()),
            ("ending threads", self.ending.len()),
            ("exit statuses", self.exit_statuses.len()),
            ("users", self.user_changes.len()),
            ("creations", self.creations.len()),
        ];
        all.extend(self.calls.remembered());
        all.extend(self.sockets.remembered());
        all.extend(self.disks.remembered());
        all.extend(self.files.remembered());
        all.extend(self.folders.remembered());
        all.extend(self.shared_memory.remembered());
        all
    }

    /// The time of an event that may have a stack, and the head of its record.
    fn head_with_stack(&mut self, event: &NeutralEvent<'_>, out: &Records) -> Head {
        let mut head = self.head(event);
        head.time = out.not_before(head.time);
        if self.last_stacks.has(head.time, head.thread) {
            // Readers find the event of a stack by time and thread.
            head.time += 1;
        }
        head
    }

    /// Adds the call stack of the record before, if stacks of `hook` are wanted.
    fn add_stack(&mut self, head: Head, hook: u16, stack: Stack<'_>, out: &mut Records) {
        if !self.options.has_stack(hook) || stack.is_empty() {
            return;
        }
        self.last_stacks.add(head.time, head.thread);
        self.remember_kernel(stack.kernel);
        self.cut_stacks += u64::from(stack.kernel.len() + stack.user.len() > MAX_FRAMES);
        let user = match stack.user {
            [] => self.missing_frames(head),
            user => user,
        };
        let kernel = &stack.kernel[..stack.kernel.len().min(MAX_FRAMES - 1)];
        let user = &user[..user.len().min(MAX_FRAMES - kernel.len())];
        let mut fields = [0; 16];
        fields[..8].copy_from_slice(&head.time.to_le_bytes());
        fields[8..12].copy_from_slice(&head.process.to_le_bytes());
        fields[12..].copy_from_slice(&head.thread.to_le_bytes());
        out.with_addresses(head, STACK_WALK, 2, &fields, [kernel, user]);
    }
}
