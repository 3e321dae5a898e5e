//! Programs for tracepoints, assembled for the running kernel. Each writes a [sample]: behind the CPU, `u32` bytes that follow, and the `u32`
//! words of the tracepoint.
//!
//! The words of switches and wake-ups are the kernel's own numbers, which [`frequent`] reads, as are those of disks and sockets, which
//! [`devices`] reads; those of other tracepoints have the [`Layout`] of [`layout_of`].
//! Instructions, helpers and rules of the verifier: `Documentation/bpf` of the kernel.

use etw_types::le;

use super::super::{Layout, Parsed, PerfDetail, Tracepoint, sample};
use super::assembler::{
    Assembler, CONTEXT, CPU, EVENT, GET_CURRENT_TASK, Instruction, Maps, PROCESS, RECORD, RESULT,
    Register, SIZE, THREAD, TIME, Target, WORDS,
};
use super::btf::Btf;
use super::destinations::{self, CallAt};
use super::devices;
use super::ids::{IdsAt, Namespace};
use super::paths::{Offsets, Paths};
use super::points::{ARGUMENTS_GATE, CALLS, GATE, MAX_CALLS, OWN, lost_word, runs_word};
use super::samples;
use crate::exit_statuses::status_of;
use crate::neutral::{Detail, NeutralEvent, Stack, SwitchedIn, SwitchedOut, ThreadState};

/// Numbers of events, above those that the kernel gives.
const FIRST_NUMBER: u64 = 1 << 63;

/// The number that the records of a tracepoint have.
pub fn number_of(point: Tracepoint) -> u64 {
    FIRST_NUMBER + point as u64
}

/// A word of a record.
#[derive(Clone, Copy)]
enum Word {
    /// The lower half of an argument of the tracepoint.
    Argument(i16),
    /// Both halves of an argument.
    WideArgument(i16),
    /// A member of the structure that an argument points to.
    Member(i16, i16),
    /// Both halves of such a member.
    WideMember(i16, i16),
    /// An argument that is a pointer.
    Pointer(i16),
    /// A member behind two pointers of the structure that an argument points to, by the three offsets.
    DeepMember(i16, [i16; 3]),
    /// So many bytes, a multiple of four, behind the pointer of an argument; 0, if they cannot be read.
    Copied(i16, i16, i16),
    /// The kernel's count of interrupts that the CPU handles.
    InterruptCount(CountAt),
    /// Where the call sends.
    Destination(CallAt),
    /// `i32` bytes, then as many bytes of addresses of the kernel's call stack, the innermost first; a negative number: there is none.
    Frames,
}

/// Frames of a call stack that a program records.
const MAX_FRAMES: usize = 24;

/// The events of a tracepoint that a program records.
#[derive(Clone, Copy)]
enum Only {
    /// Those of certain system calls; `None`: all.
    Calls(Option<CallNumber>),
    /// Switches from idle.
    FromIdle,
    /// Those while the CPU is idle, by where a thread has its id.
    ByIdle(i16),
}

/// The number of a system call.
#[derive(Clone, Copy)]
struct CallNumber {
    word: Word,
    /// Where a thread has its status, which says whether its call is one of 32 bits. `None`: on arm64, its program says that.
    status: Option<i16>,
}

/// Where a program finds the kernel's count of interrupts that the CPU handles.
#[derive(Clone, Copy)]
enum CountAt {
    /// In a variable, by its number. A kernel whose list of symbols has functions only refuses it.
    Variable(u32),
    /// In the memory of the CPU, so far behind the run queue to which the thread that runs belongs.
    RunQueue {
        /// Where a thread has the pointer to its queue of fair scheduling.
        fair_queue: i16,
        /// Where that has the pointer to the run queue.
        run_queue: i16,
        distance: i32,
    },
}

impl CountAt {
    const NAME: &str = "__preempt_count";

    fn variable(btf: &Btf) -> Option<CountAt> {
        btf.variable(CountAt::NAME).map(CountAt::Variable)
    }

    fn run_queue(btf: &Btf) -> Option<CountAt> {
        let entity = btf.offset("task_struct", "se")?;
        Some(CountAt::RunQueue {
            fair_queue: entity.checked_add(btf.offset("sched_entity", "cfs_rq")?)?,
            run_queue: btf.offset("cfs_rq", "rq")?,
            distance: btf.distance("runqueues", CountAt::NAME)?,
        })
    }
}

impl Word {
    /// Bytes of it.
    fn size(&self) -> usize {
        match self {
            Word::WideArgument(_) | Word::WideMember(..) | Word::Pointer(_) => 8,
            Word::Copied(.., size) => *size as usize,
            Word::Frames => 4 + MAX_FRAMES * 8,
            Word::Destination(_) => destinations::SIZE,
            _ => 4,
        }
    }

