//! The one encoder of the sink's events, for Rust and C.
//!
//! ```text
//! metadata   u16 size   80 00   name NUL   "content" NUL 02   "file" NUL 02   "func" NUL 02   "line" NUL 07
//!            for each pair: name NUL type, of a structure 98 and the number of its members
//! payload    content NUL   file NUL   func NUL   i32 line   the values in order, of structures nothing
//! ```
//!
//! Layout and limits are those of c-logging's ETW sink, byte for byte.

use crate::context::{Pair, Value};
use crate::level::LogLevel;

/// Bytes that the event's name, its fields and the message with its NUL may take together.
pub const MAX_SIZE: usize = 4096;
/// Pairs, structures among them.
pub const MAX_PAIRS: usize = 64;
/// Size and tag.
const HEAD: usize = 4;

const UNICODE_STRING: u8 = 1;
const ANSI_STRING: u8 = 2;
const INT8: u8 = 3;
const UINT8: u8 = 4;
const INT16: u8 = 5;
const UINT16: u8 = 6;
const INT32: u8 = 7;
const UINT32: u8 = 8;
const INT64: u8 = 9;
const UINT64: u8 = 10;
const BOOL32: u8 = 13;
/// `_TlgInSTRUCT | _TlgInChain`
const STRUCT: u8 = 0x98;

const COMMON: &[u8] = b"content\0\x02file\0\x02func\0\x02line\0\x07";

/// The metadata of an event without properties.
#[derive(Debug)]
struct Start {
    bytes: [u8; 48],
    size: usize,
}

static STARTS: [Start; 6] = [start(0), start(1), start(2), start(3), start(4), start(u32::MAX)];

const fn start(level: u32) -> Start {
    let name = LogLevel(level).event_name().as_bytes();
    let mut bytes = [0; 48];
    bytes[2] = 0x80;
    let mut size = HEAD;
    let mut n = 0;
    while n < name.len() {
        bytes[size] = name[n];
        size += 1;
        n += 1;
    }
    size += 1;
    n = 0;
    while n < COMMON.len() {
        bytes[size] = COMMON[n];
        size += 1;
        n += 1;
    }
    bytes[0] = size as u8;
    Start { bytes, size }
}

/// An event in the making: memory that is used again.
#[derive(Debug)]
pub struct Encoder {
    start: &'static Start,
    metadata: Vec<u8>,
    payload: Vec<u8>,
    /// Size of metadata without properties, of [`MAX_SIZE`].
    base: usize,
    /// A message that is too long is cut at any byte.
    cuts_anywhere: bool,
}

