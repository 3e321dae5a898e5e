//! Typed values and their text.

use etw_types::{FileTime, Guid, HEX_PAIRS, SystemTime, le};

/// The type of a value, a byte in front of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueType(pub u8);

#[allow(missing_docs)]
impl ValueType {
    pub const NULL: ValueType = ValueType(0x00);
    pub const STRING: ValueType = ValueType(0x01);
    pub const ANSI_STRING: ValueType = ValueType(0x02);
    pub const INT8: ValueType = ValueType(0x03);
    pub const UINT8: ValueType = ValueType(0x04);
    pub const INT16: ValueType = ValueType(0x05);
    pub const UINT16: ValueType = ValueType(0x06);
    pub const INT32: ValueType = ValueType(0x07);
    pub const UINT32: ValueType = ValueType(0x08);
    pub const INT64: ValueType = ValueType(0x09);
    pub const UINT64: ValueType = ValueType(0x0a);
    pub const FLOAT: ValueType = ValueType(0x0b);
    pub const DOUBLE: ValueType = ValueType(0x0c);
    pub const BOOL: ValueType = ValueType(0x0d);
    pub const BINARY: ValueType = ValueType(0x0e);
    pub const GUID: ValueType = ValueType(0x0f);
    pub const SIZE: ValueType = ValueType(0x10);
    pub const FILETIME: ValueType = ValueType(0x11);
    pub const SYSTEMTIME: ValueType = ValueType(0x12);
    pub const SID: ValueType = ValueType(0x13);
    pub const HEX32: ValueType = ValueType(0x14);
    pub const HEX64: ValueType = ValueType(0x15);
    pub const EVENT_HANDLE: ValueType = ValueType(0x20);
    /// A fragment of binary XML, with a template of its own.
    pub const FRAGMENT: ValueType = ValueType(0x21);
    pub const EVENT_XML: ValueType = ValueType(0x23);
    /// Flag: the value is an array of the type without it.
    pub const ARRAY: u8 = 0x80;
}

impl ValueType {
    /// Whether the value is an array.
    pub fn is_array(self) -> bool {
        self.0 & ValueType::ARRAY != 0
    }

    /// The type of an array's items; the type itself for others.
    pub fn item(self) -> ValueType {
        ValueType(self.0 & !ValueType::ARRAY)
    }

    /// Bytes of one item; `None`: it depends on the value.
    pub fn fixed_size(self) -> Option<usize> {
        Some(match self.0 {
            0x03 | 0x04 => 1,
            0x05 | 0x06 => 2,
            0x07 | 0x08 | 0x0b | 0x0d | 0x14 => 4,
            0x09 | 0x0a | 0x0c | 0x11 | 0x15 => 8,
            0x0f | 0x12 => 16,
            _ => return None,
        })
    }

    fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0x00 => "Null",
            0x01 => "String",
            0x02 => "AnsiString",
            0x03 => "Int8",
            0x04 => "UInt8",
            0x05 => "Int16",
            0x06 => "UInt16",
            0x07 => "Int32",
            0x08 => "UInt32",
            0x09 => "Int64",
            0x0a => "UInt64",
            0x0b => "Float",
            0x0c => "Double",
            0x0d => "Bool",
            0x0e => "Binary",
            0x0f => "Guid",
            0x10 => "Size",
            0x11 => "FileTime",
            0x12 => "SystemTime",
            0x13 => "Sid",
            0x14 => "Hex32",
            0x15 => "Hex64",
            0x20 => "EventHandle",
            0x21 => "Fragment",
            0x23 => "EventXml",
            _ => return None,
        })
    }
}

impl std::fmt::Debug for ValueType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.item().name() {
            Some(name) if self.is_array() => write!(f, "{name}[]"),
            Some(name) => f.write_str(name),
            None => write!(f, "{:#04x}", self.0),
        }
    }
}