    /// The argument that it comes from.
    fn argument(&self) -> Option<i16> {
        match *self {
            Word::Argument(at) | Word::Member(at, _) | Word::DeepMember(at, _) => Some(at),
            Word::WideArgument(at) | Word::WideMember(at, _) => Some(at),
            Word::Pointer(at) | Word::Copied(at, ..) => Some(at),
            Word::InterruptCount(_) | Word::Destination(_) | Word::Frames => None,
        }
    }
}

/// Programs for a tracepoint, each with the type of its handlers. The caller uses the first one that the kernel accepts. The list is
/// empty if the kernel's types lack a field that the programs read. `namespace`: whose ids the records have; `None`: the first one.
pub fn assemble(
    btf: &Btf,
    point: Tracepoint,
    maps: Maps,
    namespace: Option<Namespace>,
) -> Vec<(Vec<Instruction>, u32)> {
    let ids = namespace.map(|namespace| IdsAt::of(btf, namespace));
    if let Some(None) = ids {
        return Vec::new();
    }
    let ids = ids.flatten();
    let counts = match point {
        Tracepoint::Waking | Tracepoint::NewTaskWakeup | Tracepoint::IdleWaking => {
            vec![CountAt::variable(btf), CountAt::run_queue(btf)]
        }
        _ => vec![None],
    };
    let destinations = match point {
        Tracepoint::SocketSend => vec![CallAt::of(btf), None],
        _ => vec![None],
    };
    let ways = counts.into_iter().flat_map(|count| destinations.iter().map(move |to| (count, *to)));
    ways.filter_map(|(count, to)| assemble_one(btf, point, maps, (count, to), ids)).collect()
}

fn assemble_one(
    btf: &Btf,
    point: Tracepoint,
    maps: Maps,
    (count, destination): (Option<CountAt>, Option<CallAt>),
    ids: Option<IdsAt>,
) -> Option<(Vec<Instruction>, u32)> {
    let number = number_of(point.recorded_as());
    let target = Target { number, lost: lost_word(point)?, runs: runs_word(point) };
    if point == Tracepoint::CpuSample {
        let assembler = Assembler { ids, ..Assembler::default() };
        return Some((samples::assemble(btf, assembler, maps, target)?, 0));
    }
    let (_, name) = point.name().split_once('/')?;
    let name = name.split(':').next()?;
    let (handler, parameters) = btf.tracepoint(name)?;
    if point == Tracepoint::Exec {
        let mut assembler = Assembler { ids, ..Assembler::default() };
        assembler.record_arguments(maps, target, Arguments::of(btf)?);
        return Some((assembler.instructions, handler));
    }
    if point == Tracepoint::CallPaths {
        let mut assembler = Assembler { ids, ..Assembler::default() };
        assembler.only_paths(maps, &paths_of(btf)?, Word::WideMember(0, btf.call_number()?));
        return Some((assembler.instructions, handler));
    }
    let mut words = words_of(btf, point, parameters, count)?;
    words.extend(destination.map(Word::Destination));
    let is_known = |word: &Word| word.argument().is_none_or(|at| (at as usize) < parameters);
    words.iter().all(is_known).then_some(())?;
    let thread = match point {
        // The thread that leaves runs still.
        Tracepoint::Switch | Tracepoint::IdleSwitch => {
            Some((btf.offset("task_struct", "tgid")?, btf.offset("task_struct", "pid")?))
        }
        _ => None,
    };
    let mut assembler = Assembler { ids, ..Assembler::default() };
    // Their first words are the numbers.
    let is_call = matches!(point, Tracepoint::SyscallEnter | Tracepoint::SyscallExit);
    let status = btf.offset("thread_info", "status");
    let status = status.and_then(|at| btf.offset("task_struct", "thread_info")?.checked_add(at));
    let call = words.first().filter(|_| is_call).map(|word| CallNumber { word: *word, status });
    let paths = match maps.with_paths && point == Tracepoint::SyscallExit {
        true => Some(paths_of(btf)?),
        false => None,
    };
    let only = match point {
        Tracepoint::IdleSwitch => Only::FromIdle,
        Tracepoint::IdleWaking => Only::ByIdle(btf.offset("task_struct", "pid")?),
        _ => Only::Calls(call),
    };
    assembler.record(maps, target, &words, thread, (only, paths));
    Some((assembler.instructions, handler))
}

/// The program, or the part of another one, for [`Tracepoint::CallPaths`].
fn paths_of(btf: &Btf) -> Option<Paths> {
    let point = Tracepoint::CallPaths;
    let target = Target { number: number_of(point), lost: lost_word(point)?, runs: None };
    Some(Paths { target, offsets: Offsets::of(btf, btf.call_arguments()?)? })
}

