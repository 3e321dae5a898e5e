//! The table of out-types: one row says how a value is shown and what TraceLogging, TDH, manifests and macros call it.

use std::fmt;

use super::in_type::{InType, constant, maybe};
use super::tdh;
use super::wire::{Wire, wires};

/// How a value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Show {
    /// As its wire form suggests: number, text, GUID, time, bytes.
    Plain,
    /// `0x…`
    Hex,
    /// true or false
    Boolean,
    /// One character.
    Character,
    /// A big-endian port number.
    Port,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// A socket address.
    SocketAddress,
    /// A FILETIME.
    FileTime,
    /// Signed, whatever the wire form.
    Signed,
    /// Unsigned, whatever the wire form.
    Unsigned,
    /// 8-bit text that is UTF-8.
    Utf8,
    /// A status code: its number, and for people its name.
    Status(StatusKind),
    /// The same of a hexadecimal number.
    HexStatus(StatusKind),
}

/// The kind of a status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StatusKind {
    /// An NTSTATUS, as drivers return it.
    NtStatus,
    /// An HRESULT, as COM returns it.
    HResult,
    /// A Win32 error.
    Win32,
}

/// A row of the table.
struct Row {
    /// TraceLogging's number and name.
    own: Option<(u8, &'static str)>,
    /// TDH's number.
    tdh: Option<u16>,
    show: Show,
    /// The wire forms for which [`Row::show`] holds; others are shown as their in-type suggests.
    wires: u8,
    /// The name in manifests, with its prefix.
    manifest: Option<&'static str>,
}

/// How a field's value is shown: the low seven bits of its OutType byte, in Microsoft's numbering (`TlgOut…`).
///
/// From 33 on the numbers are those of `TDH_OUTTYPE`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct OutType(pub u8);

macro_rules! out_types {
    ($(
        $(#[$doc:meta])*
        $(tl $own:ident = $number:literal as $macro_name:literal)?
        $(tdh $tdh:ident = $tdh_number:literal)?
        : $show:expr, $wires:ident $(, $manifest:literal)?;
    )*) => {
        impl OutType {
            $(constant! { [$($own = $number)?] $(#[$doc])* })*

            /// Names by which `format(…)` of `write_event!` knows the types, and their numbers.
            #[doc(hidden)]
            pub const MACRO_NAMES: &[(&str, u8)] = &[$($(($macro_name, $number),)?)*];
        }

        impl tdh::OutType {
            $(constant! { [$($tdh = $tdh_number)?] $(#[$doc])* })*
        }

        static ROWS: &[Row] = &[$(
            Row {
                own: maybe!($(($number, stringify!($own)))?),
                tdh: maybe!($($tdh_number)?),
                show: $show,
                wires: wires::$wires,
                manifest: maybe!($($manifest)?),
            },
        )*];
    };
}

out_types! {
    /// As the in-type suggests; in TraceLogging it needs no OutType byte.
    tl NULL = 0 as "Default" tdh NULL = 0: Show::Plain, ANY;
    /// Not to be shown; most decoders show it.
    tl NOPRINT = 1 as "NoPrint" tdh NOPRINT = 301: Show::Plain, ANY, "win:NoPrint";
    /// Text; with an integer of 8 or 16 bits, one character.
    tl STRING = 2 as "String" tdh STRING = 1: Show::Character, NARROW, "xs:string";
    /// True or false, of an integer.
    tl BOOLEAN = 3 as "Boolean" tdh BOOLEAN = 13: Show::Boolean, INTEGER, "xs:boolean";
    /// Hexadecimal, of an integer of any width.
    tl HEX = 4 as "Hex": Show::Hex, INTEGER;
    /// Process id.
    tl PID = 5 as "Pid" tdh PID = 20: Show::Plain, ANY, "win:PID";
    /// Thread id.
    tl TID = 6 as "Tid" tdh TID = 21: Show::Plain, ANY, "win:TID";
    /// IP port; the 16 bits are big-endian.
    tl PORT = 7 as "Port" tdh PORT = 22: Show::Port, BITS16, "win:Port";
    /// IPv4 address in 32 bits, first octet in the first byte.
    tl IPV4 = 8 as "IPv4" tdh IPV4 = 23: Show::Ipv4, BITS32, "win:IPv4";
    /// IPv6 address, sixteen bytes of binary.
    tl IPV6 = 9 as "IPv6" tdh IPV6 = 24: Show::Ipv6, BYTES, "win:IPv6";
    /// A `sockaddr`, binary.
    tl SOCKETADDRESS = 10 as "SocketAddress" tdh SOCKETADDRESS = 25: Show::SocketAddress, BYTES, "win:SocketAddress";
    /// 8-bit text that is UTF-8.
    tl UTF8 = 35 as "Utf8" tdh UTF8 = 35: Show::Utf8, NARROW_TEXT, "win:Utf8";
    /// XML text; UTF-8 if it is 8-bit.
    tl XML = 11 as "Xml" tdh XML = 28: Show::Utf8, NARROW_TEXT, "win:Xml";
    /// JSON text; UTF-8 if it is 8-bit.
    tl JSON = 12 as "Json" tdh JSON = 34: Show::Utf8, NARROW_TEXT, "win:Json";
    /// Win32 error, of 32 bits.
    tl WIN32ERROR = 13 as "Win32Error" tdh WIN32ERROR = 30: Show::Status(StatusKind::Win32), BITS32, "win:Win32Error";
    /// NTSTATUS, of 32 bits.
    tl NTSTATUS = 14 as "NtStatus" tdh NTSTATUS = 31: Show::Status(StatusKind::NtStatus), BITS32, "win:NTSTATUS";
    /// HRESULT, of 32 bits.
    tl HRESULT = 15 as "HResult" tdh HRESULT = 32: Show::Status(StatusKind::HResult), BITS32, "win:HResult";
    /// Date and time; the in-types that are one imply it.
    tl FILETIME = 16 as "DateTime" tdh DATETIME = 2: Show::FileTime, BITS64, "xs:dateTime";
    /// Signed.
    tl SIGNED = 17 as "Signed": Show::Signed, ANY;
    /// Unsigned.
    tl UNSIGNED = 18 as "Unsigned": Show::Unsigned, ANY;
    /// Date and time, the same in every culture.
    tl DATETIME_CULTURE_INSENSITIVE = 33 as "DateTimeCultureInsensitive" tdh CULTURE_INSENSITIVE_DATETIME = 33: Show::FileTime, BITS64, "win:DateTimeCultureInsensitive";
    /// A PKCS 7 packet, behind it the type of what it holds.
    tl PKCS7_WITH_TYPE_INFO = 36 as "Pkcs7WithTypeInfo" tdh PKCS7_WITH_TYPE_INFO = 36: Show::Plain, ANY, "win:Pkcs7WithTypeInfo";
    /// The address of code.
    tl CODE_POINTER = 37 as "CodePointer" tdh CODE_POINTER = 37: Show::Hex, INTEGER, "win:CodePointer";
    /// Date and time in UTC.
    tl DATETIME_UTC = 38 as "DateTimeUtc" tdh DATETIME_UTC = 38: Show::FileTime, BITS64, "win:DateTimeUtc";
    /// `i8`.
    tdh BYTE = 3: Show::Plain, ANY, "xs:byte";
    /// `u8`.
    tdh UNSIGNEDBYTE = 4: Show::Plain, ANY, "xs:unsignedByte";
    /// `i16`.
    tdh SHORT = 5: Show::Plain, ANY, "xs:short";
    /// `u16`.
    tdh UNSIGNEDSHORT = 6: Show::Plain, ANY, "xs:unsignedShort";
    /// `i32`.
    tdh INT = 7: Show::Plain, ANY, "xs:int";
    /// `u32`.
    tdh UNSIGNEDINT = 8: Show::Plain, ANY, "xs:unsignedInt";
    /// `i64`.
    tdh LONG = 9: Show::Plain, ANY, "xs:long";
    /// `u64`.
    tdh UNSIGNEDLONG = 10: Show::Plain, ANY, "xs:unsignedLong";
    /// IEEE single.
    tdh FLOAT = 11: Show::Plain, ANY, "xs:float";
    /// IEEE double.
    tdh DOUBLE = 12: Show::Plain, ANY, "xs:double";
    /// GUID.
    tdh GUID = 14: Show::Plain, ANY, "xs:GUID";
    /// Bytes in hexadecimal.
    tdh HEXBINARY = 15: Show::Plain, ANY, "xs:hexBinary";
    /// 8 bits in hexadecimal.
    tdh HEXINT8 = 16: Show::Hex, INTEGER, "win:HexInt8";
    /// 16 bits in hexadecimal.
    tdh HEXINT16 = 17: Show::Hex, INTEGER, "win:HexInt16";
    /// 32 bits in hexadecimal.
    tdh HEXINT32 = 18: Show::Hex, INTEGER, "win:HexInt32";
    /// 64 bits in hexadecimal.
    tdh HEXINT64 = 19: Show::Hex, INTEGER, "win:HexInt64";
    /// A date and time of CIM.
    tdh CIMDATETIME = 26: Show::Plain, ANY, "win:CIMDateTime";
    /// A time of the session's clock.
    tdh ETWTIME = 27: Show::Plain, ANY, "win:ETWTIME";
    /// An error code in hexadecimal.
    tdh ERRORCODE = 29: Show::Hex, INTEGER, "win:ErrorCode";
    /// Text with its white space reduced.
    tdh REDUCEDSTRING = 300: Show::Plain, ANY;
}

impl OutType {
    fn row(self) -> Option<&'static Row> {
        ROWS.iter().find(|row| matches!(row.own, Some((number, _)) if number == self.0))
    }

    /// Microsoft's name for it, without the prefix `TlgOut`.
    pub fn name(self) -> Option<&'static str> {
        self.row()?.own.map(|(_, name)| name)
    }
}

impl tdh::OutType {
    fn row(self) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.tdh == Some(self.0))
    }

    /// The type's name in a manifest: `xs:unsignedInt`, `win:HexInt32`.
    pub fn manifest_name(self) -> Option<&'static str> {
        self.row()?.manifest
    }

    /// The type of a manifest's `outType`, with or without its prefix, in any case; none for an empty text.
    pub fn of_manifest(name: &str) -> Option<tdh::OutType> {
        fn without_prefix(name: &str) -> &str {
            name.rsplit_once(':').map_or(name, |(_, name)| name)
        }
        let name = without_prefix(name);
        if name.is_empty() {
            return Some(tdh::OutType::NULL);
        }
        let is_name = |row: &&Row| {
            // The end is compared first: no row needs its prefix cut off unless it may be the one.
            row.manifest.is_some_and(|known| {
                known.len() >= name.len()
                    && known.as_bytes()[known.len() - name.len()..]
                        .eq_ignore_ascii_case(name.as_bytes())
                    && without_prefix(known).len() == name.len()
            })
        };
        ROWS.iter().find(is_name)?.tdh.map(tdh::OutType)
    }

    /// The out-type by which values of this form are shown so.
    fn of_show(show: Show, wire: Wire) -> Option<tdh::OutType> {
        Some(match (show, wire) {
            (Show::Plain | Show::Signed | Show::Unsigned, _) => return None,
            (Show::Hex, Wire::I8 | Wire::U8) => tdh::OutType::HEXINT8,
            (Show::Hex, Wire::I16 | Wire::U16) => tdh::OutType::HEXINT16,
            (Show::Hex, Wire::I32 | Wire::U32) => tdh::OutType::HEXINT32,
            (Show::Hex, _) => tdh::OutType::HEXINT64,
            _ => {
                let row = ROWS.iter().find(|row| row.show == show && row.tdh.is_some());
                tdh::OutType(row?.tdh?)
            }
        })
    }
}

impl tdh::InType {
    /// How values are shown with an out-type; an illegal pair is shown as the in-type's default.
    pub fn show(self, out: tdh::OutType) -> Show {
        use tdh::InType;
        let default = match self {
            InType::BOOLEAN => Show::Boolean,
            InType::POINTER | InType::HEXINT32 | InType::HEXINT64 | InType::SIZET => Show::Hex,
            InType::UNICODECHAR | InType::ANSICHAR => Show::Character,
            _ => Show::Plain,
        };
        match (self.wire(), out.row()) {
            // These in-types have one form. A hexadecimal number may also be a status code.
            (_, Some(&Row { show: Show::Status(kind), .. })) if self == InType::HEXINT32 => {
                Show::HexStatus(kind)
            }
            _ if default != Show::Plain => default,
            (Some(wire), Some(row)) if row.wires & wire.group() != 0 => row.show,
            _ => default,
        }
    }
}

/// TDH's types for values that are stored and shown so, for schemas that name no TDH types.
pub fn tdh_types(wire: Wire, show: Show) -> (tdh::InType, tdh::OutType) {
    if let Show::HexStatus(kind) = show {
        let out = tdh::OutType::of_show(Show::Status(kind), wire);
        return (tdh::InType::HEXINT32, out.unwrap_or(tdh::OutType::NULL));
    }
    let in_type = tdh::InType::of_wire(match show {
        Show::Signed => wire.with_sign(true),
        Show::Unsigned => wire.with_sign(false),
        _ => wire,
    });
    let out = tdh::OutType::of_show(show, wire);
    (in_type, out.unwrap_or_else(|| in_type.default_out()))
}

/// The combined meaning of the two types of a TraceLogging field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldType {
    /// TDH's types.
    pub tdh: (tdh::InType, tdh::OutType),
    /// How a value is stored.
    pub wire: Wire,
    /// How it is shown.
    pub show: Show,
    /// Whether the field asks not to be shown to people.
    pub no_print: bool,
}

impl FieldType {
    /// `None` for in-types that cannot be decoded: unknown ones, [`InType::POINTER`], and [`InType::STRUCT`], which has no
    /// value.
    pub fn new(in_type: InType, out_type: OutType) -> Option<FieldType> {
        let wire = in_type.wire()?;
        // TraceLogging numbers its in-types as TDH does.
        let tdh_in = tdh::InType(in_type.0.into());
        let row = out_type.row().or_else(|| {
            let shared = out_type.0 > 32;
            ROWS.iter().find(|row| shared && row.tdh == Some(out_type.0.into()))
        });
        let (tdh, show) = match row {
            // Only signs are TraceLogging's alone: their in-types change.
            Some(Row { show: show @ (Show::Signed | Show::Unsigned), .. }) => {
                (tdh_types(wire, *show), *show)
            }
            Some(Row { tdh: Some(0), .. }) | None => {
                let out = tdh_in.default_out();
                ((tdh_in, out), tdh_in.show(out))
            }
            Some(row) => {
                let hex = tdh::OutType::of_show(Show::Hex, wire);
                let out = row.tdh.map(tdh::OutType).or(hex).unwrap_or(tdh::OutType::NULL);
                ((tdh_in, out), tdh_in.show(out))
            }
        };
        Some(FieldType { tdh, wire, show, no_print: out_type == OutType::NOPRINT })
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
    use super::tdh::InType as In;
    use super::tdh::OutType as Out;
    use super::*;

    #[test]
    fn out_types_print_their_names() {
        assert_eq!(OutType(34).to_string(), "OutType(34)");
        assert_eq!(OutType::DATETIME_UTC.to_string(), "DATETIME_UTC");
    }

    #[test]
    fn tdh_types_of_a_form_have_that_form() {
        for number in (0..=25).chain(300..=310) {
            let Some(wire) = In(number).wire() else { continue };
            for out in (0..=38).map(Out) {
                let show = In(number).show(out);
                let (in_type, out) = tdh_types(wire, show);
                assert_eq!((in_type.wire(), in_type.show(out)), (Some(wire), show), "{number}");
                // The default changes nothing.
                let default = In(number).default_out();
                assert_eq!(In(number).show(default), In(number).show(Out::NULL));
            }
        }
    }

    #[test]
    fn illegal_pairs_are_shown_as_the_in_type_suggests() {
        assert_eq!(In::UINT16.show(Out::PORT), Show::Port);
        assert_eq!(In::UINT32.show(Out::PORT), Show::Plain);
        assert_eq!(In::UINT16.show(Out::STRING), Show::Character);
        assert_eq!(In::UINT32.show(Out::STRING), Show::Plain);
        assert_eq!(In::POINTER.show(Out::NULL), Show::Hex);
        assert_eq!(In::HEXINT32.show(Out::NTSTATUS), Show::HexStatus(StatusKind::NtStatus));
        assert_eq!(In::HEXINT64.show(Out::NTSTATUS), Show::Hex);
        assert_eq!(In::HEXINT32.show(Out::BOOLEAN), Show::Hex);
        assert_eq!(In::HEXINT64.show(Out::DATETIME), Show::Hex);
        assert_eq!(In::BOOLEAN.show(Out::HEXINT32), Show::Boolean);
        assert_eq!(In::UNICODECHAR.show(Out::PORT), Show::Character);
        assert_eq!(In::BINARY.show(Out::IPV6), Show::Ipv6);
        assert_eq!(In(299).wire(), None);
    }

    #[test]
    fn manifest_names_are_found_with_any_prefix_and_case() {
        assert_eq!(Out::of_manifest("win:hresult"), Some(Out::HRESULT));
        assert_eq!(Out::of_manifest("xs:unsignedInt"), Some(Out::UNSIGNEDINT));
        assert_eq!(Out::of_manifest(""), Some(Out::NULL));
        assert_eq!(Out::of_manifest("win:Nothing"), None);
        assert_eq!(Out::HEXINT32.manifest_name(), Some("win:HexInt32"));
    }

    #[test]
    fn numbers_are_unique() {
        for row in ROWS {
            let same_tdh = |other: &&Row| row.tdh.is_some() && other.tdh == row.tdh;
            assert!(ROWS.iter().filter(same_tdh).count() <= 1);
            let same =
                |other: &&Row| row.own.is_some() && other.own.map(|o| o.0) == row.own.map(|o| o.0);
            assert!(ROWS.iter().filter(same).count() <= 1);
        }
    }
}
