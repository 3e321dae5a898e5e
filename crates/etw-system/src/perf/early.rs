//! Records before the watermark passes them: they have facts that must be looked up while a process still lives.

use std::collections::HashMap;
use std::sync::LazyLock;

use foldhash::fast::RandomState;

use super::bpf::{self, CallMoment, CallPath};
use super::parse::{
    Common, Kind, NewProgram, Parsed, PerfDetail, Scratch, begun_process, is_exec, number_of, parse,
};
use super::sample::RecordRing;
use super::tracepoint::Tracepoint;
use super::watermark::PathCalls;
use crate::neutral::Detail;
use crate::system_calls::{self, FileOperation, SystemCall};
use crate::thread_ids::ThreadIds;

/// A program that was executed, as soon as its record is read.
#[derive(Clone, Debug)]
pub(crate) struct Executed {
    pub time: u64,
    pub process: u32,
    pub name: Vec<u8>,
}

/// A process that has begun, as soon as its record is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub time: u64,
    pub process: u32,
}

/// The name, arguments and user of a program, as soon as their record is read.
#[derive(Clone, Debug)]
pub(crate) struct ProgramFound {
    pub time: u64,
    pub process: u32,
    pub file: Vec<u8>,
    /// `None`: they are longer than the copied part of the stack.
    pub arguments: Option<Vec<u8>>,
    /// `None`: the record does not have it.
    pub user: Option<u32>,
}

impl ProgramFound {
    pub fn of(time: u64, program: &NewProgram<'_>) -> ProgramFound {
        ProgramFound {
            time,
            process: program.process,
            file: program.file.to_vec(),
            arguments: program.arguments(),
            user: program.known_user,
        }
    }
}

/// A descriptor that is that of another file now, as soon as its record is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DescriptorChange {
    pub time: u64,
    pub process: u32,
    pub thread: u32,
    /// Negative: the call failed.
    pub descriptor: i32,
    /// A call opened a file; otherwise it is closed or replaced.
    pub is_open: bool,
}

/// Looks at records as soon as they are read, for what must be looked up while the process still lives.
pub(super) struct Early<'p> {
    pub kinds: &'p HashMap<u64, Kind, RandomState>,
    pub exec_events: &'p [u64],
    /// Descriptors that change are noted.
    pub looks_files_up: bool,
    pub path_calls: &'p mut PathCalls,
    pub ids: &'p mut Option<ThreadIds>,
    pub executed: &'p mut Vec<Executed>,
    pub begun: &'p mut Vec<Begun>,
    pub programs_found: &'p mut Vec<ProgramFound>,
    pub changed: &'p mut Vec<DescriptorChange>,
    pub call_paths: &'p mut Vec<CallPath>,
}

impl Early<'_> {
    /// Takes a record of a path, which is no event of its own. Returns whether it was one.
    #[inline]
    pub fn take_path(&mut self, record: &[u8], common: Common) -> bool {
        let is_path = common.number == Some(bpf::number_of(Tracepoint::CallPaths));
        if is_path {
            self.call_paths.extend(CallPath::parse(record));
        }
        is_path
    }

    /// Looks for a call that begins or returns, whose paths programs record.
    pub fn look_at_call(&mut self, record: &[u8]) {
        let Some(moment) = CallMoment::parse(record) else { return };
        self.path_calls.look(moment);
        if changes_descriptor(moment.number)
            && let Some((process, descriptor)) = bpf::call_values(record)
        {
            self.changed.extend(Call { moment, process, descriptor }.descriptor_change());
        }
    }

    #[inline]
    pub fn look(&mut self, ring: RecordRing, record: &[u8], Common { time, number }: Common) {
        let Some(number) = number else {
            if let Some(exec) = is_exec(record) {
                let name = exec.name.to_vec();
                self.executed.push(Executed { time, process: exec.process, name });
            } else if let Some(process) = begun_process(record) {
                self.begun.push(Begun { time, process });
            }
            return;
        };
        if self.exec_events.contains(&number) {
            self.programs_found.extend(program_found((ring, record), time, self.kinds));
        }
        if let Some(ids) = self.ids {
            learn_ids((ring, record), self.kinds, ids);
        }
        if self.looks_files_up
            && let Some(call) = call((ring, record), self.kinds)
        {
            self.path_calls.look(call.moment);
            self.changed.extend(call.descriptor_change());
        }
    }
}

