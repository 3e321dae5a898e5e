//! The profile of a trace: CPU samples, and the time that threads spent off their CPUs, with stacks and with who woke them.

mod sample_rate;
mod table;

use crate::attribution::SAMPLE;
use crate::join::{Moment, Names, StackFrame};
use crate::machines::Machines;
use crate::switches::{Step, Switches, TWICE, switch_of};
use etw_decode::kernel_pointer_size;
use etw_host::report::{lacks_kernel, read_waiting};
use etw_types::{EventRecord, Hook, le};
use sample_rate::SampleRates;
use std::collections::HashMap;

pub use table::{ProfileBy, ProfileTable};

const READY_THREAD: Hook = Hook(0x0532);
const PROCESS_START: Hook = Hook(0x0301);
const THREAD_START: Hook = Hook(0x0501);
const THREAD_END: Hook = Hook(0x0502);
/// The time between two samples that Windows has by default, in nanoseconds.
const DEFAULT_INTERVAL: i64 = 1_000_000;
/// Threads that are followed; only a hostile trace has more.
const LIMIT: usize = 1 << 20;

/// A span of a thread's time, with its stack.
#[derive(Clone, Debug)]
pub struct Span {
    pub process: Option<u32>,
    pub thread: u32,
    /// The moment of the record at its end.
    pub moment: Moment,
    /// Its begin, in nanoseconds.
    pub start: i64,
    /// Nanoseconds.
    pub duration: i64,
    pub kind: SpanKind,
    /// The innermost function first.
    pub frames: Vec<StackFrame>,
}

/// The activity of a thread in a span.
#[derive(Clone, Debug)]
pub enum SpanKind {
    /// A CPU's timer found it running.
    Sample,
    /// It was off its CPU.
    OffCpu { reason: &'static str, waker: Option<Waker> },
}

impl SpanKind {
    /// The frames that stand inside of a wait's innermost function: its reason, and its waker if that is known.
    pub fn wait_frames(&self, names: &Names) -> Vec<String> {
        let SpanKind::OffCpu { reason, waker } = self else { return Vec::new() };
        let waker = waker.as_ref().map(|waker| format!("[woken by {}]", waker.text(names)));
        [format!("[{reason}]")].into_iter().chain(waker).collect()
    }
}

/// The thread that made another one ready.
#[derive(Clone, Debug)]
pub struct Waker {
    pub process: Option<u32>,
    pub thread: u32,
    pub moment: Moment,
    /// An interrupt that ran on the thread made it ready.
    pub is_interrupt: bool,
    /// The innermost function first; empty: no stack was recorded.
    pub frames: Vec<StackFrame>,
}

impl Waker {
    /// `sh (12/13)`, or the interrupt that ran on it.
    pub fn text(&self, names: &Names) -> String {
        let process = self
            .process
            .and_then(|process| names.process_name_at(process, self.moment))
            .unwrap_or("?");
        let id = self.process.map_or("?".to_owned(), |id| id.to_string());
        let on = if self.is_interrupt { "interrupt on " } else { "" };
        format!("{on}{process} ({id}/{})", self.thread)
    }
}

/// Names for the spans of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Named<'n> {
    pub names: &'n Names,
    /// Spans have their stacks.
    pub has_stacks: bool,
}

impl Named<'_> {
    fn functions_of(&self, record: &EventRecord<'_>) -> Vec<StackFrame> {
        if self.has_stacks { self.names.functions_of(record) } else { Vec::new() }
    }

    fn functions_at(
        &self,
        record: &EventRecord<'_>,
        process: Option<u32>,
        address: u64,
    ) -> Vec<StackFrame> {
        match self.has_stacks {
            true => self.names.functions_at(record, process, address),
            false => Vec::new(),
        }
    }
}

/// A thread that is off its CPU.
#[derive(Debug)]
struct Waiting {
    since: i64,
    reason: &'static str,
    woken: Option<Woken>,
    /// The file of a session that has ended meanwhile, and reported the wait until then.
    reported: Option<u32>,
}

#[derive(Debug)]
struct Woken {
    time: i64,
    waker: Waker,
}

/// The end of a wait, by the record that shows it.
struct WaitEnd {
    machine: u32,
    time: i64,
    moment: Moment,
    process: Option<u32>,
    thread: u32,
    frames: Vec<StackFrame>,
}

