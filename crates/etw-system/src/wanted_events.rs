//! The perf events that a session needs for its classes, and the order in which they are opened.

use std::fmt;
use std::io;

use crate::flags::{Flag, Masks};
use crate::own_rights::{OwnRights, ProcError, Refusal, paranoid};
use crate::pace::Pace;
use crate::perf::{
    Attribute, Event, Filter, Kind, Perf, RingSize, Target, TraceFiles, Tracepoint, Wanted, bpf,
    own_threads,
};
use crate::ring_sizes::{MAIN_RING, NO_RECORDS, OWN_RING, RingSizes, STACK_RING, program_ring};
use crate::shaper::Options;
use crate::system_calls::{FileOperation, SystemCall, numbers};
use crate::system_facts::online_cpus;

/// Bytes of a new program's stack that are recorded: its arguments are there.
const ARGUMENT_BYTES: u32 = 16 << 10;

/// Why a session cannot record events of the system.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The kernel refuses the perf events of processes.
    Refused {
        /// The kernel's answer.
        source: io::Error,
        /// Why.
        refusal: Refusal,
        /// Those of the command that is recorded are refused, too.
        is_own: bool,
    },
    /// `/proc` has not the processes of this PID namespace.
    Proc(ProcError),
    /// The CPUs that are online are not known.
    Cpus,
    /// A class needs a tracepoint.
    Tracepoints {
        /// logman's words for the classes.
        classes: Vec<&'static str>,
        /// The rights that would record them.
        needs: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The rings could not be made.
    Rings(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Refused { refusal: refusal @ Refusal::NoPerf, .. } => refusal.fmt(f),
            StartError::Refused { refusal, is_own: true, .. } => {
                write!(f, "the kernel refuses to record this command: {refusal}")
            }
            StartError::Refused { refusal, .. } => {
                write!(f, "the kernel refuses to record other programs: {refusal}")?;
                match refusal {
                    Refusal::Rights { .. } | Refusal::UserNamespace { .. } => {
                        f.write_str(", or record your own command with -- COMMAND")
                    }
                    _ => Ok(()),
                }
            }
            StartError::Proc(error) => write!(f, "{}; {}", error.reason(), error.remedy()),
            StartError::Cpus => f.write_str(
                "the CPUs that are online are not known: neither /sys/devices/system/cpu/online nor /proc/stat has them; mount /sys or /proc",
            ),
            StartError::Tracepoints { classes, needs, source } => write!(
                f,
                "{}: the kernel's tracepoints cannot be recorded ({source}): they need {needs}; tracefs is readable for root, and for its group if it is mounted with gid=",
                classes.join(", ")
            ),
            StartError::Rings(error) if error.raw_os_error() == Some(libc::EMFILE) => write!(
                f,
                "the host has no descriptors for perf rings ({error}); raise its limit of open files (ulimit -n)"
            ),
            StartError::Rings(error) => write!(
                f,
                "the kernel gives no memory for perf rings ({error}); raise kernel.perf_event_mlock_kb or RLIMIT_MEMLOCK, or give CAP_IPC_LOCK"
            ),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Refused { source, .. } | StartError::Tracepoints { source, .. } => {
                Some(source)
            }
            StartError::Rings(error) => Some(error),
            StartError::Proc(_) | StartError::Cpus => None,
        }
    }
}

/// Tracepoints of a flag, with the hook whose stacks come with the tracepoint.
pub(crate) const TRACEPOINTS: &[(Flag, &[(Tracepoint, u16)])] = &[
    (Flag::SWITCH, &[(Tracepoint::Switch, 0x0524)]),
    (Flag::READY, &[(Tracepoint::Waking, 0x0532), (Tracepoint::NewTaskWakeup, 0x0532)]),
    (Flag::INTERRUPT, &[(Tracepoint::InterruptEntry, 0), (Tracepoint::InterruptExit, 0)]),
    (Flag::DPC, &[(Tracepoint::SoftInterruptEntry, 0), (Tracepoint::SoftInterruptExit, 0)]),
    (Flag::DISK, DISK_POINTS),
    (Flag::DISK_INIT, DISK_POINTS),
    (
        Flag::NETWORK,
        &[
            (Tracepoint::SocketState, 0),
            (Tracepoint::SocketSend, 0),
            (Tracepoint::SocketReceive, 0),
            (Tracepoint::Retransmit, 0),
        ],
    ),
    (Flag::SYSCALL, CALL_POINTS),
    (Flag::VIRTUAL_ALLOC, CALL_POINTS),
    (Flag::MAP_FILE, CALL_POINTS),
    (Flag::FILE_NAME, CALL_POINTS),
    (Flag::FILE_IO, CALL_POINTS),
    (Flag::FILE_IO_INIT, CALL_POINTS),
    (Flag::PRIORITY, &[(Tracepoint::Priority, 0x0530)]),
];
/// Tracepoints that add facts to events of perf. Without them, the events have fewer facts.
pub(crate) const ADDITIONS: &[(Flag, &[Tracepoint])] = &[
    (Flag::HARD_FAULTS, &[Tracepoint::FileFault]),
    (Flag::ALL_FAULTS, &[Tracepoint::PageFault, Tracepoint::FileFault, Tracepoint::FilePages]),
];
/// Whether a kernel without the tracepoint records the same events, with fewer facts: before Linux 6.5, a disk request begins when it is
/// issued.
pub(crate) fn is_optional(point: Tracepoint) -> bool {
    point == Tracepoint::DiskQueue
}

