//! Interned data: a sequence of packets writes a text, function or stack once and then names it by number.
//!
//! Source: the protobuf definitions in the Perfetto project's documentation (`InternedData`, `TracePacket.SequenceFlags`).

use super::Packet;
use crate::convert::stack_table::{Numbered, Table};
use prost::Message;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

#[derive(Clone, PartialEq, Message)]
pub struct InternedData {
    #[prost(message, repeated, tag = "1")]
    event_categories: Vec<InternedString>,
    #[prost(message, repeated, tag = "2")]
    event_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "3")]
    debug_annotation_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "5")]
    function_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "6")]
    pub frames: Vec<Frame>,
    #[prost(message, repeated, tag = "7")]
    pub callstacks: Vec<Callstack>,
    #[prost(message, repeated, tag = "17")]
    mapping_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "19")]
    pub mappings: Vec<Mapping>,
    #[prost(message, repeated, tag = "29")]
    debug_annotation_string_values: Vec<InternedString>,
}

/// `InternedString`, and `EventCategory`, `EventName` and `DebugAnnotationName`, which have the same fields.
#[derive(Clone, PartialEq, Message)]
struct InternedString {
    #[prost(uint64, tag = "1")]
    iid: u64,
    #[prost(string, tag = "2")]
    text: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Frame {
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    #[prost(uint64, optional, tag = "2")]
    pub function_name_id: Option<u64>,
    #[prost(uint64, tag = "3")]
    pub mapping_id: u64,
    #[prost(uint64, tag = "4")]
    pub rel_pc: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Callstack {
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    /// The outermost function first.
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    pub frame_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Mapping {
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    #[prost(uint64, repeated, packed = "false", tag = "7")]
    pub path_string_ids: Vec<u64>,
}

const STATE_CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;
/// The bytes of one sequence's interned values. There are two sequences.
const LIMIT: usize = 32 << 20;
/// Bytes of a value in a table, besides its content: an estimate.
const ENTRY_SIZE: usize = 96;
/// A shorter text costs no more than its number.
const MIN_TEXT_SIZE: usize = 4;
/// The number of hashes of texts that were seen once.
const SEEN_COUNT: usize = 1 << 16;

/// The kind of a text: each has numbers of its own.
#[derive(Clone, Copy)]
pub enum Kind {
    Category,
    EventName,
    AnnotationName,
    StringValue,
    Function,
    ModulePath,
}

/// The values of one sequence that packets name by number.
///
/// Memory is bounded: when the values reach the limit, the sequence forgets all of them, its next packet says so, and
/// numbers begin again. Readers need that packet's flag only.
#[derive(Debug)]
pub struct Interned {
    /// By [`Kind`].
    texts: [Table<Arc<str>>; 6],
    /// Function and module.
    frames: Table<(Option<u64>, u64, u64)>,
    stacks: Table<Arc<[u64]>>,
    /// Values that the next packet introduces.
    pub new: InternedData,
    /// Whether the next packet has numbers.
    is_used: bool,
    /// Whether a packet has said that the state is cleared.
    is_begun: bool,
    size: usize,
    limit: usize,
    /// Hashes of texts, each at the place that its low bits name; a later text replaces an earlier one.
    seen: Vec<u64>,
    hasher: RandomState,
}

impl Default for Interned {
    fn default() -> Interned {
        Interned::with_limit(LIMIT)
    }
}

/// The number of a value in packets, which begin at 1.
fn iid(numbered: &Numbered) -> u64 {
    numbered.number as u64 + 1
}

impl Interned {
    fn with_limit(limit: usize) -> Interned {
        Interned {
            texts: Default::default(),
            frames: Table::default(),
            stacks: Table::default(),
            new: InternedData::default(),
            is_used: false,
            is_begun: false,
            size: 0,
            limit,
            seen: Vec::new(),
            hasher: RandomState::new(),
        }
    }

    /// The number of a value, and whether the packet has to introduce it.
    fn counted(&mut self, numbered: &Numbered, content_size: usize) -> (u64, bool) {
        self.is_used = true;
        if numbered.is_new {
            self.size += ENTRY_SIZE + content_size;
        }
        (iid(numbered), numbered.is_new)
    }

    /// The number of a text.
    pub fn text(&mut self, kind: Kind, text: &str) -> u64 {
        let numbered = self.texts[kind as usize].numbered_copy(text);
        let (iid, is_new) = self.counted(&numbered, text.len());
        if is_new {
            let list = match kind {
                Kind::Category => &mut self.new.event_categories,
                Kind::EventName => &mut self.new.event_names,
                Kind::AnnotationName => &mut self.new.debug_annotation_names,
                Kind::StringValue => &mut self.new.debug_annotation_string_values,
                Kind::Function => &mut self.new.function_names,
                Kind::ModulePath => {
                    self.new.mappings.push(Mapping { iid, path_string_ids: vec![iid] });
                    &mut self.new.mapping_paths
                }
            };
            list.push(InternedString { iid, text: text.to_owned() });
        }
        iid
    }

    /// The number of a string value that was seen before; `None`: the value is new or short, and is to be written in place.
    pub fn repeated_value(&mut self, text: &str) -> Option<u64> {
        if text.len() < MIN_TEXT_SIZE {
            return None;
        }
        if self.texts[Kind::StringValue as usize].find(text).is_none() {
            self.seen.resize(SEEN_COUNT, 0);
            let hash = self.hasher.hash_one(text);
            let place = &mut self.seen[hash as usize % SEEN_COUNT];
            if *place != hash {
                *place = hash;
                return None;
            }
        }
        Some(self.text(Kind::StringValue, text))
    }

    /// The number of a function in a module, or of an address in it.
    pub fn frame(&mut self, function: Option<u64>, module: u64, address: u64) -> u64 {
        let numbered = self.frames.numbered((function, module, address));
        let (iid, is_new) = self.counted(&numbered, 0);
        if is_new {
            let (function_name_id, mapping_id) = (function, module);
            self.new.frames.push(Frame { iid, function_name_id, mapping_id, rel_pc: address });
        }
        iid
    }

    /// The number of a stack, whose outermost function comes first.
    pub fn stack(&mut self, frames: &[u64]) -> u64 {
        let numbered = self.stacks.numbered_copy(frames);
        let (iid, is_new) = self.counted(&numbered, size_of_val(frames));
        if is_new {
            self.new.callstacks.push(Callstack { iid, frame_ids: frames.to_vec() });
        }
        iid
    }

    /// Adds the new values and flags to the sequence's next packet.
    pub fn complete(&mut self, packet: &mut Packet) {
        if !std::mem::take(&mut self.is_used) {
            return;
        }
        let is_begun = std::mem::replace(&mut self.is_begun, true);
        let cleared = if is_begun { 0 } else { STATE_CLEARED };
        packet.sequence_flags = Some(cleared | NEEDS_STATE);
        let new = std::mem::take(&mut self.new);
        packet.interned_data = (new != InternedData::default()).then_some(new);
        if self.size > self.limit {
            *self = Interned::with_limit(self.limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sequence that gets new texts without end.
    #[test]
    fn malicious_texts_are_forgotten_at_the_limit() {
        let limit = 10_000;
        let mut interned = Interned::with_limit(limit);
        let (mut introduced, mut cleared) = (0, 0);
        for number in 0..1000 {
            let text = format!("text {number:0100}");
            let iid = interned.text(Kind::StringValue, &text);
            let name = interned.text(Kind::EventName, "event");
            let mut packet = Packet::default();
            interned.complete(&mut packet);
            assert!(interned.size <= limit, "{} bytes", interned.size);
            let flags = packet.sequence_flags.unwrap();
            let new = packet.interned_data.unwrap();
            assert_eq!(new.debug_annotation_string_values, [InternedString { iid, text }]);
            // Numbers and names do not outlive the state.
            let is_cleared = flags & STATE_CLEARED != 0;
            assert_eq!((iid == 1, name, new.event_names.len()), (is_cleared, 1, is_cleared.into()));
            assert_eq!(flags & NEEDS_STATE, NEEDS_STATE);
            introduced += new.event_names.len();
            cleared += usize::from(is_cleared);
        }
        assert_eq!(introduced, cleared);
        assert!((10..100).contains(&cleared), "{cleared}");
    }

    #[test]
    fn values_have_numbers_from_their_second_use() {
        let mut interned = Interned::default();
        assert_eq!(interned.repeated_value("once"), None);
        let mut packet = Packet::default();
        interned.complete(&mut packet);
        assert_eq!(packet, Packet::default());
        assert_eq!(interned.repeated_value("once"), Some(1));
        assert_eq!(interned.repeated_value("once"), Some(1));
        interned.complete(&mut packet);
        let new = packet.interned_data.unwrap();
        assert_eq!(new.debug_annotation_string_values.len(), 1);
        for _ in 0..3 {
            assert_eq!(interned.repeated_value("abc"), None);
        }
    }
}
