//! A schema over a payload.

use crate::schema::{Count, Field, Kind, Length, Schema};
use crate::text::Text;
use crate::types::{Show, Wire};
use crate::value::Value;
use etw_types::{FileTime, Guid, SystemTime, le};
use std::fmt;
use std::ops::Range;

/// Is told the fields of an event in order.
pub trait Visitor {
    /// A value: of a single field, or the next of the array that was begun last.
    fn value(&mut self, field: &Field, value: Value<'_>);
    /// `count` values or structs follow.
    fn begin_array(&mut self, field: &Field, count: usize);
    /// The array begun last is complete.
    fn end_array(&mut self, field: &Field);
    /// The members of a struct follow.
    fn begin_struct(&mut self, field: &Field);
    /// The struct begun last is complete.
    fn end_struct(&mut self, field: &Field);
    /// Which bytes of the payload the value takes that is told next, for those who need them.
    fn place(&mut self, _bytes: Range<usize>) {}
    /// Whether the walk can end here. The walk asks after each field and after each element of an array.
    fn is_done(&self) -> bool {
        false
    }
}

/// Is told, and forgets: for what a walk costs and whether it comes to its end.
impl Visitor for () {
    fn value(&mut self, _: &Field, _: Value<'_>) {}
    fn begin_array(&mut self, _: &Field, _: usize) {}
    fn end_array(&mut self, _: &Field) {}
    fn begin_struct(&mut self, _: &Field) {}
    fn end_struct(&mut self, _: &Field) {}
}

/// Why a payload does not fit its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PayloadError {
    /// The payload ends inside a field.
    Short {
        /// Which field.
        field: String,
        /// Where in the payload it starts.
        offset: usize,
    },
    /// A few bytes of payload and a schema of nested arrays stand for more than an event can hold.
    TooMuch,
    /// A struct's members are not behind it.
    BadStruct,
}

impl fmt::Display for PayloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PayloadError::Short { field, offset } => {
                write!(f, "payload ends inside field {field:?} at offset {offset}")
            }
            PayloadError::TooMuch => {
                f.write_str("nested arrays of more values than an event holds")
            }
            PayloadError::BadStruct => f.write_str("a struct of the schema holds itself"),
        }
    }
}

impl std::error::Error for PayloadError {}

/// What one event may cost: fields and values, plus the characters of their names and of the names of their values.
///
/// The largest honest event has 64 KiB of one-byte values; the rest is for names that repeat in arrays of structs.
const BUDGET: usize = 4 << 20;
/// Deeper than any encoder nests. Two brackets each, and one for an array of values, find room in 128 bits.
const DEPTH: usize = 60;

/// Tells `visitor` the fields that `schema` finds in `payload`; gives how many bytes they take.
///
/// Bytes behind the last field are ignored, as by Windows' decoder. Text without its NUL ends with the payload.
///
/// # Errors
/// The fields before the error have been told.
pub fn walk(
    schema: &Schema,
    payload: &[u8],
    pointer_size: u8,
    visitor: &mut impl Visitor,
) -> Result<usize, PayloadError> {
    let referred = if schema.has_references { vec![0; schema.fields.len()] } else { Vec::new() };
    let mut walker = Walker {
        schema,
        payload,
        at: 0,
        pointer_size,
        referred,
        budget: BUDGET,
        depth: 0,
        visitor,
    };
    walker.fields(0, schema.top_level)?;
    Ok(walker.at)
}

struct Walker<'a, V> {
    schema: &'a Schema,
    payload: &'a [u8],
    at: usize,
    pointer_size: u8,
    /// Last value of each field, where lengths or counts refer to fields.
    referred: Vec<u64>,
    budget: usize,
    depth: usize,
    visitor: &'a mut V,
}

impl<'a, V: Visitor> Walker<'a, V> {
    fn fields(&mut self, first: usize, count: usize) -> Result<(), PayloadError> {
        let fields = &self.schema.fields[first..first + count];
        for (number, field) in fields.iter().enumerate() {
            let is_over = self.at == self.payload.len() && number > 0;
            if self.schema.ends_early && self.depth == 0 && is_over {
                break;
            }
            self.field(first + number, field)?;
            if self.visitor.is_done() {
                break;
            }
        }
        Ok(())
    }