/// The rights by which perf records tracepoints, as far as this process lacks them.
fn perf_needs() -> &'static str {
    let is_readable = TraceFiles::open().and_then(|files| files.tracepoint(Tracepoint::Switch));
    missing_for_perf(OwnRights::read().may_record_tracepoints(paranoid()), is_readable.is_ok())
}

fn missing_for_perf(has_right: bool, is_readable: bool) -> &'static str {
    match (has_right, is_readable) {
        (true, false) => "readable tracefs",
        (false, true) => "CAP_PERFMON",
        // Both are missing, or something else refuses it to a process that has both.
        _ => "CAP_PERFMON and readable tracefs",
    }
}

/// Whether programs record the events of a class as perf's tracepoints do.
fn is_of_programs(flag: Flag) -> bool {
    let class = TRACEPOINTS.iter().find(|(of, _)| *of == flag);
    class.is_some_and(|(_, points)| bpf::is_possible(points[0].0))
}

/// Facts of tracepoints that a recording can lack.
#[derive(Clone, Debug)]
enum Lack {
    /// The events of classes.
    Events(Vec<Flag>),
    /// Facts that perf's records of switches do not have.
    Switches,
    /// Call stacks, and the files and kinds of faults, which programs do not record either.
    OfPerf,
}

impl Lack {
    /// The rights that would record them. `perf`: those by which perf would; `programs`: the condition on which programs of this host could, if
    /// there is one.
    fn needs(&self, perf: &str, programs: Option<&str>) -> String {
        let Some(condition) = programs else { return perf.to_owned() };
        let recorded = match self {
            Lack::Events(flags) => {
                let (some, others): (Vec<Flag>, Vec<Flag>) =
                    flags.iter().partition(|flag| is_of_programs(**flag));
                match (&some[..], &others[..]) {
                    ([], _) => return perf.to_owned(),
                    (_, []) => "them".to_owned(),
                    (some, _) => some.iter().map(|flag| flag.name()).collect::<Vec<_>>().join(", "),
                }
            }
            Lack::Switches => "all of it but call stacks".to_owned(),
            Lack::OfPerf => return perf.to_owned(),
        };
        format!("{perf}; {condition}, BPF programs record {recorded}")
    }
}

/// The rights that would record the events of a class of tracepoints.
pub(crate) fn needs_of(flag: Flag, programs: Option<&str>) -> String {
    match flag {
        Flag::SWITCH => Lack::Switches,
        flag => Lack::Events(vec![flag]),
    }
    .needs(perf_needs(), programs)
}

/// The first one is needed in any case.
const DISK_POINTS: &[(Tracepoint, u16)] = &[
    (Tracepoint::DiskIssue, 0x010c),
    (Tracepoint::DiskQueue, 0x010c),
    (Tracepoint::DiskRequeue, 0),
    (Tracepoint::DiskComplete, 0),
];
const CALL_POINTS: &[(Tracepoint, u16)] =
    &[(Tracepoint::SyscallEnter, 0x0f33), (Tracepoint::SyscallExit, 0x0f34)];
/// Tracepoints that have the call stacks of events without one, by the hooks of those.
const STACK_POINTS: &[(Flag, u16, &[Tracepoint])] = &[
    (Flag::PROCESS, 0x0301, &[Tracepoint::NewTask]),
    (Flag::THREAD, 0x0501, &[Tracepoint::NewTask]),
    (Flag::PROCESS, 0x0302, &[Tracepoint::TaskExit]),
    (Flag::THREAD, 0x0502, &[Tracepoint::TaskExit]),
    (Flag::IMAGE, 0x1402, &[Tracepoint::TaskExit]),
    (Flag::IMAGE, IMAGE_LOAD, &[Tracepoint::SyscallEnter, Tracepoint::SyscallExit]),
];
const IMAGE_LOAD: u16 = 0x030a;
/// Events with call stacks that the beginning or the return of a system call gives.
const ENTRY_STACKS: &[u16] =
    &[0x0f33, 0x0440, 0x0442, 0x0443, 0x0444, 0x0446, 0x0447, 0x0449, IMAGE_LOAD];
const EXIT_STACKS: &[u16] = &[0x0f34, 0x0262, 0x0263, 0x0425, 0x0426];

