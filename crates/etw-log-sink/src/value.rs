//! Properties, their values, and how values lie in a payload.

use std::borrow::Cow;
use std::fmt;

use etw::rt::{Room, has_nul};

/// The limit of pairs, including structures.
pub const MAX_PAIRS: usize = 64;

/// UTF-16 text with a zero unit.
pub const UNICODE_STRING: u8 = 1;
/// 8-bit text with a NUL.
pub const ANSI_STRING: u8 = 2;
/// 8 bits, signed.
pub const INT8: u8 = 3;
/// 8 bits.
pub const UINT8: u8 = 4;
/// 16 bits, signed.
pub const INT16: u8 = 5;
/// 16 bits.
pub const UINT16: u8 = 6;
/// 32 bits, signed.
pub const INT32: u8 = 7;
/// 32 bits.
pub const UINT32: u8 = 8;
/// 64 bits, signed.
pub const INT64: u8 = 9;
/// 64 bits.
pub const UINT64: u8 = 10;
/// A truth value in 32 bits.
pub const BOOL32: u8 = 13;
/// The head of a structure: `_TlgInSTRUCT | _TlgInChain`.
pub const STRUCT: u8 = 0x98;

/// A property, or the head of a structure.
#[doc(alias = "LOG_CONTEXT_PROPERTY_VALUE_PAIR")]
#[derive(Clone, Debug, PartialEq)]
pub struct Pair<'a> {
    /// Its name; a NUL ends it.
    pub name: Cow<'a, [u8]>,
    /// Its value.
    pub value: Value<'a>,
}

impl<'a> Pair<'a> {
    /// A property.
    pub fn new(name: &'a str, value: impl Into<Value<'a>>) -> Pair<'a> {
        Pair { name: Cow::Borrowed(name.as_bytes()), value: value.into() }
    }

    /// The head of a structure: the next `count` pairs are its members, a structure among them counting, with its own, as one.
    pub const fn structure(name: &'a str, count: u8) -> Pair<'a> {
        Pair { name: Cow::Borrowed(name.as_bytes()), value: Value::Struct(count) }
    }
}

/// The value of a property.
#[doc(alias = "LOG_CONTEXT_PROPERTY_TYPE")]
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// 8-bit text, without its NUL; UTF-8 from Rust.
    Ansi(Cow<'a, [u8]>),
    /// UTF-16 units, without the zero unit.
    Wide(Cow<'a, [u16]>),
    /// A truth value.
    Bool(bool),
    /// 64 bits, signed.
    Int64(i64),
    /// 64 bits.
    Uint64(u64),
    /// 32 bits, signed.
    Int32(i32),
    /// 32 bits.
    Uint32(u32),
    /// 16 bits, signed.
    Int16(i16),
    /// 16 bits.
    Uint16(u16),
    /// 8 bits, signed.
    Int8(i8),
    /// 8 bits.
    Uint8(u8),
    /// The head of a structure, with its number of members.
    Struct(u8),
    /// An unknown type. The event then has no properties.
    Unknown,
}

macro_rules! from {
    ($($type:ty => $variant:ident,)*) => {$(
        impl From<$type> for Value<'_> {
            fn from(value: $type) -> Self {
                Value::$variant(value)
            }
        }
    )*};
}

from! {
    bool => Bool,
    i64 => Int64,
    u64 => Uint64,
    i32 => Int32,
    u32 => Uint32,
    i16 => Int16,
    u16 => Uint16,
    i8 => Int8,
    u8 => Uint8,
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Value::Ansi(Cow::Borrowed(value.as_bytes()))
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(value: &'a String) -> Self {
        Value::Ansi(Cow::Borrowed(value.as_bytes()))
    }
}

impl From<String> for Value<'_> {
    fn from(value: String) -> Self {
        Value::Ansi(Cow::Owned(value.into_bytes()))
    }
}

impl From<fmt::Arguments<'_>> for Value<'_> {
    fn from(value: fmt::Arguments<'_>) -> Self {
        Value::from(value.to_string())
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Ansi(text) => f.write_str(&String::from_utf8_lossy(text)),
            Value::Wide(units) => f.write_str(&String::from_utf16_lossy(units)),
            Value::Bool(value) => value.fmt(f),
            Value::Int64(value) => value.fmt(f),
            Value::Uint64(value) => value.fmt(f),
            Value::Int32(value) => value.fmt(f),
            Value::Uint32(value) => value.fmt(f),
            Value::Int16(value) => value.fmt(f),
            Value::Uint16(value) => value.fmt(f),
            Value::Int8(value) => value.fmt(f),
            Value::Uint8(value) => value.fmt(f),
            Value::Struct(_) | Value::Unknown => Ok(()),
        }
    }
}

/// An in-type, and the number of members of a structure.
pub const fn kind_of(in_type: u8, count: u8) -> u16 {
    in_type as u16 | (count as u16) << 8
}

/// The kind of a value; `None` for a type that cannot be encoded, and for a text with a NUL.
pub(crate) fn kind_of_value(value: &Value<'_>) -> Option<u16> {
    let mut memory = vec![0; longest_value(value)];
    Some(put_value(Room::of(&mut memory), value)?.0)
}

/// The size that a value has at most in a payload.
pub(crate) fn longest_value(value: &Value<'_>) -> usize {
    match value {
        Value::Ansi(text) => text.len() + 1,
        Value::Wide(units) => 2 * units.len() + 2,
        _ => size_of::<u64>(),
    }
}

/// Puts a value, and returns its kind; a structure has no value. `None` for a type that cannot be encoded, and for a text with a NUL.
#[inline(always)]
pub(crate) fn put_value<'r>(mut room: Room<'r>, value: &Value<'_>) -> Option<(u16, Room<'r>)> {
    let in_type = match value {
        Value::Ansi(text) if has_nul(text) => return None,
        Value::Ansi(text) => {
            room = room.put_short(text).put(&[0]);
            ANSI_STRING
        }
        Value::Wide(units) if units.contains(&0) => return None,
        Value::Wide(units) => {
            for unit in units.iter().chain(&[0]) {
                room = room.put(&unit.to_le_bytes());
            }
            UNICODE_STRING
        }
        Value::Bool(value) => {
            room = room.put(&i32::from(*value).to_le_bytes());
            BOOL32
        }
        Value::Int64(value) => {
            room = room.put(&value.to_le_bytes());
            INT64
        }
        Value::Uint64(value) => {
            room = room.put(&value.to_le_bytes());
            UINT64
        }
        Value::Int32(value) => {
            room = room.put(&value.to_le_bytes());
            INT32
        }
        Value::Uint32(value) => {
            room = room.put(&value.to_le_bytes());
            UINT32
        }
        Value::Int16(value) => {
            room = room.put(&value.to_le_bytes());
            INT16
        }
        Value::Uint16(value) => {
            room = room.put(&value.to_le_bytes());
            UINT16
        }
        Value::Int8(value) => {
            room = room.put(&value.to_le_bytes());
            INT8
        }
        Value::Uint8(value) => {
            room = room.put(&value.to_le_bytes());
            UINT8
        }
        // Readers treat a larger number as a flag that a tag follows.
        Value::Struct(count) if *count < 0x80 => return Some((kind_of(STRUCT, *count), room)),
        Value::Struct(_) | Value::Unknown => return None,
    };
    Some((kind_of(in_type, 0), room))
}
