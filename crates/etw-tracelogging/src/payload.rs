//! [`PayloadBuilder`]: values, written.

use etw_types::{FileTime, Guid, SystemTime};

use crate::encode::{EncodeError, MAX_SIZE};
use crate::types::{InType, ValueSize, sid_size};

/// Writes the payload of an event: the values of its fields, end to end, unaligned.
///
/// Push each value, in the order of the fields. Push the [`count`](PayloadBuilder::count) of an array of variable count
/// before its values; a struct has no value of its own. Values are never truncated: if one does not fit,
/// [`finish`](PayloadBuilder::finish) fails. Windows drops events whose headers, metadata and payload together pass
/// 64 KiB; that is not checked.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct PayloadBuilder {
    payload: Vec<u8>,
    error: Option<EncodeError>,
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident: $ty:ty, $in_type:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(self, value: $ty) -> PayloadBuilder {
            self.value(InType::$in_type, &value.to_le_bytes())
        }
    )*};
}

impl PayloadBuilder {
    /// An empty payload.
    pub fn new() -> PayloadBuilder {
        PayloadBuilder::default()
    }

    /// Empties it; the memory stays.
    pub fn restart(mut self) -> PayloadBuilder {
        self.payload.clear();
        self.error = None;
        self
    }

    /// The payload as it is so far.
    ///
    /// # Errors
    ///
    /// The first value that was refused.
    pub fn as_bytes(&self) -> Result<&[u8], EncodeError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(&self.payload),
        }
    }

    /// Bytes that are values already.
    pub fn raw(mut self, bytes: &[u8]) -> PayloadBuilder {
        if self.error.is_none() {
            self.payload.extend(bytes);
        }
        self
    }

    /// One value of any type, as the bytes that [`InType::split`] returns: without count and terminator, which this adds.
    ///
    /// An error for bytes from which [`InType::split`] would not read the same value.
    pub fn value(mut self, in_type: InType, value: &[u8]) -> PayloadBuilder {
        if self.error.is_none() {
            self.error = push_value(&mut self.payload, in_type, value).err();
        }
        self
    }

    numbers! {
        /// One byte: INT8.
        i8: i8, INT8;
        /// One byte: UINT8, also BOOLEAN and 8-bit characters.
        u8: u8, UINT8;
        /// Two bytes: INT16.
        i16: i16, INT16;
        /// Two bytes: UINT16, also UTF-16 characters; a PORT has to be given byte-swapped.
        u16: u16, UINT16;
        /// Four bytes: INT32.
        i32: i32, INT32;
        /// Four bytes: UINT32, HEXINT32.
        u32: u32, UINT32;
        /// Eight bytes: INT64.
        i64: i64, INT64;
        /// Eight bytes: UINT64, HEXINT64.
        u64: u64, UINT64;
        /// Four bytes: FLOAT.
        f32: f32, FLOAT;
        /// Eight bytes: DOUBLE.
        f64: f64, DOUBLE;
    }

    /// Four bytes: BOOL32, 0 or 1.
    pub fn bool32(self, value: bool) -> PayloadBuilder {
        self.value(InType::BOOL32, &u32::from(value).to_le_bytes())
    }

    /// Sixteen bytes: GUID.
    pub fn guid(self, value: Guid) -> PayloadBuilder {
        self.value(InType::GUID, &value.0)
    }

    /// Eight bytes: FILETIME.
    pub fn filetime(self, value: FileTime) -> PayloadBuilder {
        self.value(InType::FILETIME, &value.0.to_le_bytes())
    }

    /// Sixteen bytes: SYSTEMTIME; the parts are not checked.
    pub fn system_time(self, value: &SystemTime) -> PayloadBuilder {
        let date = [value.year, value.month, value.day_of_week, value.day];
        let time = [value.hour, value.minute, value.second, value.milliseconds];
        let parts = date.into_iter().chain(time);
        self.value(InType::SYSTEMTIME, &utf16_bytes(parts))
    }

    /// Units and a zero unit: UNICODESTRING. Refused with a zero unit, or over 65535 bytes.
    pub fn utf16_z(self, units: impl IntoIterator<Item = u16>) -> PayloadBuilder {
        self.value(InType::UNICODESTRING, &utf16_bytes(units))
    }

    /// Bytes and a zero byte: ANSISTRING. Refused with a zero byte, or over 65535 bytes.
    pub fn ansi_z(self, text: &[u8]) -> PayloadBuilder {
        self.value(InType::ANSISTRING, text)
    }

    /// `u16` count of bytes, units: COUNTEDSTRING. Refused over 32767 units.
    pub fn counted_utf16(self, units: impl IntoIterator<Item = u16>) -> PayloadBuilder {
        self.value(InType::COUNTEDSTRING, &utf16_bytes(units))
    }

    /// `u16` byte count, bytes: COUNTEDANSISTRING. Refused over 65535 bytes.
    pub fn counted_ansi(self, text: &[u8]) -> PayloadBuilder {
        self.value(InType::COUNTEDANSISTRING, text)
    }

    /// `u16` byte count, bytes: BINARY, COUNTEDBINARY, and the payload of a custom field. Refused over 65535 bytes.
    pub fn binary(self, bytes: &[u8]) -> PayloadBuilder {
        self.value(InType::BINARY, bytes)
    }

    /// 8 to 68 bytes: SID. Refused unless there are 8 + 4·n, n being the second byte and at most 15.
    pub fn sid(self, sid: &[u8]) -> PayloadBuilder {
        self.value(InType::SID, sid)
    }

    /// Two bytes: the number of values of an array of variable count, which follow. Refused over 65535.
    pub fn count(mut self, value_count: usize) -> PayloadBuilder {
        if self.error.is_none() {
            self.error = push_u16(&mut self.payload, value_count).err();
        }
        self
    }

    /// Sets the [`count`](PayloadBuilder::count) that was pushed when the payload had `offset` bytes, for an array whose
    /// values were counted while they were pushed. Refused over 65535.
    pub fn set_count(mut self, offset: usize, value_count: usize) -> PayloadBuilder {
        if self.error.is_none() {
            let room = self.payload.get_mut(offset..).and_then(|rest| rest.first_chunk_mut());
            match (u16::try_from(value_count), room) {
                (Ok(count), Some(room)) => *room = count.to_le_bytes(),
                _ => self.error = Some(EncodeError::ValueTooLong { size: value_count }),
            }
        }
        self
    }

    /// The payload.
    ///
    /// # Errors
    ///
    /// The first value that was refused.
    pub fn finish(self) -> Result<Vec<u8>, EncodeError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.payload),
        }
    }
}

