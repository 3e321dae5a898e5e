//! The one encoder of the sink's events, for Rust and C.
//!
//! ```text
//! metadata   u16 size   80 00   name NUL   "content" NUL 02   "file" NUL 02   "func" NUL 02   "line" NUL 07
//!            for each pair: name NUL type, of a structure 98 and the number of its members
//! payload    content NUL   file NUL   func NUL   i32 line   the values in order, of structures nothing
//! ```
//!
//! Layout and limits are those of c-logging's ETW sink, byte for byte.

use std::borrow::Cow;

use etw::rt::{FillRoom, Room, Site};
use etw::{Channel, EventDescriptor, Level};

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
/// The number of slots for sites of the source.
const SITES: usize = 256;

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

/// The contents of an event, before it is encoded.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// The event's descriptor; its level and channel are part of its shape.
    pub descriptor: EventDescriptor,
    /// The severity, which names the event.
    pub level: LogLevel,
    /// The message.
    pub message: &'a [u8],
    /// Whether the message is UTF-8: if it is too long, it is truncated between characters, else between any two bytes.
    pub is_text: bool,
    /// The source file.
    pub file: &'a [u8],
    /// The function.
    pub func: &'a [u8],
    /// The line in the file.
    pub line: i32,
    /// The properties; each structure is followed by its members.
    pub pairs: &'a [Pair<'a>],
}

/// The values of an event, which are put straight into its record. No text has a NUL.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    message: &'a [u8],
    file: &'a [u8],
    func: &'a [u8],
    line: i32,
    pairs: &'a [Pair<'a>],
    size: usize,
}

impl<'a> Payload<'a> {
    fn new(parts: &Parts<'a>, values_size: usize) -> Payload<'a> {
        let Parts { message, file, func, line, pairs, .. } = *parts;
        let size = message.len() + file.len() + func.len() + 3 + size_of::<i32>() + values_size;
        Payload { message, file, func, line, pairs, size }
    }

    /// Its size in bytes.
    pub fn size(&self) -> usize {
        self.size
    }
}

/// Puts all values, in the order of the metadata.
impl FillRoom for &Payload<'_> {
    fn fill<'r>(self, mut room: Room<'r>) -> Room<'r> {
        for text in [self.message, self.file, self.func] {
            room = room.put_short(text).put(&[0]);
        }
        room = room.put(&self.line.to_le_bytes());
        for pair in self.pairs {
            room = put_value(room, &pair.value);
        }
        room
    }
}

/// A shape whose site is known.
#[derive(Debug)]
struct Known {
    start: &'static Start,
    level: Level,
    channel: Channel,
    site: &'static Site,
    /// Metadata behind the start: names, which have no NUL, and the types of [`form_of`].
    fields: Vec<(&'static [u8], u16)>,
}

/// A known shape that an event has.
struct Found {
    site: &'static Site,
    /// The size of the properties in the payload.
    values_size: usize,
}

/// Finds the shapes of events. A shape that it has seen costs a comparison of names.
#[derive(Debug)]
pub struct Encoder {
    /// Indexed by [`index_of`].
    known: Vec<Option<Known>>,
    /// The index of the shape that a site of the source wrote last, by [`slot_of`]. Sites may share a slot: the shape is compared.
    by_site: [u8; SITES],
    metadata: Vec<u8>,
}

impl Encoder {
    /// An encoder that has not allocated yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Encoder {
        Encoder { known: Vec::new(), by_site: [0; SITES], metadata: Vec::new() }
    }

    /// Calls `write` with the event's site (its metadata if there are too many shapes) and its payload.
    #[inline]
    pub fn encode<R>(
        &mut self,
        parts: &Parts<'_>,
        write: impl FnOnce(Result<&'static Site, &[u8]>, &Payload<'_>) -> R,
    ) -> R {
        let start = start_of(parts.level);
        let slot = slot_of(parts);
        let found = self.known(usize::from(self.by_site[slot]), start, parts);
        match found.or_else(|| self.known_elsewhere(slot, start, parts)) {
            Some(Found { site, values_size }) => write(Ok(site), &Payload::new(parts, values_size)),
            None => self.encode_new(start, parts, write),
        }
    }

