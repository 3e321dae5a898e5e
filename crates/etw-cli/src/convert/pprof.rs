//! pprof's profile: samples with their count, nanoseconds on the CPU and nanoseconds off it.
//!
//! Source: the comments of `profile.proto` as published with the pprof project.

use super::stack_table::Table;
use super::{Event, Target, Written};
use crate::join::{Names, StackFrame, file_name};
use crate::profile::{KERNEL, NO_STACK, Span, SpanKind, owner_names};
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, Write};

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Eq, Hash, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    text: i64,
    #[prost(int64, tag = "3")]
    number: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
    #[prost(bool, tag = "10")]
    has_inline_frames: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// Values of a sample: their count, nanoseconds on the CPU, nanoseconds off it.
type Values = [i64; 3];

/// Spans with equal stacks and labels.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    locations: Vec<u64>,
    labels: Vec<Label>,
}

/// All processes of a program together.
#[derive(Debug, Default)]
struct Program {
    /// Their time on the CPU, and off it.
    times: (i64, i64),
    /// The number of its module, if it was in a stack.
    module: Option<usize>,
    /// A stack had a module that is not the kernel.
    has_user_code: bool,
}

pub struct Pprof<W: Write> {
    out: W,
    strings: Table<String>,
    /// Names of functions and files, as numbers of strings.
    functions: Table<[i64; 2]>,
    modules: Table<i64>,
    /// The programs that ran, by their names as numbers of strings.
    programs: HashMap<i64, Program>,
    /// Module, function and line.
    locations: Table<(usize, usize, u32)>,
    samples: HashMap<Key, Values>,
    order: Vec<Key>,
    first: Option<i64>,
    last: i64,
    period: i64,
}

impl<W: Write> Pprof<W> {
    pub fn new(out: W) -> Pprof<W> {
        let mut strings = Table::default();
        strings.number(String::new());
        Pprof {
            out,
            strings,
            functions: Table::default(),
            modules: Table::default(),
            programs: HashMap::new(),
            locations: Table::default(),
            samples: HashMap::new(),
            order: Vec::new(),
            first: None,
            last: 0,
            period: 0,
        }
    }

    fn string(&mut self, text: &str) -> i64 {
        self.strings.number(text.to_owned()) as i64
    }

    /// The number of a location; numbers begin at 1.
    fn location(&mut self, frame: &StackFrame) -> u64 {
        let name = match &frame.function {
            Some(function) => self.string(function),
            None => self.string(&frame.text()),
        };
        let file = self.string(frame.file.as_deref().unwrap_or(""));
        let module = match frame.module.is_empty() {
            true => 0,
            false => {
                let name = self.string(&frame.module);
                self.modules.number(name) + 1
            }
        };
        let function = self.functions.number([name, file]);
        self.locations.number((module, function, frame.line)) as u64 + 1
    }

    /// The number of a location that stands for a text.
    fn named_location(&mut self, text: &str) -> u64 {
        let function = [self.string(text), self.string("")];
        let function = self.functions.number(function);
        self.locations.number((0, function, 0)) as u64 + 1
    }

    fn label(&mut self, key: &str, text: &str) -> Label {
        Label { key: self.string(key), text: self.string(text), number: 0 }
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType { kind: self.string(kind), unit: self.string(unit) }
    }

    /// The modules. Readers take the first one for the main program: it is that of the processes with the most time on the CPU, or, if none was
    /// sampled, off it, even if no stack has its module; else one that is not the kernel.
    fn mappings(&self) -> Vec<Mapping> {
        let mapping = |(number, name): (usize, &i64)| Mapping {
            id: number as u64 + 1,
            filename: *name,
            has_functions: true,
            has_inline_frames: true,
        };
        let mut all: Vec<Mapping> = self.modules.values().iter().enumerate().map(mapping).collect();
        let is_kernel = |one: &Mapping| self.strings.values()[one.filename as usize] == KERNEL;
        // Threads of the kernel are no program.
        let programs = self.programs.iter().filter(|(_, one)| one.has_user_code);
        let main = programs.max_by_key(|(name, one)| (one.times, Reverse(**name)));
        let first = match main {
            Some((_, Program { module: Some(module), .. })) => Some(*module),
            Some((name, _)) => {
                all.push(mapping((all.len(), name)));
                Some(all.len() - 1)
            }
            None => all.iter().position(|one| !is_kernel(one)),
        };
        if let Some(first) = first {
            all[..=first].rotate_right(1);
        }
        all
    }

