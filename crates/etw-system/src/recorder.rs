//! The recording of one session: perf rings and `/proc` on one side, the shaper's records on the other.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::time::Duration;

use etw_types::{Guid, Hook, SYSTEM_TRACE};

use crate::clocks::{Suspension, now};
use crate::exit_statuses::{ExitStatuses, Fact, Message};
use crate::flags::{Flag, Masks};
use crate::kernel_image::{KernelSymbols, functions_at};
use crate::neutral::{Detail, ExecFacts, NeutralEvent};
use crate::own_rights::{check_proc, hidden_processes};
use crate::pace::{Haste, Pace};
use crate::perf::{
    CallEvents, ClassLosses, FinishedRings, Given, Missing, NewProgram, OpenRing, Parsed, Perf,
    PerfDetail, ProgramFound, ReleasedPositions, RingPlace, RingSize, Target, Told, Tracepoint,
};
use crate::process_files::{self, file_facts, have_one_memory};
use crate::record::{Records, SystemRecord};
use crate::recorder::cpus::UnseenEnds;
use crate::recorder::hidden::HiddenPrograms;
use crate::recorder::losses::TwoCounts;
use crate::recorder::mappings::add_mapping;
use crate::recorder::rundown::{Giver, Handover};
use crate::recorder::stored::{Known, Place, pass_over};
use crate::ring_facts::{LeftRing, RingFacts, recorded_cpus};
use crate::shaper::{Machine, Options, Shaper, StatusSource, Turn};
use crate::sources::{Sources, add_found};
use crate::stacks::Stacks;
use crate::system_calls::{FileOperation, SystemCall};
use crate::system_facts::{self, Mounts, OnlineCpus, online_cpus};
use crate::thread_ids::is_first_namespace;
use crate::wanted_events::{
    MachineEvents, StartError, has_descriptors, machine_events, open_machine, open_own, open_side,
    own_events, side_events_of, stack_sizes,
};

/// Records come into a ring so many nanoseconds after their time at most.
const DELAY: u64 = 10_000_000;
/// Files that are opened while others are looked up are looked up in so many turns; those that remain, at the next poll.
const MAX_LOOKS: u32 = 4;
/// Nanoseconds between two looks at the CPUs that are online.
const CPU_LOOKS: u64 = 50_000_000;
/// Nanoseconds between two looks at the kernel's counters, each of which interrupts its CPU.
const LOSS_COUNTS: u64 = 1_000_000_000;
/// Bytes of records that wait for the session at most. More stay in the kernel's rings, which count what they have no room for.
const MAX_QUEUE: usize = 2 << 20;
/// The hooks of context switches and of beginnings.
const CSWITCH: u16 = 0x0524;
const PROCESS_START: u16 = 0x0301;
const THREAD_START: u16 = 0x0501;
/// Nanoseconds of a record's unit of time.
const TICK: u64 = 100;

/// Records events of the system.
#[derive(Debug)]
pub struct Recorder {
    perf: Perf,
    shaper: Shaper,
    out: Records,
    sources: Sources,
    stacks: Stacks,
    /// `None`: they are not known.
    exit_statuses: Option<ExitStatuses>,
    /// Whether files that programs open are looked up.
    has_operations: bool,
    has_counters: bool,
    has_network: bool,
    /// Bytes of stacks that are copied with each sample, until it is known how many are needed.
    largest_stack: u32,
    /// Events in the kernel are recorded, as far as it is known.
    has_kernel: bool,
    notes: Vec<String>,
    target: Target,
    call_events: CallEvents,
    /// The process of the recorded command, which executes its program when the recording has begun.
    command: Option<u32>,
    /// The CPUs that are online.
    cpus: Vec<u16>,
    online: OnlineCpus,
    /// `None`: they are not recorded.
    mounts: Option<Mounts>,
    suspension: Suspension,
    /// CPUs that have been online.
    known_cpus: Vec<u16>,
    /// When those are looked at again, and when they were last, in nanoseconds.
    next_look: u64,
    last_look: u64,
    unseen_ends: UnseenEnds,
    /// When the kernel's counters are read again, in nanoseconds.
    next_count: u64,
    /// The first events of `perf` are those of processes and mappings.
    side_events: usize,
    /// How long the kernel's rings may be left alone.
    pace: Pace,
    /// No later record is earlier.
    watermark: u64,
    /// Bytes of records that may wait for the session.
    room: usize,
    /// Losses since the last [`take_losses`](Recorder::take_losses).
    losses: ClassLosses,
    /// Losses that are counted, for which the trace has no event yet: the kernel's record of them comes only with the next one that fits.
    unmarked: u64,
    /// Lost beginnings and ends of threads.
    lives: TwoCounts,
    /// Lost switches.
    switches: TwoCounts,
    /// Lost records that have been counted, or were before this recorder.
    known_losses: ClassLosses,
    /// The facts that the recorders before have counted as missing.
    missing_before: Missing,
    /// The next process knows these by it. `None`: there is no memory for it.
    told: Option<Told>,
    /// The kernel records no more.
    is_ending: bool,
    is_finished: bool,
    /// A program in the kernel records the arguments of each program that is executed.
    has_arguments: bool,
    /// The recording continues one whose records up to this time, in 100 ns, are stored.
    stored_until: Option<i64>,
    /// The last stored time of CPUs, in 100 ns, where it is known.
    stored_on: Vec<(u16, i64)>,
    /// The records before this time, in 100 ns, are those of another recorder.
    since: i64,
    hidden: HiddenPrograms,
    handover: Handover,
    /// Bytes of the records of the rundown at the beginning.
    rundown_size: usize,
    /// Positions in the rings that can be committed when all records before a time are stored.
    released: VecDeque<Released>,
}

