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
use std::ffi::{CStr, CString};
use std::sync::Arc;

use etw::rt::{Room, Site, has_nul};
use etw::{Channel, EventDescriptor};

use crate::context::LogContext;
use crate::flat::Flat;
use crate::level::LogLevel;
use crate::sites;
pub use crate::value::{
    ANSI_STRING, BOOL32, INT8, INT16, INT32, INT64, MAX_PAIRS, STRUCT, UINT8, UINT16, UINT32,
    UINT64, UNICODE_STRING, kind_of,
};
use crate::value::{Pair, Value, kind_of_value, longest_value, put_value};

/// The limit in bytes for the name of the event, its fields and the message with its NUL together.
pub const MAX_SIZE: usize = 4096;
/// The size of the size and the tag.
const HEAD: usize = 4;

/// The number of shapes that an encoder caches.
const KNOWN: usize = 64;
/// The number of slots for call sites.
const SITES: usize = 256;

const COMMON: &[u8] = b"content\0\x02file\0\x02func\0\x02line\0\x07";

/// The number of the level's event; all unknown levels have one.
#[inline(always)]
const fn kind_of_level(level: LogLevel) -> u32 {
    if level.0 < 5 { level.0 } else { 5 }
}

/// The metadata of an event without properties.
#[derive(Debug)]
struct Start {
    /// As [`kind_of_level`] says.
    level: u32,
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
    Start { level: kind_of_level(LogLevel(level)), bytes, size }
}

/// A text of an event, in the form of its caller's language. Its first NUL ends it.
pub trait Text: Copy {
    /// The address of the text. It finds what is cached for a call site.
    fn address(self) -> usize;

    /// Whether the text is the known one.
    fn is(self, known: &CStr) -> bool;

    /// The bytes of the text; a NUL among them ends it.
    fn bytes<'a>(self) -> &'a [u8]
    where
        Self: 'a;
}

impl Text for &[u8] {
    #[inline(always)]
    fn address(self) -> usize {
        self.as_ptr().addr()
    }

    #[inline(always)]
    fn is(self, known: &CStr) -> bool {
        same(self, known.to_bytes())
    }

    fn bytes<'a>(self) -> &'a [u8]
    where
        Self: 'a,
    {
        self
    }
}

/// The properties of an event, in the form of its caller's language. Each structure is followed by its members.
pub trait Properties {
    /// The number of properties and structures.
    fn count(&self) -> usize;

    /// Puts all values into the payload, if there are as many as `fields`, the properties have the names and kinds of the fields, and no
    /// value needs a change.
    fn put_all<'r>(&self, fields: &[Field], room: Room<'r>) -> Option<Room<'r>>;

    /// The properties in Rust's form.
    fn pairs(&self) -> Cow<'_, [Pair<'_>]>;

    /// Values that lie ready, if there are such.
    #[inline(always)]
    fn flat(&self) -> Option<&Flat> {
        None
    }
}

impl Properties for [Pair<'_>] {
    #[inline(always)]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn put_all<'r>(&self, fields: &[Field], room: Room<'r>) -> Option<Room<'r>> {
        let mut room = room;
        for (pair, field) in self.iter().zip(fields) {
            if !same(&pair.name, field.name.to_bytes()) {
                return None;
            }
            let (kind, rest) = put_value(room, &pair.value)?;
            if kind != field.kind {
                return None;
            }
            room = rest;
        }
        Some(room)
    }

    fn pairs(&self) -> Cow<'_, [Pair<'_>]> {
        Cow::Borrowed(self)
    }
}

/// [`Properties`] of a context keep their names, kinds and values.
impl Properties for LogContext<'_> {
    #[inline(always)]
    fn count(&self) -> usize {
        LogContext::pairs(self).len()
    }

    /// A function of its own: mostly the values lie ready.
    #[inline(never)]
    fn put_all<'r>(&self, fields: &[Field], room: Room<'r>) -> Option<Room<'r>> {
        LogContext::pairs(self).put_all(fields, room)
    }

    fn pairs(&self) -> Cow<'_, [Pair<'_>]> {
        Cow::Borrowed(LogContext::pairs(self))
    }

    #[inline(always)]
    fn flat(&self) -> Option<&Flat> {
        LogContext::flat(self)
    }
}

