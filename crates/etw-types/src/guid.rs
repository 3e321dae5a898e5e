use std::fmt;
use std::str::FromStr;

/// A GUID in its on-disk byte order: a little-endian `u32`, two little-endian `u16`, eight bytes.
///
/// Shown lower-case without braces; parsed in either case, with or without braces.
#[doc(alias = "GUID")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// All zero: "no GUID" wherever one is optional.
    pub const ZERO: Guid = Guid([0; 16]);

    /// From the four parts of its textual form, as C headers write them.
    pub const fn from_fields(data1: u32, data2: u16, data3: u16, data4: [u8; 8]) -> Guid {
        let a = data1.to_le_bytes();
        let b = data2.to_le_bytes();
        let c = data3.to_le_bytes();
        let d = data4;
        Guid([
            a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], d[0], d[1], d[2], d[3], d[4], d[5],
            d[6], d[7],
        ])
    }

    /// From a number whose hex digits read like the textual form: `0x68fdd900_4a3e_11d1_84f4_0000f80464e3`.
    pub const fn from_u128(value: u128) -> Guid {
        let b = value.to_be_bytes();
        Guid([
            b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6], b[8], b[9], b[10], b[11], b[12], b[13],
            b[14], b[15],
        ])
    }

    /// Reads sixteen bytes at `offset`.
    #[inline]
    pub fn read(bytes: &[u8], offset: usize) -> Option<Guid> {
        let end = offset.checked_add(16)?;
        Some(Guid(bytes.get(offset..end)?.try_into().ok()?))
    }

    /// Whether every byte is zero.
    #[inline]
    pub fn is_zero(&self) -> bool {
        u128::from_ne_bytes(self.0) == 0
    }

    /// The 36 characters of the lower-case textual form, for writers that avoid `fmt`.
    #[inline]
    pub fn to_ascii(&self) -> [u8; 36] {
        // Position of each byte's two digits in the text; the dashes lie between.
        const AT: [usize; 16] = [6, 4, 2, 0, 11, 9, 16, 14, 19, 21, 24, 26, 28, 30, 32, 34];
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'-'; 36];
        for (byte, at) in self.0.iter().zip(AT) {
            text[at] = DIGITS[usize::from(byte >> 4)];
            text[at + 1] = DIGITS[usize::from(byte & 15)];
        }
        text
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.to_ascii()).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text was not a GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseGuidError;

impl fmt::Display for ParseGuidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a GUID of the form xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")
    }
}

impl std::error::Error for ParseGuidError {}

impl FromStr for Guid {
    type Err = ParseGuidError;

    fn from_str(text: &str) -> Result<Guid, ParseGuidError> {
        let text = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(text);
        let bytes = text.as_bytes();
        if bytes.len() != 36 || [8, 13, 18, 23].iter().any(|&at| bytes[at] != b'-') {
            return Err(ParseGuidError);
        }
        let mut value = 0u128;
        let mut digits = 0;
        for &byte in bytes.iter().filter(|&&byte| byte != b'-') {
            let digit = char::from(byte).to_digit(16).ok_or(ParseGuidError)?;
            value = value << 4 | u128::from(digit);
            digits += 1;
        }
        if digits == 32 { Ok(Guid::from_u128(value)) } else { Err(ParseGuidError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_agree() {
        let guid = Guid::from_fields(
            0x68fd_d900,
            0x4a3e,
            0x11d1,
            [0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3],
        );
        assert_eq!(guid.0[..4], [0x00, 0xd9, 0xfd, 0x68]);
        assert_eq!(guid.to_string(), "68fdd900-4a3e-11d1-84f4-0000f80464e3");
        assert_eq!("{68FDD900-4A3E-11D1-84F4-0000F80464E3}".parse(), Ok(guid));
        assert_eq!(Guid::from_u128(0x68fdd900_4a3e_11d1_84f4_0000f80464e3), guid);
    }

    #[test]
    fn malformed_text_is_refused() {
        for text in [
            "",
            "68fdd900",
            "68fdd900-4a3e-11d1-84f4-0000f80464e",
            "68fdd900-4a3e-11d1-84f4-0000f80464eg",
            "68fdd9004-a3e-11d1-84f4-0000f80464e3",
            "68fdd900-4a3e-11d1-84f4-0000-80464e3",
            "{68fdd900-4a3e-11d1-84f4-0000f80464e3",
        ] {
            assert_eq!(text.parse::<Guid>(), Err(ParseGuidError), "{text}");
        }
    }
}