/// Positions in the rings whose records before `until`, in 100 ns, have gone to the shaper.
#[derive(Debug)]
struct Released {
    until: i64,
    positions: ReleasedPositions,
    /// The facts that these records lack.
    missing: Missing,
}

/// The open events of a recorder.
struct Opened {
    perf: Perf,
    target: Target,
    cpus: Vec<u16>,
    side_events: usize,
    has_kernel: bool,
    notes: Vec<String>,
}

fn this_turn() -> Turn {
    // SAFETY: they take nothing and return numbers.
    let (cpu, thread) = unsafe { (libc::sched_getcpu(), libc::syscall(libc::SYS_gettid)) };
    Turn { time: now(), cpu: cpu.max(0) as u16, process: std::process::id(), thread: thread as u32 }
}

impl Recorder {
    /// Opens the events of a recording: of the machine, or, without the rights for it, of `process` and its children. Nothing is
    /// recorded before [`begin`](Recorder::begin).
    ///
    /// # Errors
    /// [`StartError`].
    pub fn open(options: Options, process: Option<u32>) -> Result<Recorder, StartError> {
        check_proc().map_err(StartError::Proc)?;
        let cpus = online_cpus();
        if cpus.is_empty() {
            return Err(StartError::Cpus);
        }
        let mut perf = Perf::default();
        let mut notes = Vec::new();
        let mut events = machine_events(&options);
        events.open_programs(&mut perf, &options, &cpus);
        let target = open_side(&mut perf, &options, process, &cpus, &mut notes)?;
        let side_events = perf.len();
        let has_kernel = match target {
            Target::Machine => {
                let how = (&cpus[..], process.is_some());
                open_machine(&mut perf, &options, events, how, &mut notes)?;
                true
            }
            Target::Tree(_) => {
                let wanted = own_events(&options, target, &mut notes);
                open_own(&mut perf, wanted, target, &cpus, &mut notes)?
            }
        };
        let opened = Opened { perf, target, cpus, side_events, has_kernel, notes };
        let told = Told::new().ok();
        Ok(Recorder { told, command: process, ..Recorder::with(opened, options) })
    }