    /// The shape at an index, if it is that of the event and no text has to be cut or changed.
    #[inline(always)]
    fn known(&self, index: usize, start: &'static Start, parts: &Parts<'_>) -> Option<Found> {
        let pairs = parts.pairs;
        let known = self.known.get(index)?.as_ref()?;
        if !std::ptr::eq(known.start, start)
            || (known.level, known.channel) != (parts.descriptor.level, parts.descriptor.channel)
            || known.fields.len() != pairs.len()
            || known.site.metadata().len() - HEAD + parts.message.len() + 1 > MAX_SIZE
            || [parts.message, parts.file, parts.func].into_iter().any(has_nul)
        {
            return None;
        }
        let mut values_size = 0;
        for (pair, (name, kind)) in pairs.iter().zip(&known.fields) {
            let form = form_of(&pair.value)?;
            if form.kind != *kind || !same(&pair.name, name) {
                return None;
            }
            values_size += form.size;
        }
        Some(Found { site: known.site, values_size })
    }

    /// [`known`](Self::known) where the names lead, which the slot remembers.
    #[cold]
    #[inline(never)]
    fn known_elsewhere(
        &mut self,
        slot: usize,
        start: &'static Start,
        parts: &Parts<'_>,
    ) -> Option<Found> {
        let index = index_of(start, parts.pairs);
        self.by_site[slot] = index as u8;
        self.known(index, start, parts)
    }

    /// [`encode`](Self::encode) of a shape that is not known, or of texts that have to be cut or changed.
    #[cold]
    #[inline(never)]
    fn encode_new<R>(
        &mut self,
        start: &'static Start,
        parts: &Parts<'_>,
        write: impl FnOnce(Result<&'static Site, &[u8]>, &Payload<'_>) -> R,
    ) -> R {
        let message = sound_message(start, parts);
        let pairs = if parts.pairs.len() > MAX_PAIRS { &[] } else { parts.pairs };
        let pairs: Vec<Pair<'_>> = pairs.iter().map(sound_pair).collect();
        let values_size = self.properties(start, &pairs, message.len() + 1);
        let parts = Parts {
            message: &message,
            file: up_to_nul(parts.file),
            func: up_to_nul(parts.func),
            pairs: if values_size.is_some() { &pairs } else { &[] },
            ..*parts
        };
        let payload = Payload::new(&parts, values_size.unwrap_or(0));
        match sites::find(&parts.descriptor, &self.metadata) {
            Some(site) => {
                self.remember(start, site, &parts);
                write(Ok(site), &payload)
            }
            None => write(Err(&self.metadata), &payload),
        }
    }

    /// Remembers a site. The parts have the properties that its metadata names.
    fn remember(&mut self, start: &'static Start, site: &'static Site, parts: &Parts<'_>) {
        let mut rest = &site.metadata()[start.size..];
        let mut fields = Vec::with_capacity(parts.pairs.len());
        for pair in parts.pairs {
            let (Some((name, after)), Some(form)) =
                (rest.split_at_checked(pair.name.len()), form_of(&pair.value))
            else {
                return;
            };
            fields.push((name, form.kind));
            rest = &after[1 + form.kind_size()..];
        }
        self.known.resize_with(KNOWN, || None);
        let EventDescriptor { level, channel, .. } = parts.descriptor;
        let known = Known { start, level, channel, site, fields };
        self.known[index_of(start, parts.pairs)] = Some(known);
    }

    /// Writes metadata with all pairs, and returns the size of their values; if one cannot be encoded or the metadata gets too large, writes
    /// metadata without pairs.
    fn properties(
        &mut self,
        start: &'static Start,
        pairs: &[Pair<'_>],
        message_size: usize,
    ) -> Option<usize> {
        self.metadata.clear();
        self.metadata.extend_from_slice(&start.bytes[..start.size]);
        let mut values_size = 0;
        for pair in pairs {
            let form = form_of(&pair.value);
            if let Some(form) = form {
                self.metadata.extend_from_slice(&pair.name);
                self.metadata.push(0);
                self.metadata.extend_from_slice(&form.kind.to_le_bytes()[..form.kind_size()]);
                values_size += form.size;
            }
            if form.is_none() || self.metadata.len() - HEAD + message_size > MAX_SIZE {
                self.metadata.truncate(start.size);
                return None;
            }
        }
        let size = self.metadata.len() as u16;
        self.metadata[..2].copy_from_slice(&size.to_le_bytes());
        Some(values_size)
    }
}

/// The metadata of an event of this level without properties.
#[inline]
fn start_of(level: LogLevel) -> &'static Start {
    match level.0 {
        level @ 0..5 => &STARTS[level as usize],
        _ => &STARTS[5],
    }
}