/// Learns the ids of a thread that leaves its CPU.
fn learn_ids(
    (ring, record): (RecordRing, &[u8]),
    kinds: &HashMap<u64, Kind, RandomState>,
    ids: &mut ThreadIds,
) {
    let kind = number_of(record).and_then(|number| kinds.get(&number));
    let Some(Kind::Tracepoint { point: Tracepoint::Switch, .. }) = kind else { return };
    let mut scratch = Scratch::default();
    let of_program = bpf::frequent(record);
    if let Some(parsed) = of_program.or_else(|| parse(ring, record, |_| kind, &mut scratch))
        && let PerfDetail::Neutral(Detail::Switch { old, .. }) = parsed.detail
    {
        ids.learn(old.thread, parsed.thread, parsed.time);
    }
}

/// The program of a record of an exec.
fn program_found(
    (ring, record): (RecordRing, &[u8]),
    time: u64,
    kinds: &HashMap<u64, Kind, RandomState>,
) -> Option<ProgramFound> {
    let kind = kinds.get(&number_of(record)?)?;
    let mut scratch = Scratch::default();
    let parsed = parse(ring, record, |_| Some(kind), &mut scratch)?;
    let PerfDetail::Program(program) = parsed.detail else { return None };
    Some(ProgramFound::of(time, &program))
}

/// A record of a system call.
struct Call {
    moment: CallMoment,
    process: u32,
    /// The first argument, or the result.
    descriptor: i64,
}

fn call(
    (ring, record): (RecordRing, &[u8]),
    kinds: &HashMap<u64, Kind, RandomState>,
) -> Option<Call> {
    let kind = kinds.get(&number_of(record)?)?;
    let Kind::Tracepoint { point: Tracepoint::SyscallEnter | Tracepoint::SyscallExit, .. } = kind
    else {
        return None;
    };
    let mut scratch = Scratch::default();
    let Parsed { time, process, thread, detail, .. } =
        parse(ring, record, |_| Some(kind), &mut scratch)?;
    let (number, descriptor, is_return) = match detail {
        PerfDetail::Neutral(Detail::SyscallExit { number, result }) => (number, result, true),
        PerfDetail::Neutral(Detail::SyscallEnter { number, arguments, .. }) => {
            (number, arguments[0] as i64, false)
        }
        _ => return None,
    };
    Some(Call { moment: CallMoment { thread, time, number, is_return }, process, descriptor })
}

/// Whether a system call opens, closes or duplicates a descriptor.
fn changes_descriptor(number: u64) -> bool {
    static CHANGING: LazyLock<Vec<u64>> = LazyLock::new(|| {
        use FileOperation::{Close, Open};
        let is_file = |call| matches!(call, SystemCall::File(Open | Close, _));
        system_calls::numbers(|call| {
            is_file(call) || matches!(call, SystemCall::Duplicate | SystemCall::Replace)
        })
    });
    CHANGING.contains(&number)
}

impl Call {
    /// The change of a descriptor that the record is about.
    fn descriptor_change(&self) -> Option<DescriptorChange> {
        let CallMoment { thread, time, number, is_return } = self.moment;
        let is_open = match (SystemCall::of_number(number)?, is_return) {
            (SystemCall::File(FileOperation::Open, _), true) => true,
            (SystemCall::Duplicate | SystemCall::Replace, true)
            | (SystemCall::File(FileOperation::Close, _), false) => false,
            _ => return None,
        };
        let descriptor = i32::try_from(self.descriptor).ok()?;
        Some(DescriptorChange { time, process: self.process, thread, descriptor, is_open })
    }
}