    /// Continues the recording of a process that was killed, with the rings that it left. Records before `since`, in 100 ns, are another
    /// recorder's. [`begin`](Recorder::begin) adds a rundown behind the stored ones.
    ///
    /// # Errors
    /// The rings do not fit these options or this machine.
    pub fn resume(
        options: Options,
        process: Option<u32>,
        rings: Vec<LeftRing>,
        stored: Stored,
        since: i64,
    ) -> Result<Recorder, StartError> {
        let mut notes = Vec::new();
        let (kept, rings): (Vec<LeftRing>, Vec<LeftRing>) =
            rings.into_iter().partition(|ring| ring.facts.is_told);
        let kept = kept.into_iter().flat_map(|one| one.events).next();
        let told = kept.map(Told::map).transpose().map_err(StartError::Rings)?;
        let is_machine = rings.first().is_some_and(|ring| ring.facts.is_machine);
        let (target, mut events) = match process {
            Some(process) if !is_machine => {
                let target = Target::Tree(process);
                (target, MachineEvents::of_perf(own_events(&options, target, &mut notes)))
            }
            _ => (Target::Machine, machine_events(&options)),
        };
        let recorded = recorded_cpus(rings.iter().map(|ring| &ring.facts));
        let mut perf = Perf::default();
        let mut side_events = 0;
        let (of_programs, of_events): (Vec<LeftRing>, Vec<LeftRing>) =
            rings.into_iter().partition(|ring| !ring.facts.programs.is_empty());
        for LeftRing { facts, events: descriptors } in of_programs {
            let adopted =
                perf.adopt_programs(&mut events.wanted, facts.programs, descriptors, facts.size);
            adopted.map_err(StartError::Rings)?;
        }
        events.note_missing(&options, &perf, process.is_some(), &mut notes)?;
        let side = side_events_of(target, &options, &perf);
        let wanted = events.wanted;
        let mut opened: Vec<bool> = Vec::new();
        for LeftRing { facts, events } in of_events {
            // The process that opened them may not have had all rights.
            let wanted =
                if facts.is_side { &side[..side.len().min(events.len())] } else { &wanted[..] };
            side_events += if facts.is_side { events.len() } else { 0 };
            let RingFacts { cpu: Some(cpu), is_offline, is_side, .. } = facts else {
                return Err(StartError::Rings(io::ErrorKind::InvalidData.into()));
            };
            let place = RingPlace { cpu, is_offline, is_side };
            perf.adopt(wanted, events, facts.size, place).map_err(StartError::Rings)?;
            if !opened.contains(&facts.is_side) {
                opened.push(facts.is_side);
                perf.adopt_opening(wanted, target, RingSize(facts.size), is_side);
            }
        }
        if side_events == 0 {
            return Err(StartError::Rings(io::ErrorKind::NotFound.into()));
        }
        // A CPU that has come since is added at the first poll.
        let cpus = recorded.unwrap_or_else(online_cpus);
        // The first recorder has said it.
        let has_kernel = true;
        let opened = Opened { perf, target, cpus, side_events, has_kernel, notes };
        let stored_until = Some(stored.until.max(since.saturating_sub(1)));
        let stored_on = stored.on;
        let recorder =
            Recorder { stored_until, stored_on, since, told, ..Recorder::with(opened, options) };
        Ok(recorder.behind_others())
    }

    /// The recording continues that of a recorder before it: if the last switch of a CPU is not known, the trace has a loss there. What it
    /// numbers has no number of the one before.
    pub fn behind_others(mut self) -> Recorder {
        self.shaper.continues_trace();
        self.shaper.number_from(now() / TICK);
        self
    }

    fn with(opened: Opened, options: Options) -> Recorder {
        // Those that are mounted meanwhile have two records, and none has none.
        let has_mounts = options.masks.has_configuration(Flag::CONFIGURED_STORAGE);
        let mounts = (has_mounts && opened.target == Target::Machine).then(Mounts::new);
        let machine = machine(opened.target, &opened.cpus, &options.masks);
        Recorder { mounts, ..Recorder::on(machine, opened, options) }
    }