/// Makes the spans of a trace, record by record.
#[derive(Debug, Default)]
pub struct Profiler {
    /// A sample was of a trace that does not name their interval.
    has_assumed_interval: bool,
    has_samples: bool,
    /// A recording says that it lacks what happened in the kernel.
    lacks_kernel: bool,
    switches: Switches,
    rates: SampleRates,
    /// By machine and id.
    waiting: HashMap<(u32, u32), Waiting>,
    /// When threads last came to a CPU.
    came: HashMap<(u32, u32), i64>,
    /// Those that made a thread ready that had not left its CPU yet: Linux records the wake-up of a thread that is about to sleep at once.
    early: HashMap<(u32, u32), Woken>,
    /// When processes started, by machine and id.
    started: HashMap<(u32, u32), i64>,
    /// The first switches of the files.
    first_switches: HashMap<u32, i64>,
}

/// Windows' states of a thread that has ended, and of one that waits.
const TERMINATED: u8 = 4;
const WAITING: u8 = 5;

/// Why a thread left its CPU, from the state and wait reason of Windows.
fn reason(state: u8, wait: u8) -> &'static str {
    match (state, wait) {
        (WAITING, 0 | 7) => "Executive",
        (WAITING, 4 | 11) => "DelayExecution",
        (WAITING, 5 | 12) => "Suspended",
        (WAITING, 6 | 13) => "UserRequest",
        (WAITING, 15) => "WrQueue",
        (WAITING, _) => "Waiting",
        (_, 32) => "preempted",
        _ => "ready",
    }
}

/// Stands in place of the innermost function where there is no stack.
pub const NO_STACK: &str = "[no stack]";
/// The kernel's name in stacks.
pub const KERNEL: &str = "vmlinux";
/// Functions of the kernel with names that begin like this are on every thread's way off its CPU: the tracepoint of the switch, the
/// scheduler, and its forms for callers that wait for a time or for a device, or that are preempted.
const WAYS_OFF: [&str; 11] = [
    "__traceiter_",
    "perf_trace_",
    "bpf_trace_",
    "__bpf_trace_",
    "trace_sched_switch",
    "__schedule",
    "schedule",
    "io_schedule",
    "preempt_schedule",
    "__cond_resched",
    "dynamic_cond_resched",
];

/// The stack of a thread that left its CPU from the function on that waited or was preempted: the scheduler's own are the same in all. A
/// stack that has no others is as it is.
fn from_wait_on(mut frames: Vec<StackFrame>) -> Vec<StackFrame> {
    let is_way_off = |frame: &StackFrame| {
        let function = frame.function.as_deref().filter(|_| &*frame.module == KERNEL);
        function.is_some_and(|name| WAYS_OFF.iter().any(|way| name.starts_with(way)))
    };
    if let Some(wait) = frames.iter().position(|frame| !is_way_off(frame)) {
        frames.drain(..wait);
    }
    frames
}

impl Profiler {
    /// For files of these machines: what several sessions of one recorded counts once.
    pub fn of(machines: Machines) -> Profiler {
        Profiler { switches: Switches::of(machines), ..Profiler::default() }
    }

    /// The meaning of the next record for who runs on the CPUs. `time`: nanoseconds. The records of a trace go through here first, then through
    /// [`take_selected`](Profiler::take_selected).
    pub fn step(&mut self, record: &EventRecord<'_>, time: i64) -> Step {
        self.lacks_kernel |= lacks_kernel(record);
        if switch_of(record).is_some() {
            self.first_switches.entry(record.position.file_index).or_insert(time);
        }
        self.switches.take(record, time, TWICE)
    }

    /// The spans that end with a record, if a filter selects the record. The other records are needed, too: when a thread
    /// leaves its CPU, the switch has the ids of the next thread. A wait has several parts if switches may be missing inside of it.
    pub fn take_selected(
        &mut self,
        record: &EventRecord<'_>,
        (time, step): (i64, Step),
        names: &Named<'_>,
        is_selected: bool,
    ) -> Vec<Span> {
        let has_stacks = names.has_stacks && is_selected;
        let spans = self.take(record, (time, step), &Named { has_stacks, ..*names });
        if !is_selected {
            return Vec::new();
        }
        let is_sample = spans.iter().any(|span| matches!(span.kind, SpanKind::Sample));
        self.has_samples |= is_sample;
        self.has_assumed_interval |= is_sample && names.names.sample_interval(record).is_none();
        spans
    }