    fn field(&mut self, index: usize, field: &'a Field) -> Result<(), PayloadError> {
        // Also for an array that turns out empty: it is named like any other.
        self.charge(1 + field.name.len())?;
        let count = match field.count {
            Count::One => return self.one(index, field),
            Count::Fixed(count) => usize::from(count),
            Count::Prefixed => {
                let count = le::u16(self.payload, self.at).ok_or_else(|| self.short(field))?;
                self.at += 2;
                usize::from(count)
            }
            Count::Field(source) => self.refer(source),
            Count::Rest => match field.kind {
                Kind::Scalar { wire, .. } => {
                    let size = wire.fixed_size(self.pointer_size).unwrap_or(0);
                    (self.payload.len() - self.at).checked_div(size).unwrap_or(0)
                }
                _ => 0,
            },
        };
        self.visitor.begin_array(field, count);
        for _ in 0..count {
            if self.visitor.is_done() {
                break;
            }
            self.charge(1)?;
            self.one(index, field)?;
        }
        self.visitor.end_array(field);
        Ok(())
    }

    fn one(&mut self, index: usize, field: &'a Field) -> Result<(), PayloadError> {
        let Kind::Struct { first, count } = field.kind else { return self.value(index, field) };
        // Structs lie behind the one that holds them, so this ends; depth bounds the stack.
        let behind = first > index && first.saturating_add(count) <= self.schema.fields.len();
        if !(behind || count == 0) || self.depth >= DEPTH {
            return Err(PayloadError::BadStruct);
        }
        // Some forms name every struct of an array.
        self.charge(field.name.len())?;
        self.visitor.begin_struct(field);
        if count > 0 {
            self.depth += 1;
            self.fields(first, count)?;
            self.depth -= 1;
        }
        self.visitor.end_struct(field);
        Ok(())
    }

    #[inline]
    fn value(&mut self, index: usize, field: &'a Field) -> Result<(), PayloadError> {
        let length = match field.length {
            Length::Own => None,
            Length::Fixed(length) => Some(usize::from(length)),
            Length::Field(source) => Some(self.refer(source)),
        };
        let rest = &self.payload[self.at..];
        let read = match &field.kind {
            Kind::Scalar { wire, show } => read(*wire, *show, rest, length, self.pointer_size),
            Kind::Custom { protocol, schema } => match length {
                Some(length) => rest.get(..length).map(|data| (data, length)),
                None => counted(rest, false),
            }
            .map(|(data, taken)| (Value::Custom { protocol: *protocol, schema, data }, taken)),
            Kind::Constant(text) => Some((Value::Text(Text::Utf8(text.as_bytes())), 0)),
            Kind::Struct { .. } => None,
        };
        let (mut value, taken) = read.ok_or_else(|| self.short(field))?;
        self.visitor.place(self.at..self.at + taken);
        self.at += taken;
        if let Some(slot) = self.referred.get_mut(index) {
            *slot = stored_integer(field, &rest[..taken]);
        }
        if let Some(map) = &field.map
            && let Some(number) = value.as_u64()
        {
            // Looking a value up costs something too.
            self.charge(map.entries.len() / 8)?;
            if let Some(length) = map.name_length(number) {
                self.charge(length)?;
                value = Value::Mapped { value: number, map };
            }
        }
        self.visitor.value(field, value);
        Ok(())
    }

    #[inline]
    fn charge(&mut self, cost: usize) -> Result<(), PayloadError> {
        self.budget = self.budget.checked_sub(cost).ok_or(PayloadError::TooMuch)?;
        Ok(())
    }

    fn refer(&self, source: usize) -> usize {
        let value = self.referred.get(source).copied().unwrap_or(0);
        usize::try_from(value).unwrap_or(usize::MAX)
    }

    #[cold]
    fn short(&self, field: &Field) -> PayloadError {
        PayloadError::Short { field: field.name.clone(), offset: self.at }
    }
}