/// Records of processes and mappings; of the machine, with the arguments of programs and the flags of `clone`, as far as the kernel permits it. If a program of
/// `perf` records the arguments, these are not copied a second time: the ring would hold some 250 programs that begin.
pub(crate) fn side_events_of(target: Target, options: &Options, perf: &Perf) -> Vec<Wanted> {
    let mut wanted: Vec<Wanted> = vec![(Attribute::side(), Kind::Side).into()];
    if target == Target::Machine && options.masks.has(Flag::PROCESS) {
        let exec = TraceFiles::open().and_then(|files| files.tracepoint(Tracepoint::Exec));
        if let Ok((id, layout)) = exec {
            let attribute = Attribute::tracepoint(id);
            let attribute = match perf.has_program(Tracepoint::Exec) {
                true => attribute,
                false => attribute.with_stack_bytes(ARGUMENT_BYTES),
            };
            wanted.push((attribute, Kind::Exec { layout }).into());
        }
    }
    if target == Target::Machine
        && (options.masks.has(Flag::IMAGE) || has_descriptors(&options.masks))
    {
        let point = Tracepoint::NewTask;
        if let Ok((id, layout)) = TraceFiles::open().and_then(|files| files.tracepoint(point)) {
            let kind = Kind::Tracepoint { point, layout, has_stack: false };
            let one = Wanted::from((Attribute::tracepoint(id), kind));
            wanted.push(Wanted { filter: Filter::UnusualClones, ..one });
        }
    }
    wanted
}

/// Opens the records of processes and mappings. Returns whose events this process may record: those of `process` and its children, if the
/// kernel refuses those of the machine.
pub(crate) fn open_side(
    perf: &mut Perf,
    options: &Options,
    process: Option<u32>,
    cpus: &[u16],
    notes: &mut Vec<String>,
) -> Result<Target, StartError> {
    let wanted = |attribute| [(attribute, Kind::Side).into()];
    let with_programs = side_events_of(Target::Machine, options, perf);
    let size = RingSizes::of(cpus.len()).side();
    if perf.open(&with_programs, Target::Machine, cpus, size).is_ok() {
        return Ok(Target::Machine);
    }
    // Perhaps tracepoints are refused.
    perf.close_events();
    let opened = perf.open(&wanted(Attribute::side()), Target::Machine, cpus, size);
    let Err(error) = opened else { return Ok(Target::Machine) };
    if !is_refusal(&error) {
        return Err(StartError::Rings(error));
    }
    let refusal = Refusal::of(&error);
    let Some(process) = process else {
        return Err(StartError::Refused { source: error, refusal, is_own: false });
    };
    *perf = Perf::default();
    let target = Target::Tree(process);
    let attribute = Attribute::side().without_kernel();
    perf.open(&wanted(attribute), target, cpus, size).map_err(|error| match error.kind() {
        io::ErrorKind::OutOfMemory => StartError::Rings(error),
        _ => StartError::Refused { source: error, refusal, is_own: true },
    })?;
    notes.push(match refusal {
        Refusal::Rights { .. } => "only this command and its children are recorded: the whole machine needs root, CAP_PERFMON or kernel.perf_event_paranoid at most 0".to_owned(),
        refusal => format!("only this command and its children are recorded: {refusal}"),
    });
    Ok(target)
}

/// Whether the kernel refused to open an event, for lack of rights or of the system call. Rings for which it has no memory have other errors.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::ENOSYS))
}

/// Opens the events of the machine that come often.
pub(crate) fn open_machine(
    perf: &mut Perf,
    options: &Options,
    mut events: MachineEvents,
    (cpus, has_command): (&[u16], bool),
    notes: &mut Vec<String>,
) -> Result<(), StartError> {
    let has_stacks = events.wanted.iter().any(|one| one.attribute.has_user_state());
    let bounds = if has_stacks { &STACK_RING } else { &MAIN_RING };
    let sizes = RingSizes::of(cpus.len());
    let (size, usual) = (sizes.main(bounds), sizes.without_limit(bounds));
    events.note_missing(options, perf, has_command, notes)?;
    let wanted = &events.wanted[..];
    let has_records = wanted.iter().any(Wanted::has_records);
    let first = perf.rings().count();
    perf.open(wanted, Target::Machine, cpus, if has_records { size } else { NO_RECORDS })
        .map_err(StartError::Rings)?;
    let smallest = perf.rings().skip(first).map(|ring| ring.facts.0).min();
    if let Some(smallest) = smallest.filter(|smallest| has_records && *smallest < usual.0) {
        notes.push(format!(
            "rings of {} KiB a CPU, because kernel.perf_event_mlock_kb and RLIMIT_MEMLOCK permit no larger ones: a busy machine fills them, and what is lost is counted; CAP_IPC_LOCK gives {} KiB",
            smallest >> 10,
            usual.0 >> 10
        ));
    }
    Ok(())
}

