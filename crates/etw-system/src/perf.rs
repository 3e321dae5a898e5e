//! The kernel's perf events: rings of records, one pair for each CPU; and the ring of the programs that take the place of some of them.

mod attribute;
pub(crate) mod bpf;
mod early;
mod gaps;
mod kept_rings;
mod lives;
mod losses;
mod parse;
mod release;
mod ring;
mod sample;
mod told;
mod tracepoint;
mod waiting;
mod wanted;
mod watermark;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::{Range, RangeBounds};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use foldhash::fast::RandomState;

pub(crate) use attribute::{Attribute, Event, Target};
pub(crate) use bpf::CallPath;
use early::Early;
pub(crate) use early::{Begun, DescriptorChange, Executed, ProgramFound};
pub(crate) use gaps::Gap;
use kept_rings::map;
pub use kept_rings::{FinishedRings, HeldRing};
pub(crate) use lives::{Life, LifeMoment};
pub use losses::ClassLosses;
pub(crate) use losses::{CallEvents, Missing};
pub use parse::{
    Kind, Mapping, NewProgram, Parsed, PerfDetail, Scratch, UNWOUND_REGISTERS, UserState, parse,
};
pub(crate) use release::{Given, ReleasedPositions};
#[cfg(test)]
pub(crate) use ring::fake::FakeRing;
pub use sample::RecordRing;
pub(crate) use told::Told;
pub(crate) use tracepoint::TraceFiles;
pub use tracepoint::{Layout, Tracepoint};
pub(crate) use wanted::{Filter, Wanted, own_threads};

use crate::thread_ids::{ThreadIds, is_first_namespace};
use bpf::{Programs, ReadPrograms};
use parse::{common_of, lost_of};
use ring::Ring;
use waiting::{Waiting, add_in_order};
use watermark::PathCalls;

/// Tracepoints of perf, those that a program records in their place on idle CPUs, where a kernel may write no sample of perf, and the field
/// with the thread that ran.
const OF_IDLE: [(Tracepoint, Tracepoint, &str); 2] = [
    (Tracepoint::Switch, Tracepoint::IdleSwitch, "prev_pid"),
    (Tracepoint::Waking, Tracepoint::IdleWaking, "common_pid"),
];
/// The number of the ring of the programs, which is none of the rings of events.
const PROGRAMS: usize = usize::MAX - 1;
/// The ring of losses that no ring has a record of.
const LOSS: usize = usize::MAX;

/// Open events and their rings.
#[derive(Debug, Default)]
pub(crate) struct Perf {
    events: Vec<Event>,
    /// The kind of each event.
    event_kinds: Vec<Kind>,
    /// Records of each event that were read, by its number.
    seen: HashMap<u64, u64, RandomState>,
    /// The kernel's count of each event before this process continued with it.
    counted_before: Vec<u64>,
    /// Events beside programs that were missing at the last look, by tracepoint.
    left_out: BTreeMap<usize, u64>,
    rings: Vec<Ring>,
    /// Number of rings that another process opened, the first ones.
    adopted_rings: usize,
    /// The use of each ring.
    ring_uses: Vec<RingUse>,
    /// Rings that were added, or whose CPU went offline, since the first ones were opened.
    ring_changes: u64,
    kinds: HashMap<u64, Kind, RandomState>,
    waiting: Vec<Waiting>,
    /// For each ring the position of its last released switch, by which another process knows the thread that runs.
    last_switches: Vec<Option<u64>>,
    /// Events of each CPU, for CPUs that come later.
    openings: Vec<Opening>,
    /// The first frames of wake-ups that perf recorded.
    wakers: Vec<u64>,
    /// Programs that record some tracepoints. Their ring is [`PROGRAMS`].
    programs: Option<Programs>,
    /// The same as `last_switches`, for the CPUs of that ring.
    last_program_switches: Vec<Option<u64>>,
    /// The time of the last record that was read from that ring: losses lie behind it.
    last_program_time: Option<u64>,
    /// Losses of the programs that the trace has, before and since this process continued with them.
    released_losses: u64,
    /// Records that the kernel had no room for, since the last look.
    lost: u64,
    /// The time of the last record that was read from each ring.
    last_times: Vec<u64>,
    gaps: Vec<Gap>,
    executed: Vec<Executed>,
    begun: Vec<Begun>,
    programs_found: Vec<ProgramFound>,
    /// The numbers of the events that record programs with their arguments.
    exec_events: Vec<u64>,
    changed: Vec<DescriptorChange>,
    call_paths: Vec<CallPath>,
    path_calls: PathCalls,
    /// All records of the programs before this time have been read.
    programs_until: u64,
    /// Ids of threads, in a container.
    ids: Option<ThreadIds>,
    /// Records of system calls may change descriptors.
    has_calls: bool,
    /// Some records have bytes of programs' stacks.
    has_stack_bytes: bool,
    /// Events of samples that differ only in the bytes of stacks that they copy. Those with this many record.
    stack_sizes: Vec<StackSize>,
    stack_size: u32,
    /// The largest one so far.
    largest_stack: u32,
    /// Samples that a program records have bytes of programs' stacks.
    program_copies_stacks: bool,
}