fn words_of(
    btf: &Btf,
    point: Tracepoint,
    parameters: usize,
    count: Option<CountAt>,
) -> Option<Vec<Word>> {
    let task = |member| btf.offset("task_struct", member);
    Some(match point {
        Tracepoint::Switch | Tracepoint::IdleSwitch => {
            let (id, priority) = (task("pid")?, task("prio")?);
            // Since Linux 5.18 the state is an argument: the thread may be woken on another CPU meanwhile.
            let state = match parameters {
                4.. => Word::Argument(3),
                _ => Word::Member(1, task("__state").or_else(|| task("state"))?),
            };
            let (old, new) = (1, 2);
            vec![
                Word::Member(old, id),
                Word::Member(old, priority),
                Word::Member(new, id),
                Word::Member(new, priority),
                state,
                Word::Argument(0),
            ]
        }
        Tracepoint::Waking | Tracepoint::NewTaskWakeup => {
            vec![Word::Member(0, task("pid")?), Word::InterruptCount(count?)]
        }
        Tracepoint::IdleWaking => {
            vec![Word::Member(0, task("pid")?), Word::InterruptCount(count?), Word::Frames]
        }
        // It is set before.
        Tracepoint::ExitStatus => vec![Word::Member(0, task("exit_code")?)],
        // The last argument before `ret` is the handler's description.
        Tracepoint::InterruptExit => vec![Word::Argument(0), Word::Argument(2)],
        Tracepoint::SyscallEnter => {
            let mut words = vec![Word::WideArgument(1)];
            words.extend(btf.call_arguments()?.map(|offset| Word::WideMember(0, offset)));
            words
        }
        Tracepoint::SyscallExit => {
            vec![Word::WideMember(0, btf.call_number()?), Word::WideArgument(1)]
        }
        Tracepoint::InterruptEntry
        | Tracepoint::SoftInterruptEntry
        | Tracepoint::SoftInterruptExit => vec![Word::Argument(0)],
        Tracepoint::DiskQueue
        | Tracepoint::DiskIssue
        | Tracepoint::DiskRequeue
        | Tracepoint::DiskComplete => {
            let request = |member| btf.offset("request", member);
            let (queue, disk) = (request("q")?, btf.offset("request_queue", "disk")?);
            let number =
                |member| Some(Word::DeepMember(0, [queue, disk, btf.offset("gendisk", member)?]));
            let size = match point {
                Tracepoint::DiskComplete => Word::Argument(2),
                _ => Word::Member(0, request("__data_len")?),
            };
            vec![
                number("major")?,
                number("first_minor")?,
                Word::WideMember(0, request("__sector")?),
                size,
                Word::Member(0, request("cmd_flags")?),
            ]
        }
        Tracepoint::SocketState => {
            let mut words = vec![Word::Pointer(0), Word::Argument(1), Word::Argument(2)];
            words.extend(addresses(btf)?);
            words
        }
        Tracepoint::SocketSend | Tracepoint::SocketReceive => {
            let protocol = Word::Copied(0, btf.offset("sock", "sk_protocol")?, 4);
            let mut words = vec![Word::Pointer(0), Word::Argument(1), protocol];
            words.extend(addresses(btf)?);
            words.push(Word::Argument(2));
            words.push(Word::Copied(0, btf.offset("sock", "sk_type")?, 4));
            words
        }
        Tracepoint::Retransmit => {
            let mut words = vec![Word::Pointer(0)];
            words.extend(addresses(btf)?);
            if parameters > 2 {
                words.push(Word::Argument(2));
            }
            words
        }
        _ => return None,
    })
}

/// The addresses of a socket, as [`devices`] reads them.
fn addresses(btf: &Btf) -> Option<Vec<Word>> {
    let common = |member| btf.offset("sock_common", member);
    Some(vec![
        Word::Copied(0, common("skc_family")?, 4),
        // `__be16` the other port, `u16` the own one, which a socket that is closed has no more.
        Word::Copied(0, common("skc_portpair")?, 4),
        // `__be16`, which a closed socket still has.
        Word::Copied(0, btf.offset("inet_sock", "inet_sport")?, 4),
        // The other address, then the own one.
        Word::Copied(0, common("skc_addrpair")?, 8),
        Word::Copied(0, common("skc_v6_daddr")?, 16),
        Word::Copied(0, common("skc_v6_rcv_saddr")?, 16),
    ])
}

/// Where the fields of a tracepoint lie in the words of its records; those of switches and wake-ups are read by [`frequent`].
pub fn layout_of(point: Tracepoint) -> Layout {
    match point {
        Tracepoint::SyscallEnter => {
            Layout::of_words(&[Some(0), Some(2)]).with_size(0, 8).with_size(1, 48)
        }
        Tracepoint::SyscallExit => {
            Layout::of_words(&[Some(0), Some(2)]).with_size(0, 8).with_size(1, 8)
        }
        // Only `devices` reads them.
        _ if devices::is_device(point) => Layout::default(),
        _ => Layout::of_words(&[Some(0), Some(1)]),
    }
}