    fn on(machine: Machine, opened: Opened, options: Options) -> Recorder {
        let Opened { mut perf, target, cpus, side_events, has_kernel, mut notes } = opened;
        perf.translate_ids();
        let ring = perf.room_for_samples(cpus.len()) as u64;
        let flow = |size: u32| options.samples_per_second() * u64::from(size);
        let sizes = stack_sizes(target, &options, perf.has_sample_program());
        let fitting = sizes.iter().filter(|size| Pace::suffices(ring, flow(**size))).count();
        let sizes = &sizes[..fitting.max(1)];
        let largest_stack = sizes[sizes.len() - 1];
        perf.begin_with_stack_size(largest_stack);
        let stacks = Stacks::new(sizes, perf.programs());
        let (exit_statuses, status_source) = open_exit_statuses(&options, &perf, &mut notes);
        let has_arguments = perf.has_program(Tracepoint::Exec);
        let has = |flag| options.masks.has(flag);
        let has_operations = has_descriptors(&options.masks);
        let (has_counters, has_network) = (has(Flag::COUNTERS), has(Flag::NETWORK));
        let has_quick_looks = has_operations && !perf.has_call_paths();
        let is_urgent = has_quick_looks || perf.has_bursts();
        let haste = Haste::of(is_urgent, perf.programs().is_some());
        // Every sample copies the stack at first.
        let pace = Pace::new(haste, ring, flow(largest_stack));
        if target == Target::Machine {
            notes.extend(hidden_processes());
        }
        if has(Flag::IMAGE) && has_kernel {
            notes.extend(notes::of_kernel(&machine));
        }
        let mut shaper = Shaper::new(options.clone(), machine);
        shaper.expect_exit_statuses(status_source);
        Recorder {
            perf,
            shaper,
            out: Records::default(),
            sources: Sources::default(),
            stacks,
            largest_stack,
            exit_statuses,
            has_operations,
            has_counters,
            has_network,
            has_kernel,
            notes,
            target,
            call_events: CallEvents::of(&options.masks),
            command: None,
            known_cpus: cpus.clone(),
            cpus,
            online: OnlineCpus::default(),
            mounts: None,
            suspension: Suspension::new(),
            next_look: 0,
            last_look: 0,
            unseen_ends: UnseenEnds::default(),
            next_count: 0,
            side_events,
            pace,
            watermark: 0,
            room: MAX_QUEUE,
            losses: ClassLosses::default(),
            unmarked: 0,
            lives: TwoCounts::default(),
            switches: TwoCounts::default(),
            known_losses: ClassLosses::default(),
            missing_before: Missing::default(),
            told: None,
            is_ending: false,
            is_finished: false,
            has_arguments,
            stored_until: None,
            stored_on: Vec::new(),
            since: i64::MIN,
            hidden: HiddenPrograms::default(),
            handover: Handover::default(),
            rundown_size: 0,
            released: VecDeque::new(),
        }
    }

