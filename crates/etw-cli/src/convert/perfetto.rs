//! Perfetto's trace packets.
//!
//! Source: the protobuf definitions in the Perfetto project's documentation (`TracePacket`, `TrackDescriptor`, `TrackEvent`, `DebugAnnotation`).

mod interned;
mod samples;

use super::{CpuSlice, Event, Lane, Shape, Target, Track};
use crate::join::{Names, StackFrame};
use crate::profile::{Span, SpanKind};
use etw_decode::{Field, Style, Value, Visitor};
use interned::{Interned, InternedData, Kind};
use prost::Message;
use std::collections::HashMap;
use std::io::{self, Write};

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    interned_data: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
    #[prost(message, optional, tag = "66")]
    perf_sample: Option<samples::PerfSample>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessDescriptor {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(string, optional, tag = "6")]
    process_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ThreadDescriptor {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(int32, tag = "2")]
    tid: i32,
    #[prost(string, optional, tag = "5")]
    thread_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct CounterDescriptor {}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    category_iids: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<Annotation>,
    #[prost(int32, tag = "9")]
    kind: i32,
    #[prost(uint64, optional, tag = "10")]
    name_iid: Option<u64>,
    #[prost(uint64, tag = "11")]
    track_uuid: u64,
    #[prost(double, optional, tag = "44")]
    double_counter_value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct Annotation {
    #[prost(uint64, tag = "1")]
    name_iid: u64,
    #[prost(bool, optional, tag = "2")]
    bool_value: Option<bool>,
    #[prost(uint64, optional, tag = "3")]
    uint_value: Option<u64>,
    #[prost(int64, optional, tag = "4")]
    int_value: Option<i64>,
    #[prost(double, optional, tag = "5")]
    double_value: Option<f64>,
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
    #[prost(uint64, optional, tag = "7")]
    pointer_value: Option<u64>,
    #[prost(message, repeated, tag = "11")]
    dict_entries: Vec<Annotation>,
    #[prost(message, repeated, tag = "12")]
    array_values: Vec<Annotation>,
    #[prost(uint64, optional, tag = "17")]
    string_value_iid: Option<u64>,
}

const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
const COUNTER: i32 = 4;
/// All packets but samples are of one writer.
const SEQUENCE: u32 = 1;

#[derive(Clone, PartialEq, Eq, Hash)]
enum Place {
    Process(u32),
    Track(Track),
    /// A lane behind lane 0.
    Lane(Lane),
    Counter(u32, String),
    Cpus,
    Cpu(u16),
}

impl Place {
    fn of(lane: Lane) -> Place {
        match lane.number {
            0 => Place::Track(lane.track),
            _ => Place::Lane(lane),
        }
    }
}

pub struct Perfetto<W: Write> {
    out: W,
    buffer: Vec<u8>,
    /// Tracks that were described, by number.
    places: HashMap<Place, u64>,
    /// Values of the events' sequence.
    interned: Interned,
    /// Values of the samples' sequence.
    samples: Interned,
    text: Vec<u8>,
    /// The CPU of the record that came last.
    cpu: u16,
}

impl<W: Write> Perfetto<W> {
    pub fn new(out: W) -> Perfetto<W> {
        Perfetto {
            out,
            buffer: Vec::new(),
            places: HashMap::new(),
            interned: Interned::default(),
            samples: Interned::default(),
            text: Vec::new(),
            cpu: 0,
        }
    }

    fn packet(&mut self, packet: Packet) -> io::Result<()> {
        self.buffer.clear();
        // Trace.packet
        prost::encoding::message::encode(1, &packet, &mut self.buffer);
        self.out.write_all(&self.buffer)
    }