/// A value as it is stored: its type and its bytes in the chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a> {
    /// The type.
    pub value_type: ValueType,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// A value that is no fragment and no array, read.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Scalar<'a> {
    /// Signed, of any size.
    Signed(i64),
    /// Unsigned, of any size.
    Unsigned(u64),
    /// Unsigned, shown in hex.
    Hex(u64),
    /// A floating-point number of four or eight bytes.
    Float(f64),
    /// Four bytes, or one.
    Bool(bool),
    /// UTF-16LE without its NUL.
    Utf16(&'a [u8]),
    /// 8-bit text without its NUL: UTF-8 where it is valid, else Windows-1252's printable half.
    Ansi(&'a [u8]),
    /// Bytes.
    Binary(&'a [u8]),
    /// Sixteen bytes.
    Guid(Guid),
    /// A SID's bytes.
    Sid(&'a [u8]),
    /// Eight bytes.
    FileTime(FileTime),
    /// Sixteen bytes.
    SystemTime(SystemTime),
}

impl<'a> Value<'a> {
    /// A value without type and bytes.
    pub const NULL: Value<'static> = Value { value_type: ValueType::NULL, bytes: &[] };

    /// Whether the value is absent: type 0, or no bytes of a type that needs some.
    pub fn is_null(&self) -> bool {
        self.value_type == ValueType::NULL
            || self.bytes.is_empty() && self.value_type.item().fixed_size().is_some()
    }

    /// The value, if it is a scalar whose size fits its type.
    pub fn scalar(&self) -> Option<Scalar<'a>> {
        let bytes = self.bytes;
        Some(match self.value_type {
            ValueType::STRING => Scalar::Utf16(without_nul16(bytes)),
            ValueType::ANSI_STRING => {
                Scalar::Ansi(&bytes[..bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len())])
            }
            ValueType::INT8 => Scalar::Signed(i64::from(le::u8(bytes, 0)? as i8)),
            ValueType::UINT8 => Scalar::Unsigned(u64::from(le::u8(bytes, 0)?)),
            ValueType::INT16 => Scalar::Signed(i64::from(le::u16(bytes, 0)? as i16)),
            ValueType::UINT16 => Scalar::Unsigned(u64::from(le::u16(bytes, 0)?)),
            ValueType::INT32 => Scalar::Signed(i64::from(le::u32(bytes, 0)? as i32)),
            ValueType::UINT32 => Scalar::Unsigned(u64::from(le::u32(bytes, 0)?)),
            ValueType::INT64 => Scalar::Signed(le::u64(bytes, 0)? as i64),
            ValueType::UINT64 => Scalar::Unsigned(le::u64(bytes, 0)?),
            ValueType::FLOAT => Scalar::Float(f64::from(f32::from_bits(le::u32(bytes, 0)?))),
            ValueType::DOUBLE => Scalar::Float(f64::from_bits(le::u64(bytes, 0)?)),
            ValueType::BOOL => match bytes.len() {
                4.. => Scalar::Bool(le::u32(bytes, 0)? != 0),
                _ => Scalar::Bool(le::u8(bytes, 0)? != 0),
            },
            ValueType::BINARY => Scalar::Binary(bytes),
            ValueType::GUID => Scalar::Guid(Guid::read(bytes, 0)?),
            ValueType::SIZE | ValueType::EVENT_HANDLE => match bytes.len() {
                8 => Scalar::Hex(le::u64(bytes, 0)?),
                4 => Scalar::Hex(u64::from(le::u32(bytes, 0)?)),
                _ => return None,
            },
            ValueType::FILETIME => Scalar::FileTime(FileTime(le::u64(bytes, 0)? as i64)),
            ValueType::SYSTEMTIME => Scalar::SystemTime(SystemTime::read(bytes, 0)?),
            ValueType::SID => Scalar::Sid(bytes),
            ValueType::HEX32 => Scalar::Hex(u64::from(le::u32(bytes, 0)?)),
            ValueType::HEX64 => Scalar::Hex(le::u64(bytes, 0)?),
            _ => return None,
        })
    }

    /// The items of an array: strings end with a NUL each, other types follow each other. Any other value is one item.
    pub fn items(&self) -> Items<'a> {
        Items { rest: *self, is_done: self.value_type.is_array() && self.bytes.is_empty() }
    }
}

/// The items of a [`Value`].
#[derive(Clone, Debug)]
pub struct Items<'a> {
    rest: Value<'a>,
    is_done: bool,
}

