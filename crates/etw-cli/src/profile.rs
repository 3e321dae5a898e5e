//! The profile of a trace: CPU samples, and the time that threads spent off their CPUs, with stacks and with who woke them.

mod table;

use crate::attribution::SAMPLE;
use crate::join::{Moment, Names, StackFrame};
use etw_decode::kernel_pointer_size;
use etw_host::report::read_waiting;
use etw_types::{EventRecord, Hook, le};
use std::collections::HashMap;

pub use table::{ProfileBy, ProfileTable};

const CSWITCH: Hook = Hook(0x0524);
const READY_THREAD: Hook = Hook(0x0532);
/// The time between two samples that Windows has by default, in nanoseconds.
const DEFAULT_INTERVAL: i64 = 1_000_000;
/// Threads that are followed; only a hostile trace has more.
const LIMIT: usize = 1 << 20;

/// A span of a thread's time, with its stack.
#[derive(Clone, Debug)]
pub struct Span {
    pub process: Option<u32>,
    pub thread: u32,
    /// That of the record at its end.
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
    waker: Option<Waker>,
}

/// Makes the spans of a trace, record by record.
#[derive(Debug, Default)]
pub struct Profiler {
    /// A sample was of a trace that does not name their interval.
    has_assumed_interval: bool,
    waiting: HashMap<(u32, u32), Waiting>,
    /// Those that made a thread ready that had not left its CPU yet: Linux records the wake-up of a thread that is about to sleep at once.
    early: HashMap<(u32, u32), Waker>,
    /// By file and CPU.
    running: HashMap<(u32, u16), u32>,
}

/// Windows' state of a thread that waits.
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
        (4, _) => "ended",
        _ => "ready",
    }
}

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

/// The thread that came to a CPU, and the one that left it.
pub fn switch_of(record: &EventRecord<'_>) -> Option<(u32, u32)> {
    record.hook.filter(|hook| *hook == CSWITCH)?;
    Some((le::u32(record.payload, 0)?, le::u32(record.payload, 4)?))
}

impl Profiler {
    /// The span that ends with a record, if a filter selects the record. The other records are needed, too: when a thread
    /// leaves its CPU, the switch has the ids of the next thread.
    pub fn take_selected(
        &mut self,
        record: &EventRecord<'_>,
        time: i64,
        names: &Named<'_>,
        is_selected: bool,
    ) -> Option<Span> {
        let has_stacks = names.has_stacks && is_selected;
        let span = self.take(record, time, &Named { has_stacks, ..*names });
        let span = span.filter(|_| is_selected)?;
        let is_sample = matches!(span.kind, SpanKind::Sample);
        self.has_assumed_interval |= is_sample && names.names.sample_interval(record).is_none();
        Some(span)
    }

    /// The span that ends with a record. `time`: nanoseconds; `names`: those of the trace and, if stacks are wanted, of functions.
    fn take(&mut self, record: &EventRecord<'_>, time: i64, names: &Named<'_>) -> Option<Span> {
        if let Some(waited) = read_waiting(record) {
            return self.still_waiting(record, time, waited, names);
        }
        match record.hook? {
            SAMPLE => self.sample(record, time, names),
            CSWITCH => self.switch(record, time, names),
            READY_THREAD => {
                self.ready(record, names);
                None
            }
            _ => None,
        }
    }

    /// Prints that the times of samples rest on an assumption. For the end of a command.
    pub fn report(&self) {
        if self.has_assumed_interval {
            eprintln!(
                "etw: note: no record names the interval of the CPU samples; 1 ms is assumed"
            );
        }
    }

    fn sample(&self, record: &EventRecord<'_>, time: i64, names: &Named<'_>) -> Option<Span> {
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
        let duration = names.names.sample_interval(record).unwrap_or(DEFAULT_INTERVAL);
        let kind = SpanKind::Sample;
        let (process, moment) = (owner.process, Moment::of(record));
        Some(Span { process, thread, moment, start: time, duration, kind, frames })
    }

    fn switch(&mut self, record: &EventRecord<'_>, time: i64, names: &Named<'_>) -> Option<Span> {
        let (payload, (new, old)) = (record.payload, switch_of(record)?);
        let (wait, state) = (*payload.get(12)?, *payload.get(14)?);
        let file = record.position.file_index;
        self.running.insert((file, record.cpu), new);
        let waker = self.early.remove(&(file, old)).filter(|_| state == WAITING);
        if old != 0 && self.waiting.len() < LIMIT {
            let waiting = Waiting { since: time, reason: reason(state, wait), waker };
            self.waiting.insert((file, old), waiting);
        }
        self.early.remove(&(file, new));
        let waiting = self.waiting.remove(&(file, new)).filter(|_| new != 0)?;
        let process = names.names.owner(record).process;
        Some(Span {
            process,
            thread: new,
            moment: Moment::of(record),
            start: waiting.since,
            duration: time - waiting.since,
            kind: SpanKind::OffCpu { reason: waiting.reason, waker: waiting.waker },
            frames: from_wait_on(names.functions_of(record)),
        })
    }

