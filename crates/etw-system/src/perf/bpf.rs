//! Programs of ours in the kernel (BPF), which record frequent tracepoints at a fraction of perf's cost.
//!
//! They are assembled from the kernel's description of its types; no compiler is needed. Their records have the form of perf's samples;
//! those of switches and wake-ups have the kernel's own numbers and are read by [`frequent`]. A kernel or a user that does not permit
//! programs records the same tracepoints by perf.

mod assembler;
mod btf;
mod calls;
mod destinations;
mod devices;
mod ids;
mod paths;
mod points;
mod program;
mod ring;
mod samples;
mod shown_ids;
mod stack_bases;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use etw_types::le;

use super::Tracepoint;
use super::attribute::{Attribute, Event, Target};
use super::gaps::{Gap, Room};
use super::sample;
use crate::own_rights::OwnRights;
use crate::system_calls::{FileOperation, PathArgument, SystemCall};
use crate::system_facts::{online_cpus, possible_cpus};
use crate::thread_ids::is_first_namespace;
use assembler::{Maps, WORDS};
use btf::Btf;
use ids::Namespace;
pub(crate) use paths::CallPath;
use points::{
    ARGUMENTS_GATE, CALLS, GATE, LARGEST_SAMPLE_STACK, MAX_CALLS, OWN, PATHS, POINTS, REPORTED,
    SAMPLE_STACK, SHARED_SIZE, lost_word, runs_word,
};
pub(super) use program::{frequent, idle_wake, layout_of, number_of, switch};
use ring::{ProgramRing, SharedWords};
#[cfg(feature = "unwind")]
pub(crate) use stack_bases::StackBases;

/// Programs that are attached, with their ring.
#[derive(Debug)]
pub(crate) struct Programs {
    ring: ProgramRing,
    shared: SharedWords,
    points: Vec<Tracepoint>,
    /// The ring's map, the map of the shared words, a link for each tracepoint, which attaches its program, and the programs.
    descriptors: Vec<OwnedFd>,
    /// Records that were lost before the last look.
    known_losses: u64,
    room: Room,
}

/// A look at the ring of the programs, beside the records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadPrograms {
    /// Records for which the ring was full since the last look.
    pub missing: u64,
    /// No record was being written: all that are earlier than the look have been read, as a program takes the time of a record when it has
    /// its place.
    pub is_whole: bool,
}

impl Programs {
    /// Loads a program for each of these tracepoints for which the kernel permits one, and attaches it. Nothing is recorded yet. `size`:
    /// bytes of the ring, a power of two of at least a page. `calls`: the system calls that are recorded; `None`: all.
    ///
    /// # Errors
    /// The kernel permits none: missing rights, or a kernel that lacks something.
    pub fn open(points: &[Tracepoint], size: usize, calls: Option<&[u64]>) -> io::Result<Programs> {
        let unsupported = || io::Error::from(io::ErrorKind::Unsupported);
        let btf = read_btf()?;
        let namespace = own_namespace(&btf)?;
        let ring = calls::create_ring(u32::try_from(size).map_err(|_| unsupported())?)?;
        let shared = calls::create_shared(SHARED_SIZE)?;
        // The program that uses it keeps it.
        let scratch = calls::create_scratch(paths::SCRATCH_SIZE)?;
        // Without it, the kernel permits the other programs.
        let samples = points
            .contains(&Tracepoint::CpuSample)
            .then(|| calls::create_memory(samples::memory_size(), possible_cpus().into()).ok());
        let samples = samples.flatten();
        let maps = Maps {
            ring: ring.as_raw_fd(),
            shared: shared.as_raw_fd(),
            scratch: scratch.as_raw_fd(),
            samples: samples.as_ref().map_or(-1, OwnedFd::as_raw_fd),
            with_paths: false,
        };
        let mut descriptors = vec![ring, shared];
        let (mut attached, mut loaded) = (Vec::new(), Vec::new());
        let mut refused = unsupported();
        let mut attach = |point: Tracepoint, maps| -> io::Result<bool> {
            for (instructions, handler) in program::assemble(&btf, point, maps, namespace) {
                match load_and_attach(point, &instructions, handler) {
                    Ok((link, program)) => {
                        if maps.with_paths {
                            descriptors.push(link.try_clone()?);
                            loaded.push(program.try_clone()?);
                            attached.push(Tracepoint::CallPaths);
                        }
                        descriptors.push(link);
                        loaded.push(program);
                        attached.push(point);
                        return Ok(true);
                    }
                    Err(error) => refused = error,
                }
            }
            Ok(false)
        };
        let both = [Tracepoint::SyscallExit, Tracepoint::CallPaths];
        let is_joint = both.iter().all(|point| points.contains(point))
            && attach(Tracepoint::SyscallExit, Maps { with_paths: true, ..maps })?;
        for point in points.iter().filter(|point| !is_joint || !both.contains(point)) {
            attach(*point, maps)?;
        }
        match attached.is_empty() {
            true => Err(refused),
            false => {
                descriptors.extend(loaded);
                let programs = Programs::adopt_as(own_id(&btf)?, attached, descriptors, size)?;
                programs.set_calls(calls);
                Ok(programs)
            }
        }
    }