/// Opens the events of one process and its children that come often. If the kernel may not be recorded, what happens in it is left out. Returns
/// whether it is recorded.
pub(crate) fn open_own(
    perf: &mut Perf,
    mut wanted: Vec<Wanted>,
    target: Target,
    cpus: &[u16],
    notes: &mut Vec<String>,
) -> Result<bool, StartError> {
    let is_refused = |one: &Wanted| Event::open(&one.attribute, target, cpus[0]).is_err();
    let has_kernel = !wanted.first().is_some_and(is_refused);
    if !has_kernel {
        let note = "what happens in the kernel is left out, its CPU time, too: it needs kernel.perf_event_paranoid at most 1, or CAP_PERFMON";
        notes.push(note.to_owned());
        // Threads leave their CPUs in the kernel.
        wanted.retain(|one| one.kind != Kind::Leaving);
        for one in &mut wanted {
            one.attribute = one.attribute.without_kernel();
        }
    }
    let size = RingSizes::of(cpus.len()).main(&OWN_RING);
    perf.open(&wanted, target, cpus, size).map_err(StartError::Rings)?;
    Ok(has_kernel)
}

/// Bytes of stacks that are copied with each sample of the machine. With perf, each size has an event of its own, of which one records.
const STACK_SIZES: [u32; 6] = [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];
/// The smallest of them that a program copies: it copies as little as is needed of stacks whose base is known, and others are few.
const PROGRAM_SMALLEST: usize = 2;
/// The largest of them for one command, for which there is no choice while it is recorded.
const OWN_LARGEST: usize = 4;

/// Those sizes for a target and a time between two samples: the rings have room for the samples of some pauses. `by_program`: a program
/// copies them.
pub(crate) fn stack_sizes(target: Target, options: &Options, by_program: bool) -> &'static [u32] {
    let first = if by_program { PROGRAM_SMALLEST } else { 0 };
    match (target, options.sample_interval) {
        (Target::Tree(_), _) => own_stacks(options).of_sample,
        (_, 10_000..) => &STACK_SIZES[first..],
        (_, 2_500..) => &STACK_SIZES[first..5],
        _ => &STACK_SIZES[first..4],
    }
}

/// The stacks of one command and its children: the rings of users who may lock little memory are small.
fn own_stacks(options: &Options) -> CopiedStack {
    own_stacks_in(RingSizes::of(online_cpus().len()).main(&OWN_RING), options.samples_per_second())
}

/// The largest size of a sample's stack for which the ring has room twice. A hundred switches have room, too.
fn own_stacks_in(ring: RingSize, samples_per_second: u64) -> CopiedStack {
    let half = ring.0 as u64 / 2;
    let fits = |size: &u32| Pace::suffices(half, samples_per_second * u64::from(*size));
    let largest = STACK_SIZES[..=OWN_LARGEST].iter().rposition(fits).unwrap_or(0);
    let of_other = (ring.0 / 128).clamp(2 << 10, 8 << 10) as u32;
    CopiedStack { of_sample: &STACK_SIZES[largest..=largest], of_other }
}

/// Bytes of a program's stack that are copied with each sample, and with other events that have a call stack.
#[derive(Clone, Copy, Debug)]
struct CopiedStack {
    /// One of these.
    of_sample: &'static [u32],
    /// They may come a hundred times as often.
    of_other: u32,
}

fn copied_stack(target: Target, options: &Options) -> CopiedStack {
    let is_wanted = std::env::var_os("ETW_SYSTEM_UNWIND").is_none_or(|value| value != "0");
    if !is_wanted || cfg!(not(feature = "unwind")) {
        return CopiedStack { of_sample: &[0], of_other: 0 };
    }
    CopiedStack { of_sample: stack_sizes(target, options, false), of_other: 3 << 10 }
}

/// Samples and faults, which need no tracepoints.
fn plain_events(options: &Options, target: Target) -> Vec<Wanted> {
    let copied = copied_stack(target, options);
    let mut wanted = Vec::new();
    if options.masks.has(Flag::PROFILE) {
        let distance = u64::from(options.sample_interval) * 100;
        let has_stack = options.has_stack(0x0f2e);
        let attribute = Attribute::samples(distance).with_stack(has_stack);
        // Without stacks, nothing is copied.
        let sizes = if has_stack { copied.of_sample } else { &[0] };
        for size in sizes {
            let one = Wanted::from((attribute.with_user_state(*size), Kind::Sample { has_stack }));
            wanted.push(Wanted { has_sizes: sizes.len() > 1, ..one });
        }
    }
    for (flag, is_hard, hook) in
        [(Flag::HARD_FAULTS, true, 0x0220), (Flag::ALL_FAULTS, false, 0x020b)]
    {
        if options.masks.has(flag) {
            let hooks: &[u16] = if is_hard { &[hook] } else { &[hook, 0x020a, 0x020c] };
            let has_stack = hooks.iter().any(|hook| options.has_stack(*hook));
            let attribute =
                Attribute::faults(is_hard).with_stack(has_stack).with_user_state(copied.of_other);
            wanted.push((attribute, Kind::Fault { is_hard, has_stack }).into());
        }
    }
    wanted
}