    /// The spans that end with a record. `time`: nanoseconds; `names`: those of the trace and, if stacks are wanted, of functions.
    fn take(
        &mut self,
        record: &EventRecord<'_>,
        (time, step): (i64, Step),
        names: &Named<'_>,
    ) -> Vec<Span> {
        if let Step::Switch { new, old } = step {
            return self.switch(record, time, (new, old), names);
        }
        if let Some(waited) = read_waiting(record) {
            return self.still_waiting(record, time, waited, names);
        }
        match record.hook {
            Some(SAMPLE) => return self.sample(record, time, names).into_iter().collect(),
            Some(READY_THREAD) => self.ready(record, time, names),
            Some(THREAD_START | THREAD_END) => self.forget(record),
            Some(PROCESS_START) if self.started.len() < LIMIT => {
                let process = names.names.owner(record).process;
                let machine = self.switches.machine(record);
                self.started.extend(process.map(|process| ((machine, process), time)));
            }
            _ => {}
        }
        Vec::new()
    }

    /// Prints what the times rest on. For the end of a command.
    pub fn report(&self) {
        if self.has_assumed_interval {
            eprintln!(
                "etw: note: no record names the interval of the CPU samples; 1 ms is assumed"
            );
        } else if self.rates.are_more() {
            eprintln!(
                "etw: note: there are more CPU samples than one session records: each stands for the time since the one before it"
            );
        }
        if self.has_samples && self.lacks_kernel {
            eprintln!(
                "etw: note: the CPU samples lack the time that programs spent in the kernel: recording it needs kernel.perf_event_paranoid at most 1, or CAP_PERFMON"
            );
        }
        let repeated = self.switches.repeated();
        if repeated > 0 {
            eprintln!(
                "etw: note: context switches that several sessions recorded: {repeated}; each counts once"
            );
        }
    }

    fn sample(&mut self, record: &EventRecord<'_>, time: i64, names: &Named<'_>) -> Option<Span> {
        let interval = names.names.sample_interval(record).unwrap_or(DEFAULT_INTERVAL);
        let cpu = (self.switches.machine(record), record.cpu);
        let duration = self.rates.time_of_sample(cpu, time, interval);
        let owner = names.names.owner(record);
        let thread = owner.thread?;
        // The idle threads use no CPU.
        if thread == 0 {
            return None;
        }
        let mut frames = names.functions_of(record);
        if frames.is_empty() {
            let address = match kernel_pointer_size(record) {
                4 => le::u32(record.payload, 0).map(u64::from),
                _ => le::u64(record.payload, 0),
            };
            frames = names.functions_at(record, owner.process, address?);
        }
        let kind = SpanKind::Sample;
        let (process, moment) = (owner.process, Moment::of(record));
        Some(Span { process, thread, moment, start: time, duration, kind, frames })
    }

    fn switch(
        &mut self,
        record: &EventRecord<'_>,
        time: i64,
        (new, old): (u32, u32),
        names: &Named<'_>,
    ) -> Vec<Span> {
        let (Some(wait), Some(state)) = (record.payload.get(12), record.payload.get(14)) else {
            return Vec::new();
        };
        let machine = self.switches.machine(record);
        let woken = self.early.remove(&(machine, old)).filter(|_| *state == WAITING);
        if old != 0 && *state != TERMINATED && self.waiting.len() < LIMIT {
            let reason = reason(*state, *wait);
            let waiting = Waiting { since: time, reason, woken, reported: None };
            self.waiting.insert((machine, old), waiting);
        }
        self.early.remove(&(machine, new));
        if new != 0 && self.came.len() < LIMIT {
            self.came.insert((machine, new), time);
        }
        let process = names.names.owner(record).process;
        // A thread with this id of a process with the same id may have died.
        let started = process.and_then(|process| self.started.get(&(machine, process)));
        let lives = |waiting: &Waiting| started.is_none_or(|started| waiting.since >= *started);
        // A session that recorded on while another one ended knows that the wait went on.
        let began = self.first_switches.get(&record.position.file_index);
        let is_known = |waiting: &Waiting| {
            let went_on = |ended| {
                ended != record.position.file_index && began.is_some_and(|at| *at <= waiting.since)
            };
            waiting.reported.is_none_or(went_on)
        };
        let waiting = self.waiting.remove(&(machine, new)).filter(|_| new != 0);
        match waiting.filter(|waiting| is_known(waiting) && lives(waiting)) {
            Some(waiting) => {
                let frames = from_wait_on(names.functions_of(record));
                let moment = Moment::of(record);
                self.spans(
                    waiting,
                    &WaitEnd { machine, time, moment, process, thread: new, frames },
                )
            }
            None => Vec::new(),
        }
    }