    /// Continues with programs that another process attached.
    ///
    /// # Errors
    /// The descriptors are those of no such ring.
    pub fn adopt(
        points: Vec<Tracepoint>,
        descriptors: Vec<OwnedFd>,
        size: usize,
    ) -> io::Result<Programs> {
        let own = if is_first_namespace() { std::process::id() } else { own_id(&read_btf()?)? };
        Programs::adopt_as(own, points, descriptors, size)
    }

    /// The same; `own` is the id of this process in the first PID namespace.
    fn adopt_as(
        own: u32,
        points: Vec<Tracepoint>,
        descriptors: Vec<OwnedFd>,
        size: usize,
    ) -> io::Result<Programs> {
        let [ring, shared, ..] = &descriptors[..] else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let ring = ProgramRing::map(ring.as_fd(), size)?;
        let shared = SharedWords::map(shared.as_fd())?;
        shared.word(OWN).store(own.into(), Ordering::Relaxed);
        let known_losses = shared.word(REPORTED).load(Ordering::Relaxed);
        let room = Room::of(ring.committed(), size);
        Ok(Programs { ring, shared, points, descriptors, known_losses, room })
    }

    /// The program that records samples.
    pub fn of_samples(&self) -> Option<BorrowedFd<'_>> {
        let at = self.points.iter().position(|point| *point == Tracepoint::CpuSample)?;
        self.descriptors.get(2 + at).map(AsFd::as_fd)
    }

    /// Samples have `size` bytes of a stack from now on; of a thread whose stack has a known base, all bytes, if they are at most `largest`.
    pub fn set_sample_stack(&self, size: u32, largest: u32) {
        self.shared.word(LARGEST_SAMPLE_STACK).store(largest.into(), Ordering::Relaxed);
        self.shared.word(SAMPLE_STACK).store(size.into(), Ordering::Relaxed);
    }

    /// The table of the bases of stacks, which the program for samples reads.
    #[cfg(feature = "unwind")]
    pub fn stack_bases(&self) -> Option<StackBases> {
        self.of_samples()?;
        let shared = self.descriptors.get(1)?;
        SharedWords::map(shared.as_fd()).ok().map(StackBases)
    }

    /// Loads bytes from a position on into the cache. The size of the record there is not read: its header may not be in the cache either.
    pub fn prefetch(&self, position: u64, size: usize) {
        self.ring.prefetch(position, size);
    }

    fn set_calls(&self, calls: Option<&[u64]>) {
        let mut words = [0u64; MAX_CALLS / 64];
        for (index, word) in words.iter_mut().enumerate() {
            let is_in = |number: &&u64| **number / 64 == index as u64;
            *word = match calls {
                None => u64::MAX,
                Some(calls) => {
                    calls.iter().filter(is_in).fold(0, |all, number| all | 1 << (number % 64))
                }
            };
            self.shared.word(CALLS + index * 8).store(*word, Ordering::Relaxed);
        }
        for first in (0..MAX_CALLS).step_by(8) {
            let codes: [u8; 8] = std::array::from_fn(|index| path_code((first + index) as u64));
            let word = u64::from_le_bytes(codes);
            self.shared.word(PATHS + first).store(word, Ordering::Relaxed);
        }
    }

    /// The tracepoints that they record.
    pub fn points(&self) -> &[Tracepoint] {
        &self.points
    }

    /// Bytes of the ring.
    pub fn size(&self) -> usize {
        self.ring.size()
    }

    /// Its descriptors, for [`adopt`](Programs::adopt).
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.descriptors.iter().map(AsFd::as_fd).collect()
    }

    /// Begins or ends the recording of everything but the arguments of programs; what is in the ring stays.
    pub fn set_recording(&self, is_recording: bool) {
        self.shared.word(GATE).store(is_recording.into(), Ordering::Release);
    }

    /// Begins or ends the recording of the arguments of programs.
    pub fn set_recording_arguments(&self, is_recording: bool) {
        self.shared.word(ARGUMENTS_GATE).store(is_recording.into(), Ordering::Release);
    }

    /// Records for which the ring was full, so far, by tracepoint.
    fn overflows(&self) -> impl Iterator<Item = (Tracepoint, u64)> + '_ {
        let words = self.points.iter().filter_map(|point| Some((*point, lost_word(*point)?)));
        words.map(|(point, at)| (point, self.shared.word(at).load(Ordering::Acquire)))
    }

    /// Events that were not recorded, so far, by tracepoint: the ring was full, or the kernel did not run the program, because the CPU ran it
    /// already.
    pub fn losses(&self) -> impl Iterator<Item = (Tracepoint, u64)> + '_ {
        // A worker of an earlier version kept no programs.
        let programs = self.descriptors.get(2 + self.points.len()..).unwrap_or_default();
        let with_programs = self.points.iter().zip(programs);
        // A path is no event.
        let with_programs = with_programs.filter(|(point, _)| **point != Tracepoint::CallPaths);
        let missed = with_programs.map(|(point, program)| (*point, calls::misses(program.as_fd())));
        self.overflows().chain(missed)
    }

    /// How often the program of a tracepoint has run since [`begin_count`](Programs::begin_count); `None`: that is not counted.
    pub fn runs(&self, point: Tracepoint) -> Option<u64> {
        let word = self.points.contains(&point).then(|| runs_word(point)).flatten()?;
        Some(self.shared.word(word).load(Ordering::Acquire))
    }

    /// Counts the runs of all programs from now on.
    pub fn begin_count(&self) {
        for word in self.points.iter().filter_map(|point| runs_word(*point)) {
            let word = self.shared.word(word);
            // Programs add to it meanwhile.
            word.fetch_sub(word.load(Ordering::Acquire), Ordering::AcqRel);
        }
    }

    fn lost(&self) -> u64 {
        self.overflows().map(|(_, count)| count).sum()
    }

    /// Gives each record that has come, with its position.
    pub fn read(&mut self, mut give: impl FnMut(u64, &[u8])) -> ReadPrograms {
        let room = &mut self.room;
        let is_whole = self.ring.read(|position, record| {
            room.look(position, record);
            give(position, record);
        });
        let lost = self.lost();
        self.room.looked((self.known_losses, lost));
        let missing = lost.wrapping_sub(self.known_losses);
        self.known_losses = lost;
        ReadPrograms { missing, is_whole }
    }

    /// Whether records that have been read and not been committed take more than this part of the ring.
    pub fn is_used(&self, part: u64) -> bool {
        self.ring.used() > self.ring.size() as u64 / part
    }

    /// The record at a position that [`read`](Programs::read) gave and that has not been committed.
    pub fn record(&self, position: u64) -> Option<&[u8]> {
        self.ring.record(position)
    }

    /// The position up to which records have been read.
    pub fn read_until(&self) -> u64 {
        self.ring.read_until()
    }

    /// Losses that are known so far.
    pub fn known_losses(&self) -> u64 {
        self.known_losses
    }

    /// Gives the kernel the memory of the records before a position. So many losses are in the trace: if this process is killed
    /// later, the next one counts only those behind them.
    pub fn commit(&mut self, position: u64, losses: u64) {
        self.shared.word(REPORTED).store(losses, Ordering::Release);
        self.ring.commit(position);
        self.room.grows(position, self.ring.size(), (self.known_losses, self.lost()));
    }

    /// Gaps that have been found since the last call.
    pub fn take_gaps(&mut self) -> Vec<Gap> {
        self.room.take_gaps()
    }
}

