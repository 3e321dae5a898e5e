use std::fmt;

use etw_types::le;

/// Bits of a field's two type bytes that are not the type.
///
/// ```text
/// InType byte    7      chain: the OutType byte follows
///                6..5   count: 00 scalar, 01 fixed array, 10 variable array, 11 custom
///                4..0   InType, or the protocol number where the count is custom
/// OutType byte   7      chain: the bytes of the field's tag follow
///                6..0   OutType, or the number of members where the InType is STRUCT
/// ```
pub mod flags {
    /// Another byte of this chain follows.
    #[doc(alias = "TlgInChain")]
    pub const CHAIN: u8 = 0x80;
    /// The two bits of an InType byte that say how many values there are.
    #[doc(alias = "TlgInCountMask")]
    pub const COUNT_MASK: u8 = 0x60;
    /// An array of as many values as a `u16` in the metadata says.
    #[doc(alias = "TlgInCcount")]
    pub const CCOUNT: u8 = 0x20;
    /// An array of as many values as a `u16` before them in the payload says.
    #[doc(alias = "TlgInVcount")]
    pub const VCOUNT: u8 = 0x40;
    /// Not an array: a custom-serialised field, its protocol in the low five bits.
    #[doc(alias = "TlgInCustom")]
    pub const CUSTOM: u8 = 0x60;
    /// The five bits of an InType byte that hold the type, or the protocol of a custom field.
    #[doc(alias = "TlgInTypeMask")]
    pub const TYPE_MASK: u8 = 0x1f;
    /// The seven bits of an OutType byte that hold the type, or the member count of a struct.
    #[doc(alias = "TlgOutTypeMask")]
    pub const OUT_TYPE_MASK: u8 = 0x7f;
}

/// How one value lies in the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueSize {
    /// Always this many bytes, little-endian.
    Fixed(u8),
    /// UTF-16LE up to and including a zero unit (two zero bytes).
    Utf16Z,
    /// Bytes up to and including a zero byte.
    AnsiZ,
    /// `u16` count of bytes (for UTF-16 too), then that many.
    Counted,
    /// `u8` revision, `u8` n (at most 15), six bytes of authority, n × `u32`.
    Sid,
    /// Nothing of its own: the members that follow it in the metadata have the values.
    Struct,
    /// Unknown or reserved: neither this field nor anything behind it can be found.
    Undecodable,
}

/// A row of the table from which both reading and writing know a type.
struct InTypeRow {
    in_type: InType,
    name: &'static str,
    size: ValueSize,
}

/// How a field's value is encoded: the low five bits of its InType byte, in Microsoft's numbering (`TlgIn…`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InType(pub u8);