/// The bytes of stacks that an event of samples copies.
#[derive(Clone, Copy, Debug)]
struct StackSize {
    event: usize,
    size: u32,
}

/// The use of a ring.
#[derive(Clone, Debug)]
struct RingUse {
    /// Its events; the first one is that from which it was mapped.
    events: Range<usize>,
    place: RingPlace,
}

/// The ring with this number, of which the use is not known in tests alone.
fn record_ring(uses: &[RingUse], ring: usize) -> RecordRing {
    RecordRing::OfCpu(uses.get(ring).map_or(0, |one| one.place.cpu))
}

/// Where the events of a ring happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingPlace {
    pub cpu: u16,
    /// The CPU has gone offline: the events record nothing, also if it comes back.
    pub is_offline: bool,
    /// They are those of processes and mappings.
    pub is_side: bool,
}

/// Events that were opened on all CPUs, into one ring of each.
#[derive(Debug)]
struct Opening {
    is_side: bool,
    wanted: Vec<Wanted>,
    target: Target,
    size: RingSize,
}

/// No ring is larger.
const MAX_RING: usize = 1 << 30;

/// Sizes of the rings of a CPU, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingSize(pub usize);

impl RingSize {
    /// Half of it, as long as a ring is useful.
    fn smaller(self) -> Option<RingSize> {
        (self.0 > 64 << 10).then_some(RingSize(self.0 / 2))
    }
}

/// A ring, and the events that write to it.
#[derive(Debug)]
pub struct OpenRing<'p, F> {
    /// The facts that its next owner needs.
    pub facts: F,
    /// Its events; the first one is the event from which it is mapped.
    pub events: Vec<BorrowedFd<'p>>,
}

impl Perf {
    /// Translates ids of threads if this process is in a container.
    pub fn translate_ids(&mut self) {
        // Only tracepoints have the machine's ids.
        let has_points = self.kinds.values().any(|kind| matches!(kind, Kind::Tracepoint { .. }));
        self.ids = (has_points && !is_first_namespace()).then(ThreadIds::default);
    }

    /// Opens events on all CPUs, into one ring of each CPU: first those of processes and mappings, then others. An event that cannot be opened on the first CPU is an error; a CPU
    /// that is offline is left out.
    pub fn open(
        &mut self,
        wanted: &[Wanted],
        target: Target,
        cpus: &[u16],
        size: RingSize,
    ) -> io::Result<()> {
        let is_side = self.openings.is_empty();
        let opening = Opening { is_side, wanted: wanted.to_vec(), target, size };
        cpus.iter().try_for_each(|cpu| self.open_on(&opening, *cpu))?;
        self.openings.push(opening);
        Ok(())
    }

    /// Events that another process opened are opened on CPUs that come online later, too.
    pub fn adopt_opening(
        &mut self,
        wanted: &[Wanted],
        target: Target,
        size: RingSize,
        is_side: bool,
    ) {
        self.openings.push(Opening { is_side, wanted: wanted.to_vec(), target, size });
    }

    /// Opens and enables the events of all CPUs on a CPU that has come online. Those that it had before it was offline record no more.
    pub fn add_cpu(&mut self, cpu: u16) -> io::Result<()> {
        let first = self.events.len();
        self.ring_changes += 1;
        let openings = std::mem::take(&mut self.openings);
        let opened = openings.iter().try_for_each(|opening| self.open_on(opening, cpu));
        self.openings = openings;
        opened?;
        self.enable(first..)
    }

    /// A CPU has gone offline. What is in its rings stays.
    pub fn remove_cpu(&mut self, cpu: u16) {
        self.ring_changes += 1;
        for one in self.ring_uses.iter_mut().filter(|one| one.place.cpu == cpu) {
            one.place.is_offline = true;
        }
    }