    fn profile(&mut self) -> Profile {
        let types = [("samples", "count"), ("cpu", "nanoseconds"), ("off_cpu", "nanoseconds")];
        let sample_type = types.map(|(kind, unit)| self.value_type(kind, unit)).to_vec();
        let samples = &self.samples;
        let sample = self.order.iter().map(|key| Sample {
            location_id: key.locations.clone(),
            value: samples.get(key).copied().unwrap_or_default().to_vec(),
            label: key.labels.clone(),
        });
        let locations = self.locations.values().iter().enumerate();
        let functions = self.functions.values().iter().enumerate();
        let id = |number: usize| number as u64 + 1;
        Profile {
            sample: sample.collect(),
            mapping: self.mappings(),
            location: locations
                .map(|(number, (module, function, line))| Location {
                    id: id(number),
                    mapping_id: *module as u64,
                    line: vec![Line { function_id: id(*function), line: i64::from(*line) }],
                })
                .collect(),
            function: functions
                .map(|(number, [name, file])| Function {
                    id: id(number),
                    name: *name,
                    // Readers take this for a mangled name, and shorten the other one.
                    system_name: 0,
                    filename: *file,
                })
                .collect(),
            string_table: self.strings.values().to_vec(),
            time_nanos: self.first.unwrap_or(0),
            duration_nanos: self.last - self.first.unwrap_or(self.last),
            period_type: sample_type.get(1).cloned(),
            period: self.period,
            default_sample_type: sample_type[1].kind,
            sample_type,
        }
    }
}

impl<W: Write> Target for Pprof<W> {
    fn event(&mut self, _: &Event<'_>) -> io::Result<()> {
        Ok(())
    }

    fn span(&mut self, span: &Span, names: &Names) -> io::Result<()> {
        let mut locations: Vec<u64> =
            span.frames.iter().map(|frame| self.location(frame)).collect();
        // Readers leave out what has no location.
        if locations.is_empty() {
            let text = span.kind.wait_frames(names).into_iter().next();
            let text = text.unwrap_or_else(|| NO_STACK.to_owned());
            locations.push(self.named_location(&text));
        }
        let program = span.process.and_then(|process| names.process_name_at(process, span.moment));
        if let Some(program) = program {
            // A module's label has its folder where other files have its name, too.
            let own = span.frames.iter().find(|frame| file_name(&frame.module) == program);
            let module = own.map(|frame| {
                let name = self.string(&frame.module);
                self.modules.number(name)
            });
            let is_user = |frame: &StackFrame| ![KERNEL, ""].contains(&&*frame.module);
            let name = self.string(program);
            let known = self.programs.entry(name).or_default();
            known.module = known.module.or(module);
            known.has_user_code |= span.frames.iter().any(is_user);
            match span.kind {
                SpanKind::Sample => known.times.0 += span.duration,
                SpanKind::OffCpu { .. } => known.times.1 += span.duration,
            }
        }
        let [process, thread] = owner_names(span, names);
        let mut labels = vec![self.label("process", &process), self.label("thread", &thread)];
        let values = match &span.kind {
            SpanKind::Sample => {
                self.period = span.duration;
                [1, span.duration, 0]
            }
            SpanKind::OffCpu { reason, waker } => {
                labels.push(self.label("wait", reason));
                if let Some(waker) = waker {
                    labels.push(self.label("woken by", &waker.text(names)));
                }
                [0, 0, span.duration]
            }
        };
        self.first = Some(self.first.map_or(span.start, |first| first.min(span.start)));
        self.last = self.last.max(span.start + span.duration);
        let key = Key { locations, labels };
        let sum = self.samples.entry(key.clone()).or_insert_with(|| {
            self.order.push(key);
            [0; 3]
        });
        sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        Ok(())
    }

    fn finish(&mut self, _: &Names) -> io::Result<()> {
        let bytes = self.profile().encode_to_vec();
        let mut out = GzEncoder::new(&mut self.out, Compression::default());
        out.write_all(&bytes)?;
        out.finish()?;
        self.out.flush()
    }

