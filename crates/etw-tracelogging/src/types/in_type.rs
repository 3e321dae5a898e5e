//! The table of in-types: one row says how a value is stored and what TraceLogging, TDH, manifests and macros call it.

use std::fmt;

use etw_types::le;

use super::tdh;
use super::wire::Wire;

/// How TraceLogging splits a payload into values.
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
    /// No bytes of its own: the members that follow it in the metadata have the values.
    Struct,
    /// Unknown or reserved: neither this field nor any field behind it can be located.
    Undecodable,
}

/// A row of the table.
struct Row {
    /// TraceLogging's number and name.
    own: Option<(u8, &'static str)>,
    /// TDH's number.
    tdh: Option<u16>,
    wire: Wire,
    /// The out-type that TDH assumes if none is given.
    default_out: tdh::OutType,
    /// Names in manifests, without `win:` and `xs:`; the first is the usual one.
    manifest: &'static [&'static str],
}

/// How a field's value is encoded: the low five bits of its InType byte, in Microsoft's numbering (`TlgIn…`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InType(pub u8);

/// `Some` of what is given, or `None`.
macro_rules! maybe {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}
pub(super) use maybe;

/// An associated constant, if a name is given.
macro_rules! constant {
    ([] $($doc:tt)*) => {};
    ([$name:ident = $number:literal] $($doc:tt)*) => {
        $($doc)*
        pub const $name: Self = Self($number);
    };
}
pub(super) use constant;

