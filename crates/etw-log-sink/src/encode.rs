//! The one encoder of the sink's events, for Rust and C.
//!
//! ```text
//! metadata   u16 size   80 00   name NUL   "content" NUL 02   "file" NUL 02   "func" NUL 02   "line" NUL 07
//!            for each pair: name NUL type, of a structure 98 and the number of its members
//! payload    content NUL   file NUL   func NUL   i32 line   the values in order, of structures nothing
//! ```
//!
//! Layout and limits are those of c-logging's ETW sink, byte for byte.

use etw::EventDescriptor;
use etw::rt::Site;

use crate::context::{Pair, Value};
use crate::level::LogLevel;
use crate::sites;

/// The limit in bytes for the name of the event, its fields and the message with its NUL together.
pub const MAX_SIZE: usize = 4096;
/// The limit of pairs, including structures.
pub const MAX_PAIRS: usize = 64;
/// The size of the size and the tag.
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

/// The number of shapes that an encoder caches.
const KNOWN: usize = 64;

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

/// A shape whose site is known.
#[derive(Debug)]
struct Known {
    start: &'static Start,
    site: &'static Site,
    /// Metadata behind the start: names, which have no NUL, and the types that [`push_value`] writes.
    fields: Vec<(&'static [u8], u16)>,
}

/// Encodes one event after another in the same memory.
#[derive(Debug)]
pub struct Encoder {
    start: &'static Start,
    /// Indexed by [`place_of`].
    known: Vec<Option<Known>>,
    metadata: Vec<u8>,
    payload: Vec<u8>,
    /// Size of metadata without properties, of [`MAX_SIZE`].
    base: usize,
    /// Whether a message that is too long is truncated between any two bytes.
    cuts_anywhere: bool,
}

impl Encoder {
    /// An encoder that has not allocated yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Encoder {
        Encoder {
            start: &STARTS[5],
            known: Vec::new(),
            metadata: Vec::new(),
            payload: Vec::new(),
            base: 0,
            cuts_anywhere: false,
        }
    }

    /// Starts an event. The caller then appends the message to [`message`](Encoder::message). `is_text`: a message that is too long is
    /// truncated between UTF-8 characters.
    pub fn begin(&mut self, level: LogLevel, is_text: bool) {
        self.cuts_anywhere = !is_text;
        self.payload.clear();
        self.start = match level.0 {
            level @ 0..5 => &STARTS[level as usize],
            _ => &STARTS[5],
        };
        self.base = self.start.size - HEAD;
    }

    /// The buffer to which the caller appends the message, without its NUL.
    pub fn message(&mut self) -> &mut Vec<u8> {
        &mut self.payload
    }

    /// The longest message of this event.
    pub fn longest_message(&self) -> usize {
        MAX_SIZE - self.base - 1
    }

    /// Ends the event. Returns its site (its metadata if there are too many shapes) and its payload. A text of `None` is empty.
    pub fn finish(
        &mut self,
        descriptor: &EventDescriptor,
        file: Option<&[u8]>,
        func: Option<&[u8]>,
        line: i32,
        pairs: &[Pair<'_>],
    ) -> (Result<&'static Site, &[u8]>, &[u8]) {
        let longest = self.longest_message();
        if self.payload.len() > longest {
            let end = match self.cuts_anywhere {
                true => longest,
                false => char_boundary(&self.payload, longest),
            };
            self.payload.truncate(end);
        }
        let message_size = self.payload.len() + 1;
        // A NUL inside the message would end the text for readers.
        if has_nul(&self.payload) {
            self.payload.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
        }
        self.payload.push(0);
        for text in [file, func] {
            push_text(&mut self.payload, text.unwrap_or_default());
        }
        self.payload.extend_from_slice(&line.to_le_bytes());
        let pairs = if pairs.len() > MAX_PAIRS { &[] } else { pairs };
        let place = place_of(self.start, pairs);
        if let Some(site) = self.known_properties(place, pairs, message_size) {
            if (site.level(), site.channel()) == (descriptor.level, descriptor.channel) {
                return (Ok(site), &self.payload);
            }
        }
        let pairs = if self.properties(pairs, message_size) { pairs } else { &[] };
        match sites::find(descriptor, &self.metadata) {
            Some(site) => {
                self.remember(site, pairs);
                (Ok(site), &self.payload)
            }
            None => (Err(&self.metadata), &self.payload),
        }
    }

    /// Appends the values of the pairs, if their shape is cached; otherwise changes nothing.
    #[inline]
    fn known_properties(
        &mut self,
        place: usize,
        pairs: &[Pair<'_>],
        message_size: usize,
    ) -> Option<&'static Site> {
        let known = self.known.get(place)?.as_ref()?;
        if !std::ptr::eq(known.start, self.start)
            || known.fields.len() != pairs.len()
            || known.site.metadata().len() - HEAD + message_size > MAX_SIZE
        {
            return None;
        }
        let payload_end = self.payload.len();
        for (pair, (name, kind)) in pairs.iter().zip(&known.fields) {
            if !same(&pair.name, name) || push_value(&mut self.payload, &pair.value) != Some(*kind)
            {
                self.payload.truncate(payload_end);
                return None;
            }
        }
        Some(known.site)
    }

    /// `pairs`: those in the site's metadata.
    #[cold]
    fn remember(&mut self, site: &'static Site, pairs: &[Pair<'_>]) {
        let mut rest = &site.metadata()[self.start.size..];
        let mut fields = Vec::with_capacity(pairs.len());
        for pair in pairs {
            let Some(end) = rest.iter().position(|byte| *byte == 0) else { return };
            let (name, after) = rest.split_at(end);
            let (kind, size) = match (&pair.value, &after[1..]) {
                (Value::Struct(_), [in_type, count, ..]) => (kind_of_struct(*in_type, *count), 3),
                (_, [in_type, ..]) => (u16::from(*in_type), 2),
                _ => return,
            };
            fields.push((name, kind));
            rest = &after[size..];
        }
        self.known.resize_with(KNOWN, || None);
        self.known[place_of(self.start, pairs)] = Some(Known { start: self.start, site, fields });
    }