/// A record without its message, whose texts and properties are in the form of their caller's language.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a, T: Text = &'a [u8], P: Properties + ?Sized = [Pair<'a>]> {
    /// The severity, which names the event.
    pub level: LogLevel,
    /// The source file.
    pub file: T,
    /// The function.
    pub func: T,
    /// The line in the file.
    pub line: i32,
    /// The properties.
    pub properties: &'a P,
}

/// A message, and the memory behind it, for the rest of its event's payload.
#[derive(Debug)]
pub struct Message<'m> {
    /// The message, a NUL, and more memory. If the memory is too small for an event, the event is made in other memory.
    pub memory: &'m mut [u8],
    /// The size of the message without its NUL.
    pub size: usize,
    /// Whether the message is UTF-8: if it is too long, it is truncated between characters, else between any two bytes.
    pub is_text: bool,
}

impl Message<'_> {
    /// The message without its NUL.
    #[inline(always)]
    fn text(&self) -> &[u8] {
        self.memory.get(..self.size).unwrap_or(&[])
    }
}

/// The name and the kind of a property of a known shape.
#[derive(Debug)]
pub struct Field {
    /// The name.
    pub name: &'static CStr,
    /// The in-type, with the number of members of a structure in the upper byte.
    pub kind: u16,
}

/// A shape whose site is known.
#[derive(Clone, Debug)]
struct Known {
    /// As [`kind_of_level`] says.
    level: u32,
    channel: Channel,
    site: &'static Site,
    fields: Arc<[Field]>,
    /// The size of the longest message that needs no cut.
    longest_message: usize,
    /// The number of the [`Flat`] that was last found to have these fields; 0: none.
    flat: u64,
}

/// A call in the source that logged, with the parts of its events that are always the same.
#[derive(Debug)]
struct CallSite {
    file: CString,
    func: CString,
    line: i32,
    /// File, function and line as in a payload.
    payload: Vec<u8>,
    /// The shape of its last event.
    shape: Known,
}

impl CallSite {
    fn new(file: &[u8], func: &[u8], line: i32, shape: Known) -> CallSite {
        let [file, func] = [file, func].map(c_text);
        CallSite { payload: static_values(&file, &func, line), file, func, line, shape }
    }

    #[inline(always)]
    fn is_of<T: Text, P: Properties + ?Sized>(&self, parts: &Parts<'_, T, P>) -> bool {
        self.line == parts.line && parts.file.is(&self.file) && parts.func.is(&self.func)
    }
}

/// A text up to its first NUL.
fn c_text(text: &[u8]) -> CString {
    let text = CStr::from_bytes_until_nul(text).map(CStr::to_bytes).unwrap_or(text);
    CString::new(text).unwrap_or_default()
}

/// File, function and line as in a payload.
fn static_values(file: &CStr, func: &CStr, line: i32) -> Vec<u8> {
    [file.to_bytes_with_nul(), func.to_bytes_with_nul(), &line.to_le_bytes()].concat()
}

/// A known shape that an event has.
pub(crate) struct Found {
    pub site: &'static Site,
    /// The size of the event's payload.
    pub size: usize,
}

/// Finds the shapes of events. A shape that it has seen costs a comparison of names.
#[derive(Debug)]
pub struct Encoder {
    /// Indexed by [`index_of`].
    known: Vec<Option<Known>>,
    /// Indexed by [`slot_of`]. Call sites may share a slot: the texts are compared.
    sites: Vec<Option<CallSite>>,
    metadata: Vec<u8>,
}