    /// The rings, for a process that takes over if this one is killed. Those that are added later are behind the others.
    pub fn rings(&self) -> Vec<OpenRing<'_, RingFacts>> {
        let none = RingFacts {
            size: 0,
            is_side: false,
            cpu: None,
            is_offline: false,
            is_machine: self.target == Target::Machine,
            programs: Vec::new(),
            is_told: false,
        };
        let told = self.told.as_ref().map(|told| {
            let facts = RingFacts { is_told: true, ..none.clone() };
            OpenRing { facts, events: vec![told.as_fd()] }
        });
        let programs = self.perf.programs().map(|programs| {
            let (size, programs_of) = (programs.size(), programs.points().to_vec());
            let facts = RingFacts { size, programs: programs_of, ..none.clone() };
            OpenRing { facts, events: programs.descriptors() }
        });
        let rings = self.perf.rings().map(|OpenRing { facts: (size, place), events }| {
            let RingPlace { cpu, is_offline, is_side } = place;
            let facts = RingFacts { size, is_side, cpu: Some(cpu), is_offline, ..none.clone() };
            OpenRing { facts, events }
        });
        told.into_iter().chain(programs).chain(rings).collect()
    }

    /// A number that changes with the rings: CPUs come and go.
    pub fn ring_changes(&self) -> u64 {
        self.perf.ring_changes()
    }

    /// Begins to record. The rundown of what exists already is among the first records.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn begin(&mut self) -> io::Result<()> {
        if let Some(stored_until) = self.stored_until {
            // The rundown has the time of the last stored record: if this process is killed, too, the next one still takes all
            // records behind that time from the rings.
            self.perf.read(now());
            self.perf.count_from_here();
            self.find_silent_cpus();
            self.continue_count();
            self.continue_disks();
            self.perf.choose_stack_size(self.largest_stack)?;
            let turn = this_turn();
            let time = match u64::try_from(stored_until) {
                Ok(ticks @ 1..) => ticks * TICK,
                _ => self.perf.first_time().unwrap_or(turn.time),
            };
            self.run_down(Turn { time, ..turn });
            self.shaper.found_until(now());
            return Ok(());
        }
        self.begin_count();
        // Nothing falls between the list of processes and the records of those that begin later.
        self.perf.enable_arguments();
        self.perf.enable(..self.side_events)?;
        self.run_down(this_turn());
        // Those that began during the list and are in it have records, too.
        self.shaper.found_until(now());
        self.perf.enable_programs();
        self.perf.enable(self.side_events..)?;
        Ok(())
    }

    /// The recording lacks nothing yet.
    fn begin_count(&mut self) {
        self.known_losses =
            self.perf.counted_losses(self.target, self.call_events, false).unwrap_or_default();
        self.tell();
        self.tell_disks();
    }

    /// Reads what the kernel has recorded. Returns the watermark, in nanoseconds of `CLOCK_MONOTONIC`.
    pub fn poll(&mut self) -> u64 {
        if self.is_finished {
            return u64::MAX;
        }
        self.commit();
        let time = now();
        let read = self.perf.read_size();
        let until = time.saturating_sub(DELAY);
        self.read_until(until);
        self.pace.polled(time, self.perf.read_size() - read);
        if let Some(size) = self.stacks.next_size()
            && let Err(error) = self.perf.choose_stack_size(size)
        {
            self.notes.push(format!("samples have as many bytes of stacks as before: {error}"));
        }
        if time >= self.next_look {
            self.next_look = time + CPU_LOOKS;
            self.end_hidden(self.watermark);
            if let Some(online) = self.online.changed() {
                self.follow_cpus(online);
            }
            self.last_look = time;
            self.describe_new_mounts();
            if let Some(suspended) = self.suspension.look() {
                // No later record is earlier than the watermark.
                let turn = Turn { time: self.watermark, ..this_turn() };
                let Recorder { shaper, out, .. } = self;
                Giver { shaper, out, turn }.event(Detail::Resumed { suspended });
            }
        }
        self.describe_new_disks();
        self.end_unseen();
        if time >= self.next_count {
            self.next_count = time + LOSS_COUNTS;
            if self.perf.counts_beside_programs() {
                self.count_losses(false);
            }
        }
        // The shaper may give two records of one time a distance of one tick.
        let until = (self.watermark / TICK) as i64 - 1;
        let (positions, missing) = (self.perf.released(), self.missing());
        match self.released.back_mut() {
            Some(last) if last.positions == positions => {
                (last.until, last.missing) = (until, missing)
            }
            _ => self.released.push_back(Released { until, positions, missing }),
        }
        self.watermark
    }

    /// Gives the kernel the memory of records that the session has stored: they have left the queue.
    fn commit(&mut self) {
        let first = self.out.peek().map_or(i64::MAX, |record| record.time);
        let mut stored = None;
        while self.released.front().is_some_and(|one| one.until < first) {
            stored = self.released.pop_front();
        }
        if let Some(stored) = stored {
            self.perf.commit(&stored.positions);
            if let Some(told) = &self.told {
                told.set_missing(&stored.missing);
            }
        }
    }

    /// Finds the files that programs opened, as long as they have them open.
    fn look_files_up(&mut self) {
        for _ in 0..MAX_LOOKS {
            let changes = self.perf.take_descriptor_changes();
            if changes.is_empty() {
                return;
            }
            self.sources.add_changed(&changes);
            self.sources.add_opened(&changes, file_facts);
            self.perf.read(now());
            self.sources.reject_changed(self.perf.descriptor_changes());
        }
    }

    /// Finds what the records that have been read need, as long as it is there.
    fn find_facts(&mut self) {
        let (executed, found) = (self.perf.take_executed(), self.perf.take_programs_found());
        self.pace.has_looks |= self.sources.add_execs(executed, found);
        self.sources.gaps.extend(self.perf.take_gaps());
        self.sources.add_begun(self.perf.take_begun());
        self.sources.add_call_paths(self.perf.take_call_paths());
        if self.has_operations && !self.perf.has_call_paths() {
            self.look_files_up();
        } else {
            self.sources.add_changed(&self.perf.take_descriptor_changes());
        }
    }

    /// Gives the shaper what has been recorded before a time, and is known whole.
    fn read_until(&mut self, until: u64) {
        self.complete_rundown();
        let time = now();
        self.perf.read(time);
        self.find_facts();
        self.count_lost_records();
        let until = if self.is_ending { until } else { self.perf.complete_until(until, time) };
        let known = Known {
            since: self.since,
            until: self.stored_until.unwrap_or(i64::MIN),
            on: &self.stored_on,
        };
        let target = self.target;
        let Recorder { perf, shaper, out, sources, exit_statuses, stacks, room, hidden, .. } = self;
        add_exit_statuses(exit_statuses, shaper, out);
        if out.size() >= *room {
            return;
        }
        let (own, mut frames) = (std::process::id(), Vec::new());
        let has_flags = perf.has_clone_flags();
        let until = perf.release(until, |given| {
            let Given::Other(parsed) = given else {
                take_switch(shaper, given, &known, out);
                return is_over(out, *room);
            };
            let completed;
            let parsed = match parsed.stack.user.len() > 1 || parsed.user.is_some() {
                true => {
                    completed = stacks.complete(parsed, shaper, &mut frames);
                    &completed
                }
                false => parsed,
            };
            let place = known.place_of(parsed.time, parsed.cpu);
            match parsed.detail {
                PerfDetail::Neutral(detail) if place != Place::New => {
                    pass_over(shaper, place, parsed.cpu, &detail);
                }
                _ if place != Place::New => {}
                // The frequent ones are not copied whole.
                PerfDetail::Neutral(Detail::Switch { old, new }) => {
                    shaper.take(&parsed.event(Detail::Switch { old, new }), out);
                }
                PerfDetail::Neutral(Detail::Wake { thread, is_interrupt }) => {
                    shaper.take(&parsed.event(Detail::Wake { thread, is_interrupt }), out);
                }
                PerfDetail::Neutral(Detail::Fork {
                    process,
                    parent_process,
                    thread,
                    parent_thread,
                    ..
                }) => {
                    let exec = || sources.next_exec(process, parsed.time);
                    let soon = if process == parent_process { None } else { exec() };
                    let soon = soon.as_ref();
                    let detail =
                        Detail::Fork { process, parent_process, thread, parent_thread, soon };
                    take_fork(shaper, &parsed.event(detail), [parent_thread, thread], out);
                    let (is_process, other) = (process != parent_process, parent_process);
                    if is_process && !has_flags && have_one_memory(process, other) {
                        let detail = Detail::SharedMemory { process, other };
                        shaper.take(&parsed.event(detail), out);
                    }
                }
                // The host's own calls would feed the trace.
                PerfDetail::Neutral(Detail::SyscallEnter { .. } | Detail::SyscallExit { .. })
                    if parsed.process == own => {}
                PerfDetail::Neutral(Detail::Exit { process, thread })
                    if hidden.take(target, process, thread) => {}
                PerfDetail::Neutral(Detail::Exit { process, thread }) => {
                    if shaper.lacks_exit_status(process, thread, parsed.time) {
                        find_exit_status(exit_statuses, parsed, (process, thread), shaper, out);
                    }
                    shaper.take(&parsed.event(Detail::Exit { process, thread }), out);
                }
                PerfDetail::Neutral(Detail::SyscallEnter { number, arguments, .. }) => {
                    take_call(shaper, sources, parsed, (number, arguments), out);
                }
                PerfDetail::Neutral(detail) => shaper.take(&parsed.event(detail), out),
                PerfDetail::Exec { process, name } => {
                    hidden.show(process);
                    let facts = sources.take_exec(process, parsed.time).unwrap_or_else(|| {
                        ExecFacts { name: name.to_vec(), ..ExecFacts::default() }
                    });
                    shaper.take(&parsed.event(Detail::Exec { process, facts: &facts }), out);
                }
                PerfDetail::Program(program) => add_program(shaper, parsed, &program, out),
                PerfDetail::Map(mapping) => {
                    hidden.mapped(mapping.process);
                    add_mapping(shaper, parsed, &mapping, &mut sources.images, out);
                }
            }
            is_over(out, *room)
        });
        self.stacks.close_files();
        self.sources.images.forget_lists();
        self.watermark = self.watermark.max(until);
        self.sources.forget(until);
    }

    /// The longest pause until the next [`poll`](Recorder::poll).
    pub fn longest_pause(&self) -> Duration {
        self.pace.pause
    }

    /// The next record before the watermark.
    pub fn peek(&self) -> Option<SystemRecord<'_>> {
        self.out.peek()
    }

    /// Removes that record.
    pub fn pop(&mut self) {
        self.out.pop();
    }

    /// Gives the records up to a time, in 100 ns, and removes those that `take` takes: it returns whether it did. The first that it does not
    /// take is the last one.
    pub fn give(&mut self, until: i64, take: impl FnMut(&SystemRecord<'_>) -> bool) {
        self.out.give(until, take);
    }

    /// Gives the shaper the counters of the processes that live.
    fn count_processes(&mut self, turn: Turn) {
        if !self.has_counters {
            return;
        }
        let processes = self.shaper.process_ids();
        let Recorder { shaper, out, .. } = self;
        let mut give = Giver { shaper, out, turn };
        for process in processes {
            if let Some(counters) = process_files::process_counters(process) {
                give.event(Detail::Counters { process, counters: &counters });
            }
        }
    }

    /// The thread that each CPU ran last; `None`: the trace has switches of it, and the last one is not known.
    pub fn cpu_states(&self) -> impl Iterator<Item = (u16, Option<u32>)> {
        self.shaper.cpu_states()
    }

    /// The records follow those of a recorder that ended with these [`cpu_states`](Recorder::cpu_states). Switches that are missing between them
    /// are counted and marked like others.
    pub fn follow(&mut self, states: impl Iterator<Item = (u16, Option<u32>)>) {
        states.for_each(|(cpu, thread)| self.shaper.follows(cpu, thread));
    }

    /// The recording has ended: waits for the programs that write a record now, for some microseconds, unless something keeps their CPU.
    fn await_programs(&mut self) {
        const TRIES: u32 = 100;
        const PAUSE: Duration = Duration::from_millis(1);
        for _ in 0..TRIES {
            if self.perf.read(now()) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Ends the recording: everything that was recorded becomes available, with the rundown at the end.
    pub fn finish(&mut self) {
        drop(self.finish_before(i64::MAX));
    }

    /// Ends the recording like [`finish`](Recorder::finish), at a past moment in 100 ns: another recorder has the later records. Returns
    /// the rings, whose records are all read; to drop them closes them.
    pub fn finish_before(&mut self, moment: i64) -> FinishedRings {
        if self.is_finished {
            return FinishedRings::default();
        }
        self.perf.disable();
        self.await_programs();
        // The rundown has this time, not the later one at which the rings are read: nothing is recorded between them.
        let now = this_turn();
        self.room = usize::MAX;
        self.is_ending = true;
        // Records that an earlier process stored may be later than that moment.
        let last = (moment - 1).max(self.stored_until.unwrap_or(0));
        let end = u64::try_from(last).unwrap_or(0).saturating_add(1).saturating_mul(TICK);
        self.read_until(end);
        if moment < i64::MAX {
            self.handover.known = self.shaper.living().collect();
        }
        // Other recorders have that moment.
        let turn = Turn { time: now.time.min(end - 1), ..now };
        self.end_hidden(turn.time);
        self.add_last_losses(turn);
        self.count_processes(turn);
        self.end_unmapped_images(turn);
        self.look_at_living();
        self.shaper.name_kernel_functions(functions_at(&self.shaper.kernel_addresses()));
        self.describe_new_disks();
        self.describe_new_mounts();
        self.shaper.finish(turn, &mut self.out);
        self.take_rings()
    }

    /// Ends the recording without what is still in the rings.
    pub fn take_rings(&mut self) -> FinishedRings {
        self.is_finished = true;
        self.watermark = u64::MAX;
        FinishedRings::of(std::mem::take(&mut self.perf))
    }
}

/// Takes the beginning of a system call, with the files that it is about.
fn take_call(
    shaper: &mut Shaper,
    sources: &mut Sources,
    parsed: &Parsed<'_>,
    (number, arguments): (u64, [u64; 6]),
    out: &mut Records,
) {
    let call = SystemCall::of_number(number);
    let file = call.and_then(|call| {
        let (process, thread, time) = (parsed.process, parsed.thread, parsed.time);
        let named = sources.take_call_paths(thread, time, number, &arguments);
        let own = shaper.id_of_descriptors(process, thread);
        let ids = (process, thread);
        for descriptor in shaper.unknown_files(ids, call, &arguments, &named) {
            let file = sources.file_of((process, own), descriptor, time);
            let Some(file) = file.as_ref().map(Option::as_ref) else { continue };
            let detail = Detail::DescriptorFound { process, descriptor, file };
            shaper.take(&parsed.event(detail), out);
        }
        let SystemCall::File(FileOperation::Open, _) = call else { return named };
        named.or_else(|| sources.file_opened_after(thread, time).map(Into::into))
    });
    let detail = Detail::SyscallEnter { number, arguments, file: file.as_ref() };
    shaper.take(&parsed.event(detail), out);
}

/// Takes the beginning of a thread. Its creator may have changed the CPUs that it may use, and the new thread begins with those.
fn take_fork(
    shaper: &mut Shaper,
    event: &NeutralEvent<'_>,
    [parent, thread]: [u32; 2],
    out: &mut Records,
) {
    shaper.set_affinity(parent, process_files::affinity_of(parent));
    shaper.take(event, out);
    shaper.set_affinity(thread, process_files::affinity_of(thread));
}

/// Takes a switch, or the thread that a CPU runs since a switch that is stored already.
fn take_switch(shaper: &mut Shaper, given: Given<'_>, known: &Known<'_>, out: &mut Records) {
    let Given::Switch(switch) = given else { return };
    match known.place_of(switch.time, switch.cpu) {
        Place::New => shaper.take(switch, out),
        place => pass_over(shaper, place, switch.cpu, &switch.detail),
    }
}

/// Whether records have to wait in their rings.
fn is_over(out: &Records, room: usize) -> ControlFlow<()> {
    match out.size() < room {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    }
}

/// The class of the events with a hook.
fn class_of(hook: u16) -> Guid {
    Hook(hook).class_guid().unwrap_or(SYSTEM_TRACE)
}

/// Adds the name and arguments of a process's new program.
fn add_program(
    shaper: &mut Shaper,
    parsed: &Parsed<'_>,
    program: &NewProgram<'_>,
    out: &mut Records,
) {
    let process = program.process;
    if let Some(mut facts) = shaper.exec_facts(process) {
        add_found(&mut facts, ProgramFound::of(parsed.time, program));
        shaper.take(&parsed.event(Detail::ProgramFound { process, facts: &facts }), out);
    }
}

/// Adds the exit statuses and users that have come. A thread says its status before it leaves its CPU for the last time.
fn add_exit_statuses(source: &mut Option<ExitStatuses>, shaper: &mut Shaper, out: &mut Records) {
    let Some(source) = source else { return };
    source.read(|Message { time, process, thread, fact }| {
        let detail = match fact {
            Fact::Ended { status } => Detail::ExitStatus { process, thread, status },
            // The others of its threads follow it.
            Fact::User { user } if thread == process => Detail::User { process, user },
            Fact::User { .. } => return,
        };
        let turn = Turn { time, cpu: 0, process: 0, thread: 0 };
        Giver { shaper, out, turn }.event(detail);
    });
}

/// Finds the exit status of a thread that has said its end, and may be on its way out still: then `/proc` has it, else its message has come
/// meanwhile.
fn find_exit_status(
    source: &mut Option<ExitStatuses>,
    said: &Parsed<'_>,
    (process, thread): (u32, u32),
    shaper: &mut Shaper,
    out: &mut Records,
) {
    match process_files::exit_status_of_thread(process, thread) {
        Some(status) => {
            shaper.take(&said.event(Detail::ExitStatus { process, thread, status }), out);
        }
        None => add_exit_statuses(source, shaper, out),
    }
}

/// Begins to listen for users that change, and for exit statuses, unless a program of `perf` records them. The connector knows processes of
/// the whole machine only.
fn open_exit_statuses(
    options: &Options,
    perf: &Perf,
    notes: &mut Vec<String>,
) -> (Option<ExitStatuses>, StatusSource) {
    if !options.masks.has(Flag::PROCESS) {
        return (None, StatusSource::Nowhere);
    }
    let has_program = perf.has_program(Tracepoint::ExitStatus);
    match (has_program, ExitStatuses::open(has_program)) {
        (true, connector) => (connector.ok(), StatusSource::Program),
        (false, Ok(connector)) => (Some(connector), StatusSource::Connector),
        (false, Err(why)) => {
            notes.push(why);
            (None, StatusSource::Nowhere)
        }
    }
}

fn machine(target: Target, cpus: &[u16], masks: &Masks) -> Machine {
    let count = cpus.iter().max().map_or(1, |last| last + 1);
    let needs_symbols = [Flag::IMAGE, Flag::DPC, Flag::SYSCALL].map(|flag| masks.has(flag));
    let symbols = match needs_symbols.contains(&true) {
        true => KernelSymbols::read(),
        false => KernelSymbols::default(),
    };
    if let Target::Tree(_) = target {
        return Machine { cpus: count, images: symbols.images, ..Machine::default() };
    }
    let disks = system_facts::disks();
    Machine {
        cpus: count,
        is_container: !is_first_namespace(),
        images: symbols.images,
        soft_interrupts: symbols.soft_interrupts,
        system_calls: symbols.system_calls,
        configuration: system_facts::configuration(count, &disks),
        disks,
        product: system_facts::product(),
    }
}

mod cpus;
mod disks;
mod hidden;
mod lives;
mod losses;
mod mappings;
mod notes;
mod rundown;
mod stored;
#[cfg(test)]
mod tests;

pub use rundown::KnownProcesses;
pub use stored::Stored;