macro_rules! in_types {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $size:expr;)*) => {
        impl InType {
            $($(#[$doc])* pub const $name: InType = InType($number);)*
        }

        /// Row n is type n.
        const IN_TYPES: &[InTypeRow] = &[
            $(InTypeRow { in_type: InType($number), name: stringify!($name), size: $size },)*
        ];
    };
}

use ValueSize::{AnsiZ, Counted, Fixed, Sid, Struct, Undecodable, Utf16Z};

in_types! {
    /// 0: no value, no bytes. .NET's EventSource, whose name for it is `Nil`, calls arrays of it illegal, and says that
    /// decoders take a fixed-count array of it for an obsolete spelling of a struct with that many members.
    NULL = 0, Fixed(0);
    /// 1: UTF-16LE up to a zero unit.
    UNICODESTRING = 1, Utf16Z;
    /// 2: 8-bit text up to a zero byte; code page 1252 unless the [`OutType`] says UTF-8.
    ANSISTRING = 2, AnsiZ;
    /// 3: `i8`.
    INT8 = 3, Fixed(1);
    /// 4: `u8`.
    UINT8 = 4, Fixed(1);
    /// 5: `i16`.
    INT16 = 5, Fixed(2);
    /// 6: `u16`.
    UINT16 = 6, Fixed(2);
    /// 7: `i32`.
    INT32 = 7, Fixed(4);
    /// 8: `u32`.
    UINT32 = 8, Fixed(4);
    /// 9: `i64`.
    INT64 = 9, Fixed(8);
    /// 10: `u64`.
    UINT64 = 10, Fixed(8);
    /// 11: IEEE single.
    FLOAT = 11, Fixed(4);
    /// 12: IEEE double.
    DOUBLE = 12, Fixed(8);
    /// 13: `u32`, true unless 0.
    BOOL32 = 13, Fixed(4);
    /// 14: `u16` byte count, bytes. Windows does not decode arrays of it: see [`InType::COUNTEDBINARY`].
    BINARY = 14, Counted;
    /// 15: sixteen bytes in the order of `etw_types::Guid`.
    GUID = 15, Fixed(16);
    /// 16: reserved (`_TlgInPOINTER_unsupported` in Microsoft's headers): its size would depend on the writer. Pointers
    /// are written as [`InType::hex_pointer`].
    POINTER = 16, Undecodable;
    /// 17: `u64` of 100 ns units since 1601-01-01.
    FILETIME = 17, Fixed(8);
    /// 18: eight `u16` (`etw_types::SystemTime`).
    SYSTEMTIME = 18, Fixed(16);
    /// 19: a security identifier.
    SID = 19, Sid;
    /// 20: `u32`, shown in hexadecimal.
    HEXINT32 = 20, Fixed(4);
    /// 21: `u64`, shown in hexadecimal.
    HEXINT64 = 21, Fixed(8);
    /// 22: `u16` count of **bytes**, UTF-16LE.
    COUNTEDSTRING = 22, Counted;
    /// 23: `u16` byte count, 8-bit text; code page 1252 unless the [`OutType`] says UTF-8.
    COUNTEDANSISTRING = 23, Counted;
    /// 24: groups the fields behind it, as many as the OutType byte says; a struct among them counts, with all its
    /// members, as one.
    STRUCT = 24, Struct;
    /// 25: `u16` byte count, bytes; known to Windows since 2018.
    COUNTEDBINARY = 25, Counted;
}

const _: () = {
    let mut number = 0;
    while number < IN_TYPES.len() {
        assert!(IN_TYPES[number].in_type.0 as usize == number);
        number += 1;
    }
};

impl InType {
    fn row(self) -> Option<&'static InTypeRow> {
        IN_TYPES.get(usize::from(self.0))
    }

    /// Microsoft's name for it, without the prefix `TlgIn`.
    pub fn name(self) -> Option<&'static str> {
        self.row().map(|row| row.name)
    }

    /// How one value of this type lies in the payload.
    pub fn value_size(self) -> ValueSize {
        self.row().map_or(Undecodable, |row| row.size)
    }

    /// The bytes of one value, where every value of the type has as many.
    ///
    /// No type's size depends on the writer's pointers: the one that would, [`InType::POINTER`], is never written.
    pub fn fixed_size(self) -> Option<usize> {
        match self.value_size() {
            Fixed(size) => Some(usize::from(size)),
            _ => None,
        }
    }

    /// Splits one value from the front of a payload: the value, without its count or its terminator, and what follows.
    ///
    /// A struct has an empty value. `None` where the value does not end within `payload`, or the type is
    /// [`ValueSize::Undecodable`].
    pub fn split(self, payload: &[u8]) -> Option<(&[u8], &[u8])> {
        match self.value_size() {
            Fixed(size) => payload.split_at_checked(usize::from(size)),
            Utf16Z => {
                let (text, size) = le::utf16_z(payload)?;
                Some((text, &payload[size..]))
            }
            AnsiZ => {
                let size = payload.iter().position(|&byte| byte == 0)?;
                Some((&payload[..size], &payload[size + 1..]))
            }
            Counted => {
                let size = le::u16(payload, 0)?;
                payload[2..].split_at_checked(usize::from(size))
            }
            Sid => payload.split_at_checked(sid_size(payload)?),
            Struct => Some((&[], payload)),
            Undecodable => None,
        }
    }

    /// The type of a signed integer as wide as a pointer of `pointer_size` bytes (`TlgInINTPTR`): 4 is 32 bits, else 64.
    pub const fn int_ptr(pointer_size: u8) -> InType {
        if pointer_size == 4 { InType::INT32 } else { InType::INT64 }
    }

    /// The type of an unsigned integer as wide as a pointer of `pointer_size` bytes (`TlgInUINTPTR`).
    pub const fn uint_ptr(pointer_size: u8) -> InType {
        if pointer_size == 4 { InType::UINT32 } else { InType::UINT64 }
    }

    /// The type as which a pointer of `pointer_size` bytes is written (`TlgInPOINTER`).
    pub const fn hex_pointer(pointer_size: u8) -> InType {
        if pointer_size == 4 { InType::HEXINT32 } else { InType::HEXINT64 }
    }
}

/// The size of the security identifier at the front of `bytes`: 8 + 4·n, n being its second byte.
///
/// `None` where n is over 15 (`SID_MAX_SUB_AUTHORITIES`), or there is no second byte; `bytes` may still be shorter than
/// the answer.
pub fn sid_size(bytes: &[u8]) -> Option<usize> {
    let sub_authority_count = *bytes.get(1)?;
    (sub_authority_count <= 15).then(|| 8 + 4 * usize::from(sub_authority_count))
}

/// How a field's value is shown: the low seven bits of its OutType byte, in Microsoft's numbering (`TlgOut…`).
///
/// From 32 on the numbers are those of `TDH_OUTTYPE`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct OutType(pub u8);

macro_rules! out_types {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        impl OutType {
            $($(#[$doc])* pub const $name: OutType = OutType($number);)*

            /// Microsoft's name for it, without the prefix `TlgOut`.
            pub const fn name(self) -> Option<&'static str> {
                Some(match self.0 {
                    $($number => stringify!($name),)*
                    _ => return None,
                })
            }
        }
    };
}