impl Encoder {
    /// An encoder that has not allocated yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Encoder {
        Encoder { known: Vec::new(), sites: Vec::new(), metadata: Vec::new() }
    }

    /// The site of an event whose call site and shape are known, of which no text has to be cut or changed, and whose values fit into the
    /// memory behind the message. The event's payload then lies in the message's memory.
    ///
    /// A function of its own: in its caller, most of its values would lie in memory.
    #[inline(never)]
    pub(crate) fn find<T: Text, P: Properties + ?Sized>(
        &mut self,
        message: &mut Message<'_>,
        channel: Channel,
        parts: &Parts<'_, T, P>,
    ) -> Option<Found> {
        let slot = slot_of(parts.file.address(), parts.line);
        let call = self.sites.get_mut(slot)?.as_mut()?;
        if call.shape.level != kind_of_level(parts.level)
            || call.shape.channel != channel
            || call.shape.fields.len() != parts.properties.count()
            || call.shape.longest_message < message.size
            || !call.is_of(parts)
        {
            return None;
        }
        let memory_size = message.memory.len();
        let (text, behind) = message.memory.split_at_mut_checked(message.size)?;
        let (_, behind) = behind.split_first_mut()?;
        if has_nul(text) {
            return None;
        }
        let room = Room::of(behind).put_short(&call.payload);
        let room = match parts.properties.flat() {
            Some(flat) if flat.number == call.shape.flat => room.put_short(&flat.values),
            flat => {
                let room = parts.properties.put_all(&call.shape.fields, room)?;
                call.shape.flat = flat.map_or(call.shape.flat, |flat| flat.number);
                room
            }
        };
        Some(Found { site: call.shape.site, size: memory_size - room.left()? })
    }

    /// Calls `write` with the event's site (its metadata if there are too many shapes) and its payload.
    pub fn encode<'a, T: Text + 'a, P: Properties + ?Sized, R>(
        &mut self,
        mut message: Message<'_>,
        channel: Channel,
        parts: &Parts<'a, T, P>,
        write: impl FnOnce(Result<&'static Site, &[u8]>, &[u8]) -> R,
    ) -> R {
        match self.find(&mut message, channel, parts) {
            Some(Found { site, size }) => write(Ok(site), &message.memory[..size]),
            None => self.encode_slowly(message, channel, parts, write),
        }
    }

    /// [`encode`](Self::encode) of an event that [`find`](Self::find) did not find.
    #[cold]
    #[inline(never)]
    pub(crate) fn encode_slowly<'a, T: Text + 'a, P: Properties + ?Sized, R>(
        &mut self,
        mut message: Message<'_>,
        channel: Channel,
        parts: &Parts<'a, T, P>,
        write: impl FnOnce(Result<&'static Site, &[u8]>, &[u8]) -> R,
    ) -> R {
        let slot = slot_of(parts.file.address(), parts.line);
        let pairs = parts.properties.pairs();
        let Parts { level, line, .. } = *parts;
        let (file, func) = (parts.file.bytes(), parts.func.bytes());
        let parts = Parts { level, file, func, line, properties: &*pairs };
        let shape = self.known.get(index_of(start_of(level), &pairs)).and_then(Option::as_ref);
        if let Some(shape) = shape.cloned() {
            self.sites.resize_with(SITES, || None);
            match &mut self.sites[slot] {
                Some(call) if call.is_of(&parts) => call.shape = shape,
                other => *other = Some(CallSite::new(file, func, line, shape)),
            }
            if let Some(Found { site, size }) = self.find(&mut message, channel, &parts) {
                return write(Ok(site), &message.memory[..size]);
            }
        }
        self.encode_new(&message, channel, &parts, write)
    }

    /// [`encode`](Self::encode) of a shape that is not known, or of texts that have to be cut or changed, or of long texts.
    fn encode_new<R>(
        &mut self,
        message: &Message<'_>,
        channel: Channel,
        parts: &Parts<'_>,
        write: impl FnOnce(Result<&'static Site, &[u8]>, &[u8]) -> R,
    ) -> R {
        let start = start_of(parts.level);
        let mut payload = sound_message(start, message);
        let pairs = if parts.properties.len() > MAX_PAIRS { &[] } else { parts.properties };
        let mut pairs: Vec<Pair<'_>> = pairs.iter().map(sound_pair).collect();
        if !self.write_metadata(start, &pairs, payload.len()) {
            pairs.clear();
        }
        payload.extend(static_values(&c_text(parts.file), &c_text(parts.func), parts.line));
        for pair in &pairs {
            let start = payload.len();
            payload.resize(start + longest_value(&pair.value), 0);
            let room = put_value(Room::of(&mut payload[start..]), &pair.value);
            let left = room.and_then(|(_, room)| room.left()).unwrap_or(0);
            payload.truncate(payload.len() - left);
        }
        match sites::find(&descriptor(parts.level, channel), &self.metadata) {
            Some(site) => {
                self.remember(start, channel, site, &pairs);
                write(Ok(site), &payload)
            }
            None => write(Err(&self.metadata), &payload),
        }
    }

    /// Remembers a site whose metadata names these properties.
    fn remember(
        &mut self,
        start: &'static Start,
        channel: Channel,
        site: &'static Site,
        pairs: &[Pair<'_>],
    ) {
        let mut rest = &site.metadata()[start.size..];
        let mut fields = Vec::with_capacity(pairs.len());
        for _ in pairs {
            let Ok(name) = CStr::from_bytes_until_nul(rest) else { return };
            let (in_type, count) = match &rest[name.count_bytes() + 1..] {
                [STRUCT, count, after @ ..] => {
                    rest = after;
                    (STRUCT, *count)
                }
                [in_type, after @ ..] => {
                    rest = after;
                    (*in_type, 0)
                }
                [] => return,
            };
            fields.push(Field { name, kind: kind_of(in_type, count) });
        }
        self.known.resize_with(KNOWN, || None);
        let longest_message = (MAX_SIZE + HEAD).saturating_sub(site.metadata().len() + 1);
        let fields = fields.into();
        let level = start.level;
        let known = Known { level, channel, site, fields, longest_message, flat: 0 };
        self.known[index_of(start, pairs)] = Some(known);
    }

    /// Writes metadata with all pairs; if one cannot be encoded or the metadata gets too large, writes metadata without pairs and returns
    /// `false`.
    fn write_metadata(
        &mut self,
        start: &'static Start,
        pairs: &[Pair<'_>],
        message_size: usize,
    ) -> bool {
        self.metadata.clear();
        self.metadata.extend_from_slice(&start.bytes[..start.size]);
        for pair in pairs {
            let kind = kind_of_value(&pair.value);
            if let Some(kind) = kind {
                let [in_type, count] = kind.to_le_bytes();
                self.metadata.extend_from_slice(&pair.name);
                self.metadata.extend_from_slice(&[0, in_type]);
                self.metadata.extend((in_type == STRUCT).then_some(count));
            }
            if kind.is_none() || self.metadata.len() - HEAD + message_size > MAX_SIZE {
                self.metadata.truncate(start.size);
                return false;
            }
        }
        let size = self.metadata.len() as u16;
        self.metadata[..2].copy_from_slice(&size.to_le_bytes());
        true
    }
}

/// The descriptor of events of a level.
pub(crate) fn descriptor(level: LogLevel, channel: Channel) -> EventDescriptor {
    EventDescriptor { channel, level: level.etw_level(), ..EventDescriptor::default() }
}

/// The metadata of an event of this level without properties.
#[inline]
fn start_of(level: LogLevel) -> &'static Start {
    &STARTS[kind_of_level(level) as usize]
}

/// The message with blanks in place of NULs, which would end the text for readers, not too long, and with a NUL behind it.
fn sound_message(start: &Start, message: &Message<'_>) -> Vec<u8> {
    let longest = MAX_SIZE - (start.size - HEAD) - 1;
    let text = message.text();
    let end = match message.is_text {
        _ if text.len() <= longest => text.len(),
        true => char_boundary(text, longest),
        false => longest,
    };
    let sound = text[..end].iter().map(|byte| if *byte == 0 { b' ' } else { *byte });
    sound.chain([0]).collect()
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

/// The slot of a call site: a hash of where its name of the file lies, and of the line.
#[inline(always)]
fn slot_of(file: usize, line: i32) -> usize {
    let site = file as u64 ^ u64::from(line as u32) << 32;
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

/// Whether two texts are equal. Short texts are compared as words: a library call costs more, and may read a page that was never touched.
#[inline(always)]
fn same(a: &[u8], b: &[u8]) -> bool {
    /// Whether the first and the last `N` bytes are equal.
    #[inline(always)]
    fn ends<const N: usize>(a: &[u8], b: &[u8]) -> bool {
        a.first_chunk::<N>() == b.first_chunk() && a.last_chunk::<N>() == b.last_chunk()
    }
    let size = a.len();
    if size != b.len() {
        return false;
    }
    // Now the compiler knows both lengths as one value.
    let b = &b[..size];
    if size >= 8 {
        if size <= 16 {
            return ends::<8>(a, b);
        }
        if size <= 32 {
            return ends::<16>(a, b);
        }
        return if size <= 64 { ends::<32>(a, b) } else { a == b };
    }
    if size >= 4 {
        return ends::<4>(a, b);
    }
    if size >= 2 { ends::<2>(a, b) } else { a.first() == b.first() }
}

/// The length of the longest prefix of at most `longest` bytes that does not end inside a UTF-8 character.
fn char_boundary(text: &[u8], longest: usize) -> usize {
    let is_inside = |at: usize| text.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let end = (longest.saturating_sub(3)..=longest).rev().find(|at| !is_inside(*at));
    end.unwrap_or(longest)
}

#[cfg(test)]
mod tests {
    use super::same;

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
}