/// The integer in `bytes`, for a length or a count, whatever it is shown as; 0 for what is none, or is negative.
fn stored_integer(field: &Field, bytes: &[u8]) -> u64 {
    let Kind::Scalar { wire, .. } = field.kind else { return 0 };
    let signed = matches!(wire, Wire::I8 | Wire::I16 | Wire::I32 | Wire::I64);
    let unsigned = matches!(wire, Wire::U8 | Wire::U16 | Wire::U32 | Wire::U64 | Wire::Pointer);
    let negative = signed && bytes.last().is_some_and(|&last| last >= 0x80);
    if negative || !(signed || unsigned) {
        return 0;
    }
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// One value at the front of `rest`, and the bytes it takes. `None` where `rest` is too short.
fn read<'a>(
    wire: Wire,
    show: Show,
    rest: &'a [u8],
    length: Option<usize>,
    pointer_size: u8,
) -> Option<(Value<'a>, usize)> {
    let int = |bytes: usize, signed: i64, unsigned: u64| {
        Some((integer(rest, bytes, wire, show, signed, unsigned)?, bytes))
    };
    match wire {
        Wire::Nothing => Some((Value::Null, 0)),
        Wire::I8 | Wire::U8 => {
            let byte = le::u8(rest, 0)?;
            int(1, i64::from(byte as i8), u64::from(byte))
        }
        Wire::I16 | Wire::U16 => {
            let word = le::u16(rest, 0)?;
            int(2, i64::from(word as i16), u64::from(word))
        }
        Wire::I32 | Wire::U32 => {
            let word = le::u32(rest, 0)?;
            int(4, i64::from(word as i32), u64::from(word))
        }
        Wire::I64 | Wire::U64 => {
            let word = le::u64(rest, 0)?;
            int(8, word as i64, word)
        }
        Wire::Pointer if pointer_size == 4 => {
            let word = le::u32(rest, 0)?;
            int(4, i64::from(word as i32), u64::from(word))
        }
        Wire::Pointer => {
            let word = le::u64(rest, 0)?;
            int(8, word as i64, word)
        }
        Wire::F32 => Some((Value::F32(le::f32(rest, 0)?), 4)),
        Wire::F64 => Some((Value::F64(le::f64(rest, 0)?), 8)),
        Wire::Guid => Some((Value::Guid(Guid::read(rest, 0)?), 16)),
        Wire::FileTime => Some((Value::FileTime(FileTime(le::i64(rest, 0)?)), 8)),
        Wire::SystemTime => Some((Value::SystemTime(SystemTime::read(rest, 0)?), 16)),
        Wire::Sid => {
            let size = 8 + 4 * usize::from(le::u8(rest, 1)?);
            Some((Value::Sid(rest.get(..size)?), size))
        }
        Wire::WbemSid => {
            let head = 2 * usize::from(pointer_size);
            if le::u32(rest, 0)? == 0 && !is_sid_behind_nothing(rest, head) {
                return Some((Value::Sid(&[]), 4));
            }
            let size = 8 + 4 * usize::from(le::u8(rest, head + 1)?);
            Some((Value::Sid(rest.get(head..head + size)?), head + size))
        }
        Wire::Utf16 => text16(rest, length),
        Wire::Ansi => text8(rest, length, show),
        Wire::Binary => binary(rest, length, show),
        Wire::CountedUtf16 | Wire::ReverseCountedUtf16 => {
            let (data, taken) = counted(rest, wire == Wire::ReverseCountedUtf16)?;
            Some((Value::Text(Text::Utf16(data)), taken))
        }
        Wire::CountedAnsi | Wire::ReverseCountedAnsi => {
            let (data, taken) = counted(rest, wire == Wire::ReverseCountedAnsi)?;
            Some((Value::Text(narrow(data, show)), taken))
        }
        Wire::CountedBinary => {
            let (data, taken) = counted(rest, false)?;
            Some((shown_bytes(data, show), taken))
        }
        Wire::RestUtf16 => Some((Value::Text(Text::Utf16(rest)), rest.len())),
        Wire::RestAnsi => Some((Value::Text(narrow(rest, show)), rest.len())),
        Wire::HexDump => {
            let size = usize::try_from(le::u32(rest, 0)?).ok()?;
            Some((Value::Binary(rest.get(4..size.checked_add(4)?)?), size + 4))
        }
    }
}