impl Encoder {
    /// Without memory.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Encoder {
        Encoder {
            start: &STARTS[5],
            metadata: Vec::new(),
            payload: Vec::new(),
            base: 0,
            cuts_anywhere: false,
        }
    }

    /// Begins an event; what [`message`](Encoder::message) gets then is its content. `is_text`: a message that is too long is not
    /// cut within a UTF-8 character.
    pub fn begin(&mut self, level: LogLevel, is_text: bool) {
        self.cuts_anywhere = !is_text;
        self.payload.clear();
        self.start = match level.0 {
            level @ 0..5 => &STARTS[level as usize],
            _ => &STARTS[5],
        };
        self.base = self.start.size - HEAD;
    }

    /// For the message, without its NUL, at its end.
    pub fn message(&mut self) -> &mut Vec<u8> {
        &mut self.payload
    }

    /// The longest message of this event.
    pub fn longest_message(&self) -> usize {
        MAX_SIZE - self.base - 1
    }

    /// Ends the event: metadata and payload. `None` in place of a text: a lone NUL.
    pub fn finish(
        &mut self,
        file: Option<&[u8]>,
        func: Option<&[u8]>,
        line: i32,
        pairs: &[Pair<'_>],
    ) -> (&[u8], &[u8]) {
        let longest = self.longest_message();
        if self.payload.len() > longest {
            let end = match self.cuts_anywhere {
                true => longest,
                false => char_boundary(&self.payload, longest),
            };
            self.payload.truncate(end);
        }
        let message_size = self.payload.len() + 1;
        // What ends a text ends it for every reader: it is no part of one.
        if has_nul(&self.payload) {
            self.payload.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
        }
        self.payload.push(0);
        for text in [file, func] {
            push_text(&mut self.payload, text.unwrap_or_default());
        }
        self.payload.extend_from_slice(&line.to_le_bytes());
        let start = &self.start.bytes[..self.start.size];
        if pairs.is_empty() || pairs.len() > MAX_PAIRS || !self.properties(pairs, message_size) {
            return (start, &self.payload);
        }
        (&self.metadata, &self.payload)
    }

    /// All of them, or none: then metadata is of no use, and the payload as it was.
    fn properties(&mut self, pairs: &[Pair<'_>], message_size: usize) -> bool {
        let payload_end = self.payload.len();
        self.metadata.clear();
        self.metadata.extend_from_slice(&self.start.bytes[..self.start.size]);
        for pair in pairs {
            let known = self.property(pair);
            if !known || self.metadata.len() - HEAD + message_size > MAX_SIZE {
                self.payload.truncate(payload_end);
                return false;
            }
        }
        let size = self.metadata.len() as u16;
        self.metadata[..2].copy_from_slice(&size.to_le_bytes());
        true
    }

    fn property(&mut self, pair: &Pair<'_>) -> bool {
        push_text(&mut self.metadata, &pair.name);
        let payload = &mut self.payload;
        let in_type = match &pair.value {
            Value::Ansi(text) => {
                push_text(payload, text);
                ANSI_STRING
            }
            Value::Wide(units) => {
                let units = units.iter().take_while(|unit| **unit != 0);
                payload.extend(units.flat_map(|unit| unit.to_le_bytes()));
                payload.extend([0, 0]);
                UNICODE_STRING
            }
            Value::Bool(value) => {
                payload.extend_from_slice(&i32::from(*value).to_le_bytes());
                BOOL32
            }
            Value::Int64(value) => {
                payload.extend_from_slice(&value.to_le_bytes());
                INT64
            }
            Value::Uint64(value) => {
                payload.extend_from_slice(&value.to_le_bytes());
                UINT64
            }
            Value::Int32(value) => {
                payload.extend_from_slice(&value.to_le_bytes());
                INT32
            }
            Value::Uint32(value) => {
                payload.extend_from_slice(&value.to_le_bytes());
                UINT32
            }
            Value::Int16(value) => {
                payload.extend_from_slice(&value.to_le_bytes());
                INT16
            }
            Value::Uint16(value) => {
                payload.extend_from_slice(&value.to_le_bytes());
                UINT16
            }
            Value::Int8(value) => {
                payload.push(*value as u8);
                INT8
            }
            Value::Uint8(value) => {
                payload.push(*value);
                UINT8
            }
            Value::Struct(count) => {
                self.metadata.extend_from_slice(&[STRUCT, *count]);
                // A larger number would be read as a sign of tags.
                return *count < 0x80;
            }
            Value::Unknown => return false,
        };
        self.metadata.push(in_type);
        true
    }
}

/// Up to its NUL, and a NUL.
#[inline]
fn push_text(to: &mut Vec<u8>, text: &[u8]) {
    let text = match has_nul(text) {
        false => text,
        true => &text[..text.iter().position(|byte| *byte == 0).unwrap_or(text.len())],
    };
    to.reserve(text.len() + 1);
    to.extend_from_slice(text);
    to.push(0);
}

/// Names are short: two words that may overlap, where a search would be a call.
#[inline]
fn has_nul(text: &[u8]) -> bool {
    // A bit for each byte that is zero, and maybe for some above it.
    let in_word =
        |word: u64| word.wrapping_sub(0x0101_0101_0101_0101) & !word & 0x8080_8080_8080_8080;
    match text.len() {
        8..=16 => {
            let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) else {
                return false;
            };
            in_word(u64::from_le_bytes(*first)) | in_word(u64::from_le_bytes(*last)) != 0
        }
        4..8 => {
            let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) else {
                return false;
            };
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            in_word(u64::from(first) | u64::from(last) << 32) != 0
        }
        _ => text.contains(&0),
    }
}

/// The longest prefix of at most `longest` bytes that does not end within a character, where the text is UTF-8.
fn char_boundary(text: &[u8], longest: usize) -> usize {
    let is_inside = |at: usize| text.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let end = (longest.saturating_sub(3)..=longest).rev().find(|at| !is_inside(*at));
    end.unwrap_or(longest)
}

#[cfg(test)]
mod tests {
    use super::has_nul;

    #[test]
    fn nuls_are_found_wherever_they_are() {
        for length in 0..40 {
            let mut text: Vec<u8> = (0..length).map(|n| (n * 37 % 255 + 1) as u8).collect();
            assert!(!has_nul(&text), "{length}");
            for at in 0..length {
                let before = std::mem::replace(&mut text[at], 0);
                assert!(has_nul(&text), "{length} {at}");
                text[at] = before;
            }
        }
    }
}