/// Reads a switch, which has no other fields than these; `None`: the record is another one.
#[inline]
pub fn switch(record: &[u8]) -> Option<NeutralEvent<'_>> {
    const END: usize = WORDS as usize + 24;
    let record: &[u8; END] = record.first_chunk()?;
    if le::u64(record, sample::NUMBER)? != number_of(Tracepoint::Switch) {
        return None;
    }
    let word = |index: usize| le::u32(record, WORDS as usize + index * 4);
    let state = thread_state(word(4)?, word(5)? & 1 != 0);
    Some(NeutralEvent {
        time: le::u64(record, sample::TIME)?,
        cpu: le::u32(record, CPU as usize)? as u16,
        process: le::u32(record, sample::PROCESS)?,
        thread: le::u32(record, sample::THREAD)?,
        stack: Stack::default(),
        detail: Detail::Switch {
            old: SwitchedOut { thread: word(0)?, priority: word(1)? as i32, state },
            new: SwitchedIn { thread: word(2)?, priority: word(3)? as i32 },
        },
    })
}

/// Reads a switch, a wake-up, an exit status, or a record of [`devices`]; `None`: the record is another one.
#[inline]
pub fn frequent(record: &[u8]) -> Option<Parsed<'_>> {
    if let Some(NeutralEvent { time, cpu, process, thread, stack, detail }) = switch(record) {
        let detail = PerfDetail::Neutral(detail);
        return Some(Parsed { time, cpu, process, thread, stack, user: None, detail });
    }
    let (header, words) = record.split_first_chunk::<{ WORDS as usize }>()?;
    let point = le::u64(header, sample::NUMBER)?.checked_sub(FIRST_NUMBER)?;
    let is_at = |one: Tracepoint| one as u64 == point;
    let word = |index: usize| le::u32(words, index * 4);
    let detail = if [Tracepoint::Waking, Tracepoint::NewTaskWakeup].into_iter().any(is_at) {
        Detail::Wake { thread: word(0)?, is_interrupt: is_interrupt(word(1)?) }
    } else if is_at(Tracepoint::ExitStatus) {
        let [process, thread] = [sample::PROCESS, sample::THREAD].map(|at| le::u32(header, at));
        Detail::ExitStatus { process: process?, thread: thread?, status: status_of(word(0)?) }
    } else {
        devices::detail(point, words)?
    };
    with_header(header, Stack::default(), detail)
}

/// A record with the common fields of this header.
#[inline]
fn with_header<'a>(header: &[u8], stack: Stack<'a>, detail: Detail<'a>) -> Option<Parsed<'a>> {
    Some(Parsed {
        time: le::u64(header, sample::TIME)?,
        cpu: le::u32(header, CPU as usize)? as u16,
        process: le::u32(header, sample::PROCESS)?,
        thread: le::u32(header, sample::THREAD)?,
        stack,
        user: None,
        detail: PerfDetail::Neutral(detail),
    })
}

/// Reads a wake-up by an interrupt of an idle CPU. Its call stack begins with the first frame that is one of `wakers`: the frames before it
/// are those of our program and of the tracepoint. `None`: the record is another one.
pub fn idle_wake<'a>(
    record: &[u8],
    wakers: &[u64],
    frames: &'a mut Vec<u64>,
) -> Option<Parsed<'a>> {
    const FRAMES: usize = WORDS as usize + 12;
    let header: &[u8; FRAMES] = record.first_chunk()?;
    if le::u64(header, sample::NUMBER)? != number_of(Tracepoint::IdleWaking) {
        return None;
    }
    let word = |index: usize| le::u32(header, WORDS as usize + index * 4);
    let size = usize::try_from(word(2)? as i32).unwrap_or(0).min(MAX_FRAMES * 8);
    let addresses = record.get(FRAMES..FRAMES + size).unwrap_or_default();
    frames.clear();
    frames.extend(addresses.chunks_exact(8).filter_map(|one| le::u64(one, 0)));
    let waker = frames.iter().position(|frame| wakers.contains(frame));
    let detail = Detail::Wake { thread: word(0)?, is_interrupt: is_interrupt(word(1)?) };
    with_header(header, Stack { kernel: &frames[waker.unwrap_or(0)..], user: &[] }, detail)
}