/// Loads a program and attaches it to its tracepoint. Returns the link and the program.
fn load_and_attach(
    point: Tracepoint,
    instructions: &[assembler::Instruction],
    handler: u32,
) -> io::Result<(OwnedFd, OwnedFd)> {
    if point != Tracepoint::CpuSample {
        let program = calls::load(instructions, handler)?;
        return Ok((calls::attach(program.as_fd())?, program));
    }
    // It is attached to an event of each CPU, which is opened later. This one shows whether that is permitted.
    let program = calls::load_for_events(instructions)?;
    let cpu = *online_cpus().first().ok_or(io::ErrorKind::NotFound)?;
    let event = Event::open(&Attribute::samples(1_000_000).by_program(), Target::Machine, cpu)?;
    event.set_program(program.as_fd())?;
    Ok((program.try_clone()?, program))
}

/// The beginning or the return of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallMoment {
    pub thread: u32,
    pub time: u64,
    pub number: u64,
    pub is_return: bool,
}

impl CallMoment {
    /// The moment of a record of the programs; `None`: the record is another one.
    pub fn parse(record: &[u8]) -> Option<CallMoment> {
        let point = le::u64(record, sample::NUMBER)?;
        let is_return = point == number_of(Tracepoint::SyscallExit);
        (is_return || point == number_of(Tracepoint::SyscallEnter)).then_some(())?;
        let (thread, time) = (le::u32(record, sample::THREAD)?, le::u64(record, sample::TIME)?);
        Some(CallMoment { thread, time, number: le::u64(record, WORDS as usize)?, is_return })
    }
}

