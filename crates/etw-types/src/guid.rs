//! `Guid`: sixteen bytes, their text, and the GUID of a provider's name.

use std::fmt;
use std::str::FromStr;

/// A GUID in its on-disk byte order: a little-endian `u32`, two little-endian `u16`, eight bytes.
///
/// Shown lower-case without braces; parsed in either case, with or without braces.
#[doc(alias = "GUID")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
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

    /// The number whose hex digits read like the textual form; the inverse of [`from_u128`](Guid::from_u128).
    pub const fn to_u128(&self) -> u128 {
        // Both directions reverse the same bytes.
        u128::from_be_bytes(Guid::from_u128(u128::from_be_bytes(self.0)).0)
    }

    /// The GUID that goes with a provider's name, as .NET's EventSource and Microsoft's TraceLogging make it.
    ///
    /// SHA-1 of a namespace and the name, upper-cased, in UTF-16BE; its first sixteen bytes are taken as a little-endian
    /// GUID whose version is set to 5 and whose variant is left alone.
    ///
    /// Upper-casing is the simple one of Windows, unit by unit: `ß` and letters beyond the basic plane stay as they are.
    /// (Guess: that its tables are Unicode's. Microsoft's crate `tracelogging` upper-cases fully, so that names with `ß`
    /// or ligatures get another GUID there.)
    ///
    /// ```
    /// let id = etw_types::Guid::from_name("MyCompany.MyComponent");
    /// assert_eq!(id.to_string(), "ce5fa4ea-ab00-5402-8b76-9f76ac858fb5");
    /// ```
    pub fn from_name(name: &str) -> Guid {
        let mut hash = sha1_smol::Sha1::from(NAME_SPACE);
        for c in name.chars() {
            let mut units = [0; 2];
            for unit in upper_case(c).encode_utf16(&mut units) {
                hash.update(&unit.to_be_bytes());
            }
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.digest().bytes()[..16]);
        bytes[7] = bytes[7] & 0x0f | 0x50;
        Guid(bytes)
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

/// `482c2db2-c390-47c8-87f8-1a15bfc130fb`, its bytes in the order of the text.
const NAME_SPACE: [u8; 16] = 0x482c_2db2_c390_47c8_87f8_1a15_bfc1_30fb_u128.to_be_bytes();

/// Unicode's simple upper case of characters that are one UTF-16 unit.
fn upper_case(c: char) -> char {
    if c.len_utf16() == 2 {
        return c;
    }
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(only), None) => only,
        // More than one: the simple mapping is the character itself, but for Greek letters with an iota subscript.
        _ => match u32::from(c) {
            code @ (0x1f80..=0x1f87 | 0x1f90..=0x1f97 | 0x1fa0..=0x1fa7) => {
                char::from_u32(code + 8).unwrap_or(c)
            }
            code @ (0x1fb3 | 0x1fc3 | 0x1ff3) => char::from_u32(code + 9).unwrap_or(c),
            _ => c,
        },
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

#[cfg(feature = "serde")]
impl serde::Serialize for Guid {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Guid {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Guid, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

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

    /// OV-13: published vectors, then computed ones.
    #[test]
    fn names_have_their_guid() {
        for (name, guid) in [
            ("MyProvider", "b3864c38-4273-58c5-545b-8b3608343471"),
            ("MyCompany.MyComponent", "ce5fa4ea-ab00-5402-8b76-9f76ac858fb5"),
            ("MyCompany.MyComponent.MyProvider", "d5b90669-1aad-5db8-16c9-6286a7fcfe33"),
            ("Microsoft-Diagnostics-DiagnosticSource", "adb401e1-5296-51f8-c125-5fda75826144"),
            ("MyProvider.Component", "91739c0e-83a5-56b4-712e-257b089fcde4"),
            ("Hello", "3717f3f2-ab06-5ed2-6b6a-009d1e537d2c"),
            ("hELLO", "3717f3f2-ab06-5ed2-6b6a-009d1e537d2c"),
            ("TestProvider1", "1d290675-8d56-5f87-8035-9cfc740b9544"),
            ("", "4445ee6c-fd5a-5b15-047a-5866ffa76aa6"),
            ("block_storage_2", "53b2e014-5c7c-5845-d61d-bc4206a4bc7d"),
            ("straße", "591935bd-9bbd-5997-a315-51e34558623c"),
        ] {
            assert_eq!(Guid::from_name(name).to_string(), guid, "{name}");
        }
    }

    /// Simple mappings of UnicodeData.txt where they differ from the full ones or leave the basic plane.
    #[test]
    fn upper_case_is_simple() {
        let mapped = "aéßŉﬁᾀᾗᾧᾳῃῳᾲ\u{1fbc}\u{10428}";
        let upper: String = mapped.chars().map(upper_case).collect();
        assert_eq!(upper, "AÉßŉﬁᾈᾟᾯᾼῌῼᾲ\u{1fbc}\u{10428}");
        // Each character whose full upper case has several characters is in one of the ranges or has no simple mapping.
        let several = ('\0'..=char::MAX).filter(|c| c.to_uppercase().count() > 1);
        assert!(several.clone().all(|c| c.len_utf16() == 1));
        assert_eq!(several.filter(|&c| upper_case(c) != c).count(), 27);
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
