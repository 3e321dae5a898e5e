//! Chrome's trace event format: `{"traceEvents":[…]}`.
//!
//! Times are those since the first record: viewers read them as doubles, which tell microseconds since 1970 to a quarter of one only.
//!
//! Source: "Trace Event Format" as published with the Chromium project.

use super::stack_table::StackTree;
use super::{CpuSlice, Event, Lane, Shape, Target, Track, drain};
use crate::join::{Names, StackFrame};
use crate::profile::{Span, SpanKind};
use etw_decode::{Field, Style, Value, Visitor, write_json_string};
use etw_types::FileTime;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// The process under which CPUs are shown; no process of Windows has it.
const CPUS: u32 = 0xffff_fff0;

pub struct Chrome<W: Write> {
    out: W,
    buffer: Vec<u8>,
    /// Whether an event was written, behind which others have a comma.
    has_events: bool,
    threads: BTreeSet<(u32, u32)>,
    cpus: BTreeSet<u16>,
    stacks: StackTree,
    /// The members of `samples`.
    samples: Vec<u8>,
    /// The CPU of the record that came last.
    cpu: u16,
    /// The time of the first record.
    origin: Option<i64>,
}

impl<W: Write> Chrome<W> {
    pub fn new(mut out: W) -> io::Result<Chrome<W>> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
        Ok(Chrome {
            out,
            buffer: Vec::new(),
            has_events: false,
            threads: BTreeSet::new(),
            cpus: BTreeSet::new(),
            stacks: StackTree::default(),
            samples: Vec::new(),
            cpu: 0,
            origin: None,
        })
    }

    fn open(&mut self, phase: &str, name: &str, process: u32, thread: u32) {
        if std::mem::replace(&mut self.has_events, true) {
            self.buffer.extend_from_slice(b",\n");
        }
        self.buffer.extend_from_slice(b"{\"name\":");
        write_json_string(&mut self.buffer, name);
        self.put(format_args!(",\"ph\":\"{phase}\",\"pid\":{process},\"tid\":{thread}"));
    }

    fn put(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a Vec cannot fail.
        let _ = self.buffer.write_fmt(arguments);
    }

    /// A time, as that since the first record.
    fn since_start(&self, time: i64) -> i64 {
        time.saturating_sub(self.origin.unwrap_or(0))
    }

    fn start_time(&mut self, time: i64) {
        let time = microseconds(self.since_start(time));
        self.put(format_args!(",\"ts\":{time}"));
    }

    fn duration(&mut self, nanoseconds: i64) {
        self.put(format_args!(",\"dur\":{}", microseconds(nanoseconds)));
    }

    /// The time that the others count from, as text: a double does not hold it.
    fn put_origin(&mut self) {
        let Some(origin) = self.origin else { return };
        let time = FileTime(FileTime::UNIX_EPOCH.0.saturating_add(origin / 100));
        self.put(format_args!(
            ",\n\"otherData\":{{\"start\":\"{time}\",\"start_ns_since_1970\":\"{origin}\"}}"
        ));
    }

    fn arguments(&mut self, event: &Event<'_>) {
        self.buffer.extend_from_slice(b",\"args\":{");
        let start = self.buffer.len();
        let mut fields = Arguments { out: &mut self.buffer, arrays: 0, first: true };
        if event.decoded.visit(event.record, &mut fields).is_err() {
            self.buffer.truncate(start);
        }
        self.buffer.push(b'}');
    }

    /// The functions of a stack, the innermost first.
    fn stack(&mut self, frames: &[StackFrame]) {
        self.buffer.push(b'[');
        for (number, frame) in frames.iter().enumerate() {
            if number > 0 {
                self.buffer.push(b',');
            }
            write_json_string(&mut self.buffer, &frame.text());
        }
        self.buffer.push(b']');
    }

    /// The stacks of samples and waits, and the samples.
    fn put_stacks(&mut self) {
        let stacks = std::mem::take(&mut self.stacks);
        if stacks.nodes.values().is_empty() {
            return;
        }
        self.buffer.extend_from_slice(b",\n\"stackFrames\":{");
        for (number, (caller, function)) in stacks.nodes.values().iter().enumerate() {
            let separator = if number == 0 { "\n" } else { ",\n" };
            self.put(format_args!("{separator}\"{number}\":{{\"name\":"));
            write_json_string(&mut self.buffer, &stacks.functions.values()[*function]);
            if let Some(caller) = caller {
                self.put(format_args!(",\"parent\":{caller}"));
            }
            self.buffer.push(b'}');
        }
        self.buffer.extend_from_slice(b"\n},\n\"samples\":[");
        let samples = std::mem::take(&mut self.samples);
        self.buffer.extend_from_slice(&samples);
        self.buffer.extend_from_slice(b"\n]");
    }

    fn meta(&mut self, what: &str, name: &str, process: u32, thread: u32) {
        self.open("M", what, process, thread);
        self.buffer.extend_from_slice(b",\"args\":{\"name\":");
        write_json_string(&mut self.buffer, name);
        self.buffer.extend_from_slice(b"}}");
    }
}