/// The kernel's descriptions of its tracepoints, if this process may read them and record the tracepoints.
fn permitted_tracepoints() -> io::Result<TraceFiles> {
    let files = TraceFiles::open()?;
    let (id, _) = files.tracepoint(Tracepoint::Switch)?;
    let cpu = online_cpus().first().copied().unwrap_or(0);
    Event::open(&Attribute::tracepoint(id), Target::Machine, cpu)?;
    Ok(files)
}

/// The events of the whole machine that a session wants.
#[derive(Debug)]
pub(crate) struct MachineEvents {
    /// The perf events.
    pub wanted: Vec<Wanted>,
    /// Why perf cannot record tracepoints.
    refused: Option<io::Error>,
    /// Tracepoints that programs alone can record, as perf cannot.
    only_programs: Vec<Tracepoint>,
    /// The system calls that are recorded; `None`: all.
    calls: Option<Vec<u64>>,
}

impl MachineEvents {
    /// Events that need no programs.
    pub fn of_perf(wanted: Vec<Wanted>) -> MachineEvents {
        MachineEvents { wanted, refused: None, only_programs: Vec::new(), calls: None }
    }

    /// The programs are open: says what neither they nor perf record.
    ///
    /// # Errors
    /// Nothing that the session wants can be recorded.
    pub fn note_missing(
        &mut self,
        options: &Options,
        perf: &Perf,
        has_command: bool,
        notes: &mut Vec<String>,
    ) -> Result<(), StartError> {
        let Some(source) = self.refused.take() else { return Ok(()) };
        let recorded = perf.programs().map_or(&[][..], |programs| programs.points());
        let classes = || TRACEPOINTS.iter().filter(|(flag, _)| options.masks.has(*flag));
        let of_programs = |points: &[(Tracepoint, u16)]| recorded.contains(&points[0].0);
        let programs = match recorded {
            [] => bpf::unmet_condition(),
            _ => None,
        };
        let programs = programs.as_deref();
        let has_none = self.wanted.is_empty() && !options.has_lives() && classes().next().is_some();
        // Processes and images of a command are recorded in any case.
        if has_none && !has_command && !classes().any(|(_, points)| of_programs(points)) {
            let flags: Vec<Flag> = classes().map(|(flag, _)| *flag).collect();
            let classes = flags.iter().map(|flag| flag.name()).collect();
            let needs = Lack::Events(flags).needs(perf_needs(), programs);
            return Err(StartError::Tracepoints { classes, needs, source });
        }
        let perf = perf_needs();
        for (what, lack) in missing_facts(options, recorded) {
            notes.push(format!(
                "{what}, because the kernel's tracepoints cannot be recorded ({source}): they need {}",
                lack.needs(perf, programs)
            ));
        }
        Ok(())
    }

    /// Records tracepoints by programs, as far as the kernel permits programs, and nothing if it refuses events of the machine.
    pub fn open_programs(&mut self, perf: &mut Perf, options: &Options, cpus: &[u16]) {
        let is_permitted = Event::open(&Attribute::side(), Target::Machine, cpus[0]).is_ok();
        if !bpf::is_wanted() || !is_permitted {
            return;
        }
        // Without programs, perf records the same tracepoints, if it can.
        let has_samples = self.wanted.iter().any(Wanted::is_sample_with_stack);
        let size = program_ring(cpus.len(), has_samples);
        let mut others = self.only_programs.clone();
        if options.masks.has(Flag::PROCESS) {
            // The arguments of programs, and their exit statuses.
            others.extend([Tracepoint::Exec, Tracepoint::ExitStatus]);
        }
        if has_descriptors(&options.masks) {
            others.push(Tracepoint::CallPaths);
        }
        perf.open_programs(&mut self.wanted, &others, self.calls.as_deref(), size);
    }
}

/// The facts that a recording without perf's tracepoints lacks. `recorded`: the tracepoints that programs record.
fn missing_facts(options: &Options, recorded: &[Tracepoint]) -> Vec<(String, Lack)> {
    let has_stacks = |points: &[(Tracepoint, u16)]| {
        points.iter().any(|(point, hook)| has_stack(options, *point, *hook))
    };
    let (mut absent, mut plain_switches, mut without_stacks) = (vec![], vec![], vec![]);
    for (flag, points) in TRACEPOINTS.iter().filter(|(flag, _)| options.masks.has(*flag)) {
        match recorded.contains(&points[0].0) {
            true if has_stacks(points) => without_stacks.push(flag.name()),
            true => {}
            false if *flag == Flag::SWITCH => plain_switches.push(flag.name()),
            false => absent.push(*flag),
        }
    }
    let additions = ADDITIONS.iter().filter(|(flag, _)| options.masks.has(*flag));
    let additions: Vec<&str> = additions.map(|(flag, _)| flag.name()).collect();
    let of_lives = stack_points(options).next().map(|_| "starts, ends and images");
    let names = absent.iter().map(|flag| flag.name()).collect();
    let all: [(Vec<&str>, &str, Lack); 5] = [
        (names, "left out", Lack::Events(absent)),
        (plain_switches, "without priorities, wait reasons and call stacks", Lack::Switches),
        (without_stacks, "without call stacks", Lack::OfPerf),
        (of_lives.into_iter().collect(), "without call stacks", Lack::OfPerf),
        (additions, "without the files and kinds of faults", Lack::OfPerf),
    ];
    let missing = all.into_iter().filter(|(subjects, ..)| !subjects.is_empty());
    missing
        .map(|(subjects, what, lack)| (format!("{}: {what}", subjects.join(", ")), lack))
        .collect()
}