/// The state of a thread that leaves its CPU, by the kernel's numbers. A thread that has told its parent of its end may still
/// wait for a lock; perf's tracepoint shows it as ended already.
fn thread_state(state: u32, is_preempted: bool) -> ThreadState {
    const REPORTED: u32 = 0x7f;
    /// `TASK_DEAD`: it does not come back.
    const DEAD: u32 = 0x80;
    /// Uninterruptible, and no part of the load.
    const IDLE: u32 = 0x402;
    /// Waits for a lock of a kernel for real time.
    const LOCK_WAIT: u32 = 0x1000;
    if is_preempted {
        return ThreadState::Preempted;
    }
    if state & DEAD != 0 {
        return ThreadState::Dead;
    }
    if state & IDLE == IDLE {
        return ThreadState::Idle;
    }
    if state & LOCK_WAIT != 0 {
        return ThreadState::Blocked;
    }
    // The highest bit counts: S, D, T, t, P.
    match (state & REPORTED).checked_ilog2() {
        None => ThreadState::Ready,
        Some(0) => ThreadState::Sleeping,
        Some(1) => ThreadState::Blocked,
        Some(_) => ThreadState::Stopped,
    }
}

/// Whether the CPU handles an interrupt or a soft interrupt.
fn is_interrupt(preempt_count: u32) -> bool {
    const INTERRUPTS: u32 = 0xf << 16;
    const IN_SOFT_INTERRUPT: u32 = 1 << 8;
    preempt_count & (INTERRUPTS | IN_SOFT_INTERRUPT) != 0
}

impl Assembler {
    /// Reserves a record with this many bytes behind the event's common fields, and writes time, CPU and sizes. Returns the jump that is
    /// taken if the ring is full.
    fn reserve(&mut self, maps: Maps, number: u64, raw_size: i32) -> usize {
        const KTIME_GET_NS: i32 = 5;
        const GET_SMP_PROCESSOR_ID: i32 = 8;
        const RINGBUF_RESERVE: i32 = 131;
        let size = (i32::from(WORDS) + raw_size + 7) & !7;
        self.load_wide(1, 1, maps.ring, 0);
        self.set(2, size);
        self.set(3, 0);
        self.call(RINGBUF_RESERVE);
        let full = self.jump_if_zero(RESULT);
        self.copy(RECORD, RESULT);
        // Behind the reservation: records are then in order of their times, but for interrupts between the two.
        self.call(KTIME_GET_NS);
        self.store64(TIME, RESULT);
        self.call(GET_SMP_PROCESSOR_ID);
        self.store64(CPU, RESULT);
        self.load_wide(1, 0, 9, size << 16);
        self.store64(0, 1);
        self.load_wide(1, 0, number as i32, (number >> 32) as i32);
        self.store64(EVENT, 1);
        self.set(1, raw_size);
        self.store32(SIZE, 1);
        full
    }

    /// Loads a word that needs no help of the kernel. Register 8 is changed.
    fn load_word(&mut self, register: Register, word: Word) {
        match word {
            Word::Argument(argument) | Word::WideArgument(argument) => {
                self.load64(register, CONTEXT, argument * 8);
            }
            Word::Member(argument, offset) => {
                self.load64(8, CONTEXT, argument * 8);
                self.load32(register, 8, offset);
            }
            Word::WideMember(argument, offset) => {
                self.load64(8, CONTEXT, argument * 8);
                self.load64(register, 8, offset);
            }
            Word::Pointer(argument) => self.load64(register, CONTEXT, argument * 8),
            Word::DeepMember(argument, [first, second, last]) => {
                self.load64(8, CONTEXT, argument * 8);
                self.load64(8, 8, first);
                self.load64(8, 8, second);
                self.load32(register, 8, last);
            }
            Word::InterruptCount(_) | Word::Destination(_) | Word::Copied(..) | Word::Frames => {}
        }
    }

    /// Copies bytes behind the pointer of an argument into the record. A failed copy gives zeros.
    fn store_copy(&mut self, at: i16, (argument, offset, size): (i16, i16, i16)) {
        const PROBE_READ_KERNEL: i32 = 113;
        self.copy(1, RECORD);
        // Additions of 64 bits.
        self.put(0x07, 1, 0, 0, at.into());
        self.set(2, size.into());
        self.load64(3, CONTEXT, argument * 8);
        self.put(0x07, 3, 0, 0, offset.into());
        self.call(PROBE_READ_KERNEL);
    }