impl<W: Write> Target for Chrome<W> {
    fn begin(&mut self, time: i64) {
        self.origin.get_or_insert(time);
    }

    fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.cpu = event.record.cpu;
        let (phase, track) = match &event.shape {
            Shape::Begin(lane) => (if lane.is_thread() { "B" } else { "b" }, &lane.track),
            Shape::End(lane) => (if lane.is_thread() { "E" } else { "e" }, &lane.track),
            Shape::Instant(track) => ("i", track),
            Shape::Counter(track, ..) => ("C", track),
        };
        let (process, thread) = match track {
            Track::Thread(process, thread) => (*process, *thread),
            Track::Activity(process, _) => (*process, event.record.thread_id.unwrap_or(u32::MAX)),
        };
        self.threads.insert((process, thread));
        self.open(phase, event.name, process, thread);
        self.buffer.extend_from_slice(b",\"cat\":");
        write_json_string(&mut self.buffer, event.provider);
        self.start_time(event.time);
        match &event.shape {
            Shape::Begin(lane) | Shape::End(lane) if !lane.is_thread() => {
                let number = lane.number;
                let id = match track {
                    Track::Activity(_, id) if number == 0 => id.to_string(),
                    Track::Activity(_, id) => format!("{id}.{number}"),
                    Track::Thread(..) => format!("{process}.{thread}.{number}"),
                };
                self.put(format_args!(",\"id\":\"{id}\""));
                self.arguments(event);
            }
            Shape::Counter(_, _, value) => {
                self.put(format_args!(",\"args\":{{\"value\":{value}}}"))
            }
            Shape::Instant(_) => {
                self.buffer.extend_from_slice(b",\"s\":\"t\"");
                self.arguments(event);
            }
            _ => self.arguments(event),
        }
        self.buffer.push(b'}');
        drain(&mut self.out, &mut self.buffer)
    }

    fn span(&mut self, span: &Span, names: &Names) -> io::Result<()> {
        let node = self.stacks.node(&span.frames);
        let process = span.process.unwrap_or(u32::MAX);
        match &span.kind {
            SpanKind::Sample => {
                let separator = if self.samples.is_empty() { "\n" } else { ",\n" };
                let time = microseconds(self.since_start(span.start));
                let frame = node.map_or(String::new(), |node| format!(",\"sf\":{node}"));
                // Writing to a Vec cannot fail.
                let _ = write!(
                    self.samples,
                    "{separator}{{\"cpu\":{},\"pid\":{process},\"tid\":{},\"ts\":{time},\"name\":\"CPU sample\",\"weight\":{}{frame}}}",
                    self.cpu, span.thread, span.duration
                );
                Ok(())
            }
            SpanKind::OffCpu { reason, waker } => {
                self.threads.insert((process, span.thread));
                self.open("X", &format!("off CPU: {reason}"), process, span.thread);
                self.buffer.extend_from_slice(b",\"cat\":\"off_cpu\"");
                self.start_time(span.start);
                self.duration(span.duration);
                if let Some(node) = node {
                    self.put(format_args!(",\"sf\":{node}"));
                }
                self.buffer.extend_from_slice(b",\"args\":{\"stack\":");
                self.stack(&span.frames);
                if let Some(waker) = waker {
                    self.buffer.extend_from_slice(b",\"woken_by\":");
                    write_json_string(&mut self.buffer, &waker.text(names));
                    self.buffer.extend_from_slice(b",\"waker_stack\":");
                    self.stack(&waker.frames);
                }
                self.buffer.extend_from_slice(b"}}");
                drain(&mut self.out, &mut self.buffer)
            }
        }
    }

    fn cpu_slice(&mut self, slice: &CpuSlice, names: &Names) -> io::Result<()> {
        self.cpus.insert(slice.cpu);
        self.open("X", &slice.name(names), CPUS, u32::from(slice.cpu));
        self.start_time(slice.start);
        self.duration(slice.end - slice.start);
        self.buffer.push(b'}');
        drain(&mut self.out, &mut self.buffer)
    }

    fn finish(&mut self, names: &Names) -> io::Result<()> {
        let processes: BTreeSet<u32> = self.threads.iter().map(|(process, _)| *process).collect();
        for process in processes {
            if let Some(name) = names.process_name(process) {
                self.meta("process_name", name, process, 0);
            }
        }
        for (process, thread) in std::mem::take(&mut self.threads) {
            if let Some(name) = names.thread_name(thread) {
                self.meta("thread_name", name, process, thread);
            }
        }
        if !self.cpus.is_empty() {
            self.meta("process_name", "CPUs", CPUS, 0);
        }
        for cpu in std::mem::take(&mut self.cpus) {
            self.meta("thread_name", &format!("CPU {cpu}"), CPUS, cpu.into());
        }
        self.buffer.extend_from_slice(b"\n]");
        self.put_stacks();
        self.put_origin();
        self.buffer.extend_from_slice(b"}\n");
        drain(&mut self.out, &mut self.buffer)?;
        self.out.flush()
    }
}