macro_rules! in_types {
    ($(
        $(#[$doc:meta])*
        $(tl $own:ident = $number:literal $(as $macro_name:literal)?)?
        $(tdh $tdh:ident = $tdh_number:literal)?
        : $wire:ident, $out:ident, [$($manifest:literal),*];
    )*) => {
        impl InType {
            $(constant! { [$($own = $number)?] $(#[$doc])* })*

            /// Names by which `raw_field` of `write_event!` knows the types, and their numbers.
            #[doc(hidden)]
            pub const MACRO_NAMES: &[(&str, u8)] = &[$($($(($macro_name, $number),)?)?)*];
        }

        impl tdh::InType {
            $(constant! { [$($tdh = $tdh_number)?] $(#[$doc])* })*
        }

        static ROWS: &[Row] = &[$(
            Row {
                own: maybe!($(($number, stringify!($own)))?),
                tdh: maybe!($($tdh_number)?),
                wire: Wire::$wire,
                default_out: tdh::OutType::$out,
                manifest: &[$($manifest),*],
            },
        )*];
    };
}

in_types! {
    /// No value, no bytes. .NET's EventSource, whose name for it is `Nil`, calls arrays of it illegal, and says that
    /// decoders treat a fixed-count array of it as an obsolete spelling of a struct with that many members.
    tl NULL = 0 tdh NULL = 0: Nothing, NULL, [];
    /// UTF-16LE up to a zero unit.
    tl UNICODESTRING = 1 as "CStr16" tdh UNICODESTRING = 1: Utf16, STRING, ["UnicodeString", "string"];
    /// 8-bit text up to a zero byte; code page 1252 unless the out-type says UTF-8.
    tl ANSISTRING = 2 as "CStr8" tdh ANSISTRING = 2: Ansi, STRING, ["AnsiString"];
    /// `i8`.
    tl INT8 = 3 as "I8" tdh INT8 = 3: I8, BYTE, ["Int8", "byte"];
    /// `u8`.
    tl UINT8 = 4 as "U8" tdh UINT8 = 4: U8, UNSIGNEDBYTE, ["UInt8", "unsignedByte"];
    /// `i16`.
    tl INT16 = 5 as "I16" tdh INT16 = 5: I16, SHORT, ["Int16", "short"];
    /// `u16`.
    tl UINT16 = 6 as "U16" tdh UINT16 = 6: U16, UNSIGNEDSHORT, ["UInt16", "unsignedShort"];
    /// `i32`.
    tl INT32 = 7 as "I32" tdh INT32 = 7: I32, INT, ["Int32", "int"];
    /// `u32`.
    tl UINT32 = 8 as "U32" tdh UINT32 = 8: U32, UNSIGNEDINT, ["UInt32", "unsignedInt"];
    /// `i64`.
    tl INT64 = 9 as "I64" tdh INT64 = 9: I64, LONG, ["Int64", "long"];
    /// `u64`.
    tl UINT64 = 10 as "U64" tdh UINT64 = 10: U64, UNSIGNEDLONG, ["UInt64", "unsignedLong"];
    /// IEEE single.
    tl FLOAT = 11 as "F32" tdh FLOAT = 11: F32, FLOAT, ["Float"];
    /// IEEE double.
    tl DOUBLE = 12 as "F64" tdh DOUBLE = 12: F64, DOUBLE, ["Double"];
    /// 32 bits, true unless 0.
    tl BOOL32 = 13 as "Bool32" tdh BOOLEAN = 13: I32, BOOLEAN, ["Boolean"];
    /// Bytes: in TraceLogging with a `u16` count before them, in TDH of a given length. Windows does not decode TraceLogging
    /// arrays of it: see [`InType::COUNTEDBINARY`].
    tl BINARY = 14 as "Binary" tdh BINARY = 14: Binary, HEXBINARY, ["Binary"];
    /// Sixteen bytes in the order of `etw_types::Guid`.
    tl GUID = 15 as "Guid" tdh GUID = 15: Guid, GUID, ["GUID"];
    /// As wide as the writer's pointers. TraceLogging reserves it (`_TlgInPOINTER_unsupported` in Microsoft's headers) and writes
    /// pointers as [`InType::hex_pointer`].
    tl POINTER = 16 tdh POINTER = 16: Pointer, HEXINT64, ["Pointer"];
    /// `u64` of 100 ns units since 1601-01-01.
    tl FILETIME = 17 as "FileTime" tdh FILETIME = 17: FileTime, DATETIME, ["FILETIME"];
    /// Eight `u16` (`etw_types::SystemTime`).
    tl SYSTEMTIME = 18 as "SystemTime" tdh SYSTEMTIME = 18: SystemTime, DATETIME, ["SYSTEMTIME"];
    /// A security identifier.
    tl SID = 19 as "Sid" tdh SID = 19: Sid, STRING, ["SID"];
    /// `u32`, shown in hexadecimal.
    tl HEXINT32 = 20 as "Hex32" tdh HEXINT32 = 20: U32, HEXINT32, ["HexInt32"];
    /// `u64`, shown in hexadecimal.
    tl HEXINT64 = 21 as "Hex64" tdh HEXINT64 = 21: U64, HEXINT64, ["HexInt64"];
    /// `u16` count of **bytes**, UTF-16LE.
    tl COUNTEDSTRING = 22 as "Str16" tdh MANIFEST_COUNTEDSTRING = 22: CountedUtf16, STRING, ["CountedUnicodeString"];
    /// `u16` count of bytes, 8-bit text; code page 1252 unless the out-type says UTF-8.
    tl COUNTEDANSISTRING = 23 as "Str8" tdh MANIFEST_COUNTEDANSISTRING = 23: CountedAnsi, STRING, ["CountedAnsiString"];
    /// Groups the fields behind it, as many as the OutType byte says; a struct among them counts, with all its members, as
    /// one.
    tl STRUCT = 24: Nothing, NULL, [];
    /// `u16` count of bytes, bytes; known to Windows since 2018.
    tl COUNTEDBINARY = 25 as "BinaryC" tdh MANIFEST_COUNTEDBINARY = 25: CountedBinary, HEXBINARY, ["CountedBinary"];
    /// `u16` count of bytes, UTF-16, in classic events.
    tdh COUNTEDSTRING = 300: CountedUtf16, STRING, [];
    /// `u16` count of bytes, 8-bit text, in classic events.
    tdh COUNTEDANSISTRING = 301: CountedAnsi, STRING, [];
    /// Big-endian `u16` count of bytes, UTF-16.
    tdh REVERSEDCOUNTEDSTRING = 302: ReverseCountedUtf16, STRING, [];
    /// Big-endian `u16` count of bytes, 8-bit text.
    tdh REVERSEDCOUNTEDANSISTRING = 303: ReverseCountedAnsi, STRING, [];
    /// UTF-16 up to the end of the payload.
    tdh NONNULLTERMINATEDSTRING = 304: RestUtf16, STRING, [];
    /// 8-bit text up to the end of the payload.
    tdh NONNULLTERMINATEDANSISTRING = 305: RestAnsi, STRING, [];
    /// A UTF-16 unit.
    tdh UNICODECHAR = 306: U16, STRING, [];
    /// An 8-bit character.
    tdh ANSICHAR = 307: U8, STRING, [];
    /// As wide as the writer's pointers.
    tdh SIZET = 308: Pointer, HEXINT64, [];
    /// `u32` count of bytes, bytes.
    tdh HEXDUMP = 309: HexDump, HEXBINARY, [];
    /// Two pointers and a SID, or a zero `u32`.
    tdh WBEMSID = 310: WbemSid, STRING, [];
}

/// The sizes of TraceLogging's types, computed from the rows when the crate is compiled: writers ask once per field.
static VALUE_SIZES: [ValueSize; 32] = {
    let mut sizes = [ValueSize::Undecodable; 32];
    let mut number = 0;
    while number < sizes.len() && number < ROWS.len() {
        if ROWS[number].own.is_some() {
            sizes[number] = value_size(number as u8, ROWS[number].wire);
        }
        number += 1;
    }
    sizes
};

const fn value_size(number: u8, wire: Wire) -> ValueSize {
    if number == InType::STRUCT.0 {
        return ValueSize::Struct;
    }
    if number == InType::POINTER.0 {
        return ValueSize::Undecodable;
    }
    match wire {
        Wire::Utf16 => ValueSize::Utf16Z,
        Wire::Ansi => ValueSize::AnsiZ,
        // The count stands before the bytes.
        Wire::Binary | Wire::CountedUtf16 | Wire::CountedAnsi | Wire::CountedBinary => {
            ValueSize::Counted
        }
        Wire::Sid => ValueSize::Sid,
        // No type that TraceLogging writes has the size of a pointer.
        wire => match wire.fixed_size(0) {
            Some(size) => ValueSize::Fixed(size as u8),
            None => ValueSize::Undecodable,
        },
    }
}

impl InType {
    fn row(self) -> Option<&'static Row> {
        // TraceLogging's rows come first, in the order of their numbers.
        ROWS.get(usize::from(self.0)).filter(|row| row.own.is_some())
    }

    /// Microsoft's name for it, without the prefix `TlgIn`.
    pub fn name(self) -> Option<&'static str> {
        self.row()?.own.map(|(_, name)| name)
    }

    /// How a value is stored; `None` for types without a known encoding, and for structs.
    pub fn wire(self) -> Option<Wire> {
        if matches!(self, InType::STRUCT | InType::POINTER) {
            return None;
        }
        Some(match self.row()?.wire {
            // The count stands before the bytes.
            Wire::Binary => Wire::CountedBinary,
            wire => wire,
        })
    }

    /// How one value of this type is found in a payload.
    #[inline]
    pub fn value_size(self) -> ValueSize {
        VALUE_SIZES.get(usize::from(self.0)).copied().unwrap_or(ValueSize::Undecodable)
    }

    /// The bytes of one value, if every value of the type has the same number.
    ///
    /// No type's size depends on the writer's pointers: the one that would, [`InType::POINTER`], is never written.
    pub fn fixed_size(self) -> Option<usize> {
        match self.value_size() {
            ValueSize::Fixed(size) => Some(usize::from(size)),
            _ => None,
        }
    }

    /// Splits one value from the front of a payload: the value, without its count or its terminator, and what follows.
    ///
    /// A struct has an empty value. `None` if the value does not end within `payload`, or the type is
    /// [`ValueSize::Undecodable`].
    pub fn split(self, payload: &[u8]) -> Option<(&[u8], &[u8])> {
        match self.value_size() {
            ValueSize::Fixed(size) => payload.split_at_checked(usize::from(size)),
            ValueSize::Utf16Z => {
                let (text, size) = le::utf16_z(payload)?;
                Some((text, &payload[size..]))
            }
            ValueSize::AnsiZ => {
                let size = payload.iter().position(|&byte| byte == 0)?;
                Some((&payload[..size], &payload[size + 1..]))
            }
            ValueSize::Counted => {
                let size = le::u16(payload, 0)?;
                payload[2..].split_at_checked(usize::from(size))
            }
            ValueSize::Sid => payload.split_at_checked(sid_size(payload)?),
            ValueSize::Struct => Some((&[], payload)),
            ValueSize::Undecodable => None,
        }
    }

    /// The TraceLogging type whose values are stored this way. Pointers are those of 64-bit programs. `None` if there is none,
    /// or the size of a value does not follow from the payload.
    pub fn of_wire(wire: Wire) -> Option<InType> {
        match wire {
            Wire::Nothing => None,
            Wire::Pointer => Some(InType::HEXINT64),
            Wire::CountedBinary => Some(InType::COUNTEDBINARY),
            Wire::Binary => None,
            wire => {
                let row = ROWS.iter().find(|row| row.own.is_some() && row.wire == wire);
                row?.own.map(|(number, _)| InType(number))
            }
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

impl tdh::InType {
    fn row(self) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.tdh == Some(self.0))
    }

    /// How a value is stored; `None` for numbers that no source names.
    pub fn wire(self) -> Option<Wire> {
        self.row().map(|row| row.wire)
    }

    /// The out-type that holds if none is given.
    pub fn default_out(self) -> tdh::OutType {
        self.row().map_or(tdh::OutType::NULL, |row| row.default_out)
    }

    /// Bytes of one value, if its size does not depend on the payload.
    pub fn fixed_size(self, pointer_size: u8) -> Option<usize> {
        self.wire()?.fixed_size(pointer_size)
    }

    /// The type's name in a manifest: `win:UInt32`.
    pub fn manifest_name(self) -> Option<String> {
        self.row()?.manifest.first().map(|name| format!("win:{name}"))
    }

    /// The type of a manifest's `inType`, with or without its prefix, in any case.
    pub fn of_manifest(name: &str) -> Option<tdh::InType> {
        let name = name.rsplit(':').next().unwrap_or(name);
        let is_name = |known: &&'static str| known.eq_ignore_ascii_case(name);
        let row = ROWS.iter().find(|row| row.manifest.iter().any(&is_name))?;
        row.tdh.map(tdh::InType)
    }

    /// The first type whose values are stored this way.
    pub(super) fn of_wire(wire: Wire) -> tdh::InType {
        match wire {
            // The forms of classic events, whose counts are those of strings in all schemas but manifests.
            Wire::CountedUtf16 => tdh::InType::COUNTEDSTRING,
            Wire::CountedAnsi => tdh::InType::COUNTEDANSISTRING,
            wire => {
                let row = ROWS.iter().find(|row| row.wire == wire);
                tdh::InType(row.and_then(|row| row.tdh).unwrap_or(0))
            }
        }
    }
}

/// The size of the security identifier at the front of `bytes`: 8 + 4·n, n being its second byte.
///
/// `None` if n is over 15 (`SID_MAX_SUB_AUTHORITIES`), or there is no second byte; `bytes` may still be shorter than
/// the answer.
pub fn sid_size(bytes: &[u8]) -> Option<usize> {
    let sub_authority_count = *bytes.get(1)?;
    (sub_authority_count <= 15).then(|| 8 + 4 * usize::from(sub_authority_count))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_tracelogging_stand_in_the_order_of_their_numbers() {
        for (number, row) in ROWS.iter().enumerate() {
            if let Some((own, _)) = row.own {
                assert_eq!(usize::from(own), number);
            }
        }
    }

    #[test]
    fn unknown_types_have_no_size() {
        for number in 0..=255 {
            let in_type = InType(number);
            assert_eq!(in_type.name().is_some(), number <= 25);
            let decodable = number <= 25 && in_type != InType::POINTER;
            assert_eq!(in_type.value_size() != ValueSize::Undecodable, decodable, "{in_type}");
            if !decodable {
                assert_eq!(in_type.split(&[1; 40]), None);
            }
        }
        assert_eq!(InType(27).to_string(), "InType(27)");
        assert_eq!(InType::HEXINT32.to_string(), "HEXINT32");
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
    fn malicious_sids_are_not_split() {
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

    #[test]
    fn manifest_names_are_found_with_any_prefix_and_case() {
        for (name, in_type) in [
            ("win:UInt32", tdh::InType::UINT32),
            ("xs:unsignedInt", tdh::InType::UINT32),
            ("trace:countedbinary", tdh::InType::MANIFEST_COUNTEDBINARY),
        ] {
            assert_eq!(tdh::InType::of_manifest(name), Some(in_type));
        }
        assert_eq!(tdh::InType::of_manifest("win:Struct"), None);
        assert_eq!(tdh::InType::GUID.manifest_name().as_deref(), Some("win:GUID"));
    }
}
