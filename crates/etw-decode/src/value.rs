//! One value of a field, and its text and JSON.

use crate::block_text::put_front;
use crate::custom::{CustomDecoders, Rendered};
use crate::hex::{hex_digits, write_hex_bytes};
use crate::map::Map;
use crate::status::status_text;
use crate::text::{CodePage, Text, write_json_string};
use etw_tracelogging::{Show, StatusKind};
use etw_types::{Clock, FileTime, Guid, SystemTime, eight_digits, le};
use std::net::Ipv6Addr;

/// How values are written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Quote integers beyond ±2⁵³ in JSON.
    pub json_strings64: bool,
    /// For 8-bit text that is not UTF-8.
    pub code_page: CodePage,
    /// Decoders of custom-serialised fields. Without a decoder, or if it fails, a field is shown as protocol, schema and bytes.
    pub custom: Option<&'static CustomDecoders>,
    /// The clock of the records' trace, for texts of WPP messages that name the time (`%4`), which stays as it is without a clock.
    pub clock: Option<Clock>,
}

impl Style {
    fn rendered(&self, protocol: u8, schema: &[u8], data: &[u8]) -> Option<Rendered> {
        self.custom?.render(protocol, schema, data)
    }
}

/// A decoded value, borrowed from payload and schema.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// A field without bytes.
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// An integer that is meant as bits: addresses, handles, masks.
    Hex(u64),
    /// true or false
    Bool(bool),
    /// IEEE single
    F32(f32),
    /// IEEE double
    F64(f64),
    /// Text, or one character.
    Text(Text<'a>),
    /// GUID
    Guid(Guid),
    /// The bytes of a SID; empty for none.
    Sid(&'a [u8]),
    /// Bytes
    Binary(&'a [u8]),
    /// IPv4 address
    Ipv4([u8; 4]),
    /// IPv6 address
    Ipv6([u8; 16]),
    /// The bytes of a SOCKADDR.
    SocketAddress(&'a [u8]),
    /// FILETIME
    FileTime(FileTime),
    /// SYSTEMTIME
    SystemTime(SystemTime),
    /// An integer with a name, or several.
    Mapped {
        /// The integer.
        value: u64,
        /// Its names.
        map: &'a Map,
    },
    /// A status code; a negative one where its type is signed.
    Status {
        /// The code.
        value: i64,
        /// The kind of status, which decides its name.
        kind: StatusKind,
        /// Its type is a hexadecimal number, which JSON shows.
        is_hex: bool,
    },
    /// A custom-serialised field (TraceLoggingCustom).
    Custom {
        /// 0–31; 0–4 are Microsoft's.
        protocol: u8,
        /// The schema that the protocol needs to decode the data.
        schema: &'a [u8],
        /// The serialised value.
        data: &'a [u8],
    },
}

/// Integers beyond this are not exact in a double.
const EXACT_IN_DOUBLE: u64 = 1 << 53;

/// An integer of a payload, read with and without its sign.
pub(crate) struct Integer<'a> {
    /// Its bytes, little-endian.
    pub bytes: &'a [u8],
    /// Whether its in-type is signed.
    pub is_signed: bool,
    pub signed: i64,
    pub unsigned: u64,
}

impl<'a> Value<'a> {
    /// The value of an integer. A [`Show`] for other kinds of values does not apply.
    #[inline]
    pub(crate) fn of_integer(integer: Integer<'a>, show: Show) -> Value<'a> {
        let Integer { bytes, is_signed, signed, unsigned } = integer;
        match (show, bytes) {
            (Show::Plain, _) if is_signed => Value::Int(signed),
            (Show::Plain | Show::Unsigned, _) => Value::UInt(unsigned),
            (Show::Signed, _) => Value::Int(signed),
            (Show::Hex, _) => Value::Hex(unsigned),
            (Show::Boolean, _) => Value::Bool(unsigned != 0),
            (Show::Character, [_]) => Value::Text(Text::Ansi(bytes)),
            (Show::Character, [_, _]) => Value::Text(Text::Utf16(bytes)),
            (Show::Port, _) => Value::UInt(u64::from((unsigned as u16).swap_bytes())),
            (Show::Ipv4, &[a, b, c, d]) => Value::Ipv4([a, b, c, d]),
            (Show::FileTime, _) => Value::FileTime(FileTime(signed)),
            (Show::Status(kind) | Show::HexStatus(kind), _) => Value::Status {
                value: if is_signed { signed } else { unsigned as i64 },
                kind,
                is_hex: matches!(show, Show::HexStatus(_)),
            },
            _ => Value::UInt(unsigned),
        }
    }
}

impl Value<'_> {
    /// The integer, if it is shown as one, with or without a name.
    pub fn as_integer(&self) -> Option<i128> {
        match *self {
            Value::Int(value) | Value::Status { value, .. } => Some(value.into()),
            Value::UInt(value) | Value::Hex(value) | Value::Mapped { value, .. } => {
                Some(value.into())
            }
            Value::Bool(value) => Some(value.into()),
            _ => None,
        }
    }

    /// The value as an unsigned integer, for lengths and counts of other fields.
    pub fn as_u64(&self) -> Option<u64> {
        u64::try_from(self.as_integer()?).ok()
    }

    /// Appends the value as JSON.
    #[inline(always)]
    pub fn write_json(&self, out: &mut Vec<u8>, style: &Style) {
        // Most values are of these kinds, for which a call costs as much as the digits.
        match *self {
            Value::Hex(value) => write_quoted_hex(out, value),
            Value::UInt(value) if !style.json_strings64 => write_uint(out, value),
            Value::Int(value) if !style.json_strings64 => write_int(out, value),
            Value::Text(text) => text.write_json(out, style.code_page),
            _ => self.write_rare_json(out, style),
        }
    }

    /// [`write_json`](Value::write_json) of all kinds.
    #[inline(never)]
    fn write_rare_json(&self, out: &mut Vec<u8>, style: &Style) {
        match *self {
            Value::Null => out.extend_from_slice(b"null"),
            Value::Status { value, is_hex: true, .. } => write_quoted_hex(out, value as u64),
            Value::Status { value, .. } => write_int(out, value),
            Value::Int(value) => {
                let quoted = style.json_strings64 && value.unsigned_abs() > EXACT_IN_DOUBLE;
                quote_if(quoted, out, |out| write_int(out, value));
            }
            Value::UInt(value) => {
                let quoted = style.json_strings64 && value > EXACT_IN_DOUBLE;
                quote_if(quoted, out, |out| write_uint(out, value));
            }
            Value::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
            Value::F32(value) => quote_if(!value.is_finite(), out, |out| write_f32(out, value)),
            Value::F64(value) => quote_if(!value.is_finite(), out, |out| write_f64(out, value)),
            Value::Text(text) => text.write_json(out, style.code_page),
            Value::Mapped { value, map } => match map.name_of(value) {
                Some(name) => {
                    out.extend_from_slice(b"{\"value\":");
                    Value::UInt(value).write_json(out, style);
                    out.extend_from_slice(b",\"name\":");
                    write_json_string(out, &name);
                    out.push(b'}');
                }
                None => Value::UInt(value).write_json(out, style),
            },
            Value::Custom { protocol, schema, data } => {
                match style.rendered(protocol, schema, data) {
                    Some(Rendered::Json(json)) => return out.extend_from_slice(json.as_bytes()),
                    Some(Rendered::Text(text)) => return write_json_string(out, &text),
                    None => {}
                }
                out.extend_from_slice(b"{\"protocol\":");
                write_uint(out, u64::from(protocol));
                out.extend_from_slice(b",\"schema\":\"");
                write_hex_bytes(out, schema);
                out.extend_from_slice(b"\",\"data\":\"");
                write_hex_bytes(out, data);
                out.extend_from_slice(b"\"}");
            }
            Value::Hex(value) => write_quoted_hex(out, value),
            // The rest is text of digits, letters and marks that need no escape.
            Value::Guid(_)
            | Value::Sid(_)
            | Value::Binary(_)
            | Value::Ipv4(_)
            | Value::Ipv6(_)
            | Value::SocketAddress(_)
            | Value::FileTime(_)
            | Value::SystemTime(_) => quote_if(true, out, |out| self.write_text(out, style)),
        }
    }

    /// Whether a message has the value in the form of [`write_text`](Value::write_text), which is also what JSON has, with or without quotes.
    #[inline]
    pub(crate) fn has_same_text_in_messages(&self) -> bool {
        matches!(
            self,
            Value::Int(_)
                | Value::UInt(_)
                | Value::Hex(_)
                | Value::Bool(_)
                | Value::F32(_)
                | Value::F64(_)
                | Value::Text(_)
                | Value::Sid(_)
                | Value::Ipv4(_)
                | Value::Ipv6(_)
                | Value::SocketAddress(_)
                | Value::FileTime(_)
                | Value::SystemTime(_)
        )
    }

    /// Appends the value as Windows inserts it into a message: GUIDs in braces, bytes as `0x…` in upper case, names of values with
    /// the space that ends them in message tables.
    pub(crate) fn write_message(&self, out: &mut Vec<u8>, style: &Style) {
        match *self {
            Value::Guid(guid) => {
                out.push(b'{');
                out.extend(guid.to_ascii().to_ascii_uppercase());
                out.push(b'}');
            }
            Value::Binary(bytes) => {
                out.extend_from_slice(b"0x");
                let start = out.len();
                write_hex_bytes(out, bytes);
                out[start..].make_ascii_uppercase();
            }
            Value::Mapped { value, map } => match map.text_of(value) {
                Some(text) => out.extend_from_slice(text.as_bytes()),
                None => write_uint(out, value),
            },
            _ => self.write_text(out, style),
        }
    }

    /// Appends the value as text: what JSON has between its quotes, unescaped; a mapped value's name.
    #[inline(always)]
    pub fn write_text(&self, out: &mut Vec<u8>, style: &Style) {
        // As in `write_json`.
        match *self {
            Value::Hex(value) => write_prefixed_hex(out, value),
            Value::UInt(value) => write_uint(out, value),
            Value::Int(value) => write_int(out, value),
            Value::Text(text) => text.write(out, style.code_page),
            _ => self.write_rare_text(out, style),
        }
    }

    /// [`write_text`](Value::write_text) of all kinds.
    #[inline(never)]
    fn write_rare_text(&self, out: &mut Vec<u8>, style: &Style) {
        match *self {
            Value::Null => {}
            Value::Status { value, kind, .. } => {
                out.extend_from_slice(status_text(kind, value as u32).as_bytes());
            }
            Value::Int(value) => write_int(out, value),
            Value::UInt(value) => write_uint(out, value),
            Value::Hex(value) => write_prefixed_hex(out, value),
            Value::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
            Value::F32(value) => write_f32(out, value),
            Value::F64(value) => write_f64(out, value),
            Value::Text(text) => text.write(out, style.code_page),
            Value::Guid(guid) => out.extend_from_slice(&guid.to_ascii()),
            Value::Sid(sid) => write_sid(out, sid),
            Value::Binary(bytes) => write_hex_bytes(out, bytes),
            Value::Ipv4(bytes) => write_ipv4(out, bytes),
            Value::Ipv6(bytes) => write_display(out, Ipv6Addr::from(bytes)),
            Value::SocketAddress(bytes) => write_socket_address(out, bytes),
            Value::FileTime(time) => write_time(out, time),
            Value::SystemTime(time) => match FileTime::from_system_time(&time) {
                Some(time) => write_time(out, time),
                None => write_parts(out, &time),
            },
            Value::Mapped { value, map } => match map.name_of(value) {
                Some(name) => out.extend_from_slice(name.as_bytes()),
                None => write_uint(out, value),
            },
            Value::Custom { protocol, schema, data } => {
                if let Some(Rendered::Json(text) | Rendered::Text(text)) =
                    style.rendered(protocol, schema, data)
                {
                    return out.extend_from_slice(text.as_bytes());
                }
                out.extend_from_slice(b"protocol ");
                write_uint(out, u64::from(protocol));
                out.extend_from_slice(b" schema ");
                write_hex_bytes(out, schema);
                out.extend_from_slice(b" data ");
                write_hex_bytes(out, data);
            }
        }
    }
}

fn quote_if(quoted: bool, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    if quoted {
        out.push(b'"');
    }
    write(out);
    if quoted {
        out.push(b'"');
    }
}

/// Appends a decimal number.
#[inline]
pub fn write_uint(out: &mut Vec<u8>, value: u64) {
    match u32::try_from(value) {
        Ok(value @ 0..10) => out.push(digit(value)),
        Ok(value @ 10..EIGHT_DIGITS) => write_digits(out, value),
        _ => write_long(out, value),
    }
}

/// [`write_uint`] of a number with a sign.
#[inline]
pub fn write_int(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    write_uint(out, value.unsigned_abs());
}

/// The first number with more than eight digits.
const EIGHT_DIGITS: u32 = 100_000_000;

/// [`write_uint`] below [`EIGHT_DIGITS`].
#[inline]
fn write_digits(out: &mut Vec<u8>, value: u32) {
    let digits = eight_digits(value);
    // The lowest byte has the first digit.
    let zeros = (digits.trailing_zeros() / 8).min(7);
    let text = (digits | ASCII_ZEROS) >> (8 * zeros);
    put_front(out, text.to_le_bytes(), 8 - zeros as usize);
}

/// [`write_uint`] of nine digits and more.
fn write_long(out: &mut Vec<u8>, value: u64) {
    const UNIT: u64 = EIGHT_DIGITS as u64;
    let (front, last) = (value / UNIT, value % UNIT);
    match u32::try_from(front) {
        Ok(front @ ..EIGHT_DIGITS) => write_digits(out, front),
        _ => write_long(out, front),
    }
    out.extend_from_slice(&(eight_digits(last as u32) | ASCII_ZEROS).to_le_bytes());
}

const ASCII_ZEROS: u64 = 0x3030_3030_3030_3030;

fn write_f64(out: &mut Vec<u8>, value: f64) {
    match value {
        value if value.is_nan() => out.extend_from_slice(b"NaN"),
        f64::INFINITY => out.extend_from_slice(b"Infinity"),
        f64::NEG_INFINITY => out.extend_from_slice(b"-Infinity"),
        _ if write_thousandths(out, value) => {}
        _ => out.extend_from_slice(ryu::Buffer::new().format_finite(value).as_bytes()),
    }
}

/// Appends a number of thousandths, as most durations and sizes are, in the form of the general writer; `false` for all others. Two
/// decimal numbers of at most 15 digits are never the same double, so this one is the shortest.
fn write_thousandths(out: &mut Vec<u8>, value: f64) -> bool {
    let scaled = value.abs() * 1000.0;
    if !(0.75..1e15).contains(&scaled) {
        return false;
    }
    let thousandths = (scaled + 0.5) as u64;
    if thousandths as f64 / 1000.0 != value.abs() {
        return false;
    }
    if value < 0.0 {
        out.push(b'-');
    }
    write_uint(out, thousandths / 1000);
    let part = (thousandths % 1000) as u32;
    let text = [b'.', digit(part / 100), digit(part / 10 % 10), digit(part % 10)];
    let length = match part {
        _ if part % 10 != 0 => 4,
        _ if part % 100 != 0 => 3,
        _ => 2,
    };
    out.extend_from_slice(&text[..length]);
    true
}

fn digit(value: u32) -> u8 {
    b'0' + value as u8
}

fn write_f32(out: &mut Vec<u8>, value: f32) {
    if value.is_finite() {
        out.extend_from_slice(ryu::Buffer::new().format_finite(value).as_bytes());
    } else {
        write_f64(out, f64::from(value));
    }
}

/// Hex digits without padding.
pub(crate) fn write_hex(out: &mut Vec<u8>, value: u64) {
    let (digits, count) = hex_digits(value);
    put_front(out, digits, count);
}

/// `0x…`
#[inline]
pub(crate) fn write_prefixed_hex(out: &mut Vec<u8>, value: u64) {
    let (digits, count) = hex_digits(value);
    let start = out.len();
    out.extend_from_slice(b"0x0123456789abcdef");
    if let Some(room) = out.get_mut(start..).and_then(<[u8]>::first_chunk_mut::<18>) {
        room[2..].copy_from_slice(&digits);
    }
    out.truncate(start + 2 + count);
}

/// `"0x…"`
#[inline]
pub(crate) fn write_quoted_hex(out: &mut Vec<u8>, value: u64) {
    let (digits, count) = hex_digits(value);
    // Room for all of it at once, which is filled in place: a processor waits where it loads what several stores have just written.
    let start = out.len();
    out.extend_from_slice(b"\"0x0123456789abcdef\"");
    if let Some(room) = out.get_mut(start..).and_then(<[u8]>::first_chunk_mut::<20>) {
        room[3..19].copy_from_slice(&digits);
        room[3 + count] = b'"';
    }
    out.truncate(start + 4 + count);
}

fn write_display(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    use std::io::Write;
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{value}");
}

fn write_ipv4(out: &mut Vec<u8>, address: [u8; 4]) {
    let mut text = [b'.'; 16];
    let mut end = 0;
    for byte in address {
        if byte >= 100 {
            text[end] = b'0' + byte / 100;
            end += 1;
        }
        if byte >= 10 {
            text[end] = b'0' + byte / 10 % 10;
            end += 1;
        }
        text[end] = b'0' + byte % 10;
        text[end + 1] = b'.';
        end += 2;
    }
    out.extend_from_slice(&text[..end - 1]);
}

fn write_time(out: &mut Vec<u8>, time: FileTime) {
    if !time.put_ascii(out) {
        write_int(out, time.0);
    }
}

/// A SYSTEMTIME that is no date, part by part.
fn write_parts(out: &mut Vec<u8>, time: &SystemTime) {
    write_display(
        out,
        format_args!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}",
            time.year, time.month, time.day, time.hour, time.minute, time.second, time.milliseconds
        ),
    );
}