    /// Ends the program, unless the system call with the number `call` is recorded, and another process made it. Returns the jumps.
    fn test_call(&mut self, maps: Maps, call: Word) -> Vec<usize> {
        const GET_CURRENT_PID_TGID: i32 = 14;
        const NUMBER: Register = 9;
        let mut jumps = Vec::new();
        self.load_word(NUMBER, call);
        // The negative numbers of a call that is none are large ones, too: the last bit stands for them.
        let is_small = self.instructions.len();
        self.put(0xb5, NUMBER, 0, 0, MAX_CALLS as i32 - 1);
        self.set(NUMBER, MAX_CALLS as i32 - 1);
        self.land(is_small);
        // The word with its bit.
        self.copy(2, NUMBER);
        self.put(0x77, 2, 0, 0, 3);
        self.put(0x57, 2, 0, 0, (MAX_CALLS / 8 - 8) as i32);
        self.load_shared(3, maps, CALLS);
        self.put(0x0f, 3, 2, 0, 0);
        self.load64(4, 3, 0);
        self.copy(2, NUMBER);
        self.put(0x57, 2, 0, 0, 63);
        self.put(0x7f, 4, 2, 0, 0);
        self.put(0x57, 4, 0, 0, 1);
        jumps.push(self.jump_if_zero(4));
        self.call(GET_CURRENT_PID_TGID);
        self.put(0x77, RESULT, 0, 0, 32);
        self.load_shared(1, maps, OWN);
        self.load64(1, 1, 0);
        // A subtraction of 64 bits.
        self.put(0x1f, RESULT, 1, 0, 0);
        jumps.push(self.jump_if_zero(RESULT));
        jumps
    }

    /// Writes the ids of the thread that runs.
    pub(super) fn store_current(&mut self) {
        const GET_CURRENT_PID_TGID: i32 = 14;
        if let Some(at) = self.ids {
            self.call(GET_CURRENT_TASK);
            self.store_shown(at, RESULT);
            return;
        }
        self.call(GET_CURRENT_PID_TGID);
        self.store32(THREAD, RESULT);
        self.put(0x77, RESULT, 0, 0, 32);
        self.store32(PROCESS, RESULT);
    }

    /// Writes the call stack.
    fn store_frames(&mut self, at: i16) {
        const GET_STACK: i32 = 67;
        self.copy(1, CONTEXT);
        self.copy(2, RECORD);
        // An addition of 64 bits.
        self.put(0x07, 2, 0, 0, i32::from(at + 4));
        self.set(3, (MAX_FRAMES * 8) as i32);
        self.set(4, 0);
        self.call(GET_STACK);
        self.store32(at, RESULT);
    }

    /// Writes the count of interrupts.
    fn store_count(&mut self, at: i16, count: CountAt) {
        const PROBE_READ_KERNEL: i32 = 113;
        const THIS_CPU_PTR: i32 = 154;
        const SIZE: i32 = 4;
        match count {
            CountAt::Variable(variable) => {
                self.load_wide(1, 3, variable as i32, 0);
                self.call(THIS_CPU_PTR);
                self.load32(1, RESULT, 0);
                self.store32(at, 1);
            }
            CountAt::RunQueue { fair_queue, run_queue, distance } => {
                self.call(GET_CURRENT_TASK);
                self.load64(3, RESULT, fair_queue);
                self.load64(3, 3, run_queue);
                // Additions of 64 bits.
                self.put(0x07, 3, 0, 0, distance);
                self.copy(1, RECORD);
                self.put(0x07, 1, 0, 0, at.into());
                self.set(2, SIZE);
                self.call(PROBE_READ_KERNEL);
            }
        }
    }

    fn submit(&mut self) {
        const RINGBUF_SUBMIT: i32 = 132;
        const NO_WAKEUP: i32 = 1;
        self.copy(1, RECORD);
        self.set(2, NO_WAKEUP);
        self.call(RINGBUF_SUBMIT);
        self.end();
    }