    /// The track, described when it is first needed.
    fn track(&mut self, place: Place, names: &Names) -> io::Result<u64> {
        if let Some(known) = self.places.get(&place) {
            return Ok(*known);
        }
        let uuid = self.places.len() as u64 + 1;
        self.places.insert(place.clone(), uuid);
        let mut track = TrackDescriptor { uuid, ..TrackDescriptor::default() };
        match &place {
            Place::Process(process) => {
                let process_name = names.process_name(*process).map(str::to_owned);
                track.process = Some(ProcessDescriptor { pid: *process as i32, process_name });
            }
            Place::Track(Track::Thread(process, thread)) => {
                track.parent_uuid = Some(self.track(Place::Process(*process), names)?);
                let thread_name = names.thread_name(*thread).map(str::to_owned);
                let (pid, tid) = (*process as i32, *thread as i32);
                track.thread = Some(ThreadDescriptor { pid, tid, thread_name });
            }
            Place::Track(Track::Activity(process, id)) => {
                track.parent_uuid = Some(self.track(Place::Process(*process), names)?);
                track.name = Some(format!("activity {id}"));
            }
            Place::Lane(Lane { track: around, number }) => {
                track.parent_uuid = Some(self.track(Place::Track(*around), names)?);
                track.name = Some(format!("lane {number}"));
            }
            Place::Counter(process, name) => {
                track.parent_uuid = Some(self.track(Place::Process(*process), names)?);
                track.name = Some(name.clone());
                track.counter = Some(CounterDescriptor {});
            }
            Place::Cpus => track.name = Some("CPUs".to_owned()),
            Place::Cpu(cpu) => {
                track.parent_uuid = Some(self.track(Place::Cpus, names)?);
                track.name = Some(format!("CPU {cpu}"));
            }
        }
        self.packet(Packet {
            trusted_packet_sequence_id: SEQUENCE,
            track_descriptor: Some(track),
            ..Packet::default()
        })?;
        Ok(uuid)
    }

    /// A whole slice; its end has only a time.
    fn put_slice(&mut self, (start, end): (i64, i64), mut begin: TrackEvent) -> io::Result<()> {
        begin.kind = SLICE_BEGIN;
        let track_uuid = begin.track_uuid;
        self.put(start, begin)?;
        self.put_end(end, track_uuid)
    }

    fn put_end(&mut self, time: i64, track_uuid: u64) -> io::Result<()> {
        self.put(time, TrackEvent { kind: SLICE_END, track_uuid, ..TrackEvent::default() })
    }

    fn put(&mut self, time: i64, event: TrackEvent) -> io::Result<()> {
        let mut packet = Packet {
            timestamp: Some(u64::try_from(time).unwrap_or(0)),
            trusted_packet_sequence_id: SEQUENCE,
            track_event: Some(event),
            ..Packet::default()
        };
        self.interned.complete(&mut packet);
        self.packet(packet)
    }
}

impl<W: Write> Target for Perfetto<W> {
    fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.cpu = event.record.cpu;
        let mut shown = TrackEvent {
            name_iid: Some(self.interned.text(Kind::EventName, event.name)),
            category_iids: vec![self.interned.text(Kind::Category, event.provider)],
            ..TrackEvent::default()
        };
        let place = match &event.shape {
            Shape::Begin(lane) => {
                shown.kind = SLICE_BEGIN;
                Place::of(*lane)
            }
            Shape::End(lane) => {
                shown.kind = SLICE_END;
                Place::of(*lane)
            }
            Shape::Instant(track) => {
                shown.kind = INSTANT;
                Place::Track(*track)
            }
            Shape::Counter(track, name, value) => {
                let (Track::Thread(process, _) | Track::Activity(process, _)) = track;
                shown.kind = COUNTER;
                shown.double_counter_value = Some(*value);
                Place::Counter(*process, (*name).to_owned())
            }
        };
        shown.track_uuid = self.track(place, event.names)?;
        let (interned, text) = (&mut self.interned, &mut self.text);
        let mut annotations = Annotations { open: vec![Vec::new()], interned, text };
        if event.decoded.visit(event.record, &mut annotations).is_ok() {
            shown.debug_annotations = annotations.open.swap_remove(0);
        }
        self.put(event.time, shown)
    }

    fn span(&mut self, span: &Span, names: &Names) -> io::Result<()> {
        match &span.kind {
            SpanKind::Sample => {
                let sample = samples::packet(&mut self.samples, span, self.cpu);
                self.packet(sample)
            }
            SpanKind::OffCpu { reason, waker } => {
                let track = Track::Thread(span.process.unwrap_or(u32::MAX), span.thread);
                let track_uuid = self.track(Place::Track(track), names)?;
                let interned = &mut self.interned;
                let mut annotations = vec![text(interned, "stack", &stack_text(&span.frames))];
                if let Some(waker) = waker {
                    annotations.push(text(interned, "woken_by", &waker.text(names)));
                    annotations.push(text(interned, "waker_stack", &stack_text(&waker.frames)));
                }
                let name = format!("off CPU: {reason}");
                let begin = TrackEvent {
                    name_iid: Some(interned.text(Kind::EventName, &name)),
                    category_iids: vec![interned.text(Kind::Category, "off_cpu")],
                    track_uuid,
                    debug_annotations: annotations,
                    ..TrackEvent::default()
                };
                self.put_slice((span.start, span.start + span.duration), begin)
            }
        }
    }

    fn cpu_slice(&mut self, slice: &CpuSlice, names: &Names) -> io::Result<()> {
        let track_uuid = self.track(Place::Cpu(slice.cpu), names)?;
        let name_iid = Some(self.interned.text(Kind::EventName, &slice.name(names)));
        let begin = TrackEvent { name_iid, track_uuid, ..TrackEvent::default() };
        self.put_slice((slice.start, slice.end), begin)
    }

    fn finish(&mut self, _: &Names) -> io::Result<()> {
        self.out.flush()
    }
}