    /// The recording ends while a thread is off its CPU, `waited` nanoseconds after it left it.
    fn still_waiting(
        &mut self,
        record: &EventRecord<'_>,
        time: i64,
        waited: u64,
        names: &Named<'_>,
    ) -> Option<Span> {
        let thread = record.thread_id?;
        let known = self.waiting.remove(&(record.position.file_index, thread));
        // A full buffer may have lost the switch.
        let since = time.saturating_sub(i64::try_from(waited).ok()?);
        let Waiting { since, reason, waker } =
            known.unwrap_or(Waiting { since, reason: "Waiting", waker: None });
        Some(Span {
            process: record.process_id,
            thread,
            moment: Moment::of(record),
            start: since,
            duration: time - since,
            kind: SpanKind::OffCpu { reason, waker },
            frames: from_wait_on(names.functions_of(record)),
        })
    }

    /// `u32` thread, `i8` reason and increment of the adjustment, `u8` flags: 1 in an interrupt.
    fn ready(&mut self, record: &EventRecord<'_>, names: &Named<'_>) {
        let Some(thread) = le::u32(record.payload, 0) else { return };
        let file = record.position.file_index;
        let Some(waker) = self.running.get(&(file, record.cpu)) else { return };
        let waker = Waker {
            process: if *waker == 0 { Some(0) } else { names.names.process_of(*waker) },
            thread: *waker,
            moment: Moment::of(record),
            is_interrupt: record.payload.get(6).is_some_and(|flags| flags & 1 != 0),
            frames: names.functions_of(record),
        };
        match self.waiting.get_mut(&(file, thread)) {
            Some(waiting) => waiting.waker = Some(waker),
            None if self.early.len() < LIMIT => {
                self.early.insert((file, thread), waker);
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

    /// OV-23
    #[test]
    fn time_off_the_cpu_has_its_reason_and_its_waker() {
        let (mut profiler, names) = (Profiler::default(), Names::default());
        let names = Named { names: &names, has_stacks: true };
        let mut take =
            |hook, payload: &[u8], time| profiler.take(&record(hook, payload), time, &names);
        assert!(take(0x0524, &switch(8, 7, 6, 5), 100).is_none());
        assert!(take(0x0532, &[7, 0, 0, 0, 0, 0, 0, 0], 150).is_none());
        let span = take(0x0524, &switch(7, 8, 32, 1), 180).unwrap();
        assert_eq!((span.thread, span.start, span.duration), (7, 100, 80));
        let SpanKind::OffCpu { reason, waker } = span.kind else { panic!("off CPU") };
        assert_eq!((reason, waker.map(|waker| waker.thread)), ("UserRequest", Some(8)));
        let span = take(0x0524, &switch(8, 0, 0, 0), 300).unwrap();
        let SpanKind::OffCpu { reason, waker } = span.kind else { panic!("off CPU") };
        assert!(reason == "preempted" && waker.is_none());
    }

    /// OV-23: a program that hangs when the recording ends waits until then.
    #[test]
    fn a_wait_that_lasts_until_the_end_is_one() {
        let (mut profiler, names) = (Profiler::default(), Names::default());
        let names = Named { names: &names, has_stacks: true };
        assert!(profiler.take(&record(0x0524, &switch(8, 7, 6, 5)), 100, &names).is_none());
        let chain = etw_host::report::waiting_chain();
        let waited = 900u64.to_le_bytes();
        let mut end = EventRecord::new(HeaderType::Event64, &waited);
        end.provider = Some(etw_types::SYSTEM_EVENTS);
        end.extended = etw_types::ExtendedItems::parse_chain(&chain).unwrap().0;
        for (thread, start, reason) in [(7, 100, "UserRequest"), (9, 500, "Waiting")] {
            (end.process_id, end.thread_id) = (Some(6), Some(thread));
            let span = profiler.take(&end, start + 900, &names).unwrap();
            assert_eq!((span.process, span.thread), (Some(6), thread));
            assert_eq!((span.start, span.duration), (start, 900));
            let SpanKind::OffCpu { reason: found, waker } = span.kind else { panic!("off CPU") };
            assert!(found == reason && waker.is_none());
        }
        assert!(profiler.take(&record(0x0524, &switch(7, 8, 32, 1)), 2000, &names).is_none());
    }

    /// OV-23: another CPU makes a thread ready that is about to leave its CPU.
    #[test]
    fn a_wake_up_before_the_thread_has_left_its_cpu_counts() {
        let (mut profiler, names) = (Profiler::default(), Names::default());
        let names = Named { names: &names, has_stacks: true };
        let mut take = |cpu, hook, payload: &[u8], time| {
            let mut record = record(hook, payload);
            record.cpu = cpu;
            profiler.take(&record, time, &names)
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

    #[test]
    fn samples_last_as_long_as_their_interval_and_idle_time_has_none() {
        let (mut profiler, mut names) = (Profiler::default(), Names::default());
        let sample = |thread: u32| {
            [&0x1234u64.to_le_bytes()[..], &thread.to_le_bytes(), &[1, 0, 0, 0]].concat()
        };
        let mut take = |names: &Names, thread, time| {
            let named = Named { names, has_stacks: true };
            profiler.take_selected(&record(0x0f2e, &sample(thread)), time, &named, true)
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
                assert!(profiler.take(&record(hook, &[1; 8][..size]), 1, &names).is_none());
            }
        }
    }
}