fn push_value(payload: &mut Vec<u8>, in_type: InType, value: &[u8]) -> Result<(), EncodeError> {
    let size = value.len();
    let checked = |good: bool| match good {
        true => Ok(()),
        false => Err(EncodeError::BadValueSize { in_type, size }),
    };
    match in_type.value_size() {
        ValueSize::Fixed(fixed_size) => checked(size == usize::from(fixed_size))?,
        ValueSize::Utf16Z => {
            checked(size % 2 == 0)?;
            check_string(size, value.chunks_exact(2).position(|unit| unit == [0, 0]), 2)?;
        }
        ValueSize::AnsiZ => check_string(size, value.iter().position(|&byte| byte == 0), 1)?,
        ValueSize::Counted => {
            checked(in_type != InType::COUNTEDSTRING || size % 2 == 0)?;
            push_u16(payload, size)?;
        }
        ValueSize::Sid => checked(sid_size(value) == Some(size))?,
        ValueSize::Struct => checked(size == 0)?,
        ValueSize::Undecodable => return Err(EncodeError::BadInType { in_type }),
    }
    payload.extend(value);
    match in_type.value_size() {
        ValueSize::Utf16Z => payload.extend([0, 0]),
        ValueSize::AnsiZ => payload.push(0),
        _ => {}
    }
    Ok(())
}

/// `nul` counts characters of `unit_size` bytes.
fn check_string(size: usize, nul: Option<usize>, unit_size: usize) -> Result<(), EncodeError> {
    match nul {
        Some(index) => Err(EncodeError::NulInString { offset: index * unit_size }),
        None if size > MAX_SIZE => Err(EncodeError::ValueTooLong { size }),
        None => Ok(()),
    }
}