/// The functions of a stack, one a line, the innermost first.
fn stack_text(frames: &[StackFrame]) -> String {
    let names: Vec<String> = frames.iter().map(StackFrame::text).collect();
    names.join("\n")
}

/// A text that other slices are likely to have too.
fn text(interned: &mut Interned, name: &str, text: &str) -> Annotation {
    Annotation {
        name_iid: interned.text(Kind::AnnotationName, name),
        string_value_iid: Some(interned.text(Kind::StringValue, text)),
        ..Annotation::default()
    }
}

/// The fields of an event, nested as they are.
struct Annotations<'a> {
    open: Vec<Vec<Annotation>>,
    interned: &'a mut Interned,
    /// The text of a value.
    text: &'a mut Vec<u8>,
}

impl Annotations<'_> {
    fn name_iid(&mut self, field: &Field) -> u64 {
        self.interned.text(Kind::AnnotationName, &field.name)
    }

    fn put(&mut self, annotation: Annotation) {
        if let Some(innermost) = self.open.last_mut() {
            innermost.push(annotation);
        }
    }
}

impl Visitor for Annotations<'_> {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        if field.is_custom_length {
            return;
        }
        let mut annotation = Annotation { name_iid: self.name_iid(field), ..Annotation::default() };
        match value {
            Value::Bool(value) => annotation.bool_value = Some(value),
            Value::Int(value) => annotation.int_value = Some(value),
            Value::UInt(value) => annotation.uint_value = Some(value),
            Value::Hex(value) => annotation.pointer_value = Some(value),
            Value::F32(value) => annotation.double_value = Some(value.into()),
            Value::F64(value) => annotation.double_value = Some(value),
            _ => {
                self.text.clear();
                value.write_text(self.text, &Style::default());
                let text = String::from_utf8_lossy(self.text);
                annotation.string_value_iid = self.interned.repeated_value(&text);
                if annotation.string_value_iid.is_none() {
                    annotation.string_value = Some(text.into_owned());
                }
            }
        }
        self.put(annotation);
    }

    fn begin_array(&mut self, _: &Field, _: usize) {
        self.open.push(Vec::new());
    }

    fn end_array(&mut self, field: &Field) {
        let array_values = self.open.pop().unwrap_or_default();
        let name_iid = self.name_iid(field);
        self.put(Annotation { name_iid, array_values, ..Annotation::default() });
    }

    fn begin_struct(&mut self, _: &Field) {
        self.open.push(Vec::new());
    }

    fn end_struct(&mut self, field: &Field) {
        let dict_entries = self.open.pop().unwrap_or_default();
        let name_iid = self.name_iid(field);
        self.put(Annotation { name_iid, dict_entries, ..Annotation::default() });
    }
}
