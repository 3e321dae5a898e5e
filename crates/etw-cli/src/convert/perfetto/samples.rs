//! CPU samples in Perfetto's packets: functions, modules and stacks are written once and then named by number.
//!
//! Source: the protobuf definitions in the Perfetto project's documentation (`PerfSample`, `InternedData`).

use super::Packet;
use crate::convert::stack_table::{Numbered, Table};
use crate::join::StackFrame;
use crate::profile::Span;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct InternedData {
    #[prost(message, repeated, tag = "5")]
    function_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "6")]
    frames: Vec<Frame>,
    #[prost(message, repeated, tag = "7")]
    callstacks: Vec<Callstack>,
    #[prost(message, repeated, tag = "17")]
    mapping_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "19")]
    mappings: Vec<Mapping>,
}

#[derive(Clone, PartialEq, Message)]
struct InternedString {
    #[prost(uint64, tag = "1")]
    iid: u64,
    #[prost(bytes = "vec", tag = "2")]
    text: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Frame {
    #[prost(uint64, tag = "1")]
    iid: u64,
    #[prost(uint64, optional, tag = "2")]
    function_name_id: Option<u64>,
    #[prost(uint64, tag = "3")]
    mapping_id: u64,
    #[prost(uint64, tag = "4")]
    rel_pc: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Callstack {
    #[prost(uint64, tag = "1")]
    iid: u64,
    /// The outermost function first.
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    frame_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    iid: u64,
    #[prost(uint64, repeated, packed = "false", tag = "7")]
    path_string_ids: Vec<u64>,
}

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
const STATE_CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;
const USER_MODE: u32 = 2;

/// Functions, modules and stacks that were written.
#[derive(Debug, Default)]
pub struct Interned {
    functions: Table<String>,
    modules: Table<String>,
    /// Function and module.
    frames: Table<(Option<u64>, u64, u64)>,
    stacks: Table<Vec<u64>>,
    is_begun: bool,
}

/// The number of a value in packets, which begin at 1.
fn iid(numbered: &Numbered) -> u64 {
    numbered.number as u64 + 1
}

impl Interned {
    fn frame(&mut self, frame: &StackFrame, new: &mut InternedData) -> u64 {
        let function = frame.function.as_ref().map(|function| {
            let numbered = self.functions.numbered(function.to_string());
            let id = iid(&numbered);
            if numbered.is_new {
                let text = function.as_bytes().to_vec();
                new.function_names.push(InternedString { iid: id, text });
            }
            id
        });
        let numbered = self.modules.numbered(frame.module.to_string());
        let module = iid(&numbered);
        if numbered.is_new {
            let text = frame.module.as_bytes().to_vec();
            new.mapping_paths.push(InternedString { iid: module, text });
            new.mappings.push(Mapping { iid: module, path_string_ids: vec![module] });
        }
        let address = if function.is_some() { 0 } else { frame.address };
        let numbered = self.frames.numbered((function, module, address));
        let id = iid(&numbered);
        if numbered.is_new {
            let frame =
                Frame { iid: id, function_name_id: function, mapping_id: module, rel_pc: address };
            new.frames.push(frame);
        }
        id
    }

    /// The packet of a sample, with what it names for the first time.
    pub fn sample(&mut self, span: &Span, cpu: u16) -> Packet {
        let mut new = InternedData::default();
        let frames: Vec<u64> =
            span.frames.iter().rev().map(|frame| self.frame(frame, &mut new)).collect();
        let numbered = self.stacks.numbered(frames.clone());
        let stack = iid(&numbered);
        if numbered.is_new {
            new.callstacks.push(Callstack { iid: stack, frame_ids: frames });
        }
        let is_begun = std::mem::replace(&mut self.is_begun, true);
        let cleared = if is_begun { 0 } else { STATE_CLEARED };
        Packet {
            timestamp: Some(u64::try_from(span.start).unwrap_or(0)),
            trusted_packet_sequence_id: SEQUENCE,
            interned_data: (new != InternedData::default()).then_some(new),
            sequence_flags: Some(cleared | NEEDS_STATE),
            perf_sample: Some(PerfSample {
                cpu: Some(cpu.into()),
                pid: span.process,
                tid: Some(span.thread),
                callstack_iid: Some(stack),
                cpu_mode: Some(USER_MODE),
            }),
            ..Packet::default()
        }
    }
}