    /// Writes metadata with all pairs, or with none; without pairs the payload stays unchanged.
    fn properties(&mut self, pairs: &[Pair<'_>], message_size: usize) -> bool {
        let payload_end = self.payload.len();
        self.metadata.clear();
        self.metadata.extend_from_slice(&self.start.bytes[..self.start.size]);
        for pair in pairs {
            let known = self.property(pair);
            if !known || self.metadata.len() - HEAD + message_size > MAX_SIZE {
                self.payload.truncate(payload_end);
                self.metadata.clear();
                self.metadata.extend_from_slice(&self.start.bytes[..self.start.size]);
                return false;
            }
        }
        let size = self.metadata.len() as u16;
        self.metadata[..2].copy_from_slice(&size.to_le_bytes());
        true
    }

    fn property(&mut self, pair: &Pair<'_>) -> bool {
        let Some(kind) = push_value(&mut self.payload, &pair.value) else { return false };
        push_text(&mut self.metadata, &pair.name);
        match pair.value {
            Value::Struct(_) => self.metadata.extend_from_slice(&kind.to_le_bytes()),
            _ => self.metadata.push(kind as u8),
        }
        true
    }
}

/// The index at which a shape is looked for: a hash of what is cheap to read.
#[inline]
fn place_of(start: &'static Start, pairs: &[Pair<'_>]) -> usize {
    let glance = pairs.iter().fold(start.size as u64, |glance, pair| {
        let ends = pair.name.first().zip(pair.name.last());
        let ends = ends.map_or(0, |(first, last)| u64::from(*first) | u64::from(*last) << 8);
        glance.rotate_left(7) ^ ends ^ (pair.name.len() as u64) << 16
    });
    (glance.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % KNOWN
}

const fn kind_of_struct(in_type: u8, count: u8) -> u16 {
    in_type as u16 | (count as u16) << 8
}

/// Appends a value; a structure has none. Returns the in-type, with the number of members of a structure in the upper byte; `None` for a
/// type that cannot be encoded.
#[inline]
fn push_value(payload: &mut Vec<u8>, value: &Value<'_>) -> Option<u16> {
    let in_type = match value {
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
        // Readers take a larger number for a flag that a tag follows.
        Value::Struct(count) if *count < 0x80 => return Some(kind_of_struct(STRUCT, *count)),
        Value::Struct(_) | Value::Unknown => return None,
    };
    Some(u16::from(in_type))
}

/// Appends a text up to its first NUL, and a NUL.
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

/// Whether a text contains a NUL. Texts are short, so this reads overlapping words instead of calling a search function.
#[inline]
fn has_nul(text: &[u8]) -> bool {
    // Sets a bit for each zero byte, and possibly for bytes above one.
    let in_word =
        |word: u64| word.wrapping_sub(0x0101_0101_0101_0101) & !word & 0x8080_8080_8080_8080;
    if let Some(last) = text.last_chunk() {
        let words = text.chunks_exact(8).filter_map(<[u8]>::first_chunk);
        let found = words.fold(in_word(u64::from_le_bytes(*last)), |found, word| {
            found | in_word(u64::from_le_bytes(*word))
        });
        return found != 0;
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return in_word(u64::from(first) | u64::from(last) << 32) != 0;
    }
    match *text {
        [] => false,
        [a] => a == 0,
        [a, b] => a == 0 || b == 0,
        [a, b, ref rest @ ..] => a == 0 || b == 0 || rest.contains(&0),
    }
}

/// Whether two texts are equal. Short texts are compared as words: a library call costs more, and may read a page that was never touched.
#[inline]
fn same(a: &[u8], b: &[u8]) -> bool {
    fn ends<const N: usize>(text: &[u8]) -> Option<([u8; N], [u8; N])> {
        Some((*text.first_chunk()?, *text.last_chunk()?))
    }
    a.len() == b.len()
        && match a.len() {
            0 => true,
            1 => a[0] == b[0],
            2..4 => ends::<2>(a) == ends::<2>(b),
            4..8 => ends::<4>(a) == ends::<4>(b),
            8..=16 => ends::<8>(a) == ends::<8>(b),
            _ => a == b,
        }
}

/// The length of the longest prefix of at most `longest` bytes that does not end inside a UTF-8 character.
fn char_boundary(text: &[u8], longest: usize) -> usize {
    let is_inside = |at: usize| text.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let end = (longest.saturating_sub(3)..=longest).rev().find(|at| !is_inside(*at));
    end.unwrap_or(longest)
}

#[cfg(test)]
mod tests {
    use super::{has_nul, same};

    #[test]
    fn texts_that_differ_anywhere_are_not_the_same() {
        for length in 0..40 {
            let text: Vec<u8> = (0..length).collect();
            assert!(same(&text, &text.clone()));
            assert!(!same(&text, &[&text[..], &[0]].concat()));
            for at in 0..text.len() {
                let mut other = text.clone();
                other[at] ^= 0x40;
                assert!(!same(&text, &other), "{length} {at}");
            }
        }
    }

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