    /// The whole program. `thread`: where the structure of the first pointer has process and thread; otherwise those that run.
    fn record(
        &mut self,
        maps: Maps,
        Target { number, lost, runs }: Target,
        words: &[Word],
        thread: Option<(i16, i16)>,
        (only, paths): (Only, Option<Paths>),
    ) {
        let mut closed = vec![self.test_gate(maps, GATE)];
        match (only, thread) {
            (Only::Calls(Some(call)), _) => closed.extend(self.test_call(maps, call.word)),
            (Only::FromIdle, Some((_, thread))) => {
                self.load64(1, CONTEXT, 8);
                self.load32(1, 1, thread);
                closed.push(self.jump_unless_zero(1));
            }
            (Only::ByIdle(id), _) => {
                self.call(GET_CURRENT_TASK);
                self.load32(1, RESULT, id);
                closed.push(self.jump_unless_zero(1));
            }
            _ => {}
        }
        if let Some(paths) = paths {
            self.record_paths(maps, &paths);
        }
        if let Some(runs) = runs {
            self.count(maps, runs);
        }
        let size: usize = words.iter().map(Word::size).sum();
        let full = self.reserve(maps, number, size as i32);
        match (thread, self.ids) {
            (Some(_), Some(at)) => {
                self.load64(1, CONTEXT, 8);
                self.store_shown(at, 1);
            }
            (Some((process, thread)), None) => {
                self.load64(8, CONTEXT, 8);
                self.load32(1, 8, process);
                self.store32(PROCESS, 1);
                self.load32(1, 8, thread);
                self.store32(THREAD, 1);
            }
            (None, _) => self.store_current(),
        }
        let mut at = WORDS;
        for word in words {
            match *word {
                Word::InterruptCount(count) => self.store_count(at, count),
                Word::Frames => self.store_frames(at),
                Word::Destination(call) => self.store_destination(at, call),
                Word::Copied(argument, offset, size) => {
                    self.store_copy(at, (argument, offset, size));
                }
                Word::Pointer(_) => {
                    self.load_word(1, *word);
                    self.store64(at, 1);
                }
                word => {
                    self.load_word(1, word);
                    self.store32(at, 1);
                    if word.size() > 4 {
                        // The upper half.
                        self.put(0x77, 1, 0, 0, 32);
                        self.store32(at + 4, 1);
                    }
                }
            }
            at += word.size() as i16;
        }
        if let Only::Calls(Some(CallNumber { status: Some(status), .. })) = only {
            self.mark_call_of_32_bits(status);
        }
        self.submit();
        self.land(full);
        self.count(maps, lost);
        closed.into_iter().for_each(|jump| self.land(jump));
        self.end();
    }

    /// Adds [`CALL_OF_32_BITS`](crate::neutral::CALL_OF_32_BITS) to the number of the record's call, if it is one.
    fn mark_call_of_32_bits(&mut self, status: i16) {
        /// `TS_COMPAT` of the kernel's `asm/thread_info.h`, and its bit.
        const IS_OF_32_BITS: i32 = 2;
        const BIT: i32 = 1;
        self.call(GET_CURRENT_TASK);
        self.load32(1, RESULT, status);
        self.put(0x57, 1, 0, 0, IS_OF_32_BITS);
        // In the upper half of the number.
        self.put(0x67, 1, 0, 0, 62 - 32 - BIT);
        self.load32(2, RECORD, WORDS + 4);
        self.put(0x4f, 2, 1, 0, 0);
        self.store32(WORDS + 4, 2);
    }

    /// The program that records the paths of a system call alone.
    fn only_paths(&mut self, maps: Maps, paths: &Paths, call: Word) {
        let mut closed = vec![self.test_gate(maps, GATE)];
        closed.extend(self.test_call(maps, call));
        self.record_paths(maps, paths);
        closed.into_iter().for_each(|jump| self.land(jump));
        self.end();
    }

    /// The program that records the user and the arguments of a program which a process executes: `u32` bytes, `u32` 0 or an error, `u32` user,
    /// the arguments.
    fn record_arguments(&mut self, maps: Maps, target: Target, at: Arguments) {
        const GET_CURRENT_USER: i32 = 15;
        const PROBE_READ_USER: i32 = 112;
        const LENGTH: Register = 8;
        const FIRST: Register = 9;
        const FIELDS: i16 = 12;
        let Target { number, lost, .. } = target;
        let closed = self.test_gate(maps, ARGUMENTS_GATE);
        self.load64(1, CONTEXT, 0);
        self.load64(1, 1, at.memory);
        self.load64(FIRST, 1, at.first);
        self.load64(LENGTH, 1, at.end);
        // A subtraction of 64 bits.
        self.put(0x1f, LENGTH, FIRST, 0, 0);
        let mut full = Vec::new();
        for (index, size) in ARGUMENT_SIZES.into_iter().enumerate() {
            // Unsigned, 64 bits: greater.
            let is_larger = self.instructions.len();
            self.put(0x25, LENGTH, 0, 0, size);
            full.push(self.reserve(maps, number, i32::from(FIELDS) + size));
            self.store_current();
            self.store32(WORDS, LENGTH);
            self.call(GET_CURRENT_USER);
            self.store32(WORDS + 8, RESULT);
            self.copy(1, RECORD);
            // An addition of 64 bits.
            self.put(0x07, 1, 0, 0, i32::from(WORDS + FIELDS));
            self.copy(2, LENGTH);
            self.copy(3, FIRST);
            self.call(PROBE_READ_USER);
            self.store32(WORDS + 4, RESULT);
            self.submit();
            self.land(is_larger);
            if index + 1 == ARGUMENT_SIZES.len() - 1 {
                // Longer ones are cut.
                let last = ARGUMENT_SIZES[index + 1];
                let is_smaller = self.instructions.len();
                self.put(0xb5, LENGTH, 0, 0, last);
                self.set(LENGTH, last);
                self.land(is_smaller);
            }
        }
        self.end();
        for jump in full {
            self.land(jump);
        }
        self.count(maps, lost);
        self.land(closed);
        self.end();
    }
}

