//! The names that `write_event!` gives to pairs of types: one row says what a field of that name is.

use super::in_type::InType as In;
use super::out_type::OutType as Out;

/// A field's in-type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The same on every target.
    Fixed(In),
    /// [`In::hex_pointer`] of the target.
    HexPointer,
    /// [`In::int_ptr`] of the target.
    IntPointer,
    /// [`In::uint_ptr`] of the target.
    UintPointer,
}

impl Stored {
    /// The constant of `etw::rt` that is the in-type on the target.
    pub const fn constant(self) -> Option<&'static str> {
        match self {
            Stored::Fixed(_) => None,
            Stored::HexPointer => Some("HEX_POINTER"),
            Stored::IntPointer => Some("INT_POINTER"),
            Stored::UintPointer => Some("UINT_POINTER"),
        }
    }
}

/// The type in `etw::rt` that encodes a value.
#[derive(Clone, Copy, Debug)]
pub enum Codec {
    /// A value of fixed size: an `etw::rt::Plain`.
    Plain(&'static str),
    /// A slice of `u8`: an `etw::rt::Text`.
    Bytes(&'static str),
    /// A slice of `u16`: an `etw::rt::Text`.
    Units(&'static str),
}

/// A row: the type of a field.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct FieldName {
    pub name: &'static str,
    pub stored: Stored,
    pub out_type: Out,
    pub codec: Codec,
}

const fn row(name: &'static str, stored: Stored, out_type: Out, codec: Codec) -> FieldName {
    FieldName { name, stored, out_type, codec }
}

use Codec::{Bytes, Plain, Units};
use Stored::{Fixed, HexPointer, IntPointer, UintPointer};

/// Names and encodings are those of Microsoft's crate `tracelogging`.
pub const FIELDS: &[FieldName] = &[
    row("binary", Fixed(In::BINARY), Out::NULL, Bytes("Counted8")),
    row("binaryc", Fixed(In::COUNTEDBINARY), Out::NULL, Bytes("Counted8")),
    row("bool8", Fixed(In::UINT8), Out::BOOLEAN, Plain("Bool8")),
    row("bool32", Fixed(In::BOOL32), Out::NULL, Plain("Bool32::<_>")),
    row("char8_cp1252", Fixed(In::UINT8), Out::STRING, Plain("U8")),
    row("char16", Fixed(In::UINT16), Out::STRING, Plain("U16")),
    row("codepointer", HexPointer, Out::CODE_POINTER, Plain("Usize")),
    row("cstr8", Fixed(In::ANSISTRING), Out::UTF8, Bytes("Zero8")),
    row("cstr8_cp1252", Fixed(In::ANSISTRING), Out::NULL, Bytes("Zero8")),
    row("cstr8_json", Fixed(In::ANSISTRING), Out::JSON, Bytes("Zero8")),
    row("cstr8_xml", Fixed(In::ANSISTRING), Out::XML, Bytes("Zero8")),
    row("cstr16", Fixed(In::UNICODESTRING), Out::NULL, Units("Zero16")),
    row("cstr16_json", Fixed(In::UNICODESTRING), Out::JSON, Units("Zero16")),
    row("cstr16_xml", Fixed(In::UNICODESTRING), Out::XML, Units("Zero16")),
    row("errno", Fixed(In::INT32), Out::NULL, Plain("I32")),
    row("f32", Fixed(In::FLOAT), Out::NULL, Plain("F32")),
    row("f64", Fixed(In::DOUBLE), Out::NULL, Plain("F64")),
    row("guid", Fixed(In::GUID), Out::NULL, Plain("GuidCodec")),
    row("hresult", Fixed(In::INT32), Out::HRESULT, Plain("I32")),
    row("i8", Fixed(In::INT8), Out::NULL, Plain("I8")),
    row("i8_hex", Fixed(In::UINT8), Out::HEX, Plain("I8")),
    row("i16", Fixed(In::INT16), Out::NULL, Plain("I16")),
    row("i16_hex", Fixed(In::UINT16), Out::HEX, Plain("I16")),
    row("i32", Fixed(In::INT32), Out::NULL, Plain("I32")),
    row("i32_hex", Fixed(In::HEXINT32), Out::NULL, Plain("I32")),
    row("i64", Fixed(In::INT64), Out::NULL, Plain("I64")),
    row("i64_hex", Fixed(In::HEXINT64), Out::NULL, Plain("I64")),
    row("ipv4", Fixed(In::UINT32), Out::IPV4, Plain("Ipv4::<_>")),
    row("ipv6", Fixed(In::BINARY), Out::IPV6, Plain("Ipv6::<_>")),
    row("ipv6c", Fixed(In::COUNTEDBINARY), Out::IPV6, Plain("Ipv6::<_>")),
    row("isize", IntPointer, Out::NULL, Plain("Isize")),
    row("isize_hex", HexPointer, Out::NULL, Plain("Isize")),
    row("pid", Fixed(In::UINT32), Out::PID, Plain("U32")),
    row("pointer", HexPointer, Out::NULL, Plain("Usize")),
    row("port", Fixed(In::UINT16), Out::PORT, Plain("U16")),
    row("socketaddress", Fixed(In::BINARY), Out::SOCKETADDRESS, Bytes("Counted8")),
    row("socketaddressc", Fixed(In::COUNTEDBINARY), Out::SOCKETADDRESS, Bytes("Counted8")),
    row("str8", Fixed(In::COUNTEDANSISTRING), Out::UTF8, Bytes("Counted8")),
    row("str8_cp1252", Fixed(In::COUNTEDANSISTRING), Out::NULL, Bytes("Counted8")),
    row("str8_json", Fixed(In::COUNTEDANSISTRING), Out::JSON, Bytes("Counted8")),
    row("str8_xml", Fixed(In::COUNTEDANSISTRING), Out::XML, Bytes("Counted8")),
    row("str16", Fixed(In::COUNTEDSTRING), Out::NULL, Units("Counted16")),
    row("str16_json", Fixed(In::COUNTEDSTRING), Out::JSON, Units("Counted16")),
    row("str16_xml", Fixed(In::COUNTEDSTRING), Out::XML, Units("Counted16")),
    row("systemtime", Fixed(In::FILETIME), Out::NULL, Plain("StdTime")),
    row("tid", Fixed(In::UINT32), Out::TID, Plain("U32")),
    row("time32", Fixed(In::FILETIME), Out::NULL, Plain("Time32")),
    row("time64", Fixed(In::FILETIME), Out::NULL, Plain("Time64")),
    row("u8", Fixed(In::UINT8), Out::NULL, Plain("U8")),
    row("u8_hex", Fixed(In::UINT8), Out::HEX, Plain("U8")),
    row("u16", Fixed(In::UINT16), Out::NULL, Plain("U16")),
    row("u16_hex", Fixed(In::UINT16), Out::HEX, Plain("U16")),
    row("u32", Fixed(In::UINT32), Out::NULL, Plain("U32")),
    row("u32_hex", Fixed(In::HEXINT32), Out::NULL, Plain("U32")),
    row("u64", Fixed(In::UINT64), Out::NULL, Plain("U64")),
    row("u64_hex", Fixed(In::HEXINT64), Out::NULL, Plain("U64")),
    row("usize", UintPointer, Out::NULL, Plain("Usize")),
    row("usize_hex", HexPointer, Out::NULL, Plain("Usize")),
    row("win_error", Fixed(In::UINT32), Out::WIN32ERROR, Plain("U32")),
    row("win_filetime", Fixed(In::FILETIME), Out::NULL, Plain("I64")),
    row("win_ntstatus", Fixed(In::HEXINT32), Out::NTSTATUS, Plain("I32")),
    row("win_sid", Fixed(In::SID), Out::NULL, Bytes("Sid")),
    row("win_systemtime", Fixed(In::SYSTEMTIME), Out::NULL, Plain("Parts")),
    row("win_systemtime_utc", Fixed(In::SYSTEMTIME), Out::DATETIME_UTC, Plain("Parts")),
];

/// Names of in-types in `raw_field` whose number depends on the target.
pub const TARGET_IN_TYPES: &[(&str, Stored)] =
    &[("ISize", IntPointer), ("USize", UintPointer), ("HexSize", HexPointer)];