    /// The recording ends while a thread is off its CPU, `waited` nanoseconds after it left it.
    fn still_waiting(
        &mut self,
        record: &EventRecord<'_>,
        time: i64,
        waited: u64,
        names: &Named<'_>,
    ) -> Vec<Span> {
        let (Some(thread), Ok(waited)) = (record.thread_id, i64::try_from(waited)) else {
            return Vec::new();
        };
        let machine = self.switches.machine(record);
        let since = time.saturating_sub(waited);
        let waiting = match self.waiting.remove(&(machine, thread)) {
            Some(waiting) => waiting,
            // It came to a CPU meanwhile, and no switch shows that it left: nobody knows how long it waited.
            None if self.came.get(&(machine, thread)).is_some_and(|came| *came > since) => {
                return Vec::new();
            }
            // A full buffer may have lost the switch.
            None => Waiting { since, reason: "Waiting", woken: None, reported: None },
        };
        let reported = Some(record.position.file_index);
        let rest = Waiting { since: time, reported, woken: None, ..waiting };
        self.waiting.insert((machine, thread), rest);
        let frames = from_wait_on(names.functions_of(record));
        let (process, moment) = (record.process_id, Moment::of(record));
        self.spans(waiting, &WaitEnd { machine, time, moment, process, thread, frames })
    }

    /// The parts of a wait in which no switch may be missing.
    fn spans(&self, waiting: Waiting, end: &WaitEnd) -> Vec<Span> {
        let Waiting { since, reason, woken, .. } = waiting;
        let parts = self.switches.known_parts(end.machine, since, end.time);
        let mut woken = woken;
        let span = |(start, until): (i64, i64)| {
            let is_first = start == since;
            let is_of_part = |woken: &Woken| is_first || woken.time >= start;
            let waker = match until == end.time {
                true => woken.take().filter(is_of_part).map(|woken| woken.waker),
                false => None,
            };
            // Behind a gap, the thread may be off its CPU for another reason.
            let reason = if is_first { reason } else { "Waiting" };
            Span {
                process: end.process,
                thread: end.thread,
                moment: end.moment,
                start,
                duration: until - start,
                kind: SpanKind::OffCpu { reason, waker },
                frames: end.frames.clone(),
            }
        };
        parts.into_iter().map(span).collect()
    }

    /// A thread starts or ends: what is known of its id is another thread's.
    fn forget(&mut self, record: &EventRecord<'_>) {
        // The first version has the process behind the thread.
        let at = if record.descriptor.version == 0 { 0 } else { 4 };
        if let Some(thread) = le::u32(record.payload, at) {
            let key = (self.switches.machine(record), thread);
            self.waiting.remove(&key);
            self.came.remove(&key);
            self.early.remove(&key);
        }
    }

    /// `u32` thread, `i8` reason and increment of the adjustment, `u8` flags: 1 in an interrupt.
    fn ready(&mut self, record: &EventRecord<'_>, time: i64, names: &Named<'_>) {
        let Some(thread) = le::u32(record.payload, 0) else { return };
        let machine = self.switches.machine(record);
        let Some(waker) = self.switches.running(record) else { return };
        let waker = Waker {
            process: if waker == 0 { Some(0) } else { names.names.process_of(waker) },
            thread: waker,
            moment: Moment::of(record),
            is_interrupt: record.payload.get(6).is_some_and(|flags| flags & 1 != 0),
            frames: names.functions_of(record),
        };
        let woken = Woken { time, waker };
        match self.waiting.get_mut(&(machine, thread)) {
            Some(waiting) => waiting.woken = Some(woken),
            None if self.early.len() < LIMIT => {
                self.early.insert((machine, thread), woken);
            }
            None => {}
        }
    }
}

