//! One value out of a payload, by its wire form.

use crate::field::{Field, Kind, Length};
use crate::text::Text;
use crate::value::{Integer, Value};
use etw_tracelogging::{Show, Wire};
use etw_types::{FileTime, Guid, SystemTime, le};

/// Reads one value from the front of `rest`: the value and its size in bytes. `None` if `rest` is too short.
///
/// `length`: characters of text or bytes of binary, if the schema gives one.
#[inline]
pub(crate) fn read<'a>(
    wire: Wire,
    show: Show,
    rest: &'a [u8],
    length: Option<usize>,
    pointer_size: u8,
) -> Option<(Value<'a>, usize)> {
    let integer = |size: usize, signed: i64, unsigned: u64| {
        match show {
            Show::Plain if wire.is_signed() => return Some((Value::Int(signed), size)),
            Show::Plain => return Some((Value::UInt(unsigned), size)),
            _ => {}
        }
        let bytes = rest.get(..size)?;
        let integer = Integer { bytes, is_signed: wire.is_signed(), signed, unsigned };
        Some((Value::of_integer(integer, show), size))
    };
    match wire {
        Wire::Nothing => Some((Value::Null, 0)),
        Wire::I8 | Wire::U8 => {
            let byte = le::u8(rest, 0)?;
            integer(1, i64::from(byte as i8), u64::from(byte))
        }
        Wire::I16 | Wire::U16 => {
            let word = le::u16(rest, 0)?;
            integer(2, i64::from(word as i16), u64::from(word))
        }
        Wire::Pointer if pointer_size != 4 => {
            let word = le::u64(rest, 0)?;
            integer(8, word as i64, word)
        }
        Wire::I32 | Wire::U32 | Wire::Pointer => {
            let word = le::u32(rest, 0)?;
            integer(4, i64::from(word as i32), u64::from(word))
        }
        Wire::I64 | Wire::U64 => {
            let word = le::u64(rest, 0)?;
            integer(8, word as i64, word)
        }
        Wire::VarUint => {
            let (unsigned, size) = var_uint(rest)?;
            let bytes = rest.get(..size)?;
            let integer = Integer { bytes, is_signed: false, signed: unsigned as i64, unsigned };
            Some((Value::of_integer(integer, show), size))
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
        Wire::RestUtf16 => {
            let data = whole_units(rest);
            Some((Value::Text(Text::Utf16(data)), data.len()))
        }
        Wire::RestAnsi => Some((Value::Text(narrow(rest, show)), rest.len())),
        Wire::HexDump => {
            let size = usize::try_from(le::u32(rest, 0)?).ok()?;
            Some((Value::Binary(rest.get(4..size.checked_add(4)?)?), size + 4))
        }
    }
}

/// A ULEB128 number at the front of `rest`, and its size. `None` if it has more than 64 bits.
fn var_uint(rest: &[u8]) -> Option<(u64, usize)> {
    const LONGEST: usize = 10;
    let mut number = 0;
    for (at, byte) in rest.iter().take(LONGEST).enumerate() {
        let bits = u64::from(byte & 0x7f);
        let shift = 7 * at as u32;
        if bits.leading_zeros() < shift {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some((number, at + 1));
        }
    }
    None
}

/// Whether a SID follows a TOKEN_USER of zeros, which programs other than the kernel write. The form of the SID decides.
fn is_sid_behind_nothing(rest: &[u8], head: usize) -> bool {
    rest.get(..head).is_some_and(|head| head.iter().all(|byte| *byte == 0))
        && matches!(rest.get(head..head + 7), Some([1, 1..=15, 0, 0, 0, 0, 0]))
}

fn text16(rest: &[u8], length: Option<usize>) -> Option<(Value<'_>, usize)> {
    let (data, taken) = match length {
        // The value takes its whole length; the text in it ends at its first NUL.
        Some(length) => {
            let size = length.checked_mul(2)?;
            let data = rest.get(..size)?;
            (le::utf16_z(data).map_or(data, |(text, _)| text), size)
        }
        None if rest.len() < 2 => return None,
        None => le::utf16_z(rest).unwrap_or_else(|| {
            let data = whole_units(rest);
            (data, data.len())
        }),
    };
    Some((Value::Text(Text::Utf16(data)), taken))
}

/// UTF-16 without half a character at its end, which stays behind the text.
fn whole_units(text: &[u8]) -> &[u8] {
    &text[..text.len() & !1]
}

/// Whether what is left of the payload behind the value of a field is half a character of it. A field behind it has no bytes then.
#[inline]
pub(crate) fn is_half_character(field: &Field, payload: &[u8], at: usize) -> bool {
    if payload.len() != at + 1 {
        return false;
    }
    match field.kind {
        Kind::Scalar { wire: Wire::Utf16, .. } if field.length == Length::Own => {
            at < 2 || payload[at - 2..at] != [0, 0]
        }
        Kind::Scalar { wire: Wire::RestUtf16, .. } => true,
        _ => false,
    }
}

fn text8(rest: &[u8], length: Option<usize>, show: Show) -> Option<(Value<'_>, usize)> {
    let bytes = match length {
        Some(length) => rest.get(..length)?,
        None if rest.is_empty() => return None,
        None => rest,
    };
    let nul = le::nul(bytes);
    let data = &bytes[..nul.unwrap_or(bytes.len())];
    let taken = length.unwrap_or(nul.map_or(bytes.len(), |at| at + 1));
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

pub(crate) fn counted(rest: &[u8], reversed: bool) -> Option<(&[u8], usize)> {
    let count = le::u16(rest, 0)?;
    let size = usize::from(if reversed { count.swap_bytes() } else { count });
    Some((rest.get(2..2 + size)?, 2 + size))
}

/// The integer in `bytes`, as a length or a count, whatever its out-type; 0 if it is negative or not an integer.
pub(crate) fn stored_integer(field: &Field, bytes: &[u8]) -> u64 {
    let Kind::Scalar { wire, .. } = field.kind else { return 0 };
    let negative = wire.is_signed() && bytes.last().is_some_and(|&last| last >= 0x80);
    if negative || !(wire.is_integer() || wire == Wire::Pointer) {
        return 0;
    }
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}