fn push_u16(payload: &mut Vec<u8>, size: usize) -> Result<(), EncodeError> {
    let checked = u16::try_from(size).map_err(|_| EncodeError::ValueTooLong { size })?;
    payload.extend(checked.to_le_bytes());
    Ok(())
}

fn utf16_bytes(units: impl IntoIterator<Item = u16>) -> Vec<u8> {
    units.into_iter().flat_map(u16::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(builder: PayloadBuilder) -> EncodeError {
        builder.finish().unwrap_err()
    }

    #[test]
    fn values_that_are_too_long_are_rejected_not_cut() {
        use EncodeError::*;
        let new = PayloadBuilder::new;
        let fits = vec![1; MAX_SIZE];
        let over = vec![1; MAX_SIZE + 1];
        let too_long = ValueTooLong { size: MAX_SIZE + 1 };
        assert_eq!(new().binary(&fits).finish().unwrap().len(), 65537);
        assert_eq!(new().ansi_z(&fits).finish().unwrap().len(), 65536);
        assert_eq!(refusal(new().binary(&over)), too_long);
        assert_eq!(refusal(new().counted_ansi(&over)), too_long);
        assert_eq!(refusal(new().ansi_z(&over)), too_long);
        assert_eq!(refusal(new().utf16_z([b'x'.into(); 32768])), too_long);
        assert_eq!(refusal(new().counted_utf16([b'x'.into(); 32768])), too_long);
        assert!(new().counted_utf16([b'x'.into(); 32767]).finish().is_ok());
        assert_eq!(refusal(new().count(65536)), too_long);
        assert_eq!(refusal(new().ansi_z(b"a\0")), NulInString { offset: 1 });
        assert_eq!(refusal(new().utf16_z([1, 0])), NulInString { offset: 2 });
    }

    #[test]
    fn bytes_of_a_value_must_be_exactly_one_value() {
        let refused = |in_type, value: &[u8]| {
            let error = refusal(PayloadBuilder::new().value(in_type, value));
            assert_eq!(error, EncodeError::BadValueSize { in_type, size: value.len() });
        };
        refused(InType::UINT32, &[0; 3]);
        refused(InType::UNICODESTRING, &[1; 3]);
        refused(InType::COUNTEDSTRING, &[1; 3]);
        refused(InType::STRUCT, &[0]);
        refused(InType::SID, &[1, 1, 0, 0, 0, 0, 0, 5]);
        refused(InType::SID, &[1, 0, 0, 0, 0, 0, 0, 5, 9]);
        refused(InType::SID, &[16; 72]);
        refused(InType::SID, &[]);
        let error = refusal(PayloadBuilder::new().value(InType::POINTER, &[0; 8]));
        assert_eq!(error, EncodeError::BadInType { in_type: InType::POINTER });
    }

    #[test]
    fn pushed_values_are_split_again() {
        let sid = [1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];
        let values: &[(InType, &[u8])] = &[
            (InType::NULL, b""),
            (InType::UNICODESTRING, b"a\0\0\x01"),
            (InType::ANSISTRING, b"text"),
            (InType::UINT8, &[9]),
            (InType::DOUBLE, &[9; 8]),
            (InType::BINARY, &[0, 0, 0]),
            (InType::SYSTEMTIME, &[3; 16]),
            (InType::SID, &sid),
            (InType::COUNTEDSTRING, b"\0\0"),
            (InType::STRUCT, b""),
            (InType::COUNTEDBINARY, b""),
        ];
        let push =
            |builder: PayloadBuilder, value: &(InType, &[u8])| builder.value(value.0, value.1);
        let payload = values.iter().fold(PayloadBuilder::new(), push).finish().unwrap();
        let mut rest = &payload[..];
        for &(in_type, expected) in values {
            let (value, after) = in_type.split(rest).unwrap();
            assert_eq!(value, expected, "{in_type}");
            rest = after;
        }
        assert!(rest.is_empty());
    }
}