/// `S-1-5-21-…`; bytes that are no SID as hex. An authority of 2³² or more is hex, as Windows writes it.
fn write_sid(out: &mut Vec<u8>, sid: &[u8]) {
    let count = sid.get(1).map_or(0, |&count| usize::from(count));
    if sid.len() < 8 || sid.len() != 8 + 4 * count {
        return write_hex_bytes(out, sid);
    }
    let authority = sid[2..8].iter().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
    out.extend_from_slice(b"S-");
    write_uint(out, u64::from(sid[0]));
    out.push(b'-');
    if authority >> 32 == 0 {
        write_uint(out, authority);
    } else {
        out.extend_from_slice(b"0x");
        write_hex(out, authority);
    }
    for part in 0..count {
        out.push(b'-');
        write_uint(out, u64::from(le::u32(sid, 8 + 4 * part).unwrap_or(0)));
    }
}

/// `address:port` for IPv4; `[address]:port` for IPv6, without a port the address alone; other families as hex.
fn write_socket_address(out: &mut Vec<u8>, bytes: &[u8]) {
    let port = bytes.get(2..4).map_or(0, |port| u16::from_be_bytes([port[0], port[1]]));
    let v4 = || -> Option<[u8; 4]> { bytes.get(4..8)?.try_into().ok() };
    let v6 = || -> Option<[u8; 16]> { bytes.get(8..24)?.try_into().ok() };
    match (le::u16(bytes, 0), v4(), v6()) {
        (Some(2), Some(address), _) => {
            write_ipv4(out, address);
            out.push(b':');
            write_uint(out, u64::from(port));
        }
        (Some(23), _, Some(address)) => {
            let address = Ipv6Addr::from(address);
            let scope = le::u32(bytes, 24).filter(|&scope| scope != 0);
            let scope = scope.map_or(String::new(), |scope| format!("%{scope}"));
            if port == 0 {
                write_display(out, format_args!("{address}{scope}"));
            } else {
                write_display(out, format_args!("[{address}{scope}]:{port}"));
            }
        }
        _ => write_hex_bytes(out, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(value: Value<'_>) -> String {
        let mut out = Vec::new();
        value.write_json(&mut out, &Style::default());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_value_has_its_json() {
        let v6 = [
            23, 0, 0x1f, 0x90, 0, 0, 0, 0, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
            0, 0, 0, 0,
        ];
        let mut v6_without_port = v6;
        v6_without_port[3] = 0;
        v6_without_port[2] = 0;
        for (value, expected) in [
            (Value::Null, "null"),
            (Value::Int(i64::MIN), "-9223372036854775808"),
            (Value::UInt(u64::MAX), "18446744073709551615"),
            (Value::Hex(0), "\"0x0\""),
            (Value::Hex(0xdead_beef), "\"0xdeadbeef\""),
            (Value::Hex(u64::MAX), "\"0xffffffffffffffff\""),
            (Value::Bool(true), "true"),
            (Value::F32(0.1), "0.1"),
            (Value::F64(1e300), "1e300"),
            (Value::F64(-0.0), "-0.0"),
            (Value::F64(f64::NAN), "\"NaN\""),
            (Value::F32(f32::NEG_INFINITY), "\"-Infinity\""),
            (Value::Binary(&[0, 0xab]), "\"00ab\""),
            (Value::Ipv4([127, 0, 0, 1]), "\"127.0.0.1\""),
            (Value::Ipv6([0; 16]), "\"::\""),
            (Value::SocketAddress(&[2, 0, 0, 80, 10, 0, 0, 1, 0, 0]), "\"10.0.0.1:80\""),
            (Value::SocketAddress(&[2, 0, 0, 0, 10, 0, 0, 1]), "\"10.0.0.1:0\""),
            (Value::SocketAddress(&v6), "\"[2001:db8::1]:8080\""),
            (Value::SocketAddress(&v6_without_port), "\"2001:db8::1\""),
            (Value::SocketAddress(&[33, 0, 1]), "\"210001\""),
            (Value::Sid(&[1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 32, 2, 0, 0]), "\"S-1-5-32-544\""),
            (Value::Sid(&[1, 0, 1, 0, 0, 0, 0, 5]), "\"S-1-0x10000000005\""),
            (Value::Sid(&[1, 2, 3]), "\"010203\""),
            (Value::FileTime(FileTime(0)), "\"1601-01-01T00:00:00.0000000Z\""),
            (Value::FileTime(FileTime(i64::MAX)), "\"9223372036854775807\""),
            (
                Value::Custom { protocol: 5, schema: &[1, 2], data: &[0xff] },
                "{\"protocol\":5,\"schema\":\"0102\",\"data\":\"ff\"}",
            ),
        ] {
            assert_eq!(json(value), expected);
        }
    }

    #[test]
    fn thousandths_have_the_form_of_the_general_writer() {
        let general = |value: f64| ryu::Buffer::new().format_finite(value).to_owned();
        let mut value = 1.0e-4_f64;
        let mut taken = 0;
        while value < 1.0e17 {
            for exact in
                [value, (value * 1e3).round() / 1e3, value.round(), (value * 8.0).round() / 8.0]
            {
                for number in [exact, -exact, f64::from_bits(exact.to_bits() + 1)] {
                    let mut out = Vec::new();
                    write_f64(&mut out, number);
                    assert_eq!(String::from_utf8(out).unwrap(), general(number));
                    taken += usize::from(write_thousandths(&mut Vec::new(), number));
                }
            }
            value *= 1.003;
        }
        assert!(taken > 10_000, "{taken}");
    }

    #[test]
    fn integers_have_the_digits_of_the_general_writer() {
        let mut values = vec![0, 9, 10, 99, 100, 9_999, 10_000, 99_999_999, 100_000_000, u64::MAX];
        let mut value = 1u64;
        while value < u64::MAX / 3 {
            values.extend([value, value - 1, value + 1]);
            value += value / 4 + 1;
        }
        for value in values {
            let (mut decimal, mut hex) = (Vec::new(), Vec::new());
            write_uint(&mut decimal, value);
            write_hex(&mut hex, value);
            assert_eq!(decimal, value.to_string().as_bytes());
            assert_eq!(hex, format!("{value:x}").as_bytes());
            assert_eq!(json(Value::Hex(value)), format!("\"{value:#x}\""));
            let negative = (value as i64).wrapping_neg();
            assert_eq!(json(Value::Int(negative)), negative.to_string());
        }
        for value in 0..100_000_000 / 997 {
            let value = value * 997;
            assert_eq!(json(Value::UInt(value)), value.to_string());
        }
    }

    #[test]
    fn integers_beyond_a_double_can_be_quoted() {
        let style = Style { json_strings64: true, ..Style::default() };
        for (value, expected) in [
            (Value::UInt(1 << 53), "9007199254740992"),
            (Value::UInt((1 << 53) + 1), "\"9007199254740993\""),
            (Value::Int(-(1 << 53)), "-9007199254740992"),
            (Value::Int(-(1 << 53) - 1), "\"-9007199254740993\""),
        ] {
            let mut out = Vec::new();
            value.write_json(&mut out, &style);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn an_impossible_system_time_is_shown_as_it_is() {
        let time = SystemTime { year: 2024, month: 13, day: 1, ..SystemTime::default() };
        assert_eq!(json(Value::SystemTime(time)), "\"2024-13-01T00:00:00.000\"");
        let time = SystemTime { month: 12, milliseconds: 7, ..time };
        assert_eq!(json(Value::SystemTime(time)), "\"2024-12-01T00:00:00.0070000Z\"");
    }
}