/// The machine's events, without tracepoints of perf.
fn without_tracepoints(
    mut wanted: Vec<Wanted>,
    options: &Options,
    points: impl Iterator<Item = Tracepoint>,
    source: io::Error,
) -> MachineEvents {
    if options.masks.has(Flag::SWITCH) {
        // A program that records switches takes its place.
        wanted.push((Attribute::switches(), Kind::Switches).into());
    }
    let mut only_programs = Vec::new();
    for point in points.filter(|point| bpf::is_possible(*point)) {
        if !only_programs.contains(&point) {
            only_programs.push(point);
        }
    }
    let calls = wanted_calls(options);
    MachineEvents { wanted, refused: Some(source), only_programs, calls }
}

/// Whether records of a tracepoint have a call stack. `hook`: the event that it becomes.
fn has_stack(options: &Options, point: Tracepoint, hook: u16) -> bool {
    let has_any = |hooks: &[u16]| hooks.iter().any(|hook| options.has_stack(*hook));
    match point {
        Tracepoint::DiskQueue | Tracepoint::DiskIssue => has_any(&[0x010c, 0x010d, 0x010f]),
        Tracepoint::SyscallEnter => has_any(ENTRY_STACKS),
        Tracepoint::SyscallExit => has_any(EXIT_STACKS),
        Tracepoint::NewTask | Tracepoint::TaskExit => true,
        _ => options.has_stack(hook),
    }
}

pub(crate) fn machine_events(options: &Options) -> MachineEvents {
    let mut wanted = plain_events(options, Target::Machine);
    let classes = TRACEPOINTS.iter().filter(|(flag, _)| options.masks.has(*flag));
    let points: Vec<(Tracepoint, u16)> = classes.flat_map(|(_, points)| *points).copied().collect();
    let additions = ADDITIONS.iter().filter(|(flag, _)| options.masks.has(*flag));
    let additions: Vec<Tracepoint> = additions.flat_map(|(_, points)| *points).copied().collect();
    let of_stacks: Vec<Tracepoint> = stack_points(options).collect();
    if points.is_empty() && additions.is_empty() && of_stacks.is_empty() {
        return MachineEvents::of_perf(wanted);
    }
    let files = match permitted_tracepoints() {
        Ok(files) => files,
        Err(source) => {
            let points = points.iter().map(|(point, _)| *point);
            return without_tracepoints(wanted, options, points, source);
        }
    };
    let calls = wanted_calls(options);
    let copied = copied_stack(Target::Machine, options);
    let own = own_threads();
    let mut seen = Vec::new();
    let others = additions.iter().chain(&of_stacks).map(|point| (*point, 0));
    for (point, hook) in points.iter().copied().chain(others) {
        if seen.contains(&point) {
            continue;
        }
        seen.push(point);
        // Older kernels have fewer tracepoints.
        let Ok((id, layout)) = files.tracepoint(point) else { continue };
        let has_stack = has_stack(options, point, hook);
        let is_call = matches!(point, Tracepoint::SyscallEnter | Tracepoint::SyscallExit);
        wanted.push(Wanted {
            attribute: Attribute::tracepoint(id)
                .with_stack(has_stack)
                .with_user_state(copied.of_other),
            kind: Kind::Tracepoint { point, layout, has_stack },
            filter: match is_call {
                true => Filter::Calls { numbers: calls.clone(), without: own.clone() },
                false => Filter::All,
            },
            has_sizes: false,
        });
    }
    MachineEvents { calls, ..MachineEvents::of_perf(wanted) }
}

/// The tracepoints that have the call stacks of other events.
fn stack_points(options: &Options) -> impl Iterator<Item = Tracepoint> {
    let is_wanted = |(flag, hook, _): &&(Flag, u16, &'static [Tracepoint])| {
        options.masks.has(*flag) && options.has_stack(*hook)
    };
    STACK_POINTS.iter().filter(is_wanted).flat_map(|(.., points)| *points).copied()
}

/// Whether a class has files by their descriptors; files in memory are known by theirs.
pub(crate) fn has_descriptors(masks: &Masks) -> bool {
    let flags = [Flag::FILE_NAME, Flag::FILE_IO, Flag::FILE_IO_INIT, Flag::MAP_FILE];
    flags.iter().any(|flag| masks.has(*flag))
}

