//! An event's static bytes that the macro cannot compute itself: the compiler evaluates them.

use etw_tracelogging::{InType, OutType, flags};
use etw_types::{Channel, EventDescriptor, Keyword, Level, Opcode};

use crate::custom::Protocol;
use crate::write::descriptor_bytes;

const POINTER_SIZE: u8 = size_of::<usize>() as u8;

/// The InType of `isize`.
pub const INT_POINTER: u8 = InType::int_ptr(POINTER_SIZE).0;
/// The InType of `usize`.
pub const UINT_POINTER: u8 = InType::uint_ptr(POINTER_SIZE).0;
/// The InType of a pointer.
pub const HEX_POINTER: u8 = InType::hex_pointer(POINTER_SIZE).0;

/// A piece of a site's bytes. The first piece is, or starts with, the descriptor.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Part<'a> {
    /// Literal bytes.
    Bytes(&'a [u8]),
    /// An event's descriptor.
    Descriptor { id: u16, version: u8, channel: u8, level: u8, opcode: u8, task: u16, keyword: u64 },
    /// A name and its NUL.
    Name(&'a str),
    /// An event's tag.
    Tag(u32),
    /// A field's type bytes and tag.
    Types { in_type: u8, flags: u8, out_type: u8, tag: u32 },
    /// Two bytes, little-endian.
    U16(u16),
    /// A `u16` byte count, and the bytes: a schema.
    Counted(&'a [u8]),
}

/// The number of bytes of a tag: seven bits each, as long as the rest is not zero.
const fn tag_size(tag: u32) -> usize {
    match tag.trailing_zeros() {
        21.. => 1,
        14.. => 2,
        7.. => 3,
        _ => 4,
    }
}

impl Part<'_> {
    const fn size(&self) -> usize {
        match *self {
            Part::Bytes(bytes) => bytes.len(),
            Part::Descriptor { .. } => 16,
            Part::Name(name) => name.len() + 1,
            Part::Tag(tag) => tag_size(tag),
            Part::Types { out_type: 0, tag: 0, .. } => 1,
            Part::Types { tag: 0, .. } => 2,
            Part::Types { tag, .. } => 2 + tag_size(tag),
            Part::U16(_) => 2,
            Part::Counted(bytes) => 2 + bytes.len(),
        }
    }

    const fn put<const N: usize>(&self, out: &mut Cursor<N>) {
        match *self {
            Part::Bytes(bytes) => out.bytes(bytes),
            Part::Descriptor { id, version, channel, level, opcode, task, keyword } => {
                out.bytes(&descriptor_bytes(&EventDescriptor {
                    id,
                    version,
                    channel: Channel(channel),
                    level: Level(level),
                    opcode: Opcode(opcode),
                    task,
                    keyword: Keyword(keyword),
                }));
            }
            Part::Name(name) => {
                out.bytes(name.as_bytes());
                out.byte(0);
            }
            Part::Tag(tag) => out.tag(tag),
            Part::Types { in_type, flags, out_type, tag } => {
                let in_type = in_type | flags;
                if out_type == 0 && tag == 0 {
                    out.byte(in_type);
                } else if tag == 0 {
                    out.byte(in_type | flags::CHAIN);
                    out.byte(out_type);
                } else {
                    out.byte(in_type | flags::CHAIN);
                    out.byte(out_type | flags::CHAIN);
                    out.tag(tag);
                }
            }
            Part::U16(value) => out.bytes(&value.to_le_bytes()),
            Part::Counted(bytes) => {
                assert!(bytes.len() <= u16::MAX as usize, "a schema has at most 65535 bytes");
                out.bytes(&(bytes.len() as u16).to_le_bytes());
                out.bytes(bytes);
            }
        }
    }
}

struct Cursor<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Cursor<N> {
    const fn byte(&mut self, byte: u8) {
        self.bytes[self.at] = byte;
        self.at += 1;
    }

    const fn bytes(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            self.byte(bytes[at]);
            at += 1;
        }
    }

    const fn tag(&mut self, tag: u32) {
        let size = tag_size(tag);
        let mut index = 0;
        while index < size {
            let bits = (tag >> (21 - 7 * index)) as u8 & !flags::CHAIN;
            index += 1;
            self.byte(if index == size { bits } else { bits | flags::CHAIN });
        }
    }
}

/// A name that is a constant instead of a literal.
///
/// # Panics
/// At compile time, for a name that holds a NUL.
#[track_caller]
pub const fn name(name: &str) -> &str {
    let mut at = 0;
    while at < name.len() {
        assert!(name.as_bytes()[at] != 0, "a name holds a NUL");
        at += 1;
    }
    name
}

/// The size of a site's bytes.
pub const fn site_size(parts: &[Part<'_>]) -> usize {
    let mut size = 0;
    let mut at = 0;
    while at < parts.len() {
        size += parts[at].size();
        at += 1;
    }
    size
}

/// A site's bytes: `N` is their [`site_size`].
///
/// # Panics
/// At compile time, for metadata of more than 65535 bytes, and for constants that the macro could not check.
pub const fn site_bytes<const N: usize>(parts: &[Part<'_>]) -> [u8; N] {
    let mut out = Cursor { bytes: [0; N], at: 0 };
    let mut at = 0;
    while at < parts.len() {
        parts[at].put(&mut out);
        at += 1;
    }
    let size = N - 16;
    assert!(size <= u16::MAX as usize, "an event has at most 65535 bytes of metadata");
    let size = (size as u16).to_le_bytes();
    out.bytes[16] = size[0];
    out.bytes[17] = size[1];
    out.bytes
}

/// A constant as a user writes it: a number, or the type for it.
#[derive(Clone, Copy, Debug)]
pub struct Const<T>(pub T);

macro_rules! constants {
    ($($method:ident: $($from:ty => |$value:ident| $as:expr),+ => $to:ty;)*) => {$($(
        impl Const<$from> {
            /// The number.
            #[track_caller]
            pub const fn $method(self) -> $to {
                let $value = self.0;
                $as
            }
        }
    )+)*};
}

const fn out_type_number(number: u8) -> u8 {
    assert!(number <= flags::OUT_TYPE_MASK, "a format has seven bits: at most 127");
    number
}

const fn in_type_number(number: u8) -> u8 {
    assert!(number <= flags::TYPE_MASK, "an in-type has five bits: at most 31");
    number
}

constants! {
    level: u8 => |value| value, Level => |value| value.0 => u8;
    opcode: u8 => |value| value, Opcode => |value| value.0 => u8;
    channel: u8 => |value| value, Channel => |value| value.0 => u8;
    keyword: u64 => |value| value, Keyword => |value| value.0 => u64;
    task: u16 => |value| value => u16;
    id: u16 => |value| value => u16;
    version: u8 => |value| value => u8;
    out_type: u8 => |value| out_type_number(value), OutType => |value| out_type_number(value.0) => u8;
    in_type: u8 => |value| in_type_number(value), InType => |value| in_type_number(value.0) => u8;
    tag: u32 => |value| {
        assert!(value <= 0x0fff_ffff, "a tag has 28 bits: at most 0x0fffffff");
        value
    } => u32;
    count: u16 => |value| value, usize => |value| {
        assert!(value <= u16::MAX as usize, "the count of an array is at most 65535");
        value as u16
    } => u16;
    members: u8 => |value| {
        assert!(value >= 1 && value <= 127, "a struct has 1 to 127 members");
        value
    } => u8;
    protocol: u8 => |value| Protocol::User(value).number_or_panic(),
        Protocol => |value| value.number_or_panic() => u8;
}