impl<'a> Iterator for Items<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        if self.is_done {
            return None;
        }
        let Value { value_type, bytes } = self.rest;
        let item = value_type.item();
        let (taken, rest) = if !value_type.is_array() {
            (bytes, &[][..])
        } else if let Some(size) = item.fixed_size() {
            bytes.split_at(size.min(bytes.len()))
        } else {
            match item {
                ValueType::STRING => {
                    let text = without_nul16(bytes);
                    (text, bytes.get(text.len() + 2..).unwrap_or_default())
                }
                ValueType::ANSI_STRING => {
                    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
                }
                ValueType::SID => {
                    let size = 8 + 4 * usize::from(bytes.get(1).copied().unwrap_or(0));
                    bytes.split_at(size.min(bytes.len()))
                }
                _ => (bytes, &[][..]),
            }
        };
        self.rest.bytes = rest;
        self.is_done = rest.is_empty();
        Some(Value { value_type: item, bytes: taken })
    }
}

/// UTF-16 up to the first NUL, or to the end.
pub(crate) fn without_nul16(bytes: &[u8]) -> &[u8] {
    let units = bytes.chunks_exact(2);
    let length = units.clone().position(|unit| unit == [0, 0]).unwrap_or(units.len());
    &bytes[..length * 2]
}

/// Text in the making: a string, or bytes that become one.
pub(crate) trait Text {
    /// Appends a text.
    fn push_text(&mut self, text: &str);
    /// Appends ASCII.
    fn push_ascii(&mut self, text: &[u8]);
    /// Appends the first bytes of a block of ASCII. Blocks are copied faster than texts of any length.
    fn push_block<const N: usize>(&mut self, block: &[u8; N], used: usize) {
        self.push_ascii(&block[..used.min(N)]);
    }
}

impl Text for String {
    fn push_text(&mut self, text: &str) {
        self.push_str(text);
    }

    fn push_ascii(&mut self, text: &[u8]) {
        self.push_str(std::str::from_utf8(text).unwrap_or_default());
    }
}

impl Text for Vec<u8> {
    #[inline]
    fn push_text(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes());
    }

    #[inline]
    fn push_ascii(&mut self, text: &[u8]) {
        self.extend_from_slice(text);
    }

    #[inline]
    fn push_block<const N: usize>(&mut self, block: &[u8; N], used: usize) {
        let end = self.len() + used;
        self.extend_from_slice(block);
        self.truncate(end);
    }
}

/// UTF-16 units that are looked at together.
const UNITS: usize = 16;

/// Appends the ASCII at the start of UTF-16LE, up to the first character that `is_plain` rejects or the rest of a block with one.
/// Returns what follows.
#[inline]
pub(crate) fn push_ascii_prefix<'b>(
    out: &mut impl Text,
    bytes: &'b [u8],
    is_plain: impl Fn(u8) -> bool,
) -> &'b [u8] {
    let mut rest = bytes;
    // Without a branch in it, the loop over a block is one of vectors.
    while let Some((block, after)) = rest.split_first_chunk::<{ 2 * UNITS }>() {
        let mut text = [0; UNITS];
        let mut is_special = false;
        for (slot, unit) in text.iter_mut().zip(block.chunks_exact(2)) {
            is_special |= unit[1] != 0 || !is_plain(unit[0]);
            *slot = unit[0];
        }
        if is_special {
            break;
        }
        out.push_ascii(&text);
        rest = after;
    }
    let mut text = [0; UNITS];
    let mut count = 0;
    for (slot, unit) in text.iter_mut().zip(rest.chunks_exact(2)) {
        if unit[1] != 0 || !is_plain(unit[0]) {
            break;
        }
        *slot = unit[0];
        count += 1;
    }
    out.push_ascii(&text[..count]);
    &rest[count * 2..]
}

/// Appends UTF-16LE as UTF-8, with U+FFFD for what is not valid.
pub(crate) fn push_utf16(out: &mut impl Text, bytes: &[u8]) {
    let bytes = push_ascii_prefix(out, bytes, |byte| byte.is_ascii());
    let units = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    for unit in char::decode_utf16(units) {
        let character = unit.unwrap_or(char::REPLACEMENT_CHARACTER);
        out.push_text(character.encode_utf8(&mut [0; 4]));
    }
}