/// The system calls that the classes need; `None`: all of them.
fn wanted_calls(options: &Options) -> Option<Vec<u64>> {
    let has = |flag| options.masks.has(flag);
    if has(Flag::SYSCALL) {
        return None;
    }
    let has_operations = has(Flag::FILE_IO) || has(Flag::FILE_IO_INIT);
    let has_descriptors = has_descriptors(&options.masks);
    let has_memory = has(Flag::VIRTUAL_ALLOC) || has(Flag::MAP_FILE);
    let has_images = stack_points(options).any(|point| point == Tracepoint::SyscallEnter);
    use FileOperation::{Close, Control, Open};
    let wanted = numbers(|call| match call {
        SystemCall::Map if has_images => true,
        // Where calls are recorded anyway, libraries have their ends.
        SystemCall::Unmap if has(Flag::IMAGE) => true,
        SystemCall::File(Open | Close | Control, _) => has_descriptors,
        SystemCall::Duplicate
        | SystemCall::Replace
        | SystemCall::ControlDescriptor
        | SystemCall::CloseRange
        | SystemCall::Clone
        | SystemCall::Unshare => has_descriptors,
        SystemCall::File(FileOperation::Delete | FileOperation::Rename, _) => has_descriptors,
        SystemCall::File(..) | SystemCall::Copy { .. } => has_operations,
        SystemCall::Seek | SystemCall::Submit => has_operations,
        _ if call.is_about_folders() => has_descriptors,
        call => has_memory && call.is_memory(),
    });
    Some(wanted)
}