/// Process, and first argument or result, of a record of the beginning or the return of a system call.
pub(super) fn call_values(record: &[u8]) -> Option<(u32, i64)> {
    Some((le::u32(record, sample::PROCESS)?, le::i64(record, WORDS as usize + 8)?))
}

/// Whether a system call has a record of its own at its end: it names a file by its path, lists buffers, or copies.
pub(super) fn names_path(number: u64) -> bool {
    static NAMING: LazyLock<[bool; MAX_CALLS]> =
        LazyLock::new(|| std::array::from_fn(|number| path_code(number as u64) != 0));
    usize::try_from(number).is_ok_and(|number| NAMING.get(number).is_some_and(|names| *names))
}

/// The byte of a system call in the table of paths.
fn path_code(number: u64) -> u8 {
    let Some(SystemCall::File(operation, arguments)) = SystemCall::of_number(number) else {
        return match SystemCall::of_number(number) {
            Some(SystemCall::ChangeFolder) => 1,
            Some(SystemCall::Copy { .. }) => paths::COPIES,
            _ => 0,
        };
    };
    let at = |path: Option<PathArgument>| match path {
        Some(PathArgument { at, .. }) if at < paths::MAX_ARGUMENT => at as u8 + 1,
        _ => 0,
    };
    if arguments.buffers == Some(paths::BUFFERS_ARGUMENT) {
        return paths::LISTS_BUFFERS;
    }
    let [first, second] = arguments.paths.map(at);
    if arguments.flags_address == Some(paths::FLAGS_ARGUMENT) {
        return first | paths::OPENS | paths::HAS_FLAGS;
    }
    let opens = if operation == FileOperation::Open { paths::OPENS } else { 0 };
    first | second << 4 | opens
}

/// The kernel's description of its types.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

