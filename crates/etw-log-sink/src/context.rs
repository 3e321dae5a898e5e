//! Contexts: properties and structures of a record.

use std::borrow::Cow;
use std::fmt;

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

/// Properties that a record belongs to: a structure whose members are the parent's structure, if there is one, and the
/// properties of its own.
///
/// ```
/// # use etw_log_sink::LogContext;
/// let server = LogContext::new("server").with("port", 8080u16);
/// let request = LogContext::with_parent("request", &server).with("path", "/orders");
/// assert_eq!(request.pairs().len(), 4);
/// ```
#[doc(alias = "LOG_CONTEXT_HANDLE")]
#[derive(Clone, Debug, PartialEq)]
pub struct LogContext<'a> {
    /// Flat, each structure before its members.
    pairs: Pairs<'a>,
}

/// (Not a `Cow`: that would tie every record to the context's own lifetime.)
#[derive(Clone, Debug)]
enum Pairs<'a> {
    Owned(Vec<Pair<'a>>),
    Borrowed(&'a [Pair<'a>]),
}

impl PartialEq for Pairs<'_> {
    fn eq(&self, other: &Pairs<'_>) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl<'a> Pairs<'a> {
    fn as_slice(&self) -> &[Pair<'a>] {
        match self {
            Pairs::Owned(pairs) => pairs,
            Pairs::Borrowed(pairs) => pairs,
        }
    }
}

impl<'a> LogContext<'a> {
    /// An empty context; its name may be empty.
    pub fn new(name: &'a str) -> LogContext<'a> {
        LogContext { pairs: Pairs::Owned(vec![Pair::structure(name, 0)]) }
    }

    /// A context whose first member is another one.
    pub fn with_parent(name: &'a str, parent: &LogContext<'a>) -> LogContext<'a> {
        let parent = parent.pairs();
        let head = Pair::structure(name, u8::from(!parent.is_empty()));
        let pairs = [head].into_iter().chain(parent.iter().cloned()).collect();
        LogContext { pairs: Pairs::Owned(pairs) }
    }

    /// Pairs as they are, the head of their structure among them.
    pub const fn from_pairs(pairs: &'a [Pair<'a>]) -> LogContext<'a> {
        LogContext { pairs: Pairs::Borrowed(pairs) }
    }

    /// Adds a property. A structure has at most 127; a context with more is left out of its events.
    #[must_use]
    pub fn with(self, name: &'a str, value: impl Into<Value<'a>>) -> LogContext<'a> {
        let mut pairs = match self.pairs {
            Pairs::Owned(pairs) => pairs,
            Pairs::Borrowed(pairs) => pairs.to_vec(),
        };
        if let Some(Pair { value: Value::Struct(count), .. }) = pairs.first_mut() {
            *count = count.saturating_add(1);
        }
        pairs.push(Pair::new(name, value));
        LogContext { pairs: Pairs::Owned(pairs) }
    }

    /// All of it, flat.
    pub fn pairs(&self) -> &[Pair<'a>] {
        self.pairs.as_slice()
    }
}