pub(crate) fn own_events(
    options: &Options,
    target: Target,
    notes: &mut Vec<String>,
) -> Vec<Wanted> {
    let mut wanted = plain_events(options, target);
    let has_stacks = options.has_stack(0x0524) && paranoid().is_some_and(|level| level <= 1);
    if options.masks.has(Flag::SWITCH) {
        wanted.push((Attribute::switches(), Kind::Switches).into());
        if has_stacks {
            let attribute = Attribute::leaving().with_user_state(own_stacks(options).of_other);
            wanted.push((attribute, Kind::Leaving).into());
        }
    }
    let has = |flag: &Flag| options.masks.has(*flag);
    let (perf, programs) = (perf_needs(), bpf::unmet_condition());
    let mut note = |what: String, lack: Lack| {
        let needs = lack.needs(perf, programs.as_deref());
        notes.push(format!("{what}, because tracepoints need {needs}"));
    };
    if stack_points(options).next().is_some() {
        note("call stacks of starts, ends and images are left out".to_owned(), Lack::OfPerf);
    }
    if has(&Flag::SWITCH) {
        let is_short = options.has_stack(0x0524) && !has_stacks;
        let stacks = if is_short { ", and call stacks" } else { "" };
        let what = "without the other thread, priorities, wait reasons";
        note(format!("{}: {what}{stacks}", Flag::SWITCH.name()), Lack::Switches);
    }
    let names =
        |flags: &[Flag]| flags.iter().map(|flag| flag.name()).collect::<Vec<_>>().join(", ");
    let faults: Vec<Flag> = ADDITIONS.iter().map(|(flag, _)| *flag).filter(has).collect();
    if !faults.is_empty() {
        let what = format!("{}: without the files and kinds of faults", names(&faults));
        note(what, Lack::OfPerf);
    }
    let missing = TRACEPOINTS.iter().map(|(flag, _)| *flag);
    let missing: Vec<Flag> = missing.filter(|flag| *flag != Flag::SWITCH && has(flag)).collect();
    if !missing.is_empty() {
        note(format!("{}: left out", names(&missing)), Lack::Events(missing));
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_without_descriptors_need_no_memory() {
        let text = |code| StartError::Rings(io::Error::from_raw_os_error(code)).to_string();
        assert!(text(libc::EMFILE).contains("ulimit -n"), "{}", text(libc::EMFILE));
        assert!(text(libc::EPERM).contains("perf_event_mlock_kb"), "{}", text(libc::EPERM));
    }

    /// Regression: a set with classes that need no tracepoints was refused for those that do.
    #[test]
    fn without_tracepoints_the_rest_of_a_set_is_recorded() {
        let started = |words: &str, adds_lives: bool, wanted: Vec<Wanted>| {
            let masks = Masks::parse(words).unwrap().masks;
            let options = Options { masks, adds_lives, ..Options::default() };
            let refused = Some(io::Error::from_raw_os_error(libc::EACCES));
            let mut events = MachineEvents { refused, ..MachineEvents::of_perf(wanted) };
            let mut notes = Vec::new();
            let noted = events.note_missing(&options, &Perf::default(), false, &mut notes);
            noted.map(|()| notes)
        };
        for words in ["process,disk", "PROC_THREAD+DISK_IO", "proccntr,net"] {
            let notes = started(words, false, Vec::new()).unwrap();
            assert!(notes[0].contains(": left out, because the kernel's tracepoints"), "{notes:?}");
        }
        let faults = vec![(Attribute::faults(true), Kind::Switches).into()];
        assert!(started("process,hf,disk", true, faults).is_ok());
        for (words, adds_lives) in [("disk", false), ("process,thread,img,disk", true)] {
            let error = started(words, adds_lives, Vec::new()).unwrap_err();
            assert!(error.to_string().starts_with("disk: the kernel's tracepoints"), "{error}");
        }
    }

    /// Regression: a note on page faults, priorities and call stacks said that programs record most of them.
    #[test]
    fn each_remedy_holds_for_its_class() {
        const CONDITION: &str = "with CAP_PERFMON and CAP_BPF";
        const PERF: &str = "CAP_PERFMON";
        let all = |recorded: &[Tracepoint], words: &str, stacks: &[u16]| -> Vec<String> {
            let masks = Masks::parse_any(words).unwrap().masks;
            let options = Options { masks, stacks: stacks.to_vec(), ..Options::default() };
            let missing = missing_facts(&options, recorded).into_iter();
            let sentence = |(what, lack): (String, Lack)| {
                assert_eq!(lack.needs(PERF, None), PERF, "{what}");
                let needs = lack.needs(PERF, Some(CONDITION));
                let by_programs = needs.strip_prefix(PERF).unwrap();
                format!("{what}{}", by_programs.replace(CONDITION, "so"))
            };
            missing.map(sentence).collect()
        };
        let them = |class: &str| format!("{class}: left out; so, BPF programs record them");
        for class in [
            "dispatcher",
            "isr",
            "dpc",
            "disk",
            "diskinit",
            "net",
            "syscall",
            "virtalloc",
            "vamap",
            "file",
            "fileio",
            "fileiocompletion",
        ] {
            assert_eq!(all(&[], class, &[]), [them(class)]);
        }
        let lives = "PROC_THREAD+LOADER";
        let switches = "cswitch: without priorities, wait reasons and call stacks; so, BPF programs record all of it but call stacks";
        for (words, stacks, expected) in [
            ("PRIORITY", &[][..], &["PRIORITY: left out"][..]),
            ("cswitch", &[0x0524], &[switches]),
            ("hf", &[], &["hf: without the files and kinds of faults"]),
            ("pf", &[0x020b], &["pf: without the files and kinds of faults"]),
            (lives, &[0x0301], &["starts, ends and images: without call stacks"]),
            (lives, &[], &[]),
            ("profile", &[0x0f2e], &[]),
            (
                "net,PRIORITY,hf",
                &[],
                &[
                    "net, PRIORITY: left out; so, BPF programs record net",
                    "hf: without the files and kinds of faults",
                ],
            ),
        ] {
            assert_eq!(all(&[], words, stacks), expected, "{words}");
        }
        // Programs record already.
        let recorded = [Tracepoint::Switch, Tracepoint::Waking];
        let got = all(&recorded, "cswitch,dispatcher", &[0x0524, 0x0532]);
        assert_eq!(got, ["cswitch, dispatcher: without call stacks"]);
    }

    /// Regression: where everybody may record tracepoints, the note asked for a right beside readable files.
    #[test]
    fn only_missing_rights_are_asked_for() {
        let rights = |capabilities: u64| {
            let status = format!("CapEff:\t{capabilities:016x}\n");
            OwnRights::of(&status, "0 0 4294967295\n")
        };
        let (none, perfmon) = (rights(0), rights(1 << 38));
        let both = "CAP_PERFMON and readable tracefs";
        for (rights, paranoid, is_readable, expected) in [
            (&none, Some(-1), false, "readable tracefs"),
            (&none, Some(0), false, both),
            (&none, None, false, both),
            (&none, Some(0), true, "CAP_PERFMON"),
            (&perfmon, Some(2), false, "readable tracefs"),
            (&perfmon, Some(2), true, both),
        ] {
            let missing = missing_for_perf(rights.may_record_tracepoints(paranoid), is_readable);
            assert_eq!(missing, expected, "{rights:?} {paranoid:?} {is_readable}");
        }
    }

    /// OV-23: larger rings have more of each stack, and none is full before it is read.
    #[test]
    fn stacks_of_a_command_fit_into_its_rings() {
        for (ring, rate, sample, other) in [
            (256, 1_000, 4, 2),
            (256, 4_000, 1, 2),
            (512, 1_000, 8, 4),
            (512, 10_000, 1, 4),
            (2048, 1_000, 16, 8),
            (2048, 4_000, 8, 8),
            (2048, 10_000, 4, 8),
            (4096, 10_000, 8, 8),
        ] {
            let stacks = own_stacks_in(RingSize(ring << 10), rate);
            assert_eq!((stacks.of_sample, stacks.of_other), (&[sample << 10][..], other << 10));
            let flow = rate * u64::from(sample << 10);
            assert!(Pace::suffices((ring << 10) as u64, flow), "{ring} {rate}");
        }
    }
}