fn read_btf() -> io::Result<Btf> {
    let bytes = std::fs::read(TYPES)?;
    Btf::parse(bytes).ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// The PID namespace of this process; `None`: the first one.
fn own_namespace(btf: &Btf) -> io::Result<Option<Namespace>> {
    if is_first_namespace() {
        return Ok(None);
    }
    let program = shown_ids::level_of_namespace(btf).ok_or(io::ErrorKind::Unsupported)?;
    let level = calls::run(&program)?;
    let number = std::fs::metadata("/proc/self/ns/pid")?.ino();
    let number = u32::try_from(number).map_err(|_| io::ErrorKind::Unsupported)?;
    Ok(Some(Namespace { level, number }))
}

/// The id of this process in the first PID namespace.
fn own_id(btf: &Btf) -> io::Result<u32> {
    if is_first_namespace() {
        return Ok(std::process::id());
    }
    calls::run(&shown_ids::id_of_machine(btf).ok_or(io::ErrorKind::Unsupported)?)
}

/// The tracepoints for which the kernel and the user permit programs.
pub(crate) fn permitted() -> Vec<Tracepoint> {
    const SMALL: usize = 64 << 10;
    match is_wanted() {
        true => Programs::open(&POINTS, SMALL, None).map_or(Vec::new(), |one| one.points),
        false => Vec::new(),
    }
}

/// Whether the environment lets the host load programs.
pub(crate) fn is_wanted() -> bool {
    std::env::var_os("ETW_SYSTEM_BPF").is_none_or(|value| value != "0")
}

/// The condition on which this host could load programs, if it loads none now; `None`: neither rights nor the environment are missing, or the kernel
/// permits none in any case.
pub(crate) fn unmet_condition() -> Option<String> {
    condition(&OwnRights::read(), is_wanted(), std::path::Path::new(TYPES).exists())
}

fn condition(rights: &OwnRights, is_wanted: bool, has_types: bool) -> Option<String> {
    if !has_types || rights.is_in_user_namespace() {
        return None;
    }
    match (rights.missing_for_programs(), is_wanted) {
        (None, true) => None,
        (None, false) => Some("without ETW_SYSTEM_BPF=0".to_owned()),
        (Some(missing), true) => Some(format!("with {missing}")),
        (Some(missing), false) => Some(format!("with {missing}, and without ETW_SYSTEM_BPF=0")),
    }
}

/// Whether the kernel counts a tracepoint beside its program.
pub(crate) fn is_counted(point: Tracepoint) -> bool {
    runs_word(point).is_some()
}

/// Whether programs can be made for a tracepoint.
pub(crate) fn is_possible(point: Tracepoint) -> bool {
    POINTS.contains(&point)
}

/// Programs of tests.
#[cfg(test)]
pub(crate) mod fake {
    pub(crate) use super::ring::fake::FakeProgramRing;
    use super::ring::fake::memory;
    use super::*;

    /// Programs that record switches, with a ring that a test fills.
    pub(crate) fn of_switches(ring: &FakeProgramRing) -> Programs {
        let descriptors = vec![ring.file.try_clone().unwrap(), memory(SHARED_SIZE as usize)];
        Programs::adopt_as(1, vec![Tracepoint::Switch], descriptors, FakeProgramRing::SIZE).unwrap()
    }

    /// The ring lacks room for so many more switches.
    pub(crate) fn lose_switches(programs: &Programs, count: u64) {
        let at = lost_word(Tracepoint::Switch).unwrap();
        programs.shared.word(at).fetch_add(count, Ordering::Release);
    }

    /// The record of a switch on a CPU.
    pub(crate) fn switch(time: u64, cpu: u32, old: u32, new: u32) -> Vec<u8> {
        let mut record = Vec::new();
        let add = |record: &mut Vec<u8>, words: &[u32]| {
            words.iter().for_each(|word| record.extend(word.to_le_bytes()));
        };
        add(&mut record, &[sample::SAMPLE, 72 << 16]);
        record.extend(number_of(Tracepoint::Switch).to_le_bytes());
        add(&mut record, &[old, old]);
        record.extend(time.to_le_bytes());
        add(&mut record, &[cpu, 0, 28, old, 120, new, 120, 1, 0, 0]);
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A remedy is one: it is not there where the kernel permits programs to nobody, and rights that are there are not asked for.
    #[test]
    fn a_condition_is_one_that_can_be_met() {
        let of = |capabilities: u64, users: &str| {
            OwnRights::of(&format!("CapEff:\t{capabilities:016x}\n"), users)
        };
        let machine = "0 0 4294967295\n";
        let (all, none) = (of(u64::MAX >> 23, machine), of(0, machine));
        let [perfmon, bpf] = [38, 39].map(|capability| of(1 << capability, machine));
        for (rights, is_wanted, has_types, expected) in [
            (&all, true, true, None),
            (&all, false, true, Some("without ETW_SYSTEM_BPF=0")),
            (&none, true, true, Some("with CAP_PERFMON and CAP_BPF")),
            (&perfmon, true, true, Some("with CAP_BPF")),
            (&bpf, true, true, Some("with CAP_PERFMON")),
            (&none, true, false, None),
            (&none, false, false, None),
            (&of(0, "0 1000 1\n"), true, true, None),
        ] {
            let condition = condition(rights, is_wanted, has_types);
            assert_eq!(condition.as_deref(), expected, "{rights:?}");
        }
        let both = condition(&none, false, true).unwrap();
        assert!(both.contains("CAP_BPF") && both.contains("ETW_SYSTEM_BPF"), "{both}");
    }
}
