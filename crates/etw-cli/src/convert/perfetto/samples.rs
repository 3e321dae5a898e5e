//! CPU samples in Perfetto's packets, which name functions, modules and stacks by number.
//!
//! Source: the protobuf definitions in the Perfetto project's documentation (`PerfSample`).

use super::Packet;
use super::interned::{Interned, Kind};
use crate::join::StackFrame;
use crate::profile::Span;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct PerfSample {
    #[prost(uint32, optional, tag = "1")]
    cpu: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pid: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    tid: Option<u32>,
    #[prost(uint64, optional, tag = "4")]
    callstack_iid: Option<u64>,
    #[prost(uint32, optional, tag = "5")]
    cpu_mode: Option<u32>,
}

/// Samples are a sequence of their own: numbers are valid in one sequence.
const SEQUENCE: u32 = 2;
const USER_MODE: u32 = 2;

fn frame_number(interned: &mut Interned, frame: &StackFrame) -> u64 {
    let function = frame.function.as_ref().map(|name| interned.text(Kind::Function, name));
    let module = interned.text(Kind::ModulePath, &frame.module);
    interned.frame(function, module, if function.is_some() { 0 } else { frame.address })
}

/// The packet of a sample, with the values that it names for the first time.
pub fn packet(interned: &mut Interned, span: &Span, cpu: u16) -> Packet {
    let frames = span.frames.iter().rev();
    let frames: Vec<u64> = frames.map(|frame| frame_number(interned, frame)).collect();
    let mut packet = Packet {
        timestamp: Some(u64::try_from(span.start).unwrap_or(0)),
        trusted_packet_sequence_id: SEQUENCE,
        perf_sample: Some(PerfSample {
            cpu: Some(cpu.into()),
            pid: span.process,
            tid: Some(span.thread),
            callstack_iid: Some(interned.stack(&frames)),
            cpu_mode: Some(USER_MODE),
        }),
        ..Packet::default()
    };
    interned.complete(&mut packet);
    packet
}