impl Scalar<'_> {
    /// Appends the text that Windows shows in XML: GUIDs in braces and binary upper-case, hex with `0x`, times in UTC
    /// with seven decimals.
    pub fn push_text(&self, out: &mut String) {
        self.push_to(out);
    }

    /// As [`push_text`](Self::push_text).
    #[inline]
    pub(crate) fn push_to(&self, out: &mut impl Text) {
        match self {
            Scalar::Signed(value) => {
                if *value < 0 {
                    out.push_ascii(b"-");
                }
                push_decimal(out, value.unsigned_abs());
            }
            Scalar::Unsigned(value) => push_decimal(out, *value),
            Scalar::Hex(value) => push_hex_number(out, *value),
            Scalar::Float(value) => out.push_text(&value.to_string()),
            Scalar::Bool(value) => out.push_text(if *value { "true" } else { "false" }),
            Scalar::Utf16(bytes) => push_utf16(out, bytes),
            Scalar::Ansi(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => out.push_text(text),
                Err(_) => {
                    let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
                    out.push_text(&text);
                }
            },
            Scalar::Binary(bytes) => push_hex(out, bytes, UPPER),
            Scalar::Guid(guid) => {
                out.push_ascii(b"{");
                out.push_ascii(&guid.to_ascii().map(|byte| byte.to_ascii_uppercase()));
                out.push_ascii(b"}");
            }
            Scalar::Sid(bytes) => push_sid(out, bytes),
            Scalar::FileTime(time) => push_file_time(out, time.0 as u64),
            Scalar::SystemTime(time) => {
                if let Some(time) = FileTime::from_system_time(time) {
                    out.push_text(&time.to_string());
                }
            }
        }
    }
}

const UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// The two digits of each number below 100.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