impl Lane {
    /// Whether its slices are those of the thread; all others are asynchronous ones with an id.
    fn is_thread(self) -> bool {
        matches!(self, Lane { track: Track::Thread(..), number: 0 })
    }
}

/// Nanoseconds as microseconds.
fn microseconds(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let all = nanoseconds.unsigned_abs();
    format!("{sign}{}.{:03}", all / 1000, all % 1000)
}

/// The fields of an event as JSON members.
struct Arguments<'o> {
    out: &'o mut Vec<u8>,
    arrays: usize,
    first: bool,
}

impl Arguments<'_> {
    fn key(&mut self, field: &Field, in_array: bool) {
        if !std::mem::replace(&mut self.first, false) {
            self.out.push(b',');
        }
        if !in_array {
            self.out.extend_from_slice(field.json_key());
        }
    }
}

impl Visitor for Arguments<'_> {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        if field.is_custom_length {
            return;
        }
        self.key(field, field.is_array() && self.arrays > 0);
        value.write_json(self.out, &Style { json_strings64: true, ..Style::default() });
    }

    fn begin_array(&mut self, field: &Field, _: usize) {
        self.key(field, false);
        self.out.push(b'[');
        self.arrays += 1;
        self.first = true;
    }

    fn end_array(&mut self, _: &Field) {
        self.out.push(b']');
        self.arrays -= 1;
        self.first = false;
    }

    fn begin_struct(&mut self, field: &Field) {
        self.key(field, field.is_array());
        self.out.push(b'{');
        self.first = true;
    }

    fn end_struct(&mut self, _: &Field) {
        self.out.push(b'}');
        self.first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::microseconds;

    #[test]
    fn times_before_the_first_record_are_negative() {
        for (nanoseconds, text) in [(0, "0.000"), (1_234_567, "1234.567"), (-500, "-0.500")] {
            assert_eq!(microseconds(nanoseconds), text);
        }
    }
}