/// Pointer and attributes of a TOKEN_USER may be zero where no kernel wrote it; what makes a SID then is its form.
fn is_sid_behind_nothing(rest: &[u8], head: usize) -> bool {
    rest.get(..head).is_some_and(|head| head.iter().all(|byte| *byte == 0))
        && matches!(rest.get(head..head + 7), Some([1, 1..=15, 0, 0, 0, 0, 0]))
}

#[inline]
fn integer(
    rest: &[u8],
    bytes: usize,
    wire: Wire,
    show: Show,
    signed: i64,
    unsigned: u64,
) -> Option<Value<'_>> {
    let is_signed = matches!(wire, Wire::I8 | Wire::I16 | Wire::I32 | Wire::I64);
    Some(match show {
        Show::Plain if is_signed => Value::Int(signed),
        Show::Plain | Show::Unsigned => Value::UInt(unsigned),
        Show::Signed => Value::Int(signed),
        Show::Hex => Value::Hex(unsigned),
        Show::Boolean => Value::Bool(unsigned != 0),
        Show::Character if bytes == 1 => Value::Text(Text::Ansi(rest.get(..1)?)),
        Show::Character if bytes == 2 => Value::Text(Text::Utf16(rest.get(..2)?)),
        Show::Port => Value::UInt(u64::from((unsigned as u16).swap_bytes())),
        Show::Ipv4 => Value::Ipv4(rest.get(..4)?.try_into().ok()?),
        Show::FileTime => Value::FileTime(FileTime(signed)),
        Show::Status(kind) if is_signed => Value::Status { value: signed, kind },
        Show::Status(kind) => Value::Status { value: unsigned as i64, kind },
        _ => Value::UInt(unsigned),
    })
}

fn text16(rest: &[u8], length: Option<usize>) -> Option<(Value<'_>, usize)> {
    let (data, taken) = match length {
        // A fixed length is all used up, and the text ends at its first NUL.
        Some(length) => {
            let size = length.checked_mul(2)?;
            let data = rest.get(..size)?;
            (le::utf16_z(data).map_or(data, |(text, _)| text), size)
        }
        None if rest.is_empty() => return None,
        None => le::utf16_z(rest).unwrap_or((rest, rest.len())),
    };
    Some((Value::Text(Text::Utf16(data)), taken))
}

fn text8(rest: &[u8], length: Option<usize>, show: Show) -> Option<(Value<'_>, usize)> {
    let room = match length {
        Some(length) => rest.get(..length)?,
        None if rest.is_empty() => return None,
        None => rest,
    };
    let nul = room.iter().position(|&byte| byte == 0);
    let data = &room[..nul.unwrap_or(room.len())];
    let taken = length.unwrap_or(nul.map_or(room.len(), |at| at + 1));
    Some((Value::Text(narrow(data, show)), taken))
}

fn narrow(data: &[u8], show: Show) -> Text<'_> {
    if show == Show::Utf8 { Text::Utf8(data) } else { Text::Ansi(data) }
}

fn binary(rest: &[u8], length: Option<usize>, show: Show) -> Option<(Value<'_>, usize)> {
    let length = match length {
        Some(length) => length,
        // An IPv6 address needs no length; a socket address without one ends with the payload.
        None if show == Show::Ipv6 => 16,
        None if show == Show::SocketAddress => rest.len(),
        None => 0,
    };
    let data = rest.get(..length)?;
    Some((shown_bytes(data, show), length))
}

fn shown_bytes(data: &[u8], show: Show) -> Value<'_> {
    match show {
        Show::Ipv6 => match data.try_into() {
            Ok(address) => Value::Ipv6(address),
            Err(_) => Value::Binary(data),
        },
        Show::SocketAddress => Value::SocketAddress(data),
        _ => Value::Binary(data),
    }
}

fn counted(rest: &[u8], reversed: bool) -> Option<(&[u8], usize)> {
    let count = le::u16(rest, 0)?;
    let size = usize::from(if reversed { count.swap_bytes() } else { count });
    Some((rest.get(2..2 + size)?, 2 + size))
}