    /// The end of the records of processes and threads on a CPU, and how many of them are lost: they change with the next one. `None`: there
    /// are no such records.
    pub fn end_of_side(&self, cpu: u16) -> Option<(u64, u64)> {
        let is_of_cpu = |place: RingPlace| place.is_side && !place.is_offline;
        let is_own = |one: &RingUse| is_of_cpu(one.place) && one.place.cpu == cpu;
        let at = self.ring_uses.iter().position(is_own)?;
        let event = self.events.get(self.ring_uses[at].events.start)?;
        Some((self.rings[at].head(), event.counts()?.lost))
    }

    /// A number that changes with the rings.
    pub fn ring_changes(&self) -> u64 {
        self.ring_changes
    }

    fn open_on(&mut self, opening: &Opening, cpu: u16) -> io::Result<()> {
        let Opening { is_side, wanted, target, size } = opening;
        let mut leader: Option<usize> = None;
        self.has_stack_bytes |= wanted.iter().any(|one| one.attribute.has_user_state());
        for one in wanted {
            let event = match Event::open(&one.attribute, *target, cpu) {
                Ok(event) => event,
                // The CPU went offline.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
                Err(error) => return Err(error),
            };
            if let Some(condition) = one.filter.condition() {
                let is_set = event.set_filter(&condition);
                if matches!(one.filter, Filter::NotOfIdle { .. }) {
                    is_set?;
                }
            }
            if one.attribute.is_by_program() {
                let program = self.programs.as_ref().and_then(Programs::of_samples);
                event.set_program(program.ok_or(io::ErrorKind::NotFound)?)?;
            }
            match leader {
                Some(leader) => event.redirect(&self.rings[leader])?,
                None => {
                    leader = Some(self.rings.len());
                    self.rings.push(map(&event, *size)?);
                    let place = RingPlace { cpu, is_offline: false, is_side: *is_side };
                    let events = self.events.len()..self.events.len();
                    self.ring_uses.push(RingUse { events, place });
                }
            }
            self.add_stack_size(one);
            self.add_event(event, &one.kind)?;
            if let Some(one) = self.ring_uses.last_mut() {
                one.events.end = self.events.len();
            }
        }
        Ok(())
    }

    /// The next event that is added is this one.
    fn add_stack_size(&mut self, one: &Wanted) {
        if one.has_sizes {
            let size = one.attribute.stack_size();
            self.stack_sizes.push(StackSize { event: self.events.len(), size });
        }
    }

    /// Samples begin with so many bytes of stacks, if there is a choice.
    pub fn begin_with_stack_size(&mut self, size: u32) {
        self.stack_size = size;
        self.largest_stack = self.largest_stack.max(size);
        if let Some(programs) = self.programs.as_ref().filter(|_| self.program_copies_stacks) {
            programs.set_sample_stack(size, self.largest_stack);
        }
    }

    /// Samples have so many bytes of stacks from now on, if there is a choice.
    pub fn choose_stack_size(&mut self, size: u32) -> io::Result<()> {
        let all = || self.stack_sizes.iter().map(|one| (&self.events[one.event], one.size == size));
        for (event, _) in all().filter(|(_, is_chosen)| *is_chosen) {
            event.enable()?;
        }
        all().filter(|(_, is_chosen)| !is_chosen).for_each(|(event, _)| event.disable());
        self.begin_with_stack_size(size);
        Ok(())
    }

    fn add_event(&mut self, event: Event, kind: &Kind) -> io::Result<()> {
        let number = event.id()?;
        self.add_kind(number, kind);
        if kind.is_countable() {
            self.seen.insert(number, 0);
        }
        self.event_kinds.push(kind.clone());
        self.events.push(event);
        Ok(())
    }

    fn add_kind(&mut self, number: u64, kind: &Kind) {
        if let Kind::Exec { .. } | Kind::Arguments = kind {
            self.exec_events.push(number);
        }
        self.has_calls |= matches!(
            kind,
            Kind::Tracepoint { point: Tracepoint::SyscallEnter | Tracepoint::SyscallExit, .. }
        );
        self.kinds.insert(number, kind.clone());
    }