    fn written(&self) -> Option<Written> {
        Some(Written { count: self.order.len() as u64, unit: "stack" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::Moment;
    use etw_decode::Decoder;
    use etw_types::{EventRecord, HeaderType, Hook};
    use std::io::Read;

    fn frame(module: &str, function: &str) -> StackFrame {
        StackFrame {
            module: module.into(),
            function: Some(function.into()),
            file: None,
            line: 0,
            address: 0,
        }
    }

    /// Names of processes.
    fn names_of(processes: &[(u32, &[u8])]) -> Names {
        let mut names = Names::default();
        for (process, name) in processes {
            let payload = [&[0; 8][..], &process.to_le_bytes(), &[0; 28], name, &[0; 6]].concat();
            let mut record = EventRecord::new(HeaderType::PerfInfo64, &payload);
            record.hook = Some(Hook(0x0304));
            record.descriptor.version = 4;
            record.pointer_size = 8;
            names.take(&record, &mut Decoder::new());
        }
        names
    }

    fn profile_of(spans: &[Span], names: &Names) -> Profile {
        let mut out = Vec::new();
        let mut target = Pprof::new(&mut out);
        for span in spans {
            target.span(span, names).unwrap();
        }
        target.finish(names).unwrap();
        drop(target);
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&*out).read_to_end(&mut bytes).unwrap();
        Profile::decode(&*bytes).unwrap()
    }

    /// OV-23: a program that waits much is not the one that was profiled.
    const MOMENT: Moment = Moment { file_index: 0, time: 0 };

    #[test]
    fn the_first_mapping_is_the_program_with_the_most_time_on_the_cpu() {
        let names = names_of(&[(7, b"shop\0"), (8, b"host\0")]);
        let span = |process, module, duration, kind| {
            let frames = vec![frame(module, "main")];
            Span {
                process: Some(process),
                thread: 1,
                moment: MOMENT,
                start: 0,
                duration,
                kind,
                frames,
            }
        };
        let waits = || SpanKind::OffCpu { reason: "UserRequest", waker: None };
        let first = |spans: &[Span]| {
            let profile = profile_of(spans, &names);
            profile.string_table[profile.mapping[0].filename as usize].clone()
        };
        let host = [span(8, "host", 9000, waits()), span(8, "host", 10, SpanKind::Sample)];
        let [waited, ran] = host;
        assert_eq!(first(&[waited, ran, span(7, "shop", 50, SpanKind::Sample)]), "shop");
        assert_eq!(first(&[span(7, "shop", 1, waits()), span(8, "host", 9, waits())]), "host");
    }

    /// OV-23: the stacks of an interpreter's process may have its libraries alone.
    #[test]
    fn a_program_without_a_frame_of_its_own_is_the_first_mapping() {
        let names = names_of(&[(7, b"shop\0"), (8, b"host\0"), (2, b"kworker\0")]);
        let spans = [(7, "libshop.so", 90), (8, "host", 50), (2, KERNEL, 900)];
        let profile = profile_of(
            &spans.map(|(process, module, duration)| Span {
                process: Some(process),
                thread: 1,
                moment: MOMENT,
                start: 0,
                duration,
                kind: SpanKind::Sample,
                frames: vec![frame(module, "main")],
            }),
            &names,
        );
        let text = |number: i64| profile.string_table[number as usize].as_str();
        let all = profile.mapping.iter().map(|one| (one.id, text(one.filename)));
        let expected = [(4, "shop"), (1, "libshop.so"), (2, "host"), (3, KERNEL)];
        assert_eq!(all.collect::<Vec<_>>(), expected);
    }

    /// OV-23: readers show nothing of a sample without a location.
    #[test]
    fn a_wait_without_a_stack_has_its_reason_as_location() {
        let kind = SpanKind::OffCpu { reason: "preempted", waker: None };
        let (process, thread, moment) = (Some(7), 7, MOMENT);
        let span =
            Span { process, thread, moment, start: 0, duration: 5, kind, frames: Vec::new() };
        let profile = profile_of(&[span], &Names::default());
        let location = &profile.location[profile.sample[0].location_id[0] as usize - 1];
        let function = &profile.function[location.line[0].function_id as usize - 1];
        assert_eq!(profile.string_table[function.name as usize], "[preempted]");
        assert_eq!(location.mapping_id, 0);
    }

    /// OV-23: pprof shortens names that seem mangled, and takes the first mapping for the program.
    #[test]
    fn names_are_whole_and_the_first_mapping_is_no_kernel() {
        let frames = vec![frame("vmlinux", "do_it"), frame("shop", "<Cart>::add(int)")];
        let kind = SpanKind::Sample;
        let span = Span {
            process: Some(7),
            thread: 7,
            moment: MOMENT,
            start: 0,
            duration: 5,
            kind,
            frames,
        };
        let profile = profile_of(&[span], &Names::default());
        let text = |number: i64| profile.string_table[number as usize].as_str();
        let functions = profile.function.iter().map(|one| (text(one.name), text(one.system_name)));
        assert_eq!(functions.collect::<Vec<_>>(), [("do_it", ""), ("<Cart>::add(int)", "")]);
        assert_eq!(text(profile.mapping[0].filename), "shop");
        let of_shop = profile.location.iter().find(|one| one.line[0].function_id == 2).unwrap();
        assert_eq!(of_shop.mapping_id, profile.mapping[0].id);
    }
}