/// Bytes of arguments in records of three sizes: most are short.
const ARGUMENT_SIZES: [i32; 3] = [512, 4096, 60 << 10];

/// Where the kernel has the arguments of a program.
struct Arguments {
    /// The memory of a task.
    memory: i16,
    /// The addresses of the first byte and of the one behind the last.
    first: i16,
    end: i16,
}

impl Arguments {
    fn of(btf: &Btf) -> Option<Arguments> {
        Some(Arguments {
            memory: btf.offset("task_struct", "mm")?,
            first: btf.offset("mm_struct", "arg_start")?,
            end: btf.offset("mm_struct", "arg_end")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neutral::ThreadState;

    #[test]
    fn states_are_those_of_the_kernel() {
        use ThreadState::*;
        assert_eq!(thread_state(0, false), Ready);
        assert_eq!(thread_state(1, true), Preempted);
        assert_eq!(thread_state(1, false), Sleeping);
        assert_eq!(thread_state(0x2001, false), Sleeping, "freezable");
        assert_eq!(thread_state(2, false), Blocked);
        assert_eq!(thread_state(0x402, false), Idle);
        assert_eq!(thread_state(0x1000, false), Blocked);
        assert_eq!(thread_state(0x80, false), Dead);
        assert_eq!(thread_state(4, false), Stopped);
        assert_eq!(thread_state(0x40, false), Stopped, "parked");
        assert!(is_interrupt(0x1_0001) && is_interrupt(0x100));
        assert!(!is_interrupt(0x203), "soft interrupts are disabled");
    }

    fn record(point: Tracepoint, words: &[u32]) -> Vec<u8> {
        let mut record = Vec::new();
        for word in [9, number_of(point), 50 | 51 << 32, 999, 3, 0] {
            record.extend(u64::to_le_bytes(word));
        }
        record.truncate(WORDS as usize);
        record.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        record
    }

    #[test]
    fn switches_and_wake_ups_are_read_and_damage_is_refused() {
        let switch = record(Tracepoint::Switch, &[51, 120, 60, 100, 2, 0]);
        let parsed = frequent(&switch).unwrap();
        assert_eq!((parsed.time, parsed.cpu, parsed.process, parsed.thread), (999, 3, 50, 51));
        let PerfDetail::Neutral(Detail::Switch { old, new }) = parsed.detail else { panic!() };
        assert_eq!((old.thread, old.priority, old.state), (51, 120, ThreadState::Blocked));
        assert_eq!((new.thread, new.priority), (60, 100));
        let wake = record(Tracepoint::Waking, &[60, 0x1_0001]);
        let parsed = frequent(&wake).unwrap();
        let PerfDetail::Neutral(Detail::Wake { thread: 60, is_interrupt: true }) = parsed.detail
        else {
            panic!("{parsed:?}");
        };
        for (code, ended) in [(7 << 8, 7), (9, 137)] {
            let exit = record(Tracepoint::ExitStatus, &[code]);
            let PerfDetail::Neutral(Detail::ExitStatus { process: 50, thread: 51, status }) =
                frequent(&exit).unwrap().detail
            else {
                panic!("{code}");
            };
            assert_eq!(status, ended);
            assert!((0..exit.len()).all(|size| frequent(&exit[..size]).is_none()));
        }
        assert!((0..switch.len()).all(|size| frequent(&switch[..size]).is_none()));
        let stack = |size: i32| {
            let mut words = vec![60, 0, size as u32];
            words.extend([0x10, 0, 0x20, 0, 0x30, 0]);
            words.resize(3 + 2 * MAX_FRAMES, 0);
            record(Tracepoint::IdleWaking, &words)
        };
        let mut frames = Vec::new();
        let whole = stack(24);
        let mut kernel = |record: &[u8], wakers: &[u64]| {
            idle_wake(record, wakers, &mut frames).map(|parsed| parsed.stack.kernel.to_vec())
        };
        assert_eq!(kernel(&whole, &[]), Some(vec![0x10, 0x20, 0x30]));
        assert_eq!(kernel(&whole, &[0x99, 0x20]), Some(vec![0x20, 0x30]));
        for (size, count) in [(-14, 0), (0, 0), (i32::MAX, MAX_FRAMES)] {
            assert_eq!(kernel(&stack(size), &[]).unwrap().len(), count);
        }
        assert_eq!(kernel(&whole[..WORDS as usize + 20], &[]), Some(vec![]));
        assert!((0..WORDS as usize + 12).all(|size| kernel(&whole[..size], &[]).is_none()));
        assert_eq!(kernel(&switch, &[]), None);
        assert!(frequent(&record(Tracepoint::SyscallExit, &[1, 2, 3, 4])).is_none());
    }
}