    /// Continues with a ring whose events another process opened and began.
    pub fn adopt(
        &mut self,
        wanted: &[Wanted],
        events: Vec<OwnedFd>,
        size: usize,
        place: RingPlace,
    ) -> io::Result<()> {
        if events.len() != wanted.len() || events.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.has_stack_bytes |= wanted.iter().any(|one| one.attribute.has_user_state());
        let first = self.events.len();
        for (event, one) in events.into_iter().zip(wanted) {
            self.add_stack_size(one);
            self.add_event(Event::from(event), &one.kind)?;
        }
        self.rings.push(Ring::map(self.events[first].raw(), size)?);
        self.adopted_rings = self.rings.len();
        self.ring_uses.push(RingUse { events: first..self.events.len(), place });
        Ok(())
    }

    /// Records tracepoints by programs, as far as the kernel permits programs: those of `wanted` whose records have no call stack, and
    /// others. Events for which there are no programs remain in `wanted`. `calls`: the system calls that are recorded; `None`: all.
    pub fn open_programs(
        &mut self,
        wanted: &mut Vec<Wanted>,
        others: &[Tracepoint],
        calls: Option<&[u64]>,
        size: RingSize,
    ) {
        let is_possible = |one: &&Wanted| one.needs_no_stack();
        let points = wanted.iter().filter(is_possible).filter_map(Wanted::tracepoint);
        let samples = wanted.iter().any(Wanted::is_sample_with_stack);
        let points = points.chain(samples.then_some(Tracepoint::CpuSample));
        let mut points: Vec<Tracepoint> = points.filter(|point| bpf::is_possible(*point)).collect();
        points.extend(others);
        for (all, of_idle, _) in OF_IDLE {
            if wanted.iter().any(|one| one.tracepoint() == Some(all)) && !points.contains(&all) {
                points.push(of_idle);
            }
        }
        if points.is_empty() {
            return;
        }
        if let Ok(programs) = Programs::open(&points, size.0, calls) {
            self.set_programs(programs, wanted);
        }
    }

    /// Continues with programs that another process attached for these tracepoints.
    pub fn adopt_programs(
        &mut self,
        wanted: &mut Vec<Wanted>,
        points: Vec<Tracepoint>,
        descriptors: Vec<OwnedFd>,
        size: usize,
    ) -> io::Result<()> {
        self.set_programs(Programs::adopt(points, descriptors, size)?, wanted);
        Ok(())
    }

    fn set_programs(&mut self, programs: Programs, wanted: &mut Vec<Wanted>) {
        for point in programs.points() {
            let recorded = point.recorded_as();
            self.add_kind(bpf::number_of(recorded), &kind_of_program(recorded));
        }
        for (all, of_idle, field) in OF_IDLE {
            let is_all = |one: &&mut Wanted| one.tracepoint() == Some(all);
            if programs.points().contains(&of_idle) {
                wanted
                    .iter_mut()
                    .filter(is_all)
                    .for_each(|one| one.filter = Filter::NotOfIdle { field });
            }
        }
        if programs.of_samples().is_some() {
            let mut samples = wanted.iter_mut().filter(|one| one.is_sample_with_stack());
            if let Some(first) = samples.next() {
                self.program_copies_stacks = first.attribute.has_user_state();
                self.has_stack_bytes |= self.program_copies_stacks;
                first.attribute = first.attribute.by_program();
                first.has_sizes = false;
            }
            wanted.retain(|one| !one.is_sample_with_stack() || one.attribute.is_by_program());
        }
        let is_programs =
            |one: &Wanted| one.tracepoint().filter(|of| programs.points().contains(of));
        let has_switches = programs.points().contains(&Tracepoint::Switch);
        wanted.retain_mut(|one| match is_programs(one) {
            _ if has_switches && one.kind == Kind::Switches => false,
            Some(point) if bpf::is_counted(point) => {
                *one = (one.attribute.counting(), Kind::Count { point }).into();
                true
            }
            Some(_) => false,
            None => true,
        });
        self.released_losses = programs.known_losses();
        self.programs = Some(programs);
    }

    /// Closes the events; programs stay.
    pub fn close_events(&mut self) {
        let programs = self.programs.take();
        *self = Perf::default();
        if let Some(programs) = programs {
            self.set_programs(programs, &mut Vec::new());
        }
    }

    /// The programs that record tracepoints.
    pub fn programs(&self) -> Option<&Programs> {
        self.programs.as_ref()
    }