#[inline]
pub(crate) fn push_decimal(out: &mut impl Text, value: u64) {
    if value < 100 {
        let [tens, ones] = PAIRS[value as usize];
        return match value < 10 {
            true => out.push_ascii(&[ones]),
            false => out.push_ascii(&[tens, ones]),
        };
    }
    // Twenty digits, and as many bytes behind them as are copied.
    let mut digits = [0; 20 + 24];
    let (mut at, mut rest) = (20, value);
    while rest > u64::from(u32::MAX) {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    let mut rest = rest as u32;
    while rest >= 100 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    at -= 2;
    digits[at..at + 2].copy_from_slice(&PAIRS[rest as usize]);
    at += usize::from(rest < 10);
    if let Some(block) = digits[at..].first_chunk::<24>() {
        out.push_block(block, 20 - at);
    }
}

/// Appends a number as `0x` and its digits.
#[inline]
pub(crate) fn push_hex_number(out: &mut impl Text, value: u64) {
    // Space for 0x, sixteen digits, and as many bytes behind them as are copied.
    let mut digits = [0; 18 + 18];
    for (pair, byte) in digits[2..18].chunks_exact_mut(2).zip(value.to_be_bytes()) {
        pair.copy_from_slice(&HEX_PAIRS[usize::from(byte)]);
    }
    let count = ((67 - value.leading_zeros()) / 4).max(1) as usize;
    let start = 16 - count;
    digits[start..start + 2].copy_from_slice(b"0x");
    if let Some(block) = digits[start..].first_chunk::<18>() {
        out.push_block(block, 2 + count);
    }
}

/// Appends a GUID of sixteen bytes in lower case; nothing for fewer.
#[inline]
pub(crate) fn push_guid(out: &mut impl Text, bytes: &[u8]) {
    // Offset of each byte's two digits in the text; the dashes lie between.
    const AT: [usize; 16] = [6, 4, 2, 0, 11, 9, 16, 14, 19, 21, 24, 26, 28, 30, 32, 34];
    let Some((bytes, _)) = bytes.split_first_chunk::<16>() else { return };
    let mut text = [b'-'; 36];
    for (byte, at) in bytes.iter().zip(AT) {
        text[at..at + 2].copy_from_slice(&HEX_PAIRS[usize::from(*byte)]);
    }
    out.push_ascii(&text);
}

/// Appends a FILETIME as a date and time in UTC.
#[inline]
pub(crate) fn push_file_time(out: &mut impl Text, ticks: u64) {
    let time = FileTime(ticks as i64);
    match time.to_ascii() {
        Some(text) => out.push_block(&text, 28),
        None => out.push_text(&time.to_string()),
    }
}

/// Appends two digits for each byte.
pub(crate) fn push_hex(out: &mut impl Text, bytes: &[u8], digits: &[u8; 16]) {
    for part in bytes.chunks(32) {
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(part) {
            pair[0] = digits[usize::from(byte >> 4)];
            pair[1] = digits[usize::from(byte & 15)];
        }
        out.push_ascii(&text[..part.len() * 2]);
    }
}

/// A SID as text; its bytes in hex where they are none.
///
/// ```text
/// 0 u8 revision   1 u8 count   2 u48 authority, big-endian   8 count × u32
/// ```
pub(crate) fn push_sid(out: &mut impl Text, bytes: &[u8]) {
    let parts = bytes.get(1).map_or(0, |count| usize::from(*count));
    if bytes.len() < 8 + 4 * parts {
        return push_hex(out, bytes, UPPER);
    }
    let revision = bytes[0];
    let authority = bytes[2..8].iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    out.push_ascii(b"S-");
    push_decimal(out, u64::from(revision));
    out.push_ascii(b"-");
    match authority {
        ..0x1_0000_0000 => push_decimal(out, authority),
        _ => push_hex_number(out, authority),
    }
    for part in bytes[8..].chunks_exact(4).take(parts) {
        out.push_ascii(b"-");
        push_decimal(out, u64::from(u32::from_le_bytes([part[0], part[1], part[2], part[3]])));
    }
}

/// The bytes of the SID with a text, as [`push_sid`] writes it; `None`: it is none.
pub(crate) fn sid_of(text: &str) -> Option<Vec<u8>> {
    let mut numbers = text.trim().strip_prefix("S-")?.split('-');
    let revision = numbers.next()?.parse::<u8>().ok()?;
    let authority = numbers.next()?;
    let authority = match authority.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => authority.parse().ok()?,
    };
    let parts = numbers.map(|part| part.parse::<u32>().ok()).collect::<Option<Vec<u32>>>()?;
    if parts.len() > 15 || authority >> 48 != 0 {
        return None;
    }
    let mut bytes = vec![revision, parts.len() as u8];
    bytes.extend_from_slice(&authority.to_be_bytes()[2..]);
    bytes.extend(parts.into_iter().flat_map(u32::to_le_bytes));
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value_type: ValueType, bytes: &[u8]) -> String {
        let mut out = String::new();
        Value { value_type, bytes }.scalar().unwrap().push_text(&mut out);
        out
    }

    #[test]
    fn values_have_the_text_of_windows() {
        let guid = Guid::from_u128(0x54849625_5478_4994_a5ba_3e3b0328c30d);
        assert_eq!(text(ValueType::GUID, &guid.0), "{54849625-5478-4994-A5BA-3E3B0328C30D}");
        assert_eq!(text(ValueType::HEX64, &0x80u64.to_le_bytes()), "0x80");
        assert_eq!(text(ValueType::BINARY, &[0xe1, 7]), "E107");
        assert_eq!(text(ValueType::INT16, &(-2i16).to_le_bytes()), "-2");
        assert_eq!(text(ValueType::SID, &[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0]), "S-1-5-18");
        let time = 0x01d2_fb32_9911_2bb0_u64.to_le_bytes();
        assert_eq!(text(ValueType::FILETIME, &time), "2017-07-12T17:16:28.2141616Z");
    }

    #[test]
    fn sids_are_read_from_their_text() {
        let user = "S-1-5-21-1865599463-3925841745-1112279863-500";
        assert_eq!(text(ValueType::SID, &sid_of(user).unwrap()), user);
        assert_eq!(sid_of("S-1-5-18").unwrap(), [1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0]);
        let large = "S-1-0x123456789abc";
        assert_eq!(text(ValueType::SID, &sid_of(large).unwrap()), large);
        let many = format!("S-1-5{}", "-1".repeat(16));
        for wrong in ["", "S-", "S-1", "S-1-", "S-1-5-", "S-1-5-x", "S-256-5", &many] {
            assert_eq!(sid_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn arrays_of_strings_have_their_empty_items() {
        let bytes: Vec<u8> = "ab\0\0c\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let value = Value { value_type: ValueType(0x81), bytes: &bytes };
        let items: Vec<usize> = value.items().map(|item| item.bytes.len()).collect();
        assert_eq!(items, [4, 0, 2]);
    }
}