/// The names of the outermost frames of a span: its process and thread.
pub fn owner_names(span: &Span, names: &Names) -> [String; 2] {
    let process = match span.process {
        None => "?".to_owned(),
        Some(id) => match names.process_name_at(id, span.moment) {
            Some(name) => format!("{name} ({id})"),
            None => format!("process {id}"),
        },
    };
    let thread = match names.thread_name(span.thread) {
        Some(name) => format!("{name} ({})", span.thread),
        None => format!("thread {}", span.thread),
    };
    [process, thread]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::Origins;
    use etw_types::HeaderType;

    fn record(hook: u16, payload: &[u8]) -> EventRecord<'_> {
        let mut record = EventRecord::new(HeaderType::PerfInfo64, payload);
        record.hook = Some(Hook(hook));
        record.pointer_size = 8;
        record
    }

    fn switch(new: u32, old: u32, wait: u8, state: u8) -> Vec<u8> {
        [&new.to_le_bytes()[..], &old.to_le_bytes(), &[0; 4], &[wait, 1, state, 0], &[0; 8]]
            .concat()
    }

    /// The one span that ends with a record.
    fn take(
        profiler: &mut Profiler,
        record: &EventRecord<'_>,
        time: i64,
        names: &Named<'_>,
    ) -> Option<Span> {
        let step = profiler.step(record, time);
        let mut spans = profiler.take_selected(record, (time, step), names, true);
        assert!(spans.len() < 2, "{spans:?}");
        spans.pop()
    }

    /// OV-23
    #[test]
    fn time_off_the_cpu_has_its_reason_and_its_waker() {
        let (mut profiler, names) = (Profiler::default(), Names::default());
        let names = Named { names: &names, has_stacks: true };
        let mut take = |hook, payload: &[u8], time| {
            super::tests::take(&mut profiler, &record(hook, payload), time, &names)
        };
        assert!(take(0x0524, &switch(8, 7, 6, 5), 100).is_none());
        assert!(take(0x0532, &[7, 0, 0, 0, 0, 0, 0, 0], 150).is_none());
        let span = take(0x0524, &switch(7, 8, 32, 1), 180).unwrap();
        assert_eq!((span.thread, span.start, span.duration), (7, 100, 80));
        let SpanKind::OffCpu { reason, waker } = span.kind else { panic!("off CPU") };
        assert_eq!((reason, waker.map(|waker| waker.thread)), ("UserRequest", Some(8)));
        let span = take(0x0524, &switch(8, 7, 6, 5), 300).unwrap();
        let SpanKind::OffCpu { reason, waker } = span.kind else { panic!("off CPU") };
        assert!(reason == "preempted" && waker.is_none());
    }

    /// OV-23: a program that hangs when the recording ends waits until then.
    #[test]
    fn a_wait_that_lasts_until_the_end_is_one() {
        let (mut profiler, names) = (Profiler::default(), Names::default());
        let names = Named { names: &names, has_stacks: true };
        assert!(take(&mut profiler, &record(0x0524, &switch(8, 7, 6, 5)), 100, &names).is_none());
        let chain = etw_host::report::waiting_chain();
        let waited = 900u64.to_le_bytes();
        let mut end = EventRecord::new(HeaderType::Event64, &waited);
        end.provider = Some(etw_types::SYSTEM_EVENTS);
        end.extended = etw_types::ExtendedItems::parse_chain(&chain).unwrap().0;
        for (thread, start, reason) in [(7, 100, "UserRequest"), (9, 500, "Waiting")] {
            (end.process_id, end.thread_id) = (Some(6), Some(thread));
            let span = take(&mut profiler, &end, start + 900, &names).unwrap();
            assert_eq!((span.process, span.thread), (Some(6), thread));
            assert_eq!((span.start, span.duration), (start, 900));
            let SpanKind::OffCpu { reason: found, waker } = span.kind else { panic!("off CPU") };
            assert!(found == reason && waker.is_none());
        }
        assert!(take(&mut profiler, &record(0x0524, &switch(7, 8, 32, 1)), 2000, &names).is_none());
    }

    /// OV-23: a recorder that lost events may say that a thread waits which came to a CPU meanwhile.
    #[test]
    fn a_wait_that_a_switch_contradicts_is_none() {
        let (mut profiler, names) = (Profiler::default(), Names::default());
        let names = Named { names: &names, has_stacks: true };
        assert!(take(&mut profiler, &record(0x0524, &switch(8, 7, 6, 5)), 100, &names).is_none());
        assert!(take(&mut profiler, &record(0x0524, &switch(7, 8, 6, 5)), 600, &names).is_some());
        let chain = etw_host::report::waiting_chain();
        let mut wait = |thread, since: i64| {
            let waited = ((1000 - since) as u64).to_le_bytes();
            let mut end = EventRecord::new(HeaderType::Event64, &waited);
            end.provider = Some(etw_types::SYSTEM_EVENTS);
            end.extended = etw_types::ExtendedItems::parse_chain(&chain).unwrap().0;
            (end.process_id, end.thread_id) = (Some(6), Some(thread));
            take(&mut profiler, &end, 1000, &names).map(|span| (span.start, span.duration))
        };
        assert_eq!(wait(7, 100), None, "it has run since 600");
        assert_eq!(wait(8, 600), Some((600, 400)));
        assert_eq!(wait(7, 700), Some((700, 300)), "the switch was lost");
    }

    /// OV-23: another CPU makes a thread ready that is about to leave its CPU.
    #[test]
    fn a_wake_up_before_the_thread_has_left_its_cpu_counts() {
        let (mut profiler, names) = (Profiler::default(), Names::default());
        let names = Named { names: &names, has_stacks: true };
        let mut take = |cpu, hook, payload: &[u8], time| {
            let mut record = record(hook, payload);
            record.cpu = cpu;
            super::tests::take(&mut profiler, &record, time, &names)
        };
        let waker = |span: Option<Span>| match span.unwrap().kind {
            SpanKind::OffCpu { waker, .. } => waker.map(|waker| waker.thread),
            SpanKind::Sample => panic!("off CPU"),
        };
        assert!(take(1, 0x0524, &switch(9, 0, 0, 0), 90).is_none());
        assert!(take(0, 0x0524, &switch(7, 0, 0, 0), 100).is_none());
        take(1, 0x0532, &[7, 0, 0, 0, 0, 0, 0, 0], 110);
        assert!(take(0, 0x0524, &switch(8, 7, 6, WAITING), 111).is_none());
        assert_eq!(waker(take(0, 0x0524, &switch(7, 8, 32, 1), 120)), Some(9));
        // It did not wait after all: the wake-up says nothing of its next time off the CPU.
        take(1, 0x0532, &[7, 0, 0, 0, 0, 0, 0, 0], 130);
        assert!(take(0, 0x0524, &switch(0, 7, 32, 1), 140).is_none());
        assert_eq!(waker(take(0, 0x0524, &switch(7, 0, 0, 0), 150)), None);
        assert!(take(0, 0x0524, &switch(0, 7, 6, WAITING), 160).is_none());
        assert_eq!(waker(take(0, 0x0524, &switch(7, 0, 0, 0), 170)), None);
    }

    /// OV-23: two sessions of one machine recorded the same switches into two files.
    #[test]
    fn what_two_files_of_one_machine_have_counts_once() {
        let names = Names::default();
        let names = Named { names: &names, has_stacks: true };
        // The sum of the waits of thread 7, and of the times of its samples.
        let times = |boots: [i64; 2], ends_first: u32| {
            let mut profiler = Profiler::of(Machines::with_boots(&boots, &Origins::default()));
            let [mut waited, mut ran] = [0, 0];
            let mut both = |hook, payload: &[u8], time: i64, files: &[u32]| {
                for file in files {
                    let mut record = record(hook, payload);
                    record.position.file_index = *file;
                    let time = time + i64::from(*file);
                    if let Some(span) = take(&mut profiler, &record, time, &names) {
                        match span.kind {
                            SpanKind::Sample => ran += span.duration,
                            SpanKind::OffCpu { .. } => waited += span.duration,
                        }
                    }
                }
            };
            let sample = [&0x1234u64.to_le_bytes()[..], &[7, 0, 0, 0, 1, 0, 0, 0]].concat();
            for number in 1..101 {
                both(0x0f2e, &sample, number * DEFAULT_INTERVAL, &[0, 1]);
            }
            both(0x0524, &switch(0, 7, 6, WAITING), 200_000_000, &[0, 1]);
            both(0x0524, &switch(7, 0, 0, 0), 200_000_500, &[0, 1]);
            both(0x0524, &switch(0, 7, 6, WAITING), 300_000_000, &[0, 1]);
            let chain = etw_host::report::waiting_chain();
            let payload = 1000u64.to_le_bytes();
            let mut end = EventRecord::new(HeaderType::Event64, &payload);
            end.provider = Some(etw_types::SYSTEM_EVENTS);
            end.extended = etw_types::ExtendedItems::parse_chain(&chain).unwrap().0;
            end.thread_id = Some(7);
            end.position.file_index = ends_first;
            let span = take(&mut profiler, &end, 300_001_000, &names).unwrap();
            let until_end = span.duration;
            let mut both = |hook, payload: &[u8], time: i64, file: u32| {
                let mut record = record(hook, payload);
                record.position.file_index = file;
                take(&mut profiler, &record, time, &names).map_or(0, |span| span.duration)
            };
            let rest = both(0x0524, &switch(7, 0, 0, 0), 300_004_000, 1 - ends_first);
            (waited + until_end + rest, ran)
        };
        // The rates of the samples are the first to show that there are two sessions.
        let (waited, ran) = times([50, 51], 1);
        assert_eq!(waited, 500 + 4000);
        assert!((100_000_000..120_000_000).contains(&ran), "{ran}");
        assert_eq!(times([50, 51], 0).0, 500 + 4000);
        let (waited, ran) = times([50, 1 << 40], 1);
        assert!(waited > 2 * 500 + 4000 && ran == 200_000_000, "another machine: {waited}, {ran}");
    }

    #[test]
    fn samples_last_as_long_as_their_interval_and_idle_time_has_none() {
        let (mut profiler, mut names) = (Profiler::default(), Names::default());
        let sample = |thread: u32| {
            [&0x1234u64.to_le_bytes()[..], &thread.to_le_bytes(), &[1, 0, 0, 0]].concat()
        };
        let mut take = |names: &Names, thread, time| {
            let named = Named { names, has_stacks: true };
            super::tests::take(&mut profiler, &record(0x0f2e, &sample(thread)), time, &named)
        };
        let span = take(&names, 7, 5).unwrap();
        assert_eq!((span.duration, span.frames[0].text()), (1_000_000, "0x1234".to_owned()));
        let interval = [0u32, 2500, 0].map(u32::to_le_bytes).concat();
        names.take(&record(0x0f49, &interval), &mut etw_decode::Decoder::new());
        assert_eq!(take(&names, 7, 7).unwrap().duration, 250_000);
        assert!(take(&names, 0, 8).is_none());
    }

    /// OV-23: the innermost function of a wait is the one that waits, and none of the scheduler.
    #[test]
    fn the_stack_of_a_wait_begins_with_the_function_that_waits() {
        let rest = |stack: &[&str]| -> Vec<String> {
            let frame = |name: &&str| {
                let (module, function) = name.split_once('!').unwrap();
                let function = Some(function).filter(|name| !name.is_empty()).map(Into::into);
                StackFrame { module: module.into(), function, file: None, line: 0, address: 0 }
            };
            let frames = from_wait_on(stack.iter().map(frame).collect());
            frames.iter().filter_map(|frame| frame.function.as_deref().map(str::to_owned)).collect()
        };
        let switch = ["vmlinux!__traceiter_sched_switch", "vmlinux!__schedule", "vmlinux!schedule"];
        let of = |stack: &[&str]| rest(&[&switch[..], stack].concat());
        assert_eq!(of(&["vmlinux!futex_do_wait", "app!main"]), ["futex_do_wait", "main"]);
        assert_eq!(of(&["vmlinux!schedule_timeout", "vmlinux!do_poll"]), ["do_poll"]);
        assert_eq!(of(&["vmlinux!io_schedule", "vmlinux!wait", "vmlinux!schedule"])[0], "wait");
        assert_eq!(of(&["app!schedule"]), ["schedule"], "a program's own function");
        assert_eq!(of(&[]).len(), 3, "there is no other");
        assert_eq!(rest(&["vmlinux!", "vmlinux!schedule"]), ["schedule"], "no name is known");
    }

    #[test]
    fn malicious_payloads_give_no_spans() {
        let (mut profiler, names) = (Profiler::default(), Names::default());
        let names = Named { names: &names, has_stacks: true };
        for hook in [0x0524, 0x0532, 0x0f2e] {
            for size in 0..8 {
                let record = record(hook, &[1; 8][..size]);
                assert!(take(&mut profiler, &record, 1, &names).is_none());
            }
        }
    }
}