out_types! {
    /// 0: as the [`InType`] suggests; needs no OutType byte.
    NULL = 0;
    /// 1: not to be shown; most decoders show it.
    NOPRINT = 1;
    /// 2: text; with an integer of 8 or 16 bits, one character.
    STRING = 2;
    /// 3: true or false, of a `u8`.
    BOOLEAN = 3;
    /// 4: hexadecimal.
    HEX = 4;
    /// 5: process id.
    PID = 5;
    /// 6: thread id.
    TID = 6;
    /// 7: IP port; the `u16` is big-endian.
    PORT = 7;
    /// 8: IPv4 address in a `u32`, first octet in the first byte.
    IPV4 = 8;
    /// 9: IPv6 address, sixteen bytes of binary.
    IPV6 = 9;
    /// 10: a `sockaddr`, binary.
    SOCKETADDRESS = 10;
    /// 11: XML text; UTF-8 where 8-bit.
    XML = 11;
    /// 12: JSON text; UTF-8 where 8-bit.
    JSON = 12;
    /// 13: Win32 error, of a `u32`.
    WIN32ERROR = 13;
    /// 14: NTSTATUS.
    NTSTATUS = 14;
    /// 15: HRESULT, of an `i32`.
    HRESULT = 15;
    /// 16: date and time; the types that are one imply it.
    FILETIME = 16;
    /// 17: signed.
    SIGNED = 17;
    /// 18: unsigned.
    UNSIGNED = 18;
    /// 33: date and time, the same in every culture.
    DATETIME_CULTURE_INSENSITIVE = 33;
    /// 35: the 8-bit text is UTF-8.
    UTF8 = 35;
    /// 36: a PKCS 7 packet, behind it the type of what it holds.
    PKCS7_WITH_TYPE_INFO = 36;
    /// 37: the address of code.
    CODE_POINTER = 37;
    /// 38: date and time in UTC.
    DATETIME_UTC = 38;
}

impl fmt::Display for InType {
    /// The name, or `InType(n)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "InType({})", self.0),
        }
    }
}

impl fmt::Debug for InType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for OutType {
    /// The name, or `OutType(n)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "OutType({})", self.0),
        }
    }
}

impl fmt::Debug for OutType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_types_have_no_size() {
        for number in 0..=255 {
            let in_type = InType(number);
            assert_eq!(in_type.name().is_some(), number <= 25);
            let decodable = number <= 25 && in_type != InType::POINTER;
            assert_eq!(in_type.value_size() != Undecodable, decodable, "{in_type}");
            if !decodable {
                assert_eq!(in_type.split(&[1; 40]), None);
            }
        }
        assert_eq!(InType(27).to_string(), "InType(27)");
        assert_eq!(InType::HEXINT32.to_string(), "HEXINT32");
        assert_eq!(OutType(34).to_string(), "OutType(34)");
        assert_eq!(OutType::DATETIME_UTC.to_string(), "DATETIME_UTC");
    }

    #[test]
    fn values_end_where_their_type_says() {
        let split = |in_type: InType, payload: &'static [u8]| in_type.split(payload);
        assert_eq!(split(InType::NULL, &[7]), Some((&[][..], &[7][..])));
        assert_eq!(split(InType::UINT16, &[1, 2, 3]), Some((&[1, 2][..], &[3][..])));
        assert_eq!(split(InType::UINT16, &[1]), None);
        assert_eq!(split(InType::UNICODESTRING, b"a\0\0\0b"), Some((&b"a\0"[..], &b"b"[..])));
        assert_eq!(split(InType::UNICODESTRING, b"a\0\0"), None);
        assert_eq!(split(InType::ANSISTRING, b"ab\0c"), Some((&b"ab"[..], &b"c"[..])));
        assert_eq!(split(InType::ANSISTRING, b"ab"), None);
        assert_eq!(split(InType::BINARY, &[1, 0, 5, 6]), Some((&[5][..], &[6][..])));
        assert_eq!(split(InType::BINARY, &[3, 0, 5, 6]), None);
        assert_eq!(split(InType::COUNTEDSTRING, &[3]), None);
        assert_eq!(split(InType::STRUCT, &[3]), Some((&[][..], &[3][..])));
    }

    #[test]
    fn malicious_sid() {
        let mut sid = [0u8; 80];
        sid[..2].copy_from_slice(&[1, 2]);
        assert_eq!(InType::SID.split(&sid).unwrap().0.len(), 16);
        assert_eq!(InType::SID.split(&sid[..15]), None);
        sid[1] = 16;
        assert_eq!(InType::SID.split(&sid), None);
        assert_eq!(InType::SID.split(&[1]), None);
    }

    #[test]
    fn pointers_are_written_as_wide_as_they_are() {
        assert_eq!((InType::int_ptr(4), InType::int_ptr(8)), (InType(7), InType(9)));
        assert_eq!((InType::uint_ptr(4), InType::uint_ptr(8)), (InType(8), InType(10)));
        assert_eq!((InType::hex_pointer(4), InType::hex_pointer(8)), (InType(20), InType(21)));
    }
}