    /// The rings, with their sizes, in the order in which they were opened.
    pub fn rings(&self) -> impl Iterator<Item = OpenRing<'_, (usize, RingPlace)>> {
        self.rings.iter().zip(&self.ring_uses).map(|(ring, RingUse { events, place })| {
            let events = self.events[events.clone()].iter().map(AsFd::as_fd).collect();
            OpenRing { facts: (ring.size(), *place), events }
        })
    }

    /// The earliest time of a record that has been read and not released.
    pub fn first_time(&self) -> Option<u64> {
        self.waiting.iter().map(|one| one.time).min()
    }

    /// Begins to record some events, in the order in which they were opened.
    pub fn enable(&self, which: impl RangeBounds<usize>) -> io::Result<()> {
        let is_other = |index: &usize| {
            self.stack_sizes.iter().any(|one| one.event == *index && one.size != self.stack_size)
        };
        let mut wanted = (0..self.events.len()).filter(|index| which.contains(index));
        wanted.try_for_each(|index| match is_other(&index) {
            true => Ok(()),
            false => self.events[index].enable(),
        })
    }

    /// Begins to record the tracepoints of the programs, before the events that count beside them.
    pub fn enable_programs(&self) {
        if let Some(programs) = &self.programs {
            programs.set_recording(true);
            programs.begin_count();
        }
    }

    /// Begins to record the arguments of programs, before the records of processes to which they belong.
    pub fn enable_arguments(&self) {
        if let Some(programs) = &self.programs {
            programs.set_recording_arguments(true);
        }
    }

    /// Ends the recording; what is in the rings stays. Programs end behind the events that count beside them. The records of processes and
    /// threads end last: each thread that is in a record of another kind has its beginning before it.
    pub fn disable(&self) {
        let (others, of_side) = self.in_order_of_end();
        others.for_each(Event::disable);
        if let Some(programs) = &self.programs {
            programs.set_recording(false);
        }
        of_side.for_each(Event::disable);
        if let Some(programs) = &self.programs {
            programs.set_recording_arguments(false);
        }
    }

    /// The events in the order in which they end: those before the programs, and those behind them.
    fn in_order_of_end(&self) -> (impl Iterator<Item = &Event>, impl Iterator<Item = &Event>) {
        let of_kind = |is_side| {
            let uses = self.ring_uses.iter().filter(move |one| one.place.is_side == is_side);
            uses.flat_map(|one| &self.events[one.events.clone()])
        };
        (of_kind(false), of_kind(true))
    }

    /// Bytes that have been read from the rings.
    pub fn read_size(&self) -> u64 {
        let programs = self.programs.as_ref().map_or(0, Programs::read_until);
        self.rings.iter().map(Ring::read_until).fold(programs, u64::wrapping_add)
    }

    /// Whether records of some tracepoints or faults have bytes of programs' stacks: in a burst they fill a ring in a short time.
    pub fn has_bursts(&self) -> bool {
        let is_seldom = |kind: &Kind| matches!(kind, Kind::Side | Kind::Sample { .. });
        self.openings.iter().flat_map(|opening| &opening.wanted).any(|one| {
            one.attribute.has_user_state()
                && !is_seldom(&one.kind)
                && !matches!(one.kind, Kind::Exec { .. })
        })
    }

    /// Bytes that the samples of a CPU can take, on a machine with so many CPUs.
    pub fn room_for_samples(&self, cpus: usize) -> usize {
        let programs = self.programs.as_ref().filter(|all| all.of_samples().is_some());
        match programs {
            Some(programs) => programs.size() / cpus.max(1),
            None => {
                let rings = self.rings().filter(|one| !one.facts.1.is_side);
                rings.map(|one| one.facts.0).min().unwrap_or(usize::MAX)
            }
        }
    }

    /// Whether a program records the samples.
    pub fn has_sample_program(&self) -> bool {
        self.programs.as_ref().is_some_and(|all| all.of_samples().is_some())
    }

    /// Number of open events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Reads what the rings have. The records stay there until [`commit`](Perf::commit). `time`: a moment before the call.
    /// Returns whether no program was writing a record.
    pub fn read(&mut self, time: u64) -> bool {
        let has_call_paths = self.has_call_paths();
        self.last_times.resize(self.rings.len(), 0);
        let Perf {
            rings, ring_uses, programs, waiting, lost, kinds, exec_events, ids, seen, ..
        } = self;
        let mut early = Early {
            kinds,
            exec_events,
            looks_files_up: self.has_calls && !has_call_paths,
            path_calls: &mut self.path_calls,
            ids,
            executed: &mut self.executed,
            begun: &mut self.begun,
            programs_found: &mut self.programs_found,
            changed: &mut self.changed,
            call_paths: &mut self.call_paths,
        };
        let mut linear = Vec::new();
        let known_gaps = self.gaps.len();
        for (ring, one) in rings.iter_mut().enumerate() {
            let start = waiting.len();
            let last_time = &mut self.last_times[ring];
            let gaps = &mut self.gaps;
            let of_ring = record_ring(ring_uses, ring);
            one.read(&mut linear, |position, record| {
                if let Some(common) = common_of(record) {
                    early.look(of_ring, record, common);
                    if let Some(count) = common.number.and_then(|of| seen.get_mut(&of)) {
                        *count += 1;
                    }
                    let time = common.time;
                    if let missing @ 1.. = lost_of(record) {
                        *lost += missing;
                        gaps.push(Gap { from: *last_time, until: time });
                    }
                    *last_time = time;
                    add_in_order(waiting, start, Waiting { time, position, ring });
                }
            });
        }
        let Some(programs) = programs else {
            self.mark_gaps(known_gaps);
            return true;
        };
        let ring = PROGRAMS;
        let last = &mut self.last_program_time;
        let start = waiting.len();
        let exec = Some(bpf::number_of(Tracepoint::Exec));
        let looks_at_all = early.looks_files_up || early.ids.is_some();
        let ReadPrograms { missing, is_whole } = programs.read(|position, record| {
            if let Some(common) = common_of(record) {
                if early.take_path(record, common) {
                    return;
                }
                if looks_at_all || common.number == exec {
                    early.look(RecordRing::OfPrograms, record, common);
                }
                if has_call_paths {
                    early.look_at_call(record);
                }
                let time = common.time;
                add_in_order(waiting, start, Waiting { time, position, ring });
                *last = (*last).max(Some(time));
            }
        });
        if is_whole {
            self.programs_until = time;
        }
        *lost += missing;
        if let (1.., &mut Some(time)) = (missing, last) {
            // The ring was full behind the records that were in it, all of which may have been read before.
            waiting.push(Waiting { time, position: missing, ring: LOSS });
        }
        self.gaps.extend(programs.take_gaps());
        self.mark_gaps(known_gaps);
        is_whole
    }

    /// Changes of descriptors whose records have been read since the last call.
    pub fn take_descriptor_changes(&mut self) -> Vec<DescriptorChange> {
        std::mem::take(&mut self.changed)
    }

    /// The same, without taking them.
    pub fn descriptor_changes(&self) -> &[DescriptorChange] {
        &self.changed
    }

    /// Paths whose records have been read since the last call.
    pub fn take_call_paths(&mut self) -> Vec<CallPath> {
        std::mem::take(&mut self.call_paths)
    }

    /// Whether a program records the paths of system calls.
    pub fn has_call_paths(&self) -> bool {
        self.has_program(Tracepoint::CallPaths)
    }

    /// Whether the flags are recorded with which processes are made.
    pub fn has_clone_flags(&self) -> bool {
        let is_it = |kind: &Kind| {
            matches!(kind, Kind::Tracepoint { point: Tracepoint::NewTask, has_stack: false, .. })
        };
        self.event_kinds.iter().any(is_it)
    }

    /// Whether a program records a tracepoint.
    pub fn has_program(&self, point: Tracepoint) -> bool {
        self.programs.as_ref().is_some_and(|all| all.points().contains(&point))
    }

    /// Processes whose beginnings have been read since the last call.
    pub fn take_begun(&mut self) -> Vec<Begun> {
        std::mem::take(&mut self.begun)
    }

    /// Programs whose records have been read since the last call.
    pub fn take_executed(&mut self) -> Vec<Executed> {
        std::mem::take(&mut self.executed)
    }

    /// Names and arguments of programs whose records have been read since the last call.
    pub fn take_programs_found(&mut self) -> Vec<ProgramFound> {
        std::mem::take(&mut self.programs_found)
    }

    /// Records that were lost since the last call.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}

fn kind_of_program(point: Tracepoint) -> Kind {
    match point {
        Tracepoint::Exec => return Kind::Arguments,
        Tracepoint::CallPaths => return Kind::Paths,
        Tracepoint::CpuSample => return Kind::Sample { has_stack: true },
        _ => {}
    }
    Kind::Tracepoint { point, layout: bpf::layout_of(point), has_stack: false }
}

#[cfg(test)]
pub(crate) mod tests;