/// The message without NULs, which would end the text for readers, and not too long.
fn sound_message<'a>(start: &Start, parts: &Parts<'a>) -> Cow<'a, [u8]> {
    let longest = MAX_SIZE - (start.size - HEAD) - 1;
    let end = match parts.is_text {
        _ if parts.message.len() <= longest => parts.message.len(),
        true => char_boundary(parts.message, longest),
        false => longest,
    };
    let message = &parts.message[..end];
    match has_nul(message) {
        false => Cow::Borrowed(message),
        true => message.iter().map(|byte| if *byte == 0 { b' ' } else { *byte }).collect(),
    }
}

/// The pair with its texts up to their first NUL.
fn sound_pair<'a>(pair: &'a Pair<'_>) -> Pair<'a> {
    let value = match &pair.value {
        Value::Ansi(text) => Value::Ansi(Cow::Borrowed(up_to_nul(text))),
        Value::Wide(units) => {
            Value::Wide(units.split(|unit| *unit == 0).next().unwrap_or(&[]).into())
        }
        other => other.clone(),
    };
    Pair { name: Cow::Borrowed(up_to_nul(&pair.name)), value }
}

fn up_to_nul(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or(&[])
}

/// The slot of an event's site in the source: a hash of where its name of the file lies, and of the line.
#[inline]
fn slot_of(parts: &Parts<'_>) -> usize {
    let site = parts.file.as_ptr().addr() as u64 ^ u64::from(parts.line as u32) << 32;
    (site.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % SITES
}

/// The index at which a shape is looked for: a hash of what is cheap to read.
#[inline]
fn index_of(start: &'static Start, pairs: &[Pair<'_>]) -> usize {
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

/// How a value is encoded.
#[derive(Clone, Copy)]
struct Form {
    /// The in-type, with the number of members of a structure in the upper byte.
    kind: u16,
    /// The size of the value in the payload.
    size: usize,
}

impl Form {
    const fn new(in_type: u8, size: usize) -> Form {
        Form { kind: in_type as u16, size }
    }

    /// The size of the kind in the metadata.
    fn kind_size(self) -> usize {
        if self.kind as u8 == STRUCT { 2 } else { 1 }
    }
}

/// The form of a value; `None` for a type that cannot be encoded, and for a text with a NUL.
#[inline]
fn form_of(value: &Value<'_>) -> Option<Form> {
    Some(match value {
        Value::Ansi(text) if has_nul(text) => return None,
        Value::Ansi(text) => Form::new(ANSI_STRING, text.len() + 1),
        Value::Wide(units) if units.contains(&0) => return None,
        Value::Wide(units) => Form::new(UNICODE_STRING, 2 * units.len() + 2),
        Value::Bool(_) => Form::new(BOOL32, 4),
        Value::Int64(_) => Form::new(INT64, 8),
        Value::Uint64(_) => Form::new(UINT64, 8),
        Value::Int32(_) => Form::new(INT32, 4),
        Value::Uint32(_) => Form::new(UINT32, 4),
        Value::Int16(_) => Form::new(INT16, 2),
        Value::Uint16(_) => Form::new(UINT16, 2),
        Value::Int8(_) => Form::new(INT8, 1),
        Value::Uint8(_) => Form::new(UINT8, 1),
        // Readers treat a larger number as a flag that a tag follows.
        Value::Struct(count) if *count < 0x80 => {
            Form { kind: kind_of_struct(STRUCT, *count), size: 0 }
        }
        Value::Struct(_) | Value::Unknown => return None,
    })
}

/// Puts a value; a structure has none.
#[inline]
fn put_value<'r>(mut room: Room<'r>, value: &Value<'_>) -> Room<'r> {
    match value {
        Value::Ansi(text) => room.put_short(text).put(&[0]),
        Value::Wide(units) => {
            for unit in units.iter().chain(&[0]) {
                room = room.put(&unit.to_le_bytes());
            }
            room
        }
        Value::Bool(value) => room.put(&i32::from(*value).to_le_bytes()),
        Value::Int64(value) => room.put(&value.to_le_bytes()),
        Value::Uint64(value) => room.put(&value.to_le_bytes()),
        Value::Int32(value) => room.put(&value.to_le_bytes()),
        Value::Uint32(value) => room.put(&value.to_le_bytes()),
        Value::Int16(value) => room.put(&value.to_le_bytes()),
        Value::Uint16(value) => room.put(&value.to_le_bytes()),
        Value::Int8(value) => room.put(&value.to_le_bytes()),
        Value::Uint8(value) => room.put(&value.to_le_bytes()),
        Value::Struct(_) | Value::Unknown => room,
    }
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
